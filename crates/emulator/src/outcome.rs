//! Assembly of the record of a finished emulation.

use fairmesh_engine::record::{
    Drops, EmulationRecord, FlowRecord, InterfaceRecord, RunRecord, StallRecord, TcpRecord,
    TransferRecord,
};
use fairmesh_scenario::{Scenario, Transport};
use fairmesh_units::{Span, Time};

use crate::engine::Done;
use crate::lateness::bound;
use crate::network::Network;
use crate::options::EmulateOptions;
use crate::settings::TcpSettings;
use crate::switch::Input;
use crate::traffic::FlowOutcome;

/// Result of an emulation.
#[derive(Debug)]
pub struct Outcome {
    /// Record as of a simulated run, with `emulation` filled in.
    pub record: RunRecord,
    /// Frames that entered the engine, if recorded.
    pub inputs: Vec<Input>,
    /// Hash of the transmissions.
    pub air_fingerprint: u64,
    /// End of the emulated time.
    pub end: Time,
}

impl Done {
    /// Combines the results of engine, kernel and traffic.
    pub fn finish(
        self,
        scenario: &Scenario,
        options: &EmulateOptions,
        network: &Network,
        fair: &[f64],
        outcomes: Vec<Option<FlowOutcome>>,
    ) -> Outcome {
        let Done { mut record, inputs, counters, lateness, stalls, series, preferred, .. } = self;
        let (air_fingerprint, end) = (self.air_fingerprint, self.end);
        let mut problems = Vec::new();
        let mut interfaces = Vec::new();
        let mut kernel_drops = 0;
        for (i, plan) in network.plan.interfaces.iter().enumerate() {
            let c = counters[i];
            let queue_drops = network.queue_drops(i).unwrap_or_else(|e| {
                problems.push(format!("the drops of {} are not known: {e}", plan.name));
                0
            });
            kernel_drops += queue_drops;
            interfaces.push(InterfaceRecord {
                node: scenario.nodes()[plan.node.index()].name.clone(),
                interface: plan.name.clone(),
                from_kernel: c.accepted,
                to_kernel: c.delivered,
                queue_drops,
                unreachable: c.unreachable,
            });
        }
        let measured = end.as_secs_f64() - scenario.warmup().as_secs_f64();
        let (mut flows, mut felt) = (Vec::new(), 0);
        for ((i, flow), outcome) in scenario
            .flows()
            .iter()
            .enumerate()
            .zip(outcomes.into_iter().map(Some).chain(std::iter::repeat(None)))
        {
            let name = |n: fairmesh_units::NodeId| scenario.nodes()[n.index()].name.clone();
            let label = format!("flow {} → {}", name(flow.from), name(flow.to));
            let o = match outcome {
                Some(Some(o)) => Some(o),
                Some(None) => {
                    problems.push(format!("{label}: its thread panicked"));
                    None
                }
                None => None,
            };
            if let Some(problem) = o.as_ref().and_then(|o| o.problem.as_ref()) {
                problems.push(format!("{label}: {problem}"));
            }
            felt = felt.max(o.as_ref().map_or(0, |o| o.felt));
            let bytes = o.as_ref().map_or(0, |o| o.measured);
            let cwnd = series.cwnd_bytes.get(i).filter(|c| !c.is_empty());
            let tcp =
                o.as_ref().and_then(|o| o.tcp).map(|(segments, retransmits, timeouts)| TcpRecord {
                    segments,
                    retransmits,
                    timeouts,
                    mean_cwnd_bytes: cwnd.map_or(0.0, |c| c.iter().sum::<f64>() / c.len() as f64),
                });
            let mss = match &flow.transport {
                Transport::Tcp(tcp) => u64::from(tcp.mss),
                Transport::Quic(_) | Transport::Udp => 0,
            };
            let (sent, delivered) = match (&o, &tcp) {
                (Some(_), Some(tcp)) => (tcp.segments, bytes.div_ceil(mss.max(1))),
                (Some(o), None) => (o.packets_sent, o.packets_delivered),
                (None, _) => (0, 0),
            };
            let transfers = o.as_ref().and_then(|o| o.transfers.as_ref()).map(|t| {
                let s = t.summary();
                TransferRecord { completed: t.count(), mean_s: s.mean, p95_s: s.p95 }
            });
            flows.push(FlowRecord {
                name: flow.name.clone(),
                from: name(flow.from),
                to: name(flow.to),
                hops: flow.wireless_hops,
                goodput_bps: if measured > 0.0 { bytes as f64 * 8.0 / measured } else { 0.0 },
                fair_bps: fair.get(i).copied(),
                active_share: active_share(transfers.as_ref(), measured),
                path: flow.path.iter().map(|n| name(*n)).collect(),
                weight: flow.weight,
                delay_s: o.as_ref().map_or_else(Default::default, |o| o.delay.summary()),
                acknowledged_delay_s: None,
                packets_sent: sent,
                packets_delivered: delivered,
                drops: Drops::default(),
                data_drops: Drops::default(),
                answer_drops: Drops::default(),
                tcp,
                quic: None,
                transfers,
            });
        }
        record.control = format!("emulated {}", options.congestions(scenario).join("+"));
        record.duration_s = end.as_secs_f64();
        record.totals.drops.queue += kernel_drops;
        record.subscribers = fairmesh_engine::subscribers(scenario, &flows);
        record.flows = flows;
        record.series = series;
        let own = options.exec.is_empty() && options.shell.is_none() && options.traffic;
        let stalls = stalls.summary(end, own.then_some(felt));
        if stalls.bent > stalls.bent_bound {
            problems.insert(0, describe_stalls(&stalls));
        }
        let mut traffic = network.notes.clone();
        if !preferred.fifo {
            traffic.push("the engine's thread is an ordinary one: SCHED_FIFO was refused".into());
        }
        if !preferred.locked {
            traffic.push("memory is not locked: mlockall was refused".into());
        }
        record.emulation = Some(EmulationRecord {
            valid: problems.is_empty(),
            problems,
            lateness_s: lateness.summary(),
            bound_s: slack(scenario).as_secs_f64(),
            stalls,
            notes: traffic,
            interfaces,
        });
        Outcome { record, inputs, air_fingerprint, end }
    }
}

