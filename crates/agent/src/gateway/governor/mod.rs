//! The gateway as a host of controls, without a clock and without a kernel.
//!
//! Counters and `now` are inputs; limits and named events are outputs. The control sees the same as in the simulator:
//! one flow per subscriber and direction, sampled when its deadline is due, and limits in IP bytes. The kernel's
//! counters in frames are converted here.

mod class_ids;
mod control;
mod direction;
mod limits;
mod members;
mod plausibility;
mod schedules;
mod signs;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fairmesh_control::host::Driver;
use fairmesh_control::{FlowHere, Mechanism, Place, StartError};
use fairmesh_linux::{
    ClassCounters, ClassId, Direction, IpNet, Layout, MacAddr, SentCounters, Slot,
};
use fairmesh_units::{BitRate, FlowId, NodeId, Span, Time};

use crate::gateway::config::{
    Config, Discover, Mode, Neighbour, Peers, Plan, Rates, Subscriber, UNMAPPED,
};
use crate::gateway::journal::{Journal, Level};
use crate::gateway::sources::{Omissions, Paths, SourceReport};

pub use class_ids::ClassIds;
pub use direction::{
    Aggregate, Change, DirectionState, Fault, LimitReason, Limiter, Meter, Override,
};
pub use plausibility::Sanity;
pub use schedules::{QuotaReport, ScheduleReport, Usage};

use direction::MeterResult;
use plausibility::Plausibility;
use schedules::Calendar;

/// IP bytes of the packet for which limits are converted from IP bytes to frames.
///
/// Smaller packets get a little less.
const PACKET_BYTES: u64 = 1500;
/// Application data in a packet of `PACKET_BYTES` bytes (TCP over IPv4 with timestamps).
const PAYLOAD_BYTES: u32 = 1448;

/// Factor by which a measured rate of a link has to differ from the one in use.
const LINK_CHANGE: f64 = 1.25;
/// Minimum time between two changes of a link's rate.
const LINK_CHANGE_INTERVAL: Span = Span::from_secs(600);
/// Part of the bound of `[[neighbour]]` from which traffic counts as bounded by it.
const AT_BOUND: f64 = 0.9;
/// Consecutive samples at the bound after which this is reported.
const AT_BOUND_SAMPLES: u32 = 5;
/// Part of its limit from which a direction counts as limited by the control.
const LIMITED_FRACTION: f64 = 0.8;
/// Samples with such a direction after which the bound is compared with the traffic.
const COMPARED_SAMPLES: u32 = 60;
/// Part of the bound below which the traffic contradicts it.
const CONTRADICTED_FRACTION: f64 = 0.5;

/// Part of the aggregate limit that an idle direction has, so that it can start.
///
/// It is on top of the limit: a control that measures the busy direction sees all of its limit pass, as in the
/// simulator. Below the limit by a tenth, no measurement would let an exponential increase of 1.1 rise.
const LEAST_PART: f64 = 0.1;

/// Traffic of the samples at which the control held a subscriber back.
#[derive(Clone, Copy, Default, Debug)]
struct Carried {
    /// Such samples since the last comparison.
    looks: u32,
    /// Largest traffic at one of them, in bit/s.
    most: u64,
    /// Largest traffic, if the last comparison contradicts the bound.
    contradicts: Option<BitRate>,
    /// True if the traffic was large enough not to contradict the bound.
    confirmed: bool,
}

impl Carried {
    /// Handles a sample with a subscriber at its limit; `total`: traffic, in bit/s.
    ///
    /// Returns true if the bound is contradicted now and was not before.
    fn look(&mut self, total: u64, bound: BitRate) -> bool {
        self.looks += 1;
        self.most = self.most.max(total);
        self.confirmed |= self.most as f64 >= CONTRADICTED_FRACTION * bound.0 as f64;
        if self.looks < COMPARED_SAMPLES {
            return false;
        }
        let (most, before) = (BitRate(self.most), self.contradicts);
        let contradicts = (most.0 as f64) < CONTRADICTED_FRACTION * bound.0 as f64;
        *self = Carried {
            contradicts: contradicts.then_some(most),
            confirmed: !contradicts,
            ..Carried::default()
        };
        contradicts && before.is_none()
    }
}

