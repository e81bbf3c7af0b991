//! Reports of the packets of an A-MSDU.

use fairmesh_phy::Rate;
use fairmesh_phy::frame::SUBFRAME_HEADER;
use fairmesh_units::Span;

use crate::air::Air;
use crate::amsdu::Msdu;
use crate::frame::{OnAirMpdu, Subframe};
use crate::mpdu::Mpdu;
use crate::packet::Outgoing;
use crate::upper::Upper;

impl Air {
    /// Reports the common outcome of an A-MSDU for each of its packets.
    ///
    /// Medium time is divided by length, to the nanosecond.
    #[cold]
    pub(crate) fn report_each<U: Upper>(
        &self,
        station: u32,
        now: u64,
        m: &Mpdu,
        (link, answered, rate): (Option<crate::LinkId>, bool, Rate),
        upper: &mut U,
    ) {
        let report = m.report(answered, rate, now);
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
            let report = crate::SendReport {
                packet: msdu.packet,
                airtime: Span::from_nanos(share),
                service: Span::from_nanos(now - msdu.since),
                ..report
            };
            self.report_sent(station, now, &report, upper);
        }
    }

    /// Returns the number of packets that the frame in hand carries.
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

    /// Reports an A-MSDU on the air: one entry per packet.
    #[cold]
    pub(crate) fn subframes<U: Upper>(
        &self,
        station: u32,
        m: &Mpdu,
        whole: OnAirMpdu,
        reported: &mut Vec<OnAirMpdu>,
    ) {
        let link = self.service[station as usize].link;
        let place = link.map_or(0, |l| self.place::<U>(station, l.0 as usize));
        let rest = self.aggregates.as_ref().map_or(&[][..], |a| a.bundles.rest(place, m.sequence));
        let packets = core::iter::once(m.packet).chain(rest.iter().map(|r| r.packet));
        let count = 1 + rest.len() as u16;
        reported.extend(packets.enumerate().map(|(index, p)| OnAirMpdu {
            packet: p.packet,
            subframe: Some(Subframe { index: index as u16, count }),
            ..whole
        }));
    }
}
