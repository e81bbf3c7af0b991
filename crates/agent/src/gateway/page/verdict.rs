//! Demand of homes over the last samples, and their states against their max-min shares.

use std::collections::{BTreeMap, VecDeque};

use crate::gateway::config::UNMAPPED;
use crate::gateway::report::{DirectionReport, Status, SubscriberReport};
use crate::gateway::verdict::{Carried, Demand, STARVATION_FRACTION, carried_level};

/// Samples by which the demand of a home is judged.
const DEMAND_SAMPLES: usize = 6;
/// Least samples for a judgement.
const MIN_SAMPLES: usize = 3;
/// Fractions of its share below which a home with demand is `low`, and `short`.
const LOW_FRACTION: f64 = 0.5;
const SHORT_FRACTION: f64 = 0.8;
/// Rate below which a home is idle, in bit/s.
const IDLE_RATE: u64 = 1_000;
/// Largest limit of an override that is a pause, in bit/s.
pub const PAUSE_RATE: u64 = 8_000;

/// State of a home.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The home asks for more and carries less than a tenth of its share.
    Starving,
    /// The home asks for more and carries less than half of its share.
    Low,
    /// The home asks for more and carries less than four fifths of its share.
    Short,
    /// An override holds it at a very low rate.
    Paused,
    /// An override lifts its limit.
    Boosted,
    /// The home carries its share, or its demand.
    Served,
    /// The home has no traffic.
    Idle,
}

/// One home in one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HomeVerdict {
    /// State.
    pub state: State,
    /// Max-min share of the traffic that is carried, bit/s; `None`: no home has unmet demand.
    pub share: Option<u64>,
    /// True if it asks for more than it carries.
    pub asks: bool,
}

#[derive(Clone, Default, Debug)]
struct Home {
    /// Demand at the last samples, down and up.
    asks: [VecDeque<Demand>; 2],
}

/// Memory of the last samples.
#[derive(Clone, Default, Debug)]
pub struct Tracker {
    homes: BTreeMap<String, Home>,
    sampled: Option<f64>,
}

fn asks(d: &DirectionReport) -> Demand {
    let awaited = d.signs.as_ref().and_then(|s| s.awaited_bytes);
    match awaited {
        _ if d.backlog_bytes > 0 => Demand::Confirmed,
        Some(0) => Demand::Met,
        Some(_) => Demand::Confirmed,
        None if d.rate_bits_per_second.is_some_and(|r| r >= IDLE_RATE) => Demand::Continuous,
        None => Demand::Met,
    }
}

/// Iterates over the homes of a state of the daemon.
pub fn homes(status: &Status) -> impl Iterator<Item = &SubscriberReport> + Clone {
    status.subscribers.iter().filter(|s| s.name != UNMAPPED)
}

impl Tracker {
    /// Takes a sample of this time; a sample that was taken before changes nothing.
    pub fn sample(&mut self, status: &Status, sampled: Option<f64>) {
        if sampled.is_none() || self.sampled == sampled {
            return;
        }
        self.sampled = sampled;
        let names: std::collections::BTreeSet<&str> =
            status.subscribers.iter().map(|s| s.name.as_str()).collect();
        self.homes.retain(|name, _| names.contains(name.as_str()));
        for s in homes(status) {
            let home = self.homes.entry(s.name.clone()).or_default();
            for (d, seen) in s.directions.iter().zip(&mut home.asks) {
                seen.push_back(asks(d));
                if seen.len() > DEMAND_SAMPLES {
                    seen.pop_front();
                }
            }
        }
    }

    /// True once there are enough samples for a judgement.
    pub fn knows(&self) -> bool {
        self.homes.values().any(|h| h.asks[0].len() >= MIN_SAMPLES)
    }

    /// True if a home had at least this demand at most of the last samples.
    fn demands(&self, name: &str, d: usize, least: Demand) -> bool {
        self.homes.get(name).is_some_and(|h| {
            let seen = &h.asks[d];
            let asked = seen.iter().filter(|a| **a >= least).count();
            seen.len() >= MIN_SAMPLES && 2 * asked > seen.len()
        })
    }

    /// Returns the max-min level of the carried traffic of a direction, bit/s per weight.
    fn level(&self, status: &Status, d: usize) -> Option<f64> {
        let open = homes(status).filter(|s| self.demands(&s.name, d, Demand::Continuous));
        let open = open.filter_map(|s| {
            let w = s.directions.get(d)?;
            w.rate_bits_per_second?;
            Some(carried(s.weight, w, Demand::Continuous))
        });
        carried_level(&open.collect::<Vec<_>>())
    }

