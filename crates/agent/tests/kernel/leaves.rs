//! Queues of classes: limits hold with each of them, and delays are bounded.

use fairmesh_linux::LeafKind;
use nix::sys::signal::Signal;

use crate::common::meter::{Meter, measure};
use crate::common::{self, Box, Path, config, root, run};
use crate::{PLAN, TCP, UDP, within};

/// Small datagrams of an application that sends ten times a second, bytes.
const SMALL: usize = 100;

/// A test for each leaf.
macro_rules! each_leaf {
    ($($name:ident: $kind:ident,)*) => {
        $(
            #[test]
            #[ignore = "in scripts/kernel's machine"]
            fn $name() {
                let _one = machine!("a_leaf");
                holds_limits_both_ways(LeafKind::$kind);
            }
        )*

        #[test]
        fn no_leaf_is_forgotten() {
            // `pfifo` is only for controls (shaping.leaf = "control"), and for a kernel without the
            // others.
            let offered = LeafKind::ALL.into_iter().filter(|kind| *kind != LeafKind::Pfifo);
            assert_eq!([$(LeafKind::$kind),*].as_slice(), offered.collect::<Vec<_>>());
        }
    };
}

each_leaf! {
    every_leaf_fq_codel: FqCodel,
    every_leaf_cake: Cake,
    every_leaf_bfifo: Bfifo,
    every_leaf_sfq: Sfq,
}

/// Three homes with the same leaves: one downloads, one uploads, one exceeds its limits.
///
/// The last one sends datagrams in both directions.
///
/// Small datagrams of the same home show the delay of its queue.
fn holds_limits_both_ways(leaf: LeafKind) {
    let leaf = leaf.name();
    let path = Path::new();
    path.subs.sh("ip route replace default via 10.97.0.1 src 10.1.2.1");
    let sample = "sample = \"1 s\"";
    let text = config("apply", "fifo", PLAN)
        .replace(sample, &format!("{sample}\nleaf = \"{leaf}\"\non_exit = \"remove\""));
    let b = Box::new(&path, &text);
    let daemon = b.start();
    let status = b.wait_running();
    assert_eq!(status["leaf"], leaf);
    // tc shows a `bfifo` as its parts, and its content only with `-r`.
    let shown = if leaf == "bfifo" { "tbf" } else { leaf };
    for (side, bits) in [("mesh", 2e6), ("wan", 1e6)] {
        let there = path.gateway.sh(&format!("tc -r qdisc show dev {side}"));
        let ours = there.lines().filter(|l| l.starts_with(&format!("qdisc {shown} ")));
        assert!(ours.count() >= common::SUBSCRIBERS, "{side}: {there}");
        // These do not compute 100 ms from the limit. The limit is of packets, the queue's length
        // of frames.
        let bits: f64 = bits * 1514.0 / 1500.0;
        let limit = match leaf {
            "bfifo" => format!("limit {}b", (bits * 0.1 / 8.0) as u32),
            _ => continue,
        };
        let sized = there.lines().filter(|l| l.contains(shown) && l.contains(&limit));
        assert_eq!(sized.count(), common::SUBSCRIBERS, "{side}: {there}");
    }
    let host = |port| format!("10.99.0.2:{port}");
    let home = |i: usize, port| format!("10.1.{i}.1:{port}");
    let mut meters = vec![
        Meter::tcp(&path.wired, &path.subs, &home(1, 5001)),
        Meter::tcp(&path.subs, &path.wired, &host(5001)),
        Meter::udp((&path.wired, &host(0)), (&path.subs, &home(3, 5000)), 1400, 3000.0),
        Meter::udp((&path.subs, &home(3, 0)), (&path.wired, &host(5000)), 1400, 1500.0),
    ];
    let small = SMALL as f64 * 8.0 / 100.0;
    let down =
        |i, port| Meter::udp((&path.wired, &host(0)), (&path.subs, &home(i, port)), SMALL, small);
    let up = |i, port| {
        Meter::udp((&path.subs, &home(i, 0)), (&path.wired, &host(port + i)), SMALL, small)
    };
    // Two of them, since one may share a queue with the load by chance (one in 64).
    for port in [5020, 5030] {
        meters.extend([down(1, port), up(2, port), down(3, port), up(3, port)]);
    }
    let got = measure(meters);
    let small = small * 1e3 * (SMALL + 42) as f64 / SMALL as f64;
    let mut failed = Vec::new();
    let ways = ["TCP down", "TCP up", "UDP down", "UDP up"];
    for (at, way) in ways.into_iter().enumerate() {
        let limit = [2e6, 1e6][at % 2];
        let both = [&got[4 + at], &got[8 + at]];
        let beside = if both[0].p95() < both[1].p95() { both[0] } else { both[1] };
        let share = if at < 2 { TCP } else { UDP };
        // The small datagrams are not part of the load.
        let arrived: usize = both.iter().map(|m| m.delays.len()).sum();
        let wanted = (limit - small * arrived as f64 / 50.0) * share;
        let off = got[at].rate / wanted - 1.0;
        // The queue's 100 ms, and the frame before it.
        let (p95, bound) = (beside.p95(), 100.0 + 1514.0 * 8e3 / limit);
        println!(
            "{leaf}, {way}: {:.0} kbit/s, {:+.1} %; beside it {p95:.0} ms, {} of {} lost",
            got[at].rate / 1e3,
            100.0 * off,
            beside.lost,
            beside.lost + beside.delays.len() as f64
        );
        if off.abs() > 0.05 || p95 > bound {
            failed.push(format!("{leaf}, {way}: {off:+.3}, {p95:.0} of {bound:.0} ms"));
        }
    }
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(path.ours(), "", "{leaf}");
}

/// The best leaf, which every Debian has (fq_codel is built in), and a missing leaf.
///
/// The missing leaf is named, and no limit is set.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn the_best_leaf_and_one_that_is_missing() {
    let _one = machine!("the_best_leaf");
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", PLAN));
    let daemon = b.start();
    assert_eq!(b.wait_running()["leaf"], "fq_codel", "{}", b.log());
    assert!(path.flows());
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(b.command(&["reset"]).0, 0);

    let list = "/etc/modprobe.d/fairmesh-test.conf";
    std::fs::write(list, "install sch_cake /bin/false\n").unwrap();
    // Interfaces of ended tests are deleted after their namespaces.
    within(20, "sch_cake", || {
        !std::path::Path::new("/sys/module/sch_cake").exists()
            || run("rmmod", &["sch_cake"]).is_some_and(|o| o.status.success())
    });
    let sample = "sample = \"1 s\"";
    let text = config("apply", "fifo", PLAN).replace(sample, &format!("{sample}\nleaf = \"cake\""));
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait_event("install.failed");
    assert!(b.log().contains("sch_cake"), "{}", b.log());
    assert!(path.flows());
    daemon.end(Signal::SIGTERM);
    std::fs::remove_file(list).unwrap();
    assert_eq!(path.ours(), "");
}
