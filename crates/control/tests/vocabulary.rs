//! Headers, reasons, action buffers, needs.

use fairmesh_control::*;
use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream};

#[test]
fn header_fields_merge() {
    let mut h = Header::default();
    h.write(0, Merge::Max, 7);
    h.write(0, Merge::Max, 3);
    h.write(1, Merge::Min, 7);
    h.write(1, Merge::Min, 9);
    h.write(1, Merge::Min, 3);
    h.write(2, Merge::Or, 0b01);
    h.write(2, Merge::Or, 0b10);
    h.write(3, Merge::Set, 5);
    h.write(3, Merge::Set, 4);
    h.write(HEADER_FIELDS as u8, Merge::Set, 1);
    assert_eq!(h, Header([7, 3, 3, 4, 0, 0, 0, 0]));
}

#[test]
fn buffers_carry_several_messages_and_forget_them() {
    let mut a = Actions::new();
    a.send(None, b"first");
    a.because(Reason::new("test.x", "x", &[]));
    a.send(Some(NodeId(3)), b"second");
    let bodies: Vec<&[u8]> = a.iter().map(|x| a.body(x)).collect();
    assert_eq!(bodies, [b"first".as_slice(), b"", b"second"]);
    a.hand_over(Reach::Within(2), b"third");
    assert_eq!(a.body(a.iter().last().unwrap()), b"third");
    let old = *a.iter().last().unwrap();
    a.clear();
    assert!(a.is_empty());
    assert_eq!(a.body(&old), b"", "a body does not outlive its buffer");
}

#[test]
fn a_buffer_without_reasons_keeps_actions_only() {
    let mut a = Actions::without_reasons();
    a.because(Reason::new("test.x", "x", &[]));
    a.mark(Class::All, 1.7);
    a.drop(Class::All, f64::NAN);
    let probabilities: Vec<f64> = a
        .iter()
        .map(|x| match x {
            Action::Mark { probability, .. } | Action::Drop { probability, .. } => probability.0,
            _ => panic!("{x:?}"),
        })
        .collect();
    assert_eq!(probabilities, [1.0, 0.0]);
}

#[test]
fn a_flow_is_paced_clocked_and_let_go() {
    let mut a = Actions::new();
    let (flow, interval) = (FlowId(4), Span::from_millis(20));
    a.pace(flow, interval);
    a.clock(flow, interval);
    a.unpace(flow);
    // Pacing keeps the congestion window, a clock stands in its place, and without either it is back.
    let paced = [(Some(interval), true), (Some(interval), false), (None, true)];
    let all = paced.map(|(interval, window)| Action::Pace { flow, interval, window });
    assert!(a.iter().eq(&all), "{a:?}");
}

#[test]
fn reasons_print_their_values_in_order() {
    let r = Reason::new(
        "gap.high",
        "node {} of flow {} at {} of {}",
        &[
            Value::Node(NodeId(2)),
            Value::Flow(FlowId(1)),
            Value::Ratio(0.5),
            Value::Rate(BitRate(1000)),
        ],
    );
    assert_eq!(r.to_string(), "node 2 of flow 1 at 0.500 of 1 kbit/s");
    assert_eq!(Reason::new("x.y", "{} and {}", &[Value::Count(3)]).to_string(), "3 and ");
}

#[test]
fn a_mechanism_runs_at_the_placements_of_its_needs() {
    let gateway = Site::new().with_gateway(true).with_hops(Some(0));
    let near = Site::new().with_hops(Some(1));
    let far = Site::new().with_hops(Some(2)).with_sources(true);
    let ap = Site::new().with_access_point(true);
    let runs = |place, site: &Site| {
        Needs { at: PlacementSet::of(&[place]), ..Needs::default() }.runs_at(site)
    };
    for (place, at) in [
        (Placement::Gateway, [true, false, false, false]),
        (Placement::GatewayNeighbours, [false, true, false, false]),
        (Placement::Sources, [false, false, true, false]),
        (Placement::AccessPoints, [false, false, false, true]),
        (Placement::EveryNode, [true; 4]),
    ] {
        assert_eq!([&gateway, &near, &far, &ap].map(|s| runs(place, s)), at, "{place:?}");
    }
    assert!(!Needs::default().runs_at(&gateway));
}

/// Mechanisms may request every frame, so events must be small and `Copy`.
#[test]
fn events_stay_small() {
    assert!(size_of::<Event<'_>>() <= 96, "{}", size_of::<Event<'_>>());
    assert!(size_of::<Action>() <= 112, "{}", size_of::<Action>());
}

/// A mechanism with a requirement that no router meets.
fn ideal() -> Definition {
    let needs = Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        abilities: AbilitySet::of(&[Ability::IdealExchange]),
        ..Needs::default()
    };
    let runs = Runs::at(move |_| vec![needs], |_, _| unreachable!("refused before it is built"));
    Definition::new("ideal", "needs what no router has", Origin::ours("")).with_runs(runs)
}

#[test]
fn an_ideal_exchange_is_refused_by_name() {
    let router = Offers {
        abilities: AbilitySet::ALL.without(AbilitySet::of(&[Ability::IdealExchange])),
        ..Offers::everything("the Linux gateway")
    };
    let setting = Setting::new(NodeId(0), Site::new(), Stream::new(1, "vocabulary"));
    assert_eq!(
        Mechanism::of(ideal()).start(setting, &router).unwrap_err().to_string(),
        "ideal cannot run on the Linux gateway: not possible: exchange outside the air"
    );
}
