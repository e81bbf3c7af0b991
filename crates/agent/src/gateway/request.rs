//! Requests of the gateway's control socket: one JSON object per line.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::daemon::socket;
pub use crate::daemon::socket::AskError;
use crate::error::RequestError;

/// A request to the gateway's daemon.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The state of the daemon and of all subscribers.
    Status,
    /// The state of one subscriber.
    Why {
        /// Name of the subscriber.
        subscriber: String,
    },
    /// A limit that an operator sets for a time.
    Override {
        /// Name of the subscriber.
        subscriber: String,
        /// "down", "up"; both if empty.
        directions: Vec<String>,
        /// The limit.
        rate: OverrideRate,
        /// Duration, in s.
        seconds: f64,
    },
    /// Read the configuration again.
    Reload,
    /// Counters and classifiers for `doctor`.
    Doctor,
    /// The state and the last events, for the page.
    Page,
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// Returns the problem of the line.
    pub fn read(line: &str) -> Result<Request, RequestError> {
        Ok(serde_json::from_str(line)?)
    }
}

/// Value of an override.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum OverrideRate {
    /// Limit, bit/s of IP packets.
    Limit(u64),
    /// No limit.
    Unlimited,
    /// The end of an override.
    Clear,
}

/// Sends a request to the gateway's daemon and returns the result.
///
/// # Errors
/// No daemon, or its refusal.
pub fn ask(socket: &Path, request: &Request) -> Result<Value, AskError> {
    socket::ask(socket, request)
}
