//! A second process that lifts everything when the daemon dies without a word or stands still.
//!
//! The daemon holds one end of a pipe and writes a line now and then: the number of milliseconds
//! until the next one, or `bye`. After an end without `bye` all limits are lifted at once, in place, so that nothing is
//! lost. The next daemon may take over what is there; if none comes, everything that is ours is removed: traffic flows as
//! if the daemon had never been there. So it does at once where a line does not come.

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fairmesh_linux::{DataPlane, HtbPlane, Layout};
use fairmesh_units::{Span, Time};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::lock::{Lock, take_interfaces};

/// How long what a daemon had begun may take to arrive in the kernel after its end.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// How long what limits nobody any more waits for the next daemon: procd takes 5 s. To remove it costs what is sent
/// meanwhile (the kernel sends nothing while it takes out a root qdisc), to take it over does not.
const NEXT_DAEMON: Duration = Duration::from_secs(7);

/// The least time between two guards, one aside that may come at once.
const NEXT_GUARD: Span = Span::from_secs(5);

/// When a guard was started, and whether the next one need not wait: whoever kills a guard may mean
/// the daemon next, and guards that end by themselves must not come by the thousand.
#[derive(Clone, Copy, Debug)]
pub struct Guarded {
    since: Time,
    spare: bool,
}

impl Guarded {
    /// The first one.
    pub fn first(now: Time) -> Self {
        Guarded { since: now, spare: true }
    }

    /// Another one in its place; `None`: not yet.
    pub fn next(self, now: Time) -> Option<Self> {
        let rested = now.since(self.since) >= NEXT_GUARD;
        (rested || self.spare).then_some(Guarded { since: now, spare: rested })
    }
}

/// The daemon's end.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    patience: Duration,
    last: Instant,
    late: bool,
}

/// How a guard is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// It watches.
    Awake,
    /// It is there and does nothing: somebody stopped it.
    Stopped,
    /// It is gone.
    Gone,
}

impl Guard {
    /// Starts the second process: this program, with its hidden command `guard`.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn start(layout: &Layout, lock: &Path, patience: Duration) -> io::Result<Guard> {
        // What is needed to find our things again; subscribers are not.
        let bare = Layout { subscribers: Vec::new(), ..layout.clone() };
        let text = serde_json::to_string(&bare).map_err(io::Error::from)?;
        // The very program that runs, even if another has its name since.
        let mut command = Command::new("/proc/self/exe");
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        // The full command line has one word more.
        if std::env::args().nth(1).as_deref() == Some("gateway") {
            command.arg("gateway");
        }
        command.arg("guard").arg("--layout").arg(text).arg("--lock").arg(lock);
        Guard::of(command, patience)
    }

    fn of(mut command: Command, patience: Duration) -> io::Result<Guard> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Signals to the daemon's group, as from a terminal, are not for the guard.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        if let Some(pipe) = &pipe {
            // A guard that does not read must not stop the daemon, limits in force.
            let flags = OFlag::from_bits_truncate(fcntl(pipe, FcntlArg::F_GETFL)?);
            fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        Ok(Guard { child, pipe, patience, last: Instant::now(), late: false })
    }

    /// Says that the daemon is alive, and how long it may be silent from now on. `false` if the
    /// guard will have taken it for dead since the last time.
    pub fn beat(&mut self, patience: Duration) -> bool {
        self.sign(patience);
        !core::mem::take(&mut self.late)
    }

    /// The same in the middle of something long, where nobody can do anything about it.
    pub fn sign_on(&mut self) {
        self.sign(self.patience);
    }

    fn sign(&mut self, patience: Duration) {
        self.late |= self.last.elapsed() > self.patience;
        self.last = Instant::now();
        self.patience = patience;
        if let Some(pipe) = &mut self.pipe {
            let line = format!("{}\n", patience.as_millis());
            match pipe.write_all(line.as_bytes()) {
                // It has enough to read.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.pipe = None,
                Ok(()) => {}
            }
        }
    }

    /// How the guard itself is.
    pub fn watches(&mut self) -> Watch {
        if self.pipe.is_none() || !matches!(self.child.try_wait(), Ok(None)) {
            return Watch::Gone;
        }
        // proc_pid_stat(5): T and t are stopped.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        match stat.as_deref().ok().and_then(|s| s.rsplit_once(") ")?.1.chars().next()) {
            Some('T' | 't') => Watch::Stopped,
            _ => Watch::Awake,
        }
    }

    /// Ends a guard that is of no use any more; it lifts nothing.
    pub fn end(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends the guard home: the daemon cleans up by itself.
    pub fn dismiss(mut self) {
        if self.watches() != Watch::Awake {
            return self.end();
        }
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(b"bye\n");
        }
        let _ = self.child.wait();
    }
}

/// The lock that the guard of the daemon with this socket holds.
pub fn lock_of(socket: &Path) -> PathBuf {
    socket.with_extension("guard.lock")
}

