//! TCP's headers into TCP's signs: of each subscriber and direction, the bytes under way that are not acknowledged.
//!
//! Without a clock and a socket: headers and `now` come in. What it keeps is bounded, and it says nothing of a
//! subscriber rather than something wrong: while headers were lost, and while more came than is kept.

mod believed;
mod connection;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use fairmesh_control::RoundTripSample;
use fairmesh_control::host::{Probes, RoundTrips, Side, Spin, Trip};
use fairmesh_linux::capture::{Datagram, Header};
use fairmesh_linux::nft::Maps;
use fairmesh_linux::{Direction, IpNet, Layout, MacAddr};
use fairmesh_units::{Span, Time};
use serde::{Deserialize, Serialize};

pub use self::believed::{DirectionSigns, DirectionSignsReport};
use self::connection::{After, Connection, Measured};

/// Connections that are kept: of all subscribers, of one, and of one without being proven.
pub const MOST: usize = 32_768;
/// See [`MOST`].
pub const MOST_OF_ONE: usize = 128;
/// See [`MOST`].
pub const MOST_UNPROVEN: usize = 16;

/// QUIC connections of one subscriber whose spin bit is followed: the latest.
pub const MOST_SPINNING: usize = 8;

/// How long nothing is said of whom more was seen than is kept, or after headers were lost.
const DOUBT: Span = Span::from_secs(10);
/// How long a silent connection is kept: longer than any pause between two tries of a TCP (RFC 6298 §2.5: 60 s and
/// more; Linux 120 s).
const SILENT: Span = Span::from_secs(300);
/// Classes that wait to be named at a time.
const NAMED: usize = 100;
const FORGET: Span = Span::from_secs(30);

/// A reader that the thread of the capture and the daemon's loop share.
pub type SharedReader = Arc<Mutex<Reader>>;

/// What headers say of one subscriber in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Read {
    /// Bytes that have passed and are not acknowledged now; `None`: not known.
    pub awaited: Option<u64>,
    /// Segments that brought nothing new.
    pub repeated: u64,
    /// IP bytes of TCP, all that was seen.
    pub bytes: u64,
    /// Age of the oldest packet in the mesh that has not been answered; `None`: there is none, or it is not known.
    pub oldest: Option<Span>,
}

/// What `status` tells of it.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct SignsReport {
    /// reading, off (by the configuration), idle (the control does not ask) or unavailable.
    pub state: String,
    /// What is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// TCP packets that have passed since the start, those lost among them.
    pub packets: u64,
    /// Packets that came faster than they were read.
    pub lost: u64,
    /// Connections that are known now.
    pub connections: usize,
    /// Echo probes; `None` while none are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbesReport>,
}

/// Echo probes in `status`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct ProbesReport {
    /// Echo requests sent since the start.
    pub sent: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Homes that do not answer; probes to them pause.
    pub silent: usize,
    /// Why none can be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Default)]
struct Home {
    keys: Vec<u64>,
    connections: Vec<Connection>,
    unproven: usize,
    /// By `Direction::index`.
    repeated: [u64; 2],
    bytes: [u64; 2],
    round_trips: [RoundTrips; 2],
    seen: bool,
    crowded: Option<Time>,
    /// QUIC connections: key, last packet, spin bits.
    spinning: Vec<(u64, Time, Spin)>,
    /// Address of the last packet that was read.
    near: Option<IpAddr>,
    /// Nothing of it was answered for so long that its stalls do not count.
    withholds: bool,
    /// Directions that have traffic and no round trips of their own.
    probed: [bool; 2],
}

/// Reads headers.
#[derive(Debug, Default)]
pub struct Reader {
    maps: Maps,
    addresses: BTreeMap<u16, (Vec<IpNet>, Vec<MacAddr>)>,
    homes: BTreeMap<u16, Home>,
    /// Proven connections, all together.
    proven: usize,
    chance: RandomState,
    lost: Option<Time>,
    packets: u64,
    lost_packets: u64,
    forgot: Time,
    /// Whether somebody hands over headers.
    open: bool,
    /// When somebody began to.
    since: Time,
    probes: Probes,
    /// Classes to be named as withholding answers.
    withholding: Vec<u16>,
}

