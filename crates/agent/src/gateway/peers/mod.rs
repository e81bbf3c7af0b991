//! What gateways of one mesh tell each other over the wire: who may be believed, and what is old.
//!
//! No clock, no socket and no chance of its own: `now` and random numbers come in. What it defends, against an
//! attacker who sees, keeps, repeats, delays and makes up datagrams but has no key:
//!
//! - A datagram counts if its tag is right ([`Frame`]), it comes from the address of a configured peer, and it repeats
//!   a challenge that this gateway has drawn for that peer in the last [`CHALLENGE`] twice. So nothing from before
//!   this start counts, nothing that was for somebody else, and nothing older than that time, whatever clocks say.
//! - Within an epoch of a peer the sequence only rises. Another epoch is another start: it needs a challenge, too, and
//!   from then on both challenges are new ones, so that the epoch before is over.
//!
//! What is left to somebody on the path: to drop datagrams, and to delay them by at most twice [`CHALLENGE`]. Either
//! leaves a gateway alone, which governs as if there were no other.

mod frame;

use core::fmt;
use std::io;
use std::net::SocketAddr;

use fairmesh_units::{Span, Time};
use serde::{Deserialize, Serialize};

pub use self::frame::{Frame, Key, MOST, MOST_BODY, NUMBERS, Unreadable};

/// How long a challenge is the newest one; it counts for as long again.
pub const CHALLENGE: Span = Span::from_secs(10);
/// Silence after which a sign of life is sent.
const HELLO: Span = Span::from_secs(2);
/// The least time between two answers to what cannot be believed yet.
const ANSWER: Span = Span::from_millis(250);
/// Silence after which a peer is taken for gone.
pub const SILENT: Span = Span::from_secs(10);
/// Datagrams of one peer's address that are looked at within a second: 400 carry the counters of 20,000 flows.
const MOST_OF_ONE: u32 = 400;
const SECOND: Span = Span::from_secs(1);

/// Why a datagram was not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// From an address that no peer has.
    Stranger,
    /// Not of the layout.
    Malformed,
    /// Of another version.
    Version,
    /// Not by somebody with this key, or changed on its way.
    Tag,
    /// With the number of this gateway, or of another peer that is here.
    Number,
    /// Of a start that has not proved to be of now: the first of every start, or a repeated one.
    Unproved,
    /// Not newer than what its sender has said.
    Replayed,
    /// Longer than [`CHALLENGE`] twice under way.
    Late,
    /// More than anybody has to say.
    Flood,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 9] = [
        Cause::Stranger,
        Cause::Malformed,
        Cause::Version,
        Cause::Tag,
        Cause::Number,
        Cause::Unproved,
        Cause::Replayed,
        Cause::Late,
        Cause::Flood,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Stranger => "stranger",
            Cause::Malformed => "malformed",
            Cause::Version => "version",
            Cause::Tag => "tag",
            Cause::Number => "number",
            Cause::Unproved => "unproved",
            Cause::Replayed => "replayed",
            Cause::Late => "late",
            Cause::Flood => "flood",
        }
    }

    /// What is wrong and what was expected, of what only an operator can mend.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Cause::Version => Some("it has another version of this program; expected the same"),
            Cause::Tag => Some("what it sends has another key's tag; expected the same key file"),
            Cause::Number => Some(
                "it has a number that is taken; expected a number for each gateway (peers.number)",
            ),
            _ => None,
        }
    }
}

impl From<Unreadable> for Cause {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Malformed => Cause::Malformed,
            Unreadable::Version => Cause::Version,
            Unreadable::Tag => Cause::Tag,
        }
    }
}

/// What is known of a peer that has proved to be one.
#[derive(Clone, Copy, Debug)]
struct Proved {
    number: u32,
    epoch: u64,
    sequence: u64,
    challenge: u64,
    heard: Time,
}

/// Another gateway, by its address.
#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    /// The newest challenge, the one before, and when it was drawn.
    challenge: u64,
    before: u64,
    drawn: Time,
    proved: Option<Proved>,
    /// A challenge of one that has not proved anything yet, and whether it waits for an answer.
    unproved: Option<u64>,
    answer: bool,
    said: Option<Time>,
    here: bool,
    starts: u64,
    sent: u64,
    received: u64,
    rejected: u64,
    /// The second that is counted, and how many datagrams it had.
    second: (Time, u32),
    /// Cause of refused datagrams that an operator can repair.
    problem: Option<Cause>,
    /// Obstacle to sending.
    unsent: Option<SendProblem>,
}

