//! The gateway's half: measures its utilisation and reports it.

use fairmesh_units::{BitRate, NodeId, Span, Stream, Time};

use crate::survey::Survey;
use crate::{
    Actions, Control, Event, FlowCounters, FlowHere, Instance, Plan, Reason, Refusal, Setting,
    Value,
};

use super::{Guarantees, Options, RESET_UPDATES, SURVEY_SAMPLES, TCP_PART, encode, reached};

pub(super) fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let neighbours: Vec<NodeId> = setting.neighbours.iter().map(|n| n.node).collect();
    // Uploads of neighbours: one hop, and not forwarded to another neighbour.
    let single = setting
        .flows
        .iter()
        .filter(|f| f.hops == Some(1) && f.next_hop.is_none_or(|to| !neighbours.contains(&to)));
    let efficiency = options.efficiency;
    let guarantees = Guarantees::of(single, efficiency);
    let fixed = 1e3 * options.guarantee * guarantees.flows.len().min(neighbours.len()) as f64;
    let capacity = setting.neighbours.iter().map(|n| n.capacity.0).max().unwrap_or(1) as f64;
    let promised: f64 =
        guarantees.flows.iter().filter_map(|f| f.0.guarantee).map(|g| g.0 as f64).sum();
    keepable(options.gamma, fixed, promised, capacity)?;
    let sample = Span::from_secs_f64(options.period / f64::from(SURVEY_SAMPLES));
    let mut control = Gateway {
        gamma: options.gamma,
        saturation: options.saturation,
        efficiency,
        noise: options.noise,
        ack: options.ack,
        aggregate: options.aggregate,
        fixed,
        single: None,
        weight: options.weight,
        guarantees,
        survey: Survey::new(options.weight),
        channel: None,
        moved: false,
        bytes: 0,
        weighed: 0,
        carried: None,
        flows: setting.flows.iter().map(|f| passing(f, efficiency)).collect(),
        fills: TCP_PART * efficiency * capacity,
        sampled: Time::ZERO,
        sample,
        due: Time::ZERO + sample,
        until_update: SURVEY_SAMPLES,
        last: None,
        stream: setting.stream,
    };
    control.observe();
    Ok(Instance { control: Box::new(control), plan: Plan::none() })
}

/// Refuses guarantees that together exceed the gateway's capacity.
///
/// Also refuses a γ above (U* − U_S*) / U* if the operator has set them.
fn keepable(gamma: f64, fixed: f64, promised: f64, capacity: f64) -> Result<(), Refusal> {
    let sum = fixed.max(promised);
    if sum > capacity {
        let (sum, bound) = (BitRate(sum as u64), BitRate(capacity as u64));
        return Err(Refusal::guarantees(sum, bound));
    }
    let limit = 1.0 - fixed / capacity;
    if fixed > 0.0 && gamma > limit {
        return Err(super::no_room(gamma, limit));
    }
    Ok(())
}

#[derive(Debug)]
struct Gateway {
    gamma: f64,
    saturation: f64,
    efficiency: f64,
    noise: f64,
    ack: bool,
    aggregate: bool,
    /// U_S* as set by the operator; 0: the fair rates decide.
    fixed: f64,
    guarantees: Guarantees,
    /// Moving average of the rate of the neighbours' own uploads, in bit/s.
    single: Option<f64>,
    weight: f64,
    survey: Survey,
    channel: Option<crate::Channel>,
    /// True if data has left since the last sample.
    moved: bool,
    /// Bytes of the neighbours' own uploads since the last sample.
    bytes: u64,
    /// Bytes of all flows since the last sample, each weighted by its hops.
    weighed: u64,
    /// Moving average of `weighed`, bit/s.
    carried: Option<f64>,
    /// The flows that cross the gateway.
    flows: Vec<Passing>,
    /// U* in bit/s.
    ///
    /// It is the maximum that an allocation has ever filled, or TCP's throughput over the fastest
    /// link.
    fills: f64,
    sampled: Time,
    sample: Span,
    due: Time,
    until_update: u32,
    /// The bits last sent.
    last: Option<u8>,
    stream: Stream,
}

/// A flow that crosses the gateway.
#[derive(Debug)]
struct Passing {
    here: FlowHere,
    /// Latest analytic rate in IP bytes.
    fair: Option<u64>,
    /// Counter at the last sample.
    bytes: Option<u64>,
}

fn passing(here: &FlowHere, efficiency: f64) -> Passing {
    let fair = here.fair.map(|r| reached(here, r, efficiency));
    Passing { here: *here, fair, bytes: None }
}

impl Passing {
    /// Returns the number of times that the air around the gateway carries each of its bytes.
    ///
    /// Three hops from a node its air can be used again (Jamshaid 2010 §7.5.2).
    fn cost(&self) -> u64 {
        u64::from(self.here.hops.unwrap_or(1).clamp(1, 3))
    }
}

