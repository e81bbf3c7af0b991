use super::*;

const GOOD: &str = r#"
mode = "apply"
unmapped = "limit 2 Mbit/s"
[mesh]
interface = "bat0"
[wired]
interface = "eth0"
[shaping]
leaf = "bfifo"
shaper = "edt"
table = "fairmesh"
handle = 4001
queue = 100
delay = "80 ms"
on_exit = "release"
sample = "5 s"
bypass_udp = [698]
bypass_tcp = [22]
[control]
use = "pfrc+bursts+peers"
epoch = 4
[[neighbour]]
name = "north"
rate = "54 Mbit/s"
[[neighbour]]
name = "south"
capacity = "20 Mbit/s"
[plan.basic]
weight = 1.5
down = "10 Mbit/s"
up = "2 Mbit/s"
guarantee_down = "100 kbit/s"
guarantee_up = "50 kbit/s"
fair_down = "1 Mbit/s"
fair_up = "1 Mbit/s"
[plan.guest]
weight = 0.5
[[subscriber]]
name = "alice"
prefixes = ["10.1.0.0/24", "fd00:1::/64"]
macs = ["02:00:5e:10:00:01"]
plan = "basic"
hops = 2
weight = 2.0
up = "3 Mbit/s"
[[subscriber]]
name = "bob"
prefixes = ["10.2.0.7"]
[discover]
netjson = "/run/mesh.json"
batman = "bat0"
olsr = "127.0.0.1:9090"
babel = "[::1]:33123"
neighbours = true
routes = true
plan = "guest"
every = "10 s"
linger = "10 min"
most = 100
[peers]
number = 2
listen = "[::]:5247"
peer = ["192.0.2.1:5247", "[2001:db8::3]:5247"]
key = "/etc/fairmesh/peers.key"
[signs]
read = false
probe = false
[metrics]
listen = "127.0.0.1:9742"
textfile = "/run/fairmesh/fairmesh.prom"
per_subscriber = true
[history]
size = "16 MiB"
folder = "/var/log/fairmesh"
[page]
listen = "127.0.0.1:9743"
hosts = ["gateway.example"]
token_file = "/etc/fairmesh/page.token"
[paths]
state = "/var/lib/fairmesh"
socket = "/run/fairmesh/gateway.sock"
"#;

/// Returns the same configuration without other gateways.
fn without_peers() -> String {
    let (begin, end) = (GOOD.find("[peers]").unwrap(), GOOD.find("[metrics]").unwrap());
    format!("{}{}", &GOOD[..begin], &GOOD[end..]).replace("+peers", "")
}

#[test]
fn everything_is_read() {
    let c = Config::parse("gateway.toml", GOOD).unwrap();
    let page = c.page.as_ref().unwrap();
    assert_eq!(page.listen.to_string(), "127.0.0.1:9743");
    assert_eq!((&*page.hosts[0], page.token_file.is_some()), ("gateway.example", true));
    assert_eq!((c.mode, c.mechanism.to_string().as_str()), (Mode::Apply, "pfrc+bursts+peers"));
    let alice = &c.subscribers[0];
    assert_eq!(alice.plan.weight, 2.0, "its own");
    assert_eq!(alice.plan.down.ceiling, Some(BitRate(10_000_000)), "its plan's");
    assert_eq!(alice.plan.up.ceiling, Some(BitRate(3_000_000)), "its own");
    assert_eq!(alice.prefixes[0].to_string(), "10.1.0.0/24");
    assert_eq!(c.subscribers[1].plan, Plan::default());
    assert_eq!(c.subscribers[1].prefixes[0].to_string(), "10.2.0.7/32");
    assert_eq!(c.neighbours[1].capacity, BitRate(20_000_000));
    assert_eq!(c.discover.unwrap().most, 100);
    let peers = c.peers.unwrap();
    assert_eq!((peers.number, peers.peers.len()), (2, 2));
    assert_eq!(c.sample, Span::from_secs(5));
}

#[test]
fn a_gateway_listens_where_its_peers_can_reach_it() {
    let listen = |peers: &str| {
        let text = GOOD.replace("listen = \"[::]:5247\"\n", "").replace(
            "peer = [\"192.0.2.1:5247\", \"[2001:db8::3]:5247\"]\nkey = \"/etc/fairmesh/peers.key\"",
            peers,
        );
        Config::parse("t", &text).unwrap().peers.unwrap()
    };
    let four = listen("peer = [\"192.0.2.1:99\"]");
    assert_eq!(
        (four.listen.to_string().as_str(), four.key),
        ("0.0.0.0:5247", PathBuf::from(PEER_KEY_PATH))
    );
    assert_eq!(listen("peer = [\"192.0.2.1:9\", \"[fd00::1]:9\"]").listen.to_string(), "[::]:5247");
    // A control that sends to other gateways needs some.
    let text = without_peers().replace("pfrc+bursts", "pfrc+bursts+peers");
    let e = Config::parse("t", &text).unwrap_err().to_string();
    assert!(e.starts_with("t:") && e.contains("control.use: ") && e.contains("[peers]"), "{e}");
    assert!(Config::parse("t", &without_peers()).unwrap().peers.is_none());
}

