//! Kinds of radio: `[radio]`, named `main`, and `[radios.NAME]`.

use std::borrow::Cow;

use fairmesh_phy::spectrum::Occupied;
use fairmesh_units::NodeId;

use super::radio::{self, Radio};
use super::{Result, fail, modern};
use crate::draft::{Draft, LinkDraft, LinkEntry, PhyName, RadioDraft};
use crate::error::{KeyPath, Problem, ScenarioError, Step};

/// Name of the `[radio]` section among several radios.
pub(super) const MAIN_RADIO: &str = "main";
/// Maximum number of radio kinds in a scenario.
///
/// It is above the number of non-overlapping 20 MHz channels.
const MOST_KINDS: usize = 32;

/// A kind of radio.
pub(super) struct Kind<'a> {
    pub name: String,
    /// The scenario with this kind's settings as its `[radio]`.
    pub draft: Cow<'a, Draft>,
    pub radio: Radio,
    pub occupied: Occupied,
    /// Number of its channel, if given.
    pub channel: Option<u32>,
}

/// Returns all kinds; the first is `[radio]`.
pub(super) fn list(draft: &Draft) -> Result<Vec<Kind<'_>>> {
    check_names(draft)?;
    let radio = radio::build(draft)?;
    let main = Kind {
        name: MAIN_RADIO.to_owned(),
        occupied: occupied(&draft.radio),
        channel: draft.radio.channel,
        radio,
        draft: Cow::Borrowed(draft),
    };
    let mut all = vec![main];
    for (name, further) in &draft.radios {
        let mut own = draft.clone();
        own.radio = further.over(&draft.radio);
        drop_modes_of_others(&mut own, name);
        let radio = radio::build(&own).map_err(|e| at_home(e, draft, name))?;
        all.push(Kind {
            name: name.clone(),
            occupied: occupied(&own.radio),
            channel: own.radio.channel,
            radio,
            draft: Cow::Owned(own),
        });
    }
    if !draft.radios.is_empty() {
        let mut own = draft.clone();
        drop_modes_of_others(&mut own, MAIN_RADIO);
        all[0].radio = radio::build(&own)?;
        all[0].draft = Cow::Owned(own);
    }
    one_on_each_channel(&all)?;
    Ok(all)
}

/// Returns the occupied spectrum; 5180 MHz is assumed for a channel that does not exist.
fn occupied(r: &RadioDraft) -> Occupied {
    let mhz = r.width.map_or(20, |w| (w.0 / 1_000_000) as u32);
    let spread = matches!(r.phy, PhyName::B | PhyName::BShort);
    let usual = Occupied { middle_mhz: 5180, width_mhz: mhz, spread };
    Occupied::of(modern::channel(r), mhz, spread).unwrap_or(usual)
}

impl Kind<'_> {
    /// Returns an error of this kind's draft, at the key that caused it.
    pub fn at_home(&self, error: ScenarioError, draft: &Draft) -> ScenarioError {
        if self.name == MAIN_RADIO { error } else { at_home(error, draft, &self.name) }
    }

    /// Returns the key of its channel.
    pub fn channel_key(&self) -> KeyPath {
        match self.name.as_str() {
            MAIN_RADIO => KeyPath::from("radio.channel"),
            name => KeyPath::from("radios").key(name).key("channel"),
        }
    }

    /// Returns true if a link that names this radio, or none, uses it.
    pub fn carries(&self, link: &LinkDraft) -> bool {
        link.radio.as_ref().is_none_or(|r| *r == self.name)
    }
}

/// Moves an error from `radio.KEY` to `radios.NAME.KEY` if that table has the key.
///
/// Inherited values keep their position.
fn at_home(mut error: ScenarioError, draft: &Draft, name: &str) -> ScenarioError {
    let own = draft.radios.get(name).and_then(|r| serde_json::to_value(r).ok());
    let [Step::Key(first), rest @ ..] = error.key.0.as_slice() else { return error };
    if first != "radio" {
        return error;
    }
    let inherited = match rest.first() {
        Some(Step::Key(key)) => own.as_ref().is_some_and(|o| o.get(key).is_none()),
        _ => false,
    };
    let given = draft.radios.get(name).is_some_and(|r| r.phy.is_some());
    if !inherited || given {
        let mut steps = vec![Step::Key("radios".to_owned()), Step::Key(name.to_owned())];
        steps.extend_from_slice(rest);
        error.key = KeyPath(steps);
    }
    error
}

/// Removes the modes of links on other radios.
fn drop_modes_of_others(draft: &mut Draft, name: &str) {
    let forget = |link: &mut LinkDraft| {
        if link.radio.as_ref().is_some_and(|r| r != name) {
            (link.mcs, link.streams, link.width, link.guard) = (None, None, None, None);
        }
    };
    for entry in draft.topology.links.iter_mut().flatten() {
        if let LinkEntry::Table(link) = entry {
            forget(link);
        }
    }
    draft.link.iter_mut().for_each(forget);
}

fn unknown(draft: &Draft, name: &str) -> Option<Problem> {
    if name == MAIN_RADIO || draft.radios.contains_key(name) {
        return None;
    }
    let known = [MAIN_RADIO].into_iter().chain(draft.radios.keys().map(String::as_str));
    let known: Vec<&str> = known.collect();
    let expected = format!("one of {}", known.join(", "));
    Some(Problem::refused(format!("no radio is called \"{name}\""), expected))
}

