//! Metrics of the gateway: the table of families, and their values.

use fairmesh_linux::Shaper;
use fairmesh_units::Time;

use crate::daemon::metrics::{Column, Group, Page, counter, gauge};
use crate::daemon::process::Resources;
use crate::gateway::config::Mode;
use crate::gateway::governor::{DirectionState, Member, QuotaReport, direction_name};
use crate::gateway::history::HistoryReport;
use crate::gateway::host::Host;
use crate::gateway::peers::{PeerReport, PeersReport};
use crate::gateway::report;
use crate::gateway::signs::SignsReport;
use crate::gateway::sources::SourceReport;

/// All families.
#[rustfmt::skip] // one family per line
const GROUPS: &[Group] = &[
    Group {
        title: "Daemon",
        note: "",
        families: &[
            gauge("info", &["version", "control", "mode", "leaf"], "1, with version, control, mode and queue of a class as labels"),
            gauge("phase", &["phase"], "1 for the present phase: running, degraded (limits are set and ineffective), safe or absent"),
            gauge("enforcing", &[], "1 while limits are in force"),
            gauge("uptime_seconds", &[], "Time since the start"),
            counter("cpu_seconds_total", &[], "CPU time used by the daemon"),
            gauge("resident_memory_bytes", &[], "Memory in use by the daemon"),
            gauge("interface_up", &["interface"], "1 while an interface is up"),
            counter("events_total", &["event", "level"], "Named events and decisions of the control"),
        ],
    },
    Group {
        title: "Subscribers and sources",
        note: "Reasons of omission are in [sources](gateway-sources.md).",
        families: &[
            gauge("subscribers", &["discovered"], "Known subscribers"),
            gauge("source_up", &["source"], "1 while a source of subscribers responds"),
            gauge("source_nodes", &["source"], "Nodes of a source at its last query"),
            gauge("source_addresses", &["source"], "Addresses of homes of a source at its last query"),
            gauge("source_subscribers", &["source"], "Homes of a source at its last query"),
            gauge("source_omitted", &["source", "reason"], "Entries of a source that became no home, by reason"),
            gauge("discovery_omitted", &["reason"], "Discovered homes left out after the sources were merged, by reason"),
        ],
    },
    Group {
        title: "Control and links",
        note: "",
        families: &[
            gauge("level_learning", &[], "1 until `rtt` has found its level"),
            gauge("level_state_seconds", &[], "Time in this state of the search for a level"),
            gauge("neighbour_bound_bytes_per_second", &[], "Capacity of the links of `[[neighbour]]` together, in IP bytes per second"),
            gauge("neighbour_bound_used_ratio", &[], "Used fraction of the neighbour bound"),
            gauge("floods", &["direction"], "Subscribers whose traffic the control has marked as a flood"),
            gauge("aggregate_limit_bytes_per_second", &[], "Limit of the control for all subscribers together, in IP bytes per second"),
            gauge("fairness_ratio", &["direction"], "Jain's index of rate by weight, of active subscribers at the last sample"),
        ],
    },
    Group {
        title: "Traffic",
        note: "",
        families: &[
            counter("unmapped_bytes_total", &["direction"], "Frame bytes of traffic that belongs to no subscriber, with and without a share"),
            counter("sent_bytes_total", &["direction"], "IP bytes sent"),
            counter("sent_packets_total", &["direction"], "Packets sent"),
            counter("dropped_packets_total", &["direction"], "Packets dropped at a full queue"),
            gauge("quotas", &["used_up"], "Subscribers with a quota, by whether it is used up"),
        ],
    },
    Group {
        title: "Traffic of each subscriber",
        note: "Only with `[metrics] per_subscriber`. A value that is not known, such as the limit of an unlimited subscriber, is absent.",
        families: &[
            gauge("subscriber_quota_bytes", &["subscriber"], "IP bytes of the quota"),
            gauge("subscriber_quota_used_bytes", &["subscriber"], "IP bytes used in this period"),
            gauge("subscriber_quota_end_timestamp_seconds", &["subscriber"], "End of the period, in seconds since 1970; absent while the clock is not set"),
            counter("subscriber_sent_bytes_total", &["subscriber", "direction"], "IP bytes sent"),
            counter("subscriber_dropped_packets_total", &["subscriber", "direction"], "Packets dropped at a full queue"),
            gauge("subscriber_rate_bytes_per_second", &["subscriber", "direction"], "IP bytes per second at the last sample"),
            gauge("subscriber_limit_bytes_per_second", &["subscriber", "direction"], "Limit in force, in IP bytes per second"),
            gauge("subscriber_round_trip_seconds", &["subscriber", "direction"], "Median round trip through the mesh in the last sample with one"),
            gauge("subscriber_base_round_trip_seconds", &["subscriber", "direction"], "Least round trip through the mesh of the last one to two minutes"),
        ],
    },
    Group {
        title: "Other gateways",
        note: "Only with `[peers]`.",
        families: &[
            gauge("governed_by", &[], "Number of the deciding gateway; the own number if this one decides"),
            gauge("peer_up", &["peer"], "1 while another gateway is active"),
            counter("peer_sent_datagrams_total", &["peer"], "Datagrams sent to another gateway"),
            counter("peer_received_datagrams_total", &["peer"], "Accepted datagrams from another gateway"),
            counter("peer_rejected_datagrams_total", &["peer"], "Rejected datagrams from the address of another gateway"),
            counter("peer_starts_total", &["peer"], "Detected starts of another gateway"),
            counter("rejected_datagrams_total", &["cause"], "Rejected datagrams, by cause: stranger, malformed, version, tag, number, unproved, replayed, late, flood"),
        ],
    },
    Group {
        title: "TCP headers, probes and history",
        note: "[Signs](gateway-signs.md), [history](gateway-history.md).",
        families: &[
            gauge("signs_reading", &[], "1 while TCP headers are read"),
            counter("signs_packets_total", &[], "TCP packets that passed while headers were read"),
            counter("signs_lost_packets_total", &[], "TCP packets not read because their headers arrived too fast"),
            gauge("signs_connections", &[], "Known TCP connections"),
            counter("probes_sent_total", &[], "Echo probes sent to homes without other round trips"),
            counter("probes_answered_total", &[], "Echo probes that were answered"),
            gauge("probes_silent", &[], "Homes that do not respond to echo probes"),
            gauge("history_writable", &[], "1 while the history can be written"),
            gauge("history_bytes", &[], "Size of the history"),
            counter("history_lost_minutes_total", &[], "Minutes that could not be written"),
        ],
    },
];

