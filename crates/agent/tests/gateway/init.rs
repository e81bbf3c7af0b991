//! `init`: from a routing daemon to a working gateway in five commands, and hostile daemons.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{Box, Path, Pause, root, run};

/// A process in a namespace that ends with the test.
struct Background(Child);

impl Background {
    fn start(namespace: &str, words: &[&str]) -> Background {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).args(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Background(command.spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a box without a configuration.
fn empty(path: &Path) -> Box {
    let b = Box::new(path, "");
    std::fs::remove_file(b.file("gateway.toml")).unwrap();
    b
}

/// Runs `init` with `--json`; returns exit code, output and standard error.
fn init(b: &Box, words: &[&str]) -> (i32, Value, String) {
    let mut command = b.program();
    let out = command.args(["init", "--json"]).args(words).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    let value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    (out.status.code().unwrap_or(-1), value, err)
}

/// Starts a server in the gateway's namespace that sends the same bytes to every client.
///
/// It then closes or hangs.
fn server(path: &Path, address: &'static str, answer: fn(&str) -> Vec<u8>, closes: bool) {
    let listener = path.gateway.spawn(move || std::net::TcpListener::bind(address).unwrap());
    let listener = listener.join().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 200];
            let n = stream.read(&mut request).unwrap_or(0);
            let _ = stream.write_all(&answer(&String::from_utf8_lossy(&request[..n])));
            if !closes {
                open.push(stream);
            }
        }
    });
}

/// Runs an operator's commands after the installation: init, check, run, apply, status.
///
/// `home`: the name of the home that is shown.
fn five_commands(b: &Box, path: &Path, kind: &str, home: &str) {
    let file = b.file("gateway.toml").display().to_string();
    let out = b.output_without_configuration(&["init", "--output", &file]);
    assert!(out.contains("mesh       mesh: ") && out.contains("wired      wan: "), "{out}");
    assert!(out.contains("(used)") && out.contains("written "), "{out}");
    assert!(!out.contains("FAILED"), "{out}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("mode = \"observe\"") && text.contains(&format!("#name = \"{home}\"")),
        "{text}"
    );
    // Only the paths are the test's.
    b.write(&text.replace("plan = \"home\"\n\n", "plan = \"home\"\nevery = \"1 s\"\n\n"));
    let (code, out, err) = b.command(&["check"]);
    assert_eq!(code, 0, "{kind}: {out}{err}\n{text}");
    assert!(out.lines().all(|l| l.starts_with("ok ")), "{out}");
    let daemon = b.start();
    let status = b.wait("the home", |s| s["subscribers"].to_string().contains(home));
    assert_eq!((status["mode"].as_str(), path.limited().as_str()), (Some("observe"), ""));
    assert_eq!(status["sources"][0]["subscribers"], 1, "{status}");
    let (code, out, err) = b.command(&["apply"]);
    assert!(code == 0 && out.contains("limits are set"), "{out}{err}");
    b.wait("limits", |s| s["mode"] == "apply" && s["phase"] == "running");
    assert!(path.flows());
    let (code, out, _) = b.command(&["status"]);
    assert!(code == 0 && out.contains(home) && out.contains("1 home"), "{out}");
    let (code, out, _) = b.command(&["apply", "--observe"]);
    assert!(code == 0 && out.contains("limits are lifted"), "{out}");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

