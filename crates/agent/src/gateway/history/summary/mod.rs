//! Summary of a history: homes that starved, hours, bottlenecks and due rates.

mod html;
mod text;

pub use text::instant;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{Damage, DirectionUse, HomeUse, MeshUse, Period, Replay, ReplayedHome, Usage, is_most};
use crate::gateway::config::{Config, UNMAPPED};
use crate::gateway::governor::direction_name;
use crate::gateway::report::SCHEMA;
use crate::gateway::verdict::STARVATION_FRACTION;

/// Seconds of an hour.
const HOUR: u64 = 3600;

/// Summary of the periods of a time.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Summary {
    /// Version of this format.
    pub schema: u32,
    /// Requested start, seconds since 1970.
    pub since: u64,
    /// Requested end, seconds since 1970.
    pub until: u64,
    /// Start of the first and end of the last record.
    pub recorded: Option<[u64; 2]>,
    /// Reason why there is no history yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<String>,
    /// The mesh as a whole.
    pub mesh: MeshUse,
    /// Congested time by hour of the day (UTC), in s.
    pub congested_by_hour: [u64; 24],
    /// Clock hours with congestion: start, congested time in s, homes that starved.
    pub congested_hours: Vec<CongestedHour>,
    /// Fraction of the due rate below which a home starves.
    pub starved_ratio: f64,
    /// Homes with traffic.
    pub homes: usize,
    /// Homes that starved, the worst first.
    pub starved: Vec<StarvedHome>,
    /// Limits and plans of homes with a ceiling, the farthest first.
    pub plans: Vec<PlanReport>,
    /// Recorded minutes replayed through the configured control, with its limits in force.
    pub replay: Replay,
    /// Parts that could not be read.
    pub damage: Damage,
    /// Conditions under which these verdicts do not hold.
    pub notes: Vec<String>,
}

/// An hour of the clock with congestion.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct CongestedHour {
    /// Start, seconds since 1970.
    pub start: u64,
    /// Congested time, in s.
    pub seconds: u64,
    /// Homes that starved in it.
    pub starved_homes: u32,
}

/// A home that starved.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct StarvedHome {
    /// Name.
    pub name: String,
    /// Direction that starved longer.
    pub direction: &'static str,
    /// Time, in s.
    pub seconds: u64,
    /// Part of it in which headers or a queue show the demand.
    pub confirmed_seconds: u64,
    /// Part of it without limits in force.
    pub unlimited_seconds: u64,
    /// Time by hour of the day (UTC), in s.
    pub by_hour: [u32; 24],
    /// Mean rate while it starved.
    pub carried_bits_per_second: u64,
    /// Mean rate at the max-min level of the carried traffic in that time.
    ///
    /// It is an estimate of the rate under limits.
    pub due_bits_per_second: u64,
    /// Bottleneck of most of that time.
    pub bottleneck: Bottleneck,
    /// Longest median round trip through the mesh, in ms.
    pub round_trip_ms: Option<u32>,
}

/// Bottleneck as the gateway sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Bottleneck {
    /// Traffic was at the bound of `[[neighbour]]`.
    GatewayLinks,
    /// Traffic stayed below that bound.
    MeshBehind,
    /// The control's own limit.
    OwnLimit,
    /// There is no `[[neighbour]]`.
    Unknown,
}

impl Bottleneck {
    /// Returns the text.
    pub const fn text(self) -> &'static str {
        match self {
            Bottleneck::GatewayLinks => "links of the gateway",
            Bottleneck::MeshBehind => "mesh behind the gateway",
            Bottleneck::OwnLimit => "its own limit",
            Bottleneck::Unknown => "unknown",
        }
    }
}

/// Limits of a home against its plan.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct PlanReport {
    /// Name.
    pub name: String,
    /// Direction.
    pub direction: &'static str,
    /// Ceiling of the plan.
    pub ceiling_bits_per_second: u64,
    /// Mean of the intended limits.
    pub limit_bits_per_second: u64,
    /// Limit over ceiling.
    pub ratio: f64,
}

/// Sums of one home.
#[derive(Clone, Default)]
struct Home {
    directions: [Usage; 2],
    /// Starved time by hour of the day, and by bottleneck, of each direction.
    by_hour: [[u32; 24]; 2],
    bottlenecks: [[u64; 4]; 2],
    unlimited: [u64; 2],
}

const BOTTLENECKS: [Bottleneck; 4] =
    [Bottleneck::GatewayLinks, Bottleneck::MeshBehind, Bottleneck::OwnLimit, Bottleneck::Unknown];

