//! Possible change of a neighbourhood's rates: the largest δ of Rangwala 2008 Fig 4.

use fairmesh_units::NodeId;

use super::HEADER_BYTES;
use super::headroom_search::{HeadroomSearch, QueueCurve};
use super::link_report::LinkReport;
use crate::{FrameLoad, FrameStream, LinkModel, LinkRates, LoadedLink, NoAnswer};

/// IP bytes of a bare acknowledgement, without the mechanism's header.
const ACK_BYTES: u32 = 40;
/// Precision of δ as a fraction of the largest rate of a flow.
const DELTA_PRECISION: f64 = 0.005;
/// Acknowledgements per data packet, if none were counted yet.
const DEFAULT_ACK_RATIO: f64 = 1.0;

/// A stream, and its load at a given δ.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Carried {
    stream: FrameStream,
    /// Packets per second at δ = 0.
    base: f64,
    /// Further packets per second for each bit/s of δ.
    step: f64,
    bytes: u32,
}

/// The links of a neighbourhood and their streams, prepared for the model.
#[derive(Debug)]
pub(super) struct Question {
    links: Vec<LoadedLink>,
    in_range: Vec<(NodeId, NodeId)>,
    streams: Vec<FrameStream>,
    rates: Option<Box<dyn LinkRates>>,
}

/// Result of a question.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Headroom {
    /// δ, or the common rate of all flows, bit/s.
    pub delta: f64,
    /// Reason for which the model had no answer.
    ///
    /// In this case no two of the links count as active at once, and all frames together may take as much time as a
    /// queue may be busy.
    pub unknown: Option<NoAnswer>,
}

/// The last evaluations, with everything that depends only on the graph.
#[derive(Debug, Default)]
pub(super) struct Questions {
    kept: Vec<Question>,
}

/// Number of neighbourhoods with graphs that are kept.
const CACHED_NEIGHBOURHOODS: usize = 4;

impl Questions {
    /// Returns the prepared model of these links; `None` if the model gives up.
    fn about(
        &mut self,
        model: &dyn LinkModel,
        links: Vec<LoadedLink>,
        in_range: Vec<(NodeId, NodeId)>,
        streams: Vec<FrameStream>,
    ) -> Option<&mut Box<dyn LinkRates>> {
        let same =
            |q: &Question| q.links == links && q.streams == streams && q.in_range == in_range;
        if let Some(at) = self.kept.iter().position(same) {
            // The most recently used one is kept longest.
            let known = self.kept.remove(at);
            self.kept.push(known);
        } else {
            let rates = model.prepare(&links, &in_range, &streams);
            self.kept.push(Question { links, in_range, streams, rates });
            if self.kept.len() > CACHED_NEIGHBOURHOODS {
                self.kept.remove(0);
            }
        }
        self.kept.last_mut()?.rates.as_mut()
    }

    /// Returns the largest δ in bit/s with x + nδ achievable on all of these links.
    ///
    /// It is at least −x of the fastest flow. `last` is the position of the last answer, and is updated.
    /// `None` if the model gives up.
    pub fn headroom(
        &mut self,
        model: &dyn LinkModel,
        reports: &[LinkReport],
        in_range: Vec<(NodeId, NodeId)>,
        utilisation: f64,
        last: &mut QueueCurve,
    ) -> Option<Headroom> {
        self.most(
            model,
            reports,
            streams(reports),
            in_range,
            (utilisation, -fastest(reports), 0.0),
            last,
        )
    }

    /// Returns the largest rate in bit/s that is achievable if every flow has it.
    pub fn alike(
        &mut self,
        model: &dyn LinkModel,
        reports: &[LinkReport],
        in_range: Vec<(NodeId, NodeId)>,
        utilisation: f64,
        last: &mut QueueCurve,
    ) -> Option<Headroom> {
        let mut carried = streams(reports);
        carried.iter_mut().filter(|c| c.step > 0.0).for_each(|c| c.base = 0.0);
        self.most(model, reports, carried, in_range, (utilisation, 0.0, fastest(reports)), last)
    }

