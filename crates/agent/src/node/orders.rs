//! Orders of a gateway to this router: authentication and freshness.
//!
//! There is no clock, no socket and no random source here. Orders come over any number of hops, so that an attacker on
//! the way sees, stores, repeats and delays them, but has no key:
//!
//! - An order is accepted if its tag is right, it repeats a challenge that this router has drawn within the last two
//!   [`CHALLENGE_LIFETIME`] periods, and it is newer than every accepted one of its sender. A recorded order is therefore never
//!   accepted again, also after a restart of this router.
//! - Every order with the right tag gets a response with the present challenge, at most [`RESPONSES_PER_SECOND`].
//! - At most [`MAX_SENDERS`] gateways are known, and [`CHECKS_PER_SECOND`] tags are checked in a second.

use std::collections::BTreeMap;

use fairmesh_linux::MacAddr;
use fairmesh_units::{Span, Time};

use super::message::{self, Draft, Field, Kind, MeshKey, Message};
use super::neighbours::{Bucket, Cause};

/// Time for which a challenge is the newest one; it is accepted for as long again.
pub const CHALLENGE_LIFETIME: Span = Span::from_secs(30);
/// Most gateways with orders at a time.
pub const MAX_SENDERS: usize = 8;
/// Most tags that are checked in a second.
pub const CHECKS_PER_SECOND: u32 = 50;
/// Most responses in a second.
pub const RESPONSES_PER_SECOND: u32 = 5;

/// The receiver of orders.
pub struct Orders {
    key: MeshKey,
    random: Box<dyn FnMut() -> u64>,
    /// The newest challenge and the one before.
    challenges: [u64; 2],
    drawn: Time,
    /// Number and time of the last accepted order of each sender.
    senders: BTreeMap<MacAddr, ((u32, u32), Time)>,
    checks: Bucket,
    responses: Bucket,
    accepted: u64,
    refused: [u64; Cause::ALL.len()],
}

impl std::fmt::Debug for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orders").field("accepted", &self.accepted).finish_non_exhaustive()
    }
}

impl Orders {
    /// `random` must be unpredictable; while it returns 0, no order is accepted.
    pub fn new(key: MeshKey, mut random: Box<dyn FnMut() -> u64>, now: Time) -> Self {
        let challenges = [random(), random()];
        Orders {
            key,
            random,
            challenges,
            drawn: now,
            senders: BTreeMap::new(),
            checks: Bucket::full(CHECKS_PER_SECOND, now),
            responses: Bucket::full(RESPONSES_PER_SECOND, now),
            accepted: 0,
            refused: [0; Cause::ALL.len()],
        }
    }

    /// Checks an order; returns its body, if it is accepted, and the response.
    ///
    /// `own`: an address of this router, as the sender of the response.
    pub fn receive(
        &mut self,
        now: Time,
        bytes: &[u8],
        mechanism: &str,
        own: MacAddr,
    ) -> (Result<Vec<u8>, Cause>, Option<Vec<u8>>) {
        self.draw(now);
        // Without the right tag nothing is sent, so that this router is no amplifier.
        let verified = self.verify(now, bytes);
        let response = verified.as_ref().ok().and_then(|order| self.respond(now, order, own));
        let checked = verified.and_then(|order| self.check(now, &order, mechanism));
        match &checked {
            Ok(_) => self.accepted += 1,
            Err(cause) => self.refused[*cause as usize] += 1,
        }
        (checked, response)
    }

    /// Returns the response: it has the number of the order.
    fn respond(&mut self, now: Time, order: &Message<'_>, own: MacAddr) -> Option<Vec<u8>> {
        self.responses.fill(now);
        if !self.responses.has(1) {
            return None;
        }
        self.responses.take(1);
        let mut draft = Draft::new();
        let number = (order.run, order.sequence);
        let fits = draft.push(Field::Challenge(self.challenges[0]));
        fits.then(|| message::seal_as(Kind::Challenge, &self.key, own, number, &draft))
    }

    fn draw(&mut self, now: Time) {
        let periods = now.since(self.drawn).as_nanos() / CHALLENGE_LIFETIME.as_nanos();
        for _ in 0..periods.min(2) {
            self.challenges = [(self.random)(), self.challenges[0]];
        }
        self.drawn += CHALLENGE_LIFETIME.saturating_mul(periods);
        let memory = CHALLENGE_LIFETIME.saturating_mul(2);
        self.senders.retain(|_, (_, last)| now.since(*last) <= memory);
    }