/// A subscriber and its state.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name, addresses and plan.
    pub subscriber: Subscriber,
    /// Class number.
    pub class: ClassId,
    /// Time when a source last showed it; `None`: it is in the configuration.
    pub seen: Option<Time>,
    /// True if the kernel has its classes.
    pub(crate) laid_out: bool,
    /// Both directions, by [`Direction::index`].
    pub directions: [DirectionState; 2],
}

/// Returns the flow of a class in a direction.
const fn flow(slot: Slot) -> FlowId {
    FlowId(slot.class.0 as u32 * 2 + slot.direction.index() as u32)
}

/// Returns the class and direction of a flow.
const fn slot(flow: FlowId) -> Slot {
    let direction = if flow.0.is_multiple_of(2) { Direction::Down } else { Direction::Up };
    Slot { class: ClassId((flow.0 / 2) as u16), direction }
}

/// Reason why no limit is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suspension {
    /// None: the intended limits apply.
    None,
    /// A fault, by the name of its event.
    Fault(&'static str),
}

/// The state of a gateway.
#[derive(Debug)]
pub struct Governor {
    mode: Mode,
    mechanism: Mechanism,
    /// Neighbours as configured.
    neighbours: Vec<Neighbour>,
    /// Links to the neighbours as controls use them: with measured rates if these are known.
    links: Vec<Neighbour>,
    /// Time of the last change of the links' measured rates.
    links_since: Option<Time>,
    discover: Option<Discover>,
    /// Schedules with their active windows, and quotas with their use.
    pub(crate) calendar: Calendar,
    base: Layout,
    sample_every: Span,
    class_ids: ClassIds,
    /// Sorted by class.
    members: Vec<Member>,
    /// Overrides of absent subscribers, by name.
    waiting: BTreeMap<String, [Option<Override>; 2]>,
    /// Names with addresses of other subscribers at the last query of the sources.
    taken: BTreeSet<String>,
    /// Sources of subscribers at their last query.
    pub sources: Vec<SourceReport>,
    /// Paths of homes to the gateway, as the sources showed them.
    pub paths: Paths,
    /// Discovered homes that were left out at the last query, in whole or in part.
    pub left_out: Omissions,
    /// Consecutive samples at which traffic was at the bound of the neighbours' links.
    at_bound: u32,
    carried: Carried,
    driver: Option<Driver>,
    /// The other gateways.
    peers: Option<Peers>,
    /// Starts of the control.
    starts: u64,
    /// Messages of the control to the other gateways.
    outbox: Vec<Vec<u8>>,
    /// True if routers of homes take orders.
    agents: bool,
    /// Orders of the control to the routers of homes, by the number of the home.
    orders: Vec<(NodeId, Vec<u8>)>,
    /// True if the control's initial limits are not applied.
    defer_initial: bool,
    aggregate: Aggregate,
    suspension: Suspension,
    plausibility: Plausibility,
    /// Link's header in each direction, in bytes.
    header: [u64; 2],
    sampled_at: Option<Time>,
    /// Start of the present mode.
    mode_since: Time,
    layout_changed: bool,
    pending: Vec<(Slot, Option<BitRate>)>,
    /// Named events.
    pub journal: Journal,
}

impl Governor {
    /// Starts with a configuration.
    ///
    /// # Errors
    /// Returns the control's refusal.
    pub fn new(config: &Config, class_ids: ClassIds, now: Time) -> Result<Self, StartError> {
        let mut governor = Governor {
            mode: config.mode,
            mechanism: config.mechanism.clone(),
            neighbours: config.neighbours.clone(),
            links: config.neighbours.clone(),
            links_since: None,
            discover: config.discover.clone(),
            calendar: Calendar::new(config),
            base: Governor::trial(config)?,
            sample_every: config.sample,
            class_ids,
            members: Vec::new(),
            waiting: BTreeMap::new(),
            taken: BTreeSet::new(),
            sources: Vec::new(),
            paths: Paths::default(),
            left_out: Omissions::default(),
            at_bound: 0,
            carried: Carried::default(),
            driver: None,
            peers: config.peers.clone(),
            starts: 0,
            outbox: Vec::new(),
            agents: config.agents.is_some(),
            orders: Vec::new(),
            defer_initial: false,
            aggregate: Aggregate { down: 0.5, ..Aggregate::default() },
            suspension: Suspension::None,
            plausibility: Plausibility::default(),
            header: [14, 14],
            sampled_at: None,
            mode_since: now,
            layout_changed: true,
            pending: Vec::new(),
            journal: Journal::default(),
        };
        governor.settle(config.subscribers.clone(), now);
        governor.start_control(now, &LimitReason::Start)?;
        Ok(governor)
    }

