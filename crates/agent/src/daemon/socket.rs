//! The control socket: one JSON object per line, in both directions.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reason why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No daemon responds at the socket.
    #[error("{}: {problem}; expected a running daemon", socket.display())]
    NoDaemon {
        /// Path of the socket.
        socket: PathBuf,
        /// The system's error, or the problem of the response.
        #[source]
        problem: io::Error,
    },
    /// The daemon refuses the request.
    #[error(transparent)]
    Refused(Refusal),
}

/// Reason why a daemon refuses a request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Stable name of the reason; each service has its own names.
    pub code: Cow<'static, str>,
    /// Message of one line.
    pub message: String,
}

impl Refusal {
    /// Returns a refusal with the name of the reason and its text.
    pub fn new(code: impl Into<Cow<'static, str>>, reason: &dyn std::error::Error) -> Self {
        Refusal { code: code.into(), message: reason.to_string() }
    }

    /// Returns the refusal of a daemon that does not respond in time.
    fn busy() -> Self {
        Refusal { code: "busy".into(), message: "the daemon is busy; try again".to_owned() }
    }
}

/// The daemon's response.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// The requested value.
    Ok(Value),
    /// The reason of a refusal.
    Refused(Refusal),
}

/// Longest request, in bytes.
const MAX_REQUEST: usize = 64 * 1024;
/// Longest time that either side waits for the other.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// Most simultaneous clients.
const MAX_CLIENTS: usize = 32;
/// Pause after a failed `accept`.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Interval and number of the checks that a closed client has gone.
const CLOSE_CHECKS: (Duration, u32) = (Duration::from_millis(1), 1000);

/// A request, and the channel of its response.
pub type Call = (String, mpsc::SyncSender<Response>);

/// Serves the socket on separate threads, until the process ends.
///
/// # Errors
/// Returns an error if the socket cannot be created.
pub fn serve(
    path: &Path,
    forward: impl Fn(Call) -> bool + Clone + Send + 'static,
) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // The daemon that created it is gone, since this process holds the lock.
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || accept(&listener, &forward))?;
    Ok(())
}

/// Clients that have not sent a request yet, the oldest in front.
#[derive(Clone, Debug, Default)]
struct IdleClients(Arc<Mutex<VecDeque<Arc<UnixStream>>>>);

impl IdleClients {
    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<UnixStream>>> {
        // A panic elsewhere leaves the list valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, stream: &Arc<UnixStream>) {
        self.all().push_back(stream.clone());
    }

    fn remove(&self, stream: &Arc<UnixStream>) {
        self.all().retain(|s| !Arc::ptr_eq(s, stream));
    }

    /// Closes the client that has been idle longest; returns true if there was one.
    fn close_oldest(&self) -> bool {
        let longest = self.all().pop_front();
        // Its thread reads the end, even if the other side has already gone.
        longest.map(|s| s.shutdown(Shutdown::Both)).is_some()
    }
}

/// Accepts clients as long as the process lives, whatever errors `accept` returns.
fn accept(listener: &UnixListener, forward: &(impl Fn(Call) -> bool + Clone + Send + 'static)) {
    let clients = Arc::new(());
    let idle = IdleClients::default();
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => Arc::new(stream),
            Err(e) => {
                // Probably out of files or memory, which is temporary.
                if e.kind() != io::ErrorKind::Interrupted {
                    std::thread::sleep(ACCEPT_RETRY_PAUSE);
                }
                continue;
            }
        };
        // An idle client makes room for a new one: `fairmesh gateway status` sends its request at
        // once. One for one: the request of a recent client may still be on its way.
        let full = || Arc::strong_count(&clients) > MAX_CLIENTS;
        if full() && idle.close_oldest() {
            (0..CLOSE_CHECKS.1)
                .take_while(|_| full())
                .for_each(|_| std::thread::sleep(CLOSE_CHECKS.0));
        }
        if full() {
            // The closed socket shows the client that no daemon responds.
            continue;
        }
        let (forward, one) = (forward.clone(), clients.clone());
        let waits = idle.clone();
        waits.add(&stream);
        // Handled one after the other, an idle client would block all others.
        let spawned =
            std::thread::Builder::new().name("client".into()).stack_size(128 * 1024).spawn({
                let stream = stream.clone();
                move || {
                    serve_client(&stream, &waits, &forward);
                    drop(one);
                }
            });
        if spawned.is_err() {
            idle.remove(&stream);
        }
    }
}

