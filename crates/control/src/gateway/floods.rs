//! Traffic that does not answer to its limit, told from its counters at the gateway.
//!
//! A transport that is controlled by what becomes of its packets sends what its limit lets through and
//! a little more. Who brings more than it is granted, second for second, and loses the rest, is
//! *suspected*: its limit is halved. A transport follows within a round trip, since what it sends is
//! clocked by what arrives; whoever brings as much as before does not answer, and is a *flood*.
//! Jamshaid 2010 §6.3 and §9.2 have why that matters: dropped at the gateway it has used the air
//! before the gateway all the same.

/// A full packet, bits of IP: until a packet was seen.
const PACKET: f64 = 12_000.0;
/// What comes is more than is granted from this part of it, and packets beside; it harms others from
/// this part of what is its own, and of packets smaller than this, bits, from the second: calls and games
/// that need more than their share are no flood.
const OVER: f64 = 1.1;
const HARMS: [f64; 2] = [1.3, 3.0];
const CALL: f64 = 400.0 * 8.0;
const PACKETS: f64 = 1.0;
/// Packets smaller than this, bits: acknowledgements, which follow another direction.
const SMALL: f64 = 100.0 * 8.0;
/// s of that, and packets that came in them, after which somebody is suspected.
const LONG: f64 = 3.0;
const MANY: f64 = 12.0;
/// Part of its limit that a suspect has, unless more is promised; above the second part of it there is
/// nothing to be seen.
const HALF: f64 = 0.5;
const VISIBLE: f64 = 0.8;
/// s of the trial that say nothing yet; s, packets that came and packets that were granted in what is
/// judged; and the longest that it takes, s. Many transports that begin together at a low limit need
/// long to hear of it: where fewer than so many packets a second are granted, more must come.
const SETTLE: f64 = 1.0;
const JUDGED: f64 = 2.0;
/// s of the trial before which nobody is found guilty who brought less than so many times what it was granted.
/// BBR sends what it believes of the path, believes the highest of ten round trips
/// (draft-cardwell-iccrg-bbr-congestion-control-00 §4.1.1.3) and probes for a quarter more: 2.1 times what it is
/// granted where its limit has just become 0.6 of what it was.
const LATE: f64 = 7.0;
const PLAIN: f64 = 2.2;
const ENOUGH: core::ops::RangeInclusive<f64> = 40.0..=120.0;
const FEW: f64 = 2.5;
const GRANTED: f64 = 8.0;
const LONGEST: f64 = 30.0;
/// s that most trials of floods take.
const USUAL: f64 = 10.0;
/// Of what a follower would send less, so much must be missing.
const FOLLOWS: f64 = 0.4;
/// Or it brings so many times what it is granted, and this part of what it brought before.
const TIMES: f64 = 2.5;
const STILL: f64 = 0.6;
/// First time between two suspicions, s, and the longest.
const WAIT: f64 = 10.0;
const LATEST: f64 = 160.0;
/// s for which it has kept its limit before it is a flood no more: where nothing else limits it, and
/// where its source does, and then the part of its limit that it stays below.
const CALM: f64 = 10.0;
const QUIET: f64 = 20.0;
const LITTLE: f64 = 0.3;
/// Part of its limit that comes from a source that keeps it.
const KEPT: f64 = 1.15;
/// Time constant of the rate that comes, s.
const LATELY: f64 = 2.0;

/// What was seen of one direction of a subscriber in an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// s.
    pub elapsed: f64,
    /// Bits of IP and packets that passed, packets that were dropped.
    pub bits: f64,
    pub packets: f64,
    pub drops: f64,
    /// Bits that wait.
    pub waiting: f64,
    /// What it was granted, bit/s.
    pub granted: f64,
    /// Below this, bit/s, it takes nothing that is not its own.
    pub share: f64,
    /// Part of its limit that is promised.
    pub promised: f64,
    /// Its source may be told to keep the limit.
    pub agents: bool,
}

/// What has come of an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum News {
    /// It brings so much, bit/s: does it answer to half of its limit?
    Suspect(f64),
    /// It does.
    Answers,
    /// It does not, and brings so much, bit/s.
    Flood(f64),
    /// It is none any more.
    Over,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// So long, s, more has come than was granted.
    Watched { over: f64 },
    /// On trial for so long, s, with this part of its limit; it brought so much before, bit/s, which may be what a
    /// transport believes that answers late, and was granted so much since, bits.
    Tried { time: f64, part: f64, before: f64, late: bool, granted: f64 },
    /// A flood that has kept its limit for so long, s.
    Flood { calm: f64 },
}

/// One direction of a subscriber.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    state: State,
    /// Bits and packets that came since the state began, and s in which they did.
    bits: f64,
    packets: f64,
    time: f64,
    waiting: f64,
    /// Mean size, bits, and whether a packet was seen.
    size: f64,
    known: bool,
    /// bit/s that come of late.
    rate: f64,
    /// s until it may be suspected, and how long it then takes.
    wait: f64,
    backoff: f64,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            state: State::Watched { over: 0.0 },
            bits: 0.0,
            packets: 0.0,
            time: 0.0,
            waiting: 0.0,
            size: PACKET,
            known: false,
            rate: 0.0,
            wait: 0.0,
            backoff: WAIT,
        }
    }
}

