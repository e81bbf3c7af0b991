//! A medium in user space for two radios of mac80211_hwsim.
//!
//! It loses frames by rate, and records the attempts.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairmesh_linux::hwsim::{Event, Hwsim, ReceivedFrame, SentStatus};
use fairmesh_units::Stream;
use nix::poll::{PollFd, PollFlags, poll};
use nix::time::{ClockId, clock_gettime};

use crate::sent::{Mcs, Sent, Tries};

const SIGNAL_DBM: i32 = -50;

/// Probability that an MPDU arrives, by phase of the test and rate.
pub type Keeps = dyn Fn(u32, Mcs) -> f64 + Send + Sync;

/// A data frame as it was sent.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Time by the machine's monotonic clock.
    pub at: Duration,
    pub phase: u32,
    /// Rates that the kernel offered, and the used ones.
    pub series: [Tries; 4],
    pub tried: [Tries; 4],
    pub acked: bool,
}

/// The medium, until it is dropped.
pub struct Medium {
    ends: Arc<AtomicBool>,
    phase: Arc<AtomicU32>,
    frames: Arc<Mutex<Vec<Frame>>>,
    thread: Option<JoinHandle<()>>,
}

impl Medium {
    /// Replaces the kernel's own medium, in the calling thread's namespace.
    ///
    /// Frames of QoS data with MCS rates only are lost by `keeps`; all others arrive at once.
    pub fn begin(keeps: Arc<Keeps>, seed: u64) -> Medium {
        let (ends, phase) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let frames = Arc::new(Mutex::new(Vec::new()));
        let mut work = Work {
            hwsim: Hwsim::register().unwrap(),
            keeps,
            rng: Stream::new(seed, "medium"),
            radios: BTreeSet::new(),
            phase: phase.clone(),
            frames: frames.clone(),
        };
        let ended = ends.clone();
        let thread = thread::spawn(move || work.run(&ended));
        Medium { ends, phase, frames, thread: Some(thread) }
    }

    pub fn set_phase(&self, phase: u32) {
        self.phase.store(phase, Ordering::Relaxed);
    }

    pub fn frames(&self) -> Vec<Frame> {
        self.frames.lock().unwrap().clone()
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the medium panicked");
        }
    }
}

struct Work {
    hwsim: Hwsim,
    keeps: Arc<Keeps>,
    rng: Stream,
    /// Radios that have sent so far, which receive the frames of others.
    radios: BTreeSet<u32>,
    phase: Arc<AtomicU32>,
    frames: Arc<Mutex<Vec<Frame>>>,
}

impl Work {
    fn run(&mut self, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            let waits = PollFd::new(self.hwsim.as_fd(), PollFlags::POLLIN);
            if poll(&mut [waits], 50u8).unwrap_or(0) <= 0 {
                continue;
            }
            let mut sent = None;
            let each = |event: Event<'_>| {
                if let Event::Frame(frame) = event {
                    sent = Some(Sent::from(&frame));
                }
            };
            self.hwsim.receive(each).unwrap();
            if let Some(sent) = sent {
                self.carry(&sent);
            }
        }
        assert_eq!(self.hwsim.overruns(), 0, "the driver lost frames");
    }

    /// Handles a frame from start to end.
    fn carry(&mut self, sent: &Sent) {
        self.radios.insert(sent.radio);
        let by_rate = sent.qos_data() && sent.unicast() && sent.series[0].rate.is_some();
        let (tried, acked) = if by_rate {
            self.attempts(sent)
        } else {
            let first = Tries { count: 1, ..sent.series[0] };
            ([first, Tries::NONE, Tries::NONE, Tries::NONE], sent.unicast())
        };
        if acked || !sent.unicast() {
            for &radio in self.radios.iter().filter(|&&radio| radio != sent.radio) {
                self.hwsim.received(&received(sent, radio));
                self.hwsim.flush().unwrap();
            }
        }
        self.hwsim.sent(&status(sent, &tried, acked));
        self.hwsim.flush().unwrap();
    }

    /// Tries the series until one attempt is acknowledged.
    fn attempts(&mut self, sent: &Sent) -> ([Tries; 4], bool) {
        let at = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        let phase = self.phase.load(Ordering::Relaxed);
        let (mut tried, mut acked) = ([Tries::NONE; 4], false);
        'series: for (place, offered) in sent.series.iter().enumerate() {
            let Some(rate) = offered.rate else { break };
            let keeps = (self.keeps)(phase, rate);
            tried[place] = Tries { count: 0, ..*offered };
            for _ in 0..offered.count {
                tried[place].count += 1;
                acked = self.rng.chance(keeps);
                if acked {
                    break 'series;
                }
            }
        }
        self.frames.lock().unwrap().push(Frame { at, phase, series: sent.series, tried, acked });
        (tried, acked)
    }
}

/// Returns the reception of a frame by a radio.
pub fn received(sent: &Sent, radio: u32) -> ReceivedFrame<'_> {
    ReceivedFrame {
        radio,
        bytes: &sent.bytes,
        rate_index: 0,
        signal: SIGNAL_DBM,
        frequency: sent.frequency,
        airtime_us: 0,
    }
}

/// Returns the result of a frame: the used attempts, and the acknowledgement.
pub fn status(sent: &Sent, tried: &[Tries; 4], acked: bool) -> SentStatus {
    SentStatus {
        radio: sent.radio,
        cookie: sent.cookie,
        flags: sent.flags,
        acked,
        tried: tried.map(|t| (t.index, t.count)),
        signal: SIGNAL_DBM,
        airtime_us: 0,
    }
}
