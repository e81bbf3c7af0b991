//! Filters of other programs, with classifiers and actions of stock kernels.

use nix::sys::signal::Signal;

use crate::common::{Box, Path, config, root};

/// Actions that write the priority of packets after our rules, and filters beside ours.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn filters_that_change_classes_are_named() {
    let _one = machine!("filters_that_change_classes");
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    path.gateway.sh("tc qdisc add dev mesh clsact");
    let gives = "of another program moves packets of all subscribers into class fa1:1";
    let takes = "of another program takes packets out of the class";
    for (parent, filter, kind, effect) in [
        ("egress", "matchall action skbedit priority fa1:1", "matchall", gives),
        (
            "egress",
            "protocol ip flower dst_ip 10.1.9.1 action skbedit priority 1:5",
            "flower",
            takes,
        ),
        ("egress", "protocol ip u32 match u32 0 0 action skbedit inheritdsfield", "u32", takes),
        ("parent fa1:", "matchall flowid fa1:1", "matchall", gives),
        ("parent fa1:", "protocol ip flower dst_ip 10.1.9.1 flowid fa1:1", "flower", gives),
        ("parent fa1:", "handle 5 fw flowid fa1:1", "fw", gives),
    ] {
        path.gateway.sh(&format!("tc filter add dev mesh {parent} prio 7 {filter}"));
        let status = b.wait("degraded", |s| s["phase"] == "degraded");
        let fault = status["faults"][0].as_str().unwrap();
        assert!(fault.contains(&format!("filter 7 ({kind}) on ")), "{filter}: {fault}");
        assert!(fault.contains(effect), "{filter}: {fault}");
        path.gateway.sh(&format!("tc filter del dev mesh {parent} prio 7"));
        b.wait_running();
    }
    b.wait_event("classifier.foreign");
    // An action that changes no class is ignored.
    path.gateway.sh("tc filter add dev mesh egress prio 7 matchall action ok");
    let uptime = |s: &serde_json::Value| s["uptime_seconds"].as_f64().unwrap();
    let from = uptime(&b.wait_running());
    let later = b.wait("two audits later", |s| uptime(s) > from + 5.0);
    assert_eq!((&later["phase"], later["doubts"].get(0)), (&"running".into(), None), "{later}");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}
