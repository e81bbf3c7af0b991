//! A link that serves a queue, for the tests of this crate.
#![allow(dead_code)]

use fairmesh_queueing::{Backlog, DropCause, Item, Queue, Verdict};
use fairmesh_units::{BitRate, Span, Stream, Time};

pub fn stream() -> Stream {
    Stream::new(1, "queueing/tests")
}

pub fn item(handle: u32, bytes: u32, flow: u32) -> Item {
    Item { handle, bytes, flow, ect: false, ect1: false, station: 0 }
}

pub fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Enqueues and expects the packet to be accepted.
pub fn put<Q: Queue>(q: &mut Q, now: Time, it: Item) {
    let v = q.enqueue(now, it, Backlog::NONE, &mut stream());
    assert!(matches!(v, Verdict::Queued | Verdict::Marked), "{v:?}");
}

pub fn drop_of(v: Verdict) -> Option<DropCause> {
    match v {
        Verdict::Dropped(c) | Verdict::Evicted(_, c) => Some(c),
        _ => None,
    }
}

/// A packet that left the link.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Time,
    pub item: Item,
}

/// Serves `q` from `from` to `until` at `link`, with four waiting packets per flow.
///
/// Flows are (number, packet bytes). Panics if the queue is not ready when `next_ready` predicted it.
pub fn saturate<Q: Queue>(
    q: &mut Q,
    from: Time,
    until: Time,
    link: BitRate,
    flows: &[(u32, u32)],
) -> Vec<Sent> {
    let mut rng = stream();
    let mut sent = Vec::new();
    let mut waiting = vec![0u32; flows.len()];
    let mut now = from;
    loop {
        for (n, &(flow, bytes)) in flows.iter().enumerate() {
            while waiting[n] < 4 {
                let v = q.enqueue(now, item(0, bytes, flow), Backlog::NONE, &mut rng);
                assert_eq!(v, Verdict::Queued);
                waiting[n] += 1;
            }
        }
        let ready = q.next_ready(now);
        assert!(ready >= now);
        if ready >= until {
            return sent;
        }
        now = ready;
        let it = q.dequeue(now).expect("ready when announced");
        waiting[flows.iter().position(|f| f.0 == it.flow).unwrap()] -= 1;
        sent.push(Sent { at: now, item: it });
        now += link.time_for(u64::from(it.bytes));
    }
}

/// Rate of the packets selected by `select`, over `[from, until)`.
pub fn rate(sent: &[Sent], from: Time, until: Time, select: impl Fn(&Sent) -> bool) -> f64 {
    let bytes: u64 = sent
        .iter()
        .filter(|s| s.at >= from && s.at < until && select(s))
        .map(|s| u64::from(s.item.bytes))
        .sum();
    bytes as f64 * 8.0 / until.since(from).as_secs_f64()
}

/// Checks that over every interval at most `rate × t + burst` left.
pub fn within(sent: &[Sent], rate: BitRate, burst: u64) -> Result<(), String> {
    for (i, first) in sent.iter().enumerate() {
        let mut bytes = 0u64;
        for last in &sent[i..] {
            bytes += u64::from(last.item.bytes);
            let ns = u128::from(last.at.since(first.at).as_nanos());
            let allowed = u128::from(rate.0) * ns / 8_000_000_000 + u128::from(burst);
            if u128::from(bytes) > allowed {
                return Err(format!("{bytes} B in {}, allowed {allowed}", last.at.since(first.at)));
            }
        }
    }
    Ok(())
}
