//! Gain and cost of a control against a baseline: the slowest sharers, the sum, the delay.

use fairmesh_engine::record::RunRecord;
use serde::Serialize;

use crate::estimate::{Estimate, mean};

/// Maximum number of sharers that count as the slowest.
const MAX_SLOWEST_SHARERS: usize = 10;

/// Effects of a control relative to the baseline, seed by seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tradeoff {
    /// The baseline's control: `fifo` if it was run, else the first one.
    pub baseline: String,
    /// Number of the slowest subscribers or flows: a third of all, at most ten.
    pub slowest: usize,
    /// Mean goodput of the slowest under the control, in bit/s.
    pub slowest_bps: Estimate,
    /// Mean goodput of the slowest under the baseline, bit/s. They may be different ones.
    pub slowest_baseline_bps: Estimate,
    /// Sum of the goodputs over the baseline's, less 1.
    pub sum_change: Estimate,
    /// Median over the flows of their mean delay, less the baseline's, s.
    /// `None` if no delay was measured.
    pub delay_change_s: Option<Estimate>,
}

/// Returns the tradeoff of each control, by its place in `records`; `None` for the baseline.
pub fn tradeoffs(records: &[Vec<RunRecord>]) -> Vec<Option<Tradeoff>> {
    if records.len() < 2 {
        return vec![None; records.len()];
    }
    let base = records.iter().position(|r| r[0].control == "fifo").unwrap_or(0);
    let of =
        |(i, runs): (usize, &Vec<RunRecord>)| (i != base).then(|| tradeoff(&records[base], runs));
    records.iter().enumerate().map(of).collect()
}

fn tradeoff(base: &[RunRecord], runs: &[RunRecord]) -> Tradeoff {
    let sharers = base[0].sharers().0.len();
    let slowest = sharers.div_ceil(3).min(MAX_SLOWEST_SHARERS);
    let least = |runs: &[RunRecord]| {
        let of = |r: &RunRecord| {
            let mut goodputs = r.sharers().0;
            goodputs.sort_by(f64::total_cmp);
            mean(goodputs.into_iter().take(slowest))
        };
        Estimate::of(&runs.iter().map(of).collect::<Vec<_>>())
    };
    let sum = |r: &RunRecord| r.flows.iter().map(|f| f.goodput_bps).sum::<f64>();
    let pairs = || base.iter().zip(runs);
    let changes: Vec<f64> =
        pairs().filter(|(b, _)| sum(b) > 0.0).map(|(b, r)| sum(r) / sum(b) - 1.0).collect();
    let delays: Vec<f64> =
        pairs().filter_map(|(b, r)| Some(median_delay(r)? - median_delay(b)?)).collect();
    Tradeoff {
        baseline: base[0].control.clone(),
        slowest,
        slowest_bps: least(runs),
        slowest_baseline_bps: least(base),
        sum_change: Estimate::of(&changes),
        delay_change_s: (!delays.is_empty()).then(|| Estimate::of(&delays)),
    }
}

/// Returns the median of the mean delays of the flows that delivered data, in s.
fn median_delay(r: &RunRecord) -> Option<f64> {
    let measured = r.flows.iter().filter(|f| f.packets_delivered > 0 && f.delay_s.mean > 0.0);
    let mut delays: Vec<f64> = measured.map(|f| f.delay_s.mean).collect();
    delays.sort_by(f64::total_cmp);
    let n = delays.len();
    (n > 0).then(|| (delays[(n - 1) / 2] + delays[n / 2]) / 2.0)
}

