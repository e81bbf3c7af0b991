//! Worlds resolved from scenario files.

mod common;

use common::{paths, read};
use fairmesh_queueing::DisciplineSpec;
use fairmesh_scenario::{
    ChainLayout, Draft, FileDraft, InterfaceQueue, NodeKind, QuicDraft, RedDraft, Scenario,
    TopologyDraft, TrafficDraft, Transport, TransportDraft, draft_from_toml,
};
use fairmesh_transport::traffic::{Pause, SizeLaw, TrafficSpec};
use fairmesh_units::{BitRate, Bytes, Decibel, NodeId, Span};
use fairmesh_wifi::loss::FrameErrors;
use fairmesh_wifi::{Adaptation, Reception};

const CHAIN: &str = "duration = \"60 s\"\ntopology = { chain = { hops = 3 }, gateway = 0 }\n";

#[test]
fn defaults_are_those_of_the_reference_runs() {
    let s = read(&format!("{CHAIN}traffic = {{ flows = \"up\" }}"));
    assert_eq!((s.duration(), s.warmup()), (Span::from_secs(60), Span::from_secs(6)));
    assert_eq!(s.name(), "test");
    assert_eq!(s.gateways().first(), Some(NodeId(0)));
    let mac = s.mac();
    assert_eq!(mac.phy.bit_rate(mac.rate), BitRate(11_000_000));
    assert_eq!((mac.rts_threshold, mac.llc_bytes), (None, 8));
    assert_eq!((mac.reception, mac.adaptation), (Reception::Ns2, Adaptation::Fixed));
    assert_eq!(mac.capture, Decibel(10.0));
    assert_eq!((&s.queue().discipline, s.queue().device), (&DisciplineSpec::drop_tail(50), 0));
    assert!(matches!(s.errors(), FrameErrors::None));
    assert!(s.control().is_none());
    assert_eq!(paths(&s), [vec![1, 0], vec![2, 1, 0], vec![3, 2, 1, 0]]);
    let f = &s.flows()[2];
    assert_eq!((f.name.as_str(), f.wireless_hops, f.weight), ("3->0", 3, 1.0));
    assert_eq!((f.start, f.start_jitter, f.stop), (Span::ZERO, Span::from_secs(1), None));
    assert_eq!(f.traffic, TrafficSpec::Bulk);
    let Transport::Tcp(tcp) = &f.transport else { panic!("{:?}", f.transport) };
    assert_eq!(*tcp, fairmesh_transport::TcpConfig::ns3());
}

#[test]
fn ns2_powers_reach_250_m_and_550_m() {
    let s = read(&format!("{CHAIN}traffic = {{ flows = \"up\" }}"));
    let pairs: Vec<_> = s.sensed_pairs().iter().map(|h| (h.from, h.to, h.decodes)).collect();
    let expected = [
        (0, 1, true),
        (0, 2, false),
        (1, 0, true),
        (1, 2, true),
        (1, 3, false),
        (2, 0, false),
        (2, 1, true),
        (2, 3, true),
        (3, 1, false),
        (3, 2, true),
    ];
    assert_eq!(pairs, expected);
    // d^-4 beyond the crossover: 12.04 dB from 200 m to 400 m, as in mesh.cc.
    let near = s.sensed_pairs()[0].power.as_dbm();
    assert!((near - -60.50).abs() < 0.01, "{near}");
    assert!((near - s.sensed_pairs()[1].power.as_dbm() - 12.04).abs() < 0.01);
    assert_eq!(
        (s.sensed_pairs()[0].delay, s.sensed_pairs()[1].delay),
        (Span::from_nanos(667), Span::from_nanos(1334))
    );
    assert_eq!(s.links().len(), 6);
    assert!(s.links().iter().all(|l| l.rate.is_none() && l.delivery.0 == 1.0));
}

