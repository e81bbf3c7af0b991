//! A gateway that governs its own flows and those of others.

use std::collections::BTreeMap;

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Time};

use super::message::{FlowLimit, FlowReport, Heading};
use crate::{
    Actions, Class, Control, Counters, Event, FlowCounters, FlowHere, PathSigns, Place, Progress,
    Reason, Value,
};

/// First number of other gateways' flows; hosts count from 0.
const FIRST_PEER_FLOW: u32 = 1 << 31;
/// Maximum number of governed flows of other gateways, idle ones included.
///
/// Further flows are ignored.
const MAX_PEER_FLOWS: usize = 1 << 17;
/// Number of control periods for which reports under outdated limits are skipped.
const MAX_STALE_PERIODS: u32 = 3;
/// Accepted time between two reports, relative to a control period.
///
/// It is at least the first value's fraction of a period and at most the second value's multiple.
const REPORT_INTERVAL_BOUNDS: (u64, u64) = (10, 8);
/// Time for which a flow without reports is kept.
const FLOW_LIFETIME: Span = Span::from_secs(180);

/// True if a flow belongs to another gateway.
pub(super) fn is_elsewhere(flow: FlowId) -> bool {
    flow.0 >= FIRST_PEER_FLOW
}

/// A flow of another gateway.
#[derive(Clone, Debug)]
struct Remote {
    report: FlowReport,
    /// Clock of its gateway at the last report.
    at: u64,
    /// Bytes, packets and clock of the last report that was taken into account.
    fed: Option<(u64, u64, u64)>,
    /// Bytes that the mechanism was given.
    bytes: u64,
    packets: u64,
    limit: Option<BitRate>,
    mentioned: Time,
}

/// Another gateway.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// Version of the last limits that it has.
    version: u64,
    /// Number of control periods for which it has had older limits.
    stale: u32,
}

/// Result of a report.
pub(super) struct ReportOutcome {
    pub joined: bool,
    /// Flows that were unknown.
    pub flows: Vec<FlowHere>,
}

#[derive(Debug)]
pub(super) struct Leader {
    /// The mechanism; `None` if it was refused, so that nothing is decided.
    control: Option<Box<dyn Control>>,
    peers: BTreeMap<NodeId, Peer>,
    remotes: BTreeMap<u32, Remote>,
    /// Gateway and flow of each number less [`FIRST_PEER_FLOW`].
    names: Vec<(NodeId, FlowId)>,
    /// Number of each gateway's flow.
    numbers: BTreeMap<(NodeId, FlowId), u32>,
    version: u64,
    changed: bool,
    looked: Option<Time>,
    beat: Time,
}

impl Leader {
    pub fn new(control: Option<Box<dyn Control>>) -> Self {
        Leader {
            control,
            peers: BTreeMap::new(),
            remotes: BTreeMap::new(),
            names: Vec::new(),
            numbers: BTreeMap::new(),
            version: 0,
            changed: false,
            looked: None,
            beat: Time::ZERO,
        }
    }

    pub fn deliver(&mut self, now: Time, event: &Event<'_>) -> Actions {
        let mut decided = Actions::new();
        if let Some(control) = &mut self.control {
            control.on(now, event, &mut decided);
        }
        decided
    }

    pub fn learned(&self) -> Option<BitRate> {
        self.control.as_ref()?.learned()
    }

    pub fn progress(&self) -> Option<Progress> {
        let mut progress = self.control.as_ref()?.progress()?;
        progress.bound = progress.bound.map(|bound| self.in_words(bound));
        Some(progress)
    }

    pub fn floods(&self, flow: FlowId) -> bool {
        self.control.as_ref().is_some_and(|control| control.floods(flow))
    }

    pub fn guaranteed(&self, flow: FlowId) -> Option<BitRate> {
        self.control.as_ref()?.guaranteed(flow)
    }

    pub fn recall(&mut self, learned: BitRate) -> Actions {
        let mut decided = Actions::new();
        if let Some(control) = &mut self.control {
            control.recall(learned, &mut decided);
        }
        decided
    }

    /// Returns the time of the mechanism's next deadline.
    fn wanted(&self) -> Time {
        self.control.as_ref().and_then(|c| c.next_deadline()).unwrap_or(Time::NEVER)
    }

    pub fn is_due(&self, now: Time) -> bool {
        self.wanted() <= now
    }

    pub fn due(&self) -> Time {
        self.wanted().min(self.beat)
    }

    /// Records that limits were sent to the others.
    pub fn beaten(&mut self, now: Time, look: Span) {
        self.beat = now + look;
    }

