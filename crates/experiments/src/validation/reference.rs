//! `reference.json` and `cost.json`.
//!
//! The README.md of validation/ns2, validation/ns3 and validation/ns3-modern describes them.

use std::path::Path;

use fairmesh_lab::{Estimate, LabError};
use fairmesh_scenario::PhyName;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Fields of a row in both files.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Unique name.
    pub tag: String,
    /// Family.
    pub group: String,
    /// Scenario file without folder and extension.
    pub scenario: String,
    /// Simulated time.
    pub duration_s: f64,
    /// Time that is excluded from the goodput.
    pub warm_up_s: f64,
    /// All settings outside the scenario file.
    pub options: Options,
    /// The settings as arguments of the harness.
    pub harness_arguments: Vec<String>,
}

/// A simulator that reference rows come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Simulator {
    /// ns-3.37.
    #[default]
    Ns3,
    /// ns-2.35.
    Ns2,
}

impl Simulator {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Simulator::Ns3 => "ns-3",
            Simulator::Ns2 => "ns-2",
        }
    }
}

/// Options of a row.
#[derive(Clone, Debug, Deserialize)]
pub struct Options {
    /// Simulator of the row's MAC and TCP: ns-3 with the `reception` below, or ns-2.35.
    #[serde(default)]
    pub rules: Simulator,
    /// `ns2`, `sinr`, `nocap` or `stock`.
    pub reception: String,
    /// Data rate, in Mbit/s.
    pub data_mbps: u64,
    /// RTS/CTS before every unicast frame.
    pub rts: bool,
    /// Interface queue, in packets.
    pub queue_packets: u32,
    /// Decode range, in m.
    pub decode_range_m: f64,
    /// Sensing range, in m.
    pub sense_range_m: f64,
    /// Capture margin, in dB.
    pub capture_db: f64,
    /// UDP payload, in bytes.
    pub udp_payload_bytes: u64,
    /// Spread s of UDP gaps, which are multiplied by U(1 − s, 1 + s).
    pub udp_gap_spread: f64,
    /// TCP segment, in bytes.
    pub tcp_mss_bytes: u64,
    /// Selective acknowledgements.
    pub tcp_sack: bool,
    /// Segments per acknowledgement.
    pub tcp_segments_per_ack: u32,
    /// Initial window, segments.
    pub tcp_initial_window: u32,
    /// Largest number of outstanding segments; 0: no limit.
    pub tcp_window_limit: u32,
    /// Smallest retransmission timeout, in s.
    pub tcp_min_rto_s: f64,
    /// False for TCP as shipped with ns-3.37.
    pub tcp_repaired: bool,
    /// A radio of 802.11n, ac or ax that replaces 802.11b.
    #[serde(default)]
    pub today: Option<Today>,
}

/// Radio settings of a row of validation/ns3-modern.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Today {
    /// PHY.
    pub phy: PhyName,
    /// Width of the channel, MHz.
    pub width_mhz: u64,
    /// MCS per stream, unless the scenario gives a link its own.
    pub mcs: u8,
    /// Spatial streams.
    pub streams: u8,
    /// Guard interval, in ns.
    pub guard_ns: u64,
    /// Longest A-MPDU; 0: none.
    pub ampdu_bytes: u64,
    /// Longest A-MSDU; 0: none.
    #[serde(default)]
    pub amsdu_bytes: u64,
    /// Window of the block acknowledgement.
    pub mpdus: u32,
    /// Earliest start of flows.
    pub start_s: f64,
    /// Maximum delay of a flow's start.
    pub start_jitter_s: f64,
}

impl Case {
    /// Returns true if fairmesh has the model of this row.
    ///
    /// It has neither ns-3's own error curves nor its broken TCP.
    pub fn is_modelled(&self) -> bool {
        self.options.reception != "stock" && self.options.tcp_repaired
    }
}

/// One row of reference results.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// The case that was run.
    #[serde(flatten)]
    pub case: Case,
    /// Reason for which the reference has no results for the row.
    #[serde(default)]
    pub not_run: Option<String>,
    /// Seeds that were run.
    pub seeds: Vec<u64>,
    /// Goodput per flow, in bit/s.
    pub flows: Vec<FlowRow>,
    /// Sum of the goodputs, in bit/s.
    pub sum_bps: Estimate,
}

/// One flow of a row.
#[derive(Clone, Debug, Deserialize)]
pub struct FlowRow {
    /// `udp` or `tcp`.
    pub protocol: String,
    /// Source node.
    pub source: u32,
    /// Destination node.
    pub destination: u32,
    /// Goodput, in bit/s.
    #[serde(flatten)]
    pub goodput: Estimate,
}

/// Reads `reference.json` (rows are [`Row`]) or `cost.json` (rows are [`Case`]).
///
/// # Errors
/// Returns an error if the file is missing or invalid.
pub fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Vec<T>, LabError> {
    let path = folder.join(name);
    let expected =
        "expected the rows that the README.md of validation/ns3 or validation/ns2 describes";
    let bytes = std::fs::read(&path)
        .map_err(|e| LabError::file(&path, format!("cannot be read ({e}); {expected}")))?;
    serde_json::from_slice(&bytes).map_err(|e| LabError::file(&path, format!("{e}; {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/ns3"))
    }

    #[test]
    fn the_kept_files_are_read_whole() {
        let rows: Vec<Row> = read(folder(), "reference.json").unwrap();
        assert!(rows.len() > 100);
        assert!(rows.iter().all(|r| !r.seeds.is_empty() && !r.flows.is_empty()));
        let cost: Vec<Case> = read(folder(), "cost.json").unwrap();
        assert!(cost.iter().any(|c| c.tag == "f_rand100"));
    }
}
