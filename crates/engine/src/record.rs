//! Results of a run: plain numbers, serialisable, in base units (bit/s, s, bytes).

use std::borrow::Cow;

use fairmesh_transport::quic;
use serde::{Deserialize, Serialize};

/// The outcome of one run of one scenario under one control with one seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// Scenario name.
    pub scenario: String,
    /// Control name, with variant.
    pub control: String,
    /// True if a part of its controls is unpublished or differs from the publication.
    pub ours: bool,
    /// The run's seed.
    pub seed: u64,
    /// Hash of all events: equal for equal scenario and seed on any machine.
    pub fingerprint: String,
    /// Simulated time, in s.
    pub duration_s: f64,
    /// Start of the measured interval, in s.
    pub warmup_s: f64,
    /// One entry per flow, in scenario order.
    pub flows: Vec<FlowRecord>,
    /// One entry per subscriber, in scenario order; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribers: Vec<SubscriberRecord>,
    /// One entry per node, in scenario order.
    pub nodes: Vec<NodeRecord>,
    /// One entry per direction of a radio link with transmissions, in scenario order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkRecord>,
    /// True if the analytic fair rates are upper bounds.
    ///
    /// The model's radios send aggregates of full size; those of the run send the packets that wait.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub fair_is_upper_bound: bool,
    /// Sums over the whole run.
    pub totals: Totals,
    /// Sampled curves; empty when sampling is off.
    pub series: Series,
    /// Decisions of the control with their reasons, oldest first (bounded).
    pub decisions: Vec<DecisionRecord>,
    /// Timing quality of an emulated run; absent from simulated runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulation: Option<EmulationRecord>,
}

impl RunRecord {
    /// Returns the goodputs and the corresponding fair rates ([`RunRecord::dues`]), bit/s.
    ///
    /// There is one entry per subscriber and per flow without a subscriber. `None` if the run was given no
    /// fair rates.
    pub fn sharers(&self) -> (Vec<f64>, Option<Vec<f64>>) {
        let dues = self.dues();
        let mut own = vec![true; self.flows.len()];
        let members = self.subscribers.iter().flat_map(|s| &s.flows);
        members.for_each(|&f| own[f] = false);
        let alone: Vec<usize> = (0..own.len()).filter(|&f| own[f]).collect();
        let goodputs = self.subscribers.iter().map(|s| s.goodput_bps);
        let goodputs = goodputs.chain(alone.iter().map(|&f| self.flows[f].goodput_bps)).collect();
        let shared = dues.map(|dues| {
            let due = |s: &SubscriberRecord| s.flows.iter().map(|&f| dues[f]).sum();
            self.subscribers.iter().map(due).chain(alone.iter().map(|&f| dues[f])).collect()
        });
        (goodputs, shared)
    }

    /// Returns the rates against which goodputs are judged, bit/s, by flow.
    ///
    /// See [`FlowRecord::due_bps`]. If fair rates are upper bounds, a due is at most an equal share, by
    /// weight, of the goodput that the run carried: a flow below a tenth of a bound alone need not starve.
    /// `None` if the run was given no fair rates.
    pub fn dues(&self) -> Option<Vec<f64>> {
        let weight = |f: &FlowRecord| f.weight * f.active_share;
        let level = self.flows.iter().map(|f| f.goodput_bps).sum::<f64>()
            / self.flows.iter().map(weight).sum::<f64>();
        let due = |f: &FlowRecord| match self.fair_is_upper_bound && level.is_finite() {
            true => f.due_bps().map(|due| due.min(level * weight(f))),
            false => f.due_bps(),
        };
        self.flows.iter().map(due).collect()
    }
}

/// Quality report of an emulated run (docs/emulator.md).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EmulationRecord {
    /// True if the run kept its time well enough for valid results.
    pub valid: bool,
    /// Reasons for invalidity, in words; empty if the run is valid.
    pub problems: Vec<String>,
    /// Lateness of events, by radio time.
    pub lateness_s: LatenessRecord,
    /// Lateness at which radio time stops, in s.
    pub bound_s: f64,
    /// Stalls of radio time.
    pub stalls: StallRecord,
    /// Differences from the simulator, and features that this system lacks, in words.
    pub notes: Vec<String>,
    /// One entry per interface between a namespace and the engine.
    pub interfaces: Vec<InterfaceRecord>,
}

/// Distribution of the lateness of events, in s.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct LatenessRecord {
    /// Number of events counted.
    pub events: u64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Latest of all.
    pub max: f64,
}

