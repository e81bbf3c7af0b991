//! The data plane of departure times: an eBPF program, `fq` and nftables.
//!
//! nftables gives packets their class, as for HTB, with all its rules and its dead man's switch. The program of
//! [`crate::bpf::pace`] reads it and sets the time at which the packet may leave; `fq` at the root holds the packet
//! until then. A class is a record of 64 bytes in memory that the daemon shares with the program, so limits and
//! counters need no system call.
//!
//! Each subscriber has one FIFO, bounded by time at its limit. There is no limit of all subscribers together, and no
//! queue of another kind in a class.

//!
//! Files: `mod` the calls, `port` one interface, `pace` the parameters of a limit.

mod pace;
mod port;

use std::collections::BTreeMap;

use super::htb::audit::{self, AuditState, Counted};
use super::htb::find::{self, Root};
use super::htb::{build, foreign, sides};
use super::rules::RulesInForce;
use super::*;
use crate::link;
use crate::netlink::Netlink;
use crate::nft;
use crate::tc::Handle;
use crate::tc::foreign::EGRESS;
use pace::Pace;
use port::Port;

/// Field of packets that carries the class.
///
/// The program reads it before a driver can overwrite it.
const CLASSIFIER: [Classifier; 2] = [Classifier::Priority; 2];

/// Least packets for a verdict on the classes.
const VERDICT_PACKETS: u64 = 20;

#[derive(Debug)]
struct State {
    layout: Layout,
    ports: [Port; 2],
    rules: RulesInForce,
    /// Limits, by class and direction.
    limits: BTreeMap<u16, [Option<BitRate>; 2]>,
    /// Last counters of `verify`: classified and arrived.
    seen: [(u64, u64); 2],
    watch: AuditState,
}

/// The data plane of departure times, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct EdtShaper {
    netlink: Netlink,
    netfilter: Netlink,
    state: Option<State>,
}

impl EdtShaper {
    /// Opens the netlink sockets; changes nothing.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn open() -> Result<Self, Error> {
        let (netlink, netfilter) = (Netlink::open()?, Netlink::netfilter()?);
        Ok(EdtShaper { netlink, netfilter, state: None })
    }

    /// Refuses a layout that needs a property of HTB, by name.
    ///
    /// # Errors
    /// [`LayoutError::Shaper`], [`LayoutError::ShaperWithAggregate`].
    pub fn accepts(layout: &Layout) -> Result<(), LayoutError> {
        if layout.aggregate {
            return Err(LayoutError::ShaperWithAggregate);
        }
        match layout.leaf {
            LeafChoice::Best | LeafChoice::Only(LeafKind::Bfifo) => Ok(()),
            LeafChoice::Only(leaf) => Err(LayoutError::Shaper(leaf)),
        }
    }

    /// True if this kernel has all that the data plane needs. Changes nothing.
    pub fn works() -> bool {
        port::works()
    }

    /// Forgets the installation, which detaches the programs.
    pub(super) fn forget(&mut self) {
        self.state = None;
    }

    fn build(&mut self, layout: &Layout) -> Result<Installed, Error> {
        let links = [
            link::find(&mut self.netlink, layout.mesh.name())?,
            link::find(&mut self.netlink, layout.wired.name())?,
        ];
        let mut roots = Vec::new();
        for link in &links {
            roots.push(find::survey(&mut self.netlink, link, layout.handle)?);
        }
        let tables = find::tables(layout, true)?;
        let adopted =
            !tables.is_empty() || roots.iter().any(|r| matches!(r, Root::Fq | Root::Ours));
        let mut replaced = Vec::new();
        let mut notes = Vec::new();
        let mut put = |netlink: &mut Netlink, side: usize| {
            let (link, root) = (&links[side], &roots[side]);
            match root {
                Root::Default(kind) => replaced.push(format!("{}: {kind}", link.name)),
                Root::Ours => {
                    build::clear(netlink, link, layout.handle)?;
                    notes.push(format!("{}: HTB of an earlier run was replaced", link.name));
                }
                Root::Fq | Root::Foreign { .. } => {}
            }
            Port::put(netlink, link, layout, *root == Root::Fq)
        };
        let ports = [put(&mut self.netlink, 0)?, put(&mut self.netlink, 1)?];
        let place = Place { root: Handle::new(layout.handle, 0), grouped: false };
        let indexes = links.each_ref().map(|l| l.index);
        let rules = RulesInForce::install(&mut self.netfilter, layout, CLASSIFIER, place, indexes)?;
        if !crate::probe::egress_hook() && layout.subscribers.iter().any(|s| !s.macs.is_empty()) {
            notes.push(NO_EGRESS_HOOK.into());
        }
        self.state = Some(State {
            layout: layout.clone(),
            ports,
            rules,
            limits: layout.subscribers.iter().map(|s| (s.class.0, [None; 2])).collect(),
            seen: [(0, 0); 2],
            watch: AuditState::default(),
        });
        self.renew()?;
        Ok(Installed {
            shaper: ShaperKind::Edt,
            leaf: LeafKind::Bfifo,
            classifier: CLASSIFIER,
            adopted,
            swept: 0,
            headers: links.each_ref().map(|l| l.header),
            replaced,
            notes,
        })
    }

    /// Returns the packets that nftables has given a class, by direction.
    fn classified(&mut self) -> Result<[u64; 2], Error> {
        let table = &self.state.as_ref().ok_or(Error::NotInstalled)?.layout.table;
        let counters = nft::counters::packets(&mut self.netfilter, table)?;
        let count = |name| counters.get(name).copied().unwrap_or(0);
        Ok(["classified_down", "classified_up"].map(count))
    }
}

