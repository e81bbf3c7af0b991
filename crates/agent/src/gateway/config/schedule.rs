//! Weights and ceilings by the time of day and the day of the week, by the local clock.
//!
//! A time that the clock skips in spring does not occur; one that it repeats in autumn counts twice.

use jiff::civil::{DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use fairmesh_units::BitRate;

/// Place of the time-zone database.
const TIME_ZONE_FOLDER: &str = "/usr/share/zoneinfo";
/// Files with the machine's time zone: OpenWrt's POSIX string, and a compiled zone.
const OF_MACHINE: [&str; 2] = ["/etc/TZ", "/etc/localtime"];
/// 2020 in seconds since 1970; a clock with an earlier time is not set.
const EARLIEST_CLOCK: u64 = 1_577_836_800;
/// Days after which a weekly schedule repeats, and one for a change of the clock.
const SEARCHED_DAYS: i64 = 8;

/// A time zone.
#[derive(Clone, PartialEq, Debug)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Default for Zone {
    fn default() -> Self {
        Zone { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }
}

impl Zone {
    /// Finds a zone by its name in the database, or by a POSIX string.
    ///
    /// # Errors
    /// Returns the problem.
    pub fn named(name: &str) -> Result<Zone, String> {
        let name = name.trim();
        let found = |zone| Zone { name: name.to_owned(), zone };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
        let in_database = name.chars().all(plain) && !name.starts_with('/') && !name.is_empty();
        if in_database
            && let Ok(bytes) = std::fs::read(format!("{TIME_ZONE_FOLDER}/{name}"))
            && let Ok(zone) = TimeZone::tzif(name, &bytes)
        {
            return Ok(found(zone));
        }
        match TimeZone::posix(name) {
            Ok(zone) => Ok(found(zone)),
            Err(_) if in_database => Err(format!("\"{name}\" is not in {TIME_ZONE_FOLDER}")),
            Err(e) => Err(format!("\"{name}\": {e}")),
        }
    }

    /// Returns the machine's zone, or UTC.
    pub fn of_machine() -> Zone {
        let read = |file: &str| {
            let bytes = std::fs::read(file).ok()?;
            let text = || std::str::from_utf8(&bytes).ok()?.lines().next().map(str::trim);
            let zone = TimeZone::tzif(file, &bytes).ok();
            let zone = zone.or_else(|| TimeZone::posix(text()?).ok())?;
            Some(Zone { name: file.to_owned(), zone })
        };
        OF_MACHINE.into_iter().find_map(read).unwrap_or_default()
    }

    /// Returns its name, or the file that it comes from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the local time; `None`: the clock is not set.
    fn local(&self, wall: u64) -> Option<DateTime> {
        let wall = i64::try_from(wall).ok().filter(|_| wall >= EARLIEST_CLOCK)?;
        Some(self.zone.to_datetime(Timestamp::from_second(wall).ok()?))
    }

    /// Returns a time as local text, `Mon 18:00`.
    pub fn text(&self, wall: u64) -> String {
        self.local(wall).map_or_else(String::new, |t| {
            let day = DAY_NAMES[usize::from(t.weekday().to_monday_zero_offset().unsigned_abs())];
            format!("{day} {:02}:{:02}", t.hour(), t.minute())
        })
    }
}

/// Period of a quota, by the local clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// From midnight.
    Day,
    /// From Monday.
    Week,
    /// From the first day.
    Month,
}

impl Period {
    /// Returns begin and end of the period at a time, s since 1970; `None`: the clock is not set.
    pub fn around(self, zone: &Zone, wall: u64) -> Option<[u64; 2]> {
        let today = zone.local(wall)?.date();
        let since_monday = i64::from(today.weekday().to_monday_zero_offset());
        let (begin, length) = match self {
            Period::Day => (today, Span::new().days(1)),
            Period::Week => {
                (today.checked_sub(Span::new().days(since_monday)).ok()?, Span::new().weeks(1))
            }
            Period::Month => (today.first_of_month(), Span::new().months(1)),
        };
        let second = |date: jiff::civil::Date| {
            let midnight = zone.zone.to_ambiguous_timestamp(date.to_datetime(Time::midnight()));
            u64::try_from(midnight.compatible().ok()?.as_second()).ok()
        };
        Some([second(begin)?, second(begin.checked_add(length).ok()?)?])
    }
}

