//! Minor numbers of our own classes, beyond those of subscribers.

/// Unmapped traffic.
pub const UNMAPPED: u16 = 0xfff0;
/// Routing and management.
pub const BYPASS: u16 = 0xfff1;
/// Test frames of a classifier; only during installation.
pub const PROBE: u16 = 0xfff2;
/// All subscribers: the parent of their classes.
pub const AGGREGATE: u16 = 0xfffe;
/// Handle of the leaf of the subscriber whose number is the root's.
pub const SPARE_LEAF: u16 = 0xfff9;