/// All unmapped traffic is one subscriber, unless configured otherwise.
#[test]
fn unknown_traffic_has_a_policy() {
    let parse = |line: &str| {
        let text = GOOD.replace("unmapped = \"limit 2 Mbit/s\"", line);
        Config::parse("t", &text).unwrap().subscribers
    };
    for line in ["", "unmapped = \"share\""] {
        let all = parse(line);
        let (last, others) = all.split_last().unwrap();
        assert_eq!((last.name.as_str(), others.len()), (UNMAPPED, 2), "{line}");
        assert!(last.prefixes.is_empty() && last.plan.down.ceiling.is_none());
        assert_eq!(last.plan.weight, 1.0);
    }
    let plan = parse("unmapped = \"limit 2 Mbit/s\"").pop().unwrap().plan;
    let both = [plan.down.ceiling, plan.up.ceiling];
    assert_eq!(both, [Some(BitRate(2_000_000)); 2]);
    assert_eq!(parse("unmapped = \"pass\"").len(), 2);
    let taken = GOOD.replace("name = \"bob\"", "name = \"(unmapped)\"");
    assert!(Config::parse("t", &taken).unwrap_err().to_string().contains("subscriber[1].name"));
    // A control that uses fair rates gets the lowest one.
    let fair = without_peers().replace("pfrc+bursts", "static-flow").replace("epoch = 4\n", "");
    let fair = fair.replace(
        "prefixes = [\"10.2.0.7\"]",
        "plan = \"basic\"\nfair_up = \"400 kbit/s\"\nprefixes = [\"10.2.0.7\"]",
    );
    let fair = fair
        .replace("weight = 0.5", "weight = 0.5\nfair_down = \"2 Mbit/s\"\nfair_up = \"2 Mbit/s\"");
    let plan = Config::parse("t", &fair).unwrap().subscribers.pop().unwrap().plan;
    assert_eq!([plan.down.fair, plan.up.fair], [1_000_000, 400_000].map(|r| Some(BitRate(r))));
}

#[test]
fn a_minimal_configuration_only_observes() {
    let text = "mesh = { interface = \"a\" }\nwired = { interface = \"b\" }\n\
                control = { use = \"fifo\" }\nsubscriber = [{ name = \"x\", prefixes = [\"10.0.0.1\"] }]";
    let c = Config::parse("gateway.toml", text).unwrap();
    assert_eq!(c.mode, Mode::Observe);
    assert_eq!(c.metrics.unwrap().to_string(), "127.0.0.1:9742");
    assert_eq!(c.page, None, "no page unless it is asked for");
}

