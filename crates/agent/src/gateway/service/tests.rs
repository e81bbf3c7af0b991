//! The daemon as a whole on a virtual clock, for as long as routers run: nothing may grow.

mod history;
mod requests;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use fairmesh_linux::capture::{Flags, Header};
use fairmesh_linux::{Direction, IpNet};
use fairmesh_units::Stream;

use std::io::Write;
use std::sync::mpsc;

use super::*;
use crate::daemon::clock::Clock;
use crate::daemon::runtime::{Heartbeat, Message, Runtime, Setup, inbox};
use crate::daemon::store::Store;
use crate::gateway::config::Subscriber;
use crate::gateway::fake::{Broken, FakeShaper};
use crate::gateway::governor::{ClassIds, Governor};
use crate::gateway::history::{HistoryWriter, Recorder};
use crate::gateway::link_rates::LinkRates;
use crate::gateway::orders::OrderSocket;
use crate::gateway::probes::ProbeThread;
use crate::gateway::request::{OverrideRate, Request};
use crate::gateway::sources::{Discovery, FailedSource, SourceError};

/// On a busy machine the kernel has taken 14 s of CPU for the classes of 10,000 subscribers.
#[test]
fn patience_follows_the_number_of_subscribers() {
    let of = |seconds, n| patience(Span::from_secs(seconds), n).as_secs_f64();
    assert_eq!([of(1, 0), of(10, 0), of(600, 0)], [5.0, 20.0, 30.0]);
    assert_eq!(of(1, 30), 5.06);
    assert!(of(1, 10_030) >= 25.0);
}

