//! Traffic between namespaces, and its throughput, loss and delay.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Namespace;

/// Time zero of the times in datagrams.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Time before the measurement, in which queues and buckets fill.
const WARM_UP: Duration = Duration::from_secs(2);
/// Duration of the measurement.
const MEASURED: Duration = Duration::from_secs(5);

/// A flow that is sent and counted until it is dropped.
pub struct Meter {
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
    delays: Arc<Mutex<Vec<Duration>>>,
    threads: Vec<JoinHandle<()>>,
}

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct Metered {
    /// Payload, bit/s.
    pub rate: f64,
    /// Datagrams sent and not received.
    pub lost: f64,
    /// Delays of the received datagrams, ascending.
    pub delays: Vec<Duration>,
}

impl Metered {
    /// Returns the 95th percentile of the delays, ms.
    pub fn p95(&self) -> f64 {
        assert!(self.delays.len() >= 20, "{} datagrams", self.delays.len());
        self.delays[self.delays.len() * 95 / 100].as_secs_f64() * 1e3
    }
}

impl Meter {
    fn new() -> Meter {
        LazyLock::force(&EPOCH);
        let [bytes, sent] = [(); 2].map(|()| Arc::default());
        Meter { stop: Arc::default(), bytes, sent, delays: Arc::default(), threads: Vec::new() }
    }

    /// Starts a TCP connection with unlimited data.
    pub fn tcp(from: &Namespace, to: &Namespace, sink: &str) -> Meter {
        let mut meter = Meter::new();
        let at: SocketAddr = sink.parse().unwrap();
        let listener = to.spawn(move || TcpListener::bind(at).unwrap()).join().unwrap();
        let mut source = from.spawn(move || TcpStream::connect(at).unwrap()).join().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let (halt, bytes, end) =
            (meter.stop.clone(), meter.bytes.clone(), source.try_clone().unwrap());
        meter.threads.push(thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while !halt.load(Ordering::Relaxed) {
                bytes.fetch_add(stream.read(&mut buffer).unwrap_or(0) as u64, Ordering::Relaxed);
            }
            // Unread data is left behind, which resets the connection; the writer wakes up.
            let _ = end.shutdown(Shutdown::Both);
        }));
        meter.threads.push(thread::spawn(move || while source.write_all(&[0; 1 << 14]).is_ok() {}));
        meter
    }

    /// Starts datagrams of some bytes at a steady rate, kbit/s of payload.
    pub fn udp(
        (from, source): (&Namespace, &str),
        (to, sink): (&Namespace, &str),
        bytes: usize,
        kbit: f64,
    ) -> Meter {
        let mut meter = Meter::new();
        let (source, sink) = (from.udp(source), to.udp(sink));
        sink.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let at = sink.local_addr().unwrap();
        let (halt, sent) = (meter.stop.clone(), meter.sent.clone());
        let gap = Duration::from_secs_f64(bytes as f64 * 8.0 / (kbit * 1e3));
        meter.threads.push(thread::spawn(move || send(&source, at, bytes, gap, &halt, &sent)));
        let (halt, count, delays) = (meter.stop.clone(), meter.bytes.clone(), meter.delays.clone());
        meter.threads.push(thread::spawn(move || {
            let mut buffer = [0; 2000];
            while !halt.load(Ordering::Relaxed) {
                let Ok(n) = sink.recv(&mut buffer) else { continue };
                let stamp = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                let delay = EPOCH.elapsed().saturating_sub(Duration::from_nanos(stamp));
                count.fetch_add(n as u64, Ordering::Relaxed);
                delays.lock().unwrap().push(delay);
            }
        }));
        meter
    }

    /// Returns the payload received so far, bytes.
    pub fn received(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn read(&self) -> (u64, u64, usize) {
        let delays = self.delays.lock().unwrap().len();
        (self.bytes.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed), delays)
    }
}

fn send(
    from: &UdpSocket,
    to: SocketAddr,
    bytes: usize,
    gap: Duration,
    halt: &AtomicBool,
    sent: &AtomicU64,
) {
    let mut datagram = vec![0; bytes];
    while !halt.load(Ordering::Relaxed) {
        let now = EPOCH.elapsed().as_nanos() as u64;
        datagram[..8].copy_from_slice(&now.to_be_bytes());
        sent.fetch_add(u64::from(from.send_to(&datagram, to).is_ok()), Ordering::Relaxed);
        thread::sleep(gap);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Measures several flows at the same time.
pub fn measure(meters: Vec<Meter>) -> Vec<Metered> {
    thread::sleep(WARM_UP);
    let read = || meters.iter().map(Meter::read).collect::<Vec<_>>();
    let (before, start) = (read(), Instant::now());
    thread::sleep(MEASURED);
    let (after, seconds) = (read(), start.elapsed().as_secs_f64());
    let each = meters.iter().zip(before).zip(after);
    each.map(|((meter, b), a)| {
        let mut delays = meter.delays.lock().unwrap()[b.2..a.2].to_vec();
        delays.sort();
        let lost = (a.1 - b.1) as f64 - delays.len() as f64;
        Metered { rate: (a.0 - b.0) as f64 * 8.0 / seconds, lost, delays }
    })
    .collect()
}