/// Each field in turn is invalid: replaced line, replacement, expected part of the message.
#[test]
fn every_field_wrong_in_turn_is_refused_with_its_line_and_key() {
    let cases: &[(&str, &str, &str, &str)] = &[
        ("mode = \"apply\"", "mode = \"on\"", "mode", "observe, apply"),
        ("mode = \"apply\"", "mode = 3", "mode", "observe, apply"),
        ("mode = \"apply\"", "mood = \"apply\"", "mood", "unknown key"),
        ("unmapped = \"limit 2 Mbit/s\"", "unmapped = \"limit 2\"", "unmapped", "has no unit"),
        ("unmapped = \"limit 2 Mbit/s\"", "unmapped = \"limit\"", "unmapped", "share"),
        ("unmapped = \"limit 2 Mbit/s\"", "unmapped = \"limit 1 bit/s\"", "unmapped", "range"),
        ("unmapped = \"limit 2 Mbit/s\"", "unmapped = true", "unmapped", "string"),
        ("interface = \"bat0\"", "interface = \"a b\"", "mesh.interface", "letters, digits"),
        ("interface = \"bat0\"", "interface = 4", "mesh.interface", "string"),
        ("interface = \"eth0\"", "interface = \"bat0\"", "wired.interface", "two interfaces"),
        (
            "interface = \"eth0\"",
            "iface = \"eth0\"",
            "wired.iface",
            "unknown key; expected one of interface",
        ),
        ("leaf = \"bfifo\"", "leaf = \"red\"", "shaping.leaf", "fq_codel"),
        ("leaf = \"bfifo\"", "leaf = \"pfifo\"", "shaping.leaf", "bfifo"),
        ("leaf = \"bfifo\"", "leaf = \"cake\"", "shaping.leaf", "no queues of kind cake"),
        ("shaper = \"edt\"", "shaper = \"fq\"", "shaping.shaper", "auto"),
        ("table = \"fairmesh\"", "table = \"a-b\"", "shaping.table", "letters"),
        ("handle = 4001", "handle = 65535", "shaping.handle", "0x7fff"),
        ("handle = 4001", "handle = -1", "shaping.handle", "256 to 32767"),
        ("queue = 100", "queue = 1", "shaping.queue", "2 to 10000"),
        ("delay = \"80 ms\"", "delay = \"9 ms\"", "shaping.delay", "10 ms to 10 s"),
        ("delay = \"80 ms\"", "delay = 80", "shaping.delay", "time"),
        ("on_exit = \"release\"", "on_exit = \"keep\"", "shaping.on_exit", "release, remove"),
        ("sample = \"5 s\"", "sample = \"5\"", "shaping.sample", "has no unit"),
        ("sample = \"5 s\"", "sample = \"1 ms\"", "shaping.sample", "1 s to 600 s"),
        ("bypass_udp = [698]", "bypass_udp = [70000]", "shaping.bypass_udp[0]", "65535"),
        ("bypass_tcp = [22]", "bypass_tcp = \"ssh\"", "shaping.bypass_tcp", "sequence"),
        ("use = \"pfrc+bursts+peers\"", "use = \"htb\"", "control.use", "pfrc"),
        ("use = \"pfrc+bursts+peers\"", "use = \"maxmin+peers\"", "control.use", "rtt+peers"),
        ("use = \"pfrc+bursts+peers\"", "use = \"pfrc+quick\"", "control.use", "pfrc+constrained"),
        ("use = \"pfrc+bursts+peers\"", "use = \"pfrc+bursts\"", "control.use", "rtt+peers"),
        ("number = 2", "number = 0", "peers.number", "1 to 65535"),
        ("number = 2", "number = \"2\"", "peers.number", "number"),
        ("number = 2", "", "peers", "number = "),
        ("listen = \"[::]:5247\"", "listen = \"[::]\"", "peers.listen", "socket address"),
        ("listen = \"[::]:5247\"", "listen = \"[::]:0\"", "peers.listen", "with a port"),
        ("listen = \"[::]:5247\"", "listen = \"192.0.2.9:1\"", "peers.peer[1]", "[::]:1"),
        ("listen = \"[::]:5247\"", "listen = \"[2001:db8::3]:5247\"", "peers.peer[0]", "reached"),
        (
            "peer = [\"192.0.2.1:5247\",",
            "peer = [\"192.0.2.1\",",
            "peers.peer[0]",
            "socket address",
        ),
        ("peer = [\"192.0.2.1:5247\",", "peer = [\"gw2:5247\",", "peers.peer[0]", "socket address"),
        (
            "peer = [\"192.0.2.1:5247\",",
            "peer = [\"224.0.0.1:1\",",
            "peers.peer[0]",
            "single gateway",
        ),
        (
            "peer = [\"192.0.2.1:5247\",",
            "peer = [\"0.0.0.0:1\",",
            "peers.peer[0]",
            "single gateway",
        ),
        (
            "peer = [\"192.0.2.1:5247\",",
            "peer = [\"192.0.2.1:0\",",
            "peers.peer[0]",
            "address and port",
        ),
        ("peer = [\"192.0.2.1:5247\",", "peer = [\"[2001:db8::3]:5247\",", "peers.peer[1]", "once"),
        ("peer = [\"192.0.2.1:5247\", \"[2001:db8::3]:5247\"]", "peer = []", "peers", "peer = ["),
        ("key = \"/etc/fairmesh/peers.key\"", "key = \"peers.key\"", "peers.key", "absolute"),
        ("key = \"/etc/fairmesh/peers.key\"", "secret = \"a\"", "peers.secret", "unknown key"),
        ("epoch = 4", "epoch = 0.1", "control.epoch", "1 to 600"),
        ("epoch = 4", "epoch = \"4 s\"", "control.epoch", "a number without a unit"),
        ("epoch = 4", "epoque = 4", "control.epoque", "unknown key"),
        ("rate = \"54 Mbit/s\"", "rate = \"54\"", "neighbour[0].rate", "has no unit"),
        ("rate = \"54 Mbit/s\"", "rate = \"0 Mbit/s\"", "neighbour[0].rate", "out of range"),
        ("rate = \"54 Mbit/s\"", "", "neighbour[0]", "rate = "),
        (
            "rate = \"54 Mbit/s\"",
            "mac = \"02:00:00:00:00:01\"\ncapacity = \"9 Mbit/s\"",
            "neighbour[0].mac",
            "mac beside rate",
        ),
        (
            "capacity = \"20 Mbit/s\"",
            "capacity = \"1 bit/s\"",
            "neighbour[1].capacity",
            "out of range",
        ),
        ("name = \"south\"", "name = \"north\"", "neighbour[1].name", "twice"),
        ("weight = 1.5", "weight = 0", "plan.basic.weight", "0.01 to 100"),
        ("weight = 1.5", "weight = nan", "plan.basic.weight", "0.01 to 100"),
        ("down = \"10 Mbit/s\"", "down = \"fast\"", "plan.basic.down", "has no number"),
        ("up = \"2 Mbit/s\"", "up = \"2 MB\"", "plan.basic.up", "wrong unit"),
        (
            "guarantee_down = \"100 kbit/s\"",
            "guarantee_down = \"20 Mbit/s\"",
            "plan.basic.guarantee_down",
            "at most the ceiling",
        ),
        (
            "guarantee_up = \"50 kbit/s\"",
            "guarantee_up = 50",
            "plan.basic.guarantee_up",
            "a rate such as",
        ),
        (
            "fair_down = \"1 Mbit/s\"",
            "fair_down = \"-1 Mbit/s\"",
            "plan.basic.fair_down",
            "negative",
        ),
        ("fair_up = \"1 Mbit/s\"", "fair_up = \"1 bit/s\"", "plan.basic.fair_up", "out of range"),
        ("name = \"alice\"", "name = \" \"", "subscriber[0].name", "not a valid name"),
        ("name = \"bob\"", "name = \" alice\"", "subscriber[1].name", "is used in gateway.toml:"),
        ("name = \"bob\"", "", "subscriber[1]", "`name` is missing"),
        ("\"10.1.0.0/24\"", "\"10.1.0.1/24\"", "subscriber[0].prefixes[0]", "10.1.0.0/24"),
        ("\"10.1.0.0/24\"", "\"10.1.0\"", "subscriber[0].prefixes[0]", "a prefix such as"),
        ("\"10.1.0.0/24\"", "\"0.0.0.0/0\"", "subscriber[0].prefixes[0]", "covers all addresses"),
        (
            "[\"10.2.0.7\"]",
            "[\"10.1.0.0/24\"]",
            "subscriber[1].prefixes[0]",
            "belongs to \"alice\"",
        ),
        ("prefixes = [\"10.2.0.7\"]", "", "subscriber[1]", "has no address"),
        (
            "\"02:00:5e:10:00:01\"",
            "\"02:00:5e:10:00\"",
            "subscriber[0].macs[0]",
            "Ethernet address",
        ),
        ("\"02:00:5e:10:00:01\"", "\"ff:ff:ff:ff:ff:ff\"", "subscriber[0].macs[0]", "station"),
        ("plan = \"basic\"\nhops", "plan = \"gold\"\nhops", "subscriber[0].plan", "one of basic"),
        ("hops = 2", "hops = 0", "subscriber[0].hops", "1 to 64"),
        ("weight = 2.0", "weight = -2.0", "subscriber[0].weight", "0.01 to 100"),
        (
            "up = \"3 Mbit/s\"",
            "up = \"10 kbit/s\"",
            "subscriber[0].guarantee_up",
            "at most the ceiling",
        ),
        ("netjson = \"/run/mesh.json\"", "netjson = 1", "discover.netjson", "path"),
        ("batman = \"bat0\"", "batman = \"\"", "discover.batman", "interface name"),
        ("olsr = \"127.0.0.1:9090\"", "olsr = \"localhost\"", "discover.olsr", "socket address"),
        ("babel = \"[::1]:33123\"", "babel = \"::1\"", "discover.babel", "socket address"),
        ("neighbours = true", "neighbours = \"yes\"", "discover.neighbours", "boolean"),
        ("routes = true", "routes = 1", "discover.routes", "boolean"),
        (
            "plan = \"guest\"\nevery",
            "plan = \"gold\"\nevery",
            "discover.plan",
            "one of basic, guest",
        ),
        (
            "plan = \"guest\"\nevery",
            "plan = \"basic\"\nevery",
            "discover.plan",
            "a guarantee for discovered subscribers",
        ),
        ("every = \"10 s\"", "every = \"0 s\"", "discover.every", "1 s to 3600 s"),
        ("linger = \"10 min\"", "linger = \"10\"", "discover.linger", "has no unit"),
        ("most = 100", "most = 0", "discover.most", "1 to 60000"),
        ("read = false", "read = 0", "signs.read", "boolean"),
        ("probe = false", "probe = 10", "signs.probe", "boolean"),
        ("read = false", "reed = false", "signs.reed", "unknown key"),
        ("listen = \"127.0.0.1:9742\"", "listen = \"0.0.0.0:9742\"", "metrics.listen", "loopback"),
        ("listen = \"127.0.0.1:9742\"", "listen = 9742", "metrics.listen", "socket address"),
        ("textfile = \"/run/", "textfile = \"run/", "metrics.textfile", "absolute path"),
        ("/fairmesh.prom\"", "/fairmesh.txt\"", "metrics.textfile", "ends in .prom"),
        ("size = \"16 MiB\"", "size = 16", "history.size", "size such as"),
        ("size = \"16 MiB\"", "size = \"16\"", "history.size", "has no unit"),
        ("size = \"16 MiB\"", "size = \"1 kB\"", "history.size", "64 KiB to 64 GiB"),
        ("\"/var/log/fairmesh\"", "\"log\"", "history.folder", "absolute path"),
        ("folder = \"/var/log/fairmesh\"", "period = \"2 min\"", "history.period", "1 s to 60 s"),
        ("folder = \"/var", "place = \"/var", "history.place", "unknown key"),
        ("per_subscriber = true", "per_subscriber = 2", "metrics.per_subscriber", "boolean"),
        ("\"127.0.0.1:9743\"", "\"0.0.0.0:9743\"", "page.listen", "Unix socket"),
        ("\"127.0.0.1:9743\"", "\"page.sock\"", "page.listen", "absolute path"),
        ("\"gateway.example\"", "\"https://a\"", "page.hosts[0]", "a name"),
        ("\"/etc/fairmesh/page", "\"page", "page.token_file", "absolute path"),
        ("state = \"/var/lib/fairmesh\"", "state = \"var\"", "paths.state", "absolute"),
        ("socket = \"/run/fairmesh/gateway.sock\"", "socket = 7", "paths.socket", "path"),
    ];
    for (from, to, key, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let line = 1 + GOOD[..GOOD.find(from).unwrap()].matches('\n').count();
        let e = match Config::parse("gateway.toml", &text) {
            Ok(_) => panic!("{to} was accepted"),
            Err(e) => e.to_string(),
        };
        assert!(e.starts_with("gateway.toml:") && !e.contains('\n'), "{to}: {e}");
        assert!(e.contains(&format!(" {key}: ")), "{to}: expected key {key}: {e}");
        assert!(e.contains(expected), "{to}: expected \"{expected}\": {e}");
        assert!(e.contains("expected"), "{to}: {e}");
        // An invalid value is reported with its own line; a value that conflicts with others, with
        // theirs.
        let beside = [
            "peers",
            "subscriber[1]",
            "neighbour[0]",
            "neighbour[1]",
            "subscriber[0].guarantee_up",
        ]
        .contains(key)
            || key.starts_with("peers.peer") && to.starts_with("listen")
            || ["\nevery", "\nhops"].iter().any(|more| to.contains(more));
        if !beside {
            assert!(e.starts_with(&format!("gateway.toml:{line}: ")), "{to}: line {line}: {e}");
        }
    }
}

