//! Babel's local interface (babeld -G): the response to `dump`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{NextNode, Nodes, Omission, Reading, SourceError};
use crate::gateway::config::prefix;

/// Metric from which a route is retracted (RFC 8966 §2.1).
const INFINITY: u64 = 65_535;

/// Progress of a response, by its whole lines.
///
/// Each part, the greeting and the dump, ends with a line `ok`, or with `no` or `bad`, with a reason or without.
#[derive(Default, Debug)]
pub(super) struct Progress {
    /// Bytes that belong to whole lines.
    read: usize,
    ended: usize,
    refusal: Option<String>,
}

/// Lines that end a part: the greeting's and the dump's.
const DUMP_PARTS: usize = 2;

impl Progress {
    /// True if the response is complete. `bytes` is all of it so far.
    pub fn complete(&mut self, bytes: &[u8]) -> bool {
        while let Some(length) = bytes[self.read..].iter().position(|b| *b == b'\n') {
            let line = String::from_utf8_lossy(&bytes[self.read..self.read + length]);
            self.read += length + 1;
            let line = line.trim_end();
            match line.split(' ').next().unwrap_or_default() {
                "ok" if line == "ok" => self.ended += 1,
                "no" | "bad" => self.refusal = Some(super::excerpt(line)),
                _ => {}
            }
            if self.ended == DUMP_PARTS || self.refusal.is_some() {
                return true;
            }
        }
        false
    }
}

/// Returns a node per router id, with all installed prefixes that it announces.
pub(super) fn read(text: &str) -> Result<Reading, SourceError> {
    if !text.starts_with("BABEL ") {
        return Err(SourceError::NotBabel);
    }
    let mut progress = Progress::default();
    let complete = progress.complete(text.as_bytes());
    if let Some(refusal) = progress.refusal {
        return Err(SourceError::Refused(refusal));
    }
    if !complete {
        return Err(SourceError::NoEnd);
    }
    let own: BTreeSet<&str> =
        text.lines().filter_map(|l| l.strip_prefix("my-id ")).map(str::trim).collect();
    let mut out = Nodes::default();
    // Next hops of routers by their cheapest installed route, and the router that each next hop is.
    let mut hops: BTreeMap<String, (u64, IpAddr)> = BTreeMap::new();
    let mut neighbours: BTreeMap<IpAddr, String> = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("add route ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |key: &str| {
            let at = words.iter().position(|w| *w == key)?;
            words.get(at + 1).copied()
        };
        let (Some(id), Some(net)) = (after("id"), after("prefix").and_then(prefix)) else {
            out.omit(Omission::Malformed);
            continue;
        };
        if own.contains(id) {
            out.omit(Omission::Own);
            continue;
        }
        let everywhere = |from: &str| from == "0.0.0.0/0" || from == "::/0";
        let retracted =
            after("metric").and_then(|m| m.parse().ok()).is_some_and(|m: u64| m >= INFINITY);
        let why = if retracted {
            Some(Omission::Unreachable)
        } else if !after("from").is_none_or(everywhere) {
            // Source-specific routes lead out of the mesh.
            Some(Omission::SourceSpecific)
        } else if after("installed") != Some("yes") {
            Some(Omission::Alternative)
        } else {
            None
        };
        let Some(node) = out.node(id) else { continue };
        match why {
            Some(why) => out.omit(why),
            None => {
                node.add_prefix(net);
                let id = node.found.name.clone();
                let number = |key: &str| after(key).and_then(|m| m.parse::<u64>().ok());
                let next = after("via").and_then(|via| via.parse::<IpAddr>().ok());
                if let (Some(next), Some(metric)) = (next, number("metric")) {
                    // What a neighbour announces at no cost is its own.
                    if number("refmetric") == Some(0) {
                        neighbours.entry(next).or_insert_with(|| id.clone());
                    }
                    let known = hops.entry(id).or_insert((metric, next));
                    *known = (metric, next).min(*known);
                }
            }
        }
    }
    for (id, (_, next)) in hops {
        let via = match neighbours.get(&next) {
            Some(router) if *router == id => NextNode::DIRECT,
            Some(router) => NextNode::first_hop(router, None),
            None => NextNode::first_hop(&next.to_string(), None),
        };
        if let Some(node) = out.known(&id) {
            node.via = Some(via);
        }
    }
    Ok(out.list())
}
