//! Which radios a map's routers are taken to have, and at which rate each link runs (docs/scenarios.md, "Maps").

use std::collections::BTreeMap;

use fairmesh_capacity::link::{LinkModel, Traffic};
use fairmesh_units::{BitRate, Decibel, Frequency, Power};
use fairmesh_wifi::loss::{Fading, SnrErrors, SnrTable};
use fairmesh_wifi::mcs::{Generation, Mode};
use fairmesh_wifi::phy::{Band, Modern, Phy, Rate};

use super::band::{band, generation, name, of_models, usual};
use super::channels::{Channels, Place, Places};
use super::models::Model;
use super::{ImportOptions, Result};
use crate::draft::{
    ErrorsDraft, FurtherRadioDraft, LinkDraft, PhyName, Profile, QueueDraft, QueueKind, QueueTable,
    RadioDraft, SnrDraft,
};
use crate::error::{Problem, ScenarioError};

/// Streams of a router of which nothing is known: what most of the last fifteen years have at least.
const USUAL_STREAMS: u8 = 2;
/// Guard interval, ns, of all: what every radio has.
const GUARD: u32 = 800;
/// What is sent over a link for its rate to be chosen: full-size segments.
const SEGMENTS: Traffic = Traffic::tcp(1460, 0, 1.0, true);
/// A full-size frame, bytes.
const FULL: u32 = 1536;
/// A routing daemon's probe with its headers, bytes.
const PROBE: u32 = 100;
/// A window of 64 probes, batman-adv's (TQ_LOCAL_WINDOW_SIZE), knows nothing better than half a probe lost.
const BEST_KNOWN: f64 = 1.0 - 0.5 / 64.0;
/// Noise figure of receivers, dB, as of `radio.errors.snr`.
const NOISE_FIGURE: Decibel = Decibel(7.0);
/// Rates that a note lists.
const LISTED: usize = 5;

/// What a map says of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Heard {
    /// Delivery probability.
    pub delivery: f64,
    /// Mean received power, dBm.
    pub signal: Option<f64>,
    /// What a rate control expects of it, Mbit/s (batman V).
    pub throughput: Option<f64>,
}

impl Heard {
    /// Of parallel links: the one of which more arrives; of equals the faster, then the stronger.
    pub fn better_than(&self, other: &Heard) -> bool {
        let of = |h: &Heard| {
            let low = f64::NEG_INFINITY;
            [h.delivery, h.throughput.unwrap_or(low), h.signal.unwrap_or(low)]
        };
        of(self).partial_cmp(&of(other)).is_some_and(std::cmp::Ordering::is_gt)
    }
}

/// One direction of a link.
pub(super) struct Directed {
    pub from: usize,
    pub to: usize,
    /// Which of the map's radios it runs on.
    pub place: usize,
    pub heard: Heard,
}

/// By what the rate of a direction was chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum By {
    Signal,
    Throughput,
    Delivery,
}

impl By {
    fn words(self) -> &'static str {
        match self {
            By::Signal => "signal",
            By::Throughput => "throughput",
            By::Delivery => "delivery probability",
        }
    }
}

/// The radios of a map.
pub(super) struct Radios {
    pub radio: RadioDraft,
    /// Those beside it, in the order of [`Places::all`].
    pub further: Vec<(String, FurtherRadioDraft)>,
    pub notes: Vec<String>,
    /// What is asked of the links of each.
    today: Vec<Option<Today>>,
}

/// What is asked of every link with radios of today.
struct Today {
    phy: Phy,
    modes: Vec<Known>,
    /// Signal at which half of a probe's frames survive at the lowest rate, mW.
    probe: f64,
    /// Per node: streams and highest MCS.
    nodes: Vec<(u8, u8)>,
    /// Every link says how strong it is.
    signals: bool,
    chosen: BTreeMap<Key, Choice>,
}

type Key = (u64, By, u8, u8);

/// A mode with what it needs and carries.
struct Known {
    mode: Mode,
    rate: Rate,
    errors: SnrErrors,
    /// Signal at which half of full-size frames survive, mW.
    needs: f64,
    /// Goodput of a lone link that loses nothing, bit/s.
    carries: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Choice {
    mcs: u8,
    streams: u8,
}

impl Radios {
    /// Where they are: on one channel, or on those that the links name.
    pub fn places(
        options: &ImportOptions,
        models: &[Option<String>],
        channels: &Channels,
    ) -> Result<Places> {
        let asked = options.phy.and_then(generation);
        if let (Some(rate), Some(phy)) = (options.rate, asked) {
            let what = format!("{rate} says too little of {}", phy.name());
            let expected = "no rate, or \"802.11a\", \"802.11b\" or \"802.11g\" as PHY";
            return Err(ScenarioError::at("radio.rate".into(), Problem::refused(what, expected)));
        }
        let known = known(models);
        let kind = |channel: Option<u32>| {
            let band = match channel {
                Some(1..=13) => Band::Ghz2,
                Some(_) => Band::Ghz5,
                None => band(asked, &known),
            };
            let g = asked.unwrap_or_else(|| usual(band, &known));
            let channel = channel.unwrap_or(match band {
                Band::Ghz2 => 6,
                Band::Ghz5 => 36,
            });
            let mhz = match (options.width, g, band, channel) {
                (Some(width), ..) => width.0 / 1_000_000,
                (_, _, Band::Ghz2, _) | (.., 165) => 20,
                (_, Generation::Ht, ..) => 40,
                _ => 80,
            };
            (channel, g, band, mhz)
        };
        // Radios before those of today have one channel.
        let none = Channels::new();
        Ok(Places::of(options, if old(options) { &none } else { channels }, kind))
    }

