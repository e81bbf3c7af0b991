//! The scenario's traffic over real sockets: one thread per flow with both of its ends.
//!
//! The application is the simulator's own ([`Source`]); connections and datagrams are the kernel's.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fairmesh_engine::measures::Delays;
use fairmesh_linux::netns::Namespace;
use fairmesh_linux::realtime::{self, Interest};
use fairmesh_linux::tcp;
use fairmesh_scenario::Flow;
use fairmesh_transport::traffic::{Action, FlowEnd, Side, Source, TrafficSpec};
use fairmesh_units::{Span, Stream, Time};
use socket2::{Domain, Socket, Type};

use crate::clock::RadioClock;
use crate::settings::KernelCongestion;

/// Port of the first flow's server; later flows use the following ports.
const FIRST_PORT: u16 = 5001;

/// Maximum interval between checks for the end of the run.
const POLL_INTERVAL: Span = Span::from_millis(100);

/// Delay before the next attempt to connect after a failed one.
const RETRY_DELAY: Span = Span::from_millis(500);

/// Live counters of a flow, readable by other threads while it runs.
#[derive(Debug, Default)]
pub struct Meter {
    /// Application bytes delivered in the whole run.
    pub delivered: AtomicU64,
    /// Congestion window at the origin, in bytes.
    pub cwnd: AtomicU64,
}

/// Result of a flow.
#[derive(Clone, Debug)]
pub struct FlowOutcome {
    /// Application bytes delivered since the start of the measured interval.
    pub measured: u64,
    /// Data packets sent and delivered in it; TCP's are segments of the whole run.
    pub packets_sent: u64,
    /// See `packets_sent`.
    pub packets_delivered: u64,
    /// One-way delays of datagrams.
    pub delay: Delays,
    /// TCP, both ends: data segments, retransmissions, timeouts.
    pub tcp: Option<(u64, u64, u64)>,
    /// Long stalls of the radio during which a retransmission timer fired.
    pub felt: u64,
    /// Durations of completed transfers; `None` for traffic without transfers.
    pub transfers: Option<Delays>,
    /// Error message, if the flow could not run.
    pub problem: Option<String>,
}

/// A flow and the namespaces of its ends.
pub struct Job<'a> {
    /// The flow.
    pub flow: &'a Flow,
    /// Index of the flow.
    pub index: usize,
    /// Namespaces of origin and destination.
    pub at: [&'a Namespace; 2],
    /// Addresses of origin and destination.
    pub addresses: [Ipv4Addr; 2],
    /// The run's seed.
    pub seed: u64,
    /// Congestion control of its connections.
    pub congestion: KernelCongestion,
    /// Radio time.
    pub clock: &'a RadioClock,
    /// Start of the measured interval.
    pub measure_from: Time,
    /// Live counters, shared with other threads.
    pub meter: &'a Meter,
}

impl Job<'_> {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn port(&self) -> u16 {
        FIRST_PORT + self.index as u16
    }

    /// Returns the simulator's source of this flow, with the same random numbers.
    fn source(&self) -> Source {
        let mut rng = Stream::new(self.seed, &format!("flow/{}", self.flow.name));
        let late = self.flow.start_jitter.as_secs_f64() * rng.unit();
        let start = Time::ZERO + self.flow.start + Span::from_secs_f64(late);
        let stop = self.flow.stop.map_or(Time::NEVER, |s| Time::ZERO + s);
        Source::new(&self.flow.traffic, start, stop, rng)
    }

    /// Runs the flow until `stop`.
    pub fn run(&self, stop: &AtomicBool) -> FlowOutcome {
        let mut state = State::new(self);
        let outcome =
            if self.flow.traffic.is_udp() { state.datagrams(stop) } else { state.stream(stop) };
        state.outcome.problem = outcome.err().map(|e| e.to_string());
        state.outcome
    }
}

