//! The gateway as a host of controls, without a clock and without a kernel.
//!
//! Counters and `now` go in, limits and named events come out. The control sees what it sees in the
//! simulator: one flow per subscriber and direction, sampled when its deadline is due, and limits in
//! IP bytes. Everything that the kernel counts in frames is converted here.

mod book;
mod control;
mod limits;
mod members;
mod sides;
mod way;

use std::collections::BTreeMap;

use fairmesh_control::{Actions, Control, FlowHere, Mechanism, Place, StartError};
use fairmesh_linux::{ClassCounters, ClassId, Direction, Layout, SentCounters, Slot};
use fairmesh_units::{BitRate, FlowId, Span, Time};

use crate::config::{Config, Discover, Mode, Neighbour, Plan, Rates, Subscriber};
use crate::journal::{Journal, Level};

pub use book::ClassBook;
pub use sides::Sanity;
pub use way::{Aggregate, Change, Fault, Limiter, Meter, Override, Way, Why};

use sides::Sides;
use way::Look;

/// IP bytes of the packet in which limits are converted from IP bytes to frames, and the
/// application data in it (TCP over IPv4 with timestamps). Smaller packets get a little less.
const PACKET: u64 = 1500;
const PAYLOAD: u32 = 1448;

/// Part of the aggregate that a direction keeps while it is silent, so that it can start.
const LEAST_PART: f64 = 0.1;

/// A subscriber and all that is known of it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name, addresses and plan.
    pub subscriber: Subscriber,
    /// Its number.
    pub class: ClassId,
    /// When a source last showed it; `None`: it is in the configuration.
    pub seen: Option<Time>,
    /// Whether the kernel has its classes.
    pub(crate) laid_out: bool,
    /// Both directions, by [`way`].
    pub ways: [Way; 2],
}

/// Where a direction is in an array.
pub const fn way(direction: Direction) -> usize {
    match direction {
        Direction::Down => 0,
        Direction::Up => 1,
    }
}

/// The flow of a class in a direction.
const fn flow(slot: Slot) -> FlowId {
    FlowId(slot.class.0 as u32 * 2 + way(slot.direction) as u32)
}

/// The class of a flow.
const fn slot(flow: FlowId) -> Slot {
    let direction = if flow.0.is_multiple_of(2) { Direction::Down } else { Direction::Up };
    Slot { class: ClassId((flow.0 / 2) as u16), direction }
}

/// Why everything is unlimited at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// Nothing holds it: limits are as meant.
    No,
    /// A fault, by the name of its event.
    Fault(&'static str),
}

/// The state of a gateway.
#[derive(Debug)]
pub struct Governor {
    mode: Mode,
    mechanism: Mechanism,
    knobs: BTreeMap<String, f64>,
    neighbours: Vec<Neighbour>,
    discover: Option<Discover>,
    base: Layout,
    sample_every: Span,
    book: ClassBook,
    /// By class.
    members: Vec<Member>,
    control: Option<Box<dyn Control>>,
    actions: Actions,
    aggregate: Aggregate,
    held: Held,
    sides: Sides,
    /// Bytes of the link's header in each direction.
    header: [u64; 2],
    looked: Option<Time>,
    layout_changed: bool,
    pending: Vec<(Slot, Option<BitRate>)>,
    /// What happened.
    pub journal: Journal,
}

impl Governor {
    /// Starts with a configuration.
    ///
    /// # Errors
    /// What the control does not accept in it.
    pub fn new(config: &Config, book: ClassBook, now: Time) -> Result<Self, StartError> {
        let mut governor = Governor {
            mode: config.mode,
            mechanism: config.mechanism.clone(),
            knobs: config.knobs.clone(),
            neighbours: config.neighbours.clone(),
            discover: config.discover.clone(),
            base: config.layout.clone(),
            sample_every: config.sample,
            book,
            members: Vec::new(),
            control: None,
            actions: Actions::new(),
            aggregate: Aggregate { down: 0.5, ..Aggregate::default() },
            held: Held::No,
            sides: Sides::default(),
            header: [14, 14],
            looked: None,
            layout_changed: true,
            pending: Vec::new(),
            journal: Journal::default(),
        };
        governor.settle(config.subscribers.clone(), now);
        governor.start_control(now, &Why::Start)?;
        Ok(governor)
    }

    /// Bytes of the link's header downstream and upstream, which the kernel counts and IP does not.
    pub fn set_headers(&mut self, down: u64, up: u64) {
        self.header = [down, up];
    }

    /// Takes over a changed configuration. What the control has learned stays if the control and
    /// the links are the same.
    ///
    /// # Errors
    /// What the control does not accept in it; everything is as before then.
    pub fn reload(&mut self, config: &Config, now: Time) -> Result<(), StartError> {
        let same = self.mechanism.to_string() == config.mechanism.to_string()
            && self.knobs == config.knobs
            && self.neighbours == config.neighbours;
        // Whatever could be refused is tried before anything is changed.
        Governor::trial(config)?;
        self.mode = config.mode;
        self.mechanism = config.mechanism.clone();
        self.knobs.clone_from(&config.knobs);
        self.neighbours.clone_from(&config.neighbours);
        self.discover.clone_from(&config.discover);
        self.base = config.layout.clone();
        self.sample_every = config.sample;
        self.settle(config.subscribers.clone(), now);
        if !same {
            self.start_control(now, &Why::Reload)?;
        }
        self.refresh(now);
        Ok(())
    }

    /// When the counters are to be looked at next.
    pub fn next_sample(&self) -> Time {
        let Some(looked) = self.looked else { return Time::ZERO };
        let latest = looked + self.sample_every;
        self.control.as_ref().and_then(|c| c.next_deadline()).map_or(latest, |d| d.min(latest))
    }

