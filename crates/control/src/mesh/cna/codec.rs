//! Quantities in unused bits of the IPv4 header (Jang 2010 §4).
//!
//! The section is "Encoding quantities in the IP header".
//!
//! Type of service (8 bits), identification (16) and fragment offset (13) give 37 bits: two
//! identify the values that follow, 35 hold seven values of five bits. The reserved flag marks
//! their presence. A fragment needs identification and offset for itself; it carries one value, in
//! its type of service. Header slot 0 is the second word of the IPv4 header, slot 1 the type of
//! service.

use crate::Header;

/// Reserved flag in the second word of an IPv4 header.
const RESERVED_FLAG: u32 = 0x8000;
/// Flag "more fragments" in that word.
const MORE_FRAGMENTS: u32 = 0x2000;
/// Fragment offset in that word.
const FRAGMENT_OFFSET: u32 = 0x1fff;
/// Number of bits of one value.
const VALUE_BITS: u32 = 5;
/// Largest code of a value.
const MAX_CODE: u32 = 31;

/// Identifiers of the values that a header carries.
const ONE_HOP: u64 = 0;
const TWO_HOP: u64 = 1;
const FRAGMENT: u64 = 3;

/// Values of a node and of the link that the packet crosses.
///
/// They are for both directions of the link together unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct OneHop {
    /// W: flows on the link.
    pub weight: f64,
    /// M: largest neighbourhood weight of the node's links.
    pub largest: f64,
    /// U of the packet's direction.
    pub used: f64,
    /// RA of the link.
    pub reusable: f64,
    /// A′ of the link.
    pub airtime: f64,
    /// ACA at the node.
    pub available: f64,
    /// S: smallest scaling factor of the node's links.
    pub scaling: f64,
}

/// Values that a node has gathered within two hops.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct TwoHop {
    /// W′.
    pub weight: f64,
    /// M′.
    pub largest: f64,
    /// RA′.
    pub reusable: f64,
    /// V.
    pub airtime: f64,
    /// S′.
    pub scaling: f64,
}

/// Contents of a header.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Values {
    OneHop(OneHop),
    TwoHop(TwoHop),
    /// Weight of its link, from a fragment.
    Weight(f64),
}

/// Values that no node sends under the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// Counts: exact to 20, then in growing steps, rounded up.
const LARGE_COUNTS: [f64; 11] =
    [24.0, 28.0, 32.0, 40.0, 48.0, 64.0, 80.0, 96.0, 128.0, 192.0, 256.0];

fn count(n: f64) -> u32 {
    if n <= 20.0 {
        return libm::ceil(n.max(0.0)) as u32;
    }
    let step = LARGE_COUNTS.iter().position(|l| n <= *l).unwrap_or(LARGE_COUNTS.len() - 1);
    21 + step as u32
}

fn uncount(code: u32) -> f64 {
    if code <= 20 { f64::from(code) } else { LARGE_COUNTS[(code - 21) as usize] }
}

/// Encodes a value quadratically: fine steps for small values.
///
/// `dither`, uniform in 0..1, selects one of the two codes around a value so that their mean is the
/// value: with five bits, rounding would add up over a neighbourhood.
fn quadratic(v: f64, full: f64, dither: f64) -> u32 {
    let v = v.clamp(0.0, full);
    let below = libm::floor(libm::sqrt(v / full) * f64::from(MAX_CODE) + 1e-9) as u32;
    if below >= MAX_CODE {
        return MAX_CODE;
    }
    let (low, high) = (unquadratic(below, full), unquadratic(below + 1, full));
    below + u32::from(dither < (v - low) / (high - low) - 1e-6)
}

fn unquadratic(code: u32, full: f64) -> f64 {
    let x = f64::from(code) / f64::from(MAX_CODE);
    x * x * full
}

fn linear(v: f64, up: bool) -> u32 {
    let x = v.clamp(0.0, 1.0) * f64::from(MAX_CODE);
    // The value of a code gives that code again.
    if up { libm::ceil(x - 1e-9) as u32 } else { libm::floor(x + 1e-9) as u32 }
}

fn unlinear(code: u32) -> f64 {
    f64::from(code) / f64::from(MAX_CODE)
}

/// Full scales of the quantities that are quantised quadratically.
const RA: f64 = 0.1;
const RA2: f64 = 0.4;
const A: f64 = 1.0;
const V: f64 = 2.0;

fn pack(kind: u64, values: [u32; 7]) -> u64 {
    values.iter().fold(kind, |bits, v| bits << VALUE_BITS | u64::from(*v))
}

impl OneHop {
    fn bits(&self, dither: f64) -> u64 {
        pack(
            ONE_HOP,
            [
                count(self.weight),
                count(self.largest),
                // Rounded so that no airtime is given away that does not exist.
                linear(self.used, true),
                quadratic(self.reusable, RA, dither),
                quadratic(self.airtime, A, dither),
                linear(self.available, false),
                linear(self.scaling, false).max(1),
            ],
        )
    }
}

