//! One mechanism at one node, driven by its host.

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Time};

use super::standing::ClassSet;
use crate::{
    Ability, AbilitySet, Action, Actions, Class, ClassPlan, Control, Event, EventKind, Instance,
    Mechanism, Needs, Offers, PlacementSet, Plan, Progress, Reach, Reason, Setting, StartError,
    Value,
};

/// A node as its host presents it: its measurements and its actuators.
pub trait Node {
    /// Passes every sample of this kind to `samples`.
    fn sample(&mut self, now: Time, kind: EventKind, samples: &mut Samples<'_>);

    /// Builds a class.
    ///
    /// At the start it is a class of the plan; later, a class of the plan's template, before the first action that
    /// concerns it. `why` is the last reason of this call, if any.
    fn build(&mut self, now: Time, class: &ClassPlan, why: Option<&Reason>);

    /// Carries an action out; it stays in force until it is replaced.
    ///
    /// `body` has the bytes of a message and is empty for other actions. The action is never a rate of 0, one that
    /// needs an undeclared ability, one for a class that was not built, or [`Action::Because`].
    fn carry_out(&mut self, now: Time, action: &Action, body: &[u8], why: Option<&Reason>);

    /// Records a decision.
    ///
    /// Reasons for header fields and messages alone are not recorded: values exchanged packet by packet are not
    /// a decision yet.
    fn decided(&mut self, now: Time, reason: &Reason);

    /// Called after all actions of one call are carried out.
    fn settled(&mut self, _now: Time) {}
}

/// Order of the samples before a deadline; only those that the mechanism requires are taken.
const SAMPLE_ORDER: [EventKind; 7] = [
    EventKind::Counters,
    EventKind::Stations,
    EventKind::FlowCounters,
    EventKind::FlowLinks,
    EventKind::PathSigns,
    EventKind::Channel,
    EventKind::QueueSamples,
];

/// Delay of the next deadline for a mechanism that repeatedly requests it at once.
const RETRY_DELAY: Span = Span::from_millis(1);

/// Receives samples for a mechanism.
#[derive(Debug)]
pub struct Samples<'a> {
    control: &'a mut dyn Control,
    actions: &'a mut Actions,
    now: Time,
    kind: EventKind,
}

impl Samples<'_> {
    /// Takes one sample of the requested kind.
    pub fn give(&mut self, sample: Event<'_>) {
        debug_assert_eq!(sample.kind(), Some(self.kind));
        self.control.on(self.now, &sample, self.actions);
    }
}

/// A breach of the contract by a mechanism. It is contained, and reported once for each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Breach {
    /// A deadline that is not later than the preceding one.
    Deadline,
    /// A rate of 0.
    Rate,
    /// An action that needs an undeclared ability.
    Ability(Ability),
    /// A class that is neither in the plan nor of its template's kind.
    Class(Class),
}

/// A mechanism that runs at one node.
#[derive(Debug)]
pub struct Driver {
    control: Box<dyn Control>,
    needs: Needs,
    plan: Plan,
    standing: ClassSet,
    actions: Actions,
    due: Time,
    now: Time,
    /// Set of the breaches that were reported.
    reported: u32,
}

impl Driver {
    /// Starts a mechanism at a node; returns `None` if it does not run there.
    ///
    /// [`Driver::begin`] must be called next.
    ///
    /// # Errors
    /// See [`Mechanism::start`].
    pub fn start(
        mechanism: &Mechanism,
        setting: Setting,
        offers: &Offers,
    ) -> Result<Option<Self>, StartError> {
        let Some(needs) = mechanism.needs(&setting.site) else { return Ok(None) };
        let Some(instance) = mechanism.start(setting, offers)? else { return Ok(None) };
        // Optional events that the host does not offer are dropped.
        let wants = instance.control.wants();
        let events = needs.events.or(wants.without(wants.without(offers.events)));
        Ok(Some(Driver::of(instance, Needs { events, ..needs })))
    }

    /// Starts a mechanism on a host of one node.
    ///
    /// A mechanism that runs only at other nodes is refused.
    ///
    /// # Errors
    /// See [`Mechanism::start`].
    pub fn start_alone(
        mechanism: &Mechanism,
        setting: Setting,
        offers: &Offers,
    ) -> Result<Option<Self>, StartError> {
        let started = Driver::start(mechanism, setting, offers)?;
        let at = mechanism.all_needs().into_iter().fold(PlacementSet::NONE, |at, n| at.or(n.at));
        if started.is_none() && !at.is_empty() {
            let (mechanism, host) = (mechanism.to_string(), offers.host);
            return Err(StartError::Elsewhere { mechanism, host, at });
        }
        Ok(started)
    }

    pub(super) fn of(instance: Instance, needs: Needs) -> Self {
        let Instance { control, plan } = instance;
        let due = control.next_deadline().unwrap_or(Time::NEVER);
        Driver {
            control,
            needs,
            plan,
            standing: ClassSet::default(),
            actions: Actions::new(),
            due,
            now: Time::ZERO,
            reported: 0,
        }
    }

