//! Sums in place of events of every frame, and messages in place of header fields.
//!
//! A Linux mesh router gives neither a status of every frame nor every change of a queue, and cannot write into the
//! headers of relayed packets. A mechanism that can do without them states so in its [`Delivery`], and [`Adapter`]
//! stands between it and the host: counters become sums per period, and fields go to the neighbours in broadcasts. The
//! simulator and Linux run the same code, so that the simulator measures the loss of detail.

mod batch;
mod fields;
mod sums;
#[cfg(test)]
mod tests;

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use self::batch::{BATCH, Field, MAX_BODY, OWN};
use self::fields::Board;
use self::sums::Sums;
use crate::{
    Action, Actions, Control, Delivery, Event, EventSet, Instance, Message, Progress, Reason,
    Station, Value,
};

/// Bytes of message bodies that a node may send per second, and at once.
const MESSAGE_BUDGET: f64 = 1000.0;
/// Number of periods after which an unchanged batch is repeated.
const REPEAT_PERIODS: u64 = 5;

/// Installs the code that a mechanism's [`Delivery`] asks for; a plain one changes nothing.
pub(crate) fn install(
    instance: Instance,
    delivery: Delivery,
    node: NodeId,
    stream: Stream,
) -> Instance {
    if delivery.is_plain() {
        return instance;
    }
    let Instance { control, plan } = instance;
    let adapter = Adapter {
        control,
        inner: Actions::new(),
        sums: delivery.sums.map(Sums::new),
        queues: delivery.queues.map(|every| (every, Time::ZERO + every)),
        batches: delivery.messages.map(|period| Batches::new(period, node, stream)),
        stations: Vec::new(),
        now: Time::ZERO,
    };
    Instance { control: Box::new(adapter), plan }
}

/// Batches of header fields, and the budget of all messages.
#[derive(Debug)]
struct Batches {
    period: Span,
    due: Time,
    board: Board,
    last: Vec<u8>,
    sent: Time,
    tokens: f64,
    filled: Time,
    /// Messages of the mechanism beyond the budget or the largest size.
    refused: u64,
    /// Batches of neighbours that were malformed.
    malformed: u64,
    stream: Stream,
}

impl Batches {
    fn new(period: Span, node: NodeId, mut stream: Stream) -> Self {
        let first = Span::from_secs_f64(period.as_secs_f64() * stream.unit());
        Batches {
            period,
            due: Time::ZERO + first,
            board: Board::new(node),
            last: Vec::new(),
            sent: Time::ZERO,
            tokens: MESSAGE_BUDGET,
            filled: Time::ZERO,
            refused: 0,
            malformed: 0,
            stream,
        }
    }

    /// Takes bytes of the budget; false if it does not have them.
    fn pay(&mut self, now: Time, bytes: usize) -> bool {
        let passed = now.since(self.filled).as_secs_f64();
        (self.tokens, self.filled) =
            ((self.tokens + MESSAGE_BUDGET * passed).min(MESSAGE_BUDGET), now);
        let may = self.tokens >= bytes as f64;
        if may {
            self.tokens -= bytes as f64;
        }
        may
    }

    /// Sends a batch if one is due.
    fn speak(&mut self, now: Time, actions: &mut Actions) {
        if now < self.due {
            return;
        }
        // Spread by a tenth, so that neighbours do not collide repeatedly.
        let spread = self.period.as_secs_f64() * self.stream.uniform(0.9, 1.1);
        self.due = now + Span::from_secs_f64(spread);
        let body = self.board.batch(now);
        let old = now.since(self.sent) >= self.period.saturating_mul(REPEAT_PERIODS);
        if body.is_empty() || (body == self.last && !old) || !self.pay(now, body.len()) {
            return;
        }
        actions.because(Reason::new("host.batch", "header fields go out as a message", &[]));
        actions.send(None, &body);
        (self.last, self.sent) = (body, now);
    }

