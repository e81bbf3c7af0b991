//! LBM at an access point, for all traffic that crosses it in both directions (§3.1).
//!
//! ρ₀ may follow a target for the delay over the wireless link (§3.2).

use fairmesh_units::{Span, Time};

use crate::{
    Actions, Class, Control, Event, EventKind, EventSet, Instance, Marking, Plan, Reason, Setting,
    Value,
};

use super::curve::Curve;
use super::measure::{Meter, SAMPLES_PER_AVERAGE};
use super::target::Target;

pub(super) fn build(options: &super::Options, setting: Setting) -> Instance {
    let sample = Span::from_secs_f64(options.t_avg / f64::from(SAMPLES_PER_AVERAGE));
    let meter = Meter::new(options.overhead, &setting.neighbours);
    Instance {
        control: Box::new(AccessPoint {
            curve: Curve::of(options),
            how: super::marking(options),
            target: Target::of(options, meter.alone),
            meter,
            queued: 0,
            marking: 0.0,
            sample,
            due: Time::ZERO + sample,
            left: SAMPLES_PER_AVERAGE,
        }),
        plan: Plan::none(),
    }
}

#[derive(Debug)]
struct AccessPoint {
    curve: Curve,
    how: Marking,
    target: Target,
    meter: Meter,
    /// Packets at the node in the present sample.
    queued: u64,
    /// Probability in force.
    marking: f64,
    sample: Span,
    due: Time,
    left: u32,
}

impl AccessPoint {
    /// Handles the end of an averaging time.
    fn decide(&mut self, now: Time, actions: &mut Actions) {
        let measured = self.meter.take(now);
        let rho = (measured.sent + measured.received) / self.meter.channel;
        match &mut self.target {
            Target::None => {}
            Target::Steps(steps) => steps.adapt(&measured, &mut self.curve),
            Target::Pi(pi) => return pi.average(&measured, rho),
        }
        let probability = self.curve.probability(rho);
        let delay = measured.delay.unwrap_or(Span::ZERO);
        self.mark(rho, delay, probability, actions);
    }

    /// Handles a complete sample of the queue.
    fn sample(&mut self, actions: &mut Actions) {
        let queued = std::mem::take(&mut self.queued);
        if let Target::Pi(pi) = &mut self.target {
            let probability = pi.sample(queued, &mut self.curve);
            let (load, delay) = (pi.load(), pi.delay());
            self.mark(load, delay, probability, actions);
        }
    }

    fn mark(&mut self, rho: f64, delay: Span, probability: f64, actions: &mut Actions) {
        if probability == self.marking {
            return;
        }
        self.marking = probability;
        actions.because(Reason::new(
            "lbm.load",
            "utilisation {}, marks from {} on, delay {}: {} of the packets are marked",
            &[
                Value::Percent(rho),
                Value::Percent(self.curve.rho0),
                Value::Span(delay),
                Value::Percent(probability),
            ],
        ));
        actions.mark_as(Class::All, probability, self.how);
    }
}

impl Control for AccessPoint {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Deadline if now >= self.due => {
                self.left -= 1;
                self.sample(actions);
                if self.left == 0 {
                    self.left = SAMPLES_PER_AVERAGE;
                    self.decide(now, actions);
                }
                self.due = now + self.sample;
            }
            other => {
                if let Event::Queue(q) = other {
                    self.queued += u64::from(q.packets);
                }
                self.meter.sample(other);
            }
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }

    fn wants(&self) -> EventSet {
        EventSet::of(&[EventKind::Neighbours])
    }
}