impl TwoHop {
    fn bits(&self, dither: f64) -> u64 {
        pack(
            TWO_HOP,
            [
                count(self.weight),
                count(self.largest),
                quadratic(self.reusable, RA2, dither),
                quadratic(self.airtime, V, dither),
                linear(self.scaling, false).max(1),
                0,
                0,
            ],
        )
    }
}

fn unpack(bits: u64) -> Result<Values, Malformed> {
    let value = |i: u32| (bits >> (VALUE_BITS * (6 - i))) as u32 & MAX_CODE;
    let values = match bits >> 35 {
        ONE_HOP => Values::OneHop(OneHop {
            weight: uncount(value(0)),
            largest: uncount(value(1)),
            used: unlinear(value(2)),
            reusable: unquadratic(value(3), RA),
            airtime: unquadratic(value(4), A),
            available: unlinear(value(5)),
            scaling: unlinear(value(6)),
        }),
        TWO_HOP => Values::TwoHop(TwoHop {
            weight: uncount(value(0)),
            largest: uncount(value(1)),
            reusable: unquadratic(value(2), RA2),
            airtime: unquadratic(value(3), V),
            scaling: unlinear(value(4)),
        }),
        _ => return Err(Malformed),
    };
    match values {
        // A packet crosses a link that has at least its own flow, and no neighbourhood weighs less
        // than a link in it.
        Values::OneHop(o) if o.weight < 1.0 || o.largest < o.weight => Err(Malformed),
        Values::OneHop(o) if o.scaling == 0.0 => Err(Malformed),
        Values::TwoHop(t) if t.largest < t.weight || t.scaling == 0.0 => Err(Malformed),
        Values::TwoHop(_) if bits & 0x3ff != 0 => Err(Malformed),
        values => Ok(values),
    }
}

/// The two header words of 37 bits.
fn words(bits: u64) -> [u32; 2] {
    let (tos, id, offset) = (bits & 0xff, bits >> 8 & 0xffff, bits >> 24 & 0x1fff);
    [(id as u32) << 16 | RESERVED_FLAG | offset as u32, tos as u32]
}

/// Returns header slots 0 and 1 for a packet that is not a fragment.
///
/// `dither` is uniform in 0..1.
pub(super) fn one_hop(values: &OneHop, dither: f64) -> [u32; 2] {
    words(values.bits(dither))
}

/// Returns the header slots with the two-hop values.
pub(super) fn two_hop(values: &TwoHop, dither: f64) -> [u32; 2] {
    words(values.bits(dither))
}

/// Returns the type of service of a fragment: the weight of the link.
pub(super) fn fragment(weight: f64) -> u32 {
    (FRAGMENT as u32) << 6 | count(weight)
}

/// Reads a header; `None` if it carries nothing.
///
/// `participates` is true if the sender is known to use the protocol, so that the type of service of its
/// fragments counts.
pub(super) fn read(header: &Header, participates: bool) -> Result<Option<Values>, Malformed> {
    let [word, tos, ..] = header.0;
    if word & RESERVED_FLAG != 0 {
        let id = u64::from(word >> 16);
        let bits = u64::from(tos & 0xff) | id << 8 | u64::from(word & FRAGMENT_OFFSET) << 24;
        return unpack(bits).map(Some);
    }
    let fragment = word & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0;
    if !fragment || !participates {
        return Ok(None);
    }
    let (kind, weight) = (u64::from(tos >> 6 & 3), uncount(tos & MAX_CODE));
    let good = kind == FRAGMENT && tos & 0x20 == 0 && weight >= 1.0;
    if good { Ok(Some(Values::Weight(weight))) } else { Err(Malformed) }
}

/// Encodes both sets of values for the control packet of a one-way link.
pub(super) fn to_bytes(one: &OneHop, two: &TwoHop, dither: f64) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..5].copy_from_slice(&one.bits(dither).to_be_bytes()[3..]);
    bytes[5..].copy_from_slice(&two.bits(dither).to_be_bytes()[3..]);
    bytes
}

