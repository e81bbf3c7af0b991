//! A medium in user space for two radios of mac80211_hwsim.
//!
//! It loses frames by rate, and records the attempts.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairmesh_linux::netlink::Batch;
use fairmesh_units::Stream;
use netlink_packet_core::NetlinkBuffer;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use nix::poll::{PollFd, PollFlags, poll};
use nix::time::{ClockId, clock_gettime};

use crate::hwsim::{self, Address, Mcs, Sent, Tries};

const SIGNAL_DBM: i32 = -50;
/// An unused position in a series.
const NONE: Tries = Tries { rate: None, index: -1, count: 0 };

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
    pub fn begin(family: u16, keeps: Arc<Keeps>, seed: u64) -> Medium {
        let mut socket = Socket::new(NETLINK_GENERIC).unwrap();
        socket.bind_auto().unwrap();
        socket.set_rx_buf_sz(8u32 << 20).unwrap();
        let (ends, phase) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let frames = Arc::new(Mutex::new(Vec::new()));
        let mut work = Work {
            socket,
            family,
            keeps,
            rng: Stream::new(seed, "medium"),
            radios: BTreeSet::new(),
            phase: phase.clone(),
            frames: frames.clone(),
            out: Batch::new(),
        };
        work.send(hwsim::register);
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
    socket: Socket,
    family: u16,
    keeps: Arc<Keeps>,
    rng: Stream,
    /// Radios that have sent so far, which receive the frames of others.
    radios: BTreeSet<Address>,
    phase: Arc<AtomicU32>,
    frames: Arc<Mutex<Vec<Frame>>>,
    out: Batch,
}

impl Work {
    fn run(&mut self, ends: &AtomicBool) {
        let mut bytes = Vec::with_capacity(64 << 10);
        while !ends.load(Ordering::Relaxed) {
            let waits = PollFd::new(self.socket.as_fd(), PollFlags::POLLIN);
            if poll(&mut [waits], 50u8).unwrap_or(0) <= 0 {
                continue;
            }
            bytes.clear();
            if self.socket.recv(&mut bytes, libc::MSG_DONTWAIT).is_err() {
                continue;
            }
            let mut rest = &bytes[..];
            while let Ok(message) = NetlinkBuffer::new_checked(rest) {
                if message.message_type() == self.family
                    && let Some(sent) = hwsim::read_sent(message.payload())
                {
                    self.carry(&sent, message.payload());
                }
                let length = (message.length() as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }

    fn send(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        self.out.clear();
        self.out.push(self.family, 0, body);
        self.socket.send_to(self.out.message(0), &SocketAddr::new(0, 0), 0).unwrap();
    }

    /// Handles a frame from start to end.
    fn carry(&mut self, sent: &Sent, payload: &[u8]) {
        self.radios.insert(sent.from);
        let by_rate = sent.qos_data() && sent.unicast() && sent.series[0].rate.is_some();
        if by_rate && self.frames.lock().unwrap().is_empty() {
            let hex: String = payload.iter().map(|b| format!("{b:02x}")).collect();
            crate::keep("hwsim-frame.hex", &(hex + "\n"));
        }
        let (tried, acked) = if by_rate {
            self.attempts(sent)
        } else {
            let first = Tries { count: 1, ..sent.series[0] };
            ([first, NONE, NONE, NONE], sent.unicast())
        };
        if acked || !sent.unicast() {
            let others: Vec<Address> =
                self.radios.iter().copied().filter(|&r| r != sent.from).collect();
            for to in others {
                self.send(|out| hwsim::deliver(out, to, sent, SIGNAL_DBM));
            }
        }
        self.send(|out| hwsim::status(out, sent, &tried, acked, SIGNAL_DBM));
    }

    /// Tries the series until one attempt is acknowledged.
    fn attempts(&mut self, sent: &Sent) -> ([Tries; 4], bool) {
        let at = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        let phase = self.phase.load(Ordering::Relaxed);
        let (mut tried, mut acked) = ([NONE; 4], false);
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