    /// Returns the largest achievable δ that is not below a minimum.
    ///
    /// The search starts at `first`.
    fn most(
        &mut self,
        model: &dyn LinkModel,
        reports: &[LinkReport],
        carried: Vec<Carried>,
        in_range: Vec<(NodeId, NodeId)>,
        (utilisation, least, first): (f64, f64, f64),
        last: &mut QueueCurve,
    ) -> Option<Headroom> {
        let links = reports
            .iter()
            .map(|n| LoadedLink { link: n.link, rate: n.rate, delivery: n.delivery })
            .collect();
        let fastest = fastest(reports);
        let nominal = reports.iter().map(|n| n.rate.0 as f64).fold(0.0, f64::max);
        let region =
            self.about(model, links, in_range, carried.iter().map(|c| c.stream).collect())?;
        let mut loads: Vec<FrameLoad> = Vec::with_capacity(carried.len());
        let mut unknown = None;
        let at = |delta: f64, loads: &mut Vec<FrameLoad>| {
            loads.clear();
            loads.extend(carried.iter().map(|c| FrameLoad {
                packets: (c.base + c.step * delta).max(0.0),
                bytes: c.bytes,
            }));
        };
        let search = HeadroomSearch {
            level: utilisation,
            range: least..=nominal,
            first,
            base: carried.iter().map(|c| c.base).sum(),
            step: carried.iter().map(|c| c.step).sum(),
            fine: DELTA_PRECISION * fastest.max(1e3),
        };
        let delta = search.run(last, |delta| {
            if unknown.is_some() {
                return None;
            }
            at(delta, &mut loads);
            match region.busiest(&loads) {
                Ok(busy) => Some(busy),
                Err(NoAnswer::Beyond) => None,
                Err(why) => {
                    unknown = Some(why);
                    None
                }
            }
        });
        if unknown.is_none() {
            return Some(Headroom { delta, unknown });
        }
        *last = QueueCurve::default();
        let delta = search.run(&mut QueueCurve::default(), |delta| {
            at(delta, &mut loads);
            Some(region.airtime(&loads))
        });
        Some(Headroom { delta, unknown })
    }
}

/// Returns the rate of the fastest flow on any of these links, in bit/s.
pub(super) fn fastest(reports: &[LinkReport]) -> f64 {
    reports.iter().map(LinkReport::fastest).fold(0.0, f64::max)
}

/// Returns the streams on links with these reports.
///
/// A link's frames count as forwarded from the link before it if that carries at least half as many flows;
/// acknowledgements answer the data of the same link unless they are forwarded.
fn streams(reports: &[LinkReport]) -> Vec<Carried> {
    let back = |n: &LinkReport| {
        reports.iter().find(|r| (r.link.from, r.link.to) == (n.link.to, n.link.from))
    };
    let flows = |n: &LinkReport, acks: bool| match acks {
        false => n.flows,
        true => back(n).map_or(0, |b| b.flows),
    };
    // The link over which most of these come.
    let before = |n: &LinkReport, acks: bool| {
        let into = |(i, b): (usize, &LinkReport)| {
            let comes = b.link.to == n.link.from && b.link.from != n.link.to;
            let carries = if acks { b.acks > 0.0 } else { b.data > 0.0 };
            (comes && carries).then_some((flows(b, acks), std::cmp::Reverse(i)))
        };
        let most = reports.iter().enumerate().filter_map(into).max()?;
        (2 * most.0 >= flows(n, acks) && most.0 > 0).then_some(most.1.0)
    };
    let mut all: Vec<Carried> = Vec::new();
    // By link, the positions of its stream of data and its stream of acknowledgements.
    let mut places = vec![[None::<usize>; 2]; reports.len()];
    for acks in [false, true] {
        let carries = |n: &LinkReport| if acks { n.acks > 0.0 } else { n.data > 0.0 };
        let mut left: Vec<usize> = (0..reports.len()).filter(|&i| carries(&reports[i])).collect();
        while !left.is_empty() {
            let ready = |&i: &usize| {
                before(&reports[i], acks).is_none_or(|b| places[b][usize::from(acks)].is_some())
            };
            // In a ring no link is first: then the first of the list is taken.
            let at = left.iter().position(ready).unwrap_or(0);
            let link = left.remove(at);
            let n = &reports[link];
            let passed = before(n, acks).and_then(|b| places[b][usize::from(acks)]);
            let answered = || {
                let back = reports
                    .iter()
                    .position(|r| (r.link.from, r.link.to) == (n.link.to, n.link.from));
                back.and_then(|b| places[b][0])
            };
            let after = if acks { passed.or_else(answered) } else { passed };
            places[link][usize::from(acks)] = Some(all.len());
            all.push(carried(n, back(n), acks, FrameStream { link, after }));
        }
    }
    all
}