/// Output of a bench, counted by lines.
#[derive(Clone, Default)]
struct Lines(Rc<RefCell<u64>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self.0.borrow_mut() += bytes.iter().filter(|b| **b == b'\n').count() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A value of a virtual clock, shared by the daemons of a test.
#[derive(Clone, Default)]
pub(super) struct Dial<T>(Arc<Mutex<T>>);

impl<T: Copy> Dial<T> {
    pub(super) fn new(value: T) -> Dial<T> {
        Dial(Arc::new(Mutex::new(value)))
    }

    fn get(&self) -> T {
        *self.0.lock().unwrap()
    }

    fn set(&self, value: T) {
        *self.0.lock().unwrap() = value;
    }
}

pub(super) struct Bench {
    daemon: Runtime<Gateway<FakeShaper>>,
    now: Dial<Time>,
    wall: Dial<u64>,
    lines: Lines,
    /// Another gateway of the same mesh, with the same clock.
    other: Option<Box<Bench>>,
    /// Bytes that each home had carried at the last look.
    carried: std::collections::BTreeMap<usize, u64>,
}

/// Start of a bench, seconds since 1970.
const WALL: u64 = 1_800_000_000;

fn text(folder: &Path) -> String {
    let at = folder.display();
    let mut text = format!(
        "mode = \"apply\"\n[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"eth0\"\n\
         [control]\nuse = \"pfrc+bursts\"\n[[neighbour]]\nname = \"n\"\ncapacity = \"10 Mbit/s\"\n\
         [discover]\nroutes = true\nmost = 40\nlinger = \"10 min\"\n\
         [metrics]\ntextfile = \"{at}/page.prom\"\n\
         [history]\nsize = \"256 KiB\"\nfolder = \"{at}/history\"\n\
         [paths]\nstate = \"{at}/state\"\nsocket = \"{at}/socket\"\n"
    );
    for i in 0..6 {
        text += &format!("[[subscriber]]\nname = \"s{i}\"\nprefixes = [\"10.0.{i}.0/24\"]\n");
    }
    text
}

impl Bench {
    fn new(folder: &Path) -> Bench {
        let now = Dial::new(Time::ZERO);
        Bench::on(folder, &text(folder), now)
    }

    pub(super) fn on(folder: &Path, text: &str, now: Dial<Time>) -> Bench {
        let file = folder.join("gateway.toml");
        std::fs::write(&file, text).unwrap();
        let config = Config::load(&file).unwrap();
        let mut store = Store::new(&config.state);
        let kept = SavedState::load(&mut store).unwrap();
        let governor =
            Governor::new(&config, ClassIds::new(kept.classes.clone()), now.get()).unwrap();
        let wall = Dial::new(WALL);
        let (clock, calendar) = (now.clone(), wall.clone());
        let of_bench = Clock::new(move || clock.get(), move || calendar.get());
        // Each turn reads datagrams, so nothing waits for messages here.
        let parts = Parts {
            peers: config.peers.clone().map(|p| (PeerSocket::new(p), inbox().0)),
            orders: OrderSocket::default(),
            capture: HeaderThread::new(of_bench.clone()),
            probes: ProbeThread::new(of_bench.clone()),
            rates: LinkRates::of_kernel(),
            history: (config.history.size > 0).then(|| {
                let writer = HistoryWriter::direct(&config.history);
                History::with(
                    writer,
                    Recorder::new(now.get().as_nanos(), now.get(), config.history.period),
                )
            }),
            discover: Wanted::default(),
            load: Box::new({
                let file = file.clone();
                move || Config::load(&file)
            }),
            file: file.clone(),
        };
        let plane = FakeShaper { capacity: 9e6, ..FakeShaper::default() };
        let lines = Lines::default();
        let setup = Setup {
            socket: config.socket.clone(),
            metrics: None,
            servers: Vec::new(),
            store,
            guard: None,
            json: false,
            heartbeat: Heartbeat::default(),
        };
        let gateway = Gateway::new(Host::new(plane, governor), config, parts);
        let mut daemon = Runtime::new(gateway, of_bench, setup);
        daemon.out = Box::new(lines.clone());
        let at = daemon.at();
        daemon.service.begin(at, &kept);
        daemon.perform();
        Bench { daemon, now, wall, lines, other: None, carried: Default::default() }
    }

    fn plane(&mut self) -> &mut FakeShaper {
        self.daemon.service.host.plane()
    }

    /// Turns as the runtime does, without messages.
    pub(super) fn pass(&mut self, span: Span) {
        let (start, wall) = (self.now.get(), self.wall.get());
        let end = start + span;
        while self.now.get() < end {
            let now = self.now.get();
            let mut next = self.daemon.turn();
            if let Some(other) = &mut self.other {
                next = next.min(other.daemon.turn());
            }
            let wait = next.since(now).min(Span::from_secs(1)).min(end.since(now));
            // A loop without a wait would not end on a real clock either.
            let wait = wait.max(Span::from_millis(1));
            self.now.set(now + wait);
            self.wall.set(wall + (now + wait).since(start) / Span::from_secs(1));
            self.plane().run(wait.as_secs_f64());
            if let Some(other) = &mut self.other {
                other.plane().run(wait.as_secs_f64());
            }
        }
    }

    pub(super) fn send(&mut self, message: Message<Input>) {
        self.daemon.take(message);
    }

    pub(super) fn time(&self) -> Time {
        self.now.get()
    }

    pub(super) fn reader(&self) -> crate::gateway::signs::SharedReader {
        self.daemon.service.host.signs().clone()
    }

    pub(super) fn page(
        &self,
    ) -> (Option<crate::gateway::config::PageSettings>, crate::gateway::history::HistorySettings)
    {
        let config = &self.daemon.service.config;
        (config.page.clone(), config.history.clone())
    }

    /// Queries the sources of the configuration.
    pub(super) fn discover(&mut self) {
        if let Some(discover) = self.daemon.service.config.discover.clone() {
            let found = crate::gateway::sources::fetch(&discover, "bat0");
            self.send(Message::Input(Input::Found(found)));
        }
    }

    /// Sets what the mesh carries, in bit/s.
    pub(super) fn carries(&mut self, capacity: f64) {
        self.plane().capacity = capacity;
    }

    /// Returns the bytes that the n-th home has carried downstream since the last call.
    pub(super) fn carried(&mut self, n: usize) -> u32 {
        let members = self.daemon.service.host.governor.members();
        let Some(class) = members.get(n).map(|m| m.class) else { return 0 };
        let slot = fairmesh_linux::Slot { class, direction: Direction::Down };
        let bytes = self.plane().classes.get(&slot).map_or(0, |c| c.bytes);
        let before = self.carried.insert(n, bytes).unwrap_or(0);
        u32::try_from(bytes.saturating_sub(before)).unwrap_or(u32::MAX)
    }

    /// Sets the load that is offered to the n-th home downstream, in bit/s.
    pub(super) fn demand(&mut self, n: usize, load: f64) {
        let classes: Vec<_> =
            self.daemon.service.host.governor.members().iter().map(|m| m.class).collect();
        let Some(class) = classes.get(n) else { return };
        let slot = fairmesh_linux::Slot { class: *class, direction: Direction::Down };
        if let Some(class) = self.plane().classes.get_mut(&slot) {
            class.demand = load;
        }
    }

    fn ask(&mut self, request: Request) -> Response {
        let (give, take) = mpsc::sync_channel(1);
        self.send(Message::Call((serde_json::to_string(&request).unwrap(), give)));
        take.recv().unwrap()
    }
}

fn found(names: impl Iterator<Item = u32>) -> Message<Input> {
    let subscriber = |n: u32| Subscriber {
        name: format!("node {n}"),
        prefixes: vec![IpNet::new(std::net::Ipv4Addr::from(0x0b00_0000 | n).into(), 32).unwrap()],
        macs: Vec::new(),
        plan: Default::default(),
        hops: None,
    };
    Message::Input(Input::Found(Discovery {
        found: names.map(subscriber).collect(),
        ..Discovery::default()
    }))
}

/// Returns the resident memory of this process in KiB, and its number of open files.
fn usage() -> (u64, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    (kib, std::fs::read_dir("/proc/self/fd").unwrap().count())
}

/// Causes a fault of the kernel, disk, clock, mesh or operator; one per quarter of an hour.
fn trouble(b: &mut Bench, random: &mut Stream, quarter: u32) {
    const KERNEL: [Broken; 12] = [
        Broken::Stuck,
        Broken::Missing,
        Broken::Absurd,
        Broken::Backwards,
        Broken::Sample,
        Broken::Apply,
        Broken::ApplyAndRelease,
        Broken::Interface,
        Broken::Rules,
        Broken::RulesAgain,
        Broken::Renew,
        Broken::Nothing,
    ];
    match random.below(6) {
        0 => {
            b.plane().broken = KERNEL[random.below(KERNEL.len() as u32) as usize];
            b.pass(Span::from_secs(u64::from(random.below(90))));
            b.plane().broken = Broken::Nothing;
        }
        // Names that occur only once.
        1 => {
            for look in 0..6 {
                let from = (quarter * 6 + look) * 100;
                b.send(found((0..100).map(|n| 1000 + from + n)));
                b.pass(Span::from_secs(10));
            }
        }
        // Suspended, or paused by a hypervisor with a running clock; and the calendar jumps.
        2 => {
            let away = Span::from_secs(u64::from(random.below(20_000)));
            b.now.set(b.now.get() + away);
            let jump = i64::from(random.below(200_000)) - 100_000;
            b.wall.set(b.wall.get().saturating_add_signed(jump));
        }
        3 => {
            let seconds = 1.0 + f64::from(random.below(3000));
            let rate = OverrideRate::Limit(1_000_000);
            let subscriber = format!("s{}", random.below(6));
            b.ask(Request::Override { subscriber, directions: Vec::new(), rate, seconds });
        }
        4 => {
            b.send(Message::Signal(signal_hook::consts::SIGHUP));
            for _ in 0..100 {
                let (give, take) = mpsc::sync_channel(1);
                b.send(Message::Scrape(give));
                assert!(take.recv().unwrap().contains("fairmesh_gateway_phase"));
                assert!(matches!(b.ask(Request::Status), Response::Ok(_)));
            }
        }
        _ => {
            b.send(Message::Input(Input::Found(Discovery {
                found: Vec::new(),
                failed: vec![FailedSource { name: "babel".into(), problem: SourceError::Timeout }],
                ..Discovery::default()
            })));
        }
    }
    for class in b.plane().classes.values_mut() {
        class.demand = f64::from(random.below(4)) * 2e6;
    }
}

/// Runs a test in a separate process to measure its memory; returns true in that process.
fn alone(name: &str) -> bool {
    if std::env::var_os("FAIRMESH_TEST_ALONE").is_some() {
        return true;
    }
    let name = format!("gateway::service::tests::{name}");
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env("FAIRMESH_TEST_ALONE", "1")
        .status();
    assert!(alone.unwrap().success());
    false
}

/// Runs days with a fault every quarter of an hour: nothing may grow in the second half.
fn days_of(
    quarters: u32,
    folder: &Path,
    b: &mut Bench,
    mut trouble: impl FnMut(&mut Bench, &mut Stream, u32),
) {
    let mut random = Stream::new(1, "trouble");
    b.pass(Span::from_secs(60));
    let mut at_half = (0, 0, 0);
    for quarter in 0..quarters {
        if quarter == quarters / 2 {
            let (kib, files) = usage();
            at_half = (kib, files, *b.lines.0.borrow());
        }
        trouble(b, &mut random, quarter);
        b.pass(Span::from_secs(900));
    }
    let ((kib, files), lines) = (usage(), *b.lines.0.borrow());
    let (lines_late, lines_early) = (lines - at_half.2, at_half.2);
    let state: u64 = std::fs::read_dir(folder.join("state"))
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
    let events = b.daemon.service.host.governor.journal.totals().count();
    println!(
        "{} hours: {} KiB at half time, {kib} in the end; {files} files; {lines_early} lines, then \
         {lines_late}; {events} kinds of events; {state} bytes of state",
        quarters / 4,
        at_half.0
    );
    assert!(kib < at_half.0 + 4096, "memory grows: {} KiB, then {kib}", at_half.0);
    assert_eq!(files, at_half.1, "files stay open");
    assert!(
        lines_late < 2 * lines_early,
        "the number of lines grows: {lines_early}, then {lines_late}"
    );
    assert!(events < 100 && state < 1 << 20, "{events} {state}");
    assert_eq!(std::fs::read_dir(folder.join("state")).unwrap().count(), 2);
    let here = b.daemon.service.host.governor.members().len();
    assert!(here <= 6 + 1 + 40, "{here} subscribers");
    // And it still works.
    b.pass(Span::from_secs(120));
    assert_eq!(b.daemon.service.host.phase(), crate::gateway::host::Phase::Running);
}

/// Returns the number of quarters of an hour: from `FAIRMESH_DAYS`, or the given one.
fn quarters(usual: u32) -> u32 {
    std::env::var("FAIRMESH_DAYS").map_or(usual, |d| d.parse::<u32>().unwrap() * 96)
}

/// Two days in the tests; `FAIRMESH_DAYS=24` covers the time of an operator's trial.
#[test]
fn nothing_grows_over_days_of_trouble() {
    if !alone("nothing_grows_over_days_of_trouble") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut b = Bench::new(folder.path());
    days_of(quarters(2 * 96), folder.path(), &mut b, trouble);
    assert!(b.plane().rate(1, Direction::Down).is_some());
}

/// Returns one of two connected gateways of a mesh, with `rtt` and TCP headers.
fn gateway(folder: &Path, number: usize, ports: [u16; 2], now: Dial<Time>) -> Bench {
    let own = folder.join(format!("gateway-{number}"));
    let _ = std::fs::create_dir(&own);
    let key = folder.join("key");
    if !key.exists() {
        std::fs::write(&key, "07".repeat(32)).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key, mode).unwrap();
    }
    let text = text(&own).replace("pfrc+bursts", "rtt+peers")
        + &format!(
            "[peers]\nnumber = {}\npeer = [\"127.0.0.1:{}\"]\nlisten = \"127.0.0.1:{}\"\nkey = \"{}\"\n",
            number + 1,
            ports[1 - number],
            ports[number],
            key.display()
        );
    Bench::on(&own, &text, now)
}

