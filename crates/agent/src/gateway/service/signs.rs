//! TCP's headers.

use std::sync::PoisonError;

use fairmesh_linux::Shaper;

use super::Gateway;
use crate::gateway::headers::Change;
use crate::gateway::host::Phase;
use crate::gateway::journal::Level;
use crate::gateway::signs::SignsReport;

impl<P: Shaper> Gateway<P> {
    /// Has headers read while the control makes use of them and the configuration lets it. Without them it goes by
    /// counters, so nothing of it is worth an end.
    pub(super) fn read_headers(&mut self) {
        let now = self.now();
        let stands = !matches!(self.host.phase(), Phase::Absent { .. });
        let wanted = self.config.signs && stands && self.host.governor.reads_signs();
        let mesh = self.config.layout.mesh.name();
        match self.parts.capture.keep(now, wanted, mesh, self.host.signs()) {
            Some(Change::Opened) => self.note(Level::Info, "signs.reading", || {
                "TCP's headers are read on the mesh interface".into()
            }),
            Some(Change::Failed(why)) => self.note(Level::Warning, "signs.unavailable", || {
                format!("{why}; the control goes by counters")
            }),
            None => {}
        }
    }

    /// What is known of them; `None` where the control makes no use of them.
    pub(super) fn signs(&self) -> Option<SignsReport> {
        if !self.host.governor.reads_signs() {
            return None;
        }
        let reader = self.host.signs().lock().unwrap_or_else(PoisonError::into_inner);
        let state = match (self.config.signs, reader.is_open()) {
            (false, _) => "off",
            (true, true) => "reading",
            (true, false) => "unavailable",
        };
        let problem = self.parts.capture.problem().map(str::to_owned);
        Some(SignsReport { state: state.to_owned(), problem, ..reader.report() })
    }
}
