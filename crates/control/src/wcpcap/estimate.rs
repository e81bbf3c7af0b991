//! How much more, or less, every flow of a neighbourhood could have: the largest δ of Rangwala 2008
//! Fig 4.

use fairmesh_units::NodeId;

use super::HEADER;
use super::edge::{Edge, Search};
use super::news::News;
use crate::{FrameLoad, FrameStream, LinkModel, LinkRates, LoadedLink};

/// IP bytes of a bare acknowledgement, without the mechanism's header.
const ACK: u32 = 40;
/// δ is found to at least this part of the largest rate of a flow.
const FINE: f64 = 0.005;
/// Acknowledgements per data packet, where none were counted yet.
const ANSWERS: f64 = 1.0;

/// A stream, and what it carries at a given δ.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Carried {
    stream: FrameStream,
    /// Packets per second at δ = 0, and more of them for each bit/s of δ.
    base: f64,
    step: f64,
    bytes: u32,
}

/// The links of a neighbourhood and what crosses them, ready to be asked about.
#[derive(Debug)]
pub(super) struct Question {
    links: Vec<LoadedLink>,
    hears: Vec<(NodeId, NodeId)>,
    streams: Vec<FrameStream>,
    rates: Option<Box<dyn LinkRates>>,
}

/// What the last answers were about; everything that depends on the graph only is kept.
#[derive(Debug, Default)]
pub(super) struct Questions {
    kept: Vec<Question>,
}

/// Neighbourhoods whose graphs are kept.
const KEPT: usize = 4;

impl Questions {
    /// The prepared question about these links; `None` where the model gives up.
    fn about(
        &mut self,
        model: &dyn LinkModel,
        links: Vec<LoadedLink>,
        hears: Vec<(NodeId, NodeId)>,
        streams: Vec<FrameStream>,
    ) -> Option<&mut Box<dyn LinkRates>> {
        let same = |q: &Question| q.links == links && q.streams == streams && q.hears == hears;
        if let Some(at) = self.kept.iter().position(same) {
            // The one used last stays longest.
            let known = self.kept.remove(at);
            self.kept.push(known);
        } else {
            let rates = model.prepare(&links, &hears, &streams);
            self.kept.push(Question { links, hears, streams, rates });
            if self.kept.len() > KEPT {
                self.kept.remove(0);
            }
        }
        self.kept.last_mut()?.rates.as_mut()
    }

    /// The largest δ in bit/s with x + nδ on all of these links achievable; at least −x of the
    /// fastest flow. `last` is where the last answer was, and is brought up to date. `None` where
    /// the model gives up.
    pub fn headroom(
        &mut self,
        model: &dyn LinkModel,
        news: &[News],
        hears: Vec<(NodeId, NodeId)>,
        utilisation: f64,
        last: &mut Edge,
    ) -> Option<f64> {
        self.most(model, news, streams(news), hears, (utilisation, -fastest(news), 0.0), last)
    }

    /// The largest rate in bit/s that is achievable where every flow has it.
    pub fn alike(
        &mut self,
        model: &dyn LinkModel,
        news: &[News],
        hears: Vec<(NodeId, NodeId)>,
        utilisation: f64,
        last: &mut Edge,
    ) -> Option<f64> {
        let mut carried = streams(news);
        carried.iter_mut().filter(|c| c.step > 0.0).for_each(|c| c.base = 0.0);
        self.most(model, news, carried, hears, (utilisation, 0.0, fastest(news)), last)
    }

