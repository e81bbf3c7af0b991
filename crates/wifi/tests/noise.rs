//! Losses by signal-to-noise ratio.
//!
//! A lone link loses MPDUs as the table gives, and interference counts as noise while it lasts.

use std::sync::Arc;

use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Band, Modern, Phy, Rate};
use fairmesh_units::{Decibel, NodeId, Power, Span, Time};
use fairmesh_wifi::loss::{Fading, FrameErrors, SnrErrors, SnrTable};
use fairmesh_wifi::{
    Access, Adaptation, Air, Batch, LinkId, MacConfig, MacCounters, NoiseSource, Outgoing,
    Reception, SendReport, SensedPair, Setup, Upper,
};

const PACKET: u32 = 1498;
/// QoS header, FCS and LLC.
const MPDU: u32 = PACKET + 38;

/// Upper layer of one station that always has a packet.
struct Saturated(Option<LinkId>);

impl Upper for Saturated {
    fn pull(&mut self, _: Time, node: NodeId, _: Access) -> Option<Outgoing> {
        (node == NodeId(0)).then_some(Outgoing { packet: 0, link: self.0, bytes: PACKET })
    }
    fn pull_more(&mut self, _: Time, _: NodeId, _: LinkId, _: Access, batch: &mut Batch<'_>) {
        while batch.fits(PACKET) {
            batch.take(Outgoing { packet: 0, link: self.0, bytes: PACKET });
        }
    }
    fn received(&mut self, _: Time, _: NodeId, _: NodeId, _: u32, _: bool) {}
    fn sent(&mut self, _: Time, _: NodeId, _: &SendReport, _: Access) {}
}

fn phy(mcs: u8, ampdu: u32) -> (Phy, Rate) {
    let generation = Generation::Ht;
    let mode = Mode::new(generation, mcs, 1, 20, 800).unwrap();
    let (band, modes) = (Band::Ghz5, vec![mode]);
    let phy =
        Phy::modern(Modern { generation, band, modes, ampdu, amsdu: 0, window: 64, ns3: false });
    let rate = phy.rate_of(mode).unwrap();
    (phy, rate)
}

fn errors(phy: &Phy, dbm: f64, fading: Fading) -> SnrErrors {
    let table = Arc::new(SnrTable::new(phy, Decibel(7.0)).unwrap());
    SnrErrors::new(table, Power::from_dbm(dbm), fading)
}

/// Noise of 20 MHz at a noise figure of 7 dB, W.
fn thermal() -> f64 {
    1.380_649e-23 * 290.0 * 20e6 * Decibel(7.0).ratio()
}

/// Returns the counters of sender and receiver after some seconds.
fn run(
    (phy, rate): (Phy, Rate),
    e: &SnrErrors,
    dbm: f64,
    noise: &[NoiseSource],
    s: u64,
) -> (MacCounters, MacCounters) {
    let mac = MacConfig {
        phy: phy.with_retry_limits(255, 255).unwrap(),
        rate,
        rts_threshold: None,
        llc_bytes: 8,
        reception: Reception::Sinr,
        rules: fairmesh_wifi::MacRules::Standard,
        capture: Decibel(10.0),
        adaptation: Adaptation::Fixed,
        txop: Span::ZERO,
        edca: None,
    };
    let pair = |from, to, dbm| SensedPair {
        from,
        to,
        power: Power::from_dbm(dbm),
        decodes: true,
        delay: Span::ZERO,
    };
    // The return path is strong, so that every response arrives.
    let mut air = Air::new(Setup {
        names: &["a".to_owned(), "b".to_owned()],
        mac: &mac,
        sensed_pairs: &[pair(0, 1, dbm), pair(1, 0, -30.0)],
        leaks: &[],
        rates: &[],
        errors: vec![(0, 1, FrameErrors::Snr(e.clone()))],
        noise,
        seed: 7,
    });
    let mut upper = Saturated(air.link(NodeId(0), NodeId(1)));
    air.kick(Time::ZERO, NodeId(0), &mut upper);
    while air.next_deadline() < Time::ZERO + Span::from_secs(s) {
        air.step(&mut upper);
    }
    (*air.counters(NodeId(0)), *air.counters(NodeId(1)))
}

fn near(found: u64, of: u64, expected: f64) {
    let n = of as f64;
    let share = found as f64 / n;
    let spread = (expected * (1.0 - expected) / n).sqrt();
    assert!(n > 2000.0, "{n} tries");
    assert!((share - expected).abs() < 4.5 * spread + 1e-4, "{share} of {n}, {expected} expected");
}

