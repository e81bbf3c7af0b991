//! Warnings before a run, so that its results are not wrongly attributed to a control.

use fairmesh_control::Mechanism;
use fairmesh_scenario::{Scenario, Transport};
use fairmesh_units::Span;

/// Returns a warning for each control without effect.
///
/// It runs on no node, or no flow responds to its marks.
pub fn notes(scenarios: &[Scenario]) -> Vec<String> {
    let idle = |s: &&Scenario| {
        // `fifo` is the absence of control.
        !s.control().is_none()
            && s.at_gateways().is_none()
            && fairmesh_engine::controlled_nodes(s) == 0
    };
    let note = |s: &Scenario| {
        let why = match s.gateways().is_empty() {
            true => "; the scenario names no gateway (topology.gateway)",
            false => "",
        };
        format!("{} runs at no node here, so its results are those of fifo{why}", s.control())
    };
    let mut notes: Vec<String> = scenarios.iter().filter(idle).map(note).collect();
    let unused = |s: &&Scenario| only_marks(s.control()) && !idle(s) && !responds_to_marks(s);
    let note = |s: &Scenario| {
        let name = s.control();
        format!(
            "{name} only marks packets, and no flow uses ECN (transport.ecn): no sender slows down"
        )
    };
    notes.extend(scenarios.iter().filter(unused).map(note));
    if let Some(Err(refused)) = scenarios.first().map(fairmesh_engine::fair_rates) {
        notes.push(format!("{refused}; measures against fair rates are absent"));
    }
    // A file has one control at the gateways, so it is the same for all scenarios.
    if let Some(theirs) = scenarios.first().and_then(|s| s.at_gateways()) {
        notes
            .push(format!("gateways run {theirs} (control.gateway), whatever the other nodes run"));
    }
    notes
}

/// Minimum number of packets of a flow for a meaningful result.
const MIN_PACKETS: f64 = 200.0;
/// Length of a full-size segment, in bytes.
const SEGMENT_BYTES: f64 = 1460.0;
/// Maximum number of flows that are named.
const MAX_NAMED_FLOWS: usize = 5;

/// Longest duration that [`long_enough`] returns.
const MAX_DURATION: Span = Span::from_secs(3600);
/// Step of durations that [`long_enough`] returns, in s.
const STEP_S: f64 = 10.0;

/// Returns a longer duration in which every flow has 200 full-size packets at its fair rate.
///
/// It is at most an hour. `None` if the scenario's own duration is long enough, or if it has no
/// fair rates. Flows over links that never deliver do not count.
pub fn long_enough(scenario: &Scenario) -> Option<Span> {
    let fair = fairmesh_engine::fair_rates(scenario).ok()?;
    let slowest = fair.rates_bps.iter().copied().filter(|r| *r > 0.0).min_by(f64::total_cmp)?;
    let measured = MIN_PACKETS * 8.0 * SEGMENT_BYTES / slowest;
    let seconds = scenario.warmup().as_secs_f64() + measured;
    let rounded = (seconds / STEP_S).ceil() * STEP_S;
    let duration = Span::from_secs_f64(rounded.min(MAX_DURATION.as_secs_f64()));
    (duration > scenario.duration()).then_some(duration)
}

/// Returns a warning about greedy flows with too few full-size packets.
///
/// At their analytic fair rate these flows have fewer than 200 packets in the measured interval,
/// and then starvation is random. The warning is for maps, because their links were not chosen for
/// a simulation.
/// were not chosen for a simulation.
pub fn few_packets(scenario: &Scenario) -> Option<String> {
    // A scenario that cannot be analysed is reported when it is run.
    let fair = fairmesh_engine::fair_rates(scenario).ok()?;
    let measured = scenario.duration().saturating_sub(scenario.warmup()).as_secs_f64();
    let packets = |bps: f64| bps * measured / (8.0 * SEGMENT_BYTES);
    let mut few: Vec<(&str, f64)> = scenario
        .flows()
        .iter()
        .zip(&fair.rates_bps)
        .map(|(f, &bps)| (f.name.as_str(), packets(bps)))
        .filter(|f| f.1 < MIN_PACKETS)
        .collect();
    few.sort_by(|a, b| a.1.total_cmp(&b.1));
    let shown: Vec<String> =
        few.iter().take(MAX_NAMED_FLOWS).map(|(name, n)| format!("{name} ({n:.0})")).collect();
    let more = if few.len() > MAX_NAMED_FLOWS { ", …" } else { "" };
    (!few.is_empty()).then(|| {
        format!(
            "{} of {} flows have fewer than {MIN_PACKETS} packets in {measured:.0} s at their fair rate, so that chance decides which \
             of them starve: {}{more}; use a longer duration, or fewer flows",
            few.len(),
            scenario.flows().len(),
            shown.join(", ")
        )
    })
}

/// Returns true if marks are a control's only action.
fn only_marks(control: &Mechanism) -> bool {
    control.definition().name == "lbm"
}

/// Returns true if any flow responds to the marks of the scenario's control.
fn responds_to_marks(scenario: &Scenario) -> bool {
    scenario.flows().iter().any(|f| match &f.transport {
        Transport::Tcp(tcp) => tcp.ecn && !tcp.ect1,
        Transport::Quic(quic) => quic.ecn && !quic.ect1,
        Transport::Udp => false,
    })
}
