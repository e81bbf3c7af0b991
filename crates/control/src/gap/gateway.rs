//! The gateway's half: how much of its time is used, and who is told.

use fairmesh_units::{NodeId, Span, Stream, Time};

use crate::survey::Survey;
use crate::{
    Actions, Control, Event, FlowCounters, Instance, Options, Plan, Reason, Setting, Value,
};

use super::{Guarantees, PATIENCE, SAMPLES, encode};

pub(super) fn build(options: &Options, setting: Setting) -> Instance {
    let neighbours: Vec<NodeId> = setting.neighbours.iter().map(|n| n.node).collect();
    // Uploads of neighbours: one hop, and not on their way out to a neighbour.
    let single = setting
        .flows
        .iter()
        .filter(|f| f.hops == Some(1) && f.next_hop.is_none_or(|to| !neighbours.contains(&to)));
    let guarantees = Guarantees::of(single);
    let fixed =
        1e3 * options.get("guarantee") * guarantees.flows.len().min(neighbours.len()) as f64;
    let capacity = setting.neighbours.iter().map(|n| n.capacity.0).max().unwrap_or(1) as f64;
    let sample = Span::from_secs_f64(options.get("period") / f64::from(SAMPLES));
    Instance {
        control: Box::new(Gateway {
            gamma: options.get("gamma"),
            saturation: options.get("saturation"),
            noise: options.get("noise"),
            ack: options.has("ack"),
            aggregate: options.has("aggregate"),
            capacity,
            fixed,
            counted: vec![None; guarantees.flows.len()],
            single: None,
            weight: options.get("weight"),
            guarantees,
            survey: Survey::new(options.get("weight")),
            channel: None,
            moved: false,
            bytes: 0,
            all: Vec::new(),
            sampled: Time::ZERO,
            sample,
            due: Time::ZERO + sample,
            until_update: SAMPLES,
            last: None,
            stream: setting.stream,
        }),
        plan: Plan::none(),
    }
}

#[derive(Debug)]
struct Gateway {
    gamma: f64,
    saturation: f64,
    noise: f64,
    ack: bool,
    aggregate: bool,
    /// IP bytes per second, in bits, that a lone neighbour gets across.
    capacity: f64,
    /// U_S* where the operator has set it; 0: the fair rates decide.
    fixed: f64,
    guarantees: Guarantees,
    /// Bytes of each neighbour's upload at the last sample.
    counted: Vec<Option<u64>>,
    /// Moving average of what the neighbours' own uploads carry, bit/s.
    single: Option<f64>,
    weight: f64,
    survey: Survey,
    channel: Option<crate::Channel>,
    /// Whether data has left since the last sample.
    moved: bool,
    /// Bytes of the neighbours' own uploads since the last sample.
    bytes: u64,
    /// Every flow's counter at the last sample.
    all: Vec<(u32, u64)>,
    sampled: Time,
    sample: Span,
    due: Time,
    until_update: u32,
    /// The bits last sent.
    last: Option<u8>,
    stream: Stream,
}

impl Gateway {
    fn count(&mut self, c: &FlowCounters) {
        match self.all.iter_mut().find(|a| a.0 == c.flow.0) {
            Some(known) => {
                self.moved |= c.bytes > known.1;
                known.1 = c.bytes;
            }
            None => self.all.push((c.flow.0, c.bytes)),
        }
        if let Some(i) = self.guarantees.flows.iter().position(|f| f.0.flow == c.flow) {
            let before = self.counted[i].replace(c.bytes).unwrap_or(c.bytes);
            // A counter that runs backwards has started anew.
            self.bytes += c.bytes.saturating_sub(before);
        }
    }

    /// U_S*, the neighbours' guarantees together.
    fn guaranteed(&self) -> f64 {
        if self.fixed > 0.0 { self.fixed } else { self.guarantees.sum() }
    }

    fn take(&mut self, now: Time) {
        let seconds = now.since(self.sampled).as_secs_f64();
        if seconds > 0.0 {
            let rate = 8.0 * std::mem::take(&mut self.bytes) as f64 / seconds;
            let old = self.single.unwrap_or(rate);
            self.single = Some(old + self.weight * (rate - old));
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
        let blind = u64::from(self.survey.silent) >= PATIENCE * u64::from(SAMPLES);
        let (Some(average), false) = (self.survey.average, blind) else {
            if self.last.take().is_some() {
                actions.because(Reason::new(
                    "gap.blind",
                    "the survey has said nothing for {} samples: the neighbours are told nothing",
                    &[Value::Count(u64::from(self.survey.silent))],
                ));
                if self.ack {
                    actions.ack_bits(0);
                }
            }
            return;
        };
        let error = self.noise * self.stream.uniform(-1.0, 1.0);
        let utilization = average * (1.0 + error);
        // Guarantees from a capacity model may leave less than γ: the neighbours keep theirs.
        let left = (1.0 - self.guaranteed() / self.capacity).max(0.0);
        let threshold = (1.0 - self.gamma.min(left)) * self.saturation;
        let used = utilization > threshold;
        let single = !self.aggregate || self.single.unwrap_or(0.0) > self.guaranteed();
        let bits = encode(used, single);
        actions.because(Reason::new(
            if used { "gap.high" } else { "gap.low" },
            "{} of the gateway's time is used, the threshold is {}; neighbours' own traffic {}",
            &[
                Value::Percent(utilization),
                Value::Percent(threshold),
                Value::Rate(fairmesh_units::BitRate(self.single.unwrap_or(0.0) as u64)),
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
            Event::Allocation(a) => self.guarantees.allocate(a.flow, a.rate),
            Event::Deadline if now >= self.due => {
                self.take(now);
                self.until_update -= 1;
                if self.until_update == 0 {
                    self.until_update = SAMPLES;
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
