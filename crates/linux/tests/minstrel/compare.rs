//! Our Minstrel-HT under the losses of the kernel's run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Band, Modern, Modulation, Phy, Rate};
use fairmesh_units::{Decibel, Power, Span, Stream, Time};
use fairmesh_wifi::adapt::{Attempt, MinstrelHt};
use fairmesh_wifi::loss::{Fading, SnrErrors, SnrTable};

use crate::medium::{Frame, Keeps};
use crate::radios::Kind;
use crate::sent::{Mcs, Tries};

/// Jiffies of Debian's kernels.
const TICK: Duration = Duration::from_millis(4);
/// More than HZ/20 of them, between two updates of the statistics.
const INTERVAL: Span = Span::from_millis(52);
/// Datagrams of 1200 bytes as MPDUs, and the overhead of an attempt, µs.
const MPDU: u32 = 1200 + 28 + 8 + 30;
const OVERHEAD: f64 = 108.0;

/// Returns our PHY with the kernel's rates.
fn phy(kind: Kind) -> Phy {
    let (generation, streams) = match kind {
        Kind::N => (Generation::Ht, 2),
        Kind::Ac => (Generation::Vht, 4),
    };
    let mut modes = Vec::new();
    for s in 1..=streams {
        let of = |mcs| Mode::new(generation, mcs, s, 20, 800).ok().filter(|m| m.streams() == s);
        modes.extend((0..=generation.highest_mcs()).filter_map(of));
    }
    let (band, window) = (Band::Ghz5, 64);
    Phy::modern(Modern { generation, band, modes, ampdu: 0, amsdu: 0, window, ns3: false })
}

fn rates(phy: &Phy) -> BTreeMap<Mcs, Rate> {
    let of = |rate| match phy.info(rate).modulation {
        Modulation::Mcs(m) => {
            Some((Mcs { streams: m.streams(), mcs: m.mcs(), short_guard: false }, rate))
        }
        _ => None,
    };
    phy.rates().filter_map(of).collect()
}

/// Returns the fraction of the test's MPDUs that arrives at a signal-to-noise ratio.
///
/// The simulator's error table gives it.
pub fn delivery_by_noise(kind: Kind, snr_db: f64) -> BTreeMap<Mcs, f64> {
    let phy = phy(kind);
    let table = SnrTable::new(&phy, Decibel(0.0)).unwrap();
    // Thermal noise in 20 MHz at 290 K: −101 dBm.
    let signal = Power::from_dbm(snr_db - 174.0 + 10.0 * 20e6_f64.log10());
    let errors = SnrErrors::new(table.into(), signal, Fading::None);
    rates(&phy).into_iter().map(|(mcs, rate)| (mcs, errors.delivery(MPDU, rate))).collect()
}

/// Rounds to ticks: the kernel only uses the clock's ticks.
fn ticked(at: Duration) -> Time {
    let ticks = at.as_nanos() / TICK.as_nanos();
    Time::from_nanos((ticks * TICK.as_nanos()) as u64)
}

/// Sends a frame of ours at the time of each of the kernel's, with at most as many attempts.
pub fn run(frames: &[Frame], kind: Kind, keeps: &Keeps, seed: u64) -> Vec<Frame> {
    let phy = phy(kind);
    let names: BTreeMap<Rate, Mcs> = rates(&phy).into_iter().map(|(m, r)| (r, m)).collect();
    let mut m = MinstrelHt::with_interval(&phy, INTERVAL);
    let (mut rng, mut air) = (Stream::new(seed, "minstrel"), Stream::new(seed, "air"));
    let one = |f: &Frame| {
        let now = ticked(f.at);
        let most: u32 = f.series.iter().map(|t| u32::from(t.count)).sum();
        let (mut tried, mut acked) = (Vec::<Tries>::new(), false);
        let mut series = [Tries::NONE; 4];
        for attempt in 0..most {
            let rate = m.rate_for(now, &mut rng);
            let mcs = names[&rate];
            if attempt == 0 {
                let count = if rate == m.fastest() { m.tries()[0] as u8 } else { 1 };
                series[0] = Tries { rate: Some(mcs), index: 0, count };
            }
            acked = air.chance(keeps(f.phase, mcs));
            match tried.last_mut() {
                Some(t) if t.rate == Some(mcs) => t.count += 1,
                _ => tried.push(Tries { rate: Some(mcs), index: 0, count: 1 }),
            }
            let last = acked || attempt + 1 == most;
            let acks = u32::from(acked);
            m.on_result(&Attempt { rate, bytes: MPDU, mpdus: 1, acked: acks, ok: acked, last });
            if acked {
                break;
            }
        }
        tried.resize(4, Tries::NONE);
        Frame { series, tried: [tried[0], tried[1], tried[2], tried[3]], acked, ..*f }
    };
    frames.iter().map(one).collect()
}