    fn verify<'a>(&mut self, now: Time, bytes: &'a [u8]) -> Result<Message<'a>, Cause> {
        let unverified = message::peek_as(Kind::Order, &self.key, bytes)?;
        self.checks.fill(now);
        if !self.checks.has(1) {
            return Err(Cause::Flood);
        }
        self.checks.take(1);
        Ok(unverified.verify(&self.key)?)
    }

    fn check(&mut self, now: Time, order: &Message<'_>, mechanism: &str) -> Result<Vec<u8>, Cause> {
        let fresh = order.fields.challenge().filter(|c| *c != 0);
        if !fresh.is_some_and(|c| self.challenges.contains(&c)) {
            return Err(Cause::Unproved);
        }
        let number = (order.run, order.sequence);
        if self.senders.get(&order.mac).is_some_and(|(last, _)| number <= *last) {
            return Err(Cause::Replayed);
        }
        let body = order.fields.bodies(mechanism, &[]).next().ok_or(Cause::Malformed)?;
        if self.senders.len() >= MAX_SENDERS && !self.senders.contains_key(&order.mac) {
            return Err(Cause::Crowd);
        }
        self.senders.insert(order.mac, (number, now));
        Ok(body.to_vec())
    }

    /// Number of accepted orders.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Number of refused orders of each cause.
    pub fn refused(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().zip(self.refused)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::Key;

    const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn key(octet: u8) -> MeshKey {
        MeshKey::new(Key::new([octet; 32]))
    }

    fn at(s: u64) -> Time {
        Time::ZERO + Span::from_secs(s)
    }

    fn orders() -> Orders {
        let mut next = 100;
        let random = move || {
            next += 1;
            next
        };
        Orders::new(key(1), Box::new(random), at(0))
    }

    fn order(secret: u8, from: MacAddr, sequence: u32, challenge: u64) -> Vec<u8> {
        let mut draft = Draft::new();
        let fields = [Field::Challenge(challenge), Field::Mechanism("rtt"), Field::Body(b"x")];
        assert!(fields.iter().all(|f| draft.push(*f)));
        message::seal_as(Kind::Order, &key(secret), from, (1, sequence), &draft)
    }

    /// The receiver's result, and the challenge in its response.
    fn receive(o: &mut Orders, s: u64, bytes: &[u8]) -> (Result<Vec<u8>, Cause>, Option<u64>) {
        let (result, response) = o.receive(at(s), bytes, "rtt", OWN);
        let challenge = response.map(|bytes| {
            let read = message::peek_as(Kind::Challenge, &key(1), &bytes).unwrap();
            read.verify(&key(1)).unwrap().fields.challenge().unwrap()
        });
        (result, challenge)
    }

    #[test]
    fn an_order_needs_the_present_challenge_and_is_accepted_once() {
        let mut o = orders();
        let (refused, challenge) = receive(&mut o, 1, &order(1, GATEWAY, 1, 0));
        assert_eq!(refused, Err(Cause::Unproved), "the first of a gateway");
        let challenge = challenge.unwrap();
        let accepted = order(1, GATEWAY, 2, challenge);
        assert_eq!(receive(&mut o, 2, &accepted).0, Ok(b"x".to_vec()));
        assert_eq!(receive(&mut o, 3, &accepted).0, Err(Cause::Replayed));
        let older = order(1, GATEWAY, 1, challenge);
        assert_eq!(receive(&mut o, 3, &older).0, Err(Cause::Replayed));
        // The challenge before the present one is accepted, an older one is not.
        let next = |n| order(1, GATEWAY, n, challenge);
        let (result, new) = receive(&mut o, 40, &next(3));
        assert!(result.is_ok() && new.unwrap() != challenge);
        assert_eq!(receive(&mut o, 70, &next(4)).0, Err(Cause::Unproved));
        // A recorded order has no effect on another run, or hours later.
        assert_eq!(receive(&mut o, 90_000, &accepted).0, Err(Cause::Unproved));
        let mut other = orders();
        other.challenges = [7, 8];
        assert_eq!(receive(&mut other, 1, &accepted).0, Err(Cause::Unproved));
        assert_eq!(o.accepted(), 2);
    }

    #[test]
    fn forged_orders_and_other_kinds_get_no_response() {
        let mut o = orders();
        let challenge = receive(&mut o, 1, &order(1, GATEWAY, 1, 0)).1.unwrap();
        let hello = message::seal(&key(1), GATEWAY, 1, 9, &Draft::new());
        let mut forged = order(1, GATEWAY, 2, challenge);
        let last = forged.len() - 1;
        forged[last] ^= 1;
        for (bytes, cause) in [
            (order(2, GATEWAY, 2, challenge), Cause::Mesh),
            (hello, Cause::Kind),
            (forged, Cause::Tag),
            (b"fm".to_vec(), Cause::Malformed),
        ] {
            assert_eq!(receive(&mut o, 2, &bytes), (Err(cause), None), "{cause:?}");
        }
        // Without random numbers nothing is fresh.
        let mut blind = Orders::new(key(1), Box::new(|| 0), at(0));
        assert_eq!(receive(&mut blind, 1, &order(1, GATEWAY, 1, 0)).0, Err(Cause::Unproved));
    }

    #[test]
    fn a_flood_of_orders_and_thousands_of_senders_are_bounded() {
        let mut o = orders();
        let challenge = o.challenges[0];
        let (mut accepted, mut responses) = (0, 0);
        for n in 0..5000_u32 {
            let mac = MacAddr([2, 1, 0, 0, (n >> 8) as u8, n as u8]);
            let (result, response) =
                receive(&mut o, u64::from(n) / 1000, &order(1, mac, 1, challenge));
            accepted += u32::from(result.is_ok());
            responses += u32::from(response.is_some());
        }
        assert_eq!((accepted, o.senders.len()), (MAX_SENDERS as u32, MAX_SENDERS));
        assert!(responses <= 5 * RESPONSES_PER_SECOND, "{responses}");
        // Idle senders make room.
        let challenge = receive(&mut o, 100, &order(1, GATEWAY, 1, 0)).1.unwrap();
        assert!(receive(&mut o, 101, &order(1, GATEWAY, 2, challenge)).0.is_ok());
    }

    proptest! {
        #[test]
        fn no_order_is_accepted_twice(sequences in prop::collection::vec(1_u32..20, 1..60)) {
            let mut o = orders();
            let challenge = o.challenges[0];
            let mut last = 0;
            for (n, sequence) in sequences.into_iter().enumerate() {
                let (result, _) = receive(&mut o, n as u64 / 10, &order(1, GATEWAY, sequence, challenge));
                prop_assert_eq!(result.is_ok(), sequence > last);
                last = last.max(sequence);
            }
        }
    }
}
