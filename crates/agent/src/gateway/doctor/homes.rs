//! Traffic and addresses that hide homes: tunnels, and Ethernet addresses that change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;

use fairmesh_linux::{IpNet, MacAddr, command};
use serde::Deserialize;

use super::{Finding, PROGRAM_TIMEOUT, Verdict};
use crate::daemon::store::Store;
use crate::gateway::config::{Config, Subscriber, is_shown};
use crate::gateway::kept::SavedState;
use crate::gateway::sources::excerpt;

/// Table of connections of the kernel.
const CONNECTIONS: &str = "/proc/net/nf_conntrack";
/// Accounting of bytes in this table.
const ACCOUNTING: &str = "/proc/sys/net/netfilter/nf_conntrack_acct";
/// Files of dnsmasq's leases on OpenWrt and Debian.
const LEASE_FILES: [&str; 2] = ["/tmp/dhcp.leases", "/var/lib/misc/dnsmasq.leases"];
/// Part of a home's bytes from which one flow counts as a tunnel.
const TUNNEL_RATIO: f64 = 0.8;
/// Part from which a UDP flow without a tunnel's port counts as one.
const ALONE_RATIO: f64 = 0.95;
/// Most other flows of a home behind such a tunnel; a home that plays or calls has more.
const MOST_OTHERS: usize = 8;
/// Least mean size of its packets in the busier direction, bytes: more than in games.
const LARGE_PACKET: u64 = 700;
/// Part of its bytes that each direction has at least: acknowledgements of a download.
const BOTH_WAYS: u64 = 100;
/// Least age of such a flow, in s, if the kernel shows it.
const LONG_FLOW_AGE: u64 = 600;
/// Least bytes of a home for a verdict.
const MIN_HOME_BYTES: u64 = 10_000_000;
/// Ports on which one UDP flow is ordinary: QUIC and DNS.
const ORDINARY_PORTS: [u16; 3] = [53, 80, 443];
/// Kinds of interfaces that carry packets inside packets.
const TUNNEL_KINDS: [&str; 12] = [
    "fou",
    "gre",
    "gretap",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "ipip",
    "l2tp",
    "sit",
    "vti",
    "vxlan",
    "wireguard",
];
/// Most names in a finding.
const MAX_NAMES: usize = 3;
/// Absent random addresses from which addresses count as changing.
const MIN_ABSENT: usize = 3;

/// Runs the checks. `discovered`: the homes of the sources.
pub(super) fn examine(config: &Config, discovered: &[Subscriber]) -> Vec<Finding> {
    let all = config.subscribers.iter().chain(discovered);
    let mut homes: Vec<(String, Vec<IpNet>)> =
        all.map(|s| (s.name.clone(), s.prefixes.clone())).collect();
    homes.retain(|(_, nets)| !nets.is_empty());
    vec![tunnels(&homes), tunnel_interfaces(&homes), random_addresses(config)]
}

/// Returns names of homes for a message.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    let mut text = all.iter().take(MAX_NAMES).map(|n| excerpt(n)).collect::<Vec<_>>().join(", ");
    if all.len() > MAX_NAMES {
        text += &format!(" and {} more", all.len() - MAX_NAMES);
    }
    text
}

/// A connection of the kernel's table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Flow {
    protocol: u8,
    ends: [IpAddr; 2],
    ports: Option<[u16; 2]>,
    /// Bytes of both directions; `None`: the kernel does not count them.
    bytes: Option<u64>,
    /// Packets and bytes of each direction, as far as counted.
    ways: Vec<(u64, u64)>,
    /// Age in seconds, with `net.netfilter.nf_conntrack_timestamp`.
    age: Option<u64>,
}

/// A kind of tunnel; `sure`: its protocol or port is that of one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Tunnel {
    kind: String,
    sure: bool,
}

