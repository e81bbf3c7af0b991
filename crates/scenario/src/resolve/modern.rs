//! 802.11n, ac and ax: the modes used by a scenario, and the PHY with these modes.

use fairmesh_phy::mcs::{Generation, Mode, ModeError};
use fairmesh_phy::{Band, Modern, Phy};
use fairmesh_units::{Frequency, Span};

use super::{Result, fail};
use crate::draft::{AdaptationDraft, Draft, LinkDraft, LinkEntry, PhyName, RadioDraft, Rules};
use crate::error::{KeyPath, Problem, ScenarioError};

/// Maximum `txop`: far above the 4.096 ms of video (IEEE 802.11-2020 Table 9-155).
pub(super) const LONGEST_TXOP: Span = Span::from_millis(32);
/// Maximum number of modes in a scenario; a table of rates has 256 entries.
const MOST_MODES: usize = 200;

/// Returns the generation of an 802.11n, ac or ax PHY.
pub(super) fn generation(phy: PhyName) -> Option<Generation> {
    match phy {
        PhyName::N => Some(Generation::Ht),
        PhyName::Ac => Some(Generation::Vht),
        PhyName::Ax => Some(Generation::He),
        _ => None,
    }
}

/// Settings of a mode that the radio or a link requests.
#[derive(Clone, Copy, Default)]
struct ModeSettings {
    mcs: Option<u8>,
    streams: Option<u8>,
    width: Option<Frequency>,
    guard: Option<Span>,
}

impl ModeSettings {
    fn of_radio(r: &RadioDraft) -> Self {
        ModeSettings { mcs: r.mcs, streams: r.streams, width: r.width, guard: r.guard }
    }

    fn of_link(l: &LinkDraft) -> Self {
        ModeSettings { mcs: l.mcs, streams: l.streams, width: l.width, guard: l.guard }
    }

    fn is_empty(&self) -> bool {
        self.first_key().is_none()
    }

    fn first_key(&self) -> Option<&'static str> {
        let given = [
            (self.mcs.is_some(), "mcs"),
            (self.streams.is_some(), "streams"),
            (self.width.is_some(), "width"),
            (self.guard.is_some(), "guard"),
        ];
        given.into_iter().find(|g| g.0).map(|g| g.1)
    }

    fn or(self, other: ModeSettings) -> Self {
        ModeSettings {
            mcs: self.mcs.or(other.mcs),
            streams: self.streams.or(other.streams),
            width: self.width.or(other.width),
            guard: self.guard.or(other.guard),
        }
    }

    fn mode(self, g: Generation, key: &KeyPath) -> Result<Mode> {
        let mhz = self.width.map_or(20, |w| {
            // A width that is not a whole number of MHz matches no channel.
            if w.0.is_multiple_of(1_000_000) {
                (w.0 / 1_000_000).min(u64::from(u32::MAX))
            } else {
                0
            }
        }) as u32;
        let guard = self.guard.map_or(800, |s| s.as_nanos().min(u64::from(u32::MAX)) as u32);
        let streams = self.streams.unwrap_or(1);
        if let (Generation::Ht, Some(mcs @ 8..=15), Some(given)) = (g, self.mcs, self.streams)
            && given != 2
        {
            let problem =
                Problem::refused(format!("MCS {mcs} has two streams"), "`streams = 2`, or none");
            return fail(key.clone().key("streams"), problem);
        }
        let mode = match self.mcs {
            Some(mcs) => Mode::new(g, mcs, streams, mhz, guard),
            None => Mode::fastest(g, streams, mhz, guard),
        };
        mode.map_err(|e| {
            let name = match e {
                ModeError::Mcs(..) | ModeError::Excluded(_) => "mcs",
                ModeError::Streams(..) => "streams",
                ModeError::Width(..) => "width",
                ModeError::Guard(..) => "guard",
            };
            let problem = Problem::refused(e.to_string(), e.expected());
            ScenarioError::at(key.clone().key(name), problem)
        })
    }
}

/// Refuses keys that only radios of 802.11n, ac and ax have.
pub(super) fn refuse_keys(r: &RadioDraft) -> Result<()> {
    let key = ModeSettings::of_radio(r).first_key().or_else(|| {
        let given = [
            (r.ampdu.is_some(), "ampdu"),
            (r.amsdu.is_some(), "amsdu"),
            (r.mpdus.is_some(), "mpdus"),
            (r.txop.is_some(), "txop"),
            (r.rules == Rules::Ns3, "rules"),
            (r.adaptation == AdaptationDraft::MinstrelHt, "adaptation"),
        ];
        given.into_iter().find(|g| g.0).map(|g| g.1)
    });
    match key {
        None => Ok(()),
        Some(key) => fail(KeyPath::from("radio").key(key), only_modern()),
    }
}

