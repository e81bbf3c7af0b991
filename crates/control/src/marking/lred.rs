//! `lred`: link RED (Triantafyllidou 2005 §5.1.1; Fu et al., INFOCOM 2003).
//!
//! In a multihop network the first sign of overload is not a full queue but a retransmitted frame. Above some number of
//! attempts per frame a node drops (or with `+ecn` marks) its packets with a probability that grows with the average:
//!
//! `p = min{(avg − min) / (max − min), max_p}`
//!
//! With `+pacing` it also waits, while p is above 0, for the duration of its last packet before it contends again: at
//! most half of the airtime is its own.

use fairmesh_units::{Bytes, Time};

use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Event, EventKind,
    EventSet, Instance, Leaf, Limit, Needs, Origin, Placement, PlacementSet, Plan, Point, Reason,
    Refusal, Setting, Share, Value,
};

options! {
    /// Options of `lred`.
    pub(crate) struct Options {
        variants {
            ecn: Origin::published("Triantafyllidou 2005 §5.1.1"), "marks ECN-capable packets instead of dropping";
            pacing: Origin::published("Triantafyllidou 2005 §5.1.1 (Fu et al. 2003)"), "waits a packet's time after each packet while congested";
        }
        parameters {
            min: f64 = 0.5, 0.0..=6.0, "", "retries per frame without drops";
            max: f64 = 5.0, 0.1..=255.0, "", "retries per frame at which the probability would be 1";
            max_p: f64 = 0.1, 0.001..=1.0, "", "largest probability";
            weight: f64 = 0.125, 0.001..=1.0, "", "weight of a frame in the average";
            queue: u32 = 50.0, 1.0..=1000.0, "packets", "transmit buffer where packets are paced";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "every node drops by the average number of retries";
    Definition::new(
        "lred",
        about,
        Origin::published("Triantafyllidou 2005 §5.1.1 (Fu et al. 2003)"),
    )
    .with_options(needs, build)
}

fn needs(options: &Options) -> Vec<Needs> {
    let way = if options.ecn { Ability::Mark } else { Ability::Drop };
    let mut abilities = AbilitySet::of(&[way]);
    if options.pacing {
        abilities = abilities.or(AbilitySet::of(&[Ability::ReplaceQueue, Ability::Airtime]));
    }
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: EventSet::of(&[EventKind::Sent]),
        abilities,
        ..Needs::default()
    }]
}

fn build(options: &Options, _: Setting) -> Result<Instance, Refusal> {
    let (min, max) = (options.min, options.max);
    if min >= max {
        return Err(Refusal::thresholds(min, max));
    }
    let pacing = options.pacing;
    let class = || ClassPlan {
        class: Class::All,
        limit: Limit::Airtime(Share::new(1.0)),
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: options.queue },
    };
    let paced = || Plan { point: Point::Interface, classes: vec![class()], template: None };
    Ok(Instance {
        control: Box::new(Lred {
            ecn: options.ecn,
            pacing,
            paced: false,
            min,
            max,
            max_p: options.max_p,
            weight: options.weight,
            average: 0.0,
            in_force: 0.0,
        }),
        plan: if pacing { paced() } else { Plan::none() },
    })
}

#[derive(Debug)]
struct Lred {
    ecn: bool,
    pacing: bool,
    paced: bool,
    min: f64,
    max: f64,
    max_p: f64,
    weight: f64,
    /// Moving average of the retries per frame.
    average: f64,
    in_force: f64,
}

/// Smallest change of the probability that is set.
///
/// A decision per frame would carry no information.
const MIN_CHANGE: f64 = 0.002;

impl Lred {
    fn decide(&mut self, actions: &mut Actions) {
        let grown = (self.average - self.min) / (self.max - self.min);
        let p = grown.clamp(0.0, self.max_p);
        let ends = (p == 0.0) != (self.in_force == 0.0) || (p == self.max_p && p != self.in_force);
        if !ends && (p - self.in_force).abs() < MIN_CHANGE {
            return;
        }
        self.in_force = p;
        actions.because(Reason::new(
            "lred.retries",
            "{} retries per frame: {} of the packets",
            &[Value::Ratio(self.average), Value::Percent(p)],
        ));
        if self.ecn {
            actions.mark(Class::All, p);
        } else {
            actions.drop(Class::All, p);
        }
        if self.pacing && self.paced != (p > 0.0) {
            self.paced = p > 0.0;
            if self.paced {
                // Half of the time: the next packet goes one packet's time after the last.
                actions.set_airtime(Class::All, Share::new(0.5));
            } else {
                actions.lift_limit(Class::All);
            }
        }
    }
}

