//! One subscriber in one direction: its counters, its limit and the reason.

use fairmesh_control::Reason;
use fairmesh_linux::ClassCounters;
use fairmesh_units::{BitRate, Span, Time};

use crate::gateway::signs::DirectionSigns;

/// Fault of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The sample did not contain it.
    Missing,
    /// The counter decreased.
    Backwards,
    /// The counter increased by more than the interface can have sent.
    Absurd,
}

impl Fault {
    /// Returns the name of the event.
    pub const fn code(self) -> &'static str {
        match self {
            Fault::Missing => "counter.missing",
            Fault::Backwards => "counter.backwards",
            Fault::Absurd => "counter.absurd",
        }
    }
    /// Returns the text of the event.
    pub const fn description(self) -> &'static str {
        match self {
            Fault::Missing => "has no counter",
            Fault::Backwards => "has a counter that decreased",
            Fault::Absurd => "has a counter that increased by more than the interface sent",
        }
    }
}

/// Consecutive samples with a fault after which a limit is no longer trusted.
pub(super) const MAX_FAULTS: u8 = 2;

/// Meter of a class: reads its counters and keeps totals that only grow.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    last: Option<ClassCounters>,
    sampled_at: Option<Time>,
    sampled: bool,
    /// IP bytes since the daemon started.
    pub bytes: u64,
    /// Packets since the daemon started.
    pub packets: u64,
    /// Packets dropped since the daemon started.
    pub drops: u64,
    /// Times that the limit delayed a packet since the daemon started.
    pub overlimits: u64,
    /// Bytes waiting at the last sample.
    pub backlog: u64,
    /// Packets waiting at the last sample.
    pub backlog_packets: u32,
    /// Rate of IP bytes in the last sample; `None`: unknown.
    pub rate: Option<BitRate>,
    /// Present fault.
    pub fault: Option<Fault>,
    /// Consecutive samples with a fault.
    pub(super) faults: u8,
}

/// Result of one sample of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MeterResult {
    /// Frame bytes since the last sample.
    Moved(u64),
    /// First value of the class, or of a class that was created again.
    Base,
    /// Implausible value.
    Bad(Fault),
}

impl Meter {
    /// Restarts the meter: the class was created again.
    pub(super) fn rebase(&mut self) {
        (self.last, self.sampled_at, self.rate) = (None, None, None);
    }

    /// Handles a sample.
    ///
    /// `credible`: largest possible frame bytes since the last sample; `header`: bytes of the
    /// link's header, which are not IP bytes.
    pub(super) fn sample(
        &mut self,
        now: Time,
        c: &ClassCounters,
        credible: u64,
        header: u64,
    ) -> MeterResult {
        self.sampled = true;
        let before = self.last.replace(*c);
        let elapsed = self.sampled_at.replace(now).map_or(Span::ZERO, |t| now.since(t));
        (self.backlog, self.backlog_packets) = (c.backlog_bytes, c.backlog_packets);
        let Some(before) = before else {
            self.good(None);
            return MeterResult::Base;
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
        // A total saturates and never wraps, whatever the kernel reports.
        let add = |total: &mut u64, more: u64| *total = total.saturating_add(more);
        add(&mut self.bytes, ip);
        add(&mut self.packets, packets);
        add(&mut self.drops, c.drops.saturating_sub(before.drops));
        add(&mut self.overlimits, c.overlimits.saturating_sub(before.overlimits));
        let seconds = elapsed.as_secs_f64();
        self.good((seconds > 0.0).then(|| BitRate((ip as f64 * 8.0 / seconds) as u64)));
        MeterResult::Moved(moved)
    }

    /// Ends a sample of all classes: a class that was not in it is missing.
    pub(super) fn close(&mut self) -> Option<Fault> {
        let sampled = core::mem::take(&mut self.sampled);
        // A class that was never seen may still be in creation.
        if sampled || (self.last.is_none() && self.faults == 0) {
            return None;
        }
        self.bad(Fault::Missing);
        Some(Fault::Missing)
    }

    fn good(&mut self, rate: Option<BitRate>) {
        (self.rate, self.fault, self.faults) = (rate, None, 0);
    }

    fn bad(&mut self, fault: Fault) -> MeterResult {
        (self.rate, self.fault) = (None, Some(fault));
        self.faults = self.faults.saturating_add(1);
        MeterResult::Bad(fault)
    }

    /// True if the last sample gave a plausible value.
    pub(super) fn known(&self) -> bool {
        self.fault.is_none() && self.last.is_some()
    }

    /// True if its limit is no longer trusted.
    pub(super) fn distrusted(&self) -> bool {
        self.faults >= MAX_FAULTS
    }
}

/// Reason of a limit.
#[derive(Clone, PartialEq, Debug)]
pub enum LimitReason {
    /// The control's first plan.
    Start,
    /// A decision of the control.
    Decision(Reason),
    /// An operator's override, or its end.
    Override(&'static str),
    /// A fault, or its end.
    Safety(&'static str),
    /// A changed configuration.
    Reload,
    /// Measured rates of the links.
    Links,
    /// Begin or end of a schedule's window.
    Schedule,
    /// A quota that is used up, or begins again.
    Quota,
}

impl LimitReason {
    /// Returns a stable name.
    pub fn code(&self) -> &'static str {
        match self {
            LimitReason::Start => "start",
            LimitReason::Decision(r) => r.code,
            LimitReason::Override(code) | LimitReason::Safety(code) => code,
            LimitReason::Reload => "reload",
            LimitReason::Links => "links",
            LimitReason::Schedule => "schedule",
            LimitReason::Quota => "quota",
        }
    }
}

/// A change of a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Time.
    pub at: Time,
    /// Limit before, in IP bytes; `None`: unlimited.
    pub from: Option<BitRate>,
    /// Limit after, in IP bytes; `None`: unlimited.
    pub to: Option<BitRate>,
    /// Reason.
    pub why: LimitReason,
}

/// An operator's override, which takes precedence over everything else for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Override {
    /// Limit in IP bytes; `None`: unlimited.
    pub rate: Option<BitRate>,
    /// End.
    pub until: Time,
}

