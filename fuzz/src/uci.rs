//! OpenWrt's configuration, which a shell script converts to `gateway.toml`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use fairmesh_document::Document;

/// Sections by name, in their order: type, options, lists.
type Sections = Vec<(String, String, BTreeMap<String, String>, BTreeMap<String, Vec<String>>)>;

/// Converts text as a UCI file.
///
/// It has `config TYPE NAME`, `option KEY VALUE` and `list KEY VALUE`; a value extends to the end
/// of its line, with `\\n` for a line end. Types and names are those that UCI allows.
///
/// For any values the script writes a TOML document, and the daemon rejects it with a single line
/// at most. No value becomes a key or a table.
pub fn uci(bytes: &[u8]) {
    let sections = read(&String::from_utf8_lossy(bytes));
    let Some(text) = converted(&sections) else { return };
    if let Err(e) = Document::parse(&text) {
        panic!("no TOML document: {}\n{text}", e.in_file("gateway.toml"));
    }
    let tables = text.lines().filter(|line| line.starts_with('[')).count();
    // A gateway has up to twelve tables, and each other section one.
    let gateways = sections.iter().filter(|s| s.0 == "gateway").count();
    assert!(tables <= 11 * gateways + sections.len(), "a value became a table:\n{text}");
    super::configuration(&text);
}

fn read(text: &str) -> Sections {
    let mut sections: Sections = Vec::new();
    let word = |text: &str| -> String {
        text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect()
    };
    for line in text.lines().take(60) {
        let mut parts = line.trim_start().splitn(3, ' ');
        let (Some(what), Some(key)) = (parts.next(), parts.next().map(word)) else { continue };
        let value = parts.next().unwrap_or_default().replace("\\n", "\n").replace('\0', "");
        match what {
            "config" => {
                let name = word(&value);
                let name = if name.is_empty() { format!("cfg{}", sections.len()) } else { name };
                let known =
                    sections.iter().any(|s| s.1 == name || (s.0 == "gateway" && key == "gateway"));
                if !known {
                    sections.push((key, name, BTreeMap::new(), BTreeMap::new()));
                }
            }
            "option" => {
                if let Some(section) = sections.last_mut() {
                    section.2.insert(key, value);
                }
            }
            "list" => {
                if let Some(section) = sections.last_mut() {
                    section.3.entry(key).or_default().push(value);
                }
            }
            _ => {}
        }
    }
    sections
}

/// The functions of OpenWrt's `/lib/functions.sh` that the script uses.
const FUNCTIONS: &str = r#"
config_load() { :; }
config_get() { eval "$1=\${OPTION_$2_$3:-}"; eval "[ -n \"\$$1\" ] || $1=\${4:-}"; }
config_get_bool() {
    config_get "$1" "$2" "$3" "$4"
    eval "case \"\$$1\" in 1|on|true|yes|enabled) $1=1 ;; 0|off|false|no|disabled) $1=0 ;; *) $1=$4 ;; esac"
}
config_foreach() {
    local function=$1 wanted=$2 section
    for section in $SECTIONS; do
        eval "[ \"\$TYPE_$section\" != \"$wanted\" ]" || "$function" "$section"
    done
}
config_list_foreach() {
    local at=0 count value
    eval "count=\${COUNT_$1_$2:-0}"
    while [ "$at" -lt "$count" ]; do
        eval "value=\$LIST_$1_$2_$at"
        "$3" "$value"
        at=$((at + 1))
    done
}
"#;

/// Returns the output of the script; `None` if it cannot be run.
fn converted(sections: &Sections) -> Option<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let quoted = |value: &str| value.replace('\'', "'\\''");
    let mut functions = FUNCTIONS.to_owned();
    let names: Vec<&str> = sections.iter().map(|s| s.1.as_str()).collect();
    let _ = writeln!(functions, "SECTIONS='{}'", names.join(" "));
    for (kind, name, options, lists) in sections {
        let _ = writeln!(functions, "TYPE_{name}='{kind}'");
        for (key, value) in options {
            let _ = writeln!(functions, "OPTION_{name}_{key}='{}'", quoted(value));
        }
        for (key, values) in lists {
            let _ = writeln!(functions, "COUNT_{name}_{key}={}", values.len());
            for (at, value) in values.iter().enumerate() {
                let _ = writeln!(functions, "LIST_{name}_{key}_{at}='{}'", quoted(value));
            }
        }
    }
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("fairmesh-fuzz-uci-{}-{n}", std::process::id()));
    std::fs::write(&file, functions).ok()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/openwrt/files/uci-to-toml.sh");
    let out = Command::new("sh").arg(script).env("FAIRMESH_FUNCTIONS", &file).output();
    let _ = std::fs::remove_file(&file);
    let out = out.ok()?;
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).expect("UTF-8 stays UTF-8"))
}