#[test]
fn nocap_has_two_flat_levels() {
    let s = read(&format!(
        "{CHAIN}traffic = {{ flows = \"up\" }}\nradio = {{ reception = \"nocap\" }}"
    ));
    assert_eq!(s.mac().reception, Reception::NoCapture);
    let dbm: Vec<i32> = s.sensed_pairs().iter().map(|h| h.power.as_dbm().round() as i32).collect();
    assert_eq!(dbm, [-60, -65, -60, -60, -65, -65, -60, -60, -65, -60]);
    assert!(s.sensed_pairs().iter().all(|h| h.delay > Span::ZERO));
}

#[test]
fn graph_profile_senses_no_farther_than_it_decodes() {
    let s =
        read(&format!("{CHAIN}traffic = {{ flows = \"up\" }}\nradio = {{ profile = \"graph\" }}"));
    assert_eq!(s.sensed_pairs().len(), 6);
    assert!(s.sensed_pairs().iter().all(|h| h.decodes && (h.power.as_dbm() + 60.0).abs() < 1e-6));
    let s = read(&format!(
        "{CHAIN}traffic = {{ flows = \"up\" }}\nradio = {{ profile = \"graph\", sense = \"400 m\" }}"
    ));
    assert_eq!(s.sensed_pairs().len(), 10);
}

#[test]
fn grid_routes_follow_the_tie_rule() {
    // By hand: of the two neighbours nearer the corner, the one in the previous row has the lower
    // number; in the first row only the left one exists.
    let s = read(
        "duration = \"9 s\"\ntopology = { grid = { rows = 6, columns = 6 }, gateway = 0 }\n\
         traffic = { flows = \"up\", nodes = [14, 21, 35] }",
    );
    assert_eq!(
        paths(&s),
        [
            vec![14, 8, 2, 1, 0],
            vec![21, 15, 9, 3, 2, 1, 0],
            vec![35, 29, 23, 17, 11, 5, 4, 3, 2, 1, 0],
        ]
    );
}

#[test]
fn explicit_links_have_rates_deliveries_and_directions() {
    let s = read(
        r#"
        duration = "9 s"
        [topology]
        links = [
            [1, 2],
            { from = 2, to = 3, rate = "2 Mbit/s", delivery = 0.9, delivery_back = 0.8 },
            { from = 3, to = 4, directed = true },
            { from = 4, to = 3, directed = true, delivery = 0.5 },
            { from = 5, to = 1, directed = true },
        ]
        senses = [[1, 4]]
        [[flow]]
        from = 1
        to = 4
        "#,
    );
    assert_eq!(
        s.nodes().iter().map(|n| n.name.as_str()).collect::<Vec<_>>(),
        ["1", "2", "3", "4", "5"]
    );
    let link = |a: u32, b: u32| {
        let l = s.link(NodeId(a), NodeId(b))?;
        Some((l.rate.map(|r| s.mac().phy.bit_rate(r).0 / 1_000_000), l.delivery.0))
    };
    assert_eq!(link(0, 1), Some((None, 1.0)));
    assert_eq!(link(1, 2), Some((Some(2), 0.9)));
    assert_eq!(link(2, 1), Some((Some(2), 0.8)));
    assert_eq!((link(2, 3), link(3, 2)), (Some((None, 1.0)), Some((None, 0.5))));
    assert_eq!((link(4, 0), link(0, 4)), (Some((None, 1.0)), None));
    let pair = |a: u32, b: u32| s.sensed_pairs().iter().find(|h| (h.from, h.to) == (a, b));
    assert!(!pair(0, 3).unwrap().decodes && !pair(3, 0).unwrap().decodes);
    // 5 senses 1, but does not decode it.
    assert!(!pair(0, 4).unwrap().decodes);
    assert!(pair(0, 2).is_none());
    assert!(s.sensed_pairs().iter().all(|h| h.delay == Span::ZERO));
    let at = |h: u32, t: u32| pair(h, t).unwrap().power.as_dbm().round();
    assert_eq!((at(0, 1), at(0, 3)), (-60.0, -65.0));
    assert!(matches!(
        s.errors_of(s.link(NodeId(1), NodeId(2)).unwrap()),
        FrameErrors::Independent(_)
    ));
    assert!(matches!(s.errors_of(s.link(NodeId(0), NodeId(1)).unwrap()), FrameErrors::None));
}

