//! Numbers that are read from a control's decisions.

use fairmesh_engine::record::RunRecord;
use fairmesh_units::Span;

use super::kind::Kind;

/// Returns instants and reasons of the decisions from which a kind is read.
fn of_kind(run: &RunRecord, kind: Kind) -> impl Iterator<Item = (f64, &str)> {
    let code = kind.decision();
    let decisions = run.decisions.iter().filter(move |d| Some(d.code.as_ref()) == code);
    decisions.map(|d| (d.time_s, d.reason.as_str()))
}

/// Returns the mean over the measured time of values that hold until the next one.
///
/// `None` without values.
fn mean_over_time(run: &RunRecord, values: &[(f64, f64)]) -> Option<f64> {
    let (mut sum, mut covered) = (0.0, 0.0);
    for (k, (from, value)) in values.iter().enumerate() {
        let to = values.get(k + 1).map_or(run.duration_s, |next| next.0);
        let part = (to - from.max(run.warmup_s)).max(0.0);
        (sum, covered) = (sum + part * value, covered + part);
    }
    (covered > 0.0).then(|| sum / covered)
}

/// Returns [`Kind::MarkingThreshold`].
pub(super) fn threshold(run: &RunRecord) -> Option<f64> {
    let values = of_kind(run, Kind::MarkingThreshold).filter_map(|(time, reason)| {
        let words = reason.split("marks from ").nth(1)?;
        Some((time, words.split(' ').next()?.parse::<f64>().ok()? / 100.0))
    });
    mean_over_time(run, &values.collect::<Vec<_>>())
}

/// Returns [`Kind::Halvings`] of a flow.
pub(super) fn halvings(run: &RunRecord, flow: &str) -> f64 {
    let start = format!("flow {flow}: ");
    let measured = of_kind(run, Kind::Halvings).filter(|(time, _)| *time >= run.warmup_s);
    let count = measured.filter(|(_, reason)| reason.starts_with(&start)).count();
    count as f64 / (run.duration_s - run.warmup_s)
}

/// Returns [`Kind::Increases`] of a flow.
pub(super) fn increases(run: &RunRecord, flow: &str) -> Option<f64> {
    let start = format!("flow {flow}: up every ");
    let values = of_kind(run, Kind::Increases).filter_map(|(time, reason)| {
        let interval = reason.strip_prefix(&start)?.split(':').next()?.parse::<Span>().ok()?;
        Some((time, 1.0 / interval.as_secs_f64()))
    });
    mean_over_time(run, &values.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_engine::record::DecisionRecord;
    use fairmesh_lab::testing::record;

    /// Returns a run from 10 to 30 s with these decisions of a kind.
    fn run(kind: Kind, decisions: &[(f64, &str)]) -> RunRecord {
        let mut run = record("any", 1, &[]);
        (run.warmup_s, run.duration_s) = (10.0, 30.0);
        let decision = |&(time_s, reason): &(f64, &str)| DecisionRecord {
            time_s,
            node: "1".to_owned(),
            code: kind.decision().unwrap().into(),
            reason: reason.to_owned(),
            flow: None,
            rate_bps: None,
        };
        run.decisions = decisions.iter().map(decision).collect();
        run
    }

    #[test]
    fn a_threshold_is_averaged_over_its_time_in_force() {
        assert_eq!(threshold(&run(Kind::MarkingThreshold, &[])), None);
        let reasons = [20, 10, -20].map(|percent| {
            format!("utilisation 80 %, marks from {percent} % on, delay 12 ms: 3 % of the packets are marked")
        });
        let run = run(
            Kind::MarkingThreshold,
            &[(4.0, &reasons[0]), (15.0, &reasons[1]), (25.0, &reasons[2])],
        );
        // 5 s of 0.2, 10 s of 0.1, 5 s of -0.2.
        assert!((threshold(&run).unwrap() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn halvings_are_counted_per_flow_and_second() {
        let half = |flow: &str| {
            format!("flow {flow}: congestion on its way: half the rate, then deaf for 90 ms")
        };
        let (one, eleven) = (half("1->3"), half("11->3"));
        let run = run(Kind::Halvings, &[(9.0, &one), (11.0, &one), (12.0, &eleven), (29.0, &one)]);
        assert!((halvings(&run, "1->3") - 0.1).abs() < 1e-12);
        assert!((halvings(&run, "11->3") - 0.05).abs() < 1e-12);
    }

    #[test]
    fn increases_are_averaged_over_the_time_of_their_interval() {
        let up = |interval: &str| format!("flow 1->3: up every {interval}: a packet every 20 ms");
        let (slow, fast) = (up("100 ms"), up("12.5 ms"));
        let run = run(Kind::Increases, &[(0.0, &slow), (20.0, &fast)]);
        assert!((increases(&run, "1->3").unwrap() - 45.0).abs() < 1e-9);
        assert_eq!(increases(&run, "4->6"), None);
    }
}
