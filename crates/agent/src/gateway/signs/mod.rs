//! Conversion of TCP headers to signs: unacknowledged bytes of each subscriber and direction.
//!
//! There is no clock and no socket: headers and `now` are inputs. Memory is bounded. The data of a subscriber
//! is unknown rather than wrong: after headers were lost, and after more connections came than are kept.

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
use self::connection::{Connection, Measured, PacketResult};

/// Most connections that are kept of all subscribers.
pub const MAX_CONNECTIONS: usize = 32_768;
/// Most connections that are kept of one subscriber.
pub const MAX_PER_HOME: usize = 128;
/// Most unproven connections that are kept of one subscriber.
pub const MAX_UNPROVEN: usize = 16;

/// Most QUIC connections of one subscriber whose spin bit is followed: the latest ones.
pub const MAX_SPINNING: usize = 8;

/// Time for which data is unknown after lost headers or an overflow of connections.
const UNKNOWN_TIME: Span = Span::from_secs(10);
/// Time for which an idle connection is kept.
///
/// It is longer than any interval between two retransmissions of a TCP (RFC 6298 §2.5: 60 s and more; Linux 120 s).
const IDLE_TIMEOUT: Span = Span::from_secs(300);
/// Most classes that wait to be reported.
const MAX_REPORTED: usize = 100;
const TIDY_INTERVAL: Span = Span::from_secs(30);

/// A reader that the capture thread and the daemon's loop share.
pub type SharedReader = Arc<Mutex<Reader>>;

/// Header data of one subscriber in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Read {
    /// Bytes that have passed and are unacknowledged; `None`: unknown.
    pub awaited: Option<u64>,
    /// Segments without new data.
    pub repeated: u64,
    /// IP bytes of all TCP packets.
    pub bytes: u64,
    /// Age of the oldest unanswered packet in the mesh; `None`: there is none, or it is unknown.
    pub oldest: Option<Span>,
}

/// The reader of TCP headers in `status`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct SignsReport {
    /// State: reading, off (by the configuration), idle (not used by the control) or unavailable.
    pub state: String,
    /// Obstacle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// TCP packets since the start, including the lost ones.
    pub packets: u64,
    /// Packets that arrived faster than they were read.
    pub lost: u64,
    /// Connections that are known at present.
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
    /// Replies since the start.
    pub answered: u64,
    /// Homes that do not reply; probes to them pause.
    pub silent: usize,
    /// Reason why no probes can be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Default)]
struct Home {
    keys: Vec<u64>,
    connections: Vec<Connection>,
    unproven: usize,
    /// Segments without new data, by `Direction::index`.
    repeated: [u64; 2],
    bytes: [u64; 2],
    round_trips: [RoundTrips; 2],
    seen: bool,
    crowded: Option<Time>,
    /// QUIC connections: key, last packet, spin bits.
    spinning: Vec<(u64, Time, Spin)>,
    /// Address of the last packet that was read.
    near: Option<IpAddr>,
    /// True if it has acknowledged nothing for so long that its stalls do not count.
    withholds: bool,
    /// Directions with traffic and without round trips of their own.
    probed: [bool; 2],
}

/// Reader of headers.
#[derive(Debug, Default)]
pub struct Reader {
    maps: Maps,
    addresses: BTreeMap<u16, (Vec<IpNet>, Vec<MacAddr>)>,
    homes: BTreeMap<u16, Home>,
    /// Proven connections of all homes.
    proven: usize,
    chance: RandomState,
    lost: Option<Time>,
    packets: u64,
    lost_packets: u64,
    forgot: Time,
    /// True if headers are delivered.
    open: bool,
    /// Time since when headers are delivered, or are not.
    since: Time,
    probes: Probes,
    /// Classes to be reported as withholding acknowledgements.
    withholding: Vec<u16>,
}

impl Reader {
    /// Sets the addresses of the subscribers. Data of those whose addresses change is discarded.
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

