//! Ending the Anomaly (Høiland-Jørgensen et al., USENIX ATC 2017) with its three stations.
//!
//! They are two at MCS 15, one at MCS 0, short guard interval, 20 MHz. Airtime shares and rates against the
//! paper's model, computed here from its equations and the sizes of our aggregates.

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{Observer, RunOptions, observe, run_observed};
use fairmesh_scenario::draft_from_toml;

/// Downlink of the access point to each station after the warm-up.
///
/// The values: s on the medium, A-MPDUs, MPDUs.
#[derive(Default)]
struct Downlink {
    from: f64,
    airtime: [f64; 3],
    frames: [f64; 3],
    mpdus: [f64; 3],
}

impl Observer for Downlink {
    fn frame(&mut self, f: &observe::AirFrame) {
        let to = f.to.map_or(0, fairmesh_units::NodeId::index);
        let data = f.kind == observe::FrameKind::Data && f.from.index() == 0 && to > 0;
        if !data || f.start.as_secs_f64() < self.from {
            return;
        }
        self.mpdus[to - 1] += 1.0;
        if f.aggregate.is_none_or(|a| a.index == 0) {
            self.frames[to - 1] += 1.0;
            self.airtime[to - 1] += f.end.since(f.start).as_secs_f64();
        }
    }
}

impl Downlink {
    fn shares(&self) -> [f64; 3] {
        self.airtime.map(|a| a / self.airtime.iter().sum::<f64>())
    }
    fn sizes(&self) -> [f64; 3] {
        [0, 1, 2].map(|s| self.mpdus[s] / self.frames[s])
    }
}

fn measure(queue: &str, traffic: &str, link: &str) -> (RunRecord, Downlink) {
    let text = format!(
        r#"
        duration = "14 s"
        warmup = "4 s"
        [radio]
        phy = "802.11n"
        mcs = 15
        guard = "400 ns"
        mpdus = 32
        queue = {queue}
        [topology]
        cell = {{ stations = 3 }}
        gateway = "ap"
        {link}
        [[link]]
        from = "ap"
        to = 3
        mcs = 0
        {traffic}
        "#
    );
    let scenario = draft_from_toml("test.toml", &text).unwrap().build().unwrap();
    let seen = Downlink { from: 4.0, ..Downlink::default() };
    run_observed(&scenario, &RunOptions::default(), seen).unwrap()
}

const UDP: &str = r#"
    [traffic]
    flows = "down"
    transport = "udp"
    traffic = { kind = "cbr", rate = "60 Mbit/s" }
"#;
const FIFO: &str = r#"{ kind = "drop-tail", packets = 1000, device = 123 }"#;
const FQ_CODEL: &str = r#"{ kind = "fq_codel", device = 123 }"#;
const FQ_MAC: &str = r#"{ kind = "mac80211", airtime = "0 us" }"#;
const FAIR: &str = r#"{ kind = "mac80211" }"#;
const RATES: [f64; 3] = [144.4e6, 144.4e6, 7.2e6];

/// The paper's (1) to (5).
///
/// The values: airtime share, and rate in Mbit/s, of stations with these numbers of 1500-byte packets per
/// aggregate. Ack, contention and gaps as in its §2.2.1.
fn model(sizes: [f64; 3], fair: bool) -> [(f64, f64); 3] {
    let l = 1500.0;
    let data = |s: usize| {
        // Delimiter 4, MAC header 34, FCS 4, padding.
        let aggregate: f64 = sizes[s] * (l + 4.0 + 34.0 + 4.0 + 2.0);
        32e-6 + 8.0 * aggregate / RATES[s]
    };
    let all: f64 = (0..3).map(data).sum();
    [0, 1, 2].map(|s| {
        let overhead = 34e-6 + 16e-6 + 68e-6 + 16e-6 + 8.0 * 58.0 / RATES[s];
        let base = 8.0 * sizes[s] * l / (data(s) + overhead);
        let share = if fair { 1.0 / 3.0 } else { data(s) / all };
        (share, share * base / 1e6)
    })
}

fn assert_near(what: &str, ours: f64, theirs: f64) {
    println!("{what}: {ours:.3}, calculated {theirs:.3}");
    assert!((ours / theirs - 1.0).abs() < 0.15, "{what}: {ours}, calculated {theirs}");
}

