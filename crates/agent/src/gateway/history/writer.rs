//! Thread that writes the history, so that a slow disk never delays the daemon's loop.

use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::ring::Ring;
use super::{HistorySettings, Period};

/// Minutes that may wait for the disk; further ones are lost.
const MAX_WAITING_MINUTES: usize = 4;
/// Longest wait for the last record at the end of the daemon.
const FINAL_WAIT: Duration = Duration::from_secs(1);

/// State of the history.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct HistoryReport {
    /// Folder of the records.
    pub folder: PathBuf,
    /// Bytes of all records.
    pub bytes: u64,
    /// Largest size, in bytes.
    pub size: u64,
    /// End of the oldest record, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<u64>,
    /// End of the first minute of this run, seconds since 1970, until it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_minute: Option<u64>,
    /// Minutes written since the start.
    pub written: u64,
    /// Minutes lost since the start: the disk was full or too slow.
    pub lost: u64,
    /// Bytes of an incomplete record that were cut off at the start.
    pub cut: u64,
    /// Reason why the last minute could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Writer of a history.
pub struct HistoryWriter {
    sink: Sink,
    report: Arc<Mutex<HistoryReport>>,
}

enum Sink {
    Thread(Option<(SyncSender<Period>, JoinHandle<()>)>),
    Direct(Box<Writer>),
}

/// The ring with its report, opened at the first record.
struct Writer {
    settings: HistorySettings,
    ring: Option<Ring>,
    report: Arc<Mutex<HistoryReport>>,
}

fn lock(report: &Mutex<HistoryReport>) -> MutexGuard<'_, HistoryReport> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    fn open(&mut self) -> std::io::Result<&mut Ring> {
        if self.ring.is_none() {
            let ring = Ring::open(&self.settings)?;
            let mut report = lock(&self.report);
            report.cut += ring.cut;
            (report.bytes, report.oldest) = (ring.bytes(), ring.oldest());
            drop(report);
            self.ring = Some(ring);
        }
        self.ring.as_mut().ok_or_else(|| std::io::Error::other("not open"))
    }

    fn store(&mut self, period: Period) {
        let stored = self.open().and_then(|ring| ring.store(period));
        let mut report = lock(&self.report);
        if let Some(ring) = &self.ring {
            (report.bytes, report.oldest) = (ring.bytes(), ring.oldest());
        }
        match stored {
            Ok(()) => {
                report.written += 1;
                report.problem = None;
            }
            Err(e) => {
                report.lost += 1;
                report.problem = Some(e.to_string());
            }
        }
    }
}

impl HistoryWriter {
    fn parts(settings: &HistorySettings) -> (Writer, Arc<Mutex<HistoryReport>>) {
        let report = HistoryReport {
            folder: settings.folder.clone(),
            size: settings.size,
            ..HistoryReport::default()
        };
        let report = Arc::new(Mutex::new(report));
        (Writer { settings: settings.clone(), ring: None, report: report.clone() }, report)
    }

    /// Starts the thread; `None` without a history.
    pub fn start(settings: &HistorySettings) -> Option<HistoryWriter> {
        if settings.size == 0 {
            return None;
        }
        let (mut writer, report) = HistoryWriter::parts(settings);
        let (send, receive) = mpsc::sync_channel::<Period>(MAX_WAITING_MINUTES);
        let thread = std::thread::Builder::new().name("history".into()).spawn(move || {
            let opened = writer.open().map(|_| ());
            if let Err(e) = opened {
                lock(&writer.report).problem = Some(e.to_string());
            }
            for period in receive {
                writer.store(period);
            }
        });
        let thread = match thread {
            Ok(thread) => Some((send, thread)),
            Err(e) => {
                lock(&report).problem = Some(e.to_string());
                None
            }
        };
        Some(HistoryWriter { sink: Sink::Thread(thread), report })
    }

    /// Returns a writer without a thread, for a virtual clock.
    pub fn direct(settings: &HistorySettings) -> HistoryWriter {
        let (writer, report) = HistoryWriter::parts(settings);
        HistoryWriter { sink: Sink::Direct(Box::new(writer)), report }
    }

    /// Stores a minute. It never waits: if the disk is too slow, the minute is lost and counted.
    pub fn store(&mut self, period: Period) {
        let sent = match &mut self.sink {
            Sink::Direct(writer) => return writer.store(period),
            Sink::Thread(None) => return lock(&self.report).lost += 1,
            Sink::Thread(Some((send, _))) => send.try_send(period),
        };
        let problem = match sent {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => "the disk is too slow",
            Err(TrySendError::Disconnected(_)) => "the writer has ended",
        };
        let mut report = lock(&self.report);
        report.lost += 1;
        report.problem = Some(problem.to_owned());
    }

    /// Returns the present state.
    pub fn report(&self) -> HistoryReport {
        lock(&self.report).clone()
    }

    /// Ends the thread once it has written everything, or after a second.
    pub fn end(&mut self) {
        let Sink::Thread(thread) = &mut self.sink else { return };
        let Some((send, thread)) = thread.take() else { return };
        drop(send);
        let start = Instant::now();
        while !thread.is_finished() && start.elapsed() < FINAL_WAIT {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
