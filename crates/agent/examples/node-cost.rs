//! Runs a mesh router in virtual time, to count the instructions of `fairmesh-node`.
//!
//! `node-cost ROLE MODE NEIGHBOURS SECONDS`: the service with control `gap`, role `gateway` or `router`, mode `observe`
//! or `apply`, and neighbours that send one message per second, the gateway ten. Drivers are answers that real kernels
//! gave, read for every neighbour as the daemon reads them. System calls are not included. `scripts/node-cost.sh` and
//! `agent/tests/cost.rs` count the difference between two lengths.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use fairmesh_agent::daemon::service::{Moment, Service};
use fairmesh_agent::daemon::socket::Response;
use fairmesh_agent::key::Key;
use fairmesh_agent::node::config::Config;
use fairmesh_agent::node::machine::{Carrier, FlowClass, HopLimit, LocalCounters, Machine, Port};
use fairmesh_agent::node::message::{Draft, Field, MeshKey, Role, seal};
use fairmesh_agent::node::service::{Input, Parts, Router};
use fairmesh_control::{Channel, Marking};
use fairmesh_linux::bpf::FlowCount;
use fairmesh_linux::nl80211::{Station, read_station, read_survey};
use fairmesh_linux::{Error, Interface, IpNet, LocalPlace, MacAddr, Removed};
use fairmesh_units::{BitRate, Probability, Span, Time};

/// Longest run, s; every run makes its messages, so that differences do not contain them.
const MAX_SECONDS: u64 = 20;
/// Channels in the answer of a dual-band radio.
const CHANNELS: u64 = 38;

fn bytes(hex: &str) -> Vec<u8> {
    let hex = hex.trim();
    (0..hex.len())
        .step_by(2)
        .map_while(|i| u8::from_str_radix(hex.get(i..i + 2)?, 16).ok())
        .collect()
}

fn neighbour(n: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, n as u8])
}

/// Messages in the order of their arrival.
type Arrivals = VecDeque<(Time, Vec<u8>)>;

/// Drivers and messages of some neighbours.
struct Fake {
    neighbours: u32,
    now: Rc<RefCell<Time>>,
    station: Vec<u8>,
    survey: Vec<u8>,
    inbox: Rc<RefCell<Arrivals>>,
    /// Messages and octets sent.
    sent: Rc<RefCell<(u64, u64)>>,
}

impl Fake {
    fn ms(&self) -> u64 {
        self.now.borrow().since(Time::ZERO).as_nanos() / 1_000_000
    }
}

impl Machine for Fake {
    fn refresh(&mut self) -> Vec<Port> {
        let stations = self.stations(0);
        let survey = self.channel(0).is_some();
        vec![Port {
            mac: Some(MacAddr([2, 0, 0, 0, 9, 9])),
            up: true,
            talks: true,
            carrier: Carrier::Udp,
            refusal: None,
            stations: true,
            survey,
            queues: stations.iter().all(|s| s.queue.is_some()),
            airtime: true,
            programs: true,
        }]
    }

    fn stations(&mut self, _: usize) -> Vec<Station> {
        let passed = self.ms();
        let one = |n| {
            let station = read_station(&self.station)?;
            let packets = Some(passed as u32 / 4);
            Some(Station {
                mac: neighbour(n),
                rx_bytes: Some(passed * 300),
                tx_bytes: Some(passed * 300),
                rx_packets: packets,
                tx_packets: packets,
                ..station
            })
        };
        (0..self.neighbours).filter_map(one).collect()
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
        let mut sent = self.sent.borrow_mut();
        *sent = (sent.0 + 1, sent.1 + bytes.len() as u64);
        true
    }

    fn read(&mut self, handle: &mut dyn FnMut(usize, Carrier, &[u8])) {
        let now = *self.now.borrow();
        while let Some((_, message)) = {
            let mut inbox = self.inbox.borrow_mut();
            if inbox.front().is_some_and(|(at, _)| *at <= now) { inbox.pop_front() } else { None }
        } {
            handle(0, Carrier::Udp, &message);
        }
    }

    fn sent(&mut self, _: &Interface) -> Result<LocalCounters, Error> {
        self.sample()
    }

