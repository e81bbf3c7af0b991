//! Interference relations of each link: all graph properties that the fixed point needs, computed
//! once.

use fairmesh_units::NodeId;

use super::independent_sets::{IndependentSets, Silence, bits};
use super::network::Network;
use super::pair::{self, Trouble};
use super::types::RegionError;
use crate::link::Access;

/// Another link that may destroy this link's frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    pub link: usize,
    pub trouble: Trouble,
    /// Off-set of all links that both this link's ends and the rival's sender sense.
    pub open: Silence,
    /// Off-set that adds the links hidden from the rival's sender.
    pub clear: Silence,
    /// Index of this link among the rival's rivals.
    pub back: Option<usize>,
}

/// Another link whose refused attempts are received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub link: usize,
    /// Off-set of the links that the receiving station and that link's sender sense.
    pub open: Silence,
    /// Off-set that adds the links hidden from that sender.
    pub clear: Silence,
}

/// A node that a link's CTS should defer, and may not reach.
#[derive(Clone, Debug)]
pub(super) struct Bystander {
    /// Links that may be active beside it and destroy its CTS there. The flags are true if the node
    /// is in range of the sender, and of the receiver.
    pub others: Vec<(usize, bool, bool)>,
    /// Off-sets: of the link's rivals, and of `others` as well.
    pub near: Silence,
    pub quiet: Silence,
    /// The links on which the node sends.
    pub own: Vec<usize>,
    /// Links on which the node responds to senders that are also out of range of this link's
    /// receiver. Each has the off-set of its rivals and of all links that such a sender senses.
    pub answers: Vec<(usize, Silence)>,
    /// Links to receivers in range of this link's receiver, from senders in range of the node.
    /// Their failed RTS destroy the CTS, too. Each with the off-set as in `answers`.
    pub drowners: Vec<(usize, Silence)>,
}

/// Another link of which only the CTS is received, not the RTS: during that RTS the medium still
/// seems idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unheard {
    pub link: usize,
    /// Off-sets: of all links that interfere with that link; these with the links that the sender
    /// senses; these with the hidden ones as well.
    pub near: Silence,
    pub open: Silence,
    pub clear: Silence,
    /// True if the sender senses it; false if only the receiver does.
    pub seen: bool,
}

/// Interference relations of one link.
#[derive(Clone, Debug)]
pub(super) struct Interference {
    /// Users of the air that its sender senses, and those that only its receiver senses.
    pub view: u128,
    pub hidden: u128,
    pub idle: Silence,
    pub clear: Silence,
    /// Off-set of the hidden users.
    pub unhidden: Silence,
    /// By user in `hidden`: off-set of all users that exclude it, and the same with all other
    /// hidden ones.
    pub trains: Vec<(usize, Silence, Silence)>,
    /// The links of these users, grouped by user.
    pub members: Vec<usize>,
    pub rivals: Vec<Rival>,
    pub unheard: Vec<Unheard>,
    /// Refused attempts that its sender receives, and those that only its receiver does.
    pub heard_by_sender: Vec<Refusal>,
    pub heard_by_receiver: Vec<Refusal>,
    pub bystanders: Vec<Bystander>,
    /// Indices of the streams over it. With the off-set of the sensed links and of the hidden links
    /// that the previous hop defers, if the stream follows another.
    pub streams: Vec<(usize, Option<Silence>)>,
    /// Streams over hidden links; true if their frames crossed this link before.
    pub beyond: Vec<(usize, bool)>,
    /// Streams over it whose frames next cross a link that the sender senses, and then a hidden
    /// one: the stream and these two links.
    pub chased: Vec<(usize, usize, usize)>,
    /// Links of the same sender, this one included.
    pub siblings: Vec<usize>,
}

/// A network, the interference relations of each link, and the joint distribution of activity.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub network: Network,
    /// By link.
    pub interference: Vec<Interference>,
    /// Distribution over the users of the air.
    pub sets: IndependentSets,
}

impl Model {
    /// Finds the interference relations of every link.
    pub fn new(network: Network) -> Result<Self, RegionError> {
        let mut sets = network.independent_sets()?;
        let interference = Survey { network: &network, sets: &mut sets }.links();
        if sets.full() {
            Err(network.too_large())
        } else {
            Ok(Model { network, interference, sets })
        }
    }
}

