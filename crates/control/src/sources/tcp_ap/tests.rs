use super::*;
use crate::testing::{actions, flow, limits_of, reasons_of, start_with};
use crate::{Action, Feedback, Header, Neighbour, RoundTrip, Site};
use fairmesh_units::Stream;

fn path(hops: u32) -> Path {
    Path { hops, rate: BitRate(2_000_000), packet: 1500, reuse: 4 }
}

/// Duration of a frame with 1500 IP bytes at 2 Mbit/s in the released code, in ms.
const DATA: f64 = 1572.0 * 8.0 / 2000.0;
/// Duration of a frame with 40 IP bytes at 2 Mbit/s in the released code, in ms.
const ACK: f64 = 112.0 * 8.0 / 2000.0;

fn ms(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

fn rtt(ms: f64) -> Span {
    Span::from_secs_f64(ms / 1e3)
}

#[test]
fn without_queues_the_delay_is_four_data_frames() {
    for hops in [4, 8] {
        let mut e = Estimate::new(path(hops));
        let spacing = e.sample(rtt(f64::from(hops) * (DATA + ACK))).unwrap();
        assert!((ms(spacing) - 4.0 * DATA).abs() < 1e-3, "{spacing}");
    }
}

#[test]
fn half_of_a_hops_extra_delay_is_queueing_of_data() {
    let mut e = Estimate::new(path(5));
    let spacing = e.sample(rtt(5.0 * (DATA + ACK + 2.0 * 3.0))).unwrap();
    assert!((ms(spacing) - 4.0 * (DATA + 3.0)).abs() < 1e-3, "{spacing}");
}

#[test]
fn short_paths_are_paced_over_one_hop() {
    let mut e = Estimate::new(path(3));
    let spacing = e.sample(rtt(3.0 * (DATA + ACK))).unwrap();
    assert!((ms(spacing) - DATA).abs() < 1e-3, "{spacing}");
}

#[test]
fn variation_slows_down() {
    let mut e = Estimate::new(path(4));
    // Delays alternate between 30 and 50 ms: mean 40, deviation 10, cov 0.25.
    for i in 0..400 {
        e.sample(rtt(
            2.0 * (if i % 2 == 0 { 30.0 } else { 50.0 } - 4.0 * DATA) + 4.0 * (DATA + ACK)
        ));
    }
    assert!((e.variation() - 0.25).abs() < 1e-6, "{}", e.variation());
    // The smoothed delay after a sample of 50: (30·0.3·0.7 + 50·0.3) / (1 − 0.49).
    let smooth = (30.0 * 0.21 + 50.0 * 0.3) / 0.51;
    assert!((ms(e.delay()) - smooth).abs() < 1e-3, "{}", e.delay());
    assert!((ms(e.spacing().unwrap()) - 1.5 * smooth).abs() < 1e-3);
    // After fifty equal samples the variation is 0.
    for _ in 0..50 {
        e.sample(rtt(2.0 * (30.0 - 4.0 * DATA) + 4.0 * (DATA + ACK)));
    }
    assert!(e.variation() < 1e-6);
}

#[test]
fn round_trips_of_seconds_are_not_believed() {
    let mut e = Estimate::new(path(4));
    assert_eq!(e.sample(Span::from_secs(30)).map(ms).map(f64::round), Some((4.0 * DATA).round()));
    let good = e.sample(rtt(4.0 * (DATA + ACK))).unwrap();
    let after = e.sample(Span::from_secs(9)).unwrap();
    assert!(ms(after) < 2.0 * ms(good), "{after}");
}

fn setting(site: Site, flows: Vec<FlowHere>) -> Setting {
    let link = |n| Neighbour::new(NodeId(n), BitRate(2_000_000), BitRate(1_500_000));
    Setting::new(NodeId(0), site, Stream::new(1, "control/n0"))
        .with_flows(flows)
        .with_neighbours([1, 2].map(link))
}

fn here(id: u32, place: Place, next: u32) -> FlowHere {
    FlowHere { place, next_hop: Some(NodeId(next)), hops: Some(4), ..flow(id) }
}

fn paces(a: &Actions) -> Vec<(u32, f64)> {
    let pace = |a: &Action| match a {
        Action::Pace { flow, interval, .. } => Some((flow.0, ms(interval.unwrap()))),
        _ => None,
    };
    a.iter().filter_map(pace).collect()
}

fn feedback(flow: u32, rtt: Span) -> Event<'static> {
    Event::Feedback(Feedback {
        flow: FlowId(flow),
        rtt,
        acked: 1460,
        lost: 0,
        marked: false,
        header: Header::default(),
    })
}

