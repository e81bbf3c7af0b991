//! Runs a mesh router in virtual time, to count the instructions of `fairmesh-node`.
//!
//! - `node-cost record CONTROL FILE SECONDS` runs a gateway and eight routers in one radio cell, all in mode `apply`,
//!   and writes their messages.
//! - `node-cost replay CONTROL FILE SECONDS ROLE MODE` runs one of them with the messages of the others. Role: `gateway`,
//!   or `router`, through which four of eight homes upload.
//!
//! Drivers are answers that real kernels gave, read for every neighbour as the daemon reads them. System calls are not
//! included. `scripts/node-cost.sh` and `agent/tests/cost.rs` count the difference between two lengths.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use fairmesh_agent::daemon::service::{Moment, Service};
use fairmesh_agent::daemon::socket::Response;
use fairmesh_agent::key::Key;
use fairmesh_agent::node::config::Config;
use fairmesh_agent::node::machine::{Carrier, FlowClass, HopLimit, LocalCounters, Machine, Port};
use fairmesh_agent::node::message::MeshKey;
use fairmesh_agent::node::service::{Input, Parts, Router};
use fairmesh_control::{Channel, Leaf, Marking};
use fairmesh_linux::bpf::FlowCount;
use fairmesh_linux::nl80211::{Station, TransmitQueue, read_station, read_survey};
use fairmesh_linux::{Error, Interface, IpNet, LocalPlace, MacAddr, Removed};
use fairmesh_units::{BitRate, Probability, Span, Time};
use serde_json::Value;

/// Longest run, in s.
const MAX_SECONDS: u64 = 60;
/// Routers beside the gateway, which has number 0.
const ROUTERS: usize = 8;
/// The router through which others reach the gateway.
const RELAY: usize = 1;
/// First router that reaches the gateway over the relay.
const FIRST_BEHIND: usize = 5;
/// Channels in the answer of a dual-band radio.
const CHANNELS: u64 = 38;
/// Time of one upload's packet, in ms.
const PACKET_MS: u64 = 25;
/// Time from a message to its arrival.
const FLIGHT: Span = Span::from_millis(1);

type Failure = Box<dyn std::error::Error>;

fn bytes(hex: &str) -> Vec<u8> {
    let hex = hex.trim();
    (0..hex.len())
        .step_by(2)
        .map_while(|i| u8::from_str_radix(hex.get(i..i + 2)?, 16).ok())
        .collect()
}

fn mac(node: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, node as u8])
}

/// Next node on the way from a router to the gateway.
fn towards_gateway(node: usize) -> usize {
    if node >= FIRST_BEHIND { RELAY } else { 0 }
}

/// Drivers of one router.
struct Fake {
    node: usize,
    now: Rc<RefCell<Time>>,
    station: Station,
    survey: Vec<u8>,
    raw_station: Vec<u8>,
    inbox: Rc<RefCell<VecDeque<Vec<u8>>>>,
    outbox: Rc<RefCell<Vec<Vec<u8>>>>,
    hops: BTreeMap<MacAddr, Option<BitRate>>,
    classes: BTreeMap<u16, FlowClass>,
}

impl Fake {
    fn ms(&self) -> u64 {
        self.now.borrow().since(Time::ZERO).as_nanos() / 1_000_000
    }

    /// Packets of each upload so far.
    fn packets(&self) -> u64 {
        self.ms() / PACKET_MS
    }

    /// Number of uploads that cross the link to a neighbour.
    fn uploads(&self, other: usize) -> u64 {
        let over = |node: usize| {
            let first = towards_gateway(node);
            let links = [(node, first), (first, towards_gateway(first))];
            links.contains(&(self.node, other)) || links.contains(&(other, self.node))
        };
        (1..=ROUTERS).filter(|n| over(*n)).count() as u64
    }

    /// Counters of an upload's data and acknowledgements on one link.
    fn link(&self, home: usize, neighbour: usize, out: bool, all: &mut Vec<FlowCount>) {
        let packets = self.packets();
        let count = |out, ack, size| FlowCount {
            neighbour: mac(neighbour),
            out,
            ack,
            home: 0x0a09_0000 + home as u32,
            download: false,
            packets,
            bytes: size * packets,
        };
        all.push(count(out, false, 1500));
        all.push(count(!out, true, 52));
    }
}

