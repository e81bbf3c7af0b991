//! Requests and responses.

use fairmesh_units::{Bytes, Stream, Time};

use super::{Do, Out, Pause, Side, SizeLaw};

#[derive(Clone, Debug)]
pub(super) struct Http {
    request: u64,
    response: SizeLaw,
    think: Pause,
    per_connection: u32,
    /// Requests left on this connection; 0: a new one is needed.
    left: u32,
    /// Bytes of the running request that have not arrived at the server.
    request_missing: u64,
    /// Bytes of the running response that have not arrived at the client.
    response_missing: u64,
}

impl Http {
    pub(super) const fn new(
        request: Bytes,
        response: SizeLaw,
        think: Pause,
        per_connection: u32,
    ) -> Self {
        Http {
            request: request.0,
            response,
            think,
            per_connection,
            left: 0,
            request_missing: 0,
            response_missing: 0,
        }
    }

    /// Sends a request, on a new connection if the old one is used up.
    pub(super) fn ask(&mut self, rng: &mut Stream, out: Out) -> Time {
        if self.left == 0 {
            self.left = self.per_connection;
            out(Do::Connect);
        }
        self.left -= 1;
        self.request_missing = self.request;
        self.response_missing = self.response.draw(rng);
        out(Do::Write { side: Side::Client, bytes: self.request });
        Time::NEVER
    }

    /// Returns when the next request is due, once this response has arrived.
    pub(super) fn on_delivered(
        &mut self,
        now: Time,
        side: Side,
        bytes: u64,
        rng: &mut Stream,
        out: Out,
    ) -> Option<Time> {
        match side {
            Side::Server if self.request_missing > 0 => {
                self.request_missing = self.request_missing.saturating_sub(bytes);
                if self.request_missing == 0 {
                    out(Do::Write { side: Side::Server, bytes: self.response_missing });
                }
                None
            }
            Side::Client if self.response_missing > 0 => {
                self.response_missing = self.response_missing.saturating_sub(bytes);
                if self.response_missing > 0 {
                    return None;
                }
                if self.left == 0 {
                    out(Do::Close);
                }
                Some(now + self.think.draw(rng))
            }
            _ => None,
        }
    }
}
