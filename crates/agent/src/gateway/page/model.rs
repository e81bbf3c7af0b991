//! Content of the page: the answer in words, the homes, and the events.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::report::{Event, PageReport};
use super::verdict::{HomeVerdict, State, Tracker, homes};
use crate::gateway::report::{DirectionReport, Status, SubscriberReport, short};
use crate::gateway::sources::Paths;

/// Part of its limit from which a rate counts as bounded by it.
const AT_LIMIT: f64 = 0.8;
/// Part of its limit from which a rate is above it.
const ABOVE_LIMIT_FACTOR: f64 = 1.25;
/// Most homes that a sentence names.
const MAX_NAMED_HOMES: usize = 3;

/// A piece of text; with `home` it leads to that home, with `class` it is coloured.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Piece {
    /// Text.
    pub text: String,
    /// Name of a home.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// True if the text names a problem.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub bad: bool,
}

fn plain(text: impl Into<String>) -> Piece {
    Piece { text: text.into(), ..Piece::default() }
}

/// A line of the answer below the headline.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Fact {
    /// Title.
    pub title: &'static str,
    /// Text.
    pub text: Vec<Piece>,
}

/// Everything but homes and events.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Head {
    /// Version of the daemon.
    pub version: String,
    /// observe or apply.
    pub mode: String,
    /// True if limits are in force.
    pub enforced: bool,
    /// Control with its variants.
    pub control: String,
    /// Time since the daemon started, in s.
    pub uptime: u64,
    /// True if the page may set overrides with a token.
    pub actions: bool,
    /// The answer.
    pub headline: Vec<Piece>,
    /// The lines below it.
    pub facts: Vec<Fact>,
    /// Links of `[[neighbour]]`: name, capacity, bit/s, and true if the rate is measured.
    pub links: Vec<(String, u64, bool)>,
    /// Sources of homes: name, text, and true if it failed.
    pub sources: Vec<(String, String, bool)>,
    /// Extent of the known paths, as a sentence.
    pub paths: String,
    /// Nodes without a home on paths of homes: name, next node, and true if no node is between.
    pub relays: Vec<(String, Option<String>, bool)>,
}

/// A home in one direction; rates are in bit/s of IP packets.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Direction {
    /// Rate at the last sample.
    pub rate: Option<u64>,
    /// Limit in force, or that would be.
    pub limit: Option<u64>,
    /// True if the limit is in force.
    pub enforced: bool,
    /// Origin of the limit: nothing, control, aggregate, plan, override.
    pub by: String,
    /// Ceiling of the plan.
    pub plan: Option<u64>,
    /// Guarantee of the plan.
    pub guarantee: Option<u64>,
    /// Max-min share of the traffic that is carried.
    pub share: Option<u64>,
    /// True if it asks for more than it carries.
    pub asks: bool,
    /// Dropped packets.
    pub drops: u64,
    /// Last change of the limit: time, text, code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<(u64, String, String)>,
}

/// A home.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Home {
    /// Unique name.
    pub name: String,
    /// First addresses.
    pub addresses: Vec<String>,
    /// Weight.
    pub weight: f64,
    /// True if it was discovered.
    pub discovered: bool,
    /// State.
    pub state: State,
    /// Bottleneck: control, aggregate, plan, override, radio, mesh (no limit in force) or none.
    pub bound: &'static str,
    /// Reason in words.
    pub reason: String,
    /// Downstream and upstream.
    pub ways: [Direction; 2],
    /// Median round trip through the mesh, in ms.
    pub rtt: Option<f64>,
    /// Least round trip of the last minutes, in ms.
    pub base: Option<f64>,
    /// Next node towards the gateway, `None` for the gateway; true if no node is between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<(Option<String>, bool)>,
    /// End of an override, seconds since the daemon started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// Content of the page at one time.
