//! Metrics in Prometheus text format 0.0.4.
//!
//! The table of families is also the page of the documentation.

use std::fmt::Write;

/// Change of a value over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Never decreases during a run of the daemon.
    Counter,
    /// May take any value.
    Gauge,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// Metrics of one name.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Name without the daemon's prefix, with the base unit at its end.
    pub name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
}

/// Returns a gauge with these labels.
pub const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind: Kind::Gauge, labels, help }
}

/// Returns a counter with these labels.
pub const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind: Kind::Counter, labels, help }
}

/// Families of one subject.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Heading of the subject.
    pub title: &'static str,
    /// Condition under which the families are present, in Markdown; may be empty.
    pub note: &'static str,
    /// The families.
    pub families: &'static [Family],
}

/// A family and its value for each item of one kind.
pub type Column<T, V = f64> = (&'static str, fn(&T) -> V);

/// A page that is being written.
#[derive(Debug)]
pub struct Page {
    prefix: &'static str,
    groups: &'static [Group],
    /// Name of the last value.
    last: &'static str,
    text: String,
}

impl Page {
    /// Returns an empty page; `prefix` ends with an underscore.
    pub fn new(prefix: &'static str, groups: &'static [Group]) -> Page {
        Page { prefix, groups, last: "", text: String::with_capacity(4096) }
    }

    /// Adds a value, with the labels in the family's order.
    ///
    /// Values of one family follow one another.
    ///
    /// # Panics
    /// In builds with assertions, if the family is not in the table or the number of labels differs.
    pub fn add(&mut self, name: &str, labels: &[&str], value: f64) {
        let family = self.groups.iter().flat_map(|g| g.families).find(|f| f.name == name);
        let Some(family) = family.filter(|f| f.labels.len() == labels.len()) else {
            debug_assert!(false, "{name}, {} labels: no such family", labels.len());
            return;
        };
        let prefix = self.prefix;
        if self.last != family.name {
            self.last = family.name;
            let _ = writeln!(self.text, "# HELP {prefix}{name} {}.", family.help);
            let _ = writeln!(self.text, "# TYPE {prefix}{name} {}", family.kind.name());
        }
        let _ = write!(self.text, "{prefix}{name}");
        for (i, (label, value)) in family.labels.iter().zip(labels).enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escape(value));
        }
        let end = if labels.is_empty() { " " } else { "} " };
        let _ = match value {
            v if v.is_finite() => writeln!(self.text, "{end}{v}"),
            v if v.is_nan() => writeln!(self.text, "{end}NaN"),
            v if v > 0.0 => writeln!(self.text, "{end}+Inf"),
            _ => writeln!(self.text, "{end}-Inf"),
        };
    }

    /// Adds the only value of a family without labels.
    pub fn one(&mut self, name: &str, value: impl Into<f64>) {
        self.add(name, &[], value.into());
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Escapes a label's value.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the tables of all families, in Markdown, below headings of the third level.
pub fn tables(groups: &[Group]) -> String {
    let mut page = String::new();
    for Group { title, note, families } in groups {
        page += &format!("\n### {title}\n");
        if !note.is_empty() {
            page += &format!("{note}\n\n");
        }
        page += "| name | labels | value |\n|---|---|---|\n";
        for Family { name, labels, help, .. } in *families {
            let labels: Vec<String> = labels.iter().map(|l| format!("`{l}`")).collect();
            page += &format!("| `{name}` | {} | {help} |\n", labels.join(", "));
        }
    }
    page
}

/// Fails if a family is listed twice or never written.
///
/// `path` is the file of the table and its page, below `src`.
#[cfg(test)]
pub(crate) fn assert_all_written(groups: &[Group], path: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
    let text = std::fs::read_to_string(file).unwrap();
    let (_, writers) = text.split_once("/// End of the table.").unwrap();
    let mut names = std::collections::BTreeSet::new();
    for family in groups.iter().flat_map(|g| g.families) {
        assert!(names.insert(family.name), "{path}: {} is listed twice", family.name);
        let quoted = format!("\"{}\"", family.name);
        assert!(writers.contains(&quoted), "{path}: {} is never written", family.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &[Group] = &[Group {
        title: "Test",
        note: "",
        families: &[
            gauge("homes", &[], "Known homes"),
            counter("sent_bytes_total", &["home", "direction"], "IP bytes sent"),
        ],
    }];

    #[test]
    fn a_page_has_one_header_for_each_family() {
        let mut page = Page::new("mesh_", GROUPS);
        page.one("homes", 2);
        page.add("sent_bytes_total", &["a\"b\\c\nd", "down"], 1.5);
        page.add("sent_bytes_total", &["roof", "up"], f64::INFINITY);
        let expected = "# HELP mesh_homes Known homes.\n# TYPE mesh_homes gauge\nmesh_homes 2\n\
            # HELP mesh_sent_bytes_total IP bytes sent.\n# TYPE mesh_sent_bytes_total counter\n\
            mesh_sent_bytes_total{home=\"a\\\"b\\\\c\\nd\",direction=\"down\"} 1.5\n\
            mesh_sent_bytes_total{home=\"roof\",direction=\"up\"} +Inf\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    #[should_panic(expected = "no such family")]
    fn a_family_outside_of_the_table_is_a_defect() {
        Page::new("mesh_", GROUPS).one("rooms", 1);
    }
}
