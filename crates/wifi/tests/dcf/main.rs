//! The DCF, slot by slot.
//!
//! Stations are scripted, and the start of each frame is compared to the nanosecond.
//!
//! Backoffs are random, but a station's stream can be replayed: [`testbed::BackoffReplay`] draws the same
//! values, so that instants after a backoff are exact, too.

mod access;
mod accounts;
mod aggregates;
mod amsdus;
mod interferers;
mod losses;
mod navs;
mod ns2;
mod reception;
mod responses;
mod retries;
mod rts;
mod testbed;
