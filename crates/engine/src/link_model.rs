//! The capacity model that controls can query.
//!
//! A query gives links and loads; the result follows from the scenario's MAC. The model contains
//! neither the scenario's traffic nor the state of other nodes.

use fairmesh_capacity::fair::LinkSpec;
use fairmesh_capacity::link::Access;
use fairmesh_capacity::region::{LinkMesh, LinkRegion, Load, NoState, Settings, Stream};
use fairmesh_control::{
    self as control, FrameLoad, FrameStream, LinkModel, LinkRates, LoadedLink, NoAnswer,
};
use fairmesh_phy::frame::DATA_OVERHEAD;
use fairmesh_phy::{Phy, Rate};
use fairmesh_scenario::Link;
use fairmesh_units::{BitRate, NodeId};
use fairmesh_wifi::loss::FrameErrors;

use crate::model::CapacityModel;

/// The MAC of a scenario.
#[derive(Debug)]
pub(crate) struct Dcf {
    phy: Phy,
    access: Access,
    /// Bytes between the IP packet and the PSDU.
    overhead: u32,
    /// Frame errors and rates, sorted by ends.
    errors: Vec<((NodeId, NodeId), FrameErrors, Rate)>,
}

impl Dcf {
    pub fn new(model: &CapacityModel<'_>) -> Self {
        let mac = model.scenario.mac();
        let of = |l: &Link| {
            let rate = l.rate.unwrap_or(mac.rate);
            ((l.from, l.to), model.scenario.errors_of(l), rate)
        };
        let mut errors: Vec<_> = model.scenario.links().iter().map(of).collect();
        errors.sort_by_key(|e| e.0);
        let overhead = mac.llc_bytes + DATA_OVERHEAD;
        Dcf { phy: mac.phy.clone(), access: model.access, overhead, errors }
    }

    /// Returns the PHY rate nearest to a given rate.
    fn nearest(&self, given: BitRate) -> Rate {
        let off = |r: &Rate| self.phy.bit_rate(*r).0.abs_diff(given.0);
        self.phy.rates().min_by_key(off).unwrap_or_else(|| self.phy.highest())
    }
}

impl LinkModel for Dcf {
    fn delivery(&self, link: control::Link, bytes: u32) -> f64 {
        let at = self.errors.binary_search_by_key(&(link.from, link.to), |e| e.0);
        at.map_or(1.0, |at| {
            let (_, errors, rate) = &self.errors[at];
            errors.delivery(bytes + self.overhead, *rate)
        })
    }

    fn prepare(
        &self,
        links: &[LoadedLink],
        pairs: &[(NodeId, NodeId)],
        streams: &[FrameStream],
    ) -> Option<Box<dyn LinkRates>> {
        // Nodes get small indices, so that tables are as large as the neighbourhood, not as the mesh.
        let ends = links.iter().flat_map(|l| [l.link.from, l.link.to]);
        let mut nodes: Vec<NodeId> = ends.chain(pairs.iter().flat_map(|h| [h.0, h.1])).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let number = |n: NodeId| NodeId(nodes.binary_search(&n).map_or(u32::MAX, |at| at as u32));
        let mut neighbours: Vec<Vec<NodeId>> = vec![Vec::new(); nodes.len()];
        for &(a, b) in pairs {
            let (a, b) = (number(a), number(b));
            neighbours[a.index()].push(b);
            neighbours[b.index()].push(a);
        }
        let links: Vec<LinkSpec> = links
            .iter()
            .map(|l| LinkSpec {
                from: number(l.link.from),
                to: number(l.link.to),
                rate: self.nearest(l.rate),
                delivery: l.delivery,
            })
            .collect();
        let streams: Vec<Stream> =
            streams.iter().map(|s| Stream { link: s.link, after: s.after }).collect();
        let region = LinkRegion::new(&LinkMesh {
            phy: &self.phy,
            access: self.access,
            in_range: &neighbours,
            links: &links,
            streams: &streams,
            settings: Settings::default(),
        });
        Some(Box::new(Loaded { region: region.ok()?, overhead: self.overhead }))
    }
}

#[derive(Debug)]
struct Loaded {
    region: LinkRegion,
    overhead: u32,
}

impl Loaded {
    fn load(&self, l: &FrameLoad) -> Load {
        Load { frames: l.packets, psdu: l.bytes + self.overhead }
    }
}

impl LinkRates for Loaded {
    fn busiest(&mut self, loads: &[FrameLoad]) -> Result<f64, NoAnswer> {
        let loads: Vec<Load> = loads.iter().map(|l| self.load(l)).collect();
        self.region.busiest(&loads).map_err(|e| match e {
            NoState::Beyond => NoAnswer::Beyond,
            NoState::NotSettled { .. } => NoAnswer::NotSettled,
            NoState::Outside(_) => NoAnswer::Outside,
        })
    }

    fn airtime(&self, loads: &[FrameLoad]) -> f64 {
        let loads: Vec<Load> = loads.iter().map(|l| self.load(l)).collect();
        self.region.airtime(&loads)
    }
}
