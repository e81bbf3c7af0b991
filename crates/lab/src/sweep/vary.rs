//! Varied settings of a scenario file (`KEY=V1,V2,…`), and the grid of their combinations.

/// Reason why the values of a key cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// The text has another form.
    #[error("\"{found}\": expected KEY=VALUE,VALUE,… such as radio.rts=false,true")]
    Form {
        /// The text.
        found: String,
    },
    /// A value is given twice.
    #[error("{key}: {value} is given twice; expected each value once")]
    Twice {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
}

/// One setting and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Dotted path; `*` stands for every element of a list, a number for one element.
    pub key: String,
    /// The values, as written.
    pub values: Vec<String>,
}

impl Axis {
    /// Reads `KEY=V1,V2,…`.
    ///
    /// # Errors
    /// If the text does not have this form, or has a value twice.
    pub fn parse(text: &str) -> Result<Self, AxisError> {
        let form = || AxisError::Form { found: text.to_owned() };
        let (key, values) = text.split_once('=').ok_or_else(form)?;
        let key = key.trim();
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        if key.is_empty()
            || key.split('.').any(str::is_empty)
            || values.iter().any(String::is_empty)
        {
            return Err(form());
        }
        for (i, v) in values.iter().enumerate() {
            if values[..i].contains(v) {
                return Err(AxisError::Twice { key: key.to_owned(), value: v.clone() });
            }
        }
        Ok(Axis { key: key.to_owned(), values })
    }
}

/// One combination: a value, as written, per axis.
pub type Point = Vec<String>;

/// Returns every combination, the last axis varying fastest.
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
