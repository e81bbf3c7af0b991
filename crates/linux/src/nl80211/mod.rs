//! Survey and station dumps of nl80211: channel use, and traffic of each neighbour.
//!
//! The source is `linux/nl80211.h`.
//!
//! This module handles bytes, without a socket; [`Nl80211`] sends the requests to the kernel.
//!
//! A generic netlink message's payload is a 4-byte head (command, version, 2 reserved) and
//! attributes.

mod action;
mod radio;

pub use action::ActionFrames;
pub use radio::{Nl80211, Radio};

use fairmesh_units::{BitRate, Span};
use serde::Serialize;

use crate::mac::MacAddr;
use crate::tc::{attributes as nested, put, put_str, put_u32};

/// Name of the generic netlink family.
pub const FAMILY: &str = "nl80211";

const GENL_HEADER: usize = 4;

/// `CTRL_CMD_GETFAMILY` of the generic netlink controller (`GENL_ID_CTRL`).
pub const CONTROLLER: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const NL80211_CMD_GET_INTERFACE: u8 = 5;
const NL80211_CMD_NEW_INTERFACE: u8 = 7;
const NL80211_CMD_GET_STATION: u8 = 17;
const NL80211_CMD_NEW_STATION: u8 = 19;
const NL80211_CMD_GET_MPATH: u8 = 21;
const NL80211_CMD_NEW_MPATH: u8 = 23;
const NL80211_CMD_GET_SURVEY: u8 = 50;
const NL80211_CMD_NEW_SURVEY_RESULTS: u8 = 51;
const NL80211_CMD_GET_MPP: u8 = 107;

/// `NL80211_PLINK_ESTAB` of `enum nl80211_plink_state`.
const PLINK_ESTABLISHED: u8 = 4;

const ATTR_IFINDEX: u16 = 3;
const ATTR_IFTYPE: u16 = 5;
const ATTR_MAC: u16 = 6;
const ATTR_STA_INFO: u16 = 21;
const ATTR_MPATH_NEXT_HOP: u16 = 26;
const ATTR_MPATH_INFO: u16 = 27;
const ATTR_SURVEY_INFO: u16 = 84;

/// `enum nl80211_survey_info`. Receive is before transmit.
mod survey_info {
    pub const FREQUENCY: u16 = 1;
    pub const NOISE: u16 = 2;
    pub const IN_USE: u16 = 3;
    pub const TIME: u16 = 4;
    pub const TIME_BUSY: u16 = 5;
    pub const TIME_EXT_BUSY: u16 = 6;
    pub const TIME_RX: u16 = 7;
    pub const TIME_TX: u16 = 8;
    pub const TIME_SCAN: u16 = 9;
    pub const TIME_BSS_RX: u16 = 11;
}

/// `enum nl80211_sta_info`.
mod sta_info {
    pub const INACTIVE_TIME: u16 = 1;
    pub const RX_BYTES: u16 = 2;
    pub const TX_BYTES: u16 = 3;
    pub const PLINK_STATE: u16 = 6;
    pub const SIGNAL: u16 = 7;
    pub const TX_BITRATE: u16 = 8;
    pub const RX_PACKETS: u16 = 9;
    pub const TX_PACKETS: u16 = 10;
    pub const TX_RETRIES: u16 = 11;
    pub const TX_FAILED: u16 = 12;
    pub const SIGNAL_AVG: u16 = 13;
    pub const RX_BITRATE: u16 = 14;
    pub const RX_BYTES64: u16 = 23;
    pub const TX_BYTES64: u16 = 24;
    pub const EXPECTED_THROUGHPUT: u16 = 27;
    pub const TID_STATS: u16 = 31;
    pub const RX_DURATION: u16 = 32;
    pub const TX_DURATION: u16 = 39;
}

/// `NL80211_TID_STATS_TXQ_STATS` of `enum nl80211_tid_stats`.
const TID_TXQ_STATS: u16 = 6;

