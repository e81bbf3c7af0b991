//! Summaries over seeds: means with 95 % intervals, one summary per control.

use fairmesh_engine::measures;
use fairmesh_engine::record::{Drops, FlowRecord, RunRecord, SignallingRecord, SubscriberRecord};
use serde::Serialize;

use crate::drops::DropsSummary;
use crate::estimate::{Estimate, mean};
use crate::optimum::Optimum;
use crate::tradeoff::Tradeoff;
use crate::verdict::{Links, STARVATION_FRACTION, Starving};

/// Delay over seeds, s; `None` if no seed delivered anything.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelaySummary {
    /// Mean over seeds of the mean.
    pub mean: Option<f64>,
    /// Mean over seeds of the 95th percentile.
    pub p95: Option<f64>,
}

/// One flow over the seeds of one control.
#[derive(Clone, Debug, Serialize)]
pub struct FlowSummary {
    /// Flow name.
    pub name: String,
    /// Source node.
    pub from: String,
    /// Destination node.
    pub to: String,
    /// Wireless hops.
    pub hops: u32,
    /// Weight.
    pub weight: f64,
    /// Goodput, in bit/s.
    pub goodput_bps: Estimate,
    /// Max-min rate, bit/s; `None` if the runs were given no fair rates.
    pub fair_bps: Option<f64>,
    /// Rate against which the goodput is judged, bit/s; `None` without fair rates.
    ///
    /// It is the fair rate times the fraction of time in which the application had data to
    /// transfer. It is at most the optimum if that is known, and at most an equal share if fair
    /// rates are upper bounds.
    pub due_bps: Option<f64>,
    /// Mean goodput over that rate; `None` if no rate is due.
    /// That is the case for a path over a link that never delivers, or without data to transfer.
    pub over_fair: Option<f64>,
    /// Fraction of the flow's time in which its application had data to transfer.
    pub active_share: f64,
    /// Names of the nodes on its path.
    #[serde(skip)]
    pub(crate) path: Vec<String>,
    /// Max-min rate that the simulator carries, bit/s, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimum_bps: Option<f64>,
    /// One-way delay, in s.
    pub delay_s: DelaySummary,
    /// Losses per run, by cause: data, acknowledgements and requests, warm-up included.
    pub drops: DropsSummary,
    /// Lost data packets sent in the measured interval, per run.
    pub data_drops: DropsSummary,
    /// Lost acknowledgements and requests sent in the measured interval, per run.
    pub answer_drops: DropsSummary,
    /// Retransmitted segments over segments sent; `None` for UDP.
    pub retransmit_share: Option<f64>,
}

impl FlowSummary {
    /// Returns its label in tables: its ends, and its name if that adds information.
    pub fn label(&self) -> String {
        flow_label(&self.name, &self.from, &self.to)
    }
}

/// One subscriber over the seeds of one control.
#[derive(Clone, Debug, Serialize)]
pub struct SubscriberSummary {
    /// Name.
    pub name: String,
    /// Indices of its flows in [`ControlSummary::flows`], downstream first.
    pub flows: Vec<usize>,
    /// Weight.
    pub weight: f64,
    /// Goodput in both directions, in bit/s.
    pub goodput_bps: Estimate,
    /// Goodput into the mesh, in bit/s.
    pub goodput_down_bps: Estimate,
    /// Goodput out of the mesh, in bit/s.
    pub goodput_up_bps: Estimate,
    /// Max-min rate, bit/s; `None` if the runs were given no fair rates.
    pub fair_bps: Option<f64>,
    /// Mean goodput over the fair rate.
    pub over_fair: Option<f64>,
    /// Max-min rate that the simulator carries, bit/s, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimum_bps: Option<f64>,
    /// Losses of its flows per run, by cause.
    pub drops: DropsSummary,
}

