//! What the cost of a link says about its delivery probability.

/// What link costs of a NetJSON file mean.
///
/// Expected transmissions count data and acknowledgement, 1 / (forward × reverse) (De Couto et al.
/// 2003). A cost says nothing about how the two share the loss, so each direction that has a cost
/// e of its own delivers with 1/√e, and a direction without one delivers as the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Expected throughput in Mbit/s (B.A.T.M.A.N. V); nothing is lost.
    Throughput,
    /// Costs say nothing about loss: every link is perfect.
    None,
}

/// What a cost says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Quality {
    /// A radio link with this delivery probability.
    Radio(f64),
    /// A cable.
    Cable,
    /// Nothing gets through.
    Dead,
}

impl Metric {
    /// From a file's `metric` and `protocol`, and the range of its costs where two conventions
    /// share a name. `None`: not known.
    pub(super) fn guess(metric: &str, protocol: &str, costs: &[f64]) -> Option<Metric> {
        let metric = metric.to_ascii_lowercase();
        let protocol = protocol.to_ascii_lowercase();
        match metric.as_str() {
            "etx_ffeth" => Some(Metric::EtxEthernet),
            m if m.starts_with("etx") => Some(Metric::Etx),
            "tq" => Some(Metric::guess_tq(costs)),
            "babel" => Some(Metric::Babel),
            "hops" | "hop" | "hopcount" | "static" => Some(Metric::None),
            "throughput" => Some(Metric::Throughput),
            // Files of netdiff and others leave the metric empty.
            _ if batman_v(&protocol) => Some(Metric::Throughput),
            _ if protocol.contains("batman") => Some(Metric::guess_tq(costs)),
            _ if protocol.contains("babel") => Some(Metric::Babel),
            "" if protocol.starts_with("olsr") => Some(Metric::Etx),
            _ => None,
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

    /// What one cost says; negative and absurd ones are `None`.
    pub(super) fn quality(self, cost: f64) -> Option<Quality> {
        if !(0.0..=1e9).contains(&cost) {
            return None;
        }
        Some(match self {
            Metric::EtxEthernet if cost < 1.0 => Quality::Cable,
            Metric::Etx | Metric::EtxEthernet => Quality::radio(1.0 / cost.max(1.0).sqrt()),
            Metric::Tq if cost > 1.0 => return None,
            Metric::Tq => Quality::radio(cost),
            Metric::Tq255 if cost > 255.0 => return None,
            Metric::Tq255 => Quality::radio(cost / 255.0),
            Metric::InverseTq => Quality::radio(1.0 / cost.max(1.0)),
            // RFC 8966 §A.2.1: 96 is the usual cost of a cable, 65535 stands for infinity.
            Metric::Babel if cost <= 96.0 => Quality::Cable,
            Metric::Babel if cost >= 65_535.0 => Quality::Dead,
            Metric::Babel => Quality::radio(1.0 / (cost / 256.0).max(1.0).sqrt()),
            Metric::Throughput if cost == 0.0 => Quality::Dead,
            Metric::Throughput | Metric::None => Quality::Radio(1.0),
        })
    }

    /// The costs that `quality` accepts, in words.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Metric::Tq => "a transmit quality from 0 to 1",
            Metric::Tq255 => "a transmit quality from 0 to 255",
            Metric::Throughput => "a throughput in Mbit/s of at least 0",
            _ => "a cost of at least 0",
        }
    }
}

/// `BATMAN_V`, `batman-adv v` and the like.
fn batman_v(protocol: &str) -> bool {
    protocol.contains("batman") && ["_v", " v", "-v"].iter().any(|end| protocol.ends_with(end))
}

impl Quality {
    fn radio(delivery: f64) -> Quality {
        if delivery > 0.0 { Quality::Radio(delivery) } else { Quality::Dead }
    }
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
        assert_eq!(guess("ff_dat_metric", "olsrv2"), None);
        assert_eq!(guess("throughput", ""), Some(Metric::Throughput));
        assert_eq!(guess("", "BATMAN_V"), Some(Metric::Throughput));
        assert_eq!(guess("", "batman-adv"), Some(Metric::InverseTq));
        let tq = |costs: &[f64]| Metric::guess("TQ", "batman-adv", costs);
        assert_eq!(tq(&[0.2, 1.0]), Some(Metric::Tq));
        assert_eq!(tq(&[255.0, 30.0]), Some(Metric::Tq255));
        assert_eq!(tq(&[1.0, 1.012]), Some(Metric::InverseTq));
    }
}
