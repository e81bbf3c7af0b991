//! Threads that bring messages to the one loop.

use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairmesh_linux::link::{LinkEvent, LinkEvents};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::BEAT;
use crate::config::Discover;
use crate::error::AgentError;
use crate::socket::Call;
use crate::sources::{self, Harvest};

pub(super) enum Message {
    Call(Call),
    Signal(i32),
    Links(Vec<LinkEvent>),
    Found(Harvest),
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
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = tiny_http::Server::http(address)?;
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        for request in server.incoming_requests() {
            let plain = tiny_http::Header::from_bytes("Content-Type", "text/plain; version=0.0.4");
            let (mut text, mut code) = ("try /metrics\n".to_owned(), 404);
            if request.url().split('?').next() == Some("/metrics") {
                let (give, take) = mpsc::sync_channel(1);
                let sent = send.send(Message::Scrape(give)).is_ok();
                (text, code) = match take.recv_timeout(Duration::from_secs(10)) {
                    Ok(page) if sent => (page, 200),
                    _ => ("busy\n".to_owned(), 503),
                };
            }
            let mut response = tiny_http::Response::from_string(text).with_status_code(code);
            if let Ok(plain) = plain {
                response = response.with_header(plain);
            }
            let _ = request.respond(response);
        }
    })?;
    Ok(())
}

pub(super) fn discovery(what: Arc<Mutex<Option<(Discover, String)>>>, send: Sender<Message>) {
    let _ = std::thread::Builder::new().name("discovery".into()).spawn(move || {
        loop {
            let now = what.lock().map(|w| w.clone()).unwrap_or_default();
            let Some((discover, mesh)) = now else {
                std::thread::sleep(BEAT);
                continue;
            };
            if send.send(Message::Found(sources::fetch(&discover, &mesh))).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_nanos(discover.every.as_nanos()));
        }
    });
}
