//! The medium: transmissions, their arrivals at each station, and the frames that survive.
//!
//! One event starts a transmission and one ends it. Each visits the transmitter's neighbours in a
//! flat array; propagation delays are added to instants instead of being separate events.

use fairmesh_phy::{Phy, Rate};
use fairmesh_units::{Deadlines, NodeId, Span, Stream, Time};

use crate::access::Access;
use crate::adapt::Adapter;
use crate::aggregate::Aggregates;
use crate::categories::Categories;
use crate::config::{
    Adaptation, MacConfig, MacRules, NoiseSource, Ns2Rules, Reception, SensedPair,
};
use crate::counters::{ChannelTime, MacCounters};
use crate::frame::{FrameKind, OnAir, OnAirMpdu, Transmission};
use crate::loss::FrameErrors;
use crate::losses::Losses;
use crate::mpdu::{Mpdu, Service};
use crate::neighbours::Neighbours;
use crate::packet::LinkId;
use crate::station::{Intervals, NO_STATION, Phase, Station};
use crate::upper::Upper;

/// Time that a station that is not receiving takes to detect a frame's energy.
///
/// It is also the time after a frame's first energy in which a stronger one may still replace it (IEEE 802.11-2020
/// Table 16-4 allows aCCATime up to 15 µs; ns-3 uses 4 µs).
const CCA_TIME: Span = Span::from_micros(4);

/// Inputs of [`Air::new`].
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The stations' stable names, from which their random streams derive.
    pub names: &'a [String],
    /// The MAC's settings.
    pub mac: &'a MacConfig,
    /// Pairs of stations of which the second senses the first.
    pub sensed_pairs: &'a [SensedPair],
    /// Pairs of stations of which the second senses the first's energy from another channel.
    ///
    /// No receiver locks on it.
    pub leaks: &'a [SensedPair],
    /// Links with a data rate of their own: (from, to, rate).
    pub rates: &'a [(u32, u32, Rate)],
    /// Links with an error process: (from, to, process).
    pub errors: Vec<(u32, u32, FrameErrors)>,
    /// External interferers.
    pub noise: &'a [NoiseSource],
    /// The run's seed.
    pub seed: u64,
}

/// All stations and the medium between them.
///
/// Sans-IO: [`Air::next_deadline`] returns the instant of the next event, [`Air::step`] processes it.
#[derive(Clone, Debug)]
pub struct Air {
    pub(crate) t: Intervals,
    pub(crate) phy: Phy,
    pub(crate) rts_threshold: u32,
    pub(crate) llc_bytes: u32,
    /// True if ns-2's rules are in force instead of the standard's.
    pub(crate) ns2: bool,
    /// ns-2 rules in force; none unless `ns2`.
    pub(crate) rules: Ns2Rules,
    /// True while a station takes the packet that a reception delivered.
    pub(crate) relays: bool,
    /// Capture margin as a power ratio; used with the ns-2 rules only.
    pub(crate) capture: f64,
    /// Exclusive upper bound of a backoff draw minus the contention window, with the ns-2 rules.
    pub(crate) draw_above: u32,
    pub(crate) stations: Vec<Station>,
    pub(crate) wakes: Deadlines,
    pub(crate) on_air: Vec<Transmission>,
    pub(crate) service: Vec<Service>,
    /// Scratch lists: MPDUs that the MAC has finished, and sequence numbers given up.
    pub(crate) done: Vec<Mpdu>,
    pub(crate) gone: Vec<u16>,
    /// State for 802.11n, ac and ax.
    pub(crate) aggregates: Option<Aggregates>,
    /// State of access categories, if stations have several.
    pub(crate) categories: Option<Categories>,
    /// Scratch list: MPDUs of the frame being reported.
    reported: Vec<OnAirMpdu>,
    pub(crate) neighbours: Neighbours,
    pub(crate) backoff_rng: Vec<Stream>,
    /// Per link: last sequence number accepted.
    pub(crate) last_sequence: Vec<u16>,
    /// Per link.
    pub(crate) adapters: Vec<Adapter>,
    /// Per link, or empty when no link has errors.
    pub(crate) errors: Vec<FrameErrors>,
    pub(crate) error_rng: Vec<Stream>,
    pub(crate) noise: Vec<(NoiseSource, Stream)>,
    pub(crate) counters: Vec<MacCounters>,
    pub(crate) losses: Losses,
    pub(crate) tx_total: Vec<u64>,
    pub(crate) rx_total: Vec<u64>,
    transmissions: u64,
    pub(crate) steps: u64,
    fingerprint: u64,
}

/// Initial value of `last_sequence`; not a sequence number.
const NO_SEQUENCE: u16 = u16::MAX;