impl Machine for Fake {
    fn refresh(&mut self) -> Vec<Port> {
        let stations = self.stations(0);
        let survey = self.channel(0).is_some();
        vec![Port {
            mac: Some(mac(self.node)),
            up: true,
            talks: true,
            carrier: Carrier::Udp,
            refusal: None,
            stations: true,
            survey,
            queues: stations.iter().all(|s| s.queue.is_some()),
            airtime: stations.iter().all(|s| s.tx_airtime_us.is_some()),
            programs: true,
        }]
    }

    fn stations(&mut self, _: usize) -> Vec<Station> {
        let one = |node| {
            // Read for each neighbour, as a real dump is.
            let station = read_station(&self.raw_station).unwrap_or(self.station);
            let packets = self.packets() * self.uploads(node);
            Station {
                mac: mac(node),
                rx_bytes: Some(packets * 1500),
                tx_bytes: Some(packets * 1500),
                rx_packets: Some(packets as u32),
                tx_packets: Some(packets as u32),
                tx_airtime_us: Some(packets * 400),
                rx_airtime_us: Some(packets * 400),
                queue: Some(TransmitQueue::default()),
                ..station
            }
        };
        (0..=ROUTERS).filter(|n| *n != self.node).map(one).collect()
    }

    fn channel(&mut self, _: usize) -> Option<Channel> {
        // hwsim gives no times of its channels; the other fields are read all the same.
        let known = (0..CHANNELS).filter(|_| read_survey(&self.survey).is_some()).count() as u64;
        if known < CHANNELS {
            return None;
        }
        let active = Span::from_millis(self.ms());
        let busy = Span::from_millis(self.ms() * 7 / 10);
        Some(Channel { active, busy, receive: busy, transmit: Span::ZERO })
    }

    fn send(&mut self, _: usize, bytes: &[u8], _: bool) -> bool {
        self.outbox.borrow_mut().push(bytes.to_vec());
        true
    }

    fn read(&mut self, handle: &mut dyn FnMut(usize, Carrier, &[u8])) {
        for message in self.inbox.borrow_mut().drain(..) {
            handle(0, Carrier::Udp, &message);
        }
    }

    fn listen(&mut self, _: bool) -> Result<(), Error> {
        Ok(())
    }

    fn read_orders(&mut self, _: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>) {}

    fn sent(&mut self, _: &Interface) -> Result<LocalCounters, Error> {
        self.sample()
    }

