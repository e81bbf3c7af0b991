//! Load of the air: counters become a utilisation once per averaging time.

use fairmesh_units::{NodeId, Span, Time};

use crate::{Event, Neighbour, Station};

/// Number of samples of queue and counters per averaging time.
pub(super) const SAMPLES_PER_AVERAGE: u32 = 10;
/// Size of a full packet in bits.
const FULL_PACKET_BITS: f64 = 1500.0 * 8.0;

/// Traffic with one neighbour.
#[derive(Clone, Debug)]
pub(super) struct With {
    pub node: NodeId,
    /// Latest sample.
    now: Option<Station>,
    /// Sample at the start of the averaging time.
    then: Option<Station>,
    /// Rate sent since then, in bit/s.
    pub sent: f64,
    /// Rate received since then, in bit/s.
    pub received: f64,
}

/// Measurements of one averaging time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Measured {
    /// Rate sent, in bit/s.
    pub sent: f64,
    /// Rate received, in bit/s.
    pub received: f64,
    /// Number of packets sent.
    pub packets: u64,
    /// Mean time from a packet's arrival in the queue to its acknowledgement.
    ///
    /// `None` without a packet.
    pub delay: Option<Span>,
    /// Total time of packets in the queue and in service, in s.
    pub waited: f64,
    /// Mean service time of the packet at the head of the queue.
    pub service: Option<Span>,
}

/// Collects samples.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    /// Bytes on the air per packet in addition to the counted ones.
    overhead: f64,
    pub with: Vec<With>,
    /// Σ of the packets in the queue over all samples.
    queued: u64,
    /// Number of samples.
    samples: u64,
    /// Number of samples with a packet in the queue.
    filled: u64,
    began: Time,
    /// Rate of the channel, in bit/s.
    pub channel: f64,
    /// Time of a full packet on a free channel, seconds.
    pub alone: f64,
}

impl Meter {
    /// `overhead`: bytes on the air per packet in addition to its own.
    pub fn new(overhead: f64, neighbours: &[Neighbour]) -> Self {
        let mut meter = Meter {
            overhead,
            with: Vec::new(),
            queued: 0,
            samples: 0,
            filled: 0,
            began: Time::ZERO,
            channel: 1.0,
            alone: FULL_PACKET_BITS,
        };
        meter.renew(neighbours);
        meter
    }

    /// Takes over a changed set of neighbours; counters of those that stay hold.
    fn renew(&mut self, neighbours: &[Neighbour]) {
        self.channel = neighbours.iter().map(|n| n.rate.0).max().unwrap_or(1).max(1) as f64;
        let capacity = neighbours.iter().map(|n| n.capacity.0).max().unwrap_or(1).max(1);
        self.alone = FULL_PACKET_BITS / capacity as f64;
        self.with.retain(|w| neighbours.iter().any(|n| n.node == w.node));
        for n in neighbours {
            if !self.with.iter().any(|w| w.node == n.node) {
                let (now, then) = (None, None);
                self.with.push(With { node: n.node, now, then, sent: 0.0, received: 0.0 });
            }
        }
    }

    /// Handles a sample, or a change of the neighbours.
    pub fn sample(&mut self, event: &Event<'_>) {
        match event {
            Event::Station(s) => {
                if let Some(with) = self.with.iter_mut().find(|w| w.node == s.node) {
                    with.now = Some(*s);
                }
            }
            Event::Neighbours(all) => self.renew(all),
            Event::Queue(q) => {
                self.queued += u64::from(q.packets);
                self.samples += 1;
                self.filled += u64::from(q.packets > 0);
            }
            _ => {}
        }
    }

    /// Ends an averaging time; returns its measurements.
    pub fn take(&mut self, now: Time) -> Measured {
        let seconds = now.since(self.began).as_secs_f64();
        self.began = now;
        let mut known = false;
        let mut all = Measured::default();
        for with in &mut self.with {
            (with.sent, with.received) = (0.0, 0.0);
            let (Some(end), Some(begin)) = (with.now, std::mem::replace(&mut with.then, with.now))
            else {
                continue;
            };
            known = true;
            // A counter that runs backwards was reset and gives no information this time.
            let grown = |to: u64, from: u64| to.saturating_sub(from);
            let count = |bytes: u64, packets: u64| {
                8.0 * (bytes as f64 + packets as f64 * self.overhead) / seconds
            };
            let packets = grown(end.tx_packets, begin.tx_packets);
            all.packets += packets;
            if seconds > 0.0 {
                with.sent = count(grown(end.tx_bytes, begin.tx_bytes), packets);
                let received = grown(end.rx_packets, begin.rx_packets);
                with.received = count(grown(end.rx_bytes, begin.rx_bytes), received);
            }
            all.sent += with.sent;
            all.received += with.received;
        }
        let (queued, samples, filled) = (self.queued, self.samples, self.filled);
        (self.queued, self.samples, self.filled) = (0, 0, 0);
        if samples > 0 && all.packets > 0 {
            // Little's law: mean number in the system over departures per second.
            let each = seconds / all.packets as f64;
            all.waited = queued as f64 / samples as f64 * seconds;
            let mean = |sum: u64| Span::from_secs_f64(sum as f64 / samples as f64 * each);
            all.delay = Some(mean(queued));
            all.service = (filled > 0).then(|| mean(filled));
        } else if known && queued > 0 {
            // Packets wait, and none leaves.
            all.delay = Some(Span::MAX);
        }
        all
    }
}
