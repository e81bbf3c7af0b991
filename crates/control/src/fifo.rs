//! `fifo`: no control. Every node keeps its drop-tail queue; what the others are measured against.

use crate::{Entry, Origin, Runs};

pub(crate) static ENTRY: Entry = Entry {
    name: "fifo",
    about: "no control: drop-tail queues everywhere",
    origin: Origin::Published("Jamshaid 2010 §6.3"),
    variants: &[],
    parameters: &[],
    runs: Runs::Nowhere,
};
