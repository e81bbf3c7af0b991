//! Access categories: timing, internal collisions, and shares of saturated contenders.

use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Band, Modern, Phy};
use fairmesh_units::{Decibel, NodeId, Power, Span, Time};
use fairmesh_wifi::{
    Access, AccessParameters, Adaptation, Air, Edca, FrameKind, LinkId, MacConfig, OnAir,
    OnAirMpdu, Outcome, Outgoing, Reception, SendReport, SensedPair, Setup, Upper,
};

const BYTES: u32 = 1000;
const SLOT: u64 = 9_000;
const SIFS: u64 = 16_000;

/// Upper layer in which all stations send to station 0.
#[derive(Default)]
struct Queues {
    /// Packets left by station and category; `u64::MAX` never runs out.
    left: Vec<[u64; 4]>,
    links: Vec<Option<LinkId>>,
    /// Start, end, transmitter, category of each data frame.
    frames: Vec<(u64, u64, u32, Access)>,
    answers: Vec<(u64, u64, Access)>,
    numbers: Vec<(Access, u16)>,
    /// Arrivals by station and category.
    arrived: Vec<[u64; 4]>,
    reports: Vec<(u32, Access, SendReport)>,
    keep: bool,
}

impl Upper for Queues {
    const OBSERVE: bool = true;

    fn pull(&mut self, _: Time, node: NodeId, access: Access) -> Option<Outgoing> {
        let left = &mut self.left[node.index()][access.index()];
        *left = left.checked_sub(1)?;
        let link = self.links[node.index()];
        Some(Outgoing { packet: access.index() as u32, link, bytes: BYTES })
    }
    fn received(&mut self, _: Time, _: NodeId, from: NodeId, packet: u32, _: bool) {
        self.arrived[from.index()][packet as usize] += 1;
    }
    fn sent(&mut self, _: Time, node: NodeId, report: &SendReport, access: Access) {
        assert_eq!(report.packet.packet, access.index() as u32);
        if self.keep {
            self.reports.push((node.0, access, *report));
        }
    }
    fn on_air(&mut self, f: &OnAir, mpdus: &[OnAirMpdu]) {
        if !self.keep {
            return;
        }
        let (start, end) = (f.start.as_nanos(), f.end.as_nanos());
        match f.kind {
            FrameKind::Data => {
                self.frames.push((start, end, f.from.0, f.access));
                self.numbers.extend(mpdus.iter().map(|m| (f.access, m.sequence)));
            }
            _ => self.answers.push((start, end, f.access)),
        }
    }
}

const fn fixed(aifsn: u32, cw: u32) -> AccessParameters {
    AccessParameters { aifsn, cw_min: cw, cw_max: cw, txop: Span::ZERO }
}

fn cell(edca: Edca, left: Vec<[u64; 4]>, seed: u64) -> (Air, Queues) {
    let mode = Mode::new(Generation::Ht, 7, 1, 20, 800).unwrap();
    let phy = Phy::modern(Modern {
        generation: Generation::Ht,
        band: Band::Ghz5,
        modes: vec![mode],
        ampdu: 0,
        amsdu: 0,
        window: 64,
        ns3: false,
    });
    let mac = MacConfig {
        rate: phy.rate_of(mode).unwrap(),
        phy,
        rts_threshold: None,
        llc_bytes: 8,
        reception: Reception::NoCapture,
        rules: fairmesh_wifi::MacRules::Standard,
        capture: Decibel(10.0),
        adaptation: Adaptation::Fixed,
        txop: Span::ZERO,
        edca: Some(edca),
    };
    let n = left.len() as u32;
    let pairs = (0..n).flat_map(|a| (0..n).filter(move |&b| a != b).map(move |b| (a, b)));
    let power = Power::from_dbm(-60.0);
    let sensed_pairs: Vec<SensedPair> = pairs
        .map(|(from, to)| SensedPair { from, to, power, decodes: true, delay: Span::ZERO })
        .collect();
    let names: Vec<String> = (0..n).map(|i| i.to_string()).collect();
    let air = Air::new(Setup {
        names: &names,
        mac: &mac,
        sensed_pairs: &sensed_pairs,
        leaks: &[],
        rates: &[],
        errors: vec![],
        noise: &[],
        seed,
    });
    let links = (0..n).map(|i| air.link(NodeId(i), NodeId(0))).collect();
    let arrived = vec![[0; 4]; left.len()];
    (air, Queues { left, links, arrived, ..Queues::default() })
}

fn run(air: &mut Air, upper: &mut Queues, from: Time, span: Span) {
    for node in 0..upper.left.len() as u32 {
        air.kick(from, NodeId(node), upper);
    }
    while air.next_deadline() < from + span {
        air.step(upper);
    }
}

