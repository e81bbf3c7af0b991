//! Effects of loads on links before collisions.
//!
//! These are frames, their durations, and the share that immediately follows frames of other stations. They
//! depend on the loads only and are constant over the rounds.

use super::interference::Model;
use super::timing::{Times, secs};
use super::unknowns::FixedPoint;

/// Computes frames per link, their mean durations, and their origin.
pub(super) fn arrive(m: &Model, f: &mut FixedPoint) {
    for (h, link) in f.links.iter_mut().enumerate() {
        let spec = &m.network.links[h];
        let (mut frames, mut airtime, mut relayed) = (0.0, 0.0, 0.0);
        for &(s, _) in &m.interference[h].streams {
            let load = f.streams[s];
            frames += load.frames;
            airtime += load.frames * secs(m.network.phy.airtime(spec.rate, load.psdu));
            relayed += if m.network.streams[s].after.is_some() { load.frames } else { 0.0 };
        }
        link.arrivals = frames;
        link.via = if frames > 0.0 { relayed / frames } else { 0.0 };
        let data = if frames > 0.0 { airtime / frames } else { 0.0 };
        link.times = Times::of(&m.network.phy, m.network.access, spec, data);
    }
    for h in 0..f.links.len() {
        f.links[h].caused = caused(m, h, f);
        let interference = &m.interference[h];
        let known = interference.view | interference.hidden;
        for (at, rival) in interference.rivals.iter().enumerate() {
            f.links[h].rivals_follow[at] = follows(m, rival.link, f, known);
        }
        let around = m.sets.near(m.network.user[h] as usize);
        let own = interference.bystanders.iter().flat_map(|s| &s.own);
        for (at, &o) in own.enumerate() {
            f.links[h].bystanders_follow[at] = follows(m, o, f, around);
        }
        for (at, &member) in interference.members.iter().enumerate() {
            f.links[h].members_follow[at] = follows(m, member, f, interference.hidden);
        }
    }
}

/// Returns the share of a link's frames that arrive over one of the air users in `known`.
fn follows(m: &Model, link: usize, f: &FixedPoint, known: u128) -> f64 {
    let frames = f.links[link].arrivals;
    let follows = |&&(s, _): &&(usize, _)| {
        let cause = m.network.streams[s].after.map(|a| m.network.user[m.network.streams[a].link]);
        cause.is_some_and(|u| known >> u & 1 == 1)
    };
    let all = m.interference[link].streams.iter().filter(follows);
    let sum: f64 = all.map(|&(s, _)| f.streams[s].frames).sum();
    if frames > 0.0 { sum / frames } else { 0.0 }
}

/// Returns the share of hidden traffic that crossed the link before.
///
/// The traffic is that hidden from the link's sender.
fn caused(m: &Model, h: usize, f: &FixedPoint) -> f64 {
    let (mut own, mut all) = (0.0, 0.0);
    for &(s, passed) in &m.interference[h].beyond {
        let time = f.streams[s].frames * f.links[m.network.streams[s].link].times.exchange;
        all += time;
        own += if passed { time } else { 0.0 };
    }
    if all > 0.0 { own / all } else { 0.0 }
}
