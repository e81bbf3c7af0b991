//! The achievable rate region of a scenario (Rangwala 2008 §3.2), as `--model region` prints it.

use std::fmt::Write as _;

use fairmesh_capacity::fair::FlowSpec;
use fairmesh_capacity::link::Access;
use fairmesh_capacity::region::{Mesh, Region, Retries, Settings};
use fairmesh_engine::CapacityModel;
use fairmesh_scenario::Scenario;
use serde::Serialize;

use super::text::kbps;
use crate::error::CliError;
use crate::output::json::{GENERATOR, SCHEMA};
use crate::output::table::{flow_label, row, table};
use crate::report::html::escape;

/// Steps of the drawn section.
const STEPS: usize = 24;
/// A link whose sender is busy for at least this share of the time is congested (§4.1 marks those
/// whose queues are nearly fully used).
const CONGESTED: f64 = 0.9;

/// What `--model region --json` prints. Rates in bit/s of application data.
#[derive(Clone, Debug, Serialize)]
pub struct RegionReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Scenario name.
    pub scenario: String,
    /// With RTS/CTS.
    pub rts: bool,
    /// The utilisation factor U.
    pub utilization: f64,
    /// Whether frames are retried until they arrive, as the paper's region has it.
    pub unlimited_retries: bool,
    /// The MAC's constants behind all this, in µs and slots.
    pub mac: MacConstants,
    /// Flows by name, in the order of the rates.
    pub flows: Vec<String>,
    /// The max-min fair point.
    pub max_min_bps: Vec<f64>,
    /// The proportionally fair point.
    pub proportional_bps: Vec<f64>,
    /// The links at the max-min point.
    pub links: Vec<LinkReport>,
    /// The boundary between two groups of flows; each point the rate of each flow of the first and
    /// of the second.
    pub section_bps: Vec<(f64, f64)>,
    /// The flows of the first group; all others are the second.
    pub first_group: Vec<usize>,
    /// [`GENERATOR`].
    pub generator: &'static str,
}

/// What the service times are made of.
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
    /// Frames that arrive at its queue, 1/s.
    pub arrivals: f64,
    /// Probability that an attempt gets no CTS, or collides.
    pub refused: f64,
    /// Attempts per frame.
    pub attempts: f64,
    /// Expected service time, s.
    pub service_s: f64,
    /// Σ λ E\[S\] of its sender's queue.
    pub utilization: f64,
    /// Whether that is what bounds somebody.
    pub congested: bool,
}