/// Delivers TCP headers of known and unknown homes, in any order, sometimes of a flood.
///
/// It also does the reader thread's work of one second.
fn headers(b: &Bench, random: &mut Stream, count: u32) {
    let reader = b.daemon.service.host.signs();
    let mut reader = reader.lock().unwrap();
    let now = b.now.get();
    // No interface of this machine has these addresses.
    reader.opened(now, true);
    for _ in 0..count {
        let near = [10, 0, random.below(8) as u8, random.below(4) as u8];
        let far = [192, 0, 2, random.below(200) as u8];
        let bits = random.below(16);
        let header = Header {
            direction: Direction::BOTH[(bits & 1) as usize],
            near: (near.into(), random.below(if count > 1000 { 60_000 } else { 3 }) as u16),
            far: (far.into(), 443),
            mac: None,
            seq: random.below(1 << 20),
            ack: random.below(1 << 20),
            len: random.below(1460),
            flags: Flags { syn: bits & 6 == 6, fin: bits == 8, rst: bits == 9, ack: bits & 6 != 6 },
            stamps: (bits & 1 == 0).then(|| [random.below(1 << 20), random.below(1 << 20)]),
            selective: (bits == 3).then(|| random.below(1 << 20)),
            bytes: 1500,
        };
        reader.see(now, &header);
    }
    reader.counted(now, count, u32::from(random.below(50) == 0));
    reader.tidy(now);
}

