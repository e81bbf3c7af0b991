//! Frames from outside.

use fairmesh_units::{NodeId, Time};

/// A frame in the engine: a small number, reused for another frame after arrival or loss.
///
/// Arrivals must therefore be taken before the next frame is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame(pub u32);

/// A frame reached a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Arrival instant of its last bit; with propagation slightly later than the event.
    pub at: Time,
    /// The node.
    pub node: NodeId,
    /// The frame.
    pub frame: Frame,
    /// True if it carries a congestion mark, from a queue here or before it entered.
    ///
    /// RFC 3168 §5.
    pub ce: bool,
}
