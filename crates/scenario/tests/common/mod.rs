//! Helpers of the tests.
#![allow(dead_code)]

use fairmesh_scenario::{ImportOptions, Scenario, ScenarioError, parse};

/// Reads a valid scenario.
pub fn read(text: &str) -> Scenario {
    match parse("test.toml", text.as_bytes(), &ImportOptions::default()) {
        Ok(s) => s,
        Err(e) => panic!("{e}"),
    }
}

/// Reads an invalid scenario.
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

/// Returns the paths of a scenario's flows, by index.
pub fn paths(s: &Scenario) -> Vec<Vec<u32>> {
    s.flows().iter().map(|f| f.path.iter().map(|n| n.0).collect()).collect()
}
