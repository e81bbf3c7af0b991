//! A netlink socket: requests, batches of changes, dumps.
//!
//! `netlink-packet-core` does the message framing; [`crate::tc`] and [`crate::link`] handle the contents of messages.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use netlink_packet_core::{Emitable, NetlinkBuffer, NetlinkHeader};
use netlink_sys::{
    Socket, SocketAddr,
    protocols::{NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE},
};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::time::{TimeVal, TimeValLike};

use crate::error::Error;

/// Bytes of a message header (`struct nlmsghdr`).
pub const HEADER_BYTES: usize = 16;
/// Most bytes of one send. The kernel copies them into one buffer.
const MAX_CHUNK: usize = 32 * 1024;
/// Most messages of one send.
///
/// If the kernel refuses all of them with texts, the replies still fit into a socket's buffer
/// (`net.core.rmem_default`).
const MAX_MESSAGES: usize = 100;
/// Size of the receive buffer.
///
/// The kernel fills dumps up to the size of earlier reads, at most 32 KiB.
const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;

const NLM_F_REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const NLM_F_ACK: u16 = libc::NLM_F_ACK as u16;
const NLM_F_DUMP: u16 = libc::NLM_F_DUMP as u16;
const NLM_F_ECHO: u16 = libc::NLM_F_ECHO as u16;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// Messages that are carried out in order and independently.
///
/// A refused message does not stop those after it.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Adds a message of `kind` with flags beyond `NLM_F_REQUEST`.
    ///
    /// `body` appends the payload, which begins at the buffer's length and must be padded to 4 bytes.
    pub fn push(&mut self, kind: u16, flags: u16, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.starts.push(start);
        self.bytes.resize(start + HEADER_BYTES, 0);
        body(&mut self.bytes);
        let mut header = NetlinkHeader::default();
        header.length = (self.bytes.len() - start) as u32;
        header.message_type = kind;
        header.flags = flags | NLM_F_REQUEST;
        header.emit(&mut self.bytes[start..]);
    }

    /// Returns a message's bytes, including the header.
    pub fn message(&self, index: usize) -> &[u8] {
        let end = self.starts.get(index + 1).copied().unwrap_or(self.bytes.len());
        &self.bytes[self.starts[index]..end]
    }

    /// Returns the bytes of all messages.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the batch; its memory stays allocated.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }
}

/// A refused message of a batch.
#[derive(Debug)]
pub struct Refusal {
    /// Position in the batch.
    pub index: usize,
    /// The kernel's error number.
    pub source: io::Error,
    /// The kernel's text.
    pub message: Option<String>,
}

impl Refusal {
    /// Converts it to an error about `what`.
    pub fn into_error(self, what: impl Into<String>) -> Error {
        let what = what.into();
        if matches!(self.source.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
            return Error::NotPermitted { what };
        }
        Error::Kernel { what, source: self.source, message: self.message }
    }
}

/// Timeout of a reply of the kernel, in s.
const REPLY_TIMEOUT_S: i64 = 10;

/// A netlink socket, by default to routing and traffic control.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
    received: Vec<u8>,
    progress: Progress,
}