    /// When something happens by itself: a look, or the end of an override.
    pub fn next_deadline(&self) -> Time {
        let ends = self.members.iter().flat_map(|m| &m.ways).filter_map(|w| w.overridden);
        ends.map(|o| o.until).min().unwrap_or(Time::NEVER).min(self.next_sample())
    }

    /// Takes in a look at all counters, lets the control decide, and says whether the counters
    /// make sense. Nonsense never reaches the control.
    pub fn sample(
        &mut self,
        now: Time,
        counters: &[ClassCounters],
        interfaces: [Option<SentCounters>; 2],
    ) -> Sanity {
        self.looked = Some(now);
        self.sides.look(now, interfaces);
        for c in counters {
            let d = way(c.slot.direction);
            let Ok(i) = self.find(c.slot.class) else { continue };
            let (credible, header) = (self.sides.credible(d), self.header[d]);
            match self.members[i].ways[d].meter.sample(now, c, credible, header) {
                Look::Moved(bytes) => self.sides.moved(d, bytes),
                Look::Base => self.sides.based(d),
                Look::Bad(fault) => {
                    self.sides.bad(d);
                    self.note_fault(now, i, d, fault);
                }
            }
        }
        for i in 0..self.members.len() {
            for d in 0..2 {
                if let Some(fault) = self.members[i].ways[d].meter.close() {
                    self.sides.bad(d);
                    self.note_fault(now, i, d, fault);
                }
            }
        }
        let sanity = self.sides.judge();
        let down = self.sides.part(0, self.aggregate.down);
        self.aggregate.down = down.clamp(LEAST_PART, 1.0 - LEAST_PART);
        self.decide(now, sanity == Sanity::Sane);
        self.refresh(now);
        sanity
    }

    /// A look was not possible: the control goes on without counters, which it knows to do.
    pub fn blind(&mut self, now: Time) {
        self.looked = Some(now);
        self.decide(now, false);
        self.refresh(now);
    }

    fn note_fault(&mut self, now: Time, i: usize, d: usize, fault: Fault) {
        let Governor { journal, members, .. } = self;
        let name = &members[i].subscriber.name;
        journal.note(now, Level::Warning, fault.code(), || {
            format!("\"{name}\" ({}) {}", direction_name(d), fault.words())
        });
    }

    /// Everything is unlimited from now on, or no longer.
    pub fn hold(&mut self, held: Held) {
        self.held = held;
    }

    /// Why everything is unlimited, if it is.
    pub fn held(&self) -> Held {
        self.held
    }

    /// Classes were made anew: their counters start again and they are unlimited.
    pub fn reinstalled(&mut self) {
        for way in self.members.iter_mut().flat_map(|m| &mut m.ways) {
            way.meter.rebase();
            way.in_force = None;
        }
        self.aggregate.in_force = [None, None];
        self.sides = Sides::default();
    }

    /// Looks after what happens by itself.
    pub fn tick(&mut self, now: Time) {
        self.refresh(now);
    }

    /// Sets or ends an operator's override; `None` in `rate` of the override is unlimited.
    ///
    /// # Errors
    /// A subscriber that is not there.
    pub fn set_override(
        &mut self,
        now: Time,
        name: &str,
        directions: &[Direction],
        value: Option<Override>,
    ) -> Result<(), UnknownSubscriber> {
        let i = self.named(name)?;
        for direction in directions {
            let way = &mut self.members[i].ways[way(*direction)];
            way.overridden = value;
            if value.is_none() {
                way.why = Some(Why::Override("override.cleared"));
            }
        }
        self.refresh(now);
        Ok(())
    }

    fn named(&self, name: &str) -> Result<usize, UnknownSubscriber> {
        let name = name.trim();
        self.place(name).ok_or_else(|| UnknownSubscriber(name.to_owned()))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.find(self.book.known(name)?).ok()
    }

    /// A subscriber by name.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn member(&self, name: &str) -> Result<&Member, UnknownSubscriber> {
        Ok(&self.members[self.named(name)?])
    }

    /// All subscribers, by class.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
    /// The limit for everybody together.
    pub fn aggregate(&self) -> &Aggregate {
        &self.aggregate
    }
    /// Whether limits are set.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// The control.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }
    /// Class numbers, to be kept.
    pub fn book(&self) -> &ClassBook {
        &self.book
    }

    fn find(&self, class: ClassId) -> Result<usize, usize> {
        self.members.binary_search_by_key(&class, |m| m.class)
    }

    fn here(member: &Member, d: usize) -> FlowHere {
        let slot = Slot { class: member.class, direction: Direction::BOTH[d] };
        let plan = &member.subscriber.plan;
        let rates = rates(plan, d);
        FlowHere {
            flow: flow(slot),
            weight: plan.weight,
            place: Place::Forwarder,
            next_hop: None,
            payload: PAYLOAD,
            packet: PACKET as u32,
            fair: rates.fair,
            guarantee: rates.guarantee,
            ceiling: rates.ceiling,
            hops: member.subscriber.hops,
        }
    }
}

/// What a plan says of a direction.
pub fn rates(plan: &Plan, d: usize) -> Rates {
    if d == 0 { plan.down } else { plan.up }
}

/// "down" or "up".
pub const fn direction_name(d: usize) -> &'static str {
    if d == 0 { "down" } else { "up" }
}

/// A name that no subscriber has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no subscriber \"{0}\"; expected a name that `status` lists")]
pub struct UnknownSubscriber(pub String);

#[cfg(test)]
mod tests;
