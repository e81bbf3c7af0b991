//! Governor and data plane together: measurements, limits, and the handling of failures.
//!
//! There is no clock: `now` is an input, the time of the next call an output.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use fairmesh_control::StartError;
use fairmesh_linux::{
    ClassCounters, Deviation, Error, Installed, RateChange, SentCounters, Shaper, ShaperKind, Side,
    Verification,
};
use fairmesh_units::{Span, Time};

use crate::gateway::config::{Config, Subscriber, UNMAPPED};
use crate::gateway::governor::{Governor, Sanity, Suspension, direction_name};
use crate::gateway::journal::Level;
use crate::gateway::signs::{Reader, SharedReader};

/// First wait before a failed operation is repeated.
const FIRST_WAIT: Span = Span::from_secs(1);
/// Longest wait before a failed operation is repeated.
const LONGEST_WAIT: Span = Span::from_secs(30);
/// Least time between two changes of the classes.
const MIN_LAYOUT_INTERVAL: Span = Span::from_secs(1);
/// Losses of an interface within a minute after which it is left alone.
const MAX_FLAPS: usize = 5;
const MINUTE: Span = Span::from_secs(60);
/// Time for which such an interface is left alone.
const FLAP_PAUSE: Span = Span::from_secs(10);
/// Interval of the renewals of limits, which expire after 10 s.
const RENEWAL_INTERVAL: Span = Span::from_secs(2);
/// Consecutive renewals that may fail.
const MAX_FAILED_RENEWALS: u8 = 3;
/// Consecutive good samples after which limits are set again.
const GOOD_SAMPLES: u8 = 2;

/// State of the kernel's objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nothing of ours, or nothing reliable; installed again at this time.
    Absent {
        /// Time of the next attempt.
        retry: Time,
        /// Wait after that attempt.
        wait: Span,
    },
    /// Classes with the intended limits.
    Running,
    /// Classes without limits because of a fault, by the name of its event.
    Safe {
        /// Name of the event.
        cause: &'static str,
        /// Consecutive good samples.
        good: u8,
        /// Earliest end.
        retry: Time,
    },
}

impl Phase {
    /// Returns a word for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Absent { .. } => "absent",
            Phase::Running => "running",
            Phase::Safe { .. } => "safe",
        }
    }
}

/// A running gateway.
#[derive(Debug)]
pub struct Host<P> {
    plane: P,
    /// Decisions.
    pub governor: Governor,
    phase: Phase,
    /// Result of the last installation.
    pub installed: Option<Installed>,
    /// Consecutive failed samples.
    failed_samples: u8,
    /// Time of the next sample after a failed one.
    resample_at: Option<Time>,
    /// Time of the last renewal.
    renewed: Time,
    /// Consecutive failed renewals.
    failed_renewals: u8,
    /// Deviations of the last audit.
    deviations: Vec<Deviation>,
    /// Text of a call that has not ended.
    pending: Option<String>,
    relaid: Option<Time>,
    relayout_wait: Span,
    losses: Vec<Time>,
    /// Our interfaces that are down.
    down: BTreeSet<String>,
    /// Time when a fault last lifted the limits.
    lifted: Option<Time>,
    /// Least time before they are set again.
    lift_wait: Span,
    samples: Vec<ClassCounters>,
    changes: Vec<RateChange>,
    sent: [Option<SentCounters>; 2],
    /// Reader of TCP headers.
    signs: SharedReader,
    /// True if echo probes may be sent.
    pub probing: bool,
    now: Time,
}

/// Returns the queue in every class, for messages.
pub fn leaf(installed: &Installed) -> String {
    match installed.shaper {
        ShaperKind::Htb => installed.leaf.to_string(),
        ShaperKind::Edt => format!("{} by departure times (edt)", installed.leaf),
    }
}

