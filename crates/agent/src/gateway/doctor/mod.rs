//! Search for causes of ineffective limits.

mod homes;
mod machine;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use fairmesh_linux::link::{self, Offloads, offloads, route};
use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::nl80211::{Nl80211, Radio};
use fairmesh_linux::{HtbShaper, InterfaceCounters, Shaper, Verification, command};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::AgentError;
use crate::gateway::config::{Config, Subscriber, UNMAPPED};
use crate::gateway::report::BoundReport;
use crate::gateway::{report, sources};
use crate::json;

/// Severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No problem.
    Fine,
    /// No verdict, for the reason in the text.
    Unknown,
    /// A possible problem.
    Suspicious,
    /// Limits do not work as configured.
    Wrong,
}

/// Result of one check.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Finding {
    /// Stable name of the check.
    pub code: &'static str,
    /// Severity.
    pub verdict: Verdict,
    /// Result and remedy.
    pub text: String,
}

/// Internal data of the daemon.
#[derive(Deserialize, Default)]
struct DaemonData {
    interfaces: Vec<InterfaceCounters>,
    verified: Vec<Verification>,
    #[serde(default)]
    bound: Option<BoundReport>,
}

/// Longest time of a program of the system.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(10);
/// Factor from which a rate of `[[neighbour]]` counts as far above the one in use.
const OVERSTATED_RATE_FACTOR: f64 = 2.0;
/// Documentation address (RFC 5737): its route is the default route.
const DEFAULT_ROUTE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Addresses of a subscriber's network that are tried.
const MAX_HOSTS: usize = 3;
/// Least bytes for a conclusion.
const MIN_BYTES: u64 = 100_000;

/// Runs all checks. `daemon_data`: the daemon's response, if one runs.
pub fn examine(config: &Config, daemon_data: Option<&Value>) -> Vec<Finding> {
    let mut found = Vec::new();
    let daemon_data: DaemonData =
        daemon_data.and_then(|v| serde_json::from_value(v.clone()).ok()).unwrap_or_default();
    offload(&mut found);
    found.extend(sides(config));
    let discovered = discovery(config, &mut found);
    found.extend(homes::examine(config, &discovered));
    nat(config, &mut found);
    found.extend(stations(config));
    if let Some(bound) = &daemon_data.bound {
        let contradicted = bound.carried_bits_per_second.is_some();
        let verdict = if contradicted { Verdict::Suspicious } else { Verdict::Fine };
        found.push(Finding { code: "neighbour", verdict, text: bound.text() });
    }
    for name in [config.layout.mesh.name(), config.layout.wired.name()] {
        found.push(match offloads(name) {
            Ok(on) => merging(name, on),
            Err(e) => Finding { code: "merging", verdict: Verdict::Unknown, text: e.to_string() },
        });
    }
    found.extend(machine::examine(config.layout.mesh.name(), config.layout.wired.name()));
    let shared = config.subscribers.iter().any(|s| s.name == UNMAPPED);
    for c in &daemon_data.interfaces {
        counters(c, shared, &mut found);
    }
    for v in &daemon_data.verified {
        let side = match v.direction {
            fairmesh_linux::Direction::Down => "downstream",
            fairmesh_linux::Direction::Up => "upstream",
        };
        let (verdict, text) = if v.holds {
            let how = v.classifier;
            (Verdict::Fine, format!("{side}: packets reach their classes (by {how})"))
        } else {
            (
                Verdict::Wrong,
                format!(
                    "{side}: of {} packets classified only {} reached their class: another \
                     program overwrites their priority",
                    v.classified, v.arrived
                ),
            )
        };
        found.push(Finding { code: "classifier", verdict, text });
    }
    found
}

/// Checks for flow tables; their traffic bypasses every queue.
fn offload(found: &mut Vec<Finding>) {
    let tables = HtbShaper::open().and_then(|mut p| p.probe()).map(|f| f.flowtables);
    found.push(match tables {
        Ok(t) if t.is_empty() => Finding {
            code: "offload",
            verdict: Verdict::Fine,
            text: "no flow table bypasses the queues".into(),
        },
        Ok(t) => Finding {
            code: "offload",
            verdict: Verdict::Wrong,
            text: format!(
                "flow tables {} let established connections bypass the queues: delete them, or \
                 remove the two interfaces from their devices",
                t.join(", ")
            ),
        },
        Err(e) => Finding {
            code: "offload",
            verdict: Verdict::Unknown,
            text: format!("flow tables cannot be read: {e}"),
        },
    });
}