impl Flow {
    /// Reads a line of `/proc/net/nf_conntrack`.
    fn read(line: &str) -> Option<Flow> {
        let protocol = line.split_whitespace().nth(3)?.parse().ok()?;
        let values = |key: &'static str| {
            line.split_whitespace().filter_map(move |w| w.strip_prefix(key)?.strip_prefix('='))
        };
        let end = |key| values(key).next()?.parse().ok();
        let port = |key| values(key).next()?.parse().ok();
        let bytes: Vec<u64> = values("bytes").filter_map(|b| b.parse().ok()).collect();
        let packets = values("packets").filter_map(|p| p.parse().ok());
        let ways = packets.zip(bytes.iter().copied()).collect();
        let age = values("delta-time").next().and_then(|age| age.parse().ok());
        let ports = port("sport").zip(port("dport")).map(|(a, b)| [a, b]);
        let bytes =
            (!bytes.is_empty()).then(|| bytes.iter().fold(0u64, |a, b| a.saturating_add(*b)));
        Some(Flow { protocol, ends: [end("src")?, end("dst")?], ports, bytes, ways, age })
    }

    /// Returns the kind of tunnel that it may be; `None` for other flows.
    fn tunnel(&self) -> Option<Tunnel> {
        let mut sure = true;
        let kind = match (self.protocol, self.ports) {
            (4 | 41, _) => "IP in IP".to_owned(),
            (47, _) => "GRE".to_owned(),
            (50, _) => "ESP".to_owned(),
            (17, Some(ports)) if !ports.iter().any(|p| ORDINARY_PORTS.contains(p)) => {
                match ports.iter().find(|p| matches!(p, 500 | 1194 | 1701 | 4500 | 4789 | 51_820)) {
                    Some(500 | 4500) => "IPsec".to_owned(),
                    Some(1194) => "OpenVPN's port".to_owned(),
                    Some(1701) => "L2TP".to_owned(),
                    Some(4789) => "VXLAN".to_owned(),
                    Some(_) => "WireGuard's port".to_owned(),
                    None if self.is_like_a_tunnel() => {
                        sure = false;
                        format!("UDP port {}", ports[0].min(ports[1]))
                    }
                    None => return None,
                }
            }
            _ => return None,
        };
        Some(Tunnel { kind, sure })
    }

    /// True if it is long, has large packets, and bytes in both directions.
    fn is_like_a_tunnel(&self) -> bool {
        let [there, back] = self.ways[..] else { return false };
        let (busy, other) = if there.1 >= back.1 { (there, back) } else { (back, there) };
        self.age.is_none_or(|age| age >= LONG_FLOW_AGE)
            && busy.1 >= LARGE_PACKET.saturating_mul(busy.0.max(1))
            && other.1.saturating_mul(BOTH_WAYS) >= busy.1
    }
}

/// Flows of a home.
#[derive(Default, Debug)]
struct HomeFlows {
    bytes: u64,
    flows: usize,
    /// The largest one that may be a tunnel, with its bytes.
    tunnel: (u64, Tunnel),
}

impl HomeFlows {
    fn ratio(&self) -> f64 {
        self.tunnel.0 as f64 / self.bytes.max(1) as f64
    }

    /// True if one flow hides what is behind it.
    fn is_hidden(&self) -> bool {
        let alone = self.ratio() >= ALONE_RATIO && self.flows <= MOST_OTHERS + 1;
        if self.tunnel.1.sure { self.ratio() >= TUNNEL_RATIO } else { alone }
    }
}

/// Checks for homes with most of their bytes in one flow of a tunnel.
fn tunnels(homes: &[(String, Vec<IpNet>)]) -> Finding {
    match fs::read_to_string(CONNECTIONS) {
        Err(e) => {
            let text = format!(
                "{CONNECTIONS}: {e}: flows of homes are unknown, so a VPN that hides homes is not found"
            );
            Finding { code: "vpn", verdict: Verdict::Unknown, text }
        }
        Ok(text) => {
            let counted = fs::read_to_string(ACCOUNTING).is_ok_and(|on| on.trim() == "1");
            tunnels_in(homes, &text, counted)
        }
    }
}

