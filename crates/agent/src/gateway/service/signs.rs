//! TCP's headers.

use std::sync::PoisonError;

use fairmesh_linux::Shaper;

use super::Gateway;
use crate::gateway::headers::Change;
use crate::gateway::host::Phase;
use crate::gateway::journal::Level;
use crate::gateway::signs::SignsReport;

impl<P: Shaper> Gateway<P> {
    /// Has headers read as the configuration has it. Without them the control goes by counters, so a failure ends
    /// nothing.
    pub(super) fn read_headers(&mut self) {
        let now = self.now();
        let stands = !matches!(self.host.phase(), Phase::Absent { .. });
        let asked = self.host.governor.reads_signs();
        let wanted = stands && self.config.signs.wanted(asked);
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

    /// State of the reading; `None` where neither the control nor the configuration asks for it.
    pub(super) fn signs(&self) -> Option<SignsReport> {
        let (read, asked) = (self.config.signs, self.host.governor.reads_signs());
        if !asked && !read.wanted(asked) {
            return None;
        }
        let reader = self.host.signs().lock().unwrap_or_else(PoisonError::into_inner);
        let state = match (read.wanted(asked), reader.is_open()) {
            (false, _) => "off",
            (true, true) => "reading",
            (true, false) => "unavailable",
        };
        let problem = self.parts.capture.problem().map(str::to_owned);
        Some(SignsReport { state: state.to_owned(), problem, ..reader.report() })
    }
}
