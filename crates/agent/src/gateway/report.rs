//! Reports of `status` and `why`, as data and as text.

use std::fmt::Write;

use fairmesh_linux::{Classifier, Shaper};
use fairmesh_units::Time;
use serde::{Deserialize, Serialize};

use crate::gateway::config::{Mode, Neighbour};
use crate::gateway::governor::{
    Change, Governor, Limiter, Member, Suspension, Why, direction_name, rates,
};
use crate::gateway::host::{Host, Phase};
use crate::gateway::peers::PeersReport;
use crate::gateway::signs::{DirectionSignsReport, ProbesReport, SignsReport};
use crate::gateway::sources::{Omissions, SourceReport};

/// Version of the `--json` format.
pub const SCHEMA: u32 = 1;

/// A change of a limit.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ChangeReport {
    /// Seconds ago.
    pub age_seconds: f64,
    /// Limit before, bit/s of IP packets; `None`: unlimited.
    pub from_bits_per_second: Option<u64>,
    /// Limit after, bit/s of IP packets; `None`: unlimited.
    pub to_bits_per_second: Option<u64>,
    /// Name of the reason.
    pub code: String,
    /// Text of the reason.
    pub reason: String,
}

/// A subscriber in one direction. Rates are of IP packets.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct DirectionReport {
    /// "down" or "up".
    pub direction: String,
    /// Rate at the last sample; `None`: unknown.
    pub rate_bits_per_second: Option<u64>,
    /// Limit in the kernel; `None`: unlimited.
    pub limit_bits_per_second: Option<u64>,
    /// Intended limit: in force, or in force once limits are set.
    pub meant_bits_per_second: Option<u64>,
    /// Origin of the intended limit: nothing, control, aggregate, plan, override.
    pub limited_by: String,
    /// Reason why the kernel has another limit than intended: observe, or a fault's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_in_force_because: Option<String>,
    /// The plan's ceiling.
    pub ceiling_bits_per_second: Option<u64>,
    /// The plan's guarantee.
    pub guarantee_bits_per_second: Option<u64>,
    /// Rate that the control guarantees at present, by the plan and its objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_bits_per_second: Option<u64>,
    /// Seconds until an override ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_seconds_left: Option<f64>,
    /// IP bytes since the daemon started.
    pub bytes: u64,
    /// Packets dropped since the daemon started.
    pub drops: u64,
    /// Bytes waiting in the queue.
    pub backlog_bytes: u64,
    /// True if the control has marked it as a flood: its offered load stays above its share.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub floods: bool,
    /// Data of TCP headers, if they are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs: Option<DirectionSignsReport>,
    /// Last change of the intended limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change: Option<ChangeReport>,
}

/// A subscriber.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SubscriberReport {
    /// Name.
    pub name: String,
    /// Class number.
    pub class: u16,
    /// True if it was discovered, false if it is in the configuration.
    pub discovered: bool,
    /// Weight.
    pub weight: f64,
    /// Addresses.
    pub addresses: Vec<String>,
    /// Gateway that decides, and its partners, if there are other gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governed: Option<String>,
    /// Bound by the links of `[[neighbour]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundReport>,
    /// Progress of the control's search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelReport>,
    /// Downstream and upstream.
    #[serde(rename = "ways")]
    pub directions: Vec<DirectionReport>,
}

/// Progress of a control's search for the level at which it holds subscribers.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct LevelReport {
    /// `learning` until the level was found for the first time, then `found`.
    pub state: String,
    /// Seconds in this state.
    pub seconds: f64,
    /// Bound of the level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// Objective between subscribers, and its price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
}

impl LevelReport {
    /// Returns the present progress; `None` for a control without a search.
    pub fn of(governor: &Governor, now: Time) -> Option<LevelReport> {
        let (progress, bound) = governor.progress()?;
        let state = if progress.learning { "learning" } else { "found" }.to_owned();
        let seconds = now.since(progress.since).as_secs_f64();
        Some(LevelReport { state, seconds, bound, objective: governor.objective() })
    }

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

/// State of the daemon.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Status {
    /// Version of this format.
    pub schema: u32,
    /// Version of the daemon.
    pub version: String,
    /// observe or apply.
    pub mode: String,
    /// Control with its variants.
    pub control: String,
    /// `running`, `degraded`, `safe` or `absent`.
    pub phase: String,
    /// Faults that make limits ineffective, or that delay an installation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Filters and rules of other programs that may change the class of packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Reason why no limit is in force, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_because: Option<String>,
    /// Queue in every class, as found on this kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<String>,
    /// Classifiers, downstream and upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classifiers: Option<[Classifier; 2]>,
    /// Time since the start, s.
    pub uptime_seconds: f64,
    /// Aggregate limit of the control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_bits_per_second: Option<u64>,
    /// Downstream's part of the aggregate limit.
    pub aggregate_down_ratio: f64,
    /// Last change of the aggregate limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_change: Option<ChangeReport>,
    /// The other gateways of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<PeersReport>,
    /// State of the TCP header reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs: Option<SignsReport>,
    /// Interfaces that are down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces_down: Vec<String>,
    /// Sources of subscribers at their last query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceReport>,
    /// Discovered homes that were left out after merging the sources.
    #[serde(default, skip_serializing_if = "Omissions::is_empty")]
    pub left_out: Omissions,
    /// Bound by the links of `[[neighbour]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<BoundReport>,
    /// Progress of the control's search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelReport>,
    /// Jain's index of the rates by weight, of active subscribers: down, up.
    pub fairness_ratio: [Option<f64>; 2],
    /// All subscribers.
    pub subscribers: Vec<SubscriberReport>,
    /// Events by name with their numbers.
    pub events: Vec<(String, u64)>,
    /// Last events.
    pub recent: Vec<String>,
}

