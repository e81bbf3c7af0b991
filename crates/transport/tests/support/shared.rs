//! TCP and QUIC connections that share a queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fairmesh_transport::{Connection, Flags, Segment, TcpConfig, quic};
use fairmesh_units::{BitRate, Span, Time};

/// A drop-tail queue with a rate that connections share, and a step threshold of marks.
pub struct Queue {
    /// Bits per second.
    pub rate: u64,
    /// Length in datagrams, including the one in service.
    pub limit: usize,
    /// Waiting time from which ECN-capable datagrams are marked.
    pub mark_at: Span,
    free: Time,
    waiting: VecDeque<Time>,
    pub drops: u64,
}

/// One end of a connection.
pub enum End {
    Tcp(Connection),
    Quic(quic::Connection),
}

/// Content of a datagram.
#[derive(Clone)]
enum Content {
    Tcp(Segment),
    Quic(quic::Packet),
}

impl Content {
    fn ip_bytes(&self) -> u32 {
        match self {
            Content::Tcp(s) => s.ip_bytes(),
            Content::Quic(p) => p.ip_bytes(),
        }
    }
    fn ect(&self) -> bool {
        match self {
            Content::Tcp(s) => s.flags.has(Flags::ECT),
            Content::Quic(p) => p.ecn != quic::Ecn::NotEct,
        }
    }
    fn is_data(&self) -> bool {
        match self {
            Content::Tcp(s) => s.len > 0,
            Content::Quic(p) => p.data() > 0,
        }
    }
}

impl End {
    fn poll_transmit(&mut self, now: Time) -> Option<Content> {
        match self {
            End::Tcp(c) => c.poll_transmit(now).map(Content::Tcp),
            End::Quic(c) => c.poll_transmit(now).map(Content::Quic),
        }
    }
    fn next_deadline(&self) -> Time {
        match self {
            End::Tcp(c) => c.next_deadline(),
            End::Quic(c) => c.next_deadline(),
        }
    }
    fn on_deadline(&mut self, now: Time) {
        match self {
            End::Tcp(c) => c.on_deadline(now),
            End::Quic(c) => c.on_deadline(now),
        }
    }
    fn take(&mut self, now: Time, parcel: &Content, ce: bool) -> u64 {
        match (self, parcel) {
            (End::Tcp(c), Content::Tcp(s)) => c.on_segment(now, s, ce).delivered,
            (End::Quic(c), Content::Quic(p)) => {
                c.on_packet(now, p, if ce { quic::Ecn::Ce } else { p.ecn }).delivered
            }
            _ => unreachable!("a parcel of the other transport"),
        }
    }
    fn close(&mut self) {
        match self {
            End::Tcp(c) => c.close(),
            End::Quic(c) => c.close(),
        }
    }
    pub fn cwnd(&self) -> u64 {
        match self {
            End::Tcp(c) => c.stats().cwnd,
            End::Quic(c) => c.stats().cwnd,
        }
    }
}

/// Transport of a connection.
pub trait Transport {
    fn ends(&self, now: Time) -> [End; 2];
}

impl Transport for TcpConfig {
    fn ends(&self, now: Time) -> [End; 2] {
        let mut client = Connection::client(self);
        client.write(u64::MAX);
        client.connect(now);
        [End::Tcp(client), End::Tcp(Connection::server(self))]
    }
}

impl Transport for quic::Config {
    fn ends(&self, now: Time) -> [End; 2] {
        let mut client = quic::Connection::client(self);
        client.write(u64::MAX);
        client.connect(now);
        [End::Quic(client), End::Quic(quic::Connection::server(self))]
    }
}

struct Flow {
    ends: [End; 2],
    /// One-way delay.
    delay: Span,
    delivered: u64,
    /// Datagrams that passed the queue, and marks among them.
    passed: u64,
    marks: u64,
}

/// Datagram in transit: arrival, sequence, flow, receiver, mark.
type InTransit = Reverse<(Time, u64, usize, usize, bool)>;

pub struct Shared {
    pub queue: Queue,
    flows: Vec<Flow>,
    flying: BinaryHeap<InTransit>,
    contents: Vec<Content>,
    pub now: Time,
    /// Time integral of the backlog, seconds of service.
    backlog: f64,
}

impl Shared {
    pub fn new(rate: u64, limit: usize) -> Self {
        let queue = Queue {
            rate,
            limit,
            mark_at: Span::from_secs(1000),
            free: Time::ZERO,
            waiting: VecDeque::new(),
            drops: 0,
        };
        Shared {
            queue,
            flows: Vec::new(),
            flying: BinaryHeap::new(),
            contents: Vec::new(),
            now: Time::ZERO,
            backlog: 0.0,
        }
    }

