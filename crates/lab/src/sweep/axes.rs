//! Varied keys, the grid of their values, and filters of its points.

use fairmesh_scenario::value;
use serde::{Deserialize, Serialize};
use toml::Value;

/// Largest number of points of a grid.
pub const MAX_POINTS: u64 = 10_000_000;

/// Reason why values of a key cannot be used.
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
    /// More combinations than a sweep may have.
    #[error("there are {found} combinations of values; expected at most {MAX_POINTS}")]
    TooMany {
        /// Number of combinations.
        found: u128,
    },
}

/// Keys that vary together: row `i` has the `i`-th value of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Dotted paths; `*` stands for every element of a list, a number for one element.
    pub keys: Vec<String>,
    /// Values as written, in the order of the keys.
    pub rows: Vec<Vec<String>>,
}

impl Axis {
    /// Builds the axis of one key.
    ///
    /// # Errors
    /// Returns an error if a value is given twice.
    pub fn of(key: &str, values: Vec<String>) -> Result<Self, AxisError> {
        for (i, v) in values.iter().enumerate() {
            if values[..i].contains(v) {
                return Err(AxisError::Twice { key: key.to_owned(), value: v.clone() });
            }
        }
        let rows = values.into_iter().map(|v| vec![v]).collect();
        Ok(Axis { keys: vec![key.to_owned()], rows })
    }

    /// Reads `KEY=V1,V2,…`.
    ///
    /// # Errors
    /// Returns an error if the text does not have this form, or has a value twice.
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
        Axis::of(key, values)
    }
}

/// Returns a value as written on a command line.
/// Text has no quotes unless it would be read as another type.
pub fn written(found: &Value) -> String {
    match found {
        Value::String(text) if value(text) == *found => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the numbers of a range such as `1..=20` or `1..21`; `None` for other text.
pub fn range(text: &str) -> Option<std::ops::RangeInclusive<i64>> {
    let (from, to) = text.split_once("..")?;
    let from: i64 = from.trim().parse().ok()?;
    let last = match to.strip_prefix('=') {
        Some(last) => last.trim().parse().ok()?,
        None => to.trim().parse::<i64>().ok()?.checked_sub(1)?,
    };
    let count = last.checked_sub(from)?;
    (0..MAX_POINTS as i64).contains(&count).then_some(from..=last)
}

/// All combinations of the rows of some axes, the last axis varying fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    axes: Vec<Axis>,
    points: usize,
}

impl Grid {
    /// Builds the grid of some axes; without any it has one point.
    ///
    /// # Errors
    /// Returns an error if it has more than [`MAX_POINTS`].
    pub fn new(axes: Vec<Axis>) -> Result<Self, AxisError> {
        let found = axes.iter().map(|a| a.rows.len() as u128).product();
        if found > u128::from(MAX_POINTS) {
            return Err(AxisError::TooMany { found });
        }
        Ok(Grid { axes, points: found as usize })
    }

    /// Returns the axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the varied keys, in the order of the values of a point.
    pub fn keys(&self) -> Vec<String> {
        self.axes.iter().flat_map(|a| a.keys.iter().cloned()).collect()
    }

    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.points
    }

    /// Returns true if there is no point.
    pub fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// Returns the number of the row of an axis at a point.
    pub fn row(&self, axis: usize, point: usize) -> usize {
        let faster: usize = self.axes[axis + 1..].iter().map(|a| a.rows.len()).product();
        point / faster % self.axes[axis].rows.len()
    }

    /// Returns the value of every key at a point, as written.
    pub fn point(&self, point: usize) -> Vec<&str> {
        let rows = self.axes.iter().enumerate().map(|(i, axis)| &axis.rows[self.row(i, point)]);
        rows.flatten().map(String::as_str).collect()
    }
}

/// Condition on the values of keys: each key has one of its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filter(pub Vec<(String, Vec<String>)>);

impl Filter {
    /// Returns true if every key has one of the values.
    pub fn matches(&self, value: impl Fn(&str) -> Option<String>) -> bool {
        self.0.iter().all(|(key, values)| value(key).is_some_and(|found| values.contains(&found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_and_their_grid() {
        let axes = [Axis::parse("radio.rts=false,true").unwrap(), Axis::parse("a=1,2, 3").unwrap()];
        assert_eq!(axes[1].rows, [["1"], ["2"], ["3"]]);
        let g = Grid::new(axes.to_vec()).unwrap();
        assert_eq!((g.len(), g.keys()), (6, vec!["radio.rts".to_owned(), "a".to_owned()]));
        assert_eq!(g.point(1), ["false", "2"]);
        assert_eq!(g.point(5), ["true", "3"]);
        let none = Grid::new(Vec::new()).unwrap();
        assert_eq!((none.len(), none.point(0)), (1, Vec::new()));
        for bad in ["rts", "=1", "a=", "a=1,,2", "a=1,1", "a..b=1"] {
            assert!(Axis::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_of_one_axis_vary_together() {
        let rows = [["2", "x"], ["3", "y"]].map(|r| r.map(str::to_owned).to_vec()).to_vec();
        let together = Axis { keys: vec!["a".into(), "b".into()], rows };
        let g = Grid::new(vec![together, Axis::parse("c=0,1").unwrap()]).unwrap();
        let points: Vec<_> = (0..g.len()).map(|i| g.point(i).join(" ")).collect();
        assert_eq!(points, ["2 x 0", "2 x 1", "3 y 0", "3 y 1"]);
    }

    #[test]
    fn ranges_of_whole_numbers() {
        assert_eq!(range("1..=3"), Some(1..=3));
        assert_eq!(range("-2..1"), Some(-2..=0));
        for bad in ["1", "1..", "..=2", "3..=1", "1..1", "a..=b", "0..=99999999999"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }

    #[test]
    fn grids_that_are_too_large_are_refused() {
        let axis = |key: &str| Axis::of(key, (0..10_000).map(|n| n.to_string()).collect()).unwrap();
        let e = Grid::new(vec![axis("a"), axis("b")]).unwrap_err().to_string();
        assert!(e.starts_with("there are 100000000 combinations"), "{e}");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,24}") {
            let _ = Axis::parse(&text);
            let _ = range(&text);
        }
    }
}
