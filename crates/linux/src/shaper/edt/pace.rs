//! Parameters of a limit, as the program reads them.

use fairmesh_units::BitRate;

use crate::bpf::pace::{COST_BITS, MAX_COST};
use crate::shaper::{Layout, LeafKind, Subscriber};
use crate::tc::htb::Class;

/// A limit as times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pace {
    /// Time per byte, in units of 2^-[`COST_BITS`] ns.
    pub cost: u64,
    /// Time that an idle class can make up for, ns.
    pub credit: u64,
    /// Time in which a full queue is sent, ns.
    pub horizon: u64,
}

impl Pace {
    /// No limit. Packets still follow those that were delayed before.
    pub const UNLIMITED: Pace = Pace { cost: 0, credit: 0, horizon: u64::MAX };

    /// Returns the parameters of a limit.
    ///
    /// They are burst and rate of HTB's class, and the time in which a leaf of bytes drains.
    pub fn of(limit: Option<BitRate>, layout: &Layout) -> Self {
        let Some(limit) = limit else { return Pace::UNLIMITED };
        let class = Class::limited(Some(limit), Subscriber::QUANTUM, 1).bursting(layout.burst);
        let bits = class.rate.0.max(1);
        let cost = (8_000_000_000_u128 << COST_BITS) / u128::from(bits);
        let queue = layout.queue_at(LeafKind::Bfifo, Some(limit));
        Pace {
            cost: u64::try_from(cost).unwrap_or(u64::MAX).clamp(1, MAX_COST),
            credit: class.buffer_ns,
            horizon: BitRate(bits).time_for(u64::from(queue)).as_nanos(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shaper::Interface;

    #[test]
    fn a_limit_becomes_times() {
        let name = |n: &str| Interface::new(n).unwrap();
        let layout = Layout { delay_ms: 100, ..Layout::new(name("mesh0"), name("wan0")) };
        let at = |bits| Pace::of(Some(BitRate(bits)), &layout);
        let pace = at(8_000_000);
        assert_eq!(pace.cost, 1000 << COST_BITS, "1 µs per byte");
        assert_eq!((pace.credit, pace.horizon), (1_600_000, 100_000_000));
        // Five full frames at least.
        assert_eq!(at(80_000).horizon, 5 * 1514 * 100_000);
        assert_eq!(at(1).cost, MAX_COST);
        assert_eq!(Pace::of(None, &layout), Pace::UNLIMITED);
    }
}
