//! Shared by the tests.
#![allow(dead_code)]

use fairmesh_scenario::{ImportOptions, Scenario, ScenarioError, parse};

/// Reads a scenario that must be right.
pub fn read(text: &str) -> Scenario {
    match parse("test.toml", text.as_bytes(), &ImportOptions::default()) {
        Ok(s) => s,
        Err(e) => panic!("{e}"),
    }
}

/// Reads a scenario that must be wrong.
pub fn refuse(text: &str) -> ScenarioError {
    match parse("test.toml", text.as_bytes(), &ImportOptions::default()) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(e) => {
            let line = e.to_string();
            assert!(!line.contains('\n'), "more than one line: {line}");
            assert!(line.contains("; expected "), "no expectation: {line}");
            e
        }
    }
}

/// The paths of a scenario's flows, by index.
pub fn paths(s: &Scenario) -> Vec<Vec<u32>> {
    s.flows.iter().map(|f| f.path.iter().map(|n| n.0).collect()).collect()
}

/// Wall-clock time, to hold the parser to its promise of failing fast.
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts.
    #[expect(clippy::disallowed_methods, reason = "measures the code, not the model")]
    pub fn start() -> Self {
        Stopwatch(std::time::Instant::now())
    }

    /// Fails if more than `seconds` have passed. The limits leave room for a loaded machine.
    pub fn at_most(&self, seconds: f64, what: &str) {
        let took = self.0.elapsed().as_secs_f64();
        assert!(took < seconds, "{what} took {took} s");
    }
}
