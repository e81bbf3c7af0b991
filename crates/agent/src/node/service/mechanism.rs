//! Start, restart and end of the mechanism, and its information on neighbours and flows.

use std::collections::BTreeMap;

use fairmesh_control::host::Driver;
use fairmesh_control::{Event, EventKind, Neighbour, Setting};
use fairmesh_linux::MacAddr;
use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use super::{Link, Router, SENSE_INTERVAL};
use crate::daemon::journal::Level;
use crate::node::machine::Machine;
use crate::node::message::Role;
use crate::node::offers::{self, Probe};
use crate::node::passing::Change;

/// Least time between two starts of the mechanism.
const RESTART_INTERVAL: Span = Span::from_secs(10);
/// Time after a failed act until the mechanism is started again.
const RETRY_INTERVAL: Span = Span::from_secs(5);
/// Relative change of a link's capacity from which the mechanism is informed.
const CAPACITY_CHANGE: f64 = 0.1;
/// Relative change of a capacity from which a mechanism with fixed capacities is restarted.
const LARGE_CAPACITY_CHANGE: f64 = 0.5;

/// Facts with which the mechanism was started.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Basis {
    probe: Probe,
    gateway: Option<MacAddr>,
    uplink: usize,
    /// Address, number, rate and capacity of each.
    neighbours: Vec<(MacAddr, NodeId, BitRate, BitRate)>,
}

impl Basis {
    /// True if anything but the neighbours differs.
    fn moved(&self, other: &Basis) -> bool {
        let rest = |b: &Basis| (b.probe, b.gateway, b.uplink);
        rest(self) != rest(other)
    }

    /// True if the neighbours differ, or the capacity of a link by more than a part.
    fn differs(&self, other: &Basis, part: f64) -> bool {
        let far = |a: BitRate, b: BitRate| {
            let (a, b) = (a.0.max(1) as f64, b.0.max(1) as f64);
            (a / b).max(b / a) > 1.0 + part
        };
        self.neighbours.len() != other.neighbours.len()
            || self
                .neighbours
                .iter()
                .zip(&other.neighbours)
                .any(|(a, b)| (a.0, a.1) != (b.0, b.1) || far(a.3, b.3))
    }

    /// Returns the neighbours; one that is reached over two interfaces counts once.
    fn known(&self) -> Vec<Neighbour> {
        let mut known: Vec<Neighbour> = Vec::new();
        for (_, number, rate, capacity) in &self.neighbours {
            if !known.iter().any(|k| k.node == *number) {
                known.push(Neighbour::new(*number, *rate, *capacity));
            }
        }
        known
    }
}

impl<M: Machine> Router<M> {
    fn basis(&mut self) -> Basis {
        let mut numbers = std::mem::take(&mut self.rig.numbers);
        let announces = |mac: &MacAddr, role| {
            self.neighbours.senders().any(|(m, s)| m == *mac && s.active && s.role == role)
        };
        let gateway = self.links.iter().find(|(mac, _)| announces(mac, Role::Gateway));
        let gateway = gateway.filter(|_| self.rig.config.role != Role::Gateway);
        numbers.retain(|mac| self.links.contains_key(mac));
        // First, since there is a bound on numbers.
        let _ = gateway.and_then(|(mac, _)| numbers.of(*mac));
        let known = |(mac, link): (&MacAddr, &Link)| {
            let (rate, capacity) = self.capacity(link)?;
            Some((*mac, numbers.of(*mac)?, rate, capacity))
        };
        let basis = Basis {
            probe: self.probe(),
            gateway: gateway.map(|(mac, _)| *mac),
            uplink: gateway.map_or(0, |(_, link)| link.interface),
            neighbours: self.links.iter().filter_map(known).collect(),
        };
        self.rig.numbers = numbers;
        basis
    }

    /// Starts, restarts or ends the mechanism, as neighbours and interfaces demand.
    pub(super) fn consider(&mut self, now: Time) {
        if self.rig.config.mechanism.is_none() {
            return;
        }
        let basis = self.basis();
        // Neither a lost gateway nor the numbers of neighbours that have just appeared wait.
        let lost = self.started.as_ref().is_some_and(|s| {
            let renamed = |n: &(MacAddr, NodeId, BitRate, BitRate)| {
                basis.neighbours.iter().any(|b| b.0 == n.0 && b.1 != n.1)
            };
            s.gateway != basis.gateway || s.neighbours.iter().any(renamed)
        });
        let changed = self.started.as_ref().is_none_or(|started| {
            let part = if self.informed() { CAPACITY_CHANGE } else { LARGE_CAPACITY_CHANGE };
            let links = !offers::takes_orders(&self.rig.config);
            started.moved(&basis) || (links && started.differs(&basis, part))
        });
        if !changed || (now < self.next_start && !lost) {
            return;
        }
        if !lost
            && self.informed()
            && !basis.neighbours.is_empty()
            && self.started.as_ref().is_some_and(|s| !s.moved(&basis))
        {
            return self.inform(now, basis);
        }
        self.end(now);
        self.next_start = now + RESTART_INTERVAL;
        self.rig.uplink = basis.uplink;
        match self.begin(now, &basis) {
            Ok(driver) => {
                self.driver = Some(driver);
                self.idle = None;
                self.started = Some(basis);
                self.check_acts(now);
            }
            Err((level, text)) => {
                if self.idle.as_ref() != Some(&text) {
                    self.rig.journal.note(now, level, "control.waits", || text.clone());
                }
                self.idle = Some(text);
                // A new neighbour is not made to wait.
                self.next_start = now + SENSE_INTERVAL;
            }
        }
    }

