//! Invariants of all worlds: random small scenarios, run to their end.

use fairmesh_capacity::link::{Access, Traffic, saturated_goodput};
use fairmesh_control::Mechanism;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{Observer, RunOptions, run, run_observed};
use fairmesh_scenario::{
    AccessDraft, AdaptationDraft, CakeDraft, CodelDraft, CongestionDraft, ControlDraft, Draft,
    DropTailDraft, EdcaDefaults, EdcaDraft, ErrorsDraft, FadingDraft, FileDraft, Flow, FlowDraft,
    FqCodelDraft, FqDraft, FredDraft, HttpDraft, InterfererDraft, LinkDraft, LinkEntry,
    Mac80211Draft, NodeDraft, NodeKind, PhyName, QueueDraft, QueueTable, QuicDraft, ReceptionDraft,
    RedDraft, RtsDraft, Scenario, SnrDraft, TcpDraft, TrafficDraft, Transport, TransportDraft,
    WiredDraft,
};
use fairmesh_units::{BitRate, Bytes, Frequency, NodeId, Span};
use fairmesh_wifi::Adaptation;
use proptest::prelude::*;

#[path = "properties/stepping.rs"]
mod stepping;

/// One flow: ends, kind, UDP rate.
type FlowSeed = (u32, u32, u8, u64);

/// Random choices of a scenario.
#[derive(Clone, Debug)]
struct Recipe {
    places: Vec<(f64, f64)>,
    graph: bool,
    phy: u8,
    rate: usize,
    rts: Option<u64>,
    reception: u8,
    adaptation: u8,
    errors: u8,
    queue: (u8, u32),
    interferer: Option<(f64, f64)>,
    wired: bool,
    control: usize,
    flows: Vec<FlowSeed>,
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let places = prop::collection::vec((0.0f64..600.0, 0.0f64..400.0), 3..9);
    let flows = prop::collection::vec((0u32..9, 0u32..9, 0u8..8, 20_000u64..2_000_000), 1..6);
    let air = (any::<bool>(), 0u8..3, 0usize..4, prop::option::of(0u64..1600), 0u8..3, 0u8..3);
    let rest = (
        0u8..4,
        (0u8..16, 3u32..80),
        prop::option::of((0.05f64..0.6, 0.0f64..0.9)),
        any::<bool>(),
        any::<usize>(),
    );
    (places, air, rest, flows).prop_map(
        |(
            places,
            (graph, phy, rate, rts, reception, adaptation),
            (errors, queue, interferer, wired, control),
            flows,
        )| Recipe {
            places,
            graph,
            phy,
            rate,
            rts,
            reception,
            adaptation,
            errors,
            queue,
            interferer,
            wired,
            control,
            flows,
        },
    )
}

fn queue((kind, packets): (u8, u32)) -> QueueDraft {
    // Every kind with and without a device queue.
    let device = (kind >= 8).then_some(u32::from(kind / 8 * 9));
    let packets = Some(packets);
    match kind % 8 {
        0 => DropTailDraft { packets, device, ..Default::default() }.into(),
        1 => FqDraft { packets, device, ..Default::default() }.into(),
        2 => RedDraft { packets, device, ..Default::default() }.into(),
        3 => FredDraft { packets, device, ..Default::default() }.into(),
        4 => CodelDraft { packets, device, ..Default::default() }.into(),
        5 => FqCodelDraft { packets, device, ..Default::default() }.into(),
        6 => Mac80211Draft { packets, device, ..Default::default() }.into(),
        _ => CakeDraft { device, ..Default::default() }.into(),
    }
}

/// One of the controllers, with or without marks.
fn quic(of: u64) -> QuicDraft {
    use CongestionDraft::{Bbr, Bbr3, Cubic, NewReno, Prague};
    let controller = [NewReno, Cubic, Bbr, Bbr3, Prague][of as usize / 3 % 5];
    let ecn = (controller != Prague).then(|| of.is_multiple_of(2).into());
    QuicDraft { quic: controller, ecn, ..QuicDraft::default() }
}

