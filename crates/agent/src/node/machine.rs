//! The machine under a mesh router's daemon: drivers, messages, and the limit.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use fairmesh_control::{Channel, Leaf, Marking};
use fairmesh_linux::bpf::{FlowCount, FlowMeter, MarkRule, Marker, Spacing};
use fairmesh_linux::link::{self, Link};
use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::nl80211::{ActionFrames, Nl80211, Radio, RadioMode, Station, Survey};
use fairmesh_linux::tc::stats::Stats;
use fairmesh_linux::{
    Error, Interface, IpNet, LocalPlace, LocalShaper, MacAddr, NextHopShaper, Removed,
    UNLIMITED_PRIORITY, broadcast,
};
use fairmesh_units::{BitRate, Probability, Span};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use super::config::{MESSAGE_PORT, ORDER_PORT};
use super::message::MAX_MESSAGE_BYTES;

/// Most messages read in one call, before the loop continues.
const MAX_MESSAGES_PER_CALL: usize = 64;
/// Least time between two wake-ups of the loop.
const MIN_WAKE_INTERVAL: Duration = Duration::from_millis(5);

/// Flows of local traffic for which a fair queue has room.
const FAIR_QUEUE_FLOWS: u32 = 16;

/// Time after which marks end unless they are renewed.
pub const MARK_LIFETIME: Span = Span::from_secs(5);

/// Carrier of messages between routers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Broadcast datagrams, which a mesh point floods over the mesh.
    #[default]
    Udp,
    /// Vendor action frames to the peers of a mesh point.
    ActionFrames,
}

impl Carrier {
    /// Name in reports and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Udp => "udp",
            Carrier::ActionFrames => "action-frames",
        }
    }

    /// Name in sentences.
    pub const fn text(self) -> &'static str {
        match self {
            Carrier::Udp => "UDP",
            Carrier::ActionFrames => "action frames",
        }
    }
}

/// State of a mesh interface.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Port {
    /// Ethernet address of the interface.
    pub mac: Option<MacAddr>,
    /// True if it is up.
    pub up: bool,
    /// True if messages can be sent and received.
    pub talks: bool,
    /// Carrier of sent messages.
    pub carrier: Carrier,
    /// Reason for which a mesh point sends no action frames.
    pub refusal: Option<String>,
    /// True if its driver reports neighbours.
    pub stations: bool,
    /// True if its driver reports the use of the channel in use.
    pub survey: bool,
    /// True if its driver reports the queue of each neighbour, as far as there are neighbours.
    pub queues: bool,
    /// True if its driver reports the airtime of each neighbour, as far as there are neighbours.
    pub airtime: bool,
    /// True if the kernel runs our programs, which mark packets and count flows.
    pub programs: bool,
}

/// Counters of local traffic, in IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LocalCounters {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Times that the limit delayed a packet.
    pub overlimits: u64,
    /// Packets waiting.
    pub queued_packets: u32,
    /// Bytes waiting.
    pub queued_bytes: u64,
}

/// Senses and acts of a router. An error leaves traffic flowing.
pub trait Machine {
    /// Opens what is not open yet; returns the state of the mesh interfaces, in their order.
    fn refresh(&mut self) -> Vec<Port>;

    /// Returns the neighbours of a mesh interface, as its driver reports them.
    fn stations(&mut self, interface: usize) -> Vec<Station>;

    /// Returns the use of an interface's channel; `None` if its driver does not report it.
    fn channel(&mut self, interface: usize) -> Option<Channel>;

    /// Sends a message to the neighbours on an interface; returns false if it was not sent.
    ///
    /// `also_udp`: by UDP too, if the interface sends action frames.
    fn send(&mut self, interface: usize, bytes: &[u8], also_udp: bool) -> bool;

    /// Passes received messages on, a bounded number of each interface.
    fn read(&mut self, handle: &mut dyn FnMut(usize, Carrier, &[u8]));

    /// Opens or closes the port of a gateway's orders.
    ///
    /// # Errors
    /// Another program uses the port.
    fn listen(&mut self, on: bool) -> Result<(), Error>;

