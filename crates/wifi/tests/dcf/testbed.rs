//! A testbed: stations, radio paths, a script of packets, and a log of events.

use std::collections::VecDeque;
use std::ops::Deref;

use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Band, Modern, Phy, Preamble};
use fairmesh_units::{BitRate, Decibel, NodeId, Power, Span, Stream, Time};
use fairmesh_wifi::loss::FrameErrors;
use fairmesh_wifi::{
    Access, Adaptation, Air, Batch, FrameKind, LinkId, MacConfig, NoiseSource, OnAir, OnAirMpdu,
    Outcome, Outgoing, Reception, SendReport, SensedPair, Setup, Upper,
};

/// Microseconds of 802.11b with the long preamble, all at 1 Mbit/s.
pub const SLOT: u64 = 20;
pub const SIFS: u64 = 10;
pub const DIFS: u64 = 50;
pub const EIFS: u64 = 364;
pub const ACK: u64 = 304;
pub const CTS: u64 = 304;
pub const RTS: u64 = 352;
/// Time from the end of an attempt to its timeout, without a response, µs.
pub const TIMEOUT: u64 = 222;

/// Datagram length that makes a frame of [`DATA`] µs: 192 + 8 × (964 + 8 + 28).
pub const BYTES: u32 = 964;
pub const DATA: u64 = 8192;

/// Power of a good link.
pub const STRONG_DBM: f64 = -60.0;

/// Nanoseconds.
pub const fn us(us: u64) -> u64 {
    us * 1000
}

/// Builder of a [`World`].
pub struct Testbed {
    pub mac: MacConfig,
    pub sensed_pairs: Vec<SensedPair>,
    pub errors: Vec<(u32, u32, FrameErrors)>,
    pub noise: Vec<NoiseSource>,
    stations: u32,
}

pub const SEED: u64 = 7;

impl Testbed {
    /// Stations without radio paths.
    pub fn new(stations: u32) -> Self {
        let phy = Phy::dot11b(Preamble::Long).with_basic_rates(&[BitRate(1_000_000)]).unwrap();
        let mac = MacConfig {
            rate: phy.lowest(),
            phy,
            rts_threshold: None,
            llc_bytes: 8,
            reception: Reception::Ns2,
            rules: fairmesh_wifi::MacRules::Standard,
            capture: Decibel(10.0),
            adaptation: Adaptation::Fixed,
            txop: Span::ZERO,
            edca: None,
        };
        Testbed { mac, sensed_pairs: vec![], errors: vec![], noise: vec![], stations }
    }

    /// Stations of 802.11n: MCS 7 at 20 MHz, 65 Mbit/s, A-MPDUs of up to `mpdus` MPDUs.
    pub fn today(stations: u32, mpdus: u32) -> Self {
        let mode = Mode::new(Generation::Ht, 7, 1, 20, 800).unwrap();
        let modern = Modern {
            generation: Generation::Ht,
            band: Band::Ghz5,
            modes: vec![mode],
            ampdu: 65_535,
            amsdu: 0,
            window: mpdus,
            ns3: false,
        };
        let mut testbed = Testbed::new(stations);
        testbed.mac.phy = Phy::modern(modern);
        testbed.mac.rate = testbed.mac.phy.rate_of(mode).unwrap();
        testbed.mac.reception = Reception::NoCapture;
        testbed
    }

    /// Follows ns-3.37 where it differs from the standard.
    pub fn by_ns3(mut self) -> Self {
        let modern = self.mac.phy.as_modern().unwrap().clone();
        self.mac.phy = Phy::modern(Modern { ns3: true, ..modern });
        self
    }

    /// A-MSDUs and A-MPDUs of up to these lengths, bytes.
    pub fn amsdu(mut self, amsdu: u32, ampdu: u32) -> Self {
        let modern = self.mac.phy.as_modern().unwrap().clone();
        self.mac.phy = Phy::modern(Modern { amsdu, ampdu, ..modern });
        self
    }

    /// All stations receive each other at equal power, without delay.
    pub fn cell(stations: u32) -> Self {
        let pairs = (0..stations).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.fold(Testbed::new(stations), |testbed, (a, b)| testbed.link(a, b))
    }