/// Random choices of an 802.11n, ac or ax radio.
#[derive(Clone, Copy, Debug)]
struct ModernRadio {
    phy: u8,
    mcs: u8,
    streams: u8,
    width: u64,
    ampdu: u64,
    mpdus: u32,
    amsdu: u64,
    txop_us: u64,
    /// 0: no flow names a category; otherwise the seed of each flow's category.
    access: u8,
}

fn modern_radio() -> impl Strategy<Value = ModernRadio> {
    let ampdu = prop_oneof![Just(0u64), Just(3000), Just(65_535)];
    let amsdu = prop_oneof![Just(0u64), Just(3839), Just(7935)];
    let txop = prop_oneof![Just(0u64), Just(3000)];
    (0u8..3, 0u8..8, 1u8..3, 0u32..2, ampdu, 1u32..65, amsdu, txop, 0u8..9).prop_map(
        |(phy, mcs, streams, width, ampdu, mpdus, amsdu, txop_us, access)| {
            let width = 20_000_000 << width;
            ModernRadio { phy, mcs, streams, width, ampdu, mpdus, amsdu, txop_us, access }
        },
    )
}

impl ModernRadio {
    fn change(&self, d: &mut Draft) {
        let r = &mut d.radio;
        r.phy = [PhyName::N, PhyName::Ac, PhyName::Ax][self.phy as usize];
        r.rate = None;
        let adapts = self.mpdus.is_multiple_of(3);
        r.adaptation = if adapts { AdaptationDraft::MinstrelHt } else { AdaptationDraft::Fixed };
        if self.mpdus.is_multiple_of(2) {
            let snr = SnrDraft { fading: FadingDraft::Rayleigh, ..SnrDraft::default() };
            r.errors = Some(ErrorsDraft { snr: Some(snr), ..ErrorsDraft::default() });
            for (i, link) in d.topology.links.iter_mut().flatten().enumerate() {
                if let LinkEntry::Table(link) = link {
                    link.signal = Some(-55.0 - 6.0 * i as f64);
                }
            }
        }
        r.mcs = Some(self.mcs);
        r.streams = Some(self.streams);
        r.width = Some(Frequency(self.width));
        r.ampdu = Some(Bytes(self.ampdu));
        r.mpdus = Some(self.mpdus);
        r.amsdu = Some(Bytes(self.amsdu));
        r.txop = Some(Span::from_micros(self.txop_us));
        let all = [
            AccessDraft::Background,
            AccessDraft::BestEffort,
            AccessDraft::Video,
            AccessDraft::Voice,
        ];
        for (i, flow) in d.flow.iter_mut().enumerate().filter(|_| self.access > 0) {
            flow.access = Some(all[(i + usize::from(self.access)) % 4]);
        }
        if self.access > 4 {
            let defaults = Some(EdcaDefaults::Linux);
            r.edca = Some(EdcaDraft { defaults, ..EdcaDraft::default() });
        }
        // Enough to fill aggregates sometimes.
        for flow in &mut d.flow {
            match &mut flow.traffic {
                Some(TrafficDraft::Cbr(t)) => t.rate.0 *= 10,
                Some(TrafficDraft::Limited(t)) => t.rate.0 *= 10,
                _ => {}
            }
        }
    }
}

impl Recipe {
    fn queue_hashes(&self) -> bool {
        let QueueDraft::Table(table) = queue(self.queue) else { return false };
        matches!(*table, QueueTable::FqCodel(_) | QueueTable::Mac80211(_) | QueueTable::Cake(_))
    }

