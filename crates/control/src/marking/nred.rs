//! `nred`: neighbourhood RED (Triantafyllidou 2005 §5.1.2; Xu, Gerla, Qi, Shu, MobiCom 2003).
//!
//! A node and all nodes in its range share one distributed queue, and no node can measure its length. The
//! utilisation of the channel stands for it:
//!
//! - detection: the busy fraction of the channel, averaged with RED's weight; between two
//!   thresholds RED's probability `p = p_max (avg − min) / (max − min)`;
//! - notification: an overloaded neighbourhood announces p, normalised by its utilisation, in a
//!   broadcast of three bytes;
//! - distributed drop: a node drops (or with `+ecn` marks) with the largest normalised p that it
//!   has received or computed, times its own fraction of the channel, sent and received.
//!
//! Thresholds are fractions of the channel's time; docs/controls/nred.md gives their origin.

use fairmesh_units::{Span, Time};

use crate::options;
use crate::survey::{Reading, Survey};
use crate::{
    Ability, AbilitySet, Actions, Channel, Class, Control, Definition, Event, EventKind, EventSet,
    Instance, Needs, Origin, Placement, PlacementSet, Plan, Reason, Refusal, Setting, Value,
};

options! {
    /// Options of `nred`.
    pub(crate) struct Options {
        variants {
            ecn: Origin::published("Triantafyllidou 2005 §5.1.2"), "marks ECN-capable packets instead of dropping";
        }
        parameters {
            min: f64 = 0.5, 0.0..=1.0, "", "busy part of the channel without drops";
            max: f64 = 1.0, 0.01..=2.0, "", "busy part at which the largest probability is reached";
            max_p: f64 = 0.1, 0.001..=1.0, "", "largest probability";
            weight: f64 = 0.2, 0.001..=1.0, "", "weight of a new sample in the average";
            period: Span = 0.1, 0.01..=10.0, "s", "time between samples";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "every node drops by the utilisation of its neighbourhood and its own part of it";
    Definition::new(
        "nred",
        about,
        Origin::published("Triantafyllidou 2005 §5.1.2 (Xu et al. 2003)"),
    )
    .with_options(needs, build)
}

/// First byte of a notification.
const TAG: u8 = 0x4e;
/// Number of periods for which a notification is valid.
const NOTIFICATION_PERIODS: u64 = 4;

fn needs(options: &Options) -> Vec<Needs> {
    let way = if options.ecn { Ability::Mark } else { Ability::Drop };
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: EventSet::of(&[EventKind::Channel, EventKind::Messages]),
        abilities: AbilitySet::of(&[Ability::Send, way]),
        ..Needs::default()
    }]
}

fn build(options: &Options, _: Setting) -> Result<Instance, Refusal> {
    let (min, max) = (options.min, options.max);
    if min >= max {
        return Err(Refusal::thresholds(min, max));
    }
    let period = options.period;
    Ok(Instance {
        control: Box::new(Nred {
            ecn: options.ecn,
            min,
            max,
            max_p: options.max_p,
            survey: Survey::new(options.weight),
            channel: None,
            before: None,
            own: 0.0,
            largest_received: 0.0,
            until: Time::ZERO,
            in_force: 0.0,
            period,
            due: Time::ZERO + period,
        }),
        plan: Plan::none(),
    })
}

#[derive(Debug)]
struct Nred {
    ecn: bool,
    min: f64,
    max: f64,
    max_p: f64,
    survey: Survey,
    channel: Option<Channel>,
    before: Option<Channel>,
    /// Fraction of the channel's time in which this node sends or receives.
    own: f64,
    /// Largest normalised probability received.
    largest_received: f64,
    /// Time until which it is valid.
    until: Time,
    in_force: f64,
    period: Span,
    due: Time,
}

