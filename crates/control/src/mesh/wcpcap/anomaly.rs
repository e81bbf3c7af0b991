//! Events that should not happen, and their reports.

/// Events that should not happen, counted by the node that causes them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Anomaly {
    Implausible,
    Unknown,
    Unset,
    Silent,
    TooLarge,
    Unsettled,
    Outside,
}

impl Anomaly {
    /// Returns code and sentence.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Anomaly::Implausible => {
                ("wcpcap.absurd", "node {} sends an impossible value ({} times): ignored")
            }
            Anomaly::Unknown => {
                ("wcpcap.unknown", "node {} names a link that does not exist ({} times): ignored")
            }
            Anomaly::Unset => (
                "wcpcap.unset",
                "node {}: packets came back without a rate ({} times): theirs stays as it is",
            ),
            Anomaly::Silent => (
                "wcpcap.silent",
                "no transmit status for packets to node {} ({} times): they count as they come in",
            ),
            Anomaly::TooLarge => (
                "wcpcap.too-large",
                "node {}: too many links around one ({} times): its rate stays as it is",
            ),
            Anomaly::Unsettled => (
                "wcpcap.unsettled",
                "link to node {}: the model's equations did not settle ({} times): all links \
                 around it count as one channel",
            ),
            Anomaly::Outside => (
                "wcpcap.outside",
                "link to node {}: the model does not hold for the links around it ({} times): \
                 they count as one channel",
            ),
        }
    }
}
