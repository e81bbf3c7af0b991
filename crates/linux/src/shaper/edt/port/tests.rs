//! The program's arithmetic, by test runs in the kernel.

use super::*;
use crate::bpf::program::TestRun;

const MAJOR: u16 = 0xfa1;
const SECOND: u64 = 1_000_000_000;
const DROPPED: i32 = 2;
const PASSED: i32 = -1;

/// Bytes of a frame.
const FRAME: usize = 1000;

/// A limit at which a frame takes a second.
fn slow(credit: u64, horizon: u64) -> Pace {
    Pace { cost: (SECOND / FRAME as u64) << pace::COST_BITS, credit, horizon }
}

/// Loads the program; `None` if this process may not.
fn load() -> Option<Pacer> {
    match Pacer::load(MAJOR) {
        Ok(pacer) => Some(pacer),
        Err(Error::Missing { what, .. }) if !nix::unistd::geteuid().is_root() => {
            eprintln!("SKIPPED: {what}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Returns an IPv4 frame with an ECN field.
fn ipv4(ecn: u8) -> Vec<u8> {
    let mut frame = vec![0; FRAME];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..16].copy_from_slice(&[0x45, ecn]);
    frame[16..18].copy_from_slice(&(FRAME as u16 - 14).to_be_bytes());
    frame
}

fn run(pacer: &Pacer, frame: &[u8], class: u16) -> TestRun {
    pacer.test_run(frame, Handle::new(MAJOR, class), 1).unwrap()
}

#[test]
fn packets_depart_one_after_the_other_and_are_dropped_beyond_the_horizon() {
    let Some(pacer) = load() else { return };
    pacer.set(ClassId(5), slow(0, 4 * SECOND + SECOND / 2));
    let runs = [(); 5].map(|()| run(&pacer, &ipv4(0), 5));
    let [first, second, third, fourth, fifth] = &runs;
    assert_eq!((first.verdict, first.departure), (PASSED, 0), "an idle class waits for nothing");
    assert!(second.departure > 0);
    assert_eq!(third.departure - second.departure, SECOND);
    assert_eq!(fourth.departure - third.departure, SECOND);
    assert_eq!(fifth.verdict, DROPPED);
    assert!(runs.iter().all(|r| r.priority == 0), "fq reads no band from a class");
    let bytes = 4 * FRAME as u64;
    assert_eq!(pacer.totals(5), Totals { bytes, packets: 4, drops: 1 });
    assert_eq!(pacer.classes.load(5, pace::DELAYED), 3);
    // Another class has a queue of its own.
    pacer.set(ClassId(6), slow(0, SECOND));
    assert_eq!(run(&pacer, &ipv4(0), 6).departure, 0);
}

#[test]
fn an_idle_class_makes_up_for_its_burst_only() {
    let Some(pacer) = load() else { return };
    pacer.set(ClassId(7), slow(2 * SECOND, 9 * SECOND));
    let departures = [(); 4].map(|()| run(&pacer, &ipv4(0), 7).departure);
    assert_eq!(departures[..3], [0; 3], "two frames of burst, and the one that is due");
    assert!(departures[3] > 0);
}

#[test]
fn a_lifted_limit_keeps_the_order() {
    let Some(pacer) = load() else { return };
    pacer.set(ClassId(64_000), slow(0, 9 * SECOND));
    run(&pacer, &ipv4(0), 64_000);
    let waiting = run(&pacer, &ipv4(0), 64_000).departure;
    pacer.set(ClassId(64_000), Pace::UNLIMITED);
    let after = [(); 2].map(|()| run(&pacer, &ipv4(0), 64_000).departure);
    assert_eq!(after, [waiting + SECOND; 2]);
}

#[test]
fn packets_with_ecn_are_marked_beyond_half_the_horizon() {
    let Some(pacer) = load() else { return };
    pacer.set(ClassId(1), slow(0, 5 * SECOND + SECOND / 5));
    let ecn = |field: u8| run(&pacer, &ipv4(field), 1).packet[15] & 3;
    assert_eq!([(); 3].map(|()| ecn(2)), [2; 3], "0, 1 and 2 s of waiting");
    assert_eq!([ecn(2), ecn(0)], [3, 0], "3 s, and a packet without ECN");
}

#[test]
fn other_traffic_is_counted_apart_and_passes() {
    let Some(pacer) = load() else { return };
    let mut arp = ipv4(0);
    arp[12..14].copy_from_slice(&[8, 6]);
    let other = |priority| pacer.test_run(&ipv4(0), Handle(priority), 1).unwrap();
    assert_eq!(other(6).priority, 6, "a priority of another program");
    assert_eq!(other(u32::from(MAJOR + 1) << 16 | 5).departure, 0);
    assert_eq!(
        other(u32::from(MAJOR) << 16 | 0xfff0).departure,
        0,
        "the class of unmapped traffic"
    );
    assert_eq!(pacer.totals(UNMAPPED_RECORD).packets, 3);
    assert_eq!(other(u32::from(MAJOR) << 16 | u32::from(ids::BYPASS)).priority, 7);
    assert_eq!(pacer.test_run(&arp, Handle(0), 1).unwrap().priority, 7);
    assert_eq!(
        pacer.totals(BYPASS_RECORD),
        Totals { bytes: 2 * FRAME as u64, packets: 2, drops: 0 }
    );
}

/// A short packet fits where a long one does not.
///
/// A packet longer than the queue enters a short queue.
#[test]
fn the_room_in_a_queue_is_in_bytes() {
    let Some(pacer) = load() else { return };
    pacer.set(ClassId(3), slow(0, 2 * SECOND + SECOND / 2));
    let short = &ipv4(0)[..FRAME / 10];
    let verdicts = [&ipv4(0)[..], &ipv4(0), &ipv4(0), short].map(|f| run(&pacer, f, 3).verdict);
    assert_eq!(verdicts, [PASSED, PASSED, DROPPED, PASSED]);
    pacer.set(ClassId(4), slow(0, SECOND / 2));
    let verdicts = [(); 2].map(|()| run(&pacer, &ipv4(0), 4).verdict);
    assert_eq!(verdicts, [PASSED, DROPPED]);
}

/// Two processors take departure times of one class, and no time is given twice.
#[test]
fn concurrent_packets_lose_no_time() {
    const EACH: u64 = 5_000;
    let Some(pacer) = load() else { return };
    pacer.set(ClassId(9), slow(0, u64::MAX));
    run(&pacer, &ipv4(0), 9);
    let begin = pacer.classes.load(9, pace::NEXT);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (program, frame) = (&pacer.program, ipv4(0));
            let class = Handle::new(MAJOR, 9).0;
            scope.spawn(move || {
                for _ in 0..EACH {
                    program.test_run_as(&frame, class, 1).unwrap();
                }
            });
        }
    });
    assert_eq!(pacer.totals(9).packets, 2 * EACH + 1);
    assert_eq!(pacer.classes.load(9, pace::NEXT) - begin, 2 * EACH * SECOND);
}

#[test]
fn the_backlog_is_the_time_until_the_last_departure() {
    let Some(pacer) = load() else { return };
    let cost = slow(0, 0).cost;
    assert_eq!(backlog(3 * SECOND, cost), 3 * FRAME as u64);
    assert_eq!(backlog(3 * SECOND, 0), 0, "without a limit nothing waits");
    drop(pacer);
}
