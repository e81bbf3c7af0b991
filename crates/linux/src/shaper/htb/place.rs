//! Placement of classes: in the tree at the interface's root, or in one of those below it.
//!
//! For each new class the kernel walks all classes of its qdisc (`tc_bind_tclass`), so ten thousand in one take
//! seconds. Numbers from [`ClassId::GROUP`] on are in HTBs of their own, one for each group, in a class of the root's.
//! The packet's priority or mark names the tree and the class in it.

use super::ids;
use crate::shaper::slot::file;
use crate::shaper::{ClassId, Classifier};
use crate::tc::Handle;
use crate::tc::filter::Filter;

/// Major numbers of the groups' trees.
///
/// Each is also the minor number of the root's class that holds the tree.
///
/// They are beyond those of subscribers' queues, and in a list of the kernel with few of these queues.
const TREES: [u16; (ClassId::MAX.0 / ClassId::GROUP) as usize] = {
    let mut trees = [0; (ClassId::MAX.0 / ClassId::GROUP) as usize];
    let (mut at, mut major) = (0, ClassId::MAX.0 + 1);
    while at < trees.len() {
        if file(major) == ClassId::TREES {
            trees[at] = major;
            at += 1;
        }
        major += 1;
    }
    trees
};
/// Common upper four bits of these numbers.
const TREE_NUMBER_PREFIX: u16 = 0xf000;

/// Placement of classes below a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The root qdisc.
    pub root: Handle,
    /// True if there are trees below it.
    ///
    /// Without a filter that finds them all classes are in the root's tree.
    pub grouped: bool,
}

impl Place {
    /// Returns the group of a subscriber's class.
    pub fn group(self, minor: u16) -> Option<u16> {
        let class = ClassId(minor);
        class.group().filter(|_| self.grouped && class <= ClassId::MAX)
    }

    /// True if a priority or mark names one of our classes, in the root's tree or in a group's.
    pub fn owns(self, class: u32) -> bool {
        let major = (class >> 16) as u16;
        major == self.root.major() || TREES.contains(&major)
    }

    /// Returns the handle of a class by its number.
    pub fn class(self, minor: u16) -> Handle {
        let tree = self.group(minor).map_or(self.root, Place::tree);
        Handle::new(tree.major(), minor)
    }

    /// Returns the parent of a subscriber's class.
    pub fn parent(self, minor: u16) -> Handle {
        match self.group(minor) {
            None => Handle::new(self.root.major(), ids::AGGREGATE),
            Some(group) => Place::tree(group),
        }
    }

    /// Returns a group's qdisc.
    pub fn tree(group: u16) -> Handle {
        Handle::new(TREES[usize::from(group) - 1], 0)
    }

    /// Returns the root's class that holds a group.
    pub fn holder(self, group: u16) -> Handle {
        Handle::new(self.root.major(), Place::tree(group).major())
    }

    /// Returns the group that a class of the root holds.
    pub fn held(minor: u16) -> Option<u16> {
        TREES.binary_search(&minor).ok().map(|at| at as u16 + 1)
    }

    /// Returns the ranges of all possible classes' handles, first and last.
    pub fn ranges(self) -> Vec<(Handle, Handle)> {
        let major = self.root.major();
        let mut ranges = vec![(Handle::new(major, 0), Handle::new(major, u16::MAX))];
        if self.grouped {
            let last = Place::tree(TREES.len() as u16).major();
            ranges.push((Place::tree(1), Handle::new(last, u16::MAX)));
        }
        ranges
    }

    /// Returns the class with the base of the filters that find groups as its minor number.
    pub fn base(self) -> Handle {
        Handle::new(self.root.major(), TREE_NUMBER_PREFIX)
    }

    /// Returns the filter that finds a packet's group at the root.
    pub fn finder(self, classifier: Classifier) -> Option<Filter> {
        let base = self.base();
        match classifier {
            Classifier::Priority => Some(Filter::PriorityGroup(base)),
            Classifier::MarkBpf => Some(Filter::MarkBpfGroup(base)),
            Classifier::MarkFw => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_place_each() {
        let root = Handle::new(0xfa1, 0);
        let (flat, grouped) = (Place { root, grouped: false }, Place { root, grouped: true });
        let shown = |p: Place, minor| (p.class(minor).to_string(), p.parent(minor).to_string());
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        for place in [flat, grouped] {
            assert_eq!(shown(place, 1), pair("fa1:1", "fa1:fffe"));
            assert_eq!(shown(place, 1023), pair("fa1:3ff", "fa1:fffe"));
            assert_eq!(place.class(ids::BYPASS).to_string(), "fa1:fff1");
        }
        assert_eq!(shown(flat, 1024), pair("fa1:400", "fa1:fffe"));
        assert_eq!(shown(grouped, 1024), pair("fa05:400", "fa05:"));
        assert_eq!(shown(grouped, 2047), pair("fa05:7ff", "fa05:"));
        assert_eq!(shown(grouped, 64_000), pair("fdd7:fa00", "fdd7:"));
        assert_eq!(grouped.holder(62).to_string(), "fa1:fdd7");
        assert_eq!([0xfa04, 0xfa05, 0xfdd7].map(Place::held), [None, Some(1), Some(62)]);
    }

    /// No group's tree has the handle of a queue, and its list has few of them.
    ///
    /// A queue has its class's number or one of ours.
    #[test]
    fn trees_are_found_fast() {
        assert!(
            TREES.is_sorted()
                && TREES
                    .iter()
                    .all(|t| *t > ClassId::MAX.0 && t & TREE_NUMBER_PREFIX == TREE_NUMBER_PREFIX)
        );
        let own = [ids::UNMAPPED, ids::BYPASS, ids::PROBE, ids::AGGREGATE, ids::SPARE_LEAF];
        assert!(TREES.iter().all(|t| !own.contains(t) && file(*t) == ClassId::TREES));
        let all = (1..=ClassId::MAX.0).map(ClassId).filter(|c| c.is_swift());
        assert_eq!(all.clone().filter(|c| file(c.0) == ClassId::TREES).count(), 63);
        assert_eq!(all.count(), 60_064);
    }
}
