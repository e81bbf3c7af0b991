//! Islands: a world of parts that do not meet, run as a whole and part by part.

use std::fmt::Write as _;

use fairmesh_control::Registry;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{IslandLink, RunOptions, islands, run};
use fairmesh_scenario::{Scenario, draft_from_toml};
use fairmesh_units::Span;
use proptest::prelude::*;

/// Text of a world of several towns, each with a gateway of its own.
#[derive(Clone, Debug)]
struct City {
    /// By town: places of its nodes, of which the first is the gateway.
    towns: Vec<Vec<(f64, f64)>>,
    /// Distance between towns, m.
    apart: f64,
    queue: &'static str,
    transport: &'static str,
    traffic: &'static str,
    radio: &'static str,
    /// True if flows end at one wired host behind all gateways.
    wired: bool,
    subscribers: bool,
    /// Latest start of a flow, ms.
    late: u64,
    control: String,
}

impl City {
    fn text(&self) -> String {
        let mut text = format!("duration = \"1500 ms\"\nwarmup = \"300 ms\"\n{}\n", self.radio);
        let _ = writeln!(
            text,
            "queue = {{ {} }}\n[traffic]\n{}\n{}",
            self.queue, self.transport, self.traffic
        );
        let mut gateways = Vec::new();
        let mut flows = String::new();
        let mut homes = String::new();
        for (t, town) in self.towns.iter().enumerate() {
            let gateway = format!("g{t}");
            for (n, (x, y)) in town.iter().enumerate() {
                let name = if n == 0 { gateway.clone() } else { format!("t{t}n{n}") };
                let x = x + self.apart * t as f64;
                let _ = writeln!(text, "[[node]]\nid = \"{name}\"\nposition = [{x}, {y}]");
                let end = if self.wired { "server" } else { &gateway };
                let ways = [("u", name.as_str(), end), ("d", end, name.as_str())];
                for (way, from, to) in ways.iter().filter(|_| n > 0) {
                    let start = self.late * (n as u64 % 3) / 2;
                    let _ = writeln!(
                        flows,
                        "[[flow]]\nname = \"{way}{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nstart = \"{start} ms\""
                    );
                }
                if n > 0 && self.subscribers {
                    let _ =
                        writeln!(homes, "[[subscriber]]\nname = \"h{name}\"\nnodes = [\"{name}\"]");
                }
            }
            gateways.push(format!("\"{gateway}\""));
        }
        if self.wired {
            text.push_str("[wired]\nhosts = [\"server\"]\nrate = \"5 Mbit/s\"\n");
        }
        let _ = writeln!(
            text,
            "[topology]\ngateways = [{}]\n[control]\nuse = \"{}\"",
            gateways.join(", "),
            self.control
        );
        text + &flows + &homes
    }

    fn scenario(&self) -> Scenario {
        let text = self.text();
        let draft = draft_from_toml("city.toml", &text);
        draft.and_then(|d| d.build()).unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    /// True if every node has a neighbour before it within reach of all rates.
    fn is_connected(&self) -> bool {
        let near = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1) < 100.0;
        self.towns.iter().all(|town| town.windows(2).all(|w| near(&w[0], &w[1])))
    }
}

fn by_parts(scenario: &Scenario, options: &RunOptions) -> RunRecord {
    let found = islands(scenario);
    let one = |i: &fairmesh_engine::Island| run(&i.part(scenario), options).unwrap();
    found.merge(scenario, found.list.iter().map(one).collect())
}

/// The record without fingerprint and number of events, as text with every digit.
fn text(mut record: RunRecord) -> String {
    record.fingerprint.clear();
    record.totals.events = 0;
    serde_json::to_string_pretty(&record).unwrap()
}

fn differs(a: &str, b: &str) -> String {
    let mut lines = a.lines().zip(b.lines()).enumerate();
    match lines.find(|(_, (x, y))| x != y) {
        Some((n, (x, y))) => format!("line {n}: whole {x}, parts {y}"),
        None => format!("{} and {} bytes", a.len(), b.len()),
    }
}

fn town() -> impl Strategy<Value = Vec<(f64, f64)>> {
    // A chain with random sides: connected at every rate.
    prop::collection::vec((-15.0..15.0_f64, -15.0..15.0_f64), 2..6).prop_map(|all| {
        all.into_iter().enumerate().map(|(i, (x, y))| (65.0 * i as f64 + x, y)).collect()
    })
}

