//! Messages between gateways of one mesh: authentication and replay protection.
//!
//! There is no clock, no socket and no random source here: `now` and random numbers are inputs. The attacker sees,
//! stores, repeats, delays and forges datagrams but has no key:
//!
//! - A datagram is accepted if its tag is right ([`Frame`]), it comes from the address of a configured peer,
//!   and it repeats a challenge that this gateway has drawn for that peer within the last two [`CHALLENGE`]
//!   periods. So no datagram from before this start, for another gateway, or older than that time is
//!   accepted, independent of clocks.
//! - Within an epoch of a peer the sequence only increases. Another epoch is another start: it needs a challenge, too,
//!   and from then on both challenges are new ones, so that the previous epoch is over.
//!
//! An attacker on the path can still drop datagrams, and delay them by at most two [`CHALLENGE`] periods. In both cases
//! a gateway governs alone, as if there were no other.

mod frame;

use core::fmt;
use std::io;
use std::net::SocketAddr;

use fairmesh_units::{Span, Time};
use serde::{Deserialize, Serialize};

pub use self::frame::{Frame, MAX_BODY, MAX_DATAGRAM, NUMBERS, Unreadable};
use crate::key::Key;

/// Time for which a challenge is the newest one; it is accepted for as long again.
pub const CHALLENGE: Span = Span::from_secs(10);
/// Idle time after which a heartbeat is sent.
const HEARTBEAT: Span = Span::from_secs(2);
/// Least time between two responses to datagrams that are not accepted yet.
const RESPONSE_INTERVAL: Span = Span::from_millis(250);
/// Timeout of a peer.
pub const TIMEOUT: Span = Span::from_secs(10);
/// Maximum number of datagrams of one peer's address that are checked in a second.
///
/// 400 datagrams carry the counters of 20,000 flows.
const MAX_PER_SECOND: u32 = 400;
const SECOND: Span = Span::from_secs(1);

/// Reason why a datagram was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The sender's address belongs to no peer.
    Stranger,
    /// The format is invalid.
    Malformed,
    /// The datagram is of another version.
    Version,
    /// The tag is wrong: made without the key, or modified in transit.
    Tag,
    /// The datagram has the number of this gateway, or of another active peer.
    Number,
    /// The sender's start has no proof of freshness: the first of every start, or a replayed one.
    Unproved,
    /// The datagram is not newer than the sender's last accepted one.
    Replayed,
    /// The datagram was in transit for more than two [`CHALLENGE`] periods.
    Late,
    /// The datagram exceeds the largest rate of a peer.
    Flood,
}

impl Cause {
    /// All causes.
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

    /// Returns its name in metrics.
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

    /// Returns problem and expectation, for causes that an operator can repair.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Cause::Version => Some(
                "its messages have another format version; install the same version on all gateways",
            ),
            Cause::Tag => Some(
                "its messages are not authenticated by this key; copy the same key file to all gateways",
            ),
            Cause::Number => {
                Some("its number is in use; set a unique peers.number on each gateway")
            }
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

/// State of an authenticated peer.
#[derive(Clone, Copy, Debug)]
struct Authenticated {
    number: u32,
    epoch: u64,
    sequence: u64,
    challenge: u64,
    received_at: Time,
}

/// Another gateway, by its address.
#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    /// The newest challenge.
    challenge: u64,
    /// The previous challenge.
    before: u64,
    /// Time of the newest challenge.
    drawn: Time,
    authenticated: Option<Authenticated>,
    /// Challenge of an unauthenticated sender.
    unproved: Option<u64>,
    /// True if a response to it is due.
    answer: bool,
    sent_at: Option<Time>,
    active: bool,
    starts: u64,
    sent: u64,
    received: u64,
    rejected: u64,
    /// Start of the counted second, and its number of datagrams.
    second: (Time, u32),
    /// Cause of refused datagrams that an operator can repair.
    problem: Option<Cause>,
    /// Obstacle to sending.
    unsent: Option<SendProblem>,
}

/// A change that is reported as an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A peer is active: number, address.
    Active(u32, SocketAddr),
    /// An active peer has restarted.
    Restarted(u32, SocketAddr),
    /// A peer has timed out.
    TimedOut(u32, SocketAddr),
    /// Datagrams of the peer are refused for a cause that an operator can repair.
    Refused(SocketAddr, Cause),
    /// Nothing can be sent to it.
    Unsent(SocketAddr, SendProblem),
}

/// Obstacle to sending datagrams to a peer: an error of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendProblem {
    /// The system's error number, if there is one.
    pub code: Option<i32>,
    /// Kind of the error.
    pub kind: io::ErrorKind,
}

