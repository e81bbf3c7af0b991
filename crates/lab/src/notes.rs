//! What somebody should know before a run, so that nobody takes what comes out for a control's doing.

use fairmesh_control::Mechanism;
use fairmesh_scenario::{Scenario, Transport};

/// Which controls have nowhere to run, or nobody to hear them: a sentence each.
pub fn notes(scenarios: &[Scenario]) -> Vec<String> {
    let idle = |s: &&Scenario| {
        // `fifo` is the absence of control.
        !s.control.is_none() && fairmesh_engine::controlled_nodes(s) == 0
    };
    let note = |s: &Scenario| {
        let why = match s.gateways.is_empty() {
            true => "; the scenario names no gateway (topology.gateway)",
            false => "",
        };
        format!("{} runs at no node here, so its results are those of fifo{why}", s.control)
    };
    let mut notes: Vec<String> = scenarios.iter().filter(idle).map(note).collect();
    let unheard = |s: &&Scenario| only_marks(&s.control) && !idle(s) && !hears_marks(s);
    let note = |s: &Scenario| {
        let name = &s.control;
        format!(
            "{name} only marks packets, and no flow takes marks (transport.ecn): nobody slows down"
        )
    };
    notes.extend(scenarios.iter().filter(unheard).map(note));
    notes
}

/// Whether marks are all that a control has.
fn only_marks(control: &Mechanism) -> bool {
    control.entry().name == "lbm"
}

/// Whether any flow answers to the marks of the scenario's control.
fn hears_marks(scenario: &Scenario) -> bool {
    let ect1_too = scenario.control.has("ect1");
    scenario.flows.iter().any(|f| match &f.transport {
        Transport::Tcp(tcp) => tcp.ecn && (!tcp.ect1 || ect1_too),
        Transport::Udp => false,
    })
}
