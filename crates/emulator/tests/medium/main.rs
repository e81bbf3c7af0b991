//! The radio as the medium of real mac80211 stacks, in scripts/kernel's virtual machine.
//!
//! Time there is counted in instructions, so that a busy computer changes nothing. The medium is the
//! shipped program, the driver that of scripts/kernel/hwsim. Each test runs for a few seconds of the
//! machine's time, or for `FAIRMESH_MEDIUM_SECONDS`.

#![allow(clippy::disallowed_methods)] // the machine's time passes here

mod comparison;
mod control;
mod mesh;
mod routers;
mod traffic;

use std::time::Duration;

use comparison::{SEEDS, rates, simulate};
use fairmesh_engine::{RunOptions, run};
use fairmesh_linux::{broadcast, nl80211::ActionFrames};
use fairmesh_scenario::{ImportOptions, parse};
use mesh::{Driver, HT20_2GHZ, Mesh, Mode, NOHT_5GHZ, medium_json};
use traffic::{SETTLING, saturate, tcp};

/// Seconds of a measurement.
fn seconds() -> f64 {
    std::env::var("FAIRMESH_MEDIUM_SECONDS").map_or(4.0, |s| s.parse().unwrap())
}

/// Returns the bound of a figure: wider for a measurement of seconds, in which it varies.
fn bound(of_a_minute: f64, of_seconds: f64) -> f64 {
    if seconds() >= 30.0 { of_a_minute } else { of_seconds }
}

/// Locks the machine for one test, since its radios are shared.
macro_rules! machine {
    () => {{
        assert!(std::env::var_os("FAIRMESH_VM").is_some(), "only in scripts/kernel's machine");
        $crate::mesh::lock()
    }};
}
pub(crate) use machine;

/// A chain of 802.11a at 54 Mbit/s in which each node senses `sense` hops.
fn chain(hops: u32, sense: u32) -> String {
    let links: Vec<String> = (0..hops).map(|i| format!("[{i}, {}]", i + 1)).collect();
    format!(
        "name = \"chain\"\nduration = \"20 s\"\nwarmup = \"2 s\"\n[radio]\nphy = \"802.11a\"\n\
         rate = \"54 Mbit/s\"\n[topology]\nlinks = [{}]\nsense_hops = {sense}\ngateway = 0\n",
        links.join(", ")
    )
}

/// A tree of ten: three branches of three hops each.
fn tree() -> String {
    let links: Vec<String> = (0..3)
        .flat_map(|b| [(0, 3 * b + 1), (3 * b + 1, 3 * b + 2), (3 * b + 2, 3 * b + 3)])
        .map(|(a, b)| format!("[{a}, {b}]"))
        .collect();
    chain(3, 2)
        .replace("\"chain\"", "\"tree\"")
        .replace("[0, 1], [1, 2], [2, 3]", &links.join(", "))
}

/// Simulates uploads of some stations to station 0; mean over the seeds, bit/s.
fn simulated_uploads(text: &str, from: &[usize]) -> Vec<f64> {
    let window = (SETTLING, 2.0 * seconds());
    let runs: Vec<_> =
        (1..=SEEDS).map(|seed| rates(&simulate(text, from, false, "", window, seed))).collect();
    (0..from.len()).map(|f| runs.iter().map(|r| r[f]).sum::<f64>() / runs.len() as f64).collect()
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|s| s * s).sum::<f64>())
}

