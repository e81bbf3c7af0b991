//! Files of the daemons of several emulations.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use fairmesh_scenario::Scenario;
use fairmesh_units::Time;

use crate::configuration::{CONFIGURATION, EVENTS};
use crate::daemon::{Daemon, Program};
use crate::error::TestbedError;

/// Prepared daemons of several emulations.
///
/// Each has a temporary folder that is removed with the workspace.
#[derive(Debug)]
pub struct Workspace {
    folder: PathBuf,
    prepared: Vec<(String, RefCell<Option<Daemon>>)>,
}

impl Workspace {
    /// Prepares one daemon per scenario with a control, if `with_daemons`; starts nothing.
    ///
    /// The daemons start at the time `start` of their run.
    ///
    /// # Errors
    /// See [`Daemon::prepare`]; a temporary folder that cannot be made.
    pub fn new(
        scenarios: &[Scenario],
        with_daemons: bool,
        start: Time,
        program: &Program,
    ) -> Result<Self, TestbedError> {
        static WORKSPACES: AtomicU64 = AtomicU64::new(0);
        let number = WORKSPACES.fetch_add(1, Ordering::Relaxed);
        // Short: a socket's path has at most 107 bytes.
        let name = format!("fairmesh-{}.{number}", std::process::id());
        let mut all = Workspace { folder: std::env::temp_dir().join(name), prepared: Vec::new() };
        for scenario in scenarios {
            let mut daemon = None;
            if with_daemons && !scenario.control().is_none() {
                let folder = all.folder.join(scenario.control().to_string());
                std::fs::create_dir_all(&folder).map_err(TestbedError::file(&folder))?;
                daemon = Some(Daemon::prepare(scenario, &folder, start, program)?);
            }
            all.prepared.push((scenario.control().to_string(), RefCell::new(daemon)));
        }
        Ok(all)
    }

    /// Takes the daemon of the n-th scenario; `None` if it has none or was taken already.
    pub fn daemon(&self, scenario: usize) -> Option<Daemon> {
        self.prepared.get(scenario)?.1.take()
    }

    /// Returns names and contents of the daemons' configurations and events, for a result folder.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, TestbedError> {
        let mut all = Vec::new();
        for (control, _) in &self.prepared {
            for name in [CONFIGURATION, EVENTS] {
                let file = self.folder.join(control).join(name);
                if file.exists() {
                    let bytes = std::fs::read(&file).map_err(TestbedError::file(&file))?;
                    all.push((name.replace('.', &format!("-{control}.")), bytes));
                }
            }
        }
        Ok(all)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
