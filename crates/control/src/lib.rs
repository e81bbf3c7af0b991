//! The fairness mechanisms, one file each, behind one trait.
//!
//! A mechanism at one node is a state machine ([`Control`]): events and `now` go in, actions and
//! the next deadline come out. It reads no clock, opens no socket and sees only values that a real
//! Linux router can measure, so the same code runs in the simulator, in the emulator and on a router.
//!
//! - [`Event`] is a mechanism's input, [`Action`] its output, [`Reason`] the reason for an action;
//! - [`Needs`] are its requirements of the host and its placement; [`Offers`] are the host's capabilities, and
//!   [`Mechanism::start`] refuses a mechanism and names each missing capability;
//! - [`Plan`] lists the classes that the host builds for it, as queues of the simulator or as `tc` classes;
//! - [`host`] is the part that every host does the same way: the driver of a mechanism at a node;
//! - [`Definition`] describes a mechanism, with the options that [`options!`] declares; [`Registry`]
//!   finds it by the name used on the command line and in files, variants included:
//!   `"pfrc+exponential"`.
//!
//! `docs/control.md` shows how to add a mechanism, `docs/control-hosts.md` the work of a host.

mod contract;
mod fifo;
mod gateway;
pub mod host;
mod marking;
mod mesh;
mod sources;
mod survey;
#[cfg(test)]
mod testing;
pub mod water_filling;

pub use contract::{
    Ability, AbilitySet, Action, ActionKind, Actions, Allocation, Build, Channel, Chosen, Class,
    ClassPlan, Counters, Definition, DefinitionError, Delivery, Event, EventKind, EventSet,
    Fairness, Feedback, Fields, FlowCounters, FlowHere, FlowLink, FlowSum, FrameLoad, FrameStream,
    HEADER_FIELDS, Header, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Link, LinkModel,
    LinkRates, LoadedLink, MAX_VARIANTS, Marking, Mechanism, Merge, Message, Missing, Needs,
    NeedsOf, Neighbour, NoAnswer, Offers, OptionSet, Origin, Parameter, ParameterError, PathSigns,
    Place, Placement, PlacementSet, Plan, Point, Progress, Quantity, QueueLength, RESERVED_KEYS,
    Reach, Reason, ReceivedFrame, Refusal, Registry, RoundTrip, RoundTripSample, RoundTripSource,
    Runs, Sent, SentSum, Setting, Share, Site, StartError, Station, UnknownControl, Value, Variant,
    reference,
};
// Quantities and identifiers of the contract, so that a mechanism needs no other crate of this project.
pub use fairmesh_units as units;
pub use gateway::rtt::{rtt_constants, rtt_with};
pub use mesh::{cna, gap};

use fairmesh_units::{BitRate, FlowId, NodeId, Time};

/// Definitions of all mechanisms of this crate, in the order of the listings.
///
/// A new mechanism adds its file and a line here.
fn standard_definitions() -> [Definition; 21] {
    [
        gateway::gateway_queue::fq(),
        gateway::gateway_queue::red(),
        gateway::gateway_queue::fred(),
        gateway::static_aggregate::shared(),
        gateway::static_aggregate::fair(),
        gateway::static_flow::definition(),
        sources::source::definition(),
        sources::tcp_ap::definition(),
        gateway::arc::shared(),
        gateway::arc::fair(),
        gateway::pfrc::definition(),
        gateway::rtt::definition(),
        mesh::gap::definition(),
        mesh::ifa::definition(),
        marking::lbm::definition(),
        marking::nred::definition(),
        marking::lred::definition(),
        mesh::cna::definition(),
        mesh::wcp::definition(),
        mesh::wcpcap::definition(),
        mesh::maxmin::definition(),
    ]
}

/// One mechanism at one node. Pure: no clock, no I/O, no randomness except its own stream.
pub trait Control: core::fmt::Debug + Send {
    /// Handles an event at `now` and appends the resulting actions to `actions`.
    ///
    /// `now` never goes backwards. When a deadline is due, the host first delivers its samples (counters, stations,
    /// channel, queues: those that the mechanism requires), all with the same `now`, and [`Event::Deadline`] last.
    /// Events that the mechanism did not require may come and are ignored.
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions);

    /// Returns the time of its next [`Event::Deadline`]; `None` if it only reacts to events.
    ///
    /// After `on(now, …)` this is not before `now`, and after a `Deadline` it is later than `now`.
    fn next_deadline(&self) -> Option<Time>;

    /// Returns optional events: they are delivered in addition to [`Needs`] if the host has them.
    fn wants(&self) -> EventSet {
        EventSet::NONE
    }

    /// Returns the result worth keeping over a restart: the IP rate of all flows together.
    fn learned(&self) -> Option<BitRate> {
        None
    }

    /// Returns the progress of its search for the level; `None` without a search.
    fn progress(&self) -> Option<Progress> {
        None
    }

    /// True if a flow does not respond to its limit and takes capacity from others.
    fn floods(&self, _flow: FlowId) -> bool {
        false
    }

    /// Returns the rate that the plan or the objective guarantees a flow.
    fn guaranteed(&self, _flow: FlowId) -> Option<BitRate> {
        None
    }

    /// Returns the node that decides for this mechanism, if that is another node.
    fn follows(&self) -> Option<NodeId> {
        None
    }

    /// Starts from the result of an earlier run; called before any event.
    ///
    /// The value is checked against all bounds like a measurement.
    fn recall(&mut self, _learned: BitRate, _actions: &mut Actions) {}
}