#[test]
fn two_hop_sensing_adds_neighbours_that_do_not_decode() {
    let s = read(
        "duration = \"9 s\"\ntopology = { links = [[1,2],[2,3],[3,4]], sense_hops = 2 }\n\
         flow = [{ from = 1, to = 4 }]",
    );
    let pairs: Vec<_> = s.sensed_pairs().iter().map(|h| (h.from, h.to, h.decodes)).collect();
    assert_eq!(pairs.len(), 10);
    assert!(pairs.contains(&(0, 2, false)) && pairs.contains(&(3, 1, false)));
    assert!(!pairs.iter().any(|p| (p.0, p.1) == (0, 3)));
}

#[test]
fn a_directed_link_carries_no_route() {
    let s = read(
        "duration = \"9 s\"\n\
         topology = { links = [[1,2],[2,3],{ from = 1, to = 3, directed = true }] }\n\
         flow = [{ from = 1, to = 3 }]",
    );
    assert_eq!(paths(&s), [[0, 1, 2]]);
}

#[test]
fn etx_prefers_two_good_links_to_one_bad_one() {
    let file = |routing: &str| {
        format!(
            "duration = \"9 s\"\n[topology]\nrouting = \"{routing}\"\n\
             links = [[1,2],[2,3],{{ from = 1, to = 3, delivery = 0.6, delivery_back = 0.7 }}]\n\
             [[flow]]\nfrom = 1\nto = 3"
        )
    };
    assert_eq!(paths(&read(&file("hops"))), [vec![0, 2]]);
    assert_eq!(paths(&read(&file("etx"))), [vec![0, 1, 2]]);
}

#[test]
fn wired_hosts_come_last_and_routes_cross_wires() {
    let s = read(
        r#"
        duration = "9 s"
        [topology]
        chain = { hops = 2 }
        gateway = 0
        [wired]
        hosts = ["server"]
        delay = "25 ms"
        [[node]]
        id = "nas"
        kind = "wired"
        [[wire]]
        from = "nas"
        to = 2
        rate = "10 Mbit/s"
        queue = 20
        [traffic]
        flows = "both"
        host = "server"
        nodes = [2]
        [[flow]]
        from = "server"
        to = "nas"
        "#,
    );
    let names: Vec<_> = s.nodes().iter().map(|n| (n.name.as_str(), n.kind)).collect();
    let w = NodeKind::Wireless;
    assert_eq!(
        names,
        [("0", w), ("1", w), ("2", w), ("nas", NodeKind::Wired), ("server", NodeKind::Wired)]
    );
    assert_eq!(s.wireless().count(), 3);
    assert_eq!(paths(&s), [vec![2, 1, 0, 4], vec![4, 0, 1, 2], vec![4, 0, 1, 2, 3]]);
    assert_eq!(s.flows().iter().map(|f| f.wireless_hops).collect::<Vec<_>>(), [2, 2, 2]);
    let host = s.wires().iter().find(|w| w.b == NodeId(4)).unwrap();
    assert_eq!((host.a, host.delay, host.queue_packets), (NodeId(0), Span::from_millis(25), 1000));
    assert_eq!(s.wires()[1].rate, BitRate(10_000_000));
}

#[test]
fn codepoints_of_ecn() {
    for (ecn, expected) in [
        ("true", (true, false)),
        ("false", (false, false)),
        ("\"ect0\"", (true, false)),
        ("\"ect1\"", (true, true)),
    ] {
        let flow =
            format!("[[flow]]\nfrom = 1\nto = 0\ntransport = {{ preset = \"ns2\", ecn = {ecn} }}");
        let s = read(&format!("{CHAIN}\n{flow}"));
        let Transport::Tcp(tcp) = &s.flows()[0].transport else { panic!("{ecn}") };
        assert_eq!((tcp.ecn, tcp.ect1), expected, "{ecn}");
        assert!(tcp.ecn_backoff, "ns-2's");
    }
}

