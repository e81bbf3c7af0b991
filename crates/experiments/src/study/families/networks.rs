//! Generated networks, as scenario files, for the evaluation of controls of the gateway.
//!
//! Each network depends only on its family and number.

use core::fmt::Write as _;
use std::collections::BTreeSet;

use fairmesh_scenario::{Gateways, Scenario, draft_from_toml};
use fairmesh_units::{NodeId, Stream};

use fairmesh_lab::LabError;

/// A kind of network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// 12 to 40 nodes at random places, with bulk transfers of random homes, up, down and both.
    Random,
    /// As `Random`, over links that lose up to 15 % of their frames.
    Lossy,
    /// Chains of 3 to 15 hops, the gateway at an end.
    Chains,
    /// The gateway in the middle of two to four branches of two or three hops.
    Trees,
    /// The grids of Jamshaid 2010 §7.6, 3×3 to 6×6, the gateway in a corner.
    Grids,
    /// Random networks of homes with web traffic, downloads, calls and a backup.
    Evenings,
    /// Random networks in which one home sends datagrams without congestion control.
    ///
    /// The rate is 0.2 to 5 Mbit/s.
    Floods,
    /// 12 to 30 nodes at random places, of which two or three are gateways to the same host.
    Gateways,
}

impl Family {
    /// Families with one gateway.
    pub const ALL: [Family; 7] = [
        Family::Random,
        Family::Lossy,
        Family::Chains,
        Family::Trees,
        Family::Grids,
        Family::Evenings,
        Family::Floods,
    ];

    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Family::Random => "random",
            Family::Lossy => "lossy",
            Family::Chains => "chains",
            Family::Trees => "trees",
            Family::Grids => "grids",
            Family::Evenings => "evenings",
            Family::Floods => "floods",
            Family::Gateways => "gateways",
        }
    }

    /// Returns the number of networks in the family.
    pub fn size(self) -> u32 {
        match self {
            Family::Random => 40,
            Family::Lossy => 15,
            Family::Chains | Family::Floods => 8,
            Family::Trees => 6,
            Family::Grids => GRID_SENDERS.len() as u32,
            Family::Evenings => 10,
            Family::Gateways => 24,
        }
    }
}

/// One network.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// The family that it belongs to.
    pub family: Family,
    /// Unique, such as `random-07`.
    pub name: String,
    /// Nodes, PHY, rates and direction of the transfers, in a few words.
    pub about: String,
    /// The scenario file.
    pub text: String,
}

impl Network {
    /// Returns the scenario.
    ///
    /// # Errors
    /// Only because of an error in this module.
    pub fn scenario(&self) -> Result<Scenario, LabError> {
        Ok(draft_from_toml(&format!("{}.toml", self.name), &self.text)?.build()?)
    }
}

/// Simulated time of each run and start of its measured interval, in s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// End.
    pub duration_s: u32,
    /// Start of the measured interval.
    pub warmup_s: u32,
}

/// PHY, rate of all links, and differences between links.
struct Radio(&'static str, &'static str, Mixed);

enum Mixed {
    No,
    /// 54, 36, 24, 12 or 6 Mbit/s, by the length of the link.
    ByDistance,
    /// 1, 2, 5.5 or 11 Mbit/s.
    ByChance,
}

const RADIOS: [Radio; 7] = [
    Radio("802.11b", "1 Mbit/s", Mixed::No),
    Radio("802.11b", "11 Mbit/s", Mixed::No),
    Radio("802.11g", "24 Mbit/s", Mixed::No),
    Radio("802.11g", "12 Mbit/s", Mixed::ByDistance),
    Radio("802.11b", "11 Mbit/s", Mixed::ByChance),
    Radio("802.11g", "54 Mbit/s", Mixed::No),
    Radio("802.11g", "6 Mbit/s", Mixed::No),
];

/// Nodes, and the side of their square, m: about six neighbours each.
const NODES_AND_SIDE_M: [(u32, u32); 7] =
    [(12, 600), (16, 700), (20, 800), (24, 900), (30, 1000), (36, 1100), (40, 1200)];

/// Side of a grid and the nodes that send: Jamshaid 2010 §7.6.
const GRID_SENDERS: [(u32, &[u32]); 4] = [
    (3, &[1, 4, 5, 7, 8]),
    (4, &[1, 2, 3, 4, 5, 7, 9, 12]),
    (5, &[2, 4, 6, 7, 9, 10, 12, 17, 18, 19, 20, 24]),
    (6, &[3, 4, 6, 8, 10, 11, 12, 14, 15, 17, 19, 24, 25, 28, 29, 31, 32, 33]),
];