fn bottleneck(mesh: &MeshUse, usage: &Usage) -> Bottleneck {
    let own = is_most(mesh.enforced, mesh.seconds) && is_most(usage.held, usage.starved);
    match mesh.bound {
        _ if own => Bottleneck::OwnLimit,
        Some(_) if is_most(mesh.at_bound, mesh.congested) => Bottleneck::GatewayLinks,
        Some(_) => Bottleneck::MeshBehind,
        None => Bottleneck::Unknown,
    }
}

impl Home {
    fn add(&mut self, period: &Period, home: &HomeUse) {
        let hour = (period.hour() % 24) as usize;
        for (d, DirectionUse { usage, .. }) in home.directions.iter().enumerate() {
            self.directions[d].add(usage);
            if usage.starved == 0 {
                continue;
            }
            let at = bottleneck(&period.mesh, usage) as usize;
            self.by_hour[d][hour] = self.by_hour[d][hour].saturating_add(usage.starved);
            self.bottlenecks[d][at] += u64::from(usage.starved);
            if !is_most(period.mesh.enforced, period.mesh.seconds) {
                self.unlimited[d] += u64::from(usage.starved);
            }
        }
    }

    fn starved(&self, name: &str) -> Option<StarvedHome> {
        let d = usize::from(self.directions[1].starved > self.directions[0].starved);
        let usage = self.directions[d];
        let rate = |bytes: u64| bytes.saturating_mul(8) / u64::from(usage.starved.max(1));
        let most = (0..4).max_by_key(|b| self.bottlenecks[d][*b]).unwrap_or(3);
        (usage.starved > 0).then(|| StarvedHome {
            name: name.to_owned(),
            direction: direction_name(d),
            seconds: usage.starved.into(),
            confirmed_seconds: usage.confirmed.into(),
            unlimited_seconds: self.unlimited[d],
            by_hour: self.by_hour[d],
            carried_bits_per_second: rate(usage.starved_bytes),
            due_bits_per_second: rate(usage.due_bytes),
            bottleneck: BOTTLENECKS[most],
            round_trip_ms: usage.round_trip_ms,
        })
    }

    fn plans(&self, name: &str) -> impl Iterator<Item = PlanReport> {
        let of = |d: usize| {
            let usage = self.directions[d];
            let (limit, ceiling) = (usage.limit?, usage.ceiling?);
            Some(PlanReport {
                name: name.to_owned(),
                direction: direction_name(d),
                ceiling_bits_per_second: ceiling,
                limit_bits_per_second: limit,
                ratio: limit as f64 / ceiling.max(1) as f64,
            })
        };
        [of(0), of(1)].into_iter().flatten()
    }
}

