//! 802.11n, ac and ax against ns-3.37: every row of validation/ns3-modern.

use std::path::Path;

use fairmesh_experiments::validation::suite::{Choice, run};
use fairmesh_lab::Pool;

#[test]
fn every_row_agrees_with_ns3() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/ns3-modern"));
    let outcomes = run(&[folder], &Choice::default(), &Pool::default()).unwrap();
    assert_eq!(outcomes.len(), 120);
    // In the other rows the starving flow changes from seed to seed
    // (validation/ns3-modern/README.md).
    assert_eq!(outcomes.iter().filter(|o| o.verdict.promised).count(), 105);
    let mut failed = vec![];
    for o in &outcomes {
        let v = &o.verdict;
        for l in &v.lines {
            println!(
                "{:30} {:6} {:9.3} ± {:7.3} {:9.3} ± {:7.3} {:+6.2} % {}",
                v.tag,
                l.what,
                l.reference_bps / 1e6,
                l.reference_half_width / 1e6,
                l.ours_bps / 1e6,
                l.ours_half_width / 1e6,
                100.0 * l.difference.unwrap_or_default(),
                if l.agrees { "" } else { "DIFFERS" },
            );
        }
        if v.promised && !o.agrees() {
            failed.push(v.tag.as_str());
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} rows: {}",
        failed.len(),
        outcomes.len(),
        failed.join(", ")
    );
}
