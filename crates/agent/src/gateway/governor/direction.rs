//! One subscriber in one direction: its counters, its limit and why.

use fairmesh_control::Reason;
use fairmesh_linux::ClassCounters;
use fairmesh_units::{BitRate, Span, Time};

use crate::gateway::signs::DirectionSigns;

/// What is wrong with a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It was not among those read.
    Missing,
    /// It is less than it was.
    Backwards,
    /// It moved by more than the interface can have sent.
    Absurd,
}

impl Fault {
    /// The event's name.
    pub const fn code(self) -> &'static str {
        match self {
            Fault::Missing => "counter.missing",
            Fault::Backwards => "counter.backwards",
            Fault::Absurd => "counter.absurd",
        }
    }
    /// What happened, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Fault::Missing => "has no counter",
            Fault::Backwards => "has a counter that ran backwards",
            Fault::Absurd => "has a counter that moved by more than the interface sent",
        }
    }
}

/// Looks in a row with a fault after which a limit is not trusted any more.
pub(super) const FAULTS: u8 = 2;

/// Reads a class's counters and keeps totals that only ever grow.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    last: Option<ClassCounters>,
    looked: Option<Time>,
    sampled: bool,
    /// IP bytes since the daemon started, and since the control last looked.
    pub bytes: u64,
    /// Packets since the daemon started.
    pub packets: u64,
    /// Packets dropped since the daemon started.
    pub drops: u64,
    /// Times the limit made it wait since the daemon started.
    pub overlimits: u64,
    /// Bytes waiting at the last look.
    pub backlog: u64,
    /// Packets waiting at the last look.
    pub backlog_packets: u32,
    /// IP bytes over the last look, in bit/s; `None` if that is not known.
    pub rate: Option<BitRate>,
    /// What is wrong now, and for how many looks.
    pub fault: Option<Fault>,
    pub(super) faults: u8,
}

/// What one look at a class told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// Frame bytes that passed.
    Moved(u64),
    /// Its first value, or the class was made anew.
    Base,
    /// Nothing to be believed.
    Bad(Fault),
}

impl Meter {
    /// Starts anew: the class was made again.
    pub(super) fn rebase(&mut self) {
        (self.last, self.looked, self.rate) = (None, None, None);
    }

    /// Takes in a look. `credible`: the most frame bytes that can have passed since the last one;
    /// `header`: bytes of the link's header, which are no IP bytes.
    pub(super) fn sample(
        &mut self,
        now: Time,
        c: &ClassCounters,
        credible: u64,
        header: u64,
    ) -> Look {
        self.sampled = true;
        let before = self.last.replace(*c);
        let elapsed = self.looked.replace(now).map_or(Span::ZERO, |t| now.since(t));
        (self.backlog, self.backlog_packets) = (c.backlog_bytes, c.backlog_packets);
        let Some(before) = before else {
            self.good(None);
            return Look::Base;
        };
        if c.bytes < before.bytes || c.packets < before.packets {
            return self.bad(Fault::Backwards);
        }
        let moved = c.bytes - before.bytes;
        if moved > credible {
            return self.bad(Fault::Absurd);
        }
        let packets = c.packets - before.packets;
        let ip = moved.saturating_sub(packets.saturating_mul(header));
        // Whatever a kernel says, a total stops at its end and does not begin again.
        let add = |total: &mut u64, more: u64| *total = total.saturating_add(more);
        add(&mut self.bytes, ip);
        add(&mut self.packets, packets);
        add(&mut self.drops, c.drops.saturating_sub(before.drops));
        add(&mut self.overlimits, c.overlimits.saturating_sub(before.overlimits));
        let seconds = elapsed.as_secs_f64();
        self.good((seconds > 0.0).then(|| BitRate((ip as f64 * 8.0 / seconds) as u64)));
        Look::Moved(moved)
    }

    /// Ends a look at all classes: one that was not among them is missing.
    pub(super) fn close(&mut self) -> Option<Fault> {
        let sampled = core::mem::take(&mut self.sampled);
        // A class that was never seen may be one that is being made.
        if sampled || (self.last.is_none() && self.faults == 0) {
            return None;
        }
        self.bad(Fault::Missing);
        Some(Fault::Missing)
    }