impl<P: Shaper> Host<P> {
    /// Returns a gateway that has not acted yet.
    pub fn new(plane: P, governor: Governor) -> Self {
        Host {
            plane,
            governor,
            phase: Phase::Absent { retry: Time::ZERO, wait: FIRST_WAIT },
            installed: None,
            failed_samples: 0,
            resample_at: None,
            renewed: Time::ZERO,
            failed_renewals: 0,
            deviations: Vec::new(),
            pending: None,
            relaid: None,
            relayout_wait: MIN_LAYOUT_INTERVAL,
            losses: Vec::new(),
            down: BTreeSet::new(),
            lifted: None,
            lift_wait: FIRST_WAIT,
            samples: Vec::new(),
            changes: Vec::new(),
            sent: [None, None],
            signs: SharedReader::default(),
            probing: false,
            now: Time::ZERO,
        }
    }

    /// Returns the state of the kernel's objects.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the texts of faults that make installed limits ineffective.
    pub fn faults(&self) -> Vec<String> {
        let certain = self.deviations.iter().filter(|d| d.is_certain());
        certain.map(Deviation::to_string).chain(self.pending.clone()).collect()
    }

    /// Returns the texts of possible faults that cannot be verified.
    pub fn doubts(&self) -> Vec<String> {
        let doubts = self.deviations.iter().filter(|d| !d.is_certain());
        doubts.map(Deviation::to_string).collect()
    }

