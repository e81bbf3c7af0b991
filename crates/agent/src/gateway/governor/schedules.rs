//! Schedules of plans: active windows by the system's clock.

use fairmesh_units::Time;

use super::{Governor, Why};
use crate::gateway::config::{Config, Plan, Schedule, Zone};
use crate::gateway::journal::Level;

/// Schedules with their active windows.
#[derive(Clone, Default, Debug)]
pub(crate) struct Calendar {
    schedules: Vec<Schedule>,
    zone: Zone,
    /// Active window of each schedule.
    active: Vec<Option<usize>>,
    /// System's clock at the last look, s since 1970.
    wall: u64,
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
        Calendar { schedules, zone, active, wall: 0 }
    }

    /// Takes over a changed configuration at the last known time.
    pub fn reload(&mut self, config: &Config) {
        let wall = self.wall;
        *self = Calendar::new(config);
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

    /// Returns a plan as it is at present.
    pub fn plan(&self, plan: Plan) -> Plan {
        let Some(i) = plan.schedule else { return plan };
        let window = self.active.get(i).copied().flatten();
        plan.during(window.and_then(|w| self.schedules[i].windows.get(w)))
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
    /// Applies the schedules at a time of the system's clock, s since 1970.
    pub fn keep_time(&mut self, now: Time, wall: u64) {
        if wall == self.calendar.wall || !self.calendar.look(wall) {
            return;
        }
        let mut changed = Vec::new();
        for m in &mut self.members {
            let plan = self.calendar.plan(m.subscriber.plan);
            if plan == m.subscriber.plan {
                continue;
            }
            m.subscriber.plan = plan;
            for state in &mut m.directions {
                state.why = Some(Why::Schedule);
            }
            changed.extend([Governor::here(m, 0), Governor::here(m, 1)]);
        }
        if changed.is_empty() {
            return;
        }
        self.seen(now, &changed);
        self.refresh(now);
        let subscribers = changed.len() / 2;
        self.journal.note(now, Level::Info, "schedule.changed", || {
            format!("other rates for {subscribers} subscribers")
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
        assert_eq!((change.to, change.why), (Some(BitRate(5_000_000)), Why::Schedule));
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
}
