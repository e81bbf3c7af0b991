//! Orders of the control to the routers of homes, over a socket.
//!
//! A router accepts an order that repeats its present challenge ([`crate::node::orders`]). It responds to every order
//! with that challenge, so the first order to a router only asks for it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use fairmesh_linux::MacAddr;
use fairmesh_units::{Span, Time};

use crate::gateway::exchange::{read_key, unpredictable};
use crate::node::config::ORDER_PORT;
use crate::node::message::{self, Draft, Field, Kind, MAX_MESSAGE_BYTES, MeshKey};

/// Interval of attempts to open the socket.
const RETRY_INTERVAL: Span = Span::from_secs(5);
/// Most orders without a response of which the number is kept.
const MAX_PENDING: usize = 256;
/// Most routers with a known challenge.
const MAX_ROUTERS: usize = 1024;
/// Most responses read in one call.
const MAX_AT_ONCE: usize = 64;

/// Numbers orders and keeps the challenges of routers.
#[derive(Debug)]
pub struct Sender {
    key: MeshKey,
    /// Identity of this start, and of a part of its orders.
    mac: MacAddr,
    run: u32,
    sequence: u32,
    pending: BTreeMap<u32, IpAddr>,
    /// Challenge of each router, and the number of the order that it responded to.
    challenges: BTreeMap<IpAddr, (u32, u64)>,
}

impl Sender {
    /// `identity` must be unpredictable, so that another start has another one.
    pub fn new(key: MeshKey, identity: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = identity.to_be_bytes();
        // A locally administered address of one station.
        let mac = MacAddr([(a & 0xfc) | 2, b, c, d, e, f]);
        let run = u32::from(u16::from_be_bytes([g, h]));
        let (pending, challenges) = (BTreeMap::new(), BTreeMap::new());
        Sender { key, mac, run, sequence: 0, pending, challenges }
    }

    /// Returns the bytes of an order to a router.
    pub fn seal(&mut self, to: IpAddr, mechanism: &str, body: &[u8]) -> Option<Vec<u8>> {
        let challenge = self.challenges.get(&to).map_or(0, |(_, challenge)| *challenge);
        let mut draft = Draft::new();
        let fields = [Field::Challenge(challenge), Field::Mechanism(mechanism), Field::Body(body)];
        if !fields.iter().all(|field| draft.push(*field)) {
            return None;
        }
        self.sequence = self.sequence.checked_add(1)?;
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_first();
        }
        self.pending.insert(self.sequence, to);
        let number = (self.run, self.sequence);
        Some(message::seal_as(Kind::Order, &self.key, self.mac, number, &draft))
    }

    /// Reads a response; one that is not newer than the last of its router is ignored.
    pub fn receive(&mut self, bytes: &[u8]) {
        let Ok(response) = message::peek_as(Kind::Challenge, &self.key, bytes) else { return };
        let Ok(response) = response.verify(&self.key) else { return };
        let Some(challenge) = response.fields.challenge().filter(|_| response.run == self.run)
        else {
            return;
        };
        let Some(router) = self.pending.remove(&response.sequence) else { return };
        let known = self.challenges.get(&router).map(|(number, _)| *number);
        let room = known.is_some() || self.challenges.len() < MAX_ROUTERS;
        if room && known.is_none_or(|number| response.sequence > number) {
            self.challenges.insert(router, (response.sequence, challenge));
        }
    }
}

/// The socket of orders, opened when the first one is sent.
#[derive(Debug, Default)]
pub struct OrderSocket {
    open: Option<(UdpSocket, Sender)>,
    retry: Time,
    problem: Option<String>,
}

