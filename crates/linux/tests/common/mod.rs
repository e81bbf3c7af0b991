//! Network namespaces for tests: a mesh host, the gateway and a wired host in a row.
//!
//! They are removed with the test.
#![allow(dead_code)]

pub mod namespace;
pub mod traffic;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;

use fairmesh_linux::*;
use nix::sys::socket::{setsockopt, sockopt};

pub use namespace::{Namespace, ip, run};

/// Returns true if namespaces can be created; otherwise prints why the test is skipped.
///
/// With `FAIRMESH_NO_SKIP` set a skipped test fails.
pub fn root(test: &str) -> bool {
    let able = nix::unistd::geteuid().is_root()
        && run("ip", &["netns", "list"]).is_some_and(|o| o.status.success());
    if !able {
        // Past the capture of the test harness: a skipped test should not look like a passed one.
        let why = "needs root and iproute2 for network namespaces";
        let _ = writeln!(io::stderr(), "SKIPPED {test}: {why}");
        assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
    }
    able
}

/// Mesh host – gateway – wired host, connected by veth pairs.
///
/// The mesh host has 10.2.0.0/16 and fd02::/64, in place of all subscribers; the wired host is
/// 10.9.0.2 and fd09::2.
#[derive(Debug)]
pub struct Path {
    pub mesh: Namespace,
    pub gateway: Namespace,
    pub wired: Namespace,
}

pub const WIRED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 2));

impl Path {
    pub fn new() -> Self {
        let path =
            Path { mesh: Namespace::new(), gateway: Namespace::new(), wired: Namespace::new() };
        let (m, g, w) = (&path.mesh, &path.gateway, &path.wired);
        let links = [
            format!(
                "link add name up0 netns {} type veth peer name mesh0 netns {}",
                m.name, g.name
            ),
            format!(
                "link add name eth0 netns {} type veth peer name wan0 netns {}",
                w.name, g.name
            ),
        ];
        ip(&[], &links.each_ref().map(String::as_str));
        // No duplicate address detection: addresses are usable at once.
        for (ns, interface) in [(m, "up0"), (g, "mesh0"), (g, "wan0"), (w, "eth0")] {
            ns.sh(&format!("sysctl -qw net.ipv6.conf.{interface}.accept_dad=0"));
        }
        g.sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        m.sh("sysctl -qw net.ipv6.ip_nonlocal_bind=1");
        m.ip(&[
            "link set lo up",
            "link set up0 up",
            "addr add 10.1.0.2/24 dev up0",
            "addr add fd01::2/64 dev up0 nodad",
            // All subscribers' addresses are here, behind one router of the mesh.
            "route add local 10.2.0.0/16 dev lo",
            "route add local fd02::/64 dev lo",
            "route add default via 10.1.0.1",
        ]);
        g.ip(&[
            "link set lo up",
            "link set mesh0 up",
            "link set wan0 up",
            "addr add 10.1.0.1/24 dev mesh0",
            "addr add fd01::1/64 dev mesh0 nodad",
            "addr add 10.9.0.1/24 dev wan0",
            "addr add fd09::1/64 dev wan0 nodad",
            "route add 10.2.0.0/16 via 10.1.0.2",
            "route add fd02::/64 via fd01::2",
        ]);
        w.ip(&[
            "link set lo up",
            "link set eth0 up",
            "addr add 10.9.0.2/24 dev eth0",
            "addr add fd09::2/64 dev eth0 nodad",
            "route add default via 10.9.0.1",
        ]);
        m.sh("ip -6 route add default via fd01::1");
        w.sh("ip -6 route add default via fd09::1");
        path
    }

    pub fn layout(&self, subscribers: Vec<Subscriber>) -> Layout {
        let name = |n: &str| Interface::new(n).unwrap();
        Layout { subscribers, ..Layout::new(name("mesh0"), name("wan0")) }
    }

    /// Opens a data plane in the gateway.
    pub fn plane(&self) -> HtbShaper {
        self.gateway.within(|| HtbShaper::open().unwrap())
    }

    /// Calls the data plane in the gateway's namespace.
    pub fn call<P: Plane, T: Send + 'static>(
        &self,
        plane: &mut Option<P>,
        call: impl FnOnce(&mut P) -> T + Send + 'static,
    ) -> T {
        let mut owned = plane.take().unwrap();
        let (owned, result) = self.gateway.within(move || {
            let result = call(&mut owned);
            (owned, result)
        });
        *plane = Some(owned);
        result
    }
}

/// A data plane under test.
pub trait Plane: Shaper + Send + 'static {
    /// Opens it in the thread's network namespace.
    fn begin() -> Self;
}

impl Plane for HtbShaper {
    fn begin() -> Self {
        HtbShaper::open().unwrap()
    }
}

impl Plane for EdtShaper {
    fn begin() -> Self {
        EdtShaper::open().unwrap()
    }
}

