//! Flows that cross nodes, and their round trips as measured there.

use std::collections::VecDeque;

use fairmesh_control::RoundTrip;
use fairmesh_units::{FlowId, Span, Time};

use super::{Listeners, Note};

/// Interval between sweeps, and idle time after which a flow counts as gone.
pub(crate) const SWEEP_INTERVAL: Span = Span::from_millis(250);
const IDLE_TIMEOUT: Span = Span::from_secs(2);
/// Maximum number of segments per flow in round-trip measurements.
const MAX_TIMED_SEGMENTS: usize = 256;

/// Data of one flow that waits for acknowledgements.
#[derive(Clone, Debug, Default)]
pub(super) struct Timed {
    generation: u32,
    /// Highest sequence number seen.
    top: u64,
    /// End of each segment, and its departure time.
    segments: VecDeque<(u64, Time)>,
}

impl Listeners {
    /// Records that data of a flow crosses a node; returns true if sweeps must begin.
    pub fn crosses(&mut self, now: Time, node: usize, flow: FlowId) -> bool {
        let Some(listener) = &mut self.at[node] else { return false };
        let Some(last) = listener.crossing.get_mut(flow.index()) else { return false };
        let new = last.replace(now).is_none();
        if new {
            self.notes.push((listener.control, Note::FlowSeen(flow)));
        }
        new && self.sweeps
    }

    /// Finds flows that have become idle; returns true if any active flow is left.
    pub fn sweep(&mut self, now: Time) -> bool {
        let mut left = false;
        for listener in self.at.iter_mut().flatten() {
            for (f, last) in listener.crossing.iter_mut().enumerate() {
                match *last {
                    Some(at) if at + IDLE_TIMEOUT <= now => {
                        *last = None;
                        self.notes.push((listener.control, Note::FlowGone(FlowId(f as u32))));
                    }
                    Some(_) => left = true,
                    None => {}
                }
            }
        }
        left
    }

    /// Records that a data segment of a flow has left a node.
    ///
    /// `end` is the sequence number after it.
    pub fn time(&mut self, now: Time, node: usize, flow: usize, generation: u32, end: u64) {
        let Some(listener) = &mut self.at[node] else { return };
        let Some(t) = listener.timed.get_mut(flow) else { return };
        if t.generation != generation {
            *t = Timed { generation, ..Timed::default() };
        }
        if end > t.top {
            t.top = end;
            if t.segments.len() < MAX_TIMED_SEGMENTS {
                t.segments.push_back((end, now));
            }
        } else {
            // Karn's rule (RFC 6298 §3): nothing is measured across a retransmission.
            t.segments.clear();
        }
    }

    /// Records that an acknowledgement of a flow passes a node.
    pub fn answered(&mut self, now: Time, node: usize, flow: usize, generation: u32, ack: u64) {
        let Some(listener) = &mut self.at[node] else { return };
        let Some(t) = listener.timed.get_mut(flow) else { return };
        if t.generation != generation {
            return;
        }
        let mut left = None;
        while let Some(&(end, at)) = t.segments.front()
            && end <= ack
        {
            left = Some(at);
            t.segments.pop_front();
        }
        if let Some(at) = left {
            let trip = RoundTrip { flow: FlowId(flow as u32), rtt: now - at };
            self.notes.push((listener.control, Note::RoundTrip(trip)));
        }
    }
}
