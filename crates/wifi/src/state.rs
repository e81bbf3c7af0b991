//! MAC state of a station between two events, for observers.

use fairmesh_units::{NodeId, Time};

use crate::air::Air;
use crate::station::{NO_STATION, Phase};

/// State of a station's MAC. Instants in the past mean that the condition does not hold.
///
/// With several access categories, the backoff is that of the category at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacState {
    /// End of the station's own frame.
    pub transmits_until: Time,
    /// End of all energy that the station senses, as known now, including its own frame.
    pub busy_until: Time,
    /// End of the EIFS after a frame that was not decoded, less DIFS.
    pub eifs_until: Time,
    /// End of the NAV, as known now.
    pub nav_until: Time,
    /// Transmitter of the frame that the station receives.
    pub receives_from: Option<NodeId>,
    /// Backoff of the frame in hand; `None` without one, or while an exchange runs.
    pub backoff: Option<Backoff>,
}

/// A backoff that runs, or waits for the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// Start of the countdown if nothing else happens: the medium is then idle for DIFS or AIFS.
    pub from: Time,
    /// End of the countdown if nothing else happens.
    pub until: Time,
    /// Slots left at `from`.
    pub slots: u32,
    /// Contention window: the maximum of the draw.
    pub window: u32,
}

impl Air {
    /// Returns the state of a station's MAC.
    pub fn mac_state(&self, node: NodeId) -> MacState {
        let s = &self.stations[node.index()];
        let at = Time::from_nanos;
        let backoff = (s.phase == Phase::Contending).then(|| Backoff {
            from: at(s.countdown_start()),
            until: at(s.access_at(&self.t)),
            slots: s.slots,
            window: s.cw,
        });
        MacState {
            transmits_until: at(s.tx_end),
            busy_until: at(s.idle_at),
            eifs_until: at(s.eifs_at),
            nav_until: at(s.nav_end()),
            receives_from: (s.lock_from != NO_STATION).then_some(NodeId(s.lock_from)),
            backoff,
        }
    }
}
