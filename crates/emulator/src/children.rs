//! Processes inside the namespaces: the user's commands, a shell, routing daemons.

use std::io;
use std::process::{Child, Command, Stdio};

use fairmesh_scenario::Scenario;

use crate::error::EmulatorError;
use crate::network::Network;
use crate::options::{EmulateOptions, Routing};

/// Child processes; dropping it ends them.
#[derive(Debug, Default)]
pub struct Children {
    others: Vec<Child>,
    shell: Option<Child>,
}

impl Children {
    /// Starts the processes that the options request.
    ///
    /// # Errors
    /// Returns an error if a process cannot be started.
    pub fn start(
        scenario: &Scenario,
        network: &Network,
        options: &EmulateOptions,
    ) -> Result<Self, EmulatorError> {
        let mut all = Children::default();
        if options.routing == Routing::Babeld {
            for (n, node) in network.namespaces.iter().enumerate() {
                let own = network.plan.interfaces.iter().filter(|i| i.node.index() == n);
                let names: Vec<&str> = own.map(|i| i.name.as_str()).collect();
                let mut daemon = node.command("babeld");
                // No pid file and no state file: both would be the host's.
                daemon.args(["-I", "", "-S", "", "-d", "0", "-L", "/dev/null"]).args(names);
                all.others.push(spawn(&mut daemon, "babeld")?);
            }
        }
        for (node, line) in &options.exec {
            let ns = scenario.node(node).map(|n| &network.namespaces[n.index()]);
            let Some(ns) = ns else { return Err(EmulatorError::NoNode(node.clone())) };
            let mut command = ns.command("sh");
            command.args(["-c", line]);
            all.others.push(spawn(&mut command, line)?);
        }
        if let Some(node) = &options.shell {
            let ns = scenario.node(node).map(|n| &network.namespaces[n.index()]);
            let Some(ns) = ns else { return Err(EmulatorError::NoNode(node.clone())) };
            let mut command = ns.command("sh");
            command.args(["-c", "exec \"${SHELL:-/bin/sh}\""]);
            let child = command.spawn().map_err(EmulatorError::system("the shell"))?;
            all.shell = Some(child);
        }
        Ok(all)
    }

    /// Returns true if there was a shell and it has ended.
    pub fn shell_ended(&mut self) -> bool {
        self.shell.as_mut().is_some_and(|s| !matches!(s.try_wait(), Ok(None)))
    }

    /// Returns true if a program is installed.
    pub fn is_installed(program: &str) -> bool {
        let found = Command::new(program)
            .arg("-V")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        !matches!(found, Err(e) if e.kind() == io::ErrorKind::NotFound)
    }
}

/// Starts a command with its output on our standard error.
///
/// Our standard output carries the result.
fn spawn(command: &mut Command, what: &str) -> Result<Child, EmulatorError> {
    let own = || {
        use std::os::fd::AsFd;
        io::stderr().as_fd().try_clone_to_owned().map(Stdio::from)
    };
    let failed = || EmulatorError::system(what.to_owned());
    command
        .stdin(Stdio::null())
        .stdout(own().map_err(failed())?)
        .stderr(own().map_err(failed())?)
        .spawn()
        .map_err(failed())
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in self.others.iter_mut().chain(&mut self.shell) {
            // `ip netns exec` has become the command; its own children end with the namespace.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
