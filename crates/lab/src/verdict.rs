//! Starving flows and subscribers, and the hop that explains the starvation.

use std::collections::BTreeMap;

use fairmesh_engine::record::{LinkRecord, RunRecord};
use serde::Serialize;

use crate::drops::DropsSummary;

/// Fraction of a flow's due rate below which it starves.
pub const STARVATION_FRACTION: f64 = 0.1;

/// Attempts of a link per run below which its losses explain nothing.
const FEWEST_ATTEMPTS: f64 = 20.0;
/// Fraction of a link's unanswered attempts above which its losses explain starvation.
const LOSSY_LINK_FRACTION: f64 = 0.1;
/// Fraction of undelivered frames above which a station that overlapped them is named.
const NAMED_OVERLAP_FRACTION: f64 = 0.2;

/// A flow or subscriber below [`STARVATION_FRACTION`] of its due rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Starving {
    /// A subscriber's name or a flow's label.
    pub label: String,
    /// Goodput over the due rate.
    pub over_fair: f64,
    /// Losses per run, by cause.
    pub drops: DropsSummary,
    /// Hop of its paths with the largest fraction of unanswered frames, if that is large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_hop: Option<LossyHop>,
}

/// Attempts and losses of a hop, over all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossyHop {
    /// Name of the sender.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Attempts per run: data frames, or the RTS frames before them.
    pub attempts: f64,
    /// Fraction of the attempts without a CTS, ACK or BlockAck.
    pub unanswered: f64,
    /// Fraction of the unanswered frames that had arrived: the response was lost.
    pub answer_lost: f64,
    /// Fraction of the unanswered frames that no other frame overlapped: frame errors.
    pub clean: f64,
    /// Stations that overlapped unanswered frames, most frames first.
    pub overlapped_by: Vec<Overlap>,
}

/// A station that was on the air at the receiver during unanswered frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// Name of the node or interferer.
    pub station: String,
    /// Fraction of the unanswered frames that it overlapped.
    pub share: f64,
    /// True if the hop's sender senses it; if not, it is a hidden terminal.
    pub sensed: bool,
    /// True if it is the hop's receiver, which was itself sending.
    pub receiver: bool,
}

impl LossyHop {
    /// Returns the station that overlapped the most frames, if it overlapped a large fraction.
    pub fn main_overlap(&self) -> Option<&Overlap> {
        self.overlapped_by.first().filter(|o| o.share >= NAMED_OVERLAP_FRACTION)
    }
}

/// Links of all runs of one control, summed by their ends.
#[derive(Clone, Debug, Default)]
pub struct Links {
    runs: f64,
    by_ends: BTreeMap<(String, String), LinkRecord>,
}

impl Links {
    /// Sums the links of the runs of one control.
    pub fn of(records: &[RunRecord]) -> Self {
        let mut links = Links { runs: records.len() as f64, by_ends: BTreeMap::new() };
        for link in records.iter().flat_map(|r| &r.links) {
            let ends = (link.from.clone(), link.to.clone());
            let sum = links.by_ends.entry(ends).or_insert_with(|| LinkRecord {
                from: link.from.clone(),
                to: link.to.clone(),
                ..LinkRecord::default()
            });
            sum.attempts += link.attempts;
            sum.unanswered += link.unanswered;
            sum.answer_lost += link.answer_lost;
            sum.clean += link.clean;
            for o in &link.overlapped_by {
                match sum.overlapped_by.iter_mut().find(|s| s.station == o.station) {
                    Some(s) => s.frames += o.frames,
                    None => sum.overlapped_by.push(o.clone()),
                }
            }
        }
        links
    }

