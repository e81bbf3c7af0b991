//! Short runs with pinned transmissions, on any machine and in any build profile.
//!
//! There is one per control with each of its variants, per transport, queue, kind of traffic and kind of
//! radio.
//!
//! A change of these fingerprints changes published numbers and [`fairmesh_engine::REVISION`]. If
//! the change is intended, `KEEP_FINGERPRINTS=1 cargo test -p fairmesh-engine --test fingerprints`
//! rewrites the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use fairmesh_control::Registry;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run, run_under};
use fairmesh_scenario::{Scenario, draft_from_toml};

/// Controls that do not change a run relative to `fifo`.
const IDLE: &[&str] = &["control/fifo"];

/// Combinations of variants with records.
const COMBINED: &[&str] = &[
    "arc-fq+exponential+relearn",
    "cna+tolerant+pass-on",
    "cna+tolerant+pass-on+overlap",
    "cna+sampled+messages",
    "cna+tolerant+pass-on+sampled+messages",
    "lbm+multihop+messages",
    "mesh-maxmin+sampled+messages",
    "lbm+adaptive+even",
    "lbm+multihop+even",
    "lbm+pi+even",
    "wcp+alone+own-rtt+doubling+two-trips",
    "wcp+doubling+three-trips",
    "wcp+doubling+two-trips",
    "wcp+ideal+doubling+two-trips",
    "wcp+in-network+doubling+two-trips",
    "wcpcap+ideal+opening+yielding",
    "wcpcap+opening+yielding",
];

const KEPT: &str = include_str!("../fingerprints/kinds.txt");

/// A mesh in which every control acts.
///
/// It has two branches of two hops, more traffic than they carry, in both directions, by TCP and by UDP.
const CONTROLLED: &str = r#"
    duration = "12 s"
    [radio]
    phy = "802.11b"
    rate = "11 Mbit/s"
    [topology]
    links = [[0, 1], [1, 2], [0, 3], [3, 4]]
    gateway = 0
    [traffic]
    transport = { tcp = "newreno", mss = "1000 B", ecn = true }
    [[flow]]
    from = 0
    to = 2
    [[flow]]
    from = 4
    to = 0
    [[flow]]
    from = 0
    to = 3
    transport = "udp"
    traffic = { kind = "cbr", rate = "800 kbit/s", packet = "1000 B" }
    [[flow]]
    from = 1
    to = 0
    traffic = { kind = "limited", rate = "300 kbit/s", packet = "1000 B" }
"#;

/// A chain with traffic in both directions; `{radio}`, `{links}` and `{traffic}` vary.
const CHAIN: &str = r#"
    duration = "4 s"
    [radio]
    {radio}
    [topology]
    {links}
    gateway = 0
    [traffic]
    {traffic}
    [[flow]]
    from = 0
    to = 3
    [[flow]]
    from = 2
    to = 0
    [[flow]]
    from = 0
    to = 1
    transport = "udp"
    traffic = { kind = "cbr", rate = "500 kbit/s", packet = "700 B", jitter = 0.5 }
"#;

const BY_DELIVERY: &str = "links = [[0, 1], [1, 2], { from = 2, to = 3, delivery = 0.9 }]";
const BY_SIGNAL: &str = "links = [{ from = 0, to = 1, signal = -70 }, \
     { from = 1, to = 2, signal = -74 }, { from = 2, to = 3, signal = -78 }]";

const RADIO: &str = "phy = \"802.11n\"\nmcs = 2";
const TRAFFIC: &str = "transport = { tcp = \"cubic\", ecn = true }";

const QUEUES: [(&str, &str); 12] = [
    ("drop-tail", "20"),
    ("drop-tail-bytes", "{ kind = \"drop-tail\", bytes = \"20 kB\" }"),
    ("fq", "{ kind = \"fq\", packets = 50 }"),
    ("wfq", "{ kind = \"wfq\", packets = 50 }"),
    ("red", "{ kind = \"red\", packets = 40, ecn = true }"),
    ("fred", "{ kind = \"fred\" }"),
    ("mark", "{ kind = \"mark\", packets = 64, threshold = 4, weight = 0.02 }"),
    ("codel", "{ kind = \"codel\" }"),
    ("fq_codel", "{ kind = \"fq_codel\", ce_threshold = \"2 ms\" }"),
    ("cake", "{ kind = \"cake\" }"),
    ("dualpi2", "{ kind = \"dualpi2\" }"),
    ("mac80211", "{ kind = \"mac80211\" }"),
];