impl Reader {
    /// Who is behind which addresses from now on. What was known of those whose addresses change is forgotten.
    pub fn settle(&mut self, layout: &Layout) {
        let addresses: BTreeMap<_, _> = layout
            .subscribers
            .iter()
            .map(|s| (s.class.0, (s.prefixes.clone(), s.macs.clone())))
            .collect();
        let same = |class: &u16| self.addresses.get(class) == addresses.get(class);
        self.homes.retain(|class, _| same(class));
        self.probes.retain(|home| u16::try_from(home).is_ok_and(|class| same(&class)));
        self.maps = Maps::of(&layout.subscribers);
        self.addresses = addresses;
        self.count();
    }

    fn count(&mut self) {
        let homes = self.homes.values();
        self.proven = homes.map(|h| h.connections.len() - h.unproven).sum();
    }

    /// Headers come from now on, or no longer; what was known before says nothing of what comes then.
    pub fn opened(&mut self, now: Time, open: bool) {
        (self.open, self.since, self.lost) = (open, now, None);
        self.homes.clear();
        self.proven = 0;
        self.probes.retain(|_| false);
    }

    /// Notes the packets that a home has carried since the last look, by `Direction::index`: where they gave no round
    /// trip, a probe is wanted.
    pub fn want_probe(&mut self, now: Time, class: u16, packets: [u64; 2]) {
        if !self.open || self.addresses_of(class).next().is_none() {
            return;
        }
        let home = self.homes.entry(class).or_default();
        let mut of_probed = 0;
        for (d, packets) in packets.into_iter().enumerate() {
            home.probed[d] = packets > 0 && home.round_trips[d].lack(now);
            of_probed += if home.probed[d] { packets } else { 0 };
        }
        if of_probed > 0 {
            self.probes.want(now, class.into(), of_probed);
        }
    }

    /// Addresses at which a home may answer: the one that its traffic has, then those that the configuration and sources
    /// give it alone.
    fn addresses_of(&self, class: u16) -> impl Iterator<Item = IpAddr> {
        let near = self.homes.get(&class).and_then(|h| h.near);
        let prefixes = self.addresses.get(&class).into_iter().flat_map(|(prefixes, _)| prefixes);
        let alone = prefixes.filter(|p| p.prefix_len() == p.max_prefix_len()).map(IpNet::addr);
        near.into_iter().chain(alone.filter(move |a| Some(*a) != near))
    }

    /// Returns the address and the sequence number of the probe that is due, if there is one.
    pub fn poll_probe(&mut self, now: Time) -> Option<(IpAddr, u16)> {
        let probe = self.probes.poll(now)?;
        let class = u16::try_from(probe.home).ok()?;
        let many = self.addresses_of(class).count().max(1);
        let address = self.addresses_of(class).nth(probe.attempt as usize % many)?;
        Some((address, probe.sequence))
    }

    /// Time of the next probe.
    pub fn next_probe(&self) -> Time {
        self.probes.next_deadline()
    }

    /// Takes in an answer to a probe.
    pub fn probe_answered(&mut self, now: Time, sequence: u16) {
        let Some((home, trip)) = self.probes.answer(now, sequence) else { return };
        let home = u16::try_from(home).ok().and_then(|class| self.homes.get_mut(&class));
        let Some(home) = home else { return };
        for (trips, probed) in home.round_trips.iter_mut().zip(home.probed) {
            if probed {
                trips.add(now, trip);
            }
        }
    }

    /// Age of the first of several unanswered probes to a class, by `Direction::index`.
    pub fn oldest_probe(&self, now: Time, class: u16) -> [Option<Span>; 2] {
        let probed = self.homes.get(&class).map_or([false; 2], |h| h.probed);
        let oldest = self.probes.oldest(now, class.into());
        probed.map(|probed| oldest.filter(|_| probed))
    }

    /// True if a class does not answer probes, so that they pause.
    pub fn is_silent(&self, class: u16) -> bool {
        self.probes.is_silent(class.into())
    }

    /// Returns the classes that have ceased to answer since the last call, with the last address tried.
    pub fn ceased(&mut self) -> Vec<(u16, Option<IpAddr>)> {
        let homes = self.probes.given_up().into_iter();
        let classes = homes.filter_map(|home| u16::try_from(home).ok());
        classes.map(|class| (class, self.addresses_of(class).next())).collect()
    }