    /// Returns the needs of the mechanism here, with those optional events that the host offers.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Returns the classes that it needs from the start.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the time at which [`Driver::deadline`] must be called next.
    ///
    /// [`Time::NEVER`] if the mechanism only reacts to events.
    pub fn due(&self) -> Time {
        self.due
    }

    /// True if it is never called: it requires no event and no deadline, only its plan.
    pub fn is_idle(&self) -> bool {
        self.needs.events.is_empty() && self.due == Time::NEVER
    }

    /// Returns the result worth keeping over a restart.
    pub fn learned(&self) -> Option<BitRate> {
        self.control.learned()
    }

    /// Returns the progress of its search for a level.
    pub fn progress(&self) -> Option<Progress> {
        self.control.progress()
    }

    /// True if the mechanism has found that a flow does not respond to its limit.
    pub fn floods(&self, flow: FlowId) -> bool {
        self.control.floods(flow)
    }

    /// Returns the rate that the mechanism guarantees a flow at present.
    pub fn guaranteed(&self, flow: FlowId) -> Option<BitRate> {
        self.control.guaranteed(flow)
    }

    /// Returns the node that decides for the mechanism, if that is another node.
    pub fn follows(&self) -> Option<NodeId> {
        self.control.follows()
    }

    /// Builds the plan. Must be called once, before all other calls.
    pub fn begin(&mut self, now: Time, node: &mut impl Node) {
        self.now = self.now.max(now);
        for class in &self.plan.classes {
            if self.standing.add(class.class) {
                build(now, class, None, node);
            }
        }
    }

    /// Starts from the result of an earlier run.
    ///
    /// Called after [`Driver::begin`] and before any event.
    pub fn recall(&mut self, now: Time, learned: BitRate, node: &mut impl Node) {
        self.control.recall(learned, &mut self.actions);
        self.rearm(false);
        self.act(now, node);
    }

    /// Passes an event to the mechanism.
    ///
    /// Its actions wait for [`Driver::act`], which must follow at the same instant, after this or after more events.
    #[inline]
    pub fn deliver(&mut self, now: Time, event: &Event<'_>) {
        self.now = self.now.max(now);
        self.control.on(self.now, event, &mut self.actions);
        self.rearm(false);
    }

    /// Calls [`Driver::deliver`] and [`Driver::act`].
    pub fn deliver_and_act(&mut self, now: Time, event: &Event<'_>, node: &mut impl Node) {
        self.deliver(now, event);
        self.act(now, node);
    }

    /// Handles a deadline: takes the samples, delivers the deadline and carries out the actions.
    pub fn deadline(&mut self, now: Time, node: &mut impl Node) {
        self.now = self.now.max(now);
        let now = self.now;
        for kind in SAMPLE_ORDER {
            if self.needs.events.has(kind) && !lost::sample(kind) {
                let (control, actions) = (self.control.as_mut(), &mut self.actions);
                node.sample(now, kind, &mut Samples { control, actions, now, kind });
            }
        }
        self.control.on(now, &Event::Deadline, &mut self.actions);
        self.rearm(true);
        self.act(now, node);
    }

    /// Sets the time of the next deadline within the contract.
    ///
    /// It is not before now, and after a deadline later than now.
    #[inline]
    fn rearm(&mut self, after_deadline: bool) {
        self.due = self.control.next_deadline().unwrap_or(Time::NEVER);
        if self.due <= self.now {
            self.hurried(after_deadline);
        }
    }

    #[cold]
    fn hurried(&mut self, after_deadline: bool) {
        self.due = self.now;
        if after_deadline {
            self.due = self.now + RETRY_DELAY;
            if let Some(reason) = self.breach(Breach::Deadline) {
                self.actions.because(reason);
            }
        }
    }

    /// Carries out all pending actions.
    pub fn act(&mut self, now: Time, node: &mut impl Node) {
        if self.actions.is_empty() {
            return;
        }
        let mut actions = core::mem::take(&mut self.actions);
        let mut why = None;
        // The last reason, as long as no action has followed it.
        let mut open = None;
        for action in actions.iter() {
            match action {
                Action::Because(reason) => {
                    if let Some(before) = open.replace(reason) {
                        decided(now, before, node);
                    }
                    why = Some(reason);
                    continue;
                }
                Action::Annotate { .. }
                | Action::Send { .. }
                | Action::Route { .. }
                | Action::HandOver { .. } => open = None,
                _ => {
                    if let Some(reason) = open.take() {
                        decided(now, reason, node);
                    }
                }
            }
            match self.admit(now, action, why, node) {
                Ok(true) => give(now, action, actions.body(action), why, node),
                Ok(false) => {}
                Err(breach) => {
                    if let Some(reason) = self.breach(breach) {
                        decided(now, &reason, node);
                    }
                }
            }
        }
        if let Some(reason) = open {
            decided(now, reason, node);
        }
        node.settled(now);
        actions.clear();
        self.actions = actions;
    }

