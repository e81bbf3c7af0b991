//! States of a station over time.
//!
//! These are the intervals in which it senses energy, waits for an EIFS or a NAV, or counts down,
//! and the values of its queue.

use fairmesh_engine::observe::{Backoff, NodeState};
use fairmesh_scenario::Scenario;
use fairmesh_units::{FlowId, Time};

use super::perfetto::{Track, Writer};

/// Intervals of which the end is an estimate until it has passed.
#[derive(Default)]
struct Intervals {
    list: Vec<(Time, Time)>,
    open: Option<(Time, Time)>,
}

impl Intervals {
    /// Records at `now` that a condition holds until `end`.
    ///
    /// If `end` is in the past, the condition does not hold.
    fn note(&mut self, now: Time, end: Time) {
        match &mut self.open {
            // The end of a condition that holds may move either way.
            Some((_, until)) if now < *until => *until = end.max(now),
            _ => {
                self.close(now);
                if end > now {
                    self.open = Some((now, end));
                }
            }
        }
    }

    fn close(&mut self, now: Time) {
        if let Some((start, end)) = self.open.take() {
            let end = end.min(now);
            match self.list.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ if end > start => self.list.push((start, end)),
                _ => {}
            }
        }
    }
}

/// A countdown of a backoff.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Countdown {
    start: Time,
    end: Time,
    slots: u32,
    window: u32,
}

/// Countdowns of a station.
#[derive(Default)]
struct Countdowns {
    list: Vec<Countdown>,
    pending: Option<Countdown>,
}

impl Countdowns {
    fn note(&mut self, now: Time, backoff: Option<Backoff>) {
        let next = backoff.filter(|b| b.until > now).map(|b| Countdown {
            start: b.from,
            end: b.until,
            slots: b.slots,
            window: b.window,
        });
        match (self.pending, next) {
            // The countdown continues: counted slots move its start but not its end.
            (Some(old), Some(new)) if new.end == old.end => {}
            (_, new) => {
                self.close(now);
                self.pending = new;
            }
        }
    }

    fn close(&mut self, now: Time) {
        if let Some(mut countdown) = self.pending.take()
            && countdown.start < now
        {
            countdown.end = countdown.end.min(now);
            if countdown.end > countdown.start {
                self.list.push(countdown);
            }
        }
    }
}

/// Values at the instants at which they changed.
type Values = Vec<(Time, i64)>;

fn change(values: &mut Values, now: Time, value: i64) {
    if values.last().is_none_or(|last| last.1 != value) {
        values.push((now, value));
    }
}

#[derive(Default)]
struct Station {
    busy: Intervals,
    eifs: Intervals,
    nav: Intervals,
    backoff: Countdowns,
    queue: Values,
}

/// States of all stations in the window.
pub(super) struct States {
    stations: Vec<Station>,
    /// By flow: congestion window, in bytes.
    windows: Vec<Values>,
}

impl States {
    pub fn new(scenario: &Scenario) -> Self {
        let stations = scenario.wireless().map(|_| Station::default()).collect();
        States { stations, windows: vec![Vec::new(); scenario.flows().len()] }
    }

    /// Records the states at `now` and the congestion window of each flow.
    ///
    /// `states` is in the order of the wireless nodes.
    pub fn add(&mut self, now: Time, states: &[NodeState], window: impl Fn(FlowId) -> Option<u64>) {
        for (station, state) in self.stations.iter_mut().zip(states) {
            let mac = &state.mac;
            station.busy.note(now, mac.busy_until.max(mac.transmits_until));
            station.eifs.note(now, mac.eifs_until);
            station.nav.note(now, mac.nav_until);
            station.backoff.note(now, mac.backoff);
            change(&mut station.queue, now, i64::from(state.queue_packets));
        }
        for (flow, values) in self.windows.iter_mut().enumerate() {
            if let Some(bytes) = window(FlowId(flow as u32)) {
                change(values, now, bytes as i64);
            }
        }
    }

    /// Ends all intervals at the end of the window.
    pub fn close(&mut self, until: Time) {
        for station in &mut self.stations {
            station.busy.close(until);
            station.eifs.close(until);
            station.nav.close(until);
            station.backoff.close(until);
        }
    }

    /// Draws the tracks of the `index`th wireless node.
    ///
    /// Countdowns that began before the window are cut.
    pub fn draw(
        &self,
        writer: &mut Writer,
        group: Track,
        scenario: &Scenario,
        index: usize,
        (from, until): (Time, Time),
    ) {
        let station = &self.stations[index];
        let conditions = [
            ("medium", "busy", &station.busy),
            ("EIFS", "EIFS", &station.eifs),
            ("NAV", "NAV", &station.nav),
        ];
        for (track, title, intervals) in conditions {
            if !intervals.list.is_empty() {
                let track = writer.track(track, Some(group));
                for &span in &intervals.list {
                    writer.slice(track, span, title, Vec::new(), Vec::new());
                }
            }
        }
        if !station.backoff.list.is_empty() {
            let track = writer.track("backoff", Some(group));
            for c in &station.backoff.list {
                let title = format!("{} of up to {} slots", c.slots, c.window);
                let span = (c.start.max(from), c.end.min(until));
                writer.slice(track, span, &title, Vec::new(), Vec::new());
            }
        }
        let queue = writer.counter("queue", "packets", group);
        for &(at, packets) in &station.queue {
            writer.value(queue, at, packets);
        }
        for (flow, values) in scenario.flows().iter().zip(&self.windows) {
            if flow.from.index() == index && !values.is_empty() {
                let name = format!("congestion window of {}", flow.name);
                let counter = writer.counter(&name, "bytes", group);
                for &(at, bytes) in values {
                    writer.value(counter, at, bytes);
                }
            }
        }
    }
}