impl Watch {
    /// Takes in an interval.
    pub fn look(&mut self, seen: &Seen) -> Option<News> {
        if seen.elapsed <= 0.0 || seen.granted <= 0.0 {
            return None;
        }
        if seen.packets > 0.0 {
            // Of the first packets ever all is known.
            let known = if self.known { 10.0 } else { 0.0 };
            self.known = true;
            let new = seen.packets / (seen.packets + known);
            self.size += new * (seen.bits / seen.packets - self.size);
        }
        let grown = seen.waiting - core::mem::replace(&mut self.waiting, seen.waiting);
        let came = (seen.bits + seen.drops * self.size + grown).max(0.0);
        let lately = 1.0 - (-seen.elapsed / LATELY).exp();
        self.rate += lately * (came / seen.elapsed - self.rate);
        self.wait -= seen.elapsed;
        match self.state {
            State::Watched { over } => self.watch(over, came, seen),
            State::Tried { time, part, before, late, mut granted } => {
                let time = time + seen.elapsed;
                if time > SETTLE {
                    self.count(came, seen.elapsed);
                    granted += seen.granted * seen.elapsed;
                }
                self.state = State::Tried { time, part, before, late, granted };
                self.judge(time, part, late, (before, granted))
            }
            State::Flood { calm } => {
                let keeps = match seen.agents {
                    true => self.rate < LITTLE * seen.granted,
                    false => seen.drops <= 0.0 && self.rate < OVER * seen.granted,
                };
                let calm = if keeps { calm + seen.elapsed } else { 0.0 };
                if calm < if seen.agents { QUIET } else { CALM } {
                    self.state = State::Flood { calm };
                    return None;
                }
                self.begin(State::Watched { over: 0.0 });
                Some(News::Over)
            }
        }
    }

    /// Whether more comes than is granted, for how long, and whether that is reason to try it.
    fn watch(&mut self, over: f64, came: f64, seen: &Seen) -> Option<News> {
        let harms = HARMS[usize::from(self.size < CALL)];
        let bound = (OVER * seen.granted).max(harms * seen.share);
        // What comes through the air varies from second to second.
        let more = came > bound * seen.elapsed + PACKETS * self.size
            || self.rate > bound + PACKETS * self.size / LATELY;
        if seen.drops <= 0.0 || !more || self.size < SMALL {
            let over = (over - seen.elapsed).max(0.0);
            if over <= 0.0 {
                self.begin(State::Watched { over });
            } else {
                self.state = State::Watched { over };
                self.count(came, seen.elapsed);
            }
            return None;
        }
        let over = over + seen.elapsed;
        self.state = State::Watched { over };
        self.count(came, seen.elapsed);
        let before = self.bits / self.time;
        let part = HALF.max(seen.promised);
        if over < LONG || self.packets < MANY || self.wait > 0.0 || part > VISIBLE {
            return None;
        }
        let late = before < PLAIN * seen.granted;
        self.begin(State::Tried { time: 0.0, part, before, late, granted: 0.0 });
        Some(News::Suspect(before))
    }

    fn judge(
        &mut self,
        time: f64,
        part: f64,
        late: bool,
        (before, granted): (f64, f64),
    ) -> Option<News> {
        let passed = granted / self.size.max(1.0);
        let each = (passed / self.time.max(f64::MIN_POSITIVE)).max(f64::MIN_POSITIVE);
        let enough = (ENOUGH.start() * FEW / each).clamp(*ENOUGH.start(), *ENOUGH.end());
        let long = self.time >= JUDGED && self.packets >= enough && passed >= GRANTED;
        if time < LONGEST && !long {
            return None;
        }
        let rate = self.bits / self.time.max(f64::MIN_POSITIVE);
        let stays = rate >= before * (1.0 - FOLLOWS * (1.0 - part));
        let many = self.bits >= TIMES * granted && rate >= STILL * before;
        if !(stays || many) {
            self.begin(State::Watched { over: 0.0 });
            self.wait = self.backoff;
            self.backoff = (2.0 * self.backoff).min(LATEST);
            return Some(News::Answers);
        }
        if late && time < LATE {
            self.begin(State::Tried { time, part, before, late, granted: 0.0 });
            return None;
        }
        self.begin(State::Flood { calm: 0.0 });
        self.backoff = WAIT;
        Some(News::Flood(rate))
    }

    fn begin(&mut self, state: State) {
        (self.state, self.bits, self.packets, self.time) = (state, 0.0, 0.0, 0.0);
    }

    fn count(&mut self, came: f64, elapsed: f64) {
        self.bits += came;
        self.packets += came / self.size.max(1.0);
        self.time += elapsed;
    }

    /// Part of its limit that it has.
    pub fn part(&self) -> f64 {
        match self.state {
            State::Tried { part, .. } => part,
            _ => 1.0,
        }
    }

    /// Whether it is a flood.
    pub fn is_flood(&self) -> bool {
        matches!(self.state, State::Flood { .. })
    }

    /// Whether it is on trial, for no longer than most trials take.
    pub fn is_tried(&self) -> bool {
        matches!(self.state, State::Tried { time, .. } if time < USUAL)
    }

    /// Whether a source brings no more than its limit.
    pub fn keeps(&self, granted: f64) -> bool {
        self.rate <= KEPT * granted
    }
}

#[cfg(test)]
mod tests;
