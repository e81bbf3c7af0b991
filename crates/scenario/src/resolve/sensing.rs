//! Reception between stations: pairs, received power and propagation delay.

use std::collections::BTreeMap;

use fairmesh_phy::Rate;
use fairmesh_units::{Distance, NodeId, Power, Probability, Span};
use fairmesh_wifi::SensedPair;
use fairmesh_wifi::loss::FrameErrors;
use fairmesh_wifi::propagation::{self, Law, LogDistance, Propagation};

use super::kinds::Members;
use super::modern;
use super::nodes::{self, Nodes};
use super::places::USUAL_DECODE;
use super::radio::{Radio, find_rate};
use super::{MAX_PAIRS, Result, fail};
use crate::draft::{Draft, LinkDraft, Profile, RadioDraft, ReceptionDraft};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::neighbours::{self, Cells, Place};
use crate::scenario::Link;

/// The wireless medium.
pub(super) struct Medium {
    pub sensed_pairs: Vec<SensedPair>,
    pub links: Vec<Link>,
    /// Propagation model, if links are derived from positions.
    pub propagation: Option<Propagation>,
    /// Indices of link details that apply to links of other radios.
    pub missed: Vec<usize>,
}

/// Sense range of ns-2's radio.
const USUAL_SENSE: Distance = Distance(550.0);
/// Distance beyond which received power approaches the resolution of `Power`, an attowatt.
const FARTHEST_TWO_RAY: Distance = Distance(10_000.0);

impl Medium {
    /// Builds the medium of all nodes in `members`, or of all nodes with one kind of radio.
    pub fn build(
        draft: &Draft,
        nodes: &Nodes,
        radio: &Radio,
        members: Option<&Members<'_>>,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let profile = nodes::profile(draft, nodes)?;
        let mut medium = match &nodes.links {
            Some(links) => {
                path_loss(draft, profile)?;
                from_links(draft, nodes, radio, links, members)?
            }
            None => from_positions(draft, nodes, profile, members)?,
        };
        details(draft, nodes, radio, members, &mut medium)?;
        if matches!(radio.errors, FrameErrors::Snr(_)) && nodes.links.is_some() {
            check_signals(&medium, nodes)?;
        }
        limit_delays(&mut medium.sensed_pairs, radio.mac.phy.slot(), nodes, warnings);
        Ok(medium)
    }
}

/// Returns true if both nodes are among these members; true without members.
fn both(members: Option<&Members<'_>>, a: NodeId, b: NodeId) -> bool {
    members.is_none_or(|m| m.has(a) && m.has(b))
}

fn from_positions(
    draft: &Draft,
    nodes: &Nodes,
    profile: Profile,
    members: Option<&Members<'_>>,
) -> Result<Medium> {
    let t = &draft.topology;
    if !t.senses.is_empty() || t.sense_hops.is_some() {
        let key = if t.senses.is_empty() { "topology.sense_hops" } else { "topology.senses" };
        let problem = Problem::refused("positions determine the range", "`topology.links`");
        return fail(key.into(), problem);
    }
    let propagation = propagation_model(draft, profile)?;
    let place = |n: &crate::scenario::Node| n.position.unwrap_or_default();
    let places: Vec<Place> = nodes.list[..nodes.devices].iter().map(place).collect();
    let cells = Cells::new(&places, propagation.sense);
    let mut sensed_pairs = Vec::new();
    for from in 0..places.len() {
        let first = sensed_pairs.len();
        cells.within(from, |to, distance| {
            if let Some((power, decodes)) = propagation.received(distance)
                && both(members, NodeId(from as u32), NodeId(to as u32))
            {
                let delay = propagation::delay(distance);
                sensed_pairs.push(SensedPair {
                    from: from as u32,
                    to: to as u32,
                    power,
                    decodes,
                    delay,
                });
            }
        });
        check_density(sensed_pairs.len(), "topology")?;
        sensed_pairs[first..].sort_unstable_by_key(|h| h.to);
    }
    let link = |h: &SensedPair| Link {
        from: NodeId(h.from),
        to: NodeId(h.to),
        rate: None,
        delivery: Probability(1.0),
    };
    let links = sensed_pairs.iter().filter(|h| h.decodes).map(link).collect();
    Ok(Medium { sensed_pairs, links, propagation: Some(propagation), missed: Vec::new() })
}

