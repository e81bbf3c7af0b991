//! One connection, reconstructed from its headers.

use fairmesh_control::host::{Answer, Data, Side, Signs, Trip, Trips};
use fairmesh_linux::Direction;
use fairmesh_linux::capture::Header;
use fairmesh_units::{Span, Time};

/// Largest distance of sequence numbers within one connection.
///
/// Four times the largest window that Linux uses by default, and a sixteenth of the largest possible one (RFC 7323
/// §2.2).
const MAX_SEQUENCE_GAP: u64 = 1 << 26;
/// Longest time for which data without any acknowledgement counts as awaited.
///
/// A TCP has made six attempts by then, and a host that has left without closing must not count permanently. `rtt`
/// counts no packet as late for longer than 60 s.
const MAX_AWAITED_TIME: Span = Span::from_secs(64);

/// State of the data that one end has sent.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// Signs, with sequence numbers that never wrap; `None` before the first packet.
    signs: Option<Signs>,
    /// Begin of the present wait for an acknowledgement, or the last acknowledgement.
    since: Time,
    /// True if a packet of this direction was seen, and not only acknowledgements of it.
    sent_packet: bool,
    fin: bool,
    /// Unanswered packets in the mesh.
    trips: Trips,
}

impl Sent {
    /// Unwraps a sequence number of 32 bits: the value nearest to the highest one so far.
    fn unwrapped(&self, number: u32) -> u64 {
        let first = (1 << 32) + u64::from(number);
        self.signs.map_or(first, |s| {
            let away = number.wrapping_sub(s.top() as u32).cast_signed();
            s.top().saturating_add_signed(away.into())
        })
    }
}

/// State of a connection after a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PacketResult {
    /// The connection continues.
    Continues,
    /// The connection continues, and the packet had no new data.
    Repeated,
    /// The connection has ended.
    Ended,
}

/// A round trip that a packet has completed, by `Direction::index` of the data.
pub(super) type Measured = Option<(usize, Trip)>;

/// A connection of a subscriber.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Both directions, by `Direction::index` of the data.
    sent: [Sent; 2],
    /// True if the first packet seen was from the subscriber's end.
    near_first: bool,
    /// True if both ends are known to exist: only then the connection counts.
    pub proven: bool,
    /// Time of the last packet.
    pub seen: Time,
}

impl Connection {
    pub fn new(now: Time, first: Direction) -> Self {
        let near_first = first == Direction::Up;
        Connection { sent: Default::default(), near_first, proven: false, seen: now }
    }

    /// Handles a packet.
    pub fn see(&mut self, now: Time, header: &Header) -> (PacketResult, Measured) {
        let flags = header.flags;
        if flags.rst {
            return (PacketResult::Ended, None);
        }
        let d = header.direction.index();
        let own = &self.sent[d];
        let first = own.unwrapped(header.seq);
        let end = first + u64::from(header.len) + u64::from(flags.syn) + u64::from(flags.fin);
        let far = own.signs.is_some_and(|s| s.top().abs_diff(first) > MAX_SEQUENCE_GAP);
        // A first SYN with another number belongs to another connection between the same ports.
        let reused = flags.syn && !flags.ack && own.signs.is_some_and(|s| s.top() != end);
        if far || reused {
            *self = Connection::new(now, header.direction);
            return self.see(now, header);
        }
        self.seen = now;
        self.sent[d].sent_packet = true;
        self.prove(header);
        let signs = self.sent[d].signs.get_or_insert(Signs::from(first));
        let (before, was) = (signs.repeated(), signs.awaited());
        signs.passed(end, header.len > 0 || flags.syn || flags.fin);
        let repeated = signs.repeated() > before;
        if was == 0 {
            self.sent[d].since = now;
        }
        self.sent[d].fin |= flags.fin;
        if flags.ack {
            self.answer(now, 1 - d, header.ack);
        }
        let measured = self.measure(now, header, end, repeated);
        let over = self.sent.iter().all(|s| s.fin && s.signs.is_none_or(|s| s.awaited() == 0));
        let after = match (over, repeated) {
            (true, _) => PacketResult::Ended,
            (false, true) => PacketResult::Repeated,
            (false, false) => PacketResult::Continues,
        };
        (after, measured)
    }

    /// Handles a packet for the round trips through the mesh.
    ///
    /// It counts as data of its own direction, and as an answer to the other one's.
    fn measure(&mut self, now: Time, header: &Header, end: u64, again: bool) -> Measured {
        if !self.proven {
            return None;
        }
        let (own, other) = (header.direction.index(), 1 - header.direction.index());
        let side = match header.direction {
            Direction::Down => Side::Enters,
            Direction::Up => Side::Leaves,
        };
        let echo = header.stamps.map(|[_, echo]| echo);
        let data = Data { end, len: header.len, again, echo };
        let by_data = self.sent[own].trips.data(now, side, &data).map(|trip| (own, trip));
        let by_answer = header.flags.ack.then(|| {
            let sent = &mut self.sent[other];
            let answer = Answer {
                before: sent.unwrapped(header.ack),
                selective: header.selective.map(|end| sent.unwrapped(end)),
                value: header.stamps.map(|[value, _]| value),
                more: sent.signs.is_some_and(|s| s.awaited() > 0),
            };
            sent.trips.answer(now, side, &answer).map(|trip| (other, trip))
        });
        by_answer.flatten().or(by_data)
    }

    /// Frees memory that is not needed now.
    pub fn tidy(&mut self) {
        self.sent.iter_mut().for_each(|s| s.trips.tidy());
    }

    /// Returns the age of the oldest unanswered packet in the mesh.
    pub fn oldest(&self, now: Time, d: usize) -> Option<Span> {
        self.sent[d].trips.oldest(now)
    }

    /// Marks the connection as proven if the packet proves it.
    ///
    /// Anyone can send to a subscriber, or forge its address. A connection is proven when the subscriber began it and
    /// gets an acknowledgement, or when the far end acknowledges the subscriber's data: its sequence numbers cannot be
    /// guessed.
    fn prove(&mut self, header: &Header) {
        if self.proven || header.direction == Direction::Up || !header.flags.ack {
            return;
        }
        let near = &self.sent[Direction::Up.index()];
        // Without a packet from the subscriber, a forger could acknowledge the same number twice.
        if !near.sent_packet {
            return;
        }
        let Some(signs) = near.signs else { return };
        self.proven = self.near_first || near.unwrapped(header.ack) == signs.top();
    }

    fn answer(&mut self, now: Time, d: usize, ack: u32) {
        let sent = &mut self.sent[d];
        let before = sent.unwrapped(ack);
        let signs = sent.signs.get_or_insert(Signs::from(before));
        if signs.top().abs_diff(before) <= MAX_SEQUENCE_GAP {
            let was = signs.awaited();
            signs.answered(before);
            if signs.awaited() < was {
                sent.since = now;
            }
        }
    }

    /// Returns the unacknowledged bytes of a direction.
    pub fn awaited(&self, now: Time, d: usize) -> u64 {
        let sent = &self.sent[d];
        let counts = self.proven && now.since(sent.since) <= MAX_AWAITED_TIME;
        sent.signs.filter(|_| counts).map_or(0, |s| s.awaited())
    }

    /// Returns the order in which connections are dropped, the least valuable first.
    ///
    /// Unproven ones, then those with nothing in flight, then the others; of each kind the oldest.
    pub fn worth(&self, now: Time) -> (bool, bool, Time) {
        (self.proven, (0..2).any(|d| self.awaited(now, d) > 0), self.seen)
    }
}