/// State of a running flow.
struct State<'j> {
    job: &'j Job<'j>,
    source: Source,
    outcome: FlowOutcome,
    /// Index of the end that connects.
    client: usize,
    /// Bytes to write at each end.
    pending: [u64; 2],
    /// Timeouts of the connection and long stalls at the last check.
    fired: (u32, u64),
}

impl<'j> State<'j> {
    fn new(job: &'j Job<'j>) -> Self {
        let pieces =
            matches!(job.flow.traffic, TrafficSpec::Files { .. } | TrafficSpec::Http { .. });
        State {
            job,
            source: job.source(),
            outcome: FlowOutcome {
                measured: 0,
                packets_sent: 0,
                packets_delivered: 0,
                delay: Delays::new(),
                tcp: (!job.flow.traffic.is_udp()).then_some((0, 0, 0)),
                felt: 0,
                transfers: pieces.then(Delays::new),
                problem: None,
            },
            client: match job.flow.traffic.opener() {
                FlowEnd::From => 0,
                FlowEnd::To => 1,
            },
            pending: [0; 2],
            fired: (0, 0),
        }
    }

    fn measuring(&self, now: Time) -> bool {
        now >= self.job.measure_from
    }

    // ---- UDP

    fn datagrams(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let [from, to] = self.job.addresses;
        let port = self.job.port();
        let target = SocketAddrV4::new(to, port);
        let receiver = self.job.at[1].enter(|| UdpSocket::bind(target))?;
        let sender = self.job.at[0].enter(|| UdpSocket::bind(SocketAddrV4::new(from, 0)))?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        let mut sequence = 0u64;
        let mut buffer = vec![0u8; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            let now = self.job.now();
            if self.source.next_deadline() <= now {
                let mut sizes = Vec::new();
                self.source.on_deadline(now, &mut |what| {
                    if let Action::Datagram { bytes } = what {
                        sizes.push(bytes as usize);
                    }
                });
                for size in sizes {
                    let datagram = &mut buffer[..size];
                    datagram.fill(0);
                    stamp(datagram, sequence, now);
                    sequence += 1;
                    if self.measuring(now) {
                        self.outcome.packets_sent += 1;
                    }
                    // A full queue or a missing route loses the datagram, as on any host.
                    let _ = sender.send_to(datagram, target);
                }
                continue;
            }
            let until = self.source.next_deadline().min(now + POLL_INTERVAL);
            let wanted = Interest { read: true, write: false };
            realtime::poll_until(&[(receiver.as_fd(), wanted)], self.job.clock.reading(until))?;
            while let Ok(n) = receiver.recv(&mut buffer) {
                self.received(&buffer[..n]);
            }
        }
        Ok(())
    }

    fn received(&mut self, datagram: &[u8]) {
        let now = self.job.now();
        self.job.meter.delivered.fetch_add(datagram.len() as u64, Ordering::Relaxed);
        if self.measuring(now) {
            self.outcome.measured += datagram.len() as u64;
            self.outcome.packets_delivered += 1;
            if let Some(sent) = stamped(datagram) {
                self.outcome.delay.record(now.as_nanos().saturating_sub(sent));
            }
        }
    }

    // ---- TCP

