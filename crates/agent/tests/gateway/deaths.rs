//! The daemon, its guard, or both are killed: no limit stays, and left objects are removed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{Box, Daemon, Path, Pause, Stream, config, rates, root};
use nix::sys::signal::Signal;

#[test]
fn killed_fifty_times_at_random_moments_traffic_flows_and_nothing_is_left() {
    let Some(_one) = root("killed_fifty_times") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "pfrc", ""));
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut installed, mut flowed) = (0, 0);
    for round in 0..50 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let daemon = b.start();
        if round % 2 == 0 {
            // While it works; every other time while it starts.
            b.wait_running();
        }
        std::thread::sleep(Duration::from_millis(random >> 33 & 0xff));
        installed += usize::from(!path.ours().is_empty());
        assert_eq!(daemon.end(Signal::SIGKILL), None, "it ended by itself\n{}", b.log());
        assert!(path.flows(), "round {round}: nothing flows");
        flowed += 1;
        // The guard lifts limits within two epochs; a busy machine may take longer.
        within_a_minute(|| path.limited(), || format!("round {round}: limits\n{}", b.log()));
    }
    // No daemon takes over from the last one.
    within_a_minute(|| path.ours(), || b.log());
    println!(
        "killed 50 times, {installed} of them with classes installed; traffic flowed {flowed} times"
    );
    assert!(installed >= 25, "{installed}");
    let (code, _, err) = b.command(&["reset"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(path.ours(), "");
}

/// Waits until `left` is empty.
pub(crate) fn within_a_minute(left: impl Fn() -> String, what: impl Fn() -> String) {
    let (end, mut pause) = (std::time::Instant::now() + Duration::from_secs(60), Pause::new());
    loop {
        let left = left();
        if left.is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < end, "left: {left}\n{}", what());
        pause.take();
    }
}

/// Both processes are killed at once: limits end since the kernel itself stops classifying.
#[test]
fn killed_with_its_guard_limits_lapse_by_themselves() {
    let Some(_one) = root("killed_with_its_guard") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let streams = vec![path.stream(1, 4.0)];
    let limited = |seconds| rates(&streams, Duration::from_secs(seconds))[0];
    let before = (0..10).map(|_| limited(3)).find(|rate| *rate < 1.5e6);
    assert!(before.is_some(), "it is not limited");
    let lock = b.file("gateway.guard.lock");
    kill_both(daemon, &lock);
    let after = (0..20).map(|_| limited(1)).find(|rate| *rate > 2.5e6);
    assert!(after.is_some(), "limits stay");
    assert!(path.ours().contains("fairmesh"), "nothing is removed");
    drop(streams);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}

/// procd restarts the daemon after a pause, any number of times.
///
/// The start script requests this.
///
/// The daemon takes over the objects of its predecessor, and limits are in force again.
#[test]
fn procd_restarts_a_daemon_killed_with_its_guard() {
    let Some(_one) = root("procd_restarts_a_daemon_killed_with_its_guard") else { return };
    let script = include_str!("../../../../packaging/openwrt/files/fairmesh-gateway.init");
    let asks = script.lines().find_map(|l| l.trim().strip_prefix("procd_set_param respawn "));
    let asks: Vec<u64> = asks.unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
    // procd's threshold, pause, and number of retries; 0: without a bound.
    let [_, pause, 0] = asks[..] else { panic!("{asks:?}") };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let lock = b.file("gateway.guard.lock");
    let streams = vec![path.stream(1, 4.0)];
    for life in 0..3 {
        let daemon = b.start();
        b.wait_running();
        let limited = (0..10).any(|_| rates(&streams, Duration::from_secs(2))[0] < 1.5e6);
        assert!(limited, "life {life}: it is not limited\n{}", b.log());
        kill_both(daemon, &lock);
        assert!(path.ours().contains("fairmesh") && path.flows(), "life {life}");
        std::thread::sleep(Duration::from_secs(pause));
    }
    let daemon = b.start();
    b.wait_running();
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    let free = (0..10).any(|_| rates(&streams, Duration::from_secs(2))[0] > 2.5e6);
    assert!(free, "an orderly end, and limits stay");
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}

