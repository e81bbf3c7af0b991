//! Faults of a host, to check that the suite detects them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::{Action, ActionKind, EventKind};

/// A fault of a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mutation {
    /// The host does not build the class with this number in the order of building, from 1.
    Class(u32),
    /// The host skips the action with this number among those of its kind, from 1.
    Action(ActionKind, u32),
    /// The host never delivers samples of this kind.
    Sample(EventKind),
    /// The host does not record the decision with this number, from 1.
    Reason(u32),
}

impl core::fmt::Display for Mutation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Mutation::Class(n) => write!(f, "class {n}"),
            Mutation::Action(kind, n) => write!(f, "action {n} of its kind, \"{}\"", kind.name()),
            Mutation::Sample(kind) => write!(f, "every sample of \"{}\"", kind.name()),
            Mutation::Reason(n) => write!(f, "reason {n}"),
        }
    }
}

/// Effects that a faulty host could have lost in a run, counted by kind.
#[derive(Clone, Default, Debug)]
pub(super) struct Passed {
    pub classes: u32,
    pub actions: BTreeMap<ActionKind, u32>,
    pub samples: BTreeSet<EventKind>,
    pub reasons: u32,
}

thread_local! {
    static LOST: Cell<Option<Mutation>> = const { Cell::new(None) };
    static PASSED: RefCell<Passed> = RefCell::default();
}

/// Runs with this fault; returns also the effects that could have been lost.
pub(super) fn with<T>(fault: Option<Mutation>, run: impl FnOnce() -> T) -> (T, Passed) {
    LOST.set(fault);
    PASSED.take();
    let result = run();
    LOST.set(None);
    (result, PASSED.take())
}

/// True if the host does not build this class.
pub(crate) fn class() -> bool {
    let nth = PASSED.with_borrow_mut(|p| {
        p.classes += 1;
        p.classes
    });
    LOST.get() == Some(Mutation::Class(nth))
}

/// True if the host does not carry out this action.
pub(crate) fn action(action: &Action) -> bool {
    let kind = action.kind();
    let nth = PASSED.with_borrow_mut(|p| {
        let n = p.actions.entry(kind).or_default();
        *n += 1;
        *n
    });
    LOST.get() == Some(Mutation::Action(kind, nth))
}

/// True if the host loses samples of this kind.
pub(crate) fn sample(kind: EventKind) -> bool {
    PASSED.with_borrow_mut(|p| p.samples.insert(kind));
    LOST.get() == Some(Mutation::Sample(kind))
}

/// True if the host loses this reason.
pub(crate) fn reason() -> bool {
    let nth = PASSED.with_borrow_mut(|p| {
        p.reasons += 1;
        p.reasons
    });
    LOST.get() == Some(Mutation::Reason(nth))
}
