//! The simulator's HTB model against the kernel's: same tree, packets, instants, counters.
//!
//! If each class has its own limit, the tree of the simulator (`Release::Whole`, no class above) is
//! compared as well.
//!
//! Packets are sent in real time, and the model gets the actual instants, so a busy machine changes
//! the trace but not the comparison. While the machine itself is stopped (`stalls.rs`), the
//! kernel's timers are late, and the packets that they pass late are tolerated. So are packets that
//! limits would have passed while a change was in progress.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

#[path = "../common/mod.rs"]
mod common;
mod stalls;

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use fairmesh_linux::netlink::{Batch, Netlink};
use fairmesh_linux::tc::stats::Dumped;
use fairmesh_linux::tc::{Handle, Head, htb, leaf};
use fairmesh_linux::{LeafKind, link};
use fairmesh_queueing::{
    Backlog, ClassId, ClassRates, ClassSpec, CodelSpec, DisciplineSpec, FqCodelSpec, Htb, HtbSpec,
    Item, Queue, Release,
};
use fairmesh_units::{BitRate, Bytes, Span, Stream, Time};
use libc::{RTM_GETTCLASS, RTM_NEWQDISC, RTM_NEWTCLASS};
use nix::sys::socket::{setsockopt, sockopt};
use stalls::{Stalls, Watch};

/// Bytes of Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;
/// Packets that a leaf holds.
const QUEUE: u32 = 50;
/// Burst of every class, bytes: the amount that a timer 10 ms late would pass at 12 Mbit/s.
///
/// Both sides have the same burst. With one packet, the kernel would lose the bytes of a late
/// timer.
const BURST: u64 = 15_000;
/// Duration of the traffic, and interval of the comparisons.
const RUN: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(1500);

/// A class: number, parent (0: none), rate and ceiling in kbit/s, priority, quantum.
type Row = (u16, u16, u64, u64, u8, u32);

/// Traffic of a leaf: packets per second of a size, for some ms of every second.
#[derive(Clone, Copy)]
struct Load {
    class: u16,
    per_second: u64,
    payload: usize,
    on_ms: u128,
}

fn load(class: u16, per_second: u64, payload: usize) -> Load {
    Load { class, per_second, payload, on_ms: 1000 }
}

struct Case {
    name: &'static str,
    tree: Vec<Row>,
    loads: Vec<Load>,
    /// Half way through, these classes get new rates.
    change: Vec<Row>,
    /// Queue of every leaf.
    leaf: LeafKind,
}

/// Events in order.
enum Happening {
    Sent {
        class: u16,
        bytes: u32,
    },
    /// New rates, and the time in which the kernel may or may not have had them.
    ///
    /// This process can lose its processor between reading the clock and changing them.
    Changed {
        rows: Vec<Row>,
        took: Duration,
    },
    /// Bytes of the leaves by the kernel's counters.
    Counted(Vec<u64>),
}

/// All events, each with its time since the start.
struct EventLog {
    start: Instant,
    happened: Vec<(Duration, Happening)>,
}

fn rates(row: &Row) -> ClassRates {
    let (_, _, rate, ceil, ..) = *row;
    ClassRates {
        rate: BitRate(rate * 1000),
        ceil: BitRate(ceil * 1000),
        burst: Bytes(BURST),
        cburst: Bytes(BURST),
    }
}

fn kernels(row: &Row) -> htb::Class {
    let r = rates(row);
    htb::Class {
        rate: r.rate,
        ceil: r.ceil,
        buffer_ns: r.rate.time_for(BURST).as_nanos(),
        cbuffer_ns: r.ceil.time_for(BURST).as_nanos(),
        quantum: row.5,
        prio: u32::from(row.4),
    }
}

impl Case {
    fn is_leaf(&self, class: u16) -> bool {
        !self.tree.iter().any(|row| row.1 == class)
    }

