//! Accuracy of capacity models: Jamshaid 2010 §4.1.4 and Table 4.1.
//!
//! A model predicts the rate at which fairness ends. In random meshes all streams go to one
//! gateway, each from a UDP source limited to the same rate. The rate is raised in steps. The
//! *fair-share point* is the step at which more than a third of the streams constrained by the
//! model's first bottleneck deliver less than 95 % of their input, at this step and the next three.
//! The error of a model is (computed − point) / point.

use fairmesh_capacity::analysis::{Network, Sharing};
use fairmesh_capacity::clique::Budget;
use fairmesh_capacity::fair::FlowSpec;
use fairmesh_capacity::link::Access;
use fairmesh_capacity::maxmin::Demand;
use fairmesh_engine::CapacityModel;
use fairmesh_scenario::{
    Direction, Draft, FlowsDraft, LlcDraft, RadioDraft, RandomLayout, ReceptionDraft, RtsDraft,
    Scenario, TopologyDraft, TrafficDraft, TransportDraft,
};
use fairmesh_units::{BitRate, Bytes, Distance, Span, Stream};
use serde::Serialize;

use fairmesh_lab::batch;
use fairmesh_lab::{Estimate, LabError, Pool};

/// Size of the experiment; [`Settings::default`] has the thesis's.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Settings {
    /// Random topologies.
    pub topologies: u32,
    /// Runs per topology and rate, with different seeds.
    pub seeds: u32,
    /// Simulated time of each run; the first tenth is not measured.
    #[serde(skip)]
    pub duration: Span,
    /// Distance between input rates, as a share of the computed fair rate.
    pub step: f64,
    /// Direction to or from the gateway; the thesis writes "exchange" and does not specify it.
    pub direction: Direction,
    /// Model of the reception of overlapping frames.
    ///
    /// In ns-2 a receiver that is locked on a frame too weak to decode loses the frame that is
    /// addressed to it; `sinr` ignores such frames.
    pub reception: ReceptionDraft,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            topologies: 50,
            seeds: 5,
            duration: Span::from_secs(200),
            step: 0.05,
            direction: Direction::Up,
            reception: ReceptionDraft::Ns2,
        }
    }
}

/// Range of the sweep, as fractions of the computed rate (§4.1.4).
const SWEEP_RANGE: (f64, f64) = (0.5, 1.5);
/// Extended range for a sweep without a fair-share point.
const EXTENDED_SWEEP_RANGE: (f64, f64) = (0.1, 4.0);
/// Fraction of its input below which a stream has lost.
const DELIVERED_FRACTION: f64 = 0.95;
/// Number of successive rates at which a stream must lose.
const SUCCESSIVE_LOSSES: usize = 4;

/// Predictions of one model for one topology, and the simulator's results.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The smallest max-min rate: the first fair-share point as computed, bit/s of payload.
    pub computed_bps: f64,
    /// Streams that its bottleneck constrains.
    pub constrained: usize,
    /// The fair-share point of these streams as simulated.
    ///
    /// `None` if it is outside of the sweep.
    pub measured_bps: Option<f64>,
    /// (computed − measured) / measured.
    pub error: Option<f64>,
}

/// One topology with or without RTS.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Seed of the placement.
    pub topology: u32,
    /// Streams; the mesh has one node more, the gateway.
    pub streams: usize,
    /// With RTS/CTS.
    pub rts: bool,
    /// Collision domains over transmission ranges ("Rcd").
    pub domains: Prediction,
    /// Cliques over interference ranges ("Ocl"); `None` if they were too many.
    pub cliques: Option<Prediction>,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `domains` or `cliques`.
    pub model: &'static str,
    /// With RTS/CTS.
    pub rts: bool,
    /// Topologies with a fair-share point.
    pub cases: usize,
    /// Mean of the errors.
    pub mean: f64,
    /// Half-width of its 95 % interval over the topologies.
    pub ci95: Option<f64>,
    /// Standard deviation of the errors, of a sample.
    pub std: f64,
}

/// The whole experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// Size of the study.
    pub settings: Settings,
    /// Table 4.1.
    pub rows: Vec<Row>,
    /// Every topology, with and without RTS.
    pub cases: Vec<Case>,
}