    fn draft(&self) -> Draft {
        let mut d = Draft {
            duration: Span::from_secs(4),
            warmup: Some(Span::from_secs(1)),
            ..Draft::default()
        };
        d.radio.phy = [PhyName::B, PhyName::A, PhyName::Bg][self.phy as usize];
        let rates: [u64; 4] = match self.phy {
            0 => [1_000_000, 2_000_000, 5_500_000, 11_000_000],
            1 => [6_000_000, 12_000_000, 24_000_000, 54_000_000],
            _ => [1_000_000, 6_000_000, 11_000_000, 54_000_000],
        };
        d.radio.rate = Some(BitRate(rates[self.rate]));
        d.radio.rts = match self.rts {
            None => RtsDraft::Off,
            Some(n) if n < 200 => RtsDraft::On,
            Some(n) => RtsDraft::From(Bytes(n)),
        };
        d.radio.reception = [ReceptionDraft::Ns2, ReceptionDraft::Sinr, ReceptionDraft::NoCap]
            [self.reception as usize];
        d.radio.adaptation =
            [AdaptationDraft::Fixed, AdaptationDraft::Arf, AdaptationDraft::SampleRate]
                [self.adaptation as usize];
        d.radio.errors = match self.errors {
            0 => None,
            1 => Some(ErrorsDraft { frame: Some(0.2), ..ErrorsDraft::default() }),
            2 => Some(ErrorsDraft { bit: Some(vec![1e-6, 1e-5]), ..ErrorsDraft::default() }),
            _ => Some(ErrorsDraft { bursts: Some(0.15), ..ErrorsDraft::default() }),
        };
        d.radio.queue = Some(queue(self.queue));
        let n = self.places.len() as u32;
        if self.graph {
            // A ring with a chord and a lossy link.
            let link = |a: u32, b: u32, delivery| {
                LinkEntry::Table(LinkDraft { delivery, ..LinkDraft::new(a as usize, b as usize) })
            };
            let mut links: Vec<LinkEntry> = (1..n).map(|i| link(i - 1, i, None)).collect();
            if n > 3 {
                links.push(link(0, n - 1, Some(0.7)));
            }
            d.topology.links = Some(links);
            d.topology.sense_hops = Some(1 + u32::from(self.reception));
        } else {
            d.topology.positions = Some(self.places.iter().map(|p| [p.0, p.1]).collect());
        }
        if self.wired {
            d.topology.gateway = Some(0usize.into());
            d.wired = Some(WiredDraft {
                hosts: vec!["host".into()],
                at: None,
                rate: Some(BitRate(3_000_000)),
                delay: None,
                queue: Some(10),
            });
        }
        if let Some((duty, jitter)) = self.interferer {
            d.interferer = vec![InterfererDraft {
                radio: None,
                name: None,
                nodes: Some(vec![1usize.into(), 2usize.into()]),
                position: None,
                power: None,
                period: Some(Span::from_millis(25)),
                duty,
                jitter: Some(jitter),
                start: Some(Span::from_millis(300)),
                stop: None,
            }];
        }
        for &(a, b, kind, rate) in &self.flows {
            let (a, b) = (a % n, b % n);
            if a == b {
                continue;
            }
            let mut f = FlowDraft::new(a as usize, b as usize);
            if self.wired && a == 0 {
                f.from = "host".into();
            }
            let tcp = |sack, ecn: bool| {
                let tcp =
                    TcpDraft { sack: Some(sack), ecn: Some(ecn.into()), ..TcpDraft::default() };
                Some(TransportDraft::Tcp(tcp))
            };
            match kind {
                0 | 1 => f.traffic = Some(TrafficDraft::cbr(BitRate(rate), Bytes(900), 0.5)),
                2 => f.transport = tcp(true, true),
                3 => f.traffic = Some(FileDraft::default().into()),
                4 => f.traffic = Some(HttpDraft::default().into()),
                6 | 7 => {
                    // Every controller, as a stream, as files and as pages.
                    let quic = quic(rate);
                    f.transport = Some(TransportDraft::Quic(quic));
                    f.traffic = Some(match rate % 3 {
                        0 => TrafficDraft::bulk(),
                        1 => FileDraft::default().into(),
                        _ => HttpDraft::default().into(),
                    });
                }
                _ => f.transport = tcp(false, false),
            }
            d.flow.push(f);
        }
        d
    }

    /// The world, if it has at least one flow and every flow has a path.
    ///
    /// Under a control, if it can run there.
    fn build(&self) -> Option<Scenario> {
        let draft = self.draft();
        if draft.flow.is_empty() {
            return None;
        }
        let plain = draft.build().ok()?;
        let controls: Vec<Mechanism> =
            fairmesh_control::Registry::standard().all().cloned().map(Mechanism::of).collect();
        let control = controls[self.control % controls.len()].clone();
        let scenario = plain.clone().with_control(control);
        let soon = |_: usize, flow: &mut Flow| (flow.start, flow.stop) = (Span::ZERO, None);
        let short = scenario.clone().map_flows(soon).unwrap();
        // Long enough for the interferer to start.
        let short = short.with_times(Span::from_millis(301), Span::ZERO).unwrap();
        Some(if run(&short, &options(1)).is_ok() { scenario } else { plain })
    }
}

