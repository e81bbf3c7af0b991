//! Changing channels: bursts of errors, interferers, and the response of rate adaptation.

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{Observer, RunOptions, observe, run, run_observed};
use fairmesh_scenario::{Draft, Scenario, draft_from_toml};

fn draft(text: &str) -> Draft {
    draft_from_toml("test.toml", text).unwrap()
}

fn result(text: &str) -> RunRecord {
    run(&draft(text).build().unwrap(), &RunOptions::default()).unwrap()
}

/// One link with more datagrams than it carries.
fn link(radio: &str, rest: &str) -> String {
    format!(
        r#"
        duration = "100 s"
        warmup = "10 s"
        [radio]
        phy = "802.11b"
        {radio}
        [topology]
        links = [[0, 1]]
        [[flow]]
        from = 0
        to = 1
        traffic = {{ kind = "cbr", rate = "9 Mbit/s", packet = "1500 B" }}
        {rest}
        "#
    )
}

/// Rates of the sender's data frames over time.
#[derive(Default)]
struct Rates {
    /// (start s, Mbit/s) of every data frame.
    data: Vec<(f64, f64)>,
}

impl Observer for Rates {
    fn frame(&mut self, f: &observe::AirFrame) {
        if f.kind == observe::FrameKind::Data {
            self.data.push((f.start.as_secs_f64(), f.rate.0 as f64 / 1e6));
        }
    }
}

impl Rates {
    fn of(scenario: &Scenario) -> (Self, RunRecord) {
        let (record, rates) =
            run_observed(scenario, &RunOptions::default(), Rates::default()).unwrap();
        (rates, record)
    }

    /// Share of the data frames between two instants that were sent at this rate.
    fn share(&self, mbps: f64, from: f64, to: f64) -> f64 {
        let within = || self.data.iter().filter(|d| from <= d.0 && d.0 < to);
        within().filter(|d| d.1 == mbps).count() as f64 / within().count() as f64
    }
}

/// Triantafyllidou 2005 §4.5.1.
///
/// With p = 0.01 in the bad state 1.04 % of the frames of a long run fail; with ten times that p, ten times
/// as many.
#[test]
fn the_chain_of_states_loses_its_mean() {
    for (p, mean) in [(0.01, 0.0104), (0.1, 0.104)] {
        let r = result(&link(&format!("rate = \"11 Mbit/s\"\nerrors = {{ bursts = {p} }}"), ""));
        // Acknowledgements are lost as well as data.
        let frames = r.totals.mac.data + r.totals.mac.ack;
        let lost = r.totals.mac.errored as f64 / frames as f64;
        assert!((lost / mean - 1.0).abs() < 0.08, "{p}: {lost}");
        assert_eq!(r.totals.mac.collided, 0);
    }
}

/// A sender that senses the bursts waits for their end.
///
/// One that does not loses the overlapping frames.
#[test]
fn an_interferer_takes_its_share_from_those_that_sense_it() {
    let oven = |nodes: &str| {
        result(&link(
            "rate = \"11 Mbit/s\"",
            &format!("[[interferer]]\nnodes = {nodes}\nperiod = \"20 ms\"\nduty = 0.4"),
        ))
    };
    let (free, both, hidden) =
        (result(&link("rate = \"11 Mbit/s\"", "")), oven("[0, 1]"), oven("[1]"));
    let goodput = |r: &RunRecord| r.flows[0].goodput_bps;
    // In the free 60 %, a frame that would not end before the next burst is not held back: it is
    // lost.
    let share = goodput(&both) / goodput(&free);
    assert!((0.5..0.6).contains(&share), "{share}");
    assert_eq!(both.totals.mac.gave_up, 0, "senders wait");
    // A sender that does not sense the bursts wastes attempts and windows.
    assert!(goodput(&hidden) < 0.8 * goodput(&both), "{}", goodput(&hidden) / goodput(&free));
    assert!(both.totals.mac.collided <= 5000, "at most the frame under way at each start");
    assert!(hidden.totals.mac.collided > 3 * both.totals.mac.collided);
}

/// Two changes of a link's rate.
///
/// Frames use the rate of their time, and a run without changes is unaffected.
#[test]
fn a_link_changes_its_rate_at_its_time() {
    let change = |at: u32, rate: u32| {
        format!("[[rate_change]]\nat = \"{at} s\"\nfrom = 0\nto = 1\nrate = \"{rate} Mbit/s\"\n")
    };
    let text = link("rate = \"11 Mbit/s\"", &(change(70, 11) + &change(40, 2)));
    let (rates, _) = Rates::of(&draft(&text).build().unwrap());
    // A frame in service at the change already has its rate.
    assert_eq!(rates.share(11.0, 0.0, 40.0), 1.0);
    assert_eq!(rates.share(2.0, 40.02, 70.0), 1.0);
    assert_eq!(rates.share(11.0, 70.02, 100.0), 1.0);
    let sent = |from: f64, to: f64| rates.data.iter().filter(|d| from <= d.0 && d.0 < to).count();
    assert!(sent(40.0, 70.0) * 2 < sent(70.0, 100.0));
}

