//! One emulation, with or without a daemon at the gateway.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

use fairmesh_control::{Mechanism, Placement};
use fairmesh_emulator::{EmulateOptions, Network, Progress, check, emulate};
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;

use crate::agent::Agent;
use crate::error::{ScenarioProblem, TestbedError};
use crate::process::Programs;
use crate::workspace::{Daemons, Workspace};

/// Callbacks and the stop flag of a run.
pub struct Hooks<'a> {
    /// Ends the run when it becomes true; everything is removed then.
    pub stop: &'a AtomicBool,
    /// Called once, when the namespaces exist and before time zero.
    pub ready: &'a mut dyn FnMut(&Network),
    /// Called several times per second.
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// Emulates a scenario; with an agent, its daemons run the scenario's control.
///
/// The engine's nodes then run none.
///
/// The record has the decisions and limits of the daemons, and its control is named
/// "*control of the nodes* *control of the daemons*".
///
/// # Errors
/// Missing rights, a scenario that the emulator refuses, an interrupt; events that cannot be written.
pub fn run(
    scenario: &Scenario,
    options: &EmulateOptions,
    agent: Option<Agent>,
    hooks: Hooks<'_>,
) -> Result<RunRecord, TestbedError> {
    let Hooks { stop, ready, progress } = hooks;
    let agent = RefCell::new(agent);
    let mut mesh = scenario.clone();
    if agent.borrow().is_some() {
        mesh = mesh.with_control_everywhere(Mechanism::none());
    }
    let outcome = emulate(
        &mesh,
        options,
        stop,
        &mut |network| {
            ready(network);
            if let Some(a) = agent.borrow_mut().as_mut() {
                a.enter(network, stop);
            }
        },
        &mut |p| {
            progress(p);
            if let Some(a) = agent.borrow_mut().as_mut() {
                a.watch(p);
            }
        },
    );
    let refused =
        |e| TestbedError::Emulator { scenario: scenario.name().to_owned(), problem: Box::new(e) };
    let mut record = outcome.map_err(refused)?.record;
    if let Some(agent) = agent.into_inner() {
        agent.finish(&mut record)?;
    }
    Ok(record)
}

/// Checks that an experiment's arm can run here, without building anything.
///
/// # Errors
/// A scenario that the emulator or the daemon refuses, or a control that does not run at a gateway.
pub fn refuses(scenario: &Scenario, programs: &Programs) -> Result<(), TestbedError> {
    let refused =
        |e| TestbedError::Emulator { scenario: scenario.name().to_owned(), problem: Box::new(e) };
    check(scenario, &EmulateOptions::default()).map_err(refused)?;
    let needs = scenario.control().all_needs();
    if !needs.is_empty() && !needs.iter().any(|n| n.at.has(Placement::Gateway)) {
        let problem = ScenarioProblem::NotAtGateway(scenario.control().to_string());
        return Err(TestbedError::scenario(scenario.name())(problem));
    }
    Workspace::new(std::slice::from_ref(scenario), Some(Daemons::default()), programs).map(|_| ())
}

/// Runs an experiment's arm: one emulation, with a daemon if the scenario has a control.
///
/// # Errors
/// See [`run`] and [`crate::Daemon::prepare`].
pub fn arm(
    scenario: &Scenario,
    seed: u64,
    sample: Option<Span>,
    programs: &Programs,
    hooks: Hooks<'_>,
) -> Result<RunRecord, TestbedError> {
    let files = Workspace::new(std::slice::from_ref(scenario), Some(Daemons::default()), programs)?;
    let options = EmulateOptions { seed, sample, ..EmulateOptions::default() };
    run(scenario, &options, files.agent(0), hooks)
}