#[test]
fn a_lone_link_has_the_loss_of_the_table() {
    for (mcs, dbm) in [(0, -90.2), (3, -80.3), (7, -70.0), (7, -70.6)] {
        let (phy, rate) = phy(mcs, 0);
        let e = errors(&phy, dbm, Fading::None);
        let expected = 1.0 - e.delivery(MPDU, rate);
        assert!((0.02..0.9).contains(&expected), "MCS {mcs}: {expected}");
        let (sender, receiver) = run((phy, rate), &e, dbm, &[], 10);
        near(receiver.errored, sender.data, expected);
        assert_eq!(sender.timeouts, receiver.errored);
    }
}

#[test]
fn each_mpdu_of_an_aggregate_has_the_loss_of_the_table() {
    let (phy, rate) = phy(7, 65_535);
    let e = errors(&phy, -69.4, Fading::None);
    let expected = 1.0 - e.delivery(MPDU, rate);
    let (sender, receiver) = run((phy, rate), &e, -69.4, &[], 5);
    assert!(sender.mpdus > 10 * sender.data);
    near(receiver.mpdus_missed, sender.mpdus, expected);
    assert_eq!(receiver.collided, 0);
}

/// Fading is drawn once per frame: a frame loses nearly all of its MPDUs or nearly none.
#[test]
fn a_fade_lasts_a_frame() {
    let (phy, rate) = phy(7, 65_535);
    let e = errors(&phy, -60.0, Fading::Rayleigh);
    let expected = 1.0 - e.delivery(MPDU, rate);
    let (sender, receiver) = run((phy, rate), &e, -60.0, &[], 20);
    let whole = sender.timeouts as f64 / sender.data as f64;
    // With independent losses, twenty MPDUs would hardly ever be lost together.
    assert!(whole > 0.5 * expected && whole < expected, "{whole} {expected}");
    assert!(receiver.mpdus_missed > 0);
}

fn source(dbm: f64, period: Span, on: Span) -> NoiseSource {
    NoiseSource {
        name: "oven".into(),
        sensed_by: vec![(1, Power::from_dbm(dbm))],
        period,
        on,
        jitter: if on < period { 0.3 } else { 0.0 },
        start: Time::ZERO,
        stop: Time::NEVER,
    }
}

/// Continuous interference has the effect of an equally lower signal.
#[test]
fn interference_counts_as_noise() {
    for (signal, interferer) in [(-60.0, -83.5), (-55.0, -78.2), (-69.0, -101.0)] {
        let (phy, rate) = phy(7, 0);
        let e = errors(&phy, signal, Fading::None);
        let beside = Power::from_dbm(interferer).as_watts();
        let less = Decibel(-10.0 * ((thermal() + beside) / thermal()).log10()).ratio();
        let expected = 1.0
            - e.with_signal(Power::from_watts(Power::from_dbm(signal).as_watts() * less))
                .delivery(MPDU, rate);
        assert!((0.01..0.99).contains(&expected), "{expected}");
        let forever = source(interferer, Span::from_secs(100), Span::from_secs(100));
        let (sender, receiver) = run((phy, rate), &e, signal, &[forever], 10);
        near(sender.timeouts, sender.data, expected);
        // A loss counts as noise if noise alone would have caused it.
        let (sender, alone) = (sender.data, receiver.errored);
        let (p, _) = self::phy(7, 0);
        near(alone, sender, 1.0 - errors(&p, signal, Fading::None).delivery(MPDU, rate));
    }
}

/// A burst of energy destroys only the MPDUs that it overlaps.
#[test]
fn a_burst_takes_the_mpdus_it_meets() {
    let (phy, rate) = phy(7, 65_535);
    let e = errors(&phy, -55.0, Fading::None);
    let burst = |dbm| [source(dbm, Span::from_millis(20), Span::from_micros(200))];
    let (_, quiet) = run((phy.clone(), rate), &e, -55.0, &burst(-115.0), 5);
    assert_eq!((quiet.mpdus_missed, quiet.collided), (0, 0));
    let (sender, loud) = run((phy.clone(), rate), &e, -55.0, &burst(-50.0), 5);
    // 250 bursts of 200 µs; an MPDU lasts 190 µs, and the medium is used for nine tenths of the time.
    let per_burst = loud.mpdus_missed as f64 / 250.0;
    assert!((1.4..2.4).contains(&per_burst), "{per_burst}");
    assert!(sender.mpdus as f64 / sender.data as f64 > 20.0);
    // With the capture margin: 5 dB below the signal is too much for MCS 7 and harmless for MCS 0.
    let (_, margin) = run((phy, rate), &e, -55.0, &burst(-62.0), 5);
    assert!((1.4..2.4).contains(&(margin.mpdus_missed as f64 / 250.0)));
    let robust = self::phy(0, 65_535);
    let e = errors(&robust.0, -55.0, Fading::None);
    let (_, kept) = run(robust, &e, -55.0, &burst(-62.0), 5);
    assert_eq!((kept.mpdus_missed, kept.collided), (0, 0));
}
