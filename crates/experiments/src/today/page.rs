//! `docs/today.md`, made from the record and nothing else.

use std::fmt::Write as _;

use super::PICTURE;
use super::answers::answers;
use super::means::Means;
use super::record::{Cell, Record};

/// The columns of [`row`], after the case.
pub const COLUMNS: [&str; 7] = [
    "case",
    "starves on",
    "worst, % of the mean",
    "worst, Mbit/s",
    "all, Mbit/s",
    "packets per frame",
    "delay, ms",
];

/// A case over its topologies: where somebody starves, and means.
pub fn row(r: &Record, case: usize) -> [String; 6] {
    let m = Means::of(r, case);
    [
        format!("{} of {}", m.starves, m.of),
        format!("{:.0}", 100.0 * m.worst),
        format!("{:.1}", m.worst_mbit),
        format!("{:.0}", m.sum_mbit),
        format!("{:.1}", m.per_frame),
        m.delay_ms.map_or("–".to_owned(), |d| format!("{d:.0}")),
    ]
}

const HEAD: &str = "\
<!-- Made by `fairmesh-experiments side-by-side --today --page` from reproductions/today/record.json. Do not edit. -->

# Radios of today

Every mesh that somebody runs speaks 802.11n or later: dozens of packets per frame (*A-MPDUs*, aggregates), rates that differ a
hundredfold, a fair scheduler in the driver, TCP CUBIC or BBR. Does somebody still starve there? Who? And does a control help?

";

const READING: &str = "\
A home **starves** when it has less than a tenth of an equal share, the mean over all homes of its network. That is measured against what the network
itself carries, not against an analytic fair rate: with A-MPDUs these are upper bounds over several hops ([model](models/radios-of-today.md#not-modelled)).
*starves on*: networks on which the worst home has less, on average over the seeds. *worst*, *all*, *delay*: means over
the networks and seeds; delay is one way, from the source's queue to the destination.

Every link has one rate; a frame that another one overlaps is lost (`reception = \"nocap\"`, as in the runs that are [compared with
ns-3](models/radios-of-today.md#checked-against)); nobody uses RTS; TCP is as Linux has it (preset `linux`). Homes that are two hops apart do not hear each other where the layout is
drawn with links; nodes with places sense each other up to 550 m and are received up to 250 m.
";

const MAPS: &str = "\
## Your own mesh

A map of yours becomes radios of today by itself ([how](scenarios.md#radios-of-a-map)), with mac80211's queues. Who starves there, and what a control makes of it:

```sh
fairmesh compare map.netjson --gateway 10.254.0.10 --flows down --control fifo,pfrc,maxmin,cna --seeds 3 --duration '120 s'
fairmesh compare map.netjson --gateway 10.254.0.10 --flows down --control fifo,pfrc,maxmin,cna --seeds 3 --duration '120 s' --phy 802.11ac
```

";

const ABSENT: &str = "\
## What is not here

- **More than one channel, and nodes with two radios.** A dual-band mesh is one band here. What a second radio changes is measured apart: [channels.md](channels.md).
- **Access categories.** Every packet is best effort here. What voice has beside downloads is measured apart: [voice.md](voice.md).
- **OFDMA, multi-user MIMO**: not modelled, refused by name. A-MSDUs are there (`amsdu`), and not used here.
- **BBR version 3, QUIC, L4S's Prague** (the simulator has them: [transport](models/transport.md)): BBR here is version 1; Reno and CUBIC are Linux's with RACK-TLP and HyStart++.
- **CAKE** is there as a queue, but needs to be told a rate, so it is not among the cases.
- **A rate control** (Minstrel-HT is there, `adaptation`) and losses by signal and noise (`radio.errors.snr`): every link keeps its rate here, so that a case differs from the next in one
  thing only. Where a receiver can pick the stronger of two frames, hidden senders harm less than they do here.
";

/// The page.
pub fn page(r: &Record) -> String {
    let mut out = HEAD.to_owned();
    let _ = write!(out, "![What the worst-off home gets]({PICTURE})\n\n");
    out += &answers(r);
    out += "\n## How to read it\n\n";
    out += READING;
    let _ = write!(
        out,
        "\n{} cases, {} networks, seeds 1 to {}, {} simulations, fingerprint `{}`. The command:\n\n```sh\n{}\n```\n",
        r.cases.len(),
        r.topologies.len(),
        r.seeds,
        r.runs,
        r.fingerprint,
        r.command
    );
    out += "\n| network | what it is |\n|---|---|\n";
    for t in &r.topologies {
        let _ = writeln!(out, "| {} | {} |", t.label, t.about);
    }
    out += "\n| radio, queue | what it is |\n|---|---|\n";
    for t in &r.terms {
        let _ = writeln!(out, "| {} | {} |", t.name, t.about);
    }
    for (s, section) in r.sections.iter().enumerate() {
        let _ = write!(out, "\n## {}\n\n{}\n\n", section.title, section.about);
        let _ = write!(out, "| {} |\n|{}\n", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
        for (c, case) in r.of_section(s) {
            let _ = writeln!(out, "| {} | {} |", case.label, row(r, c).join(" | "));
        }
        out += &matrix(r, s);
    }
    out.push('\n');
    out += MAPS;
    out += ABSENT;
    out
}

/// Network by network: the worst home in Mbit/s of all together; in bold where somebody starves, and who.
fn matrix(r: &Record, section: usize) -> String {
    let mut out =
        "\nEach cell: worst home / all homes, Mbit/s; in bold who starves.\n\n| case |".to_owned();
    for t in &r.topologies {
        let _ = write!(out, " {} |", t.label);
    }
    out += "\n|---|";
    out += &"---|".repeat(r.topologies.len());
    out.push('\n');
    for (c, case) in r.of_section(section) {
        let _ = write!(out, "| {} |", case.label);
        for t in &r.topologies {
            let cell = r.cells.iter().find(|k| k.case == c && k.topology == t.label);
            let _ = write!(out, " {} |", cell.map_or(String::new(), |k| shown(k, t.flows.len())));
        }
        out.push('\n');
    }
    out
}

fn shown(cell: &Cell, flows: usize) -> String {
    let Some(m) = &cell.measures else { return "no node to run at".to_owned() };
    let number = |v: f64| if v < 10.0 { format!("{v:.2}") } else { format!("{v:.0}") };
    let numbers = format!("{} / {}", number(m.worst_mbit.mean), number(m.sum_mbit.mean));
    match &m.starved[..] {
        [] => numbers,
        some if some.len() > 2 => format!("{numbers} **{} of {flows}**", some.len()),
        some => format!("{numbers} **{}**", some.join(", ").replace("->", "→")),
    }
}
