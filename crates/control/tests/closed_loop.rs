//! The gateway's controllers in a closed loop with a mesh of two rules.
//!
//! The limit of each flow bounds its offered load. Up to the capacity, all of it is carried; above the
//! capacity, flows near the gateway keep growing at the expense of the far ones (the curves of Jamshaid 2010
//! Fig. 3.2a).

use fairmesh_control::*;
use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

/// Size of a packet, bits.
const PACKET: f64 = 12_000.0;
/// Links of 1 Mbit/s: bounds of 300 and 900 kbit/s.
const LINK: u64 = 900_000;

#[derive(Clone, Copy)]
struct Flow {
    weight: f64,
    /// Demand, bit/s.
    demand: f64,
    active: bool,
    /// Periodic traffic: seconds with traffic, period, offset.
    pages: Option<(u64, u64, u64)>,
}

const BULK: Flow = Flow { weight: 1.0, demand: f64::INFINITY, active: true, pages: None };

struct Mesh {
    control: Box<dyn Control>,
    actions: Actions,
    now: Time,
    capacity: f64,
    /// Nearest to the gateway first.
    flows: Vec<Flow>,
    /// One limit for all, or one each, bit/s.
    shared: Option<f64>,
    limits: Vec<f64>,
    passed: Vec<f64>,
    /// Rates of the last step, bit/s.
    rates: Vec<f64>,
    noise: Stream,
}

impl Mesh {
    fn new(name: &str, capacity: f64, flows: &[Flow]) -> Self {
        Mesh::on_links(name, capacity, LINK, flows)
    }

    fn on_links(name: &str, capacity: f64, link: u64, flows: &[Flow]) -> Self {
        let here = |(id, f): (usize, &Flow)| {
            FlowHere::new(FlowId(id as u32), Place::Forwarder, 1460, 1500).with_weight(f.weight)
        };
        let site = Site::new().with_gateway(true).with_hops(Some(0));
        let setting = Setting::new(NodeId(0), site, Stream::new(1, "control/gateway"))
            .with_flows(flows.iter().enumerate().map(here))
            .with_neighbours([Neighbour::new(NodeId(1), BitRate(link), BitRate(link))]);
        let offers = Offers {
            events: EventSet::of(&[EventKind::FlowCounters, EventKind::Counters]),
            abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
            knowledge: KnowledgeSet::of(&[Knowledge::LinkRates]),
            ..Offers::everything("a mesh of two rules")
        };
        let Instance { control, plan } =
            Registry::standard().lookup(name).unwrap().start(setting, &offers).unwrap().unwrap();
        let mut mesh = Mesh {
            control,
            actions: Actions::new(),
            now: Time::ZERO,
            capacity,
            flows: flows.to_vec(),
            shared: None,
            limits: vec![f64::INFINITY; flows.len()],
            passed: vec![0.0; flows.len()],
            rates: vec![0.0; flows.len()],
            noise: Stream::new(1, "mesh"),
        };
        for class in &plan.classes {
            let Limit::Rate(rate) = class.limit else { panic!("{class:?}") };
            mesh.limit(class.class, rate);
        }
        mesh
    }

    fn limit(&mut self, class: Class, rate: BitRate) {
        match class {
            Class::All => self.shared = Some(rate.0 as f64),
            Class::Flow(f) => self.limits[f.index()] = rate.0 as f64,
            Class::Link(_) => panic!("{class}"),
        }
    }

    /// Returns the offered load of each flow.
    fn offered(&self) -> Vec<f64> {
        let second = self.now.as_nanos() / 1_000_000_000;
        let sends = |f: &Flow| {
            f.active && f.pages.is_none_or(|(on, every, phase)| (second + phase) % every < on)
        };
        let want = |(f, limit): (&Flow, &f64)| if sends(f) { f.demand.min(*limit) } else { 0.0 };
        let mut offered: Vec<f64> = self.flows.iter().zip(&self.limits).map(want).collect();
        if let Some(total) = self.shared {
            // Fair queueing before one bucket.
            let mut left: Vec<usize> = (0..offered.len()).filter(|i| offered[*i] > 0.0).collect();
            left.sort_by(|a, b| offered[*a].total_cmp(&offered[*b]));
            let mut rest = total;
            for (n, i) in left.iter().enumerate() {
                offered[*i] = offered[*i].min(rest / (left.len() - n) as f64);
                rest -= offered[*i];
            }
        }
        offered
    }