impl OrderSocket {
    /// Sends orders, after reading the responses to earlier ones; returns a new obstacle.
    pub fn send(
        &mut self,
        now: Time,
        key: &Path,
        mechanism: &str,
        orders: &[(IpAddr, Vec<u8>)],
    ) -> Option<String> {
        if self.open.is_none() && !orders.is_empty() && now >= self.retry {
            self.retry = now + RETRY_INTERVAL;
            let problem = match open(key) {
                Ok(open) => {
                    self.open = Some(open);
                    None
                }
                Err(problem) => Some(problem),
            };
            let new = problem.clone().filter(|p| self.problem.as_ref() != Some(p));
            self.problem = problem;
            if new.is_some() {
                return new;
            }
        }
        let (socket, sender) = self.open.as_mut()?;
        let mut buffer = [0; MAX_MESSAGE_BYTES + 1];
        for _ in 0..MAX_AT_ONCE {
            match socket.recv(&mut buffer) {
                Ok(length) => sender.receive(&buffer[..length]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // An ICMP error of an earlier order.
                Err(_) => {}
            }
        }
        let both = socket.local_addr().is_ok_and(|a| a.is_ipv6());
        for (to, body) in orders {
            let to_socket: IpAddr = match to {
                IpAddr::V4(v4) if both => v4.to_ipv6_mapped().into(),
                other => *other,
            };
            if let Some(bytes) = sender.seal(*to, mechanism, body) {
                // Treated as lost in transit.
                let _ = socket.send_to(&bytes, (to_socket, ORDER_PORT));
            }
        }
        None
    }
}

fn open(key: &Path) -> Result<(UdpSocket, Sender), String> {
    let key = MeshKey::new(read_key(key).map_err(|e| e.to_string())?);
    let bind = || -> io::Result<UdpSocket> {
        let any: [SocketAddr; 2] =
            [(Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::UNSPECIFIED, 0).into()];
        let socket = UdpSocket::bind(&any[..])?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let socket = bind().map_err(|e| format!("a UDP socket: {e}"))?;
    Ok((socket, Sender::new(key, unpredictable())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::node::neighbours::Cause;
    use crate::node::orders::Orders;

    fn key() -> MeshKey {
        MeshKey::new(Key::new([1; 32]))
    }

    #[test]
    fn the_second_order_is_accepted_and_a_recorded_response_changes_nothing() {
        let router = IpAddr::from([10, 0, 0, 1]);
        let other = IpAddr::from([10, 0, 0, 2]);
        let mut next = 40;
        let random = move || {
            next += 1;
            next
        };
        let mut receiver = Orders::new(key(), Box::new(random), Time::ZERO);
        let own = MacAddr([2, 0, 0, 0, 0, 9]);
        let mut give = |now: Time, bytes: &[u8]| receiver.receive(now, bytes, "rtt", own);
        let mut sender = Sender::new(key(), 0x1234_5678_9abc_def0);
        let (refused, first) = give(Time::ZERO, &sender.seal(router, "rtt", b"a").unwrap());
        assert_eq!(refused, Err(Cause::Unproved));
        let first = first.unwrap();
        sender.receive(&first);
        let at = |s| Time::ZERO + Span::from_secs(s);
        let (accepted, second) = give(at(1), &sender.seal(router, "rtt", b"b").unwrap());
        assert_eq!(accepted, Ok(b"b".to_vec()));
        // The router has another challenge after some time; the response to an order brings it.
        let (result, new) = give(at(40), &sender.seal(router, "rtt", b"c").unwrap());
        assert!(result.is_ok());
        sender.receive(&new.unwrap());
        for old in [first, second.unwrap()] {
            sender.receive(&old);
        }
        assert!(give(at(70), &sender.seal(router, "rtt", b"d").unwrap()).0.is_ok());
        // Each router has a challenge of its own, and a body that is too long is not sent.
        assert!(!sender.challenges.contains_key(&other));
        assert_eq!(sender.seal(router, "rtt", &[0; 250]), None);
        // Without responses the memory is bounded.
        for _ in 0..1000 {
            sender.seal(other, "rtt", b"e").unwrap();
        }
        assert_eq!(sender.pending.len(), MAX_PENDING);
    }

    #[test]
    fn a_missing_key_is_reported_once() {
        let mut socket = OrderSocket::default();
        let at = |s| Time::ZERO + Span::from_secs(s);
        let orders = [(IpAddr::from([127, 0, 0, 1]), b"x".to_vec())];
        let key = Path::new("/nonexistent/node.key");
        assert_eq!(socket.send(at(0), key, "rtt", &[]), None, "nothing to send");
        let problem = socket.send(at(0), key, "rtt", &orders).expect("no key");
        assert!(problem.contains("node.key"), "{problem}");
        assert_eq!(socket.send(at(6), key, "rtt", &orders), None);
    }
}
