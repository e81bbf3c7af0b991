//! A survey as a configuration, and as a summary for the operator.

use std::fmt::Write;
use std::path::Path;

use fairmesh_units::BitRate;

use super::{Home, Station, Survey};
use crate::gateway::config::{Endpoint, is_shown};

/// Most homes that the configuration lists as comments.
const MAX_LISTED_HOMES: usize = 200;
/// Most addresses of a home in that list.
const MAX_LISTED_ADDRESSES: usize = 16;
/// Longest line of text from outside, characters.
const MAX_LINE_CHARS: usize = 400;
/// Rates that a configuration accepts.
const VALID_RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// Returns a text as a TOML basic string.
///
/// JSON's escapes are a part of TOML's; DEL is only forbidden in TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

/// Returns untrusted text on one line, safe in a comment and on a terminal.
pub(super) fn line(text: &str) -> String {
    let shown = |c: char| if is_shown(c) { c } else { '\u{fffd}' };
    let mut out: String = text.chars().take(MAX_LINE_CHARS).map(shown).collect();
    if text.chars().nth(MAX_LINE_CHARS).is_some() {
        out.push('…');
    }
    out
}

/// Returns a neighbour's nominal rate, if a configuration accepts it.
pub(super) fn rate(n: &Station) -> Option<BitRate> {
    n.rate.filter(|r| VALID_RATES.contains(&r.0))
}

/// Returns the rate control's expected throughput, if it is possible at the nominal rate.
fn expected(n: &Station) -> Option<BitRate> {
    let most = rate(n)?.0;
    n.expected.filter(|r| VALID_RATES.contains(&r.0) && r.0 <= most)
}

/// Returns a rate in whole kbit/s, rounded down.
fn kbit(rate: BitRate) -> String {
    format!("\"{} kbit/s\"", rate.0 / 1000)
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.map(|i| quoted(&i)).collect::<Vec<_>>().join(", ")
}

/// Returns the configuration of a survey; an incomplete survey gives one without interfaces.
pub fn configuration(survey: &Survey) -> String {
    let mut out = String::new();
    let mut put = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    put(
        "# fairmesh gateway, written by `fairmesh-gateway init`. Mode \"observe\": no limits are set.",
    );
    put(
        "# Keys: docs/gateway-keys.md. After a change: fairmesh-gateway check && fairmesh-gateway reload",
    );
    put("#");
    put("# To fill in or to check:");
    for item in &survey.to_do {
        put(&format!("# - {}: {}", item.code, line(&item.text)));
    }
    put("");
    put("# \"observe\" measures and reports the limits that \"apply\" would set.");
    put("mode = \"observe\"");
    put("");
    put("# Traffic of addresses that belong to no home: one share for all of it.");
    put("unmapped = \"share\"");
    for (table, side, chosen) in [
        ("mesh", "Homes are on this side", &survey.mesh),
        ("wired", "The Internet is on this side", &survey.wired),
    ] {
        let Some(chosen) = chosen else { continue };
        put("");
        put(&format!("# {side}: {}.", line(&chosen.reason)));
        put(&format!("[{table}]"));
        put(&format!("interface = {}", quoted(chosen.interface.name())));
    }
    let usable: Vec<&Station> = survey.neighbours.iter().filter(|n| rate(n).is_some()).collect();
    put("");
    if usable.is_empty() {
        put(
            "# `fifo` only measures and sets plans. With [[neighbour]] below: use = \"pfrc+bursts\".",
        );
        put("[control]");
        put("use = \"fifo\"");
        put("");
        put(
            "# A direct neighbour in the mesh: the rate of its link, or better the measured goodput of one transfer.",
        );
        put("#[[neighbour]]");
        put("#name = \"north\"");
        put("#rate = \"54 Mbit/s\"");
    } else {
        put("# The control; `fairmesh-gateway check` lists all for an unknown name.");
        put("[control]");
        put("use = \"pfrc+bursts\"");
        put("");
        put(
            "# Direct neighbours, with the rates at which the driver sends to them. They bound every limit. By `mac` the",
        );
        put(
            "# daemon follows the driver's rates; replace `rate` and `mac` by a measured `capacity` to fix the bound.",
        );
    }
    for n in usable {
        let signal = n.signal.map_or_else(String::new, |s| format!(", {s} dBm"));
        put(&format!("# {} on {}{signal}", n.mac, line(&n.interface)));
        put("[[neighbour]]");
        put(&format!("name = {}", quoted(&n.name)));
        put(&format!("rate = {}", kbit(rate(n).unwrap_or_default())));
        put(&format!("mac = \"{}\"", n.mac));
        if let Some(expected) = expected(n) {
            put(&format!("#capacity = {} # expected by the driver's rate control", kbit(expected)));
        }
    }
    put("");
    put("# The subscribed rates of a home. Without them homes share equally.");
    put("[plan.home]");
    put("weight = 1");
    put("#down = \"20 Mbit/s\"");
    put("#up = \"5 Mbit/s\"");
    put("");
    discover(survey, &mut put);
    homes(&survey.homes, &mut put);
    out
}

