//! Changed, invalid and growing configurations of a running daemon.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Box, Path, Pause, config, root};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

#[test]
fn a_hundred_reloads_under_load_lose_no_packet_and_no_connection() {
    let Some(_one) = root("a_hundred_reloads") else { return };
    let path = Path::new();
    let ceilings = |down: u32| format!("down = \"{down} Mbit/s\"\nup = \"{down} Mbit/s\"");
    let b = Box::new(&path, &config("apply", "fifo", &ceilings(6)));
    let daemon = b.start();
    b.wait_running();
    // One connection over the whole test, and a stream below every limit.
    let listener =
        path.subs.spawn(|| std::net::TcpListener::bind("10.1.2.1:7000").unwrap()).join().unwrap();
    let mut client =
        path.wired.spawn(|| std::net::TcpStream::connect("10.1.2.1:7000").unwrap()).join().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let stream = path.stream(1, 3.0);
    std::thread::sleep(Duration::from_millis(500));
    for i in 0..100_u32 {
        // Rates, subscribers and mode change in turn.
        let mode = if i % 10 == 9 { "observe" } else { "apply" };
        let mut text = config(mode, "fifo", &ceilings(5 + i % 3));
        if i % 2 == 0 {
            text += "[[subscriber]]\nname = \"late\"\nprefixes = [\"10.1.77.0/24\"]\n";
        }
        b.write(&text);
        let (code, _, err) = b.command(&["reload"]);
        assert_eq!(code, 0, "{err}");
        client.write_all(&[i as u8]).unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [i as u8]);
        std::thread::sleep(Duration::from_millis(20));
    }
    // A restart, as for an upgrade, takes over the classes of the previous daemon.
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    let daemon = b.start();
    b.wait_running();
    assert!(b.log().contains("taken over"), "{}", b.log());
    let (sent, received) = stream.end();
    println!("100 reloads: {sent} packets sent, {received} received");
    assert!(sent > 300, "{sent}");
    assert_eq!(received, sent, "lost {}\n{}", sent - received, b.log());
    assert!(path.gateway.sh("tc class show dev mesh").contains("ceil"), "still installed");
    daemon.end(Signal::SIGTERM);
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let Some(_one) = root("a_wrong_configuration") else { return };
    let path = Path::new();
    let good = config("apply", "fifo", "down = \"3 Mbit/s\"");
    let b = Box::new(&path, &good.replace("capacity = \"8 Mbit/s\"", "capacity = \"8\""));
    // It does not start, reports the error, and changes nothing.
    assert_eq!(b.start().exit_code(), Some(2));
    let log = b.log();
    assert!(log.contains("gateway.toml:") && log.contains("has no unit; expected a rate"), "{log}");
    assert_eq!(path.ours(), "");
    let (code, _, err) = b.command(&["check"]);
    assert_eq!(code, 2);
    assert!(err.contains("neighbour[0].capacity"), "{err}");

    b.write(&good);
    assert_eq!(b.command(&["check"]).0, 0);
    assert_eq!(path.ours(), "", "check touches nothing");
    let daemon = b.start();
    b.wait_running();
    let classes = || path.gateway.sh("tc class show dev mesh");
    let before = classes();
    b.write(&good.replace("down = \"3 Mbit/s\"", "down = \"fast\""));
    let (code, _, err) = b.command(&["reload"]);
    assert_eq!(code, 2);
    assert!(err.contains("plan.all.down: \"fast\" has no number; expected a rate"), "{err}");
    daemon.signal(Signal::SIGHUP);
    b.wait_event("config.refused");
    assert_eq!(classes(), before);
    // Changes that need a restart are refused, too.
    b.write(&good.replace("\"wan\"", "\"lo\""));
    let (code, _, err) = b.command(&["reload"]);
    assert!(code == 2 && err.contains("wired.interface"), "{err}");
    assert_eq!(classes(), before);
    // The last configuration that worked is kept.
    let kept = std::fs::read_to_string(b.file("state/gateway.last-good.toml")).unwrap();
    assert!(kept.starts_with(&good));
    // A second daemon does not start and changes nothing.
    assert_eq!(b.start().exit_code(), Some(2));
    let (code, _, err) = b.command(&["reset"]);
    assert!(code == 2 && err.contains("running"), "{err}");
    assert_eq!(classes(), before);
    daemon.end(Signal::SIGTERM);
    let (code, _, err) = b.command(&["status"]);
    assert!(code == 2 && err.contains("expected a running daemon"), "{err}");
}

