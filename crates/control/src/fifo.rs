//! `fifo`: no control. Every node keeps its drop-tail queue; what the others are measured against.

use crate::{Entry, Runs};

pub(crate) static ENTRY: Entry = Entry {
    name: "fifo",
    about: "no control: drop-tail queues everywhere",
    paper: "Jamshaid 2010 §6.3",
    variants: &[],
    knobs: &[],
    runs: Runs::Nowhere,
};
