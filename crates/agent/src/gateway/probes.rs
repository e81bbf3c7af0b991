//! Thread that sends echo probes and receives their replies.
//!
//! The daemon's loop opens and closes it, and never waits for it.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fairmesh_linux::Error;
use fairmesh_linux::echo::{Echo, EchoReply};
use fairmesh_units::{Span, Time};

use crate::daemon::clock::Clock;
use crate::gateway::headers::Change;
use crate::gateway::signs::{Reader, SharedReader};

/// Longest wait for a reply or the next probe; also the time that the thread takes to end.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// Interval of attempts to open the socket.
const RETRY_INTERVAL: Span = Span::from_secs(30);

/// Thread that sends echo probes on request.
#[derive(Debug)]
pub struct ProbeThread {
    /// Clock of the daemon.
    clock: Clock,
    running: Option<Running>,
    retry: Time,
    problem: Option<String>,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<Error>>>,
}

impl ProbeThread {
    /// Returns a thread that does not run yet.
    pub fn new(clock: Clock) -> Self {
        ProbeThread { clock, running: None, retry: Time::ZERO, problem: None }
    }

    /// Returns the obstacle if probes should be sent and are not.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// True while the thread runs.
    pub fn is_open(&self) -> bool {
        self.running.is_some()
    }

    /// Starts or ends the thread as requested; returns a failure once.
    pub fn keep(
        &mut self,
        now: Time,
        wanted: bool,
        interface: &str,
        reader: &SharedReader,
    ) -> Option<Change> {
        if !wanted {
            (self.retry, self.problem) = (Time::ZERO, None);
            self.close();
            return None;
        }
        let mut failed = None;
        if let Some(ended) = self.running.take_if(|r| r.thread.is_finished()) {
            let why = ended.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
            failed = Some(why.map_or("the thread has ended".to_owned(), |e| e.to_string()));
            self.retry = now + RETRY_INTERVAL;
        }
        if self.running.is_none() && now >= self.retry {
            self.retry = now + RETRY_INTERVAL;
            match self.open(interface, reader) {
                Ok(running) => (self.running, self.problem) = (Some(running), None),
                Err(e) => failed = Some(e.to_string()),
            }
        }
        let failed = failed?;
        let news = self.problem.replace(failed.clone()) != Some(failed.clone());
        news.then_some(Change::Failed(failed))
    }

    fn open(&self, interface: &str, reader: &SharedReader) -> Result<Running, Error> {
        // Two daemons on one machine, in separate namespaces, may have the same process number.
        let identifier = std::process::id() as u16;
        let echo = Echo::open(interface, identifier)?;
        let stop = Arc::new(AtomicBool::new(false));
        let failed = Arc::<Mutex<Option<Error>>>::default();
        let work = Work {
            echo,
            reader: reader.clone(),
            clock: self.clock.clone(),
            stop: stop.clone(),
            secret: RandomState::new(),
        };
        let slot = Arc::clone(&failed);
        let run = move || {
            if let Err(e) = work.run() {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
            }
        };
        let thread = std::thread::Builder::new().name("probes".into()).spawn(run);
        let thread = thread.map_err(Error::io("starting the thread that sends echo probes"))?;
        Ok(Running { thread, stop, failed })
    }

    fn close(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for ProbeThread {
    fn drop(&mut self) {
        self.close();
    }
}

struct Work {
    echo: Echo,
    reader: SharedReader,
    clock: Clock,
    stop: Arc<AtomicBool>,
    /// Replies carry a hash of it, so that only the host that received a request can reply to it.
    secret: RandomState,
}

impl Work {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nonce(&self, address: IpAddr, sequence: u16) -> u64 {
        self.secret.hash_one((address, sequence))
    }

    fn run(self) -> Result<(), Error> {
        while !self.stop.load(Ordering::Relaxed) {
            self.send()?;
            let (now, next) = (self.now(), self.reader().next_probe());
            let until = Duration::from_nanos(next.as_nanos().saturating_sub(now.as_nanos()));
            if self.echo.wait(until.clamp(Duration::from_millis(1), MAX_WAIT))? {
                self.receive()?;
            }
        }
        Ok(())
    }

    fn send(&self) -> Result<(), Error> {
        loop {
            let Some((to, sequence)) = self.reader().poll_probe(self.now()) else { return Ok(()) };
            match self.echo.send(to, sequence, self.nonce(to, sequence)) {
                Ok(()) => {}
                Err(e) if is_lasting(&e) => return Err(e),
                // No route, no neighbour, no room: the probe counts as lost.
                Err(_) => {}
            }
        }
    }

    fn receive(&self) -> Result<(), Error> {
        let now = self.now();
        self.echo.read(|EchoReply { from, sequence, nonce }| {
            if nonce == self.nonce(from, sequence) {
                self.reader().probe_answered(now, sequence);
            }
        })
    }
}

/// True for errors that concern all probes.
///
/// These are a packet filter (EPERM, as systemd's `IPAddressDeny=` gives), or a missing interface.
fn is_lasting(e: &Error) -> bool {
    let Error::Io { source, .. } = e else { return e.is_interface_lost() };
    source.kind() == std::io::ErrorKind::PermissionDenied
        || matches!(source.raw_os_error(), Some(6 | 19))
}
