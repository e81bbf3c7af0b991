//! Echo probes through the mesh, for homes with packets that give no round trip.
//!
//! The module decides on the home and time of each probe and the round trip that an answer completes. All
//! hosts use this rule; the host sends the packets.
//!
//! Probes use airtime, so they are bounded in three dimensions: per home, per packet of the home, and over
//! all homes.

use std::collections::{BTreeMap, VecDeque};

use fairmesh_units::{Span, Time};

use super::Trip;
use crate::RoundTripSource;

/// Minimum time between two probes of a home.
const MIN_PROBE_INTERVAL: Span = Span::from_secs(1);
/// Part of [`MIN_PROBE_INTERVAL`] by which a probe may be early.
///
/// Control periods are not exactly one second.
const INTERVAL_SLACK: Span = Span::from_millis(500);
/// Minimum time between two probes of any home.
const MIN_GAP: Span = Span::from_millis(100);
/// Packets of a home that allow for one probe.
///
/// Probes are then a small part of the frames also in a slow mesh.
const PACKETS_PER_PROBE: u64 = 10;
/// Time after which an answer to a probe is no longer expected.
const PROBE_TIMEOUT: Span = Span::from_secs(4);
/// Unanswered probes in a row from which their age counts as a sign.
///
/// A single probe may be lost by chance.
const STALLED_PROBES: u32 = 2;
/// Unanswered probes in a row after which a home counts as unresponsive.
const MAX_UNANSWERED_PROBES: u32 = 5;
/// Pause after a home was given up for the first time; it doubles each further time.
const INITIAL_PAUSE: Span = Span::from_secs(10);
/// Number of times that the pause is doubled.
const MAX_DOUBLINGS: u32 = 6;

/// Maximum number of homes reported as unresponsive at a time.
const MAX_REPORTED_HOMES: usize = 100;

/// A home, by the host's number for it.
type Home = u32;

/// A probe to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The host's number for the home.
    pub home: u32,
    /// Sequence number of the echo request.
    pub sequence: u16,
    /// Number of times that the home was given up.
    ///
    /// It is an index into the host's addresses of the home, and wraps.
    pub attempt: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    sequence: u16,
    home: Home,
    at: Time,
}

#[derive(Clone, Copy, Default, Debug)]
struct Target {
    /// Packets since the last probe.
    packets: u64,
    /// True while the home is queued for a probe.
    queued: bool,
    /// Earliest time of the next probe.
    due: Time,
    /// Probes since the last answer, and the time of the first of them.
    unanswered: u32,
    since: Time,
    /// Number of times in a row that it was given up.
    given_up: u32,
    /// True if it has answered before and was not given up since.
    answers: bool,
}

/// Decides on the probes of all homes behind a gateway, and matches answers.
#[derive(Clone, Default, Debug)]
pub struct Probes {
    targets: BTreeMap<Home, Target>,
    turns: VecDeque<Home>,
    /// In the order of sending; at most those of [`PROBE_TIMEOUT`].
    waiting: VecDeque<Waiting>,
    sequence: u16,
    next: Time,
    /// Homes that were given up since [`Probes::given_up`] was called.
    unresponsive: Vec<Home>,
    sent: u64,
    answered: u64,
}

impl Probes {
    /// Records the packets that a home has carried since the last call without a round trip.
    pub fn want(&mut self, now: Time, home: u32, packets: u64) {
        let target = self.targets.entry(home).or_default();
        target.packets = target.packets.saturating_add(packets);
        let due = target.due <= now + INTERVAL_SLACK;
        if target.packets >= PACKETS_PER_PROBE
            && due
            && !core::mem::replace(&mut target.queued, true)
        {
            self.turns.push_back(home);
        }
    }

    /// Forgets homes that no longer exist.
    pub fn retain(&mut self, exists: impl Fn(u32) -> bool) {
        self.targets.retain(|home, _| exists(*home));
        self.turns.retain(|home| exists(*home));
        self.waiting.retain(|w| exists(w.home));
        self.unresponsive.retain(|home| exists(*home));
    }

    /// Time of the next probe; [`Time::NEVER`] while no home needs one.
    pub fn next_deadline(&self) -> Time {
        if self.turns.is_empty() { Time::NEVER } else { self.next }
    }

