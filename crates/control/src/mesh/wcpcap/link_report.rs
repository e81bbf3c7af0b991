//! Report of a link: three words of a packet's header, or outside the air in full precision.

use fairmesh_units::{BitRate, NodeId};

use crate::Link;

/// Words of a header that the report of a link takes.
pub(super) const REPORT_WORDS: usize = 3;
/// Bytes of a report outside the air, where length does not matter.
pub(super) const PLAIN_BYTES: usize = 72;

/// Scale of rates: 51 codes to a factor of two (1.4 % apart), from 1 kbit/s on.
const RATE_SCALE: LogScale = LogScale { least: 1e3, steps: 51.0, bits: 10 };
/// Scale of packets per second: 16 codes to a factor of two, from a quarter on.
const PACKET_RATE_SCALE: LogScale = LogScale { least: 0.25, steps: 16.0, bits: 8 };
/// Scale of round trips in seconds: eight codes to a factor of two, from a millisecond on.
const ROUND_TRIP_SCALE: LogScale = LogScale { least: 1e-3, steps: 8.0, bits: 7 };
/// Scale of nominal rates: eight codes to a factor of two, from 100 kbit/s on.
///
/// This is enough to distinguish the rates of a PHY.
const NOMINAL_RATE_SCALE: LogScale = LogScale { least: 1e5, steps: 8.0, bits: 7 };
/// Steps of a share in five bits.
const SHARE_STEPS: f64 = 31.0;
/// Steps of a share in four bits.
const COARSE_SHARE_STEPS: f64 = 15.0;
/// Scale of rates in the feedback field: 128 codes to a factor of two, from 1 bit/s on.
const FEEDBACK_SCALE: LogScale = LogScale { least: 1.0, steps: 128.0, bits: 12 };

/// Scale of logarithmic codes; 0 is none.
struct LogScale {
    least: f64,
    steps: f64,
    bits: u32,
}

impl LogScale {
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

/// Returns the code of a rate in the feedback field: never 0, which is unset.
pub(super) fn limit_code(rate: f64) -> u32 {
    FEEDBACK_SCALE.encode(rate.max(1.0))
}

/// Returns the rate of a feedback field, bit/s; `None` if unset.
pub(super) fn limit_of(code: u32) -> Option<f64> {
    (code > 0).then(|| FEEDBACK_SCALE.decode(code.min(FEEDBACK_SCALE.most())))
}

/// Report of a flow by its source.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct FlowReport {
    /// Mean round trip, s; 0: not known.
    pub trip: f64,
    /// Allowed rate, IP bits/s; 0: not known.
    pub rate: f64,
}

impl FlowReport {
    pub fn word(self) -> u32 {
        FEEDBACK_SCALE.encode(self.rate) << ROUND_TRIP_SCALE.bits
            | ROUND_TRIP_SCALE.encode(self.trip)
    }

    /// Decodes a word; every word is valid.
    pub fn read(word: u32) -> Self {
        FlowReport {
            trip: ROUND_TRIP_SCALE.decode(word),
            rate: FEEDBACK_SCALE.decode(word >> ROUND_TRIP_SCALE.bits),
        }
    }
}

/// A link as its transmitter has measured it over its last epoch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LinkReport {
    pub link: Link,
    /// x: data sent on the link, IP bits/s.
    pub data: f64,
    /// Mean size of the data packets, in bytes.
    pub size: u32,
    /// n: number of flows with data on the link.
    pub flows: u32,
    /// Relative distance of its fastest flow above the mean; 0 if all are equal, 1 if alone.
    pub top: f64,
    /// Acknowledgements sent on the link, packets/s.
    pub acks: f64,
    /// Nominal rate.
    pub rate: BitRate,
    /// Fraction of attempts that the channel lets through.
    pub delivery: f64,
    /// R: the largest rate for a flow on it, IP bits/s; 0 before its first epoch has passed.
    pub limit: f64,
    /// Mean round trip of its flows, s; 0: not known.
    pub trip: f64,
}

