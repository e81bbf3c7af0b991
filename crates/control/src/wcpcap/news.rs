//! What is told of a link: in three words of a packet's header, or outside the air as it is.

use fairmesh_units::{BitRate, NodeId};

use crate::Link;

/// Words of a header that news of a link take.
pub(super) const WORDS: usize = 3;
/// Bytes of the same outside the air, where nothing has to be short.
pub(super) const PLAIN: usize = 64;

/// Rates: 51 codes to a factor of two (1.4 % apart), from 1 kbit/s on.
const RATE: Log = Log { least: 1e3, steps: 51.0, bits: 10 };
/// Packets per second: 25 codes to a factor of two, from a quarter on.
const PACE: Log = Log { least: 0.25, steps: 25.0, bits: 9 };
/// Round trips in seconds: eight codes to a factor of two, from a millisecond on.
const TRIP: Log = Log { least: 1e-3, steps: 8.0, bits: 7 };
/// Nominal rates: 25 codes to a factor of two, from 100 kbit/s on.
const NOMINAL: Log = Log { least: 1e5, steps: 25.0, bits: 9 };
/// Rates in the feedback field: 128 codes to a factor of two, from 1 bit/s on.
const LIMIT: Log = Log { least: 1.0, steps: 128.0, bits: 12 };

/// A code on a logarithmic scale; 0 is none.
struct Log {
    least: f64,
    steps: f64,
    bits: u32,
}

impl Log {
    const fn most(&self) -> u32 {
        (1 << self.bits) - 1
    }
    fn encode(&self, value: f64) -> u32 {
        if value > 0.0 {
            let code = 1.0 + libm::round(self.steps * libm::log2(value / self.least));
            code.clamp(1.0, f64::from(self.most())) as u32
        } else {
            0
        }
    }
    fn decode(&self, code: u32) -> f64 {
        match code & self.most() {
            0 => 0.0,
            code => self.least * libm::exp2(f64::from(code - 1) / self.steps),
        }
    }
}

/// The code of a rate in the feedback field: never 0, which is unset.
pub(super) fn limit_code(rate: f64) -> u32 {
    LIMIT.encode(rate.max(1.0))
}

/// The rate of a feedback field, bit/s; `None`: unset.
pub(super) fn limit_of(code: u32) -> Option<f64> {
    (code > 0).then(|| LIMIT.decode(code.min(LIMIT.most())))
}

/// The code of a round trip in seconds; 0: not known.
pub(super) fn trip_code(seconds: f64) -> u32 {
    TRIP.encode(seconds)
}

/// The round trip of a code, s.
pub(super) fn trip_of(code: u32) -> f64 {
    TRIP.decode(code.min(TRIP.most()))
}

/// A link as its transmitter has measured it over its last epoch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct News {
    pub link: Link,
    /// x: data sent on it, IP bits/s, and the mean size of these packets, bytes.
    pub data: f64,
    pub size: u32,
    /// n: flows whose data it carries.
    pub flows: u32,
    /// Acknowledgements sent on it, packets/s.
    pub acks: f64,
    /// Its nominal rate, and what the channel lets through.
    pub rate: BitRate,
    pub delivery: f64,
    /// R: the largest rate for a flow on it, IP bits/s; 0 before its first epoch has passed.
    pub limit: f64,
    /// Mean round trip of its flows, s; 0: not known.
    pub trip: f64,
}

/// News that cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Absurd;

impl News {
    pub fn words(&self) -> [u32; WORDS] {
        let share = libm::round(self.delivery.clamp(0.0, 1.0) * 63.0) as u32;
        [
            self.link.from.0.min(0xffff) << 16 | self.link.to.0.min(0xffff),
            RATE.encode(self.data) << 22
                | RATE.encode(self.limit) << 12
                | self.flows.min(31) << 7
                | TRIP.encode(self.trip),
            self.size.div_ceil(8).min(255) << 24
                | PACE.encode(self.acks) << 15
                | share << 9
                | NOMINAL.encode(self.rate.0 as f64),
        ]
    }

    /// `None` where nothing is told.
    pub fn read(words: [u32; WORDS]) -> Option<Result<Self, Absurd>> {
        let [ends, b, c] = words;
        if words == [0; WORDS] {
            return None;
        }
        let news = News {
            link: Link { from: NodeId(ends >> 16), to: NodeId(ends & 0xffff) },
            data: RATE.decode(b >> 22),
            limit: RATE.decode(b >> 12),
            flows: b >> 7 & 31,
            trip: TRIP.decode(b),
            size: 8 * (c >> 24),
            acks: PACE.decode(c >> 15),
            delivery: f64::from(c >> 9 & 63) / 63.0,
            rate: BitRate(NOMINAL.decode(c) as u64),
        };
        Some(news.checked())
    }