    /// Returns the hop of some paths that loses the largest fraction of its frames.
    ///
    /// Both directions count.
    pub fn worst_hop<'a>(&self, paths: impl Iterator<Item = &'a [String]>) -> Option<LossyHop> {
        let mut worst: Option<&LinkRecord> = None;
        let part = |l: &LinkRecord| l.unanswered as f64 / l.attempts as f64;
        for path in paths {
            for hop in path.windows(2) {
                for (from, to) in [(&hop[0], &hop[1]), (&hop[1], &hop[0])] {
                    let Some(link) = self.by_ends.get(&(from.clone(), to.clone())) else {
                        continue;
                    };
                    let counts = link.attempts as f64 >= FEWEST_ATTEMPTS * self.runs;
                    if counts && worst.is_none_or(|w| part(link) > part(w)) {
                        worst = Some(link);
                    }
                }
            }
        }
        worst.filter(|l| part(l) >= LOSSY_LINK_FRACTION).map(|l| self.hop(l))
    }

    /// Returns all links over which anything was sent, by the names of their ends.
    pub fn hops(&self) -> impl Iterator<Item = LossyHop> + '_ {
        self.by_ends.values().filter(|l| l.attempts > 0).map(|l| self.hop(l))
    }

    fn hop(&self, link: &LinkRecord) -> LossyHop {
        let of = |frames: u64| frames as f64 / link.unanswered.max(1) as f64;
        let overlap = |o: &fairmesh_engine::record::OverlapRecord| Overlap {
            station: o.station.clone(),
            share: of(o.frames),
            sensed: o.sensed,
            receiver: o.receiver,
        };
        let mut overlapped_by: Vec<Overlap> = link.overlapped_by.iter().map(overlap).collect();
        overlapped_by.sort_by(|a, b| b.share.total_cmp(&a.share));
        LossyHop {
            from: link.from.clone(),
            to: link.to.clone(),
            attempts: link.attempts as f64 / self.runs,
            unanswered: link.unanswered as f64 / link.attempts as f64,
            answer_lost: of(link.answer_lost),
            clean: of(link.clean),
            overlapped_by,
        }
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_engine::record::OverlapRecord;

    use super::*;
    use crate::summary::ControlSummary;
    use crate::testing::record;

    /// Flow 1 → 0 starves; its hop collides with `hidden`, which 1 does not sense.
    fn starved() -> RunRecord {
        let mut r = record("fifo", 1, &[(5e3, 1e5, 1), (1e5, 1e5, 1)]);
        let overlap = |station: &str, frames, sensed| OverlapRecord {
            station: station.to_owned(),
            frames,
            sensed,
            receiver: false,
        };
        r.links = vec![
            LinkRecord {
                from: "1".into(),
                to: "0".into(),
                attempts: 100,
                unanswered: 80,
                answer_lost: 8,
                clean: 4,
                overlapped_by: vec![overlap("near", 8, true), overlap("hidden", 60, false)],
            },
            // Not on the path.
            LinkRecord {
                from: "9".into(),
                to: "0".into(),
                attempts: 90,
                unanswered: 90,
                ..Default::default()
            },
            // Too few to explain anything.
            LinkRecord {
                from: "0".into(),
                to: "1".into(),
                attempts: 5,
                unanswered: 5,
                ..Default::default()
            },
        ];
        r
    }

    #[test]
    fn the_worst_hop_names_the_hidden_terminal() {
        let s = ControlSummary::of(&[starved(), starved()]);
        let [starving] = &s.starving[..] else { panic!("{:?}", s.starving) };
        let hop = starving.worst_hop.as_ref().unwrap();
        assert_eq!((hop.from.as_str(), hop.to.as_str(), hop.attempts), ("1", "0", 100.0));
        assert!((hop.unanswered - 0.8).abs() < 1e-12 && (hop.answer_lost - 0.1).abs() < 1e-12);
        let main = hop.main_overlap().unwrap();
        assert_eq!((main.station.as_str(), main.share, main.sensed), ("hidden", 0.75, false));
        assert_eq!(hop.overlapped_by[1].station, "near");
    }

    #[test]
    fn a_hop_that_loses_little_explains_nothing() {
        let mut r = starved();
        r.links[0].unanswered = 5;
        assert_eq!(ControlSummary::of(&[r]).starving[0].worst_hop, None);
    }

    #[test]
    fn a_flow_that_pauses_is_judged_by_the_time_in_which_it_transfers() {
        // 2.9 % of the fair rate in 3 % of the time: a user of web pages, not a starved flow.
        let mut r = record("fifo", 1, &[(29e3, 1e6, 1)]);
        r.flows[0].active_share = 0.03;
        let s = ControlSummary::of(&[r.clone()]);
        assert!(s.starving.is_empty(), "{:?}", s.starving);
        assert!((s.flows[0].over_fair.unwrap() - 0.967).abs() < 1e-3);
        assert!((s.min_over_fair.unwrap().mean - 0.967).abs() < 1e-3, "one rule for all measures");
        // The same rate while a page was always in transfer: starved.
        r.flows[0].active_share = 1.0;
        assert_eq!(ControlSummary::of(&[r]).starving.len(), 1);
    }

    #[test]
    fn a_part_of_an_upper_bound_is_no_verdict() {
        // Both have 8 % of a bound that no control reaches, and are equal.
        let mut r = record("fifo", 1, &[(80e3, 1e6, 1), (80e3, 1e6, 1), (2e3, 1e6, 1)]);
        r.fair_is_upper_bound = true;
        let s = ControlSummary::of(&[r]);
        let labels: Vec<_> = s.starving.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["3 → 0"], "below a tenth of an equal share");
        assert!(s.fair_is_upper_bound);
    }
}
