//! 802.11n, ac and ax compared with the closed form of a lone saturated link.
//!
//! The closed form is computed from the standard's tables and formulas, independently of the code under test.

use fairmesh_capacity::link::{Access, saturated_cycle};
use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Band, Modern, Phy, Rate};
use fairmesh_units::{Decibel, NodeId, Power, Span, Time};
use fairmesh_wifi::{
    Access as Category, Adaptation, Air, Batch, LinkId, MacConfig, Outgoing, Reception, SendReport,
    SensedPair, Setup, Upper,
};

/// IP bytes of every packet: 1470 of UDP payload.
const PACKET: u32 = 1498;
/// A TCP acknowledgement.
const SMALL: u32 = 40;

/// A station that always has a packet, and its receiver.
struct Saturated {
    link: Option<LinkId>,
    bytes: u32,
    received: u64,
}

impl Saturated {
    fn packet(&self) -> Outgoing {
        Outgoing { packet: 0, link: self.link, bytes: self.bytes }
    }
}

impl Upper for Saturated {
    fn pull(&mut self, _: Time, node: NodeId, _: Category) -> Option<Outgoing> {
        (node == NodeId(0)).then(|| self.packet())
    }
    fn pull_more(&mut self, _: Time, _: NodeId, _: LinkId, _: Category, batch: &mut Batch<'_>) {
        while batch.fits(self.bytes) {
            batch.take(self.packet());
        }
    }
    fn received(&mut self, _: Time, _: NodeId, _: NodeId, _: u32, _: bool) {
        self.received += 1;
    }
    fn sent(&mut self, _: Time, _: NodeId, _: &SendReport, _: Category) {}
}

/// Parameters of a case.
#[derive(Clone, Copy, Debug)]
struct Link {
    generation: Generation,
    mcs: usize,
    streams: usize,
    width: u32,
    guard: u32,
    ampdu: u32,
    amsdu: u32,
    bytes: u32,
    window: u32,
    rts: bool,
    cw: u32,
}

impl Link {
    fn phy(&self) -> (Phy, Rate) {
        let (g, mcs) = (self.generation, self.mcs as u8);
        let mode = Mode::new(g, mcs, self.streams as u8, self.width, self.guard).unwrap();
        let phy = Phy::modern(Modern {
            generation: g,
            band: Band::Ghz5,
            modes: vec![mode],
            ampdu: self.ampdu,
            amsdu: self.amsdu,
            window: self.window,
            ns3: false,
        });
        let phy = phy.with_contention_window(self.cw, 1023).unwrap();
        let rate = phy.rate_of(mode).unwrap();
        (phy, rate)
    }

    /// The prediction of the capacity models.
    fn modelled(&self) -> f64 {
        let (phy, rate) = self.phy();
        let access = if self.rts { Access::RtsCts } else { Access::Basic };
        1.0 / saturated_cycle(&phy, rate, self.bytes + 38, access).as_secs_f64()
    }

    /// Packets per second, measured over this many frames.
    fn measured(&self, frames: u64) -> f64 {
        let (phy, rate) = self.phy();
        let mac = MacConfig {
            rate,
            phy,
            rts_threshold: self.rts.then_some(0),
            llc_bytes: 8,
            reception: Reception::NoCapture,
            rules: fairmesh_wifi::MacRules::Standard,
            capture: Decibel(10.0),
            adaptation: Adaptation::Fixed,
            txop: Span::ZERO,
            edca: None,
        };
        let pair = |from, to| SensedPair {
            from,
            to,
            power: Power::from_dbm(-60.0),
            decodes: true,
            delay: Span::ZERO,
        };
        let mut air = Air::new(Setup {
            names: &["a".to_owned(), "b".to_owned()],
            mac: &mac,
            sensed_pairs: &[pair(0, 1), pair(1, 0)],
            leaks: &[],
            rates: &[],
            errors: vec![],
            noise: &[],
            seed: 1,
        });
        let link = air.link(NodeId(0), NodeId(1));
        let mut upper = Saturated { link, bytes: self.bytes, received: 0 };
        air.kick(Time::ZERO, NodeId(0), &mut upper);
        let mut now = Time::ZERO;
        while air.counters(NodeId(1)).ack + air.counters(NodeId(1)).block_ack < frames {
            now = air.step(&mut upper);
        }
        upper.received as f64 / now.as_secs_f64()
    }

    /// Data subcarriers (Tables 19-6, 21-5, 27-61).
    fn subcarriers(&self) -> f64 {
        match (self.generation, self.width) {
            (Generation::He, 20) => 234.0,
            (Generation::He, 40) => 468.0,
            (Generation::He, 80) => 980.0,
            (Generation::He, _) => 1960.0,
            (_, 20) => 52.0,
            (_, 40) => 108.0,
            (_, 80) => 234.0,
            _ => 468.0,
        }
    }

