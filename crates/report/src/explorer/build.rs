//! The explorer's model, from the laboratory's results.

use std::collections::BTreeMap;

use fairmesh_lab::comparison::{Comparison, GENERATOR};
use fairmesh_lab::control::Registry;
use fairmesh_lab::record::{DecisionRecord, RunRecord};
use fairmesh_lab::summary::{ControlSummary, FlowSummary, OURS_NOTE, SubscriberSummary};

use super::codec::encode;
use super::model::{
    Control, Curves, Decision, Decisions, LinkResult, Mean, Measure, Model, Network, Node,
    NodeResult, NodeRole, Noun, Overlap, Reference, SCHEMA, Sampling, Sharer, SharerResult, round,
};
use super::sentence::{Facts, by_cause, median_delay};
use crate::layout;
use crate::table::{rate_notes, remarks};
use crate::topology::Drawing;

use fairmesh_lab::verdict::STARVATION_FRACTION;

/// Attempts of a link per run below which its losses explain nothing.
const FEWEST_ATTEMPTS: f64 = 20.0;
/// Maximum number of stations that are named for the losses of a link.
const MOST_OVERLAPS: usize = 5;
/// Maximum number of decisions that are shown for a control.
const MOST_DECISIONS: usize = 400;
/// Relative change of a rate above which another decision about the same sharer is shown.
const SHOWN_RATE_CHANGE: f64 = 0.1;
/// Time after which another decision about the same sharer is shown in any case, in s.
const PAUSE_S: f64 = 15.0;
/// Size of curves above which further ones are left out, characters.
const MOST_CURVES: usize = 110_000;
/// Size of curves above which even those of the first seed are left out, characters.
const TOO_MANY_CURVES: usize = 3_500_000;
/// Maximum number of nodes for which a second layout by hops is computed.
const MOST_SCHEMATIC: usize = 400;

/// Inputs of the model.
pub struct Sources<'a> {
    /// The summaries.
    pub comparison: &'a Comparison,
    /// The runs: one list per control, one record per seed.
    pub records: &'a [Vec<RunRecord>],
    /// The network.
    pub drawing: &'a Drawing,
    /// Settings to list, name and value.
    pub settings: &'a [(String, String)],
    /// The command line.
    pub command: &'a str,
}

/// A sharer by the indices of its flows.
struct Members {
    subscriber: Option<usize>,
    flows: Vec<usize>,
}

/// Builds the model.
pub fn model(s: &Sources<'_>) -> Model {
    let c = s.comparison;
    let members = members(&c.results[0]);
    let places = places(s.drawing);
    let sharers: Vec<Sharer> = members.iter().map(|m| sharer(s, m)).collect();
    let mut controls: Vec<Control> =
        (0..c.results.len()).map(|k| control(s, k, &members, &sharers, &places)).collect();
    curves(s, &members, &places, &mut controls);
    let noun = noun(&c.results[0]);
    let baseline = c.results.iter().position(|r| r.control == "fifo").unwrap_or(0);
    let reference = reference(&c.results);
    let facts =
        Facts { comparison: c, controls: &controls, sharers: &sharers, noun, reference, baseline };
    let answer = facts.answer();
    let (warnings, notes) = notes(s, reference);
    let description = s.settings.iter().find(|(k, _)| k == "description");
    Model {
        schema: SCHEMA,
        scenario: c.scenario.clone(),
        description: description.map_or_else(String::new, |d| d.1.clone()),
        generator: GENERATOR.to_owned(),
        command: s.command.to_owned(),
        duration_s: c.duration_s,
        warmup_s: c.warmup_s,
        seeds: c.seed_list.clone(),
        noun,
        reference,
        answer,
        warnings,
        notes,
        network: network(s.drawing),
        sampling: sampling(&s.records[0][0]),
        sharers,
        baseline,
        controls,
        settings: s.settings.to_vec(),
    }
}