#[test]
fn quic_by_a_word_and_by_a_table() {
    let of = |transport: &str| {
        let flow = format!("[[flow]]\nfrom = 1\nto = 0\ntransport = {transport}");
        let s = read(&format!("{CHAIN}\n{flow}"));
        let Transport::Quic(quic) = s.flows()[0].transport else { panic!("{transport}") };
        quic
    };
    use fairmesh_transport::Congestion;
    use fairmesh_transport::quic::Config;
    assert_eq!(of("\"quic\""), Config::new(Congestion::NewReno));
    assert_eq!(of("{ quic = \"cubic\" }"), Config::new(Congestion::Cubic));
    // ECT(1) is the default of controllers that need it.
    let prague = of("{ quic = \"prague\" }");
    assert!(prague.ecn && prague.ect1);
    let all = of("{ quic = \"bbr3\", datagram = \"1200 B\", ecn = true, initial_window = 4, \
                 max_ack_delay = \"5 ms\", burst = 10, hystart = true }");
    let expected = Config {
        datagram: 1200,
        ecn: true,
        initial_window: 4,
        max_ack_delay: Span::from_millis(5),
        burst: 10,
        hystart: true,
        ..Config::new(Congestion::Bbr3)
    };
    assert_eq!(all, expected);
}

#[test]
fn every_kind_of_traffic() {
    let s = read(&format!(
        r#"{CHAIN}
        [traffic]
        transport = {{ tcp = "cubic", mss = "512 B", sack = true, ecn = true, delayed_ack = true }}
        start_jitter = "0 s"
        [[flow]]
        from = 1
        to = 0
        traffic = {{ kind = "cbr", rate = "200 kbit/s", packet = "500 B", jitter = 0 }}
        [[flow]]
        from = 1
        to = 0
        traffic = {{ kind = "file", size = "1 MB", shape = 1.2, count = 3 }}
        start = "2 s"
        stop = "50 s"
        weight = 2.5
        plan = "1 Mbit/s"
        guarantee = "64 kbit/s"
        [[flow]]
        from = 0
        to = 1
        traffic = "http"
        name = "web"
        [[flow]]
        from = 1
        to = 0
        traffic = {{ kind = "limited", rate = "30 kbit/s" }}
        transport = {{ preset = "rfc", delayed_ack = "50 ms" }}
        "#
    ));
    let names: Vec<_> = s.flows().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["1->0", "1->0 #2", "web", "1->0 #3"]);
    let f = s.flows();
    assert_eq!(
        f[0].traffic,
        TrafficSpec::Cbr { rate: BitRate(200_000), datagram: 500, jitter: 0.0 }
    );
    // The inherited TCP is dropped.
    assert_eq!(f[0].transport, Transport::Udp);
    assert_eq!(
        f[1].traffic,
        TrafficSpec::Files {
            size: SizeLaw::Pareto { mean: Bytes(1_000_000), shape: 1.2 },
            pause: Pause::Fixed(Span::ZERO),
            count: Some(3),
        }
    );
    assert_eq!((f[1].start, f[1].stop), (Span::from_secs(2), Some(Span::from_secs(50))));
    assert_eq!((f[1].weight, f[1].start_jitter), (2.5, Span::ZERO));
    assert_eq!((f[1].plan, f[1].guarantee), (Some(BitRate(1_000_000)), Some(BitRate(64_000))));
    assert_eq!((f[0].plan, f[0].guarantee), (None, None));
    let Transport::Tcp(tcp) = &f[1].transport else { panic!() };
    assert_eq!(tcp.congestion, fairmesh_transport::Congestion::Cubic);
    assert_eq!((tcp.mss, tcp.sack, tcp.ecn), (512, true, true));
    assert_eq!(tcp.delayed_ack, Some(Span::from_millis(200)));
    assert!(matches!(
        f[2].traffic,
        TrafficSpec::Http { request: SizeLaw::Fixed(Bytes(500)), per_connection: 10, .. }
    ));
    let Transport::Tcp(tcp) = &f[3].transport else { panic!() };
    assert_eq!((tcp.delayed_ack, tcp.initial_window), (Some(Span::from_millis(50)), 10));
}

