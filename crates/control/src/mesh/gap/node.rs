//! A neighbour's half: Algorithm 1.

use fairmesh_units::{BitRate, Bytes, NodeId, Span, Stream, Time};

use crate::survey::Survey;
use crate::{
    Actions, Channel, Class, ClassPlan, Control, Counters, Event, EventKind, EventSet, Instance,
    Leaf, Limit, Neighbour, Place, Plan, Point, Reason, Refusal, Setting, Value,
};

use super::overhear::Overhear;
use super::{Guarantees, Options, RESET_UPDATES, SURVEY_SAMPLES, TCP_PART, decode};

pub(super) fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let local = || setting.flows.iter().filter(|f| f.place == Place::Source);
    let guarantees = Guarantees::of(local(), options.efficiency);
    let fixed = 1e3 * options.guarantee;
    let towards = local().find_map(|f| f.next_hop);
    let capacity = capacity(&setting.neighbours, towards);
    let promised: f64 = local().filter_map(|f| f.guarantee).map(|g| g.0 as f64).sum();
    if promised > capacity {
        let (sum, bound) = (BitRate(promised as u64), BitRate(capacity as u64));
        return Err(Refusal::guarantees(sum, bound));
    }
    let period = Span::from_secs_f64(options.period);
    // The gateway takes several samples per update; one must have the weight of all of them
    // together.
    let weight = 1.0 - (0..SURVEY_SAMPLES).fold(1.0, |left, _| left * (1.0 - options.weight));
    let packet = local().map(|f| f.packet).max().unwrap_or(1500);
    let fill = TCP_PART * options.efficiency;
    let fills = fill * capacity;
    let overhear =
        options.overhear.then(|| Overhear::new(towards, &setting.flows, packet, fills, weight));
    let mut node = Node {
        step: options.alpha * fills,
        gain: options.alpha * fill,
        towards,
        beta: options.beta,
        gamma: options.gamma,
        saturation: options.saturation,
        noise: options.noise,
        weight: options.weight,
        source: match (options.overhear, options.ack) {
            (true, _) => Source::Survey,
            (false, true) => Source::Acks,
            (false, false) => Source::Messages,
        },
        capacity,
        fixed,
        guarantees,
        limit: capacity,
        counters: None,
        counted: None,
        throughput: None,
        bits: None,
        last_bits: Time::ZERO,
        survey: Survey::new(weight),
        channel: None,
        overhear,
        period,
        due: Time::ZERO + period,
        stream: setting.stream.clone(),
    };
    // Every node starts with its guarantee, so that no flow starves while all start.
    node.limit = node.clamp(node.guarantee());
    let class = ClassPlan {
        class: Class::All,
        limit: Limit::Rate(BitRate(node.limit as u64)),
        burst: Bytes(local().map(|f| u64::from(f.packet)).max().unwrap_or(1500).max(1)),
        leaf: Leaf::DropTail { packets: options.queue },
    };
    let plan = Plan { point: Point::Local, classes: vec![class], template: None };
    Ok(Instance { control: Box::new(node), plan })
}

/// Returns the capacity of the link to the gateway, or else of the fastest, bit/s of IP.
fn capacity(neighbours: &[Neighbour], towards: Option<NodeId>) -> f64 {
    let link = neighbours.iter().find(|n| Some(n.node) == towards);
    let fastest = || neighbours.iter().map(|n| n.capacity.0).max();
    link.map(|n| n.capacity.0).or_else(fastest).unwrap_or(1).max(1) as f64
}

/// Source of the bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Messages,
    Acks,
    Survey,
}

#[derive(Debug)]
struct Node {
    /// α, bit/s per update.
    step: f64,
    /// α as a part of the link's capacity.
    gain: f64,
    /// Next hop of local traffic.
    towards: Option<NodeId>,
    beta: f64,
    gamma: f64,
    saturation: f64,
    noise: f64,
    weight: f64,
    source: Source,
    /// Capacity of the link to the gateway, bit/s of IP.
    capacity: f64,
    /// F_i as set by the operator; 0: the fair rates decide.
    fixed: f64,
    guarantees: Guarantees,
    /// R_i.
    limit: f64,
    /// Latest sample.
    counters: Option<Counters>,
    /// Sample of the last update, with its time.
    counted: Option<(Time, Counters)>,
    /// T_i, moving average.
    throughput: Option<f64>,
    /// I_U and I_S, if a bit was received since the last update.
    bits: Option<(bool, bool)>,
    last_bits: Time,
    survey: Survey,
    channel: Option<Channel>,
    /// Used with [`Source::Survey`].
    overhear: Option<Overhear>,
    period: Span,
    due: Time,
    stream: Stream,
}

impl Node {
    /// Returns F_i.
    fn guarantee(&self) -> f64 {
        if self.fixed > 0.0 { self.fixed } else { self.guarantees.sum() }
    }

    /// Clamps a limit to the range of a bucket: at least one step, so that it can grow again.
    fn clamp(&self, rate: f64) -> f64 {
        rate.clamp(self.step.min(self.capacity), self.capacity).max(1.0)
    }

    /// Takes over a changed rate of the link to the gateway; the limit continues within it.
    ///
    /// A driver's estimate falls with collisions, so it never lowers the limit below the guarantee.
    fn renew(&mut self, neighbours: &[Neighbour], actions: &mut Actions) {
        self.capacity = capacity(neighbours, self.towards).max(self.guarantee());
        self.step = self.gain * self.capacity;
        let limit = self.clamp(self.limit);
        if limit as u64 == self.limit as u64 {
            return;
        }
        self.limit = limit;
        let rate = |r: f64| Value::Rate(BitRate(r as u64));
        actions.because(Reason::new(
            "gap.link",
            "the link carries {}: the limit is {}",
            &[rate(self.capacity), rate(limit)],
        ));
        actions.set_rate(Class::All, BitRate(limit as u64));
    }

