//! A mesh interface that is a radio.

use nix::sys::signal::Signal;

use crate::common::{Box, Path, config, root, run, sh};
use crate::{PLAN, limits, within};

/// Radios instead of the cable between gateway and mesh router; removed with the test.
struct Radios;

impl Radios {
    fn new(path: &Path) -> Radios {
        path.gateway.sh("ip link del mesh");
        sh("modprobe mac80211_hwsim radios=2");
        let mut phys: Vec<String> = std::fs::read_dir("/sys/class/ieee80211")
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        phys.sort();
        for (phy, ns, name) in [(&phys[0], &path.gateway, "mesh"), (&phys[1], &path.router, "r0")] {
            sh(&format!("iw phy {phy} set netns name {}", ns.name));
            let links = ns.sh("ip -o link show");
            let wlan = links.split_whitespace().find(|w| w.starts_with("wlan")).unwrap();
            let wlan = wlan.trim_end_matches(':');
            ns.sh(&format!("ip link set {wlan} name {name}"));
            ns.sh(&format!("iw dev {name} set type mp"));
            ns.sh(&format!("ip link set {name} up"));
            ns.sh(&format!("iw dev {name} mesh join fairmesh freq 2412"));
        }
        path.gateway.sh("ip addr add 10.98.0.1/24 dev mesh");
        path.router.sh("ip addr add 10.98.0.2/24 dev r0");
        path.router.sh("ip route replace default via 10.98.0.1");
        path.gateway.sh("ip route replace 10.1.0.0/16 via 10.98.0.2");
        within(20, "peers", || path.gateway.sh("iw dev mesh station dump").contains("ESTAB"));
        assert!(path.flows());
        Radios
    }
}

impl Drop for Radios {
    fn drop(&mut self) {
        run("rmmod", &["mac80211_hwsim"]);
    }
}

/// mac80211 without intermediate queues overwrites priorities (Linux 6.1's hwsim).
///
/// Marks are used, or the failure is reported.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn limits_hold_on_a_radio() {
    let _one = machine!("limits_hold_on_a_radio");
    let path = Path::new();
    let _radios = Radios::new(&path);
    let text = config("apply", "fifo", PLAN) + "[discover]\nneighbours = true\nevery = \"1 s\"\n";
    let b = Box::new(&path, &text);
    let daemon = b.start();
    limits(&b, &path, "802.11s");
    println!("{}", b.log());
    // The peer is in the neighbour table by its mesh address.
    let peer = path.router.sh("cat /sys/class/net/r0/address");
    b.wait("the peer", |s| s["subscribers"].to_string().contains(peer.trim()));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let marks = path.gateway.sh("tc filter show dev mesh").contains("bpf");
    if release.starts_with("6.1.") {
        assert!(marks, "this is the driver that overwrites priorities\n{}", b.log());
        assert!(b.log().contains("marks are used"), "{}", b.log());
    } else {
        assert!(!marks, "{}", b.log());
    }
    daemon.end(Signal::SIGTERM);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}