    /// Half a second.
    fn step(&mut self) {
        const STEP: Span = Span::from_millis(500);
        let due = self.control.next_deadline().unwrap();
        if due <= self.now {
            for (id, passed) in self.passed.iter().enumerate() {
                let packets = (passed / PACKET) as u64;
                let flow = FlowId(id as u32);
                let counters = FlowCounters { flow, bytes: packets * 1500, packets };
                self.control.on(self.now, &Event::FlowCounters(counters), &mut self.actions);
            }
            self.control.on(self.now, &Event::Deadline, &mut self.actions);
            let set: Vec<Action> = self.actions.iter().copied().collect();
            self.actions.clear();
            for action in set {
                if let Action::SetRate { class, rate: Some(rate) } = action {
                    self.limit(class, rate);
                }
            }
        }
        let offered = self.offered();
        let excess = (offered.iter().sum::<f64>() - self.capacity).max(0.0);
        // The mesh loses more than the excess, and more of it from distant homes.
        let far = |i: usize| ((i + 1) * (i + 1)) as f64;
        let parts: f64 = offered.iter().enumerate().map(|(i, rate)| rate * far(i)).sum();
        for (i, offered) in offered.iter().enumerate() {
            let lost = offered * (1.5 * excess * far(i) / parts.max(1.0)).min(0.9);
            let noise = 1.0 + 0.05 * (self.noise.unit() - 0.5);
            self.rates[i] = (offered - lost) * noise;
            self.passed[i] += self.rates[i] * STEP.as_secs_f64();
        }
        self.now += STEP;
    }

    /// Returns mean rates over this number of seconds.
    fn run(&mut self, seconds: u32) -> Vec<f64> {
        let before = self.passed.clone();
        (0..2 * seconds).for_each(|_| self.step());
        let mean = |(a, b): (&f64, &f64)| (a - b) / f64::from(seconds);
        self.passed.iter().zip(&before).map(mean).collect()
    }
}

fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    sum * sum / (rates.len() as f64 * rates.iter().map(|r| r * r).sum::<f64>())
}

/// PFRC and ARC find a capacity that they do not know, and share it equally.
#[test]
fn controllers_find_the_capacity_and_share_it() {
    for name in [
        "pfrc",
        "pfrc+exponential",
        "pfrc+constrained",
        "pfrc+bursts",
        "pfrc+constrained+bursts",
        "arc-fq",
        "arc-fq+relearn",
    ] {
        for capacity in [330_000.0, 500_000.0, 800_000.0] {
            let mut mesh = Mesh::new(name, capacity, &[BULK; 6]);
            mesh.run(200);
            let rates = mesh.run(400);
            let used = rates.iter().sum::<f64>() / capacity;
            assert!(jain(&rates) > 0.97, "{name} at {capacity}: {rates:.0?}");
            assert!(used > 0.85, "{name} at {capacity}: {used}");
        }
    }
}

/// Without control the same mesh starves its far flows.
#[test]
fn the_mesh_is_unfair_by_itself() {
    let mut mesh = Mesh::new("pfrc", 500_000.0, &[BULK; 6]);
    mesh.limits = vec![400_000.0; 6];
    mesh.control = Box::new(Asleep);
    assert!(jain(&mesh.run(20)) < 0.6);
}

