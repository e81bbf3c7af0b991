//! Results between the scenario's changes of link rates.
//!
//! They show if the control follows the changes.

use fairmesh_lab::measures::jain;
use fairmesh_lab::record::RunRecord;
use fairmesh_lab::scenario::Scenario;

use crate::table;

/// Relative distance from their final value within which limits have followed a change.
const SETTLED_TOLERANCE: f64 = 0.25;

/// One stretch of time with constant link rates.
#[derive(Clone, PartialEq, Debug)]
struct Phase {
    from: f64,
    to: f64,
    /// Mean goodput of every flow over the second half, in bit/s.
    goodput: Vec<f64>,
    /// Sum of the limits, mean over the second half, bit/s.
    limits: Option<f64>,
    /// Time until the limits were near that value and stayed so, in s.
    followed: Option<f64>,
}

/// Returns a table of every run by phase; empty for scenarios with constant rates.
pub fn text(scenario: &Scenario, records: &[&RunRecord]) -> String {
    let mut bounds = vec![scenario.warmup().as_secs_f64()];
    bounds.extend(scenario.rate_changes().iter().map(|c| c.at.as_secs_f64()));
    bounds.push(scenario.duration().as_secs_f64());
    bounds.dedup();
    if scenario.rate_changes().is_empty() {
        return String::new();
    }
    let mut t = table::table(&[
        "run",
        "from s",
        "to s",
        "sum kbit/s",
        "Jain",
        "least kbit/s",
        "limits kbit/s",
        "followed s",
    ]);
    for record in records {
        for p in phases(record, &bounds) {
            let least = p.goodput.iter().copied().fold(f64::INFINITY, f64::min);
            table::row(
                &mut t,
                [
                    record.control.clone(),
                    format!("{:.0}", p.from),
                    format!("{:.0}", p.to),
                    format!("{:.0}", p.goodput.iter().sum::<f64>() * 1e-3),
                    format!("{:.3}", jain(&p.goodput)),
                    format!("{:.0}", least * 1e-3),
                    table::optional(p.limits, 1e-3, 0),
                    table::optional(p.followed, 1.0, 0),
                ],
            );
        }
    }
    format!("Between changes of rate, second half of each\n{t}\n")
}

fn phases(record: &RunRecord, bounds: &[f64]) -> Vec<Phase> {
    let s = &record.series;
    let all_limited =
        !s.limit_bps.is_empty() && s.limit_bps.iter().all(|l| l.len() == s.time_s.len());
    let total = |i: usize| s.limit_bps.iter().map(|l| l[i]).sum::<f64>();
    let mut out = Vec::new();
    for w in bounds.windows(2) {
        let middle = f64::midpoint(w[0], w[1]);
        let within = |from: f64| {
            let inside = move |t: &f64| *t > from && *t <= w[1] + 1e-9;
            (0..s.time_s.len()).filter(move |i| inside(&s.time_s[*i]))
        };
        let count = within(middle).count().max(1) as f64;
        let mean = |of: &dyn Fn(usize) -> f64| within(middle).map(of).sum::<f64>() / count;
        let goodput = s.goodput_bps.iter().map(|g| mean(&|i| g[i])).collect();
        let limits = all_limited.then(|| mean(&total));
        let followed = limits.map(|end| {
            let far = |i: &usize| (total(*i) - end).abs() > SETTLED_TOLERANCE * end;
            within(w[0]).rfind(far).map_or(0.0, |i| s.time_s[i] - w[0])
        });
        out.push(Phase { from: w[0], to: w[1], goodput, limits, followed });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::testing::record;

    #[test]
    fn limits_have_followed_when_they_stay_where_they_end_up() {
        let mut r = record("pfrc", 1, &[(1e5, 1e5, 1)]);
        r.series.time_s = (1..=20).map(f64::from).collect();
        // 100 until 10 s, then 80, 60, 50, 50, …
        let limit = |t: &f64| match *t as u32 {
            ..=10 => 100.0,
            11 => 80.0,
            12..=13 => 65.0,
            _ => 50.0,
        };
        let limits: Vec<f64> = r.series.time_s.iter().map(limit).collect();
        r.series.goodput_bps = vec![limits.iter().map(|l| l / 2.0).collect()];
        r.series.limit_bps = vec![limits];
        let all = phases(&r, &[0.0, 10.0, 20.0]);
        assert_eq!((all[0].limits, all[0].followed), (Some(100.0), Some(0.0)));
        assert_eq!((all[1].limits, all[1].followed), (Some(50.0), Some(3.0)));
        assert_eq!(all[1].goodput, [25.0]);
        r.series.limit_bps = vec![Vec::new()];
        assert_eq!(phases(&r, &[0.0, 20.0])[0].followed, None);
    }
}
