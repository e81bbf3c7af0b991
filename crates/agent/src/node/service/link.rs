//! Links to neighbours.

use fairmesh_units::{BitRate, Span, Time};

use crate::node::machine::Carrier;

/// Time after the last message over a carrier for which a neighbour counts as a sender by it.
const CARRIER_TIMEOUT: Span = Span::from_secs(3);

/// A link to a neighbour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Position of the mesh interface.
    pub interface: usize,
    /// Nominal rate, if a driver reports it.
    pub rate: Option<BitRate>,
    /// Throughput that the driver expects.
    pub expected: Option<BitRate>,
    /// Packets sent at the last report.
    pub(super) packets: Option<u32>,
    /// Time of the last accepted message by UDP, and by action frames.
    pub(super) messages: [Option<Time>; 2],
    /// Time of the last report or message.
    pub seen: Time,
}

impl Link {
    pub(super) fn new(interface: usize, seen: Time) -> Self {
        let messages = [None; 2];
        Link { interface, rate: None, expected: None, packets: None, messages, seen }
    }

    /// Carrier of the neighbour's messages; action frames if it sends both.
    pub(in crate::node) fn carrier(&self, now: Time) -> Option<Carrier> {
        let recent = |c: &Carrier| {
            self.messages[*c as usize].is_some_and(|at| now.since(at) <= CARRIER_TIMEOUT)
        };
        [Carrier::ActionFrames, Carrier::Udp].into_iter().find(recent)
    }
}
