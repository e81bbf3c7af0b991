//! Precise timing: the clock, real-time priority, and a wait with a deadline.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;

/// Returns the monotonic clock, ns. It is the same in every network namespace.
pub fn now() -> u64 {
    clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// Result of [`prefer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferred {
    /// True if the thread runs under `SCHED_FIFO`.
    pub fifo: bool,
    /// True if the process's memory is locked.
    pub locked: bool,
}

/// Gives the calling thread real-time priority, locks memory, and makes timers exact.
///
/// The priority is of `SCHED_FIFO`, 1 to 99.
///
/// Threads and processes that it starts have ordinary priority. Steps that are not permitted are
/// skipped; the result shows which succeeded.
pub fn prefer(priority: i32) -> Preferred {
    // Timers of FIFO threads are exact anyway; this helps if FIFO is not permitted.
    let _ = nix::sys::prctl::set_timerslack(1);
    let locked = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).is_ok();
    Preferred { fifo: fifo(priority), locked }
}

/// Puts the calling thread under `SCHED_FIFO`; its children are not.
#[allow(unsafe_code)]
pub fn fifo(priority: i32) -> bool {
    /// The kernel's `struct sched_param`.
    ///
    /// The system call is made directly, since musl's function only reports that it is not
    /// implemented, and its structure has more fields.
    #[repr(C)]
    struct Parameters {
        priority: libc::c_int,
    }
    let parameters = Parameters { priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread, and the kernel only reads the parameters.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters) == 0 }
}

/// Length of the busy loop that ends a wait, ns: waking up takes about as long.
const BUSY_WAIT_NS: u64 = 60_000;

/// Waits for readable files and for instants.
#[derive(Debug)]
pub struct Waiter {
    epoll: Epoll,
    timer: TimerFd,
    set_to: u64,
    events: Vec<EpollEvent>,
}

/// Token of the timer.
const TIMER_TOKEN: u64 = u64::MAX;

impl Waiter {
    /// Returns a waiter without files.
    ///
    /// # Errors
    /// Returns the kernel gives no files.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        epoll.add(
            timer.as_fd(),
            EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, TIMER_TOKEN),
        )?;
        Ok(Waiter { epoll, timer, set_to: 0, events: vec![EpollEvent::empty(); 64] })
    }

    /// Adds a file; its events are reported only after [`Waiter::arm`].
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the file.
    pub fn add(&self, file: &impl AsFd, token: u64) -> io::Result<()> {
        Ok(self.epoll.add(file.as_fd(), EpollEvent::new(EpollFlags::empty(), token))?)
    }

    /// Requests one report when the file is readable; at once if it is.
    ///
    /// # Errors
    /// Returns an error if the file was not added.
    pub fn arm(&self, file: &impl AsFd, token: u64) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT;
        Ok(self.epoll.modify(file.as_fd(), &mut EpollEvent::new(flags, token))?)
    }

    /// Waits until a file is readable or the clock shows `until`, whichever is first.
    ///
    /// The tokens of readable files are added to `ready`.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn wait(&mut self, until: u64, ready: &mut Vec<u64>) -> io::Result<()> {
        loop {
            let left = until.saturating_sub(now());
            let timeout = if left > BUSY_WAIT_NS {
                let wake = until - BUSY_WAIT_NS;
                if self.set_to != wake {
                    let at = Expiration::OneShot(TimeSpec::from(Duration::from_nanos(wake)));
                    self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
                    self.set_to = wake;
                }
                EpollTimeout::NONE
            } else {
                EpollTimeout::ZERO
            };
            let found = match self.epoll.wait(&mut self.events, timeout) {
                Ok(n) => n,
                Err(Errno::EINTR) => 0,
                Err(e) => return Err(e.into()),
            };
            let tokens = self.events[..found].iter().map(EpollEvent::data);
            let before = ready.len();
            ready.extend(tokens.filter(|t| *t != TIMER_TOKEN));
            if ready.len() > before || now() >= until {
                return Ok(());
            }
        }
    }
}

/// Sleeps until the clock shows `until`.
pub fn sleep_until(until: u64) {
    let at = TimeSpec::from(Duration::from_nanos(until));
    let flags = nix::time::ClockNanosleepFlags::TIMER_ABSTIME;
    while nix::time::clock_nanosleep(nix::time::ClockId::CLOCK_MONOTONIC, flags, &at)
        == Err(Errno::EINTR)
    {}
}

/// Waits for one of the files or until the clock shows `until`; returns their readiness.
///
/// # Errors
/// Returns the kernel's error.
pub fn poll_until(files: &[(BorrowedFd<'_>, Interest)], until: u64) -> io::Result<Vec<Interest>> {
    use nix::poll::{PollFd, PollFlags, ppoll};
    let flags = |w: &Interest| {
        let mut f = PollFlags::empty();
        f.set(PollFlags::POLLIN, w.read);
        f.set(PollFlags::POLLOUT, w.write);
        f
    };
    let mut polled: Vec<PollFd<'_>> =
        files.iter().map(|(fd, wanted)| PollFd::new(*fd, flags(wanted))).collect();
    let left = Duration::from_nanos(until.saturating_sub(now()));
    match ppoll(&mut polled, Some(TimeSpec::from(left)), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(e) => return Err(e.into()),
    }
    let ready = |p: &PollFd<'_>| {
        let f = p.revents().unwrap_or(PollFlags::empty());
        // An error or hang-up is reported when the file is next used.
        let broken = f.intersects(PollFlags::POLLERR | PollFlags::POLLHUP);
        Interest {
            read: f.contains(PollFlags::POLLIN) || broken,
            write: f.contains(PollFlags::POLLOUT) || broken,
        }
    };
    Ok(polled.iter().map(ready).collect())
}

/// Events to wait for on a file, or its readiness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, connections or the end can be read.
    pub read: bool,
    /// Bytes can be written.
    pub write: bool,
}
