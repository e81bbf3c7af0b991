//! Radios of a map's routers, and the rates of its links.

use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Band, Modulation};
use fairmesh_scenario::{ImportOptions, PhyName, Scenario, parse};
use fairmesh_units::{BitRate, Frequency, NodeId};
use fairmesh_wifi::loss::FrameErrors;

/// Returns a chain of routers r0, r1, … of these models over links with these properties.
///
/// An empty model is unknown.
fn netjson(head: &str, models: &[&str], links: &[&str]) -> String {
    let node = |(i, model): (usize, &&str)| match model.is_empty() {
        true => format!("{{\"id\": \"r{i}\"}}"),
        false => format!("{{\"id\": \"r{i}\", \"properties\": {{\"model\": \"{model}\"}}}}"),
    };
    let link = |(i, rest): (usize, &&str)| {
        format!("{{\"source\": \"r{i}\", \"target\": \"r{}\", {rest}}}", i + 1)
    };
    let nodes: Vec<String> = models.iter().enumerate().map(node).collect();
    let links: Vec<String> = links.iter().enumerate().map(link).collect();
    format!(
        "{{\"type\": \"NetworkGraph\", \"version\": \"1\", {head}, \"nodes\": [{}], \"links\": [{}]}}",
        nodes.join(", "),
        links.join(", ")
    )
}

const TQ: &str = "\"protocol\": \"batman-adv\", \"metric\": \"tq\"";
const ETX: &str = "\"protocol\": \"olsr\", \"metric\": \"etx\"";

fn options() -> ImportOptions {
    ImportOptions { gateways: vec!["r0".to_owned()], ..ImportOptions::default() }
}

fn import(text: &str, options: &ImportOptions) -> Scenario {
    parse("town.json", text.as_bytes(), options).unwrap_or_else(|e| panic!("{e}"))
}

fn mode(s: &Scenario, a: u32, b: u32) -> Mode {
    let rate = s.link(NodeId(a), NodeId(b)).and_then(|l| l.rate).expect("a link with a rate");
    match s.mac().phy.info(rate).modulation {
        Modulation::Mcs(mode) => mode,
        other => panic!("{other:?}"),
    }
}

/// Returns MCS and streams of a link in each direction.
fn rates(s: &Scenario, a: u32, b: u32) -> [(u8, u8); 2] {
    [mode(s, a, b), mode(s, b, a)].map(|m| (m.mcs(), m.streams()))
}

fn assert_states(s: &Scenario, what: &str) {
    assert!(s.warnings().iter().any(|w| w.contains(what)), "{what}: {:#?}", s.warnings());
}

#[test]
fn a_map_without_radio_data_is_802_11n_of_two_streams() {
    let s = import(&netjson(TQ, &["", "", ""], &["\"cost\": 1", "\"cost\": 0.5"]), &options());
    let m = s.mac().phy.as_modern().unwrap();
    assert_eq!((m.generation, m.band), (Generation::Ht, Band::Ghz2));
    assert!(s.links().iter().all(|l| mode(&s, l.from.0, l.to.0).width_mhz() == 20));
    // Delivery of probes is delivery of frames.
    assert_eq!(s.link(NodeId(1), NodeId(2)).unwrap().delivery.0, 0.5);
    // Higher loss leads to lower rates.
    let (best, bad) = (mode(&s, 0, 1), mode(&s, 1, 2));
    assert_eq!((best.mcs(), best.streams()), (4, 2));
    assert!(bad.mcs() <= 1, "{bad:?}");
    assert_states(&s, "radios: 802.11n, 20 MHz wide, on channel 6, with the queues of mac80211");
    assert_states(&s, "3 of 3 nodes name no model and count as 802.11n with 2 streams");
    assert_states(&s, "rates of 4 directed links: 4 by delivery probability; MCS ");
}