/// Causes faults of other gateways and of subscribers' traffic.
fn trouble_with_others(b: &mut Bench, random: &mut Stream, folder: &Path, ports: [u16; 2]) {
    match random.below(5) {
        // The other gateway dies, and its address sends invalid bytes; later it restarts, with or without its state.
        0 => {
            b.other = None;
            let liar = std::net::UdpSocket::bind(("127.0.0.1", ports[1])).unwrap();
            // At once, sometimes: it has not timed out by then.
            for _ in 0..random.below(2) * random.below(40) {
                let bytes: Vec<u8> = (0..random.below(600)).map(|i| (i * 7) as u8).collect();
                let _ = liar.send_to(&bytes, ("127.0.0.1", ports[0]));
                b.pass(Span::from_secs(u64::from(random.below(60))));
            }
            drop(liar);
            if random.below(2) == 0 {
                let _ = std::fs::remove_dir_all(folder.join("gateway-1/state"));
            }
            b.other = Some(Box::new(gateway(folder, 1, ports, b.now.clone())));
        }
        // Neither receives from the other for a while, and both continue.
        1 => {
            let other = b.other.take();
            b.pass(Span::from_secs(u64::from(random.below(300))));
            b.other = other;
        }
        2 => headers(b, random, 50_000),
        _ => {
            for _ in 0..60 {
                headers(b, random, 200);
                b.pass(Span::from_secs(1));
            }
        }
    }
    let other = b.other.as_mut().unwrap();
    for class in other.plane().classes.values_mut() {
        class.demand = f64::from(random.below(4)) * 2e6;
    }
}

