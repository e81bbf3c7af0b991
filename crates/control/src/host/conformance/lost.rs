//! What a faulty host loses, to see whether the suite notices.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::EventKind;
use crate::host::{Effect, EffectKind};

/// A fault of a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mutation {
    /// It does not carry out the effect of this kind that comes as the so-manieth, from 1.
    Effect(EffectKind, u32),
    /// It never gives samples of this kind.
    Sample(EventKind),
    /// It does not record the so-manieth decision, from 1.
    Reason(u32),
}

impl core::fmt::Display for Mutation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Mutation::Effect(kind, n) => write!(f, "effect {n} of its kind, \"{}\"", kind.name()),
            Mutation::Sample(kind) => write!(f, "every sample of \"{}\"", kind.name()),
            Mutation::Reason(n) => write!(f, "reason {n}"),
        }
    }
}

/// What there was to lose in a run.
#[derive(Clone, Default, Debug)]
pub(super) struct Passed {
    pub effects: BTreeMap<EffectKind, u32>,
    pub samples: BTreeSet<EventKind>,
    pub reasons: u32,
}

thread_local! {
    static LOST: Cell<Option<Mutation>> = const { Cell::new(None) };
    static PASSED: RefCell<Passed> = RefCell::default();
}

/// Runs with this fault, and says what there was to lose.
pub(super) fn with<T>(fault: Option<Mutation>, run: impl FnOnce() -> T) -> (T, Passed) {
    LOST.set(fault);
    PASSED.take();
    let result = run();
    LOST.set(None);
    (result, PASSED.take())
}

/// Whether the host loses this effect.
pub(crate) fn effect(effect: &Effect<'_>) -> bool {
    let kind = effect.kind();
    let nth = PASSED.with_borrow_mut(|p| {
        let n = p.effects.entry(kind).or_default();
        *n += 1;
        *n
    });
    LOST.get() == Some(Mutation::Effect(kind, nth))
}

/// Whether the host loses samples of this kind.
pub(crate) fn sample(kind: EventKind) -> bool {
    PASSED.with_borrow_mut(|p| p.samples.insert(kind));
    LOST.get() == Some(Mutation::Sample(kind))
}

/// Whether the host loses this reason.
pub(crate) fn reason() -> bool {
    let nth = PASSED.with_borrow_mut(|p| {
        p.reasons += 1;
        p.reasons
    });
    LOST.get() == Some(Mutation::Reason(nth))
}
