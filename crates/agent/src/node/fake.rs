//! A machine without a kernel, for tests: neighbours, a channel, a class, and faults.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use fairmesh_control::{Channel, Leaf, Marking};
use fairmesh_linux::bpf::FlowCount;
use fairmesh_linux::nl80211::Station;
use fairmesh_linux::{Error, Interface, IpNet, LocalPlace, MacAddr, Removed};
use fairmesh_units::{BitRate, Probability, Span};

use super::machine::{Carrier, FlowClass, HopLimit, LocalCounters, Machine, Port};

/// State that a test shares with the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake(pub Rc<RefCell<World>>);

#[derive(Debug, Default)]
pub(crate) struct World {
    pub ports: Vec<Port>,
    pub stations: Vec<Station>,
    /// Use of the channel; rises by 100 ms per call, of which this share is busy.
    pub busy: Option<f64>,
    pub channel: (Span, Span),
    /// Messages on their way to this router: interface and bytes.
    pub inbox: VecDeque<(usize, Vec<u8>)>,
    /// Carrier of those messages.
    pub carrier: Carrier,
    /// True if the port of orders is open.
    pub listens: bool,
    /// Orders on their way to this router.
    pub orders: VecDeque<Vec<u8>>,
    /// Responses to them.
    pub responses: Vec<Vec<u8>>,
    /// Queue of the installed class.
    pub queue: Option<Leaf>,
    /// Messages that this router has sent.
    pub sent: Vec<(usize, Vec<u8>)>,
    /// True if the last one was sent by UDP too.
    pub also_udp: bool,
    /// The installed class: its place and limit.
    pub class: Option<(LocalPlace, Option<BitRate>)>,
    pub counters: LocalCounters,
    /// Number of installations.
    pub installs: u32,
    /// Number of changed limits.
    pub rates: u32,
    /// Marks in force: interfaces, chance, distribution.
    pub marks: Option<(Vec<Interface>, f64, Marking)>,
    /// Number of times that marks were set or renewed.
    pub renewals: u32,
    /// Installed classes of next hops, by interface.
    pub hops: BTreeMap<Interface, BTreeMap<MacAddr, Option<BitRate>>>,
    /// Classes of flows.
    pub flow_classes: BTreeMap<u16, FlowClass>,
    /// Packets that wait in each of them.
    pub waiting: u32,
    /// True while packets of homes are counted.
    pub counting: bool,
    /// Counters of homes' packets.
    pub flows: Vec<FlowCount>,
    /// True if the class cannot be installed or is gone.
    pub broken: bool,
}

impl Fake {
    /// A machine with radios up.
    pub fn with(ports: usize) -> Fake {
        let port = |n: usize| Port {
            mac: Some(MacAddr([2, 0, 0, 0, 9, n as u8])),
            up: true,
            talks: true,
            carrier: Carrier::Udp,
            refusal: None,
            stations: true,
            survey: true,
            queues: true,
            airtime: true,
            programs: true,
        };
        let fake = Fake::default();
        fake.0.borrow_mut().ports = (0..ports).map(port).collect();
        fake.0.borrow_mut().busy = Some(0.5);
        fake
    }
}

fn gone() -> Error {
    Error::Gone { interface: "m0".into(), what: "a test's fault".into() }
}

