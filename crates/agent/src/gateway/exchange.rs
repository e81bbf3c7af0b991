//! Exchange with other gateways over a socket.
//!
//! The daemon's loop reads and writes it; a thread only wakes the loop.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use fairmesh_units::{Span, Time};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{KeyError, PeersError};
use crate::gateway::config::{PEER_KEY_PATH, Peers};
use crate::gateway::peers::{
    Change, Datagram, Exchange, MAX_DATAGRAM, PeersReport, Received, SendProblem,
};
use crate::key::{Key, NODE_KEY_PATH};

/// Most datagrams read within a second from all peers; the kernel drops the rest.
const MAX_READ: u32 = 1000;
/// Most datagrams read in one call, before the loop continues.
const MAX_MESSAGES_PER_CALL: usize = 64;
const SECOND: Span = Span::from_secs(1);
/// Interval of attempts to open the socket.
const RETRY_INTERVAL: Span = Span::from_secs(5);
/// Least time between two wake-ups of the loop.
const MIN_WAKE_INTERVAL: Duration = Duration::from_millis(5);

/// Reads the key that all gateways share.
///
/// # Errors
/// Returns the problem of the file, with its name and the expectation.
pub fn read_key(configured: &Path) -> Result<Key, KeyError> {
    let path = key_path(configured, std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from));
    let unreadable = |problem| KeyError::File { path: path.clone(), problem };
    // A FIFO at this path must not block.
    let opened = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&path);
    let mut file = opened.map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(KeyError::NotAFile(path));
    }
    // A service manager's credential is readable for its user by an access list, which appears as its group's
    // permission.
    let (mode, group) = (meta.mode() & 0o777, meta.gid());
    if mode & 0o037 != 0 || mode & 0o040 != 0 && group != 0 {
        return Err(KeyError::Mode { path, mode });
    }
    let mut text = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut text).map_err(unreadable)?;
    Key::read(&String::from_utf8_lossy(&text)).ok_or(KeyError::NotAKey(path))
}

/// Returns the path of the key.
///
/// A service manager that provides it as a credential has its own folder for it.
fn key_path(configured: &Path, credentials: Option<PathBuf>) -> PathBuf {
    let usual = [PEER_KEY_PATH, NODE_KEY_PATH].map(Path::new).contains(&configured);
    let name = configured.file_name().filter(|_| usual);
    let credential = credentials.zip(name).map(|(folder, name)| folder.join(name));
    credential.filter(|file| file.exists()).unwrap_or_else(|| configured.to_owned())
}

/// Returns a new key in the form of its file.
///
/// # Errors
/// Returns the system gives no random numbers.
pub fn new_key() -> io::Result<String> {
    let mut octets = [0; 32];
    getrandom::fill(&mut octets).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(octets.iter().map(|b| format!("{b:02x}")).collect())
}

/// Returns a number that an attacker cannot predict.
pub(crate) fn unpredictable() -> u64 {
    let mut octets = [0; 8];
    // Without random numbers of the system it stays 0, and the gateway works alone.
    let _ = getrandom::fill(&mut octets);
    u64::from_ne_bytes(octets)
}

/// The daemon's side of the exchange.
#[derive(Debug)]
pub struct PeerSocket {
    config: Peers,
    open: Option<Open>,
    /// Time of the next attempt to open the socket.
    retry: Time,
    /// Obstacle of the last attempt.
    problem: Option<String>,
    /// Start of the counted second, and the datagrams read in it.
    second: (Time, u32),
    out: Vec<Datagram>,
}

#[derive(Debug)]
struct Open {
    socket: UdpSocket,
    exchange: Exchange,
    /// Reports to the thread that everything was read.
    read: SyncSender<()>,
}

impl PeerSocket {
    /// Returns a closed socket.
    pub fn new(config: Peers) -> Self {
        let (retry, second) = (Time::ZERO, (Time::ZERO, 0));
        PeerSocket { config, open: None, retry, problem: None, second, out: Vec::new() }
    }

    /// Opens the socket unless it is open; returns a new obstacle.
    ///
    /// A separate thread calls `wake` when datagrams have arrived; `wake` returns false when the loop has ended.
    pub fn open(
        &mut self,
        now: Time,
        wake: impl FnMut() -> bool + Send + 'static,
    ) -> Option<String> {
        if self.open.is_some() || now < self.retry {
            return None;
        }
        self.retry = now + RETRY_INTERVAL;
        let problem = match self.try_open(wake) {
            Ok(open) => {
                self.open = Some(open);
                None
            }
            Err(problem) => Some(problem.to_string()),
        };
        let news = problem.clone().filter(|p| self.problem.as_ref() != Some(p));
        self.problem = problem;
        news
    }

