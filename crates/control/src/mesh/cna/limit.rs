//! Limits and headers, computed from the neighbourhood.

use fairmesh_units::Time;

use super::{Cna, IDLE_SHARE, MIN_FLOW_SHARE, codec};
use crate::{Actions, Class, Merge, Reason, Share, Value};

/// Relative difference from which a new limit is set.
const MIN_CHANGE: f64 = 0.03;

impl Cna {
    /// Sets A″ = NS A′ on every own link, less the airtime of broadcasts.
    pub(super) fn limit(&mut self, now: Time, actions: &mut Actions) {
        let free = self.budget * (1.0 - self.reserve.max(self.broadcasts)).max(0.0);
        let ceiling = self.neighbourhood.available;
        let quiet = self.signalling.quiet_at(now);
        for (m, own) in self.meters.iter_mut().zip(&self.neighbourhood.own) {
            m.share = if own.out > 0.0 {
                let least = (MIN_FLOW_SHARE * own.out).min(1.0);
                (own.scaling * own.limit * free).clamp(least, ceiling.max(least))
            } else {
                IDLE_SHARE
            };
            let bucket = (m.share * m.ratio).min(1.0);
            if quiet || (bucket / m.bucket - 1.0).abs() < MIN_CHANGE {
                continue;
            }
            m.bucket = bucket;
            let flows = Value::Count(own.out as u64);
            let reason = if own.out == 0.0 {
                Reason::new("cna.idle", "no flow goes to node {}", &[Value::Node(own.to)])
            } else {
                Reason::new(
                    "cna.limit",
                    "{} flows go to node {}, of {} in the busiest neighbourhood: {} of the air",
                    &[
                        flows,
                        Value::Node(own.to),
                        Value::Count(own.divider as u64),
                        Value::Percent(m.share),
                    ],
                )
            };
            actions.because(reason);
            actions.set_airtime(Class::Link(own.to), Share::new(bucket));
        }
    }

    /// Sets the header fields of a link's next packets.
    pub(super) fn write(&mut self, link: usize, actions: &mut Actions) {
        let (m, own) = (&mut self.meters[link], &self.neighbourhood.own[link]);
        if own.weight() == 0.0 {
            return;
        }
        let dither = self.stream.unit();
        let words = if m.two_next {
            codec::two_hop(&self.neighbourhood.two(), dither)
        } else {
            codec::one_hop(&self.neighbourhood.one(own), dither)
        };
        if m.words.replace(words) == Some(words) {
            return;
        }
        let kind = if m.two_next { "two-hop" } else { "one-hop" };
        let sentence = match kind {
            "two-hop" => "packets to node {} carry two-hop quantities",
            _ => "packets to node {} carry one-hop quantities",
        };
        actions.because(Reason::new("cna.header", sentence, &[Value::Node(m.to)]));
        let [second, service] = words;
        // Value that a fragment carries in its type of service instead.
        let fragment = codec::fragment(own.weight());
        for (slot, word) in [second, service, fragment].into_iter().enumerate() {
            actions.annotate(Class::Link(m.to), slot as u8, Merge::Set, word);
        }
    }
}
