//! `cna`: cooperative neighbourhood airtime limiting (Jang 2010).
//!
//! Every node limits the airtime of each of its links to the link's flows over the flows of the
//! busiest neighbourhood it is part of: A = W / D. What a link leaves unused goes to its neighbours
//! by weight, and where foreign energy takes a part of the air all links there are scaled down.
//! What nodes need of each other travels in unused bits of the IP headers of their packets and is
//! overheard (`codec`, `book`); TCP and the MAC are untouched.

#[cfg(test)]
mod bad_tests;
mod book;
mod codec;
mod links;
mod message;
#[cfg(test)]
mod tests;

use fairmesh_units::{Bytes, FlowId, NodeId, Span, Stream, Time};

use self::book::Book;
use self::codec::Said;
use self::links::{Meter, Outside};
use self::message::Told;
use crate::{
    Ability, AbilitySet, Actions, Channel, Class, ClassPlan, Control, Entry, Event, EventKind,
    EventSet, Heard, Instance, Knob, Knowledge, KnowledgeSet, Leaf, Limit, Merge, Needs, Options,
    Placement, PlacementSet, Plan, Point, Reason, Refused, Runs, Setting, Share, Value, Variant,
};

pub(crate) static ENTRY: Entry = Entry {
    name: "cna",
    about: "every link's airtime is limited to its flows' share of the busiest neighbourhood",
    paper: "Jang 2010",
    variants: &[Variant {
        name: "overlap",
        about: "shares out 1.2 of the air: backoffs overlap, and so do links that do not meet",
    }],
    knobs: &[
        knob("window", "a flow counts this long after its last packet, s", 2.0, 0.1, 60.0),
        knob(
            "gain",
            "weight of each 100 ms in the averages of use and interference",
            0.1,
            0.01,
            1.0,
        ),
        knob("topology", "time between topology messages, s", 20.0, 0.5, 3600.0),
        knob("one-way", "time between control packets of a one-way link, s", 0.5, 0.05, 60.0),
        knob(
            "budget",
            "airtime to share out in a neighbourhood; above 1 counts on what overlaps",
            1.0,
            0.1,
            2.0,
        ),
        knob("reserve", "airtime kept free for broadcasts", 0.01, 0.0, 0.5),
        knob("floor", "foreign energy up to this share is put down to lost frames", 0.1, 0.0, 1.0),
        knob("queue", "buffer of each flow before each link, packets", 20.0, 1.0, 1000.0),
        knob(
            "burst",
            "depth of each bucket, bytes at the link's rate; 0: the largest packet",
            0.0,
            0.0,
            1e6,
        ),
    ],
    runs: Runs::At { needs, build },
};

const fn knob(name: &'static str, about: &'static str, default: f64, min: f64, max: f64) -> Knob {
    Knob { name, about, default, min, max }
}

/// What `overlap` shares out. On the four topologies of Rangwala 2008 everybody gains up to here;
/// at 1.3 the outer flows of the Stack take from the middle one.
const OVERLAP: f64 = 1.2;
/// How often averages move and all limits are worked out anew; and how soon after a change.
const TICK: Span = Span::from_millis(100);
const SOON: Span = Span::from_millis(10);
/// The first topology messages, and the time between them.
const FIRST: u32 = 3;
const SOONER: Span = Span::from_secs(2);
/// How long flows count whose packets do not get through: TCP is silent for longer and longer.
const PATIENCE: Span = Span::from_secs(30);
/// Flows that a neighbour may claim on a link before any of their packets has come.
const CLAIMS: f64 = 8.0;
/// Share of a link without flows: enough for the first packets of one.
const IDLE: f64 = 0.1;
/// Least share of a link per flow, whatever anyone claims.
const LEAST: f64 = 0.002;
/// A link that uses this part of its limit is held back by it.
const HELD: f64 = 0.9;
/// A limit is set anew when it differs by this part.
const STEP: f64 = 0.03;

