//! Bytes written by hand after `linux/nl80211.h`, and captured ones.
//!
//! The former have a different value in every field, which no driver has. The latter (`captured`) are of
//! Debian's kernels 6.1 and 6.12 with mac80211_hwsim (`linux/tests/radio.rs`), with values that `iw` printed
//! at the same time.

#![cfg(target_endian = "little")]

use super::*;
use crate::tc::{nest, put_u64};

fn message(command: u8, attributes: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![command, 1, 0, 0];
    attributes(&mut out);
    out
}

#[test]
fn a_survey_in_the_kernels_order_of_fields() {
    let bytes = message(51, |out| {
        put_u32(out, 3, 7);
        nest(out, 84 | 0x8000, |out| {
            put_u32(out, 1, 5180);
            put(out, 2, &[(-95i8).cast_unsigned()]);
            put(out, 3, &[]);
            put_u64(out, 4, 100_000);
            put_u64(out, 5, 60_000);
            put_u64(out, 6, 5);
            put_u64(out, 7, 40_000);
            put_u64(out, 8, 15_000);
            put_u64(out, 9, 9);
            put_u64(out, 11, 11);
        });
    });
    let want = Survey {
        frequency: 5180,
        noise: Some(-95),
        in_use: true,
        active_ms: Some(100_000),
        busy_ms: Some(60_000),
        extension_busy_ms: Some(5),
        // NL80211_SURVEY_INFO_TIME_RX is 7 and …_TX is 8.
        receive_ms: Some(40_000),
        transmit_ms: Some(15_000),
        scan_ms: Some(9),
        bss_receive_ms: Some(11),
    };
    assert_eq!(read_survey(&bytes), Some(want));
    assert_eq!(read_station(&bytes), None);
    // Drivers omit the values that they do not count; channels that were never visited have no times.
    let bytes = message(51, |out| nest(out, 84, |out| put_u32(out, 1, 2412)));
    assert_eq!(read_survey(&bytes), Some(Survey { frequency: 2412, ..Survey::default() }));
    assert_eq!(read_survey(&message(51, |out| nest(out, 84, |_| ()))), None);
}

#[test]
fn modes_and_paths_of_a_mesh_point() {
    let mode = |number: u32| read_interface(&message(7, |out| put_u32(out, 5, number)));
    assert_eq!(mode(7), Some(RadioMode::MeshPoint));
    assert_eq!(mode(6), Some(RadioMode::Other), "a monitor");
    assert_eq!(read_interface(&message(7, |_| ())), None);
    let path = |flags: u8| {
        message(23, |out| {
            put_u32(out, 3, 7);
            put(out, 6, &[2, 0, 0, 0, 0, 9]);
            put(out, 26, &[2, 0, 0, 0, 0, 5]);
            nest(out, 27, |out| {
                put_u32(out, 3, 4000);
                put(out, 5, &[flags]);
                put(out, 8, &[3]);
            });
        })
    };
    let of = |last: u8| MacAddr([2, 0, 0, 0, 0, last]);
    let want = MeshPath { destination: of(9), next_hop: of(5), active: true, hops: Some(3) };
    assert_eq!(read_path(&path(0x15)), Some(want));
    assert!(!read_path(&path(2)).unwrap().active, "still being searched");
    for cut in 0..path(1).len() {
        let _ = read_path(&path(1)[..cut]);
    }
    assert_eq!(read_path(&message(23, |out| put(out, 6, &[2, 0, 0, 0, 0, 9]))), None);
    assert_eq!(read_path(&message(19, |_| ())), None);
    // The kernel sends an address behind a mesh point as a path, without values.
    let proxied = message(23, |out| {
        put_u32(out, 3, 7);
        put(out, 6, &[2, 0, 0, 0, 0, 0x40]);
        put(out, 26, &[2, 0, 0, 0, 0, 9]);
        nest(out, 27, |_| ());
    });
    assert_eq!(read_proxied(&proxied), Some(Proxied { address: of(0x40), proxy: of(9) }));
}

/// Blocked or unfinished peer links carry no data.
///
/// Stations of other modes have no such state.
#[test]
fn only_established_peers_of_a_mesh_point_are_peers() {
    let peered = |state: Option<u8>| {
        let bytes = message(19, |out| {
            put(out, 6, &[2, 0, 0, 0, 0, 9]);
            nest(out, 21, |out| state.into_iter().for_each(|s| put(out, 6, &[s])));
        });
        read_station(&bytes).unwrap().peered
    };
    assert_eq!((0..=6).filter(|s| peered(Some(*s))).collect::<Vec<_>>(), [4]);
    assert!(peered(None));
}

