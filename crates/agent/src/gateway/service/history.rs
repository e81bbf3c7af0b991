//! Recording of the history.

use fairmesh_linux::Shaper;

use super::Gateway;
use crate::daemon::service::Moment;
use crate::gateway::history::{HistoryReport, HistorySettings, HistoryWriter, Recorded, Recorder};
use crate::gateway::host::Phase;
use crate::gateway::journal::Level;

/// Recorder and writer of a run, and the state that was last reported.
pub struct History {
    recorder: Recorder,
    writer: HistoryWriter,
    failed: bool,
    cut: bool,
}

impl History {
    /// Starts a history with a thread that writes it; `None` if none is configured.
    pub fn start(settings: &HistorySettings, at: Moment) -> Option<History> {
        let writer = HistoryWriter::start(settings)?;
        // Without randomness, runs differ by their starts.
        let run = getrandom::u64().unwrap_or(at.wall);
        Some(History::with(writer, Recorder::new(run, at.now, settings.period)))
    }

    /// Returns a history with this writer.
    pub fn with(writer: HistoryWriter, recorder: Recorder) -> History {
        History { recorder, writer, failed: false, cut: false }
    }
}

impl<P: Shaper> Gateway<P> {
    /// Records a sample, if there was one, and stores a minute that has ended.
    pub(super) fn record(&mut self) {
        let running = self.host.phase() == Phase::Running;
        let Some(history) = &mut self.parts.history else { return };
        let recorded = history.recorder.turn(self.at, &self.host.governor, running);
        self.store(recorded);
        self.report_history();
    }

    /// Stores the part of the last minute at the end of the daemon.
    pub(super) fn finish_history(&mut self) {
        let Some(history) = &mut self.parts.history else { return };
        let recorded = history.recorder.finish(self.at, &self.host.governor);
        self.store(recorded);
        if let Some(history) = &mut self.parts.history {
            history.writer.end();
        }
    }

    fn store(&mut self, recorded: Option<Recorded>) {
        let Some(Recorded { period, jump }) = recorded else { return };
        if let Some(jump) = jump {
            self.note(Level::Info, "history.clock", || {
                format!("the clock has jumped by {jump} s; records of this run follow it")
            });
        }
        if let Some(history) = &mut self.parts.history {
            history.writer.store(period);
        }
    }

    /// Reports problems of the writer once, and their end.
    fn report_history(&mut self) {
        let Some(history) = &mut self.parts.history else { return };
        let report = history.writer.report();
        let failed = core::mem::replace(&mut history.failed, report.problem.is_some());
        let cut = core::mem::replace(&mut history.cut, report.cut > 0);
        let folder = report.folder.display();
        if report.cut > 0 && !cut {
            let bytes = report.cut;
            self.note(Level::Warning, "history.cut", || {
                format!("{folder}: {bytes} bytes of an incomplete record were cut off")
            });
        }
        match report.problem {
            Some(problem) if !failed => self.note(Level::Warning, "history.unwritable", || {
                format!("{folder}: {problem}; the daemon continues without these minutes")
            }),
            None if failed => {
                let lost = report.lost;
                self.note(Level::Info, "history.resumed", || {
                    format!("{folder} is written again; {lost} minutes were lost")
                });
            }
            _ => {}
        }
    }

    /// Returns the state of the history, if there is one.
    pub(super) fn history_report(&self) -> Option<HistoryReport> {
        let history = self.parts.history.as_ref()?;
        let mut report = history.writer.report();
        if report.written == 0 && report.lost == 0 {
            let remaining = history.recorder.remaining(self.at.now).as_secs_f64();
            report.first_minute = Some(self.at.wall + remaining.ceil() as u64);
        }
        Some(report)
    }
}
