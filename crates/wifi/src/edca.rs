//! A station's four contenders: what EDCA adds to the backoff (IEEE 802.11-2020 §10.23.2).
//!
//! All of them see one medium, so they differ by window, slots, AIFS and what they have to send. The one *at hand*
//! has its state in [`Station`] and [`Service`], where exchanges find it; the others are parked here. They
//! change places only while no exchange runs.

use fairmesh_units::{NodeId, Stream, Time};

use crate::access::{Access, AccessParameters, Edca};
use crate::air::Air;
use crate::mpdu::Service;
use crate::phy::Rate;
use crate::station::{Intervals, Phase, Station};
use crate::upper::Upper;

/// What all stations of a medium with access categories have beside [`Station`].
#[derive(Clone, Debug)]
pub(crate) struct Categories {
    pub edca: Edca,
    /// SIFS and AIFSN slots, ns (IEEE 802.11-2020 §10.3.2.3.6).
    aifs: [u32; Access::COUNT],
    /// Links of the medium: the places of one category in tables of links.
    links: usize,
    /// By station.
    at: Vec<Contenders>,
}

#[derive(Clone, Debug)]
struct Contenders {
    at_hand: Access,
    /// The place of the one at hand means nothing.
    parked: [Contender; Access::COUNT],
}

/// One that is not at hand.
#[derive(Clone, Debug)]
struct Contender {
    service: Service,
    backoff_from: u64,
    slots: u32,
    cw: u32,
    rts_failures: u32,
    short_retries: u32,
    long_retries: u32,
}

