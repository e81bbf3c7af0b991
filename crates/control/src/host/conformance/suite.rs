//! The suite: runs mechanisms and probes on a host and checks the results.

use std::collections::BTreeSet;

use fairmesh_units::{Span, Time};

use super::account::Accounts;
use super::probe::{self, Trial};
use super::{Mutation, Subject, lost, spy};
use crate::{Ability, ActionKind, EventKind, Knowledge, Mechanism, Placement, Registry};

/// Run time of a mechanism.
const RUN_TIME: Span = Span::from_secs(60);
/// Time between comparisons with the host's state.
const CHECK_INTERVAL: Span = Span::from_millis(2500);
/// Time from an action of the probe to the comparison.
const CHECK_DELAY: Span = Span::from_millis(500);

/// Outcome of the registry's mechanisms on a host, by name, variants included.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Mechanisms that ran.
    pub ran: Vec<String>,
    /// Mechanisms that were refused.
    pub refused: Vec<String>,
    /// Mechanisms that run at no node of any host.
    pub nothing: Vec<String>,
}

/// Outcome of the start of a mechanism.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Started {
    Runs,
    Refused,
    Nowhere,
}

/// Returns every registered mechanism, plain and with each of its variants.
fn registered() -> Vec<Mechanism> {
    let registry = Registry::standard();
    let names = registry.all().flat_map(|d| {
        let variants = d.variants.iter().map(|v| format!("{}+{}", d.name, v.name));
        core::iter::once(d.name.to_string()).chain(variants)
    });
    names.map(|name| registry.lookup(&name).expect("a registered name")).collect()
}

/// Checks that a host keeps the contract; `new` makes a host that has run nothing yet.
///
/// # Errors
/// Returns the first deviation of the host.
pub fn hold<S: Subject>(new: impl Fn() -> S) -> Result<Summary, String> {
    let mut summary = Summary::default();
    for mechanism in registered() {
        let name = mechanism.to_string();
        let list = match try_one(new(), &mechanism).map_err(|e| format!("{name}: {e}"))? {
            Started::Runs => &mut summary.ran,
            Started::Refused => &mut summary.refused,
            Started::Nowhere => &mut summary.nothing,
        };
        list.push(name);
    }
    trials(&new)?;
    Ok(summary)
}

/// Runs a trial of every capability of a host.
fn trials<S: Subject>(new: &impl Fn() -> S) -> Result<(), String> {
    for trial in probe::trials(&new().offers()) {
        run_trial(new(), trial).map_err(|e| format!("{trial}: {e}"))?;
    }
    Ok(())
}

