//! The emulator under a virtual clock equals the engine.
//!
//! With a forwarder in place of the kernel, a run has the fingerprint of the simulator, transmission by
//! transmission.

use std::collections::VecDeque;

use fairmesh_emulator::frame::{HEADER_BYTES, Mac};
use fairmesh_emulator::plan::{Plan, Side};
use fairmesh_emulator::switch::{Switch, replay};
use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{ImportOptions, Scenario, parse};
use fairmesh_transport::traffic::{Action, Source, TrafficSpec};
use fairmesh_units::{NodeId, Span, Stream, Time};

fn scenario(text: &str) -> Scenario {
    parse("test.toml", text.as_bytes(), &ImportOptions::default()).unwrap()
}

/// A flow as seen by an application and a forwarder.
struct Endpoint {
    source: Source,
    path: Vec<NodeId>,
    delivered: (u64, u64),
    datagram: u32,
}

fn endpoints(scenario: &Scenario, seed: u64) -> Vec<Endpoint> {
    let talker = |flow: &fairmesh_scenario::Flow| {
        let mut rng = Stream::new(seed, &format!("flow/{}", flow.name));
        let late = Span::from_secs_f64(flow.start_jitter.as_secs_f64() * rng.unit());
        let start = Time::ZERO + flow.start + late;
        let TrafficSpec::Cbr { datagram, .. } = flow.traffic else { panic!("only UDP here") };
        Endpoint {
            source: Source::new(&flow.traffic, start, Time::NEVER, rng),
            path: flow.path.clone(),
            delivered: (0, 0),
            datagram,
        }
    };
    scenario.flows().iter().map(talker).collect()
}

/// Returns a frame for the next hop of a flow's packet, with its number and place as content.
fn frame(to: NodeId, flow: usize, place: usize, datagram: u32) -> Vec<u8> {
    let mut f = vec![0; HEADER_BYTES + 28 + datagram as usize];
    f[..6].copy_from_slice(&Mac::radio(to.0 as u16).0);
    f[HEADER_BYTES] = flow as u8;
    f[HEADER_BYTES + 1] = place as u8;
    f
}

/// Runs the scenario through the switch.
///
/// Returns its fingerprint and the air fingerprints of the run and its replay.
fn virtually(scenario: &Scenario, seed: u64) -> (String, u64, u64) {
    let plan = Plan::new(scenario, "test").unwrap();
    let mut switch = Switch::new(scenario, &plan, seed, true).unwrap();
    let mut endpoints = endpoints(scenario, seed);
    let end = Time::ZERO + scenario.duration();
    let interface = |node: NodeId, wired_to: Option<NodeId>| {
        let leads = |side: Side| match (side, wired_to) {
            (Side::Radio, None) => true,
            (Side::Wire { wire, b }, Some(to)) => {
                let w = &scenario.wires()[wire];
                to == if b { w.a } else { w.b }
            }
            _ => false,
        };
        plan.interfaces.iter().position(|i| i.node == node && leads(i.side)).unwrap()
    };
    let hop = |t: &Endpoint, flow: usize, place: usize| {
        let (at, to) = (t.path[place], t.path[place + 1]);
        let wired = scenario.link(at, to).is_none().then_some(to);
        (interface(at, wired), frame(to, flow, place + 1, t.datagram))
    };
    let mut arrived: VecDeque<(Time, Vec<u8>)> = VecDeque::new();
    loop {
        let radio = switch.next_deadline();
        let next = endpoints.iter().map(|t| t.source.next_deadline()).min().unwrap();
        if radio.min(next) >= end {
            break;
        }
        if radio <= next {
            switch.step(|_, at, content| arrived.push_back((at, content.to_vec())));
            while let Some((at, content)) = arrived.pop_front() {
                let (flow, place) =
                    (content[HEADER_BYTES] as usize, content[HEADER_BYTES + 1] as usize);
                let t = &mut endpoints[flow];
                if place + 1 == t.path.len() {
                    t.delivered.0 += u64::from(t.datagram);
                    t.delivered.1 += 1;
                } else {
                    let (interface, content) = hop(t, flow, place);
                    switch.accept(at, interface, &content);
                }
            }
        } else {
            let flow = endpoints.iter().position(|t| t.source.next_deadline() == next).unwrap();
            let mut actions = 0;
            endpoints[flow].source.on_deadline(next, &mut |what| {
                actions += u32::from(matches!(what, Action::Datagram { .. }));
            });
            for _ in 0..actions {
                let (interface, content) = hop(&endpoints[flow], flow, 0);
                switch.accept(next, interface, &content);
            }
        }
    }
    let delivered: Vec<(u64, u64)> = endpoints.iter().map(|t| t.delivered).collect();
    let (live, inputs) = switch.into_parts();
    let air = live.air_fingerprint();
    assert!(live.transmissions() > 1000);
    let again = replay(scenario, seed, &inputs, end).unwrap().air_fingerprint();
    (live.finish(end, &delivered).fingerprint, air, again)
}

