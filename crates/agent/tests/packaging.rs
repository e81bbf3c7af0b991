//! What is packaged beside the program fits it: UCI becomes a configuration that it takes, the
//! dashboard asks for metrics that there are.

use std::path::{Path, PathBuf};
use std::process::Command;

use fairmesh_agent::gateway::config::{Config, Mode};

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// The configuration that a router's start script would write from a file of `/etc/config`.
fn toml_of(uci: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairmesh");
    std::fs::write(&file, uci).unwrap();
    let functions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/uci/functions.sh");
    let out = Command::new("sh")
        .arg(packaging("openwrt/files/uci-to-toml.sh"))
        .env("FAIRMESH_FUNCTIONS", functions)
        .env("UCI_FILE", &file)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn the_shipped_uci_file_is_a_configuration_that_only_observes() {
    let uci = std::fs::read_to_string(packaging("openwrt/files/fairmesh.config")).unwrap();
    assert!(uci.contains("option enabled '0'"), "as shipped it is off");
    let text = toml_of(&uci);
    let config = Config::parse("gateway.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(config.mode, Mode::Observe);
    assert_eq!(config.mechanism.to_string(), "pfrc+bursts");
    assert_eq!((config.layout.mesh.name(), config.layout.wired.name()), ("bat0", "wan"));
    assert_eq!(config.neighbours[0].rate.0, 54_000_000);
    assert_eq!(config.socket, Path::new("/var/run/fairmesh/gateway.sock"), "RAM on a router");
    let s = &config.subscribers[0];
    assert_eq!((s.name.as_str(), s.prefixes.len(), s.plan.weight), ("roof 1", 2, 1.0));
}

#[test]
fn uci_options_arrive_and_quotes_do_no_harm() {
    let text = toml_of(
        "config gateway 'main'\n option mesh 'm0'\n option wired 'w0'\n option control 'fifo'\n \
         option mode 'apply'\n option routes '1'\n option every_day 'x'\n\
         config plan 'gold'\n option weight '2.5'\n option down '20 Mbit/s'\n\
         config subscriber\n option name 'the \"mill\" \\ $(reboot)'\n list prefix '10.2.0.0/24'\n \
         option plan 'gold'\n option hops '2'\n",
    );
    let config = Config::parse("gateway.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let s = &config.subscribers[0];
    assert_eq!(s.name, "the \"mill\" \\ $(reboot)");
    assert_eq!((s.plan.weight, s.hops), (2.5, Some(2)));
    assert_eq!(s.plan.down.ceiling.unwrap().0, 20_000_000);
    assert_eq!(config.mode, Mode::Apply);
    assert!(config.discover.unwrap().routes);
}

#[test]
fn a_wrong_uci_option_is_refused_by_its_key() {
    let uci = "config gateway 'main'\n option mesh 'm0'\n option wired 'w0'\n option control 'fifo'\n\
               config subscriber\n option name 'a'\n list prefix '10.2.0.0/24'\n option weight 'two'\n";
    let refused = Config::parse("gateway.toml", &toml_of(uci)).unwrap_err().to_string();
    assert!(refused.contains("subscriber[0].weight"), "{refused}");
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let text = std::fs::read_to_string(packaging("grafana/fairmesh-gateway.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&text).unwrap();
    let asked = board["panels"].as_array().unwrap().len();
    assert!(asked >= 8, "{asked} panels");
    let source = include_str!("../src/daemon/metrics.rs");
    let mut names = 0;
    for rest in text.split("fairmesh_gateway_").skip(1) {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap();
        let name = &rest[..end];
        assert!(source.contains(&format!("\"{name}\"")), "there is no metric {name}");
        names += 1;
    }
    assert!(names >= 12, "{names}");
}

/// What the errors promise: docs/gateway.md has an example, the one that is installed.
#[test]
fn the_page_has_the_example_that_is_installed() {
    let page = include_str!("../../../docs/gateway.md");
    let example = std::fs::read_to_string(packaging("examples/gateway.toml")).unwrap();
    assert!(
        page.contains(&format!("```toml\n{example}```")),
        "docs/gateway.md has another example"
    );
    let config = Config::parse("gateway.toml", &example).unwrap();
    assert_eq!(config.mode, Mode::Observe);
}

/// What `reload` of the start script does, under stand-ins for procd's functions.
#[test]
fn a_reload_on_openwrt_starts_changes_or_stops() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairmesh");
    let functions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/uci/functions.sh");
    let script = format!(
        ". {}; running() {{ return $RUNNING; }}; start() {{ echo start; }}; stop() {{ echo stop; }}; \
         . {}; write_config() {{ echo config; }}; PROG=prog; prog() {{ echo \"$1\" >&2; }}; reload_service 2>&1",
        functions.display(),
        packaging("openwrt/files/fairmesh-gateway.init").display()
    );
    let reload = |enabled: u8, running: bool| {
        let uci = format!("config gateway 'main'\n\toption enabled '{enabled}'\n");
        std::fs::write(&file, uci).unwrap();
        let out = Command::new("sh")
            .args(["-c", &script])
            .env("UCI_FILE", &file)
            .env("RUNNING", if running { "0" } else { "1" })
            .output()
            .unwrap();
        let all = [out.stdout, out.stderr].concat();
        String::from_utf8(all).unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(reload(1, true), ["config", "reload"]);
    assert_eq!(reload(1, false), ["start"], "just enabled");
    // What `reset` says of itself is nobody's business there.
    assert_eq!(reload(0, true), ["stop"]);
}
