//! All media of a scenario.
//!
//! Radios of one PHY share a medium on all channels; radios with different settings do not
//! interact.

use fairmesh_phy::Rate;
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Time};
use fairmesh_wifi::{Air, ChannelTime, LinkId, LinkLosses, MacCounters, MacState, Upper};

/// The medium of `[radio]` and the media of radios with other settings.
///
/// Each medium has all stations; stations of other media are idle there.
#[derive(Clone, Debug)]
pub(crate) struct Airs {
    first: Air,
    more: Vec<Air>,
    /// Index of each station's medium; 0 is `first`. Empty if there is only one medium.
    of: Vec<u8>,
}

impl Airs {
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let first = scenario.air(scenario.mac(), 0, seed);
        let mut media = Vec::new();
        for radio in scenario.further().iter().filter(|r| r.medium != 0) {
            if !media.contains(&radio.medium) {
                media.push(radio.medium);
            }
        }
        if media.is_empty() {
            return Airs { first, more: Vec::new(), of: Vec::new() };
        }
        let build = |&m: &u8| {
            let radio = &scenario.further()[usize::from(m) - 1];
            scenario.air(&radio.mac, m, seed)
        };
        let place = |n: NodeId| {
            let medium = scenario.medium_of(n);
            media.iter().position(|m| *m == medium).map_or(0, |at| at as u8 + 1)
        };
        let more = media.iter().map(build).collect();
        Airs { first, more, of: scenario.wireless().map(place).collect() }
    }

    #[inline]
    fn at(&self, station: NodeId) -> &Air {
        match self.of.get(station.index()) {
            None | Some(0) => &self.first,
            Some(&m) => &self.more[usize::from(m) - 1],
        }
    }

    #[inline]
    fn at_mut(&mut self, station: NodeId) -> &mut Air {
        match self.of.get(station.index()) {
            None | Some(0) => &mut self.first,
            Some(&m) => &mut self.more[usize::from(m) - 1],
        }
    }

    /// Returns the instant of the next event; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_deadline(&mut self) -> Time {
        let first = self.first.next_deadline();
        if self.more.is_empty() {
            return first;
        }
        self.more.iter_mut().map(Air::next_deadline).fold(first, Time::min)
    }

    /// Processes the next event; of several at one instant, that of the first medium.
    #[inline]
    pub fn step<U: Upper>(&mut self, upper: &mut U) {
        if self.more.is_empty() {
            self.first.step(upper);
        } else {
            self.step_one(upper);
        }
    }

    #[inline(never)]
    fn step_one<U: Upper>(&mut self, upper: &mut U) {
        let at = self.next_deadline();
        let all = core::iter::once(&mut self.first).chain(&mut self.more);
        for air in all {
            if air.next_deadline() == at {
                air.step(upper);
                return;
            }
        }
    }

    /// Returns true if a station's MAC is busy, so that a packet that arrives now waits.
    #[inline]
    pub fn is_busy(&self, node: NodeId) -> bool {
        self.at(node).is_busy(node)
    }

    /// Notifies a MAC that the upper layer has queued a packet for [`Upper::pull`].
    #[inline]
    pub fn kick<U: Upper>(&mut self, now: Time, node: NodeId, upper: &mut U) {
        if self.more.is_empty() {
            self.first.kick(now, node, upper);
        } else {
            self.kick_one(now, node, upper);
        }
    }

    #[inline(never)]
    fn kick_one<U: Upper>(&mut self, now: Time, node: NodeId, upper: &mut U) {
        self.at_mut(node).kick(now, node, upper);
    }

    /// Returns the link from one station to another, if the second receives the first.
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<LinkId> {
        self.at(from).link(from, to)
    }

    /// Returns the outcomes of all attempts of `from` over a link.
    pub fn losses(&self, from: NodeId, link: LinkId) -> &LinkLosses {
        self.at(from).losses(link)
    }

    /// Returns true if a station senses the frames of another station or of an interferer.
    pub fn senses(&self, station: NodeId, other: NodeId) -> bool {
        self.at(station).senses(station, other)
    }

    /// Changes the data rate of a link of `from` from the next attempt on.
    pub fn set_rate(&mut self, from: NodeId, link: LinkId, rate: Rate) {
        self.at_mut(from).set_rate(link, rate);
    }

    /// Returns the MAC counters of one station.
    pub fn counters(&self, node: NodeId) -> &MacCounters {
        self.at(node).counters(node)
    }

    /// Returns a station's time until `now`, divided by channel state.
    pub fn channel_time(&self, now: Time, node: NodeId) -> ChannelTime {
        self.at(node).channel_time(now, node)
    }

    /// Returns the state of a station's MAC.
    pub fn mac_state(&self, node: NodeId) -> MacState {
        self.at(node).mac_state(node)
    }

    /// Returns the number of transmissions so far.
    pub fn transmissions(&self) -> u64 {
        self.first.transmissions() + self.more.iter().map(Air::transmissions).sum::<u64>()
    }

    /// Returns a hash of every transmission so far.
    pub fn fingerprint(&self) -> u64 {
        let add = |f: u64, air: &Air| (f ^ air.fingerprint()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.more.iter().fold(self.first.fingerprint(), add)
    }
}
