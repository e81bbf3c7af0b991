//! LBM at an access point: all that crosses it, in both directions (§3.1), and ρ₀ by a target for
//! the delay over the wireless link (§3.2).

use fairmesh_units::{Span, Time};

use crate::{Actions, Class, Control, Event, Instance, Options, Plan, Reason, Setting, Value};

use super::curve::Curve;
use super::measure::{Kind, Measured, Meter, SAMPLES};

pub(super) fn build(options: &Options, setting: Setting) -> Instance {
    let sample = Span::from_secs_f64(options.get("t_avg") / f64::from(SAMPLES));
    let target = options.has("adaptive").then(|| Target {
        least: Span::from_secs_f64(options.get("delay_min")),
        most: Span::from_secs_f64(options.get("delay_max")),
        step: options.get("step"),
    });
    Instance {
        control: Box::new(AccessPoint {
            curve: Curve::of(options),
            target,
            meter: Meter::new(Kind::of(options), &setting),
            marking: 0.0,
            sample,
            due: Time::ZERO + sample,
            left: SAMPLES,
        }),
        plan: Plan::none(),
    }
}

/// The delay that ρ₀ is to hold.
#[derive(Clone, Copy, Debug)]
struct Target {
    least: Span,
    most: Span,
    step: f64,
}

#[derive(Debug)]
struct AccessPoint {
    curve: Curve,
    target: Option<Target>,
    meter: Meter,
    /// The probability in force.
    marking: f64,
    sample: Span,
    due: Time,
    left: u32,
}

impl AccessPoint {
    /// §3.2, Fig. 3.2.
    fn adapt(&mut self, measured: &Measured) {
        let (Some(target), Some(delay)) = (self.target, measured.delay) else { return };
        let rho0 = self.curve.rho0;
        if delay < target.least {
            self.curve.rho0 = (rho0 + target.step).min(1.0);
        } else if delay > target.most {
            self.curve.rho0 = (rho0 - target.step).max(0.0);
        }
    }

    fn decide(&mut self, now: Time, actions: &mut Actions) {
        let measured = self.meter.take(now);
        self.adapt(&measured);
        let both = (measured.sent + measured.received) / self.meter.channel;
        let rho = self.meter.own(&measured).unwrap_or(both);
        let probability = self.curve.probability(rho);
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
                Value::Span(measured.delay.unwrap_or(Span::ZERO)),
                Value::Percent(probability),
            ],
        ));
        actions.mark(Class::All, probability);
    }
}

impl Control for AccessPoint {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Deadline if now >= self.due => {
                self.left -= 1;
                if self.left == 0 {
                    self.left = SAMPLES;
                    self.decide(now, actions);
                }
                self.due = now + self.sample;
            }
            other => self.meter.sample(other),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }
}
