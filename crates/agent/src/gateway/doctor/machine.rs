//! Settings of this machine beside the gateway: bridges, other shapers, load of each CPU.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use fairmesh_linux::command;
use serde::Deserialize;

use super::{Finding, PROGRAM_TIMEOUT, Verdict};

/// Qdiscs that limit a rate.
const SHAPERS: [&str; 4] = ["cake", "hfsc", "htb", "tbf"];
/// Time between two samples of the CPUs' counters.
const CPU_SAMPLE: Duration = Duration::from_secs(1);
/// Least received packets in a sample for a verdict.
const MIN_PACKETS: u64 = 100;
/// Part of a CPU's time on packets from which it counts as the bottleneck.
const BUSY_RATIO: f64 = 0.8;

/// Runs the checks that need only the names of the two interfaces.
pub(super) fn examine(mesh: &str, wired: &str) -> Vec<Finding> {
    let mut found: Vec<Finding> = [mesh, wired].into_iter().filter_map(bridge_port).collect();
    found.push(other_shapers(mesh, wired));
    let before = Sample::read(mesh, wired);
    thread::sleep(CPU_SAMPLE);
    let after = Sample::read(mesh, wired);
    if let (Some(before), Some(after)) = (&before.cpus, &after.cpus) {
        found.push(cpu_finding(&packet_ratios(before, after), wired));
    }
    found.extend(queue_findings(&before, &after));
    found
}

/// Counters of the CPUs and of the two interfaces.
#[derive(Clone, Default, Debug)]
struct Sample {
    /// Text of `/proc/stat`.
    cpus: Option<String>,
    /// Text of `/proc/net/softnet_stat`.
    backlog: Option<String>,
    interfaces: Vec<Receiver>,
}

/// Reception of an interface.
#[derive(Clone, Default, Debug)]
struct Receiver {
    name: String,
    queues: usize,
    /// True if other CPUs may take packets from a queue (RPS).
    spread: bool,
    packets: u64,
    /// Packets lost because nothing took them from the card in time.
    missed: Option<u64>,
}

impl Sample {
    fn read(mesh: &str, wired: &str) -> Sample {
        Sample {
            cpus: fs::read_to_string("/proc/stat").ok(),
            backlog: fs::read_to_string("/proc/net/softnet_stat").ok(),
            interfaces: [mesh, wired].into_iter().filter_map(Receiver::read).collect(),
        }
    }
}

