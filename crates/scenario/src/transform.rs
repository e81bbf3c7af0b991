//! Checked changes of a resolved world.
//!
//! Settings that a scenario file can express are changed in the [`Draft`](crate::Draft), before it is resolved.
//! The changes here serve callers that derive one world from another: a search that limits flows, a comparison of
//! controls. Each returns a world that satisfies the guarantees of [`Draft::build`](crate::Draft::build), or an
//! error.

use fairmesh_control::Mechanism;
use fairmesh_units::Span;

use crate::error::{KeyPath, Problem, ScenarioError};
use crate::resolve::{before_end, check_flow, check_times};
use crate::scenario::{Flow, Scenario, Subscribers};

impl Scenario {
    /// Returns the world with another control; gateways with a separate control keep it.
    #[must_use]
    pub fn with_control(mut self, control: Mechanism) -> Self {
        self.control = control;
        self
    }

    /// Returns the world with another control at all nodes, including gateways.
    #[must_use]
    pub fn with_control_everywhere(mut self, control: Mechanism) -> Self {
        (self.control, self.at_gateways) = (control, None);
        self
    }

    /// Returns the world with further warnings.
    #[must_use]
    pub fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Returns the network and its flows alone, for comparisons of worlds.
    ///
    /// They are without name, description, warnings, subscribers and the list of participating nodes.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.name.clear();
        self.description.clear();
        self.warnings.clear();
        (self.subscribers, self.taking_part) = (Subscribers::default(), None);
        self
    }

    /// Returns the world under another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Returns the world over another time, measured from `warmup` on.
    ///
    /// # Errors
    /// Times that no file may have, and flows or changes that start at or after the end; keys are
    /// those of a file that lists all flows.
    pub fn with_times(mut self, duration: Span, warmup: Span) -> Result<Self, ScenarioError> {
        check_times(duration, warmup)?;
        (self.duration, self.warmup) = (duration, warmup);
        self.check_flows()?;
        let rates = self.rate_changes.iter().map(|c| ("rate_change", "at", c.at));
        let routes = self.route_changes.iter().map(|c| ("route_change", "at", c.at));
        let noise = self.interferers.iter().map(|i| ("interferer", "start", i.start));
        for (list, key, at) in rates.chain(routes).chain(noise) {
            before_end(at, duration, KeyPath::from(list).key(key))?;
        }
        Ok(self)
    }

    /// Returns the first part of the same run, measured from `warmup` on.
    ///
    /// A flow that starts after `end` never does, which no file may request.
    ///
    /// # Errors
    /// Times that no file may have, and an end after that of the whole run.
    pub fn prefix(mut self, end: Span, warmup: Span) -> Result<Self, ScenarioError> {
        check_times(end, warmup)?;
        if end > self.duration {
            let problem = Problem::range(end, format!("at most {}", self.duration));
            return Err(ScenarioError::at("duration".into(), problem));
        }
        (self.duration, self.warmup) = (end, warmup);
        Ok(self)
    }

    /// Returns the world with flows that differ in time, traffic, transport or terms.
    ///
    /// # Errors
    /// A change of a flow's name, ends or path, and values that no file may have.
    pub fn map_flows(
        mut self,
        mut change: impl FnMut(usize, &mut Flow),
    ) -> Result<Self, ScenarioError> {
        for (i, flow) in self.flows.iter_mut().enumerate() {
            let before = (flow.name.clone(), flow.path.clone());
            change(i, flow);
            let ends = flow.path.first().zip(flow.path.last());
            if (&flow.name, &flow.path) != (&before.0, &before.1)
                || ends != Some((&flow.from, &flow.to))
            {
                let problem = Problem::refused(
                    "the change moves or renames the flow",
                    "its name, ends and path as they are",
                );
                return Err(ScenarioError::at(KeyPath::from("flow").index(i), problem));
            }
        }
        self.check_flows()?;
        Ok(self)
    }

    /// Returns the world with the flows that `keep` accepts by index, without subscribers.
    #[must_use]
    pub fn only_flows(mut self, mut keep: impl FnMut(usize, &Flow) -> bool) -> Self {
        let mut new = Vec::with_capacity(self.flows.len());
        let mut kept = Vec::new();
        for (i, flow) in std::mem::take(&mut self.flows).into_iter().enumerate() {
            let stays = keep(i, &flow);
            new.push(stays.then_some(kept.len()));
            kept.extend(stays.then_some(flow));
        }
        self.flows = kept;
        self.subscribers = Subscribers::default();
        self.route_changes.retain_mut(|change| {
            let flow = new.get(change.flow).copied().flatten();
            change.flow = flow.unwrap_or(change.flow);
            flow.is_some()
        });
        self
    }

    /// Returns the world at an instant.
    ///
    /// It has links at their rates, flows on their paths, the active interferers, and no further changes.
    /// Starts and stops of flows stay.
    #[must_use]
    pub fn at_instant(mut self, at: Span) -> Self {
        for change in std::mem::take(&mut self.rate_changes).iter().filter(|c| c.at <= at) {
            let ends = (change.from, change.to);
            if let Ok(i) = self.links.binary_search_by_key(&ends, |l| (l.from, l.to)) {
                self.links[i].rate = Some(change.rate);
            }
        }
        for change in std::mem::take(&mut self.route_changes).into_iter().filter(|c| c.at <= at) {
            let wireless = |hop: &&[_]| {
                self.wire(hop[0], hop[1]).is_none() && !self.same_device(hop[0], hop[1])
            };
            let hops = change.path.windows(2).filter(wireless).count() as u32;
            let flow = &mut self.flows[change.flow];
            (flow.path, flow.wireless_hops) = (change.path, hops);
        }
        self.interferers.retain(|i| i.start <= at && i.stop.is_none_or(|stop| at < stop));
        for interferer in &mut self.interferers {
            (interferer.start, interferer.stop) = (Span::ZERO, None);
        }
        self
    }

    fn check_flows(&self) -> Result<(), ScenarioError> {
        for (i, flow) in self.flows.iter().enumerate() {
            check_flow(flow, self.duration).map_err(|(key, problem)| {
                ScenarioError::at(KeyPath::from("flow").index(i).key(key), problem)
            })?;
        }
        Ok(())
    }
}
