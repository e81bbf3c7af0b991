//! Measures that are read from a run.

use fairmesh_capacity::region::Settings;
use fairmesh_engine::measures;
use fairmesh_engine::record::{DelayRecord, FlowRecord, MacCounters, NodeRecord, RunRecord};
use fairmesh_lab::LabError;
use fairmesh_lab::Store;
use fairmesh_lab::analysis::region::RegionReport;
use fairmesh_lab::optimum::{SharingUnit, optimum_of, unobserved};
use fairmesh_scenario::{Scenario, Transport};
use fairmesh_transport::traffic::TrafficSpec;

use super::decisions;
use super::declare::{Model, Phase};
use super::kind::Kind;

/// Facts of a scenario that are needed to read its runs.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Subscriber of each flow, or its ends `from→to`; flows with the same name count as one.
    pub(super) ends: Vec<String>,
    /// Bytes of a full segment, per flow; 0 for UDP.
    segment: Vec<f64>,
    /// Per phase: interval and the flows' fair rates in it, in bit/s.
    pub(super) phases: Vec<(f64, f64, Vec<f64>)>,
    /// Rates of a capacity model in place of the goodputs, in bit/s.
    pub(super) model: Option<Vec<f64>>,
    /// Rate to which each flow's application is limited, bit/s; infinite without a limit.
    demand: Vec<f64>,
    /// True for runs of the emulator, which does not measure everything.
    pub(super) emulated: bool,
}

/// One flow, or several flows with the same ends, over an interval.
#[derive(Clone, Debug)]
struct Share {
    goodput: f64,
    fair: f64,
    hops: u32,
}

impl Reading {
    /// Prepares to read runs of `scenario`.
    ///
    /// # Errors
    /// Returns an error if it has no fair rates.
    pub fn of(scenario: &Scenario, phases: &[Phase]) -> Result<Self, LabError> {
        let name = |n: fairmesh_units::NodeId| &scenario.nodes()[n.index()].name;
        let mut ends: Vec<String> =
            scenario.flows().iter().map(|f| format!("{}→{}", name(f.from), name(f.to))).collect();
        for subscriber in &scenario.subscribers().list {
            subscriber.flows().for_each(|f| ends[f].clone_from(&subscriber.name));
        }
        let segment = scenario.flows().iter().map(|f| match &f.transport {
            Transport::Tcp(tcp) => f64::from(tcp.mss),
            Transport::Quic(quic) => f64::from(quic.full_packet().0),
            Transport::Udp => 0.0,
        });
        let demand = scenario.flows().iter().map(|f| match f.traffic {
            TrafficSpec::Limited { rate, .. } => rate.0 as f64,
            _ => f64::INFINITY,
        });
        let phases = if phases.is_empty() {
            Vec::new()
        } else {
            let rates = fairmesh_engine::fair_rates(scenario)
                .map_err(|e| LabError::run(scenario.name(), e))?;
            phases.iter().map(|p| (p.from, p.to, fair_between(&rates.changes, p))).collect()
        };
        Ok(Reading {
            ends,
            segment: segment.collect(),
            phases,
            model: None,
            demand: demand.collect(),
            emulated: false,
        })
    }

    /// Replaces the goodputs by a capacity model's rates.
    ///
    /// Optima are taken from `cache` and stored there.
    ///
    /// # Errors
    /// Returns an error if the model rejects the scenario.
    pub fn model(
        &mut self,
        scenario: &Scenario,
        model: Model,
        cache: Option<&Store>,
    ) -> Result<(), LabError> {
        self.model = Some(match model {
            Model::Region => RegionReport::of(scenario, &[], Settings::default())?.max_min_bps,
            Model::Optimum => optimum_of(scenario, SharingUnit::Flow, cache, None, &unobserved)?
                .optimum
                .rates_bps(),
        });
        Ok(())
    }

