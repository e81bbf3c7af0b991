use super::*;
use crate::testing::{actions, flow, gateway, limits, limits_of, reasons_of, start, start_with};
use crate::{Action, FlowCounters, Setting};

/// A gateway with given rates in each control period.
struct Bench {
    instance: Instance,
    now: Time,
    bytes: Vec<u64>,
    /// Limits in force, in kbit/s.
    limits: Vec<u64>,
}

impl Bench {
    fn with(name: &str, setting: Setting, parameters: &[(&str, f64)]) -> Self {
        let flows = setting.flows.len();
        let mut instance = start_with(name, setting, parameters).unwrap();
        let limit = |c: &ClassPlan| match c.limit {
            Limit::Rate(r) => r.0 / 1000,
            _ => panic!("{c:?}"),
        };
        let limits = instance.plan.classes.iter().map(limit).collect();
        assert!(actions(&mut instance, Time::ZERO, Event::Deadline).is_empty(), "a base");
        Bench { instance, now: Time::ZERO, bytes: vec![0; flows], limits }
    }

    fn new(name: &str, flows: u32) -> Self {
        Bench::with(name, gateway(&(0..flows).collect::<Vec<_>>()), &[])
    }

    /// Runs one control period at these rates in kbit/s; returns the reasons for the new limits.
    fn look(&mut self, kbps: &[u64]) -> String {
        let due = self.instance.control.next_deadline().unwrap();
        let millis = due.since(self.now).as_nanos() / 1_000_000;
        self.now = due;
        for (id, (bytes, kbps)) in self.bytes.iter_mut().zip(kbps).enumerate() {
            *bytes += kbps * millis / 8;
            let sample = FlowCounters { flow: FlowId(id as u32), bytes: *bytes, packets: 1 };
            actions(&mut self.instance, due, Event::FlowCounters(sample));
        }
        let done = actions(&mut self.instance, due, Event::Deadline);
        for (class, limit) in limits_of(&done) {
            let Class::Flow(flow) = class else { panic!("{class}") };
            self.limits[flow.index()] = limit / 1000;
        }
        reasons_of(&done).join("; ")
    }

    /// Runs a control period in which all flows get their allocation.
    fn full(&mut self) -> String {
        self.look(&self.limits.clone())
    }
}

#[test]
fn algorithms_4_and_6_by_hand() {
    let mut b = Bench::new("pfrc", 3);
    assert_eq!(b.limits, [100; 3], "W/3 by three");
    // The first packets: flows arrive, from none before.
    assert_eq!(b.full(), "3 flows more, 0 fewer: 300 kbit/s for 3 flows");
    // All have b_i: C_low = 300, C_est = (300 + 900) / 2.
    assert_eq!(b.full(), "all 3 flows at 70 % of their allocation or more: increase to 600 kbit/s");
    assert_eq!(b.limits, [200; 3]);
    // Flow 2 has 122 of 200: C_up = 522, C_est = (300 + 522) / 2.
    let why = b.look(&[200, 200, 122]);
    assert_eq!(why, "flow 2 at 61 % of its allocation, below 70 %: decrease to 411 kbit/s");
    assert_eq!(b.limits, [137; 3]);
    // 97 of 137 are 71 %: enough. C_low = 371, C_est = (371 + 522) / 2.
    b.look(&[137, 137, 97]);
    assert_eq!(b.limits, [148; 3]);
}

#[test]
fn algorithm_5_by_hand() {
    let mut b = Bench::new("pfrc+exponential", 2);
    b.full();
    b.full(); // 1.1 × 300
    assert_eq!(b.limits, [165, 165]);
    b.look(&[165, 145]); // 1.1 × 310
    assert_eq!(b.limits, [170, 170]);
    for _ in 0..4 {
        b.full();
    }
    let before: u64 = b.limits.iter().sum();
    b.look(&[b.limits[0], b.limits[0] / 2]);
    let after: u64 = b.limits.iter().sum();
    assert!((after as f64 / (0.75 * before as f64 * 0.9) - 1.0).abs() < 0.02, "{before} {after}");
}

