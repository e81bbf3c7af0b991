//! `fairmesh capacity` from the command line.

mod common;

use std::fmt::Write as _;
use std::fs;

use common::{folder, ok, run, workspace};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn shipped(name: &str) -> String {
    workspace().join("scenarios").join(name).to_string_lossy().into_owned()
}

/// Returns the model's allocation by a criterion, without RTS.
fn rates(v: &Value, model: &str, criterion: &str) -> Vec<f64> {
    let models = v["models"].as_array().unwrap();
    let m = models.iter().find(|m| m["model"] == model && m["rts"] == false).unwrap();
    let all = m["criteria"].as_array().unwrap();
    let a = all.iter().find(|a| a["criterion"] == criterion).unwrap();
    a["rates_bps"].as_array().unwrap().iter().map(|r| r.as_f64().unwrap()).collect()
}

/// Jamshaid 2010 Fig 7.3, by collision domains and by cliques.
///
/// Domains give (R/5, R/10, R/10), each flow with its own bottleneck. With contention over
/// transmission ranges, cliques give (R/3, R/6, R/6).
#[test]
fn fig_7_3_with_its_bottlenecks() {
    let dir = folder();
    let path = shipped("jamshaid-fig-7.3.toml");
    let v = json(&ok(dir.path(), &["capacity", &path, "--json", "--hears", "decode"]));
    let r = v["flows"][0]["hop_capacity_bps"][0].as_f64().unwrap();
    let near = |found: &[f64], shares: [f64; 3]| {
        for (rate, share) in found.iter().zip(shares) {
            assert!((rate / (r * share) - 1.0).abs() < 1e-6, "{found:?}");
        }
    };
    near(&rates(&v, "domains", "max-min"), [0.2, 0.1, 0.1]);
    near(&rates(&v, "cliques", "max-min"), [1.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0]);
    let domains = &v["models"][0];
    let limit = &domains["criteria"][0]["bottleneck"];
    assert_eq!(limit, &serde_json::json!([0, 1, 1]));
    let center = domains["bottlenecks"][1]["center"].as_u64().unwrap() as usize;
    assert_eq!(domains["links"][center], serde_json::json!(["3", "4"]));
    // The bounds of §7.5.2 around R, and the fifth to which collision domains may reduce it.
    let bounds = &v["bounds"];
    near(
        &["lower_bps", "lower_domains_bps", "upper_bps"].map(|k| bounds[k].as_f64().unwrap()),
        [1.0 / 3.0, 0.2, 1.0],
    );
}

#[test]
fn weights_have_a_column_of_their_own() {
    let dir = folder();
    let path = shipped("jamshaid-fig-8.2.toml");
    let text = ok(dir.path(), &["capacity", &path]);
    assert!(text.contains("weighted max-min"));
    let v = json(&ok(dir.path(), &["capacity", &path, "--json"]));
    let (plain, weighted) =
        (rates(&v, "domains", "max-min"), rates(&v, "domains", "weighted max-min"));
    // Flow 4 → 0 has weight 1 and flow 5 → 0 weight 3, in one domain.
    assert!((plain[1] - plain[2]).abs() < 1e-6 && (weighted[2] / weighted[1] - 3.0).abs() < 1e-9);
    assert!(!ok(dir.path(), &["capacity", "chain.toml"]).contains("weighted"));
}

/// A long chain by domains is below the range of the published search, with a note on that.
#[test]
fn a_long_chain_is_below_the_published_bound() {
    let dir = folder();
    let text = ok(dir.path(), &["capacity", &shipped("chain-8.toml")]);
    assert!(text.contains("is below what that search covers"), "{text}");
    assert!(!ok(dir.path(), &["capacity", "chain.toml"]).contains("is below"));
}

#[test]
fn the_page_draws_topology_and_contention() {
    let dir = folder();
    ok(dir.path(), &["capacity", "chain.toml", "--html", "page.html"]);
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    // One bottleneck and one contention graph per model.
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(page.contains("Contention graph of 3 links, 3 edges"));
    for fetch in ["src=", "href=", "@import", "url(", "http"] {
        assert!(!page.contains(fetch), "{fetch}");
    }
}

/// A clique model with too many cliques is rejected, and the domains remain.
///
/// Sixty one-hop flows contend with all others except those of the same group of three, which gives
/// 3^20 maximal cliques (Moon and Moser 1965).
#[test]
fn hopeless_cliques_are_refused_and_domains_still_there() {
    let dir = folder();
    let mut text = String::from("duration = \"10 s\"\n[topology]\nlinks = [");
    for i in 0..60 {
        let _ = write!(text, "[\"a{i}\", \"b{i}\"], ");
    }
    text += "]\nsenses = [";
    for i in 0..60 {
        for j in (0..i).filter(|j| i / 3 != j / 3) {
            let _ = write!(text, "[\"a{i}\", \"a{j}\"], ");
        }
    }
    text += "]\n";
    for i in 0..60 {
        let _ = write!(text, "[[flow]]\nfrom = \"a{i}\"\nto = \"b{i}\"\n");
    }
    fs::write(dir.path().join("hopeless.toml"), text).unwrap();
    let out = ok(dir.path(), &["capacity", "hopeless.toml"]);
    assert!(out.contains("50000 maximal cliques among 60 links"), "{out}");
    assert!(out.contains("the collision-domain model needs only one domain per link"));
    assert!(out.contains("Collision domains"));
}

