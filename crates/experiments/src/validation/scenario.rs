//! A row's scenario, from the reference's text format and options.

use std::path::Path;

use fairmesh_lab::LabError;
use fairmesh_scenario::{
    DelayedAck, Draft, FlowDraft, FlowsDraft, LinkDraft, LinkEntry, LlcDraft, Name, NodeDraft,
    Profile, QueueDraft, RadioDraft, ReceptionDraft, RtsDraft, Rules, Scenario, TcpDraft,
    TcpPreset, TopologyDraft, TrafficDraft, TransportDraft,
};
use fairmesh_units::{BitRate, Bytes, Decibel, Distance, Frequency, Span};

use super::reference::{Case, Options, Simulator};

/// Bytes of ns-2's MAC header beyond the 28 of a frame with three addresses.
const NS2_HEADER: Bytes = Bytes(6);

/// A flow of a scenario file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowLine {
    /// Source.
    pub from: u32,
    /// Destination.
    pub to: u32,
    /// Rate of UDP payload, bit/s; `None`: TCP.
    pub rate: Option<u64>,
    /// Nodes on the way; empty: the shortest path.
    pub path: Vec<u32>,
}

/// A scenario file of the reference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    /// Positions, in m.
    pub nodes: Vec<[f64; 2]>,
    /// Links; if there are any, they replace geometry.
    pub links: Vec<(u32, u32)>,
    /// MCS of links with a separate one.
    pub mcs: Vec<(u32, u32, u8)>,
    /// Flows.
    pub flows: Vec<FlowLine>,
}

impl Text {
    /// Parses a scenario file of the reference.
    ///
    /// The format has the lines `node ID X Y`, `link A B`, `rate A B MCS`, `flow tcp A B` and `flow
    /// udp A B RATE`. `path A … B` applies to the flow before it; comments begin with `#`.
    ///
    /// # Errors
    /// Returns the number of the first invalid line, counted from 1.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let mut out = Text::default();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            out.line(&words).ok_or(i + 1)?;
        }
        Ok(out)
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        match words {
            [] => {}
            ["node", id, x, y] if id.parse() == Ok(self.nodes.len()) => {
                self.nodes.push([x.parse().ok()?, y.parse().ok()?]);
            }
            ["link", a, b] => self.links.push((a.parse().ok()?, b.parse().ok()?)),
            ["rate", a, b, mcs] => {
                self.mcs.push((a.parse().ok()?, b.parse().ok()?, mcs.parse().ok()?));
            }
            ["flow", "tcp", a, b] => self.flows.push(FlowLine {
                from: a.parse().ok()?,
                to: b.parse().ok()?,
                ..FlowLine::default()
            }),
            ["flow", "udp", a, b, rate] => self.flows.push(FlowLine {
                from: a.parse().ok()?,
                to: b.parse().ok()?,
                rate: Some(rate.parse().ok()?),
                ..FlowLine::default()
            }),
            ["path", nodes @ ..] => {
                let flow = self.flows.last_mut()?;
                flow.path = nodes.iter().map(|n| n.parse().ok()).collect::<Option<_>>()?;
                let ends = [flow.path.first(), flow.path.last()];
                (ends == [Some(&flow.from), Some(&flow.to)]).then_some(())?;
            }
            _ => return None,
        }
        Some(())
    }
}

/// Reads and builds the scenario of a row.
///
/// # Errors
/// Returns an error if the file is missing or invalid.
pub fn build(folder: &Path, case: &Case) -> Result<Scenario, LabError> {
    let path = folder.join("scen").join(format!("{}.txt", case.scenario));
    let expected = "expected a scenario of validation/ns3";
    let text = std::fs::read_to_string(&path)
        .map_err(|e| LabError::file(&path, format!("cannot be read ({e}); {expected}")))?;
    let text = Text::parse(&text)
        .map_err(|line| LabError::file(&path, format!("line {line} is wrong; {expected}")))?;
    Ok(draft(&text, case).build()?)
}

fn draft(text: &Text, case: &Case) -> Draft {
    let o = &case.options;
    let name = |i: u32| Name::from(i.to_string());
    let topology = if text.links.is_empty() {
        TopologyDraft { positions: Some(text.nodes.clone()), ..TopologyDraft::default() }
    } else {
        let pair = |&(a, b): &(u32, u32)| LinkEntry::Pair([name(a), name(b)]);
        TopologyDraft {
            links: Some(text.links.iter().map(pair).collect()),
            ..TopologyDraft::default()
        }
    };
    let mcs = |&(a, b, mcs): &(u32, u32, u8)| LinkDraft {
        mcs: Some(mcs),
        ..LinkDraft::new(name(a), name(b))
    };
    let places = |(i, p): (usize, &[f64; 2])| NodeDraft {
        position: Some(*p),
        ..NodeDraft::new(name(i as u32))
    };
    Draft {
        name: Some(case.tag.clone()),
        duration: Span::from_secs_f64(case.duration_s),
        warmup: Some(Span::from_secs_f64(case.warm_up_s)),
        radio: radio(o, !text.links.is_empty()),
        // Positions beside links, so that numbers follow the file even for nodes without a link.
        node: if text.links.is_empty() {
            vec![]
        } else {
            text.nodes.iter().enumerate().map(places).collect()
        },
        topology,
        link: text.mcs.iter().map(mcs).collect(),
        traffic: FlowsDraft { start_jitter: Some(Span::from_secs(1)), ..FlowsDraft::default() },
        flow: text.flows.iter().map(|f| flow(f, o, name)).collect(),
        ..Draft::default()
    }
}

