//! Attempts of stations: counted by link, and reported to an observing layer above.

use fairmesh_units::{NodeId, Time};

use crate::air::Air;
use crate::losses::{AttemptOutcome, LinkLosses};
use crate::packet::LinkId;
use crate::upper::Upper;

impl Air {
    /// Returns the outcomes of all attempts over a link so far.
    pub fn losses(&self, link: LinkId) -> &LinkLosses {
        self.losses.of(link)
    }

    /// Returns true if a station senses the frames of another station or of an interferer.
    pub fn senses(&self, station: NodeId, other: NodeId) -> bool {
        self.neighbours.find(other.0, station.0).is_some()
    }

    /// Counts the station's frame in hand as unanswered.
    pub(crate) fn count_unanswered<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let v = &self.service[station as usize];
        let Some(link) = v.link else { return };
        let arrived = v.mpdus.iter().take(v.aggregate).any(|m| m.accepted);
        self.losses.unanswered(link, station, v.to, arrived, &self.on_air);
        if U::OBSERVE {
            let by = self.losses.overlapping(station, v.to, &self.on_air);
            let outcome = match (arrived, by.is_empty()) {
                (true, _) => AttemptOutcome::ResponseLost,
                (false, true) => AttemptOutcome::NotOverlapped,
                (false, false) => AttemptOutcome::Overlapped(by),
            };
            upper.attempted(Time::from_nanos(now), NodeId(station), NodeId(v.to), &outcome);
        }
    }

    /// Reports an answered attempt to an observing layer above.
    #[inline]
    pub(crate) fn report_answered<U: Upper>(&self, station: u32, now: u64, upper: &mut U) {
        if U::OBSERVE {
            let v = &self.service[station as usize];
            if v.link.is_some() {
                let accepted = v.mpdus.iter().take(v.aggregate).filter(|m| m.accepted).count();
                let outcome = AttemptOutcome::Responded { accepted: accepted as u16 };
                upper.attempted(Time::from_nanos(now), NodeId(station), NodeId(v.to), &outcome);
            }
        }
    }
}