/// Returns the fraction of the measured time in which a transfer was in progress.
///
/// It follows from the completed transfers: 1 without any, and for traffic without transfers.
fn active_share(transfers: Option<&TransferRecord>, measured_s: f64) -> f64 {
    match transfers {
        Some(t) if t.completed > 0 && measured_s > 0.0 => {
            (t.completed as f64 * t.mean_s / measured_s).min(1.0)
        }
        _ => 1.0,
    }
}

/// Returns the minimum retransmission timer of the namespaces.
///
/// It is that of their routes, or the kernel's `TCP_RTO_MIN`.
pub(crate) fn timer(network: &Network, options: &EmulateOptions) -> Span {
    const KERNEL: Span = Span::from_millis(200);
    let attributes = network.plan.tcp.as_ref().filter(|_| options.tcp == TcpSettings::Scenario);
    // Other programs may have connections over other routes.
    attributes.map_or(KERNEL, |t| t.min_rto).min(KERNEL)
}

/// Describes why a run with such stalls is invalid.
fn describe_stalls(s: &StallRecord) -> String {
    format!(
        "the radio stood still {} times, {:.2} s in all, while the kernel's timers went on and fired in {}: \
         {:.0} % of the run is bent; the bound is {:.0} %",
        s.number,
        s.sum_s,
        s.felt,
        s.bent * 100.0,
        s.bent_bound * 100.0
    )
}

/// Returns the lateness allowed before radio time stops, for a scenario's frames.
pub(crate) fn slack(scenario: &Scenario) -> Span {
    let mac = scenario.mac();
    let own = scenario.links().iter().filter_map(|l| l.rate);
    let fastest = own.chain([mac.rate]).map(|r| mac.phy.airtime(r, 1500)).min();
    bound(fastest.unwrap_or(Span::ZERO))
}
