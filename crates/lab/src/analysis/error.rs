//! Reasons for the rejection of a scenario by an analytic model.

use fairmesh_capacity::fair::FairError;
use fairmesh_capacity::gap::GapError;
use fairmesh_capacity::region::{NoState, RegionError};
use fairmesh_engine::EngineError;

/// Models that are applicable if this one is not.
const OTHER_MODELS: &str = "collision domains and cliques remain";

/// Reason for the rejection of a scenario by an analytic model.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// A flow has an access category, which no model supports.
    #[error(
        "flow \"{flow}\": the capacity models know no access category but best-effort, found {access}; expected flows \
         without `access` and `dscp`, or `fairmesh optimum`, which simulates"
    )]
    AccessCategory {
        /// The first such flow.
        flow: String,
        /// Access category of the flow.
        access: String,
    },
    /// A kind of radio differs from `[radio]` by more than its channel.
    #[error(
        "radios.{radio}: the capacity models know radios that differ by channel alone; expected the PHY, width, \
         rate and RTS of `[radio]`, or `fairmesh optimum`, which simulates"
    )]
    RadioKind {
        /// The kind.
        radio: String,
    },
    /// No flow uses the air.
    #[error("no flow crosses a wireless link; expected at least one")]
    NoFlow,
    /// The capacity model rejects it.
    #[error(transparent)]
    Capacity(#[from] FairError),
    /// The achievable rate region rejects it.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The achievable rate region has no state at some rates.
    #[error("no achievable rate region: {0}; {OTHER_MODELS}")]
    NoState(#[from] NoState),
    /// GAP's model needs a gateway.
    #[error("names no gateway; expected topology.gateway for GAP's model")]
    NoGateway,
    /// GAP's model has one gateway.
    #[error("has several gateways; GAP's model knows one")]
    SeveralGateways,
    /// GAP's model has one radio per node.
    #[error("has radios.{radio}; GAP's model knows one radio per node")]
    SeveralRadios {
        /// A further kind of radio.
        radio: String,
    },
    /// GAP's model needs flows of neighbours of the gateway and of others.
    #[error(
        "has no uploads of the gateway's neighbours and of nodes beyond them; expected both for GAP's model"
    )]
    NoUploads,
    /// GAP's model rejects the parameters.
    #[error(transparent)]
    Gap(#[from] GapError),
    /// There are no analytic fair rates.
    #[error(transparent)]
    FairRates(#[from] EngineError),
}
