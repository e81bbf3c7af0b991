//! The gateway's daemon against an emulated mesh over the kernel's TCP.
//!
//! Runs are short and margins are wide; the figures are in docs/control-truth.md. The tests need
//! root, and are skipped with a message without it.

mod common;

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use common::run;

/// Returns a scenario with three homes in a line behind a gateway, and a server behind that.
fn scenario(phy: &str, rate: &str, flows: &str) -> String {
    format!(
        r#"
name = "truth"
duration = "24 s"
warmup = "10 s"
[radio]
phy = "{phy}"
rate = "{rate}"
queue = 50
[topology]
chain = {{ hops = 3, spacing = "200 m" }}
gateway = 0
[wired]
hosts = ["server"]
delay = "5 ms"
[traffic]
traffic = "bulk"
transport = {{ tcp = "newreno", preset = "rfc", min_rto = "200 ms", delayed_ack = false }}
{flows}
[control]
use = "pfrc"
epoch = 1
"#
    )
}

/// Lock for sequential runs: two processors cannot run two meshes in real time.
static TURN: Mutex<()> = Mutex::new(());

/// Emulates `NAME.toml` with further arguments and returns its results, in `DIR/NAME`.
///
/// A run is repeated if the machine stalled so long that the kernel's timers are meaningless.
fn emulate(dir: &Path, name: &str, more: &[&str]) -> serde_json::Value {
    let _turn = TURN.lock();
    for _ in 0..6 {
        let file = format!("{name}.toml");
        let out =
            run(dir, &[&["emulate", file.as_str(), "--json", "--out", name][..], more].concat());
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(matches!(out.status.code(), Some(0 | 1)), "{message}");
        if out.status.success() {
            let json = std::fs::read(dir.join(name).join("results.json")).unwrap();
            return serde_json::from_slice(&json).unwrap();
        }
        // Only stalls make a run invalid here.
        assert!(message.contains("the radio stood still"), "{message}");
        println!("{message}");
    }
    panic!("this machine stood still in six emulations");
}

/// Returns Jain's index and the smallest rate of each control, bit/s.
fn fairness(results: &serde_json::Value) -> Vec<(f64, f64)> {
    let one = |r: &serde_json::Value| {
        let rates = r["flows"].as_array().unwrap().iter();
        let rates = rates.map(|f| f["goodput_bps"]["mean"].as_f64().unwrap());
        (r["jain"]["mean"].as_f64().unwrap(), rates.fold(f64::INFINITY, f64::min))
    };
    results["results"].as_array().unwrap().iter().map(one).collect()
}

fn root(test: &str) -> bool {
    let is = nix::unistd::geteuid().is_root();
    if !is {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: needs root for network namespaces");
        assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
    }
    is
}

#[test]
fn the_daemon_makes_a_starving_mesh_fair() {
    if !root("the_daemon_makes_a_starving_mesh_fair") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let flows = |way: fn(u32) -> String| (1..=3).map(way).collect::<String>();
    let down = flows(|h| format!("[[flow]]\nfrom = \"server\"\nto = {h}\n"));
    let up = flows(|h| format!("[[flow]]\nfrom = {h}\nto = \"server\"\n"));
    let file = dir.path().join("truth.toml");

    // Simulated: Jain 0.455 ± 0.022 without control, 0.997 with it.
    std::fs::write(&file, scenario("802.11b-short", "11 Mbit/s", &down)).unwrap();
    let results = emulate(dir.path(), "truth", &["--control", "fifo,pfrc"]);
    let [(fifo, worst), (pfrc, best)] = fairness(&results)[..] else { panic!("{results}") };
    assert!(fifo < 0.8 && pfrc > 0.93, "downloads: Jain {fifo} without, {pfrc} with");
    assert!(best > worst, "the worst home got {worst} without, {best} bit/s with");
    // The results include the daemon's decisions and their inputs.
    let decisions = std::fs::read_to_string(dir.path().join("truth/gateway-pfrc.jsonl")).unwrap();
    assert!(decisions.contains("pfrc."), "{decisions}");
    assert!(dir.path().join("truth/gateway-pfrc.toml").exists());
    let decisions = results["runs"][1]["decisions"].as_array().unwrap();
    assert!(decisions.iter().any(|d| d["code"].as_str().unwrap().starts_with("pfrc.")));

    // Simulated: Jain 1.000, all three at 0.9 of 760 kbit/s.
    std::fs::write(&file, scenario("802.11a", "6 Mbit/s", &up)).unwrap();
    let (pfrc, worst) = fairness(&emulate(dir.path(), "truth", &["--control", "pfrc"]))[0];
    assert!(pfrc > 0.93 && worst > 3e5, "uploads: Jain {pfrc}, the worst home {worst} bit/s");
}

