//! Progress of a control's search, for operators.

use fairmesh_units::Time;

use super::Reason;

/// Progress of a control's search for the level at which it holds flows.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// True until the control has found the level for the first time.
    pub learning: bool,
    /// Time at which this state began.
    pub since: Time,
    /// Bound of the level at present.
    pub bound: Option<Reason>,
}

impl Progress {
    /// A control that began to learn at a time.
    pub const fn learning(since: Time) -> Self {
        Progress { learning: true, since, bound: None }
    }

    /// With the bound of the level at present; `found`: the level was found, now or before.
    #[must_use]
    pub fn bounded(self, now: Time, found: bool, bound: Reason) -> Self {
        let ends = self.learning && found;
        Progress {
            learning: self.learning && !found,
            since: if ends { now } else { self.since },
            bound: Some(bound),
        }
    }
}