/// Callback during long batches.
#[derive(Default)]
struct Progress(Option<Box<dyn FnMut() + Send>>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(…)" } else { "Progress" })
    }
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn open() -> Result<Self, Error> {
        Netlink::with_groups(&[])
    }

    /// Opens a socket that also receives multicast groups (`RTNLGRP_…`).
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn with_groups(groups: &[u32]) -> Result<Self, Error> {
        Netlink::of(NETLINK_ROUTE, groups)
    }

    /// Opens a socket to netfilter.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn netfilter() -> Result<Self, Error> {
        Netlink::of(NETLINK_NETFILTER, &[])
    }

    /// Opens a socket to generic netlink, which serves `nl80211`.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn generic() -> Result<Self, Error> {
        Netlink::of(NETLINK_GENERIC, &[])
    }

    fn of(protocol: isize, groups: &[u32]) -> Result<Self, Error> {
        let failed = || Error::io("opening a netlink socket");
        let mut socket = Socket::new(protocol).map_err(failed())?;
        socket.bind_auto().map_err(failed())?;
        // Both exist since Linux 4.12 and 4.3; older kernels reply without texts.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        // A reply that was dropped for lack of memory must not block its caller permanently.
        let patience = TimeVal::seconds(REPLY_TIMEOUT_S);
        setsockopt(&socket, ReceiveTimeout, &patience).map_err(|e| failed()(io::Error::from(e)))?;
        for &group in groups {
            socket.add_membership(group).map_err(failed())?;
        }
        let received = Vec::with_capacity(RECEIVE_BUFFER_BYTES);
        Ok(Netlink { socket, sequence: 0, received, progress: Progress::default() })
    }

    /// Sets a callback that runs after each part of a batch that the kernel has carried out.
    pub fn on_progress(&mut self, report: impl FnMut() + Send + 'static) {
        self.progress = Progress(Some(Box::new(report)));
    }

    /// Carries out a batch. Every message is tried; the refused ones are returned in order.
    ///
    /// # Errors
    /// Returns an error if the socket fails.
    pub fn apply(&mut self, batch: &mut Batch) -> Result<Vec<Refusal>, Error> {
        let mut refusals = Vec::new();
        let mut first = 0;
        while first < batch.len() {
            let from = batch.starts[first];
            let mut end = first + 1;
            let stop = |end: usize| batch.starts.get(end).copied().unwrap_or(batch.bytes.len());
            while end < batch.len()
                && end - first < MAX_MESSAGES
                && stop(end + 1) - from <= MAX_CHUNK
            {
                end += 1;
            }
            let until = stop(end);
            let base = self.sequence.wrapping_add(1);
            for index in first..end {
                self.sequence = self.sequence.wrapping_add(1);
                let at = batch.starts[index];
                let ack = if index + 1 == end { NLM_F_ACK } else { 0 };
                number(&mut batch.bytes[at..], self.sequence, ack);
            }
            self.send(&batch.bytes[from..until])?;
            self.collect(base, first, &mut refusals)?;
            first = end;
            if let Some(report) = &mut self.progress.0 {
                report();
            }
        }
        Ok(refusals)
    }

    /// Carries out one change; `what` names it in the error.
    ///
    /// # Errors
    /// Returns the kernel's refusal.
    pub fn change(
        &mut self,
        what: impl FnOnce() -> String,
        kind: u16,
        flags: u16,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let mut batch = Batch::new();
        batch.push(kind, flags, body);
        match self.apply(&mut batch)?.into_iter().next() {
            None => Ok(()),
            Some(refusal) => Err(refusal.into_error(what())),
        }
    }

    /// Sends a request with one reply, which `read` gets with its type.
    ///
    /// # Errors
    /// Returns the kernel's refusal, for example [`libc::ENOENT`].
    pub fn get<T>(
        &mut self,
        what: &'static str,
        kind: u16,
        body: impl FnOnce(&mut Vec<u8>),
        mut read: impl FnMut(u16, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut batch = Batch::new();
        // Replies about qdiscs and classes come as notifications, to the sender only on request.
        batch.push(kind, NLM_F_ACK | NLM_F_ECHO, body);
        self.sequence = self.sequence.wrapping_add(1);
        number(&mut batch.bytes, self.sequence, 0);
        self.send(&batch.bytes)?;
        let mut found = None;
        self.replies(what, |kind, payload| {
            if found.is_none() {
                found = read(kind, payload);
            }
        })?;
        Ok(found)
    }

    /// Dumps all objects of a kind; `each` gets type and payload of every reply.
    ///
    /// # Errors
    /// Returns the kernel's refusal.
    pub fn dump(
        &mut self,
        what: &'static str,
        kind: u16,
        body: impl FnOnce(&mut Vec<u8>),
        each: impl FnMut(u16, &[u8]),
    ) -> Result<(), Error> {
        let mut batch = Batch::new();
        batch.push(kind, NLM_F_DUMP, body);
        self.sequence = self.sequence.wrapping_add(1);
        number(&mut batch.bytes, self.sequence, 0);
        self.send(&batch.bytes)?;
        self.replies(what, each)
    }

    /// Carries out a batch as a transaction of `nfnetlink`: all of it or nothing.
    ///
    /// The batch lies between a begin and an end message.
    ///
    /// # Errors
    /// Returns the first refusal.
    pub fn transaction(&mut self, what: &'static str, batch: &mut Batch) -> Result<(), Error> {
        let base = self.sequence.wrapping_add(1);
        // The end message is not acknowledged before Linux 6.10; the message before it is.
        let last = batch.len().saturating_sub(2);
        for index in 0..batch.len() {
            self.sequence = self.sequence.wrapping_add(1);
            let ack = if index == last { NLM_F_ACK } else { 0 };
            number(&mut batch.bytes[batch.starts[index]..], self.sequence, ack);
        }
        self.send(&batch.bytes)?;
        let awaited = base.wrapping_add(last as u32);
        loop {
            self.receive()?;
            let mut done = false;
            for message in messages(&self.received) {
                let message = message.map_err(|why| malformed(what, why))?;
                let offset = message.sequence_number().wrapping_sub(base) as usize;
                if message.message_type() != libc::NLMSG_ERROR as u16 || offset >= batch.len() {
                    continue; // of an earlier call that was given up
                }
                if let Some((source, message)) = refusal(&message) {
                    return Err(Refusal { index: offset, source, message }.into_error(what));
                }
                done |= message.sequence_number() == awaited;
            }
            if done {
                return Ok(());
            }
        }
    }

    /// Reads the messages of multicast groups, without waiting.
    ///
    /// Returns `false` if the kernel dropped some.
    ///
    /// # Errors
    /// Returns an error if the socket fails.
    pub fn read_events(&mut self, mut each: impl FnMut(u16, &[u8])) -> Result<bool, Error> {
        let mut complete = true;
        loop {
            self.received.clear();
            match self.socket.recv(&mut self.received, libc::MSG_DONTWAIT) {
                Ok(0) => return Ok(complete),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(complete),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    complete = false;
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Error::io("reading netlink events")(e)),
            }
            for message in messages(&self.received) {
                let message = message.map_err(|why| malformed("netlink events", why))?;
                each(message.message_type(), message.payload());
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        let failed = Error::io("sending to netlink");
        self.socket.send_to(bytes, &SocketAddr::new(0, 0), 0).map(|_| ()).map_err(failed)
    }

    /// Reads one datagram without waiting, and passes type and payload of its messages to `each`.
    ///
    /// Returns false if none waits. Datagrams that found no room are lost without an error.
    ///
    /// # Errors
    /// Returns an error if the socket fails.
    pub fn pending(&mut self, mut each: impl FnMut(u16, &[u8])) -> Result<bool, Error> {
        self.received.clear();
        match self.socket.recv(&mut self.received, libc::MSG_DONTWAIT) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(true),
            Err(e) => return Err(Error::io("reading netlink")(e)),
        }
        for message in messages(&self.received).map_while(Result::ok) {
            each(message.message_type(), message.payload());
        }
        Ok(true)
    }

    fn receive(&mut self) -> Result<(), Error> {
        loop {
            self.received.clear();
            match self.socket.recv(&mut self.received, 0) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("reading netlink")(e)),
            }
        }
    }

    /// Reads acknowledgements of the messages from number `base` to the last one sent.
    fn collect(
        &mut self,
        base: u32,
        first: usize,
        refusals: &mut Vec<Refusal>,
    ) -> Result<(), Error> {
        loop {
            self.receive()?;
            for message in messages(&self.received) {
                let message = message.map_err(|why| malformed("a change", why))?;
                if message.message_type() != libc::NLMSG_ERROR as u16 {
                    continue;
                }
                let offset = message.sequence_number().wrapping_sub(base);
                if offset > self.sequence.wrapping_sub(base) {
                    continue; // of an earlier call that was given up
                }
                if let Some((source, words)) = refusal(&message) {
                    let index = first + offset as usize;
                    refusals.push(Refusal { index, source, message: words });
                }
                if message.sequence_number() == self.sequence {
                    return Ok(());
                }
            }
        }
    }

    /// Reads replies up to the one that ends them.
    fn replies(
        &mut self,
        what: &'static str,
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<(), Error> {
        loop {
            self.receive()?;
            for message in messages(&self.received) {
                let message = message.map_err(|why| malformed(what, why))?;
                if message.sequence_number() != self.sequence {
                    continue;
                }
                match i32::from(message.message_type()) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => {
                        return match refusal(&message) {
                            None => Ok(()),
                            Some((source, message)) => {
                                Err(Refusal { index: 0, source, message }.into_error(what))
                            }
                        };
                    }
                    _ => each(message.message_type(), message.payload()),
                }
            }
        }
    }
}

