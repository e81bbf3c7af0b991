//! Instructions per row: a measure of cost that does not depend on other processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use fairmesh_lab::LabError;
use serde::{Deserialize, Serialize};

use super::row::{Cost, child};

/// Maximum relative difference between the cost of a row and its stored count.
pub const COST_TOLERANCE: f64 = 0.025;

/// Number of transmissions after which a row is long enough.
///
/// Under valgrind a run is about 50 times slower than on the machine.
pub const MIN_TRANSMISSIONS: f64 = 30_000.0;

/// Stored values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Simulated seconds.
    pub simulated_s: f64,
    /// PHY transmissions in that time.
    pub transmissions: u64,
    /// Packets that reached their endpoints in that time; 0 in records without this count.
    #[serde(default)]
    pub delivered: u64,
    /// Instructions of the whole process.
    pub instructions: u64,
}

/// Stored counts by row.
pub type Kept = BTreeMap<String, Count>;

/// Runs a row under valgrind's cachegrind, without cache simulation.
///
/// # Errors
/// Returns an error if valgrind is missing or reports nothing.
pub fn count(folder: &Path, row: &str, seconds: f64) -> Result<Count, LabError> {
    let needs = "expected valgrind (Debian: apt-get install valgrind)";
    let inner = child(folder, row, Some(seconds))?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| LabError::file("valgrind", format!("{e}; {needs}")))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let instructions = instructions(&words).ok_or_else(|| {
        let last = words.lines().last().unwrap_or_default();
        LabError::file("valgrind", format!("no count of instructions ({last}); {needs}"))
    })?;
    let cost: Cost = serde_json::from_slice(&output.stdout).map_err(|e| LabError::run(row, e))?;
    Ok(Count {
        simulated_s: seconds,
        transmissions: cost.transmissions,
        delivered: cost.delivered,
        instructions,
    })
}

/// Returns the number in `==123== I   refs:      1,234,567`.
fn instructions(text: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.contains("I   refs:") || l.contains("I refs:"))?;
    line.rsplit(':').next()?.trim().replace(',', "").parse().ok()
}

/// Compares a row with the stored one; returns the difference, if any.
pub fn compare(kept: Option<&Count>, found: &Count) -> Option<String> {
    let Some(kept) = kept else { return Some("none kept".to_owned()) };
    let same = (kept.simulated_s, kept.transmissions) == (found.simulated_s, found.transmissions);
    if !same || ![0, found.delivered].contains(&kept.delivered) {
        return Some("another run: other transmissions than when it was kept".to_owned());
    }
    let change = found.instructions as f64 / kept.instructions as f64 - 1.0;
    let word = if change > 0.0 { "slower" } else { "faster" };
    (change.abs() > COST_TOLERANCE)
        .then(|| format!("{word}, by more than {:.1} %", COST_TOLERANCE * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found() {
        let text = "==7== Cachegrind\n==7== \n==7== I   refs:      1,234,567\n";
        assert_eq!(instructions(text), Some(1_234_567));
        assert_eq!(instructions("==7== no such thing"), None);
    }

    #[test]
    fn slower_faster_and_other_runs_are_reported() {
        let kept = Count { simulated_s: 1.0, transmissions: 10, delivered: 5, instructions: 1000 };
        let with = |instructions| Count { instructions, ..kept };
        assert_eq!(compare(Some(&kept), &with(1024)), None);
        assert!(compare(Some(&kept), &with(1030)).unwrap().starts_with("slower"));
        assert!(compare(Some(&kept), &with(970)).unwrap().starts_with("faster"));
        assert!(compare(Some(&kept), &Count { transmissions: 11, ..kept }).is_some());
        assert!(compare(Some(&kept), &Count { delivered: 6, ..kept }).is_some());
        assert!(compare(Some(&Count { delivered: 0, ..kept }), &kept).is_none());
        assert!(compare(None, &kept).is_some());
    }
}
