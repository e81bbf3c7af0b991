//! Class numbers by name: a subscriber keeps its number over restarts.
//!
//! Numbers are assigned cyclically within a span that is slightly larger than needed. So a few hundred subscribers stay
//! among the first thousand numbers, which are in no group, however many names come and go.

use std::collections::BTreeMap;

use fairmesh_linux::ClassId;

use crate::gateway::config::Subscriber;

/// Numbers that are kept for absent subscribers.
const RESERVED_NUMBERS: usize = 2048;

/// Assignment of class numbers to present and former names.
#[derive(Clone, Debug, Default)]
pub struct ClassIds {
    by_name: BTreeMap<String, u16>,
    taken: std::collections::BTreeSet<u16>,
    next: u16,
}

impl ClassIds {
    /// Returns the stored numbers; invalid and duplicate numbers are left out.
    pub fn new(kept: impl IntoIterator<Item = (String, u16)>) -> Self {
        let mut ids = ClassIds { next: 1, ..ClassIds::default() };
        for (name, class) in kept {
            if (1..=ClassId::MAX.0).contains(&class) && ids.taken.insert(class) {
                ids.by_name.insert(name, class);
            }
        }
        ids
    }

    /// Returns the number of a name, if it has one.
    pub fn known(&self, name: &str) -> Option<ClassId> {
        self.by_name.get(name).copied().map(ClassId)
    }

    /// Returns the number of a name: its old one, else a free one; `None` if none is left.
    pub fn class(&mut self, name: &str) -> Option<ClassId> {
        if let Some(class) = self.by_name.get(name) {
            return Some(ClassId(*class));
        }
        // A number is reused as late as possible: packets of the last owner may still wait.
        let span = self.span();
        let after = |c: u16| if c >= span { 1 } else { c + 1 };
        let mut class = if self.next > span { 1 } else { self.next.max(1) };
        for _ in 0..span {
            if ClassId(class).is_swift() && self.taken.insert(class) {
                self.next = after(class);
                self.by_name.insert(name.to_owned(), class);
                return Some(ClassId(class));
            }
            class = after(class);
        }
        None
    }

    /// Removes the number of an absent name.
    pub fn forget(&mut self, name: &str) {
        if let Some(class) = self.by_name.remove(name) {
            self.taken.remove(&class);
        }
    }

    /// Moves the number of one name to another that has none.
    pub fn rename(&mut self, old: &str, new: &str) {
        if !self.by_name.contains_key(new)
            && let Some(class) = self.by_name.remove(old)
        {
            self.by_name.insert(new.to_owned(), class);
        }
    }

    /// Returns the last number of the smallest whole groups of which a quarter is free.
    fn span(&self) -> u16 {
        let groups = (self.taken.len() * 4 / 3) / usize::from(ClassId::GROUP) + 1;
        let last = groups * usize::from(ClassId::GROUP) - 1;
        u16::try_from(last).map_or(ClassId::MAX.0, |last| last.min(ClassId::MAX.0))
    }

    /// True if many more numbers are kept than subscribers are present.
    ///
    /// Names that come and go, for example forged ones, must fill neither memory nor disk.
    pub fn is_crowded(&self, present: usize) -> bool {
        self.by_name.len() > 2 * present + RESERVED_NUMBERS
    }

    /// Removes the numbers of all but these subscribers.
    pub fn keep_only<'a>(&mut self, present: impl IntoIterator<Item = &'a Subscriber>) {
        let present: std::collections::BTreeSet<&str> =
            present.into_iter().map(|s| s.name.as_str()).collect();
        self.by_name.retain(|name, _| present.contains(name.as_str()));
        self.taken = self.by_name.values().copied().collect();
    }

    /// Iterates over all names and numbers, for storing them.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u16)> {
        self.by_name.iter().map(|(n, c)| (n.as_str(), *c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_are_used_again_late() {
        let mut ids = ClassIds::new([("a".into(), 7), ("b".into(), 7), ("c".into(), 0)]);
        assert_eq!(ids.class("a"), Some(ClassId(7)));
        assert_eq!((ids.class("b"), ids.class("c")), (Some(ClassId(1)), Some(ClassId(2))));
        ids.keep_only([]);
        assert_eq!(ids.class("d"), Some(ClassId(3)), "1 and 2 were in use until now");
        let kept: Vec<_> = ids.entries().map(|(n, c)| (n.to_owned(), c)).collect();
        assert_eq!(ClassIds::new(kept).class("d"), Some(ClassId(3)));
    }

    #[test]
    fn numbers_run_out() {
        let mut ids = ClassIds::default();
        let all = (1..=ClassId::MAX.0).filter(|c| ClassId(*c).is_swift()).count();
        let last = (0..all).map(|i| ids.class(&i.to_string()).unwrap()).max();
        assert_eq!(last, Some(ClassId::MAX));
        assert_eq!(ids.class("one more"), None);
        assert_eq!(ids.class("5"), Some(ClassId(6)));
    }

    /// Names that come and go do not spread a few subscribers over all groups.
    #[test]
    fn a_few_stay_among_the_first() {
        let mut ids = ClassIds::default();
        let mut highest = 0;
        for i in 0..20_000 {
            highest = highest.max(ids.class(&i.to_string()).unwrap().0);
            if ids.by_name.len() > 700 {
                ids.keep_only([]);
            }
        }
        assert_eq!(highest, 1023);
    }
}