    /// Returns T_i, and true if the demand λ_i is above it: packets wait or were dropped.
    fn measure(&mut self, now: Time) -> Option<(f64, bool)> {
        let counters = self.counters.take()?;
        let (at, before) = self.counted.replace((now, counters))?;
        let seconds = now.since(at).as_secs_f64();
        if seconds <= 0.0 || counters.bytes < before.bytes {
            // No time has passed, or a class was built again.
            return None;
        }
        let rate = 8.0 * (counters.bytes - before.bytes) as f64 / seconds;
        let old = self.throughput.unwrap_or(rate);
        let throughput = old + self.weight * (rate - old);
        self.throughput = Some(throughput);
        let unmet = counters.queued_packets > 0 || counters.drops > before.drops;
        Some((throughput, unmet))
    }

    /// Estimates I_U from the node's own measurements, in place of the gateway's.
    fn estimate(&mut self) {
        let Some(channel) = self.channel.take() else { return };
        let moved = self.throughput.is_some_and(|t| t > 0.0);
        self.survey.sample(&channel, moved);
        if let Some(average) = self.survey.average
            && self.survey.silent == 0
        {
            let sensed = average / self.saturation;
            let utilization = self.overhear.as_ref().map_or(sensed, |o| o.utilization(sensed));
            let error = self.noise * self.stream.uniform(-1.0, 1.0);
            let left = (1.0 - self.guarantee() / self.capacity).max(0.0);
            let used = utilization * (1.0 + error) > 1.0 - self.gamma.min(left);
            // I_S stays unknown: an idle node one hop from the gateway cannot be overheard.
            self.bits = Some((used, true));
        }
    }

    fn update(&mut self, now: Time, actions: &mut Actions) {
        if self.source == Source::Survey {
            if let Some(o) = &mut self.overhear {
                o.take(now);
            }
            self.estimate();
        }
        let measured = self.measure(now);
        let guarantee = self.guarantee();
        let (limit, code, sentence) = if let Some((used, single)) = self.bits.take() {
            self.last_bits = now;
            let Some((throughput, unmet)) = measured else { return };
            // §VI.E: with I_S, I_U is replaced by I_U && I_S. Without it I_S is always set.
            let high = used && single;
            // Algorithm 1.
            if (throughput < guarantee || !high) && unmet {
                let up = "{} pass and more wait, {} are guaranteed: up to {}";
                (self.limit + self.step, "gap.increase", up)
            } else if throughput > guarantee && high {
                let down = "the gateway is in use, {} pass, {} are guaranteed: down to {}";
                (self.limit * self.beta, "gap.decrease", down)
            } else {
                return;
            }
        } else if now.since(self.last_bits) >= self.period.saturating_mul(RESET_UPDATES) {
            let silent = "nothing received from the gateway, {} pass, {} are guaranteed: {}";
            let fallback = if guarantee > 0.0 { guarantee } else { self.limit };
            (fallback, "gap.silence", silent)
        } else {
            return;
        };
        let limit = self.clamp(limit);
        if limit as u64 == self.limit as u64 {
            self.limit = limit;
            return;
        }
        self.limit = limit;
        let rate = |r: f64| Value::Rate(BitRate(r as u64));
        actions.because(Reason::new(
            code,
            sentence,
            &[rate(self.throughput.unwrap_or(0.0)), rate(guarantee), rate(limit)],
        ));
        actions.set_rate(Class::All, BitRate(limit as u64));
    }
}

impl Control for Node {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Counters(c) if c.class == Class::All => self.counters = Some(*c),
            Event::Channel(c) => self.channel = Some(*c),
            Event::Neighbours(all) => self.renew(all, actions),
            Event::Allocation(a) => self.guarantees.allocate(a.flow, a.rate),
            Event::Message(m) if self.source == Source::Messages => {
                if let Some(bits) = decode(m.body) {
                    self.bits = Some(bits);
                    // "Upon update of I_U": samples first, so as soon as the host can.
                    self.due = self.due.min(now);
                }
            }
            Event::Sent(sent) => {
                if self.source == Source::Acks
                    && let Some(bits) = sent.ack_bits.and_then(|b| decode(&[b]))
                {
                    self.bits = Some(bits);
                }
                if let Some(o) = &mut self.overhear {
                    o.sent(sent);
                }
            }
            Event::Received(packet) => {
                if let Some(o) = &mut self.overhear {
                    o.received(packet);
                }
            }
            Event::Overheard(packet) => {
                if let Some(o) = &mut self.overhear {
                    o.overheard(now, packet);
                }
            }
            Event::Deadline if now >= self.due => {
                self.update(now, actions);
                self.due = now + self.period;
                if self.source == Source::Messages {
                    // The next bit is expected a period from now and wakes the node; this is the
                    // watchdog.
                    self.due = now + self.period.saturating_mul(2);
                }
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }

    fn wants(&self) -> EventSet {
        match self.source {
            // The capacity is part of its own estimate of the gateway's use.
            Source::Survey => EventSet::NONE,
            Source::Messages | Source::Acks => EventSet::of(&[EventKind::Neighbours]),
        }
    }
}