fn same(text: &str) {
    let scenario = scenario(text);
    for seed in 1..=3 {
        let simulated =
            run(&scenario, &RunOptions { seed, ..RunOptions::default() }).unwrap().fingerprint;
        let (emulated, air, again) = virtually(&scenario, seed);
        assert_eq!(emulated, simulated, "seed {seed}: not the simulator's fingerprint");
        assert_eq!(air, again, "seed {seed}: recorded input gave other transmissions");
    }
}

#[test]
fn one_link_overloaded() {
    same(
        "duration = \"10 s\"\nwarmup = \"0 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[topology]\nchain = { hops = 1 }\n\
         gateway = 0\n[traffic]\nflows = \"up\"\n\
         traffic = { kind = \"cbr\", rate = \"2 Mbit/s\", packet = \"1472 B\", jitter = 0.5 }",
    );
}

#[test]
fn forwarding_over_three_hops_with_all_nodes_sending() {
    same(
        "duration = \"20 s\"\nwarmup = \"0 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[topology]\nchain = { hops = 3 }\n\
         gateway = 0\n[traffic]\nflows = \"up\"\n\
         traffic = { kind = \"cbr\", rate = \"300 kbit/s\", packet = \"1000 B\", jitter = 0.5 }",
    );
}

#[test]
fn with_rts_random_queues_and_frame_errors() {
    same(
        "duration = \"10 s\"\nwarmup = \"0 s\"\n[radio]\nrate = \"11 Mbit/s\"\nrts = true\nqueue = { kind = \"red\" }\n\
         errors = { frame = 0.1 }\n[topology]\nlinks = [[1, 2], [2, 3], [4, 5], [5, 6], [2, 5]]\n\
         [traffic]\ntraffic = { kind = \"cbr\", rate = \"3 Mbit/s\", packet = \"512 B\", jitter = 0.5 }\n\
         [[flow]]\nfrom = 1\nto = 3\n[[flow]]\nfrom = 4\nto = 6",
    );
}

#[test]
fn across_a_wire() {
    same(
        "duration = \"10 s\"\nwarmup = \"0 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[topology]\nchain = { hops = 2 }\n\
         gateway = 0\n[wired]\nhosts = [\"server\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n\
         [traffic]\ntraffic = { kind = \"cbr\", rate = \"500 kbit/s\", packet = \"1000 B\", jitter = 0.5 }\n\
         [[flow]]\nfrom = 2\nto = \"server\"\n[[flow]]\nfrom = \"server\"\nto = 1",
    );
}

/// An overloaded queue that marks: ECN-capable datagrams leave marked, others unchanged.
#[test]
fn packets_marked_by_a_queue_are_marked_in_the_header() {
    let scenario = scenario(
        "duration = \"10 s\"\n[radio]\nrate = \"1 Mbit/s\"\nqueue = { kind = \"mark\", packets = 50, threshold = 4 }\n\
         [topology]\nchain = { hops = 1 }\ngateway = 0\n[traffic]\nflows = \"up\"\n\
         traffic = { kind = \"cbr\", rate = \"1 kbit/s\" }",
    );
    let marked = |ecn: u8| {
        let plan = Plan::new(&scenario, "test").unwrap();
        let mut switch = Switch::new(&scenario, &plan, 1, false).unwrap();
        let from = plan.interfaces.iter().position(|i| i.node == NodeId(1)).unwrap();
        let mut content = vec![0; HEADER_BYTES + 1000];
        content[..6].copy_from_slice(&Mac::radio(0).0);
        content[12..16].copy_from_slice(&[0x08, 0x00, 0x45, ecn]);
        let (mut all, mut ce) = (0, 0);
        for ms in 0..4000 {
            let at = Time::ZERO + Span::from_millis(ms);
            while switch.next_deadline() <= at {
                switch.step(|_, _, arrived| {
                    all += 1;
                    ce += u32::from(arrived[HEADER_BYTES + 1] == 0b11);
                    assert!(arrived[HEADER_BYTES + 1] == 0b11 || arrived[..] == content[..]);
                });
            }
            switch.accept(at, from, &content);
        }
        assert!(all > 300, "{all}");
        (ce, all)
    };
    let (ce, all) = marked(0b10);
    assert!(ce > all / 2, "{ce} of {all}");
    assert_eq!(marked(0b00).0, 0);
    // A marked datagram stays marked.
    let (ce, all) = marked(0b11);
    assert_eq!(ce, all);
}