/// The frames of a phase.
pub struct Frames {
    all: Vec<Frame>,
}

impl Frames {
    pub fn of(frames: &[Frame], phase: u32) -> Frames {
        Frames { all: frames.iter().filter(|f| f.phase == phase).cloned().collect() }
    }

    /// Returns the frames after learning.
    fn settled(&self) -> &[Frame] {
        &self.all[self.all.len() / 2..]
    }

    fn first(f: &Frame) -> Option<Mcs> {
        f.series[0].rate
    }

    /// Samples are tried once.
    fn is_sample(f: &Frame) -> bool {
        f.series[0].count == 1
    }

    fn part(&self, of: impl Fn(&Frame) -> bool) -> f64 {
        self.settled().iter().filter(|f| of(f)).count() as f64 / self.settled().len() as f64
    }

    pub fn share(&self, rate: Mcs) -> f64 {
        self.part(|f| Frames::first(f) == Some(rate))
    }

    pub fn samples(&self) -> f64 {
        self.part(Frames::is_sample)
    }

    fn shares(&self) -> Vec<(Mcs, f64)> {
        let mut all: Vec<Mcs> = self.settled().iter().filter_map(Frames::first).collect();
        all.sort();
        all.dedup();
        let mut all: Vec<(Mcs, f64)> = all.into_iter().map(|r| (r, self.share(r))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    /// Returns the rate that most frames begin with.
    pub fn best(&self) -> Mcs {
        self.shares()[0].0
    }

    /// Returns the intervals from the phase's start to the first frame with a rate.
    ///
    /// Samples do not count; without such a frame, the result is the whole phase.
    pub fn found_after(&self, best: Mcs) -> f64 {
        let begins = |f: &&Frame| Frames::first(f) == Some(best) && !Frames::is_sample(f);
        let found = self.all.iter().find(begins).or(self.all.last());
        let after = found.unwrap().at - self.all[0].at;
        after.as_secs_f64() / INTERVAL.as_secs_f64()
    }

    /// Returns the packets that arrived per second of their attempts.
    pub fn goodput(&self, kind: Kind) -> f64 {
        let phy = phy(kind);
        let rates = rates(&phy);
        let cost = |t: &Tries| match t.rate {
            Some(r) => {
                let bits = phy.bit_rate(rates[&r]).0 as f64;
                f64::from(t.count) * (OVERHEAD + f64::from(8 * MPDU) / bits * 1e6)
            }
            None => 0.0,
        };
        let time: f64 = self.settled().iter().flat_map(|f| &f.tried).map(cost).sum();
        self.settled().iter().filter(|f| f.acked).count() as f64 / time * 1e6
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rate, share) in self.shares().iter().take(6) {
            write!(f, "{}x{} {share:.3}  ", rate.streams, rate.mcs)?;
        }
        let attempts = self.settled().iter().flat_map(|f| &f.tried).map(|t| u32::from(t.count));
        let each = f64::from(attempts.sum::<u32>()) / self.settled().len() as f64;
        write!(f, "| samples {:.3}, {each:.2} attempts", self.samples())
    }
}

/// A value over several runs.
pub struct Spread {
    pub mean: f64,
    pub deviation: f64,
    least: f64,
    most: f64,
}

impl Spread {
    pub fn of(values: impl Iterator<Item = f64>) -> Spread {
        let all: Vec<f64> = values.collect();
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let deviation = (all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let (least, most) = (f64::INFINITY, f64::NEG_INFINITY);
        let least = all.iter().fold(least, |a, &b| a.min(b));
        Spread { mean, deviation, least, most: all.iter().fold(most, |a, &b| a.max(b)) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { mean, deviation, least, most } = self;
        write!(f, "{mean:.4} ± {deviation:.4}, {least:.4} to {most:.4}")
    }
}

/// Result of our rules with the kernel's attempts, for frames that begin without a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReplayResult {
    /// Frames that would have begun with the same rate.
    pub first: usize,
    /// Frames that would have had the same four rates, and as many attempts at each.
    pub series: usize,
    pub tries: usize,
    pub frames: usize,
    /// Throughput that our table expects of the fastest rate at the end, kbit/s.
    ///
    /// It is computed as in the kernel.
    pub expects_kbit: u64,
}

/// Replays the kernel's attempts; statistics are due by the tick in which a frame ends.
///
/// The start of ticks is unknown, so the best of eight guesses counts.
pub fn replay(frames: &[Frame], kind: Kind) -> ReplayResult {
    let guesses = (0..8).map(|eighth| replay_from(frames, kind, TICK * eighth / 8));
    guesses.max_by_key(|same| same.series).unwrap()
}

fn replay_from(frames: &[Frame], kind: Kind, tick_begins: Duration) -> ReplayResult {
    let phy = phy(kind);
    let rates = rates(&phy);
    let mut m = MinstrelHt::with_interval(&phy, INTERVAL);
    let mut rng = Stream::new(1, "minstrel");
    let mut same = ReplayResult { first: 0, series: 0, tries: 0, frames: 0, expects_kbit: 0 };
    m.rate_for(Time::ZERO, &mut rng);
    for f in frames {
        if !Frames::is_sample(f) {
            let offered = f.series.map(|t| t.rate.map(|r| rates[&r]));
            let counts = f.series.map(|t| u32::from(t.count));
            let [second, third, surest] = m.fallbacks();
            let wanted = [m.fastest(), second, third, surest].map(Some);
            same.first += usize::from(offered[0] == wanted[0]);
            same.series += usize::from(offered == wanted);
            same.tries += usize::from(offered == wanted && counts == m.tries());
            same.frames += 1;
        }
        let tried: Vec<&Tries> = f.tried.iter().filter(|t| t.count > 0).collect();
        for (place, t) in tried.iter().enumerate() {
            for k in 0..t.count {
                let last = place + 1 == tried.len() && k + 1 == t.count;
                let ok = last && f.acked;
                let rate = rates[&t.rate.unwrap()];
                let acked = u32::from(ok);
                m.on_result(&Attempt { rate, bytes: MPDU, mpdus: 1, acked, ok, last });
            }
        }
        m.rate_for(ticked(f.at + tick_begins), &mut rng);
    }
    // minstrel_ht_get_expected_throughput.
    same.expects_kbit = u64::from(m.expected_packets()) * 10 * 1200 * 8 / 1024;
    same
}

/// Returns a frame as a line of a fixture.
///
/// Its fields: time in µs, offered rates and counts, number of attempts, and success.
pub fn line(f: &Frame) -> String {
    let rate = |r: Mcs| format!("{}.{}", r.streams, r.mcs);
    let rates = f.series.map(|t| t.rate.map_or("-".to_owned(), rate));
    let counts = f.series.map(|t| t.count.to_string());
    let attempts: u32 = f.tried.iter().map(|t| u32::from(t.count)).sum();
    let (at, acked) = (f.at.as_micros(), u8::from(f.acked));
    format!("{at} {} {} {attempts} {acked}\n", rates.join(" "), counts.join(" "))
}

/// Reads such a line.
pub fn read(line: &str) -> Frame {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let series: [Tries; 4] = std::array::from_fn(|place| Tries {
        rate: words[1 + place].split_once('.').map(|(streams, mcs)| Mcs {
            streams: streams.parse().unwrap(),
            mcs: mcs.parse().unwrap(),
            short_guard: false,
        }),
        index: 0,
        count: number(5 + place) as u8,
    });
    let mut left = number(9) as u8;
    let tried = series.map(|t| {
        let count = t.count.min(left);
        left -= count;
        Tries { count, ..t }
    });
    let at = Duration::from_micros(number(0));
    Frame { at, phase: 0, series, tried, acked: number(10) == 1 }
}
