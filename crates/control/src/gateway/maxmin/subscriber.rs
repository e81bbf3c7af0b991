//! State of one flow: its plan, its counters and its share.

use fairmesh_units::{FlowId, NodeId};

use crate::gateway::floods::{News, Seen, Watch};
use crate::{Counters, PathSigns};

use super::service::{Passed, Rules, Service, Standing};

/// Headroom above the rate that a subscriber can use, so that a growing need shows.
pub(super) const ROOM: f64 = 1.25;
/// Fraction of its usable rate that a subscriber must have.
const OWED: f64 = 0.95;
/// Relative change of a limit below which its class is not changed, as each change is a system call.
const CHANGED: f64 = 0.004;
/// Initial time between two trials of a single subscriber, s.
const BACKOFF: f64 = 60.0;
/// Maximum time between two trials of a single subscriber, s.
const LATEST: f64 = 960.0;
/// Time without trials for subscribers that probably share the bottleneck of those short, s.
const HELD: f64 = 90.0;
/// Initial time between two doubts about a subscriber, s.
const DOUBT: f64 = 240.0;

/// Fraction of its share for other traffic of a home whose flood is not limited at its source.
const BESIDE: f64 = 0.25;

/// One flow; in a gateway's daemon one direction of a subscriber.
#[derive(Clone, Debug)]
pub(super) struct Subscriber {
    pub flow: FlowId,
    pub weight: f64,
    /// Guaranteed rate, bit/s of IP, as all rates here.
    pub guarantee: f64,
    pub ceiling: f64,
    /// Number of hops between it and the gateway, if known.
    pub hops: Option<u32>,
    /// Neighbour of the gateway through which it is reached, if known.
    pub branch: Option<NodeId>,
    /// Home that it belongs to, if known.
    pub home: Option<NodeId>,
    /// True if it goes to the gateway; `None` if unknown.
    pub upstream: Option<bool>,
    /// True if the host has a class for it.
    pub class: bool,
    /// Ratio of its level to the common level.
    pub factor: f64,
    /// Minimum of that ratio while it sends intermittently: at least the largest of any backlogged one; else 1.
    pub room: f64,
    /// Rate that it can use whatever the others have, with headroom; `None` if its share applies.
    pub cap: Option<f64>,
    /// Present limit, bit/s.
    pub limit: f64,
    pub service: Service,
    /// Observation of its response to its limit.
    pub watch: Watch,
    /// Change in that observation in the last interval.
    pub news: Option<News>,
    /// True if its home floods and it is not the flood itself.
    pub beside: bool,
    /// Counters as last sampled, and their increments since the last interval ended.
    bytes: Option<u64>,
    packets: u64,
    drops: Option<u64>,
    moved: (u64, u64, u64),
    waiting: u64,
    /// Unacknowledged bytes of a TCP whose headers are read.
    awaited: Option<u64>,
    sampled: bool,
    broken: bool,
    /// Time until it may be tried alone, s.
    wait: f64,
    /// Waiting time after the next failed trial, s.
    backoff: f64,
    /// Time until it may be tested again for a need of more, s.
    pub asked: f64,
    /// Time until it may be doubted again, s.
    pub doubted: f64,
    /// Waiting time after the next doubt that found no starvation, s.
    pub doubt: f64,
}

impl Subscriber {
    pub fn new(flow: FlowId) -> Self {
        Subscriber {
            flow,
            weight: 1.0,
            guarantee: 0.0,
            ceiling: f64::INFINITY,
            hops: None,
            branch: None,
            home: None,
            upstream: None,
            class: false,
            factor: 1.0,
            room: 1.0,
            cap: None,
            limit: 0.0,
            service: Service::default(),
            watch: Watch::default(),
            news: None,
            beside: false,
            bytes: None,
            packets: 0,
            drops: None,
            moved: (0, 0, 0),
            waiting: 0,
            awaited: None,
            sampled: false,
            broken: false,
            wait: 0.0,
            backoff: BACKOFF,
            asked: 0.0,
            doubted: 0.0,
            doubt: DOUBT,
        }
    }