fn only_modern() -> Problem {
    Problem::refused(
        "only radios of 802.11n, ac and ax have this",
        "`radio.phy` of \"802.11n\", \"802.11ac\" or \"802.11ax\"",
    )
}

/// Refuses features that are not modelled, by name.
pub(super) fn refuse_features(r: &RadioDraft) -> Result<()> {
    let requested = [
        (r.ofdma, "ofdma", "OFDMA is not modelled"),
        (r.mu_mimo, "mu_mimo", "multi-user MIMO is not modelled"),
    ];
    match requested.into_iter().find(|a| a.0) {
        None => Ok(()),
        Some((_, key, what)) => {
            let problem = Problem::refused(what, "`false`, or no such key");
            fail(KeyPath::from("radio").key(key), problem)
        }
    }
}

/// Returns the PHY of a scenario, with all modes of its links, and the default mode.
pub(super) fn phy(draft: &Draft, g: Generation) -> Result<(Phy, Mode)> {
    let r = &draft.radio;
    let radio = KeyPath::from("radio");
    if let Some(rate) = r.rate {
        let what = format!("{rate} does not determine {}", g.name());
        return fail(radio.key("rate"), Problem::refused(what, "`mcs` and, if not 1, `streams`"));
    }
    let adapts = r.adaptation == AdaptationDraft::MinstrelHt;
    if r.adaptation != AdaptationDraft::Fixed && !adapts {
        let what = format!("{} adapts by MCS", g.name());
        let problem = Problem::refused(what, "\"fixed\" or \"minstrel-ht\"");
        return fail(radio.key("adaptation"), problem);
    }
    let own = ModeSettings::of_radio(r);
    let usual = own.mode(g, &radio)?;
    let mut modes = vec![usual];
    if adapts {
        add_family(&mut modes, g, usual);
    }
    for (key, link) in links(draft) {
        if let Some(mode) = mode_of(link, r, g, &key)?
            && !modes.contains(&mode)
        {
            modes.push(mode);
        }
        if modes.len() > MOST_MODES {
            let problem = Problem::range(modes.len(), format!("at most {MOST_MODES} modes"));
            return fail(key, problem);
        }
    }
    let band = band(draft, g, &modes)?;
    let most = g.most_mpdus();
    let window = r.mpdus.unwrap_or(64);
    if !(1..=most).contains(&window) {
        return fail(radio.key("mpdus"), Problem::range(window, format!("1 to {most}")));
    }
    let most = u64::from(g.longest_ampdu());
    let ampdu = r.ampdu.map_or(most, |b| b.0);
    if ampdu > most {
        let problem = Problem::range(format!("{ampdu} B"), format!("at most {most} B"));
        return fail(radio.key("ampdu"), problem);
    }
    // 802.11ax has no VHT capabilities at 2.4 GHz, so the limit of 802.11n applies (IEEE
    // 802.11ax-2021 §9.2.4.7).
    let most = u64::from(match (g, band) {
        (Generation::He, Band::Ghz2) => Generation::Ht.longest_amsdu(),
        _ => g.longest_amsdu(),
    });
    let amsdu = r.amsdu.map_or(0, |b| b.0);
    if amsdu > most {
        let problem = Problem::range(format!("{amsdu} B"), format!("at most {most} B"));
        return fail(radio.key("amsdu"), problem);
    }
    let (ampdu, amsdu, ns3) = (ampdu as u32, amsdu as u32, r.rules == Rules::Ns3);
    Ok((Phy::modern(Modern { generation: g, band, modes, ampdu, amsdu, window, ns3 }), usual))
}

/// Adds all MCS of a mode's width and guard interval, with up to as many streams.
fn add_family(modes: &mut Vec<Mode>, g: Generation, of: Mode) {
    for streams in 1..=of.streams() {
        for mcs in 0..=g.highest_mcs() {
            let mode = Mode::new(g, mcs, streams, of.width_mhz(), of.guard_ns());
            modes.extend(mode.ok().filter(|m| !modes.contains(m)));
        }
    }
}

/// Returns the TXOP limit.
pub(super) fn txop(r: &RadioDraft) -> Result<Span> {
    let txop = r.txop.unwrap_or(Span::ZERO);
    if txop > LONGEST_TXOP {
        let problem = Problem::range(txop, format!("at most {LONGEST_TXOP}"));
        return fail("radio.txop".into(), problem);
    }
    Ok(txop)
}

/// Returns every link that may name a mode, with its key.
fn links(draft: &Draft) -> impl Iterator<Item = (KeyPath, &LinkDraft)> {
    let tables = draft.topology.links.iter().flatten().enumerate();
    let tables = tables.filter_map(|(i, entry)| match entry {
        LinkEntry::Pair(_) => None,
        LinkEntry::Table(link) => Some((KeyPath::from("topology.links").index(i), link)),
    });
    let details = draft.link.iter().enumerate().map(|(i, l)| (KeyPath::from("link").index(i), l));
    tables.chain(details)
}