    /// Returns the names of the flows, in scenario order, each once.
    pub fn flows(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for e in &self.ends {
            if !names.contains(&e.as_str()) {
                names.push(e);
            }
        }
        names
    }

    /// Returns the bytes of a full segment of flow `f`; 0 for UDP.
    pub fn segment(&self, f: usize) -> f64 {
        self.segment[f]
    }

    fn of_ends<'a>(&'a self, ends: &'a str) -> impl Iterator<Item = usize> + 'a {
        (0..self.ends.len()).filter(move |&i| self.ends[i] == ends)
    }

    fn share(&self, run: &RunRecord, ends: &str, phase: Option<usize>) -> Share {
        let mut all = Share { goodput: 0.0, fair: 0.0, hops: 0 };
        for i in self.of_ends(ends) {
            let f = &run.flows[i];
            all.hops = f.hops;
            if let Some(rates) = &self.model {
                all.goodput += rates.get(i).copied().unwrap_or(0.0);
                all.fair += f.fair_bps.unwrap_or(0.0);
                continue;
            }
            match phase.map(|p| &self.phases[p]) {
                None => {
                    all.goodput += f.goodput_bps;
                    all.fair += f.fair_bps.unwrap_or(0.0);
                }
                Some((from, to, fair)) => {
                    all.goodput +=
                        between(&run.series.time_s, &run.series.goodput_bps[i], *from, *to);
                    all.fair += fair[i];
                }
            }
        }
        all
    }

    /// Returns one number per flow of [`flows`](Self::flows), or one for the run.
    ///
    /// `None` if there is nothing to read: a delay without an arrival, a flow that is absent in the
    /// phase, or a run without fair rates.
    pub fn read(&self, kind: Kind, run: &RunRecord, phase: Option<usize>) -> Vec<Option<f64>> {
        let names = self.flows();
        let unfair = run.flows.iter().any(|f| f.fair_bps.is_none());
        if unfair || self.emulated && !kind.is_emulated() {
            return vec![None; if kind.is_per_flow() { names.len() } else { 1 }];
        }
        if kind.is_per_flow() {
            return names.iter().map(|ends| self.flow(kind, run, ends, phase)).collect();
        }
        let shares: Vec<Share> = names
            .iter()
            .map(|ends| self.share(run, ends, phase))
            .filter(|s| s.fair > 0.0)
            .collect();
        let goodput: Vec<f64> = shares.iter().map(|s| s.goodput).collect();
        let fair: Vec<f64> = shares.iter().map(|s| s.fair).collect();
        let hops: Vec<u32> = shares.iter().map(|s| s.hops).collect();
        let value = match kind {
            Kind::Jain => measures::jain(&goodput),
            Kind::JainNormalized => measures::jain_normalized(&goodput, &fair),
            Kind::MinOverFair => measures::min_over_fair(&goodput, &fair),
            Kind::MinOverMean => {
                let mean = goodput.iter().sum::<f64>() / goodput.len().max(1) as f64;
                let least = goodput.iter().copied().fold(f64::INFINITY, f64::min);
                if mean > 0.0 { least / mean } else { 0.0 }
            }
            Kind::PacketsPerFrame => {
                let of = |count: fn(&MacCounters) -> u64| {
                    run.nodes.iter().map(|n| count(&n.mac)).sum::<u64>()
                };
                of(|m| m.mpdus) as f64 / of(|m| m.data).max(1) as f64
            }
            Kind::MaxOverFair => measures::max_over_fair(&goodput, &fair),
            Kind::Utilization => {
                measures::utilization(&goodput, &hops) / measures::utilization(&fair, &hops)
            }
            Kind::OneHop => sum_of(&shares, |s| s.goodput, true) / 1e3,
            Kind::MultiHop => sum_of(&shares, |s| s.goodput, false) / 1e3,
            Kind::ShareError => {
                let error = |near| {
                    let target = TCP_EFFICIENCY * sum_of(&shares, |s| s.fair, near);
                    ((sum_of(&shares, |s| s.goodput, near) - target) / target).abs()
                };
                50.0 * (error(true) + error(false))
            }
            Kind::MarkingThreshold => decisions::threshold(run).unwrap_or(f64::NAN),
            Kind::Reached => self.reached(run, phase).unwrap_or(f64::NAN),
            Kind::SumGoodput => goodput.iter().sum::<f64>() / 1e3,
            Kind::PacketDelay => pooled(run, |f| Some(f.delay_s)).0,
            Kind::PacketDelayDeviation => pooled(run, |f| Some(f.delay_s)).1,
            Kind::AcknowledgedPacketDelay => pooled(run, |f| f.acknowledged_delay_s).0,
            Kind::AcknowledgedPacketDelayDeviation => pooled(run, |f| f.acknowledged_delay_s).1,
            Kind::SignallingBytes if self.model.is_none() => run.totals.signalling.bytes_per_s,
            Kind::SignallingAirtime if self.model.is_none() => {
                1e3 * run.totals.signalling.airtime_share
            }
            _ => f64::NAN,
        };
        vec![value.is_finite().then_some(value)]
    }