/// Construction state; records each off-set that will be needed.
struct Survey<'a> {
    network: &'a Network,
    sets: &'a mut IndependentSets,
}

impl Survey<'_> {
    fn links(&mut self) -> Vec<Interference> {
        let n = self.network.links.len();
        let (mut view, mut hidden) = (vec![0u128; n], vec![0u128; n]);
        for e in 0..n {
            view[e] = 1 << self.network.user[e];
            for o in (0..n).filter(|&o| o != e) {
                let t = self.trouble(e, o);
                if t.seen {
                    view[e] |= 1 << self.network.user[o];
                } else if t.hidden {
                    hidden[e] |= 1 << self.network.user[o];
                }
            }
            hidden[e] &= !view[e];
        }
        let mut all: Vec<Interference> =
            (0..n).map(|e| self.interference_of(e, &view, &hidden)).collect();
        for e in 0..n {
            for at in 0..all[e].rivals.len() {
                let other = all[e].rivals[at].link;
                let back = all[other].rivals.iter().position(|r| r.link == e);
                all[e].rivals[at].back = back;
            }
        }
        all
    }

    fn trouble(&self, one: usize, other: usize) -> Trouble {
        pair::trouble(
            &self.network.contention,
            self.network.access,
            self.network.hop(one),
            self.network.hop(other),
        )
    }

    fn interference_of(&mut self, e: usize, view: &[u128], hidden: &[u128]) -> Interference {
        let n = self.network.links.len();
        let (v, h) = (view[e], hidden[e]);
        let (from, to) = (self.network.links[e].from, self.network.links[e].to);
        let mut rivals = Vec::new();
        let (mut heard_by_sender, mut heard_by_receiver) = (Vec::new(), Vec::new());
        for o in (0..n).filter(|&o| o != e) {
            let trouble = self.trouble(e, o);
            if trouble.collides() {
                let open = self.sets.silence_of(v | h | view[o]);
                let clear = self.sets.silence_of(v | h | view[o] | hidden[o]);
                rivals.push(Rival { link: o, trouble, open, clear, back: None });
            }
            let sender = self.network.links[o].from;
            if sender == from {
                continue;
            }
            let mut refusal = |known: u128| Refusal {
                link: o,
                open: self.sets.silence_of(known | view[o]),
                clear: self.sets.silence_of(known | view[o] | hidden[o]),
            };
            if self.network.contention.hears(from, sender) {
                heard_by_sender.push(refusal(v));
            } else if sender != to && self.network.contention.hears(to, sender) {
                heard_by_receiver.push(refusal(v | h));
            }
        }
        let trains = bits(h)
            .map(|u| {
                let around = self.sets.near(u);
                (u, self.sets.silence_of(around), self.sets.silence_of(around | h))
            })
            .collect();
        let streams = (0..self.network.streams.len())
            .filter(|&s| self.network.streams[s].link == e)
            .map(|s| {
                let cause = self.network.streams[s]
                    .after
                    .map(|a| self.network.user[self.network.streams[a].link] as usize);
                (s, cause.map(|c| self.sets.silence_of(v | (h & self.sets.near(c)))))
            })
            .collect();
        let beyond = (0..self.network.streams.len())
            .filter(|&s| h >> self.network.user[self.network.streams[s].link] & 1 == 1)
            .map(|s| (s, self.passed(s, e)))
            .collect();
        Interference {
            view: v,
            hidden: h,
            idle: self.sets.silence_of(v),
            clear: self.sets.silence_of(v | h),
            unhidden: self.sets.silence_of(h),
            trains,
            members: bits(h).flat_map(|u| self.network.members[u].iter().copied()).collect(),
            rivals,
            heard_by_sender,
            heard_by_receiver,
            unheard: self.unheard(e, v, h),
            bystanders: self.bystanders(e, view),
            chased: self.chased(e, v, h),
            streams,
            beyond,
            siblings: (0..n).filter(|&o| self.network.links[o].from == from).collect(),
        }
    }

    /// Returns the links that defer an end of a link although that end does not receive their RTS.
    fn unheard(&mut self, e: usize, view: u128, hidden: u128) -> Vec<Unheard> {
        if self.network.access == Access::Basic {
            return Vec::new();
        }
        let mut out = Vec::new();
        for o in (0..self.network.links.len()).filter(|&o| o != e) {
            let sender = self.network.links[o].from;
            let seen = view >> self.network.user[o] & 1 == 1;
            let receiver_only = hidden >> self.network.user[o] & 1 == 1;
            let heard = self.network.contention.hears(self.network.links[e].from, sender)
                || (receiver_only
                    && self.network.contention.hears(self.network.links[e].to, sender));
            if (seen || receiver_only) && !heard {
                let near = self.sets.near(self.network.user[o] as usize);
                out.push(Unheard {
                    link: o,
                    near: self.sets.silence_of(near),
                    open: self.sets.silence_of(near | view),
                    clear: self.sets.silence_of(near | view | hidden),
                    seen,
                });
            }
        }
        out
    }

    /// Returns the nodes in range of a link's receiver but not of its sender.
    fn bystanders(&mut self, e: usize, view: &[u128]) -> Vec<Bystander> {
        if self.network.access == Access::Basic {
            return Vec::new();
        }
        let n = self.network.links.len();
        let (from, to) = (self.network.links[e].from, self.network.links[e].to);
        let near = self.sets.near(self.network.user[e] as usize);
        let mut out = Vec::new();
        let nodes: Vec<NodeId> = self.network.contention.heard_by(to).to_vec();
        for x in nodes {
            if x == to || x == from || self.network.contention.hears(x, from) {
                continue;
            }
            let own: Vec<usize> = (0..n).filter(|&o| self.network.links[o].from == x).collect();
            let (mut answers, mut drowners) = (Vec::new(), Vec::new());
            for (o, link) in self.network.links.iter().enumerate() {
                let (y, z) = (link.from, link.to);
                let hears = |a, b| self.network.contention.hears(a, b);
                if y == x || !hears(x, y) || hears(y, to) || hears(y, from) {
                    continue;
                }
                if z == x {
                    answers.push((o, self.sets.silence_of(near | view[o])));
                } else if hears(z, to) {
                    drowners.push((o, self.sets.silence_of(near | view[o])));
                }
            }
            let (mut users, mut others) = (0u128, Vec::new());
            for o in (0..n).filter(|&o| near >> self.network.user[o] & 1 == 0) {
                let l = &self.network.links[o];
                let hears = |end| x == end || self.network.contention.hears(x, end);
                if hears(l.from) || hears(l.to) {
                    users |= 1 << self.network.user[o];
                    others.push((o, hears(l.from), hears(l.to)));
                }
            }
            if own.is_empty() && answers.is_empty() {
                continue;
            }
            let (near, quiet) = (self.sets.silence_of(near), self.sets.silence_of(near | users));
            out.push(Bystander { others, near, quiet, own, answers, drowners });
        }
        out
    }

    /// Returns the streams described at [`Interference::chased`].
    fn chased(&self, e: usize, view: u128, hidden: u128) -> Vec<(usize, usize, usize)> {
        let within = |set: u128, stream: usize| {
            set >> self.network.user[self.network.streams[stream].link] & 1 == 1
        };
        let next = |of: usize| {
            (of + 1..self.network.streams.len())
                .filter(move |&s| self.network.streams[s].after == Some(of))
        };
        let mut out = Vec::new();
        for s in (0..self.network.streams.len()).filter(|&s| self.network.streams[s].link == e) {
            for first in next(s).filter(|&f| within(view, f)) {
                for second in next(first).filter(|&f| within(hidden, f)) {
                    out.push((
                        s,
                        self.network.streams[first].link,
                        self.network.streams[second].link,
                    ));
                }
            }
        }
        out
    }

    /// Returns true if a stream's frames have crossed a link before.
    fn passed(&self, stream: usize, link: usize) -> bool {
        let mut at = self.network.streams[stream].after;
        while let Some(s) = at {
            if self.network.streams[s].link == link {
                return true;
            }
            at = self.network.streams[s].after;
        }
        false
    }
}