impl Nred {
    fn sample(&mut self) {
        let Some(now) = self.channel.take() else { return };
        let reading = self.survey.sample(&now, false);
        let Some(before) = self.before.replace(now) else { return };
        if let Reading::Busy(_) = reading {
            let active = now.active.saturating_sub(before.active).as_secs_f64();
            let grown = |to: Span, from: Span| to.saturating_sub(from).as_secs_f64();
            let own = grown(now.transmit, before.transmit) + grown(now.receive, before.receive);
            self.own = (own / active).min(1.0);
        }
    }

    /// Returns RED's probability for a queue that keeps this fraction of the channel busy.
    fn probability(&self, busy: f64) -> f64 {
        ((busy - self.min) / (self.max - self.min)).clamp(0.0, 1.0) * self.max_p
    }

    fn decide(&mut self, now: Time, actions: &mut Actions) {
        self.sample();
        if now > self.until {
            self.largest_received = 0.0;
        }
        let busy = self.survey.average.unwrap_or(0.0);
        let p = self.probability(busy);
        let mine = if p > 0.0 { p / busy } else { 0.0 };
        if mine > 0.0 {
            actions.because(Reason::new(
                "nred.congestion",
                "the channel is busy {} of the time: neighbours receive a probability of {}",
                &[Value::Percent(busy), Value::Percent(p)],
            ));
            // 16 bits for 0 to 1: p is at most max_p, and busy at least min.
            let code = (mine.min(1.0) * 65_535.0) as u16;
            let [high, low] = code.to_be_bytes();
            actions.send(None, &[TAG, high, low]);
        }
        let local = (mine.max(self.largest_received) * self.own).min(1.0);
        if local == self.in_force {
            return;
        }
        self.in_force = local;
        actions.because(Reason::new(
            "nred.share",
            "{} of the channel's time is this node's: {} of its packets",
            &[Value::Percent(self.own), Value::Percent(local)],
        ));
        if self.ecn {
            actions.mark(Class::All, local);
        } else {
            actions.drop(Class::All, local);
        }
    }
}