    /// Sets the bytes of the link's header, downstream and upstream.
    pub fn set_headers(&mut self, down: u64, up: u64) {
        self.header = [down, up];
    }

    /// Keeps the control's initial limits from being applied from now on.
    ///
    /// Before its first counters the control takes all subscribers as active, which makes their shares far too small. A
    /// limit of the control applies once it was decided by traffic. Ceilings and overrides always apply, and so do the
    /// limits of a control without counters.
    pub fn defer_initial_limits(&mut self, now: Time) {
        self.defer_initial = true;
        self.mark_initial();
        self.refresh(now);
    }

    /// Applies a changed configuration.
    ///
    /// The control keeps its result if the control and the links are the same.
    ///
    /// # Errors
    /// The control's refusal; nothing changes then.
    pub fn reload(&mut self, config: &Config, now: Time) -> Result<(), StartError> {
        let same = self.mechanism == config.mechanism && self.neighbours == config.neighbours;
        // Everything that could be refused is tried before anything is changed.
        let base = Governor::trial(config)?;
        if self.mode != config.mode {
            self.mode_since = now;
        }
        self.mode = config.mode;
        self.mechanism = config.mechanism.clone();
        self.agents = config.agents.is_some();
        if self.neighbours != config.neighbours {
            self.neighbours.clone_from(&config.neighbours);
            self.links.clone_from(&config.neighbours);
            self.links_since = None;
        }
        self.discover.clone_from(&config.discover);
        self.calendar.reload(config);
        self.base = base;
        self.sample_every = config.sample;
        self.settle(config.subscribers.clone(), now);
        if !same {
            self.carried = Carried::default();
            self.start_control(now, &LimitReason::Reload)?;
        }
        self.refresh(now);
        Ok(())
    }

    /// Returns the time of the last sample of the counters.
    pub fn sampled_at(&self) -> Option<Time> {
        self.sampled_at
    }

    /// Returns the time of the next sample of the counters.
    pub fn next_sample(&self) -> Time {
        let Some(sampled_at) = self.sampled_at else { return Time::ZERO };
        let latest = sampled_at + self.sample_every;
        self.driver.as_ref().map_or(latest, |d| d.due().min(latest))
    }

    /// Returns the time of the next action: a sample, or the end of an override.
    pub fn next_deadline(&self) -> Time {
        let ends = self.members.iter().flat_map(|m| &m.directions).filter_map(|w| w.overridden);
        ends.map(|o| o.until).min().unwrap_or(Time::NEVER).min(self.next_sample())
    }

    /// Handles a sample of all counters, lets the control decide, and returns the plausibility.
    ///
    /// Implausible counters never reach the control.
    pub fn sample(
        &mut self,
        now: Time,
        counters: &[ClassCounters],
        interfaces: [Option<SentCounters>; 2],
    ) -> Sanity {
        self.sampled_at = Some(now);
        self.plausibility.look(now, interfaces);
        for c in counters {
            let d = c.slot.direction.index();
            let Ok(i) = self.find(c.slot.class) else { continue };
            let (credible, header) = (self.plausibility.credible(d), self.header[d]);
            match self.members[i].directions[d].meter.sample(now, c, credible, header) {
                MeterResult::Moved(bytes) => self.plausibility.moved(d, bytes),
                MeterResult::Base => self.plausibility.based(d),
                MeterResult::Bad(fault) => {
                    self.plausibility.bad(d);
                    self.note_fault(now, i, d, fault);
                }
            }
        }
        for i in 0..self.members.len() {
            for d in 0..2 {
                if let Some(fault) = self.members[i].directions[d].meter.close() {
                    self.plausibility.bad(d);
                    self.note_fault(now, i, d, fault);
                }
            }
        }
        self.weigh_signs();
        let sanity = self.plausibility.judge();
        self.aggregate.down = self.plausibility.part(0, self.aggregate.down);
        self.decide(now, sanity == Sanity::Sane);
        self.refresh(now);
        self.note_bound(now);
        self.compare_bound(now);
        sanity
    }

