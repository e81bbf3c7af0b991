//! Rate of each direction of a map's links.

use std::collections::BTreeMap;

use fairmesh_capacity::link::{LinkModel, Traffic};
use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Band, Modern, Phy, Rate};
use fairmesh_units::{Decibel, Frequency, Power};
use fairmesh_wifi::loss::{Fading, SnrErrors, SnrTable};

/// Guard interval of all radios, ns: the one that every radio supports.
const GUARD_INTERVAL_NS: u32 = 800;
/// Traffic for which the rate of a link is chosen: full-size segments.
const FULL_SEGMENTS: Traffic = Traffic::tcp(1460, 0, 1.0, true);
/// A full-size frame, in bytes.
const FULL_FRAME_BYTES: u32 = 1536;
/// A routing daemon's probe with its headers, in bytes.
const PROBE_BYTES: u32 = 100;
/// Best delivery that a window of 64 probes can distinguish: half a probe lost.
///
/// The window is batman-adv's (TQ_LOCAL_WINDOW_SIZE).
const BEST_KNOWN: f64 = 1.0 - 0.5 / 64.0;
/// Noise figure of receivers, dB, as of `radio.errors.snr`.
const NOISE_FIGURE: Decibel = Decibel(7.0);
/// Maximum number of rates in a note.
const MAX_LISTED_RATES: usize = 5;

/// Data of a map about one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::import) struct Reception {
    /// Delivery probability.
    pub delivery: f64,
    /// Mean received power, in dBm.
    pub signal: Option<f64>,
    /// Throughput expected by rate control, Mbit/s (batman V).
    pub throughput: Option<f64>,
}

impl Reception {
    /// Returns true if a parallel link is better.
    ///
    /// It has the higher delivery, then the higher throughput, then the stronger signal.
    pub fn better_than(&self, other: &Reception) -> bool {
        let of = |h: &Reception| {
            let low = f64::NEG_INFINITY;
            [h.delivery, h.throughput.unwrap_or(low), h.signal.unwrap_or(low)]
        };
        of(self).partial_cmp(&of(other)).is_some_and(std::cmp::Ordering::is_gt)
    }
}

/// One direction of a link.
pub(in crate::import) struct Directed {
    pub from: usize,
    pub to: usize,
    /// Index of the map's radio that it uses.
    pub place: usize,
    pub received: Reception,
}

/// Basis of the choice of a rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum By {
    Signal,
    Throughput,
    Delivery,
}

impl By {
    fn words(self) -> &'static str {
        match self {
            By::Signal => "signal",
            By::Throughput => "throughput",
            By::Delivery => "delivery probability",
        }
    }
}

/// Parameters of all links of 802.11n and later radios.
pub(super) struct ModernRates {
    phy: Phy,
    modes: Vec<Known>,
    /// Signal at which half of the probes survive at the lowest rate, mW.
    probe: f64,
    /// Per node: streams and highest MCS.
    nodes: Vec<(u8, u8)>,
    /// True if every link has a signal strength.
    pub signals: bool,
    chosen: BTreeMap<Key, Choice>,
}

type Key = (u64, By, u8, u8);

/// A mode with its required signal and its goodput.
struct Known {
    mode: Mode,
    rate: Rate,
    errors: SnrErrors,
    /// Signal at which half of full-size frames survive, mW.
    needs: f64,
    /// Goodput of a lone link without losses, in bit/s.
    carries: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Choice {
    pub mcs: u8,
    pub streams: u8,
}

impl ModernRates {
    /// Describes the assumptions about these links, all of this radio.
    pub fn describe(&self, links: &[&Directed]) -> String {
        let (mut by, mut modes) = (BTreeMap::<By, usize>::new(), BTreeMap::new());
        for l in links {
            let key = self.key(l.from, l.to, l.received);
            *by.entry(key.1).or_default() += 1;
            if let Some(c) = self.chosen.get(&key) {
                *modes.entry((c.streams, c.mcs)).or_insert(0usize) += 1;
            }
        }
        let by: Vec<String> = by.iter().map(|(by, n)| format!("{n} by {}", by.words())).collect();
        let mut modes: Vec<_> = modes.into_iter().collect();
        modes.sort_by_key(|&(mode, n)| (std::cmp::Reverse(n), mode));
        let rest: usize = modes.iter().skip(MAX_LISTED_RATES).map(|m| m.1).sum();
        let mut named: Vec<String> =
            modes.iter().take(MAX_LISTED_RATES).map(|m| self.named(*m)).collect();
        if rest > 0 {
            named.push(format!("others {rest}"));
        }
        let lost = match self.signals {
            true => "what is lost follows from signal and noise",
            false => "frames are lost as often as the map's own probes, at every rate",
        };
        format!(
            "rates of {} directed links: {}; {}; {lost}",
            links.len(),
            by.join(", "),
            named.join(", ")
        )
    }

