//! Rules of the draft, one by one.
//!
//! Segments are 1000 bytes; the path has 1 MB/s and 100 ms unless stated.

use super::loss::inflight_at_loss;
use super::*;

const MSS: u64 = 1000;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn window(segments: u64) -> Window {
    Window { cwnd: segments * MSS, ssthresh: u64::MAX, mss: MSS }
}

/// A path driven round trip by round trip, with one acknowledgement each.
struct Rig {
    b: Bbr3,
    w: Window,
    now: Time,
    delivered: u64,
    /// Bytes in flight at its acknowledgements; `None`: the rate times a round trip.
    in_flight: Option<u64>,
    full: bool,
    /// True if the round-trip probe is due as in the draft; otherwise it never is.
    ages: bool,
}

impl Rig {
    fn new() -> Rig {
        let mut b = Bbr3::new(10 * MSS, true);
        b.start(at(0), &window(10), Some(Span::from_millis(100)));
        Rig {
            b,
            w: window(10),
            now: at(0),
            delivered: 0,
            in_flight: None,
            full: false,
            ages: false,
        }
    }

    /// Runs a round trip of 100 ms with this delivery rate, bytes/s, and this loss.
    ///
    /// The loss is of the data in flight.
    fn round(&mut self, rate: f64, lost: u64) {
        self.round_of(rate, lost, 100);
    }

    fn round_of(&mut self, rate: f64, lost: u64, ms: u64) {
        self.now += Span::from_millis(ms);
        if !self.ages {
            self.b.probe_rtt_at = self.now;
        }
        let volume = (rate * ms as f64 / 1e3) as u64;
        let prior = self.delivered;
        self.delivered += volume;
        let in_flight = self.in_flight.unwrap_or(volume);
        let rtt = Some(Span::from_millis(ms));
        let p = Progress {
            now: self.now,
            in_flight,
            full: self.full,
            srtt: rtt,
            ..Progress::default()
        };
        let sample = RateSample {
            rate: Some(rate),
            prior,
            total: self.delivered,
            now: volume,
            app_limited: false,
            rtt,
            interval: Span::from_millis(ms),
            in_flight,
            lost,
        };
        self.b.on_ack(&mut self.w, &p, sample);
    }

    /// Reports the loss of a segment, with the total lost since it was sent.
    fn lose(&mut self, seq: u64, lost: u64, in_flight: u64) {
        let loss = Loss { seq, len: MSS as u32, in_flight, lost, app_limited: false };
        self.b.on_lost(self.now, &mut self.w, &loss, self.delivered);
    }

    /// Runs rounds at 1 MB/s until the state is reached; returns their number.
    fn reach(&mut self, state: State) -> u32 {
        let mut rounds = 0;
        while self.b.state != state {
            self.round(1e6, 0);
            rounds += 1;
            assert!(rounds < 200, "{:?} never became {state:?}", self.b.state);
        }
        rounds
    }

    /// Returns a path in `Up`, with a long-term bound.
    fn probing(bound: u64) -> Rig {
        let mut rig = Rig::new();
        rig.reach(State::Cruise);
        rig.b.inflight_longterm = bound;
        rig.reach(State::Up);
        rig
    }
}

#[test]
fn startup_paces_the_initial_window_and_ends_after_three_rounds_without_growth() {
    let mut rig = Rig::new();
    let initial = 2.77 * 10.0 * MSS as f64 / 0.1;
    assert!((rig.b.pacing_rate() - initial).abs() < 1.0);
    for rate in [1e5, 2e5, 4e5, 8e5, 1e6] {
        rig.round(rate, 0);
        assert_eq!(rig.b.state, State::Startup);
    }
    // 1e6 is a quarter more than 8e5; the next rate is not.
    rig.round(1e6, 0);
    rig.round(1.1e6, 0);
    assert_eq!(rig.b.state, State::Startup);
    rig.in_flight = Some(300 * MSS);
    rig.round(1.2e6, 0);
    assert_eq!(rig.b.state, State::Drain);
    assert!((rig.b.pacing_rate() - 0.5 * 1.2e6 * 0.99).abs() < 1.0);
    // The path holds 1.2 MB/s for 100 ms.
    rig.in_flight = Some(119 * MSS);
    rig.round(1.2e6, 0);
    assert!(rig.b.state.is_probe_bw());
}

#[test]
fn a_drain_that_does_not_empty_the_path_ends_after_its_fourth_round() {
    let mut rig = Rig::new();
    rig.in_flight = Some(1000 * MSS);
    rig.reach(State::Drain);
    for _ in 0..3 {
        rig.round(1e6, 0);
        assert_eq!(rig.b.state, State::Drain);
    }
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Down);
}

