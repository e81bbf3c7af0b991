//! Values in packets: a word of 32 bits for each state.

use fairmesh_units::Span;

/// Bits of a round-trip time in milliseconds: 4.095 s at most.
const RTT_BITS: u32 = 12;
const RTT_MAX: u32 = (1 << RTT_BITS) - 1;
/// Steps of rate codes: twelve to a factor of two, from a quarter packet per second on.
const RATE_STEPS: f64 = 12.0;
const MIN_RATE: f64 = 0.25;

/// Round trips and a rate of a flow, of a link, or of all links that share a node's airtime.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct LinkState {
    /// Average round-trip time, ms; 0: not known.
    pub average: u32,
    /// Instantaneous round-trip time, ms; 0: not known.
    pub instant: u32,
    /// For a flow, the code of its rate.
    ///
    /// Otherwise 0 if not congested, else the rate of the flows on the congested link, or 1 if it
    /// is not known.
    pub rate: u32,
}

impl LinkState {
    pub fn encode(self) -> u32 {
        self.average.min(RTT_MAX) << 20 | self.instant.min(RTT_MAX) << 8 | self.rate.min(255)
    }

    /// Decodes a word; every word is valid.
    pub fn decode(bits: u32) -> Self {
        LinkState { average: bits >> 20, instant: bits >> 8 & RTT_MAX, rate: bits & 255 }
    }

    /// Returns the largest round trips of both; congested if either is, at the lower rate.
    pub fn join(self, other: LinkState) -> LinkState {
        let rate = match (self.rate, other.rate) {
            (0, r) | (r, 0) => r,
            (a, b) => a.min(b),
        };
        LinkState {
            average: self.average.max(other.average),
            instant: self.instant.max(other.instant),
            rate,
        }
    }

    /// True if the state is of a congested link.
    pub fn congested(self) -> bool {
        self.rate > 0
    }
}

/// Returns a round trip in the field's milliseconds, rounded up and limited to the field.
pub(super) fn millis(rtt: Span) -> u32 {
    u32::try_from(rtt.as_nanos().div_ceil(1_000_000)).map_or(RTT_MAX, |ms| ms.min(RTT_MAX))
}

/// Returns the code of a rate in packets per second, 1 to 255.
pub(super) fn rate_code(packets: f64) -> u32 {
    let code = 1.0 + libm::round(RATE_STEPS * libm::log2(packets.max(MIN_RATE) / MIN_RATE));
    code.clamp(1.0, 255.0) as u32
}

/// Returns the rate of a code; `None` for no rate.
pub(super) fn rate_of(code: u32) -> Option<f64> {
    (code > 0).then(|| MIN_RATE * libm::exp2(f64::from(code.min(255) - 1) / RATE_STEPS))
}

/// Encodes a rate as a header field: sixteenths of a packet per second in two bytes, never 0.
pub(super) fn rate_field(packets: f64) -> u32 {
    (16.0 * packets).clamp(1.0, 65_535.0) as u32
}

/// Decodes the rate of a field; `None` if it is unset.
pub(super) fn field_rate(field: u32) -> Option<f64> {
    (field > 0).then(|| f64::from(field.min(65_535)) / 16.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        let word = LinkState { average: 83, instant: 4095, rate: 255 };
        assert_eq!(LinkState::decode(word.encode()), word);
        let long = LinkState { average: 9000, ..LinkState::default() };
        assert_eq!(LinkState::decode(long.encode()).average, 4095);
        for bits in [0, 1, 0xffff_ffff, 0xdead_beef] {
            assert_eq!(LinkState::decode(bits).encode(), bits);
        }
    }

    #[test]
    fn the_longest_round_trips_and_the_slower_congested_link() {
        let a = LinkState { average: 10, instant: 40, rate: 0 };
        let b = LinkState { average: 20, instant: 30, rate: 90 };
        let c = LinkState { average: 5, instant: 5, rate: 80 };
        assert_eq!(a.join(b), LinkState { average: 20, instant: 40, rate: 90 });
        assert_eq!(a.join(b).join(c).rate, 80);
        assert!(!a.congested() && a.join(c).congested());
    }

    #[test]
    fn rates_in_steps_of_six_per_cent() {
        assert_eq!(rate_code(0.0), 1);
        assert_eq!(rate_code(0.5), 13);
        assert_eq!(rate_code(1e9), 255);
        assert_eq!(rate_code(f64::NAN), 1);
        assert!(rate_code(75.0) < rate_code(80.0));
        assert_eq!(rate_of(0), None);
        for rate in [0.5, 10.0, 72.0, 500.0] {
            let back = rate_of(rate_code(rate)).unwrap();
            assert!((back / rate - 1.0).abs() < 0.03, "{rate} {back}");
        }
        assert_eq!(field_rate(rate_field(62.5)), Some(62.5));
        assert_eq!((rate_field(0.0), field_rate(0)), (1, None));
    }

    #[test]
    fn milliseconds_round_up() {
        assert_eq!(millis(Span::from_micros(1)), 1);
        assert_eq!(millis(Span::from_secs(100)), 4095);
        assert_eq!(millis(Span::ZERO), 0);
    }
}
