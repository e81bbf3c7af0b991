//! The achievable rate region of a scenario (Rangwala 2008 §3.2), in numbers.

use fairmesh_capacity::fair::FlowSpec;
use fairmesh_capacity::link::Access;
use fairmesh_capacity::region::{Mesh, NoState, Region, Retries, Settings};
use fairmesh_engine::CapacityModel;
use fairmesh_scenario::Scenario;
use serde::Serialize;

use super::AnalysisError;
use crate::layout::{GENERATOR, SCHEMA};
use crate::summary::flow_label;
use crate::{LabError, SettingProblem};

/// Number of steps of the section.
const SECTION_STEPS: usize = 24;
/// Busy share of a link's sender above which the link counts as congested.
///
/// §4.1 marks links with nearly fully used queues.
const CONGESTED_BUSY_SHARE: f64 = 0.9;

/// Results of the model. Rates in bit/s of application data.
#[derive(Clone, Debug, Serialize)]
pub struct RegionReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Scenario name.
    pub scenario: String,
    /// True with RTS/CTS.
    pub rts: bool,
    /// The utilisation factor U.
    pub utilization: f64,
    /// True if frames are retried until they arrive, as in the paper's region.
    pub unlimited_retries: bool,
    /// The MAC's constants used, in µs and slots.
    pub mac: MacConstants,
    /// Flows as people read them, in the order of the rates.
    pub flows: Vec<String>,
    /// Names of the flows in the scenario.
    #[serde(skip)]
    pub names: Vec<String>,
    /// The max-min fair point.
    pub max_min_bps: Vec<f64>,
    /// The proportionally fair point.
    pub proportional_bps: Vec<f64>,
    /// The links at the max-min point.
    pub links: Vec<LinkReport>,
    /// The boundary between two groups of flows.
    /// Each point is the rate of each flow of the first and of the second.
    pub section_bps: Vec<(f64, f64)>,
    /// The flows of the first group; all others are in the second.
    pub first_group: Vec<usize>,
    /// [`GENERATOR`].
    pub generator: &'static str,
}

/// Components of the service times.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MacConstants {
    /// Slot, SIFS, DIFS.
    pub slot_us: f64,
    /// Short interframe space.
    pub sifs_us: f64,
    /// DCF interframe space.
    pub difs_us: f64,
    /// RTS, CTS and ACK at the control rate of the scenario's data rate.
    pub rts_us: f64,
    /// CTS.
    pub cts_us: f64,
    /// ACK.
    pub ack_us: f64,
    /// Smallest and largest contention window.
    pub cw: (u32, u32),
}

/// A link in use, at the max-min point.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Frames that arrive at its queue, in 1/s.
    pub arrivals: f64,
    /// Probability that an attempt gets no CTS, or collides.
    pub refused: f64,
    /// Attempts per frame.
    pub attempts: f64,
    /// Expected service time, in s.
    pub service_s: f64,
    /// Σ λ E\[S\] of its sender's queue.
    pub utilization: f64,
    /// True if that queue limits a flow.
    pub congested: bool,
}

