//! What each link sees of the others: everything about the graph that the fixed point asks for,
//! found once.

use fairmesh_units::NodeId;

use super::joint::Watch;
use super::links::LinkRegion;
use super::pair::{self, Trouble};
use crate::link::Access;

/// Another link that may spoil this one's frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    pub link: usize,
    pub trouble: Trouble,
    /// Silence of all that this link's ends are aware of and the rival's sender is.
    pub open: Watch,
    /// And of what is hidden from the rival's sender.
    pub clear: Watch,
    /// The position of this link among the rival's rivals.
    pub back: Option<usize>,
}

/// Another link whose refused attempts are heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub link: usize,
    /// Silence of what the hearer and that link's sender are aware of.
    pub open: Watch,
    /// And of what is hidden from that sender.
    pub clear: Watch,
}

/// A node that a link's CTS should silence, and may not reach.
#[derive(Clone, Debug)]
pub(super) struct Stray {
    /// Users of the air that may be on beside the link, and drown its CTS there.
    pub others: u128,
    /// Silence of the link's rivals, and of `others` too.
    pub near: Watch,
    pub quiet: Watch,
    /// The links on which the node sends.
    pub own: Vec<usize>,
    /// The links on which it answers senders that do not hear this link's receiver either, and the
    /// silence of its rivals and of all that such a sender is aware of.
    pub answers: Vec<(usize, Watch)>,
}

/// Another link whose RTS a link does not hear, but the CTS: while that RTS is on the air, the
/// medium still seems idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unheard {
    pub link: usize,
    /// Silence of all that interferes with that link; of what the sender is aware of too; and of
    /// what is hidden too.
    pub near: Watch,
    pub open: Watch,
    pub clear: Watch,
    /// Whether it is the sender that is aware of it, not only the receiver.
    pub seen: bool,
}

/// The surroundings of one link.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    /// Users of the air that its sender is aware of, and those that only its receiver is.
    pub view: u128,
    pub hidden: u128,
    pub idle: Watch,
    pub clear: Watch,
    /// Silence of what is hidden.
    pub unhidden: Watch,
    /// By user in `hidden`: silence of all that excludes that user; of all else that is hidden too.
    pub trains: Vec<(usize, Watch, Watch)>,
    /// The links of these users, one user's after the other's.
    pub members: Vec<usize>,
    pub rivals: Vec<Rival>,
    pub unheard: Vec<Unheard>,
    /// Refused attempts that its sender hears; that only its receiver does.
    pub heard: Vec<Refusal>,
    pub veiled: Vec<Refusal>,
    pub strays: Vec<Stray>,
    /// Streams over it: their index, and if they follow another, the silence of the view and of
    /// what is hidden and kept silent by that one's hop.
    pub streams: Vec<(usize, Option<Watch>)>,
    /// Streams over hidden links, and whether their frames came over this link before.
    pub beyond: Vec<(usize, bool)>,
    /// Streams over it whose frames next cross a link that the sender is aware of, and then one that
    /// is hidden: the stream and those two links.
    pub chased: Vec<(usize, usize, usize)>,
    /// Links of the same sender, this one included.
    pub siblings: Vec<usize>,
}

impl LinkRegion {
    /// Finds the surroundings of every link.
    pub(super) fn survey(&mut self) {
        let n = self.links.len();
        let (mut view, mut hidden) = (vec![0u128; n], vec![0u128; n]);
        for e in 0..n {
            view[e] = 1 << self.user[e];
            for o in (0..n).filter(|&o| o != e) {
                let t = self.trouble(e, o);
                if t.seen {
                    view[e] |= 1 << self.user[o];
                } else if t.hidden {
                    hidden[e] |= 1 << self.user[o];
                }
            }
            hidden[e] &= !view[e];
        }
        self.sights = (0..n).map(|e| self.sight(e, &view, &hidden)).collect();
        for e in 0..n {
            for at in 0..self.sights[e].rivals.len() {
                let other = self.sights[e].rivals[at].link;
                let back = self.sights[other].rivals.iter().position(|r| r.link == e);
                self.sights[e].rivals[at].back = back;
            }
        }
    }

    fn trouble(&self, one: usize, other: usize) -> Trouble {
        pair::trouble(&self.contention, self.access, self.hop(one), self.hop(other))
    }