#[derive(Clone, Serialize, Debug)]
pub struct Model {
    /// Everything but homes and events.
    pub head: Head,
    /// All homes.
    pub homes: Vec<Home>,
    /// Last events.
    pub events: Vec<Event>,
}

/// Returns a number of homes as text: "1 home", "3 homes".
fn count(n: usize) -> String {
    format!("{n} home{}", if n == 1 { "" } else { "s" })
}

fn verb<'a>(n: usize, one: &'a str, more: &'a str) -> &'a str {
    if n == 1 { one } else { more }
}

/// Returns a duration as text.
pub(super) fn span(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// Lists homes by name, each a link; the rest is a number.
fn names(all: &[&Home]) -> Vec<Piece> {
    let mut out = Vec::new();
    let shown = if all.len() > MAX_NAMED_HOMES + 1 { MAX_NAMED_HOMES } else { all.len() };
    for (i, home) in all.iter().take(shown).enumerate() {
        let last = i + 1 == all.len();
        out.extend((i > 0).then(|| plain(if last { " and " } else { ", " })));
        out.push(Piece { text: home.name.clone(), home: Some(home.name.clone()), bad: false });
    }
    if shown < all.len() {
        out.push(plain(format!(" and {} more", all.len() - shown)));
    }
    out
}

fn headline(status: &Status, homes: &[Home], knows: bool) -> Vec<Piece> {
    let of = |state: State| homes.iter().filter(|h| h.state == state).collect::<Vec<_>>();
    let (starving, low) = (of(State::Starving), of(State::Low));
    let mut out = match starving.len() {
        _ if homes.is_empty() => return vec![plain("No home is known.")],
        _ if !knows => vec![plain("Watching the first samples: no verdict yet.")],
        0 => vec![plain("No home starves.")],
        n => {
            let who = format!("{} of {} {}", n, count(homes.len()), verb(n, "starves", "starve"));
            let mut out = vec![Piece { text: who, home: None, bad: true }, plain(": ")];
            out.extend(names(&starving));
            out.push(plain("."));
            out
        }
    };
    if !low.is_empty() && knows {
        let (n, receive) = (low.len(), verb(low.len(), "receives", "receive"));
        let own = verb(n, "its", "their");
        out.push(plain(format!(" {} {receive} less than half of {own} share.", count(n))));
    }
    out.push(plain(match status.released_because.as_deref() {
        None => " Limits are in force.".to_owned(),
        Some("observe") => " Limits are computed and not set (observe).".to_owned(),
        Some(why) => format!(" No limits are set ({why})."),
    }));
    out
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

fn part(d: &Direction, of: Option<u64>) -> Option<f64> {
    Some(d.rate? as f64 / of.filter(|l| *l > 0)? as f64)
}

/// Returns the bottleneck of a direction.
fn bound(d: &Direction) -> &'static str {
    let held = part(d, d.limit).is_some_and(|p| p >= AT_LIMIT);
    match d.by.as_str() {
        "override" => "override",
        "plan" if held => "plan",
        "aggregate" if held && d.asks => "aggregate",
        "control" if held => "control",
        _ if d.asks && (d.limit.is_none() || !d.enforced) => "mesh",
        _ if d.asks => "radio",
        _ => "none",
    }
}

/// Returns the use of a home's quota as a sentence; empty without a quota.
fn quota(home: &SubscriberReport) -> String {
    let Some(quota) = &home.quota else { return String::new() };
    let part = 100.0 * quota.used_bytes as f64 / quota.quota_bytes.max(1) as f64;
    let again =
        quota.again().map_or(String::new(), |again| format!(" It begins again in {again}."));
    format!(" {part:.0} % of its quota of {:.1} GB used.{again}", quota.quota_bytes as f64 / 1e9)
}

fn reason(state: State, d: &Direction, bound: &str, until: Option<f64>, way: &str) -> String {
    let left = until.map_or(String::new(), |s| format!("; {} left", span(s)));
    let limit = || short(d.limit);
    let of_share = part(d, d.share).map_or("little".to_owned(), percent);
    let share = short(d.share);
    let not_set = if d.enforced || d.limit.is_none() { "" } else { ", which is not in force" };
    match (state, bound) {
        (State::Paused, _) => format!("Paused by hand at {}{left}.", limit()),
        (State::Boosted, _) => format!("No limit, by hand{left}; other homes yield."),
        (_, "override") => format!("Limited by hand to {}{left}.", limit()),
        (State::Starving | State::Low | State::Short, "radio" | "mesh") => {
            let limit = match d.limit {
                Some(_) if d.enforced => format!(
                    " Its limit of {} is not the cause: the path through the mesh carries less.",
                    limit()
                ),
                _ => {
                    " No limit is in force: other homes or the path through the mesh hold it back."
                        .to_owned()
                }
            };
            format!("Carries {of_share} of its share of {share} {way} and asks for more.{limit}")
        }
        (State::Starving | State::Low | State::Short, _) => format!(
            "Carries {of_share} of its share of {share} {way}, held by its limit of {}{not_set}.",
            limit()
        ),
        (_, "control")
            if !d.enforced && part(d, d.limit).is_some_and(|p| p > ABOVE_LIMIT_FACTOR) =>
        {
            format!("Carries more than its share of {}; no limit is in force.", limit())
        }
        (_, "plan") => format!("Uses all of its plan ({}).", limit()),
        (_, "control") => format!(
            "Uses its full share ({}{not_set}); a higher limit would take from other homes.",
            limit()
        ),
        (_, "aggregate") => "Shares the limit of all homes together.".to_owned(),
        (_, "radio") if part(d, d.limit).is_some_and(|p| p < AT_LIMIT) => {
            format!("Carries what its path allows, below its limit of {}{not_set}.", limit())
        }
        (_, "radio" | "mesh") => "Carries what the mesh allows; no limit is in force.".to_owned(),
        (State::Idle, _) => "No traffic.".to_owned(),
        _ => "Carries what it asks for.".to_owned(),
    }
}

fn direction(w: &DirectionReport, judged: HomeVerdict, uptime: f64) -> Direction {
    Direction {
        rate: w.rate_bits_per_second,
        limit: w.meant_bits_per_second,
        enforced: w.not_in_force_because.is_none(),
        by: w.limited_by.clone(),
        plan: w.ceiling_bits_per_second,
        guarantee: w.guarantee_bits_per_second,
        share: judged.share,
        asks: judged.asks,
        drops: w.drops,
        change: w.last_change.as_ref().map(|c| {
            let (from, to) = (c.from_bits_per_second, c.to_bits_per_second);
            let limit = |r: Option<u64>| r.map_or("no limit".to_owned(), |r| short(Some(r)));
            let text = format!("{} to {}: {}", limit(from), limit(to), c.reason);
            ((uptime - c.age_seconds).max(0.0).round() as u64, text, c.code.clone())
        }),
    }
}

fn home(s: &SubscriberReport, judged: &[HomeVerdict; 2], uptime: f64) -> Option<Home> {
    let [down, up] = s.directions.as_slice() else { return None };
    let ways = [direction(down, judged[0], uptime), direction(up, judged[1], uptime)];
    // The worse direction decides; of equals the one that asks for more, then downstream.
    let worse = match (judged[0], judged[1]) {
        (a, b) if b.state < a.state && b.state != State::Idle => 1,
        (a, b) if a.state == b.state && b.asks && !a.asks => 1,
        _ => 0,
    };
    let state = judged[worse].state;
    let bound = bound(&ways[worse]);
    let left = s.directions.iter().filter_map(|w| w.override_seconds_left).reduce(f64::max);
    let way = ["downstream", "upstream"][worse];
    let trips = |of: fn(&crate::gateway::signs::DirectionSignsReport) -> Option<f64>| {
        let all = s.directions.iter().filter_map(|w| of(w.signs.as_ref()?));
        all.reduce(f64::max).map(|t| (1e4 * t).round() / 10.0)
    };
    Some(Home {
        name: s.name.clone(),
        addresses: s.addresses.iter().take(4).cloned().collect(),
        weight: s.weight,
        discovered: s.discovered,
        state,
        bound,
        reason: reason(state, &ways[worse], bound, left, way) + &quota(s),
        rtt: trips(|s| s.round_trip_seconds),
        base: trips(|s| s.base_round_trip_seconds),
        via: None,
        until: left.map(|left| (uptime + left).round() as u64),
        ways,
    })
}

/// Returns the median of values that are not empty.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn facts(status: &Status, homes: &[Home], tracker: &Tracker) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |title: &'static str, text: Vec<Piece>| {
        if !text.is_empty() {
            facts.push(Fact { title, text });
        }
    };
    let sum = |d: usize| short(Some(homes.iter().filter_map(|h| h.ways[d].rate).sum()));
    let active = homes.iter().filter(|h| h.state != State::Idle).count();
    let mut now = format!(
        "{} of {} {} active: {} down, {} up.",
        active,
        count(homes.len()),
        verb(active, "is", "are"),
        sum(0),
        sum(1)
    );
    if let Some(bound) = &status.neighbours {
        now += &format!(
            " The gateway's links carry at most {}, {} used.",
            short(Some(bound.bound_bits_per_second)),
            percent(bound.used_ratio)
        );
    }
    if let Some(share) = homes.iter().filter_map(|h| h.ways[0].share).max() {
        now += &format!(" The share of a home with demand is {} down.", short(Some(share)));
    }
    fact("Now", vec![plain(now)]);
    let troubled: Vec<&Home> = homes.iter().filter(|h| h.state <= State::Low).collect();
    let mut attention = Vec::new();
    for (i, home) in troubled.iter().take(MAX_NAMED_HOMES).enumerate() {
        attention.extend((i > 0).then(|| plain(" ")));
        attention.push(Piece {
            text: home.name.clone(),
            home: Some(home.name.clone()),
            bad: false,
        });
        attention.push(plain(format!(": {}", home.reason)));
    }
    if troubled.len() > MAX_NAMED_HOMES {
        attention.push(plain(format!(" {} more.", troubled.len() - MAX_NAMED_HOMES)));
    }
    fact("Attention", attention);
    let mut faults: Vec<String> = status.faults.clone();
    faults.extend(status.interfaces_down.iter().map(|i| format!("{i} is down: no traffic passes")));
    faults.extend(
        status
            .sources
            .iter()
            .filter_map(|s| Some(format!("source {} failed: {}", s.name, s.failed.as_ref()?))),
    );
    faults.extend(status.doubts.iter().cloned());
    let faults = faults.join("; ");
    fact(
        "Faults",
        if faults.is_empty() {
            vec![]
        } else {
            vec![Piece { text: faults, home: None, bad: true }]
        },
    );
    let trips: Vec<f64> = homes.iter().filter_map(|h| h.rtt).collect();
    let far = homes
        .iter()
        .filter(|h| h.rtt.is_some())
        .max_by(|a, b| a.rtt.unwrap_or(0.0).total_cmp(&b.rtt.unwrap_or(0.0)));
    if let (Some(median), Some(far)) = (median(trips), far) {
        let mut text = vec![plain(format!(
            "Mesh round trip {median:.0} ms median, {:.0} ms to ",
            far.rtt.unwrap_or(0.0)
        ))];
        text.push(Piece { text: far.name.clone(), home: Some(far.name.clone()), bad: false });
        text.push(plain("."));
        fact("Delay", text);
    }
    if let Some(level) = &status.level {
        let text = level.text().replace('\n', "; ");
        fact("Control", vec![plain(format!("{}, {text}.", status.control))]);
    }
    let reading = status.signs.as_ref().is_some_and(|s| s.state == "reading");
    let seen = if reading {
        "Demand is seen in TCP's unacknowledged data and in queues."
    } else {
        "Demand is seen in queues only, since TCP headers are not read (`signs.read = true`): a home without a limit may \
         starve unseen."
    };
    let rule = " A home starves if, for a minute, it asks for more and carries less than a tenth of its max-min share.";
    let soon = if tracker.knows() { "" } else { " Three samples are needed." };
    fact("Bound", vec![plain(format!("{seen}{rule}{soon}"))]);
    facts
}

