use super::*;

const PACKET_BITS: f64 = 12_000.0;

/// A second in which `came` full packets arrive of which `granted` are granted; the rest is dropped.
fn second(came: f64, granted: f64) -> Seen {
    Seen {
        elapsed: 1.0,
        bits: came.min(granted) * PACKET_BITS,
        packets: came.min(granted),
        drops: (came - granted).max(0.0),
        waiting: 0.0,
        granted: granted * PACKET_BITS,
        share: granted * PACKET_BITS,
        promised: 0.0,
        agents: false,
    }
}

/// Runs seconds of a source that sends `sends(part)` packets when it is granted a part of `granted`; returns the times
/// and contents of reports.
fn run(
    watch: &mut Watch,
    seconds: u32,
    granted: f64,
    mut sends: impl FnMut(u32, f64) -> f64,
) -> Vec<(u32, News)> {
    let mut said = Vec::new();
    for s in 0..seconds {
        let part = watch.part();
        let seen = Seen { share: granted * PACKET_BITS, ..second(sends(s, part), granted * part) };
        said.extend(watch.look(&seen).map(|news| (s + 1, news)));
    }
    said
}

#[test]
fn who_brings_the_same_at_half_of_its_limit_is_a_flood() {
    for times in [1.4, 2.0, 10.0] {
        let mut watch = Watch::default();
        let said = run(&mut watch, 10, 20.0, |_, _| 20.0 * times);
        assert!(
            matches!(said[..], [(3, News::Suspect(_)), (..=10, News::Flood(_))]),
            "{times}: {said:?}"
        );
        assert!(watch.is_flood() && watch.part() == 1.0);
        let News::Flood(rate) = said[1].1 else { panic!() };
        assert!((rate / (20.0 * times * PACKET_BITS) - 1.0).abs() < 0.01);
    }
}

#[test]
fn a_transport_that_loses_half_answers() {
    let mut watch = Watch::default();
    let said = run(&mut watch, 300, 20.0, |_, part| 2.0 * 20.0 * part);
    let kinds = |news: &(u32, News)| matches!(news.1, News::Suspect(_) | News::Answers);
    assert!(said.iter().all(kinds), "{said:?}");
    // With growing intervals.
    let suspected: Vec<u32> =
        said.iter().filter(|n| matches!(n.1, News::Suspect(_))).map(|n| n.0).collect();
    assert!((3..=7).contains(&suspected.len()), "{suspected:?}");
    assert!(suspected.windows(3).all(|w| w[2] - w[1] > w[1] - w[0]), "{suspected:?}");
}

/// BBR in a short queue sends at the rate that it measured before its limit was halved, until ten round trips later,
/// and a quarter more than its grant at any time.
#[test]
fn a_transport_that_answers_late_is_no_flood() {
    for late in 1..=4 {
        let mut watch = Watch::default();
        let mut halved = 0;
        let said = run(&mut watch, 300, 20.0, |_, part| {
            halved = if part < 1.0 { halved + 1 } else { 0 };
            1.35 * 20.0 * if halved > late { part } else { 1.0 }
        });
        let fine = |news: &(u32, News)| matches!(news.1, News::Suspect(_) | News::Answers);
        assert!(said.len() >= 2 && said.iter().all(fine), "{late}: {said:?}");
    }
}

#[test]
fn where_little_is_granted_more_has_to_come_before_it_is_a_flood() {
    // A packet per second passes in the trial: transports need long to detect it.
    let mut watch = Watch::default();
    let said = run(&mut watch, 40, 2.0, |_, _| 6.0);
    assert!(matches!(said[..], [(3, News::Suspect(_)), (19..=22, News::Flood(_))]), "{said:?}");
}

/// If the air varies, arrivals do: they are fewer than before, and still many times the grant.
#[test]
fn a_flood_whose_path_gets_worse_is_one() {
    let mut watch = Watch::default();
    let said = run(&mut watch, 12, 20.0, |s, _| if s < 4 { 60.0 } else { 40.0 });
    assert!(matches!(said[..], [(3, News::Suspect(_)), (..=10, News::Flood(_))]), "{said:?}");
}

