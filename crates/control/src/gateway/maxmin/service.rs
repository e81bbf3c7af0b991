//! Service of a subscriber, derived from its counters.
//!
//! Time is divided into slots of at least `SLOT_PACKETS` packets at the limit. In a slot a subscriber uses all of its
//! limit, a part, or nothing. A subscriber that only its limit restricts has full slots; a page begins and ends with
//! a partial slot. A partial slot between two slots with traffic counts as missing service time: a debt. Idle time
//! after a full slot is a pause and costs nothing, unless a trickle follows it; idle time after a trickle is a TCP in
//! its timeouts.

/// A full packet, bits of IP.
pub(super) const PACKET: f64 = 12_000.0;

/// Thresholds for full service and for starvation.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Fraction of the limit that counts as full service.
    pub full: f64,
    /// Debt at which a subscriber counts as starved, s.
    pub debt: f64,
    /// Packets at its limit whose time is added to that debt.
    pub packets: f64,
}

/// Minimum duration of a slot, s.
const SLOT: f64 = 1.0;
/// Minimum duration of a slot, packets at the limit.
const SLOT_PACKETS: f64 = 6.0;
/// Idle time that ends a transfer, s.
const GAP: f64 = 2.0;
/// Idle time that ends a transfer, packets at the limit; added to `GAP`.
const GAP_PACKETS: f64 = 4.0;
/// Duration of the transport's start at the beginning of a transfer, s.
const START: f64 = 2.0;
/// Duration of the transport's start, packets at the limit; added to `START`.
const START_PACKETS: f64 = 4.0;
/// Minimum idle time that ends the transfer of a backlogged subscriber, s: TCP has tried three times by then. Its
/// round trip is a full class.
const LEAVE: f64 = 7.0;
/// Packets at the limit that are added to the idle time of a backlogged subscriber.
const LEAVE_PACKETS: f64 = 24.0;
/// Mean packet size below which traffic does not count as a transfer, bits.
const THIN: f64 = 400.0 * 8.0;
/// Number of full packets in a burst below which it may be a TCP retransmission.
const TRICKLE: f64 = 4.0;
/// Number of consecutive full slots after which a subscriber counts as backlogged.
const ROW: u32 = 12;
/// Fraction of full slots, averaged over `SLOTS`, above which a subscriber counts as backlogged.
const MUCH: f64 = 0.9;
/// Number of slots over which fractions of slots are averaged.
const SLOTS: f64 = 10.0;
/// Fraction of the starvation threshold above which a debt makes idle time involuntary.
const OWED: f64 = 0.3;
/// Time after which a new subscriber counts as known, s.
const KNOWN: f64 = 20.0;
/// Time over which the mean fraction of the limit is taken, s; packets at the limit are added.
const LATELY: f64 = 20.0;
/// Maximum idle time that counts against a backlogged subscriber, s.
const HUSH: f64 = 10.0;
/// Decayed number of voluntary pauses above which a subscriber is not backlogged: it sends pages and the like.
const OFTEN: f64 = 1.2;
/// Time constant with which the number of pauses decays, s.
const MINUTE: f64 = 60.0;
/// Minimum duration of a voluntary pause, and of the burst before it if TCP headers are not read, s.
const PAUSE: f64 = 3.0;
/// Number of slots after a change of limits that are not judged.
const SETTLE: u32 = 2;
/// Time for which a backlogged or lost subscriber keeps its state, s: TCP's longest timeout.
const PATIENCE: f64 = 64.0;
/// Slots after a drop at the limit in which missing service is due to the sender's own window.
const BOUND: f64 = 5.0;
/// Fraction of the limit below which this does not hold: a halved window still uses that much.
const SAWTOOTH: f64 = 0.5;
/// Maximum presence of a long transfer that has ended: it rarely resumes at once.
const ENDED: f64 = 0.2;
/// Decayed number of pauses above which a subscriber counts as a reader of pages.
const READS: f64 = 0.5;
/// Time constant of the presence of readers, s.
const READER: f64 = 60.0;
/// Time constant of the presence of other subscribers, s.
const PRESENT: f64 = 30.0;
/// Presence above which a subscriber counts as continuously active.
const ALWAYS: f64 = 0.9;
/// Idle time after which a subscriber with nothing outstanding has ended its transfer, s.
const ENDS: f64 = 1.5;
/// Fraction of slots with outstanding data but no traffic above which a reader may be starved.
const STALLED: f64 = 0.15;
/// Time constant with which debt decays, s.
const FORGET: f64 = 40.0;
/// Minimum fraction of the limit that is assumed after a change.
const AGAIN: f64 = 0.98;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Has nothing to send.
    Idle,
    Sending,
    /// Became idle while in debt.
    Lost,
}

