//! Ring and reading: bounds, damage, clocks, names.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn settings(folder: &Path, size: u64) -> HistorySettings {
    HistorySettings { folder: folder.to_owned(), size, period: HistorySettings::PERIOD }
}

/// A minute of `homes` homes that ends `up` seconds after the start of a run.
fn minute(run: u64, up: u64, wall: u64, homes: usize) -> Period {
    let direction = |bytes: u64| DirectionUse {
        usage: Usage {
            bytes,
            drops: bytes % 100,
            limit: Some(5_000_000),
            limited: 60,
            ceiling: Some(20_000_000),
            limited_by: LimitedBy::Control,
            round_trip_ms: Some(45),
            active: 60,
            held: 30,
            ..Usage::default()
        },
        reason: "pfrc.satisfied".into(),
    };
    let home = |i: usize| HomeUse {
        name: format!("home {i}"),
        directions: [direction(1000 * (up + i as u64)), direction(50_000)],
    };
    Period {
        stamp: Stamp { run, up, wall, first: 0, last: 0 },
        end: wall,
        mesh: MeshUse { seconds: 60, congested: 60, level: Some(7), ..MeshUse::default() },
        homes: (0..homes).map(home).collect(),
    }
}

/// Bytes of all files of a folder.
fn size_of(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
}

fn all(folder: &Path) -> (Vec<Period>, Damage) {
    let mut reading = read(folder, 0, u64::MAX).unwrap();
    let periods: Vec<Period> = reading.by_ref().collect();
    (periods, reading.damage())
}

fn files(folder: &Path, tier: &str) -> Vec<PathBuf> {
    segment::segments(folder, tier).unwrap().into_iter().map(|s| s.1).collect()
}

const WALL: u64 = 1_800_000_000;

#[test]
fn minutes_come_back_in_order_with_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("new/history");
    let mut ring = Ring::open(&settings(&at, 1 << 20)).unwrap();
    let names = ["a\nb", "\"q\"", "\u{1b}[2J", "", "𝄞\u{202e}", &"x".repeat(10_000)];
    for i in 0..5_u64 {
        let mut p = minute(1, 60 * i, WALL + 60 * i, names.len());
        p.homes.iter_mut().zip(names).for_each(|(home, name)| home.name = name.to_owned());
        ring.store(p).unwrap();
    }
    let (periods, damage) = all(&at);
    assert!(damage.is_none(), "{damage:?}");
    assert_eq!(periods.iter().map(|p| p.end - WALL).collect::<Vec<_>>(), [0, 60, 120, 180, 240]);
    for p in &periods {
        assert_eq!(p.homes.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), names);
    }
    let expected = minute(1, 120, WALL + 120, 6);
    assert_eq!(periods[2].homes[1].directions, expected.homes[1].directions);
    let between = read(&at, WALL + 60, WALL + 125).unwrap().map(|p| p.end - WALL);
    assert_eq!(between.collect::<Vec<_>>(), [120, 180], "those that overlap the time");
}

/// A week of 30 homes in 1 MiB: the last hours by minute, the rest by hour.
#[test]
fn a_full_ring_keeps_hours_longer_than_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let size = 1 << 20;
    let mut ring = Ring::open(&settings(folder.path(), size)).unwrap();
    let minutes = 7 * 24 * 60;
    for i in 1..=minutes {
        ring.store(minute(1, 60 * i, WALL + 60 * i, 30)).unwrap();
        if i % 1000 == 0 {
            assert!(size_of(folder.path()) <= size);
            assert_eq!(ring.bytes(), size_of(folder.path()));
        }
    }
    let (periods, damage) = all(folder.path());
    assert!(damage.is_none(), "{damage:?}");
    let fine = periods.iter().filter(|p| p.mesh.seconds == 60).count();
    let seconds: u64 = periods.iter().map(|p| u64::from(p.mesh.seconds)).sum();
    println!("{fine} minutes, {} hours, {} bytes", periods.len() - fine, ring.bytes());
    assert_eq!(seconds, 60 * minutes, "each minute is in one period");
    assert!(fine >= 3 * 60, "{fine}");
    assert!(periods.is_sorted_by_key(|p| p.end));
    let bytes: u64 =
        periods.iter().flat_map(|p| &p.homes).map(|h| h.directions[0].usage.bytes).sum();
    let expected: u64 =
        (1..=minutes).map(|i| (0..30).map(|h| 1000 * (60 * i + h)).sum::<u64>()).sum();
    assert_eq!(bytes, expected);
    assert_eq!(ring.oldest(), Some(periods[0].stamp.wall));
}

