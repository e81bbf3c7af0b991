//! Test of the classifiers with frames of our own.

use std::thread;
use std::time::{Duration, Instant};

use super::place::Place;
use super::tree::Port;
use crate::error::Error;
use crate::link::Link;
use crate::netlink::{Batch, Netlink};
use crate::packet::{self, Carrier};
use crate::shaper::{ClassId, Classifier};
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head};

/// Test frames per classifier.
const PROBES_PER_CLASSIFIER: u32 = 3;
/// Longest wait for the test frames.
const PROBE_PATIENCE: Duration = Duration::from_millis(300);

/// Classifiers that this kernel has, the preferred one first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Available {
    all: Vec<Classifier>,
    /// True if a priority's group can be found.
    flow: bool,
}

impl Available {
    /// Finds the classifiers, on our own tree.
    pub fn on(netlink: &mut Netlink, port: &Port) -> Self {
        let mut all = vec![Classifier::Priority];
        // BPF first: a `fw` filter without options, the kind that names a class by the mark, ends the kernel's list of
        // filters, and `tc filter show` shows nothing after it.
        for classifier in [Classifier::MarkBpf, Classifier::MarkFw] {
            if port.has(netlink, classifier) {
                all.push(classifier);
            }
        }
        Available { all, flow: port.finds_groups(netlink) }
    }

    /// True if there can be groups.
    pub fn any_group(&self) -> bool {
        self.all.iter().any(|c| self.finds_groups(*c))
    }

    /// True if a classifier finds groups.
    pub fn finds_groups(&self, classifier: Classifier) -> bool {
        match classifier {
            Classifier::Priority => self.flow,
            other => other == Classifier::MarkBpf && self.all.contains(&other),
        }
    }

    /// Returns the available classifiers, or those of them that find groups.
    pub fn order(&self, grouped: bool) -> Vec<Classifier> {
        self.all.iter().copied().filter(|c| !grouped || self.finds_groups(*c)).collect()
    }

    /// Returns the next classifier to try if this one does not work.
    pub fn after(&self, classifier: Classifier, grouped: bool) -> Option<Classifier> {
        let order = self.order(grouped);
        let tried = order.iter().position(|c| *c == classifier);
        order.get(tried.map_or(0, |at| at + 1)).copied()
    }
}

/// Sends own frames and checks the class in which they arrive, in a group if there is one.
pub(super) fn try_out(
    netlink: &mut Netlink,
    port: &Port,
    link: &Link,
    available: &Available,
    groups: &[u16],
) -> Result<(Classifier, Option<String>), Error> {
    let mut order = available.order(!groups.is_empty());
    // If there can be groups, some classifier finds them.
    let untried = order.first().copied().unwrap_or(Classifier::Priority);
    let unknown = |netlink: &mut Netlink, why: &str| {
        port.filter(netlink, untried, groups)?;
        let note = format!("{}: classifiers could not be tested ({why})", port.name);
        Ok((untried, Some(note)))
    };
    if link.mac.is_none() {
        return unknown(netlink, "no Ethernet");
    }
    if !link.up {
        return unknown(netlink, "the interface is down");
    }
    if link.maps_priorities {
        // The map has no entry for a class number as priority: the operator's markings would be lost.
        order.sort_by_key(|c| *c == Classifier::Priority);
    }
    let ways = order.len();
    let tree = groups.first().map_or(port.root(), |group| Place::tree(*group));
    for classifier in order {
        port.filter(netlink, classifier, groups)?;
        let carrier = match classifier {
            Classifier::Priority => Carrier::Priority,
            _ => Carrier::Mark,
        };
        match arrives(netlink, port, link, carrier, tree) {
            Ok(true) if classifier == Classifier::Priority => {
                let note = link.maps_priorities.then(|| {
                    format!(
                        "{}: its map of priorities (egress-qos-map) does not see those of \
                         subscribers' packets, and this kernel has no filter for marks instead",
                        port.name
                    )
                });
                return Ok((classifier, note));
            }
            Ok(true) if link.maps_priorities => {
                let note =
                    format!("{}: it maps priorities (egress-qos-map); marks are used", port.name);
                return Ok((classifier, Some(note)));
            }
            Ok(true) => {
                if groups.is_empty() || available.finds_groups(Classifier::Priority) {
                    // The earlier frames may have been lost for another reason: a bridge that has just come up is
                    // without carrier for a moment, and then drops all frames.
                    port.remove_mark_filter(netlink);
                    port.filter(netlink, Classifier::Priority, groups)?;
                    if arrives(netlink, port, link, Carrier::Priority, tree)? {
                        return Ok((Classifier::Priority, None));
                    }
                    port.filter(netlink, classifier, groups)?;
                    let note =
                        format!("{}: the driver overwrites priorities; marks are used", port.name);
                    return Ok((classifier, Some(note)));
                }
                let note = format!(
                    "{}: marks are used, since this kernel (no cls_flow) finds no more than {} \
                     subscribers by priorities",
                    port.name,
                    ClassId::GROUP - 1
                );
                return Ok((classifier, Some(note)));
            }
            Ok(false) => port.remove_mark_filter(netlink),
            Err(e @ Error::Io { .. }) => return unknown(netlink, &e.to_string()),
            Err(e) => return Err(e),
        }
    }
    let note = format!(
        "{}: test frames did not reach their class with any of {ways} classifiers",
        port.name
    );
    port.filter(netlink, untried, groups)?;
    Ok((untried, Some(note)))
}

fn arrives(
    netlink: &mut Netlink,
    port: &Port,
    link: &Link,
    carrier: Carrier,
    tree: Handle,
) -> Result<bool, Error> {
    let mut batch = Batch::new();
    port.delete(&mut batch, port.trial_class(tree)); // of an earlier run, maybe
    netlink.apply(&mut batch)?;
    batch.clear();
    let class = port.trial(&mut batch, tree);
    let refused = netlink.apply(&mut batch)?;
    port.refused(refused, "adding a class")?;
    let sent = packet::send(link, class, carrier, PROBES_PER_CLASSIFIER);
    let head = Head::new(port.index, class, Handle::NONE);
    let start = Instant::now();
    let mut arrived = false;
    while sent.is_ok() && !arrived && start.elapsed() < PROBE_PATIENCE {
        let packets = netlink.get(
            "the trial class",
            libc::RTM_GETTCLASS,
            |out| head.write(out),
            |_, payload| Some(Dumped::read(payload)?.stats?.packets),
        )?;
        arrived = packets.is_some_and(|p| p >= u64::from(PROBES_PER_CLASSIFIER));
        if !arrived {
            thread::sleep(Duration::from_millis(5));
        }
    }
    batch.clear();
    port.delete(&mut batch, class);
    netlink.apply(&mut batch)?;
    sent.map(|()| arrived)
}
