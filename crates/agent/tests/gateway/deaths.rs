//! The daemon, its guard, or both, killed: no limit stays, and what is left is found.

use std::io::{Read, Write};
use std::time::Duration;

use crate::common::{Box, Path, config, rates, root};
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
        // The guard removes what limits; within two epochs, but a busy machine may take longer.
        let mut left = String::new();
        for _ in 0..400 {
            left = path.gateway.sh("tc class show dev mesh")
                + &path.gateway.sh("tc class show dev wan");
            if left.trim().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        assert_eq!(left.trim(), "", "round {round}: limits are left\n{}", b.log());
    }
    println!(
        "killed 50 times, {installed} of them with classes installed; traffic flowed {flowed} times"
    );
    assert!(installed >= 25, "{installed}");
    let (code, _, err) = b.command(&["reset"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(path.ours(), "");
}

/// Both processes killed at once: nobody is left who could clean up, and still nobody is limited
/// for long, since the kernel itself stops classifying.
#[test]
fn killed_with_its_guard_limits_lapse_by_themselves() {
    let Some(_one) = root("killed_with_its_guard") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let streams = vec![path.stream(1, 4.0)];
    let limited = |seconds| rates(&streams, Duration::from_secs(seconds))[0];
    let before = limited(3);
    assert!(before < 1.5e6, "it is limited: {before}");
    let lock = b.file("gateway.guard.lock");
    kill_holder(&lock);
    daemon.signal(Signal::SIGKILL);
    daemon.exit_code();
    let after = (0..20).map(|_| limited(1)).find(|rate| *rate > 2.5e6);
    assert!(after.is_some(), "limits stay");
    assert!(path.ours().contains("fairmesh"), "nobody removed anything");
    drop(streams);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}

/// Kills the guard: the only process with this lock on its command line.
fn kill_holder(lock: &std::path::Path) {
    assert_eq!(kill_holders(lock), 1, "guards of {}", lock.display());
}

fn kill_holders(lock: &std::path::Path) -> u32 {
    let lock = lock.to_str().unwrap();
    let mut killed = 0;
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        if line.split(|b| *b == 0).any(|word| word == lock.as_bytes()) {
            // It may end by itself meanwhile.
            let sent = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
            killed += u32::from(sent.is_ok());
        }
    }
    killed
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
    assert!(b.log().contains("another one was started"), "{}", b.log());
    // And it does what it is there for.
    daemon.end(Signal::SIGKILL);
    b.wait_event("<3>guard.died");
    assert!((0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        path.ours().is_empty()
    }));
}

/// The configuration names other interfaces after a crash: what is on the old ones goes.
#[test]
fn what_is_left_on_other_interfaces_is_found() {
    let Some(_one) = root("what_is_left_on_other_interfaces") else { return };
    let path = Path::new();
    path.gateway.sh("ip link add other type veth peer name other-peer");
    path.gateway.sh("ip link set other up");
    let old = config("apply", "fifo", "down = \"1 Mbit/s\"");
    let b = Box::new(&path, &old);
    let crash = || {
        let daemon = b.start();
        b.wait_running();
        kill_holder(&b.file("gateway.guard.lock"));
        daemon.end(Signal::SIGKILL);
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

/// Daemon, guard, or both, at any moment of their lives, with a stream and a connection running:
/// `FAIRMESH_KILLS=1000` for as often as it takes to believe it.
#[test]
fn whoever_is_killed_under_load_no_limit_stays_and_nothing_is_lost() {
    let Some(_one) = root("whoever_is_killed_under_load") else { return };
    let kills: u32 = std::env::var("FAIRMESH_KILLS").map_or(24, |n| n.parse().unwrap());
    let path = Path::new();
    let ceilings = "down = \"3 Mbit/s\"\nup = \"3 Mbit/s\"";
    let b = Box::new(&path, &config("apply", "fifo", ceilings));
    let lock = b.file("gateway.guard.lock");
    let listener =
        path.subs.spawn(|| std::net::TcpListener::bind("10.1.2.1:7000").unwrap()).join().unwrap();
    let client =
        path.wired.spawn(|| std::net::TcpStream::connect("10.1.2.1:7000").unwrap()).join().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let halt = stop.clone();
    // Below the limit, as the stream is: whatever is lost is nobody's but ours.
    let writer = std::thread::spawn(move || {
        let mut client = client;
        let mut sent = 0_u64;
        while !halt.load(std::sync::atomic::Ordering::Relaxed) {
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
    let stream = path.stream(1, 1.0);
    let mut random = 0x1234_5678_9abc_def1_u64;
    let (mut ours_before, mut exchanges, mut lapsed) = (false, 0_u32, 0);
    for round in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let daemon = b.start();
        if round % 2 == 0 {
            b.wait_running();
        }
        std::thread::sleep(Duration::from_millis(random >> 33 & 0xff));
        let who = random >> 50 & 3;
        if who == 1 {
            // The guard first: the daemon goes on, and finds another one or dies without.
            kill_holders(&lock);
            std::thread::sleep(Duration::from_millis(random >> 20 & 0x1ff));
        }
        if who == 2 {
            // Both in one moment, in which neither can do anything.
            daemon.signal(Signal::SIGSTOP);
            kill_holders(&lock);
        }
        let ours = !path.ours().is_empty();
        exchanges += u32::from(ours && !ours_before) * 2;
        assert_eq!(daemon.end(Signal::SIGKILL), None, "it ended by itself\n{}", b.log());
        let end = std::time::Instant::now() + Duration::from_secs(60);
        let guarded = who == 0 || who == 3;
        loop {
            let left = path.ours();
            if left.is_empty() {
                break;
            }
            if !guarded {
                // Nobody is left to clean up: the kernel stops by itself, which is tried now and then.
                if round % 10 != 0 {
                    break;
                }
                let set = path.gateway.sh("nft list ruleset");
                if !set.contains("expires") {
                    lapsed += 1;
                    break;
                }
            }
            assert!(std::time::Instant::now() < end, "round {round}, {who}: {left}\n{}", b.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        ours_before = !path.ours().is_empty();
        exchanges += u32::from(ours && !ours_before) * 2;
        let _ = std::fs::remove_file(b.file("log"));
    }
    assert_eq!(b.command(&["reset"]).0, 0);
    exchanges += 2;
    assert_eq!(path.ours(), "");
    let (sent, received) = stream.end();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let written = writer.join().unwrap();
    assert_eq!(reader.join().unwrap(), written);
    println!(
        "{kills} kills, {lapsed} lapses waited for, {exchanges} exchanges of a root qdisc: {sent} \
         datagrams sent, {} lost; {written} bytes by TCP intact",
        sent - received
    );
    assert!(sent > u64::from(kills) * 10, "{sent}");
    // While it exchanges an interface's root qdisc the kernel sends nothing there (dev_deactivate).
    assert!(sent - received <= u64::from(exchanges), "{} lost", sent - received);
}