impl fmt::Display for SendProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.code.map_or_else(|| self.kind.into(), io::Error::from_raw_os_error);
        write!(f, "sending fails: {error}")?;
        match self.kind {
            // The filter of systemd refuses with this error.
            io::ErrorKind::PermissionDenied => {
                f.write_str("; check the firewall, and IPAddressAllow= in the systemd unit")
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

/// An accepted datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// Number of the sender.
    pub number: u32,
    /// True if this is its first datagram, or the first since it restarted.
    pub restarted: bool,
    /// Message of its control; `None`: a heartbeat.
    pub body: Option<&'a [u8]>,
}

/// A datagram to be sent: index of the peer, address, bytes.
pub type Datagram = (usize, SocketAddr, Vec<u8>);

/// A peer in `status`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PeerReport {
    /// Address, as configured.
    pub address: String,
    /// Number, after its first accepted datagram.
    pub number: Option<u32>,
    /// State of the exchange: `here`, `silent` or `never received`.
    pub state: String,
    /// Seconds since its last accepted datagram.
    pub heard_seconds_ago: Option<f64>,
    /// Number of its starts that were noticed.
    pub starts: u64,
    /// Datagrams sent to it.
    pub sent: u64,
    /// Accepted datagrams from it.
    pub received: u64,
    /// Rejected datagrams from its address.
    pub rejected: u64,
    /// Known obstacle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The exchange in `status`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PeersReport {
    /// This gateway's number.
    pub number: u32,
    /// Address at which it listens.
    pub listen: String,
    /// Gateway that decides for all; `None`: this one, for itself or for others, too.
    pub governed_by: Option<u32>,
    /// True if the control's messages are sent: limits are set, and no fault lifts them.
    pub exchanging: bool,
    /// Reason why the socket is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The other gateways.
    pub peers: Vec<PeerReport>,
    /// Rejected datagrams, by cause.
    pub rejected: Vec<(String, u64)>,
}

impl PeersReport {
    /// Returns the numbers of the active peers.
    pub fn active(&self) -> Vec<u32> {
        self.peers.iter().filter(|p| p.state == "here").filter_map(|p| p.number).collect()
    }

