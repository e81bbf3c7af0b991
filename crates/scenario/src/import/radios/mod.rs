//! Assumed radios of a map's routers, and the rate of each link (docs/scenarios/maps.md).

mod rates;

use fairmesh_phy::Band;
use fairmesh_phy::mcs::Generation;
use fairmesh_units::{BitRate, Frequency};

use super::band::{band, generation, name, of_models, usual};
use super::channels::{Channels, Place, Places};
use super::models::Model;
use super::{ImportOptions, Result};
use crate::draft::{
    ErrorsDraft, FurtherRadioDraft, LinkDraft, Mac80211Draft, PhyName, Profile, RadioDraft,
    SnrDraft,
};
use crate::error::{Problem, ScenarioError};
use rates::{Choice, ModernRates};
pub(super) use rates::{Directed, Reception};

/// Streams of an unknown router.
///
/// Most routers of the last fifteen years have at least this many.
const USUAL_STREAMS: u8 = 2;

/// The radios of a map.
pub(super) struct Radios {
    pub radio: RadioDraft,
    /// Further radios, in the order of [`Places::all`].
    pub further: Vec<(String, FurtherRadioDraft)>,
    pub notes: Vec<String>,
    /// Rate selection for the links of each radio.
    modern_rates: Vec<Option<ModernRates>>,
}

impl Radios {
    /// Returns the places of the radios: one channel, or the channels that the links name.
    pub fn places(
        options: &ImportOptions,
        models: &[Option<String>],
        channels: &Channels,
    ) -> Result<Places> {
        let requested = options.phy.and_then(generation);
        if let (Some(rate), Some(phy)) = (options.rate, requested) {
            let what = format!("{rate} does not determine {}", phy.name());
            let expected = "no rate, or \"802.11a\", \"802.11b\" or \"802.11g\" as PHY";
            return Err(ScenarioError::at("radio.rate".into(), Problem::refused(what, expected)));
        }
        let known = known(models);
        let kind = |channel: Option<u32>| {
            let band = match channel {
                Some(1..=13) => Band::Ghz2,
                Some(_) => Band::Ghz5,
                None => band(requested, &known),
            };
            let g = requested.unwrap_or_else(|| usual(band, &known));
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
        // Radios of 802.11a, b and g use one channel.
        let none = Channels::new();
        Ok(Places::of(options, if old(options) { &none } else { channels }, kind))
    }

    /// Returns 802.11a, b or g: one rate for all links.
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
        Radios { radio, further: Vec::new(), notes: Vec::new(), modern_rates: vec![None] }
    }

    /// Derives the radios from the options, the nodes' models and the places of the radios.
    ///
    /// `channels` counts the map entries of each channel; `signals` is true if every link has a signal strength.
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
        let known = known(models);
        let first = places.all[0];
        let width = |p: &Place| options.width.unwrap_or(Frequency(p.mhz * 1_000_000));
        let radio = RadioDraft {
            phy: name(first.generation),
            width: Some(width(&first)),
            channel: Some(first.channel),
            streams: options.streams,
            profile: Some(Profile::Graph),
            queue: Some(Mac80211Draft::default().into()),
            errors: signals
                .then(|| ErrorsDraft { snr: Some(SnrDraft::default()), ..ErrorsDraft::default() }),
            ..RadioDraft::default()
        };
        let mut notes = Vec::new();
        let (mut modern_rates, mut further) = (Vec::new(), Vec::new());
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
            // An invalid width, channel or number of streams is reported when the draft is built.
            modern_rates.push(ModernRates::new(g, band, width(place), most, nodes, signals));
        }
        notes.extend(other_channels(places, channels));
        Radios { radio, further, notes, modern_rates }
    }

    /// Returns both directions of a link between two nodes, as one entry if they are equal.
    pub fn link(
        &mut self,
        (a, b, place): (usize, usize, usize),
        plain: LinkDraft,
        there: Reception,
        back: Reception,
    ) -> Vec<LinkDraft> {
        let both = LinkDraft {
            delivery: Some(there.delivery),
            delivery_back: Some(back.delivery).filter(|_| back.delivery != there.delivery),
            ..plain.clone()
        };
        let Some(modern_rates) = &mut self.modern_rates[place] else { return vec![both] };
        let (first, second) = (modern_rates.choose(a, b, there), modern_rates.choose(b, a, back));
        let signal = |h: Reception| h.signal.filter(|_| modern_rates.signals);
        let with = |link: LinkDraft, c: Choice| LinkDraft {
            mcs: Some(c.mcs),
            streams: Some(c.streams),
            ..link
        };
        if first == second {
            let signal_back = signal(back).filter(|_| back.signal != there.signal);
            return vec![LinkDraft { signal: signal(there), signal_back, ..with(both, first) }];
        }
        let one = |from, to, h: Reception, c| {
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

    /// Describes the assumptions about the links; must be called after all rates were chosen.
    pub fn rates(&self, links: &[Directed]) -> Vec<String> {
        let of = |(place, modern_rates): (usize, &Option<ModernRates>)| {
            let links: Vec<&Directed> = links.iter().filter(|l| l.place == place).collect();
            modern_rates.as_ref().filter(|_| !links.is_empty()).map(|t| t.describe(&links))
        };
        self.modern_rates.iter().enumerate().filter_map(of).collect()
    }
}

/// Returns notes on links with a merged channel, and on the channels in use.
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

/// Returns true if 802.11a, b or g is requested.
fn old(options: &ImportOptions) -> bool {
    match options.phy {
        None => options.rate.is_some(),
        Some(phy) => generation(phy).is_none(),
    }
}

fn known(models: &[Option<String>]) -> Vec<Option<&'static Model>> {
    models.iter().map(|m| Model::find(m.as_deref()?)).collect()
}