#[test]
fn weights_share_the_aggregate() {
    let mut setting = gateway(&[0, 1, 2]);
    for (n, here) in setting.flows.iter_mut().enumerate() {
        here.weight = (n + 1) as f64;
    }
    let mut b = Bench::with("pfrc", setting, &[]);
    assert_eq!(b.limits, [50, 100, 150]);
    b.full();
    b.full();
    assert_eq!(b.limits, [100, 200, 300]);
}

#[test]
fn flows_that_come_and_go() {
    let mut b = Bench::new("pfrc", 3);
    b.look(&[150, 150, 0]);
    assert_eq!(b.limits, [150, 150, 100], "a newcomer's rate waits for the third");
    b.full(); // looked at with flow 2 at its newcomer's rate: it arrives
    assert_eq!(b.limits, [100; 3]);
    b.full();
    let before = b.limits.clone();
    // Flow 2 becomes idle: at first that is starvation, then it is gone and the others rise.
    assert!(b.look(&[before[0], before[1], 0]).contains("flow 2 at 0 %"));
    let low = b.limits.clone();
    assert!(low[0] < before[0]);
    assert!(b.look(&[low[0], low[1], 0]).contains("0 flows more, 1 fewer"));
    assert!(b.limits[0] > low[0]);
}

/// §8.1.3: the rate that a flow leaves behind is searched for at once.
#[test]
fn the_aggregate_is_searched_again_when_a_flow_ends() {
    let mut b = Bench::new("pfrc", 3);
    b.full();
    let learned = |b: &Bench| b.instance.control.learned().unwrap();
    let before = learned(&b);
    actions(&mut b.instance, b.now, Event::FlowGone(FlowId(2)));
    let why = b.look(&[150, 150, 0]);
    assert!(why.contains("0 flows more, 1 fewer"), "{why}");
    assert_ne!(learned(&b), before, "{why}");
    // C_low = 300, C_est = (300 + 900) / 2.
    assert_eq!(learned(&b), BitRate(600_000), "{why}");
}

#[test]
fn a_flow_that_never_sends_counts_for_nothing() {
    let mut b = Bench::new("pfrc", 3);
    for _ in 0..20 {
        b.look(&[b.limits[0], b.limits[1], 0]);
    }
    // The two have the whole aggregate; the bounds are 300 and 900.
    assert_eq!((b.limits[0], b.limits[1]), (450, 450));
    // It may begin with its rate as one of three.
    assert_eq!(b.limits[2], 300);
}

#[test]
fn no_flows_no_decisions() {
    let mut b = Bench::new("pfrc", 0);
    for _ in 0..5 {
        assert_eq!(b.look(&[]), "");
    }
    let mut b = Bench::new("pfrc+bursts", 2);
    for _ in 0..20 {
        assert_eq!(b.look(&[0, 0]), "");
    }
    assert_eq!(b.limits, [150, 150]);
}

#[test]
fn outages_and_garbage_leave_rates_alone() {
    let mut b = Bench::new("pfrc", 2);
    b.full();
    b.full();
    let limits = b.limits.clone();
    assert_eq!(b.look(&[0, 0]), "", "nothing at all passed");
    b.bytes = vec![0, 0];
    assert_eq!(b.look(&[10, 10]), "", "counters ran backwards");
    assert_eq!(b.look(&[1_000_000, 1_000_000]), "", "no link carries that");
    b.bytes = vec![u64::MAX / 2, 7];
    b.look(&[1, 1]);
    assert_eq!(b.limits, limits);
    assert!(b.full().contains("increase"), "goes on");
    // One garbled counter out of two: the other one is judged.
    b.bytes[1] = 0;
    let half = b.limits[0] / 2;
    assert!(b.look(&[half, 0]).contains("flow 0 at 50 %"));
}

