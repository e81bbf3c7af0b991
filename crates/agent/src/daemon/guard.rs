//! Guard: a second process that undoes the daemon's effects when the daemon dies or hangs.
//!
//! The daemon holds one end of a pipe and writes lines: the number of milliseconds until the next line, or `bye`. If
//! the pipe ends without `bye`, the guard lifts all effects at once and in place, so that nothing is lost. The next
//! daemon may take them over; otherwise the guard removes them after `TAKEOVER_WAIT`. If a line is late, the guard
//! removes them at once.
//!
//! A guard acts only on the effects of its own daemon. It may have been stopped and wake when another daemon runs, so
//! it first claims the resources or compares their registered owner.

use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use fairmesh_units::{Span, Time};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use super::files::{self, Links};
use super::lock::{Claim, LOCK_PATIENCE, Lock, Registry, Resource};

/// Time until lifted effects are removed unless another daemon takes them over.
///
/// procd restarts after 5 s. A removal drops the packets of that moment (the kernel sends nothing while it removes a
/// root qdisc), a take-over does not.
const TAKEOVER_WAIT: Duration = Duration::from_secs(7);

/// Longest time that a starting daemon waits for the guard of an earlier one.
const EARLIER_GUARD_PATIENCE: Duration = Duration::from_secs(15);

/// Least time between two starts of a guard; one may follow at once.
const RESTART_INTERVAL: Span = Span::from_secs(5);

/// Lateness of the guard itself from which the machine counts as stalled.
const STALL: Duration = Duration::from_millis(500);

/// Time that the guard waits for the next heartbeat.
#[derive(Clone, Copy, Debug)]
struct Patience {
    limit: Duration,
    /// True if the guard was late itself since the last heartbeat.
    stalled: bool,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Patience { limit, stalled: false }
    }

    /// Returns true if the daemon counts as hanging after a wait of this length.
    ///
    /// A guard that was late itself waits once more: its machine has stopped both processes.
    fn ends_after(&mut self, waited: Duration) -> bool {
        let late = waited >= self.limit + STALL;
        let first = late && !self.stalled;
        self.stalled |= late;
        !first
    }
}

/// Effects of a daemon that its guard can undo.
pub trait Rescue {
    /// A refusal of the system.
    type Error: Display;

    /// Makes the effects harmless in place; a daemon that follows can take them over.
    ///
    /// # Errors
    /// Effects that are still in force.
    fn lift(&mut self) -> Result<(), Self::Error>;

    /// Removes the effects.
    ///
    /// # Errors
    /// Effects that are still there.
    fn remove(&mut self) -> Result<(), Self::Error>;
}

/// Rate limit of the guard's restarts: time of the last start, and a spare start.
///
/// The spare is for the case that the killer of the guard kills the daemon next; the limit prevents a fast loop of
/// guards that end by themselves.
#[derive(Clone, Copy, Debug)]
pub struct GuardRestarts {
    since: Time,
    spare: bool,
}

impl GuardRestarts {
    /// Returns the state after the first start.
    pub fn first(now: Time) -> Self {
        GuardRestarts { since: now, spare: true }
    }

    /// Returns the state after another start; `None`: not yet permitted.
    pub fn next(self, now: Time) -> Option<Self> {
        let rested = now.since(self.since) >= RESTART_INTERVAL;
        (rested || self.spare).then_some(GuardRestarts { since: now, spare: rested })
    }
}

/// The daemon's end of the pipe.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    patience: Duration,
    last: Instant,
    late: bool,
}

/// State of a guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// The daemon works.
    Running,
    /// The daemon is stopped by a signal.
    Stopped,
    /// The daemon has ended.
    Gone,
}

