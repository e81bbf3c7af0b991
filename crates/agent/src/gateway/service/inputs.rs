//! Threads that send events to the loop.

use std::time::Duration;

use fairmesh_linux::link::{LinkEvent, LinkEvents};

use super::Wanted;
use crate::daemon::runtime::{Inbox, MAX_HEARTBEAT_INTERVAL};
use crate::gateway::directory;
use crate::gateway::sources::Discovery;

/// An event of the gateway's threads.
#[derive(Debug)]
pub enum Input {
    /// Changes of interfaces.
    Links(Vec<LinkEvent>),
    /// Results of the sources of subscribers.
    Found(Discovery),
    /// Datagrams of other gateways can be read.
    Datagrams,
}

/// Watches the interfaces. Without events the next sample finds changes as well.
pub(in crate::gateway) fn links(inbox: Inbox<Input>) {
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
                    if !inbox.send(Input::Links(events)) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
}

/// Queries the sources of subscribers as long as some are configured.
pub(in crate::gateway) fn discovery(what: Wanted, inbox: Inbox<Input>) {
    let _ = std::thread::Builder::new().name("discovery".into()).spawn(move || {
        loop {
            let wanted = what.lock().map(|w| w.clone()).unwrap_or_default();
            let Some(mut sources) = wanted else {
                std::thread::sleep(MAX_HEARTBEAT_INTERVAL);
                continue;
            };
            let found = directory::ask(&mut sources);
            if !inbox.send(Input::Found(found)) {
                return;
            }
            std::thread::sleep(Duration::from_nanos(sources.discover.every.as_nanos()));
        }
    });
}