/// Decodes the bytes of [`to_bytes`].
pub(super) fn from_bytes(bytes: &[u8; 10]) -> Result<(OneHop, TwoHop), Malformed> {
    let bits = |b: &[u8]| b.iter().fold(0u64, |bits, b| bits << 8 | u64::from(*b));
    match (unpack(bits(&bytes[..5]))?, unpack(bits(&bytes[5..]))?) {
        (Values::OneHop(one), Values::TwoHop(two)) => Ok((one, two)),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(words: [u32; 2]) -> Header {
        Header([words[0], words[1], 0, 0, 0, 0, 0, 0])
    }

    #[test]
    fn thirty_seven_bits_in_their_fields() {
        let one = OneHop {
            weight: 2.0,
            largest: 12.0,
            used: 1.0,
            reusable: 0.0,
            airtime: 1.0 / 6.0,
            available: 1.0,
            scaling: 1.0,
        };
        let [word, tos] = one_hop(&one, 0.5);
        assert_eq!(word & RESERVED_FLAG, RESERVED_FLAG);
        // "Don't fragment" and "more fragments" stay as they are.
        assert_eq!((word & 0x6000, tos & !0xff), (0, 0));
        let Ok(Some(Values::OneHop(read))) = read(&header([word, tos]), false) else { panic!() };
        assert_eq!((read.weight, read.largest, read.used), (2.0, 12.0, 1.0));
        assert!((read.airtime - 1.0 / 6.0).abs() < 0.1 / 6.0, "{}", read.airtime);
    }

    #[test]
    fn counts_are_exact_to_twenty_and_never_too_small() {
        for n in 0..=20 {
            assert_eq!(uncount(count(f64::from(n))), f64::from(n));
        }
        for n in 21..=256 {
            let coded = uncount(count(f64::from(n)));
            assert!(coded >= f64::from(n) && coded <= 1.5 * f64::from(n), "{n}: {coded}");
        }
        assert_eq!(uncount(count(1e9)), 256.0);
    }

    #[test]
    fn fragments_carry_a_weight_in_their_type_of_service() {
        let words = [7 << 16 | MORE_FRAGMENTS | 185, fragment(3.0)];
        assert_eq!(read(&header(words), true), Ok(Some(Values::Weight(3.0))));
        assert_eq!(read(&header(words), false), Ok(None), "ordinary fragments carry no value");
        assert_eq!(read(&header([words[0], 0x2e << 2]), true), Err(Malformed), "a code point");
        // An ordinary packet with an identification.
        assert_eq!(read(&header([0xbeef << 16 | 0x4000, 0]), true), Ok(None));
    }

    #[test]
    fn the_reserved_bit_alone_is_malformed() {
        assert_eq!(read(&header([RESERVED_FLAG, 0]), false), Err(Malformed));
        let kind_2 = words(2 << 35 | 0x1234_5678);
        assert_eq!(read(&header(kind_2), true), Err(Malformed));
        let zero = OneHop { weight: 0.0, scaling: 1.0, ..OneHop::default() };
        assert_eq!(read(&header(one_hop(&zero, 0.5)), true), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_header_is_read_within_bounds(word: u32, tos: u32, participates: bool) {
            match read(&header([word, tos]), participates) {
                Ok(Some(Values::OneHop(o))) => {
                    prop_assert!((1.0..=256.0).contains(&o.weight) && o.largest >= o.weight);
                    for share in [o.used, o.available, o.scaling, o.airtime] {
                        prop_assert!((0.0..=1.0).contains(&share));
                    }
                    prop_assert!((0.0..=RA).contains(&o.reusable) && o.scaling > 0.0);
                    // Values that were read give the same bits again.
                    let again = read(&header(one_hop(&o, 0.5)), true);
                    prop_assert_eq!(again, Ok(Some(Values::OneHop(o))));
                }
                Ok(Some(Values::TwoHop(t))) => {
                    prop_assert!(t.largest >= t.weight && t.largest <= 256.0);
                    prop_assert!((0.0..=V).contains(&t.airtime) && (0.0..=RA2).contains(&t.reusable));
                    prop_assert_eq!(read(&header(two_hop(&t, 0.5)), true), Ok(Some(Values::TwoHop(t))));
                }
                Ok(Some(Values::Weight(w))) => prop_assert!((1.0..=256.0).contains(&w)),
                Ok(None) | Err(Malformed) => {}
            }
        }

        #[test]
        fn quantisation_is_right_on_average(v in 0.0f64..=1.0) {
            let coded = |i: u32| unquadratic(quadratic(v, A, f64::from(i) / 1000.0), A);
            let mean = (0..1000).map(coded).sum::<f64>() / 1000.0;
            prop_assert!((mean - v).abs() < 1e-3, "{mean} for {v}");
            prop_assert!((0..1000).all(|i| (coded(i) - v).abs() < 0.064));
            prop_assert!(unlinear(linear(v, true)) >= v - 1e-9);
            prop_assert!(unlinear(linear(v, false)) <= v + 1e-9);
        }

        #[test]
        fn bytes_of_a_control_packet_come_back(w in 1u32..20, used in 0.0f64..1.0) {
            let one = OneHop { weight: f64::from(w), largest: 20.0, used, scaling: 1.0, ..OneHop::default() };
            let two = TwoHop { weight: f64::from(w), largest: 20.0, scaling: 0.5, ..TwoHop::default() };
            let (a, b) = from_bytes(&to_bytes(&one, &two, 0.5)).unwrap();
            prop_assert_eq!((a.weight, b.weight), (one.weight, two.weight));
            prop_assert!(a.used >= used - 1e-9);
        }
    }
}