const FLOW_DIRECTIONS: [&str; 3] = ["up", "down", "both"];
/// Maximum loss ratio of lossy links.
const MOST_LOST: f64 = 0.15;

/// Returns a network of a family, by its number.
///
/// # Errors
/// Only because of an error in this module.
pub fn network(family: Family, number: u32, times: Times) -> Result<Network, LabError> {
    let name = format!("{}-{number:02}", family.name());
    let head = |radio: &Radio| {
        format!(
            "# One of the families on which controls of the gateway are compared.\n\
             name = \"{name}\"\nduration = \"{} s\"\nwarmup = \"{} s\"\n\n\
             [radio]\nphy = \"{}\"\nrate = \"{}\"\n\n\
             [wired]\nhosts = [\"server\"]\n\n[subscribers]\nper = \"node\"\n",
            times.duration_s, times.warmup_s, radio.0, radio.1
        )
    };
    let way = FLOW_DIRECTIONS[number as usize % 3];
    let (about, text) = match family {
        Family::Random | Family::Lossy | Family::Evenings | Family::Floods | Family::Gateways => {
            scattered(family, number, head)?
        }
        Family::Chains => {
            let hops = [3u32, 4, 5, 6, 8, 10, 12, 15][number as usize % 8];
            let radio = &RADIOS[number as usize % 2];
            // At most six homes, the last node among them.
            let many = hops.min(6);
            let homes: Vec<u32> = (1..=many).map(|k| (k * hops).div_ceil(many)).collect();
            let layout = format!("chain = {{ hops = {hops} }}");
            let about = format!("{hops} hops, {}, {way}", radio.1);
            (about, simple(head(radio), &layout, "0", way, &format!("{homes:?}")))
        }
        Family::Trees => {
            let (branches, depth) = (2 + number % 3, 2 + number / 3 % 2);
            let radio = &RADIOS[[1, 6][number as usize % 2]];
            let layout =
                format!("tree = {{ branches = {branches}, depth = {depth} }}\nsense_hops = 2");
            let about = format!("{branches} branches of {depth} hops, {}, {way}", radio.1);
            let text = simple(head(radio), &layout, "gw", way, "");
            (about, text)
        }
        Family::Grids => {
            let (side, homes) = GRID_SENDERS[number as usize % GRID_SENDERS.len()];
            let layout = format!("grid = {{ rows = {side}, columns = {side} }}");
            let about = format!("{side}×{side}, 1 Mbit/s, {way}");
            (about, simple(head(&RADIOS[0]), &layout, "0", way, &format!("{homes:?}")))
        }
    };
    Ok(Network { family, name, about, text })
}

const TRANSPORT: &str =
    "start_jitter = \"10 s\"\ntransport = { tcp = \"newreno\", preset = \"rfc\" }\n";

/// Adds bulk transfers of some homes of a layout, or of all if `homes` is empty.
fn simple(mut text: String, layout: &str, gateway: &str, way: &str, homes: &str) -> String {
    let _ = write!(
        text,
        "\n[topology]\n{layout}\ngateway = \"{gateway}\"\n\n[traffic]\nflows = \"{way}\"\n"
    );
    if !homes.is_empty() {
        let _ = writeln!(text, "nodes = {homes}");
    }
    text + "host = \"server\"\n" + TRANSPORT
}

