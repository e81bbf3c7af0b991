//! Conversion of a finished world to its record.

use std::sync::Arc;

use fairmesh_scenario::{Flow, Link, Scenario, Subscriber};
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_units::{NodeId, Time};

use crate::airs::Airs;
use crate::listeners::Signalling;
use crate::net::{Ends, FlowState, Meters};
use crate::record::{
    Cause, Drops, FlowRecord, LinkRecord, MacCounters, NodeRecord, OverlapRecord, QuicRecord,
    RunRecord, SignallingRecord, SubscriberRecord, TcpRecord, Totals, TransferRecord,
};
use crate::world::World;

/// Reads every meter at `end`.
pub(crate) fn record<const WATCH: bool, const HOST: bool>(
    world: &mut World<WATCH, HOST>,
    end: Time,
) -> RunRecord {
    let scenario = Arc::clone(&world.scenario);
    let measured = (scenario.duration().saturating_sub(scenario.warmup())).as_secs_f64();
    let mut totals = totals(world);
    let mut fingerprint = world.air.fingerprint();
    let mut flows = Vec::with_capacity(scenario.flows().len());
    for (i, spec) in scenario.flows().iter().enumerate() {
        let flow = &mut world.net.flows[i];
        let (tcp, quic) = counters(flow, world.series.cwnd_bytes.get(i));
        let m = &flow.meters;
        fingerprint = mix(fingerprint, m.delivered, m.packets_delivered);
        totals.drops.add(&m.drops);
        let name = |n: NodeId| scenario.nodes()[n.index()].name.clone();
        let transfers = m.transfers.summary();
        flows.push(FlowRecord {
            name: spec.name.clone(),
            from: name(spec.from),
            to: name(spec.to),
            hops: spec.wireless_hops,
            path: spec.path.iter().map(|n| name(*n)).collect(),
            goodput_bps: m.delivered_measured as f64 * 8.0 / measured,
            fair_bps: world.fair.as_ref().map(|f| f.rates_bps[i]),
            active_share: active_share(spec, &scenario, m, end),
            weight: spec.weight,
            delay_s: m.delay.summary(),
            acknowledged_delay_s: world
                .net
                .ack_delays
                .as_ref()
                .map(|a| a.flows[i].delays.summary()),
            packets_sent: m.packets_sent,
            packets_delivered: m.packets_delivered,
            drops: m.drops,
            data_drops: m.data_drops,
            answer_drops: m.answer_drops,
            tcp,
            quic,
            transfers: flow.has_transfers.then_some(TransferRecord {
                completed: m.completed,
                mean_s: transfers.mean,
                p95_s: transfers.p95,
            }),
        });
    }
    let subscribers = subscribers(&scenario, &flows);
    totals.signalling = signalling(&world.net.listeners.signalling, end);
    totals.drops.queue += world.net.listeners.signalling.refused;
    totals.drops.retry_limit += world.net.listeners.signalling.lost;
    let links = links(&scenario, &world.air);
    let nodes = nodes(world, end, &mut totals);
    RunRecord {
        scenario: scenario.name().to_owned(),
        control: scenario.controls(),
        ours: scenario.controls_are_ours(),
        seed: world.options.seed,
        fingerprint: format!("{fingerprint:016x}"),
        duration_s: scenario.duration().as_secs_f64(),
        warmup_s: scenario.warmup().as_secs_f64(),
        flows,
        subscribers,
        nodes,
        links,
        fair_is_upper_bound: world.fair.as_ref().is_some_and(|f| f.upper_bound),
        totals,
        series: std::mem::take(&mut world.series),
        decisions: std::mem::take(&mut world.decisions),
        emulation: None,
    }
}