fn options(seed: u64) -> RunOptions {
    RunOptions { seed, ..RunOptions::default() }
}

/// The parts of records that must be equal for equal runs.
fn essence(r: &RunRecord) -> String {
    let flows: Vec<_> =
        r.flows.iter().map(|f| (f.goodput_bps, f.packets_sent, f.drops, f.delay_s.mean)).collect();
    format!("{} {flows:?} {:?}", r.fingerprint, r.totals)
}

struct Counting(u64);

impl Observer for Counting {
    fn frame(&mut self, frame: &fairmesh_engine::observe::AirFrame) {
        // The packets of an A-MSDU are reported one by one.
        self.0 += u64::from(frame.subframe.is_none_or(|s| s.index == 0));
    }
}

fn check(scenario: &Scenario, r: &RunRecord) -> Result<(), TestCaseError> {
    // Every packet is accounted for.
    let t = &r.totals;
    let known = t.delivered + t.stale + t.in_flight + t.drops.total();
    prop_assert_eq!(t.packets, known, "{:?}", t);
    prop_assert!(t.in_flight <= t.packets);
    // A packet that a MAC gave up was lost there, or had arrived.
    prop_assert!(t.drops.retry_limit <= t.mac.gave_up);
    // Responses follow frames; without noise, transmissions are those of the stations.
    prop_assert!(t.mac.ack + t.mac.block_ack <= t.mac.data && t.mac.cts <= t.mac.rts);
    prop_assert!(t.mac.data <= t.mac.mpdus);
    let responses = t.mac.cts + t.mac.ack + t.mac.block_ack;
    let sent = t.mac.data + t.mac.rts + responses + t.mac.broadcast;
    prop_assert!(sent <= t.transmissions);
    if scenario.interferers().is_empty() {
        prop_assert_eq!(sent, t.transmissions);
    }
    for n in &r.nodes {
        for share in [n.airtime_tx, n.airtime_busy, n.airtime_idle] {
            prop_assert!((0.0..=1.0).contains(&share), "{} {:?}", n.name, n);
        }
        let sum = n.airtime_tx + n.airtime_busy + n.airtime_idle;
        prop_assert!((sum - 1.0).abs() < 1e-9, "{} {sum}", n.name);
        prop_assert!(n.mean_queue >= 0.0);
    }
    for (f, spec) in r.flows.iter().zip(scenario.flows()) {
        prop_assert!(f.goodput_bps <= bound(scenario, spec), "{f:?}");
        prop_assert!(f.goodput_bps >= 0.0 && f.fair_bps.unwrap().is_finite());
    }
    Ok(())
}