    /// Duration of a data frame of this many bytes, µs.
    fn data(&self, bytes: f64) -> f64 {
        let bits = [1., 2., 2., 4., 4., 6., 6., 6., 8., 8., 10., 10.][self.mcs];
        let (over, under): (f64, f64) = [
            (1., 2.),
            (1., 2.),
            (3., 4.),
            (1., 2.),
            (3., 4.),
            (2., 3.),
            (3., 4.),
            (5., 6.),
            (3., 4.),
            (5., 6.),
            (3., 4.),
            (5., 6.),
        ][self.mcs];
        let per_symbol = (self.subcarriers() * bits * self.streams as f64 * over / under).floor();
        let guard = f64::from(self.guard) / 1000.0;
        let trainings = [1.0, 2.0, 4.0, 4.0][self.streams - 1];
        match self.generation {
            Generation::Ht | Generation::Vht => {
                let vht = self.generation == Generation::Vht;
                // An encoder per 600 Mbit/s at the short guard interval; Table 21-57 has six here.
                let encoders = match (vht, self.width, self.streams, self.mcs) {
                    (false, ..) => 1.0,
                    (_, 160, 4, 7) => 6.0,
                    _ => (per_symbol / 3.6 / 600.0 - 1e-9).ceil(),
                };
                let symbols = ((16.0 + 8.0 * bytes + 6.0 * encoders) / per_symbol).ceil();
                // L-STF 8, L-LTF 8, L-SIG 4, HT-SIG or VHT-SIG-A 8, STF 4, VHT-SIG-B 4.
                let preamble = 32.0 + 4.0 * trainings + if vht { 4.0 } else { 0.0 };
                let payload = symbols * (3.2 + guard);
                preamble + (payload / 4.0 - 1e-9).ceil() * 4.0
            }
            Generation::He => {
                let training = [(800, 7.2), (1600, 8.0), (3200, 16.0)];
                let ltf = training.iter().find(|t| t.0 == self.guard).unwrap().1;
                let symbols = ((16.0 + 8.0 * bytes + 6.0) / per_symbol).ceil();
                // As above with RL-SIG 4, and no SIG-B.
                36.0 + trainings * ltf + symbols * (12.8 + guard)
            }
        }
    }

    /// Packets and MPDUs of a full frame, and its bytes.
    ///
    /// Packets join an MPDU while it has room, then start the next.
    fn full(&self) -> (f64, f64, f64) {
        let msdu = f64::from(self.bytes + 8);
        let pad = |bytes: f64| (bytes / 4.0).ceil() * 4.0;
        let (longest, ht) = (f64::from(self.amsdu), self.generation == Generation::Ht);
        let limit = if self.ampdu > 0 { f64::from(self.ampdu) } else { f64::INFINITY };
        let fits = |psdu: f64| psdu <= limit && self.data(psdu) <= 5484.0;
        let most_mpdus = if self.ampdu > 0 { f64::from(self.window) } else { 1.0 };
        let (mut packets, mut mpdus, mut before) = (0.0, 0.0, 0.0);
        loop {
            // A single packet is an ordinary MPDU; several have 14 bytes of header each, and all
            // except the last are padded.
            let mpdu = |k: f64| {
                if k == 1.0 {
                    msdu + 30.0
                } else {
                    (k - 1.0) * pad(14.0 + msdu) + 14.0 + msdu + 30.0
                }
            };
            let whole = |k: f64| pad(before) + 4.0 + mpdu(k);
            if mpdus > 0.0 && (mpdus >= most_mpdus || !fits(whole(1.0))) {
                break;
            }
            let mut k = 1.0;
            while mpdu(k + 1.0) - 30.0 <= longest
                && !(ht && self.ampdu > 0 && mpdu(k + 1.0) > 4095.0)
                && fits(whole(k + 1.0))
            {
                k += 1.0;
            }
            (packets, mpdus, before) = (packets + k, mpdus + 1.0, whole(k));
        }
        // A single MPDU of 802.11n has no delimiter.
        (packets, mpdus, if mpdus == 1.0 && ht { before - 4.0 } else { before })
    }

    /// Packets per second by the closed form.
    fn expected(&self) -> f64 {
        let (packets, mpdus, bytes) = self.full();
        let alone = mpdus == 1.0;
        let n = packets;
        // 6, 12, 24 Mbit/s by modulation and code rate (Table 10-10).
        let control = [6.0, 12.0, 12.0, 24.0][self.mcs.min(3)];
        let ofdm = |bytes: f64| 20.0 + 4.0 * ((22.0 + 8.0 * bytes) / (4.0 * control)).ceil();
        let answer = match (alone, self.window) {
            (true, _) => 14.0,
            (false, ..=64) => 32.0,
            (false, _) => 56.0,
        };
        let protection = if self.rts { ofdm(20.0) + 16.0 + ofdm(14.0) + 16.0 } else { 0.0 };
        let access = 16.0 + 3.0 * 9.0 + f64::from(self.cw) / 2.0 * 9.0;
        n / (access + protection + self.data(bytes) + 16.0 + ofdm(answer)) * 1e6
    }