    fn sight(&mut self, e: usize, view: &[u128], hidden: &[u128]) -> Sight {
        let n = self.links.len();
        let (v, h) = (view[e], hidden[e]);
        let (from, to) = (self.links[e].from, self.links[e].to);
        let mut rivals = Vec::new();
        let (mut heard, mut veiled) = (Vec::new(), Vec::new());
        for o in (0..n).filter(|&o| o != e) {
            let trouble = self.trouble(e, o);
            if trouble.collides() {
                let open = self.joint.watch(v | h | view[o]);
                let clear = self.joint.watch(v | h | view[o] | hidden[o]);
                rivals.push(Rival { link: o, trouble, open, clear, back: None });
            }
            let sender = self.links[o].from;
            if sender == from {
                continue;
            }
            let mut refusal = |known: u128| Refusal {
                link: o,
                open: self.joint.watch(known | view[o]),
                clear: self.joint.watch(known | view[o] | hidden[o]),
            };
            if self.contention.hears(from, sender) {
                heard.push(refusal(v));
            } else if sender != to && self.contention.hears(to, sender) {
                veiled.push(refusal(v | h));
            }
        }
        let trains = bits(h)
            .map(|u| {
                let around = self.joint.near(u);
                (u, self.joint.watch(around), self.joint.watch(around | h))
            })
            .collect();
        let streams = (0..self.streams.len())
            .filter(|&s| self.streams[s].link == e)
            .map(|s| {
                let cause = self.streams[s].after.map(|a| self.user[self.streams[a].link] as usize);
                (s, cause.map(|c| self.joint.watch(v | (h & self.joint.near(c)))))
            })
            .collect();
        let beyond = (0..self.streams.len())
            .filter(|&s| h >> self.user[self.streams[s].link] & 1 == 1)
            .map(|s| (s, self.passed(s, e)))
            .collect();
        Sight {
            view: v,
            hidden: h,
            idle: self.joint.watch(v),
            clear: self.joint.watch(v | h),
            unhidden: self.joint.watch(h),
            trains,
            members: bits(h).flat_map(|u| self.members[u].iter().copied()).collect(),
            rivals,
            heard,
            veiled,
            unheard: self.unheard(e, v, h),
            strays: self.strays(e, view),
            chased: self.chased(e, v, h),
            streams,
            beyond,
            siblings: (0..n).filter(|&o| self.links[o].from == from).collect(),
        }
    }

    /// The links whose RTS neither of a link's ends hears that is to be silenced by it.
    fn unheard(&mut self, e: usize, view: u128, hidden: u128) -> Vec<Unheard> {
        if self.access == Access::Basic {
            return Vec::new();
        }
        let mut out = Vec::new();
        for o in (0..self.links.len()).filter(|&o| o != e) {
            let sender = self.links[o].from;
            let seen = view >> self.user[o] & 1 == 1;
            let veiled = hidden >> self.user[o] & 1 == 1;
            let heard = self.contention.hears(self.links[e].from, sender)
                || (veiled && self.contention.hears(self.links[e].to, sender));
            if (seen || veiled) && !heard {
                let near = self.joint.near(self.user[o] as usize);
                out.push(Unheard {
                    link: o,
                    near: self.joint.watch(near),
                    open: self.joint.watch(near | view),
                    clear: self.joint.watch(near | view | hidden),
                    seen,
                });
            }
        }
        out
    }

    /// The nodes that hear a link's receiver and not its sender.
    fn strays(&mut self, e: usize, view: &[u128]) -> Vec<Stray> {
        if self.access == Access::Basic {
            return Vec::new();
        }
        let n = self.links.len();
        let (from, to) = (self.links[e].from, self.links[e].to);
        let near = self.joint.near(self.user[e] as usize);
        let mut out = Vec::new();
        let nodes: Vec<NodeId> = self.contention.heard_by(to).to_vec();
        for x in nodes {
            if x == to || x == from || self.contention.hears(x, from) {
                continue;
            }
            let own: Vec<usize> = (0..n).filter(|&o| self.links[o].from == x).collect();
            let mut answers = Vec::new();
            for o in (0..n).filter(|&o| self.links[o].to == x) {
                let y = self.links[o].from;
                if !self.contention.hears(y, to) && !self.contention.hears(y, from) {
                    answers.push((o, self.joint.watch(near | view[o])));
                }
            }
            let mut others = 0u128;
            for o in 0..n {
                let l = &self.links[o];
                if self.contention.hears(x, l.from) || self.contention.hears(x, l.to) {
                    others |= 1 << self.user[o];
                }
            }
            others &= !near;
            if own.is_empty() && answers.is_empty() {
                continue;
            }
            let (near, quiet) = (self.joint.watch(near), self.joint.watch(near | others));
            out.push(Stray { others, near, quiet, own, answers });
        }
        out
    }

    /// What chases a link's sender: see [`Sight::chased`].
    fn chased(&self, e: usize, view: u128, hidden: u128) -> Vec<(usize, usize, usize)> {
        let within =
            |set: u128, stream: usize| set >> self.user[self.streams[stream].link] & 1 == 1;
        let next = |of: usize| {
            (of + 1..self.streams.len()).filter(move |&s| self.streams[s].after == Some(of))
        };
        let mut out = Vec::new();
        for s in (0..self.streams.len()).filter(|&s| self.streams[s].link == e) {
            for first in next(s).filter(|&f| within(view, f)) {
                for second in next(first).filter(|&f| within(hidden, f)) {
                    out.push((s, self.streams[first].link, self.streams[second].link));
                }
            }
        }
        out
    }

    /// Whether a stream's frames crossed a link before.
    fn passed(&self, stream: usize, link: usize) -> bool {
        let mut at = self.streams[stream].after;
        while let Some(s) = at {
            if self.streams[s].link == link {
                return true;
            }
            at = self.streams[s].after;
        }
        false
    }
}

/// The positions of the bits that are set.
pub(super) fn bits(mut set: u128) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (set != 0).then(|| {
            let at = set.trailing_zeros() as usize;
            set &= set - 1;
            at
        })
    })
}