    /// Takes in a header.
    pub fn see(&mut self, now: Time, header: &Header) {
        let Some(class) = self.maps.class_of(header.near.0, header.mac) else { return };
        let d = header.direction.index();
        let key = self.chance.hash_one((header.near, header.far));
        let room = self.proven < MOST;
        let home = self.homes.entry(class).or_default();
        (home.seen, home.near) = (true, Some(header.near.0));
        home.bytes[d] = home.bytes[d].saturating_add(header.bytes.into());
        let (proven, repeated, measured) = home.see(now, key, header, room);
        // A retransmission may have been among lost headers.
        let doubtful = |time: Span| self.lost.is_some_and(|lost| now.since(lost) <= time);
        if let Some((d, trip)) = measured.filter(|(_, trip)| !doubtful(trip.time)) {
            home.round_trips[d].add(now, trip);
        }
        home.repeated[d] += u64::from(repeated);
        self.proven = self.proven.saturating_add_signed(proven);
    }

    /// Takes in a datagram: the address of its subscriber, and QUIC's spin bit.
    pub fn see_datagram(&mut self, now: Time, datagram: &Datagram) {
        let Some(class) = self.maps.class_of(datagram.near.0, datagram.mac) else { return };
        let home = self.homes.entry(class).or_default();
        home.near = Some(datagram.near.0);
        let Some(bit) = datagram.spin else { return };
        let key = self.chance.hash_one((datagram.near, datagram.far));
        let side = match datagram.direction {
            Direction::Down => Side::Enters,
            Direction::Up => Side::Leaves,
        };
        if let Some(trip) = home.spin(now, key, side, bit) {
            // The bits of both directions give it, so it is that of both.
            home.round_trips.iter_mut().for_each(|trips| trips.add(now, trip));
        }
    }

    /// The capture has counted packets, and lost some of them.
    pub fn counted(&mut self, now: Time, packets: u32, lost: u32) {
        self.packets = self.packets.saturating_add(packets.into());
        self.lost_packets = self.lost_packets.saturating_add(lost.into());
        if lost > 0 {
            self.lost = Some(now);
        }
    }

    /// Forgets connections that are silent for long. Cheap to call often.
    pub fn tidy(&mut self, now: Time) {
        if now.since(self.forgot) < FORGET {
            return;
        }
        self.forgot = now;
        for home in self.homes.values_mut() {
            for at in (0..home.keys.len()).rev() {
                home.connections[at].tidy();
                if now.since(home.connections[at].seen) > SILENT {
                    home.forget(at);
                }
            }
        }
        self.count();
    }

    /// Age of a stall of a class's packets in the mesh, by `Direction::index`; `oldest`: of the oldest unanswered one.
    pub fn stalled(
        &mut self,
        now: Time,
        class: u16,
        oldest: [Option<Span>; 2],
    ) -> [Option<Span>; 2] {
        let Some(home) = self.homes.get_mut(&class) else { return oldest };
        let before = home.withholds;
        let trips = &mut home.round_trips;
        let stalled = [0, 1].map(|d| trips[d].stalled(now, oldest[d]));
        home.withholds = trips.iter().any(|t| t.withholds(now));
        if home.withholds && !before && self.withholding.len() < NAMED {
            self.withholding.push(class);
        }
        stalled
    }

    /// Returns the classes whose stalls have ceased to count since the last call.
    pub fn withholding(&mut self) -> Vec<u16> {
        core::mem::take(&mut self.withholding)
    }

    /// Ends a look at the round trips through the mesh of a class, by `Direction::index`; `None`: there were none.
    pub fn round_trips(&mut self, class: u16) -> [Option<RoundTripSample>; 2] {
        let home = self.homes.get_mut(&class).filter(|_| self.open);
        home.map_or([None; 2], |h| h.round_trips.each_mut().map(RoundTrips::look))
    }

    /// What is known of a class, by `Direction::index`. `None`: nothing was read of it at all.
    pub fn read(&self, now: Time, class: u16) -> Option<[Read; 2]> {
        let home = self.homes.get(&class).filter(|h| h.seen && self.open)?;
        let lately = |at: Option<Time>| at.is_some_and(|at| now.since(at) < DOUBT);
        let doubtful = lately(home.crowded) || lately(self.lost);
        Some([0, 1].map(|d| {
            // What was under way when headers were lost may have been acknowledged in them.
            let stale = |c: &&Connection| self.lost.is_some_and(|at| c.seen <= at);
            let all = home.connections.iter();
            let vague = all.clone().filter(stale).any(|c| c.awaited(now, d) > 0);
            let oldest = all.clone().filter_map(|c| c.oldest(now, d)).max();
            let awaited = all.map(|c| c.awaited(now, d)).fold(0, u64::saturating_add);
            Read {
                oldest: oldest.filter(|_| !doubtful && !vague),
                awaited: (!doubtful && !vague).then_some(awaited),
                repeated: home.repeated[d],
                bytes: home.bytes[d],
            }
        }))
    }