/// One control over its seeds.
#[derive(Clone, Debug, Serialize)]
pub struct ControlSummary {
    /// Control name, with variant.
    pub control: String,
    /// True if a part of it is this project's own and unpublished.
    pub ours: bool,
    /// Jain's index of the goodputs.
    pub jain: Estimate,
    /// Jain's index of goodput over fair rate.
    pub jain_normalized: Option<Estimate>,
    /// Smallest goodput over fair rate.
    pub min_over_fair: Option<Estimate>,
    /// Largest goodput over fair rate.
    pub max_over_fair: Option<Estimate>,
    /// Σ goodput × hops over that sum at the analytic rates.
    pub utilization_ratio: Option<Estimate>,
    /// Smallest goodput over its optimum, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_over_optimum: Option<Estimate>,
    /// Sum of the goodputs over that of the optimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_over_optimum: Option<Estimate>,
    /// Jain's index of goodput over optimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain_optimum: Option<Estimate>,
    /// Sum of the goodputs, in bit/s.
    pub sum_goodput_bps: Estimate,
    /// Bytes of the control's messages and header fields in the air, per second.
    pub signalling_bytes_per_s: Estimate,
    /// Airtime of messages and header fields per second.
    pub signalling_airtime: Estimate,
    /// One entry per flow, in scenario order.
    pub flows: Vec<FlowSummary>,
    /// One entry per subscriber, in scenario order; absent if there are none.
    /// If present, the measures are over subscribers, and over flows without a subscriber.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscribers: Vec<SubscriberSummary>,
    /// Subscribers and flows without a subscriber that starve, worst first.
    ///
    /// They are below [`STARVATION_FRACTION`] of their due rate.
    pub starving: Vec<Starving>,
    /// Number of runs in which a subscriber or flow starves: not always the same one.
    pub starving_runs: usize,
    /// True if the analytic fair rates are upper bounds.
    pub fair_is_upper_bound: bool,
    /// Limits that still moved at the end; absent if none did, or if no curves were sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving_limits: Option<MovingLimits>,
    /// Gain and cost against the baseline, if another control was run beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tradeoff: Option<Tradeoff>,
    /// Losses per run, by cause.
    pub drops: DropsSummary,
    /// Links over all runs.
    #[serde(skip)]
    pub links: Links,
    /// PHY transmissions per run.
    pub transmissions: f64,
    /// One fingerprint per seed, in the order of the seeds.
    pub fingerprints: Vec<String>,
}

/// Meaning of the mark at the names of controls in tables of results.
pub const OURS_NOTE: &str = "* ours: not published, or not as it is here";

/// Returns a control's name for tables, marked ([`OURS_NOTE`]) if a part is unpublished.
pub fn marked(control: &str, ours: bool) -> String {
    if ours { format!("{control} *") } else { control.to_owned() }
}

impl ControlSummary {
    /// Returns the summary of one record per seed, all of one scenario and control.
    /// `records` must not be empty.
    pub fn of(records: &[RunRecord]) -> Self {
        let first = &records[0];
        let fair: Option<Vec<f64>> = first.flows.iter().map(|f| f.fair_bps).collect();
        let hops: Vec<u32> = first.flows.iter().map(|f| f.hops).collect();
        let most = fair.map(|fair| measures::utilization(&fair, &hops));
        let over = |measure: &dyn Fn(&[f64]) -> f64| over(records, measure);
        let shared = |measure: &dyn Fn(&[f64]) -> f64| {
            let value = |r: &RunRecord| measure(&r.sharers().0);
            Estimate::of(&records.iter().map(value).collect::<Vec<_>>())
        };
        let of_fair = |measure: &dyn Fn(&[f64], &[f64]) -> f64| {
            let value = |r: &RunRecord| {
                let (goodput, fair) = r.sharers();
                fair.map(|fair| measure(&goodput, &fair))
            };
            let values: Option<Vec<f64>> = records.iter().map(value).collect();
            values.map(|values| Estimate::of(&values))
        };
        let cost = |of: &dyn Fn(&SignallingRecord) -> f64| {
            let values: Vec<f64> = records.iter().map(|r| of(&r.totals.signalling)).collect();
            Estimate::of(&values)
        };
        let mut summary = ControlSummary {
            control: first.control.clone(),
            ours: first.ours,
            jain: shared(&measures::jain),
            jain_normalized: of_fair(&measures::jain_normalized),
            min_over_fair: of_fair(&measures::min_over_fair),
            max_over_fair: of_fair(&measures::max_over_fair),
            utilization_ratio: most.map(|most| {
                over(&|g| if most > 0.0 { measures::utilization(g, &hops) / most } else { 0.0 })
            }),
            min_over_optimum: None,
            sum_over_optimum: None,
            jain_optimum: None,
            sum_goodput_bps: over(&|g| g.iter().sum()),
            signalling_bytes_per_s: cost(&|s| s.bytes_per_s),
            signalling_airtime: cost(&|s| s.airtime_share),
            flows: (0..first.flows.len()).map(|i| flow_summary(records, i)).collect(),
            subscribers: (0..first.subscribers.len())
                .map(|i| subscriber_summary(records, i))
                .collect(),
            starving: Vec::new(),
            starving_runs: starving_runs(records, None),
            fair_is_upper_bound: first.fair_is_upper_bound,
            moving_limits: moving_limits(records),
            tradeoff: None,
            drops: DropsSummary::over(records.iter().map(|r| &r.totals.drops)),
            links: Links::of(records),
            transmissions: mean(records.iter().map(|r| r.totals.transmissions as f64)),
            fingerprints: records.iter().map(|r| r.fingerprint.clone()).collect(),
        };
        summary.judge();
        summary
    }