/// Something that is worth an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A peer is heard: number, address.
    Here(u32, SocketAddr),
    /// One that was heard has started anew.
    Restarted(u32, SocketAddr),
    /// It is not heard any more.
    Silent(u32, SocketAddr),
    /// Its datagrams are refused for a cause that an operator can repair.
    Refused(SocketAddr, Cause),
    /// Nothing can be sent to it.
    Unsent(SocketAddr, SendProblem),
}

/// Obstacle to sending datagrams to a peer: an error of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendProblem {
    /// The system's error number, where it has one.
    pub code: Option<i32>,
    /// Kind of the error.
    pub kind: io::ErrorKind,
}

impl fmt::Display for SendProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.code.map_or_else(|| self.kind.into(), io::Error::from_raw_os_error);
        write!(f, "nothing can be sent to it: {error}")?;
        match self.kind {
            // The filter of systemd refuses with this error.
            io::ErrorKind::PermissionDenied => {
                f.write_str("; a firewall, or expected IPAddressAllow= in the unit")
            }
            _ => Ok(()),
        }
    }
}
impl core::error::Error for SendProblem {}

impl From<&io::Error> for SendProblem {
    fn from(e: &io::Error) -> Self {
        SendProblem { code: e.raw_os_error(), kind: e.kind() }
    }
}

/// A datagram that was believed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heard<'a> {
    /// Who says it.
    pub number: u32,
    /// Whether it has started anew since it was last heard, or is heard for the first time.
    pub anew: bool,
    /// What its control says; `None`: it lives.
    pub body: Option<&'a [u8]>,
}

/// A datagram to be sent: which peer, to which address, what.
pub type Datagram = (usize, SocketAddr, Vec<u8>);

/// What `status` says of a peer.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PeerReport {
    /// Its address, as configured.
    pub address: String,
    /// Its number, once it has been heard.
    pub number: Option<u32>,
    /// "here", "silent", or "never heard".
    pub state: String,
    /// Seconds since something of it was believed.
    pub heard_seconds_ago: Option<f64>,
    /// How often it has started, as far as it was heard.
    pub starts: u64,
    /// Datagrams sent to it.
    pub sent: u64,
    /// Datagrams of it that were believed.
    pub received: u64,
    /// Datagrams from its address that were not.
    pub rejected: u64,
    /// What is in the way, as far as that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What `status` says of the exchange.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PeersReport {
    /// This gateway's number.
    pub number: u32,
    /// Where it listens.
    pub listen: String,
    /// The gateway that decides for all; `None`: this one, for itself or for others, too.
    pub governed_by: Option<u32>,
    /// Whether what the control says is told: not in "observe", and not while a fault lifts limits.
    pub exchanging: bool,
    /// Why nothing is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The others.
    pub peers: Vec<PeerReport>,
    /// Datagrams that were not believed, by cause.
    pub rejected: Vec<(String, u64)>,
}

impl PeersReport {
    /// The numbers of those that are here.
    pub fn here(&self) -> Vec<u32> {
        self.peers.iter().filter(|p| p.state == "here").filter_map(|p| p.number).collect()
    }

    /// Who decides, and with whom.
    pub fn governed(&self) -> String {
        let here: Vec<String> = self.here().iter().map(u32::to_string).collect();
        match (self.governed_by, here.as_slice()) {
            _ if !self.exchanging => "alone: nothing is told while nothing is limited".to_owned(),
            (Some(by), _) => format!("by gateway {by}"),
            (None, []) => "alone: no other gateway is heard".to_owned(),
            (None, others) => format!("here, together with gateway {}", others.join(", ")),
        }
    }
}

/// The exchange with all peers.
pub struct Exchange {
    number: u32,
    key: Key,
    random: Box<dyn FnMut() -> u64>,
    epoch: u64,
    sequence: u64,
    peers: Vec<Peer>,
    rejected: [u64; Cause::ALL.len()],
    changes: Vec<Change>,
}