/// No flow gets more than the closed form of the slowest link on its path.
///
/// With rate adaptation, the fastest rate counts; a TCP may release data that arrived earlier.
fn bound(scenario: &Scenario, flow: &Flow) -> f64 {
    let mac = scenario.mac();
    let measured = (scenario.duration().saturating_sub(scenario.warmup())).as_secs_f64();
    let traffic = match flow.transport {
        Transport::Udp => Traffic::udp(900, true),
        // More than possible: the whole UDP payload, and no responses.
        Transport::Quic(quic) => Traffic::udp(quic.datagram, true),
        Transport::Tcp(_) => Traffic::tcp(1460, 0, 1.0, true),
    };
    let wireless = |n: NodeId| scenario.nodes()[n.index()].kind == NodeKind::Wireless;
    let links = flow.path.windows(2).map(|w| {
        if !wireless(w[0]) || !wireless(w[1]) {
            return 3e6;
        }
        let rate = match mac.adaptation {
            Adaptation::Fixed => mac.rate,
            Adaptation::Arf | Adaptation::SampleRate | Adaptation::MinstrelHt => mac.phy.highest(),
        };
        if mac.phy.as_modern().is_some() {
            // Aggregates come near the capacity of their MCS.
            return mac.phy.bit_rate(rate).0 as f64;
        }
        saturated_goodput(&mac.phy, rate, &traffic, Access::Basic)
    });
    let packet = f64::from(8 * traffic.payload);
    // 3 % for random backoffs, and the data in flight.
    links.fold(f64::INFINITY, f64::min) * 1.03 + 60.0 * packet / measured
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn packets_and_time_are_accounted_for(recipe in recipe(), seed in 0u64..1000) {
        let Some(scenario) = recipe.build() else { return Ok(()) };
        let r = run(&scenario, &options(seed)).unwrap();
        check(&scenario, &r)?;
    }

    #[test]
    fn looking_changes_nothing(recipe in recipe(), seed in 0u64..1000) {
        let Some(scenario) = recipe.build() else { return Ok(()) };
        let plain = essence(&run(&scenario, &options(seed)).unwrap());
        let again = essence(&run(&scenario, &options(seed)).unwrap());
        prop_assert_eq!(&plain, &again);
        let (observed, frames) = run_observed(&scenario, &options(seed), Counting(0)).unwrap();
        prop_assert_eq!(&plain, &essence(&observed));
        let mac = &observed.totals.mac;
        prop_assert_eq!(frames.0, mac.data + mac.rts + mac.cts + mac.ack + mac.broadcast);
        let sampling = RunOptions { seed, sample: Some(Span::from_millis(70)), ..RunOptions::default() };
        let sampled = run(&scenario, &sampling).unwrap();
        prop_assert_eq!(&plain, &essence(&sampled));
        // The samples sum to the total.
        prop_assert_eq!(sampled.series.time_s.len(), 58);
    }

    /// A-MPDUs and A-MSDUs: every MPDU is accounted for, and observing them has no effect.
    #[test]
    fn aggregates_are_accounted_for(recipe in recipe(), modern_radio in modern_radio(), seed in 0u64..1000) {
        let mut draft = recipe.draft();
        modern_radio.change(&mut draft);
        let Ok(scenario) = draft.build() else { return Ok(()) };
        let r = run(&scenario, &options(seed)).unwrap();
        check(&scenario, &r)?;
        let (observed, frames) = run_observed(&scenario, &options(seed), Counting(0)).unwrap();
        prop_assert_eq!(&essence(&r), &essence(&observed));
        let mac = &observed.totals.mac;
        let responses = mac.cts + mac.ack + mac.block_ack;
        prop_assert_eq!(frames.0, mac.mpdus + mac.rts + responses + mac.broadcast);
    }

    /// A separate pair of nodes with its own flow does not shift random streams.
    ///
    /// The pair is out of range of all others.
    #[test]
    fn strangers_far_away_change_nothing(recipe in recipe(), seed in 0u64..1000) {
        // Controls may depend on all flows.
        let Some(scenario) = recipe.build() else { return Ok(()) };
        let scenario = scenario.with_control(Mechanism::none());
        let mut crowd = recipe.draft();
        let (a, b) = ("far 1", "far 2");
        if let Some(links) = &mut crowd.topology.links {
            links.push(LinkEntry::Pair([a.into(), b.into()]));
        } else {
            for (name, x) in [(a, 50_000.0), (b, 50_100.0)] {
                crowd.node.push(NodeDraft { position: Some([x, 0.0]), ..NodeDraft::new(name) });
            }
        }
        // First in the file, so that the numbers of all other flows shift; last if a queue hashes
        // these numbers, which decides about shared buckets.
        let first = if recipe.queue_hashes() { crowd.flow.len() } else { 0 };
        crowd.flow.insert(first, FlowDraft::new(a, b));
        let crowd = crowd.build().unwrap();
        let (r, c) = (run(&scenario, &options(seed)).unwrap(), run(&crowd, &options(seed)).unwrap());
        for (f, g) in r.flows.iter().zip(c.flows.iter().filter(|g| g.from != a)) {
            prop_assert_eq!(&f.name, &g.name);
            prop_assert_eq!((f.goodput_bps, f.packets_sent), (g.goodput_bps, g.packets_sent));
            prop_assert_eq!(f.drops, g.drops);
            prop_assert_eq!(f.delay_s.mean, g.delay_s.mean);
        }
        for n in &r.nodes {
            let m = c.nodes.iter().find(|m| m.name == n.name).unwrap();
            prop_assert_eq!(n.mac, m.mac);
            prop_assert_eq!(n.airtime_busy, m.airtime_busy);
        }
    }
}