#[test]
fn the_start_of_a_transport_and_what_fits_are_nothing() {
    let mut watch = Watch::default();
    // A window that doubles until packets are dropped, and again after a minute.
    let start = |s: u32, part: f64| part * [20.0, 60.0, 30.0, 21.0][(s as usize % 60).min(3)];
    let said = run(&mut watch, 300, 20.0, start);
    assert!(said.iter().all(|(_, news)| !matches!(news, News::Flood(_))), "{said:?}");
    let mut watch = Watch::default();
    assert_eq!(run(&mut watch, 300, 20.0, |_, _| 19.0), []);
    assert_eq!(run(&mut watch, 300, 20.0, |s, _| if s % 4 < 2 { 40.0 } else { 0.0 }), []);
}

#[test]
fn below_its_share_nobody_floods() {
    let mut watch = Watch::default();
    for _ in 0..100 {
        let seen = Seen { share: 35.0 * PACKET_BITS, ..second(40.0, 20.0) };
        assert_eq!(watch.look(&seen), None);
    }
    // A call that needs twice its share is not a flood either.
    let mut watch = Watch::default();
    for _ in 0..100 {
        let seen = Seen { packets: 200.0, drops: 200.0, ..second(20.0, 20.0) };
        assert_eq!(watch.look(&seen), None);
    }
    // The acknowledgements of another direction are not a flood either.
    let mut watch = Watch::default();
    for _ in 0..100 {
        let seen = Seen { bits: 20.0 * 52.0 * 8.0, packets: 20.0, drops: 80.0, ..second(0.0, 0.7) };
        assert_eq!(watch.look(&seen), None);
    }
}

#[test]
fn what_is_promised_is_kept_in_the_trial() {
    let mut watch = Watch::default();
    for _ in 0..4 {
        watch.look(&Seen { promised: 0.7, ..second(60.0, 20.0) });
    }
    assert_eq!(watch.part(), 0.7);
    let mut watch = Watch::default();
    for _ in 0..100 {
        assert_eq!(watch.look(&Seen { promised: 0.9, ..second(60.0, 20.0) }), None);
    }
}

#[test]
fn who_gives_up_little_of_what_it_should_is_a_flood() {
    // It should send 0.7 of the 30 packets that it sent before.
    let after = |came: f64| {
        let mut watch = Watch::default();
        let look = |s: u32| {
            let (came, part) = if s < 3 { (30.0, 1.0) } else { (came, watch.part()) };
            let (promised, share) = (0.7, 20.0 * PACKET_BITS);
            watch.look(&Seen { promised, share, ..second(came, 20.0 * part) })
        };
        (0..10).filter_map(look).collect::<Vec<_>>()
    };
    for (came, flood) in [(30.0, true), (27.0, true), (26.0, false), (21.0, false)] {
        let said = after(came);
        assert!(matches!(said[0], News::Suspect(_)), "{said:?}");
        assert_eq!(matches!(said[1], News::Flood(_)), flood, "{came}: {said:?}");
        assert_eq!(said[1] == News::Answers, !flood, "{came}: {said:?}");
    }
}

#[test]
fn it_is_over_when_the_limit_is_kept() {
    let mut watch = Watch::default();
    run(&mut watch, 10, 20.0, |_, _| 60.0);
    assert!(watch.is_flood() && !watch.keeps(20.0 * PACKET_BITS));
    let said = run(&mut watch, 30, 20.0, |_, _| 15.0);
    assert!(matches!(said[..], [(10..=20, News::Over)]), "{said:?}");
    // If an agent limits it, it is over when little traffic comes.
    let mut watch = Watch::default();
    let mut agent = |came: f64| watch.look(&Seen { agents: true, ..second(came, 20.0) });
    let mut said = Vec::new();
    (0..10).for_each(|_| said.extend(agent(60.0)));
    (0..60).for_each(|_| said.extend(agent(20.0)));
    assert!(matches!(said[..], [News::Suspect(_), News::Flood(_)]), "{said:?}");
    (0..40).for_each(|_| said.extend(agent(2.0)));
    assert_eq!(said.last(), Some(&News::Over));
}
