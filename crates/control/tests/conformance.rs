//! Rules for every registered mechanism, under events in any order.
//!
//! A new mechanism is covered by its line in the registry.

use std::sync::Arc;

use fairmesh_control::*;
use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};
use proptest::prelude::*;

const NODES: u32 = 6;
const FLOWS: u32 = 5;

fn everything() -> Offers {
    Offers::everything("the test host")
}

fn lookup(name: &str) -> Result<Mechanism, UnknownControl> {
    Registry::standard().lookup(name)
}

/// Every mechanism, plain and with each of its variants.
fn names() -> Vec<String> {
    let names = |d: &Arc<Definition>| {
        let variants = d.variants.iter().map(|v| format!("{}+{}", d.name, v.name));
        std::iter::once(d.name.to_string()).chain(variants).collect::<Vec<_>>()
    };
    Registry::standard().all().flat_map(names).collect()
}

fn sites() -> impl Strategy<Value = Site> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 1u32..4).prop_map(
        |(gateway, access_point, sources, hops)| {
            Site::new()
                .with_gateway(gateway)
                .with_access_point(access_point)
                .with_sources(sources)
                .with_hops(Some(if gateway { 0 } else { hops }))
        },
    )
}

fn flow_here(s: &mut Stream, flow: u32) -> FlowHere {
    let places = [Place::Source, Place::Forwarder, Place::Sink];
    let payload = 1 + s.below(1460);
    let weight = f64::from(1 + s.below(3));
    FlowHere::new(FlowId(flow), places[s.below(3) as usize], payload, payload + 40)
        .with_weight(weight)
        .with_next_hop(s.chance(0.8).then(|| NodeId(1 + s.below(NODES - 1))))
        .with_fair(s.chance(0.9).then(|| BitRate(u64::from(s.below(5_000_000)))))
        .with_guarantee(s.chance(0.2).then(|| BitRate(u64::from(s.below(100_000)))))
        .with_ceiling(s.chance(0.2).then(|| BitRate(100_000 + u64::from(s.below(5_000_000)))))
        .with_hops(s.chance(0.8).then(|| 1 + s.below(6)))
}

/// A radio for which bits are all that counts.
#[derive(Debug)]
struct Budget;

impl LinkModel for Budget {
    fn delivery(&self, _: Link, _: u32) -> f64 {
        1.0
    }
    fn prepare(
        &self,
        links: &[LoadedLink],
        _: &[(NodeId, NodeId)],
        streams: &[FrameStream],
    ) -> Option<Box<dyn LinkRates>> {
        assert!(streams.iter().all(|s| s.link < links.len()));
        assert!(streams.iter().enumerate().all(|(i, s)| s.after.is_none_or(|a| a < i)));
        Some(Box::new(Budget))
    }
}

impl LinkRates for Budget {
    fn busiest(&mut self, loads: &[FrameLoad]) -> Result<f64, NoAnswer> {
        let bits = |l: &FrameLoad| 8.0 * l.packets * f64::from(l.bytes);
        let busy = loads.iter().map(bits).sum::<f64>() / 2e6;
        if busy < 3.0 { Ok(busy) } else { Err(NoAnswer::Beyond) }
    }

    fn airtime(&self, _: &[FrameLoad]) -> f64 {
        0.0
    }
}

fn setting(site: Site, seed: u64) -> Setting {
    let mut s = Stream::new(seed, "conformance/setting");
    let flows: Vec<_> = (0..s.below(FLOWS + 1)).map(|f| flow_here(&mut s, f)).collect();
    let neighbour = |n| Neighbour::new(NodeId(n), BitRate(11_000_000), BitRate(6_000_000));
    let link = |n| Link { from: NodeId(n), to: NodeId(n + 1) };
    Setting::new(NodeId(0), site, Stream::new(seed, "conformance/mechanism"))
        .with_flows(flows)
        .with_neighbours((1..NODES).map(neighbour))
        .with_links((0..NODES - 1).map(link))
        .with_model(Some(std::sync::Arc::new(Budget)))
}