    /// Adds the measures of the same records relative to their scenario's optimum.
    #[must_use]
    pub fn of_optimum(mut self, records: &[RunRecord], optimum: &Optimum) -> Self {
        self.min_over_optimum = Some(over(records, &|g| optimum.min_over(g)));
        self.sum_over_optimum = Some(over(records, &|g| optimum.sum_over(g)));
        self.jain_optimum = Some(over(records, &|g| optimum.jain(g)));
        for (flow, best) in self.flows.iter_mut().zip(&optimum.flows) {
            flow.optimum_bps = Some(best.optimum_bps);
            let most = best.optimum_bps * flow.active_share;
            flow.due_bps = flow.due_bps.map(|due| due.min(most));
        }
        for subscriber in &mut self.subscribers {
            let best = subscriber.flows.iter().filter_map(|&f| optimum.flows.get(f));
            subscriber.optimum_bps = Some(best.map(|f| f.optimum_bps).sum());
        }
        self.starving_runs = starving_runs(records, Some(optimum));
        self.judge();
        self
    }

    /// Determines the starving subscribers and flows from the due rates.
    fn judge(&mut self) {
        let over = |goodput: f64, due: Option<f64>| due.filter(|d| *d > 0.0).map(|d| goodput / d);
        for f in &mut self.flows {
            f.over_fair = over(f.goodput_bps.mean, f.due_bps);
        }
        for s in &mut self.subscribers {
            let due = s.flows.iter().map(|&f| self.flows[f].due_bps).sum();
            s.over_fair = over(s.goodput_bps.mean, due);
        }
        let starves = |over: Option<f64>| over.filter(|o| *o < STARVATION_FRACTION);
        let mut starving = Vec::new();
        for s in &self.subscribers {
            let Some(over_fair) = starves(s.over_fair) else { continue };
            starving.push(Starving {
                label: s.name.clone(),
                over_fair,
                drops: s.drops,
                worst_hop: self.links.worst_hop(s.flows.iter().map(|&f| &self.flows[f].path[..])),
            });
        }
        let member = |i: usize| self.subscribers.iter().any(|s| s.flows.contains(&i));
        for (i, f) in self.flows.iter().enumerate() {
            let Some(over_fair) = starves(f.over_fair).filter(|_| !member(i)) else { continue };
            starving.push(Starving {
                label: f.label(),
                over_fair,
                drops: f.drops,
                worst_hop: self.links.worst_hop(core::iter::once(&f.path[..])),
            });
        }
        starving.sort_by(|a, b| a.over_fair.total_cmp(&b.over_fair));
        self.starving = starving;
    }

    /// Returns the flows below [`STARVATION_FRACTION`] of their due rate, worst first.
    pub fn starved(&self) -> Vec<&FlowSummary> {
        let below = |f: &&FlowSummary| f.over_fair.is_some_and(|o| o < STARVATION_FRACTION);
        let mut starved: Vec<_> = self.flows.iter().filter(below).collect();
        let over = |f: &FlowSummary| f.over_fair.unwrap_or(f64::INFINITY);
        starved.sort_by(|a, b| over(a).total_cmp(&over(b)));
        starved
    }
}

/// Counts the runs in which a sharer is below [`STARVATION_FRACTION`] of its due rate.
///
/// A due rate is at most the optimum, where that is known.
fn starving_runs(records: &[RunRecord], optimum: Option<&Optimum>) -> usize {
    let starves = |record: &&RunRecord| {
        let (goodputs, dues) = record.sharers();
        let most = optimum.map(|o| shared_optimum(record, o));
        dues.into_iter().flatten().zip(goodputs).enumerate().any(|(i, (due, goodput))| {
            let due = most.as_ref().map_or(due, |most| due.min(most[i]));
            due > 0.0 && goodput < STARVATION_FRACTION * due
        })
    };
    records.iter().filter(starves).count()
}