/// Traffic of a slot, relative to the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Full,
    Some,
    Nothing,
}

/// Traffic of an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// Duration, s.
    pub elapsed: f64,
    pub bits: f64,
    pub packets: f64,
    /// True if its limit caused the loss of a packet.
    pub bound: bool,
    /// True if data is unacknowledged or queued here; `None` if unknown.
    pub under_way: Option<bool>,
}

#[derive(Clone, Debug)]
pub(super) struct Service {
    /// The slot being filled: its duration in s, bits, packets and allowed bits.
    time: f64,
    bits: f64,
    packets: f64,
    allowed: f64,
    last: Slot,
    /// The present burst: its duration in s, bits and packets.
    run: f64,
    run_bits: f64,
    run_packets: f64,
    /// True if the burst had a full slot.
    peak: bool,
    /// Service missing in the last slot, s; counts unless that slot was the end.
    held: f64,
    /// Service missing in idle time, s; counts if the idle time turns out to be involuntary.
    pending: f64,
    silent: f64,
    /// True if all data was acknowledged in this idle time.
    ended: bool,
    /// Time since its limit last caused the loss of a packet, s.
    bound: f64,
    /// Last reported value of `Passed::under_way`.
    under_way: Option<bool>,
    /// Recent fraction of the slots with outstanding data in which nothing passed.
    stalled: f64,
    /// Recent fraction of full slots.
    steady: f64,
    /// Decayed number of voluntary pauses.
    pauses: f64,
    /// Number of consecutive full slots.
    row: u32,
    /// Time for which it still counts as backlogged, s.
    long: f64,
    /// Number of slots since limits changed that are still not judged.
    settle: u32,
    /// Time judged since limits changed, s.
    seen: f64,
    /// Full service in that time, s.
    had: f64,
    /// Recent mean fraction of its limit, including idle time.
    mean: f64,
    debt: f64,
    threshold: f64,
    full_part: f64,
    /// Duration of a full packet at its limit, s.
    packet: f64,
    /// Time over which its mean fraction of the limit is taken, s.
    memory: f64,
    part: f64,
    rate: f64,
    standing: Standing,
    /// Time since it began to send, s.
    since: f64,
    /// Time since its first packet, s.
    age: f64,
    /// Recent fraction of time in which it was active.
    presence: f64,
}

impl Default for Service {
    fn default() -> Self {
        Service {
            time: 0.0,
            bits: 0.0,
            packets: 0.0,
            allowed: 0.0,
            last: Slot::Nothing,
            run: 0.0,
            run_bits: 0.0,
            run_packets: 0.0,
            peak: false,
            held: 0.0,
            pending: 0.0,
            silent: 0.0,
            ended: false,
            bound: f64::INFINITY,
            under_way: None,
            stalled: 0.0,
            steady: 0.0,
            pauses: 0.0,
            row: 0,
            long: 0.0,
            settle: 0,
            seen: 0.0,
            had: 0.0,
            mean: 1.0,
            debt: 0.0,
            threshold: 1.0,
            full_part: 0.93,
            packet: 0.0,
            memory: LATELY,
            part: 1.0,
            rate: 0.0,
            standing: Standing::Idle,
            since: 0.0,
            age: 0.0,
            presence: 0.0,
        }
    }
}