    fn check(&self, frames: u64, tolerance: f64) {
        let (ours, form) = (self.measured(frames), self.expected());
        let error = ours / form - 1.0;
        assert!(error.abs() < tolerance, "{self:?}: {ours:.1} against {form:.1}");
        let model = self.modelled();
        // The models count a packet in whole nanoseconds, and small ones of an A-MSDU take few.
        let tolerance = 5e-4_f64.max(form * 1e-9);
        assert!((model / form - 1.0).abs() < tolerance, "{self:?}: {model:.1} modelled, {form:.1}");
    }
}

/// Every mode with each limit.
///
/// With a window of 0 or 1 slots few frames suffice: half a slot's deviation over 500 of them is
/// below 0.1 % of the shortest cycle.
#[test]
fn every_mode_has_the_goodput_of_the_closed_form() {
    use Generation::{He, Ht, Vht};
    let mut seen = 0;
    for (g, highest, streams, widths, guards) in [
        (Ht, 7, 2, &[20, 40][..], &[400, 800][..]),
        (Vht, 9, 4, &[20, 40, 80, 160], &[400, 800]),
        (He, 11, 4, &[20, 40, 80, 160], &[800, 1600, 3200]),
    ] {
        let windows: &[u32] = if g == He { &[64, 256] } else { &[64] };
        for mcs in 0..=highest {
            for streams in 1..=streams {
                for &width in widths {
                    for &guard in guards {
                        if Mode::new(g, mcs as u8, streams as u8, width, guard).is_err() {
                            continue;
                        }
                        for ampdu in [0, 16_383, 65_535, g.longest_ampdu()] {
                            for &window in windows {
                                for rts in [false, true] {
                                    let link = Link {
                                        generation: g,
                                        mcs,
                                        streams,
                                        width,
                                        guard,
                                        ampdu,
                                        amsdu: 0,
                                        bytes: PACKET,
                                        window,
                                        rts,
                                        cw: 1,
                                    };
                                    link.check(500, 0.005);
                                    seen += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    // 64 modes of n; 160 less 5 of ac at two guard intervals; 576 of ax with two windows.
    assert_eq!(seen, 8 * (64 + 2 * (160 - 5) + 2 * 12 * 4 * 4 * 3));
}

/// The window of best effort, 0 to 15 slots.
#[test]
fn goodput_under_the_contention_window_of_best_effort() {
    for (generation, width, ampdu) in
        [(Generation::Ht, 20, 0), (Generation::Vht, 80, 65_535), (Generation::He, 160, 6_500_631)]
    {
        for rts in [false, true] {
            let link = Link {
                generation,
                mcs: 7,
                streams: 2,
                width,
                guard: 800,
                ampdu,
                amsdu: 0,
                bytes: PACKET,
                window: 64,
                rts,
                cw: 15,
            };
            link.check(60_000, 0.005);
        }
    }
}

/// A-MSDUs alone and inside A-MPDUs, with long and short packets.
#[test]
fn amsdus_have_the_goodput_of_the_closed_form() {
    use Generation::{He, Ht, Vht};
    let mut seen = 0;
    for (generation, width, streams) in [(Ht, 20, 1), (Ht, 40, 2), (Vht, 80, 2), (He, 160, 4)] {
        let longest: &[u32] = match generation {
            Ht => &[1600, 3839, 7935],
            _ => &[3839, 7935, generation.longest_amsdu()],
        };
        for &amsdu in longest {
            for ampdu in [0, 8191, 65_535, generation.longest_ampdu()] {
                for bytes in [SMALL, 576, PACKET] {
                    for (mcs, rts) in [(0, false), (3, true), (7, false), (7, true)] {
                        let link = Link {
                            generation,
                            mcs,
                            streams,
                            width,
                            guard: 800,
                            ampdu,
                            amsdu,
                            bytes,
                            window: 64,
                            rts,
                            cw: 1,
                        };
                        link.check(500, 0.005);
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 4 * 3 * 4 * 3 * 4);
}

/// Packets per second of a lone link by aggregation, as in a docs page.
#[test]
fn small_packets_gain_most() {
    let link = |ampdu, amsdu, bytes| Link {
        generation: Generation::Vht,
        mcs: 7,
        streams: 2,
        width: 80,
        guard: 800,
        ampdu,
        amsdu,
        bytes,
        window: 64,
        rts: false,
        cw: 15,
    };
    for (bytes, alone, inside) in [(SMALL, 45.0, 4.5), (PACKET, 1.8, 1.0)] {
        let gain = |ampdu| {
            let with = link(ampdu, 3839, bytes).expected();
            let gain = with / link(ampdu, 0, bytes).expected();
            println!("{bytes} bytes, A-MPDU {ampdu}: {with:.0}/s, {gain:.2} times");
            gain
        };
        assert!(gain(0) > alone && gain(1_048_575) > inside);
    }
}
