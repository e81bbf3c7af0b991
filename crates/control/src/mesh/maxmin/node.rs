//! The mechanism at one node.

use fairmesh_units::{FlowId, NodeId, Span, Stream, Time};

use super::air::Air;
use super::anomaly::Anomaly;
use super::codec::{self, Circles, OuterValues, Values};
use super::level::{Backlog, Level, Rule};
use super::outsiders::Outsiders;
use super::region::Region;
use super::source::{Passing, enters};
use super::{
    DISCARD_TIME_CONSTANT, MIN_CHANGE, Options, RECEIVED_UNREACHABLE_TIMEOUT, RETURN_TIME, Rates,
    SMOOTHING_PACKETS, STUCK_COUNTER_TIMEOUT, TICK, UNREACHABLE_TIMEOUT,
};
use crate::{
    Actions, Channel, Class, Control, Event, EventKind, EventSet, Fields, FlowHere, FlowSum,
    Header, Merge, Neighbour, Reason, ReceivedFrame, Sent, SentSum, Setting, Value,
};

/// A link out of the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub to: NodeId,
    /// Packets that left, with exponential decay.
    packets: f64,
    /// Packets discarded, with exponential decay.
    failed: f64,
    /// Time since which nothing has been delivered.
    pub failing: Option<Time>,
    /// True if packets of its receiver are received.
    received: bool,
}

impl Out {
    fn new(to: NodeId) -> Self {
        Out { to, packets: 0.0, failed: 0.0, failing: None, received: false }
    }

    /// Returns the fraction of packets discarded; with few packets, less than measured.
    fn lost(&self) -> f64 {
        self.failed / (self.packets + SMOOTHING_PACKETS)
    }

    /// True if the neighbour counts as gone, so that no capacity is reserved for it for a while.
    ///
    /// A neighbour that is received meanwhile is present, and packets to it collide: this is assumed for five timeouts
    /// of TCP.
    pub fn gone(&self, now: Time) -> bool {
        let long = if self.received { RECEIVED_UNREACHABLE_TIMEOUT } else { UNREACHABLE_TIMEOUT };
        self.failing.is_some_and(|at| now.since(at) >= long)
    }

    fn fade(&mut self, by: f64) {
        self.packets *= by;
        self.failed *= by;
    }
}

/// The mechanism at one node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: NodeId,
    gateway: bool,
    /// True if sums take the place of every frame.
    sampled: bool,
    /// True if packets carry the levels; otherwise messages do.
    headers: bool,
    rule: Rule,
    pub(super) hold: Span,
    marks: f64,
    patience: Span,
    pub(super) region: Region,
    pub(super) out: Vec<Out>,
    pub(super) flows: Vec<Passing>,
    rates_of_links: Rates,
    /// Level; set while the node has traffic.
    level: Option<Level>,
    pub(super) backlog: Backlog,
    ticked: Time,
    /// Time at which its radio last sent or received data or acknowledgements.
    pub(super) busy: Option<Time>,
    /// Time of its last delivered packet.
    pub(super) through: Time,
    /// Time at which its queue last changed.
    moved: Time,
    /// Time at which it last sent a message.
    pub(super) spoke: Time,
    /// Node that last reported that its packets do not get here, and the time of the report.
    pub(super) undelivered_from: Option<(Time, NodeId)>,
    /// Time at which a message about this was last sent to the neighbours.
    pub(super) passed_on: Time,
    /// Kind of values in the next packet.
    turn: u8,
    /// Least level of each circle.
    pub(super) levels: Circles,
    /// Fastest flow of each circle.
    pub(super) rates: Circles,
    /// Values for nodes that sense farther than they receive.
    pub(super) outer: OuterValues,
    /// Code of the lowest level in all circles that matter.
    pub(super) around: u8,
    /// Code of the fastest flow in all circles that matter.
    fastest: u8,
    pub(super) air: Air,
    /// A neighbour that has vanished.
    dead: Option<NodeId>,
    /// Number of packets for which a flow without any throughput counts.
    lack: f64,
    outsiders: Outsiders,
    written: [u32; 2],
    anomalies: [u64; 8],
    due: Option<Time>,
}