/// Kills daemon and guard at the same moment, so that neither can act.
fn kill_both(daemon: Daemon, lock: &std::path::Path) {
    daemon.signal(Signal::SIGSTOP);
    kill_holder(lock);
    daemon.end(Signal::SIGKILL);
}

/// Kills the guard, the only process with this lock.
fn kill_holder(lock: &std::path::Path) {
    within_a_minute(
        || if holders(lock).is_empty() { "none".into() } else { String::new() },
        String::new,
    );
    assert_eq!(kill_holders(lock), 1, "guards of {}", lock.display());
}

fn kill_holders(lock: &std::path::Path) -> u32 {
    // It may end by itself.
    let killed = |pid: &i32| {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), Signal::SIGKILL).is_ok()
    };
    holders(lock).iter().filter(|pid| killed(pid)).count() as u32
}

/// Returns the processes that have the lock's file and watch a daemon.
///
/// A guard that waits for the next daemon has released it.
pub(crate) fn holders(lock: &std::path::Path) -> Vec<i32> {
    let has = |process: &std::fs::DirEntry| {
        let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|word| word == b"guard")
            && files.flat_map(|f| std::fs::read_link(f.path())).any(|file| file == lock)
    };
    let number = |p: std::fs::DirEntry| p.file_name().to_str()?.parse().ok();
    std::fs::read_dir("/proc").unwrap().flatten().filter(has).filter_map(number).collect()
}

#[test]
fn a_guard_that_is_killed_is_started_again() {
    let Some(_one) = root("a_guard_that_is_killed") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    kill_holder(&b.file("gateway.guard.lock"));
    b.wait_event("guard.gone");
    assert!(b.log().contains("a new one was started"), "{}", b.log());
    // The new guard works.
    daemon.end(Signal::SIGKILL);
    b.wait_event("<3>guard.died");
    within_a_minute(|| path.limited(), || b.log());
    // It waits for another daemon to take over, and then removes the remaining objects.
    assert!(!path.ours().is_empty(), "removed at once");
    within_a_minute(|| path.ours(), || b.log());
}

/// The configuration names other interfaces after a crash.
///
/// Objects on the old ones are removed.
#[test]
fn objects_on_other_interfaces_are_removed() {
    let Some(_one) = root("what_is_left_on_other_interfaces") else { return };
    let path = Path::new();
    path.gateway.sh("ip link add other type veth peer name other-peer");
    path.gateway.sh("ip link set other up");
    let old = config("apply", "fifo", "down = \"1 Mbit/s\"");
    let b = Box::new(&path, &old);
    let crash = || {
        let daemon = b.start();
        b.wait_running();
        kill_both(daemon, &b.file("gateway.guard.lock"));
    };
    crash();
    let new = old.replace("interface = \"wan\"", "interface = \"other\"");
    b.write(&new);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
    b.write(&old);
    crash();
    b.write(&new);
    let daemon = b.start();
    b.wait_running();
    assert!(!path.gateway.sh("tc qdisc show dev wan").contains("fa1:"), "{}", b.log());
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Kills of daemon, guard, or both at random moments, with a stream and a connection running.
///
/// The next daemon takes over, or sometimes none does. `FAIRMESH_KILLS=1000` sets the number of
/// kills.
#[test]
fn after_kills_under_load_no_limit_stays_and_nothing_is_lost() {
    let Some(_one) = root("whoever_is_killed_under_load") else { return };
    let path = Path::new();
    let load = Load::start(&path);
    let exchanges = Exchanges::watch(&path);
    let b = Box::new(&path, &config("apply", "fifo", Load::CEILINGS));
    let lock = b.file("gateway.guard.lock");
    let mut random = 0x1234_5678_9abc_def1_u64;
    let (mut lapsed, mut guarded_deaths, mut removals) = (0, 0, 0);
    for round in 0..kills() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let daemon = b.start();
        if round % 2 == 0 {
            b.wait_running();
        }
        std::thread::sleep(Duration::from_millis(random >> 33 & 0xff));
        let case = random >> 50 & 3;
        if case == 1 {
            // The guard first: the daemon continues, and starts another one or dies without.
            kill_holders(&lock);
            std::thread::sleep(Duration::from_millis(random >> 20 & 0x1ff));
        }
        if case == 2 {
            // Both at the same moment, so that neither can act.
            daemon.signal(Signal::SIGSTOP);
            kill_holders(&lock);
        }
        // A daemon that is killed before it has a guard leaves the objects that it has found.
        let guarded = matches!(case, 0 | 3) && !holders(&lock).is_empty();
        guarded_deaths += u32::from(guarded);
        assert_eq!(daemon.end(Signal::SIGKILL), None, "it ended by itself\n{}", b.log());
        let place = || format!("round {round}, {case}\n{}", b.log());
        if guarded {
            within_a_minute(|| path.limited(), place);
        } else if round % 10 == 0 {
            // No process lifts limits: the kernel stops classifying, which is tested sometimes.
            let classified = || {
                let set = path.gateway.sh("nft list ruleset");
                if set.contains("expires") { set } else { String::new() }
            };
            within_a_minute(classified, place);
            lapsed += 1;
        }
        if guarded && guarded_deaths % 16 == 1 {
            within_a_minute(|| path.ours(), place);
            removals += 1;
        }
        let _ = std::fs::remove_file(b.file("log"));
    }
    within_a_minute(
        || if holders(&lock).is_empty() { String::new() } else { "a guard".into() },
        String::new,
    );
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
    let (gaps, carried) = load.end(&path);
    let exchanges = exchanges.end();
    println!(
        "{} kills, {guarded_deaths} with a guard alive, {lapsed} lapses waited for, {removals} times without a successor, \
         {exchanges} exchanges of the root qdisc: {carried}",
        kills()
    );
    assert!(guarded_deaths > kills() / 5 && removals > 0, "{guarded_deaths}, {removals}");
    // While the kernel exchanges an interface's root qdisc it sends nothing there (dev_deactivate),
    // so datagrams of that moment are lost in a row. No others are.
    assert!(gaps <= exchanges, "{gaps} places of loss, {exchanges} exchanges");
}

