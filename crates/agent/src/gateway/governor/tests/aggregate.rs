//! One limit for all subscribers, split between the directions.

use super::*;

#[test]
fn one_limit_for_all_is_split_as_the_traffic_is() {
    let mut g = governor(&config(1, "arc-fq", ""));
    let all = |out: &[RateChange]| -> Vec<u64> {
        out.iter().filter(|c| c.slot.class == ClassId::ALL).map(|c| c.rate.unwrap().0).collect()
    };
    let halves = all(&take_changes(&mut g));
    // An odd number of bits per second has no halves.
    assert!(halves.len() == 2 && halves[0].abs_diff(halves[1]) <= 1, "{halves:?}");
    let wanted = g.aggregate().wanted.unwrap().0;
    assert_eq!(halves[0], super::super::limits::frames(BitRate(wanted.div_ceil(2)), HEADER).0);
    let m = g.member("s0").unwrap();
    assert_eq!(g.meant(m, 0), (None, Limiter::Aggregate));
    assert_eq!(g.aggregate().change.as_ref().unwrap().why, LimitReason::Start);
    // All traffic is downstream: the part moves half way at each sample.
    let look = |second: u64, bytes: u64| {
        [counted(down(1), bytes, bytes / 1514), counted(up(1), 0, 0)]
            .map(|c| (second, c))
            .map(|(_, c)| c)
    };
    g.sample(at(0), &look(0, 0), [None, None]);
    let mut parts = Vec::new();
    for second in 1..6 {
        g.sample(at(second), &look(second, second * 1_514_000), [None, None]);
        parts.push(g.aggregate().down);
    }
    assert_eq!(parts, [0.75, 0.875, 0.9375, 0.96875, 0.984375]);
    for second in 6..20 {
        g.sample(at(second), &look(second, second * 1_514_000), [None, None]);
    }
    // Downstream has all of the limit, upstream a tenth on top.
    let wanted = g.aggregate().wanted.unwrap().0;
    let split = all(&take_changes(&mut g));
    let frames = |ip: u64| super::super::limits::frames(BitRate(ip), HEADER).0;
    assert!(
        split.len() == 2 && split[0].abs_diff(frames(wanted)) * 1000 < frames(wanted),
        "{split:?}"
    );
    assert_eq!(split[1], frames((wanted as f64 * 0.1).round() as u64));
    // Less than 2 % more or less is not worth a call.
    assert_eq!(take_changes(&mut g), []);
    g.suspend(Suspension::Fault("x"));
    let lifted = take_changes(&mut g);
    assert!(lifted.len() == 2 && lifted.iter().all(|c| c.rate.is_none()), "{lifted:?}");
}

#[test]
fn each_direction_has_its_part_and_a_tenth_at_least() {
    let split = |whole, down| super::super::limits::split(rate(whole), down).map(|r| r.unwrap().0);
    assert_eq!(split(100, 0.7), [70, 30]);
    assert_eq!(split(100, 1.0), [100, 10], "a tenth on top");
    assert_eq!(split(100, 0.05), [10, 95]);
    assert_eq!((split(1, 0.5), split(0, 0.5)), ([1, 1], [1, 1]));
    assert_eq!(super::super::limits::split(None, 0.5), [None, None]);
}

/// All of the limit must pass.
///
/// Jamshaid 2010 Algorithm 2 raises the limit to 1.1 of the measured throughput.
#[test]
fn an_exponential_increase_rises_while_downloads_fill_the_limit() {
    let mut g = governor(&config(2, "arc-fq+exponential", ""));
    let mut passed = [0_u64; 2];
    let mut limits = vec![g.aggregate().wanted.unwrap().0];
    take_changes(&mut g);
    for second in 0..60 {
        let [limit, _] = g.aggregate().in_force;
        // Both downloads take half of the downstream traffic, in packets of 1514 bytes.
        let half = super::super::limits::frames(limit.unwrap(), HEADER).0 / 16;
        passed = passed.map(|bytes| bytes + half);
        let look = [1, 2].map(|n| {
            let bytes = passed[n as usize - 1];
            [counted(down(n), bytes, bytes / 1514), counted(up(n), 0, 0)]
        });
        g.sample(at(second), look.as_flattened(), [None, None]);
        take_changes(&mut g);
        limits.push(g.aggregate().wanted.unwrap().0);
    }
    let (first, last) = (limits[0], *limits.last().unwrap());
    assert!(last as f64 > 1.3 * first as f64, "{limits:?}");
}

/// The aggregate limit depends on the sum of the counters.
#[test]
fn the_counters_of_all_are_added_up() {
    let mut g = governor(&config(2, "arc-fq", ""));
    let look = |g: &mut Governor, second: u64| {
        let mut all = Vec::new();
        for (n, slot) in [down(1), up(1), down(2), up(2)].into_iter().enumerate() {
            let n = n as u64 + 1;
            let mut c = counted(slot, 1_514 * n * second, n * second);
            (c.drops, c.overlimits) = (n * 10 * second, n * 100 * second);
            (c.backlog_packets, c.backlog_bytes) = (n as u32, n * 1000);
            all.push(c);
        }
        g.sample(at(second), &all, [None, None]);
    };
    look(&mut g, 0);
    // The control's deadline is due, at which it sees the traffic.
    look(&mut g, 60);
    let why = LimitReason::Start;
    let sum = |g: &mut Governor, sane| {
        super::control::Gateway { governor: g, why: &why, sane, decided: false }.sum()
    };
    let all = sum(&mut g, true);
    assert_eq!((all.bytes, all.packets), (1_500 * 600, 600));
    assert_eq!((all.drops, all.overlimits), (6_000, 60_000));
    assert_eq!((all.queued_packets, all.queued_bytes), (10, 10_000));
    assert_eq!(all.class, fairmesh_control::Class::All);
    let none = sum(&mut g, false);
    assert_eq!((none.bytes, none.packets, none.queued_bytes), (0, 0, 0), "not to be believed");
    g.suspend(Suspension::Fault("x"));
    assert_eq!(sum(&mut g, true).packets, 0);
}