impl Air {
    /// Builds the medium.
    ///
    /// Links of `rates` and `errors` that `sensed_pairs` lacks are ignored.
    pub fn new(setup: Setup<'_>) -> Self {
        let Setup { names, mac, sensed_pairs, leaks, rates, errors, noise, seed } = setup;
        let phy = mac.phy.clone();
        let stations = names.len();
        let capture = mac.capture.ratio();
        let rules = match mac.rules {
            MacRules::Ns2(rules) if phy.as_modern().is_none() => Some(rules),
            _ => None,
        };
        let (ns2, rules) = (rules.is_some(), rules.unwrap_or_default());
        // A receiver of 802.11n, ac or ax does not detect a preamble that is too weak to decode.
        let reception = match mac.reception {
            Reception::NoCapture if phy.as_modern().is_some() => Reception::Sinr,
            rule => rule,
        };
        let mut neighbours = Neighbours::new(stations, sensed_pairs, leaks, reception, capture);
        let links = neighbours.len();
        for source in noise {
            let receivers: Vec<_> = source.sensed_by.iter().map(|&(n, p)| (n, p.0)).collect();
            neighbours.push_noise(&receivers);
        }

        let adapter = |rate| match mac.adaptation {
            Adaptation::Fixed => Adapter::Fixed(rate),
            Adaptation::Arf => Adapter::arf(&phy),
            Adaptation::SampleRate => Adapter::sample(&phy),
            Adaptation::MinstrelHt => Adapter::minstrel_ht(&phy),
        };
        let mut adapters = vec![adapter(mac.rate); links];
        for &(from, to, rate) in rates {
            if let Some(i) = neighbours.find(from, to) {
                adapters[i] = adapter(rate);
            }
        }
        let mut processes = Vec::new();
        let mut error_rng = Vec::new();
        if !errors.is_empty() {
            processes = vec![FrameErrors::None; links];
            for (from, to, process) in errors {
                if let Some(i) = neighbours.find(from, to) {
                    processes[i] = process;
                }
            }
            for h in 0..stations as u32 {
                for i in neighbours.of(h) {
                    let (a, b) = (&names[h as usize], &names[neighbours.entry(i).to as usize]);
                    error_rng.push(Stream::new(seed, &format!("error/{a}>{b}")));
                }
            }
        }

        let noise_decides = processes.iter().any(|p| matches!(p, FrameErrors::Snr(_)));

        let timing = phy.timing();
        let t = Intervals {
            slot: timing.slot.as_nanos(),
            sifs: timing.sifs.as_nanos(),
            difs: timing.difs.as_nanos(),
            eifs_extra: timing.eifs.saturating_sub(timing.difs).as_nanos(),
            cca: if rules.carrier_sense { 0 } else { CCA_TIME.as_nanos() },
            rx_start: phy.info(mac.rate).waveform.rx_start_delay().as_nanos(),
        };
        let mut backoff_rng: Vec<Stream> =
            names.iter().map(|n| Stream::new(seed, &format!("mac/{n}"))).collect();
        let mut all = vec![Station::new(timing.cw_min, t.difs as u32); stations + noise.len()];
        for (s, rng) in all.iter_mut().zip(&mut backoff_rng) {
            s.slots = rng.below(s.cw + 1);
        }
        let mut wakes = Deadlines::new(all.len());
        for (i, source) in noise.iter().enumerate() {
            all[stations + i].phase = Phase::Noise;
            wakes.set(stations + i, source.start);
        }
        let noise = noise
            .iter()
            .map(|n| (n.clone(), Stream::new(seed, &format!("noise/{}", n.name))))
            .collect();
        // Only frames of 802.11n, ac and ax carry a TID.
        let edca = mac.edca.filter(|_| phy.as_modern().is_some());
        let categories = edca.map(|edca| {
            let rngs = &mut backoff_rng;
            Categories::new(edca, &t, links, mac.rate, rngs, &mut all)
        });
        let places = links * if edca.is_some() { Access::COUNT } else { 1 };
        let idle = Transmission {
            end: 0,
            nav: 0,
            air: 0,
            bytes: 0,
            to: NO_STATION,
            rate: mac.rate,
            kind: FrameKind::Noise,
            on_air: false,
        };
        let losses = Losses::new(&neighbours, all.len(), stations, links);
        Air {
            t,
            rts_threshold: mac.rts_threshold.unwrap_or(u32::MAX),
            llc_bytes: mac.llc_bytes,
            ns2,
            rules,
            relays: false,
            capture,
            draw_above: u32::from(!rules.window),
            on_air: vec![idle; all.len()],
            service: vec![Service::idle(mac.rate); stations],
            done: Vec::new(),
            gone: Vec::new(),
            aggregates: Aggregates::new(&phy, mac.txop, all.len(), places, noise_decides),
            categories,
            reported: Vec::new(),
            stations: all,
            wakes,
            backoff_rng,
            last_sequence: vec![NO_SEQUENCE; links],
            adapters,
            errors: processes,
            error_rng,
            noise,
            counters: vec![MacCounters::default(); stations],
            losses,
            tx_total: vec![0; stations],
            rx_total: vec![0; stations],
            transmissions: 0,
            steps: 0,
            fingerprint: 0xcbf2_9ce4_8422_2325,
            neighbours,
            phy,
        }
    }

