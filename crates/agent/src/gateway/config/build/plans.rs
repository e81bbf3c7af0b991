//! `[plan.NAME]`: rates, weights, quotas and schedules.

use std::collections::BTreeMap;

use fairmesh_document::{KeyPath, Located, Problem};
use fairmesh_units::BitRate;

use super::values::limit;
use crate::gateway::config::draft;
use crate::gateway::config::refuse::{Result, fail, refused};
use crate::gateway::config::schedule::DAY_NAMES;
use crate::gateway::config::{Plan, Quota, Rates, Schedule, Window};

/// Plans by name; a subscriber without a plan has the default.
pub(super) struct Plans(BTreeMap<String, Plan>);

/// Keys of a plan as given; a subscriber has the same ones.
#[derive(Clone, Copy)]
pub(super) struct PlanKeys {
    pub(super) weight: Option<f64>,
    pub(super) down: Rates,
    pub(super) up: Rates,
}

impl Plans {
    pub(super) fn read(
        drafts: &BTreeMap<String, draft::Plan>,
        schedules: &mut Vec<Schedule>,
    ) -> Result<Plans> {
        let mut plans = BTreeMap::new();
        for (name, d) in drafts {
            let key = KeyPath::from("plan").key(name);
            let rates = |ceiling, guarantee, fair| Rates { ceiling, guarantee, fair };
            let given = PlanKeys {
                weight: d.weight,
                down: rates(d.down, d.guarantee_down, d.fair_down),
                up: rates(d.up, d.guarantee_up, d.fair_up),
            };
            let built = plan(&given, Plan::default(), &key)?;
            let built = Plan { quota: quota(d.quota.as_ref(), &built, &key)?, ..built };
            plans.insert(name.clone(), scheduled(built, &d.during, key, schedules)?);
        }
        Ok(Plans(plans))
    }

    pub(super) fn find(&self, name: Option<&str>, key: impl FnOnce() -> KeyPath) -> Result<Plan> {
        let Some(name) = name else { return Ok(Plan::default()) };
        self.0.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let expected = match known.as_slice() {
                [] => format!("a table [plan.{name}]"),
                _ => format!("one of {}", known.join(", ")),
            };
            Located::at(key(), Problem::refused(format!("there is no plan \"{name}\""), expected))
        })
    }
}

/// Returns the plan with the given values, and those of `base` for the rest.
pub(super) fn plan(given: &PlanKeys, base: Plan, key: &KeyPath) -> Result<Plan> {
    let weight = given.weight.unwrap_or(base.weight);
    accept_weight(weight, || key.clone().key("weight"))?;
    let side = |given: Rates, base: Rates, direction: &str, ceiling_key: &str| -> Result<Rates> {
        let merged = Rates {
            ceiling: given.ceiling.or(base.ceiling),
            guarantee: given.guarantee.or(base.guarantee),
            fair: given.fair.or(base.fair),
        };
        for (rate, word) in [
            (merged.ceiling, ceiling_key.to_owned()),
            (merged.guarantee, format!("guarantee_{direction}")),
            (merged.fair, format!("fair_{direction}")),
        ] {
            if let Some(rate) = rate {
                limit(rate, || key.clone().key(&word))?;
            }
        }
        if let (Some(ceiling), Some(guarantee)) = (merged.ceiling, merged.guarantee)
            && guarantee > ceiling
        {
            return refused(
                key.clone().key(&format!("guarantee_{direction}")),
                format!("a guarantee of {guarantee} above the ceiling of {ceiling}"),
                "at most the ceiling",
            );
        }
        Ok(merged)
    };
    let down = side(given.down, base.down, "down", "down")?;
    let up = side(given.up, base.up, "up", "up")?;
    let regular = [down.ceiling, up.ceiling];
    let (regular_weight, quota) = (weight, base.quota);
    Ok(Plan { weight, down, up, schedule: base.schedule, regular_weight, regular, quota })
}

/// Checks a weight.
fn accept_weight(weight: f64, key: impl FnOnce() -> KeyPath) -> Result<()> {
    // The kernel's round robin supports weights of 1 to 100.
    match (0.01..=100.0).contains(&weight) {
        true => Ok(()),
        false => fail(key(), Problem::range(weight, "0.01 to 100")),
    }
}

/// Checks a quota; its ceilings apply once it is used up.
fn quota(given: Option<&draft::Quota>, plan: &Plan, key: &KeyPath) -> Result<Option<Quota>> {
    let Some(d) = given else { return Ok(None) };
    let at = |word: &str| key.clone().key("quota").key(word);
    let bytes = d.bytes.map_or(0, |b| b.0);
    if bytes == 0 {
        return refused(at("bytes"), "no bytes", "a number of bytes such as \"100 GB\"");
    }
    if d.down.or(d.up).is_none() {
        return refused(key.clone().key("quota"), "no rate after the quota", "down, up or both");
    }
    ceilings_above([d.down, d.up], plan, at)?;
    Ok(Some(Quota { bytes, per: d.per, ceilings: [d.down, d.up] }))
}

/// Checks ceilings of a part of a plan: accepted rates that are not below the guarantees.
fn ceilings_above(
    ceilings: [Option<BitRate>; 2],
    plan: &Plan,
    at: impl Fn(&str) -> KeyPath,
) -> Result<()> {
    let floors = [plan.down.guarantee, plan.up.guarantee];
    for ((rate, floor), word) in ceilings.into_iter().zip(floors).zip(["down", "up"]) {
        let Some(rate) = rate else { continue };
        limit(rate, || at(word))?;
        if let Some(floor) = floor.filter(|floor| rate < *floor) {
            let expected = format!("at least {floor}");
            return refused(at(word), format!("{rate} is below the guarantee"), expected);
        }
    }
    Ok(())
}

/// Returns a plan with a schedule of its own, if it has one.
pub(super) fn scheduled(
    plan: Plan,
    drafts: &[draft::Window],
    key: KeyPath,
    schedules: &mut Vec<Schedule>,
) -> Result<Plan> {
    if drafts.is_empty() {
        return Ok(plan);
    }
    let mut windows = Vec::with_capacity(drafts.len());
    for (i, d) in drafts.iter().enumerate() {
        let at = |word: &str| key.clone().key("during").index(i).key(word);
        let time = |text: &str, word: &str| {
            let digits = text.len() == 5 && text.as_bytes()[2] == b':';
            let time = text.parse::<jiff::civil::Time>().ok().filter(|_| digits);
            time.map_or_else(
                || refused(at(word), format!("\"{text}\""), "a time such as \"18:00\""),
                Ok,
            )
        };
        let mut days = [d.days.is_none(); 7];
        for (j, name) in d.days.iter().flatten().enumerate() {
            match DAY_NAMES.iter().position(|day| *day == name.to_lowercase()) {
                Some(day) => days[day] = true,
                None => {
                    let known = DAY_NAMES.join(", ");
                    return refused(at("days").index(j), format!("\"{name}\""), known);
                }
            }
        }
        if d.down.or(d.up).is_none() && d.weight.is_none() {
            let expected = "at least one of weight, down, up";
            return refused(key.key("during").index(i), "no weight or rate", expected);
        }
        if let Some(weight) = d.weight {
            accept_weight(weight, || at("weight"))?;
        }
        ceilings_above([d.down, d.up], &plan, at)?;
        let (from, to) = (time(&d.from, "from")?, time(&d.to, "to")?);
        windows.push(Window { days, from, to, weight: d.weight, ceilings: [d.down, d.up] });
    }
    schedules.push(Schedule { name: key.to_string(), windows });
    Ok(Plan { schedule: Some(schedules.len() - 1), ..plan })
}
