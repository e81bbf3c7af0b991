//! State of a medium with 802.11n, ac or ax: sequence numbers, windows and overlaps.

use fairmesh_phy::Phy;
use fairmesh_phy::frame::QOS_OVERHEAD;
use fairmesh_phy::mcs::Generation;
use fairmesh_units::Span;

use crate::amsdu::Bundles;
use crate::packet::Outgoing;
use crate::reorder::{Reorder, SEQUENCE_MASK};

/// State that 802.11n, ac or ax adds to the medium.
#[derive(Clone, Debug)]
pub(crate) struct Aggregates {
    /// Longest A-MPDU, in bytes.
    pub longest: u32,
    /// TXOP limit; zero: one frame.
    pub txop: Span,
    /// True if frames are lost by signal-to-noise ratio, not by the capture margin.
    pub noise_decides: bool,
    /// True if an RTS is answered regardless of the NAV, as in ns-3.37's ad-hoc networks.
    pub ignores_nav: bool,
    /// Length of the window of a block acknowledgement, MPDUs.
    pub window: usize,
    /// True if a frame of one MPDU is also an A-MPDU (VHT and HE).
    pub lone_delimiter: bool,
    /// Last sequence number assigned, per link and, if there are several, per category.
    pub numbers: Vec<u16>,
    /// Reorder buffers at the receivers, indexed like `numbers`.
    pub reorder: Vec<Reorder>,
    /// Per station: overlaps of the locked frame with other frames.
    pub overlaps: Vec<Overlaps>,
    /// Packets of A-MSDUs, except the first of each.
    pub bundles: Bundles,
    pub offered: Vec<Outgoing>,
    /// For each offered packet, true if it joined the previous MPDU; used only with A-MSDUs.
    pub joined: Vec<bool>,
    pub up: Vec<u32>,
    /// For each MPDU of the frame under examination, true if it is good; unused if `all_good`.
    pub good: Vec<bool>,
    pub all_good: bool,
}

/// Intervals in which a locked frame overlapped others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlaps {
    /// Start of the present overlap, if any.
    pub since: Option<u64>,
    /// Past overlaps, from and until, ns.
    pub past: Vec<(u64, u64)>,
    /// Total energy at the station from each instant on, ns and aW; used only if `noise_decides`.
    pub levels: Vec<(u64, u64)>,
}

impl Overlaps {
    pub fn overlaps(&self, from: u64, to: u64) -> bool {
        self.past.iter().any(|&(start, end)| start < to && from < end)
    }
}

impl Aggregates {
    pub fn new(
        phy: &Phy,
        txop: Span,
        stations: usize,
        links: usize,
        noise_decides: bool,
    ) -> Option<Self> {
        let modern = phy.as_modern()?;
        Some(Aggregates {
            longest: modern.ampdu,
            txop,
            noise_decides,
            ignores_nav: modern.ns3,
            window: modern.window as usize,
            lone_delimiter: modern.generation != Generation::Ht,
            numbers: vec![0; links],
            reorder: vec![Reorder::new(); links],
            overlaps: vec![Overlaps::default(); stations],
            bundles: Bundles::new(modern, links),
            offered: Vec::new(),
            joined: Vec::new(),
            up: Vec::new(),
            good: Vec::new(),
            all_good: false,
        })
    }

    /// Returns the bytes of an MPDU beside its packet and LLC header.
    pub const fn overhead(&self) -> u32 {
        QOS_OVERHEAD
    }

    /// Returns the next sequence number of a link.
    #[inline]
    pub fn number(&mut self, link: usize) -> u16 {
        let next = (self.numbers[link] + 1) & SEQUENCE_MASK;
        self.numbers[link] = next;
        if self.bundles.wanted() {
            self.bundles.begin(link, next);
        }
        next
    }

    /// Records that a station locks on a frame with this limit while the medium has this energy.
    #[inline]
    pub fn locked(&mut self, station: usize, at: u64, energy: u64, limit: u64) {
        let d = &mut self.overlaps[station];
        d.past.clear();
        d.since = (energy > limit).then_some(at);
        if self.noise_decides {
            d.levels.clear();
            d.levels.push((at, energy));
        }
    }

    /// Records a change of the energy around a locked frame.
    #[inline]
    pub fn energy(&mut self, station: usize, at: u64, energy: u64, limit: u64) {
        let d = &mut self.overlaps[station];
        if self.noise_decides {
            d.levels.push((at, energy));
            return;
        }
        let overlapped = energy > limit;
        match (d.since, overlapped) {
            (None, true) => d.since = Some(at),
            (Some(since), false) => {
                d.past.push((since, at));
                d.since = None;
            }
            _ => {}
        }
    }
}