/// Checks for merging of received packets: merged packets leave as one, even in a slow class.
fn merging(name: &str, on: Offloads) -> Finding {
    let which: Vec<&str> = [("GRO", on.gro), ("LRO", on.lro)]
        .into_iter()
        .filter_map(|(n, on)| on.then_some(n))
        .collect();
    let late: Vec<&str> = [("TSO", on.tso), ("GSO", on.gso)]
        .into_iter()
        .filter_map(|(n, on)| on.then_some(n))
        .collect();
    let (verdict, text) = if which.is_empty() && late.is_empty() {
        (Verdict::Fine, format!("{name} does not merge received packets"))
    } else if which.is_empty() {
        let text = format!(
            "{name} does not merge received packets; packets split by {} are counted with the headers of each part",
            late.join(" and ")
        );
        (Verdict::Fine, text)
    } else {
        let text = format!(
            "{name} merges received packets ({}) into packets of up to 64 KB: limits hold, but each \
             such packet occupies a class of 1 Mbit/s for half a second, and delays a raised limit \
             as long. For slow subscribers, run `ethtool -K {name} gro off lro off`",
            which.join(", ")
        );
        (Verdict::Suspicious, text)
    };
    Finding { code: "merging", verdict, text }
}

/// Checks that the default route is on the wired side and subscribers are on the mesh side.
pub(crate) fn sides(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let (mesh, wired) = (config.layout.mesh.name(), config.layout.wired.name());
    for name in [mesh, wired] {
        if let Err(e) = link::named(name) {
            let text = e.to_string();
            found.push(Finding { code: "interface", verdict: Verdict::Wrong, text });
        }
    }
    let Ok(mut netlink) = Netlink::open() else { return found };
    let mut route = |to: IpAddr| -> Option<String> {
        let index = route::towards(&mut netlink, to).ok()??;
        Some(link::by_index(&mut netlink, index, "").ok()?.name)
    };
    match route(DEFAULT_ROUTE_ADDRESS) {
        Some(dev) if dev == mesh => found.push(Finding {
            code: "direction",
            verdict: Verdict::Wrong,
            text: format!("the default route leads over {mesh}: mesh and wired are swapped, or NAT is elsewhere"),
        }),
        Some(dev) if dev != wired => found.push(Finding {
            code: "direction",
            verdict: Verdict::Suspicious,
            text: format!("the default route leads over {dev}, not over {wired}: upstream is not limited"),
        }),
        Some(_) => found.push(Finding {
            code: "direction",
            verdict: Verdict::Fine,
            text: format!("the default route leads over {wired}"),
        }),
        None => found.push(Finding {
            code: "direction",
            verdict: Verdict::Unknown,
            text: "there is no default route: the interface to the Internet cannot be checked".into(),
        }),
    }
    // The gateway has an address in a subscriber's network, often its first one; the route to it is not the route to
    // the subscriber.
    let first = config.subscribers.iter().find_map(|s| {
        let net = s.prefixes.first()?;
        let mut hosts = net.hosts().take(MAX_HOSTS);
        let there = hosts.find_map(|host| Some((host, route(host)?)));
        there.map(|(host, dev)| (s.name.clone(), host, dev))
    });
    if let Some((name, host, dev)) = first {
        found.push(if dev == mesh {
            let text = format!("\"{name}\" ({host}) is reached over {mesh}");
            Finding { code: "direction", verdict: Verdict::Fine, text }
        } else {
            let text = format!(
                "\"{name}\" ({host}) is reached over {dev}, not over {mesh}: its downstream is not limited"
            );
            Finding { code: "direction", verdict: Verdict::Wrong, text }
        });
    }
    found
}

/// Compares rates of `[[neighbour]]` with the driver's rates to the fastest stations.
///
/// Returns `None` if the mesh interface is not Wi-Fi.
fn stations(config: &Config) -> Option<Finding> {
    let stations = Nl80211::open(config.layout.mesh.name()).ok()?.stations().ok()?;
    let mut sends: Vec<u64> = stations.iter().filter_map(|s| Some(s.tx_rate?.0)).collect();
    let named: Vec<u64> = config.neighbours.iter().map(|n| n.rate.0).collect();
    sends.sort_unstable_by(|a, b| b.cmp(a));
    sends.truncate(named.len());
    overstated(&named, &sends).map(|text| Finding {
        code: "neighbour",
        verdict: Verdict::Suspicious,
        text,
    })
}

/// Compares configured rates with rates in use, in bit/s.
///
/// Returns `None` if they agree within a factor of [`OVERSTATED_RATE_FACTOR`], or if there is nothing to compare.
fn overstated(named: &[u64], sends: &[u64]) -> Option<String> {
    let mean = |rates: &[u64]| {
        let inverse: f64 = rates.iter().map(|r| 1.0 / *r as f64).sum();
        (!rates.is_empty()).then(|| rates.len() as f64 / inverse)
    };
    let (named, sends) = (mean(named)?, mean(sends)?);
    (named > OVERSTATED_RATE_FACTOR * sends).then(|| {
        format!(
            "the rates of [[neighbour]] (mean {}) are far above those at which the driver sends (mean {}): the \
             control shares more than the links carry; lower `rate`",
            report::short(Some(named as u64)),
            report::short(Some(sends as u64))
        )
    })
}

