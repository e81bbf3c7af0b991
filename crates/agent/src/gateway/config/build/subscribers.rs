//! `[[subscriber]]`, `[libreqos]` and `unmapped`: subscribers, each name and address once.

use std::collections::BTreeMap;

use fairmesh_document::{KeyPath, Problem};
use fairmesh_linux::{IpNet, MacAddr};
use fairmesh_units::BitRate;

use super::plans::{PlanKeys, Plans, plan, scheduled};
use super::values::{limit, name};
use crate::gateway::config::draft::Draft;
use crate::gateway::config::libreqos::{Circuit, Tables};
use crate::gateway::config::merge::Merged;
use crate::gateway::config::refuse::{Result, fail, refused};
use crate::gateway::config::{
    Discover, FileReport, Plan, Rates, Schedule, Subscriber, UNMAPPED, Unused,
};

/// Most subscribers: class numbers are 16 bits and some are reserved.
pub(super) const MAX_SUBSCRIBERS: usize = 60_000;

pub(super) fn subscribers(
    merged: &Merged,
    plans: &Plans,
    tables: &Tables,
    schedules: &mut Vec<Schedule>,
) -> Result<(Vec<Subscriber>, Vec<FileReport>)> {
    let draft = &merged.draft;
    if draft.subscriber.len() > MAX_SUBSCRIBERS {
        let n = draft.subscriber.len();
        let problem = Problem::range(format!("{n} subscribers"), format!("{MAX_SUBSCRIBERS}"));
        return fail(KeyPath::from("subscriber"), problem);
    }
    let mut owners = Owners::default();
    let mut built = Vec::with_capacity(draft.subscriber.len());
    for (i, d) in draft.subscriber.iter().enumerate() {
        let key = KeyPath::from("subscriber").index(i);
        let name = name(&d.name, key.clone().key("name"))?;
        let base = plans.find(d.plan.as_deref(), || key.clone().key("plan"))?;
        let rates = |ceiling, guarantee, fair| Rates { ceiling, guarantee, fair };
        let given = PlanKeys {
            weight: d.weight,
            down: rates(d.down, d.guarantee_down, d.fair_down),
            up: rates(d.up, d.guarantee_up, d.fair_up),
        };
        let hops = match d.hops {
            None => None,
            Some(n @ 1..=64) => Some(n as u32),
            Some(n) => return fail(key.key("hops"), Problem::range(n, "1 to 64")),
        };
        if d.prefixes.is_empty() && d.macs.is_empty() {
            return refused(key, format!("\"{name}\" has no address"), "prefixes or macs");
        }
        let subscriber = Subscriber {
            plan: scheduled(plan(&given, base, &key)?, &d.during, key.clone(), schedules)?,
            prefixes: d.prefixes.iter().map(|p| p.0).collect(),
            macs: d.macs.clone(),
            name,
            hops,
        };
        owners.take(&subscriber, i, &key, merged)?;
        built.push(subscriber);
    }
    let mut files = merged.reports.clone();
    if let (Some(circuits), Some(d)) = (&tables.circuits, &draft.libreqos) {
        let base = plans.find(d.plan.as_deref(), || KeyPath::from("libreqos.plan"))?;
        let mut report = FileReport {
            file: tables.file.clone(),
            ignored: "minimum rates, MAC, sqm",
            unused: circuits.unused.clone(),
            ..FileReport::default()
        };
        for circuit in &circuits.circuits {
            match owners.circuit(circuit, base, merged, &mut report) {
                Ok(subscriber) => built.push(subscriber),
                Err(text) => report.unused.push(Unused { line: circuit.line, text }),
            }
        }
        report.subscribers = built.len() - draft.subscriber.len();
        report.unused.sort_by_key(|u| u.line);
        files.push(report);
        if built.len() > MAX_SUBSCRIBERS {
            let problem = Problem::range(built.len(), format!("at most {MAX_SUBSCRIBERS}"));
            return fail(KeyPath::from("libreqos.devices"), problem);
        }
    }
    Ok((built, files))
}

/// Owner of a name or an address.
#[derive(Clone, Copy)]
enum Owner {
    /// A `[[subscriber]]`, by its position.
    Listed(usize),
    /// A circuit, by the line of its row.
    Circuit(u64),
}

impl Owner {
    /// Returns the file and line of a `[[subscriber]]`, or the line of a row.
    fn place(self, merged: &Merged) -> String {
        match self {
            Owner::Listed(i) => merged.place(&KeyPath::from("subscriber").index(i).key("name")),
            Owner::Circuit(line) => format!("line {line}"),
        }
    }
}

/// Owners of names and addresses.
#[derive(Default)]
struct Owners {
    names: BTreeMap<String, Owner>,
    prefixes: BTreeMap<IpNet, (String, Owner)>,
    macs: BTreeMap<MacAddr, String>,
}

