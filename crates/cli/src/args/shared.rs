//! Arguments of several commands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fairmesh_lab::Changes;
use fairmesh_lab::changes::{Assignment, MapRadio};
use fairmesh_lab::optimum::SharingUnit;
use fairmesh_scenario::{Direction, Metric, PhyName};
use fairmesh_units::{BitRate, Frequency, Span};

/// The scenario and its changes.
#[derive(Args, Clone, Debug, Default)]
pub struct ScenarioArgs {
    /// Scenario file: TOML, NetJSON NetworkGraph or meshviewer.json
    pub scenario: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub changes: ChangeArgs,
}

/// Changes to a scenario from outside.
#[derive(Args, Clone, Debug, Default)]
pub struct ChangeArgs {
    /// Simulated time instead of the scenario's, such as "60 s"
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Start of the measured interval instead of the scenario's
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<Span>,
    /// Gateway, for maps: id, address or label of a node; once for each of several. By default the map's own
    #[arg(long, value_name = "ID")]
    pub gateway: Vec<String>,
    /// Flows, for maps: from every node to the gateway, or the other way round
    #[arg(long, value_name = "WAY")]
    pub flows: Option<FlowDirection>,
    /// Number of flows, for maps; one per node by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub flow_count: Option<u32>,
    /// Connections of each of these nodes in each direction, for maps; one by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: Option<u32>,
    /// For maps: each node is a subscriber of the gateway, with one share for all its flows of a direction
    #[arg(long)]
    pub subscribers: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub radio: RadioArgs,
}

/// Radios and links of a map.
#[derive(Args, Clone, Debug, Default)]
pub struct RadioArgs {
    /// PHY, for maps, such as 802.11ac; by default what the routers' models have, or 802.11n
    #[arg(long, value_name = "NAME", requires = "scenario")]
    pub phy: Option<PhyName>,
    /// Width of the channel, for maps with 802.11n, ac or ax, such as "40 MHz"
    #[arg(long, value_name = "WIDTH", requires = "scenario")]
    pub width: Option<Frequency>,
    /// Spatial streams of every router, for maps with these; by default its model's, or 2
    #[arg(long, value_name = "N", requires = "scenario")]
    pub streams: Option<u8>,
    /// Channel number, for maps with these; by default the map's, or 6 or 36
    #[arg(long, value_name = "N", requires = "scenario")]
    pub channel: Option<u32>,
    /// Data rate, for maps with 802.11a, b or g, such as "24 Mbit/s"; without --phy of 802.11g
    #[arg(long, value_name = "RATE", requires = "scenario")]
    pub rate: Option<BitRate>,
    /// Meaning of the costs of a map's links, such as etx, tq, babel, throughput-kbit; by default
    /// by its metric and protocol
    #[arg(long, value_name = "NAME", requires = "scenario")]
    pub metric: Option<Metric>,
    /// Graph of a NetworkCollection that has several: its topology id, label, router id, protocol or number
    #[arg(long, value_name = "NAME", requires = "scenario")]
    pub graph: Option<String>,
}

impl RadioArgs {
    /// Returns the laboratory's form of the radios.
    pub fn radio(&self) -> MapRadio {
        let RadioArgs { phy, rate, width, streams, channel, metric, ref graph } = *self;
        MapRadio { phy, rate, width, streams, channel, metric, graph: graph.clone() }
    }
}

impl ChangeArgs {
    /// Returns the laboratory's form of the changes.
    pub fn changes(&self) -> Changes {
        Changes {
            duration: self.duration,
            warmup: self.warmup,
            gateways: self.gateway.clone(),
            flows: self.flows.map(FlowDirection::direction),
            flow_count: self.flow_count,
            connections: self.connections,
            subscribers: self.subscribers,
            radio: self.radio.radio(),
            edits: Vec::new(),
        }
    }
}

/// Direction of the flows of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowDirection {
    /// From every node to the gateway.
    Up,
    /// From the gateway to every node.
    Down,
    /// One each way.
    Both,
}

impl FlowDirection {
    /// Returns the direction of scenarios.
    pub fn direction(self) -> Direction {
        match self {
            FlowDirection::Up => Direction::Up,
            FlowDirection::Down => Direction::Down,
            FlowDirection::Both => Direction::Both,
        }
    }
}

/// Parameters of controls.
#[derive(Args, Clone, Debug, Default)]
pub struct SetArgs {
    /// Another value for a parameter of the controls, such as epoch=5, or pfrc.epoch=5 for one of
    /// them; may be given several times. fairmesh list CONTROL has them
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<Assignment>,
}

/// Sampling of curves.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SampleArgs {
    /// Interval of the curves over time; by default about 200 points per run
    #[arg(long, value_name = "TIME")]
    pub sample: Option<Span>,
}

/// Unit of sharing in an optimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Share {
    /// Each flow.
    Flow,
    /// Each subscriber of the scenario; if it names none, each node other than the gateway with all
    /// its flows, by the weight of the first.
    Subscriber,
}

impl Share {
    /// Returns the laboratory's form of the unit.
    pub fn per(self) -> SharingUnit {
        match self {
            Share::Flow => SharingUnit::Flow,
            Share::Subscriber => SharingUnit::Subscriber,
        }
    }
}
