//! Round trips through the mesh as its gateway measures them from TCP headers.
//!
//! All hosts use this rule.
//!
//! For data that enters the mesh (downloads), a round trip lasts from a segment to the acknowledgement that
//! covers it. For data that leaves it (uploads), it lasts from an acknowledgement with the timestamp X to the
//! first data that echoes X (RFC 7323 §3; the method of pping). Both exclude the time before the packet
//! enters the mesh, so a limit at the gateway adds nothing.

use std::collections::VecDeque;

use fairmesh_units::{Span, Time};

use crate::{RoundTripSample, RoundTripSource};

/// Packets of one connection and direction that may wait for their answers at a time.
///
/// Further packets are not remembered: the oldest one shows a stall, and sixteen samples per round trip suffice.
const MAX_PENDING_PACKETS: usize = 16;
/// Number of latest samples of a control period that enter the median.
const MEDIAN_SAMPLES: usize = 32;
/// Period of the minimum round trip, 60 s: a minimum is forgotten after one to two periods.
const BASE_PERIOD: Span = Span::from_secs(60);
/// Longest delay of an acknowledgement of one segment, 200 ms.
///
/// It is the timer of Linux and Windows. RFC 1122 §4.2.3.2 allows 500 ms.
const MAX_ACK_DELAY: Span = Span::from_millis(200);
/// Idle time after which an upload counts as ended, as far as echoes are expected.
const UPLOAD_TIMEOUT: Span = Span::from_secs(3);
/// Age from which the last round trip of a flow's own packets no longer replaces probes.
const OWN_TRIP_LIFETIME: Span = Span::from_secs(3);
/// Time for which a stall without any answer counts: TCP has retried five times by then.
///
/// A home that withholds its acknowledgements must not limit others for longer.
const MAX_STALL: Span = Span::from_secs(60);
/// Time without a stall after which the next one counts again.
const STALL_RESET_TIME: Span = Span::from_secs(120);
/// Largest number of data bytes of a packet that is one segment.
const ONE_SEGMENT: u32 = 1500;

/// One measured round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trip {
    /// Time from the packet that entered the mesh to its answer.
    pub time: Span,
    /// True for an acknowledgement of one segment alone, which the receiver may have delayed.
    pub maybe_delayed: bool,
    /// Method of measurement.
    pub source: RoundTripSource,
}

impl Trip {
    /// A round trip without any timer of the receiver.
    pub const fn new(time: Span, source: RoundTripSource) -> Self {
        Trip { time, maybe_delayed: false, source }
    }

    /// Returns the time without the possible delay of a receiver's timer.
    ///
    /// That delay carries no information about the mesh. Not below the minimum round trip.
    fn without_timer(self, base: Span) -> Span {
        let shortest = self.time.min(base);
        if self.maybe_delayed {
            self.time.saturating_sub(MAX_ACK_DELAY).max(shortest)
        } else {
            self.time
        }
    }
}

/// A packet that entered the mesh and has not been answered.
#[derive(Clone, Copy, Debug)]
struct PendingPacket {
    /// End of the data, or a timestamp.
    number: u64,
    at: Time,
    /// Number of the segment in the order of sending, which wraps; 0 for an acknowledgement.
    segment: u16,
    /// True if it cannot be several segments that the kernel has merged (GRO).
    single: bool,
    /// True after a retransmission: the answer is ambiguous (Karn's rule, RFC 6298 §3).
    ambiguous: bool,
}

/// Direction of a packet at the interface to the mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Into the mesh.
    Enters,
    /// Out of the mesh.
    Leaves,
}

/// Data of one direction of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Sequence number after them, which does not wrap.
    pub end: u64,
    /// Bytes.
    pub len: u32,
    /// True if they contain nothing beyond the highest seen.
    pub again: bool,
    /// TSecr (RFC 7323 §3.2).
    pub echo: Option<u32>,
}

/// Acknowledgement of the data of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Sequence number before which all data have arrived.
    pub before: u64,
    /// Highest number that a selective acknowledgement covers (RFC 2018), exclusive.
    pub selective: Option<u64>,
    /// TSval (RFC 7323 §3.2).
    pub value: Option<u32>,
    /// True if more data are in flight.
    pub more: bool,
}