/// The recipes are effective: most give a world, and most worlds have traffic.
#[test]
fn recipes_make_worlds() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut worlds, mut busy, mut drops) = (0, 0, fairmesh_engine::record::Drops::default());
    for seed in 0..60 {
        let r = recipe().new_tree(&mut runner).unwrap().current();
        let Some(scenario) = r.build() else { continue };
        worlds += 1;
        let t = run(&scenario, &options(seed)).unwrap().totals;
        busy += u32::from(t.transmissions > 500 && t.delivered > 100);
        drops.add(&t.drops);
    }
    assert!(worlds > 20, "{worlds}");
    assert!(busy * 2 > worlds, "{busy} of {worlds}");
    assert!(drops.queue > 0 && drops.retry_limit > 0 && drops.wire > 0, "{drops:?}");
}

#[test]
fn unknown_controls_make_no_scenario() {
    let mut draft = Draft { duration: Span::from_secs(1), ..Draft::default() };
    draft.topology.links = Some(vec![LinkEntry::Pair([0usize.into(), 1usize.into()])]);
    draft.flow.push(FlowDraft::new(0usize, 1usize));
    assert!(draft.build().unwrap().control().is_none());
    draft.control = ControlDraft { name: "none such".to_owned(), ..ControlDraft::default() };
    let error = draft.build().unwrap_err().to_string();
    assert!(error.contains("control.use: there is no control \"none such\""), "{error}");
}

/// A link too weak for its MCS, as in maps.
///
/// Its flow has no fair rate, the others have theirs, and the record has its losses.
#[test]
fn a_dead_link_takes_no_part_in_fair_shares() {
    let text = r#"
        duration = "4 s"
        [radio]
        phy = "802.11n"
        mcs = 7
        errors = { snr = {} }
        [topology]
        links = [{ from = 1, to = 0, signal = -55 }, { from = 2, to = 0, signal = -91 }]
        gateway = 0
        [traffic]
        flows = "up"
        traffic = { kind = "cbr", rate = "1 Mbit/s" }
        transport = "udp"
    "#;
    let scenario = fairmesh_scenario::draft_from_toml("weak.toml", text).unwrap().build().unwrap();
    let record = run(&scenario, &RunOptions::default()).unwrap();
    let [strong, weak] = &record.flows[..] else { panic!("{} flows", record.flows.len()) };
    assert!(strong.fair_bps.unwrap() > 0.9e6 && strong.goodput_bps > 0.9e6, "{strong:?}");
    assert_eq!((weak.fair_bps, weak.packets_delivered), (Some(0.0), 0), "{weak:?}");
}

/// A link over which single packets arrive, but hardly any of its A-MSDUs.
///
/// It has no share, and no error.
#[test]
fn a_link_too_weak_for_its_amsdus_takes_no_part_in_fair_shares() {
    for (signal, dead) in [(-75, false), (-85, true), (-95, true)] {
        let text = format!(
            r#"
            duration = "2 s"
            [radio]
            phy = "802.11n"
            mcs = 3
            width = "40 MHz"
            ampdu = "0 B"
            amsdu = "7935 B"
            errors = {{ snr = {{ fading = "rayleigh" }} }}
            [topology]
            links = [{{ from = 1, to = 0, signal = -55 }}, {{ from = 2, to = 0, signal = {signal} }}]
            gateway = 0
            [traffic]
            flows = "up"
            traffic = {{ kind = "cbr", rate = "200 kbit/s", packet = "900 B" }}
            transport = "udp"
            "#
        );
        let draft = fairmesh_scenario::draft_from_toml("weak.toml", &text).unwrap();
        let record = run(&draft.build().unwrap(), &RunOptions::default()).unwrap();
        let [strong, weak] = &record.flows[..] else { panic!("{} flows", record.flows.len()) };
        assert!(strong.fair_bps.unwrap() > 190e3, "{signal}: {strong:?}");
        assert_eq!(weak.fair_bps == Some(0.0), dead, "{signal}: {weak:?}");
    }
}