fn members(r: &ControlSummary) -> Vec<Members> {
    let of = |(k, s): (usize, &SubscriberSummary)| Members {
        subscriber: Some(k),
        flows: s.flows.clone(),
    };
    let mut all: Vec<Members> = r.subscribers.iter().enumerate().map(of).collect();
    let alone = |i: &usize| !r.subscribers.iter().any(|s| s.flows.contains(i));
    let flows = (0..r.flows.len()).filter(alone);
    all.extend(flows.map(|i| Members { subscriber: None, flows: vec![i] }));
    all
}

fn noun(r: &ControlSummary) -> Noun {
    let members: usize = r.subscribers.iter().map(|s| s.flows.len()).sum();
    match (r.subscribers.is_empty(), members == r.flows.len()) {
        (true, _) => Noun { one: "flow", many: "flows" },
        (false, true) => Noun { one: "subscriber", many: "subscribers" },
        (false, false) => Noun { one: "subscriber or flow", many: "subscribers and flows" },
    }
}

fn reference(results: &[ControlSummary]) -> Reference {
    let flows = || results.iter().flat_map(|r| &r.flows);
    if flows().all(|f| f.fair_bps.is_none()) && flows().next().is_some() {
        Reference::None
    } else if flows().any(|f| f.optimum_bps.is_some()) {
        Reference::Optimum
    } else if results.iter().any(|r| r.fair_is_upper_bound) {
        Reference::Bound
    } else {
        Reference::Fair
    }
}

/// Returns the indices of nodes by the names of their radios.
fn places(d: &Drawing) -> BTreeMap<&str, usize> {
    let nodes = d.names.iter().enumerate().map(|(i, n)| (n.as_str(), i));
    nodes.chain(d.radios.iter().map(|(n, i)| (n.as_str(), *i))).collect()
}

fn network(d: &Drawing) -> Network {
    let node = |i: usize| Node {
        name: d.names[i].clone(),
        at: (round(d.at[i].0), round(d.at[i].1)),
        role: match (d.gateways.contains(&i), d.wired[i]) {
            (true, _) => Some(NodeRole::Gateway),
            (_, true) => Some(NodeRole::Wired),
            _ => None,
        },
    };
    let schematic = match d.surveyed && d.names.len() <= MOST_SCHEMATIC {
        true => layout::place(d.names.len(), &[&d.links[..], &d.wires[..]].concat()),
        false => vec![],
    };
    Network {
        nodes: (0..d.names.len()).map(node).collect(),
        surveyed: d.surveyed,
        schematic: schematic.into_iter().map(|(x, y)| (round(x), round(y))).collect(),
        links: d.links.clone(),
        wires: d.wires.clone(),
    }
}

fn sharer(s: &Sources<'_>, m: &Members) -> Sharer {
    let (r, d) = (&s.comparison.results[0], s.drawing);
    let flows = || m.flows.iter().map(|&i| &r.flows[i]);
    let sum = |of: &dyn Fn(&FlowSummary) -> Option<f64>| {
        flows().map(of).sum::<Option<f64>>().map(|bps| round(bps / 1e3))
    };
    let inside = |i: usize| !d.gateways.contains(&i) && !d.wired[i];
    let paths: Vec<Vec<usize>> = m.flows.iter().map(|&i| d.paths[i].clone()).collect();
    let first = paths.first().map_or(&[][..], |p| &p[..]);
    // The end of the path away from the gateway, or the source if no end is one.
    let home = match (first.first(), first.last()) {
        (Some(&from), Some(&to)) if !inside(from) => to,
        (Some(&from), _) => from,
        _ => 0,
    };
    Sharer {
        label: match m.subscriber {
            Some(k) => r.subscribers[k].name.clone(),
            None => flows().map(name).collect(),
        },
        ends: match m.subscriber {
            Some(_) => String::new(),
            None => flows().map(|f| format!("{} → {}", f.from, f.to)).collect(),
        },
        subscriber: m.subscriber.is_some(),
        flows: match m.subscriber {
            Some(_) => flows().map(name).collect(),
            None => vec![],
        },
        hops: flows().map(|f| f.hops).max().unwrap_or(0),
        home,
        paths,
        fair: sum(&|f| f.fair_bps),
        optimum: sum(&|f| f.optimum_bps),
        pauses: flows().any(|f| f.active_share < 1.0),
    }
}

