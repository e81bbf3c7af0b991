// The achievable rate region of the four topologies of Rangwala 2008.

use fairmesh_capacity::fair::{FlowSpec, LinkSpec};
use fairmesh_capacity::link::{Access, Traffic};
use fairmesh_capacity::maxmin::Demand;
use fairmesh_capacity::region::{Mesh, Region, Settings};
use fairmesh_units::NodeId;
use fairmesh_wifi::phy::{Phy, Preamble, Rate};

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
    let phy = Phy::dot11b(Preamble::Long);
    let mut hears = vec![Vec::new(); 12];
    let mut links = Vec::new();
    for &(a, b) in t.links {
        for (a, b) in [(a, b), (b, a)] {
            hears[b as usize].push(NodeId(a));
            links.push(LinkSpec { from: NodeId(a), to: NodeId(b), rate: Rate(3), delivery: 1.0 });
        }
    }
    let paths: Vec<Vec<NodeId>> =
        t.paths.iter().map(|p| p.iter().map(|&n| NodeId(n)).collect()).collect();
    let flows: Vec<FlowSpec<'_>> = paths
        .iter()
        .map(|path| FlowSpec { path, traffic, demand: Demand::default() })
        .collect();
    Region::new(&Mesh {
        phy: &phy,
        access,
        hears: &hears,
        links: &links,
        flows: &flows,
        settings: Settings::default(),
    })
    .unwrap()
}

#[test]
fn print() {
    let tcp = Traffic::tcp(512, 0, 1.0, true);
    let udp = Traffic::udp(524, true);
    for (access, traffic) in [(Access::RtsCts, tcp), (Access::RtsCts, udp), (Access::Basic, tcp)] {
        for t in [&STACK, &DIAMOND, &HALF_DIAMOND, &CHAIN_CROSS] {
            let mut r = region(t, access, traffic);
            let p = r.max_min();
            println!("{access:?} {:?}", p.rates.iter().map(|r| (r / 1e3).round()).collect::<Vec<_>>());
            if let Some(s) = r.state(&p.rates) {
                for (l, h) in s.links.iter().zip(r.hops().collect::<Vec<_>>()) {
                    println!("  {}-{}: {:.1}/s refused {:.3} lost {:.3} S {:.2} ms", h.from.0, h.to.0, l.arrivals, l.refused, l.lost, l.service * 1e3);
                }
                for v in &s.nodes {
                    println!("  node {} idle {:.3} rho {:.3}", v.node.0, v.idle, v.utilisation);
                }
            }
        }
    }
}