#[test]
fn whole_tables_missing() {
    let cut = |from: &str, to: &str| {
        let (a, b) = (GOOD.find(from).unwrap(), GOOD.find(to).unwrap());
        let text = format!("{}{}", &GOOD[..a], &GOOD[b..]);
        Config::parse("gateway.toml", &text).map(|_| ()).unwrap_err().to_string()
    };
    assert!(cut("[mesh]", "[wired]").contains("[mesh] is missing"));
    assert!(cut("[wired]", "[shaping]").contains("[wired] is missing"));
    assert!(
        cut("[[neighbour]]", "[plan.basic]").contains("needs the rates of the gateway's links")
    );
    assert!(cut("[[subscriber]]", "[metrics]").contains("there is no subscriber"));
    assert!(cut("netjson", "plan = \"guest\"\nevery").contains("no source of subscribers"));
    let e = Config::parse("gateway.toml", "mode = ").unwrap_err().to_string();
    assert!(e.starts_with("gateway.toml:1:"), "{e}");
}

#[test]
fn static_controls_want_fair_rates() {
    let text = without_peers().replace("pfrc+bursts", "static-flow").replace("epoch = 4\n", "");
    let e = Config::parse("gateway.toml", &text).unwrap_err().to_string();
    assert!(e.contains("subscriber[1]: static-flow needs the fair rates of \"bob\""), "{e}");
}