    fn stream(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let server = 1 - self.client;
        let address = SocketAddrV4::new(self.job.addresses[server], self.job.port());
        let listener = self.job.at[server].enter(|| TcpListener::bind(address))?;
        listener.set_nonblocking(true)?;
        let mut ends: [Option<TcpStream>; 2] = [None, None];
        let (mut closing, mut retry) = (false, Time::NEVER);
        let mut reported_at = Time::ZERO;
        let mut buffer = vec![0u8; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            let now = self.job.now();
            let mut connect = retry <= now;
            if self.source.next_deadline() <= now {
                let mut actions = Vec::new();
                self.source.on_deadline(now, &mut |what| actions.push(what));
                self.execute(&actions, &mut connect, &mut closing);
                if closing && ends[self.client].is_none() {
                    retry = Time::NEVER;
                }
            }
            if connect {
                self.retire(&mut ends);
                retry = Time::NEVER;
                match self.connect(address) {
                    Ok(stream) => ends[self.client] = Some(stream),
                    Err(e) if is_unreachable(&e) => retry = now + RETRY_DELAY,
                    Err(e) => return Err(e),
                }
            }
            if now >= reported_at + POLL_INTERVAL {
                reported_at = now;
                if let Some(info) = ends[0].as_ref().and_then(|s| tcp::info(s).ok()) {
                    let cwnd = u64::from(info.cwnd) * u64::from(info.mss);
                    self.job.meter.cwnd.store(cwnd, Ordering::Relaxed);
                    // If the kernel does not report timeouts, any retransmission counts.
                    let fired = info.timeouts.unwrap_or(info.retransmits);
                    let long = self.job.clock.long_stalls();
                    if fired > self.fired.0 {
                        self.outcome.felt += long - self.fired.1;
                    }
                    self.fired = (fired, long);
                }
            }
            let until = self.source.next_deadline().min(retry).min(now + POLL_INTERVAL);
            let mut files = vec![(listener.as_fd(), Interest { read: true, write: false })];
            let mut polled = Vec::with_capacity(2);
            for (e, end) in ends.iter().enumerate() {
                if let Some(stream) = end {
                    let write = self.pending[e] > 0 || (closing && e == self.client);
                    files.push((stream.as_fd(), Interest { read: true, write }));
                    polled.push(e);
                }
            }
            let ready = realtime::poll_until(&files, self.job.clock.reading(until))?;
            if ready[0].read
                && let Ok((stream, _)) = listener.accept()
            {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                ends[server] = Some(stream);
            }
            let mut actions = Vec::new();
            for (e, ready) in polled.into_iter().zip(&ready[1..]) {
                let Some(stream) = &ends[e] else { continue };
                let mut broken = false;
                if ready.write {
                    match self.write(stream, e, &buffer) {
                        Ok(()) if closing && e == self.client && self.pending[e] == 0 => {
                            closing = false;
                            let _ = stream.shutdown(std::net::Shutdown::Write);
                        }
                        Ok(()) => {}
                        Err(_) => broken = true,
                    }
                }
                if ready.read && !broken {
                    let (bytes, open) = drain(stream, &mut buffer);
                    if bytes > 0 {
                        self.delivered(e, bytes, &mut actions);
                    }
                    broken = !open;
                }
                if broken {
                    self.count(stream);
                    ends[e] = None;
                    // The connection could not be established, or was lost: the client retries.
                    if e == self.client && self.pending[e] == u64::MAX {
                        retry = self.job.now() + RETRY_DELAY;
                    }
                }
            }
            let mut connect = false;
            self.execute(&actions, &mut connect, &mut closing);
            if connect {
                retry = Time::ZERO;
            }
        }
        self.retire(&mut ends);
        Ok(())
    }

    /// Executes the application's actions.
    fn execute(&mut self, actions: &[Action], connect: &mut bool, closing: &mut bool) {
        for what in actions {
            match *what {
                Action::Connect => {
                    *connect = true;
                    *closing = false;
                    self.pending = [0; 2];
                }
                Action::Write { side, bytes } => {
                    let end = self.end_of(side);
                    self.pending[end] = self.pending[end].saturating_add(bytes);
                }
                Action::Close => {
                    *closing = true;
                    // Endless data ends with the bytes that the kernel has.
                    let pending = &mut self.pending[self.client];
                    *pending = if *pending == u64::MAX { 0 } else { *pending };
                }
                Action::Datagram { .. } => {}
            }
        }
    }

    fn end_of(&self, side: Side) -> usize {
        match side {
            Side::Client => self.client,
            Side::Server => 1 - self.client,
        }
    }