impl Node {
    pub fn new(options: &Options, rule: Rule, setting: &Setting, rates: Rates) -> Self {
        let ids = || setting.neighbours.iter().map(|n| n.node);
        let mut stream: Stream = setting.stream.clone();
        Node {
            id: setting.node,
            gateway: setting.site.gateway,
            sampled: options.sampled,
            headers: !options.messages,
            rule,
            hold: options.hold,
            marks: options.marks,
            patience: options.patience,
            region: Region::new(ids(), options.hold),
            out: ids().map(Out::new).collect(),
            flows: Vec::new(),
            rates_of_links: rates,
            level: None,
            backlog: Backlog::new(),
            ticked: Time::ZERO,
            busy: None,
            through: Time::ZERO,
            moved: Time::ZERO,
            spoke: Time::ZERO,
            undelivered_from: None,
            passed_on: Time::ZERO,
            turn: 0,
            levels: Circles::default(),
            rates: Circles::default(),
            around: 0,
            fastest: 0,
            outer: OuterValues::default(),
            air: Air::default(),
            dead: None,
            lack: options.lack,
            outsiders: Outsiders::default(),
            written: [0; 2],
            anomalies: [0; 8],
            // The deadlines of nodes are spread over time.
            due: Some(Time::ZERO + Span::from_secs_f64(TICK.as_secs_f64() * stream.unit())),
        }
    }

    /// Adds or updates a flow that crosses this node.
    pub fn meet(&mut self, here: &FlowHere) {
        let on_air = here.next_hop.is_some_and(|n| self.out.iter().any(|o| o.to == n));
        let enters = on_air && enters(here, self.gateway);
        match self.flows.iter_mut().find(|f| f.flow() == here.flow) {
            Some(known) => (known.here, known.enters) = (*here, enters),
            None => self.flows.push(Passing::new(*here, enters)),
        }
    }

    /// Takes over a changed set of neighbours; what was measured on the links that stay holds.
    fn renew(&mut self, neighbours: &[Neighbour]) {
        let there = |id: NodeId| neighbours.iter().any(|n| n.node == id);
        self.out.retain(|o| there(o.to));
        self.region.neighbours.retain(|n| there(n.id));
        for n in neighbours {
            if !self.out.iter().any(|o| o.to == n.node) {
                self.out.push(Out::new(n.node));
                self.region.add(n.node);
            }
        }
        self.rates_of_links = Rates::of(neighbours);
        if let Some(level) = &mut self.level {
            level.bound(self.rates_of_links.bounds);
        }
        for here in self.flows.iter().map(|f| f.here).collect::<Vec<_>>() {
            self.meet(&here);
        }
    }

    /// Returns the flows that are limited here.
    pub fn entering(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.flows.iter().filter(|f| f.enters).map(Passing::flow)
    }

    pub(super) fn flow(&mut self, id: FlowId) -> Option<&mut Passing> {
        self.flows.iter_mut().find(|f| f.flow() == id)
    }

    pub(super) fn anomaly(&mut self, what: Anomaly, node: NodeId, actions: &mut Actions) {
        let count = &mut self.anomalies[what as usize];
        *count += 1;
        // Reported the first, second, fourth, … time.
        if count.is_power_of_two() {
            let (code, sentence) = what.words();
            actions.because(Reason::new(
                code,
                sentence,
                &[Value::Node(node), Value::Count(*count)],
            ));
        }
    }

    fn take_header(&mut self, now: Time, from: NodeId, header: &Header, actions: &mut Actions) {
        let word = header.0[usize::from(codec::CIRCLES_SLOT)];
        match codec::read(word) {
            // It has met no node that takes part, so no node limits it.
            Ok(None) => self.outsiders.packet(false),
            Ok(Some(_)) if self.region.find(from).is_none() => {
                self.anomaly(Anomaly::Stranger, from, actions);
            }
            Ok(Some(values)) => {
                self.outsiders.packet(true);
                self.region.take_values(now, from, values);
            }
            Err(codec::Malformed) => self.anomaly(Anomaly::Header, from, actions),
        }
    }

    fn received(&mut self, now: Time, frame: &ReceivedFrame, actions: &mut Actions) {
        if !self.sampled {
            self.came(now, frame.link.from, frame.flow, frame.ack);
        }
        self.take_path(now, frame.link.from, (frame.flow, frame.ack), &frame.header, actions);
    }

    /// Records packets that came for this node.
    fn came(&mut self, now: Time, from: NodeId, id: FlowId, ack: bool) {
        self.busy = Some(now);
        if let Some(n) = self.region.find(from) {
            n.came = Some(now);
        }
        let Some(flow) = self.flow(id) else { return };
        if ack {
            flow.answered = Some(now);
        } else {
            flow.from = Some(from);
            flow.seen = Some(now);
        }
    }

