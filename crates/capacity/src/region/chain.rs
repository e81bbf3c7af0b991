//! What happens to one packet at the head of a queue: an absorbing Markov chain over its attempts
//! (Rangwala 2008 §3.2).

use fairmesh_wifi::phy::{Phy, PhyTiming};

use super::Retries;
use crate::link::Access;

/// What an attempt meets, given that its sender found the medium idle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Odds {
    /// The first attempt at a packet gets no CTS; without RTS, no ACK because of a collision.
    pub refused: f64,
    /// What of `refused` is due to exchanges that the sender does not hear.
    pub hidden: f64,
    /// Mean time in seconds for which such an exchange, or a train of them, takes the receiver.
    pub span: f64,
    /// Exchanges that the sender does hear, which free the receiver too, per idle second.
    pub resets: f64,
    /// Probability that the packet was waiting when the sender's last exchange ended: then the
    /// receiver was free a backoff ago.
    pub waiting: f64,
    /// Probability that it is passed on at once, a DIFS after an exchange during which the
    /// receiver could not be taken by anybody else.
    pub relayed: f64,
    /// The share of `hidden` that is due to frames which passed this very hop before: while the
    /// sender tries in vain, no more of them come.
    pub caused: f64,
    /// The data frame is lost although the receiver was ready: collisions after the CTS, and
    /// channel errors.
    pub lost: f64,
}

/// Means per packet.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Service {
    /// Attempts: RTS frames, or data frames without RTS.
    pub attempts: f64,
    /// Data frames.
    pub data: f64,
    /// Seconds of backoff, counted while the medium is idle.
    pub backoff: f64,
    /// Probability that the packet is given up.
    pub dropped: f64,
}

/// More attempts than any packet is worth: beyond, a link is dead.
const ENOUGH: usize = 4000;
/// Probability of still being under way that no longer matters.
const NEGLIGIBLE: f64 = 1e-10;

/// One state of the chain: lost RTS in a row, lost data frames, and the probability of being there.
type State = (u32, u32, f64);

/// Follows a packet to its end. `gap` is the time in seconds from an attempt's failure to the end
/// of the next backoff, given the seconds of idle time it takes.
pub(super) fn service(
    phy: &Phy,
    access: Access,
    retries: Retries,
    odds: Odds,
    gap: impl Fn(f64) -> f64,
) -> Service {
    let t = phy.timing();
    let slot = t.slot.as_secs_f64();
    let limits = limits(t, retries);
    let mut out = Service::default();
    let mut states: Vec<State> = vec![(0, 0, 1.0)];
    let mut next: Vec<State> = Vec::new();
    let mut cw = t.cw_min;
    let share = if odds.refused > 0.0 { odds.hidden / odds.refused } else { 0.0 };
    // Hidden trains begin at this rate while there is none, and end at this rate.
    let free = (1.0 - odds.hidden).max(1e-3);
    let begin = odds.hidden / (odds.span * free);
    let seizure = 1.0 / (odds.span * free) + odds.resets;
    let first = gap(f64::from(cw) / 2.0 * slot);
    let difs = t.difs.as_secs_f64();
    let fresh = (1.0 - odds.caused)
        * (odds.waiting * libm::exp(-seizure * first) + odds.relayed * libm::exp(-seizure * difs));
    let mut refused = odds.refused * (1.0 - share * fresh);
    for _ in 0..ENOUGH {
        let reached: f64 = states.iter().map(|s| s.2).sum();
        if reached < NEGLIGIBLE {
            return out;
        }
        let backoff = f64::from(cw) / 2.0 * slot;
        out.attempts += reached;
        out.backoff += reached * backoff;
        next.clear();
        for &(short, long, at) in &states {
            let through = at * (1.0 - refused);
            out.data += if access == Access::RtsCts { through } else { at };
            match access {
                Access::RtsCts => {
                    fail(&mut next, &mut out, (short + 1, long, at * refused), limits);
                    // IEEE 802.11-2020 §10.3.4.4: a CTS clears the count of lost RTS.
                    fail(&mut next, &mut out, (0, long + 1, through * odds.lost), limits);
                }
                Access::Basic => {
                    let lost = at - through * (1.0 - odds.lost);
                    fail(&mut next, &mut out, (short + 1, long, lost), limits);
                }
            }
        }
        core::mem::swap(&mut states, &mut next);
        cw = t.next_cw(cw);
        // Of an exchange that is met somewhere in its midst, half is left; the next one has not
        // begun then.
        let after = gap(f64::from(cw) / 2.0 * slot);
        let end = 2.0 / odds.span;
        let memory = libm::exp(-(end + begin + odds.resets) * after);
        let soon = begin / (begin + end) / odds.hidden.max(1e-12);
        let dip = (1.0 - soon) * libm::exp(-after / odds.span);
        let left = odds.refused * (1.0 - share * odds.caused) * (1.0 - share * dip);
        refused = left + (1.0 - left) * memory * share;
    }
    out.dropped += states.iter().map(|s| s.2).sum::<f64>();
    out
}

/// The limits of lost RTS (or of data frames sent without) and of data frames after RTS/CTS.
fn limits(t: &PhyTiming, retries: Retries) -> Option<(u32, u32)> {
    match retries {
        Retries::Unlimited => None,
        Retries::Mac => Some((t.short_retry_limit, t.long_retry_limit)),
    }
}

/// A state after a failure, or the end of the packet.
fn fail(next: &mut Vec<State>, out: &mut Service, s: State, limits: Option<(u32, u32)>) {
    let (short, long, at) = s;
    if at <= 0.0 {
        return;
    }
    match limits {
        Some((most_short, most_long)) if short >= most_short || long >= most_long => {
            out.dropped += at;
        }
        // Without limits the counts mean nothing: one state is enough.
        None => match next.first_mut() {
            Some(first) => first.2 += at,
            None => next.push((0, 0, at)),
        },
        Some(_) => match next.iter_mut().find(|n| (n.0, n.1) == (short, long)) {
            Some(same) => same.2 += at,
            None => next.push(s),
        },
    }
}
