//! The water level: the target of each flow at a given level.

use serde::{Deserialize, Serialize};

use super::settings::Group;
use super::steady::SteadyFlow;

/// Reason for the end of a flow's growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// The demand of the flow is met.
    Demand,
    /// More would reduce flows with no higher rate, or would not be received.
    Air,
    /// The search ended before the flow was tested for a rise alone.
    Effort,
    /// The flow receives a negligible rate at any level.
    Nothing,
}

/// The final rate of a flow and the reason why it stopped growing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Fixed {
    /// Rate, bit/s of application data.
    pub rate: f64,
    pub why: Stop,
}

/// The flows of one group that are present.
#[derive(Clone, PartialEq, Debug)]
struct Members {
    weight: f64,
    /// Rate of the group at any level, bit/s: its guarantee, or its present rate.
    minimum: f64,
    /// Guaranteed rate, in bit/s.
    promised: f64,
    /// Indices of flows of the stretch.
    flows: Vec<usize>,
}

/// All groups, and the progress of each flow.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    flows: Vec<SteadyFlow>,
    groups: Vec<Members>,
    fixed: Vec<Option<Fixed>>,
}

impl Groups {
    pub fn new(flows: &[SteadyFlow], groups: &[Group]) -> Self {
        let here = |of: &usize| flows.iter().position(|f| f.index == *of);
        let members = |g: &Group| {
            let members: Vec<usize> = g.flows.iter().filter_map(here).collect();
            let minimum = members.iter().map(|&m| flows[m].minimum).sum();
            Members { weight: g.weight, minimum, promised: minimum, flows: members }
        };
        Groups {
            flows: flows.to_vec(),
            groups: groups.iter().map(members).filter(|g| !g.flows.is_empty()).collect(),
            fixed: vec![None; flows.len()],
        }
    }

    /// Returns each flow's target, bit/s: groups have level × weight, and at least their minimum.
    pub fn targets(&self, level: f64) -> Vec<f64> {
        let mut out = vec![0.0; self.flows.len()];
        for group in &self.groups {
            self.split(group, (group.weight * level).max(group.minimum), &mut out);
        }
        out
    }

    /// Divides a group's rate among its flows.
    /// Fixed ones keep theirs, the others have parts by weight, and none exceeds its demand.
    fn split(&self, group: &Members, rate: f64, out: &mut [f64]) {
        let mut left = rate;
        for (m, fixed) in self.of(group) {
            if let Some(fixed) = fixed {
                out[m] = fixed.rate;
                left -= fixed.rate;
            }
        }
        let mut open = self.open_of(group);
        // The flow with the smallest demand by its weight is first; the rest is divided among the
        // others.
        let asks = |m: usize| self.flows[m].demand / self.flows[m].weight;
        open.sort_by(|&a, &b| asks(a).total_cmp(&asks(b)).then(a.cmp(&b)));
        let mut weights: f64 = open.iter().map(|&m| self.flows[m].weight).sum();
        for m in open {
            let flow = &self.flows[m];
            out[m] = (left.max(0.0) * flow.weight / weights).min(flow.demand);
            left -= out[m];
            weights -= flow.weight;
        }
    }

    fn of<'a>(&'a self, group: &'a Members) -> impl Iterator<Item = (usize, Option<Fixed>)> + 'a {
        group.flows.iter().map(|&m| (m, self.fixed[m]))
    }

    fn open_of(&self, group: &Members) -> Vec<usize> {
        self.of(group).filter(|(_, fixed)| fixed.is_none()).map(|(m, _)| m).collect()
    }

