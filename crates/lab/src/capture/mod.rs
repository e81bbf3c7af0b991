//! Captures: every frame on the air, as by a monitor interface that receives all of them.
//!
//! Link type 127: a radiotap header, then the 802.11 frame. One capture holds every hop of every
//! packet, so TCP analysis sees each segment once per hop. A capture at one node stores only frames that the
//! node sends and receives, and the content of each packet once, so that the analysis is valid there,
//! too: of forwarded packets, and of the MAC's retransmissions, only the MAC header is stored.

mod frame;
mod network;
mod radiotap;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use fairmesh_engine::observe::{AirFrame, Observer};
use fairmesh_units::NodeId;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

pub use network::Ports;

/// Stored bytes of each frame: all headers and a few bytes of the payload, which is zero.
///
/// A-MSDUs are stored whole because their headers are spread over them.
pub const SNAPLEN: u32 = 192;

/// Writes the frames of a run to a capture file.
pub struct Capture<W: Write> {
    writer: PcapWriter<W>,
    buffer: Vec<u8>,
    ports: Vec<Ports>,
    only: Option<NodeId>,
    /// Stored part of an A-MSDU of which the packets arrive one by one.
    amsdu: Option<Bundle>,
    /// By transmitter and receiver, the last data frame's number.
    last: HashMap<(NodeId, Option<NodeId>), u16>,
    failure: Option<String>,
}

/// An A-MSDU that is being assembled.
struct Bundle {
    /// Offset of its MPDU in the buffer.
    start: usize,
    /// True if all bytes so far are present.
    complete: bool,
    /// True if its packets are stored.
    whole: bool,
}

impl<W: Write> Capture<W> {
    /// Starts a capture. `ports` has one entry per flow.
    /// With `only`, frames neither from nor to that node are left out, and packets are whole where the node first has
    /// them.
    ///
    /// # Errors
    /// Returns an error if the file header cannot be written.
    pub fn new(out: W, ports: Vec<Ports>, only: Option<NodeId>) -> io::Result<Self> {
        let header = PcapHeader {
            // Room for any frame: some readers reject a frame that was longer than this before it was
            // cut.
            snaplen: 65_535,
            datalink: DataLink::IEEE802_11_RADIOTAP,
            ts_resolution: TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(out, header).map_err(io::Error::other)?;
        Ok(Capture {
            writer,
            buffer: Vec::with_capacity(4096),
            ports,
            only,
            amsdu: None,
            last: HashMap::new(),
            failure: None,
        })
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// Returns the first error while writing, since an observer cannot stop a run.
    pub fn finish(self) -> io::Result<W> {
        match self.failure {
            Some(problem) => Err(io::Error::other(problem)),
            None => {
                let mut out = self.writer.into_writer();
                out.flush()?;
                Ok(out)
            }
        }
    }
}

impl<W: Write> Capture<W> {
    /// Returns true if the content of a frame is stored.
    ///
    /// Without a node, all content is stored. With a node, content is stored once: when the node
    /// sends its own packet or first receives a packet.
    fn is_first(&mut self, frame: &AirFrame) -> bool {
        let (Some(node), Some(packet)) = (self.only, &frame.packet) else { return true };
        let last = self.last.insert((frame.from, frame.to), frame.sequence);
        // MPDUs that a block acknowledgement leaves out may come after others.
        let last = if frame.qos { frame.retry.then_some(frame.sequence) } else { last };
        let passed_on = frame.from == node && packet.source != node;
        last != Some(frame.sequence) && !passed_on
    }
}

impl<W: Write + Send + 'static> Observer for Capture<W> {
    fn frame(&mut self, frame: &AirFrame) {
        let concerns = |n| frame.from == n || frame.to.is_none_or(|to| to == n);
        if self.failure.is_some() || !self.only.is_none_or(concerns) {
            return;
        }
        let later = frame.subframe.is_some_and(|s| s.index > 0);
        let mut length = frame.mpdu_bytes;
        if !later {
            let whole = self.is_first(frame);
            self.buffer.clear();
            radiotap::write(&mut self.buffer, frame);
            let start = self.buffer.len();
            length = frame::write(&mut self.buffer, frame, &self.ports, whole);
            self.amsdu = Some(Bundle { start, complete: true, whole });
        }
        if let (Some(part), Some(bundle)) = (frame.subframe, &mut self.amsdu) {
            if bundle.whole {
                let (start, complete) = (bundle.start, &mut bundle.complete);
                frame::subframe(&mut self.buffer, start, frame, &self.ports, complete);
            }
            if part.index + 1 < part.count {
                return;
            }
        }
        if frame.subframe.is_none() {
            self.buffer.truncate(SNAPLEN as usize);
        }
        let packet = PcapPacket {
            timestamp: Duration::from_nanos(frame.start.as_nanos()),
            orig_len: radiotap::length(frame) as u32 + length,
            data: Cow::Borrowed(&self.buffer),
        };
        if let Err(e) = self.writer.write_packet(&packet) {
            self.failure = Some(match e {
                PcapError::IoError(e) => e.to_string(),
                other => other.to_string(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
