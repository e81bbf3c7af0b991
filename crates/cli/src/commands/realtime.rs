//! Arms of reproductions that run in the emulator.

#[cfg(feature = "linux")]
use fairmesh_control::Placement;
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;

use crate::error::CliError;

/// Why a scenario cannot be emulated here; nothing is built for that. Controls of the gateway are the daemon's.
#[cfg(feature = "linux")]
pub(super) fn refuses(scenario: &Scenario) -> Result<(), String> {
    let said = |e: &dyn std::fmt::Display| e.to_string();
    fairmesh_emulator::check(scenario, &Default::default()).map_err(|e| said(&e))?;
    let needs = scenario.control.all_needs();
    if !needs.is_empty() && !needs.iter().any(|n| n.at.has(Placement::Gateway)) {
        let control = &scenario.control;
        return Err(format!(
            "\"{control}\" does not run at a gateway; controls at nodes run in the simulator only"
        ));
    }
    crate::daemon::Work::new(std::slice::from_ref(scenario), true).map_err(|e| said(&e))?;
    Ok(())
}

/// One emulation, by the daemon if the scenario has a control.
#[cfg(feature = "linux")]
pub(super) fn run(
    scenario: &Scenario,
    seed: u64,
    sample: Option<Span>,
) -> Result<RunRecord, CliError> {
    use super::emulate::{bar, under_daemon};

    let work = crate::daemon::Work::new(std::slice::from_ref(scenario), true)?;
    let options = fairmesh_emulator::EmulateOptions { seed, sample, ..Default::default() };
    under_daemon(scenario, &options, work.daemon(0), &bar(scenario, true), true)
}

#[cfg(not(feature = "linux"))]
const WITHOUT: &str = "this program was built without the emulator (feature \"linux\")";

/// There is no emulator.
#[cfg(not(feature = "linux"))]
pub(super) fn refuses(_: &Scenario) -> Result<(), String> {
    Err(WITHOUT.to_owned())
}

/// There is no emulator.
#[cfg(not(feature = "linux"))]
pub(super) fn run(scenario: &Scenario, _: u64, _: Option<Span>) -> Result<RunRecord, CliError> {
    Err(CliError::run(&scenario.name, WITHOUT))
}
