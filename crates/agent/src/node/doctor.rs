//! Search for causes of missing neighbours and ineffective limits.

use fairmesh_linux::{Error, LocalShaper, link};

use super::config::{Config, MESSAGE_PORT, ORDER_PORT, Routing};
use super::machine::Carrier;
use super::report::Status;
use crate::gateway::config::Mode;
use crate::gateway::doctor::{Finding, Verdict};
use crate::gateway::exchange::read_key;

/// Uptime from which a missing neighbour is a finding, in s.
const MIN_UPTIME_S: f64 = 10.0;
/// Share of lost messages from which a link is suspicious.
const LOSSY_FRACTION: f64 = 0.5;
/// Messages from which a share of losses counts.
const MIN_MESSAGES: u64 = 50;

/// Runs all checks. `status`: that of the running daemon, if one runs.
pub fn examine(config: &Config, status: Option<&Status>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |code, verdict, text: String| found.push(Finding { code, verdict, text });
    match read_key(&config.key) {
        Ok(_) => add("key", Verdict::Fine, format!("{} is readable", config.key.display())),
        Err(e) => add("key", Verdict::Wrong, e.to_string()),
    }
    for name in &config.interfaces {
        let (verdict, text) = interface(config, name.name());
        add("interface", verdict, text);
    }
    if config.mode == Mode::Apply && status.is_none() {
        for place in config.places() {
            let (verdict, text) = match LocalShaper::check(&place) {
                Ok(()) => (Verdict::Fine, format!("{} is free for a limit", place.interface)),
                Err(e) => (Verdict::Wrong, e.to_string()),
            };
            add("limit", verdict, text);
        }
    }
    match status {
        Some(status) => of_daemon(status, &mut add),
        None => add(
            "daemon",
            Verdict::Unknown,
            "fairmesh-node is not running, so neighbours are unknown".into(),
        ),
    }
    found
}

/// Checks one mesh interface.
fn interface(config: &Config, name: &str) -> (Verdict, String) {
    let link = match link::named(name) {
        Ok(link) => link,
        Err(Error::NoInterface(_)) => {
            return (Verdict::Wrong, format!("{name}: no such interface"));
        }
        Err(e) => return (Verdict::Unknown, format!("{name}: {e}")),
    };
    if !link.up {
        return (Verdict::Wrong, format!("{name} is down; run `ip link set {name} up`"));
    }
    if config.routing != Routing::BatmanAdv {
        return (Verdict::Fine, format!("{name} is up"));
    }
    let over = link::named(config.batman.name()).map(|b| b.index);
    match over {
        Ok(index) if link.controller == Some(index) => {
            (Verdict::Fine, format!("{name} is up and part of {}", config.batman))
        }
        Ok(_) => (
            Verdict::Wrong,
            format!(
                "{name} is not part of {}; run `batctl meshif {} interface add {name}`",
                config.batman, config.batman
            ),
        ),
        Err(e) => (Verdict::Wrong, format!("batman: {e}")),
    }
}

/// Checks the daemon's view of its neighbours and its control.
pub(super) fn of_daemon(status: &Status, add: &mut impl FnMut(&'static str, Verdict, String)) {
    let settled = status.uptime_seconds >= MIN_UPTIME_S;
    match (&status.waits, status.running) {
        (Some(why), _) if settled => {
            add("control", Verdict::Suspicious, format!("{} waits: {why}", status.control))
        }
        (_, true) => add("control", Verdict::Fine, format!("{} runs", status.control)),
        _ => {}
    }
    for name in status.interfaces.iter().filter(|i| !i.talks).map(|i| &i.name) {
        let text = format!(
            "no messages over {name}: the interface is absent or down, or UDP port {MESSAGE_PORT} is in use"
        );
        add("messages", Verdict::Wrong, text);
    }
    if status.control.contains("+agents") && status.orders.is_none() {
        let text =
            format!("orders of the gateway are not received: UDP port {ORDER_PORT} is in use");
        add("orders", Verdict::Wrong, text);
    }
    for i in &status.interfaces {
        let Some(carrier) = i.carrier else { continue };
        let (verdict, text) = match &i.refusal {
            None => (Verdict::Fine, format!("{} sends messages by {}", i.name, carrier.text())),
            Some(why) => (
                Verdict::Suspicious,
                format!(
                    "{} sends messages by UDP, which the mesh floods and neighbours of an earlier version do not \
                     receive: {why}",
                    i.name
                ),
            ),
        };
        add("carrier", verdict, text);
    }
    for n in &status.neighbours {
        let on = status.interfaces.iter().find(|i| i.name == n.interface);
        let lost = match on.and_then(|i| i.carrier) {
            Some(Carrier::ActionFrames) => "its driver sends no action frames and ",
            _ => "",
        };
        let sent = n.messages + n.lost;
        let (verdict, text) = match n.role {
            None if settled => (
                Verdict::Suspicious,
                format!(
                    "no messages from {} on {}: it runs no fairmesh-node, has another key, or {lost}a firewall \
                     drops UDP port {MESSAGE_PORT}",
                    n.mac, n.interface
                ),
            ),
            Some(_) if sent >= MIN_MESSAGES && n.lost as f64 > LOSSY_FRACTION * sent as f64 => (
                Verdict::Suspicious,
                format!("{} of {sent} messages of {} are lost", n.lost, n.mac),
            ),
            Some(role) => (Verdict::Fine, format!("{} sends messages as {}", n.mac, role.name())),
            None => continue,
        };
        add("neighbour", verdict, text);
    }
    if status.neighbours.is_empty() && settled {
        add("neighbour", Verdict::Suspicious, "there is no neighbour".into());
    }
    if let Some(last) = &status.last_refused {
        add("refused", Verdict::Suspicious, format!("the last refused message: {last}"));
    }
}