impl Owners {
    /// Takes name and addresses of a circuit, which gets those that are free.
    ///
    /// # Errors
    /// Returns the reason if nothing of it is used.
    fn circuit(
        &mut self,
        circuit: &Circuit,
        mut plan: Plan,
        merged: &Merged,
        report: &mut FileReport,
    ) -> core::result::Result<Subscriber, String> {
        let name = circuit.name.clone();
        if let Some(owner) = self.names.get(&name) {
            return Err(format!("the name \"{name}\" is used in {} already", owner.place(merged)));
        }
        let mut prefixes = Vec::new();
        for (prefix, line) in &circuit.prefixes {
            if let Some((first, owner)) = self.prefixes.get(prefix) {
                let place = owner.place(merged);
                let text = format!("{prefix} belongs to \"{first}\" in {place} already");
                report.unused.push(Unused { line: *line, text });
                continue;
            }
            self.prefixes.insert(*prefix, (name.clone(), Owner::Circuit(*line)));
            prefixes.push(*prefix);
        }
        if prefixes.is_empty() {
            return Err(format!("no address of \"{name}\" is left"));
        }
        self.names.insert(name.clone(), Owner::Circuit(circuit.line));
        for (rates, ceiling) in [&mut plan.down, &mut plan.up].into_iter().zip(circuit.ceilings) {
            rates.ceiling = ceiling.or(rates.ceiling);
            rates.guarantee = rates.guarantee.map(|g| rates.ceiling.map_or(g, |c| c.min(g)));
        }
        plan.regular = [plan.down.ceiling, plan.up.ceiling];
        Ok(Subscriber { name, prefixes, macs: Vec::new(), plan, hops: None })
    }

    fn take(&mut self, s: &Subscriber, index: usize, key: &KeyPath, merged: &Merged) -> Result<()> {
        let owner = Owner::Listed(index);
        if let Some(first) = self.names.insert(s.name.clone(), owner) {
            let what =
                format!("the name \"{}\" is used in {} already", s.name, first.place(merged));
            return refused(key.clone().key("name"), what, "each name once");
        }
        for (i, prefix) in s.prefixes.iter().enumerate() {
            if let Some((first, at)) = self.prefixes.insert(*prefix, (s.name.clone(), owner)) {
                let what =
                    format!("{prefix} belongs to \"{first}\" in {} already", at.place(merged));
                let at = key.clone().key("prefixes").index(i);
                return refused(at, what, "every address to have one subscriber");
            }
        }
        for (i, mac) in s.macs.iter().enumerate() {
            let at = || key.clone().key("macs").index(i);
            if !mac.is_unicast() || mac.0 == [0; 6] {
                return refused(
                    at(),
                    format!("{mac} is not a unicast address"),
                    "the address of a station",
                );
            }
            if let Some(first) = self.macs.insert(*mac, s.name.clone()) {
                let what = format!("{mac} belongs to \"{first}\" already");
                return refused(at(), what, "every address to have one subscriber");
            }
        }
        Ok(())
    }
}

/// Adds unmapped traffic as one subscriber.
///
/// A forged source address therefore neither bypasses a limit nor takes more than one share.
pub(super) fn with_unmapped(
    draft: &Draft,
    mut subscribers: Vec<Subscriber>,
    discover: Option<&Discover>,
    plans: &Plans,
) -> Result<Vec<Subscriber>> {
    let key = || KeyPath::from("unmapped");
    let expected =
        "\"share\", \"limit RATE\" such as \"limit 2 Mbit/s\", \"plan NAME\", or \"pass\"";
    let word = draft.unmapped.as_deref().unwrap_or("share").trim();
    let mut guest = Plan::default();
    if let Some(name) = word.strip_prefix("plan ") {
        guest = plans.find(Some(name.trim()), key)?;
    }
    let ceiling = match (word, word.strip_prefix("limit ")) {
        (w, _) if w.starts_with("plan ") => None,
        ("pass", _) => return Ok(subscribers),
        ("share", _) => None,
        (_, Some(rate)) => match rate.trim().parse::<BitRate>() {
            Ok(rate) => {
                limit(rate, key)?;
                Some(rate)
            }
            Err(e) => return refused(key(), format!("\"{word}\": {e}"), expected),
        },
        _ => return refused(key(), format!("\"{word}\""), expected),
    };
    // For controls that use fair rates or hops it has the least favourable values of all
    // subscribers.
    let all = || subscribers.iter().map(|s| &s.plan).chain(discover.map(|d| &d.plan));
    let least = |of: fn(&Plan) -> Option<BitRate>| all().map(of).min().flatten();
    let rates = |plan: Rates, fair| Rates {
        ceiling: ceiling.or(plan.ceiling),
        guarantee: None,
        fair: plan.fair.or(fair),
    };
    let plan = Plan {
        down: rates(guest.down, least(|p| p.down.fair)),
        up: rates(guest.up, least(|p| p.up.fair)),
        regular: guest.regular.map(|regular| ceiling.or(regular)),
        ..guest
    };
    let hops = subscribers.iter().map(|s| s.hops).max().flatten();
    let name = UNMAPPED.to_owned();
    subscribers.push(Subscriber { name, prefixes: Vec::new(), macs: Vec::new(), plan, hops });
    Ok(subscribers)
}