/// Returns the links with transmissions, in scenario order.
pub(crate) fn links(scenario: &Scenario, airs: &Airs) -> Vec<LinkRecord> {
    let stations = scenario.wireless().count();
    let name = |n: NodeId| match n.index().checked_sub(stations) {
        Some(interferer) => scenario.interferers()[interferer].name.clone(),
        None => scenario.nodes()[n.index()].name.clone(),
    };
    let record = |l: &Link| {
        let losses = airs.losses(l.from, airs.link(l.from, l.to)?);
        let overlap = |&(station, frames): &(NodeId, u64)| OverlapRecord {
            station: name(station),
            frames,
            sensed: airs.senses(l.from, station),
            receiver: station == l.to,
        };
        (losses.attempts > 0).then(|| LinkRecord {
            from: name(l.from),
            to: name(l.to),
            attempts: losses.attempts,
            unanswered: losses.unanswered,
            answer_lost: losses.response_lost,
            clean: losses.clean,
            overlapped_by: losses.overlapped_by.iter().map(overlap).collect(),
        })
    };
    scenario.links().iter().filter_map(record).collect()
}

/// Returns the fraction of a flow's measured time in which its application had data.
fn active_share(flow: &Flow, scenario: &Scenario, meters: &Meters, end: Time) -> f64 {
    if !matches!(flow.traffic, TrafficSpec::Files { .. } | TrafficSpec::Http { .. }) {
        return 1.0;
    }
    let from = Time::ZERO + scenario.warmup();
    let until = flow.stop.map_or(end, |stop| end.min(Time::ZERO + stop));
    let there = until.since(from.max(Time::ZERO + flow.start)).as_secs_f64();
    let active = meters.active(from, end).as_secs_f64();
    if there > 0.0 { (active / there).min(1.0) } else { 0.0 }
}

/// Returns the records of a scenario's subscribers, from the records of its flows.
pub fn subscribers(scenario: &Scenario, flows: &[FlowRecord]) -> Vec<SubscriberRecord> {
    scenario.subscribers().list.iter().map(|s| subscriber(s, flows)).collect()
}

/// Returns the sums over a subscriber's flows.
fn subscriber(s: &Subscriber, flows: &[FlowRecord]) -> SubscriberRecord {
    // Summed from 0: an empty `sum` is −0.
    let sum = |own: &[usize]| own.iter().fold(0.0, |sum, &f| sum + flows[f].goodput_bps);
    let (down, up) = (sum(&s.down.flows), sum(&s.up.flows));
    SubscriberRecord {
        name: s.name.clone(),
        flows: s.flows().collect(),
        weight: s.weight,
        goodput_bps: down + up,
        goodput_down_bps: down,
        goodput_up_bps: up,
        fair_bps: s.flows().map(|f| flows[f].fair_bps).sum(),
    }
}

/// Adds a flow's delivered data to a fingerprint.
pub(crate) fn mix(fingerprint: u64, bytes: u64, packets: u64) -> u64 {
    let step = |f: u64, total: u64| (f ^ total).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    step(step(fingerprint, bytes), packets)
}

/// Returns the counts of the whole world; those of flows and nodes are added later.
pub(crate) fn totals<const WATCH: bool, const HOST: bool>(world: &World<WATCH, HOST>) -> Totals {
    Totals {
        transmissions: world.air.transmissions(),
        events: world.events,
        packets: world.net.packets.created(),
        delivered: world.net.arrived,
        stale: world.net.stale,
        in_flight: world.net.packets.live(),
        ..Totals::default()
    }
}

