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
        lowest: options.get("rho0_min"),
        keep: 1.0 - 1.0 / options.get("memory"),
        waited: 0.0,
        packets: 0.0,
    });
    Instance {
        control: Box::new(AccessPoint {
            curve: Curve::of(options),
            ect1: options.has("ect1"),
            target,
            meter: Meter::new(Kind::of(options), options.get("overhead"), &setting),
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
    /// ρ₀ falls no lower.
    lowest: f64,
    /// What an averaging time keeps of the sums before it.
    keep: f64,
    /// Decaying sums: seconds that packets have waited, and packets.
    waited: f64,
    packets: f64,
}

impl Target {
    /// The delay of a packet, averaged; `None` before any has left.
    fn mean(&mut self, measured: &Measured) -> Option<Span> {
        self.waited = self.keep * self.waited + measured.waited;
        self.packets = self.keep * self.packets + measured.packets as f64;
        (self.packets > 0.0).then(|| Span::from_secs_f64(self.waited / self.packets))
    }
}

#[derive(Debug)]
struct AccessPoint {
    curve: Curve,
    /// ECT(1) packets are marked too.
    ect1: bool,
    target: Option<Target>,
    meter: Meter,
    /// The probability in force.
    marking: f64,
    sample: Span,
    due: Time,
    left: u32,
}

impl AccessPoint {
    /// §3.2, Fig. 3.2, for the mean over some averaging times: single ones are far from it on both
    /// sides, and a rule that counts them would hold the median.
    fn adapt(&mut self, measured: &Measured) {
        let (Some(target), Some(latest)) = (&mut self.target, measured.delay) else { return };
        let mean = target.mean(measured).unwrap_or(latest);
        let rho0 = self.curve.rho0;
        // No further where the latest shows that the step before has worked.
        if mean < target.least && latest < target.most {
            self.curve.rho0 = (rho0 + target.step).min(1.0);
        } else if mean > target.most && latest > target.least {
            self.curve.rho0 = (rho0 - target.step).max(target.lowest);
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
        actions.mark_codepoints(Class::All, probability, self.ect1);
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
