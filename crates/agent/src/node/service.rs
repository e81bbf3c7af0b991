//! The mesh router as a state machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use fairmesh_control::host::Driver;
use fairmesh_control::{Event, EventKind, Message, Neighbour, Setting};
use fairmesh_linux::{Error, MacAddr};
use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use super::config::Config;
use super::machine::{Carrier, Machine, Port};
use super::message::{Draft, Field, MeshKey, Role};
use super::neighbours::{Announcer, Neighbours};
use super::numbers;
use super::offers::{self, Probe};
use super::orders::Orders;
use super::passing::Change;
use super::places::Places;
use super::report::{self, Request};
use super::rig::Rig;
use super::state::SavedState;
use crate::daemon::journal::{Journal, Level};
use crate::daemon::process::Resources;
use crate::daemon::service::{Effect, Moment, Service};
use crate::daemon::socket::{Refusal, Response};
use crate::gateway::config::{ConfigError, Mode, capacity_of};

/// Interval at which interfaces and neighbours are read.
const SENSE_INTERVAL: Span = Span::from_secs(1);
/// Interval at which limits in airtime follow the measured airtime.
const SHARE_INTERVAL: Span = Span::from_millis(100);
/// Longest time between two messages of a router.
pub const HELLO_INTERVAL: Span = Span::from_secs(1);
/// Time after the last message over a carrier for which a neighbour counts as a sender by it.
const MESSAGE_MEMORY: Span = Span::from_secs(3);
/// Time for which a neighbour that a driver no longer reports is kept.
const LINGER: Span = Span::from_secs(5);
/// Least time between two starts of the mechanism.
const RESTART_INTERVAL: Span = Span::from_secs(10);
/// Time after a failed act until the mechanism is started again.
const RETRY_INTERVAL: Span = Span::from_secs(5);
/// Sender of orders, which agents do not distinguish.
const GATEWAY: NodeId = NodeId(0);
/// Longest time between two heartbeats; the guard then removes all limits.
///
/// Heartbeats are sent between the parts of a turn, each of which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(8);
/// Minimum packets to a neighbour between two reports for its rate to count.
///
/// Management frames have basic rates.
const MIN_PACKETS: u32 = 20;
/// Relative change of a link's capacity from which the mechanism is informed.
const CAPACITY_CHANGE: f64 = 0.1;
/// Relative change of a capacity from which a mechanism with fixed capacities is restarted.
const LARGE_CAPACITY_CHANGE: f64 = 0.5;

/// An event from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Messages have arrived.
    Messages,
}

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
    packets: Option<u32>,
    /// Time of the last accepted message by UDP, and by action frames.
    messages: [Option<Time>; 2],
    /// Time of the last report or message.
    pub seen: Time,
}

impl Link {
    fn new(interface: usize, seen: Time) -> Self {
        let messages = [None; 2];
        Link { interface, rate: None, expected: None, packets: None, messages, seen }
    }

    /// Carrier of the neighbour's messages; action frames if it sends both.
    pub(super) fn carrier(&self, now: Time) -> Option<Carrier> {
        let recent = |c: &Carrier| {
            self.messages[*c as usize].is_some_and(|at| now.since(at) <= MESSAGE_MEMORY)
        };
        [Carrier::ActionFrames, Carrier::Udp].into_iter().find(recent)
    }
}