/// Unanswered packets of one direction of one connection.
///
/// They are data that enter the mesh, or the acknowledgements of data that leave it.
#[derive(Clone, Default, Debug)]
pub struct Trips {
    waiting: VecDeque<PendingPacket>,
    newest: u64,
    segments: u16,
    answered: u16,
    /// True if data leave the mesh.
    upload: bool,
    /// Time of the last data that left the mesh.
    left: Time,
    /// True while data of an upload that left the mesh are not acknowledged.
    ///
    /// Earlier data are missing and will follow.
    more: bool,
}

impl Trips {
    /// Maximum memory in bytes.
    pub const LARGEST: usize = size_of::<Self>() + MAX_PENDING_PACKETS * size_of::<PendingPacket>();

    /// Handles data; returns the round trip that they complete.
    pub fn data(&mut self, now: Time, side: Side, data: &Data) -> Option<Trip> {
        if data.len == 0 {
            return None;
        }
        if side == Side::Enters {
            self.sent(now, data.end, data.len);
            return None;
        }
        (self.upload, self.left) = (true, now);
        self.echoed(now, data.echo?, data.again)
    }

    /// Handles an acknowledgement; returns the round trip that it completes.
    pub fn answer(&mut self, now: Time, side: Side, answer: &Answer) -> Option<Trip> {
        if side == Side::Leaves {
            return self.answered(now, answer.before, answer.selective);
        }
        // While more data are in flight, the sender waits for the acknowledgement. A sender without more to send would
        // send its next data at any time.
        self.more = answer.more;
        if let Some(value) = answer.value.filter(|_| answer.more) {
            self.asked(now, value);
        }
        None
    }

    /// Handles data that enters the mesh: `len` bytes up to the unwrapped sequence number `end`.
    fn sent(&mut self, now: Time, end: u64, len: u32) {
        if end <= self.newest {
            self.waiting.iter_mut().for_each(|w| w.ambiguous = true);
            return;
        }
        self.newest = end;
        self.segments = self.segments.wrapping_add(1);
        let segment = self.segments;
        let single = len <= ONE_SEGMENT;
        self.remember(PendingPacket { number: end, at: now, segment, single, ambiguous: false });
    }

    /// Handles an acknowledgement that leaves the mesh.
    ///
    /// It is of everything before `before`, and by SACK of data up to `selective` (RFC 2018). Returns the round trip of
    /// the last segment that it covers.
    fn answered(&mut self, now: Time, before: u64, selective: Option<u64>) -> Option<Trip> {
        let upto = selective.unwrap_or(0).max(before);
        let last = self.take_up_to(upto)?;
        let covered = last.segment.wrapping_sub(self.answered);
        self.answered = last.segment;
        let maybe_delayed = covered == 1 && last.single;
        let trip = Trip::new(now.since(last.at), RoundTripSource::Tcp);
        (!last.ambiguous).then_some(Trip { maybe_delayed, ..trip })
    }

    /// Handles an acknowledgement that enters the mesh with this TSval (RFC 7323 §3.2).
    fn asked(&mut self, now: Time, value: u32) {
        let number = self.unwrapped(value);
        if number > self.newest {
            self.newest = number;
            self.remember(PendingPacket {
                number,
                at: now,
                segment: 0,
                single: true,
                ambiguous: false,
            });
        }
    }

    /// Handles data that leave the mesh and echo this timestamp (TSecr).
    ///
    /// `again`: they contain nothing beyond the highest seen, so that a timer may have released them and not the
    /// acknowledgement. Returns the round trip of the acknowledgement with this timestamp; `None` if the echo is not
    /// the first.
    fn echoed(&mut self, now: Time, value: u32, again: bool) -> Option<Trip> {
        let number = self.unwrapped(value);
        let last = self.take_up_to(number)?;
        let first = last.number == number && !again;
        first.then(|| Trip::new(now.since(last.at), RoundTripSource::Tcp))
    }

    /// Returns the age of the oldest unanswered packet.
    ///
    /// For an upload, only while its data come or some of them are missing, since an acknowledgement that releases no
    /// data is not answered.
    pub fn oldest(&self, now: Time) -> Option<Span> {
        let over = self.upload && !self.more && now.since(self.left) > UPLOAD_TIMEOUT;
        self.waiting.front().filter(|_| !over).map(|w| now.since(w.at))
    }

