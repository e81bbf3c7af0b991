//! The ubus object `fairmesh` of OpenWrt: rpcd calls this program for each method.
//!
//! rpcd's protocol for executables: `list` prints the signatures of all methods; `call METHOD` reads the arguments
//! from standard input, a JSON object, and prints the result, another one.

use std::io::{Read, Write};
use std::path::Path;

use clap::Parser;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::{Cli, GatewayCommand};
use crate::error::AgentError;
use crate::json;

/// Carries out a command.
pub(crate) type Dispatch<'a> =
    dyn Fn(GatewayCommand, &mut dyn Write) -> Result<(), AgentError> + 'a;

/// Largest size of the arguments, bytes.
const MAX_ARGUMENTS: u64 = 64 * 1024;

/// Arguments of all methods.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    name: Option<String>,
    rate: Option<String>,
    time: Option<String>,
    direction: Option<String>,
    since: Option<String>,
    /// rpcd adds the session of a call by HTTP.
    #[serde(rename = "ubus_rpc_session")]
    _session: Option<Value>,
}

/// Prints the methods and the types of their arguments, each by an example.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn list(out: &mut dyn Write) -> Result<(), AgentError> {
    let text = "text";
    let methods = json!({
        "status": {},
        "check": {},
        "why": { "name": text },
        "override": { "name": text, "rate": text, "time": text, "direction": text },
        "report": { "since": text },
        "reload": {},
    });
    json::print(out, &methods)
}

/// Calls a method with arguments from `input`, and prints its result or `{"error": "…"}`.
///
/// rpcd discards exit codes, so that an error is a result.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn call(
    method: &str,
    input: &mut dyn Read,
    config: &Path,
    dispatch: &Dispatch<'_>,
    out: &mut dyn Write,
) -> Result<(), AgentError> {
    let mut result = Vec::new();
    let done = arguments(input)
        .and_then(|a| command_line(method, a))
        .and_then(|line| {
            let fixed = ["fairmesh-gateway".into(), line.0.into(), "--json".into()];
            let config = ["--config".into(), config.as_os_str().to_owned()];
            let words = fixed.into_iter().chain(config).chain(line.1.into_iter().map(Into::into));
            Cli::try_parse_from(words).map_err(|e| usage(&e))
        })
        .and_then(|cli| dispatch(cli.command, &mut result).map_err(|e| e.line()));
    // `check` prints its findings and then fails.
    match done {
        Err(error) if result.is_empty() => json::print(out, &json!({ "error": error })),
        _ => Ok(out.write_all(&result)?),
    }
}

fn arguments(input: &mut dyn Read) -> Result<Arguments, String> {
    let mut text = String::new();
    input
        .take(MAX_ARGUMENTS + 1)
        .read_to_string(&mut text)
        .map_err(|e| format!("arguments: {e}; expected a JSON object"))?;
    if text.len() as u64 > MAX_ARGUMENTS {
        return Err(format!("arguments: found more than {MAX_ARGUMENTS} bytes"));
    }
    if text.trim().is_empty() {
        return Ok(Arguments::default());
    }
    serde_json::from_str(&text).map_err(|e| format!("arguments: {e}"))
}

/// Returns the command of a method, and its words after the fixed options.
///
/// Values are attached to their option or follow `--`, so that none is read as an option.
fn command_line(method: &str, a: Arguments) -> Result<(&'static str, Vec<String>), String> {
    let required = |key: &str, value: Option<String>| {
        value.filter(|v| !v.is_empty()).ok_or_else(|| format!("{key}: missing; expected a text"))
    };
    Ok(match method {
        "status" => ("status", Vec::new()),
        "check" => ("check", Vec::new()),
        "reload" => ("reload", Vec::new()),
        "why" => ("why", vec!["--".into(), required("name", a.name)?]),
        "report" => {
            let since = a.since.filter(|s| !s.is_empty()).unwrap_or_else(|| "24h".into());
            ("report", vec![format!("--since={since}")])
        }
        "override" => {
            let name = required("name", a.name)?;
            let mut words = match required("rate", a.rate)?.as_str() {
                "clear" => vec!["--clear".into()],
                rate => {
                    vec![format!("--rate={rate}"), format!("--for={}", required("time", a.time)?)]
                }
            };
            match a.direction.as_deref() {
                None | Some("" | "both") => {}
                Some("down") => words.push("--down".into()),
                Some("up") => words.push("--up".into()),
                Some(other) => {
                    let expected = "expected \"down\", \"up\" or \"both\"";
                    return Err(format!("direction: found {other:?}; {expected}"));
                }
            }
            words.extend(["--".into(), name]);
            ("override", words)
        }
        other => {
            let expected = "expected status, check, why, override, report or reload";
            return Err(format!("method: found {other:?}; {expected}"));
        }
    })
}

/// Returns the first line of an error of the grammar, without its label.
fn usage(e: &clap::Error) -> String {
    let text = e.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(method: &str, input: &str) -> Value {
        let mut out = Vec::new();
        let config = Path::new("/nonexistent/gateway.toml");
        let dispatch = |command, out: &mut dyn Write| {
            crate::commands::dispatch(command, &crate::daemon::clock::Clock::system(), out)
        };
        call(method, &mut input.as_bytes(), config, &dispatch, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_listed_method_can_be_called_and_every_error_is_an_object() {
        let mut out = Vec::new();
        list(&mut out).unwrap();
        let methods: serde_json::Map<String, Value> = serde_json::from_slice(&out).unwrap();
        for (name, signature) in &methods {
            // As by ubus over HTTP: the arguments of the signature and a session.
            let mut arguments = signature.as_object().unwrap().clone();
            arguments.insert("ubus_rpc_session".into(), "0123".into());
            let error = called(name, &Value::Object(arguments).to_string());
            let error = error["error"].as_str().unwrap();
            assert!(!error.contains("method:") && !error.contains("arguments:"), "{name}: {error}");
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (method, input, expected) in [
            ("halt", "{}", "method: found \"halt\"; expected status"),
            ("why", "{}", "name: missing"),
            ("why", "[1", "arguments: "),
            ("why", "{\"naem\": \"a\"}", "unknown field `naem`"),
            ("override", "{\"name\": \"a\"}", "rate: missing"),
            ("override", "{\"name\": \"a\", \"rate\": \"5 Mbit/s\"}", "time: missing"),
            ("override", "{\"name\": \"a\", \"rate\": \"x\", \"time\": \"1h\"}", "'x'"),
            (
                "override",
                "{\"name\": \"a\", \"rate\": \"clear\", \"direction\": \"left\"}",
                "direction: found \"left\"",
            ),
        ] {
            let error = called(method, input);
            assert!(error["error"].as_str().unwrap().contains(expected), "{error}: {expected}");
        }
        let long = called("why", &format!("{{\"name\": \"{}\"}}", "x".repeat(70_000)));
        assert!(long["error"].as_str().unwrap().contains("more than 65536 bytes"), "{long}");
    }

    #[test]
    fn a_value_is_never_read_as_an_option() {
        let a = |name: &str, rate: &str| Arguments {
            name: Some(name.into()),
            rate: Some(rate.into()),
            time: Some("1h".into()),
            ..Arguments::default()
        };
        let words = command_line("override", a("--clear", "--json")).unwrap().1;
        assert_eq!(words, ["--rate=--json", "--for=1h", "--", "--clear"]);
    }
}
