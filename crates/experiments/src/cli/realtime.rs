//! Arms of experiments that run in the emulator.

use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;
#[cfg(feature = "linux")]
use fairmesh_testbed::{Hooks, Programs};
use fairmesh_units::Span;

use fairmesh_front::error::CliError;

/// Checks if the scenario can be emulated on this host; builds nothing.
#[cfg(feature = "linux")]
pub(super) fn refuses(scenario: &Scenario) -> Result<(), String> {
    let check = || fairmesh_testbed::refuses(scenario, &Programs::this()?);
    check().map_err(|e| e.to_string())
}

/// Runs one emulation, with the daemon if the scenario has a control.
#[cfg(feature = "linux")]
pub(super) fn run(
    scenario: &Scenario,
    seed: u64,
    sample: Option<Span>,
) -> Result<RunRecord, CliError> {
    use fairmesh_front::emulation::{announce, bar, show};

    let bar = bar(scenario, true);
    let hooks = Hooks {
        stop: fairmesh_front::interrupt::awaited(),
        ready: &mut |network| announce(scenario, network, true),
        progress: &mut |p| show(&bar, p),
    };
    let record = fairmesh_testbed::arm(scenario, seed, sample, &Programs::this()?, hooks);
    bar.finish_and_clear();
    Ok(record?)
}

#[cfg(not(feature = "linux"))]
const NO_EMULATOR: &str = "this program was built without the emulator (feature \"linux\")";

/// Rejects every scenario because this build has no emulator.
#[cfg(not(feature = "linux"))]
pub(super) fn refuses(_: &Scenario) -> Result<(), String> {
    Err(NO_EMULATOR.to_owned())
}

/// Fails because this build has no emulator.
#[cfg(not(feature = "linux"))]
pub(super) fn run(scenario: &Scenario, _: u64, _: Option<Span>) -> Result<RunRecord, CliError> {
    Err(CliError::run(scenario.name(), NO_EMULATOR))
}