fn needs(_: &Options) -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: EventSet::of(&[
            EventKind::Sent,
            EventKind::Received,
            EventKind::Overheard,
            EventKind::Messages,
            EventKind::Channel,
        ]),
        abilities: AbilitySet::of(&[
            Ability::ReplaceQueue,
            Ability::LinkClasses,
            Ability::Airtime,
            Ability::Annotate,
            Ability::Send,
        ]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates]),
        // Nothing is added: the bits are there already.
        header_bytes: 0,
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refused> {
    let neighbours = || setting.neighbours.iter().map(|n| n.node);
    let packet = setting.flows.iter().map(|f| u64::from(f.packet)).max();
    let burst = match options.get("burst") as u64 {
        0 => packet.unwrap_or(1500).max(40),
        bytes => bytes,
    };
    let class = |node| ClassPlan {
        class: Class::Link(node),
        limit: Limit::Airtime(Share::new(IDLE)),
        burst: Bytes(burst),
        leaf: Leaf::Fair { packets: options.get("queue") as u32 },
    };
    let plan = Plan {
        point: Point::Interface,
        classes: neighbours().map(class).collect(),
        template: None,
    };
    let span = |knob| Span::from_secs_f64(options.get(knob));
    let mut stream = setting.stream;
    // Apart from each other, so that first messages do not all collide.
    let first = Span::from_secs_f64(stream.unit());
    let control = Cna {
        book: Book::new(setting.node, neighbours()),
        meters: neighbours().map(|n| Meter::new(n, IDLE)).collect(),
        window: span("window"),
        gain: options.get("gain"),
        topology: span("topology"),
        one_way: span("one-way"),
        budget: options.get("budget") * if options.has("overlap") { OVERLAP } else { 1.0 },
        reserve: options.get("reserve"),
        floor: options.get("floor"),
        outside: Outside::default(),
        broadcast: Span::ZERO,
        broadcasts: 0.0,
        began: None,
        ticked: Time::ZERO,
        worked: Time::ZERO,
        due: Some(Time::ZERO),
        beacon: Time::ZERO + first,
        told: 0,
        spoke: None,
        cried: None,
        strange: [Strange::default(); 4],
        stream,
    };
    Ok(Instance { control: Box::new(control), plan })
}

/// Events that must not happen, counted and named.
#[derive(Clone, Copy, Debug)]
enum Odd {
    Header,
    Message,
    Counters,
    NoTopology,
}

#[derive(Clone, Copy, Default, Debug)]
struct Strange {
    count: u64,
}

impl Strange {
    /// One more; whether to speak of it: the first, second, fourth, … time.
    fn again(&mut self) -> bool {
        self.count += 1;
        self.count.is_power_of_two()
    }
}

/// CNA at one node.
#[derive(Debug)]
struct Cna {
    book: Book,
    meters: Vec<Meter>,
    window: Span,
    gain: f64,
    topology: Span,
    one_way: Span,
    budget: f64,
    reserve: f64,
    floor: f64,
    outside: Outside,
    /// Airtime of broadcasts since the last tick, and the moving average of its share.
    broadcast: Span,
    broadcasts: f64,
    began: Option<Time>,
    ticked: Time,
    /// When everything was last worked out.
    worked: Time,
    due: Option<Time>,
    /// Next topology message, and the latest control packet of one-way links.
    beacon: Time,
    told: u32,
    spoke: Option<Time>,
    cried: Option<Time>,
    strange: [Strange; 4],
    stream: Stream,
}