    /// The largest achievable δ that is not below a least one, looked for from a first.
    fn most(
        &mut self,
        model: &dyn LinkModel,
        news: &[News],
        carried: Vec<Carried>,
        hears: Vec<(NodeId, NodeId)>,
        (utilisation, least, first): (f64, f64, f64),
        last: &mut Edge,
    ) -> Option<f64> {
        let links = news
            .iter()
            .map(|n| LoadedLink { link: n.link, rate: n.rate, delivery: n.delivery })
            .collect();
        let fastest = fastest(news);
        let nominal = news.iter().map(|n| n.rate.0 as f64).fold(0.0, f64::max);
        let region = self.about(model, links, hears, carried.iter().map(|c| c.stream).collect())?;
        let mut loads: Vec<FrameLoad> = Vec::with_capacity(carried.len());
        let busiest = |delta: f64| {
            loads.clear();
            loads.extend(carried.iter().map(|c| FrameLoad {
                packets: (c.base + c.step * delta).max(0.0),
                bytes: c.bytes,
            }));
            region.busiest(&loads)
        };
        let search = Search {
            level: utilisation,
            range: least..=nominal,
            first,
            base: carried.iter().map(|c| c.base).sum(),
            step: carried.iter().map(|c| c.step).sum(),
            fine: FINE * fastest.max(1e3),
        };
        Some(search.run(last, busiest))
    }
}

/// The rate of the fastest flow on any of these links, bit/s.
pub(super) fn fastest(news: &[News]) -> f64 {
    news.iter().map(News::fastest).fold(0.0, f64::max)
}

/// What crosses links of which this is known. A link's frames are taken to be passed on from the
/// link before it where that brings at least half as many flows; acknowledgements answer the data
/// of the same link where they are not passed on.
fn streams(news: &[News]) -> Vec<Carried> {
    let back =
        |n: &News| news.iter().find(|r| (r.link.from, r.link.to) == (n.link.to, n.link.from));
    let flows = |n: &News, acks: bool| match acks {
        false => n.flows,
        true => back(n).map_or(0, |b| b.flows),
    };
    // The link over which most of these come.
    let before = |n: &News, acks: bool| {
        let into = |(i, b): (usize, &News)| {
            let comes = b.link.to == n.link.from && b.link.from != n.link.to;
            let carries = if acks { b.acks > 0.0 } else { b.data > 0.0 };
            (comes && carries).then_some((flows(b, acks), std::cmp::Reverse(i)))
        };
        let most = news.iter().enumerate().filter_map(into).max()?;
        (2 * most.0 >= flows(n, acks) && most.0 > 0).then_some(most.1.0)
    };
    let mut all: Vec<Carried> = Vec::new();
    // By link, where its stream of data and its stream of acknowledgements stand.
    let mut places = vec![[None::<usize>; 2]; news.len()];
    for acks in [false, true] {
        let carries = |n: &News| if acks { n.acks > 0.0 } else { n.data > 0.0 };
        let mut left: Vec<usize> = (0..news.len()).filter(|&i| carries(&news[i])).collect();
        while !left.is_empty() {
            let ready = |&i: &usize| {
                before(&news[i], acks).is_none_or(|b| places[b][usize::from(acks)].is_some())
            };
            // In a ring nobody is first: then the first of the list.
            let at = left.iter().position(ready).unwrap_or(0);
            let link = left.remove(at);
            let n = &news[link];
            let passed = before(n, acks).and_then(|b| places[b][usize::from(acks)]);
            let answered = || {
                let back =
                    news.iter().position(|r| (r.link.from, r.link.to) == (n.link.to, n.link.from));
                back.and_then(|b| places[b][0])
            };
            let after = if acks { passed.or_else(answered) } else { passed };
            places[link][usize::from(acks)] = Some(all.len());
            all.push(carried(n, back(n), acks, FrameStream { link, after }));
        }
    }
    all
}

fn carried(n: &News, back: Option<&News>, acks: bool, stream: FrameStream) -> Carried {
    // Data packets per second and per bit/s of a flow's rate.
    let packets = |n: &News| n.data / (8.0 * f64::from(n.size.max(1)));
    let more = |n: &News| f64::from(n.flows) / (8.0 * f64::from(n.size.max(1)));
    if acks {
        let answered = back.filter(|b| b.data > 0.0);
        let each = answered.map_or(0.0, |b| {
            let measured = n.acks / packets(b);
            if measured > 0.0 { measured.min(2.0) } else { ANSWERS }
        });
        let step = answered.map_or(0.0, |b| each * more(b));
        Carried { stream, base: n.acks, step, bytes: ACK + HEADER }
    } else {
        Carried { stream, base: packets(n), step: more(n), bytes: n.size }
    }
}