impl Service {
    /// Adds an interval with its traffic; `allowed` is the limit, bit/s.
    pub fn look(&mut self, passed: &Passed, allowed: f64, rules: &Rules) {
        let Passed { elapsed, bits, packets, bound, under_way } = *passed;
        if elapsed <= 0.0 || allowed <= 0.0 {
            return;
        }
        self.under_way = under_way;
        let packet = PACKET / allowed;
        self.packet = packet;
        self.full_part = rules.full;
        self.threshold = rules.debt + rules.packets * packet;
        self.memory = LATELY + 8.0 * rules.packets * packet;
        self.time += elapsed;
        self.bits += bits;
        self.packets += packets;
        self.allowed += allowed * elapsed;
        self.since += elapsed;
        self.bound = if bound { 0.0 } else { self.bound + elapsed };
        let window = 4.0 + 8.0 * packet;
        self.rate += (1.0 - (-elapsed / window).exp()) * (bits / elapsed - self.rate);
        self.debt *= (-elapsed / FORGET).exp();
        if self.standing != Standing::Idle && (bits > 0.0 || under_way != Some(false)) {
            self.mean +=
                (1.0 - (-elapsed / FORGET).exp()) * (bits / (allowed * elapsed) - self.mean);
        }
        if bits > 0.0 && self.standing == Standing::Idle {
            (self.standing, self.since) = (Standing::Sending, 0.0);
            (self.debt, self.part, self.rate) = (0.0, 1.0, bits / elapsed);
        }
        if self.time + 0.5 * elapsed >= SLOT.max(SLOT_PACKETS * packet) {
            self.slot(rules, packet);
        }
        self.age += if self.age > 0.0 || bits > 0.0 { elapsed } else { 0.0 };
        let here = if self.standing == Standing::Idle { 0.0 } else { 1.0 };
        let memory = if self.reads() { READER } else { PRESENT };
        self.presence += (1.0 - (-elapsed / memory).exp()) * (here - self.presence);
    }

    /// Ends a slot.
    fn slot(&mut self, rules: &Rules, packet: f64) {
        let (time, bits, packets, allowed) = (self.time, self.bits, self.packets, self.allowed);
        (self.time, self.bits, self.packets, self.allowed) = (0.0, 0.0, 0.0, 0.0);
        let ratio = bits / allowed;
        let missing = (rules.full - ratio) * time;
        let slot = match bits > 0.0 {
            false => Slot::Nothing,
            true if ratio >= rules.full - 0.05 => Slot::Full,
            true => Slot::Some,
        };
        if self.standing == Standing::Idle {
            self.long -= time;
        }
        // A debt held from before does not belong to the present limits.
        let stale = self.settle > 0;
        self.settle = self.settle.saturating_sub(1);
        let filled = slot == Slot::Full;
        self.steady += (f64::from(u8::from(filled)) - self.steady) / SLOTS;
        self.row = if filled { self.row.saturating_add(1) } else { 0 };
        self.pauses *= (-time / MINUTE).exp();
        if self.pauses <= OFTEN && (self.row >= ROW || self.steady > MUCH) {
            if self.long <= 0.0 {
                (self.debt, self.part) = (0.0, 1.0);
            }
            self.long = PATIENCE;
        }
        if self.under_way.is_some() && (slot != Slot::Nothing || self.under_way == Some(true)) {
            let stalls = f64::from(u8::from(slot == Slot::Nothing));
            self.stalled += (stalls - self.stalled) / SLOTS;
        }
        if slot == Slot::Nothing {
            self.nothing(time, packet, rules);
        } else {
            if self.last == Slot::Nothing {
                // TCP would have retransmitted earlier.
                let known = self.under_way.is_some();
                let chosen = self.silent >= PAUSE
                    && if known { self.ended } else { self.peak && self.run >= PAUSE };
                let owes = self.debt >= OWED * self.threshold || packets < TRICKLE;
                if chosen && (known || !owes) {
                    self.pauses += 1.0;
                    if self.pauses > OFTEN {
                        self.long = 0.0;
                    }
                }
                (self.run, self.run_bits, self.run_packets, self.held) = (0.0, 0.0, 0.0, 0.0);
                self.peak = false;
            }
            if self.long > 0.0
                && self.standing != Standing::Idle
                && self.silent > 0.0
                && !self.ended
            {
                // The idle time of a backlogged subscriber was involuntary.
                self.had_of(0.0, self.silent.min(HUSH));
            }
            let first = self.run == 0.0;
            self.run += time;
            self.run_bits += bits;
            self.run_packets += packets;
            self.peak |= slot == Slot::Full || self.bound <= time;
            let transfer = !self.thin();
            if transfer {
                if self.held > 0.0 && stale {
                    self.owe(self.held);
                } else if self.held > 0.0 {
                    self.charge(self.held, time, rules);
                }
                if !first && self.pending > 0.0 {
                    // A trickle after idle time: it was involuntary.
                    let owed = if slot == Slot::Some { self.pending } else { 0.0 };
                    self.owe(owed);
                    self.pending = 0.0;
                }
                self.held = 0.0;
                match slot {
                    Slot::Some if self.bound <= BOUND * time => {
                        self.count((ratio / SAWTOOTH).min(1.0), time)
                    }
                    Slot::Some if self.under_way == Some(false) => {}
                    Slot::Some if self.run > START + START_PACKETS * packet => self.held = missing,
                    Slot::Full => self.charge(missing, time, rules),
                    _ => {}
                }
            }
            (self.silent, self.ended) = (0.0, false);
            if self.standing != Standing::Sending && (!first || slot == Slot::Full) {
                self.standing = Standing::Sending;
                self.debt = self.debt.min(0.5 * self.threshold);
            }
        }
        self.last = slot;
    }

