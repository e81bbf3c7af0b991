//! Daemons of mesh routers on real kernels: three network namespaces in a chain.
//!
//! Without root the tests are skipped with a message.

#![allow(clippy::disallowed_methods)] // real time passes here

mod routers;

use std::io::Write;

use fairmesh_agent::node::machine::{Kernel, Machine};
use fairmesh_control::Marking;
use fairmesh_linux::Interface;
use fairmesh_units::Probability;
use nix::sys::signal::Signal;
use routers::{Namespace, Router, blast, chain, key, root, run};
use serde_json::Value;

#[test]
fn three_routers_find_their_neighbours_and_limit_their_own_traffic() {
    let Some(_one) = root("three_routers_find_their_neighbours") else { return };
    let [mut gateway, mut middle, mut far] = chain();
    let shared = key();
    gateway.configure(&shared, "\"m0\"", "role = \"gateway\"");
    middle.configure(&shared, "\"m0\", \"m1\"", "");
    far.configure(&shared, "\"m1\"", "");
    let before = middle.qdiscs();
    for router in [&mut gateway, &mut middle, &mut far] {
        let (code, out, err) = router.command(&["check"]);
        assert_eq!(code, 0, "{out}{err}");
        router.start();
    }
    // Each has its radio neighbours, and no message from two hops away.
    let enough = |n: usize| {
        move |s: &Value| {
            let all = s["neighbours"].as_array().unwrap();
            all.len() == n && all.iter().all(|n| n["messages"].as_u64() > Some(3))
        }
    };
    let status = gateway.wait("a neighbour", enough(1));
    assert_eq!(Router::senders(&status), [middle.mac("m0")]);
    let status = middle.wait("two neighbours", enough(2));
    let mut expected = [gateway.mac("m0"), far.mac("m1")];
    expected.sort();
    assert_eq!(Router::senders(&status), expected);
    let status = far.wait("a neighbour", enough(1));
    assert_eq!(Router::senders(&status), [middle.mac("m1")]);
    assert_eq!(status["refused"], serde_json::json!([]), "nothing to complain about");
    assert_eq!(middle.qdiscs(), before, "observed only");
    assert!(
        middle.command(&["status"]).1.contains("no control"),
        "{}",
        middle.command(&["status"]).1
    );

    // The neighbour of the gateway gets a limit on its own traffic.
    assert_eq!(middle.end(Signal::SIGTERM), Some(0));
    let gap = "mode = \"apply\"\n[control]\nuse = \"gap\"\nguarantee = 200";
    middle.configure(&shared, "\"m0\", \"m1\"", gap);
    let (code, out, err) = middle.command(&["check"]);
    assert_eq!(code, 0, "{out}{err}");
    middle.start();
    let status = middle.wait("a limit", |s| s["limit"]["applied"] == true);
    assert_eq!(status["limit"]["interface"], "m0", "towards the gateway");
    assert_eq!(status["limit"]["bits_per_second"], 200_000, "its guarantee");
    let sink = gateway.ns.udp("10.5.0.1:6000");
    let own = middle.ns.udp("10.5.0.2:6000");
    let forwarded = far.ns.udp("10.6.0.3:6000");
    // The first packets resolve addresses.
    middle.eventually("a path", || {
        (blast(&own, &sink, 1) + blast(&forwarded, &sink, 1) == 2).then_some(())
    });
    let through = blast(&forwarded, &sink, 150);
    assert_eq!(through, 150, "forwarded traffic has no limit");
    let local = blast(&own, &sink, 150);
    assert!(local < 100, "{local} of 150 with a queue of 50 frames as large as the MTU");
    let (code, why, _) = middle.command(&["why"]);
    assert!(code == 0 && why.contains("local traffic over m0: 200 kbit/s, in force"), "{why}");
    let (_, doctor, _) = middle.command(&["doctor"]);
    assert!(doctor.contains("sends messages as gateway"), "{doctor}");
    let (code, _, err) = middle.command(&["reset"]);
    assert!(code == 2 && err.contains("stop it first"), "{err}");

    // Killed, so that only the guard cleans up: traffic flows and the limit goes.
    middle.end(Signal::SIGKILL);
    middle.eventually("the guard", || (blast(&own, &sink, 150) == 150).then_some(()));
    assert_eq!(blast(&forwarded, &sink, 150), 150);
    middle.eventually("the removal", || (middle.qdiscs() == before).then_some(()));
    // The guard removes queues first.
    middle.eventually("the end of the rules", || {
        (!middle.ns.sh("nft list ruleset").contains("fairmesh")).then_some(())
    });
    // Neighbours find that it is gone, and find it again in its next run.
    let gone = |s: &Value| Router::senders(s).is_empty();
    far.wait("the end of the neighbour", gone);
    middle.start();
    middle.wait("a limit", |s| s["limit"]["applied"] == true);
    far.wait("the neighbour", |s| Router::senders(s) == [middle.mac("m1")]);

    // The gateway ends: the limit is lifted. An orderly end leaves nothing.
    assert_eq!(gateway.end(Signal::SIGTERM), Some(0));
    middle.wait("the end of the limit", |s| s["limit"].is_null());
    assert_eq!(middle.qdiscs(), before);
    gateway.start();
    middle.wait("a limit", |s| s["limit"]["applied"] == true);
    assert_eq!(middle.end(Signal::SIGTERM), Some(0));
    assert_eq!(middle.qdiscs(), before);
    assert!(!middle.ns.sh("nft list ruleset").contains("fairmesh"), "{}", middle.log());
    let (code, out, _) = middle.command(&["reset"]);
    assert_eq!((code, out.as_str()), (0, "removed: qdiscs on none; tables none\n"));
}

