//! `apply`: the mode in the configuration and in the running daemon.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fairmesh_document::{Document, KeyPath};

use super::config::{Config, Mode};
use super::governor::Governor;
use super::report;
use super::request::{self, Request};
use crate::daemon::files::{self, Links};
use crate::daemon::socket::AskError;
use crate::daemon::store;
use crate::error::AgentError;
use crate::json;

/// Largest configuration that is rewritten, in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 64 << 20;

/// Sets the mode in the configuration, and has the daemon read it.
///
/// Every other line of the file stays. If the daemon refuses the file, the old content is restored.
///
/// # Errors
/// A configuration that is refused, or a file that cannot be rewritten.
pub fn apply(
    path: &Path,
    mode: Mode,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), AgentError> {
    let config = Config::load(path)?;
    Governor::trial(&config).map_err(|e| super::start::refused(path, &config, e))?;
    let failed = |problem| AgentError::Unwritable { path: path.to_owned(), problem };
    // A link to a configuration stays a link.
    let file = std::fs::canonicalize(path).map_err(failed)?;
    let old = files::read_text(&file, MAX_CONFIGURATION_BYTES, Links::Follow).map_err(failed)?;
    let permissions = std::fs::metadata(&file).map_err(failed)?.permissions().mode() & 0o7777;
    let changed = config.mode != mode;
    let put =
        |text: &str| store::replace(&file, text.as_bytes(), permissions, true).map_err(failed);
    if changed {
        let name = mode.name();
        let refused = |problem| AgentError::Mode { file: path.to_owned(), mode: name, problem };
        put(&with_mode(path, &old, &config, mode).map_err(refused)?)?;
    }
    let running = match request::ask(&config.socket, &Request::Reload) {
        Ok(_) => true,
        Err(AskError::NoDaemon { .. }) => false,
        Err(e) => {
            if changed {
                put(&old)?;
            }
            return Err(e.into());
        }
    };
    if as_json {
        let value = serde_json::json!({
            "schema": report::SCHEMA, "mode": mode.name(), "changed": changed, "running": running,
        });
        return json::print(out, &value);
    }
    let effect = match (mode, running) {
        (Mode::Apply, true) => "limits are set; `fairmesh-gateway status` shows them",
        (Mode::Observe, true) => "limits are lifted",
        (_, false) => "the daemon is not running; it reads the file when it starts",
    };
    writeln!(out, "mode = \"{}\" in {}: {effect}", mode.name(), path.display())?;
    Ok(())
}

/// Returns the configuration's text with another mode.
///
/// # Errors
/// A text in which the mode cannot be replaced without changing something else.
fn with_mode(path: &Path, text: &str, old: &Config, mode: Mode) -> Result<String, String> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let document = Document::parse(body).map_err(|e| e.to_string())?;
    // The line of an absent key is that of the whole file.
    let at = document.line(&KeyPath::from("mode")).unwrap_or(1);
    let mut lines: Vec<String> = body.split_inclusive('\n').map(str::to_owned).collect();
    let line = lines.get(at.saturating_sub(1)).cloned().unwrap_or_default();
    let quoted = ['"', '\''].map(|quote| format!("{quote}{}{quote}", old.mode.name()));
    let new = format!("\"{}\"", mode.name());
    match quoted.iter().find(|q| line.trim_start().starts_with("mode") && line.contains(*q)) {
        Some(q) => lines[at - 1] = line.replacen(q, &new, 1),
        None => lines.insert(0, format!("mode = {new}\n")),
    }
    let written = format!("{mark}{}", lines.concat());
    let mut read = Config::parse(&path.to_string_lossy(), &written).map_err(|e| e.to_string())?;
    if read.mode != mode {
        return Err("the value is not on the line of its key".to_owned());
    }
    read.mode = old.mode;
    if format!("{read:?}") != format!("{old:?}") {
        return Err("another value would change as well".to_owned());
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "[mesh]\ninterface = \"m\"\n[wired]\ninterface = \"w\"\n[control]\nuse = \"fifo\"\n\
        [[subscriber]]\nname = \"mode\"\nprefixes = [\"10.0.0.1\"]\n";

    fn changed(head: &str, mode: Mode) -> Result<String, String> {
        let text = format!("{head}{REST}");
        with_mode(Path::new("x"), &text, &Config::parse("x", &text).unwrap(), mode)
    }

    #[test]
    fn only_the_mode_changes() {
        for (head, new) in [
            ("mode = \"observe\" # \"observe\"\n", "mode = \"apply\" # \"observe\"\n"),
            ("# head\n  mode='observe'\n", "# head\n  mode=\"apply\"\n"),
            ("\u{feff}mode = \"observe\"\r\n", "\u{feff}mode = \"apply\"\r\n"),
            // The default is not written.
            ("", "mode = \"apply\"\n"),
            ("# head\nunmapped = \"pass\"\n", "mode = \"apply\"\n# head\nunmapped = \"pass\"\n"),
        ] {
            assert_eq!(changed(head, Mode::Apply).unwrap(), format!("{new}{REST}"), "{head:?}");
        }
        let back = changed("mode = \"apply\"\n", Mode::Observe).unwrap();
        assert!(back.starts_with("mode = \"observe\"\n"));
    }

    /// A value that is written in another way is refused, not guessed.
    #[test]
    fn unusual_forms_are_refused() {
        for head in [
            "mode = \"\\u006fbserve\"\n",
            "mode = \"\"\"observe\"\"\"\n",
            "\"mode\" = \"observe\"\n",
        ] {
            let done = changed(head, Mode::Apply);
            assert!(done.is_err() || done.as_ref().unwrap().contains("\"apply\""), "{done:?}");
        }
        assert!(changed("mode = \"\\u006fbserve\"\n", Mode::Apply).is_err());
    }

    #[test]
    fn a_file_without_a_daemon_is_changed_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("gateway.toml"), folder.path().join("link"));
        let socket = folder.path().join("none.sock");
        let text =
            format!("mode = \"observe\"\n{REST}[paths]\nsocket = \"{}\"\n", socket.display());
        std::fs::write(&file, &text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut out = Vec::new();
        apply(&link, Mode::Apply, false, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("the daemon is not running"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text.replace("observe", "apply"));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        apply(&link, Mode::Observe, true, &mut Vec::new()).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}