/// Waits until the guard of a daemon that has ended has done what must be done at once. It does nothing more while this is
/// held, and nothing ever after somebody has [the interfaces](super::lock::take_interfaces).
///
/// # Errors
/// It is not done after fifteen seconds, or its lock cannot be had.
pub fn wait_for(socket: &Path) -> io::Result<Lock> {
    Lock::take(&lock_of(socket), Duration::from_secs(15))
}

/// The second process.
///
/// # Errors
/// Limits could not be lifted, or what is ours not removed.
pub fn watch(layout: &Layout, lock: PathBuf) -> Result<(), fairmesh_linux::Error> {
    // The daemon ends this process, not a signal that was meant for the daemon.
    for signal in
        [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
    {
        let _ = signal_hook::flag::register(signal, Default::default());
    }
    let at_work = Lock::take(&lock, Duration::from_secs(10));
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let mut patience = Duration::from_secs(30);
    let mut removed = false;
    loop {
        match lines.recv_timeout(patience) {
            Ok(line) if line == "bye" => return Ok(()),
            Ok(line) => {
                removed = false;
                if let Ok(ms) = line.parse() {
                    patience = Duration::from_millis(ms);
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if !removed {
                    eprintln!("<3>guard.late: the daemon stands still; its limits are removed");
                    remove(layout)?;
                    removed = true;
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                eprintln!("<3>guard.died: the daemon is gone; its limits are lifted");
                let nobody_came = || {
                    drop(at_work);
                    std::thread::sleep(NEXT_DAEMON);
                    Some((Lock::take(&lock, Duration::ZERO).ok()?, take_interfaces(layout).ok()?))
                };
                return clean_up(|| lift(layout), nobody_came, || remove(layout));
            }
        }
    }
}

/// Lifts all limits, and looks again: what the daemon was about to set when it ended may have come after the first look.
/// (The next daemon waits for this.)
fn lift(layout: &Layout) -> Result<(), fairmesh_linux::Error> {
    insist(|plane| plane.lift(layout))?;
    std::thread::sleep(AFTERWARDS);
    insist(|plane| plane.lift(layout))
}

/// Lifts, and removes unless the next daemon has what is there; at once where a limit cannot be lifted.
/// `nobody_came`: what keeps others away meanwhile.
fn clean_up<E, L>(
    lift: impl FnOnce() -> Result<(), E>,
    nobody_came: impl FnOnce() -> Option<L>,
    remove: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    if lift().is_err() {
        return remove();
    }
    match nobody_came() {
        Some(_held) => remove(),
        None => Ok(()),
    }
}

fn remove(layout: &Layout) -> Result<(), fairmesh_linux::Error> {
    insist(|plane| plane.remove(layout).map(drop))
}

/// Several times if need be: the kernel may be busy.
fn insist(
    act: impl Fn(&mut HtbPlane) -> Result<(), fairmesh_linux::Error>,
) -> Result<(), fairmesh_linux::Error> {
    let mut result = Ok(());
    for attempt in 0..5_u64 {
        result = HtbPlane::open().and_then(|mut plane| act(&mut plane));
        if result.is_ok() {
            return result;
        }
        std::thread::sleep(Duration::from_millis(50 << attempt));
    }
    result
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

    /// A pipe has room for 64 KiB: more than that is written to somebody who reads nothing.
    #[test]
    fn one_that_reads_nothing_stops_nobody() {
        let mut g = guard("sleep", "1000");
        for _ in 0..100_000 {
            assert!(g.beat(PATIENCE));
        }
        assert_eq!(g.watches(), Watch::Awake, "it sleeps, as far as anybody can see");
        g.end();
    }

    #[test]
    fn one_that_is_stopped_or_gone_is_noticed() {
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
        becomes(&mut g, Watch::Awake);
        kill(pid, Signal::SIGKILL).unwrap();
        becomes(&mut g, Watch::Gone);
        // A broken pipe ends nobody.
        assert!(g.beat(PATIENCE) && g.beat(PATIENCE));
        g.dismiss();
    }

    /// Who is limited still when nothing can be lifted is so until all is removed, and not for a moment longer.
    #[test]
    fn what_cannot_be_lifted_is_removed_at_once() {
        for (lifts, came, waits, removes) in [
            (true, false, true, true),
            (true, true, true, false),
            (false, true, false, true),
            (false, false, false, true),
        ] {
            let (mut waited, mut removed) = (false, false);
            let nobody_came = || {
                waited = true;
                (!came).then_some(())
            };
            let remove = || {
                removed = true;
                Ok(())
            };
            let lift = || if lifts { Ok(()) } else { Err("busy") };
            assert_eq!(clean_up(lift, nobody_came, remove), Ok(()));
            assert_eq!((waited, removed), (waits, removes), "{lifts} {came}");
        }
    }

    #[test]
    fn a_guard_that_is_gone_has_a_successor_at_once_and_a_thousand_have_not() {
        let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
        let first = Guarded::first(at(0));
        let second = first.next(at(1)).expect("at once");
        assert!(second.next(at(5_000)).is_none(), "five seconds after the second");
        let third = second.next(at(5_001)).expect("then");
        assert!(third.next(at(5_002)).is_some(), "and again one at once");
        // One that is killed at every look.
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
