//! Capacity of a link from its nominal rate.
//!
//! `docs/control-hosts.md` defines it as the goodput of a lone saturated sender in IP packets of 1500 bytes
//! without losses (Jamshaid 2010 §7.5.2).

use fairmesh_phy::frame::{DATA_OVERHEAD, LLC_SNAP};
use fairmesh_phy::{Phy, Preamble};
use fairmesh_units::{BitRate, Span};

/// Full IP packet, in bytes.
const PACKET_BYTES: u32 = 1500;

/// Returns the capacity of a lone link without RTS/CTS.
///
/// Rates below 6 Mbit/s and 11 Mbit/s are those of 802.11b with the long preamble; all others are taken as OFDM in 20
/// MHz (802.11a) without aggregation. If the driver aggregates, `capacity` must be measured.
pub(crate) fn of_rate(rate: BitRate) -> BitRate {
    let dsss = rate.0 < 6_000_000 || rate.0 == 11_000_000;
    let phy = if dsss { Phy::dot11b(Preamble::Long) } else { Phy::dot11a() };
    let below = phy.rates().rfind(|&r| phy.bit_rate(r) <= rate).unwrap_or(phy.lowest());
    let psdu = PACKET_BYTES + LLC_SNAP + DATA_OVERHEAD;
    let frame = match phy.rate(rate) {
        Some(exact) => phy.airtime(exact, psdu),
        // The table does not have the rate: its preamble, then the bits.
        None => {
            let bits = BitRate(rate.0.max(1)).time_for(u64::from(psdu));
            phy.info(below).waveform.rx_start_delay() + bits
        }
    };
    // The mean of a first backoff is half the smallest window.
    let backoff = Span::from_nanos(u64::from(phy.timing().cw_min) * phy.slot().as_nanos() / 2);
    let cycle = phy.difs() + backoff + frame + phy.sifs() + phy.response(below).ack;
    BitRate((f64::from(PACKET_BYTES * 8) / cycle.as_secs_f64()) as u64)
}
