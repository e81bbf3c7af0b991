//! A second process that lifts everything when the daemon dies without a word or stands still.
//!
//! The daemon holds one end of a pipe and writes a line now and then: the number of milliseconds
//! until the next one, or `bye`. An end without `bye`, or a line that does not come, and everything
//! that is ours is removed: traffic flows as if the daemon had never been there.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fairmesh_linux::{DataPlane, HtbPlane, Layout};

/// The daemon's end.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
    patience: Duration,
    last: Instant,
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
        let mut command = Command::new(std::env::current_exe()?);
        // The full command line has one word more.
        if std::env::args().nth(1).as_deref() == Some("gateway") {
            command.arg("gateway");
        }
        let mut child = command
            .arg("guard")
            .arg("--layout")
            .arg(text)
            .arg("--lock")
            .arg(lock)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Signals to the daemon's group, as from a terminal, are not for the guard.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Guard { child, pipe, patience, last: Instant::now() })
    }

    /// Says that the daemon is alive. `false` if the guard will have taken it for dead since the
    /// last time.
    pub fn beat(&mut self) -> bool {
        let late = self.last.elapsed() > self.patience;
        self.last = Instant::now();
        if let Some(pipe) = &mut self.pipe {
            let line = format!("{}\n", self.patience.as_millis());
            if pipe.write_all(line.as_bytes()).is_err() {
                self.pipe = None;
            }
        }
        !late
    }

    /// Whether the guard itself is alive.
    pub fn watches(&mut self) -> bool {
        self.pipe.is_some() && matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends the guard home: the daemon cleans up by itself.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(b"bye\n");
        }
        let _ = self.child.wait();
    }
}

/// Held by a guard from its start to its end, so that a new daemon waits until an old one's guard
/// is done.
#[derive(Debug)]
pub struct Lock {
    _file: nix::fcntl::Flock<File>,
}

impl Lock {
    /// Takes the lock, waiting at most so long.
    ///
    /// # Errors
    /// The file cannot be made, or somebody holds it.
    pub fn take(path: &Path, patience: Duration) -> io::Result<Lock> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let end = Instant::now() + patience;
        let mut file = File::options().create(true).truncate(false).write(true).open(path)?;
        loop {
            match nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock) {
                Ok(file) => return Ok(Lock { _file: file }),
                Err((back, errno)) if Instant::now() < end => {
                    let _ = errno;
                    file = back;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err((_, errno)) => return Err(errno.into()),
            }
        }
    }
}

/// The second process.
///
/// # Errors
/// What is ours could not be removed.
pub fn watch(layout: &Layout, lock: PathBuf) -> Result<(), fairmesh_linux::Error> {
    // The daemon ends this process, not a signal that was meant for the daemon.
    for signal in
        [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
    {
        let _ = signal_hook::flag::register(signal, Default::default());
    }
    let _lock = Lock::take(&lock, Duration::from_secs(10));
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let mut patience = Duration::from_secs(30);
    let mut lifted = false;
    loop {
        match lines.recv_timeout(patience) {
            Ok(line) if line == "bye" => return Ok(()),
            Ok(line) => {
                lifted = false;
                if let Ok(ms) = line.parse() {
                    patience = Duration::from_millis(ms);
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if !lifted {
                    eprintln!("<3>guard.late: the daemon stands still; its limits are removed");
                    lift(layout)?;
                    lifted = true;
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                eprintln!("<3>guard.died: the daemon is gone; its limits are removed");
                return lift(layout);
            }
        }
    }
}

/// Removes everything that is ours, several times if need be: the kernel may be busy.
fn lift(layout: &Layout) -> Result<(), fairmesh_linux::Error> {
    let mut result = Ok(());
    for attempt in 0..5_u64 {
        result = HtbPlane::open().and_then(|mut plane| plane.remove(layout).map(|_| ()));
        if result.is_ok() {
            return result;
        }
        std::thread::sleep(Duration::from_millis(50 << attempt));
    }
    result
}