/// Returns the propagation model of `[radio]`.
fn propagation_model(draft: &Draft, profile: Profile) -> Result<Propagation> {
    let r = &draft.radio;
    let path_loss = path_loss(draft, profile)?;
    let reach = path_loss.map(|law| law.reach(propagation::SENSITIVITY_DBM));
    let decode = r.decode.or(reach).unwrap_or(USUAL_DECODE);
    let (law, usual_sense) = match (profile, r.reception) {
        // Two flat levels, so that no frame is ever captured.
        (Profile::Ns2, ReceptionDraft::NoCap) => (Law::Flat, USUAL_SENSE),
        (Profile::Ns2, _) => (Law::TwoRayGround, USUAL_SENSE),
        (Profile::LogDistance, ReceptionDraft::NoCap) => (Law::Flat, decode),
        (Profile::LogDistance, _) => (path_loss.map_or(Law::Flat, Law::LogDistance), decode),
        (Profile::Graph, _) => (Law::Flat, decode),
    };
    let sense = r.sense.unwrap_or(Distance(usual_sense.0.max(decode.0)));
    if decode.0 <= 0.0 {
        return fail("radio.decode".into(), Problem::range(decode, "above 0 m"));
    }
    if sense < decode {
        let problem = Problem::range(sense, format!("at least the decode range, {decode}"));
        return fail("radio.sense".into(), problem);
    }
    if !matches!(law, Law::Flat) && sense > FARTHEST_TWO_RAY {
        let key = if r.sense.is_some() { "radio.sense" } else { "radio.decode" };
        let problem = Problem::range(sense, "at most 10 km, or `profile = \"graph\"`");
        return fail(key.into(), problem);
    }
    Ok(Propagation { law, decode, sense })
}

/// Returns `power` and `exponent`, at the channel's frequency.
fn path_loss(draft: &Draft, profile: Profile) -> Result<Option<LogDistance>> {
    let r = &draft.radio;
    if profile != Profile::LogDistance {
        let given = [(r.power.is_some(), "power"), (r.exponent.is_some(), "exponent")];
        return match given.into_iter().find(|g| g.0) {
            None => Ok(None),
            Some((_, key)) => {
                let problem = Problem::refused(
                    "only path loss by distance has this",
                    "`profile = \"log-distance\"`",
                );
                fail(KeyPath::from("radio").key(key), problem)
            }
        };
    }
    let (power_dbm, exponent) = (r.power.unwrap_or(20.0), r.exponent.unwrap_or(3.0));
    if !(-20.0..=50.0).contains(&power_dbm) {
        return fail("radio.power".into(), Problem::range(power_dbm, "-20 to 50 dBm"));
    }
    if !(1.5..=6.0).contains(&exponent) {
        return fail("radio.exponent".into(), Problem::range(exponent, "1.5 to 6"));
    }
    Ok(Some(LogDistance { power_dbm, exponent, carrier: modern::carrier(r) }))
}

fn check_density(pairs: usize, key: &str) -> Result<()> {
    if pairs > MAX_PAIRS {
        return fail(key.into(), Problem::TooDense { most: MAX_PAIRS });
    }
    Ok(())
}

/// Properties of an ordered pair.
#[derive(Clone, Copy)]
struct Pair {
    rate: Option<Rate>,
    /// `None`: sensed only.
    delivery: Option<Probability>,
    /// Received power, if given.
    signal: Option<Power>,
}

type Pairs = BTreeMap<(NodeId, NodeId), Pair>;