impl RegionReport {
    /// Computes the report. `first` names the first group of flows.
    /// Without names, the flow that crosses the most congested queue is compared with all others.
    ///
    /// # Errors
    /// Returns an error if the model rejects the scenario, or a name is not a flow.
    pub fn of(scenario: &Scenario, first: &[String], settings: Settings) -> Result<Self, LabError> {
        super::one_phy(scenario)?;
        super::best_effort(scenario)?;
        let model = CapacityModel::new(scenario);
        let on_air = super::on_air(&model)?;
        let refused = |e: AnalysisError| LabError::refused(scenario.name(), e);
        let specs: Vec<FlowSpec<'_>> = on_air.iter().map(|&i| model.flow(i)).collect();
        let name = |n: fairmesh_units::NodeId| scenario.nodes()[n.index()].name.clone();
        let label = |&i: &usize| {
            let f = &scenario.flows()[i];
            flow_label(&f.name, &name(f.from), &name(f.to))
        };
        let flows: Vec<String> = on_air.iter().map(label).collect();
        let own: Vec<String> = on_air.iter().map(|&i| scenario.flows()[i].name.clone()).collect();
        let mut group = Vec::new();
        for wanted in first {
            let is = |&(k, &i): &(usize, &usize)| {
                scenario.flows()[i].name == *wanted || flows[k] == *wanted
            };
            let at = on_air.iter().enumerate().find(is).map(|(k, _)| k).ok_or_else(|| {
                let (flow, known) = (wanted.clone(), names(&flows));
                LabError::wrong("group", SettingProblem::UnknownFlow { flow, known })
            })?;
            group.push(at);
        }
        let mut region = Region::new(&Mesh {
            phy: &scenario.mac().phy,
            access: model.access,
            in_range: &model.senses,
            links: &model.links,
            flows: &specs,
            settings,
        })
        .map_err(|e| refused(e.into()))?;
        // An unknown state is not a boundary.
        let unknown = |e: NoState| refused(e.into());
        let max_min = region.max_min().map_err(unknown)?.rates;
        let proportional = region.proportional().map_err(unknown)?.rates;
        // Slightly inside, where the fixed point certainly exists.
        let inside: Vec<f64> = max_min.iter().map(|r| r * 0.999).collect();
        let state = region.state(&inside).map_err(unknown)?;
        let busy = |n| state.nodes.iter().find(|v| v.node == n).map_or(0.0, |v| v.utilisation);
        let links: Vec<LinkReport> = region
            .hops()
            .zip(&state.links)
            .map(|(h, l)| LinkReport {
                from: name(h.from),
                to: name(h.to),
                arrivals: l.arrivals,
                refused: l.refused,
                attempts: l.attempts,
                service_s: l.service,
                utilization: busy(h.from),
                congested: busy(h.from) >= CONGESTED_BUSY_SHARE * settings.utilisation,
            })
            .collect();
        if group.is_empty() {
            let crosses = |k: usize| {
                let path = specs[k].path;
                path.iter().map(|&n| busy(n)).fold(0.0, f64::max)
            };
            let worst = (0..flows.len()).max_by(|&a, &b| crosses(a).total_cmp(&crosses(b)));
            group.extend(worst);
        }
        let others: Vec<usize> = (0..flows.len()).filter(|k| !group.contains(k)).collect();
        let section_bps = if others.is_empty() {
            Vec::new()
        } else {
            region.section(&others, &group, SECTION_STEPS).map_err(unknown)?.points
        };
        let t = scenario.mac().phy.timing();
        let r = scenario.mac().phy.response(scenario.mac().rate);
        let us = |s: fairmesh_units::Span| s.as_secs_f64() * 1e6;
        Ok(RegionReport {
            schema: SCHEMA,
            scenario: scenario.name().to_owned(),
            rts: model.access == Access::RtsCts,
            utilization: settings.utilisation,
            unlimited_retries: settings.retries == Retries::Unlimited,
            mac: MacConstants {
                slot_us: us(t.slot),
                sifs_us: us(t.sifs),
                difs_us: us(t.difs),
                rts_us: us(r.rts),
                cts_us: us(r.cts),
                ack_us: us(r.ack),
                cw: (t.cw_min, t.cw_max),
            },
            flows,
            names: own,
            max_min_bps: max_min,
            proportional_bps: proportional,
            links,
            section_bps,
            first_group: others,
            generator: GENERATOR,
        })
    }

    /// Returns the two groups in words: the one on the horizontal axis, then the other.
    pub fn groups(&self) -> (String, String) {
        let pick = |first: bool| {
            let in_first = |(k, f): (usize, &String)| {
                (self.first_group.contains(&k) == first).then(|| f.clone())
            };
            names(&self.flows.iter().enumerate().filter_map(in_first).collect::<Vec<_>>())
        };
        (pick(true), pick(false))
    }
}

fn names(flows: &[String]) -> String {
    flows.join(", ")
}
