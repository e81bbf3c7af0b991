//! `wcp`: sources halve their rates when a link that shares the channel with theirs is congested
//! (Rangwala 2008 §3.1).
//!
//! A link is congested when the moving average of its queue is above a threshold. That, and the
//! round trips of its flows, is shared with every link in its neighbourhood, two hops around: in
//! header fields of all packets, which neighbours overhear. All sources of a neighbourhood so hear
//! of congestion alike, and raise and lower their rates at the pace of its longest round trip.

mod links;
mod rate;
#[cfg(test)]
mod tests;
mod word;

use fairmesh_units::{Bytes, FlowId, NodeId, Span, Time};

use self::links::Book;
use self::rate::Rate;
use self::word::Word;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Entry, Event, EventKind, EventSet,
    Feedback, FlowHere, Heard, Instance, Knob, Knowledge, KnowledgeSet, Leaf, Limit, Merge, Needs,
    Neighbour, Options, Place, Placement, PlacementSet, Plan, Point, Reason, Refused, Runs,
    Setting, Value, Variant,
};

pub(crate) static ENTRY: Entry = Entry {
    name: "wcp",
    about: "sources halve their rates when a link around theirs is congested",
    paper: "Rangwala 2008 §3.1",
    variants: &[
        Variant { name: "alone", about: "congestion is not shared: a link marks its own packets" },
        Variant { name: "own-rtt", about: "round trips are not shared: each flow goes by its own" },
        Variant {
            name: "uncorrected",
            about: "no goodput correction: retransmissions count against the rate",
        },
        Variant {
            name: "in-network",
            about: "routers spare flows that are slower than those on the congested link (§4.3)",
        },
        Variant {
            name: "patient",
            about: "halves once where WCP halves twice or thrice: six times t_md, three times alpha",
        },
    ],
    knobs: &[
        knob("alpha", "additive increase per interval, packets/s", 0.1, 0.001, 100.0),
        knob("threshold", "average queue above which a link is congested, packets", 4.0, 0.1, 1e3),
        knob("weight", "weight of a change in the average queue", 0.02, 0.0001, 1.0),
        knob("deaf", "t_md in shared instantaneous round trips", 1.0, 0.1, 100.0),
        knob("start", "rate of a new flow, packets/s", 10.0, 0.1, 1e5),
        knob("least", "rate below which no flow is brought, packets/s", 1.0, 0.05, 1e4),
        knob("hold", "what is not heard again is forgotten after, s", 1.0, 0.05, 60.0),
        knob("queue", "buffer of each link, packets", 64.0, 1.0, 1000.0),
    ],
    runs: Runs::At { needs, build },
};

const fn knob(name: &'static str, about: &'static str, default: f64, min: f64, max: f64) -> Knob {
    Knob { name, about, default, min, max }
}

/// How often averages, shared states and rates are brought up to date.
const TICK: Span = Span::from_millis(20);
/// What `patient` makes of t_md and α. A congested link is so for longer than one round trip: its
/// average queue has to fall, and the news of it to come around.
const PATIENT: (f64, f64) = (6.0, 3.0);
/// A spacing is set anew when it differs by this part.
const STEP: f64 = 0.01;

/// The flow's own round trips and rate, from its source.
const FLOW: u8 = 0;
/// The largest shared average and instantaneous round trip on the path.
const AVERAGE: u8 = 1;
const INSTANT: u8 = 2;
/// The congestion bit.
const BIT: u8 = 3;
/// State of the link that the packet is on, of the links into its transmitter, and of all links
/// whose neighbourhood the transmitter is in.
const OWN: u8 = 4;
const INTO: u8 = 5;
const AROUND: u8 = 6;
/// Four words of 32 bits, two round trips of 12 bits and a bit, on whole bytes.
const HEADER: u32 = 20;

fn shares(options: &Options) -> bool {
    !(options.has("alone") && options.has("own-rtt"))
}

fn needs(options: &Options) -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: EventSet::of(&[
            EventKind::QueueChanges,
            EventKind::Received,
            EventKind::Overheard,
            EventKind::Feedback,
            EventKind::Flows,
        ]),
        abilities: AbilitySet::of(&[
            Ability::ReplaceQueue,
            Ability::LinkClasses,
            Ability::Annotate,
            Ability::Pace,
        ]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates]),
        header_bytes: if shares(options) { HEADER } else { 1 },
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refused> {
    let neighbours = setting.neighbours.iter().map(|n| n.node);
    let class = |node| ClassPlan {
        class: Class::Link(node),
        limit: Limit::None,
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: options.get("queue") as u32 },
    };
    let classes = neighbours.clone().map(class).collect();
    let plan = Plan { point: Point::Interface, classes, template: None };
    let (longer, faster) = if options.has("patient") { PATIENT } else { (1.0, 1.0) };
    let mut control = Wcp {
        book: Book::new(setting.node, neighbours),
        links: setting.neighbours.clone(),
        routes: Vec::new(),
        rates: Vec::new(),
        share_bits: !options.has("alone"),
        share_rtts: !options.has("own-rtt"),
        shares: shares(options),
        corrected: !options.has("uncorrected"),
        in_network: options.has("in-network"),
        alpha: options.get("alpha") * faster,
        threshold: options.get("threshold"),
        weight: options.get("weight"),
        deaf: options.get("deaf") * longer,
        start: options.get("start"),
        least: options.get("least"),
        hold: Span::from_secs_f64(options.get("hold")),
        marked: Vec::new(),
        ticked: Time::ZERO,
        due: (!setting.neighbours.is_empty()).then_some(Time::ZERO),
    };
    setting.flows.iter().for_each(|here| control.meet(here));
    Ok(Instance { control: Box::new(control), plan })
}