    /// Handles a failed sample: the control continues without counters.
    pub fn blind(&mut self, now: Time) {
        self.sampled_at = Some(now);
        self.decide(now, false);
        self.refresh(now);
    }

    fn note_fault(&mut self, now: Time, i: usize, d: usize, fault: Fault) {
        let Governor { journal, members, .. } = self;
        let name = &members[i].subscriber.name;
        journal.note(now, Level::Warning, fault.code(), || {
            format!("\"{name}\" ({}) {}", direction_name(d), fault.description())
        });
    }

    /// Lifts all limits, or ends that.
    pub fn suspend(&mut self, suspension: Suspension) {
        self.suspension = suspension;
    }

    /// Returns the reason why all limits are lifted, if they are.
    pub fn suspension(&self) -> Suspension {
        self.suspension
    }

    /// Records that classes were created again: their counters restart and they are unlimited.
    pub fn reinstalled(&mut self) {
        for state in self.members.iter_mut().flat_map(|m| &mut m.directions) {
            state.meter.rebase();
            state.in_force = None;
        }
        self.aggregate.in_force = [None, None];
        self.plausibility = Plausibility::default();
    }

    /// Handles the passage of time.
    pub fn tick(&mut self, now: Time) {
        self.refresh(now);
    }

    /// Sets or ends an operator's override; `None` in `rate` of the override is unlimited.
    ///
    /// # Errors
    /// Returns an error if there is no such subscriber.
    pub fn set_override(
        &mut self,
        now: Time,
        name: &str,
        directions: &[Direction],
        value: Option<Override>,
    ) -> Result<(), UnknownSubscriber> {
        let i = self.named(name)?;
        for direction in directions {
            let state = &mut self.members[i].directions[direction.index()];
            state.overridden = value;
            if value.is_none() {
                state.why = Some(LimitReason::Override("override.cleared"));
            }
        }
        self.refresh(now);
        Ok(())
    }

    /// Restores an override of an earlier run; without its subscriber it is kept for it.
    pub fn restore_override(
        &mut self,
        now: Time,
        name: &str,
        direction: Direction,
        value: Override,
    ) {
        if self.set_override(now, name, &[direction], Some(value)).is_err() {
            let mut both = [None; 2];
            both[direction.index()] = Some(value);
            self.wait_for(name.trim(), both);
        }
    }

    /// Iterates over all overrides: name, direction's index, value.
    pub fn overrides(&self) -> impl Iterator<Item = (&str, usize, Override)> {
        let here = self.members.iter().flat_map(|m| {
            let of = |d: usize| Some((m.subscriber.name.as_str(), d, m.directions[d].overridden?));
            [of(0), of(1)]
        });
        let waiting = self.waiting.iter().flat_map(|(name, both)| {
            let of = |d: usize| Some((name.as_str(), d, both[d]?));
            [of(0), of(1)]
        });
        here.chain(waiting).flatten()
    }

    /// Finds the subscriber of a name, otherwise of an address.
    ///
    /// An address belongs to the subscriber with the longest prefix that contains it, or with an Ethernet address.
    fn named(&self, name: &str) -> Result<usize, UnknownSubscriber> {
        let name = name.trim();
        let unknown = || UnknownSubscriber(name.to_owned());
        self.place(name).or_else(|| self.at_address(name)).ok_or_else(unknown)
    }

    fn at_address(&self, text: &str) -> Option<usize> {
        let members = || self.members.iter().enumerate();
        if let Ok(mac) = text.parse::<MacAddr>() {
            return members().find(|(_, m)| m.subscriber.macs.contains(&mac)).map(|(i, _)| i);
        }
        let net =
            text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok()?;
        let around = members().filter_map(|(i, m)| {
            let prefixes = m.subscriber.prefixes.iter().filter(|p| p.contains(&net));
            Some((prefixes.map(IpNet::prefix_len).max()?, i))
        });
        around.max_by_key(|(length, _)| *length).map(|(_, i)| i)
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.find(self.class_ids.known(name)?).ok()
    }

    /// Returns a subscriber by name.
    ///
    /// # Errors
    /// Returns an error if there is none of this name.
    pub fn member(&self, name: &str) -> Result<&Member, UnknownSubscriber> {
        Ok(&self.members[self.named(name)?])
    }

