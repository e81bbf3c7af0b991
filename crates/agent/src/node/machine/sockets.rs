//! Sockets to neighbours and of a gateway's orders, and threads that wake the loop.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use fairmesh_linux::link::Link;
use fairmesh_linux::nl80211::ActionFrames;
use fairmesh_linux::{Error, MacAddr, UNLIMITED_PRIORITY, broadcast};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};

use super::{Carrier, Wake};
use crate::node::config::{MESSAGE_PORT, ORDER_PORT};
use crate::node::message::MAX_MESSAGE_BYTES;

/// Most messages read in one call, before the loop continues.
const MAX_MESSAGES_PER_CALL: usize = 64;
/// Least time between two wake-ups of the loop.
const MIN_WAKE_INTERVAL: Duration = Duration::from_millis(5);

/// Sockets to the neighbours.
///
/// A mesh point has both, since drivers of other routers may send no action frames.
pub(super) struct Sockets {
    udp: Option<UdpSocket>,
    frames: Option<ActionFrames>,
    /// Reason for which a mesh point has not sent its last message as an action frame.
    pub refusal: Option<String>,
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

    pub fn carrier(&self) -> Carrier {
        match (&self.frames, &self.refusal) {
            (Some(_), None) => Carrier::ActionFrames,
            _ => Carrier::Udp,
        }
    }

    pub fn send(&mut self, bytes: &[u8], also_udp: bool) -> bool {
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
pub(super) struct Connection {
    pub sockets: Sockets,
    pub index: u32,
    pub mac: Option<MacAddr>,
    pub mesh_point: bool,
    /// Reports to the thread that everything was read.
    read: SyncSender<()>,
}

/// Socket of a gateway's orders, and the thread that wakes the loop for them.
pub(super) struct OrderSocket {
    socket: UdpSocket,
    read: SyncSender<()>,
}

impl OrderSocket {
    pub fn open(wake: &Arc<Wake>) -> Result<Self, Error> {
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

    /// Passes orders to `handle` and sends its responses.
    pub fn receive(&mut self, handle: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>) {
        let mut buffer = [0; MAX_MESSAGE_BYTES + 1];
        for _ in 0..MAX_MESSAGES_PER_CALL {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    if let Some(response) = handle(&buffer[..length]) {
                        // Treated as lost in transit.
                        let _ = self.socket.send_to(&response, from);
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = self.read.try_send(());
    }
}

impl Connection {
    pub fn open(
        name: &str,
        link: &Link,
        mesh_point: bool,
        wake: &Arc<Wake>,
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

    /// Passes messages to `handle`.
    pub fn receive(&mut self, handle: &mut dyn FnMut(Carrier, &[u8])) {
        for _ in 0..MAX_MESSAGES_PER_CALL {
            if !self.sockets.receive(handle) {
                break;
            }
        }
        let _ = self.read.try_send(());
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
            Err(RecvTimeoutError::Disconnected) => return,
            _ => std::thread::sleep(MIN_WAKE_INTERVAL),
        }
    }
}
