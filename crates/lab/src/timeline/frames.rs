//! Frames of the window with their outcomes.

use std::collections::{BTreeMap, HashMap};

use fairmesh_engine::observe::{AirFrame, AttemptOutcome, FrameKind};
use fairmesh_scenario::Scenario;
use fairmesh_units::{BitRate, FlowId, NodeId, Time};

use super::name;
use super::perfetto::{DebugAnnotation, Track, Writer};

/// A frame on the air: an A-MPDU is one.
pub(super) struct Frame {
    pub start: Time,
    pub end: Time,
    pub kind: FrameKind,
    pub from: NodeId,
    pub to: Option<NodeId>,
    pub rate: BitRate,
    pub bytes: u32,
    pub mpdus: u16,
    pub sequence: u16,
    pub retry: bool,
    pub flow: Option<FlowId>,
    /// Outcome of the attempt.
    ///
    /// `None` for responses, broadcasts, and frames without an outcome at the end of the run.
    pub outcome: Option<AttemptOutcome>,
}

/// All frames that overlap the window, in the order of their starts.
#[derive(Default)]
pub(super) struct Frames {
    from: Time,
    until: Time,
    list: Vec<Frame>,
    /// By transmitter: its last frame, if that is in the list.
    last: HashMap<NodeId, Option<usize>>,
}

impl Frames {
    pub fn new(from: Time, until: Time) -> Self {
        Frames { from, until, ..Frames::default() }
    }

    /// Adds a frame, an MPDU of one, or a packet of an MPDU.
    pub fn add(&mut self, frame: &AirFrame) {
        if frame.end <= self.from || frame.start >= self.until {
            self.last.insert(frame.from, None);
            return;
        }
        if frame.subframe.is_some_and(|s| s.index > 0) {
            return;
        }
        let later = frame.aggregate.is_some_and(|a| a.index > 0);
        if later && let Some(&Some(at)) = self.last.get(&frame.from) {
            let first = &mut self.list[at];
            first.bytes += frame.mpdu_bytes;
            first.mpdus += 1;
            return;
        }
        self.last.insert(frame.from, Some(self.list.len()));
        self.list.push(Frame {
            start: frame.start,
            end: frame.end,
            kind: frame.kind,
            from: frame.from,
            to: frame.to,
            rate: frame.rate,
            bytes: frame.mpdu_bytes,
            mpdus: 1,
            sequence: frame.sequence,
            retry: frame.retry,
            flow: frame.packet.map(|p| p.flow),
            outcome: None,
        });
    }