impl Control for Nred {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Channel(c) => self.channel = Some(*c),
            Event::Message(m) => {
                if let [TAG, high, low] = *m.body {
                    let p = f64::from(u16::from_be_bytes([high, low])) / 65_535.0;
                    // A smaller value does not replace a larger one that is still valid.
                    if p >= self.largest_received || now > self.until {
                        self.largest_received = p;
                        self.until = now + self.period.saturating_mul(NOTIFICATION_PERIODS);
                    }
                }
            }
            Event::Deadline if now >= self.due => {
                self.decide(now, actions);
                self.due = now + self.period;
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{actions, gateway, start_with};
    use crate::{Action, Message};
    use fairmesh_units::NodeId;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    /// Takes sample n with this busy time, half of it this node's.
    fn sample(i: &mut Instance, n: u64, busy_ms: u64) -> Actions {
        let channel = Channel {
            active: Span::from_millis(100 * n),
            busy: Span::from_millis(busy_ms),
            receive: Span::from_millis(busy_ms / 4),
            transmit: Span::from_millis(busy_ms / 4),
        };
        actions(i, ms(100 * n), Event::Channel(channel));
        actions(i, ms(100 * n), Event::Deadline)
    }

    fn drops(actions: &Actions) -> Vec<f64> {
        let p = |a: &Action| match a {
            Action::Drop { class: Class::All, probability } => Some(probability.0),
            _ => None,
        };
        actions.iter().filter_map(p).collect()
    }

    fn sent_messages(actions: &Actions) -> Vec<Vec<u8>> {
        let sent = |a: &&Action| matches!(a, Action::Send { to: None, .. });
        actions.iter().filter(sent).map(|a| actions.body(a).to_vec()).collect()
    }

    #[test]
    fn probability_grows_between_the_thresholds_and_is_shared_by_use() {
        let parameters = [("weight", 1.0), ("min", 0.5), ("max", 1.0), ("max_p", 0.2)];
        let mut i = start_with("nred", gateway(&[]), &parameters).unwrap();
        sample(&mut i, 1, 40);
        assert!(sample(&mut i, 2, 80).is_empty(), "40 % busy: below the threshold");
        // 80 ms busy: p = 0.2 · 0.3 / 0.5 = 0.12, normalised 0.15; half of the 80 % are this node's.
        let busy = sample(&mut i, 3, 160);
        let [p] = drops(&busy)[..] else { panic!("{busy:?}") };
        assert!((p - 0.15 * 0.4).abs() < 1e-9, "{p}");
        let code = (0.15 * 65_535.0) as u16;
        let [high, low] = code.to_be_bytes();
        assert_eq!(sent_messages(&busy), [vec![TAG, high, low]]);
        assert_eq!(drops(&sample(&mut i, 4, 160)), [0.0], "an idle period ends it");
    }

    #[test]
    fn a_notification_holds_for_a_while() {
        let mut i = start_with("nred", gateway(&[]), &[("weight", 1.0)]).unwrap();
        sample(&mut i, 1, 0);
        let body = [TAG, 0x80, 0x00];
        actions(&mut i, ms(150), Event::Message(Message { from: NodeId(1), body: &body }));
        // 40 % busy by itself: half of that is this node's own use.
        let [p] = drops(&sample(&mut i, 2, 40))[..] else { panic!() };
        assert!((p - 0.5 * 0.2).abs() < 1e-4, "{p}");
        let weaker = [TAG, 0x10, 0x00];
        actions(&mut i, ms(250), Event::Message(Message { from: NodeId(2), body: &weaker }));
        assert_eq!(drops(&sample(&mut i, 3, 80)), [], "the stronger one still holds");
        sample(&mut i, 4, 120);
        sample(&mut i, 5, 160);
        assert_eq!(drops(&sample(&mut i, 6, 200)), [0.0]);
        for junk in [&[][..], &[TAG], &[TAG, 1, 2, 3], &[0, 1, 2]] {
            actions(&mut i, ms(650), Event::Message(Message { from: NodeId(1), body: junk }));
        }
        assert_eq!(drops(&sample(&mut i, 7, 240)), [], "not its own messages");
    }

    /// The last of the four periods is included.
    ///
    /// A notification of equal strength starts them again.
    #[test]
    fn a_weaker_notification_counts_only_when_the_stronger_one_is_over() {
        let deliver = |i: &mut Instance, at: u64, body: [u8; 3]| {
            actions(i, ms(at), Event::Message(Message { from: NodeId(1), body: &body }));
        };
        let (strong, weak) = ([TAG, 0x80, 0x00], [TAG, 0x10, 0x00]);
        let start = || {
            let mut i = start_with("nred", gateway(&[]), &[("weight", 1.0)]).unwrap();
            sample(&mut i, 1, 0);
            deliver(&mut i, 150, strong);
            for n in 2..=5 {
                sample(&mut i, n, 40 * (n - 1));
            }
            i
        };
        let mut i = start();
        deliver(&mut i, 550, weak);
        assert_eq!(drops(&sample(&mut i, 6, 200)), [0.0], "150 + 4 × 100 is not over at 550");
        let mut i = start();
        deliver(&mut i, 551, weak);
        let [p] = drops(&sample(&mut i, 6, 200))[..] else { panic!() };
        assert!((p - 0.0625 * 0.2).abs() < 1e-4, "{p}");
        let mut i = start();
        deliver(&mut i, 540, strong);
        assert_eq!(drops(&sample(&mut i, 6, 200)), [], "as strong: it holds on");
    }

    #[test]
    fn thresholds_must_be_in_order() {
        let refused = start_with("nred", gateway(&[]), &[("min", 0.8), ("max", 0.8)]).unwrap_err();
        assert_eq!(refused.to_string(), "nred: min must be below max, 0.8 is not below 0.8");
    }
}
