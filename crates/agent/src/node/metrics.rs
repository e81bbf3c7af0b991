//! Metrics of a router: the table of families, and their values.

use super::report::{InterfaceReport, NeighbourReport, Status};
use crate::daemon::metrics::{Column, Group, Page, counter, gauge};
use crate::daemon::process::Resources;

/// All families.
#[rustfmt::skip] // one family per line
const GROUPS: &[Group] = &[
    Group {
        title: "Daemon",
        note: "",
        families: &[
            gauge("info", &["version", "control", "mode", "routing", "role"], "1, with version, control, mode, routing and role as labels"),
            gauge("uptime_seconds", &[], "Time since the start"),
            counter("cpu_seconds_total", &[], "CPU time used by the daemon"),
            gauge("resident_memory_bytes", &[], "Memory in use by the daemon"),
            gauge("running", &[], "1 while the control runs"),
            counter("events_total", &["event"], "Named events and decisions of the control"),
        ],
    },
    Group {
        title: "Neighbours and messages",
        note: "",
        families: &[
            gauge("interface_up", &["interface"], "1 while messages are exchanged over an interface"),
            gauge("interface_carrier", &["interface", "carrier"], "1 for the carrier of sent messages"),
            gauge("neighbours", &[], "Known neighbours"),
            gauge("link_capacity_bits_per_second", &["neighbour"], "Capacity of the link, in IP bytes"),
            counter("messages_sent_total", &[], "Sent messages"),
            counter("messages_received_total", &["neighbour"], "Accepted messages"),
            counter("messages_lost_total", &["neighbour"], "Messages lost in transit"),
            counter("messages_refused_total", &["cause"], "Refused messages, by cause"),
            counter("orders_total", &["result"], "Orders of a gateway: accepted, refused"),
        ],
    },
    Group {
        title: "Decisions",
        note: "Only of a mechanism that decides them.",
        families: &[
            gauge("channel_busy_ratio", &[], "Busy share of the channel's time"),
            gauge("limit_bits_per_second", &["interface"], "Limit of local traffic that the control has decided on; `+Inf`: none"),
            gauge("limit_applied", &["interface"], "1 while the limit is in the kernel"),
            gauge("marking_probability", &[], "Decided probability of a mark"),
            gauge("marking_applied", &[], "1 while marks are in force"),
            gauge("airtime_share", &["next_hop"], "Decided share of the airtime of a next hop"),
            gauge("flow_limit_bits_per_second", &["home", "direction"], "Decided limit of a flow that enters the mesh here; `+Inf`: none"),
        ],
    },
];

/// End of the table.
const PREFIX: &str = "fairmesh_node_";

/// Text above the tables.
const INTRODUCTION: &str = "\
## Router
Names have the prefix `fairmesh_node_`. `metrics.listen` in the [configuration](node.md) sets the address.
";

/// Returns the second part of the page of metrics, in Markdown, which `make site` builds.
pub fn reference() -> String {
    INTRODUCTION.to_owned() + &crate::daemon::metrics::tables(GROUPS)
}

/// Returns the page of the metrics.
pub fn page(s: &Status, process: Option<Resources>) -> String {
    let mut p = Page::new(PREFIX, GROUPS);
    p.add("info", &[&s.version, &s.control, &s.mode, &s.routing, s.role.name()], 1.0);
    p.one("uptime_seconds", s.uptime_seconds);
    if let Some(Resources { cpu_s, resident }) = process {
        p.one("cpu_seconds_total", cpu_s);
        p.one("resident_memory_bytes", resident);
    }
    p.one("running", u8::from(s.running));
    for (code, n) in &s.events {
        p.add("events_total", &[code], *n as f64);
    }
    exchange(&mut p, s);
    decisions(&mut p, s);
    p.finish()
}

/// Writes the state of the links and the numbers of messages.
fn exchange(p: &mut Page, s: &Status) {
    for i in &s.interfaces {
        p.add("interface_up", &[&i.name], f64::from(u8::from(i.talks)));
    }
    for InterfaceReport { name, carrier, .. } in &s.interfaces {
        if let Some(carrier) = carrier {
            p.add("interface_carrier", &[name, carrier.name()], 1.0);
        }
    }
    p.one("neighbours", s.neighbours.len() as f64);
    p.one("messages_sent_total", s.sent_messages as f64);
    let families: [Column<NeighbourReport, Option<f64>>; 3] = [
        ("link_capacity_bits_per_second", |n| n.capacity_bits_per_second.map(|c| c as f64)),
        ("messages_received_total", |n| Some(n.messages as f64)),
        ("messages_lost_total", |n| Some(n.lost as f64)),
    ];
    for (name, get) in families {
        for n in &s.neighbours {
            if let Some(value) = get(n) {
                p.add(name, &[&n.mac.to_string()], value);
            }
        }
    }
    for r in &s.refused {
        p.add("messages_refused_total", &[&r.cause], r.messages as f64);
    }
    if let Some(orders) = &s.orders {
        let refused: u64 = orders.refused.iter().map(|r| r.messages).sum();
        p.add("orders_total", &["accepted"], orders.accepted as f64);
        p.add("orders_total", &["refused"], refused as f64);
    }
}

/// Writes the decisions of the mechanism.
fn decisions(p: &mut Page, s: &Status) {
    let rate = |r: Option<u64>| r.map_or(f64::INFINITY, |r| r as f64);
    if let Some(busy) = s.channel_busy {
        p.one("channel_busy_ratio", busy);
    }
    if let Some(limit) = &s.limit {
        p.add("limit_bits_per_second", &[&limit.interface], rate(limit.bits_per_second));
        p.add("limit_applied", &[&limit.interface], f64::from(u8::from(limit.applied)));
    }
    if let Some(m) = &s.marking {
        p.one("marking_probability", m.probability);
        p.one("marking_applied", u8::from(m.applied));
    }
    for share in &s.shares {
        p.add("airtime_share", &[&share.next_hop.to_string()], share.share);
    }
    for flow in &s.flows {
        let direction = if flow.download { "down" } else { "up" };
        p.add(
            "flow_limit_bits_per_second",
            &[&flow.home.to_string(), direction],
            rate(flow.bits_per_second),
        );
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_family_is_written() {
        crate::daemon::metrics::assert_all_written(super::GROUPS, "node/metrics.rs");
    }
}