/// Runs the experiment.
///
/// # Errors
/// Returns an error if the scenario builder, a model or the engine rejects a scenario.
pub fn run(settings: Settings, pool: &Pool<'_>) -> Result<Study, LabError> {
    let jobs: Vec<(u32, bool)> =
        (1..=settings.topologies).flat_map(|t| [(t, false), (t, true)]).collect();
    let cases =
        batch::all(pool, "simulating", &jobs, |&(topology, rts)| case(&settings, topology, rts))?;
    let row = |model, rts| {
        let prediction = |c: &Case| match model {
            "domains" => c.domains.error,
            _ => c.cliques.as_ref().and_then(|p| p.error),
        };
        let errors: Vec<f64> =
            cases.iter().filter(|c| c.rts == rts).filter_map(prediction).collect();
        let (mean, std) = mean_and_deviation(&errors);
        Row { model, rts, cases: errors.len(), mean, ci95: Estimate::of(&errors).ci95, std }
    };
    let rows = [false, true].map(|rts| ["cliques", "domains"].map(|model| row(model, rts)));
    Ok(Study { settings, rows: rows.into_iter().flatten().collect(), cases })
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// Returns a random mesh of §4.1.4 with every stream limited to `rate`.
///
/// It has 25 to 40 streams over 1000 m × 1000 m, ranges of 250 m and 550 m, and 1500-byte datagrams
/// at 1 Mbit/s (§3.1.2).
///
/// # Errors
/// Returns an error if no connected placement is found.
pub fn mesh(
    settings: &Settings,
    topology: u32,
    rts: bool,
    rate: BitRate,
) -> Result<Scenario, LabError> {
    let mut rng = Stream::new(u64::from(topology), "study/accuracy");
    let streams = 25 + (rng.unit() * 16.0) as u32;
    let draft = Draft {
        name: Some(format!("random-{topology}")),
        duration: settings.duration,
        radio: RadioDraft {
            reception: settings.reception,
            rate: Some(BitRate(1_000_000)),
            rts: if rts { RtsDraft::On } else { RtsDraft::Off },
            llc: LlcDraft(Bytes(0)),
            ..RadioDraft::default()
        },
        topology: TopologyDraft {
            random: Some(RandomLayout {
                nodes: streams + 1,
                width: Distance(1000.0),
                height: None,
                seed: Some(topology),
                connected: None,
            }),
            gateway: Some("0".to_owned().into()),
            ..TopologyDraft::default()
        },
        traffic: FlowsDraft {
            flows: Some(settings.direction),
            traffic: Some(TrafficDraft::cbr(rate, Bytes(1472), 0.5)),
            transport: Some(TransportDraft::Udp),
            start_jitter: Some(Span::from_secs(1)),
            ..FlowsDraft::default()
        },
        ..Draft::default()
    };
    Ok(draft.build()?)
}

fn case(settings: &Settings, topology: u32, rts: bool) -> Result<Case, LabError> {
    // The rate is not known yet; any rate is suitable, because the models assume unlimited sources.
    let scenario = mesh(settings, topology, rts, BitRate(1000))?;
    let (domains, cliques) = first_bottlenecks(&scenario)?;
    let mut sweep = Sweep {
        settings,
        topology,
        rts,
        unit: domains.0 * settings.step,
        first: (SWEEP_RANGE.0 / settings.step).round() as usize,
        delivered: Vec::new(),
    };
    sweep.up_to((SWEEP_RANGE.1 / settings.step).round() as usize)?;
    let streams = scenario.flows().len();
    let mut predict = |(computed_bps, constrained): (f64, Vec<usize>)| {
        let measured_bps = sweep.fair_share_point(&constrained)?;
        let error = measured_bps.map(|m| (computed_bps - m) / m);
        let constrained = constrained.len();
        Ok::<_, LabError>(Prediction { computed_bps, constrained, measured_bps, error })
    };
    let domains = predict(domains)?;
    let cliques = cliques.map(predict).transpose()?;
    Ok(Case { topology, streams, rts, domains, cliques })
}

/// The lowest max-min rate and the flows that have it.
type Bottleneck = (f64, Vec<usize>);

/// Returns the first bottlenecks of two models.
///
/// They are the collision-domain model over transmission ranges and the clique model over
/// interference ranges, which may be too large.
fn first_bottlenecks(scenario: &Scenario) -> Result<(Bottleneck, Option<Bottleneck>), LabError> {
    let model = CapacityModel::new(scenario);
    let all = model.on_air(|_| true);
    let unlimited = Demand { weight: 1.0, limit: f64::INFINITY };
    let flows: Vec<FlowSpec<'_>> =
        all.iter().map(|&i| FlowSpec { demand: unlimited, ..model.flow(i) }).collect();
    let analyse = |in_range, access: Access, cliques: usize| {
        let network = Network {
            phy: &scenario.mac().phy,
            access,
            in_range,
            links: &model.links,
            flows: &flows,
            sharing: Sharing::Links,
            minimum: &[],
            budget: Budget { cliques, ..Budget::default() },
        };
        let refused = |e: fairmesh_capacity::fair::FairError| LabError::run(scenario.name(), e);
        network.analyse().map_err(refused)
    };
    let lowest = |rates: &[f64]| {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let constrained = (0..rates.len()).filter(|&i| rates[i] <= least * (1.0 + 1e-9)).collect();
        (least, constrained)
    };
    let realistic = analyse(&model.decodes, model.access, 0)?;
    let omniscient = analyse(&model.senses, model.access, Budget::default().cliques)?;
    let by_domains = lowest(&realistic.collision.max_min.rates);
    let by_cliques = omniscient.cliques.ok().map(|m| lowest(&m.max_min.rates));
    Ok((by_domains, by_cliques))
}

/// Delivered shares at successive input rates.
struct Sweep<'a> {
    settings: &'a Settings,
    topology: u32,
    rts: bool,
    /// Distance between rates, in bit/s.
    unit: f64,
    /// The first rate, in units.
    first: usize,
    /// By rate, then by flow: mean over the seeds of goodput over input.
    delivered: Vec<Vec<f64>>,
}

