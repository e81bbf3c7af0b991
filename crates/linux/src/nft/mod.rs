//! The rule set as text for `nft -f`, and the runner of `nft`.
//!
//! A packet's class is looked up in hash maps, one per prefix length in use, longest first: the work per
//! packet depends on the number of lengths, not on the number of subscribers. (An nftables interval map would
//! be a tree with a depth that grows with the subscribers.)

pub(crate) mod alive;
pub mod counters;
pub mod foreign;
mod maps;
pub mod run;

use maps::{Elements, Key};
pub use maps::{MapName, Maps};

use std::fmt::Write;

use self::alive::SET_NAME;
use crate::error::Error;
use crate::netlink::Netlink;
use crate::shaper::{Bypass, Classifier, Direction, Layout, Place};
use crate::tc::Handle;

/// Base chain that identifies our table.
pub(crate) const MARKER_CHAIN: &str = "fairmesh_post";

/// Time for which packets are classified without a renewal.
pub(crate) const CLASSIFIER_LIFETIME: std::time::Duration = std::time::Duration::from_secs(10);

/// Input of a table's rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    /// Interfaces, names, bypass.
    pub layout: &'a Layout,
    /// Addresses of the subscribers.
    pub maps: &'a Maps,
    /// Classifiers downstream and upstream.
    pub classifier: [Classifier; 2],
    /// True if frames can be classified by Ethernet address on egress.
    pub egress_hook: bool,
    /// Class of routing and management traffic.
    pub bypass: Handle,
    /// Placement of the classes that packets are given.
    pub place: Place,
    /// The kernel's indexes of the interfaces, as HTB uses them; names may change.
    pub indexes: [u32; 2],
}