    /// Notes the outcome of the last RTS or data frame of a station.
    pub fn conclude(&mut self, from: NodeId, outcome: &AttemptOutcome) {
        if let Some(&Some(at)) = self.last.get(&from) {
            let frame = &mut self.list[at];
            if matches!(frame.kind, FrameKind::Data | FrameKind::Rts) && frame.outcome.is_none() {
                frame.outcome = Some(outcome.clone());
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.list.iter()
    }

    /// Returns the arrows at each frame, by its place in the list.
    ///
    /// One arrow leads from a frame to its response. Another leads from a frame to each frame that
    /// it overlapped at the receiver of the latter.
    pub fn arrows(&self) -> Vec<Vec<u64>> {
        let mut arrows = vec![Vec::new(); self.list.len()];
        let mut next = 0;
        let mut link = |a: usize, b: usize| {
            next += 1;
            arrows[a].push(next);
            arrows[b].push(next);
        };
        // Frames are in the order of their starts, so those that may overlap one are near it.
        let longest = self.list.iter().map(|f| f.end.since(f.start)).max().unwrap_or_default();
        for (at, frame) in self.list.iter().enumerate() {
            match &frame.outcome {
                Some(AttemptOutcome::Responded { .. }) => {
                    let response = self.list[at + 1..]
                        .iter()
                        .position(|f| Some(f.from) == frame.to && f.to == Some(frame.from));
                    if let Some(behind) = response {
                        link(at, at + 1 + behind);
                    }
                }
                Some(AttemptOutcome::Overlapped(by)) => {
                    let earlier = self.list[..at].iter().enumerate().rev();
                    let near = earlier.take_while(|(_, f)| f.start + longest > frame.start);
                    let after = self.list.iter().enumerate().skip(at + 1);
                    let later = after.take_while(|(_, f)| f.start < frame.end);
                    let overlapping: Vec<usize> = near
                        .chain(later)
                        .filter(|(_, f)| by.contains(&f.from) && f.end > frame.start)
                        .map(|(i, _)| i)
                        .collect();
                    overlapping.into_iter().for_each(|i| link(i, at));
                }
                _ => {}
            }
        }
        arrows
    }

    /// Draws the frames of one node.
    pub fn draw(
        &self,
        writer: &mut Writer,
        group: Track,
        scenario: &Scenario,
        node: NodeId,
        arrows: &[Vec<u64>],
    ) {
        let track = writer.track("frames", Some(group));
        for (frame, arrows) in self.list.iter().zip(arrows).filter(|(f, _)| f.from == node) {
            let span = (frame.start, frame.end);
            let title = frame.title(scenario);
            writer.slice(track, span, &title, frame.facts(scenario), arrows.clone());
        }
    }

    /// Returns the frames of each link, by transmitter and receiver.
    ///
    /// They began in the window and expect a response.
    pub fn by_link(&self) -> BTreeMap<(NodeId, NodeId), Vec<&Frame>> {
        let mut links = BTreeMap::<_, Vec<&Frame>>::new();
        let expects = |f: &&Frame| matches!(f.kind, FrameKind::Data | FrameKind::Rts);
        for frame in self.iter().filter(expects).filter(|f| f.start >= self.from) {
            if let Some(to) = frame.to {
                links.entry((frame.from, to)).or_default().push(frame);
            }
        }
        links
    }
}

impl Frame {
    fn title(&self, scenario: &Scenario) -> String {
        let kind = match self.kind {
            FrameKind::Data => "data",
            FrameKind::Ack => "ACK",
            FrameKind::Rts => "RTS",
            FrameKind::Cts => "CTS",
            FrameKind::BlockAck => "BlockAck",
        };
        let to = self.to.map_or("all", |to| name(scenario, to));
        let outcome = match &self.outcome {
            None => String::new(),
            Some(AttemptOutcome::Responded { accepted }) => {
                match self.mpdus - (*accepted).min(self.mpdus) {
                    lost if lost > 0 && self.kind == FrameKind::Data => {
                        format!(": {lost} of {} MPDUs lost", self.mpdus)
                    }
                    _ => String::new(),
                }
            }
            Some(AttemptOutcome::ResponseLost) => ": response lost".into(),
            Some(AttemptOutcome::NotOverlapped) => ": no response".into(),
            Some(AttemptOutcome::Overlapped(by)) => {
                format!(": overlapped by {}", names(scenario, by))
            }
        };
        format!("{kind} to {to}{outcome}")
    }

    fn facts(&self, scenario: &Scenario) -> Vec<DebugAnnotation> {
        let mut facts = vec![
            DebugAnnotation::text("rate", self.rate.to_string()),
            DebugAnnotation::number("bytes", i64::from(self.bytes)),
        ];
        if self.kind == FrameKind::Data {
            facts.push(DebugAnnotation::number("sequence number", i64::from(self.sequence)));
            facts.push(DebugAnnotation::text("retry", if self.retry { "yes" } else { "no" }));
            facts.push(DebugAnnotation::number("MPDUs", i64::from(self.mpdus)));
        }
        if let Some(flow) = self.flow.and_then(|f| scenario.flows().get(f.index())) {
            facts.push(DebugAnnotation::text("flow", &*flow.name));
        }
        match &self.outcome {
            None => {}
            Some(AttemptOutcome::Responded { accepted }) => {
                facts.push(DebugAnnotation::text("outcome", "answered"));
                if self.kind == FrameKind::Data {
                    facts.push(DebugAnnotation::number("MPDUs accepted", i64::from(*accepted)));
                }
            }
            Some(AttemptOutcome::ResponseLost) => {
                facts.push(DebugAnnotation::text("outcome", "arrived, response lost"));
            }
            Some(AttemptOutcome::NotOverlapped) => {
                facts.push(DebugAnnotation::text("outcome", "no response, not overlapped"));
            }
            Some(AttemptOutcome::Overlapped(by)) => {
                facts.push(DebugAnnotation::text("outcome", "lost by overlap at the receiver"));
                facts.push(DebugAnnotation::text("overlapped by", names(scenario, by)));
            }
        }
        facts
    }
}

fn names(scenario: &Scenario, nodes: &[NodeId]) -> String {
    nodes.iter().map(|&n| name(scenario, n)).collect::<Vec<_>>().join(" and ")
}
