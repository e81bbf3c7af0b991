//! Saturated stations in one cell against Bianchi's model with finite retries
//! (`fairmesh-capacity` holds the general model; this is the textbook fixed point).

use fairmesh_units::{BitRate, Decibel, NodeId, Power, Span, Time};
use fairmesh_wifi::phy::{Phy, Preamble};
use fairmesh_wifi::{
    Adaptation, Air, Hearing, LinkId, MacConfig, Outgoing, Reception, SendReport, Setup, Upper,
};

/// Every station but the first always has a datagram for it.
struct Saturated {
    links: Vec<Option<LinkId>>,
    received: u64,
}

impl Upper for Saturated {
    fn pull(&mut self, _: Time, node: NodeId) -> Option<Outgoing> {
        let link = self.links[node.index()]?;
        Some(Outgoing { packet: node.0, link: Some(link), bytes: 1528 })
    }
    fn received(&mut self, _: Time, _: NodeId, _: NodeId, _: u32, _: bool) {
        self.received += 1;
    }
    fn sent(&mut self, _: Time, _: NodeId, _: &SendReport) {}
}

/// Payload bit/s received by station 0 from `n` saturated senders of 1500-byte datagrams.
fn goodput(n: usize, mbps: u64, rts: bool, seconds: u64, seed: u64) -> f64 {
    let phy = Phy::dot11b(Preamble::Long);
    let rate = phy.rate(BitRate(mbps * 1_000_000)).unwrap();
    let mac = MacConfig {
        phy,
        rate,
        rts_threshold: rts.then_some(0),
        llc_bytes: 8,
        reception: Reception::Ns2,
        capture: Decibel(10.0),
        adaptation: Adaptation::Fixed,
    };
    let names: Vec<String> = (0..=n).map(|i| i.to_string()).collect();
    let mut hearing = Vec::new();
    for from in 0..=n as u32 {
        for to in (0..=n as u32).filter(|&to| to != from) {
            let power = Power::from_dbm(-60.0);
            hearing.push(Hearing { from, to, power, decodes: true, delay: Span::ZERO });
        }
    }
    let mut air = Air::new(Setup {
        names: &names,
        mac: &mac,
        hearing: &hearing,
        rates: &[],
        errors: vec![],
        noise: &[],
        seed,
    });
    let links = (0..=n as u32).map(|i| air.link(NodeId(i), NodeId(0))).collect();
    let mut upper = Saturated { links, received: 0 };
    for i in 1..=n as u32 {
        air.kick(Time::ZERO, NodeId(i), &mut upper);
    }
    let end = Time::ZERO + Span::from_secs(seconds);
    while air.next_deadline() < end {
        air.step(&mut upper);
    }
    upper.received as f64 * 12_000.0 / seconds as f64
}

/// Bianchi 2000 with 7 attempts: a success lasts T_s, a collision T_c = data + EIFS.
fn bianchi(n: usize, mbps: f64) -> f64 {
    let tau = |p: f64| {
        let (mut num, mut den) = (0.0, 0.0);
        for i in 0..7 {
            let w = f64::from(32u32 << i.min(5)) - 1.0;
            num += p.powi(i);
            den += p.powi(i) * (1.0 + w / 2.0);
        }
        num / den
    };
    let (mut lo, mut hi) = (0.0, 0.999_999);
    for _ in 0..200 {
        let p = (lo + hi) / 2.0;
        if 1.0 - (1.0 - tau(p)).powi(n as i32 - 1) > p { lo = p } else { hi = p }
    }
    let t = tau((lo + hi) / 2.0);
    let data = 192.0 + (1564.0 * 8.0 / mbps).ceil();
    let ack = 192.0 + 112.0 / if mbps > 1.0 { 2.0 } else { 1.0 };
    let busy = 1.0 - (1.0 - t).powi(n as i32);
    let ok = n as f64 * t * (1.0 - t).powi(n as i32 - 1);
    let (ts, tc) = (data + 10.0 + ack + 50.0, data + 10.0 + 304.0 + 50.0);
    ok * 12_000.0 * 1e6 / ((1.0 - busy) * 20.0 + ok * ts + (busy - ok) * tc)
}

fn check(n: usize, mbps: u64, tolerance: f64) {
    let seconds = if mbps == 1 { 400 } else { 60 };
    let runs = [1, 2, 3].map(|seed| goodput(n, mbps, false, seconds, seed));
    let ours = runs.iter().sum::<f64>() / 3.0;
    let model = bianchi(n, mbps as f64);
    let error = ours / model - 1.0;
    assert!(error.abs() < tolerance, "n = {n}, {mbps} Mbit/s: {ours:.0} against {model:.0}");
}

#[test]
fn up_to_twenty_stations_within_one_and_a_half_percent() {
    for n in [2, 5, 10, 20] {
        check(n, 1, 0.015);
        check(n, 11, 0.015);
    }
}

#[test]
fn fifty_stations_within_three_percent() {
    check(50, 1, 0.03);
    check(50, 11, 0.03);
}

#[test]
fn a_lone_link_meets_the_closed_form() {
    // DIFS + 15.5 slots + data + SIFS + ACK.
    for (mbps, cycle) in
        [(1u64, 50.0 + 310.0 + 12_704.0 + 10.0 + 304.0), (11, 50.0 + 310.0 + 1330.0 + 10.0 + 248.0)]
    {
        let ours = goodput(1, mbps, false, 100, 1);
        assert!((ours / (12_000e6 / cycle) - 1.0).abs() < 0.003, "{mbps}: {ours}");
    }
    let rts = 50.0 + 310.0 + 272.0 + 10.0 + 248.0 + 10.0 + 1330.0 + 10.0 + 248.0;
    let ours = goodput(1, 11, true, 100, 1);
    assert!((ours / (12_000e6 / rts) - 1.0).abs() < 0.003, "RTS: {ours}");
}