    /// Returns [`Kind::OverShare`] of every flow of [`flows`](Self::flows); `share` in kbit/s.
    pub fn over_share(
        &self,
        share: f64,
        run: &RunRecord,
        phase: Option<usize>,
    ) -> Vec<Option<f64>> {
        let names = self.flows();
        let demands: Vec<f64> =
            names.iter().map(|ends| self.of_ends(ends).map(|i| self.demand[i]).sum()).collect();
        let parts = max_min(1e3 * share * names.len() as f64, &demands);
        let of = |(ends, part): (&&str, f64)| Some(self.share(run, ends, phase).goodput / part);
        names.iter().zip(parts).map(of).collect()
    }

    /// Returns [`Kind::Reached`], s from the start of a phase; `None` without a phase.
    fn reached(&self, run: &RunRecord, phase: Option<usize>) -> Option<f64> {
        let (from, to, _) = self.phases[phase?];
        let near: Vec<&Vec<f64>> = (0..run.flows.len())
            .filter(|&f| run.flows[f].hops == 1)
            .map(|f| &run.series.goodput_bps[f])
            .collect();
        let sum = |k: usize| near.iter().map(|curve| curve[k]).sum::<f64>();
        let inside = run.series.time_s.iter().enumerate().filter(|(_, t)| **t > from && **t <= to);
        let curve: Vec<(f64, f64)> = inside.map(|(k, t)| (t - from, sum(k))).collect();
        reached(&curve, (to - from) / 2.0)
    }

