//! Keys of `gateway.toml` that UCI reaches, and those that it leaves out for a reason.

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_agent::gateway::config::Config;
use fairmesh_control::Registry;

use super::{packaging, toml_of};

/// Keys without an option, with the reason.
const WITHOUT_OPTION: [(&str, &str); 6] = [
    ("agents.key", "the usual file, which routers with fairmesh-node have"),
    ("history.folder", "the start script's: RAM"),
    ("paths.socket", "the start script's: RAM, where its other commands look"),
    ("shaping.table", "a name in the kernel; a router runs one daemon"),
    ("shaping.handle", "a name in the kernel; a router runs one daemon"),
    ("subscriber.during.*", "a plan of one subscriber has windows"),
];

/// Parameters of controls with an option of their own.
const OWN_OPTION: [&str; 5] = ["epoch", "gamma", "alpha_fairness", "guarantee", "airtime"];

/// Returns the keys that a table accepts.
///
/// `text` is a configuration with an unknown key `zzz` in the table.
fn accepted(text: &str) -> Option<Vec<String>> {
    let refusal = Config::parse("t", text).unwrap_err().to_string();
    let (_, known) = refusal.split_once("zzz: unknown key; expected one of ")?;
    Some(known.lines().next()?.split(", ").map(str::to_owned).collect())
}

/// Adds all keys of a table and of those within it.
///
/// `place` puts a key with its value into the table.
fn walk(name: &str, place: &dyn Fn(&str) -> String, found: &mut BTreeSet<String>) {
    let Some(keys) = accepted(&place("zzz = 1")) else { panic!("{name}: no list of keys") };
    for key in keys {
        let path = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        // A control takes any number; its keys are those of the registry.
        if path == "control" {
            continue;
        }
        let inner: [fn(&str, &str) -> String; 3] = [
            |key, inner| format!("{key} = {{ {inner} }}"),
            |key, inner| format!("{key} = [{{ {inner} }}]"),
            |key, inner| format!("{key} = {{ x = {{ {inner} }} }}"),
        ];
        let table = inner.iter().find(|form| accepted(&place(&form(&key, "zzz = 1"))).is_some());
        match table {
            Some(form) => walk(&path, &|text| place(&form(&key, text)), found),
            None => assert!(found.insert(path)),
        }
    }
}

fn parameters() -> BTreeSet<String> {
    let registry = Registry::standard();
    let mut names = BTreeSet::new();
    for name in ["fifo", "static-fq", "static-flow", "arc-fq", "pfrc+bursts", "rtt+peers"] {
        let mechanism = registry.lookup(name).unwrap();
        names.extend(mechanism.parameters().map(|(p, _)| p.name.to_string()));
    }
    names
}

fn schema() -> BTreeSet<String> {
    let mut keys = BTreeSet::from(["control.use".to_owned(), "control.fairness".to_owned()]);
    keys.extend(parameters().iter().map(|p| format!("control.{p}")));
    walk("", &str::to_owned, &mut keys);
    keys
}

/// Returns the options by section that docs/packaging.md lists, in its order.
fn documented() -> Vec<(String, Vec<String>)> {
    let page = include_str!("../../../../docs/packaging.md");
    let table = page.split("| section | options |\n|---|---|\n").nth(1).unwrap();
    let rows = table.lines().take_while(|l| l.starts_with('|'));
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let mut words = row.split('`').skip(1).step_by(2);
        let section = words.next().unwrap().split(' ').next().unwrap().to_owned();
        let option = |w: &&str| w.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let mut options: Vec<String> = words.filter(option).map(str::to_owned).collect();
        if section == "subscriber" {
            let plan = sections.iter().find(|(s, _)| s == "plan").unwrap();
            let rates = plan.1.iter().filter(|o| !o.starts_with("quota"));
            options.extend(rates.cloned());
        }
        sections.push((section, options));
    }
    sections
}

/// Returns the value of an option in [`uci`].
fn value(section: &str, option: &str) -> String {
    match (section, option) {
        ("window", "plan") => "p".to_owned(),
        _ => format!("{section} {option}"),
    }
}

/// Returns a UCI file with these options, each as an option and as a list.
fn uci(sections: &[(String, Vec<String>)]) -> String {
    let mut text = String::new();
    for (section, options) in sections {
        let name = match section.as_str() {
            "gateway" => " 'main'",
            "plan" => " 'p'",
            _ => "",
        };
        text += &format!("config {section}{name}\n");
        for option in options {
            if option == "parameter" {
                for p in parameters().iter().filter(|p| !OWN_OPTION.contains(&p.as_str())) {
                    text += &format!(" list parameter '{p}=1'\n");
                }
                continue;
            }
            let value = value(section, option);
            text += &format!(" option {option} '{value}'\n list {option} '{value}'\n");
        }
    }
    text
}