    /// Handles the lowest level on the path of a flow's packets, or of its acknowledgements.
    fn take_path(
        &mut self,
        now: Time,
        from: NodeId,
        (id, ack): (FlowId, bool),
        header: &Header,
        actions: &mut Actions,
    ) {
        let way = codec::way(header);
        if way.is_err() {
            self.anomaly(Anomaly::Header, from, actions);
        }
        let Some(flow) = self.flow(id) else { return };
        if let Ok(Some(level)) = way {
            *(if ack { &mut flow.way } else { &mut flow.before }) = Some((now, level));
        }
    }

    /// Handles fields that a message carries.
    fn fields(&mut self, now: Time, fields: &Fields, actions: &mut Actions) {
        match fields.flow {
            Some(flow) => {
                self.take_path(now, fields.from, (flow, fields.ack), &fields.header, actions);
            }
            None => self.take_header(now, fields.from, &fields.header, actions),
        }
    }

    /// Handles the frames of a period on one link.
    fn sent_sum(&mut self, now: Time, sum: &SentSum) {
        (self.moved, self.busy) = (now, Some(now));
        self.outsiders.known_packets(sum.packets);
        self.air.spent_sum(sum);
        let delivered = sum.delivered() > 0;
        if delivered {
            self.through = now;
        }
        if let Some(n) = self.region.find(sum.to) {
            n.went = Some(now);
        }
        if let Some(out) = self.out.iter_mut().find(|o| o.to == sum.to) {
            out.packets += f64::from(sum.packets);
            out.failed += f64::from(sum.failed);
            out.failing = if delivered { None } else { out.failing.or(Some(now)) };
        }
        if sum.failed > 0 {
            // The flow of a discarded packet is not known: it is one of those that are sent there.
            let there = |f: &&mut Passing| f.here.next_hop == Some(sum.to) && f.active(now);
            self.flows.iter_mut().filter(there).for_each(|f| f.failed = Some(now));
        }
    }

    /// Handles the packets of a flow on one link over a period.
    fn flow_sum(&mut self, now: Time, sum: &FlowSum) {
        if sum.link.from != self.id {
            return self.came(now, sum.link.from, sum.flow, sum.ack);
        }
        let failing = |o: &Out| o.to == sum.link.to && o.failing.is_some();
        let failing = self.out.iter().any(failing);
        if let Some(flow) = self.flow(sum.flow) {
            match sum.ack {
                true => flow.answered = Some(now),
                false if !failing => {
                    flow.left(now, u32::try_from(sum.bytes).unwrap_or(u32::MAX));
                }
                false => {}
            }
        }
    }

    fn channel(&mut self, now: Time, channel: &Channel, actions: &mut Actions) {
        // Between ticks there is too little data for a measurement.
        if now >= self.ticked + TICK && !self.air.survey(channel) {
            self.anomaly(Anomaly::Counters, self.id, actions);
        }
    }

    fn sent(&mut self, now: Time, sent: &Sent, actions: &mut Actions) {
        self.moved = now;
        let (Some(to), Some(id)) = (sent.to, sent.flow) else { return };
        self.busy = Some(now);
        self.outsiders.packet(true);
        self.air.spent(sent);
        if sent.delivered {
            self.through = now;
        }
        if let Some(n) = self.region.find(to) {
            n.went = Some(now);
        }
        if let Some(out) = self.out.iter_mut().find(|o| o.to == to) {
            out.packets += 1.0;
            out.failed += f64::from(u8::from(!sent.delivered));
            out.failing = if sent.delivered { None } else { out.failing.or(Some(now)) };
        }
        if let Some(flow) = self.flow(id) {
            if !sent.delivered {
                flow.failed = Some(now);
            }
            match sent.ack {
                true => flow.answered = Some(now),
                false if sent.delivered => flow.left(now, sent.bytes),
                false => {}
            }
        }
        self.turn = (self.turn + 1) % 3;
        self.write(actions);
    }