impl State {
    /// Checks that the interfaces have our program and qdisc.
    fn check(&mut self, netlink: &mut Netlink) -> Result<(), Error> {
        self.ports.iter_mut().try_for_each(|port| port.check(netlink))
    }

    fn set(&mut self, change: &RateChange) -> Result<(), Error> {
        let RateChange { slot: Slot { class, direction }, rate } = *change;
        if class == ClassId::ALL {
            // Without a limit there is nothing to do.
            return rate.map_or(Ok(()), |_| {
                Err(Error::Missing {
                    what: "a limit of all subscribers together, with departure times".into(),
                    hint: "set shaping.shaper = \"htb\", or choose a control without one".into(),
                })
            });
        }
        let d = direction.index();
        let limits = self.limits.get_mut(&class.0).ok_or(LayoutError::Class(class))?;
        limits[d] = rate;
        self.ports[d].set(class, Pace::of(rate, &self.layout));
        Ok(())
    }
}

impl Shaper for EdtShaper {
    fn probe(&mut self) -> Result<Features, Error> {
        crate::probe::features()
    }

    fn install(&mut self, layout: &Layout) -> Result<Installed, Error> {
        layout.check()?;
        EdtShaper::accepts(layout)?;
        self.state = None;
        sides::check(&mut self.netlink, layout)?;
        let built = self.build(layout);
        if let Err(e) = &built
            && !e.is_busy()
        {
            self.state = None;
            let foreign = matches!(e, Error::ForeignQdisc { .. } | Error::ForeignTable { .. });
            if !foreign {
                let _ = build::remove(&mut self.netlink, layout);
            }
        }
        built
    }

    fn relayout(&mut self, layout: &Layout) -> Result<RelayoutResult, Error> {
        layout.check()?;
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        state.layout.refuse_fixed(layout)?;
        let mut relaid = RelayoutResult::default();
        let by_class = |l: &Layout| -> BTreeMap<u16, Subscriber> {
            l.subscribers.iter().map(|s| (s.class.0, s.clone())).collect()
        };
        let (old, new) = (by_class(&state.layout), by_class(layout));
        for (class, s) in &new {
            match old.get(class) {
                Some(before) => relaid.changed += usize::from(before != s),
                None => {
                    relaid.added += 1;
                    state.ports.iter_mut().for_each(|port| port.begin(ClassId(*class)));
                    state.limits.insert(*class, [None; 2]);
                }
            }
        }
        let State { rules, layout: before, .. } = &mut *state;
        if rules.change(&mut self.netfilter, (&*before, layout), CLASSIFIER)? {
            state.seen.iter_mut().for_each(|(classified, _)| *classified = 0);
            state.watch.restart();
        }
        for class in old.keys().filter(|class| !new.contains_key(class)) {
            relaid.removed += 1;
            state.limits.remove(class);
            // Its packets keep their departure times; the class has no packets any more.
            state.ports.iter_mut().for_each(|port| port.set(ClassId(*class), Pace::UNLIMITED));
        }
        state.layout = layout.clone();
        for port in &mut state.ports {
            port.resize(&mut self.netlink, layout)?;
        }
        Ok(relaid)
    }

    fn set_rates(&mut self, changes: &[RateChange]) -> Result<(), Error> {
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        let mut result = Ok(());
        for change in changes {
            result = result.and(state.set(change));
        }
        result
    }

    fn sample(&mut self, out: &mut Vec<ClassCounters>) -> Result<(), Error> {
        out.clear();
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        state.check(&mut self.netlink)?;
        let now = port::now()?;
        for direction in Direction::BOTH {
            let port = &mut state.ports[direction.index()];
            for &class in state.limits.keys() {
                out.push(port.counters(Slot { class: ClassId(class), direction }, now));
            }
        }
        Ok(())
    }

