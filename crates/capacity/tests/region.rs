//! The achievable rate region of the four topologies of Rangwala 2008.

use fairmesh_capacity::fair::{FlowSpec, LinkSpec};
use fairmesh_capacity::link::{Access, LinkModel, Traffic};
use fairmesh_capacity::maxmin::Demand;
use fairmesh_capacity::region::{
    LinkMesh, LinkRegion, Load, MEET_AGAIN, Mesh, NoState, Outside, Region, RegionError, Retries,
    Settings, Stream,
};
use fairmesh_phy::{Phy, Preamble, Rate};
use fairmesh_units::NodeId;

struct Topology {
    links: &'static [(u32, u32)],
    paths: &'static [&'static [u32]],
}

const STACK: Topology = Topology {
    links: &[(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 5), (5, 8)],
    paths: &[&[1, 2, 3], &[4, 5, 6], &[7, 8, 9]],
};
const DIAMOND: Topology = Topology {
    links: &[(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 4), (2, 6), (8, 4), (8, 6)],
    paths: &[&[1, 2, 3], &[4, 5, 6], &[7, 8, 9]],
};
const HALF_DIAMOND: Topology = Topology {
    links: &[(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 5), (8, 4), (8, 6)],
    paths: &[&[1, 2, 3], &[4, 5, 6], &[7, 8, 9]],
};
const CHAIN_CROSS: Topology = Topology {
    links: &[(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (8, 9), (9, 2), (2, 10), (10, 11)],
    paths: &[&[1, 2, 3, 4, 5, 6, 7], &[1, 2], &[8, 9], &[10, 11], &[6, 7]],
};

fn region(t: &Topology, access: Access, traffic: Traffic) -> Region {
    region_with(t, access, traffic, 1.0, Settings::default()).unwrap()
}

struct Parts {
    in_range: Vec<Vec<NodeId>>,
    links: Vec<LinkSpec>,
    paths: Vec<Vec<NodeId>>,
}

fn parts(t: &Topology, delivery: f64) -> Parts {
    let mut in_range = vec![Vec::new(); 12];
    let mut links = Vec::new();
    for &(a, b) in t.links {
        for (a, b) in [(a, b), (b, a)] {
            in_range[b as usize].push(NodeId(a));
            links.push(LinkSpec { from: NodeId(a), to: NodeId(b), rate: Rate(3), delivery });
        }
    }
    let paths = t.paths.iter().map(|p| p.iter().map(|&n| NodeId(n)).collect()).collect();
    Parts { in_range, links, paths }
}

fn region_with(
    t: &Topology,
    access: Access,
    traffic: Traffic,
    delivery: f64,
    settings: Settings,
) -> Result<Region, RegionError> {
    let phy = Phy::dot11b(Preamble::Long);
    let Parts { in_range, links, paths } = parts(t, delivery);
    let flows: Vec<FlowSpec<'_>> = paths
        .iter()
        .map(|path| FlowSpec { path, wires: &[], traffic, demand: Demand::default() })
        .collect();
    Region::new(&Mesh {
        phy: &phy,
        access,
        in_range: &in_range,
        links: &links,
        flows: &flows,
        settings,
    })
}

fn max_min(t: &Topology, access: Access, traffic: Traffic) -> Vec<f64> {
    region(t, access, traffic).max_min().unwrap().rates
}

fn tcp() -> Traffic {
    Traffic::tcp(512, 0, 1.0, true)
}

/// Boundary for equal rates measured in the simulator, in kb/s, without retry limit.
///
/// The traffic is rate-limited TCP, 97 % delivered. The model is within 10 % of it.
#[test]
fn boundaries_of_the_four_topologies_match_the_simulator() {
    for (t, rts, basic) in
        [(&STACK, 277.0, 397.0), (&DIAMOND, 259.0, 361.0), (&HALF_DIAMOND, 292.0, 423.0)]
    {
        for (access, simulated) in [(Access::RtsCts, rts), (Access::Basic, basic)] {
            let rates = max_min(t, access, tcp());
            for r in &rates {
                let ratio = r / 1e3 / simulated;
                assert!((0.9..1.1).contains(&ratio), "{access:?}: {rates:?}, {simulated}");
            }
        }
    }
    // Chain-Cross: 6 → 7 continues to rise where the others stop (Rangwala 2008 §4.2: 420 and 255),
    // and the simulator carries it.
    let rates = max_min(&CHAIN_CROSS, Access::RtsCts, tcp());
    assert!(rates[..4].iter().all(|r| (0.9..1.1).contains(&(r / 222e3))), "{rates:?}");
    assert!((350e3..520e3).contains(&rates[4]), "{rates:?}");
}

/// Attempts per frame and lost data frames of each link match the simulator's counters.
///
/// The run is Half-Diamond, 255 kb/s each way of every flow as paced datagrams, 60 s.
#[test]
fn attempts_and_losses_match_the_simulator() {
    let counted = [
        (1, 2, 2.21, 0.050),
        (3, 2, 2.17, 0.009),
        (4, 5, 2.12, 0.036),
        (5, 4, 1.35, 0.002),
        (5, 6, 1.40, 0.026),
        (6, 5, 2.05, 0.008),
        (7, 8, 2.65, 0.067),
        (8, 9, 1.00, 0.000),
        (9, 8, 2.50, 0.018),
    ];
    let back: Vec<Vec<u32>> =
        HALF_DIAMOND.paths.iter().map(|p| p.iter().rev().copied().collect()).collect();
    let mut mesh = parts(&HALF_DIAMOND, 1.0);
    let ways = mesh.paths.clone().into_iter().map(|p| (p, 588));
    let ways = ways.chain(back.iter().map(|p| (p.iter().map(|&n| NodeId(n)).collect(), 76)));
    let ways: Vec<(Vec<NodeId>, u32)> = ways.collect();
    mesh.paths.clear();
    let flows: Vec<FlowSpec<'_>> = ways
        .iter()
        .map(|(path, psdu)| {
            let traffic =
                Traffic { payload: 512, psdu: *psdu, reverse_psdu: 0, reverse_per_packet: 0.0 };
            FlowSpec { path, wires: &[], traffic, demand: Demand::default() }
        })
        .collect();
    let mut r = Region::new(&Mesh {
        phy: &Phy::dot11b(Preamble::Long),
        access: Access::RtsCts,
        in_range: &mesh.in_range,
        links: &mesh.links,
        flows: &flows,
        settings: Settings::default(),
    })
    .unwrap();
    let state = r.state(&[255e3; 6]).unwrap();
    for (from, to, attempts, lost) in counted {
        let at = r.hops().position(|h| (h.from.0, h.to.0) == (from, to)).unwrap();
        let l = &state.links[at];
        assert!((l.attempts / attempts - 1.0).abs() < 0.15, "{from} → {to}: {l:?}");
        assert!((l.lost - lost).abs() < 0.03, "{from} → {to}: {l:?}");
    }
}

/// Rangwala 2008 §4.2: 300 kb/s each on the Stack, and 4 → 5 is the congested link.
#[test]
fn the_stack_matches_the_paper() {
    let mut r = region(&STACK, Access::RtsCts, tcp());
    let rates = r.max_min().unwrap().rates;
    assert!(rates.iter().all(|r| (r / 300e3 - 1.0).abs() < 0.2), "{rates:?}");
    let inside: Vec<f64> = rates.iter().map(|r| r * 0.999).collect();
    let state = r.state(&inside).unwrap();
    let busiest = state.nodes.iter().max_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    assert_eq!(busiest.unwrap().node, NodeId(4));
    assert_eq!(r.achievable(&inside), Ok(true));
    let outside: Vec<f64> = rates.iter().map(|r| r * 1.01).collect();
    assert_eq!(r.achievable(&outside), Ok(false));
}

/// Fig 2: the region is not convex.
///
/// When the outer flows stop, the middle one gets the whole link.
#[test]
fn the_stacks_region_is_not_convex() {
    let mut r = region(&STACK, Access::RtsCts, tcp());
    let points = r.section(&[0, 2], &[1], 4).unwrap().points;
    let ((alone, _), (_, middle)) = (points[0], points[4]);
    assert!((alone / middle - 1.0).abs() < 0.01, "a lone flow is a lone flow");
    let (x, y) = points[2];
    assert!(x / alone + y / middle < 1.0, "{points:?}");
    // A smaller U and losses shrink it.
    let fair = r.max_min().unwrap().rates[1];
    let point = r.proportional().unwrap().rates;
    let worth = |p: &[f64]| p.iter().map(|r| r.ln()).sum::<f64>();
    assert!(worth(&point) >= worth(&[fair; 3]) - 1e-3);
}

/// One link: the closed form of the lone saturated sender, including losses.
#[test]
fn a_lone_link_is_the_closed_form() {
    let phy = Phy::dot11b(Preamble::Long);
    let path = [NodeId(0), NodeId(1)];
    let in_range = [vec![NodeId(1)], vec![NodeId(0)]];
    for access in [Access::Basic, Access::RtsCts] {
        for delivery in [1.0, 0.9] {
            for utilisation in [1.0, 0.7] {
                let traffic = Traffic::udp(1000, true);
                let link = LinkSpec { from: path[0], to: path[1], rate: Rate(3), delivery };
                let flow = FlowSpec { path: &path, wires: &[], traffic, demand: Demand::default() };
                let settings = Settings { utilisation, ..Settings::default() };
                let mut r = Region::new(&Mesh {
                    phy: &phy,
                    access,
                    in_range: &in_range,
                    links: &[link],
                    flows: &[flow],
                    settings,
                })
                .unwrap();
                let rate = r.max_min().unwrap().rates[0];
                let closed = LinkModel { access, delivery, ..LinkModel::perfect(&phy, Rate(3)) }
                    .capacity(&traffic);
                let ratio = rate / (closed * utilisation);
                assert!((ratio - 1.0).abs() < 0.01, "{access:?} {delivery}: {rate}, {closed}");
            }
        }
    }
}

#[test]
fn channel_losses_demands_and_settings() {
    let lossless = max_min(&STACK, Access::RtsCts, tcp())[1];
    // 10 % loss on each link costs about 10 % of the rates (§4.3, Fig 13).
    let mut lossy = region_with(&STACK, Access::RtsCts, tcp(), 0.9, Settings::default()).unwrap();
    let rate = lossy.max_min().unwrap().rates[1];
    assert!((0.75..0.98).contains(&(rate / lossless)), "{rate} of {lossless}");
    let mac = Settings { retries: Retries::Mac, ..Settings::default() };
    let mut limited = region_with(&STACK, Access::RtsCts, tcp(), 1.0, mac).unwrap();
    let rates = limited.max_min().unwrap().rates;
    assert!(rates.iter().all(|&r| r > 0.5 * lossless && r < 1.05 * lossless), "{rates:?}");
    for bad in [0.0, 1.5, f64::NAN] {
        let settings = Settings { utilisation: bad, ..Settings::default() };
        let refused = region_with(&STACK, Access::RtsCts, tcp(), 1.0, settings);
        assert_eq!(refused.err(), Some(RegionError::BadSettings));
    }
}

/// Queries with links and loads give the results of queries with flows.
#[test]
fn queries_by_links_and_by_flows_agree() {
    let phy = Phy::dot11b(Preamble::Long);
    let traffic = tcp();
    let mut in_range = vec![Vec::new(); 12];
    for &(a, b) in STACK.links {
        in_range[a as usize].push(NodeId(b));
    }
    // Data forward and acknowledgments backward, flow by flow.
    let (mut links, mut streams, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    for path in STACK.paths {
        let back: Vec<u32> = path.iter().rev().copied().collect();
        let mut after = None;
        for (way, psdu) in [(path.to_vec(), traffic.psdu), (back, traffic.reverse_psdu)] {
            for step in way.windows(2) {
                let (from, to) = (NodeId(step[0]), NodeId(step[1]));
                streams.push(Stream { link: links.len(), after });
                after = Some(streams.len() - 1);
                links.push(LinkSpec { from, to, rate: Rate(3), delivery: 1.0 });
                loads.push(Load { frames: 0.0, psdu });
            }
        }
    }
    let settings = Settings { utilisation: 0.7, ..Settings::default() };
    let mesh = LinkMesh {
        phy: &phy,
        access: Access::RtsCts,
        in_range: &in_range,
        links: &links,
        streams: &streams,
        settings,
    };
    let mut r = LinkRegion::new(&mesh).unwrap();
    let most = r.reach(&loads, &vec![1.0; loads.len()], 0.0..=1000.0, 0.01).unwrap() * 4096.0;
    let mut flows = region_with(&STACK, Access::RtsCts, traffic, 1.0, settings).unwrap();
    let rate = flows.max_min().unwrap().rates[1];
    assert!((most / rate - 1.0).abs() < 0.01, "{most}, {rate}");
    // A base beyond the boundary needs a negative step; the last step is out of range.
    let heavy: Vec<Load> = loads.iter().map(|l| Load { frames: 80.0, ..*l }).collect();
    let less = r.reach(&heavy, &vec![1.0; loads.len()], -80.0..=80.0, 0.01).unwrap();
    assert!((80.0 + less - most / 4096.0).abs() < 0.1, "{less}");
    let absurd: Vec<Load> = loads.iter().map(|l| Load { frames: 1e12, ..*l }).collect();
    assert_eq!(r.achievable(&absurd), Ok(false));
    let bad = [Stream { link: 0, after: Some(0) }];
    let refused = LinkRegion::new(&LinkMesh { streams: &bad, ..mesh });
    assert_eq!(refused.err(), Some(RegionError::BadStream(0)));
}

/// Random numbers below `n`, from a separate stream.
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |n| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    }
}

