//! Reports of `status` and `why` as text.

use std::fmt::Write;

use super::{BoundReport, DirectionReport, LevelReport, Status, SubscriberReport};
use crate::gateway::history::HistoryReport;
use crate::gateway::peers::PeersReport;
use crate::gateway::signs::{ProbesReport, SignsReport};

/// Most neighbours in a line.
const MAX_LISTED: usize = 4;
/// Most addresses of a subscriber in `status`; `why` shows all.
const MAX_ADDRESSES: usize = 2;

impl LevelReport {
    /// Returns the progress as text.
    pub fn text(&self) -> String {
        let bound = self.bound.as_ref().map_or(String::new(), |b| format!("; {b}"));
        let state = match self.state.as_str() {
            "learning" => "learning for",
            _ => "found",
        };
        let ago = if self.state == "learning" { "" } else { " ago" };
        let objective =
            self.objective.as_ref().map_or(String::new(), |o| format!("\nobjective: {o}"));
        format!("level: {state} {}{ago}{bound}{objective}", age(self.seconds))
    }
}

impl BoundReport {
    /// Returns one line of text.
    pub fn text(&self) -> String {
        let link = |(name, capacity): &(String, u64)| {
            let rate = self.measured.iter().find(|m| m.0 == *name).map(|m| short(Some(m.1)));
            let rate = rate.map_or(String::new(), |rate| format!(" at a measured {rate}"));
            format!("{name} {}{rate}", short(Some(*capacity)))
        };
        let mut links: Vec<String> = self.links.iter().take(MAX_LISTED).map(link).collect();
        if self.links.len() > MAX_LISTED {
            links.push("…".to_owned());
        }
        let carried = match (self.carried_bits_per_second, self.unconfirmed) {
            (Some(most), _) => {
                let most = short(Some(most));
                format!(
                    "; traffic was at most {most} with subscribers at their limits: `rate` is too high"
                )
            }
            (None, Some((looks, most))) => {
                let (most, s) = (short(Some(most)), if looks == 1 { "" } else { "s" });
                format!(
                    "; not confirmed: traffic was at most {most} in {looks} sample{s} with subscribers at their \
                     limits; far homes may starve if `rate` is too high"
                )
            }
            (None, None) => String::new(),
        };
        format!(
            "bound by [[neighbour]]: {} for all subscribers together ({}), {:.0} % used{carried}",
            short(Some(self.bound_bits_per_second)),
            links.join(", "),
            100.0 * self.used_ratio
        )
    }
}