    /// Sets the bits of the next packets.
    fn write(&mut self, actions: &mut Actions) {
        let values = match self.turn {
            0 => Values::Levels(self.levels),
            1 => Values::Rates(self.rates),
            _ => Values::Outer(self.outer),
        };
        let way = match self.around {
            0 => u32::from(u8::MAX),
            least => u32::from(least),
        };
        let words = [way, codec::word(values)];
        let before = core::mem::replace(&mut self.written, words);
        if before == words {
            return;
        }
        let level = codec::rate(self.levels.0[2]).unwrap_or(0.0) / 1e3;
        let sentence = "packets announce that flows here may have {} kbit/s each";
        actions.because(Reason::new("mesh-maxmin.header", sentence, &[Value::Ratio(level)]));
        if before[0] != words[0] {
            actions.annotate(Class::All, codec::PATH_SLOT, Merge::Min, words[0]);
        }
        if before[1] != words[1] {
            actions.annotate(Class::All, codec::CIRCLES_SLOT, Merge::Set, words[1]);
        }
    }

    fn tick(&mut self, now: Time, actions: &mut Actions) {
        let passed = now.since(self.ticked);
        self.ticked = now;
        self.region.forget(now);
        self.flows.iter_mut().for_each(|f| f.look(now, passed, self.hold));
        self.learn(now, passed, actions);
        self.limit(actions);
        self.speak(now, actions);
        if self.sampled {
            // Packets are not seen one by one: those of each tick carry the next kind of values.
            self.turn = (self.turn + 1) % 3;
        }
        self.write(actions);
        self.due = Some(now + TICK);
    }

    /// Updates the level.
    fn learn(&mut self, now: Time, passed: Span, actions: &mut Actions) {
        if self.backlog.waiting() > 0.0 && now.since(self.moved) >= STUCK_COUNTER_TIMEOUT {
            self.backlog.is(now, 0.0);
            self.anomaly(Anomaly::Stuck, self.id, actions);
        }
        let waited = self.backlog.look(now);
        let gone = |o: &Out| o.gone(now);
        let fade = libm::exp(-passed.as_secs_f64() / DISCARD_TIME_CONSTANT);
        let fastest = codec::rate(self.fastest).unwrap_or(0.0);
        if self.outsiders.look(now, fade, fastest, self.level.as_ref().map(Level::rate)) {
            self.anomaly(Anomaly::Outsiders, self.id, actions);
        }
        for out in &mut self.out {
            out.received = self.region.find(out.to).is_some_and(|n| n.has_sent());
            out.fade(fade);
            out.failing = out.failing.filter(|at| now.since(*at) < RETURN_TIME);
        }
        let lost = self.out.iter().filter(|o| !gone(o)).map(Out::lost).fold(0.0, f64::max);
        let most = codec::rate(self.around).unwrap_or(self.rates_of_links.bounds.1);
        let there = |f: &&Passing| {
            let next = self.out.iter().find(|o| Some(o.to) == f.here.next_hop);
            next.is_some_and(|o| !gone(o))
        };
        let lacks = self.flows.iter().filter(there).map(|f| f.lacks(now, most));
        let lacks = lacks.fold(0.0, f64::max);
        let dead = self.out.iter().find(|o| gone(o)).map(|o| o.to);
        if dead != self.dead {
            self.dead = dead;
            if let Some(node) = dead {
                self.anomaly(Anomaly::Dead, node, actions);
            }
        }
        let own = self.flows.iter().map(Passing::counts).fold(0.0, f64::max);
        let own = if own > codec::MIN_RATE { codec::code(own) } else { 0 };
        self.rates = self.region.rates(own);
        // A flow may be idle because its packets were discarded: its next one needs the level.
        let idle = lacks <= 0.0 && self.busy.is_none_or(|at| now.since(at) >= self.hold);
        if self.outsiders.there() || idle {
            self.level = None;
        } else if self.level.is_none() {
            let known = codec::rate(self.region.levels(0).0[2]);
            self.level = Some(Level::new(
                known.unwrap_or(self.rates_of_links.start),
                self.rates_of_links.bounds,
            ));
        }
        // Rates of the node's own flows by other levels than its own.
        let others = codec::rate(self.region.levels(0).0[2]).unwrap_or(f64::INFINITY);
        let active = self.flows.iter().filter(|f| f.active(now));
        let owed = active.map(|f| f.least().min(others)).fold(0.0, f64::max);
        if let Some(level) = &mut self.level {
            let fastest = codec::rate(self.fastest).unwrap_or(self.rates_of_links.start);
            let lower = if owed > 0.0 { level.rate() / owed } else { 1.0 };
            let waits = waited + lacks * self.lack;
            if !level.look(&self.rule, passed, waits, lost, fastest, lower) {
                *level = Level::new(self.rates_of_links.start, self.rates_of_links.bounds);
                self.anomaly(Anomaly::Level, self.id, actions);
            }
        }
        let level = self.level.as_ref().map_or(0, |l| codec::code(l.reported(&self.rule)));
        self.levels = self.region.levels(level);
        let air = (255.0 * self.air.own()).clamp(0.0, 255.0) as u8;
        self.outer = self.region.outer(air, self.levels.0[2], self.rates.0[2]);
        let outermost = self.region.outermost(self.outer);
        self.air.compare(f64::from(outermost.air) / 255.0);
        self.around = if self.air.wide { outermost.level } else { self.levels.0[2] };
        self.fastest = if self.air.wide { outermost.rate } else { self.region.fastest(own) };
    }

