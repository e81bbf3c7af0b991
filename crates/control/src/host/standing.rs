//! The set of classes that exist.

use std::collections::BTreeSet;

use crate::Class;

/// Number of flows, from 0 on, that are bits of an array.
///
/// Mechanisms use each of them every epoch.
const DENSE_FLOWS: u32 = 1 << 20;

/// A set of classes.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassSet {
    flows: Vec<u64>,
    others: BTreeSet<Class>,
}

impl ClassSet {
    /// Adds a class; returns true if it is new.
    pub fn add(&mut self, class: Class) -> bool {
        let Some((word, bit)) = place(class) else { return self.others.insert(class) };
        if self.flows.len() <= word {
            self.flows.resize(word + 1, 0);
        }
        let new = self.flows[word] & bit == 0;
        self.flows[word] |= bit;
        new
    }

    pub fn has(&self, class: Class) -> bool {
        match place(class) {
            Some((word, bit)) => self.flows.get(word).is_some_and(|w| w & bit != 0),
            None => self.others.contains(&class),
        }
    }

    /// Removes a class; returns true if it was present.
    pub fn remove(&mut self, class: Class) -> bool {
        let Some((word, bit)) = place(class) else { return self.others.remove(&class) };
        let there = self.has(class);
        if there {
            self.flows[word] &= !bit;
        }
        there
    }
}

fn place(class: Class) -> Option<(usize, u64)> {
    match class {
        Class::Flow(f) if f.0 < DENSE_FLOWS => Some((f.0 as usize / 64, 1 << (f.0 % 64))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::{FlowId, NodeId};
    use proptest::prelude::*;

    use super::*;

    fn classes() -> impl Strategy<Value = Class> {
        prop_oneof![
            Just(Class::All),
            (0u32..200).prop_map(|f| Class::Flow(FlowId(f))),
            (DENSE_FLOWS - 2..DENSE_FLOWS + 2).prop_map(|f| Class::Flow(FlowId(f))),
            (0u32..5).prop_map(|n| Class::Link(NodeId(n))),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((any::<bool>(), classes()), 0..100)) {
            let (mut standing, mut set) = (ClassSet::default(), BTreeSet::new());
            for (add, class) in steps {
                if add {
                    prop_assert_eq!(standing.add(class), set.insert(class));
                } else {
                    prop_assert_eq!(standing.remove(class), set.remove(&class));
                }
                prop_assert_eq!(standing.has(class), set.contains(&class));
            }
        }
    }
}