#[test]
fn five_commands_with_babeld() {
    let Some(_one) = root("five_commands_with_babeld") else { return };
    if run("babeld", &["-V"]).is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED five_commands_with_babeld: needs babeld");
        assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
        return;
    }
    let path = Path::new();
    path.gateway.sh("ip route del 10.1.0.0/16");
    let b = empty(&path);
    let at = |name: &str| b.file(name).display().to_string();
    let common = |name: &str| {
        ["babeld", "-h", "1", "-H", "1", "-I", &at(&format!("{name}.pid")), "-S", &at(name)]
            .map(str::to_owned)
    };
    let start = |namespace: &str, name: &str, more: &[&str]| {
        let words = common(name);
        let words: Vec<&str> =
            words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Background::start(namespace, &words)
    };
    let _gateway = start(&path.gateway.name, "g", &["-G", "33123", "mesh"]);
    path.router.sh("ip route replace 10.1.0.0/16 via 10.97.0.2 proto static");
    let redistribute = ["-C", "redistribute ip 10.1.0.0/16", "-C", "redistribute local deny", "r0"];
    let _router = start(&path.router.name, "r", &redistribute);
    let mut pause = Pause::new();
    while !path.gateway.sh("ip route show").contains("10.1.0.0/16") {
        pause.take();
    }
    // On a busy machine babeld loses its neighbour for a while, and so the home.
    let end = Instant::now() + Duration::from_secs(120);
    let found = loop {
        let (_, found, _) = init(&b, &[]);
        if found["source"] == "babel" {
            break found;
        }
        assert!(Instant::now() < end, "{found}");
        pause.take();
    };
    let home = found["homes"][0]["name"].as_str().unwrap_or_default().to_owned();
    assert_eq!(found["homes"][0]["prefixes"][0], "10.1.0.0/16", "{found}");
    five_commands(&b, &path, "babeld", &home);
}

/// Responses of olsrd 0.9.8's jsoninfo, by the request.
fn olsrd(request: &str) -> Vec<u8> {
    let body = match request.split_whitespace().nth(1) {
        Some("/routes") => {
            r#"{"routes": [{"destination": "10.98.0.2", "genmask": 32, "gateway": "10.98.0.2", "metric": 1,
                "rtpMetricCost": 1024, "networkInterface": "mesh"},
                {"destination": "10.1.0.0", "genmask": 16, "gateway": "10.98.0.2", "metric": 1,
                "rtpMetricCost": 1024, "networkInterface": "mesh"}], "pid": 7}"#
        }
        Some("/hna") => {
            r#"{"hna": [{"gateway": "10.98.0.2", "destination": "10.1.0.0", "genmask": 16, "validityTime": 280}]}"#
        }
        Some("/mid") => r#"{"mid": []}"#,
        _ => "",
    };
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

#[test]
fn five_commands_with_jsoninfo() {
    let Some(_one) = root("five_commands_with_jsoninfo") else { return };
    let path = Path::new();
    server(&path, "127.0.0.1:9090", olsrd, true);
    five_commands(&empty(&path), &path, "jsoninfo", "10.98.0.2");
}

/// The kernel's routes are the last choice; a named file takes precedence.
#[test]
fn five_commands_with_routes_and_a_map() {
    let Some(_one) = root("five_commands_with_routes_and_a_map") else { return };
    let path = Path::new();
    let b = empty(&path);
    five_commands(&b, &path, "routes", "10.98.0.2");
    let map = b.file("map \"x\".json");
    let graph = |name: &str| {
        format!(
            r#"{{"type": "NetworkGraph", "protocol": "p", "nodes": [
            {{"id": "r", "label": "{name}", "local_addresses": ["10.1.0.0/16"]}}, {{"id": "n"}}], "links": []}}"#
        )
    };
    let collection =
        |name: &str| format!(r#"{{"type": "NetworkCollection", "collection": [{}]}}"#, graph(name));
    std::fs::write(&map, collection("mill's \\\"roof\\\" #1")).unwrap();
    let file = b.file("map.toml").display().to_string();
    let of_map = ["--netjson", map.to_str().unwrap(), "--output", &file];
    let (code, found, err) = init(&b, &of_map);
    assert_eq!(
        (code, &found["source"], found["written"].as_str()),
        (0, &"netjson".into(), Some(&*file)),
        "{err}{found}"
    );
    assert_eq!(found["homes"][0]["name"], "mill's \"roof\" #1");
    let to_do = found["to_do"].to_string();
    assert!(to_do.contains("1 without an address") && to_do.contains("plans"), "{to_do}");
    // The file stays, unless --force replaces it.
    let (code, _, err) = init(&b, &of_map);
    assert!(code == 2 && err.contains("exists; expected a free path, or --force"), "{err}");
    let forced = [&of_map[..], &["--force"]].concat();
    std::fs::write(&file, "mode = \"apply\"\n").unwrap();
    let (code, found, err) = init(&b, &forced);
    let copy = found["replaced"]["copy"].as_str().unwrap_or_default();
    assert_eq!(code, 0, "{err}");
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "mode = \"apply\"\n", "{found}");
    assert!(found["replaced"]["differences"].to_string().contains("\"apply\\\""), "{found}");
    // Invalid names are refused by the reader, and counted.
    for name in ["a\\nb = 1", "\\u001b[2J", "\\u202e", &"x".repeat(10_000), "(unmapped)"] {
        std::fs::write(&map, graph(name)).unwrap();
        let (code, found, err) = init(&b, &forced[..2]);
        assert_eq!(found["homes"].as_array().map(Vec::len), Some(0), "{name}: {found}{err}");
        assert!(found["sources"].to_string().contains("\"netjson\""), "{found}");
        assert_eq!(code, 1, "{name}: {err}");
    }
}

