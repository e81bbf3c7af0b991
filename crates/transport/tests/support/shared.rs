//! Several connections behind one queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fairmesh_transport::{Connection, Flags, Segment, TcpConfig};
use fairmesh_units::{BitRate, Span, Time};

/// A queue with a rate that connections share, drop-tail, with a step threshold of marks.
pub struct Queue {
    /// Bits per second.
    pub rate: u64,
    /// Datagrams, the one in service included.
    pub limit: usize,
    /// Who may be marked is marked when this much or more waits before it.
    pub mark_at: Span,
    free: Time,
    waiting: VecDeque<Time>,
    pub drops: u64,
}

struct Flow {
    ends: [Connection; 2],
    /// One way.
    delay: Span,
    delivered: u64,
    /// Datagrams that passed the queue, and marks among them.
    passed: u64,
    marks: u64,
}

/// When, in which order, whose, at which end, what, and whether it is marked.
type Flying = Reverse<(Time, u64, usize, usize, bool)>;

pub struct Shared {
    pub queue: Queue,
    flows: Vec<Flow>,
    flying: BinaryHeap<Flying>,
    segments: Vec<Segment>,
    pub now: Time,
    /// Time integral of what waits, seconds of service.
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
            segments: Vec::new(),
            now: Time::ZERO,
            backlog: 0.0,
        }
    }

    /// Endless data from now on; `delay`: one way, without queue.
    pub fn add(&mut self, cfg: &TcpConfig, delay: Span) -> usize {
        let mut ends = [Connection::client(cfg), Connection::server(cfg)];
        ends[0].write(u64::MAX);
        ends[0].connect(self.now);
        self.flows.push(Flow { ends, delay, delivered: 0, passed: 0, marks: 0 });
        let flow = self.flows.len() - 1;
        self.flush(flow);
        flow
    }

    /// The application of a flow ends.
    pub fn close(&mut self, flow: usize) {
        self.flows[flow].ends[0].close();
        self.flush(flow);
    }

    pub fn sender(&self, flow: usize) -> &Connection {
        &self.flows[flow].ends[0]
    }

    /// Marked, of the datagrams that passed.
    pub fn marks(&self, flow: usize) -> (u64, u64) {
        (self.flows[flow].marks, self.flows[flow].passed)
    }

    fn flush(&mut self, flow: usize) {
        for end in 0..2 {
            while let Some(seg) = self.flows[flow].ends[end].poll_transmit(self.now) {
                let delay = self.flows[flow].delay;
                let (leaves, ce) = if end == 0 {
                    match self.enqueue(flow, &seg) {
                        Some(passage) => passage,
                        None => continue,
                    }
                } else {
                    (self.now, false)
                };
                let id = self.segments.len() as u64;
                self.segments.push(seg);
                self.flying.push(Reverse((leaves + delay, id, flow, 1 - end, ce)));
            }
        }
    }

    fn enqueue(&mut self, flow: usize, seg: &Segment) -> Option<(Time, bool)> {
        let queue = &mut self.queue;
        while queue.waiting.front().is_some_and(|&t| t <= self.now) {
            queue.waiting.pop_front();
        }
        if queue.waiting.len() >= queue.limit {
            queue.drops += 1;
            return None;
        }
        let wait = queue.free.max(self.now) - self.now;
        let service = BitRate(queue.rate).time_for(u64::from(seg.ip_bytes()));
        self.backlog += wait.as_secs_f64() * service.as_secs_f64();
        queue.free = queue.free.max(self.now) + service;
        queue.waiting.push_back(queue.free);
        let ce = seg.flags.has(Flags::ECT) && wait >= queue.mark_at;
        self.flows[flow].passed += u64::from(seg.len > 0);
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
                let seg = self.segments[id as usize];
                let f = &mut self.flows[flow];
                let got = f.ends[to].on_segment(at, &seg, ce);
                if to == 1 {
                    f.delivered += got.delivered;
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

    /// Each flow's part of the rate until `end`, and the mean wait in the queue of what arrives, in seconds.
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