#[test]
fn overrides_survive_a_restart_and_end() {
    let Some(_one) = root("overrides") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"3 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let (code, out, err) =
        b.command(&["override", "sub 2", "--rate", "500 kbit/s", "--for", "1h", "--down"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("limited by override"), "{out}");
    daemon.end(Signal::SIGKILL);
    let daemon = b.start();
    b.wait_running();
    let way = || b.json(&["why", "sub 2"]).unwrap()["ways"][0].clone();
    let w = way();
    assert_eq!(w["limit_bits_per_second"], 500_000);
    assert!(w["override_seconds_left"].as_f64().unwrap() > 3000.0, "{w}");
    assert_eq!(b.command(&["override", "sub 2", "--clear"]).0, 0);
    b.wait("cleared", |s| s["subscribers"][1]["ways"][0]["limited_by"] == "plan");
    let (code, _, err) = b.command(&["why", "nobody"]);
    assert!(code == 2 && err.contains("there is no subscriber \"nobody\""), "{err}");
    daemon.end(Signal::SIGTERM);
}

/// Calls of rpcd, as LuCI makes them (packaging/openwrt/luci/view/homes.js).
#[test]
fn calls_by_ubus_reach_the_daemon() {
    let Some(_one) = root("calls_by_ubus") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"3 Mbit/s\""));
    let (code, out, err) = b.command(&["report"]);
    assert!(code == 0 && out.starts_with("no history yet; no daemon responds"), "{out}{err}");
    let daemon = b.start();
    b.wait_running();
    let call = |method: &str, arguments: Value| {
        let mut command = b.program();
        command.args(["ubus", "call", method, "--config"]).arg(b.file("gateway.toml"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(arguments.to_string().as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{method}");
        let result: Value = serde_json::from_slice(&out.stdout).unwrap();
        // Writes the results that ui/test/luci.test.mjs shows.
        if let (Ok(folder), None) = (std::env::var("FAIRMESH_UBUS_FIXTURES"), result.get("error")) {
            std::fs::write(format!("{folder}/ubus-{method}.json"), &out.stdout).unwrap();
        }
        result
    };
    let paused = call(
        "override",
        json!({ "name": "sub 2", "rate": "8 kbit/s", "time": "1h", "direction": "both", "ubus_rpc_session": "0" }),
    );
    assert_eq!(paused["ways"][1]["limited_by"], "override", "{paused}");
    let status = call("status", json!({}));
    assert_eq!(status["mode"], "apply");
    let way = &status["subscribers"][1]["ways"][0];
    assert_eq!(way["limit_bits_per_second"], 8_000, "{way}");
    let history = call("report", json!({ "since": "24h" }));
    assert!(history["starved"].is_array() && history["notes"].is_array(), "{history}");
    let reason = "no history yet; the first minute ends at ";
    assert!(history["empty"].as_str().unwrap().starts_with(reason), "{history}");
    let (code, out, err) = b.command(&["report"]);
    assert!(code == 0 && out.starts_with(reason) && out.ends_with(" UTC\n"), "{out}{err}");
    let absent = b.file("absent").display().to_string();
    assert!(
        b.program().args(["report", "--folder", &absent]).output().unwrap().status.code()
            == Some(2)
    );
    assert!(call("check", json!({}))["checks"].is_array());
    let ended = call("override", json!({ "name": "sub 2", "rate": "clear" }));
    assert_eq!(ended["ways"][0]["limited_by"], "plan", "{ended}");
    for hostile in ["--clear", "<b>x</b>", "a\n\u{1b}[2Jb", "$(reboot)"] {
        let error = call("why", json!({ "name": hostile }));
        assert!(error["error"].as_str().unwrap().contains("there is no subscriber"), "{error}");
    }
    daemon.end(Signal::SIGTERM);
    let error = call("status", json!({}));
    assert!(error["error"].as_str().unwrap().contains("expected a running daemon"), "{error}");
}

#[test]
fn the_doctor_finds_a_bridge_and_another_shaper() {
    let Some(_one) = root("the_doctor_finds_a_bridge") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("observe", "fifo", ""));
    let findings = || {
        let (_, out, err) = b.command(&["doctor", "--json"]);
        let report: Value =
            serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out} {err}"));
        report["findings"].as_array().unwrap().clone()
    };
    let of = |code: &str| {
        let texts = |f: Value| (f["verdict"].as_str().unwrap().to_owned(), f["text"].to_string());
        findings().into_iter().filter(|f| f["code"] == code).map(texts).collect::<Vec<_>>()
    };
    assert!(of("bridge").is_empty());
    assert_eq!(of("shaper")[0].0, "fine");
    assert_eq!(of("cpu").len(), 1);
    path.gateway.sh("ip link add br-lan type bridge");
    path.gateway.sh("ip link set mesh master br-lan");
    path.gateway.sh("tc qdisc add dev br-lan root tbf rate 1mbit burst 10k latency 10ms");
    let bridge = of("bridge");
    assert!(
        bridge[0].0 == "suspicious" && bridge[0].1.contains("port of the bridge br-lan"),
        "{bridge:?}"
    );
    let shaper = of("shaper");
    assert!(shaper[0].0 == "suspicious" && shaper[0].1.contains("tbf on br-lan"), "{shaper:?}");
}