/// Returns a flow's own name; its ends if the name only repeats them.
fn name(f: &FlowSummary) -> String {
    let ends = format!("{} → {}", f.from, f.to);
    if f.label() == ends { ends } else { f.name.clone() }
}

fn mean_of(estimate: fairmesh_lab::Estimate, scale: f64) -> Mean {
    (round(estimate.mean * scale), estimate.ci95.map(|ci| round(ci * scale)))
}

fn control(
    s: &Sources<'_>,
    k: usize,
    members: &[Members],
    sharers: &[Sharer],
    places: &BTreeMap<&str, usize>,
) -> Control {
    let (r, records) = (&s.comparison.results[k], &s.records[k]);
    let links = links(r, places, s.comparison.duration_s);
    let results: Vec<SharerResult> = members
        .iter()
        .zip(sharers)
        .map(|(m, sharer)| result(r, records, m, sharer, &links))
        .collect();
    let about = Registry::standard().lookup(&r.control).map(|m| m.definition().about.to_string());
    let shares = results.iter().filter_map(|r| r.share);
    let mut remarks = remarks(r);
    remarks.extend(emulated(records).map(|(_, text)| text));
    if r.ours {
        remarks.push(OURS_NOTE.trim_start_matches("* ").to_owned());
    }
    Control {
        name: r.control.clone(),
        about: about.unwrap_or_default(),
        ours: r.ours,
        starving: r.starving.len(),
        worst: shares.reduce(f64::min),
        sum: mean_of(r.sum_goodput_bps, 1e-3),
        delay: median_delay(records).map(round),
        measures: measures(r),
        remarks,
        results,
        nodes: nodes(records, places, s.drawing.names.len()),
        links,
        decisions: decisions(s, records, members, sharers),
        curves: vec![],
        fingerprints: r.fingerprints.clone(),
    }
}

fn result(
    r: &ControlSummary,
    records: &[RunRecord],
    m: &Members,
    sharer: &Sharer,
    links: &[LinkResult],
) -> SharerResult {
    let flows = || m.flows.iter().map(|&i| &r.flows[i]);
    let (goodput, due, share) = match m.subscriber {
        Some(k) => {
            let s = &r.subscribers[k];
            (s.goodput_bps, flows().map(|f| f.due_bps).sum(), s.over_fair)
        }
        None => flows().next().map_or((fairmesh_lab::Estimate::of(&[]), None, None), |f| {
            (f.goodput_bps, f.due_bps, f.over_fair)
        }),
    };
    let per_run = 1.0 / records.len() as f64;
    let lost = |of: &dyn Fn(&fairmesh_lab::record::FlowRecord) -> [f64; 4]| {
        let mut sum = [0.0; 4];
        for (r, &i) in records.iter().flat_map(|r| m.flows.iter().map(move |i| (r, i))) {
            sum.iter_mut().zip(of(&r.flows[i])).for_each(|(to, n)| *to += n * per_run);
        }
        sum.map(round)
    };
    let (data, answers) =
        (lost(&|f| by_cause(&f.data_drops)), lost(&|f| by_cause(&f.answer_drops)));
    let all = lost(&|f| by_cause(&f.drops));
    let total = |d: &[f64; 4]| d.iter().sum::<f64>();
    let delays: Vec<(f64, f64)> =
        flows().filter_map(|f| Some((f.delay_s.mean? * 1e3, f.delay_s.p95? * 1e3))).collect();
    // The delay of the slowest flow of a subscriber.
    let delay = delays.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    SharerResult {
        goodput: mean_of(goodput, 1e-3),
        seeds: records
            .iter()
            .map(|r| round(m.flows.iter().map(|&i| r.flows[i].goodput_bps).sum::<f64>() / 1e3))
            .collect(),
        due: due.map(|d: f64| round(d / 1e3)),
        share: share.map(round),
        starves: share.is_some_and(|s| s < STARVATION_FRACTION),
        flows: match m.subscriber {
            Some(_) => flows().map(|f| round(f.goodput_bps.mean / 1e3)).collect(),
            None => vec![],
        },
        delay: delay.map(|(mean, p95)| (round(mean), round(p95))),
        lost: data,
        answers,
        warmup: round((total(&all) - total(&data) - total(&answers)).max(0.0)),
        resent: flows().filter_map(|f| f.retransmit_share).reduce(f64::max).map(round),
        worst_hop: worst_hop(sharer, links),
    }
}

