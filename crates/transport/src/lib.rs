//! Sans-IO TCP, QUIC and UDP endpoints and the traffic that drives them.
//!
//! This crate neither reads a clock nor sends a packet. A [`Connection`] takes segments and the
//! time as input, and returns segments and its next deadline; a [`traffic::Source`] decides when an
//! application connects, writes and closes. The host (simulator or emulator) carries the segments
//! between two connections and calls back when a deadline passes:
//!
//! ```
//! use fairmesh_transport::{Connection, TcpConfig};
//! use fairmesh_units::Time;
//!
//! let cfg = TcpConfig::default();
//! let (mut a, mut b) = (Connection::client(&cfg), Connection::server(&cfg));
//! a.write(10_000);
//! a.close();
//! a.connect(Time::ZERO);
//! let mut received = 0;
//! while !(a.is_closed() && b.is_closed()) {
//!     // A perfect, instantaneous network.
//!     while let Some(segment) = a.poll_transmit(Time::ZERO) {
//!         received += b.on_segment(Time::ZERO, &segment, false).delivered;
//!     }
//!     while let Some(segment) = b.poll_transmit(Time::ZERO) {
//!         a.on_segment(Time::ZERO, &segment, false);
//!     }
//! }
//! assert_eq!(received, 10_000);
//! ```
//!
//! Bytes are counted, not stored: a simulated payload has a length and no content.

mod config;
mod congestion;
mod connection;
mod datagram;
pub mod quic;
mod receive;
mod segment;
mod send;
pub mod traffic;

pub use config::{ConfigError, Congestion, Dialect, TcpConfig};
pub use connection::{Connection, Received, TcpStats};
pub use datagram::{Datagram, DatagramSink};
pub use segment::{Flags, SackBlocks, Segment};