    fn try_open(&self, wake: impl FnMut() -> bool + Send + 'static) -> Result<Open, PeersError> {
        let key = read_key(&self.config.key)?;
        let listen = self.config.listen;
        let bind = || -> io::Result<_> {
            let socket = UdpSocket::bind(listen)?;
            socket.set_nonblocking(true)?;
            let (read, done) = sync_channel(1);
            let watched = socket.try_clone()?;
            let thread = std::thread::Builder::new().name("peers".into());
            thread.spawn(move || watch(&watched, &done, wake))?;
            Ok((socket, read))
        };
        let (socket, read) =
            bind().map_err(|problem| PeersError::Address { address: listen, problem })?;
        let peers = &self.config.peers;
        let exchange = Exchange::new(self.config.number, key, peers, Box::new(unpredictable));
        Ok(Open { socket, exchange, read })
    }

    /// Reads a bounded number of datagrams and passes the accepted ones to `handle`.
    pub fn read(&mut self, now: Time, mut handle: impl FnMut(&Received<'_>)) {
        let Some(Open { socket, exchange, read }) = &mut self.open else { return };
        if now.since(self.second.0) >= SECOND {
            self.second = (now, 0);
        }
        let mut buffer = [0; MAX_DATAGRAM + 1];
        for _ in 0..MAX_MESSAGES_PER_CALL {
            if self.second.1 >= MAX_READ {
                // Without the report the thread waits.
                return;
            }
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    self.second.1 += 1;
                    if let Ok(datagram) = exchange.receive(now, from, &buffer[..length]) {
                        handle(&datagram);
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // No more datagrams, or an error that another read would not remove.
                Err(_) => break,
            }
        }
        let _ = read.try_send(());
    }

    /// Sends the control's messages and heartbeats.
    pub fn send(&mut self, now: Time, bodies: &[Vec<u8>]) {
        let Some(Open { socket, exchange, .. }) = &mut self.open else { return };
        for body in bodies {
            exchange.send_message(now, body, &mut self.out);
        }
        exchange.keep_alive(now, &mut self.out);
        let both = self.config.listen.is_ipv6();
        for (peer, to, datagram) in self.out.drain(..) {
            match socket.send_to(&datagram, reachable(to, both)) {
                // Treated as lost in transit.
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                sent => exchange.sending(peer, sent.err().map(|e| SendProblem::from(&e))),
            }
        }
    }

    /// Returns the changes since the last call.
    pub fn changes(&mut self, now: Time) -> Vec<Change> {
        self.open.as_mut().map(|o| o.exchange.changes(now)).unwrap_or_default()
    }

    /// Returns the exchange, if it is open.
    pub fn exchange(&self) -> Option<&Exchange> {
        self.open.as_ref().map(|o| &o.exchange)
    }

    /// Returns the part of `status`.
    ///
    /// `governed_by`: the gateway that decides instead of this one; `exchanging`: the control's messages are sent.
    pub fn report(&self, now: Time, governed_by: Option<u32>, exchanging: bool) -> PeersReport {
        let exchange = self.exchange();
        let rejected = exchange.iter().flat_map(|e| e.rejected());
        PeersReport {
            number: self.config.number,
            listen: self.config.listen.to_string(),
            governed_by: governed_by.filter(|_| exchanging),
            exchanging,
            problem: self.problem.clone(),
            peers: exchange.map(|e| e.report(now)).unwrap_or_default(),
            rejected: rejected.map(|(cause, n)| (cause.name().to_owned(), n)).collect(),
        }
    }
}

/// Returns the address as a socket of both IP versions needs it (RFC 4291 §2.5.5.2).
fn reachable(to: SocketAddr, both: bool) -> SocketAddr {
    match to {
        SocketAddr::V4(v4) if both => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
        other => other,
    }
}

/// Wakes the loop for datagrams, and waits until they were read or a second has passed.
///
/// It reads nothing itself: if it ends, the loop still reads once a second.
fn watch(socket: &UdpSocket, read: &Receiver<()>, mut wake: impl FnMut() -> bool) {
    loop {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut fds, PollTimeout::from(1000_u16)), Ok(n) if n > 0) {
            std::thread::sleep(MIN_WAKE_INTERVAL);
            continue;
        }
        if !wake() {
            return;
        }
        let _ = read.recv_timeout(Duration::from_secs(1));
        std::thread::sleep(MIN_WAKE_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn readable_and_invalid_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("peers.key");
        let refused = || read_key(&file).unwrap_err().to_string();
        assert!(refused().contains("peers.key: No such file"), "{}", refused());
        assert!(refused().contains("; expected a key: umask 077"));
        std::fs::write(&file, new_key().unwrap() + "\n").unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for loose in [0o644, 0o604, 0o620, 0o666, 0o610] {
            mode(loose);
            let text = format!("peers.key: is readable by other users (mode {loose:04o}); run");
            assert!(refused().contains(&text), "{}", refused());
        }
        mode(0o600);
        assert!(read_key(&file).is_ok());
        for wrong in ["", "secret", &"0".repeat(63), &"g".repeat(64), &"0".repeat(10_000)] {
            std::fs::write(&file, wrong).unwrap();
            assert!(refused().contains("not a key; expected 64 hexadecimal digits"), "{wrong}");
        }
        std::fs::write(&file, [0xff; 64]).unwrap();
        assert!(refused().contains("expected 64 hexadecimal digits"));
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(
            read_key(&pipe).unwrap_err().to_string().contains("not a regular file"),
            "and it does not wait"
        );
        assert!(read_key(folder.path()).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn a_credential_takes_the_place_of_the_usual_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = || Some(folder.path().to_owned());
        assert_eq!(
            key_path(Path::new(PEER_KEY_PATH), credentials()),
            Path::new(PEER_KEY_PATH),
            "no credential"
        );
        std::fs::write(folder.path().join("peers.key"), "").unwrap();
        assert_eq!(
            key_path(Path::new(PEER_KEY_PATH), credentials()),
            folder.path().join("peers.key")
        );
        assert_eq!(key_path(Path::new("/a/key"), credentials()), Path::new("/a/key"));
        assert_eq!(key_path(Path::new(PEER_KEY_PATH), None), Path::new(PEER_KEY_PATH));
        let of_node = Path::new(NODE_KEY_PATH);
        assert_eq!(key_path(of_node, credentials()), of_node, "a credential of another name");
        std::fs::write(folder.path().join("node.key"), "").unwrap();
        assert_eq!(key_path(of_node, credentials()), folder.path().join("node.key"));
    }

    #[test]
    fn keys_and_challenges_differ() {
        assert_ne!(new_key().unwrap(), new_key().unwrap());
        assert_ne!(unpredictable(), unpredictable());
    }

    fn two() -> (tempfile::TempDir, PeerSocket, UdpSocket) {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, "0".repeat(64)).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let peers = vec![other.local_addr().unwrap()];
        let sockets = PeerSocket::new(Peers { number: 1, listen: free, peers, key });
        (folder, sockets, other)
    }