    /// Releases memory while no packet waits.
    pub fn tidy(&mut self) {
        if self.waiting.is_empty() {
            self.waiting.shrink_to_fit();
        }
    }

    fn remember(&mut self, asked: PendingPacket) {
        if self.waiting.len() < MAX_PENDING_PACKETS {
            self.waiting.push_back(asked);
        }
    }

    /// Removes the packets that are answered; returns the last of them.
    fn take_up_to(&mut self, number: u64) -> Option<PendingPacket> {
        let count = self.waiting.partition_point(|w| w.number <= number);
        self.waiting.drain(..count).next_back()
    }

    /// Converts a timestamp that wraps at 2³² to a number that does not, nearest to the newest.
    fn unwrapped(&self, value: u32) -> u64 {
        if self.newest == 0 {
            return (1 << 32) + u64::from(value);
        }
        let away = value.wrapping_sub(self.newest as u32).cast_signed();
        self.newest.saturating_add_signed(away.into())
    }
}

/// Round trips of one method.
#[derive(Clone, Copy, Default, Debug)]
struct Method {
    /// Number since the last sample.
    count: u32,
    /// Minimum of this period and of the preceding one.
    least: [Option<Span>; 2],
}

/// Collects the round trips of a flow, or of all connections of a home in one direction.
#[derive(Clone, Default, Debug)]
pub struct RoundTrips {
    latest: Vec<Trip>,
    /// Number since the last sample, by any method.
    count: u32,
    /// Round trips by [`RoundTripSource`].
    ///
    /// An echo is shorter than a full segment, so each method has its own minimum.
    methods: [Method; 3],
    since: Time,
    /// Time of the last round trip of the flow's own packets.
    own: Option<Time>,
    /// Sending time of the last packet that has been answered.
    answered: Option<Time>,
    stall: Option<Stall>,
}

/// An interval without answers.
#[derive(Clone, Copy, Debug)]
struct Stall {
    since: Time,
    seen: Time,
}

impl RoundTrips {
    /// Adds a round trip.
    pub fn add(&mut self, now: Time, trip: Trip) {
        if now.since(self.since) >= BASE_PERIOD {
            let long = now.since(self.since) >= BASE_PERIOD * 2;
            for m in &mut self.methods {
                m.least = [None, m.least[0].filter(|_| !long)];
            }
            self.since = now;
        }
        if trip.source != RoundTripSource::Probe {
            self.own = Some(now);
        }
        let sent = Time::from_nanos(now.as_nanos().saturating_sub(trip.time.as_nanos()));
        self.answered = self.answered.max(Some(sent));
        self.stall = None;
        let method = &mut self.methods[trip.source as usize];
        method.count += 1;
        method.least[0] = Some(method.least[0].map_or(trip.time, |l| l.min(trip.time)));
        if self.latest.len() < MEDIAN_SAMPLES {
            self.latest.push(trip);
        } else {
            self.latest[self.count as usize % MEDIAN_SAMPLES] = trip;
        }
        self.count += 1;
    }

    /// True if the flow's own packets gave no recent round trip, so that a probe is useful.
    pub fn lack(&self, now: Time) -> bool {
        self.own.is_none_or(|at| now.since(at) > OWN_TRIP_LIFETIME)
    }

    /// Returns the age of a stall of all packets in the mesh, given the oldest unanswered one.
    ///
    /// In a stall no packet sent since then has been answered. `None` while others are answered, for example
    /// if one connection withholds its acknowledgements, and after a minute without any answer, until the
    /// next answer.
    pub fn stalled(&mut self, now: Time, oldest: Option<Span>) -> Option<Span> {
        let sent = Time::from_nanos(now.as_nanos().saturating_sub(oldest?.as_nanos()));
        let from = self.answered.map_or(sent, |at| at.max(sent));
        let stall = self.stall.filter(|s| now.since(s.seen) <= STALL_RESET_TIME);
        let since = stall.map_or(from, |s| s.since);
        self.stall = Some(Stall { since, seen: now });
        (now.since(since) <= MAX_STALL).then(|| now.since(from))
    }