/// Daemon and guard die, and the next daemon takes over.
///
/// The kernel exchanges no qdisc, and no datagram is lost.
#[test]
fn taken_over_again_and_again_under_load_nothing_is_lost() {
    let Some(_one) = root("taken_over_again_and_again") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", Load::CEILINGS));
    let lock = b.file("gateway.guard.lock");
    let mut daemon = b.start();
    b.wait_running();
    let load = Load::start(&path);
    let exchanges = Exchanges::watch(&path);
    let mut late = 0;
    for round in 0..kills() / 2 {
        daemon.signal(Signal::SIGSTOP);
        assert!(kill_holders(&lock) > 0);
        assert_eq!(daemon.end(Signal::SIGKILL), None, "it ended by itself\n{}", b.log());
        let _ = std::fs::remove_file(b.file("log"));
        daemon = b.start();
        b.wait_event("shaping.installed");
        if b.log().contains("guard.late") {
            // The machine was stopped for five seconds, so the guard has removed the objects of its
            // daemon.
            late += 1;
            continue;
        }
        assert!(b.log().contains("taken over"), "{}", b.log());
        // Every other time it has set its limits.
        if round % 2 == 0 {
            b.wait("limits", |s| {
                let all = s["subscribers"].as_array().unwrap();
                all.iter().all(|s| s["ways"][0]["limit_bits_per_second"] == 3_000_000)
            });
        }
    }
    let (gaps, carried) = load.end(&path);
    println!("taken over {} times, {late} too late: {carried}", kills() / 2);
    let exchanges = exchanges.end();
    assert!(gaps <= exchanges && exchanges <= 2 * late, "{gaps}, {exchanges}, {late}");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(b.command(&["reset"]).0, 0);
}

fn kills() -> u32 {
    std::env::var("FAIRMESH_KILLS").map_or(24, |n| n.parse().unwrap())
}

/// A stream and a connection of two subscribers below their limits, on a path without loss.
struct Load {
    stop: Arc<AtomicBool>,
    writer: JoinHandle<u64>,
    reader: JoinHandle<u64>,
    stream: Stream,
}

