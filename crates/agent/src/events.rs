//! Events of both daemons: cause and reaction of each code, and the page of them.

/// Events of one subject.
struct Group {
    title: &'static str,
    /// Markdown before the table.
    note: &'static str,
    events: &'static [Event],
}

/// Codes with one cause and one reaction, in Markdown.
struct Event {
    codes: &'static [&'static str],
    cause: &'static str,
    reaction: &'static str,
}

const fn event(
    codes: &'static [&'static str],
    cause: &'static str,
    reaction: &'static str,
) -> Event {
    Event { codes, cause, reaction }
}

/// Text above the tables.
const INTRODUCTION: &str = "\
# Events

Places: log, `status`, metrics `fairmesh_gateway_events_total` and `fairmesh_node_events_total`. Every fault ends with traffic flowing.

**Safe**: all limits are lifted until two good samples, at most 30 s later if faults repeat. **Degraded**: limits are set \
and ineffective. During a fault the control decides nothing.
";

#[rustfmt::skip] // one event per line
const GATEWAY: &[Group] = &[
    Group {
        title: "Counters and limits",
        note: "",
        events: &[
            event(&["counters.doubtful"], "implausible counters, first time", "none yet"),
            event(&["counters.stuck"], "counters stand still while the interface sends", "second sample: safe"),
            event(&["counters.nonsense"], "most counters are missing, decreased, or too large", "second sample: safe"),
            event(&["counter.missing", "counter.backwards", "counter.absurd"], "the same of one subscriber", "second sample: it is unlimited"),
            event(&["sample.failed"], "counters cannot be read", "second failure: safe"),
            event(&["apply.failed"], "a limit cannot be set", "safe at once"),
            event(&["release.failed"], "limits cannot be lifted", "queues and rules are removed"),
            event(&["renew.failed"], "rules cannot be checked", "third failure, 6 s: safe"),
            event(&["shaping.released", "shaping.resumed"], "begin and end of safe", ""),
            event(&["override.set", "override.ended"], "an operator set a limit by hand; its time is over", ""),
            event(&["audit.failed"], "queues and rules cannot be compared with those that were set", "compared again at the next check"),
            event(&["remove.failed"], "queues and rules cannot be removed", "`fairmesh-gateway reset` shows the obstacle"),
            event(&["relayout.failed"], "classes cannot be added or removed", "classes are unchanged"),
            event(&["shaping.note"], "the kernel lacks a feature, such as a hook at egress", "none"),
        ],
    },
    Group {
        title: "Kernel and other programs",
        note: "",
        events: &[
            event(&["rules.gone"], "rules or map elements were removed or changed", "restored within 2 s"),
            event(&["limits.changed"], "another program changed classes", "set again within 2 s"),
            event(&["interface.lost"], "an interface or our queue is gone, renamed, or changed", "limits of the other side are lifted until it is back"),
            event(&["interface.flapping"], "five losses within a minute", "next attempt after 10 s"),
            event(&["interface.port"], "an interface is a port of a bridge or bond", "degraded; `status` names the bridge"),
            event(&["classifier.failed"], "packets do not reach their classes", "another classifier; without one, degraded"),
            event(&["classifier.changed"], "another classifier is in use", "`status` shows it"),
            event(&["classifier.foreign"], "another program moves packets into a class", "degraded; `status` names it"),
            event(&["classifier.unverified"], "a BPF program on egress, or a computed priority", "`NOT VERIFIED` in `status`; `tcx` programs are not searched"),
            event(&["traffic.bypasses"], "bytes do not pass the queueing discipline", "degraded"),
            event(&["limits.act"], "limits are effective again", ""),
            event(&["install.failed"], "a foreign qdisc or table, swapped interfaces, a missing feature", "nothing is changed; retried, at last every 30 s"),
            event(&["program.busy"], "`nft` takes more than 1 s", "retried; degraded"),
            event(&["shaping.installed", "shaping.relaid", "shaping.moved"], "classes were installed, changed, moved", ""),
            event(&["check.warning"], "one route uses the wrong interface", "none"),
            event(&["interface.down", "interface.up"], "an interface is down; up again", "its counters are read at once"),
        ],
    },
    Group {
        title: "Subscribers and sources",
        note: "",
        events: &[
            event(&["source.failed"], "a source does not respond", "its subscribers stay for `discover.linger`"),
            event(&["quota.used"], "a subscriber's [quota](gateway-plans.md#quotas)", "slower until the period ends"),
            event(&["schedule.changed"], "a [window](gateway-plans.md#schedules) began or ended", "its rates and weight apply"),
            event(&["subscriber.unused"], "part of [LibreQoS's file](gateway-plans.md)", "left out"),
            event(&["subscriber.new", "subscriber.gone"], "discovered; not seen for `discover.linger`", ""),
            event(&["subscriber.renamed"], "another id, the same addresses", "class, counters and override stay"),
            event(&["subscriber.merged"], "two names are one home", "one share"),
            event(&["discover.full", "discover.addresses"], "too many homes or addresses ([limits](gateway-sources.md))", "the rest is left out"),
            event(&["discover.taken"], "an address belongs to another subscriber", "configuration first, then the first owner"),
            event(&["weights.raised"], "ratio above 100 in a shared limit", "the smallest are raised"),
            event(&["subscriber.full"], "no class number is left", "its traffic counts as unmapped"),
        ],
    },
    Group {
        title: "Links and control",
        note: "",
        events: &[
            event(&["neighbour.measured"], "the driver's rate changed by a quarter", "it replaces the rate"),
            event(&["neighbour.binds"], "traffic reached the bound of `[[neighbour]]`", "raise `rate` or set `capacity` if the links carry more"),
            event(&["neighbour.overstates"], "traffic at limits stays below half of the bound", "lower `rate`, or far homes may starve for a while"),
            event(&["pfrc.starved"], "a decision; each control has codes of its own", "`why` shows the reason"),
            event(&["rtt.flood"], "traffic of a subscriber stays above its limit", "`status` marks it"),
            event(&["signs.reading", "signs.unavailable"], "TCP headers are read; cannot be read", "counters are used; retried every 30 s"),
            event(&["signs.withheld"], "no data of a home was acknowledged for a minute", "no longer a sign of a stall"),
            event(&["probe.unavailable"], "echo requests cannot be sent (permission, `IPAddressDeny=`)", "retried every 30 s"),
            event(&["probe.unanswered"], "a home does not respond to echo requests", "probes to it pause"),
            event(&["neighbour.unusable"], "the control refuses the measured rates", "the configured rates stay"),
        ],
    },
    Group {
        title: "Other gateways",
        note: "While limits are lifted for a fault, no counters are sent to other gateways.",
        events: &[
            event(&["peers.unavailable", "agents.unavailable"], "unusable key or port", "retried every 5 s"),
            event(&["peer.here", "peer.restarted"], "another gateway is active; restarted", ""),
            event(&["peer.silent"], "no message for 10 s", "the others continue without it"),
            event(&["peer.refused"], "another key, version, or a used number", "messages are rejected"),
            event(&["peer.unsent"], "sending fails", "as for `peer.silent`"),
        ],
    },
    Group {
        title: "Daemon and files",
        note: "Without daemon and guard, [limits end within 10 s](security.md#daemon-and-guard-killed).",
        events: &[
            event(&["guard.died"], "the daemon was killed", "the guard lifts limits, and removes all after 7 s unless a daemon takes over"),
            event(&["guard.late", "daemon.late"], "no heartbeat for two epochs (5 to 30 s)", "the guard removes queues and rules; the daemon installs them again"),
            event(&["guard.gone"], "the guard was killed or stopped", "replaced within a second, then 5 s later"),
            event(&["guard.superseded"], "a stopped guard wakes late", "it ends and changes nothing"),
            event(&["config.refused"], "an invalid configuration on reload", "the previous one stays in force"),
            event(&["config.fallback"], "`--fall-back` with an invalid file", "the last configuration that worked is used"),
            event(&["state.unreadable"], "not a readable regular file", "start without it"),
            event(&["state.refused"], "an impossible override", "it is discarded"),
            event(&["state.unwritable"], "disk full or read-only", "continues without saving"),
            event(&["page.unavailable"], "address of the page in use", "continues without it"),
            event(&["page.locked"], "five wrong tokens", "overrides by the page are refused for a minute"),
            event(&["metrics.unavailable", "metrics.unwritable"], "port in use; file not writable", "continues; the file is retried"),
            event(&["config.reloaded"], "the configuration was read again", ""),
            event(&["daemon.stopped"], "a signal ended the daemon", "limits are lifted"),
            event(&["run.unregistered"], "the run cannot be registered", "a guard of an earlier daemon may remove limits"),
            event(&["history.clock"], "the clock jumped", "records of this run follow it"),
            event(&["history.cut"], "the last record was incomplete", "it is cut off"),
            event(&["history.unwritable", "history.resumed"], "the history cannot be written; is written again", "minutes in between are lost"),
        ],
    },
];

