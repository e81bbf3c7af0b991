//! The table of a sweep.

use fairmesh_lab::summary::{OURS, marked};
use fairmesh_lab::sweep::summary::Summary;
use serde_json::Value;

use crate::table;

/// Formats the sweep as a text table.
pub fn text(s: &Summary) -> String {
    let mut header: Vec<&str> = s.keys.iter().map(String::as_str).collect();
    header.extend([
        "control",
        "sum kbit/s",
        "Jain normalised",
        "min/fair",
        "max/fair",
        "utilisation ratio",
    ]);
    let mut t = table::table(&header);
    for r in &s.results {
        // The map has its keys in their own order.
        let value = |key: &String| r.point.get(key).and_then(Value::as_str);
        let point = s.keys.iter().map(|k| value(k).unwrap_or_default().to_owned());
        let measures = [
            marked(&r.control, r.ours),
            r.sum_goodput_bps.show(1e-3, 1),
            table::estimate(r.jain_normalized, 3),
            table::estimate(r.min_over_fair, 3),
            table::estimate(r.max_over_fair, 2),
            table::estimate(r.utilization_ratio, 3),
        ];
        table::row(&mut t, point.chain(measures));
    }
    let note = match s.results.iter().any(|r| r.ours) {
        true => format!("{OURS}\n"),
        false => String::new(),
    };
    format!("{}: {} seeds per point\n\n{t}\n{note}", s.scenario, s.seeds)
}