/// A flow and a tunnel that hide homes; without evidence there is no verdict.
#[test]
fn the_doctor_finds_tunnels_of_homes() {
    let Some(_one) = root("the_doctor_finds_tunnels") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("observe", "fifo", ""));
    let of = |code: &str| {
        let (_, out, err) = b.command(&["doctor", "--json"]);
        let report: Value =
            serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out} {err}"));
        let all = report["findings"].as_array().unwrap().clone();
        let texts = |f: &Value| (f["verdict"].as_str().unwrap().to_owned(), f["text"].to_string());
        all.iter().filter(|f| f["code"] == code).map(texts).collect::<Vec<_>>()
    };
    path.gateway.sh("nft add table inet tracked");
    path.gateway.sh("nft add chain inet tracked c { type filter hook forward priority 0 ; }");
    path.gateway.sh("nft add rule inet tracked c ct state new counter");
    path.gateway.sh("sysctl -qw net.netfilter.nf_conntrack_acct=0");
    assert_eq!(of("vpn")[0].0, "unknown", "bytes are not counted");
    path.gateway.sh("sysctl -qw net.netfilter.nf_conntrack_acct=1");
    assert_eq!(of("vpn")[0].0, "unknown", "no traffic");
    assert_eq!(of("tunnel")[0].0, "fine");
    assert_eq!(of("random-mac")[0].0, "fine");
    let queues = of("queues");
    // Neighbour discovery may have sent a packet.
    let few = |text: &str| text.contains("mesh: ") && text.contains("too few for a verdict");
    assert!(queues.len() >= 2 && queues.iter().any(|q| few(&q.1)), "{queues:?}");
    // To WireGuard's port: in one direction other ports count as a game or a call.
    let stream = path.stream_to(2, 51_820, 60.0);
    let mut pause = Pause::new();
    while stream.bytes.load(std::sync::atomic::Ordering::Relaxed) < 11_000_000 {
        pause.take();
    }
    let vpn = of("vpn");
    stream.end();
    assert!(vpn[0].0 == "suspicious" && vpn[0].1.contains("sub 2 (100 % of "), "{vpn:?}");
    path.gateway.sh("ip link add vx0 type vxlan id 7 remote 10.1.3.1 dstport 4789");
    let tunnel = of("tunnel");
    let text = "vx0 ends at 10.1.3.1 of \\\"sub 3\\\"";
    assert!(tunnel[0].0 == "suspicious" && tunnel[0].1.contains(text), "{tunnel:?}");
}

