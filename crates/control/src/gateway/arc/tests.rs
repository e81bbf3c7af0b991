use super::*;
use crate::testing::{actions, flow, gateway, limits_of, reasons_of, start, start_with};
use crate::{FlowCounters, Neighbour};

/// A gateway that gets rates, epoch by epoch.
struct Bench {
    instance: Instance,
    now: Time,
    bytes: Vec<u64>,
}

impl Bench {
    fn new(name: &str, parameters: &[(&str, f64)]) -> Self {
        // The published bound, used in the published examples.
        let parameters = [&[("deepest", 3.0)], parameters].concat();
        let mut instance = start_with(name, gateway(&[0, 1]), &parameters).unwrap();
        assert_eq!(instance.plan.classes[0].limit, Limit::Rate(BitRate(300_000)), "W/3");
        let mut bytes = vec![0; 2];
        assert_eq!(instance.control.next_deadline(), Some(Time::ZERO), "a base for counters");
        assert!(deadline(&mut instance, Time::ZERO, &mut bytes, &[0, 0]).is_empty());
        Bench { instance, now: Time::ZERO, bytes }
    }

    /// A gateway with both flows active.
    fn running(name: &str) -> Self {
        let mut bench = Bench::new(name, &[]);
        assert_eq!(bench.epoch([150, 150]), (None, String::new()), "nobody to compare yet");
        bench
    }

    /// Runs an epoch at these rates in kbit/s; returns the new limit, if any, and the reason.
    fn epoch(&mut self, kbps: [u64; 2]) -> (Option<u64>, String) {
        let due = self.instance.control.next_deadline().unwrap();
        assert_eq!(due.since(self.now), Span::from_secs(10));
        self.now = due;
        let done = deadline(&mut self.instance, due, &mut self.bytes, &kbps);
        let limits = limits_of(&done);
        assert!(limits.iter().all(|l| l.0 == Class::All));
        (limits.first().map(|l| l.1), reasons_of(&done).concat())
    }
}

fn deadline(i: &mut Instance, now: Time, bytes: &mut [u64], kbps: &[u64]) -> Actions {
    for (id, (bytes, kbps)) in bytes.iter_mut().zip(kbps).enumerate() {
        *bytes += kbps * 1000 * 10 / 8;
        let sample = FlowCounters { flow: FlowId(id as u32), bytes: *bytes, packets: 1 };
        assert!(actions(i, now, Event::FlowCounters(sample)).is_empty());
    }
    actions(i, now, Event::Deadline)
}

#[test]
fn algorithms_1_and_3_by_hand() {
    let mut b = Bench::running("arc-fq");
    // Equal rates: incAggRate, C_est = (300 + 900) / 2.
    let (limit, why) = b.epoch([150, 150]);
    assert_eq!(limit, Some(600_000));
    assert_eq!(why, "all flows within 90 % of the fastest: 600 kbit/s together");
    // C_low = 480, C_est = (480 + 900) / 2.
    assert_eq!(b.epoch([240, 240]).0, Some(690_000));
    // Unequal, but no flow is below its best: C_low = 640, C_est = (640 + 900) / 2.
    let (limit, why) = b.epoch([400, 240]);
    assert_eq!(limit, Some(770_000));
    assert_eq!(why, "flow 1 at 60 % of the fastest has what it can get: 770 kbit/s together");
    // Flow 1 at 220 of 240 is below 95 %: C_up = 720, C_est = (640 + 720) / 2.
    let (limit, why) = b.epoch([500, 220]);
    assert_eq!(limit, Some(680_000));
    assert_eq!(
        why,
        "flow 1 at 44 % of the fastest and 92 % of its own best: at most 680 kbit/s together"
    );
    // Little of it is used, so it is not raised.
    assert_eq!(b.epoch([230, 230]).0, None);
}

#[test]
fn algorithms_1_and_2_by_hand() {
    let mut b = Bench::running("arc+exponential");
    assert_eq!(b.epoch([150, 150]).0, Some(330_000)); // α C_meas
    assert_eq!(b.epoch([165, 165]).0, Some(363_000));
    assert_eq!(b.epoch([200, 100]).0, Some(300_000), "β × 300 is below the lower bound");
}

#[test]
fn a_best_rate_is_kept_through_small_losses() {
    let mut b = Bench::running("arc");
    b.epoch([150, 150]);
    b.epoch([150, 150]);
    assert!(b.epoch([300, 145]).1.contains("what it can get"), "97 %");
    // If 145 were the new best, this would be 97 % of it, too.
    assert!(b.epoch([310, 140]).1.contains("94 % of its own best"));
}

#[test]
fn a_new_set_of_flows_forgets_best_rates() {
    let mut b = Bench::new("arc+relearn", &[]);
    for _ in 0..4 {
        b.epoch([300, 0]);
    }
    // Flow 1 comes; in its first whole epoch no rates can be called unfair.
    b.epoch([300, 60]);
    assert!(b.epoch([200, 160]).1.contains("what it can get"));
    assert!(b.epoch([250, 140]).1.contains("of its own best"));
    // Flow 1 goes: idle epochs count as starvation until the second one.
    assert!(b.epoch([300, 0]).1.contains("1 % of its own best"));
    assert!(b.epoch([300, 0]).1.contains("all flows"));
}