    /// Adds a flow with endless data from now on; `delay`: one way, without queue.
    pub fn add(&mut self, cfg: &impl Transport, delay: Span) -> usize {
        let ends = cfg.ends(self.now);
        self.flows.push(Flow { ends, delay, delivered: 0, passed: 0, marks: 0 });
        let flow = self.flows.len() - 1;
        self.flush(flow);
        flow
    }

    /// Ends the application of a flow.
    pub fn close(&mut self, flow: usize) {
        self.flows[flow].ends[0].close();
        self.flush(flow);
    }

    pub fn sender(&self, flow: usize) -> &Connection {
        let End::Tcp(c) = self.end(flow) else { panic!("flow {flow} is QUIC") };
        c
    }

    pub fn quic(&self, flow: usize) -> &quic::Connection {
        let End::Quic(c) = self.end(flow) else { panic!("flow {flow} is TCP") };
        c
    }

    pub fn end(&self, flow: usize) -> &End {
        &self.flows[flow].ends[0]
    }

    /// Marks, and datagrams that passed.
    pub fn marks(&self, flow: usize) -> (u64, u64) {
        (self.flows[flow].marks, self.flows[flow].passed)
    }

    fn flush(&mut self, flow: usize) {
        for end in 0..2 {
            while let Some(parcel) = self.flows[flow].ends[end].poll_transmit(self.now) {
                let delay = self.flows[flow].delay;
                let (leaves, ce) = if end == 0 {
                    match self.enqueue(flow, &parcel) {
                        Some(passage) => passage,
                        None => continue,
                    }
                } else {
                    (self.now, false)
                };
                let id = self.contents.len() as u64;
                self.contents.push(parcel);
                self.flying.push(Reverse((leaves + delay, id, flow, 1 - end, ce)));
            }
        }
    }

    fn enqueue(&mut self, flow: usize, parcel: &Content) -> Option<(Time, bool)> {
        let queue = &mut self.queue;
        while queue.waiting.front().is_some_and(|&t| t <= self.now) {
            queue.waiting.pop_front();
        }
        if queue.waiting.len() >= queue.limit {
            queue.drops += 1;
            return None;
        }
        let wait = queue.free.max(self.now) - self.now;
        let service = BitRate(queue.rate).time_for(u64::from(parcel.ip_bytes()));
        self.backlog += wait.as_secs_f64() * service.as_secs_f64();
        queue.free = queue.free.max(self.now) + service;
        queue.waiting.push_back(queue.free);
        let ce = parcel.ect() && wait >= queue.mark_at;
        self.flows[flow].passed += u64::from(parcel.is_data());
        self.flows[flow].marks += u64::from(ce);
        Some((queue.free, ce))
    }

    pub fn run_until(&mut self, end: Time) {
        loop {
            let arrival = self.flying.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
            let deadlines = self
                .flows
                .iter()
                .enumerate()
                .flat_map(|(i, f)| f.ends.iter().map(move |e| (e.next_deadline(), i)));
            let (deadline, due) = deadlines.min().unwrap();
            if arrival.min(deadline) > end {
                self.now = end;
                return;
            }
            if arrival <= deadline {
                let Reverse((at, id, flow, to, ce)) = self.flying.pop().unwrap();
                self.now = at;
                let parcel = self.contents[id as usize].clone();
                let f = &mut self.flows[flow];
                let got = f.ends[to].take(at, &parcel, ce);
                if to == 1 {
                    f.delivered += got;
                }
                self.flush(flow);
            } else {
                self.now = deadline;
                for end in &mut self.flows[due].ends {
                    end.on_deadline(deadline);
                }
                self.flush(due);
            }
        }
    }

    /// Returns each flow's share of the rate until `end`, and the queue's mean wait, s.
    pub fn shares(&mut self, end: Time) -> (Vec<f64>, f64) {
        let before: Vec<u64> = self.flows.iter().map(|f| f.delivered).collect();
        let (from, backlog) = (self.now, self.backlog);
        self.run_until(end);
        let seconds = (end - from).as_secs_f64();
        let payload = self.queue.rate as f64 * 1460.0 / 1500.0 * seconds / 8.0;
        let parts = self.flows.iter().zip(&before);
        let parts = parts.map(|(f, before)| (f.delivered - before) as f64 / payload).collect();
        (parts, (self.backlog - backlog) / seconds)
    }
}