/// End of the table.
const PREFIX: &str = "fairmesh_gateway_";

/// Text above the tables.
const INTRODUCTION: &str = "\
# Metrics

Values have base units (bytes, seconds, ratios). [Access](gateway-metrics.md).

## Gateway
Names have the prefix `fairmesh_gateway_`.
";

/// Returns the first part of the page of metrics, in Markdown, which `make site` builds.
pub fn reference() -> String {
    INTRODUCTION.to_owned() + &crate::daemon::metrics::tables(GROUPS)
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Parts of the page beside the host; `None`: not configured.
#[derive(Clone, Copy, Default, Debug)]
pub struct Parts<'a> {
    /// Resources of the process.
    pub process: Option<Resources>,
    /// The other gateways.
    pub peers: Option<&'a PeersReport>,
    /// The TCP header reader.
    pub signs: Option<&'a SignsReport>,
    /// The history.
    pub history: Option<&'a HistoryReport>,
}

/// Returns the page of the metrics.
pub fn page<P: Shaper>(
    host: &Host<P>,
    now: Time,
    per_subscriber: bool,
    parts: Parts<'_>,
) -> String {
    let Parts { process, peers, signs, history } = parts;
    let governor = &host.governor;
    let mut p = Page::new(PREFIX, GROUPS);
    let leaf = host.installed.as_ref().map_or("none".to_owned(), |i| i.leaf.to_string());
    let (control, mode) = (governor.mechanism().to_string(), governor.mode());
    p.add("info", &[env!("CARGO_PKG_VERSION"), &control, mode.name(), &leaf], 1.0);
    for phase in ["running", "degraded", "safe", "absent"] {
        p.add("phase", &[phase], flag(host.phase_name() == phase));
    }
    p.one("enforcing", flag(mode == Mode::Apply && host.phase_name() == "running"));
    p.one("uptime_seconds", now.as_secs_f64());
    if let Some(Resources { cpu_s: cpu, resident: memory }) = process {
        p.one("cpu_seconds_total", cpu);
        p.one("resident_memory_bytes", memory);
    }
    let layout = governor.base_layout();
    for name in [layout.mesh.name(), layout.wired.name()] {
        p.add("interface_up", &[name], flag(!host.down().any(|down| down == name)));
    }
    for (code, level, n) in governor.journal.totals() {
        p.add("events_total", &[code, &format!("{level:?}").to_lowercase()], n as f64);
    }
    sources(&mut p, host);
    control_and_links(&mut p, host, now);
    if let Some(peers) = peers {
        others(&mut p, peers);
    }
    if let Some(signs) = signs {
        headers(&mut p, signs);
    }
    if let Some(history) = history {
        p.one("history_writable", flag(history.problem.is_none()));
        p.one("history_bytes", history.bytes as f64);
        p.one("history_lost_minutes_total", history.lost as f64);
    }
    totals(&mut p, host, now, per_subscriber);
    p.finish()
}

