//! Data of the explorer: the displayed values, including all values derived from records.
//!
//! Rates are in kbit/s and delays in ms, rounded to four digits. Nodes, links, sharers and controls
//! refer to each other by their index in the lists. A value that the runs did not measure is
//! absent, and the page omits it.

use serde::Serialize;

/// Version of the layout; the page rejects another version.
pub const SCHEMA: u32 = 1;

/// All data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct Model {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Scenario name.
    pub scenario: String,
    /// Description of the scenario.
    pub description: String,
    /// Program that performed the runs.
    pub generator: String,
    /// Command line that created the page.
    pub command: String,
    /// Simulated time, in s.
    pub duration_s: f64,
    /// Start of the measured interval, in s.
    pub warmup_s: f64,
    /// Seeds, in the order of all lists by seed.
    pub seeds: Vec<u64>,
    /// Name of the sharers: flows or subscribers.
    pub noun: Noun,
    /// Rate against which goodputs are judged.
    pub reference: Reference,
    /// The answer.
    pub answer: Answer,
    /// Warnings that affect the interpretation of all numbers.
    pub warnings: Vec<String>,
    /// Assumptions and omissions, a sentence each.
    pub notes: Vec<String>,
    /// The network.
    pub network: Network,
    /// Subscribers, and flows without a subscriber, in scenario order.
    pub sharers: Vec<Sharer>,
    /// Index of the control against which the others are compared.
    pub baseline: usize,
    /// Controls, in the requested order.
    pub controls: Vec<Control>,
    /// Sampling instants of curves, s: the first and the distance; absent without curves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Settings of the scenario, name and value.
    pub settings: Vec<(String, String)>,
}

/// Singular and plural of the name of sharers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Noun {
    /// Singular.
    pub one: &'static str,
    /// Plural.
    pub many: &'static str,
}

/// Kind of the rate against which goodputs are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// The analytic max-min rate.
    Fair,
    /// An upper bound of the max-min rate.
    ///
    /// An equal share of the carried goodput is used if that is less.
    Bound,
    /// The max-min rate that the simulator carries, if it is below the analytic one.
    Optimum,
    /// None: the runs had no fair rates.
    None,
}

/// The answer in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answer {
    /// The headline, one line for each control of the answer.
    pub headline: Vec<Text>,
    /// Facts: the starving flows, the reason, the remedy and its cost.
    pub facts: Vec<Fact>,
}

/// One fact under the headline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact {
    /// Title of the fact.
    pub title: &'static str,
    /// Text of the fact.
    pub text: Text,
}

/// A text of parts.
pub type Text = Vec<Part>;

/// A part of a text, with its role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The words.
    #[serde(rename = "t")]
    pub text: String,
    /// Role of the words.
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The sharer that they name.
    #[serde(rename = "i", skip_serializing_if = "Option::is_none")]
    pub sharer: Option<usize>,
    /// The term of the glossary that they use.
    #[serde(rename = "g", skip_serializing_if = "Option::is_none")]
    pub term: Option<&'static str>,
}

/// Role of a part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// An emphasised name or number.
    Strong,
    /// A number of starving sharers.
    Bad,
    /// A sharer; a click selects it.
    Sharer,
    /// The rest of a list; a click shows all of it.
    More,
    /// An explanation.
    Dim,
}

/// The network that the map shows.
#[derive(Clone, Debug, Serialize)]
pub struct Network {
    /// Nodes, in scenario order.
    pub nodes: Vec<Node>,
    /// True if positions are the scenario's; if not, they are drawn by hops.
    pub surveyed: bool,
    /// Positions drawn by hops, if the scenario has positions and few enough nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schematic: Vec<(f64, f64)>,
    /// Radio links, each pair once.
    pub links: Vec<(usize, usize)>,
    /// Wired links.
    pub wires: Vec<(usize, usize)>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Position on the map, y upwards; in m if surveyed.
    pub at: (f64, f64),
    /// Role of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<NodeRole>,
}

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// A gateway.
    Gateway,
    /// A wired host.
    Wired,
}

/// A sharer of the air: a flow, or a subscriber with its flows.
#[derive(Clone, Debug, Serialize)]
pub struct Sharer {
    /// Label: its name, or its ends.
    pub label: String,
    /// Ends of a flow.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ends: String,
    /// True for a subscriber.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub subscriber: bool,
    /// Labels of a subscriber's flows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<String>,
    /// Largest number of wireless hops of its flows.
    pub hops: u32,
    /// Node that represents it on the map.
    pub home: usize,
    /// Nodes on the path of each of its flows.
    pub paths: Vec<Vec<usize>>,
    /// Max-min rate, in kbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair: Option<f64>,
    /// Max-min rate that the simulator carries, in kbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimum: Option<f64>,
    /// True if its application pauses, or is limited to less than its fair rate.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub pauses: bool,
}

/// A mean and the half-width of its 95 % interval, which a single seed does not have.
pub type Mean = (f64, Option<f64>);

