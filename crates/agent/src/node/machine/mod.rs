//! The machine under a mesh router's daemon: senses and acts, and those of this machine.
//!
//! `kernel`: drivers, queues and programs of Linux; `sockets`: messages to neighbours and a gateway's orders.

mod kernel;
mod sockets;

use fairmesh_control::{Channel, Leaf, Marking};
use fairmesh_linux::bpf::FlowCount;
use fairmesh_linux::nl80211::Station;
use fairmesh_linux::{Error, Interface, IpNet, LocalPlace, MacAddr, Removed};
use fairmesh_units::{BitRate, Probability, Span};
use serde::{Deserialize, Serialize};

pub use kernel::Kernel;

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
    /// See [`fairmesh_linux::LocalShaper::install`] and [`fairmesh_linux::LocalShaper::serve_in_turn`].
    fn install(&mut self, place: &LocalPlace, queue: Leaf, burst: u32) -> Result<(), Error>;

    /// Changes the limit; `None` lifts it.
    ///
    /// # Errors
    /// See [`fairmesh_linux::LocalShaper::set_rate`].
    fn set_rate(&mut self, rate: Option<BitRate>) -> Result<(), Error>;

    /// Reads the counters of the class.
    ///
    /// # Errors
    /// See [`fairmesh_linux::LocalShaper::sample`].
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
    /// See [`fairmesh_linux::LocalShaper::remove`].
    fn remove(&mut self, place: &LocalPlace) -> Result<Removed, Error>;

    /// Installs classes of next hops on an interface, none of which exists yet.
    ///
    /// # Errors
    /// See [`fairmesh_linux::NextHopShaper::install`].
    fn install_hops(&mut self, interface: &Interface, burst: u32) -> Result<(), Error>;

    /// Sets limits of next hops on an interface; one without a class gets one.
    ///
    /// # Errors
    /// See [`fairmesh_linux::NextHopShaper::set_rates`].
    fn set_hops(&mut self, interface: &Interface, limits: &[HopLimit]) -> Result<(), Error>;

    /// Returns the bytes that each class of an interface has sent, in Ethernet frames.
    ///
    /// # Errors
    /// See [`fairmesh_linux::NextHopShaper::sample`].
    fn sample_hops(&mut self, interface: &Interface) -> Result<Vec<(MacAddr, u64)>, Error>;

    /// Removes the classes of next hops from an interface.
    ///
    /// # Errors
    /// See [`fairmesh_linux::NextHopShaper::remove`].
    fn remove_hops(&mut self, interface: &Interface) -> Result<Removed, Error>;

    /// Counts the packets of homes on the links of these interfaces, in place of others.
    ///
    /// No interface ends it.
    ///
    /// # Errors
    /// See [`fairmesh_linux::bpf::FlowMeter`].
    fn count_flows(&mut self, interfaces: &[Interface], homes: &[IpNet]) -> Result<(), Error>;

    /// Adds or changes the class of a flow that enters the mesh here.
    ///
    /// The class of local traffic must be installed.
    ///
    /// Marks lapse after [`MARK_LIFETIME`]; repeated calls renew them.
    ///
    /// # Errors
    /// See [`fairmesh_linux::LocalShaper::set_flow`] and [`fairmesh_linux::bpf::FlowMeter::assign`].
    fn set_flow(&mut self, class: &FlowClass) -> Result<(), Error>;

    /// Removes the class of a flow.
    ///
    /// # Errors
    /// See [`fairmesh_linux::LocalShaper::remove_flow`].
    fn remove_flow(&mut self, class: &FlowClass) -> Result<(), Error>;

    /// Reads the counters of all classes of flows, by their numbers.
    ///
    /// # Errors
    /// See [`fairmesh_linux::LocalShaper::sample_flows`].
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