/// `enum nl80211_txq_stats`.
mod txq_stats {
    pub const BACKLOG_BYTES: u16 = 1;
    pub const BACKLOG_PACKETS: u16 = 2;
    pub const DROPS: u16 = 4;
    pub const ECN_MARKS: u16 = 5;
    pub const OVERLIMIT: u16 = 6;
}

/// `enum nl80211_rate_info`.
mod rate_info {
    pub const BITRATE: u16 = 1;
    pub const BITRATE32: u16 = 5;
    /// MCS index of HT, VHT, HE, EHT.
    pub const MCS: [u16; 4] = [2, 6, 13, 19];
}

/// Times of one channel since the interface came up, ms; `None` if not reported.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Survey {
    /// Centre frequency in MHz.
    pub frequency: u32,
    /// Noise in dBm.
    pub noise: Option<i8>,
    /// True if this is the channel in use; other channels have the results of scans.
    pub in_use: bool,
    /// Time that the radio was on this channel.
    pub active_ms: Option<u64>,
    /// Time that the channel was sensed busy, including own transmissions.
    pub busy_ms: Option<u64>,
    /// Time that the extension channel was busy.
    pub extension_busy_ms: Option<u64>,
    /// Time spent receiving.
    pub receive_ms: Option<u64>,
    /// Time spent transmitting.
    pub transmit_ms: Option<u64>,
    /// Time spent scanning.
    pub scan_ms: Option<u64>,
    /// Time spent receiving frames of the own BSS.
    pub bss_receive_ms: Option<u64>,
}

/// Counters of a neighbour; `None` if the driver does not report one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Station {
    /// Ethernet address.
    pub mac: MacAddr,
    /// False for a mesh point's neighbour without an established peer link.
    ///
    /// No data frame passes to it.
    pub peered: bool,
    /// Time since the last reception, in ms.
    pub inactive_ms: Option<u32>,
    /// Received bytes.
    pub rx_bytes: Option<u64>,
    /// Sent bytes.
    pub tx_bytes: Option<u64>,
    /// Received packets.
    pub rx_packets: Option<u32>,
    /// Sent packets.
    pub tx_packets: Option<u32>,
    /// Retransmissions.
    pub tx_retries: Option<u32>,
    /// Frames discarded after all attempts.
    pub tx_failed: Option<u32>,
    /// Signal of the last frame, in dBm.
    pub signal: Option<i8>,
    /// Average signal, in dBm.
    pub signal_average: Option<i8>,
    /// Last transmit rate.
    pub tx_rate: Option<BitRate>,
    /// True if that is a rate of 802.11a, b or g, without aggregation.
    pub tx_legacy: bool,
    /// Last receive rate.
    pub rx_rate: Option<BitRate>,
    /// Throughput that the rate control expects.
    pub expected_throughput: Option<BitRate>,
    /// Airtime of received frames, in µs.
    pub rx_airtime_us: Option<u64>,
    /// Airtime of sent frames, including retries, µs.
    pub tx_airtime_us: Option<u64>,
    /// Queue of frames to it, over all traffic identifiers; of drivers with mac80211's queues.
    pub queue: Option<TransmitQueue>,
}

impl Station {
    /// Returns a neighbour of which only the address is known.
    pub const fn new(mac: MacAddr) -> Self {
        Station {
            mac,
            peered: true,
            inactive_ms: None,
            rx_bytes: None,
            tx_bytes: None,
            rx_packets: None,
            tx_packets: None,
            tx_retries: None,
            tx_failed: None,
            signal: None,
            signal_average: None,
            tx_rate: None,
            tx_legacy: false,
            rx_rate: None,
            expected_throughput: None,
            rx_airtime_us: None,
            tx_airtime_us: None,
            queue: None,
        }
    }
}

impl Station {
    /// Returns the mean time for which a frame to it contends: DIFS and the first backoff.
    ///
    /// IEEE 802.11-2020 tables 15-6, 17-21: 34 µs and 7.5 slots of 9 µs, with DSSS 50 µs and 15.5 slots of 20 µs. Zero with
    /// aggregation, since drivers do not report the number of aggregates.
    pub fn contention(&self) -> Span {
        match self.tx_rate {
            Some(rate) if self.tx_legacy && DSSS.contains(&rate.0) => Span::from_micros(360),
            Some(_) if self.tx_legacy => Span::from_nanos(101_500),
            _ => Span::ZERO,
        }
    }
}

