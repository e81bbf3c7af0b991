//! Signs of paths: TCP headers and echo probes.

use std::sync::PoisonError;

use fairmesh_linux::Shaper;

use super::Gateway;
use crate::gateway::config::ReadHeaders;
use crate::gateway::headers::{Change, HeaderKinds};
use crate::gateway::host::Phase;
use crate::gateway::journal::Level;
use crate::gateway::signs::{ProbesReport, SignsReport};

impl<P: Shaper> Gateway<P> {
    /// Starts or stops the reading of headers as configured.
    ///
    /// Without headers the control uses counters, so a failure ends nothing.
    pub(super) fn read_headers(&mut self) {
        let now = self.now();
        let stands = !matches!(self.host.phase(), Phase::Absent { .. });
        let asked = self.host.governor.reads_signs();
        let reads = match self.trips_wanted() {
            true => HeaderKinds::TcpAndUdp,
            false => HeaderKinds::Tcp,
        };
        let wanted = (stands && self.config.signs.wanted(asked)).then_some(reads);
        let mesh = self.config.layout.mesh.name();
        match self.parts.capture.keep(now, wanted, mesh, self.host.signs()) {
            Some(Change::Opened) => self.note(Level::Info, "signs.reading", || {
                "reading TCP headers on the mesh interface".into()
            }),
            Some(Change::Failed(why)) => self.note(Level::Warning, "signs.unavailable", || {
                format!("{why}; the control uses counters only")
            }),
            None => {}
        }
    }

    /// True if the control uses round trips or the configuration requests them.
    fn trips_wanted(&self) -> bool {
        self.host.governor.wants_probes() || self.config.signs == ReadHeaders::Always
    }

    /// Starts or stops echo probes as configured, while headers are read.
    pub(super) fn probe(&mut self) {
        let now = self.now();
        let reads = self.host.signs().lock().unwrap_or_else(PoisonError::into_inner).is_open();
        let wanted = self.config.probe && self.trips_wanted() && reads;
        let mesh = self.config.layout.mesh.name();
        if let Some(Change::Failed(why)) =
            self.parts.probes.keep(now, wanted, mesh, self.host.signs())
        {
            let text = format!("{why}; homes without readable TCP have no round trip");
            self.note(Level::Warning, "probe.unavailable", || text);
        }
        self.host.probing = self.parts.probes.is_open();
        self.report_unresponsive();
    }

    /// Reports homes that do not reply to probes, and homes that acknowledge nothing.
    fn report_unresponsive(&mut self) {
        let withholding =
            self.host.signs().lock().unwrap_or_else(PoisonError::into_inner).withholding();
        for class in withholding {
            let members = self.host.governor.members();
            let Some(member) = members.iter().find(|m| m.class.0 == class) else { continue };
            let text = format!(
                "no data to or from {} was acknowledged for a minute: it is gone, withholds acknowledgements, or they take \
                 another path; it no longer lowers the level of other subscribers",
                member.subscriber.name
            );
            self.note(Level::Info, "signs.withheld", || text);
        }
        let ceased = self.host.signs().lock().unwrap_or_else(PoisonError::into_inner).ceased();
        for (class, address) in ceased {
            let members = self.host.governor.members();
            let Some(member) = members.iter().find(|m| m.class.0 == class) else { continue };
            let at = address.map_or(String::new(), |a| format!(" at {a}"));
            let text = format!(
                "{} does not respond to echo requests{at}; probes pause",
                member.subscriber.name
            );
            self.note(Level::Info, "probe.unanswered", || text);
        }
    }

    /// Returns the state of the reading; `None` if it is not requested.
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
        let read = reader.report();
        let (sends, why) = (self.parts.probes.is_open(), self.parts.probes.problem());
        let probes = read.probes.filter(|_| sends || why.is_some());
        let probes = probes.map(|p| ProbesReport { problem: why.map(str::to_owned), ..p });
        Some(SignsReport { state: state.to_owned(), problem, probes, ..read })
    }
}