fn from_links(
    draft: &Draft,
    nodes: &Nodes,
    radio: &Radio,
    given: &[LinkDraft],
    members: Option<&Members<'_>>,
) -> Result<Medium> {
    for (key, is) in
        [("decode", draft.radio.decode.is_some()), ("sense", draft.radio.sense.is_some())]
    {
        if is {
            let problem = Problem::refused("explicit links have no range", "it to be left out");
            return fail(KeyPath::from("radio").key(key), problem);
        }
    }
    let mut pairs = Pairs::new();
    let key = |i| KeyPath::from("topology.links").index(i);
    for (i, link) in given.iter().enumerate() {
        let from = nodes.wireless(&link.from, key(i))?;
        let to = nodes.wireless(&link.to, key(i))?;
        if members.is_some_and(|m| !m.kind.carries(link)) || !both(members, from, to) {
            // A radio that one of its ends lacks carries no link.
            let none = match &link.radio {
                Some(_) => members.is_some_and(|m| m.kind.carries(link)),
                None => nodes.common(from, to).next().is_none(),
            };
            if none {
                let (a, b) = (link.from.to_string(), link.to.to_string());
                let what = format!("{a} and {b} have no such radio in common");
                let problem = Problem::refused(what, "a radio that both have");
                return fail(key(i).key("radio"), problem);
            }
            continue;
        }
        let (forward, back) = values(link, &draft.radio, radio, &key(i))?;
        let twice = || {
            let problem = Problem::DuplicateLink(link.from.to_string(), link.to.to_string());
            ScenarioError::at(key(i), problem)
        };
        if pairs.insert((from, to), forward).is_some() {
            return Err(twice());
        }
        if !link.directed && pairs.insert((to, from), back).is_some() {
            return Err(twice());
        }
    }
    sense_only(draft, nodes, members, &mut pairs)?;
    check_density(pairs.len(), "topology.links")?;
    let delay = |a: NodeId, b: NodeId| {
        let at = |n: NodeId| nodes.list[n.index()].position;
        at(a).zip(at(b)).map_or(Span::ZERO, |(a, b)| propagation::delay(neighbours::distance(a, b)))
    };
    // With noise, a flat level would represent a link that was never measured.
    let flat = |decodes| match (&radio.errors, decodes) {
        (FrameErrors::Snr(_), true) => Power::ZERO,
        (FrameErrors::Snr(_), false) => Power::from_dbm(propagation::SENSITIVITY_DBM),
        _ => propagation::flat(decodes),
    };
    let resolved = |(&(from, to), pair): (&(NodeId, NodeId), &Pair)| SensedPair {
        from: from.0,
        to: to.0,
        power: pair.signal.unwrap_or_else(|| flat(pair.delivery.is_some())),
        decodes: pair.delivery.is_some(),
        delay: delay(from, to),
    };
    let link = |(&(from, to), pair): (&(NodeId, NodeId), &Pair)| {
        pair.delivery.map(|delivery| Link { from, to, rate: pair.rate, delivery })
    };
    Ok(Medium {
        sensed_pairs: pairs.iter().map(resolved).collect(),
        links: pairs.iter().filter_map(link).collect(),
        propagation: None,
        missed: Vec::new(),
    })
}

/// Returns the two directions of a link.
fn values(
    link: &LinkDraft,
    requested: &RadioDraft,
    radio: &Radio,
    key: &KeyPath,
) -> Result<(Pair, Pair)> {
    let phy = &radio.mac.phy;
    let rate = match (link.rate, modern::link_mode(link, requested, key)?) {
        (_, Some(mode)) => phy.rate_of(mode),
        (None, None) => None,
        (Some(rate), None) => Some(find_rate(phy, rate, key.clone().key("rate"))?),
    };
    let probability = |p: f64, name: &str| {
        if p > 0.0 && p <= 1.0 {
            return Ok(Probability(p));
        }
        fail(key.clone().key(name), Problem::range(p, "a probability above 0, at most 1"))
    };
    let forward = probability(link.delivery.unwrap_or(1.0), "delivery")?;
    if link.directed && link.delivery_back.is_some() {
        let problem = Problem::refused("a directed link has no way back", "`directed = false`");
        return fail(key.clone().key("delivery_back"), problem);
    }
    let back = link.delivery_back.map_or(Ok(forward), |p| probability(p, "delivery_back"))?;
    let power = |dbm: Option<f64>, name: &str| match dbm {
        Some(dbm) if !(-120.0..=30.0).contains(&dbm) => {
            fail(key.clone().key(name), Problem::range(dbm, "-120 to 30 dBm"))
        }
        dbm => Ok(dbm.map(Power::from_dbm)),
    };
    if link.directed && link.signal_back.is_some() {
        let problem = Problem::refused("a directed link has no way back", "`directed = false`");
        return fail(key.clone().key("signal_back"), problem);
    }
    let signal = power(link.signal, "signal")?;
    let signal_back = power(link.signal_back, "signal_back")?.or(signal);
    Ok((
        Pair { rate, delivery: Some(forward), signal },
        Pair { rate, delivery: Some(back), signal: signal_back },
    ))
}

