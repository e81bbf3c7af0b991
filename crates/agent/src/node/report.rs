//! Reports of `status` and `why` as data and as text.

use std::fmt::Write;

use fairmesh_units::BitRate;
use serde::{Deserialize, Serialize};

use super::machine::Carrier;
use super::message::Role;
use super::rig::Decision;

/// Version of the `--json` format.
pub const SCHEMA: u32 = 1;

/// A request to the daemon of a router.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The state of the daemon.
    Status,
    /// The last decisions.
    Why,
}

/// A mesh interface.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct InterfaceReport {
    /// Name.
    pub name: String,
    /// True if messages are exchanged over it.
    pub talks: bool,
    /// Carrier of sent messages; `None`: none are sent.
    #[serde(default)]
    pub carrier: Option<Carrier>,
    /// True if they are sent by UDP, too, for a neighbour that sends no action frames.
    #[serde(default)]
    pub also_udp: bool,
    /// Reason for which a mesh point sends no action frames.
    #[serde(default)]
    pub refusal: Option<String>,
    /// True if its driver reports neighbours.
    pub stations: bool,
    /// True if its driver reports the use of its channel.
    pub survey: bool,
}

/// A neighbour.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct NeighbourReport {
    /// Ethernet address.
    pub mac: String,
    /// Mesh interface.
    pub interface: String,
    /// Role that it announces; `None`: it runs no daemon, or its messages do not arrive.
    pub role: Option<Role>,
    /// Carrier of its messages.
    #[serde(default)]
    pub carrier: Option<Carrier>,
    /// Nominal rate of the link.
    pub rate_bits_per_second: Option<u64>,
    /// Capacity of the link in IP bytes.
    pub capacity_bits_per_second: Option<u64>,
    /// Accepted messages.
    pub messages: u64,
    /// Messages that were lost on the way.
    pub lost: u64,
}

/// The limit on local traffic.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct LimitReport {
    /// Interface over which the traffic leaves.
    pub interface: String,
    /// Rate of IP bytes; `None`: unlimited.
    pub bits_per_second: Option<u64>,
    /// True if it is in the kernel; false in mode "observe".
    pub applied: bool,
}

/// Marks by ECN.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct MarkingReport {
    /// Chance of each packet that ECN permits to mark.
    pub probability: f64,
    /// True if they are in force; false in mode "observe".
    pub applied: bool,
}

/// Airtime of the packets to a next hop.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ShareReport {
    /// Ethernet address of the next hop.
    pub next_hop: String,
    /// Decided share of the airtime.
    pub share: f64,
    /// Limit that gives it, in Ethernet frames' bytes; `None` until a transfer has been measured.
    pub bits_per_second: Option<u64>,
    /// True if it is in the kernel; false in mode "observe".
    pub applied: bool,
}

/// Limit of a flow that enters the mesh here.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct FlowReport {
    /// IPv4 address of the home, or the folded first half of its IPv6 address in that form.
    pub home: String,
    /// True for a download.
    pub download: bool,
    /// Rate of IP bytes; `None`: unlimited.
    pub bits_per_second: Option<u64>,
    /// True if it is in the kernel; false in mode "observe".
    pub applied: bool,
}

/// Refused messages.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct RefusedReport {
    /// Cause.
    pub cause: String,
    /// Number of messages.
    pub messages: u64,
}

/// Orders of a gateway to this router.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct OrdersReport {
    /// Accepted orders.
    pub accepted: u64,
    /// Refused orders by cause.
    pub refused: Vec<RefusedReport>,
}

/// The state of the daemon.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Status {
    /// Version of the format.
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// Time since the start, in s.
    pub uptime_seconds: f64,
    /// Mode.
    pub mode: String,
    /// Routing.
    pub routing: String,
    /// Role of this router.
    pub role: Role,
    /// Number of this router in the mesh; 0 while no interface exists.
    pub number: u32,
    /// Control with its variants.
    pub control: String,
    /// True if the control runs.
    pub running: bool,
    /// Reason for which it does not run.
    pub waits: Option<String>,
    /// Mesh interfaces.
    pub interfaces: Vec<InterfaceReport>,
    /// Share of the time for which the channel of the first hop was busy in the last second.
    pub channel_busy: Option<f64>,
    /// Neighbours.
    pub neighbours: Vec<NeighbourReport>,
    /// The limit on local traffic.
    pub limit: Option<LimitReport>,
    /// Marks of packets that leave this router.
    pub marking: Option<MarkingReport>,
    /// Airtime of the packets to each next hop that has a limit.
    #[serde(default)]
    pub shares: Vec<ShareReport>,
    /// Limits of flows that enter the mesh here.
    #[serde(default)]
    pub flows: Vec<FlowReport>,
    /// Number of sent messages, by the busiest interface.
    pub sent_messages: u64,
    /// Orders of a gateway; `None` if the control takes none, or their port is closed.
    #[serde(default)]
    pub orders: Option<OrdersReport>,
    /// Refused messages by cause, without those of this router.
    pub refused: Vec<RefusedReport>,
    /// Address and cause of the last refused message, with a remedy if there is one.
    pub last_refused: Option<String>,
    /// Events by name.
    pub events: Vec<(String, u64)>,
}