/// Checks the sources of subscribers, and returns their homes.
///
/// If none responds, the whole mesh is one class.
fn discovery(config: &Config, found: &mut Vec<Finding>) -> Vec<Subscriber> {
    let Some(discover) = &config.discover else { return Vec::new() };
    let discovery = sources::fetch(discover, config.layout.mesh.name());
    for s in discovery.sources {
        let (verdict, text) = match (&s.failed, s.subscribers) {
            (Some(e), _) => {
                let text = format!(
                    "{}: {e}: it provides no subscribers, and traffic of unknown subscribers shares one class",
                    s.name
                );
                (Verdict::Wrong, text)
            }
            (None, 0) => (Verdict::Wrong, format!("{}: {}", s.name, s.counts())),
            (None, _) if s.omitted.iter().any(|(why, _)| why.suspicious()) => {
                (Verdict::Suspicious, format!("{}: {}", s.name, s.counts()))
            }
            (None, _) => (Verdict::Fine, format!("{}: {}", s.name, s.counts())),
        };
        found.push(Finding { code: "source", verdict, text });
    }
    discovery.found
}

/// Checks for address translation on the mesh side, which hides subscribers.
fn nat(config: &Config, found: &mut Vec<Finding>) {
    let out = command::run("nft", &["list", "ruleset"], &[], PROGRAM_TIMEOUT);
    let Some(out) = out.ok().filter(|out| out.status.success()) else {
        let text = "`nft list ruleset` fails: address translation cannot be checked".into();
        return found.push(Finding { code: "nat", verdict: Verdict::Unknown, text });
    };
    let rules = String::from_utf8_lossy(&out.stdout).into_owned();
    let mesh = config.layout.mesh.name();
    let translates =
        |l: &&str| l.contains("masquerade") || l.contains("snat ") || l.contains("snat to");
    let hidden: Vec<&str> = rules
        .lines()
        .map(str::trim)
        .filter(translates)
        .filter(|l| {
            l.contains(&format!("oifname \"{mesh}\"")) || l.contains(&format!("oif \"{mesh}\""))
        })
        .collect();
    found.push(match hidden.first() {
        Some(rule) => Finding {
            code: "nat",
            verdict: Verdict::Wrong,
            text: format!(
                "\"{rule}\" translates addresses towards the mesh: subscribers cannot be distinguished"
            ),
        },
        None => Finding {
            code: "nat",
            verdict: Verdict::Fine,
            text: "no rule of nft translates addresses towards the mesh".into(),
        },
    });
}

/// Compares the counters of classes with those of their interface.
fn counters(c: &InterfaceCounters, shared: bool, found: &mut Vec<Finding>) {
    let name = &c.name;
    if !c.up {
        let text = format!("{name} is down: no traffic");
        found.push(Finding { code: "interface", verdict: Verdict::Wrong, text });
    }
    let percent = |part: u64, all: u64| part as f64 * 100.0 / all.max(1) as f64;
    let seen = c.subscriber_bytes + c.unmapped_bytes + c.bypass_bytes;
    if c.shaped_bytes > MIN_BYTES && percent(seen, c.shaped_bytes) < 90.0 {
        let text =
            format!("{name}: classes count only {seen} of {} transmitted bytes", c.shaped_bytes);
        found.push(Finding { code: "counters", verdict: Verdict::Suspicious, text });
    }
    if c.tx_bytes > MIN_BYTES && c.shaped_bytes == 0 {
        let text = format!(
            "{name} sends, but not through the queue of fairmesh: another queue replaces it, or traffic is offloaded"
        );
        found.push(Finding { code: "counters", verdict: Verdict::Wrong, text });
    }
    let part = percent(c.unmapped_bytes, c.shaped_bytes);
    if c.shaped_bytes <= MIN_BYTES {
        let text = format!(
            "{name}: {} bytes so far, too few for a verdict on unmapped traffic",
            c.shaped_bytes
        );
        found.push(Finding { code: "unmapped", verdict: Verdict::Unknown, text });
    } else if part > 5.0 {
        let six = match c.unmapped_ipv6_packets {
            0 => String::new(),
            n => format!("; {n} of its packets are IPv6: add the IPv6 prefixes of subscribers"),
        };
        let how = if shared { "shares one class" } else { "is not limited" };
        let text =
            format!("{name}: {part:.0} % of the traffic belongs to no subscriber and {how}{six}");
        found.push(Finding { code: "unmapped", verdict: Verdict::Suspicious, text });
    } else {
        let text = format!("{name}: {part:.1} % of the traffic belongs to no subscriber");
        found.push(Finding { code: "unmapped", verdict: Verdict::Fine, text });
    }
}

