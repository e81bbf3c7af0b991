//! The history on a virtual clock: a week with three starving homes, and a full disk.

use std::collections::BTreeMap;

use super::*;
use crate::gateway::history::{Bottleneck, Summary, read};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Demand of the homes at an hour of the day, in bit/s.
///
/// In the evening the first three leave next to nothing to the others.
fn demands(hour: u64) -> [f64; 6] {
    match hour {
        18..22 => [3e6, 3e6, 2.5e6, 2e6, 2e6, 2e6],
        _ => [0.4e6, 0.2e6, 0.0, 0.1e6, 0.0, 0.05e6],
    }
}

fn pass_days(b: &mut Bench, days: u64) {
    for hour in 0..24 * days {
        for (i, demand) in demands(hour % 24).into_iter().enumerate() {
            let slot = FakeShaper::slot(i as u16 + 1, Direction::Down);
            b.plane().classes.get_mut(&slot).unwrap().demand = demand;
        }
        b.pass(Span::from_secs(HOUR));
    }
}

/// A week in mode `observe` and a day in mode `apply`, compressed.
#[test]
fn the_worst_homes_of_a_week_are_those_that_starved() {
    let folder = tempfile::tempdir().unwrap();
    let (file, history) = (folder.path().join("gateway.toml"), folder.path().join("history"));
    let observe = text(folder.path()).replace("\"apply\"", "\"observe\"");
    // Its page takes most of the time.
    let observe: String =
        observe.lines().filter(|l| !l.starts_with("textfile")).map(|l| format!("{l}\n")).collect();
    let mut b = Bench::on(folder.path(), &observe, Dial::new(Time::ZERO));
    // Midnight, UTC.
    b.wall.set(WALL / DAY * DAY);
    (b.plane().capacity, b.plane().floor) = (8e6, 20e3);
    b.pass(Span::from_secs(1));
    pass_days(&mut b, 7);
    let applied = b.wall.get();
    let config = Config::load(&file).unwrap();
    let week = Summary::read(&history, applied - 7 * DAY, applied, Some(&config)).unwrap();
    println!("{}", week.text());
    let mut worst: Vec<&str> = week.worst().take(3).collect();
    worst.sort_unstable();
    assert_eq!((worst, week.starved.len()), (vec!["s3", "s4", "s5"], 3));
    for home in &week.starved {
        assert_eq!(home.direction, "down");
        // Seven evenings of four hours.
        assert!((27 * HOUR..=28 * HOUR).contains(&home.seconds), "{home:?}");
        let evening: u32 = home.by_hour[18..22].iter().sum();
        assert_eq!(u64::from(evening), home.seconds, "{home:?}");
        assert_eq!((home.confirmed_seconds, home.unlimited_seconds), (0, home.seconds));
        // A sixth of 8 Mbit/s of frames.
        assert!((1.3e6..1.4e6).contains(&(home.due_bits_per_second as f64)), "{home:?}");
        assert!((15e3..30e3).contains(&(home.carried_bits_per_second as f64)), "{home:?}");
        assert_eq!(home.bottleneck, Bottleneck::MeshBehind);
    }
    assert_eq!(week.mesh.enforced, 0);
    let evenings: u64 = week.congested_by_hour[18..22].iter().sum();
    let congested = u64::from(week.mesh.congested);
    // A last sample after the hour may still see the traffic before it.
    assert!(congested - evenings < 60 && evenings > 27 * HOUR, "{congested} {evenings}");
    assert!(week.mesh.seconds as u64 > 7 * DAY - 120);
    let replay = &week.replay;
    assert_eq!(replay.control.as_deref(), Some("pfrc+bursts"));
    assert!(replay.seconds > HOUR && replay.left_out_seconds > 20 * HOUR, "hours are not replayed");
    let line = week.change().unwrap();
    assert!(line.contains("with mode = \"apply\", 3 homes would have had at least"), "{line}");
    assert!(line.contains("The rest is not known: it is recorded by hours"), "{line}");
    assert!(week.html().contains("3 homes would have had at least"));
    let json = serde_json::to_value(&week).unwrap();
    assert_eq!(json["replay"]["homes"].as_array().unwrap().len(), replay.homes.len());
    assert!(week.text().contains("data packets alone"), "counters do not prove demand");

    std::fs::write(&file, observe.replace("\"observe\"", "\"apply\"")).unwrap();
    b.send(Message::Signal(signal_hook::consts::SIGHUP));
    pass_days(&mut b, 1);
    let day = Summary::read(&history, applied + 120, b.wall.get(), Some(&config)).unwrap();
    println!("{}", day.text());
    assert_eq!(day.starved, []);
    assert!(u64::from(day.mesh.enforced) > 23 * HOUR);
    // Four hours: at night no limit shows congestion.
    assert!(u64::from(day.mesh.congested) < 5 * HOUR, "{}", day.mesh.congested);
    assert!(day.answer().starts_with("none of "), "{}", day.answer());
    assert_eq!(day.change(), None);
    // The replay of the week holds on the day with limits.
    let evening = read(&history, applied + 18 * HOUR, applied + 22 * HOUR).unwrap();
    let (mut bits, mut seconds) = (BTreeMap::<String, f64>::new(), 0.0);
    for period in evening {
        seconds += f64::from(period.mesh.seconds);
        for home in &period.homes {
            let sum = bits.entry(home.name.clone()).or_default();
            *sum += 8.0 * home.directions[0].usage.bytes as f64;
        }
    }
    for (name, measured) in bits.iter().map(|(name, bits)| (name, bits / seconds)) {
        let expected = replay.homes.iter().filter(|h| h.name == *name && h.direction == "down");
        let Some(expected) = expected.max_by_key(|h| h.seconds) else { continue };
        let [least, most] =
            [expected.least_bits_per_second, expected.most_bits_per_second].map(|r| r as f64);
        println!("{name}: {measured:.0} bit/s; replayed {least} to {most}");
        assert!(
            0.9 * least <= measured && measured <= 1.1 * most,
            "{name}: {measured} {expected:?}"
        );
        if expected.starved {
            assert!(least > 5.0 * expected.carried_bits_per_second as f64, "{expected:?}");
        }
    }
}

