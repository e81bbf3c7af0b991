//! Costs of the data plane: installation, epoch and forwarded packet, compared with HTB.
//!
//! HTB is set by hand. Needs root; runs in separate network namespaces.
//!
//! ```sh
//! cargo run --release -p fairmesh-linux --example dataplane [building|forwarding|classes [ROUNDS]]
//! ```

#![allow(clippy::disallowed_methods)] // a measurement needs a clock

#[path = "../tests/common/mod.rs"]
mod common;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use common::*;
use fairmesh_linux::*;
use fairmesh_units::BitRate;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Returns the CPU time of this process with its ended children, ms.
fn cpu() -> f64 {
    let of = |target| {
        let usage = getrusage(target).expect("getrusage");
        (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1000.0
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), cpu());
    let result = run();
    println!(
        "  {what:<46} {:>8.1} ms, CPU {:>8.1} ms",
        start.elapsed().as_secs_f64() * 1e3,
        cpu() - before
    );
    result
}

/// Returns class numbers as the daemon assigns them.
fn numbers(count: u16) -> impl Iterator<Item = u16> {
    (1..).filter(|n| ClassId(*n).is_swift()).take(count.into())
}

fn people(count: u16) -> Vec<Subscriber> {
    numbers(count).map(subscriber).collect()
}

fn building(count: u16) {
    println!("{count} subscribers, an IPv4 and an IPv6 address each, two directions");
    let path = Path::new();
    let layout = path.layout(people(count));
    let mut plane = path.plane();
    let l = layout.clone();
    let gateway = path.gateway.name.clone();
    let inside = path.gateway.spawn(move || {
        timed("install", || plane.install(&l).expect("install"));
        timed("install again (takeover)", || plane.install(&l).expect("install"));
        let mut changed = l.clone();
        for s in changed.subscribers.iter_mut().take(10) {
            let class = s.class.0;
            s.prefixes.push(net(&format!("10.3.0.{}/32", class % 256)));
        }
        timed("relayout, ten of them with a new address", || plane.relayout(&changed).expect("relayout"));
        let mut counters = Vec::new();
        let epochs = 10;
        let (mut sample, mut set) = (0.0, 0.0);
        let start = Instant::now();
        for epoch in 0..epochs {
            let before = cpu();
            plane.sample(&mut counters).expect("sample");
            let between = cpu();
            let changes: Vec<RateChange> = numbers(count)
                .flat_map(|c| {
                    let bits = 1_000_000 + u64::from(c) * 8 + epoch * 800;
                    Direction::BOTH.map(|d| change(c, d, Some(bits)))
                })
                .collect();
            plane.set_rates(&changes).expect("set_rates");
            set += cpu() - between;
            sample += between - before;
        }
        let wall = start.elapsed().as_secs_f64() * 1e3 / epochs as f64;
        let (sample, set) = (sample / epochs as f64, set / epochs as f64);
        println!(
            "  epoch: CPU {sample:.1} ms sampling, {set:.1} ms changing all {} limits ({wall:.1} ms in all): {:.1} % of a core at 1 s",
            2 * count,
            (sample + set) / 10.0
        );
        timed("release", || plane.release().expect("release"));
        timed("verify", || plane.verify().expect("verify"));
        timed("remove", || plane.remove(&changed).expect("remove"));
    });
    inside.join().expect("measurement");
    drop(gateway);
}

/// A method of shaping, set up and ready to forward.
struct Contender {
    name: &'static str,
    bench: Option<Bench>,
    _path: Option<Path>,
    sender: UdpSocket,
    subscribers: u16,
    rounds: Vec<f64>,
}

impl Contender {
    fn path() -> Path {
        let path = Path::new();
        // The mesh host drops packets as early as possible.
        path.mesh.sh("ip route del local 10.2.0.0/16 dev lo");
        path.mesh.sh("ip route add blackhole 10.2.0.0/16");
        path
    }

    fn ours(name: &'static str, subscribers: u16) -> Self {
        let bench = Bench::on(Contender::path(), people(subscribers), |_| ());
        let sender = bench.path.wired.udp(HOST);
        Contender { name, sender, bench: Some(bench), _path: None, subscribers, rounds: Vec::new() }
    }

    fn by_hand(name: &'static str, subscribers: u16, commands: Vec<String>) -> Self {
        let path = Contender::path();
        let script = std::env::temp_dir().join(format!("{}.tc", path.gateway.name));
        std::fs::write(&script, commands.join("\n")).expect("a temporary file");
        path.gateway.sh(&format!("tc -b {}", script.display()));
        std::fs::remove_file(&script).expect("a temporary file");
        let sender = path.wired.udp(HOST);
        Contender { name, sender, bench: None, _path: Some(path), subscribers, rounds: Vec::new() }
    }