/// Rates of DSSS and HR/DSSS, bit/s.
const DSSS: [u64; 4] = [1_000_000, 2_000_000, 5_500_000, 11_000_000];

/// Queue of frames to a neighbour, without those that the driver holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct TransmitQueue {
    /// Bytes waiting.
    pub backlog_bytes: u64,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Packets that CoDel has dropped.
    pub drops: u64,
    /// Packets that CoDel has marked by ECN.
    pub marks: u64,
    /// Packets dropped because the queue was full.
    pub overlimit: u64,
}

/// `enum nl80211_mpath_info`.
mod mpath_info {
    pub const FLAGS: u16 = 5;
    pub const HOP_COUNT: u16 = 8;
    /// `NL80211_MPATH_FLAG_ACTIVE`.
    pub const ACTIVE: u8 = 1;
}

/// Mode of a Wi-Fi interface (`enum nl80211_iftype`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RadioMode {
    /// IBSS.
    AdHoc,
    /// Client of an access point.
    Station,
    /// Access point.
    AccessPoint,
    /// 802.11s mesh point.
    MeshPoint,
    /// Another mode, such as a monitor.
    Other,
}

impl RadioMode {
    const fn of(number: u32) -> Self {
        match number {
            1 => RadioMode::AdHoc,
            2 => RadioMode::Station,
            3 => RadioMode::AccessPoint,
            7 => RadioMode::MeshPoint,
            _ => RadioMode::Other,
        }
    }
}

/// A path of an 802.11s mesh point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeshPath {
    /// Address of the mesh point at its end.
    pub destination: MacAddr,
    /// Address of the next mesh point.
    pub next_hop: MacAddr,
    /// True if the path is in use; otherwise it is being searched, or has expired.
    pub active: bool,
    /// Wireless hops; only kernels from 5.1 on report them.
    pub hops: Option<u8>,
}

/// An Ethernet address behind a mesh point, such as a client in its bridge (`iw mpp dump`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proxied {
    /// The address.
    pub address: MacAddr,
    /// Address of the mesh point that forwards for it.
    pub proxy: MacAddr,
}

/// Appends the body of a request for an interface.
pub fn ask_interface(out: &mut Vec<u8>, index: u32) {
    out.extend([NL80211_CMD_GET_INTERFACE, 0, 0, 0]);
    put_u32(out, ATTR_IFINDEX, index);
}

/// Reads the mode from a description of an interface; `None` for another kind of message.
pub fn read_interface(payload: &[u8]) -> Option<RadioMode> {
    if payload.first() != Some(&NL80211_CMD_NEW_INTERFACE) {
        return None;
    }
    let (_, mode) = attributes(payload)?.find(|(kind, _)| *kind == ATTR_IFTYPE)?;
    Some(RadioMode::of(u32_of(mode)?))
}

/// Appends the body of a request (a dump) for the paths of a mesh point.
pub fn ask_paths(out: &mut Vec<u8>, index: u32) {
    out.extend([NL80211_CMD_GET_MPATH, 0, 0, 0]);
    put_u32(out, ATTR_IFINDEX, index);
}