/// Returns the optimum of each subscriber, then of each flow without one, in bit/s.
fn shared_optimum(record: &RunRecord, optimum: &Optimum) -> Vec<f64> {
    let best = |f: usize| optimum.flows[f].optimum_bps * record.flows[f].active_share;
    let member = |f: &usize| record.subscribers.iter().any(|s| s.flows.contains(f));
    let subscribers = record.subscribers.iter().map(|s| s.flows.iter().map(|&f| best(f)).sum());
    subscribers.chain((0..record.flows.len()).filter(|f| !member(f)).map(best)).collect()
}

/// Limits that still moved when the runs ended: the runs are too short to judge the control.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MovingLimits {
    /// Flows with a limit that moved in any run.
    pub flows: usize,
    /// Largest relative change of a flow's mean limit, without its sign.
    /// It is the mean in the last quarter of the measured interval over that in the quarter before, less 1.
    pub largest_change: f64,
}

/// Relative change of a flow's mean limit between quarters above which it counts as moving.
const MOVING_LIMIT_CHANGE: f64 = 0.2;

fn moving_limits(records: &[RunRecord]) -> Option<MovingLimits> {
    let moved = |i: usize| {
        let drifts =
            records.iter().filter_map(|r| limit_drift(r, i)).filter(|d| *d > MOVING_LIMIT_CHANGE);
        drifts.reduce(f64::max)
    };
    let all: Vec<f64> = (0..records[0].flows.len()).filter_map(moved).collect();
    let largest_change = all.iter().copied().reduce(f64::max)?;
    Some(MovingLimits { flows: all.len(), largest_change })
}

/// Returns the change of a flow's mean limit over the last half of the measured interval.
///
/// It is the mean of the last quarter over that of the third.
fn limit_drift(r: &RunRecord, flow: usize) -> Option<f64> {
    let limits = r.series.limit_bps.get(flow)?;
    let quarter = (r.duration_s - r.warmup_s) / 4.0;
    let of = |from: f64, to: f64| {
        let within = r.series.time_s.iter().zip(limits);
        let values: Vec<f64> =
            within.filter(|(t, l)| **t > from && **t <= to && **l > 0.0).map(|(_, l)| *l).collect();
        (!values.is_empty()).then(|| mean(values.iter().copied()))
    };
    let before = of(r.duration_s - 2.0 * quarter, r.duration_s - quarter)?;
    Some((of(r.duration_s - quarter, r.duration_s)? / before - 1.0).abs())
}

/// Returns a measure of the goodputs, over the seeds.
fn over(records: &[RunRecord], measure: &dyn Fn(&[f64]) -> f64) -> Estimate {
    let goodputs = |r: &RunRecord| r.flows.iter().map(|f| f.goodput_bps).collect::<Vec<_>>();
    Estimate::of(&records.iter().map(|r| measure(&goodputs(r))).collect::<Vec<_>>())
}

fn flow_summary(records: &[RunRecord], i: usize) -> FlowSummary {
    let first = &records[0].flows[i];
    let flows = || records.iter().map(|r| &r.flows[i]);
    let goodput_bps = Estimate::of(&flows().map(|f| f.goodput_bps).collect::<Vec<_>>());
    // A run that delivered nothing has no delay, and for emulated TCP no delay is measured. Neither
    // may reduce the mean.
    let measured = |f: &&FlowRecord| f.packets_delivered > 0 && f.delay_s.mean > 0.0;
    let delivered: Vec<_> = flows().filter(measured).collect();
    let delay = |of: &dyn Fn(&fairmesh_engine::record::DelayRecord) -> f64| {
        (!delivered.is_empty()).then(|| mean(delivered.iter().map(|f| of(&f.delay_s))))
    };
    let (mut segments, mut retransmits) = (0, 0);
    for tcp in flows().filter_map(|f| f.tcp.as_ref()) {
        segments += tcp.segments;
        retransmits += tcp.retransmits;
    }
    for quic in flows().filter_map(|f| f.quic.as_ref()) {
        segments += quic.packets;
        retransmits += quic.retransmits;
    }
    let dues: Option<Vec<f64>> = records.iter().map(|r| r.dues().map(|dues| dues[i])).collect();
    FlowSummary {
        name: first.name.clone(),
        from: first.from.clone(),
        to: first.to.clone(),
        hops: first.hops,
        weight: first.weight,
        goodput_bps,
        fair_bps: first.fair_bps,
        optimum_bps: None,
        due_bps: dues.map(|dues| mean(dues.into_iter())),
        over_fair: None,
        active_share: mean(flows().map(|f| f.active_share)),
        path: first.path.clone(),
        delay_s: DelaySummary { mean: delay(&|d| d.mean), p95: delay(&|d| d.p95) },
        drops: DropsSummary::over(flows().map(|f| &f.drops)),
        data_drops: DropsSummary::over(flows().map(|f| &f.data_drops)),
        answer_drops: DropsSummary::over(flows().map(|f| &f.answer_drops)),
        retransmit_share: (segments > 0).then(|| retransmits as f64 / segments as f64),
    }
}