    /// From the options, the nodes' models and where the radios are; how many entries name each channel, and whether every
    /// link says how strong it is.
    pub fn of(
        options: &ImportOptions,
        models: &[Option<String>],
        places: &Places,
        channels: &Channels,
        signals: bool,
    ) -> Self {
        if old(options) {
            return Radios::before(options);
        }
        Radios::today(options, models, places, channels, signals)
    }

    /// 802.11a, b and g: one rate for all.
    fn before(options: &ImportOptions) -> Self {
        let phy = options.phy.unwrap_or(PhyName::G);
        let rate = options.rate.or((phy == PhyName::G).then_some(BitRate(24_000_000)));
        let radio = RadioDraft {
            phy,
            rate,
            profile: Some(Profile::Graph),
            width: options.width,
            streams: options.streams,
            channel: options.channel,
            ..RadioDraft::default()
        };
        Radios { radio, further: Vec::new(), notes: Vec::new(), today: vec![None] }
    }

    fn today(
        options: &ImportOptions,
        models: &[Option<String>],
        places: &Places,
        channels: &Channels,
        signals: bool,
    ) -> Self {
        let known = known(models);
        let first = places.all[0];
        let width = |p: &Place| options.width.unwrap_or(Frequency(p.mhz * 1_000_000));
        let radio = RadioDraft {
            phy: name(first.generation),
            width: Some(width(&first)),
            channel: Some(first.channel),
            streams: options.streams,
            profile: Some(Profile::Graph),
            queue: Some(QueueDraft::Table(Box::new(QueueTable::new(QueueKind::Mac80211)))),
            errors: signals
                .then(|| ErrorsDraft { snr: Some(SnrDraft::default()), ..ErrorsDraft::default() }),
            ..RadioDraft::default()
        };
        let mut notes = Vec::new();
        let (mut today, mut further) = (Vec::new(), Vec::new());
        for (i, place) in places.all.iter().enumerate() {
            let (g, band) = (place.generation, place.band);
            let nodes = known.iter().map(|m| {
                let own = m.and_then(|m| m.at(band));
                let streams = options.streams.or(own.map(|o| o.1)).unwrap_or(USUAL_STREAMS);
                let highest = own.map_or(g, |o| o.0.min(g)).highest_mcs();
                (streams.min(g.most_streams()), highest)
            });
            let nodes: Vec<(u8, u8)> = nodes.collect();
            let most = nodes.iter().map(|n| n.0).max().unwrap_or(USUAL_STREAMS);
            let which = match i {
                0 => "radios".to_owned(),
                _ => format!("radio \"{}\"", places.name(i)),
            };
            notes.push(format!(
                "{which}: {}, {} wide, on channel {}, with the queues of mac80211",
                g.name(),
                width(place),
                place.channel
            ));
            let usual = format!(
                "count as {} with {} streams",
                g.name(),
                options.streams.unwrap_or(USUAL_STREAMS)
            );
            if places.all[..i].iter().all(|p| (p.generation, p.band) != (g, band)) {
                notes.extend(of_models(models, &known, band, &usual));
            }
            if i > 0 {
                let like = (g, place.mhz) == (first.generation, first.mhz);
                further.push((
                    places.name(i),
                    FurtherRadioDraft {
                        phy: (!like).then(|| name(g)),
                        width: (!like).then(|| width(place)),
                        streams: options.streams.filter(|_| !like),
                        ..FurtherRadioDraft::on(place.channel)
                    },
                ));
            }
            // An impossible width, channel or number of streams is told where the draft is built.
            today.push(Today::new(g, band, width(place), most, nodes, signals));
        }
        notes.extend(other_channels(places, channels));
        Radios { radio, further, notes, today }
    }