    /// Passes received orders on, a bounded number; sends what `handle` returns to their senders.
    fn read_orders(&mut self, handle: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>);

    /// Returns the counters of an interface on which we have no class.
    ///
    /// # Errors
    /// The interface is gone.
    fn sent(&mut self, interface: &Interface) -> Result<LocalCounters, Error>;

    /// Installs the class of local traffic with this queue, without a limit.
    ///
    /// # Errors
    /// See [`LocalShaper::install`] and [`LocalShaper::serve_in_turn`].
    fn install(&mut self, place: &LocalPlace, queue: Leaf, burst: u32) -> Result<(), Error>;

    /// Changes the limit; `None` lifts it.
    ///
    /// # Errors
    /// See [`LocalShaper::set_rate`].
    fn set_rate(&mut self, rate: Option<BitRate>) -> Result<(), Error>;

    /// Reads the counters of the class.
    ///
    /// # Errors
    /// See [`LocalShaper::sample`].
    fn sample(&mut self) -> Result<LocalCounters, Error>;

    /// Marks packets by ECN as they leave some interfaces, for at most [`MARK_LIFETIME`].
    ///
    /// Repeated calls renew it. `to`: their next hop; `None`: every one without a chance of its own.
    ///
    /// # Errors
    /// The kernel has no eBPF, an interface is gone, or another program has removed the marks.
    fn mark(
        &mut self,
        interfaces: &[Interface],
        to: Option<MacAddr>,
        chance: Probability,
        how: Marking,
    ) -> Result<(), Error>;

    /// Ends all marks.
    fn unmark(&mut self);

    /// Removes our classes and rules at this place.
    ///
    /// # Errors
    /// See [`LocalShaper::remove`].
    fn remove(&mut self, place: &LocalPlace) -> Result<Removed, Error>;

    /// Installs classes of next hops on an interface, none of which exists yet.
    ///
    /// # Errors
    /// See [`NextHopShaper::install`].
    fn install_hops(&mut self, interface: &Interface, burst: u32) -> Result<(), Error>;

    /// Sets limits of next hops on an interface; one without a class gets one.
    ///
    /// # Errors
    /// See [`NextHopShaper::set_rates`].
    fn set_hops(&mut self, interface: &Interface, limits: &[HopLimit]) -> Result<(), Error>;

    /// Returns the bytes that each class of an interface has sent, in Ethernet frames.
    ///
    /// # Errors
    /// See [`NextHopShaper::sample`].
    fn sample_hops(&mut self, interface: &Interface) -> Result<Vec<(MacAddr, u64)>, Error>;

    /// Removes the classes of next hops from an interface.
    ///
    /// # Errors
    /// See [`NextHopShaper::remove`].
    fn remove_hops(&mut self, interface: &Interface) -> Result<Removed, Error>;

    /// Counts the packets of homes on the links of these interfaces, in place of others.
    ///
    /// No interface ends it.
    ///
    /// # Errors
    /// See [`FlowMeter`].
    fn count_flows(&mut self, interfaces: &[Interface], homes: &[IpNet]) -> Result<(), Error>;

    /// Adds or changes the class of a flow that enters the mesh here.
    ///
    /// The class of local traffic must be installed.
    ///
    /// Marks lapse after [`MARK_LIFETIME`]; repeated calls renew them.
    ///
    /// # Errors
    /// See [`LocalShaper::set_flow`] and [`FlowMeter::assign`].
    fn set_flow(&mut self, class: &FlowClass) -> Result<(), Error>;

    /// Removes the class of a flow.
    ///
    /// # Errors
    /// See [`LocalShaper::remove_flow`].
    fn remove_flow(&mut self, class: &FlowClass) -> Result<(), Error>;

    /// Reads the counters of all classes of flows, by their numbers.
    ///
    /// # Errors
    /// See [`LocalShaper::sample_flows`].
    fn sample_flows(&mut self) -> Result<Vec<(u16, LocalCounters)>, Error>;

    /// Returns the counters of all homes on all links since [`Machine::count_flows`].
    ///
    /// # Errors
    /// The kernel's refusal, or the programs are gone.
    fn flows(&mut self) -> Result<Vec<FlowCount>, Error>;
}

