//! A-MSDUs: several packets for one receiver in one MPDU, with one fate
//! (IEEE 802.11-2020 §9.3.2.2 and §10.11).

use fairmesh_units::Span;

use crate::air::Air;
use crate::airtime::QOS_OVERHEAD;
use crate::frame::{OnAirMpdu, Subframe};
use crate::mcs::Generation;
use crate::mpdu::Mpdu;
use crate::packet::Outgoing;
use crate::phy::{Modern, Rate};
use crate::reorder::NUMBERS;
use crate::upper::Upper;

/// Before each packet: destination, source, length (§9.3.2.2.2).
pub const SUBFRAME_HEADER: u32 = 14;
/// Longest MPDU in an A-MPDU of 802.11n: its delimiter has 12 bits for the length (§9.7.1).
const LONGEST_IN_HT: u32 = 4095;
/// As many numbers as a window of block acknowledgement has at most: what a number says is over when it comes again.
const NUMBERS_APART: u16 = 255;

/// A packet of an A-MSDU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Msdu {
    pub packet: Outgoing,
    /// When the MAC took it.
    pub since: u64,
}

/// The packets of A-MSDUs but for the first of each, which stands with its MPDU.
#[derive(Clone, Debug)]
pub(crate) struct Bundles {
    /// Longest A-MSDU, bytes; zero: there are none.
    pub longest: u32,
    /// Longest MPDU that holds one.
    pub mpdu: u32,
    /// Per link (and category), by the last bits of the MPDU's number; empty until it is needed.
    rest: Vec<Vec<Vec<Msdu>>>,
}

impl Bundles {
    pub fn new(modern: &Modern, places: usize) -> Self {
        let longest = modern.amsdu;
        let mpdu = match modern.generation {
            Generation::Ht if modern.ampdu > 0 => LONGEST_IN_HT,
            _ => longest + QOS_OVERHEAD,
        };
        Bundles { longest, mpdu, rest: vec![Vec::new(); if longest > 0 { places } else { 0 }] }
    }

    /// Whether there may be any.
    #[inline]
    pub fn wanted(&self) -> bool {
        self.longest > 0
    }

    /// A number is given to a new MPDU.
    #[cold]
    pub fn begin(&mut self, place: usize, sequence: u16) {
        if let Some(rest) = self.rest[place].get_mut(usize::from(sequence & NUMBERS_APART)) {
            rest.clear();
        }
    }

    /// Another packet goes with an MPDU.
    pub fn add(&mut self, place: usize, sequence: u16, msdu: Msdu) {
        let numbers = &mut self.rest[place];
        if numbers.is_empty() {
            numbers.resize(usize::from(NUMBERS_APART) + 1, Vec::new());
        }
        numbers[usize::from(sequence & NUMBERS_APART)].push(msdu);
    }

    /// The packets of an MPDU after its first.
    pub fn rest(&self, place: usize, sequence: u16) -> &[Msdu] {
        let numbers = self.rest.get(place);
        numbers.and_then(|n| n.get(usize::from(sequence & NUMBERS_APART))).map_or(&[], |r| r)
    }
}

/// The length of an A-MSDU of `body` bytes with one more packet of so many, LLC header included. Every subframe but
/// the last is padded to a multiple of four (§9.3.2.2.2).
pub const fn joined(body: u32, msdu: u32) -> u32 {
    body.next_multiple_of(4) + SUBFRAME_HEADER + msdu
}

impl Mpdu {
    /// The length of what it carries, as an A-MSDU even if it is none yet.
    pub fn body(&self) -> u32 {
        let carried = self.bytes - QOS_OVERHEAD;
        if self.bundled { carried } else { SUBFRAME_HEADER + carried }
    }

    /// Whether packets may still join: never sent, and no RTS for it.
    pub fn is_open(&self) -> bool {
        self.data_attempts == 0 && self.rts_attempts == 0
    }
}

impl Air {
    /// Reports what became of each packet of an A-MSDU: the same for all; of its medium time each has its part by length,
    /// to the nanosecond.
    #[cold]
    pub(crate) fn tell_each<U: Upper>(
        &self,
        station: u32,
        now: u64,
        m: &Mpdu,
        (link, answered, rate): (Option<crate::LinkId>, bool, Rate),
        upper: &mut U,
    ) {
        let told = m.report(answered, rate, now);
        let place = link.map_or(0, |l| self.place::<U>(station, l.0 as usize));
        let rest = self.aggregates.as_ref().map_or(&[][..], |a| a.bundles.rest(place, m.sequence));
        let length = |p: &Outgoing| u64::from(p.bytes + self.llc_bytes + SUBFRAME_HEADER);
        let mut bytes = length(&m.packet) + rest.iter().map(|r| length(&r.packet)).sum::<u64>();
        let mut spent = m.airtime;
        let first = Msdu { packet: m.packet, since: m.since };
        for msdu in core::iter::once(&first).chain(rest) {
            let part = length(&msdu.packet);
            let share = (u128::from(spent) * u128::from(part) / u128::from(bytes)) as u64;
            (spent, bytes) = (spent - share, bytes - part);
            let told = crate::SendReport {
                packet: msdu.packet,
                airtime: Span::from_nanos(share),
                service: Span::from_nanos(now - msdu.since),
                ..told
            };
            self.tell(station, now, &told, upper);
        }
    }

    /// How many packets the frame in hand carries.
    pub(crate) fn packets_in_hand<U: Upper>(&self, station: u32) -> u64 {
        let v = &self.service[station as usize];
        let (Some(a), Some(link)) = (&self.aggregates, v.link) else { return v.aggregate as u64 };
        if !a.bundles.wanted() {
            return v.aggregate as u64;
        }
        let place = self.place::<U>(station, link.0 as usize);
        let of = |m: &Mpdu| 1 + a.bundles.rest(place, m.sequence).len() as u64;
        v.mpdus[..v.aggregate].iter().map(of).sum()
    }

    /// An A-MSDU that goes on the air: a subframe for each packet.
    #[cold]
    pub(crate) fn subframes<U: Upper>(
        &self,
        station: u32,
        m: &Mpdu,
        whole: OnAirMpdu,
        told: &mut Vec<OnAirMpdu>,
    ) {
        let link = self.service[station as usize].link;
        let place = link.map_or(0, |l| self.place::<U>(station, l.0 as usize));
        let rest = self.aggregates.as_ref().map_or(&[][..], |a| a.bundles.rest(place, m.sequence));
        let packets = core::iter::once(m.packet).chain(rest.iter().map(|r| r.packet));
        let count = 1 + rest.len() as u16;
        told.extend(packets.enumerate().map(|(index, p)| OnAirMpdu {
            packet: p.packet,
            subframe: Some(Subframe { index: index as u16, count }),
            ..whole
        }));
    }
}

/// What is passed up for an MPDU: its packet, and those that came with it.
#[inline]
pub(crate) fn hand_up(
    bundles: &Bundles,
    place: usize,
    sequence: u16,
    packet: u32,
    up: &mut Vec<u32>,
) {
    up.push(packet);
    if bundles.wanted() {
        up.extend(bundles.rest(place, sequence & NUMBERS).iter().map(|m| m.packet.packet));
    }
}
