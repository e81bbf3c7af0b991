//! The simulated world: event queue, nodes, flows, measures and result records