/// With windows of zero, frames of one category follow each other at SIFS + AIFSN slots.
#[test]
fn a_category_begins_its_aifs_after_the_medium() {
    let standard = Edca::standard(&Phy::dot11a());
    for access in Access::ALL {
        let mut edca = Edca([fixed(2, 0); 4]);
        let aifsn = standard.of(access).aifsn;
        edca.0[access.index()] = fixed(aifsn, 0);
        let mut left = [0; 4];
        left[access.index()] = 5;
        let (mut air, mut q) = cell(edca, vec![[0; 4], left], 1);
        q.keep = true;
        run(&mut air, &mut q, Time::ZERO, Span::from_secs(1));
        assert_eq!((q.frames.len(), q.answers.len()), (5, 5));
        for (response, next) in q.answers.iter().zip(&q.frames[1..]) {
            assert_eq!(next.0 - response.1, SIFS + u64::from(aifsn) * SLOT, "{access}");
            assert_eq!((response.2, next.3), (access, access));
        }
    }
}

/// Countdowns of two categories of one station that end together: the higher one sends.
///
/// The lower one doubles its window and counts no lost frame on the air.
#[test]
fn the_higher_category_wins_inside_a_station() {
    let mut edca = Edca([fixed(2, 0); 4]);
    edca.0[Access::Video.index()] = AccessParameters { cw_max: 1023, ..fixed(2, 0) };
    let (mut air, mut q) = cell(edca, vec![[0; 4], [0, 0, 1, 1]], 1);
    q.keep = true;
    run(&mut air, &mut q, Time::ZERO, Span::from_secs(1));
    let order: Vec<Access> = q.frames.iter().map(|f| f.3).collect();
    assert_eq!(order, [Access::Voice, Access::Video]);
    let c = air.counters(NodeId(1));
    assert_eq!((c.internal_collisions, c.timeouts, c.gave_up, c.data), (1, 0, 0, 2));
    // The window after one doubling of zero is one slot.
    let gap = q.frames[1].0 - q.answers[0].1;
    assert!(gap == SIFS + 2 * SLOT || gap == SIFS + 3 * SLOT, "{gap}");
    // Sequence numbers are per category.
    assert_eq!(q.numbers, [(Access::Voice, 1), (Access::Video, 1)]);
}

/// Internal collisions count as attempts (IEEE 802.11-2020 §10.23.2.12.1).
///
/// Beside a saturated higher category, a frame is discarded after as many of them as a frame has attempts,
/// without having been on the air.
#[test]
fn internal_collisions_count_as_attempts() {
    let (mut air, mut q) = cell(Edca([fixed(2, 0); 4]), vec![[0; 4], [0, 0, 1, 20]], 1);
    q.keep = true;
    run(&mut air, &mut q, Time::ZERO, Span::from_secs(1));
    let (_, _, report) = q.reports.iter().find(|r| r.1 == Access::Video).unwrap();
    assert_eq!((report.outcome, report.data_attempts), (Outcome::Lost, 0));
    let c = air.counters(NodeId(1));
    assert_eq!((c.internal_collisions, c.gave_up, c.data), (7, 1, 20));
    assert_eq!(q.arrived[1], [0, 0, 0, 20]);
}

/// A packet that arrives during another category's exchange draws a backoff.
///
/// It contends as if the medium had been busy.
#[test]
fn packets_that_arrive_during_an_exchange_contend_after_it() {
    let (mut air, mut q) = cell(Edca([fixed(2, 0); 4]), vec![[0; 4], [0, 1, 0, 0]], 1);
    q.keep = true;
    air.kick(Time::ZERO, NodeId(1), &mut q);
    air.step(&mut q);
    let during = Time::from_nanos(q.frames[0].0 + 20_000);
    q.left[1][Access::Voice.index()] = 1;
    air.kick(during, NodeId(1), &mut q);
    run(&mut air, &mut q, during, Span::from_secs(1));
    assert_eq!(q.frames[1].3, Access::Voice);
    assert_eq!(q.frames[1].0 - q.answers[0].1, SIFS + 2 * SLOT);
}

/// Returns the shares of two saturated contenders with fixed windows.
///
/// They follow from the Markov chain of the remaining backoffs. `ahead`: slots by which the first one's AIFS
/// is shorter. `inside`: the first one wins ties. Exact: the contenders meet again whenever the medium has
/// been idle for the shorter AIFS.
fn shares(cw: [usize; 2], ahead: usize, inside: bool) -> [f64; 2] {
    let (m, n) = (cw[0] + 1, cw[1] + 1);
    let mut p = vec![vec![1.0 / (m * n) as f64; n]; m];
    let mut won = [0.0; 2];
    for round in 0..4000 {
        let mut next = vec![vec![0.0; n]; m];
        won = [0.0; 2];
        for a in 0..m {
            for (b, &weight) in p[a].iter().enumerate() {
                let at = b + ahead;
                match a.cmp(&at) {
                    core::cmp::Ordering::Less => {
                        won[0] += weight;
                        // A slot counts when it begins.
                        let rest = b - (a + 1).saturating_sub(ahead);
                        (0..m).for_each(|x| next[x][rest] += weight / m as f64);
                    }
                    core::cmp::Ordering::Greater => {
                        won[1] += weight;
                        (0..n).for_each(|y| next[a - at - 1][y] += weight / n as f64);
                    }
                    core::cmp::Ordering::Equal => {
                        won[0] += if inside { weight } else { 0.0 };
                        for row in &mut next {
                            row.iter_mut().for_each(|x| *x += weight / (m * n) as f64);
                        }
                    }
                }
            }
        }
        let change: f64 =
            p.iter().flatten().zip(next.iter().flatten()).map(|(x, y)| (x - y).abs()).sum();
        p = next;
        if round > 10 && change < 1e-12 {
            break;
        }
    }
    let sum = won[0] + won[1];
    won.map(|w| w / sum)
}

