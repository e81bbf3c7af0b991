//! The four contenders of a station.
//!
//! They share one medium and differ in window, slots, AIFS and queued packets. The state of the
//! *active* one is in [`Station`] and [`Service`], where exchanges use it; the others are parked
//! here. Contenders are switched only while no exchange runs.

use fairmesh_phy::Rate;
use fairmesh_units::Stream;

use crate::access::{Access, AccessParameters, Edca};
use crate::mpdu::Service;
use crate::station::{Intervals, Phase, Station};

/// State that access categories add to the stations of a medium.
#[derive(Clone, Debug)]
pub(crate) struct Categories {
    pub edca: Edca,
    /// SIFS and AIFSN slots, ns (IEEE 802.11-2020 §10.3.2.3.6).
    aifs: [u32; Access::COUNT],
    /// Links of the medium: the number of entries of one category in tables of links.
    links: usize,
    /// By station.
    pub at: Vec<Contenders>,
}

#[derive(Clone, Debug)]
pub(crate) struct Contenders {
    pub at_hand: Access,
    /// Bit set of categories with countdowns that end before a new transmission is detected.
    ///
    /// They collide with it.
    committed: u8,
    /// Parked contenders; the entry of the active category is unused.
    pub parked: [Contender; Access::COUNT],
}

/// State of a parked category.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub service: Service,
    backoff_from: u64,
    pub slots: u32,
    cw: u32,
    rts_failures: u32,
    short_retries: u32,
    long_retries: u32,
}

impl Categories {
    /// Builds the state with best effort active; the others draw their first backoff.
    pub fn new(
        edca: Edca,
        t: &Intervals,
        links: usize,
        rate: Rate,
        rngs: &mut [Stream],
        stations: &mut [Station],
    ) -> Self {
        let aifs = edca.0.map(|p| (t.sifs + u64::from(p.aifsn) * t.slot) as u32);
        let mut at = Vec::with_capacity(rngs.len());
        for (s, rng) in stations.iter_mut().zip(rngs) {
            s.aifs = aifs[Access::BestEffort.index()];
            s.cw = edca.of(Access::BestEffort).cw_min;
            let mut slots = |access: usize| match access == Access::BestEffort.index() {
                true => 0,
                false => rng.below(edca.0[access].cw_min + 1),
            };
            let parked = core::array::from_fn(|i| Contender {
                service: Service::idle(rate),
                backoff_from: 0,
                slots: slots(i),
                cw: edca.0[i].cw_min,
                rts_failures: 0,
                short_retries: 0,
                long_retries: 0,
            });
            at.push(Contenders { at_hand: Access::BestEffort, committed: 0, parked });
        }
        Categories { edca, aifs, links, at }
    }

    /// Returns the category of the present or next exchange.
    #[inline]
    pub fn at_hand(&self, station: usize) -> Access {
        self.at[station].at_hand
    }

    /// Returns the index of a link's sequence numbers in its sender's active category.
    ///
    /// Each category has its own TID.
    #[inline]
    pub fn place(&self, sender: usize, link: usize) -> usize {
        link + self.links * self.at[sender].at_hand.index()
    }

    /// Returns the contention parameters of the active category.
    #[inline]
    pub fn parameters(&self, station: usize) -> &AccessParameters {
        self.edca.of(self.at[station].at_hand)
    }

    /// Returns the instant at which the countdown of a parked category starts or started.
    pub fn start(&self, i: usize, access: usize, clear: u64) -> u64 {
        self.at[i].parked[access].backoff_from.max(clear + u64::from(self.aifs[access]))
    }