/// Real time that passed while radio time was stopped, and its effect.
///
/// The kernel's timers continued meanwhile.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct StallRecord {
    /// Number of stalls.
    pub number: u64,
    /// Total duration, in s.
    pub sum_s: f64,
    /// Longest stall, in s.
    pub longest_s: f64,
    /// Fraction of the run's real time.
    pub share: f64,
    /// Stalls long enough for a spurious retransmission timeout in the kernel.
    pub long: u64,
    /// Duration from which a stall counts as long, in s.
    pub long_from_s: f64,
    /// Long stalls near which a timer fired.
    ///
    /// All of them if programs ran with timers that cannot be read.
    pub felt: u64,
    /// Distorted fraction of the run's real time.
    ///
    /// It counts all stalls, and one second for each stall in `felt`.
    pub bent: f64,
    /// Distorted fraction above which a run is invalid.
    pub bent_bound: f64,
}

/// Traffic between a namespace and the engine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InterfaceRecord {
    /// Node or wired host.
    pub node: String,
    /// Name of the interface in its namespace.
    pub interface: String,
    /// Frames that the engine took from the kernel.
    pub from_kernel: u64,
    /// Frames that the engine handed to the kernel.
    pub to_kernel: u64,
    /// Frames that the kernel dropped because the interface's queue was full.
    pub queue_drops: u64,
    /// Frames to an address that no neighbour has.
    pub unreachable: u64,
}

/// One flow's outcome over the measured interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Flow name.
    pub name: String,
    /// Source node name.
    pub from: String,
    /// Destination node name.
    pub to: String,
    /// Wireless hops of its path.
    pub hops: u32,
    /// Names of the nodes on its path at the start, both ends included.
    pub path: Vec<String>,
    /// Application bytes delivered in order per second, in bit/s.
    pub goodput_bps: f64,
    /// Max-min rate, bit/s of application data; `None` if the run was given no fair rates.
    pub fair_bps: Option<f64>,
    /// Fraction of the flow's measured time in which its application had data to transfer.
    ///
    /// It is below 1 only for files and requests with pauses.
    pub active_share: f64,
    /// Weight; 1 unless configured.
    pub weight: f64,
    /// One-way network delay of delivered data packets, from the source's queue on.
    pub delay_s: DelayRecord,
    /// Delay from the queue of the path's first radio until the acknowledgement returns there.
    ///
    /// Present only if the run measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_delay_s: Option<DelayRecord>,
    /// Data packets handed to the network.
    pub packets_sent: u64,
    /// Data packets that reached the destination.
    pub packets_delivered: u64,
    /// Packets of this flow lost in the whole run, by cause: data, acknowledgements and requests.
    pub drops: Drops,
    /// Lost data packets that were sent in the measured interval.
    pub data_drops: Drops,
    /// Lost packets of the other direction that were sent in the measured interval.
    ///
    /// These are acknowledgements and requests. The remaining losses were sent during the warm-up.
    pub answer_drops: Drops,
    /// TCP's counters, if the flow is TCP.
    pub tcp: Option<TcpRecord>,
    /// QUIC's counters, if it is QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicRecord>,
    /// Completed files or responses, for traffic made of them.
    pub transfers: Option<TransferRecord>,
}

impl FlowRecord {
    /// Returns the rate against which the flow's goodput is judged, in bit/s.
    ///
    /// It is the fair rate during the fraction of the time in which its application had data to transfer. The
    /// fair rate itself never exceeds the rate of a CBR or rate-limited application, or the flow's plan.
    pub fn due_bps(&self) -> Option<f64> {
        self.fair_bps.map(|fair| fair * self.active_share)
    }
}

/// Cause of a packet's loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Refused or pushed out by a wireless interface's queue.
    Queue,
    /// Refused by a queue of the wired side.
    Wire,
    /// Dropped by the MAC after its retry limit.
    RetryLimit,
    /// Refused by a control's own limiter.
    Limiter,
}

/// Frames over one direction of a link, over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Name of the sender.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Exchanges begun: each starts with an RTS or a data frame.
    pub attempts: u64,
    /// Frames for which no CTS, ACK or BlockAck came in time.
    pub unanswered: u64,
    /// Unanswered frames of which this or an earlier attempt had arrived.
    pub answer_lost: u64,
    /// Unanswered frames that did not arrive and that no other frame overlapped: frame errors.
    pub clean: u64,
    /// Stations on the air at the receiver during unanswered frames that did not arrive.
    pub overlapped_by: Vec<OverlapRecord>,
}