    /// What `status` tells, but for the state.
    pub fn report(&self) -> SignsReport {
        let connections = self.homes.values().map(|h| h.connections.len()).sum();
        let (packets, lost) = (self.packets, self.lost_packets);
        let [sent, answered] = self.probes.counts();
        let silent = self.probes.silent();
        let probes = Some(ProbesReport { sent, answered, silent, problem: None });
        SignsReport { packets, lost, connections, probes, ..SignsReport::default() }
    }

    /// Whether headers come.
    pub fn is_open(&self) -> bool {
        self.open
    }
}

impl Home {
    /// Takes in a spin bit.
    fn spin(&mut self, now: Time, key: u64, side: Side, bit: bool) -> Option<Trip> {
        let at = match self.spinning.iter().position(|s| s.0 == key) {
            Some(at) => at,
            None => {
                let oldest = self.spinning.iter().enumerate().min_by_key(|(_, s)| s.1);
                if let Some((at, _)) = oldest.filter(|_| self.spinning.len() >= MOST_SPINNING) {
                    self.spinning.swap_remove(at);
                }
                self.spinning.push((key, now, Spin::default()));
                self.spinning.len() - 1
            }
        };
        let (_, seen, spin) = &mut self.spinning[at];
        *seen = now;
        spin.see(now, side, bit)
    }

    /// Takes in a header; returns how many proven connections there are more, whether it brought nothing new, and the
    /// round trip that it completed.
    fn see(&mut self, now: Time, key: u64, header: &Header, room: bool) -> (isize, bool, Measured) {
        let mut more = 0;
        let found = self.keys.iter().position(|k| *k == key);
        let at = match found {
            Some(at) => at,
            // The end of what is not known is nothing new.
            None if header.flags.rst => return (0, false, None),
            None => {
                more -= self.make_room(now);
                self.keys.push(key);
                self.connections.push(Connection::new(now, header.direction));
                self.unproven += 1;
                self.keys.len() - 1
            }
        };
        let was = self.connections[at].proven;
        let (after, measured) = self.connections[at].see(now, header);
        let is = self.connections[at].proven;
        match (was, is) {
            (false, true) if !room => {
                // No room among all: rather nothing of this subscriber than a part.
                self.forget_as(at, false);
                self.crowded = Some(now);
                return (more, false, None);
            }
            (false, true) => (self.unproven, more) = (self.unproven - 1, more + 1),
            // Another one between the same ports, of which nothing is proven yet.
            (true, false) => {
                (self.unproven, more) = (self.unproven + 1, more - 1);
                if self.unproven > MOST_UNPROVEN {
                    self.forget_as(at, false);
                    self.crowded = Some(now);
                    return (more, false, None);
                }
            }
            _ => {}
        }
        if after == After::Over {
            more -= isize::from(self.forget(at));
        }
        (more, is && after == After::Repeated, measured)
    }

    /// Room for one more; how many proven ones went.
    fn make_room(&mut self, now: Time) -> isize {
        let unproven = self.unproven >= MOST_UNPROVEN;
        if !unproven && self.keys.len() < MOST_OF_ONE {
            return 0;
        }
        let all = self.connections.iter().enumerate();
        let which = all.filter(|(_, c)| !unproven || !c.proven);
        let Some((at, least)) = which.min_by_key(|(_, c)| c.worth(now)) else { return 0 };
        // One that ended without a word is no loss. Others may have been under way.
        if !least.proven || (0..2).any(|d| least.awaited(now, d) > 0) {
            self.crowded = Some(now);
        }
        isize::from(self.forget(at))
    }

    /// Whether it was a proven one.
    fn forget(&mut self, at: usize) -> bool {
        let proven = self.connections[at].proven;
        self.forget_as(at, proven);
        proven
    }

    fn forget_as(&mut self, at: usize, proven: bool) {
        self.keys.swap_remove(at);
        self.connections.swap_remove(at);
        self.unproven -= usize::from(!proven);
    }
}

#[cfg(test)]
mod tests;