impl Guard {
    /// Starts the second process: this program with `arguments`.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn start(arguments: &[String], patience: Duration) -> io::Result<Guard> {
        // The running program, even if its file was replaced since.
        let mut command = Command::new("/proc/self/exe");
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        command.args(arguments);
        Guard::of(command, patience)
    }

    fn of(mut command: Command, patience: Duration) -> io::Result<Guard> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Signals to the daemon's group, as from a terminal, do not reach the guard.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        if let Some(pipe) = &pipe {
            // A guard that does not read must not block the daemon while limits are in force.
            let flags = OFlag::from_bits_truncate(fcntl(pipe, FcntlArg::F_GETFL)?);
            fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        Ok(Guard { child, pipe, patience, last: Instant::now(), late: false })
    }

    /// Sends a heartbeat with the longest time until the next one.
    ///
    /// Returns `false` if the previous time had passed, so that the guard may have undone the effects.
    pub fn beat(&mut self, patience: Duration) -> bool {
        self.write_heartbeat(patience);
        !core::mem::take(&mut self.late)
    }

    /// Sends a heartbeat during a long operation, with the same time.
    pub fn beat_again(&mut self) {
        self.write_heartbeat(self.patience);
    }

    fn write_heartbeat(&mut self, patience: Duration) {
        self.late |= self.last.elapsed() > self.patience;
        self.last = Instant::now();
        self.patience = patience;
        if let Some(pipe) = &mut self.pipe {
            let line = format!("{}\n", patience.as_millis());
            match pipe.write_all(line.as_bytes()) {
                // The guard has enough to read.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.pipe = None,
                Ok(()) => {}
            }
        }
    }

    /// Returns the state of the guard.
    pub fn watches(&mut self) -> Watch {
        if self.pipe.is_none() || !matches!(self.child.try_wait(), Ok(None)) {
            return Watch::Gone;
        }
        if is_stopped(self.child.id()) { Watch::Stopped } else { Watch::Running }
    }

    /// Ends a guard that is no longer needed; it lifts nothing.
    pub fn end(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Dismisses the guard: the daemon cleans up by itself.
    pub fn dismiss(mut self) {
        if self.watches() != Watch::Running {
            return self.end();
        }
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(b"bye\n");
        }
        let _ = self.child.wait();
    }
}

/// Returns the arguments that start a guard, for the command `guard` of a daemon.
///
/// `daemon`: the word for this daemon in the program `fairmesh`; `limits`: those to undo.
pub fn arguments(daemon: &str, limits: &impl Serialize, lock: &Path, run: &str) -> Vec<String> {
    // Plain data with text as keys can always be serialized.
    let limits = serde_json::to_string(limits).unwrap_or_default();
    let lock = lock.display().to_string();
    // `fairmesh node guard` has one word more than `fairmesh-node guard`.
    let word = std::env::args().nth(1).filter(|w| w == daemon);
    let rest = ["guard", "--limits", &limits, "--lock", &lock, "--run", run];
    word.into_iter().chain(rest.map(str::to_owned)).collect()
}

/// Returns the path of the guard's lock for the daemon with this socket.
pub fn lock_of(socket: &Path) -> PathBuf {
    socket.with_extension("guard.lock")
}

/// True if a process is stopped (proc_pid_stat(5): `T` or `t`).
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let state = stat.as_deref().ok().and_then(|s| s.rsplit_once(") ")?.1.chars().next());
    matches!(state, Some('T' | 't'))
}

/// Waits until the guard of an earlier daemon has lifted that daemon's effects.
///
/// That guard does nothing more while the returned lock is held. A stopped guard is killed.
///
/// # Errors
/// Returns the guard still works after `EARLIER_GUARD_PATIENCE`, or its lock cannot be taken.
pub fn wait_for(socket: &Path) -> io::Result<Lock> {
    let path = lock_of(socket);
    let end = Instant::now() + EARLIER_GUARD_PATIENCE;
    loop {
        match Lock::take(&path, Duration::from_millis(200)) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                end_stopped(&path);
            }
            taken => return taken,
        }
    }
}

/// Kills the guard that holds this lock, if it is stopped; returns true if there was one.
pub(super) fn end_stopped(lock: &Path) -> bool {
    stopped_guard(lock).is_some_and(|pid| kill(pid, Signal::SIGKILL).is_ok())
}

/// Returns the process that holds this lock as a guard, if it is stopped.
fn stopped_guard(lock: &Path) -> Option<Pid> {
    let pid: u32 = files::read_text(lock, 64, Links::Refuse).ok()?.trim().parse().ok()?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    // The number may belong to another process by now.
    let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
    let guards = words.contains(&b"guard".as_slice())
        && words.contains(&std::os::unix::ffi::OsStrExt::as_bytes(lock.as_os_str()));
    (guards && is_stopped(pid)).then(|| Pid::from_raw(pid.cast_signed()))
}