/// A station with frames that overlapped unanswered frames of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverlapRecord {
    /// Name of the node or interferer.
    pub station: String,
    /// Unanswered frames that it overlapped.
    pub frames: u64,
    /// True if the link's sender senses it; false for a hidden terminal.
    pub sensed: bool,
    /// True if it is the link's receiver.
    pub receiver: bool,
}

/// A subscriber's outcome over the measured interval: the sums over its flows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubscriberRecord {
    /// Name of the subscriber.
    pub name: String,
    /// Indices of its flows in [`RunRecord::flows`], downstream first.
    pub flows: Vec<usize>,
    /// Weight.
    pub weight: f64,
    /// Application bytes delivered in order per second, in both directions, bit/s.
    pub goodput_bps: f64,
    /// Goodput into the mesh, in bit/s.
    pub goodput_down_bps: f64,
    /// Goodput out of the mesh, in bit/s.
    pub goodput_up_bps: f64,
    /// Max-min rate, in both directions, bit/s of application data.
    ///
    /// `None` if the run was given no fair rates.
    pub fair_bps: Option<f64>,
}

/// Distribution of a delay, s. All fields are zero if nothing was delivered.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct DelayRecord {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Packets lost, by cause.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Drops {
    /// Refused or pushed out by a wireless interface's queue.
    pub queue: u64,
    /// Refused by a queue of the wired side.
    pub wire: u64,
    /// Dropped by the MAC after its retry limit.
    pub retry_limit: u64,
    /// Refused by a control's own limiter.
    pub limiter: u64,
}

/// TCP counters over the whole run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct TcpRecord {
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Mean congestion window while sampled, in bytes.
    pub mean_cwnd_bytes: f64,
}

/// QUIC counters over the whole run, summed over both ends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct QuicRecord {
    /// Ack-eliciting packets sent.
    pub packets: u64,
    /// Ack-eliciting packets with data that was sent before.
    pub retransmits: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets declared lost that arrived later.
    pub spurious: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Number of loss epochs.
    ///
    /// These are reductions of the window for losses or marks, or reports of them to a model.
    pub congestion_events: u64,
    /// Number of persistent congestions.
    pub persistent_congestions: u64,
    /// Packets reported as marked.
    pub marks: u64,
    /// Ends with a path that failed ECN validation.
    pub ecn_failed: u64,
    /// Mean congestion window while sampled, bytes of UDP payload.
    pub mean_cwnd_bytes: f64,
}

impl QuicRecord {
    /// Adds the counters of an end.
    pub(crate) fn add(&mut self, s: &quic::Stats) {
        self.packets += s.packets_sent;
        self.retransmits += s.retransmitted;
        self.lost += s.lost;
        self.spurious += s.spurious;
        self.probe_timeouts += s.probe_timeouts;
        self.congestion_events += s.congestion_events;
        self.persistent_congestions += s.persistent_congestions;
        self.marks += s.marks;
        self.ecn_failed += u64::from(s.ecn_failed);
    }
}

/// Completed transfers over the measured interval.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct TransferRecord {
    /// Number completed.
    pub completed: u64,
    /// Mean completion time, in s.
    pub mean_s: f64,
    /// 95th percentile of the completion time, in s.
    pub p95_s: f64,
}

/// One node's outcome over the whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Node name.
    pub name: String,
    /// Position, m, where known.
    pub position: Option<(f64, f64)>,
    /// Share of time spent transmitting.
    pub airtime_tx: f64,
    /// Share of time with energy of others on the medium while not transmitting.
    pub airtime_busy: f64,
    /// Share of time idle: neither transmitting nor sensing energy.
    pub airtime_idle: f64,
    /// MAC counters.
    pub mac: MacCounters,
    /// Mean length of the interface queue, in packets.
    pub mean_queue: f64,
}