    /// Sends for a while to all subscribers, and notes the packets per second.
    fn round(&mut self) {
        let rate = self.send(self.subscribers);
        self.rounds.push(rate);
    }

    /// Sends for a while; returns packets per second.
    ///
    /// All work on the path is in the sender's time.
    fn send(&mut self, destinations: u16) -> f64 {
        if let Some(bench) = &mut self.bench {
            bench.call(|_| ()); // keeps the rules in force
        }
        send(&self.sender, destinations)
    }
}

/// Sends for a while to some destinations in turn; returns packets per second.
fn send(sender: &UdpSocket, destinations: u16) -> f64 {
    let payload = [0; 1400];
    let targets: Vec<SocketAddr> = numbers(destinations).map(|c| v4(c, 9)).collect();
    let start = Instant::now();
    let mut sent = 0u64;
    let mut at = 0;
    while start.elapsed() < Duration::from_millis(400) {
        for _ in 0..256 {
            // A step that does not divide their number, so that caches do not help.
            at = (at + 61) % targets.len();
            sent += u64::from(sender.send_to(&payload, targets[at]).is_ok());
        }
    }
    sent as f64 / start.elapsed().as_secs_f64()
}

/// Returns the commands of an operator with many subscribers.
///
/// They are two levels of hash tables over the last two bytes of the address, and a class each.
fn by_hand_10_000() -> Vec<String> {
    let filter = "filter add dev mesh0 parent 1: protocol ip prio 1";
    let mut commands = vec![
        "qdisc add dev mesh0 root handle 1: htb default 1".to_owned(),
        "class add dev mesh0 parent 1: classid 1:1 htb rate 100gbit quantum 60000".to_owned(),
        format!("{filter} u32"),
        format!("{filter} handle 1: u32 divisor 256"),
        format!(
            "{filter} u32 ht 800:: match ip dst 10.2.0.0/16 hashkey mask 0x0000ff00 at 16 link 1:"
        ),
    ];
    for hi in 0..=numbers(10_000).last().expect("some") >> 8 {
        commands.push(format!("{filter} handle {:x}: u32 divisor 256", hi + 2));
        commands.push(format!(
            "{filter} u32 ht 1:{hi:x}: match ip dst 10.2.{hi}.0/24 hashkey mask 0x000000ff at 16 link {:x}:",
            hi + 2
        ));
    }
    for class in numbers(10_000) {
        let [hi, lo] = class.to_be_bytes();
        commands.push(format!(
            "class add dev mesh0 parent 1: classid 1:{:x} htb rate 100gbit quantum 60000",
            class + 16
        ));
        commands.push(format!(
            "{filter} u32 ht {:x}:{lo:x}: match ip dst 10.2.{hi}.{lo}/32 flowid 1:{:x}",
            hi + 2,
            class + 16
        ));
    }
    commands
}