const TRANSPORTS: [(&str, &str); 15] = [
    ("tcp-newreno", "{ tcp = \"newreno\" }"),
    ("tcp-newreno-ns2", "{ tcp = \"newreno\", preset = \"ns2\", one_rtt_sample = true }"),
    ("tcp-newreno-sack", "{ tcp = \"newreno\", sack = true, delayed_ack = true }"),
    ("tcp-cubic", "{ tcp = \"cubic\" }"),
    ("tcp-cubic-linux", "{ tcp = \"cubic\", preset = \"linux\" }"),
    ("tcp-bbr", "{ tcp = \"bbr\", preset = \"linux\" }"),
    ("tcp-bbr3", "{ tcp = \"bbr3\", preset = \"linux\" }"),
    ("tcp-prague", "{ tcp = \"prague\", preset = \"linux\" }"),
    ("quic-newreno", "{ quic = \"newreno\" }"),
    ("quic-cubic", "{ quic = \"cubic\" }"),
    ("quic-cubic-ecn", "{ quic = \"cubic\", ecn = true }"),
    ("quic-bbr", "{ quic = \"bbr\" }"),
    ("quic-bbr3", "{ quic = \"bbr3\" }"),
    ("quic-prague", "{ quic = \"prague\" }"),
    ("udp", "\"udp\"\ntraffic = { kind = \"cbr\", rate = \"2 Mbit/s\", packet = \"1400 B\" }"),
];

const APPLICATIONS: [(&str, &str); 4] = [
    ("bulk", "\"bulk\""),
    ("file", "{ kind = \"file\", size = \"50 kB\", shape = 1.5, pause = \"50 ms\" }"),
    ("http", "\"http\""),
    ("limited", "{ kind = \"limited\", rate = \"300 kbit/s\", packet = \"1000 B\" }"),
];

const RADIOS: [(&str, &str); 19] = [
    ("b", "phy = \"802.11b\"\nrate = \"11 Mbit/s\"\nrts = true"),
    ("b-ns2", "phy = \"802.11b\"\nrules = \"ns2\"\nllc = \"6 B\""),
    ("b-ns2-rts", "phy = \"802.11b\"\nrules = \"ns2\"\nrts = true\nreception = \"nocap\""),
    ("b-short", "phy = \"802.11b-short\"\nrate = \"5.5 Mbit/s\""),
    ("a", "phy = \"802.11a\"\nrate = \"24 Mbit/s\"\nreception = \"nocap\""),
    ("g", "phy = \"802.11g\"\nrate = \"12 Mbit/s\"\nadaptation = \"samplerate\""),
    ("bg", "phy = \"802.11bg\"\nrate = \"12 Mbit/s\"\nadaptation = \"arf\""),
    ("bg-short", "phy = \"802.11bg-short\"\nrate = \"36 Mbit/s\"\nreception = \"sinr\""),
    ("n", "phy = \"802.11n\"\nmcs = 11\nwidth = \"40 MHz\""),
    ("n-amsdu", "phy = \"802.11n\"\nmcs = 4\namsdu = \"3839 B\""),
    ("n-minstrel", "phy = \"802.11n\"\nmcs = 4\nadaptation = \"minstrel-ht\""),
    ("n-edca", "phy = \"802.11n\"\nmcs = 4\nedca = { defaults = \"linux\" }"),
    ("ac", "phy = \"802.11ac\"\nwidth = \"80 MHz\"\nmcs = 4\nrts = true"),
    ("ax", "phy = \"802.11ax\"\nwidth = \"80 MHz\"\nmcs = 6"),
    ("frame-errors", "rate = \"2 Mbit/s\"\nerrors = { frame = 0.1 }"),
    ("bit-errors", "rate = \"2 Mbit/s\"\nerrors = { bit = [1e-6, 2e-6, 1e-5, 4e-5] }"),
    ("bursts", "rate = \"2 Mbit/s\"\nerrors = { bursts = 0.1 }"),
    ("snr", "phy = \"802.11n\"\nmcs = 4\nerrors = { snr = {} }"),
    ("snr-rayleigh", "phy = \"802.11n\"\nmcs = 4\nerrors = { snr = { fading = \"rayleigh\" } }"),
];

/// Larger worlds with all components that have random numbers or arithmetic of their own.
const WORLDS: [(&str, &str); 3] = [
    (
        "chain",
        r#"
        duration = "5 s"
        [radio]
        rate = "1 Mbit/s"
        [topology]
        chain = { hops = 4, spacing = "200 m" }
        gateway = 0
        [traffic]
        flows = "both"
        nodes = [2, 4]
        "#,
    ),
    (
        "graph",
        r#"
        duration = "5 s"
        [radio]
        phy = "802.11g"
        adaptation = "samplerate"
        rts = "500 B"
        queue = { kind = "red", packets = 40 }
        errors = { bursts = 0.05 }
        [topology]
        links = [[1, 2], [2, 3], { from = 3, to = 4, delivery = 0.8 }, [4, 5], [2, 5]]
        [traffic]
        transport = { tcp = "cubic", sack = true }
        [[flow]]
        from = 1
        to = 4
        [[flow]]
        from = 5
        to = 1
        traffic = { kind = "file", size = "100 kB", pause = "50 ms", random_pause = true }
        [[flow]]
        from = 3
        to = 5
        traffic = { kind = "cbr", rate = "1 Mbit/s", packet = "700 B" }
        [[interferer]]
        nodes = [2, 3]
        period = "30 ms"
        duty = 0.1
        jitter = 0.4
        "#,
    ),
    (
        "wired",
        r#"
        duration = "5 s"
        [radio]
        reception = "sinr"
        adaptation = "arf"
        errors = { bit = [1e-6, 2e-6, 1e-5, 4e-5] }
        [topology]
        random = { nodes = 12, width = "600 m", seed = 3 }
        gateway = 0
        [wired]
        hosts = ["server"]
        [traffic]
        flows = "down"
        host = "server"
        traffic = "http"
        "#,
    ),
];

