//! Contract between mechanisms and hosts: events, actions, needs, settings, lookup by name.

mod action;
mod capabilities;
mod definition;
mod event;
mod fairness;
mod link_model;
mod mechanism;
mod needs;
pub(crate) mod options;
mod origin;
mod plan;
mod progress;
mod reason;
mod reference;
mod refusal;
mod registry;
mod setting;

pub use action::{Action, ActionKind, Actions, Class, Marking, Merge, Reach};
pub use capabilities::{
    Ability, AbilitySet, EventKind, EventSet, Knowledge, KnowledgeSet, Placement, PlacementSet,
};
pub use definition::{Build, Definition, Instance, NeedsOf, Runs};
pub use event::{
    Allocation, Channel, Counters, Event, Feedback, Fields, FlowCounters, FlowLink, FlowSum,
    Message, PathSigns, QueueLength, ReceivedFrame, RoundTrip, RoundTripSample, RoundTripSource,
    Sent, SentSum, Station,
};
pub use fairness::Fairness;
pub use link_model::{FrameLoad, FrameStream, LinkModel, LinkRates, LoadedLink, NoAnswer};
pub use mechanism::{Mechanism, ParameterError};
pub use needs::{Delivery, Missing, Needs, Offers};
pub use options::{Chosen, OptionSet, Parameter, Quantity, Variant};
pub use origin::Origin;
pub use plan::{ClassPlan, Leaf, Limit, Plan, Point};
pub use progress::Progress;
pub use reason::{Reason, Value};
pub use reference::reference;
pub use refusal::{Refusal, StartError};
pub use registry::{DefinitionError, MAX_VARIANTS, RESERVED_KEYS, Registry, UnknownControl};
pub use setting::{FlowHere, HEADER_FIELDS, Header, Link, Neighbour, Place, Setting, Share, Site};
