//! Stations and channels by a stock kernel's nl80211, compared with the output of `iw`.
//!
//! `make test-kernel` runs this in its virtual machine with mac80211_hwsim; elsewhere it is
//! ignored.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use std::time::{Duration, Instant};

use common::*;
use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::nl80211::{self, Nl80211, Radio};
use fairmesh_units::BitRate;

/// Two radios of one mesh, each in a namespace.
struct Radios {
    ends: [Namespace; 2],
}

impl Radios {
    fn new() -> Radios {
        namespace::sh("modprobe mac80211_hwsim radios=2");
        let mut phys: Vec<String> = std::fs::read_dir("/sys/class/ieee80211")
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        phys.sort();
        let ends = [Namespace::new(), Namespace::new()];
        for (at, (ns, phy)) in ends.iter().zip(&phys).enumerate() {
            namespace::sh(&format!("iw phy {phy} set netns name {}", ns.name));
            let links = ns.sh("ip -o link show");
            let wlan = links.split_whitespace().find(|w| w.starts_with("wlan")).unwrap();
            ns.sh(&format!("ip link set {} name m0", wlan.trim_end_matches(':')));
            ns.sh("iw dev m0 set type mp");
            ns.sh("ip link set m0 up");
            // hwsim surveys only the scanned channels.
            ns.sh("iw dev m0 scan freq 2412 2437");
            ns.sh("iw dev m0 mesh join fairmesh freq 2412");
            ns.sh(&format!("ip addr add 10.50.0.{}/24 dev m0", at + 1));
        }
        let radios = Radios { ends };
        let end = Instant::now() + Duration::from_secs(20);
        while !radios.ends[0].sh("iw dev m0 station dump").contains("ESTAB") {
            assert!(Instant::now() < end, "no peers");
            std::thread::sleep(Duration::from_millis(100));
        }
        radios
    }
}

impl Drop for Radios {
    fn drop(&mut self) {
        run("rmmod", &["mac80211_hwsim"]);
    }
}

/// Returns the text after a key of `iw`'s output, up to the end of the line.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|l| l.trim().strip_prefix(key)).map(str::trim)
}

fn number<T: std::str::FromStr>(text: &str, key: &str) -> Option<T> {
    value_of(text, key)?.split_whitespace().next()?.parse().ok()
}