/// Returns the hop of a sharer's paths that loses the largest fraction of its frames.
///
/// Both directions count.
fn worst_hop(sharer: &Sharer, links: &[LinkResult]) -> Option<usize> {
    let hops = sharer.paths.iter().flat_map(|p| p.windows(2));
    let both = hops.flat_map(|h| [(h[0], h[1]), (h[1], h[0])]);
    let place = |(a, b)| links.binary_search_by_key(&(a, b), |l| (l.from, l.to)).ok();
    let lossy = both.filter_map(place).filter(|&i| links[i].unanswered >= 0.1);
    lossy.max_by(|&a, &b| links[a].unanswered.total_cmp(&links[b].unanswered))
}

/// Returns the links with enough attempts, sorted by their ends.
fn links(r: &ControlSummary, places: &BTreeMap<&str, usize>, duration_s: f64) -> Vec<LinkResult> {
    let place = |name: &str| places.get(name).copied();
    let mut all: Vec<LinkResult> = r
        .links
        .hops()
        .filter(|h| h.attempts >= FEWEST_ATTEMPTS)
        .filter_map(|h| {
            let overlap = |o: &fairmesh_lab::verdict::Overlap| Overlap {
                node: place(&o.station),
                name: o.station.clone(),
                share: round(o.share),
                hidden: !o.sensed && !o.receiver,
                receiver: o.receiver,
            };
            Some(LinkResult {
                from: place(&h.from)?,
                to: place(&h.to)?,
                frames: round(h.attempts / duration_s),
                unanswered: round(h.unanswered),
                answer_lost: round(h.answer_lost),
                clean: round(h.clean),
                // Small fractions explain nothing.
                by: h
                    .overlapped_by
                    .iter()
                    .filter(|o| o.share >= 0.02)
                    .take(MOST_OVERLAPS)
                    .map(overlap)
                    .collect(),
            })
        })
        .collect();
    all.sort_by_key(|l| (l.from, l.to));
    all.dedup_by_key(|l| (l.from, l.to));
    all
}

fn nodes(
    records: &[RunRecord],
    places: &BTreeMap<&str, usize>,
    number: usize,
) -> Vec<Option<NodeResult>> {
    let mut all: Vec<Option<NodeResult>> = vec![None; number];
    let per_run = 1.0 / records.len() as f64;
    for n in records.iter().flat_map(|r| &r.nodes) {
        let Some(&i) = places.get(n.name.as_str()) else { continue };
        // Further radios of a node are added to it.
        let of = all[i].get_or_insert(NodeResult { tx: 0.0, busy: 0.0, queue: 0.0 });
        of.tx += n.airtime_tx * per_run;
        of.busy += n.airtime_busy * per_run;
        of.queue += n.mean_queue * per_run;
    }
    for n in all.iter_mut().flatten() {
        (n.tx, n.busy, n.queue) = (round(n.tx), round(n.busy), round(n.queue));
    }
    all
}