    /// Both stations receive each other.
    pub fn link(self, a: u32, b: u32) -> Self {
        self.decodable(a, b, STRONG_DBM).decodable(b, a, STRONG_DBM)
    }

    /// `from` can be decoded at `to`, at this power in dBm.
    pub fn decodable(self, from: u32, to: u32, dbm: f64) -> Self {
        self.pair(from, to, dbm, true, 0)
    }

    /// `from` is sensed at `to` but too weak to decode.
    pub fn senses(self, from: u32, to: u32, dbm: f64) -> Self {
        self.pair(from, to, dbm, false, 0)
    }

    pub fn pair(mut self, from: u32, to: u32, dbm: f64, decodes: bool, delay_ns: u64) -> Self {
        let power = Power::from_dbm(dbm);
        let delay = Span::from_nanos(delay_ns);
        self.sensed_pairs.push(SensedPair { from, to, power, decodes, delay });
        self
    }

    /// All frames on this link are lost.
    pub fn loses(mut self, from: u32, to: u32) -> Self {
        self.errors.push((from, to, FrameErrors::per_frame(1.0).unwrap()));
        self
    }

    /// A burst of noise at one station.
    pub fn noise(mut self, at: u32, dbm: f64, start_us: u64, length_us: u64) -> Self {
        self.noise.push(NoiseSource {
            name: format!("noise {}", self.noise.len()),
            sensed_by: vec![(at, Power::from_dbm(dbm))],
            period: Span::from_secs(1000),
            on: Span::from_micros(length_us),
            jitter: 0.0,
            start: Time::from_nanos(us(start_us)),
            stop: Time::NEVER,
        });
        self
    }

    pub fn reception(mut self, rule: Reception) -> Self {
        self.mac.reception = rule;
        self
    }

    /// RTS before each frame.
    pub fn rts(mut self) -> Self {
        self.mac.rts_threshold = Some(0);
        self
    }

    /// Attempts for an RTS or for a frame without RTS, and for a frame after RTS/CTS.
    pub fn attempts(mut self, short: u32, long: u32) -> Self {
        self.mac.phy = self.mac.phy.with_retry_limits(short, long).unwrap();
        self
    }

    pub fn build(self) -> World {
        let names: Vec<String> = (0..self.stations).map(|i| i.to_string()).collect();
        let air = Air::new(Setup {
            names: &names,
            mac: &self.mac,
            sensed_pairs: &self.sensed_pairs,
            leaks: &[],
            rates: &[],
            errors: self.errors,
            noise: &self.noise,
            seed: SEED,
        });
        let log = Log { queues: vec![VecDeque::new(); names.len()], ..Log::default() };
        World { air, log, agenda: VecDeque::new(), now: 0 }
    }
}

/// Replays a station's backoff draws.
pub struct BackoffReplay(Stream);

impl BackoffReplay {
    /// Replays the stream of a station that has drawn its first backoff only.
    pub fn of(station: u32) -> Self {
        let mut stream = Stream::new(SEED, &format!("mac/{station}"));
        stream.below(32);
        BackoffReplay(stream)
    }

    /// The next backoff under this window, in slots.
    pub fn draw(&mut self, cw: u32) -> u64 {
        u64::from(self.0.below(cw + 1))
    }
}

/// Arrival of a packet: instant (ns), receiver, sender, packet, broadcast.
pub type Arrival = (u64, u32, u32, u32, bool);

/// A captured frame and its MPDUs.
pub struct CapturedFrame {
    pub frame: OnAir,
    pub mpdus: Vec<OnAirMpdu>,
}

impl Deref for CapturedFrame {
    type Target = OnAir;
    fn deref(&self) -> &OnAir {
        &self.frame
    }
}

/// The layer above the MAC: plain queues and a log.
#[derive(Default)]
pub struct Log {
    queues: Vec<VecDeque<Outgoing>>,
    pub frames: Vec<CapturedFrame>,
    pub received: Vec<Arrival>,
    pub overheard: Vec<Arrival>,
    pub reports: Vec<(u64, u32, SendReport)>,
    /// A station and the packet that it queues for each one it receives.
    pub relay: Option<(u32, Outgoing)>,
}

