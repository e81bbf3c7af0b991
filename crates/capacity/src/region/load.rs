//! What loads make of links before anything collides: frames, how long they take, and which share of
//! them follows at once on what others send. It changes with the loads only, not from round to round.

use fairmesh_wifi::phy::Phy;

use super::LinkRegion;
use super::solve::{Fixed, secs};
use crate::fair::LinkSpec;
use crate::link::Access;

/// The PHY's spans that every round asks for, s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub slot: f64,
    pub sifs: f64,
    pub difs: f64,
    pub eifs: f64,
    /// The window of a first retry, slots.
    pub second: f64,
}

impl Spans {
    pub fn of(phy: &Phy) -> Self {
        let t = phy.timing();
        Spans {
            slot: secs(t.slot),
            sifs: secs(t.sifs),
            difs: secs(t.difs),
            eifs: secs(t.eifs),
            second: f64::from(t.next_cw(t.cw_min)),
        }
    }
}

/// Durations at one link, s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Mean data frame.
    pub data: f64,
    pub rts: f64,
    pub cts: f64,
    pub ack: f64,
    /// The exchange from the first bit to the last.
    pub exchange: f64,
    /// What a refused attempt costs its sender, DIFS included.
    pub refused: f64,
    /// What a lost data frame costs its sender, DIFS included.
    pub lost: f64,
    /// How long a refused attempt keeps those who heard it from counting.
    pub refused_seen: f64,
    /// How long it keeps a node that heard it from answering others: the next frame's preamble
    /// has to end after the NAV was dropped.
    pub refused_held: f64,
}

impl Times {
    /// A link whose data frames last so long on average.
    fn of(phy: &Phy, access: Access, link: &LinkSpec, data: f64) -> Self {
        let r = phy.response(link.rate);
        let t = Spans::of(phy);
        let (rts, cts, ack) = (secs(r.rts), secs(r.cts), secs(r.ack));
        let answered = data + t.sifs + ack;
        let rx_start = secs(phy.info(r.rate).waveform.rx_start_delay());
        match access {
            Access::RtsCts => Times {
                data,
                rts,
                cts,
                ack,
                exchange: rts + cts + 2.0 * t.sifs + answered,
                refused: rts + secs(r.cts_timeout) + t.difs,
                lost: rts + cts + 2.0 * t.sifs + data + secs(r.ack_timeout) + t.difs,
                refused_seen: rts + secs(phy.nav_reset(r.rate)),
                refused_held: rts + secs(phy.nav_reset(r.rate)) - rx_start,
            },
            Access::Basic => Times {
                data,
                rts: 0.0,
                cts: 0.0,
                ack,
                exchange: answered,
                refused: data + secs(r.ack_timeout) + t.difs,
                lost: data + secs(r.ack_timeout) + t.difs,
                refused_seen: answered,
                refused_held: answered,
            },
        }
    }

    /// The frame that an attempt begins with.
    pub fn opening(&self) -> f64 {
        if self.rts > 0.0 { self.rts } else { self.data }
    }
}

impl LinkRegion {
    /// Frames per link, their mean durations, and where they come from.
    pub(super) fn arrive(&self, f: &mut Fixed) {
        for (h, link) in f.links.iter_mut().enumerate() {
            let spec = &self.links[h];
            let (mut frames, mut airtime, mut relayed) = (0.0, 0.0, 0.0);
            for &(s, _) in &self.sights[h].streams {
                let load = f.streams[s];
                frames += load.frames;
                airtime += load.frames * secs(self.phy.airtime(spec.rate, load.psdu));
                relayed += if self.streams[s].after.is_some() { load.frames } else { 0.0 };
            }
            link.arrivals = frames;
            link.via = if frames > 0.0 { relayed / frames } else { 0.0 };
            let data = if frames > 0.0 { airtime / frames } else { 0.0 };
            link.times = Times::of(&self.phy, self.access, spec, data);
        }
        for h in 0..f.links.len() {
            f.links[h].caused = self.caused(h, f);
            let sight = &self.sights[h];
            let known = sight.view | sight.hidden;
            for (at, rival) in sight.rivals.iter().enumerate() {
                f.links[h].rivals_follow[at] = self.follows(rival.link, f, known);
            }
            let around = self.joint.near(self.user[h] as usize);
            let own = sight.strays.iter().flat_map(|s| &s.own);
            for (at, &o) in own.enumerate() {
                f.links[h].strays_follow[at] = self.follows(o, f, around);
            }
            for (at, &member) in sight.members.iter().enumerate() {
                f.links[h].members_follow[at] = self.follows(member, f, sight.hidden);
            }
        }
    }

    /// The share of a link's frames that come over a user of the air that is among `known`.
    fn follows(&self, link: usize, f: &Fixed, known: u128) -> f64 {
        let frames = f.links[link].arrivals;
        let follows = |&&(s, _): &&(usize, _)| {
            let cause = self.streams[s].after.map(|a| self.user[self.streams[a].link]);
            cause.is_some_and(|u| known >> u & 1 == 1)
        };
        let all = self.sights[link].streams.iter().filter(follows);
        let sum: f64 = all.map(|&(s, _)| f.streams[s].frames).sum();
        if frames > 0.0 { sum / frames } else { 0.0 }
    }

    /// Of what is hidden from a link's sender, the share due to frames that passed it before.
    fn caused(&self, h: usize, f: &Fixed) -> f64 {
        let (mut own, mut all) = (0.0, 0.0);
        for &(s, passed) in &self.sights[h].beyond {
            let time = f.streams[s].frames * f.links[self.streams[s].link].times.exchange;
            all += time;
            own += if passed { time } else { 0.0 };
        }
        if all > 0.0 { own / all } else { 0.0 }
    }
}