/// Bound by the links of `[[neighbour]]` on the traffic that the control shares.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct BoundReport {
    /// Links: name and capacity in IP bit/s.
    pub links: Vec<(String, u64)>,
    /// Most that they carry together, IP bit/s.
    pub bound_bits_per_second: u64,
    /// Used part of the bound at the last sample.
    pub used_ratio: f64,
    /// Largest traffic while the control held subscribers back, if it contradicts the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_bits_per_second: Option<u64>,
    /// Samples with subscribers at their limits, and the largest traffic in one, bit/s.
    ///
    /// Present until the traffic confirms or contradicts the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<(u32, u64)>,
    /// Links with the rate of the driver's station dump: name and rate in bit/s.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<(String, u64)>,
}

impl BoundReport {
    /// Returns the present bound; `None` without `[[neighbour]]`.
    pub fn of(governor: &Governor) -> Option<Self> {
        let link = |n: &Neighbour| (n.name.clone(), n.capacity.0);
        let all = governor.links();
        let measured = all.iter().filter(|n| governor.is_measured(n));
        Some(BoundReport {
            links: governor.links().iter().map(link).collect(),
            bound_bits_per_second: governor.bound()?.0,
            used_ratio: governor.bound_used()?,
            carried_bits_per_second: governor.bound_contradicted_by().map(|r| r.0),
            measured: measured.map(|n| (n.name.clone(), n.rate.0)).collect(),
            unconfirmed: governor.bound_unconfirmed().map(|(looks, most)| (looks, most.0)),
        })
    }

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

/// Most neighbours in a line.
const MAX_LISTED: usize = 4;
/// Most addresses of a subscriber in `status`; `why` shows all.
const MAX_ADDRESSES: usize = 2;

fn change(governor: &Governor, now: Time, change: &Change) -> ChangeReport {
    let reason = match &change.why {
        Why::Start => "initial limit of the control".to_owned(),
        Why::Decision(reason) => governor.explain(reason),
        Why::Override(code) if *code == "override" => "an operator's override".to_owned(),
        Why::Override(_) => "end of the override".to_owned(),
        Why::Safety(code) => format!("because of {code}"),
        Why::Reload => "changed configuration".to_owned(),
        Why::Links => "changed rates of the links".to_owned(),
    };
    ChangeReport {
        age_seconds: now.since(change.at).as_secs_f64(),
        from_bits_per_second: change.from.map(|r| r.0),
        to_bits_per_second: change.to.map(|r| r.0),
        code: change.why.code().to_owned(),
        reason,
    }
}

/// Returns the report of one subscriber.
pub fn subscriber(governor: &Governor, now: Time, member: &Member) -> SubscriberReport {
    let s = &member.subscriber;
    let direction_report = |d: usize| {
        let state = &member.directions[d];
        let (meant, limiter) = governor.meant(member, d);
        let not = match (governor.mode(), governor.suspension()) {
            _ if meant == state.in_force => None,
            (Mode::Observe, _) => Some("observe".to_owned()),
            (_, Suspension::Fault(code)) => Some(code.to_owned()),
            _ => Some(state.meter.fault.map_or("not set yet", |f| f.code()).to_owned()),
        };
        let plan = rates(&s.plan, d);
        DirectionReport {
            direction: direction_name(d).to_owned(),
            rate_bits_per_second: state.meter.rate.map(|r| r.0),
            limit_bits_per_second: state.in_force.map(|r| r.0),
            meant_bits_per_second: meant.map(|r| r.0),
            limited_by: limiter.name().to_owned(),
            not_in_force_because: not,
            ceiling_bits_per_second: plan.ceiling.map(|r| r.0),
            guarantee_bits_per_second: plan.guarantee.map(|r| r.0),
            guaranteed_bits_per_second: governor.guaranteed(member, d).map(|r| r.0),
            override_seconds_left: state.overridden.map(|o| o.until.since(now).as_secs_f64()),
            bytes: state.meter.bytes,
            drops: state.meter.drops,
            backlog_bytes: state.meter.backlog,
            floods: governor.floods(member, d),
            signs: state.signs.report(now),
            last_change: match (&state.change, limiter) {
                (_, Limiter::Aggregate) => governor.aggregate().change.as_ref(),
                (own, _) => own.as_ref(),
            }
            .map(|c| change(governor, now, c)),
        }
    };
    let nets = s.prefixes.iter().map(ToString::to_string);
    SubscriberReport {
        name: s.name.clone(),
        class: member.class.0,
        discovered: member.seen.is_some(),
        weight: s.plan.weight,
        addresses: nets.chain(s.macs.iter().map(ToString::to_string)).collect(),
        governed: None,
        bound: None,
        level: None,
        directions: vec![direction_report(0), direction_report(1)],
    }
}

/// Returns Jain's index of the rates by weight, of all active subscribers.
pub fn fairness(governor: &Governor, d: usize) -> Option<f64> {
    let of = |m: &Member| Some((m.directions[d].meter.rate?, m.subscriber.plan.weight));
    let rates = governor.members().iter().filter_map(of);
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (rate, weight) in rates.filter(|r| r.0.0 > 0) {
        let rate = rate.0 as f64 / weight;
        (n, sum, squares) = (n + 1.0, sum + rate, squares + rate * rate);
    }
    (n > 0.0).then(|| sum * sum / (n * squares))
}

impl SubscriberReport {
    /// Returns the longer median round trip through the mesh, s; `None`: unknown.
    pub fn round_trip_seconds(&self) -> Option<f64> {
        let known = self.directions.iter().filter_map(|w| w.signs.as_ref()?.round_trip_seconds);
        known.reduce(f64::max)
    }
}

/// Returns the state of the daemon.
pub fn status<P: Shaper>(
    host: &Host<P>,
    now: Time,
    peers: Option<PeersReport>,
    signs: Option<SignsReport>,
) -> Status {
    let governor = &host.governor;
    let released = match (governor.mode(), host.phase(), governor.suspension()) {
        (_, Phase::Safe { cause, .. }, _) => Some(cause.to_owned()),
        (_, Phase::Absent { .. }, Suspension::Fault(code)) => Some(code.to_owned()),
        (_, Phase::Absent { .. }, Suspension::None) => Some("not installed".to_owned()),
        (Mode::Observe, ..) => Some("observe".to_owned()),
        _ => None,
    };
    let aggregate = governor.aggregate();
    Status {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        mode: governor.mode().name().to_owned(),
        control: governor.mechanism().to_string(),
        phase: host.phase_name().to_owned(),
        faults: host.faults(),
        doubts: host.doubts(),
        released_because: released,
        leaf: host.installed.as_ref().map(|i| i.leaf.to_string()),
        classifiers: host.installed.as_ref().map(|i| i.classifier),
        uptime_seconds: now.as_secs_f64(),
        aggregate_bits_per_second: aggregate.wanted.map(|r| r.0),
        aggregate_down_ratio: aggregate.down,
        aggregate_change: aggregate.change.as_ref().map(|c| change(governor, now, c)),
        peers,
        signs,
        interfaces_down: host.down().map(str::to_owned).collect(),
        sources: governor.sources.clone(),
        left_out: governor.left_out.clone(),
        neighbours: BoundReport::of(governor),
        level: LevelReport::of(governor, now),
        fairness_ratio: [fairness(governor, 0), fairness(governor, 1)],
        subscribers: governor.members().iter().map(|m| subscriber(governor, now, m)).collect(),
        events: governor.journal.totals().map(|(code, _, n)| (code.to_owned(), n)).collect(),
        recent: governor
            .journal
            .recent()
            .map(|n| format!("{:.0} s ago {}: {}", now.since(n.at).as_secs_f64(), n.code, n.text))
            .collect(),
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
        line(format!(
            "{:name$}  {:>13} {:>13}  {:>13} {:>13}  {}{by}{addresses}",
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
    fn status_says_when_an_override_ends_and_what_limits_which_way() {
        let one = |name: &str, down, up| SubscriberReport {
            name: name.to_owned(),
            class: 1,
            discovered: false,
            weight: 1.0,
            addresses: vec!["10.1.0.0/24".into(), "10.2.0.0/24".into(), "fd00::/64".into()],
            governed: None,
            bound: None,
            level: None,
            directions: vec![down, up],
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
            interfaces_down: vec!["mesh0".into()],
            sources: vec![SourceReport {
                name: "babel 127.0.0.1:33123".into(),
                failed: Some("no response within 5 s".into()),
                ..SourceReport::default()
            }],
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