/// Prints the findings; a wrong one is a failed check.
///
/// # Errors
/// [`AgentError::Ineffective`] if a finding is wrong.
pub fn print(
    found: &[Finding],
    daemon: bool,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), AgentError> {
    let wrong = found.iter().filter(|f| f.verdict == Verdict::Wrong).count();
    if as_json {
        let all = serde_json::json!({
            "schema": report::SCHEMA, "daemon": daemon, "ok": wrong == 0, "findings": found,
        });
        json::print(out, &all)?;
    } else {
        for f in found {
            let word = match f.verdict {
                Verdict::Fine => "fine",
                Verdict::Unknown => "?",
                Verdict::Suspicious => "LOOK",
                Verdict::Wrong => "WRONG",
            };
            writeln!(out, "{word:5} {}: {}", f.code, f.text)?;
        }
        if !daemon {
            writeln!(out, "The daemon is not running, so counters were not compared.")?;
        }
    }
    match wrong {
        0 => Ok(()),
        n => Err(AgentError::Ineffective(n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_of_received_packets_is_suspicious() {
        let off = Offloads { gro: false, lro: false, tso: true, gso: true };
        assert_eq!(merging("eth0", off).verdict, Verdict::Fine);
        let found = merging("eth0", Offloads { gro: true, ..off });
        assert_eq!(found.verdict, Verdict::Suspicious);
        assert!(found.text.contains("(GRO)") && found.text.contains("ethtool -K eth0"));
    }

    #[test]
    fn unmapped_traffic_is_reported_with_and_without_a_share() {
        let counters_of = |up: bool, unmapped: u64| InterfaceCounters {
            name: "mesh0".into(),
            index: 3,
            up,
            tx_bytes: 1_000_000,
            tx_packets: 1000,
            tx_dropped: 0,
            rx_bytes: 0,
            rx_packets: 0,
            shaped_bytes: 1_000_000,
            shaped_packets: 1000,
            shaped_drops: 0,
            subscriber_bytes: 1_000_000 - unmapped,
            subscriber_packets: 0,
            unmapped_bytes: unmapped,
            unmapped_packets: 0,
            bypass_bytes: 0,
            bypass_packets: 0,
            classified_packets: 0,
            unmapped_ipv6_packets: 0,
        };
        let of = |up, unmapped, shared| {
            let mut found = Vec::new();
            counters(&counters_of(up, unmapped), shared, &mut found);
            found.iter().map(|f| (f.verdict, f.text.clone())).collect::<Vec<_>>()
        };
        let text = "mesh0: 60 % of the traffic belongs to no subscriber and shares one class";
        assert_eq!(of(true, 600_000, true), [(Verdict::Suspicious, text.to_owned())]);
        assert!(of(true, 600_000, false)[0].1.ends_with("is not limited"));
        assert_eq!(of(true, 1000, true)[0].0, Verdict::Fine);
        assert_eq!(of(false, 0, true)[0].0, Verdict::Wrong);
    }

    #[test]
    fn rates_of_neighbours_far_above_those_in_use() {
        let text = overstated(&[54_000_000, 54_000_000], &[12_000_000, 6_000_000]).unwrap();
        assert!(
            text.contains("(mean 54.0 Mbit/s)") && text.contains("(mean 8.00 Mbit/s)"),
            "{text}"
        );
        assert_eq!(overstated(&[54_000_000], &[36_000_000]), None);
        assert_eq!(overstated(&[54_000_000], &[]), None, "no station");
    }

    /// A source that does not respond is wrong, not a note.
    #[test]
    fn a_dead_source_fails_the_examination() {
        let text = "[mesh]\ninterface = \"mesh0\"\n[wired]\ninterface = \"wan0\"\n[control]\nuse = \"fifo\"\n\
                    [discover]\nbabel = \"/nonexistent/babel.sock\"\n";
        let config = Config::parse("gateway.toml", text).unwrap();
        let mut found = Vec::new();
        discovery(&config, &mut found);
        assert_eq!((found.len(), found[0].code, found[0].verdict), (1, "source", Verdict::Wrong));
        assert!(found[0].text.starts_with("babel /nonexistent/babel.sock: "), "{}", found[0].text);
        let checked = crate::gateway::preflight::discovery(&config);
        assert!(checked.len() == 1 && !checked[0].ok && !checked[0].stops);
    }
}
