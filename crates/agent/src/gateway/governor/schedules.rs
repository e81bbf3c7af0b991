//! Schedules and quotas of plans, by the system's clock.

use std::collections::BTreeMap;

use fairmesh_units::Time;

use super::turns::Turns;
use super::{Governor, LimitReason};
use crate::gateway::config::{Config, Period, Plan, Quota, Schedule, Zone, is_plain};
use crate::gateway::journal::Level;

/// Most subscribers with a stored use of their quota.
const MAX_USAGE: usize = 100_000;

/// Schedules with their active windows.
#[derive(Clone, Default, Debug)]
pub(crate) struct Calendar {
    schedules: Vec<Schedule>,
    zone: Zone,
    /// Active window of each schedule.
    active: Vec<Option<usize>>,
    /// Use of quotas by subscriber.
    usage: BTreeMap<String, Usage>,
    /// System's clock at the last look, s since 1970.
    wall: u64,
}

/// Use of a quota.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// Begin of the period, s since 1970; 0: the clock was not set.
    pub since: u64,
    /// IP bytes since then.
    pub bytes: u64,
}

/// A quota at present.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct QuotaReport {
    /// IP bytes of the quota.
    pub quota_bytes: u64,
    /// IP bytes used in this period.
    pub used_bytes: u64,
    /// IP bytes left.
    pub remaining_bytes: u64,
    /// End of the period, s since 1970; `None`: the clock is not set.
    pub until_unix_seconds: Option<u64>,
    /// Seconds until the end of the period.
    pub seconds_left: Option<u64>,
}

impl QuotaReport {
    /// Returns the time until the quota begins again, in words.
    pub fn again(&self) -> Option<String> {
        let seconds = self.seconds_left?;
        Some(match seconds {
            s if s < 2 * 3600 => format!("{} min", s.div_ceil(60)),
            s if s < 48 * 3600 => format!("{} h", s.div_ceil(3600)),
            s => format!("{} days", s.div_ceil(86_400)),
        })
    }

    /// Returns one line of text.
    pub fn text(&self) -> String {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let again = |again| format!("; begins again in {again}");
        let end = self.again().map_or(String::new(), again);
        format!(
            "quota: {:.2} GB of {:.2} GB used, {:.2} GB left{end}",
            gigabytes(self.used_bytes),
            gigabytes(self.quota_bytes),
            gigabytes(self.remaining_bytes)
        )
    }
}

/// A schedule at present.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct ScheduleReport {
    /// Key of its plan or subscriber in the configuration.
    pub of: String,
    /// Active window, `18:00-23:00`; `None`: the plan's own rates apply.
    pub active: Option<String>,
    /// Local time of the next change, `mon 18:00`.
    pub next: Option<String>,
    /// Time of the next change, s since 1970.
    pub next_unix_seconds: Option<u64>,
    /// Time zone.
    pub zone: String,
}

impl ScheduleReport {
    /// Returns one line of text.
    pub fn text(&self) -> String {
        let active = self.active.as_deref().unwrap_or("regular rates");
        let next = self.next.as_ref();
        let next = next.map_or("no change follows".to_owned(), |t| format!("next change {t}"));
        format!("schedule of {}: {active}; {next} ({})", self.of, self.zone)
    }
}

impl Calendar {
    /// Returns the calendar of a configuration, before the first look at a clock.
    pub fn new(config: &Config) -> Calendar {
        let (schedules, zone) = (config.schedules.clone(), config.zone.clone());
        let active = vec![None; schedules.len()];
        Calendar { schedules, zone, active, usage: BTreeMap::new(), wall: 0 }
    }

    /// Takes over a changed configuration at the last known time.
    pub fn reload(&mut self, config: &Config) {
        let wall = self.wall;
        let usage = core::mem::take(&mut self.usage);
        *self = Calendar { usage, ..Calendar::new(config) };
        self.look(wall);
    }

    /// Looks at the clock; returns true if a window began or ended.
    fn look(&mut self, wall: u64) -> bool {
        self.wall = wall;
        let active: Vec<_> = self.schedules.iter().map(|s| s.active(&self.zone, wall)).collect();
        let changed = active != self.active;
        self.active = active;
        changed
    }