impl Upper for Log {
    const OBSERVE: bool = true;
    const OVERHEAR: bool = true;

    fn pull(&mut self, _: Time, node: NodeId, _: Access) -> Option<Outgoing> {
        self.queues[node.index()].pop_front()
    }
    fn pull_more(&mut self, _: Time, node: NodeId, link: LinkId, _: Access, batch: &mut Batch<'_>) {
        let queue = &mut self.queues[node.index()];
        while let Some(at) = queue.iter().position(|p| p.link == Some(link)) {
            if !batch.fits(queue[at].bytes) {
                return;
            }
            batch.take(queue.remove(at).unwrap());
        }
    }
    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool) {
        self.received.push((now.as_nanos(), node.0, from.0, packet, broadcast));
        if let Some((relay, next)) = self.relay
            && relay == node.0
        {
            self.queues[node.index()].push_back(next);
        }
    }
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport, _: Access) {
        self.reports.push((now.as_nanos(), node.0, *report));
    }
    fn overheard(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32) {
        self.overheard.push((now.as_nanos(), node.0, from.0, packet, false));
    }
    fn on_air(&mut self, frame: &OnAir, mpdus: &[OnAirMpdu]) {
        self.frames.push(CapturedFrame { frame: *frame, mpdus: mpdus.to_vec() });
    }
}

/// A running testbed.
pub struct World {
    pub air: Air,
    pub log: Log,
    /// Packets to queue (ns, station, packet), in order.
    agenda: VecDeque<(u64, u32, Outgoing)>,
    now: u64,
}

impl World {
    /// A packet for a neighbour; its handle is 100 × sender + running number.
    pub fn packet(&self, from: u32, to: u32, number: u32) -> Outgoing {
        let link = self.air.link(NodeId(from), NodeId(to));
        assert!(link.is_some(), "{to} does not sense {from}");
        Outgoing { packet: 100 * from + number, link, bytes: BYTES }
    }

    /// Queues a packet for a neighbour at this instant (ns).
    pub fn at(&mut self, ns: u64, from: u32, to: u32) -> &mut Self {
        let before = self.agenda.iter().filter(|a| a.1 == from).count() as u32;
        let packet = self.packet(from, to, before);
        self.queue(ns, from, packet)
    }

    pub fn queue(&mut self, ns: u64, from: u32, packet: Outgoing) -> &mut Self {
        let place = self.agenda.iter().position(|a| a.0 > ns).unwrap_or(self.agenda.len());
        self.agenda.insert(place, (ns, from, packet));
        self
    }

    /// Runs until this instant (ns).
    pub fn run(&mut self, until: u64) -> &mut Self {
        loop {
            let next = self.agenda.front().map_or(u64::MAX, |a| a.0);
            let radio = self.air.next_deadline().as_nanos();
            if next.min(radio) > until {
                self.now = until;
                return self;
            }
            if radio <= next {
                self.air.step(&mut self.log);
            } else if let Some((at, station, packet)) = self.agenda.pop_front() {
                self.log.queues[station as usize].push_back(packet);
                self.air.kick(Time::from_nanos(at), NodeId(station), &mut self.log);
            }
        }
    }

    /// Starts of the frames of one station (ns).
    pub fn starts(&self, station: u32) -> Vec<u64> {
        self.frames(station).map(|f| f.start.as_nanos()).collect()
    }

    pub fn frames(&self, station: u32) -> impl Iterator<Item = &CapturedFrame> {
        self.log.frames.iter().filter(move |f| f.from == NodeId(station))
    }

    pub fn kinds(&self, station: u32) -> Vec<FrameKind> {
        self.frames(station).map(|f| f.kind).collect()
    }

    /// Receivers and packets, in order of arrival.
    pub fn arrivals(&self) -> Vec<(u32, u32)> {
        self.log.received.iter().map(|r| (r.1, r.3)).collect()
    }

    pub fn outcomes(&self, station: u32) -> Vec<Outcome> {
        self.log.reports.iter().filter(|r| r.1 == station).map(|r| r.2.outcome).collect()
    }
}
