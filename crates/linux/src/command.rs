//! Runner of the system's programs, with a time limit and an output limit.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Folders of system programs. `PATH` is not used: the parent process controls it.
const PROGRAM_FOLDERS: [&str; 6] =
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"];
/// Longest output that is read, bytes: a dump of 100,000 routes is shorter.
const MAX_OUTPUT: usize = 16 << 20;

/// Returns the path of a program; the bare name if no folder has it.
///
/// The error then names the program.
pub fn program(name: &str) -> PathBuf {
    let there =
        PROGRAM_FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|p| p.is_file());
    there.unwrap_or_else(|| PathBuf::from(name))
}

/// Result of a program.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs a program to its end, with `input` as its standard input.
///
/// # Errors
/// The program does not exist, takes longer than `limit`, or prints more than 16 MiB; it is then killed.
pub fn run(name: &str, arguments: &[&str], input: &[u8], limit: Duration) -> io::Result<Output> {
    let mut command = Command::new(program(name));
    command
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    kill_with_parent(&mut command);
    let mut child = command.spawn()?;
    let result = talk(&mut child, input, Instant::now() + limit);
    if result.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let (stdout, stderr) = result.map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => {
            io::Error::new(e.kind(), format!("{name} takes longer than {} s", limit.as_secs()))
        }
        io::ErrorKind::FileTooLarge => {
            io::Error::new(e.kind(), format!("{name} prints more than {} MiB", MAX_OUTPUT >> 20))
        }
        _ => e,
    })?;
    Ok(Output { status, stdout, stderr })
}

/// Makes the kernel kill a program when this thread ends.
///
/// A program that outlives a killed daemon would make its changes, or half of them, after the cleanup.
#[allow(unsafe_code)] // what a child does before it is a program
fn kill_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: between fork and exec only two system calls are made, which are safe there
    // (signal-safety(7)).
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // A parent that ended before the call above causes no signal.
            if libc::getppid() as u32 == parent {
                Ok(())
            } else {
                Err(io::ErrorKind::Interrupted.into())
            }
        });
    }
}

/// Returns one end of a pipe to the child as a non-blocking file.
fn end(pipe: impl Into<OwnedFd>) -> io::Result<File> {
    let file = File::from(pipe.into());
    let flags = OFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(file)
}

fn talk(child: &mut Child, mut input: &[u8], until: Instant) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut stdin = child.stdin.take().map(end).transpose()?;
    let mut files =
        [child.stdout.take().map(end).transpose()?, child.stderr.take().map(end).transpose()?];
    let mut texts = [Vec::new(), Vec::new()];
    loop {
        if input.is_empty() {
            stdin = None;
        }
        if files.iter().all(Option::is_none) {
            // Both outputs are closed; the exit follows soon.
            return match ended(child, until)? {
                true => Ok(texts.into()),
                false => Err(io::ErrorKind::TimedOut.into()),
            };
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        {
            let mut fds: Vec<PollFd<'_>> = files
                .iter()
                .flatten()
                .map(|f| PollFd::new(f.as_fd(), PollFlags::POLLIN))
                .chain(stdin.iter().map(|f| PollFd::new(f.as_fd(), PollFlags::POLLOUT)))
                .collect();
            let wait = PollTimeout::try_from(left.min(Duration::from_secs(1)))
                .unwrap_or(PollTimeout::ZERO);
            match poll(&mut fds, wait) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        if let Some(file) = &mut stdin {
            match file.write(input) {
                Ok(n) => input = &input[n..],
                Err(e) if waits(&e) => {}
                // The program reads no more input; its own error message is the better one.
                Err(_) => input = &[],
            }
        }
        for (file, text) in files.iter_mut().zip(&mut texts) {
            if let Some(f) = file
                && !take(f, text)?
            {
                *file = None;
            }
        }
    }
}

/// Reads the available bytes; returns `false` at the end.
fn take(file: &mut File, text: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(n) => text.extend_from_slice(&buffer[..n]),
            Err(e) if waits(&e) => return Ok(true),
            Err(e) => return Err(e),
        }
        if text.len() > MAX_OUTPUT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
}

fn waits(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn ended(child: &mut Child, until: Instant) -> io::Result<bool> {
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn both_ways_at_once() {
        let input = vec![b'x'; 1 << 20];
        let out = run("cat", &[], &input, LONG).unwrap();
        assert!(out.status.success() && out.stdout == input);
        let out = run("sh", &["-c", "echo no >&2; exit 3"], &input, LONG).unwrap();
        assert_eq!((out.status.code(), out.stderr.as_slice()), (Some(3), &b"no\n"[..]));
    }

    #[test]
    fn a_program_without_end_is_stopped() {
        let start = Instant::now();
        for line in ["sleep 1000", "exec >&- 2>&-; exec sleep 1000"] {
            let e = run("sh", &["-c", line], &[], Duration::from_millis(50)).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::TimedOut, "{e}");
        }
        assert!(start.elapsed() < LONG);
        let e = run("yes", &[], &[], LONG).unwrap_err();
        assert!(e.to_string().contains("MiB"), "{e}");
    }

    /// Stands for a daemon that is killed while `nft` works: the thread plays the process.
    #[test]
    fn a_program_ends_with_its_parent() {
        let child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("1000");
            kill_with_parent(&mut command);
            command.spawn().unwrap()
        });
        let mut child = child.join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn programs_are_the_systems() {
        assert!(program("sh").is_absolute());
        assert_eq!(program("no-such-program"), Path::new("no-such-program"));
        assert_eq!(
            run("no-such-program", &[], &[], LONG).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