/// Returns a rate as text: three digits are enough.
pub fn short(rate: Option<u64>) -> String {
    let Some(r) = rate else { return "-".to_owned() };
    let (value, unit) = match r {
        0..1_000 => return format!("{r} bit/s"),
        1_000..1_000_000 => (r as f64 / 1e3, "kbit/s"),
        1_000_000..1_000_000_000 => (r as f64 / 1e6, "Mbit/s"),
        _ => (r as f64 / 1e9, "Gbit/s"),
    };
    let digits = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn limit(rate: Option<u64>) -> String {
    if rate.is_none() { "unlimited".to_owned() } else { short(rate) }
}

/// Returns the text of `status`.
pub fn status_text(s: &Status) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out += &text;
        out.push('\n');
    };
    let state = match &s.released_because {
        None => s.phase.clone(),
        Some(why) if why == "observe" => "running, no limits are set (mode = \"observe\")".into(),
        Some(why) => format!("{}, no limits are set ({why})", s.phase),
    };
    let down = match s.interfaces_down.as_slice() {
        [] => String::new(),
        names => format!("; DOWN, no traffic: {}", names.join(", ")),
    };
    line(format!("{} for {}: {state}{down}", s.control, age(s.uptime_seconds)));
    for fault in &s.faults {
        line(format!("FAULT: {fault}"));
    }
    for doubt in &s.doubts {
        line(format!("NOT VERIFIED: {doubt}"));
    }
    for source in &s.sources {
        match &source.failed {
            Some(e) => line(format!("source {} FAILED: {e}", source.name)),
            None => line(format!("source {}: {}", source.name, source.counts())),
        }
    }
    if !s.left_out.is_empty() {
        line(format!("homes left out: {}", s.left_out));
    }
    s.schedules.iter().for_each(|schedule| line(schedule.text()));
    if let Some(bound) = &s.neighbours {
        line(bound.text());
    }
    s.level.iter().for_each(|level| line(level.text()));
    if let Some(leaf) = &s.leaf {
        line(format!("queue in every class: {leaf}"));
    }
    if let Some([down, up]) = s.classifiers {
        line(format!("packets are classified by: {down} (down), {up} (up)"));
    }
    if s.aggregate_bits_per_second.is_some() {
        let (all, part) = (short(s.aggregate_bits_per_second), s.aggregate_down_ratio * 100.0);
        line(format!("all subscribers together: {all}, {part:.0} % of it downstream"));
    }
    if let Some(peers) = &s.peers {
        peers_text(peers).into_iter().for_each(&mut line);
    }
    if let Some(signs) = &s.signs {
        line(signs_text(signs));
        signs.probes.iter().for_each(|p| line(probes_text(p)));
    }
    if let Some(history) = &s.history {
        line(history_text(history));
    }
    let jain = |d: usize| s.fairness_ratio[d].map_or("-".into(), |j: f64| format!("{j:.3}"));
    line(format!("Jain's index: down {}, up {}", jain(0), jain(1)));
    line(String::new());
    let name = s.subscribers.iter().map(|s| s.name.chars().count()).max().unwrap_or(0).max(10);
    // A round trip, if known, has a column of its own.
    let measured = s.subscribers.iter().any(|sub| sub.round_trip_seconds().is_some());
    let trip = |text: &str| if measured { format!("{text:>9}  ") } else { String::new() };
    line(format!(
        "{:name$}  {:>13} {:>13}  {:>13} {:>13}  {}limited by; addresses",
        "subscriber",
        "down",
        "limit",
        "up",
        "limit",
        trip("mesh RTT")
    ));
    for sub in &s.subscribers {
        let [down, up] = sub.directions.as_slice() else { continue };
        let by = |w: &DirectionReport| {
            let left =
                w.override_seconds_left.map_or(String::new(), |s| format!(", {} left", age(s)));
            let not = w.not_in_force_because.as_ref().map_or(String::new(), |why| {
                format!(" ({why}: {})", limit(w.meant_bits_per_second))
            });
            format!("{}{left}{not}", w.limited_by)
        };
        let by = match (by(down), by(up)) {
            (down, up) if down == up => down,
            (down, up) => format!("down: {down}; up: {up}"),
        };
        // A name that is not an address is less informative than the subscriber's address.
        let addresses = match sub.addresses.as_slice() {
            [] => String::new(),
            [one] if *one == sub.name => String::new(),
            some => {
                let more = if some.len() > MAX_ADDRESSES { ", …" } else { "" };
                format!("; {}{more}", some[..some.len().min(MAX_ADDRESSES)].join(", "))
            }
        };
        let quota = sub.quota.as_ref().map_or(String::new(), |q| {
            let part = 100.0 * q.used_bytes as f64 / q.quota_bytes.max(1) as f64;
            let again = q.again().map_or(String::new(), |again| format!(", again in {again}"));
            format!("; {part:.0} % of the quota used{again}")
        });
        line(format!(
            "{:name$}  {:>13} {:>13}  {:>13} {:>13}  {}{by}{quota}{addresses}",
            sub.name,
            short(down.rate_bits_per_second),
            short(down.limit_bits_per_second),
            short(up.rate_bits_per_second),
            short(up.limit_bits_per_second),
            trip(&sub.round_trip_seconds().map_or("-".into(), |s| format!("{:.0} ms", 1e3 * s))),
        ));
    }
    if !s.recent.is_empty() {
        line(String::new());
        for event in s.recent.iter().rev().take(10).rev() {
            line(event.clone());
        }
    }
    out
}

/// Returns the state of the TCP header reader in a line.
fn signs_text(s: &SignsReport) -> String {
    let problem = s.problem.as_ref().map_or(String::new(), |p| format!(": {p}"));
    let read = match s.state.as_str() {
        "reading" => {
            format!(
                ": {} connections, {} packets, {} of them lost",
                s.connections, s.packets, s.lost
            )
        }
        _ => String::new(),
    };
    format!("TCP headers: {}{read}{problem}", s.state)
}

/// Returns the state of the echo probes in a line.
fn probes_text(p: &ProbesReport) -> String {
    let unresponsive = match p.silent {
        0 => String::new(),
        1 => ", 1 home does not respond".to_owned(),
        n => format!(", {n} homes do not respond"),
    };
    let problem = p.problem.as_ref().map_or(String::new(), |p| format!("; {p}"));
    format!("echo probes: {} sent, {} answered{unresponsive}{problem}", p.sent, p.answered)
}

