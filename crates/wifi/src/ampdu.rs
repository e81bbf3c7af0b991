//! A-MPDU aggregation: assembly, reception and the effect of block acknowledgements.
//!
//! Retransmissions precede new MPDUs, and all MPDUs of a frame have one receiver: those left from a
//! partly received frame are older than any queued packet. The sender's list therefore is the
//! transmit window (IEEE 802.11-2020 §10.25.6), and a bitmap marks the MPDUs of the list that the
//! receiver has.

use fairmesh_phy::frame::{DELIMITER, QOS_OVERHEAD, extended_ampdu, extended_amsdu};
use fairmesh_phy::{Modulation, Rate};
use fairmesh_units::{NodeId, Span, Time};

use crate::air::Air;
use crate::amsdu::{Msdu, pass_up_msdus};
use crate::batch::{Batch, Joining};
use crate::frame::{BlockAck, FrameKind, Transmission};
use crate::loss::FrameErrors;
use crate::mpdu::Mpdu;
use crate::packet::LinkId;
use crate::reorder::SEQUENCE_MASK;
use crate::station::NEVER;
use crate::upper::Upper;

/// Initial part of a preamble in which an overlap that ends is harmless, in ns.
///
/// The receiver still searches for the frame.
const PREAMBLE_SEARCH_NS: u64 = 4_000;

impl Air {
    /// Returns true if MPDUs are aggregated at the rate of a station's service.
    fn aggregates_at(&self, station: usize) -> bool {
        let info = self.phy.info(self.service[station].rate);
        matches!(info.modulation, Modulation::Mcs(_))
    }

