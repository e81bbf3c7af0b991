//! What is known of one flow: its plan, its counters, its share.

use fairmesh_units::{FlowId, NodeId};

use crate::gateway::floods::{News, Seen, Watch};
use crate::{Counters, PathSigns};

use super::service::{Passed, Rules, Service, Standing};

/// Room above what somebody can use, so that a growing need shows.
pub(super) const ROOM: f64 = 1.25;
/// Part of what somebody can use that it must have.
const OWED: f64 = 0.95;
/// Part by which a limit changes before its class is changed: a system call each.
const CHANGED: f64 = 0.004;
/// First time between two tries of somebody alone, s, and the longest.
const BACKOFF: f64 = 60.0;
const LATEST: f64 = 960.0;
/// How long those are not tried who were short with all others, s.
const HELD: f64 = 90.0;
/// First time between two doubts, s.
const DOUBT: f64 = 240.0;

/// Part of its share that the other traffic of a home has whose flood nothing else limits.
const BESIDE: f64 = 0.25;

/// One flow; at a gateway's daemon one direction of a subscriber.
#[derive(Clone, Debug)]
pub(super) struct Subscriber {
    pub flow: FlowId,
    pub weight: f64,
    /// Bit/s of IP, as all rates here.
    pub guarantee: f64,
    pub ceiling: f64,
    /// Hops between it and the gateway, if known.
    pub hops: Option<u32>,
    /// The gateway's neighbour through which it is reached, if known.
    pub branch: Option<NodeId>,
    /// Whose it is, and whether it goes to the gateway, if known.
    pub home: Option<NodeId>,
    pub upstream: Option<bool>,
    /// Whether the host has a class for it.
    pub class: bool,
    /// Its level over the common one.
    pub factor: f64,
    /// The same for who sends pages and the like: what somebody who always sends may have at most.
    pub room: f64,
    /// What it can use whatever the others have, with room above; `None`: its share.
    pub cap: Option<f64>,
    /// What it may send.
    pub limit: f64,
    pub service: Service,
    /// Whether it answers to its limit, and what is new of that.
    pub watch: Watch,
    pub news: Option<News>,
    /// Its home floods, and nothing but this is to be limited of it.
    pub beside: bool,
    /// Counters as they were last sampled, and what has passed since the last look.
    bytes: Option<u64>,
    packets: u64,
    drops: Option<u64>,
    moved: (u64, u64, u64),
    waiting: u64,
    /// Bytes under way that are not acknowledged, of a TCP whose headers somebody reads.
    awaited: Option<u64>,
    sampled: bool,
    broken: bool,
    /// s until it may be tried alone, and how long it then waits for the next time.
    wait: f64,
    backoff: f64,
    /// s until it may be asked again whether it could use more.
    pub asked: f64,
    /// s until it may be doubted again, and how long that then takes.
    pub doubted: f64,
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

    /// What it has sent since some moment.
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

    /// What its class has dropped since some moment, and what waits there.
    pub fn counted(&mut self, c: &Counters) {
        self.moved.2 += self.drops.map_or(0, |last| c.drops.saturating_sub(last));
        (self.drops, self.waiting) = (Some(c.drops), c.queued_bytes);
    }

    /// Takes in what TCP headers show of it.
    pub fn read(&mut self, signs: &PathSigns) {
        self.awaited = signs.awaited;
    }

    /// Whether something of it is under way now, if that is known. Of what comes up the mesh nobody sees what
    /// waits there, only what was lost on the way.
    fn under_way(&mut self) -> Option<bool> {
        let awaited = self.awaited.take()? > 0;
        (awaited || self.upstream == Some(false)).then_some(awaited || self.waiting > 0)
    }

    /// Ends an interval. Counters that ran backwards, were not sampled or report more than any link
    /// carries say nothing. `level`: the highest of late, at which it takes nothing from others; `agents`:
    /// its source may have been told to keep its limit.
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
            // What comes from outside is limited before it takes air.
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
                // What it would like to have is nobody's measure.
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

    /// The host knows that it is gone.
    pub fn leave(&mut self) {
        self.service = Service::default();
        (self.factor, self.cap) = (1.0, None);
    }

    /// Its share at a level, whatever it can use.
    pub fn share(&self, level: f64) -> f64 {
        (level * self.weight * self.factor.max(self.room)).min(self.ceiling).max(self.guarantee)
    }

    /// Its limit at a level; whether it is a new one.
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

    /// Sends, was never seen to use what it may, and has less than a part of it: it may want little, or starve.
    pub fn doubtful(&self, part: f64) -> bool {
        self.doubted <= 0.0 && self.cap.is_none() && self.service.doubtful(part)
    }

    /// Uses all that it may.
    pub fn fills(&self) -> bool {
        self.sends() && self.service.rate() >= (self.service.full_part() - 0.03) * self.limit
    }

    /// Whether it may be tried alone.
    pub fn ready(&self) -> bool {
        self.fills() && self.cap.is_none() && self.wait <= 0.0 && self.service.backlogged()
    }

    /// Is not tried alone for some time, the longer the more often this was said.
    pub fn put_off(&mut self) {
        self.wait = self.backoff;
        self.backoff = (2.0 * self.backoff).min(LATEST);
    }

    /// It is probably bound by what others of its branch are bound by: not tried alone for some time.
    pub fn hold(&mut self) {
        self.wait = self.wait.max(HELD);
    }

    /// It gained nothing from what the others gave up: it wants no more. The longer, the more often.
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