    /// Returns the most that a leaf can have, bit/s: at most the rate of each class above it.
    fn fastest(&self, class: u16) -> f64 {
        let rows = || self.tree.iter().chain(&self.change).filter(|row| row.0 == class);
        let own = rows().map(|row| row.3).max().unwrap() as f64 * 1e3;
        match rows().next().unwrap().1 {
            0 => own,
            above => own.min(self.fastest(above)),
        }
    }

    fn leaves(&self) -> Vec<u16> {
        self.tree.iter().map(|row| row.0).filter(|c| self.is_leaf(*c)).collect()
    }

    /// Returns the model of the kernel's tree and, if no leaf can borrow, that of the simulator.
    ///
    /// The latter consists of its leaves alone.
    fn models(&self) -> Vec<(&'static str, Htb)> {
        let limits = self.tree.iter().all(|row| row.2 == row.3);
        let alone = self.tree.iter().filter(|row| self.is_leaf(row.0));
        let mut models = vec![("tree", self.model(self.tree.iter(), Release::Debt))];
        if limits && self.tree.iter().filter(|row| row.1 > 0).all(|row| row.2 <= self.tree[0].2 / 2)
        {
            models.push(("buckets", self.model(alone, Release::Whole)));
        }
        models
    }

    /// Returns the model of a leaf's queue.
    fn queue(&self) -> DisciplineSpec {
        let (target, interval) = (Span::from_millis(20), Span::from_millis(120));
        let codel = CodelSpec { target, interval, ecn: true, ..CodelSpec::default() };
        match self.leaf {
            LeafKind::FqCodel => DisciplineSpec::FqCodel(FqCodelSpec {
                packets: 1024,
                memory: 4 << 20,
                flows: 64,
                codel,
                ..FqCodelSpec::default()
            }),
            _ => DisciplineSpec::drop_tail(QUEUE),
        }
    }

