//! `KEY=V1,V2,…`: settings of a scenario file, and the grid they span.

/// One setting and the values it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Dotted path; `*` stands for every element of a list, a number for one.
    pub key: String,
    /// The values, as written.
    pub values: Vec<String>,
}

impl Axis {
    /// Reads `KEY=V1,V2,…`.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected KEY=VALUE,VALUE,… such as radio.rts=false,true";
        let (key, values) =
            text.split_once('=').ok_or_else(|| format!("\"{text}\": {expected}"))?;
        let key = key.trim();
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        if key.is_empty()
            || key.split('.').any(str::is_empty)
            || values.iter().any(String::is_empty)
        {
            return Err(format!("\"{text}\": {expected}"));
        }
        for (i, v) in values.iter().enumerate() {
            if values[..i].contains(v) {
                return Err(format!("{key}: {v} is given twice; expected each value once"));
            }
        }
        Ok(Axis { key: key.to_owned(), values })
    }
}

/// One combination: a value, as written, per axis.
pub type Point = Vec<String>;

/// Every combination, the last axis varying fastest.
pub fn grid(axes: &[Axis]) -> Vec<Point> {
    axes.iter().fold(vec![vec![]], |points, axis| {
        points
            .iter()
            .flat_map(|p| {
                axis.values.iter().map(move |v| [&p[..], std::slice::from_ref(v)].concat())
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_and_their_grid() {
        let axes = [Axis::parse("radio.rts=false,true").unwrap(), Axis::parse("a=1,2, 3").unwrap()];
        assert_eq!(axes[1].values, ["1", "2", "3"]);
        let g = grid(&axes);
        assert_eq!(g.len(), 6);
        assert_eq!(g[1], ["false", "2"]);
        assert_eq!(grid(&[]), [Point::new()]);
        for bad in ["rts", "=1", "a=", "a=1,,2", "a=1,1", "a..b=1"] {
            assert!(Axis::parse(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,24}") {
            let _ = Axis::parse(&text);
        }
    }
}
