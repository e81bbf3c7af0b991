//! Traffic of every link of a radio, if a run measures it.

use fairmesh_scenario::Scenario;
use fairmesh_units::NodeId;
use fairmesh_wifi::{LinkId, SendReport};

use crate::airs::Airs;

/// Packets of one link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkMeter {
    pub from: NodeId,
    pub to: NodeId,
    link: LinkId,
    /// Packets that the MAC has finished, and the data frames that it sent for them.
    pub packets: u64,
    pub frames: u64,
}

/// All links, sorted by sender and link.
#[derive(Clone, Debug)]
pub(crate) struct LinkMeters(pub Vec<LinkMeter>);

impl LinkMeters {
    pub fn of(scenario: &Scenario, air: &Airs) -> Self {
        let meter = |l: &fairmesh_scenario::Link| {
            let (from, to) = (l.from, l.to);
            Some(LinkMeter { from, to, link: air.link(from, to)?, packets: 0, frames: 0 })
        };
        let mut all: Vec<LinkMeter> = scenario.links().iter().filter_map(meter).collect();
        all.sort_unstable_by_key(|m| (m.from, m.link));
        LinkMeters(all)
    }

    /// Records that the MAC of `node` has finished a packet, delivered or dropped.
    pub fn done(&mut self, node: NodeId, report: &SendReport) {
        let Some(link) = report.packet.link else { return };
        if let Ok(i) = self.0.binary_search_by_key(&(node, link), |m| (m.from, m.link)) {
            self.0[i].packets += 1;
            self.0[i].frames += u64::from(report.data_attempts);
        }
    }
}