impl Categories {
    /// Best effort is at hand; the others draw their first backoff.
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
            at.push(Contenders { at_hand: Access::BestEffort, parked });
        }
        Categories { edca, aifs, links, at }
    }

    /// The category whose exchange it is, or would be.
    #[inline]
    pub fn at_hand(&self, station: usize) -> Access {
        self.at[station].at_hand
    }

    /// The place of a link's numbers in the category that its sender has at hand: each has its own TID.
    #[inline]
    pub fn place(&self, sender: usize, link: usize) -> usize {
        link + self.links * self.at[sender].at_hand.index()
    }

    /// What the category at hand contends by.
    #[inline]
    pub fn parameters(&self, station: usize) -> &AccessParameters {
        self.edca.of(self.at[station].at_hand)
    }

    /// When the countdown of a parked category starts or started.
    fn start(&self, i: usize, access: usize, clear: u64) -> u64 {
        self.at[i].parked[access].backoff_from.max(clear + u64::from(self.aifs[access]))
    }

    /// Parked categories, and whether each has something to send.
    fn others(&self, i: usize) -> impl Iterator<Item = (usize, bool)> + '_ {
        let c = &self.at[i];
        let others = (0..Access::COUNT).filter(move |&a| a != c.at_hand.index());
        others.map(|a| (a, !c.parked[a].service.mpdus.is_empty()))
    }

    /// Counts down the parked categories of a station, as [`Station::count_down`] does the one at hand.
    pub fn count_down(&mut self, i: usize, s: &Station, now: u64, t: &Intervals) {
        // A station that is no radio has none.
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

    /// The instant of a station's next own action, of whatever category; `own` is in the service at hand.
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
        first.min(s.answer_at)
    }

    /// Puts a category at hand in place of the one that is.
    fn switch(&mut self, i: usize, to: Access, s: &mut Station, service: &mut Service) {
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

impl Air {
    /// The category that a station has at hand; best effort where there are none.
    #[inline]
    pub(crate) fn access_of<U: Upper>(&self, station: u32) -> Access {
        match &self.categories {
            Some(c) if U::EDCA => {
                c.at.get(station as usize).map_or(Access::BestEffort, |c| c.at_hand)
            }
            _ => Access::BestEffort,
        }
    }

    /// The place of a link's sequence numbers and reorder buffer.
    #[inline]
    pub(crate) fn place<U: Upper>(&self, sender: u32, link: usize) -> usize {
        match &self.categories {
            Some(c) if U::EDCA => c.place(sender as usize, link),
            _ => link,
        }
    }

    /// The smallest window of what a station has at hand.
    #[inline]
    pub(crate) fn cw_min<U: Upper>(&self, station: u32) -> u32 {
        match &self.categories {
            Some(c) if U::EDCA => c.parameters(station as usize).cw_min,
            _ => self.phy.timing().cw_min,
        }
    }

    /// Its window after one more failure.
    #[inline]
    pub(crate) fn next_cw<U: Upper>(&self, station: u32, cw: u32) -> u32 {
        match &self.categories {
            Some(c) if U::EDCA => c.parameters(station as usize).next_cw(cw),
            _ => self.phy.timing().next_cw(cw),
        }
    }

    fn switch(&mut self, station: u32, to: Access) {
        let i = station as usize;
        if let Some(c) = &mut self.categories {
            c.switch(i, to, &mut self.stations[i], &mut self.service[i]);
        }
    }

    fn waits(&self, station: u32, access: Access) -> bool {
        let i = station as usize;
        let Some(c) = &self.categories else { return false };
        let service = match c.at_hand(i) == access {
            true => &self.service[i],
            false => &c.at[i].parked[access.index()].service,
        };
        !service.mpdus.is_empty()
    }

    /// Every category that has nothing in hand takes its next packet and asks for the medium, unless an exchange
    /// runs. `busy`: the medium was busy when the packets came.
    pub(crate) fn take_each<U: Upper>(
        &mut self,
        station: u32,
        now: u64,
        busy: bool,
        upper: &mut U,
    ) {
        let i = station as usize;
        if !matches!(self.stations[i].phase, Phase::Idle | Phase::Contending) {
            return;
        }
        let mut any = false;
        for access in Access::ALL.into_iter().rev() {
            if self.waits(station, access) {
                any = true;
                continue;
            }
            let packet = upper.pull_of(Time::from_nanos(now), NodeId(station), access);
            if let Some(packet) = packet {
                self.switch(station, access);
                self.put::<U>(station, now, packet);
                self.ask::<U>(station, now, busy);
                any = true;
            }
        }
        if any {
            self.stations[i].phase = Phase::Contending;
            self.rearm::<U>(station);
        }
    }

    /// The countdown of one or several categories has ended: the highest is put at hand to send, for each other it is
    /// as if its frame had collided (IEEE 802.11-2020 §10.23.2.4, §10.23.2.12.1).
    pub(crate) fn resolve<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let i = station as usize;
        let Some(c) = &self.categories else { return };
        let (s, at_hand) = (&self.stations[i], c.at_hand(i));
        let clear = s.clear();
        let due = |access: Access| {
            let at = match access == at_hand {
                true => s.access_at(&self.t),
                false => {
                    let slots = u64::from(c.at[i].parked[access.index()].slots);
                    c.start(i, access.index(), clear) + slots * self.t.slot
                }
            };
            at <= now && self.waits(station, access)
        };
        let due = Access::ALL.map(due);
        let Some(winner) = Access::ALL.into_iter().rev().find(|a| due[a.index()]) else { return };
        for loser in Access::ALL.into_iter().filter(|&a| a < winner && due[a.index()]) {
            self.switch(station, loser);
            self.collide_inside(station, now, upper);
        }
        self.switch(station, winner);
        self.stations[i].phase = Phase::Contending;
    }

    /// A station's category at hand has lost the medium to a higher one of its own.
    fn collide_inside<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let i = station as usize;
        self.counters[i].internal_collisions += 1;
        let limits = self.phy.timing();
        let (s, v) = (&mut self.stations[i], &mut self.service[i]);
        let gives_up = if v.rts {
            s.long_retries += 1;
            s.long_retries >= limits.long_retry_limit
        } else {
            s.short_retries += 1;
            s.short_retries >= limits.short_retry_limit
        };
        if gives_up {
            // What was left of a frame that was answered in part is the frame now.
            v.aggregate = v.aggregate.clamp(1, v.mpdus.len());
            self.counters[i].gave_up += v.aggregate as u64;
            self.release(station, now, false, upper);
            return;
        }
        let cw = self.next_cw::<U>(station, self.stations[i].cw);
        self.stations[i].cw = cw;
        self.draw(station, now);
        // This slot is over for it.
        self.stations[i].backoff_from = now + self.t.slot;
    }
}
