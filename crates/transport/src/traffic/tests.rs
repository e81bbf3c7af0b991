use fairmesh_units::{BitRate, Bytes};

use super::*;

fn rng() -> Stream {
    Stream::new(1, "traffic")
}

fn secs(s: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(s)
}

fn fire(source: &mut Source) -> (Time, Vec<Action>) {
    let now = source.next_deadline();
    let mut done = Vec::new();
    source.on_deadline(now, &mut |d| done.push(d));
    (now, done)
}

fn deliver(source: &mut Source, now: Time, side: Side, bytes: u64) -> Vec<Action> {
    let mut done = Vec::new();
    source.on_delivered(now, side, bytes, &mut |d| done.push(d));
    done
}

const fn up(bytes: u64) -> Action {
    Action::Write { side: Side::Client, bytes }
}

#[test]
fn bulk_starts_and_stops_at_its_times() {
    let mut s = Source::new(&TrafficSpec::Bulk, secs(1.0), secs(9.0), rng());
    assert_eq!(fire(&mut s), (secs(1.0), vec![Action::Connect, up(u64::MAX)]));
    assert!(deliver(&mut s, secs(2.0), Side::Server, 1000).is_empty());
    assert_eq!(fire(&mut s), (secs(9.0), vec![Action::Close]));
    assert_eq!(s.next_deadline(), Time::NEVER);
    let never = Source::new(&TrafficSpec::Bulk, secs(9.0), secs(9.0), rng());
    assert_eq!(never.next_deadline(), Time::NEVER);
}

#[test]
fn early_calls_do_nothing() {
    let mut s = Source::new(&TrafficSpec::Bulk, secs(1.0), Time::NEVER, rng());
    s.on_deadline(secs(0.5), &mut |d| panic!("{d:?}"));
    assert_eq!(s.next_deadline(), secs(1.0));
}

#[test]
fn files_follow_each_other() {
    let spec = TrafficSpec::Files {
        size: SizeLaw::Fixed(Bytes(5000)),
        pause: Pause::Fixed(Span::from_secs(2)),
        count: Some(2),
    };
    let mut s = Source::new(&spec, secs(0.0), Time::NEVER, rng());
    assert_eq!(fire(&mut s).1, [Action::Connect, up(5000), Action::Close]);
    assert_eq!(s.next_deadline(), Time::NEVER);
    deliver(&mut s, secs(1.0), Side::Server, 4000);
    assert_eq!(s.next_deadline(), Time::NEVER);
    assert_eq!(s.completed(), None);
    deliver(&mut s, secs(3.0), Side::Server, 1000);
    assert_eq!([s.completed(), s.completed()], [Some(secs(0.0)), None]);
    assert_eq!(fire(&mut s), (secs(5.0), vec![Action::Connect, up(5000), Action::Close]));
    deliver(&mut s, secs(6.0), Side::Server, 5000);
    assert_eq!(s.next_deadline(), Time::NEVER);
}

#[test]
fn pareto_files_have_the_mean_and_differ() {
    let size = SizeLaw::Pareto { mean: Bytes(30_000), shape: 2.5 };
    let mut rng = rng();
    let sizes: Vec<u64> = (0..100_000).map(|_| size.draw(&mut rng)).collect();
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
    assert!((mean / 30_000.0 - 1.0).abs() < 0.05, "{mean}");
    // The scale, mean (a - 1) / a, is the minimum.
    assert!(sizes.iter().all(|&b| b >= 18_000));
}

#[test]
fn cbr_keeps_its_rate() {
    for jitter in [0.0, 0.5, 1.0] {
        let spec = TrafficSpec::Cbr { rate: BitRate(800_000), datagram: 1000, jitter };
        let mut s = Source::new(&spec, secs(0.5), secs(100.5), rng());
        let (mut count, mut last, mut gaps) = (0u32, None, Vec::new());
        while s.next_deadline() < secs(100.5) {
            let (now, done) = fire(&mut s);
            assert_eq!(done, [Action::Datagram { bytes: 1000 }]);
            count += 1;
            if let Some(before) = last.replace(now) {
                gaps.push((now - before).as_secs_f64());
            }
        }
        assert!((f64::from(count) - 10_000.0).abs() < 150.0, "{jitter}: {count}");
        let (lo, hi) = (0.01 * (1.0 - jitter) - 1e-8, 0.01 * (1.0 + jitter) + 1e-8);
        assert!(gaps.iter().all(|&g| (lo..=hi).contains(&g)));
        // At the stop: no connection to close, and no further action.
        assert_eq!(fire(&mut s).1, []);
        assert_eq!(s.next_deadline(), Time::NEVER);
    }
}