impl Cna {
    fn odd(&mut self, what: Odd, who: NodeId, actions: &mut Actions) {
        let strange = &mut self.strange[what as usize];
        if !strange.again() {
            return;
        }
        let count = Value::Count(strange.count);
        let (code, sentence) = match what {
            Odd::Header => {
                ("cna.bad-header", "header bits of neighbour {} make no sense, {} so far: ignored")
            }
            Odd::Message => {
                ("cna.bad-message", "a message of neighbour {} makes no sense, {} so far: ignored")
            }
            Odd::Counters => (
                "cna.bad-counters",
                "channel counters of node {} jumped or stood still, {} so far: what was measured before holds",
            ),
            Odd::NoTopology => (
                "cna.no-topology",
                "neighbour {} has not told its neighbours, {} so far: its neighbourhood is taken as apart",
            ),
        };
        actions.because(Reason::new(code, sentence, &[Value::Node(who), count]));
    }

    /// Something changed: work everything out soon.
    fn soon(&mut self, now: Time) {
        let at = (self.worked + SOON).max(now);
        self.due = Some(self.due.map_or(at, |d| d.min(at)));
    }

    fn hear(&mut self, now: Time, heard: &Heard, actions: &mut Actions) {
        let (from, to) = (heard.link.from, heard.link.to);
        let speaks = self.book.far_mut(from).is_some_and(|f| f.one.is_some());
        match codec::read(&heard.header, speaks) {
            Ok(None) => {}
            Ok(Some(said)) => self.learn(now, from, to, said),
            Err(codec::Nonsense) => self.odd(Odd::Header, from, actions),
        }
    }

    fn learn(&mut self, now: Time, from: NodeId, to: NodeId, said: Said) {
        let news = match said {
            Said::OneHop(one) => self.book.hear_one(now, from, to, one),
            Said::TwoHop(two) => self.book.hear_two(now, from, two),
            Said::Weight(weight) => match self.book.far_mut(from).and_then(|f| f.one) {
                Some((_, one)) => {
                    let one = codec::OneHop { weight, largest: one.largest.max(weight), ..one };
                    self.book.hear_one(now, from, to, one)
                }
                None => false,
            },
        };
        if news {
            self.soon(now);
        }
    }

    /// A packet went out or came in on an own link.
    fn passed(&mut self, now: Time, link: usize, out: bool, what: (FlowId, bool)) {
        let m = &mut self.meters[link];
        let flows = if out { &mut m.out } else { &mut m.back };
        if flows.saw(now, what.0, what.1) {
            self.count(now);
            self.soon(now);
        }
    }

    /// A packet has gone out: the next one tells the other quantities.
    fn sent(&mut self, now: Time, link: usize, what: (FlowId, bool), actions: &mut Actions) {
        let m = &mut self.meters[link];
        m.spoke = Some(now);
        m.two_next = !m.two_next;
        self.passed(now, link, true, what);
        self.write(link, actions);
    }

    /// Channel counters; those between ticks come too soon to measure anything by.
    fn survey(&mut self, now: Time, channel: &Channel, actions: &mut Actions) {
        if now - self.ticked >= TICK && self.outside.survey(channel, self.gain).is_err() {
            self.odd(Odd::Counters, self.book.node, actions);
        }
    }

    /// Brings the weights of own links up to date. Returns whether any has changed.
    fn count(&mut self, now: Time) -> bool {
        let mut changed = false;
        for (m, own) in self.meters.iter_mut().zip(&mut self.book.own) {
            let counts = m.count(now, self.window, PATIENCE.max(self.window));
            changed |= counts != (own.out, own.back);
            if counts.0 > 0.0 && own.out == 0.0 {
                // Nothing is known of its use: nothing of it is given away.
                own.used = 1.0;
            }
            if counts.1 > 0.0 && own.back == 0.0 {
                own.used_back = 1.0;
            }
            (own.out, own.back) = counts;
        }
        changed
    }