/// The share in `arrived` matches the chain within 4.5 standard deviations of coin tosses.
///
/// Windows and AIFS are those of the standard's pairs and others, between two stations and inside one.
#[test]
fn saturated_contenders_share_as_the_markov_chain_predicts() {
    let cases = [
        ([15, 15], 0),
        ([7, 15], 1),
        ([3, 15], 1),
        ([3, 7], 0),
        ([15, 15], 4),
        ([7, 31], 5),
        ([15, 3], 2),
        ([31, 63], 3),
    ];
    for (seed, (cw, ahead)) in cases.into_iter().enumerate() {
        let (high, low) = (Access::Voice.index(), Access::BestEffort.index());
        let mut edca = Edca([fixed(2, 15); 4]);
        edca.0[high] = fixed(2, cw[0]);
        edca.0[low] = fixed(2 + ahead, cw[1]);
        for inside in [false, true] {
            let mut left = vec![[0; 4]; if inside { 2 } else { 3 }];
            left[1][high] = u64::MAX;
            left.last_mut().unwrap()[low] = u64::MAX;
            let (mut air, mut q) = cell(edca, left, seed as u64);
            run(&mut air, &mut q, Time::ZERO, Span::from_secs(10));
            let first = q.arrived[1][high] as f64;
            let second = q.arrived.last().unwrap()[low] as f64;
            let (all, found) = (first + second, second / (first + second));
            let [_, expected] = shares(cw.map(|c| c as usize), ahead as usize, inside);
            let spread = (expected * (1.0 - expected) / all).sqrt();
            assert!(all > 20_000.0, "{all}");
            assert!(
                (found - expected).abs() < 4.5 * spread,
                "{cw:?} {ahead} {inside}: {found} of {all}, {expected} expected"
            );
            let internal = air.counters(NodeId(1)).internal_collisions;
            assert_eq!(internal > 0, inside, "{internal}");
        }
    }
}

/// Background traffic starves beside saturated voice.
///
/// Its AIFS of seven slots starts after voice's largest first backoff, 2 + 3 slots, has ended.
#[test]
fn background_starves_beside_saturated_voice() {
    let edca = Edca::standard(&Phy::dot11a());
    let mut left = vec![[0; 4]; 3];
    left[1][Access::Voice.index()] = u64::MAX;
    left[2][Access::Background.index()] = u64::MAX;
    let (mut air, mut q) = cell(edca, left, 3);
    run(&mut air, &mut q, Time::ZERO, Span::from_secs(5));
    // At most one packet, sent before voice had any.
    assert!(q.arrived[2][Access::Background.index()] <= 1, "{:?}", q.arrived);
    assert!(q.arrived[1][Access::Voice.index()] > 10_000);
}

/// A station keeps the medium up to the TXOP limit of the winning category.
#[test]
fn txop_limits_are_per_category() {
    let mut edca = Edca::standard(&Phy::dot11a());
    edca.0[Access::BestEffort.index()].txop = Span::ZERO;
    let runs = |access: Access| {
        let mut left = [0; 4];
        left[access.index()] = 40;
        let (mut air, mut q) = cell(edca, vec![[0; 4], left], 1);
        q.keep = true;
        run(&mut air, &mut q, Time::ZERO, Span::from_secs(1));
        let gaps = q.answers.iter().zip(&q.frames[1..]).map(|(a, f)| f.0 - a.1);
        let follow = gaps.filter(|g| *g == SIFS).count();
        let exchange = q.answers[0].1 - q.frames[0].0 + SIFS;
        (follow, exchange)
    };
    assert_eq!(runs(Access::BestEffort).0, 0);
    for access in [Access::Background, Access::Video, Access::Voice] {
        let (follow, exchange) = runs(access);
        // The last exchange of a burst needs no SIFS after it.
        let burst = (edca.of(access).txop.as_nanos() + SIFS) / exchange;
        let bursts = 40_u64.div_ceil(burst);
        assert_eq!(follow as u64, 40 - bursts, "{access}: {burst} in a burst");
    }
}
