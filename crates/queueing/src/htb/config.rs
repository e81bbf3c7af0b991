//! What a class tree is built from, and what it tells of itself.

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
    /// Rate never to be exceeded, own and borrowed together.
    pub ceil: BitRate,
    /// Bytes sent back to back at `rate`.
    pub burst: Bytes,
    /// Bytes sent back to back at `ceil`.
    pub cburst: Bytes,
}

impl ClassRates {
    /// A class that cannot borrow: ceiling and rate are one, bursts as `tc` chooses them (one
    /// packet).
    pub fn fixed(rate: BitRate) -> Self {
        ClassRates::between(rate, rate)
    }

    /// A class guaranteed `rate` that may borrow up to `ceil`, bursts as `tc` chooses them.
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

/// What a class is built from.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassSpec {
    /// Its number.
    pub id: ClassId,
    /// The class it borrows from, if any.
    pub parent: Option<ClassId>,
    /// Its rates.
    pub rates: ClassRates,
    /// 0 (first) to 7 (last), among classes that send from the same level. Leaves only.
    pub prio: u8,
    /// Bytes per round when sharing with classes of the same priority. `None`: the rate in bytes
    /// per second divided by the tree's `r2q`, between 1000 and 200 000.
    pub quantum: Option<u32>,
    /// The leaf's queue; `None` makes an inner class.
    pub leaf: Option<DisciplineSpec>,
}

impl ClassSpec {
    /// A leaf of priority 0.
    pub fn leaf(
        id: u32,
        parent: Option<ClassId>,
        rates: ClassRates,
        queue: DisciplineSpec,
    ) -> Self {
        ClassSpec { id: ClassId(id), parent, rates, prio: 0, quantum: None, leaf: Some(queue) }
    }

    /// An inner class.
    pub fn inner(id: u32, parent: Option<ClassId>, rates: ClassRates) -> Self {
        ClassSpec { id: ClassId(id), parent, rates, prio: 0, quantum: None, leaf: None }
    }
}

/// When a leaf lets its next packet go.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Release {
    /// As Linux HTB: as long as its buckets are not in debt; the packet may take them there. Of
    /// several leaves within their rates each has its turn, by quantum.
    #[default]
    Debt,
    /// As Linux `tbf`, and the token buckets of papers: once its buckets cover all of the packet, so
    /// that over any interval `t` no more than `rate × t + burst` leaves. Packets larger than the
    /// burst are dropped on arrival. Of several leaves that are due at one instant the lowest number
    /// goes first.
    Whole,
}

/// Configuration of an [`Htb`](super::Htb).
#[derive(Clone, PartialEq, Debug)]
pub struct HtbSpec {
    /// Classes, parents before children.
    pub classes: Vec<ClassSpec>,
    /// Which class takes which flow.
    pub flows: Vec<(u32, ClassId)>,
    /// The class of all other flows; `None` sends them at once, ahead of every class.
    pub default: Option<ClassId>,
    /// Buffer for flows that no class takes.
    pub direct: Limit,
    /// Divides a rate in bytes per second to give its quantum; `tc` has 10.
    pub r2q: u32,
    /// When leaves let packets go.
    pub release: Release,
}

impl Default for HtbSpec {
    /// No classes; 1000 packets go directly.
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

/// Why a change to a class tree was refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HtbError {
    /// The class or rates are invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An inner class cannot go before its children.
    #[error("class {0} still has child classes")]
    HasChildren(ClassId),
}

/// A class's counters, as `tc -s class show` gives them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClassCounters {
    /// Bytes sent, by the class and those below it.
    pub bytes: u64,
    /// Packets sent, by the class and those below it.
    pub packets: u64,
    /// Packets dropped by the leaf's queue.
    pub drops: u64,
    /// Times the class became unable to send, even by borrowing.
    pub overlimits: u64,
    /// Packets sent from tokens of the class itself, its own or a borrower's.
    pub lends: u64,
    /// Packets sent from an ancestor's tokens.
    pub borrows: u64,
    /// What waits in the leaf's queue.
    pub backlog: Backlog,
}
