//! Mechanisms of `fairmesh-node` on every router, as simulated.

use crate::comparison::{Comparison, fairness, median, sum};
use crate::mesh::{Mode, NOHT_5GHZ};
use crate::{chain, machine, tree, within};

/// The smallest biased tree (Mancuso 2010 Fig. 2(a)).
///
/// 1 and 2 are neighbours of the gateway, 3 is behind 1 and not sensed by 2.
const BIASED_TREE: &str = "name = \"biased\"\nduration = \"20 s\"\nwarmup = \"2 s\"\n[radio]\nphy = \"802.11a\"\n\
    rate = \"24 Mbit/s\"\n[topology]\nlinks = [[0, 1], [0, 2], [1, 3]]\nsense_hops = 1\ngateway = 0\n";

/// `gap` on the gateway and its neighbours.
fn gap(mode: Mode, routing: &'static str) -> Comparison<'static> {
    Comparison {
        name: if routing == "hwmp" { "gap-hwmp" } else { "gap" },
        text: BIASED_TREE.into(),
        parents: &[None, Some(0), Some(0), Some(1)],
        from: vec![2, 3],
        routing,
        mode,
        ecn: false,
        control: "use = \"gap\"\nguarantee = 2000",
        mbit: 24,
        settling: 5.5,
    }
}

/// `gap` frees the home behind the gateway's neighbour, as simulated.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn gap_frees_the_far_home() {
    let _one = machine!();
    let gap = gap(Mode::Ibss(NOHT_5GHZ), "layer3");
    let measured = gap.measured(|mesh, routers| {
        let near = routers.status(mesh, 2);
        println!("limit of the near home: {}; neighbours {}", near["limit"], near["neighbours"]);
        assert!(near["limit"]["applied"] == true, "{near}");
    });
    let simulated = gap.simulated();
    gap.report(&measured, &simulated);
    for pair in &measured {
        let (without, with) = (pair.without[1].rate, pair.with[1].rate);
        assert!(with > 3.0 * without && with > 2e6, "the far home: {with:.0} bit/s");
    }
    within("gap, sum", median(&measured, sum), median(&simulated, sum), 0.15);
    let (got, wanted) = (median(&measured, fairness), median(&simulated, fairness));
    // The simulator's own seeds differ by more.
    assert!((got - wanted).abs() < 0.1, "Jain {got:.2} beside {wanted:.2}");
}

/// Over 802.11s, `gap` follows the gateway's bits in action frames.
///
/// HWMP leaves the far home more than routes do, so only the bits are of interest.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn gap_receives_action_frames() {
    let _one = machine!();
    let gap = gap(Mode::Mesh(NOHT_5GHZ), "hwmp");
    let measured = gap.measured(|mesh, routers| {
        let near = routers.status(mesh, 2);
        assert!(near["limit"]["applied"] == true, "{near}");
        let why = mesh.sh(2, "fairmesh-node why --config /tmp/node2/node.toml");
        assert!(why.contains("gap.increase") || why.contains("gap.decrease"), "{why}");
    });
    gap.report(&measured, &[]);
}

/// Uploads of all stations under a mechanism: kernel and simulator agree on sum and fairness.
fn uploads(name: &str, text: String, parents: &[Option<usize>], control: &str, settling: f64) {
    let uploads = Comparison {
        name,
        text,
        parents,
        from: (1..parents.len()).collect(),
        routing: "layer3",
        mode: Mode::Ibss(NOHT_5GHZ),
        ecn: false,
        control,
        mbit: 54,
        settling,
    };
    let measured = uploads.measured(|mesh, routers| {
        for node in 0..parents.len() {
            println!("router {node}: {}", routers.summary(mesh, node));
        }
    });
    let simulated = uploads.simulated();
    uploads.report(&measured, &simulated);
    within("sum", median(&measured, sum), median(&simulated, sum), 0.15);
    let (got, wanted) = (median(&measured, fairness), median(&simulated, fairness));
    assert!((got - wanted).abs() < 0.05, "Jain {got:.3} beside {wanted:.3}");
}

const CHAIN: [Option<usize>; 4] = [None, Some(0), Some(1), Some(2)];

/// CNA's limits of airtime at every router make a chain fair, as simulated.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn cna_makes_a_chain_fair() {
    let _one = machine!();
    uploads("cna-chain", chain(3, 2), &CHAIN, "use = \"cna+sampled+messages\"", 10.0);
}

/// `mesh-maxmin` at every router makes a chain fair, as simulated.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn mesh_maxmin_makes_a_chain_fair() {
    let _one = machine!();
    let control = "use = \"mesh-maxmin+sampled+messages\"";
    uploads("mesh-maxmin-chain", chain(3, 2), &CHAIN, control, 25.0);
}

/// Uploads of a tree of which six of nine homes have nearly nothing without control.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn mesh_maxmin_makes_a_tree_fair() {
    let _one = machine!();
    let branch = |b: usize| [Some(0), Some(3 * b + 1), Some(3 * b + 2)];
    let parents: Vec<_> = [None].into_iter().chain((0..3).flat_map(branch)).collect();
    let control = "use = \"mesh-maxmin+sampled+messages\"";
    uploads("mesh-maxmin-tree", tree(), &parents, control, 25.0);
}

/// Marks at every router shorten the queues on three hops, as simulated.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn lbm_at_relays_shortens_the_queues() {
    let _one = machine!();
    let lbm = Comparison {
        name: "lbm-chain",
        text: chain(3, 2),
        parents: &CHAIN,
        from: vec![3],
        routing: "layer3",
        mode: Mode::Ibss(NOHT_5GHZ),
        ecn: true,
        control: "use = \"lbm+multihop+messages+even\"\nrho0 = 0.05\nalpha = 0.1",
        mbit: 54,
        settling: 4.5,
    };
    let measured = lbm.measured(|mesh, routers| {
        println!("marks at the far home: {}", routers.status(mesh, 3)["marking"]);
    });
    lbm.report(&measured, &lbm.simulated());
    for pair in &measured {
        let (with, without) = (&pair.with[0], &pair.without[0]);
        assert!(with.round_trip < 0.01, "{} s", with.round_trip);
        assert!(with.rate > 0.95 * without.rate, "{} of {}", with.rate, without.rate);
    }
}