    /// True if nothing has been answered for so long that a stall no longer counts.
    pub fn withholds(&self, now: Time) -> bool {
        let stall = self.stall.filter(|s| now.since(s.seen) <= STALL_RESET_TIME);
        stall.is_some_and(|s| now.since(s.since) > MAX_STALL)
    }

    /// Ends a control period: returns its round trips, or `None` if there were none.
    pub fn look(&mut self) -> Option<RoundTripSample> {
        let mut look = RoundTripLook::default();
        look.take(self);
        look.sample()
    }
}

/// Round trips of one method in a control period.
#[derive(Clone, Default, Debug)]
struct PeriodTrips {
    times: Vec<Span>,
    least: Option<Span>,
    count: u32,
}

/// Merged round trips of several flows that count as one.
#[derive(Clone, Default, Debug)]
pub struct RoundTripLook {
    /// By [`RoundTripSource`].
    methods: [PeriodTrips; 3],
}

impl RoundTripLook {
    /// Adds the round trips of a flow since its last sample.
    pub fn take(&mut self, flow: &mut RoundTrips) {
        let base = flow.methods.map(|m| m.least.into_iter().flatten().min());
        for ((looked, method), base) in self.methods.iter_mut().zip(&mut flow.methods).zip(base) {
            looked.least = looked.least.into_iter().chain(base).min();
            looked.count += core::mem::take(&mut method.count);
        }
        flow.count = 0;
        for trip in flow.latest.drain(..) {
            let source = trip.source as usize;
            let time = base[source].map_or(trip.time, |base| trip.without_timer(base));
            self.methods[source].times.push(time);
        }
    }