impl Gateway {
    fn count(&mut self, c: &FlowCounters) {
        let Some(f) = self.flows.iter_mut().find(|f| f.here.flow == c.flow) else { return };
        // A counter that runs backwards was reset.
        let before = f.bytes.replace(c.bytes).unwrap_or(c.bytes);
        let grown = c.bytes.saturating_sub(before);
        self.moved |= grown > 0;
        self.weighed += grown * f.cost();
        if self.guarantees.flows.iter().any(|g| g.0.flow == c.flow) {
            self.bytes += grown;
        }
    }

    /// Updates U* from the capacity model: allocations of saturated flows fill the air.
    fn observe(&mut self) {
        let filled = |f: &Passing| f.fair.unwrap_or(0) as f64 * f.cost() as f64;
        self.fills = self.fills.max(self.flows.iter().map(filled).sum());
    }

    /// Returns U over U*.
    ///
    /// U is the sensed utilisation, or the airtime that the traffic must take around the gateway,
    /// whichever is more. The gateway is not in range of every first hop of far nodes, but its
    /// neighbours are.
    fn utilization(&self) -> Option<f64> {
        let sensed = self.survey.average? / self.saturation;
        Some(sensed.max(self.carried.unwrap_or(0.0) / self.fills))
    }

    /// Returns U_S*, the sum of the neighbours' guarantees.
    fn guaranteed(&self) -> f64 {
        if self.fixed > 0.0 { self.fixed } else { self.guarantees.sum() }
    }

    fn take(&mut self, now: Time) {
        let seconds = now.since(self.sampled).as_secs_f64();
        if seconds > 0.0 {
            let weight = self.weight;
            let follow = |average: &mut Option<f64>, bytes: &mut u64| {
                let rate = 8.0 * std::mem::take(bytes) as f64 / seconds;
                let old = average.unwrap_or(rate);
                *average = Some(old + weight * (rate - old));
            };
            follow(&mut self.single, &mut self.bytes);
            follow(&mut self.carried, &mut self.weighed);
        }
        self.sampled = now;
        let moved = std::mem::take(&mut self.moved);
        match self.channel.take() {
            Some(channel) => {
                self.survey.sample(&channel, moved);
            }
            None => self.survey.silent = self.survey.silent.saturating_add(1),
        }
    }

    fn update(&mut self, actions: &mut Actions) {
        let blind = u64::from(self.survey.silent) >= RESET_UPDATES * u64::from(SURVEY_SAMPLES);
        let (Some(utilization), false) = (self.utilization(), blind) else {
            if self.last.take().is_some() {
                actions.because(Reason::new(
                    "gap.blind",
                    "the survey has had no value for {} samples: no message to the neighbours",
                    &[Value::Count(u64::from(self.survey.silent))],
                ));
                if self.ack {
                    actions.ack_bits(0);
                }
            }
            return;
        };
        let error = self.noise * self.stream.uniform(-1.0, 1.0);
        let utilization = utilization * (1.0 + error);
        // Guarantees from a capacity model may leave less than γ: the neighbours keep theirs.
        let left = (1.0 - self.guaranteed() / self.fills).max(0.0);
        let threshold = 1.0 - self.gamma.min(left);
        let used = utilization > threshold;
        let single = !self.aggregate || self.single.unwrap_or(0.0) > self.guaranteed();
        let bits = encode(used, single);
        actions.because(Reason::new(
            if used { "gap.high" } else { "gap.low" },
            "{} of the gateway's capacity is used, the threshold is {}; neighbours' own traffic {}",
            &[
                Value::Percent(utilization),
                Value::Percent(threshold),
                Value::Rate(BitRate(self.single.unwrap_or(0.0) as u64)),
            ],
        ));
        if self.ack {
            if self.last != Some(bits) {
                actions.ack_bits(bits);
            }
        } else {
            actions.send(None, &[bits]);
        }
        self.last = Some(bits);
    }
}

impl Control for Gateway {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::FlowCounters(c) => self.count(c),
            Event::Channel(c) => self.channel = Some(*c),
            Event::Allocation(a) => {
                self.guarantees.allocate(a.flow, a.rate);
                if let Some(f) = self.flows.iter_mut().find(|f| f.here.flow == a.flow) {
                    f.fair = Some(reached(&f.here, a.rate, self.efficiency));
                }
            }
            Event::Deadline if now >= self.due => {
                // Not with each rate: an allocation is complete only when all of its rates have
                // arrived.
                self.observe();
                self.take(now);
                self.until_update -= 1;
                if self.until_update == 0 {
                    self.until_update = SURVEY_SAMPLES;
                    self.update(actions);
                }
                self.due = now + self.sample;
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }
}
