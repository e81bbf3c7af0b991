//! Encoding of a gateway's message to the agent at a home.
//!
//! | bytes | content |
//! |---|---|
//! | 0–1 | `fm` |
//! | 2 | version, 1 |
//! | 3 | 1: keep a limit, 2: forget it |
//! | 4–7 | number of the message, rising, big-endian as all that follows |
//! | 8–15 | limit, bit/s of IP |
//! | 16–17 | s for which it holds unless it is renewed |

use fairmesh_units::{BitRate, Span};

const MAGIC: [u8; 3] = [b'f', b'm', 1];
const LIMIT: u8 = 1;
const FORGET: u8 = 2;
/// Longest time for which a limit holds unless it is renewed, in s.
const MAX_LIFETIME: u16 = 600;

/// A message to an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    /// Number of the message, which rises; older messages are ignored.
    pub number: u32,
    /// Rate of all data that the home sends together, and its duration; `None` for no limit.
    pub limit: Option<(BitRate, Span)>,
}

impl Order {
    pub fn encode(&self) -> [u8; 18] {
        let mut out = [0; 18];
        out[..3].copy_from_slice(&MAGIC);
        out[3] = if self.limit.is_some() { LIMIT } else { FORGET };
        out[4..8].copy_from_slice(&self.number.to_be_bytes());
        if let Some((rate, keep)) = self.limit {
            let seconds = keep.as_secs_f64().ceil().min(f64::from(MAX_LIFETIME)) as u16;
            out[8..16].copy_from_slice(&rate.0.to_be_bytes());
            out[16..].copy_from_slice(&seconds.to_be_bytes());
        }
        out
    }

    /// Decodes a message; `None` for anything that [`Order::encode`] does not write.
    pub fn decode(body: &[u8]) -> Option<Order> {
        let body: &[u8; 18] = body.try_into().ok()?;
        if body[..3] != MAGIC {
            return None;
        }
        let number = u32::from_be_bytes(body[4..8].try_into().ok()?);
        let rate = u64::from_be_bytes(body[8..16].try_into().ok()?);
        let seconds = u16::from_be_bytes(body[16..].try_into().ok()?);
        let limit = match (body[3], rate, seconds) {
            (FORGET, 0, 0) => None,
            (LIMIT, 1.., 1..=MAX_LIFETIME) => {
                Some((BitRate(rate), Span::from_secs(seconds.into())))
            }
            _ => return None,
        };
        Some(Order { number, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn orders_are_decoded_as_encoded(number: u32, rate in 1_u64.., seconds in 1_u64..=600) {
            let keep = (BitRate(rate), Span::from_secs(seconds));
            for limit in [None, Some(keep)] {
                let order = Order { number, limit };
                prop_assert_eq!(Order::decode(&order.encode()), Some(order));
            }
        }

        #[test]
        fn anything_else_is_nothing(body in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(order) = Order::decode(&body) {
                prop_assert_eq!(&order.encode()[..], &body[..]);
            }
        }
    }

    #[test]
    fn a_limit_of_nothing_or_for_ever_is_none() {
        let order = Order { number: 7, limit: Some((BitRate(5), Span::from_secs(9))) };
        let mut body = order.encode();
        body[15] = 0;
        assert_eq!(Order::decode(&body), None);
        body = order.encode();
        body[16] = 0xff;
        assert_eq!(Order::decode(&body), None);
        assert_eq!(Order::decode(&order.encode()[..17]), None);
    }
}