    fn number(&mut self, gateway: NodeId, flow: FlowId) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&(gateway, flow)) {
            return Some(number);
        }
        if self.names.len() >= MAX_PEER_FLOWS {
            return None;
        }
        let number = FIRST_PEER_FLOW + self.names.len() as u32;
        self.names.push((gateway, flow));
        self.numbers.insert((gateway, flow), number);
        Some(number)
    }

    /// Handles another gateway's report of its flows.
    pub fn report(
        &mut self,
        now: Time,
        heading: &Heading,
        reports: &[FlowReport],
    ) -> ReportOutcome {
        let joined = !self.peers.contains_key(&heading.from);
        self.peers.entry(heading.from).or_default().version = heading.version;
        let mut flows = Vec::new();
        for report in reports {
            let Some(number) = self.number(heading.from, report.flow) else { continue };
            let at = heading.sampled;
            if let Some(remote) = self.remotes.get_mut(&number) {
                (remote.report, remote.at, remote.mentioned) = (*report, at, now);
                continue;
            }
            let remote = Remote {
                report: *report,
                at,
                fed: None,
                bytes: 0,
                packets: 0,
                limit: None,
                mentioned: now,
            };
            self.remotes.insert(number, remote);
            let here =
                FlowHere::new(FlowId(number), Place::Forwarder, report.packet, report.packet);
            flows.push(
                here.with_weight(f64::from(report.weight))
                    .with_hops(report.hops)
                    .with_branch(report.branch)
                    .with_guarantee(report.guarantee)
                    .with_ceiling(report.ceiling),
            );
        }
        ReportOutcome { joined, flows }
    }

    /// Removes a gateway; returns the numbers of its flows.
    pub fn forget(&mut self, gateway: NodeId) -> Vec<FlowId> {
        self.peers.remove(&gateway);
        let names = &self.names;
        let theirs = |number: &&u32| names[(**number - FIRST_PEER_FLOW) as usize].0 == gateway;
        let gone: Vec<u32> = self.remotes.keys().filter(theirs).copied().collect();
        for number in &gone {
            self.remotes.remove(number);
        }
        gone.into_iter().map(FlowId).collect()
    }

    /// Runs the mechanism's deadline, after the counters of the other gateways' flows.
    ///
    /// The gateway's own flows were sampled immediately before.
    pub fn look(&mut self, now: Time) -> Actions {
        let mut decided = Actions::new();
        let elapsed = self.looked.map_or(0, |at| now.since(at).as_nanos() / 1_000_000);
        self.looked = Some(now);
        let Some(control) = &mut self.control else { return decided };
        for peer in self.peers.values_mut() {
            let old = peer.version < self.version;
            peer.stale = if old { peer.stale + 1 } else { 0 };
        }
        let mut expired = Vec::new();
        for (&number, remote) in &mut self.remotes {
            let flow = FlowId(number);
            let gateway = self.names[(number - FIRST_PEER_FLOW) as usize].0;
            if now.since(remote.mentioned) > FLOW_LIFETIME {
                expired.push(number);
                continue;
            }
            let report = remote.report;
            let reported = (report.bytes, report.packets, remote.at);
            let (bytes, packets, at) = *remote.fed.get_or_insert(reported);
            if remote.at == at && remote.bytes > 0 {
                // No new report has arrived, so there is no information.
                continue;
            }
            remote.fed = Some(reported);
            let old = self
                .peers
                .get(&gateway)
                .is_some_and(|p| (1..=MAX_STALE_PERIODS).contains(&p.stale));
            let backwards = report.bytes < bytes || report.packets < packets || remote.at < at;
            let time = remote.at.saturating_sub(at);
            let credible = time > elapsed / REPORT_INTERVAL_BOUNDS.0
                && time <= elapsed * REPORT_INTERVAL_BOUNDS.1;
            if !(old || backwards) && credible {
                // The clock of the other gateway may run at another speed.
                let part = (elapsed as f64 / time as f64).min(1.5);
                remote.bytes += ((report.bytes - bytes) as f64 * part) as u64;
                remote.packets += ((report.packets - packets) as f64 * part) as u64;
            } else if remote.bytes > 0 {
                continue;
            }
            let (bytes, packets) = (remote.bytes, remote.packets);
            let counters = FlowCounters { flow, bytes, packets };
            if let Some(drops) = report.drops {
                let class = Counters {
                    class: Class::Flow(flow),
                    bytes,
                    packets,
                    drops,
                    overlimits: 0,
                    queued_packets: report.queued,
                    queued_bytes: u64::from(report.queued) * u64::from(report.packet),
                };
                control.on(now, &Event::Counters(class), &mut decided);
            }
            control.on(now, &Event::FlowCounters(counters), &mut decided);
            let signs = PathSigns::new(flow).with_trips(report.trip, report.oldest);
            control.on(now, &Event::PathSigns(signs), &mut decided);
        }
        for number in expired {
            self.remotes.remove(&number);
            control.on(now, &Event::FlowGone(FlowId(number)), &mut decided);
        }
        control.on(now, &Event::Deadline, &mut decided);
        decided
    }

    /// Records the mechanism's decision on another gateway's flow.
    pub fn decide(&mut self, flow: FlowId, rate: Option<BitRate>) {
        if let Some(remote) = self.remotes.get_mut(&flow.0) {
            self.changed |= remote.limit != rate;
            remote.limit = rate;
        }
    }

    /// Returns the limits of the others' flows.
    pub fn limits(&mut self) -> Vec<FlowLimit> {
        self.version += u64::from(core::mem::take(&mut self.changed));
        let names = &self.names;
        let limit = |(number, remote): (&u32, &Remote)| {
            let (gateway, flow) = names[(number - FIRST_PEER_FLOW) as usize];
            Some(FlowLimit { gateway, flow, rate: remote.limit? })
        };
        self.remotes.iter().filter_map(limit).collect()
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a reason that names flows by their own gateways' numbers.
    pub fn in_words(&self, mut reason: Reason) -> Reason {
        for value in &mut reason.values {
            if let Value::Flow(flow) | Value::Class(Class::Flow(flow)) = *value
                && let Some(number) = flow.0.checked_sub(FIRST_PEER_FLOW)
                && let Some(&(gateway, flow)) = self.names.get(number as usize)
            {
                *value = Value::Elsewhere(gateway, flow);
            }
        }
        reason
    }
}
