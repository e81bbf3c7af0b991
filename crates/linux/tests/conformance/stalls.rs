//! Stops of the machine itself, which delay its timers.
//!
//! Unlike the model, the kernel's HTB loses the bytes of a late timer beyond a burst.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairmesh_linux::realtime::fifo;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Sleep of a watcher.
const STEP: Duration = Duration::from_millis(1);
/// Gap from which a processor counts as stopped.
///
/// Both sides have bursts of 15 ms and more.
const STALL: Duration = Duration::from_millis(5);

/// A watcher per processor, with a priority above every ordinary thread.
pub struct Watch {
    stop: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<Vec<Stall>>>,
}

/// End and duration of a stop of a processor.
type Stall = (Instant, Duration);

/// Stops of all processors.
pub struct Stalls(Vec<Stall>);

impl Watch {
    pub fn start() -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let here = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        let watch = |cpu| {
            let stop = stop.clone();
            std::thread::spawn(move || watch(cpu, &stop))
        };
        Watch { watchers: here.map(watch).collect(), stop }
    }

    pub fn end(self) -> Stalls {
        self.stop.store(true, Ordering::Relaxed);
        Stalls(self.watchers.into_iter().flat_map(|w| w.join().unwrap()).collect())
    }
}

fn watch(cpu: usize, stop: &AtomicBool) -> Vec<Stall> {
    let mut one = CpuSet::new();
    one.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
    assert!(fifo(50), "root may watch");
    let mut stalls = Vec::new();
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(STEP);
        let now = Instant::now();
        if now - last > STALL {
            stalls.push((now, now - last));
        }
        last = now;
    }
    stalls
}

impl Stalls {
    /// Returns the sum of all processors' stops up to an instant.
    pub fn until(&self, at: Instant) -> Duration {
        self.0.iter().filter(|(end, gap)| *end - *gap < at).map(|(_, gap)| *gap).sum()
    }
}