/// Otherwise a flow that is idle at times would hide the starvation of all others.
#[test]
fn after_a_change_no_flow_may_have_less_than_at_the_lower_bound() {
    let mut b = Bench::new("arc+relearn", &[]);
    for _ in 0..4 {
        b.epoch([400, 0]);
    }
    b.epoch([400, 20]);
    // W/3 by two are 150.
    let (_, why) = b.epoch([500, 20]);
    assert!(why.contains("flow 1 at 4 % of the fastest and 14 % of its own best"), "{why}");
}

#[test]
fn at_the_lower_bound_best_rates_are_reset() {
    let mut b = Bench::running("arc+exponential+relearn");
    b.epoch([150, 150]);
    b.epoch([150, 150]);
    assert!(b.epoch([200, 100]).1.contains("own best"), "down to the lower bound");
    // Flow 1's link has become slower permanently: 100 is its maximum.
    assert!(b.epoch([200, 100]).1.contains("what it can get"));
}

/// Algorithm 1: r_max only rises (line 5), and a flow without r_max is not starved (§7.5.1).
#[test]
fn as_published_highest_rates_are_reset_by_a_change_of_flows_alone() {
    let mut b = Bench::running("arc+exponential");
    b.epoch([150, 150]);
    b.epoch([150, 150]);
    for _ in 0..5 {
        assert!(b.epoch([200, 100]).1.contains("own best"), "at the lower bound, too");
    }
    let mut b = Bench::new("arc", &[]);
    for _ in 0..4 {
        b.epoch([400, 0]);
    }
    b.epoch([400, 20]);
    let (_, why) = b.epoch([500, 20]);
    assert!(why.contains("flow 1 at 4 % of the fastest has what it can get"), "{why}");
}

#[test]
fn the_lower_bound_is_a_third_of_the_slowest_link() {
    // §7.5.2: W₁/3 of links of 900 kbit/s; of ours W₁/5.
    for (name, bound) in [("arc", 300_000), ("arc-fq", 300_000), ("arc+relearn", 180_000)] {
        let limit = start(name, gateway(&[0, 1])).plan.classes[0].limit;
        assert_eq!(limit, Limit::Rate(BitRate(bound)), "{name}");
    }
}

#[test]
fn idle_and_implausible_epochs_keep_the_limit() {
    let mut b = Bench::running("arc");
    let (limit, _) = b.epoch([150, 150]);
    assert_eq!(limit, Some(600_000));
    assert_eq!(b.epoch([0, 0]), (None, String::new()), "an outage");
    b.bytes = vec![0, 0]; // restarted
    assert_eq!(b.epoch([100, 100]), (None, String::new()));
    assert_eq!(b.epoch([1_000_000, 1_000_000]), (None, String::new()), "no link carries that");
    assert!(b.epoch([300, 300]).1.contains("all flows"), "goes on");
}

#[test]
fn no_flows_no_decisions() {
    let mut i = start("arc", gateway(&[]));
    let mut now = Time::ZERO;
    for _ in 0..10 {
        assert!(actions(&mut i, now, Event::Deadline).is_empty());
        now = i.control.next_deadline().unwrap();
    }
}

#[test]
fn refuses_settings_that_make_no_sense() {
    let mut lonely = gateway(&[0]);
    lonely.neighbours.clear();
    let refused = |setting| start_with("arc+exponential", setting, &[]).unwrap_err().to_string();
    assert_eq!(refused(lonely), "arc+exponential: the gateway has no neighbour");
    let mut dead = gateway(&[0]);
    dead.neighbours[1] = Neighbour { capacity: BitRate(0), ..dead.neighbours[1] };
    assert_eq!(refused(dead), "arc+exponential: the link to neighbour 2 has a capacity of 0");
    let mut arc = crate::testing::lookup("arc").unwrap();
    assert_eq!(
        arc.set("epoch", 0.2).unwrap_err().to_string(),
        "arc: epoch must lie in 1 to 600, not 0.2"
    );
}

#[test]
fn the_plan_is_one_class_for_data_that_crosses() {
    let mut setting = gateway(&[0]);
    setting.flows.push(crate::FlowHere { packet: 1540, ..flow(1) });
    let i = start("arc-fq", setting.clone());
    assert_eq!(i.plan.point, Point::Transit);
    let [class] = i.plan.classes[..] else { panic!() };
    assert_eq!((class.class, class.burst), (Class::All, Bytes(1540)));
    assert_eq!(class.leaf, Leaf::Fair { packets: 5 });
    assert_eq!(start("arc", setting).plan.classes[0].leaf, Leaf::DropTail { packets: 25 });
}

#[test]
fn a_run_starts_from_the_learned_limit() {
    let mut b = Bench::running("arc");
    assert_eq!(b.epoch([150, 150]).0, Some(600_000));
    let learned = b.instance.control.learned().unwrap();
    let mut next = start("arc", gateway(&[0, 1]));
    let mut done = Actions::new();
    next.control.recall(learned, &mut done);
    assert_eq!(limits_of(&done), [(Class::All, 600_000)]);
    next.control.recall(BitRate(u64::MAX), &mut done);
    assert_eq!(next.control.learned(), Some(BitRate(900_000)), "the upper bound");
}
