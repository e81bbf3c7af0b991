//! `fifo`: no control. Every node keeps its drop-tail queue; the baseline of all comparisons.

use crate::{Definition, Origin};

pub(crate) fn definition() -> Definition {
    let about = "no control: drop-tail queues everywhere";
    Definition::new("fifo", about, Origin::published("Jamshaid 2010 §6.3"))
}
