//! Values that a node reports to the nodes around it and writes into its packets.

use fairmesh_units::Time;

use super::ideal_exchange::{IdealExchange, MAX_HOPS};
use super::link_state::LinkState;
use super::{
    AVERAGE_FIELD, CONGESTION_FIELD, INBOUND_FIELD, INSTANT_FIELD, LINK_FIELD, NEIGHBOURHOOD_FIELD,
    Wcp,
};
use crate::{Actions, Class, Merge, Reach, Reason, Value};

impl Wcp {
    /// Sends the state of the own links outside the air.
    pub(super) fn notify_neighbours(&self, actions: &mut Actions) {
        if self.ideal.is_none()
            || self.neighbourhood.own.iter().all(|o| o.flows.is_empty() && o.queue == 0.0)
        {
            return;
        }
        actions.because(Reason::new("wcp.notify", "all neighbours are notified at once", &[]));
        actions.hand_over(
            Reach::Within(MAX_HOPS),
            &IdealExchange::body(&self.neighbourhood.own, self.threshold),
        );
    }

    /// Sets the fields of the next packets, and with rates in the network, the rates.
    pub(super) fn spread(&mut self, now: Time, actions: &mut Actions) {
        let (into, around) = match self.ideal {
            Some(_) => (LinkState::default(), self.own()),
            None => (self.neighbourhood.inward(), self.neighbourhood.around(self.threshold)),
        };
        for link in 0..self.neighbourhood.own.len() {
            let shared = self.shared(link, around);
            self.write(link, shared, actions);
            if self.ideal.is_none() && (self.share_bits || self.share_rtts) {
                self.annotate_state(link, into, around, actions);
            }
            if self.in_network {
                self.regulate(now, link, shared, actions);
            }
        }
    }

    /// Returns the state of all own links.
    fn own(&self) -> LinkState {
        self.neighbourhood
            .own
            .iter()
            .fold(LinkState::default(), |all, o| all.join(o.state(self.threshold)))
    }

    /// Returns the effective state of an own link: its own, or that of all links on its channel.
    fn shared(&self, link: usize, around: LinkState) -> LinkState {
        let own = &self.neighbourhood.own[link];
        let mut shared = match &self.ideal {
            Some(ideal) => ideal.shared(own.to, around),
            None => self.neighbourhood.shared(own.to, around),
        };
        if !self.share_bits {
            shared.rate = own.state(self.threshold).rate;
        }
        shared
    }

    /// Sets the congestion bit and the path's round trips in packets on a link.
    fn write(&mut self, link: usize, shared: LinkState, actions: &mut Actions) {
        let congested = self.neighbourhood.own[link].state(self.threshold).congested();
        let own = &mut self.neighbourhood.own[link];
        let (class, node) = (Class::Link(own.to), Value::Node(own.to));
        if own.marking != shared.congested() {
            own.marking = shared.congested();
            let sentence = match (congested, own.marking) {
                (true, _) => "the link to node {} is congested",
                (false, true) => "a link around the one to node {} is congested",
                (false, false) => "nothing around the link to node {} is congested",
            };
            actions.because(Reason::new("wcp.mark", sentence, &[node]));
            if !self.in_network {
                actions.annotate(class, CONGESTION_FIELD, Merge::Or, u32::from(own.marking));
            }
        }
        let trips = (shared.average, shared.instant);
        if self.share_rtts && (own.shared.average, own.shared.instant) != trips {
            actions.because(Reason::new(
                "wcp.rtt",
                "the longest round trips around the link to node {} are {} and {} ms",
                &[node, Value::Count(trips.0.into()), Value::Count(trips.1.into())],
            ));
            actions.annotate(class, AVERAGE_FIELD, Merge::Max, trips.0);
            actions.annotate(class, INSTANT_FIELD, Merge::Max, trips.1);
        }
        own.shared = shared;
    }

    /// Sets the values in packets on a link for the nodes that overhear them.
    fn annotate_state(
        &mut self,
        link: usize,
        into: LinkState,
        around: LinkState,
        actions: &mut Actions,
    ) {
        let state = self.neighbourhood.own[link].state(self.threshold);
        let own = &mut self.neighbourhood.own[link];
        let words = [state, into, around].map(LinkState::encode);
        if own.sent_words == words {
            return;
        }
        actions.because(Reason::new(
            "wcp.state",
            "news for those around node {}",
            &[Value::Node(own.to)],
        ));
        for (slot, (word, before)) in [LINK_FIELD, INBOUND_FIELD, NEIGHBOURHOOD_FIELD]
            .into_iter()
            .zip(words.iter().zip(own.sent_words))
        {
            if *word != before {
                actions.annotate(Class::Link(own.to), slot, Merge::Set, *word);
            }
        }
        own.sent_words = words;
    }
}
