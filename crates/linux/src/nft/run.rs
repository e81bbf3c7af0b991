//! Running `nft`.

use std::io;
use std::time::Duration;

use serde_json::Value;

use super::MARKER;
use crate::command;
use crate::error::Error;

/// The longest that `nft` may take; a table of 60,000 addresses takes a second or two.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a table of a name is there, and whose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// There is none.
    Absent,
    /// Ours: it has our base chain.
    Ours,
    /// Somebody else's.
    Foreign,
}

/// The version of `nft`, `None` if there is none.
pub fn version() -> Option<String> {
    let output = command::run("nft", &["--version"], &[], PATIENCE).ok()?;
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

/// Has the kernel check a script without carrying it out.
///
/// # Errors
/// `nft` is not installed, or it or the kernel would refuse.
pub fn check(script: &str) -> Result<(), Error> {
    run(&["-c", "-f", "-"], script)
}

fn run(arguments: &[&str], script: &str) -> Result<(), Error> {
    let output = command::run("nft", arguments, script.as_bytes(), PATIENCE).map_err(absent)?;
    if output.status.success() { Ok(()) } else { Err(refused(&output.stderr)) }
}

/// Who has a table.
///
/// # Errors
/// `nft` is not installed or not permitted.
pub fn table(family: &str, name: &str) -> Result<Table, Error> {
    let there =
        |value: &Value| value["table"]["family"] == family && value["table"]["name"] == name;
    if !list(&["list", "tables"])?.iter().any(there) {
        return Ok(Table::Absent);
    }
    let ours = |value: &Value| value["chain"]["name"] == MARKER;
    let rules = list(&["-t", "list", "table", family, name])?;
    Ok(if rules.iter().any(ours) { Table::Ours } else { Table::Foreign })
}

/// Flow tables of the whole system, as `family table/name`. Traffic in them passes no chain.
///
/// # Errors
/// `nft` is not installed or not permitted.
pub fn flowtables() -> Result<Vec<String>, Error> {
    Ok(list(&["list", "flowtables"])?.iter().filter_map(flowtable).collect())
}

/// `family table/name` of an entry that is a flow table.
pub fn flowtable(value: &Value) -> Option<String> {
    let text = |key: &str| value["flowtable"][key].as_str();
    Some(format!("{} {}/{}", text("family")?, text("table")?, text("name")?))
}

fn list(arguments: &[&str]) -> Result<Vec<Value>, Error> {
    let arguments = [&["-j"], arguments].concat();
    let output = command::run("nft", &arguments, &[], PATIENCE).map_err(absent)?;
    if !output.status.success() {
        return Err(refused(&output.stderr));
    }
    listed(&output.stdout)
}

/// The entries of what `nft -j list` prints.
///
/// # Errors
/// It prints something else.
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
        // `nft -j list flowtables` where a kernel has them.
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
