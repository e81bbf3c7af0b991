//! The medium of a scenario, as the radio takes it.

use fairmesh_units::{NodeId, Span, Time};
use fairmesh_wifi::loss::FrameErrors;
use fairmesh_wifi::{Air, MacConfig, NoiseSource, SensedPair, Setup};

use crate::scenario::Scenario;

impl Scenario {
    /// Builds one medium of stations with the settings `mac`, idle at time zero.
    ///
    /// It has all wireless stations; those of other media are idle there.
    pub fn air(&self, mac: &MacConfig, medium: u8, seed: u64) -> Air {
        let names: Vec<String> =
            self.wireless().map(|n| self.nodes()[n.index()].name.clone()).collect();
        let here = |n: NodeId| self.medium_of(n) == medium;
        let links = || self.links().iter().filter(|l| here(l.from));
        let rates: Vec<_> = links().filter_map(|l| Some((l.from.0, l.to.0, l.rate?))).collect();
        let mut errors = Vec::new();
        for link in links() {
            match self.errors_of(link) {
                FrameErrors::None => {}
                process => errors.push((link.from.0, link.to.0, process)),
            }
        }
        let noise: Vec<NoiseSource> = self
            .interferers()
            .iter()
            .map(|i| NoiseSource {
                name: i.name.clone(),
                sensed_by: i
                    .sensed_by
                    .iter()
                    .filter(|h| here(h.0))
                    .map(|&(n, p)| (n.0, p))
                    .collect(),
                period: i.period,
                on: Span::from_secs_f64(i.period.as_secs_f64() * i.duty.0),
                jitter: i.jitter,
                start: Time::ZERO + i.start,
                stop: i.stop.map_or(Time::NEVER, |s| Time::ZERO + s),
            })
            .collect();
        let of = |all: &[SensedPair]| -> Vec<SensedPair> {
            all.iter().filter(|h| here(NodeId(h.from))).copied().collect()
        };
        Air::new(Setup {
            names: &names,
            mac,
            sensed_pairs: &of(self.sensed_pairs()),
            leaks: &of(self.leaks()),
            rates: &rates,
            errors,
            noise: &noise,
            seed,
        })
    }
}