impl Rules<'_> {
    /// Returns a script that replaces our tables of the same names in one transaction.
    ///
    /// The rules are in force at every moment.
    pub fn install(&self) -> String {
        let table = &self.layout.table;
        let mut out = String::new();
        for family in self.families() {
            let _ = writeln!(out, "table {family} {table} {{\n}}\ndelete table {family} {table}");
        }
        let _ = writeln!(out, "table inet {table} {{\n comment \"made by fairmesh; do not edit\"");
        for direction in Direction::BOTH {
            let d = name(direction);
            let _ =
                writeln!(out, " counter classified_{d} {{\n }}\n counter unmapped6_{d} {{\n }}");
        }
        for (map, elements) in self.maps.each() {
            for kind in self.kinds() {
                let _ = writeln!(out, " map {kind}{map} {{");
                let _ = writeln!(out, "  type {} : {}", map.key_type(), data_type(kind));
                if !elements.is_empty() {
                    let _ = write!(out, "  elements = {{ ");
                    for (key, class) in elements {
                        let _ = write!(out, "{key} : {}, ", self.data(kind, class));
                    }
                    out.push_str("}\n");
                }
                out.push_str(" }\n");
            }
        }
        let [mesh, wired] = self.indexes;
        out += &self.alive();
        for direction in Direction::BOTH {
            self.chains(&mut out, direction);
        }
        if let Some(class) = self.layout.unmapped {
            self.unmapped(&mut out, class.0);
        }
        // Only traffic that the gateway itself sends can be routing or management traffic; a host behind it cannot get
        // this class by its choice of a port.
        let _ = write!(
            out,
            " chain output {{\n  type filter hook output priority mangle; policy accept;\n  \
             oif vmap {{ {mesh} : goto bypass_down, {wired} : goto bypass_up }}\n }}\n"
        );
        // Before source addresses are translated (priority srcnat, 100), and after a forwarded packet got its priority
        // from its TOS, which the kernel sets between prerouting and forward.
        let _ = write!(
            out,
            " chain {MARKER_CHAIN} {{\n  type filter hook postrouting priority mangle; policy accept;\n  \
             oif != @{SET_NAME} accept\n  oif {mesh} goto down\n  oif {wired} goto up\n }}\n}}\n"
        );
        if self.uses_egress() {
            self.egress(&mut out);
        }
        out
    }

    /// Returns the set of interfaces on which packets are classified.
    ///
    /// Its elements expire unless renewed.
    fn alive(&self) -> String {
        let [mesh, wired] = self.indexes;
        let lasts = CLASSIFIER_LIFETIME.as_secs();
        format!(
            " set {SET_NAME} {{\n  type iface_index\n  flags timeout\n  \
             elements = {{ {mesh} timeout {lasts}s, {wired} timeout {lasts}s }}\n }}\n"
        )
    }

    /// Returns the families that our tables have at present, as numbers.
    pub(crate) fn table_families(egress_hook: bool, maps: &Maps) -> &'static [u8] {
        use alive::{NFPROTO_INET, NFPROTO_NETDEV};
        if egress_hook && !maps.macs().is_empty() {
            &[NFPROTO_INET, NFPROTO_NETDEV]
        } else {
            &[NFPROTO_INET]
        }
    }

    /// Compares the elements of all our maps in the kernel with the expected ones.
    ///
    /// # Errors
    /// Returns the kernel's refusal.
    pub(crate) fn hold(&self, netfilter: &mut Netlink) -> Result<bool, Error> {
        for (name, elements) in self.maps.each() {
            for kind in self.kinds() {
                if !self.map_holds(netfilter, alive::NFPROTO_INET, (kind, name), elements)? {
                    return Ok(false);
                }
            }
        }
        if self.uses_egress()
            && let Some(macs) = self.maps.get(MapName::Mac)
        {
            let map = (self.kind(Direction::Down), MapName::Mac);
            return self.map_holds(netfilter, alive::NFPROTO_NETDEV, map, macs);
        }
        Ok(true)
    }

    fn map_holds(
        &self,
        netfilter: &mut Netlink,
        family: u8,
        (kind, name): (char, MapName),
        elements: Elements<'_>,
    ) -> Result<bool, Error> {
        let (mut right, mut wrong) = (0, 0);
        let map = format!("{kind}{name}");
        alive::elements(netfilter, family, &self.layout.table, &map, |element| {
            let meant = |e: alive::Element<'_>| {
                let class = elements.get(&Key::read(name, e.key)?)?;
                (self.place.class(class).0 == e.value).then_some(())
            };
            match element.and_then(meant) {
                Some(()) => right += 1,
                None => wrong += 1,
            }
        })?;
        Ok(wrong == 0 && right == elements.len())
    }

    /// Returns a script that removes our tables.
    pub fn remove(table: &str, families: &[&str]) -> String {
        families.iter().map(|family| format!("delete table {family} {table}\n")).collect()
    }

    /// Returns a script that turns the `old` maps into these, in one transaction.
    ///
    /// Empty if nothing changes.
    pub fn change(&self, old: &Maps) -> String {
        let mut out = String::new();
        let table = &self.layout.table;
        let mut grown = false;
        for (map, elements) in self.maps.each() {
            let before = old.get(map);
            if before.is_none() {
                grown = true;
                for kind in self.kinds() {
                    let (key, data) = (map.key_type(), data_type(kind));
                    let _ = writeln!(
                        out,
                        "add map inet {table} {kind}{map} {{ type {key} : {data}; }}"
                    );
                }
            }
            let mut gone = Vec::new();
            let mut come = Vec::new();
            for (key, class) in before.into_iter().flatten() {
                if elements.get(&key) != Some(class) {
                    gone.push(key);
                }
            }
            for (key, class) in elements {
                if before.and_then(|b| b.get(&key)) != Some(class) {
                    come.push((key, class));
                }
            }
            for kind in self.kinds() {
                for keys in gone.chunks(1000) {
                    let keys: String = keys.iter().map(|k| format!("{k}, ")).collect();
                    let _ = writeln!(out, "delete element inet {table} {kind}{map} {{ {keys}}}");
                }
                for pairs in come.chunks(1000) {
                    let pairs: String = pairs
                        .iter()
                        .map(|(k, c)| format!("{k} : {}, ", self.data(kind, *c)))
                        .collect();
                    let _ = writeln!(out, "add element inet {table} {kind}{map} {{ {pairs}}}");
                }
            }
        }
        if grown {
            // Rules in the order of lengths: written again, in the same transaction.
            for direction in Direction::BOTH {
                let d = name(direction);
                let _ = writeln!(out, "flush chain inet {table} {d}");
            }
            let _ = writeln!(out, "table inet {table} {{");
            for direction in Direction::BOTH {
                self.lookups(&mut out, direction);
            }
            out.push_str("}\n");
        }
        if self.egress_hook && self.maps.macs() != old.macs() {
            let _ = writeln!(out, "table netdev {table} {{\n}}\ndelete table netdev {table}");
            if self.uses_egress() {
                self.egress(&mut out);
            }
        }
        out
    }

    /// Returns the families of our tables; `netdev` only while there are Ethernet addresses.
    fn families(&self) -> &'static [&'static str] {
        if self.egress_hook { &["inet", "netdev"] } else { &["inet"] }
    }

    fn uses_egress(&self) -> bool {
        self.egress_hook && !self.maps.macs().is_empty()
    }

    /// Returns the prefixes of the maps' names: `p` for priorities, `m` for marks.
    fn kinds(&self) -> impl Iterator<Item = char> + use<> {
        let mark = self.classifier.map(|c| c != Classifier::Priority);
        [(!mark[0] || !mark[1]).then_some('p'), (mark[0] || mark[1]).then_some('m')]
            .into_iter()
            .flatten()
    }

    fn kind(&self, direction: Direction) -> char {
        match self.classifier[direction as usize] {
            Classifier::Priority => 'p',
            Classifier::MarkFw | Classifier::MarkBpf => 'm',
        }
    }

    fn data(&self, kind: char, class: u16) -> String {
        value(kind, self.place.class(class))
    }

    fn chains(&self, out: &mut String, direction: Direction) {
        let d = name(direction);
        let (field, kind) = (field(self.kind(direction)), self.kind(direction));
        let bypass = value(kind, self.bypass);
        let Bypass { udp, tcp } = &self.layout.bypass;
        let list = |ports: &[u16]| ports.iter().map(|p| format!("{p}, ")).collect::<String>();
        // DHCP and DHCPv6 (RFC 2131, RFC 8415), then the routing protocols.
        let _ = write!(
            out,
            " chain bypass_{d} {{\n  udp dport {{ 67, 68, 546, 547, {}}} meta {field} set {bypass}\n",
            list(udp)
        );
        if !tcp.is_empty() {
            let ports = list(tcp);
            for end in ["sport", "dport"] {
                let _ = writeln!(out, "  tcp {end} {{ {ports}}} meta {field} set {bypass}");
            }
        }
        // Echo requests, which measure the path and not the home's queue on this gateway (RFC 792: 8, RFC 4443: 128);
        // multicast listeners (RFC 3810: 130 to 132, 143), router and neighbour discovery (RFC 4861: 133 to 137).
        let _ = write!(
            out,
            "  icmp type echo-request meta {field} set {bypass}\n  \
             icmpv6 type {{ 128, 130-137, 143 }} meta {field} set {bypass}\n }}\n"
        );
        self.lookups(out, direction);
    }

    /// Writes the chain that looks a packet up.
    ///
    /// Every packet passes it, so it has as few steps as possible: one lookup if all prefixes of a family have one
    /// length.
    fn lookups(&self, out: &mut String, direction: Direction) {
        let d = name(direction);
        let kind = self.kind(direction);
        let field = field(kind);
        let end = if direction == Direction::Down { "daddr" } else { "saddr" };
        let counted = format!("counter name \"classified_{d}\" accept");
        let bypass = value(kind, self.bypass);
        let _ = writeln!(out, " chain {d} {{\n  meta {field} {bypass} accept");
        for (v6, version) in [(false, "ip"), (true, "ip6")] {
            for map in self.maps.lengths(v6) {
                let mask = map.mask();
                let _ = writeln!(
                    out,
                    "  meta {field} set {version} {end}{mask} map @{kind}{map} {counted}"
                );
            }
        }
        // Downstream, the frame's destination is not known yet; the egress hook handles it.
        if direction == Direction::Up && !self.maps.macs().is_empty() {
            let _ = writeln!(out, "  meta {field} set ether saddr map @{kind}mac {counted}");
        }
        let _ = writeln!(out, "  meta nfproto ipv6 counter name \"unmapped6_{d}\"\n }}");
    }

    /// Gives every forwarded packet the class of unmapped traffic, until a look-up replaces it.
    ///
    /// Packets that the gateway itself sends get no class.
    fn unmapped(&self, out: &mut String, class: u16) {
        let _ = write!(
            out,
            " chain forward {{\n  type filter hook forward priority mangle; policy accept;\n  \
             oif != @{SET_NAME} accept\n"
        );
        for direction in Direction::BOTH {
            let (kind, index) = (self.kind(direction), self.indexes[direction as usize]);
            let (field, value) = (field(kind), self.data(kind, class));
            let _ = writeln!(out, "  oif {index} meta {field} set {value}");
        }
        out.push_str(" }\n");
    }

    /// Returns the values of packets that have a class already.
    ///
    /// The class of unmapped traffic is excluded: the Ethernet address may still identify the subscriber.
    fn known(&self, kind: char) -> String {
        let unmapped_class = self.layout.unmapped.map(|class| self.place.class(class.0).0);
        let mut ranges = Vec::new();
        for (Handle(first), Handle(last)) in self.place.ranges() {
            match unmapped_class.filter(|n| (first..=last).contains(n)) {
                None => ranges.push((first, last)),
                Some(n) => ranges.extend([(first, n - 1), (n + 1, last)]),
            }
        }
        let range = |(a, b)| format!("{}-{}", value(kind, Handle(a)), value(kind, Handle(b)));
        match ranges[..] {
            [one] => range(one),
            _ => format!("{{ {} }}", ranges.into_iter().map(range).collect::<Vec<_>>().join(", ")),
        }
    }

    /// Writes the table that classifies frames as they leave towards the mesh.
    fn egress(&self, out: &mut String) {
        let (table, mesh) = (&self.layout.table, &self.layout.mesh);
        let kind = self.kind(Direction::Down);
        let field = field(kind);
        let known = self.known(kind);
        let _ = writeln!(
            out,
            "table netdev {table} {{\n counter classified_down {{\n }}\n map {kind}mac {{\n  \
             type ether_addr : {}",
            data_type(kind)
        );
        out.push_str("  elements = { ");
        for (mac, class) in self.maps.macs() {
            let _ = write!(out, "{mac} : {}, ", self.data(kind, *class));
        }
        // ARP and similar frames belong to no subscriber. A packet that has a class keeps it.
        let _ = write!(
            out,
            "}}\n }}\n{}  chain {MARKER_CHAIN} {{\n  type filter hook egress device \"{mesh}\" priority 0; \
             policy accept;\n  oif != @{SET_NAME} accept\n  meta protocol != {{ ip, ip6 }} accept\n  meta {field} {known} accept\n  \
             meta {field} set ether daddr map @{kind}mac counter name \"classified_down\" accept\n \
             }}\n}}\n",
            self.alive()
        );
    }
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

fn field(kind: char) -> &'static str {
    if kind == 'p' { "priority" } else { "mark" }
}

fn data_type(kind: char) -> &'static str {
    if kind == 'p' { "classid" } else { "mark" }
}

fn value(kind: char, class: Handle) -> String {
    match kind {
        'p' => format!("{:x}:{:x}", class.major(), class.minor()),
        _ => format!("{:#x}", class.0),
    }
}

#[cfg(test)]
mod tests;