pub fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Returns a subscriber with one IPv4 and one IPv6 address: 10.2.x.y and fd02::n.
pub fn subscriber(class: u16) -> Subscriber {
    let [hi, lo] = class.to_be_bytes();
    Subscriber::new(
        class,
        [net(&format!("10.2.{hi}.{lo}/32")), net(&format!("fd02::{class:x}/128"))],
    )
}

pub fn v4(class: u16, port: u16) -> SocketAddr {
    let [hi, lo] = class.to_be_bytes();
    SocketAddr::from(([10, 2, hi, lo], port))
}

pub fn v6(class: u16, port: u16) -> SocketAddr {
    format!("[fd02::{class:x}]:{port}").parse().unwrap()
}

pub const HOST: &str = "10.9.0.2:6000";

/// Waits for packets that are in flight.
pub fn settle() {
    thread::sleep(std::time::Duration::from_millis(150));
}

/// Sends `count` datagrams of `bytes`.
pub fn blast(socket: &UdpSocket, to: SocketAddr, bytes: usize, count: usize) {
    for _ in 0..count {
        socket.send_to(&vec![0; bytes], to).unwrap();
    }
}

/// Sends one packet of `count` datagrams of `bytes`, for the kernel to split (GSO).
pub fn send_large(socket: &UdpSocket, to: SocketAddr, bytes: usize, count: usize) {
    setsockopt(socket, sockopt::UdpGsoSegment, &(bytes as i32)).unwrap();
    blast(socket, to, bytes * count, 1);
    setsockopt(socket, sockopt::UdpGsoSegment, &0).unwrap();
}

/// Waits until `holds` is true, at most a minute.
pub fn await_condition(what: &str, holds: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed().as_secs() < 60, "{what}: not within a minute");
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Waits until `count` datagrams have arrived at a socket, at most a minute for each.
pub fn await_datagrams(socket: &UdpSocket, count: usize) {
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    for received in 0..count {
        let mut buffer = [0; 2048];
        socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{received} of {count} arrived: {e}"));
    }
}

/// Returns one class's counters.
pub fn of(counters: &[ClassCounters], class: u16, direction: Direction) -> ClassCounters {
    let slot = Slot { class: ClassId(class), direction };
    *counters.iter().find(|c| c.slot == slot).unwrap()
}

/// Returns a change of one class.
pub fn change(class: u16, direction: Direction, bits: Option<u64>) -> RateChange {
    let slot = Slot { class: ClassId(class), direction };
    RateChange { slot, rate: bits.map(fairmesh_units::BitRate) }
}

/// A gateway with an installed data plane.
pub struct Bench<P = HtbShaper> {
    pub path: Path,
    pub plane: Option<P>,
    pub layout: Layout,
    pub installed: fairmesh_linux::Installed,
    renewed: std::time::Instant,
}

impl Bench {
    pub fn new(subscribers: Vec<Subscriber>) -> Self {
        Bench::on(Path::new(), subscribers, |_| ())
    }

    pub fn on(path: Path, subscribers: Vec<Subscriber>, adapt: impl FnOnce(&mut Layout)) -> Self {
        Bench::with(path, subscribers, adapt)
    }
}

impl<P: Plane> Bench<P> {
    /// Returns a bench with any data plane.
    pub fn with(path: Path, subscribers: Vec<Subscriber>, adapt: impl FnOnce(&mut Layout)) -> Self {
        let mut layout = path.layout(subscribers);
        adapt(&mut layout);
        let mut plane = Some(path.gateway.within(P::begin));
        let l = layout.clone();
        let installed = path.call(&mut plane, move |p| p.install(&l).unwrap());
        Bench::of(path, plane, layout, installed)
    }

    /// Returns a bench with a data plane that is installed already.
    pub fn of(
        path: Path,
        plane: Option<P>,
        layout: Layout,
        installed: fairmesh_linux::Installed,
    ) -> Self {
        Bench { path, plane, layout, installed, renewed: std::time::Instant::now() }
    }

    /// Replaces the data plane by that of another process, which has installed nothing yet.
    pub fn another(&mut self) {
        self.plane = Some(self.path.gateway.within(P::begin));
        self.renewed = std::time::Instant::now();
    }

    pub fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut P) -> T + Send + 'static,
    ) -> T {
        // Like a daemon; without renewals limits lapse.
        if self.renewed.elapsed() > std::time::Duration::from_secs(2) {
            self.renewed = std::time::Instant::now();
            // A plane without its objects has nothing to renew.
            self.path.call(&mut self.plane, |p| match p.renew() {
                Err(fairmesh_linux::Error::NotInstalled) => {}
                Err(e) if e.is_interface_lost() => {}
                renewed => renewed.unwrap(),
            });
        }
        self.path.call(&mut self.plane, call)
    }

    pub fn sample(&mut self) -> Vec<ClassCounters> {
        self.call(|p| {
            let mut out = Vec::new();
            p.sample(&mut out).unwrap();
            out
        })
    }

    pub fn set(&mut self, changes: Vec<RateChange>) {
        self.call(move |p| p.set_rates(&changes).unwrap());
    }
}