    /// Returns the probe that is due, if there is one. Call it until it returns `None`.
    pub fn poll(&mut self, now: Time) -> Option<Probe> {
        while self.waiting.front().is_some_and(|w| now.since(w.at) > PROBE_TIMEOUT) {
            self.waiting.pop_front();
        }
        if now < self.next {
            return None;
        }
        let home = self.turns.pop_front()?;
        let target = self.targets.get_mut(&home)?;
        (target.queued, target.packets) = (false, 0);
        target.due = now + MIN_PROBE_INTERVAL;
        if target.unanswered == 0 {
            target.since = now;
        }
        target.unanswered += 1;
        let attempt = target.given_up;
        // A home that was given up has one try at a time.
        let tries = if target.given_up == 0 { MAX_UNANSWERED_PROBES } else { 1 };
        if target.unanswered >= tries {
            target.due = now + INITIAL_PAUSE * (1 << target.given_up.min(MAX_DOUBLINGS));
            if target.given_up == 0 && self.unresponsive.len() < MAX_REPORTED_HOMES {
                self.unresponsive.push(home);
            }
            target.given_up = target.given_up.saturating_add(1);
            (target.unanswered, target.answers) = (0, false);
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.waiting.push_back(Waiting { sequence: self.sequence, home, at: now });
        self.next = now + MIN_GAP;
        self.sent += 1;
        Some(Probe { home, sequence: self.sequence, attempt })
    }

    /// Handles an answer by its sequence number; returns the home and the round trip.
    ///
    /// `None` if no probe waits for it.
    pub fn answer(&mut self, now: Time, sequence: u16) -> Option<(u32, Trip)> {
        let at = self.waiting.iter().position(|w| w.sequence == sequence)?;
        let Waiting { home, at, .. } = self.waiting.remove(at)?;
        let time = now.since(at);
        let target = self.targets.get_mut(&home).filter(|_| time <= PROBE_TIMEOUT)?;
        // Probes sent later stay pending; earlier ones were overtaken, so they are lost.
        let mut later = self.waiting.iter().filter(|w| w.home == home && w.at > at);
        let first = later.next().map(|w| w.at);
        target.since = first.unwrap_or(target.since);
        target.unanswered =
            target.unanswered.min(u32::from(first.is_some()) + later.count() as u32);
        (target.given_up, target.answers) = (0, true);
        self.answered += 1;
        Some((home, Trip::new(time, RoundTripSource::Probe)))
    }

    /// Returns the age of the first of several unanswered probes in a row.
    ///
    /// `None` for a home that does not otherwise answer.
    pub fn oldest(&self, now: Time, home: u32) -> Option<Span> {
        let target =
            self.targets.get(&home).filter(|t| t.answers && t.unanswered >= STALLED_PROBES)?;
        Some(now.since(target.since))
    }

    /// True while probes to a home pause because of missing answers.
    pub fn is_unresponsive(&self, home: u32) -> bool {
        self.targets.get(&home).is_some_and(|t| t.given_up > 0)
    }

    /// Returns the number of unresponsive homes.
    pub fn unresponsive(&self) -> usize {
        self.targets.values().filter(|t| t.given_up > 0).count()
    }

    /// Returns the homes that were given up since the last call.
    pub fn given_up(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.unresponsive)
    }