fn subscriber_summary(records: &[RunRecord], i: usize) -> SubscriberSummary {
    let first = &records[0].subscribers[i];
    let over = |of: &dyn Fn(&SubscriberRecord) -> f64| {
        Estimate::of(&records.iter().map(|r| of(&r.subscribers[i])).collect::<Vec<_>>())
    };
    let goodput_bps = over(&|s| s.goodput_bps);
    let drops = |r: &RunRecord| {
        let mut sum = Drops::default();
        first.flows.iter().for_each(|&f| sum.add(&r.flows[f].drops));
        sum
    };
    SubscriberSummary {
        name: first.name.clone(),
        flows: first.flows.clone(),
        weight: first.weight,
        goodput_bps,
        goodput_down_bps: over(&|s| s.goodput_down_bps),
        goodput_up_bps: over(&|s| s.goodput_up_bps),
        fair_bps: first.fair_bps,
        over_fair: None,
        optimum_bps: None,
        drops: DropsSummary::over(records.iter().map(drops).collect::<Vec<_>>().iter()),
    }
}

/// Returns a flow's label in tables: its ends, and its name if that adds information.
pub fn flow_label(name: &str, from: &str, to: &str) -> String {
    let ends = format!("{from} → {to}");
    let derived =
        [&ends, &format!("{from}-{to}"), &format!("{from}->{to}"), &format!("{from}→{to}")]
            .iter()
            .any(|d| d.as_str() == name);
    if derived || name.is_empty() { ends } else { format!("{ends} ({name})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn goodput_and_interval_over_seeds() {
        let records = [
            record("fifo", 1, &[(300e3, 200e3, 1), (90e3, 200e3, 2)]),
            record("fifo", 2, &[(310e3, 200e3, 1), (110e3, 200e3, 2)]),
        ];
        let s = ControlSummary::of(&records);
        assert_eq!(s.flows[0].goodput_bps.mean, 305e3);
        // Two values a apart: s/√2 = a/2, t(0.975, 1) = 12.706.
        let ci = s.flows[0].goodput_bps.ci95.unwrap();
        assert!((ci - 12.706 * 5e3).abs() < 10.0, "{ci}");
        assert!((s.flows[1].over_fair.unwrap() - 0.5).abs() < 1e-12);
        assert!((s.min_over_fair.unwrap().mean - 0.5).abs() < 1e-12);
        assert!((s.max_over_fair.unwrap().mean - 1.525).abs() < 1e-12);
        // Σ rate × hops: (300 + 180 + 310 + 220)/2 over 200 + 400.
        assert!((s.utilization_ratio.unwrap().mean - 505.0 / 600.0).abs() < 1e-12);
        assert_eq!(s.fingerprints.len(), 2);
    }

    #[test]
    fn runs_with_a_starving_flow_are_counted_where_their_mean_has_none() {
        let rates = |first, second| [(first, 100e3, 1), (second, 100e3, 1)];
        let records = [
            record("pfrc", 1, &rates(1e3, 90e3)),
            record("pfrc", 2, &rates(90e3, 1e3)),
            record("pfrc", 3, &rates(90e3, 90e3)),
        ];
        let s = ControlSummary::of(&records);
        assert_eq!((s.starving.len(), s.starving_runs), (0, 2));
    }

    #[test]
    fn one_seed_has_no_interval_and_no_delivery_no_delay() {
        let mut r = record("fifo", 1, &[(0.0, 200e3, 3), (1e6, 200e3, 1)]);
        r.flows[0].packets_delivered = 0;
        let s = ControlSummary::of(&[r]);
        assert_eq!(s.flows[0].goodput_bps.ci95, None);
        assert_eq!(s.flows[0].delay_s, DelaySummary { mean: None, p95: None });
        assert!(s.flows[1].delay_s.mean.is_some());
        assert_eq!(s.starved().iter().map(|f| f.hops).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn measures_are_over_subscribers_where_there_are_any() {
        let with = |seed, rates: [f64; 3]| {
            let mut r = record("fifo", seed, &rates.map(|g| (g, 100e3, 1)));
            // The third flow has no subscriber.
            r.subscribers = vec![SubscriberRecord {
                name: "home".to_owned(),
                flows: vec![0, 1],
                weight: 2.0,
                goodput_bps: rates[0] + rates[1],
                goodput_down_bps: rates[0],
                goodput_up_bps: rates[1],
                fair_bps: Some(200e3),
            }];
            r
        };
        let s = ControlSummary::of(&[with(1, [150e3, 0.0, 80e3]), with(2, [170e3, 0.0, 80e3])]);
        let home = &s.subscribers[0];
        assert_eq!((home.goodput_bps.mean, home.goodput_down_bps.mean), (160e3, 160e3));
        assert_eq!((home.goodput_up_bps.mean, home.over_fair, home.weight), (0.0, Some(0.8), 2.0));
        // One connection has no goodput; its home has three quarters of its share or more.
        assert!((s.min_over_fair.unwrap().mean - (0.75 + 0.8) / 2.0).abs() < 1e-12);
        assert!(s.jain_normalized.unwrap().mean > 0.99, "{:?}", s.jain_normalized);
        assert_eq!((s.starved().len(), &s.starving[..]), (1, &[][..]));
        assert_eq!(home.drops.queue, 120.0, "of both flows");
        let v = serde_json::to_value(&s).unwrap();
        assert_eq!(v["subscribers"][0]["flows"], serde_json::json!([0, 1]));
        let none = ControlSummary::of(&[record("fifo", 1, &[(0.0, 1e5, 1)])]);
        assert!(serde_json::to_value(&none).unwrap().get("subscribers").is_none());
        assert_eq!(none.starving[0].label, "1 → 0");
    }

    #[test]
    fn seeds_without_packets_do_not_change_the_delay() {
        let mut silent = record("fifo", 1, &[(0.0, 200e3, 1)]);
        silent.flows[0].packets_delivered = 0;
        silent.flows[0].delay_s = Default::default();
        let loud = record("fifo", 2, &[(1e5, 200e3, 1)]);
        let expected = loud.flows[0].delay_s.mean;
        assert_eq!(ControlSummary::of(&[silent, loud]).flows[0].delay_s.mean, Some(expected));
    }

    #[test]
    fn without_fair_rates_their_measures_are_absent() {
        let mut r = record("fifo", 1, &[(0.0, 200e3, 3), (1e6, 200e3, 1)]);
        r.flows.iter_mut().for_each(|f| f.fair_bps = None);
        let s = ControlSummary::of(&[r]);
        assert_eq!((s.jain_normalized, s.min_over_fair, s.max_over_fair), (None, None, None));
        assert_eq!((s.utilization_ratio, s.flows[0].over_fair), (None, None));
        assert!(s.starved().is_empty() && s.starving.is_empty());
        assert!((s.jain.mean - 0.5).abs() < 1e-12);
        let json = serde_json::to_value(&s).unwrap();
        assert!(json["min_over_fair"].is_null() && json["flows"][0]["fair_bps"].is_null());
    }

    #[test]
    fn limits_that_move_at_the_end_are_reported() {
        let run = |limits: [f64; 8]| {
            let mut r = record("pfrc", 1, &[(1e5, 2e5, 1), (1e5, 2e5, 1)]);
            (r.duration_s, r.warmup_s) = (8.0, 0.0);
            r.series.time_s = (1..=8).map(f64::from).collect();
            r.series.limit_bps = vec![limits.to_vec(), vec![]];
            ControlSummary::of(&[r]).moving_limits
        };
        let settled = [9e5, 1e5, 4e5, 2e5, 2e5, 2.1e5, 2.1e5, 2.2e5];
        assert_eq!(run(settled), None, "what moved early does not count");
        let rising = [1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 2e5];
        assert_eq!(run(rising), Some(MovingLimits { flows: 1, largest_change: 0.5 }));
    }

    #[test]
    fn labels_do_not_repeat_the_ends() {
        assert_eq!(flow_label("1-0", "1", "0"), "1 → 0");
        assert_eq!(flow_label("web", "1", "0"), "1 → 0 (web)");
    }
}
