//! Generated meshes without a gateway, for the evaluation of controls at every node.
//!
//! Each mesh depends only on its kind and number.

use core::fmt::Write as _;

use fairmesh_scenario::{Scenario, draft_from_toml};
use fairmesh_units::{NodeId, Stream};

use super::super::families::Times;
use fairmesh_lab::LabError;

/// Radios of a mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// 802.11b at 11 Mbit/s with RTS/CTS, as in Rangwala 2008 and Jang 2010.
    Eleven,
    /// 802.11b at 2 Mbit/s with RTS/CTS.
    Two,
    /// 802.11g at 6, 12, 24 or 54 Mbit/s, one rate in a mesh.
    SixToFiftyFour,
    /// Links of different rates, by their length (6 to 54 Mbit/s) or at random (1 to 11).
    Mixed,
    /// 11 or 24 Mbit/s without RTS/CTS.
    NoRts,
    /// 11 or 24 Mbit/s; decoding to 250 m, sensing and interference to 550 m, as ns-2's radios.
    Wide,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] =
        [Kind::Eleven, Kind::Two, Kind::SixToFiftyFour, Kind::Mixed, Kind::NoRts, Kind::Wide];

    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Eleven => "11 Mbit/s",
            Kind::Two => "2 Mbit/s",
            Kind::SixToFiftyFour => "6 to 54 Mbit/s",
            Kind::Mixed => "mixed rates",
            Kind::NoRts => "no RTS",
            Kind::Wide => "250/550 m",
        }
    }

    fn short(self) -> &'static str {
        match self {
            Kind::Eleven => "eleven",
            Kind::Two => "two",
            Kind::SixToFiftyFour => "g",
            Kind::Mixed => "mixed",
            Kind::NoRts => "no-rts",
            Kind::Wide => "wide",
        }
    }
}

/// Number of reported meshes of each kind: numbers 0 to 8.
///
/// Numbers from [`FIRST_TUNING_MESH`] on are for the development of a mechanism.
pub const REPORTED_MESHES: u32 = 9;
/// First number of the meshes that are never reported.
pub const FIRST_TUNING_MESH: u32 = 100;

/// One mesh.
#[derive(Clone, PartialEq, Debug)]
pub struct Mesh {
    /// The kind that it belongs to.
    pub kind: Kind,
    /// Unique, such as `two-07`.
    pub name: String,
    /// Nodes, flows and rates, in a few words.
    pub about: String,
    /// The scenario file.
    pub text: String,
}

impl Mesh {
    /// Returns the scenario.
    ///
    /// # Errors
    /// Only because of an error in this module.
    pub fn scenario(&self) -> Result<Scenario, LabError> {
        Ok(draft_from_toml(&format!("{}.toml", self.name), &self.text)?.build()?)
    }
}

/// Nodes, and the side of their square, m: about six neighbours each.
const NODES_AND_SIDE_M: [(u32, u32); 4] = [(16, 700), (20, 800), (24, 900), (30, 1000)];
/// Minimum and maximum number of flows.
const FLOW_COUNT_RANGE: (u32, u32) = (6, 20);