impl Load {
    const CEILINGS: &str = "down = \"3 Mbit/s\"\nup = \"3 Mbit/s\"";

    fn start(path: &Path) -> Load {
        // Room for all retransmissions of a TCP.
        for dev in ["r0", "r1"] {
            path.router
                .sh(&format!("tc qdisc replace dev {dev} root tbf rate 8mbit burst 5k limit 4mb"));
        }
        let listener = path.subs.spawn(|| TcpListener::bind("10.1.2.1:7000").unwrap());
        let listener = listener.join().unwrap();
        // On a busy machine ARP sometimes gives up.
        let connect = || {
            let tries = (0..20).map(|_| TcpStream::connect("10.1.2.1:7000"));
            tries.into_iter().find_map(Result::ok).unwrap()
        };
        let client = path.wired.spawn(connect);
        let mut client = client.join().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let halt = stop.clone();
        let writer = std::thread::spawn(move || {
            let mut sent = 0_u64;
            while !halt.load(Ordering::Relaxed) {
                let block: Vec<u8> = (0..1000).map(|i| ((sent + i) % 251) as u8).collect();
                client.write_all(&block).unwrap();
                sent += 1000;
                std::thread::sleep(Duration::from_millis(8));
            }
            sent
        });
        let reader = std::thread::spawn(move || {
            let (mut got, mut buffer) = (0_u64, [0; 16 * 1024]);
            loop {
                let n = server.read(&mut buffer).unwrap();
                if n == 0 {
                    return got;
                }
                for byte in &buffer[..n] {
                    assert_eq!(u64::from(*byte), got % 251, "byte {got} of the connection");
                    got += 1;
                }
            }
        });
        Load { stop, writer, reader, stream: path.stream(1, 1.0) }
    }

    /// Returns the number of gaps in the datagrams, and a description of the traffic.
    fn end(self, path: &Path) -> (u64, String) {
        let (sent, received, gaps) = self.stream.end_with_gaps();
        self.stop.store(true, Ordering::Relaxed);
        let written = self.writer.join().unwrap();
        assert_eq!(self.reader.join().unwrap(), written);
        let dropped = path.router.sh("tc -s qdisc show dev r1");
        assert!(dropped.contains("(dropped 0,"), "the path itself lost something: {dropped}");
        // As many as a busy machine sends.
        assert!(sent > u64::from(kills()), "{sent}");
        let lost = sent - received;
        let carried = format!(
            "{lost} of {sent} datagrams lost in {gaps} places; {written} bytes by TCP intact"
        );
        (gaps, carried)
    }
}

/// Counter of additions and deletions of the mesh side's root qdisc.
///
/// The kernel's notifications report them.
struct Exchanges {
    monitor: std::process::Child,
    output: tempfile::NamedTempFile,
}

impl Exchanges {
    fn watch(path: &Path) -> Exchanges {
        let output = tempfile::NamedTempFile::new().unwrap();
        let mut command = std::process::Command::new("ip");
        command.args(["netns", "exec", &path.gateway.name, "stdbuf", "-oL", "tc", "monitor"]);
        command.stdout(output.reopen().unwrap()).stderr(std::process::Stdio::null());
        let monitor = command.spawn().unwrap();
        // Until it reports a qdisc that is added and deleted.
        let listening = || !std::fs::read_to_string(output.path()).unwrap().is_empty();
        while !listening() {
            path.gateway.sh("tc qdisc replace dev lo root pfifo");
            path.gateway.sh("tc qdisc del dev lo root");
        }
        Exchanges { monitor, output }
    }

    /// Each qdisc that was deleted had been added.
    fn end(mut self) -> u64 {
        self.stop();
        let output = std::fs::read_to_string(self.output.path()).unwrap();
        let out = output.lines().filter(|l| l.starts_with("deleted qdisc htb fa1: dev mesh root"));
        2 * out.count() as u64
    }

    fn stop(&mut self) {
        let _ = self.monitor.kill();
        let _ = self.monitor.wait();
    }
}

/// A test that fails leaves nothing behind.
impl Drop for Exchanges {
    fn drop(&mut self) {
        self.stop();
    }
}
