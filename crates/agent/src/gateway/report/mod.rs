//! Reports of `status` and `why` as data; `text` has them as text.

mod text;

use fairmesh_linux::{Classifier, Shaper};
use fairmesh_units::Time;
use serde::{Deserialize, Serialize};

use crate::gateway::config::{Mode, Neighbour};
use crate::gateway::governor::{
    Change, Governor, LimitReason, Limiter, Member, QuotaReport, ScheduleReport, Suspension,
    direction_name, rates,
};
use crate::gateway::history::HistoryReport;
use crate::gateway::host::{self, Host, Phase};
use crate::gateway::peers::PeersReport;
use crate::gateway::signs::{DirectionSignsReport, SignsReport};
use crate::gateway::sources::{Omissions, SourceReport};

pub use text::{short, status_text, why_text};

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
    /// Schedule of its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleReport>,
    /// Quota of its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaReport>,
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
    /// Time since the start, in s.
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
    /// The history; `None`: none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryReport>,
    /// Interfaces that are down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces_down: Vec<String>,
    /// Sources of subscribers at their last query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceReport>,
    /// Schedules of plans and subscribers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleReport>,
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
}

fn change(governor: &Governor, now: Time, change: &Change) -> ChangeReport {
    let reason = match &change.why {
        LimitReason::Start => "initial limit of the control".to_owned(),
        LimitReason::Decision(reason) => governor.explain(reason),
        LimitReason::Override(code) if *code == "override" => "an operator's override".to_owned(),
        LimitReason::Override(_) => "end of the override".to_owned(),
        LimitReason::Safety(code) => format!("because of {code}"),
        LimitReason::Reload => "changed configuration".to_owned(),
        LimitReason::Quota => "quota of the plan".to_owned(),
        LimitReason::Schedule => "schedule of the plan".to_owned(),
        LimitReason::Links => "changed rates of the links".to_owned(),
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
        schedule: None,
        quota: governor.calendar.quota(&s.name, &s.plan),
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

/// Reports of parts beside the host; `None`: not configured.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct PartReports {
    /// The other gateways.
    pub peers: Option<PeersReport>,
    /// The TCP header reader.
    pub signs: Option<SignsReport>,
    /// The history.
    pub history: Option<HistoryReport>,
}

/// Returns the state of the daemon.
pub fn status<P: Shaper>(host: &Host<P>, now: Time, parts: PartReports) -> Status {
    let PartReports { peers, signs, history } = parts;
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
        leaf: host.installed.as_ref().map(host::leaf),
        classifiers: host.installed.as_ref().map(|i| i.classifier),
        uptime_seconds: now.as_secs_f64(),
        aggregate_bits_per_second: aggregate.wanted.map(|r| r.0),
        aggregate_down_ratio: aggregate.down,
        aggregate_change: aggregate.change.as_ref().map(|c| change(governor, now, c)),
        peers,
        signs,
        history,
        interfaces_down: host.down().map(str::to_owned).collect(),
        sources: governor.sources.clone(),
        schedules: governor.calendar.reports(),
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
