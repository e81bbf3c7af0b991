use proptest::prelude::*;

use super::*;

fn show(found: &[Found]) -> Vec<String> {
    let one = |f: &Found| {
        let nets: Vec<String> = f.prefixes.iter().map(ToString::to_string).collect();
        let macs: Vec<String> = f.macs.iter().map(ToString::to_string).collect();
        format!("{} [{}] [{}] {:?}", f.name, nets.join(" "), macs.join(" "), f.hops)
    };
    found.iter().map(one).collect()
}

#[test]
fn netjson_graphs() {
    let text = r#"{"type": "NetworkGraph", "protocol": "olsr", "version": "0.6.6", "metric": "etx",
      "nodes": [
        {"id": "10.0.0.2", "label": "roof", "local_addresses": ["10.1.0.1", "fd00:2::/64"]},
        {"id": "02:fc:00:00:00:03", "properties": {"addresses": ["10.0.0.3"]}},
        {"id": "fe80::1"}, {"id": "somewhere"}, {"label": "no id"}, 7],
      "links": []}"#;
    assert_eq!(
        show(&netjson::read(text).unwrap()),
        [
            "02:fc:00:00:00:03 [10.0.0.3/32] [02:fc:00:00:00:03] None",
            "roof [10.0.0.2/32 10.1.0.1/32 fd00:2::/64] [] None",
        ]
    );
    assert!(netjson::read("{\"type\": \"NetworkRoutes\"}").is_err());
}

/// A node's label is its own choice: it makes nobody another, and nobody the one who has the traffic of
/// all whom nobody knows.
#[test]
fn a_label_is_no_way_into_somebody_elses_class() {
    let text = r#"{"type": "NetworkGraph", "nodes": [
        {"id": "10.0.0.2", "label": "roof"}, {"id": "10.0.0.3", "label": " roof"},
        {"id": "10.0.0.4", "label": "10.0.0.5"}, {"id": "10.0.0.5", "label": "10.0.0.5"},
        {"id": "10.0.0.6", "label": "(unmapped)"}, {"id": "10.0.0.7", "label": "mill"}]}"#;
    let found = netjson::read(text).unwrap();
    let names: Vec<&str> = found.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "mill"]);
    assert!(found.iter().all(|f| f.prefixes.len() == 1));
}

/// In a folder of all somebody may put anything where the map is expected.
#[test]
fn what_is_no_file_or_too_large_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(file(&at("pipe")).unwrap_err().contains("not a file"));
    assert!(file(folder.path()).unwrap_err().contains("not a file"));
    assert!(file(std::path::Path::new("/dev/zero")).unwrap_err().contains("not a file"));
    let large = std::fs::File::create(at("large")).unwrap();
    large.set_len(MOST + 1).unwrap();
    assert!(file(&at("large")).unwrap_err().contains("MiB"));
    std::fs::write(at("map"), "{\"type\": \"NetworkGraph\", \"nodes\": []}").unwrap();
    assert_eq!(file(&at("map")).and_then(|t| read(Form::NetJson, &t, "")), Ok(vec![]));
}

/// The largest answers that are read, made so that they fill as much memory as can be: in a process of
/// its own, with the bound of the systemd unit.
#[test]
fn no_answer_fills_the_memory() {
    let name = "gateway::sources::tests::no_answer_fills_the_memory";
    if std::env::var_os("FAIRMESH_TEST_ALONE").is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("FAIRMESH_TEST_ALONE", "1")
            .status();
        assert!(alone.unwrap().success());
        return;
    }
    let most = MOST as usize;
    let fill = |mut head: String, one: &dyn Fn(usize) -> String| {
        for i in 0.. {
            let next = one(i);
            if head.len() + next.len() > most - 8 {
                return head;
            }
            head += &next;
        }
        unreachable!()
    };
    let nodes = fill("{\"type\":\"NetworkGraph\",\"nodes\":[0".into(), &|_| ",{}".into()) + "]}";
    assert!(read(Form::NetJson, &nodes, "").unwrap_err().contains("values"));
    let entry = |i: usize| format!("\"{i:x}\":0,");
    let keys = fill("[{".into(), &entry) + "\"z\":0}]";
    assert!(read(Form::Routes, &keys, "").unwrap_err().contains("values"));
    drop((nodes, keys));
    // As many values as are let through.
    let mut dense = "[{".to_owned();
    (0..VALUES - 4).for_each(|i| dense += &entry(i));
    dense += "\"z\":0}]";
    assert_eq!(read(Form::Routes, &dense, ""), Ok(vec![]));
    drop(dense);
    let line = |i: usize| {
        let (a, b, c) = (i >> 16 & 255, i >> 8 & 255, i & 255);
        format!("add route {i} prefix 9.{a}.{b}.{c}/32 installed yes id {i:x}\n")
    };
    let babel = fill("BABEL 1.0\n".into(), &line);
    assert!(read(Form::Babel, &babel, "").unwrap().len() > 100_000);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    println!("at most {kib} KiB");
    assert!(kib < 200 << 10, "{kib} KiB");
}