/// Saves a message as a fixture.
fn keep(name: &str, payload: &[u8]) {
    let hex: String = payload.iter().map(|b| format!("{b:02x}")).collect();
    std::fs::write(format!("/out/{name}.hex"), hex + "\n").unwrap();
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn stations_and_channels_equal_iws_output() {
    assert!(std::env::var_os("FAIRMESH_VM").is_some(), "only in scripts/kernel's machine");
    let radios = Radios::new();
    let [here, there] = &radios.ends;
    here.sh("ping -q -c 20 -i 0.01 -s 1000 10.50.0.2");
    // Only beacons from now on: two dumps are equal.
    let text = here.sh("iw dev m0 station dump");
    let survey_text = here.sh("iw dev m0 survey dump");
    let index: u32 = here.sh("cat /sys/class/net/m0/ifindex").trim().parse().unwrap();
    let (stations, surveys, one) = here.within(move || {
        let mut netlink = Netlink::generic().unwrap();
        let read = |_, payload: &[u8]| nl80211::read_family(payload);
        let family = netlink.get("nl80211", nl80211::CONTROLLER, nl80211::ask_family, read);
        let family = family.unwrap().unwrap();
        let mut stations = Vec::new();
        let ask = |out: &mut Vec<u8>| nl80211::ask_stations(out, index, None);
        let each = |_, payload: &[u8]| {
            keep("nl80211-station", payload);
            stations.extend(nl80211::read_station(payload));
        };
        netlink.dump("stations", family, ask, each).unwrap();
        let mut surveys = Vec::new();
        let ask = |out: &mut Vec<u8>| nl80211::ask_survey(out, index);
        let each = |_, payload: &[u8]| {
            let survey = nl80211::read_survey(payload);
            if survey.is_some_and(|s| s.active_ms.is_some()) {
                keep("nl80211-survey", payload);
            }
            surveys.extend(survey);
        };
        netlink.dump("channels", family, ask, each).unwrap();
        let ask = |out: &mut Vec<u8>| nl80211::ask_stations(out, index, Some(stations[0].mac));
        let read = |_, payload: &[u8]| nl80211::read_station(payload);
        let one = netlink.get("a station", family, ask, read).unwrap().unwrap();
        // The contract of a host returns the same.
        let mut radio = Nl80211::open("m0").unwrap();
        let macs = |all: &[nl80211::Station]| all.iter().map(|s| s.mac).collect::<Vec<_>>();
        assert_eq!(macs(&radio.stations().unwrap()), macs(&stations));
        assert_eq!(radio.survey().unwrap().len(), surveys.len());
        (stations, surveys, one)
    });
    println!("{text}\n{stations:#?}\n{survey_text}\n{surveys:#?}");
    let [station] = stations[..] else { panic!("{stations:?}") };
    let mac = there.sh("cat /sys/class/net/m0/address");
    assert_eq!(station.mac.to_string(), mac.trim());
    assert_eq!(one.mac, station.mac);
    // Beacons may come in between.
    let near = |got: Option<u64>, key: &str| {
        let wanted: u64 = number(&text, key).unwrap_or_else(|| panic!("{key}\n{text}"));
        let got = got.unwrap_or_else(|| panic!("no {key}"));
        assert!(got >= wanted && got - wanted < 2000, "{key} {got}, iw {wanted}");
    };
    near(station.rx_bytes, "rx bytes:");
    near(station.rx_packets.map(u64::from), "rx packets:");
    let same = |got: Option<u64>, key: &str| assert_eq!(got, number(&text, key), "{key}");
    same(station.tx_bytes, "tx bytes:");
    same(station.tx_packets.map(u64::from), "tx packets:");
    same(station.tx_retries.map(u64::from), "tx retries:");
    same(station.tx_failed.map(u64::from), "tx failed:");
    assert!(station.tx_bytes > Some(20_000) && station.tx_packets > Some(19), "{station:?}");
    assert_eq!(station.signal, number(&text, "signal:"));
    let rate = |key: &str| {
        let mbps: f64 = number(&text, key).unwrap();
        BitRate((mbps * 10.0).round() as u64 * 100_000)
    };
    assert_eq!(station.tx_rate, Some(rate("tx bitrate:")));
    assert_eq!(station.rx_rate, Some(rate("rx bitrate:")));
    if let Some(expected) = value_of(&text, "expected throughput:") {
        // The kernel reports kbit/s; a Mbit/s of `iw` has 1024 of them, without leading zeros after
        // the point.
        let kbit = station.expected_throughput.unwrap().0 / 1000;
        let as_iw = kbit * 1000 / 1024;
        assert_eq!(expected, format!("{}.{}Mbps", as_iw / 1000, as_iw % 1000));
    }
    // A channel's lines begin with its frequency.
    let blocks: Vec<&str> = survey_text.split("Survey data from").skip(1).collect();
    assert_eq!(surveys.len(), blocks.len(), "{survey_text}");
    let mut counted = 0;
    for (survey, block) in surveys.iter().zip(blocks) {
        assert_eq!(Some(survey.frequency), number(block, "frequency:"), "{block}");
        assert_eq!(survey.noise, number(block, "noise:"), "{block}");
        assert_eq!(survey.in_use, block.contains("[in use]"), "{block}");
        assert_eq!(survey.active_ms, number(block, "channel active time:"), "{block}");
        assert_eq!(survey.busy_ms, number(block, "channel busy time:"), "{block}");
        assert_eq!(survey.receive_ms, number(block, "channel receive time:"), "{block}");
        assert_eq!(survey.transmit_ms, number(block, "channel transmit time:"), "{block}");
        counted += u32::from(survey.active_ms.is_some());
    }
    assert!(counted >= 1, "no channel with times\n{survey_text}");
}