#[test]
fn impossible_settings_are_refused_or_reported() {
    let Some(_one) = root("impossible_settings_are_refused_or_reported") else { return };
    let [mut gateway, mut middle, mut far] = chain();
    let shared = key();
    // Another key: messages are refused, and the cause is named.
    middle.configure(&shared, "\"m0\", \"m1\"", "");
    far.configure(&key(), "\"m1\"", "");
    middle.start();
    far.start();
    let status = middle.wait("a refused message", |s| !s["last_refused"].is_null());
    assert!(Router::senders(&status).is_empty());
    let (code, doctor, _) = middle.command(&["doctor", "--json"]);
    assert!(doctor.contains("copy one key file to all routers"), "{code} {doctor}");
    // Forged and junk datagrams change nothing.
    let junk = far.ns.udp("10.6.0.3:7000");
    junk.set_broadcast(true).unwrap();
    for n in 0..2000_u32 {
        let mut bytes = [b"fm\x01\x01".as_slice(), &n.to_be_bytes()].concat();
        bytes.resize(34 + n as usize % 300, 5);
        let _ = junk.send_to(&bytes, "10.6.0.255:5248");
    }
    let status = middle.wait("refused junk", |s| s["refused"].to_string().contains("malformed"));
    assert!(status["neighbours"].as_array().unwrap().is_empty(), "{status}");
    // A mechanism that needs a radio, on a cable.
    gateway.configure(
        &shared,
        "\"m0\"",
        "role = \"gateway\"\n[control]\nuse = \"gap\"\nguarantee = 200",
    );
    let (code, out, _) = gateway.command(&["check"]);
    assert!(code == 1 && out.contains("BAD  control:"), "{out}");
    assert!(
        out.contains(
            "gap cannot run on a router with routing by layer 3 in mode observe: not delivered:"
        ),
        "{out}"
    );
    gateway.start();
    let code = gateway.daemon.take().unwrap().wait().unwrap().code();
    assert_eq!(code, Some(2));
    assert!(gateway.log().contains("node.toml: control.use: gap cannot run"), "{}", gateway.log());
    // A second daemon, a readable key, and a missing interface.
    let second =
        middle.program().args(["run", "--config"]).arg(middle.file("node.toml")).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    run("chmod", &["0644", &far.file("node.key").display().to_string()]);
    let (code, out, _) = far.command(&["check"]);
    assert!(code == 1 && out.contains("readable by other users"), "{out}");
    far.ns.sh("ip link del m1");
    middle.wait("the loss", |s| s["interfaces"][1]["talks"] == false);
    assert!(
        middle.log().contains("interface.lost: m1: there is no such interface"),
        "{}",
        middle.log()
    );
    assert_eq!(middle.end(Signal::SIGTERM), Some(0));
}