    /// Returns the text of the deciding gateway and its partners.
    pub fn governed(&self) -> String {
        let active: Vec<String> = self.active().iter().map(u32::to_string).collect();
        match (self.governed_by, active.as_slice()) {
            _ if !self.exchanging => {
                "alone: no messages are exchanged while no limits are set".to_owned()
            }
            (Some(by), _) => format!("by gateway {by}"),
            (None, []) => "alone: no other gateway is active".to_owned(),
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
    /// Returns the exchange of the gateway with this number.
    ///
    /// `random` must be unpredictable; while it returns 0, no datagram is accepted.
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
            authenticated: None,
            unproved: None,
            answer: false,
            sent_at: None,
            active: false,
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

    /// Handles a datagram.
    ///
    /// # Errors
    /// Returns the reason of the rejection, which is counted.
    pub fn receive<'a>(
        &mut self,
        now: Time,
        from: SocketAddr,
        bytes: &'a [u8],
    ) -> Result<Received<'a>, Cause> {
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
                    && !peer.active
                    && peer.problem.replace(cause) != Some(cause)
                {
                    self.changes.push(Change::Refused(peer.address, cause));
                }
            }
        }
        taken
    }

    fn take_from<'a>(
        &mut self,
        now: Time,
        at: usize,
        bytes: &'a [u8],
    ) -> Result<Received<'a>, Cause> {
        let taken = |number: u32, peers: &[Peer]| {
            let others = peers.iter().enumerate().filter(|(i, p)| *i != at && p.active);
            others.filter_map(|(_, p)| p.authenticated).any(|p| p.number == number)
        };
        let peer = &mut self.peers[at];
        // Before the tag, which is the most expensive check.
        if now.since(peer.second.0) >= SECOND {
            peer.second = (now, 0);
        }
        peer.second.1 += 1;
        if peer.second.1 > MAX_PER_SECOND {
            return Err(Cause::Flood);
        }
        let frame = Frame::open(bytes, &self.key)?;
        if frame.number == self.number || taken(frame.number, &self.peers) {
            return Err(Cause::Number);
        }
        self.renew(now, at);
        let peer = &mut self.peers[at];
        // 0 means none.
        let answers = frame.echo != 0 && [peer.challenge, peer.before].contains(&frame.echo);
        let restarted = match &peer.authenticated {
            Some(known) if known.epoch == frame.epoch => {
                if frame.sequence <= known.sequence {
                    return Err(Cause::Replayed);
                }
                if !answers {
                    // Or neither has received from the other for long: one of them has to begin with the present
                    // datagram.
                    (peer.unproved, peer.answer) = (Some(frame.challenge), true);
                    return Err(Cause::Late);
                }
                false
            }
            _ if answers => {
                // Earlier datagrams, with any challenge, are no longer accepted.
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
        peer.authenticated = Some(Authenticated {
            number,
            epoch: frame.epoch,
            sequence: frame.sequence,
            challenge: frame.challenge,
            received_at: now,
        });
        // A new peer gets the new challenge at once.
        (peer.unproved, peer.answer) = (None, restarted);
        peer.received += 1;
        peer.problem = None;
        if !core::mem::replace(&mut peer.active, true) {
            self.changes.push(Change::Active(number, peer.address));
        } else if restarted {
            self.changes.push(Change::Restarted(number, peer.address));
        }
        Ok(Received { number, restarted, body: frame.body })
    }

    /// Draws a new challenge for a peer, if the last one is old.
    fn renew(&mut self, now: Time, at: usize) {
        let peer = &mut self.peers[at];
        let age = now.since(peer.drawn);
        if age < CHALLENGE {
            return;
        }
        let next = (self.random)();
        (peer.before, peer.drawn) = match age < CHALLENGE * 2 {
            true => (peer.challenge, peer.drawn + CHALLENGE),
            // After a long sleep neither of the two is accepted.
            false => ((self.random)(), now),
        };
        peer.challenge = next;
    }

    fn frame(&mut self, now: Time, at: usize, body: Option<&[u8]>) -> Datagram {
        self.sequence += 1;
        let peer = &mut self.peers[at];
        peer.sent_at = Some(now);
        // An unauthenticated sender gets the challenge that it has to repeat; the authenticated peer gets its own with
        // the next datagram.
        let unproved_challenge =
            peer.unproved.filter(|_| core::mem::take(&mut peer.answer) || !peer.active);
        let echo = unproved_challenge.or(peer.authenticated.map(|p| p.challenge)).unwrap_or(0);
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

    /// Adds heartbeats and responses that are due.
    pub fn keep_alive(&mut self, now: Time, out: &mut Vec<Datagram>) {
        for at in 0..self.peers.len() {
            self.renew(now, at);
            let peer = &self.peers[at];
            let idle = peer.sent_at.map_or(Span::from_secs(3600), |sent_at| now.since(sent_at));
            if idle >= HEARTBEAT || peer.answer && idle >= RESPONSE_INTERVAL {
                out.push(self.frame(now, at, None));
            }
        }
    }

    /// Adds a message of the control to every active peer.
    pub fn send_message(&mut self, now: Time, body: &[u8], out: &mut Vec<Datagram>) {
        if body.is_empty() || body.len() > MAX_BODY {
            return;
        }
        for at in 0..self.peers.len() {
            self.renew(now, at);
            let answers = self.peers[at].answer && self.peers[at].unproved.is_some();
            if answers {
                // The response to an unauthenticated sender must not replace a message to the active peer.
                out.push(self.frame(now, at, None));
            }
            if self.peers[at].active {
                out.push(self.frame(now, at, Some(body)));
            }
        }
    }

    /// Returns the changes since the last call, including timeouts of peers.
    pub fn changes(&mut self, now: Time) -> Vec<Change> {
        for peer in &mut self.peers {
            let Some(authenticated) =
                peer.authenticated.filter(|p| peer.active && now.since(p.received_at) >= TIMEOUT)
            else {
                continue;
            };
            peer.active = false;
            self.changes.push(Change::TimedOut(authenticated.number, peer.address));
        }
        core::mem::take(&mut self.changes)
    }

    /// Records that the last datagram to a peer was sent, or the obstacle.
    pub fn sending(&mut self, peer: usize, problem: Option<SendProblem>) {
        let Some(peer) = self.peers.get_mut(peer) else { return };
        if let (None, Some(problem)) = (peer.unsent, problem) {
            self.changes.push(Change::Unsent(peer.address, problem));
        }
        peer.unsent = problem;
    }

    /// Iterates over the numbers of rejected datagrams, by cause.
    pub fn rejected(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL.iter().map(|cause| (*cause, self.rejected[*cause as usize]))
    }

    /// Returns the reports of all peers.
    pub fn report(&self, now: Time) -> Vec<PeerReport> {
        let one = |p: &Peer| PeerReport {
            address: p.address.to_string(),
            number: p.authenticated.map(|p| p.number),
            state: match (p.active, p.authenticated) {
                (true, _) => "here",
                (false, Some(_)) => "silent",
                (false, None) => "never received",
            }
            .to_owned(),
            heard_seconds_ago: p.authenticated.map(|p| now.since(p.received_at).as_secs_f64()),
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
