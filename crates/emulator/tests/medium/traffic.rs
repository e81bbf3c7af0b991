//! Traffic between stations: datagrams as fast as the sockets take them, and connections.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use fairmesh_linux::tcp;

use crate::PAYLOAD;
use crate::mesh::{Mesh, address};

/// Time before a measurement for rate control and queues, s.
pub const SETTLING: f64 = 1.5;

/// Sends full datagrams between pairs of stations at once; returns received payload, bit/s.
pub fn saturate(mesh: &Mesh, pairs: &[(usize, usize)], seconds: f64) -> Vec<f64> {
    let settling = Duration::from_secs_f64(SETTLING.min(seconds / 3.0));
    let start = Instant::now();
    let (from, until) = (start + settling, start + settling + Duration::from_secs_f64(seconds));
    thread::scope(|threads| {
        let sinks: Vec<_> = pairs
            .iter()
            .enumerate()
            .map(|(k, &(_, to))| {
                let port = 7000 + k as u16;
                let socket = mesh.nodes[to].enter(|| UdpSocket::bind(("0.0.0.0", port))).unwrap();
                socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                threads.spawn(move || {
                    let (mut bytes, mut buffer) = (0u64, [0; 2048]);
                    while Instant::now() < until {
                        if let Ok(n) = socket.recv(&mut buffer)
                            && Instant::now() >= from
                        {
                            bytes += n as u64;
                        }
                    }
                    bytes as f64 * 8.0 / seconds
                })
            })
            .collect();
        for (k, &(from, to)) in pairs.iter().enumerate() {
            let target = format!("{}:{}", address(to), 7000 + k);
            let socket = mesh.nodes[from].enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
            threads.spawn(move || {
                let packet = [0; PAYLOAD as usize];
                while Instant::now() < until {
                    // No route yet, or no buffer: the next one.
                    if socket.send_to(&packet, &target).is_err() {
                        thread::sleep(Duration::from_millis(10));
                    }
                }
            });
        }
        sinks.into_iter().map(|s| s.join().unwrap()).collect()
    })
}

/// Connections between pairs of stations at once; returns received payload, bit/s.
pub fn tcp(mesh: &Mesh, pairs: &[(usize, usize)], seconds: f64) -> Vec<f64> {
    transfers(mesh, pairs, SETTLING, seconds).into_iter().map(|t| t.rate).collect()
}

/// Result of a connection.
pub struct Transfer {
    /// Received payload, bit/s.
    pub rate: f64,
    /// Mean round trip that its sender has measured, s.
    pub round_trip: f64,
}

/// Uploads with round trips, measured after `settling` seconds of the same connections.
pub fn transfers(
    mesh: &Mesh,
    pairs: &[(usize, usize)],
    settling: f64,
    seconds: f64,
) -> Vec<Transfer> {
    let mut ends = Vec::new();
    for (k, &(from, to)) in pairs.iter().enumerate() {
        let port = 7100 + k as u16;
        let listener = mesh.nodes[to].enter(|| TcpListener::bind(("0.0.0.0", port))).unwrap();
        let target = format!("{}:{port}", address(to));
        let sender = mesh.nodes[from].enter(|| TcpStream::connect(&target)).unwrap();
        ends.push((sender, listener.accept().unwrap().0));
    }
    let start = Instant::now();
    let since = start + Duration::from_secs_f64(settling);
    let until = since + Duration::from_secs_f64(seconds);
    thread::scope(|threads| {
        let sinks: Vec<_> = ends
            .into_iter()
            .map(|(sender, receiver)| {
                let sender = threads.spawn(move || send(sender, since, until));
                (sender, threads.spawn(move || receive(receiver, since, until)))
            })
            .collect();
        let result = |(sender, receiver): (ScopedJoinHandle<'_, f64>, Receiver<'_>)| Transfer {
            rate: receiver.join().unwrap().unwrap() as f64 * 8.0 / seconds,
            round_trip: sender.join().unwrap(),
        };
        sinks.into_iter().map(result).collect()
    })
}

type Receiver<'a> = ScopedJoinHandle<'a, io::Result<u64>>;

/// Sends until an instant; returns the mean round trip from another one on, s.
fn send(mut sender: TcpStream, since: Instant, until: Instant) -> f64 {
    let (mut sum, mut samples) = (0.0, 0.0);
    let block = [0; 1 << 14];
    // A write waits for room; the end of the measurement ends it.
    let _ = sender.set_write_timeout(Some(Duration::from_millis(200)));
    while Instant::now() < until {
        match sender.write(&block) {
            Err(e) if !waits(&e) => break,
            _ => {}
        }
        if Instant::now() >= since {
            sum += tcp::info(&sender).unwrap().round_trip.as_secs_f64();
            samples += 1.0;
        }
    }
    let _ = sender.shutdown(std::net::Shutdown::Both);
    sum / f64::max(samples, 1.0)
}

/// Returns the bytes received between two instants.
fn receive(mut receiver: TcpStream, since: Instant, until: Instant) -> io::Result<u64> {
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
    while Instant::now() < until {
        match receiver.read(&mut buffer) {
            Ok(n) if Instant::now() >= since => bytes += n as u64,
            Err(e) if !waits(&e) => return Err(e),
            _ => {}
        }
    }
    Ok(bytes)
}

fn waits(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