    /// Returns the control period's round trips by the preferred method that had any, or `None`.
    pub fn sample(self) -> Option<RoundTripSample> {
        let found = RoundTripSource::ALL.into_iter().zip(self.methods);
        let (source, mut looked) = found.into_iter().find(|(_, l)| !l.times.is_empty())?;
        looked.times.sort_unstable();
        let median = *looked.times.get(looked.times.len() / 2)?;
        Some(RoundTripSample { median, base: looked.least?, count: looked.count, source })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    fn trip(time: u64, maybe_delayed: bool) -> Option<Trip> {
        let source = RoundTripSource::Tcp;
        Some(Trip { time: Span::from_millis(time), maybe_delayed, source })
    }

    #[test]
    fn an_acknowledgement_gives_the_round_trip_of_the_last_segment_it_covers() {
        let mut t = Trips::default();
        t.sent(ms(0), 1000, 1000);
        t.sent(ms(10), 2000, 1000);
        t.sent(ms(20), 3000, 1000);
        assert_eq!(t.answered(ms(50), 2000, None), trip(40, false));
        assert_eq!(t.oldest(ms(60)), Some(Span::from_millis(40)));
        // One segment alone may have waited for a timer; several that the kernel merged have not.
        assert_eq!(t.answered(ms(70), 3000, None), trip(50, true));
        t.sent(ms(80), 6000, 3000);
        assert_eq!(t.answered(ms(90), 6000, None), trip(10, false));
        // The same acknowledgement again covers nothing.
        assert_eq!(t.answered(ms(99), 6000, None), None);
        assert_eq!(t.oldest(ms(99)), None);
    }

    #[test]
    fn nothing_is_measured_across_a_retransmission() {
        let mut t = Trips::default();
        t.sent(ms(0), 1000, 1000);
        t.sent(ms(1), 2000, 1000);
        t.sent(ms(300), 1000, 1000);
        assert_eq!(t.oldest(ms(310)), Some(Span::from_millis(310)), "it still waits");
        assert_eq!(t.answered(ms(320), 2000, None), None);
        t.sent(ms(330), 3000, 1000);
        assert_eq!(t.answered(ms(340), 3000, None), trip(10, true));
    }

    #[test]
    fn a_selective_acknowledgement_covers_earlier_data() {
        let mut t = Trips::default();
        for k in 1..=4 {
            t.sent(ms(k), 1000 * k, 1000);
        }
        // The first is lost; the third has arrived.
        assert_eq!(t.answered(ms(40), 0, Some(3000)), trip(37, false));
        assert_eq!(t.oldest(ms(44)), Some(Span::from_millis(40)), "the fourth");
    }

    #[test]
    fn an_echo_gives_the_round_trip_of_an_upload_once_also_where_timestamps_wrap() {
        for first in [7, u32::MAX - 1] {
            let mut t = Trips::default();
            t.asked(ms(0), first);
            t.asked(ms(1), first);
            t.asked(ms(5), first.wrapping_add(5));
            assert_eq!(t.echoed(ms(30), first, false), trip(30, false));
            assert_eq!(
                t.echoed(ms(31), first, false),
                None,
                "the second packet that one acknowledgement released"
            );
            assert_eq!(t.echoed(ms(45), first.wrapping_add(5), false), trip(40, false));
            assert_eq!(t.oldest(ms(45)), None);
            // A retransmission is sent when a timer has expired.
            t.asked(ms(50), first.wrapping_add(9));
            assert_eq!(t.echoed(ms(900), first.wrapping_add(9), true), None);
        }
    }

    #[test]
    fn an_upload_waits_on_while_data_before_others_are_missing() {
        let silent = |more: bool| {
            let mut t = Trips::default();
            let answer = |more| Answer { before: 1000, selective: None, value: Some(7), more };
            let data = Data { end: 3000, len: 1000, again: false, echo: Some(1) };
            t.data(ms(0), Side::Leaves, &data);
            t.answer(ms(1), Side::Enters, &answer(true));
            t.answer(ms(2), Side::Enters, &answer(more));
            t.oldest(ms(5_000))
        };
        // The sender's timer will repeat them; if all have arrived, the upload may be over.
        assert_eq!(silent(true), Some(Span::from_millis(4_999)));
        assert_eq!(silent(false), None);
    }

    #[test]
    fn a_sample_has_the_median_without_timer_delays() {
        let mut r = RoundTrips::default();
        assert_eq!(r.look(), None);
        for (time, delayed) in [(20, false), (230, true), (40, false)] {
            r.add(ms(0), trip(time, delayed).unwrap());
        }
        let look = |median, base, count| {
            let (median, base) = (Span::from_millis(median), Span::from_millis(base));
            Some(RoundTripSample { median, base, count, source: RoundTripSource::Tcp })
        };
        assert_eq!(r.look(), look(30, 20, 3));
        assert_eq!(r.look(), None, "nothing new");
        r.add(ms(61_000), trip(90, false).unwrap());
        assert_eq!(r.look(), look(90, 20, 1));
        r.add(ms(122_000), trip(80, false).unwrap());
        assert_eq!(r.look(), look(80, 80, 1), "the least of two minutes ago is forgotten");
    }

    /// An echo of 64 bytes is faster than a segment: it must not become the base of segments.
    #[test]
    fn each_method_has_its_own_base_and_the_preferred_one_counts() {
        let mut r = RoundTrips::default();
        let add = |r: &mut RoundTrips, at, time, source| {
            r.add(ms(at), Trip::new(Span::from_millis(time), source));
        };
        let look = |r: &mut RoundTrips| {
            let l = r.look()?;
            Some((l.median.as_nanos() / 1_000_000, l.base.as_nanos() / 1_000_000, l.source))
        };
        assert!(r.lack(ms(0)));
        add(&mut r, 0, 3, RoundTripSource::Probe);
        assert!(r.lack(ms(0)), "a probe does not replace the flow's own round trips");
        assert_eq!(look(&mut r), Some((3, 3, RoundTripSource::Probe)));
        add(&mut r, 100, 20, RoundTripSource::Tcp);
        add(&mut r, 100, 7, RoundTripSource::Spin);
        add(&mut r, 100, 4, RoundTripSource::Probe);
        assert!(!r.lack(ms(3000)) && r.lack(ms(3200)));
        assert_eq!(look(&mut r), Some((20, 20, RoundTripSource::Tcp)));
        assert_eq!(look(&mut r), None);
        add(&mut r, 200, 9, RoundTripSource::Probe);
        assert_eq!(look(&mut r), Some((9, 3, RoundTripSource::Probe)));
    }

    /// A home that withholds the acknowledgements of one connection, or of all.
    #[test]
    fn a_stall_counts_while_nothing_else_is_answered_and_a_minute_at_most() {
        let age = |n| Some(Span::from_millis(n));
        let mut r = RoundTrips::default();
        assert_eq!(r.stalled(ms(1000), None), None);
        assert_eq!(r.stalled(ms(5000), age(3000)), age(3000));
        // Another connection's packet, sent 20 ms ago, is answered.
        r.add(ms(5100), trip(20, false).unwrap());
        assert_eq!(r.stalled(ms(5200), age(3200)), age(120));
        for second in 6..65 {
            assert!(r.stalled(ms(1000 * second), age(1000 * second - 2000)).is_some());
            assert!(!r.withholds(ms(1000 * second)));
        }
        assert_eq!(r.stalled(ms(66_000), age(64_000)), None);
        // A new connection instead of the old one changes nothing; an answer or two minutes without a stall do.
        assert_eq!(r.stalled(ms(67_000), age(500)), None);
        assert!(r.withholds(ms(67_000)));
        r.add(ms(68_000), trip(20, false).unwrap());
        assert!(!r.withholds(ms(68_000)));
        assert_eq!(r.stalled(ms(69_000), age(900)), age(900));
        r.stalled(ms(140_000), age(900));
        assert!(r.withholds(ms(140_000)));
        assert_eq!(r.stalled(ms(261_000), age(900)), age(900));
    }

    /// A capture that loses half of the packets without notice gives fewer round trips.
    ///
    /// They are too long by the distance of a few packets at most, since the next captured acknowledgement
    /// covers later data.
    #[test]
    fn half_of_the_packets_give_round_trips_of_the_same_length() {
        let mut t = Trips::default();
        let (mut random, mut found) = (7u64, Vec::new());
        let mut seen = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 63 == 1
        };
        // A segment each 5 ms, acknowledged after 40 ms each.
        for now in (0..20_000).step_by(5) {
            if seen() {
                t.sent(ms(now), 1000 * (now / 5 + 1), 1000);
            }
            if now >= 40 && seen() {
                found.extend(t.answered(ms(now), 1000 * ((now - 40) / 5 + 1), None));
            }
        }
        found.sort_by_key(|f| f.time);
        let at = |part: usize| found[found.len() * part / 100].time;
        assert!(found.len() > 1000, "{}", found.len());
        assert_eq!(found[0].time, Span::from_millis(40), "never too short");
        assert!(at(50) <= Span::from_millis(45) && at(95) <= Span::from_millis(60));
    }

