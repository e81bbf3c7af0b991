//! Attempts without an answer, per link, and the stations whose frames overlapped them.

use fairmesh_units::NodeId;

use crate::air::{Air, Transmission};
use crate::neighbours::Neighbours;
use crate::packet::LinkId;

/// Outcome of all attempts over one link: data frames, and the RTS frames before them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LinkLosses {
    /// Exchanges begun: each starts with an RTS or a data frame.
    pub attempts: u64,
    /// Frames for which no CTS, ACK or BlockAck came in time.
    pub unanswered: u64,
    /// Unanswered frames of which this or an earlier attempt had arrived: a response was lost.
    pub answer_lost: u64,
    /// Unanswered frames that did not arrive and that no other frame overlapped: frame errors.
    pub clean: u64,
    /// Stations that were on the air at the receiver during unanswered frames that did not arrive.
    /// Each has the number of such frames. The receiver itself is listed if it was sending.
    /// One frame counts for each station that overlapped it. Sorted by station.
    pub overlapped_by: Vec<(NodeId, u64)>,
}

/// Losses of all links, and the stations whose energy reaches each receiver.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    links: Vec<LinkLosses>,
    /// By receiver: transmitters whose energy reaches it, interferers included.
    disturbers: Vec<Vec<u32>>,
}

impl Losses {
    /// Builds the counters of `stations` stations, then interferers.
    /// Links are the first `links` entries of `neighbours`.
    pub fn new(
        neighbours: &Neighbours,
        transmitters: usize,
        stations: usize,
        links: usize,
    ) -> Self {
        let mut disturbers = vec![Vec::new(); stations];
        for from in 0..transmitters as u32 {
            for k in neighbours.of(from) {
                disturbers[neighbours.entry(k).to as usize].push(from);
            }
        }
        Losses { links: vec![LinkLosses::default(); links], disturbers }
    }

    /// Counts the start of an exchange.
    #[inline]
    pub fn attempt(&mut self, link: LinkId) {
        self.links[link.0 as usize].attempts += 1;
    }

    /// Counts the last frame of `from` to `to` as unanswered.
    #[cold]
    fn unanswered(
        &mut self,
        link: LinkId,
        from: u32,
        to: u32,
        arrived: bool,
        air: &[Transmission],
    ) {
        let of = &mut self.links[link.0 as usize];
        of.unanswered += 1;
        if arrived {
            of.answer_lost += 1;
            return;
        }
        let frame = &air[from as usize];
        let (start, end) = (frame.end - frame.air, frame.end);
        // Most stations of a cell were last on the air before this frame.
        let overlaps = |t: &Transmission| t.end > start && t.end - t.air < end;
        let mut clean = true;
        for &k in &self.disturbers[to as usize] {
            if overlaps(&air[k as usize]) && k != from {
                clean = false;
                of.overlap(k);
            }
        }
        if overlaps(&air[to as usize]) {
            clean = false;
            of.overlap(to);
        }
        of.clean += u64::from(clean);
    }
}

impl LinkLosses {
    /// Counts a frame that a station overlapped.
    fn overlap(&mut self, station: u32) {
        match self.overlapped_by.binary_search_by_key(&station, |(n, _)| n.0) {
            Ok(at) => self.overlapped_by[at].1 += 1,
            Err(at) => self.overlapped_by.insert(at, (NodeId(station), 1)),
        }
    }
}

impl Air {
    /// Returns the outcomes of all attempts over a link so far.
    pub fn losses(&self, link: LinkId) -> &LinkLosses {
        &self.losses.links[link.0 as usize]
    }

    /// Returns true if a station senses the frames of another station or of an interferer.
    pub fn senses(&self, station: NodeId, other: NodeId) -> bool {
        self.neighbours.find(other.0, station.0).is_some()
    }

    /// Counts the station's frame in hand as unanswered.
    pub(crate) fn count_unanswered(&mut self, station: u32) {
        let v = &self.service[station as usize];
        let Some(link) = v.link else { return };
        let arrived = v.mpdus.iter().take(v.aggregate).any(|m| m.accepted);
        self.losses.unanswered(link, station, v.to, arrived, &self.on_air);
    }
}