/// Counters of ECN codepoints of received packets (`/proc/net/netstat`).
fn received_ce(ns: &Namespace) -> u64 {
    let text = ns.within(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let mut lines = text.lines().filter(|l| l.starts_with("IpExt:")).map(str::split_whitespace);
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let found = names.zip(values).find(|(name, _)| *name == "InCEPkts").unwrap();
    found.1.parse().unwrap()
}

/// The marks of an access point, from the call of its mechanism to the receiver's counter.
#[test]
fn marks_reach_the_receiver_and_end_with_the_router() {
    let Some(_one) = root("marks_reach_the_receiver") else { return };
    let [gateway, middle, far] = chain();
    let name = |n: &str| Interface::new(n).unwrap();
    let places = [name("m0"), name("m1")];
    let sink = gateway.ns.udp("10.5.0.1:6000");
    let from = far.ns.udp("10.6.0.3:6000");
    nix::sys::socket::setsockopt(&from, nix::sys::socket::sockopt::Ipv4Tos, &2).unwrap();
    middle.eventually("a path", || (blast(&from, &sink, 1) == 1).then_some(()));
    let kernel = middle.ns.within({
        let places = places.clone();
        move || {
            let mut kernel = Kernel::new(&[], Box::new(|| true));
            kernel.programs()?;
            kernel.mark(&places, None, Probability(0.25), Marking { even: true }).unwrap();
            Ok::<_, String>(kernel)
        }
    });
    let mut kernel = match kernel {
        Ok(kernel) => kernel,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED marks_reach_the_receiver: {e}");
            assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
            return;
        }
    };
    let before = received_ce(&gateway.ns);
    assert_eq!(blast(&from, &sink, 100), 100);
    let marked = received_ce(&gateway.ns) - before;
    assert!((24..=26).contains(&marked), "a quarter of 100: {marked}");
    // A renewal changes the chance and keeps the program.
    let missing = middle.ns.within(move || {
        kernel.mark(&places, None, Probability(0.0), Marking { even: true }).unwrap();
        let missing = kernel.mark(&[name("none")], None, Probability(0.5), Marking { even: true });
        (kernel, missing.unwrap_err().to_string())
    });
    assert!(missing.1.contains("no interface `none`"), "{}", missing.1);
    let before = received_ce(&gateway.ns);
    assert_eq!(blast(&from, &sink, 100), 100);
    assert_eq!(received_ce(&gateway.ns), before, "no marks");
    middle.ns.within(move || {
        let mut kernel = missing.0;
        kernel
            .mark(&[Interface::new("m0").unwrap()], None, Probability(1.0), Marking { even: true })
            .unwrap();
        kernel.unmark();
    });
    assert_eq!(blast(&from, &sink, 100), 100);
    assert_eq!(received_ce(&gateway.ns), before, "ended");
    assert!(!middle.ns.sh("tc filter show dev m0 egress").contains("fairmesh"));
}

