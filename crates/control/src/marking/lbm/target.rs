//! ρ₀ by a target for the delay over the wireless link (§3.2): published and improved rules.

use fairmesh_units::Span;

use super::curve::Curve;
use super::measure::{Measured, SAMPLES_PER_AVERAGE};

/// Rule that moves ρ₀.
#[derive(Debug)]
pub(super) enum Target {
    /// ρ₀ is constant.
    None,
    /// One step per averaging time, as in Fig. 3.2.
    Steps(Steps),
    /// A small change at every sample.
    Pi(Pi),
}

impl Target {
    pub fn of(options: &super::Options, alone: f64) -> Self {
        let (least, most) = (options.delay_min, options.delay_max);
        let keep = 1.0 - 1.0 / options.memory;
        let lowest = options.rho0_min;
        if options.pi {
            return Target::Pi(Pi {
                wanted: f64::midpoint(least, most),
                integral: options.integral * options.t_avg / f64::from(SAMPLES_PER_AVERAGE),
                proportional: options.proportional,
                lowest,
                base: options.rho0,
                keep,
                service: alone,
                last: 0.0,
                load: None,
            });
        }
        if !options.adaptive {
            return Target::None;
        }
        Target::Steps(Steps {
            least: Span::from_secs_f64(least),
            most: Span::from_secs_f64(most),
            step: options.step,
            lowest,
            keep,
            waited: 0.0,
            packets: 0.0,
        })
    }
}

/// The published rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    least: Span,
    most: Span,
    step: f64,
    /// Minimum of ρ₀.
    lowest: f64,
    /// Fraction of the earlier sums that an averaging time keeps.
    keep: f64,
    /// Decaying sum of the seconds that packets have waited.
    waited: f64,
    packets: f64,
}

impl Steps {
    /// Returns the average delay of a packet; `None` before any packet has left.
    fn mean(&mut self, measured: &Measured) -> Option<Span> {
        self.waited = self.keep * self.waited + measured.waited;
        self.packets = self.keep * self.packets + measured.packets as f64;
        (self.packets > 0.0).then(|| Span::from_secs_f64(self.waited / self.packets))
    }

    /// Applies §3.2, Fig. 3.2, to the mean over some averaging times.
    ///
    /// Single ones deviate far from it on both sides, and a rule that counts them would hold the
    /// median.
    pub fn adapt(&mut self, measured: &Measured, curve: &mut Curve) {
        let Some(latest) = measured.delay else { return };
        let mean = self.mean(measured).unwrap_or(latest);
        // No further step if the latest delay shows that the step before has worked.
        if mean < self.least && latest < self.most {
            curve.rho0 = (curve.rho0 + self.step).min(1.0);
        } else if mean > self.most && latest > self.least {
            curve.rho0 = (curve.rho0 - self.step).max(self.lowest);
        }
    }
}

/// Proportional-integral rule of this project, applied at every sample of the queue.
///
/// After Hollot et al. (2001) and RFC 8033 §4.2.
///
/// Half a second is ten round trips. A rule with this period, at a ρ that oscillates with the
/// marks, oscillates between a long queue and none, and an empty queue costs throughput. So ρ₀
/// follows the queue within a round trip, and ρ is averaged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pi {
    /// Target of the delay, in s.
    wanted: f64,
    /// Decrease of ρ₀ per sample and second of excess delay.
    integral: f64,
    /// Decrease of ρ₀ while the excess lasts, per second of excess delay.
    proportional: f64,
    /// Minimum of ρ₀.
    lowest: f64,
    /// Present value of the integral part.
    base: f64,
    /// Fraction of the earlier averages that an averaging time keeps.
    keep: f64,
    /// Average service time of the packet at the head of the queue, in s.
    service: f64,
    /// Delay at the last sample, in s.
    last: f64,
    /// Average of ρ.
    load: Option<f64>,
}

impl Pi {
    /// Handles an averaging time with utilisation `rho`.
    pub fn average(&mut self, measured: &Measured, rho: f64) {
        let follow = |old: f64, new: f64| self.keep * old + (1.0 - self.keep) * new;
        self.load = Some(self.load.map_or(rho, |old| follow(old, rho)));
        if let Some(service) = measured.service {
            self.service = follow(self.service, service.as_secs_f64());
        }
    }

    /// Handles the number of packets at the node; returns the probability from now on.
    pub fn sample(&mut self, queued: u64, curve: &mut Curve) -> f64 {
        let delay = queued as f64 * self.service;
        let excess = delay - self.wanted;
        self.last = delay;
        let load = self.load();
        // Above the load nothing is marked: a higher base would only delay the reaction later.
        let most = self.base.max(load).clamp(self.lowest, 1.0);
        self.base = (self.base - self.integral * excess).clamp(self.lowest, most);
        curve.rho0 = (self.base - self.proportional * excess).max(self.lowest);
        curve.probability(load)
    }

    /// Returns the average of ρ.
    pub fn load(&self) -> f64 {
        self.load.unwrap_or(0.0)
    }

    /// Returns the delay at the last sample.
    pub fn delay(&self) -> Span {
        Span::from_secs_f64(self.last)
    }
}
