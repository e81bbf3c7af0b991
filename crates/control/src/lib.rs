//! The fairness mechanisms, one file each, behind one trait.
//!
//! A mechanism at one node is a state machine ([`Control`]): events and `now` go in, actions and
//! the next deadline come out. It reads no clock, opens no socket and sees only what a real Linux
//! router can measure, so the same code runs in the simulator, in the emulator and on a router.
//!
//! - [`Event`] what a mechanism may sense, [`Action`] what it may do, [`Reason`] why it did it;
//! - [`Needs`] what it requires of its host and where it runs; a host says what it [`Offers`], and
//!   [`Mechanism::start`] refuses by name what is missing;
//! - [`Plan`] the classes that the host builds for it, as queues of the simulator or as `tc`
//!   classes;
//! - [`lookup`] finds a mechanism by the name used on the command line and in files, variants
//!   included: `"pfrc+exponential"`.
//!
//! How to add one, and how every published mechanism fits: `docs/control.md`.

mod action;
mod arc;
mod bounds;
pub mod cna;
mod event;
mod fifo;
mod floor;
mod flows;
mod gap;
mod gateway_queue;
mod ifa;
mod kinds;
mod lbm;
mod link_model;
mod lred;
mod mechanism;
mod needs;
mod nred;
mod pfrc;
mod plan;
mod reason;
mod refused;
mod registry;
mod search;
mod setting;
mod share;
mod source;
mod static_aggregate;
mod static_flow;
mod survey;
mod tcp_ap;
#[cfg(test)]
mod testing;
mod wcp;
mod wcpcap;

pub use action::{Action, Actions, Class, Marking, Merge, Reach};
pub use event::{
    Allocation, Channel, Counters, Event, Feedback, FlowCounters, Heard, Message, QueueLength,
    RoundTrip, Sent, Station,
};
pub use kinds::{
    Ability, AbilitySet, EventKind, EventSet, Knowledge, KnowledgeSet, Placement, PlacementSet,
};
pub use link_model::{FrameLoad, FrameStream, LinkModel, LinkRates, LoadedLink};
pub use mechanism::{Entry, Instance, Knob, Mechanism, Options, Runs, UnknownKnob, Variant};
pub use needs::{Missing, Needs, Offers};
pub use plan::{ClassPlan, Leaf, Limit, Plan, Point};
pub use reason::{Reason, Value};
pub use refused::{Refused, StartError};
pub use registry::{UnknownControl, all, lookup};
pub use setting::{FlowHere, Header, Link, Neighbour, Place, SLOTS, Setting, Share, Site};

use fairmesh_units::{BitRate, Time};

/// One mechanism at one node. Pure: no clock, no I/O, no randomness but the stream it was given.
pub trait Control: core::fmt::Debug + Send {
    /// Takes in an event at `now` and appends what to do about it to `actions`.
    ///
    /// `now` never goes backwards. When a deadline is due the host first delivers its samples
    /// (counters, stations, channel, queues: whatever the mechanism asked for), all with the same
    /// `now`, and [`Event::Deadline`] last. Events that the mechanism did not ask for may come and
    /// are ignored.
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions);

    /// When it next wants [`Event::Deadline`], or `None` if it only reacts. After `on(now, …)` it
    /// is not before `now`, and after a `Deadline` it is later than `now`.
    fn next_deadline(&self) -> Option<Time>;

    /// What it has found out and would be worth knowing after a restart: a rate of IP bytes for
    /// everybody together.
    fn learned(&self) -> Option<BitRate> {
        None
    }

    /// Begins from what an earlier run had learned; before any event. It is checked against all
    /// bounds like a measurement.
    fn recall(&mut self, _learned: BitRate, _actions: &mut Actions) {}
}