/// Without RTS/CTS at 1 Mbit/s, hidden frames collide repeatedly: one line and no boundary.
#[test]
fn a_region_that_is_not_known_is_refused_in_a_line() {
    let dir = folder();
    let path = shipped("jamshaid-fig-7.3.toml");
    let out = run(dir.path(), &["capacity", &path, "--model", "region"]);
    let line = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(2) && out.stdout.is_empty(), "{line}");
    assert!(line.contains("no achievable rate region: the model does not hold"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}

/// Rangwala 2008 Fig 2 and §4.1 on the Stack: 4 → 5 is congested; the page draws the region.
#[test]
fn the_region_of_the_stack() {
    let dir = folder();
    let stack = shipped("stack.toml");
    let v = json(&ok(dir.path(), &["capacity", &stack, "--model", "region", "--json"]));
    let rates: Vec<f64> =
        v["max_min_bps"].as_array().unwrap().iter().map(|r| r.as_f64().unwrap()).collect();
    assert!(rates.iter().all(|r| (r / 300e3 - 1.0).abs() < 0.2), "{rates:?}");
    let links = v["links"].as_array().unwrap();
    let congested: Vec<&str> = links
        .iter()
        .filter(|l| l["congested"] == true)
        .map(|l| l["from"].as_str().unwrap())
        .collect();
    assert!(congested.contains(&"4") && !congested.contains(&"5"), "{congested:?}");
    // The middle flow against the outer two, by default.
    assert_eq!(v["first_group"], serde_json::json!([0, 2]));
    // Without RTS/CTS the model does not hold at 1 Mbit/s.
    let chain = fs::read_to_string(dir.path().join("chain.toml")).unwrap();
    let chain = chain.replace("[radio]\n", "[radio]\nrts = true\n");
    fs::write(dir.path().join("rts.toml"), chain).unwrap();
    let args = ["capacity", "rts.toml", "--model", "region", "--html", "r.html"];
    assert!(ok(dir.path(), &args).contains("max-min"));
    assert!(fs::read_to_string(dir.path().join("r.html")).unwrap().contains("class=\"boundary\""));
}

/// GAP's fluid model: a case per condition of §V.B, and the picture of the documentation.
#[test]
fn the_fluid_model_and_its_phase_pictures() {
    let dir = folder();
    let tree = shipped("mancuso-branches-1.toml");
    let gap = ["capacity", &tree, "--model", "gap"];
    let v = json(&ok(dir.path(), &[&gap[..], &["--json"]].concat()));
    let regimes: Vec<&str> =
        v["cases"].as_array().unwrap().iter().map(|c| c["regime"].as_str().unwrap()).collect();
    assert_eq!(regimes, ["light", "unsaturated", "threshold", "saturated"]);
    ok(dir.path(), &[&gap[..], &["--html", "phase.svg"]].concat());
    let drawn = fs::read_to_string(dir.path().join("phase.svg")).unwrap();
    let kept = fs::read_to_string(common::workspace().join("docs/img/gap-phase.svg")).unwrap();
    assert!(
        drawn == kept,
        "fairmesh capacity … --model gap --html docs/img/gap-phase.svg renews it"
    );
    let text = ok(dir.path(), &[&gap[..], &["--html", "phase.html"]].concat());
    assert!(text.contains("t_decay 0.94 s"), "{text}");
    assert!(fs::read_to_string(dir.path().join("phase.html")).unwrap().contains("<svg"));
    let out = run(dir.path(), &["capacity", &shipped("stack.toml"), "--model", "gap"]);
    let line = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(2) && line.contains("topology.gateway"), "{line}");
}

#[test]
fn mistakes_are_one_line() {
    let dir = folder();
    for args in [
        &["capacity"][..],
        &["capacity", "none.toml"],
        &["capacity", "chain.toml", "--gateway", "1"],
        &["capacity", "chain.toml", "--hears", "smell"],
        &["capacity", "chain.toml", "--html", "."],
        &["capacity", "chain.toml", "--model", "region", "--utilization", "2"],
        &["capacity", "chain.toml", "--model", "region", "--group", "nobody"],
    ] {
        let out = run(dir.path(), args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert_eq!(String::from_utf8(out.stderr).unwrap().lines().count(), 1, "{args:?}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
}