/// Bytes of a period, and the ceilings after them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// IP bytes of both directions.
    pub bytes: u64,
    /// Period.
    pub per: Period,
    /// Ceilings downstream and upstream once it is used up.
    pub ceilings: [Option<BitRate>; 2],
}

/// Names of the days.
pub(super) const DAY_NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A time of some days with a weight and ceilings of its own.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// Days on which it begins, from Monday.
    pub days: [bool; 7],
    /// Begin.
    pub from: Time,
    /// End; on the next day if it is not after the begin.
    pub to: Time,
    /// Weight; `None`: that of the plan.
    pub weight: Option<f64>,
    /// Ceilings downstream and upstream; `None`: those of the plan.
    pub ceilings: [Option<BitRate>; 2],
}

impl Window {
    fn on(&self, day: Weekday) -> bool {
        self.days[usize::from(day.to_monday_zero_offset().unsigned_abs())]
    }

    fn contains(&self, at: DateTime) -> bool {
        let (day, time) = (at.weekday(), at.time());
        if self.from < self.to {
            return self.on(day) && self.from <= time && time < self.to;
        }
        (self.on(day) && self.from <= time) || (self.on(day.previous()) && time < self.to)
    }

    /// Returns the window as text, `18:00-23:00`.
    pub fn text(&self) -> String {
        let time = |t: Time| format!("{:02}:{:02}", t.hour(), t.minute());
        format!("{}-{}", time(self.from), time(self.to))
    }
}

/// Windows of a plan; of several at a time the first one applies.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Key in the configuration, for reports: `plan.basic`.
    pub name: String,
    /// Windows in their order.
    pub windows: Vec<Window>,
}

impl Schedule {
    /// Returns the active window at a time, s since 1970.
    pub fn active(&self, zone: &Zone, wall: u64) -> Option<usize> {
        let local = zone.local(wall)?;
        self.windows.iter().position(|w| w.contains(local))
    }

