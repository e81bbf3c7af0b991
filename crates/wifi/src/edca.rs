//! EDCA's additions to the backoff (IEEE 802.11-2020 §10.23.2).
//!
//! They are for the active category of [`crate::categories`].

use fairmesh_units::{NodeId, Time};

use crate::access::Access;
use crate::air::Air;
use crate::station::Phase;
use crate::upper::Upper;

impl Air {
    /// Returns a station's active category; best effort without categories.
    #[inline]
    pub(crate) fn access_of<U: Upper>(&self, station: u32) -> Access {
        match &self.categories {
            Some(c) if U::EDCA => {
                c.at.get(station as usize).map_or(Access::BestEffort, |c| c.at_hand)
            }
            _ => Access::BestEffort,
        }
    }

    /// Returns the index of a link's sequence numbers and reorder buffer.
    #[inline]
    pub(crate) fn place<U: Upper>(&self, sender: u32, link: usize) -> usize {
        match &self.categories {
            Some(c) if U::EDCA => c.place(sender as usize, link),
            _ => link,
        }
    }

    /// Returns the smallest contention window of a station's active category.
    #[inline]
    pub(crate) fn cw_min<U: Upper>(&self, station: u32) -> u32 {
        match &self.categories {
            Some(c) if U::EDCA => c.parameters(station as usize).cw_min,
            _ => self.phy.timing().cw_min,
        }
    }

    /// Returns the contention window of the active category after one more failure.
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

    /// Lets each category without a packet in hand take its next packet and contend.
    ///
    /// No effect while an exchange runs. `busy`: true if the medium was busy when the packets
    /// arrived.
    pub(crate) fn take_per_category<U: Upper>(
        &mut self,
        station: u32,
        now: u64,
        busy: bool,
        upper: &mut U,
    ) {
        let i = station as usize;
        let settled = self.categories.as_ref().is_some_and(|c| c.is_committed(i));
        if settled || !matches!(self.stations[i].phase, Phase::Idle | Phase::Contending) {
            return;
        }
        let mut any = false;
        for access in Access::ALL.into_iter().rev() {
            if self.waits(station, access) {
                any = true;
                continue;
            }
            let packet = upper.pull(Time::from_nanos(now), NodeId(station), access);
            if let Some(packet) = packet {
                self.switch(station, access);
                self.put::<U>(station, now, packet);
                self.prepare_backoff::<U>(station, now, busy);
                any = true;
            }
        }
        if any {
            self.stations[i].phase = Phase::Contending;
            self.rearm::<U>(station);
        }
    }

    /// Resolves the end of the countdown of one or several categories.
    ///
    /// The highest one sends; each other acts as if its frame had collided (IEEE 802.11-2020
    /// §10.23.2.4, §10.23.2.12.1).
    pub(crate) fn resolve<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let i = station as usize;
        let Some(c) = &mut self.categories else { return };
        let over = c.due(i, &self.stations[i], now, &self.t);
        let due = Access::ALL.map(|a| over[a.index()] && self.waits(station, a));
        let Some(winner) = Access::ALL.into_iter().rev().find(|a| due[a.index()]) else { return };
        for loser in Access::ALL.into_iter().filter(|&a| a < winner && due[a.index()]) {
            self.switch(station, loser);
            self.collide_inside(station, now, upper);
        }
        self.switch(station, winner);
        self.stations[i].phase = Phase::Contending;
    }

    /// Handles an internal collision that the active category has lost to a higher one.
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
            // The remaining MPDUs of a partly acknowledged frame form the new frame.
            v.aggregate = v.aggregate.clamp(1, v.mpdus.len());
            self.counters[i].gave_up += self.packets_in_hand::<U>(station);
            self.release(station, now, false, upper);
            return;
        }
        let cw = self.next_cw::<U>(station, self.stations[i].cw);
        self.stations[i].cw = cw;
        self.draw::<U>(station, now);
        // The category cannot use the present slot.
        self.stations[i].backoff_from = now + self.t.slot;
    }
}