fn tunnels_in(homes: &[(String, Vec<IpNet>)], text: &str, counted: bool) -> Finding {
    let finding = |verdict, text: String| Finding { code: "vpn", verdict, text };
    if homes.is_empty() {
        let text = "no home has a prefix: its flows cannot be found".into();
        return finding(Verdict::Unknown, text);
    }
    if !counted {
        let text = "the kernel does not count the bytes of flows: run `sysctl -w net.netfilter.nf_conntrack_acct=1`, \
                    and doctor again after some minutes";
        return finding(Verdict::Unknown, text.into());
    }
    let mut sums: BTreeMap<usize, HomeFlows> = BTreeMap::new();
    for flow in text.lines().filter_map(Flow::read) {
        let of = |net: &IpNet| flow.ends.iter().any(|end| net.contains(end));
        let most = homes.iter().enumerate().flat_map(|(i, (_, nets))| {
            nets.iter().filter(|net| of(net)).map(move |net| (net.prefix_len(), i))
        });
        let Some((_, home)) = most.max() else { continue };
        let bytes = flow.bytes.unwrap_or(0);
        let sum = sums.entry(home).or_default();
        (sum.bytes, sum.flows) = (sum.bytes.saturating_add(bytes), sum.flows + 1);
        if let Some(tunnel) = flow.tunnel().filter(|_| bytes > sum.tunnel.0) {
            sum.tunnel = (bytes, tunnel);
        }
    }
    let known: Vec<_> = sums.iter().filter(|(_, s)| s.bytes >= MIN_HOME_BYTES).collect();
    if known.is_empty() {
        let text = format!(
            "no home has {} MB in open flows: too little for a verdict on VPNs",
            MIN_HOME_BYTES / 1_000_000
        );
        return finding(Verdict::Unknown, text);
    }
    let hidden: Vec<String> = known
        .iter()
        .filter(|(_, s)| s.is_hidden())
        .map(|(i, s)| {
            let Tunnel { kind, sure } = &s.tunnel.1;
            let only = if *sure {
                String::new()
            } else {
                format!(", large packets both ways beside {} other flows", s.flows - 1)
            };
            let (part, sum) = (100.0 * s.ratio(), s.bytes / 1_000_000);
            format!("{} ({part:.0} % of {sum} MB, {kind}{only})", homes[**i].0)
        })
        .collect();
    if hidden.is_empty() {
        let text = format!(
            "none of {} homes with traffic has {:.0} % of its bytes in one flow of a tunnel; one that looks like games, \
             voice or QUIC would not be seen",
            known.len(),
            100.0 * TUNNEL_RATIO
        );
        return finding(Verdict::Fine, text);
    }
    let text = format!(
        "one flow carries most bytes of {}: if it is a VPN with several homes behind it, they share one class; end the \
         tunnel at this gateway, or name the homes inside it",
        names(hidden.iter().map(String::as_str))
    );
    finding(Verdict::Suspicious, text)
}

/// An interface of `ip -details -json link show`.
#[derive(Deserialize)]
struct LinkEntry {
    ifname: String,
    #[serde(default)]
    linkinfo: LinkInfo,
}

#[derive(Deserialize, Default)]
struct LinkInfo {
    #[serde(default)]
    info_kind: String,
    #[serde(default)]
    info_data: serde_json::Value,
}