    /// Both directions of a link between two nodes, as one entry where they are alike.
    pub fn link(
        &mut self,
        (a, b, place): (usize, usize, usize),
        plain: LinkDraft,
        there: Heard,
        back: Heard,
    ) -> Vec<LinkDraft> {
        let both = LinkDraft {
            delivery: Some(there.delivery),
            delivery_back: Some(back.delivery).filter(|_| back.delivery != there.delivery),
            ..plain.clone()
        };
        let Some(today) = &mut self.today[place] else { return vec![both] };
        let (first, second) = (today.choose(a, b, there), today.choose(b, a, back));
        let signal = |h: Heard| h.signal.filter(|_| today.signals);
        let with = |link: LinkDraft, c: Choice| LinkDraft {
            mcs: Some(c.mcs),
            streams: Some(c.streams),
            ..link
        };
        if first == second {
            let signal_back = signal(back).filter(|_| back.signal != there.signal);
            return vec![LinkDraft { signal: signal(there), signal_back, ..with(both, first) }];
        }
        let one = |from, to, h: Heard, c| {
            let link = LinkDraft {
                delivery: Some(h.delivery),
                directed: true,
                radio: plain.radio.clone(),
                ..LinkDraft::new(from, to)
            };
            LinkDraft { signal: signal(h), ..with(link, c) }
        };
        let (from, to) = (&plain.from, &plain.to);
        vec![
            one(from.clone(), to.clone(), there, first),
            one(to.clone(), from.clone(), back, second),
        ]
    }

    /// What was assumed of so many links, once all were asked for.
    pub fn rates(&self, links: &[Directed]) -> Vec<String> {
        let of = |(place, today): (usize, &Option<Today>)| {
            let links: Vec<&Directed> = links.iter().filter(|l| l.place == place).collect();
            today.as_ref().filter(|_| !links.is_empty()).map(|t| t.told(&links))
        };
        self.today.iter().enumerate().filter_map(of).collect()
    }
}

/// What is left of links that do not have a channel of their own.
fn other_channels(places: &Places, channels: &Channels) -> Vec<String> {
    let mut notes = Vec::new();
    let all: usize = channels.values().sum();
    for (i, place) in places.all.iter().enumerate() {
        let others: Vec<_> = channels
            .iter()
            .filter(|(c, _)| places.at(Some(**c)) == i && **c != place.channel)
            .collect();
        let links: usize = others.iter().map(|c| c.1).sum();
        if links > 0 {
            notes.push(format!(
                "{links} of {all} links are on other channels than {}: they share its air here",
                place.channel
            ));
        }
    }
    if places.all.len() > 1 {
        let named: Vec<String> = places.all.iter().map(|p| p.channel.to_string()).collect();
        notes.push(format!(
            "{} channels, each a radio of the nodes that have links there: {} (`--channel` puts all links on one)",
            named.len(),
            named.join(", ")
        ));
    }
    notes
}

/// Whether 802.11a, b or g is asked for.
fn old(options: &ImportOptions) -> bool {
    match options.phy {
        None => options.rate.is_some(),
        Some(phy) => generation(phy).is_none(),
    }
}

fn known(models: &[Option<String>]) -> Vec<Option<&'static Model>> {
    models.iter().map(|m| Model::find(m.as_deref()?)).collect()
}

impl Today {
    /// What was assumed of these links, all of this radio.
    fn told(&self, links: &[&Directed]) -> String {
        let (mut by, mut modes) = (BTreeMap::<By, usize>::new(), BTreeMap::new());
        for l in links {
            let key = self.key(l.from, l.to, l.heard);
            *by.entry(key.1).or_default() += 1;
            if let Some(c) = self.chosen.get(&key) {
                *modes.entry((c.streams, c.mcs)).or_insert(0usize) += 1;
            }
        }
        let by: Vec<String> = by.iter().map(|(by, n)| format!("{n} by {}", by.words())).collect();
        let mut modes: Vec<_> = modes.into_iter().collect();
        modes.sort_by_key(|&(mode, n)| (std::cmp::Reverse(n), mode));
        let rest: usize = modes.iter().skip(LISTED).map(|m| m.1).sum();
        let mut named: Vec<String> = modes.iter().take(LISTED).map(|m| self.named(*m)).collect();
        if rest > 0 {
            named.push(format!("others {rest}"));
        }
        let lost = match self.signals {
            true => "what is lost follows from signal and noise",
            false => "frames are lost as often as the map's own probes, at every rate",
        };
        format!(
            "rates of {} directed links: {}; {}; {lost}",
            links.len(),
            by.join(", "),
            named.join(", ")
        )
    }