    /// Moves the averages on by the time since the last tick.
    fn average(&mut self, now: Time) {
        let passed = (now - self.ticked).as_secs_f64();
        if passed <= 0.0 {
            return;
        }
        for (m, own) in self.meters.iter_mut().zip(&mut self.book.own) {
            let used = std::mem::take(&mut m.airtime).as_secs_f64() / passed;
            if own.out > 0.0 {
                // A link that its limit holds back leaves nothing unused, whatever the limit is.
                let held = used >= HELD * m.share;
                let own_share = own.share() * self.budget;
                let part = if held { 1.0 } else { (used / own_share).min(1.0) };
                own.used += self.gain * (part - own.used);
            }
        }
        let share = std::mem::take(&mut self.broadcast).as_secs_f64() / passed;
        self.broadcasts += self.gain * (share - self.broadcasts);
    }

    fn tick(&mut self, now: Time, actions: &mut Actions) {
        let began = *self.began.get_or_insert(now);
        // A deadline that only follows a change comes too soon to measure anything by.
        if now - self.ticked >= TICK {
            self.average(now);
            self.ticked = now;
        }
        self.worked = now;
        self.count(now);
        let since = Time::from_nanos(now.as_nanos().saturating_sub(self.window.as_nanos()));
        self.book.forget(since);
        self.book.available = self.outside.available(self.floor);
        self.book.work_out();
        self.limit(actions);
        for link in 0..self.meters.len() {
            self.write(link, actions);
        }
        self.speak(now, began, actions);
        let beacon = if self.meters.is_empty() { Time::NEVER } else { self.beacon };
        self.due =
            (!self.meters.is_empty()).then(|| beacon.min(self.ticked + TICK).max(now + SOON));
    }

