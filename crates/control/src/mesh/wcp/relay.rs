//! Rate adaptation in the network (Rangwala 2008 §4.3).
//!
//! Every router on the path keeps a rate of its own for each flow, packets carry the slowest of
//! them to the source.
//!
//! A router reacts to congestion around its link without waiting for a round trip, the first one at
//! once. A flow through two congested regions follows the slower of two rates instead of being
//! halved for both: a router halves its own rate, which may be above the flow's. A rate below those
//! on the congested link is not lowered.

use fairmesh_units::{FlowId, Time};

use super::aimd::Aimd;
use super::link_state::{LinkState, rate_field, rate_of};
use super::neighbourhood::CarriedFlow;
use super::rate::MAX_RATE_RATIO;
use super::{MIN_CHANGE, RATE_FIELD, Wcp, times};
use crate::{Actions, Class, Merge, Reason, Value};

/// A flow that passes this node.
#[derive(Debug)]
pub(super) struct Relay {
    pub flow: FlowId,
    pub aimd: Aimd,
    /// Rate in its packets from here on.
    pub sent_rate: f64,
}

impl Wcp {
    /// Updates the rates of the flows on an own link, by the state shared around it.
    pub(super) fn regulate(
        &mut self,
        now: Time,
        link: usize,
        shared: LinkState,
        actions: &mut Actions,
    ) {
        for flow in 0..self.neighbourhood.own[link].flows.len() {
            let carried = self.neighbourhood.own[link].flows[flow];
            // A flow below the rates on the congested link does not cause its congestion.
            let hit = shared.congested() && carried.word.rate >= shared.rate;
            if let Some(at) = self.rates.iter().position(|r| r.flow == carried.flow) {
                self.at_source(now, at, shared, hit, actions);
            } else {
                self.on_the_way(now, carried, shared, hit, actions);
            }
        }
    }

    /// Returns t_ai and t_md by the round trips around a link.
    fn intervals(
        &self,
        shared: LinkState,
        own: LinkState,
    ) -> (fairmesh_units::Span, fairmesh_units::Span) {
        let (average, instant) =
            if self.share_rtts { (shared.average, shared.instant) } else { (0, 0) };
        let wait = Aimd::interval_of(instant, own.instant);
        (Aimd::interval_of(average, own.average), times(wait, self.deaf))
    }

    fn at_source(
        &mut self,
        now: Time,
        at: usize,
        shared: LinkState,
        hit: bool,
        actions: &mut Actions,
    ) {
        let (interval, wait) = self.intervals(shared, self.rates[at].word());
        let rate = &mut self.rates[at];
        rate.aimd.interval = interval;
        if hit && rate.aimd.fall(now, wait) {
            actions.because(Reason::new(
                "wcp.decrease",
                "flow {}: congestion around its first link: half the rate, then deaf for {}",
                &[Value::Flow(rate.flow), Value::Span(wait)],
            ));
            rate.spacing = rate.space(self.corrected);
            actions.clock(rate.flow, rate.spacing);
        }
    }

    fn on_the_way(
        &mut self,
        now: Time,
        carried: CarriedFlow,
        shared: LinkState,
        hit: bool,
        actions: &mut Actions,
    ) {
        let Some(sent) = rate_of(carried.word.rate) else { return };
        let (interval, wait) = self.intervals(shared, carried.word);
        let Some(relay) = self.relays.iter_mut().find(|r| r.flow == carried.flow) else { return };
        relay.aimd.interval = interval;
        relay.aimd.rise(now, self.alpha, MAX_RATE_RATIO * sent + MAX_RATE_RATIO);
        let fell = hit && relay.aimd.fall(now, wait);
        let change = relay.aimd.rate / relay.sent_rate;
        if (1.0 - MIN_CHANGE..=1.0 + MIN_CHANGE).contains(&change) {
            return;
        }
        relay.sent_rate = relay.aimd.rate;
        let (code, sentence) = match fell {
            true => {
                ("wcp.decrease", "flow {}: congestion around its link from here: half the rate")
            }
            false => ("wcp.increase", "flow {} may have more here"),
        };
        actions.because(Reason::new(code, sentence, &[Value::Flow(relay.flow)]));
        let field = rate_field(relay.sent_rate);
        actions.annotate(Class::Flow(relay.flow), RATE_FIELD, Merge::Min, field);
    }
}
