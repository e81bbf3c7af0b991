//! The objects printed by `--json` and stored in `results.json` (docs/json.md).

use fairmesh_engine::record::RunRecord;
use serde::Serialize;

pub use crate::layout::{GENERATOR, SCHEMA};
use crate::optimum::Optimum;
use crate::summary::ControlSummary;
use crate::timeline::TimelineSummary;
use crate::tradeoff::tradeoffs;

/// One run, as printed by `run --json`.
#[derive(Clone, Debug, Serialize)]
pub struct OneRun<'a> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The record.
    #[serde(flatten)]
    pub record: &'a RunRecord,
    /// [`GENERATOR`].
    pub generator: &'static str,
    /// Assumptions, changes and omissions, a sentence each; absent if there are none.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub notes: &'a [String],
    /// Attempts of each link in the window of a timeline; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineSummary>,
}

impl<'a> OneRun<'a> {
    /// Builds the object from a record, and from the notes made before the run.
    pub fn of(record: &'a RunRecord, notes: &'a [String]) -> Self {
        OneRun { schema: SCHEMA, record, generator: GENERATOR, notes, timeline: None }
    }
}

/// Several controls on one scenario. Rates in bit/s, times in s.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Scenario name.
    pub scenario: String,
    /// Number of seeds.
    pub seeds: usize,
    /// One entry per control, in the requested order.
    pub results: Vec<ControlSummary>,
    /// The seeds themselves.
    pub seed_list: Vec<u64>,
    /// Simulated time of each run.
    pub duration_s: f64,
    /// Start of the measured interval.
    pub warmup_s: f64,
    /// [`GENERATOR`].
    pub generator: &'static str,
    /// Assumptions, changes and omissions, a sentence each; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Comparison {
    /// Summarises `records`: one inner list per control, one record per seed each.
    ///
    /// No list may be empty.
    pub fn of(records: &[Vec<RunRecord>]) -> Self {
        let first = &records[0][0];
        Comparison {
            schema: SCHEMA,
            scenario: first.scenario.clone(),
            seeds: records[0].len(),
            results: records
                .iter()
                .zip(tradeoffs(records))
                .map(|(r, tradeoff)| ControlSummary { tradeoff, ..ControlSummary::of(r) })
                .collect(),
            seed_list: records[0].iter().map(|r| r.seed).collect(),
            duration_s: first.duration_s,
            warmup_s: first.warmup_s,
            generator: GENERATOR,
            notes: Vec::new(),
        }
    }

    /// Adds the notes made before the runs.
    #[must_use]
    pub fn noted(self, notes: Vec<String>) -> Self {
        Comparison { notes, ..self }
    }

    /// Adds the measures of the same records relative to their scenario's optimum.
    #[must_use]
    pub fn of_optimum(mut self, records: &[Vec<RunRecord>], optimum: &Optimum) -> Self {
        let results = self.results.into_iter().zip(records);
        self.results = results.map(|(r, records)| r.of_optimum(records, optimum)).collect();
        self
    }
}

/// Content of `results.json`: the comparison and its runs without their curves.
#[derive(Serialize)]
pub struct ResultFile<'a> {
    /// The object of `--json`.
    #[serde(flatten)]
    pub comparison: &'a Comparison,
    /// Command line that produced it.
    pub command: &'a str,
    /// Every run.
    pub runs: Vec<RunRecord>,
}

impl<'a> ResultFile<'a> {
    /// Builds the object from all runs; their curves are in `series.parquet`.
    pub fn new(
        comparison: &'a Comparison,
        command: &'a str,
        records: &[Vec<RunRecord>],
    ) -> ResultFile<'a> {
        let plain = |r: &RunRecord| RunRecord { series: Default::default(), ..r.clone() };
        ResultFile { comparison, command, runs: records.iter().flatten().map(plain).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn the_object_has_the_documented_shape() {
        let records = ["fifo", "source"].map(|c| {
            (1..=3).map(|s| record(c, s, &[(1e5 * s as f64, 2e5, 1), (1e4, 2e5, 3)])).collect()
        });
        let c = Comparison::of(&records);
        let v = serde_json::to_value(&c).unwrap();
        assert_eq!(v["schema"], 1);
        assert_eq!(v["scenario"], "example");
        assert_eq!(v["seeds"], 3);
        assert_eq!(v["seed_list"], serde_json::json!([1, 2, 3]));
        assert_eq!(v["results"].as_array().unwrap().len(), 2);
        let r = &v["results"][1];
        assert_eq!(r["control"], "source");
        for key in [
            "jain",
            "jain_normalized",
            "min_over_fair",
            "max_over_fair",
            "utilization_ratio",
            "sum_goodput_bps",
        ] {
            assert!(r[key]["mean"].is_f64(), "{key}");
            assert!(r[key]["ci95"].is_f64(), "{key}");
        }
        let f = &r["flows"][1];
        assert_eq!((&f["from"], &f["to"], &f["hops"]), (&"2".into(), &"0".into(), &3.into()));
        assert_eq!(f["goodput_bps"]["mean"], 1e4);
        assert_eq!(f["goodput_bps"]["ci95"], 0.0);
        assert_eq!(f["fair_bps"], 2e5);
        assert!(f["delay_s"]["mean"].is_f64() && f["delay_s"]["p95"].is_f64());

        let file = serde_json::to_value(ResultFile::new(&c, "fairmesh compare x", &records));
        let file = file.unwrap();
        assert_eq!(file["runs"].as_array().unwrap().len(), 6);
        assert_eq!(file["runs"][0]["series"]["time_s"], serde_json::json!([]));
        assert!(file["generator"].as_str().unwrap().starts_with("fairmesh "));
    }
}