/// Facts with which the mechanism was started.
#[derive(Clone, PartialEq, Debug)]
struct Basis {
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

/// Parts that a start provides.
pub struct Parts<M> {
    /// The machine.
    pub machine: M,
    /// The configuration.
    pub config: Config,
    /// Path of the configuration, for messages.
    pub file: PathBuf,
    /// Reads the configuration again.
    pub load: Box<dyn FnMut() -> Result<Config, ConfigError>>,
    /// Key of the mesh.
    pub key: MeshKey,
    /// Number of this run.
    pub run: u32,
    /// Sends a heartbeat if one is due; called between the parts of a turn.
    pub heartbeat: Box<dyn FnMut()>,
    /// Returns numbers that an attacker cannot predict.
    pub random: Box<dyn FnMut() -> u64>,
}

/// A mesh router.
pub struct Router<M> {
    pub(super) rig: Rig<M>,
    pub(super) driver: Option<Driver>,
    pub(super) neighbours: Neighbours,
    pub(super) orders: Orders,
    /// True if the port of orders is open.
    pub(super) listening: bool,
    /// Obstacle to listening for orders.
    deaf: Option<String>,
    announcers: BTreeMap<usize, (MacAddr, Announcer)>,
    /// Interfaces with action frames that send by UDP too, for a neighbour without.
    pub(super) also_udp: BTreeSet<usize>,
    key: MeshKey,
    pub(super) run: u32,
    file: PathBuf,
    load: Box<dyn FnMut() -> Result<Config, ConfigError>>,
    heartbeat: Box<dyn FnMut()>,
    pub(super) ports: Vec<Port>,
    pub(super) links: BTreeMap<MacAddr, Link>,
    started: Option<Basis>,
    /// Reason for which the mechanism does not run.
    pub(super) idle: Option<String>,
    channel: Option<fairmesh_control::Channel>,
    next_sense: Time,
    next_hello: Time,
    next_renewal: Time,
    next_shares: Time,
    /// Time before which the mechanism is not started again.
    next_start: Time,
    effects: Vec<Effect>,
}

impl<M: Machine> Router<M> {
    /// Returns a router that has sent and set nothing yet.
    pub fn new(parts: Parts<M>) -> Self {
        let Parts { machine, config, file, load, key, run, heartbeat, random } = parts;
        let saved = SavedState { run, places: Places::of(&config), ..SavedState::default() };
        let neighbours = Neighbours::new(key.clone(), Vec::new(), HELLO_INTERVAL, Time::ZERO);
        let orders = Orders::new(key.clone(), random, Time::ZERO);
        Router {
            rig: Rig::new(machine, config),
            orders,
            listening: false,
            deaf: None,
            driver: None,
            neighbours,
            announcers: BTreeMap::new(),
            also_udp: BTreeSet::new(),
            key,
            run,
            file,
            load,
            heartbeat,
            ports: Vec::new(),
            links: BTreeMap::new(),
            started: None,
            idle: None,
            channel: None,
            next_sense: Time::ZERO,
            next_hello: Time::ZERO,
            next_renewal: Time::ZERO,
            next_shares: Time::ZERO,
            next_start: Time::ZERO,
            effects: vec![Effect::Save(saved.text())],
        }
    }

    /// The machine's and the mechanism's events, for the start.
    pub fn journal_mut(&mut self) -> &mut Journal {
        &mut self.rig.journal
    }

    /// Findings about the drivers.
    fn probe(&self) -> Probe {
        Probe::of(&self.ports)
    }

    fn sense(&mut self, now: Time) {
        let ports = self.rig.machine.refresh();
        self.report_ports(now, &ports);
        self.ports = ports;
        let macs: Vec<MacAddr> = self.ports.iter().filter_map(|p| p.mac).collect();
        if self.rig.numbers.announced().is_none()
            && let Some(number) =
                self.rig.config.number.or_else(|| macs.first().map(|mac| numbers::derived(*mac)))
        {
            self.rig.numbers.set_own(number);
        }
        self.neighbours.set_own(macs);
        for (at, port) in self.ports.iter().enumerate() {
            let (Some(mac), true) = (port.mac, port.talks) else { continue };
            // An address that returns must continue: receivers refuse numbers that they have seen.
            let first = self.announcers.values().map(|(_, a)| a.sent()).max().unwrap_or(0);
            let new = || (mac, Announcer::new(self.key.clone(), mac, self.run).after(first));
            let announcer = self.announcers.entry(at).or_insert_with(new);
            if announcer.0 != mac {
                *announcer = new();
            }
        }
        for interface in 0..self.ports.len() {
            for station in self.rig.machine.stations(interface) {
                self.report_station(now, interface, &station);
            }
        }
        self.links.retain(|_, link| now.since(link.seen) <= LINGER);
        self.follow_carriers(now);
        let channel = self.rig.machine.channel(self.rig.uplink);
        self.rig.busy = channel.zip(self.channel).and_then(|(new, old)| {
            let active = new.active.as_nanos().checked_sub(old.active.as_nanos())?;
            let busy = new.busy.as_nanos().checked_sub(old.busy.as_nanos())?;
            (active > 0).then(|| (busy as f64 / active as f64).min(1.0))
        });
        self.channel = channel;
    }

    /// Sends by UDP too where a neighbour sends no action frames.
    ///
    /// It may receive none either.
    fn follow_carriers(&mut self, now: Time) {
        for (at, port) in self.ports.iter().enumerate() {
            let by_udp = |(_, l): &(&MacAddr, &Link)| {
                l.interface == at && l.carrier(now) == Some(Carrier::Udp)
            };
            let framed = port.talks && port.carrier == Carrier::ActionFrames;
            match self.links.iter().find(by_udp).filter(|_| framed) {
                None => {
                    self.also_udp.remove(&at);
                }
                Some((mac, _)) if self.also_udp.insert(at) => {
                    let name = &self.rig.config.interfaces[at];
                    self.rig.journal.note(now, Level::Warning, "carrier.mixed", || {
                        format!(
                            "{name}: {mac} sends messages by UDP; messages are sent by UDP, too, \
                             which the mesh floods"
                        )
                    });
                }
                Some(_) => {}
            }
        }
    }

