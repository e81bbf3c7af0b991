//! The daemon on operators' kernels: leaves, classifiers, radios, batman-adv and Babel.
//!
//! `make test-kernel` runs these in a virtual machine with time counted in instructions (scripts/kernel), so
//! that seconds may be asserted. Elsewhere they are ignored, since they load and rename modules.

#![allow(clippy::disallowed_methods)] // the machine's time passes here

/// Locks the virtual machine for one test.
macro_rules! machine {
    ($name:literal) => {{
        assert!(std::env::var_os("FAIRMESH_VM").is_some(), "only in scripts/kernel's machine");
        root($name).unwrap()
    }};
}

mod addresses;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod filters;
mod leaves;
mod radio;
mod sources;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::meter::{Meter, measure};
use common::{Box, Namespace, Path};

/// A process that ends with the test.
struct Background(Child);

impl Background {
    /// Starts a command line in a namespace.
    fn start(namespace: &str, line: &str) -> Background {
        let words = line.split_whitespace();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).args(words);
        Background(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a condition, within some seconds of the machine's time.
fn within(seconds: u64, what: &str, mut come: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    while !come() {
        assert!(start.elapsed() < Duration::from_secs(seconds), "{what}: not within {seconds} s");
        thread::sleep(Duration::from_millis(100));
    }
    start.elapsed().as_secs_f64()
}

#[track_caller]
fn close_to(what: &str, got: f64, wanted: f64) {
    let off = got / wanted - 1.0;
    println!("{what}: {:.0} kbit/s, {:+.1} %", got / 1e3, 100.0 * off);
    assert!(off.abs() < 0.05, "{what}: {got:.0} bit/s instead of {wanted:.0}");
}

/// Payload of a limit on Ethernet frames: TCP with timestamps in full frames.
const TCP: f64 = 1448.0 / 1514.0;
/// Payload of a limit on Ethernet frames: UDP datagrams of 1400 bytes.
const UDP: f64 = 1400.0 / 1442.0;

/// Checks a subscriber's limits: full datagrams in both directions, then connections.
fn limits(b: &Box, path: &Path, kind: &str) {
    b.wait_running();
    let (home, host) = ((&path.subs, "10.1.1.1:5000"), (&path.wired, "10.99.0.2:5000"));
    let udp = measure(vec![
        Meter::udp((&path.wired, "10.99.0.2:0"), home, 1400, 3000.0),
        Meter::udp((&path.subs, "10.1.1.1:0"), host, 1400, 1500.0),
    ]);
    close_to(&format!("{kind}, UDP down"), udp[0].rate, 2e6 * UDP);
    close_to(&format!("{kind}, UDP up"), udp[1].rate, 1e6 * UDP);
    let down = measure(vec![Meter::tcp(&path.wired, &path.subs, "10.1.1.1:5001")]);
    close_to(&format!("{kind}, TCP down"), down[0].rate, 2e6 * TCP);
    // Only traffic from the subscriber's address belongs to it.
    path.subs.sh("ip route replace default via 10.97.0.1 src 10.1.1.1");
    let up = measure(vec![Meter::tcp(&path.subs, &path.wired, "10.99.0.2:5001")]);
    close_to(&format!("{kind}, TCP up"), up[0].rate, 1e6 * TCP);
}

const PLAN: &str = "down = \"2 Mbit/s\"\nup = \"1 Mbit/s\"";

/// Sends datagrams of 1400 bytes between pairs at once; returns payload rates, bit/s.
fn exchange(
    (from, sources): (&Namespace, &[String]),
    (to, sinks): (&Namespace, &[String]),
    kbit: &[f64],
) -> Vec<f64> {
    let pairs = sources.iter().zip(sinks).zip(kbit);
    let meters = pairs.map(|((source, sink), k)| Meter::udp((from, source), (to, sink), 1400, *k));
    measure(meters.collect()).into_iter().map(|m| m.rate).collect()
}

/// Saves the output of a program as a fixture.
fn keep(name: &str, text: &str) {
    if std::path::Path::new("/out").is_dir() {
        std::fs::write(std::path::Path::new("/out").join(name), text).unwrap();
    }
}