#[test]
fn senders_on_the_air_are_paced_and_others_are_not() {
    let site = Site::new().with_sources(true);
    let flows = vec![
        here(0, Place::Source, 1),
        here(1, Place::Source, 9), // into a wire
        here(2, Place::Forwarder, 1),
        here(3, Place::Sink, 1),
    ];
    let mut i = start_with("tcp-ap", setting(site, flows), &[]).unwrap();
    assert!(i.plan.is_none());
    assert_eq!(i.control.next_deadline(), Some(Time::ZERO));
    assert_eq!(paces(&actions(&mut i, Time::ZERO, Event::Deadline)), [(0, 50.0)]);
    assert_eq!(i.control.next_deadline(), None);
    let four = rtt(4.0 * (DATA + ACK));
    let a = actions(&mut i, Time::ZERO, feedback(0, four));
    assert!((paces(&a)[0].1 - 4.0 * DATA).abs() < 1e-3);
    assert_eq!(
        reasons_of(&a),
        [
            "flow 0: out of interference after 25.152 ms, which varies by 0 %: a packet every 25.152 ms"
        ]
    );
    // Small changes, unknown flows and other nodes' flows cause no action.
    assert!(actions(&mut i, Time::ZERO, feedback(0, four)).is_empty());
    assert!(actions(&mut i, Time::ZERO, feedback(0, Span::ZERO)).is_empty());
    assert!(actions(&mut i, Time::ZERO, feedback(1, four)).is_empty());
}

#[test]
fn the_gateway_paces_flows_from_the_wire() {
    let site = Site::new().with_gateway(true).with_hops(Some(0));
    let flows = vec![here(0, Place::Forwarder, 2), here(1, Place::Forwarder, 9)];
    let mut i = start_with("tcp-ap", setting(site, flows), &[]).unwrap();
    assert_eq!(i.plan.point, Point::Transit);
    let first = Limit::Rate(BitRate(1500 * 8 * 20));
    let classes: Vec<_> = i.plan.classes.iter().map(|c| (c.class, c.limit, c.burst)).collect();
    assert_eq!(classes, [(Class::Flow(FlowId(0)), first, Bytes(1500))]);
    assert!(paces(&actions(&mut i, Time::ZERO, Event::Deadline)).is_empty());
    let trip = |flow, rtt| Event::RoundTrip(RoundTrip { flow: FlowId(flow), rtt });
    let a = actions(&mut i, Time::ZERO, trip(0, rtt(4.0 * (DATA + ACK))));
    let [(class, rate)] = limits_of(&a)[..] else { panic!("{a:?}") };
    assert_eq!(class, Class::Flow(FlowId(0)));
    assert!((rate as f64 - 12_000.0 / (4.0 * DATA / 1e3)).abs() < 10.0, "{rate}");
    assert!(actions(&mut i, Time::ZERO, trip(1, rtt(10.0))).is_empty(), "an upload");
    // A new download gets its first limit when it is seen.
    let seen = Event::FlowSeen(here(5, Place::Forwarder, 1));
    assert_eq!(limits_of(&actions(&mut i, Time::ZERO, seen)), [(Class::Flow(FlowId(5)), 240_000)]);
}