impl Receiver {
    fn read(name: &str) -> Option<Receiver> {
        let folder = Path::new("/sys/class/net").join(name);
        let number = |file: &str| {
            let text = fs::read_to_string(folder.join("statistics").join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let entries = fs::read_dir(folder.join("queues")).ok()?.flatten();
        let queues: Vec<_> = entries
            .filter(|e| e.file_name().to_string_lossy().starts_with("rx-"))
            .map(|e| fs::read_to_string(e.path().join("rps_cpus")).unwrap_or_default())
            .collect();
        let missed = number("rx_missed_errors").zip(number("rx_fifo_errors"));
        Some(Receiver {
            name: name.to_owned(),
            queues: queues.len(),
            spread: queues
                .iter()
                .any(|mask| mask.contains(|c: char| c.is_ascii_hexdigit() && c != '0')),
            packets: number("rx_packets")?,
            missed: missed.map(|(a, b)| a.saturating_add(b)),
        })
    }
}

/// Returns the packets that each CPU took and dropped, from `/proc/net/softnet_stat`.
fn taken(text: &str) -> Vec<[u64; 2]> {
    let number =
        |word: Option<&str>| u64::from_str_radix(word.unwrap_or_default(), 16).unwrap_or(0);
    let line = |l: &str| {
        let mut words = l.split_whitespace();
        [number(words.next()), number(words.next())]
    };
    text.lines().map(line).collect()
}

/// Checks that no packet is lost before it reaches the limits.
fn queue_findings(before: &Sample, after: &Sample) -> Vec<Finding> {
    let mut found = Vec::new();
    let of = |verdict, text| Finding { code: "queues", verdict, text };
    if let (Some(b), Some(a)) = (&before.backlog, &after.backlog) {
        let dropped = |(cpu, (b, a)): (usize, (&[u64; 2], &[u64; 2]))| {
            (a[1] > b[1]).then(|| format!("CPU {cpu} dropped {} packets", a[1] - b[1]))
        };
        let (b, a) = (taken(b), taken(a));
        let dropped: Vec<_> = b.iter().zip(&a).enumerate().filter_map(dropped).collect();
        if !dropped.is_empty() {
            let text = format!(
                "{} in {} s before any limit: its queue of received packets is full; raise net.core.netdev_max_backlog, \
                 or spread the reception by rps_cpus",
                dropped.join(", "),
                CPU_SAMPLE.as_secs()
            );
            found.push(of(Verdict::Suspicious, text));
        }
    }
    for now in &after.interfaces {
        let Some(then) = before.interfaces.iter().find(|r| r.name == now.name) else { continue };
        let Receiver { name, queues, spread, .. } = now;
        let place = format!(
            "{queues} receive queue{}, {}",
            if *queues == 1 { "" } else { "s" },
            if *spread { "spread by RPS" } else { "not spread by RPS" }
        );
        let packets = now.packets.saturating_sub(then.packets);
        let missed = now.missed.zip(then.missed).map(|(a, b)| a.saturating_sub(b));
        found.push(match missed {
            Some(missed) if missed > 0 => of(
                Verdict::Suspicious,
                format!(
                    "{name} lost {missed} of {} packets in {} s before any limit ({place}): its card or CPU is at its \
                     limit; run `ethtool -L {name} combined N` or set rps_cpus",
                    packets.saturating_add(missed),
                    CPU_SAMPLE.as_secs()
                ),
            ),
            Some(_) if packets >= MIN_PACKETS => of(
                Verdict::Fine,
                format!("{name} lost none of {packets} received packets ({place})"),
            ),
            Some(_) => of(
                Verdict::Unknown,
                format!("{name}: {packets} received packets are too few for a verdict on losses ({place})"),
            ),
            None => of(Verdict::Unknown, format!("{name} does not count lost packets ({place})")),
        });
    }
    found
}

/// Checks that an interface is not a port of a bridge.
fn bridge_port(name: &str) -> Option<Finding> {
    let link = fs::read_link(Path::new("/sys/class/net").join(name).join("brport/bridge")).ok()?;
    let bridge = link.file_name()?.to_string_lossy().into_owned();
    let text = format!(
        "{name} is a port of the bridge {bridge}: traffic of the bridge's other ports is not limited; name {bridge} \
         as the interface, or take {name} out of it"
    );
    Some(Finding { code: "bridge", verdict: Verdict::Suspicious, text })
}

/// A line of `tc -json qdisc show`.
#[derive(Deserialize)]
struct Qdisc {
    kind: String,
    dev: String,
    #[serde(default)]
    root: bool,
}

/// Checks for shapers on other interfaces, such as those of SQM.
///
/// `check` reports those on the two interfaces.
fn other_shapers(mesh: &str, wired: &str) -> Finding {
    let out = command::run("tc", &["-json", "qdisc", "show"], &[], PROGRAM_TIMEOUT);
    let all = out.ok().and_then(|out| serde_json::from_slice::<Vec<Qdisc>>(&out.stdout).ok());
    let Some(all) = all else {
        let text = "`tc -json qdisc show` fails: other shapers are not known".into();
        return Finding { code: "shaper", verdict: Verdict::Unknown, text };
    };
    let others: Vec<String> = all
        .iter()
        .filter(|q| q.root && q.dev != mesh && q.dev != wired)
        .filter(|q| SHAPERS.contains(&q.kind.as_str()))
        .map(|q| format!("{} on {}", q.kind, q.dev))
        .collect();
    if others.is_empty() {
        let text = "no other shaper on this machine".into();
        return Finding { code: "shaper", verdict: Verdict::Fine, text };
    }
    let text = format!(
        "{} also limits traffic: if its rate is below the limits' sum, packets of all homes wait there without \
         shares; remove it (`/etc/init.d/sqm stop` on OpenWrt) or raise its rate",
        others.join(", ")
    );
    Finding { code: "shaper", verdict: Verdict::Suspicious, text }
}

/// Checks that no CPU is occupied by packets while others are idle.
fn cpu_finding(ratios: &[f64], wired: &str) -> Finding {
    let percent = |ratio: f64| 100.0 * ratio;
    let (cpu, most) = ratios
        .iter()
        .enumerate()
        .fold((0, 0.0), |best, (cpu, &ratio)| if ratio > best.1 { (cpu, ratio) } else { best });
    let mut others = ratios.iter().enumerate().filter(|(other, _)| *other != cpu);
    let idle = others.any(|(_, &ratio)| ratio < BUSY_RATIO / 2.0);
    if most < BUSY_RATIO || !idle {
        let text = format!("packets occupy at most {:.0} % of a CPU", percent(most));
        return Finding { code: "cpu", verdict: Verdict::Fine, text };
    }
    let text = format!(
        "CPU {cpu} spends {:.0} % of its time on packets while others are idle: it bounds the throughput; spread the \
         reception with /sys/class/net/{wired}/queues/rx-*/rps_cpus",
        percent(most)
    );
    Finding { code: "cpu", verdict: Verdict::Suspicious, text }
}

/// Returns each CPU's part of time in soft interrupts, from two texts of /proc/stat.
fn packet_ratios(before: &str, after: &str) -> Vec<f64> {
    let cpus = |text: &str| -> Vec<[u64; 8]> {
        let is_cpu = |l: &&str| l.starts_with("cpu") && !l.starts_with("cpu ");
        let times = |l: &str| {
            let mut values = [0; 8];
            for (value, word) in values.iter_mut().zip(l.split_whitespace().skip(1)) {
                *value = word.parse().unwrap_or(0);
            }
            values
        };
        text.lines().filter(is_cpu).map(times).collect()
    };
    let (before, after) = (cpus(before), cpus(after));
    let ratio = |(b, a): (&[u64; 8], &[u64; 8])| {
        let passed = |i: usize| a[i].saturating_sub(b[i]) as f64;
        let all: f64 = (0..8).map(passed).sum();
        if all > 0.0 { passed(6) / all } else { 0.0 }
    };
    before.iter().zip(&after).map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lines of /proc/stat in the order of proc(5), with small numbers.
    const BEFORE: &str = "cpu  100 0 200 5000 0 0 70 30 0 0\n\
        cpu0 60 0 120 2400 0 0 60 20 0 0\ncpu1 40 0 80 2600 0 0 10 10 0 0\nintr 1 2\nctxt 9\n";

    #[test]
    fn the_time_on_packets_is_a_part_of_each_cpu_alone() {
        let after = "cpu  0\ncpu0 62 0 124 2404 0 0 150 20 0 0\ncpu1 40 0 80 2700 0 0 10 10 0 0\n";
        assert_eq!(packet_ratios(BEFORE, after), [0.9, 0.0]);
        // Counters that stood still or went back.
        assert_eq!(packet_ratios(BEFORE, BEFORE), [0.0, 0.0]);
        assert_eq!(packet_ratios(after, BEFORE)[0], 0.0);
        assert!(packet_ratios("", after).is_empty());
    }

    #[test]
    fn only_one_busy_cpu_beside_an_idle_one_is_reported() {
        let verdict = |ratios: &[f64]| cpu_finding(ratios, "wan").verdict;
        assert_eq!(verdict(&[0.1, 0.93]), Verdict::Suspicious);
        for fine in [&[0.93][..], &[0.93, 0.95], &[0.5, 0.1], &[]] {
            assert_eq!(verdict(fine), Verdict::Fine, "{fine:?}");
        }
        let text = cpu_finding(&[0.1, 0.93], "wan").text;
        assert!(text.starts_with("CPU 1 spends 93 %"), "{text}");
    }

    /// Texts of Linux 6.18, and the same with packets that a CPU dropped.
    #[test]
    fn packets_lost_before_the_limits_are_reported() {
        let backlog = "0042928b 00000000 00000006 00000000 00000000\n00514c63 00000000 00000008 00000000 00000000\n";
        assert_eq!(taken(backlog), [[0x0042_928b, 0], [0x0051_4c63, 0]]);
        assert_eq!(taken("x\n\n"), [[0, 0], [0, 0]]);
        let receiver = |packets, missed| Receiver {
            name: "wan".into(),
            queues: 1,
            spread: false,
            packets,
            missed,
        };
        let sample = |backlog: &str, packets, missed| Sample {
            cpus: None,
            backlog: Some(backlog.into()),
            interfaces: vec![receiver(packets, missed)],
        };
        let first = sample(backlog, 0, Some(7));
        let of = |after: &Sample| -> Vec<Verdict> {
            queue_findings(&first, after).into_iter().map(|f| f.verdict).collect()
        };
        assert_eq!(of(&sample(backlog, 99, Some(7))), [Verdict::Unknown], "too few");
        assert_eq!(of(&sample(backlog, 5000, Some(7))), [Verdict::Fine]);
        assert_eq!(of(&sample(backlog, 5000, None)), [Verdict::Unknown]);
        let lost = queue_findings(&first, &sample(backlog, 5000, Some(57)));
        assert_eq!(lost[0].verdict, Verdict::Suspicious);
        let text = "wan lost 50 of 5050 packets in 1 s before any limit (1 receive queue, not spread by RPS)";
        assert!(lost[0].text.starts_with(text), "{}", lost[0].text);
        let full = backlog.replace("00514c63 00000000", "00514c99 0000000a");
        let lost = queue_findings(&first, &sample(&full, 0, Some(7)));
        assert!(lost[0].text.starts_with("CPU 1 dropped 10 packets"), "{}", lost[0].text);
        assert_eq!(lost[0].verdict, Verdict::Suspicious);
    }
}