/// Reads one message of a dump of paths. `None` if it is of another kind or has no addresses.
pub fn read_path(payload: &[u8]) -> Option<MeshPath> {
    if payload.first() != Some(&NL80211_CMD_NEW_MPATH) {
        return None;
    }
    let (mut destination, mut next_hop, mut active, mut hops) = (None, None, false, None);
    for (kind, value) in attributes(payload)? {
        match kind {
            ATTR_MAC => destination = value.try_into().ok().map(MacAddr),
            ATTR_MPATH_NEXT_HOP => next_hop = value.try_into().ok().map(MacAddr),
            ATTR_MPATH_INFO => {
                for (kind, value) in nested(value) {
                    match (kind, value) {
                        (mpath_info::FLAGS, [flags]) => active = flags & mpath_info::ACTIVE != 0,
                        (mpath_info::HOP_COUNT, [n]) => hops = Some(*n),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(MeshPath { destination: destination?, next_hop: next_hop?, active, hops })
}

/// Appends the body of a request (a dump) for the addresses behind mesh points.
pub fn ask_proxied(out: &mut Vec<u8>, index: u32) {
    out.extend([NL80211_CMD_GET_MPP, 0, 0, 0]);
    put_u32(out, ATTR_IFINDEX, index);
}

/// Reads one message of a dump of proxied addresses; the kernel sends them as paths.
pub fn read_proxied(payload: &[u8]) -> Option<Proxied> {
    read_path(payload).map(|p| Proxied { address: p.destination, proxy: p.next_hop })
}

/// Appends the body of a request for the family's number (to [`CONTROLLER`]).
pub fn ask_family(out: &mut Vec<u8>) {
    ask_named_family(out, FAMILY);
}

/// Appends the body of a request for the number of a generic netlink family.
pub fn ask_named_family(out: &mut Vec<u8>, name: &str) {
    out.extend([CTRL_CMD_GETFAMILY, 1, 0, 0]);
    put_str(out, CTRL_ATTR_FAMILY_NAME, name);
}

/// Reads the family's number from the controller's reply.
pub fn read_family(payload: &[u8]) -> Option<u16> {
    attributes(payload)?.find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID).and_then(|(_, v)| u16_of(v))
}

/// Appends the body of a request (a dump) for an interface's survey.
pub fn ask_survey(out: &mut Vec<u8>, index: u32) {
    out.extend([NL80211_CMD_GET_SURVEY, 0, 0, 0]);
    put_u32(out, ATTR_IFINDEX, index);
}

/// Appends the body of a request for an interface's stations: all (a dump), or one.
pub fn ask_stations(out: &mut Vec<u8>, index: u32, one: Option<MacAddr>) {
    out.extend([NL80211_CMD_GET_STATION, 0, 0, 0]);
    put_u32(out, ATTR_IFINDEX, index);
    if let Some(mac) = one {
        put(out, ATTR_MAC, &mac.0);
    }
}

/// Reads one message of a survey dump. `None` if it is of another kind or has no frequency.
pub fn read_survey(payload: &[u8]) -> Option<Survey> {
    use survey_info::*;
    if payload.first() != Some(&NL80211_CMD_NEW_SURVEY_RESULTS) {
        return None;
    }
    let (_, info) = attributes(payload)?.find(|(kind, _)| *kind == ATTR_SURVEY_INFO)?;
    let mut survey = Survey::default();
    for (kind, value) in nested(info) {
        match kind {
            FREQUENCY => survey.frequency = u32_of(value)?,
            NOISE => survey.noise = i8_of(value),
            IN_USE => survey.in_use = true,
            TIME => survey.active_ms = u64_of(value),
            TIME_BUSY => survey.busy_ms = u64_of(value),
            TIME_EXT_BUSY => survey.extension_busy_ms = u64_of(value),
            TIME_RX => survey.receive_ms = u64_of(value),
            TIME_TX => survey.transmit_ms = u64_of(value),
            TIME_SCAN => survey.scan_ms = u64_of(value),
            TIME_BSS_RX => survey.bss_receive_ms = u64_of(value),
            _ => {}
        }
    }
    (survey.frequency != 0).then_some(survey)
}

/// Reads one message of a station dump. `None` if it is of another kind or names no station.
pub fn read_station(payload: &[u8]) -> Option<Station> {
    use sta_info::*;
    if payload.first() != Some(&NL80211_CMD_NEW_STATION) {
        return None;
    }
    let (mut mac, mut info) = (None, &[][..]);
    for (kind, value) in attributes(payload)? {
        match kind {
            ATTR_MAC => mac = value.try_into().ok().map(MacAddr),
            ATTR_STA_INFO => info = value,
            _ => {}
        }
    }
    let mut station = Station::new(mac?);
    // The wide forms of the byte counters take precedence over the narrow ones, in any order.
    let (mut rx64, mut tx64) = (None, None);
    for (kind, value) in nested(info) {
        match kind {
            INACTIVE_TIME => station.inactive_ms = u32_of(value),
            RX_BYTES => station.rx_bytes = u32_of(value).map(u64::from),
            PLINK_STATE => station.peered = value.first() == Some(&PLINK_ESTABLISHED),
            TX_BYTES => station.tx_bytes = u32_of(value).map(u64::from),
            RX_BYTES64 => rx64 = u64_of(value),
            TX_BYTES64 => tx64 = u64_of(value),
            RX_PACKETS => station.rx_packets = u32_of(value),
            TX_PACKETS => station.tx_packets = u32_of(value),
            TX_RETRIES => station.tx_retries = u32_of(value),
            TX_FAILED => station.tx_failed = u32_of(value),
            SIGNAL => station.signal = i8_of(value),
            SIGNAL_AVG => station.signal_average = i8_of(value),
            TX_BITRATE => {
                station.tx_rate = rate(value);
                station.tx_legacy = !nested(value).any(|(kind, _)| rate_info::MCS.contains(&kind));
            }
            RX_BITRATE => station.rx_rate = rate(value),
            EXPECTED_THROUGHPUT => {
                station.expected_throughput =
                    u32_of(value).map(|kbit| BitRate(u64::from(kbit) * 1000));
            }
            RX_DURATION => station.rx_airtime_us = u64_of(value),
            TX_DURATION => station.tx_airtime_us = u64_of(value),
            TID_STATS => station.queue = queue(value),
            _ => {}
        }
    }
    station.rx_bytes = rx64.or(station.rx_bytes);
    station.tx_bytes = tx64.or(station.tx_bytes);
    Some(station)
}

/// Sums the queues of a station's traffic identifiers; `None` if there are none.
fn queue(value: &[u8]) -> Option<TransmitQueue> {
    use txq_stats::*;
    let queues = nested(value).flat_map(|(_, tid)| nested(tid));
    let queues = queues.filter(|(kind, _)| *kind == TID_TXQ_STATS).map(|(_, queue)| queue);
    let mut all: Option<TransmitQueue> = None;
    for counters in queues {
        let sum = all.get_or_insert_default();
        for (kind, value) in nested(counters) {
            let Some(n) = u32_of(value) else { continue };
            match kind {
                BACKLOG_BYTES => sum.backlog_bytes += u64::from(n),
                BACKLOG_PACKETS => sum.backlog_packets = sum.backlog_packets.saturating_add(n),
                DROPS => sum.drops += u64::from(n),
                ECN_MARKS => sum.marks += u64::from(n),
                OVERLIMIT => sum.overlimit += u64::from(n),
                _ => {}
            }
        }
    }
    all
}

/// Reads a rate, in units of 100 kbit/s; 32 bits wide if 16 do not suffice.
fn rate(value: &[u8]) -> Option<BitRate> {
    let mut hundreds = None;
    for (kind, value) in nested(value) {
        match kind {
            rate_info::BITRATE32 => hundreds = u32_of(value),
            rate_info::BITRATE => hundreds = hundreds.or(u16_of(value).map(u32::from)),
            _ => {}
        }
    }
    hundreds.map(|h| BitRate(u64::from(h) * 100_000))
}

fn attributes(payload: &[u8]) -> Option<impl Iterator<Item = (u16, &[u8])>> {
    payload.get(GENL_HEADER..).map(nested)
}

fn i8_of(value: &[u8]) -> Option<i8> {
    value.first().map(|b| b.cast_signed())
}
fn u16_of(value: &[u8]) -> Option<u16> {
    value.first_chunk().map(|b| u16::from_ne_bytes(*b))
}
fn u32_of(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|b| u32::from_ne_bytes(*b))
}
fn u64_of(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|b| u64::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests;