    /// Sends a message of the mechanism within the budget.
    fn send(&mut self, now: Time, to: Option<NodeId>, body: &[u8], actions: &mut Actions) {
        if body.len() < MAX_BODY && self.pay(now, body.len() + 1) {
            let mut whole = Vec::with_capacity(body.len() + 1);
            whole.push(OWN);
            whole.extend_from_slice(body);
            return actions.send(to, &whole);
        }
        self.refused += 1;
        if self.refused.is_power_of_two() {
            actions.because(Reason::new(
                "host.budget",
                "a message is too long, or messages are above {}, {} so far: not sent",
                &[Value::Rate(BitRate(8 * MESSAGE_BUDGET as u64)), Value::Count(self.refused)],
            ));
        }
    }
}

/// A mechanism behind sums and messages.
#[derive(Debug)]
struct Adapter {
    control: Box<dyn Control>,
    /// Actions of the mechanism before they are passed on.
    inner: Actions,
    sums: Option<Sums>,
    /// Period of queue samples, and the time of the next one.
    queues: Option<(Span, Time)>,
    batches: Option<Batches>,
    /// Frames sent to each neighbour by the latest samples, to see which links have traffic.
    stations: Vec<(NodeId, u64)>,
    now: Time,
}

impl Adapter {
    /// Passes an event to the mechanism and its actions on.
    fn give(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        self.watch(now, event);
        self.control.on(now, event, &mut self.inner);
        self.pass_on(now, actions);
    }

    /// Records which packets leave the node: they are the ones that would carry fields.
    fn watch(&mut self, now: Time, event: &Event<'_>) {
        let Some(b) = &mut self.batches else { return };
        match event {
            Event::Sent(s) => {
                if let (Some(to), Some(flow)) = (s.to, s.flow) {
                    b.board.sent(now, to, Some((flow, s.ack)));
                }
            }
            Event::FlowSum(f) if f.link.from == b.board.me() => {
                b.board.sent(now, f.link.to, Some((f.flow, f.ack)));
            }
            Event::SentSum(s) => b.board.sent(now, s.to, None),
            _ => {}
        }
    }

    /// Keeps the fields, sends messages within the budget and passes other actions on.
    fn pass_on(&mut self, now: Time, actions: &mut Actions) {
        let Some(b) = &mut self.batches else {
            for action in self.inner.iter() {
                copy(&self.inner, action, actions);
            }
            return self.inner.clear();
        };
        // The last reason, as long as no action has followed it.
        let mut open = None;
        for action in self.inner.iter() {
            match *action {
                Action::Annotate { class, slot, merge, value } => {
                    open = None;
                    b.board.write(class, Field { slot, merge, value });
                }
                Action::Because(reason) => {
                    if let Some(before) = open.replace(reason) {
                        actions.because(before);
                    }
                }
                other => {
                    if let Some(reason) = open.take() {
                        actions.because(reason);
                    }
                    match other {
                        Action::Send { to, .. } => {
                            b.send(now, to, self.inner.body(action), actions);
                        }
                        _ => copy(&self.inner, action, actions),
                    }
                }
            }
        }
        if let Some(reason) = open {
            actions.because(reason);
        }
        self.inner.clear();
    }

    fn station(&mut self, now: Time, s: &Station, actions: &mut Actions) {
        if let Some(sums) = &mut self.sums {
            return sums.station(s);
        }
        match self.stations.iter_mut().find(|known| known.0 == s.node) {
            Some(known) => {
                let before = core::mem::replace(&mut known.1, s.tx_packets);
                if s.tx_packets > before
                    && let Some(b) = &mut self.batches
                {
                    b.board.sent(now, s.node, None);
                }
            }
            None => self.stations.push((s.node, s.tx_packets)),
        }
        self.give(now, &Event::Station(*s), actions);
    }