    fn nothing(&mut self, time: f64, packet: f64, rules: &Rules) {
        let trickle = self.run_packets < TRICKLE && self.run_bits > 8000.0 * self.run_packets;
        let owed = self.debt > OWED * self.threshold;
        let much = self.long > 0.0;
        let doubtful = !self.thin() && (owed && (much || !self.peak) || trickle && much);
        self.silent += time;
        if self.silent <= time {
            self.held = 0.0;
        }
        if self.under_way == Some(false) {
            return self.end();
        }
        self.ended = false;
        let doubtful = doubtful || !self.thin() && self.under_way == Some(true);
        self.pending += rules.full * time;
        if doubtful {
            self.owe(self.pending);
            self.pending = 0.0;
        }
        let gap = GAP + GAP_PACKETS * packet;
        let gap =
            if self.long > 0.0 { (1.5 * gap + LEAVE_PACKETS * packet).max(LEAVE) } else { gap };
        match self.standing {
            Standing::Sending if self.silent > gap => {
                self.standing = if doubtful { Standing::Lost } else { Standing::Idle };
                if doubtful {
                    self.debt = self.debt.max(1.2 * self.threshold);
                } else {
                    self.debt = 0.0;
                    if much {
                        self.presence = self.presence.min(ENDED);
                    }
                }
                self.pending = 0.0;
            }
            Standing::Lost if self.silent > PATIENCE => {
                self.standing = Standing::Idle;
                self.debt = 0.0;
            }
            _ => {}
        }
        self.pending = self.pending.min(2.0 * self.threshold);
    }

    /// Ends the transfer: all data has arrived and nothing follows, so no service is missing.
    fn end(&mut self) {
        (self.ended, self.pending, self.debt) = (true, 0.0, 0.0);
        if self.silent > ENDS && self.standing != Standing::Idle {
            self.standing = Standing::Idle;
            if self.long > 0.0 {
                self.presence = self.presence.min(ENDED);
            }
        }
    }

    fn charge(&mut self, missing: f64, time: f64, rules: &Rules) {
        if time <= 0.0 {
            return;
        }
        self.owe(missing);
        let ratio = (rules.full - missing / time).clamp(0.0, 1.03 + self.packet / time);
        self.had_of(ratio, time);
    }

    fn owe(&mut self, missing: f64) {
        self.debt = (self.debt + missing).clamp(0.0, 2.0 * self.threshold);
    }

    /// Counts a fraction of the limit over a time, in the long run and since the last change.
    fn had_of(&mut self, ratio: f64, time: f64) {
        self.count(ratio, time);
        let slow = 1.0 - (-time / self.memory).exp();
        self.part += slow * (ratio - self.part);
    }

