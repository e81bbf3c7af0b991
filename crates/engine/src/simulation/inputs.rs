//! Inputs of a run in addition to the scenario.

use std::fmt;

use fairmesh_control::{EventKind, Knowledge, Mechanism};
use fairmesh_scenario::Scenario;

use super::CancelToken;
use crate::error::EngineError;
use crate::fair::FairRates;
use crate::host::Controls;
use crate::island_rates::fair_rates;
use crate::observe::Observer;

/// Inputs of a run in addition to its scenario and options; by default none.
#[derive(Default)]
pub struct Inputs {
    /// Fair rates, for controls and measures that need them ([`needs_fair_rates`]).
    ///
    /// Without them the record's `fair_bps` are `None`, and a control that needs them is rejected by name.
    pub fair: Option<FairRates>,
    /// Control to run instead of the scenario's own, also at gateways.
    pub control: Option<Mechanism>,
    /// Receiver of every frame, without influence on the outcome.
    pub observer: Option<Box<dyn Observer>>,
    /// Switch that stops the run.
    pub cancel: CancelToken,
}

impl Inputs {
    /// Returns inputs with the analytic fair rates.
    ///
    /// They are absent if the capacity model rejects the scenario and the control (the scenario's,
    /// or `control`) does not need them.
    ///
    /// # Errors
    /// [`EngineError::Capacity`] if the model rejects the scenario and the control needs fair
    /// rates.
    pub fn analytic(scenario: &Scenario, control: Option<Mechanism>) -> Result<Self, EngineError> {
        let fair = match fair_rates(scenario) {
            Ok(fair) => Some(fair),
            Err(refused) if needs_fair_rates(scenario, control.as_ref()) => {
                return Err(refused);
            }
            Err(_) => None,
        };
        Ok(Inputs { fair, control, ..Inputs::default() })
    }
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs")
            .field("fair", &self.fair)
            .field("control", &self.control)
            .field("observer", &self.observer.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// Returns true if a scenario's control, or `control` instead of it, needs fair rates.
pub fn needs_fair_rates(scenario: &Scenario, control: Option<&Mechanism>) -> bool {
    let Controls { mechanism, at_gateways } = match control {
        Some(mechanism) => Controls { mechanism, at_gateways: None },
        None => Controls::of(scenario),
    };
    let needs = std::iter::once(mechanism).chain(at_gateways).flat_map(Mechanism::all_needs);
    needs
        .into_iter()
        .any(|n| n.knowledge.has(Knowledge::FairRates) || n.events.has(EventKind::Allocations))
}