/// What batctl 2023.0 prints on batman-adv 2022.3 in a chain of three nodes, at its end.
const ORIGINATORS: &str = include_str!("fixtures/batctl-2023.0-originators.json");
const CLIENTS: &str = include_str!("fixtures/batctl-2023.0-transtable_global.json");

/// A node is known by the address of its radio, and reached at those that it announces: its own bat0
/// among them, groups not.
#[test]
fn batman_originators_with_their_clients() {
    assert_eq!(
        show(&batman::read(ORIGINATORS, CLIENTS).unwrap()),
        [
            "0a:dd:24:71:ec:57 [] [de:5b:0c:b2:ec:63] None",
            "76:3d:94:90:85:7a [] [2a:cb:97:a7:b4:03] Some(1)",
        ]
    );
    // Whoever is not the best way to a client, or no longer one, does not have it.
    let gone = CLIENTS.replace("\"best\":true", "\"seen\":true");
    assert_eq!(show(&batman::read(ORIGINATORS, &gone).unwrap()), [""; 0]);
    let gone = CLIENTS.replace("\"del\": false", "\"del\": true");
    assert_eq!(show(&batman::read(ORIGINATORS, &gone).unwrap()), [""; 0]);
    assert!(batman::read(ORIGINATORS, "").is_err(), "nobody can be limited without the table");
}

/// As a terminal would show it otherwise, `status` would tell lies.
#[test]
fn names_that_do_not_look_as_they_are_are_nobodys() {
    for name in ["", " ", "a\u{202e}b", "a\u{200b}b", "a\nb", "\u{feff}a", "a\u{e0041}"] {
        assert!(Nodes::default().node(name).is_none(), "{name:?}");
    }
    for name in ["roof 7", "Dachboden Süd", "屋顶", "крыша"] {
        assert!(Nodes::default().node(name).is_some(), "{name:?}");
    }
}

#[test]
fn what_others_say_is_told_in_part() {
    assert_eq!(excerpt(" bad\u{1b}[31m command \u{202e}"), "bad[31m command");
    let long = "x".repeat(1_000_000);
    assert_eq!(excerpt(&long).chars().count(), 81);
    let told = babel::read(&format!("BABEL 1.0\nbad {long}\n")).unwrap_err();
    assert!(told.len() < 120, "{told}");
}

