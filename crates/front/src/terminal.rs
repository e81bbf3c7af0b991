//! Progress on standard error: a bar on a terminal, a line per minute in a log.

use std::io::{IsTerminal, stderr};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairmesh_lab::{Pool, Progress, Store};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::ThreadArgs;
use crate::interrupt;

/// Returns a bar over `total` runs; it draws nothing unless standard error is a terminal.
pub fn bar(total: usize, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
    let style = "{msg} [{bar:30}] {pos}/{len}, {elapsed} so far, {eta} to go";
    // The template is a constant; the default style is sufficient too.
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Time between lines of a log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Progress of a batch: a bar on a terminal, otherwise a line per minute.
#[derive(Default)]
struct ProgressReporter {
    bar: Option<ProgressBar>,
    started: Option<Instant>,
    /// Number of lines written.
    lines: u32,
    done: usize,
}

impl ProgressReporter {
    fn report(&mut self, p: Progress) {
        if p.done == 0 {
            *self = ProgressReporter {
                bar: stderr().is_terminal().then(|| bar(p.total, p.what)),
                started: Some(Instant::now()),
                ..ProgressReporter::default()
            };
            return;
        }
        // Jobs end in any order, and so do their calls.
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        } else if let Some(elapsed) = self.started.map(|s| s.elapsed())
            && elapsed > LOG_INTERVAL * (self.lines + 1)
        {
            self.lines = (elapsed.as_secs() / LOG_INTERVAL.as_secs()) as u32;
            eprintln!("{}: {} of {}, {} min so far", p.what, self.done, p.total, self.lines);
        }
        if self.done == p.total {
            self.clear();
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Runs `work` with a progress bar for each of its batches.
pub fn with_bars<T>(threads: ThreadArgs, work: impl FnOnce(&Pool<'_>) -> T) -> T {
    with_bars_and(threads, None, work)
}

/// Runs `work` with progress bars and a store for the runs.
///
/// An interrupt then stops the batch when the current runs are complete, and a second one ends the process.
pub fn with_bars_and<T>(
    threads: ThreadArgs,
    store: Option<&Store>,
    work: impl FnOnce(&Pool<'_>) -> T,
) -> T {
    let stop = store.map(|_| interrupt::stops_batches());
    let teller: Mutex<ProgressReporter> = Mutex::default();
    let lock = || teller.lock().unwrap_or_else(PoisonError::into_inner);
    let show = |p: Progress| {
        lock().report(p);
        match stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let threads = self::threads(threads);
    let outcome = work(&Pool { threads, progress: Some(&show), store, ..Pool::default() });
    // An interrupted batch leaves its bar.
    lock().clear();
    outcome
}

/// Runs `work` with an unknown number of runs, and a line that counts them.
///
/// The line also shows the fraction of the maximum that is spent, in per cent.
pub fn with_counter<T>(
    what: &'static str,
    work: impl FnOnce(&(dyn Fn(u64, u64) + Sync)) -> T,
) -> T {
    let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(
        "{msg}: {pos} runs, {elapsed} so far, {prefix}% of the most it spends",
    ) {
        line.set_style(style);
    }
    line.set_message(what);
    line.enable_steady_tick(Duration::from_millis(250));
    let outcome = work(&|done, part| {
        line.set_position(done);
        line.set_prefix(part.to_string());
    });
    line.finish_and_clear();
    outcome
}

/// Converts the number of threads to the laboratory's type.
pub fn threads(args: ThreadArgs) -> Option<NonZero<usize>> {
    args.threads.and_then(|n| NonZero::new(usize::from(n)))
}
