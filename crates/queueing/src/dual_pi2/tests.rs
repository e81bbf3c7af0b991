use super::*;
use crate::DisciplineSpec;

const BYTES: u32 = 1500;

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_micros(us)
}

fn packet(handle: u32, ect1: bool) -> Item {
    Item { handle, bytes: BYTES, flow: 0, ect: ect1, ect1, station: 0 }
}

/// Counts of one kind of packet.
#[derive(Default, Debug)]
struct Counts {
    sent: u32,
    marked: u32,
    dropped: u32,
    /// Mean and longest wait, in ms.
    waits: f64,
    longest: f64,
}

impl Counts {
    fn rate(&self, of: u32) -> f64 {
        f64::from(of) / f64::from(self.sent + self.dropped)
    }
}

/// Runs a link that sends a packet every 120 µs (100 Mbit/s).
///
/// The offered load is `l4s` and `classic` times that. Counts from 20 s to 40 s. `hold`: arrivals of a kind
/// pause while this many of its packets wait, as with a window-limited sender.
fn link(q: &mut DualPi2, l4s: f64, classic: f64, hold: [u32; 2]) -> [Counts; 2] {
    const STEP: u64 = 120;
    let mut rng = Stream::new(1, "dualpi2");
    let (mut seen, mut due) = ([Counts::default(), Counts::default()], [0.0; 2]);
    let mut born = std::collections::HashMap::new();
    let mut handle = 0;
    let mut waiting = [0u32; 2];
    for step in 0..(40_000_000 / STEP) {
        let now = at(step * STEP);
        let counted = step * STEP > 20_000_000;
        for (kind, rate) in [(0, l4s), (1, classic)] {
            due[kind] += rate;
            while due[kind] >= 1.0 {
                due[kind] -= 1.0;
                if waiting[kind] >= hold[kind] {
                    continue;
                }
                handle += 1;
                if q.enqueue(now, packet(handle, kind == 0), Backlog::NONE, &mut rng)
                    == Verdict::Queued
                {
                    born.insert(handle, now);
                    waiting[kind] += 1;
                }
            }
        }
        let left = q.dequeue(now);
        while let Some(late) = q.deferred_verdict() {
            let (item, dropped) = match late {
                DeferredVerdict::Dropped(item, _) => (item, true),
                DeferredVerdict::Marked(item) => (item, false),
            };
            let kind = usize::from(!item.ect1);
            if dropped {
                waiting[kind] -= 1;
                born.remove(&item.handle);
            }
            if counted {
                seen[kind].dropped += u32::from(dropped);
                seen[kind].marked += u32::from(!dropped);
            }
        }
        if let Some(item) = left {
            let kind = usize::from(!item.ect1);
            waiting[kind] -= 1;
            let waited = now.since(born.remove(&item.handle).unwrap()).as_secs_f64() * 1e3;
            if counted {
                let s = &mut seen[kind];
                s.sent += 1;
                s.waits += (waited - s.waits) / f64::from(s.sent);
                s.longest = s.longest.max(waited);
            }
        }
    }
    seen
}

fn queue(spec: DualPi2Spec) -> DualPi2 {
    DualPi2::new(spec)
}

/// §2.1: p_L = k · √p_C, at every load that the controller can hold.
#[test]
fn likelihoods_are_coupled_by_the_square() {
    for base in [0.01, 0.05, 0.1, 0.3, 0.45] {
        let mut q = queue(DualPi2Spec { alpha: 0.0, beta: 0.0, ..DualPi2Spec::default() });
        q.base = base;
        // Neither queue stands long enough for native marks.
        let [l4s, classic] = link(&mut q, 0.5, 0.49, [2, 4]);
        let (marks, drops) = (l4s.rate(l4s.marked), classic.rate(classic.dropped));
        assert!((marks / (2.0 * base) - 1.0).abs() < 0.02, "{base}: {marks}");
        assert!((drops / (base * base) - 1.0).abs() < 0.05, "{base}: {drops}");
        assert_eq!((l4s.dropped, classic.marked), (0, 0));
    }
}