/// A long run with `rtt` at two connected gateways and TCP headers: ten hours in the tests.
#[test]
fn nothing_grows_with_signs_and_peers() {
    if !alone("nothing_grows_with_signs_and_peers") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = [at(), at()];
    let ports = free.each_ref().map(|s| s.local_addr().unwrap().port());
    drop(free);
    let now = Dial::new(Time::ZERO);
    let mut b = gateway(folder.path(), 0, ports, now.clone());
    b.other = Some(Box::new(gateway(folder.path(), 1, ports, now)));
    let quarters = quarters(40);
    let own = folder.path().join("gateway-0");
    let mut governed = 0;
    days_of(quarters, &own, &mut b, |b, random, quarter| {
        trouble(b, random, quarter);
        trouble_with_others(b, random, folder.path(), ports);
        b.pass(Span::from_secs(60));
        let other = b.other.as_ref().unwrap();
        governed += u32::from(other.daemon.service.host.governor.governed_by() == Some(1));
    });
    println!("{governed} times of {quarters} the other one was governed by the first");
    assert!(governed * 2 > quarters, "{governed}");
    let codes = b.daemon.service.host.governor.journal.totals().map(|(code, ..)| code.to_string());
    let codes: Vec<String> = codes.collect();
    for code in ["peer.here", "peer.silent", "peer.restarted"] {
        assert!(codes.iter().any(|c| c == code), "{code}: {codes:?}");
    }
}