/// Returns the state of the history in a line.
fn history_text(h: &HistoryReport) -> String {
    let (folder, mib) = (h.folder.display(), |bytes: u64| bytes as f64 / f64::from(1 << 20));
    let lost = match h.lost {
        0 => String::new(),
        n => format!(", {n} minutes lost"),
    };
    let size = format!("{:.1} MiB of {:.1} MiB", mib(h.bytes), mib(h.size));
    match &h.problem {
        None => format!("history: {size} in {folder}{lost}"),
        Some(problem) => format!("history NOT WRITTEN: {folder}: {problem}{lost}"),
    }
}

/// Returns the other gateways, one line each.
fn peers_text(peers: &PeersReport) -> Vec<String> {
    let mut lines = vec![format!("gateway {}: governed {}", peers.number, peers.governed())];
    lines.extend(
        peers
            .problem
            .iter()
            .map(|p| format!("  messages of other gateways cannot be received: {p}")),
    );
    for p in &peers.peers {
        let number = p.number.map_or(String::new(), |n| format!("gateway {n} at "));
        let last_message =
            p.heard_seconds_ago.map_or(String::new(), |s| format!(", last message {} ago", age(s)));
        let problem = p.problem.as_ref().map_or(String::new(), |p| format!("; {p}"));
        lines.push(format!("  {number}{}: {}{last_message}{problem}", p.address, p.state));
    }
    lines
}

