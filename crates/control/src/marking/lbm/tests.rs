use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use crate::testing::{actions, lookup, start_with};
use crate::{
    Action, Actions, Class, Event, Header, Instance, Link, Message, Neighbour, QueueLength,
    ReceivedFrame, Setting, Site, Station,
};

/// A neighbour on a channel of 10 Mbit/s; a full packet takes 2 ms.
fn neighbour(n: u32) -> Neighbour {
    Neighbour::new(NodeId(n), BitRate(10_000_000), BitRate(6_000_000))
}

fn setting(node: u32, neighbours: &[u32]) -> Setting {
    let site = Site::new().with_access_point(true).with_gateway(true).with_hops(Some(0));
    Setting::new(NodeId(node), site, Stream::new(1, "test"))
        .with_neighbours(neighbours.iter().map(|n| neighbour(*n)))
}

fn start(name: &str, neighbours: &[u32], parameters: &[(&str, f64)]) -> Instance {
    // Counters alone, unless a test sets something else.
    let parameters: Vec<_> =
        [("overhead", 0.0)].into_iter().chain(parameters.iter().copied()).collect();
    start_with(name, setting(0, neighbours), &parameters).unwrap()
}

fn station(node: u32, tx: (u64, u64), rx: (u64, u64)) -> Event<'static> {
    Event::Station(Station {
        node: NodeId(node),
        tx_bytes: tx.0,
        tx_packets: tx.1,
        tx_retries: 0,
        tx_failed: 0,
        tx_airtime: Span::ZERO,
        tx_rate: BitRate(10_000_000),
        rx_bytes: rx.0,
        rx_packets: rx.1,
        rx_airtime: Span::ZERO,
    })
}

fn mark(actions: &Actions) -> Option<f64> {
    actions.iter().find_map(|a| match a {
        Action::Mark { class: Class::All, probability, .. } => Some(probability.0),
        _ => None,
    })
}