#[test]
fn shares_are_those_of_the_papers_model() {
    for (name, queue, fair) in
        [("FIFO", FIFO, false), ("FQ-MAC", FQ_MAC, false), ("airtime", FAIR, true)]
    {
        let (record, seen) = measure(queue, UDP, "");
        println!("{name}: MPDUs {:?}", seen.sizes());
        for (s, (share, rate)) in model(seen.sizes(), fair).into_iter().enumerate() {
            assert_near(&format!("{name} {s}, share"), seen.shares()[s], share);
            let mbps = record.flows[s].goodput_bps / 1e6 * 1500.0 / 1472.0;
            // Its rates without fairness are too low for short frames: the share is of the data's
            // time only, and the gaps are subtracted twice.
            if fair {
                assert_near(&format!("{name} {s}, Mbit/s"), mbps, rate);
            } else {
                assert!(mbps > 0.85 * rate, "{name} {s}: {mbps}, calculated {rate}");
            }
        }
    }
}

#[test]
fn airtime_fairness_has_the_papers_calculated_shares_and_rates() {
    // Table 1: a third each; 42.2, 42.3 and 2.2 Mbit/s.
    let (record, seen) = measure(FAIR, UDP, "");
    for (s, rate) in [42.2, 42.3, 2.2].into_iter().enumerate() {
        assert_near("share", seen.shares()[s], 1.0 / 3.0);
        assert_near("Mbit/s", record.flows[s].goodput_bps / 1e6, rate);
    }
    // The same table: under FIFO the slow station has 79 % of the airtime.
    let (fifo, seen) = measure(FIFO, UDP, "");
    assert_near("slow share, FIFO", seen.shares()[2], 0.79);
    let sum = |r: &RunRecord| r.flows.iter().map(|f| f.goodput_bps).sum::<f64>();
    // 86.8 to 26.4 calculated, 76.4 to 18.7 measured.
    assert!((3.0..5.5).contains(&(sum(&record) / sum(&fifo))));
}

#[test]
fn weights_divide_airtime() {
    let node = "[[node]]\nid = 1\nairtime_weight = 2.0\n";
    let (_, seen) = measure(FAIR, UDP, node);
    for (s, share) in [0.5, 0.25, 0.25].into_iter().enumerate() {
        assert!((seen.shares()[s] / share - 1.0).abs() < 0.05, "{:?}", seen.shares());
    }
}

/// Bulk TCP downloads, and a small flow to a fast station and to the slow one.
const TCP: &str = r#"
    [wired]
    hosts = ["server"]
    [traffic]
    flows = "down"
    host = "server"
    transport = { tcp = "cubic", preset = "rfc", min_rto = "200 ms" }
    [[flow]]
    name = "fast"
    from = "server"
    to = 1
    transport = "udp"
    traffic = { kind = "cbr", rate = "20 kbit/s", packet = "56 B" }
    [[flow]]
    name = "slow"
    from = "server"
    to = 3
    transport = "udp"
    traffic = { kind = "cbr", rate = "20 kbit/s", packet = "56 B" }
"#;

/// Returns median delays beside downloads, ms, and the sum of the downloads, Mbit/s.
///
/// The delays are those to a fast station and to the slow one.
fn waits(queue: &str) -> (f64, f64, f64) {
    let (record, _) = measure(queue, TCP, "");
    let delay = |name: &str| {
        record.flows.iter().find(|f| f.name == name).map(|f| f.delay_s.p50 * 1e3).unwrap()
    };
    let sum: f64 = record.flows[..3].iter().map(|f| f.goodput_bps / 1e6).sum();
    let all = (delay("fast"), delay("slow"), sum);
    println!("{queue}: {all:?}");
    all
}

/// Figures 1, 4 and 7 under TCP downloads: the order of delays and sums.
#[test]
fn each_step_shortens_the_wait() {
    let (fifo, fq_codel, fq_mac, fair) = (waits(FIFO), waits(FQ_CODEL), waits(FQ_MAC), waits(FAIR));
    // Hundreds of ms with a FIFO; an order of magnitude less from FQ-MAC on. The driver's queue for
    // the slow station is beyond fq_codel's control.
    assert!(fifo.0 > 100.0 && fifo.1 > 200.0);
    assert!(fq_codel.0 < 0.5 * fifo.0 && fq_codel.1 < 0.7 * fifo.1);
    for better in [fq_mac, fair] {
        assert!(better.0 < 0.15 * fifo.0 && better.1 < 0.15 * fifo.1);
        assert!(better.1 < 0.5 * fq_codel.1);
    }
    assert!(fair.2 > fq_mac.2 && fq_mac.2 > fq_codel.2 && fair.2 > 1.1 * fifo.2);
}

/// A card with a long queue of its own: AQL limits the wait in it.
#[test]
fn aql_keeps_the_cards_queue_short() {
    let with = waits(r#"{ kind = "mac80211", device = 1000 }"#);
    let without = waits(r#"{ kind = "mac80211", device = 1000, aql = false }"#);
    assert!(with.0 < 0.3 * without.0 && with.1 < 0.3 * without.1);
}
