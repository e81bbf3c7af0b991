//! State of a mesh router across restarts: the number of its run, and places of limits.

use std::io;

use serde::{Deserialize, Serialize};

use super::places::Places;
use crate::daemon::store::Store;

/// Version of the format.
const FORMAT_VERSION: u32 = 1;

/// Stored state.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct SavedState {
    /// Version of the format; other versions are not read.
    pub version: u32,
    /// Number of the last run.
    pub run: u32,
    /// Places at which that run may have set a limit.
    #[serde(flatten)]
    pub places: Places,
}

impl Default for SavedState {
    fn default() -> Self {
        SavedState { version: FORMAT_VERSION, run: 0, places: Places::default() }
    }
}

impl SavedState {
    /// Returns the state as the text of its file.
    pub fn text(&self) -> String {
        // Plain data can always be serialized.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads the state in a store; the default at the first start.
    ///
    /// # Errors
    /// A file that cannot be read or is refused.
    pub fn load(store: &mut Store) -> io::Result<SavedState> {
        let Some(text) = store.load()? else { return Ok(SavedState::default()) };
        let state: SavedState = serde_json::from_str(&text)?;
        if state.version != FORMAT_VERSION {
            return Err(io::Error::other(format!(
                "version {} is not {FORMAT_VERSION}",
                state.version
            )));
        }
        Ok(state)
    }

    /// Number of the next run: larger than the last one, whatever the clock shows.
    ///
    /// Seconds since 1970 keep it rising if the state is lost.
    pub fn next_run(&self, wall: u64) -> u32 {
        self.run.saturating_add(1).max(u32::try_from(wall).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_rise_over_lost_states_and_clocks_that_jump() {
        let at = |run| SavedState { run, ..SavedState::default() };
        assert_eq!(at(0).next_run(1_700_000_000), 1_700_000_000);
        assert_eq!(at(1_700_000_000).next_run(5), 1_700_000_001, "a router without a clock");
        assert_eq!(at(u32::MAX).next_run(5), u32::MAX);
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::new(folder.path());
        assert_eq!(SavedState::load(&mut store).unwrap(), SavedState::default());
        store.save(&at(7).text()).unwrap();
        assert_eq!(SavedState::load(&mut store).unwrap(), at(7));
        for wrong in ["", "{}", "{\"version\":9,\"run\":1,\"places\":[]}"] {
            std::fs::write(store.file(), wrong).unwrap();
            assert!(SavedState::load(&mut store).is_err(), "{wrong}");
        }
    }
}
