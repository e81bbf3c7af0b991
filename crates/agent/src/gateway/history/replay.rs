//! Replay of recorded minutes through the configured control, with its limits in force.
//!
//! The [`Governor`] of a gateway in mode `apply` gets the counters of a mesh of one rule instead of the kernel's, and its
//! limits bound that mesh's traffic. A minute has rates and no demands, so it is replayed twice, for the least and the most
//! that limits leave to the homes that starved:
//!
//! | | least | most |
//! |---|---|---|
//! | airtime | [`STARVED_AIRTIME_FACTOR`] times as much for a byte of a starved home | the same for all bytes |
//! | other homes | those with data in most of the minute send up to their limits | none carries more than was recorded |
//! | starved homes | what the others leave, and not less than was recorded | up to limits of the control first |
//!
//! The airtime of a minute is that of the recorded bytes. Losses and delays are not modelled. Hours are not replayed: they
//! do not have the rates of a control's decision.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use fairmesh_control::water_filling::{Claim, level};
use fairmesh_linux::{ClassCounters, Direction, Slot};
use fairmesh_units::{Span, Time};
use serde::Serialize;

use super::{Period, is_most};
use crate::gateway::config::{Config, Mode, Subscriber, UNMAPPED};
use crate::gateway::governor::{ClassIds, Governor, Limiter, direction_name};

/// Airtime of a starved home's byte in the less favourable case, over that of another.
///
/// Several hops leave a sixth of the capacity.
const STARVED_AIRTIME_FACTOR: f64 = 6.0;
/// Bytes of the link's header that the governor subtracts from each packet.
const HEADER: u64 = 14;
/// Packets of data, and of pure acknowledgements, in IP bytes.
const PACKET_BYTES: [f64; 2] = [1500.0, 60.0];
/// Least time between two samples.
const MIN_SAMPLE_INTERVAL: Span = Span::from_millis(100);
/// Most minutes of homes in a replay: 30 homes for a year.
const MOST_WORK: u64 = 20_000_000;
/// Result of a replay.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct Replay {
    /// Control; `None`: nothing was replayed.
    pub control: Option<String>,
    /// Reason why the rest, or all, is not known.
    pub unknown: Option<String>,
    /// Congested time without limits that was replayed, in s.
    pub seconds: u64,
    /// Congested time without limits that was not, in s.
    pub left_out_seconds: u64,
    /// Homes in their starved time, and in the rest of the congested time.
    pub homes: Vec<ReplayedHome>,
}

/// A home in one direction, as recorded and as replayed.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct ReplayedHome {
    /// Name.
    pub name: String,
    /// Direction.
    pub direction: &'static str,
    /// True for the time in which it starved, false for the other congested time.
    pub starved: bool,
    /// Time, in s.
    pub seconds: u64,
    /// Recorded mean rate.
    pub carried_bits_per_second: u64,
    /// Least mean rate with limits.
    pub least_bits_per_second: u64,
    /// Most mean rate with limits.
    pub most_bits_per_second: u64,
}

/// Traffic of a home in one direction in a minute.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Position among the governor's members.
    at: usize,
    d: usize,
    /// Recorded rate, in bit/s.
    rate: f64,
    /// Size of its packets, in bytes.
    packet: f64,
    /// True if it had data in most of the minute.
    open: bool,
    starved: bool,
}

/// A replay with one of the two rules.
struct Mesh {
    governor: Governor,
    now: Time,
    /// IP bytes and packets of each member and direction since the start.
    sent: Vec<[[f64; 2]; 2]>,
    /// Airtime of a starved home's byte.
    cost: f64,
    /// True if other homes are served first, and those with data send up to their limits.
    others_first: bool,
}

impl Mesh {
    fn new(governor: Governor, cost: f64, others_first: bool) -> Mesh {
        let sent = vec![[[0.0; 2]; 2]; governor.members().len()];
        Mesh { governor, now: Time::ZERO, sent, cost, others_first }
    }

    fn limit(&self, load: &Load) -> f64 {
        let member = &self.governor.members()[load.at];
        self.governor.meant(member, load.d).0.map_or(f64::INFINITY, |r| r.0 as f64)
    }

    fn is_controlled(&self, load: &Load) -> bool {
        let member = &self.governor.members()[load.at];
        self.governor.meant(member, load.d).1 == Limiter::Control
    }

    fn cost(&self, load: &Load) -> f64 {
        if load.starved { self.cost } else { 1.0 }
    }

