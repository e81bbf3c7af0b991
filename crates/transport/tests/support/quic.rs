//! Two QUIC endpoints, a virtual clock and a network with arbitrary impairments.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairmesh_transport::quic::{Config, Connection, Ecn, Packet};
use fairmesh_units::{Span, Time};

use super::Bottleneck;

/// A network: for a sender, time and packet, it pushes the arrivals.
///
/// Without an arrival the packet is lost; with two it is duplicated.
pub trait Network {
    fn carry(&mut self, from: usize, now: Time, packet: &Packet, out: &mut Vec<(Time, Ecn)>);
}

impl<F: FnMut(usize, Time, &Packet, &mut Vec<(Time, Ecn)>)> Network for F {
    fn carry(&mut self, from: usize, now: Time, packet: &Packet, out: &mut Vec<(Time, Ecn)>) {
        self(from, now, packet, out)
    }
}

impl Network for Bottleneck {
    fn carry(&mut self, from: usize, now: Time, packet: &Packet, out: &mut Vec<(Time, Ecn)>) {
        let passed = self.pass(from, now, packet.ip_bytes(), packet.ecn != Ecn::NotEct);
        out.extend(passed.map(|a| (a.at, if a.ce { Ecn::Ce } else { packet.ecn })));
    }
}

/// Delivers all packets after this time.
pub fn perfect(delay: Span) -> impl Network {
    move |_: usize, now: Time, packet: &Packet, out: &mut Vec<(Time, Ecn)>| {
        out.push((now + delay, packet.ecn));
    }
}

/// Packet in transit: arrival, sequence, index in the log, receiver, ECN field.
type InTransit = Reverse<(Time, u64, usize, usize, Ecn)>;

pub struct QuicWorld<N> {
    pub ends: [Connection; 2],
    pub now: Time,
    /// Bytes delivered to the application of each end.
    pub delivered: [u64; 2],
    /// Every packet sent: (time, end, packet).
    pub log: Vec<(Time, usize, Packet)>,
    net: N,
    flying: BinaryHeap<InTransit>,
    /// Independent record of the bytes of the stream and packet numbers that reached each end.
    arrived: [Vec<bool>; 2],
    numbers: [Vec<bool>; 2],
    in_order: [usize; 2],
    written: [u64; 2],
    last_number: [Option<u64>; 2],
    scratch: Vec<(Time, Ecn)>,
}

impl<N: Network> QuicWorld<N> {
    pub fn new(cfg: &Config, net: N) -> Self {
        QuicWorld {
            ends: [Connection::client(cfg), Connection::server(cfg)],
            now: Time::ZERO,
            delivered: [0; 2],
            log: Vec::new(),
            net,
            flying: BinaryHeap::new(),
            arrived: [Vec::new(), Vec::new()],
            numbers: [Vec::new(), Vec::new()],
            in_order: [0; 2],
            written: [0; 2],
            last_number: [None; 2],
            scratch: Vec::new(),
        }
    }

    pub fn connect(&mut self) {
        self.ends[0].connect(self.now);
        self.flush();
    }

    pub fn write(&mut self, end: usize, bytes: u64) {
        self.written[end] = self.written[end].saturating_add(bytes);
        self.ends[end].write(bytes);
        self.flush();
    }

    pub fn close(&mut self, end: usize) {
        self.ends[end].close();
        self.flush();
    }

    fn flush(&mut self) {
        for end in [0, 1] {
            while let Some(packet) = self.ends[end].poll_transmit(self.now) {
                self.check_sent(end, &packet);
                let mut out = std::mem::take(&mut self.scratch);
                self.net.carry(end, self.now, &packet, &mut out);
                let index = self.log.len();
                self.log.push((self.now, end, packet));
                for (n, (at, ecn)) in out.drain(..).enumerate() {
                    assert!(at >= self.now);
                    let order = 4 * index as u64 + n as u64;
                    self.flying.push(Reverse((at, order, index, 1 - end, ecn)));
                }
                self.scratch = out;
            }
        }
    }

    /// Checks the sender's invariants, which hold over any network.
    fn check_sent(&mut self, end: usize, packet: &Packet) {
        if let Some(number) = packet.number() {
            // RFC 9000 §12.3
            assert!(self.last_number[end].is_none_or(|last| number > last), "{packet:?}");
            self.last_number[end] = Some(number);
        }
        if let Some(frame) = packet.stream {
            assert!(frame.offset + u64::from(frame.len) <= self.written[end], "{packet:?}");
        }
        if let Some(ack) = &packet.ack {
            assert!(ack.ranges.windows(2).all(|r| r[0].0 <= r[0].1 && r[0].1 + 1 < r[1].0));
            for &(first, last) in &ack.ranges {
                let arrived = &self.numbers[end][first as usize..=last as usize];
                assert!(arrived.iter().all(|&a| a), "{packet:?}");
            }
        }
    }

    fn record(&mut self, to: usize, packet: &Packet) {
        let set = |all: &mut Vec<bool>, from: usize, end: usize| {
            if all.len() < end {
                all.resize(end, false);
            }
            all[from..end].fill(true);
        };
        if let Some(number) = packet.number() {
            set(&mut self.numbers[to], number as usize, number as usize + 1);
        }
        if let Some(frame) = packet.stream {
            let from = frame.offset as usize;
            set(&mut self.arrived[to], from, from + frame.len as usize);
        }
        while self.arrived[to].get(self.in_order[to]) == Some(&true) {
            self.in_order[to] += 1;
        }
    }

    fn next(&self) -> (Time, Time) {
        let arrival = self.flying.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        (arrival, self.ends[0].next_deadline().min(self.ends[1].next_deadline()))
    }

    /// Processes one event, an arrival or a deadline; returns false if there is none.
    pub fn step(&mut self) -> bool {
        let (arrival, deadline) = self.next();
        if arrival == Time::NEVER && deadline == Time::NEVER {
            return false;
        }
        if arrival <= deadline {
            let Some(Reverse((at, _, index, to, ecn))) = self.flying.pop() else { return false };
            self.now = at;
            let packet = self.log[index].2.clone();
            self.record(to, &packet);
            let got = self.ends[to].on_packet(at, &packet, ecn);
            self.delivered[to] += got.delivered;
            // At most the contiguous prefix of the received data.
            assert!(self.delivered[to] <= self.in_order[to] as u64, "after {packet:?}");
        } else {
            self.now = deadline;
            for end in &mut self.ends {
                end.on_deadline(self.now);
            }
        }
        self.flush();
        true
    }

    /// Runs until `end` or until there is no event.
    pub fn run_until(&mut self, end: Time) {
        loop {
            let (arrival, deadline) = self.next();
            if arrival.min(deadline) > end || !self.step() {
                self.now = end;
                return;
            }
        }
    }

    /// Numbers of the packets with data that an end has sent so far, with their offsets.
    pub fn data(&self, end: usize) -> Vec<(u64, u64)> {
        let of = self.log.iter().filter(|l| l.1 == end);
        of.filter_map(|(_, _, p)| Some((p.number()?, p.stream?.offset))).collect()
    }
}