/// A report that cannot be correct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Implausible;

impl LinkReport {
    pub fn words(&self) -> [u32; REPORT_WORDS] {
        let part = |of: f64, steps: f64| libm::round(of.clamp(0.0, 1.0) * steps) as u32;
        [
            self.link.from.0.min(0xffff) << 16 | self.link.to.0.min(0xffff),
            RATE_SCALE.encode(self.data) << 22
                | RATE_SCALE.encode(self.limit) << 12
                | self.flows.min(31) << 7
                | ROUND_TRIP_SCALE.encode(self.trip),
            self.size.div_ceil(8).min(255) << 24
                | PACKET_RATE_SCALE.encode(self.acks) << 16
                | part(self.delivery, SHARE_STEPS) << 11
                | NOMINAL_RATE_SCALE.encode(self.rate.0 as f64) << 4
                | part(self.top, COARSE_SHARE_STEPS),
        ]
    }

    /// Decodes a report; `None` if there is none.
    pub fn read(words: [u32; REPORT_WORDS]) -> Option<Result<Self, Implausible>> {
        let [ends, b, c] = words;
        if words == [0; REPORT_WORDS] {
            return None;
        }
        let report = LinkReport {
            link: Link { from: NodeId(ends >> 16), to: NodeId(ends & 0xffff) },
            data: RATE_SCALE.decode(b >> 22),
            limit: RATE_SCALE.decode(b >> 12),
            flows: b >> 7 & 31,
            trip: ROUND_TRIP_SCALE.decode(b),
            size: 8 * (c >> 24),
            acks: PACKET_RATE_SCALE.decode(c >> 16),
            delivery: f64::from(c >> 11 & 31) / SHARE_STEPS,
            rate: BitRate(NOMINAL_RATE_SCALE.decode(c >> 4) as u64),
            top: f64::from(c & 15) / COARSE_SHARE_STEPS,
        };
        Some(report.checked())
    }

