//! The agent at a home: it enforces the gateway's limit at the source.
//!
//! The hybrid of Jamshaid 2010 §9.2. Traffic that responds to drops is limited at the gateway; other traffic has to be
//! limited before it takes airtime. All data that starts at the node shares one token bucket, fairly by flow, so that a
//! flood of a home does not starve its other transfers. It is fail-open: a limit that is not renewed in time is lifted.

pub(crate) mod codec;

use fairmesh_units::{BitRate, Bytes, Time};

use crate::{
    Actions, Class, ClassPlan, Control, Event, Instance, Leaf, Limit, Plan, Point, Reason, Value,
};
use codec::Order;

/// Buffer of each flow in packets: about a second at 500 kbit/s.
const QUEUE_PACKETS: u32 = 20;

/// An agent that has received no message yet.
pub(crate) fn build() -> Instance {
    let class = ClassPlan {
        class: Class::All,
        limit: Limit::None,
        burst: Bytes(3000),
        leaf: Leaf::Fair { packets: QUEUE_PACKETS },
    };
    let plan = Plan { point: Point::Local, classes: Vec::new(), template: Some(class) };
    Instance { control: Box::new(Agent::default()), plan }
}

#[derive(Default, Debug)]
struct Agent {
    /// Number of the latest message.
    number: Option<u32>,
    /// Limit in force, and the time of its end.
    limit: Option<(BitRate, Time)>,
}

impl Agent {
    fn receive(&mut self, now: Time, order: Order, actions: &mut Actions) {
        // Comparison of numbers that wrap.
        let newer = |last: u32| order.number.wrapping_sub(last) as i32 > 0;
        if !self.number.is_none_or(newer) {
            return;
        }
        self.number = Some(order.number);
        let Some((rate, keep)) = order.limit else {
            return self.forget("agent.lifted", "the gateway lifts the limit", actions);
        };
        let same = self.limit.is_some_and(|(old, _)| old == rate);
        self.limit = Some((rate, now + keep));
        if !same {
            let values = [Value::Rate(rate), Value::Span(keep)];
            let text = "the gateway limits what starts here to {} for {}";
            actions.because(Reason::new("agent.limit", text, &values));
            actions.set_rate(Class::All, rate);
        }
    }

    fn forget(&mut self, code: &'static str, text: &'static str, actions: &mut Actions) {
        if self.limit.take().is_some() {
            actions.because(Reason::new(code, text, &[]));
            actions.remove(Class::All);
        }
    }
}

impl Control for Agent {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Message(m) => {
                if let Some(order) = Order::decode(m.body) {
                    self.receive(now, order, actions);
                }
            }
            Event::Deadline if self.limit.is_some_and(|(_, until)| now >= until) => {
                // A restarted gateway starts its numbers again.
                self.number = None;
                let text = "the limit was not renewed: it is lifted";
                self.forget("agent.forgotten", text, actions);
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.limit.map(|(_, until)| until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Message};
    use fairmesh_units::{NodeId, Span};

    fn s(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    /// Returns the agent's actions after this message.
    fn receive(agent: &mut dyn Control, now: Time, body: &[u8]) -> Vec<Action> {
        let mut actions = Actions::without_reasons();
        let from = NodeId(0);
        agent.on(now, &Event::Message(Message { from, body }), &mut actions);
        actions.iter().copied().collect()
    }

    fn order(number: u32, rate: u64) -> [u8; 18] {
        let limit = (rate > 0).then(|| (BitRate(rate), Span::from_secs(15)));
        Order { number, limit }.encode()
    }

    fn limit(rate: u64) -> Vec<Action> {
        vec![Action::SetRate { class: Class::All, rate: Some(BitRate(rate)) }]
    }

    const LIFTED: [Action; 1] = [Action::Remove { class: Class::All }];

    #[test]
    fn a_limit_holds_as_long_as_it_is_renewed() {
        let mut agent = build().control;
        assert_eq!(agent.next_deadline(), None);
        assert_eq!(receive(&mut *agent, s(1), &order(1, 50_000)), limit(50_000));
        assert_eq!(receive(&mut *agent, s(9), &order(2, 50_000)), []);
        assert_eq!(agent.next_deadline(), Some(s(24)));
        let mut actions = Actions::without_reasons();
        agent.on(s(23), &Event::Deadline, &mut actions);
        assert!(actions.is_empty());
        agent.on(s(24), &Event::Deadline, &mut actions);
        assert_eq!(actions.iter().copied().collect::<Vec<_>>(), LIFTED);
        assert_eq!(agent.next_deadline(), None);
        // A restarted gateway starts at 1 again.
        assert_eq!(receive(&mut *agent, s(30), &order(1, 40_000)), limit(40_000));
    }

    #[test]
    fn old_and_foreign_messages_change_nothing() {
        let mut agent = build().control;
        assert_eq!(receive(&mut *agent, s(1), &order(u32::MAX, 50_000)), limit(50_000));
        assert_eq!(receive(&mut *agent, s(2), &order(u32::MAX - 1, 9000)), []);
        assert_eq!(receive(&mut *agent, s(2), &order(u32::MAX, 9000)), []);
        assert_eq!(receive(&mut *agent, s(2), b"fm"), []);
        // The number has wrapped.
        assert_eq!(receive(&mut *agent, s(3), &order(0, 60_000)), limit(60_000));
        assert_eq!(receive(&mut *agent, s(4), &order(1, 0)), LIFTED);
        assert_eq!(receive(&mut *agent, s(5), &order(2, 0)), []);
    }
}
