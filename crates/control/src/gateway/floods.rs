//! Detection of traffic that does not respond to its limit, from its counters at the gateway.
//!
//! A transport with congestion control sends as much as its limit lets through and a little more. A subscriber that
//! offers more than it is granted, second for second, and loses the rest, is *suspected*: its limit is halved. A
//! transport follows within a round trip, since arrivals clock its sending. A subscriber that offers as much as before
//! does not respond and is a *flood*. Jamshaid 2010 §6.3 and §9.2 give the reason for detection: packets dropped at the
//! gateway have nevertheless used the air before the gateway.

/// Size of a full IP packet, bits: used until a packet was seen.
const PACKET: f64 = 12_000.0;
/// Ratio of offered to granted traffic above which traffic counts as excess, on top of `PACKETS`.
const OVER: f64 = 1.1;
/// Ratio of offered traffic to the subscriber's share above which it harms others.
/// The second value is for packets smaller than `CALL`: calls and games that need more than their share are not
/// floods.
const HARMS: [f64; 2] = [1.3, 3.0];
/// Mean size of packets below which traffic counts as a call or game, bits.
const CALL: f64 = 400.0 * 8.0;
/// Number of packets of excess that are tolerated.
const PACKETS: f64 = 1.0;
/// Mean size below which packets are acknowledgements, which follow another direction, bits.
const SMALL: f64 = 100.0 * 8.0;
/// Excess time after which a subscriber is suspected, s.
const LONG: f64 = 3.0;
/// Number of packets that must have arrived in that time.
const MANY: f64 = 12.0;
/// Fraction of its limit that a suspect has, unless more is guaranteed.
const HALF: f64 = 0.5;
/// Guaranteed fraction of the limit above which a trial shows nothing.
const VISIBLE: f64 = 0.8;
/// Start of a trial that is not evaluated, s.
const SETTLE: f64 = 1.0;
/// Minimum time of evaluation, s.
const JUDGED: f64 = 2.0;
/// Time of a trial before which a subscriber with less than `PLAIN` times its grant is not a flood, s.
/// BBR sends at its estimate of the path, takes the highest of ten round trips
/// (draft-cardwell-iccrg-bbr-congestion-control-00 §4.1.1.3) and probes for a quarter more: 2.1 times its grant when
/// its limit has just become 0.6 of the old one.
const LATE: f64 = 7.0;
/// Ratio of offered to granted traffic from which a suspect cannot be a transport that responds late.
const PLAIN: f64 = 2.2;
/// Number of arrived packets that an evaluation needs; the range is used at low grants.
const ENOUGH: core::ops::RangeInclusive<f64> = 40.0..=120.0;
/// Grant below which an evaluation needs more packets, packets per second.
/// Many transports that start together at a low limit need long to detect it.
const FEW: f64 = 2.5;
/// Number of granted packets that an evaluation needs.
const GRANTED: f64 = 8.0;
/// Longest time of a trial, s.
const LONGEST: f64 = 30.0;
/// Time that most trials of floods take, s.
const USUAL: f64 = 10.0;
/// Fraction of the expected decrease by which a responsive subscriber must lower its traffic.
const FOLLOWS: f64 = 0.4;
/// Ratio of offered to granted traffic from which a subscriber counts as a flood although it offers less than before.
const TIMES: f64 = 2.5;
/// Fraction of its earlier rate that such a subscriber must still offer.
const STILL: f64 = 0.6;
/// First time between two suspicions, s.
const WAIT: f64 = 10.0;
/// Longest time between two suspicions, s.
const LATEST: f64 = 160.0;
/// Time within its limit after which a flood is over if nothing else limits it, s.
const CALM: f64 = 10.0;
/// Time within its limit after which a flood is over if an agent limits its source, s.
const QUIET: f64 = 20.0;
/// Fraction of the limit below which such a source must stay.
const LITTLE: f64 = 0.3;
/// Ratio of offered to granted traffic up to which a source keeps its limit.
const KEPT: f64 = 1.15;
/// Time constant of the average of the offered rate, s.
const LATELY: f64 = 2.0;

/// Measurements of one direction of a subscriber in an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Length of the interval, s.
    pub elapsed: f64,
    /// Bits of IP packets that passed.
    pub bits: f64,
    /// Packets that passed.
    pub packets: f64,
    /// Packets that were dropped.
    pub drops: f64,
    /// Bits in the queue.
    pub waiting: f64,
    /// Granted rate, bit/s.
    pub granted: f64,
    /// Rate up to which it takes nothing from others, bit/s.
    pub share: f64,
    /// Guaranteed fraction of its limit.
    pub promised: f64,
    /// True if an agent can limit its source.
    pub agents: bool,
}

/// Result of an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum News {
    /// Offers this rate, bit/s; its limit is halved as a test.
    Suspect(f64),
    /// Responds to its limit.
    Answers,
    /// Does not respond, and offers this rate, bit/s.
    Flood(f64),
    /// Is no longer a flood.
    Over,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// Has offered more than its grant for this time, s.
    Watched { over: f64 },
    /// On trial for `time`, s, with the fraction `part` of its limit.
    /// `before` is its earlier rate, bit/s; `late` means that the rate may be the estimate of a transport that responds
    /// late; `granted` is the number of bits granted since the start of the evaluation.
    Tried { time: f64, part: f64, before: f64, late: bool, granted: f64 },
    /// A flood that has kept its limit for this time, s.
    Flood { calm: f64 },
}

/// One direction of a subscriber.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    state: State,
    /// Bits that arrived since the state began.
    bits: f64,
    /// Packets that arrived since the state began.
    packets: f64,
    /// Time in which they arrived, s.
    time: f64,
    waiting: f64,
    /// Mean size of a packet, bits.
    size: f64,
    /// True if a packet was seen.
    known: bool,
    /// Average of the offered rate, bit/s.
    rate: f64,
    /// Time until it may be suspected, s.
    wait: f64,
    /// Wait after the next trial without a flood, s.
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
    /// Takes in the measurements of an interval.
    pub fn look(&mut self, seen: &Seen) -> Option<News> {
        if seen.elapsed <= 0.0 || seen.granted <= 0.0 {
            return None;
        }
        if seen.packets > 0.0 {
            // The first packets replace the default size entirely.
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

    /// Starts a trial if more traffic than granted has arrived for long enough.
    fn watch(&mut self, over: f64, came: f64, seen: &Seen) -> Option<News> {
        let harms = HARMS[usize::from(self.size < CALL)];
        let bound = (OVER * seen.granted).max(harms * seen.share);
        // The arrivals through the air vary from second to second.
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

    /// Returns the fraction of its limit that it has.
    pub fn part(&self) -> f64 {
        match self.state {
            State::Tried { part, .. } => part,
            _ => 1.0,
        }
    }

    /// True if it is a flood.
    pub fn is_flood(&self) -> bool {
        matches!(self.state, State::Flood { .. })
    }

    /// True if it is on trial, for no longer than most trials take.
    pub fn is_tried(&self) -> bool {
        matches!(self.state, State::Tried { time, .. } if time < USUAL)
    }

    /// True if a source offers no more than its limit.
    pub fn keeps(&self, granted: f64) -> bool {
        self.rate <= KEPT * granted
    }
}

#[cfg(test)]
mod tests;