    fn interface(&mut self, which: Side) -> Result<InterfaceCounters, Error> {
        let state = self.state.as_ref().ok_or(Error::NotInstalled)?;
        let port = &state.ports[which as usize];
        let link = link::by_index(&mut self.netlink, port.index, &port.name)?;
        let root = port.root(&mut self.netlink)?;
        let all = port.all();
        let (unmapped, bypass) = (port.unmapped(), port.bypass());
        // Unmapped traffic that has a share is in one of the subscribers' classes.
        let shared = state.layout.unmapped.map_or_else(Default::default, |c| port.of(c));
        let d = if which == Side::Mesh { "down" } else { "up" };
        let counters = nft::counters::packets(&mut self.netfilter, &state.layout.table)?;
        let count = |name: &str| counters.get(&format!("{name}_{d}")).copied().unwrap_or(0);
        Ok(InterfaceCounters {
            name: link.name,
            index: link.index,
            up: link.up,
            tx_bytes: link.counters.tx_bytes,
            tx_packets: link.counters.tx_packets,
            tx_dropped: link.counters.tx_dropped,
            rx_bytes: link.counters.rx_bytes,
            rx_packets: link.counters.rx_packets,
            shaped_bytes: root.bytes,
            shaped_packets: root.packets,
            shaped_drops: u64::from(root.drops).saturating_add(all.drops),
            subscriber_bytes: all.bytes.saturating_sub(shared.bytes),
            subscriber_packets: all.packets.saturating_sub(shared.packets),
            unmapped_bytes: unmapped.bytes.saturating_add(shared.bytes),
            unmapped_packets: unmapped.packets.saturating_add(shared.packets),
            bypass_bytes: bypass.bytes,
            bypass_packets: bypass.packets,
            classified_packets: count("classified"),
            unmapped_ipv6_packets: count("unmapped6"),
        })
    }

    fn sent(&mut self, which: Side) -> Result<SentCounters, Error> {
        let state = self.state.as_ref().ok_or(Error::NotInstalled)?;
        let port = &state.ports[which as usize];
        let link = link::by_index(&mut self.netlink, port.index, &port.name)?;
        let (unmapped, bypass) = (port.unmapped().bytes, port.bypass().bytes);
        Ok(SentCounters { bytes: link.counters.tx_bytes, unmapped, bypass })
    }

    fn verify(&mut self) -> Result<Vec<Verification>, Error> {
        let classified = self.classified()?;
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        Ok(Direction::BOTH
            .into_iter()
            .map(|direction| {
                let d = direction.index();
                let all = state.ports[d].all();
                let arrived = all.packets.saturating_add(all.drops);
                let (before, arrived_before) = state.seen[d];
                let classified_now = classified[d].saturating_sub(before);
                let arrived_now = arrived.saturating_sub(arrived_before);
                let judged = classified_now >= VERDICT_PACKETS;
                if judged {
                    state.seen[d] = (classified[d], arrived);
                }
                Verification {
                    direction,
                    classified: classified_now,
                    arrived: arrived_now,
                    holds: !judged || arrived_now * 2 >= classified_now,
                    classifier: CLASSIFIER[d],
                }
            })
            .collect())
    }

    fn audit(&mut self) -> Result<Vec<Deviation>, Error> {
        let classified = self.classified()?;
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        state.check(&mut self.netlink)?;
        let mut found = Vec::new();
        for direction in Direction::BOTH {
            let port = &state.ports[direction.index()];
            let on = (port.index, port.name.as_str());
            audit::port(&mut self.netlink, on, &mut found)?;
            let (all, root) = (port.all(), port.root(&mut self.netlink)?);
            let link = link::by_index(&mut self.netlink, port.index, &port.name)?;
            let verdict = state.watch.judge(
                direction,
                Counted {
                    classified: classified[direction.index()],
                    arrived: all.packets.saturating_add(all.drops),
                    sent: link.counters.tx_bytes,
                    shaped: root.bytes,
                    ..Counted::default()
                },
            );
            if let Some((sent, shaped)) = verdict.bypassed {
                found.push(Deviation::Bypassed { direction, sent, shaped });
            }
            if let Some((classified, arrived)) = verdict.misrouted {
                let replaced_by = None;
                found.push(Deviation::Misrouted { direction, classified, arrived, replaced_by });
            }
            let place = state.rules.place();
            let (classifier, parents) = (CLASSIFIER[direction.index()], [(EGRESS, "egress")]);
            foreign::filters_on(&mut self.netlink, on, place, classifier, &parents, &mut found)?;
        }
        foreign::rules(&state.rules, &mut found);
        Ok(found)
    }

    fn classifiers(&self) -> Option<[Classifier; 2]> {
        self.state.as_ref().map(|_| CLASSIFIER)
    }

    fn renew(&mut self) -> Result<(), Error> {
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        state.check(&mut self.netlink)?;
        state.rules.renew(&mut self.netfilter, &state.layout, CLASSIFIER)
    }

    fn release(&mut self) -> Result<(), Error> {
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        for (&class, limits) in &mut state.limits {
            *limits = [None; 2];
            state.ports.iter_mut().for_each(|port| port.set(ClassId(class), Pace::UNLIMITED));
        }
        Ok(())
    }

    fn remove(&mut self, layout: &Layout) -> Result<Removed, Error> {
        self.state = None;
        build::remove(&mut self.netlink, layout)
    }
}
