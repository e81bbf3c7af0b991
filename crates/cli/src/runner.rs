//! Many runs on all cores, with the same results on any number of them.

use std::path::Path;

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run, run_observed};
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Span};
use rayon::prelude::*;

use crate::args::ThreadArgs;
use crate::error::CliError;
use crate::output::folder::PendingFile;
use crate::pcap::{Capture, Ports};
use crate::progress;

/// Does `work` on every job and returns the outcomes in the order of the jobs.
///
/// # Errors
/// The error of a job; jobs that have not started then never do.
pub fn all<J: Sync, T: Send>(
    threads: ThreadArgs,
    what: &'static str,
    jobs: &[J],
    work: impl Fn(&J) -> Result<T, CliError> + Sync,
) -> Result<Vec<T>, CliError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.threads.map_or(0, usize::from))
        .build()
        .map_err(|e| CliError::option("--threads", e))?;
    let bar = progress::bar(jobs.len(), what);
    let outcome = pool.install(|| {
        jobs.par_iter()
            // One at a time: runs differ in length, and no thread should sit on a batch.
            .with_max_len(1)
            .map(|job| {
                let outcome = work(job);
                bar.inc(1);
                outcome
            })
            .collect()
    });
    bar.finish_and_clear();
    outcome
}

/// Runs a scenario once.
///
/// # Errors
/// What the engine refuses.
pub fn once(scenario: &Scenario, seed: u64, sample: Option<Span>) -> Result<RunRecord, CliError> {
    run(scenario, &RunOptions { seed, sample }).map_err(|e| refused(scenario, &e))
}

/// Runs a scenario once and captures its frames to `file`, all of them or those of one node.
///
/// # Errors
/// What the engine refuses; a file that cannot be written.
pub fn captured(
    scenario: &Scenario,
    seed: u64,
    sample: Option<Span>,
    file: &Path,
    only: Option<NodeId>,
) -> Result<RunRecord, CliError> {
    let (pending, out) = PendingFile::create(file)?;
    let unwritable = |e: std::io::Error| CliError::file(file, format!("cannot be written: {e}"));
    let out = std::io::BufWriter::with_capacity(1 << 16, out);
    let mut capture = Capture::new(out, ports(scenario), only).map_err(unwritable)?;
    let record = run_observed(scenario, &RunOptions { seed, sample }, &mut capture)
        .map_err(|e| refused(scenario, &e))?;
    capture.finish().map_err(unwritable)?;
    pending.finish()?;
    Ok(record)
}

fn refused(scenario: &Scenario, e: &fairmesh_engine::EngineError) -> CliError {
    CliError::Run { scenario: scenario.name.clone(), problem: e.to_string() }
}

/// Ports of each flow: the server's is 5001, the client's tells flows apart.
fn ports(scenario: &Scenario) -> Vec<Ports> {
    let ephemeral = |i: usize| 49_152 + (i % 16_384) as u16;
    let flows = scenario.flows.iter().enumerate();
    flows
        .map(|(i, f)| Ports { client: f.from, client_port: ephemeral(i), server_port: 5001 })
        .collect()
}

/// A round sampling interval that gives about 200 points.
pub fn sample_interval(duration: Span) -> Span {
    const STEPS: [u64; 3] = [1, 2, 5];
    let wanted = duration.as_nanos() / 200;
    let mut unit = 1_000_000;
    loop {
        for step in STEPS {
            if step * unit >= wanted {
                return Span::from_nanos(step * unit);
            }
        }
        unit *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        for threads in [1, 2, 7] {
            let threads = ThreadArgs { threads: Some(threads) };
            assert_eq!(all(threads, "", &jobs, |j| Ok(j * 2)).unwrap()[99], 198);
        }
        let e = all(ThreadArgs::default(), "", &jobs, |j| match j {
            50 => Err(CliError::Verdict("no".into())),
            _ => Ok(()),
        });
        assert!(e.is_err());
    }

    #[test]
    fn sampling_is_round_and_dense_enough() {
        assert_eq!(sample_interval(Span::from_secs(200)), Span::from_secs(1));
        assert_eq!(sample_interval(Span::from_secs(60)), Span::from_millis(500));
        assert_eq!(sample_interval(Span::from_micros(1)), Span::from_millis(1));
    }
}
