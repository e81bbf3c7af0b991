//! Unanswered attempts per link, and the stations with frames that overlapped them.

use fairmesh_units::NodeId;

use crate::frame::Transmission;
use crate::neighbours::Neighbours;
use crate::packet::LinkId;

/// Outcomes of all attempts over one link: data frames, and the RTS frames before them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LinkLosses {
    /// Exchanges started, each with an RTS or a data frame.
    pub attempts: u64,
    /// Frames for which no CTS, ACK or BlockAck came in time.
    pub unanswered: u64,
    /// Unanswered frames that had arrived in this or an earlier attempt: the response was lost.
    pub response_lost: u64,
    /// Unanswered frames that did not arrive although no other frame overlapped them.
    ///
    /// These are frame errors.
    pub clean: u64,
    /// Stations on the air at the receiver during unanswered frames that did not arrive.
    ///
    /// Each has the number of such frames, sorted by station. One frame counts for each station that
    /// overlapped it. Includes the receiver itself if it was sending.
    pub overlapped_by: Vec<(NodeId, u64)>,
}

/// Outcome of one attempt over a link: a data frame, or the RTS before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttemptOutcome {
    /// The response arrived.
    Responded {
        /// MPDUs that the receiver has; 0 for an RTS.
        accepted: u16,
    },
    /// The frame, or an earlier attempt of it, arrived; the response did not.
    ResponseLost,
    /// The frame did not arrive; these stations were on the air at the receiver meanwhile.
    ///
    /// Indices at or above the number of stations are interferers. Includes the receiver itself if
    /// it was sending.
    Overlapped(Vec<NodeId>),
    /// No response arrived although no other frame overlapped this one.
    ///
    /// This is a frame error, or an RTS to a receiver with its NAV set.
    NotOverlapped,
}

/// Losses of all links, and the stations with energy at each receiver.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    links: Vec<LinkLosses>,
    /// By receiver: transmitters with energy there, including interferers.
    disturbers: Vec<Vec<u32>>,
}

impl Losses {
    /// Builds the counters of `stations` stations, then interferers.
    ///
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

    /// Returns the outcomes of all attempts over a link so far.
    pub fn of(&self, link: LinkId) -> &LinkLosses {
        &self.links[link.0 as usize]
    }

    /// Returns the stations that were on the air at `to` during the last frame of `from`.
    pub fn overlapping(&self, from: u32, to: u32, air: &[Transmission]) -> Vec<NodeId> {
        overlapping(&self.disturbers[to as usize], from, to, air).map(NodeId).collect()
    }

    /// Counts the start of an exchange.
    #[inline]
    pub fn attempt(&mut self, link: LinkId) {
        self.links[link.0 as usize].attempts += 1;
    }

    /// Counts the last frame of `from` to `to` as unanswered.
    #[cold]
    pub fn unanswered(
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
            of.response_lost += 1;
            return;
        }
        let mut clean = true;
        for k in overlapping(&self.disturbers[to as usize], from, to, air) {
            clean = false;
            of.overlap(k);
        }
        of.clean += u64::from(clean);
    }
}

/// Returns the stations on the air during the last frame of `from`.
///
/// Of `disturbers` of `to`, and `to` itself.
fn overlapping<'a>(
    disturbers: &'a [u32],
    from: u32,
    to: u32,
    air: &'a [Transmission],
) -> impl Iterator<Item = u32> + 'a {
    let frame = &air[from as usize];
    let (start, end) = (frame.end - frame.air, frame.end);
    // Most stations of a cell were last on the air before this frame.
    let overlaps = move |t: &Transmission| t.end > start && t.end - t.air < end;
    let others = disturbers.iter().copied().filter(move |&k| k != from && k != to);
    others.chain([to]).filter(move |&k| overlaps(&air[k as usize]))
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