/// Returns the text of `why`.
pub fn why_text(s: &SubscriberReport) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} (class {}, weight {}): {}",
        s.name,
        s.class,
        s.weight,
        s.addresses.join(", ")
    );
    if let Some(governed) = &s.governed {
        let _ = writeln!(out, "governed {governed}");
    }
    if let Some(quota) = &s.quota {
        let _ = writeln!(out, "{}", quota.text());
    }
    if let Some(schedule) = &s.schedule {
        let _ = writeln!(out, "{}", schedule.text());
    }
    if let Some(level) = &s.level {
        let _ = writeln!(out, "{}", level.text());
    }
    if let Some(bound) = &s.bound {
        let _ = writeln!(out, "{}", bound.text());
    }
    for w in &s.directions {
        let plan = match (w.ceiling_bits_per_second, w.guarantee_bits_per_second) {
            (None, None) => "no ceiling, no guarantee".to_owned(),
            (c, g) => format!("at most {}, at least {}", short(c), short(g)),
        };
        let _ = writeln!(
            out,
            "{:4} now {}, limit {}, limited by {}; plan: {plan}",
            w.direction,
            short(w.rate_bits_per_second),
            limit(w.limit_bits_per_second),
            w.limited_by
        );
        if let Some(why) = &w.not_in_force_because {
            let meant = limit(w.meant_bits_per_second);
            let _ = writeln!(out, "     not in force ({why}): would be {meant}");
        }
        if let Some(rate) = w.guaranteed_bits_per_second {
            let _ = writeln!(out, "     guaranteed at present: {}", short(Some(rate)));
        }
        if w.floods {
            let text =
                "a flood: its offered load stays above its limit and takes airtime from others";
            let _ = writeln!(out, "     {text}");
        }
        if let Some(s) = &w.signs {
            let awaited = match (s.awaited_bytes, s.tcp_ratio) {
                (Some(0), _) => "all data is acknowledged".to_owned(),
                (Some(bytes), _) => format!("{bytes} bytes are unacknowledged"),
                (None, Some(part)) if part < 0.9 => {
                    format!("unknown, {:.0} % of the traffic is TCP", 100.0 * part)
                }
                (None, _) => "unknown".to_owned(),
            };
            let _ = writeln!(out, "     TCP: {awaited}; {} retransmitted segments", s.repeated);
            if let Some(text) = s.round_trip_text() {
                let _ = writeln!(out, "     {text}");
            }
        }
        if let Some(left) = w.override_seconds_left {
            let _ = writeln!(out, "     the override ends in {}", age(left));
        }
        if let Some(c) = &w.last_change {
            let (from, to) = (limit(c.from_bits_per_second), limit(c.to_bits_per_second));
            let _ = writeln!(
                out,
                "     {} ago from {from} to {to}: {} [{}]",
                age(c.age_seconds),
                c.reason,
                c.code
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::report::SCHEMA;
    use crate::gateway::sources::{Omissions, SourceReport};

    fn direction_report(direction: &str, by: &str, left: Option<f64>) -> DirectionReport {
        DirectionReport {
            direction: direction.to_owned(),
            rate_bits_per_second: Some(1_000_000),
            limit_bits_per_second: Some(2_000_000),
            meant_bits_per_second: Some(2_000_000),
            limited_by: by.to_owned(),
            not_in_force_because: None,
            ceiling_bits_per_second: None,
            guarantee_bits_per_second: None,
            guaranteed_bits_per_second: None,
            override_seconds_left: left,
            bytes: 0,
            drops: 0,
            backlog_bytes: 0,
            floods: by == "control",
            signs: None,
            last_change: None,
        }
    }

    #[test]
    fn status_shows_the_end_of_an_override_and_the_limit_of_each_direction() {
        let one = |name: &str, down, up| SubscriberReport {
            name: name.to_owned(),
            class: 1,
            discovered: false,
            weight: 1.0,
            addresses: vec!["10.1.0.0/24".into(), "10.2.0.0/24".into(), "fd00::/64".into()],
            governed: None,
            bound: None,
            level: None,
            schedule: None,
            quota: None,
            directions: vec![down, up],
        };
        let history = HistoryReport {
            folder: "/var/lib/fairmesh/history".into(),
            bytes: 7 << 20,
            size: 32 << 20,
            ..HistoryReport::default()
        };
        let status = Status {
            schema: SCHEMA,
            version: String::new(),
            mode: "apply".into(),
            control: "pfrc".into(),
            phase: "running".into(),
            faults: Vec::new(),
            doubts: Vec::new(),
            released_because: None,
            leaf: None,
            classifiers: None,
            uptime_seconds: 5.0,
            aggregate_bits_per_second: None,
            aggregate_down_ratio: 0.5,
            aggregate_change: None,
            peers: None,
            signs: None,
            history: Some(history),
            interfaces_down: vec!["mesh0".into()],
            sources: vec![SourceReport {
                name: "babel 127.0.0.1:33123".into(),
                failed: Some("no response within 5 s".into()),
                ..SourceReport::default()
            }],
            schedules: Vec::new(),
            left_out: Omissions::default(),
            level: None,
            neighbours: Some(BoundReport {
                links: vec![("roof".into(), 20_000_000)],
                bound_bits_per_second: 20_000_000,
                used_ratio: 0.93,
                carried_bits_per_second: Some(6_100_000),
                unconfirmed: None,
                measured: vec![],
            }),
            fairness_ratio: [None, None],
            subscribers: vec![
                one(
                    "mill",
                    direction_report("down", "override", Some(3600.0)),
                    direction_report("up", "plan", None),
                ),
                one(
                    "roof",
                    direction_report("down", "control", None),
                    direction_report("up", "control", None),
                ),
            ],
            events: vec![],
            recent: vec![],
        };
        let text = status_text(&status);
        let line = |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap();
        let addresses = "; 10.1.0.0/24, 10.2.0.0/24, …";
        let mill = format!("down: override, 60 min left; up: plan{addresses}");
        assert!(line("mill").ends_with(&mill), "{text}");
        assert!(line("roof").ends_with(&format!("  control{addresses}")), "{text}");
        assert!(line("pfrc").ends_with("running; DOWN, no traffic: mesh0"), "{text}");
        let failed = "source babel 127.0.0.1:33123 FAILED: no response within 5 s";
        assert_eq!(line("source"), failed);
        let bound = "bound by [[neighbour]]: 20.0 Mbit/s for all subscribers together (roof 20.0 Mbit/s), 93 % used; traffic was at most 6.10 Mbit/s \
                     with subscribers at their limits: `rate` is too high";
        assert_eq!(line("bound"), bound);
        assert_eq!(line("history"), "history: 7.0 MiB of 32.0 MiB in /var/lib/fairmesh/history");
        let full =
            HistoryReport { problem: Some("No space".into()), lost: 3, ..HistoryReport::default() };
        assert_eq!(history_text(&full), "history NOT WRITTEN: : No space, 3 minutes lost");
        let mut early = status.neighbours.clone().unwrap();
        (early.carried_bits_per_second, early.unconfirmed) = (None, Some((1, 900_000)));
        let text = early.text();
        assert!(
            text.contains("not confirmed: traffic was at most 900 kbit/s in 1 sample with"),
            "{text}"
        );
        early.measured = vec![("roof".into(), 54_000_000)];
        assert!(
            early.text().contains("(roof 20.0 Mbit/s at a measured 54.0 Mbit/s)"),
            "{}",
            early.text()
        );
    }
}
