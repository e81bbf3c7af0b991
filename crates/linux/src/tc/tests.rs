//! Codecs against bytes captured from `tc` (iproute2 6.1) and Linux 6.18, little endian.

#![cfg(target_endian = "little")]

use fairmesh_units::BitRate;

use super::filter::Filter;
use super::htb::{Class, Qdisc};
use super::stats::{Dumped, Stats};
use super::*;
use crate::shaper::LeafKind;

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Returns the value of `TCA_OPTIONS` among attributes.
fn options(attributes: &[u8]) -> Vec<u8> {
    let mut message = vec![0; Head::SIZE];
    message.extend(attributes);
    Dumped::read(&message).unwrap().options.to_vec()
}

/// The qdisc as `tc` creates it.
///
/// The command: `tc qdisc add dev v0 root handle fa1: htb default 0xfff0 r2q 10 direct_qlen 1000`.
#[test]
fn the_qdisc_as_tc_makes_it() {
    let captured = bytes(
        "00000000 03000000 0000a10f ffffffff 00000000
         0800 0100 68746200 2400 0200 1800 0200 03000000 0a000000 f0ff0000 00000000 00000000
         0800 0500 e8030000",
    );
    let qdisc = Qdisc { default: 0xfff0, r2q: 10, direct: 1000 };
    let ours = written(|out| {
        Head::new(3, Handle::new(0xfa1, 0), Handle::ROOT).write(out);
        qdisc.write(out);
    });
    assert_eq!(ours, captured);
    let read = Dumped::read(&captured).unwrap();
    assert_eq!((read.kind, Qdisc::read(read.options)), ("htb", Some(qdisc)));
}

/// The kernel's dump of a class, cut after the queue's counters.
///
/// The class is that of `tc class add … classid fa1:10 htb rate 3mbit ceil 5mbit prio 2 quantum 1514`.
#[test]
fn a_class_as_the_kernel_dumps_it() {
    let captured = bytes(
        "00000000 03000000 1000a10f ffffffff 00001000
         0800 0100 68746200
         3400 0200 3000 0100 00010000 00000000 d8b80500 00010000 00000000 68890900 60040100 409c0000
         ea050000 00000000 02000000
         4800 0700 1400 0100 00000000 00000000 00000000 00000000
         1800 0300 00000000 00000000 00000000 00000000 00000000
         1800 0400 00000000 00000000 00000000 60040100 409c0000",
    );
    let read = Dumped::read(&captured).unwrap();
    assert_eq!(read.kind, "htb");
    assert_eq!(read.head.handle.to_string(), "fa1:10");
    assert_eq!(read.head.info, 0x10_0000, "the leaf's handle");
    assert!(!read.is_kernels_default());
    assert_eq!(read.stats, Some(Stats::default()));
    let class = Class::read(read.options).unwrap();
    let burst = |bits: u64| 1600 * 8 * 1_000_000_000 / bits / 64 * 64;
    let want = Class {
        rate: BitRate(3_000_000),
        ceil: BitRate(5_000_000),
        buffer_ns: burst(3_000_000),
        cbuffer_ns: burst(5_000_000),
        quantum: 1514,
        prio: 2,
    };
    assert!(class.buffer_ns.abs_diff(want.buffer_ns) <= 1000, "tc counts in whole microseconds");
    assert_eq!(Class { buffer_ns: want.buffer_ns, ..class }, want);
    let ours = options(&written(|out| want.write(out)));
    let mut theirs = read.options.to_vec();
    theirs[28..32].copy_from_slice(&ours[28..32]); // the microseconds
    theirs[5] = 1; // our link layer is Ethernet; tc's is to be found out from tables
    theirs[17] = 1;
    assert_eq!(ours, theirs);
}

/// `rate 100gbit ceil 1tbit`, as the kernel dumps it: beyond 32 bits of bytes per second.
#[test]
fn rates_beyond_34_gbit() {
    let captured = bytes(
        "3000 0100 00010000 00000000 ffffffff 00010000 00000000 ffffffff 00000000 00000000
         d40b0000 00000000 01000000
         0c00 0600 00dd0ee9 02000000 0c00 0700 00a2941a 1d000000",
    );
    let class = Class::read(&captured).unwrap();
    assert_eq!(class.rate, BitRate(100_000_000_000));
    assert_eq!(class.ceil, Class::UNLIMITED);
    let ours = options(&written(|out| class.write(out)));
    assert_eq!(ours[48..], captured[48..], "long forms");
    assert_eq!(Class::read(&ours), Some(class));
}

