//! A network namespace of a test, and commands in it; also used by the daemon's tests.

use std::fs::File;
use std::io::Write;
use std::net::{ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns};

/// Runs a command to its end; returns `None` if there is no such command.
pub fn run(command: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(command).args(arguments).output().ok()
}

/// Runs a command line that must succeed; returns its output.
pub fn sh(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let out = run(words[0], &words[1..]).unwrap_or_else(|| panic!("{line}"));
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Runs lines of `ip` in one process.
pub fn ip(options: &[&str], lines: &[&str]) {
    let mut child = Command::new("ip")
        .args(options)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{lines:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A network namespace that ends with the test.
#[derive(Debug)]
pub struct Namespace {
    pub name: String,
    ends: bool,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Namespace {
    pub fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("fmtest-{}-{number}", std::process::id());
        sh(&format!("ip netns add {name}"));
        Namespace { name, ends: true }
    }

    /// Returns a second handle; the namespace ends with the first one.
    pub fn again(&self) -> Self {
        Namespace { name: self.name.clone(), ends: false }
    }

    /// Runs a command line inside; it must succeed.
    pub fn sh(&self, line: &str) -> String {
        let name = &self.name;
        // A process enters a namespace by mounting its files, which is slow on an emulated
        // processor.
        match line.split_once(' ') {
            Some(("ip", rest)) if !rest.starts_with("netns") => sh(&format!("ip -n {name} {rest}")),
            Some(("tc", rest)) => sh(&format!("tc -n {name} {rest}")),
            Some(("sysctl", rest)) => self.sysctl(rest.trim_start_matches("-qw ")),
            _ => sh(&format!("ip netns exec {name} {line}")),
        }
    }

    /// Runs lines of `ip` inside, in one process.
    pub fn ip(&self, lines: &[&str]) {
        ip(&["-n", &self.name], lines);
    }

    /// Sets values like `sysctl -w`, without a process.
    fn sysctl(&self, settings: &str) -> String {
        for setting in settings.split_whitespace() {
            let (key, value) = setting.split_once('=').unwrap();
            let file = format!("/proc/sys/{}", key.replace('.', "/"));
            let value = value.to_owned();
            let what = format!("{file} {value}");
            let set = self.spawn(move || std::fs::write(file, value)).join().unwrap();
            set.unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        String::new()
    }

    /// Runs a closure inside, on a separate thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        inside: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = PathBuf::from("/run/netns").join(&self.name);
        thread::spawn(move || {
            let ns = File::open(&path).unwrap();
            setns(ns, CloneFlags::CLONE_NEWNET).unwrap();
            inside()
        })
    }

    /// Runs a closure inside and waits for its result.
    pub fn within<T: Send + 'static>(&self, inside: impl FnOnce() -> T + Send + 'static) -> T {
        match self.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Returns a UDP socket inside.
    pub fn udp(&self, address: impl ToSocketAddrs) -> UdpSocket {
        let address = address.to_socket_addrs().unwrap().next().unwrap();
        let socket = self.within(move || UdpSocket::bind(address));
        socket.unwrap_or_else(|e| panic!("{address}: {e}"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.ends {
            run("ip", &["netns", "del", &self.name]);
        }
    }
}