impl Machine for Fake {
    fn refresh(&mut self) -> Vec<Port> {
        let world = self.0.borrow();
        let queues = world.stations.iter().all(|s| s.queue.is_some());
        world.ports.iter().map(|p| Port { queues: p.queues && queues, ..p.clone() }).collect()
    }
    fn stations(&mut self, interface: usize) -> Vec<Station> {
        if interface == 0 { self.0.borrow().stations.clone() } else { Vec::new() }
    }
    fn channel(&mut self, _: usize) -> Option<Channel> {
        let mut world = self.0.borrow_mut();
        let busy = world.busy?;
        world.channel.0 += Span::from_millis(100);
        world.channel.1 += Span::from_secs_f64(0.1 * busy);
        let (active, busy) = world.channel;
        Some(Channel { active, busy, receive: busy, transmit: Span::ZERO })
    }
    fn send(&mut self, interface: usize, bytes: &[u8], also_udp: bool) -> bool {
        let mut world = self.0.borrow_mut();
        world.sent.push((interface, bytes.to_vec()));
        world.also_udp = also_udp;
        true
    }
    fn read(&mut self, handle: &mut dyn FnMut(usize, Carrier, &[u8])) {
        let all: Vec<_> = self.0.borrow_mut().inbox.drain(..).collect();
        let carrier = self.0.borrow().carrier;
        for (interface, bytes) in all {
            handle(interface, carrier, &bytes);
        }
    }
    fn listen(&mut self, on: bool) -> Result<(), Error> {
        self.0.borrow_mut().listens = on;
        Ok(())
    }
    fn read_orders(&mut self, handle: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>) {
        let all: Vec<_> = self.0.borrow_mut().orders.drain(..).collect();
        for bytes in all {
            let response = handle(&bytes);
            self.0.borrow_mut().responses.extend(response);
        }
    }
    fn sent(&mut self, _: &Interface) -> Result<LocalCounters, Error> {
        Ok(self.0.borrow().counters)
    }
    fn install(&mut self, place: &LocalPlace, queue: Leaf, _: u32) -> Result<(), Error> {
        let mut world = self.0.borrow_mut();
        if world.broken {
            return Err(gone());
        }
        world.class = Some((place.clone(), None));
        world.queue = Some(queue);
        world.installs += 1;
        Ok(())
    }
    fn set_rate(&mut self, rate: Option<BitRate>) -> Result<(), Error> {
        let mut world = self.0.borrow_mut();
        world.rates += 1;
        match &mut world.class {
            Some(class) => {
                class.1 = rate;
                Ok(())
            }
            None => Err(gone()),
        }
    }
    fn sample(&mut self) -> Result<LocalCounters, Error> {
        let world = self.0.borrow();
        world.class.as_ref().map(|_| world.counters).ok_or_else(gone)
    }
    fn mark(
        &mut self,
        interfaces: &[Interface],
        _: Option<MacAddr>,
        chance: Probability,
        how: Marking,
    ) -> Result<(), Error> {
        let mut world = self.0.borrow_mut();
        if world.broken {
            return Err(gone());
        }
        world.marks = Some((interfaces.to_vec(), chance.0, how));
        world.renewals += 1;
        Ok(())
    }
    fn unmark(&mut self) {
        self.0.borrow_mut().marks = None;
    }
    fn remove(&mut self, _: &LocalPlace) -> Result<Removed, Error> {
        self.0.borrow_mut().class = None;
        Ok(Removed::default())
    }

    fn install_hops(&mut self, interface: &Interface, _: u32) -> Result<(), Error> {
        let mut world = self.0.borrow_mut();
        if world.broken {
            return Err(gone());
        }
        world.installs += 1;
        world.hops.insert(interface.clone(), BTreeMap::new());
        Ok(())
    }
    fn set_hops(&mut self, interface: &Interface, limits: &[HopLimit]) -> Result<(), Error> {
        let mut world = self.0.borrow_mut();
        world.rates += 1;
        world.hops.get_mut(interface).ok_or_else(gone)?.extend(limits.iter().copied());
        Ok(())
    }
    fn sample_hops(&mut self, interface: &Interface) -> Result<Vec<(MacAddr, u64)>, Error> {
        let world = self.0.borrow();
        let hops = world.hops.get(interface).ok_or_else(gone)?;
        let sent = |mac: &MacAddr| {
            let station = world.stations.iter().find(|s| s.mac == *mac);
            (*mac, station.and_then(|s| s.tx_bytes).unwrap_or(0))
        };
        Ok(hops.keys().map(sent).collect())
    }
    fn remove_hops(&mut self, interface: &Interface) -> Result<Removed, Error> {
        self.0.borrow_mut().hops.remove(interface);
        Ok(Removed::default())
    }
    fn count_flows(&mut self, interfaces: &[Interface], _: &[IpNet]) -> Result<(), Error> {
        self.0.borrow_mut().counting = !interfaces.is_empty();
        Ok(())
    }
    fn flows(&mut self) -> Result<Vec<FlowCount>, Error> {
        let world = self.0.borrow();
        if world.counting { Ok(world.flows.clone()) } else { Err(gone()) }
    }
    fn set_flow(&mut self, class: &FlowClass) -> Result<(), Error> {
        let mut world = self.0.borrow_mut();
        if world.broken || world.class.is_none() {
            return Err(gone());
        }
        world.rates += 1;
        world.flow_classes.insert(class.number, *class);
        Ok(())
    }
    fn remove_flow(&mut self, class: &FlowClass) -> Result<(), Error> {
        self.0.borrow_mut().flow_classes.remove(&class.number);
        Ok(())
    }
    fn sample_flows(&mut self) -> Result<Vec<(u16, LocalCounters)>, Error> {
        let world = self.0.borrow();
        let waits = LocalCounters { queued_packets: world.waiting, ..LocalCounters::default() };
        Ok(world.flow_classes.keys().map(|number| (*number, waits)).collect())
    }
}
