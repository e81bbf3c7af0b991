use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Band, Modern};
use fairmesh_units::{Decibel, Power, Stream, Time};
use proptest::prelude::*;

use super::*;
use crate::loss::FrameErrors;

const FIGURE: Decibel = Decibel(7.0);

fn phy(g: Generation) -> Phy {
    let modes = (0..=g.highest_mcs()).map(|m| Mode::new(g, m, 1, 20, 800).unwrap());
    let modes: Vec<Mode> = modes.filter(|m| g != Generation::Vht || m.mcs() < 9).collect();
    let band = Band::Ghz5;
    Phy::modern(Modern {
        generation: g,
        band,
        modes,
        ampdu: 65535,
        amsdu: 0,
        window: 64,
        ns3: false,
    })
}

fn table(phy: &Phy) -> Arc<SnrTable> {
    Arc::new(SnrTable::new(phy, FIGURE).unwrap())
}

/// Returns the power that is this many dB above the noise of 20 MHz.
fn above_noise(db: f64) -> Power {
    Power::from_watts(THERMAL_NOISE_DENSITY * 20e6 * FIGURE.ratio() * Decibel(db).ratio())
}

#[test]
fn noise_of_20_mhz_behind_7_db_is_minus_94_dbm() {
    assert!((above_noise(0.0).as_dbm() + 93.97).abs() < 0.01);
}

/// Compares interpolated table entries with the closed form.
#[test]
fn the_table_keeps_the_closed_form_to_a_thousandth() {
    let phy = phy(Generation::He);
    let table = table(&phy);
    for rate in phy.rates() {
        let info = phy.info(rate);
        let scheme = match (info.modulation, info.waveform) {
            (Modulation::Mcs(mode), _) => mode.scheme(),
            (_, Waveform::Ofdm { bits_per_symbol, .. }) => ofdm(bits_per_symbol),
            _ => unreachable!(),
        };
        for k in 0..3000 {
            let db = -5.0 + 0.013 * f64::from(k);
            let noise = table.rows[rate.index()].noise;
            let table = table.bit(rate, noise * Decibel(db).ratio(), 0.0);
            let formula = libm::log1p(-bit_error(scheme, Decibel(db).ratio()));
            let packets = |ln: f64| 1.0 - libm::exp(8.0 * 1500.0 * ln);
            let (table, formula) = (packets(table), packets(formula));
            assert!(
                (table - formula).abs() < 1e-3 * formula + 1e-9,
                "{rate:?} {db} {table} {formula}"
            );
        }
    }
}

/// Compares the table with points from the output of ns-3.37, which has the same closed form.
#[test]
fn the_table_matches_ns_3() {
    let phy = phy(Generation::He);
    let table = table(&phy);
    let mut points = 0;
    for line in include_str!("ns3.txt").lines().filter(|l| !l.starts_with('#')) {
        let [kind, name, db, expected] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (name, db, expected): (u64, f64, f64) =
            (name.parse().unwrap(), db.parse().unwrap(), expected.parse().unwrap());
        let is = |&rate: &Rate| match phy.info(rate).modulation {
            Modulation::Mcs(mode) => kind == "mcs" && u64::from(mode.mcs()) == name,
            _ => kind == "ofdm" && phy.bit_rate(rate).0 == name * 1_000_000,
        };
        let rate = phy.rates().find(is).unwrap();
        let signal = table.rows[rate.index()].noise * Decibel(db).ratio();
        let ours = libm::exp(12_000.0 * table.bit(rate, signal, 0.0));
        assert!(
            (ours - expected).abs() < 1e-9 + 1e-3 * expected.min(1.0 - expected),
            "{line}: {ours}"
        );
        points += 1;
    }
    assert_eq!(points, 85);
}

#[test]
fn dsss_has_no_table() {
    let b = Phy::dot11b(fairmesh_phy::Preamble::Long);
    assert_eq!(SnrTable::new(&b, FIGURE).unwrap_err(), LossError::NoTable);
}