/// A clock that jumps by a day costs a few turns, not one for each missed epoch.
///
/// No limit or override lasts longer because of it.
#[test]
fn a_jump_of_the_clock_is_made_up_for_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = Bench::new(folder.path());
    b.plane().classes.values_mut().for_each(|c| c.demand = 4e6);
    b.pass(Span::from_secs(60));
    b.plane().classes.values_mut().for_each(|c| c.demand = 4e6);
    b.pass(Span::from_secs(60));
    let rate = OverrideRate::Limit(50_000);
    let seconds = 3600.0;
    let subscriber = "s0".to_owned();
    b.ask(Request::Override { subscriber, directions: Vec::new(), rate, seconds });
    b.pass(Span::from_secs(5));
    assert_eq!(b.plane().rate(1, Direction::Down).map(|r| r.0 / 1000), Some(50));
    for jump in [86_400, 24 * 86_400, 400 * 86_400] {
        b.now.set(b.now.get() + Span::from_secs(jump));
        let now = b.now.get();
        let turns = (0..100).find(|_| b.daemon.turn() > now);
        assert!(turns.is_some_and(|n| n < 10), "{jump} s: {turns:?}");
    }
    assert_ne!(b.plane().rate(1, Direction::Down).map(|r| r.0 / 1000), Some(50));
    b.pass(Span::from_secs(120));
    assert_eq!(b.daemon.service.host.phase(), crate::gateway::host::Phase::Running);
    // The end of the clock's range stops nothing.
    b.now.set(Time::from_nanos(u64::MAX - 1_000_000_000));
    b.daemon.turn();
    b.daemon.turn();
}

/// A router without a battery starts in 1970 and gets the time later.
///
/// An override keeps its duration approximately.
#[test]
fn overrides_survive_a_calendar_that_jumps() {
    let hour = 3600;
    for (wall, left) in [
        // The right time, an hour later; before the time is known; behind by a day.
        (WALL + hour, Some(hour)),
        (5, Some(2 * hour)),
        (WALL - 86_400, Some(2 * hour)),
        // Beyond its end: it is over by the clock.
        (WALL + 86_400, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut b = Bench::new(folder.path());
        let (subscriber, rate) = ("s1".to_owned(), OverrideRate::Unlimited);
        let seconds = (2 * hour) as f64;
        b.ask(Request::Override { subscriber, directions: Vec::new(), rate, seconds });
        let kept = SavedState::load(&mut Store::new(&folder.path().join("state"))).unwrap();
        let mut fresh = Bench::new(tempfile::tempdir().unwrap().path());
        fresh.wall.set(wall);
        fresh.daemon.service.at = fresh.daemon.at();
        fresh.daemon.service.restore(&kept);
        let got = fresh
            .daemon
            .service
            .host
            .governor
            .overrides()
            .map(|(_, _, o)| o.until.since(Time::ZERO));
        let got: Vec<u64> = got.map(|left| left / Span::from_secs(1)).collect();
        assert_eq!(got, left.map_or(vec![], |left| vec![left; 2]), "at {wall}");
    }
}

/// Limits the writes to flash in an hour of a mesh that changes all the time.
#[test]
fn state_is_written_seldom() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = Bench::new(folder.path());
    let subscriber = "s1".to_owned();
    let (rate, seconds) = (OverrideRate::Limit(1_000_000), 86_400.0);
    b.ask(Request::Override { subscriber, directions: Vec::new(), rate, seconds });
    let file = folder.path().join("state/state.json");
    let mut writes = 0;
    let mut last = std::fs::read(&file).unwrap();
    for i in 0..360 {
        b.send(found((0..10).map(|n| 1000 + i + n)));
        b.pass(Span::from_millis(10_003));
        // A calendar with small corrections.
        b.wall.set(b.wall.get() + u64::from(i % 3 == 0));
        let now = std::fs::read(&file).unwrap();
        writes += u32::from(now != last);
        last = now;
    }
    assert!((1..=8).contains(&writes), "{writes} times in an hour");
}

