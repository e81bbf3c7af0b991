//! Assignment of addresses to subscribers.

use nix::sys::signal::Signal;

use crate::common::{Box, Path, root};
use crate::{close_to, exchange};

/// Ten kinds of nested subscribers at once, each with a limit in both directions.
///
/// Prefixes of four lengths of both families, an Ethernet address, both families in one.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn every_kind_of_address_has_its_limit() {
    let _one = machine!("every_kind_of_address");
    let path = Path::new();
    let v6 = [
        (&path.wired, "addr add fd99::2/64 dev w0 nodad"),
        (&path.gateway, "addr add fd99::1/64 dev wan nodad"),
        (&path.gateway, "addr add fd98::1/64 dev mesh nodad"),
        (&path.router, "addr add fd98::2/64 dev r0 nodad"),
        (&path.router, "addr add fd97::1/64 dev r1 nodad"),
        (&path.subs, "addr add fd97::2/64 dev s0 nodad"),
        (&path.wired, "route add default via fd99::1"),
        (&path.gateway, "route add default via fd99::2"),
        (&path.subs, "route add default via fd97::1"),
        (&path.router, "route add default via fd98::1"),
        (&path.router, "route add fd01::/16 via fd97::2"),
        (&path.gateway, "route add fd01::/16 via fd98::2"),
    ];
    for ns in [&path.gateway, &path.router] {
        ns.sh("sysctl -qw net.ipv6.conf.all.forwarding=1");
    }
    for (ns, line) in v6 {
        ns.sh(&format!("ip -6 {line}"));
    }
    let mac = path.router.sh("cat /sys/class/net/r0/address");
    let mac = format!("macs = [\"{}\"]", mac.trim());
    let prefixes = |list: &[&str]| format!("prefixes = {list:?}");
    // The addresses in the configuration, and an address that only this subscriber has.
    let kinds = [
        (prefixes(&["10.1.1.9/32"]), "10.1.1.9"),
        (prefixes(&["10.1.1.8/30"]), "10.1.1.10"),
        (prefixes(&["10.1.1.0/24"]), "10.1.1.77"),
        (prefixes(&["10.1.0.0/17"]), "10.1.100.1"),
        (prefixes(&["fd01:2::9/128"]), "fd01:2::9"),
        (prefixes(&["fd01:2::/112"]), "fd01:2::77"),
        (prefixes(&["fd01:2::/64"]), "fd01:2::1:1"),
        (prefixes(&["fd01:2::/32"]), "fd01:2:7::1"),
        (prefixes(&["10.1.200.0/24", "fd01:3::/56"]), "10.1.200.1"),
        (mac, "10.1.250.1"),
    ];
    // A third more than all limits together is less than the mesh router carries.
    let limits: Vec<f64> = (0..kinds.len()).map(|i| 300.0 + 50.0 * i as f64).collect();
    let mut text = "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"mesh\"\n[wired]\ninterface = \"wan\"\n\
                    [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n"
        .to_owned();
    for (i, ((place, address), limit)) in kinds.iter().zip(&limits).enumerate() {
        text += &format!(
            "[[subscriber]]\nname = \"kind {i}\"\n{place}\ndown = \"{limit} kbit/s\"\nup = \"{limit} kbit/s\"\n"
        );
        let v6 = address.contains(':');
        let (length, nodad) = if v6 { (128, " nodad") } else { (32, "") };
        path.subs.sh(&format!("ip addr add {address}/{length} dev lo{nodad}"));
    }
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait_running();
    let end = |v6: bool, address: &str, port: usize| {
        if v6 { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
    };
    let homes = |port: usize| -> Vec<String> {
        kinds.iter().map(|(_, a)| end(a.contains(':'), a, port)).collect()
    };
    let hosts = |port: usize| -> Vec<String> {
        let host = |v6: bool| if v6 { "fd99::2" } else { "10.99.0.2" };
        let each = kinds.iter().enumerate();
        let port = |i| if port == 0 { 0 } else { port + i };
        each.map(|(i, (_, a))| end(a.contains(':'), host(a.contains(':')), port(i))).collect()
    };
    let offered: Vec<f64> = limits.iter().map(|l| 1.3 * l).collect();
    let down = exchange((&path.wired, &hosts(0)), (&path.subs, &homes(5000)), &offered);
    let up = exchange((&path.subs, &homes(0)), (&path.wired, &hosts(5000)), &offered);
    for (way, got) in [("down", down), ("up", up)] {
        for (((place, address), limit), got) in kinds.iter().zip(&limits).zip(got) {
            let header = if address.contains(':') { 62.0 } else { 42.0 };
            close_to(&format!("{place} {way}"), got, limit * 1e3 * 1400.0 / (1400.0 + header));
        }
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}
