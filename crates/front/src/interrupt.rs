//! Interrupts (Ctrl-C): most commands end at once; some must clean up first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::{io, thread};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Exit code of a process ended by an interrupt: 128 + SIGINT.
pub const EXIT_CODE: u8 = 130;

/// Set while a caller waits for the interrupt; true after it.
static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns a flag that an interrupt sets from now on, instead of ending the process.
///
/// A termination signal sets it too.
pub fn awaited() -> &'static AtomicBool {
    INTERRUPTED.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        // If the handler cannot be set, a termination signal ends the process, as it does elsewhere.
        let _ = signal_hook::flag::register(SIGTERM, Arc::clone(&flag));
        flag
    })
}

/// Set while a batch with a store runs; true if it must stop.
static STOP_BATCH: OnceLock<AtomicBool> = OnceLock::new();

/// Returns a flag that the first interrupt sets from now on, instead of ending the process.
///
/// The batch then stops when its current runs are complete.
pub fn stops_batches() -> &'static AtomicBool {
    STOP_BATCH.get_or_init(AtomicBool::default)
}

/// Returns true if this interrupt is the first one while a batch can be stopped.
///
/// It is called by the handler.
pub fn stops_a_batch() -> bool {
    STOP_BATCH.get().is_some_and(|stop| !stop.swap(true, Ordering::Relaxed))
}

/// Returns true if a caller waits for the interrupt, and sets its flag; for the handler.
pub fn is_awaited() -> bool {
    let flag = INTERRUPTED.get();
    if let Some(flag) = flag {
        flag.store(true, Ordering::Relaxed);
    }
    flag.is_some()
}

/// Calls `on_interrupt` at each interrupt, on a separate thread.
///
/// # Errors
/// Returns an error if the handler cannot be registered or the thread cannot be started.
pub fn handle(on_interrupt: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    let handler = move || signals.forever().for_each(|_| on_interrupt());
    thread::Builder::new().name("interrupts".to_owned()).spawn(handler)?;
    Ok(())
}