    /// Returns the rates under the present limits, in bit/s.
    fn rates(&self, loads: &[Load], airtime: f64) -> Vec<f64> {
        let weight = |l: &Load| self.governor.members()[l.at].subscriber.plan.weight;
        let least = |l: &Load| l.rate.min(self.limit(l));
        let starved = || loads.iter().filter(|l| l.starved);
        let first = |l: &Load| {
            let served = !self.others_first && self.is_controlled(l);
            let most = if served { self.limit(l) } else { least(l) };
            Claim { weight: weight(l), least: least(l), most }
        };
        let level_of_first = level(airtime / self.cost, starved().map(first));
        let kept = |l: &Load| first(l).at(level_of_first);
        let kept_rate: f64 = starved().map(kept).sum();
        // Other homes share in the ratio of their recorded rates, as the mesh did.
        let other = |l: &Load| {
            let most = if self.others_first && l.open { self.limit(l) } else { least(l) };
            Claim { weight: l.rate, least: 0.0, most }
        };
        let others = || loads.iter().filter(|l| !l.starved && l.rate > 0.0).map(other);
        let free = (airtime - self.cost * kept_rate).max(0.0);
        let level_of_others = level(free, others());
        let rest = (free - others().map(|c| c.at(level_of_others)).sum::<f64>()).max(0.0);
        let last = |l: &Load| Claim { weight: weight(l), least: kept(l), most: self.limit(l) };
        let level_of_last = level(kept_rate + rest / self.cost, starved().map(last));
        let rate = |l: &Load| match (l.starved, l.rate > 0.0) {
            (true, _) => last(l).at(level_of_last),
            (false, true) => other(l).at(level_of_others),
            (false, false) => 0.0,
        };
        loads.iter().map(rate).collect()
    }

    /// Lets a minute pass, and returns the bits of each load.
    ///
    /// In the case that is best for a home, another home than a starved one has what its limit permits.
    fn minute(&mut self, wall: u64, seconds: u32, loads: &[Load]) -> Vec<f64> {
        let airtime = loads.iter().map(|l| l.rate * self.cost(l)).sum();
        let end = self.now + Span::from_secs(seconds.into());
        let mut bits = vec![0.0; loads.len()];
        self.governor.keep_time(self.now, wall);
        while self.now < end {
            let next = self.governor.next_sample().max(self.now + MIN_SAMPLE_INTERVAL).min(end);
            let passed = next.since(self.now).as_secs_f64();
            for (i, rate) in self.rates(loads, airtime).into_iter().enumerate() {
                let load = &loads[i];
                let best = load.rate.min(self.limit(load));
                bits[i] += passed * if self.others_first || load.starved { rate } else { best };
                let [bytes, packets] = &mut self.sent[load.at][load.d];
                *bytes += rate * passed / 8.0;
                *packets += rate * passed / 8.0 / load.packet;
            }
            self.now = next;
            if self.governor.next_sample() <= next {
                let counters = self.counters();
                self.governor.sample(next, &counters, [None, None]);
            }
        }
        bits
    }

    fn counters(&self) -> Vec<ClassCounters> {
        let members = self.governor.members().iter().zip(&self.sent);
        let both = members.flat_map(|(m, sent)| {
            Direction::BOTH.map(|direction| {
                let [bytes, packets] = sent[direction.index()].map(|n| n as u64);
                ClassCounters {
                    slot: Slot { class: m.class, direction },
                    bytes: bytes + HEADER * packets,
                    packets,
                    drops: 0,
                    overlimits: 0,
                    backlog_packets: 0,
                    backlog_bytes: 0,
                }
            })
        });
        both.collect()
    }
}

/// Sums of a home in one direction.
#[derive(Clone, Copy, Default)]
struct Sum {
    seconds: u64,
    /// Bits: recorded, least and most.
    bits: [f64; 3],
}