/// Class of a flow that enters the mesh here.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowClass {
    /// Number of the class.
    pub number: u16,
    /// Identity of the home ([`fairmesh_linux::bpf::home`]), and true for a download.
    pub home: (u32, bool),
    /// Limit of IP bytes.
    pub rate: Option<BitRate>,
    /// Packets that may wait.
    pub packets: u32,
    /// Chance of a mark.
    pub marks: Probability,
}

/// A next hop and its limit, in Ethernet frames' bytes; `None`: without one.
pub type HopLimit = (MacAddr, Option<BitRate>);

/// Wakes the loop; returns false when the loop has ended.
pub type Wake = Box<dyn Fn() -> bool + Send + Sync>;

/// Sockets to the neighbours.
///
/// A mesh point has both, since drivers of other routers may send no action frames.
struct Sockets {
    udp: Option<UdpSocket>,
    frames: Option<ActionFrames>,
    /// Reason for which a mesh point has not sent its last message as an action frame.
    refusal: Option<String>,
}

impl Sockets {
    fn open(name: &str, mesh_point: bool) -> Result<Self, Error> {
        let (frames, refusal) = match mesh_point.then(|| ActionFrames::open(name)) {
            Some(Ok(frames)) => (Some(frames), None),
            Some(Err(e)) => (None, Some(e.to_string())),
            None => (None, None),
        };
        let udp = match broadcast::open(name, MESSAGE_PORT, UNLIMITED_PRIORITY) {
            Ok(socket) => Some(socket),
            Err(_) if frames.is_some() => None,
            Err(e) => return Err(e),
        };
        Ok(Sockets { udp, frames, refusal })
    }

    fn carrier(&self) -> Carrier {
        match (&self.frames, &self.refusal) {
            (Some(_), None) => Carrier::ActionFrames,
            _ => Carrier::Udp,
        }
    }

    fn send(&mut self, bytes: &[u8], also_udp: bool) -> bool {
        if let Some(frames) = &mut self.frames {
            // Tried again for every message: a mesh point that has not joined refuses, too.
            self.refusal = frames.send(bytes).err().map(|e| e.to_string());
        }
        let framed = self.carrier() == Carrier::ActionFrames;
        let udp = self.udp.as_ref().filter(|_| also_udp || !framed);
        udp.is_some_and(|udp| broadcast::send(udp, MESSAGE_PORT, bytes).is_ok()) || framed
    }

