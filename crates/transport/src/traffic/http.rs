//! Requests and responses.

use std::collections::VecDeque;

use fairmesh_units::{Stream, Time};

use super::{Asking, Do, Out, Side, SizeLaw};

/// A request on its way, or its answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    since: Time,
    /// Bytes of the request that have not arrived at the server.
    request: u64,
    /// Bytes of the answer that have not arrived at the client.
    response: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Http {
    request: SizeLaw,
    response: SizeLaw,
    asking: Asking,
    per_connection: u32,
    /// Requests left on this connection; 0: a new one is needed.
    left: u32,
    /// What is not answered yet, in order: answers keep it (RFC 9112 §9.3.2).
    asked: VecDeque<Asked>,
    /// When those were asked whose answers have arrived since that was last taken.
    answered: VecDeque<Time>,
}

impl Http {
    pub(super) fn new(
        request: SizeLaw,
        response: SizeLaw,
        asking: Asking,
        per_connection: u32,
    ) -> Self {
        Http {
            request,
            response,
            asking,
            per_connection,
            left: 0,
            asked: VecDeque::new(),
            answered: VecDeque::new(),
        }
    }

    /// Sends a request, on a new connection if the old one is used up.
    pub(super) fn ask(&mut self, now: Time, rng: &mut Stream, out: Out) -> Time {
        if self.left == 0 {
            self.left = self.per_connection;
            out(Do::Connect);
        }
        if matches!(self.asking, Asking::AfterAnswer(_)) {
            self.left -= 1;
        }
        let request = self.request.draw(rng);
        self.asked.push_back(Asked { since: now, request, response: self.response.draw(rng) });
        out(Do::Write { side: Side::Client, bytes: request });
        match self.asking {
            Asking::AfterAnswer(_) => Time::NEVER,
            Asking::Every(gap) => now + gap.draw(rng),
        }
    }

    /// Returns when the next request is due, where an answer decides that.
    pub(super) fn on_delivered(
        &mut self,
        now: Time,
        side: Side,
        bytes: u64,
        rng: &mut Stream,
        out: Out,
    ) -> Option<Time> {
        let mut bytes = bytes;
        match side {
            Side::Server => {
                let mut answers = 0;
                for asked in self.asked.iter_mut().filter(|a| a.request > 0) {
                    let part = asked.request.min(bytes);
                    asked.request -= part;
                    bytes -= part;
                    if asked.request > 0 {
                        break;
                    }
                    answers += asked.response;
                }
                if answers > 0 {
                    out(Do::Write { side: Side::Server, bytes: answers });
                }
                None
            }
            Side::Client => {
                let mut next = None;
                while let Some(first) = self.asked.front_mut().filter(|a| a.request == 0) {
                    let part = first.response.min(bytes);
                    first.response -= part;
                    bytes -= part;
                    if first.response > 0 {
                        break;
                    }
                    self.answered.push_back(first.since);
                    self.asked.pop_front();
                    if let Asking::AfterAnswer(pause) = self.asking {
                        if self.left == 0 {
                            out(Do::Close);
                        }
                        next = Some(now + pause.draw(rng));
                    }
                }
                next
            }
        }
    }

    /// Whether a request waits for the rest of its answer.
    pub(super) fn is_active(&self) -> bool {
        !self.asked.is_empty()
    }

    /// When a request was made whose answer has arrived since this was last asked.
    pub(super) fn answered(&mut self) -> Option<Time> {
        self.answered.pop_front()
    }
}
