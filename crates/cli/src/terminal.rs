//! Progress on standard error, where a person watches.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairmesh_lab::{Pool, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::ThreadArgs;

/// A bar over `total` runs. It draws nothing unless standard error is a terminal.
pub fn bar(total: usize, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
    let style = "{msg} [{bar:30}] {pos}/{len}, {elapsed} so far, {eta} to go";
    // The template is a constant; the default style would do as well.
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Does `work` with a bar for each of its batches.
pub fn with_bars<T>(threads: ThreadArgs, work: impl FnOnce(&Pool<'_>) -> T) -> T {
    let current: Mutex<Option<ProgressBar>> = Mutex::new(None);
    let lock = || current.lock().unwrap_or_else(PoisonError::into_inner);
    let show = |p: Progress| {
        let mut current = lock();
        if p.done == 0 {
            *current = Some(bar(p.total, p.what));
        }
        if let Some(bar) = current.as_ref() {
            // Jobs end in any order, and so do their calls.
            bar.inc(u64::from(p.done > 0));
        }
        if p.done == p.total
            && let Some(bar) = current.take()
        {
            bar.finish_and_clear();
        }
    };
    let threads = self::threads(threads);
    let outcome = work(&Pool { threads, progress: Some(&show) });
    // A batch that was broken off left its bar.
    if let Some(bar) = lock().take() {
        bar.finish_and_clear();
    }
    outcome
}

/// Does `work`, of which nobody knows how many runs it takes, with a line that counts them and says
/// how many percent of the most it may spend are spent.
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

/// As the laboratory takes them.
pub fn threads(args: ThreadArgs) -> Option<NonZero<usize>> {
    args.threads.and_then(|n| NonZero::new(usize::from(n)))
}
