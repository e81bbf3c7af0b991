//! What a case has over its topologies.

use super::STARVED;
use super::record::{Measures, Record};

/// A case over the topologies on which it ran.
pub(super) struct Means {
    pub starves: usize,
    pub of: usize,
    pub worst: f64,
    pub worst_mbit: f64,
    pub sum_mbit: f64,
    pub per_frame: f64,
    pub delay_ms: Option<f64>,
}

impl Means {
    pub fn of(r: &Record, case: usize) -> Self {
        let rows = r.row(case);
        let mean = |of: &dyn Fn(&Measures) -> f64| {
            rows.iter().map(|(_, m)| of(m)).sum::<f64>() / rows.len().max(1) as f64
        };
        let delays: Vec<f64> =
            rows.iter().filter_map(|(_, m)| m.delay_ms.map(|d| d.mean)).collect();
        Means {
            starves: rows.iter().filter(|(_, m)| m.worst.mean < STARVED).count(),
            of: rows.len(),
            worst: mean(&|m| m.worst.mean),
            worst_mbit: mean(&|m| m.worst_mbit.mean),
            sum_mbit: mean(&|m| m.sum_mbit.mean),
            per_frame: mean(&|m| m.per_frame.mean),
            delay_ms: (!delays.is_empty())
                .then(|| delays.iter().sum::<f64>() / delays.len() as f64),
        }
    }

    /// On how many of them somebody starves.
    pub fn on(&self) -> String {
        format!("{} of {}", self.starves, self.of)
    }
}
