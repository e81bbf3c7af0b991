//! `wcpcap`: every link estimates the possible rate of a flow on it.
//!
//! Sources send at the smallest estimate around their path (Rangwala 2008 §3.2, "Estimating available bandwidth").
//!
//! Per epoch a link's transmitter asks the model of the DCF for the achievable change δ of every flow of its
//! neighbourhood L(i→j), and moves the link's rate R by it. Packets carry the smallest R of all neighbourhoods they cross.
//! Links exchange reports in header fields that neighbours overhear, three hops far; with `+ideal` outside the air, as
//! in the paper.

mod anomaly;
mod estimate;
mod headroom_search;
mod link;
mod link_report;
mod neighbourhood;
mod newcomers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use fairmesh_units::{FlowId, NodeId, Span, Stream, Time};

use self::anomaly::Anomaly;
use self::estimate::{Headroom, Questions, fastest};
use self::link::{Full, OwnLink, Source};
use self::link_report::{FlowReport, LinkReport, REPORT_WORDS, limit_code, limit_of};
use self::neighbourhood::{MAX_HOPS, Rejected, Reports, Topology};
use self::newcomers::ReportSchedule;
use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, Control, Definition, Delivery, Event, EventKind, EventSet,
    Feedback, FlowHere, Instance, Knowledge, KnowledgeSet, LinkModel, Merge, Message, Needs,
    NoAnswer, Origin, Place, Placement, PlacementSet, Plan, Reach, Reason, ReceivedFrame, Refusal,
    Sent, Setting, Value,
};