    #[test]
    fn a_failed_open_is_reported_once_and_retried() {
        let (_folder, mut socket, _other) = two();
        let taken = UdpSocket::bind(socket.config.listen).unwrap();
        let at = |s| Time::ZERO + Span::from_secs(s);
        let problem = socket.open(at(0), || true).expect("the port is taken");
        assert!(
            problem.contains("expected an address of this machine and a free port"),
            "{problem}"
        );
        assert_eq!(socket.open(at(1), || true), None, "not tried");
        assert_eq!(socket.open(at(6), || true), None, "reported before");
        assert!(socket.problem.is_some());
        drop(taken);
        assert_eq!(socket.open(at(12), || true), None);
        assert!(socket.exchange().is_some() && socket.problem.is_none());
    }

    /// A bounded number of datagrams is read per second; the waking thread waits.
    #[test]
    fn a_flood_is_read_within_bounds() {
        let (_folder, mut socket, other) = two();
        let woken = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = woken.clone();
        let wake = move || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            true
        };
        assert_eq!(socket.open(Time::ZERO, wake), None);
        let to = socket.config.listen;
        let rejected = |s: &PeerSocket| s.exchange().unwrap().rejected().map(|r| r.1).sum::<u64>();
        // Less than the socket's buffer holds, repeatedly.
        for round in 0..40 {
            for _ in 0..64 {
                other.send_to(b"junk", to).unwrap();
            }
            let before = rejected(&socket);
            // As often as the loop would turn at most.
            while rejected(&socket) < (before + 64).min(1000) {
                socket.read(Time::ZERO, |_| panic!("no datagram was valid"));
            }
            assert!(rejected(&socket) <= 1000, "round {round}");
        }
        assert_eq!(rejected(&socket), 1000);
        // The loop is not woken for datagrams that must wait, except to check if they may be read.
        let before = woken.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(100));
        assert!(woken.load(std::sync::atomic::Ordering::Relaxed) <= before + 2);
        socket.read(Time::ZERO + SECOND, |_| {});
        assert!(rejected(&socket) > 1000, "the next second");
    }
}
