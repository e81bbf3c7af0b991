//! The declaration: topologies, maps, seeds, and which variants are left out.

use fairmesh_lab::LabError;
use fairmesh_units::Span;
use serde::Deserialize;

use super::DECLARATION;
use crate::reproduce::catalogue::Catalogue;

/// `side-by-side.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Seeds 1 to this.
    pub seeds: u32,
    /// What `--quick` changes.
    pub quick: Quick,
    /// Topologies of the papers.
    #[serde(rename = "topology")]
    pub topologies: Vec<Topology>,
    /// Real maps, which are no part of the project.
    #[serde(rename = "map", default)]
    pub maps: Vec<Map>,
    /// Controls that are not compared.
    #[serde(default)]
    pub leave_out: Vec<LeaveOut>,
}

/// A quick look.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Seeds 1 to this.
    pub seeds: u32,
    /// Labels of the topologies that run.
    pub topologies: Vec<String>,
    /// Simulated time of all of them; the last half is measured.
    pub duration: String,
}

/// A topology of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Its name in tables.
    pub label: String,
    /// Short name of the paper.
    pub paper: String,
    /// File in the folder of scenarios.
    pub scenario: String,
    /// Simulated time.
    pub duration: String,
    /// Start of the measured interval.
    pub warmup: String,
}

/// A real map.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// Its name in tables.
    pub label: String,
    /// Name of the file by which it is known.
    pub file: String,
    /// Its gateway.
    pub gateway: String,
    /// Direction of its flows.
    pub flows: Direction,
    /// PHY, as `--phy` has it.
    pub phy: String,
    /// Simulated time.
    pub duration: String,
    /// Start of the measured interval.
    pub warmup: String,
}

/// Direction of the flows of a map.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the gateway.
    Up,
    /// From it.
    Down,
}

impl From<Direction> for fairmesh_scenario::Direction {
    fn from(d: Direction) -> Self {
        match d {
            Direction::Up => Self::Up,
            Direction::Down => Self::Down,
        }
    }
}

/// Controls that are not compared, and why.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaveOut {
    /// Their names.
    pub controls: Vec<String>,
    /// Why.
    pub because: String,
    /// Labels of the topologies and maps where they are not run; empty: nowhere at all.
    #[serde(default)]
    pub on: Vec<String>,
}

impl Declaration {
    /// Reads and checks it.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(catalogue: &Catalogue) -> Result<Self, LabError> {
        let text = catalogue.file(DECLARATION)?.ok_or_else(|| {
            let problem =
                "there is no such file; expected the declaration of fairmesh-experiments side-by-side";
            LabError::file(catalogue.shown(DECLARATION), problem)
        })?;
        let declaration: Declaration = catalogue.toml(DECLARATION, &text)?;
        declaration.check().map_err(|e| LabError::file(catalogue.shown(DECLARATION), e))?;
        Ok(declaration)
    }

    fn check(&self) -> Result<(), String> {
        if self.seeds == 0 || self.quick.seeds == 0 {
            return Err("seeds: found 0; expected at least 1".to_owned());
        }
        let labels: Vec<&str> = self.topologies.iter().map(|t| t.label.as_str()).collect();
        let maps: Vec<&str> = self.maps.iter().map(|m| m.label.as_str()).collect();
        let all: Vec<&str> = labels.iter().chain(&maps).copied().collect();
        if let Some(twice) = all.iter().enumerate().find(|(i, l)| all[..*i].contains(l)) {
            return Err(format!("label \"{}\" is given twice; expected each once", twice.1));
        }
        if let Some(unknown) = self.quick.topologies.iter().find(|t| !labels.contains(&t.as_str()))
        {
            return Err(format!(
                "quick.topologies: there is no topology \"{unknown}\"; expected labels of topologies"
            ));
        }
        let times = self.topologies.iter().map(|t| (&t.label, &t.duration, &t.warmup));
        let times = times.chain(self.maps.iter().map(|m| (&m.label, &m.duration, &m.warmup)));
        for (label, duration, warmup) in times {
            time(duration).and(time(warmup)).map_err(|e| format!("\"{label}\": {e}"))?;
        }
        time(&self.quick.duration).map_err(|e| format!("quick: {e}"))?;
        for left in self.leave_out.iter().flat_map(|l| &l.controls) {
            // A name that has gone would hide the next control of that name.
            fairmesh_control::Registry::standard()
                .lookup(left)
                .map_err(|e| format!("leave_out: {e}"))?;
        }
        let known: Vec<&String> = self
            .topologies
            .iter()
            .map(|t| &t.label)
            .chain(self.maps.iter().map(|m| &m.label))
            .collect();
        if let Some(unknown) =
            self.leave_out.iter().flat_map(|l| &l.on).find(|l| !known.contains(l))
        {
            return Err(format!(
                "leave_out.on: there is no topology or map \"{unknown}\"; expected labels of them"
            ));
        }
        Ok(())
    }
}

/// A time with its unit.
pub(super) fn time(text: &str) -> Result<Span, String> {
    text.parse().map_err(|e| format!("\"{text}\": {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
seeds = 5
quick = { seeds = 2, topologies = ["a"], duration = "10 s" }
[[topology]]
label = "a"
paper = "p"
scenario = "a.toml"
duration = "60 s"
warmup = "20 s"
[[leave_out]]
controls = ["wcp+alone"]
because = "a part"
"#;

    fn refused(from: &str, to: &str) -> String {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{from}");
        let read: Result<Declaration, _> = toml::from_str(&text);
        read.map_err(|e| e.to_string()).and_then(|d| d.check()).unwrap_err()
    }

    #[test]
    fn mistakes_are_named() {
        let good: Declaration = toml::from_str(GOOD).unwrap();
        good.check().unwrap();
        for (from, to, wanted) in [
            ("seeds = 5", "seeds = 0", "at least 1"),
            ("[\"a\"]", "[\"b\"]", "no topology \"b\""),
            ("\"60 s\"", "\"60\"", "\"a\": \"60\""),
            ("wcp+alone", "wcp+telepathy", "leave_out"),
            ("\"a part\"", "\"a part\"\non = [\"c\"]", "no topology or map \"c\""),
            ("paper", "papier", "papier"),
        ] {
            let problem = refused(from, to);
            assert!(problem.contains(wanted), "{problem}");
        }
    }
}