#[test]
fn models_determine_the_radios() {
    // All have 5 GHz, most of them 802.11ac; 802.11n has at most MCS 7.
    let models = [
        "TP-Link Archer C7 v2",
        "Ubiquiti UniFi AC Lite",
        "TP-Link TL-WDR3600 v1",
        "Frobnicator 9",
    ];
    let links = ["\"cost\": 1, \"properties\": {\"signal\": -40}"; 3];
    let s = import(&netjson(ETX, &models, &links), &options());
    let m = s.mac().phy.as_modern().unwrap();
    assert_eq!((m.generation, m.band), (Generation::Vht, Band::Ghz5));
    assert_eq!([mode(&s, 0, 1), mode(&s, 1, 2)].map(|m| (m.mcs(), m.streams())), [(9, 2), (7, 2)]);
    assert_eq!(mode(&s, 0, 1).width_mhz(), 80);
    assert_states(
        &s,
        "1 of 4 nodes have a model that is not known and count as 802.11ac with 2 streams: Frobnicator 9 (1)",
    );
    // Most have 2.4 GHz only.
    let models = ["TP-Link TL-WR841N/ND v9", "TP-Link TL-WR740N v4", "TP-Link CPE510 v1"];
    let s = import(&netjson(ETX, &models, &links[..2]), &options());
    let m = s.mac().phy.as_modern().unwrap();
    assert_eq!((m.generation, m.band), (Generation::Ht, Band::Ghz2));
    assert_eq!(rates(&s, 0, 1), [(7, 1), (7, 1)], "one stream at one end");
    assert_states(
        &s,
        "1 of 3 nodes have no radio at 2.4 GHz and count as 802.11n with 2 streams all the same: TP-Link CPE510 v1 (1)",
    );
    // Three streams at both ends.
    let text = netjson(ETX, &["TP-Link Archer C7 v2", "TP-Link Archer C7 v4"], &links[..1]);
    assert_eq!(mode(&import(&text, &options()), 0, 1).streams(), 3);
}

#[test]
fn signals_choose_rates_and_losses() {
    let link = |dbm: i32| format!("\"cost\": 1, \"properties\": {{\"signal\": {dbm}}}");
    let links = [link(-50), link(-76), link(-82)];
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let s = import(&netjson(ETX, &["", "", "", ""], &links), &options());
    let chosen: Vec<u8> = (0..3).map(|i| mode(&s, i, i + 1).mcs()).collect();
    assert_eq!(chosen[0], 7, "44 dB above the noise");
    assert!(chosen[0] > chosen[1] && chosen[1] > chosen[2], "{chosen:?}");
    assert!(matches!(s.errors(), FrameErrors::Snr(_)));
    let dbm = s.signal_of(s.link(NodeId(1), NodeId(2)).unwrap()).as_dbm();
    assert!((dbm + 76.0).abs() < 1e-6, "{dbm}");
    assert_states(&s, "by signal");
    assert_states(&s, "what is lost follows from signal and noise");
    // One link without a signal: losses are those of the map, and known signals still determine
    // rates.
    let s = import(&netjson(ETX, &["", "", ""], &[links[1], "\"cost\": 1"]), &options());
    assert!(matches!(s.errors(), FrameErrors::None));
    assert_eq!(mode(&s, 0, 1).mcs(), chosen[1]);
    assert_states(&s, "2 by signal, 2 by delivery probability");
}

#[test]
fn directions_may_differ() {
    let text = r#"{"type": "NetworkGraph", "protocol": "olsr", "version": "1", "metric": "etx",
        "nodes": [{"id": "r0"}, {"id": "r1"}], "links": [
        {"source": "r0", "target": "r1", "cost": 1, "properties": {"signal": -45}},
        {"source": "r1", "target": "r0", "cost": 1.2, "properties": {"signal": -80}}]}"#;
    let s = import(text, &options());
    let [there, back] = rates(&s, 0, 1);
    assert!(there.0 > back.0, "{there:?} {back:?}");
    let delivery = |a, b| s.link(NodeId(a), NodeId(b)).unwrap().delivery.0;
    assert_eq!((delivery(0, 1), (delivery(1, 0) * 1e6).round()), (1.0, 912_871.0));
    assert_eq!(s.flows()[0].path, [NodeId(0), NodeId(1)]);
}