fn carried(n: &LinkReport, back: Option<&LinkReport>, acks: bool, stream: FrameStream) -> Carried {
    // Data packets per second and per bit/s of a flow's rate.
    let packets = |n: &LinkReport| n.data / (8.0 * f64::from(n.size.max(1)));
    let more = |n: &LinkReport| f64::from(n.flows) / (8.0 * f64::from(n.size.max(1)));
    if acks {
        let answered = back.filter(|b| b.data > 0.0);
        let each = answered.map_or(0.0, |b| {
            let measured = n.acks / packets(b);
            if measured > 0.0 { measured.min(2.0) } else { DEFAULT_ACK_RATIO }
        });
        let step = answered.map_or(0.0, |b| each * more(b));
        Carried { stream, base: n.acks, step, bytes: ACK_BYTES + HEADER_BYTES }
    } else {
        Carried { stream, base: packets(n), step: more(n), bytes: n.size }
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::{BitRate, NodeId};

    use super::*;
    use crate::Link;

    /// A link that carries data of `flows` flows, and no acknowledgements.
    fn report(from: u32, to: u32, flows: u32) -> LinkReport {
        LinkReport {
            link: Link { from: NodeId(from), to: NodeId(to) },
            data: 100e3 * f64::from(flows),
            size: 500,
            flows,
            top: 0.0,
            acks: 0.0,
            rate: BitRate(11_000_000),
            delivery: 1.0,
            limit: 100e3,
            trip: 0.05,
        }
    }

    /// Returns for each link the link with the frames that it forwards.
    fn passes_on(reports: &[LinkReport]) -> Vec<Option<usize>> {
        let all = streams(reports);
        let link_of = |place: usize| all[place].stream.link;
        let of = |link| all.iter().find(|c| c.stream.link == link).unwrap();
        (0..reports.len()).map(|link| of(link).stream.after.map(link_of)).collect()
    }

    #[test]
    fn frames_are_passed_on_and_not_back() {
        // Packets from 2 to 1 are not those from 1 to 2.
        let chain = [report(1, 2, 1), report(2, 3, 1), report(2, 1, 1)];
        assert_eq!(passes_on(&chain), [None, Some(0), None]);
        // Any order of the reports.
        let reports = [report(3, 4, 1), report(2, 3, 1), report(1, 2, 1)];
        assert_eq!(passes_on(&reports), [Some(1), Some(2), None]);
        let ring = [report(1, 2, 1), report(2, 3, 1), report(3, 1, 1)];
        assert_eq!(passes_on(&ring), [None, Some(0), Some(1)], "nobody is first");
    }

    /// Additional packets of a flow are acknowledged at the ratio of its first 25.
    ///
    /// There are at most two acknowledgements each, and one for one if none was counted.
    #[test]
    fn additional_packets_are_acknowledged_at_the_measured_ratio() {
        let data = report(1, 2, 1);
        let stream = FrameStream { link: 0, after: None };
        let answers = |acks, back| {
            let way_back = LinkReport { acks, ..report(2, 1, 0) };
            let carried = carried(&way_back, back, true, stream);
            assert_eq!(carried.base, acks);
            carried.step * 8.0 * 500.0
        };
        for (acks, each) in [(25.0, 1.0), (10.0, 0.4), (100.0, 2.0), (0.0, DEFAULT_ACK_RATIO)] {
            assert!((answers(acks, Some(&data)) - each).abs() < 1e-12, "{acks}");
        }
        assert_eq!(answers(10.0, None), 0.0, "nothing to answer");
    }

    /// A radio that counts the calls to prepare, and gives up.
    #[derive(Debug, Default)]
    struct Counts(std::sync::atomic::AtomicU32);

    impl LinkModel for Counts {
        fn delivery(&self, _: Link, _: u32) -> f64 {
            1.0
        }
        fn prepare(
            &self,
            _: &[LoadedLink],
            _: &[(NodeId, NodeId)],
            _: &[FrameStream],
        ) -> Option<Box<dyn LinkRates>> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            None
        }
    }

    #[test]
    fn a_question_is_prepared_once_for_the_same_links_frames_and_ears() {
        let (model, mut questions) = (Counts::default(), Questions::default());
        let mut asked = |ears: &[(u32, u32)], frames: usize| {
            let in_range = ears.iter().map(|&(a, b)| (NodeId(a), NodeId(b))).collect();
            let streams = vec![FrameStream { link: 0, after: None }; frames];
            questions.about(&model, Vec::new(), in_range, streams);
            model.0.load(std::sync::atomic::Ordering::Relaxed)
        };
        assert_eq!(asked(&[(1, 2)], 1), 1);
        assert_eq!(asked(&[(1, 2)], 1), 1);
        assert_eq!(asked(&[(1, 3)], 1), 2, "others are in range of each other");
        assert_eq!(asked(&[(1, 2)], 2), 3, "other frames");
        assert_eq!(asked(&[(1, 2)], 1), 3, "as at first");
        // The least recently asked one goes first.
        (4..8).for_each(|n| _ = asked(&[(1, n)], 1));
        assert_eq!(asked(&[(1, 2)], 1), 8);
    }

    #[test]
    fn a_link_follows_the_link_with_half_of_its_flows() {
        let brings = |flows| passes_on(&[report(1, 2, flows), report(2, 3, 4)])[1];
        assert_eq!([1, 2, 4].map(brings), [None, Some(0), Some(0)]);
        // The one with the most flows.
        let two = [report(1, 2, 2), report(5, 2, 3), report(2, 3, 5)];
        assert_eq!(passes_on(&two)[2], Some(1));
    }
}
