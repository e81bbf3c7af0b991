//! The daemon's part of the page: `status`, recent events, and the time of the last sample.

use fairmesh_linux::Shaper;
use fairmesh_units::Time;
use serde::{Deserialize, Serialize};

use crate::gateway::host::Host;
use crate::gateway::journal::Level;
use crate::gateway::report::Status;
use crate::gateway::sources::Paths;

/// An event as the page shows it.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Event {
    /// Seconds since the daemon started.
    pub at: f64,
    /// Stable name.
    pub code: String,
    /// Severity: info, warning or error.
    pub level: String,
    /// Text.
    pub text: String,
    /// Events of the same name that were suppressed before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Response to [`Request::Page`](crate::gateway::request::Request::Page).
#[derive(Clone, PartialEq, Deserialize, Debug)]
pub struct PageReport {
    /// The state of the daemon.
    pub status: Status,
    /// Last events, the oldest first.
    pub events: Vec<Event>,
    /// Time of the last sample, seconds since the daemon started.
    pub sampled: Option<f64>,
    /// The daemon's calendar, seconds since 1970.
    pub wall: u64,
    /// Paths of homes to the gateway.
    #[serde(default)]
    pub paths: Paths,
}

/// Returns the response, with the value of `status`.
pub fn report<P: Shaper>(
    host: &Host<P>,
    status: serde_json::Value,
    wall: u64,
) -> serde_json::Value {
    let level = |level: Level| match level {
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let event = |n: &crate::gateway::journal::Notice| Event {
        at: n.at.as_secs_f64(),
        code: n.code.to_owned(),
        level: level(n.level).to_owned(),
        text: n.text.clone(),
        more: n.left_out,
    };
    let events: Vec<Event> = host.governor.journal.recent().map(event).collect();
    let sampled = host.governor.sampled_at().map(Time::as_secs_f64);
    serde_json::json!({ "status": status, "events": events, "sampled": sampled, "wall": wall,
        "paths": host.governor.paths,
    })
}