/// One control.
#[derive(Clone, Debug, Serialize)]
pub struct Control {
    /// Name, with variants.
    pub name: String,
    /// Description in one line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// True if a part of the control is unpublished.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub ours: bool,
    /// Number of starving sharers.
    pub starving: usize,
    /// Smallest share of a sharer's reference.
    pub worst: Option<f64>,
    /// Sum of the goodputs, in kbit/s.
    pub sum: Mean,
    /// Median over the flows of their mean delay, in ms.
    pub delay: Option<f64>,
    /// Measures over the sharers.
    pub measures: Vec<Measure>,
    /// Remarks: starving flows, costs, and limits that did not settle.
    pub remarks: Vec<String>,
    /// Results by sharer.
    pub results: Vec<SharerResult>,
    /// Results by node; `None` for nodes without a radio.
    pub nodes: Vec<Option<NodeResult>>,
    /// Results by direction of a link.
    pub links: Vec<LinkResult>,
    /// Decisions of the first seed.
    pub decisions: Decisions,
    /// Curves by seed, first seed first.
    ///
    /// Later seeds are left out if the page would become too large.
    pub curves: Vec<Curves>,
    /// Fingerprints, by seed.
    pub fingerprints: Vec<String>,
}

/// A measure over all sharers.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: Mean,
    /// Digits after the point.
    pub digits: u8,
    /// Unit; empty for a number.
    pub unit: &'static str,
}

/// One sharer under one control.
#[derive(Clone, Debug, Serialize)]
pub struct SharerResult {
    /// Goodput, in kbit/s.
    pub goodput: Mean,
    /// Goodput of each seed, in kbit/s.
    pub seeds: Vec<f64>,
    /// Rate against which it is judged, in kbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<f64>,
    /// Goodput over that rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// True if that is below the threshold of starvation.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub starves: bool,
    /// Goodput of each flow of a subscriber, in kbit/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<f64>,
    /// Delay, ms: mean and 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<(f64, f64)>,
    /// Lost packets per run, sent in the measured interval: queue, wire, retry limit, limiter.
    pub lost: [f64; 4],
    /// Lost acknowledgements and requests per run, sent in the measured interval.
    pub answers: [f64; 4],
    /// Lost packets of both kinds per run that were sent in the warm-up.
    pub warmup: f64,
    /// Retransmitted segments over segments sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resent: Option<f64>,
    /// Index in [`Control::links`] of the hop with the largest fraction of unanswered frames.
    ///
    /// It is absent if that hop does not explain losses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_hop: Option<usize>,
}

/// One node under one control, mean over seeds.
#[derive(Clone, Debug, Serialize)]
pub struct NodeResult {
    /// Fraction of time spent transmitting.
    pub tx: f64,
    /// Fraction of time with foreign energy on the medium.
    pub busy: f64,
    /// Mean length of the interface queue, in packets.
    pub queue: f64,
}

/// One direction of a link under one control, over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct LinkResult {
    /// Sender.
    pub from: usize,
    /// Receiver.
    pub to: usize,
    /// Frames that began an exchange, per second, retries included.
    pub frames: f64,
    /// Fraction of the attempts without a response.
    pub unanswered: f64,
    /// Fraction of the unanswered frames that had arrived.
    #[serde(skip_serializing_if = "is_zero")]
    pub answer_lost: f64,
    /// Fraction of the unanswered frames that no other frame overlapped.
    #[serde(skip_serializing_if = "is_zero")]
    pub clean: f64,
    /// Stations that were on the air at the receiver during unanswered frames, most frames first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Overlap>,
}

fn is_zero(v: &f64) -> bool {
    *v == 0.0
}

/// A station with frames that overlapped unanswered frames of a link.
#[derive(Clone, Debug, Serialize)]
pub struct Overlap {
    /// Name of the node or interferer.
    pub name: String,
    /// The node, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    /// Fraction of the unanswered frames that it overlapped.
    pub share: f64,
    /// True if the sender does not sense it: a hidden terminal.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub hidden: bool,
    /// True if it is the receiver, which was itself sending.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub receiver: bool,
}

/// Decisions of a control in one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Decisions {
    /// Number of decisions of the run.
    pub total: usize,
    /// Decisions that are shown, oldest first.
    pub shown: Vec<Decision>,
}

/// One decision.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    /// Instant, in s.
    #[serde(rename = "t")]
    pub time_s: f64,
    /// Node.
    #[serde(rename = "n")]
    pub node: String,
    /// Stable name of the reason.
    #[serde(rename = "c")]
    pub code: String,
    /// Reason, in words.
    #[serde(rename = "w")]
    pub reason: String,
    /// The sharer that it concerns; absent if it concerns several.
    #[serde(rename = "i", skip_serializing_if = "Option::is_none")]
    pub sharer: Option<usize>,
    /// Rate that the decision sets, in kbit/s.
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Rate of the previous decision about the same sharer with the same code, in kbit/s.
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
}

/// Instants of samples.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sampling {
    /// First instant, in s.
    pub first_s: f64,
    /// Distance, in s.
    pub every_s: f64,
    /// Number.
    pub number: usize,
}

/// Curves of one run, encoded by [`super::codec`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct Curves {
    /// Goodput by sharer, in kbit/s.
    pub goodput: Vec<String>,
    /// Limit by sharer, kbit/s; an empty text without a limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limit: Vec<String>,
    /// Congestion window by sharer, kB; an empty text without a window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<String>,
    /// Interface queue by node, packets; an empty text for a queue that was always empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<String>,
}

/// Rounds to four significant digits.
pub fn round(v: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return 0.0;
    }
    format!("{v:.3e}").parse().unwrap_or(v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits() {
        assert_eq!(round(123_456.7), 123_500.0);
        assert_eq!(round(0.001_234_56), 0.001_235);
        assert_eq!(round(-7.0), -7.0);
        assert_eq!(round(f64::NAN), 0.0);
    }
}
