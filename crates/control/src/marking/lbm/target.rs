//! ρ₀ by a target for the delay over the wireless link (§3.2), and the same by a better rule.

use fairmesh_units::Span;

use super::curve::Curve;
use super::measure::{Measured, SAMPLES};

/// What moves ρ₀, if anything.
#[derive(Debug)]
pub(super) enum Target {
    /// ρ₀ stays.
    None,
    /// One step per averaging time, as in Fig. 3.2.
    Steps(Steps),
    /// A little at every sample.
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
                integral: options.integral * options.t_avg / f64::from(SAMPLES),
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
    /// ρ₀ falls no lower.
    lowest: f64,
    /// What an averaging time keeps of the sums before it.
    keep: f64,
    /// Decaying sums: seconds that packets have waited, and packets.
    waited: f64,
    packets: f64,
}

impl Steps {
    /// The delay of a packet, averaged; `None` before any has left.
    fn mean(&mut self, measured: &Measured) -> Option<Span> {
        self.waited = self.keep * self.waited + measured.waited;
        self.packets = self.keep * self.packets + measured.packets as f64;
        (self.packets > 0.0).then(|| Span::from_secs_f64(self.waited / self.packets))
    }

    /// §3.2, Fig. 3.2, for the mean over some averaging times: single ones are far from it on both
    /// sides, and a rule that counts them would hold the median.
    pub fn adapt(&mut self, measured: &Measured, curve: &mut Curve) {
        let Some(latest) = measured.delay else { return };
        let mean = self.mean(measured).unwrap_or(latest);
        // No further where the latest shows that the step before has worked.
        if mean < self.least && latest < self.most {
            curve.rho0 = (curve.rho0 + self.step).min(1.0);
        } else if mean > self.most && latest > self.least {
            curve.rho0 = (curve.rho0 - self.step).max(self.lowest);
        }
    }
}

/// Ours: a proportional-integral rule at every sample of the queue, after Hollot et al. (2001) and
/// RFC 8033 §4.2.
///
/// Half a second is ten round trips. A rule that looks only so often, at a ρ that swings by as much
/// as is marked, swings between a long queue and none, and an empty queue costs throughput. So ρ₀
/// follows the queue within a round trip, and ρ is averaged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pi {
    /// The delay wanted, seconds.
    wanted: f64,
    /// Fall of ρ₀ per sample and second of delay too much.
    integral: f64,
    /// Fall of ρ₀ for as long as it is so, per second of delay too much.
    proportional: f64,
    /// ρ₀ falls no lower.
    lowest: f64,
    /// What the integral part has come to.
    base: f64,
    /// What an averaging time keeps of the averages before it.
    keep: f64,
    /// Time that the packet at the head of the queue takes, average, seconds.
    service: f64,
    /// The delay at the last sample, seconds.
    last: f64,
    /// ρ, average.
    load: Option<f64>,
}

impl Pi {
    /// An averaging time with utilisation `rho` has ended.
    pub fn average(&mut self, measured: &Measured, rho: f64) {
        let follow = |old: f64, new: f64| self.keep * old + (1.0 - self.keep) * new;
        self.load = Some(self.load.map_or(rho, |old| follow(old, rho)));
        if let Some(service) = measured.service {
            self.service = follow(self.service, service.as_secs_f64());
        }
    }

    /// `queued` packets are at the node: what it marks from now on.
    pub fn sample(&mut self, queued: u64, curve: &mut Curve) -> f64 {
        let delay = queued as f64 * self.service;
        let excess = delay - self.wanted;
        self.last = delay;
        let load = self.load();
        // Above the load nothing is marked: higher still would only be in the way later.
        let most = self.base.max(load).clamp(self.lowest, 1.0);
        self.base = (self.base - self.integral * excess).clamp(self.lowest, most);
        curve.rho0 = (self.base - self.proportional * excess).max(self.lowest);
        curve.probability(load)
    }

    /// ρ as it is averaged.
    pub fn load(&self) -> f64 {
        self.load.unwrap_or(0.0)
    }

    /// The delay at the last sample.
    pub fn delay(&self) -> Span {
        Span::from_secs_f64(self.last)
    }
}
