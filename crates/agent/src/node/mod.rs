//! The daemon of a mesh router: senses, messages to neighbours, and a mechanism.
//!
//! - [`message`]: the message between neighbours, as bytes;
//! - [`neighbours`]: authentication, replay protection, rates and expiry of received messages.

pub mod message;
pub mod neighbours;
