//! `KEY=V1,V2,…`: settings of a scenario file, and the grid they span.

use toml::{Table, Value};

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

/// Sets `key` in a scenario to `text`: a number, true or false where it reads as one, else a text.
///
/// Keys that do not exist yet are created in tables, so that a default can be varied; lists must
/// have the element.
///
/// # Errors
/// What is wrong, for the user.
pub fn set(root: &mut Table, key: &str, text: &str) -> Result<(), String> {
    put(root, key, &fairmesh_scenario::value(text))
}

/// As [`set`], with a value that is already one.
///
/// # Errors
/// What is wrong, for the user.
pub fn put(root: &mut Table, key: &str, value: &Value) -> Result<(), String> {
    fairmesh_scenario::put(root, key, value).map_err(|problem| format!("{key}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Table {
        toml::from_str(
            "duration = \"60 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[[flow]]\nfrom = 1\n\
             traffic = { kind = \"cbr\", rate = \"100 kbit/s\" }\n[[flow]]\nfrom = 2\n\
             traffic = { kind = \"cbr\", rate = \"100 kbit/s\" }\n",
        )
        .unwrap()
    }

    #[test]
    fn sets_every_element_one_element_and_new_keys() {
        let mut t = scenario();
        set(&mut t, "flow.*.traffic.rate", "150 kbit/s").unwrap();
        set(&mut t, "flow.1.from", "7").unwrap();
        set(&mut t, "radio.rts", "true").unwrap();
        set(&mut t, "control.alpha", "0.5").unwrap();
        let flow = |i: usize| &t["flow"][i];
        assert_eq!(flow(0)["traffic"]["rate"].as_str(), Some("150 kbit/s"));
        assert_eq!(flow(1)["traffic"]["rate"].as_str(), Some("150 kbit/s"));
        assert_eq!(
            (flow(0)["from"].as_integer(), flow(1)["from"].as_integer()),
            (Some(1), Some(7))
        );
        assert_eq!(t["radio"]["rts"].as_bool(), Some(true));
        assert_eq!(t["control"]["alpha"].as_float(), Some(0.5));
    }

    #[test]
    fn refuses_what_is_not_there_and_says_so() {
        let e = |key: &str| set(&mut scenario(), key, "1").unwrap_err();
        assert!(e("flow.9.from").contains("list of 2"));
        assert!(e("flow.from").contains("expected * or a number"));
        assert!(e("duration.x").contains("duration is string"));
    }

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
        fn never_panics(key in "[a-z0-9.*]{0,12}", text in "\\PC{0,12}") {
            let _ = set(&mut scenario(), &key, &text);
            let _ = Axis::parse(&format!("{key}={text}"));
        }
    }
}