    /// Assembles the frame of a station that has won the medium.
    pub(crate) fn assemble_frame<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let Some(a) = &self.aggregates else { return };
        let txop = match &self.categories {
            Some(c) if U::EDCA => c.parameters(station as usize).txop.as_nanos(),
            _ => a.txop.as_nanos(),
        };
        self.stations[station as usize].txop_end = if txop > 0 { now + txop } else { NEVER };
        self.gather(station, now, upper);
    }

    /// Returns true if the station continues its TXOP after a successful exchange.
    ///
    /// The next exchange must fit into the rest of the TXOP; it follows after SIFS (IEEE
    /// 802.11-2020 §10.23.2.8).
    pub(crate) fn continues_txop<U: Upper>(
        &mut self,
        station: u32,
        now: u64,
        upper: &mut U,
    ) -> bool {
        let i = station as usize;
        let end = self.stations[i].txop_end;
        let (Some(link), true) = (self.service[i].link, end != NEVER) else { return false };
        let start = now + self.t.sifs;
        let v = &mut self.service[i];
        let rng = &mut self.backoff_rng[i];
        v.rate = self.adapters[link.0 as usize].rate_for(Time::from_nanos(now), v.psdu, 0, rng);
        if U::RATE_SERIES
            && let Some(m) = v.mpdus.first()
        {
            v.rate = upper.attempt_rate(m.packet.packet, m.data_attempts).rate;
        }
        self.gather(station, start, upper);
        let v = &self.service[i];
        let data = self.phy.airtime(v.rate, v.psdu).as_nanos();
        start + data + self.t.sifs + self.response_duration(v.rate, v.aggregate).as_nanos() <= end
    }

    /// Returns the duration of the response to a frame of this number of MPDUs.
    pub(crate) fn response_duration(&self, rate: Rate, mpdus: usize) -> Span {
        let response = self.phy.response(rate);
        if mpdus > 1 { response.block_ack } else { response.ack }
    }

    /// Returns the longest PSDU for an exchange that starts at `now` and ends within the TXOP.
    fn longest(&self, i: usize, now: u64) -> u32 {
        let (rate, end) = (self.service[i].rate, self.stations[i].txop_end);
        let r = self.phy.response(rate);
        if end == NEVER {
            return r.longest_psdu;
        }
        let reserve = if self.rts_threshold == u32::MAX { Span::ZERO } else { r.rts + r.cts };
        let gaps = if reserve == Span::ZERO { self.t.sifs } else { 3 * self.t.sifs };
        let left = end.saturating_sub(now + gaps + reserve.as_nanos() + r.block_ack.as_nanos());
        let waveform = self.phy.info(rate).waveform;
        waveform.longest_within(Span::from_nanos(left)).min(r.longest_psdu)
    }

    /// Assembles the frame in hand.
    ///
    /// It has unacknowledged MPDUs, then packets from the queue for the same receiver.
    fn gather<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let i = station as usize;
        let mcs = self.aggregates_at(i);
        let longest = if mcs { self.longest(i, now) } else { 0 };
        let access = self.access_of::<U>(station);
        let place = self.service[i].link.map_or(0, |l| self.place::<U>(station, l.0 as usize));
        let Some(a) = &mut self.aggregates else { return };
        let v = &mut self.service[i];
        let (Some(link), Some(first)) = (v.link, v.mpdus.first()) else { return };
        if !mcs || (a.longest == 0 && !a.bundles.wanted()) {
            (v.aggregate, v.psdu) = (1, first.bytes);
            if mcs && a.lone_delimiter {
                v.psdu += DELIMITER;
            }
            return;
        }
        // A-MSDUs are possible without A-MPDUs.
        let most_bytes = if a.longest > 0 { a.longest.min(longest) } else { longest };
        let most = a.window;
        let opening = first.sequence;
        let mut before = 0;
        (v.aggregate, v.psdu) = (1, DELIMITER + first.bytes);
        for m in &v.mpdus[1..] {
            let bytes = extended_ampdu(v.psdu, m.bytes);
            if bytes > most_bytes || v.aggregate >= most {
                break;
            }
            before = v.psdu;
            (v.aggregate, v.psdu) = (v.aggregate + 1, bytes);
        }
        // New numbers stay within the window that starts at the oldest unacknowledged one.
        let next = (a.numbers[place] + 1) & SEQUENCE_MASK;
        let distance = usize::from(next.wrapping_sub(opening) & SEQUENCE_MASK);
        let room = match a.longest {
            0 => 0,
            _ => a.window.saturating_sub(distance).min(most - v.aggregate),
        };
        if v.aggregate == v.mpdus.len() && (room > 0 || a.bundles.wanted()) {
            a.offered.clear();
            let overhead = self.llc_bytes + QOS_OVERHEAD;
            let joining = a.bundles.wanted().then(|| {
                a.joined.clear();
                Joining {
                    longest: a.bundles.longest,
                    mpdu: a.bundles.mpdu,
                    body: v.mpdus.last().filter(|m| m.is_open()).map(Mpdu::body),
                    before,
                    joined: &mut a.joined,
                }
            });
            let mut batch =
                Batch { taken: &mut a.offered, overhead, bytes: v.psdu, most_bytes, room, joining };
            let (at, node) = (Time::from_nanos(now), NodeId(station));
            upper.pull_more(at, node, link, access, &mut batch);
            v.psdu = batch.bytes;
            for k in 0..a.offered.len() {
                let packet = a.offered[k];
                if a.bundles.wanted()
                    && a.joined[k]
                    && let Some(last) = v.mpdus.last_mut()
                {
                    last.bytes =
                        extended_amsdu(last.body(), packet.bytes + self.llc_bytes) + QOS_OVERHEAD;
                    last.bundled = true;
                    a.bundles.add(place, last.sequence, Msdu { packet, since: now });
                    continue;
                }
                v.mpdus.push(Mpdu {
                    packet,
                    since: now,
                    airtime: 0,
                    bytes: packet.bytes + overhead,
                    data_attempts: 0,
                    rts_attempts: 0,
                    sequence: a.number(place),
                    accepted: false,
                    bundled: false,
                });
            }
            v.aggregate = v.mpdus.len();
        }
        if v.aggregate == 1 && !a.lone_delimiter {
            v.psdu = v.mpdus[0].bytes;
        }
        v.rts = v.psdu >= self.rts_threshold;
    }

    /// Determines the good MPDUs of a locked frame that ends now; returns true if there is any.
    ///
    /// A frame without MPDUs counts as one.
    pub(crate) fn examine(
        &mut self,
        from: u32,
        to: u32,
        link: usize,
        now: u64,
        f: &Transmission,
    ) -> bool {
        let Some(a) = &mut self.aggregates else { return false };
        if a.noise_decides && matches!(self.errors.get(link), Some(FrameErrors::Snr(_))) {
            return self.survives(from, to, link, now, f);
        }
        let d = &mut a.overlaps[to as usize];
        if let Some(since) = d.since.take() {
            d.past.push((since, now));
        }
        let counters = &mut self.counters[to as usize];
        let clean = d.past.is_empty();
        a.all_good = false;
        if self.stations[to as usize].too_weak {
            return false;
        }
        let process = !self.errors.is_empty();
        if clean && !process {
            a.all_good = true;
            return true;
        }
        let start = now - f.air;
        let waveform = self.phy.info(f.rate).waveform;
        if !clean && d.overlaps(start + PREAMBLE_SEARCH_NS, start + waveform.header().as_nanos()) {
            counters.collided += 1;
            return false;
        }
        a.good.clear();
        let mut errored = |bytes: u32| {
            let (at, air) = (Time::from_nanos(start), Span::from_nanos(f.air));
            process && self.errors[link].lost(at, air, bytes, f.rate, &mut self.error_rng[link])
        };
        let payload = start + waveform.rx_start_delay().as_nanos();
        let v = &mut self.service[from as usize];
        if f.kind != FrameKind::Data || v.aggregate <= 1 {
            let hit = !clean && d.overlaps(payload, now);
            let lost = !hit && errored(f.bytes);
            counters.collided += u64::from(hit);
            counters.errored += u64::from(lost);
            a.good.push(!hit && !lost);
            return !hit && !lost;
        }
        let (mut any, mut hits) = (false, false);
        let (mut bytes, mut from) = (0, payload);
        let last = v.aggregate - 1;
        for (k, m) in v.in_hand().iter().enumerate() {
            bytes = (bytes + DELIMITER + m.bytes).next_multiple_of(4);
            let until = if k == last { now } else { start + waveform.reached(bytes).as_nanos() };
            let hit = !clean && d.overlaps(from, until);
            let lost = !hit && errored(m.bytes);
            counters.errored += u64::from(lost);
            hits |= hit;
            let good = !hit && !lost;
            any |= good;
            counters.mpdus_missed += u64::from(!good);
            a.good.push(good);
            from = until;
        }
        counters.collided += u64::from(hits && !any);
        any
    }

    /// Stores the good MPDUs of a data frame for this station, and passes them up in order.
    pub(crate) fn accept_data<U: Upper>(
        &mut self,
        from: u32,
        to: u32,
        link: usize,
        now: u64,
        upper: &mut U,
    ) {
        let place = self.place::<U>(from, link);
        let Some(a) = &mut self.aggregates else { return };
        let v = &mut self.service[from as usize];
        let counters = &mut self.counters[to as usize];
        let mut up = core::mem::take(&mut a.up);
        let count = v.aggregate;
        for (k, m) in v.in_hand().iter_mut().enumerate() {
            if !a.all_good && a.good.get(k) != Some(&true) {
                continue;
            }
            if m.accepted {
                counters.duplicates += 1;
                continue;
            }
            m.accepted = true;
            counters.received += 1;
            let bundles = &a.bundles;
            a.reorder[place].accept(m.sequence, m.packet.packet, |sequence, packet| {
                pass_up_msdus(bundles, place, sequence, packet, &mut up);
            });
        }
        self.pass_up(from, to, now, &mut up, upper);
        // The MPDUs of an aggregate arrive one by one while it keeps the medium busy; a single MPDU
        // arrives at the end of its frame.
        self.take_next(to, now, count > 1, upper);
    }

    /// Releases the MPDUs of an unanswered frame, or those that a block acknowledgement covers.
    ///
    /// MPDUs that it does not acknowledge stay in the list, before new ones.
    pub(crate) fn release_many<U: Upper>(
        &mut self,
        station: u32,
        now: u64,
        answered: bool,
        upper: &mut U,
    ) {
        let v = &mut self.service[station as usize];
        v.charge();
        let (link, rate) = (v.link, v.rate);
        let mut done = core::mem::take(&mut self.done);
        let all_arrived = v.in_hand().iter().all(|m| m.accepted);
        if all_arrived || !answered {
            done.extend(v.mpdus.drain(..v.aggregate));
        } else {
            let (held, mut place) = (v.aggregate, 0);
            v.mpdus.retain(|m| {
                place += 1;
                let stays = place > held || !m.accepted;
                if !stays {
                    done.push(*m);
                }
                stays
            });
        }
        for m in &done {
            if m.bundled {
                self.report_each(station, now, m, (link, answered, rate), upper);
            } else {
                self.report_sent(station, now, &m.report(answered, rate, now), upper);
            }
        }
        if !answered {
            self.gone.clear();
            self.gone.extend(done.iter().filter(|m| !m.accepted).map(|m| m.sequence));
            self.skip(station, link, now, upper);
        }
        done.clear();
        self.done = done;
    }

    /// Moves the receiver's window past numbers that the sender has given up.
    ///
    /// The receiver is updated immediately and without a frame.
    pub(crate) fn skip<U: Upper>(
        &mut self,
        from: u32,
        link: Option<LinkId>,
        now: u64,
        upper: &mut U,
    ) {
        let Some(link) = link.map(|l| l.0 as usize) else { return };
        let place = self.place::<U>(from, link);
        let Some(a) = &mut self.aggregates else { return };
        let mut up = core::mem::take(&mut a.up);
        for &sequence in &self.gone {
            let bundles = &a.bundles;
            a.reorder[place].skip(sequence, |sequence, packet| {
                pass_up_msdus(bundles, place, sequence, packet, &mut up);
            });
        }
        let to = self.neighbours.entry(link).to;
        let any = !up.is_empty();
        self.pass_up(from, to, now, &mut up, upper);
        if any {
            self.take_next(to, now, false, upper);
        }
    }

    fn pass_up<U: Upper>(
        &mut self,
        from: u32,
        to: u32,
        now: u64,
        up: &mut Vec<u32>,
        upper: &mut U,
    ) {
        for &packet in up.iter() {
            upper.received(Time::from_nanos(now), NodeId(to), NodeId(from), packet, false);
        }
        up.clear();
        if let Some(a) = &mut self.aggregates {
            a.up = core::mem::take(up);
        }
    }

    /// Returns the block acknowledgement for a sender: the MPDUs of its list that have arrived.
    pub(crate) fn block_ack_for(&self, sender: u32) -> BlockAck {
        let mpdus = &self.service[sender as usize].mpdus;
        let first = mpdus.first().map_or(0, |m| m.sequence);
        let mut bitmap = [0; 4];
        for m in mpdus.iter().filter(|m| m.accepted) {
            let at = usize::from(m.sequence.wrapping_sub(first) & SEQUENCE_MASK);
            if let Some(word) = bitmap.get_mut(at / 64) {
                *word |= 1 << (at % 64);
            }
        }
        BlockAck { first, bitmap }
    }

    /// Reports the good MPDUs of a frame to an overhearing station.
    pub(crate) fn overhear<U: Upper>(&mut self, from: u32, to: u32, now: u64, upper: &mut U) {
        let count = self.service[from as usize].aggregate;
        for k in 0..count {
            let good = self
                .aggregates
                .as_ref()
                .is_some_and(|a| a.all_good || a.good.get(k) == Some(&true));
            if good {
                let m = self.service[from as usize].mpdus[k];
                let at = Time::from_nanos(now);
                upper.overheard(at, NodeId(to), NodeId(from), m.packet.packet);
                if let (true, Some(a)) = (m.bundled, &self.aggregates) {
                    let link = self.service[from as usize].link;
                    let place = link.map_or(0, |l| self.place::<U>(from, l.0 as usize));
                    for msdu in a.bundles.rest(place, m.sequence) {
                        upper.overheard(at, NodeId(to), NodeId(from), msdu.packet.packet);
                    }
                }
            }
        }
        self.take_next(to, now, count > 1, upper);
    }
}
