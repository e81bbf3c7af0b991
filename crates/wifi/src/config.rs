//! Initial settings of stations and the medium.

use fairmesh_phy::{Phy, Rate};
use fairmesh_units::{Decibel, Power, Span, Time};

use crate::access::Edca;

/// Rule for the treatment of simultaneous frames by a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reception {
    /// Locks on the first frame at or above the carrier-sense threshold, decodable or not.
    ///
    /// A locked frame that fails, for any reason, causes EIFS.
    Ns2,
    /// Locks only on frames strong enough to decode; weaker ones are energy.
    Sinr,
    /// As `Ns2`, with two flat power levels less than the capture margin apart.
    ///
    /// Any overlap destroys a frame.
    NoCapture,
}

/// Source of the DCF's rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MacRules {
    /// IEEE 802.11.
    #[default]
    Standard,
    /// ns-2.35, with 802.11a, b and g.
    Ns2(Ns2Rules),
}

/// Rules of ns-2.35 in force; the standard's apply in place of the others.
///
/// `crates/wifi/src/ns2.rs` describes each by its number. Its rule 7, on RTS/CTS, is always in
/// force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ns2Rules {
    /// Rule 1: an undecodable frame sets the NAV to EIFS, and a DIFS follows.
    pub deferral: bool,
    /// Rule 2: a frame beside a stronger one in reception sets the NAV.
    pub capture_nav: bool,
    /// Rule 2: a frame is compared only with the one in reception.
    pub pairwise: bool,
    /// Rule 2: a collision lasts as long as its longest frame.
    pub collision: bool,
    /// Rule 3: a frame during an own transmission is received and lost.
    pub own_frame: bool,
    /// Rule 4: the countdown stops with the first energy.
    pub carrier_sense: bool,
    /// Rule 5: a backoff is drawn from 0 to CW − 1.
    pub window: bool,
    /// Rule 5: a packet delivered by a reception draws a backoff.
    pub relay_backoff: bool,
    /// Rule 5: any other packet that finds the medium idle draws a backoff.
    pub idle_backoff: bool,
    /// Rule 6: the timeout for a response is its airtime.
    pub timeout: bool,
}

impl Ns2Rules {
    /// All rules.
    pub const ALL: Ns2Rules = Ns2Rules {
        deferral: true,
        capture_nav: true,
        pairwise: true,
        collision: true,
        own_frame: true,
        carrier_sense: true,
        window: true,
        relay_backoff: true,
        idle_backoff: true,
        timeout: true,
    };

    /// True if some packets draw a backoff on an idle medium.
    pub(crate) fn backs_off(self) -> bool {
        self.relay_backoff || self.idle_backoff
    }
}

/// MAC settings, equal for all stations.
#[derive(Clone, PartialEq, Debug)]
pub struct MacConfig {
    /// Timing and rates.
    pub phy: Phy,
    /// Data rate of links without one of their own, if the rate is fixed.
    pub rate: Rate,
    /// MPDU length from which data frames are preceded by RTS/CTS, bytes with header and FCS.
    ///
    /// `None`: never. 0: every unicast frame.
    pub rts_threshold: Option<u32>,
    /// Bytes between the IP datagram and the MAC header: 8 for LLC/SNAP, 0 as in ns-2.
    pub llc_bytes: u32,
    /// Rule by which a receiver locks on a frame.
    pub reception: Reception,
    /// Deferral, capture, backoff and timeouts: the standard's, or those of ns-2.
    pub rules: MacRules,
    /// Capture margin: required excess of a locked frame's power over the sum of all others.
    pub capture: Decibel,
    /// Rule by which the data rate of each link is chosen.
    pub adaptation: Adaptation,
    /// TXOP limit with 802.11n, ac and ax; zero: one frame.
    pub txop: Span,
    /// Parameters of the four access categories, with 802.11n, ac and ax.
    ///
    /// `None`: best effort alone. Their TXOP limits have priority over `txop`.
    pub edca: Option<Edca>,
}

/// Rule by which the data rate of a link is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adaptation {
    /// The link's rate, or [`MacConfig::rate`].
    Fixed,
    /// Automatic rate fallback.
    Arf,
    /// SampleRate-like.
    SampleRate,
    /// Minstrel-HT, with 802.11n, ac and ax.
    MinstrelHt,
}

/// One ordered pair of nodes of which the second senses the first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SensedPair {
    /// Transmitter's index.
    pub from: u32,
    /// Receiver's index.
    pub to: u32,
    /// Received power.
    pub power: Power,
    /// True if strong enough to decode when alone; otherwise sensed and interfering only.
    pub decodes: bool,
    /// Propagation delay.
    pub delay: Span,
}

/// An external source of energy with a duty cycle, such as a microwave oven.
#[derive(Clone, PartialEq, Debug)]
pub struct NoiseSource {
    /// Stable name.
    pub name: String,
    /// The stations that sense it, each with the received power.
    pub sensed_by: Vec<(u32, Power)>,
    /// Mean time from one start to the next.
    pub period: Span,
    /// Length of each burst; at most `period`.
    pub on: Span,
    /// Each period is multiplied by a uniform number in `1 ± jitter`.
    pub jitter: f64,
    /// First burst.
    pub start: Time,
    /// Instant from which no burst starts; [`Time::NEVER`] for a source without end.
    pub stop: Time,
}
