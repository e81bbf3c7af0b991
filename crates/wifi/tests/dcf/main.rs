//! The DCF, slot by slot: scripted stations, every frame's start compared to the nanosecond.
//!
//! Backoffs are random, but a station's stream can be drawn from twice: [`testbed::Dice`] replays what
//! the station draws, so that even instants after a backoff are exact.

mod access;
mod accounts;
mod aggregates;
mod amsdus;
mod answers;
mod interferers;
mod losses;
mod navs;
mod ns2;
mod reception;
mod retries;
mod rts;
mod testbed;