#[test]
fn twice_the_width_needs_twice_the_power() {
    let modes = [20, 40].map(|w| Mode::new(Generation::Vht, 3, 1, w, 800).unwrap()).to_vec();
    let band = Band::Ghz5;
    let generation = Generation::Vht;
    let phy =
        Phy::modern(Modern { generation, band, modes, ampdu: 0, amsdu: 0, window: 1, ns3: false });
    let [narrow, wide] =
        [20, 40].map(|w| phy.rate_of(Mode::new(generation, 3, 1, w, 800).unwrap()).unwrap());
    let table = table(&phy);
    let at = |db| SnrErrors::new(table.clone(), above_noise(db), Fading::None);
    let (a, b) = (at(13.0).delivery(1000, narrow), at(13.0 + 3.0103).delivery(1000, wide));
    assert!(a > 0.01 && a < 0.99);
    // The 20 MHz of the SIGNAL fields is not narrower than the payload of `narrow`.
    assert!((a - b).abs() < 1e-3, "{a} {b}");
}

#[test]
fn drawn_losses_have_the_given_probability_with_and_without_fading() {
    let phy = phy(Generation::Ht);
    let table = table(&phy);
    let mut rng = Stream::new(3, "snr");
    let air = fairmesh_units::Span::from_micros(300);
    for fading in [Fading::None, Fading::Rayleigh] {
        for db in [8.0, 9.0, 15.0] {
            let rate = phy.highest();
            let rate = phy
                .rates()
                .find(|&r| matches!(phy.info(r).modulation, Modulation::Mcs(m) if m.mcs() == 3))
                .unwrap_or(rate);
            let mut e = FrameErrors::Snr(SnrErrors::new(table.clone(), above_noise(db), fading));
            let expected = e.delivery(700, rate);
            let n = 20_000;
            let good = (0..n).filter(|_| !e.lost(Time::ZERO, air, 700, rate, &mut rng)).count();
            let (share, n) = (good as f64 / f64::from(n), f64::from(n));
            let spread = (expected * (1.0 - expected) / n).sqrt();
            assert!(
                (share - expected).abs() < 4.0 * spread + 2e-3,
                "{fading:?} {db}: {share} {expected}"
            );
        }
    }
}

proptest! {
    /// Delivery does not fall with power, nor rise with length.
    ///
    /// Nor does it rise with a faster modulation of the same code.
    #[test]
    fn delivery_is_monotone(db in -5.0f64..45.0, more in 0.0f64..10.0, bytes in 1u32..4000, longer in 0u32..4000, k in 0usize..12, fades: bool) {
        let phy = phy(Generation::He);
        let table = table(&phy);
        let fading = if fades { Fading::Rayleigh } else { Fading::None };
        let at = |db| SnrErrors::new(table.clone(), above_noise(db), fading);
        let rates: Vec<Rate> = phy.rates().filter(|&r| matches!(phy.info(r).modulation, Modulation::Mcs(_))).collect();
        let rate = rates[k % rates.len()];
        let d = at(db).delivery(bytes, rate);
        prop_assert!((0.0..=1.0).contains(&d));
        prop_assert!(at(db + more).delivery(bytes, rate) >= d - 1e-12);
        prop_assert!(at(db).delivery(bytes + longer, rate) <= d + 1e-12);
        if k + 1 < rates.len() {
            prop_assert!(at(db).delivery(bytes, rates[k + 1]) <= d + 1e-12);
        }
    }

    /// One draw decides: survival under all interference is at most that under noise alone.
    #[test]
    fn causes_add_up(noise in -8.0f64..0.0, more in -8.0f64..0.0, seed: u64) {
        let mut rng = Stream::new(seed, "fate");
        let s = Survival { noise, all: noise + more };
        let alone = Survival { noise, all: noise };
        for _ in 0..50 {
            let mut same = rng.clone();
            let (with, without) = (s.outcome(&mut rng), alone.outcome(&mut same));
            prop_assert_eq!(with == PartOutcome::Errored, without == PartOutcome::Errored);
        }
    }
}
