//! Access categories end to end.
//!
//! Packets keep their category over all hops in both directions, with the priority of EDCA.

use std::collections::BTreeMap;

use fairmesh_engine::observe::{AirFrame, FrameKind};
use fairmesh_engine::record::{FlowRecord, RunRecord};
use fairmesh_engine::{Observer, RunOptions, run, run_observed, run_under};
use fairmesh_scenario::{ImportOptions, Scenario, parse};

fn read(text: &str) -> Scenario {
    parse("t.toml", text.as_bytes(), &ImportOptions::default()).unwrap()
}

fn of<'a>(r: &'a RunRecord, name: &str) -> &'a FlowRecord {
    r.flows.iter().find(|f| f.name == name).unwrap()
}

/// A chain of three hops with a call to its end, downloads, and a TCP upload of `access`.
fn chain(queue: &str, access: &str) -> String {
    format!(
        r#"
        duration = "6 s"
        warmup = "1 s"
        [radio]
        phy = "802.11n"
        mcs = 4
        queue = {queue}
        [topology]
        chain = {{ hops = 3 }}
        gateway = 0
        [traffic]
        flows = "down"
        [[flow]]
        name = "call"
        from = 0
        to = 3
        traffic = {{ kind = "cbr", rate = "68.8 kbit/s", packet = "172 B" }}
        dscp = "EF"
        [[flow]]
        name = "up"
        from = 3
        to = 0
        access = "{access}"
        "#
    )
}

/// Data frames by flow and user priority; responses by priority.
#[derive(Default)]
struct FrameCounts {
    data: BTreeMap<(u32, u8), u64>,
    responses: BTreeMap<u8, u64>,
    /// Flow of each A-MPDU's first MPDU, and true if another priority followed.
    aggregate: (u32, u8),
}

impl Observer for FrameCounts {
    fn frame(&mut self, f: &AirFrame) {
        if f.kind == FrameKind::BlockAck {
            *self.responses.entry(f.priority).or_default() += 1;
        }
        if f.kind != FrameKind::Data {
            return;
        }
        let packet = f.packet.unwrap();
        *self.data.entry((packet.flow.0, f.priority)).or_default() += 1;
        if let Some(place) = f.aggregate {
            if place.index == 0 {
                self.aggregate = (place.reference, f.priority);
            }
            assert_eq!(self.aggregate, (place.reference, f.priority));
        }
    }
}

#[test]
fn packets_keep_their_category_over_all_hops_and_back() {
    for queue in ["200", "{ kind = \"fq_codel\" }", "{ kind = \"mac80211\", device = 8 }"] {
        let scenario = read(&chain(queue, "video"));
        let (r, seen) =
            run_observed(&scenario, &RunOptions::default(), FrameCounts::default()).unwrap();
        let number = |name: &str| scenario.flows().iter().position(|f| f.name == name).unwrap();
        for (&(flow, priority), &frames) in &seen.data {
            let expected = match flow as usize {
                f if f == number("call") => 6,
                f if f == number("up") => 4,
                _ => 0,
            };
            assert_eq!(priority, expected, "{queue}: {frames} frames of flow {flow}");
        }
        // The call crosses three radios; TCP's acknowledgements return as video.
        let calls = seen.data[&(number("call") as u32, 6)];
        assert!(calls >= 3 * of(&r, "call").packets_delivered, "{queue}: {calls}");
        assert!(seen.responses.contains_key(&0) && seen.responses.contains_key(&4), "{queue}");
        assert!(r.totals.mac.internal_collisions > 0);
    }
}

/// A run with one named category differs from one without any only by EDCA's count of slots.
///
/// No packet waits in another queue, and the carried traffic is equal within the effect of other backoffs.
#[test]
fn one_named_category_changes_only_the_slot_count() {
    let text = chain("200", "best-effort").replace("dscp = \"EF\"", "access = \"best-effort\"");
    let named = text.replace("mcs = 4", "mcs = 4\ntxop = \"0 us\"");
    let plain = named.replace("access = \"best-effort\"", "");
    let sum = |text: &str| {
        let scenario = read(text);
        let runs = (1..=6).map(|seed| {
            let r = run(&scenario, &RunOptions { seed, ..RunOptions::default() }).unwrap();
            assert_eq!(r.totals.mac.internal_collisions, 0);
            r.flows.iter().map(|f| f.goodput_bps).sum::<f64>()
        });
        runs.sum::<f64>() / 6.0
    };
    let (named, plain) = (sum(&named), sum(&plain));
    assert!((named / plain - 1.0).abs() < 0.08, "{named} {plain}");
}