    fn flow(&self, kind: Kind, run: &RunRecord, ends: &str, phase: Option<usize>) -> Option<f64> {
        let share = self.share(run, ends, phase);
        let of_model = matches!(kind, Kind::Goodput | Kind::OverFair);
        if phase.is_some() && share.fair == 0.0 || self.model.is_some() && !of_model {
            return None;
        }
        let first = self.of_ends(ends).next()?;
        let f = &run.flows[first];
        let measured = run.duration_s - run.warmup_s;
        let sum =
            |of: &dyn Fn(usize) -> Option<f64>| -> f64 { self.of_ends(ends).filter_map(of).sum() };
        let time = &run.series.time_s;
        let inside = |curves: &[Vec<f64>]| -> Vec<f64> {
            let (from, to) = match phase {
                Some(p) => (self.phases[p].0, self.phases[p].1),
                None => (run.warmup_s, run.duration_s),
            };
            let curve = curves.get(first).map_or(&[][..], Vec::as_slice);
            let inside = time.iter().zip(curve).filter(|(t, _)| **t > from && **t <= to);
            inside.map(|(_, v)| *v).collect()
        };
        let windows = || -> Vec<f64> {
            let bytes = inside(&run.series.cwnd_bytes);
            bytes.iter().map(|b| b / self.segment[first]).collect()
        };
        match kind {
            Kind::Goodput => Some(share.goodput / 1e3),
            Kind::Spread => {
                let rates: Vec<f64> =
                    self.of_ends(ends).map(|i| run.flows[i].goodput_bps / 1e3).collect();
                let mean = rates.iter().sum::<f64>() / rates.len() as f64;
                let squares = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>();
                (rates.len() > 1).then(|| (squares / (rates.len() - 1) as f64).sqrt())
            }
            Kind::OverFair => (share.fair > 0.0).then(|| share.goodput / share.fair),
            Kind::Sent => {
                let payload =
                    if self.segment[first] > 0.0 { self.segment[first] } else { return None };
                Some(
                    sum(&|i| Some(run.flows[i].packets_sent as f64)) * payload * 8.0
                        / run.duration_s
                        / 1e3,
                )
            }
            Kind::DelayDeviation => (f.packets_delivered > 0).then_some(f.delay_s.std * 1e3),
            Kind::Delay => (f.packets_delivered > 0).then_some(f.delay_s.mean * 1e3),
            Kind::AcknowledgedDelay => acknowledged(f).map(|d| d.mean * 1e3),
            Kind::AcknowledgedDelayDeviation => acknowledged(f).map(|d| d.std * 1e3),
            Kind::Window => {
                let w = windows();
                (!w.is_empty()).then(|| w.iter().sum::<f64>() / w.len() as f64)
            }
            Kind::Rate => {
                let rates = inside(&run.series.limit_bps);
                (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64 / 1e3)
            }
            Kind::Settled => settled(time, run.series.limit_bps.get(first)?),
            Kind::Halvings => Some(decisions::halvings(run, &f.name)),
            Kind::Increases => decisions::increases(run, &f.name),
            Kind::LargestWindow => windows().into_iter().reduce(f64::max),
            Kind::Dropped => {
                let of = |count: fn(&FlowRecord) -> u64| {
                    self.of_ends(ends).map(|i| count(&run.flows[i])).sum::<u64>() as f64
                };
                let lost = of(|f| {
                    let d = &f.data_drops;
                    d.queue + d.wire + d.retry_limit + d.limiter
                });
                let all = lost + of(|f| f.packets_delivered);
                (all > 0.0).then(|| 100.0 * lost / all)
            }
            Kind::Completed => {
                let completed = |i: usize| run.flows[i].transfers.map(|t| t.completed as f64);
                Some(sum(&completed) / measured)
            }
            Kind::Activity => {
                let (mut active, mut last) = (0.0, 0.0);
                for (t, goodput) in run.series.time_s.iter().zip(&run.series.goodput_bps[first]) {
                    active += if *goodput > 0.0 { t - last } else { 0.0 };
                    last = *t;
                }
                Some(active)
            }
            Kind::BackwardFrameLoss => {
                let at: &NodeRecord = run.nodes.iter().find(|n| n.name == f.to)?;
                (at.mac.data > 0).then(|| at.mac.timeouts as f64 / at.mac.data as f64)
            }
            _ => None,
        }
    }
}

/// Fraction of a collision-free model's rates that TCP reaches in a two-hop tree.
///
/// It is GAP's own default.
const TCP_EFFICIENCY: f64 = 0.8;

/// Returns the sum over one-hop flows, or over the others.
fn sum_of(shares: &[Share], what: impl Fn(&Share) -> f64, near: bool) -> f64 {
    shares.iter().filter(|s| (s.hops == 1) == near).map(what).sum()
}

/// Returns the acknowledged delay of a flow, if a packet arrived and the delay was measured.
fn acknowledged(f: &FlowRecord) -> Option<DelayRecord> {
    f.acknowledged_delay_s.filter(|_| f.packets_delivered > 0)
}

