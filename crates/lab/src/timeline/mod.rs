//! The air as a timeline: all activity of each station in a window of a run, for Perfetto.
//!
//! Each node has a group of tracks: its frames with their outcomes, the energy that it senses, its
//! EIFS and NAV, and its backoff. Counters show its queue and the congestion windows of the flows
//! that it sends. Arrows lead from a frame to its response, and from a frame to those that
//! overlapped it at its receiver.

mod frames;
pub mod perfetto;
mod states;
mod summary;

use std::any::Any;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use fairmesh_engine::observe::{AirFrame, AttemptOutcome, Observer};
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{CancelToken, EngineError, Inputs, RunOptions, Simulation, Status};
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Span, Time};

use crate::batch::Pool;
use crate::error::{FileProblem, LabError, SettingProblem};
use crate::files::folder::PendingFile;

pub use summary::{LinkAttempts, TimelineSummary};

use frames::Frames;
use states::States;

/// Part of a run that a timeline shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Start, since the start of the run.
    pub from: Span,
    /// Length.
    pub length: Span,
}

impl Window {
    /// Longest window: a trace has some 3 MB for each second of a busy cell.
    pub const LONGEST: Span = Span::from_secs(60);

    /// Checks that the window lies within a run.
    ///
    /// # Errors
    /// If it starts at or after the end, or is empty or longer than [`Window::LONGEST`].
    pub fn check(self, duration: Span) -> Result<(), LabError> {
        if self.from >= duration {
            let problem = SettingProblem::WindowStart { found: self.from, duration };
            return Err(LabError::wrong("from", problem));
        }
        if self.length == Span::ZERO || self.length > Self::LONGEST {
            let problem =
                SettingProblem::WindowLength { found: self.length, longest: Self::LONGEST };
            return Err(LabError::wrong("for", problem));
        }
        Ok(())
    }

    fn bounds(self) -> (Time, Time) {
        let from = Time::ZERO + self.from;
        (from, from + self.length)
    }
}

impl Observer for Frames {
    fn frame(&mut self, frame: &AirFrame) {
        self.add(frame);
    }

    fn attempted(&mut self, _: Time, from: NodeId, _: NodeId, outcome: &AttemptOutcome) {
        self.conclude(from, outcome);
    }
}

/// Runs a scenario once and writes the timeline of a window to `file`.
///
/// The record is that of the same run without a timeline.
///
/// # Errors
/// If the engine rejects the scenario, the window does not lie within the run, the pool's token is used, or the file
/// cannot be written.
pub fn traced(
    scenario: &Scenario,
    options: &RunOptions,
    window: Window,
    file: &Path,
    pool: &Pool<'_>,
) -> Result<(RunRecord, TimelineSummary), LabError> {
    window.check(scenario.duration())?;
    // Claimed before the run, which may take a long time.
    let (pending, mut out) = PendingFile::beside(file)?;
    let (record, frames, states) = observe(scenario, options, window, pool.cancel)
        .map_err(|e| LabError::refused(scenario.name(), e))?;
    let trace = draw(scenario, &frames, &states, window);
    let unwritable = |e: std::io::Error| LabError::at(file, FileProblem::Unwritable(e));
    out.write_all(&trace).map_err(unwritable)?;
    drop(out);
    pending.finish()?;
    Ok((record, summary::of(scenario, &frames, window)))
}

fn observe(
    scenario: &Scenario,
    options: &RunOptions,
    window: Window,
    cancel: Option<&CancelToken>,
) -> Result<(RunRecord, Frames, States), EngineError> {
    let (from, until) = window.bounds();
    let inputs = Inputs {
        observer: Some(Box::new(Frames::new(from, until))),
        cancel: cancel.cloned().unwrap_or_default(),
        ..Inputs::analytic(scenario, None)?
    };
    let mut simulation = Simulation::new(Arc::new(scenario.clone()), options, inputs)?;
    let mut states = States::new(scenario);
    let mut status = simulation.advance(from);
    let mut now = Vec::new();
    while status == Status::Running && simulation.now() < until {
        simulation.node_states(&mut now);
        states.add(simulation.now().max(from), &now, |flow| simulation.congestion_window(flow));
        status = simulation.step();
    }
    states.close(until);
    let (record, observer) = simulation.finish_observed()?;
    let observer: Box<dyn Any> = observer.expect("a simulation keeps its observer");
    let frames = observer.downcast().expect("it is the one that was given");
    Ok((record, *frames, states))
}

/// Draws all tracks.
fn draw(scenario: &Scenario, frames: &Frames, states: &States, window: Window) -> Vec<u8> {
    let mut writer = perfetto::Writer::default();
    let (from, until) = window.bounds();
    let arrows = frames.arrows();
    for (i, node) in scenario.wireless().enumerate() {
        let group = writer.track(&scenario.nodes()[node.index()].name, None);
        frames.draw(&mut writer, group, scenario, node, &arrows);
        states.draw(&mut writer, group, scenario, i, (from, until));
    }
    writer.encode()
}

/// Returns the name of a station or interferer.
///
/// Indices of interferers follow those of the stations.
fn name(scenario: &Scenario, node: NodeId) -> &str {
    let stations = scenario.wireless().count();
    match node.index().checked_sub(stations) {
        None => &scenario.nodes()[node.index()].name,
        Some(i) => scenario.interferers().get(i).map_or("an interferer", |i| &i.name),
    }
}

#[cfg(test)]
mod tests;