#[test]
fn startup_ends_by_losses_only_if_they_are_many_apart_and_during_a_recovery() {
    let run = |ranges: u64, lost: u64, recovering: bool| {
        let mut rig = Rig::new();
        rig.in_flight = Some(100 * MSS);
        rig.round(1e5, 0);
        if recovering {
            rig.b.enter_recovery(&mut rig.w, 0);
        }
        for i in 0..ranges {
            rig.lose(2 * i * MSS, (i + 1) * MSS, 100 * MSS);
        }
        // A full round trip after the first loss was detected.
        rig.round(4e5, lost);
        rig.b.state != State::Startup
    };
    assert!(run(6, 3 * MSS, true));
    assert!(!run(5, 3 * MSS, true));
    assert!(!run(6, 2 * MSS, true), "two of a hundred are no more than 2 %");
    assert!(!run(6, 3 * MSS, false));
}

#[test]
fn losses_in_startup_bound_inflight_to_the_delivered_volume() {
    let mut rig = Rig::new();
    rig.round(1e6, 0);
    rig.b.enter_recovery(&mut rig.w, 0);
    for i in 0..6 {
        rig.lose(2 * i * MSS, 6 * MSS, 150 * MSS);
    }
    rig.in_flight = Some(150 * MSS);
    rig.round(2e6, 6 * MSS);
    // The round trip delivered 200 segments; bandwidth and propagation give 100 before this round
    // is counted.
    assert_eq!(rig.b.inflight_longterm, 200 * MSS);
    assert!(rig.b.full_bw_reached);
}

#[test]
fn the_cycle_is_down_cruise_refill_up() {
    let mut rig = Rig::new();
    rig.reach(State::Down);
    rig.in_flight = Some(90 * MSS);
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Cruise);
    assert!((rig.b.pacing_rate() - 0.99e6).abs() < 1.0);
    let from = rig.now;
    // A bandwidth-delay product of 100 segments allows 63 round trips, so the two to three seconds come first.
    rig.reach(State::Refill);
    let waited = (rig.now - from).as_secs_f64();
    assert!((1.8..3.1).contains(&waited), "{waited}");
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Up);
    assert!((rig.b.pacing_rate() - 1.25 * 0.99e6).abs() < 1.0);
    // Three rounds with less than a quarter more.
    for _ in 0..3 {
        assert_eq!(rig.b.state, State::Up);
        rig.round(1e6, 0);
    }
    assert_eq!(rig.b.state, State::Down);
    assert!((rig.b.pacing_rate() - 0.9 * 0.99e6).abs() < 1.0);
}

#[test]
fn a_small_window_is_probed_after_as_many_rounds_as_it_has_segments() {
    // 10 segments a round trip: Reno's time between losses.
    let mut rig = Rig::new();
    for _ in 0..20 {
        if rig.b.state == State::Down {
            break;
        }
        rig.round(1e5, 0);
    }
    let mut rounds = 0;
    while rig.b.state != State::Refill && rounds < 100 {
        rig.round(1e5, 0);
        rounds += 1;
    }
    assert!((9..=10).contains(&rounds), "{rounds}");
}

#[test]
fn a_probe_with_more_than_two_percent_loss_lowers_the_inflight_bound() {
    let mut rig = Rig::probing(200 * MSS);
    // Exactly 2 % is allowed.
    rig.lose(0, 3 * MSS, 150 * MSS);
    assert_eq!((rig.b.state, rig.b.inflight_longterm), (State::Up, 200 * MSS));
    rig.lose(5 * MSS, 4 * MSS, 150 * MSS);
    assert_eq!(rig.b.state, State::Down);
    // Of the 149 segments before it 3 were lost; 2 % are 2.98: the threshold was crossed before
    // this segment.
    assert_eq!(rig.b.inflight_longterm, 149 * MSS);
    assert!(rig.b.prev_probe_too_high);
    // Once per probe.
    rig.lose(9 * MSS, 9 * MSS, 120 * MSS);
    assert_eq!(rig.b.inflight_longterm, 149 * MSS);
}

#[test]
fn a_bound_falls_by_at_most_three_tenths() {
    let mut rig = Rig::probing(200 * MSS);
    rig.lose(0, 4 * MSS, 20 * MSS);
    let target = rig.b.target_inflight(&rig.w);
    assert_eq!(rig.b.inflight_longterm, (target as f64 * 0.7) as u64);
}