/// Three homes of 300 kbit/s, one to three hops away.
///
/// Each has a bulk transfer and a packet every 50 ms, which measures the delay of a call.
#[test]
fn a_home_at_its_limit_waits_a_quarter_of_a_second_at_most() {
    if !root("a_home_at_its_limit_waits_a_quarter_of_a_second_at_most") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let homes = |ends: fn(u32) -> String| {
        let of = |home| {
            let ends = format!("{}\nplan = \"300 kbit/s\"", ends(home));
            format!(
                "[[flow]]\n{ends}\n[[flow]]\nname = \"call {home}\"\n{ends}\ntraffic = {{ kind = \"cbr\", \
                 rate = \"10240 bit/s\", packet = \"64 B\", jitter = 0.5 }}\ntransport = \"udp\"\n"
            )
        };
        (1..=3).map(of).collect::<String>()
    };
    let down = homes(|h| format!("from = \"server\"\nto = {h}"));
    let up = homes(|h| format!("from = {h}\nto = \"server\""));
    let tried = |way: &str, flows: &str, congestion: &str| {
        let name = format!("{way}-{congestion}");
        let text = scenario("802.11b-short", "11 Mbit/s", flows);
        std::fs::write(dir.path().join(format!("{name}.toml")), text).unwrap();
        let more = ["--control", "pfrc", "--congestion", congestion];
        let results = emulate(dir.path(), &name, &more);
        let flows = results["runs"][0]["flows"].as_array().unwrap();
        for flow in flows {
            let (rate, p95) = (&flow["goodput_bps"], &flow["delay_s"]["p95"]);
            let (rate, p95) = (rate.as_f64().unwrap(), p95.as_f64().unwrap());
            println!("{name}, {}: {rate:.0} bit/s, 95 % below {p95:.3} s", flow["name"]);
            if flow["name"].as_str().unwrap().starts_with("call") {
                assert!(flow["packets_delivered"].as_u64() > Some(100), "{flow}");
                assert!(p95 <= 0.25, "{name}: {flow}");
            } else {
                // A short queue must not reduce the home's rate.
                assert!(rate > 2.4e5, "{name}: {flow}");
            }
        }
    };
    for (way, flows) in [("down", &down), ("up", &up)] {
        for congestion in ["reno", "cubic"] {
            tried(way, flows, congestion);
        }
    }
}

/// A branch of two hops, where the far home starves (Mancuso 2010 Table I).
///
/// The near router limits itself to its guarantee, since no driver gives the gateway its part of the control.
#[test]
fn routers_in_namespaces_end_the_starvation_of_the_far_home() {
    if !root("routers_in_namespaces_end_the_starvation_of_the_far_home") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let text = include_str!("../../../scenarios/mancuso-branches-1.toml");
    let text = text.replace("\"120 s\"", "\"24 s\"").replace("\"20 s\"", "\"8 s\"");
    std::fs::write(dir.path().join("branch.toml"), text).unwrap();
    let rates = |results: &serde_json::Value, i: usize| {
        let flows = results["results"][i]["flows"].as_array().unwrap().iter();
        let rates: Vec<f64> = flows.map(|f| f["goodput_bps"]["mean"].as_f64().unwrap()).collect();
        (rates[0], rates[1])
    };
    let results = emulate(dir.path(), "branch", &["--control", "fifo,gap", "--beside"]);
    // The simulated fifo and gap, then the emulated ones: near and far home.
    let all = [0, 1, 2, 3].map(|i| rates(&results, i));
    println!("{all:.0?}");
    let [_, simulated, (near, far), emulated] = all;
    assert!(far < 0.1 * near, "without control: {near} and {far} bit/s");
    // Messages are broadcasts: without three in a row the near router lifts its limit for a while.
    let (near, far) = emulated;
    let fair = (near + far).powi(2) / (2.0 * (near * near + far * far));
    assert!(fair > 0.85, "Jain {fair:.3}: {all:?}");
    assert!(far > 0.5 * simulated.1, "{all:?}");
    let run = &results["runs"][3];
    let up = |d: &&serde_json::Value| d["code"] == "interface.up";
    assert_eq!(run["decisions"].as_array().unwrap().iter().filter(up).count(), 3);
    let notes = run["emulation"]["notes"].to_string();
    assert!(notes.contains("node gw runs without control: gap cannot run"), "{notes}");
    assert!(notes.contains("channel counters (survey)"), "{notes}");
    let file = |name: &str| std::fs::read_to_string(dir.path().join("branch").join(name)).unwrap();
    // The guarantee is the fair rate in IP bytes, as far as the mesh reaches it.
    let configuration = file("node-1-gap.toml");
    assert!(configuration.contains("mode = \"apply\""), "{configuration}");
    assert!(configuration.contains("use = \"gap\"\nguarantee = 902.264\n"), "{configuration}");
    assert!(!file("node-0-gap.toml").contains("[control]"));
    assert!(file("node-1-gap.jsonl").contains("on mesh0, gateway"));

    // Observed only: the far home starves.
    let results = emulate(dir.path(), "branch", &["--control", "gap", "--observe"]);
    let (near, far) = rates(&results, 0);
    assert!(far < 0.1 * near, "observed: {near} and {far} bit/s");
    assert!(file("node-1-gap.toml").contains("mode = \"observe\""));
}

#[test]
fn an_unsupported_scenario_is_refused_before_anything_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let flow = "[[flow]]\nfrom = 3\nto = \"server\"\n";
    std::fs::write(dir.path().join("truth.toml"), scenario("802.11b", "11 Mbit/s", flow)).unwrap();
    let bare = scenario("802.11b", "11 Mbit/s", "").replace("[wired]", "[traffic]\nflows = \"up\"");
    let bare = bare.replace("hosts = [\"server\"]\ndelay = \"5 ms\"\n[traffic]\n", "");
    std::fs::write(dir.path().join("bare.toml"), bare).unwrap();
    for (args, expected) in [
        (
            &["truth.toml", "--control", "cna"][..],
            "no router of the emulation runs \"cna\": cna cannot",
        ),
        (&["truth.toml", "--control", "cna+sampled+messages"], "limits in airtime"),
        (&["truth.toml", "--control", "lbm+multihop+messages"], "not delivered:"),
        (&["truth.toml", "--control", "no-such"], "no-such"),
        (&["truth.toml", "--control", "pfrc", "--set", "epoch=two"], "epoch=5"),
        (&["truth.toml", "--control", "pfrc", "--set", "x=2"], "\"x\""),
        (&["truth.toml", "--set", "epoch=2"], "--control"),
        (&["bare.toml", "--control", "pfrc"], "0 wires"),
    ] {
        let out = run(dir.path(), &[&["emulate"], args].concat());
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}
