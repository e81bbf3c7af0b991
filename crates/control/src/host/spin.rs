//! The mesh's part of a round trip by QUIC's spin bit (RFC 9000 §17.4; RFC 9312 §3.8.2.1).
//!
//! A server returns the bit unchanged, a client inverts it, so the bit of each direction changes once in a
//! round trip. At the interface to the mesh a change that enters the mesh causes the next change that leaves
//! it; the time between the two is the round trip through the mesh and the reaction of the home's endpoint.

use fairmesh_units::{Span, Time};

use super::{Side, Trip};
use crate::RoundTripSource;

/// Number of alternating changes of both directions before round trips are accepted.
///
/// A random bit passes once in 2^16 times.
const MIN_ALTERNATIONS: u8 = 16;
/// Longest accepted round trip, 3 s: longer ones are pauses of the application.
const MAX_ROUND_TRIP: Span = Span::from_secs(3);

/// The spin bits of one connection, as they pass the interface to the mesh.
#[derive(Clone, Copy, Default, Debug)]
pub struct Spin {
    /// Last bit into the mesh and out of it.
    last: [Option<bool>; 2],
    /// Direction of the last change, and its time.
    changed: Option<(Side, Time)>,
    /// Changes that have alternated so far, at most [`MIN_ALTERNATIONS`].
    alternated: u8,
}

impl Spin {
    /// Handles the spin bit of a packet; returns the round trip that it completes.
    pub fn see(&mut self, now: Time, side: Side, bit: bool) -> Option<Trip> {
        let last = self.last[side as usize].replace(bit)?;
        if last == bit {
            return None;
        }
        let before = self.changed.replace((side, now))?;
        if before.0 == side {
            // Reordered packets, or a bit that does not spin.
            self.alternated = 0;
            return None;
        }
        self.alternated = (self.alternated + 1).min(MIN_ALTERNATIONS);
        let time = now.since(before.1);
        let believed =
            side == Side::Leaves && self.alternated >= MIN_ALTERNATIONS && time <= MAX_ROUND_TRIP;
        believed.then(|| Trip::new(time, RoundTripSource::Spin))
    }

    /// True if round trips are accepted at present.
    pub fn spins(&self) -> bool {
        self.alternated >= MIN_ALTERNATIONS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn us(n: u64) -> Time {
        Time::ZERO + Span::from_micros(n)
    }

    /// Simulates packets of both directions each 2 ms at the gateway.
    ///
    /// They are 15 ms from the outer end and 20 ms from the home, each way. With `client_home` the home's end
    /// is the client.
    fn connection(client_home: bool, lose: impl Fn(u64) -> bool) -> Vec<Trip> {
        let (mut spin, mut found) = (Spin::default(), Vec::new());
        // Bits in flight as (arrival, value), to the home and to the outer end.
        let (mut inward, mut outward) = (Vec::new(), Vec::new());
        let (mut home, mut outer) = (false, false);
        for now in 0..4000u64 {
            inward.retain(|&(at, bit)| {
                if at == now {
                    home = bit != client_home;
                }
                at > now
            });
            outward.retain(|&(at, bit)| {
                if at == now {
                    outer = bit == client_home;
                }
                at > now
            });
            if now % 2 == 0 && !lose(now) {
                // Packets sent 15 ms and 20 ms ago are abbreviated: those sent now pass the gateway later.
                inward.push((now + 35, outer));
                outward.push((now + 35, home));
            }
            // A packet that passes the gateway now was sent by the outer end 15 ms ago, by the home 20 ms ago.
            for &(at, bit) in &inward {
                if at == now + 20 {
                    found.extend(spin.see(us(1000 * now), Side::Enters, bit));
                }
            }
            for &(at, bit) in &outward {
                if at == now + 15 {
                    found.extend(spin.see(us(1000 * now), Side::Leaves, bit));
                }
            }
        }
        found
    }

    #[test]
    fn the_meshs_part_of_the_round_trip_is_measured_whichever_end_is_the_client() {
        for client_home in [false, true] {
            let found = connection(client_home, |_| false);
            assert!(found.len() > 30, "{}", found.len());
            for trip in found {
                let ms = trip.time.as_nanos() / 1_000_000;
                assert!((40..=42).contains(&ms), "{ms}");
            }
        }
    }

    #[test]
    fn lost_packets_lengthen_it_by_their_distance_only() {
        let found = connection(true, |now| now % 22 == 0);
        assert!(found.len() > 20, "{}", found.len());
        assert!(found.iter().all(|t| t.time <= Span::from_millis(46)));
    }

    #[test]
    fn a_bit_that_does_not_spin_gives_nothing() {
        let mut spin = Spin::default();
        for now in 0..1000 {
            let side = if now % 2 == 0 { Side::Enters } else { Side::Leaves };
            assert_eq!(spin.see(us(now), side, side == Side::Enters), None, "constant");
        }
        // A home that flips the bit of each packet to appear fast: changes into the mesh are slower.
        let mut spin = Spin::default();
        for now in 0..1000 {
            let found = spin.see(us(1000 * now), Side::Leaves, now % 2 == 0);
            let other = spin.see(us(1000 * now), Side::Enters, now / 20 % 2 == 0);
            assert!(found.is_none() && other.is_none() && !spin.spins());
        }
    }

    proptest! {
        /// A random bit of either end gives almost no round trips.
        ///
        /// Endpoints with the bit disabled may send one. For any input, a round trip is at most the accepted
        /// maximum and at most the time since the first packet.
        #[test]
        fn a_random_bit_gives_next_to_nothing(bits in proptest::collection::vec((any::<bool>(), any::<bool>(), 0u64..50_000), 0..500)) {
            let (mut spin, mut now, mut found) = (Spin::default(), 0, 0);
            for (enters, bit, later) in bits {
                now += later;
                let side = if enters { Side::Enters } else { Side::Leaves };
                if let Some(trip) = spin.see(us(now), side, bit) {
                    found += 1;
                    prop_assert!(trip.time <= MAX_ROUND_TRIP && trip.time <= Span::from_micros(now));
                }
            }
            prop_assert!(found <= 8, "{found}");
        }
    }
}
