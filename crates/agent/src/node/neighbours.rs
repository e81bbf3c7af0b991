//! Messages of the neighbours: authentication, replay protection, rates and expiry.
//!
//! There is no clock, no socket and no random source here. The attacker sees, stores, repeats, delays and forges
//! messages but has no key:
//!
//! - A message is accepted if its tag is right and it is newer than every accepted one of its sender: its run is
//!   larger, or its run is equal and its sequence is larger. So a message is accepted at most once.
//! - Only messages with the right tag use memory: at most [`MAX_NEIGHBOURS`] senders, each at most
//!   [`MESSAGES_PER_SECOND`] messages and [`OCTETS_PER_SECOND`] octets per second. An inactive sender gives its place
//!   to a new one.
//! - A sender is *active* for [`EXPIRY_PERIODS`] periods after its last message, by the receiver's clock.
//!
//! The limits of this protection: a sender without a message for longer than [`SENDER_LIFETIME`] is forgotten, and then its
//! recorded messages are accepted again, each once. They expire as all messages do.

use std::collections::{BTreeMap, VecDeque};

use fairmesh_linux::MacAddr;
use fairmesh_units::{Span, Time};

use super::machine::Carrier;
use super::message::{self, Draft, MeshKey, Message, Role, Unreadable};

/// Most senders of which the receiver keeps state.
pub const MAX_NEIGHBOURS: usize = 64;
/// Most messages of one sender in a second.
pub const MESSAGES_PER_SECOND: u32 = 10;
/// Most octets of one sender in a second.
pub const OCTETS_PER_SECOND: u32 = 1000;
/// Periods without a message after which a sender is no longer active.
pub const EXPIRY_PERIODS: u64 = 3;
/// Time without a message after which a sender is forgotten.
pub const SENDER_LIFETIME: Span = Span::from_secs(600);
/// Most tags that are checked in a second.
///
/// 64 neighbours send 640 messages per second at most.
const CHECKS_PER_SECOND: u32 = 1000;
const SECOND: Span = Span::from_secs(1);

/// Reason why a message was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// The format is invalid.
    Malformed,
    /// The message is of another version.
    Version,
    /// The message is of another kind.
    Kind,
    /// The message belongs to a mesh with another key.
    Mesh,
    /// The tag is wrong.
    Tag,
    /// The message has the address of this router.
    Own,
    /// The message is not newer than the sender's last accepted one.
    Replayed,
    /// The message is the last accepted one again, over the other carrier.
    Copy,
    /// The message is an order without the present challenge, such as a recorded one.
    Unproved,
    /// The message exceeds the rate of one sender, or of all.
    Flood,
    /// The table of neighbours is full of active ones.
    Crowd,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 11] = [
        Cause::Malformed,
        Cause::Version,
        Cause::Kind,
        Cause::Mesh,
        Cause::Tag,
        Cause::Own,
        Cause::Replayed,
        Cause::Copy,
        Cause::Unproved,
        Cause::Flood,
        Cause::Crowd,
    ];

    /// Returns its name in reports and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Malformed => "malformed",
            Cause::Version => "version",
            Cause::Kind => "kind",
            Cause::Mesh => "mesh",
            Cause::Tag => "tag",
            Cause::Own => "own",
            Cause::Replayed => "replayed",
            Cause::Copy => "copy",
            Cause::Unproved => "unproved",
            Cause::Flood => "flood",
            Cause::Crowd => "crowd",
        }
    }

    /// True for messages that arrive in a mesh without a fault or an attacker.
    pub const fn is_normal(self) -> bool {
        matches!(self, Cause::Own | Cause::Copy)
    }

    /// Returns problem and expectation, for causes that an operator can repair.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Cause::Version => Some(
                "messages have another format version; install the same version on all routers",
            ),
            Cause::Mesh => {
                Some("messages are made with another key; copy one key file to all routers")
            }
            Cause::Crowd => Some("more than 64 active neighbours; the others are ignored"),
            _ => None,
        }
    }
}

impl From<Unreadable> for Cause {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Malformed => Cause::Malformed,
            Unreadable::Version => Cause::Version,
            Unreadable::Kind => Cause::Kind,
            Unreadable::Mesh => Cause::Mesh,
            Unreadable::Tag => Cause::Tag,
        }
    }
}

/// A token bucket with the depth of one second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    per_second: u32,
    /// Tokens in billionths.
    left: u64,
    filled: Time,
}

impl Bucket {
    const NANOS_PER_SECOND: u64 = 1_000_000_000;

