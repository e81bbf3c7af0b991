//! Who is here: from the configuration and from what was discovered.

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_control::Event;
use fairmesh_linux::{Direction, IpNet, Layout, MacAddr, Slot};
use fairmesh_units::Time;

use super::{Governor, Member, Way, Why, flow};
use crate::config::Subscriber;
use crate::journal::Level;

impl Governor {
    /// The configuration's subscribers, in place of those that it had before. Discovered ones stay
    /// unless their name or an address is now in the configuration.
    pub(super) fn settle(&mut self, configured: Vec<Subscriber>, now: Time) {
        let names: BTreeSet<&str> = configured.iter().map(|s| s.name.as_str()).collect();
        let prefixes: BTreeSet<IpNet> =
            configured.iter().flat_map(|s| s.prefixes.iter().copied()).collect();
        let macs: BTreeSet<MacAddr> =
            configured.iter().flat_map(|s| s.macs.iter().copied()).collect();
        let keeps = self.discover.is_some();
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|m| !names.contains(m.subscriber.name.as_str()))
            .filter(|m| {
                let s = &m.subscriber;
                m.seen.is_none()
                    || !keeps
                    || s.prefixes.iter().any(|p| prefixes.contains(p))
                    || s.macs.iter().any(|a| macs.contains(a))
            })
            .map(|m| m.subscriber.name.clone())
            .collect();
        for name in gone {
            self.leave(now, &name);
        }
        for subscriber in configured {
            self.enter(now, subscriber, None);
        }
    }

    /// Takes in a subscriber, or what has changed of one.
    fn enter(&mut self, now: Time, subscriber: Subscriber, seen: Option<Time>) {
        if let Some(i) = self.place(&subscriber.name) {
            let m = &mut self.members[i];
            m.seen = seen;
            if m.subscriber == subscriber {
                return;
            }
            let moved = m.subscriber.prefixes != subscriber.prefixes
                || m.subscriber.macs != subscriber.macs;
            let weighed = m.subscriber.plan.weight != subscriber.plan.weight;
            self.layout_changed |= moved || weighed;
            m.subscriber = subscriber;
            for way in &mut m.ways {
                way.why = Some(Why::Reload);
            }
            let heres = [Governor::here(m, 0), Governor::here(m, 1)];
            for here in heres {
                self.tell(now, &Event::FlowSeen(here));
            }
            return;
        }
        if self.book.class(&subscriber.name).is_none() {
            let present: Vec<Subscriber> =
                self.members.iter().map(|m| m.subscriber.clone()).collect();
            self.book.keep_only(&present);
        }
        let Some(class) = self.book.class(&subscriber.name) else {
            self.journal.note(now, Level::Warning, "subscriber.full", || {
                format!("no class number is left for \"{}\"", subscriber.name)
            });
            return;
        };
        let member = Member {
            subscriber,
            class,
            seen,
            laid_out: false,
            ways: [Way::default(), Way::default()],
        };
        let heres = [Governor::here(&member, 0), Governor::here(&member, 1)];
        let at = self.find(class).unwrap_or_else(|at| at);
        self.members.insert(at, member);
        self.layout_changed = true;
        for here in heres {
            self.tell(now, &Event::FlowSeen(here));
        }
    }

    fn leave(&mut self, now: Time, name: &str) {
        let Some(i) = self.place(name) else { return };
        let member = self.members.remove(i);
        self.layout_changed = true;
        for direction in Direction::BOTH {
            let gone = flow(Slot { class: member.class, direction });
            self.tell(now, &Event::FlowGone(gone));
        }
    }

    /// What the sources show now. Those of the configuration keep their names and addresses; others
    /// come, as many as are allowed, and go after they were not seen for the time they linger.
    pub fn discovered(&mut self, now: Time, found: Vec<Subscriber>) {
        let Some(discover) = self.discover.clone() else { return };
        let mut owners: BTreeMap<IpNet, String> = BTreeMap::new();
        let mut stations: BTreeMap<MacAddr, String> = BTreeMap::new();
        for s in self.members.iter().map(|m| &m.subscriber) {
            owners.extend(s.prefixes.iter().map(|p| (*p, s.name.clone())));
            stations.extend(s.macs.iter().map(|a| (*a, s.name.clone())));
        }
        let configured: BTreeSet<String> = self
            .members
            .iter()
            .filter(|m| m.seen.is_none())
            .map(|m| m.subscriber.name.clone())
            .collect();
        let known: BTreeSet<String> =
            self.members.iter().map(|m| m.subscriber.name.clone()).collect();
        let mut count = known.len() - configured.len();
        for mut s in found {
            if configured.contains(&s.name) {
                continue;
            }
            let before = s.prefixes.len() + s.macs.len();
            s.prefixes.retain(|p| owners.entry(*p).or_insert_with(|| s.name.clone()) == &s.name);
            s.macs.retain(|a| stations.entry(*a).or_insert_with(|| s.name.clone()) == &s.name);
            if s.prefixes.len() + s.macs.len() < before {
                // What the configuration has is no news.
                self.journal.note(now, Level::Info, "discover.taken", || {
                    format!("addresses of \"{}\" belong to others already", s.name)
                });
            }
            if s.prefixes.is_empty() && s.macs.is_empty() {
                continue;
            }
            if !known.contains(&s.name) {
                if count >= discover.most {
                    self.journal.note(now, Level::Warning, "discover.full", || {
                        format!(
                            "\"{}\" is left out: {} are discovered already",
                            s.name, discover.most
                        )
                    });
                    continue;
                }
                count += 1;
                self.journal.note(now, Level::Info, "subscriber.new", || {
                    format!("\"{}\" was discovered", s.name)
                });
            }
            s.plan = discover.plan;
            self.enter(now, s, Some(now));
        }
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|m| m.seen.is_some_and(|t| now.since(t) > discover.linger))
            .map(|m| m.subscriber.name.clone())
            .collect();
        for name in gone {
            self.journal.note(now, Level::Info, "subscriber.gone", || {
                format!("\"{name}\" was not seen for {}", discover.linger)
            });
            self.leave(now, &name);
        }
        self.refresh(now);
    }

    /// Whether the kernel's classes no longer fit who is here.
    pub fn layout_changed(&self) -> bool {
        self.layout_changed
    }

    /// The classes as they should be.
    pub fn layout(&self) -> Layout {
        let subscriber = |m: &Member| fairmesh_linux::Subscriber {
            class: m.class,
            prefixes: m.subscriber.prefixes.clone(),
            macs: m.subscriber.macs.clone(),
            weight: (m.subscriber.plan.weight.round() as u8).clamp(1, 100),
        };
        Layout { subscribers: self.members.iter().map(subscriber).collect(), ..self.base.clone() }
    }

    /// The layout without subscribers.
    pub fn base_layout(&self) -> Layout {
        self.base.clone()
    }

    /// The kernel's classes fit who was here when [`Governor::layout`] was asked.
    pub fn laid_out(&mut self) {
        self.layout_changed = false;
        self.members.iter_mut().for_each(|m| m.laid_out = true);
    }
}