/// Ten thousand homes with traffic in both directions, over an hour's end.
#[test]
fn ten_thousand_homes_stay_within_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let size = 8 << 20;
    let mut ring = Ring::open(&settings(folder.path(), size)).unwrap();
    for i in 1..=40 {
        ring.store(minute(1, 60 * i, WALL + 1800 + 60 * i, 10_000)).unwrap();
        assert!(size_of(folder.path()) <= size);
    }
    let (periods, damage) = all(folder.path());
    assert!(damage.is_none() && periods.iter().all(|p| p.homes.len() == 10_000));
    println!("{} periods, {} bytes", periods.len(), ring.bytes());
    assert_eq!(periods.last().unwrap().stamp.last, 39);
    assert!(files(folder.path(), segment::HOURS).len() == 1, "the hour that ended");
}

#[test]
fn a_crash_costs_the_last_record_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut ring = Ring::open(&settings(at, 1 << 20)).unwrap();
    for i in 1..=3_u64 {
        ring.store(minute(1, 60 * i, WALL + 60 * i, 3)).unwrap();
    }
    drop(ring);
    let file = &files(at, segment::MINUTES)[0];
    let whole = fs::read(file).unwrap();
    fs::write(file, &whole[..whole.len() - 7]).unwrap();
    let (periods, damage) = all(at);
    assert_eq!((periods.len(), damage.records), (2, 0));
    assert!(damage.bytes > 0);
    let mut ring = Ring::open(&settings(at, 1 << 20)).unwrap();
    assert_eq!(ring.cut, damage.bytes);
    ring.store(minute(2, 60, WALL + 600, 4)).unwrap();
    let (periods, damage) = all(at);
    assert!(damage.is_none(), "it was cut off: {damage:?}");
    // The minutes before the crash are an hour's part, which has the same sum.
    assert_eq!(periods.len(), 3);
    assert_eq!(periods[2].homes.len(), 4);
}

/// Damage in the middle costs the record, and the homes that only it names.
#[test]
fn a_damaged_record_is_skipped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut ring = Ring::open(&settings(at, 1 << 20)).unwrap();
    for (i, homes) in [(1_u64, 2), (2, 5), (3, 5)] {
        ring.store(minute(1, 60 * i, WALL + 60 * i, homes)).unwrap();
    }
    let file = &files(at, segment::MINUTES)[0];
    let mut bytes = fs::read(file).unwrap();
    let place = bytes.windows(6).position(|w| w == b"home 3").unwrap();
    bytes[place] ^= 1;
    fs::write(file, &bytes).unwrap();
    let (periods, damage) = all(at);
    let homes: Vec<usize> = periods.iter().map(|p| p.homes.len()).collect();
    assert_eq!((homes, damage), (vec![2, 2], Damage { records: 1, bytes: 0, homes: 3 }));
    // The writer does not append to it, since it does not know all names.
    drop(ring);
    let mut ring = Ring::open(&settings(at, 1 << 20)).unwrap();
    ring.store(minute(2, 60, WALL + 600, 5)).unwrap();
    assert_eq!(files(at, segment::MINUTES).len(), 2);
    assert_eq!(all(at).0.last().unwrap().homes.len(), 5);
}

