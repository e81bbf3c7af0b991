//! Prometheus text format 0.0.4: base units, one prefix, no state of its own.

use std::fmt::Write;

use fairmesh_linux::Shaper;
use fairmesh_units::Time;

use crate::daemon::process::Resources;
use crate::gateway::config::Mode;
use crate::gateway::governor::{Member, QuotaReport, direction_name};
use crate::gateway::history::HistoryReport;
use crate::gateway::host::Host;
use crate::gateway::peers::{PeerReport, PeersReport};
use crate::gateway::report;
use crate::gateway::signs::SignsReport;
use crate::gateway::sources::SourceReport;

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP fairmesh_gateway_{name} {help}");
        let _ = writeln!(self.0, "# TYPE fairmesh_gateway_{name} {kind}");
    }
    fn value(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.0, "fairmesh_gateway_{name}{{{labels}}} {value}");
    }
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
    let mut p = Page(String::with_capacity(4096));
    p.family("info", "gauge", "Version, control, mode and queue.");
    let leaf = host.installed.as_ref().map_or("none".to_owned(), |i| i.leaf.to_string());
    let labels = format!(
        "version=\"{}\",control=\"{}\",mode=\"{}\",leaf=\"{leaf}\"",
        env!("CARGO_PKG_VERSION"),
        governor.mechanism(),
        governor.mode().name()
    );
    p.value("info", &labels, 1.0);
    p.family("phase", "gauge", "1 for the present phase of the shaping, 0 for the others.");
    for phase in ["running", "degraded", "safe", "absent"] {
        let on = host.phase_name() == phase;
        p.value("phase", &format!("phase=\"{phase}\""), f64::from(u8::from(on)));
    }
    p.family("enforcing", "gauge", "1 while limits are in force.");
    let enforcing = governor.mode() == Mode::Apply && host.phase_name() == "running";
    p.value("enforcing", "", f64::from(u8::from(enforcing)));
    p.family("uptime_seconds", "gauge", "Time since the start.");
    p.value("uptime_seconds", "", now.as_secs_f64());
    if let Some(Resources { cpu_s: cpu, resident: memory }) = process {
        p.family("cpu_seconds_total", "counter", "CPU time used by the daemon.");
        p.value("cpu_seconds_total", "", cpu);
        p.family("resident_memory_bytes", "gauge", "Memory in use by the daemon.");
        p.value("resident_memory_bytes", "", memory);
    }
    p.family("subscribers", "gauge", "Known subscribers.");
    for discovered in [false, true] {
        let n = governor.subscribers().filter(|m| m.seen.is_some() == discovered).count();
        p.value("subscribers", &format!("discovered=\"{discovered}\""), n as f64);
    }
    if !governor.sources.is_empty() {
        p.family("source_up", "gauge", "1 while a source of subscribers responds.");
        for s in &governor.sources {
            let up = f64::from(u8::from(s.failed.is_none()));
            p.value("source_up", &format!("source=\"{}\"", escape(&s.name)), up);
        }
        let mut counts = |name: &str, help: &str, of: fn(&SourceReport) -> f64| {
            p.family(name, "gauge", help);
            for s in &governor.sources {
                p.value(name, &format!("source=\"{}\"", escape(&s.name)), of(s));
            }
        };
        counts("source_nodes", "Nodes of a source at its last query.", |s| s.nodes as f64);
        counts("source_addresses", "Addresses of homes of a source at its last query.", |s| {
            s.addresses as f64
        });
        counts("source_subscribers", "Homes of a source at its last query.", |s| {
            s.subscribers as f64
        });
        p.family("source_omitted", "gauge", "Entries of a source that were left out, by reason.");
        for s in &governor.sources {
            for (why, n) in s.omitted.iter() {
                let labels = format!("source=\"{}\",reason=\"{}\"", escape(&s.name), why.name());
                p.value("source_omitted", &labels, n as f64);
            }
        }
        p.family("discovery_omitted", "gauge", "Discovered homes that were left out, by reason.");
        for (why, n) in governor.left_out.iter() {
            p.value("discovery_omitted", &format!("reason=\"{}\"", why.name()), n as f64);
        }
    }
    p.family("interface_up", "gauge", "1 while an interface is up.");
    let layout = governor.base_layout();
    for name in [layout.mesh.name(), layout.wired.name()] {
        let up = !host.down().any(|down| down == name);
        let labels = format!("interface=\"{}\"", escape(name));
        p.value("interface_up", &labels, f64::from(u8::from(up)));
    }
    if let Some((progress, _)) = governor.progress() {
        p.family("level_learning", "gauge", "1 until the control has found its level.");
        p.value("level_learning", "", f64::from(u8::from(progress.learning)));
        p.family("level_state_seconds", "gauge", "Time in this state of the search for a level.");
        p.value("level_state_seconds", "", now.since(progress.since).as_secs_f64());
    }
    if let (Some(bound), Some(used)) = (governor.bound(), governor.bound_used()) {
        p.family(
            "neighbour_bound_bytes_per_second",
            "gauge",
            "Capacity of the links of [[neighbour]] together, in IP bytes per second.",
        );
        p.value("neighbour_bound_bytes_per_second", "", bound.0 as f64 / 8.0);
        p.family("neighbour_bound_used_ratio", "gauge", "Used fraction of the neighbour bound.");
        p.value("neighbour_bound_used_ratio", "", used);
    }
    p.family("floods", "gauge", "Subscribers whose traffic the control has marked as a flood.");
    for d in 0..2 {
        let n = governor.members().iter().filter(|m| governor.floods(m, d)).count();
        p.value("floods", &format!("direction=\"{}\"", direction_name(d)), n as f64);
    }
    p.family("events_total", "counter", "Named events and decisions of the control.");
    for (code, level, n) in governor.journal.totals() {
        let level = format!("{level:?}").to_lowercase();
        p.value("events_total", &format!("event=\"{code}\",level=\"{level}\""), n as f64);
    }
    if let Some(all) = governor.aggregate().wanted {
        p.family(
            "aggregate_limit_bytes_per_second",
            "gauge",
            "Limit of the control for all subscribers together, in IP bytes per second.",
        );
        p.value("aggregate_limit_bytes_per_second", "", all.0 as f64 / 8.0);
    }
    p.family("fairness_ratio", "gauge", "Jain's index of rate by weight at the last sample.");
    for d in 0..2 {
        if let Some(jain) = report::fairness(governor, d) {
            p.value("fairness_ratio", &format!("direction=\"{}\"", direction_name(d)), jain);
        }
    }
    p.family(
        "unmapped_bytes_total",
        "counter",
        "Frame bytes of traffic that belongs to no subscriber.",
    );
    for (d, counters) in host.sent().into_iter().enumerate() {
        if let Some(c) = counters {
            let labels = format!("direction=\"{}\"", direction_name(d));
            // Unmapped traffic that has a share is in one of the subscribers' classes.
            let shared = governor.unmapped().map_or(0, |m| governor.frame_bytes(m, d));
            p.value("unmapped_bytes_total", &labels, (c.unmapped + shared) as f64);
        }
    }
    if let Some(peers) = peers {
        others(&mut p, peers);
    }
    if let Some(signs) = signs {
        headers(&mut p, signs);
    }
    if let Some(history) = history {
        kept(&mut p, history);
    }
    totals(&mut p, host, now, per_subscriber);
    p.0
}