fn forwarding() {
    println!("forwarding, packets of 1400 bytes from one sender, no limit in the way");
    let plain = vec![
        "qdisc add dev mesh0 root handle 1: htb default 1".to_owned(),
        "class add dev mesh0 parent 1: classid 1:1 htb rate 100gbit quantum 60000".to_owned(),
    ];
    // As set by an operator: a class and a filter each.
    let mut classes = plain.clone();
    for class in 1..=100u16 {
        let SocketAddr::V4(address) = v4(class, 0) else { unreachable!("an IPv4 address") };
        classes.push(format!(
            "class add dev mesh0 parent 1: classid 1:{:x} htb rate 100gbit quantum 60000",
            class + 16
        ));
        classes.push(format!(
            "filter add dev mesh0 parent 1: protocol ip prio 1 u32 match ip dst {}/32 flowid 1:{:x}",
            address.ip(),
            class + 16
        ));
    }
    let hashed = by_hand_10_000();
    let mut contenders = vec![
        Contender::by_hand("no shaping", 100, vec![]),
        Contender::by_hand("HTB by hand, one class", 100, plain),
        Contender::by_hand("HTB by hand, 100 classes, 100 u32 filters", 100, classes),
        Contender::ours("fairmesh, 100 subscribers", 100),
        Contender::by_hand("HTB by hand, 10,000 classes, u32 hash tables", 10_000, hashed),
        Contender::ours("fairmesh, 10,000 subscribers", 10_000),
    ];
    // Alternating, so that other load on the machine affects all of them.
    for round in 0..21 {
        for contender in &mut contenders {
            contender.round();
        }
        if round == 0 {
            contenders.iter_mut().for_each(|c| c.rounds.clear());
        }
    }
    let median = |c: &Contender| {
        let mut sorted = c.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let plain = median(&contenders[1]);
    for contender in &contenders {
        let rate = median(contender);
        println!(
            "  {:<46} {:>8.0} packets/s, {:>5.2} Gbit/s, {:.2} of HTB by hand",
            contender.name,
            rate,
            rate * 1442.0 * 8.0 / 1e9,
            rate / plain
        );
    }
}

/// Destinations of the comparison by number of classes.
const DESTINATIONS: u16 = 10_000;

/// Returns subscribers with the same destinations in all, in turn.
///
/// The number of classes is then the only difference: maps, routes and packets are the same.
fn shared_out(classes: u16) -> Vec<Subscriber> {
    let mut all: Vec<Subscriber> =
        numbers(classes).map(|class| Subscriber::new(class, [])).collect();
    for (i, destination) in numbers(DESTINATIONS).enumerate() {
        let [hi, lo] = destination.to_be_bytes();
        let at = i % all.len();
        all[at].prefixes.push(net(&format!("10.2.{hi}.{lo}/32")));
    }
    all
}

/// A data plane with a number of classes, and its measurements.
struct Row<P> {
    classes: u16,
    bench: Bench<P>,
    sender: UdpSocket,
    /// Times of installation and reload, ms.
    took: [f64; 2],
    /// Packets per second to all addresses and to one, by round.
    all: Vec<f64>,
    one: Vec<f64>,
}

impl<P: Plane> Row<P> {
    fn new(classes: u16) -> Self {
        let path = Contender::path();
        let layout = path.layout(shared_out(classes));
        let l = layout.clone();
        let inside = path.gateway.spawn(move || {
            let mut plane = P::begin();
            let start = Instant::now();
            let installed = plane.install(&l).expect("install");
            let between = Instant::now();
            plane.relayout(&l).expect("relayout");
            let took = [between - start, between.elapsed()].map(|t| t.as_secs_f64() * 1e3);
            // A limit that no packet reaches has its cost, too.
            let limit =
                |d| RateChange { rate: Some(BitRate(100_000_000_000)), ..change(0, d, None) };
            let changes: Vec<RateChange> = l
                .subscribers
                .iter()
                .flat_map(|s| Direction::BOTH.map(|d| (s.class, d)))
                .map(|(class, d)| RateChange { slot: Slot { class, direction: d }, ..limit(d) })
                .collect();
            plane.set_rates(&changes).expect("set_rates");
            (plane, installed, took)
        });
        let (plane, installed, took) = inside.join().expect("installation");
        let sender = path.wired.udp(HOST);
        let bench = Bench::of(path, Some(plane), layout, installed);
        Row { classes, bench, sender, took, all: Vec::new(), one: Vec::new() }
    }

    fn round(&mut self) {
        for destinations in [DESTINATIONS, 1] {
            self.bench.call(|_| ()); // keeps the rules in force
            let rate = send(&self.sender, destinations);
            if destinations == 1 { self.one.push(rate) } else { self.all.push(rate) }
        }
    }
}

/// Prints a table of packets per second over classes, and of the times to install them.
fn classes<P: Plane>(name: &str, rounds: usize) {
    let mut rows = [1, 100, 1000, 10_000].map(Row::<P>::new);
    // In alternation, so that other load on the machine affects all of them.
    for round in 0..=rounds {
        for row in &mut rows {
            row.round();
            if round == 0 {
                row.all.clear();
                row.one.clear();
            }
        }
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let over = |one: &[f64], n: &[f64]| median(one.iter().zip(n).map(|(one, n)| one / n).collect());
    println!(
        "| {name}: classes | packets/s to {DESTINATIONS} homes' addresses | time per packet over one class | packets/s to \
         one address | time per packet over one class | install, ms | reload, ms |"
    );
    println!("|---|---|---|---|---|---|---|");
    for row in &rows {
        println!(
            "| {} | {:.0} | {:.3} | {:.0} | {:.3} | {:.0} | {:.0} |",
            row.classes,
            median(row.all.clone()),
            over(&rows[0].all, &row.all),
            median(row.one.clone()),
            over(&rows[0].one, &row.one),
            row.took[0],
            row.took[1]
        );
    }
}

fn main() {
    if !root("dataplane") {
        return;
    }
    let part = std::env::args().nth(1);
    if part.as_deref() == Some("classes") {
        let rounds = std::env::args().nth(2).map_or(30, |n| n.parse().expect("a number of rounds"));
        classes::<HtbShaper>("HTB", rounds);
        if EdtShaper::works() {
            classes::<EdtShaper>("departure times", rounds);
        } else {
            println!("departure times: this kernel lacks fq or BPF");
        }
        return;
    }
    if part.as_deref() != Some("forwarding") {
        building(100);
        building(10_000);
    }
    if part.as_deref() != Some("building") {
        forwarding();
    }
}