impl core::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Exchange").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Of the gateway with this number. `random` must be unforeseeable; while it gives 0, nobody is believed.
    pub fn new(
        number: u32,
        key: Key,
        peers: &[SocketAddr],
        mut random: Box<dyn FnMut() -> u64>,
    ) -> Self {
        let peers = peers.iter().map(|&address| Peer {
            address,
            challenge: random(),
            before: random(),
            drawn: Time::ZERO,
            proved: None,
            unproved: None,
            answer: false,
            said: None,
            here: false,
            starts: 0,
            sent: 0,
            received: 0,
            rejected: 0,
            second: (Time::ZERO, 0),
            problem: None,
            unsent: None,
        });
        let peers = peers.collect();
        let epoch = random();
        let rejected = [0; Cause::ALL.len()];
        Exchange { number, key, random, epoch, sequence: 0, peers, rejected, changes: Vec::new() }
    }

    /// Takes in a datagram.
    ///
    /// # Errors
    /// Why it is not believed; it is counted.
    pub fn take<'a>(
        &mut self,
        now: Time,
        from: SocketAddr,
        bytes: &'a [u8],
    ) -> Result<Heard<'a>, Cause> {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let at = self.peers.iter().position(|p| p.address == from);
        let taken = match at {
            Some(at) => self.take_from(now, at, bytes),
            None => Err(Cause::Stranger),
        };
        if let Err(cause) = taken {
            self.rejected[cause as usize] += 1;
            if let Some(peer) = at.map(|at| &mut self.peers[at]) {
                peer.rejected += 1;
                if cause.advice().is_some()
                    && !peer.here
                    && peer.problem.replace(cause) != Some(cause)
                {
                    self.changes.push(Change::Refused(peer.address, cause));
                }
            }
        }
        taken
    }

    fn take_from<'a>(&mut self, now: Time, at: usize, bytes: &'a [u8]) -> Result<Heard<'a>, Cause> {
        let taken = |number: u32, peers: &[Peer]| {
            let others = peers.iter().enumerate().filter(|(i, p)| *i != at && p.here);
            others.filter_map(|(_, p)| p.proved).any(|p| p.number == number)
        };
        let peer = &mut self.peers[at];
        // Before the tag, which costs most.
        if now.since(peer.second.0) >= SECOND {
            peer.second = (now, 0);
        }
        peer.second.1 += 1;
        if peer.second.1 > MOST_OF_ONE {
            return Err(Cause::Flood);
        }
        let frame = Frame::open(bytes, &self.key)?;
        if frame.number == self.number || taken(frame.number, &self.peers) {
            return Err(Cause::Number);
        }
        self.renew(now, at);
        let peer = &mut self.peers[at];
        // 0 stands for none.
        let answers = frame.echo != 0 && [peer.challenge, peer.before].contains(&frame.echo);
        let anew = match &peer.proved {
            Some(known) if known.epoch == frame.epoch => {
                if frame.sequence <= known.sequence {
                    return Err(Cause::Replayed);
                }
                if !answers {
                    // Or neither has heard the other for long: one has to begin with what it hears now.
                    (peer.unproved, peer.answer) = (Some(frame.challenge), true);
                    return Err(Cause::Late);
                }
                false
            }
            _ if answers => {
                // What was said before, under whatever challenge, is over.
                peer.challenge = (self.random)();
                peer.before = (self.random)();
                peer.drawn = now;
                peer.starts += 1;
                true
            }
            _ => {
                (peer.unproved, peer.answer) = (Some(frame.challenge), true);
                return Err(Cause::Unproved);
            }
        };
        let number = frame.number;
        peer.proved = Some(Proved {
            number,
            epoch: frame.epoch,
            sequence: frame.sequence,
            challenge: frame.challenge,
            heard: now,
        });
        // One that is new gets to know the new challenge at once.
        (peer.unproved, peer.answer) = (None, anew);
        peer.received += 1;
        peer.problem = None;
        if !core::mem::replace(&mut peer.here, true) {
            self.changes.push(Change::Here(number, peer.address));
        } else if anew {
            self.changes.push(Change::Restarted(number, peer.address));
        }
        Ok(Heard { number, anew, body: frame.body })
    }

    /// A new challenge for a peer, if the last one is old.
    fn renew(&mut self, now: Time, at: usize) {
        let peer = &mut self.peers[at];
        let age = now.since(peer.drawn);
        if age < CHALLENGE {
            return;
        }
        let next = (self.random)();
        (peer.before, peer.drawn) = match age < CHALLENGE * 2 {
            true => (peer.challenge, peer.drawn + CHALLENGE),
            // After a long sleep neither of the two counts.
            false => ((self.random)(), now),
        };
        peer.challenge = next;
    }

    fn frame(&mut self, now: Time, at: usize, body: Option<&[u8]>) -> Datagram {
        self.sequence += 1;
        let peer = &mut self.peers[at];
        peer.said = Some(now);
        // Whoever knocks is told what he has to repeat; whom it may concern else is told so with the next.
        let knocks = peer.unproved.filter(|_| core::mem::take(&mut peer.answer) || !peer.here);
        let echo = knocks.or(peer.proved.map(|p| p.challenge)).unwrap_or(0);
        let frame = Frame {
            number: self.number,
            epoch: self.epoch,
            sequence: self.sequence,
            challenge: peer.challenge,
            echo,
            body,
        };
        peer.sent += 1;
        (at, peer.address, frame.seal(&self.key))
    }

    /// Signs of life and answers that are due.
    pub fn greet(&mut self, now: Time, out: &mut Vec<Datagram>) {
        for at in 0..self.peers.len() {
            self.renew(now, at);
            let peer = &self.peers[at];
            let silence = peer.said.map_or(Span::from_secs(3600), |said| now.since(said));
            if silence >= HELLO || peer.answer && silence >= ANSWER {
                out.push(self.frame(now, at, None));
            }
        }
    }

    /// A message of the control to every peer that is here.
    pub fn tell(&mut self, now: Time, body: &[u8], out: &mut Vec<Datagram>) {
        if body.is_empty() || body.len() > MOST_BODY {
            return;
        }
        for at in 0..self.peers.len() {
            self.renew(now, at);
            let answers = self.peers[at].answer && self.peers[at].unproved.is_some();
            if answers {
                // The answer to one that knocks must not carry away a message to who is here.
                out.push(self.frame(now, at, None));
            }
            if self.peers[at].here {
                out.push(self.frame(now, at, Some(body)));
            }
        }
    }

    /// What has changed since the last time; peers that have fallen silent are among it.
    pub fn changes(&mut self, now: Time) -> Vec<Change> {
        for peer in &mut self.peers {
            let Some(proved) = peer.proved.filter(|p| peer.here && now.since(p.heard) >= SILENT)
            else {
                continue;
            };
            peer.here = false;
            self.changes.push(Change::Silent(proved.number, peer.address));
        }
        core::mem::take(&mut self.changes)
    }

    /// Notes that the last datagram to a peer has left, or the obstacle.
    pub fn sending(&mut self, peer: usize, problem: Option<SendProblem>) {
        let Some(peer) = self.peers.get_mut(peer) else { return };
        if let (None, Some(problem)) = (peer.unsent, problem) {
            self.changes.push(Change::Unsent(peer.address, problem));
        }
        peer.unsent = problem;
    }

    /// How many datagrams were not believed, by cause.
    pub fn rejected(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL.iter().map(|cause| (*cause, self.rejected[*cause as usize]))
    }

    /// All peers.
    pub fn report(&self, now: Time) -> Vec<PeerReport> {
        let one = |p: &Peer| PeerReport {
            address: p.address.to_string(),
            number: p.proved.map(|p| p.number),
            state: match (p.here, p.proved) {
                (true, _) => "here",
                (false, Some(_)) => "silent",
                (false, None) => "never heard",
            }
            .to_owned(),
            heard_seconds_ago: p.proved.map(|p| now.since(p.heard).as_secs_f64()),
            starts: p.starts,
            sent: p.sent,
            received: p.received,
            rejected: p.rejected,
            problem: p
                .unsent
                .map(|problem| problem.to_string())
                .or_else(|| p.problem?.advice().map(str::to_owned)),
        };
        self.peers.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests;
