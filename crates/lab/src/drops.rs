//! Losses over seeds, by cause.

use fairmesh_engine::record::Drops;
use serde::Serialize;

/// Packets lost by cause, mean per run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DropsSummary {
    /// Wireless interface queues.
    pub queue: f64,
    /// Queues of the wired side.
    pub wire: f64,
    /// MAC retry limit.
    pub retry_limit: f64,
    /// The control's own limiter.
    pub limiter: f64,
}

impl DropsSummary {
    /// Returns the mean over runs.
    pub(crate) fn over<'a>(drops: impl Iterator<Item = &'a Drops>) -> Self {
        let (mut sum, mut n) = (DropsSummary::default(), 0.0);
        for d in drops {
            sum.queue += d.queue as f64;
            sum.wire += d.wire as f64;
            sum.retry_limit += d.retry_limit as f64;
            sum.limiter += d.limiter as f64;
            n += 1.0;
        }
        DropsSummary {
            queue: sum.queue / n,
            wire: sum.wire / n,
            retry_limit: sum.retry_limit / n,
            limiter: sum.limiter / n,
        }
    }

    /// Returns the sum over all causes.
    pub fn total(&self) -> f64 {
        self.queue + self.wire + self.retry_limit + self.limiter
    }

    /// Returns the cause with the most losses and its share of all; `None` if nothing was lost.
    pub fn main_cause(&self) -> Option<(&'static str, f64)> {
        let causes = [
            ("queue overflow", self.queue),
            ("wired queue", self.wire),
            ("retry limit", self.retry_limit),
            ("limiter", self.limiter),
        ];
        let worst = causes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (worst.1 > 0.0).then(|| (worst.0, worst.1 / self.total()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_cause_of_loss() {
        let d = DropsSummary { queue: 1.0, retry_limit: 3.0, ..Default::default() };
        assert_eq!(d.main_cause(), Some(("retry limit", 0.75)));
        assert_eq!(DropsSummary::default().main_cause(), None);
    }
}