/// A process that ends with the test.
struct KilledOnDrop(std::process::Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The gateway finds a flood two hops away; the home's router limits it until it ends.
#[test]
fn a_flood_is_limited_at_its_source_over_two_hops() {
    let Some(_one) = root("a_flood_is_limited_at_its_source_over_two_hops") else { return };
    let [gateway, middle, mut far] = chain();
    let wired = Namespace::new();
    let ends = format!(
        "link add name wan netns {} type veth peer name w0 netns {}",
        gateway.ns.name, wired.name
    );
    routers::ip(&[], &[&ends]);
    gateway.ns.ip(&["link set wan up", "addr add 10.9.9.1/24 dev wan"]);
    gateway.ns.sh("sysctl -qw net.ipv4.ip_forward=1");
    wired.ip(&[
        "link set lo up",
        "link set w0 up",
        "addr add 10.9.9.2/24 dev w0",
        "route add default via 10.9.9.1",
    ]);
    middle.ns.ip(&["route add default via 10.5.0.1"]);
    let shared = key();
    far.configure(&shared, "\"m1\"", "mode = \"apply\"\n[control]\nuse = \"rtt+agents\"\n");
    let before = far.qdiscs();
    far.start();
    far.wait("its port", |s| s["orders"].is_object());

    gateway.configure(&shared, "\"m0\"", "");
    let file = |name: &str| gateway.file(name).display().to_string();
    let text = format!(
        "mode = \"apply\"\nmesh = {{ interface = \"m0\" }}\nwired = {{ interface = \"wan\" }}\n\
         [control]\nuse = \"rtt+agents\"\n[agents]\nkey = \"{}\"\n\
         [[neighbour]]\nname = \"middle\"\ncapacity = \"4 Mbit/s\"\n\
         [[subscriber]]\nname = \"near\"\nprefixes = [\"10.5.0.2/32\"]\n\
         [[subscriber]]\nname = \"home\"\nprefixes = [\"10.6.0.3/32\"]\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n[page]\nlisten = \"127.0.0.1:0\"\n\
         [paths]\nsocket = \"{}\"\nstate = \"{}\"\n",
        file("node.key"),
        file("gateway.sock"),
        file("gateway-state")
    );
    std::fs::write(gateway.file("gateway.toml"), text).unwrap();
    let log = std::fs::File::create(gateway.file("gateway.log")).unwrap();
    let daemon = std::process::Command::new("ip")
        .args(["netns", "exec", &gateway.ns.name, env!("CARGO_BIN_EXE_fairmesh-gateway")])
        .args(["run", "--config"])
        .arg(gateway.file("gateway.toml"))
        .stderr(log)
        .spawn();
    let _daemon = KilledOnDrop(daemon.unwrap());
    let gateways_log = || std::fs::read_to_string(gateway.file("gateway.log")).unwrap();

    // 16 Mbit/s of datagrams without congestion control.
    let source = far.ns.udp("10.6.0.3:0");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let flood = std::thread::spawn(move || {
        while stopped.try_recv().is_err() {
            for _ in 0..14 {
                let _ = source.send_to(&[0; 1472], "10.9.9.2:9");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
    let status = far.wait("a limit", |s| s["limit"]["applied"] == true);
    println!("{}\n{}", gateways_log(), far.log());
    assert_eq!(status["limit"]["interface"], "m1");
    assert!(status["limit"]["bits_per_second"].as_u64() < Some(4_000_000), "{status}");
    assert!(gateways_log().contains("rtt.flood"), "{}", gateways_log());
    far.eventually("the gateway's confirmation", || {
        gateways_log().contains("rtt.held").then_some(())
    });
    let (_, why, _) = far.command(&["why"]);
    assert!(why.contains("agent.limit: the gateway limits what starts here to"), "{why}");

    stop.send(()).unwrap();
    flood.join().unwrap();
    far.wait("the end of the limit", |s| s["limit"].is_null());
    assert_eq!(far.qdiscs(), before);
    assert!(far.log().contains("agent."), "{}", far.log());
    println!("{}\n{}", gateways_log(), far.log());
    assert_eq!(far.end(Signal::SIGTERM), Some(0));
}