    /// Reports the carrier of an interface's messages after it was chosen or has changed.
    fn report_carrier(&mut self, now: Time, name: &str, port: &Port) {
        let carrier = port.carrier.text();
        match &port.refusal {
            None => self.rig.journal.note(now, Level::Info, "carrier.chosen", || {
                format!("{name}: messages are sent by {carrier}")
            }),
            Some(why) => self.rig.journal.note(now, Level::Warning, "carrier.fallback", || {
                format!(
                    "{name}: messages are sent by {carrier}, which the mesh floods, since action frames \
                     fail: {why}"
                )
            }),
        }
    }

    fn report_ports(&mut self, now: Time, ports: &[Port]) {
        for (at, port) in ports.iter().enumerate() {
            let before = self.ports.get(at).map(|p| p.talks);
            let carrier = self.ports.get(at).filter(|p| p.talks).map(|p| p.carrier);
            let name = self.rig.config.interfaces[at].clone();
            if before != Some(port.talks) {
                self.report_port(now, name.name(), port);
            }
            if port.talks && carrier != Some(port.carrier) {
                self.report_carrier(now, name.name(), port);
            }
        }
    }

    fn report_port(&mut self, now: Time, name: &str, port: &Port) {
        match (port.talks, port.mac, port.up) {
            (true, ..) => self.rig.journal.note(now, Level::Info, "interface.up", || {
                let radio = if port.stations { "a radio" } else { "no radio" };
                let survey = if port.survey { ", with the use of its channel" } else { "" };
                format!("{name}: {radio}{survey}")
            }),
            (false, mac, up) => {
                self.rig.journal.note(now, Level::Warning, "interface.lost", || {
                    let why = match (mac, up) {
                        (None, _) => "there is no such interface",
                        (_, false) => "it is down",
                        _ => "its UDP port cannot be opened",
                    };
                    format!("{name}: {why}; waiting for it")
                });
            }
        }
    }

    fn report_station(
        &mut self,
        now: Time,
        interface: usize,
        station: &fairmesh_linux::nl80211::Station,
    ) {
        let link = self.links.entry(station.mac).or_insert_with(|| Link::new(interface, now));
        (link.interface, link.seen) = (interface, now);
        link.expected = station.expected_throughput;
        let (Some(rate), Some(packets)) = (station.tx_rate, station.tx_packets) else { return };
        let sent = link.packets.map(|before| packets.wrapping_sub(before));
        if link.rate.is_none() || sent.is_some_and(|n| n >= MIN_PACKETS) {
            link.rate = (rate.0 > 0).then_some(rate).or(link.rate);
            link.packets = Some(packets);
        }
    }

