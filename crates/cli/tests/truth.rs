//! The gateway's daemon against an emulated mesh over the kernel's TCP: short runs, wide margins; the
//! figures are in docs/control-truth.md. Needs root, and is skipped with a line that says so.

mod common;

use std::io::Write;
use std::path::Path;

use common::run;

/// Three homes in a line behind a gateway, and a server behind that.
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

/// Emulates under the controls; Jain's index and the smallest rate of each, bit/s. A run is
/// repeated where the machine did not keep its time; `None` if it never did.
fn emulate(dir: &Path, controls: &str) -> Option<Vec<(f64, f64)>> {
    for _ in 0..2 {
        let args = ["emulate", "truth.toml", "--control", controls, "--json", "--out", "r"];
        let out = run(dir, &args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(matches!(out.status.code(), Some(0 | 1)), "{said}");
        if out.status.success() {
            let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
            let results = json["results"].as_array().unwrap();
            let one = |r: &serde_json::Value| {
                let rates = r["flows"].as_array().unwrap().iter();
                let rates = rates.map(|f| f["goodput_bps"]["mean"].as_f64().unwrap());
                (r["jain"]["mean"].as_f64().unwrap(), rates.fold(f64::INFINITY, f64::min))
            };
            return Some(results.iter().map(one).collect());
        }
        // Nothing else makes a run invalid here.
        assert!(said.contains("µs late"), "{said}");
    }
    let _ = writeln!(std::io::stderr(), "SKIPPED: twice, this machine did not keep time");
    None
}

#[test]
fn the_daemon_makes_a_starving_mesh_fair() {
    if !nix::unistd::geteuid().is_root() {
        let name = "the_daemon_makes_a_starving_mesh_fair";
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: needs root for network namespaces");
        assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let flows = |way: fn(u32) -> String| (1..=3).map(way).collect::<String>();
    let down = flows(|h| format!("[[flow]]\nfrom = \"server\"\nto = {h}\n"));
    let up = flows(|h| format!("[[flow]]\nfrom = {h}\nto = \"server\"\n"));
    let file = dir.path().join("truth.toml");

    // Simulated: Jain 0.455 +- 0.022 without control, 0.997 with it.
    std::fs::write(&file, scenario("802.11b-short", "11 Mbit/s", &down)).unwrap();
    if let Some(got) = emulate(dir.path(), "fifo,pfrc") {
        let [(fifo, worst), (pfrc, best)] = got[..] else { panic!("{got:?}") };
        assert!(fifo < 0.8 && pfrc > 0.93, "downloads: Jain {fifo} without, {pfrc} with");
        assert!(best > worst, "the worst home got {worst} without, {best} bit/s with");
        // What the daemon decided, and from what, is among the results.
        let told = std::fs::read_to_string(dir.path().join("r/gateway-pfrc.jsonl")).unwrap();
        assert!(told.contains("pfrc."), "{told}");
        assert!(dir.path().join("r/gateway-pfrc.toml").exists());
        let json = std::fs::read(dir.path().join("r/results.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let decisions = json["runs"][1]["decisions"].as_array().unwrap();
        assert!(decisions.iter().any(|d| d["code"].as_str().unwrap().starts_with("pfrc.")));
    }

    // Simulated: Jain 1.000, all three at 0.9 of 760 kbit/s.
    std::fs::write(&file, scenario("802.11a", "6 Mbit/s", &up)).unwrap();
    if let Some(got) = emulate(dir.path(), "pfrc") {
        let (pfrc, worst) = got[0];
        assert!(pfrc > 0.93 && worst > 3e5, "uploads: Jain {pfrc}, the worst home {worst} bit/s");
    }
}

#[test]
fn what_the_daemon_cannot_run_is_refused_before_anything_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let flow = "[[flow]]\nfrom = 3\nto = \"server\"\n";
    std::fs::write(dir.path().join("truth.toml"), scenario("802.11b", "11 Mbit/s", flow)).unwrap();
    let bare = scenario("802.11b", "11 Mbit/s", "").replace("[wired]", "[traffic]\nflows = \"up\"");
    let bare = bare.replace("hosts = [\"server\"]\ndelay = \"5 ms\"\n[traffic]\n", "");
    std::fs::write(dir.path().join("bare.toml"), bare).unwrap();
    for (args, says) in [
        (&["truth.toml", "--control", "cna"][..], "cna"),
        (&["truth.toml", "--control", "no-such"], "no-such"),
        (&["truth.toml", "--control", "pfrc", "--set", "epoch=two"], "epoch=5"),
        (&["truth.toml", "--control", "pfrc", "--set", "x=2"], "\"x\""),
        (&["truth.toml", "--set", "epoch=2"], "--control"),
        (&["bare.toml", "--control", "pfrc"], "0 wires"),
    ] {
        let out = run(dir.path(), &[&["emulate"], args].concat());
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
}
