//! The achievable rate region between two groups of flows (Rangwala 2008 Fig. 2).
//!
//! It is computed by the model and by the simulator.

use fairmesh_capacity::region::{Mesh, Region, Settings as RegionSettings};
use fairmesh_engine::CapacityModel;
use fairmesh_scenario::{Draft, FlowDraft, QueueDraft, Scenario, TrafficDraft, TransportDraft};
use fairmesh_units::{BitRate, Bytes, Span};

use fairmesh_lab::LabError;
use fairmesh_lab::Pool;
use fairmesh_lab::batch;

/// Fraction of its rate that a flow must deliver to count as served.
pub const SERVED_FRACTION: f64 = 0.95;
/// Accuracy of the simulator's boundary, in bit/s.
const BOUNDARY_TOLERANCE_BPS: f64 = 5e3;
/// Bytes of IP and UDP headers.
const UDP_HEADER_BYTES: u32 = 28;
/// Bytes of an acknowledgement of TCP with its IP header.
const TCP_ACK_BYTES: u32 = 40;
/// Bytes of IP and TCP headers of a segment.
const TCP_HEADER_BYTES: u32 = 40;
/// Payload to which rates refer, in bytes.
const PAYLOAD_BYTES: u32 = 512;

/// One point of the boundary.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Rate of each flow of the first group, bit/s of payload.
    pub first: f64,
    /// Maximum rate of every other flow beside it, by the model.
    pub model: f64,
    /// Maximum rate of every other flow beside it, by the simulator.
    ///
    /// The traffic is CBR in full packets, with CBR of the size of an acknowledgement back for
    /// each, and without packets dropped by the MAC.
    pub simulated: f64,
}

/// Computes the boundary of `draft` at these rates of the flows of the first group.
///
/// `first` selects the flows of that group.
///
/// # Errors
/// Returns an error if the scenario builder, the model or the engine rejects a scenario.
pub fn run(
    draft: &Draft,
    first: &[bool],
    rates: &[f64],
    seed: u64,
    pool: &Pool<'_>,
) -> Result<Vec<Point>, LabError> {
    let scenario = draft.build()?;
    batch::all(pool, "simulating", rates, |&rate| {
        let split =
            |a: f64, b: f64| first.iter().map(|f| if *f { a } else { b }).collect::<Vec<_>>();
        let reach = region(&scenario)?.reach(&split(rate, 0.0), &split(0.0, 1.0));
        let model = reach.map_err(|e| LabError::run(scenario.name(), e))?;
        let (mut low, mut high) = (0.0, 1.5e6);
        while high - low > BOUNDARY_TOLERANCE_BPS {
            let middle = 0.5 * (low + high);
            match served(draft, &split(rate, middle), seed)? {
                true => low = middle,
                false => high = middle,
            }
        }
        Ok(Point { first: rate, model, simulated: low })
    })
}

fn region(scenario: &Scenario) -> Result<Region, LabError> {
    let model = CapacityModel::new(scenario);
    let flows: Vec<_> = model.on_air(|_| true).into_iter().map(|i| model.flow(i)).collect();
    Region::new(&Mesh {
        phy: &scenario.mac().phy,
        access: model.access,
        in_range: &model.senses,
        links: &model.links,
        flows: &flows,
        settings: RegionSettings::default(),
    })
    .map_err(|e| LabError::run(scenario.name(), e))
}

/// Returns true if the simulator delivers these rates.
fn served(draft: &Draft, rates: &[f64], seed: u64) -> Result<bool, LabError> {
    let mut draft = draft.clone();
    draft.radio.short_retry = Some(255);
    draft.radio.long_retry = Some(255);
    draft.radio.queue = Some(QueueDraft::Packets(200));
    draft.traffic.start_jitter = Some(Span::from_secs(1));
    let mut offered = Vec::new();
    let mut flows = Vec::new();
    for (flow, rate) in draft.flow.iter().zip(rates).filter(|(_, rate)| **rate > 0.0) {
        let packets = rate / f64::from(8 * PAYLOAD_BYTES);
        let mut back = flow.clone();
        (back.from, back.to) = (flow.to.clone(), flow.from.clone());
        back.path = flow.path.as_ref().map(|p| p.iter().rev().cloned().collect());
        back.name = None;
        for (one, bytes) in [
            (flow.clone(), PAYLOAD_BYTES + TCP_HEADER_BYTES - UDP_HEADER_BYTES),
            (back, TCP_ACK_BYTES - UDP_HEADER_BYTES),
        ] {
            let rate = packets * f64::from(8 * bytes);
            offered.push(rate);
            flows.push(FlowDraft {
                traffic: Some(TrafficDraft::cbr(
                    BitRate(rate.round() as u64),
                    Bytes(u64::from(bytes)),
                    0.5,
                )),
                transport: Some(TransportDraft::Udp),
                ..one
            });
        }
    }
    draft.flow = flows;
    let record = batch::once(&draft.build()?, seed, None)?;
    Ok(record.flows.iter().zip(&offered).all(|(f, o)| f.goodput_bps >= SERVED_FRACTION * o))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fig. 2 near the max-min point of the Stack, where model and simulator are close.
    #[test]
    fn both_boundaries_of_the_stack_fall_with_the_outer_flows() {
        let path = format!("{}/../../scenarios/stack.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let mut draft = fairmesh_scenario::draft_from_toml(&path, &text).unwrap();
        (draft.duration, draft.warmup) = (Span::from_secs(20), Some(Span::from_secs(2)));
        let pool = Pool { threads: std::num::NonZero::new(1), ..Pool::default() };
        let points = run(&draft, &[true, false, true], &[2e5, 4e5], 1, &pool).unwrap();
        for p in &points {
            assert!((0.7..1.3).contains(&(p.simulated / p.model)), "{p:?}");
        }
        assert!(points[1].model < 0.7 * points[0].model, "{points:?}");
        assert!(points[1].simulated < 0.7 * points[0].simulated, "{points:?}");
    }
}