    proptest! {
        /// For any packets and a clock that jumps, memory is bounded, and round trips are plausible.
        ///
        /// No round trip is longer than the connection or starts before the packet that it answers.
        #[test]
        fn round_trips_are_bounded(events in proptest::collection::vec((0u8..4, 0u64..5_000, 0u64..40), 0..300)) {
            let (mut t, mut r, mut now) = (Trips::default(), RoundTrips::default(), 0);
            let upload = events.len() % 2 == 1;
            for (kind, number, later) in events {
                now += later;
                if later == 39 {
                    now = if number % 2 == 0 { now / 2 } else { 2 * now };
                }
                let found = match kind {
                    0 | 1 if upload => { t.asked(ms(now), number as u32); None }
                    0 | 1 => { t.sent(ms(now), number, 1000); None }
                    _ if upload => t.echoed(ms(now), number as u32, false),
                    2 => t.answered(ms(now), number, None),
                    _ => t.answered(ms(now), number, Some(number + 1000)),
                };
                prop_assert!(t.waiting.len() <= MAX_PENDING_PACKETS);
                prop_assert!(found.is_none_or(|f| f.time <= Span::from_millis(now)));
                let oldest = t.oldest(ms(now));
                prop_assert!(oldest.is_none_or(|o| o <= Span::from_millis(now)));
                let stalled = r.stalled(ms(now), oldest);
                prop_assert!(stalled <= oldest && stalled.is_none_or(|s| s <= MAX_STALL));
                found.into_iter().for_each(|trip| r.add(ms(now), trip));
            }
        }
    }
}