#[test]
fn http_alternates_requests_and_responses() {
    let spec = TrafficSpec::Http {
        request: SizeLaw::Fixed(Bytes(300)),
        response: SizeLaw::Fixed(Bytes(20_000)),
        asking: RequestTiming::AfterAnswer(Pause::Fixed(Span::from_secs(1))),
        per_connection: 2,
    };
    assert_eq!(spec.opener(), FlowEnd::To);
    let mut s = Source::new(&spec, secs(0.0), Time::NEVER, rng());
    assert_eq!(fire(&mut s).1, [Action::Connect, up(300)]);
    assert_eq!(deliver(&mut s, secs(0.1), Side::Server, 200), []);
    let answer = Action::Write { side: Side::Server, bytes: 20_000 };
    assert_eq!(deliver(&mut s, secs(0.2), Side::Server, 100), [answer]);
    assert_eq!(deliver(&mut s, secs(0.5), Side::Client, 19_999), []);
    assert_eq!(s.next_deadline(), Time::NEVER);
    assert_eq!(deliver(&mut s, secs(0.6), Side::Client, 1), []);
    assert_eq!([s.completed(), s.completed()], [Some(secs(0.0)), None]);
    // Second request, same connection; after its response the connection closes.
    assert_eq!(fire(&mut s), (secs(1.6), vec![up(300)]));
    assert_eq!(deliver(&mut s, secs(1.7), Side::Server, 300), [answer]);
    assert_eq!(deliver(&mut s, secs(1.9), Side::Client, 20_000), [Action::Close]);
    assert_eq!(fire(&mut s), (secs(2.9), vec![Action::Connect, up(300)]));
}

#[test]
fn an_open_loop_sends_requests_regardless_of_responses() {
    let spec = TrafficSpec::Http {
        request: SizeLaw::Fixed(Bytes(300)),
        response: SizeLaw::Fixed(Bytes(20_000)),
        asking: RequestTiming::Every(Pause::Fixed(Span::from_secs(1))),
        per_connection: 1,
    };
    let mut s = Source::new(&spec, secs(0.0), secs(9.0), rng());
    assert_eq!(fire(&mut s).1, [Action::Connect, up(300)]);
    // One connection for all, although no response has arrived yet.
    assert_eq!(fire(&mut s), (secs(1.0), vec![up(300)]));
    assert_eq!(fire(&mut s), (secs(2.0), vec![up(300)]));
    // Two requests and a part of the third arrive together: one write for both responses.
    let two = Action::Write { side: Side::Server, bytes: 40_000 };
    assert_eq!(deliver(&mut s, secs(2.1), Side::Server, 700), [two]);
    assert_eq!(deliver(&mut s, secs(2.5), Side::Client, 30_000), []);
    assert_eq!([s.completed(), s.completed()], [Some(secs(0.0)), None]);
    let third = Action::Write { side: Side::Server, bytes: 20_000 };
    assert_eq!(deliver(&mut s, secs(2.6), Side::Server, 200), [third]);
    // A response does not change the time of the next request.
    assert_eq!(deliver(&mut s, secs(2.7), Side::Client, 30_000), []);
    assert_eq!([s.completed(), s.completed()], [Some(secs(1.0)), Some(secs(2.0))]);
    assert_eq!(fire(&mut s), (secs(3.0), vec![up(300)]));
    // After the stop there are no responses.
    while s.next_deadline() < secs(9.0) {
        fire(&mut s);
    }
    assert_eq!(fire(&mut s).1, [Action::Close]);
    assert_eq!(deliver(&mut s, secs(9.5), Side::Server, 300), []);
    assert_eq!(s.next_deadline(), Time::NEVER);
}

#[test]
fn transfers_in_progress_at_the_stop_complete() {
    let spec = TrafficSpec::Files {
        size: SizeLaw::Fixed(Bytes(1000)),
        pause: Pause::Fixed(Span::ZERO),
        count: None,
    };
    let mut s = Source::new(&spec, secs(1.0), secs(5.0), rng());
    fire(&mut s);
    assert!(deliver(&mut s, secs(6.0), Side::Server, 1000).is_empty());
    assert_eq!(s.completed(), Some(secs(1.0)));
}