    /// Returns rate and capacity of a link; `None` if unknown.
    pub(super) fn capacity(&self, link: &Link) -> Option<(BitRate, BitRate)> {
        let config = &self.rig.config;
        let rate = link.rate.or(config.rate)?;
        // Rate control expects less where frames collide, and more where it aggregates.
        let nominal = capacity_of(rate);
        let derived = link.expected.map_or(nominal, |expected| expected.max(nominal));
        Some((rate, config.capacity.unwrap_or(derived)))
    }

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
    fn consider(&mut self, now: Time) {
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
    fn end(&mut self, now: Time) {
        (self.driver, self.started) = (None, None);
        self.rig.free(now);
    }

    /// Ends the mechanism for a time if an act failed.
    fn check_acts(&mut self, now: Time) {
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
    fn look_at_flows(&mut self, now: Time) {
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

    fn receive(&mut self, now: Time) {
        let mut messages = Vec::new();
        self.rig.machine.read(&mut |interface, carrier, bytes| {
            messages.push((interface, carrier, bytes.to_vec()));
        });
        for (interface, carrier, bytes) in messages {
            let Ok(accepted) = self.neighbours.receive(now, carrier, &bytes) else { continue };
            let message = accepted.message;
            let mac = message.mac;
            if !self.ports.get(interface).is_some_and(|p| p.stations) {
                self.links.entry(mac).or_insert_with(|| Link::new(interface, now)).seen = now;
            }
            // Broadcasts cross 802.11s meshes; the driver knows the neighbours.
            let Some(link) = self.links.get_mut(&mac) else { continue };
            link.messages[carrier as usize] = Some(now);
            if accepted.appeared {
                let name = &self.rig.config.interfaces[interface];
                self.rig.journal.note(now, Level::Info, "neighbour.appeared", || {
                    format!("{mac} on {name}, {}", message.fields.role().name())
                });
            }
            if let Some(number) = message.fields.number() {
                self.rig.numbers.announce(mac, number);
            }
            let Some(driver) = &mut self.driver else { continue };
            let Some(from) = self.rig.numbers.of(mac) else { continue };
            if accepted.restarted {
                driver.deliver_and_act(now, &Event::Restarted(from), &mut self.rig);
            }
            let own: Vec<MacAddr> = self.ports.iter().filter_map(|p| p.mac).collect();
            let name = self.rig.config.mechanism.definition().name.clone();
            for body in message.fields.bodies(&name, &own) {
                let event = Event::Message(Message { from, body });
                driver.deliver_and_act(now, &event, &mut self.rig);
            }
        }
        self.check_acts(now);
    }

    /// Opens the port of a gateway's orders if the control takes them, otherwise closes it.
    fn listen(&mut self, now: Time) {
        let wanted = offers::takes_orders(&self.rig.config);
        let problem = self.rig.machine.listen(wanted).err().map(|e| e.to_string());
        self.listening = wanted && problem.is_none();
        if let Some(text) = problem.clone().filter(|p| self.deaf.as_ref() != Some(p)) {
            self.rig.journal.note(now, Level::Error, "orders.unavailable", || {
                format!("{text}; the gateway cannot limit a flood here")
            });
        }
        self.deaf = problem;
    }

    /// Passes a gateway's orders to the mechanism, and responds to them.
    fn take_orders(&mut self, now: Time) {
        if !self.listening {
            return;
        }
        let Some(own) = self.ports.iter().find_map(|p| p.mac) else { return };
        let name = self.rig.config.mechanism.definition().name.clone();
        let mut bodies = Vec::new();
        let orders = &mut self.orders;
        self.rig.machine.read_orders(&mut |bytes| {
            let (order, response) = orders.receive(now, bytes, &name, own);
            bodies.extend(order);
            response
        });
        for body in bodies {
            let Some(driver) = &mut self.driver else { return };
            let event = Event::Message(Message { from: GATEWAY, body: &body });
            driver.deliver_and_act(now, &event, &mut self.rig);
        }
        self.check_acts(now);
    }

    /// Sends the mechanism's bodies, or a message without one; returns the time of the next.
    fn send(&mut self, now: Time) -> Time {
        while !self.rig.bodies.is_empty() || now >= self.next_hello {
            let mut draft = Draft::new();
            let _ = draft.push(Field::Role(self.rig.config.role));
            if let Some(number) = self.rig.numbers.announced() {
                let _ = draft.push(Field::Number(number));
            }
            let name = self.rig.config.mechanism.definition().name.clone();
            let bodies = self.rig.bodies.iter();
            let count = bodies.take_while(|(to, body)| {
                let mut longer = draft.clone();
                let fits = longer.push(Field::Mechanism(&name))
                    && to.is_none_or(|mac| longer.push(Field::To(mac)))
                    && longer.push(Field::Body(body));
                if fits {
                    draft = longer;
                }
                fits
            });
            let count = count.count();
            if count == 0 && !self.rig.bodies.is_empty() && draft.size() < 64 {
                // A body that fits into no message.
                self.rig.bodies.pop_front();
                self.rig.dropped_bodies += 1;
                continue;
            }
            let mut sealed = Vec::new();
            for (interface, (_, announcer)) in &mut self.announcers {
                if !self.ports.get(*interface).is_some_and(|p| p.talks) {
                    continue;
                }
                match announcer.seal(now, &draft) {
                    Ok(bytes) => sealed.push((*interface, bytes)),
                    Err(next) if sealed.is_empty() => return next,
                    // Interfaces send together, so that their rates differ only after one was down.
                    Err(_) => {}
                }
            }
            self.rig.bodies.drain(..count);
            self.next_hello = now + HELLO_INTERVAL;
            for (interface, bytes) in sealed {
                let also_udp = self.also_udp.contains(&interface);
                self.rig.machine.send(interface, &bytes, also_udp);
            }
        }
        self.next_hello
    }

    /// Number of messages sent over the busiest interface.
    pub(super) fn sent_messages(&self) -> u64 {
        self.announcers.values().map(|(_, a)| u64::from(a.sent())).max().unwrap_or(0)
    }
}

impl<M: Machine> Service for Router<M> {
    type Input = Input;
    type Error = Error;

    fn turn(&mut self, at: Moment) -> Time {
        let now = at.now;
        if now >= self.next_sense {
            self.sense(now);
            self.listen(now);
            self.next_sense = now + SENSE_INTERVAL;
        }
        (self.heartbeat)();
        self.receive(now);
        self.take_orders(now);
        (self.heartbeat)();
        if now >= self.next_renewal {
            self.next_renewal = now + SENSE_INTERVAL;
            self.rig.renew_marks();
            self.rig.renew_flows();
            self.look_at_flows(now);
            self.check_acts(now);
        }
        let mut next_shares = Time::NEVER;
        if self.rig.shares.is_some() {
            if now >= self.next_shares {
                self.next_shares = now + SHARE_INTERVAL;
                self.rig.renew_shares(now);
                self.check_acts(now);
            }
            next_shares = self.next_shares;
        }
        (self.heartbeat)();
        for mac in self.neighbours.expire(now) {
            self.rig.journal.note(now, Level::Info, "neighbour.gone", || {
                format!("{mac}: no message for {}", HELLO_INTERVAL.saturating_mul(3))
            });
        }
        self.consider(now);
        (self.heartbeat)();
        if let Some(driver) = self.driver.as_mut().filter(|d| d.due() <= now) {
            driver.deadline(now, &mut self.rig);
            self.check_acts(now);
        }
        (self.heartbeat)();
        let next_message = self.send(now);
        let due = self.driver.as_ref().map_or(Time::NEVER, Driver::due);
        [self.next_sense, next_message, due, next_shares]
            .into_iter()
            .fold(self.neighbours.next_expiry(), Time::min)
    }

    fn input(&mut self, at: Moment, input: Input) {
        match input {
            Input::Messages => {
                self.receive(at.now);
                self.take_orders(at.now);
            }
        }
    }

    fn request(&mut self, at: Moment, line: &str) -> Response {
        let request: Request = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(e) => return Response::Refused(Refusal::new("syntax", &e)),
        };
        let value = match request {
            Request::Status => serde_json::to_value(self.status(at.now)),
            Request::Why => serde_json::to_value(self.why(at.now)),
        };
        match value {
            Ok(value) => Response::Ok(value),
            Err(e) => Response::Refused(Refusal::new("internal", &e)),
        }
    }

    fn reload(&mut self, at: Moment) {
        let now = at.now;
        let refuse = |rig: &mut Rig<M>, text: String| {
            rig.journal.note(now, Level::Error, "config.refused", || {
                format!("{text}; the configuration in force stays")
            });
        };
        let config = match (self.load)() {
            Ok(config) => config,
            Err(e) => return refuse(&mut self.rig, e.to_string()),
        };
        let file = self.file.display().to_string();
        if !config.same_place(&self.rig.config) {
            let text = format!(
                "{file}: mode, interfaces, routing, key, metrics or paths have changed; restart the daemon"
            );
            return refuse(&mut self.rig, text);
        }
        if let Err(e) = offers::trial(&config, self.probe()) {
            return refuse(&mut self.rig, format!("{file}: control.use: {e}"));
        }
        self.rig.journal.note(now, Level::Info, "config.reloaded", || {
            format!("control {}, role {}", config.mechanism, config.role.name())
        });
        self.end(now);
        (self.rig.config, self.idle, self.next_start) = (config, None, now);
    }

    fn metrics(&self, at: Moment, process: Option<Resources>) -> String {
        report::metrics(&self.status(at.now), process)
    }

    fn journal(&mut self) -> &mut Journal {
        &mut self.rig.journal
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn performed(&mut self, at: Moment, effect: &Effect, result: io::Result<()>) {
        if let (Effect::Save(_), Err(e)) = (effect, result) {
            let folder = self.rig.config.state.display().to_string();
            self.rig.journal.note(at.now, Level::Warning, "state.unsaved", || {
                format!(
                    "paths.state: {folder}: {e}; after a restart neighbours may ignore this router for 10 min"
                )
            });
        }
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn lapsed(&mut self, at: Moment) {
        if self.rig.config.mode == Mode::Apply {
            self.rig.journal.note(at.now, Level::Warning, "guard.lapsed", || {
                "the daemon was late and its guard has removed the limit; starting again".to_owned()
            });
        }
        self.end(at.now);
        self.next_start = at.now;
    }

    fn stop(&mut self, at: Moment) -> Result<(), Error> {
        self.driver = None;
        let applied = self.rig.limit.take().filter(|l| l.applied);
        let removed = applied.map_or(Ok(()), |l| self.rig.machine.remove(&l.place).map(drop));
        self.rig.free(at.now);
        removed
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