    fn connect(&self, to: SocketAddrV4) -> io::Result<TcpStream> {
        let from = SocketAddrV4::new(self.job.addresses[self.client], 0);
        self.job.at[self.client].enter(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(true)?;
            socket.set_tcp_congestion(self.job.congestion.name().as_bytes())?;
            socket.bind(&from.into())?;
            match socket.connect(&to.into()) {
                Err(e) if e.raw_os_error() != Some(IN_PROGRESS) => return Err(e),
                _ => {}
            }
            Ok(socket.into())
        })
    }

    fn write(&mut self, mut stream: &TcpStream, end: usize, zeros: &[u8]) -> io::Result<()> {
        while self.pending[end] > 0 {
            let n = self.pending[end].min(zeros.len() as u64) as usize;
            match stream.write(&zeros[..n]) {
                Ok(n) if self.pending[end] != u64::MAX => self.pending[end] -= n as u64,
                Ok(_) => {}
                Err(e) if is_not_yet(&e) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Processes application bytes that arrived in order at one end.
    fn delivered(&mut self, end: usize, bytes: u64, actions: &mut Vec<Action>) {
        let now = self.job.now();
        let measuring = self.measuring(now);
        if end == 1 {
            self.job.meter.delivered.fetch_add(bytes, Ordering::Relaxed);
            if measuring {
                self.outcome.measured += bytes;
            }
        }
        let side = if end == self.client { Side::Client } else { Side::Server };
        self.source.on_delivered(now, side, bytes, &mut |what| actions.push(what));
        while let Some(since) = self.source.completed() {
            if let Some(transfers) = self.outcome.transfers.as_mut().filter(|_| measuring) {
                transfers.record((now - since).as_nanos());
            }
        }
    }

    /// Adds the counters of a closed connection.
    fn count(&mut self, stream: &TcpStream) {
        let Ok(info) = tcp::info(stream) else { return };
        if let Some((segments, retransmits, timeouts)) = &mut self.outcome.tcp {
            *segments += u64::from(info.data_segments);
            *retransmits += u64::from(info.retransmits);
            *timeouts += u64::from(info.timeouts.unwrap_or(0));
        }
    }

    fn retire(&mut self, ends: &mut [Option<TcpStream>; 2]) {
        for stream in ends.iter_mut().filter_map(Option::take) {
            self.count(&stream);
        }
    }
}

/// Reads all available bytes; also returns true if the connection is still open.
fn drain(mut stream: &TcpStream, buffer: &mut [u8]) -> (u64, bool) {
    let mut bytes = 0;
    loop {
        match stream.read(buffer) {
            Ok(0) => return (bytes, false),
            Ok(n) => bytes += n as u64,
            Err(e) => return (bytes, is_not_yet(&e)),
        }
    }
}

/// `EINPROGRESS`: the connection is being established.
const IN_PROGRESS: i32 = nix::errno::Errno::EINPROGRESS as i32;

fn is_not_yet(e: &io::Error) -> bool {
    let connecting = e.kind() == ErrorKind::NotConnected;
    connecting || matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn is_unreachable(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable)
}

/// Writes number and sending time into a datagram, if they fit.
fn stamp(datagram: &mut [u8], number: u64, at: Time) {
    if let Some(head) = datagram.get_mut(..16) {
        head[..8].copy_from_slice(&number.to_le_bytes());
        head[8..].copy_from_slice(&at.as_nanos().to_le_bytes());
    }
}

/// Returns the sending time, in ns.
fn stamped(datagram: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(datagram.get(8..16)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_carry_their_time() {
        let mut d = [0; 20];
        stamp(&mut d, 7, Time::from_nanos(1_234_567_890_123));
        assert_eq!(stamped(&d), Some(1_234_567_890_123));
        stamp(&mut d[..10], 7, Time::ZERO);
        assert_eq!(stamped(&d[..10]), None);
    }
}