/// Reads the first line that a client sends; `None` if it takes too long in total.
fn request(mut stream: &UnixStream, patience: Duration) -> Option<String> {
    let end = Instant::now() + patience;
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        let n = match stream.read(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        bytes.extend_from_slice(&buffer[..n]);
        let line = bytes.iter().position(|b| *b == b'\n');
        if n == 0 || line.is_some() || bytes.len() > MAX_REQUEST {
            bytes.truncate(line.unwrap_or(bytes.len()).min(MAX_REQUEST));
            return String::from_utf8(bytes).ok();
        }
    }
}

fn serve_client(stream: &Arc<UnixStream>, idle: &IdleClients, forward: &impl Fn(Call) -> bool) {
    let _ = stream.set_write_timeout(Some(PEER_TIMEOUT));
    let line = request(stream, PEER_TIMEOUT);
    idle.remove(stream);
    let Some(line) = line else { return };
    let (send, receive) = mpsc::sync_channel(1);
    if !forward((line, send)) {
        return;
    }
    let late = |_| Response::Refused(Refusal::busy());
    let response = receive.recv_timeout(PEER_TIMEOUT).unwrap_or_else(late);
    if let Ok(mut text) = serde_json::to_vec(&response) {
        text.push(b'\n');
        let _ = stream.as_ref().write_all(&text);
    }
}

/// Sends a request to the daemon and returns the result.
///
/// # Errors
/// No daemon, or its refusal.
pub fn ask(path: &Path, request: &impl Serialize) -> Result<Value, AskError> {
    let exchange = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(2 * PEER_TIMEOUT))?;
        let mut line = serde_json::to_vec(request).map_err(io::Error::from)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(io::Error::from)
    };
    match exchange() {
        Ok(Response::Ok(value)) => Ok(value),
        Ok(Response::Refused(why)) => Err(AskError::Refused(why)),
        Err(problem) => Err(AskError::NoDaemon { socket: path.to_owned(), problem }),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    use super::*;

    fn serve_here(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("gateway.sock");
        let forward = |(_, reply): Call| reply.send(Response::Ok(Value::Null)).is_ok();
        serve(&path, forward).unwrap();
        path
    }

    /// Ten times as many clients as can be served, all of them idle.
    #[test]
    fn idle_clients_do_not_block_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = serve_here(folder.path());
        let idle: Vec<UnixStream> =
            (0..10 * MAX_CLIENTS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        for _ in 0..20 {
            assert!(ask(&path, &"hello").is_ok());
        }
        drop(idle);
    }

    /// A client that has sent its request and waits for the response is not closed.
    #[test]
    fn a_client_that_waits_for_a_response_stays() {
        let idle = IdleClients::default();
        let (here, _there) = UnixStream::pair().unwrap();
        let here = Arc::new(here);
        idle.add(&here);
        idle.remove(&here);
        assert!(!idle.close_oldest());
        let (first, mut its) = UnixStream::pair().unwrap();
        let (second, _) = UnixStream::pair().unwrap();
        let (first, second) = (Arc::new(first), Arc::new(second));
        idle.add(&first);
        idle.add(&second);
        assert!(idle.close_oldest());
        assert_eq!(its.read(&mut [0]).unwrap(), 0, "the first one goes first");
        assert_eq!(idle.all().len(), 1);
    }

    /// A byte now and then does not keep a client connected.
    #[test]
    fn a_slow_client_is_disconnected() {
        let (mut slow, here) = UnixStream::pair().unwrap();
        let dawdle = std::thread::spawn(move || {
            while slow.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        assert_eq!(request(&here, Duration::from_millis(50)), None);
        drop(here);
        dawdle.join().unwrap();
        let (mut there, here) = UnixStream::pair().unwrap();
        there.write_all(b"{\"command\":\"status\"}\nmore").unwrap();
        let line = request(&here, PEER_TIMEOUT).unwrap();
        assert_eq!(line, "{\"command\":\"status\"}");
    }

    /// Runs in a separate process, since it runs out of files.
    #[test]
    fn it_outlives_a_process_without_files() {
        let name = "daemon::socket::tests::it_outlives_a_process_without_files";
        if std::env::var_os("FAIRMESH_TEST_ALONE").is_none() {
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .env("FAIRMESH_TEST_ALONE", "1")
                .status();
            assert!(status.unwrap().success());
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = serve_here(folder.path());
        assert!(ask(&path, &"hello").is_ok());
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        // Enough for a client, but not for the daemon's end of it.
        setrlimit(Resource::RLIMIT_NOFILE, open, hard).unwrap();
        let waiting = UnixStream::connect(&path);
        std::thread::sleep(3 * ACCEPT_RETRY_PAUSE);
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        drop(waiting);
        assert_eq!(ask(&path, &"hello").unwrap(), Value::Null);
    }
}
