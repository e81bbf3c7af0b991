//! From a file on the command line to a scenario, with what the command line changes.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use fairmesh_control::lookup;
use fairmesh_scenario::{
    Direction, Format, ImportOptions, MAX_FILE_BYTES, Problem, Scenario, ScenarioError, format_of,
    parse,
};
use fairmesh_units::Span;

use crate::args::{ChangeArgs, Way};
use crate::error::CliError;

/// A scenario and where it came from.
#[derive(Debug)]
pub struct Loaded {
    /// The file, as given.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The scenario, changes applied.
    pub scenario: Scenario,
}

/// Reads a scenario and applies what the command line says about it.
///
/// # Errors
/// Everything that can be wrong with the file, or with the changes.
pub fn load(path: &Path, args: &ChangeArgs) -> Result<Loaded, CliError> {
    let bytes = read(path)?;
    let scenario = build(path, &bytes, args)?;
    Ok(Loaded { path: path.to_owned(), bytes, scenario })
}

/// Builds a scenario from a file's content and applies what the command line says about it.
///
/// # Errors
/// Everything that can be wrong with the content, or with the changes.
pub fn build(path: &Path, bytes: &[u8], args: &ChangeArgs) -> Result<Scenario, CliError> {
    let name = path.to_string_lossy();
    if let Ok((format, _)) = format_of(bytes) {
        check_map_options(path, bytes, args, format)?;
    }
    let mut scenario =
        parse(&name, bytes, &import_options(args)).map_err(|e| with_names(e, path, bytes, args))?;
    set_times(&mut scenario, args.duration, args.warmup)?;
    Ok(scenario)
}

fn import_options(args: &ChangeArgs) -> ImportOptions {
    let usual = ImportOptions::default();
    ImportOptions {
        gateway: args.gateway.clone(),
        direction: match args.flows {
            Some(Way::Up) => Direction::Up,
            Some(Way::Down) => Direction::Down,
            None => usual.direction,
        },
        flows: args.flow_count.map(|n| n as usize),
        rate: args.rate,
        ..usual
    }
}

/// Maps need a gateway; scenario files have their own gateway, flows and rates.
fn check_map_options(
    path: &Path,
    bytes: &[u8],
    args: &ChangeArgs,
    format: Format,
) -> Result<(), CliError> {
    if matches!(format, Format::Toml) {
        let given = [
            ("--gateway", args.gateway.is_some()),
            ("--flows", args.flows.is_some()),
            ("--flow-count", args.flow_count.is_some()),
            ("--rate", args.rate.is_some()),
        ];
        return match given.iter().find(|(_, is)| *is) {
            None => Ok(()),
            Some((option, _)) => {
                let file = path.display();
                let problem = format!("{file} is no map; expected this setting in the file itself");
                Err(CliError::option(*option, problem))
            }
        };
    }
    if args.gateway.is_some() {
        return Ok(());
    }
    // What is wrong with the map comes first.
    let names = some_names(path, bytes, args)?;
    let problem = format!(
        "is missing; {} is a map, expected the node where traffic enters and leaves, such as {names}",
        path.display()
    );
    Err(CliError::option("--gateway", problem))
}

/// A few node names of a map.
fn some_names(path: &Path, bytes: &[u8], args: &ChangeArgs) -> Result<String, CliError> {
    let options = ImportOptions { gateway: None, ..import_options(args) };
    let scenario = parse(&path.to_string_lossy(), bytes, &options)?;
    let names: Vec<&str> = scenario.nodes.iter().take(4).map(|n| n.name.as_str()).collect();
    Ok(names.join(", "))
}

/// Says what a gateway could have been, where that is what is wrong.
fn with_names(e: ScenarioError, path: &Path, bytes: &[u8], args: &ChangeArgs) -> CliError {
    match (&args.gateway, &e.problem) {
        (Some(gateway), Problem::UnknownNode(unknown)) if unknown == gateway => {
            match some_names(path, bytes, args) {
                Ok(names) => {
                    let file = path.display();
                    let problem =
                        format!("{file} has no node \"{gateway}\"; expected one such as {names}");
                    CliError::option("--gateway", problem)
                }
                Err(_) => e.into(),
            }
        }
        _ => e.into(),
    }
}

