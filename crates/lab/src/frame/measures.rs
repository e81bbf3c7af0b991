//! Names, units and definitions of all columns of the tables of results.

/// Quantity or label with a name in tables of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Name of the column.
    pub name: &'static str,
    /// Unit; empty for text, ratios and plain counts.
    pub unit: &'static str,
    /// Definition, in a sentence.
    pub definition: &'static str,
}

macro_rules! measures {
    ($($name:literal, $unit:literal, $definition:literal;)+) => {
        &[$(Measure { name: $name, unit: $unit, definition: $definition }),+]
    };
}

/// All measures (docs/models/measures.md).
///
/// *Measured interval*: the time from the warm-up to the end of the run.
pub const MEASURES: &[Measure] = measures! {
    "control", "", "Name of the control, with its variants.";
    "about", "", "Purpose of the control, in a line.";
    "origin", "", "Publication of the control, or ours.";
    "variants", "", "Variants of the control.";
    "seed", "", "Seed of every random stream of the run.";
    "flow", "", "Name of the flow.";
    "from", "", "Node at which the flow's data begins.";
    "to", "", "Node at which the flow's data ends.";
    "hops", "", "Number of wireless links on the flow's path.";
    "weight", "", "Share of the flow relative to others.";
    "goodput_bps", "bit/s", "Application data delivered in order at the flow's destination, over the measured interval.";
    "fair_bps", "bit/s", "Max-min rate of the flow by the analytic model, in application data.";
    "due_bps", "bit/s", "Rate against which the goodput is judged: the fair rate while the application has data to transfer.";
    "over_fair", "", "Goodput over the due rate; below 0.1 the flow starves.";
    "active_share", "", "Fraction of the measured interval in which the application had data to transfer.";
    "delay_mean_s", "s", "Mean one-way delay of delivered data packets, from the source's queue to the destination.";
    "delay_std_s", "s", "Standard deviation of that delay.";
    "delay_p50_s", "s", "Median of that delay.";
    "delay_p95_s", "s", "95th percentile of that delay.";
    "delay_p99_s", "s", "99th percentile of that delay.";
    "packets_sent", "packets", "Data packets that left the origin's transport in the measured interval.";
    "packets_delivered", "packets", "Data packets that reached the destination in the measured interval.";
    "drops_queue", "packets", "Packets lost in queues of wireless interfaces, over the whole run.";
    "drops_wire", "packets", "Packets lost in queues of wires, over the whole run.";
    "drops_retry_limit", "packets", "Packets that a MAC dropped after its retry limit, over the whole run.";
    "drops_limiter", "packets", "Packets lost in a limiter of the control, over the whole run.";
    "tcp_segments", "segments", "TCP data segments sent, retransmissions included, over the whole run.";
    "tcp_retransmits", "segments", "TCP segments sent again, over the whole run.";
    "tcp_timeouts", "", "Retransmission timeouts of TCP, over the whole run.";
    "tcp_mean_cwnd_bytes", "B", "Mean of the sampled congestion window at the origin; 0 without sampling.";
    "quic_packets", "packets", "Ack-eliciting QUIC packets sent, over the whole run.";
    "quic_retransmits", "packets", "QUIC packets with data that was sent before, over the whole run.";
    "quic_lost", "packets", "QUIC packets declared lost, over the whole run.";
    "quic_probe_timeouts", "", "Probe timeouts of QUIC, over the whole run.";
    "quic_congestion_events", "", "Times that losses or marks reduced the window of QUIC, over the whole run.";
    "quic_marks", "packets", "QUIC packets reported as marked, over the whole run.";
    "quic_mean_cwnd_bytes", "B", "Mean of the sampled congestion window of QUIC, in UDP payload.";
    "transfers", "", "Files or responses completed in the measured interval.";
    "transfer_mean_s", "s", "Mean completion time of those transfers.";
    "transfer_p95_s", "s", "95th percentile of the completion time of those transfers.";
    "fingerprint", "", "Hash of all transmissions and deliveries: equal for equal scenario, control and seed.";
    "jain", "", "Jain's index (Σx)² / (n Σx²) of the goodputs, from 1/n to 1.";
    "jain_normalized", "", "Jain's index of goodput over due rate.";
    "min_over_fair", "", "Smallest goodput over due rate of a flow or subscriber.";
    "max_over_fair", "", "Largest goodput over due rate of a flow or subscriber.";
    "utilization_ratio", "", "Σ goodput × hops over that sum at the fair rates.";
    "min_over_optimum", "", "Smallest goodput over its optimum.";
    "sum_over_optimum", "", "Sum of the goodputs over the sum of the optimum.";
    "jain_optimum", "", "Jain's index of goodput over optimum.";
    "sum_goodput_bps", "bit/s", "Sum of the goodputs.";
    "starving", "", "Number of subscribers, and of flows without a subscriber, below a tenth of their due rate.";
    "signalling_bytes_per_s", "B/s", "Bytes of the control's messages and header fields in the air per second.";
    "signalling_airtime", "", "Fraction of the time in which the air carries the control's messages and header fields.";
    "transmissions", "", "Frames of every kind put on the air, over the whole run.";
    "events", "", "Events of the simulation.";
    "node", "", "Name of the node.";
    "wireless", "", "1 for a node with a radio, 0 for a wired host.";
    "gateway", "", "1 for a gateway.";
    "x_m", "m", "Position of the node along x, where known.";
    "y_m", "m", "Position of the node along y, where known.";
    "airtime_tx", "", "Fraction of the run in which the node was transmitting.";
    "airtime_busy", "", "Fraction of the run with energy of others on the medium while the node was not transmitting.";
    "airtime_idle", "", "Fraction of the run in which the node neither transmitted nor sensed energy.";
    "mean_queue", "packets", "Time average of the node's interface queue, the packet in service included.";
    "frames_sent", "", "Data frames that the node put on the air, retries included.";
    "frames_unanswered", "", "Transmissions of the node without a CTS, ACK or BlockAck in time.";
    "quantity", "", "Sampled quantity: goodput_bps, cwnd_bytes and limit_bps of a flow, queue_packets of a node.";
    "subject", "", "Flow or node to which the sample belongs.";
    "time_s", "s", "Simulated time.";
    "value", "", "Value of the quantity, in the unit of its name.";
    "code", "", "Stable name of the reason for a decision.";
    "reason", "", "Reason for a decision, in words.";
    "measure", "", "Name of the measure of this row.";
    "mean", "", "Mean over the seeds, in the unit of the row's measure.";
    "ci95", "", "Half-width of the 95 % interval of the mean (Student's t); absent for a single seed.";
    "unit", "", "Unit of the row's measure.";
    "cwnd_bytes", "B", "Sampled congestion window at the flow's origin.";
    "limit_bps", "bit/s", "Rate that a control or a search set for the flow.";
    "queue_packets", "packets", "Sampled length of a node's interface queue.";
    "optimum_bps", "bit/s", "Max-min rate of the flow that the simulator itself carries.";
    "domains_bps", "bit/s", "Max-min rate of the flow by collision domains.";
    "cliques_bps", "bit/s", "Max-min rate of the flow by cliques of links that sense each other.";
    "model", "", "Analytic model: domains or cliques.";
    "rts", "", "1 for the cost of a frame with RTS/CTS, 0 without.";
    "criterion", "", "Criterion of the allocation.";
    "rate_bps", "bit/s", "Rate of the flow in the allocation, in application data.";
};

/// Returns the measure of a name.
pub fn find(name: &str) -> Option<&'static Measure> {
    MEASURES.iter().find(|m| m.name == name)
}