    /// Takes the totals that it has sent since a fixed time.
    pub fn sample(&mut self, bytes: u64, packets: u64) {
        match self.bytes {
            Some(last) if bytes < last || packets < self.packets => self.broken = true,
            Some(last) => {
                self.moved.0 = self.moved.0.saturating_add(bytes - last);
                self.moved.1 = self.moved.1.saturating_add(packets - self.packets);
                self.sampled = true;
            }
            None => {}
        }
        (self.bytes, self.packets) = (Some(bytes), packets);
    }

    /// Takes the total drops of its class and the bytes queued there.
    pub fn counted(&mut self, c: &Counters) {
        self.moved.2 += self.drops.map_or(0, |last| c.drops.saturating_sub(last));
        (self.drops, self.waiting) = (Some(c.drops), c.queued_bytes);
    }

    /// Takes the data that TCP headers show of it.
    pub fn read(&mut self, signs: &PathSigns) {
        self.awaited = signs.awaited;
    }

    /// Returns true if data of it is outstanding; `None` if unknown.
    ///
    /// For traffic from the mesh to the gateway the queues in the mesh are not visible, only what was lost on the
    /// way.
    fn under_way(&mut self) -> Option<bool> {
        let awaited = self.awaited.take()? > 0;
        (awaited || self.upstream == Some(false)).then_some(awaited || self.waiting > 0)
    }

    /// Ends an interval.
    ///
    /// Counters that ran backwards, were not sampled or exceed the rate of any link are ignored. `level` is the
    /// highest recent level at which it takes nothing from others; `agents` is true if its source may have been sent
    /// its limit.
    pub fn look(
        &mut self,
        elapsed: f64,
        (credible, level): (f64, f64),
        agents: bool,
        rules: &Rules,
    ) {
        self.news = None;
        let under_way = self.under_way();
        let (bytes, packets, drops) = core::mem::take(&mut self.moved);
        let known = core::mem::take(&mut self.sampled) & !core::mem::take(&mut self.broken);
        self.wait -= elapsed;
        self.asked -= elapsed;
        self.doubted -= elapsed;
        let bits = bytes as f64 * 8.0;
        if known && elapsed > 0.0 && bits <= credible * elapsed {
            // Traffic from outside is limited before it uses airtime.
            if self.upstream != Some(false) {
                let seen = Seen {
                    elapsed,
                    bits,
                    packets: packets as f64,
                    drops: drops as f64,
                    waiting: self.waiting as f64 * 8.0,
                    granted: self.limit,
                    share: self.share(level),
                    promised: self.guarantee / self.limit,
                    agents,
                };
                self.news = self.watch.look(&seen);
            }
            if self.watch.is_flood() {
                // The demand of a flood is not a measure of its service.
                if self.news.is_some() {
                    self.leave();
                }
                return;
            }
            let due = self.cap.map_or(self.limit, |cap| self.limit.min(OWED * cap / ROOM));
            let passed =
                Passed { elapsed, bits, packets: packets as f64, bound: drops > 0, under_way };
            self.service.look(&passed, due, rules);
        }
    }

    /// Resets the state of a subscriber that the host reports as gone.
    pub fn leave(&mut self) {
        self.service = Service::default();
        (self.factor, self.cap) = (1.0, None);
    }

    /// Returns its share at a level, without regard to the rate that it can use.
    pub fn share(&self, level: f64) -> f64 {
        (level * self.weight * self.factor.max(self.room)).min(self.ceiling).max(self.guarantee)
    }

    /// Sets its limit for a level; returns true if the limit changed.
    pub fn allow(&mut self, level: f64) -> bool {
        let share = self.share(level);
        let new = self.cap.map_or(share, |cap| share.min(cap.max(self.guarantee)));
        let part = self.watch.part() * if self.beside { BESIDE } else { 1.0 };
        let new = (part * new).max(self.guarantee).max(1.0);
        let changed = (new - self.limit).abs() > CHANGED * self.limit;
        if changed {
            self.limit = new;
        }
        changed
    }

    pub fn sends(&self) -> bool {
        self.service.standing() == Standing::Sending
    }

    /// True if it may want little or be starved.
    ///
    /// It sends, never used its full limit, and gets less than a fraction of it.
    pub fn doubtful(&self, part: f64) -> bool {
        self.doubted <= 0.0 && self.cap.is_none() && self.service.doubtful(part)
    }

