//! The queueing discipline `fq`, which sends packets at their departure times.

use super::{nest, put_kind, put_u32};

/// Name of the kind.
pub const KIND: &str = "fq";

const TCA_FQ_PLIMIT: u16 = 1;
const TCA_FQ_FLOW_PLIMIT: u16 = 2;
const TCA_FQ_BUCKETS_LOG: u16 = 8;
const TCA_FQ_ORPHAN_MASK: u16 = 10;
const TCA_FQ_HORIZON: u16 = 14;

/// Logarithm of the number of trees that contain flows.
const BUCKETS_LOG: u32 = 14;
/// Time ahead of which packets are dropped, µs: longer than any wait that the program allows.
const HORIZON_US: u32 = 600_000_000;

/// Appends kind and options.
///
/// `packets`: most packets of all flows; `mask`: bits of the hash that make a flow.
pub fn write(out: &mut Vec<u8>, packets: u32, mask: u32) {
    put_kind(out, KIND);
    nest(out, libc::TCA_OPTIONS, |out| {
        put_u32(out, TCA_FQ_PLIMIT, packets);
        put_u32(out, TCA_FQ_FLOW_PLIMIT, packets);
        put_u32(out, TCA_FQ_BUCKETS_LOG, BUCKETS_LOG);
        put_u32(out, TCA_FQ_ORPHAN_MASK, mask);
        put_u32(out, TCA_FQ_HORIZON, HORIZON_US);
    });
}
