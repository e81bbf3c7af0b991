//! Test in the simulator of the boundary of the achievable rate region on random meshes.
//!
//! The nodes are random, with an interference range equal to their transmission range, and a few
//! flows between random ends. Of the max-min point of the region, 0.95 must be delivered and 1.10
//! must not. The simulator's own boundary between these is found by bisection.

use fairmesh_capacity::region::{Mesh, Region, Settings as RegionSettings};
use fairmesh_engine::CapacityModel;
use fairmesh_scenario::{
    Draft, FlowDraft, FlowsDraft, Profile, QueueDraft, RadioDraft, RandomLayout, RtsDraft,
    Scenario, TopologyDraft, TrafficDraft, TransportDraft,
};
use fairmesh_units::{BitRate, Bytes, Distance, Span, Stream};
use serde::Serialize;

use fairmesh_lab::LabError;
use fairmesh_lab::Pool;
use fairmesh_lab::batch;

/// Size of the experiment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Settings {
    /// Random meshes.
    pub meshes: u32,
    /// Seed of the first one.
    pub first: u32,
    /// With RTS/CTS.
    pub rts: bool,
    /// Simulated time of each run; the first tenth is not measured.
    #[serde(skip)]
    pub duration: Span,
    /// True to find the simulator's own boundary too, for the distance of the model from it.
    pub bisect: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { meshes: 30, first: 1, rts: true, duration: Span::from_secs(100), bisect: true }
    }
}

/// Fraction of its rate that a flow must deliver to count as served.
pub const SERVED_FRACTION: f64 = 0.97;
/// Multiple of the boundary that must be delivered.
pub const INSIDE_MULTIPLE: f64 = 0.95;
/// Multiple of the boundary that must not be delivered.
pub const OUTSIDE_MULTIPLE: f64 = 1.10;

/// One mesh.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Seed of the placement.
    pub mesh: u32,
    /// Nodes.
    pub nodes: usize,
    /// Hops of each flow.
    pub hops: Vec<u32>,
    /// Max-min rates on the model's boundary, bit/s of payload.
    pub rates_bps: Vec<f64>,
    /// Smallest fraction delivered at [`INSIDE_MULTIPLE`] of them.
    pub inside: f64,
    /// Smallest fraction delivered at [`OUTSIDE_MULTIPLE`] of them.
    pub outside: f64,
    /// True if the simulator confirms the boundary.
    pub confirmed: bool,
    /// The simulator's boundary on the ray through these rates, as a multiple of the model's.
    pub simulated: Option<f64>,
}

/// The whole experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// Size of the study.
    pub settings: Settings,
    /// Number of meshes with a confirmed boundary.
    pub confirmed: usize,
    /// Every mesh.
    pub cases: Vec<Case>,
}

/// Runs the experiment.
///
/// # Errors
/// Returns an error if the scenario builder, the model or the engine rejects a scenario.
pub fn run(settings: Settings, pool: &Pool<'_>) -> Result<Study, LabError> {
    let first = settings.first;
    let jobs: Vec<u32> = (0..settings.meshes).map(|i| first.wrapping_add(i)).collect();
    let cases = batch::all(pool, "simulating", &jobs, |&mesh| case(&settings, mesh))?;
    Ok(Study { settings, confirmed: cases.iter().filter(|c| c.confirmed).count(), cases })
}

/// Returns a random mesh of 8 to 15 nodes with two to five flows between random ends.
///
/// # Errors
/// Returns an error if no connected placement is found.
pub fn mesh(settings: &Settings, mesh: u32, rates: &[f64]) -> Result<Scenario, LabError> {
    let mut rng = Stream::new(u64::from(mesh), "study/boundary");
    let mut below = |n: u32| (rng.unit() * f64::from(n)) as u32;
    let nodes = 8 + below(8);
    let count = 2 + below(4);
    let mut flows = Vec::new();
    for i in 0..count {
        let from = below(nodes);
        let to = (from + 1 + below(nodes - 1)) % nodes;
        let rate = rates.get(i as usize).copied().unwrap_or(1e3);
        flows.push(FlowDraft {
            name: Some(format!("f{i}")),
            traffic: Some(TrafficDraft::cbr(BitRate(rate.round() as u64), Bytes(512), 0.5)),
            transport: Some(TransportDraft::Udp),
            ..FlowDraft::new(from as usize, to as usize)
        });
    }
    // About five neighbours each: paths of several hops, and hidden terminals among them.
    let side = (f64::from(nodes) * 250.0 * 250.0 * core::f64::consts::PI / 5.0).sqrt();
    let draft = Draft {
        name: Some(format!("mesh-{mesh}")),
        duration: settings.duration,
        radio: RadioDraft {
            rate: Some(BitRate(11_000_000)),
            rts: if settings.rts { RtsDraft::On } else { RtsDraft::Off },
            profile: Some(Profile::Graph),
            // The region is that of queues without packets dropped by the MAC (Rangwala 2008 §4.3).
            short_retry: Some(255),
            long_retry: Some(255),
            queue: Some(QueueDraft::Packets(200)),
            ..RadioDraft::default()
        },
        topology: TopologyDraft {
            random: Some(RandomLayout {
                nodes,
                width: Distance(side),
                height: None,
                seed: Some(mesh),
                connected: None,
            }),
            ..TopologyDraft::default()
        },
        traffic: FlowsDraft { start_jitter: Some(Span::from_secs(1)), ..FlowsDraft::default() },
        flow: flows,
        ..Draft::default()
    };
    Ok(draft.build()?)
}

fn case(settings: &Settings, number: u32) -> Result<Case, LabError> {
    let scenario = mesh(settings, number, &[])?;
    let model = CapacityModel::new(&scenario);
    let flows: Vec<_> = model
        .on_air(|_| true)
        .into_iter()
        .map(|i| {
            let mut f = model.flow(i);
            f.demand.limit = f64::INFINITY;
            f
        })
        .collect();
    let refused = |problem: String| LabError::run(scenario.name(), problem);
    let mut region = Region::new(&Mesh {
        phy: &scenario.mac().phy,
        access: model.access,
        in_range: &model.senses,
        links: &model.links,
        flows: &flows,
        settings: RegionSettings::default(),
    })
    .map_err(|e| refused(e.to_string()))?;
    let rates = region.max_min().map_err(|e| refused(e.to_string()))?.rates;
    let served = |share: f64| -> Result<f64, LabError> {
        let offered: Vec<f64> = rates.iter().map(|r| r * share).collect();
        let record = batch::once(&mesh(settings, number, &offered)?, 1, None)?;
        let least = record.flows.iter().zip(&offered).map(|(f, o)| f.goodput_bps / o);
        Ok(least.fold(f64::INFINITY, f64::min))
    };
    let (inside, outside) = (served(INSIDE_MULTIPLE)?, served(OUTSIDE_MULTIPLE)?);
    let simulated = if settings.bisect {
        let (mut low, mut high) = (0.5, 2.0);
        while high - low > 0.02 {
            let middle = 0.5 * (low + high);
            if served(middle)? >= SERVED_FRACTION {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    } else {
        None
    };
    Ok(Case {
        mesh: number,
        nodes: scenario.nodes().len(),
        hops: scenario.flows().iter().map(|f| f.wireless_hops).collect(),
        confirmed: inside >= SERVED_FRACTION && outside < SERVED_FRACTION,
        rates_bps: rates,
        inside,
        outside,
        simulated,
    })
}