#[test]
fn unreadable_files_are_refused() {
    let at = |p: &str| Config::load(Path::new(p)).unwrap_err().to_string();
    assert!(at("/nonexistent.toml").starts_with("/nonexistent.toml: "));
    assert!(at("/").contains("not a regular file"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.toml");
    std::fs::write(&path, b"mode = \"\xff\"").unwrap();
    assert!(at(path.to_str().unwrap()).contains("byte 8 is not UTF-8"));
}

/// The capacity that the daemon derives from a rate equals the analytic model's.
#[test]
fn capacities_are_those_of_the_radio_model() {
    use fairmesh_capacity::link::{Access, Traffic, saturated_goodput};
    use fairmesh_phy::frame::DATA_OVERHEAD;
    use fairmesh_phy::{Phy, Preamble};
    for phy in [Phy::dot11a(), Phy::dot11b(Preamble::Long)] {
        for rate in phy.rates() {
            let psdu = 1500 + 8 + DATA_OVERHEAD;
            let full = Traffic { payload: 1500, psdu, reverse_psdu: 0, reverse_per_packet: 0.0 };
            let model = saturated_goodput(&phy, rate, &full, Access::Basic);
            let ours = capacity::of_rate(phy.bit_rate(rate)).0 as f64;
            assert!((ours - model).abs() <= 1.0, "{}: {ours} {model}", phy.bit_rate(rate));
        }
    }
}

#[test]
fn the_objective_is_a_name_or_a_number() {
    let with = |control: &str| {
        let control = format!("use = \"rtt\"\n{control}");
        let text = GOOD.replace("use = \"pfrc+bursts+peers\"\nepoch = 4", &control);
        let text = text.split("[peers]").next().unwrap().to_owned();
        let read = Config::parse("gateway.toml", &text);
        read.map(|c| c.mechanism.value("alpha_fairness").unwrap()).map_err(|e| e.to_string())
    };
    assert_eq!(with(""), Ok(100.0));
    assert_eq!(with("fairness = \"max-min\""), Ok(100.0));
    assert_eq!(with("fairness = \"proportional\""), Ok(1.0));
    assert_eq!(with("fairness = { alpha = 2 }"), Ok(2.0));
    assert_eq!(with("alpha_fairness = 2"), Ok(2.0));
    let refused = |control: &str, text: &str| {
        let error = with(control).unwrap_err();
        assert!(error.contains("control.fairness") && error.contains(text), "{error}");
    };
    refused("fairness = \"equal\"", "expected \"max-min\", \"proportional\" or { alpha = NUMBER }");
    refused("fairness = { beta = 2 }", "alpha");
    refused("fairness = {}", "alpha");
    refused("fairness = { alpha = 0.1 }", "expected 0.5 to 100");
    refused("alpha_fairness = 2\nfairness = \"max-min\"", "both set");
}

/// Files beside a configuration, and the configuration itself.
fn folder(main: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("gateway.d")).unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, main).unwrap();
    (folder, file)
}

