//! What a link carries, from its nominal rate.
//!
//! `docs/control.md` wants "what a lone saturated sender gets across the link in IP packets of 1500
//! bytes, nothing lost" (Jamshaid 2010 §7.5.2). The gateway-only build has no radio model, so the
//! airtime of one full frame is added up here; a test holds it against the simulator's arithmetic.

use fairmesh_units::BitRate;

/// IP bytes of a full packet, and the MAC's header, check sequence and LLC/SNAP header around it.
const PACKET: f64 = 1500.0;
const OVERHEAD: f64 = 36.0;
/// Bytes of an acknowledgement frame (IEEE 802.11-2020 §9.3.1.4).
const ACK: f64 = 14.0;

/// The capacity of a lone link without RTS/CTS. Rates below 6 Mbit/s, 11 Mbit/s and 5.5 Mbit/s are
/// 802.11b's with a long preamble; all others are taken as OFDM in 20 MHz (802.11a), without
/// aggregation: where the driver aggregates, measure and give `capacity` instead.
pub(crate) fn of_rate(rate: BitRate) -> BitRate {
    let mbps = rate.0 as f64 / 1e6;
    let cycle = if mbps < 6.0 || rate.0 == 11_000_000 { dsss(mbps) } else { ofdm(mbps) };
    BitRate((PACKET * 8.0 / cycle * 1e6) as u64)
}

/// Microseconds from DIFS to the end of the ACK (IEEE 802.11-2020 §15.3, 16.3).
fn dsss(mbps: f64) -> f64 {
    let (sifs, slot, preamble, backoff) = (10.0, 20.0, 192.0, 15.5);
    let frame = |bytes: f64, mbps: f64| preamble + (bytes * 8.0 / mbps).ceil();
    let ack_rate = if mbps >= 2.0 { 2.0 } else { 1.0 };
    sifs + 2.0 * slot
        + backoff * slot
        + frame(PACKET + OVERHEAD, mbps)
        + sifs
        + frame(ACK, ack_rate)
}

/// The same for OFDM (IEEE 802.11-2020 §17.4.3).
fn ofdm(mbps: f64) -> f64 {
    let (sifs, slot, preamble, symbol, backoff) = (16.0, 9.0, 20.0, 4.0, 7.5);
    // 16 service and 6 tail bits.
    let frame = |bytes: f64, mbps: f64| {
        preamble + ((16.0 + 8.0 * bytes + 6.0) / (mbps * symbol)).ceil() * symbol
    };
    let ack_rate = [24.0, 12.0, 6.0].into_iter().find(|r| *r <= mbps).unwrap_or(6.0);
    sifs + 2.0 * slot
        + backoff * slot
        + frame(PACKET + OVERHEAD, mbps)
        + sifs
        + frame(ACK, ack_rate)
}