/// Returns a mesh of a kind, by its number.
///
/// # Errors
/// Only because of an error in this module.
pub fn mesh(kind: Kind, number: u32, times: Times) -> Result<Mesh, LabError> {
    let mut chance = Stream::new(u64::from(number), &format!("meshes/{}", kind.short()));
    let name = format!("{}-{number:02}", kind.short());
    let slow = number.is_multiple_of(2);
    let (phy, rate) = match kind {
        Kind::Eleven => ("802.11b", "11"),
        Kind::Two => ("802.11b", "2"),
        Kind::SixToFiftyFour => ("802.11g", ["6", "12", "24", "54"][number as usize % 4]),
        Kind::Mixed | Kind::NoRts | Kind::Wide if slow => ("802.11b", "11"),
        Kind::Mixed => ("802.11g", "12"),
        Kind::NoRts | Kind::Wide => ("802.11g", "24"),
    };
    let rts = kind != Kind::NoRts;
    let sense = if kind == Kind::Wide { 550 } else { 250 };
    let (nodes, side) = NODES_AND_SIDE_M[chance.below(NODES_AND_SIDE_M.len() as u32) as usize];
    let flows = FLOW_COUNT_RANGE.0 + chance.below(FLOW_COUNT_RANGE.1 - FLOW_COUNT_RANGE.0 + 1);
    // Positions of nodes, and the pairs that decode each other; the seed differs between kinds.
    let seed = 100_000 + 1000 * kind as u32 + number;
    let mut text = format!(
        "# One of the meshes on which controls at every node are compared.\n\
         name = \"{name}\"\nduration = \"{} s\"\nwarmup = \"{} s\"\n\n\
         [radio]\nphy = \"{phy}\"\nrate = \"{rate} Mbit/s\"\nrts = {rts}\nsense = \"{sense} m\"\nqueue = 64\n\n\
         [topology]\nrandom = {{ nodes = {nodes}, width = \"{side} m\", seed = {seed} }}\n",
        times.duration_s, times.warmup_s
    );
    let about = match kind {
        Kind::Mixed if slow => {
            links(
                &mut text,
                nodes,
                |_, c| ["1", "2", "5.5", "11"][c.below(4) as usize],
                &mut chance,
            )?;
            "1 to 11 Mbit/s".to_owned()
        }
        Kind::Mixed => {
            let by_length = |far: f64, _: &mut Stream| {
                let steps = [80.0, 120.0, 160.0, 200.0].iter().filter(|l| far > **l).count();
                ["54", "36", "24", "12", "6"][steps]
            };
            links(&mut text, nodes, by_length, &mut chance)?;
            "6 to 54 Mbit/s".to_owned()
        }
        _ => format!("{rate} Mbit/s"),
    };
    let mss = if phy == "802.11b" { 512 } else { 1460 };
    let _ = write!(
        text,
        "\n[traffic]\ntraffic = \"bulk\"\nstart_jitter = \"5 s\"\n\
         transport = {{ tcp = \"newreno\", mss = \"{mss} B\", sack = true, ecn = true }}\n"
    );
    let mut drawn: Vec<(u32, u32)> = Vec::new();
    while drawn.len() < flows as usize {
        let (from, to) = (chance.below(nodes), chance.below(nodes));
        // One flow between two nodes.
        if from != to && !drawn.iter().any(|&d| d == (from, to) || d == (to, from)) {
            drawn.push((from, to));
            let _ = write!(text, "\n[[flow]]\nfrom = {from}\nto = {to}\n");
        }
    }
    Ok(Mesh { kind, name, about: format!("{nodes} nodes, {flows} flows, {about}"), text })
}

/// Writes a rate for each link, by its length in m.
fn links(
    text: &mut String,
    nodes: u32,
    rate: impl Fn(f64, &mut Stream) -> &'static str,
    chance: &mut Stream,
) -> Result<(), LabError> {
    let bare = format!("{text}\n[[flow]]\nfrom = 0\nto = {}\n", nodes - 1);
    let bare = draft_from_toml("meshes.toml", &bare)?.build()?;
    for link in bare.links().iter().filter(|l| l.from < l.to) {
        let place = |n: NodeId| bare.nodes()[n.index()].position.unwrap_or_default();
        let (a, b) = (place(link.from), place(link.to));
        let rate = rate((a.0 - b.0).hypot(a.1 - b.1), chance);
        let (from, to) = (link.from.0, link.to.0);
        let _ = write!(text, "\n[[link]]\nfrom = {from}\nto = {to}\nrate = \"{rate} Mbit/s\"\n");
    }
    Ok(())
}

/// Returns the first `most` meshes, one of each kind in turn, from number `first` on.
///
/// # Errors
/// Only because of an error in this module.
pub fn meshes(first: u32, most: u32, times: Times) -> Result<Vec<Mesh>, LabError> {
    let kinds = Kind::ALL.len() as u32;
    let mut chosen: Vec<(usize, u32)> =
        (0..most).map(|k| ((k % kinds) as usize, first + k / kinds)).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|(kind, number)| mesh(Kind::ALL[kind], number, times)).collect()
}