    /// A″ = NS A′ on every own link, less what broadcasts need beyond nothing.
    fn limit(&mut self, actions: &mut Actions) {
        let free = self.budget * (1.0 - self.reserve.max(self.broadcasts)).max(0.0);
        let ceiling = self.book.available;
        for (m, own) in self.meters.iter_mut().zip(&self.book.own) {
            let share = if own.out > 0.0 {
                let least = (LEAST * own.out).min(1.0);
                (own.scaling * own.airtime * free).clamp(least, ceiling.max(least))
            } else {
                IDLE
            };
            if (share / m.share - 1.0).abs() < STEP {
                continue;
            }
            m.share = share;
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
                        Value::Percent(share),
                    ],
                )
            };
            actions.because(reason);
            actions.set_airtime(Class::Link(own.to), Share::new(share));
        }
    }

    /// Brings the header fields of a link's next packets into force.
    fn write(&mut self, link: usize, actions: &mut Actions) {
        let (m, own) = (&mut self.meters[link], &self.book.own[link]);
        if own.weight() == 0.0 {
            return;
        }
        let dither = self.stream.unit();
        let words = if m.two_next {
            codec::two_hop(&self.book.two(), dither)
        } else {
            codec::one_hop(&self.book.one(own), dither)
        };
        if m.words.replace(words) == Some(words) {
            return;
        }
        let kind = if m.two_next { "two-hop" } else { "one-hop" };
        let sentence = match kind {
            "two-hop" => "packets to node {} tell two-hop quantities",
            _ => "packets to node {} tell one-hop quantities",
        };
        actions.because(Reason::new("cna.header", sentence, &[Value::Node(m.to)]));
        let [second, service] = words;
        // What a fragment carries in its type of service instead.
        let fragment = codec::fragment(own.weight());
        for (slot, word) in [second, service, fragment].into_iter().enumerate() {
            actions.annotate(Class::Link(m.to), slot as u8, Merge::Set, word);
        }
    }

    /// Topology messages and control packets of one-way links.
    fn speak(&mut self, now: Time, began: Time, actions: &mut Actions) {
        if self.meters.is_empty() {
            return;
        }
        if now >= self.beacon {
            // A message may be lost, and the next is far: the first ones follow each other sooner.
            self.told += 1;
            let pause = if self.told < FIRST { self.topology.min(SOONER) } else { self.topology };
            // Spread by a tenth, so that neighbours do not keep colliding.
            let spread = pause.as_secs_f64() * self.stream.uniform(0.9, 1.1);
            self.beacon = now + Span::from_secs_f64(spread).max(SOON);
            let count = Value::Count(self.meters.len() as u64);
            let reason = Reason::new("cna.topology", "time to tell the {} neighbours", &[count]);
            actions.because(reason);
            actions.send(None, &message::topology(self.meters.iter().map(|m| m.to)));
            if now - began >= self.topology + self.topology {
                let silent = |o: &&book::Own| o.weight() > 0.0;
                let silent: Vec<NodeId> =
                    self.book.own.iter().filter(silent).map(|o| o.to).collect();
                for id in silent {
                    if self.book.far_mut(id).is_some_and(|f| f.neighbours.is_none()) {
                        self.odd(Odd::NoTopology, id, actions);
                    }
                }
            }
        }
        // Who is not heard cries at every tick: few of these get through either.
        let cries = self.cried.is_none_or(|at| now - at >= TICK);
        let tells = self.spoke.is_none_or(|at| now - at >= self.one_way);
        let silent = |m: &Meter| m.spoke.is_none_or(|at| now - at >= self.one_way);
        let dither = self.stream.unit();
        for (m, own) in self.meters.iter().zip(&self.book.own) {
            let unheard = m.failed.is_some() && own.out > 0.0;
            let (code, sentence) = if unheard && cries {
                self.cried = Some(now);
                ("cna.unheard", "packets to node {} do not get through: told by a message")
            } else if tells && own.back > 0.0 && silent(m) {
                self.spoke = Some(now);
                ("cna.one-way", "node {} sends here and hears nothing back: told by a message")
            } else {
                continue;
            };
            let (one, two) = (self.book.one(own), self.book.two());
            actions.because(Reason::new(code, sentence, &[Value::Node(m.to)]));
            actions.send(None, &message::link(m.to, unheard, &one, &two, dither));
        }
    }

    fn message(&mut self, now: Time, from: NodeId, body: &[u8], actions: &mut Actions) {
        match message::read(body) {
            Ok(Told::Neighbours(list)) => {
                if let Some(far) = self.book.far_mut(from)
                    && far.neighbours.as_ref() != Some(&list)
                {
                    far.neighbours = Some(list);
                    self.soon(now);
                }
            }
            Ok(Told::Link { to, unheard, one, two }) => {
                if unheard
                    && to == self.book.node
                    && let Some(m) = self.meters.iter_mut().find(|m| m.to == from)
                {
                    // Its packets may not get here. Nobody has more flows than can be told apart.
                    m.claimed = Some((now, one.weight.min(CLAIMS)));
                    self.soon(now);
                }
                self.learn(now, from, to, Said::OneHop(one));
                self.learn(now, from, to, Said::TwoHop(two));
            }
            Err(codec::Nonsense) => self.odd(Odd::Message, from, actions),
        }
    }
}

impl Control for Cna {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        let link = |meters: &[Meter], n: NodeId| meters.iter().position(|m| m.to == n);
        match event {
            Event::Deadline => self.tick(now, actions),
            Event::Sent(s) => match s.to.map(|to| link(&self.meters, to)) {
                None => self.broadcast += s.airtime,
                Some(Some(i)) => {
                    self.meters[i].airtime += s.airtime;
                    if let Some(flow) = s.flow {
                        self.meters[i].failed = (!s.delivered).then_some(now);
                        self.sent(now, i, (flow, s.ack), actions);
                    }
                }
                Some(None) => {}
            },
            Event::Received(h) => {
                if let Some(i) = link(&self.meters, h.link.from) {
                    self.passed(now, i, false, (h.flow, h.ack));
                }
                self.hear(now, h, actions);
            }
            Event::Overheard(h) => self.hear(now, h, actions),
            Event::Message(m) => self.message(now, m.from, m.body, actions),
            Event::Channel(c) => self.survey(now, c, actions),
            _ => {}
        }
        // A host that is late must not find a deadline in the past.
        self.due = self.due.map(|d| d.max(now));
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due
    }
}