/// Returns the extent of the known paths as a sentence.
fn extent(paths: &Paths, homes: &[Home]) -> String {
    let known = homes.iter().filter(|h| h.via.is_some()).count();
    let distance = "distance is the round trip";
    if known == 0 {
        return format!("{distance}; no source shows next hops, so paths are not known");
    }
    let [whole, first] = paths.sources.each_ref().map(|names| names.join(", "));
    let mut by = Vec::new();
    if !whole.is_empty() {
        by.push(format!("the cheapest by {whole}"));
    }
    if !first.is_empty() {
        by.push(format!("the first router by {first} (dashed: others may be between)"));
    }
    let of = format!("lines are paths of {known} of {}", count(homes.len()));
    format!("{distance}; {of}: {}", by.join("; "))
}

/// Returns the nodes without a home on paths of homes.
fn relays(paths: &Paths, homes: &[Home]) -> Vec<(String, Option<String>, bool)> {
    let known: BTreeSet<&str> = homes.iter().map(|h| h.name.as_str()).collect();
    let mut relays = BTreeMap::new();
    for home in homes {
        let mut next = home.via.as_ref().and_then(|via| via.0.as_deref());
        // A node that is known already ends the walk, also in a circle.
        while let Some(name) = next.filter(|n| !known.contains(n) && !relays.contains_key(n)) {
            let via = paths.nodes.get(name);
            next = via.and_then(|via| via.node.as_deref());
            relays.insert(name, via);
        }
    }
    let one = |(name, via): (&str, Option<&crate::gateway::sources::NextNode>)| {
        let via = via?;
        Some((name.to_owned(), via.node.clone(), via.exact))
    };
    relays.into_iter().filter_map(one).collect()
}