    pub fn full(per_second: u32, now: Time) -> Self {
        Bucket { per_second, left: u64::from(per_second) * Self::NANOS_PER_SECOND, filled: now }
    }

    pub fn fill(&mut self, now: Time) {
        let all = u64::from(self.per_second) * Self::NANOS_PER_SECOND;
        let grown = now.since(self.filled).min(SECOND).as_nanos() * u64::from(self.per_second);
        self.left = self.left.saturating_add(grown).min(all);
        self.filled = self.filled.max(now);
    }

    pub fn has(&self, tokens: usize) -> bool {
        self.left >= tokens as u64 * Self::NANOS_PER_SECOND
    }

    pub fn take(&mut self, tokens: usize) {
        self.left = self.left.saturating_sub(tokens as u64 * Self::NANOS_PER_SECOND);
    }
}

/// State of one sender.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Number of its run.
    pub run: u32,
    /// Number of its last accepted message.
    pub sequence: u32,
    /// Time of its last accepted message.
    pub last: Time,
    /// Carrier of its last accepted message.
    pub carrier: Carrier,
    /// Announced role of the neighbour.
    pub role: Role,
    /// Number of accepted messages.
    pub received: u64,
    /// Number of messages of its runs that were not received.
    pub lost: u64,
    /// True if it is active.
    pub active: bool,
    messages: Bucket,
    octets: Bucket,
}

/// An accepted message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted<'a> {
    /// The message.
    pub message: Message<'a>,
    /// True if its sender was not active before.
    pub appeared: bool,
    /// True if its sender has restarted since its last message.
    pub restarted: bool,
}

/// The senders of received messages.
#[derive(Debug)]
pub struct Neighbours {
    key: MeshKey,
    own: Vec<MacAddr>,
    expiry: Span,
    senders: BTreeMap<MacAddr, Sender>,
    checks: Bucket,
    refused: [u64; Cause::ALL.len()],
    /// Last refused message: the address that it claimed, if any, and the cause.
    last_refused: Option<(Option<MacAddr>, Cause)>,
}

impl Neighbours {
    /// `own`: addresses of this router; `period`: time between two messages of a sender.
    pub fn new(key: MeshKey, own: Vec<MacAddr>, period: Span, now: Time) -> Self {
        Neighbours {
            key,
            own,
            expiry: period.saturating_mul(EXPIRY_PERIODS),
            senders: BTreeMap::new(),
            checks: Bucket::full(CHECKS_PER_SECOND, now),
            refused: [0; Cause::ALL.len()],
            last_refused: None,
        }
    }

    /// Replaces the addresses of this router.
    pub fn set_own(&mut self, own: Vec<MacAddr>) {
        self.own = own;
    }