/// A mesh of nodes on a square, with streams over random paths.
///
/// Nodes are in range of each other up to a distance.
fn random_mesh(
    draw: &mut impl FnMut(u64) -> u64,
) -> (Vec<Vec<NodeId>>, Vec<LinkSpec>, Vec<Stream>) {
    let n = 6 + draw(8) as usize;
    let at: Vec<(i64, i64)> = (0..n).map(|_| (draw(100) as i64, draw(100) as i64)).collect();
    let near = |a: usize, b: usize| {
        a != b && (at[a].0 - at[b].0).pow(2) + (at[a].1 - at[b].1).pow(2) < 40 * 40
    };
    let in_range: Vec<Vec<NodeId>> = (0..n)
        .map(|a| (0..n).filter(|&b| near(a, b)).map(|b| NodeId(b as u32)).collect())
        .collect();
    let (mut links, mut streams): (Vec<LinkSpec>, Vec<Stream>) = (Vec::new(), Vec::new());
    for _ in 0..2 + draw(4) {
        let (mut node, mut after) = (draw(n as u64) as usize, None);
        for _ in 0..1 + draw(4) {
            let Some(&next) = in_range[node].get(draw(1 + in_range[node].len() as u64) as usize)
            else {
                break;
            };
            let (from, to) = (NodeId(node as u32), next);
            let known = links.iter().position(|l| (l.from, l.to) == (from, to));
            let link = known.unwrap_or_else(|| {
                let delivery = 1.0 - 0.05 * draw(4) as f64;
                links.push(LinkSpec { from, to, rate: Rate(3), delivery });
                links.len() - 1
            });
            streams.push(Stream { link, after });
            (node, after) = (next.index(), Some(streams.len() - 1));
        }
    }
    (in_range, links, streams)
}