/// MAC-level counters of one node (or summed).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct MacCounters {
    /// Data frames put on the air, retries included; an A-MPDU is one.
    pub data: u64,
    /// MPDUs in the frames.
    #[serde(default)]
    pub mpdus: u64,
    /// RTS frames put on the air.
    pub rts: u64,
    /// CTS frames put on the air.
    pub cts: u64,
    /// ACK frames put on the air.
    pub ack: u64,
    /// BlockAck frames put on the air.
    #[serde(default)]
    pub block_ack: u64,
    /// Broadcast frames put on the air.
    pub broadcast: u64,
    /// Transmissions without an ACK or CTS in time.
    pub timeouts: u64,
    /// Frames that lost the medium to a higher access category of their own station.
    #[serde(default, skip_serializing_if = "none")]
    pub internal_collisions: u64,
    /// Frames dropped after the retry limit.
    pub gave_up: u64,
    /// Frames locked on and lost to interference at this receiver.
    pub collided: u64,
    /// Frames locked on and lost to the frame-error model at this receiver.
    pub errored: u64,
    /// MPDUs lost from locked A-MPDUs, for any receiver.
    #[serde(default)]
    pub mpdus_missed: u64,
    /// Duplicates received (the ACK was lost) and not passed up.
    pub duplicates: u64,
}

/// Sums over all nodes and flows.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// PHY transmissions of every kind.
    pub transmissions: u64,
    /// Engine events handled.
    pub events: u64,
    /// Packets created by transports and controls.
    ///
    /// They are `delivered`, `stale`, lost (`drops`) or `in_flight` at the end.
    pub packets: u64,
    /// Packets that reached their destination endpoint.
    pub delivered: u64,
    /// Packets that reached an endpoint with a replaced connection.
    pub stale: u64,
    /// Packets still in a queue, in a MAC, on a wire or on the air.
    pub in_flight: u64,
    /// Losses by cause.
    pub drops: Drops,
    /// MAC counters.
    pub mac: MacCounters,
    /// Cost of the control's signalling over the air.
    pub signalling: SignallingRecord,
}

/// Cost of a control's signalling over the whole run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct SignallingRecord {
    /// Control messages sent by controls.
    pub messages: u64,
    /// Echo requests sent through the mesh for round trips.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub probes: u64,
    /// Frames that carried messages, echo requests or replies, retries included.
    pub message_frames: u64,
    /// IP bytes of these frames.
    pub message_bytes: u64,
    /// Messages that found their node's queue full or were discarded by the MAC.
    pub messages_lost: u64,
    /// Bytes of header fields in data frames, retries included.
    pub header_bytes: u64,
    /// Messages delivered outside the air at no cost: the ideal exchange of a variant `+ideal`.
    pub outside_messages: u64,
    /// Bytes of messages outside the air, without any headers; counted nowhere else.
    pub outside_bytes: u64,
    /// Airtime of messages and echoes, and of header bytes, s.
    ///
    /// It includes gaps, backoff and acknowledgements.
    pub airtime_s: f64,
    /// Bytes of both per second, summed over all nodes.
    pub bytes_per_s: f64,
    /// Airtime of both per second, summed over all nodes.
    pub airtime_share: f64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Curves sampled at a fixed interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// Sampling instants, in s.
    pub time_s: Vec<f64>,
    /// Per flow: goodput since the previous sample, in bit/s.
    pub goodput_bps: Vec<Vec<f64>>,
    /// Per flow: congestion window, bytes (empty for UDP).
    pub cwnd_bytes: Vec<Vec<f64>>,
    /// Per node: length of the interface queue, in packets.
    pub queue_packets: Vec<Vec<f64>>,
    /// Per flow: rate set by the control, bit/s, by a limit or by the spacing of segments.
    ///
    /// Empty if there is none.
    pub limit_bps: Vec<Vec<f64>>,
    /// Per radio link, if [`RunOptions::links`](crate::RunOptions) is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSeries>,
    /// Foreign-energy fraction of the time since the previous sample per node, if requested.
    ///
    /// The radio sensed this energy but neither sent nor received, for example an external interferer's (Jang
    /// 2010 §4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<Vec<f64>>,
}

/// Curves of one direction of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkSeries {
    /// Name of the sender.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Airtime share to which a control limits it, at the sampling instants.
    ///
    /// 0 if there is no such limit.
    pub airtime: Vec<f64>,
    /// Packets that the MAC finished since the previous sample, delivered or dropped.
    pub packets: Vec<u64>,
    /// Data frames that it put on the air for these packets.
    pub frames: Vec<u64>,
}

/// One decision of a control.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// Instant, in s.
    pub time_s: f64,
    /// Name of the node.
    pub node: String,
    /// Stable name of the reason, for counting.
    pub code: Cow<'static, str>,
    /// Reason, in words.
    pub reason: String,
    /// Name of the flow or subscriber that the reason is about; absent if it is about none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Rate in the reason, bit/s; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<f64>,
}

/// Returns true for a count of zero, which is not written.
///
/// Most runs do not have these counts.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn none(count: &u64) -> bool {
    *count == 0
}