/// Writes the numbers of subscribers and the state of their sources.
fn sources<P: Shaper>(p: &mut Page, host: &Host<P>) {
    let governor = &host.governor;
    for discovered in [false, true] {
        let n = governor.subscribers().filter(|m| m.seen.is_some() == discovered).count();
        p.add("subscribers", &[&discovered.to_string()], n as f64);
    }
    let families: [Column<SourceReport>; 4] = [
        ("source_up", |s| flag(s.failed.is_none())),
        ("source_nodes", |s| s.nodes as f64),
        ("source_addresses", |s| s.addresses as f64),
        ("source_subscribers", |s| s.subscribers as f64),
    ];
    for (name, get) in families {
        for s in &governor.sources {
            p.add(name, &[&s.name], get(s));
        }
    }
    for s in &governor.sources {
        for (why, n) in s.omitted.iter() {
            p.add("source_omitted", &[&s.name, why.name()], n as f64);
        }
    }
    if !governor.sources.is_empty() {
        for (why, n) in governor.left_out.iter() {
            p.add("discovery_omitted", &[why.name()], n as f64);
        }
    }
}

/// Writes the state of the control and of the links of the gateway.
fn control_and_links<P: Shaper>(p: &mut Page, host: &Host<P>, now: Time) {
    let governor = &host.governor;
    if let Some((progress, _)) = governor.progress() {
        p.one("level_learning", flag(progress.learning));
        p.one("level_state_seconds", now.since(progress.since).as_secs_f64());
    }
    if let (Some(bound), Some(used)) = (governor.bound(), governor.bound_used()) {
        p.one("neighbour_bound_bytes_per_second", bound.0 as f64 / 8.0);
        p.one("neighbour_bound_used_ratio", used);
    }
    for d in 0..2 {
        let n = governor.members().iter().filter(|m| governor.floods(m, d)).count();
        p.add("floods", &[direction_name(d)], n as f64);
    }
    if let Some(all) = governor.aggregate().wanted {
        p.one("aggregate_limit_bytes_per_second", all.0 as f64 / 8.0);
    }
    for d in 0..2 {
        if let Some(jain) = report::fairness(governor, d) {
            p.add("fairness_ratio", &[direction_name(d)], jain);
        }
    }
}

/// Writes the metrics of the TCP header reader.
fn headers(p: &mut Page, report: &SignsReport) {
    p.one("signs_reading", flag(report.state == "reading"));
    p.one("signs_packets_total", report.packets as f64);
    p.one("signs_lost_packets_total", report.lost as f64);
    p.one("signs_connections", report.connections as f64);
    let Some(probes) = &report.probes else { return };
    p.one("probes_sent_total", probes.sent as f64);
    p.one("probes_answered_total", probes.answered as f64);
    p.one("probes_silent", probes.silent as f64);
}

