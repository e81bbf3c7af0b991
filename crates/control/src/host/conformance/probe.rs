//! A mechanism that uses every capability of a host, one action per second, at its gateway.

use std::cell::Cell;

use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Span, Time};

use crate::host::{ClassKind, ClassOffer, LeafKind, LimitKind};
use crate::{
    Ability, Actions, Class, ClassPlan, Control, Definition, Event, EventKind, EventSet, Instance,
    Leaf, Limit, Marking, Mechanism, Merge, Needs, Offers, Origin, Place, Placement, PlacementSet,
    Plan, Point, Reach, Reason, Refusal, Runs, Setting, Share,
};

/// Time from one action to the next.
pub(super) const ACTION_INTERVAL: Span = Span::from_secs(1);
/// Field and value of the header that it writes.
pub(super) const HEADER_FIELD: (u8, u32) = (3, 0x00c0_ffee);
/// Bits that it sets in acknowledgements.
pub(super) const ACKNOWLEDGEMENT_BITS: u8 = 5;

/// The subject of one trial.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trial {
    /// Classes of one kind, queue and limit at one point.
    Classes(Point, ClassOffer, LeafKind, LimitKind),
    /// All actions that need no classes.
    Packets,
}

impl Trial {
    /// True if its classes have the first of the queues offered for them.
    pub fn is_first_leaf(&self) -> bool {
        match self {
            Trial::Classes(_, offer, leaf, _) => offer.leaves.first() == Some(leaf),
            Trial::Packets => true,
        }
    }
}

impl core::fmt::Display for Trial {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Trial::Classes(point, offer, leaf, limit) => {
                write!(f, "{leaf} and {limit} for {}, of traffic {}", offer.kind, point.name())
            }
            Trial::Packets => f.write_str("marks, losses, fields, messages, bits and pace"),
        }
    }
}

/// Returns all trials for a host.
pub(super) fn trials(offers: &Offers) -> Vec<Trial> {
    let mut trials = vec![Trial::Packets];
    for point in offers.plans {
        for class in point.classes {
            for leaf in class.leaves {
                let new = |limit: &LimitKind| Trial::Classes(point.point, *class, *leaf, *limit);
                trials.extend(class.limits.iter().map(new));
            }
        }
    }
    trials
}

thread_local! {
    static TURNS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of actions in the trial that was started last.
pub(super) fn turns() -> u64 {
    TURNS.get()
}

/// Returns the mechanism that runs this trial on a host.
pub(super) fn mechanism(trial: Trial, offers: &Offers) -> Mechanism {
    let about = "does everything that a host offers";
    let offers = *offers;
    let runs = Runs::at(move |_| needs(trial, &offers), move |_, s| build(trial, &offers, s));
    Mechanism::of(Definition::new("probe", about, Origin::ours("")).with_runs(runs))
}

fn needs(trial: Trial, offers: &Offers) -> Vec<Needs> {
    // Marks, fields and messages are observed at the nodes at which they arrive, so every node
    // requires the events.
    // Probes would compete with the messages for air, and a message in the air is not repeated.
    let without = EventSet::of(&[EventKind::Sent, EventKind::QueueChanges, EventKind::Probes]);
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: match trial {
            Trial::Packets => {
                offers.events.without(EventSet::of(&[EventKind::QueueChanges, EventKind::Probes]))
            }
            Trial::Classes(..) => offers.events.without(without),
        },
        abilities: offers.abilities,
        ..Needs::default()
    }]
}

fn build(trial: Trial, offers: &Offers, setting: Setting) -> Result<Instance, Refusal> {
    let none = || Instance { control: Box::new(Probe::default()), plan: Plan::none() };
    if !setting.site.gateway {
        return Ok(none());
    }
    let neighbour = setting.neighbours.first().map(|n| n.node);
    let mut turns = Vec::new();
    let mut plan = Plan::none();
    match trial {
        Trial::Packets => {
            let source = |p: &Place| *p == Place::Source;
            let own = setting.flows.iter().find(|h| source(&h.place)).map(|h| h.flow);
            // The farthest home of a flow: several hops away if there is one.
            let far = setting.flows.iter().filter_map(|h| h.home()).max();
            packets(offers, (neighbour, far), own, &mut turns);
        }
        Trial::Classes(point, offer, leaf, limit) => {
            let named = classes(point, offer.kind, &setting);
            plan = planned(point, &offer, leaf, limit, &named);
            let later = plan.template.and(named.last().copied());
            for class in plan.classes.first().map(|c| c.class).into_iter().chain(later) {
                limits(&offer, class, plan.template.is_some(), &mut turns);
            }
            turns.extend(plan.classes.first().map(|c| Turn::Remove(c.class)));
        }
    }
    turns.reverse();
    TURNS.set(turns.len() as u64);
    Ok(Instance {
        control: Box::new(Probe { turns, next: Some(Time::ZERO + ACTION_INTERVAL) }),
        plan,
    })
}

/// Returns the classes of a kind for which there is traffic.
fn classes(point: Point, kind: ClassKind, setting: &Setting) -> Vec<Class> {
    let here = |place| point == Point::Transit || place == Place::Source;
    match kind {
        ClassKind::All => vec![Class::All],
        ClassKind::Flow => {
            let flows = setting.flows.iter().filter(|h| here(h.place));
            flows.map(|h| Class::Flow(h.flow)).collect()
        }
        ClassKind::Link => setting.neighbours.iter().map(|n| Class::Link(n.node)).collect(),
    }
}