impl Tradeoff {
    /// Returns the tradeoff as a sentence.
    ///
    /// An example is "the slowest 10 get 4.1 times as much; the sum falls by 38 %; median delay
    /// +110 ms". A change within its 95 % interval counts as none; a single seed has no interval.
    pub fn sentence(&self, sharers: &str) -> String {
        let subject = match self.slowest {
            1 => format!("the slowest {sharers} gets"),
            n => format!("the slowest {n} {sharers}s get"),
        };
        let (now, before) = (&self.slowest_bps, &self.slowest_baseline_bps);
        let separate = now.above(before) || before.above(now);
        let ratio = now.mean / before.mean;
        let gain = if !separate {
            format!("{subject} the same within the intervals")
        } else if before.mean < 1e3 || ratio >= 100.0 {
            format!("{subject} {:.0} kbit/s ({:.1} before)", now.mean / 1e3, before.mean / 1e3)
        } else if ratio >= 1.0 {
            format!("{subject} {ratio:.1} times as much")
        } else {
            format!("{subject} {:.0} % less", (1.0 - ratio) * 100.0)
        };
        let sum = &self.sum_change;
        let percent = sum.mean * 100.0;
        let cost = if percent.abs() < 0.5 || sum.mean.abs() <= sum.half_width() {
            "the sum is unchanged".to_owned()
        } else if percent > 0.0 {
            format!("the sum rises by {percent:.0} %")
        } else {
            format!("the sum falls by {:.0} %", -percent)
        };
        let delay = self.delay_change_s.as_ref().map_or_else(String::new, |d| {
            match d.mean.abs() <= d.half_width() || d.mean.abs() < 0.5e-3 {
                true => "; median delay unchanged".to_owned(),
                false => format!("; median delay {:+.0} ms", d.mean * 1e3),
            }
        });
        format!("compared with {}: {gain}; {cost}{delay}", self.baseline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    fn runs(control: &str, rates: [f64; 6], delay_s: f64) -> Vec<RunRecord> {
        let run = |seed| {
            let mut r = record(control, seed, &rates.map(|g| (g + seed as f64, 1e5, 1)));
            r.flows.iter_mut().for_each(|f| f.delay_s.mean = delay_s + 1e-4 * seed as f64);
            r
        };
        (1..=3).map(run).collect()
    }

    #[test]
    fn gain_and_cost_stand_in_one_sentence() {
        let fifo = runs("fifo", [400e3, 100e3, 100e3, 100e3, 15e3, 5e3], 0.05);
        let ours = runs("pfrc", [41e3; 6], 0.16);
        // The order of controls does not matter: fifo is the baseline.
        let [ours, none] = &tradeoffs(&[ours, fifo])[..] else { panic!() };
        assert_eq!(none, &None);
        let ours = ours.as_ref().unwrap();
        assert_eq!(ours.slowest, 2);
        let text = "compared with fifo: the slowest 2 flows get 4.1 times as much; the sum falls by 66 %; \
                    median delay +110 ms";
        assert_eq!(ours.sentence("flow"), text);
    }

    #[test]
    fn a_value_within_its_interval_is_not_a_change() {
        let mut fifo = runs("fifo", [100e3; 6], 0.05);
        let mut other = runs("fq", [100e3; 6], 0.05);
        for (k, (a, b)) in fifo.iter_mut().zip(&mut other).enumerate() {
            a.flows[0].goodput_bps += 30e3 * k as f64;
            b.flows[0].goodput_bps += 30e3 * (2 - k) as f64;
        }
        let all = tradeoffs(&[fifo, other]);
        let text = all[1].as_ref().unwrap().sentence("flow");
        assert_eq!(
            text,
            "compared with fifo: the slowest 2 flows get the same within the intervals; the sum is unchanged; \
             median delay unchanged"
        );
    }

    #[test]
    fn nothing_before_is_no_ratio() {
        let fifo = runs("fifo", [300e3, 300e3, 300e3, 300e3, 0.0, 0.0], 0.05);
        let all = tradeoffs(&[fifo, runs("pfrc", [100e3; 6], 0.05)]);
        let text = all[1].as_ref().unwrap().sentence("subscriber");
        assert!(text.contains("the slowest 2 subscribers get 100 kbit/s (0.0 before)"), "{text}");
    }
}