#[test]
fn batman_v_costs_are_throughputs() {
    let v = "\"protocol\": \"BATMAN_V\", \"metric\": null";
    let s = import(
        &netjson(v, &["", "", "", ""], &["\"cost\": 90.5", "\"cost\": 20", "\"cost\": 2"]),
        &options(),
    );
    let chosen: Vec<f64> = (0..3)
        .map(|i| {
            let rate = s.link(NodeId(i), NodeId(i + 1)).unwrap().rate.unwrap();
            s.mac().phy.bit_rate(rate).0 as f64 / 1e6
        })
        .collect();
    // The nearest TCP goodput of a lone link: about 0.8 of the bit rate.
    assert!((100.0..=120.0).contains(&chosen[0]), "{chosen:?}");
    assert!((20.0..=30.0).contains(&chosen[1]), "{chosen:?}");
    assert_eq!(chosen[2], 6.5);
    assert_states(&s, "6 by throughput");
}

#[test]
fn channels_of_the_map() {
    let on = |c: u32| format!("\"cost\": 1, \"properties\": {{\"channel\": {c}}}");
    // 0 - 1 on channel 44, 1 - 2 on 48 with the same 80 MHz, 2 - 3 on 1.
    let links = [on(44), on(44), on(44), on(48), on(1)];
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let text = netjson(TQ, &[""; 6], &links);
    let s = import(&text, &options());
    let m = s.mac().phy.as_modern().unwrap();
    assert_eq!((m.generation, m.band), (Generation::Vht, Band::Ghz5));
    assert_states(&s, "radios: 802.11ac, 80 MHz wide, on channel 44");
    assert_states(&s, "radio \"channel1\": 802.11n, 20 MHz wide, on channel 1");
    assert_states(&s, "1 of 5 links are on other channels than 44: they share its air here");
    assert_states(&s, "2 channels, each a radio of the nodes that have links there: 44, 1");
    assert_eq!(s.nodes().len(), 7, "only the node between has two radios");
    let further = &s.further()[0];
    let m = s.mac_of(NodeId(6)).phy.as_modern().unwrap();
    assert_eq!((m.generation, m.band), (Generation::Ht, Band::Ghz2));
    assert_eq!(further.medium, 1);
    // The last is only on the other channel, and all are reachable.
    assert!(s.flows().iter().all(|f| f.path.len() > 1));
    // One channel if one is requested.
    let s = import(&text, &ImportOptions { channel: Some(1), ..options() });
    assert_eq!(s.mac().phy.as_modern().unwrap().band, Band::Ghz2);
    assert_eq!((s.nodes().len(), s.further().len()), (6, 0));
    assert_states(&s, "4 of 5 links are on other channels than 1: they share its air here");
}

#[test]
fn frequencies_and_nodes_name_channels_too() {
    // By frequency; by the channels of both nodes; by the other direction's entry; unknown.
    let text = r#"{"type": "NetworkGraph", "protocol": "batman-adv", "metric": "TQ", "nodes": [
        {"id": "a"}, {"id": "b", "properties": {"channels": [36, 149]}},
        {"id": "c", "properties": {"frequency": 5745}}, {"id": "d", "properties": {"channel": 6}}, {"id": "e"}],
        "links": [
        {"source": "a", "target": "b", "cost": 1, "properties": {"frequency": 5180}},
        {"source": "b", "target": "a", "cost": 1},
        {"source": "b", "target": "c", "cost": 0.9},
        {"source": "c", "target": "d", "cost": 0.9},
        {"source": "d", "target": "e", "cost": 1}]}"#;
    let s = import(text, &ImportOptions { gateways: vec!["a".into()], ..options() });
    assert_states(&s, "radios: 802.11ac, 80 MHz wide, on channel 36");
    assert_states(&s, "radio \"channel149\": 802.11ac, 80 MHz wide, on channel 149");
    assert_states(
        &s,
        "3 links name no channel: they are on the one that their ends' other entries name, else on 36",
    );
    assert_states(&s, "1 links are between nodes that name no common channel");
    // b has both; c the second for b, and the first for d, which has no matching channel.
    let names: Vec<String> = s.nodes().iter().map(|n| n.name.to_string()).collect();
    assert_eq!(names[5..], ["b/channel149", "c/channel149"]);
    assert_eq!(s.flows().len(), 4);
}

