//! Conversion of a link's cost to its delivery probability.

use serde::{Deserialize, Serialize};

/// Meaning of the link costs of a NetJSON file.
///
/// Expected transmissions count data and acknowledgement, 1 / (forward × reverse) (De Couto et al.
/// 2003). A cost does not state how the directions share the loss: each direction with a cost e
/// delivers with 1/√e, and a direction without one equals the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Expected transmissions, from 1 (OLSR's `etx`, `etx_ff`, `etx_float`).
    Etx,
    /// As `Etx`; costs below 1 are cables, which OLSR's `etx_ffeth` prices at 0.1.
    EtxEthernet,
    /// Transmit quality: the delivery probability itself (B.A.T.M.A.N. IV).
    Tq,
    /// Transmit quality from 0 to 255.
    Tq255,
    /// 1 over the transmit quality, as `batadv-vis` prints it.
    InverseTq,
    /// Babel: 256 per expected transmission on radio, 96 for a cable.
    Babel,
    /// OLSRv2's directional airtime (RFC 7779) and other metrics of RFC 7181.
    ///
    /// They are independent of loss, so every link is perfect.
    Olsr2,
    /// Expected throughput in Mbit/s (B.A.T.M.A.N. V); every link is perfect.
    Throughput,
    /// Expected throughput in kbit/s, as in batctl's JSON; every link is perfect.
    ThroughputKbit,
    /// Costs are independent of loss: every link is perfect.
    None,
}

/// Highest metric of a link in RFC 7181 (MAXIMUM_METRIC); larger values mean infinity.
const OLSR2_MOST: f64 = 16_776_960.0;
/// Infinity of link-state protocols with metrics of 24 bits.
///
/// It is the lowest among those with metrics of 24 or 32.
const INFINITY_24: f64 = 16_777_215.0;
/// Cost of a broken link in olsrd, LINK_COST_BROKEN = 1 << 22, divided by 1024 as in netdiff.
/// olsrd's own output has it undivided, 4194304, and ROUTE_COST_BROKEN, 4294967295.
const OLSR_BROKEN: f64 = 4096.0;
/// Median of integer throughputs above which they are kbit/s.
///
/// A radio's expected throughput is below 1 Gbit/s.
const KBIT_FROM: f64 = 1000.0;

impl core::str::FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Metric::ALL.iter().find(|m| m.0.eq_ignore_ascii_case(text.trim()));
        let names = || Metric::ALL.map(|m| m.0).join(", ");
        found
            .map(|m| m.1)
            .ok_or_else(|| format!("there is no metric \"{text}\"; expected one of {}", names()))
    }
}

impl core::fmt::Display for Metric {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Link quality derived from a cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Quality {
    /// A radio link with this delivery probability.
    Radio(f64),
    /// A cable.
    Cable,
    /// A dead link.
    Dead,
}

impl Metric {
    /// All metrics, by the names of options.
    pub const ALL: [(&'static str, Metric); 10] = [
        ("etx", Metric::Etx),
        ("etx-ethernet", Metric::EtxEthernet),
        ("tq", Metric::Tq),
        ("tq-255", Metric::Tq255),
        ("inverse-tq", Metric::InverseTq),
        ("babel", Metric::Babel),
        ("olsrv2", Metric::Olsr2),
        ("throughput", Metric::Throughput),
        ("throughput-kbit", Metric::ThroughputKbit),
        ("none", Metric::None),
    ];

    /// Returns the name used in options.
    pub fn name(self) -> &'static str {
        Metric::ALL.iter().find(|m| m.1 == self).map_or("none", |m| m.0)
    }

    /// Returns the metric of a file's `metric` and `protocol`; `None` if it is unknown.
    ///
    /// If two conventions share a name, the range of the costs decides.
    pub(super) fn guess(metric: &str, protocol: &str, costs: &[f64]) -> Option<Metric> {
        let metric = metric.to_ascii_lowercase();
        let protocol = protocol.to_ascii_lowercase();
        match metric.as_str() {
            "etx_ffeth" => Some(Metric::EtxEthernet),
            m if m.starts_with("etx") => Some(Metric::Etx),
            "tq" => Some(Metric::guess_tq(costs)),
            "babel" => Some(Metric::Babel),
            "hops" | "hop" | "hopcount" | "static" => Some(Metric::None),
            "throughput" => Some(Metric::guess_throughput(costs)),
            // Files of netdiff and others leave the metric empty.
            _ if batman_v(&protocol) => Some(Metric::guess_throughput(costs)),
            _ if protocol.contains("batman") => Some(Metric::guess_tq(costs)),
            _ if protocol.contains("babel") => Some(Metric::Babel),
            _ if protocol.starts_with("olsrv2") || protocol.starts_with("olsr2") => {
                Some(Metric::Olsr2)
            }
            m if m.starts_with("ff_dat") => Some(Metric::Olsr2),
            "" if protocol.starts_with("olsr") => Some(Metric::Etx),
            _ => None,
        }
    }

