//! Frames from outside.

use fairmesh_units::{NodeId, Time};

/// A frame in the engine: a small number, free for another frame after arrival or loss.
/// Arrivals are therefore taken before the next frame is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame(pub u32);

/// A frame reached a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Arrival instant of its last bit.
    /// Propagation may put this a little ahead of the event's time.
    pub at: Time,
    /// The node.
    pub node: NodeId,
    /// The frame.
    pub frame: Frame,
    /// True if a queue has marked it, here or before it entered (RFC 3168 §5).
    pub ce: bool,
}