    /// Returns the phase in one word for reports: `degraded` if limits are set and ineffective.
    pub fn phase_name(&self) -> &'static str {
        let faulty = self.deviations.iter().any(Deviation::is_certain) || self.pending.is_some();
        match self.phase {
            Phase::Running if faulty => "degraded",
            phase => phase.name(),
        }
    }

    /// Records that a call has not ended; it is repeated soon.
    fn wait_for(&mut self, e: &Error) {
        if self.pending.is_none() {
            self.note(Level::Warning, "program.busy", || format!("{e}; limits are unchanged"));
        }
        self.pending = Some(e.to_string());
    }

    /// Returns the data plane.
    pub fn plane(&mut self) -> &mut P {
        &mut self.plane
    }

    /// Returns the reader of TCP headers.
    pub fn signs(&self) -> &SharedReader {
        &self.signs
    }

    /// Locks the reader.
    ///
    /// A thread that panicked while it held the reader has at worst skipped a header.
    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.signs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes that the interfaces had sent at the last sample: downstream, upstream.
    pub fn sent(&self) -> [Option<SentCounters>; 2] {
        self.sent
    }

    fn note(&mut self, level: Level, code: &'static str, text: impl FnOnce() -> String) {
        self.governor.journal.note(self.now, level, code, text);
    }

    /// Carries out everything that is due at `now`; returns the time of the next call.
    pub fn poll(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        let now = self.now;
        self.governor.tick(now);
        if !matches!(self.phase, Phase::Absent { .. }) && now >= self.renewed + RENEWAL_INTERVAL {
            self.renew(now);
        }
        if let Phase::Absent { retry, wait } = self.phase
            && now >= retry
        {
            self.install(now, wait);
        }
        if !matches!(self.phase, Phase::Absent { .. }) && self.governor.layout_changed() {
            self.relayout(now);
        }
        if now >= self.resample_at.unwrap_or_else(|| self.governor.next_sample()) {
            self.look(now);
        }
        self.apply(now);
        self.next_deadline()
    }

    /// Returns the time at which [`Host::poll`] has something to do next.
    pub fn next_deadline(&self) -> Time {
        let mut next = self.governor.next_deadline();
        if let Some(again) = self.resample_at {
            next = next.min(again);
        }
        match self.phase {
            Phase::Absent { retry, .. } => return next.min(retry),
            _ if self.governor.layout_changed() => next = next.min(self.relayout_due()),
            _ => {}
        }
        next.min(self.renewed + RENEWAL_INTERVAL)
    }

    fn install(&mut self, now: Time, wait: Span) {
        let layout = self.governor.layout();
        match self.plane.install(&layout) {
            Ok(installed) => {
                self.pending = None;
                self.deviations.clear();
                let [down, up] = installed.headers;
                self.governor.set_headers(down.into(), up.into());
                self.governor.laid_out();
                self.reader().settle(&layout);
                self.governor.reinstalled();
                self.governor.suspend(Suspension::None);
                self.phase = Phase::Running;
                (self.failed_samples, self.resample_at) = (0, Some(now));
                (self.failed_renewals, self.renewed) = (0, now);
                let leaf = leaf(&installed);
                let how = if installed.adopted { "taken over" } else { "installed" };
                let n = self.governor.subscribers().count();
                self.note(Level::Info, "shaping.installed", || {
                    format!("classes for {n} subscribers {how}, queue {leaf}")
                });
                for text in installed.notes.clone() {
                    self.note(Level::Warning, "shaping.note", || text);
                }
                self.installed = Some(installed);
                self.down = [Side::Mesh, Side::Wired]
                    .into_iter()
                    .filter_map(|side| self.plane.interface(side).ok())
                    .filter(|i| !i.up)
                    .map(|i| i.name)
                    .collect();
            }
            Err(e) if e.is_busy() => {
                self.wait_for(&e);
                self.phase = Phase::Absent { retry: now + FIRST_WAIT, wait: FIRST_WAIT };
            }
            Err(e) => {
                self.pending = None;
                self.note(Level::Error, "install.failed", || e.to_string());
                self.phase = Phase::Absent { retry: now + wait, wait: longer(wait) };
            }
        }
    }

    /// Renews the limits, and checks that they are in force.
    fn renew(&mut self, now: Time) {
        self.renewed = now;
        match self.plane.renew() {
            Ok(()) => {
                self.failed_renewals = 0;
                self.audit(now);
            }
            Err(e) if e.is_interface_lost() => self.lost(now, &e),
            Err(e @ Error::RulesGone { .. }) => {
                self.note(Level::Error, "rules.gone", || format!("{e}; the rules are restored"));
                // Classes without members are useless; they must not be limited when packets reach them again.
                let _ = self.plane.release();
                self.governor.released();
                self.governor.suspend(Suspension::Fault("rules.gone"));
                let wait = self.loss(now, Span::ZERO);
                self.phase = Phase::Absent { retry: now + wait, wait: longer(FIRST_WAIT) };
            }
            Err(e) => {
                self.note(Level::Warning, "renew.failed", || e.to_string());
                self.failed_renewals = self.failed_renewals.saturating_add(1);
                if self.failed_renewals >= MAX_FAILED_RENEWALS && self.phase == Phase::Running {
                    self.release(now, "renew.failed");
                }
            }
        }
    }

    /// Checks that limits are effective, and reports deviations.
    fn audit(&mut self, now: Time) {
        match self.plane.audit() {
            Ok(found) => {
                let (repaired, remaining): (Vec<_>, Vec<_>) =
                    found.into_iter().partition(Deviation::is_repaired);
                let code = |d: &Deviation| core::mem::discriminant(d);
                for d in &repaired {
                    self.note(Level::Error, d.code(), || d.to_string());
                }
                // One event per kind as long as it lasts, even if its numbers change.
                let known: Vec<_> = self.deviations.iter().map(code).collect();
                for d in remaining.iter().filter(|d| !known.contains(&code(d))) {
                    let level = if d.is_certain() { Level::Error } else { Level::Warning };
                    self.note(level, d.code(), || d.to_string());
                }
                let faulty = |all: &[Deviation]| all.iter().any(Deviation::is_certain);
                if !faulty(&remaining) && faulty(&self.deviations) {
                    self.note(Level::Info, "limits.act", || "limits are effective again".into());
                }
                self.deviations = remaining;
                if !self.governor.layout_changed() {
                    self.pending = None;
                }
                if repaired.iter().any(|d| matches!(d, Deviation::Misrouted { .. })) {
                    self.compare_classifiers();
                }
            }
            Err(e) if e.is_interface_lost() => self.lost(now, &e),
            Err(e) if e.is_busy() => self.wait_for(&e),
            Err(e) => self.note(Level::Warning, "audit.failed", || e.to_string()),
        }
    }

    /// Records a loss of our objects; returns the wait before they are restored.
    fn loss(&mut self, now: Time, wait: Span) -> Span {
        self.losses.retain(|t| now.since(*t) < MINUTE);
        self.losses.push(now);
        if self.losses.len() < MAX_FLAPS {
            return wait;
        }
        self.note(Level::Error, "interface.flapping", || {
            format!("lost {MAX_FLAPS} times within a minute; next attempt in {FLAP_PAUSE}")
        });
        FLAP_PAUSE
    }

    fn relayout_due(&self) -> Time {
        self.relaid.map_or(Time::ZERO, |t| t + self.relayout_wait)
    }

    fn relayout(&mut self, now: Time) {
        if now < self.relayout_due() {
            return;
        }
        self.relaid = Some(now);
        let layout = self.governor.layout();
        match self.plane.relayout(&layout) {
            Ok(relaid) => {
                self.pending = None;
                self.relayout_wait = MIN_LAYOUT_INTERVAL;
                self.governor.laid_out();
                self.reader().settle(&layout);
                let fairmesh_linux::RelayoutResult { added, removed, changed } = relaid;
                self.note(Level::Info, "shaping.relaid", || {
                    format!(
                        "subscribers: {added} added, {removed} removed, {changed} with changed addresses"
                    )
                });
                self.compare_classifiers();
            }
            Err(e) if e.is_interface_lost() => self.lost(now, &e),
            Err(e) if e.is_busy() => {
                self.relayout_wait = MIN_LAYOUT_INTERVAL;
                self.wait_for(&e);
            }
            Err(e) => {
                self.pending = None;
                self.relayout_wait = longer(self.relayout_wait);
                self.note(Level::Error, "relayout.failed", || {
                    format!("{e}; classes are unchanged")
                });
            }
        }
    }

    /// Checks that packets reach their classes; reports failures and replaced classifiers.
    pub fn verify(&mut self) -> Vec<Verification> {
        let seen = self.plane.verify().unwrap_or_default();
        for v in seen.iter().filter(|v| !v.holds) {
            self.note(Level::Error, "classifier.failed", || {
                let way = direction_name(v.direction.index());
                let (classified, arrived) = (v.classified, v.arrived);
                format!(
                    "{way}: only {arrived} of {classified} classified packets reached their class"
                )
            });
        }
        self.compare_classifiers();
        seen
    }

    /// Reports changed classifiers, for new subscribers or after a failure.
    fn compare_classifiers(&mut self) {
        let (Some(installed), Some(now)) = (&mut self.installed, self.plane.classifiers()) else {
            return;
        };
        let before = std::mem::replace(&mut installed.classifier, now);
        for d in [0, 1] {
            if before[d] != now[d] {
                self.note(Level::Warning, "classifier.changed", || {
                    let way = direction_name(d);
                    format!(
                        "{way}: packets are classified by {}, no longer by {}",
                        now[d], before[d]
                    )
                });
            }
        }
    }

    fn look(&mut self, now: Time) {
        self.resample_at = None;
        if matches!(self.phase, Phase::Absent { .. }) {
            return self.governor.blind(now);
        }
        if let Err(e) = self.plane.sample(&mut self.samples) {
            self.governor.blind(now);
            if e.is_interface_lost() {
                return self.lost(now, &e);
            }
            self.failed_samples = self.failed_samples.saturating_add(1);
            self.note(Level::Warning, "sample.failed", || e.to_string());
            if self.failed_samples >= 2 {
                self.release(now, "sample.failed");
            }
            // Sooner than the next epoch, so that two failures do not take two epochs.
            self.resample_at = Some((now + FIRST_WAIT).min(self.governor.next_sample()));
            return;
        }
        self.failed_samples = 0;
        self.sent = [Side::Mesh, Side::Wired].map(|side| self.plane.sent(side).ok());
        let sanity = self.sample(now);
        match sanity {
            Sanity::Stuck => {
                self.note(Level::Error, "counters.stuck", || {
                    "counters of all classes do not change while the interface sends".into()
                });
                self.release(now, "counters.stuck");
            }
            Sanity::Nonsense => {
                self.note(Level::Error, "counters.nonsense", || {
                    "most counters are missing, decreased or are implausible".into()
                });
                self.release(now, "counters.nonsense");
            }
            Sanity::Doubtful => {
                self.note(Level::Warning, "counters.doubtful", || {
                    "counters are implausible; limits are lifted if this continues".into()
                });
                if let Phase::Safe { good, .. } = &mut self.phase {
                    *good = 0;
                }
            }
            Sanity::Sane => self.recover(now),
        }
    }

    fn sample(&mut self, now: Time) -> Sanity {
        let reader = self.signs.clone();
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = Some(&mut *reader).filter(|r| r.is_open());
        self.governor.take_signs(now, reader, self.probing);
        self.governor.sample(now, &self.samples, self.sent)
    }

    /// Handles a good sample; enough of them end the safe state.
    fn recover(&mut self, now: Time) {
        if self.failed_renewals > 0 {
            return;
        }
        let Phase::Safe { cause, good, retry } = &mut self.phase else { return };
        *good += 1;
        if *good >= GOOD_SAMPLES && now >= *retry {
            let cause = *cause;
            self.phase = Phase::Running;
            self.governor.suspend(Suspension::None);
            self.governor.forget_limits();
            self.note(Level::Info, "shaping.resumed", || {
                format!("limits are set again after {cause}")
            });
        }
    }

    /// Enters the safe state: classes stay, limits are lifted.
    fn release(&mut self, now: Time, cause: &'static str) {
        // Repeated faults get longer pauses.
        let again = self.lifted.replace(now).is_some_and(|t| now.since(t) < MINUTE);
        self.lift_wait = if again { longer(self.lift_wait) } else { FIRST_WAIT };
        self.governor.suspend(Suspension::Fault(cause));
        self.phase = Phase::Safe { cause, good: 0, retry: now + self.lift_wait };
        match self.plane.release() {
            Ok(()) => {
                self.governor.released();
                self.note(Level::Warning, "shaping.released", || {
                    format!("limits are lifted because of {cause}")
                });
            }
            Err(e) => {
                self.note(Level::Error, "release.failed", || {
                    format!("{e}; queues and rules are removed")
                });
                self.remove(now);
            }
        }
    }

    fn remove(&mut self, now: Time) {
        if let Err(e) = self.plane.remove(&self.governor.layout()) {
            self.note(Level::Error, "remove.failed", || e.to_string());
        }
        self.governor.released();
        self.phase = Phase::Absent { retry: now + FIRST_WAIT, wait: longer(FIRST_WAIT) };
    }

    /// Handles the loss of an interface, or of our queueing discipline on it.
    fn lost(&mut self, now: Time, e: &Error) {
        self.note(Level::Error, "interface.lost", || e.to_string());
        // The other direction must not keep limits that are no longer adjusted. The call fails in part, since one side
        // is missing.
        let _ = self.plane.release();
        self.governor.released();
        self.governor.suspend(Suspension::Fault("interface.lost"));
        let wait = self.loss(now, FIRST_WAIT);
        self.phase = Phase::Absent { retry: now + wait, wait: longer(wait) };
    }

    fn apply(&mut self, now: Time) {
        if matches!(self.phase, Phase::Absent { .. }) {
            return;
        }
        let mut changes = core::mem::take(&mut self.changes);
        self.governor.changes(&mut changes);
        if !changes.is_empty() {
            match self.plane.set_rates(&changes) {
                Ok(()) => self.governor.applied(),
                Err(e) => {
                    self.note(Level::Error, "apply.failed", || e.to_string());
                    if e.is_interface_lost() {
                        self.lost(now, &e);
                    } else {
                        self.release(now, "apply.failed");
                    }
                }
            }
        }
        self.changes = changes;
    }

    /// Handles an interface that came up, went down or is gone.
    pub fn link(&mut self, now: Time, name: &str, up: bool) {
        self.now = self.now.max(now);
        let layout = self.governor.base_layout();
        if name != layout.mesh.name() && name != layout.wired.name() {
            return;
        }
        if up {
            self.down.remove(name);
            self.note(Level::Info, "interface.up", || format!("{name} is up"));
            if let Phase::Absent { retry, .. } = &mut self.phase
                && self.losses.len() < MAX_FLAPS
            {
                *retry = (*retry).min(now);
            }
        } else {
            self.down.insert(name.to_owned());
            self.note(Level::Warning, "interface.down", || format!("{name} is down"));
        }
        if self.phase == Phase::Running {
            // Its effects on classes and counters are visible now rather than in an epoch.
            self.resample_at = Some(now);
        }
    }

    /// Applies a changed configuration; rates change in place.
    ///
    /// # Errors
    /// The refusal; nothing changes then.
    pub fn reload(&mut self, now: Time, config: &Config) -> Result<(), ReloadError> {
        self.now = self.now.max(now);
        // With the queues and bursts that its control requests.
        let (old, new) = (self.governor.base_layout(), Governor::trial(config)?);
        let [leaf, queue] = match config.queues_by_control {
            false => ["shaping.leaf", "shaping.queue"],
            true => ["shaping.leaf", "control.queue"],
        };
        let edt = self.installed.as_ref().is_some_and(|i| i.shaper == ShaperKind::Edt);
        let fixed = [
            ("peers", self.governor.peers() == config.peers.as_ref()),
            ("mesh.interface", old.mesh == new.mesh),
            ("wired.interface", old.wired == new.wired),
            ("shaping.table", old.table == new.table),
            ("shaping.handle", old.handle == new.handle),
            ("shaping.shaper", old.shaper == new.shaper),
            ("control.use", !(edt && new.aggregate)),
            (leaf, old.leaf == new.leaf),
            (queue, old.queue == new.queue),
            ("shaping.delay", old.delay_ms == new.delay_ms),
            ("control.use", old.burst == new.burst),
            ("shaping.bypass_udp", old.bypass.udp == new.bypass.udp),
            ("shaping.bypass_tcp", old.bypass.tcp == new.bypass.tcp),
        ];
        if let Some((key, _)) = fixed.iter().find(|(_, same)| !same) {
            return Err(ReloadError::Fixed(key));
        }
        self.governor.reload(config, now)?;
        // At once, however recent the last change is.
        self.relaid = None;
        self.note(Level::Info, "config.reloaded", || {
            let listed = config.subscribers.iter().filter(|s| s.name != UNMAPPED).count();
            format!("{listed} subscribers in the file, mode {}", config.mode.name())
        });
        Ok(())
    }

    /// Iterates over our interfaces that are down: no traffic passes them.
    pub fn down(&self) -> impl Iterator<Item = &str> {
        self.down.iter().map(String::as_str)
    }

    /// Handles the results of the sources.
    pub fn discovered(&mut self, now: Time, found: Vec<Subscriber>) {
        self.now = self.now.max(now);
        self.governor.discovered(self.now, found);
    }

    /// Handles the case that the guard has lifted the limits because of a late heartbeat.
    pub fn limits_unknown(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.note(Level::Warning, "daemon.late", || {
            "this process was stopped or late, and the guard may have lifted limits; they are set again".into()
        });
        self.governor.forget_limits();
    }

    /// Ends the gateway's work: lifts the limits, or removes everything that is ours.
    pub fn stop(&mut self, now: Time, remove: bool) -> Result<(), Error> {
        self.now = self.now.max(now);
        if remove {
            return self.plane.remove(&self.governor.base_layout()).map(|_| ());
        }
        if matches!(self.phase, Phase::Absent { .. }) {
            return Ok(());
        }
        let released = self.plane.release();
        if released.is_err() {
            return self.plane.remove(&self.governor.base_layout()).map(|_| ());
        }
        released
    }
}

fn longer(wait: Span) -> Span {
    wait.saturating_mul(2).min(LONGEST_WAIT)
}

/// Reason why a changed configuration is not applied.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The change needs a restart.
    #[error(
        "{0}: cannot change while the daemon runs; restore the old value, or restart the daemon"
    )]
    Fixed(&'static str),
    /// The control refuses.
    #[error(transparent)]
    Control(#[from] StartError),
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