    /// Returns all subscribers, by class.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
    /// Iterates over all subscribers except that of unmapped traffic.
    pub fn subscribers(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| m.subscriber.name != UNMAPPED)
    }
    /// Returns the member of unmapped traffic, if it has a share.
    pub fn unmapped(&self) -> Option<&Member> {
        self.place(UNMAPPED).map(|i| &self.members[i])
    }
    /// Returns the bytes of Ethernet frames that a member sent in a direction since the start.
    pub fn frame_bytes(&self, member: &Member, d: usize) -> u64 {
        let meter = &member.directions[d].meter;
        meter.bytes + meter.packets * self.header[d]
    }
    /// Returns the neighbours' links, with measured rates where known.
    pub fn links(&self) -> &[Neighbour] {
        &self.links
    }
    /// True if the rate of a link is a measured one.
    pub fn is_measured(&self, link: &Neighbour) -> bool {
        self.links_since.is_some() && link.mac.is_some() && !self.neighbours.contains(link)
    }

    /// Adopts measured rates of the links; `None` where one is not known.
    ///
    /// If a rate has changed by a quarter, the control restarts from its learned rate, at most once in
    /// `LINK_CHANGE_INTERVAL`.
    ///
    /// # Errors
    /// The control's refusal; the links stay as they were.
    pub fn measure(&mut self, now: Time, rates: &[Option<BitRate>]) -> Result<(), StartError> {
        let early = self.links_since.is_some_and(|at| now.since(at) < LINK_CHANGE_INTERVAL);
        let far = |link: &Neighbour, rate: BitRate| {
            let ratio = rate.0 as f64 / link.rate.0.max(1) as f64;
            !(1.0 / LINK_CHANGE..=LINK_CHANGE).contains(&ratio)
        };
        let mut links = self.links.clone();
        let known = links.iter_mut().zip(rates).filter_map(|(link, rate)| Some((link, (*rate)?)));
        let mut changed = Vec::new();
        for (link, rate) in known.filter(|(link, rate)| link.mac.is_some() && far(link, *rate)) {
            changed.push(format!("{} {rate} instead of {}", link.name, link.rate));
            (link.rate, link.capacity) = (rate, crate::gateway::config::capacity_of(rate));
        }
        if early || changed.is_empty() {
            return Ok(());
        }
        let before = core::mem::replace(&mut self.links, links);
        let learned = self.learned();
        if let Err(refusal) = self.start_control(now, &LimitReason::Links) {
            self.links = before;
            return Err(refusal);
        }
        self.links_since = Some(now);
        self.carried = Carried::default();
        if let Some(learned) = learned {
            self.recall(now, learned);
        }
        let text = format!("rates in use by the driver: {}", changed.join("; "));
        self.journal.note(now, Level::Info, "neighbour.measured", || text);
        Ok(())
    }
    /// Returns the capacity of all links of `[[neighbour]]` together, IP bit/s.
    ///
    /// It is N / Σ 1/W (Jamshaid 2010 §7.5.2).
    pub fn bound(&self) -> Option<BitRate> {
        let inverse: f64 = self.links.iter().map(|n| 1.0 / n.capacity.0 as f64).sum();
        (inverse > 0.0 && inverse.is_finite())
            .then(|| BitRate((self.links.len() as f64 / inverse).round() as u64))
    }
    /// Returns the part of [`Governor::bound`] that was used at the last sample.
    pub fn bound_used(&self) -> Option<f64> {
        let used = self.members.iter().flat_map(|m| &m.directions).filter_map(|d| d.meter.rate);
        Some(used.map(|r| r.0).sum::<u64>() as f64 / self.bound()?.0 as f64)
    }

    /// Warns if traffic has stayed at the bound of `[[neighbour]]`.
    ///
    /// The control shares no more than the bound, whatever the links carry.
    fn note_bound(&mut self, now: Time) {
        let binds = self.bound_used().is_some_and(|part| part >= AT_BOUND);
        self.at_bound = if binds { self.at_bound.saturating_add(1) } else { 0 };
        if self.at_bound == AT_BOUND_SAMPLES
            && let Some(bound) = self.bound()
        {
            self.journal.note(now, Level::Warning, "neighbour.binds", || {
                format!(
                    "traffic has reached {bound}, the bound by the rates of [[neighbour]]; if the links \
                     carry more, raise `rate` or set `capacity`"
                )
            });
        }
    }

    /// Returns the largest traffic under limits, if it is far below [`Governor::bound`].
    ///
    /// The links then carry less than their rates in `[[neighbour]]`.
    pub fn bound_contradicted_by(&self) -> Option<BitRate> {
        self.carried.contradicts
    }

    /// Returns the samples with subscribers at their limits, and the largest traffic in one.
    ///
    /// Only while these neither confirm nor contradict [`Governor::bound`]; `None` before the first one.
    pub fn bound_unconfirmed(&self) -> Option<(u32, BitRate)> {
        let Carried { looks, most, contradicts, confirmed } = self.carried;
        let open = looks > 0 && !confirmed && contradicts.is_none();
        open.then_some((looks, BitRate(most)))
    }

    /// Compares the bound of `[[neighbour]]` with the traffic.
    ///
    /// Fixed controls hold subscribers back by design, so their traffic shows nothing.
    fn compare_bound(&mut self, now: Time) {
        let Some(bound) = self.bound() else { return };
        let fixed = self.mechanism.to_string().starts_with("static");
        let held = |m: &Member, d: usize| match self.meant(m, d) {
            (Some(limit), Limiter::Control | Limiter::Aggregate) => {
                let rate = m.directions[d].meter.rate.map_or(0, |r| r.0);
                rate as f64 >= LIMITED_FRACTION * limit.0 as f64
            }
            _ => false,
        };
        if fixed || !self.members.iter().any(|m| held(m, 0) || held(m, 1)) {
            return;
        }
        let rates = self.members.iter().flat_map(|m| &m.directions).filter_map(|d| d.meter.rate);
        let total: u64 = rates.map(|r| r.0).sum();
        if self.carried.look(total, bound)
            && let Some(most) = self.carried.contradicts
        {
            self.journal.note(now, Level::Warning, "neighbour.overstates", || {
                format!(
                    "the rates of [[neighbour]] allow {bound}, but traffic was at most {most} in {COMPARED_SAMPLES} samples with \
                     subscribers at their limits; lower `rate`, or set `capacity`"
                )
            });
        }
    }

    /// Returns the aggregate limit.
    pub fn aggregate(&self) -> &Aggregate {
        &self.aggregate
    }
    /// True if the control has this class: of all subscribers together, or of a flow.
    #[cfg(test)]
    pub(crate) fn planned(&self, class: fairmesh_control::Class) -> bool {
        match class {
            fairmesh_control::Class::All => self.aggregate.planned,
            fairmesh_control::Class::Flow(f) => {
                let slot = slot(f);
                let of = |i: usize| &self.members[i].directions[slot.direction.index()];
                self.find(slot.class).is_ok_and(|i| of(i).planned)
            }
            fairmesh_control::Class::Link(_) => false,
        }
    }
    /// Returns the other gateways.
    pub fn peers(&self) -> Option<&Peers> {
        self.peers.as_ref()
    }
    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// Returns the control.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }
    /// Returns the class numbers, for storing them.
    pub fn class_ids(&self) -> &ClassIds {
        &self.class_ids
    }

    fn find(&self, class: ClassId) -> Result<usize, usize> {
        self.members.binary_search_by_key(&class, |m| m.class)
    }

    fn here(member: &Member, d: usize) -> FlowHere {
        let slot = Slot { class: member.class, direction: Direction::BOTH[d] };
        let plan = &member.subscriber.plan;
        let rates = rates(plan, d);
        FlowHere::new(flow(slot), Place::Forwarder, PAYLOAD_BYTES, PACKET_BYTES as u32)
            .with_weight(plan.weight)
            .with_fair(rates.fair)
            .with_guarantee(rates.guarantee)
            .with_ceiling(rates.ceiling)
            .with_hops(member.subscriber.hops)
            // A number for both directions.
            .with_home(Some(NodeId(member.class.0.into())))
            .with_upstream(Some(slot.direction == Direction::Up))
    }
}

/// Returns a plan's rates in a direction.
pub fn rates(plan: &Plan, d: usize) -> Rates {
    if d == 0 { plan.down } else { plan.up }
}

/// Returns "down" or "up".
pub const fn direction_name(d: usize) -> &'static str {
    if d == 0 { "down" } else { "up" }
}

/// A name that no subscriber has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no subscriber \"{0}\"; expected a name that `status` lists, or an address of one"
)]
pub struct UnknownSubscriber(pub String);

#[cfg(test)]
mod tests;