/// Returns one record per wireless node; adds their counters to the totals.
pub(crate) fn nodes<const WATCH: bool, const HOST: bool>(
    world: &mut World<WATCH, HOST>,
    end: Time,
    totals: &mut Totals,
) -> Vec<NodeRecord> {
    let scenario = Arc::clone(&world.scenario);
    let mut nodes = Vec::with_capacity(world.net.interfaces.len());
    let all = end.as_secs_f64();
    for id in scenario.wireless() {
        let node = &scenario.nodes()[id.index()];
        let c = *world.air.counters(id);
        let mac = MacCounters {
            data: c.data,
            mpdus: c.mpdus,
            block_ack: c.block_ack,
            mpdus_missed: c.mpdus_missed,
            rts: c.rts,
            cts: c.cts,
            ack: c.ack,
            broadcast: c.broadcast,
            timeouts: c.timeouts,
            internal_collisions: c.internal_collisions,
            gave_up: c.gave_up,
            collided: c.collided,
            errored: c.errored,
            duplicates: c.duplicates,
        };
        totals.mac.add(&mac);
        let time = world.air.channel_time(end, id);
        let (tx, busy) = (time.transmit.as_secs_f64() / all, time.busy.as_secs_f64() / all);
        let mean_queue = world.net.mean_queue(end, id);
        nodes.push(NodeRecord {
            name: node.name.clone(),
            position: node.position,
            airtime_tx: tx,
            airtime_busy: busy,
            airtime_idle: (1.0 - tx - busy).max(0.0), // rounding apart never below 0
            mac,
            mean_queue,
        });
    }
    nodes
}

fn signalling(s: &Signalling, end: Time) -> SignallingRecord {
    let (bytes, airtime) = (s.message_bytes + s.header_bytes, s.message_airtime + s.header_airtime);
    let seconds = end.as_secs_f64();
    SignallingRecord {
        messages: s.messages,
        probes: s.probes,
        message_frames: s.message_frames,
        message_bytes: s.message_bytes,
        messages_lost: s.refused + s.lost,
        header_bytes: s.header_bytes,
        outside_messages: s.outside,
        outside_bytes: s.outside_bytes,
        airtime_s: airtime.as_secs_f64(),
        bytes_per_s: bytes as f64 / seconds,
        airtime_share: airtime.as_secs_f64() / seconds,
    }
}

/// Returns the counters of the flow's transport, if it has any.
fn counters(
    flow: &mut FlowState,
    cwnd: Option<&Vec<f64>>,
) -> (Option<TcpRecord>, Option<QuicRecord>) {
    let cwnd = cwnd.filter(|c| !c.is_empty());
    let mean_cwnd_bytes = cwnd.map_or(0.0, |c| c.iter().sum::<f64>() / c.len() as f64);
    flow.retire();
    match flow.ends {
        Ends::Tcp(..) => {
            let tcp = TcpRecord {
                segments: flow.meters.segments,
                retransmits: flow.meters.retransmits,
                timeouts: flow.meters.timeouts,
                mean_cwnd_bytes,
            };
            (Some(tcp), None)
        }
        Ends::Quic(..) => (None, Some(QuicRecord { mean_cwnd_bytes, ..flow.meters.quic })),
        Ends::Udp { .. } | Ends::External => (None, None),
    }
}

impl Drops {
    /// Counts one loss.
    pub(crate) fn count(&mut self, cause: Cause) {
        *match cause {
            Cause::Queue => &mut self.queue,
            Cause::Wire => &mut self.wire,
            Cause::RetryLimit => &mut self.retry_limit,
            Cause::Limiter => &mut self.limiter,
        } += 1;
    }

    /// Returns the number of losses of every cause.
    pub fn total(&self) -> u64 {
        self.queue + self.wire + self.retry_limit + self.limiter
    }

    /// Adds another's counts.
    pub fn add(&mut self, o: &Drops) {
        self.queue += o.queue;
        self.wire += o.wire;
        self.retry_limit += o.retry_limit;
        self.limiter += o.limiter;
    }
}

impl MacCounters {
    /// Adds another's counts.
    pub fn add(&mut self, o: &MacCounters) {
        self.data += o.data;
        self.mpdus += o.mpdus;
        self.block_ack += o.block_ack;
        self.mpdus_missed += o.mpdus_missed;
        self.rts += o.rts;
        self.cts += o.cts;
        self.ack += o.ack;
        self.broadcast += o.broadcast;
        self.timeouts += o.timeouts;
        self.internal_collisions += o.internal_collisions;
        self.gave_up += o.gave_up;
        self.collided += o.collided;
        self.errored += o.errored;
        self.duplicates += o.duplicates;
    }
}