/// A host that makes things up, but keeps counters from running backwards.
struct Host {
    rng: Stream,
    now: Time,
    total: u64,
}

impl Host {
    fn count(&mut self) -> u64 {
        self.total += u64::from(self.rng.below(100_000));
        self.total
    }
    fn flow(&mut self) -> FlowId {
        FlowId(self.rng.below(FLOWS))
    }
    fn node(&mut self) -> NodeId {
        NodeId(1 + self.rng.below(NODES - 1))
    }
    fn class(&mut self) -> Class {
        match self.rng.below(3) {
            0 => Class::All,
            1 => Class::Flow(self.flow()),
            _ => Class::Link(self.node()),
        }
    }
    fn header(&mut self) -> Header {
        Header(std::array::from_fn(|_| self.rng.bits() as u32 >> self.rng.below(32)))
    }
    fn frame(&mut self, to: NodeId) -> ReceivedFrame {
        ReceivedFrame {
            link: Link { from: self.node(), to },
            flow: self.flow(),
            ack: self.rng.chance(0.5),
            bytes: 40 + self.rng.below(1460),
            header: self.header(),
        }
    }

    fn event<'a>(&mut self, body: &'a mut [u8]) -> Event<'a> {
        match self.rng.below(18) {
            0 => Event::Counters(Counters {
                class: self.class(),
                bytes: self.count(),
                packets: self.count(),
                drops: self.count(),
                overlimits: self.count(),
                queued_packets: self.rng.below(50),
                queued_bytes: u64::from(self.rng.below(75_000)),
            }),
            1 => Event::FlowCounters(FlowCounters {
                flow: self.flow(),
                bytes: self.count(),
                packets: self.count(),
            }),
            2 => Event::Station(Station {
                node: self.node(),
                tx_bytes: self.count(),
                tx_packets: self.count(),
                tx_retries: self.count(),
                tx_failed: self.count(),
                tx_airtime: Span::from_nanos(self.count()),
                tx_rate: BitRate(11_000_000),
                rx_bytes: self.count(),
                rx_packets: self.count(),
                rx_airtime: Span::from_nanos(self.count()),
            }),
            3 => {
                let active = self.now.since(Time::ZERO);
                let part = |rng: &mut Stream| {
                    Span::from_nanos((active.as_nanos() as f64 * rng.unit()) as u64)
                };
                Event::Channel(Channel {
                    active,
                    busy: part(&mut self.rng),
                    receive: part(&mut self.rng),
                    transmit: part(&mut self.rng),
                })
            }
            4 => Event::Queue(QueueLength {
                class: self.class(),
                packets: self.rng.below(50),
                bytes: u64::from(self.rng.below(75_000)),
            }),
            5 | 6 => Event::Sent(Sent {
                to: self.rng.chance(0.9).then_some(NodeId(1)),
                flow: self.rng.chance(0.5).then_some(FlowId(0)),
                ack: self.rng.chance(0.3),
                bytes: 40 + self.rng.below(1460),
                airtime: Span::from_micros(u64::from(self.rng.below(20_000))),
                backoff: Span::ZERO,
                attempts: 1 + self.rng.below(7) as u8,
                rate: BitRate(11_000_000),
                delivered: self.rng.chance(0.9),
                ack_bits: self.rng.chance(0.5).then(|| self.rng.bits() as u8),
            }),
            7 => Event::Received(self.frame(NodeId(0))),
            8 => {
                let to = self.node();
                Event::Overheard(self.frame(to))
            }
            9 => {
                // Anyone may send anything: mechanisms must not trust a message's form.
                let len = self.rng.below(body.len() as u32 + 1) as usize;
                body[..len].fill_with(|| self.rng.bits() as u8);
                Event::Message(Message { from: self.node(), body: &body[..len] })
            }
            10 => Event::Feedback(Feedback {
                flow: self.flow(),
                rtt: Span::from_micros(u64::from(self.rng.below(3_000_000))),
                acked: self.rng.below(3000),
                lost: self.rng.below(2),
                marked: self.rng.chance(0.1),
                header: self.header(),
            }),
            11 => {
                let flow = self.rng.below(FLOWS);
                Event::FlowSeen(flow_here(&mut self.rng, flow))
            }
            12 => Event::FlowGone(self.flow()),
            13 => Event::RoundTrip(RoundTrip {
                flow: self.flow(),
                rtt: Span::from_micros(u64::from(self.rng.below(3_000_000))),
            }),
            15 => {
                let (a, b) = (NodeId(0), self.node());
                let (from, to) = if self.rng.chance(0.5) { (a, b) } else { (b, a) };
                Event::FlowLink(FlowLink {
                    link: Link { from, to },
                    flow: self.flow(),
                    ack: self.rng.chance(0.5),
                    packets: self.count(),
                    bytes: self.count(),
                })
            }
            16 => Event::Neighbours(match self.rng.below(3) {
                0 => &[],
                1 => const { &[Neighbour::new(NodeId(2), BitRate(1), BitRate(0))] },
                _ => {
                    const {
                        &[
                            Neighbour::new(NodeId(9), BitRate(6_000_000), BitRate(4_000_000)),
                            Neighbour::new(NodeId(1), BitRate(u64::MAX), BitRate(u64::MAX)),
                        ]
                    }
                }
            }),
            14 => Event::PathSigns(
                fairmesh_control::PathSigns::new(self.flow())
                    .with_awaited(u64::from(self.rng.below(100_000)))
                    .with_repeated(u64::from(self.rng.below(1000))),
            ),
            _ => Event::Allocation(Allocation {
                flow: self.flow(),
                rate: BitRate(u64::from(self.rng.below(5_000_000))),
            }),
        }
    }
}