    /// Returns the growth of each flow's target with the level; 0 if it is fixed.
    pub fn slopes(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.flows.len()];
        for group in &self.groups {
            let open = self.open_of(group);
            let weights: f64 = open.iter().map(|&m| self.flows[m].weight).sum();
            for m in open {
                out[m] = group.weight * self.flows[m].weight / weights;
            }
        }
        out
    }

    /// Returns the flows that still grow.
    pub fn open(&self) -> Vec<usize> {
        (0..self.fixed.len()).filter(|&m| self.fixed[m].is_none()).collect()
    }

    pub fn fixed(&self) -> &[Option<Fixed>] {
        &self.fixed
    }

    pub fn fix(&mut self, flow: usize, rate: f64, why: Stop) {
        self.fixed[flow] = Some(Fixed { rate, why });
    }

    /// Returns the rate by weight of each flow's group, in bit/s.
    pub fn levels(&self, rates: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; rates.len()];
        for group in &self.groups {
            let level = group.flows.iter().map(|&m| rates[m]).sum::<f64>() / group.weight;
            group.flows.iter().for_each(|&m| out[m] = level);
        }
        out
    }

    /// Reduces all groups that have at least as much, by weight, as that of `flow`.
    ///
    /// `part` is the fraction. If the demand of `flow` is met, only groups that have more are
    /// reduced. All flows must be fixed.
    pub fn lower(&mut self, flow: usize, part: f64) {
        let level = |g: &Members| {
            g.flows.iter().filter_map(|&m| self.fixed[m]).map(|f| f.rate).sum::<f64>() / g.weight
        };
        let levels: Vec<f64> = self.groups.iter().map(level).collect();
        let Some(own) = self.groups.iter().position(|g| g.flows.contains(&flow)) else { return };
        let satisfied = self.fixed[flow].is_some_and(|f| f.why == Stop::Demand);
        let more = levels[own] * (1.0 + 1e-9);
        let least = match satisfied && levels.iter().any(|l| *l > more) {
            true => more,
            false => levels[own] * (1.0 - 1e-9),
        };
        for (group, level) in self.groups.iter_mut().zip(levels) {
            if level >= least {
                group.minimum *= 1.0 - part;
                for &m in &group.flows {
                    if let Some(fixed) = &mut self.fixed[m] {
                        fixed.rate *= 1.0 - part;
                        if fixed.why == Stop::Demand {
                            fixed.why = Stop::Air;
                        }
                    }
                }
            }
        }
    }

    /// Removes all guarantees.
    pub fn forget_promises(&mut self) {
        self.groups.iter_mut().for_each(|g| (g.minimum, g.promised) = (0.0, 0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(index: usize, weight: f64, demand: f64, minimum: f64) -> SteadyFlow {
        SteadyFlow { index, weight, demand, minimum, payload: 1000.0, datagrams: false }
    }

    fn group(flows: &[usize], weight: f64) -> Group {
        Group { flows: flows.to_vec(), weight }
    }

    const INF: f64 = f64::INFINITY;

    #[test]
    fn a_group_has_one_share_and_small_demands_leave_theirs() {
        let flows = [flow(0, 1.0, INF, 0.0), flow(1, 3.0, 10.0, 0.0), flow(4, 1.0, INF, 0.0)];
        let groups =
            Groups::new(&flows, &[group(&[0, 1], 2.0), group(&[4], 1.0), group(&[3], 1.0)]);
        // 200 for the first two: 10 is the demand of one.
        assert_eq!(groups.targets(100.0), [190.0, 10.0, 100.0]);
        // By weight while no demand is met.
        assert_eq!(groups.targets(4.0), [2.0, 6.0, 4.0]);
        assert_eq!(groups.slopes(), [0.5, 1.5, 1.0]);
    }

    #[test]
    fn fixed_flows_keep_their_rate_and_the_rest_of_the_group_grows() {
        let flows = [flow(0, 1.0, INF, 0.0), flow(1, 1.0, INF, 0.0), flow(2, 1.0, INF, 30.0)];
        let mut groups = Groups::new(&flows, &[group(&[0, 1], 1.0), group(&[2], 1.0)]);
        groups.fix(0, 10.0, Stop::Air);
        assert_eq!(groups.targets(20.0), [10.0, 10.0, 30.0], "a promise holds at any level");
        assert_eq!(groups.targets(50.0), [10.0, 40.0, 50.0]);
        assert_eq!(groups.slopes(), [0.0, 1.0, 1.0]);
        assert_eq!(groups.open(), [1, 2]);
        groups.forget_promises();
        assert_eq!(groups.targets(20.0)[2], 20.0);
    }

    #[test]
    fn flows_with_equal_rates_are_lowered_together() {
        let flows = [0, 1, 2].map(|i| flow(i, 1.0, INF, 0.0));
        let all = [group(&[0], 1.0), group(&[1], 1.0), group(&[2], 2.0)];
        let mut groups = Groups::new(&flows, &all);
        for (m, rate) in [10.0, 20.0, 30.0].into_iter().enumerate() {
            groups.fix(m, rate, Stop::Air);
        }
        // The last one has 15 by its weight, less than 20.
        groups.lower(1, 0.5);
        assert_eq!(groups.targets(0.0), [10.0, 10.0, 30.0]);
        groups.lower(0, 0.1);
        assert_eq!(groups.targets(0.0), [9.0, 9.0, 27.0]);
        assert_eq!(groups.levels(&groups.targets(0.0)), [9.0, 9.0, 13.5]);
    }
}