    /// Returns the link from one station to another, if the second receives the first.
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<LinkId> {
        self.neighbours.find(from.0, to.0).map(|i| LinkId(i as u32))
    }

    /// Fixes the data rate of a link from the next attempt on, without rate adaptation.
    pub fn set_rate(&mut self, link: LinkId, rate: Rate) {
        self.adapters[link.0 as usize] = Adapter::Fixed(rate);
    }

    /// Puts a frame on the air. `f.end` lies after `now`.
    pub(crate) fn begin<U: Upper>(&mut self, from: u32, now: u64, f: Transmission, upper: &mut U) {
        let i = from as usize;
        self.transmissions += 1;
        self.mix(now ^ u64::from(from) << 48 ^ u64::from(f.to) << 32 ^ u64::from(f.bytes) << 8);
        let s = &mut self.stations[i];
        if U::NS2 && self.rules.backs_off() {
            s.count_down_ns2(now, &self.t);
        }
        s.count_down(now, &self.t, u64::from(U::EDCA));
        if U::EDCA
            && let Some(c) = &mut self.categories
        {
            c.count_down(i, s, now, &self.t);
        }
        if s.lock_from != NO_STATION {
            // A SIFS response is sent regardless of the medium: the reception is abandoned.
            self.rx_total[i] += s.received(now);
            if U::NS2 && self.rules.own_frame {
                (s.doomed, s.too_weak, s.noticed) = (true, true, false);
            } else {
                s.lock_from = NO_STATION;
                s.idle_at = s.idle_at.max(s.after_lock);
            }
        }
        s.eifs_at = 0;
        s.idle_at = s.idle_at.max(f.end);
        s.tx_end = f.end;
        s.occupy(now, f.end);
        self.on_air[i] = f;
        self.wakes.set(i, Time::from_nanos(f.end));
        if let Some(total) = self.tx_total.get_mut(i) {
            *total += f.end - now;
        }
        if U::OBSERVE {
            self.observe(from, now, &f, upper);
        }

        if U::NS2 {
            self.arrive_ns2(from, now, &f);
            return;
        }
        let t = self.t;
        let rx_start = self.rx_start::<U>(&f);
        for k in self.neighbours.of(from) {
            let n = self.neighbours.entry(k);
            let (arrival, end) = (now + n.delay(), f.end + n.delay());
            let r = n.to as usize;
            let s = &mut self.stations[r];
            s.energy += n.power;
            s.occupy(arrival, end);
            if s.lock_from != NO_STATION {
                s.after_lock = s.after_lock.max(end);
                if arrival <= s.lock_at + t.cca && n.power > s.lock_power && n.lockable() {
                    // Of frames that start within the detection time, the strongest is received.
                    s.idle_at = s.idle_at.max(end);
                    s.lock(from, n, arrival, end);
                    if U::AGGREGATION
                        && let Some(a) = &mut self.aggregates
                    {
                        a.locked(r, arrival, s.energy, n.limit);
                    }
                    if s.phase == Phase::Contending {
                        let wake = self.wake_at::<U>(r);
                        self.wakes.set(r, Time::from_nanos(wake));
                    }
                } else {
                    s.doomed |= s.energy > s.lock_limit;
                    if U::AGGREGATION
                        && let Some(a) = &mut self.aggregates
                    {
                        a.energy(r, arrival, s.energy, s.lock_limit);
                    }
                }
                continue;
            }
            let wake = self.wakes.get(r).as_nanos();
            let noticed = arrival + t.cca;
            if s.tx_end > arrival || (wake <= noticed && s.transmits_at(wake)) {
                // The station cannot receive: it is transmitting or about to transmit.
                if U::EDCA
                    && s.tx_end <= arrival
                    && let Some(c) = &mut self.categories
                {
                    c.commit(r, s, wake, &t);
                }
                s.idle_at = s.idle_at.max(end);
                continue;
            }
            s.count_down(noticed, &t, u64::from(U::EDCA));
            if U::EDCA
                && let Some(c) = &mut self.categories
            {
                c.count_down(r, s, noticed, &t);
            }
            s.idle_at = s.idle_at.max(end);
            if n.lockable() {
                s.settle_nav(arrival, rx_start);
                s.after_lock = 0;
                s.lock(from, n, arrival, end);
                if U::AGGREGATION
                    && let Some(a) = &mut self.aggregates
                {
                    a.locked(r, arrival, s.energy, n.limit);
                }
            }
            if s.phase == Phase::Contending {
                let wake = self.wake_at::<U>(r);
                self.wakes.set(r, Time::from_nanos(wake));
            }
        }
    }