/// Checks the actions of one call.
fn check_actions(name: &str, needs: &Needs, actions: &Actions) -> Result<(), TestCaseError> {
    let can = |a| needs.abilities.has(a);
    let mut explained = false;
    for action in actions.iter() {
        prop_assert!(
            explained || matches!(action, Action::Because(_)),
            "{name} has no reason: {action:?}"
        );
        let class = match *action {
            Action::Because(reason) => {
                explained = true;
                prop_assert!(
                    reason.code.starts_with(name.split('+').next().unwrap())
                        || reason.code.starts_with("host."),
                    "{}",
                    reason.code
                );
                let filled = reason.values.iter().filter(|v| **v != Value::None).count();
                prop_assert_eq!(
                    filled,
                    reason.sentence.matches("{}").count(),
                    "{}",
                    reason.sentence
                );
                None
            }
            Action::SetRate { class, rate } => {
                prop_assert_ne!(rate, Some(BitRate(0)), "no bucket has a rate of zero");
                Some(class)
            }
            Action::SetAirtime { class, .. } => {
                prop_assert!(can(Ability::Airtime));
                Some(class)
            }
            Action::Remove { class } => Some(class),
            Action::Mark { class, probability, .. } => {
                prop_assert!(can(Ability::Mark) && (0.0..=1.0).contains(&probability.0));
                Some(class)
            }
            Action::Drop { class, probability } => {
                prop_assert!(can(Ability::Drop) && (0.0..=1.0).contains(&probability.0));
                Some(class)
            }
            Action::Annotate { slot, .. } => {
                prop_assert!(can(Ability::Annotate) && usize::from(slot) < HEADER_FIELDS);
                None
            }
            Action::AckBits { .. } => {
                prop_assert!(can(Ability::AckBits));
                None
            }
            Action::Pace { interval, .. } => {
                prop_assert!(can(Ability::Pace) && interval != Some(Span::ZERO));
                None
            }
            Action::HandOver { reach, len, .. } => {
                let over_the_wire = reach == Reach::Gateways;
                let ability = [Ability::IdealExchange, Ability::Peers][usize::from(over_the_wire)];
                prop_assert!(can(ability));
                prop_assert_eq!(actions.body(action).len(), len as usize);
                None
            }
            Action::Route { len, .. } => {
                prop_assert!(can(Ability::Route));
                prop_assert_eq!(actions.body(action).len(), len as usize);
                None
            }
            Action::Send { len, .. } => {
                prop_assert!(can(Ability::Send));
                prop_assert_eq!(actions.body(action).len(), len as usize);
                None
            }
        };
        match class {
            Some(Class::Flow(_)) => prop_assert!(can(Ability::FlowClasses), "{:?}", action),
            Some(Class::Link(_)) => prop_assert!(can(Ability::LinkClasses), "{:?}", action),
            _ => {}
        }
    }
    Ok(())
}

