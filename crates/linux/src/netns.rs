//! Network namespaces: creation, use, configuration, removal.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Folder in which iproute2 keeps named namespaces.
const NETNS_FOLDER: &str = "/run/netns";

/// A named network namespace. Dropping this value does not remove it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Creates a namespace.
    ///
    /// # Errors
    /// Returns an error if a privilege is missing, or a namespace of this name exists.
    pub fn create(name: &str) -> io::Result<Self> {
        ip(&["netns", "add", name], "")?;
        Self::open(name)
    }

    /// Opens an existing namespace.
    ///
    /// # Errors
    /// Returns an error if there is none of this name.
    pub fn open(name: &str) -> io::Result<Self> {
        let file = File::open(path(name))?;
        Ok(Namespace { name: name.to_owned(), file })
    }

    /// Returns its name, as `ip netns` shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` inside.
    ///
    /// Sockets and devices that `work` opens stay in the namespace, and so do processes that it
    /// starts; the calling thread never enters.
    ///
    /// # Errors
    /// Returns the error of `work`, or that the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|threads| {
            let inside = threads.spawn(|| {
                setns(&self.file, CloneFlags::CLONE_NEWNET)?;
                work()
            });
            inside.join().unwrap_or_else(|_| Err(io::Error::other("a thread inside panicked")))
        })
    }

    /// Runs a batch of `ip` commands inside, one per line.
    ///
    /// # Errors
    /// The first that fails, with `ip`'s message.
    pub fn ip(&self, batch: &str) -> io::Result<()> {
        ip(&["-n", &self.name, "-batch", "-"], batch)
    }

    /// Sets kernel parameters below `/proc/sys/net`, such as `("ipv4/ip_forward", "1")`.
    ///
    /// Returns those that this kernel does not have.
    ///
    /// # Errors
    /// Returns an error if an existing parameter refuses its value.
    pub fn sysctl<'a>(&self, values: &[(&'a str, String)]) -> io::Result<Vec<&'a str>> {
        self.enter(|| {
            let mut missing = Vec::new();
            for (key, value) in values {
                match fs::write(Path::new("/proc/sys/net").join(key), value) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => missing.push(*key),
                    Err(e) => {
                        return Err(io::Error::new(e.kind(), format!("net/{key} = {value}: {e}")));
                    }
                    Ok(()) => {}
                }
            }
            Ok(missing)
        })
    }

    /// Returns a command that runs inside, with a `/sys` of its own.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(NETNS_FOLDER).join(name)
}

/// Returns the names of the namespaces that begin with `prefix`, sorted.
pub fn list(prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(NETNS_FOLDER) else { return Vec::new() };
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|n| n.starts_with(prefix)).collect();
    names.sort();
    names
}

/// Returns the processes inside a namespace.
pub fn processes(name: &str) -> Vec<i32> {
    use std::os::unix::fs::MetadataExt;
    let Ok(this) = fs::metadata(path(name)) else { return Vec::new() };
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let pid = |e: io::Result<fs::DirEntry>| e.ok()?.file_name().to_str()?.parse::<i32>().ok();
    let inside = |pid: &i32| {
        fs::metadata(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|m| (m.dev(), m.ino()) == (this.dev(), this.ino()))
    };
    all.filter_map(pid).filter(inside).collect()
}

/// Removes a namespace and kills the processes inside.
///
/// # Errors
/// Returns the kernel's refusal.
pub fn remove(name: &str) -> io::Result<()> {
    let here = fs::read_link("/proc/self/ns/net").ok();
    for pid in processes(name) {
        // A name that stands for our own namespace would select all processes of this machine.
        if fs::read_link(format!("/proc/{pid}/ns/net")).ok() != here {
            // The process may have ended already.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    ip(&["netns", "delete", name], "")
}

/// Runs `ip` once.
fn ip(args: &[&str], input: &str) -> io::Result<()> {
    let mut child = Command::new("ip")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("ip (of iproute2) cannot be run: {e}")))?;
    if let Some(mut pipe) = child.stdin.take() {
        // `ip` stops reading at the first mistake, which it reports itself.
        let _ = pipe.write_all(input.as_bytes());
    }
    let out = child.wait_with_output()?;
    if out.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&out.stderr);
    let stderr = stderr.trim().replace('\n', "; ");
    let line = stderr.rsplit_once("Command failed -:").and_then(|(_, n)| n.trim().parse().ok());
    let what = line.and_then(|n: usize| input.lines().nth(n.saturating_sub(1))).unwrap_or("");
    Err(io::Error::other(format!("ip {} {what}: {stderr}", args.join(" "))))
}