    /// Checks an action against the contract and builds its class if that is still pending.
    ///
    /// Returns `Ok(false)` if there is nothing to do.
    fn admit(
        &mut self,
        now: Time,
        action: &Action,
        why: Option<&Reason>,
        node: &mut impl Node,
    ) -> Result<bool, Breach> {
        match *action {
            Action::Because(_) => return Ok(false),
            Action::SetRate { rate: Some(BitRate(0)), .. } => return Err(Breach::Rate),
            Action::SetRate { class, .. } => self.stand(now, class, why, node)?,
            Action::SetAirtime { class, .. } => {
                self.able(Ability::Airtime)?;
                self.stand(now, class, why, node)?;
            }
            Action::Remove { class } => return Ok(self.standing.remove(class)),
            Action::Mark { .. } => self.able(Ability::Mark)?,
            Action::Drop { .. } => self.able(Ability::Drop)?,
            Action::Annotate { .. } => self.able(Ability::Annotate)?,
            Action::Send { .. } => self.able(Ability::Send)?,
            Action::Route { .. } => self.able(Ability::Route)?,
            Action::HandOver { reach: Reach::Gateways, .. } => self.able(Ability::Peers)?,
            Action::HandOver { .. } => self.able(Ability::IdealExchange)?,
            Action::AckBits { .. } => self.able(Ability::AckBits)?,
            Action::Pace { .. } => self.able(Ability::Pace)?,
        }
        Ok(true)
    }

    /// Builds a class that does not exist yet.
    fn stand(
        &mut self,
        now: Time,
        class: Class,
        why: Option<&Reason>,
        node: &mut impl Node,
    ) -> Result<(), Breach> {
        if self.standing.has(class) {
            return Ok(());
        }
        let alike =
            |t: &ClassPlan| core::mem::discriminant(&t.class) == core::mem::discriminant(&class);
        let Some(template) = self.plan.template.filter(alike) else {
            return Err(Breach::Class(class));
        };
        self.standing.add(class);
        build(now, &ClassPlan { class, ..template }, why, node);
        Ok(())
    }

    #[inline]
    fn able(&self, ability: Ability) -> Result<(), Breach> {
        let declared: AbilitySet = self.needs.abilities;
        if declared.has(ability) { Ok(()) } else { Err(Breach::Ability(ability)) }
    }

    /// Returns the report of a breach; `None` if it was reported before.
    #[cold]
    fn breach(&mut self, breach: Breach) -> Option<Reason> {
        let (bit, reason) = match breach {
            Breach::Deadline => (
                1,
                Reason::new(
                    "contract.deadline",
                    "the mechanism asks for a deadline that is not later than this one; it gets \
                     one after {}",
                    &[Value::Span(RETRY_DELAY)],
                ),
            ),
            Breach::Rate => (
                2,
                Reason::new(
                    "contract.rate",
                    "the mechanism sets a rate of 0; the limit stays as it was",
                    &[],
                ),
            ),
            Breach::Ability(_) => (
                4,
                Reason::new(
                    "contract.ability",
                    "the mechanism does what it has not declared; nothing happens",
                    &[],
                ),
            ),
            Breach::Class(class) => (
                8,
                Reason::new(
                    "contract.class",
                    "the mechanism limits {}, which is neither in its plan nor of its template's \
                     kind; nothing happens",
                    &[Value::Class(class)],
                ),
            ),
        };
        let new = self.reported & bit == 0;
        self.reported |= bit;
        new.then_some(reason)
    }
}

/// Builds a class.
#[inline]
fn build(now: Time, class: &ClassPlan, why: Option<&Reason>, node: &mut impl Node) {
    if !lost::class() {
        node.build(now, class, why);
    }
}

/// Carries an action out.
#[inline]
fn give(now: Time, action: &Action, body: &[u8], why: Option<&Reason>, node: &mut impl Node) {
    if !lost::action(action) {
        node.carry_out(now, action, body, why);
    }
}

/// Records a decision.
#[inline]
fn decided(now: Time, reason: &Reason, node: &mut impl Node) {
    if !lost::reason() {
        node.decided(now, reason);
    }
}

/// Without the feature `conformance`, nothing is lost between driver and host.
#[cfg(not(feature = "conformance"))]
mod lost {
    use super::{Action, EventKind};

    #[inline(always)]
    pub const fn class() -> bool {
        false
    }
    #[inline(always)]
    pub const fn action(_: &Action) -> bool {
        false
    }
    #[inline(always)]
    pub const fn sample(_: EventKind) -> bool {
        false
    }
    #[inline(always)]
    pub const fn reason() -> bool {
        false
    }
}

#[cfg(feature = "conformance")]
use super::conformance::lost;