/// A list in which everybody has every address once more is read in the time that it takes to read.
#[test]
fn an_address_told_a_hundred_thousand_times_counts_once() {
    let route = r#"{"dst":"10.0.0.7","gateway":"10.0.0.2","flags":[]}"#;
    let text = format!("[{}]", vec![route; 100_000].join(","));
    assert_eq!(show(&kernel::routes(&text).unwrap()), ["10.0.0.7/32 [10.0.0.7/32] [] None"]);
    let neighbours: Vec<String> = (0..100_000_u32)
        .map(|i| {
            let [_, b, c, d] = i.to_be_bytes();
            format!(r#"{{"dst":"10.{b}.{c}.{d}","lladdr":"02:fc:00:00:00:02","state":["STALE"]}}"#)
        })
        .collect();
    let found = kernel::neighbours(&format!("[{}]", neighbours.join(","))).unwrap();
    assert_eq!((found.len(), found[0].prefixes.len()), (1, 100_000));
}

#[test]
fn olsr_routes_and_networks() {
    let routes = "HTTP/1.0 200 OK\r\nContent-type: application/json\r\n\r\n{\"routes\": [
      {\"destination\": \"10.0.0.2\", \"genmask\": 32, \"gateway\": \"10.0.0.2\", \"metric\": 1, \"etx\": 1.0, \"interface\": \"wlan0\"},
      {\"destination\": \"10.0.0.3\", \"genmask\": 32, \"gateway\": \"10.0.0.2\", \"metric\": 2, \"etx\": 2.0, \"interface\": \"wlan0\"},
      {\"destination\": \"10.3.0.0\", \"genmask\": 24, \"gateway\": \"10.0.0.2\", \"metric\": 2}], \"pid\": 7}";
    let hna = r#"{"hna": [{"destination": "10.3.0.0", "genmask": 24, "gateway": "10.0.0.3", "validityTime": 1},
      {"destination": "0.0.0.0", "genmask": 0, "gateway": "10.0.0.9"}]}"#;
    assert_eq!(
        show(&olsr::read(routes, hna).unwrap()),
        ["10.0.0.2 [10.0.0.2/32] [] Some(1)", "10.0.0.3 [10.0.0.3/32 10.3.0.0/24] [] Some(2)"]
    );
    assert!(olsr::read("HTTP/1.0 404 Not Found\r\n\r\n", "").is_err());
}

const BABEL: &str = "BABEL 1.0\nversion babeld-1.12.1\nhost gw\nmy-id 02:fc:00:ff:fe:00:00:01\nok\n\
add interface wlan0 up true ipv6 fe80::1 ipv4 10.0.0.1\n\
add xroute 10.0.0.1/32-0.0.0.0/0 prefix 10.0.0.1/32 from 0.0.0.0/0 metric 0\n\
add route 5580 prefix 10.0.0.2/32 from 0.0.0.0/0 installed yes id 02:fc:00:ff:fe:00:00:02 metric 96 refmetric 0 via fe80::2 if wlan0\n\
add route 5581 prefix fd00:2::/64 from ::/0 installed yes id 02:fc:00:ff:fe:00:00:02 metric 96 refmetric 0 via fe80::2 if wlan0\n\
add route 5582 prefix 10.0.0.3/32 from 0.0.0.0/0 installed no id 02:fc:00:ff:fe:00:00:03 metric 300 refmetric 96 via fe80::2 if wlan0\n\
add route 5583 prefix 0.0.0.0/0 from 0.0.0.0/0 installed yes id 02:fc:00:ff:fe:00:00:02 metric 96 refmetric 0 via fe80::2 if wlan0\n\
add route 5584 prefix 10.0.0.1/32 from 0.0.0.0/0 installed yes id 02:fc:00:ff:fe:00:00:01 metric 96 refmetric 0 via fe80::2 if wlan0\n\
ok\n";

#[test]
fn babel_routes_by_router() {
    assert_eq!(
        show(&babel::read(BABEL).unwrap()),
        ["02:fc:00:ff:fe:00:00:02 [10.0.0.2/32 fd00:2::/64] [] None"]
    );
    assert!(babel::is_complete(BABEL));
    let greeting = "BABEL 1.0\nversion babeld-1.12.1\nhost gw\nmy-id 02\nok\n";
    assert!(!babel::is_complete(greeting), "only the greeting");
    assert!(babel::read("BABEL 1.0\nok\nbad\n").is_err());
    assert!(babel::read("HTTP/1.0 200 OK").is_err());
}

/// What babeld 1.12.1 on Linux 6.1 answers about one router that announces a network.
#[test]
fn babeld_itself() {
    let text = include_str!("fixtures/babeld-1.12.1-dump.txt");
    assert_eq!(
        show(&babel::read(text).unwrap()),
        ["a4:d5:e7:8b:17:8b:da:90 [10.1.0.0/16] [] None"]
    );
    assert!(babel::is_complete(text));
}

#[test]
fn the_kernels_tables() {
    let neigh = r#"[{"dst":"10.0.0.2","lladdr":"02:fc:00:00:00:02","state":["REACHABLE"]},
      {"dst":"fd00::2","lladdr":"02:fc:00:00:00:02","router":null,"state":["STALE"]},
      {"dst":"fe80::2","lladdr":"02:fc:00:00:00:02","state":["STALE"]},
      {"dst":"10.0.0.9","state":["FAILED"]}]"#;
    assert_eq!(
        show(&kernel::neighbours(neigh).unwrap()),
        ["02:fc:00:00:00:02 [10.0.0.2/32 fd00::2/128] [02:fc:00:00:00:02] Some(1)"]
    );
    let routes = r#"[{"dst":"default","gateway":"10.0.0.9","flags":[]},
      {"dst":"10.0.0.0/24","protocol":"kernel","scope":"link","prefsrc":"10.0.0.1","flags":[]},
      {"dst":"10.3.0.0/24","gateway":"10.0.0.2","protocol":"babel","flags":["onlink"]},
      {"dst":"10.0.0.7","gateway":"10.0.0.2","flags":[]},
      {"type":"blackhole","dst":"10.9.0.0/16","flags":[]}]"#;
    assert_eq!(
        show(&kernel::routes(routes).unwrap()),
        ["10.0.0.7/32 [10.0.0.7/32] [] None", "10.3.0.0/24 [10.3.0.0/24] [] None"]
    );
    assert!(kernel::routes("").unwrap().is_empty());
}

/// Somebody who answers is asked and understood, over a real socket.
#[test]
fn sockets_files_and_their_failures() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 5];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(BABEL.as_bytes()).unwrap();
        // Babel does not close.
        let _ = stream.read(&mut request);
    });
    let folder = tempfile::tempdir().unwrap();
    let discover = Discover {
        netjson: Some(folder.path().join("missing.json")),
        batman: None,
        olsr: None,
        babel: Some(address),
        neighbours: false,
        routes: false,
        plan: Default::default(),
        every: fairmesh_units::Span::from_secs(1),
        linger: fairmesh_units::Span::ZERO,
        most: 10,
    };
    let discovery = fetch(&discover, "lo");
    server.join().unwrap();
    assert_eq!(discovery.found.len(), 1);
    assert_eq!(discovery.failed.len(), 1, "{:?}", discovery.failed);
    assert!(run("sh", &["-c", "exit 3"]).unwrap_err().contains("failed"));
    assert!(run("no-such-program", &[]).is_err());
}

proptest! {
    /// No text makes a reader panic, whole or cut.
    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,200}", cut in 0..2000_usize) {
        let part = |t: &str| t.chars().take(cut).collect::<String>();
        for t in [text.clone(), part(BABEL), format!("[{text}]"), format!("{{\"routes\":[{text}]}}")] {
            let _ = netjson::read(&t);
            let _ = batman::read(&t, &t);
            let _ = olsr::read(&t, &t);
            let _ = babel::read(&t);
            let _ = kernel::neighbours(&t);
            let _ = kernel::routes(&t);
        }
    }
}