    /// True if the mechanism runs and takes changes of the neighbours.
    fn informed(&self) -> bool {
        self.driver.as_ref().is_some_and(|d| d.needs().events.has(EventKind::Neighbours))
    }

    /// Informs the mechanism of its neighbours.
    fn inform(&mut self, now: Time, basis: Basis) {
        self.rig.reached = self.reached(&basis);
        self.next_start = now + SENSE_INTERVAL;
        if let Some(driver) = &mut self.driver {
            driver.deliver_and_act(now, &Event::Neighbours(&basis.known()), &mut self.rig);
        }
        self.started = Some(basis);
        self.check_acts(now);
    }

    /// Returns the mesh interface of each neighbour.
    fn reached(&self, basis: &Basis) -> BTreeMap<MacAddr, usize> {
        let reached = |mac: &MacAddr| self.links.get(mac).map(|link| (*mac, link.interface));
        basis.neighbours.iter().filter_map(|n| reached(&n.0)).collect()
    }

    fn begin(&mut self, now: Time, basis: &Basis) -> Result<Driver, (Level, String)> {
        let config = &self.rig.config;
        let mechanism = config.mechanism.clone();
        // An agent takes orders whatever its links are.
        if basis.neighbours.is_empty() && !offers::takes_orders(config) {
            return Err((Level::Info, "no neighbour with a known rate yet".to_owned()));
        }
        let site = offers::site(config.role, basis.gateway.is_some());
        if mechanism.needs(&site).is_none() {
            let text = format!("{mechanism} waits for a gateway among the neighbours");
            return Err((Level::Info, text));
        }
        if let Some(mac) = self.rig.numbers.clash() {
            let own = self.rig.numbers.own().0;
            let text =
                format!("{mac} has this router's number, {own}; set `number` at one of both");
            return Err((Level::Warning, text));
        }
        let role = config.role;
        let known = basis.known();
        let gateway = basis.gateway.and_then(|mac| self.rig.numbers.of(mac));
        let probed = mechanism.needs(&site).is_some_and(|n| n.events.has(EventKind::Flows));
        let flows: Vec<_> = match (role, gateway) {
            // They are found by their packets.
            _ if probed => Vec::new(),
            (Role::Gateway, _) => {
                known.iter().map(|n| offers::flow(role, FlowId(n.node.0), n.node)).collect()
            }
            (_, Some(gateway)) => vec![offers::flow(role, FlowId(gateway.0), gateway)],
            (_, None) => Vec::new(),
        };
        let own = self.rig.numbers.own();
        let setting = Setting::new(own, site, Stream::new(self.run.into(), "node"))
            .with_run(self.run.into())
            .with_flows(flows)
            .with_neighbours(known);
        let offers = offers::offers(&self.rig.config, basis.probe);
        match Driver::start_alone(&mechanism, setting, &offers) {
            Ok(Some(mut driver)) => {
                self.rig.reached = self.reached(basis);
                if driver.needs().events.has(EventKind::FlowLinks) {
                    self.rig.count_flows();
                }
                driver.begin(now, &mut self.rig);
                Ok(driver)
            }
            Ok(None) => Err((Level::Info, format!("{mechanism} does not run here"))),
            Err(e) => Err((Level::Error, e.to_string())),
        }
    }

    /// Ends the mechanism and removes its limit.
    pub(super) fn end(&mut self, now: Time) {
        (self.driver, self.started) = (None, None);
        self.rig.free(now);
    }

    /// Ends the mechanism for a time if an act failed.
    pub(super) fn check_acts(&mut self, now: Time) {
        let Some(e) = self.rig.failed.take() else { return };
        let place = self.rig.config.place(self.rig.uplink).interface;
        self.rig.journal.note(now, Level::Error, "limit.failed", || {
            format!("{place}: {e}; nothing is limited or marked, trying again in {RETRY_INTERVAL}")
        });
        self.idle = Some(format!("limits or marks on {place} failed: {e}"));
        self.end(now);
        self.next_start = now + RETRY_INTERVAL;
    }

    /// Reports flows that have appeared or ended to the mechanism.
    pub(super) fn look_at_flows(&mut self, now: Time) {
        let Some(driver) = &mut self.driver else { return };
        if !driver.needs().events.has(EventKind::Flows) {
            return;
        }
        for change in self.rig.look_at_flows(now) {
            let event = match change {
                Change::Seen(here) => Event::FlowSeen(here),
                Change::Gone(flow) => Event::FlowGone(flow),
            };
            driver.deliver_and_act(now, &event, &mut self.rig);
        }
    }
}