#[test]
fn radio_settings_reach_the_mac() {
    let s = read(
        r#"
        duration = "9 s"
        [radio]
        phy = "802.11bg-short"
        rate = "24 Mbit/s"
        basic_rates = ["1 Mbit/s", "6 Mbit/s"]
        rts = "600 B"
        reception = "sinr"
        capture = "6 dB"
        short_retry = 5
        long_retry = 3
        cw_min = 15
        llc = false
        adaptation = "samplerate"
        queue = { kind = "red", packets = 30, ecn = true, max_p = 0.2 }
        errors = { bursts = 0.01 }
        [topology]
        positions = [[0, 0], [100, 0.5]]
        [[node]]
        id = 1
        queue = 10
        [[link]]
        from = 0
        to = 1
        rate = "54 Mbit/s"
        [[flow]]
        from = 0
        to = 1
        "#,
    );
    let mac = s.mac();
    assert_eq!(mac.phy.bit_rate(mac.rate), BitRate(24_000_000));
    assert_eq!(mac.phy.bit_rate(mac.phy.lowest_basic()), BitRate(1_000_000));
    let t = mac.phy.timing();
    assert_eq!((t.short_retry_limit, t.long_retry_limit, t.cw_min, t.cw_max), (5, 3, 15, 1023));
    assert_eq!((mac.rts_threshold, mac.llc_bytes), (Some(600), 0));
    assert_eq!((mac.reception, mac.adaptation), (Reception::Sinr, Adaptation::SampleRate));
    assert_eq!(mac.capture, Decibel(6.0));
    let DisciplineSpec::Red(red) = &s.queue().discipline else { panic!("{:?}", s.queue()) };
    assert_eq!((red.limit, red.ecn, red.max_p), (fairmesh_queueing::Limit::Packets(30), true, 0.2));
    // One 1500-byte packet at 24 Mbit/s takes a bit over half a millisecond.
    assert!(red.packet_time > Span::from_micros(500) && red.packet_time < Span::from_micros(800));
    assert!(matches!(s.errors(), FrameErrors::ThreeState(_)));
    let queue = InterfaceQueue { discipline: DisciplineSpec::drop_tail(10), device: 0 };
    assert_eq!(s.nodes()[1].queue, Some(queue));
    assert_eq!(s.nodes()[1].position, Some((100.0, 0.5)));
    let link = s.link(NodeId(1), NodeId(0)).unwrap();
    assert_eq!(mac.phy.bit_rate(link.rate.unwrap()), BitRate(54_000_000));
}

#[test]
fn a_weighted_fair_queue_has_the_weights_of_the_flows() {
    let s = read(&format!(
        r#"{CHAIN}
        radio = {{ queue = {{ kind = "wfq", packets = 7 }} }}
        [[node]]
        id = 0
        queue = {{ kind = "wfq", bytes = "9 kB" }}
        [[flow]]
        from = 0
        to = 1
        [[flow]]
        from = 1
        to = 0
        weight = 2.5
        "#,
    ));
    let wfq = |q: &InterfaceQueue| match &q.discipline {
        DisciplineSpec::Wfq(spec) => (spec.per_flow, spec.weights.clone()),
        other => panic!("{other:?}"),
    };
    let weights = vec![1.0, 1.0, 2.5, 2.5];
    let packets = fairmesh_queueing::Limit::Packets(7);
    assert_eq!(wfq(s.queue()), (packets, weights.clone()));
    let bytes = fairmesh_queueing::Limit::Bytes(9000);
    assert_eq!(wfq(s.nodes()[0].queue.as_ref().unwrap()), (bytes, weights));
}