/// Returns networks of nodes at random places.
fn scattered(
    family: Family,
    number: u32,
    head: impl Fn(&Radio) -> String,
) -> Result<(String, String), LabError> {
    let mut chance = Stream::new(u64::from(number), &format!("families/{}", family.name()));
    let mut radio = &RADIOS[number as usize % RADIOS.len()];
    let mut sizes = &NODES_AND_SIDE_M[..];
    if family == Family::Evenings {
        // Rates of present household radios; web pages of an hour need more than 1 Mbit/s.
        radio = &RADIOS[[1, 2, 3, 5][number as usize % 4]];
        sizes = &NODES_AND_SIDE_M[1..5];
    }
    if family == Family::Gateways {
        sizes = &NODES_AND_SIDE_M[..5];
    }
    let (nodes, side) = sizes[chance.below(sizes.len() as u32) as usize];
    let way = if number.is_multiple_of(9) { "both" } else { FLOW_DIRECTIONS[number as usize % 3] };
    let mut text = head(radio);
    // Positions of nodes, and the pairs that decode each other; the seed differs between families.
    let seed = 1000 * (1 + family as u32) + number;
    let layout = format!(
        "[topology]\nrandom = {{ nodes = {nodes}, width = \"{side} m\", seed = {seed} }}\n"
    );
    let bare = format!("{text}\n{layout}gateway = 0\n\n[traffic]\nflows = \"down\"\n");
    let bare = draft_from_toml("families.toml", &bare)?.build()?;
    let gateways = match family {
        Family::Gateways => {
            let many = 2 + number / 2 % 2;
            let mut gateways = apart(&bare, many, number.is_multiple_of(2), &mut chance);
            for _ in 0..100 {
                if all_used(&text, &layout, &gateways, nodes)? {
                    break;
                }
                gateways = apart(&bare, many, false, &mut chance);
            }
            gateways
        }
        _ => vec![0],
    };
    let key = if gateways.len() == 1 {
        "gateway = 0".to_owned()
    } else {
        format!("gateways = {gateways:?}")
    };
    let _ = write!(text, "\n{layout}{key}\n");
    let lossy = family == Family::Lossy || (family == Family::Evenings && number % 3 == 2);
    links(&mut text, &bare, &radio.2, lossy, &mut chance);

    let many = match (family, way) {
        // Every flow adds to the cost of the search for the optimum.
        (Family::Evenings, _) => 6,
        (_, "both") => 4,
        _ => [6, 8][chance.below(2) as usize],
    };
    let mut homes = some(nodes, many, &gateways, &mut chance);
    if family == Family::Gateways {
        let of = gateways_of(&text)?;
        // If all homes use one gateway, others are drawn, up to a hundred times.
        let several = |homes: &[u32]| {
            let through = |n: &u32| of.of(NodeId(*n));
            homes.iter().map(through).collect::<BTreeSet<_>>().len() > 1
        };
        for _ in 0..100 {
            if several(&homes) {
                break;
            }
            homes = some(nodes, many, &gateways, &mut chance);
        }
    }
    match family {
        Family::Evenings => evening(&mut text, &homes, &mut chance),
        Family::Floods => {
            let rate = [200, 400, 700, 1000, 1500, 2500, 3500, 5000][number as usize % 8];
            let (flood, others) = homes.split_first().expect("six homes and more");
            let _ = write!(
                text,
                "\n[traffic]\nflows = \"{way}\"\nnodes = {others:?}\nhost = \"server\"\n{TRANSPORT}\n\
                 [[flow]]\nname = \"flood\"\nfrom = {flood}\nto = \"server\"\n\
                 traffic = {{ kind = \"cbr\", rate = \"{rate} kbit/s\" }}\n\
                 [[flow]]\nname = \"beside the flood\"\nfrom = \"server\"\nto = {flood}\n"
            );
            let about = format!("{nodes} nodes, {}, {way}, {rate} kbit/s from {flood}", radio.1);
            return Ok((about, text));
        }
        _ => {
            let _ = write!(
                text,
                "\n[traffic]\nflows = \"{way}\"\nnodes = {homes:?}\nhost = \"server\"\n{TRANSPORT}"
            );
        }
    }
    if family == Family::Gateways {
        let many = gateways.len();
        return Ok((format!("{nodes} nodes, {many} gateways, {}, {way}", radio.1), text));
    }
    let rate = match radio.2 {
        Mixed::No => radio.1,
        Mixed::ByDistance => "6 to 54 Mbit/s",
        Mixed::ByChance => "1 to 11 Mbit/s",
    };
    let way = if family == Family::Evenings { "households" } else { way };
    let lossy = if lossy { ", lossy" } else { "" };
    Ok((format!("{nodes} nodes, {rate}{lossy}, {way}"), text))
}

