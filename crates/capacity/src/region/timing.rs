//! Durations: the PHY's spans, and the frames of one link.

use fairmesh_phy::Phy;
use fairmesh_units::Span;

use crate::fair::LinkSpec;
use crate::link::Access;

/// PHY durations that every round needs, in s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub slot: f64,
    pub sifs: f64,
    pub difs: f64,
    pub eifs: f64,
    /// The window of a first retry, in slots.
    pub second: f64,
}

impl Spans {
    pub fn of(phy: &Phy) -> Self {
        let t = phy.timing();
        Spans {
            slot: secs(t.slot),
            sifs: secs(t.sifs),
            difs: secs(t.difs),
            eifs: secs(t.eifs),
            second: f64::from(t.next_cw(t.cw_min)),
        }
    }
}

/// Durations at one link, in s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Mean data frame.
    pub data: f64,
    pub rts: f64,
    pub cts: f64,
    pub ack: f64,
    /// The exchange from the first bit to the last.
    pub exchange: f64,
    /// Cost of a refused attempt to its sender, DIFS included.
    pub refused: f64,
    /// Cost of a lost data frame to its sender, DIFS included.
    pub lost: f64,
    /// Time for which a refused attempt suspends the countdown of stations that receive it.
    pub refused_seen: f64,
    /// Time for which it keeps a receiving station from responding to others.
    ///
    /// The next frame's preamble must end after the NAV reset.
    pub refused_held: f64,
}

impl Times {
    /// Returns the durations at a link with this mean duration of data frames.
    pub fn of(phy: &Phy, access: Access, link: &LinkSpec, data: f64) -> Self {
        let r = phy.response(link.rate);
        let t = Spans::of(phy);
        let (rts, cts, ack) = (secs(r.rts), secs(r.cts), secs(r.ack));
        let block_acked = data + t.sifs + ack;
        let rx_start = secs(phy.info(r.rate).waveform.rx_start_delay());
        match access {
            Access::RtsCts => Times {
                data,
                rts,
                cts,
                ack,
                exchange: rts + cts + 2.0 * t.sifs + block_acked,
                refused: rts + secs(r.cts_timeout) + t.difs,
                lost: rts + cts + 2.0 * t.sifs + data + secs(r.ack_timeout) + t.difs,
                refused_seen: rts + secs(phy.nav_reset(r.rate)),
                refused_held: rts + secs(phy.nav_reset(r.rate)) - rx_start,
            },
            Access::Basic => Times {
                data,
                rts: 0.0,
                cts: 0.0,
                ack,
                exchange: block_acked,
                refused: data + secs(r.ack_timeout) + t.difs,
                lost: data + secs(r.ack_timeout) + t.difs,
                refused_seen: block_acked,
                refused_held: block_acked,
            },
        }
    }

    /// Returns the duration of an attempt's first frame.
    pub fn opening(&self) -> f64 {
        if self.rts > 0.0 { self.rts } else { self.data }
    }
}

pub(super) fn secs(s: Span) -> f64 {
    s.as_secs_f64()
}