/// Compares warm starts with cold starts over sequences of queries.
///
/// They run on 60 random networks, with loads that drift, jump, and exceed the boundary.
#[test]
fn warm_starts_give_the_results_of_cold_starts() {
    let phy = Phy::dot11b(Preamble::Long);
    let (mut draw, mut asked, mut beyond) = (draws(11), 0, 0);
    for network in 0..60 {
        let access = if network % 3 == 0 { Access::Basic } else { Access::RtsCts };
        let (in_range, links, streams) = random_mesh(&mut draw);
        let mesh = LinkMesh {
            phy: &phy,
            access,
            in_range: &in_range,
            links: &links,
            streams: &streams,
            settings: Settings::default(),
        };
        let mut warm = LinkRegion::new(&mesh).unwrap();
        let shape: Vec<f64> = streams.iter().map(|_| 0.5 + draw(100) as f64 / 100.0).collect();
        let mut level = 40.0 / streams.len().max(1) as f64;
        for step in 0..25 {
            level *= if step % 7 == 6 {
                0.3 + draw(30) as f64 / 10.0
            } else {
                0.9 + draw(30) as f64 / 100.0
            };
            let load = |s: &f64| Load { frames: s * level, psdu: 588 };
            let loads: Vec<Load> = shape.iter().map(load).collect();
            let cold = LinkRegion::new(&mesh)
                .unwrap()
                .state(&loads)
                .map(|s| s.nodes.iter().map(|v| v.utilisation).fold(0.0, f64::max));
            asked += 1;
            match (warm.busiest(&loads), cold) {
                (Err(NoState::Beyond), Err(NoState::Beyond)) => beyond += 1,
                (Ok(w), Ok(c)) if (w - c).abs() < 2e-4 * (1.0 + c) => {}
                (w, c) => panic!("network {network}, step {step}: warm {w:?}, cold {c:?}"),
            }
        }
    }
    assert!(asked == 1500 && beyond > 50 && beyond < 750, "{beyond} of {asked}");
}