impl Summary {
    /// Reads a folder and sums up its periods between two times, seconds since 1970.
    ///
    /// Minutes in which homes starved without limits are replayed through the control of `config`.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn read(
        folder: &Path,
        since: u64,
        until: u64,
        config: Option<&Config>,
    ) -> std::io::Result<Summary> {
        let mut reading = super::read(folder, since, until)?;
        let mut summary = Summary::of(&mut reading, since, until);
        summary.damage = reading.damage();
        if summary.free().next().is_some() {
            summary.replay = match config {
                Some(config) => super::replay(config, folder, since, until)?,
                None => {
                    let unknown = "no configuration names a control".to_owned();
                    Replay { unknown: Some(unknown), ..Replay::default() }
                }
            };
        }
        summary.add_notes();
        Ok(summary)
    }

    /// Returns a summary without records, for a reason.
    pub fn none(since: u64, until: u64, reason: String) -> Summary {
        let mut summary = Summary::of(std::iter::empty(), since, until);
        summary.empty = Some(reason);
        summary
    }

    fn of(periods: impl IntoIterator<Item = Period>, since: u64, until: u64) -> Summary {
        let mut homes: BTreeMap<String, Home> = BTreeMap::new();
        let mut hours: BTreeMap<u64, CongestedHour> = BTreeMap::new();
        let mut mesh = MeshUse::default();
        let mut by_hour = [0; 24];
        let mut recorded: Option<[u64; 2]> = None;
        // Homes that starved in the present hour, which is not counted by each minute again.
        let mut hour_starved: (u64, std::collections::BTreeSet<String>) = Default::default();
        for period in periods {
            let start = period.start();
            recorded = Some(
                recorded.map_or([start, period.end], |[a, b]| [a.min(start), b.max(period.end)]),
            );
            mesh.add(&period.mesh);
            let hour = period.hour();
            if hour_starved.0 != hour {
                hour_starved = (hour, Default::default());
            }
            let mut starved = 0;
            for home in period.homes.iter().filter(|h| h.name != UNMAPPED) {
                match homes.get_mut(&home.name) {
                    Some(sum) => sum.add(&period, home),
                    None => homes.entry(home.name.clone()).or_default().add(&period, home),
                }
                if home.starved() > 0 && hour_starved.1.insert(home.name.clone()) {
                    starved += 1;
                }
            }
            if period.mesh.congested > 0 {
                by_hour[(hour % 24) as usize] += u64::from(period.mesh.congested);
                let none = CongestedHour { start: HOUR * hour, seconds: 0, starved_homes: 0 };
                let sum = hours.entry(hour).or_insert(none);
                sum.seconds += u64::from(period.mesh.congested);
                sum.starved_homes += starved;
            }
        }
        let mut starved: Vec<_> = homes.iter().filter_map(|(name, h)| h.starved(name)).collect();
        // The longest first; of equal times the one with the smallest part of its due rate.
        let part = |h: &StarvedHome| {
            h.carried_bits_per_second as f64 / h.due_bits_per_second.max(1) as f64
        };
        starved.sort_by(|a, b| b.seconds.cmp(&a.seconds).then(part(a).total_cmp(&part(b))));
        let mut plans: Vec<_> = homes.iter().flat_map(|(name, h)| h.plans(name)).collect();
        plans.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        Summary {
            schema: SCHEMA,
            since,
            until,
            recorded,
            empty: None,
            mesh,
            congested_by_hour: by_hour,
            congested_hours: hours.into_values().collect(),
            starved_ratio: STARVATION_FRACTION,
            homes: homes.len(),
            starved,
            plans,
            replay: Replay::default(),
            damage: Damage::default(),
            notes: Vec::new(),
        }
    }

    /// Adds the conditions under which the verdicts do not hold.
    fn add_notes(&mut self) {
        let Summary { mesh, damage, .. } = &self;
        let mut notes = Vec::new();
        let wanted = self.until.saturating_sub(self.since);
        let seconds = u64::from(mesh.seconds);
        if seconds.saturating_mul(100) < wanted.saturating_mul(95) {
            notes.push(format!(
                "{} of {} are recorded; there is no verdict on the rest",
                text::time(seconds),
                text::time(wanted)
            ));
        }
        if u64::from(mesh.visible) * 100 < seconds * 95 {
            notes.push(format!(
                "no congestion could be seen for {}: the control set no limit, and neither [[neighbour]] nor round trips \
                 were known",
                text::time(seconds.saturating_sub(u64::from(mesh.visible)))
            ));
        }
        let unconfirmed = |h: &&StarvedHome| h.confirmed_seconds.saturating_mul(2) < h.seconds;
        let n = self.starved.iter().filter(unconfirmed).count();
        if n > 0 {
            notes.push(format!(
                "the demand of {n} of the starved homes is known by data packets alone: a sender that needs little looks the \
                 same; `signs.read = true` reads TCP headers"
            ));
        }
        if !self.starved.is_empty() {
            notes.push(
                "the due rate is an estimate: the max-min level of the traffic that was carried, by weight, at most the plan. \
                 It assumes that a byte of each home costs the same airtime and that the sum stays; a home several hops away \
                 costs more, so the true level is lower"
                    .to_owned(),
            );
        }
        if self.replay.control.is_some() {
            notes.push(
                "the replay estimates: homes share the recorded airtime under limits, without losses and delays. Least: other homes \
                 send up to their limits first, and a byte of a starved home takes six times the airtime. Most: all bytes are \
                 equal, other homes send no more than recorded, and the control's limits are free for starved homes first"
                    .to_owned(),
            );
        }
        if !damage.is_none() {
            notes.push(format!(
                "damaged and left out: {} records, {} bytes without a record, {} values of homes without a name",
                damage.records, damage.bytes, damage.homes
            ));
        }
        self.notes = notes;
    }

    /// Returns the homes that starved mostly without limits in force.
    fn free(&self) -> impl Iterator<Item = &StarvedHome> {
        self.starved.iter().filter(|h| h.unlimited_seconds.saturating_mul(2) > h.seconds)
    }

    /// Returns a starved home in the replay.
    fn replayed(&self, home: &StarvedHome) -> Option<&ReplayedHome> {
        let same =
            |h: &&ReplayedHome| h.starved && h.name == home.name && h.direction == home.direction;
        self.replay.homes.iter().find(same)
    }

    /// Returns the homes with the longest starvation.
    pub fn worst(&self) -> impl Iterator<Item = &str> {
        self.starved.iter().map(|h| h.name.as_str())
    }
}

#[cfg(test)]
mod tests;