#[test]
fn hours_in_which_the_daemon_stood_still_are_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = Bench::new(folder.path());
    (b.plane().capacity, b.plane().floor) = (8e6, 20e3);
    b.pass(Span::from_secs(1));
    for (i, demand) in demands(19).into_iter().enumerate() {
        let slot = FakeShaper::slot(i as u16 + 1, Direction::Down);
        b.plane().classes.get_mut(&slot).unwrap().demand = demand;
    }
    // Half of a minute is in the standstill's period.
    b.pass(Span::from_secs(630));
    b.now.set(b.now.get() + Span::from_secs(12 * HOUR));
    b.wall.set(b.wall.get() + 12 * HOUR);
    b.pass(Span::from_secs(600));
    let periods: Vec<_> = read(&folder.path().join("history"), 0, u64::MAX)
        .unwrap()
        .map(|p| p.mesh.seconds)
        .collect();
    assert!(periods.len() >= 18 && periods.iter().all(|s| *s < 120), "{periods:?}");
}

#[test]
fn a_history_that_cannot_be_written_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    std::fs::write(&history, "in the place of the folder").unwrap();
    let mut b = Bench::new(folder.path());
    b.plane().classes.values_mut().for_each(|c| c.demand = 1e6);
    b.pass(Span::from_secs(300));
    assert_eq!(b.daemon.service.host.phase(), Phase::Running);
    let total = |b: &Bench, code: &str| b.daemon.service.host.governor.journal.total(code);
    assert_eq!(total(&b, "history.unwritable"), 1);
    let Response::Ok(status) = b.ask(Request::Status) else { panic!() };
    assert!(status["history"]["problem"].is_string(), "{}", status["history"]);
    assert!(status["history"]["lost"].as_u64().unwrap() >= 3);
    let page = b.daemon.service.page(None);
    assert!(page.contains("fairmesh_gateway_history_writable 0"), "{page}");
    std::fs::remove_file(&history).unwrap();
    b.pass(Span::from_secs(120));
    assert_eq!(total(&b, "history.resumed"), 1);
    let Response::Ok(status) = b.ask(Request::Status) else { panic!() };
    assert!(status["history"]["problem"].is_null());
    assert!(read(&history, 0, u64::MAX).unwrap().count() >= 1);
}