/// Returns the content of the page.
pub fn model(report: PageReport, tracker: &Tracker, actions: bool) -> Model {
    let PageReport { status, events, paths, .. } = report;
    let uptime = status.uptime_seconds;
    let judged = tracker.judge(&status);
    let mut homes: Vec<Home> =
        homes(&status).zip(&judged).filter_map(|(s, j)| home(s, j, uptime)).collect();
    for home in &mut homes {
        home.via = paths.nodes.get(&home.name).map(|via| (via.node.clone(), via.exact));
    }
    let measured: BTreeMap<&str, u64> = status
        .neighbours
        .iter()
        .flat_map(|b| b.measured.iter().map(|(name, rate)| (name.as_str(), *rate)))
        .collect();
    let links = status.neighbours.iter().flat_map(|b| &b.links);
    let head = Head {
        version: status.version.clone(),
        mode: status.mode.clone(),
        enforced: status.released_because.is_none(),
        control: status.control.clone(),
        uptime: uptime as u64,
        actions,
        headline: headline(&status, &homes, tracker.knows()),
        facts: facts(&status, &homes, tracker),
        links: links
            .map(|(name, rate)| (name.clone(), *rate, measured.contains_key(name.as_str())))
            .collect(),
        sources: status
            .sources
            .iter()
            .map(|s| match &s.failed {
                Some(why) => (s.name.clone(), why.clone(), true),
                None => (s.name.clone(), s.counts(), false),
            })
            .collect(),
        paths: extent(&paths, &homes),
        relays: relays(&paths, &homes),
    };
    Model { head, homes, events }
}