    /// Returns kbit/s for integer costs with a median above a radio's rate in Mbit/s.
    fn guess_throughput(costs: &[f64]) -> Metric {
        let mut costs: Vec<f64> = costs.iter().copied().filter(|&c| c > 0.0).collect();
        costs.sort_by(f64::total_cmp);
        let median = costs.get(costs.len() / 2).copied().unwrap_or_default();
        if median >= KBIT_FROM && costs.iter().all(|&c| c == libm::floor(c)) {
            Metric::ThroughputKbit
        } else {
            Metric::Throughput
        }
    }

    fn guess_tq(costs: &[f64]) -> Metric {
        if costs.iter().all(|&c| c <= 1.0) {
            Metric::Tq
        } else if costs.iter().all(|&c| c == libm::floor(c)) {
            Metric::Tq255
        } else {
            Metric::InverseTq
        }
    }

    /// Returns the quality of a cost.
    ///
    /// `None` for a negative cost and for one that the metric does not have. A cost at or above the
    /// protocol's infinity is a dead link.
    pub(super) fn quality(self, cost: f64) -> Option<Quality> {
        if cost.is_nan() || cost < 0.0 {
            return None;
        }
        let dead = match self {
            // Releases of olsrd before 0.5.6 printed an infinite ETX as 0.
            Metric::Etx => cost >= OLSR_BROKEN || cost == 0.0,
            Metric::EtxEthernet => cost >= OLSR_BROKEN,
            Metric::Tq | Metric::Tq255 | Metric::Throughput | Metric::ThroughputKbit => cost == 0.0,
            // The lowest transmit quality above 0 is 1/255.
            Metric::InverseTq => cost == 0.0 || cost > 255.0,
            // RFC 8966 §2.1: 65535 means infinity.
            Metric::Babel => cost >= 65_535.0,
            Metric::Olsr2 => cost > OLSR2_MOST,
            Metric::None => cost >= INFINITY_24,
        };
        if dead {
            return Some(Quality::Dead);
        }
        Some(match self {
            Metric::EtxEthernet if cost < 1.0 => Quality::Cable,
            Metric::Etx | Metric::EtxEthernet => Quality::Radio(1.0 / cost.max(1.0).sqrt()),
            Metric::Tq if cost > 1.0 => return None,
            Metric::Tq => Quality::Radio(cost),
            Metric::Tq255 if cost > 255.0 => return None,
            Metric::Tq255 => Quality::Radio(cost / 255.0),
            Metric::InverseTq => Quality::Radio(1.0 / cost.max(1.0)),
            // RFC 8966 §A.2.1: 96 is the usual cost of a cable.
            Metric::Babel if cost <= 96.0 => Quality::Cable,
            Metric::Babel => Quality::Radio(1.0 / (cost / 256.0).max(1.0).sqrt()),
            Metric::Throughput | Metric::ThroughputKbit | Metric::Olsr2 | Metric::None => {
                Quality::Radio(1.0)
            }
        })
    }

    /// Returns the throughput of a cost, in Mbit/s.
    pub(super) fn mbit(self, cost: f64) -> Option<f64> {
        match self {
            Metric::Throughput => Some(cost),
            Metric::ThroughputKbit => Some(cost / 1000.0),
            _ => None,
        }
        .filter(|mbit| *mbit > 0.0 && mbit.is_finite())
    }

    /// Returns the unit of a map's throughputs, for a note.
    pub(super) fn unit(self) -> Option<&'static str> {
        match self {
            Metric::Throughput => Some("Mbit/s"),
            Metric::ThroughputKbit => Some("kbit/s"),
            _ => None,
        }
    }

    /// Returns the costs that `quality` accepts, in words.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Metric::Tq => "a transmit quality from 0 to 1",
            Metric::Tq255 => "a transmit quality from 0 to 255",
            Metric::Throughput => "a throughput in Mbit/s of at least 0",
            Metric::ThroughputKbit => "a throughput in kbit/s of at least 0",
            _ => "a cost of at least 0",
        }
    }
}

