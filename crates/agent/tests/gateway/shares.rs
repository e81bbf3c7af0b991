//! Shares and queues of configured, discovered and unknown subscribers.

use std::io::{Read, Write};
use std::time::Duration;

use crate::common::{Box, Path, Stream, config, jain, rates, root};
use nix::sys::signal::Signal;

/// Returns the rates of streams over some seconds, once their Jain index fulfils `there`.
///
/// A busy machine delays epochs and senders, most of all the fast one.
fn rates_once(streams: &[Stream], seconds: u64, there: impl Fn(f64) -> bool) -> Vec<f64> {
    let mut seen = Vec::new();
    for _ in 0..20 {
        seen = rates(streams, Duration::from_secs(seconds));
        if there(jain(&seen)) {
            break;
        }
    }
    seen
}

/// Three streams of 16, 3 and 3 Mbit/s through 8: without limits the first takes nearly all.
#[test]
fn pfrc_makes_an_unfair_path_fair() {
    let Some(_one) = root("pfrc_makes_an_unfair_path_fair") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("observe", "pfrc", ""));
    let streams: Vec<_> =
        [(1, 16.0), (2, 3.0), (3, 3.0)].map(|(i, mbps)| path.stream(i, mbps)).into();
    let daemon = b.start();
    b.wait_running();
    std::thread::sleep(Duration::from_secs(2));
    let before = rates_once(&streams, 4, |jain| jain < 0.85);
    assert!(jain(&before) < 0.85, "it was fair already: {before:?}");
    // In mode observe it reports intended limits and sets none.
    let why = b.json(&["why", "sub 1"]).unwrap();
    let way = &why["ways"][0];
    assert!(way["limit_bits_per_second"].is_null(), "{way}");
    assert!(way["meant_bits_per_second"].as_u64().unwrap() > 0, "{way}");
    assert_eq!(way["not_in_force_because"], "observe");
    assert_eq!(b.json(&["status"]).unwrap()["released_because"], "observe");

    b.write(&config("apply", "pfrc", ""));
    daemon.signal(Signal::SIGHUP);
    b.wait("applied", |s| s["mode"] == "apply");
    let after = rates_once(&streams, 3, |jain| jain > 0.97);
    println!("without limits {before:.0?} (Jain {:.3})", jain(&before));
    println!("with pfrc      {after:.0?} (Jain {:.3})", jain(&after));
    assert!(jain(&after) > 0.97, "{after:?}\n{}", b.log());
    let (total, total_before) = (after.iter().sum::<f64>(), before.iter().sum::<f64>());
    assert!(total > 0.6 * total_before, "{after:?} {before:?}");
    let why = b.json(&["why", "sub 1"]).unwrap();
    assert!(why["ways"][0]["last_change"]["code"].as_str().unwrap().starts_with("pfrc."), "{why}");

    // The metrics have the same values.
    let page = path.gateway.spawn(|| {
        let mut stream = std::net::TcpStream::connect("127.0.0.1:9742").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let page = page.join().unwrap();
    for line in [
        "fairmesh_gateway_enforcing 1",
        "fairmesh_gateway_subscriber_sent_bytes_total{subscriber=\"sub 1\",direction=\"down\"}",
        "fairmesh_gateway_phase{phase=\"running\"} 1",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    drop(streams);
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert!(!path.gateway.sh("tc class show dev mesh").contains("rate 1Mbit"), "limits are gone");
    // The part of a minute until the end is in the history, with the bytes of all three.
    let report = b.json(&["report", "--since", "1h"]).unwrap();
    assert_eq!((&report["homes"], &report["damage"]["bytes"]), (&3.into(), &0.into()), "{report}");
    assert!(report["mesh"]["enforced"].as_u64().unwrap() > 0, "{report}");
    let page = b.file("report.html");
    let (code, text, err) = b.command(&["report", "--html", page.to_str().unwrap()]);
    println!("{text}");
    assert_eq!(code, 0, "{err}");
    assert!(std::fs::read_to_string(page).unwrap().starts_with("<!doctype html>"));
    let (code, out, err) = b.command(&["reset"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(path.ours(), "");
}

#[test]
fn subscribers_are_discovered_from_routes_and_go_with_them() {
    let Some(_one) = root("subscribers_are_discovered") else { return };
    let path = Path::new();
    path.gateway.sh("ip route add 10.77.1.0/24 via 10.98.0.2");
    let mut text = config("apply", "fifo", "down = \"2 Mbit/s\"");
    text += "[discover]\nroutes = true\nroutes_by = \"route\"\nbabel = \"127.0.0.1:1\"\nplan = \"all\"\nevery = \"1 s\"\nlinger = \"0 s\"\n";
    let b = Box::new(&path, &text);
    let daemon = b.start();
    let names = |s: &serde_json::Value| -> Vec<String> {
        let all = s["subscribers"].as_array().unwrap();
        all.iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect()
    };
    let has = |name: &'static str| move |s: &serde_json::Value| names(s).iter().any(|n| n == name);
    let status = b.wait("discovered", has("10.77.1.0/24"));
    assert!(!names(&status).contains(&"10.98.0.0/24".to_owned()), "the gateway's own network");
    b.wait("limited", |s| {
        let all = s["subscribers"].as_array().unwrap();
        all.iter().all(|s| s["ways"][0]["limit_bits_per_second"] == 2_000_000)
    });
    // A source that does not respond is named, and its homes stay.
    b.wait_event("source.failed");
    path.gateway.sh("ip route del 10.77.1.0/24");
    b.wait("gone", |s| !has("10.77.1.0/24")(s));
    daemon.end(Signal::SIGTERM);
}

/// All traffic without a configured subscriber shares one class.
///
/// The gateway's own traffic is not in it.
#[test]
fn made_up_addresses_gain_nothing() {
    let Some(_one) = root("made_up_addresses") else { return };
    let path = Path::new();
    let known = "[[subscriber]]\nname = \"sub 3\"";
    let text =
        config("apply", "fifo", "").replace("unmapped = \"pass\"", "unmapped = \"limit 1 Mbit/s\"");
    // The first two are unknown.
    let (head, tail) = (text.find("[[subscriber]]").unwrap(), text.find(known).unwrap());
    let b = Box::new(&path, &format!("{}{}", &text[..head], &text[tail..]));
    let daemon = b.start();
    b.wait_running();
    let streams: Vec<_> = [1, 2, 3].map(|i| path.stream(i, 2.0)).into();
    std::thread::sleep(Duration::from_secs(1));
    // A busy machine delays senders and bunches arrivals; this passes.
    let mut got = Vec::new();
    let limited = (0..10).any(|_| {
        got = rates(&streams, Duration::from_secs(4));
        got[0] + got[1] < 1.2e6 && got[2] > 1.5e6
    });
    assert!(limited, "two addresses, one limit, and one without: {got:?}");
    // From the gateway itself.
    let from = path.gateway.udp("10.98.0.1:0");
    let to = path.subs.udp("10.1.1.1:4000");
    to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let count = || {
        let classes = path.gateway.sh("tc -s class show dev mesh classid fa1:fff0");
        let words: Vec<&str> = classes.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "Sent").unwrap();
        words[at + 1].parse::<u64>().unwrap()
    };
    let before = count();
    for _ in 0..5 {
        from.send_to(&[0; 1000], "10.1.1.1:4000").unwrap();
        to.recv(&mut [0; 2000]).unwrap();
    }
    assert!(count() >= before + 5_000, "not in anybody's class");
    // `status` shows it as a subscriber.
    let status = b.json(&["status"]).unwrap();
    assert!(status["subscribers"].to_string().contains("(unmapped)"), "{status}");
    streams.into_iter().for_each(|s| _ = s.end());
    // The policy can be changed while it runs.
    let now = std::fs::read_to_string(b.file("gateway.toml")).unwrap();
    b.write(&now.replace("limit 1 Mbit/s", "pass"));
    assert_eq!(b.command(&["reload"]).0, 0);
    let streams = vec![path.stream(1, 3.0)];
    let free = (0..10).any(|_| {
        got = rates(&streams, Duration::from_secs(3));
        got[0] > 2e6
    });
    assert!(free, "{got:?}");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// The queue that a control requests is in the kernel.
///
/// A second setting of the queue is refused.
#[test]
fn the_queue_of_a_control_is_built_or_refused() {
    let Some(_one) = root("the_queue_of_a_control_is_built_or_refused") else { return };
    let path = Path::new();
    let asked = config("apply", "pfrc", "").replace("use = \"pfrc\"", "use = \"pfrc\"\nqueue = 7");
    assert!(asked.contains("queue = 7"), "{asked}");
    let b = Box::new(&path, &asked);
    let daemon = b.start();
    b.wait_running();
    for side in ["mesh", "wan"] {
        let leaves = path.gateway.sh(&format!("tc qdisc show dev {side}"));
        let of_ours = leaves.lines().filter(|l| l.contains("pfifo") && l.contains("limit 7p"));
        assert_eq!(of_ours.count(), 3, "a queue of 7 for each subscriber\n{leaves}");
        assert!(!leaves.contains("fq_codel"), "{leaves}");
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    for (leaf, refused) in [("bfifo", true), ("control", false)] {
        let sample = "sample = \"1 s\"";
        b.write(&asked.replace(sample, &format!("{sample}\nleaf = \"{leaf}\"")));
        let (code, out, err) = b.command(&["check"]);
        let named =
            (out.clone() + &err).contains("control.queue: shaping.leaf sets the queue already");
        assert_eq!((code == 2, named), (refused, refused), "{out}{err}");
    }
}

/// One forged identity or two hundred: all forged addresses together have one share.
#[test]
fn made_up_addresses_share_one_share() {
    let Some(_one) = root("made_up_addresses_share") else { return };
    let path = Path::new();
    let text = config("apply", "pfrc", "").replace("unmapped = \"pass\"", "unmapped = \"share\"");
    let known = text.find("[[subscriber]]\nname = \"sub 3\"").unwrap();
    let head = text.find("[[subscriber]]").unwrap();
    let b = Box::new(&path, &format!("{}{}", &text[..head], &text[known..]));
    let daemon = b.start();
    b.wait_running();
    // Upstream, from a new address with every packet, beside a regular subscriber.
    let sink = path.wired.udp("10.99.0.2:6000");
    sink.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for i in 0..200 {
        path.subs.sh(&format!("ip addr add 10.1.50.{i}/32 dev lo"));
    }
    let send = |sources: Vec<std::net::UdpSocket>, gap: Duration| {
        let halt = stop.clone();
        std::thread::spawn(move || {
            let mut next = std::time::Instant::now();
            // Two periodic senders lock into phase at a full queue, and one of them permanently
            // gets less.
            let mut chance = fairmesh_units::Stream::new(sources.len() as u64, "sender");
            for source in sources.iter().cycle() {
                if halt.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                let _ = source.send_to(&[0; 1372], "10.99.0.2:6000");
                let gap = gap.mul_f64(0.5 + chance.unit());
                next = (next + gap).max(std::time::Instant::now() - 4 * gap);
                std::thread::sleep(next.saturating_duration_since(std::time::Instant::now()));
            }
        })
    };
    let many = (0..200).map(|i| path.subs.udp(format!("10.1.50.{i}:0"))).collect();
    // 7 Mbit/s by 200 identities, 7 by one: more together than the path carries.
    let threads = [
        send(many, Duration::from_micros(1600)),
        send(vec![path.subs.udp("10.1.3.1:0")], Duration::from_micros(1600)),
    ];
    let mut got = [0_u64; 2];
    let mut fair = false;
    let mut buffer = [0; 2000];
    for _ in 0..40 {
        got = [0; 2];
        let end = std::time::Instant::now() + Duration::from_secs(3);
        while std::time::Instant::now() < end {
            if let Ok((n, from)) = sink.recv_from(&mut buffer) {
                got[usize::from(from.ip().to_string() == "10.1.3.1")] += n as u64;
            }
        }
        // Half and half, as for two households.
        fair = got[1] * 10 > 9 * got[0];
        if fair {
            break;
        }
    }
    println!("{} bytes by 200 identities, {} by an honest one", got[0], got[1]);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert!(fair, "{got:?}\n{}", b.log());
    // And one Ethernet address after the other.
    let classes = || path.gateway.sh("tc -s class show dev wan classid fa1:fff0");
    let sent = |text: String| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "Sent").unwrap();
        words[at + 1].parse::<u64>().unwrap()
    };
    let before = sent(classes());
    let source = path.subs.udp("10.1.50.7:0");
    let mut arrived = 0;
    for i in 0..20 {
        path.router.sh(&format!("ip link set r0 address 02:00:00:00:77:{i:02x}"));
        path.gateway
            .sh(&format!("ip neigh replace 10.98.0.2 lladdr 02:00:00:00:77:{i:02x} dev mesh"));
        source.send_to(&[0; 1000], "10.99.0.2:6000").unwrap();
        arrived += u32::from(sink.recv_from(&mut buffer).is_ok());
    }
    assert!(arrived > 10, "{arrived}");
    assert_eq!(sent(classes()), before, "no traffic bypasses the shared class");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}
