//! Packaged files fit the program.
//!
//! UCI becomes an accepted configuration, and the dashboard's metrics exist.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "uci/keys.rs"]
mod keys;

use fairmesh_agent::gateway::config::{
    Config, Mode, PEER_KEY_PATH, ReadHeaders, RoutesBy, UNMAPPED,
};

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Returns the configuration that a router's start script writes from a UCI file.
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
    assert_eq!(config.history.folder, Path::new("/var/run/fairmesh/history"), "RAM on a router");
    assert_eq!(config.history.size, 1 << 20);
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
fn windows_and_quotas_of_plans_arrive_from_uci() {
    let text = toml_of(
        "config gateway 'main'\n option mesh 'm0'\n option wired 'w0'\n option control 'fifo'\n \
         option time_zone 'CET-1CEST,M3.5.0,M10.5.0/3'\n option unmapped 'plan guests'\n\
         config plan 'gold'\n option down '20 Mbit/s'\n option quota '100 GB'\n option quota_per 'week'\n \
         option quota_down '1 Mbit/s'\n\
         config plan 'guests'\n option down '2 Mbit/s'\n\
         config window\n option plan 'gold'\n list day 'sat'\n list day 'sun'\n option from '18:00'\n \
         option to '23:00'\n option down '5 Mbit/s'\n option weight '0.25'\n\
         config subscriber\n option name 'a'\n list prefix '10.2.0.0/24'\n option plan 'gold'\n",
    );
    let config = Config::parse("gateway.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let home = config.subscribers.iter().find(|s| s.name == "a").unwrap();
    assert!(home.plan.schedule.is_some() && home.plan.quota.is_some(), "{text}");
    assert_eq!(config.schedules[0].windows[0].weight, Some(0.25), "{text}");
    let guests = config.subscribers.iter().find(|s| s.name == UNMAPPED).unwrap();
    assert_eq!(guests.plan.down.ceiling.unwrap().0, 2_000_000);
    let wrong = Config::parse("gateway.toml", &text.replace("18:00", "25:00")).unwrap_err();
    assert!(wrong.to_string().contains("from"), "{wrong}");
    let wrong = Config::parse("gateway.toml", &text.replace("week", "year")).unwrap_err();
    assert!(wrong.to_string().contains("per"), "{wrong}");
}

/// Other gateways in UCI, and the unit's addition for their packets and the key.
#[test]
fn other_gateways_can_be_configured_where_it_is_packaged() {
    let text = toml_of(
        "config gateway 'main'\n option mesh 'm0'\n option wired 'w0'\n option control 'rtt+peers'\n \
         option peer_number '2'\n list peer '192.0.2.1:5247'\n list peer '[fd00::1]:5247'\n \
         option peer_listen '[::]:5248'\n option routes '1'\n option mesh_paths '1'\n option routes_by 'route'\n\
         config neighbour\n option name 'n'\n option rate '54 Mbit/s'\n",
    );
    let config = Config::parse("gateway.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let peers = config.peers.unwrap();
    assert_eq!((peers.number, peers.peers.len(), peers.listen.port()), (2, 2, 5248));
    let discover = config.discover.unwrap();
    assert!(discover.mesh_paths && discover.routes && discover.routes_by == RoutesBy::Route);
    assert_eq!(
        peers.key,
        Path::new(PEER_KEY_PATH),
        "as in the unit's addition, and kept by OpenWrt"
    );
    let unit = |name: &str| std::fs::read_to_string(packaging(name)).unwrap();
    assert!(
        unit("systemd/peers.conf").contains(&format!("LoadCredential=peers.key:{PEER_KEY_PATH}\n"))
    );
    assert!(unit("systemd/peers.conf").contains("\nIPAddressAllow="));
    let key = fairmesh_agent::key::NODE_KEY_PATH;
    assert!(unit("systemd/agents.conf").contains(&format!("LoadCredential=node.key:{key}\n")));
    let service = unit("systemd/fairmesh-gateway.service");
    assert!(service.contains("\nIPAddressDeny=any\n"), "no other addresses");
    assert!(service.contains("RestrictAddressFamilies=AF_NETLINK AF_UNIX AF_INET AF_INET6\n"));
    assert!(unit("openwrt/build.sh").contains(&format!("echo {PEER_KEY_PATH} > ")));
    assert!(!service.contains("\nLoadCredential"), "a unit without other gateways needs no key");
}

/// The page is off unless UCI names its address; the unit's addition provides its token.
#[test]
fn the_page_can_be_served_where_it_is_packaged() {
    let uci = "config gateway 'main'\n option mesh 'm0'\n option wired 'w0'\n option control 'fifo'\n \
               option routes '1'\n";
    let page = |options: &str| {
        Config::parse("gateway.toml", &toml_of(&format!("{uci}{options}"))).unwrap().page
    };
    assert_eq!(page(""), None);
    let page = page(
        " option page '127.0.0.1:9743'\n list page_host 'gw.lan'\n option page_token '/etc/fairmesh/page.token'\n",
    );
    let page = page.unwrap();
    assert_eq!(
        (page.listen.to_string().as_str(), page.hosts),
        ("127.0.0.1:9743", vec!["gw.lan".into()])
    );
    let token = page.token_file.unwrap();
    let unit = |name: &str| std::fs::read_to_string(packaging(name)).unwrap();
    let credential = format!("LoadCredential=page.token:{}\n", token.display());
    assert!(unit("systemd/page.conf").contains(&credential));
    assert!(unit("deb/build.sh").contains("packaging/systemd/page.conf"));
    assert!(unit("openwrt/build.sh").contains("/etc/fairmesh/page.token"), "kept by an upgrade");
}

/// Headers are read only with the unit's addition, and unless UCI forbids it.
#[test]
fn headers_can_be_read_where_the_operator_lets_them() {
    let unit = |name: &str| std::fs::read_to_string(packaging(name)).unwrap();
    let (service, addition) =
        (unit("systemd/fairmesh-gateway.service"), unit("systemd/signs.conf"));
    for (key, value) in [
        ("CapabilityBoundingSet", "CAP_NET_RAW"),
        ("AmbientCapabilities", "CAP_NET_RAW"),
        ("RestrictAddressFamilies", "AF_PACKET"),
    ] {
        assert!(addition.contains(&format!("\n{key}={value}\n")), "{key}");
        let line = service.lines().find(|l| l.starts_with(&format!("{key}="))).unwrap();
        assert!(!line.contains(value), "{line}: only where it is asked for");
    }
    assert!(unit("deb/build.sh").contains("packaging/systemd/signs.conf"));
    let uci = "config gateway 'main'\n option mesh 'm0'\n option wired 'w0'\n option control 'fifo'\n \
               option routes '1'\n";
    let read = |option: &str| {
        let toml = toml_of(&format!("{uci}{option}"));
        let config = Config::parse("gateway.toml", &toml).unwrap();
        (config.signs, config.probe)
    };
    assert_eq!(read(""), (ReadHeaders::ForControl, true));
    assert_eq!(read(" option signs '0'\n"), (ReadHeaders::Never, true));
    assert_eq!(read(" option signs '1'\n"), (ReadHeaders::Always, true));
    assert_eq!(read(" option probe '0'\n"), (ReadHeaders::ForControl, false));
    assert_eq!(read(" option signs '1'\n option probe '1'\n"), (ReadHeaders::Always, true));
}

#[test]
fn uci_options_set_the_objective() {
    let uci = "config gateway 'main'\n option mesh 'm0'\n option wired 'w0'\n option control 'rtt'\n \
               option routes '1'\n option guarantee '20'\n";
    let neighbour = "config neighbour\n option name 'north'\n option rate '54 Mbit/s'\n";
    let read = |option: &str| {
        let toml = toml_of(&format!("{uci}{option}{neighbour}"));
        let config = Config::parse("gateway.toml", &toml).unwrap();
        ["alpha_fairness", "guarantee", "airtime"].map(|key| config.mechanism.value(key).unwrap())
    };
    assert_eq!(read(" option fairness 'proportional'\n"), [1.0, 20.0, 0.0]);
    assert_eq!(read(" option alpha_fairness '2'\n option airtime '0.5'\n"), [2.0, 20.0, 0.5]);
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
    let source = include_str!("../src/gateway/metrics.rs");
    let mut names = 0;
    for rest in text.split("fairmesh_gateway_").skip(1) {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap();
        let name = &rest[..end];
        assert!(source.contains(&format!("\"{name}\"")), "there is no metric {name}");
        names += 1;
    }
    assert!(names >= 12, "{names}");
}

/// docs/gateway.md has the installed example, as error messages state.
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

#[test]
fn the_page_of_routers_has_the_example_of_the_packages() {
    let page = include_str!("../../../docs/node.md");
    let example = std::fs::read_to_string(packaging("examples/node.toml")).unwrap();
    assert!(page.contains(&format!("```toml\n{example}```")), "docs/node.md has another example");
    let config = fairmesh_agent::node::config::Config::parse("node.toml", &example).unwrap();
    assert_eq!((config.mode, config.mechanism.to_string().as_str()), (Mode::Observe, "gap"));
}

/// Runs `reload` of the start script, with stand-ins for procd's functions.
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
    // The output of `reset` is not shown.
    assert_eq!(reload(0, true), ["stop"]);
}

/// Returns procd's calls by the shipped start script, each as a line of words.
fn registered(enabled: u8, check: i32) -> (Vec<Vec<String>>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairmesh");
    let uci = format!(
        "config gateway 'main'\n option enabled '{enabled}'\n option mesh 'm0'\n option wired 'w0'\n \
         option control 'fifo'\n option routes '1'\n"
    );
    std::fs::write(&file, uci).unwrap();
    let conf = folder.path().join("run/gateway.toml");
    let script = format!(
        "print() {{ printf '%s\\037' \"$@\"; echo; }}; \
         for call in open_instance set_param close_instance add_reload_trigger; do \
           eval \"procd_$call() {{ print $call \\\"\\$@\\\"; }}\"; done; \
         . {functions}; . {init}; prog() {{ print ran \"$@\"; return {check}; }}; \
         CONF={conf}; write_config() {{ mkdir -p {run}; {convert} > \"$CONF\"; }}; \
         REAL=$PROG; PROG=prog; service_triggers; start_service; print program $REAL",
        functions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/uci/functions.sh").display(),
        init = packaging("openwrt/files/fairmesh-gateway.init").display(),
        conf = conf.display(),
        run = folder.path().join("run").display(),
        convert = packaging("openwrt/files/uci-to-toml.sh").display(),
    );
    let functions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/uci/functions.sh");
    let out = Command::new("sh")
        .args(["-c", &script])
        .env("UCI_FILE", &file)
        .env("FAIRMESH_FUNCTIONS", functions)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    let text = String::from_utf8(out.stdout).unwrap().replace(&conf.display().to_string(), "CONF");
    let words = |line: &str| line.split_terminator('\x1f').map(str::to_owned).collect();
    (text.lines().map(words).collect(), conf.exists() && Config::load(&conf).is_ok())
}

/// procd restarts the daemon without a bound, with arguments that the program accepts.
#[test]
fn procd_restarts_the_daemon_without_bound() {
    use clap::Parser;
    use fairmesh_agent::args::{Cli, GatewayCommand};
    // Also with an invalid configuration: it limits nothing.
    for check in [0, 2] {
        let (calls, readable) = registered(1, check);
        let calls: Vec<Vec<&str>> =
            calls.iter().map(|c| c.iter().map(String::as_str).collect()).collect();
        let of = |what: &str| {
            let params = calls.iter().filter(|c| c[0] == "set_param" && c[1] == what);
            params.map(|c| c[2..].to_vec()).collect::<Vec<_>>()
        };
        assert!(readable, "the configuration was written first");
        assert!(calls.contains(&vec!["ran", "check", "--config", "CONF"]));
        assert_eq!(calls[0], ["add_reload_trigger", "fairmesh"], "a changed option arrives");
        // procd(8): threshold, wait before the next start, number of retries; 0: no bound.
        assert_eq!(of("respawn"), [["3600", "5", "0"]]);
        let command = of("command").remove(0);
        assert_eq!(command, ["prog", "run", "--fall-back", "--config", "CONF"]);
        let GatewayCommand::Run(run) = Cli::try_parse_from(&command).unwrap().command else {
            panic!("{command:?}")
        };
        assert!(run.fall_back && !run.no_guard, "in the foreground, with its guard");
        assert!(calls.contains(&vec!["program", "/usr/bin/fairmesh-gateway"]));
        // Time for lifting limits at the end.
        assert_eq!(of("term_timeout"), [["20"]]);
        let at = |what: &str| calls.iter().position(|c| c[0] == what).unwrap();
        let inside =
            |c: &(usize, &Vec<&str>)| at("open_instance") < c.0 && c.0 < at("close_instance");
        let set = calls.iter().enumerate().filter(|(_, c)| c[0] == "set_param");
        assert!(set.clone().all(|c| inside(&c)) && set.count() == 5);
    }
    let (calls, _) = registered(0, 0);
    assert!(calls.iter().all(|c| c[0] != "open_instance" && c[0] != "set_param"), "{calls:?}");
}

/// Services of a mesh router beside those of a gateway, with folders that the commands know.
#[test]
fn routers_have_a_service_of_their_own() {
    use clap::Parser;
    use fairmesh_agent::key::NODE_KEY_PATH;
    use fairmesh_agent::node::args::{Cli, NodeCommand};
    use fairmesh_agent::node::config::{MESSAGE_PORT, SOCKET_PATH, STATE_FOLDER};
    let read = |name: &str| std::fs::read_to_string(packaging(name)).unwrap();
    let unit = read("systemd/fairmesh-node.service");
    let has = |line: &str| assert!(unit.lines().any(|l| l == line), "no line {line}");
    assert_eq!(Path::new(SOCKET_PATH).parent(), Some(Path::new("/run/fairmesh-node")));
    has("RuntimeDirectory=fairmesh-node");
    has("StateDirectory=fairmesh-node");
    assert_eq!(STATE_FOLDER, "/var/lib/fairmesh-node");
    has(&format!("LoadCredential=node.key:{NODE_KEY_PATH}"));
    has(&format!("SocketBindAllow=udp:{MESSAGE_PORT}"));
    has("SystemCallFilter=bpf");
    assert!(read("deb/build.sh").contains("fairmesh-gateway-reset fairmesh-node; do"));
    for script in ["deb/prerm", "openwrt/build.sh"] {
        assert!(read(script).contains("/usr/bin/fairmesh-node reset"), "{script}");
    }
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("node.toml");
    let start = |check: i32| {
        let script = format!(
            "for call in open_instance set_param close_instance; do \
               eval \"procd_$call() {{ echo $call \\\"\\$@\\\"; }}\"; done; \
             . {}; prog() {{ return {check}; }}; PROG=prog; CONF={}; start_service",
            packaging("openwrt/files/fairmesh-node.init").display(),
            conf.display()
        );
        let out = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stderr), "");
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(start(0), "", "a gateway without a router's configuration");
    std::fs::copy(packaging("examples/node.toml"), &conf).unwrap();
    assert_eq!(start(2), "", "an invalid configuration");
    for check in [0, 1] {
        let calls = start(check);
        assert!(calls.contains("set_param respawn 3600 5 0\n"), "{calls}");
        let command = calls.lines().find_map(|l| l.strip_prefix("set_param command ")).unwrap();
        let parsed = Cli::try_parse_from(command.split(' ')).unwrap().command;
        let NodeCommand::Run(run) = parsed else { panic!("{command}") };
        assert!(run.config == conf && !run.no_guard);
    }
}