/// A flow takes another path, and a third.
///
/// No packet is lost, each relay carries it for its time, and acknowledgements use the same path.
#[test]
fn a_flow_takes_another_path_at_its_time() {
    let change = |at: u32, relay: u32| {
        format!("[[route_change]]\nat = \"{at} s\"\nflow = \"1->5\"\npath = [1, {relay}, 5]\n")
    };
    let text = |changes: &str| {
        format!(
            "duration = \"60 s\"\nwarmup = \"2 s\"\n[radio]\nphy = \"802.11b\"\n[topology]\n\
             links = [[1, 2], [2, 5], [1, 3], [3, 5], [1, 4], [4, 5], [2, 3], [3, 4], [2, 4]]\n\
             [[flow]]\nfrom = 1\nto = 5\npath = [1, 2, 5]\n{changes}"
        )
    };
    let plain = result(&text(""));
    let changed = result(&text(&(change(40, 4) + &change(20, 3))));
    let frames: Vec<f64> = changed.nodes[1..4].iter().map(|n| n.mac.data as f64).collect();
    let all: f64 = frames.iter().sum();
    for part in frames.iter().map(|f| f / all) {
        assert!((0.3..0.37).contains(&part), "{frames:?}");
    }
    assert_eq!([plain.nodes[2].mac.data, plain.nodes[3].mac.data], [0, 0]);
    let share = changed.flows[0].goodput_bps / plain.flows[0].goodput_bps;
    assert!((0.97..1.03).contains(&share), "{share}");
    // 1 and 5 are out of range of each other, on all paths.
    let lost = [&plain, &changed].map(|r| r.flows[0].drops.retry_limit as f64);
    assert!(lost[1] < 1.2 * lost[0] + 5.0, "{lost:?}");
}

/// An interferer that stops after half of the time takes half as much.
#[test]
fn an_interferer_ends_at_its_time() {
    let oven = |stop: &str| {
        result(&link(
            "rate = \"11 Mbit/s\"",
            &format!("[[interferer]]\nnodes = [0, 1]\nperiod = \"20 ms\"\nduty = 0.4\n{stop}"),
        ))
        .flows[0]
            .goodput_bps
    };
    let free = result(&link("rate = \"11 Mbit/s\"", "")).flows[0].goodput_bps;
    let (always, half) = (oven(""), oven("stop = \"50 s\""));
    let part = (free - half) / (free - always);
    assert!((0.4..0.6).contains(&part), "{part}");
}

/// Error ratios by rate from slow to fast, for a link that supports 5.5 Mbit/s.
const GOOD_FOR_5_5: &str = "errors = { bit = [0.0, 0.0, 1e-6, 3e-4] }";

#[test]
fn sample_rate_finds_the_best_rate() {
    let text = link(&format!("adaptation = \"samplerate\"\n{GOOD_FOR_5_5}"), "");
    let (rates, adaptive) = Rates::of(&draft(&text).build().unwrap());
    assert!(rates.share(5.5, 10.0, 100.0) > 0.88, "{}", rates.share(5.5, 10.0, 100.0));
    let fixed = |mbps: &str| {
        let r = result(&link(&format!("rate = \"{mbps} Mbit/s\"\n{GOOD_FOR_5_5}"), ""));
        r.flows[0].goodput_bps
    };
    let best = [fixed("1"), fixed("2"), fixed("5.5"), fixed("11")];
    assert!(best[2] > best[1] && best[1] > best[0] && best[1] > best[3], "{best:?}");
    let reached = adaptive.flows[0].goodput_bps / best[2];
    assert!((0.9..1.0).contains(&reached), "{reached}");
}

/// ARF lowers the rate after consecutive losses, and raises it again without them.
#[test]
fn arf_falls_around_an_interferer_and_recovers() {
    // One burst, from 40 s to 60 s, which destroys all frames at the receiver.
    let text = link(
        "adaptation = \"arf\"",
        "[[interferer]]\nnodes = [1]\nperiod = \"1000 s\"\nduty = 0.02\nstart = \"40 s\"",
    );
    let (rates, _) = Rates::of(&draft(&text).build().unwrap());
    assert_eq!(rates.share(11.0, 1.0, 40.0), 1.0);
    assert!(rates.share(1.0, 41.0, 60.0) > 0.95);
    assert!(rates.share(11.0, 61.0, 100.0) > 0.999);
    // Ten ACKs per step, three steps.
    let back = rates.data.iter().find(|d| d.0 > 60.0 && d.1 == 11.0).unwrap().0;
    let slow: Vec<f64> =
        rates.data.iter().filter(|d| d.0 > 60.0 && d.0 < back).map(|d| d.1).collect();
    for mbps in [1.0, 2.0, 5.5] {
        let n = slow.iter().filter(|r| **r == mbps).count();
        assert!((10..=15).contains(&n), "{n} frames at {mbps}");
    }
}
