//! Progress on standard error, where a person watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