/// Checks for tunnels of this machine that end at an address of a home.
fn tunnel_interfaces(homes: &[(String, Vec<IpNet>)]) -> Finding {
    let run = |words: &[&str]| {
        let out = command::run(words[0], &words[1..], &[], PROGRAM_TIMEOUT).ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let Some(links) = run(&["ip", "-details", "-json", "link", "show"]) else {
        let text = "`ip -details -json link show` fails: tunnels of this machine cannot be checked";
        return Finding { code: "tunnel", verdict: Verdict::Unknown, text: text.into() };
    };
    tunnel_interfaces_in(homes, &links, &|name| run(&["wg", "show", name, "endpoints"]))
}

fn tunnel_interfaces_in(
    homes: &[(String, Vec<IpNet>)],
    links: &str,
    endpoints: &dyn Fn(&str) -> Option<String>,
) -> Finding {
    let finding = |verdict, text: String| Finding { code: "tunnel", verdict, text };
    let Ok(links) = serde_json::from_str::<Vec<LinkEntry>>(links) else {
        let text = "`ip -details -json link show` gives no list: tunnels are not known";
        return finding(Verdict::Unknown, text.into());
    };
    let tunnels = links.iter().filter(|l| TUNNEL_KINDS.contains(&l.linkinfo.info_kind.as_str()));
    let (mut inside, mut unread, mut all) = (Vec::new(), Vec::new(), 0);
    for link in tunnels {
        all += 1;
        let remotes: Vec<IpAddr> = if link.linkinfo.info_kind == "wireguard" {
            let Some(text) = endpoints(&link.ifname) else {
                unread.push(link.ifname.as_str());
                continue;
            };
            let address = |line: &str| {
                let socket: std::net::SocketAddr = line.split_whitespace().nth(1)?.parse().ok()?;
                Some(socket.ip())
            };
            text.lines().filter_map(address).collect()
        } else {
            let data = &link.linkinfo.info_data;
            let remote =
                ["remote", "remote6"].into_iter().filter_map(|key| data.get(key)?.as_str());
            remote.filter_map(|a| a.parse().ok()).filter(|a: &IpAddr| !a.is_unspecified()).collect()
        };
        for remote in remotes {
            let home = homes.iter().find(|(_, nets)| nets.iter().any(|net| net.contains(&remote)));
            if let Some((name, _)) = home {
                let shown: String = link.ifname.chars().filter(|c| is_shown(*c)).collect();
                inside.push(format!("{shown} ends at {remote} of \"{}\"", excerpt(name)));
            }
        }
    }
    if !inside.is_empty() {
        let text = format!(
            "{}: homes behind this tunnel leave the gateway as packets of one home; set the tunnel's interface as \
             mesh.interface, or limit at its other end",
            names(inside.iter().map(String::as_str))
        );
        return finding(Verdict::Suspicious, text);
    }
    if !unread.is_empty() {
        let text = format!(
            "the other ends of {} are not known: `wg show` fails",
            names(unread.iter().copied())
        );
        return finding(Verdict::Unknown, text);
    }
    let text = format!("no tunnel of this machine ends at an address of a home ({all} tunnels)");
    finding(Verdict::Fine, text)
}

/// Returns true for an address that a device may have invented.
const fn is_local(mac: MacAddr) -> bool {
    mac.0[0] & 3 == 2
}

/// Evidence on Ethernet addresses.
#[derive(Clone, Default, Debug)]
struct Addresses {
    /// Addresses in the neighbour table of the mesh interface; `None`: it cannot be read.
    present: Option<BTreeSet<MacAddr>>,
    /// Leases: address and name of the host.
    leases: Vec<(MacAddr, String)>,
    /// Addresses that were homes, by their class numbers.
    former: BTreeSet<MacAddr>,
    /// Addresses in the configuration: home and address.
    configured: Vec<(String, MacAddr)>,
}

/// Reads leases of dnsmasq: time, Ethernet address, IP address, name, client.
fn leases(text: &str) -> Vec<(MacAddr, String)> {
    let lease = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.get(1)?.parse().ok()?, (*words.get(3)?).to_owned()))
    };
    text.lines().filter_map(lease).filter(|(_, name)| name != "*").collect()
}

/// Reads the addresses of `ip -json neigh show`; `None` if it is not a list.
fn neighbours(text: &str) -> Option<BTreeSet<MacAddr>> {
    #[derive(Deserialize)]
    struct Entry {
        lladdr: Option<String>,
    }
    let text = if text.trim().is_empty() { "[]" } else { text };
    let all: Vec<Entry> = serde_json::from_str(text).ok()?;
    Some(all.into_iter().filter_map(|e| e.lladdr?.parse().ok()).collect())
}

/// Checks for homes that are known by Ethernet addresses which change.
fn random_addresses(config: &Config) -> Finding {
    let configured: Vec<(String, MacAddr)> = config
        .subscribers
        .iter()
        .flat_map(|s| s.macs.iter().map(|mac| (s.name.clone(), *mac)))
        .collect();
    let by_tables = config.discover.as_ref().is_some_and(|d| d.neighbours || d.mesh_paths);
    if configured.is_empty() && !by_tables {
        let text = "homes are known by prefixes or by the routing daemon, not by Ethernet addresses of devices";
        return Finding { code: "random-mac", verdict: Verdict::Fine, text: text.into() };
    }
    let words = ["-json", "neigh", "show", "dev", config.layout.mesh.name()];
    let table = command::run("ip", &words, &[], PROGRAM_TIMEOUT).ok();
    let table = table.filter(|out| out.status.success());
    let texts = LEASE_FILES.iter().filter_map(|file| fs::read_to_string(file).ok());
    let kept = SavedState::load(&mut Store::new(&config.state)).unwrap_or_default();
    random_finding(&Addresses {
        present: table.and_then(|out| neighbours(&String::from_utf8_lossy(&out.stdout))),
        leases: texts.flat_map(|text| leases(&text)).collect(),
        former: kept.classes.keys().filter_map(|name| name.parse().ok()).collect(),
        configured,
    })
}