/// Writes the metrics of the history.
fn kept(p: &mut Page, report: &HistoryReport) {
    p.family("history_writable", "gauge", "1 while the history can be written.");
    p.value("history_writable", "", f64::from(u8::from(report.problem.is_none())));
    p.family("history_bytes", "gauge", "Size of the history.");
    p.value("history_bytes", "", report.bytes as f64);
    p.family("history_lost_minutes_total", "counter", "Minutes that could not be written.");
    p.value("history_lost_minutes_total", "", report.lost as f64);
}

/// Writes the metrics of the TCP header reader.
fn headers(p: &mut Page, report: &SignsReport) {
    p.family("signs_reading", "gauge", "1 while TCP headers are read.");
    p.value("signs_reading", "", f64::from(u8::from(report.state == "reading")));
    p.family("signs_packets_total", "counter", "TCP packets that passed while headers were read.");
    p.value("signs_packets_total", "", report.packets as f64);
    p.family(
        "signs_lost_packets_total",
        "counter",
        "TCP packets not read because their headers arrived too fast.",
    );
    p.value("signs_lost_packets_total", "", report.lost as f64);
    p.family("signs_connections", "gauge", "Known TCP connections.");
    p.value("signs_connections", "", report.connections as f64);
    let Some(probes) = &report.probes else { return };
    p.family(
        "probes_sent_total",
        "counter",
        "Echo probes sent to homes without other round trips.",
    );
    p.value("probes_sent_total", "", probes.sent as f64);
    p.family("probes_answered_total", "counter", "Echo probes that were answered.");
    p.value("probes_answered_total", "", probes.answered as f64);
    p.family("probes_silent", "gauge", "Homes that do not respond to echo probes.");
    p.value("probes_silent", "", probes.silent as f64);
}

/// Writes the metrics of the other gateways.
fn others(p: &mut Page, report: &PeersReport) {
    p.family("peer_up", "gauge", "1 while another gateway is active.");
    let labels = |peer: &PeerReport| format!("peer=\"{}\"", peer.address);
    for peer in &report.peers {
        p.value("peer_up", &labels(peer), f64::from(u8::from(peer.state == "here")));
    }
    type Get = fn(&PeerReport) -> u64;
    let families: [(&str, &str, Get); 4] = [
        ("peer_sent_datagrams_total", "Datagrams sent to another gateway.", |p| p.sent),
        ("peer_received_datagrams_total", "Accepted datagrams from another gateway.", |p| {
            p.received
        }),
        (
            "peer_rejected_datagrams_total",
            "Rejected datagrams from the address of another gateway.",
            |p| p.rejected,
        ),
        ("peer_starts_total", "Detected starts of another gateway.", |p| p.starts),
    ];
    for (name, help, get) in families {
        p.family(name, "counter", help);
        for peer in &report.peers {
            p.value(name, &labels(peer), get(peer) as f64);
        }
    }
    p.family("rejected_datagrams_total", "counter", "Rejected datagrams, by cause.");
    for (cause, n) in &report.rejected {
        p.value("rejected_datagrams_total", &format!("cause=\"{cause}\""), *n as f64);
    }
    p.family(
        "governed_by",
        "gauge",
        "Number of the deciding gateway; the own number if this one decides.",
    );
    p.value("governed_by", "", f64::from(report.governed_by.unwrap_or(report.number)));
}

