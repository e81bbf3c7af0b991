//! Rows of the benchmark in ns-3, by the harness of validation/ns3 or validation/ns3-modern.

use std::path::{Path, PathBuf};
use std::process::Command;

use fairmesh_lab::LabError;
use serde::Deserialize;

use crate::validation::reference::Case;

/// Output of the ns-3 harness for a run.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// PHY transmissions.
    #[serde(alias = "psdus")]
    pub transmissions: u64,
    /// MPDUs in the frames, if there are A-MPDUs.
    pub mpdus: Option<u64>,
    /// User CPU of the simulation loop, in s.
    pub user_s: f64,
}

impl Run {
    /// Returns MPDUs per CPU-second.
    pub fn speed(&self) -> f64 {
        self.mpdus.unwrap_or(self.transmissions) as f64 / self.user_s.max(1e-9)
    }
}

/// Returns the harness, and builds it if it does not exist.
///
/// # Errors
/// Returns an error if it cannot be built; the message names the requirements.
pub fn harness(folder: &Path) -> Result<PathBuf, LabError> {
    let program = folder.join("build/harness");
    if !program.exists() {
        let needs =
            "expected make, g++ and ns-3.37 (Debian 12: apt-get install g++ make libns3-dev)";
        let built = Command::new("make")
            .arg("-C")
            .arg(folder)
            .output()
            .map_err(|e| LabError::file(&program, format!("make: {e}; {needs}")))?;
        if !built.status.success() {
            let words = String::from_utf8_lossy(&built.stderr);
            let last = words.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
            return Err(LabError::file(&program, format!("cannot be built ({last}); {needs}")));
        }
    }
    program.canonicalize().map_err(|e| LabError::file(&program, e))
}

/// Runs a row with seed 1.
///
/// # Errors
/// Returns an error if the harness fails.
pub fn run(harness: &Path, folder: &Path, case: &Case) -> Result<Run, LabError> {
    let failed = |problem: String| LabError::run(format!("ns-3, {}", case.tag), problem);
    let output = Command::new(harness)
        .args(&case.harness_arguments)
        .arg("--seed=1")
        .current_dir(folder)
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_the_count_are_read() {
        for key in ["psdus", "transmissions"] {
            let r: Run = serde_json::from_str(&format!("{{\"{key}\":90,\"user_s\":0.5}}")).unwrap();
            assert_eq!(r.speed(), 180.0);
        }
        let r: Run = serde_json::from_str(r#"{"psdus":90,"mpdus":900,"user_s":0.5}"#).unwrap();
        assert_eq!(r.speed(), 1800.0);
    }
}