/// Daemons with false, truncated, endless or no responses.
///
/// Each is named, and nothing is written.
#[test]
fn hostile_daemons_are_named() {
    let Some(_one) = root("hostile_daemons_are_named") else { return };
    let path = Path::new();
    let half = |_: &str| b"BABEL 1.0\nversion x\nok\nadd route 1 prefix 10.1.0.0/16 fr".to_vec();
    server(&path, "[::1]:33123", half, true);
    // Hangs after a greeting.
    server(&path, "127.0.0.1:33123", |_| b"BABEL 1.0\n".to_vec(), false);
    // False entries: an escape sequence, a network of all addresses, the gateway's uplink, a number
    // in place of text.
    let lies = |_: &str| {
        b"{\"routes\": [{\"destination\": \"0.0.0.0\", \"genmask\": 0}, {\"destination\": \"\\u001b[2J\", \"genmask\": 32},
           {\"destination\": 7, \"genmask\": -1}, {\"destination\": \"127.0.0.1\", \"genmask\": 32}, 3, null]}"
            .to_vec()
    };
    server(&path, "127.0.0.1:9090", lies, true);
    // A refusal with a terminal's escape sequence.
    let refuses = |_: &str| b"BABEL 1.0\nbad \x1b[2J\x1b]0;x\x07 syntax\n".to_vec();
    server(&path, "127.0.0.1:33124", refuses, false);
    path.gateway.sh("ip route del 10.1.0.0/16");
    let b = empty(&path);
    let file = b.file("gateway.toml").display().to_string();
    let (code, found, err) = init(&b, &["--output", &file]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("not enough information"), "{err}");
    assert_eq!((&found["source"], &found["written"]), (&Value::Null, &Value::Null), "{found}");
    let to_do = found["to_do"].to_string();
    for message in
        ["babel [::1]:33123: truncated response", "babel 127.0.0.1:33123: no response within"]
    {
        assert!(to_do.contains(message), "{message}: {to_do}");
    }
    assert!(found["sources"].to_string().contains("\"malformed\""), "{found}");
    assert!(std::fs::metadata(&file).is_err(), "nothing is written");
    let mut command = b.program();
    let out = command.args(["init", "--babel", "127.0.0.1:33124"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("FAILED: refused: bad") && !text.contains('\u{1b}'), "{text:?}");
    // With a route there is a source, and comments of the configuration name the daemons.
    path.gateway.sh("ip route add 10.1.0.0/16 via 10.98.0.2");
    let (code, found, err) = init(&b, &["--output", &file]);
    assert_eq!((code, &found["source"]), (0, &"routes".into()), "{err}{found}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# - source: babel [::1]:33123: truncated response"), "{text}");
    assert_eq!(b.command(&["check"]).0, 0);
}