/// Shows that a host that loses a single effect does not pass; returns the detected faults.
///
/// Each effect has a run of its own.
///
/// # Errors
/// A fault that the suite does not detect, or a kind of action that the host offers and the suite never
/// requests.
pub fn mutants<S: Subject>(new: impl Fn() -> S) -> Result<BTreeSet<Mutation>, String> {
    let offers = new().offers();
    let (mut caught, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for trial in probe::trials(&offers) {
        // The queue of a class does not change the effects that are lost here.
        if !trial.is_first_leaf() {
            continue;
        }
        let (whole, passed) = lost::with(None, || run_trial(new(), trial));
        whole.map_err(|e| format!("{trial}: {e}"))?;
        let classes = (1..=passed.classes).map(Mutation::Class);
        let actions = passed.actions.iter();
        let actions = actions.flat_map(|(k, n)| (1..=*n).map(|n| Mutation::Action(*k, n)));
        let reasons = (1..=passed.reasons).map(Mutation::Reason);
        for fault in classes.chain(actions).chain(reasons) {
            if lost::with(Some(fault), || run_trial(new(), trial)).0.is_ok() {
                return Err(format!("{trial}: a host that loses {fault} passes"));
            }
            caught.insert(fault);
        }
        for kind in passed.samples {
            let fault = Mutation::Sample(kind);
            asked.insert(kind);
            // Without classes no counters of classes can be missing.
            if lost::with(Some(fault), || run_trial(new(), trial)).0.is_err() {
                caught.insert(fault);
            }
        }
    }
    if let Some(kind) = asked.iter().find(|k| !caught.contains(&Mutation::Sample(**k))) {
        return Err(format!("a host that loses every sample of \"{}\" passes", kind.name()));
    }
    if !offers.plans.is_empty() && !caught.contains(&Mutation::Class(1)) {
        return Err("nothing asks the host to build a class".into());
    }
    let missing =
        |k: &&ActionKind| offered(**k, &offers) && !caught.contains(&Mutation::Action(**k, 1));
    match ActionKind::ALL.iter().find(missing) {
        Some(kind) => Err(format!("nothing asks the host to {}", kind.name())),
        None => Ok(caught),
    }
}

/// True if a host carries out actions of this kind.
fn offered(kind: ActionKind, offers: &crate::Offers) -> bool {
    let ability = match kind {
        ActionKind::SetRate | ActionKind::Remove => return !offers.plans.is_empty(),
        // Recorded as a decision, which has a fault of its own.
        ActionKind::Because => return false,
        ActionKind::SetAirtime => Ability::Airtime,
        ActionKind::Mark => Ability::Mark,
        ActionKind::Drop => Ability::Drop,
        ActionKind::Annotate => Ability::Annotate,
        ActionKind::Send => Ability::Send,
        ActionKind::Route => Ability::Route,
        ActionKind::HandOver if offers.abilities.has(Ability::Peers) => Ability::Peers,
        ActionKind::HandOver => Ability::IdealExchange,
        ActionKind::AckBits => Ability::AckBits,
        ActionKind::Pace => Ability::Pace,
    };
    offers.abilities.has(ability)
}

/// Starts a mechanism.
fn start<S: Subject>(
    host: &mut S,
    mechanism: &Mechanism,
    accounts: &mut Accounts,
) -> Result<Started, String> {
    let offers = host.offers();
    let at = host.sites();
    let needs: Vec<_> = at.iter().filter_map(|site| mechanism.needs(site)).collect();
    let mut lacks: Vec<&str> = Vec::new();
    for n in &needs {
        lacks.extend(n.events.without(offers.events).iter().map(EventKind::name));
        lacks.extend(n.abilities.without(offers.abilities).iter().map(Ability::name));
        lacks.extend(n.knowledge.without(offers.knowledge).iter().map(Knowledge::name));
    }
    if needs.is_empty() {
        // A host without a node of the right kind names the kinds of nodes at which the mechanism
        // runs.
        lacks.extend(mechanism.all_needs().iter().flat_map(|n| n.at.iter()).map(Placement::name));
    }
    let started = host.start(&spy::disguise(mechanism));
    accounts.take(spy::notes(), host.lateness())?;
    let unbuildable = accounts.plans.iter().find_map(|p| offers.accepts("", p).err());
    match started {
        Ok(()) if !lacks.is_empty() => Err(format!("runs without {}", lacks.join(", "))),
        Ok(()) if unbuildable.is_some() => Err("runs with a plan that is not offered".into()),
        Ok(()) if accounts.refused => Err("runs in a setting that it refused".into()),
        Ok(()) => match accounts.nodes().count() {
            nodes if nodes != needs.len() => {
                Err(format!("runs at {nodes} nodes instead of {}", needs.len()))
            }
            0 => Ok(Started::Nowhere),
            _ => Ok(Started::Runs),
        },
        Err(e) if lacks.is_empty() && unbuildable.is_none() && !accounts.refused => {
            Err(format!("refused for no reason: {e}"))
        }
        Err(e) => {
            let unnamed = lacks.iter().find(|l| !e.contains(**l));
            let plan = unbuildable.map(|u| u.lack.to_string());
            match unnamed.map(|l| (*l).to_owned()).or(plan.filter(|p| !e.contains(p))) {
                Some(unnamed) => Err(format!("refused without naming \"{unnamed}\": {e}")),
                None => Ok(Started::Refused),
            }
        }
    }
}

/// Runs one mechanism.
fn try_one<S: Subject>(mut host: S, mechanism: &Mechanism) -> Result<Started, String> {
    let mut accounts = Accounts::default();
    let started = start(&mut host, mechanism, &mut accounts)?;
    if started != Started::Runs {
        return Ok(started);
    }
    accounts.compare(&host, Time::ZERO)?;
    let mut now = Time::ZERO;
    while now < Time::ZERO + RUN_TIME {
        now += CHECK_INTERVAL;
        host.advance(now);
        accounts.take(spy::notes(), host.lateness())?;
        accounts.compare(&host, now)?;
    }
    if let Some(undelivered) = accounts.undelivered(false) {
        return Err(undelivered);
    }
    for breach in ["deadline", "rate", "ability", "class"] {
        let code = format!("contract.{breach}");
        if accounts.nodes().any(|node| host.decided(node, &code) > 0) {
            return Err(format!("the mechanism broke the contract: {code}"));
        }
    }
    Ok(Started::Runs)
}

/// Runs one trial and checks the result after each action.
fn run_trial<S: Subject>(mut host: S, trial: Trial) -> Result<(), String> {
    let offers = host.offers();
    let mechanism = probe::mechanism(trial, &offers);
    let mut accounts = Accounts::default();
    if start(&mut host, &mechanism, &mut accounts)? != Started::Runs {
        return Err("what is offered is refused".into());
    }
    accounts.compare(&host, Time::ZERO)?;
    let mut now = Time::ZERO;
    let mut lost = 0;
    // The last action, and time for its messages to arrive.
    for turn in 0..probe::turns() + 4 {
        // Halfway between two actions.
        now = Time::ZERO + probe::ACTION_INTERVAL * turn + CHECK_DELAY;
        // Right before and right after an action: packets in a class that is removed must not be
        // lost.
        let act = Time::ZERO + probe::ACTION_INTERVAL * turn;
        host.advance(act);
        let before = host.lost();
        host.advance(act + Span::from_nanos(1));
        if host.lost() > before {
            return Err(format!("{} packets were lost with an act", host.lost() - before));
        }
        host.advance(now);
        accounts.take(spy::notes(), host.lateness())?;
        accounts.compare(&host, now)?;
        lost = lost.max(host.lost() - before);
    }
    if u64::from(accounts.deadlines()) < probe::turns() {
        return Err(format!("{} deadlines until {now}", accounts.deadlines()));
    }
    if let Trial::Packets = trial {
        let has = |ability| offers.abilities.has(ability);
        if let Some(undelivered) = accounts.undelivered(true) {
            return Err(undelivered);
        }
        let arrives = [
            (Ability::Mark, accounts.marked),
            (Ability::Drop, lost > 0),
            (Ability::Annotate, accounts.carried(probe::HEADER_FIELD.0, probe::HEADER_FIELD.1)),
            (Ability::AckBits, accounts.ack_bits.contains(&probe::ACKNOWLEDGEMENT_BITS)),
        ];
        if let Some((ability, _)) = arrives.iter().find(|(a, arrives)| has(*a) && !arrives) {
            return Err(format!("nothing comes of \"{}\"", ability.name()));
        }
    }
    Ok(())
}