    /// Returns the time of the next change, s since 1970.
    pub fn next(&self, zone: &Zone, wall: u64) -> Option<u64> {
        let now = self.active(zone, wall);
        let today = zone.local(wall)?.date();
        let mut times: Vec<Timestamp> = Vec::new();
        for day in -1..=SEARCHED_DAYS {
            let Ok(date) = today.checked_add(Span::new().days(day)) else { continue };
            for time in self.windows.iter().flat_map(|w| [w.from, w.to]) {
                // The later of a repeated time, and both sides of a skipped one.
                let local = zone.zone.to_ambiguous_timestamp(date.to_datetime(time));
                times.extend([local.earlier().ok(), local.later().ok()].into_iter().flatten());
            }
        }
        let at = Timestamp::from_second(i64::try_from(wall).ok()?).ok()?;
        let last = at.checked_add(Span::new().hours(24 * SEARCHED_DAYS)).ok()?;
        let changes = zone.zone.following(at).map(|t| t.timestamp());
        times.extend(changes.take_while(|t| *t <= last));
        let mut seconds: Vec<u64> =
            times.iter().filter_map(|t| u64::try_from(t.as_second()).ok()).collect();
        seconds.sort_unstable();
        seconds.into_iter().find(|t| *t > wall && self.active(zone, *t) != now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Germany: the clock skips 02:00 to 03:00 on 2026-03-29 and repeats it on 2026-10-25.
    const GERMANY: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
    /// 2026-03-27 and 2026-10-23, both a Friday, 00:00 UTC.
    const CHANGES: [u64; 2] = [1_774_569_600, 1_792_713_600];

    fn window(days: [bool; 7], from: &str, to: &str) -> Window {
        let time = |t: &str| t.parse().unwrap();
        Window { days, from: time(from), to: time(to), weight: None, ceilings: [None; 2] }
    }

    fn schedule(windows: Vec<Window>) -> Schedule {
        Schedule { name: "plan.a".to_owned(), windows }
    }

    #[test]
    fn a_posix_string_and_the_database_agree() {
        let posix = Zone::named(GERMANY).unwrap();
        for start in CHANGES {
            assert_eq!(
                posix.text(start),
                if start == CHANGES[0] { "fri 01:00" } else { "fri 02:00" }
            );
        }
        if std::path::Path::new("/usr/share/zoneinfo/Europe/Berlin").exists() {
            let named = Zone::named("Europe/Berlin").unwrap();
            for minute in 0..5 * 24 * 60 {
                for start in CHANGES {
                    assert_eq!(named.text(start + minute * 60), posix.text(start + minute * 60));
                }
            }
        }
        for wrong in ["Europe/Nowhere", "", "../../etc/passwd", "CET-1CEST,M13", "\n"] {
            assert!(Zone::named(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_local_clock_decides_when_it_changes() {
        let zone = Zone::named(GERMANY).unwrap();
        let night = schedule(vec![window([true; 7], "02:30", "05:00")]);
        let minutes = |start: u64| {
            let active = |m: &u64| night.active(&zone, start + m * 60).is_some();
            // Two days later is the day of the change.
            (2 * 24 * 60 - 120..3 * 24 * 60 - 120).filter(active).count()
        };
        assert_eq!(minutes(CHANGES[0]), 120, "03:00 to 05:00");
        assert_eq!(minutes(CHANGES[1]), 150 + 30, "02:30 to 03:00 twice");
    }

    #[test]
    fn periods_begin_at_local_midnight() {
        let zone = Zone::named(GERMANY).unwrap();
        let hours = |period: Period, wall| {
            let [begin, end] = period.around(&zone, wall).unwrap();
            assert!(begin <= wall && wall < end);
            assert_eq!(period.around(&zone, end).unwrap()[0], end);
            (end - begin) / 3600
        };
        // Sunday 2026-03-29, 12:00 UTC: the day of the change.
        let sunday = CHANGES[0] + 60 * 3600;
        assert_eq!(hours(Period::Day, sunday), 23);
        assert_eq!(hours(Period::Week, sunday), 7 * 24 - 1);
        assert_eq!(hours(Period::Month, sunday), 31 * 24 - 1);
        assert_eq!(hours(Period::Day, CHANGES[1] + 60 * 3600), 25);
        assert_eq!(Period::Month.around(&zone, 5), None, "the clock is not set");
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_of_its_begin() {
        let zone = Zone::default();
        let mut days = [false; 7];
        days[4] = true;
        let late = schedule(vec![window(days, "22:00", "06:00")]);
        let friday = CHANGES[0];
        let at = |hours: u64| late.active(&zone, friday + hours * 3600).is_some();
        assert_eq!([5, 21, 22, 29, 30, 46].map(at), [false, false, true, true, false, false]);
        assert_eq!(late.next(&zone, friday), Some(friday + 22 * 3600));
        assert_eq!(late.next(&zone, friday + 23 * 3600), Some(friday + 30 * 3600));
        assert_eq!(late.active(&zone, 86_400), None, "the clock is not set");
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
        /// Every change is announced, and none that does not come.
        #[test]
        fn the_next_change_is_the_first_minute_with_another_window(
            start in proptest::sample::select(CHANGES.to_vec()),
            zone in proptest::sample::select(vec![GERMANY, "UTC0", "NZST-12NZDT,M9.5.0,M4.1.0/3", "LHST-10:30LHDT-11,M10.1.0,M4.1.0"]),
            windows in proptest::collection::vec((0_u8..128, 0_i8..24, 0_i8..60, 0_i8..24, 0_i8..60), 1..4),
            offset in 0_u64..3 * 24 * 60,
        ) {
            let zone = Zone::named(zone).unwrap();
            let windows = windows.into_iter().map(|(days, a, b, c, d)| Window {
                days: core::array::from_fn(|i| days & (1 << i) != 0),
                from: Time::constant(a, b, 0, 0),
                to: Time::constant(c, d, 0, 0),
                weight: None,
                ceilings: [None; 2],
            });
            let schedule = schedule(windows.collect());
            let from = start + offset * 60;
            let now = schedule.active(&zone, from);
            let found = (1..8 * 24 * 60).map(|m| from + m * 60).find(|t| schedule.active(&zone, *t) != now);
            match (schedule.next(&zone, from), found) {
                (Some(next), Some(found)) => assert_eq!(next, found),
                (Some(next), None) => assert!(next > from + 7 * 24 * 3600),
                (None, found) => assert_eq!(found, None),
            }
        }
    }
}