    /// Returns `None` if no mode of this kind exists, which the draft's own check reports.
    pub fn new(
        g: Generation,
        band: Band,
        width: Frequency,
        streams: u8,
        nodes: Vec<(u8, u8)>,
        signals: bool,
    ) -> Option<Self> {
        let mhz = u32::try_from(width.0 / 1_000_000).ok()?;
        let all = (1..=streams).flat_map(|s| (0..=g.highest_mcs()).map(move |mcs| (mcs, s)));
        let modes: Vec<Mode> =
            all.filter_map(|(mcs, s)| Mode::new(g, mcs, s, mhz, GUARD_INTERVAL_NS).ok()).collect();
        let phy = Phy::modern(Modern {
            generation: g,
            band,
            modes: modes.clone(),
            ampdu: g.longest_ampdu(),
            amsdu: 0,
            window: 64,
            ns3: false,
        });
        let table = SnrTable::new(&phy, NOISE_FIGURE).ok()?;
        let errors = SnrErrors::new(table.into(), Power::ZERO, Fading::None);
        let known = |&mode: &Mode| {
            let rate = phy.rate_of(mode)?;
            let needs = half(&errors, FULL_FRAME_BYTES, rate);
            let carries = LinkModel::perfect(&phy, rate).capacity(&FULL_SEGMENTS);
            Some(Known { mode, rate, errors: errors.clone(), needs, carries })
        };
        let modes: Vec<Known> = modes.iter().filter_map(known).collect();
        let probe = half(&errors, PROBE_BYTES, phy.lowest_basic());
        (!modes.is_empty()).then_some(ModernRates {
            phy,
            modes,
            probe,
            nodes,
            signals,
            chosen: BTreeMap::new(),
        })
    }

    /// Returns the key of a rate choice; links with equal keys have equal rates.
    fn key(&self, from: usize, to: usize, received: Reception) -> Key {
        let (a, b) = (self.nodes[from], self.nodes[to]);
        let (value, by) = match (received.signal, received.throughput) {
            (Some(dbm), _) => (dbm, By::Signal),
            (None, Some(mbit)) => (mbit, By::Throughput),
            (None, None) => (received.delivery, By::Delivery),
        };
        (value.to_bits(), by, a.0.min(b.0), a.1.min(b.1))
    }

    pub fn choose(&mut self, from: usize, to: usize, received: Reception) -> Choice {
        let key = self.key(from, to, received);
        if let Some(&choice) = self.chosen.get(&key) {
            return choice;
        }
        let (bits, by, streams, highest) = key;
        let value = f64::from_bits(bits);
        let score = |m: &&Known| match by {
            By::Signal => self.at_signal(m, value),
            // The nearest value, by ratio.
            By::Throughput => -libm::fabs(libm::log(m.carries / (1e6 * value))),
            By::Delivery => self.at_delivery(m, value),
        };
        let allowed =
            self.modes.iter().filter(|m| m.mode.streams() <= streams && m.mode.mcs() <= highest);
        // Of equal modes the slower, with fewer streams.
        let order = |m: &&Known| (m.mode.streams(), m.mode.mcs());
        let best = allowed
            .max_by(|a, b| score(a).total_cmp(&score(b)).then_with(|| order(b).cmp(&order(a))));
        let choice = best.map_or(Choice { mcs: 0, streams: 1 }, |m| Choice {
            mcs: m.mode.mcs(),
            streams: m.mode.streams(),
        });
        self.chosen.insert(key, choice);
        choice
    }

    /// Returns the goodput at a signal, bit/s, by the simulator's own error table.
    fn at_signal(&self, m: &Known, dbm: f64) -> f64 {
        let delivery =
            m.errors.with_signal(Power::from_dbm(dbm)).delivery(FULL_FRAME_BYTES, m.rate);
        LinkModel { delivery, ..LinkModel::perfect(&self.phy, m.rate) }.capacity(&FULL_SEGMENTS)
    }

    /// Returns the goodput of a link with this delivery of probes.
    ///
    /// With Rayleigh fading exp(−needed / mean) of all frames reach the power that they need, so
    /// the mean power that follows from probes at the lowest rate also determines the delivery at
    /// every other rate.
    fn at_delivery(&self, m: &Known, delivery: f64) -> f64 {
        m.carries * libm::pow(delivery.min(BEST_KNOWN), (m.needs / self.probe).max(1.0))
    }

    fn named(&self, ((streams, mcs), links): ((u8, u8), usize)) -> String {
        let mode = self.modes.iter().find(|m| (m.mode.streams(), m.mode.mcs()) == (streams, mcs));
        let rate = mode.map_or_else(String::new, |m| {
            format!(" ({:.0} Mbit/s)", self.phy.bit_rate(m.rate).0 as f64 / 1e6)
        });
        let plural = if streams == 1 { "" } else { "s" };
        format!("MCS {mcs} with {streams} stream{plural}{rate} at {links}")
    }
}

/// Returns the signal at which half of the frames survive, mW.
fn half(errors: &SnrErrors, bytes: u32, rate: Rate) -> f64 {
    let (mut low, mut high) = (-110.0, -20.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        let delivery = errors.with_signal(Power::from_dbm(middle)).delivery(bytes, rate);
        if delivery < 0.5 { low = middle } else { high = middle }
    }
    Decibel(high).ratio()
}