/// Returns true for `BATMAN_V`, `batman-adv v` and the like.
fn batman_v(protocol: &str) -> bool {
    protocol.contains("batman") && ["_v", " v", "-v"].iter().any(|end| protocol.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(metric: Metric, cost: f64) -> f64 {
        match metric.quality(cost) {
            Some(Quality::Radio(p)) => p,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_metric_in_its_own_unit() {
        assert_eq!(delivery(Metric::Etx, 4.0), 0.5);
        assert_eq!(delivery(Metric::Etx, 0.5), 1.0);
        assert_eq!(Metric::EtxEthernet.quality(0.1), Some(Quality::Cable));
        assert_eq!(delivery(Metric::Tq, 0.25), 0.25);
        assert_eq!(delivery(Metric::Tq255, 51.0), 0.2);
        assert_eq!(delivery(Metric::InverseTq, 4.0), 0.25);
        assert_eq!(delivery(Metric::Babel, 1024.0), 0.5);
        assert_eq!(delivery(Metric::Babel, 256.0), 1.0);
        assert_eq!(Metric::Babel.quality(96.0), Some(Quality::Cable));
        assert_eq!(Metric::Babel.quality(65_535.0), Some(Quality::Dead));
        assert_eq!(Metric::Tq.quality(0.0), Some(Quality::Dead));
        assert_eq!(Metric::Throughput.quality(0.0), Some(Quality::Dead));
        assert_eq!(delivery(Metric::Throughput, 86.7), 1.0);
        assert_eq!(Metric::Etx.quality(-1.0), None);
        assert_eq!(Metric::Etx.quality(f64::NAN), None);
        assert_eq!(Metric::Tq255.quality(256.0), None);
    }

    #[test]
    fn guesses_from_names_and_ranges() {
        let guess = |m, p| Metric::guess(m, p, &[1.0, 1.5]);
        assert_eq!(guess("ETX", ""), Some(Metric::Etx));
        assert_eq!(guess("etx_ffeth", "olsrv1"), Some(Metric::EtxEthernet));
        assert_eq!(guess("", "OLSR"), Some(Metric::Etx));
        assert_eq!(guess("", "Babel"), Some(Metric::Babel));
        assert_eq!(guess("ff_dat_metric", "olsrv2"), Some(Metric::Olsr2));
        assert_eq!(guess("", "OLSRv2"), Some(Metric::Olsr2));
        assert_eq!(guess("throughput", ""), Some(Metric::Throughput));
        assert_eq!(guess("", "BATMAN_V"), Some(Metric::Throughput));
        assert_eq!(guess("", "batman-adv"), Some(Metric::InverseTq));
        let tq = |costs: &[f64]| Metric::guess("TQ", "batman-adv", costs);
        assert_eq!(tq(&[0.2, 1.0]), Some(Metric::Tq));
        assert_eq!(tq(&[255.0, 30.0]), Some(Metric::Tq255));
        assert_eq!(tq(&[1.0, 1.012]), Some(Metric::InverseTq));
    }

    #[test]
    fn costs_from_a_protocols_infinity_on_are_no_links() {
        let dead = |metric: Metric, costs: &[f64]| {
            for &cost in costs {
                assert_eq!(metric.quality(cost), Some(Quality::Dead), "{metric:?} {cost}");
            }
        };
        let olsr = [4096.0, 4_194_304.0, 4_194_303.999, 4_294_967_295.0, 1e300];
        dead(Metric::Etx, &olsr);
        dead(Metric::Etx, &[0.0]);
        dead(Metric::EtxEthernet, &olsr);
        dead(Metric::Babel, &[65_535.0, 65_536.0, 4_294_967_295.0, 1e300]);
        dead(Metric::Tq, &[0.0]);
        dead(Metric::Tq255, &[0.0]);
        dead(Metric::InverseTq, &[0.0, 256.0, 1e300]);
        dead(Metric::Throughput, &[0.0]);
        dead(Metric::ThroughputKbit, &[0.0]);
        dead(Metric::Olsr2, &[16_776_961.0, 16_777_215.0, 4_294_967_295.0]);
        dead(Metric::None, &[16_777_215.0, 4_294_967_295.0]);
        for (metric, cost) in [
            (Metric::Etx, 4095.0),
            (Metric::Babel, 65_534.0),
            (Metric::Tq255, 1.0),
            (Metric::InverseTq, 255.0),
            (Metric::Olsr2, 16_776_960.0),
            (Metric::None, 65_535.0),
        ] {
            assert!(matches!(metric.quality(cost), Some(Quality::Radio(_))), "{metric:?} {cost}");
        }
    }

    #[test]
    fn throughputs_in_kbit_are_known_by_their_size() {
        let unit = |costs: &[f64]| Metric::guess("", "BATMAN_V", costs).and_then(Metric::unit);
        assert_eq!(unit(&[86_700.0, 20_000.0, 800.0]), Some("kbit/s"));
        assert_eq!(unit(&[86.7, 20.0, 1000.0]), Some("Mbit/s"));
        assert_eq!(unit(&[86.0, 20.0, 2.0]), Some("Mbit/s"));
        assert_eq!(unit(&[0.0, 0.0, 54_000.0]), Some("kbit/s"));
        assert_eq!(Metric::ThroughputKbit.mbit(86_700.0), Some(86.7));
        assert_eq!(Metric::Throughput.mbit(86.7), Some(86.7));
        assert_eq!(Metric::Etx.mbit(2.0), None);
    }
}