    /// True if it uses its full limit.
    pub fn fills(&self) -> bool {
        self.sends() && self.service.rate() >= (self.service.full_part() - 0.03) * self.limit
    }

    /// True if it may be tried alone.
    pub fn ready(&self) -> bool {
        self.fills() && self.cap.is_none() && self.wait <= 0.0 && self.service.backlogged()
    }

    /// Postpones its next trial, for twice as long each time.
    pub fn put_off(&mut self) {
        self.wait = self.backoff;
        self.backoff = (2.0 * self.backoff).min(LATEST);
    }

    /// Postpones its trial because it probably shares the bottleneck of others of its branch.
    pub fn hold(&mut self) {
        self.wait = self.wait.max(HELD);
    }

    /// Records that it gained nothing when the others gave way; its next doubt is postponed, twice as long each time.
    pub fn trust(&mut self) {
        self.doubted = self.doubt;
        self.doubt = (2.0 * self.doubt).min(8.0 * LATEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: f64 = 1.2e6;

    /// A second in which so many full packets passed, after which so many bytes are not acknowledged.
    fn second(s: &mut Subscriber, packets: u64, awaited: Option<u64>) {
        let sent = s.bytes.unwrap_or(0) / 1500 + packets;
        s.sample(1500 * sent, sent);
        if let Some(awaited) = awaited {
            s.read(&PathSigns::new(s.flow).with_awaited(awaited));
        }
        let rules = Rules { full: 0.93, debt: 2.5, packets: 5.0 };
        s.look(1.0, (1e9, LIMIT), false, &rules);
    }

    #[test]
    fn who_was_put_off_waits_twice_as_long_each_time() {
        let mut s = Subscriber::new(FlowId(0));
        s.limit = LIMIT;
        (0..30).for_each(|_| second(&mut s, 100, None));
        for wait in [60, 120, 240, 480, 960, 960] {
            assert!(s.ready());
            s.put_off();
            (1..wait).for_each(|_| second(&mut s, 100, None));
            assert!(!s.ready(), "{wait}");
            second(&mut s, 100, None);
        }
    }

    #[test]
    fn what_it_has_does_not_depend_on_how_often_one_looks() {
        for (elapsed, packets) in [(0.25, 25), (1.0, 100), (4.0, 400)] {
            let mut s = Subscriber::new(FlowId(0));
            s.limit = LIMIT;
            let rules = Rules { full: 0.93, debt: 2.5, packets: 5.0 };
            for n in 0..100 {
                s.sample(1500 * packets * n, packets * n);
                s.look(elapsed, (1e9, LIMIT), false, &rules);
            }
            assert!((s.service.rate() / LIMIT - 1.0).abs() < 0.01, "{elapsed}: {s:?}");
        }
    }

    #[test]
    fn what_is_acknowledged_has_ended_but_up_the_mesh_more_may_wait() {
        let after = |upstream: bool, awaited: u64, queued_bytes: u64| {
            let mut s = Subscriber::new(FlowId(0));
            (s.limit, s.upstream) = (LIMIT, Some(upstream));
            (0..30).for_each(|_| second(&mut s, 100, Some(3000)));
            let class = crate::Class::Flow(s.flow);
            let (bytes, packets, drops, overlimits, queued_packets) = (0, 0, 0, 0, 0);
            s.counted(&Counters {
                class,
                bytes,
                packets,
                drops,
                overlimits,
                queued_packets,
                queued_bytes,
            });
            (0..3).for_each(|_| second(&mut s, 0, Some(awaited)));
            (s.service.standing(), s.service.want() > 0.0)
        };
        assert_eq!(after(false, 0, 0), (Standing::Idle, false));
        assert_eq!(after(false, 3000, 0), (Standing::Sending, true), "it waits in vain");
        assert_eq!(after(true, 3000, 0), (Standing::Sending, true), "lost on the way");
        assert_eq!(after(true, 0, 0), (Standing::Sending, false), "nobody knows");
        assert_eq!(after(false, 0, 3000), (Standing::Sending, true), "it waits here");
    }
}
