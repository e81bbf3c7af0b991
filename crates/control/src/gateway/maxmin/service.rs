//! Whether a subscriber gets what it asks for: told from its counters.
//!
//! Time is cut into slots of at least four packets at its limit. In a slot a subscriber has all that it may, a part, or
//! nothing. Whoever is held back by its limit alone has full slots; a page begins and ends with a part. A part between two
//! slots in which something passed is time of service that is missing: a debt. Silence after a full slot is a pause, and
//! costs nothing, unless what follows it is a trickle; silence after a trickle is a TCP in its timeouts.

/// A full packet, bits of IP.
pub(super) const PACKET: f64 = 12_000.0;
/// Want from which nothing is raised.
pub(super) const UNEASY: f64 = 0.4;

/// What counts as service and as suffering.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Part of its limit that counts as full service.
    pub full: f64,
    /// Debt at which somebody suffers: s, and packets at its limit.
    pub debt: f64,
    pub packets: f64,
}

/// A slot: s, and packets at the limit.
const SLOT: f64 = 1.0;
const SLOT_PACKETS: f64 = 6.0;
/// A silence this long ends a transfer: s, and packets at its limit.
const GAP: f64 = 2.0;
const GAP_PACKETS: f64 = 4.0;
/// The first seconds of a transfer are the transport's start.
const START: f64 = 2.0;
const START_PACKETS: f64 = 4.0;
/// Transfers are made of packets larger than this, bits.
const THIN: f64 = 400.0 * 8.0;
/// Full packets in a burst below which it may be a TCP that tries again.
const TRICKLE: f64 = 4.0;
/// Transfer after which somebody is known to have much to send, s.
const LONG: f64 = 20.0;
/// How long who fell silent in debt keeps its place, s: TCP's longest timeout.
const PATIENCE: f64 = 64.0;
/// Slots after a drop at its limit in which what is missing is its own choice.
const BOUND: f64 = 5.0;
/// Presence of a long transfer that has ended: it will hardly come back at once.
const ENDED: f64 = 0.2;
/// Time constant in which debt is forgotten, s.
const FORGET: f64 = 40.0;
/// What is believed of a share that has just changed.
const AGAIN: f64 = 0.96;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Has nothing to send.
    Idle,
    Sending,
    /// Fell silent while it was in debt.
    Lost,
}

/// What passed in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Full,
    Some,
    Nothing,
}

#[derive(Clone, Debug)]
pub(super) struct Service {
    /// The slot that is being filled: s, bits, packets, bits allowed.
    time: f64,
    bits: f64,
    packets: f64,
    allowed: f64,
    last: Slot,
    /// The burst: s, bits, packets.
    run: f64,
    run_bits: f64,
    run_packets: f64,
    /// It had a full slot.
    peak: bool,
    /// Missing in the last slot, if it was not the end.
    held: f64,
    /// Missing in a silence, should it have been none by choice.
    pending: f64,
    silent: f64,
    /// s since its limit last cost it a packet.
    bound: f64,
    /// s for which it is still known to have much to send.
    long: f64,
    debt: f64,
    threshold: f64,
    part: f64,
    rate: f64,
    standing: Standing,
    /// s since it began to send.
    since: f64,
    /// Part of the time that it has sent of late.
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
            bound: f64::INFINITY,
            long: 0.0,
            debt: 0.0,
            threshold: 1.0,
            part: 1.0,
            rate: 0.0,
            standing: Standing::Idle,
            since: 0.0,
            presence: 0.0,
        }
    }
}

impl Service {
    /// An interval of `elapsed` s in which these passed, with this much allowed, bit/s.
    pub fn look(
        &mut self,
        elapsed: f64,
        bits: f64,
        packets: f64,
        bound: bool,
        allowed: f64,
        rules: &Rules,
    ) {
        if elapsed <= 0.0 || allowed <= 0.0 {
            return;
        }
        let packet = PACKET / allowed;
        self.threshold = rules.debt + rules.packets * packet;
        self.time += elapsed;
        self.bits += bits;
        self.packets += packets;
        self.allowed += allowed * elapsed;
        self.since += elapsed;
        self.bound = if bound { 0.0 } else { self.bound + elapsed };
        let window = 4.0 + 8.0 * packet;
        self.rate += (1.0 - (-elapsed / window).exp()) * (bits / elapsed - self.rate);
        self.debt *= (-elapsed / FORGET).exp();
        if bits > 0.0 && self.standing == Standing::Idle {
            (self.standing, self.since) = (Standing::Sending, 0.0);
            (self.debt, self.part, self.rate) = (0.0, 1.0, bits / elapsed);
        }
        if self.time + 0.5 * elapsed >= SLOT.max(SLOT_PACKETS * packet) {
            self.slot(rules, packet);
        }
        let here = if self.standing == Standing::Idle { 0.0 } else { 1.0 };
        self.presence += (1.0 - (-elapsed / 30.0).exp()) * (here - self.presence);
    }

