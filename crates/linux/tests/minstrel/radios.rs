//! Two virtual radios, an access point and its station, and traffic from the station.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::nl80211;
use fairmesh_units::BitRate;
use nix::sys::socket::{setsockopt, sockopt};

use crate::common::Namespace;
use crate::common::namespace::{run, sh};
use crate::medium::{Frame, Keeps, Medium};

/// PHY of the radios, at 20 MHz with the long guard interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// 802.11n, two streams.
    N,
    /// 802.11ac, four streams.
    Ac,
}

pub struct Radios {
    point: Namespace,
    kind: Kind,
}

impl Radios {
    pub fn new(kind: Kind) -> Radios {
        sh("modprobe mac80211_hwsim radios=2");
        if kind == Kind::Ac {
            sh("iw reg set US");
            std::thread::sleep(Duration::from_millis(500));
        }
        let mut phys: Vec<String> = std::fs::read_dir("/sys/class/ieee80211")
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        phys.sort();
        // The station stays in the machine's namespace: debugfs loses an interface that moves.
        let point = Namespace::new();
        sh(&format!("iw phy {} set netns name {}", phys[1], point.name));
        let links = point.sh("ip -o link show");
        let wlan = links.split_whitespace().find(|w| w.starts_with("wlan")).unwrap();
        point.sh(&format!("ip link set {} name m1", wlan.trim_end_matches(':')));
        sh("ip link set wlan0 name m0");
        // No traffic but the test's.
        std::fs::write("/proc/sys/net/ipv6/conf/m0/disable_ipv6", "1").unwrap();
        point.sh("sysctl -qw net.ipv6.conf.m1.disable_ipv6=1");
        sh("ip addr add 10.50.0.1/24 dev m0");
        point.sh("ip addr add 10.50.0.2/24 dev m1");
        // An access point without the short guard interval: the station has one group of rates per number of streams.
        let modern = match kind {
            Kind::N => "hw_mode=g\nchannel=1\n",
            Kind::Ac => {
                "hw_mode=a\nchannel=36\ncountry_code=US\nieee80211ac=1\nvht_oper_chwidth=0\n"
            }
        };
        let settings = format!(
            "interface=m1\ndriver=nl80211\nssid=fairmesh\nwmm_enabled=1\nieee80211n=1\nht_capab=\n{modern}"
        );
        std::fs::write("/tmp/hostapd.conf", settings).unwrap();
        point.sh("hostapd -B -P /tmp/hostapd.pid /tmp/hostapd.conf");
        sh("ip link set m0 up");
        let address = point.sh("cat /sys/class/net/m1/address").trim().to_owned();
        sh(&format!("ip neigh replace 10.50.0.2 lladdr {address} dev m0"));
        let radios = Radios { point, kind };
        radios.associate();
        radios
    }

    /// Makes the kernel restart its learning.
    fn associate(&self) {
        run("iw", &["dev", "m0", "disconnect"]);
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let out = run("iw", &["dev", "m0", "connect", "-w", "fairmesh"]).unwrap();
            if out.status.success() {
                return;
            }
            assert!(
                Instant::now() < end,
                "no association: {}",
                String::from_utf8_lossy(&out.stderr)
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the throughput that the kernel expects of its best rate, by nl80211.
    ///
    /// (Debian's kernels do not show the table of rates in debugfs.)
    pub fn expected_throughput(&self) -> BitRate {
        let mut netlink = Netlink::generic().unwrap();
        let read = |_, payload: &[u8]| nl80211::read_family(payload);
        let family = netlink.get("nl80211", nl80211::CONTROLLER, nl80211::ask_family, read);
        let index: u32 = sh("cat /sys/class/net/m0/ifindex").trim().parse().unwrap();
        let ask = |out: &mut Vec<u8>| nl80211::ask_stations(out, index, None);
        let mut found = None;
        let each = |_, payload: &[u8]| found = nl80211::read_station(payload);
        netlink.dump("stations", family.unwrap().unwrap(), ask, each).unwrap();
        found.unwrap().expected_throughput.unwrap()
    }

    /// Sends datagrams of 1200 bytes at a rate per second through phases; returns their results.
    ///
    /// They are sent as voice, which mac80211 does not aggregate: hwsim does not report aggregates.
    pub fn run(
        &self,
        keeps: Arc<Keeps>,
        phases: &[u64],
        per_second: u32,
        seed: u64,
    ) -> (Vec<Frame>, BitRate) {
        let _sink = self.point.udp("10.50.0.2:9000");
        self.associate();
        let medium = Medium::begin(keeps, seed);
        let source = UdpSocket::bind("10.50.0.1:0").unwrap();
        setsockopt(&source, sockopt::Priority, &(256 + 6)).unwrap();
        // Statistics are due with the first frame afterwards.
        std::thread::sleep(Duration::from_millis(200));
        let (mut next, gap) = (Instant::now(), Duration::from_secs(1) / per_second);
        for (phase, seconds) in phases.iter().enumerate() {
            medium.set_phase(phase as u32);
            for _ in 0..seconds * u64::from(per_second) {
                // A loss for lack of a buffer is detected below.
                let _ = source.send_to(&[0; 1200], "10.50.0.2:9000");
                next += gap;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
        let expected = self.expected_throughput();
        let frames = medium.frames();
        let wanted = phases.iter().sum::<u64>() * u64::from(per_second);
        assert!(
            frames.len() as u64 > wanted * 9 / 10,
            "{} of {wanted} frames, {:?}",
            frames.len(),
            self.kind
        );
        (frames, expected)
    }
}

impl Drop for Radios {
    fn drop(&mut self) {
        if let Ok(id) = std::fs::read_to_string("/tmp/hostapd.pid") {
            run("kill", &[id.trim()]);
        }
        run("rmmod", &["mac80211_hwsim"]);
    }
}
