//! The declaration: radios, queues, transports, topologies, and the cases that are made of them.

use fairmesh_lab::LabError;
use fairmesh_units::Span;
use serde::Deserialize;

use super::DECLARATION;
use crate::reproduce::catalogue::Catalogue;

/// `today.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Seeds 1 to this.
    pub seeds: u32,
    /// What `--quick` changes.
    pub quick: Quick,
    /// What a case is where it says nothing.
    pub usual: Usual,
    /// Radios.
    #[serde(rename = "radio")]
    pub radios: Vec<Radio>,
    /// Queues of every interface.
    #[serde(rename = "queue")]
    pub queues: Vec<Queue>,
    /// Congestion controls.
    #[serde(rename = "tcp")]
    pub tcps: Vec<Tcp>,
    /// Topologies.
    #[serde(rename = "topology")]
    pub topologies: Vec<Topology>,
    /// Cases by the question that they answer.
    #[serde(rename = "section")]
    pub sections: Vec<Section>,
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

/// What a case is where it says nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usual {
    /// Name of a radio.
    pub radio: String,
    /// Whether frames carry A-MPDUs.
    pub aggregated: bool,
    /// Name of a queue.
    pub queue: String,
    /// Name of a congestion control.
    pub tcp: String,
    /// Name of a control.
    pub control: String,
}

/// A radio.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Radio {
    /// What cases call it.
    pub name: String,
    /// What the page calls it.
    pub label: String,
    /// Its rate in words.
    pub about: String,
    /// Keys of `[radio]`.
    pub radio: String,
    /// Keys of a slow link.
    pub slow: String,
}

/// A queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// What cases and page call it.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Value of `radio.queue`.
    pub queue: String,
}

/// A congestion control.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// What cases and page call it.
    pub name: String,
    /// Value of `traffic.transport.tcp`.
    pub tcp: String,
}

/// A topology with its traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Its name in tables.
    pub label: String,
    /// What it is.
    pub about: String,
    /// Keys of `[topology]`, then other tables; `{slow}` stands for the keys of a slow link.
    pub layout: String,
    /// Keys of `[traffic]`, then `[[flow]]`.
    pub flows: String,
}

/// Cases that answer a question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// What all of its cases share.
    pub about: String,
    /// Simulated time.
    pub duration: String,
    /// Start of the measured interval.
    pub warmup: String,
    /// Its cases.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
}

/// A case; what it does not name is usual.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name in tables.
    pub label: String,
    /// Name of a radio.
    pub radio: Option<String>,
    /// Whether frames carry A-MPDUs.
    pub aggregated: Option<bool>,
    /// Name of a queue.
    pub queue: Option<String>,
    /// Name of a congestion control.
    pub tcp: Option<String>,
    /// Whether flows take marks.
    #[serde(default)]
    pub ecn: bool,
    /// Name of a control.
    pub control: Option<String>,
}

impl Declaration {
    /// Reads and checks it.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(catalogue: &Catalogue) -> Result<Self, LabError> {
        let text = catalogue.file(DECLARATION)?.ok_or_else(|| {
            let problem =
                "there is no such file; expected the declaration of fairmesh-experiments side-by-side --today";
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
        let cases = || self.sections.iter().flat_map(|s| &s.cases);
        let all: Vec<Vec<&str>> = self
            .sections
            .iter()
            .map(|s| s.cases.iter().map(|c| c.label.as_str()).collect())
            .collect();
        for names in all.iter().chain([&labels]) {
            if let Some(twice) = names.iter().enumerate().find(|(i, l)| names[..*i].contains(l)) {
                return Err(format!("label \"{}\" is given twice; expected each once", twice.1));
            }
        }
        if let Some(unknown) = self.quick.topologies.iter().find(|t| !labels.contains(&t.as_str()))
        {
            return Err(format!(
                "quick.topologies: there is no topology \"{unknown}\"; expected labels of topologies"
            ));
        }
        time(&self.quick.duration).map_err(|e| format!("quick: {e}"))?;
        for s in &self.sections {
            time(&s.duration).and(time(&s.warmup)).map_err(|e| format!("\"{}\": {e}", s.title))?;
        }
        for case in cases() {
            self.of(case).map_err(|e| format!("\"{}\": {e}", case.label))?;
        }
        Ok(())
    }

    /// What a case is made of.
    pub(super) fn of(&self, case: &Case) -> Result<Parts<'_>, String> {
        let usual = &self.usual;
        let or = |given: &Option<String>, usual: &str| given.as_deref().unwrap_or(usual).to_owned();
        let (radio, queue) = (or(&case.radio, &usual.radio), or(&case.queue, &usual.queue));
        let (tcp, control) = (or(&case.tcp, &usual.tcp), or(&case.control, &usual.control));
        let missing = |what: &str, name: &str| {
            format!("there is no {what} \"{name}\"; expected the name of one")
        };
        fairmesh_control::Registry::standard()
            .lookup(&control)
            .map_err(|e| format!("control: {e}"))?;
        Ok(Parts {
            radio: find(&self.radios, |r| r.name == radio)
                .ok_or_else(|| missing("radio", &radio))?,
            queue: find(&self.queues, |q| q.name == queue)
                .ok_or_else(|| missing("queue", &queue))?,
            tcp: find(&self.tcps, |t| t.name == tcp).ok_or_else(|| missing("tcp", &tcp))?,
            aggregated: case.aggregated.unwrap_or(usual.aggregated),
            ecn: case.ecn,
            control,
        })
    }
}

