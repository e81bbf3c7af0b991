//! Two endpoints, a virtual clock and a network with arbitrary impairments.

#![allow(dead_code)] // each test uses a part of it

pub mod quic;
pub mod shared;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairmesh_transport::{Connection, Flags, Segment, TcpConfig};
use fairmesh_units::{Span, Time};

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// Instant and mark of an arrival.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub at: Time,
    pub ce: bool,
}

/// A network: for a sender, time and segment, it pushes the arrivals.
///
/// Without an arrival the segment is lost; with two it is duplicated.
pub trait Network {
    fn carry(&mut self, from: usize, now: Time, seg: &Segment, out: &mut Vec<Arrival>);
}

impl<F: FnMut(usize, Time, &Segment, &mut Vec<Arrival>)> Network for F {
    fn carry(&mut self, from: usize, now: Time, seg: &Segment, out: &mut Vec<Arrival>) {
        self(from, now, seg, out)
    }
}

pub struct World<N> {
    pub ends: [Connection; 2],
    pub now: Time,
    /// Bytes delivered to the application of each end.
    pub delivered: [u64; 2],
    /// Every segment sent: (time, end, segment).
    pub log: Vec<(Time, usize, Segment)>,
    net: N,
    flying: BinaryHeap<Reverse<(Time, u64, usize, bool)>>,
    segments: Vec<Segment>,
    /// Independent record of the data that reached each end, including the FIN.
    ///
    /// Index 0 is sequence number 1.
    arrived: [Vec<bool>; 2],
    fin: [Option<usize>; 2],
    in_order: [usize; 2],
    written: [u64; 2],
    scratch: Vec<Arrival>,
}

impl<N: Network> World<N> {
    pub fn new(cfg: &TcpConfig, net: N) -> Self {
        World {
            ends: [Connection::client(cfg), Connection::server(cfg)],
            now: Time::ZERO,
            delivered: [0; 2],
            log: Vec::new(),
            net,
            flying: BinaryHeap::new(),
            segments: Vec::new(),
            arrived: [Vec::new(), Vec::new()],
            fin: [None; 2],
            in_order: [0; 2],
            written: [0; 2],
            scratch: Vec::new(),
        }
    }

    pub fn connect(&mut self) {
        self.ends[CLIENT].connect(self.now);
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
        for end in [CLIENT, SERVER] {
            while let Some(seg) = self.ends[end].poll_transmit(self.now) {
                self.check_sent(end, &seg);
                self.log.push((self.now, end, seg));
                let mut out = std::mem::take(&mut self.scratch);
                self.net.carry(end, self.now, &seg, &mut out);
                for a in out.drain(..) {
                    assert!(a.at >= self.now);
                    let id = self.segments.len() as u64;
                    self.segments.push(seg);
                    self.flying.push(Reverse((a.at, id, 1 - end, a.ce)));
                }
                self.scratch = out;
            }
        }
    }

    /// Checks the sender's invariants, which hold over any network.
    fn check_sent(&self, end: usize, seg: &Segment) {
        // Only written bytes.
        if seg.len > 0 {
            assert!(seg.seq >= 1);
            assert!(seg.seq - 1 + u64::from(seg.len) <= self.written[end], "{seg:?}");
        }
        // Acknowledged and selectively acknowledged data has arrived.
        if seg.flags.has(Flags::ACK) && seg.ack > 0 {
            let (base, arrived) = (seg.ack as usize - 1, &self.arrived[end]);
            assert!(base <= self.in_order[end], "{seg:?}");
            for &(from, to) in seg.sack.as_slice() {
                assert!(0 < from && from < to);
                assert!(arrived[base + from as usize..base + to as usize].iter().all(|&a| a));
            }
        }
    }

