//! Threads that bring messages to the one loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairmesh_linux::link::{LinkEvent, LinkEvents};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::BEAT;
use crate::daemon::http;
use crate::daemon::socket::Call;
use crate::error::AgentError;
use crate::gateway::config::Discover;
use crate::gateway::sources::{self, Discovery};

pub(super) enum Message {
    Call(Call),
    Signal(i32),
    Links(Vec<LinkEvent>),
    Found(Discovery),
    /// Something has come from another gateway.
    Datagrams,
    Scrape(SyncSender<String>),
}

pub(super) fn signals(send: Sender<Message>) -> Result<(), AgentError> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if send.send(Message::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Watches the interfaces. Without events the next look at the counters finds out as well.
pub(super) fn links(send: Sender<Message>) {
    let Ok(mut events) = LinkEvents::open() else { return };
    let _ = std::thread::Builder::new().name("links".into()).spawn(move || {
        loop {
            let mut fds = [nix::poll::PollFd::new(
                std::os::fd::AsFd::as_fd(&events),
                nix::poll::PollFlags::POLLIN,
            )];
            if nix::poll::poll(&mut fds, nix::poll::PollTimeout::NONE).is_err() {
                continue;
            }
            match events.read() {
                Ok(events) => {
                    if send.send(Message::Links(events)).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
}

pub(super) fn serve_metrics(
    address: std::net::SocketAddr,
    send: Sender<Message>,
) -> std::io::Result<()> {
    let page = move || {
        let (give, take) = mpsc::sync_channel(1);
        send.send(Message::Scrape(give)).ok()?;
        take.recv_timeout(Duration::from_secs(10)).ok()
    };
    http::serve(address, page).map(|_| ())
}

pub(super) fn discovery(what: Arc<Mutex<Option<(Discover, String)>>>, send: Sender<Message>) {
    let _ = std::thread::Builder::new().name("discovery".into()).spawn(move || {
        loop {
            let now = what.lock().map(|w| w.clone()).unwrap_or_default();
            let Some((discover, mesh)) = now else {
                std::thread::sleep(BEAT);
                continue;
            };
            // Whatever a source says, it ends neither this thread nor the daemon.
            let fetched = catch_unwind(AssertUnwindSafe(|| sources::fetch(&discover, &mesh)));
            let found = fetched.unwrap_or_else(|_| Discovery {
                found: Vec::new(),
                failed: vec!["a source could not be read: this program failed over it".into()],
                sources: Vec::new(),
            });
            if send.send(Message::Found(found)).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_nanos(discover.every.as_nanos()));
        }
    });
}