fn random_finding(a: &Addresses) -> Finding {
    let finding = |verdict, text: String| Finding { code: "random-mac", verdict, text };
    let remedy =
        "such a home loses its plan and class with each new address: identify homes by prefixes";
    let mut hosts: BTreeMap<&str, BTreeSet<MacAddr>> = BTreeMap::new();
    for (mac, name) in a.leases.iter().filter(|(mac, _)| is_local(*mac)) {
        hosts.entry(name).or_default().insert(*mac);
    }
    let changing: Vec<&str> = hosts.iter().filter(|(_, m)| m.len() > 1).map(|(n, _)| *n).collect();
    if !changing.is_empty() {
        let text = format!(
            "the leases have several random Ethernet addresses of the same host: {}; {remedy}",
            names(changing.into_iter())
        );
        return finding(Verdict::Suspicious, text);
    }
    let Some(present) = &a.present else {
        let text = "the neighbour table cannot be read: Ethernet addresses are not known";
        return finding(Verdict::Unknown, text.into());
    };
    let absent = |mac: &&MacAddr| is_local(**mac) && !present.contains(*mac);
    let gone = a.former.iter().filter(absent).count();
    let local = present.iter().filter(|mac| is_local(**mac)).count();
    if gone >= MIN_ABSENT && gone > local {
        let text = format!(
            "{gone} random Ethernet addresses were homes and are absent, {local} are present: devices change their \
             addresses; {remedy}"
        );
        return finding(Verdict::Suspicious, text);
    }
    let lost: Vec<&str> = a
        .configured
        .iter()
        .filter(|(_, mac)| is_local(*mac) && !present.contains(mac))
        .map(|(name, _)| name.as_str())
        .collect();
    if !lost.is_empty() {
        let text = format!(
            "configured random Ethernet addresses are not in the neighbour table: {}; if the device has a new one, its \
             home is unknown",
            names(lost.into_iter())
        );
        return finding(Verdict::Suspicious, text);
    }
    let all = present.len();
    match local {
        _ if all == 0 => finding(Verdict::Unknown, "the neighbour table is empty".into()),
        0 => finding(Verdict::Fine, format!("none of {all} Ethernet addresses is random")),
        _ if a.leases.is_empty() && a.former.is_empty() => finding(
            Verdict::Unknown,
            format!(
                "{local} of {all} Ethernet addresses may be random; no lease and no former home shows that they change"
            ),
        ),
        _ => finding(
            Verdict::Fine,
            format!("{local} of {all} Ethernet addresses may be random; none of them has changed"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18: UDP to WireGuard's port, TCP, ESP and GRE between two namespaces.
    const TABLE: &str = "\
ipv4     2 gre      47 29 timeout=30, stream_timeout=180 src=10.50.0.1 dst=10.50.0.2 srckey=0x0 dstkey=0x0 packets=3 bytes=3072 [UNREPLIED] src=10.50.0.2 dst=10.50.0.1 srckey=0x0 dstkey=0x0 packets=0 bytes=0 mark=0 zone=0 use=2
ipv4     2 tcp      6 119 TIME_WAIT src=10.50.0.1 dst=10.50.0.2 sport=36642 dport=80 packets=8 bytes=50424 src=10.50.0.2 dst=10.50.0.1 sport=80 dport=36642 packets=7 bytes=372 [ASSURED] mark=0 zone=0 use=2
ipv4     2 udp      17 29 src=10.50.0.1 dst=10.50.0.2 sport=56477 dport=51820 packets=50 bytes=71400 src=10.50.0.2 dst=10.50.0.1 sport=51820 dport=56477 packets=50 bytes=71400 mark=0 zone=0 use=2
ipv4     2 unknown  50 599 src=10.50.0.1 dst=10.50.0.2 packets=3 bytes=3060 [UNREPLIED] src=10.50.0.2 dst=10.50.0.1 packets=0 bytes=0 mark=0 zone=0 use=2
";

    fn homes() -> Vec<(String, Vec<IpNet>)> {
        vec![
            ("mill".into(), vec!["10.50.0.0/24".parse().unwrap()]),
            ("other".into(), vec!["10.51.0.0/24".parse().unwrap()]),
        ]
    }

    #[test]
    fn a_connection_has_protocol_ends_ports_and_bytes() {
        let flows: Vec<Flow> = TABLE.lines().filter_map(Flow::read).collect();
        let bytes: Vec<_> = flows.iter().map(|f| f.bytes.unwrap()).collect();
        assert_eq!(bytes, [3072, 50_796, 142_800, 3060]);
        let kinds: Vec<_> = flows.iter().map(Flow::tunnel).collect();
        let kind = |text: &str| Some(Tunnel { kind: text.to_owned(), sure: true });
        assert_eq!(kinds, [kind("GRE"), None, kind("WireGuard's port"), kind("ESP")]);
        // As Linux writes it without accounting.
        let flow = Flow::read(&TABLE.lines().nth(2).unwrap().replace("bytes=71400", "")).unwrap();
        assert_eq!(flow.bytes, None);
        for line in ["", "ipv4 2 udp", "ipv4 2 udp x 1 src=1 dst=2", "a b c 17 src=10.0.0.1 dst=x"]
        {
            assert_eq!(Flow::read(line), None, "{line}");
        }
    }

    #[test]
    fn a_tunnel_is_reported_with_its_part_of_the_bytes() {
        let verdict = |text: &str, counted| {
            let found = tunnels_in(&homes(), text, counted);
            (found.verdict, found.text)
        };
        // The captured table has too few bytes; a thousand times as many are enough.
        assert_eq!(verdict(TABLE, true).0, Verdict::Unknown);
        let much = TABLE.replace("bytes=71400", "bytes=71400000");
        assert_eq!(verdict(&much, false).0, Verdict::Unknown, "not counted");
        let (found, text) = verdict(&much, true);
        assert_eq!(found, Verdict::Suspicious);
        assert!(text.contains("mill (100 % of 142 MB, WireGuard's port)"), "{text}");
        // QUIC, and a large download beside the tunnel.
        assert_eq!(verdict(&much.replace("51820", "443"), true).0, Verdict::Fine);
        let beside = much.replace("bytes=50424", "bytes=90000000");
        assert_eq!(verdict(&beside, true).0, Verdict::Fine);
        assert_eq!(verdict(&much.replace("10.50", "10.60"), true).0, Verdict::Unknown, "no home");
        assert_eq!(tunnels_in(&[], &much, true).verdict, Verdict::Unknown);
    }

    /// On another port only a lone flow of large packets in both directions may be a tunnel.
    #[test]
    fn games_voice_and_quic_on_other_ports_are_not_tunnels() {
        let verdict = |text: &str| tunnels_in(&homes(), text, true);
        // 50 packets of 1428 bytes, a thousand times as many.
        let scale = |size: u64| format!("packets=50000 bytes={}", 50_000 * size);
        let alone = |down: u64, up: u64, more: &str| {
            let line = TABLE.lines().nth(2).unwrap().replace("51820", "40000");
            let line = line.replacen("packets=50 bytes=71400", &scale(up), 1);
            line.replacen("packets=50 bytes=71400", &scale(down), 1) + more + "\n"
        };
        let vpn = verdict(&alone(1428, 300, ""));
        assert_eq!(vpn.verdict, Verdict::Suspicious);
        assert!(
            vpn.text.contains("UDP port 40000, large packets both ways beside 0"),
            "{}",
            vpn.text
        );
        assert!(vpn.text.contains("if it is a VPN"), "{}", vpn.text);
        let voice = verdict(&alone(214, 214, ""));
        assert_eq!(voice.verdict, Verdict::Fine);
        assert!(voice.text.contains("would not be seen"), "{}", voice.text);
        assert_eq!(verdict(&alone(1428, 3, "")).verdict, Verdict::Fine, "one way");
        assert_eq!(verdict(&alone(1428, 300, " delta-time=40")).verdict, Verdict::Fine, "new");
        assert_eq!(verdict(&alone(1428, 300, " delta-time=4000")).verdict, Verdict::Suspicious);
        // A download by QUIC, beside the many small flows of a home.
        let many = TABLE.lines().nth(1).unwrap().to_owned() + "\n";
        let home = alone(1428, 300, "") + &many.repeat(20);
        assert_eq!(verdict(&home).verdict, Verdict::Fine);
    }

    /// Output of `ip -details -json link show` (iproute2 6.1), shortened.
    #[test]
    fn a_tunnel_to_a_home_is_reported() {
        let links = r#"[{"ifname": "lo"}, {"ifname": "b0", "linkinfo": {"info_kind": "veth"}},
            {"ifname": "vx0", "linkinfo": {"info_kind": "vxlan", "info_data": {"id": 7, "remote": "10.50.0.1"}}}]"#;
        let none = |_: &str| None;
        let found = tunnel_interfaces_in(&homes(), links, &none);
        assert_eq!(found.verdict, Verdict::Suspicious);
        assert!(found.text.starts_with("vx0 ends at 10.50.0.1 of \"mill\""), "{}", found.text);
        let elsewhere = links.replace("10.50.0.1", "192.0.2.1");
        assert_eq!(tunnel_interfaces_in(&homes(), &elsewhere, &none).verdict, Verdict::Fine);
        let wg = r#"[{"ifname": "wg0", "linkinfo": {"info_kind": "wireguard"}}]"#;
        assert_eq!(tunnel_interfaces_in(&homes(), wg, &none).verdict, Verdict::Unknown);
        let ends = |_: &str| Some("AAAA=\t10.51.0.9:51820\nBBBB=\t(none)\n".to_owned());
        assert_eq!(tunnel_interfaces_in(&homes(), wg, &ends).verdict, Verdict::Suspicious);
        assert_eq!(tunnel_interfaces_in(&homes(), "x", &none).verdict, Verdict::Unknown);
    }

    #[test]
    fn random_addresses_are_reported_only_if_they_change() {
        let random = |n: u8| MacAddr([0xbe, 0x66, 0xaa, 0x1f, 0xc9, n]);
        let vendor = MacAddr([0x00, 0x1d, 0xaa, 0, 0, 1]);
        // Linux 6.18; a lease file of dnsmasq 2.90.
        let table = r#"[{"dst":"10.50.0.1","dev":"b0","lladdr":"be:66:aa:1f:c9:f3","state":["DELAY"]},
            {"dst":"10.50.0.9","dev":"b0","state":["FAILED"]}]"#;
        let present = neighbours(table).unwrap();
        assert_eq!(present, BTreeSet::from([random(0xf3)]));
        assert_eq!(neighbours("x"), None);
        let file = "1764316800 be:66:aa:1f:c9:f3 10.50.0.1 phone 01:be:66:aa:1f:c9:f3\n\
                    1764316900 be:66:aa:1f:c9:01 10.50.0.2 phone 01:be:66:aa:1f:c9:01\n\
                    1764316900 be:66:aa:1f:c9:02 10.50.0.3 * *\nduid 00:01\n";
        let two = leases(file);
        assert_eq!(two.len(), 2);
        let of =
            |present: Option<&BTreeSet<MacAddr>>, leases: &[(MacAddr, String)], former: &[u8]| {
                let former = former.iter().map(|n| random(*n)).collect();
                let a = Addresses {
                    present: present.cloned(),
                    leases: leases.to_vec(),
                    former,
                    ..Addresses::default()
                };
                random_finding(&a).verdict
            };
        assert_eq!(of(None, &[], &[]), Verdict::Unknown);
        assert_eq!(of(Some(&present), &[], &[]), Verdict::Unknown);
        assert_eq!(of(Some(&present), &two, &[]), Verdict::Suspicious, "one host, two addresses");
        assert_eq!(of(Some(&present), &two[..1], &[]), Verdict::Fine);
        assert_eq!(of(Some(&present), &[], &[0xf3]), Verdict::Fine);
        assert_eq!(of(Some(&present), &[], &[1, 2, 3]), Verdict::Suspicious, "former homes");
        assert_eq!(of(Some(&BTreeSet::new()), &[], &[]), Verdict::Unknown);
        assert_eq!(of(Some(&BTreeSet::from([vendor])), &[], &[]), Verdict::Fine);
        let configured = vec![("mill".to_owned(), random(7))];
        let a = Addresses { present: Some(present), configured, ..Addresses::default() };
        let found = random_finding(&a);
        assert_eq!(found.verdict, Verdict::Suspicious);
        assert!(found.text.contains("mill"), "{}", found.text);
    }
}