/// Checks names of radios, at their definition and use.
fn check_names(draft: &Draft) -> Result<()> {
    for name in draft.radios.keys() {
        let key = KeyPath::from("radios").key(name);
        if name == MAIN_RADIO {
            let problem = Problem::refused("`main` is `[radio]`", "another name");
            return fail(key, problem);
        }
        if name.is_empty() || name.contains(['/', '\n']) {
            return fail(key, Problem::refused("no name of a radio", "letters and digits"));
        }
    }
    if draft.radios.len() >= MOST_KINDS {
        let problem = Problem::range(draft.radios.len(), format!("below {MOST_KINDS}"));
        return fail("radios".into(), problem);
    }
    let check = |name: &str, key: KeyPath| match unknown(draft, name) {
        Some(problem) => fail(key, problem),
        None => Ok(()),
    };
    for (i, entry) in draft.topology.links.iter().flatten().enumerate() {
        if let LinkEntry::Table(LinkDraft { radio: Some(name), .. }) = entry {
            check(name, KeyPath::from("topology.links").index(i).key("radio"))?;
        }
    }
    for (i, link) in draft.link.iter().enumerate() {
        if let Some(name) = &link.radio {
            check(name, KeyPath::from("link").index(i).key("radio"))?;
        }
    }
    for (i, interferer) in draft.interferer.iter().enumerate() {
        if let Some(name) = &interferer.radio {
            check(name, KeyPath::from("interferer").index(i).key("radio"))?;
        }
    }
    if draft.topology.alternate && draft.radios.is_empty() {
        let problem = Problem::refused("there is one radio", "`[radios.NAME]` beside `[radio]`");
        return fail("topology.alternate".into(), problem);
    }
    Ok(())
}

/// Returns the radios of a node, as indices of kinds, as named by the node or the topology.
pub(super) fn of_node(
    draft: &Draft,
    kinds: &[Kind<'_>],
    named: Option<(&[String], KeyPath)>,
) -> Result<Vec<usize>> {
    let usual = draft.topology.radios.as_deref();
    let (names, key) = match named.or(usual.map(|u| (u, KeyPath::from("topology.radios")))) {
        None => return Ok((0..kinds.len()).collect()),
        Some(named) => named,
    };
    if names.is_empty() {
        let problem = Problem::refused("a wireless node without radios", "at least one");
        return fail(key, problem);
    }
    let mut found = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        let key = key.clone().index(i);
        let Some(kind) = kinds.iter().position(|k| k.name == *name) else {
            let problem = unknown(draft, name);
            let nothing = Problem::UnknownNode(name.clone());
            return fail(key, problem.unwrap_or(nothing));
        };
        if found.contains(&kind) {
            let what = format!("\"{name}\" twice: two radios of a node on one channel");
            return fail(key, Problem::refused(what, "every radio once"));
        }
        found.push(kind);
    }
    Ok(found)
}

/// Checks that channels are distinct.
///
/// A node with two radios on one channel would interfere with itself.
fn one_on_each_channel(all: &[Kind<'_>]) -> Result<()> {
    for (i, kind) in all.iter().enumerate() {
        let other = all[..i].iter().find(|k| k.occupied.middle_mhz == kind.occupied.middle_mhz);
        if let Some(other) = other {
            let channel = modern::channel(&kind.draft.radio);
            let what = format!("channel {channel} is where the radio \"{}\" is", other.name);
            let expected = format!(
                "a channel of its own, or `radios` of the nodes to name \"{}\" instead",
                other.name
            );
            return fail(kind.channel_key(), Problem::refused(what, expected));
        }
    }
    Ok(())
}

/// Returns the medium of each kind: the first kind with the same settings.
///
/// Radios with different settings must not overlap.
pub(super) fn media(all: &[Kind<'_>]) -> Result<Vec<usize>> {
    let mut media = Vec::with_capacity(all.len());
    for (i, kind) in all.iter().enumerate() {
        let same = |other: &Kind<'_>| other.radio.mac == kind.radio.mac;
        media.push(all[..i].iter().position(same).unwrap_or(i));
        let reaches = |k: &&Kind<'_>| {
            let apart = (k.occupied.leak(&kind.occupied), kind.occupied.leak(&k.occupied));
            apart != (None, None) && !same(k)
        };
        if let Some(other) = all[..i].iter().find(reaches) {
            let channels = [kind, other].map(|k| modern::channel(&k.draft.radio));
            let what = format!(
                "channel {} reaches into channel {} of the radio \"{}\", which has other settings",
                channels[0], channels[1], other.name
            );
            let expected = "a channel further away, or the same phy, width and rate as that radio";
            return fail(kind.channel_key(), Problem::refused(what, expected));
        }
    }
    Ok(media)
}

/// Nodes with a kind of radio, and their stations, if there are several kinds.
pub(super) struct Members<'a> {
    pub kind: &'a Kind<'a>,
    /// Station by node, without its further radios and the wired hosts.
    pub station: Vec<Option<NodeId>>,
}

impl Members<'_> {
    pub fn has(&self, node: NodeId) -> bool {
        self.station.get(node.index()).is_some_and(Option::is_some)
    }
}