fn radio(o: &Options, links: bool) -> RadioDraft {
    let phy = match o.today {
        None => {
            RadioDraft { rate: Some(BitRate(o.data_mbps * 1_000_000)), ..RadioDraft::default() }
        }
        Some(t) => RadioDraft {
            phy: t.phy,
            mcs: Some(t.mcs),
            streams: Some(t.streams),
            width: Some(Frequency(t.width_mhz * 1_000_000)),
            guard: Some(Span::from_nanos(t.guard_ns)),
            ampdu: Some(Bytes(t.ampdu_bytes)),
            amsdu: (t.amsdu_bytes > 0).then_some(Bytes(t.amsdu_bytes)),
            mpdus: Some(t.mpdus),
            rules: Rules::Ns3,
            ..RadioDraft::default()
        },
    };
    let phy = match o.rules {
        Simulator::Ns3 => phy,
        Simulator::Ns2 => RadioDraft { rules: Rules::Ns2, llc: LlcDraft(NS2_HEADER), ..phy },
    };
    RadioDraft {
        rts: if o.rts { RtsDraft::On } else { RtsDraft::Off },
        reception: match o.reception.as_str() {
            "sinr" => ReceptionDraft::Sinr,
            "nocap" => ReceptionDraft::NoCap,
            // "stock" runs only for its cost.
            _ => ReceptionDraft::Ns2,
        },
        capture: Some(Decibel(o.capture_db)),
        profile: Some(if links { Profile::Graph } else { Profile::Ns2 }),
        decode: (!links).then_some(Distance(o.decode_range_m)),
        sense: (!links).then_some(Distance(o.sense_range_m)),
        queue: Some(QueueDraft::Packets(o.queue_packets)),
        ..phy
    }
}

fn flow(line: &FlowLine, o: &Options, name: impl Fn(u32) -> Name) -> FlowDraft {
    let (traffic, transport, start_jitter) = match line.rate {
        Some(rate) => {
            let gap = Span::from_secs_f64(o.udp_payload_bytes as f64 * 8.0 / rate as f64);
            let cbr =
                TrafficDraft::cbr(BitRate(rate), Bytes(o.udp_payload_bytes), o.udp_gap_spread);
            // Phases are uniform over a gap, even if the gap is longer than a second.
            (cbr, TransportDraft::Udp, gap.max(Span::from_secs(1)))
        }
        None => (
            TrafficDraft::bulk(),
            TransportDraft::Tcp(TcpDraft {
                preset: match o.rules {
                    Simulator::Ns3 => TcpPreset::Ns3,
                    Simulator::Ns2 => TcpPreset::Ns2,
                },
                one_rtt_sample: (o.rules == Simulator::Ns2).then_some(true),
                mss: Some(Bytes(o.tcp_mss_bytes)),
                sack: Some(o.tcp_sack),
                delayed_ack: (o.tcp_segments_per_ack > 1)
                    .then_some(DelayedAck(Some(Span::from_millis(200)))),
                initial_window: Some(o.tcp_initial_window),
                max_window: (o.tcp_window_limit > 0).then_some(o.tcp_window_limit),
                min_rto: Some(Span::from_secs_f64(o.tcp_min_rto_s)),
                ..TcpDraft::default()
            }),
            Span::from_secs(1),
        ),
    };
    let jitter = o.today.map(|t| Span::from_secs_f64(t.start_jitter_s));
    FlowDraft {
        traffic: Some(traffic),
        transport: Some(transport),
        start: o.today.map(|t| Span::from_secs_f64(t.start_s)),
        start_jitter: jitter.or(Some(start_jitter)),
        path: (!line.path.is_empty()).then(|| line.path.iter().map(|n| name(*n)).collect()),
        ..FlowDraft::new(name(line.from), name(line.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::reference::{Row, read};

    fn folder() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/ns3"))
    }

    #[test]
    fn reads_the_format_and_names_the_wrong_line() {
        let text =
            "node 0 0 0\nnode 1 200.5 0 # far\n\nlink 0 1\nflow tcp 1 0\nflow udp 0 1 50000\n";
        let t = Text::parse(text).unwrap();
        assert_eq!(t.nodes, [[0.0, 0.0], [200.5, 0.0]]);
        let tcp = FlowLine { from: 1, ..FlowLine::default() };
        let udp = FlowLine { to: 1, rate: Some(50_000), ..FlowLine::default() };
        assert_eq!((t.links.len(), t.flows.clone()), (1, vec![tcp, udp]));
        let t = Text::parse("flow tcp 2 0\npath 2 3 0\n").unwrap();
        assert_eq!(t.flows[0].path, [2, 3, 0]);
        assert_eq!(Text::parse("flow tcp 2 0\npath 2 3\n"), Err(2));
        assert_eq!(Text::parse("path 2 3\n"), Err(1));
        assert_eq!(Text::parse("node 0 0 0\nnode 2 1 1\n"), Err(2));
        assert_eq!(Text::parse("flow udp 0 1\n"), Err(1));
    }

    #[test]
    fn every_row_builds_with_the_hops_and_numbers_of_the_reference() {
        let all = ["ns3", "ns2"].map(|name| folder().with_file_name(name));
        let rows = all.iter().flat_map(|f| {
            read::<Row>(f, "reference.json").unwrap().into_iter().map(move |row| (f, row))
        });
        for (folder, row) in rows {
            let s = build(folder, &row.case).unwrap();
            for (flow, expected) in s.flows().iter().zip(&row.flows) {
                assert_eq!(flow.from.0, expected.source, "{}", row.case.tag);
                assert_eq!(flow.to.0, expected.destination, "{}", row.case.tag);
            }
        }
    }
}
