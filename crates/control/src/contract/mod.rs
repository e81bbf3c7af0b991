//! The contract between mechanisms and hosts: what a mechanism may sense, do and require, what it
//! is told, and how it is found by name.

mod action;
mod capabilities;
mod event;
mod link_model;
pub(crate) mod mechanism;
mod needs;
mod origin;
pub(crate) mod parameter;
mod plan;
mod reason;
mod reference;
mod refusal;
mod registry;
mod setting;

pub use action::{Action, Actions, Class, Marking, Merge, Reach};
pub use capabilities::{
    Ability, AbilitySet, EventKind, EventSet, Knowledge, KnowledgeSet, Placement, PlacementSet,
};
pub use event::{
    Allocation, Channel, Counters, Event, Feedback, FlowCounters, Heard, Message, QueueLength,
    RoundTrip, Sent, Station, TcpSigns,
};
pub use link_model::{FrameLoad, FrameStream, LinkModel, LinkRates, LoadedLink, NoAnswer};
pub use mechanism::{Entry, Instance, Mechanism, ParameterError, Runs};
pub use needs::{Missing, Needs, Offers};
pub use origin::Origin;
pub use parameter::{Chosen, Parameter, Variant};
pub use plan::{ClassPlan, Leaf, Limit, Plan, Point};
pub use reason::{Reason, Value};
pub use reference::reference;
pub use refusal::{Refusal, StartError};
pub use registry::{UnknownControl, all, lookup};
pub use setting::{FlowHere, Header, Link, Neighbour, Place, SLOTS, Setting, Share, Site};
