//! Hand-made records for the unit tests of this crate.

use fairmesh_engine::record::{
    DelayRecord, Drops, FlowRecord, NodeRecord, RunRecord, Series, TcpRecord, Totals,
};

/// Returns a record of `flows`, each (goodput bit/s, fair bit/s, hops).
///
/// Flow k is from node k+1 to node 0.
pub fn record(control: &str, seed: u64, flows: &[(f64, f64, u32)]) -> RunRecord {
    let node = |i: usize| NodeRecord {
        name: i.to_string(),
        position: Some((200.0 * i as f64, 0.0)),
        airtime_tx: 0.2,
        airtime_busy: 0.5,
        airtime_idle: 0.3,
        mac: Default::default(),
        mean_queue: 1.5,
    };
    let flow = |(i, &(goodput_bps, fair_bps, hops)): (usize, &(f64, f64, u32))| FlowRecord {
        name: format!("{}-0", i + 1),
        from: (i + 1).to_string(),
        to: "0".into(),
        hops,
        path: vec![(i + 1).to_string(), "0".into()],
        goodput_bps,
        fair_bps: Some(fair_bps),
        active_share: 1.0,
        weight: 1.0,
        delay_s: DelayRecord { mean: 0.05, std: 0.01, p50: 0.04, p95: 0.09, p99: 0.12 },
        acknowledged_delay_s: None,
        packets_sent: 1000,
        packets_delivered: 900,
        drops: Drops { queue: 60, wire: 0, retry_limit: 40, limiter: 0 },
        data_drops: Drops { queue: 50, wire: 0, retry_limit: 20, limiter: 0 },
        answer_drops: Drops { queue: 0, wire: 0, retry_limit: 10, limiter: 0 },
        tcp: Some(TcpRecord { segments: 1000, retransmits: 50, timeouts: 2, mean_cwnd_bytes: 4e4 }),
        quic: None,
        transfers: None,
    };
    let n = flows.len();
    RunRecord {
        scenario: "example".into(),
        control: control.into(),
        ours: fairmesh_control::Registry::standard().lookup(control).is_ok_and(|m| m.is_ours()),
        seed,
        fingerprint: format!("{seed:016x}"),
        duration_s: 4.0,
        warmup_s: 1.0,
        flows: flows.iter().enumerate().map(flow).collect(),
        subscribers: vec![],
        nodes: (0..=n).map(node).collect(),
        links: vec![],
        fair_is_upper_bound: false,
        totals: Totals { transmissions: 5000, events: 20_000, packets: 2000, ..Default::default() },
        series: Series {
            time_s: vec![1.0, 2.0, 3.0, 4.0],
            goodput_bps: flows.iter().map(|f| vec![f.0; 4]).collect(),
            cwnd_bytes: vec![vec![1460.0, 2920.0, 5840.0, 1460.0]; n],
            queue_packets: vec![vec![0.0, 1.0, 2.0, 1.0]; n + 1],
            limit_bps: vec![vec![]; n],
            ..Series::default()
        },
        decisions: vec![],
        emulation: None,
    }
}