/// Adds pairs that sense each other without decoding.
fn sense_only(
    draft: &Draft,
    nodes: &Nodes,
    members: Option<&Members<'_>>,
    pairs: &mut Pairs,
) -> Result<()> {
    const SENSED: Pair = Pair { rate: None, delivery: None, signal: None };
    let t = &draft.topology;
    // The reverse direction of a directed link is sensed, not decoded.
    let reverse: Vec<_> = pairs.keys().map(|&(a, b)| (b, a)).collect();
    match t.sense_hops.unwrap_or(1) {
        1 => {}
        2 => {
            let mut around: Vec<Vec<NodeId>> = vec![Vec::new(); nodes.devices];
            for &(a, b) in pairs.keys() {
                around[a.index()].push(b);
                around[b.index()].push(a);
            }
            for list in &mut around {
                list.sort_unstable();
                list.dedup();
                for (k, &a) in list.iter().enumerate() {
                    for &b in &list[k + 1..] {
                        pairs.entry((a, b)).or_insert(SENSED);
                        pairs.entry((b, a)).or_insert(SENSED);
                    }
                    check_density(pairs.len(), "topology.sense_hops")?;
                }
            }
        }
        hops => return fail("topology.sense_hops".into(), Problem::range(hops, "1 or 2")),
    }
    for pair in reverse {
        pairs.entry(pair).or_insert(SENSED);
    }
    for (i, [a, b]) in t.senses.iter().enumerate() {
        let key = KeyPath::from("topology.senses").index(i);
        if a == b {
            return fail(key, Problem::SelfLink(a.to_string()));
        }
        let a = nodes.wireless(a, key.clone())?;
        let b = nodes.wireless(b, key)?;
        if !both(members, a, b) {
            continue;
        }
        pairs.entry((a, b)).or_insert(SENSED);
        pairs.entry((b, a)).or_insert(SENSED);
    }
    Ok(())
}

/// Checks that every link has a signal strength.
fn check_signals(medium: &Medium, nodes: &Nodes) -> Result<()> {
    match medium.sensed_pairs.iter().find(|h| h.decodes && h.power == Power::ZERO) {
        None => Ok(()),
        Some(h) => {
            let (a, b) = (nodes.name(NodeId(h.from)), nodes.name(NodeId(h.to)));
            let what = format!("the signal strength of {a} at {b} is not given");
            let expected = "`signal` of each link, in dBm, or positions instead of links";
            fail("radio.errors.snr".into(), Problem::refused(what, expected))
        }
    }
}

/// Applies `[[link]]`: details of existing links.
fn details(
    draft: &Draft,
    nodes: &Nodes,
    radio: &Radio,
    members: Option<&Members<'_>>,
    medium: &mut Medium,
) -> Result<()> {
    let Medium { sensed_pairs, links, missed, .. } = medium;
    for (i, detail) in draft.link.iter().enumerate() {
        let key = KeyPath::from("link").index(i);
        let from = nodes.wireless(&detail.from, key.clone().key("from"))?;
        let to = nodes.wireless(&detail.to, key.clone().key("to"))?;
        let linked = links.binary_search_by_key(&(from, to), |l| (l.from, l.to)).is_ok();
        if let Some(members) = members
            && (!members.kind.carries(detail) || detail.radio.is_none() && !linked)
        {
            // A detail without a radio applies to the radios that have the link.
            missed.push(i);
            continue;
        }
        let (forward, back) = values(detail, &draft.radio, radio, &key)?;
        let mut set = |from: NodeId, to: NodeId, pair: Pair| {
            let at = links.binary_search_by_key(&(from, to), |l| (l.from, l.to));
            let Ok(at) = at else {
                let (a, b) = (nodes.name(from).to_owned(), nodes.name(to).to_owned());
                return fail(key.clone(), Problem::NoSuchLink(a, b));
            };
            links[at].rate = pair.rate.or(links[at].rate);
            let sensed = sensed_pairs.binary_search_by_key(&(from.0, to.0), |h| (h.from, h.to));
            if let (Ok(sensed), Some(power)) = (sensed, pair.signal) {
                sensed_pairs[sensed].power = power;
            }
            if detail.delivery.is_some() || detail.delivery_back.is_some() {
                links[at].delivery = pair.delivery.unwrap_or(links[at].delivery);
            }
            Ok(())
        };
        set(from, to, forward)?;
        if !detail.directed {
            set(to, from, back)?;
        }
    }
    Ok(())
}

/// Limits the round trip of every link to a slot, as a real radio's coverage class does.
///
/// With a longer one, acknowledgements would arrive after the timeout (IEEE 802.11-2020 §17.3.8.6, §9.4.2.9).
fn limit_delays(
    sensed_pairs: &mut [SensedPair],
    slot: Span,
    nodes: &Nodes,
    warnings: &mut Vec<String>,
) {
    let most = Span::from_nanos(slot.as_nanos() / 2 - 1);
    let mut farthest: Option<SensedPair> = None;
    let mut cut = 0;
    for h in sensed_pairs {
        if h.delay > most {
            cut += 1;
            if farthest.is_none_or(|f| h.delay > f.delay) {
                farthest = Some(*h);
            }
            h.delay = most;
        }
    }
    if let Some(f) = farthest {
        warnings.push(format!(
            "{cut} propagation delays were cut to {most}, as if the coverage class were set for \
             them; the longest, {} to {}, was {}: check the positions",
            nodes.name(NodeId(f.from)),
            nodes.name(NodeId(f.to)),
            f.delay,
        ));
    }
}