/// Two senders out of range of each other and one receiver, without RTS/CTS.
///
/// Frames that last most of the largest window collide repeatedly, which is reported as an error instead of a
/// boundary. Shorter frames have a boundary, and so do long ones after RTS/CTS.
#[test]
fn networks_outside_the_model_are_an_error_without_a_boundary() {
    let phy = Phy::dot11b(Preamble::Long);
    let paths = [[NodeId(0), NodeId(1)], [NodeId(2), NodeId(1)]];
    let in_range = [vec![NodeId(1)], vec![NodeId(0), NodeId(2)], vec![NodeId(1)]];
    let reach = |access, rate, bytes| {
        let links: Vec<LinkSpec> = paths
            .iter()
            .map(|p| LinkSpec { from: p[0], to: p[1], rate: Rate(rate), delivery: 1.0 })
            .collect();
        let traffic = Traffic::udp(bytes, true);
        let flows: Vec<FlowSpec<'_>> = paths
            .iter()
            .map(|path| FlowSpec { path, wires: &[], traffic, demand: Demand::default() })
            .collect();
        let settings = Settings::default();
        Region::new(&Mesh {
            phy: &phy,
            access,
            in_range: &in_range,
            links: &links,
            flows: &flows,
            settings,
        })
        .unwrap()
        .max_min()
    };
    let refused = reach(Access::Basic, 0, 1460).unwrap_err();
    let NoState::Outside(Outside::LongFrames { one, other, again }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((one.from, other.from), (NodeId(0), NodeId(2)));
    // 12.5 ms of a window of 20.5 ms: 1 − (1 − 0.61)².
    assert!((again - 0.85).abs() < 0.02 && again > MEET_AGAIN, "{again}");
    let line = refused.to_string();
    assert!(!line.contains('\n') && line.contains("meet again with probability 0.8"), "{line}");
    for (access, rate, bytes) in
        [(Access::Basic, 0, 512), (Access::Basic, 3, 1460), (Access::RtsCts, 0, 1460)]
    {
        assert!(reach(access, rate, bytes).unwrap().rates[0] > 50e3);
    }
}

/// Airtime of all frames in sequence: the lone link's capacity, for any range relation.
#[test]
fn airtime_is_that_of_frames_in_sequence() {
    let phy = Phy::dot11b(Preamble::Long);
    for access in [Access::Basic, Access::RtsCts] {
        let traffic = Traffic::udp(1000, true);
        let ends = [(0, 1), (2, 3)].map(|(a, b)| (NodeId(a), NodeId(b)));
        let links = ends.map(|(from, to)| LinkSpec { from, to, rate: Rate(1), delivery: 0.5 });
        let in_range: [Vec<NodeId>; 4] = [(); 4].map(|()| Vec::new());
        let streams = [0, 1].map(|link| Stream { link, after: None });
        let settings = Settings::default();
        let mesh = LinkMesh {
            phy: &phy,
            access,
            in_range: &in_range,
            links: &links,
            streams: &streams,
            settings,
        };
        let region = LinkRegion::new(&mesh).unwrap();
        let one = LinkModel { access, ..LinkModel::perfect(&phy, Rate(1)) }.capacity(&traffic);
        let frames = one / 8000.0 / 4.0;
        // A quarter of a perfect link's capacity, on two links that lose half: all of the time.
        let airtime = region.airtime(&[Load { frames, psdu: traffic.psdu }; 2]);
        assert!((airtime - 1.0).abs() < 0.01, "{access:?}: {airtime}");
    }
}