    /// Passes waiting messages to `handle`; returns false if none waits.
    fn receive(&mut self, handle: &mut dyn FnMut(Carrier, &[u8])) -> bool {
        if let Some(frames) = &mut self.frames
            && frames.receive(|message| handle(Carrier::ActionFrames, message)).unwrap_or(false)
        {
            return true;
        }
        let Some(udp) = &self.udp else { return false };
        // One more, so that a message that is too long is not taken for a shorter one.
        let mut buffer = [0; MAX_MESSAGE_BYTES + 1];
        match udp.recv(&mut buffer) {
            Ok(length) => handle(Carrier::Udp, &buffer[..length]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        true
    }

    /// Returns second descriptors of the sockets with received messages.
    fn watched(&self) -> std::io::Result<Vec<OwnedFd>> {
        let udp = self.udp.iter().map(AsFd::as_fd);
        let all = udp.chain(self.frames.iter().map(AsFd::as_fd));
        all.map(|fd| fd.try_clone_to_owned()).collect()
    }
}

/// Sockets to the neighbours, and the thread that wakes the loop for them.
struct Connection {
    sockets: Sockets,
    index: u32,
    mac: Option<MacAddr>,
    mesh_point: bool,
    /// Reports to the thread that everything was read.
    read: SyncSender<()>,
}

/// Socket of a gateway's orders, and the thread that wakes the loop for them.
struct OrderSocket {
    socket: UdpSocket,
    read: SyncSender<()>,
}

impl OrderSocket {
    fn open(wake: &std::sync::Arc<Wake>) -> Result<Self, Error> {
        let failed = || Error::io(format!("opening UDP port {ORDER_PORT}"));
        // Without IPv6 the first address fails.
        let any: [SocketAddr; 2] = [
            (Ipv6Addr::UNSPECIFIED, ORDER_PORT).into(),
            (Ipv4Addr::UNSPECIFIED, ORDER_PORT).into(),
        ];
        let socket = UdpSocket::bind(&any[..]).map_err(failed())?;
        socket.set_nonblocking(true).map_err(failed())?;
        // A response does not wait behind the traffic that the order limits.
        let priority = UNLIMITED_PRIORITY.cast_signed();
        setsockopt(&socket, sockopt::Priority, &priority).map_err(|e| failed()(e.into()))?;
        let watched = vec![socket.as_fd().try_clone_to_owned().map_err(failed())?];
        let (read, done) = sync_channel(1);
        let wake = wake.clone();
        let thread = std::thread::Builder::new().name("orders".into()).stack_size(128 * 1024);
        thread.spawn(move || watch(&watched, &done, &wake)).map_err(failed())?;
        Ok(OrderSocket { socket, read })
    }
}

struct Opened {
    name: Interface,
    radio: Option<(u32, Nl80211)>,
    connection: Option<Connection>,
}

/// This machine.
pub struct Kernel {
    interfaces: Vec<Opened>,
    netlink: Option<Netlink>,
    shaper: Option<LocalShaper>,
    hops: Vec<(Interface, NextHopShaper)>,
    meter: Option<FlowMeter>,
    /// Obstacle of our programs, once it is known.
    programs: Option<Result<(), String>>,
    markers: Vec<(Interface, Marking, Marker)>,
    orders: Option<OrderSocket>,
    wake: std::sync::Arc<Wake>,
}

impl Kernel {
    /// Opens nothing yet.
    pub fn new(interfaces: &[Interface], wake: Wake) -> Self {
        let opened =
            |name: &Interface| Opened { name: name.clone(), radio: None, connection: None };
        let interfaces = interfaces.iter().map(opened).collect();
        Kernel {
            interfaces,
            netlink: None,
            shaper: None,
            hops: Vec::new(),
            meter: None,
            programs: None,
            markers: Vec::new(),
            orders: None,
            wake: std::sync::Arc::new(wake),
        }
    }

    /// Returns the obstacle of our programs on this kernel.
    ///
    /// # Errors
    /// The obstacle.
    pub fn programs(&mut self) -> Result<(), String> {
        let load = || Marker::load(MarkRule::default()).map(drop).map_err(|e| e.to_string());
        self.programs.get_or_insert_with(load).clone()
    }

    fn hops(&mut self, interface: &Interface) -> Result<&mut NextHopShaper, Error> {
        let found = self.hops.iter_mut().find(|(name, _)| name == interface);
        found.map(|(_, shaper)| shaper).ok_or(Error::NotInstalled)
    }

    fn find(&mut self, name: &str) -> Result<Link, Error> {
        let mut netlink = self.netlink.take().map_or_else(Netlink::open, Ok)?;
        let found = link::find(&mut netlink, name);
        self.netlink = Some(netlink);
        found
    }
}

impl Opened {
    /// Opens radio and socket of the present interface of this name.
    fn open(&mut self, link: &Link, wake: &std::sync::Arc<Wake>) {
        // An interface that was created again has another index.
        if self.radio.as_ref().is_none_or(|(index, _)| *index != link.index) {
            let radio = Nl80211::open(self.name.name()).ok();
            let radio = radio.and_then(|mut r| r.mode().ok().flatten().map(|_| r));
            self.radio = radio.map(|r| (link.index, r));
        }
        let mode = self.radio.as_mut().and_then(|(_, radio)| radio.mode().ok().flatten());
        let mesh_point = mode == Some(RadioMode::MeshPoint);
        let now = (link.index, link.mac, mesh_point);
        if self.connection.as_ref().is_none_or(|c| (c.index, c.mac, c.mesh_point) != now) {
            // Closed first: a port and a kind of frames have one socket.
            self.connection = None;
            self.connection = Connection::open(self.name.name(), link, mesh_point, wake).ok();
        }
    }
}

impl Connection {
    fn open(
        name: &str,
        link: &Link,
        mesh_point: bool,
        wake: &std::sync::Arc<Wake>,
    ) -> Result<Self, Error> {
        let sockets = Sockets::open(name, mesh_point)?;
        let failed = || Error::io(format!("waiting for messages on {name}"));
        let watched = sockets.watched().map_err(failed())?;
        let (read, done) = sync_channel(1);
        let wake = wake.clone();
        let thread = std::thread::Builder::new().name("messages".into()).stack_size(128 * 1024);
        thread.spawn(move || watch(&watched, &done, &wake)).map_err(failed())?;
        Ok(Connection { sockets, index: link.index, mac: link.mac, mesh_point, read })
    }
}

/// Wakes the loop for messages, and waits until they were read.
fn watch(sockets: &[OwnedFd], read: &Receiver<()>, wake: &Wake) {
    loop {
        let watched = sockets.iter().map(|s| PollFd::new(s.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> = watched.collect();
        let readable = matches!(poll(&mut fds, PollTimeout::from(1000_u16)), Ok(n) if n > 0);
        if readable && !wake() {
            return;
        }
        match read.recv_timeout(if readable { Duration::from_secs(1) } else { Duration::ZERO }) {
            // The connection was closed.
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
            _ => std::thread::sleep(MIN_WAKE_INTERVAL),
        }
    }
}

impl Machine for Kernel {
    fn refresh(&mut self) -> Vec<Port> {
        let mut ports = Vec::new();
        for at in 0..self.interfaces.len() {
            let name = self.interfaces[at].name.clone();
            let Ok(link) = self.find(name.name()) else {
                let opened = &mut self.interfaces[at];
                (opened.radio, opened.connection) = (None, None);
                ports.push(Port::default());
                continue;
            };
            let opened = &mut self.interfaces[at];
            opened.open(&link, &self.wake);
            let radio = opened.radio.is_some();
            let sockets = opened.connection.as_ref().map(|c| &c.sockets);
            let talks = sockets.is_some() && link.up;
            let carrier = sockets.map(Sockets::carrier).unwrap_or_default();
            let refusal = sockets.and_then(|s| s.refusal.clone());
            let programs = self.programs().is_ok();
            let stations = self.stations(at);
            ports.push(Port {
                mac: link.mac,
                up: link.up,
                talks,
                carrier,
                refusal,
                stations: radio,
                survey: self.channel(at).is_some(),
                queues: radio && stations.iter().all(|s| s.queue.is_some()),
                airtime: radio && stations.iter().all(|s| s.tx_airtime_us.is_some()),
                programs,
            });
        }
        ports
    }

    fn stations(&mut self, interface: usize) -> Vec<Station> {
        let radio = self.interfaces.get_mut(interface).and_then(|i| i.radio.as_mut());
        radio.and_then(|(_, r)| r.stations().ok()).unwrap_or_default()
    }

    fn channel(&mut self, interface: usize) -> Option<Channel> {
        let (_, radio) = self.interfaces.get_mut(interface)?.radio.as_mut()?;
        radio.survey().ok()?.iter().find(|s| s.in_use).and_then(channel_of)
    }

    fn send(&mut self, interface: usize, bytes: &[u8], also_udp: bool) -> bool {
        let connection = self.interfaces.get_mut(interface).and_then(|i| i.connection.as_mut());
        connection.is_some_and(|c| c.sockets.send(bytes, also_udp))
    }

    fn read(&mut self, handle: &mut dyn FnMut(usize, Carrier, &[u8])) {
        for (at, opened) in self.interfaces.iter_mut().enumerate() {
            let Some(connection) = &mut opened.connection else { continue };
            let mut each = |carrier, message: &[u8]| handle(at, carrier, message);
            for _ in 0..MAX_MESSAGES_PER_CALL {
                if !connection.sockets.receive(&mut each) {
                    break;
                }
            }
            let _ = connection.read.try_send(());
        }
    }

    fn sent(&mut self, interface: &Interface) -> Result<LocalCounters, Error> {
        let link = self.find(interface.name())?;
        let (bytes, packets) = (link.counters.tx_bytes, link.counters.tx_packets);
        Ok(LocalCounters {
            bytes: without_headers(bytes, packets, link.header),
            packets,
            ..LocalCounters::default()
        })
    }

    fn install(&mut self, place: &LocalPlace, queue: Leaf, burst: u32) -> Result<(), Error> {
        self.shaper = None;
        let mut shaper = LocalShaper::install(place, queue.packets(), burst)?;
        if matches!(queue, Leaf::Fair { .. })
            && let Err(e) = shaper.serve_in_turn(queue.packets().saturating_mul(FAIR_QUEUE_FLOWS))
        {
            let _ = LocalShaper::remove(place);
            return Err(e);
        }
        self.shaper = Some(shaper);
        Ok(())
    }

    fn listen(&mut self, on: bool) -> Result<(), Error> {
        if !on {
            self.orders = None;
        } else if self.orders.is_none() {
            self.orders = Some(OrderSocket::open(&self.wake)?);
        }
        Ok(())
    }

    fn read_orders(&mut self, handle: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>) {
        let Some(orders) = &mut self.orders else { return };
        let mut buffer = [0; MAX_MESSAGE_BYTES + 1];
        for _ in 0..MAX_MESSAGES_PER_CALL {
            match orders.socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    if let Some(response) = handle(&buffer[..length]) {
                        // Treated as lost in transit.
                        let _ = orders.socket.send_to(&response, from);
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = orders.read.try_send(());
    }

    fn set_rate(&mut self, rate: Option<BitRate>) -> Result<(), Error> {
        self.shaper.as_mut().ok_or(Error::NotInstalled)?.set_rate(rate)
    }

    fn sample(&mut self) -> Result<LocalCounters, Error> {
        let shaper = self.shaper.as_mut().ok_or(Error::NotInstalled)?;
        let stats = shaper.sample()?;
        Ok(counters(&stats, shaper.header()))
    }

    fn mark(
        &mut self,
        interfaces: &[Interface],
        to: Option<MacAddr>,
        chance: Probability,
        how: Marking,
    ) -> Result<(), Error> {
        if self.markers.iter().any(|(_, other, _)| *other != how) {
            self.markers.clear();
        }
        for interface in interfaces {
            let at = match self.markers.iter().position(|(name, ..)| name == interface) {
                Some(at) => at,
                None => {
                    let spacing = if how.even { Spacing::Even } else { Spacing::Random };
                    let mut marker = Marker::load(MarkRule { spacing, ..MarkRule::default() })?;
                    marker.attach(interface)?;
                    self.markers.push((interface.clone(), how, marker));
                    self.markers.len() - 1
                }
            };
            let marker = &mut self.markers[at].2;
            marker.verify()?;
            marker.set(to, chance, MARK_LIFETIME)?;
        }
        Ok(())
    }

    fn unmark(&mut self) {
        self.markers.clear();
    }

    fn remove(&mut self, place: &LocalPlace) -> Result<Removed, Error> {
        self.shaper = None;
        LocalShaper::remove(place)
    }

    fn install_hops(&mut self, interface: &Interface, burst: u32) -> Result<(), Error> {
        self.hops.retain(|(name, _)| name != interface);
        self.hops.push((interface.clone(), NextHopShaper::install(interface, burst)?));
        Ok(())
    }

    fn set_hops(&mut self, interface: &Interface, limits: &[HopLimit]) -> Result<(), Error> {
        self.hops(interface)?.set_rates(limits)
    }

    fn sample_hops(&mut self, interface: &Interface) -> Result<Vec<(MacAddr, u64)>, Error> {
        let mut stats = Vec::new();
        self.hops(interface)?.sample(&mut stats)?;
        Ok(stats.into_iter().map(|(mac, stats)| (mac, stats.bytes)).collect())
    }

    fn remove_hops(&mut self, interface: &Interface) -> Result<Removed, Error> {
        self.hops.retain(|(name, _)| name != interface);
        NextHopShaper::remove(interface)
    }

    fn count_flows(&mut self, interfaces: &[Interface], homes: &[IpNet]) -> Result<(), Error> {
        self.meter = None;
        if interfaces.is_empty() {
            return Ok(());
        }
        let found = |i: &Interface| self.find(i.name()).map(|link| link.index);
        let mesh = interfaces.iter().map(found).collect::<Result<Vec<_>, _>>()?;
        let mut meter = FlowMeter::load(homes, &mesh)?;
        interfaces.iter().try_for_each(|interface| meter.attach(interface))?;
        self.meter = Some(meter);
        Ok(())
    }

    fn set_flow(&mut self, class: &FlowClass) -> Result<(), Error> {
        let shaper = self.shaper.as_mut().ok_or(Error::NotInstalled)?;
        let priority = shaper.set_flow(class.number, class.rate, class.packets)?;
        let meter = self.meter.as_mut().ok_or(Error::NotInstalled)?;
        meter.assign(class.home, priority, class.marks, MARK_LIFETIME)
    }

    fn remove_flow(&mut self, class: &FlowClass) -> Result<(), Error> {
        let meter = self.meter.as_mut().ok_or(Error::NotInstalled)?;
        meter.release(class.home)?;
        self.shaper.as_mut().ok_or(Error::NotInstalled)?.remove_flow(class.number)
    }

    fn sample_flows(&mut self) -> Result<Vec<(u16, LocalCounters)>, Error> {
        let shaper = self.shaper.as_mut().ok_or(Error::NotInstalled)?;
        let header = shaper.header();
        let all = shaper.sample_flows()?;
        Ok(all.into_iter().map(|(number, stats)| (number, counters(&stats, header))).collect())
    }

    fn flows(&mut self) -> Result<Vec<FlowCount>, Error> {
        let meter = self.meter.as_mut().ok_or(Error::NotInstalled)?;
        meter.verify()?;
        meter.read()
    }
}

/// Converts the counters of a class to IP bytes.
fn counters(stats: &Stats, header: u16) -> LocalCounters {
    LocalCounters {
        bytes: without_headers(stats.bytes, stats.packets, header),
        packets: stats.packets,
        drops: stats.drops.into(),
        overlimits: stats.overlimits.into(),
        queued_packets: stats.queued_packets,
        queued_bytes: stats.queued_bytes.into(),
    }
}

fn without_headers(bytes: u64, packets: u64, header: u16) -> u64 {
    bytes.saturating_sub(packets.saturating_mul(header.into()))
}

/// Returns the counters of a channel; `None` without active and busy time.
fn channel_of(survey: &Survey) -> Option<Channel> {
    let span = |ms: u64| Span::from_millis(ms);
    Some(Channel {
        active: span(survey.active_ms?),
        busy: span(survey.busy_ms?),
        receive: span(survey.receive_ms.unwrap_or(0)),
        transmit: span(survey.transmit_ms.unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survey_without_busy_time_is_no_channel() {
        let full = Survey {
            active_ms: Some(100),
            busy_ms: Some(60),
            receive_ms: Some(40),
            ..Survey::default()
        };
        let channel = channel_of(&full).unwrap();
        assert_eq!((channel.busy, channel.transmit), (Span::from_millis(60), Span::ZERO));
        assert_eq!(channel_of(&Survey { busy_ms: None, ..full }), None);
    }

    #[test]
    fn counters_are_of_ip_bytes() {
        assert_eq!(without_headers(1014 * 10, 10, 14), 10_000);
        assert_eq!(without_headers(5, 10, 14), 0, "counters of different instants");
    }

    #[test]
    fn an_interface_that_does_not_exist_is_no_error() {
        let name = Interface::new("fm-none").unwrap();
        let mut machine = Kernel::new(std::slice::from_ref(&name), Box::new(|| true));
        assert_eq!(machine.refresh(), [Port::default()]);
        assert!(machine.stations(0).is_empty() && machine.channel(0).is_none());
        assert!(!machine.send(0, b"x", true));
        machine.read(&mut |_, _, _| panic!("nothing is open"));
        assert!(machine.sent(&name).is_err() && machine.sample().is_err());
    }
}