    fn install(&mut self, _: &LocalPlace, _: Leaf, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn set_rate(&mut self, _: Option<BitRate>) -> Result<(), Error> {
        Ok(())
    }

    fn sample(&mut self) -> Result<LocalCounters, Error> {
        // Traffic that waits, in half of the updates: the limit moves.
        let queued_packets = u32::from((self.ms() / 400).is_multiple_of(2));
        let packets = self.packets();
        Ok(LocalCounters {
            bytes: packets * 1500,
            packets,
            queued_packets,
            ..LocalCounters::default()
        })
    }

    fn mark(
        &mut self,
        _: &[Interface],
        _: Option<MacAddr>,
        _: Probability,
        _: Marking,
    ) -> Result<(), Error> {
        Ok(())
    }

    fn unmark(&mut self) {}

    fn remove(&mut self, _: &LocalPlace) -> Result<Removed, Error> {
        self.classes.clear();
        Ok(Removed::default())
    }

    fn install_hops(&mut self, _: &Interface, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn set_hops(&mut self, _: &Interface, limits: &[HopLimit]) -> Result<(), Error> {
        self.hops.extend(limits.iter().copied());
        Ok(())
    }

    fn sample_hops(&mut self, _: &Interface) -> Result<Vec<(MacAddr, u64)>, Error> {
        let packets = self.packets();
        let sent = |to: &MacAddr| (*to, packets * 1514 * self.uploads(usize::from(to.0[5])));
        Ok(self.hops.keys().map(sent).collect())
    }

    fn remove_hops(&mut self, _: &Interface) -> Result<Removed, Error> {
        self.hops.clear();
        Ok(Removed::default())
    }

    fn count_flows(&mut self, _: &[Interface], _: &[IpNet]) -> Result<(), Error> {
        Ok(())
    }

    fn set_flow(&mut self, class: &FlowClass) -> Result<(), Error> {
        self.classes.insert(class.number, *class);
        Ok(())
    }

    fn remove_flow(&mut self, class: &FlowClass) -> Result<(), Error> {
        self.classes.remove(&class.number);
        Ok(())
    }

    fn sample_flows(&mut self) -> Result<Vec<(u16, LocalCounters)>, Error> {
        let counters = self.sample()?;
        Ok(self.classes.keys().map(|number| (*number, counters)).collect())
    }

    fn flows(&mut self) -> Result<Vec<FlowCount>, Error> {
        let mut all = Vec::new();
        for home in 1..=ROUTERS {
            let first = towards_gateway(home);
            for (from, to) in [(home, first), (first, towards_gateway(first))] {
                match self.node {
                    node if node == from && from != to => self.link(home, to, true, &mut all),
                    node if node == to && from != to => self.link(home, from, false, &mut all),
                    _ => {}
                }
            }
        }
        Ok(all)
    }
}

/// A router of the cell.
struct Member {
    router: Router<Fake>,
    inbox: Rc<RefCell<VecDeque<Vec<u8>>>>,
    outbox: Rc<RefCell<Vec<Vec<u8>>>>,
    due: Time,
    turns: u64,
    messages: u64,
    octets: u64,
}

impl Member {
    fn new(
        node: usize,
        control: &str,
        mode: &str,
        now: &Rc<RefCell<Time>>,
    ) -> Result<Member, Failure> {
        let role = if node == 0 { "gateway" } else { "router" };
        let guarantee = if control == "gap" { "guarantee = 500\n" } else { "" };
        let text = format!(
            "interfaces = [\"mesh0\"]\nrouting = \"layer3\"\nrole = \"{role}\"\nmode = \"{mode}\"\n\
             [control]\nuse = \"{control}\"\n{guarantee}"
        );
        let config = Config::parse("node.toml", &text)?;
        let raw_station = bytes(include_str!("../../linux/src/nl80211/captured/station-6.12.hex"));
        let inbox = Rc::new(RefCell::new(VecDeque::new()));
        let outbox = Rc::new(RefCell::new(Vec::new()));
        let machine = Fake {
            node,
            now: now.clone(),
            station: read_station(&raw_station).ok_or("the captured station is unreadable")?,
            raw_station,
            survey: bytes(include_str!("../../linux/src/nl80211/captured/survey-6.1.hex")),
            inbox: inbox.clone(),
            outbox: outbox.clone(),
            hops: BTreeMap::new(),
            classes: BTreeMap::new(),
        };
        let again = config.clone();
        let parts = Parts {
            machine,
            config,
            file: "node.toml".into(),
            load: Box::new(move || Ok(again.clone())),
            key: MeshKey::new(Key::new([1; 32])),
            run: 1,
            heartbeat: Box::new(|| ()),
            random: Box::new(|| 0),
        };
        let router = Router::new(parts);
        let (due, turns, messages, octets) = (Time::ZERO, 0, 0, 0);
        Ok(Member { router, inbox, outbox, due, turns, messages, octets })
    }

    fn turn(&mut self, now: Time) {
        self.due = self.router.turn(Moment { now, wall: 0 }).max(now + Span::from_nanos(1));
        self.router.journal().take();
        self.turns += 1;
    }

    fn receive(&mut self, now: Time, message: Vec<u8>) {
        self.inbox.borrow_mut().push_back(message);
        self.router.input(Moment { now, wall: 0 }, Input::Messages);
        // The daemon's loop turns after every event.
        self.due = now;
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        let sent: Vec<_> = self.outbox.borrow_mut().drain(..).collect();
        self.messages += sent.len() as u64;
        self.octets += sent.iter().map(|m| m.len() as u64).sum::<u64>();
        sent
    }
}

/// A message in flight: arrival, sender, bytes.
type Flight = (Time, usize, Vec<u8>);

/// Returns the messages of the cell, in the order of their arrival.
pub fn record(control: &str, seconds: u64) -> Result<Vec<Flight>, Failure> {
    let now = Rc::new(RefCell::new(Time::ZERO));
    let members = (0..=ROUTERS).map(|node| Member::new(node, control, "apply", &now));
    let mut members = members.collect::<Result<Vec<_>, _>>()?;
    // Real routers do not start at the same instant.
    for (node, member) in members.iter_mut().enumerate() {
        member.due = Time::ZERO + Span::from_millis(37 * node as u64);
    }
    let (mut all, mut arrived) = (Vec::<Flight>::new(), 0);
    let end = Time::ZERO + Span::from_secs(seconds);
    loop {
        let (node, due) = members
            .iter()
            .enumerate()
            .map(|(node, m)| (node, m.due))
            .min_by_key(|(_, due)| *due)
            .ok_or("no router")?;
        let arrival = all.get(arrived).map_or(Time::NEVER, |f| f.0);
        let at = due.min(arrival);
        if at >= end {
            return Ok(all);
        }
        *now.borrow_mut() = at;
        if arrival <= due {
            let (_, from, message) = all[arrived].clone();
            arrived += 1;
            for (node, member) in members.iter_mut().enumerate().filter(|(n, _)| *n != from) {
                let _ = node;
                member.receive(at, message.clone());
            }
        } else {
            members[node].turn(at);
            all.extend(members[node].sent().into_iter().map(|m| (at + FLIGHT, node, m)));
        }
    }
}

/// Returns the text of recorded messages.
pub fn text(flights: &[Flight]) -> String {
    let line = |(at, from, message): &Flight| {
        let hex: String = message.iter().map(|b| format!("{b:02x}")).collect();
        format!("{} {from} {hex}\n", at.since(Time::ZERO).as_nanos())
    };
    flights.iter().map(line).collect()
}

fn flights(text: &str) -> Result<VecDeque<Flight>, Failure> {
    let line = |line: &str| -> Result<Flight, Failure> {
        let words: Vec<&str> = line.split(' ').collect();
        let [at, from, hex] = words[..] else { return Err("not a recorded message".into()) };
        Ok((Time::ZERO + Span::from_nanos(at.parse()?), from.parse()?, bytes(hex)))
    };
    text.lines().map(line).collect()
}

/// Runs one router with recorded messages of the others; returns a sentence about the run.
pub fn replay(
    control: &str,
    recorded: &str,
    seconds: u64,
    role: &str,
    mode: &str,
) -> Result<String, Failure> {
    let own = match role {
        "gateway" => 0,
        "router" => RELAY,
        _ => return Err("expected role gateway or router".into()),
    };
    let mut arrivals = flights(recorded)?;
    let now = Rc::new(RefCell::new(Time::ZERO));
    let mut member = Member::new(own, control, mode, &now)?;
    let end = Time::ZERO + Span::from_secs(seconds);
    loop {
        while arrivals.front().is_some_and(|f| f.1 == own) {
            arrivals.pop_front();
        }
        let arrival = arrivals.front().map_or(Time::NEVER, |f| f.0);
        let at = member.due.min(arrival);
        if at >= end {
            break;
        }
        *now.borrow_mut() = at;
        if arrival <= member.due {
            let message = arrivals.pop_front().map(|f| f.2).unwrap_or_default();
            member.receive(at, message);
        } else {
            member.turn(at);
            member.sent();
        }
    }
    let at = *now.borrow();
    let answer = member.router.request(Moment { now: at, wall: 0 }, "{\"command\":\"status\"}");
    let Response::Ok(status) = answer else { return Err("no status".into()) };
    let running =
        status["running"] == true && status["refused"].as_array().is_some_and(Vec::is_empty);
    let count = |of: &str| status[of].as_array().map_or(0, Vec::len);
    let limits = count("shares") + count("flows") + usize::from(status["limit"] != Value::Null);
    let marks = if status["marking"] == Value::Null { "no marks" } else { "marks" };
    Ok(format!(
        "{} turns, {} messages with {} octets sent, {control} runs: {running}, {limits} limits, {marks}",
        member.turns, member.messages, member.octets
    ))
}

#[allow(dead_code)] // not called in tests, of which this is a module
fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["record", control, file, seconds] => {
            let seconds = seconds.parse::<u64>()?.min(MAX_SECONDS);
            std::fs::write(file, text(&record(control, seconds)?))?;
        }
        ["replay", control, file, seconds, role, mode] => {
            let recorded = std::fs::read_to_string(file)?;
            println!("{}", replay(control, &recorded, seconds.parse()?, role, mode)?);
        }
        _ => {
            return Err("node-cost record CONTROL FILE SECONDS, \
                 or node-cost replay CONTROL FILE SECONDS gateway|router observe|apply"
                .into());
        }
    }
    Ok(())
}
