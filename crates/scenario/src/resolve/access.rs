//! Access categories.
//!
//! These are the radios that have them, their parameters, and the category of a flow's packets.

use fairmesh_phy::Phy;
use fairmesh_wifi::{Access, Edca};

use super::modern::LONGEST_TXOP;
use super::{Result, fail};
use crate::draft::{AccessDraft, Draft, DscpDraft, EdcaDefaults, FlowDraft, FlowsDraft};
use crate::error::{KeyPath, Problem};

/// Returns the first key that requires access categories.
fn first_key(draft: &Draft) -> Option<KeyPath> {
    if draft.radio.edca.is_some() {
        return Some("radio.edca".into());
    }
    let named = |at: KeyPath, access: Option<AccessDraft>, dscp: Option<DscpDraft>| {
        let key = if access.is_some() { "access" } else { "dscp" };
        (access.is_some() || dscp.is_some()).then(|| at.key(key))
    };
    let t = &draft.traffic;
    named("traffic".into(), t.access, t.dscp).or_else(|| {
        let flows = draft.flow.iter().enumerate();
        flows.filter_map(|(i, f)| named(KeyPath::from("flow").index(i), f.access, f.dscp)).next()
    })
}

/// Rejects access categories on a radio without aggregates.
pub(super) fn refuse(draft: &Draft) -> Result<()> {
    let problem = |radio| {
        let what = format!("{radio} has no access categories here");
        Problem::refused(what, "`radio.phy` of \"802.11n\", \"802.11ac\" or \"802.11ax\"")
    };
    first_key(draft).map_or(Ok(()), |key| fail(key, problem(draft.radio.phy)))
}

/// Returns the parameters of a radio's categories; `None`: best effort alone.
pub(super) fn edca(draft: &Draft, phy: &Phy) -> Result<Option<Edca>> {
    if first_key(draft).is_none() {
        return Ok(None);
    }
    let r = &draft.radio;
    let own = r.edca.clone().unwrap_or_default();
    let mut edca = match own.defaults.unwrap_or_default() {
        EdcaDefaults::Standard => Edca::standard(phy),
        EdcaDefaults::Linux => Edca::linux(phy),
    };
    for (access, p) in Access::ALL.into_iter().zip(&mut edca.0) {
        if let Some(txop) = r.txop.filter(|_| access == Access::BestEffort) {
            p.txop = txop;
        }
        let Some(own) = own.of(access) else { continue };
        let key = |name: &str| KeyPath::from("radio.edca").key(access.name()).key(name);
        p.aifsn = own.aifsn.unwrap_or(p.aifsn);
        if !(2..=15).contains(&p.aifsn) {
            return fail(key("aifsn"), Problem::range(p.aifsn, "2 to 15 slots"));
        }
        p.cw_min = own.cw_min.unwrap_or(p.cw_min);
        p.cw_max = own.cw_max.unwrap_or(p.cw_max);
        let fits = |cw: u32| cw <= 32_767 && (cw + 1).is_power_of_two();
        if !fits(p.cw_min) || !fits(p.cw_max) || p.cw_min > p.cw_max {
            let name = if own.cw_min.is_some() { "cw_min" } else { "cw_max" };
            let what = format!("a contention window of {} to {}", p.cw_min, p.cw_max);
            let expected = "windows of 2^k - 1 such as 3, 7, 15, …, 1023, in this order";
            return fail(key(name), Problem::refused(what, expected));
        }
        p.txop = own.txop.unwrap_or(p.txop);
        if p.txop > LONGEST_TXOP {
            let expected = format!("at most {LONGEST_TXOP}");
            return fail(key("txop"), Problem::range(p.txop, expected));
        }
    }
    Ok(Some(edca))
}

/// Returns the category of a flow's packets: the flow's own, otherwise that of all flows.
pub(super) fn of_flow(draft: &FlowDraft, key: &KeyPath, all: &FlowsDraft) -> Result<Access> {
    let own = chosen(key, draft.access, draft.dscp)?;
    let inherited = chosen(&"traffic".into(), all.access, all.dscp)?;
    Ok(own.or(inherited).unwrap_or_default())
}

fn chosen(
    key: &KeyPath,
    access: Option<AccessDraft>,
    dscp: Option<DscpDraft>,
) -> Result<Option<Access>> {
    match (access, dscp) {
        (Some(_), Some(_)) => {
            let problem = Problem::refused("a category beside a code point", "one of them");
            fail(key.clone().key("dscp"), problem)
        }
        (Some(access), None) => Ok(Some(access.into())),
        (None, Some(dscp)) => Ok(Some(Access::of_dscp(dscp as u8))),
        (None, None) => Ok(None),
    }
}