    fn model<'a>(&self, rows: impl Iterator<Item = &'a Row>, release: Release) -> Htb {
        let nested = release == Release::Debt;
        let class = |row: &Row| ClassSpec {
            id: ClassId(row.0.into()),
            parent: (nested && row.1 > 0).then_some(ClassId(row.1.into())),
            rates: rates(row),
            prio: row.4,
            quantum: Some(row.5),
            leaf: self.is_leaf(row.0).then(|| self.queue()),
        };
        let flows = self.leaves().iter().map(|c| ((*c).into(), ClassId((*c).into()))).collect();
        let classes = rows.map(class).collect();
        Htb::new(&HtbSpec { classes, flows, release, ..HtbSpec::default() }).unwrap()
    }

    /// Runs the kernel's HTB on a separate interface and returns the events.
    ///
    /// `None` if this kernel has no such leaf.
    fn play(&self) -> Option<EventLog> {
        let mut netlink = Netlink::open().unwrap();
        let index = link::find(&mut netlink, "v0").unwrap().index;
        let root = Handle::new(1, 0);
        let mut batch = Batch::new();
        let create = libc::NLM_F_CREATE as u16;
        batch.push(RTM_NEWQDISC, create, |out| {
            Head::new(index, root, Handle::ROOT).write(out);
            htb::Qdisc { default: 0, r2q: 10, direct: 1000 }.write(out);
        });
        let class_head = |row: &Row| {
            let parent = if row.1 == 0 { root } else { Handle::new(1, row.1) };
            Head::new(index, Handle::new(1, row.0), parent)
        };
        for row in &self.tree {
            batch.push(RTM_NEWTCLASS, create, |out| {
                htb::class(out, class_head(row), &kernels(row));
            });
        }
        for class in self.leaves() {
            batch.push(RTM_NEWQDISC, create, |out| {
                Head::new(index, Handle::new(class, 0), Handle::new(1, class)).write(out);
                leaf::write(out, self.leaf, QUEUE, 0);
            });
        }
        let refused = netlink.apply(&mut batch).unwrap();
        if self.leaf != LeafKind::Pfifo && refused.len() == self.leaves().len() {
            eprintln!("SKIPPED {}: this kernel has no {}", self.name, self.leaf);
            return None;
        }
        assert!(refused.is_empty(), "{}: tree refused", self.name);
        let sockets: Vec<UdpSocket> = self.loads.iter().map(|l| socket(l.class)).collect();
        let target: SocketAddr = "10.7.0.2:9".parse().unwrap();
        let buffer = [0; 1472];
        let mut happened = Vec::new();
        let mut sent = vec![0u64; self.loads.len()];
        let start = Instant::now();
        let mut looks = 0;
        let mut changed = self.change.is_empty();
        while start.elapsed() < RUN {
            for (load, (socket, sent)) in self.loads.iter().zip(sockets.iter().zip(sent.iter_mut()))
            {
                let now = start.elapsed();
                if now.as_millis() % 1000 >= load.on_ms {
                    *sent = now.as_micros() as u64 * load.per_second / 1_000_000;
                    continue;
                }
                let due = now.as_micros() as u64 * load.per_second / 1_000_000;
                // Packets that could not be sent in time are omitted: no floods after a pause.
                *sent = (*sent).max(due.saturating_sub(20));
                while *sent < due {
                    let at = start.elapsed();
                    socket.send_to(&buffer[..load.payload], target).unwrap();
                    let bytes = (load.payload + HEADERS) as u32;
                    happened.push((at, Happening::Sent { class: load.class, bytes }));
                    *sent += 1;
                }
            }
            if !changed && start.elapsed() > RUN / 2 {
                let mut batch = Batch::new();
                for row in &self.change {
                    batch.push(RTM_NEWTCLASS, 0, |out| {
                        htb::class(out, class_head(row), &kernels(row));
                    });
                }
                let at = start.elapsed();
                assert!(netlink.apply(&mut batch).unwrap().is_empty());
                let took = start.elapsed() - at;
                happened.push((at, Happening::Changed { rows: self.change.clone(), took }));
                changed = true;
            }
            if start.elapsed() > LOOK * (looks + 1) {
                looks += 1;
                let (at, bytes) = self.count(&mut netlink, index, start);
                happened.push((at, Happening::Counted(bytes)));
            }
            thread::sleep(Duration::from_micros(500));
        }
        Some(EventLog { start, happened })
    }

    /// Reads the counters of all leaves, as fast as possible.
    fn count(&self, netlink: &mut Netlink, index: u32, start: Instant) -> (Duration, Vec<u64>) {
        let leaves = self.leaves();
        let mut best: Option<(Duration, Duration, Vec<u64>)> = None;
        for _ in 0..20 {
            let mut bytes = vec![0; leaves.len()];
            let before = start.elapsed();
            let head = Head::new(index, Handle::NONE, Handle::new(1, 0));
            netlink
                .dump(
                    "classes",
                    RTM_GETTCLASS,
                    |out| head.write(out),
                    |_, payload| {
                        let dumped = Dumped::read(payload).unwrap();
                        let minor = dumped.head.handle.minor();
                        if let Some(at) = leaves.iter().position(|l| *l == minor) {
                            bytes[at] = dumped.stats.unwrap().bytes;
                        }
                    },
                )
                .unwrap();
            let after = start.elapsed();
            let took = after - before;
            // The time of an interrupted reading is not known well.
            if best.as_ref().is_none_or(|(least, ..)| took < *least) {
                best = Some((took, before + took / 2, bytes));
            }
            if took < Duration::from_micros(300) {
                break;
            }
        }
        let (_, at, bytes) = best.unwrap();
        (at, bytes)
    }

    /// Replays the events to a model and compares at every reading.
    fn compare(&self, which: &str, mut model: Htb, played: &EventLog, stalls: &Stalls) {
        let mut rng = Stream::new(1, "conformance");
        let mut served = vec![0u64; self.leaves().len()];
        let leaves = self.leaves();
        let mut looks = 0;
        let mut open = Duration::ZERO;
        let mut clock = Time::ZERO;
        for (at, happening) in &played.happened {
            let now = Time::ZERO + Span::from_nanos(at.as_nanos() as u64);
            serve(&mut model, &mut clock, now, &leaves, &mut served);
            match happening {
                &Happening::Sent { class, bytes } => {
                    let item = Item {
                        handle: 0,
                        bytes,
                        flow: class.into(),
                        ect: false,
                        ect1: false,
                        station: 0,
                    };
                    model.enqueue(now, item, Backlog::NONE, &mut rng);
                }
                Happening::Changed { rows, took } => {
                    open += *took;
                    for row in rows {
                        model.set_rates(now, ClassId(row.0.into()), rates(row)).unwrap();
                    }
                }
                Happening::Counted(kernel) => {
                    looks += 1;
                    let unsure = (open + stalls.until(played.start + *at)).as_secs_f64();
                    for ((class, kernel), model) in leaves.iter().zip(kernel).zip(&served) {
                        let off = kernel.abs_diff(*model);
                        eprintln!(
                            "{:<28} {which:<8} class {class:<3} {:>5.2} s  kernel {kernel:>9} B  model {model:>9} B  \
                             {:+.2} %, stood still or open {:.0} ms",
                            self.name,
                            at.as_secs_f64(),
                            (*kernel as f64 / *model as f64 - 1.0) * 100.0,
                            unsure * 1e3,
                        );
                        // Two packets may be on different sides of the instant; and packets that
                        // could have left in the meantime.
                        let late = unsure * self.fastest(*class) / 8.0;
                        assert!(
                            off as f64 <= 0.01 * *model as f64 + 2.0 * 1514.0 + late,
                            "{}: {which}: class {class}: kernel {kernel} B, model {model} B",
                            self.name
                        );
                    }
                }
            }
        }
        assert!(looks >= 2, "{}: counters were never compared", self.name);
    }
}