    /// Numbers of probes sent and answered.
    pub fn counts(&self) -> [u64; 2] {
        [self.sent, self.answered]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    /// Runs with a control period of one second; returns the probes by time in ms.
    fn run(
        probes: &mut Probes,
        from: u64,
        seconds: u64,
        packets: impl Fn(u32) -> u64,
        homes: u32,
        answers: impl Fn(u32) -> Option<u64>,
    ) -> Vec<(u64, u32)> {
        let (mut sent, mut back) = (Vec::new(), Vec::new());
        for now in from * 1000..(from + seconds) * 1000 {
            if now % 1000 == 0 {
                (0..homes).for_each(|h| probes.want(ms(now), h, packets(h)));
            }
            back.retain(|(at, sequence)| {
                if *at == now {
                    probes.answer(ms(now), *sequence).unwrap();
                }
                *at != now
            });
            while let Some(p) = probes.poll(ms(now)) {
                sent.push((now, p.home));
                back.extend(answers(p.home).map(|later| (now + later, p.sequence)));
            }
        }
        sent
    }

    #[test]
    fn a_home_is_probed_once_a_second_and_once_for_ten_packets() {
        let mut probes = Probes::default();
        let sent = run(&mut probes, 0, 10, |h| [100, 2][h as usize], 2, |_| Some(30));
        let of = |home| sent.iter().filter(|s| s.1 == home).count();
        assert_eq!((of(0), of(1)), (10, 2), "{sent:?}");
        assert_eq!(probes.counts(), [12, 12]);
    }

    #[test]
    fn ten_thousand_homes_share_ten_probes_a_second() {
        let mut probes = Probes::default();
        let sent = run(&mut probes, 0, 30, |_| 100, 10_000, |_| Some(30));
        assert_eq!(sent.len(), 300);
        assert!(sent.windows(2).all(|w| w[1].0 - w[0].0 >= 100));
        let homes: std::collections::BTreeSet<_> = sent.iter().map(|s| s.1).collect();
        assert_eq!(homes.len(), 300, "round robin");
        assert!(probes.waiting.len() <= 41 && probes.turns.len() <= 10_000);
        probes.retain(|home| home < 5);
        assert!(probes.targets.len() == 5 && probes.turns.len() <= 5);
    }

    #[test]
    fn a_home_that_does_not_answer_is_given_up_named_once_and_tried_again_later() {
        let mut probes = Probes::default();
        let sent = run(&mut probes, 0, 100, |_| 100, 1, |_| None);
        let seconds: Vec<u64> = sent.iter().map(|s| s.0 / 1000).collect();
        assert_eq!(seconds, [0, 1, 2, 3, 4, 14, 34, 74], "five tries, then pauses");
        assert_eq!((probes.given_up(), probes.is_unresponsive(0)), (vec![0], true));
        assert!(probes.given_up().is_empty());
        assert_eq!(probes.oldest(ms(100_000), 0), None, "it never answered");
        // The home answers: the pause is over.
        run(&mut probes, 500, 10, |_| 100, 1, |_| Some(20));
        assert!(!probes.is_unresponsive(0));
    }

    #[test]
    fn answers_are_matched_and_a_stall_shows_after_two_probes() {
        let mut probes = Probes::default();
        let send = |probes: &mut Probes, at| {
            probes.want(ms(at), 7, 10);
            probes.poll(ms(at)).unwrap().sequence
        };
        let first = send(&mut probes, 0);
        assert_eq!(probes.answer(ms(20), first.wrapping_add(9)), None, "never sent");
        let (home, trip) = probes.answer(ms(40), first).unwrap();
        assert_eq!((home, trip.time), (7, Span::from_millis(40)));
        assert_eq!(probes.answer(ms(41), first), None, "replayed");
        send(&mut probes, 1000);
        assert_eq!(probes.oldest(ms(1900), 7), None, "one may be lost by chance");
        send(&mut probes, 2000);
        assert_eq!(probes.oldest(ms(2100), 7), Some(Span::from_millis(1100)));
        let last = send(&mut probes, 3000);
        probes.answer(ms(3050), last).unwrap();
        assert_eq!(probes.oldest(ms(3100), 7), None);
        let late = send(&mut probes, 4000);
        assert_eq!(probes.answer(ms(9000), late), None, "too late to be believed");
    }

    proptest! {
        /// For any calls, memory, rate and round trips are bounded.
        #[test]
        fn probes_are_bounded(steps in proptest::collection::vec((0u32..30, 0u64..50, 0u64..400, any::<u16>()), 0..400)) {
            let (mut probes, mut now, mut sent, mut last) = (Probes::default(), 0, 0u64, None);
            for (home, packets, later, guess) in steps {
                now += later;
                probes.want(ms(now), home, packets);
                while let Some(p) = probes.poll(ms(now)) {
                    prop_assert!(last.is_none_or(|l| now - l >= 100));
                    (last, sent) = (Some(now), sent + 1);
                    if guess % 3 == 0 { probes.answer(ms(now), p.sequence); }
                }
                if let Some((_, trip)) = probes.answer(ms(now), guess % 64) {
                    prop_assert!(trip.time <= PROBE_TIMEOUT);
                }
                prop_assert!(probes.waiting.len() <= 42 && probes.targets.len() <= 30 && probes.turns.len() <= 30);
                prop_assert!(probes.oldest(ms(now), home).is_none_or(|o| o <= Span::from_millis(now)));
            }
            prop_assert_eq!(probes.counts()[0], sent);
        }
    }
}