    /// Returns the parked categories, each with true if it has a packet to send.
    fn others(&self, i: usize) -> impl Iterator<Item = (usize, bool)> + '_ {
        let c = &self.at[i];
        let others = (0..Access::COUNT).filter(move |&a| a != c.at_hand.index());
        others.map(|a| (a, !c.parked[a].service.mpdus.is_empty()))
    }

    /// Counts down the parked categories of a station, as [`Station::count_down`].
    pub fn count_down(&mut self, i: usize, s: &Station, now: u64, t: &Intervals) {
        // Interferers have no categories.
        if i >= self.at.len() {
            return;
        }
        let clear = s.clear();
        let at_hand = self.at[i].at_hand.index();
        for access in (0..Access::COUNT).filter(|&a| a != at_hand) {
            let start = self.start(i, access, clear);
            let c = &mut self.at[i].parked[access];
            if c.slots > 0 && now >= start {
                let idle = ((now - start) / t.slot + 1).min(u64::from(c.slots));
                c.slots -= idle as u32;
                c.backoff_from = start + idle * t.slot;
            }
        }
    }

    /// Returns the categories with countdowns that have ended by `now`, as a bit set.
    ///
    /// Categories without a packet are included.
    fn over(&self, i: usize, s: &Station, now: u64, t: &Intervals) -> u8 {
        let clear = s.clear();
        let over = |a: &usize| {
            let end = match *a == self.at[i].at_hand.index() {
                true => s.access_at(t),
                false => self.start(i, *a, clear) + u64::from(self.at[i].parked[*a].slots) * t.slot,
            };
            end <= now
        };
        (0..Access::COUNT).filter(over).fold(0, |bits, a| bits | 1 << a)
    }

    /// Fixes the action at a station's wake, because a frame has begun.
    ///
    /// The station will not detect this frame before its wake.
    pub fn commit(&mut self, i: usize, s: &Station, wake: u64, t: &Intervals) {
        if i < self.at.len() && s.phase == Phase::Contending && !self.is_committed(i) {
            self.at[i].committed = self.over(i, s, wake, t);
        }
    }

    pub fn is_committed(&self, i: usize) -> bool {
        self.at[i].committed != 0
    }

    /// Returns the categories with countdowns that have ended.
    pub fn due(&mut self, i: usize, s: &Station, now: u64, t: &Intervals) -> [bool; Access::COUNT] {
        let bits = match core::mem::take(&mut self.at[i].committed) {
            0 => self.over(i, s, now, t),
            settled => settled,
        };
        core::array::from_fn(|a| bits & 1 << a != 0)
    }

    /// Returns the instant of a station's next own action, of any category.
    ///
    /// `own`: the active category has a packet.
    pub fn wake_at(&self, i: usize, s: &Station, own: bool, t: &Intervals) -> u64 {
        if s.phase != Phase::Contending {
            return s.wake_at(t);
        }
        let clear = s.clear();
        let mut first = if own { s.access_at(t) } else { u64::MAX };
        for (a, waits) in self.others(i) {
            if waits {
                let slots = u64::from(self.at[i].parked[a].slots);
                first = first.min(self.start(i, a, clear) + slots * t.slot);
            }
        }
        first.min(s.response_at)
    }

    /// Activates a category and parks the former one.
    pub fn switch(&mut self, i: usize, to: Access, s: &mut Station, service: &mut Service) {
        let c = &mut self.at[i];
        if c.at_hand == to {
            return;
        }
        debug_assert!(matches!(s.phase, Phase::Idle | Phase::Contending));
        let place = &mut c.parked[c.at_hand.index()];
        core::mem::swap(&mut place.service, service);
        (place.backoff_from, place.slots, place.cw) = (s.backoff_from, s.slots, s.cw);
        place.rts_failures = s.rts_failures;
        (place.short_retries, place.long_retries) = (s.short_retries, s.long_retries);
        let next = &mut c.parked[to.index()];
        core::mem::swap(&mut next.service, service);
        (s.backoff_from, s.slots, s.cw) = (next.backoff_from, next.slots, next.cw);
        s.rts_failures = next.rts_failures;
        (s.short_retries, s.long_retries) = (next.short_retries, next.long_retries);
        s.aifs = self.aifs[to.index()];
        c.at_hand = to;
    }
}