/// A crash loses at most a minute of a quota's use; the large state is not written for it.
#[test]
fn a_crash_loses_a_minute_of_a_quota() {
    let folder = tempfile::tempdir().unwrap();
    let text = text(folder.path()).replace(
        "[[subscriber]]\nname = \"s1\"",
        "[plan.q]\nquota = { bytes = \"1 GB\", per = \"month\", down = \"1 Mbit/s\" }\n\
         [[subscriber]]\nname = \"s1\"\nplan = \"q\"",
    );
    let state = folder.path().join("state");
    let mut b = Bench::on(folder.path(), &text, Dial::new(Time::ZERO));
    b.pass(Span::from_secs(1));
    b.plane().classes.values_mut().for_each(|c| c.demand = 0.8e6);
    let (mut writes, mut full, mut last) = (0, 0, [Vec::new(), Vec::new()]);
    let mut uses = Vec::new();
    for _ in 0..60 {
        b.pass(Span::from_secs(10));
        let now =
            ["quotas.json", "state.json"].map(|f| std::fs::read(state.join(f)).unwrap_or_default());
        writes += u32::from(now[0] != last[0]);
        full += u32::from(now[1] != last[1]);
        last = now;
        let Response::Ok(why) = b.ask(Request::Why { subscriber: "s1".into() }) else { panic!() };
        let used = why["quota"]["used_bytes"].as_u64().unwrap();
        // The daemon is killed here.
        let kept = SavedState::load(&mut Store::new(&state)).unwrap();
        let saved = kept.quotas.get("s1").map_or(0, |u| u.bytes);
        // A minute, and the time between two samples.
        let before = uses.iter().rev().nth(6).copied().unwrap_or(0);
        assert!((before..=used).contains(&saved), "{before} {saved} {used}");
        uses.push(used);
    }
    assert!((9..=11).contains(&writes) && full <= 2, "{writes} {full} in ten minutes");
    assert!(std::fs::metadata(state.join("quotas.json")).unwrap().len() < 100);
    let Response::Ok(status) = b.ask(Request::Status) else { panic!() };
    let status: crate::gateway::report::Status = serde_json::from_value(status).unwrap();
    let line = crate::gateway::report::status_text(&status);
    assert!(line.contains("% of the quota used, again in "), "{line}");
    let page = b.daemon.service.page(None);
    for metric in [
        "fairmesh_gateway_quotas{used_up=\"false\"} 1\n",
        "fairmesh_gateway_subscriber_quota_bytes{subscriber=\"s1\"} 1000000000\n",
        "fairmesh_gateway_subscriber_quota_used_bytes{subscriber=\"s1\"} ",
        "fairmesh_gateway_subscriber_quota_end_timestamp_seconds{subscriber=\"s1\"} 18",
    ] {
        assert!(page.contains(metric), "{metric}: {page}");
    }
    // A damaged file costs what is newer than the full state, and a warning.
    let whole = SavedState::load(&mut Store::new(&state)).unwrap();
    std::fs::write(state.join("quotas.json"), "{\"version\": 1, ").unwrap();
    let kept = SavedState::load(&mut Store::new(&state)).unwrap();
    assert!(kept.lost_quotas.unwrap().starts_with("quotas.json: "));
    assert_eq!(kept.classes, whole.classes);
}

/// `status` and metrics have the counts of each source, and of the homes left out after all.
#[test]
fn sources_are_in_status_and_metrics() {
    use crate::gateway::sources::{Omission, Omissions, SourceReport};
    let folder = tempfile::tempdir().unwrap();
    let mut b = Bench::new(folder.path());
    let mut omitted = Omissions::default();
    omitted.add(Omission::NoAddress, 2);
    let name = "babel \"x\"".to_owned();
    let source =
        SourceReport { name, nodes: 47, addresses: 45, subscribers: 45, omitted, failed: None };
    let home = |i: u32| Subscriber {
        name: format!("home {i}"),
        prefixes: vec![IpNet::from(std::net::IpAddr::from([10, 9, 0, i as u8]))],
        macs: Vec::new(),
        plan: Default::default(),
        hops: None,
    };
    b.send(Message::Input(Input::Found(Discovery {
        found: (1..=45).map(home).collect(),
        failed: Vec::new(),
        sources: vec![source],
        ..Discovery::default()
    })));
    let Response::Ok(status) = b.ask(Request::Status) else { panic!() };
    assert_eq!(status["sources"][0]["nodes"], 47);
    assert_eq!(status["sources"][0]["omitted"]["no-address"], 2);
    // `discover.most` is 40.
    assert_eq!(status["left_out"]["full"], 5);
    let (give, take) = mpsc::sync_channel(1);
    b.send(Message::Scrape(give));
    let page = take.recv().unwrap();
    for line in [
        "fairmesh_gateway_source_nodes{source=\"babel \\\"x\\\"\"} 47",
        "fairmesh_gateway_source_omitted{source=\"babel \\\"x\\\"\",reason=\"no-address\"} 2",
        "fairmesh_gateway_discovery_omitted{reason=\"full\"} 5",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}: {page}");
    }
}
