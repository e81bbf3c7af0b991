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
/// Part of a CPU's time on packets from which it counts as the bottleneck.
const BUSY_RATIO: f64 = 0.8;

/// Runs the checks that need only the names of the two interfaces.
pub(super) fn examine(mesh: &str, wired: &str) -> Vec<Finding> {
    let mut found: Vec<Finding> = [mesh, wired].into_iter().filter_map(bridge_port).collect();
    found.push(other_shapers(mesh, wired));
    found.extend(busy_cpu(wired));
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
fn busy_cpu(wired: &str) -> Option<Finding> {
    let sample = || fs::read_to_string("/proc/stat").ok();
    let before = sample()?;
    thread::sleep(CPU_SAMPLE);
    Some(cpu_finding(&packet_ratios(&before, &sample()?), wired))
}

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
}
