//! The rows of the reference, or some of them, run here and judged.

use std::path::Path;

use fairmesh_capacity::bianchi::saturation;
use fairmesh_capacity::link::{Access, Traffic};
use fairmesh_lab::{Estimate, LabError, Pool, batch};
use fairmesh_phy::frame::DATA_OVERHEAD;
use fairmesh_scenario::Scenario;
use serde::Serialize;

use super::reference::{Row, read};
use super::scenario;
use super::verdict::{Verdict, judge, not_run};

/// Rows of a quick run.
///
/// They have every reception rule, RTS, UDP and TCP, short chains and the Stack. For radios of
/// today they have every PHY, hidden senders, and UDP and TCP over chains; for ns-2, TCP with and
/// without capture, UDP and RTS.
const QUICK_ROWS: [&str; 24] = [
    "a_11M_n5",
    "a_1M_n10",
    "b_ns2_h1",
    "b_ns2_h3",
    "b_sinr_h5",
    "b_nocap_h4",
    "bv_sack_h2",
    "c_ns2_up_tcp",
    "cj_ns2_up_udp_250k",
    "d_stack_rts1",
    "m_single_250",
    "m_pairs_540",
    "s1_n20_mcs7_nss1_64k_rts0",
    "s1_ac80_mcs7_nss1_16k_rts1",
    "s1_ax80_mcs9_nss2_max256_rts0",
    "chk_hidden_rts0",
    "s2_cell_n2_rts0",
    "s3_chain2_udp_rts0",
    "s3_chain2_tcp_rts0",
    "s3_chain3_tcp_rts1",
    "chain3_up",
    "chain3_down_nocap",
    "udp_up_300k",
    "hidden_equal_rts",
];

/// Selection of the rows to run, and their number of runs.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// True for a quick run.
    pub quick: bool,
    /// Only these groups; all if there are none.
    pub groups: Vec<String>,
    /// Seeds per row; `None` for the number of the reference.
    pub seeds: Option<u32>,
}

/// A row's outcome, for saturated cells with the closed form.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The comparison.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Bianchi's goodput with finite retries, in bit/s.
    pub bianchi_bps: Option<f64>,
    /// True if ours is within the promised share of it.
    pub bianchi_agrees: Option<bool>,
}

impl Outcome {
    /// Returns true if everything about it agrees.
    pub fn agrees(&self) -> bool {
        self.verdict.agrees && self.bianchi_agrees != Some(false)
    }
}

/// Runs the chosen rows of the references in these folders.
///
/// # Errors
/// A reference that cannot be read; a group that is not in it; a scenario that the engine rejects.
pub fn run(
    folders: &[impl AsRef<Path>],
    choice: &Choice,
    pool: &Pool<'_>,
) -> Result<Vec<Outcome>, LabError> {
    let mut rows: Vec<(&Path, Row)> = Vec::new();
    for folder in folders {
        let folder = folder.as_ref();
        let read: Vec<Row> = read(folder, "reference.json")?;
        rows.extend(read.into_iter().map(|row| (folder, row)));
    }
    let groups: Vec<&str> = rows.iter().map(|(_, r)| r.case.group.as_str()).collect();
    if let Some(unknown) = choice.groups.iter().find(|g| !groups.contains(&g.as_str())) {
        let mut known = groups.clone();
        known.sort_unstable();
        known.dedup();
        let problem =
            format!("there is no group \"{unknown}\"; expected one of {}", known.join(", "));
        return Err(LabError::setting("group", problem));
    }
    let wanted = |(_, r): &&(&Path, Row)| {
        r.case.is_modelled()
            && (choice.groups.is_empty() || choice.groups.contains(&r.case.group))
            && (!choice.quick || QUICK_ROWS.contains(&r.case.tag.as_str()))
    };
    let (absent, chosen): (Vec<_>, Vec<_>) =
        rows.iter().filter(wanted).partition(|(_, r)| r.not_run.is_some());
    let build = |(folder, row): &&(&Path, Row)| scenario::build(folder, &row.case);
    let scenarios = chosen.iter().map(build).collect::<Result<Vec<_>, _>>()?;
    let rows: Vec<&Row> = chosen.iter().map(|(_, row)| row).collect();
    let seeds = |r: &Row| choice.seeds.map_or(r.seeds.len() as u64, u64::from);
    let jobs: Vec<(usize, u64)> = rows
        .iter()
        .enumerate()
        .flat_map(|(i, r)| (1..=seeds(r)).map(move |seed| (i, seed)))
        .collect();
    let goodputs = batch::all(pool, "validating", &jobs, |&(i, seed)| {
        let record = batch::once(&scenarios[i], seed, None)?;
        Ok(record.flows.iter().map(|f| f.goodput_bps).collect::<Vec<f64>>())
    })?;
    let mut goodputs = goodputs.into_iter();
    let judged = rows.iter().zip(&scenarios).map(|(row, s)| {
        let runs: Vec<Vec<f64>> = goodputs.by_ref().take(seeds(row) as usize).collect();
        outcome(row, s, &runs)
    });
    let missing = absent.iter().map(|(_, r)| Outcome {
        verdict: not_run(r, r.not_run.as_deref().unwrap_or_default()),
        bianchi_bps: None,
        bianchi_agrees: None,
    });
    Ok(judged.chain(missing).collect())
}

fn outcome(row: &Row, s: &Scenario, runs: &[Vec<f64>]) -> Outcome {
    let measured = |values: Vec<f64>| Estimate::of(&values);
    let flows: Vec<Estimate> =
        (0..row.flows.len()).map(|i| measured(runs.iter().map(|r| r[i]).collect())).collect();
    let sum = measured(runs.iter().map(|r| r.iter().sum()).collect());
    let bianchi = (row.case.group == "a").then(|| bianchi(row, s));
    let stations = row.flows.len();
    let tolerance = if stations > 20 { 0.03 } else { 0.015 };
    Outcome {
        verdict: judge(row, &flows, sum),
        bianchi_bps: bianchi,
        bianchi_agrees: bianchi.map(|b| (sum.mean / b - 1.0).abs() <= tolerance),
    }
}

/// Returns the goodput of the row's saturated cell by the closed form.
fn bianchi(row: &Row, s: &Scenario) -> f64 {
    let payload = row.case.options.udp_payload_bytes as u32;
    let psdu = payload + 28 + s.mac().llc_bytes + DATA_OVERHEAD;
    let traffic = Traffic { payload, psdu, reverse_psdu: 0, reverse_per_packet: 0.0 };
    let access = if row.case.options.rts { Access::RtsCts } else { Access::Basic };
    saturation(&s.mac().phy, s.mac().rate, &traffic, access, row.flows.len() as u32).goodput
}
