//! Runner of `nft`.
//!
//! `nft` may hang, on a lock of the kernel or a slow disk. A caller that must continue sets the longest time that it
//! waits ([`limit_wait`]). A run that takes longer continues in the background, and the caller gets [`Error::Busy`].
//! The same call repeated later returns the result of that run; any other call is busy until the run has ended.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::MARKER_CHAIN;
use crate::command::{self, Output};
use crate::error::Error;

/// Time after which `nft` is killed; a table of 60,000 addresses takes one or two seconds.
const NFT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time that a repeated call waits.
const REPEATED_WAIT: Duration = Duration::from_millis(50);

/// Presence and owner of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// No table of this name.
    Absent,
    /// Our own table: it has our base chain.
    Ours,
    /// Another program's table.
    Foreign,
}

/// A run of `nft` with a caller that stopped waiting.
struct Pending {
    arguments: Vec<String>,
    input: String,
    since: Instant,
    result: Receiver<io::Result<Output>>,
}

thread_local! {
    static LIMIT: Cell<Duration> = const { Cell::new(NFT_TIMEOUT) };
    static PENDING: RefCell<Option<Pending>> = const { RefCell::new(None) };
}

/// Sets the longest time that calls of this thread wait for `nft`.
pub fn limit_wait(limit: Duration) {
    LIMIT.set(limit.min(NFT_TIMEOUT));
}

/// Runs `nft`, or continues to wait for an earlier run of the same call.
fn call(arguments: &[&str], input: &str) -> Result<Output, Error> {
    let same = |p: &Pending| p.arguments == arguments && p.input == input;
    let earlier = PENDING.take();
    let mut limit = LIMIT.get();
    let pending = match earlier {
        Some(pending) if same(&pending) => {
            limit = limit.min(REPEATED_WAIT);
            pending
        }
        Some(pending) => match pending.result.try_recv() {
            Err(mpsc::TryRecvError::Empty) => {
                let since = pending.since;
                PENDING.set(Some(pending));
                return Err(busy(since));
            }
            // The result, whatever it was, belongs to another call.
            _ => start(arguments, input)?,
        },
        None => start(arguments, input)?,
    };
    match pending.result.recv_timeout(limit) {
        Ok(output) => output.map_err(absent),
        Err(RecvTimeoutError::Timeout) => {
            let since = pending.since;
            PENDING.set(Some(pending));
            Err(busy(since))
        }
        Err(RecvTimeoutError::Disconnected) => Err(absent(io::ErrorKind::BrokenPipe.into())),
    }
}

fn busy(since: Instant) -> Error {
    Error::Busy { program: "nft", seconds: since.elapsed().as_secs() }
}

/// Starts `nft` on a separate thread, which ends with it.
fn start(arguments: &[&str], input: &str) -> Result<Pending, Error> {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    let (send, result) = mpsc::sync_channel(1);
    let (words, text) = (arguments.clone(), input.to_owned());
    let run = move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _ = send.send(command::run("nft", &words, text.as_bytes(), NFT_TIMEOUT));
    };
    std::thread::Builder::new().name("nft".into()).spawn(run).map_err(absent)?;
    Ok(Pending { arguments, input: input.to_owned(), since: Instant::now(), result })
}

/// Returns the version of `nft`, `None` if there is none.
pub fn version() -> Option<String> {
    let output = call(&["--version"], "").ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().nth(1).map(|v| v.trim_start_matches('v').to_owned())
}

/// Carries out a script in one transaction: all of it or nothing.
///
/// # Errors
/// `nft` is not installed or refuses.
pub fn apply(script: &str) -> Result<(), Error> {
    if script.is_empty() { Ok(()) } else { run(&["-f", "-"], script) }
}

/// Lets the kernel check a script without carrying it out.
///
/// # Errors
/// `nft` is not installed, or it or the kernel would refuse the script.
pub fn check(script: &str) -> Result<(), Error> {
    run(&["-c", "-f", "-"], script)
}

fn run(arguments: &[&str], script: &str) -> Result<(), Error> {
    let output = call(arguments, script)?;
    if output.status.success() { Ok(()) } else { Err(refused(&output.stderr)) }
}

/// Returns presence and owner of a table.
///
/// # Errors
/// `nft` is not installed or not permitted.
pub fn table(family: &str, name: &str) -> Result<Table, Error> {
    let there =
        |value: &Value| value["table"]["family"] == family && value["table"]["name"] == name;
    if !list(&["list", "tables"])?.iter().any(there) {
        return Ok(Table::Absent);
    }
    let ours = |value: &Value| value["chain"]["name"] == MARKER_CHAIN;
    let rules = list(&["-t", "list", "table", family, name])?;
    Ok(if rules.iter().any(ours) { Table::Ours } else { Table::Foreign })
}

/// Returns the flow tables of the whole system, as `family table/name`.
///
/// Their traffic passes no chain.
///
/// # Errors
/// `nft` is not installed or not permitted.
pub fn flowtables() -> Result<Vec<String>, Error> {
    Ok(list(&["list", "flowtables"])?.iter().filter_map(flowtable).collect())
}

/// Returns `family table/name` of an entry that is a flow table.
pub fn flowtable(value: &Value) -> Option<String> {
    let text = |key: &str| value["flowtable"][key].as_str();
    Some(format!("{} {}/{}", text("family")?, text("table")?, text("name")?))
}

fn list(arguments: &[&str]) -> Result<Vec<Value>, Error> {
    let arguments = [&["-j"], arguments].concat();
    let output = call(&arguments, "")?;
    if !output.status.success() {
        return Err(refused(&output.stderr));
    }
    listed(&output.stdout)
}

/// Returns the entries of `nft -j list` output.
///
/// # Errors
/// Returns an error if the output has another form.
pub fn listed(text: &[u8]) -> Result<Vec<Value>, Error> {
    let unreadable = |why: String| Error::Malformed { what: "nft -j list", why };
    let mut root: Value = serde_json::from_slice(text).map_err(|e| unreadable(e.to_string()))?;
    match root.get_mut("nftables").map(Value::take).unwrap_or_default() {
        Value::Array(list) => Ok(list),
        _ => Err(unreadable("no list `nftables`".to_owned())),
    }
}

fn absent(source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::NotFound {
        return Error::Missing { what: "nft".into(), hint: "install nftables".into() };
    }
    Error::Io { what: "running nft".into(), source }
}

fn refused(stderr: &[u8]) -> Error {
    let text = String::from_utf8_lossy(stderr);
    if text.contains("Operation not permitted") || text.contains("you must be root") {
        return Error::NotPermitted { what: "nft".into() };
    }
    // The first lines name the place and the reason; a script of thousands of lines may follow.
    Error::Nft(text.lines().take(3).collect::<Vec<_>>().join(" ").chars().take(400).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flowtables_are_recognised() {
        // `nft -j list flowtables` on a kernel with flow tables.
        let listed: Value = serde_json::from_str(
            r#"[{"metainfo": {"json_schema_version": 1}},
                {"flowtable": {"family": "inet", "name": "ft", "table": "fast", "handle": 2,
                 "hook": "ingress", "prio": 0, "dev": ["eth0", "eth1"]}}]"#,
        )
        .unwrap();
        let names: Vec<String> = listed.as_array().unwrap().iter().filter_map(flowtable).collect();
        assert_eq!(names, ["inet fast/ft"]);
    }
}
