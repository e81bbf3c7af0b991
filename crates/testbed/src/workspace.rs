//! Files of the daemons of several emulations.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use fairmesh_agent::gateway::config::Mode;
use fairmesh_scenario::Scenario;
use fairmesh_units::Time;

use crate::agent::Agent;
use crate::configuration::{CONFIGURATION, EVENTS};
use crate::daemon::Daemon;
use crate::error::TestbedError;
use crate::process::Programs;
use crate::routers::{self, Routers};

/// Start and mode of daemons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Daemons {
    /// Time of the run at which the gateway's daemon starts.
    pub start: Time,
    /// Mode: limits are set, or only observed.
    pub mode: Mode,
}

impl Default for Daemons {
    fn default() -> Self {
        Daemons { start: Time::ZERO, mode: Mode::Apply }
    }
}

/// Prepared daemons of several emulations.
///
/// Each has a temporary folder that is removed with the workspace.
#[derive(Debug)]
pub struct Workspace {
    folder: PathBuf,
    prepared: Vec<(String, RefCell<Option<Agent>>)>,
}

impl Workspace {
    /// Prepares the daemons of each scenario with a control; starts nothing.
    ///
    /// A control of gateways runs in a daemon at the gateway, any other in a daemon at every router. Without
    /// `daemons` there are none.
    ///
    /// # Errors
    /// See [`Daemon::prepare`] and [`Routers::prepare`]; a temporary folder that cannot be made.
    pub fn new(
        scenarios: &[Scenario],
        daemons: Option<Daemons>,
        programs: &Programs,
    ) -> Result<Self, TestbedError> {
        static WORKSPACES: AtomicU64 = AtomicU64::new(0);
        let number = WORKSPACES.fetch_add(1, Ordering::Relaxed);
        // Short: a socket's path has at most 107 bytes.
        let name = format!("fairmesh-{}.{number}", std::process::id());
        let mut all = Workspace { folder: std::env::temp_dir().join(name), prepared: Vec::new() };
        for scenario in scenarios {
            let mut agent = None;
            let control = scenario.control();
            if let Some(Daemons { start, mode }) = daemons.filter(|_| !control.is_none()) {
                let folder = all.folder.join(control.to_string());
                std::fs::create_dir_all(&folder).map_err(TestbedError::file(&folder))?;
                agent = Some(if routers::at_routers(control) {
                    Agent::Routers(Routers::prepare(scenario, &folder, mode, &programs.router)?)
                } else {
                    let program = &programs.gateway;
                    Agent::Gateway(Box::new(Daemon::prepare(
                        scenario,
                        &folder,
                        (start, mode),
                        program,
                    )?))
                });
            }
            all.prepared.push((control.to_string(), RefCell::new(agent)));
        }
        Ok(all)
    }

    /// Takes the daemons of the n-th scenario; `None` if it has none or they were taken already.
    pub fn agent(&self, scenario: usize) -> Option<Agent> {
        self.prepared.get(scenario)?.1.take()
    }

    /// Returns names and contents of the daemons' configurations and events, for a result folder.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, TestbedError> {
        let mut all = Vec::new();
        let mut keep = |file: PathBuf, name: String| -> Result<(), TestbedError> {
            if file.exists() {
                let bytes = std::fs::read(&file).map_err(TestbedError::file(&file))?;
                all.push((name, bytes));
            }
            Ok(())
        };
        for (control, _) in &self.prepared {
            let folder = self.folder.join(control);
            for name in [CONFIGURATION, EVENTS] {
                keep(folder.join(name), name.replace('.', &format!("-{control}.")))?;
            }
            for (node, own) in routers::folders(&folder) {
                keep(own.join(routers::CONFIGURATION), format!("node-{node}-{control}.toml"))?;
                keep(own.join(routers::EVENTS), format!("node-{node}-{control}.jsonl"))?;
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