/// Returns a plan of all but the last of these classes, with a template for the last.
fn planned(
    point: Point,
    offer: &ClassOffer,
    leaf: LeafKind,
    limit: LimitKind,
    classes: &[Class],
) -> Plan {
    let packets = 7.clamp(offer.packets.0, offer.packets.1);
    let leaf = match leaf {
        LeafKind::DropTail => Leaf::DropTail { packets },
        LeafKind::Fair => Leaf::Fair { packets },
        LeafKind::Red => Leaf::Red { packets: 40.min(offer.packets.1), ecn: false },
        LeafKind::Fred => Leaf::Fred { packets: 40.min(offer.packets.1) },
    };
    let limit = |n: u64| match limit {
        LimitKind::None => Limit::None,
        LimitKind::Rate => Limit::Rate(BitRate(300_000 + n * 10_000)),
        LimitKind::Airtime => Limit::Airtime(Share::new(0.2 + n as f64 * 0.01)),
    };
    let burst = Bytes(4000.clamp(offer.burst.0.0, offer.burst.1.0));
    let class = |class, n| ClassPlan { class, limit: limit(n), burst, leaf };
    let alone = offer.kind == ClassKind::All;
    let start = &classes[..classes.len() - usize::from(!alone && classes.len() > 1)];
    Plan {
        point,
        classes: start.iter().zip(0..).map(|(c, n)| class(*c, n)).collect(),
        template: (!alone).then(|| ClassPlan { limit: Limit::None, ..class(classes[0], 0) }),
    }
}

/// Adds the actions for one class.
fn limits(offer: &ClassOffer, class: Class, template: bool, turns: &mut Vec<Turn>) {
    if offer.limits.contains(&LimitKind::Rate) {
        turns.extend([Turn::Rate(class, 400_000), Turn::Lift(class), Turn::Rate(class, 500_000)]);
    }
    if offer.limits.contains(&LimitKind::Airtime) {
        turns.extend([Turn::Airtime(class, 0.3), Turn::Airtime(class, 0.4)]);
    }
    if template {
        turns.extend([Turn::Remove(class), Turn::Rate(class, 600_000)]);
    }
}

/// Adds the actions for packets, and those without packets.
fn packets(
    offers: &Offers,
    (neighbour, far): (Option<NodeId>, Option<NodeId>),
    own: Option<FlowId>,
    turns: &mut Vec<Turn>,
) {
    for ability in offers.abilities.iter() {
        match ability {
            Ability::Mark => turns.extend([Turn::Mark(0.5), Turn::Mark(0.0)]),
            Ability::Drop => turns.extend([Turn::Drop(0.2), Turn::Drop(0.0)]),
            Ability::Annotate => {
                let link = neighbour.map_or(Class::All, Class::Link);
                turns.extend([Turn::Annotate(Class::All), Turn::Annotate(link)]);
            }
            Ability::Send => turns.extend([Turn::Send(None), Turn::Send(neighbour)]),
            Ability::Route => turns.extend(far.map(Turn::Route)),
            Ability::IdealExchange => {
                turns.extend([Turn::HandOver(Reach::Within(1)), Turn::HandOver(Reach::Within(9))]);
                turns.extend(neighbour.map(|n| Turn::HandOver(Reach::Node(n))));
            }
            Ability::Peers => turns.push(Turn::HandOver(Reach::Gateways)),
            Ability::AckBits => turns.push(Turn::AckBits),
            Ability::Pace => turns
                .extend(own.into_iter().flat_map(|f| {
                    [Turn::Pace(f, Some(Span::from_millis(5))), Turn::Pace(f, None)]
                })),
            Ability::LimitLocal
            | Ability::LimitTransit
            | Ability::ReplaceQueue
            | Ability::FlowClasses
            | Ability::LinkClasses
            | Ability::Airtime => {}
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    Rate(Class, u64),
    Lift(Class),
    Airtime(Class, f64),
    Remove(Class),
    Mark(f64),
    Drop(f64),
    Annotate(Class),
    Send(Option<NodeId>),
    Route(NodeId),
    HandOver(Reach),
    AckBits,
    Pace(FlowId, Option<Span>),
}

/// Pending actions at a gateway, last first; at other nodes it only receives.
#[derive(Default, Debug)]
struct Probe {
    turns: Vec<Turn>,
    next: Option<Time>,
}

impl Control for Probe {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        if *event != Event::Deadline {
            return;
        }
        self.next = Some(now + ACTION_INTERVAL);
        let Some(turn) = self.turns.pop() else { return };
        let left = self.turns.len() as u8;
        actions.because(Reason::new("probe.turn", "it is the probe's turn", &[]));
        match turn {
            Turn::Rate(class, rate) => actions.set_rate(class, BitRate(rate)),
            Turn::Lift(class) => actions.lift_limit(class),
            Turn::Airtime(class, share) => actions.set_airtime(class, Share::new(share)),
            Turn::Remove(class) => actions.remove(class),
            Turn::Mark(p) => {
                let even = Marking { even: true };
                actions.mark_as(Class::All, p, even);
            }
            Turn::Drop(p) => actions.drop(Class::All, p),
            Turn::Annotate(class) => {
                actions.annotate(class, HEADER_FIELD.0, Merge::Set, HEADER_FIELD.1)
            }
            Turn::Send(to) => actions.send(to, &[b'p', left]),
            Turn::Route(to) => actions.route(to, &[b'r', left]),
            Turn::HandOver(reach) => actions.hand_over(reach, &[b't', left]),
            Turn::AckBits => actions.ack_bits(ACKNOWLEDGEMENT_BITS),
            Turn::Pace(flow, Some(interval)) => actions.pace(flow, interval),
            Turn::Pace(flow, None) => actions.unpace(flow),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.next
    }
}
