//! Progress of a control's search, for operators.

use fairmesh_units::Time;

use super::Reason;

/// Progress of a control's search for the level that limits flows.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// True until the control has found the level for the first time.
    pub learning: bool,
    /// Time at which this state began.
    pub since: Time,
    /// Bound of the level at present.
    pub bound: Option<Reason>,
    /// Objective between flows, and its price.
    pub objective: Option<Reason>,
}

impl Progress {
    /// A control that started its search at this time.
    pub const fn learning(since: Time) -> Self {
        Progress { learning: true, since, bound: None, objective: None }
    }

    /// Sets the reason that bounds the level at present.
    ///
    /// `found` is true once the search has found the level, at this time or earlier.
    #[must_use]
    pub fn bounded(self, now: Time, found: bool, bound: Reason) -> Self {
        let ends = self.learning && found;
        Progress {
            learning: self.learning && !found,
            since: if ends { now } else { self.since },
            bound: Some(bound),
            objective: self.objective,
        }
    }

    /// Sets the objective.
    #[must_use]
    pub fn with_objective(self, objective: Reason) -> Self {
        Progress { objective: Some(objective), ..self }
    }
}