impl RegionReport {
    /// Computes it. `first` are the names of the first group of flows; without any, the flow that
    /// crosses the most congested queue stands against all others.
    ///
    /// # Errors
    /// A scenario that the model refuses, or a name that is no flow.
    pub fn of(scenario: &Scenario, first: &[String], settings: Settings) -> Result<Self, CliError> {
        let model = CapacityModel::new(scenario);
        let on_air = super::on_air(&model)?;
        let refused = |problem: String| CliError::Run { scenario: scenario.name.clone(), problem };
        let specs: Vec<FlowSpec<'_>> = on_air.iter().map(|&i| model.flow(i)).collect();
        let name = |n: fairmesh_units::NodeId| scenario.nodes[n.index()].name.clone();
        let label = |&i: &usize| {
            let f = &scenario.flows[i];
            flow_label(&f.name, &name(f.from), &name(f.to))
        };
        let flows: Vec<String> = on_air.iter().map(label).collect();
        let mut group = Vec::new();
        for wanted in first {
            let is = |&(k, &i): &(usize, &usize)| {
                scenario.flows[i].name == *wanted || flows[k] == *wanted
            };
            let at = on_air.iter().enumerate().find(is).map(|(k, _)| k).ok_or_else(|| {
                let problem =
                    format!("there is no flow \"{wanted}\"; expected one of {}", names(&flows));
                CliError::option("--group", problem)
            })?;
            group.push(at);
        }
        let mut region = Region::new(&Mesh {
            phy: &scenario.mac.phy,
            access: model.access,
            hears: &model.senses,
            links: &model.links,
            flows: &specs,
            settings,
        })
        .map_err(|e| refused(e.to_string()))?;
        let max_min = region.max_min().rates;
        let proportional = region.proportional().rates;
        // A touch inside, where the fixed point surely is.
        let inside: Vec<f64> = max_min.iter().map(|r| r * 0.999).collect();
        let state =
            region.state(&inside).ok_or_else(|| refused("the boundary is not stable".into()))?;
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
                congested: busy(h.from) >= CONGESTED * settings.utilisation,
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
            region.section(&others, &group, STEPS).points
        };
        let t = scenario.mac.phy.timing();
        let r = scenario.mac.phy.response(scenario.mac.rate);
        let us = |s: fairmesh_units::Span| s.as_secs_f64() * 1e6;
        Ok(RegionReport {
            schema: SCHEMA,
            scenario: scenario.name.clone(),
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
            max_min_bps: max_min,
            proportional_bps: proportional,
            links,
            section_bps,
            first_group: others,
            generator: GENERATOR,
        })
    }

    /// The two groups in words: the one on the horizontal axis, then the other.
    pub fn groups(&self) -> (String, String) {
        let pick = |first: bool| {
            let in_first = |(k, f): (usize, &String)| {
                (self.first_group.contains(&k) == first).then(|| f.clone())
            };
            names(&self.flows.iter().enumerate().filter_map(in_first).collect::<Vec<_>>())
        };
        (pick(true), pick(false))
    }

    /// The tables.
    pub fn text(&self) -> String {
        let m = &self.mac;
        let mut out = format!(
            "{}: achievable rate region {} RTS/CTS, kbit/s of application data, U = {}, {}\n\
             slot {} µs, SIFS {}, DIFS {}, RTS {:.0}, CTS {:.0}, ACK {:.0}, CW {} to {}\n\n",
            self.scenario,
            if self.rts { "with" } else { "without" },
            self.utilization,
            if self.unlimited_retries {
                "retries without limit"
            } else {
                "retries as the MAC limits them"
            },
            m.slot_us,
            m.sifs_us,
            m.difs_us,
            m.rts_us,
            m.cts_us,
            m.ack_us,
            m.cw.0,
            m.cw.1,
        );
        let mut t = table(&["flow", "max-min", "proportional"]);
        for (k, f) in self.flows.iter().enumerate() {
            let cells = [self.max_min_bps[k], self.proportional_bps[k]].map(kbps);
            row(&mut t, [f.clone()].into_iter().chain(cells));
        }
        let _ = write!(out, "{t}\n\nLinks at the max-min point\n");
        let mut t =
            table(&["link", "frames/s", "refused", "attempts", "service ms", "queue busy", ""]);
        for l in &self.links {
            row(
                &mut t,
                [
                    format!("{} → {}", l.from, l.to),
                    format!("{:.1}", l.arrivals),
                    format!("{:.2}", l.refused),
                    format!("{:.2}", l.attempts),
                    format!("{:.2}", l.service_s * 1e3),
                    format!("{:.2}", l.utilization),
                    if l.congested { "congested" } else { "" }.to_owned(),
                ],
            );
        }
        let _ = writeln!(out, "{t}");
        if !self.section_bps.is_empty() {
            let (x, y) = self.groups();
            let _ = writeln!(out, "\nBoundary: rate of each of {x} against rate of each of {y}");
            let mut t = table(&["", "", ""]);
            t.set_header(["", x.as_str(), y.as_str()]);
            for (a, b) in &self.section_bps {
                row(&mut t, [String::new(), kbps(*a), kbps(*b)]);
            }
            let _ = writeln!(out, "{t}");
        }
        out
    }

    /// The boundary as SVG.
    pub fn svg(&self) -> String {
        const W: f64 = 460.0;
        const H: f64 = 380.0;
        const LEFT: f64 = 60.0;
        const LOW: f64 = 330.0;
        let largest =
            |pick: fn(&(f64, f64)) -> f64| self.section_bps.iter().map(pick).fold(1.0, f64::max);
        let (top_x, top_y) = (nice(largest(|p| p.0)), nice(largest(|p| p.1)));
        let x = |v: f64| LEFT + v / top_x * (W - LEFT - 20.0);
        let y = |v: f64| LOW - v / top_y * (LOW - 20.0);
        let (name_x, name_y) = self.groups();
        let mut out = format!(
            "<svg viewBox=\"0 0 {W} {H}\" role=\"img\" aria-label=\"Achievable rate region\">\
             <path class=\"axis-line\" d=\"M{LEFT} 20V{LOW}H{:.0}\"/>",
            W - 20.0
        );
        for k in 0..=4 {
            let (a, b) = (top_x * f64::from(k) / 4.0, top_y * f64::from(k) / 4.0);
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\">{:.0}</text><text x=\"{:.1}\" y=\"{:.1}\">{:.0}</text>",
                x(a),
                LOW + 16.0,
                a / 1e3,
                LEFT - 22.0,
                y(b) + 4.0,
                b / 1e3
            );
        }
        let mut path = String::new();
        for (k, (a, b)) in self.section_bps.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if k == 0 { "M" } else { "L" }, x(*a), y(*b));
        }
        let _ = write!(
            out,
            "<path class=\"region\" d=\"{path}L{:.1} {:.1}Z\"/><path class=\"boundary\" d=\"{path}\"/>",
            x(0.0),
            y(0.0)
        );
        let of = |rates: &[f64]| {
            let least = |first: bool| {
                let mine = (0..rates.len()).filter(|k| self.first_group.contains(k) == first);
                mine.map(|k| rates[k]).fold(f64::INFINITY, f64::min)
            };
            (least(true), least(false))
        };
        for (rates, class, name) in
            [(&self.max_min_bps, "c1", "max-min"), (&self.proportional_bps, "c2", "proportional")]
        {
            let (a, b) = of(rates);
            let _ = write!(
                out,
                "<circle class=\"node {class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{name}: {:.0}, {:.0} \
                 kbit/s</title></circle>",
                x(a),
                y(b),
                a / 1e3,
                b / 1e3
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.0}\" y=\"{:.0}\">each of {}, kbit/s</text>\
             <text transform=\"translate(14 {:.0}) rotate(-90)\">each of {}, kbit/s</text></svg>",
            0.5 * (LEFT + W),
            LOW + 38.0,
            escape(&name_x),
            0.5 * LOW,
            escape(&name_y)
        );
        out
    }

    /// The page of `--html`.
    pub fn page(&self, command: &str) -> String {
        let section = format!(
            "<section><h2>Achievable rate region</h2><figure style=\"max-width:640px\">{}</figure>\
             <p class=\"note\">Inside the line the DCF carries both; orange: max-min, green: proportional.</p>\
             </section><section><h2>Numbers</h2><pre>{}</pre></section>",
            if self.section_bps.is_empty() { String::new() } else { self.svg() },
            escape(&self.text())
        );
        let subtitle = format!("{} flows", self.flows.len());
        super::page::frame(&self.scenario, &subtitle, &section, command)
    }
}

fn names(flows: &[String]) -> String {
    flows.join(", ")
}

/// The next round number: 1, 2 or 5 times a power of ten.
fn nice(top: f64) -> f64 {
    let magnitude = 10f64.powf(top.log10().floor());
    let step = [1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0].into_iter().find(|m| m * magnitude >= top);
    step.unwrap_or(10.0) * magnitude
}