#[test]
fn interferers_are_sensed_at_named_nodes_or_in_range() {
    let s = read(&format!(
        r#"{CHAIN}
        traffic = {{ flows = "up" }}
        [[interferer]]
        nodes = [2, 0]
        power = -62
        duty = 0.3
        period = "20 ms"
        [[interferer]]
        name = "oven"
        position = [-300, 0]
        duty = 0.5
        jitter = 0.2
        start = "3 s"
        "#
    ));
    let [a, b] = s.interferers() else { panic!() };
    assert_eq!(a.name, "interferer 1");
    assert_eq!(a.sensed_by.iter().map(|h| h.0.0).collect::<Vec<_>>(), [0, 2]);
    assert!((a.sensed_by[0].1.as_dbm() + 62.0).abs() < 1e-6);
    assert_eq!((a.period, a.duty.0), (Span::from_millis(20), 0.3));
    // 300 m and 500 m away; the next is 700 m away.
    assert_eq!(b.sensed_by.iter().map(|h| h.0.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((b.jitter, b.start), (0.2, Span::from_secs(3)));
}

#[test]
fn generators_name_and_place() {
    let tree = read(
        "duration = \"9 s\"\ntopology = { tree = { branches = 2, depth = 3 }, gateway = \"gw\" }\n\
         traffic = { flows = \"up\" }",
    );
    let names: Vec<_> = tree.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["gw", "s1", "s2", "m1", "m2", "t3.1", "t3.2"]);
    assert_eq!(paths(&tree)[4], [5, 3, 1, 0]);
    let cell = read(
        "duration = \"9 s\"\ntopology = { cell = { stations = 3 }, gateway = \"ap\" }\n\
         traffic = { flows = \"up\" }",
    );
    assert_eq!(cell.links().len(), 12);
    let random = |seed: u32| {
        read(&format!(
            "duration = \"9 s\"\ntopology.gateway = 0\ntraffic.flows = \"up\"\n\
             topology.random = {{ nodes = 30, width = \"800 m\", seed = {seed} }}"
        ))
    };
    let places = |seed| random(seed).nodes().iter().map(|n| n.position).collect::<Vec<_>>();
    assert_eq!(places(1), places(1));
    assert_ne!(places(1), places(2));
    assert!(random(3).nodes().iter().all(|n| {
        let (x, y) = n.position.unwrap();
        (0.0..800.0).contains(&x) && (0.0..800.0).contains(&y)
    }));
    assert_eq!(random(4).flows().len(), 29);
}

#[test]
fn numeric_names_precede_words_in_any_order_of_the_file() {
    let s = read(
        "duration = \"9 s\"\ntopology.links = [[\"b\", 10], [10, 9], [9, \"a\"]]\n\
         node = [{ id = \"a\" }]\nflow = [{ from = 9, to = 10 }]",
    );
    assert_eq!(
        s.nodes().iter().map(|n| n.name.as_str()).collect::<Vec<_>>(),
        ["9", "10", "a", "b"]
    );
}

#[test]
fn an_explicit_path_overrides_the_route() {
    let s = read(
        "duration = \"9 s\"\ntopology.links = [[1,2],[2,4],[1,3],[3,4]]\n\
         flow = [{ from = 1, to = 4 }, { from = 1, to = 4, path = [1, 3, 4] }]",
    );
    assert_eq!(paths(&s), [[0, 1, 3], [0, 2, 3]]);
}

#[test]
fn long_links_keep_their_round_trip_within_a_slot() {
    let s = read(
        "duration = \"9 s\"\nradio = { phy = \"802.11a\", profile = \"graph\", decode = \"5 km\" }\n\
         topology.positions = [[0, 0], [3000, 0]]\nflow = [{ from = 0, to = 1 }]",
    );
    assert_eq!(s.sensed_pairs()[0].delay, Span::from_nanos(4499));
    assert_eq!(s.warnings().len(), 1);
    assert!(s.warnings()[0].contains("10.007 us"), "{}", s.warnings()[0]);
}

#[test]
fn three_thousand_nodes_build_quickly() {
    let s = read(
        "duration = \"9 s\"\ntopology = { grid = { rows = 50, columns = 60 }, gateway = 1530 }\n\
         traffic.flows = \"both\"",
    );
    assert_eq!((s.nodes().len(), s.flows().len()), (3000, 5998));
}

#[test]
fn drafts_need_no_text_and_survive_it() {
    let draft = Draft {
        duration: Span::from_secs(10),
        topology: TopologyDraft {
            chain: Some(ChainLayout { hops: 2, spacing: None }),
            ..TopologyDraft::default()
        },
        flow: vec![fairmesh_scenario::FlowDraft::new(2, 0)],
        ..Draft::default()
    };
    let s = draft.build().unwrap();
    assert_eq!((s.name(), paths(&s)), ("scenario", vec![vec![2, 1, 0]]));
    // As TOML it is read back unchanged, including kinds of queues, traffic and transport.
    let mut all = Draft { name: Some("all".into()), ..draft.clone() };
    all.radio.queue = Some(RedDraft { min: Some(3.0), ..RedDraft::default() }.into());
    all.flow[0].traffic = Some(FileDraft { count: Some(2), ..FileDraft::default() }.into());
    all.flow[0].transport = Some(TransportDraft::Quic(QuicDraft::default()));
    all.traffic.traffic = Some(TrafficDraft::bulk());
    all.traffic.transport = Some(TransportDraft::Udp);
    let text = toml::to_string(&all).unwrap();
    assert_eq!(draft_from_toml("all.toml", &text).unwrap(), all, "{text}");
    let error = Draft { duration: Span::ZERO, ..draft }.build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "duration: 0 s is out of range; expected a time above 0 s and below a century"
    );
}

