//! The DCF, slot by slot: scripted stations, every frame's start compared to the nanosecond.
//!
//! Backoffs are random, but a station's stream can be drawn from twice: [`lab::Dice`] replays what
//! the station draws, so that even instants after a backoff are exact.

mod access;
mod answers;
mod interferers;
mod lab;
mod navs;
mod reception;
mod retries;
mod rts;