const SIDES: &str = "mesh = { interface = \"bat0\" }\nwired = { interface = \"eth0\" }\n\
    control = { use = \"fifo\" }\n";
const SHAPED: &str = "\u{feff}Circuit ID;Circuit Name;Device ID;Device Name;Parent Node;MAC;IPv4;IPv6;\
    Download Min Mbps;Upload Min Mbps;Download Max Mbps;Upload Max Mbps;Comment\r\n\
    1;farm;1;d;AP_1;;10.3.0.1;;1;1;20,5;2;\r\n\
    2;mill;2;d;AP_1;;10.1.0.1;fdd7::/56;1;1;20;2;\r\n\
    3;roof;3;d;AP_1;;10.3.0.3;;1;1;20;2;\r\n\
    4;yard;4;d;AP_1;;10.3.0.1;;1;1;20;2;\r\n";
const NETWORK: &str = "{\"AP_1\": {\"downloadBandwidthMbps\": 10, \"type\": \"AP\"}}";

#[test]
fn subscribers_come_from_fragments_and_libreqos() {
    let main = format!(
        "include = \"gateway.d\"\n{SIDES}[libreqos]\ndevices = \"s.csv\"\nnetwork = \"n.json\"\n\
         plan = \"slow\"\n"
    );
    let (_folder, file) = folder(
        &main,
        &[
            ("gateway.d/10-plans.toml", "[plan.slow]\nweight = 2\nup = \"1 Mbit/s\"\n"),
            (
                "gateway.d/20-roof.toml",
                "\u{feff}[[subscriber]]\r\nname = \"roof\"\r\nprefixes = [\"10.1.0.1\"]\r\nplan = \"slow\"\r\n",
            ),
            ("gateway.d/.30.toml", "broken"),
            ("gateway.d/30.toml.bak", "broken"),
            ("s.csv", SHAPED),
            ("n.json", NETWORK),
        ],
    );
    let config = Config::load(&file).unwrap();
    let text = |s: &Subscriber| {
        let nets: Vec<_> = s.prefixes.iter().map(ToString::to_string).collect();
        let rate = |r: Rates| r.ceiling.map_or(0, |c| c.0 / 1000);
        format!("{} {} {} {}", s.name, nets.join(" "), rate(s.plan.down), rate(s.plan.up))
    };
    let texts: Vec<_> = config.subscribers.iter().map(text).collect();
    let expected = [
        "roof 10.1.0.1/32 0 1000",
        "farm 10.3.0.1/32 10000 2000",
        "mill fdd7::/56 10000 2000",
        "(unmapped)  0 0",
    ];
    assert_eq!(texts, expected);
    assert_eq!(config.subscribers[1].plan.weight, 2.0, "of the plan");
    let report = config.files.last().unwrap();
    assert!(report.summary().ends_with("s.csv: 2 subscribers; not used: minimum rates, MAC, sqm"));
    let left_out: Vec<_> = report.left_out().collect();
    for (line, of, both) in [
        (3, "10.1.0.1/32 belongs to \"roof\" in", "20-roof.toml:2"),
        (4, "the name \"roof\" is used in", "20-roof.toml:2"),
        (5, "10.3.0.1/32 belongs to \"farm\" in", "line 2"),
    ] {
        let at = format!("s.csv:{line}: ");
        let found = |l: &String| l.contains(&at) && l.contains(of) && l.contains(both);
        assert!(left_out.iter().any(found), "{line}: {left_out:?}");
    }
    // One text has all files, for the last configuration that worked.
    let stored = Config::parse_stored("last-good", &config.source.0).unwrap();
    assert_eq!(stored.subscribers, config.subscribers);
    assert_eq!(stored.source, config.source);
}

