//! `[control]` and `[[neighbour]]`: the mechanism, its parameters and its knowledge.

use std::collections::BTreeMap;

use fairmesh_control::{EventKind, Fairness, Knowledge, Mechanism, Registry};
use fairmesh_document::{KeyPath, Located, Problem};

use super::values::{limit, name};
use crate::gateway::config::draft::{self, Draft};
use crate::gateway::config::refuse::{Result, fail, refused};
use crate::gateway::config::{Discover, Neighbour, Plan, Subscriber, UNMAPPED, capacity};
use crate::gateway::offers::SITE;

pub(crate) fn mechanism(
    draft: &draft::Control,
    default: &str,
    registry: &Registry,
) -> Result<Mechanism> {
    let key = KeyPath::from("control");
    let name = draft.name.as_deref().unwrap_or(default);
    let mut mechanism = registry.lookup(name).map_err(|e| {
        let what = format!("there is no control \"{name}\"");
        Located::at(key.clone().key("use"), Problem::refused(what, e.known.join(", ")))
    })?;
    if draft.fairness.is_some() && draft.parameters.contains_key(Fairness::PARAMETER) {
        let what = "`alpha_fairness` and `fairness` are both set";
        return refused(key.key("fairness"), what, "one of them");
    }
    let fairness = draft.fairness.map(|f| ("fairness", Fairness::PARAMETER, f.alpha()));
    let parameters = draft.parameters.iter().map(|(name, value)| (&**name, &**name, *value));
    for (name, parameter, value) in parameters.chain(fairness) {
        mechanism.set(parameter, value).or_else(|e| {
            let problem = match e.declared() {
                Some(p) => Problem::range(value, p.range().to_string()),
                None => {
                    let names = e.mechanism.parameters.iter().map(|p| &*p.name);
                    let known = core::iter::once("use").chain(names);
                    Problem::UnknownKey { known: known.map(str::to_owned).collect() }
                }
            };
            fail(key.clone().key(name), problem)
        })?;
    }
    Ok(mechanism)
}

/// Checks that the configuration has the knowledge that the control needs.
pub(super) fn knowledge(
    mechanism: &Mechanism,
    neighbours: &[Neighbour],
    subscribers: &[Subscriber],
    discover: Option<&Discover>,
    draft: &Draft,
) -> Result<()> {
    let Some(needs) = mechanism.needs(&SITE) else { return Ok(()) };
    if needs.knowledge.has(Knowledge::LinkRates) && neighbours.is_empty() {
        return refused(
            KeyPath::from("control.use"),
            format!("{mechanism} needs the rates of the gateway's links"),
            "a [[neighbour]] with name and rate or capacity for every direct neighbour in the mesh",
        );
    }
    let of = |i: usize| match i < draft.subscriber.len() {
        true => KeyPath::from("subscriber").index(i),
        false => KeyPath::from("libreqos"),
    };
    let fair = |p: &Plan| p.down.fair.is_some() && p.up.fair.is_some();
    if needs.knowledge.has(Knowledge::FairRates) || needs.events.has(EventKind::Allocations) {
        let expected = "fair_down and fair_up, here or in its plan";
        if let Some(i) = subscribers.iter().position(|s| !fair(&s.plan)) {
            let what = format!("{mechanism} needs the fair rates of \"{}\"", subscribers[i].name);
            return refused(of(i), what, expected);
        }
        if discover.is_some_and(|d| !fair(&d.plan)) {
            let what = format!("{mechanism} needs the fair rates of discovered subscribers");
            return refused(KeyPath::from("discover"), what, "a plan with fair_down and fair_up");
        }
    }
    if needs.knowledge.has(Knowledge::Hops)
        && let Some(i) = subscribers.iter().position(|s| s.hops.is_none() && s.name != UNMAPPED)
    {
        let what = format!("{mechanism} needs the hops of \"{}\"", subscribers[i].name);
        return refused(of(i), what, "hops = number of wireless hops from the gateway");
    }
    Ok(())
}

pub(super) fn neighbours(drafts: &[draft::Neighbour]) -> Result<Vec<Neighbour>> {
    let mut names = BTreeMap::new();
    let mut built = Vec::with_capacity(drafts.len());
    for (i, draft) in drafts.iter().enumerate() {
        let key = KeyPath::from("neighbour").index(i);
        let name = name(&draft.name, key.clone().key("name"))?;
        if names.insert(name.clone(), i).is_some() {
            return refused(
                key.key("name"),
                format!("neighbour \"{name}\" is listed twice"),
                "each once",
            );
        }
        let (rate, of) = match (draft.rate, draft.capacity) {
            (rate, Some(capacity)) => (rate.unwrap_or(capacity), capacity),
            (Some(rate), None) => (rate, capacity::of_rate(rate)),
            (None, None) => {
                let what = format!("no rate and no capacity of the link to \"{name}\"");
                return refused(key, what, "rate = \"54 Mbit/s\" or a measured capacity");
            }
        };
        if draft.mac.is_some() && draft.capacity.is_some() {
            let what = "a measured rate and a measured capacity of one link";
            return refused(key.key("mac"), what, "mac beside rate, or capacity alone");
        }
        for (given, word) in [(draft.rate, "rate"), (draft.capacity, "capacity")] {
            if let Some(given) = given {
                limit(given, || key.clone().key(word))?;
            }
        }
        built.push(Neighbour { name, rate, capacity: of, mac: draft.mac });
    }
    Ok(built)
}