/// WCP at one node.
#[derive(Debug)]
struct Wcp {
    book: Book,
    links: Vec<Neighbour>,
    /// Where the data of flows goes from here.
    routes: Vec<(FlowId, NodeId)>,
    /// Flows of this node.
    rates: Vec<Rate>,
    share_bits: bool,
    share_rtts: bool,
    shares: bool,
    corrected: bool,
    in_network: bool,
    alpha: f64,
    threshold: f64,
    weight: f64,
    deaf: f64,
    start: f64,
    least: f64,
    hold: Span,
    /// In the network: flows whose packets are marked here.
    marked: Vec<FlowId>,
    ticked: Time,
    due: Option<Time>,
}

impl Wcp {
    fn meet(&mut self, here: &FlowHere) {
        self.routes.retain(|r| r.0 != here.flow);
        let Some(next) = here.next_hop else { return };
        // Into a wire: no air to share.
        let Some(link) = self.links.iter().find(|l| l.node == next) else { return };
        self.routes.push((here.flow, next));
        if here.place == Place::Source && !self.rates.iter().any(|r| r.flow == here.flow) {
            let most = link.capacity.0 as f64 / (8.0 * f64::from(here.packet.max(1)));
            self.rates.push(Rate::new(here.flow, here.payload, self.start, self.least, most));
        }
    }

    fn hear(&mut self, now: Time, heard: &Heard) {
        let Some(far) = self.book.far.iter_mut().find(|f| f.node == heard.link.from) else {
            return;
        };
        let word = |slot: u8| Word::decode(heard.header.0[usize::from(slot)]);
        far.told(now, heard.link.to, word(OWN), word(INTO), word(AROUND));
    }

    fn received(&mut self, now: Time, heard: &Heard) {
        let route = self.routes.iter().find(|r| r.0 == heard.flow).map(|r| r.1);
        if let Some(next) = route
            && !heard.ack
            && let Some(link) = self.book.own_mut(next)
        {
            let word = Word::decode(heard.header.0[usize::from(FLOW)]);
            link.carries(now, heard.flow, word);
        }
    }

    fn feedback(&mut self, now: Time, told: &Feedback, actions: &mut Actions) {
        let Some(rate) = self.rates.iter_mut().find(|r| r.flow == told.flow) else { return };
        rate.measure(told.rtt, told.acked, told.lost);
        let word = rate.word();
        let shared = |slot: u8| match self.share_rtts {
            true => told.header.0[usize::from(slot)],
            false => 0,
        };
        rate.interval = Rate::interval_of(shared(AVERAGE), word.average);
        // The interval of the packet that brought the notification.
        let wait = Rate::interval_of(shared(INSTANT), word.instant);
        let wait = Span::from_secs_f64(wait.as_secs_f64() * self.deaf);
        if told.header.0[usize::from(BIT)] & 1 == 1 && rate.fall(now, wait) {
            actions.because(Reason::new(
                "wcp.decrease",
                "flow {}: congestion on its way: half the rate, then deaf for {}",
                &[Value::Flow(told.flow), Value::Span(wait)],
            ));
            rate.spacing = rate.space(self.corrected);
            actions.clock(rate.flow, rate.spacing);
        }
    }

    fn tick(&mut self, now: Time, actions: &mut Actions) {
        let passed = now.since(self.ticked);
        self.ticked = now;
        let since = now.as_nanos().saturating_sub(self.hold.as_nanos());
        self.book.forget(Time::from_nanos(since));
        self.book.own.iter_mut().for_each(|o| o.idle(passed, self.weight));
        self.raise(now, actions);
        let (into, around) = (self.book.inward(), self.book.around(self.threshold));
        for link in 0..self.book.own.len() {
            self.write(link, into, around, actions);
        }
        if self.in_network {
            self.choose(around, actions);
        }
        self.due = Some(now + TICK);
    }