/// Dequeues all packets that may leave until `until`.
fn serve(model: &mut Htb, clock: &mut Time, until: Time, leaves: &[u16], served: &mut [u64]) {
    loop {
        let ready = model.next_ready(*clock);
        if ready > until {
            *clock = until;
            return;
        }
        *clock = ready;
        let item = model.dequeue(ready).expect("ready when announced");
        let leaf = leaves.iter().position(|l| u32::from(*l) == item.flow).unwrap();
        served[leaf] += u64::from(item.bytes);
    }
}

fn socket(class: u16) -> UdpSocket {
    let socket = UdpSocket::bind("10.7.0.1:0").unwrap();
    setsockopt(&socket, sockopt::Priority, &(Handle::new(1, class).0 as i32)).unwrap();
    // Packets in the queueing discipline must not block the sender.
    setsockopt(&socket, sockopt::SndBuf, &(4 << 20)).unwrap();
    socket
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a limit each",
            tree: vec![
                (1, 0, 1_000_000, 1_000_000, 0, 1514),
                (10, 1, 400, 400, 1, 1514),
                (11, 1, 1000, 1000, 1, 1514),
                (12, 1, 3000, 3000, 1, 1514),
                (13, 1, 6000, 6000, 1, 1514),
            ],
            loads: vec![
                load(10, 100, 1000),
                load(11, 300, 800),
                load(12, 500, 1400),
                load(13, 900, 1200),
            ],
            change: vec![],
            leaf: LeafKind::Pfifo,
        },
        Case {
            name: "guarantees and borrowing",
            tree: vec![
                (1, 0, 6000, 6000, 0, 1514),
                (10, 1, 500, 6000, 0, 1514),
                (11, 1, 1000, 6000, 0, 1514),
                (12, 1, 2000, 6000, 0, 3028),
            ],
            loads: vec![load(10, 700, 1000), load(11, 700, 1000), load(12, 800, 1000)],
            change: vec![],
            leaf: LeafKind::Pfifo,
        },
        Case {
            name: "ceilings and priorities",
            tree: vec![
                (1, 0, 5000, 5000, 0, 1514),
                (10, 1, 400, 1500, 0, 1514),
                (11, 1, 400, 5000, 1, 1514),
                (12, 1, 800, 5000, 2, 1514),
            ],
            loads: vec![
                load(10, 400, 1000),
                Load { on_ms: 500, ..load(11, 800, 900) },
                load(12, 900, 1200),
            ],
            change: vec![],
            leaf: LeafKind::Pfifo,
        },
        Case {
            name: "three levels",
            tree: vec![
                (1, 0, 8000, 8000, 0, 1514),
                (2, 1, 3000, 4000, 0, 1514),
                (20, 2, 500, 8000, 0, 1514),
                (21, 2, 1000, 8000, 0, 1514),
                (30, 1, 2000, 8000, 0, 1514),
            ],
            loads: vec![load(20, 600, 1000), load(21, 600, 1000), load(30, 1000, 1000)],
            change: vec![],
            leaf: LeafKind::Pfifo,
        },
        Case {
            name: "an aggregate by turns",
            tree: vec![
                (1, 0, 4000, 4000, 0, 1514),
                (10, 1, 8, 1_000_000, 1, 1514),
                (11, 1, 8, 1_000_000, 1, 4542),
                (12, 1, 8, 600, 1, 1514),
            ],
            loads: vec![load(10, 400, 1000), load(11, 500, 1000), load(12, 200, 700)],
            change: vec![],
            leaf: LeafKind::Pfifo,
        },
        Case {
            name: "limits that change",
            tree: vec![
                (1, 0, 1_000_000, 1_000_000, 0, 1514),
                (10, 1, 800, 800, 1, 1514),
                (11, 1, 4000, 4000, 1, 1514),
            ],
            loads: vec![load(10, 600, 1000), load(11, 600, 1000)],
            change: vec![(10, 1, 3000, 3000, 1, 1514), (11, 1, 1000, 1000, 1, 1514)],
            leaf: LeafKind::Pfifo,
        },
        Case {
            name: "leaves that drop at departure",
            tree: vec![
                (1, 0, 1_000_000, 1_000_000, 0, 1514),
                (10, 1, 2000, 2000, 1, 1514),
                (11, 1, 1000, 4000, 1, 1514),
            ],
            // All of it passes in a second, unless CoDel drops some while it waits.
            loads: vec![
                Load { on_ms: 500, ..load(10, 450, 1000) },
                Load { on_ms: 400, ..load(11, 1000, 1000) },
            ],
            change: vec![],
            leaf: LeafKind::FqCodel,
        },
    ]
}

#[test]
fn the_model_serves_the_packets_of_the_kernel() {
    if !root("the_model_serves_the_packets_of_the_kernel") {
        return;
    }
    let watch = Watch::start();
    let running: Vec<_> = cases()
        .into_iter()
        .map(|case| {
            let ns = Namespace::new();
            ns.sh("ip link set lo up");
            ns.sh("ip link add v0 type veth peer name v1");
            ns.sh("ip link set v1 up");
            ns.sh("ip addr add 10.7.0.1/24 dev v0");
            ns.sh("ip link set v0 up");
            // A destination that accepts everything and never responds.
            ns.sh("ip neigh add 10.7.0.2 lladdr 02:00:00:00:00:02 dev v0 nud permanent");
            let thread = ns.spawn(move || {
                let played = case.play();
                (case, played)
            });
            (ns, thread)
        })
        .collect();
    let played: Vec<_> = running.into_iter().map(|(ns, t)| (ns, t.join().unwrap())).collect();
    let stalls = watch.end();
    for (_ns, (case, played)) in played {
        let Some(played) = played else { continue };
        for (which, model) in case.models() {
            case.compare(which, model, &played, &stalls);
        }
    }
}
