//! Utilisation of the channel from survey counters, with a moving average.

use fairmesh_units::Span;

use crate::Channel;

/// Result of a pair of survey samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Reading {
    /// Fraction of the time that the channel was busy, 0 to 1.
    Busy(f64),
    /// The first sample, or an implausible one.
    ///
    /// No time passed, a counter ran backwards, or the channel was never busy although data passed.
    Nothing,
}

/// Turns cumulative counters into utilisation and smooths it.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    last: Option<Channel>,
    weight: f64,
    /// Moving average of the utilisation.
    pub average: Option<f64>,
    /// Number of consecutive samples without a result.
    pub silent: u32,
}

impl Survey {
    /// `weight` of a new sample in the average, above 0 and at most 1.
    pub fn new(weight: f64) -> Self {
        Survey { last: None, weight, average: None, silent: 0 }
    }

    /// Takes a sample in; `moved` if data is known to have passed since the last one.
    pub fn sample(&mut self, now: &Channel, moved: bool) -> Reading {
        let Some(before) = self.last.replace(*now) else { return Reading::Nothing };
        let (active, busy) = (grown(before.active, now.active), grown(before.busy, now.busy));
        let reading = match (active, busy) {
            (Some(active), Some(busy)) if active > Span::ZERO && !(moved && busy == Span::ZERO) => {
                // A driver that counts overlapping causes twice reports more busy time than there
                // was.
                Reading::Busy((busy.as_nanos() as f64 / active.as_nanos() as f64).min(1.0))
            }
            _ => Reading::Nothing,
        };
        match reading {
            Reading::Busy(part) => {
                self.silent = 0;
                let old = self.average.unwrap_or(part);
                self.average = Some(old + self.weight * (part - old));
            }
            Reading::Nothing => self.silent = self.silent.saturating_add(1),
        }
        reading
    }
}

/// Returns the growth of a counter; `None` if it ran backwards.
fn grown(before: Span, now: Span) -> Option<Span> {
    (now >= before).then(|| now.saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(active: u64, busy: u64) -> Channel {
        let ms = Span::from_millis;
        Channel { active: ms(active), busy: ms(busy), receive: ms(0), transmit: ms(0) }
    }

    #[test]
    fn the_average_follows_by_its_weight() {
        let mut s = Survey::new(0.25);
        assert_eq!(s.sample(&channel(100, 10), true), Reading::Nothing, "nothing to compare with");
        assert_eq!(s.sample(&channel(200, 90), true), Reading::Busy(0.8));
        assert_eq!(s.average, Some(0.8), "the first reading is the average");
        assert_eq!(s.sample(&channel(300, 130), true), Reading::Busy(0.4));
        assert!((s.average.unwrap() - 0.7).abs() < 1e-12);
    }

    #[test]
    fn impossible_samples_are_ignored() {
        let mut s = Survey::new(1.0);
        s.sample(&channel(100, 10), true);
        assert_eq!(s.sample(&channel(200, 510), true), Reading::Busy(1.0), "above 1");
        for (bad, moved) in [((200, 510), true), ((150, 520), true), ((300, 400), true)] {
            assert_eq!(s.sample(&channel(bad.0, bad.1), moved), Reading::Nothing, "{bad:?}");
        }
        assert_eq!(s.sample(&channel(400, 400), true), Reading::Nothing, "stuck");
        assert_eq!((s.silent, s.average), (4, Some(1.0)));
        assert_eq!(s.sample(&channel(500, 400), false), Reading::Busy(0.0), "an idle channel");
        assert_eq!((s.silent, s.average), (0, Some(0.0)));
        for busy in [400, 410] {
            assert_eq!(s.sample(&channel(500, busy), false), Reading::Nothing, "no time passed");
        }
    }
}