    /// Additive increase of the flows of this node, and what their packets say of them.
    fn raise(&mut self, now: Time, actions: &mut Actions) {
        for rate in &mut self.rates {
            let first = rate.spacing == Span::ZERO;
            rate.rise(now, self.alpha);
            let spacing = rate.space(self.corrected);
            let change = spacing.as_secs_f64() / rate.spacing.as_secs_f64();
            if first || !(1.0 - STEP..=1.0 + STEP).contains(&change) {
                rate.spacing = spacing;
                actions.because(Reason::new(
                    "wcp.increase",
                    "flow {}: up every {}: a packet every {}",
                    &[Value::Flow(rate.flow), Value::Span(rate.interval), Value::Span(spacing)],
                ));
                actions.clock(rate.flow, spacing);
            }
            let Some(next) = self.routes.iter().find(|r| r.0 == rate.flow).map(|r| r.1) else {
                continue;
            };
            let word = rate.word();
            let Some(own) = self.book.own.iter_mut().find(|o| o.to == next) else { continue };
            own.carries(now, rate.flow, word);
            if self.shares {
                actions.because(Reason::new(
                    "wcp.flow",
                    "flow {} tells its round trips",
                    &[Value::Flow(rate.flow)],
                ));
                actions.annotate(Class::Flow(rate.flow), FLOW, Merge::Set, word.encode());
            }
        }
    }

    /// Brings the fields of a link's next packets into force.
    fn write(&mut self, link: usize, into: Word, around: Word, actions: &mut Actions) {
        let own = &self.book.own[link];
        let (to, state) = (own.to, own.state(self.threshold));
        let mut shared = self.book.shared(to, around);
        if !self.share_bits {
            shared.rate = state.rate;
        }
        let class = Class::Link(to);
        let node = Value::Node(to);
        let own = &mut self.book.own[link];
        if own.marking != shared.congested() {
            own.marking = shared.congested();
            let sentence = match (state.congested(), own.marking) {
                (true, _) => "the link to node {} is congested",
                (false, true) => "a link around the one to node {} is congested",
                (false, false) => "nothing around the link to node {} is congested",
            };
            actions.because(Reason::new("wcp.mark", sentence, &[node]));
            if !self.in_network {
                actions.annotate(class, BIT, Merge::Or, u32::from(own.marking));
            }
        }
        if !self.shares {
            return;
        }
        let said = [state, into, around].map(Word::encode);
        if own.said != said {
            actions.because(Reason::new("wcp.state", "news for those around node {}", &[node]));
            for (slot, (word, before)) in
                [OWN, INTO, AROUND].into_iter().zip(said.iter().zip(own.said))
            {
                if *word != before {
                    actions.annotate(class, slot, Merge::Set, *word);
                }
            }
            own.said = said;
        }
        if (own.shared.average, own.shared.instant) != (shared.average, shared.instant) {
            actions.because(Reason::new(
                "wcp.rtt",
                "the longest round trips around the link to node {} are {} and {} ms",
                &[node, Value::Count(shared.average.into()), Value::Count(shared.instant.into())],
            ));
            actions.annotate(class, AVERAGE, Merge::Max, shared.average);
            actions.annotate(class, INSTANT, Merge::Max, shared.instant);
        }
        own.shared = shared;
    }

    /// In the network: marks the flows that are no slower than those on the congested link.
    fn choose(&mut self, around: Word, actions: &mut Actions) {
        for own in &self.book.own {
            let limit = match self.share_bits {
                true => self.book.shared(own.to, around),
                false => own.state(self.threshold),
            };
            for c in &own.flows {
                let mark = limit.congested() && c.word.rate >= limit.rate;
                let known = self.marked.iter().position(|f| *f == c.flow);
                let sentence = match (mark, known) {
                    (true, None) => {
                        self.marked.push(c.flow);
                        "flow {} is no slower than those on the congested link"
                    }
                    (false, Some(at)) => {
                        self.marked.swap_remove(at);
                        "flow {} is slower than those on the congested link, or there is none"
                    }
                    _ => continue,
                };
                actions.because(Reason::new("wcp.choose", sentence, &[Value::Flow(c.flow)]));
                actions.annotate(Class::Flow(c.flow), BIT, Merge::Or, u32::from(mark));
            }
        }
    }
}

impl Control for Wcp {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Deadline => self.tick(now, actions),
            Event::Queue(q) => {
                if let Class::Link(to) = q.class
                    && let Some(link) = self.book.own.iter_mut().find(|o| o.to == to)
                {
                    link.changed(q.packets, self.weight);
                }
            }
            Event::Received(h) => {
                self.hear(now, h);
                self.received(now, h);
            }
            Event::Overheard(h) => self.hear(now, h),
            Event::Feedback(f) => self.feedback(now, f, actions),
            Event::FlowSeen(here) => self.meet(here),
            _ => {}
        }
        // A host that is late must not find a deadline in the past.
        self.due = self.due.map(|d| d.max(now));
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due
    }
}
