//! Mechanisms with sums per period, and with messages in place of header fields.

use fairmesh_control::Registry;
use fairmesh_engine::measures::jain;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run_under};
use fairmesh_scenario::{Scenario, draft_from_toml};
use fairmesh_units::Span;

const SECONDS: u64 = 90;

/// Eight homes of a tree upload at 6 Mbit/s.
fn tree() -> Scenario {
    let path = format!("{}/../../scenarios/testbed-tree-up.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut draft = draft_from_toml(&path, &text).unwrap();
    draft.duration = Span::from_secs(SECONDS);
    draft.warmup = Some(Span::from_secs(30));
    draft.build().unwrap()
}

/// Returns the record, Jain's index, and the sum in kbit/s.
fn under(scenario: &Scenario, name: &str) -> (RunRecord, f64, f64) {
    let mechanism = Registry::standard().lookup(name).unwrap();
    let r = run_under(scenario, &RunOptions::default(), &mechanism).unwrap();
    let rates: Vec<f64> = r.flows.iter().map(|f| f.goodput_bps / 1e3).collect();
    let (jain, sum) = (jain(&rates), rates.iter().sum());
    (r, jain, sum)
}

#[test]
fn with_sums_and_messages_flows_keep_their_shares() {
    let s = tree();
    for name in ["cna", "mesh-maxmin"] {
        let (_, jain, sum) = under(&s, name);
        for variant in ["+sampled", "+messages", "+sampled+messages"] {
            let (_, j, with) = under(&s, &format!("{name}{variant}"));
            assert!(j > jain - 0.03, "{name}{variant}: {j} of {jain}");
            assert!(with > 0.9 * sum, "{name}{variant}: {with} of {sum}");
        }
    }
}

#[test]
fn messages_take_at_most_a_kilobyte_per_second_and_node() {
    let s = tree();
    for name in ["cna+messages", "mesh-maxmin+sampled+messages", "lbm+multihop+messages"] {
        let t = under(&s, name).0.totals.signalling;
        assert_eq!(t.header_bytes, 0, "{name}");
        // IP and UDP headers are 28 bytes.
        let bodies = t.message_bytes - 28 * t.message_frames;
        let nodes = 9;
        assert!(bodies > 0 && bodies <= nodes * 1000 * (SECONDS + 1), "{name}: {bodies}");
        assert!(t.airtime_share < 0.04, "{name}: {t:?}");
    }
}
