//! Requests and responses of HTTP/1.1, as bytes and as values.

use std::fmt::Write as _;
use std::sync::Arc;

/// Largest request line with headers, in bytes.
pub(super) const MAX_HEAD: usize = 8 * 1024;
/// Most header lines.
const MAX_HEADERS: usize = 48;
/// Largest body of a request, in bytes.
pub(super) const MAX_BODY: usize = 4 * 1024;

/// Bytes that several responses may share.
#[derive(Clone, Debug)]
pub enum Body {
    /// Part of the program.
    Static(&'static [u8]),
    /// Made while the daemon runs.
    Shared(Arc<Vec<u8>>),
}

impl Body {
    /// Returns the body of a text without unused memory.
    pub fn of(text: String) -> Body {
        let mut bytes = text.into_bytes();
        bytes.shrink_to_fit();
        Body::Shared(Arc::new(bytes))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Static(bytes) => bytes,
            Body::Shared(bytes) => bytes,
        }
    }

    /// Returns the memory that the body keeps in use, if others may share it.
    pub(crate) fn shared(&self) -> Option<&Arc<Vec<u8>>> {
        match self {
            Body::Static(_) => None,
            Body::Shared(bytes) => Some(bytes),
        }
    }
}

/// A complete request.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query without the question mark.
    pub query: String,
    /// Headers: name in small letters, value.
    headers: Vec<(String, String)>,
    /// Content.
    pub body: Vec<u8>,
}

/// Result of reading the first bytes of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// More bytes are needed.
    Partial,
    /// A request.
    Complete(Request),
    /// The status and text of a refusal.
    Refused(Status, &'static str),
}

impl Request {
    /// Reads a request (RFC 9112 §2 to §6).
    pub fn parse(bytes: &[u8]) -> Parsed {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let length = match head.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
            Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => return Parsed::Partial,
            Ok(_) | Err(httparse::Error::TooManyHeaders) => {
                return Parsed::Refused(Status::HeadersTooLarge, "the request is too long\n");
            }
            Err(_) => return Parsed::Refused(Status::BadRequest, "not a request of HTTP/1.1\n"),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let headers: Vec<(String, String)> =
            head.headers.iter().map(|h| (h.name.to_ascii_lowercase(), text(h.value))).collect();
        let target = head.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Request {
            method: head.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: Vec::new(),
        };
        if request.header("transfer-encoding").is_some() {
            return Parsed::Refused(Status::LengthRequired, "expected Content-Length\n");
        }
        let size = match request.header("content-length").map(str::parse::<usize>) {
            None => 0,
            Some(Ok(size)) if size <= MAX_BODY => size,
            Some(_) => return Parsed::Refused(Status::TooLarge, "the content is too long\n"),
        };
        match bytes.get(length..length + size) {
            None => Parsed::Partial,
            Some(body) => {
                request.body = body.to_vec();
                Parsed::Complete(request)
            }
        }
    }

    /// Returns the value of a header; `None` if it is absent or stands more than once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        all.next().filter(|_| all.next().is_none())
    }

    /// True if the client only reads.
    pub fn reads(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// Status of a response (RFC 9110 §15).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Status 200.
    Ok,
    /// Status 400.
    BadRequest,
    /// Status 401.
    Unauthorized,
    /// Status 403.
    Forbidden,
    /// Status 404.
    NotFound,
    /// Status 405.
    MethodNotAllowed,
    /// Status 409.
    Conflict,
    /// Status 411.
    LengthRequired,
    /// Status 413.
    TooLarge,
    /// Status 415.
    UnsupportedType,
    /// Status 421.
    Misdirected,
    /// Status 429.
    TooManyRequests,
    /// Status 431.
    HeadersTooLarge,
    /// Status 503.
    Unavailable,
}

impl Status {
    const fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::Conflict => "409 Conflict",
            Status::LengthRequired => "411 Length Required",
            Status::TooLarge => "413 Content Too Large",
            Status::UnsupportedType => "415 Unsupported Media Type",
            Status::Misdirected => "421 Misdirected Request",
            Status::TooManyRequests => "429 Too Many Requests",
            Status::HeadersTooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// A response, or the beginning of a stream of events.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status line and headers.
    head: Vec<u8>,
    body: Body,
}

impl Response {
    /// Returns a response with its headers: name, value.
    pub fn new(status: Status, kind: &str, headers: &[(&str, &str)], body: Body) -> Response {
        let length = body.bytes().len().to_string();
        let mut response = Response::stream(status, kind, headers);
        let end = response.head.len() - 2;
        response.head.truncate(end);
        response.head.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
        response.body = body;
        response
    }

    /// Returns the beginning of a response that ends with the connection.
    pub(super) fn stream(status: Status, kind: &str, headers: &[(&str, &str)]) -> Response {
        let mut head = format!("HTTP/1.1 {}\r\nContent-Type: {kind}\r\n", status.line());
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head += "Connection: close\r\n\r\n";
        Response { head: head.into_bytes(), body: Body::Static(b"") }
    }

    /// Returns an event of a stream.
    pub(super) fn event(body: Body) -> Response {
        Response { head: Vec::new(), body }
    }

    /// Returns a response of plain text.
    pub fn text(status: Status, text: &str) -> Response {
        Response::new(status, "text/plain; charset=utf-8", &[], Body::of(text.to_owned()))
    }

    /// Removes the body; its length stays in the headers.
    pub fn without_body(mut self) -> Response {
        self.body = Body::Static(b"");
        self
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    pub(super) fn len(&self) -> usize {
        self.head.len() + self.body.bytes().len()
    }

    /// Returns the next bytes after the first `sent`.
    pub(super) fn rest(&self, sent: usize) -> &[u8] {
        match self.head.get(sent..) {
            Some(head) if !head.is_empty() => head,
            _ => self.body.bytes().get(sent.saturating_sub(self.head.len())..).unwrap_or_default(),
        }
    }

    /// Returns the response as one piece.
    pub fn bytes(&self) -> Vec<u8> {
        [&self.head, self.body.bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str) -> Request {
        match Request::parse(text.as_bytes()) {
            Parsed::Complete(request) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_read_and_bounded() {
        let r = complete("GET /a?b=1 HTTP/1.1\r\nHost: x\r\nAccept: y\r\n\r\n");
        assert_eq!(
            (&*r.method, &*r.path, &*r.query, r.header("host")),
            ("GET", "/a", "b=1", Some("x"))
        );
        assert_eq!(complete("GET / HTTP/1.0\n\n").path, "/");
        assert_eq!(Request::parse(b"GET / HTTP/1.1\r\nHost"), Parsed::Partial);
        let post = "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(Request::parse(post.as_bytes()), Parsed::Partial);
        assert_eq!(complete(&format!("{post}abc")).body, b"abc");
        let refused = |text: &str| match Request::parse(text.as_bytes()) {
            Parsed::Refused(status, _) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused("nonsense\r\n\r\n"), Status::BadRequest);
        assert_eq!(refused(&"x".repeat(MAX_HEAD + 1)), Status::HeadersTooLarge);
        let many = "A: b\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{many}\r\n")), Status::HeadersTooLarge);
        let long = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", MAX_BODY + 1);
        assert_eq!(refused(&long), Status::TooLarge);
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(refused(chunks), Status::LengthRequired);
    }

    /// Two values of one header could mean one thing to a proxy and another one here.
    #[test]
    fn a_header_that_stands_twice_has_no_value() {
        let r = complete("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
        assert_eq!(r.header("host"), None);
    }
}
