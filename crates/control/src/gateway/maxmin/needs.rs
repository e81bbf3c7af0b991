//! Subscribers that need less than a share and have a limit of their own.

use super::service::PACKET;
use super::subscriber::{ROOM, Subscriber};
use crate::gateway::arc::bucket;
use crate::{Actions, Reason, Value};

/// Factor by which a need grows that fills its headroom.
const GROWS: f64 = 1.3;
/// Fraction of its headroom from which a need grows.
const FILLED: f64 = 0.93;
/// Factor by which the first short subscribers are raised alone, to test if they can use more.
pub(super) const ALONE: f64 = 1.25;
/// Fraction of the raised limit that a subscriber must use to count as needing more.
const USES: f64 = 0.93;
/// Fraction of the raised limit that corresponds to its use before the raise.
const SAME: f64 = 0.776;

/// Caps the subscribers that did not use more when they were raised alone.
pub(super) fn asked(who: &[usize], all: &mut [Subscriber], actions: &mut Actions) {
    for &i in who {
        let s = &mut all[i];
        let (seen, part) = s.service.trial();
        let rate = part * s.limit;
        s.factor = (s.factor / ALONE).max(1.0);
        if seen > 0.0 && (SAME..USES).contains(&part) {
            s.cap = Some((ROOM * rate).max(PACKET / 10.0));
            s.service.forgive(0.0);
            let values = [Value::Flow(s.flow), Value::Rate(bucket(rate))];
            actions.because(Reason::new("maxmin.own", "flow {} needs no more than {}", &values));
        }
    }
}

/// Caps at their present rate the subscribers that stay short whatever the others have.
pub(super) fn leave(who: &[usize], all: &mut [Subscriber], actions: &mut Actions) {
    for &i in who {
        let s = &mut all[i];
        let rate = s.service.rate();
        s.service.give_up();
        s.cap = Some((ROOM * rate).max(PACKET / 10.0));
        let values = [Value::Flow(s.flow), Value::Rate(bucket(rate))];
        let text = "flow {} has {} whatever the others have: they get theirs back";
        actions.because(Reason::new("maxmin.own", text, &values));
    }
}

/// True if fewer than a fifth of the active subscribers are known to be backlogged.
pub(super) fn few(all: &[Subscriber]) -> bool {
    5 * all.iter().filter(|s| s.service.backlogged()).count() < sending(all)
}

/// True if the doubted subscribers are at least a third of the active ones.
///
/// Only those count that neither pause, as pages do, nor send a packet only now and then.
pub(super) fn many<'a>(doubted: impl Iterator<Item = &'a Subscriber>, all: &[Subscriber]) -> bool {
    let much = |s: &&Subscriber| s.service.never_pauses() && s.service.rate() > PACKET;
    3 * doubted.filter(much).count() >= sending(all).max(1)
}

fn sending(all: &[Subscriber]) -> usize {
    all.iter().filter(|s| s.sends() && !s.service.thin()).count()
}

/// Raises needs that fill their headroom, up to a regular share.
pub(super) fn grow(all: &mut [Subscriber], level: f64, actions: &mut Actions) {
    for s in all.iter_mut() {
        if let Some(cap) = s.cap
            && s.sends()
            && s.service.rate() > FILLED * cap
        {
            let cap = GROWS * cap;
            s.cap = (cap < s.share(level)).then_some(cap);
            s.service.forgive(0.0);
            let values = [Value::Flow(s.flow), Value::Rate(bucket(cap.min(s.share(level))))];
            let text = "flow {} uses all that it could before: {}";
            actions.because(Reason::new("maxmin.grows", text, &values));
        }
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::FlowId;

    use super::*;

    #[test]
    fn who_gets_nothing_whatever_the_others_have_keeps_a_packet_in_ten_seconds() {
        let mut all = [Subscriber::new(FlowId(0))];
        leave(&[0], &mut all, &mut Actions::new());
        assert_eq!(all[0].cap, Some(1200.0));
    }
}