/// Uploads without control: kernel and simulator agree on sum and fairness.
fn uploads(name: &str, text: &str, parents: &[Option<usize>]) {
    let from: Vec<usize> = (1..parents.len()).collect();
    let wanted = simulated_uploads(text, &from);
    let options = ["--scenario-rates"];
    let mesh = Mesh::start(text, Driver::Ours { ring: 2 }, Mode::Ibss(NOHT_5GHZ), &options);
    control::route(&mesh, parents);
    let pairs: Vec<(usize, usize)> = from.into_iter().map(|from| (from, 0)).collect();
    for &(from, _) in &pairs {
        mesh.reach(from);
    }
    let got = tcp(&mesh, &pairs, 2.0 * seconds());
    let mbit =
        |all: &[f64]| all.iter().map(|x| format!("{:.2}", x / 1e6)).collect::<Vec<_>>().join(" ");
    let record = mesh.end();
    println!(
        "{name}: kernel {} (Jain {:.2}), simulator {} (Jain {:.2})",
        mbit(&got),
        jain(&got),
        mbit(&wanted),
        jain(&wanted)
    );
    println!("{name}: lateness {}", record["lateness_s"]);
    within(&format!("{name}, sum"), got.iter().sum(), wanted.iter().sum(), 0.15);
    assert!((jain(&got) - jain(&wanted)).abs() < bound(0.1, 0.15), "Jain");
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn uploads_of_a_chain_as_simulated() {
    let _one = machine!();
    uploads("chain", &chain(3, 2), &[None, Some(0), Some(1), Some(2)]);
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn uploads_of_a_tree_as_simulated() {
    let _one = machine!();
    let branch = |b: usize| [Some(0), Some(3 * b + 1), Some(3 * b + 2)];
    let parents: Vec<_> = [None].into_iter().chain((0..3).flat_map(branch)).collect();
    uploads("tree", &tree(), &parents);
}

/// Simulates saturating datagrams between pairs of nodes; mean of three seeds, bit/s.
///
/// The simulator's frames of 802.11a have no QoS field: its datagrams are longer by that.
fn simulated(text: &str, pairs: &[(usize, usize)]) -> Vec<f64> {
    let bytes = PAYLOAD + QOS_FIELD;
    let mut text = format!("{text}[traffic]\n");
    for (from, to) in pairs {
        text += &format!(
            "[[flow]]\nfrom = {from}\nto = {to}\ntraffic = {{ kind = \"cbr\", rate = \"50 Mbit/s\", packet = \"{bytes} B\" }}\n\
             transport = \"udp\"\n"
        );
    }
    let scenario = parse("chain.toml", text.as_bytes(), &ImportOptions::default()).unwrap();
    let runs: Vec<_> = (1..=3)
        .map(|seed| run(&scenario, &RunOptions { seed, ..RunOptions::default() }).unwrap())
        .collect();
    let share = f64::from(PAYLOAD) / f64::from(bytes) / runs.len() as f64;
    (0..pairs.len())
        .map(|f| runs.iter().map(|r| r.flows[f].goodput_bps).sum::<f64>() * share)
        .collect()
}

#[track_caller]
fn within(what: &str, got: f64, wanted: f64, most: f64) {
    let off = got / wanted - 1.0;
    println!(
        "{what}: {:.2} Mbit/s, {:.2} expected, {:+.1} %",
        got / 1e6,
        wanted / 1e6,
        100.0 * off
    );
    assert!(off.abs() <= most, "{what}: {got:.0} instead of {wanted:.0} bit/s");
}

/// Time of an exchange of 802.11a at 24 Mbit/s or more (IEEE 802.11-2020 §17.4.3), in s.
fn exchange_s(mpdu: u32, mbit: u32) -> f64 {
    let symbols = f64::from((16 + 8 * mpdu + 6).div_ceil(4 * mbit));
    let (difs, backoff, data, sifs, ack) = (34.0, 7.5 * 9.0, 20.0 + 4.0 * symbols, 16.0, 28.0);
    (difs + backoff + data + sifs + ack) * 1e-6
}

/// Bytes of a packet that fills the interface, of IP.
const MTU: u32 = 1500;
/// Bytes of the headers of IP and UDP.
const UDP_IP: u32 = 28;
/// Payload of a datagram that fills the MTU.
const PAYLOAD: u32 = MTU - UDP_IP;
/// Bytes of the QoS field.
const QOS_FIELD: u32 = 2;
/// Bytes of an MPDU beside it: MAC header of an IBSS with the QoS field, LLC, IP, UDP, FCS.
const AROUND: u32 = 26 + 8 + UDP_IP + 4;

#[test]
#[ignore = "in scripts/kernel's machine"]
fn a_lone_link_carries_the_arithmetic() {
    let _one = machine!();
    let text = chain(1, 1);
    let mesh =
        Mesh::start(&text, Driver::Ours { ring: 2 }, Mode::Ibss(NOHT_5GHZ), &["--scenario-rates"]);
    let got = saturate(&mesh, &[(0, 1)], seconds());
    within("lone link", got[0], f64::from(PAYLOAD * 8) / exchange_s(PAYLOAD + AROUND, 54), 0.02);
    within("lone link, engine", got[0], simulated(&text, &[(0, 1)])[0], 0.06);
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn hidden_stations_share_as_simulated() {
    let _one = machine!();
    let text = chain(2, 1);
    let mesh =
        Mesh::start(&text, Driver::Ours { ring: 2 }, Mode::Ibss(NOHT_5GHZ), &["--scenario-rates"]);
    let pairs = [(0, 1), (2, 1)];
    let got = saturate(&mesh, &pairs, 2.0 * seconds());
    let wanted = simulated(&text, &pairs);
    for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
        within(&format!("hidden station {}", 2 * i), *got, *wanted, bound(0.06, 0.1));
    }
    within("both", got.iter().sum(), wanted.iter().sum(), bound(0.03, 0.04));
}

/// Packets, and drops and marks so far, of a station's queue of best effort.
fn txq(mesh: &Mesh, node: usize) -> (u64, u64) {
    let text = mesh.sh(node, "iw dev wlan0 station dump -v");
    let rows = text.lines().skip_while(|l| !l.contains("TXQs:"));
    let row = rows.skip(2).find(|l| l.split_whitespace().next() == Some("0")).unwrap_or("");
    let field = |k: usize| row.split_whitespace().nth(k).and_then(|f| f.parse().ok()).unwrap_or(0);
    (field(2), field(4) + field(5))
}

/// Queues under load.
///
/// Most frames held, packets in mac80211's queue, its drops and marks, drops of the driver.
fn pressure(driver: Driver) -> (u64, u64, u64, u64) {
    let text = chain(3, 2);
    let mesh = Mesh::start(&text, driver, Mode::Mesh(NOHT_5GHZ), &[]);
    mesh.reach(3);
    let backlog = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(Duration::from_secs_f64(seconds() * 0.7));
            backlog.store(txq(&mesh, 0).0, std::sync::atomic::Ordering::Relaxed);
        });
        saturate(&mesh, &[(0, 3), (0, 1)], seconds());
    });
    let signs = txq(&mesh, 0).1;
    let statistics = mesh.sh(0, "ethtool -S wlan0");
    let dropped = statistics.lines().find_map(|l| l.trim().strip_prefix("d_tx_dropped: "));
    let dropped = dropped.and_then(|d| d.trim().parse().ok()).unwrap_or(0);
    let record = mesh.end();
    let held = record["stations"].as_array().unwrap().iter();
    let most = held.map(|s| s["most_in_flight"].as_u64().unwrap()).max().unwrap();
    (most, backlog.into_inner(), signs, dropped)
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn queues_wait_in_mac80211() {
    let _one = machine!();
    let ring = 2;
    let (most, backlog, signs, dropped) = pressure(Driver::Ours { ring });
    println!(
        "most held {most}, backlog {backlog}, drops and marks {signs}, driver drops {dropped}"
    );
    assert!(most <= u64::from(ring) + 3 && dropped == 0, "{most} held, {dropped} dropped");
    if mesh::has_txq() {
        assert!(backlog > 5 && signs > 0, "backlog {backlog}, drops and marks {signs}");
    }
    // The same on the stock driver: the medium holds what mac80211 should.
    let (most, backlog, signs, _) = pressure(Driver::Stock);
    println!("stock: most held {most}, backlog {backlog}, drops and marks {signs}");
    assert!(
        most > 20 && backlog == 0 && signs == 0,
        "{most} held, {backlog} packets, {signs} signs"
    );
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn aggregates_reach_their_rates() {
    let _one = machine!();
    let text = "name = \"ht\"\nduration = \"20 s\"\n[radio]\nphy = \"802.11n\"\nstreams = 2\nchannel = 1\n[topology]\n\
                links = [[0, 1], [1, 2]]\nsense_hops = 2\ngateway = 0\n";
    let mesh = Mesh::start(text, Driver::Ours { ring: 64 }, Mode::Mesh(HT20_2GHZ), &[]);
    mesh.reach(2);
    for (to, least) in [(1, 95.0), (2, 45.0)] {
        let got = tcp(&mesh, &[(0, to)], seconds())[0] / 1e6;
        let dump = mesh.sh(0, "iw dev wlan0 station dump");
        let rate = dump.lines().find(|l| l.contains("tx bitrate")).unwrap_or("").trim();
        println!("HT20, {to} hops: {got:.1} Mbit/s, {rate}");
        assert!(got >= least, "{to} hops: {got:.1} Mbit/s; expected {least}");
    }
}

/// Action frames reach the peers of a mesh point, where a broadcast is flooded.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn action_frames_reach_peers_only() {
    let _one = machine!();
    let mesh = Mesh::start(&chain(2, 1), Driver::Ours { ring: 2 }, Mode::Mesh(NOHT_5GHZ), &[]);
    mesh.reach(2);
    let open =
        |node: usize| mesh.nodes[node].enter(|| Ok(ActionFrames::open("wlan0"))).unwrap().unwrap();
    let mut frames: Vec<ActionFrames> = (0..3).map(open).collect();
    let datagrams = |node: usize| {
        mesh.nodes[node].enter(|| Ok(broadcast::open("wlan0", 5248, 0))).unwrap().unwrap()
    };
    let sockets: Vec<_> = (0..3).map(datagrams).collect();
    // Broadcasts are not acknowledged, so that some are lost.
    for _ in 0..10 {
        frames[0].send(&[7; 250]).unwrap();
        broadcast::send(&sockets[0], 5248, b"datagram").unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut messages = [0; 3];
    for (node, count) in messages.iter_mut().enumerate() {
        while frames[node]
            .receive(|message| {
                assert_eq!(message, [7; 250]);
                *count += 1;
            })
            .unwrap()
        {}
    }
    let flooded = std::iter::from_fn(|| sockets[2].recv(&mut [0; 16]).ok()).count();
    println!("messages by hops {messages:?}, datagrams over two hops {flooded}");
    assert!(messages[1] >= 5 && messages[0] == 0 && messages[2] == 0, "{messages:?}");
    assert!(flooded >= 3, "{flooded}");
}

/// A medium that dies stops nothing, and a new one takes over.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn a_dead_medium_stops_nothing() {
    let _one = machine!();
    let text = chain(2, 1);
    let mut mesh = Mesh::start(&text, Driver::Ours { ring: 2 }, Mode::Mesh(NOHT_5GHZ), &[]);
    mesh.reach(2);
    for round in 0..if seconds() >= 30.0 { 3 } else { 1 } {
        let during = std::thread::scope(|threads| {
            let sender = threads.spawn(|| saturate(&mesh, &[(0, 1)], 1.5));
            std::thread::sleep(Duration::from_millis(700));
            mesh.kill_medium();
            sender.join().unwrap()
        });
        assert!(during[0] > 1e6, "round {round}: {} bit/s", during[0]);
        mesh.reach(2);
        assert!(!mesh.medium_lives());
        // The driver's own medium is perfect, so that a death is easily overlooked.
        let alone = saturate(&mesh, &[(0, 1)], 0.5);
        mesh.restart_medium(&text, &[]);
        mesh.reach(2);
        let again = saturate(&mesh, &[(0, 1)], 1.0);
        println!(
            "round {round}: {:.1} Mbit/s during, {:.1} without medium, {:.1} with a new one",
            during[0] / 1e6,
            alone[0] / 1e6,
            again[0] / 1e6
        );
        assert!(alone[0] > 60e6, "the driver's own medium");
        assert!((15e6..31e6).contains(&again[0]), "the new medium");
    }
    assert!(mesh.medium_lives());
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn missing_parts_are_named() {
    let _one = machine!();
    mesh::unload();
    let (code, error) = medium_json(&chain(2, 1), &["--duration", "1 s"]).unwrap_err();
    assert!(code != 0 && error.contains("mac80211_hwsim"), "{error}");
    Driver::Stock.load(2);
    let (_, error) = medium_json(&chain(2, 1), &["--duration", "1 s"]).unwrap_err();
    assert!(error.contains("has 2 radios, and the scenario has 3 stations"), "{error}");
    let record = medium_json(&chain(1, 1), &["--duration", "1 s"]).unwrap();
    assert_eq!(record["driver"]["ring"], serde_json::Value::Null);
    mesh::unload();
}