    /// Limits the flows that enter the mesh here.
    fn limit(&mut self, actions: &mut Actions) {
        let around = codec::rate(self.around);
        for f in self.flows.iter_mut().filter(|f| f.enters) {
            let way = f.way.map(|w| w.1);
            let least = around.into_iter().chain(way).fold(f64::INFINITY, f64::min);
            let free = if self.outsiders.there() {
                self.rates_of_links.bounds.1
            } else {
                self.rates_of_links.start
            };
            let level = if least.is_finite() { least } else { free };
            let level = level.clamp(self.rates_of_links.bounds.0, self.rates_of_links.bounds.1);
            if f.limit.is_none_or(|l| (level / l - 1.0).abs() >= MIN_CHANGE) {
                f.limit = Some(level);
                let values = [Value::Flow(f.flow()), Value::Ratio(level / 1e3)];
                let sentence = "flow {}: the least level around its way is {} kbit/s";
                actions.because(Reason::new("mesh-maxmin.limit", sentence, &values));
                actions.set_rate(Class::Flow(f.flow()), f.ip(level));
            }
            let marked = f.marks(self.marks, self.patience);
            if (marked - f.marked).abs() > MIN_CHANGE || (marked == 0.0) != (f.marked == 0.0) {
                f.marked = marked;
                let values = [Value::Flow(f.flow()), Value::Count(f.waits().into())];
                let sentence = "flow {}: {} packets wait for its limit";
                actions.because(Reason::new("mesh-maxmin.mark", sentence, &values));
                actions.mark(Class::Flow(f.flow()), marked);
            }
        }
    }
}

impl Control for Node {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            // Woken too early: it waits for the end of its tick.
            Event::Deadline if self.due.is_some_and(|due| now < due) => {}
            Event::Deadline => self.tick(now, actions),
            Event::Queue(q) if q.class == Class::All => {
                let packets = f64::from(q.packets);
                if packets != self.backlog.waiting() {
                    self.moved = now;
                }
                self.backlog.is(now, packets);
            }
            Event::Counters(c) => {
                if let Class::Flow(id) = c.class
                    && let Some(flow) = self.flow(id)
                {
                    flow.counted(now, c);
                }
            }
            Event::Channel(c) => self.channel(now, c, actions),
            Event::Sent(s) => self.sent(now, s, actions),
            Event::SentSum(s) => self.sent_sum(now, s),
            Event::FlowSum(f) => self.flow_sum(now, f),
            Event::Received(h) => {
                if self.headers {
                    self.take_header(now, h.link.from, &h.header, actions);
                }
                self.received(now, h, actions);
            }
            Event::Overheard(h) => self.take_header(now, h.link.from, &h.header, actions),
            Event::Fields(f) => self.fields(now, f, actions),
            Event::Message(m) => self.message(now, m, actions),
            Event::Neighbours(all) => self.renew(all),
            Event::FlowSeen(here) => {
                self.meet(here);
                self.limit(actions);
            }
            Event::FlowGone(flow) => {
                if self.flow(*flow).is_some_and(|f| f.enters && f.limit.is_some()) {
                    let values = [Value::Flow(*flow)];
                    actions.because(Reason::new("mesh-maxmin.gone", "flow {} has ended", &values));
                    actions.remove(Class::Flow(*flow));
                }
                self.flows.retain(|f| f.flow() != *flow);
            }
            _ => {}
        }
        // A late host must not find a deadline in the past.
        self.due = self.due.map(|d| d.max(now));
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    fn wants(&self) -> EventSet {
        EventSet::of(&[EventKind::Neighbours])
    }
}
