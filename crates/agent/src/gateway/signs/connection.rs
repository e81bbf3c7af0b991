//! One connection as its headers show it.

use fairmesh_control::host::{Answer, Data, Side, Signs, Trip, Trips};
use fairmesh_linux::Direction;
use fairmesh_linux::capture::Header;
use fairmesh_units::{Span, Time};

/// Numbers that lie further apart than this are not of one connection: four times the largest window that Linux
/// gives by itself, and a sixteenth of the largest there can be (RFC 7323 §2.2).
const APART: u64 = 1 << 26;
/// How long data counts as awaited while nothing of it is acknowledged. As long as `maxmin` keeps a place for who fell
/// silent: a TCP has tried six times by then, and who has left without a word is not missed for ever.
const AWAITED: Span = Span::from_secs(64);

/// What one end has sent.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// Of numbers that never begin again; `None` before anything was seen of it.
    signs: Option<Signs>,
    /// When data were awaited of which nothing has been acknowledged since.
    since: Time,
    /// True if a packet of this direction was seen, and not only acknowledgements of it.
    spoke: bool,
    fin: bool,
    /// Packets in the mesh that have not been answered.
    trips: Trips,
}

impl Sent {
    /// A number that begins again after 2³² as one that does not, nearest to what has passed.
    fn unwrapped(&self, number: u32) -> u64 {
        let first = (1 << 32) + u64::from(number);
        self.signs.map_or(first, |s| {
            let away = number.wrapping_sub(s.top() as u32).cast_signed();
            s.top().saturating_add_signed(away.into())
        })
    }
}

/// What became of a connection with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    /// It goes on.
    Lives,
    /// It goes on, and this packet brought nothing new.
    Repeated,
    /// It is over.
    Over,
}

/// A round trip that a packet has completed, by `Direction::index` of the data.
pub(super) type Measured = Option<(usize, Trip)>;

/// A connection of a subscriber.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// By `Direction::index` of the data.
    sent: [Sent; 2],
    /// Whether the subscriber's end spoke first, as far as was seen.
    near_first: bool,
    /// Whether both ends are there: only then it counts.
    pub proven: bool,
    /// When something of it was last seen.
    pub seen: Time,
}

impl Connection {
    pub fn new(now: Time, first: Direction) -> Self {
        let near_first = first == Direction::Up;
        Connection { sent: Default::default(), near_first, proven: false, seen: now }
    }

    /// Takes in a packet.
    pub fn see(&mut self, now: Time, header: &Header) -> (After, Measured) {
        let flags = header.flags;
        if flags.rst {
            return (After::Over, None);
        }
        let d = header.direction.index();
        let own = &self.sent[d];
        let first = own.unwrapped(header.seq);
        let end = first + u64::from(header.len) + u64::from(flags.syn) + u64::from(flags.fin);
        let far = own.signs.is_some_and(|s| s.top().abs_diff(first) > APART);
        // A first SYN with another number is another connection between the same ports.
        let anew = flags.syn && !flags.ack && own.signs.is_some_and(|s| s.top() != end);
        if far || anew {
            *self = Connection::new(now, header.direction);
            return self.see(now, header);
        }
        self.seen = now;
        self.sent[d].spoke = true;
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
            (true, _) => After::Over,
            (false, true) => After::Repeated,
            (false, false) => After::Lives,
        };
        (after, measured)
    }

    /// Takes in a packet for the round trips through the mesh: as data of its own direction, and as an answer to the
    /// other one's.
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

    /// Gives memory back that it does not need now.
    pub fn tidy(&mut self) {
        self.sent.iter_mut().for_each(|s| s.trips.tidy());
    }

    /// Age of the oldest packet in the mesh without an answer.
    pub fn oldest(&self, now: Time, d: usize) -> Option<Span> {
        self.sent[d].trips.oldest(now)
    }

    /// Anybody can send to a subscriber or from one; that there is a connection is known when the subscriber began it
    /// and is answered, or when somebody outside acknowledges what the subscriber had to say: its numbers cannot be
    /// guessed.
    fn prove(&mut self, header: &Header) {
        if self.proven || header.direction == Direction::Up || !header.flags.ack {
            return;
        }
        let near = &self.sent[Direction::Up.index()];
        // Two packets of a stranger acknowledge the same number.
        if !near.spoke {
            return;
        }
        let Some(signs) = near.signs else { return };
        self.proven = self.near_first || near.unwrapped(header.ack) == signs.top();
    }

    fn answer(&mut self, now: Time, d: usize, ack: u32) {
        let sent = &mut self.sent[d];
        let before = sent.unwrapped(ack);
        let signs = sent.signs.get_or_insert(Signs::from(before));
        if signs.top().abs_diff(before) <= APART {
            let was = signs.awaited();
            signs.answered(before);
            if signs.awaited() < was {
                sent.since = now;
            }
        }
    }

    /// Bytes of a direction that are not acknowledged.
    pub fn awaited(&self, now: Time, d: usize) -> u64 {
        let sent = &self.sent[d];
        let counts = self.proven && now.since(sent.since) <= AWAITED;
        sent.signs.filter(|_| counts).map_or(0, |s| s.awaited())
    }

    /// How little is lost with it, least first: one of which nothing is proven, one with nothing under way, any; and
    /// the oldest of those.
    pub fn worth(&self, now: Time) -> (bool, bool, Time) {
        (self.proven, (0..2).any(|d| self.awaited(now, d) > 0), self.seen)
    }
}