#[test]
fn the_volume_at_the_loss_solves_the_threshold_within_the_segment() {
    // 99 before it, none lost: x of this one with x = 2 % of (99 + x).
    let loss = Loss { seq: 0, len: 10_000, in_flight: 109_000, lost: 10_000, app_limited: false };
    let volume = inflight_at_loss(&loss) as f64;
    let x = volume - 99_000.0;
    assert!((x / volume - 0.02).abs() < 1e-4, "{volume}");
}

#[test]
fn a_bound_grows_by_one_two_four_segments_in_successive_round_trips() {
    let mut rig = Rig::probing(100 * MSS);
    rig.full = true;
    rig.in_flight = Some(90 * MSS);
    rig.w.cwnd = 100 * MSS;
    let mut grown = Vec::new();
    for _ in 0..4 {
        let before = rig.b.inflight_longterm;
        rig.w.cwnd = before;
        // As the other acknowledgements of a round trip do.
        rig.b.full_bw_count = 0;
        // A window per round trip.
        rig.round(before as f64 * 10.0, 0);
        assert_eq!(rig.b.state, State::Up, "the bound, not the path, was the limit");
        grown.push((rig.b.inflight_longterm - before) / MSS);
    }
    assert_eq!(grown, [1, 2, 4, 8]);
}

#[test]
fn cruising_leaves_fifteen_percent_free_and_probing_does_not() {
    let mut rig = Rig::new();
    rig.reach(State::Cruise);
    rig.b.inflight_longterm = 100 * MSS;
    rig.in_flight = Some(80 * MSS);
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Cruise);
    assert_eq!(rig.w.cwnd, 85 * MSS);
    rig.reach(State::Up);
    assert_eq!(rig.w.cwnd, 100 * MSS);
}

#[test]
fn a_probe_after_one_that_went_too_high_stops_at_its_level_and_is_repeated_at_once() {
    let mut rig = Rig::probing(200 * MSS);
    rig.lose(0, 4 * MSS, 120 * MSS);
    let level = rig.b.inflight_longterm;
    rig.in_flight = Some(60 * MSS);
    rig.reach(State::Up);
    rig.in_flight = Some(level);
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Down);
    assert!(rig.b.prev_probe_precautionary);
    // A round trip without loss: no cruise in between.
    rig.in_flight = Some(60 * MSS);
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Refill);
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Up);
    rig.in_flight = Some(level);
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Up, "this time it stays");
}

#[test]
fn a_lossy_round_lowers_the_short_term_bounds_and_a_probe_removes_them() {
    let mut rig = Rig::new();
    rig.reach(State::Cruise);
    let cwnd = rig.w.cwnd;
    rig.lose(0, MSS, 100 * MSS);
    rig.round(0.9e6, MSS);
    assert_eq!(rig.b.bw_shortterm, 1e6, "the best of the round and of the one before");
    rig.lose(0, MSS, 100 * MSS);
    rig.round(0.5e6, MSS);
    rig.lose(0, MSS, 100 * MSS);
    rig.round(0.5e6, MSS);
    // Reduced to 0.7 at most, and not below the delivered rate.
    let floor = 0.7 * rig.b.max_bw.get();
    assert!((floor * 0.7..=floor * 1.3).contains(&rig.b.bw), "{}", rig.b.bw);
    assert!(rig.b.bw >= 0.5e6 && rig.b.inflight_shortterm < cwnd);
    rig.in_flight = Some(10 * MSS);
    rig.reach(State::Refill);
    assert_eq!((rig.b.bw_shortterm, rig.b.inflight_shortterm), (f64::INFINITY, UNBOUNDED));
    assert_eq!(rig.b.bw, rig.b.max_bw.get());
}

#[test]
fn bandwidth_is_kept_for_two_cycles() {
    let mut rig = Rig::new();
    rig.reach(State::Cruise);
    rig.round(3e6, 0);
    let mut cycles = 0;
    while rig.b.max_bw.get() > 1e6 {
        rig.reach(State::Up);
        rig.reach(State::Down);
        rig.round(1e6, 0);
        cycles += 1;
        assert!(cycles < 5);
    }
    assert_eq!(cycles, 2);
}