#[test]
fn plans_have_ceilings_and_guarantees() {
    let mut setting = gateway(&[0, 1, 2]);
    setting.flows[0].ceiling = Some(BitRate(40_000));
    setting.flows[1].guarantee = Some(BitRate(200_000));
    let mut b = Bench::with("pfrc", setting, &[]);
    assert_eq!(b.limits, [40, 200, 60]);
    b.full();
    b.full(); // 600: 40, and 280 for each of the others
    assert_eq!(b.limits, [40, 280, 280]);
}

#[test]
fn when_all_have_their_ceiling_nothing_grows() {
    let mut setting = gateway(&[0, 1]);
    setting.flows.iter_mut().for_each(|f| f.ceiling = Some(BitRate(100_000)));
    let mut b = Bench::with("pfrc", setting, &[]);
    b.full();
    assert_eq!(b.full(), "all 2 flows have as much as they may or can use");
    assert_eq!(b.limits, [100, 100]);
}

#[test]
fn refuses_settings_that_make_no_sense() {
    let refused = |change: fn(&mut Setting)| {
        let mut setting = gateway(&[0, 1]);
        change(&mut setting);
        start_with("pfrc", setting, &[]).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|s| s.flows[1].weight = 0.0),
        "pfrc: flow 1: a weight must be above 0, not 0"
    );
    assert_eq!(
        refused(|s| s.flows[1].weight = f64::NAN),
        "pfrc: flow 1: a weight must be above 0, not NaN"
    );
    assert!(refused(|s| s.flows[0].weight = -1.0).ends_with("not -1"));
    assert_eq!(
        refused(|s| s.flows.iter_mut().for_each(|f| f.guarantee = Some(BitRate(200_000)))),
        "pfrc: guarantees add up to 400 kbit/s; the links of this gateway are only sure to carry \
         300 kbit/s"
    );
    assert_eq!(
        refused(|s| {
            s.flows[0].guarantee = Some(BitRate(200_000));
            s.flows[0].ceiling = Some(BitRate(100_000));
        }),
        "pfrc: flow 0: a guarantee of 200 kbit/s above its ceiling of 100 kbit/s"
    );
    assert_eq!(refused(|s| s.neighbours.clear()), "pfrc: the gateway has no neighbour");
    let mut pfrc = crate::testing::lookup("pfrc").unwrap();
    assert_eq!(
        pfrc.set("epoch", 0.5).unwrap_err().to_string(),
        "pfrc: epoch must lie in 1 to 600, not 0.5"
    );
}

#[test]
fn announced_flows_get_a_class_and_gone_ones_lose_it() {
    let mut b = Bench::new("pfrc", 2);
    b.full();
    let newcomer = crate::FlowHere { weight: 2.0, ..flow(7) };
    let class = Class::Flow(FlowId(7));
    // 300 among weights of 1, 1 and 2.
    assert_eq!(limits(&mut b.instance, b.now, Event::FlowSeen(newcomer)), [(class, 150_000)]);
    assert_eq!(limits(&mut b.instance, b.now, Event::FlowSeen(newcomer)), [], "has one");
    let bad = crate::FlowHere { weight: 0.0, ..flow(8) };
    let done = actions(&mut b.instance, b.now, Event::FlowSeen(bad));
    assert_eq!(
        reasons_of(&done),
        ["flow 8: a weight must be above 0, not 0", "flow 8 may start at 100 kbit/s"]
    );
    let greedy = crate::FlowHere { guarantee: Some(BitRate(400_000)), ..flow(9) };
    let done = actions(&mut b.instance, b.now, Event::FlowSeen(greedy));
    assert!(reasons_of(&done)[0].contains("400 kbit/s, more than is sure"));
    let done = actions(&mut b.instance, b.now, Event::FlowGone(FlowId(7)));
    assert!(done.iter().any(|a| *a == Action::Remove { class }));
    assert!(actions(&mut b.instance, b.now, Event::FlowGone(FlowId(7))).is_empty());
}