    pub fn plain(&self) -> [u8; PLAIN] {
        let words: [u64; 8] = [
            u64::from(self.link.from.0) << 32 | u64::from(self.link.to.0),
            u64::from(self.size) << 32 | u64::from(self.flows),
            self.data.to_bits(),
            self.acks.to_bits(),
            self.rate.0,
            self.delivery.to_bits(),
            self.limit.to_bits(),
            self.trip.to_bits(),
        ];
        let mut bytes = [0; PLAIN];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    pub fn of_plain(body: &[u8]) -> Result<Self, Absurd> {
        if body.len() != PLAIN {
            return Err(Absurd);
        }
        let mut words = [0u64; 8];
        for (word, from) in words.iter_mut().zip(body.chunks_exact(8)) {
            *word = from.iter().fold(0, |w, b| w << 8 | u64::from(*b));
        }
        let [ends, counts, data, acks, rate, delivery, limit, trip] = words;
        let (high, low) = (|w: u64| (w >> 32) as u32, |w: u64| w as u32);
        let news = News {
            link: Link { from: NodeId(high(ends)), to: NodeId(low(ends)) },
            data: f64::from_bits(data),
            size: high(counts),
            flows: low(counts),
            acks: f64::from_bits(acks),
            rate: BitRate(rate),
            delivery: f64::from_bits(delivery),
            limit: f64::from_bits(limit),
            trip: f64::from_bits(trip),
        };
        news.checked()
    }

    /// No link carries more than its rate, or data of no flow, or in packets of no size; and none
    /// that is in use lets nothing through.
    fn checked(self) -> Result<Self, Absurd> {
        let rate = self.rate.0 as f64;
        let finite = |x: f64, most: f64| x >= 0.0 && x <= most;
        let sound = self.link.from != self.link.to
            && (1e5..=1e11).contains(&rate)
            && finite(self.data, rate)
            && finite(self.acks * 8.0 * 40.0, rate)
            && finite(self.limit, 1e11)
            && finite(self.trip, 100.0)
            && (self.delivery > 0.0 && self.delivery <= 1.0)
            && (self.data == 0.0) == (self.flows == 0)
            && self.flows <= 10_000
            && (self.data == 0.0 || (20..=9000).contains(&self.size));
        if sound { Ok(self) } else { Err(Absurd) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn news() -> News {
        News {
            link: Link { from: NodeId(4), to: NodeId(65535) },
            data: 265_000.0,
            size: 568,
            flows: 3,
            acks: 64.6,
            rate: BitRate(11_000_000),
            delivery: 0.9,
            limit: 250_000.0,
            trip: 0.045,
        }
    }

    #[test]
    fn news_come_back_within_their_steps() {
        let n = news();
        let r = News::read(n.words()).unwrap().unwrap();
        let near = |a: f64, b: f64, part: f64| (a / b - 1.0).abs() < part;
        assert_eq!((r.link, r.size, r.flows), (n.link, n.size, n.flows));
        assert!(near(r.data, n.data, 0.007) && near(r.limit, n.limit, 0.007), "{r:?}");
        assert!(near(r.acks, n.acks, 0.014) && near(r.trip, n.trip, 0.045), "{r:?}");
        assert!(near(r.rate.0 as f64, 11e6, 0.014) && near(r.delivery, 0.9, 0.01), "{r:?}");
        assert_eq!(News::of_plain(&n.plain()), Ok(n));
    }

    #[test]
    fn nothing_told_is_nothing_and_absurd_news_are_named() {
        assert_eq!(News::read([0; WORDS]), None);
        assert_eq!(News::of_plain(&[1, 2, 3]), Err(Absurd));
        let n = news();
        let absurd = [
            News { data: 12e6, ..n },
            News { flows: 0, ..n },
            News { data: 0.0, ..n },
            News { acks: 1e6, ..n },
            News { delivery: 0.0, ..n },
            News { size: 0, ..n },
            News { rate: BitRate(0), ..n },
            News { link: Link { from: NodeId(4), to: NodeId(4) }, ..n },
        ];
        for a in absurd {
            assert_eq!(News::read(a.words()), Some(Err(Absurd)), "{a:?}");
            assert_eq!(News::of_plain(&a.plain()), Err(Absurd), "{a:?}");
        }
        assert_eq!(News::of_plain(&News { data: f64::NAN, ..n }.plain()), Err(Absurd));
        assert_eq!(News::of_plain(&News { limit: f64::INFINITY, ..n }.plain()), Err(Absurd));
    }

    #[test]
    fn a_limit_is_never_unset() {
        assert_eq!(limit_of(limit_code(0.0)), Some(1.0));
        assert_eq!(limit_of(limit_code(f64::NAN)), Some(1.0));
        assert_eq!(limit_of(0), None);
        let back = limit_of(limit_code(265_000.0)).unwrap();
        assert!((back / 265_000.0 - 1.0).abs() < 0.003, "{back}");
        // A smaller rate never has a larger code: fields are merged by their codes.
        assert!(limit_code(100.0) < limit_code(101.0) && limit_of(u32::MAX).unwrap() > 4e9);
    }
}