fn city() -> impl Strategy<Value = City> {
    let queues = prop::sample::select(vec![
        "kind = \"drop-tail\", packets = 20",
        "kind = \"fq\", packets = 5",
        "kind = \"fq_codel\"",
        "kind = \"cake\"",
        "kind = \"mac80211\"",
        "kind = \"red\"",
        "kind = \"fred\"",
        "kind = \"wfq\", packets = 5",
    ]);
    let transports = prop::sample::select(vec![
        "transport = { tcp = \"newreno\" }",
        "transport = { tcp = \"cubic\" }",
        "transport = \"quic\"",
        "transport = \"udp\"",
    ]);
    let radios = prop::sample::select(vec![
        "[radio]\nrate = \"2 Mbit/s\"",
        "[radio]\nrate = \"11 Mbit/s\"\nrts = true\nerrors = { frame = 0.1 }",
        "[radio]\nrate = \"6 Mbit/s\"\nphy = \"802.11a\"",
    ]);
    let names: Vec<String> = Registry::standard().all().map(|d| d.name.to_string()).collect();
    let rest = (
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(vec![0_u64, 0, 400]),
        prop::sample::select(names),
    );
    (prop::collection::vec(town(), 2..4), queues, transports, radios, rest).prop_map(
        |(towns, queue, transport, radio, (wired, subscribers, late, control))| City {
            towns,
            apart: 20_000.0,
            queue,
            transport,
            traffic: if transport.contains("udp") {
                "traffic = { kind = \"cbr\", rate = \"300 kbit/s\" }"
            } else {
                ""
            },
            radio,
            wired,
            subscribers,
            late,
            control,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every number of the record, every curve and decision.
    #[test]
    fn a_whole_and_its_parts_have_the_same_record(city in city(), seed in 1..1000_u64) {
        prop_assume!(city.is_connected());
        let scenario = city.scenario();
        let sample = Some(Span::from_millis(100));
        let options = RunOptions { seed, sample, ..RunOptions::default() };
        let Ok(whole) = run(&scenario, &options) else { return Ok(()) };
        let (whole, parts) = (text(whole), text(by_parts(&scenario, &options)));
        prop_assert!(whole == parts, "{}\n{}", differs(&whole, &parts), city.text());
    }
}

fn three() -> City {
    City {
        towns: vec![vec![(0.0, 0.0), (150.0, 0.0), (300.0, 0.0)]; 3],
        apart: 20_000.0,
        queue: "kind = \"drop-tail\", packets = 50",
        transport: "transport = { tcp = \"newreno\" }",
        traffic: "",
        radio: "[radio]\nrate = \"2 Mbit/s\"",
        wired: true,
        subscribers: false,
        late: 0,
        control: "pfrc".into(),
    }
}

#[test]
fn towns_that_do_not_meet_are_islands_and_their_host_is_in_each() {
    let scenario = three().scenario();
    let found = islands(&scenario);
    assert_eq!((found.list.len(), found.touching.len()), (3, 0));
    let server = scenario.node("server").unwrap();
    for (i, island) in found.list.iter().enumerate() {
        assert_eq!((island.nodes.len(), island.flows.len(), island.gateways.len()), (4, 4, 1));
        assert!(island.nodes.contains(&server));
        assert_eq!(scenario.nodes()[island.gateways[0].index()].name, format!("g{i}"));
    }
}

#[test]
fn causes_that_join_islands_are_named() {
    let touch = |city: &City, more: &str| {
        let text = city.text() + more;
        let scenario = draft_from_toml("city.toml", &text).unwrap().build().unwrap();
        let found = islands(&scenario);
        let touching = found.touching.iter().map(|t| t.1.clone()).collect::<Vec<_>>();
        (found.list.len(), touching)
    };
    let near = City { apart: 500.0, ..three() };
    let (number, why) = touch(&near, "");
    assert_eq!(number, 1);
    assert!(matches!(&why[0], IslandLink::Air { .. }), "{why:?}");
    let (number, why) =
        touch(&three(), "[[flow]]\nname = \"far\"\nfrom = \"t0n1\"\nto = \"t2n1\"\n");
    assert_eq!((number, why), (2, vec![IslandLink::Flow("far".into())]));
    // A control at the host that all flows end at sees them all.
    let (number, why) = touch(&City { control: "source".into(), ..three() }, "");
    assert_eq!(number, 1);
    assert_eq!(why[0], IslandLink::Host("server".into()));
    let (number, why) = touch(&City { control: "pfrc+peers".into(), ..three() }, "");
    let outside = IslandLink::Control("the control exchanges messages outside the air");
    assert_eq!((number, &why[0]), (1, &outside));
    let noise = "[[interferer]]\nname = \"oven\"\nnodes = [\"t0n1\", \"t1n1\"]\nduty = 0.1\nperiod = \"20 ms\"\n";
    let (number, why) = touch(&three(), noise);
    assert_eq!((number, why), (2, vec![IslandLink::Interferer("oven".into())]));
}

#[test]
fn nodes_without_flows_are_one_island_at_the_end() {
    let mut city = three();
    city.wired = false;
    let text = city.text()
        + "[[node]]\nid = \"a\"\nposition = [0, 90000]\n[[node]]\nid = \"b\"\nposition = [0, 190000]\n";
    let scenario = draft_from_toml("city.toml", &text).unwrap().build().unwrap();
    let found = islands(&scenario);
    let sizes: Vec<_> = found.list.iter().map(|i| (i.nodes.len(), i.flows.len())).collect();
    assert_eq!(sizes, [(3, 4), (3, 4), (3, 4), (2, 0)]);
    let whole = text_of(&scenario);
    assert_eq!(whole.0, whole.1);
}

fn text_of(scenario: &Scenario) -> (String, String) {
    let options = RunOptions::default();
    (text(run(scenario, &options).unwrap()), text(by_parts(scenario, &options)))
}