#[test]
fn a_flow_that_needs_little_leaves_the_rest_to_others() {
    // Three hops want the maximum of 450, the fourth wants 10.
    let run = |name: &str| {
        let mut b = Bench::new(name, 4);
        for _ in 0..20 {
            let l = b.limits.clone();
            let fair = l[0] + l[1] + l[2] + l[3].min(10) <= 450;
            let far = if fair { l[2] } else { l[2] / 2 };
            b.look(&[l[0], l[1], far, l[3].min(10)]);
        }
        b.limits
    };
    assert_eq!(run("pfrc")[..3], [75, 75, 75], "Table 8.3: W/3N, 51 % of what there is");
    let ours = run("pfrc+constrained");
    assert!(ours[..3].iter().all(|l| *l as f64 > 0.9 * 440.0 / 3.0), "{ours:?}");
    assert_eq!(ours[3], 15, "its need and a half");
}

#[test]
fn a_constrained_flow_that_wants_more_gets_its_share() {
    let mut b = Bench::new("pfrc+constrained", 2);
    b.full();
    assert_eq!(b.limits, [90, 90], "W/5 by two");
    b.look(&[90, 10]);
    assert!(b.look(&[90, 10]).starts_with("flow 1 uses 10 kbit/s whatever it is allowed"));
    assert_eq!(b.limits[1], 15);
    for _ in 0..10 {
        b.full();
    }
    assert!(b.limits[1] > 200 && b.limits[1].abs_diff(b.limits[0]) <= 1, "{:?}", b.limits);
}

#[test]
fn a_starved_flow_is_not_taken_for_a_constrained_one() {
    // Above 400 the second flow gets the rest of the first.
    let mut b = Bench::new("pfrc+constrained", 2);
    for _ in 0..30 {
        let l = b.limits.clone();
        let why = b.look(&[l[0], l[1].min(400_u64.saturating_sub(l[0]))]);
        assert!(!why.contains("whatever"), "{why}");
    }
    assert_eq!(b.limits[0], b.limits[1]);
    assert!((160..=260).contains(&b.limits[0]), "{:?}", b.limits);
}

#[test]
fn the_plan_is_a_class_per_flow() {
    let i = start("pfrc", gateway(&[3, 1]));
    assert_eq!(i.plan.point, Point::Transit);
    let classes: Vec<_> = i.plan.classes.iter().map(|c| (c.class, c.limit, c.leaf)).collect();
    let half = Limit::Rate(BitRate(150_000));
    let leaf = Leaf::DropTail { packets: 5 };
    assert_eq!(
        classes,
        [(Class::Flow(FlowId(3)), half, leaf), (Class::Flow(FlowId(1)), half, leaf)]
    );
    assert_eq!(i.plan.template.unwrap().leaf, leaf);
}

#[test]
fn a_guarantee_is_kept_at_the_others_expense() {
    let mut setting = gateway(&[0, 1]);
    setting.flows[1].guarantee = Some(BitRate(200_000));
    for (name, other) in [("pfrc", 100), ("pfrc+relaxed", 50)] {
        let mut b = Bench::with(name, setting.clone(), &[]);
        assert_eq!(b.limits, [100, 200], "the lower bound of 300 less what is promised");
        b.full();
        // 160 of 200 are more than γ, but below the guarantee. A bound that can move is lowered at once,
        // without a trial, to 1.25 × 200 at most.
        for _ in 0..4 {
            b.look(&[b.limits[0], 160]);
        }
        assert_eq!(b.limits, [other, 200], "{name}");
    }
}