fn read(name: &str, text: &str) -> Scenario {
    let draft = draft_from_toml(name, text).unwrap_or_else(|e| panic!("{name}: {e}"));
    draft.build().unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn chain(name: &str, radio: &str, traffic: &str) -> Scenario {
    let links = if radio.contains("snr") { BY_SIGNAL } else { BY_DELIVERY };
    let text = CHAIN.replace("{radio}", radio).replace("{links}", links);
    read(name, &text.replace("{traffic}", traffic))
}

/// Name and scenario of every run without a control.
fn worlds() -> Vec<(String, Scenario)> {
    let mut all = Vec::new();
    for (name, queue) in QUEUES {
        let name = format!("queue/{name}");
        let world = chain(&name, &format!("{RADIO}\nqueue = {queue}"), TRAFFIC);
        all.push((name, world));
    }
    for (name, transport) in TRANSPORTS {
        let name = format!("transport/{name}");
        let world = chain(&name, RADIO, &format!("transport = {transport}"));
        all.push((name, world));
    }
    for (name, traffic) in APPLICATIONS {
        let name = format!("traffic/{name}");
        let world = chain(&name, RADIO, &format!("{TRAFFIC}\ntraffic = {traffic}"));
        all.push((name, world));
    }
    for (name, radio) in RADIOS {
        let name = format!("radio/{name}");
        let world = chain(&name, radio, TRAFFIC);
        all.push((name, world));
    }
    for (name, text) in WORLDS {
        all.push((format!("world/{name}"), read(name, text)));
    }
    all
}

fn line(record: &RunRecord) -> String {
    format!("{} {}", record.totals.transmissions, record.fingerprint)
}

/// One line per run: name, transmissions, fingerprint.
fn now() -> BTreeMap<String, String> {
    let mut lines = BTreeMap::new();
    for (name, scenario) in worlds() {
        let record = run(&scenario, &RunOptions::default()).unwrap();
        assert!(record.totals.transmissions > 300, "{name} has too little traffic to show changes");
        assert!(lines.insert(name.clone(), line(&record)).is_none(), "{name} twice");
    }
    let mesh = read("controlled", CONTROLLED);
    for name in controls() {
        let control = Registry::standard().lookup(&name).unwrap();
        let record = run_under(&mesh, &RunOptions::default(), &control).unwrap();
        lines.insert(format!("control/{name}"), line(&record));
    }
    lines
}

/// Every control of the registry, alone and with each variant, and combinations of variants.
fn controls() -> Vec<String> {
    let mut names = Vec::new();
    for definition in Registry::standard().all() {
        names.push(definition.name.to_string());
        names.extend(definition.variants.iter().map(|v| format!("{}+{}", definition.name, v.name)));
    }
    names.extend(COMBINED.iter().map(|name| (*name).to_owned()));
    names
}

#[test]
fn nothing_has_changed() {
    let now = now();
    let mut text = String::new();
    for (name, line) in &now {
        writeln!(text, "{name} {line}").unwrap();
    }
    if std::env::var_os("KEEP_FINGERPRINTS").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fingerprints/kinds.txt");
        std::fs::write(file, text).unwrap();
        return;
    }
    let kept: Vec<&str> = KEPT.lines().collect();
    let (new, gone): (Vec<&str>, Vec<&str>) = (
        text.lines().filter(|l| !kept.contains(l)).collect(),
        kept.iter().copied().filter(|k| !text.lines().any(|l| l == *k)).collect(),
    );
    assert!(new.is_empty() && gone.is_empty(), "now: {new:#?}\nkept: {gone:#?}");
}

/// If a control had no effect on its mesh, changes of its code would not show.
#[test]
fn every_control_acts_in_its_run() {
    let kept: BTreeMap<&str, &str> = KEPT.lines().filter_map(|l| l.split_once(' ')).collect();
    let fifo = kept["control/fifo"];
    let same: Vec<&str> = kept
        .iter()
        .filter(|(name, line)| name.starts_with("control/") && **line == fifo)
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(same, IDLE);
}