/// Leaves of five kinds as `tc` creates them.
///
/// The commands: `tc qdisc add … fq_codel limit 1024 flows 64 quantum 1514 target 20ms interval 120ms ecn
/// memory_limit 4mb`, `cake unlimited besteffort rtt 120ms`, `sfq perturb 10 limit 100`, `tbf rate 8000tbit
/// burst 1564 limit 3750`, `pfifo limit 100`.
#[test]
fn leaves_as_tc_makes_them() {
    let fq_codel = bytes(
        "0d00 0100 66715f636f64656c 00 000000
         3c00 0200 0800 0200 00040000 0800 0500 40000000 0800 0600 ea050000 0800 0300 c0d40100
         0800 0100 204e0000 0800 0400 01000000 0800 0900 00004000",
    );
    assert_eq!(written(|out| leaf::write(out, LeafKind::FqCodel, 100, 0)), fq_codel);
    let mut cake = bytes("0c00 0200 0000000000000000 0800 0300 03000000 0800 0700 c0d40100");
    // The target in µs, for which `tc` has no option.
    cake.extend(bytes("0800 0800 204e0000"));
    assert_eq!(options(&written(|out| leaf::write(out, LeafKind::Cake, 100, 0))), cake);
    let sfq = bytes("00000000 0a000000 64000000 00000000 00000000");
    assert_eq!(options(&written(|out| leaf::write(out, LeafKind::Sfq, 100, 0))), sfq);
    // `tc` also sends how to compute the time of a frame (cells of 8 bytes, minus one), and a table of it (cut here):
    // the kernel reads these only if no link layer is named.
    let tbf = bytes(
        "0800 0100 74626600
         4000 0200 2800 0100 00 01 0000 0000 0000 ffffffff 000000000000000000000000 a60e0000 00000000 00000000
         0800 0600 1c060000 0c00 0400 0080c6a47e8d0300",
    );
    assert_eq!(written(|out| leaf::write(out, LeafKind::Bfifo, 3750, 1564)), tbf);
    let pfifo = bytes("0a00 0100 706669666f00 0000 0800 0200 64000000");
    assert_eq!(written(|out| leaf::write(out, LeafKind::Pfifo, 100, 0)), pfifo);
}

/// Filters of three kinds as `tc` creates them.
///
/// The commands: `tc filter add … protocol arp prio 1 u32 match u32 0 0 flowid fa1:fff1`, `… protocol all
/// prio 10 fw`, `… bpf bytecode '2,32 0 0 4294963220,22 0 0 0'`.
#[test]
fn filters_as_tc_makes_them() {
    let root = Handle::new(0xfa1, 0);
    let ours =
        |prio, protocol, kind| written(|out| filter::write(out, 3, root, prio, protocol, kind));
    let u32 = bytes(
        "00000000 03000000 00000000 0000a10f 08060100
         0800 0100 75333200 3000 0200 0800 0100 f1ffa10f
         2400 0500 0100010000000000000000000000000000000000000000000000000000000000",
    );
    assert_eq!(ours(1, 0x0806, Filter::All(Handle::new(0xfa1, 0xfff1))), u32);
    let fw = bytes("00000000 03000000 00000000 0000a10f 00030a00 0700 0100 66770000");
    assert_eq!(ours(10, 3, Filter::MarkFw), fw);
    let bpf = bytes(
        "00000000 03000000 00000000 0000a10f 00030a00 0800 0100 62706600
         2000 0200 0600 0400 02000000 1400 0500 2000000014f0ffff 1600000000000000",
    );
    assert_eq!(ours(10, 3, Filter::MarkBpf), bpf);
}

#[test]
fn counters_beyond_32_bits_of_packets() {
    let mut value = Vec::new();
    put(&mut value, 1, &bytes("0102000000000000 07000000 00000000"));
    put(&mut value, 3, &bytes("05000000 06000000 08000000 00000000 09000000"));
    put_u64(&mut value, 8, 5_000_000_007);
    let want = Stats {
        bytes: 0x201,
        packets: 5_000_000_007,
        queued_packets: 5,
        queued_bytes: 6,
        drops: 8,
        overlimits: 9,
    };
    assert_eq!(Stats::read(&value), Some(want));
}

#[test]
fn limits_become_whole_bytes_and_bursts_cover_a_late_timer() {
    let class = |rate| Class::limited(Some(BitRate(rate)), 1514, 1);
    assert_eq!(class(1).rate, BitRate(8));
    assert_eq!(class(12_347).rate, BitRate(12_344), "1543.4 bytes per second");
    assert_eq!(class(12_348).rate, BitRate(12_352));
    assert_eq!(Class::burst(BitRate(1_000_000)).0, 1600);
    assert_eq!(class(1_000_000).buffer_ns, 12_800_000);
    assert_eq!(Class::burst(BitRate(400_000_000)).0, 50_000);
    assert_eq!(class(400_000_000).buffer_ns, 1_000_000);
    let shared = Class::borrowing(Some(BitRate(1_000_000)), 3028, 1);
    assert_eq!((shared.rate, shared.ceil), (BitRate(8), BitRate(1_000_000)));
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Truncated or corrupted messages are refused or read, without a panic.
        #[test]
        fn are_survived(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(read) = Dumped::read(&garbage) {
                let _ = (Qdisc::read(read.options), Class::read(read.options));
            }
            let _ = (Stats::read(&garbage), Class::read(&garbage), Qdisc::read(&garbage));
        }

        /// Written values are read back.
        #[test]
        fn of_a_class_come_back(rate in 1u64..1 << 38, ceil in 1u64..1 << 38, quantum in 1u32..200_000, ticks in 0u64..1 << 32) {
            let class = Class {
                rate: BitRate(rate * 8), ceil: BitRate(ceil * 8), quantum, prio: 3,
                buffer_ns: ticks * 64, cbuffer_ns: ticks * 32 / 64 * 64,
            };
            prop_assert_eq!(Class::read(&options(&written(|out| class.write(out)))), Some(class));
        }
    }
}
