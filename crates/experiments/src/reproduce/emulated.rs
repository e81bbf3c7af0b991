//! Arms that run in real time, over real network stacks and the simulator's radio.
//!
//! This crate does not depend on the emulator, which needs privileges and a kernel; the calling
//! program provides it.

use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;

use super::declare::Host;
use super::plan::{Plan, Runs};
use super::record::{Emulated, Stalled};

/// Maximum number of runs of a seed; the first that kept real time counts.
const MAX_RUNS_PER_SEED: u32 = 3;

impl Stalled {
    fn of(run: &RunRecord) -> Option<Self> {
        let s = run.emulation.as_ref()?.stalls;
        let (number, sum_s, longest_s) = (s.number, s.sum_s, s.longest_s);
        Some(Stalled { number, sum_s, longest_s, felt: s.felt, bent: s.bent })
    }
}

impl Runs {
    /// Runs the emulated arms sequentially, with the seeds of each in order.
    ///
    /// `run` runs a scenario once, with a seed and an interval of the curves.
    ///
    /// # Errors
    /// Returns the first error of `run`.
    pub fn emulate<E>(
        &mut self,
        plans: &[Plan],
        mut run: impl FnMut(&Scenario, u64, Option<Span>) -> Result<RunRecord, E>,
    ) -> Result<(), E> {
        for (index, plan) in plans.iter().enumerate() {
            for (c, case) in plan.cases.iter().enumerate() {
                if case.host != Host::Emulator {
                    continue;
                }
                let at = self.which[index][c];
                while self.records[at].len() < plan.runs_of(case) as usize
                    && self.attempts[at].refused.is_none()
                {
                    let seed = self.records[at].len() as u64 + 1;
                    self.one(at, || run(case.scenario(), seed, plan.sample()))?;
                }
            }
        }
        Ok(())
    }

    fn one<E>(
        &mut self,
        at: usize,
        mut run: impl FnMut() -> Result<RunRecord, E>,
    ) -> Result<(), E> {
        let mut why = String::new();
        for _ in 0..MAX_RUNS_PER_SEED {
            let record = run()?;
            let Some(e) = record.emulation.as_ref().filter(|e| !e.valid) else {
                self.records[at].push(record);
                return Ok(());
            };
            why = e.problems.join("; ");
            self.attempts[at].repeated += 1;
        }
        // An incomplete set of runs is discarded.
        self.records[at].clear();
        self.attempts[at].refused =
            Some(format!("{MAX_RUNS_PER_SEED} runs in the emulator were invalid: {why}"));
        Ok(())
    }

    /// Collects the emulator's timekeeping in the runs of a plan.
    pub(super) fn emulated(&self, plan: &Plan, index: usize) -> Vec<Emulated> {
        let cases = plan.cases.iter().enumerate().filter(|(_, c)| c.host == Host::Emulator);
        let timekeeping = cases.map(|(i, case)| {
            let experiment = &plan.entry.experiment;
            Emulated {
                arm: experiment.arms[case.arm].label.clone(),
                point: experiment.points.get(case.point).map_or(String::new(), |p| p.label.clone()),
                runs: self.of_case(plan, index, i).iter().filter_map(Stalled::of).collect(),
                repeated: self.attempts[self.which[index][i]].repeated,
            }
        });
        timekeeping.filter(|e| !e.runs.is_empty()).collect()
    }

    /// Returns the arms without valid runs, with the reason.
    pub(super) fn refused(&self, plan: &Plan, index: usize) -> Vec<(String, String)> {
        let cases = plan.cases.iter().enumerate();
        let refused = cases.filter_map(|(i, case)| {
            let why = self.attempts[self.which[index][i]].refused.clone()?;
            Some((plan.entry.experiment.arms[case.arm].label.clone(), why))
        });
        refused.collect()
    }
}

/// Describes the timekeeping of all emulated runs in a sentence.
///
/// `None` without emulated runs.
pub fn timekeeping(emulated: &[Emulated]) -> Option<String> {
    let runs: Vec<&Stalled> = emulated.iter().flat_map(|e| &e.runs).collect();
    let worst = runs.iter().map(|r| r.bent).reduce(f64::max)?;
    let most = runs.iter().map(|r| r.sum_s).fold(0.0, f64::max);
    let longest = runs.iter().map(|r| r.longest_s).fold(0.0, f64::max);
    let felt: u64 = runs.iter().map(|r| r.felt).sum();
    let repeated: u32 = emulated.iter().map(|e| e.repeated).sum();
    let again = match repeated {
        0 => "none was invalid and run again".to_owned(),
        1 => "one more was invalid and run again".to_owned(),
        n => format!("{n} more were invalid and run again"),
    };
    Some(format!(
        "In the emulator: {} runs in real time; in the worst of them the radio stood still for {most:.2} s in all, at most {longest:.2} s at once, \
         and {:.1} % of its time is bent (10 % is the bound); the kernel felt {felt} of all stalls; {again}",
        runs.len(),
        100.0 * worst
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalled(sum_s: f64, felt: u64, bent: f64) -> Stalled {
        Stalled { number: 3, sum_s, longest_s: sum_s / 2.0, felt, bent }
    }

    #[test]
    fn the_worst_of_all_runs_is_reported() {
        assert_eq!(timekeeping(&[]), None);
        let arm =
            |runs, repeated| Emulated { arm: "TCP".into(), point: String::new(), runs, repeated };
        let two = [
            arm(vec![stalled(0.5, 1, 0.02), stalled(0.1, 0, 0.001)], 0),
            arm(vec![stalled(0.2, 2, 0.04)], 1),
        ];
        let text = timekeeping(&two).unwrap();
        for part in ["3 runs", "0.50 s in all", "0.25 s at once", "4.0 %", "felt 3", "one more"] {
            assert!(text.contains(part), "{text}: {part}");
        }
    }
}
