//! Queueing disciplines inside a class.

use super::htb::{spec, word};
use super::{nest, put, put_kind, put_u32, put_u64};
use crate::shaper::LeafKind;

const TCA_OPTIONS: u16 = libc::TCA_OPTIONS;
const TCA_FQ_CODEL_TARGET: u16 = 1;
const TCA_FQ_CODEL_LIMIT: u16 = 2;
const TCA_FQ_CODEL_INTERVAL: u16 = 3;
const TCA_FQ_CODEL_ECN: u16 = 4;
const TCA_FQ_CODEL_FLOWS: u16 = 5;
const TCA_FQ_CODEL_QUANTUM: u16 = 6;
const TCA_FQ_CODEL_MEMORY_LIMIT: u16 = 9;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_CAKE_BASE_RATE64: u16 = 2;
const TCA_CAKE_DIFFSERV_MODE: u16 = 3;
const TCA_CAKE_RTT: u16 = 7;
const TCA_CAKE_TARGET: u16 = 8;
const CAKE_DIFFSERV_BESTEFFORT: u32 = 3;

/// CoDel's target, in µs.
///
/// A subscriber of a mesh often has less than 4 Mbit/s, the rate below which one packet alone takes longer than the
/// usual 5 ms.
const TARGET_US: u32 = 20_000;
/// CoDel's interval, µs: the usual 100 ms plus the longer target.
const INTERVAL_US: u32 = 120_000;
/// Queues of one subscriber. The kernel's 1024 would take 1 GB for 10,000 subscribers.
const QUEUES_PER_SUBSCRIBER: u32 = 64;

/// Rate at which no packet takes a nanosecond, bytes/s: a `tbf` with it never waits.
const UNLIMITED_RATE: u64 = 1_000_000_000_000_000;

/// Appends kind and options of a leaf.
///
/// `queue`: packets, or bytes for `bfifo`, for kinds without queue management. `frame`: bytes of the interface's
/// largest frame.
pub fn write(out: &mut Vec<u8>, kind: LeafKind, queue: u32, frame: u32) {
    put_kind(out, module(kind));
    match kind {
        // A `tbf` contains a FIFO of bytes. It splits packets of several frames, which offloads and TCPs make (GRO,
        // TSO): sent whole, such a packet would delay all packets behind it.
        LeafKind::Bfifo => nest(out, TCA_OPTIONS, |out| {
            let mut parms = [0; 36]; // struct tc_tbf_qopt: rate, peak rate, limit, buffer, mtu
            spec(&mut parms[..12], UNLIMITED_RATE);
            parms[24..28].copy_from_slice(&queue.to_ne_bytes());
            put(out, TCA_TBF_PARMS, &parms);
            put_u32(out, TCA_TBF_BURST, frame);
            put_u64(out, TCA_TBF_RATE64, UNLIMITED_RATE);
        }),
        LeafKind::Pfifo => put_u32(out, TCA_OPTIONS, queue), // struct tc_fifo_qopt
        LeafKind::Sfq => {
            // struct tc_sfq_qopt: quantum (0: one packet), perturbation in s, limit, divisor, flows
            let mut options = Vec::with_capacity(20);
            for word in [0, 10, queue, 0, 0] {
                options.extend(u32::to_ne_bytes(word));
            }
            put(out, TCA_OPTIONS, &options);
        }
        LeafKind::FqCodel => fq_codel(out, Some(QUEUES_PER_SUBSCRIBER)),
        LeafKind::Cake => nest(out, TCA_OPTIONS, |out| {
            put_u64(out, TCA_CAKE_BASE_RATE64, 0);
            put_u32(out, TCA_CAKE_DIFFSERV_MODE, CAKE_DIFFSERV_BESTEFFORT);
            put_u32(out, TCA_CAKE_RTT, INTERVAL_US);
            // CAKE lengthens its 5 ms for slow links, but has no rate here: the class has it.
            put_u32(out, TCA_CAKE_TARGET, TARGET_US);
        }),
    }
}

/// Returns the kernel's name of the kind: that of its module, which `tc` shows.
pub const fn module(kind: LeafKind) -> &'static str {
    match kind {
        LeafKind::Bfifo => "tbf",
        other => other.name(),
    }
}

/// Appends kind and options for an existing `fq_codel`.
///
/// The kernel does not let its number of queues change.
pub(crate) fn rewrite_fq_codel(out: &mut Vec<u8>) {
    put_kind(out, LeafKind::FqCodel.name());
    fq_codel(out, None);
}

fn fq_codel(out: &mut Vec<u8>, flows: Option<u32>) {
    nest(out, TCA_OPTIONS, |out| {
        put_u32(out, TCA_FQ_CODEL_LIMIT, 1024);
        if let Some(flows) = flows {
            put_u32(out, TCA_FQ_CODEL_FLOWS, flows);
        }
        put_u32(out, TCA_FQ_CODEL_QUANTUM, 1514);
        put_u32(out, TCA_FQ_CODEL_INTERVAL, INTERVAL_US);
        put_u32(out, TCA_FQ_CODEL_TARGET, TARGET_US);
        put_u32(out, TCA_FQ_CODEL_ECN, 1);
        put_u32(out, TCA_FQ_CODEL_MEMORY_LIMIT, 4 << 20);
    });
}

/// Returns the packets that a dumped `sfq` holds (the value of `TCA_OPTIONS`).
pub(crate) fn sfq_limit(options: &[u8]) -> Option<u32> {
    word(options, 8)
}