/// Log-distance path loss: 46.7 dB over the first metre at 5.18 GHz, then 30 dB per decade.
///
/// Links end where power falls to -82 dBm.
#[test]
fn power_falls_with_a_power_of_the_distance() {
    let text = |more: &str| {
        format!(
            "duration = \"1 s\"\n[radio]\nphy = \"802.11n\"\nprofile = \"log-distance\"\n{more}\n\
             [topology]\npositions = [[0, 0], [10, 0], [69, 0], [140, 0]]\n[[flow]]\nfrom = 1\nto = 0\n"
        )
    };
    let dbm =
        |s: &Scenario, a: u32, b: u32| s.signal_of(s.link(NodeId(a), NodeId(b)).unwrap()).as_dbm();
    let usual = common::read(&text(""));
    assert!((dbm(&usual, 0, 1) - (20.0 - 46.73 - 30.0)).abs() < 0.01);
    assert!(
        usual.link(NodeId(0), NodeId(2)).is_some() && usual.link(NodeId(0), NodeId(3)).is_none()
    );
    assert!(usual.link(NodeId(2), NodeId(3)).is_none(), "71 m");
    let rooftops = common::read(&text("exponent = 2\npower = 10\nerrors = { snr = {} }"));
    assert!((dbm(&rooftops, 0, 3) - (10.0 - 46.73 - 20.0 * 140f64.log10())).abs() < 0.01);
    let far = rooftops.link(NodeId(0), NodeId(3)).unwrap();
    let near = rooftops.link(NodeId(0), NodeId(1)).unwrap();
    let delivery = |l| rooftops.errors_of(l).delivery(1500, rooftops.mac().rate);
    // 14 and 37 dB above the noise; MCS 7 needs 24.
    assert!(delivery(far) < 0.01 && delivery(near) > 0.999);
}

/// The signal of a link has priority over all other sources, in both directions.
#[test]
fn links_specify_their_signals() {
    let s = common::read(
        "duration = \"1 s\"\n[radio]\nphy = \"802.11ac\"\nerrors = { snr = { fading = \"rayleigh\" } }\n\
         [topology]\nlinks = [{ from = 1, to = 2, signal = -61, signal_back = -64.5 }, { from = 2, to = 3, signal = -70 }]\n\
         sense_hops = 2\n[[link]]\nfrom = 2\nto = 3\nsignal = -71\n[[flow]]\nfrom = 1\nto = 3\n",
    );
    let power = |a: u32, b: u32| {
        let pair = s.sensed_pairs().iter().find(|h| (h.from, h.to) == (a, b)).unwrap();
        (pair.power.as_dbm() * 100.0).round() / 100.0
    };
    assert_eq!([power(0, 1), power(1, 0), power(1, 2), power(2, 1)], [-61.0, -64.5, -71.0, -71.0]);
    assert_eq!(power(0, 2), -82.0, "sensed only");
}