/// The last decisions.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct WhyReport {
    /// Version of the format.
    pub schema: u32,
    /// Control with its variants.
    pub control: String,
    /// Reason for which it does not run.
    pub waits: Option<String>,
    /// The limit on local traffic.
    pub limit: Option<LimitReport>,
    /// Time since the start, in s.
    pub uptime_seconds: f64,
    /// Last decisions, the newest last.
    pub decisions: Vec<Decision>,
}

fn rate(bits: Option<u64>) -> String {
    bits.map_or("unknown".to_owned(), |bits| BitRate(bits).to_string())
}

fn limit_text(limit: &LimitReport) -> String {
    let rate = match limit.bits_per_second {
        Some(bits) => BitRate(bits).to_string(),
        None => "unlimited".to_owned(),
    };
    let force = if limit.applied { "in force" } else { "observed only" };
    format!("local traffic over {}: {rate}, {force}", limit.interface)
}

/// Returns the text of `status`.
pub fn status_text(s: &Status) -> String {
    let mut out = String::new();
    let control = match (&s.waits, s.running) {
        (_, true) => format!("{} runs", s.control),
        (Some(why), _) => format!("{} waits: {why}", s.control),
        (None, false) => format!("{}: no control", s.control),
    };
    let _ =
        writeln!(out, "{} {}, mode {}, {}; {control}", s.role.name(), s.number, s.mode, s.routing);
    for i in &s.interfaces {
        let state = match (i.talks, i.stations, i.survey) {
            (false, ..) => "absent or down",
            (_, true, true) => "radio with the use of its channel",
            (_, true, false) => "radio without the use of its channel",
            (_, false, _) => "no radio",
        };
        let carrier = match (i.carrier, &i.refusal, i.also_udp) {
            (None, ..) => String::new(),
            (Some(c), Some(why), _) => format!(", messages by {} ({why})", c.text()),
            (Some(c), None, true) => format!(", messages by {} and UDP", c.text()),
            (Some(c), None, false) => format!(", messages by {}", c.text()),
        };
        let _ = writeln!(out, "interface {}: {state}{carrier}", i.name);
    }
    if let Some(busy) = s.channel_busy {
        let _ = writeln!(out, "channel: {:.0} % busy", busy * 100.0);
    }
    if s.neighbours.is_empty() {
        let _ = writeln!(out, "no neighbour");
    }
    for n in &s.neighbours {
        let role = match (n.role, n.carrier) {
            (None, _) => "no messages".to_owned(),
            (Some(role), None) => role.name().to_owned(),
            (Some(role), Some(carrier)) => format!("{} by {}", role.name(), carrier.text()),
        };
        let _ = writeln!(
            out,
            "neighbour {} on {}: {role}, rate {}, capacity {}, {} messages, {} lost",
            n.mac,
            n.interface,
            rate(n.rate_bits_per_second),
            rate(n.capacity_bits_per_second),
            n.messages,
            n.lost
        );
    }
    if let Some(limit) = &s.limit {
        let _ = writeln!(out, "{}", limit_text(limit));
    }
    if let Some(m) = &s.marking {
        let force = if m.applied { "in force" } else { "observed only" };
        let _ = writeln!(out, "marks: {:.1} % of packets with ECN, {force}", m.probability * 100.0);
    }
    for share in &s.shares {
        let force = if share.applied { "in force" } else { "observed only" };
        let rate =
            share.bits_per_second.map_or("no limit yet".to_owned(), |b| BitRate(b).to_string());
        let _ = writeln!(
            out,
            "next hop {}: {:.1} % of the air, {rate}, {force}",
            share.next_hop,
            share.share * 100.0
        );
    }
    for flow in &s.flows {
        let force = if flow.applied { "in force" } else { "observed only" };
        let way = if flow.download { "downloads" } else { "uploads" };
        let rate = flow.bits_per_second.map_or("unlimited".to_owned(), |b| BitRate(b).to_string());
        let _ = writeln!(out, "{way} of {}: {rate}, {force}", flow.home);
    }
    if let Some(orders) = &s.orders {
        let refused: Vec<String> =
            orders.refused.iter().map(|r| format!(", {} {}", r.messages, r.cause)).collect();
        let _ = writeln!(out, "orders: {} accepted{}", orders.accepted, refused.concat());
    }
    let refused: Vec<String> =
        s.refused.iter().map(|r| format!("{} {}", r.messages, r.cause)).collect();
    if !refused.is_empty() {
        let _ = writeln!(out, "refused messages: {}", refused.join(", "));
    }
    if let Some(last) = &s.last_refused {
        let _ = writeln!(out, "last refused: {last}");
    }
    out
}

/// Returns the text of `why`.
pub fn why_text(w: &WhyReport) -> String {
    let mut out = String::new();
    match (&w.waits, &w.limit) {
        (Some(why), _) => {
            let _ = writeln!(out, "{} waits: {why}", w.control);
        }
        (None, Some(limit)) => {
            let _ = writeln!(out, "{}", limit_text(limit));
        }
        (None, None) => {
            let _ = writeln!(out, "{} has set no limit of all local traffic", w.control);
        }
    }
    for d in w.decisions.iter().rev() {
        let age = (w.uptime_seconds - d.at).max(0.0);
        let _ = writeln!(out, "{age:8.1} s ago  {}: {}", d.code, d.text);
    }
    out
}