/// The part of a minute before the end is not lost, and the next run continues the numbers.
#[test]
fn a_restart_continues_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    for run in 1..=3 {
        let mut b = Bench::on(folder.path(), &text(folder.path()), Dial::new(Time::ZERO));
        b.wall.set(WALL + 1000 * run);
        b.pass(Span::from_secs(1));
        b.plane().classes.values_mut().for_each(|c| c.demand = 0.5e6);
        b.pass(Span::from_secs(200));
        let at = b.daemon.at();
        b.daemon.service.stop(at).unwrap();
    }
    let periods: Vec<_> = read(&history, 0, u64::MAX).unwrap().collect();
    let seconds: u32 = periods.iter().map(|p| p.mesh.seconds).sum();
    assert!((590..=610).contains(&seconds), "{seconds}");
    assert!(periods.is_sorted_by_key(|p| p.stamp.first));
    // Traffic of no subscriber is a home of its own.
    assert!(periods.iter().all(|p| p.homes.len() == 7), "all homes carried data");
}

/// A home with a queue that carries no byte is in the record.
#[test]
fn a_home_that_carries_nothing_at_all_is_recorded_as_starved() {
    let folder = tempfile::tempdir().unwrap();
    let observe = text(folder.path()).replace("\"apply\"", "\"observe\"");
    let mut b = Bench::on(folder.path(), &observe, Dial::new(Time::ZERO));
    (b.plane().capacity, b.plane().floor) = (9.5e6, 0.0);
    b.pass(Span::from_secs(1));
    for (i, backlog) in [(1, 0), (2, 60_000)] {
        let slot = FakeShaper::slot(i, Direction::Down);
        let class = b.plane().classes.get_mut(&slot).unwrap();
        (class.demand, class.backlog) = (20e6, backlog);
    }
    b.pass(Span::from_secs(300));
    let periods: Vec<_> = read(&folder.path().join("history"), 0, u64::MAX).unwrap().collect();
    let last = periods.last().unwrap();
    let of = |name: &str| last.homes.iter().find(|h| h.name == name).unwrap();
    assert_eq!(of("s1").directions[0].usage.bytes, 0);
    assert_eq!((of("s0").starved(), of("s1").starved()), (0, last.mesh.seconds));
}

/// `history.size = "0 B"` writes nothing; a reload cannot change it.
#[test]
fn a_history_is_optional() {
    let folder = tempfile::tempdir().unwrap();
    let text = text(folder.path());
    let none = text.replace("size = \"256 KiB\"", "size = \"0 B\"");
    let mut b = Bench::on(folder.path(), &none, Dial::new(Time::ZERO));
    b.pass(Span::from_secs(300));
    assert!(!folder.path().join("history").exists());
    let Response::Ok(status) = b.ask(Request::Status) else { panic!() };
    assert!(status["history"].is_null());
    std::fs::write(folder.path().join("gateway.toml"), &text).unwrap();
    let Response::Refused(refusal) = b.ask(Request::Reload) else { panic!() };
    assert!(format!("{refusal:?}").contains("history.size"), "{refusal:?}");
}

/// The first minute's end is known until the minute is written.
#[test]
fn the_end_of_the_first_minute_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = Bench::new(folder.path());
    let mut end = || {
        let Response::Ok(status) = b.ask(Request::Status) else { panic!() };
        b.pass(Span::from_secs(20));
        status["history"]["first_minute"].as_u64()
    };
    let first = end().unwrap();
    assert!((WALL + 55..=WALL + 62).contains(&first), "{first}");
    assert!(first.abs_diff(end().unwrap()) <= 1);
    assert!(end().is_some());
    end();
    assert_eq!(end(), None, "the minute is written");
}