    /// Checks a received message.
    ///
    /// # Errors
    /// The cause of its refusal, which is counted.
    pub fn receive<'a>(
        &mut self,
        now: Time,
        carrier: Carrier,
        bytes: &'a [u8],
    ) -> Result<Accepted<'a>, Cause> {
        self.check(now, carrier, bytes).map_err(|(claimed, cause)| {
            self.refused[cause as usize] += 1;
            if !cause.is_normal() {
                self.last_refused = Some((claimed, cause));
            }
            cause
        })
    }

    fn check<'a>(
        &mut self,
        now: Time,
        carrier: Carrier,
        bytes: &'a [u8],
    ) -> Result<Accepted<'a>, (Option<MacAddr>, Cause)> {
        let unverified = message::peek(&self.key, bytes).map_err(|e| (None, e.into()))?;
        let claimed = unverified.claimed();
        let refuse = |cause| Err((Some(claimed), cause));
        if self.own.contains(&claimed) {
            return refuse(Cause::Own);
        }
        self.checks.fill(now);
        if !self.checks.has(1) {
            return refuse(Cause::Flood);
        }
        self.checks.take(1);
        let message = unverified.verify(&self.key).map_err(|e| (Some(claimed), Cause::from(e)))?;
        if let Some(sender) = self.senders.get_mut(&claimed) {
            let (number, last) = ((message.run, message.sequence), (sender.run, sender.sequence));
            if number <= last {
                let copy = number == last && carrier != sender.carrier;
                return refuse(if copy { Cause::Copy } else { Cause::Replayed });
            }
            sender.messages.fill(now);
            sender.octets.fill(now);
            if !sender.messages.has(1) || !sender.octets.has(bytes.len()) {
                return refuse(Cause::Flood);
            }
        } else if self.senders.len() >= MAX_NEIGHBOURS && !self.make_room(now) {
            return refuse(Cause::Crowd);
        }
        let (run, sequence) = (message.run, message.sequence);
        let sender = self.senders.entry(claimed).or_insert_with(|| Sender {
            run,
            sequence: sequence.saturating_sub(1),
            last: now,
            carrier,
            role: Role::default(),
            received: 0,
            lost: 0,
            active: false,
            messages: Bucket::full(MESSAGES_PER_SECOND, now),
            octets: Bucket::full(OCTETS_PER_SECOND, now),
        });
        let restarted = run != sender.run;
        if !restarted {
            sender.lost += u64::from((sequence - sender.sequence).saturating_sub(1));
        }
        sender.messages.take(1);
        sender.octets.take(bytes.len());
        (sender.run, sender.sequence, sender.last) = (run, sequence, now);
        sender.carrier = carrier;
        sender.role = message.fields.role();
        sender.received += 1;
        let appeared = !std::mem::replace(&mut sender.active, true);
        Ok(Accepted { message, appeared, restarted })
    }

    /// Forgets the sender with the oldest last message, if it has expired.
    fn make_room(&mut self, now: Time) -> bool {
        let oldest = self.senders.iter().min_by_key(|(_, s)| s.last).map(|(mac, s)| (*mac, s.last));
        match oldest {
            Some((mac, last)) if now.since(last) > self.expiry => {
                self.senders.remove(&mac);
                true
            }
            _ => false,
        }
    }

    /// Ends the activity of idle senders and forgets those that are idle for long.
    ///
    /// Returns the addresses of those that are no longer active.
    pub fn expire(&mut self, now: Time) -> Vec<MacAddr> {
        let mut gone = Vec::new();
        self.senders.retain(|mac, sender| {
            let idle = now.since(sender.last);
            if sender.active && idle > self.expiry {
                sender.active = false;
                gone.push(*mac);
            }
            idle <= SENDER_LIFETIME
        });
        gone
    }

    /// Returns the time of the next expiry; [`Time::NEVER`] without an active sender.
    pub fn next_expiry(&self) -> Time {
        let active = self.senders.values().filter(|s| s.active).map(|s| s.last).min();
        active.map_or(Time::NEVER, |last| last + self.expiry + Span::from_nanos(1))
    }

    /// All senders of which state is kept.
    pub fn senders(&self) -> impl Iterator<Item = (MacAddr, &Sender)> {
        self.senders.iter().map(|(mac, sender)| (*mac, sender))
    }

    /// The number of refused messages of each cause.
    pub fn refused(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().zip(self.refused)
    }

    /// Address and cause of the last refused message.
    pub fn last_refused(&self) -> Option<(Option<MacAddr>, Cause)> {
        self.last_refused
    }
}

/// The sending side: numbers messages and keeps the rate of one sender.
#[derive(Debug)]
pub struct Announcer {
    key: MeshKey,
    mac: MacAddr,
    run: u32,
    sequence: u32,
    /// Time and size of the messages of the last second.
    recent: VecDeque<(Time, usize)>,
}

impl Announcer {
    /// `run` must be larger than at every earlier start with this address.
    pub fn new(key: MeshKey, mac: MacAddr, run: u32) -> Self {
        Announcer { key, mac, run, sequence: 0, recent: VecDeque::new() }
    }

    /// Continues after this sequence number, which an announcer of the same run has used.
    #[must_use]
    pub fn after(self, sequence: u32) -> Self {
        Announcer { sequence, ..self }
    }

    /// Returns the bytes of the next message.
    ///
    /// # Errors
    /// The time at which the rate of one sender permits it.
    pub fn seal(&mut self, now: Time, draft: &Draft) -> Result<Vec<u8>, Time> {
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) >= SECOND) {
            self.recent.pop_front();
        }
        let octets: usize = self.recent.iter().map(|(_, size)| size).sum();
        let full = self.recent.len() >= MESSAGES_PER_SECOND as usize
            || octets + draft.size() > OCTETS_PER_SECOND as usize;
        if let (true, Some((oldest, _))) = (full, self.recent.front()) {
            return Err(*oldest + SECOND);
        }
        // 10 messages a second reach the last number after 13 years.
        self.sequence = self.sequence.checked_add(1).ok_or(Time::NEVER)?;
        self.recent.push_back((now, draft.size()));
        Ok(message::seal(&self.key, self.mac, self.run, self.sequence, draft))
    }

    /// Number of messages sent in this run.
    pub fn sent(&self) -> u32 {
        self.sequence
    }
}

#[cfg(test)]
#[path = "neighbours_tests.rs"]
mod tests;