#[test]
fn sizes_follow_their_laws() {
    let mut rng = rng();
    let mut draws = |law: SizeLaw| -> (f64, f64, u64, u64) {
        let sizes: Vec<u64> = (0..100_000).map(|_| law.draw(&mut rng)).collect();
        let n = sizes.len() as f64;
        let mean = sizes.iter().sum::<u64>() as f64 / n;
        let var = sizes.iter().map(|&s| (s as f64 - mean).powi(2)).sum::<f64>() / n;
        (mean, var.sqrt(), *sizes.iter().min().unwrap(), *sizes.iter().max().unwrap())
    };
    let (mean, deviation, ..) =
        draws(SizeLaw::Normal { mean: Bytes(50_000), deviation: Bytes(10_000) });
    assert!((mean - 50_000.0).abs() < 150.0 && (deviation - 10_000.0).abs() < 100.0);
    let (mean, _, least, most) = draws(SizeLaw::Uniform { least: Bytes(200), most: Bytes(1000) });
    assert!((mean - 600.0).abs() < 4.0 && (least, most) == (200, 1000), "{mean} {least} {most}");
    // A wide distribution is truncated at one byte.
    assert_eq!(draws(SizeLaw::Normal { mean: Bytes(10), deviation: Bytes(100) }).2, 1);
}

#[test]
fn limited_writes_at_its_rate() {
    let spec = TrafficSpec::Limited { rate: BitRate(100_000), chunk: 1250 };
    let mut s = Source::new(&spec, secs(0.0), secs(10.05), rng());
    assert_eq!(fire(&mut s), (secs(0.0), vec![Action::Connect, up(1250)]));
    let mut written = 1250;
    loop {
        let (_, done) = fire(&mut s);
        if done == [Action::Close] {
            break;
        }
        assert_eq!(done, [up(1250)]);
        written += 1250;
    }
    assert_eq!(written, 101 * 1250); // 100 kbit/s for 10 s, and the chunk at 10.0
}

#[test]
fn nothing_is_started_after_the_stop() {
    let spec = TrafficSpec::Files {
        size: SizeLaw::Fixed(Bytes(1000)),
        pause: Pause::Exponential(Span::from_secs(100)),
        count: None,
    };
    let mut s = Source::new(&spec, secs(0.0), secs(5.0), rng());
    fire(&mut s);
    deliver(&mut s, secs(4.0), Side::Server, 1000);
    assert_eq!(fire(&mut s), (secs(5.0), vec![Action::Close]));
    assert!(deliver(&mut s, secs(6.0), Side::Server, 1000).is_empty());
    assert_eq!(s.next_deadline(), Time::NEVER);
}

#[test]
fn the_same_stream_gives_the_same_traffic() {
    let spec = TrafficSpec::Cbr { rate: BitRate(1_000_000), datagram: 500, jitter: 0.5 };
    let times = || {
        let mut s = Source::new(&spec, secs(0.0), Time::NEVER, rng());
        (0..50).map(|_| fire(&mut s).0).collect::<Vec<_>>()
    };
    assert_eq!(times(), times());
}

#[test]
fn invalid_settings_are_refused() {
    let cbr = |rate, datagram, jitter| TrafficSpec::Cbr { rate: BitRate(rate), datagram, jitter };
    assert_eq!(cbr(0, 1, 0.0).validate(), Err(TrafficError::Zero("rate")));
    assert_eq!(cbr(1, 0, 0.0).validate(), Err(TrafficError::Zero("datagram size")));
    assert_eq!(cbr(1, 1, 1.5).validate(), Err(TrafficError::Jitter(1.5)));
    assert!(cbr(1, 1, f64::NAN).validate().is_err());
    assert_eq!(cbr(1, 70_000, 0.0).validate(), Err(TrafficError::DatagramTooLarge(70_000)));
    let files = |shape| TrafficSpec::Files {
        size: SizeLaw::Pareto { mean: Bytes(1), shape },
        pause: Pause::Fixed(Span::ZERO),
        count: None,
    };
    assert_eq!(files(1.0).validate(), Err(TrafficError::Shape(1.0)));
    assert_eq!(files(1.5).validate(), Ok(()));
}