options! {
    /// Options of `wcpcap`.
    pub(crate) struct Options {
        variants {
            ideal: Origin::published("Rangwala 2008 §4.1"), "links exchange state outside the air, without delay or cost";
            opening: Origin::ours("Rangwala 2008 §3.2"), "a link takes a larger part of the headroom from its first epoch until little is left";
            yielding: Origin::ours("Rangwala 2008 §3.2"), "R of a link with a busy queue falls to the carried rate of its flows";
        }
        parameters {
            u: f64 = 0.7, 0.05..=1.0, "", "U: the largest share of time that a queue may be busy";
            short: f64 = 0.9, 0.0..=1.0, "", "+yielding: part of the allowed rate of its flows below which R of a busy link falls";
            k: f64 = 10.0, 1.0..=1000.0, "", "epoch in shared round trips";
            rho: f64 = 0.1, 0.001..=1.0, "", "part of the headroom by which rates rise per epoch";
            opening_part as "opening": f64 = 0.5, 0.001..=1.0, "", "+opening: this part from a link's first epoch until little headroom is left";
            start: f64 = 10.0, 0.1..=1e5, "packets/s", "rate of a new flow";
            least: f64 = 1.0, 0.05..=1e4, "packets/s", "least rate of a flow";
            hold: Span = 3.0, 0.1..=60.0, "s", "lifetime of state that is neither renewed nor used";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about =
        "links estimate a rate for their flows; sources send at the least one around their path";
    Definition::new("wcpcap", about, Origin::published("Rangwala 2008 §3.2"))
        .with_options(needs, build)
}

/// Draws an index below `among`; `None` if that is 0.
fn draw(stream: &mut Stream, among: usize) -> Option<usize> {
    (among > 0).then(|| stream.below(among as u32) as usize)
}

/// Field of the flow's mean round trip and its allowed rate, from its source.
const FLOW_FIELD: u8 = 0;
/// Field of the lowest rate around the path so far.
const LIMIT_FIELD: u8 = 1;
/// First field of the report of one link.
const REPORT_FIELD: u8 = 2;
/// Bytes of the feedback: a round trip of 7 bits, a rate and a limit of 12 each.
const FEEDBACK_BYTES: u32 = 4;
/// Bytes of the feedback with the report of a link.
const HEADER_BYTES: u32 = FEEDBACK_BYTES + 4 * REPORT_WORDS as u32;
/// Time between evaluations of other nodes' reports.
const TICK: Span = Span::from_millis(50);
/// Assumed round trip for an epoch, if none is known, s.
const DEFAULT_ROUND_TRIP: f64 = 0.05;
/// Bounds of an epoch.
const EPOCH_BOUNDS: (Span, Span) = (Span::from_millis(100), Span::from_secs(10));
/// Time after coming into use in which a link gives all flows around it the same rate.
///
/// Their present rates are not a valid start yet.
const EQUAL_RATE_TIME: Span = Span::from_millis(2500);
/// Relative difference from which a new spacing is set.
const MIN_CHANGE: f64 = 0.003;

fn needs(options: &Options) -> Vec<Needs> {
    let ideal = options.ideal;
    let events = EventSet::of(&[
        EventKind::Sent,
        EventKind::Received,
        EventKind::Feedback,
        EventKind::Flows,
        EventKind::QueueSamples,
    ]);
    let (more, able) = match ideal {
        true => (EventSet::of(&[EventKind::Messages]), Ability::IdealExchange),
        false => (EventSet::of(&[EventKind::Overheard, EventKind::Messages]), Ability::Send),
    };
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: events.or(more),
        abilities: AbilitySet::of(&[Ability::Annotate, Ability::Pace, able]),
        knowledge: KnowledgeSet::of(&[
            Knowledge::LinkRates,
            Knowledge::Topology,
            Knowledge::LinkModel,
        ]),
        header_bytes: if ideal { FEEDBACK_BYTES } else { HEADER_BYTES },
        delivery: Delivery::default(),
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let model = setting.model.clone().ok_or_else(no_model)?;
    let links = setting.links.iter().copied();
    let around = Topology::new(setting.node, links);
    let own = setting.neighbours.iter().map(|n| OwnLink::new(n, &around)).collect();
    let mut control = WcpCap {
        node: setting.node,
        ideal: options.ideal,
        u: options.u,
        short: if options.yielding { options.short } else { 0.0 },
        k: options.k,
        rho: options.rho,
        opening: if options.opening { options.opening_part } else { options.rho },
        start: options.start,
        least: options.least,
        hold: options.hold,
        model,
        own,
        reports: Reports::new(around),
        questions: Questions::default(),
        routes: Vec::new(),
        sources: Vec::new(),
        flow_reports: BTreeMap::new(),
        schedule: ReportSchedule::default(),
        stream: setting.stream,
        anomalies: BTreeMap::new(),
        due: (!setting.neighbours.is_empty()).then_some(Time::ZERO),
    };
    setting.flows.iter().for_each(|here| control.meet(Time::ZERO, here));
    Ok(Instance { control: Box::new(control), plan: Plan::none() })
}

/// Refuses a host that declares a model of its links and gives none.
fn no_model() -> Refusal {
    Refusal::new("wcpcap.no-model", "the host gives no model of what its links can carry", &[])
}

/// An evaluation of this instant: reports, true if all flows are equal, and the result.
type Answer = (Vec<LinkReport>, bool, Option<Headroom>);

/// WCPCap at one node.
#[derive(Debug)]
struct WcpCap {
    node: NodeId,
    ideal: bool,
    u: f64,
    short: f64,
    k: f64,
    rho: f64,
    opening: f64,
    start: f64,
    least: f64,
    hold: Span,
    model: Arc<dyn LinkModel>,
    own: Vec<OwnLink>,
    reports: Reports,
    questions: Questions,
    /// Next hop of each flow's data.
    routes: Vec<(FlowId, NodeId)>,
    /// This node's own flows.
    sources: Vec<Source>,
    /// Reports of passing flows by their sources.
    flow_reports: BTreeMap<FlowId, (FlowReport, Time)>,
    /// Timing of messages for packets that are not delivered.
    schedule: ReportSchedule,
    /// Random choice of the report in the next packet.
    ///
    /// It is random, not in turn: paced packets follow in fixed patterns, and if those of one kind collide,
    /// the reports at these turns would never be received.
    stream: Stream,
    anomalies: BTreeMap<(Anomaly, NodeId), u64>,
    due: Option<Time>,
}

impl WcpCap {
    fn meet(&mut self, now: Time, here: &FlowHere) {
        self.routes.retain(|r| r.0 != here.flow);
        let Some(next) = here.next_hop else { return };
        // The next hop is a wire: there is no airtime to share.
        let Some(own) = self.own.iter_mut().find(|o| o.to == next) else { return };
        self.routes.push((here.flow, next));
        if here.place == Place::Source && !self.sources.iter().any(|s| s.flow == here.flow) {
            own.flow_arrived(now);
            let capacity = own.capacity;
            let bits = 8.0 * f64::from(here.packet.max(1) + self.header());
            let bounds = (self.least * bits, capacity);
            self.sources.push(Source::new(here.flow, bits, self.start * bits, bounds));
            // It is paced from its first packet on.
            self.due = self.due.map(|_| Time::ZERO);
        }
    }

    fn header(&self) -> u32 {
        if self.ideal { FEEDBACK_BYTES } else { HEADER_BYTES }
    }

    fn anomaly(&mut self, what: Anomaly, node: NodeId, actions: &mut Actions) {
        let count = self.anomalies.entry((what, node)).or_default();
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

    /// Handles a report from a neighbour, or outside the air.
    fn take(
        &mut self,
        now: Time,
        from: NodeId,
        report: Result<LinkReport, link_report::Implausible>,
        actions: &mut Actions,
    ) {
        let sender = (!self.ideal).then_some(from);
        let taken = report
            .map_err(|_| Rejected::Implausible)
            .and_then(|n| self.reports.take(now, sender, n));
        match taken {
            Ok(()) => {}
            Err(Rejected::Implausible) => self.anomaly(Anomaly::Implausible, from, actions),
            Err(Rejected::Unknown) => self.anomaly(Anomaly::Unknown, from, actions),
        }
    }

    fn take_header(&mut self, now: Time, frame: &ReceivedFrame, actions: &mut Actions) {
        let at = usize::from(REPORT_FIELD);
        let words = core::array::from_fn(|i| frame.header.0[at + i]);
        if !self.ideal
            && let Some(report) = LinkReport::read(words)
        {
            self.take(now, frame.link.from, report, actions);
        }
    }

    fn received(&mut self, now: Time, frame: &ReceivedFrame) {
        if frame.ack {
            return;
        }
        let word = frame.header.0[usize::from(FLOW_FIELD)];
        if word > 0 {
            self.flow_reports.insert(frame.flow, (FlowReport::read(word), now));
        }
        let route = self.routes.iter().find(|r| r.0 == frame.flow).map(|r| r.1);
        if let Some(own) = self.own.iter_mut().find(|o| Some(o.to) == route) {
            own.packet_received(frame.flow, frame.bytes, now);
        }
    }

    fn sent(&mut self, now: Time, sent: &Sent, actions: &mut Actions) {
        let soonest = self.own.iter().filter_map(|o| o.next).min();
        let (Some(to), Some(flow)) = (sent.to, sent.flow) else { return };
        let Some(own) = self.own.iter_mut().find(|o| o.to == to) else { return };
        if own.next.is_none() {
            // Together with the node's other links, so that one question serves all.
            let first = Span::from_secs_f64(self.k * DEFAULT_ROUND_TRIP)
                .clamp(EPOCH_BOUNDS.0, EPOCH_BOUNDS.1);
            own.begin(now, soonest.unwrap_or(now + first).max(now + EPOCH_BOUNDS.0));
            self.due = Some(self.due.map_or(now + TICK, |d| d.min(now + TICK)));
        }
        own.sent(now, flow, sent.ack, sent.bytes);
        own.packet_outcome(now, sent.delivered);
        if !self.ideal {
            self.send_state(actions);
        }
    }

    /// Sets the next packet's report: one of own links or one of others', with equal probability.
    fn send_state(&mut self, actions: &mut Actions) {
        let measured: Vec<LinkReport> = self.own.iter().filter_map(|o| o.measured).collect();
        let own = draw(&mut self.stream, measured.len()).map(|at| measured[at]);
        let passed =
            draw(&mut self.stream, self.reports.passed()).and_then(|at| self.reports.pass(at));
        let next = if self.stream.chance(0.5) { own.or(passed) } else { passed.or(own) };
        let Some(report) = next else { return };
        let node = Value::Node(report.link.from);
        actions.because(Reason::new("wcpcap.news", "of a link of node {}", &[node]));
        for (i, word) in report.words().into_iter().enumerate() {
            actions.annotate(Class::All, REPORT_FIELD + i as u8, Merge::Set, word);
        }
    }

    fn feedback(&mut self, feedback: &Feedback, actions: &mut Actions) {
        let Some(at) = self.sources.iter().position(|s| s.flow == feedback.flow) else { return };
        let source = &mut self.sources[at];
        if source.measure(feedback.rtt) {
            let word = source.report().word();
            let flow = Value::Flow(feedback.flow);
            let sentence = "flow {} tells its round trip and its rate";
            actions.because(Reason::new("wcpcap.flow", sentence, &[flow]));
            actions.annotate(Class::Flow(feedback.flow), FLOW_FIELD, Merge::Set, word);
        }
        match limit_of(feedback.header.0[usize::from(LIMIT_FIELD)]) {
            Some(rate) => self.allow(at, rate, actions),
            // Before its links' first epoch is over there is no rate yet.
            None if source.limited => self.anomaly(Anomaly::Unset, self.node, actions),
            None => {}
        }
    }

    /// Sets a source's rate, IP bits/s.
    fn allow(&mut self, at: usize, rate: f64, actions: &mut Actions) {
        let source = &mut self.sources[at];
        source.limited = true;
        if source.allow(rate, MIN_CHANGE) {
            actions.because(Reason::new(
                "wcpcap.source",
                "flow {}: the least rate around its path: a packet every {}",
                &[Value::Flow(source.flow), Value::Span(source.spacing)],
            ));
            actions.clock(source.flow, source.spacing);
        }
    }

    fn tick(&mut self, now: Time, actions: &mut Actions) {
        for at in 0..self.sources.len() {
            if self.sources[at].spacing == Span::ZERO {
                let rate = self.sources[at].rate;
                self.allow(at, rate, actions);
                self.sources[at].limited = false;
            }
        }
        let longest = self.own.iter().map(|o| o.epoch).max().unwrap_or(Span::ZERO);
        self.reports.forget(now, self.hold.max(longest.saturating_mul(3)));
        let hold = self.hold;
        self.flow_reports.retain(|_, s| now.since(s.1) < hold);
        if !self.ideal {
            self.end_epochs_after_departures(now);
        }
        let due: Vec<usize> =
            (0..self.own.len()).filter(|&i| self.own[i].next.is_some_and(|n| n <= now)).collect();
        due.iter().for_each(|&i| self.measure(now, i, actions));
        let mut answers: Vec<Answer> = Vec::new();
        for &i in &due {
            self.decide(now, i, &mut answers, actions);
        }
        for i in 0..self.own.len() {
            self.write(i, actions);
        }
        self.send_reports(now, actions);
        let next = self.own.iter().filter_map(|o| o.next).min();
        let next = next.map(|n| n.min(now + TICK));
        let next = next.into_iter().chain(self.speaks(now).then_some(self.schedule.next)).min();
        self.due = next.map(|n| n.max(now + Span::from_nanos(1)));
    }

    /// Ends a link's epoch: measures its traffic.
    fn measure(&mut self, now: Time, i: usize, actions: &mut Actions) {
        let own = &mut self.own[i];
        let to = own.to;
        if own.unreported() {
            self.anomaly(Anomaly::Silent, to, actions);
        }
        let hold = self.patience(now, i);
        let full = Full { u: self.u, short: self.short };
        let own = &mut self.own[i];
        let (reports, sources) = (&self.flow_reports, &self.sources);
        let of = |flow: FlowId| {
            let mine = sources.iter().find(|s| s.flow == flow).map(Source::report);
            mine.or_else(|| reports.get(&flow).map(|s| s.0))
        };
        own.close(now, self.node, hold, full, self.model.as_ref(), of);
    }

    /// Returns the reports of L(i→j) of an own link, in the order of links.
    fn neighbourhood(&self, i: usize) -> Vec<LinkReport> {
        let mine = self.own.iter().filter_map(|o| o.measured);
        let mut all: Vec<LinkReport> =
            self.reports.among(&self.own[i].middle).copied().chain(mine).collect();
        all.retain(|n| n.data > 0.0 || n.acks > 0.0);
        all.sort_by_key(|n| n.link);
        if !self.ideal {
            newcomers::make_room(&mut all);
        }
        all
    }

    /// Applies Rangwala 2008 Fig 4 to one link at the end of its epoch.
    fn decide(&mut self, now: Time, i: usize, answers: &mut Vec<Answer>, actions: &mut Actions) {
        let around = self.neighbourhood(i);
        let trip = around.iter().map(|n| n.trip).fold(0.0, f64::max);
        let trip = if trip > 0.0 { trip } else { DEFAULT_ROUND_TRIP };
        let epoch = Span::from_secs_f64(self.k * trip).clamp(EPOCH_BOUNDS.0, EPOCH_BOUNDS.1);
        let own = &mut self.own[i];
        own.again(now, epoch);
        // Other nodes' measurements of their first epoch have not arrived yet.
        if own.measured.is_none() || own.epochs < 2 {
            return self.report(i, actions);
        }
        // Flows that wait for a newcomer continue to wait until its packets are delivered.
        let young =
            now.since(own.born) < EQUAL_RATE_TIME || (!self.ideal && own.never_delivered(now));
        // Links of one node often have the same neighbourhood. Their own rates do not matter here.
        let key: Vec<LinkReport> = around.iter().map(|n| LinkReport { limit: 0.0, ..*n }).collect();
        let answer = match answers.iter().find(|a| a.0 == key && a.1 == young) {
            Some(known) => known.2,
            None => {
                let in_range = self.reports.in_range(&around);
                let model = self.model.as_ref();
                let found = match young {
                    true => self.questions.alike(model, &around, in_range, self.u, &mut own.even),
                    false => {
                        self.questions.headroom(model, &around, in_range, self.u, &mut own.edge)
                    }
                };
                answers.push((key, young, found));
                found
            }
        };
        let Some(Headroom { delta, unknown }) = answer else {
            own.fewer = false;
            self.anomaly(Anomaly::TooLarge, self.node, actions);
            return;
        };
        if let Some(why) = unknown {
            let what = match why {
                NoAnswer::NotSettled => Anomaly::Unsettled,
                _ => Anomaly::Outside,
            };
            self.anomaly(what, self.own[i].to, actions);
        }
        let own = &mut self.own[i];
        match young {
            true => own.set(delta, self.least),
            false => {
                let anew = !self.ideal;
                own.adapt(delta, (self.opening, self.rho), fastest(&around), (self.least, anew));
            }
        }
        self.use_freed_capacity(i, &around);
        self.report(i, actions);
        let own = &self.own[i];
        if own.backlogged {
            let sentence = "link to node {}: packets wait for most of the time, and {} of what its \
                            flows may send gets through";
            actions.because(Reason::new(
                "wcpcap.backlog",
                sentence,
                &[Value::Node(own.to), Value::Percent(own.passed)],
            ));
        }
        let rate = fairmesh_units::BitRate(own.limit.unwrap_or(0.0) as u64);
        let values =
            [Value::Node(own.to), Value::Ratio(delta / 1e3), Value::Rate(rate), Value::Span(epoch)];
        let sentence = "link to node {}: room for {} kbit/s per flow around it: R = {}, for {}";
        actions.because(Reason::new("wcpcap.rate", sentence, &values));
    }

    /// Sends the report of an own link outside the air to all nodes that need it.
    fn report(&self, i: usize, actions: &mut Actions) {
        if self.ideal
            && let Some(report) = self.own[i].measured
        {
            let node = Value::Node(self.node);
            actions.because(Reason::new("wcpcap.news", "of a link of node {}", &[node]));
            actions.hand_over(Reach::Within(MAX_HOPS), &report.plain());
        }
    }

    /// Sets the feedback of packets on a link: the smallest R of its neighbourhood.
    fn write(&mut self, i: usize, actions: &mut Actions) {
        let rates = self.reports.among(&self.own[i].middle).map(|n| n.limit);
        let mine = self.own.iter().filter_map(|o| o.limit);
        let least = rates.filter(|r| *r > 0.0).chain(mine).fold(f64::INFINITY, f64::min);
        let own = &mut self.own[i];
        let code = if own.limit.is_some() { limit_code(least) } else { 0 };
        if code != own.written {
            own.written = code;
            let node = Value::Node(own.to);
            let sentence = "the least rate around the link to node {}";
            actions.because(Reason::new("wcpcap.least", sentence, &[node]));
            // A link without a rate of its own sets no limit.
            let code = if code == 0 { limit_code(f64::INFINITY) } else { code };
            actions.annotate(Class::Link(own.to), LIMIT_FIELD, Merge::Min, code);
        }
    }

    fn message(&mut self, now: Time, m: &Message<'_>, actions: &mut Actions) {
        match self.ideal {
            true => self.take(now, m.from, LinkReport::of_plain(m.body), actions),
            false => self.take_message(now, m.from, m.body, actions),
        }
    }
}

impl Control for WcpCap {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Deadline => self.tick(now, actions),
            Event::Sent(s) => self.sent(now, s, actions),
            Event::Received(h) => {
                self.take_header(now, h, actions);
                self.received(now, h);
            }
            Event::Overheard(h) => self.take_header(now, h, actions),
            Event::Message(m) => self.message(now, m, actions),
            Event::Feedback(f) => self.feedback(f, actions),
            Event::Queue(q) if q.class == Class::All => {
                self.own.iter_mut().for_each(|o| o.sample_queue(q.packets));
            }
            Event::FlowSeen(here) => {
                self.meet(now, here);
                if self.sources.iter().any(|s| s.spacing == Span::ZERO) {
                    self.due = Some(now);
                }
            }
            Event::FlowGone(flow) => self.sources.retain(|s| s.flow != *flow),
            _ => {}
        }
        // A late host must not find a deadline in the past.
        self.due = self.due.map(|d| d.max(now));
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due
    }
}