/// Replays the minutes of a folder without limits in force.
///
/// `since` and `until` are seconds since 1970.
///
/// # Errors
/// The folder cannot be read.
pub fn replay(config: &Config, folder: &Path, since: u64, until: u64) -> io::Result<Replay> {
    let periods = || super::read(folder, since, until);
    let control = &config.mechanism;
    if config.peers.is_some() {
        let unknown =
            format!("{control} needs messages of other gateways, which minutes do not have");
        return Ok(nothing(periods()?, unknown));
    }
    let names = periods()?.flat_map(|p| p.homes).map(|h| h.name).collect();
    let alone = alone(config, names);
    let governor = || Governor::new(&alone, ClassIds::default(), Time::ZERO);
    let (mut least, mut most) = match (governor(), governor()) {
        (Ok(least), Ok(most)) => {
            (Mesh::new(least, STARVED_AIRTIME_FACTOR, true), Mesh::new(most, 1.0, false))
        }
        (Err(e), _) | (_, Err(e)) => {
            return Ok(nothing(periods()?, format!("the control does not start: {e}")));
        }
    };
    let unknown = match &least.governor {
        g if g.reads_signs() => Some(format!(
            "{control} needs the round trips of each sample, which minutes do not have"
        )),
        g if g.aggregate().is_planned() => {
            Some(format!("{control} has one limit for all homes, which is not replayed"))
        }
        _ => None,
    };
    if let Some(unknown) = unknown {
        return Ok(nothing(periods()?, unknown));
    }
    for mesh in [&mut least, &mut most] {
        mesh.governor.defer_initial_limits(Time::ZERO);
    }
    let places: BTreeMap<String, usize> = least
        .governor
        .members()
        .iter()
        .enumerate()
        .map(|(at, m)| (m.subscriber.name.clone(), at))
        .collect();
    let mut result = Replay { control: Some(control.to_string()), ..Replay::default() };
    let mut sums: BTreeMap<(usize, usize, bool), Sum> = BTreeMap::new();
    let mut work = 0;
    for period in periods()?.filter(|p| p.mesh.enforced == 0) {
        let congested = is_most(period.mesh.congested, period.mesh.seconds);
        let counted = if congested { u64::from(period.mesh.seconds) } else { 0 };
        work += places.len() as u64;
        let hour = period.stamp.first != period.stamp.last;
        if hour || work > MOST_WORK {
            result.left_out_seconds += u64::from(period.mesh.congested);
            let reason = if hour { "it is recorded by hours" } else { "it has too many minutes" };
            result.unknown = Some(reason.to_owned());
            continue;
        }
        let loads = loads(&period, &places);
        let bits = [&mut least, &mut most]
            .map(|mesh| mesh.minute(period.start(), period.mesh.seconds, &loads));
        result.seconds += counted;
        for (i, load) in loads.iter().enumerate().filter(|_| congested) {
            let sum = sums.entry((load.at, load.d, load.starved)).or_default();
            sum.seconds += counted;
            let recorded = load.rate * f64::from(period.mesh.seconds);
            for (sum, bits) in sum.bits.iter_mut().zip([recorded, bits[0][i], bits[1][i]]) {
                *sum += bits;
            }
        }
    }
    let members = least.governor.members();
    result.homes = sums
        .into_iter()
        .filter(|((at, ..), _)| members[*at].subscriber.name != UNMAPPED)
        .map(|((at, d, starved), sum)| {
            let [carried, a, b] = sum.bits.map(|b| (b / sum.seconds.max(1) as f64).round() as u64);
            ReplayedHome {
                name: members[at].subscriber.name.clone(),
                direction: direction_name(d),
                starved,
                seconds: sum.seconds,
                carried_bits_per_second: carried,
                least_bits_per_second: a.min(b),
                most_bits_per_second: a.max(b),
            }
        })
        .collect();
    Ok(result)
}

/// Returns a replay of nothing.
fn nothing(periods: impl Iterator<Item = Period>, unknown: String) -> Replay {
    let free = periods.filter(|p| p.mesh.enforced == 0);
    let left_out_seconds = free.map(|p| u64::from(p.mesh.congested)).sum();
    Replay { unknown: Some(unknown), left_out_seconds, ..Replay::default() }
}

/// Returns the configuration in mode `apply`, with the recorded homes in place of sources.
fn alone(config: &Config, names: BTreeSet<String>) -> Config {
    let mut alone = Config { mode: Mode::Apply, peers: None, ..config.clone() };
    let plan = alone.discover.take().map(|d| d.plan).unwrap_or_default();
    let known: BTreeSet<String> = alone.subscribers.iter().map(|s| s.name.clone()).collect();
    alone.subscribers.extend(names.difference(&known).map(|name| Subscriber {
        name: name.clone(),
        prefixes: Vec::new(),
        macs: Vec::new(),
        plan,
        hops: None,
    }));
    alone
}

fn loads(period: &Period, places: &BTreeMap<String, usize>) -> Vec<Load> {
    let seconds = period.mesh.seconds;
    let homes = period.homes.iter().filter_map(|h| Some((h, *places.get(&h.name)?)));
    let both = homes.flat_map(|(home, at)| {
        [0, 1].map(|d| {
            let usage = &home.directions[d].usage;
            Load {
                at,
                d,
                rate: 8.0 * usage.bytes as f64 / f64::from(seconds.max(1)),
                packet: PACKET_BYTES[usize::from(usage.active == 0)],
                open: is_most(usage.active, seconds),
                starved: usage.starved > 0,
            }
        })
    });
    both.filter(|l| l.rate > 0.0 || l.starved).collect()
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