fn measures(r: &ControlSummary) -> Vec<Measure> {
    let ratio = |name, value: Option<fairmesh_lab::Estimate>, digits| {
        value.map(|v| Measure { name, value: mean_of(v, 1.0), digits, unit: "" })
    };
    let all = [
        ratio("Jain index", Some(r.jain), 3),
        ratio("Jain index of goodput over fair rate", r.jain_normalized, 3),
        ratio("smallest share of the fair rate", r.min_over_fair, 3),
        ratio("largest share of the fair rate", r.max_over_fair, 2),
        ratio("smallest share of the optimum", r.min_over_optimum, 3),
        ratio("sum over the optimum’s", r.sum_over_optimum, 3),
        ratio("Jain index of goodput over optimum", r.jain_optimum, 3),
        ratio("utilisation ratio", r.utilization_ratio, 3),
        Some(Measure {
            name: "sum of goodput",
            value: mean_of(r.sum_goodput_bps, 1e-3),
            digits: 0,
            unit: "kbit/s",
        }),
        Some(Measure {
            name: "signalling",
            value: mean_of(r.signalling_airtime, 100.0),
            digits: 2,
            unit: "% of airtime",
        }),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the verdicts of emulated runs: valid or not, and a sentence.
fn emulated(records: &[RunRecord]) -> impl Iterator<Item = (bool, String)> + '_ {
    records.iter().filter_map(|r| r.emulation.as_ref()).map(|e| match e.valid {
        true => (true, crate::stalls::text(&e.stalls)),
        false => (false, format!("INVALID emulation: {}", e.problems.join("; "))),
    })
}

fn notes(s: &Sources<'_>, reference: Reference) -> (Vec<String>, Vec<String>) {
    let c = s.comparison;
    let mut warnings = Vec::new();
    for (r, records) in c.results.iter().zip(s.records) {
        let invalid = emulated(records).filter(|(valid, _)| !valid);
        warnings.extend(invalid.map(|(_, text)| format!("{}: {text}.", r.control)));
    }
    if reference == Reference::Bound {
        warnings.push(
            "The fair rate here is an upper bound: the radios aggregate frames, and the analytic model cannot account \
             for how many. No control may reach 100 %. Run with --optimum to measure what fits."
                .into(),
        );
    }
    let unsettled: Vec<String> =
        c.results.iter().filter(|r| r.moving_limits.is_some()).map(|r| r.control.clone()).collect();
    if !unsettled.is_empty() {
        warnings.push(format!(
            "Limits still moved at the end of the runs of {}: run longer to judge these controls.",
            unsettled.join(", ")
        ));
    }
    let mut notes: Vec<String> = c.notes.clone();
    notes.extend(rate_notes(&c.results).into_iter().map(str::to_owned));
    (warnings, notes)
}

fn sampling(r: &RunRecord) -> Option<Sampling> {
    let [first, second, ..] = r.series.time_s[..] else { return None };
    Some(Sampling { first_s: first, every_s: round(second - first), number: r.series.time_s.len() })
}

fn decisions(
    s: &Sources<'_>,
    records: &[RunRecord],
    members: &[Members],
    sharers: &[Sharer],
) -> Decisions {
    let first = &records[0];
    let summary = &s.comparison.results[0];
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, m) in members.iter().enumerate() {
        names.extend(m.flows.iter().map(|&f| (summary.flows[f].name.as_str(), i)));
        names.insert(&sharers[i].label, i);
    }
    let mut last: BTreeMap<(usize, &str), (f64, f64)> = BTreeMap::new();
    let mut shown = Vec::new();
    for d in &first.decisions {
        let sharer = d.flow.as_deref().and_then(|f| names.get(f).copied());
        let rate = d.rate_bps.map(|bps| bps / 1e3);
        let mut before = None;
        if let Some(i) = sharer {
            let now = rate.unwrap_or(0.0);
            if let Some(&(was, at)) = last.get(&(i, &*d.code)) {
                // Decisions with a small change are counted, not shown.
                if (now - was).abs() <= SHOWN_RATE_CHANGE * was && d.time_s - at < PAUSE_S {
                    continue;
                }
                before = rate.map(|_| was);
            }
            last.insert((i, &d.code), (now, d.time_s));
        }
        shown.push(decision(d, sharer, rate, before));
    }
    let every = shown.len().div_ceil(MOST_DECISIONS).max(1);
    Decisions { total: first.decisions.len(), shown: shown.into_iter().step_by(every).collect() }
}