/// A classic load with a rate that falls with √p converges to the target.
///
/// L4S packets hardly wait.
#[test]
fn classic_packets_wait_the_target_and_l4s_ones_do_not() {
    // Offered .3 of L4S and a classic overload of 4 %: dropping 4 to 8 % of it holds the queue.
    let mut q = queue(DualPi2Spec::default());
    let [l4s, classic] = link(&mut q, 0.3, 0.74, [4, 100_000]);
    assert!((classic.waits - 15.0).abs() < 1.5, "{classic:?}");
    assert!(l4s.waits < 0.2 && l4s.longest < 1.5, "{l4s:?}");
    // The excess is dropped.
    let surplus = 0.04 / 0.74;
    assert!((classic.rate(classic.dropped) / surplus - 1.0).abs() < 0.1, "{classic:?}");
    let coupled = 2.0 * libm::sqrt(classic.rate(classic.dropped));
    assert!((l4s.rate(l4s.marked) / coupled - 1.0).abs() < 0.1, "{l4s:?}");
}

/// The native marks of a standing L4S queue.
///
/// No packet is marked below .8 ms, all above 1.2 ms, half between.
#[test]
fn l4s_packets_are_marked_by_their_own_wait() {
    for (packets, expected) in [(4, 0.0), (8, 0.4), (9, 0.7), (14, 1.0)] {
        let mut q = queue(DualPi2Spec::default());
        let [l4s, _] = link(&mut q, 1.2, 0.0, [packets, 0]);
        // This many wait, and each step is 120 µs.
        assert!((l4s.waits - 0.12 * f64::from(packets - 1)).abs() < 0.13, "{packets}: {l4s:?}");
        let rate = l4s.rate(l4s.marked);
        assert!((rate - expected).abs() < 0.31, "{packets}: {rate}");
        if expected == 0.0 || expected == 1.0 {
            assert!((rate - expected).abs() < 1e-3, "{packets}: {rate}");
        }
    }
}

/// §4.2.2: an L4S flood leaves the classic queue its share.
///
/// Each may use capacity that the other leaves.
#[test]
fn neither_starves_the_other() {
    let mut q = queue(DualPi2Spec { limit: Limit::Packets(200), ..DualPi2Spec::default() });
    let [l4s, classic] = link(&mut q, 2.0, 0.3, [50, 50]);
    let share = f64::from(classic.sent) / f64::from(l4s.sent + classic.sent);
    assert!((share - 0.1).abs() < 0.01, "{share}");
    let mut q = queue(DualPi2Spec::default());
    let [l4s, classic] = link(&mut q, 0.0, 0.9, [0, 100]);
    assert_eq!((l4s.sent, classic.dropped, classic.marked), (0, 0, 0));
}

/// §4.2.3: if marks and drops have no effect, both queues lose packets.
///
/// L4S is limited before its buffer is full.
#[test]
fn overload_is_dropped_from_both() {
    let mut q = queue(DualPi2Spec::default());
    let [l4s, classic] = link(&mut q, 0.7, 0.7, [100_000, 100_000]);
    assert!(l4s.dropped > 0 && classic.dropped > 0);
    assert!(q.base <= 0.5 + 1e-12);
    assert!((l4s.rate(l4s.dropped) - 0.25).abs() < 0.02, "{l4s:?}");
}

/// An idle link resets the state.
#[test]
fn an_idle_link_resets_the_probability() {
    let mut q = queue(DualPi2Spec::default());
    link(&mut q, 0.3, 0.9, [4, 100_000]);
    assert!(q.base > 0.1);
    while q.dequeue(at(40_000_000)).is_some() {}
    while q.deferred_verdict().is_some() {}
    q.adjust(at(90_000_000));
    assert_eq!(q.base, 0.0);
}

#[test]
fn impossible_settings_are_refused() {
    let message = |spec| DisciplineSpec::DualPi2(spec).build().map(|_| ()).unwrap_err().to_string();
    let base = DualPi2Spec::default();
    assert_eq!(message(DualPi2Spec { target: Span::ZERO, ..base }), "target must not be zero");
    assert_eq!(
        message(DualPi2Spec { limit: Limit::Packets(0), ..base }),
        "buffer must not be zero"
    );
    assert!(
        message(DualPi2Spec { classic_share: 0.0, ..base })
            .starts_with("classic_share must lie in")
    );
    assert!(message(DualPi2Spec { coupling: f64::NAN, ..base }).contains("coupling"));
}
