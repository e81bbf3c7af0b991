//! Captures, read by other programs: a crate of the registry, and Wireshark's dissector.

mod common;

use std::fs::File;
use std::path::Path;
use std::process::Command;

use common::{folder, ok};
use pcap_file::pcap::PcapReader;

/// Writes a capture of three TCP uploads with RTS/CTS for two seconds, at `node` if given.
fn capture(dir: &Path, node: Option<&str>) -> std::path::PathBuf {
    std::fs::write(dir.join("rts.toml"), common::CHAIN.replace("[radio]", "[radio]\nrts = true"))
        .unwrap();
    let mut args = vec!["run", "rts.toml", "--duration", "2 s", "--pcap", "x.pcap"];
    args.extend(node.iter().flat_map(|n| ["--pcap-at", n]));
    ok(dir, &args);
    dir.join("x.pcap")
}

#[test]
fn frames_are_whole_ordered_and_of_every_kind() {
    let dir = folder();
    let mut reader = PcapReader::new(File::open(capture(dir.path(), None)).unwrap()).unwrap();
    assert_eq!(u32::from(reader.header().datalink), 127);
    let (mut last, mut kinds) = (std::time::Duration::ZERO, [0; 4]);
    while let Some(p) = reader.next_packet() {
        let p = p.unwrap();
        assert!(p.timestamp >= last);
        last = p.timestamp;
        let mac = &p.data[24..];
        let kind = [0x08, 0xb4, 0xc4, 0xd4].iter().position(|k| *k == mac[0]).unwrap();
        kinds[kind] += 1;
        if p.data.len() == p.orig_len as usize {
            // Over a frame and its own FCS, CRC-32 is this constant.
            assert_eq!(crc32fast::hash(mac), 0x2144_df1c);
        }
    }
    assert!(kinds.iter().all(|n| *n > 50), "data, RTS, CTS, ACK: {kinds:?}");
    assert!(
        last > std::time::Duration::from_millis(1500) && last < std::time::Duration::from_secs(2)
    );
}

/// Returns the output of tshark; `None`, with a message, without tshark.
fn tshark(file: &Path, args: &[&str]) -> Option<String> {
    let checks = ["tcp.check_checksum", "ip.check_checksum", "wlan.check_checksum"];
    let mut c = Command::new("tshark");
    c.arg("-r").arg(file).args(args);
    for check in checks {
        c.arg("-o").arg(format!("{check}:TRUE"));
    }
    match c.output() {
        Ok(out) if out.status.success() => Some(String::from_utf8(out.stdout).unwrap()),
        Ok(out) => panic!("tshark: {}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => {
            eprintln!("SKIPPED: no tshark here ({e})");
            assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
            None
        }
    }
}

#[test]
fn wireshark_understands_every_frame() {
    let dir = folder();
    let file = capture(dir.path(), None);
    let bad = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0 || wlan.fcs.status == 0";
    let Some(bad) = tshark(&file, &["-Y", bad]) else { return };
    assert_eq!(bad, "");
    let kinds = tshark(&file, &["-T", "fields", "-e", "frame.protocols"]).unwrap();
    assert!(kinds.contains("radiotap:wlan_radio:wlan:llc:ip:tcp"));
}

#[test]
fn tcp_analysis_works_at_one_node() {
    let dir = folder();
    // At the sender of the one-hop flow, each segment is captured once unless the MAC repeats it.
    let file = capture(dir.path(), Some("1"));
    let own = "ip.src == 10.0.0.2 && tcp.len > 0 && wlan.fc.retry == 0";
    let Some(data) = tshark(&file, &["-Y", own, "-T", "fields", "-e", "tcp.seq"]) else { return };
    let numbers: Vec<u64> = data.lines().map(|l| l.parse().unwrap()).collect();
    assert!(numbers.len() > 5);
    assert_eq!(numbers[0], 1, "relative numbers start behind the SYN");
    let acked = tshark(&file, &["-Y", "tcp.analysis.ack_rtt && ip.dst == 10.0.0.2"]).unwrap();
    assert!(acked.lines().count() > 3, "round-trip times are found");
}

/// A relay receives each segment and forwards it, which is not a retransmission.
#[test]
fn tcp_analysis_holds_at_a_relay() {
    let dir = folder();
    let file = capture(dir.path(), Some("1"));
    let passed_on = "wlan.ta == 02:00:00:00:00:02 && wlan.fc.type == 2";
    let Some(frames) = tshark(&file, &["-Y", passed_on]) else { return };
    let own = tshark(&file, &["-Y", &format!("{passed_on} && ip.src == 10.0.0.2")]).unwrap();
    assert!(frames.lines().count() > own.lines().count() + 20, "what it passes on is there");

    let record = ok(dir.path(), &["run", "rts.toml", "--duration", "2 s", "--json"]);
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let flows = record["flows"].as_array().unwrap();
    let sent_again: u64 =
        flows.iter().map(|f| f["tcp"]["retransmits"].as_u64().unwrap_or_default()).sum();
    let suspects = "tcp.analysis.retransmission || tcp.analysis.out_of_order";
    let suspected = tshark(&file, &["-Y", suspects]).unwrap().lines().count();
    assert!(suspected as u64 <= sent_again, "{suspected} suspected, {sent_again} sent again");
    let data = tshark(&file, &["-Y", "tcp.len > 0"]).unwrap().lines().count();
    assert!(data > 40, "{data} segments");
    let bad = tshark(&file, &["-Y", "_ws.malformed"]).unwrap();
    assert_eq!(bad, "");
}
