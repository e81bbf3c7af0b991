//! Events that must not happen, and their reports.

/// Events that must not happen; they are counted and reported by name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anomaly {
    Stranger,
    Header,
    Message,
    Stuck,
    Level,
    Dead,
    Counters,
    Outsiders,
}

impl Anomaly {
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Anomaly::Stranger => (
                "mesh-maxmin.stranger",
                "node {} is not a neighbour and sends as one, {} so far: ignored",
            ),
            Anomaly::Header => (
                "mesh-maxmin.bad-header",
                "header bits of node {} make no sense, {} so far: ignored",
            ),
            Anomaly::Message => (
                "mesh-maxmin.bad-message",
                "a message of node {} makes no sense, {} so far: ignored",
            ),
            Anomaly::Stuck => (
                "mesh-maxmin.stuck",
                "packets wait at node {} and none leaves, {} so far: its queue counts as empty",
            ),
            Anomaly::Level => (
                "mesh-maxmin.bad-level",
                "the level of node {} was not a number, {} so far: it is reset",
            ),
            Anomaly::Counters => (
                "mesh-maxmin.bad-counters",
                "channel counters of node {} jumped or stood still, {} so far: what was measured before holds",
            ),
            Anomaly::Outsiders => (
                "mesh-maxmin.outsiders",
                "around node {} many packets are of flows without a limit, {} so far: it limits none",
            ),
            Anomaly::Dead => (
                "mesh-maxmin.vanished",
                "hardly anything gets through to node {}, {} so far: its losses do not count",
            ),
        }
    }
}