    /// `None`: no mode of this kind exists, which the draft's own check explains.
    fn new(
        g: Generation,
        band: Band,
        width: Frequency,
        streams: u8,
        nodes: Vec<(u8, u8)>,
        signals: bool,
    ) -> Option<Self> {
        let mhz = u32::try_from(width.0 / 1_000_000).ok()?;
        let all = (1..=streams).flat_map(|s| (0..=g.highest_mcs()).map(move |mcs| (mcs, s)));
        let modes: Vec<Mode> =
            all.filter_map(|(mcs, s)| Mode::new(g, mcs, s, mhz, GUARD).ok()).collect();
        let phy = Phy::modern(Modern {
            generation: g,
            band,
            modes: modes.clone(),
            ampdu: g.longest_ampdu(),
            amsdu: 0,
            window: 64,
            ns3: false,
        });
        let table = SnrTable::new(&phy, NOISE_FIGURE).ok()?;
        let errors = SnrErrors::new(table.into(), Power::ZERO, Fading::None);
        let known = |&mode: &Mode| {
            let rate = phy.rate_of(mode)?;
            let needs = half(&errors, FULL, rate);
            let carries = LinkModel::perfect(&phy, rate).capacity(&SEGMENTS);
            Some(Known { mode, rate, errors: errors.clone(), needs, carries })
        };
        let modes: Vec<Known> = modes.iter().filter_map(known).collect();
        let probe = half(&errors, PROBE, phy.lowest_basic());
        (!modes.is_empty()).then_some(Today {
            phy,
            modes,
            probe,
            nodes,
            signals,
            chosen: BTreeMap::new(),
        })
    }

    /// Equal keys run at equal rates.
    fn key(&self, from: usize, to: usize, heard: Heard) -> Key {
        let (a, b) = (self.nodes[from], self.nodes[to]);
        let (value, by) = match (heard.signal, heard.throughput) {
            (Some(dbm), _) => (dbm, By::Signal),
            (None, Some(mbit)) => (mbit, By::Throughput),
            (None, None) => (heard.delivery, By::Delivery),
        };
        (value.to_bits(), by, a.0.min(b.0), a.1.min(b.1))
    }

    fn choose(&mut self, from: usize, to: usize, heard: Heard) -> Choice {
        let key = self.key(from, to, heard);
        if let Some(&choice) = self.chosen.get(&key) {
            return choice;
        }
        let (bits, by, streams, highest) = key;
        let value = f64::from_bits(bits);
        let score = |m: &&Known| match by {
            By::Signal => self.at_signal(m, value),
            // As near as may be, in proportion.
            By::Throughput => -libm::fabs(libm::log(m.carries / (1e6 * value))),
            By::Delivery => self.at_delivery(m, value),
        };
        let allowed =
            self.modes.iter().filter(|m| m.mode.streams() <= streams && m.mode.mcs() <= highest);
        // Of equals the slower, with fewer streams.
        let order = |m: &&Known| (m.mode.streams(), m.mode.mcs());
        let best = allowed
            .max_by(|a, b| score(a).total_cmp(&score(b)).then_with(|| order(b).cmp(&order(a))));
        let choice = best.map_or(Choice { mcs: 0, streams: 1 }, |m| Choice {
            mcs: m.mode.mcs(),
            streams: m.mode.streams(),
        });
        self.chosen.insert(key, choice);
        choice
    }

    /// Goodput at a signal, bit/s, as the simulator's own table of errors has it.
    fn at_signal(&self, m: &Known, dbm: f64) -> f64 {
        let delivery = m.errors.heard_at(Power::from_dbm(dbm)).delivery(FULL, m.rate);
        LinkModel { delivery, ..LinkModel::perfect(&self.phy, m.rate) }.capacity(&SEGMENTS)
    }

    /// Goodput of a link of which so many probes arrive. Over Rayleigh fading exp(−needed / mean) of all frames
    /// find the power that they need: what probes at the lowest rate tell of the mean power, they tell of every rate.
    fn at_delivery(&self, m: &Known, delivery: f64) -> f64 {
        m.carries * libm::pow(delivery.min(BEST_KNOWN), (m.needs / self.probe).max(1.0))
    }

    fn named(&self, ((streams, mcs), links): ((u8, u8), usize)) -> String {
        let mode = self.modes.iter().find(|m| (m.mode.streams(), m.mode.mcs()) == (streams, mcs));
        let rate = mode.map_or_else(String::new, |m| {
            format!(" ({:.0} Mbit/s)", self.phy.bit_rate(m.rate).0 as f64 / 1e6)
        });
        let plural = if streams == 1 { "" } else { "s" };
        format!("MCS {mcs} with {streams} stream{plural}{rate} at {links}")
    }
}

/// The signal at which half of the frames survive, mW.
fn half(errors: &SnrErrors, bytes: u32, rate: Rate) -> f64 {
    let (mut low, mut high) = (-110.0, -20.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        let delivery = errors.heard_at(Power::from_dbm(middle)).delivery(bytes, rate);
        if delivery < 0.5 { low = middle } else { high = middle }
    }
    Decibel(high).ratio()
}
