//! Traffic between namespaces.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

/// A thread that runs until it is stopped.
#[derive(Debug)]
pub struct Running<T> {
    stop: Arc<AtomicBool>,
    pub progress: Arc<AtomicU64>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Running<T> {
    /// Calls `round` repeatedly until stopped, each time with its last result.
    pub fn start(
        state: T,
        mut round: impl FnMut(&mut T, &AtomicU64) + Send + 'static,
    ) -> Running<T> {
        let stop = Arc::new(AtomicBool::new(false));
        let progress = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (stop.clone(), progress.clone());
        let thread = thread::spawn(move || {
            let mut state = state;
            while !stopped.load(Ordering::Relaxed) {
                round(&mut state, &counted);
            }
            state
        });
        Running { stop, progress, thread }
    }

    pub fn stop(self) -> T {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Sends numbered datagrams at a steady rate to all destinations in turn.
///
/// It catches up after a delay.
///
/// The result is the number sent to each.
pub fn pace(socket: UdpSocket, to: Vec<SocketAddr>, bytes: usize, per_second: u64) -> Running<u64> {
    let start = Instant::now();
    let mut datagram = vec![0; bytes];
    Running::start(0, move |sent, progress| {
        // At most 10 ms of traffic at once, so that catching up does not overflow a queue.
        let due = start.elapsed().as_micros() as u64 * per_second / 1_000_000;
        for _ in 0..due.saturating_sub(*sent).min(per_second / 100 + 1) {
            datagram[..8].copy_from_slice(&sent.to_be_bytes());
            for &destination in &to {
                socket.send_to(&datagram, destination).unwrap();
            }
            *sent += 1;
        }
        progress.store(*sent, Ordering::Relaxed);
        thread::sleep(Duration::from_micros(500));
    })
}

/// Receives datagrams and returns their sequence numbers.
pub fn receive(socket: UdpSocket) -> Running<BTreeSet<u64>> {
    setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut buffer = [0; 2048];
    Running::start(BTreeSet::new(), move |seen, progress| match socket.recv(&mut buffer) {
        Ok(n) if n >= 8 => {
            seen.insert(u64::from_be_bytes(buffer[..8].try_into().unwrap()));
            progress.store(seen.len() as u64, Ordering::Relaxed);
        }
        Ok(_) => {}
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
        Err(e) => panic!("{e}"),
    })
}

/// Waits until a count has arrived or does not grow for a second.
pub fn drained(progress: &AtomicU64, until: u64) {
    let mut last = (0, Instant::now());
    loop {
        let now = progress.load(Ordering::Relaxed);
        if now >= until || (now == last.0 && last.1.elapsed() > Duration::from_secs(1)) {
            return;
        }
        if now != last.0 {
            last = (now, Instant::now());
        }
        thread::sleep(Duration::from_millis(5));
    }
}