    /// Records that headers are delivered, or no longer; earlier data is discarded.
    pub fn opened(&mut self, now: Time, open: bool) {
        (self.open, self.since, self.lost) = (open, now, None);
        self.homes.clear();
        self.proven = 0;
        self.probes.retain(|_| false);
    }

    /// Records the packets that a home has had since the last sample, by `Direction::index`.
    ///
    /// A direction with packets and without round trips requests a probe.
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

    /// Iterates over addresses at which a home may reply.
    ///
    /// The address of its traffic is first, then its own single addresses from the configuration and the sources.
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

    /// Returns the time of the next probe.
    pub fn next_probe(&self) -> Time {
        self.probes.next_deadline()
    }

    /// Handles a reply to a probe.
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

    /// Returns the age of the first of several unanswered probes, by `Direction::index`.
    pub fn oldest_probe(&self, now: Time, class: u16) -> [Option<Span>; 2] {
        let probed = self.homes.get(&class).map_or([false; 2], |h| h.probed);
        let oldest = self.probes.oldest(now, class.into());
        probed.map(|probed| oldest.filter(|_| probed))
    }

    /// True if a class does not reply to probes, so that they pause.
    pub fn is_unresponsive(&self, class: u16) -> bool {
        self.probes.is_unresponsive(class.into())
    }

    /// Returns the classes that ceased to reply since the last call, with the last address tried.
    pub fn ceased(&mut self) -> Vec<(u16, Option<IpAddr>)> {
        let homes = self.probes.given_up().into_iter();
        let classes = homes.filter_map(|home| u16::try_from(home).ok());
        classes.map(|class| (class, self.addresses_of(class).next())).collect()
    }

    /// Handles a header.
    pub fn see(&mut self, now: Time, header: &Header) {
        let Some(class) = self.maps.class_of(header.near.0, header.mac) else { return };
        let d = header.direction.index();
        let key = self.chance.hash_one((header.near, header.far));
        let room = self.proven < MAX_CONNECTIONS;
        let home = self.homes.entry(class).or_default();
        (home.seen, home.near) = (true, Some(header.near.0));
        home.bytes[d] = home.bytes[d].saturating_add(header.bytes.into());
        let (proven, repeated, measured) = home.see(now, key, header, room);
        // A lost header may have been a retransmission.
        let doubtful = |time: Span| self.lost.is_some_and(|lost| now.since(lost) <= time);
        if let Some((d, trip)) = measured.filter(|(_, trip)| !doubtful(trip.time)) {
            home.round_trips[d].add(now, trip);
        }
        home.repeated[d] += u64::from(repeated);
        self.proven = self.proven.saturating_add_signed(proven);
    }

