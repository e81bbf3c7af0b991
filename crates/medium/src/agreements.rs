//! Block acknowledgement agreements between stations, as their action frames establish them.

use std::collections::BTreeSet;

use crate::frame::Agreement;

/// Agreements in force: originator, recipient, TID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agreements(BTreeSet<(u32, u32, u8)>);

impl Agreements {
    /// Handles an action frame that `to` received from `from`.
    pub fn on(&mut self, from: u32, to: u32, change: Agreement) {
        match change {
            Agreement::Accepted { tid } => _ = self.0.insert((to, from, tid)),
            Agreement::Ended { tid, by_originator: true } => _ = self.0.remove(&(from, to, tid)),
            Agreement::Ended { tid, by_originator: false } => _ = self.0.remove(&(to, from, tid)),
        }
    }

    /// Returns true if `from` may send A-MPDUs of a TID to `to`.
    pub fn allow(&self, from: u32, to: u32, tid: u8) -> bool {
        self.0.contains(&(from, to, tid))
    }

    /// Removes all agreements of a station.
    pub fn forget(&mut self, station: u32) {
        self.0.retain(|&(from, to, _)| from != station && to != station);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipient_accepts_and_both_may_end() {
        let mut a = Agreements::default();
        a.on(2, 1, Agreement::Accepted { tid: 0 });
        assert!(a.allow(1, 2, 0) && !a.allow(2, 1, 0) && !a.allow(1, 2, 5));
        a.on(2, 1, Agreement::Ended { tid: 0, by_originator: false });
        assert!(!a.allow(1, 2, 0));
        a.on(2, 1, Agreement::Accepted { tid: 0 });
        a.on(1, 2, Agreement::Ended { tid: 0, by_originator: true });
        assert!(!a.allow(1, 2, 0));
        a.on(2, 1, Agreement::Accepted { tid: 0 });
        a.forget(2);
        assert!(!a.allow(1, 2, 0));
    }
}
