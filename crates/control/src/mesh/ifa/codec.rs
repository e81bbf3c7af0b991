//! The 50 bytes of a broadcast: tag, sequence, level, number of demands, demands, zeros.

use fairmesh_units::FlowId;

/// Size of every broadcast in bytes (Mancuso 2010 §VI.A).
pub(super) const BROADCAST_BYTES: usize = 50;
/// Maximum number of demands in a broadcast.
pub(super) const MAX_DEMANDS: usize = (BROADCAST_BYTES - HEADER_BYTES) / DEMAND_BYTES;

const TAG: u8 = 0x49;
const HEADER_BYTES: usize = 7;
const DEMAND_BYTES: usize = 4;
/// Code of a demand above the flow's rate; the codes below are kbit/s.
const ABOVE_RATE: u16 = u16::MAX;

/// Demand of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Demand {
    pub flow: FlowId,
    /// Rate in bit/s of IP; infinite for a demand above the flow's rate.
    pub rate: f64,
}

/// Report of a node to its neighbours.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct DemandReport {
    /// Number of the gateway's allocation, which wraps.
    pub sequence: u8,
    /// Rate per weight in bit/s of IP.
    pub level: Option<f64>,
    pub demands: Vec<Demand>,
}

impl DemandReport {
    /// Encodes the report.
    ///
    /// Flows beyond 65,535 and demands beyond [`MAX_DEMANDS`] are left out; rates are rounded up to kbit/s, so that
    /// a small demand is not rounded to 0.
    pub fn encode(&self) -> [u8; BROADCAST_BYTES] {
        let mut body = [0; BROADCAST_BYTES];
        body[0] = TAG;
        body[1] = self.sequence;
        let level = self.level.map_or(0, |l| (l as u32).max(1));
        body[2..6].copy_from_slice(&level.to_be_bytes());
        let demands =
            self.demands.iter().filter(|d| d.flow.0 <= u32::from(u16::MAX)).take(MAX_DEMANDS);
        for d in demands {
            let at = HEADER_BYTES + DEMAND_BYTES * usize::from(body[6]);
            let code = match d.rate {
                r if r.is_finite() => (r / 1e3).ceil().min(f64::from(ABOVE_RATE - 1)) as u16,
                _ => ABOVE_RATE,
            };
            body[at..at + 2].copy_from_slice(&(d.flow.0 as u16).to_be_bytes());
            body[at + 2..at + 4].copy_from_slice(&code.to_be_bytes());
            body[6] += 1;
        }
        body
    }

    /// Decodes a report; `None` if it is invalid.
    pub fn decode(body: &[u8]) -> Option<DemandReport> {
        let body: &[u8; BROADCAST_BYTES] = body.try_into().ok()?;
        let number = usize::from(body[6]);
        if body[0] != TAG || number > MAX_DEMANDS {
            return None;
        }
        let level = u32::from_be_bytes([body[2], body[3], body[4], body[5]]);
        let demands =
            body[HEADER_BYTES..].chunks_exact(DEMAND_BYTES).take(number).map(|c| Demand {
                flow: FlowId(u32::from(u16::from_be_bytes([c[0], c[1]]))),
                rate: match u16::from_be_bytes([c[2], c[3]]) {
                    ABOVE_RATE => f64::INFINITY,
                    code => 1e3 * f64::from(code),
                },
            });
        Some(DemandReport {
            sequence: body[1],
            level: (level > 0).then(|| f64::from(level)),
            demands: demands.collect(),
        })
    }
}