#[derive(Debug)]
struct Asleep;
impl Control for Asleep {
    fn on(&mut self, _: Time, _: &Event<'_>, _: &mut Actions) {}
    fn next_deadline(&self) -> Option<Time> {
        Some(Time::NEVER)
    }
}

#[test]
fn weights_hold() {
    let flows: Vec<Flow> = (0..6).map(|n| Flow { weight: f64::from(1 + n % 3), ..BULK }).collect();
    let mut mesh = Mesh::new("pfrc", 600_000.0, &flows);
    mesh.run(200);
    let rates = mesh.run(400);
    let per_weight: Vec<f64> = rates.iter().zip(&flows).map(|(r, f)| r / f.weight).collect();
    assert!(jain(&per_weight) > 0.97, "{rates:.0?}");
}

/// Jamshaid 2010 Table 8.3: plain PFRC leaves air idle that a constrained flow does not use.
#[test]
fn the_unused_share_of_a_constrained_flow_is_used() {
    let capacity = 430_000.0;
    let others = |name: &str, need: f64| {
        let mut flows = [BULK; 4];
        flows[3].demand = need;
        let mut mesh = Mesh::new(name, capacity, &flows);
        mesh.run(200);
        let rates = mesh.run(400);
        assert!(rates[3] > 0.8 * need, "{name}: the flow itself has {:.0} of {need}", rates[3]);
        rates[..3].iter().sum::<f64>() / (capacity - need)
    };
    for need in [10_000.0, 20_000.0, 30_000.0, 40_000.0, 50_000.0, 60_000.0, 70_000.0] {
        let (plain, ours) = (others("pfrc", need), others("pfrc+constrained", need));
        println!("{need}: plain {plain:.2}, constrained {ours:.2}");
        assert!(ours > 0.95, "{need}: {ours:.3}");
        assert!(need > 50_000.0 || plain < 0.8, "{need}: {plain:.3}");
    }
}

/// Page loads and background noise of machines are not starvation.
///
/// The published controller counts all of these flows as starved.
#[test]
fn pages_and_noise_are_not_starvation() {
    let (link, capacity) = (10 * LINK, 5e6);
    let mut flows = vec![BULK; 2];
    // Pages of 1 to 4 s in every 12, and noise of a packet every three seconds.
    flows.extend((0..6).map(|i| Flow { pages: Some((1 + i % 4, 12, 5 * i)), ..BULK }));
    flows.extend([Flow { demand: 24_000.0, pages: Some((1, 3, 0)), ..BULK }; 2]);
    let bulk = |name: &str| {
        let mut mesh = Mesh::on_links(name, capacity, link, &flows);
        mesh.run(200);
        let rates = mesh.run(600);
        (rates[..2].iter().sum::<f64>(), rates[2..8].iter().sum::<f64>())
    };
    let (plain, ours) = (bulk("pfrc"), bulk("pfrc+constrained+bursts"));
    println!("bulk and pages: pfrc {plain:.0?}, +bursts {ours:.0?}");
    assert!(ours.0 > 1.5 * plain.0 && ours.1 > 1.5 * plain.1, "{plain:.0?} {ours:.0?}");
}

/// Whatever becomes of the mesh, rates follow.
#[test]
fn a_capacity_that_changes_is_followed() {
    for name in ["pfrc", "arc-fq+relearn", "pfrc+bursts"] {
        let mut mesh = Mesh::new(name, 700_000.0, &[BULK; 5]);
        mesh.run(300);
        for capacity in [350_000.0, 700_000.0] {
            mesh.capacity = capacity;
            mesh.run(250);
            let rates = mesh.run(300);
            let used = rates.iter().sum::<f64>() / capacity;
            assert!(jain(&rates) > 0.96 && used > 0.8, "{name} at {capacity}: {used} {rates:.0?}");
        }
    }
}

/// A large network of ten thousand flows: each has its share.
///
/// The largest step of a controller, a new limit for each flow, takes a few passes over them.
#[test]
fn ten_thousand_flows() {
    let flows: Vec<Flow> =
        (0..10_000).map(|n| Flow { weight: f64::from(1 + n % 3), ..BULK }).collect();
    for name in ["pfrc", "pfrc+constrained", "arc-fq"] {
        // Each flow passes some packets in an epoch at these rates.
        let mut mesh = Mesh::on_links(name, 4e8, 1_000_000_000, &flows);
        mesh.run(60);
        let offered = mesh.offered();
        let heavy: f64 = offered.iter().skip(2).step_by(3).sum();
        let all: f64 = offered.iter().sum();
        let part = if name == "arc-fq" { 1.0 / 3.0 } else { 0.5 };
        assert!((heavy / all - part).abs() < 0.01, "{name}: {}", heavy / all);
        assert!(all > 3e8, "{name}: {all}");
    }
}