impl AsRawFd for Netlink {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn malformed(what: &'static str, why: String) -> Error {
    Error::Malformed { what, why }
}

/// Writes the sequence number and further flags into a message's header.
fn number(message: &mut [u8], sequence: u32, flags: u16) {
    let mut buffer = NetlinkBuffer::new(message);
    buffer.set_sequence_number(sequence);
    let flags = buffer.flags() | flags;
    buffer.set_flags(flags);
}

/// Returns the messages of one read.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Result<NetlinkBuffer<&[u8]>, String>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        match NetlinkBuffer::new_checked(bytes) {
            Ok(message) => {
                let length = (message.length() as usize).next_multiple_of(4).min(bytes.len());
                bytes = &bytes[length..];
                Some(Ok(message))
            }
            Err(e) => {
                bytes = &[];
                Some(Err(e.to_string()))
            }
        }
    })
}

/// Counts the messages in some bytes as if read from the kernel, up to the first invalid one.
pub fn count(bytes: &[u8]) -> usize {
    let whole = messages(bytes).map_while(Result::ok);
    whole.inspect(|message| _ = refusal(message)).count()
}

/// Returns the error of an `NLMSG_ERROR` with the kernel's text.
///
/// `None` for an acknowledgement.
fn refusal(message: &NetlinkBuffer<&[u8]>) -> Option<(io::Error, Option<String>)> {
    let payload = message.payload();
    let code = payload.first_chunk().map_or(-libc::EPROTO, |c| i32::from_ne_bytes(*c));
    if code == 0 {
        return None;
    }
    let mut words = None;
    if message.flags() & NLM_F_ACK_TLVS != 0 {
        let echoed = match payload.get(4..8) {
            Some(length) if message.flags() & NLM_F_CAPPED == 0 => {
                u32::from_ne_bytes(length.try_into().unwrap_or_default()) as usize
            }
            _ => HEADER_BYTES,
        };
        let attributes = payload.get(4 + echoed.next_multiple_of(4)..).unwrap_or_default();
        words = crate::tc::attributes(attributes)
            .find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG)
            .map(|(_, text)| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
    }
    Some((io::Error::from_raw_os_error(code.checked_neg().unwrap_or(libc::EPROTO)), words))
}