/// A conflict between files names the place of both entries.
#[test]
fn conflicts_of_files_name_both_places() {
    let main = format!(
        "include = \"gateway.d\"\n{SIDES}[plan.a]\n[[subscriber]]\nname = \"x\"\nprefixes = [\"10.0.0.1\"]\n"
    );
    let line = |fragment: &str| {
        let (_folder, file) = folder(&main, &[("gateway.d/a.toml", fragment)]);
        Config::load(&file).unwrap_err().to_string()
    };
    for (fragment, at, other) in [
        (
            "\n[[subscriber]]\nname = \"x\"\nprefixes = [\"10.0.0.2\"]",
            "a.toml:3: ",
            "gateway.toml:7",
        ),
        ("[[subscriber]]\nname = \"y\"\nprefixes = [\"10.0.0.1\"]", "a.toml:3: ", "gateway.toml:7"),
        ("\n\n[plan.a]", "a.toml:3: ", "gateway.toml:5"),
        ("mode = \"apply\"", "a.toml:1: mode: unknown key; expected one of plan, subscriber", ""),
        (
            "[[subscriber]]\nname = \"y\"\nprefixes = [\"x\"]",
            "a.toml:3: subscriber[0].prefixes[0]: ",
            "",
        ),
        (
            "[[subscriber]]\nname = \"y\"\nplan = \"b\"\nprefixes = []",
            "a.toml:3: subscriber[0].plan: ",
            "",
        ),
    ] {
        let line = line(fragment);
        assert!(line.contains(at) && line.contains(other), "{fragment}: {line}");
    }
}

#[test]
fn files_that_are_not_there_are_refused_with_their_key() {
    for (key, text, at) in [
        ("", "include = \"none\"", "gateway.toml:1: include: "),
        ("[libreqos]", "devices = \"none.csv\"", "gateway.toml:5: libreqos.devices: "),
        ("[libreqos]", "devices = \"gateway.toml\"", "gateway.toml:5: libreqos.devices: "),
        (
            "[libreqos]",
            "devices = \"s.csv\"\nnetwork = \"s.csv\"",
            "gateway.toml:6: libreqos.network: ",
        ),
    ] {
        let main = if key.is_empty() {
            format!("{text}\n{SIDES}")
        } else {
            format!("{SIDES}{key}\n{text}\n")
        };
        let (_folder, file) = folder(&main, &[("s.csv", SHAPED)]);
        let line = Config::load(&file).unwrap_err().to_string();
        assert!(line.contains(at) && line.contains("; expected "), "{text}: {line}");
    }
}