    /// Returns a subscriber's plan as it is at present.
    pub fn plan(&self, name: &str, plan: Plan) -> Plan {
        if plan.schedule.is_none() && plan.quota.is_none() {
            return plan;
        }
        let schedule = plan.schedule.and_then(|i| Some((self.active.get(i)?, &self.schedules[i])));
        let window = schedule.and_then(|(active, s)| s.windows.get((*active)?));
        plan.during(window, self.used_up(name, plan))
    }

    fn used_up(&self, name: &str, plan: Plan) -> bool {
        let used = self.usage.get(name).map_or(0, |u| u.bytes);
        plan.quota.is_some_and(|q| used >= q.bytes)
    }

    /// Counts bytes of a subscriber with a quota.
    fn charge(&mut self, name: &str, quota: Quota, bytes: u64) {
        let begin = quota.per.around(&self.zone, self.wall).map_or(0, |[begin, _]| begin);
        if !self.usage.contains_key(name) {
            self.usage.insert(name.to_owned(), Usage { since: begin, bytes: 0 });
        }
        let Some(usage) = self.usage.get_mut(name) else { return };
        // A clock that runs backwards begins no period.
        if begin > usage.since {
            *usage = Usage { since: begin, bytes: 0 };
        }
        usage.bytes = usage.bytes.saturating_add(bytes);
    }

    /// Restores the use of quotas of an earlier run.
    pub fn restore(&mut self, usage: &BTreeMap<String, Usage>) {
        let valid = |(name, _): &(&String, &Usage)| is_plain(name) && name.chars().count() <= 64;
        let usage = usage.iter().filter(valid).take(MAX_USAGE);
        self.usage = usage.map(|(name, usage)| (name.clone(), *usage)).collect();
    }

    /// Returns the use of quotas in present periods, for storing it.
    pub fn usage(&self) -> BTreeMap<String, Usage> {
        let begin = |p: Period| p.around(&self.zone, self.wall).map_or(0, |[begin, _]| begin);
        let oldest = begin(Period::Month).min(begin(Period::Week));
        let present = self.usage.iter().filter(|(_, u)| u.since >= oldest);
        present.map(|(name, usage)| (name.clone(), *usage)).collect()
    }

    /// Returns the report of a subscriber's quota.
    pub fn quota(&self, name: &str, plan: &Plan) -> Option<QuotaReport> {
        let quota = plan.quota?;
        let used = self.usage.get(name).map_or(0, |u| u.bytes);
        let end = quota.per.around(&self.zone, self.wall).map(|[_, end]| end);
        Some(QuotaReport {
            quota_bytes: quota.bytes,
            used_bytes: used,
            remaining_bytes: quota.bytes.saturating_sub(used),
            until_unix_seconds: end,
            seconds_left: end.map(|end| end.saturating_sub(self.wall)),
        })
    }

    /// Returns the report of one schedule.
    pub fn report(&self, i: usize) -> Option<ScheduleReport> {
        let schedule = self.schedules.get(i)?;
        let next = schedule.next(&self.zone, self.wall);
        Some(ScheduleReport {
            of: schedule.name.clone(),
            active: self.active[i].map(|w| schedule.windows[w].text()),
            next: next.map(|t| self.zone.text(t)),
            next_unix_seconds: next,
            zone: self.zone.name().to_owned(),
        })
    }

    /// Returns the reports of all schedules.
    pub fn reports(&self) -> Vec<ScheduleReport> {
        (0..self.schedules.len()).filter_map(|i| self.report(i)).collect()
    }
}