/// Events of `fairmesh-node`, without those of `daemon`.
#[rustfmt::skip] // one event per line
const NODE: &[Group] = &[
    Group {
        title: "Routers",
        note: "Events of `fairmesh-node`. Those of daemon and files above exist for it, too.",
        events: &[
            event(&["interface.up", "interface.lost"], "messages can be exchanged over an interface; no longer", "neighbours over a lost interface end after 3 s"),
            event(&["carrier.chosen"], "the carrier of messages: action frames or UDP", ""),
            event(&["carrier.fallback"], "the driver refuses action frames", "UDP, which an 802.11s mesh floods"),
            event(&["carrier.mixed"], "a neighbour sends messages by UDP", "messages are sent by both carriers"),
            event(&["neighbour.appeared", "neighbour.gone"], "first message; no message for 3 s", "the mechanism continues with the others"),
            event(&["control.waits"], "the mechanism lacks a router, a measurement or an ability", "nothing is limited or marked; `doctor` explains it"),
            event(&["limit.failed"], "a limit or a mark cannot be set", "nothing is limited or marked; retried"),
            event(&["limit.stays"], "a limit cannot be removed", "`fairmesh-node reset` removes it"),
            event(&["limit.removed"], "an earlier run left a limit", "it is removed"),
            event(&["marks.stay"], "a program of an earlier run cannot be removed", "none; it has no effect"),
            event(&["orders.unavailable"], "the port of the gateway's orders cannot be opened", "the gateway cannot limit a flood here"),
            event(&["order.floor"], "the gateway's limit is below the floor", "the floor is in force"),
            event(&["guard.lapsed"], "the daemon was late; the guard removed the limit", "the mechanism starts again"),
            event(&["config.reloaded", "config.refused"], "the configuration was read again; is invalid, or needs a restart", "the previous one stays in force if it is refused"),
            event(&["state.unreadable", "state.unsaved"], "the state cannot be read; cannot be saved", "neighbours may ignore this router for 10 min"),
        ],
    },
];