    /// Handles a datagram: the address of its subscriber, and QUIC's spin bit.
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
            // It results from the bits of both directions, so it counts for both.
            home.round_trips.iter_mut().for_each(|trips| trips.add(now, trip));
        }
    }

    /// Records the capture's counters of packets and lost packets.
    pub fn counted(&mut self, now: Time, packets: u32, lost: u32) {
        self.packets = self.packets.saturating_add(packets.into());
        self.lost_packets = self.lost_packets.saturating_add(lost.into());
        if lost > 0 {
            self.lost = Some(now);
        }
    }

    /// Removes connections that were idle for long. Frequent calls are cheap.
    pub fn tidy(&mut self, now: Time) {
        if now.since(self.forgot) < TIDY_INTERVAL {
            return;
        }
        self.forgot = now;
        for home in self.homes.values_mut() {
            for at in (0..home.keys.len()).rev() {
                home.connections[at].tidy();
                if now.since(home.connections[at].seen) > IDLE_TIMEOUT {
                    home.forget(at);
                }
            }
        }
        self.count();
    }

    /// Returns the age of a stall of a class's packets in the mesh, by `Direction::index`.
    ///
    /// `oldest`: age of the oldest unanswered packet.
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
        if home.withholds && !before && self.withholding.len() < MAX_REPORTED {
            self.withholding.push(class);
        }
        stalled
    }

    /// Returns the classes with stalls that have ceased to count since the last call.
    pub fn withholding(&mut self) -> Vec<u16> {
        core::mem::take(&mut self.withholding)
    }

    /// Ends a sample of a class's round trips through the mesh, by `Direction::index`.
    ///
    /// `None` without round trips.
    pub fn round_trips(&mut self, class: u16) -> [Option<RoundTripSample>; 2] {
        let home = self.homes.get_mut(&class).filter(|_| self.open);
        home.map_or([None; 2], |h| h.round_trips.each_mut().map(RoundTrips::look))
    }

    /// Returns the data of a class, by `Direction::index`; `None` if no header of it was read.
    pub fn read(&self, now: Time, class: u16) -> Option<[Read; 2]> {
        let home = self.homes.get(&class).filter(|h| h.seen && self.open)?;
        let lately = |at: Option<Time>| at.is_some_and(|at| now.since(at) < UNKNOWN_TIME);
        let doubtful = lately(home.crowded) || lately(self.lost);
        Some([0, 1].map(|d| {
            // Data in flight when headers were lost may have been acknowledged in them.
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

    /// Returns the part of `status`, except the state.
    pub fn report(&self) -> SignsReport {
        let connections = self.homes.values().map(|h| h.connections.len()).sum();
        let (packets, lost) = (self.packets, self.lost_packets);
        let [sent, answered] = self.probes.counts();
        let silent = self.probes.unresponsive();
        let probes = Some(ProbesReport { sent, answered, silent, problem: None });
        SignsReport { packets, lost, connections, probes, ..SignsReport::default() }
    }

    /// True if headers are delivered.
    pub fn is_open(&self) -> bool {
        self.open
    }
}

impl Home {
    /// Handles a spin bit.
    fn spin(&mut self, now: Time, key: u64, side: Side, bit: bool) -> Option<Trip> {
        let at = match self.spinning.iter().position(|s| s.0 == key) {
            Some(at) => at,
            None => {
                let oldest = self.spinning.iter().enumerate().min_by_key(|(_, s)| s.1);
                if let Some((at, _)) = oldest.filter(|_| self.spinning.len() >= MAX_SPINNING) {
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

    /// Handles a header.
    ///
    /// Returns the change of the number of proven connections, true if the header had no new data, and the round trip
    /// that it completed.
    fn see(&mut self, now: Time, key: u64, header: &Header, room: bool) -> (isize, bool, Measured) {
        let mut more = 0;
        let found = self.keys.iter().position(|k| *k == key);
        let at = match found {
            Some(at) => at,
            // The end of an unknown connection brings no data.
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
                // The total is reached: no data of this subscriber rather than a part of it.
                self.forget_as(at, false);
                self.crowded = Some(now);
                return (more, false, None);
            }
            (false, true) => (self.unproven, more) = (self.unproven - 1, more + 1),
            // Another connection between the same ports, which is not proven yet.
            (true, false) => {
                (self.unproven, more) = (self.unproven + 1, more - 1);
                if self.unproven > MAX_UNPROVEN {
                    self.forget_as(at, false);
                    self.crowded = Some(now);
                    return (more, false, None);
                }
            }
            _ => {}
        }
        if after == PacketResult::Ended {
            more -= isize::from(self.forget(at));
        }
        (more, is && after == PacketResult::Repeated, measured)
    }

    /// Makes room for one more connection; returns the number of removed proven ones.
    fn make_room(&mut self, now: Time) -> isize {
        let unproven = self.unproven >= MAX_UNPROVEN;
        if !unproven && self.keys.len() < MAX_PER_HOME {
            return 0;
        }
        let all = self.connections.iter().enumerate();
        let which = all.filter(|(_, c)| !unproven || !c.proven);
        let Some((at, least)) = which.min_by_key(|(_, c)| c.worth(now)) else { return 0 };
        // A connection that ended without closing is not a loss. Others may have had data in flight.
        if !least.proven || (0..2).any(|d| least.awaited(now, d) > 0) {
            self.crowded = Some(now);
        }
        isize::from(self.forget(at))
    }

    /// Removes a connection; returns true if it was proven.
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
