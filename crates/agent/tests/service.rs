//! A second service on the daemon's runtime: a counter.
//!
//! It shares with the gateway the loop, the control socket, the guard, locks, state and metrics,
//! and nothing else.
//!
//! The program is its own daemon and its own guard, so it has no test harness.

#![allow(clippy::disallowed_methods)] // real time passes here

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fairmesh_agent::daemon::clock::Clock;
use fairmesh_agent::daemon::guard::{self, GuardedRun, Rescue};
use fairmesh_agent::daemon::journal::{Journal, Level};
use fairmesh_agent::daemon::lock::{Registry, Resource};
use fairmesh_agent::daemon::process::Resources;
use fairmesh_agent::daemon::runtime::{self, Claims, Heartbeat, Setup, inbox};
use fairmesh_agent::daemon::service::{Effect, Moment, Service};
use fairmesh_agent::daemon::socket::{Refusal, Response, ask};
use fairmesh_agent::daemon::store::Store;
use fairmesh_units::{Span, Time};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Counts ticks of a thread and numbers of requests; its effect is a file.
struct Counter {
    folder: PathBuf,
    count: u64,
    ticks: u64,
    journal: Journal,
    effects: Vec<Effect>,
}

impl Service for Counter {
    type Input = ();
    type Error = io::Error;

    fn turn(&mut self, at: Moment) -> Time {
        at.now + Span::from_millis(200)
    }

    fn input(&mut self, _: Moment, (): ()) {
        self.ticks += 1;
    }

    fn request(&mut self, at: Moment, line: &str) -> Response {
        match serde_json::from_str::<u64>(line) {
            Err(e) => Response::Refused(Refusal::new("syntax", &e)),
            Ok(n) => {
                self.count += n;
                self.journal.note(at.now, Level::Info, "counter.counted", || format!("{n} more"));
                self.effects.push(Effect::Save(self.count.to_string()));
                Response::Ok(self.count.into())
            }
        }
    }

    fn reload(&mut self, at: Moment) {
        self.journal.note(at.now, Level::Info, "counter.reloaded", || "nothing to read".into());
    }

    fn metrics(&self, _: Moment, process: Option<Resources>) -> String {
        format!("count {}\nticks {}\nknown {}\n", self.count, self.ticks, process.is_some())
    }

    fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn performed(&mut self, at: Moment, _: &Effect, result: io::Result<()>) {
        if let Err(e) = result {
            self.journal.note(at.now, Level::Warning, "counter.unsaved", || e.to_string());
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn lapsed(&mut self, at: Moment) {
        self.journal.note(at.now, Level::Warning, "counter.lapsed", || "set again".into());
    }

    fn stop(&mut self, _: Moment) -> io::Result<()> {
        std::fs::remove_file(effect(&self.folder))
    }
}

fn effect(folder: &Path) -> PathBuf {
    folder.join("effect")
}

/// Undoes the counter's effect.
struct Undo(PathBuf);

impl Rescue for Undo {
    type Error = io::Error;
    fn lift(&mut self) -> io::Result<()> {
        std::fs::write(effect(&self.0), "lifted")
    }
    fn remove(&mut self) -> io::Result<()> {
        std::fs::remove_file(effect(&self.0))
    }
}

fn resources(folder: &Path) -> Vec<Resource> {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    vec![Resource { kind: "counter", name }]
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("counter.sock")
}

fn daemon(folder: &Path, port: u16) -> i32 {
    let socket = socket(folder);
    let claims = match Claims::take(&socket, folder, &resources(folder)) {
        Ok(claims) => claims,
        Err(e) => {
            eprintln!("{e}");
            return 2;
        }
    };
    let mut store = Store::new(folder);
    let count = store.load().unwrap().map_or(0, |text| text.parse().unwrap());
    let (inbox, mailbox) = inbox();
    let ticks = inbox.clone();
    std::thread::spawn(move || {
        while ticks.send(()) {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let lock = guard::lock_of(&socket);
    let at = |p: &Path| p.display().to_string();
    let arguments = ["guard".to_owned(), at(folder), at(&lock), claims.owner.run.clone()];
    let setup = Setup {
        socket,
        metrics: Some(SocketAddr::from(([127, 0, 0, 1], port))),
        servers: Vec::new(),
        store,
        guard: Some(arguments.to_vec()),
        json: false,
        heartbeat: Heartbeat::default(),
    };
    std::fs::write(effect(folder), "in force").unwrap();
    let (journal, effects) = (Journal::default(), Vec::new());
    let counter = Counter { folder: folder.to_owned(), count, ticks: 0, journal, effects };
    match runtime::run(counter, Clock::system(), setup, claims, (inbox, mailbox)) {
        Ok(Ok(())) => 0,
        Ok(Err(e)) => panic!("{e}"),
        Err(e) => panic!("{e}"),
    }
}

fn watch(folder: &Path, lock: &Path, run: &str) {
    let guarded_run = GuardedRun {
        lock: lock.to_owned(),
        run: run.to_owned(),
        resources: resources(folder),
        registry: Registry::here(),
    };
    guard::watch(&guarded_run, &mut Undo(folder.to_owned())).unwrap();
}

/// A daemon that ends with a failed test.
///
/// Otherwise it would keep the output of all tests open.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, port: u16) -> Daemon {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("daemon").arg(folder).arg(port.to_string());
    Daemon(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

fn eventually<T>(what: &str, folder: &Path, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(Instant::now() < end, "{what}: never came\n{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn the_runtime_drives_a_service_that_is_no_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let counted = |n: u64| ask(&socket(at), &n).ok().and_then(|v| v.as_u64());
    let contains = |word: &str| {
        let log = std::fs::read_to_string(at.join("log")).unwrap();
        log.contains(word).then_some(())
    };
    let world = || std::fs::read_to_string(effect(at)).unwrap_or_default();

    let mut first = start(at, port);
    eventually("an answer", at, || counted(0));
    assert_eq!(counted(5), Some(5));
    assert_eq!(std::fs::read_to_string(at.join("state.json")).unwrap(), "5");
    let refused = ask(&socket(at), &"five").unwrap_err().to_string();
    assert!(refused.contains("expected u64"), "{refused}");
    let mut page = String::new();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("count 5\n") && page.contains("known true"), "{page}");
    assert!(!page.contains("ticks 0\n"), "events of threads arrive: {page}");
    assert_eq!(start(at, port).0.wait().unwrap().code(), Some(2), "one per socket");

    // Its guard is replaced, and undoes its effect when the daemon is killed.
    kill(Pid::from_raw(first.0.id() as i32), Signal::SIGHUP).unwrap();
    eventually("the reload", at, || contains("counter.reloaded"));
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    eventually("the guard", at, || (world() == "lifted").then_some(()));
    eventually("the end of its effect", at, || (!effect(at).exists()).then_some(()));

    // The next one continues with its state and ends in order: the guard does nothing.
    let mut next = start(at, port);
    assert_eq!(eventually("an answer", at, || counted(1)), 6);
    kill(Pid::from_raw(next.0.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(next.0.wait().unwrap().code(), Some(0));
    assert!(!effect(at).exists() && !socket(at).exists());
    let log = std::fs::read_to_string(at.join("log")).unwrap();
    assert_eq!(log.matches("guard.died").count(), 1, "{log}");
}

fn the_runtime_knows_no_gateway() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/daemon");
    let mut files = 0;
    let mut folders = vec![folder.clone()];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { paths.push(path) }
        }
    }
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in ["crate::gateway", "fairmesh_linux", "fairmesh_control"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
        files += 1;
    }
    assert!(files >= 10, "{files} files in {}", folder.display());
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["daemon", folder, port] => {
            std::process::exit(daemon(Path::new(folder), port.parse().unwrap()));
        }
        ["guard", folder, lock, run] => watch(Path::new(folder), Path::new(lock), run),
        _ if words.contains(&"--list") => println!("the_runtime: test"),
        _ if nix::unistd::geteuid().is_root() => {
            the_runtime_knows_no_gateway();
            the_runtime_drives_a_service_that_is_no_gateway();
            println!("test the_runtime_drives_a_service_that_is_no_gateway ... ok");
        }
        _ => {
            the_runtime_knows_no_gateway();
            println!("SKIPPED the_runtime_drives_a_service: needs root for locks in /run");
            assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
        }
    }
}