#[test]
fn options_go_before_the_map() {
    let text = netjson(TQ, &["TP-Link TL-WR740N v4", "TP-Link TL-WR740N v4"], &["\"cost\": 1"]);
    let with = |f: &dyn Fn(&mut ImportOptions)| {
        let mut o = options();
        f(&mut o);
        parse("town.json", text.as_bytes(), &o).map_err(|e| e.to_string())
    };
    let s = with(&|o| {
        o.phy = Some(PhyName::Ax);
        o.width = Some(Frequency(40_000_000));
        o.streams = Some(4);
        o.channel = Some(36);
    });
    let s = s.unwrap();
    assert_eq!(s.mac().phy.as_modern().unwrap().generation, Generation::He);
    let m = mode(&s, 0, 1);
    assert_eq!((m.width_mhz(), m.streams()), (40, 4));
    // With an older PHY, maps have one rate.
    for f in [
        &(|o: &mut ImportOptions| o.phy = Some(PhyName::G)) as &dyn Fn(&mut ImportOptions),
        &|o: &mut ImportOptions| o.rate = Some(BitRate(24_000_000)),
    ] {
        let s = with(f).unwrap();
        assert!(s.mac().phy.as_modern().is_none());
        assert_eq!(s.mac().phy.bit_rate(s.mac().rate), BitRate(24_000_000));
        assert!(s.links().iter().all(|l| l.rate.is_none()));
        assert!(!s.warnings().iter().any(|w| w.contains("802.11n")), "{:?}", s.warnings());
    }
    for (wrong, f) in [
        (
            "town.json: radio.rate: 24 Mbit/s does not determine 802.11n; expected no rate",
            &(|o: &mut ImportOptions| {
                o.phy = Some(PhyName::N);
                o.rate = Some(BitRate(24_000_000));
            }) as &dyn Fn(&mut ImportOptions),
        ),
        (
            "town.json: radio.width: 802.11n has no channels of 80 MHz; expected",
            &|o: &mut ImportOptions| o.width = Some(Frequency(80_000_000)),
        ),
        (
            "town.json: radio.streams: 802.11n with 0 streams; expected 1 to 2",
            &|o: &mut ImportOptions| o.streams = Some(0),
        ),
        (
            "town.json: radio.channel: 14 is out of range; expected 1 to 13, or 36",
            &|o: &mut ImportOptions| o.channel = Some(14),
        ),
        (
            "town.json: radio.width: only radios of 802.11n, ac and ax have this",
            &|o: &mut ImportOptions| {
                o.phy = Some(PhyName::G);
                o.width = Some(Frequency(20_000_000));
            },
        ),
    ] {
        let e = with(f).map(|_| ()).unwrap_err();
        assert!(e.starts_with(wrong), "{e}");
    }
}

#[test]
fn implausible_links_are_named() {
    let s = import(&netjson(TQ, &["", "", ""], &["\"cost\": 1", "\"cost\": 0.01"]), &options());
    assert_states(
        &s,
        "2 directed links deliver less than 5 % of frames, which is implausible for links in use: r1 → r2 (1.0 %)",
    );
}
