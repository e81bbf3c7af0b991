//! Interference relations of each link.
//!
//! They are all graph properties that the fixed point needs, computed once.

use fairmesh_units::NodeId;

use super::independent_sets::{IndependentSets, OffSet, bits};
use super::network::Network;
use super::pair::{self, PairEffects};
use super::types::RegionError;
use crate::link::Access;

/// Another link that may destroy this link's frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    pub link: usize,
    pub effects: PairEffects,
    /// Off-set of all links that both this link's ends and the rival's sender sense.
    pub open: OffSet,
    /// Off-set that adds the links hidden from the rival's sender.
    pub clear: OffSet,
    /// Index of this link among the rival's rivals.
    pub back: Option<usize>,
}

/// Another link with refused attempts that are received.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusedLink {
    pub link: usize,
    /// Off-set of the links that the receiving station and that link's sender sense.
    pub open: OffSet,
    /// Off-set that adds the links hidden from that sender.
    pub clear: OffSet,
}

/// A node that a link's CTS should defer, and may not reach.
#[derive(Clone, Debug)]
pub(super) struct Bystander {
    /// Links that may be active beside it and destroy its CTS there.
    ///
    /// The flags are true if the node is in range of the sender, and of the receiver.
    pub others: Vec<(usize, bool, bool)>,
    /// Off-set of the link's rivals.
    pub near: OffSet,
    /// Off-set of the rivals and of `others`.
    pub quiet: OffSet,
    /// The links on which the node sends.
    pub own: Vec<usize>,
    /// Links on which the node responds to senders out of range of this link's receiver.
    ///
    /// Each has the off-set of its rivals and of all links that such a sender senses.
    pub responds: Vec<(usize, OffSet)>,
    /// Links to receivers in range of this link's receiver, from senders in range of the node.
    ///
    /// Their failed RTS destroy the CTS, too. Each with the off-set as in `responds`.
    pub rts_interferers: Vec<(usize, OffSet)>,
}

/// Another link of which only the CTS is received, not the RTS.
///
/// During that RTS the medium still seems idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct CtsOnly {
    pub link: usize,
    /// Off-set of all links that interfere with that link.
    pub near: OffSet,
    /// Off-set of `near` and of the links that the sender senses.
    pub open: OffSet,
    /// Off-set of `open` and of the hidden links.
    pub clear: OffSet,
    /// True if the sender senses it; false if only the receiver does.
    pub seen: bool,
}

/// Interference relations of one link.
#[derive(Clone, Debug)]
pub(super) struct Interference {
    /// Users of the air that its sender senses, and those that only its receiver senses.
    pub view: u128,
    pub hidden: u128,
    pub idle: OffSet,
    pub clear: OffSet,
    /// Off-set of the hidden users.
    pub unhidden: OffSet,
    /// Off-sets by user in `hidden`.
    ///
    /// The first is of all users that exclude it, the second also of all other hidden ones.
    pub trains: Vec<(usize, OffSet, OffSet)>,
    /// The links of these users, grouped by user.
    pub members: Vec<usize>,
    pub rivals: Vec<Rival>,
    pub cts_only: Vec<CtsOnly>,
    /// Refused attempts that its sender receives, and those that only its receiver does.
    pub received_by_sender: Vec<RefusedLink>,
    pub received_by_receiver: Vec<RefusedLink>,
    pub bystanders: Vec<Bystander>,
    /// Indices of the streams over it.
    ///
    /// With the off-set of the sensed links and of the hidden links that the previous hop defers,
    /// if the stream follows another.
    pub streams: Vec<(usize, Option<OffSet>)>,
    /// Streams over hidden links; true if their frames crossed this link before.
    pub beyond: Vec<(usize, bool)>,
    /// Streams over it that next cross a link which the sender senses, and then a hidden one.
    ///
    /// Each entry has the stream and these two links.
    pub chased: Vec<(usize, usize, usize)>,
    /// Links of the same sender, this one included.
    pub siblings: Vec<usize>,
}