    /// Processes one event, an arrival or a deadline; returns false if there is none.
    pub fn step(&mut self) -> bool {
        let arrival = self.flying.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let deadline = self.ends[0].next_deadline().min(self.ends[1].next_deadline());
        if arrival == Time::NEVER && deadline == Time::NEVER {
            return false;
        }
        if arrival <= deadline {
            let Reverse((at, id, to, ce)) = self.flying.pop().unwrap();
            self.now = at;
            let seg = self.segments[id as usize];
            self.record(to, &seg);
            let got = self.ends[to].on_segment(at, &seg, ce);
            self.delivered[to] += got.delivered;
            // Each byte once and in order: exactly the contiguous prefix of the received data.
            if self.ends[to].is_established() {
                let bytes = self.in_order[to].min(self.fin[to].unwrap_or(usize::MAX));
                assert_eq!(self.delivered[to], bytes as u64, "after {seg:?}");
            }
        } else {
            self.now = deadline;
            for end in &mut self.ends {
                end.on_deadline(self.now);
            }
        }
        self.flush();
        true
    }

    fn record(&mut self, to: usize, seg: &Segment) {
        // Data before the handshake is refused, and does not count as received.
        let will_be_established = self.ends[to].is_established()
            || (to == SERVER && self.ends[to].next_deadline() != Time::NEVER);
        if !will_be_established || seg.flags.has(Flags::SYN) {
            return;
        }
        let arrived = &mut self.arrived[to];
        let from = seg.seq as usize - 1;
        let mut end = from + seg.len as usize;
        if seg.flags.has(Flags::FIN) {
            self.fin[to] = Some(end);
            end += 1;
        }
        if arrived.len() < end {
            arrived.resize(end, false);
        }
        arrived[from..end].fill(true);
        while self.in_order[to] < arrived.len() && arrived[self.in_order[to]] {
            self.in_order[to] += 1;
        }
    }

    /// Runs until `end` or until there is no event.
    pub fn run_until(&mut self, end: Time) {
        loop {
            let arrival = self.flying.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
            let next = arrival.min(self.ends[0].next_deadline()).min(self.ends[1].next_deadline());
            if next > end || !self.step() {
                self.now = end;
                return;
            }
        }
    }
}

/// A link in each direction with rate and delay, and a drop-tail queue for the data.
pub struct Bottleneck {
    /// Bits per second.
    pub rate: u64,
    pub delay: Span,
    /// Length in datagrams, including the one in service.
    pub queue: usize,
    /// Marks instead of drops from this many waiting datagrams on.
    pub mark_at: usize,
    pub drops: u64,
    pub marks: u64,
    free: [Time; 2],
    waiting: [Vec<Time>; 2],
}

impl Bottleneck {
    pub fn new(rate: u64, delay: Span, queue: usize) -> Self {
        Bottleneck {
            rate,
            delay,
            queue,
            mark_at: usize::MAX,
            drops: 0,
            marks: 0,
            free: [Time::ZERO; 2],
            waiting: [Vec::new(), Vec::new()],
        }
    }
}

impl Bottleneck {
    /// Passes an IPv4 datagram of this length, which may be marked if `ect`; `None`: dropped.
    pub fn pass(&mut self, from: usize, now: Time, bytes: u32, ect: bool) -> Option<Arrival> {
        let waiting = &mut self.waiting[from];
        waiting.retain(|&leaves| leaves > now);
        if waiting.len() >= self.queue {
            self.drops += 1;
            return None;
        }
        let ce = ect && waiting.len() >= self.mark_at;
        self.marks += u64::from(ce);
        let service = fairmesh_units::BitRate(self.rate).time_for(u64::from(bytes));
        let leaves = self.free[from].max(now) + service;
        self.free[from] = leaves;
        waiting.push(leaves);
        Some(Arrival { at: leaves + self.delay, ce })
    }
}

impl Network for Bottleneck {
    fn carry(&mut self, from: usize, now: Time, seg: &Segment, out: &mut Vec<Arrival>) {
        out.extend(self.pass(from, now, seg.ip_bytes(), seg.flags.has(Flags::ECT)));
    }
}
