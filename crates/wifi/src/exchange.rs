//! Frame exchanges: sending, responding, retrying and giving up.
//!
//! IEEE 802.11-2020 §10.3.2 and §10.3.4.

use fairmesh_phy::Rate;
use fairmesh_phy::frame::{ACK, CTS, DATA_OVERHEAD, RTS};
use fairmesh_units::{NodeId, Span, Time};

use crate::access::Access;
use crate::adapt::Attempt;
use crate::air::Air;
use crate::frame::{FrameKind, Transmission};
use crate::mpdu::Mpdu;
use crate::neighbours::Neighbour;
use crate::packet::{Outgoing, SendReport};
use crate::station::{NEVER, NO_STATION, Phase, Response, next_slot};
use crate::upper::Upper;

/// Time from the end of a reception to the timeout that it deferred, in ns.
const AFTER_RECEPTION: u64 = 400;

impl Air {
    /// Takes the next packet and contends for the medium, if the MAC is idle.
    ///
    /// `busy`: true if the medium was busy when the packet arrived, regardless of its present
    /// state.
    pub(crate) fn take_next<U: Upper>(
        &mut self,
        station: u32,
        now: u64,
        busy: bool,
        upper: &mut U,
    ) {
        if U::EDCA {
            self.take_per_category(station, now, busy, upper);
            return;
        }
        let i = station as usize;
        if self.stations[i].phase != Phase::Idle || !self.load(station, now, upper) {
            return;
        }
        self.prepare_backoff::<U>(station, now, busy);
        self.stations[i].phase = Phase::Contending;
        self.rearm::<U>(station);
    }

    /// Draws the backoff, if required, for a packet that arrived at an idle MAC.
    #[inline(always)]
    pub(crate) fn prepare_backoff<U: Upper>(&mut self, station: u32, now: u64, busy: bool) {
        let i = station as usize;
        let always = if self.relays { self.rules.relay_backoff } else { self.rules.idle_backoff };
        let s = &mut self.stations[i];
        if U::NS2 && always {
            s.count_down_ns2(now, &self.t);
            if s.expired {
                s.slots = self.backoff_rng[i].below(s.cw + self.draw_above);
                (s.backoff_from, s.expired) = (now + self.t.difs, false);
            }
            return;
        }
        s.count_down(now, &self.t, u64::from(U::EDCA));
        s.expired = false;
        if s.slots == 0 {
            if busy || s.busy(now) {
                // IEEE 802.11-2020 §10.3.4.2: a frame that arrives while the medium is busy draws a
                // backoff.
                s.slots = self.backoff_rng[i].below(s.cw + 1);
                s.backoff_from = now;
            } else if U::AGGREGATION {
                s.backoff_from = next_slot(s.countdown_start(), self.t.slot, now);
            } else {
                s.backoff_from = now + self.t.difs;
            }
        }
    }