    /// Judges every home in both directions, in the order of [`homes`].
    pub fn judge(&self, status: &Status) -> Vec<[HomeVerdict; 2]> {
        let levels = [self.level(status, 0), self.level(status, 1)];
        let one = |s: &SubscriberReport, d: usize| {
            let idle = HomeVerdict { state: State::Idle, share: None, asks: false };
            let Some(w) = s.directions.get(d) else { return idle };
            let share = levels[d].map(|l| carried(s.weight, w, Demand::Met).due(l));
            let asks = self.demands(&s.name, d, Demand::Confirmed);
            let state = match (w.limited_by.as_str(), w.meant_bits_per_second) {
                ("override", Some(limit)) if limit <= PAUSE_RATE => State::Paused,
                ("override", None) => State::Boosted,
                _ => state(w.rate_bits_per_second, share.filter(|_| asks)),
            };
            HomeVerdict { state, share: share.map(|s| s as u64), asks }
        };
        homes(status).map(|s| [one(s, 0), one(s, 1)]).collect()
    }
}

fn carried(weight: f64, w: &DirectionReport, demand: Demand) -> Carried {
    let ceiling = match w.limited_by.as_str() {
        "override" => w.meant_bits_per_second,
        _ => w.ceiling_bits_per_second,
    };
    let rate = w.rate_bits_per_second.unwrap_or(0) as f64;
    Carried { rate, weight, ceiling: ceiling.map(|r| r as f64), demand }
}

/// Returns the state of a rate against the share of a home with demand.
fn state(rate: Option<u64>, share: Option<f64>) -> State {
    let Some(rate) = rate else { return State::Idle };
    match share.filter(|s| *s > 0.0).map(|share| rate as f64 / share) {
        Some(part) if part < STARVATION_FRACTION => State::Starving,
        Some(part) if part < LOW_FRACTION => State::Low,
        Some(part) if part < SHORT_FRACTION => State::Short,
        None if rate < IDLE_RATE => State::Idle,
        _ => State::Served,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{home, status};
    use super::*;

    fn judged(rates: &[(u64, u64)], samples: usize) -> Vec<State> {
        let homes = rates.iter().enumerate().map(|(i, (rate, awaited))| {
            let mut h = home(&format!("h{i}"), *rate);
            h.directions[0].signs.as_mut().unwrap().awaited_bytes = Some(*awaited);
            h
        });
        let status = status(homes.collect());
        let mut tracker = Tracker::default();
        (1..=samples).for_each(|i| tracker.sample(&status, Some(10.0 * i as f64)));
        tracker.judge(&status).iter().map(|j| j[0].state).collect()
    }

    #[test]
    fn a_home_starves_by_its_share_and_only_with_demand() {
        use State::{Idle, Low, Served, Short, Starving};
        // Level of the four that ask: (9.0 + .1 + 1.2 + 1.9) / 4 = 3.05 Mbit/s.
        let rates =
            [(9_000_000, 1), (100_000, 1), (1_200_000, 1), (1_900_000, 1), (90_000, 0), (0, 0)];
        assert_eq!(judged(&rates, 3), [Served, Starving, Low, Short, Served, Idle]);
        assert_eq!(judged(&rates, 2)[1], Served, "two samples are too few");
    }

    /// A home with QUIC takes part in the share, and is never called starving.
    #[test]
    fn traffic_without_readable_tcp_counts_for_the_share() {
        let mut quic = home("quic", 9_000_000);
        quic.directions[0].signs.as_mut().unwrap().awaited_bytes = None;
        let mut slow = quic.clone();
        (slow.name, slow.directions[0].rate_bits_per_second) = ("slow".into(), Some(50_000));
        let mut tcp = home("tcp", 50_000);
        tcp.directions[0].signs.as_mut().unwrap().awaited_bytes = Some(1);
        let status = status(vec![quic, slow, tcp]);
        let mut tracker = Tracker::default();
        (1..=3).for_each(|i| tracker.sample(&status, Some(f64::from(i))));
        let states: Vec<State> = tracker.judge(&status).iter().map(|j| j[0].state).collect();
        assert_eq!(states, [State::Served, State::Served, State::Starving]);
    }

    #[test]
    fn an_outage_is_no_starvation() {
        assert_eq!(judged(&[(0, 9), (0, 9)], 6), [State::Idle, State::Idle]);
    }

    #[test]
    fn a_sample_counts_once_and_a_home_is_forgotten() {
        let both = status(vec![home("a", 60_000), home("b", 0)]);
        let mut tracker = Tracker::default();
        for at in [6_001.0, 6_001.0, 6_001.0, 6_011.0] {
            tracker.sample(&both, Some(at));
        }
        assert!(!tracker.knows(), "two samples");
        tracker.sample(&both, Some(6_021.0));
        assert!(tracker.knows());
        tracker.sample(&status(vec![home("b", 0)]), Some(6_300.0));
        assert!(tracker.homes.keys().eq(["b"]));
    }

    #[test]
    fn overrides_are_states_of_their_own() {
        let mut paused = home("a", 0);
        for w in &mut paused.directions {
            (w.limited_by, w.meant_bits_per_second) = ("override".into(), Some(PAUSE_RATE));
        }
        let mut boosted = home("b", 5_000_000);
        for w in &mut boosted.directions {
            (w.limited_by, w.meant_bits_per_second) = ("override".into(), None);
        }
        let status = status(vec![paused, boosted]);
        let states: Vec<State> =
            Tracker::default().judge(&status).iter().map(|j| j[0].state).collect();
        assert_eq!(states, [State::Paused, State::Boosted]);
    }
}