/// Four stations of a cell upload more than it carries; the first one also has a call.
fn cell(access: &str, defaults: &str) -> RunRecord {
    let text = format!(
        r#"
        duration = "11 s"
        warmup = "1 s"
        [radio]
        phy = "802.11ac"
        width = "80 MHz"
        mcs = 4
        queue = 200
        edca = {{ defaults = "{defaults}" }}
        [topology]
        cell = {{ stations = 5 }}
        gateway = 1
        [traffic]
        flows = "up"
        traffic = {{ kind = "cbr", rate = "60 Mbit/s" }}
        [[flow]]
        name = "call"
        from = 2
        to = 1
        traffic = {{ kind = "cbr", rate = "68.8 kbit/s", packet = "172 B", jitter = 0 }}
        access = "{access}"
        "#
    );
    run(&read(&text), &RunOptions::default()).unwrap()
}

/// A voice packet waits for the rest of an exchange.
///
/// It waits for another one if a best-effort station has fewer slots left than it has drawn. On average it
/// waits at most one exchange, except for the seventh of frames that collide in the same slot; nineteen of
/// twenty packets wait less than three exchanges. As best effort it waits in its station's queue, where most
/// packets are dropped.
#[test]
fn voice_passes_a_saturated_cell_in_the_time_of_an_exchange() {
    for (defaults, frame_s) in [("linux", 5.6e-3), ("802.11", 2.6e-3)] {
        let r = cell("voice", defaults);
        let call = of(&r, "call");
        assert_eq!(call.drops.queue + call.drops.retry_limit, 0, "{call:?}");
        assert!(call.packets_delivered >= 499, "{call:?}");
        assert!(
            call.delay_s.mean < 8.0 / 7.0 * frame_s && call.delay_s.p95 < 3.0 * frame_s,
            "{call:?}"
        );
        let plain = cell("best-effort", defaults);
        let beside = of(&plain, "call");
        assert!(beside.delay_s.mean > 5.0 * call.delay_s.mean, "{beside:?}");
        assert!(beside.drops.queue > 100, "{beside:?}");
        // The uploads lose a few per cent.
        let sum = |r: &RunRecord| r.flows.iter().map(|f| f.goodput_bps).sum::<f64>();
        assert!(sum(&r) > 0.9 * sum(&plain), "{} {}", sum(&r), sum(&plain));
    }
}

/// Background defers.
///
/// Beside an equal load of best effort it has the smaller share, and alone all of the cell.
#[test]
fn background_gives_way_to_best_effort() {
    let text = |other: &str| {
        format!(
            r#"
            duration = "6 s"
            warmup = "1 s"
            [radio]
            phy = "802.11n"
            mcs = 7
            queue = 200
            txop = "2528 us"
            [topology]
            links = [[0, 1], [0, 2], [1, 2]]
            gateway = 0
            [traffic]
            traffic = {{ kind = "cbr", rate = "{other}" }}
            [[flow]]
            name = "plain"
            from = 1
            to = 0
            [[flow]]
            name = "backup"
            from = 2
            to = 0
            traffic = {{ kind = "cbr", rate = "80 Mbit/s" }}
            dscp = "CS1"
            "#
        )
    };
    let beside = run(&read(&text("80 Mbit/s")), &RunOptions::default()).unwrap();
    let (plain, backup) = (of(&beside, "plain").goodput_bps, of(&beside, "backup").goodput_bps);
    assert!(backup < 0.75 * plain && backup > 0.1 * plain, "{backup} {plain}");
    let alone = run(&read(&text("1 kbit/s")), &RunOptions::default()).unwrap();
    let all = of(&alone, "backup").goodput_bps;
    assert!(all > 0.9 * (plain + backup), "{all}, {plain} + {backup}");
}

#[test]
fn controls_that_know_one_queue_are_refused_by_name() {
    let scenario = read(&chain("200", "video"));
    let under = |name: &str| {
        run_under(
            &scenario,
            &RunOptions::default(),
            &fairmesh_control::Registry::standard().lookup(name).unwrap(),
        )
    };
    for name in ["rtt", "pfrc", "arc-fq", "source"] {
        let r = under(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(of(&r, "call").packets_delivered > 0, "{name}");
    }
    for name in ["wcp", "cna", "mesh-maxmin", "lbm", "rtt+agents"] {
        let error = under(name).unwrap_err().to_string();
        let expected = "it knows one queue per radio, and with access categories there are four; expected a control";
        assert!(error.contains(name) && error.contains(expected), "{name}: {error}");
    }
}