    /// Moves the next packet of the upper layer into service.
    fn load<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) -> bool {
        let at = Time::from_nanos(now);
        let access = self.access_of::<U>(station);
        let Some(packet) = upper.pull(at, NodeId(station), access) else { return false };
        self.put::<U>(station, now, packet);
        true
    }

    /// Puts a packet into service.
    #[inline(always)]
    pub(crate) fn put<U: Upper>(&mut self, station: u32, now: u64, packet: Outgoing) {
        let to = packet.link.map_or(NO_STATION, |l| self.neighbours.entry(l.0 as usize).to);
        // With block acknowledgements, sequence numbers are per link, otherwise per station.
        let place = packet.link.map_or(0, |l| self.place::<U>(station, l.0 as usize));
        let (overhead, sequence) = match (&mut self.aggregates, packet.link) {
            (Some(a), Some(_)) if U::AGGREGATION => (a.overhead(), a.number(place)),
            _ => {
                let s = &mut self.stations[station as usize];
                s.sequence = (s.sequence + 1) & 0xfff;
                (DATA_OVERHEAD, s.sequence)
            }
        };
        let bytes = packet.bytes + self.llc_bytes + overhead;
        let v = &mut self.service[station as usize];
        (v.link, v.to, v.psdu, v.aggregate) = (packet.link, to, bytes, 1);
        v.rate = self.phy.lowest_basic();
        v.rts = to != NO_STATION && bytes >= self.rts_threshold;
        v.mpdus.push(Mpdu {
            packet,
            since: now,
            airtime: 0,
            bytes,
            data_attempts: 0,
            rts_attempts: 0,
            sequence,
            accepted: false,
            bundled: false,
        });
    }

    /// Sends at the end of the backoff: RTS, data or broadcast.
    pub(crate) fn send_own<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let i = station as usize;
        self.stations[i].slots = 0;
        let v = &mut self.service[i];
        let Some(first) = v.mpdus.first() else {
            debug_assert!(!U::EDCA, "the countdown of a category that has nothing to send");
            self.stations[i].phase = Phase::Idle;
            self.rearm::<U>(station);
            return;
        };
        if let Some(link) = v.link {
            let attempt = first.data_attempts;
            self.losses.attempt(link);
            v.rate = self.adapters[link.0 as usize].rate_for(
                Time::from_nanos(now),
                v.psdu,
                attempt,
                &mut self.backoff_rng[i],
            );
        }
        if U::RATE_SERIES {
            v.rate = upper.attempt_rate(first.packet.packet, first.data_attempts).rate;
        }
        if U::AGGREGATION {
            self.assemble_frame(station, now, upper);
        }
        let v = &mut self.service[i];
        if !v.rts {
            self.send_data(station, now, upper);
            return;
        }
        v.tried(|m| &mut m.rts_attempts);
        let (to, data) = (v.to, self.phy.airtime(v.rate, v.psdu));
        let response = self.phy.response(v.rate);
        let ack_time =
            if U::AGGREGATION && v.aggregate > 1 { response.block_ack } else { response.ack };
        let air = response.rts.as_nanos();
        v.spent += air;
        let f = Transmission {
            end: now + air,
            nav: self.phy.nav_rts(v.rate, data, ack_time).as_nanos(),
            air,
            bytes: RTS,
            to,
            rate: response.rts_rate,
            kind: FrameKind::Rts,
            on_air: true,
        };
        self.counters[i].rts += 1;
        self.stations[i].phase = Phase::AwaitCts;
        self.begin(station, now, f, upper);
    }

    /// Sends the packet itself, after the backoff or SIFS after a CTS.
    pub(crate) fn send_data<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let i = station as usize;
        if U::NS2
            && self.stations[i].phase == Phase::ClearToSend
            && self.is_deferred_ns2(station, now)
        {
            let cw = self.next_cw::<U>(station, self.stations[i].cw);
            self.stations[i].cw = cw;
            self.stations[i].phase = Phase::Contending;
            self.draw::<U>(station, now);
            self.rearm::<U>(station);
            return;
        }
        let v = &mut self.service[i];
        if v.mpdus.is_empty() {
            self.stations[i].phase = Phase::Idle;
            self.rearm::<U>(station);
            return;
        }
        v.tried(|m| &mut m.data_attempts);
        let air = self.phy.airtime(v.rate, v.psdu).as_nanos();
        v.spent += air;
        let broadcast = v.link.is_none();
        let mpdus = v.aggregate as u64;
        let response = self.phy.response(v.rate);
        let ack_time = if U::AGGREGATION && mpdus > 1 { response.block_ack } else { response.ack };
        let nav = if broadcast { 0 } else { self.t.sifs + ack_time.as_nanos() };
        let f = Transmission {
            end: now + air,
            nav,
            air,
            bytes: v.psdu,
            to: v.to,
            rate: v.rate,
            kind: FrameKind::Data,
            on_air: true,
        };
        if broadcast {
            self.counters[i].broadcast += 1;
            self.stations[i].phase = Phase::Broadcasting;
        } else {
            self.counters[i].data += 1;
            self.counters[i].mpdus += mpdus;
            self.stations[i].phase = Phase::AwaitAck;
        }
        self.begin(station, now, f, upper);
    }

    /// Sends the ACK or CTS due SIFS after a frame, regardless of the medium's state.
    pub(crate) fn send_response<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let i = station as usize;
        let s = &mut self.stations[i];
        s.response_at = NEVER;
        if U::NS2 && s.response == Response::Cts && self.is_deferred_ns2(station, now) {
            self.rearm::<U>(station);
            return;
        }
        let s = &self.stations[i];
        let rate = Rate(s.response_rate);
        let (kind, bytes) = match s.response {
            Response::Ack => (FrameKind::Ack, ACK),
            Response::Cts => (FrameKind::Cts, CTS),
            Response::BlockAck => (FrameKind::BlockAck, self.phy.block_ack_bytes()),
        };
        match s.response {
            Response::Ack => self.counters[i].ack += 1,
            Response::Cts => self.counters[i].cts += 1,
            Response::BlockAck => self.counters[i].block_ack += 1,
        }
        let air = self.phy.airtime(rate, bytes).as_nanos();
        let f = Transmission {
            end: now + air,
            nav: s.response_nav,
            air,
            bytes,
            to: s.response_to,
            rate,
            kind,
            on_air: true,
        };
        self.begin(station, now, f, upper);
        if U::NS2 && kind == FrameKind::Cts {
            self.await_data_ns2(station, &f);
        }
    }

    /// Handles the end of a receiver's locked frame.
    pub(crate) fn complete<U: Upper>(
        &mut self,
        from: u32,
        link: usize,
        n: &Neighbour,
        now: u64,
        f: &Transmission,
        upper: &mut U,
    ) {
        let to = n.to;
        let i = to as usize;
        let s = &mut self.stations[i];
        s.lock_from = NO_STATION;
        self.rx_total[i] += s.received(now);
        let mut good = !s.doomed;
        if U::AGGREGATION {
            good = self.examine(from, to, link, now, f);
        } else if !good {
            self.counters[i].collided += u64::from(!s.too_weak);
        } else if !self.errors.is_empty() {
            let (at, air) = (Time::from_nanos(now - f.air), Span::from_nanos(f.air));
            if self.errors[link].lost(at, air, f.bytes, f.rate, &mut self.error_rng[link]) {
                self.counters[i].errored += 1;
                good = false;
            }
        }
        let s = &mut self.stations[i];
        if good {
            s.eifs_at = 0;
            if f.to == to {
                self.received(from, to, link, now, f, upper);
            } else {
                self.overheard(from, to, now, f, upper);
            }
        } else if U::NS2 && self.rules.deferral {
            if s.tx_end <= now {
                s.extend_nav(now + self.t.difs + self.t.eifs_extra);
            }
        } else if !(U::NS2 && s.tx_end > now) {
            // IEEE 802.11-2020 §10.3.2.3.7: EIFS from the end of the bad frame.
            s.eifs_at = now + self.t.eifs_extra;
        }
        // From here on only later arrivals count: a frame queued at the end instant of a reception finds the
        // medium idle.
        let s = &mut self.stations[i];
        s.idle_at = s.idle_at.max(s.after_lock);
        self.rearm::<U>(to);
    }

    /// Handles a good frame for this station.
    fn received<U: Upper>(
        &mut self,
        from: u32,
        to: u32,
        link: usize,
        now: u64,
        f: &Transmission,
        upper: &mut U,
    ) {
        let i = to as usize;
        let s = &mut self.stations[i];
        match f.kind {
            FrameKind::Data => {
                let many = U::AGGREGATION && self.service[from as usize].aggregate > 1;
                s.response = if many { Response::BlockAck } else { Response::Ack };
                s.response_at = now + self.t.sifs;
                s.response_to = from;
                s.response_nav = 0;
                s.response_rate = self.phy.control_rate(f.rate).0;
                if U::OVERHEAR {
                    let air = Span::from_nanos(f.air);
                    let at = Time::from_nanos(now);
                    let access = self.access_of::<U>(from);
                    upper.arriving(at, NodeId(to), NodeId(from), air, access);
                }
                if U::AGGREGATION {
                    self.accept_data(from, to, link, now, upper);
                    return;
                }
                let Some(m) = self.service[from as usize].mpdus.first_mut() else { return };
                // IEEE 802.11-2020 §10.3.2.14: duplicate detection by the last number accepted from
                // each sender.
                let last = core::mem::replace(&mut self.last_sequence[link], m.sequence);
                if last == m.sequence && m.data_attempts > 1 {
                    self.counters[i].duplicates += 1;
                    return;
                }
                m.accepted = true;
                let packet = m.packet.packet;
                self.counters[i].received += 1;
                upper.received(Time::from_nanos(now), NodeId(to), NodeId(from), packet, false);
                if U::NS2 {
                    self.relays = true;
                }
                self.take_next(to, now, false, upper);
                if U::NS2 {
                    self.relays = false;
                }
            }
            FrameKind::Rts => {
                // IEEE 802.11-2020 §10.3.2.9: no CTS while the station's NAV is set, except to its
                // TXOP holder (§10.23.2.4).
                let holds = || {
                    let ignores_nav = self.aggregates.as_ref().is_some_and(|a| a.ignores_nav);
                    U::AGGREGATION && (s.nav_of == from || ignores_nav)
                };
                let takes_rts = match U::NS2 {
                    true => !matches!(s.phase, Phase::AwaitAck | Phase::AwaitCts),
                    false => s.nav_end() <= now || holds(),
                };
                if takes_rts {
                    s.response = Response::Cts;
                    s.response_at = now + self.t.sifs;
                    s.response_to = from;
                    s.response_rate = f.rate.0;
                    let spent = self.t.sifs + self.phy.airtime(f.rate, CTS).as_nanos();
                    s.response_nav = f.nav.saturating_sub(spent);
                }
            }
            FrameKind::Cts if s.phase == Phase::AwaitCts => {
                s.rts_failures = 0;
                s.phase = Phase::ClearToSend;
                s.wait_at = now + self.t.sifs;
                self.service[i].spent += f.air;
                self.report_answered(to, now, upper);
            }
            FrameKind::Ack | FrameKind::BlockAck if s.phase == Phase::AwaitAck => {
                self.service[i].spent += f.air;
                self.succeed(to, now, upper);
            }
            FrameKind::Cts | FrameKind::Ack | FrameKind::BlockAck | FrameKind::Noise => {}
        }
    }

    /// Handles a good frame for another station, or for all.
    fn overheard<U: Upper>(
        &mut self,
        from: u32,
        to: u32,
        now: u64,
        f: &Transmission,
        upper: &mut U,
    ) {
        let s = &mut self.stations[to as usize];
        if f.to == NO_STATION {
            if let Some(m) = self.service[from as usize].mpdus.first() {
                let packet = m.packet.packet;
                if U::OVERHEAR {
                    let air = Span::from_nanos(f.air);
                    let (at, access) = (Time::from_nanos(now), Access::BestEffort);
                    upper.arriving(at, NodeId(to), NodeId(from), air, access);
                }
                upper.received(Time::from_nanos(now), NodeId(to), NodeId(from), packet, true);
                self.take_next(to, now, false, upper);
            }
            return;
        }
        let until = now + f.nav;
        if until > s.nav_at {
            s.nav_at = until;
            if U::AGGREGATION {
                s.nav_of =
                    if matches!(f.kind, FrameKind::Rts | FrameKind::Data) { from } else { f.to };
            }
            s.nav_reset_at = if f.kind == FrameKind::Rts && !U::NS2 {
                now + self.phy.nav_reset(f.rate).as_nanos()
            } else {
                0
            };
        }
        if U::OVERHEAR && U::AGGREGATION && f.kind == FrameKind::Data {
            self.overhear(from, to, now, upper);
        } else if U::OVERHEAR
            && f.kind == FrameKind::Data
            && let Some(m) = self.service[from as usize].mpdus.first()
        {
            let packet = m.packet.packet;
            upper.overheard(Time::from_nanos(now), NodeId(to), NodeId(from), packet);
            self.take_next(to, now, false, upper);
        }
    }

    /// Handles a missing response.
    pub(crate) fn time_out<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        let i = station as usize;
        let s = &self.stations[i];
        let rx_start = match s.lock_from {
            NO_STATION => 0,
            from => self.rx_start::<U>(&self.on_air[from as usize]),
        };
        let s = &mut self.stations[i];
        if !(U::NS2 && self.rules.timeout)
            && s.lock_from != NO_STATION
            && s.lock_at + rx_start <= now
            && s.lock_end > now
        {
            // A reception began before the timeout; it may be the response.
            s.wait_at = s.lock_end + AFTER_RECEPTION;
            self.rearm::<U>(station);
            return;
        }
        self.count_unanswered(station, now, upper);
        let s = &mut self.stations[i];
        if s.lock_end + AFTER_RECEPTION != now {
            s.idle_at = s.idle_at.max(now);
        }
        self.counters[i].timeouts += 1;
        let limits = self.phy.timing();
        let (short, long) = (limits.short_retry_limit, limits.long_retry_limit);
        let v = &mut self.service[i];
        let awaited_ack = s.phase == Phase::AwaitAck;
        let give_up = if !awaited_ack {
            s.rts_failures += 1;
            s.rts_failures >= short
        } else if U::RATE_SERIES {
            // Unanswered attempts: those answered in part do not count, as with the retry limits.
            let attempt = s.short_retries;
            s.short_retries += 1;
            v.mpdus.first().is_none_or(|m| upper.attempt_rate(m.packet.packet, attempt).last)
        } else if v.rts {
            s.long_retries += 1;
            s.long_retries >= long
        } else {
            s.short_retries += 1;
            s.short_retries >= short
        };
        if awaited_ack
            && let Some(link) = v.link
            && self.adapters[link.0 as usize].learns()
        {
            let mpdus = v.aggregate as u32;
            let (rate, bytes) = (v.rate, v.psdu);
            let a = Attempt { rate, bytes, mpdus, acked: 0, ok: false, last: give_up };
            self.adapters[link.0 as usize].on_result(Time::from_nanos(now), &a);
        }
        if give_up {
            let packets = if U::AGGREGATION { self.packets_in_hand::<U>(station) } else { 1 };
            self.counters[i].gave_up += packets;
            self.release(station, now, false, upper);
        } else {
            let cw = self.next_cw::<U>(station, self.stations[i].cw);
            let s = &mut self.stations[i];
            s.cw = cw;
            s.phase = Phase::Contending;
            self.draw::<U>(station, now);
            if U::EDCA {
                // Takes packets that arrived for other categories during the exchange.
                self.take_per_category(station, now, true, upper);
            }
            self.rearm::<U>(station);
        }
    }

    /// Handles the delivery of the packet in service.
    pub(crate) fn succeed<U: Upper>(&mut self, station: u32, now: u64, upper: &mut U) {
        self.report_answered(station, now, upper);
        let v = &mut self.service[station as usize];
        if let Some(link) = v.link
            && self.adapters[link.0 as usize].learns()
        {
            let (rate, bytes, mpdus) = (v.rate, v.psdu, v.aggregate as u32);
            let acked = v.in_hand().iter().filter(|m| m.accepted).count() as u32;
            let a = Attempt { rate, bytes, mpdus, acked, ok: true, last: true };
            self.adapters[link.0 as usize].on_result(Time::from_nanos(now), &a);
        }
        self.release(station, now, true, upper);
    }

    /// Finishes the frame in hand: reports it, draws the post-backoff, and takes the next packet.
    pub(crate) fn release<U: Upper>(
        &mut self,
        station: u32,
        now: u64,
        answered: bool,
        upper: &mut U,
    ) {
        let i = station as usize;
        let v = &mut self.service[i];
        match &mut v.mpdus[..] {
            [m] => {
                m.airtime += core::mem::take(&mut v.spent);
                let report = m.report(answered, v.rate, now);
                let gone = (U::AGGREGATION && !answered && !m.accepted).then_some(m.sequence);
                let (link, rate, m) = (v.link, v.rate, *m);
                v.mpdus.clear();
                if U::AGGREGATION && m.bundled {
                    self.report_each(station, now, &m, (link, answered, rate), upper);
                } else {
                    self.report_sent(station, now, &report, upper);
                }
                if let Some(number) = gone {
                    self.gone.clear();
                    self.gone.push(number);
                    self.skip(station, link, now, upper);
                }
            }
            _ if U::AGGREGATION => self.release_many(station, now, answered, upper),
            _ => {}
        }
        let cw = self.cw_min::<U>(station);
        let s = &mut self.stations[i];
        s.short_retries = 0;
        s.long_retries = 0;
        s.rts_failures = 0;
        s.cw = cw;
        s.phase = Phase::Idle;
        self.draw::<U>(station, now);
        if (U::AGGREGATION && !self.service[i].mpdus.is_empty()) || self.load(station, now, upper) {
            self.stations[i].phase = Phase::Contending;
            if U::AGGREGATION && answered && self.continues_txop(station, now, upper) {
                let s = &mut self.stations[i];
                s.phase = Phase::ClearToSend;
                s.wait_at = now + self.t.sifs;
            }
        }
        if U::EDCA {
            self.take_per_category(station, now, true, upper);
        }
        self.rearm::<U>(station);
    }

    /// Reports the outcome of a packet.
    #[inline(always)]
    pub(crate) fn report_sent<U: Upper>(
        &self,
        station: u32,
        now: u64,
        report: &SendReport,
        upper: &mut U,
    ) {
        let (at, node) = (Time::from_nanos(now), NodeId(station));
        upper.sent(at, node, report, self.access_of::<U>(station));
    }

    /// Draws a new backoff and discards the rest of the last one (IEEE 802.11-2020 §10.3.3).
    #[inline(always)]
    pub(crate) fn draw<U: Upper>(&mut self, station: u32, now: u64) {
        let s = &mut self.stations[station as usize];
        let above = if U::NS2 { self.draw_above } else { 1 };
        s.slots = self.backoff_rng[station as usize].below(s.cw + above);
        s.backoff_from = now;
        s.expired = false;
    }
}