    fn good(&mut self, rate: Option<BitRate>) {
        (self.rate, self.fault, self.faults) = (rate, None, 0);
    }

    fn bad(&mut self, fault: Fault) -> Look {
        (self.rate, self.fault) = (None, Some(fault));
        self.faults = self.faults.saturating_add(1);
        Look::Bad(fault)
    }

    /// Whether the last look gave a value that can be believed.
    pub(super) fn known(&self) -> bool {
        self.fault.is_none() && self.last.is_some()
    }

    /// Whether its limit is no longer trusted.
    pub(super) fn distrusted(&self) -> bool {
        self.faults >= FAULTS
    }
}

/// Why a limit is what it is.
#[derive(Clone, PartialEq, Debug)]
pub enum Why {
    /// The control's first plan.
    Start,
    /// A decision of the control.
    Decision(Reason),
    /// An operator's override, or its end.
    Override(&'static str),
    /// Something went wrong, or is right again.
    Safety(&'static str),
    /// A changed configuration.
    Reload,
}

impl Why {
    /// A stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Why::Start => "start",
            Why::Decision(r) => r.code,
            Why::Override(code) | Why::Safety(code) => code,
            Why::Reload => "reload",
        }
    }
}

/// A change of a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// When.
    pub at: Time,
    /// The limit before, in IP bytes; `None`: unlimited.
    pub from: Option<BitRate>,
    /// The limit after.
    pub to: Option<BitRate>,
    /// Why.
    pub why: Why,
}

/// An operator's word, which goes before everything else for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Override {
    /// The limit in IP bytes; `None`: unlimited.
    pub rate: Option<BitRate>,
    /// Until when.
    pub until: Time,
}

impl Override {
    /// Bits per second that it may set.
    pub const RATES: core::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;
    /// The longest time: a year is for ever.
    pub const LONGEST: Span = Span::from_secs(366 * 86_400);
}

/// One subscriber in one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionState {
    /// Its counters.
    pub meter: Meter,
    /// What TCP's headers say.
    pub signs: DirectionSigns,
    /// IP bytes and packets of its meter at the control's last deadline, and those of them that
    /// were shown to the control.
    pub(super) seen: Option<[u64; 2]>,
    pub(super) shown: Option<[u64; 2]>,
    /// What the control wants, in IP bytes; `None`: no limit of its own.
    pub wanted: Option<BitRate>,
    /// Whether the control has a class for it.
    pub(super) planned: bool,
    /// Whether what it wants is only where it begins, before any counter.
    pub(super) begins: bool,
    /// Why it wants that.
    pub(super) why: Option<Why>,
    /// An operator's override.
    pub overridden: Option<Override>,
    /// What the kernel was last told, in IP bytes.
    pub in_force: Option<BitRate>,
    /// The last change of what would be in force, with the reason.
    pub change: Option<Change>,
    /// What was last meant to be in force, whether or not limits are set.
    pub(super) meant: Option<BitRate>,
}

/// One limit for everybody, which some controls set instead of one for each.
#[derive(Clone, Debug, Default)]
pub struct Aggregate {
    /// What the control wants for both directions together, in IP bytes.
    pub wanted: Option<BitRate>,
    /// Whether the control has a class for everybody.
    pub(super) planned: bool,
    /// The part of it that is for downstream.
    pub down: f64,
    /// What the kernel was last told, by [`Direction::index`](fairmesh_linux::Direction::index).
    pub in_force: [Option<BitRate>; 2],
    pub(super) why: Option<Why>,
    /// The last change.
    pub change: Option<Change>,
    pub(super) meant: Option<BitRate>,
}

/// What limits a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limiter {
    /// Nothing.
    Nothing,
    /// The control.
    Control,
    /// The control's limit for everybody together.
    Aggregate,
    /// The plan's ceiling.
    Plan,
    /// An operator's override.
    Override,
}

impl Limiter {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Limiter::Nothing => "nothing",
            Limiter::Control => "control",
            Limiter::Aggregate => "aggregate",
            Limiter::Plan => "plan",
            Limiter::Override => "override",
        }
    }
}