impl Governor {
    /// Applies schedules and quotas at a time of the system's clock, s since 1970.
    pub fn keep_time(&mut self, now: Time, wall: u64) {
        if wall == self.calendar.wall {
            return;
        }
        self.calendar.look(wall);
        let mut changed = Vec::new();
        let mut used_up = Vec::new();
        let mut weighed = false;
        for m in &mut self.members {
            let name = &m.subscriber.name;
            let mut why = LimitReason::Schedule;
            if let Some(quota) = m.subscriber.plan.quota {
                let before = self.calendar.used_up(name, m.subscriber.plan);
                let totals = m.directions.iter_mut().map(|state| {
                    let last = core::mem::replace(&mut state.charged, state.meter.bytes);
                    state.meter.bytes.saturating_sub(last)
                });
                let bytes = totals.fold(0, u64::saturating_add);
                self.calendar.charge(name, quota, bytes);
                let after = self.calendar.used_up(name, m.subscriber.plan);
                if before != after {
                    why = LimitReason::Quota;
                }
                if after && !before {
                    used_up.push(name.clone());
                }
            }
            let plan = self.calendar.plan(name, m.subscriber.plan);
            if plan == m.subscriber.plan {
                continue;
            }
            weighed |= plan.weight != m.subscriber.plan.weight;
            m.subscriber.plan = plan;
            for state in &mut m.directions {
                state.why = Some(why.clone());
            }
            changed.extend([Governor::here(m, 0), Governor::here(m, 1)]);
        }
        for name in used_up {
            self.journal
                .note(now, Level::Info, "quota.used", || format!("\"{name}\" has used its quota"));
        }
        if changed.is_empty() {
            return;
        }
        if weighed {
            // Classes that share a limit have their turns by weight.
            self.layout_changed = true;
            self.note_raised(now, Turns::of(self.members.iter().map(|m| m.subscriber.plan.weight)));
        }
        self.seen(now, &changed);
        self.refresh(now);
        let subscribers = changed.len() / 2;
        self.journal.note(now, Level::Info, "schedule.changed", || {
            format!("other rates or weights for {subscribers} subscribers")
        });
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_linux::Direction;
    use fairmesh_units::{BitRate, Span};

    use super::*;
    use crate::gateway::governor::{ClassIds, Limiter, Override};

    const TEXT: &str = r#"
        time_zone = "CET-1CEST,M3.5.0,M10.5.0/3"
        mesh = { interface = "bat0" }
        wired = { interface = "eth0" }
        control = { use = "fifo" }
        [plan.basic]
        down = "20 Mbit/s"
        [[plan.basic.during]]
        days = ["sat", "sun"]
        from = "18:00"
        to = "23:00"
        down = "5 Mbit/s"
        up = "1 Mbit/s"
        [[subscriber]]
        name = "a"
        prefixes = ["10.0.0.1"]
        plan = "basic"
        [[subscriber]]
        name = "b"
        prefixes = ["10.0.0.2"]
        plan = "basic"
        [[subscriber.during]]
        from = "00:00"
        to = "00:00"
        up = "2 Mbit/s"
    "#;
    /// Saturday 2026-03-28, 01:00 in Germany; the clock changes in the next night.
    const SATURDAY: u64 = 1_774_656_000;

    #[test]
    fn an_override_goes_before_a_schedule_and_a_schedule_before_the_plan() {
        let config = Config::parse("gateway.toml", TEXT).unwrap();
        let mut g = Governor::new(&config, ClassIds::default(), Time::ZERO).unwrap();
        let limit = |g: &Governor, name: &str, d: usize| {
            let (rate, by) = g.meant(g.member(name).unwrap(), d);
            (rate.map(|r| r.0 / 1_000_000), by)
        };
        let at = |hours: u64| (Time::ZERO + Span::from_secs(hours * 3600), SATURDAY + hours * 3600);
        let keep = |g: &mut Governor, hours: u64| {
            let (now, wall) = at(hours);
            g.keep_time(now, wall);
        };
        assert_eq!(limit(&g, "a", 0), (Some(20), Limiter::Plan), "before the first look");
        for (hours, down, up) in
            [(16, 20, None), (17, 5, Some(1)), (22, 20, None), (39, 20, None), (40, 5, Some(1))]
        {
            keep(&mut g, hours);
            assert_eq!(limit(&g, "a", 0).0, Some(down), "{hours}");
            assert_eq!(limit(&g, "a", 1).0, up, "{hours}");
            assert_eq!(limit(&g, "b", 0).0, Some(20), "its own schedule");
            assert_eq!(limit(&g, "b", 1).0, Some(2));
        }
        let report = g.calendar.reports().remove(0);
        assert_eq!(
            report.text(),
            "schedule of plan.basic: 18:00-23:00; next change sun 23:00 (CET-1CEST,M3.5.0,M10.5.0/3)"
        );
        let change = g.member("a").unwrap().directions[0].change.clone().unwrap();
        assert_eq!((change.to, change.why), (Some(BitRate(5_000_000)), LimitReason::Schedule));
        // A reload within a window changes nothing.
        g.reload(&config, at(40).0).unwrap();
        assert_eq!(limit(&g, "a", 0).0, Some(5));
        let value = Override { rate: None, until: at(41).0 };
        g.set_override(at(40).0, "a", &[Direction::Down], Some(value)).unwrap();
        assert_eq!(limit(&g, "a", 0), (None, Limiter::Override));
        // A clock that loses its time lifts the windows.
        g.keep_time(at(42).0, 5);
        assert_eq!(limit(&g, "a", 0), (Some(20), Limiter::Plan));
    }

    #[test]
    fn a_window_changes_weights_and_turns_and_a_reload_keeps_them() {
        let fair = "fair_down = \"1 Mbit/s\"\nfair_up = \"1 Mbit/s\"";
        let text = TEXT
            .replace("\"fifo\"", "\"static-fq\"")
            .replace("down = \"20 Mbit/s\"", &format!("{fair}\nweight = 2"))
            .replace("down = \"5 Mbit/s\"", "weight = 0.5\ndown = \"5 Mbit/s\"");
        let config = Config::parse("gateway.toml", &text).unwrap();
        let mut g = Governor::new(&config, ClassIds::default(), Time::ZERO).unwrap();
        let at = |hours: u64| Time::ZERO + Span::from_secs(hours * 3600);
        let state = |g: &Governor| {
            let of = |name: &str| g.member(name).unwrap().subscriber.plan.weight;
            let layout = g.layout().subscribers;
            let turn = |name: &str| {
                let class = g.member(name).unwrap().class;
                layout.iter().find(|s| s.class == class).unwrap().turn
            };
            ([of("a"), of("b")], turn("b") / turn("a"))
        };
        let keep = |g: &mut Governor, hours: u64| {
            g.laid_out();
            g.keep_time(at(hours), SATURDAY + hours * 3600);
            g.layout_changed()
        };
        assert!(!keep(&mut g, 16));
        assert_eq!(state(&g), ([2.0, 2.0], 1));
        assert!(keep(&mut g, 17), "the kernel's classes have the turns of the window");
        assert_eq!(state(&g), ([0.5, 2.0], 4), "b has a schedule of its own");
        g.reload(&config, at(17)).unwrap();
        assert_eq!(state(&g), ([0.5, 2.0], 4));
        assert!(!keep(&mut g, 18), "nothing changed");
        assert!(keep(&mut g, 22));
        assert_eq!(state(&g), ([2.0, 2.0], 1));
        // A ratio beyond the range of turns is reported when its window begins.
        let wide = text.replace("weight = 0.5", "weight = 0.01");
        let mut g = Governor::new(
            &Config::parse("gateway.toml", &wide).unwrap(),
            ClassIds::default(),
            Time::ZERO,
        )
        .unwrap();
        keep(&mut g, 16);
        assert_eq!(g.journal.total("weights.raised"), 0);
        keep(&mut g, 17);
        assert_eq!(g.journal.total("weights.raised"), 1);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
        /// The first matching window goes before subscriber and plan, for each key that it has.
        #[test]
        fn the_first_matching_window_goes_before_subscriber_and_plan(
            plan in proptest::option::of(1_u32..400),
            own in proptest::option::of(1_u32..400),
            windows in proptest::collection::vec((0_u64..24, 1_u64..24, proptest::option::of(1_u32..400), proptest::option::of(1_u64..50)), 1..4),
            hour in 0_u64..48,
        ) {
            let weight = |w: &Option<u32>| w.map_or(String::new(), |w| format!("weight = {}\n", f64::from(w) / 4.0));
            let mut text = format!(
                "time_zone = \"UTC0\"\nmesh = {{ interface = \"bat0\" }}\nwired = {{ interface = \"eth0\" }}\n\
                 control = {{ use = \"fifo\" }}\n[plan.p]\n{}[[subscriber]]\nname = \"a\"\nprefixes = [\"10.0.0.1\"]\n\
                 plan = \"p\"\n{}",
                weight(&plan), weight(&own),
            );
            for (from, hours, w, down) in &windows {
                let to = (from + hours) % 24;
                // A window without a weight has a rate at least.
                let down = down.or(w.is_none().then_some(7));
                let down = down.map_or(String::new(), |d| format!("down = \"{d} Mbit/s\"\n"));
                text += &format!(
                    "[[subscriber.during]]\nfrom = \"{from:02}:00\"\nto = \"{to:02}:00\"\n{}{down}", weight(w)
                );
            }
            let config = Config::parse("gateway.toml", &text).unwrap();
            let mut g = Governor::new(&config, ClassIds::default(), Time::ZERO).unwrap();
            let midnight = SATURDAY - SATURDAY % 86_400;
            g.keep_time(Time::ZERO + Span::from_secs(1), midnight + hour * 3600);
            let inside = |(from, hours, ..): &&(u64, u64, Option<u32>, Option<u64>)| (hour + 24 - from) % 24 < *hours;
            let found = windows.iter().find(inside);
            let regular = own.or(plan).map_or(1.0, |w| f64::from(w) / 4.0);
            let expected = found.and_then(|w| w.2).map_or(regular, |w| f64::from(w) / 4.0);
            let ceiling = found.and_then(|w| w.3.or(w.2.is_none().then_some(7))).map(|d| BitRate(d * 1_000_000));
            let now = g.member("a").unwrap().subscriber.plan;
            assert_eq!((now.weight, now.down.ceiling), (expected, ceiling));
        }
    }

    #[test]
    fn a_used_quota_slows_until_its_period_ends_and_survives_a_restart() {
        let quota = "down = \"20 Mbit/s\"\nquota = { bytes = \"10 MB\", per = \"day\", down = \"1 Mbit/s\" }";
        let text = TEXT.replace("down = \"20 Mbit/s\"", quota);
        let config = Config::parse("gateway.toml", &text).unwrap();
        let start = || Governor::new(&config, ClassIds::default(), Time::ZERO).unwrap();
        let mut g = start();
        let after = |g: &mut Governor, hours: u64, bytes: u64| {
            for state in &mut g.members[0].directions {
                state.meter.bytes += bytes;
            }
            g.keep_time(Time::ZERO + Span::from_secs(hours * 3600), SATURDAY + hours * 3600);
            let m = &g.members()[0];
            (
                g.meant(m, 0).0.unwrap().0 / 1_000_000,
                g.calendar.quota("a", &m.subscriber.plan).unwrap().remaining_bytes,
            )
        };
        assert_eq!(g.members()[0].subscriber.name, "a");
        assert_eq!(after(&mut g, 1, 4_000_000), (20, 2_000_000));
        assert_eq!(after(&mut g, 2, 2_000_000), (1, 0));
        let change = g.members()[0].directions[0].change.clone().unwrap();
        assert_eq!(change.why, LimitReason::Quota);
        assert_eq!(after(&mut g, 17, 0), (1, 0), "a window is no more than the quota's rate");
        let kept = g.calendar.usage();
        // The next run, and a reload in it.
        let mut g = start();
        g.calendar.restore(&kept);
        assert_eq!(after(&mut g, 18, 0), (1, 0));
        g.reload(&config, Time::ZERO + Span::from_secs(18 * 3600)).unwrap();
        assert_eq!(after(&mut g, 19, 500_000), (1, 0));
        assert_eq!(after(&mut g, 22, 0).0, 1, "22:00 UTC is 23:00 in Germany");
        assert_eq!(after(&mut g, 23, 1_000_000), (20, 8_000_000), "the next day");
        // A clock that is not set, or runs backwards, neither ends nor begins a period.
        g.keep_time(Time::ZERO, 5);
        g.keep_time(Time::ZERO, SATURDAY);
        assert_eq!(after(&mut g, 24, 3_999_999), (20, 2));
    }
}
