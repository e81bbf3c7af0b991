//! What a station and the medium are told at the start.

use fairmesh_phy::{Phy, Rate};
use fairmesh_units::{Decibel, Power, Span, Time};

use crate::access::Edca;

/// How a receiver treats several frames at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reception {
    /// Locks on the first frame at or above the carrier-sense threshold, even one too weak to
    /// decode; a locked frame that fails, for whatever reason, causes EIFS.
    Ns2,
    /// Locks only on frames strong enough to decode; weaker ones are energy.
    Sinr,
    /// As `Ns2` over two flat power levels less than the capture margin apart, so that any overlap
    /// destroys a frame.
    NoCapture,
}

/// Source of the rules of the DCF.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MacRules {
    /// IEEE 802.11.
    #[default]
    Standard,
    /// ns-2.35, with 802.11a, b and g.
    Ns2,
}

/// The MAC's settings, the same for every station.
#[derive(Clone, PartialEq, Debug)]
pub struct MacConfig {
    /// Timing and rates.
    pub phy: Phy,
    /// Data rate where the rate is fixed and a link names none.
    pub rate: Rate,
    /// Data frames whose MPDU is at least this long (bytes, with header and FCS) are preceded by
    /// RTS/CTS; `None`: never. 0: every unicast frame.
    pub rts_threshold: Option<u32>,
    /// Bytes between the IP datagram and the MAC header: 8 for LLC/SNAP, 0 as in ns-2.
    pub llc_bytes: u32,
    /// Which frame a receiver locks on.
    pub reception: Reception,
    /// Deferral, capture, backoff and timeouts: the standard's, or those of ns-2.
    pub rules: MacRules,
    /// A locked frame survives while its power is at least this much above the sum of all others.
    pub capture: Decibel,
    /// How the data rate of each link is chosen.
    pub adaptation: Adaptation,
    /// With 802.11n, ac and ax: how long a station that has won the medium may keep it; zero: one
    /// frame.
    pub txop: Span,
    /// With 802.11n, ac and ax: stations have four access categories, whose TXOP limits go before `txop`;
    /// `None`: best effort alone.
    pub edca: Option<Edca>,
}

/// How the data rate of a link is chosen.
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
pub struct Hearing {
    /// Transmitter's index.
    pub from: u32,
    /// Receiver's index.
    pub to: u32,
    /// Received power.
    pub power: Power,
    /// Strong enough to decode when alone; otherwise sensed and interfering only.
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
    pub heard_by: Vec<(u32, Power)>,
    /// From one start to the next, on average.
    pub period: Span,
    /// Length of each burst; at most `period`.
    pub on: Span,
    /// Each period is multiplied by a uniform number in `1 ± jitter`.
    pub jitter: f64,
    /// First burst.
    pub start: Time,
    /// No burst starts from then on; [`Time::NEVER`] for a source without end.
    pub stop: Time,
}