/// Reads a file of at most the size that any scenario has.
///
/// # Errors
/// When it is not there, not a file, too large or not readable.
pub fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let expected = "expected a scenario file";
    let metadata = fs::metadata(path).map_err(|e| {
        let what = if e.kind() == std::io::ErrorKind::NotFound {
            "there is no such file".to_owned()
        } else {
            format!("cannot be read ({e})")
        };
        CliError::file(path, format!("{what}; {expected}"))
    })?;
    if metadata.is_dir() {
        return Err(CliError::file(path, format!("is a folder; {expected}")));
    }
    let unreadable =
        |e: std::io::Error| CliError::file(path, format!("cannot be read ({e}); {expected}"));
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than accepted, so that the parser sees and refuses what is too long; a pipe or
    // device without end does not fill the memory.
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Replaces duration and warm-up. A warm-up that is not given stays, unless it would take half of
/// the run or more: then it becomes a tenth.
///
/// # Errors
/// When nothing would be left to measure.
pub fn set_times(
    scenario: &mut Scenario,
    duration: Option<Span>,
    warmup: Option<Span>,
) -> Result<(), CliError> {
    if let Some(duration) = duration {
        if duration == Span::ZERO {
            return Err(CliError::option("--duration", "found 0 s; expected a longer time"));
        }
        scenario.duration = duration;
        if warmup.is_none() && scenario.warmup.saturating_mul(2) >= duration {
            scenario.warmup = Span::from_nanos(duration.as_nanos() / 10);
        }
    }
    if let Some(warmup) = warmup {
        if warmup >= scenario.duration {
            let end = scenario.duration;
            let problem = format!("found {warmup}; expected less than the duration of {end}");
            return Err(CliError::option("--warmup", problem));
        }
        scenario.warmup = warmup;
    }
    Ok(())
}

/// The scenario under another control. Settings of the scenario's own control stay with it.
///
/// # Errors
/// When there is no such control.
pub fn with_control(scenario: &Scenario, name: &str) -> Result<Scenario, CliError> {
    let chosen = lookup(name).map_err(|e| CliError::option("--control", e))?;
    let base = |n: &str| n.split('+').next().unwrap_or_default().to_owned();
    let mut scenario = scenario.clone();
    if base(&scenario.control.name) != base(name) {
        scenario.control.settings.clear();
    }
    scenario.control.name = chosen.to_string();
    Ok(scenario)
}

/// One scenario per control of the command line; the scenario's own control if it names none.
///
/// # Errors
/// When there is no such control, or one is named twice.
pub fn with_controls(scenario: &Scenario, names: &[String]) -> Result<Vec<Scenario>, CliError> {
    if names.is_empty() {
        return Ok(vec![scenario.clone()]);
    }
    let all = names.iter().map(|n| with_control(scenario, n)).collect::<Result<Vec<_>, _>>()?;
    for (i, s) in all.iter().enumerate() {
        if all[..i].iter().any(|o| o.control.name == s.control.name) {
            let problem = format!("\"{}\" is given twice; expected each once", s.control.name);
            return Err(CliError::option("--control", problem));
        }
    }
    Ok(all)
}

/// What the command line changed, for the record.
pub fn changes(args: &ChangeArgs) -> Vec<String> {
    let mut out = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        out.extend(value.map(|v| format!("{key} = {v}")));
    };
    add("duration", args.duration.map(|d| d.to_string()));
    add("warmup", args.warmup.map(|d| d.to_string()));
    add("gateway", args.gateway.clone());
    add("flows", args.flows.map(|w| format!("{w:?}").to_lowercase()));
    add("flow count", args.flow_count.map(|n| n.to_string()));
    add("rate", args.rate.map(|r| r.to_string()));
    out
}