    fn install(&mut self, _: &LocalPlace, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn set_rate(&mut self, _: Option<BitRate>) -> Result<(), Error> {
        Ok(())
    }

    fn sample(&mut self) -> Result<LocalCounters, Error> {
        let ms = self.ms();
        // Traffic that waits, in half of the updates: the limit moves.
        let queued_packets = u32::from((ms / 400).is_multiple_of(2));
        Ok(LocalCounters {
            bytes: ms * 60,
            packets: ms / 20,
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
        Ok(Removed::default())
    }

    // `gap` has neither classes of next hops nor of flows.
    fn install_hops(&mut self, _: &Interface, _: u32) -> Result<(), Error> {
        Err(Error::NotInstalled)
    }
    fn set_hops(&mut self, _: &Interface, _: &[HopLimit]) -> Result<(), Error> {
        Err(Error::NotInstalled)
    }
    fn sample_hops(&mut self, _: &Interface) -> Result<Vec<(MacAddr, u64)>, Error> {
        Err(Error::NotInstalled)
    }
    fn remove_hops(&mut self, _: &Interface) -> Result<Removed, Error> {
        Ok(Removed::default())
    }
    fn count_flows(&mut self, _: &[Interface], _: &[IpNet]) -> Result<(), Error> {
        Err(Error::NotInstalled)
    }
    fn set_flow(&mut self, _: &FlowClass) -> Result<(), Error> {
        Err(Error::NotInstalled)
    }
    fn remove_flow(&mut self, _: &FlowClass) -> Result<(), Error> {
        Err(Error::NotInstalled)
    }
    fn sample_flows(&mut self) -> Result<Vec<(u16, LocalCounters)>, Error> {
        Err(Error::NotInstalled)
    }
    fn flows(&mut self) -> Result<Vec<FlowCount>, Error> {
        Err(Error::NotInstalled)
    }
}

/// Returns the messages of all neighbours.
fn messages(key: &MeshKey, neighbours: u32, gateway: bool) -> Arrivals {
    let mut all = Vec::new();
    for n in 0..neighbours {
        let is_gateway = gateway && n == 0;
        let mut draft = Draft::new();
        let role = if is_gateway { Role::Gateway } else { Role::Router };
        let fits = draft.push(Field::Role(role));
        let body = is_gateway
            .then(|| draft.push(Field::Mechanism("gap")) && draft.push(Field::Body(&[0x50])));
        assert!(fits && body != Some(false), "a short message");
        let per_second = if is_gateway { 10 } else { 1 };
        for sequence in 0..MAX_SECONDS * per_second {
            let at =
                Time::ZERO + Span::from_millis(sequence * 1000 / per_second + u64::from(n) * 7);
            all.push((at, seal(key, neighbour(n), 1, sequence as u32 + 1, &draft)));
        }
    }
    all.sort();
    all.into()
}

#[allow(dead_code)] // not called in tests, of which this is a module
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("{}", run(&words)?);
    Ok(())
}

/// Runs the router; returns a sentence about the run.
pub fn run(words: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let [role, mode, neighbours, seconds] = words else {
        return Err("node-cost gateway|router observe|apply NEIGHBOURS SECONDS".into());
    };
    let (neighbours, seconds): (u32, u64) = (neighbours.parse()?, seconds.parse()?);
    if seconds > MAX_SECONDS || neighbours > 64 {
        return Err(format!("expected at most 64 neighbours and {MAX_SECONDS} seconds").into());
    }
    let text = format!(
        "interfaces = [\"mesh0\"]\nrouting = \"batman-adv\"\nrole = \"{role}\"\nmode = \"{mode}\"\n\
         [control]\nuse = \"gap\"\nguarantee = 500\n"
    );
    let config = Config::parse("node.toml", &text)?;
    let key = MeshKey::new(Key::new([1; 32]));
    let now = Rc::new(RefCell::new(Time::ZERO));
    let sent = Rc::new(RefCell::new((0, 0)));
    let inbox = Rc::new(RefCell::new(messages(&key, neighbours, role == "router")));
    let machine = Fake {
        neighbours,
        now: now.clone(),
        station: bytes(include_str!("../../linux/src/nl80211/captured/station-6.12.hex")),
        survey: bytes(include_str!("../../linux/src/nl80211/captured/survey-6.1.hex")),
        inbox: inbox.clone(),
        sent: sent.clone(),
    };
    let again = config.clone();
    let load = Box::new(move || Ok(again.clone()));
    let mut router = Router::new(Parts {
        machine,
        config,
        file: "node.toml".into(),
        load,
        key,
        run: 1,
        heartbeat: Box::new(|| ()),
    });
    let end = Time::ZERO + Span::from_secs(seconds);
    let (mut turns, mut at) = (0_u64, Time::ZERO);
    while at < end {
        *now.borrow_mut() = at;
        let moment = Moment { now: at, wall: 0 };
        let due = router.turn(moment);
        router.journal().take();
        turns += 1;
        let arrival = inbox.borrow().front().map_or(Time::NEVER, |(at, _)| *at);
        if arrival <= due {
            at = arrival.max(at);
            *now.borrow_mut() = at;
            router.input(Moment { now: at, wall: 0 }, Input::Messages);
        } else {
            at = due.max(at + Span::from_nanos(1));
        }
    }
    let (messages, octets) = *sent.borrow();
    let answer = router.request(Moment { now: at, wall: 0 }, "{\"command\":\"status\"}");
    let Response::Ok(status) = answer else { return Err("no status".into()) };
    let running =
        status["running"] == true && status["refused"].as_array().is_some_and(Vec::is_empty);
    let limit = &status["limit"]["bits_per_second"];
    Ok(format!(
        "{turns} turns, {messages} messages with {octets} octets sent, gap runs: {running}, limit {limit}"
    ))
}