#[test]
fn a_run_starts_from_the_learned_limit() {
    let mut b = Bench::new("pfrc", 3);
    b.full();
    b.full();
    let learned = b.instance.control.learned().unwrap();
    assert_eq!(learned, BitRate(600_000), "(300 + 900) / 2");
    let mut next = start("pfrc", gateway(&[0, 1, 2]));
    let mut done = Actions::new();
    next.control.recall(learned, &mut done);
    let each = |f| (Class::Flow(FlowId(f)), 200_000);
    assert_eq!(limits_of(&done), [each(0), each(1), each(2)]);
    assert_eq!(next.control.learned(), Some(learned));
    // The value is clamped to the bounds.
    for (kept, taken) in [(u64::MAX, 900_000), (0, 300_000)] {
        next.control.recall(BitRate(kept), &mut done);
        assert_eq!(next.control.learned(), Some(BitRate(taken)));
    }
}

#[test]
fn bursts_uses_the_elapsed_time_between_readings() {
    // Counters are read every second, or at the next interval that divides the epoch: here 1, 1.25, 1.9 s.
    for epoch in [1.0, 10.0, 2.5, 1.9] {
        let starves = |part: u64| {
            let mut b = Bench::with("pfrc+bursts", gateway(&[0, 1, 2]), &[("epoch", epoch)]);
            let given =
                (0..40).map(|_| b.look(&[b.limits[0], b.limits[1], part * b.limits[2] / 100]));
            given.collect::<Vec<_>>().iter().any(|reasons| reasons.starts_with("flow 2 at"))
        };
        assert!(starves(50) && !starves(100), "{epoch}");
    }
}

#[test]
fn bursts_raises_by_a_quarter_and_waits_for_idle_starved_flows() {
    let mut b = Bench::new("pfrc+bursts", 3);
    let epoch = |b: &mut Bench, third: Option<u64>| {
        let looks = (0..10).map(|_| {
            let mut rates = b.limits.clone();
            rates[2] = third.unwrap_or(rates[2]);
            b.look(&rates)
        });
        looks.filter(|reasons| !reasons.is_empty()).last().unwrap_or_default()
    };
    epoch(&mut b, None);
    assert_eq!(b.limits, [125; 3], "W/3 by three and a quarter more, not twice as much");
    epoch(&mut b, None);
    let before = b.limits[0];
    let starved = epoch(&mut b, Some(10));
    assert!(starved.starts_with("flow 2 at 6 % of its allocation"), "{starved}");
    assert!(b.limits[0] < before);
    // A TCP in its timeouts: one more step down, then the others neither gain nor lose.
    let starved = epoch(&mut b, Some(0));
    assert!(starved.starts_with("flow 2 at 0 % of its allocation"), "{starved}");
    let kept = b.limits.clone();
    for _ in 0..4 {
        let lost = epoch(&mut b, Some(0));
        assert!(
            lost.starts_with("flow 2 sends nothing since it starved: its limit stays at"),
            "{lost}"
        );
        assert_eq!(b.limits, kept);
    }
    // It returns in time: no search starts again.
    let back = epoch(&mut b, None);
    assert!(back.starts_with("all 3 flows at 70 % of their allocation or more"), "{back}");
    assert!(b.limits[2] >= kept[2]);
}

/// The published bound W/3 (§7.5.2) does not move; every variant of ours moves it.
#[test]
fn only_variants_of_ours_go_below_the_lower_bound() {
    for (name, bound, moves) in [
        ("pfrc", 300, false),
        ("pfrc+exponential", 300, false),
        ("pfrc+relaxed", 300, true),
        ("pfrc+bursts", 300, true),
        ("pfrc+constrained", 180, true),
    ] {
        let mut b = Bench::new(name, 3);
        let mut least = u64::MAX;
        for n in 0..200 {
            // A mesh that carries a quarter of the bound, at rates that vary.
            b.look(&[[40, 25, 5], [25, 40, 12], [12, 5, 50]][n % 3]);
            least = least.min(b.limits.iter().sum());
        }
        assert_eq!(least < bound - 3, moves, "{name}: {least}");
        assert!(least >= 147, "{name}: {least}");
    }
}