/// Returns the mode of a link, completed by the radio's settings.
fn mode_of(link: &LinkDraft, r: &RadioDraft, g: Generation, key: &KeyPath) -> Result<Option<Mode>> {
    let requested = ModeSettings::of_link(link);
    if requested.is_empty() {
        return Ok(None);
    }
    if link.rate.is_some() {
        let problem = Problem::refused("a rate beside an MCS", "one of them");
        return fail(key.clone().key("rate"), problem);
    }
    requested.or(ModeSettings::of_radio(r)).mode(g, key).map(Some)
}

/// Returns the mode named by a link; `None` if it names none.
pub(super) fn link_mode(link: &LinkDraft, r: &RadioDraft, key: &KeyPath) -> Result<Option<Mode>> {
    match (generation(r.phy), ModeSettings::of_link(link).first_key()) {
        (_, None) => Ok(None),
        (Some(g), Some(_)) => mode_of(link, r, g, key),
        (None, Some(name)) => fail(key.clone().key(name), only_modern()),
    }
}

/// Returns the number of a radio's channel.
pub(super) fn channel(r: &RadioDraft) -> u32 {
    let at_5_ghz = matches!(r.phy, PhyName::A | PhyName::N | PhyName::Ac | PhyName::Ax);
    r.channel.unwrap_or(if at_5_ghz { 36 } else { 6 })
}

/// Checks the channel of 802.11a, b or g, in its band.
pub(super) fn check_channel(r: &RadioDraft) -> Result<()> {
    let key = KeyPath::from("radio.channel");
    match (room_of(channel(r)), r.phy) {
        (None, _) => fail(key, Problem::range(channel(r), VALID_CHANNELS)),
        (Some((Band::Ghz2, _)), PhyName::A) => {
            let problem = Problem::refused("802.11a has no channels at 2.4 GHz", "36 to 165");
            fail(key, problem)
        }
        (Some((Band::Ghz5, _)), phy) if phy != PhyName::A => {
            fail(key, Problem::refused(format!("{phy} has no channels at 5 GHz"), "1 to 13"))
        }
        _ => Ok(()),
    }
}

/// Returns the centre frequency, Hz (IEEE 802.11-2020 §15.4.4.3, §17.3.8.4.2).
///
/// Without a channel, 802.11a and b are on 36 and 6.
pub(super) fn carrier(r: &RadioDraft) -> f64 {
    match channel(r) {
        channel @ 1..=13 => 2.407e9 + 5e6 * f64::from(channel),
        channel => 5e9 + 5e6 * f64::from(channel),
    }
}

/// Valid channels, in words.
pub(crate) const VALID_CHANNELS: &str =
    "1 to 13, or 36, 40, … 64, 100, 104, … 144, 149, 153, … 165";

/// Returns the band of a channel, and the widest channel around it, MHz.
pub(crate) fn room_of(channel: u32) -> Option<(Band, u32)> {
    match channel {
        1..=13 => Some((Band::Ghz2, 40)),
        36..=64 | 100..=128 if channel.is_multiple_of(4) => Some((Band::Ghz5, 160)),
        132..=144 if channel.is_multiple_of(4) => Some((Band::Ghz5, 80)),
        149..=161 if (channel - 149).is_multiple_of(4) => Some((Band::Ghz5, 80)),
        165 => Some((Band::Ghz5, 20)),
        _ => None,
    }
}

/// Returns the band of the channel, after a check that it fits the widest mode.
///
/// IEEE 802.11-2020 Annex E, global operating classes 81 to 84 and 115 to 129.
fn band(draft: &Draft, g: Generation, modes: &[Mode]) -> Result<Band> {
    let radio = KeyPath::from("radio");
    let channel = draft.radio.channel.unwrap_or(36);
    let widest = modes.iter().map(|m| m.width_mhz()).max().unwrap_or(20);
    let (band, room) = match room_of(channel) {
        Some((Band::Ghz2, _)) if g == Generation::Vht => {
            let problem = Problem::refused("802.11ac has no channels at 2.4 GHz", "36 to 177");
            return fail(radio.key("channel"), problem);
        }
        Some(found) => found,
        None => return fail(radio.key("channel"), Problem::range(channel, VALID_CHANNELS)),
    };
    if widest > room {
        let key = if draft.radio.channel.is_some() { "channel" } else { "width" };
        let what = format!("{widest} MHz around channel {channel}");
        return fail(radio.key(key), Problem::refused(what, format!("at most {room} MHz there")));
    }
    Ok(band)
}