fn decision(
    d: &DecisionRecord,
    sharer: Option<usize>,
    rate: Option<f64>,
    before: Option<f64>,
) -> Decision {
    Decision {
        time_s: (d.time_s * 1e3).round() / 1e3,
        node: d.node.clone(),
        code: d.code.to_string(),
        reason: d.reason.clone(),
        sharer,
        rate: rate.map(round),
        before: before.map(round),
    }
}

/// Adds curves until they exceed the size limits.
///
/// The first seed's goodputs and limits come first, then its windows and queues, then further
/// seeds.
fn curves(
    s: &Sources<'_>,
    members: &[Members],
    places: &BTreeMap<&str, usize>,
    controls: &mut [Control],
) {
    let mut size = 0;
    // An emulation has one run beside several simulated ones.
    let seeds = s.records.iter().map(Vec::len).min().unwrap_or(0);
    for seed in 0..seeds {
        let rates = |k: usize| {
            let r = &s.records[k][seed].series;
            Curves {
                goodput: summed(members, &r.goodput_bps, 1e-3),
                limit: summed(members, &r.limit_bps, 1e-3),
                ..Curves::default()
            }
        };
        let mut all: Vec<Curves> = (0..controls.len()).map(rates).collect();
        let characters = |c: &[String]| c.iter().map(String::len).sum::<usize>();
        let own = |c: &Curves| characters(&c.goodput) + characters(&c.limit);
        size += all.iter().map(own).sum::<usize>();
        let most = if seed == 0 { TOO_MANY_CURVES } else { MOST_CURVES };
        if size > most {
            return;
        }
        if seed == 0 {
            let more = |k: usize| {
                let r = &s.records[k][seed];
                (
                    summed(members, &r.series.cwnd_bytes, 1e-3),
                    queues(r, places, s.drawing.names.len()),
                )
            };
            let extra: Vec<_> = (0..controls.len()).map(more).collect();
            let of = |(w, q): &(Vec<String>, Vec<String>)| characters(w) + characters(q);
            let more: usize = extra.iter().map(of).sum();
            if size + more <= MOST_CURVES {
                size += more;
                all.iter_mut().zip(extra).for_each(|(c, (w, q))| (c.window, c.queue) = (w, q));
            }
        }
        controls.iter_mut().zip(all).for_each(|(c, curves)| c.curves.push(curves));
    }
}

/// Returns the curves of sharers, each the sum over its flows; empty if there are none.
fn summed(members: &[Members], curves: &[Vec<f64>], scale: f64) -> Vec<String> {
    let of = |m: &Members| {
        let own: Vec<&Vec<f64>> =
            m.flows.iter().filter_map(|&f| curves.get(f)).filter(|c| !c.is_empty()).collect();
        let length = own.iter().map(|c| c.len()).min().unwrap_or(0);
        let sum = |t: usize| own.iter().map(|c| c[t]).sum::<f64>() * scale;
        let values: Vec<f64> = (0..length).map(sum).collect();
        if values.is_empty() { String::new() } else { encode(&values) }
    };
    let all: Vec<String> = members.iter().map(of).collect();
    if all.iter().all(String::is_empty) { vec![] } else { all }
}

fn queues(r: &RunRecord, places: &BTreeMap<&str, usize>, number: usize) -> Vec<String> {
    let mut all = vec![String::new(); number];
    for (n, curve) in r.nodes.iter().zip(&r.series.queue_packets) {
        let Some(&i) = places.get(n.name.as_str()) else { continue };
        if curve.iter().any(|v| *v > 0.0) {
            all[i] = encode(curve);
        }
    }
    if all.iter().all(String::is_empty) { vec![] } else { all }
}
