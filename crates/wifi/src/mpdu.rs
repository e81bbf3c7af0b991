//! MPDUs in a MAC, each with its packet, sequence number and outcome.

use fairmesh_phy::Rate;
use fairmesh_units::Span;

use crate::packet::{LinkId, Outcome, Outgoing, SendReport};
use crate::station::NO_STATION;

/// One MPDU that a station's MAC holds until it is acknowledged or dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mpdu {
    pub packet: Outgoing,
    /// Instant at which the MAC took it.
    pub since: u64,
    /// Medium time of its finished attempts, in ns.
    pub airtime: u64,
    /// Length with header and FCS.
    pub bytes: u32,
    pub data_attempts: u32,
    pub rts_attempts: u32,
    pub sequence: u16,
    /// True if the receiver has it.
    pub accepted: bool,
    /// True if it is an A-MSDU with further packets.
    pub bundled: bool,
}

impl Mpdu {
    /// Returns the report of an MPDU that the MAC finishes at `now`, ns.
    #[inline]
    pub fn report(&self, answered: bool, rate: Rate, now: u64) -> SendReport {
        let outcome = match (answered, self.accepted) {
            (true, _) => Outcome::Sent,
            (false, true) => Outcome::Unconfirmed,
            (false, false) => Outcome::Lost,
        };
        SendReport {
            packet: self.packet,
            outcome,
            data_attempts: self.data_attempts,
            rts_attempts: self.rts_attempts,
            rate,
            airtime: Span::from_nanos(self.airtime),
            service: Span::from_nanos(now - self.since),
        }
    }
}

/// State of a station's MAC: MPDUs for one receiver, by sequence number.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// Pending MPDUs; empty if the MAC is idle.
    pub mpdus: Vec<Mpdu>,
    /// Number of them, from the first, that the frame in hand carries.
    pub aggregate: usize,
    /// Length of the PSDU in hand.
    pub psdu: u32,
    pub link: Option<LinkId>,
    pub to: u32,
    pub rate: Rate,
    pub rts: bool,
    /// Medium time of the exchange in hand, charged to its MPDUs when it ends.
    pub spent: u64,
}

impl Service {
    /// Returns an idle state.
    pub fn idle(rate: Rate) -> Self {
        Service {
            mpdus: Vec::new(),
            aggregate: 0,
            psdu: 0,
            link: None,
            to: NO_STATION,
            rate,
            rts: false,
            spent: 0,
        }
    }

    /// Returns the MPDUs of the frame in hand.
    #[inline]
    pub fn in_hand(&mut self) -> &mut [Mpdu] {
        &mut self.mpdus[..self.aggregate]
    }

    /// Counts an attempt for each MPDU of the frame in hand.
    #[inline]
    pub fn tried(&mut self, count: impl Fn(&mut Mpdu) -> &mut u32) {
        if let [only] = &mut self.mpdus[..] {
            *count(only) += 1;
        } else {
            self.in_hand().iter_mut().for_each(|m| *count(m) += 1);
        }
    }

    /// Charges the finished exchange to its MPDUs by their lengths, to the nanosecond.
    #[inline]
    pub fn charge(&mut self) {
        let mut spent = core::mem::take(&mut self.spent);
        let mut bytes: u64 = self.in_hand().iter().map(|m| u64::from(m.bytes)).sum();
        for m in self.in_hand() {
            let part = u64::from(m.bytes);
            let share = match spent.checked_mul(part) {
                Some(product) => product / bytes,
                None => (u128::from(spent) * u128::from(part) / u128::from(bytes)) as u64,
            };
            m.airtime += share;
            spent -= share;
            bytes -= part;
        }
    }
}
