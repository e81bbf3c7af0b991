//! Queues by access category.
//!
//! The interface's own serves best effort, the others are separate.

use fairmesh_units::{NodeId, Time};
use fairmesh_wifi::Access;

use super::{Interface, Net};

/// Queues of one radio for the categories other than best effort.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// By category; the place of best effort is empty.
    of: [Option<Box<Interface>>; Access::COUNT],
    /// By category: instant at which a queue that a MAC found empty may have a packet.
    ready: [Time; Access::COUNT],
}

impl Lanes {
    /// Builds the lanes; `queue` builds the queue of a category.
    pub fn new<E>(mut queue: impl FnMut(Access) -> Result<Interface, E>) -> Result<Self, E> {
        let mut of = [const { None }; Access::COUNT];
        for access in Access::ALL.into_iter().filter(|a| *a != Access::BestEffort) {
            of[access.index()] = Some(Box::new(queue(access)?));
        }
        Ok(Lanes { of, ready: [Time::NEVER; Access::COUNT] })
    }

    /// Returns the queues of all categories except best effort.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.of.iter().flatten().map(|lane| &**lane)
    }
}

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    /// Returns the queue of a category at a radio; best effort's if there is no other.
    #[inline(always)]
    pub(super) fn lane(&mut self, n: usize, access: Access) -> &mut Interface {
        if access != Access::BestEffort
            && let Some(lanes) = self.lanes.get_mut(n)
            && let Some(lane) = &mut lanes.of[access.index()]
        {
            return lane;
        }
        &mut self.interfaces[n]
    }

    /// Returns the category of a flow's packets in the queues here.
    #[inline(always)]
    pub(super) fn access_of(&self, flow: u32) -> Access {
        if self.lanes.is_empty() {
            return Access::BestEffort;
        }
        self.flows.get(flow as usize).map_or(Access::BestEffort, |f| f.access)
    }

    /// Sets the retry instant of a MAC that found a queue empty.
    #[inline(always)]
    pub(super) fn wait_until(&mut self, n: usize, access: Access, ready: Time) {
        let slot = self.interface_slot(n);
        let first = match self.lanes.get_mut(n) {
            None => ready,
            Some(lanes) => {
                lanes.ready[access.index()] = ready;
                lanes.ready.into_iter().fold(Time::NEVER, Time::min)
            }
        };
        self.timers.set(slot, first);
    }

    /// Clears the retry instant of a MAC that has received a packet.
    #[inline(always)]
    pub(super) fn waits_no_more(&mut self, n: usize, access: Access) {
        if let Some(lanes) = self.lanes.get_mut(n) {
            lanes.ready[access.index()] = Time::NEVER;
        }
    }

    /// Updates the integrals of all queues of a radio and returns their mean total length.
    pub fn mean_queue(&mut self, end: Time, node: NodeId) -> f64 {
        let n = node.index();
        let mut area = 0.0;
        for access in Access::ALL {
            if access == Access::BestEffort || n < self.lanes.len() {
                let lane = self.lane(n, access);
                lane.count(end);
                area += lane.area as f64;
            }
        }
        area / end.as_nanos() as f64
    }

    /// Returns the number of packets that wait at a radio, in all its queues.
    pub fn waiting(&self, node: usize) -> u32 {
        let more = self.lanes.get(node).map_or(0, |l| l.iter().map(Interface::length).sum());
        self.interfaces[node].length() + more
    }
}