/// Writes the metrics of the other gateways.
fn others(p: &mut Page, report: &PeersReport) {
    let families: [Column<PeerReport>; 5] = [
        ("peer_up", |p| flag(p.state == "here")),
        ("peer_sent_datagrams_total", |p| p.sent as f64),
        ("peer_received_datagrams_total", |p| p.received as f64),
        ("peer_rejected_datagrams_total", |p| p.rejected as f64),
        ("peer_starts_total", |p| p.starts as f64),
    ];
    for (name, get) in families {
        for peer in &report.peers {
            p.add(name, &[&peer.address.to_string()], get(peer));
        }
    }
    for (cause, n) in &report.rejected {
        p.add("rejected_datagrams_total", &[cause], *n as f64);
    }
    p.one("governed_by", f64::from(report.governed_by.unwrap_or(report.number)));
}

/// Writes the use of quotas.
fn quotas<P: Shaper>(p: &mut Page, host: &Host<P>, per_subscriber: bool) {
    let governor = &host.governor;
    let report = |m: &Member| {
        let quota = governor.calendar.quota(&m.subscriber.name, &m.subscriber.plan)?;
        Some((m.subscriber.name.clone(), quota))
    };
    let all: Vec<(_, QuotaReport)> = governor.members().iter().filter_map(report).collect();
    if all.is_empty() {
        return;
    }
    for used in [false, true] {
        let n = all.iter().filter(|(_, q)| (q.remaining_bytes == 0) == used).count();
        p.add("quotas", &[&used.to_string()], n as f64);
    }
    if !per_subscriber {
        return;
    }
    let families: [Column<QuotaReport, Option<u64>>; 3] = [
        ("subscriber_quota_bytes", |q| Some(q.quota_bytes)),
        ("subscriber_quota_used_bytes", |q| Some(q.used_bytes)),
        ("subscriber_quota_end_timestamp_seconds", |q| q.until_unix_seconds),
    ];
    for (name, get) in families {
        for (subscriber, quota) in &all {
            if let Some(value) = get(quota) {
                p.add(name, &[subscriber], value as f64);
            }
        }
    }
}

/// Writes the totals of all subscribers together and of each.
fn totals<P: Shaper>(p: &mut Page, host: &Host<P>, now: Time, per_subscriber: bool) {
    let governor = &host.governor;
    for (d, counters) in host.sent().into_iter().enumerate() {
        if let Some(c) = counters {
            // Unmapped traffic that has a share is in one of the subscribers' classes.
            let shared = governor.unmapped().map_or(0, |m| governor.frame_bytes(m, d));
            p.add("unmapped_bytes_total", &[direction_name(d)], (c.unmapped + shared) as f64);
        }
    }
    let families: [Column<DirectionState>; 3] = [
        ("sent_bytes_total", |w| w.meter.bytes as f64),
        ("sent_packets_total", |w| w.meter.packets as f64),
        ("dropped_packets_total", |w| w.meter.drops as f64),
    ];
    for (name, get) in families {
        for d in 0..2 {
            let sum: f64 = governor.members().iter().map(|m| get(&m.directions[d])).sum();
            p.add(name, &[direction_name(d)], sum);
        }
    }
    quotas(p, host, per_subscriber);
    if !per_subscriber {
        return;
    }
    type Get = fn(&DirectionState, Time) -> Option<f64>;
    let families: [(&str, Get); 6] = [
        ("subscriber_sent_bytes_total", |w, _| Some(w.meter.bytes as f64)),
        ("subscriber_dropped_packets_total", |w, _| Some(w.meter.drops as f64)),
        ("subscriber_rate_bytes_per_second", |w, _| Some(w.meter.rate?.0 as f64 / 8.0)),
        ("subscriber_limit_bytes_per_second", |w, _| Some(w.in_force?.0 as f64 / 8.0)),
        ("subscriber_round_trip_seconds", |w, now| {
            w.signs.trip(now).map(|(_, t)| t.median.as_secs_f64())
        }),
        ("subscriber_base_round_trip_seconds", |w, now| {
            w.signs.trip(now).map(|(_, t)| t.base.as_secs_f64())
        }),
    ];
    for (name, get) in families {
        for m in governor.members() {
            for (d, state) in m.directions.iter().enumerate() {
                if let Some(value) = get(state, now) {
                    p.add(name, &[&m.subscriber.name, direction_name(d)], value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_family_is_written() {
        crate::daemon::metrics::assert_all_written(super::GROUPS, "gateway/metrics.rs");
    }
}