/// Writes the use of quotas.
fn quotas<P: Shaper>(p: &mut Page, host: &Host<P>, per_subscriber: bool) {
    let governor = &host.governor;
    let report = |m: &Member| {
        let quota = governor.calendar.quota(&m.subscriber.name, &m.subscriber.plan)?;
        Some((escape(&m.subscriber.name), quota))
    };
    let all: Vec<(String, QuotaReport)> = governor.members().iter().filter_map(report).collect();
    if all.is_empty() {
        return;
    }
    p.family("quotas", "gauge", "Subscribers with a quota, by whether it is used up.");
    for used in [false, true] {
        let n = all.iter().filter(|(_, q)| (q.remaining_bytes == 0) == used).count();
        p.value("quotas", &format!("used_up=\"{used}\""), n as f64);
    }
    if !per_subscriber {
        return;
    }
    type Get = fn(&QuotaReport) -> Option<u64>;
    let families: [(&str, &str, Get); 3] = [
        ("subscriber_quota_bytes", "IP bytes of the quota.", |q| Some(q.quota_bytes)),
        ("subscriber_quota_used_bytes", "IP bytes used in this period.", |q| Some(q.used_bytes)),
        (
            "subscriber_quota_end_timestamp_seconds",
            "End of the period, seconds since 1970; absent while the clock is not set.",
            |q| q.until_unix_seconds,
        ),
    ];
    for (name, help, get) in families {
        p.family(name, "gauge", help);
        for (subscriber, quota) in &all {
            if let Some(value) = get(quota) {
                p.value(name, &format!("subscriber=\"{subscriber}\""), value as f64);
            }
        }
    }
}

/// Writes the totals of each subscriber or of all together.
fn totals<P: Shaper>(p: &mut Page, host: &Host<P>, now: Time, per_subscriber: bool) {
    let governor = &host.governor;
    type Get = fn(&crate::gateway::governor::DirectionState, Time) -> f64;
    let families: [(&str, &str, Get); 3] = [
        ("sent_bytes_total", "IP bytes sent.", |w, _| w.meter.bytes as f64),
        ("sent_packets_total", "Packets sent.", |w, _| w.meter.packets as f64),
        ("dropped_packets_total", "Packets dropped at a full queue.", |w, _| w.meter.drops as f64),
    ];
    for (name, help, get) in families {
        p.family(name, "counter", help);
        for d in 0..2 {
            let sum: f64 = governor.members().iter().map(|m| get(&m.directions[d], now)).sum();
            p.value(name, &format!("direction=\"{}\"", direction_name(d)), sum);
        }
    }
    quotas(p, host, per_subscriber);
    if !per_subscriber {
        return;
    }
    let families: [(&str, &str, &str, Get); 6] = [
        ("subscriber_sent_bytes_total", "counter", "IP bytes sent.", |w, _| w.meter.bytes as f64),
        (
            "subscriber_dropped_packets_total",
            "counter",
            "Packets dropped at a full queue.",
            |w, _| w.meter.drops as f64,
        ),
        (
            "subscriber_rate_bytes_per_second",
            "gauge",
            "IP bytes per second at the last sample.",
            |w, _| w.meter.rate.map_or(f64::NAN, |r| r.0 as f64 / 8.0),
        ),
        (
            "subscriber_limit_bytes_per_second",
            "gauge",
            "Limit in force, in IP bytes per second; absent if there is none.",
            |w, _| w.in_force.map_or(f64::NAN, |r| r.0 as f64 / 8.0),
        ),
        (
            "subscriber_round_trip_seconds",
            "gauge",
            "Median round trip through the mesh in the last sample with one.",
            |w, now| w.signs.trip(now).map_or(f64::NAN, |(_, t)| t.median.as_secs_f64()),
        ),
        (
            "subscriber_base_round_trip_seconds",
            "gauge",
            "Least round trip through the mesh of the last one to two minutes.",
            |w, now| w.signs.trip(now).map_or(f64::NAN, |(_, t)| t.base.as_secs_f64()),
        ),
    ];
    for (name, kind, help, get) in families {
        p.family(name, kind, help);
        for m in governor.members() {
            for d in 0..2 {
                let value = get(&m.directions[d], now);
                if !value.is_nan() {
                    let subscriber = escape(&m.subscriber.name);
                    let labels =
                        format!("subscriber=\"{subscriber}\",direction=\"{}\"", direction_name(d));
                    p.value(name, &labels, value);
                }
            }
        }
    }
}