#[test]
fn a_station_with_wide_and_narrow_counters() {
    let bytes = message(19, |out| {
        put_u32(out, 3, 7);
        put(out, 6, &[2, 0, 0, 0, 0, 9]);
        nest(out, 21, |out| {
            put_u32(out, 1, 120);
            put_u64(out, 23, 5_000_000_000);
            put_u32(out, 2, 705_032_704);
            put_u32(out, 3, 77);
            put_u32(out, 9, 900);
            put_u32(out, 10, 1000);
            put_u32(out, 11, 110);
            put_u32(out, 12, 12);
            put(out, 7, &[(-61i8).cast_unsigned()]);
            put(out, 13, &[(-63i8).cast_unsigned()]);
            nest(out, 8, |out| {
                put(out, 1, &540u16.to_ne_bytes());
                put_u32(out, 5, 540);
            });
            nest(out, 14, |out| put_u32(out, 5, 8_667));
            put_u32(out, 27, 32_100);
            nest(out, 31, |out| {
                for tid in 1..=2 {
                    nest(out, tid, |out| {
                        put_u64(out, 1, 5);
                        nest(out, 6, |out| {
                            for (kind, value) in
                                [(1, 3000), (2, 2), (4, 7), (5, 11), (6, 13), (9, 1)]
                            {
                                put_u32(out, kind, value);
                            }
                        });
                    });
                }
                // One of management frames, without a queue.
                nest(out, 17, |out| put_u64(out, 2, 3));
            });
            put_u64(out, 32, 3_200);
            put_u64(out, 39, 3_900);
        });
    });
    let want = Station {
        mac: MacAddr([2, 0, 0, 0, 0, 9]),
        peered: true,
        inactive_ms: Some(120),
        rx_bytes: Some(5_000_000_000),
        tx_bytes: Some(77),
        rx_packets: Some(900),
        tx_packets: Some(1000),
        tx_retries: Some(110),
        tx_failed: Some(12),
        signal: Some(-61),
        signal_average: Some(-63),
        tx_rate: Some(BitRate(54_000_000)),
        tx_legacy: true,
        rx_rate: Some(BitRate(866_700_000)),
        expected_throughput: Some(BitRate(32_100_000)),
        rx_airtime_us: Some(3_200),
        tx_airtime_us: Some(3_900),
        queue: Some(TransmitQueue {
            backlog_bytes: 6000,
            backlog_packets: 4,
            drops: 14,
            marks: 22,
            overlimit: 26,
        }),
    };
    assert_eq!(read_station(&bytes), Some(want));
}

#[test]
fn questions_and_the_familys_number() {
    let mut out = Vec::new();
    ask_family(&mut out);
    assert_eq!(out, b"\x03\x01\0\0\x0c\0\x02\0nl80211\0");
    out.clear();
    ask_stations(&mut out, 7, Some(MacAddr([2, 0, 0, 0, 0, 9])));
    assert_eq!(out, b"\x11\0\0\0\x08\0\x03\0\x07\0\0\0\x0a\0\x06\0\x02\0\0\0\0\x09\0\0");
    out.clear();
    ask_survey(&mut out, 7);
    assert_eq!(out, b"\x32\0\0\0\x08\0\x03\0\x07\0\0\0");
    let answer = message(1, |out| {
        put_str(out, 2, "nl80211");
        put(out, 1, &0x1cu16.to_ne_bytes());
    });
    assert_eq!(read_family(&answer), Some(0x1c));
}

fn captured(hex: &str) -> Vec<u8> {
    let hex = hex.trim();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn stations_and_a_channel_of_stock_kernels_are_read() {
    let older = captured(include_str!("captured/station-6.1.hex"));
    let want = Station {
        mac: MacAddr([2, 0, 0, 0, 1, 0]),
        peered: true,
        inactive_ms: Some(16),
        rx_bytes: Some(21_808),
        tx_bytes: Some(21_713),
        rx_packets: Some(26),
        tx_packets: Some(24),
        tx_retries: Some(0),
        tx_failed: Some(0),
        signal: Some(-30),
        signal_average: Some(-30),
        tx_rate: Some(BitRate(54_000_000)),
        tx_legacy: true,
        rx_rate: Some(BitRate(54_000_000)),
        expected_throughput: Some(BitRate(19_593_000)),
        rx_airtime_us: Some(0),
        tx_airtime_us: Some(0),
        // hwsim has mac80211's queues since Linux 6.2.
        queue: None,
    };
    assert_eq!(read_station(&older), Some(want));
    let newer = captured(include_str!("captured/station-6.12.hex"));
    let want = Station {
        rx_bytes: Some(21_804),
        tx_rate: Some(BitRate(48_000_000)),
        rx_rate: Some(BitRate(48_000_000)),
        expected_throughput: Some(BitRate(18_562_000)),
        queue: Some(TransmitQueue::default()),
        ..want
    };
    assert_eq!(read_station(&newer), Some(want));
    let survey = captured(include_str!("captured/survey-6.1.hex"));
    let want = Survey {
        frequency: 2437,
        noise: Some(-92),
        active_ms: Some(76),
        busy_ms: Some(9),
        ..Survey::default()
    };
    assert_eq!(read_survey(&survey), Some(want));
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn are_survived(command in prop::sample::select(vec![1u8, 19, 51]), garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = message(command, |out| out.extend(garbage));
            let _ = (read_survey(&bytes), read_station(&bytes), read_family(&bytes));
        }
    }
}