/// Runs one averaging time of 0.5 s: ten samples of queue and survey with the same counters.
fn average(i: &mut Instance, n: u64, events: &[Event<'_>]) -> Option<f64> {
    let mut found = None;
    for k in 1..=10 {
        let now = Time::ZERO + Span::from_millis(500 * (n - 1) + 50 * k);
        for e in events {
            actions(i, now, *e);
        }
        found = mark(&actions(i, now, Event::Deadline)).or(found);
    }
    found
}

/// Returns the bytes after n times 500 ms at these Mbit/s.
fn bytes(n: u64, mbit: f64) -> u64 {
    (n as f64 * mbit * 1e6 * 0.5 / 8.0) as u64
}

#[test]
fn both_directions_count_and_the_curve_is_as_in_fig_2_1() {
    let parameters = [("rho0", 0.2), ("alpha", 2.0)];
    let mut i = start("lbm", &[1, 2], &parameters);
    assert!(i.plan.is_none(), "marks need no class");
    let load = |n: u64, down: f64, up: f64| {
        [station(1, (bytes(n, down), n), (0, 0)), station(2, (0, 0), (bytes(n, up), n))]
    };
    assert_eq!(average(&mut i, 1, &load(1, 1.0, 0.5)), None, "nothing to compare with");
    assert_eq!(average(&mut i, 2, &load(2, 1.0, 0.5)), None, "15 % of the channel");
    // 3 and 1 Mbit/s more: 40 %.
    let at = [
        station(1, (bytes(2, 1.0) + bytes(1, 3.0), 9), (0, 0)),
        station(2, (0, 0), (bytes(2, 0.5) + bytes(1, 1.0), 9)),
    ];
    let p = average(&mut i, 3, &at).unwrap();
    assert!((p - 2.0 * (0.4 - 0.2)).abs() < 1e-6, "{p}");
    assert_eq!(average(&mut i, 4, &at), Some(0.0), "silence");
}

#[test]
fn marks_rise_from_rho0_until_everything_is_marked() {
    let parameters = [("rho0", 0.2), ("alpha", 2.0)];
    let p = |name: &str, mbit: f64| {
        let mut i = start(name, &[1], &parameters);
        average(&mut i, 1, &[station(1, (0, 0), (0, 0))]);
        average(&mut i, 2, &[station(1, (bytes(1, mbit), 1), (0, 0))]).unwrap_or(0.0)
    };
    assert_eq!(p("lbm", 2.0), 0.0, "at rho0");
    assert!((p("lbm", 4.5) - 0.5).abs() < 1e-6, "half way");
    assert!(p("lbm", 7.0) > 1.0 - 1e-9, "at rho0 + 1/alpha");
    assert_eq!(p("lbm", 50.0), 1.0, "more than there is");
    let mut none = start("lbm", &[1], &[("alpha", 0.0)]);
    average(&mut none, 1, &[station(1, (0, 0), (0, 0))]);
    let full = station(1, (bytes(1, 9.0), 1), (0, 0));
    assert_eq!(average(&mut none, 2, &[full]), None, "alpha 0 is drop-tail (Fig. 4.8)");
}

#[test]
fn rho0_follows_the_delay() {
    // As §3.2 has it: each averaging time by itself, ρ₀ not below 0.
    let parameters = [
        ("rho0", 0.5),
        ("step", 0.1),
        ("delay_min", 0.010),
        ("delay_max", 0.015),
        ("memory", 1.0),
        ("rho0_min", 0.0),
    ];
    let mut i = start("lbm+adaptive", &[1], &parameters);
    let queue = |packets| Event::Queue(QueueLength { class: Class::All, packets, bytes: 0 });
    // 6 Mbit/s and 500 packets per second: a packet in the queue is 2 ms of delay (Little).
    let mut n = 0;
    let mut p = |packets| {
        n += 1;
        average(&mut i, n, &[station(1, (bytes(n, 6.0), 250 * n), (0, 0)), queue(packets)])
    };
    p(6);
    assert!((p(6).unwrap() - 0.1).abs() < 1e-6, "12 ms: as wanted");
    assert!((p(9).unwrap() - 0.2).abs() < 1e-6, "18 ms: mark earlier");
    assert!((p(9).unwrap() - 0.3).abs() < 1e-6, "and earlier");
    assert_eq!(p(7), None, "14 ms: as wanted");
    assert!((p(2).unwrap() - 0.2).abs() < 1e-6, "4 ms: mark later");
    for _ in 0..10 {
        p(50);
    }
    let floor = p(2).unwrap();
    assert!((floor - 0.5).abs() < 1e-6, "never below 0: a step up from there, {floor}");
}

/// Runs averaging times with these delays in ms through `lbm+adaptive`.
///
/// Returns the final probability at a load of 60 %, with an initial ρ₀ of 0.5.
fn adapted(delays: &[u64], parameters: &[(&str, f64)]) -> f64 {
    let parameters: Vec<_> = [("rho0", 0.5)].iter().chain(parameters).copied().collect();
    let mut i = start("lbm+adaptive", &[1], &parameters);
    let mut marked = 0.0;
    for (n, ms) in (1..).zip(delays) {
        // 500 packets per second: 2 ms each.
        let packets = (ms / 2) as u32;
        let queue = Event::Queue(QueueLength { class: Class::All, packets, bytes: 0 });
        let load = station(1, (bytes(n, 6.0), 250 * n), (0, 0));
        marked = average(&mut i, n, &[load, queue]).unwrap_or(marked);
    }
    marked
}

#[test]
fn rho0_holds_the_mean_of_a_delay_that_comes_in_bursts() {
    // 4 ms most of the time, 64 ms once in six: the median is far below 10 ms, the mean is 14.
    let bursts: Vec<u64> = (0..600).map(|n| if n % 6 == 5 { 64 } else { 4 }).collect();
    let by_median = adapted(&bursts, &[("memory", 1.0)]);
    let by_mean = adapted(&bursts, &[("memory", 30.0)]);
    assert!(by_median < 0.01, "every 4 ms asks for fewer marks: {by_median}");
    assert!((by_mean - 0.1).abs() < 0.06, "14 ms on average is what is wanted: {by_mean}");
}

#[test]
fn rho0_falls_below_zero_but_not_without_end() {
    let long = [50u64; 300];
    for (lowest, marked) in [(-0.2, 0.8), (0.0, 0.6), (-1.0, 1.0)] {
        let p = adapted(&long, &[("rho0_min", lowest)]);
        assert!((p - marked).abs() < 1e-6, "{lowest}: {p}");
    }
}

/// Runs `lbm+pi` with a load of 60 % and 2 ms per packet in the queue.
///
/// Returns the probability after each averaging time with this number of packets; an empty queue has a load
/// of 0.
fn steered(queues: &[u32]) -> Vec<f64> {
    let parameters = [("rho0", 0.5), ("memory", 1.0), ("integral", 2.0), ("proportional", 5.0)];
    let mut i = start("lbm+pi", &[1], &parameters);
    let (mut sent, mut marked) = (0, 0.0);
    let mut each = |(n, packets): (u64, &u32)| {
        sent += u64::from(*packets > 0);
        let queue = QueueLength { class: Class::All, packets: *packets, bytes: 0 };
        let load = station(1, (bytes(sent, 6.0), 250 * sent), (0, 0));
        marked = average(&mut i, n, &[load, Event::Queue(queue)]).unwrap_or(marked);
        marked
    };
    (1..).zip(queues).map(&mut each).collect()
}

#[test]
fn rho0_follows_the_queue_within_a_sample() {
    // The target is 12.5 ms; 6 packets are 12 ms, 16 are 32.
    let p = steered(&[6, 6, 6, 6, 16, 16, 6]);
    let near = |got: f64, expected: f64, what: &str| {
        assert!((got - expected).abs() < 0.005, "{what}: {got}, not {expected}");
    };
    near(p[3], 0.1 - 5.0 * 0.0005, "as wanted: ρ − ρ₀ and hardly less");
    let integral = 2.0 * 0.5 * 0.0195;
    near(p[4], 0.1 + 5.0 * 0.0195 + integral, "19.5 ms too long");
    near(p[5], 0.1 + 5.0 * 0.0195 + 2.0 * integral, "and still");
    near(p[6], 0.1 - 5.0 * 0.0005 + 2.0 * integral, "what it has learned stays");
}

#[test]
fn an_idle_hour_does_not_wind_rho0_up() {
    let hour = vec![0; 7200];
    let p = steered(&[&[6, 6, 6][..], &hour, &[16, 16, 16]].concat());
    assert_eq!(p[7202], 0.0, "nothing to mark");
    assert!(p[7205] > 0.15, "{}: marks as before when traffic is back", p[7205]);
}

#[test]
fn a_packet_costs_more_than_its_bytes() {
    let p = |overhead: f64| {
        let mut i = start("lbm", &[1], &[("rho0", 0.0), ("overhead", overhead)]);
        average(&mut i, 1, &[station(1, (0, 0), (0, 0))]);
        // 250,000 bytes each way in half a second, in 1000 packets: 0.8 of 10 Mbit/s.
        average(&mut i, 2, &[station(1, (250_000, 500), (250_000, 500))]).unwrap()
    };
    assert!((p(0.0) - 0.8).abs() < 1e-9);
    assert!((p(84.0) - 0.8 * (500.0 + 84.0) / 500.0).abs() < 1e-9, "{}", p(84.0));
}

#[test]
fn marks_fall_by_chance_unless_they_are_to_fall_evenly() {
    for (name, even) in
        [("lbm", false), ("lbm+even", true), ("lbm+pi+even", true), ("lbm+pi", false)]
    {
        let mut i = start(name, &[1], &[("rho0", 0.0), ("memory", 1.0)]);
        let mut marks = Vec::new();
        for n in 1..=3 {
            for k in 1..=10 {
                let now = Time::ZERO + Span::from_millis(500 * (n - 1) + 50 * k);
                actions(&mut i, now, station(1, (bytes(n, 5.0), 250 * n), (0, 0)));
                marks.extend(actions(&mut i, now, Event::Deadline).iter().filter_map(
                    |a| match a {
                        Action::Mark { how, .. } => Some(how.even),
                        _ => None,
                    },
                ));
            }
        }
        assert!(!marks.is_empty() && marks.iter().all(|t| *t == even), "{name}: {marks:?}");
    }
}

#[test]
fn variants_that_leave_each_other_nothing_are_refused() {
    for (name, pair) in [
        ("lbm+multihop+adaptive", "multihop and adaptive"),
        ("lbm+pi+multihop", "multihop and pi"),
        ("lbm+adaptive+pi", "adaptive and pi"),
    ] {
        let refused = start_with(name, setting(0, &[1]), &[]).unwrap_err().to_string();
        let expected = format!(": the variants {pair} do not go together; take one of them");
        assert!(refused.ends_with(&expected), "{refused}");
    }
}

#[test]
fn a_target_must_not_end_before_it_begins() {
    let parameters = [("delay_min", 0.02), ("delay_max", 0.01)];
    let refused = start_with("lbm+adaptive", setting(0, &[1]), &parameters).unwrap_err();
    let same = start_with("lbm+pi", setting(0, &[1]), &parameters).unwrap_err().to_string();
    assert!(same.starts_with("lbm+pi: delay_min must not be above"), "{same}");
    assert_eq!(
        refused.to_string(),
        "lbm+adaptive: delay_min must not be above delay_max, 0.02 s is above 0.01 s"
    );
    let t_avg = lookup("lbm").unwrap().set("t_avg", 0.01).unwrap_err().to_string();
    assert_eq!(t_avg, "lbm: t_avg must lie in 0.05 to 60, not 0.01");
}

/// Runs a line of nodes 1 to n that exchange headers, with these one-hop transfers in Mbit/s.
///
/// Returns each node's utilisation of its collision domain, times 10 Mbit/s.
fn line(n: u32, transfers: &[(u32, u32, f64)]) -> Vec<f64> {
    let near = |i: u32| {
        let both = [i.wrapping_sub(1), i + 1];
        both.into_iter().filter(|j| (1..=n).contains(j)).collect::<Vec<_>>()
    };
    let mut nodes: Vec<Instance> = (1..=n)
        .map(|i| {
            let setting = Setting { site: Site::new(), ..setting(i, &near(i)) };
            start_with("lbm+multihop", setting, &[("rho0", 0.0), ("alpha", 1.0)]).unwrap()
        })
        .collect();
    let mut headers = vec![Header::default(); n as usize];
    let mut marks = vec![0.0; n as usize];
    for k in 1..=60u64 {
        let now = Time::ZERO + Span::from_millis(50 * k);
        for i in 1..=n {
            let node = &mut nodes[i as usize - 1];
            let mut done = Actions::new();
            for j in near(i) {
                let mbit = |from: u32, to: u32| {
                    let one = |t: &&(u32, u32, f64)| (t.0, t.1) == (from, to);
                    transfers.iter().find(one).map_or(0.0, |t| t.2)
                };
                let so_far = |mbit: f64| (k as f64 * mbit * 1e6 * 0.05 / 8.0) as u64;
                // Acknowledgements keep both directions active.
                let event = station(j, (so_far(mbit(i, j)), k), (so_far(mbit(j, i)), k));
                node.control.on(now, &event, &mut done);
                let frame = ReceivedFrame {
                    link: Link { from: NodeId(j), to: NodeId(99) },
                    flow: FlowId(0),
                    ack: true,
                    bytes: 40,
                    header: headers[j as usize - 1],
                };
                node.control.on(now, &Event::Overheard(frame), &mut done);
            }
            node.control.on(now, &Event::Deadline, &mut done);
            for a in done.iter() {
                match *a {
                    Action::Annotate { slot, merge, value, .. } => {
                        headers[i as usize - 1].write(slot, merge, value);
                    }
                    Action::Mark { probability, .. } => marks[i as usize - 1] = probability.0,
                    Action::Send { .. } => panic!("headers are enough where packets are sent"),
                    _ => {}
                }
            }
        }
    }
    marks.iter().map(|p| p * 10.0).collect()
}

#[test]
fn collision_domains_of_section_4_5_1() {
    let near = |got: f64, expected: f64, what: &str| {
        assert!((got - expected).abs() < 0.02, "{what}: {got}, expected {expected}");
    };
    // Fig. 4.2(a), hidden: both senders see the receive rates of 2 and 3.
    let hidden = line(4, &[(1, 2, 1.0), (4, 3, 2.0)]);
    near(hidden[0], 3.0, "node 1");
    near(hidden[3], 3.0, "node 4");
    // Fig. 4.2(b), exposed: each sees its own receiver only.
    let exposed = line(4, &[(2, 1, 1.0), (3, 4, 2.0)]);
    near(exposed[1], 1.0, "node 2");
    near(exposed[2], 2.0, "node 3");
    // Fig. 4.3(a): 2 and 5 see 3 and 4, node 1 sees 2.
    let a = line(5, &[(1, 2, 1.0), (2, 3, 1.5), (5, 4, 2.0)]);
    near(a[0], 1.0, "node 1");
    near(a[1], 3.5, "node 2");
    near(a[4], 3.5, "node 5");
    // Fig. 4.3(b): each of 3, 2 and 4 sees its one-hop receiver.
    let b = line(5, &[(3, 2, 1.0), (2, 1, 1.5), (4, 5, 2.0)]);
    near(b[2], 1.0, "node 3");
    near(b[1], 1.5, "node 2");
    near(b[3], 2.0, "node 4");
}

#[test]
fn a_node_without_data_broadcasts_its_rates() {
    let mut sink = start("lbm+multihop", &[1, 2], &[]);
    let mut sender = start_with(
        "lbm+multihop",
        Setting { site: Site::new(), ..setting(1, &[0, 3]) },
        &[("rho0", 0.0)],
    )
    .unwrap();
    let mut messages = Vec::new();
    for n in 1..=3 {
        // 4 Mbit/s arrive from node 1, nothing is sent.
        let rx = station(1, (0, 0), (bytes(n, 4.0), n));
        for k in 1..=10 {
            let now = Time::ZERO + Span::from_millis(500 * (n - 1) + 50 * k);
            actions(&mut sink, now, rx);
            let done = actions(&mut sink, now, Event::Deadline);
            for a in done.iter().filter(|a| matches!(a, Action::Send { to: None, .. })) {
                messages.push(done.body(a).to_vec());
            }
        }
    }
    assert_eq!(messages.len(), 2, "once per averaging time, from the second on");
    for junk in [&[][..], &[0x4c], &[0x4c, 1, 1, 1], &[1, 2, 3]] {
        let now = Time::ZERO + Span::from_millis(10);
        actions(&mut sender, now, Event::Message(Message { from: NodeId(0), body: junk }));
    }
    let now = Time::ZERO + Span::from_millis(20);
    actions(&mut sender, now, Event::Message(Message { from: NodeId(0), body: &messages[1] }));
    // A message of a node that is not a neighbour is ignored.
    actions(&mut sender, now, Event::Message(Message { from: NodeId(9), body: &messages[1] }));
    let p = average(&mut sender, 1, &[]).unwrap();
    assert!((p - 0.4).abs() < 1e-3, "{p}");
    assert_eq!(average(&mut sender, 2, &[]), None);
    assert_eq!(average(&mut sender, 3, &[]), None);
    assert_eq!(average(&mut sender, 4, &[]), Some(0.0), "an old report is forgotten");
}
