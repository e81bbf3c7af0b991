//! State that a call shares with the mechanisms of Python in its runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fairmesh_lab::CancelToken;
use pyo3::prelude::*;

/// Number of mechanisms above which those of ended runs are removed.
const MAX_KEPT_MECHANISMS: usize = 1024;

/// Cancellation of a call's runs, the first exception, and the threads inside mechanisms.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// Token that ends the runs.
    pub cancel: CancelToken,
    failure: Mutex<Option<PyErr>>,
    /// By mechanism, the identifier of the thread that is executing its code; 0 if there is none.
    threads: Mutex<Vec<Weak<AtomicU64>>>,
}

impl Guard {
    /// Stores the first exception and ends the runs.
    pub fn fail(&self, e: PyErr) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        self.cancel.cancel();
    }

    /// Returns the first exception of a mechanism.
    pub fn failure(&self) -> Option<PyErr> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Adds a mechanism, and returns the place in which it stores its thread while its code runs.
    pub fn watch(&self) -> Arc<AtomicU64> {
        let place = Arc::new(AtomicU64::new(0));
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() > MAX_KEPT_MECHANISMS {
            threads.retain(|t| t.strong_count() > 0);
        }
        threads.push(Arc::downgrade(&place));
        place
    }

    /// Returns the threads that are executing code of mechanisms.
    pub fn inside(&self) -> Vec<u64> {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = threads.iter().filter_map(Weak::upgrade);
        alive.map(|t| t.load(Ordering::Relaxed)).filter(|t| *t != 0).collect()
    }
}