/// Other files, links, FIFOs and garbage in the folder are left alone and delay nothing.
#[test]
fn foreign_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("minutes-x.fmh"), "x").unwrap();
    fs::write(at.join("minutes-0000000003.fmh"), "garbage").unwrap();
    fs::write(at.join("hours-18446744073709551615.fmh"), "garbage").unwrap();
    std::os::unix::fs::symlink("/dev/zero", at.join("minutes-0000000004.fmh")).unwrap();
    nix::unistd::mkfifo(&at.join("minutes-0000000005.fmh"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut ring = Ring::open(&settings(at, 1 << 20)).unwrap();
    ring.store(minute(1, 60, WALL, 1)).unwrap();
    assert_eq!(all(at).0.len(), 1);
    assert!(at.join("minutes-0000000006.fmh").exists());
    assert!(at.join("minutes-x.fmh").exists());
}

/// A router without a battery starts in 1970 and learns the time later.
#[test]
fn records_follow_a_clock_that_jumps() {
    for (first, then) in [(5, WALL), (WALL, WALL - 86_400), (WALL, WALL + 30 * 86_400)] {
        let folder = tempfile::tempdir().unwrap();
        let mut ring = Ring::open(&settings(folder.path(), 1 << 20)).unwrap();
        for i in 1..=200_u64 {
            let wall = if i <= 100 { first } else { then };
            ring.store(minute(1, 60 * i, wall + 60 * i, 1)).unwrap();
        }
        let (periods, _) = all(folder.path());
        let ends: Vec<u64> = periods.iter().map(|p| p.end - then).collect();
        assert_eq!(ends, (1..=200).map(|i| 60 * i).collect::<Vec<_>>(), "{first} {then}");
        let late = read(folder.path(), then + 60 * 50, u64::MAX).unwrap();
        assert_eq!(late.count(), 150);
    }
}

/// The daemon loses what cannot be written, reports it, and continues once there is space.
#[test]
fn a_full_disk_loses_minutes_and_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut writer = HistoryWriter::direct(&settings(&at.join("history"), 1 << 20));
    // A file is in the place of the folder.
    fs::write(at.join("history"), "").unwrap();
    for i in 1..=3_u64 {
        writer.store(minute(1, 60 * i, WALL, 1));
    }
    let report = writer.report();
    assert_eq!((report.written, report.lost), (0, 3));
    assert!(report.problem.is_some());
    fs::remove_file(at.join("history")).unwrap();
    writer.store(minute(1, 240, WALL, 1));
    let report = writer.report();
    assert_eq!((report.written, report.lost, report.problem), (1, 3, None));
}

#[test]
fn a_record_that_never_fits_is_refused_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = Ring::open(&settings(folder.path(), HistorySettings::SMALLEST)).unwrap();
    ring.store(minute(1, 60, WALL, 30)).unwrap();
    let e = ring.store(minute(1, 120, WALL + 60, 10_000)).unwrap_err();
    assert!(e.to_string().contains("expected a larger history.size"), "{e}");
    ring.store(minute(1, 180, WALL + 120, 30)).unwrap();
    assert_eq!(all(folder.path()).0.len(), 2);
}

/// One step of the property test.
#[derive(Clone, Debug)]
enum Step {
    Minutes(u8, u8),
    Restart,
    /// A crash that leaves part of a record.
    Crash(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..200_u8, 0..40_u8).prop_map(|(n, homes)| Step::Minutes(n, homes)),
        1 => Just(Step::Restart),
        1 => (1..60_u8).prop_map(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any sequence of minutes, restarts and crashes stays within the bound and in order.
    ///
    /// Each minute is read once.
    #[test]
    fn any_sequence_stays_within_the_bound_and_in_order(steps in prop::collection::vec(step(), 1..25)) {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let size = 96 << 10;
        let mut ring = Ring::open(&settings(at, size)).unwrap();
        let (mut run, mut up, mut wall) = (1, 0, WALL);
        for step in steps {
            match step {
                Step::Minutes(n, homes) => for _ in 0..n {
                    (up, wall) = (up + 60, wall + 60);
                    ring.store(minute(run, up, wall, usize::from(homes))).unwrap();
                },
                Step::Restart | Step::Crash(_) => {
                    drop(ring);
                    if let Step::Crash(cut) = step
                        && let Some(file) = files(at, segment::MINUTES).last()
                    {
                        let bytes = fs::read(file).unwrap();
                        let left = bytes.len().saturating_sub(usize::from(cut)).max(8);
                        fs::write(file, &bytes[..left]).unwrap();
                    }
                    (run, up) = (run + 1, 0);
                    ring = Ring::open(&settings(at, size)).unwrap();
                }
            }
            prop_assert!(size_of(at) <= size, "{}", size_of(at));
            let (periods, damage) = all(at);
            prop_assert!(damage.is_none(), "{damage:?}");
            prop_assert!(periods.is_sorted_by_key(|p| p.stamp.first));
            prop_assert!(periods.is_sorted_by_key(|p| p.end));
            let overlap = periods.windows(2).any(|w| w[0].stamp.last >= w[1].stamp.first);
            prop_assert!(!overlap);
        }
    }

    /// Any bytes in a segment are skipped, and take no more memory than the file has.
    #[test]
    fn any_bytes_are_read_or_skipped(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = tempfile::tempdir().unwrap();
        let mut file = block::MAGIC.to_vec();
        file.extend(&bytes);
        fs::write(folder.path().join("minutes-0000000001.fmh"), file).unwrap();
        let (periods, damage) = all(folder.path());
        prop_assert!(periods.is_empty());
        prop_assert!(damage.bytes > 0 || damage.records > 0 || bytes.is_empty());
        Ring::open(&settings(folder.path(), 1 << 20)).unwrap();
    }
}