    pub fn plain(&self) -> [u8; PLAIN_BYTES] {
        let words: [u64; 9] = [
            u64::from(self.link.from.0) << 32 | u64::from(self.link.to.0),
            u64::from(self.size) << 32 | u64::from(self.flows),
            self.data.to_bits(),
            self.acks.to_bits(),
            self.rate.0,
            self.delivery.to_bits(),
            self.limit.to_bits(),
            self.trip.to_bits(),
            self.top.to_bits(),
        ];
        let mut bytes = [0; PLAIN_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    pub fn of_plain(body: &[u8]) -> Result<Self, Implausible> {
        if body.len() != PLAIN_BYTES {
            return Err(Implausible);
        }
        let mut words = [0u64; PLAIN_BYTES / 8];
        for (word, from) in words.iter_mut().zip(body.chunks_exact(8)) {
            *word = from.iter().fold(0, |w, b| w << 8 | u64::from(*b));
        }
        let [ends, counts, data, acks, rate, delivery, limit, trip, top] = words;
        let (high, low) = (|w: u64| (w >> 32) as u32, |w: u64| w as u32);
        let report = LinkReport {
            link: Link { from: NodeId(high(ends)), to: NodeId(low(ends)) },
            data: f64::from_bits(data),
            size: high(counts),
            flows: low(counts),
            acks: f64::from_bits(acks),
            rate: BitRate(rate),
            delivery: f64::from_bits(delivery),
            limit: f64::from_bits(limit),
            trip: f64::from_bits(trip),
            top: f64::from_bits(top),
        };
        report.checked()
    }

    /// Returns the rate of its fastest flow, in bit/s.
    pub fn fastest(&self) -> f64 {
        match self.flows {
            0 => 0.0,
            n => self.data / f64::from(n) * (1.0 + self.top * f64::from(n - 1)),
        }
    }

    /// True if no traffic crosses the link.
    pub fn is_empty(&self) -> bool {
        self.data == 0.0 && self.acks == 0.0
    }

    /// Checks the report for impossible values.
    ///
    /// No link carries more than its rate, or data of no flow, or in packets of size 0; and the
    /// channel of a link in use lets some frames through.
    fn checked(self) -> Result<Self, Implausible> {
        let rate = self.rate.0 as f64;
        let finite = |x: f64, most: f64| x >= 0.0 && x <= most;
        let sound = self.link.from != self.link.to
            && (1e5..=1e11).contains(&rate)
            && finite(self.data, rate)
            && finite(self.acks * 8.0 * 40.0, rate)
            && finite(self.limit, 1e11)
            && finite(self.trip, 100.0)
            && finite(self.top, 1.0)
            && (self.delivery > 0.0 && self.delivery <= 1.0)
            && (self.data == 0.0) == (self.flows == 0)
            && self.flows <= 10_000
            && (self.data == 0.0 || (20..=9000).contains(&self.size));
        if sound { Ok(self) } else { Err(Implausible) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn report() -> LinkReport {
        LinkReport {
            link: Link { from: NodeId(4), to: NodeId(65535) },
            data: 265_000.0,
            size: 568,
            flows: 3,
            top: 0.4,
            acks: 64.6,
            rate: BitRate(11_000_000),
            delivery: 0.9,
            limit: 250_000.0,
            trip: 0.045,
        }
    }

    #[test]
    fn reports_come_back_within_their_steps() {
        let n = report();
        let r = LinkReport::read(n.words()).unwrap().unwrap();
        let near = |a: f64, b: f64, part: f64| (a / b - 1.0).abs() < part;
        assert_eq!((r.link, r.size, r.flows), (n.link, n.size, n.flows));
        assert!(near(r.data, n.data, 0.007) && near(r.limit, n.limit, 0.007), "{r:?}");
        assert!(near(r.acks, n.acks, 0.023) && near(r.trip, n.trip, 0.045), "{r:?}");
        assert!(near(r.rate.0 as f64, 11e6, 0.045) && near(r.delivery, 0.9, 0.02), "{r:?}");
        assert!(near(r.fastest(), n.fastest(), 0.03) && n.fastest() > 1.7 * 265e3 / 3.0);
        assert_eq!(LinkReport::of_plain(&n.plain()), Ok(n));
    }

    #[test]
    fn an_empty_report_is_absent_and_an_implausible_one_is_named() {
        assert_eq!(LinkReport::read([0; REPORT_WORDS]), None);
        assert_eq!(LinkReport::of_plain(&[1, 2, 3]), Err(Implausible));
        let n = report();
        let absurd = [
            LinkReport { data: 12e6, ..n },
            LinkReport { flows: 0, ..n },
            LinkReport { data: 0.0, ..n },
            LinkReport { acks: 1e4, rate: BitRate(1_000_000), ..n },
            LinkReport { delivery: 0.0, ..n },
            LinkReport { size: 0, ..n },
            LinkReport { rate: BitRate(0), ..n },
            LinkReport { link: Link { from: NodeId(4), to: NodeId(4) }, ..n },
        ];
        for a in absurd {
            assert_eq!(LinkReport::read(a.words()), Some(Err(Implausible)), "{a:?}");
            assert_eq!(LinkReport::of_plain(&a.plain()), Err(Implausible), "{a:?}");
        }
        assert_eq!(
            LinkReport::of_plain(&LinkReport { data: f64::NAN, ..n }.plain()),
            Err(Implausible)
        );
        assert_eq!(
            LinkReport::of_plain(&LinkReport { limit: f64::INFINITY, ..n }.plain()),
            Err(Implausible)
        );
    }

    #[test]
    fn reports_of_sources_are_decoded() {
        let written = FlowReport { trip: 0.083, rate: 265_000.0 };
        let back = FlowReport::read(written.word());
        assert!((back.trip / written.trip - 1.0).abs() < 0.05, "{back:?}");
        assert!((back.rate / written.rate - 1.0).abs() < 0.003, "{back:?}");
        assert_eq!(FlowReport::read(0), FlowReport::default());
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