impl Control for Lred {
    fn on(&mut self, _now: Time, event: &Event<'_>, actions: &mut Actions) {
        // Broadcasts are never retransmitted.
        if let Event::Sent(sent) = event
            && sent.to.is_some()
        {
            let retries = f64::from(sent.attempts.saturating_sub(1));
            self.average += self.weight * (retries - self.average);
            self.decide(actions);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{actions, gateway, start_with};
    use crate::{Action, Sent, StartError};
    use fairmesh_units::{BitRate, FlowId, NodeId, Span};

    fn sent(attempts: u8) -> Event<'static> {
        Event::Sent(Sent {
            to: Some(NodeId(1)),
            flow: Some(FlowId(0)),
            ack: false,
            bytes: 1500,
            airtime: Span::from_millis(2),
            backoff: Span::ZERO,
            attempts,
            rate: BitRate(11_000_000),
            delivered: true,
            ack_bits: None,
        })
    }

    fn start(name: &str, parameters: &[(&str, f64)]) -> Result<Instance, StartError> {
        start_with(name, gateway(&[]), parameters)
    }

    #[test]
    fn the_probability_grows_with_retries_up_to_its_limit() {
        let parameters = [("weight", 1.0), ("min", 1.0), ("max", 5.0), ("max_p", 0.3)];
        let mut i = start("lred", &parameters).unwrap();
        let mut p = |attempts| {
            let actions = actions(&mut i, Time::ZERO, sent(attempts));
            actions.iter().find_map(|a| match a {
                Action::Drop { class: Class::All, probability } => Some(probability.0),
                _ => None,
            })
        };
        assert_eq!(p(2), None, "one retry is nothing");
        assert_eq!(p(3), Some(0.25));
        assert_eq!(p(7), Some(0.3), "the limit");
        assert_eq!(p(6), None, "still the limit");
        assert_eq!(p(1), Some(0.0));
    }

    /// Small changes of the probability are not reported, and no step is left out in between.
    #[test]
    fn small_changes_are_not_reported() {
        let parameters = [("weight", 0.01), ("min", 1.0), ("max", 5.0), ("max_p", 1.0)];
        let mut i = start("lred", &parameters).unwrap();
        let mut probabilities: Vec<f64> = Vec::new();
        for _ in 0..2000 {
            let actions = actions(&mut i, Time::ZERO, sent(3));
            probabilities.extend(actions.iter().filter_map(|a| match a {
                Action::Drop { probability, .. } => Some(probability.0),
                _ => None,
            }));
        }
        // Two retries per frame are a quarter of the range; a frame moves the average by 0.0025 at most.
        let last = *probabilities.last().unwrap();
        assert!((0.25 - MIN_CHANGE..=0.25).contains(&last), "{probabilities:?}");
        assert!(
            probabilities
                .windows(2)
                .all(|w| (MIN_CHANGE..3.0 * MIN_CHANGE).contains(&(w[1] - w[0]))),
            "{probabilities:?}"
        );
    }

    #[test]
    fn the_average_remembers() {
        let mut i = start("lred+ecn", &[("min", 0.5), ("max", 1.5), ("max_p", 1.0)]).unwrap();
        let mut last = 0.0;
        for _ in 0..8 {
            for a in actions(&mut i, Time::ZERO, sent(2)).iter() {
                if let Action::Mark { probability, .. } = a {
                    last = probability.0;
                }
            }
        }
        // 1 − (7/8)⁸ = 0.6564 retries.
        assert!((last - 0.1564).abs() < 2.0 * MIN_CHANGE, "{last}");
    }

    #[test]
    fn pacing_is_on_while_congested() {
        let mut i = start("lred+pacing", &[("weight", 1.0)]).unwrap();
        assert_eq!(i.plan.classes[0].limit, Limit::Airtime(Share::new(1.0)));
        let mut share = |attempts| {
            let actions = actions(&mut i, Time::ZERO, sent(attempts));
            actions.iter().find_map(|a| match a {
                Action::SetAirtime { class: Class::All, share } => Some(share.get()),
                Action::SetRate { class: Class::All, rate: None } => Some(1.0),
                _ => None,
            })
        };
        assert_eq!([share(1), share(3), share(4), share(1)], [None, Some(0.5), None, Some(1.0)]);
    }

    #[test]
    fn thresholds_must_be_in_order() {
        let refused = start("lred", &[("min", 5.0), ("max", 5.0)]).unwrap_err();
        assert_eq!(refused.to_string(), "lred: min must be below max, 5 is not below 5");
    }
}