fn check_plan(needs: &Needs, plan: &Plan) -> Result<(), TestCaseError> {
    if !plan.is_none() {
        let ability = match plan.point {
            Point::Local => Ability::LimitLocal,
            Point::Transit => Ability::LimitTransit,
            Point::Interface => Ability::ReplaceQueue,
        };
        prop_assert!(needs.abilities.has(ability), "the plan needs an undeclared ability");
    }
    let mut classes: Vec<Class> = plan.classes.iter().map(|c| c.class).collect();
    classes.sort();
    classes.dedup();
    prop_assert_eq!(classes.len(), plan.classes.len(), "a class planned twice");
    for c in plan.classes.iter().chain(&plan.template) {
        prop_assert!(c.burst.0 > 0);
        prop_assert_ne!(c.limit, Limit::Rate(BitRate(0)));
        let (Leaf::DropTail { packets }
        | Leaf::Fair { packets }
        | Leaf::Red { packets, .. }
        | Leaf::Fred { packets }) = c.leaf;
        prop_assert!(packets > 0);
    }
    Ok(())
}

/// Runs a mechanism against made-up events and gives back everything it did.
fn run(name: &str, site: Site, seed: u64, steps: u32) -> Result<String, TestCaseError> {
    let mechanism = lookup(name).unwrap();
    let started = mechanism.start(setting(site, seed), &everything()).unwrap();
    prop_assert_eq!(started.is_some(), mechanism.needs(&site).is_some());
    let Some(Instance { mut control, plan }) = started else { return Ok(String::new()) };
    let needs = mechanism.needs(&site).unwrap();
    check_plan(&needs, &plan)?;

    let mut log = format!("{plan:?}\n");
    let mut host = Host { rng: Stream::new(seed, "conformance/host"), now: Time::ZERO, total: 0 };
    let mut actions = Actions::new();
    let mut body = [0u8; 80];
    for _ in 0..steps {
        let next = host.now + Span::from_micros(u64::from(host.rng.below(300_000)));
        // Hosts differ: one is on time, another a little late. Deadlines come before the event.
        for _ in 0..20 {
            let Some(due) = control.next_deadline().filter(|d| *d <= next) else { break };
            let late = Span::from_micros(u64::from(host.rng.below(2)));
            host.now = host.now.max(due + late);
            control.on(host.now, &Event::Deadline, &mut actions);
            let again = control.next_deadline();
            prop_assert!(again.is_none_or(|d| d > host.now), "{name} stays at its deadline");
        }
        host.now = host.now.max(next);
        let event = host.event(&mut body);
        let before = actions.iter().count();
        control.on(host.now, &event, &mut actions);
        let handed_over = |a: &&Action| matches!(a, Action::HandOver { .. });
        let answers = actions.iter().skip(before).find(handed_over);
        prop_assert!(
            answers.is_none() || !matches!(event, Event::Message(_)),
            "{name} answers a message at the instant it came"
        );
        let due = control.next_deadline();
        prop_assert!(due.is_none_or(|d| d >= host.now), "{name} wants {due:?}, past");
        check_actions(name, &needs, &actions)?;
        for action in actions.iter() {
            log += &format!("{} {action:?} {:?}\n", host.now, actions.body(action));
        }
        actions.clear();
    }
    Ok(log)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_mechanism_conforms(site in sites(), seed: u64, steps in 1u32..300) {
        for name in names() {
            let first = run(&name, site, seed, steps)?;
            let second = run(&name, site, seed, steps)?;
            prop_assert_eq!(first, second, "{} is not deterministic", name);
        }
    }
}