impl Sweep<'_> {
    fn up_to(&mut self, last: usize) -> Result<(), LabError> {
        while self.first + self.delivered.len() <= last {
            self.delivered.push(self.at(self.first + self.delivered.len())?);
        }
        Ok(())
    }

    fn down_to(&mut self, first: usize) -> Result<(), LabError> {
        while self.first > first.max(1) {
            self.delivered.insert(0, self.at(self.first - 1)?);
            self.first -= 1;
        }
        Ok(())
    }

    fn at(&self, units: usize) -> Result<Vec<f64>, LabError> {
        let rate = BitRate((units as f64 * self.unit).round() as u64);
        let scenario = mesh(self.settings, self.topology, self.rts, rate)?;
        let mut shares = vec![0.0; scenario.flows().len()];
        for seed in 1..=self.settings.seeds {
            let record = batch::once(&scenario, u64::from(seed), None)?;
            for (share, flow) in shares.iter_mut().zip(&record.flows) {
                *share += flow.goodput_bps / (rate.0 as f64 * f64::from(self.settings.seeds));
            }
        }
        Ok(shares)
    }

    /// Returns the fair-share point of these flows, and extends the sweep as far as necessary.
    fn fair_share_point(&mut self, constrained: &[usize]) -> Result<Option<f64>, LabError> {
        let most = (EXTENDED_SWEEP_RANGE.1 / self.settings.step).round() as usize;
        let least = (EXTENDED_SWEEP_RANGE.0 / self.settings.step).round() as usize;
        loop {
            let end = self.first + self.delivered.len() - 1;
            match loss_point(&self.delivered, constrained) {
                // Lost from the first rate on: the loss begins at a lower rate.
                Some(0) if self.first > least => self.down_to(self.first.saturating_sub(4))?,
                Some(0) => return Ok(None),
                Some(i) => return Ok(Some((self.first + i) as f64 * self.unit)),
                None if end < most => self.up_to(end + 4)?,
                None => return Ok(None),
            }
        }
    }
}

/// Returns the index of the first rate at which more than a third of `flows` lose (§4.1.4).
fn loss_point(delivered: &[Vec<f64>], flows: &[usize]) -> Option<usize> {
    let mut losses: Vec<usize> = flows
        .iter()
        .filter_map(|&f| {
            delivered
                .windows(SUCCESSIVE_LOSSES)
                .position(|w| w.iter().all(|at| at[f] < DELIVERED_FRACTION))
        })
        .collect();
    losses.sort_unstable();
    // More than n/3: the (⌊n/3⌋ + 1)-th stream to lose.
    losses.get(flows.len() / 3).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_counts_when_it_lasts_and_is_shared() {
        // Three flows over ten rates: one dips once, one loses permanently at 2, one at 5.
        let at = |i: usize| {
            vec![
                if i == 1 { 0.5 } else { 1.0 },
                if i >= 2 { 0.9 } else { 1.0 },
                if i >= 5 { 0.94 } else { 0.96 },
            ]
        };
        let delivered: Vec<Vec<f64>> = (0..10).map(at).collect();
        assert_eq!(
            loss_point(&delivered, &[0, 1, 2]),
            Some(5),
            "one of three is not more than 1/3"
        );
        assert_eq!(loss_point(&delivered, &[1, 2]), Some(2));
        assert_eq!(loss_point(&delivered, &[0]), None);
        assert_eq!(loss_point(&delivered[..8], &[2]), None, "three rates are not four");
    }

    #[test]
    fn meshes_are_those_of_the_thesis() {
        for topology in 1..=20 {
            let s = mesh(&Settings::default(), topology, false, BitRate(10_000)).unwrap();
            assert!((25..=40).contains(&s.flows().len()), "{}", s.flows().len());
            assert_eq!(s.nodes().len(), s.flows().len() + 1);
        }
    }

    /// On one small topology the collision-domain model is in the right region.
    #[test]
    fn one_topology() {
        let settings = Settings {
            topologies: 1,
            seeds: 1,
            duration: Span::from_secs(60),
            step: 0.1,
            ..Settings::default()
        };
        let study = run(settings, &Pool::default()).unwrap();
        assert_eq!(study.cases.len(), 2);
        let error = study.cases[0].domains.error.unwrap();
        assert!(error.abs() < 0.5, "{error}");
    }
}