    /// Returns the time from the first energy of a frame to the start of its payload.
    #[inline]
    pub(crate) fn rx_start<U: Upper>(&self, f: &Transmission) -> u64 {
        if U::AGGREGATION {
            self.phy.info(f.rate).waveform.rx_start_delay().as_nanos()
        } else {
            self.t.rx_start
        }
    }

    /// Recomputes the instant of a station's next action.
    #[inline]
    pub(crate) fn rearm<U: Upper>(&mut self, station: u32) {
        let i = station as usize;
        let at = if self.on_air[i].on_air { self.on_air[i].end } else { self.wake_at::<U>(i) };
        self.wakes.set(i, Time::from_nanos(at));
    }

    /// Returns the instant of a station's next own action.
    #[inline]
    fn wake_at<U: Upper>(&self, i: usize) -> u64 {
        let s = &self.stations[i];
        match &self.categories {
            Some(c) if U::EDCA => {
                let own = self.service.get(i).is_some_and(|v| !v.mpdus.is_empty());
                c.wake_at(i, s, own, &self.t)
            }
            _ => s.wake_at(&self.t),
        }
    }

    fn observe<U: Upper>(&mut self, from: u32, now: u64, f: &Transmission, upper: &mut U) {
        self.reported.clear();
        if f.kind == FrameKind::Data {
            let mut reported = core::mem::take(&mut self.reported);
            let v = &self.service[from as usize];
            for m in &v.mpdus[..v.aggregate] {
                let whole = OnAirMpdu {
                    packet: m.packet.packet,
                    bytes: m.bytes,
                    sequence: m.sequence,
                    retry: m.data_attempts > 1,
                    subframe: None,
                };
                match m.bundled {
                    true => self.subframes::<U>(from, m, whole, &mut reported),
                    false => reported.push(whole),
                }
            }
            self.reported = reported;
        }
        let frame = OnAir {
            start: Time::from_nanos(now),
            end: Time::from_nanos(f.end),
            kind: f.kind,
            from: NodeId(from),
            to: (f.to != NO_STATION).then_some(NodeId(f.to)),
            rate: f.rate,
            bytes: f.bytes,
            nav: Span::from_nanos(f.nav),
            block_ack: (f.kind == FrameKind::BlockAck).then(|| self.block_ack_for(f.to)),
            access: match f.kind {
                FrameKind::Data | FrameKind::Rts | FrameKind::Noise => self.access_of::<U>(from),
                FrameKind::Ack | FrameKind::BlockAck | FrameKind::Cts => self.access_of::<U>(f.to),
            },
        };
        upper.on_air(&frame, &self.reported);
    }

    #[inline]
    fn mix(&mut self, value: u64) {
        let h = (self.fingerprint ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.fingerprint = h ^ (h >> 29);
    }

    /// Returns the settings of the PHY.
    pub fn phy(&self) -> &Phy {
        &self.phy
    }

    /// Returns a hash of every transmission so far: start, transmitter, receiver, length.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the number of transmissions so far, bursts of noise included.
    pub fn transmissions(&self) -> u64 {
        self.transmissions
    }

    /// Returns the number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the MAC counters of one station.
    pub fn counters(&self, node: NodeId) -> &MacCounters {
        &self.counters[node.index()]
    }

    /// Returns a station's time until `now` by channel state, as an nl80211 survey reports it.
    pub fn channel_time(&self, now: Time, node: NodeId) -> ChannelTime {
        let (i, at) = (node.index(), now.as_nanos());
        let s = &self.stations[i];
        let ahead = |end: u64| end.saturating_sub(at);
        let occupied = s.busy_total.saturating_sub(ahead(s.busy_end));
        let transmit = self.tx_total[i].saturating_sub(ahead(s.tx_end));
        let locked = if s.lock_from == NO_STATION { 0 } else { s.received(at) };
        ChannelTime {
            active: Span::from_nanos(at),
            busy: Span::from_nanos(occupied.saturating_sub(transmit)),
            receive: Span::from_nanos(self.rx_total[i] + locked),
            transmit: Span::from_nanos(transmit),
        }
    }
}
