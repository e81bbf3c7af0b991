//! Thread that reads TCP headers, opened and closed by the daemon's loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairmesh_linux::capture::{Capture, Packet};
use fairmesh_linux::{Error, link};
use fairmesh_units::{Span, Time};

use crate::daemon::clock::Clock;
use crate::gateway::signs::SharedReader;

/// Size of the kernel's ring for waiting headers, in bytes.
///
/// It holds some 6000 headers, 60 ms at 100,000 a second.
const RING_BYTES: usize = 1 << 20;
/// Most headers read within a second; the kernel drops and counts the rest.
const MAX_READ: usize = 500_000;
/// Longest wait for headers; also the time that the thread takes to end.
const MAX_WAIT: Duration = Duration::from_millis(250);
const SECOND: Duration = Duration::from_secs(1);
/// Interval of attempts to open the capture.
const RETRY_INTERVAL: Span = Span::from_secs(30);

/// Thread that reads TCP headers on request.
#[derive(Debug)]
pub struct HeaderThread {
    /// Clock of the daemon.
    clock: Clock,
    running: Option<Running>,
    retry: Time,
    problem: Option<String>,
}

/// Kind of the headers to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderKinds {
    /// Headers of TCP.
    Tcp,
    /// Headers of TCP, QUIC's spin bit, and addresses of other datagrams.
    TcpAndUdp,
}

#[derive(Debug)]
struct Running {
    reads: HeaderKinds,
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<Error>>>,
}

/// A change of the reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Headers are read from now on.
    Opened,
    /// Headers are not read, with the reason.
    Failed(String),
}

impl HeaderThread {
    /// Returns a thread that does not run yet.
    pub fn new(clock: Clock) -> Self {
        HeaderThread { clock, running: None, retry: Time::ZERO, problem: None }
    }

    /// Returns the obstacle if headers should be read and are not.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Opens or closes the capture as requested, and checks the thread; returns a change once.
    pub fn keep(
        &mut self,
        now: Time,
        wanted: Option<HeaderKinds>,
        interface: &str,
        reader: &SharedReader,
    ) -> Option<Change> {
        let Some(wanted) = wanted else {
            (self.retry, self.problem) = (Time::ZERO, None);
            self.close(now, reader);
            return None;
        };
        if self.running.as_ref().is_some_and(|r| r.reads != wanted) {
            self.close(now, reader);
            self.retry = now;
        }
        let mut problem = None;
        if self.running.as_ref().is_some_and(|r| r.thread.is_finished()) {
            let failed = self.running.as_ref().map(|r| r.failed.clone());
            self.close(now, reader);
            let why = failed.and_then(|f| f.lock().ok()?.take());
            // An interface that was created again can be opened at once.
            let lost = why.as_ref().is_some_and(Error::is_interface_lost);
            self.retry = if lost { now } else { now + RETRY_INTERVAL };
            problem = Some(why.map_or("the reader has ended".to_owned(), |e| e.to_string()));
        }
        if self.running.is_none() && now >= self.retry {
            self.retry = now + if problem.is_some() { Span::from_secs(1) } else { RETRY_INTERVAL };
            match self.open(interface, reader, wanted) {
                Ok(running) => {
                    reader.lock().unwrap_or_else(PoisonError::into_inner).opened(now, true);
                    (self.running, self.problem) = (Some(running), None);
                    return Some(Change::Opened);
                }
                Err(e) => problem = Some(e.to_string()),
            }
        }
        let problem = problem?;
        let news = self.problem.as_ref() != Some(&problem);
        self.problem = Some(problem.clone());
        news.then_some(Change::Failed(problem))
    }

    fn open(
        &self,
        interface: &str,
        reader: &SharedReader,
        reads: HeaderKinds,
    ) -> Result<Running, Error> {
        let capture =
            Capture::open(&link::named(interface)?, RING_BYTES, reads == HeaderKinds::TcpAndUdp)?;
        let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let work = Work {
            capture,
            reader: reader.clone(),
            clock: self.clock.clone(),
            stop: stop.clone(),
            failed: Arc::clone(&failed),
            last: Time::ZERO,
        };
        let thread = std::thread::Builder::new().name("signs".into()).spawn(move || work.run());
        let thread = thread.map_err(Error::io("starting the thread that reads TCP headers"))?;
        Ok(Running { reads, thread, stop, failed })
    }

    /// Ends the thread, without waiting for it.
    fn close(&mut self, now: Time, reader: &SharedReader) {
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::Relaxed);
            reader.lock().unwrap_or_else(PoisonError::into_inner).opened(now, false);
        }
    }
}

impl Drop for HeaderThread {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::Relaxed);
        }
    }
}

struct Work {
    capture: Capture,
    reader: SharedReader,
    clock: Clock,
    stop: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<Error>>>,
    /// Time of the last packet.
    last: Time,
}

impl Work {
    fn run(mut self) {
        if let Err(e) = self.read() {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn read(&mut self) -> Result<(), Error> {
        let mut second = (Instant::now(), 0);
        while !self.stop.load(Ordering::Relaxed) {
            if second.0.elapsed() >= SECOND {
                second = (Instant::now(), 0);
                let (counted, now) = (self.capture.counted()?, self.now());
                let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
                reader.counted(now, counted.packets, counted.lost);
                reader.tidy(now);
            }
            if second.1 >= MAX_READ {
                std::thread::sleep(SECOND.saturating_sub(second.0.elapsed()));
                continue;
            }
            if !self.capture.wait(MAX_WAIT)? {
                continue;
            }
            let now = self.now();
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            // A thread that was replaced by another reports nothing more.
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let last = &mut self.last;
            let read = self.capture.read(|packet, age| {
                // Packets are in order, even if a clock is set back.
                let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
                *last = (*last).max(Time::from_nanos(now.as_nanos().saturating_sub(age)));
                match packet {
                    Packet::Tcp(header) => reader.see(*last, header),
                    Packet::Udp(datagram) => reader.see_datagram(*last, datagram),
                }
            });
            second.1 += read.unwrap_or(0);
        }
        Ok(())
    }
}