/// Returns the page of all events, in Markdown, which `make site` builds.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for Group { title, note, events } in GATEWAY.iter().chain(NODE) {
        page += &format!("\n## {title}\n");
        if !note.is_empty() {
            page += &format!("{note}\n\n");
        }
        page += "| event | cause | reaction |\n|---|---|---|\n";
        for Event { codes, cause, reaction } in *events {
            let codes: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
            page += &format!("| {} | {cause} | {reaction} |\n", codes.join(", "));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Adds the codes of the calls of `note` below a folder, without those of tests.
    fn emitted(folder: &Path, codes: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && name != "tests" {
                emitted(&path, codes);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                for level in ["Level::Info", "Level::Warning", "Level::Error"] {
                    for call in code.split(level).skip(1) {
                        let argument = call.trim_start_matches([',', ' ', '\n']);
                        let text = argument.strip_prefix('"').and_then(|a| a.split_once('"'));
                        // A reason may follow a level, too; codes have no spaces.
                        let code = text.map(|(code, _)| code).filter(|code| !code.contains(' '));
                        codes.extend(code.map(str::to_owned));
                    }
                }
            }
        }
    }

    /// Fails if a call in these folders emits a code that the groups lack.
    fn compare(groups: &[&[Group]], folders: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut codes = BTreeSet::new();
        folders.iter().for_each(|folder| emitted(&source.join(folder), &mut codes));
        assert!(codes.len() > 10, "{codes:?}");
        let events = groups.iter().copied().flatten().flat_map(|g| g.events);
        let listed: Vec<&str> = events.flat_map(|e| e.codes).copied().collect();
        let missing: Vec<_> = codes.iter().filter(|c| !listed.contains(&c.as_str())).collect();
        assert!(missing.is_empty(), "{folders:?}: {missing:?}: no such code in events.rs");
    }

    #[test]
    fn the_page_has_every_event_of_the_daemons() {
        compare(&[GATEWAY], &["gateway", "daemon"]);
        compare(&[GATEWAY, NODE], &["node", "daemon"]);
        for groups in [GATEWAY, NODE] {
            let listed = groups.iter().flat_map(|g| g.events).flat_map(|e| e.codes);
            let mut unique = BTreeSet::new();
            listed.for_each(|code| assert!(unique.insert(code), "{code} is listed twice"));
        }
    }

    #[test]
    fn a_row_of_the_page_has_three_cells() {
        let page = page();
        for row in page.lines().filter(|l| l.starts_with('|')) {
            assert_eq!(row.matches('|').count(), 4, "{row}");
        }
    }
}