#[test]
fn a_schedule_that_cannot_be_is_refused_with_its_key() {
    let text = |zone: &str, during: &str| {
        format!(
            "time_zone = \"{zone}\"\n{SIDES}[plan.a]\nguarantee_down = \"1 Mbit/s\"\n[[plan.a.during]]\n{during}\n\
             [[subscriber]]\nname = \"x\"\nplan = \"a\"\nprefixes = [\"10.0.0.1\"]\n"
        )
    };
    let times = "from = \"18:00\"\nto = \"06:00\"\n";
    assert!(Config::parse("t", &text("UTC0", &format!("{times}up = \"1 Mbit/s\""))).is_ok());
    for (zone, during, at) in [
        ("Mars/Olympus", format!("{times}up = \"1 Mbit/s\""), "t:1: time_zone: "),
        ("UTC0", times.to_owned(), "t:7: plan.a.during[0]: no weight or rate"),
        ("UTC0", format!("{times}down = \"1 kbit/s\""), "t:10: plan.a.during[0].down: "),
        ("UTC0", format!("{times}up = \"0 bit/s\""), "t:10: plan.a.during[0].up: "),
        ("UTC0", format!("{times}weight = 0"), "t:10: plan.a.during[0].weight: "),
        ("UTC0", format!("{times}weight = nan"), "t:10: plan.a.during[0].weight: "),
        ("UTC0", format!("{times}weight = 101"), "t:10: plan.a.during[0].weight: "),
        (
            "UTC0",
            format!("days = [\"mon\", \"Montag\"]\n{times}up = \"1 Mbit/s\""),
            "t:8: plan.a.during[0].days[1]: ",
        ),
        (
            "UTC0",
            "from = \"24:00\"\nto = \"06:00\"\nup = \"1 Mbit/s\"".to_owned(),
            "t:8: plan.a.during[0].from: ",
        ),
        (
            "UTC0",
            "from = \"12:00\"\nto = \"6\"\nup = \"1 Mbit/s\"".to_owned(),
            "t:9: plan.a.during[0].to: ",
        ),
    ] {
        let line = Config::parse("t", &text(zone, &during)).unwrap_err().to_string();
        assert!(line.contains(at) && line.contains("; expected "), "{during}: {line}");
    }
}

#[test]
fn a_quota_that_cannot_be_is_refused_with_its_key() {
    let text = |quota: &str| {
        format!(
            "{SIDES}[plan.a]\nguarantee_down = \"1 Mbit/s\"\nquota = {{ {quota} }}\n\
             [[subscriber]]\nname = \"x\"\nplan = \"a\"\nprefixes = [\"10.0.0.1\"]\n"
        )
    };
    let good = "bytes = \"10 GB\", per = \"week\", up = \"1 Mbit/s\"";
    assert!(Config::parse("t", &text(good)).is_ok());
    for (from, to, at) in [
        ("10 GB", "0 B", "t:6: plan.a.quota.bytes: no bytes"),
        ("\"10 GB\"", "10", "t:6: plan.a.quota.bytes: "),
        ("week", "year", "t:6: plan.a.quota.per: "),
        ("up =", "down =", ""),
        ("up = \"1 Mbit/s\"", "down = \"1 kbit/s\"", "t:6: plan.a.quota.down: "),
        (", up = \"1 Mbit/s\"", "", "t:6: plan.a.quota: no rate"),
    ] {
        let result = Config::parse("t", &text(&good.replace(from, to)));
        if at.is_empty() {
            assert!(result.is_ok(), "{to}");
            continue;
        }
        let line = result.unwrap_err().to_string();
        assert!(line.contains(at) && line.contains("; expected "), "{to}: {line}");
    }
}

#[test]
fn guests_have_a_plan_of_their_own() {
    let text = |word: &str| {
        format!(
            "unmapped = \"{word}\"\n{SIDES}[plan.guest]\nweight = 0.25\ndown = \"2 Mbit/s\"\n\
             quota = {{ bytes = \"1 GB\", per = \"day\", down = \"1 Mbit/s\" }}\n\
             [[subscriber]]\nname = \"x\"\nprefixes = [\"10.0.0.1\"]\n"
        )
    };
    let config = Config::parse("t", &text("plan guest")).unwrap();
    let guests = &config.subscribers[1];
    assert_eq!((&*guests.name, guests.plan.weight), (UNMAPPED, 0.25));
    assert_eq!(guests.plan.down.ceiling, Some(BitRate(2_000_000)));
    assert_eq!(guests.plan.during(None, true).down.ceiling, Some(BitRate(1_000_000)));
    let line = Config::parse("t", &text("plan none")).unwrap_err().to_string();
    assert!(
        line.contains("t:1: unmapped: there is no plan \"none\"; expected one of guest"),
        "{line}"
    );
}