    fn message(&mut self, now: Time, m: &Message<'_>, actions: &mut Actions) {
        let Some(b) = &mut self.batches else {
            return self.give(now, &Event::Message(*m), actions);
        };
        let (control, inner) = (&mut self.control, &mut self.inner);
        let read = match m.body.split_first() {
            Some((&OWN, body)) if m.body.len() <= MAX_BODY => {
                control.on(now, &Event::Message(Message { from: m.from, body }), inner);
                Ok(())
            }
            Some((&BATCH, body)) => {
                b.board.receive(now, m.from, body, |fields| control.on(now, &fields, inner))
            }
            _ => Err(batch::Malformed),
        };
        if read.is_err() {
            b.malformed += 1;
            if b.malformed.is_power_of_two() {
                actions.because(Reason::new(
                    "host.bad-batch",
                    "a message of node {} makes no sense, {} so far: ignored",
                    &[Value::Node(m.from), Value::Count(b.malformed)],
                ));
            }
        }
        self.pass_on(now, actions);
    }

    fn deadline(&mut self, now: Time, actions: &mut Actions) {
        if let Some(mut sums) = self.sums.take() {
            sums.end(now, |sum| self.give(now, &sum, actions));
            self.sums = Some(sums);
        }
        if let Some((every, due)) = &mut self.queues
            && now >= *due
        {
            *due = now + *every;
        }
        if self.control.next_deadline().is_some_and(|due| due <= now) {
            self.give(now, &Event::Deadline, actions);
        }
        if let Some(b) = &mut self.batches {
            b.speak(now, actions);
        }
    }
}

/// Appends an action of one buffer to another.
fn copy(from: &Actions, action: &Action, to: &mut Actions) {
    match *action {
        Action::Send { to: node, .. } => to.send(node, from.body(action)),
        Action::Route { to: node, .. } => to.route(node, from.body(action)),
        Action::HandOver { reach, .. } => to.hand_over(reach, from.body(action)),
        other => to.push(other),
    }
}

impl Control for Adapter {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        self.now = now;
        match event {
            Event::Deadline => self.deadline(now, actions),
            Event::Station(s) => self.station(now, s, actions),
            Event::FlowLink(f) => match &mut self.sums {
                Some(sums) => sums.flow(f),
                None => self.give(now, event, actions),
            },
            // Other deadlines than those of the period give no samples either.
            Event::Queue(_) if self.queues.is_some_and(|(_, due)| now < due) => {}
            // In place of these the mechanism gets sums.
            Event::Sent(_) if self.sums.is_some() => {}
            Event::Message(m) => self.message(now, m, actions),
            Event::Restarted(node) => {
                if let Some(b) = &mut self.batches {
                    b.board.forget(*node);
                }
                self.give(now, event, actions);
            }
            _ => self.give(now, event, actions),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let sums = self.sums.as_ref().map(|s| s.due);
        let queues = self.queues.map(|(_, due)| due);
        let batches = self.batches.as_ref().map(|b| b.due);
        let own = [self.control.next_deadline(), sums, queues, batches];
        // A late host must not find a deadline in the past.
        own.into_iter().flatten().min().map(|due| due.max(self.now))
    }

    fn wants(&self) -> EventSet {
        self.control.wants()
    }

    fn learned(&self) -> Option<BitRate> {
        self.control.learned()
    }

    fn progress(&self) -> Option<Progress> {
        self.control.progress()
    }

    fn floods(&self, flow: FlowId) -> bool {
        self.control.floods(flow)
    }

    fn guaranteed(&self, flow: FlowId) -> Option<BitRate> {
        self.control.guaranteed(flow)
    }

    fn follows(&self) -> Option<NodeId> {
        self.control.follows()
    }

    fn recall(&mut self, learned: BitRate, actions: &mut Actions) {
        self.control.recall(learned, &mut self.inner);
        self.pass_on(Time::ZERO, actions);
    }
}