    /// Counts a fraction of the limit over a time since the last change.
    fn count(&mut self, ratio: f64, time: f64) {
        if self.settle == 0 {
            self.seen += time;
            self.had += ratio * time;
        }
    }

    /// Starts a trial after a change of limits.
    pub fn begin_trial(&mut self) {
        (self.settle, self.seen, self.had) = (SETTLE + 1, 0.0, 0.0);
    }

    /// Returns the fraction of its limit that counts as full service now.
    pub fn full_part(&self) -> f64 {
        self.full_part
    }

    /// Returns the time judged since limits changed, s, and the mean fraction of its limit in it.
    pub fn trial(&self) -> (f64, f64) {
        (self.seen, if self.seen > 0.0 { self.had / self.seen } else { 1.0 })
    }

    /// Returns the time since its last traffic, s.
    pub fn silent(&self) -> f64 {
        if self.last == Slot::Nothing { self.silent } else { 0.0 }
    }

    /// True if it is backlogged.
    ///
    /// Its limit was full for most of several slots, and its transfer has not ended since.
    pub fn backlogged(&self) -> bool {
        self.long > 0.0 && self.standing != Standing::Idle
    }

    /// True if it sends, gets little, and never used its full limit.
    pub fn doubtful(&self, part: f64) -> bool {
        self.long <= 0.0
            && self.standing != Standing::Idle
            && self.age > KNOWN
            && self.mean < part
            && !self.thin()
            && (!self.reads() || self.stalled > STALLED)
    }

    /// True if it sends intermittently, as far as is known.
    pub fn sometimes(&self) -> bool {
        let seen = f64::from(2 * ROW) * SLOT.max(SLOT_PACKETS * self.packet);
        self.age > KNOWN.max(seen) && self.long <= 0.0
    }

    /// True if its pauses are known to be voluntary: all data that it requested had arrived.
    pub fn reads(&self) -> bool {
        self.sometimes() && self.under_way.is_some() && self.pauses > READS
    }

    /// Marks it as backlogged because it gained when others gave way.
    pub fn believe(&mut self) {
        (self.long, self.pauses) = (PATIENCE, 0.0);
    }

    /// True if it is too early to decide whether it is backlogged.
    pub fn unknown(&self) -> bool {
        self.standing == Standing::Sending && self.age < KNOWN && self.long <= 0.0 && !self.thin()
    }

    /// True if its packets are small.
    pub fn thin(&self) -> bool {
        self.run_bits < THIN * self.run_packets
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns the recent fraction of time in which it was active, 0 to 1.
    pub fn presence(&self) -> f64 {
        self.presence.min(1.0)
    }

    /// True if it was hardly idle recently, or since its first packet if that is later.
    pub fn never_pauses(&self) -> bool {
        let known = 1.0 - (-self.age / PRESENT).exp();
        !self.reads() && self.presence > ALWAYS * known
    }

    /// Returns the time since it began to send, s.
    pub fn sent_for(&self) -> f64 {
        if self.standing == Standing::Sending { self.since } else { 0.0 }
    }

    /// Returns the recent mean fraction of its limit, including idle time.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns its recent rate, bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// True if it used its full limit in the last slot.
    pub fn full(&self) -> bool {
        self.last == Slot::Full
    }

    /// Returns its debt as a fraction of the starvation threshold.
    pub fn want(&self) -> f64 {
        if self.standing == Standing::Idle { 0.0 } else { self.debt / self.threshold }
    }

    /// Returns the recent fraction of its limit that it used; 1 if it is idle.
    pub fn part(&self) -> f64 {
        if self.standing == Standing::Idle { 1.0 } else { self.part }
    }

    /// Clears its debt, and its place if it became idle in debt, because no measure helps it.
    pub fn give_up(&mut self) {
        self.forgive(0.0);
        if self.standing == Standing::Lost {
            self.standing = Standing::Idle;
        }
    }

    /// Restarts the accounting, with a debt of at most `part` of the starvation threshold.
    pub fn forgive(&mut self, part: f64) {
        self.part = self.part.max(AGAIN);
        self.debt = self.debt.min(part * self.threshold);
    }
}
