//! End of daemon, guard and rules.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::common::{Box, Path, config, rates, root, sh};
use crate::within;

/// Times for which limits outlive their daemon, and for which a gateway lacks them unnoticed.
///
/// Seconds are those of the virtual machine.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn deaths_and_floods_in_counted_seconds() {
    let _one = machine!("deaths_and_floods");
    let path = Path::new();
    path.gateway.sh("tc qdisc add dev mesh clsact");
    path.gateway.sh("tc filter add dev mesh egress prio 7 matchall action ok");
    let foreign = || path.gateway.sh("tc filter show dev mesh egress");
    let before = foreign();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let streams = vec![path.stream(1, 4.0)];
    let free = || rates(&streams, Duration::from_secs(1))[0] > 2.5e6;
    let guard = b.file("gateway.guard.lock");
    for (victim, daemon_too, guard_too) in
        [("the daemon", true, false), ("the guard", false, true), ("both", true, true)]
    {
        let daemon = b.start();
        b.wait_running();
        within(10, "limits", || !free());
        if guard_too {
            sh(&format!("pkill -KILL -f {}", guard.display()));
        }
        if daemon_too {
            assert_eq!(daemon.end(Signal::SIGKILL), None);
            // Reading the rate takes a second.
            let took = within(11, "free traffic", free);
            println!("{victim} killed: no limit after {took:.1} s");
        } else {
            // It continues with another guard.
            b.wait_event("guard.gone");
            assert!(!free());
            daemon.end(Signal::SIGTERM);
        }
    }
    let daemon = b.start();
    b.wait_running();
    for harm in [
        "nft flush ruleset",
        "nft flush map inet fairmesh p4_24",
        "tc qdisc del dev mesh root",
        "tc qdisc del dev wan root",
    ] {
        let events = || b.json(&["status"]).unwrap()["events"].to_string();
        let before = events();
        path.gateway.sh(harm);
        let took = within(3, harm, || events() != before);
        println!("{harm}: reported after {took:.1} s");
        within(30, "limits again", || {
            b.json(&["status"]).is_some_and(|s| s["phase"] == "running") && !free()
        });
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
    assert_eq!(foreign(), before, "the foreign filter stays");
    drop(streams);
}
