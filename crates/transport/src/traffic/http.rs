//! Requests and responses.

use std::collections::VecDeque;

use fairmesh_units::{Stream, Time};

use super::{Action, Out, RequestTiming, Side, SizeLaw};

/// A request in transit, or its response.
#[derive(Clone, Copy, Debug)]
struct Request {
    since: Time,
    /// Bytes of the request that have not arrived at the server.
    request: u64,
    /// Bytes of the response that have not arrived at the client.
    response: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Http {
    request: SizeLaw,
    response: SizeLaw,
    asking: RequestTiming,
    per_connection: u32,
    /// Requests left on this connection; at 0 a new one is needed.
    left: u32,
    /// Requests without a response, in order; responses keep this order (RFC 9112 §9.3.2).
    requests: VecDeque<Request>,
    /// Request times of completed responses, until they are taken.
    responses_completed: VecDeque<Time>,
}

impl Http {
    pub(super) fn new(
        request: SizeLaw,
        response: SizeLaw,
        asking: RequestTiming,
        per_connection: u32,
    ) -> Self {
        Http {
            request,
            response,
            asking,
            per_connection,
            left: 0,
            requests: VecDeque::new(),
            responses_completed: VecDeque::new(),
        }
    }

    /// Sends a request, on a new connection if the old one has no requests left.
    pub(super) fn send_request(&mut self, now: Time, rng: &mut Stream, out: Out) -> Time {
        if self.left == 0 {
            self.left = self.per_connection;
            out(Action::Connect);
        }
        if matches!(self.asking, RequestTiming::AfterAnswer(_)) {
            self.left -= 1;
        }
        let request = self.request.draw(rng);
        self.requests.push_back(Request { since: now, request, response: self.response.draw(rng) });
        out(Action::Write { side: Side::Client, bytes: request });
        match self.asking {
            RequestTiming::AfterAnswer(_) => Time::NEVER,
            RequestTiming::Every(gap) => now + gap.draw(rng),
        }
    }

    /// Returns the instant of the next request, if a response determines it.
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
                for requests in self.requests.iter_mut().filter(|a| a.request > 0) {
                    let part = requests.request.min(bytes);
                    requests.request -= part;
                    bytes -= part;
                    if requests.request > 0 {
                        break;
                    }
                    answers += requests.response;
                }
                if answers > 0 {
                    out(Action::Write { side: Side::Server, bytes: answers });
                }
                None
            }
            Side::Client => {
                let mut next = None;
                while let Some(first) = self.requests.front_mut().filter(|a| a.request == 0) {
                    let part = first.response.min(bytes);
                    first.response -= part;
                    bytes -= part;
                    if first.response > 0 {
                        break;
                    }
                    self.responses_completed.push_back(first.since);
                    self.requests.pop_front();
                    if let RequestTiming::AfterAnswer(pause) = self.asking {
                        if self.left == 0 {
                            out(Action::Close);
                        }
                        next = Some(now + pause.draw(rng));
                    }
                }
                next
            }
        }
    }

    /// Returns true if a request waits for the rest of its response.
    pub(super) fn is_active(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Returns the request time of a response completed since the last call.
    pub(super) fn responses_completed(&mut self) -> Option<Time> {
        self.responses_completed.pop_front()
    }
}