/// Returns the keys in a configuration that the start script wrote.
fn written(toml: &str) -> BTreeSet<String> {
    let mut table = String::new();
    let mut keys = BTreeSet::new();
    for line in toml.lines() {
        let header = line.trim_start_matches('[').trim_end_matches(']');
        if line.starts_with('[') {
            table = format!("{}.", header.replace(".\"p\"", ""));
        } else {
            let key = line.split(" = ").next().unwrap().trim_matches('"');
            keys.insert(format!("{table}{key}"));
        }
    }
    keys
}

#[test]
fn every_key_has_a_uci_option_or_a_reason() {
    let schema = schema();
    assert!(schema.len() > 90, "{schema:?}");
    let reached = written(&toml_of(&uci(&documented())));
    let excused = |key: &str| {
        let fits = |(k, _): &&(&str, &str)| match k.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => *k == key,
        };
        WITHOUT_OPTION.iter().find(fits)
    };
    let missing: Vec<&String> =
        schema.difference(&reached).filter(|k| excused(k).is_none()).collect();
    assert!(missing.is_empty(), "keys without a UCI option: {missing:?}");
    let unknown: Vec<&String> = reached.difference(&schema).collect();
    assert!(unknown.is_empty(), "the start script writes keys that do not exist: {unknown:?}");
    let reached_by_script = ["history.folder", "paths.socket"];
    let stale: Vec<&String> = reached
        .iter()
        .filter(|k| excused(k).is_some() && !reached_by_script.contains(&k.as_str()))
        .collect();
    assert!(stale.is_empty(), "keys with an option that are listed without: {stale:?}");
}

#[test]
fn every_documented_option_has_an_effect_and_every_other_is_documented() {
    let all = documented();
    let full = toml_of(&uci(&all));
    for (s, (section, options)) in all.iter().enumerate() {
        for (o, option) in options.iter().enumerate() {
            let shown = value(section, option);
            // Read by the start script itself.
            if option == "enabled"
                || option != "parameter" && full.contains(&format!("\"{shown}\""))
            {
                continue;
            }
            // Switches have another value there.
            let mut without = all.clone();
            without[s].1.remove(o);
            assert_ne!(toml_of(&uci(&without)), full, "{section}.{option} has no effect");
        }
    }
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for option in all.iter().flat_map(|(_, options)| options) {
        *names.entry(option).or_default() += 1;
    }
    let script = std::fs::read_to_string(packaging("openwrt/files/uci-to-toml.sh")).unwrap();
    let mut read = 0;
    for call in script.split(['\n', ';', '(', '{']).map(str::trim) {
        let mut words = call.split(' ');
        let option = match words.next() {
            Some("text" | "number" | "truth" | "choice" | "list" | "ports") => {
                words.nth(1).filter(|w| !w.starts_with('$') && !w.starts_with('"'))
            }
            _ => None,
        };
        if let Some(option) = option {
            read += 1;
            assert!(names.contains_key(option), "docs/packaging.md lacks the option {option}");
        }
    }
    assert!(read > 50, "{read} options found in the script");
}

#[test]
fn parameters_and_ports_arrive_as_numbers_and_wrong_ones_are_named() {
    let read = |options: &str| {
        let text = toml_of(&format!(
            "config gateway 'main'\n option mesh 'm0'\n option wired 'w0'\n option control 'pfrc+bursts'\n \
             option routes '1'\n{options}config neighbour\n option name 'n'\n option rate '54 Mbit/s'\n \
             option mac '02:00:00:00:00:01'\n"
        ));
        Config::parse("gateway.toml", &text).map_err(|e| e.to_string())
    };
    let config = read(
        " list parameter 'gamma=0.2'\n option shaper 'edt'\n option leaf 'bfifo'\n list bypass_udp '698'\n \
         list bypass_udp '4000'\n option discover_every '20 s'\n option per_subscriber '0'\n",
    )
    .unwrap();
    assert_eq!(config.mechanism.value("gamma"), Some(0.2));
    assert_eq!(config.layout.bypass.udp, [698, 4000]);
    assert!(format!("{:?}", config.layout.shaper).contains("Edt"), "{:?}", config.layout.shaper);
    assert_eq!(config.discover.unwrap().every, fairmesh_units::Span::from_secs(20));
    assert!(!config.per_subscriber && config.neighbours[0].mac.is_some());
    for (option, at) in [
        (" list parameter 'gama=0.2'\n", "control.gama"),
        (" list parameter 'gamma'\n", "control.gamma"),
        (" list parameter 'x\" = 1 #=2'\n", "control.x\" : found string \" 1 #=2\""),
        (" list bypass_tcp 'ssh'\n", "shaping.bypass_tcp[0]"),
        (" option shaper 'htb2'\n", "shaping.shaper"),
    ] {
        let refusal = read(option).unwrap_err();
        assert!(refusal.contains(at), "{option}: {refusal}");
    }
}