#[test]
fn probe_rtt_halves_inflight_for_200_ms_after_five_seconds() {
    let mut rig = Rig::new();
    (rig.in_flight, rig.ages) = (Some(90 * MSS), true);
    rig.reach(State::ProbeRtt);
    assert!((5.0..5.3).contains(&rig.now.as_secs_f64()), "{:?}", rig.now);
    assert_eq!(rig.w.cwnd, 50 * MSS);
    assert!(rig.b.hides_samples());
    rig.in_flight = Some(40 * MSS);
    rig.round_of(0.5e6, 0, 90);
    let from = rig.now;
    while rig.b.state == State::ProbeRtt && rig.now < at(9_000) {
        rig.round_of(0.5e6, 0, 90);
    }
    let lasted = (rig.now - from).as_secs_f64();
    assert!((0.2..0.3).contains(&lasted), "{lasted}");
    assert_eq!(rig.b.state, State::Cruise);
    assert_eq!(rig.b.min_rtt, Some(Span::from_millis(90)));
    // The window returns immediately: two bandwidth-delay products, and the aggregated data.
    assert!(rig.w.cwnd >= 180 * MSS, "{}", rig.w.cwnd);
}

#[test]
fn a_longer_round_trip_is_believed_after_ten_seconds() {
    let mut rig = Rig::new();
    (rig.in_flight, rig.ages) = (Some(40 * MSS), true);
    while rig.now < at(9_700) {
        rig.round_of(1e6, 0, 150);
        assert_eq!(rig.b.min_rtt, Some(Span::from_millis(100)));
    }
    while rig.now < at(16_000) {
        rig.round_of(1e6, 0, 150);
    }
    assert_eq!(rig.b.min_rtt, Some(Span::from_millis(150)));
}

#[test]
fn aggregated_acknowledgements_widen_the_window() {
    let mut rig = Rig::new();
    rig.reach(State::Cruise);
    rig.b.extra_acked = MaxOfRounds::default();
    let from = rig.now + Span::from_secs(1);
    // One segment per millisecond, which is the rate.
    for ms in 0..100 {
        rig.b.update_ack_aggregation(from + Span::from_millis(ms), MSS, &rig.w);
    }
    assert_eq!(rig.b.extra_acked.get(), MSS);
    // An idle period, then thirty segments together.
    let late = from + Span::from_millis(120);
    rig.b.update_ack_aggregation(late, 20 * MSS, &rig.w);
    for _ in 0..10 {
        rig.b.update_ack_aggregation(late, MSS, &rig.w);
    }
    assert_eq!(rig.b.extra_acked.get(), 30 * MSS);
    let plain = rig.b.bdp_multiple(rig.b.bw, 2.0);
    rig.w.cwnd = 1000 * MSS;
    rig.b.set_window(&mut rig.w, 0, rig.delivered);
    assert_eq!(rig.w.cwnd, plain + 30 * MSS);
    // It is discarded after ten round trips.
    rig.b.round += 10;
    rig.b.update_ack_aggregation(late + Span::from_secs(1), MSS, &rig.w);
    assert_eq!(rig.b.extra_acked.get(), MSS);
}

#[test]
fn a_mark_counts_as_a_round_that_lost_too_much() {
    let mut rig = Rig::probing(200 * MSS);
    rig.w.cwnd = 150 * MSS;
    rig.b.on_mark(rig.now, &mut rig.w, 140 * MSS, rig.delivered);
    assert_eq!((rig.b.state, rig.b.inflight_longterm), (State::Down, 140 * MSS));
    let mut rig = Rig::new();
    rig.round(1e6, 0);
    rig.b.on_mark(rig.now, &mut rig.w, 100 * MSS, rig.delivered);
    rig.in_flight = Some(500 * MSS);
    rig.round(1e6, 0);
    assert_eq!(rig.b.state, State::Drain);
}

#[test]
fn a_timeout_leaves_one_segment_and_the_repair_brings_the_window_back() {
    let mut rig = Rig::new();
    rig.reach(State::Cruise);
    let before = rig.w.cwnd;
    rig.b.on_timeout(&mut rig.w);
    assert_eq!(rig.w.cwnd, MSS);
    rig.b.leave_recovery(&mut rig.w);
    assert_eq!(rig.w.cwnd, before);
}

#[test]
fn after_an_idle_period_it_paces_at_the_estimated_rate() {
    let mut rig = Rig::probing(UNBOUNDED);
    rig.b.restart(rig.now, &mut rig.w, rig.delivered);
    assert!((rig.b.pacing_rate() - rig.b.bw * 0.99).abs() < 1.0);
    // The idle period counts as a probe of the round trip.
    rig.ages = true;
    rig.now += Span::from_secs(20);
    rig.round(1e6, 0);
    assert_ne!(rig.b.state, State::ProbeRtt);
}