/// A network, interference relations of its links, and the joint distribution of activity.
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
                let t = self.effects(e, o);
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

    fn effects(&self, one: usize, other: usize) -> PairEffects {
        pair::effects(
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
        let (mut received_by_sender, mut received_by_receiver) = (Vec::new(), Vec::new());
        for o in (0..n).filter(|&o| o != e) {
            let effects = self.effects(e, o);
            if effects.collides() {
                let open = self.sets.off_set(v | h | view[o]);
                let clear = self.sets.off_set(v | h | view[o] | hidden[o]);
                rivals.push(Rival { link: o, effects, open, clear, back: None });
            }
            let sender = self.network.links[o].from;
            if sender == from {
                continue;
            }
            let mut refusal = |known: u128| RefusedLink {
                link: o,
                open: self.sets.off_set(known | view[o]),
                clear: self.sets.off_set(known | view[o] | hidden[o]),
            };
            if self.network.contention.in_range(from, sender) {
                received_by_sender.push(refusal(v));
            } else if sender != to && self.network.contention.in_range(to, sender) {
                received_by_receiver.push(refusal(v | h));
            }
        }
        let trains = bits(h)
            .map(|u| {
                let around = self.sets.near(u);
                (u, self.sets.off_set(around), self.sets.off_set(around | h))
            })
            .collect();
        let streams = (0..self.network.streams.len())
            .filter(|&s| self.network.streams[s].link == e)
            .map(|s| {
                let cause = self.network.streams[s]
                    .after
                    .map(|a| self.network.user[self.network.streams[a].link] as usize);
                (s, cause.map(|c| self.sets.off_set(v | (h & self.sets.near(c)))))
            })
            .collect();
        let beyond = (0..self.network.streams.len())
            .filter(|&s| h >> self.network.user[self.network.streams[s].link] & 1 == 1)
            .map(|s| (s, self.passed(s, e)))
            .collect();
        Interference {
            view: v,
            hidden: h,
            idle: self.sets.off_set(v),
            clear: self.sets.off_set(v | h),
            unhidden: self.sets.off_set(h),
            trains,
            members: bits(h).flat_map(|u| self.network.members[u].iter().copied()).collect(),
            rivals,
            received_by_sender,
            received_by_receiver,
            cts_only: self.cts_only(e, v, h),
            bystanders: self.bystanders(e, view),
            chased: self.chased(e, v, h),
            streams,
            beyond,
            siblings: (0..n).filter(|&o| self.network.links[o].from == from).collect(),
        }
    }

    /// Returns the links that defer an end of a link although it does not receive their RTS.
    fn cts_only(&mut self, e: usize, view: u128, hidden: u128) -> Vec<CtsOnly> {
        if self.network.access == Access::Basic {
            return Vec::new();
        }
        let mut out = Vec::new();
        for o in (0..self.network.links.len()).filter(|&o| o != e) {
            let sender = self.network.links[o].from;
            let seen = view >> self.network.user[o] & 1 == 1;
            let receiver_only = hidden >> self.network.user[o] & 1 == 1;
            let sender_in_range =
                self.network.contention.in_range(self.network.links[e].from, sender)
                    || (receiver_only
                        && self.network.contention.in_range(self.network.links[e].to, sender));
            if (seen || receiver_only) && !sender_in_range {
                let near = self.sets.near(self.network.user[o] as usize);
                out.push(CtsOnly {
                    link: o,
                    near: self.sets.off_set(near),
                    open: self.sets.off_set(near | view),
                    clear: self.sets.off_set(near | view | hidden),
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
        let nodes: Vec<NodeId> = self.network.contention.in_range_of(to).to_vec();
        for x in nodes {
            if x == to || x == from || self.network.contention.in_range(x, from) {
                continue;
            }
            let own: Vec<usize> = (0..n).filter(|&o| self.network.links[o].from == x).collect();
            let (mut responds, mut rts_interferers) = (Vec::new(), Vec::new());
            for (o, link) in self.network.links.iter().enumerate() {
                let (y, z) = (link.from, link.to);
                let in_range = |a, b| self.network.contention.in_range(a, b);
                if y == x || !in_range(x, y) || in_range(y, to) || in_range(y, from) {
                    continue;
                }
                if z == x {
                    responds.push((o, self.sets.off_set(near | view[o])));
                } else if in_range(z, to) {
                    rts_interferers.push((o, self.sets.off_set(near | view[o])));
                }
            }
            let (mut users, mut others) = (0u128, Vec::new());
            for o in (0..n).filter(|&o| near >> self.network.user[o] & 1 == 0) {
                let l = &self.network.links[o];
                let in_range = |end| x == end || self.network.contention.in_range(x, end);
                if in_range(l.from) || in_range(l.to) {
                    users |= 1 << self.network.user[o];
                    others.push((o, in_range(l.from), in_range(l.to)));
                }
            }
            if own.is_empty() && responds.is_empty() {
                continue;
            }
            let (near, quiet) = (self.sets.off_set(near), self.sets.off_set(near | users));
            out.push(Bystander { others, near, quiet, own, responds, rts_interferers });
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