#[test]
fn the_generator_makes_every_kind_of_event() {
    let mut host = Host { rng: Stream::new(1, "conformance/host"), now: Time::ZERO, total: 0 };
    let mut body = [0u8; 80];
    let kinds: Vec<EventKind> = (0..500).filter_map(|_| host.event(&mut body).kind()).collect();
    // A queue's length is one event, whether sampled or on change; probes show in the signs of a path.
    let none = EventSet::of(&[EventKind::QueueChanges, EventKind::Probes]);
    for kind in EventSet::ALL.without(none).iter() {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

#[test]
fn missing_abilities_of_a_host_are_named() {
    for name in names() {
        let mechanism = lookup(&name).unwrap();
        let site = Site::new()
            .with_gateway(true)
            .with_access_point(true)
            .with_sources(true)
            .with_hops(Some(1));
        let Some(needs) = mechanism.needs(&site) else { continue };
        let full = everything();
        for kind in needs.events.iter() {
            let offers = Offers { events: full.events.without(EventSet::of(&[kind])), ..full };
            let missing = mechanism.start(setting(site, 1), &offers).unwrap_err();
            assert!(missing.to_string().contains(kind.name()), "{missing}");
        }
        for ability in needs.abilities.iter() {
            let abilities = full.abilities.without(AbilitySet::of(&[ability]));
            let missing =
                mechanism.start(setting(site, 1), &Offers { abilities, ..full }).unwrap_err();
            assert!(missing.to_string().contains(ability.name()), "{missing}");
        }
    }
}

#[test]
fn missing_things_read_well() {
    let nothing = Offers {
        host: "the linux gateway",
        events: EventSet::NONE,
        abilities: AbilitySet::of(&[Ability::FlowClasses]),
        knowledge: KnowledgeSet::NONE,
        plans: &[],
    };
    let site = Site::new().with_sources(true);
    let missing = lookup("source").unwrap().start(setting(site, 1), &nothing).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "source cannot run on the linux gateway: not delivered: analytic fair rates; not \
         possible: limit traffic sourced at the node; not known: fair rate of each flow"
    );
}

#[test]
fn fifo_runs_nowhere_and_needs_nothing() {
    let nothing = Offers {
        host: "anything",
        events: EventSet::NONE,
        abilities: AbilitySet::NONE,
        knowledge: KnowledgeSet::NONE,
        plans: &[],
    };
    let site = Site::new()
        .with_gateway(true)
        .with_access_point(true)
        .with_sources(true)
        .with_hops(Some(0));
    assert!(lookup("fifo").unwrap().start(setting(site, 1), &nothing).unwrap().is_none());
}

#[test]
fn names_are_unique_and_found() {
    let registry = Registry::standard();
    let names: Vec<&str> = registry.all().map(|d| &*d.name).collect();
    for (n, name) in names.iter().enumerate() {
        assert!(!names[..n].contains(name));
        assert_eq!(registry.lookup(name).unwrap().to_string(), *name);
    }
}

#[test]
fn unknown_names_list_the_known_ones() {
    let unknown = lookup("fifi").unwrap_err().to_string();
    assert!(unknown.starts_with("unknown control \"fifi\"; known: fifo, fq"), "{unknown}");
    let variant = lookup("fifo+bursts").unwrap_err().to_string();
    assert_eq!(variant, "\"bursts\" is not a variant of fifo, or given twice; variants: none");
    assert!(lookup("").is_err());
    assert!(lookup("fifo+").is_err());
}

#[test]
fn parameters_have_units_ranges_and_sentences() {
    let mut source = lookup("source").unwrap();
    assert!(source.set("queue", 20.0).is_ok());
    assert_eq!(
        source.set("queue", 0.0).unwrap_err().to_string(),
        "source: queue must be a whole number from 1 to 1000, not 0"
    );
    assert!(source.set("queue", 7.5).is_err());
    assert_eq!(
        source.set("room", 2.0).unwrap_err().to_string(),
        "source: room must lie in 0 to 1, not 2"
    );
    assert!(source.set("room", f64::NAN).is_err());
    let unknown = source.set("size", 1.0).unwrap_err().to_string();
    assert_eq!(unknown, "source has no \"size\"; it has: room, queue");
    // A refused request changed nothing.
    assert_eq!((source.value("room"), source.value("queue")), (Some(0.0), Some(20.0)));
    assert_eq!(source.value("size"), None);
    let changed: Vec<_> = source.changed().map(|(p, value)| (&*p.name, value)).collect();
    assert_eq!(changed, [("queue", 20.0)]);
    for entry in Registry::standard().all() {
        for (n, p) in entry.parameters.iter().enumerate() {
            let name = format!("{}: {}", entry.name, p.name);
            assert!(p.allows(p.default) && p.allows(p.min) && p.allows(p.max), "{name}");
            assert!(p.min < p.max && !p.about.is_empty() && !p.about.ends_with('.'), "{name}");
            assert!(entry.parameters[..n].iter().all(|o| o.name != p.name), "{name} twice");
        }
    }
}

#[test]
fn the_same_choice_is_the_same_value() {
    let two = lookup("pfrc+bursts+constrained").unwrap();
    assert_eq!(two.to_string(), "pfrc+constrained+bursts", "in the order of the entry");
    assert_eq!(two, lookup("pfrc+constrained+bursts").unwrap());
    assert_ne!(two, lookup("pfrc+bursts").unwrap());
    assert!(two.has("bursts") && !two.has("peers"));
    assert!(lookup("pfrc+bursts+bursts").is_err());
    let mut slow = lookup("pfrc").unwrap();
    slow.set("epoch", 30.0).unwrap();
    assert_ne!(slow, lookup("pfrc").unwrap());
    // Numbers stay with another variant, and with no other mechanism.
    assert_eq!(two.with_numbers_of(&slow).value("epoch"), Some(30.0));
    assert_eq!(lookup("arc").unwrap().with_numbers_of(&slow).value("epoch"), Some(10.0));
}

#[test]
fn own_and_published_variants_are_distinguished() {
    let ours = |name: &str| lookup(name).unwrap().is_ours();
    for published in
        ["fifo", "pfrc", "pfrc+exponential", "wcp+alone+own-rtt", "cna", "arc", "wcpcap", "lbm"]
    {
        assert!(!ours(published), "{published}");
    }
    for own in [
        "pfrc+relaxed",
        "pfrc+bursts",
        "pfrc+exponential+bursts",
        "wcp+doubling",
        "wcp+two-trips",
        "arc+relearn",
        "wcpcap+opening",
        "cna+tolerant",
        "cna+overlap",
        "lbm+even",
        "lbm+pi",
        "rtt",
    ] {
        assert!(ours(own), "{own}");
    }
    for entry in Registry::standard().all() {
        let origins = entry.variants.iter().map(|v| &v.origin).chain([&entry.origin]);
        for origin in origins.filter(|o| !o.is_ours()) {
            assert!(!origin.paper().is_empty(), "{}: published where?", entry.name);
        }
    }
}

/// A host may run a mechanism too soon: one with epochs waits for the end of its own.
///
/// Mechanisms of the mesh that average over elapsed time are also due after a message of another node.
#[test]
fn an_epoch_is_not_cut_short() {
    let mut seen = Vec::new();
    for name in names() {
        let mechanism = lookup(&name).unwrap();
        if ["cna", "wcp", "wcpcap"].contains(&&*mechanism.definition().name) {
            continue;
        }
        for (gateway, hops) in [(true, 0), (false, 1), (false, 2)] {
            let site = Site::new().with_gateway(gateway).with_access_point(true);
            let site = site.with_sources(true).with_hops(Some(hops));
            let Ok(Some(mut i)) = mechanism.start(setting(site, 3), &everything()) else {
                continue;
            };
            let mut actions = Actions::new();
            let Some(first) = i.control.next_deadline() else { continue };
            i.control.on(first, &Event::Deadline, &mut actions);
            let Some(due) = i.control.next_deadline() else { continue };
            assert!(due > first, "{name}");
            actions.clear();
            let early = Time::from_nanos(due.as_nanos() - 1);
            i.control.on(early, &Event::Deadline, &mut actions);
            assert!(actions.is_empty(), "{name} at {early}: {:?}", actions.iter().next());
            assert_eq!(i.control.next_deadline(), Some(due), "{name}");
            i.control.on(due, &Event::Deadline, &mut actions);
            assert!(i.control.next_deadline().is_some_and(|d| d > due), "{name}");
            seen.push(mechanism.definition().name.clone());
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(
        ["arc", "gap", "ifa", "lbm", "nred", "pfrc", "rtt"]
            .iter()
            .all(|n| seen.iter().any(|s| s == n)),
        "{seen:?}"
    );
}

/// Only a mechanism with a search has a result for its successor, which starts from it.
#[test]
fn only_mechanisms_with_a_search_hand_over_a_result() {
    let site = Site::new().with_gateway(true).with_access_point(true).with_sources(true);
    for name in names() {
        let mechanism = lookup(&name).unwrap();
        let at = setting(site.with_hops(Some(1)), 3);
        let Ok(Some(mut i)) = mechanism.start(at, &everything()) else { continue };
        let searches = ["arc", "arc-fq", "pfrc", "rtt"].contains(&&*mechanism.definition().name);
        assert_eq!(i.control.learned().is_some(), searches, "{name}");
        let Some(before) = i.control.learned() else { continue };
        let more = BitRate(before.0 + before.0 / 4);
        i.control.recall(more, &mut Actions::new());
        assert_eq!(i.control.learned(), Some(more), "{name}");
    }
}

/// A router that relays by batman-adv or IP routes sees no single frame.
#[test]
fn mechanisms_with_sums_and_messages_start_where_no_frame_is_seen() {
    let full = everything();
    let frames = EventSet::of(&[
        EventKind::Sent,
        EventKind::Received,
        EventKind::Overheard,
        EventKind::QueueChanges,
    ]);
    let router = Offers {
        host: "a mesh router",
        events: full.events.without(frames),
        abilities: full.abilities.without(AbilitySet::of(&[Ability::Annotate, Ability::AckBits])),
        ..full
    };
    let site = Site::new()
        .with_gateway(true)
        .with_access_point(true)
        .with_sources(true)
        .with_hops(Some(1));
    let start = |name: &str| {
        lookup(name).unwrap().start(setting(site, 1), &router).map(|i| assert!(i.is_some()))
    };
    for name in [
        "gap",
        "lbm",
        "lbm+pi",
        "lbm+multihop+messages",
        "cna+sampled+messages",
        "cna+tolerant+pass-on+sampled+messages",
        "mesh-maxmin+sampled+messages",
    ] {
        start(name).unwrap_or_else(|e| panic!("{e}"));
    }
    for (name, lacks) in [
        ("cna", "transmit status of every frame"),
        ("cna+sampled", "data packets overheard"),
        ("cna+messages", "transmit status of every frame"),
        ("mesh-maxmin+messages", "every change of a queue's length"),
        ("lbm+multihop", "write header fields into data packets"),
    ] {
        let refused = start(name).unwrap_err().to_string();
        assert!(refused.contains(lacks), "{refused}");
    }
}