/// The guarded run: its resources, and the locks that exclude other processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuardedRun {
    /// Path of the guard's own lock.
    pub lock: PathBuf,
    /// Identity of the daemon's run.
    pub run: String,
    /// Resources of the daemon.
    pub resources: Vec<Resource>,
    /// Registry of their owners.
    pub registry: Registry,
}

impl GuardedRun {
    /// True if the resources are registered for the guarded run.
    fn is_owner(&self) -> bool {
        // A daemon registers before it acts, so without registration no other daemon has acted.
        let same = |r: &Resource| self.registry.owner(r).is_none_or(|owner| owner.run == self.run);
        self.resources.iter().all(same)
    }

    /// Claims the resources; `None` if another daemon has or had them since.
    fn claim(&self) -> Option<Claim> {
        let claim = self.registry.claim(&self.resources, LOCK_PATIENCE).ok()?;
        self.is_owner().then_some(claim)
    }
}

/// Runs the second process until the daemon has ended.
///
/// # Errors
/// Effects that could be neither lifted nor removed.
pub fn watch<R: Rescue>(guarded_run: &GuardedRun, rescue: &mut R) -> Result<(), R::Error> {
    // Only the daemon ends this process, not a signal that was meant for the daemon.
    for signal in
        [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
    {
        let _ = signal_hook::flag::register(signal, Arc::<AtomicBool>::default());
    }
    let mut at_work = Lock::take(&guarded_run.lock, Duration::from_secs(10));
    if let Ok(lock) = &mut at_work {
        let _ = lock.write(&std::process::id().to_string());
    }
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let mut patience = Patience::new(Duration::from_secs(30));
    let mut removed = false;
    loop {
        let since = Instant::now();
        match lines.recv_timeout(patience.limit) {
            Ok(line) if line == "bye" => return Ok(()),
            Ok(line) => {
                removed = false;
                let limit = line.parse().map_or(patience.limit, Duration::from_millis);
                patience = Patience::new(limit);
            }
            Err(mpsc::RecvTimeoutError::Timeout)
                if removed || !patience.ends_after(since.elapsed()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if !guarded_run.is_owner() {
                    return stand_down();
                }
                eprintln!("<3>guard.late: no heartbeat from the daemon; its limits are removed");
                rescue.remove()?;
                removed = true;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let Some(claim) = guarded_run.claim() else { return stand_down() };
                eprintln!(
                    "<3>guard.died: the daemon has ended unexpectedly; its limits are lifted"
                );
                return clean_up(rescue, || {
                    drop((claim, at_work));
                    std::thread::sleep(TAKEOVER_WAIT);
                    let at_work = Lock::take(&guarded_run.lock, Duration::ZERO).ok()?;
                    Some((at_work, guarded_run.claim()?))
                });
            }
        }
    }
}

fn stand_down<E>() -> Result<(), E> {
    eprintln!("<5>guard.superseded: another daemon uses the interfaces; its limits remain");
    Ok(())
}

/// Lifts the effects, and removes them unless the next daemon takes them over.
///
/// Removes them at once if they cannot be lifted. `unclaimed` waits for the next daemon and excludes others.
fn clean_up<R: Rescue, L>(
    rescue: &mut R,
    unclaimed: impl FnOnce() -> Option<L>,
) -> Result<(), R::Error> {
    if rescue.lift().is_err() {
        return rescue.remove();
    }
    match unclaimed() {
        Some(_held) => rescue.remove(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn guard(program: &str, argument: &str) -> Guard {
        let mut command = Command::new(program);
        command.arg(argument);
        Guard::of(command, PATIENCE).unwrap()
    }

    /// A pipe holds 64 KiB: more than that is written to a process that reads nothing.
    #[test]
    fn a_guard_that_reads_nothing_does_not_block() {
        let mut g = guard("sleep", "1000");
        for _ in 0..100_000 {
            assert!(g.beat(PATIENCE));
        }
        assert_eq!(g.watches(), Watch::Running, "a sleeping process counts as running");
        g.end();
    }

    #[test]
    fn a_stopped_or_ended_guard_is_detected() {
        let mut g = guard("sleep", "1000");
        let pid = Pid::from_raw(g.child.id() as i32);
        let becomes = |g: &mut Guard, wanted: Watch| {
            let end = Instant::now() + Duration::from_secs(60);
            while g.watches() != wanted {
                assert!(Instant::now() < end, "{wanted:?} never came");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        kill(pid, Signal::SIGSTOP).unwrap();
        becomes(&mut g, Watch::Stopped);
        kill(pid, Signal::SIGCONT).unwrap();
        becomes(&mut g, Watch::Running);
        kill(pid, Signal::SIGKILL).unwrap();
        becomes(&mut g, Watch::Gone);
        // A broken pipe ends no process.
        assert!(g.beat(PATIENCE) && g.beat(PATIENCE));
        g.dismiss();
    }

    struct Fake {
        lifts: bool,
        removed: bool,
    }

    impl Rescue for Fake {
        type Error = &'static str;
        fn lift(&mut self) -> Result<(), Self::Error> {
            if self.lifts { Ok(()) } else { Err("busy") }
        }
        fn remove(&mut self) -> Result<(), Self::Error> {
            self.removed = true;
            Ok(())
        }
    }

    #[test]
    fn effects_that_cannot_be_lifted_are_removed_at_once() {
        for (lifts, came, waits, removes) in [
            (true, false, true, true),
            (true, true, true, false),
            (false, true, false, true),
            (false, false, false, true),
        ] {
            let (mut waited, mut fake) = (false, Fake { lifts, removed: false });
            let unclaimed = || {
                waited = true;
                (!came).then_some(())
            };
            assert_eq!(clean_up(&mut fake, unclaimed), Ok(()));
            assert_eq!((waited, fake.removed), (waits, removes), "{lifts} {came}");
        }
    }

    /// A guard that wakes when another daemon uses the resources does not change them.
    #[test]
    fn a_guard_acts_only_for_its_own_run() {
        use crate::daemon::lock::Owner;
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::at(folder.path(), 1);
        let resource = Resource { kind: "interface", name: "bat0".into() };
        let mut claim = registry.claim(std::slice::from_ref(&resource), LOCK_PATIENCE).unwrap();
        let owner = Owner::new(Path::new("/a.sock"), Path::new("/a"));
        claim.register(&owner).unwrap();
        let guarded_run = GuardedRun {
            lock: "/nonexistent".into(),
            run: owner.run,
            resources: vec![resource],
            registry,
        };
        assert!(
            guarded_run.is_owner() && guarded_run.claim().is_none(),
            "its daemon still has them"
        );
        drop(claim);
        let mut claim = guarded_run.claim().expect("its daemon has ended");
        claim.register(&Owner::new(Path::new("/b.sock"), Path::new("/b"))).unwrap();
        drop(claim);
        assert!(
            !guarded_run.is_owner() && guarded_run.claim().is_none(),
            "another daemon had them"
        );
    }

    #[test]
    fn a_guard_that_was_late_itself_waits_once_more() {
        let mut patience = Patience::new(PATIENCE);
        assert!(patience.ends_after(PATIENCE) && patience.ends_after(PATIENCE + STALL / 2));
        let stalled = PATIENCE + STALL;
        assert!(!patience.ends_after(stalled), "the machine stood still");
        assert!({ patience }.ends_after(PATIENCE), "the daemon did not continue");
        assert!(patience.ends_after(stalled), "a slow machine does not keep limits");
    }

    #[test]
    fn restarts_of_the_guard_are_rate_limited() {
        let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
        let first = GuardRestarts::first(at(0));
        let second = first.next(at(1)).expect("at once");
        assert!(second.next(at(5_000)).is_none(), "five seconds after the second");
        let third = second.next(at(5_001)).expect("then");
        assert!(third.next(at(5_002)).is_some(), "and again one at once");
        // A guard that is killed at every check.
        let mut guarded = first;
        let mut started = 0;
        for ms in 0..100_000 {
            if let Some(next) = guarded.next(at(ms)) {
                (guarded, started) = (next, started + 1);
            }
        }
        assert!(started <= 41, "{started} in 100 s");
    }
}
