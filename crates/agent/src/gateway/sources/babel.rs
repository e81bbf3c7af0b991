//! Babel's local interface (babeld -G): the answer to `dump`.

use std::collections::BTreeSet;

use super::{Found, Nodes};
use crate::gateway::config::prefix;

/// Whether the answer to `dump` has come: a greeting that ends in `ok`, then the dump's own `ok`.
pub(super) fn is_complete(text: &str) -> bool {
    let refused = text.lines().any(|l| l.starts_with("bad") || l.starts_with("no "));
    refused || text.lines().any(|l| l.starts_with("add ")) && text.trim_end().ends_with("\nok")
}

/// A node per router id, with all prefixes that it announces and that are installed.
pub(super) fn read(text: &str) -> Result<Vec<Found>, String> {
    if !text.starts_with("BABEL ") {
        return Err("not Babel's local interface".into());
    }
    if let Some(refusal) = text.lines().find(|l| l.starts_with("bad") || l.starts_with("no ")) {
        // Whoever listens on that port chooses the words.
        return Err(format!("refused: {}", super::excerpt(refusal)));
    }
    let own: BTreeSet<&str> =
        text.lines().filter_map(|l| l.strip_prefix("my-id ")).map(str::trim).collect();
    let mut out = Nodes::default();
    for line in text.lines().filter(|l| l.starts_with("add route ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |key: &str| {
            let at = words.iter().position(|w| *w == key)?;
            words.get(at + 1).copied()
        };
        let (Some(id), Some(net)) = (after("id"), after("prefix").and_then(prefix)) else {
            continue;
        };
        // Source-specific routes are somebody's way out, not somebody's address.
        let everywhere = |from: &str| from == "0.0.0.0/0" || from == "::/0";
        if after("installed") != Some("yes")
            || own.contains(id)
            || !after("from").is_none_or(everywhere)
        {
            continue;
        }
        if let Some(found) = out.node(id) {
            found.add_prefix(net);
        }
    }
    Ok(out.list())
}