/// Thousands of new subscribers by a reload.
///
/// Their classes are created while heartbeats continue.
#[test]
fn ten_thousand_new_subscribers_settle() {
    let Some(_one) = root("ten_thousand_who_come_later") else { return };
    let path = Path::new();
    let few = config("apply", "fifo", "down = \"3 Mbit/s\"");
    let b = Box::new(&path, &few);
    let daemon = b.start();
    b.wait_running();
    let mut many = few.clone();
    for i in 0..10_000 {
        let (x, y) = (i / 250, i % 250);
        many += &format!(
            "[[subscriber]]\nname = \"n{i}\"\nplan = \"all\"\nprefixes = [\"10.2{}.{x}.{y}\"]\n",
            i % 10
        );
    }
    b.write(&many);
    daemon.signal(Signal::SIGHUP);
    let end = std::time::Instant::now() + Duration::from_secs(300);
    let limited = || {
        let classes = path.gateway.sh("tc class show dev mesh");
        classes.lines().filter(|l| l.contains("ceil 3028Kbit")).count()
    };
    while limited() < 10_003 {
        assert!(std::time::Instant::now() < end, "{} of them\n{}", limited(), b.log());
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(path.flows());
    let log = b.log();
    for late in ["guard.late", "daemon.late", "guard.gone", "relayout.failed", "shaping.released"] {
        assert!(!log.contains(late), "{log}");
    }
    println!("{}", log.lines().filter(|l| l.starts_with("shaping")).collect::<Vec<_>>().join("\n"));
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}

/// `check` finds what `run` would refuse; neither changes the kernel.
#[test]
fn check_reports_each_refusal_of_run() {
    let Some(_one) = root("check_reports_each_refusal_of_run") else { return };
    let path = Path::new();
    let good = config("apply", "fifo", "down = \"3 Mbit/s\"");
    let b = Box::new(&path, &good);
    let (code, out, _) = b.command(&["check"]);
    assert_eq!(code, 0, "{out}");
    let shows = |word: &str, what: &str| {
        let (code, out, _) = b.command(&["check"]);
        assert_eq!(code, 1, "{what}: {out}");
        assert!(out.lines().any(|l| l.starts_with(word) && l.contains(what)), "{what}: {out}");
    };
    let finds = |what: &str| shows("BAD", what);

    path.gateway.sh("tc qdisc add dev wan root handle 1: htb default 12");
    finds("conflicts: `wan` already has a root qdisc that is not ours: htb 1:");
    path.gateway.sh("tc qdisc del dev wan root");
    path.gateway.sh("nft add table inet fairmesh");
    path.gateway.sh("nft add chain inet fairmesh own");
    finds("conflicts: nftables has a table `inet fairmesh` that is not ours");
    assert!(path.gateway.sh("nft list table inet fairmesh").contains("chain own"));
    path.gateway.sh("nft delete table inet fairmesh");

    let swapped = good.replace("\"mesh\"", "\"other\"").replace("\"wan\"", "\"mesh\"");
    b.write(&swapped.replace("\"other\"", "\"wan\""));
    finds("conflicts: mesh and wired are swapped: the default route leads over wan");
    shows("WARN", "direction: ");
    // `run` installs nothing until the routes are right.
    let daemon = b.start();
    b.wait_event("install.failed");
    let status = b.wait("nothing installed", |s| s["phase"] == "absent");
    assert_eq!(status["released_because"], "not installed", "{status}");
    assert_eq!(path.ours(), "", "traffic flows");
    daemon.end(Signal::SIGTERM);
    b.write(&good);

    // Paths: existing objects stay.
    let folder = b.file("");
    let precious = b.file("precious");
    std::fs::write(&precious, "mine").unwrap();
    let paths = |state: &str, socket: &str| {
        let at = |name: &str| folder.join(name).display().to_string();
        format!("{good}\n[paths]\nstate = \"{}\"\nsocket = \"{}\"\n", at(state), at(socket))
    };
    b.write(&paths("state", "precious"));
    finds("socket: paths.socket: ");
    assert_eq!(b.start().exit_code(), Some(2), "{}", b.log());
    assert!(b.log().contains("exists and is not a socket"), "{}", b.log());
    b.write(&paths("precious/state", "gateway.sock"));
    finds("state: paths.state: ");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "mine");

    // A source that does not respond, and one without homes.
    b.write(&format!("{good}\n[discover]\nbabel = \"127.0.0.1:9\"\n"));
    shows("WARN", "source: babel 127.0.0.1:9: ");
    let empty = b.file("map.json");
    std::fs::write(&empty, "{\"type\": \"NetworkGraph\", \"nodes\": [], \"links\": []}").unwrap();
    b.write(&format!("{good}\n[discover]\nnetjson = \"{}\"\n", empty.display()));
    shows("WARN", "0 homes");
    assert_eq!(path.ours(), "", "check touches nothing");

    // A daemon with the same interfaces; one with the same socket can be reloaded.
    b.write(&good);
    let daemon = b.start();
    b.wait_running();
    let (code, out, _) = b.command(&["check"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("daemon: a daemon is running"), "{out}");
    b.write(&paths("state2", "second.sock"));
    finds("daemon: another daemon uses the interface mesh");
    b.write(&good);
    daemon.end(Signal::SIGTERM);
}