/// Adds the table `[discover]`.
fn discover(survey: &Survey, put: &mut impl FnMut(&str)) {
    let d = &survey.discover;
    let chosen =
        survey.sources.iter().find(|s| Some(s.kind) == survey.source && s.report.subscribers > 0);
    if let Some(chosen) = chosen {
        put(&format!("# {}: {}.", line(&chosen.report.name), line(&chosen.report.counts())));
    }
    put("[discover]");
    if let Some(path) = &d.netjson {
        put(&format!("netjson = {}", quoted(&path.to_string_lossy())));
    }
    if let Some(interface) = &d.batman {
        put(&format!("batman = {}", quoted(interface)));
    }
    if let Some(address) = &d.olsr {
        put(&format!("olsr = {}", quoted(&address.to_string())));
    }
    match &d.babel {
        Some(Endpoint::Tcp(address)) => put(&format!("babel = {}", quoted(&address.to_string()))),
        Some(Endpoint::Unix(path)) => put(&format!("babel = {}", quoted(&path.to_string_lossy()))),
        None => {}
    }
    for (key, on) in
        [("mesh_paths", d.mesh_paths), ("neighbours", d.neighbours), ("routes", d.routes)]
    {
        if on {
            put(&format!("{key} = true"));
        }
    }
    put("plan = \"home\"");
}

/// Adds the homes as comments.
fn homes(homes: &[Home], put: &mut impl FnMut(&str)) {
    put("");
    put(
        "# Homes at the time of the survey; the daemon follows the source. To set a home's name or plan, remove",
    );
    put("# the comment signs of a home and change them.");
    for home in homes.iter().take(MAX_LISTED_HOMES) {
        put("#");
        put("#[[subscriber]]");
        put(&format!("#name = {}", quoted(&home.name)));
        if !home.prefixes.is_empty() {
            let few = home.prefixes.iter().take(MAX_LISTED_ADDRESSES).cloned();
            put(&format!("#prefixes = [{}]", list(few)));
        }
        if !home.macs.is_empty() {
            let few = home.macs.iter().take(MAX_LISTED_ADDRESSES).map(ToString::to_string);
            put(&format!("#macs = [{}]", list(few)));
        }
        if let Some(hops) = home.hops {
            put(&format!("#hops = {hops}"));
        }
        put("#plan = \"home\"");
    }
    if homes.len() > MAX_LISTED_HOMES {
        put(&format!("# {} more homes: fairmesh-gateway status", homes.len() - MAX_LISTED_HOMES));
    }
}

/// Returns the summary of a survey; `written`: the file that was written.
pub fn summary(survey: &Survey, written: Option<&Path>) -> String {
    let mut out = String::new();
    let mut put = |what: &str, text: &str| {
        let _ = writeln!(out, "{what:10} {}", line(text));
    };
    for (what, chosen) in [("mesh", &survey.mesh), ("wired", &survey.wired)] {
        match chosen {
            Some(c) => put(what, &format!("{}: {}", c.interface, c.reason)),
            None => put(what, "NOT FOUND"),
        }
    }
    for asked in &survey.sources {
        let report = &asked.report;
        let used = if Some(asked.kind) == survey.source && report.subscribers > 0 {
            " (used)"
        } else {
            ""
        };
        match &report.failed {
            Some(_) if asked.absent => put("source", &format!("{}: not found", report.name)),
            Some(e) => put("source", &format!("{}: FAILED: {e}", report.name)),
            None => put("source", &format!("{}: {}{used}", report.name, report.counts())),
        }
    }
    for n in &survey.neighbours {
        let rate = rate(n).map_or_else(|| "no rate yet".to_owned(), |r| r.to_string());
        put("neighbour", &format!("{} on {}: {rate}", n.name, n.interface));
    }
    for item in &survey.to_do {
        put("TO DO", &format!("{}: {}", item.code, item.text));
    }
    if let Some(path) = written {
        let path = path.display();
        put("written", &format!("{path}; next: fairmesh-gateway check --config {path}"));
    }
    out
}