impl Override {
    /// Permitted rates, in bit/s.
    pub const RATES: core::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;
    /// Longest duration: one year.
    pub const LONGEST: Span = Span::from_secs(366 * 86_400);
}

/// One subscriber in one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionState {
    /// Counters.
    pub meter: Meter,
    /// IP bytes of its meter that are counted in the quota.
    pub(super) charged: u64,
    /// Data of TCP headers.
    pub signs: DirectionSigns,
    /// IP bytes and packets of its meter at the control's last deadline.
    pub(super) seen: Option<[u64; 2]>,
    /// The part of them that the control saw.
    pub(super) shown: Option<[u64; 2]>,
    /// Limit that the control requests, in IP bytes; `None`: no limit of its own.
    pub wanted: Option<BitRate>,
    /// True if the control has a class for it.
    pub(super) planned: bool,
    /// True if the requested limit is only the control's initial one, before any counter.
    pub(super) initial: bool,
    /// Reason of the requested limit.
    pub(super) why: Option<LimitReason>,
    /// An operator's override.
    pub overridden: Option<Override>,
    /// Limit in the kernel, in IP bytes.
    pub in_force: Option<BitRate>,
    /// Last change of the intended limit, with the reason.
    pub change: Option<Change>,
    /// Last intended limit, in force or not.
    pub(super) meant: Option<BitRate>,
}

/// One limit for all subscribers together, which some controls set instead of one for each.
#[derive(Clone, Debug, Default)]
pub struct Aggregate {
    /// Limit that the control requests for both directions together, in IP bytes.
    pub wanted: Option<BitRate>,
    /// True if the control has a class for all subscribers together.
    pub(super) planned: bool,
    /// Downstream's part of the traffic, by which the limit is split.
    pub down: f64,
    /// Limit, split into the parts that are in the kernel.
    pub(super) split: Option<BitRate>,
    /// Value of `split` once the pending changes are confirmed.
    pub(super) splitting: Option<BitRate>,
    /// Limits in the kernel, by [`Direction::index`](fairmesh_linux::Direction::index).
    pub in_force: [Option<BitRate>; 2],
    pub(super) why: Option<LimitReason>,
    /// The last change.
    pub change: Option<Change>,
    pub(super) meant: Option<BitRate>,
}

impl Aggregate {
    /// True if the control has a class for all subscribers together.
    pub fn is_planned(&self) -> bool {
        self.planned
    }
}

/// Origin of a subscriber's limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limiter {
    /// Nothing.
    Nothing,
    /// The control.
    Control,
    /// The control's aggregate limit.
    Aggregate,
    /// The plan's ceiling.
    Plan,
    /// An operator's override.
    Override,
}

impl Limiter {
    /// Returns its name in reports.
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
