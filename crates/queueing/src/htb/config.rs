//! Description of a class tree, and its counters.

use fairmesh_units::{BitRate, Bytes};

use crate::spec::{SpecError, burst, nonzero};
use crate::{Backlog, DisciplineSpec, Limit};

/// A class's number, as the minor number in `tc`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u32);

impl std::fmt::Display for ClassId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "1:{:x}", self.0)
    }
}

/// A class's two token buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassRates {
    /// Guaranteed rate.
    pub rate: BitRate,
    /// Maximum rate, own and borrowed together.
    pub ceil: BitRate,
    /// Bytes sent back to back at `rate`.
    pub burst: Bytes,
    /// Bytes sent back to back at `ceil`.
    pub cburst: Bytes,
}

impl ClassRates {
    /// Returns the rates of a class that cannot borrow.
    ///
    /// They have equal ceiling and rate, bursts as `tc` chooses them (one packet).
    pub fn fixed(rate: BitRate) -> Self {
        ClassRates::between(rate, rate)
    }

    /// Returns the rates of a class that borrows from `rate` up to `ceil`, with `tc`'s bursts.
    pub fn between(rate: BitRate, ceil: BitRate) -> Self {
        ClassRates { rate, ceil, burst: Bytes(1600), cburst: Bytes(1600) }
    }

    pub(super) fn check(&self, class: ClassId) -> Result<(), SpecError> {
        nonzero(self.rate.0, "rate")?;
        burst(self.burst)?;
        burst(self.cburst)?;
        if self.ceil < self.rate {
            return Err(SpecError::CeilBelowRate { class, rate: self.rate, ceil: self.ceil });
        }
        Ok(())
    }
}

/// Description of a class.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassSpec {
    /// Number of the class.
    pub id: ClassId,
    /// The class it borrows from, if any.
    pub parent: Option<ClassId>,
    /// Rates of the class.
    pub rates: ClassRates,
    /// 0 (first) to 7 (last), among classes that send from the same level. Leaves only.
    pub prio: u8,
    /// Bytes per round among classes of equal priority.
    ///
    /// `None`: the rate in bytes per second divided by the tree's `r2q`, between 1000 and 200 000.
    pub quantum: Option<u32>,
    /// The leaf's queue; `None` makes an inner class.
    pub leaf: Option<DisciplineSpec>,
}

impl ClassSpec {
    /// Returns a leaf of priority 0.
    pub fn leaf(
        id: u32,
        parent: Option<ClassId>,
        rates: ClassRates,
        queue: DisciplineSpec,
    ) -> Self {
        ClassSpec { id: ClassId(id), parent, rates, prio: 0, quantum: None, leaf: Some(queue) }
    }

    /// Returns an inner class.
    pub fn inner(id: u32, parent: Option<ClassId>, rates: ClassRates) -> Self {
        ClassSpec { id: ClassId(id), parent, rates, prio: 0, quantum: None, leaf: None }
    }
}

/// Rule for the release of a leaf's next packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Release {
    /// As Linux HTB: while its buckets are not in debt; the packet may cause a debt.
    ///
    /// Leaves within their rates take turns, by quantum.
    #[default]
    Debt,
    /// As Linux `tbf`, and the token buckets of papers.
    ///
    /// A packet leaves once its buckets cover all of it, so that over any interval `t` at most `rate × t +
    /// burst` leaves. Packets larger than the burst are dropped on arrival. Of leaves due at the same
    /// instant, the lowest number is first.
    Whole,
}

/// Configuration of an [`Htb`](super::Htb).
#[derive(Clone, PartialEq, Debug)]
pub struct HtbSpec {
    /// Classes, parents before children.
    pub classes: Vec<ClassSpec>,
    /// Assignment of flows to classes.
    pub flows: Vec<(u32, ClassId)>,
    /// Class of all other flows; `None` sends them immediately, ahead of every class.
    pub default: Option<ClassId>,
    /// Buffer for flows outside all classes.
    pub direct: Limit,
    /// Divisor of a rate in bytes per second that gives its quantum; `tc` has 10.
    pub r2q: u32,
    /// Rule by which leaves release packets.
    pub release: Release,
}

impl Default for HtbSpec {
    /// Returns no classes; 1000 packets are sent directly.
    fn default() -> Self {
        HtbSpec {
            classes: Vec::new(),
            flows: Vec::new(),
            default: None,
            direct: Limit::Packets(1000),
            r2q: 10,
            release: Release::Debt,
        }
    }
}

/// Reason for rejecting a change to a class tree.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HtbError {
    /// The class or rates are invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An inner class cannot be removed before its children.
    #[error("class {0} still has child classes")]
    HasChildren(ClassId),
}

/// A class's counters, as `tc -s class show` reports them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClassCounters {
    /// Bytes sent, by the class and those below it.
    pub bytes: u64,
    /// Packets sent, by the class and those below it.
    pub packets: u64,
    /// Packets dropped by the leaf's queue.
    pub drops: u64,
    /// Number of times that the class became unable to send, even by borrowing.
    pub overlimits: u64,
    /// Packets sent from tokens of the class itself, for itself or a borrower.
    pub lends: u64,
    /// Packets sent from an ancestor's tokens.
    pub borrows: u64,
    /// Waiting data in the leaf's queue.
    pub backlog: Backlog,
}