    /// A slot is over.
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
        self.long -= time;
        if slot == Slot::Nothing {
            self.nothing(time, packet, rules);
        } else {
            if self.last == Slot::Nothing {
                (self.run, self.run_bits, self.run_packets, self.held) = (0.0, 0.0, 0.0, 0.0);
                self.peak = false;
            }
            let first = self.run == 0.0;
            self.run += time;
            self.run_bits += bits;
            self.run_packets += packets;
            self.peak |= slot == Slot::Full || self.bound <= time;
            let transfer = !self.thin();
            if transfer {
                if self.held > 0.0 {
                    self.charge(self.held, time, rules);
                }
                if !first && self.pending > 0.0 {
                    // A trickle after a silence: it was none by choice.
                    let owed = if slot == Slot::Some { self.pending } else { 0.0 };
                    self.charge(owed, owed, rules);
                    self.pending = 0.0;
                }
                self.held = 0.0;
                match slot {
                    Slot::Some if self.bound <= BOUND * time => {}
                    Slot::Some if self.run > START + START_PACKETS * packet => self.held = missing,
                    Slot::Full => self.charge(missing, time, rules),
                    _ => {}
                }
                if self.run >= LONG {
                    self.long = PATIENCE;
                }
            }
            self.silent = 0.0;
            if self.standing != Standing::Sending && (!first || slot == Slot::Full) {
                self.standing = Standing::Sending;
                self.debt = self.debt.min(0.5 * self.threshold);
            }
        }
        self.last = slot;
    }

    fn nothing(&mut self, time: f64, packet: f64, rules: &Rules) {
        let trickle = self.run_packets < TRICKLE && self.run_bits > 8000.0 * self.run_packets;
        let owed = self.debt > 0.3 * self.threshold;
        let much = self.long > 0.0;
        let doubtful = !self.thin() && (owed && (much || !self.peak) || trickle && much);
        self.silent += time;
        if self.silent <= time {
            self.held = 0.0;
        }
        self.pending += rules.full * time;
        if doubtful {
            self.charge(self.pending, self.pending, rules);
            self.pending = 0.0;
        }
        let gap = GAP + GAP_PACKETS * packet;
        let gap = if self.long > 0.0 { 1.5 * gap } else { gap };
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

    fn charge(&mut self, missing: f64, time: f64, rules: &Rules) {
        if time <= 0.0 {
            return;
        }
        self.debt = (self.debt + missing).clamp(0.0, 2.0 * self.threshold);
        let ratio = (rules.full - missing / time).clamp(0.0, 1.2);
        let slow = 1.0 - (-time / (20.0 + 8.0 * (self.threshold - rules.debt))).exp();
        self.part += slow * (ratio - self.part);
    }

    fn thin(&self) -> bool {
        self.run_bits < THIN * self.run_packets
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Part of the time that it has sent of late, 0 to 1.
    pub fn presence(&self) -> f64 {
        self.presence.min(1.0)
    }

    /// Seconds since it began to send.
    pub fn sent_for(&self) -> f64 {
        if self.standing == Standing::Sending { self.since } else { 0.0 }
    }

    /// bit/s of late.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Its limit has cost it a packet of late.
    pub fn bound(&self) -> bool {
        self.bound < 10.0
    }

    /// Has had all that it may in the last slot.
    pub fn full(&self) -> bool {
        self.last == Slot::Full
    }

    /// Debt in parts of what counts as suffering.
    pub fn want(&self) -> f64 {
        if self.standing == Standing::Idle { 0.0 } else { self.debt / self.threshold }
    }

    /// Part of its limit that it has had of late; 1 of whoever has not sent for long.
    pub fn part(&self) -> f64 {
        if self.standing == Standing::Idle { 1.0 } else { self.part }
    }

    /// s since anything passed, of somebody who is known to have much to send.
    pub fn paused(&self) -> f64 {
        if self.standing == Standing::Sending && self.long > 0.0 { self.silent } else { 0.0 }
    }

    /// Begins to count anew, from half of what counts as suffering.
    pub fn forgive(&mut self, part: f64) {
        self.part = self.part.max(AGAIN);
        self.debt = self.debt.min(part * self.threshold);
    }
}