/// Writes rates and losses of the links of a network, where they differ.
fn links(text: &mut String, bare: &Scenario, mixed: &Mixed, lossy: bool, chance: &mut Stream) {
    if matches!(mixed, Mixed::No) && !lossy {
        return;
    }
    for link in bare.links().iter().filter(|l| l.from < l.to) {
        let place = |n: NodeId| bare.nodes()[n.index()].position.unwrap_or_default();
        let (a, b) = (place(link.from), place(link.to));
        let far = (a.0 - b.0).hypot(a.1 - b.1);
        let _ = write!(text, "\n[[link]]\nfrom = {}\nto = {}\n", link.from.0, link.to.0);
        let rate = match mixed {
            Mixed::No => None,
            Mixed::ByDistance => {
                let steps = [80.0, 120.0, 160.0, 200.0].iter().filter(|l| far > **l).count();
                Some(["54", "36", "24", "12", "6"][steps])
            }
            Mixed::ByChance => Some(["1", "2", "5.5", "11"][chance.below(4) as usize]),
        };
        if let Some(rate) = rate {
            let _ = writeln!(text, "rate = \"{rate} Mbit/s\"");
        }
        if lossy {
            let _ = writeln!(text, "delivery = {:.3}", 1.0 - chance.uniform(0.0, MOST_LOST));
        }
    }
}

/// Chooses `many` gateways, node 0 first.
///
/// Each next one is as far from the others as possible if `far`, else at random.
fn apart(bare: &Scenario, many: u32, far: bool, chance: &mut Stream) -> Vec<u32> {
    let place = |n: u32| bare.nodes()[n as usize].position.unwrap_or_default();
    let distance = |a: u32, b: u32| {
        let (a, b) = (place(a), place(b));
        (a.0 - b.0).hypot(a.1 - b.1)
    };
    let nodes = bare.wireless().count() as u32;
    let mut chosen = vec![0];
    while chosen.len() < many as usize {
        let left: Vec<u32> = (0..nodes).filter(|n| !chosen.contains(n)).collect();
        let room = |n: u32| chosen.iter().map(|&g| distance(n, g)).fold(f64::INFINITY, f64::min);
        let farthest = left.iter().copied().max_by(|&a, &b| room(a).total_cmp(&room(b)));
        let anywhere = left[chance.below(left.len() as u32) as usize];
        chosen.push(if far { farthest.unwrap_or(anywhere) } else { anywhere });
    }
    chosen
}

/// Returns the gateway of each node in a network without traffic.
fn gateways_of(text: &str) -> Result<Gateways, LabError> {
    let text = format!("{text}\n[traffic]\nflows = \"down\"\n");
    Ok(draft_from_toml("families.toml", &text)?.build()?.gateways().clone())
}

/// Returns true if at least two nodes besides the gateway itself use each gateway.
fn all_used(text: &str, layout: &str, gateways: &[u32], nodes: u32) -> Result<bool, LabError> {
    let of = gateways_of(&format!("{text}\n{layout}gateways = {gateways:?}\n"))?;
    let through = |g: u32| (0..nodes).filter(|n| of.of(NodeId(*n)) == Some(NodeId(g))).count();
    Ok(gateways.iter().all(|g| through(*g) > 2))
}

/// Chooses `many` nodes that are not gateways, in ascending order.
fn some(nodes: u32, many: u32, gateways: &[u32], chance: &mut Stream) -> Vec<u32> {
    let mut left: Vec<u32> = (0..nodes).filter(|n| !gateways.contains(n)).collect();
    let many = (many as usize).min(left.len());
    let mut out: Vec<u32> =
        (0..many).map(|_| left.swap_remove(chance.below(left.len() as u32) as usize)).collect();
    out.sort_unstable();
    out
}

/// Writes the traffic of households in the evening.
///
/// All homes have web traffic, some download over several connections, one makes a backup, two have
/// calls.
fn evening(text: &mut String, homes: &[u32], chance: &mut Stream) {
    let _ = write!(text, "\n[traffic]\n{TRANSPORT}");
    let web = "traffic = { kind = \"http\", size = \"60 kB\", pause = \"6 s\" }\n";
    let call = "traffic = { kind = \"cbr\", rate = \"32 kbit/s\", packet = \"160 B\" }\n";
    for (k, home) in homes.iter().enumerate() {
        let down = format!("\n[[flow]]\nfrom = \"server\"\nto = {home}\n");
        let up = format!("\n[[flow]]\nfrom = {home}\nto = \"server\"\n");
        let _ = write!(text, "{down}{web}");
        match k % 4 {
            0 => {
                let _ = writeln!(text, "{down}connections = {}", 2 + chance.below(3));
            }
            1 => {
                let _ = write!(text, "{up}");
            }
            2 => {
                let _ = write!(text, "{down}{call}{up}{call}");
            }
            _ => {}
        }
    }
}