/// Returns mean and standard deviation of a delay over all delivered packets, in ms.
///
/// They are NaN without a packet, or if the delay of a flow was not measured.
fn pooled(run: &RunRecord, delay: impl Fn(&FlowRecord) -> Option<DelayRecord>) -> (f64, f64) {
    let (mut packets, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for f in &run.flows {
        let Some(d) = delay(f) else { return (f64::NAN, f64::NAN) };
        let of = f.packets_delivered as f64;
        packets += of;
        sum += of * d.mean;
        squares += of * (d.mean * d.mean + d.std * d.std);
    }
    let (mean, square) = (sum / packets, squares / packets);
    (1e3 * mean, 1e3 * (square - mean * mean).max(0.0).sqrt())
}

/// Returns the mean over `from` to `to` (s) of a curve of means since the previous sample.
pub(super) fn between(time: &[f64], curve: &[f64], from: f64, to: f64) -> f64 {
    let (mut sum, mut covered, mut last) = (0.0, 0.0, 0.0);
    for (t, value) in time.iter().zip(curve) {
        let part = (t.min(to) - f64::max(last, from)).max(0.0);
        sum += part * value;
        covered += part;
        last = *t;
    }
    if covered > 0.0 { sum / covered } else { 0.0 }
}

/// Returns the time from which a curve stays near its average over the second half.
///
/// It stays within a tenth.
fn settled(time: &[f64], curve: &[f64]) -> Option<f64> {
    let end = *time.last()?;
    let late = || time.iter().zip(curve).filter(|(t, _)| **t > end / 2.0);
    let last = late().map(|(_, v)| v).sum::<f64>() / late().count() as f64;
    let away = |v: f64| (v - last).abs() > 0.1 * last;
    let at = curve.iter().rposition(|v| away(*v)).map_or(0, |k| k + 1);
    // The first sample after the last deviation; `None` if the last sample deviates.
    time.get(at).filter(|_| at < curve.len()).copied()
}

/// Returns the time at which a curve first comes near its average after `late`.
///
/// The curve has pairs of time and value. Near is within a tenth.
fn reached(curve: &[(f64, f64)], late: f64) -> Option<f64> {
    let rest: Vec<f64> = curve.iter().filter(|(t, _)| *t > late).map(|(_, v)| *v).collect();
    let end = rest.iter().sum::<f64>() / rest.len() as f64;
    curve.iter().find(|(_, v)| (v - end).abs() <= 0.1 * end).map(|(t, _)| *t)
}

/// Returns the fair rates averaged over a phase.
fn fair_between(changes: &[(fairmesh_units::Time, Vec<f64>)], p: &Phase) -> Vec<f64> {
    let flows = changes.first().map_or(0, |c| c.1.len());
    let mut mean = vec![0.0; flows];
    for (k, (from, rates)) in changes.iter().enumerate() {
        let from = from.as_secs_f64().max(p.from);
        let to = changes.get(k + 1).map_or(p.to, |c| c.0.as_secs_f64()).min(p.to);
        let part = (to - from).max(0.0) / (p.to - p.from);
        for (m, r) in mean.iter_mut().zip(rates) {
            *m += part * r;
        }
    }
    mean
}

/// Returns max-min shares of `total` among demands, which may be infinite.
fn max_min(total: f64, demands: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by(|a, b| demands[*a].total_cmp(&demands[*b]));
    let mut parts = vec![0.0; demands.len()];
    let mut left = total;
    for (served, &i) in order.iter().enumerate() {
        parts[i] = demands[i].min(left / (demands.len() - served) as f64);
        left -= parts[i];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::testing::record;

    #[test]
    fn a_curve_reaches_where_it_comes_to_rest() {
        let rise = [(1.0, 0.0), (2.0, 50.0), (3.0, 95.0), (4.0, 80.0), (5.0, 100.0), (6.0, 100.0)];
        assert_eq!(reached(&rise, 4.0), Some(3.0));
        let fall = [(1.0, 900.0), (2.0, 120.0), (3.0, 109.0), (4.0, 100.0), (5.0, 100.0)];
        assert_eq!(reached(&fall, 3.0), Some(3.0));
        assert_eq!(reached(&[], 1.0), None);
    }

    #[test]
    fn curves_are_averaged_over_a_phase() {
        let time = [1.0, 2.0, 3.0, 4.0];
        let curve = [10.0, 20.0, 30.0, 40.0];
        assert_eq!(between(&time, &curve, 0.0, 4.0), 25.0);
        assert_eq!(between(&time, &curve, 1.0, 3.0), 25.0);
        assert_eq!(between(&time, &curve, 1.5, 2.5), 25.0);
        assert_eq!(between(&time, &curve, 9.0, 10.0), 0.0, "nothing was sampled there");
    }

    #[test]
    fn fair_rates_follow_the_flows() {
        let at = |s: u64| fairmesh_units::Time::ZERO + fairmesh_units::Span::from_secs(s);
        let changes = [(at(0), vec![10.0, 0.0]), (at(100), vec![4.0, 8.0])];
        let phase = |from, to| Phase { label: String::new(), from, to };
        assert_eq!(fair_between(&changes, &phase(0.0, 100.0)), [10.0, 0.0]);
        assert_eq!(fair_between(&changes, &phase(50.0, 150.0)), [7.0, 4.0]);
        assert_eq!(fair_between(&changes, &phase(100.0, 300.0)), [4.0, 8.0]);
    }

    fn reading(ends: &[&str]) -> Reading {
        Reading {
            ends: ends.iter().map(|e| (*e).to_owned()).collect(),
            segment: vec![1460.0; ends.len()],
            phases: vec![(1.0, 3.0, vec![2e5; ends.len()])],
            model: None,
            demand: vec![f64::INFINITY; ends.len()],
            emulated: false,
        }
    }

    #[test]
    fn a_limited_flow_leaves_the_rest_of_its_share() {
        // Jamshaid 2010 §8.2.4: 75 kbit/s each, or (4 · 75 − r) / 3.
        let mut r = reading(&["1→0", "2→0", "3→0", "4→0"]);
        let run =
            record("fifo", 1, &[(87e3, 1e5, 1), (87e3, 1e5, 2), (87e3, 1e5, 3), (30e3, 1e5, 4)]);
        r.demand[3] = 30e3;
        let over: Vec<f64> = r.over_share(75.0, &run, None).into_iter().flatten().collect();
        let wanted = [87.0 / 90.0, 87.0 / 90.0, 87.0 / 90.0, 1.0];
        assert!(over.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{over:?}");
        assert_eq!(max_min(300.0, &[80.0; 4]), [75.0; 4]);
        assert_eq!(max_min(300.0, &[f64::INFINITY, 10.0, 80.0]), [210.0, 10.0, 80.0]);
    }

    #[test]
    fn flows_of_the_same_ends_are_one() {
        let run = record("fifo", 1, &[(1e5, 2e5, 1), (5e4, 2e5, 1), (3e5, 2e5, 2)]);
        let r = reading(&["1→0", "1→0", "2→0"]);
        assert_eq!(r.flows(), ["1→0", "2→0"]);
        assert_eq!(r.read(Kind::Goodput, &run, None), [Some(150.0), Some(300.0)]);
        assert_eq!(r.read(Kind::OverFair, &run, None), [Some(0.375), Some(1.5)]);
        assert_eq!(r.read(Kind::SumGoodput, &run, None), [Some(450.0)]);
        assert_eq!(r.read(Kind::OneHop, &run, None), [Some(150.0)]);
        assert_eq!(r.read(Kind::MultiHop, &run, None), [Some(300.0)]);
        // Targets of 320 and 160 kbit/s.
        let error = r.read(Kind::ShareError, &run, None)[0].unwrap();
        assert!((error - 50.0 * (170.0 / 320.0 + 140.0 / 160.0)).abs() < 1e-9, "{error}");
        assert_eq!(r.read(Kind::MaxOverFair, &run, None), [Some(1.5)]);
        assert_eq!(r.read(Kind::Goodput, &run, Some(0)), [Some(150.0), Some(300.0)]);
    }

    #[test]
    fn a_model_has_rates_and_no_other_measure() {
        let run = record("fifo", 1, &[(1e5, 2e5, 1), (5e4, 2e5, 2)]);
        let mut r = reading(&["1→0", "2→0"]);
        r.model = Some(vec![3e5, 4e5]);
        assert_eq!(r.read(Kind::Goodput, &run, None), [Some(300.0), Some(400.0)]);
        assert_eq!(r.read(Kind::SumGoodput, &run, None), [Some(700.0)]);
        assert_eq!(r.read(Kind::Delay, &run, None), [None, None]);
        assert_eq!(r.read(Kind::SignallingBytes, &run, None), [None]);
    }

    #[test]
    fn a_rate_has_settled_when_it_leaves_its_last_value_no_more() {
        let time = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(settled(&time, &[50.0, 100.0, 85.0, 100.0, 100.0, 100.0]), Some(4.0));
        assert_eq!(settled(&time, &[100.0; 6]), Some(1.0));
        assert_eq!(settled(&time, &[1.0, 1.0, 1.0, 1.0, 1.0, 9.0]), None);
        assert_eq!(settled(&time, &[]), None);
    }

    #[test]
    fn windows_are_in_packets_and_delays_need_deliveries() {
        let mut run = record("fifo", 1, &[(1e5, 2e5, 1)]);
        let r = reading(&["1→0"]);
        // Samples at 2, 3 and 4 s are after the warm-up: 2, 4 and 1 segments.
        assert_eq!(r.read(Kind::Window, &run, None), [Some(7.0 / 3.0)]);
        assert_eq!(r.read(Kind::Activity, &run, None), [Some(4.0)]);
        assert_eq!(r.read(Kind::LargestWindow, &run, None), [Some(4.0)]);
        assert_eq!(r.read(Kind::Delay, &run, None), [Some(50.0)]);
        run.flows[0].packets_delivered = 0;
        assert_eq!(r.read(Kind::Delay, &run, None), [None]);
        assert_eq!(r.read(Kind::PacketDelay, &run, None), [None]);
    }

    #[test]
    fn dropped_packets_are_a_part_of_those_that_are_lost_or_delivered() {
        let mut run = record("fifo", 1, &[(1e5, 2e5, 1)]);
        let r = reading(&["1→0"]);
        run.flows[0].packets_delivered = 80;
        (run.flows[0].data_drops.retry_limit, run.flows[0].data_drops.queue) = (15, 5);
        assert_eq!(r.read(Kind::Dropped, &run, None), [Some(20.0)]);
        (run.flows[0].packets_delivered, run.flows[0].data_drops) = (0, Default::default());
        assert_eq!(r.read(Kind::Dropped, &run, None), [None]);
    }

    #[test]
    fn packet_delays_are_weighted_by_delivered_packets() {
        let mut run = record("fifo", 1, &[(1e5, 2e5, 1), (1e5, 2e5, 1)]);
        let r = reading(&["1→0", "2→0"]);
        for (f, (packets, mean)) in run.flows.iter_mut().zip([(300, 0.01), (100, 0.05)]) {
            (f.packets_delivered, f.delay_s.mean, f.delay_s.std) = (packets, mean, 0.0);
        }
        let read = |kind| r.read(kind, &run, None)[0].unwrap();
        assert!((read(Kind::PacketDelay) - 20.0).abs() < 1e-9);
        // 10 ms three times, 50 ms once.
        assert!((read(Kind::PacketDelayDeviation) - 300f64.sqrt()).abs() < 1e-9);
    }
}
