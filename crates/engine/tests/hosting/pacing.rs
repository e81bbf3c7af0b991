//! `tcp-ap` in the engine: senders in the mesh, and the gateway for flows from the wire.

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run};

use crate::probe::scenario;

fn chain(control: &str, from: &str, to: &str) -> RunRecord {
    let s = scenario(&format!(
        r#"
name = "chain"
duration = "40 s"
warmup = "10 s"
[control]
use = "{control}"
[radio]
phy = "802.11b"
rate = "2 Mbit/s"
[topology]
chain = {{ hops = 6, spacing = "200 m" }}
gateway = 0
[wired]
hosts = ["web"]
[[flow]]
from = {from}
to = {to}
"#
    ));
    run(&s, &RunOptions::default()).unwrap()
}

/// Uploads are paced at their sources, downloads at the gateway.
///
/// In both directions the chain carries as much at a fraction of the delay, with few losses.
#[test]
fn a_chain_is_paced_in_both_directions() {
    for (from, to, at) in [("6", "\"web\"", "6"), ("\"web\"", "6", "0")] {
        let (plain, paced) = (chain("fifo", from, to), chain("tcp-ap", from, to));
        assert!(paced.decisions.iter().all(|d| d.node == at), "{:?}", paced.decisions[0]);
        assert!(paced.decisions.iter().any(|d| d.code == "tcp-ap.spacing"));
        let [a, b] = [&plain, &paced].map(|r| &r.flows[0]);
        assert!(b.goodput_bps > 0.95 * a.goodput_bps, "{} {}", b.goodput_bps, a.goodput_bps);
        let lost = |r: &RunRecord| r.totals.drops.retry_limit;
        assert!(lost(&paced) * 4 <= lost(&plain), "{} {}", lost(&paced), lost(&plain));
        if at == "6" {
            // At the gateway the window waits before the bucket instead.
            assert!(b.delay_s.mean < 0.5 * a.delay_s.mean, "{:?} {:?}", b.delay_s, a.delay_s);
        }
    }
}