fn find<T>(all: &[T], is: impl Fn(&T) -> bool) -> Option<&T> {
    all.iter().find(|t| is(t))
}

/// What a case is made of.
pub(super) struct Parts<'a> {
    pub radio: &'a Radio,
    pub queue: &'a Queue,
    pub tcp: &'a Tcp,
    pub aggregated: bool,
    pub ecn: bool,
    pub control: String,
}

impl Parts<'_> {
    /// The scenario of a case on a topology.
    pub fn scenario(&self, topology: &Topology, duration: Span, warmup: Span) -> String {
        let radio = self.radio;
        // 802.11g knows no aggregates.
        let lone = if self.aggregated || radio.name == "g" { "" } else { "ampdu = \"0 B\"\n" };
        format!(
            "name = \"{}\"\nduration = \"{duration}\"\nwarmup = \"{warmup}\"\n\
             [radio]\n{}\n{lone}queue = {}\nreception = \"nocap\"\n\
             [traffic]\ntransport = {{ tcp = \"{}\", preset = \"linux\", ecn = {} }}\n{}\n\
             [topology]\n{}\n",
            topology.label,
            radio.radio,
            self.queue.queue,
            self.tcp.tcp,
            self.ecn,
            topology.flows,
            topology.layout.replace("{slow}", &radio.slow),
        )
    }
}

/// A time with its unit.
pub(super) fn time(text: &str) -> Result<Span, String> {
    text.parse().map_err(|e| format!("\"{text}\": {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = include_str!("../../../../reproductions/today/today.toml");

    #[test]
    fn the_declaration_builds_every_case_on_every_topology() {
        let d: Declaration = toml::from_str(KEPT).unwrap();
        d.check().unwrap();
        assert_eq!(d.topologies.len(), 10);
        let (duration, warmup) = (Span::from_secs(2), Span::from_secs(1));
        for case in d.sections.iter().flat_map(|s| &s.cases) {
            for t in &d.topologies {
                let text = d.of(case).unwrap().scenario(t, duration, warmup);
                let options = fairmesh_scenario::ImportOptions::default();
                let s = fairmesh_scenario::parse("x.toml", text.as_bytes(), &options);
                let s = s.unwrap_or_else(|e| panic!("{} on {}: {e}\n{text}", case.label, t.label));
                let lone = s.mac().phy.as_modern().is_none_or(|m| m.ampdu == 0);
                assert_eq!(lone, case.label.contains("lone frames"), "{}", case.label);
            }
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, wanted) in [
            ("seeds = 2", "seeds = 0", "at least 1"),
            ("control = \"wcp\"", "control = \"telepathy\"", "telepathy"),
            ("queue = \"fq_codel\"\n", "queue = \"fq\"\n", "no queue \"fq\""),
            ("radio = \"n\"", "radio = \"be\"", "no radio \"be\""),
            ("tcp = \"BBR\"", "tcp = \"Vegas\"", "no tcp \"Vegas\""),
            ("label = \"tree, up\"", "label = \"tree, down\"", "given twice"),
            ("duration = \"90 s\"", "duration = \"90\"", "\"Controls\": \"90\""),
            ("\"Stack\", \"slow", "\"Stick\", \"slow", "no topology \"Stick\""),
        ] {
            let text = KEPT.replacen(from, to, 1);
            assert_ne!(text, KEPT, "{from}");
            let d: Declaration = toml::from_str(&text).unwrap();
            let problem = d.check().unwrap_err();
            assert!(problem.contains(wanted), "{problem}");
        }
    }
}
