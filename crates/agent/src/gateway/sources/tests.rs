use fairmesh_linux::nl80211::{MeshPath, Proxied};
use proptest::prelude::*;

use super::*;

fn show(reading: &Reading) -> Vec<String> {
    let one = |f: &Found| {
        let nets: Vec<String> = f.prefixes.iter().map(ToString::to_string).collect();
        let macs: Vec<String> = f.macs.iter().map(ToString::to_string).collect();
        format!("{} [{}] [{}] {:?}", f.name, nets.join(" "), macs.join(" "), f.hops)
    };
    reading.homes.iter().map(one).collect()
}

/// The counts of a reading, as `status` shows them.
fn counts(reading: &Reading) -> String {
    SourceReport::of("", reading).counts()
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

/// A node chooses its own label.
///
/// The label gives it neither another node's identity nor the unmapped traffic.
#[test]
fn a_label_gives_no_other_identity() {
    let text = r#"{"type": "NetworkGraph", "nodes": [
        {"id": "10.0.0.2", "label": "roof"}, {"id": "10.0.0.3", "label": " roof"},
        {"id": "10.0.0.4", "label": "10.0.0.5"}, {"id": "10.0.0.5", "label": "10.0.0.5"},
        {"id": "10.0.0.6", "label": "(unmapped)"}, {"id": "10.0.0.7", "label": "mill"}]}"#;
    let found = netjson::read(text).unwrap().homes;
    let names: Vec<&str> = found.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "mill"]);
    assert!(found.iter().all(|f| f.prefixes.len() == 1));
}

/// In a folder that all users can write to, any object may be in place of the map.
#[test]
fn special_and_too_large_files_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(file(&at("pipe")).unwrap_err().to_string().contains("not a regular file"));
    assert!(file(folder.path()).unwrap_err().to_string().contains("not a regular file"));
    assert!(
        file(std::path::Path::new("/dev/zero"))
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );
    let large = std::fs::File::create(at("large")).unwrap();
    large.set_len(MAX_RESPONSE + 1).unwrap();
    assert!(file(&at("large")).unwrap_err().to_string().contains("MiB"));
    std::fs::write(at("map"), "{\"type\": \"NetworkGraph\", \"nodes\": []}").unwrap();
    assert_eq!(read(Form::NetJson, &file(&at("map")).unwrap(), &[]).unwrap().homes, []);
}

/// The largest permitted responses, made to fill as much memory as possible.
///
/// The test runs in a separate process, with the memory limit of the systemd unit.
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
    let most = MAX_RESPONSE as usize;
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
    assert!(read(Form::NetJson, &nodes, &[]).unwrap_err().to_string().contains("values"));
    let entry = |i: usize| format!("\"{i:x}\":0,");
    let keys = fill("[{".into(), &entry) + "\"z\":0}]";
    assert!(read(Form::Routes, &keys, &[]).unwrap_err().to_string().contains("values"));
    drop((nodes, keys));
    // As many values as are permitted.
    let mut dense = "[{".to_owned();
    (0..MAX_VALUES - 4).for_each(|i| dense += &entry(i));
    dense += "\"z\":0}]";
    assert_eq!(read(Form::Routes, &dense, &[]).unwrap().homes, []);
    drop(dense);
    let line = |i: usize| {
        let (a, b, c) = (i >> 16 & 255, i >> 8 & 255, i & 255);
        format!("add route {i} prefix 9.{a}.{b}.{c}/32 installed yes id {i:x}\n")
    };
    let babel = fill("BABEL 1.0\nok\n".into(), &line) + "ok\n";
    assert!(read(Form::Babel, &babel, &[]).unwrap().homes.len() > 100_000);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    println!("at most {kib} KiB");
    assert!(kib < 200 << 10, "{kib} KiB");
}

/// Output of batctl 2023.0 on batman-adv 2022.3 in a chain of three nodes, at its end.
const ORIGINATORS: &str = include_str!("fixtures/batctl-2023.0-originators.json");
const CLIENTS: &str = include_str!("fixtures/batctl-2023.0-transtable_global.json");

/// A node is named by the address of its radio, and reached at those that it announces.
///
/// Its own bat0 is among them, groups are not.
#[test]
fn batman_originators_with_their_clients() {
    assert_eq!(
        show(&batman::read(ORIGINATORS, CLIENTS).unwrap()),
        [
            "0a:dd:24:71:ec:57 [] [de:5b:0c:b2:ec:63] None",
            "76:3d:94:90:85:7a [] [2a:cb:97:a7:b4:03] Some(1)",
        ]
    );
    // Only the best path to a client has it, and no longer after its deletion.
    for gone in [
        CLIENTS.replace("\"best\":true", "\"seen\":true"),
        CLIENTS.replace("\"del\": false", "\"del\": true"),
    ] {
        let error = batman::read(ORIGINATORS, &gone).unwrap_err().to_string();
        assert!(error.contains("originators, none with clients"), "{error}");
    }
    assert_eq!(batman::read("[]", "[]").unwrap().homes, []);
    assert!(batman::read(ORIGINATORS, "").is_err(), "without the table there is no home");
}

/// On a terminal such names would make `status` misleading.
#[test]
fn misleading_names_are_rejected() {
    for name in ["", " ", "a\u{202e}b", "a\u{200b}b", "a\nb", "\u{feff}a", "a\u{e0041}"] {
        assert!(Nodes::default().node(name).is_none(), "{name:?}");
    }
    assert!(Nodes::default().node(&"x".repeat(10_000)).is_none());
    // Every form of source: a name or address of 10 kB, with quotes, slashes and control characters.
    for bad in ["x".repeat(10_000), "a\u{7}\"/../'\n".repeat(1_000)] {
        let json = serde_json::Value::from(bad.as_str()).to_string();
        let map = format!(
            r#"{{"type": "NetworkGraph", "nodes": [{{"id": {json}, "local_addresses": ["10.0.0.2"]}},
            {{"id": "10.0.0.3", "label": {json}}}, {{"id": "10.0.0.4"}}], "links": [{{"source": {json}, "target": {json}}}]}}"#
        );
        let map = netjson::read(&map).unwrap();
        assert!(map.homes.iter().all(|h| h.name.len() <= 64), "{:?}", map.homes);
        assert!(map.omitted.of(Omission::Name) >= 1 && map.paths.is_empty());
        let originators = format!(r#"[{{"orig_address": {json}, "neigh_address": {json}}}]"#);
        assert!(batman::read(&originators, "[]").unwrap_or_default().homes.is_empty());
        let routes = format!(r#"{{"routes": [{{"destination": {json}, "genmask": 32}}]}}"#);
        assert!(olsr::read(&routes, "", "").unwrap().homes.is_empty());
        let line = "add route 1 prefix 10.0.0.2/32 installed yes metric 96 refmetric 0";
        let babel = babel::read(&format!("BABEL 1.0\nok\n{line} via {bad} id {bad}\nok\n"));
        assert!(babel.unwrap().homes.iter().all(|h| h.name.len() <= 64));
        let route = format!(r#"[{{"dst": {json}, "gateway": {json}, "protocol": "babel"}}]"#);
        assert!(kernel::routes(&[&route], "", RoutesBy::Origin).unwrap().homes.is_empty());
    }
    for name in ["roof 7", "Dachboden Süd", "屋顶", "крыша"] {
        assert!(Nodes::default().node(name).is_some(), "{name:?}");
    }
}

#[test]
fn excerpts_of_untrusted_text_are_bounded() {
    assert_eq!(excerpt(" bad\u{1b}[31m command \u{202e}"), "bad[31m command");
    let long = "x".repeat(1_000_000);
    assert_eq!(excerpt(&long).chars().count(), 81);
    let error = babel::read(&format!("BABEL 1.0\nbad {long}\n")).unwrap_err().to_string();
    assert!(error.len() < 120, "{error}");
}

/// A list in which each node repeats each address takes only the time of reading it.
#[test]
fn a_repeated_address_counts_once() {
    let route = r#"{"dst":"10.0.0.7","gateway":"10.0.0.2","flags":[]}"#;
    let text = format!("[{}]", vec![route; 100_000].join(","));
    let found = kernel::routes(&[&text], "", RoutesBy::Origin).unwrap();
    assert_eq!(show(&found), ["10.0.0.2 [10.0.0.7/32] [] None"]);
    let neighbours: Vec<String> = (0..100_000_u32)
        .map(|i| {
            let [_, b, c, d] = i.to_be_bytes();
            format!(r#"{{"dst":"10.{b}.{c}.{d}","lladdr":"02:fc:00:00:00:02","state":["STALE"]}}"#)
        })
        .collect();
    let found = kernel::neighbours(&format!("[{}]", neighbours.join(",")), None).unwrap().homes;
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
        show(&olsr::read(routes, hna, "").unwrap()),
        ["10.0.0.2 [10.0.0.2/32] [] Some(1)", "10.0.0.3 [10.0.0.3/32 10.3.0.0/24] [] Some(2)"]
    );
    assert!(olsr::read("HTTP/1.0 404 Not Found\r\n\r\n", "", "").is_err());
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
    assert!(babel::Progress::default().complete(BABEL.as_bytes()));
    let greeting = "BABEL 1.0\nversion babeld-1.12.1\nhost gw\nmy-id 02\nok\n";
    assert!(!babel::Progress::default().complete(greeting.as_bytes()), "only the greeting");
    assert_eq!(babel::read(&format!("{greeting}ok\n")).unwrap().homes, [], "a mesh without routes");
    assert!(babel::read("BABEL 1.0\nok\nbad\n").is_err());
    assert!(babel::read("HTTP/1.0 200 OK").is_err());
}

/// The response of babeld 1.12.1 on Linux 6.1 about one router that announces a network.
#[test]
fn babeld_itself() {
    let text = include_str!("fixtures/babeld-1.12.1-dump.txt");
    assert_eq!(
        show(&babel::read(text).unwrap()),
        ["a4:d5:e7:8b:17:8b:da:90 [10.1.0.0/16] [] None"]
    );
    assert!(babel::Progress::default().complete(text.as_bytes()));
}

/// A mesh point is a home by its address; paths that are not in use and groups lead to none.
#[test]
fn paths_of_a_mesh_point() {
    let path = |last: u8, active: bool| MeshPath {
        destination: MacAddr([2, 0xfc, 0, 0, 0, last]),
        next_hop: MacAddr([2, 0xfc, 0, 0, 0, 2]),
        active,
        hops: Some(last - 1),
    };
    let reading = kernel::paths(&[path(2, true), path(3, true), path(4, false)], &[]);
    assert_eq!(
        show(&reading),
        [
            "02:fc:00:00:00:02 [] [02:fc:00:00:00:02] Some(1)",
            "02:fc:00:00:00:03 [] [02:fc:00:00:00:03] Some(2)",
        ]
    );
    assert_eq!(
        counts(&reading),
        "2 nodes, 2 addresses, 2 homes; left out: 1 that cannot be reached"
    );
    // An address behind a mesh point is its own; without a path to that one it is unreachable.
    let proxied = [(0x40, 3), (0x41, 3), (0x42, 9)].map(|(address, proxy)| Proxied {
        address: MacAddr([2, 0xfc, 0, 0, 0, address]),
        proxy: MacAddr([2, 0xfc, 0, 0, 0, proxy]),
    });
    let reading = kernel::paths(&[path(2, true), path(3, true)], &proxied);
    let behind =
        "02:fc:00:00:00:03 [] [02:fc:00:00:00:03 02:fc:00:00:00:40 02:fc:00:00:00:41] Some(2)";
    assert_eq!(show(&reading)[1], behind);
    assert!(counts(&reading).ends_with("left out: 1 that cannot be reached"));
    let neigh = r#"[{"dst":"10.0.0.3","lladdr":"02:fc:00:00:00:03","state":["STALE"]},
      {"dst":"10.0.0.40","lladdr":"02:fc:00:00:00:40","state":["REACHABLE"]}]"#;
    let addresses = "[10.0.0.3/32 10.0.0.40/32] [02:fc:00:00:00:03 02:fc:00:00:00:40]";
    let reading = kernel::neighbours(neigh, Some(&proxied)).unwrap();
    assert_eq!(show(&reading), [format!("02:fc:00:00:00:03 {addresses} None")]);
    let no_radio = fetch(&Discover { mesh_paths: true, ..nothing() }, "lo");
    assert_eq!((no_radio.sources[0].name.as_str(), no_radio.failed.len()), ("mesh paths", 1));
}

#[test]
fn the_kernels_tables() {
    let neigh = r#"[{"dst":"10.0.0.2","lladdr":"02:fc:00:00:00:02","state":["REACHABLE"]},
      {"dst":"fd00::2","lladdr":"02:fc:00:00:00:02","router":null,"state":["STALE"]},
      {"dst":"fe80::2","lladdr":"02:fc:00:00:00:02","state":["STALE"]},
      {"dst":"10.0.0.9","state":["FAILED"]}]"#;
    assert_eq!(
        show(&kernel::neighbours(neigh, None).unwrap()),
        ["02:fc:00:00:00:02 [10.0.0.2/32 fd00::2/128] [02:fc:00:00:00:02] Some(1)"]
    );
    let routes = r#"[{"dst":"default","gateway":"10.0.0.9","flags":[]},
      {"dst":"10.0.0.0/24","protocol":"kernel","scope":"link","prefsrc":"10.0.0.1","flags":[]},
      {"dst":"10.3.0.0/24","gateway":"10.0.0.2","protocol":"babel","flags":["onlink"]},
      {"dst":"10.0.0.7","gateway":"10.0.0.2","flags":[]},
      {"type":"blackhole","dst":"10.9.0.0/16","flags":[]}]"#;
    let of = |by| show(&kernel::routes(&[routes], "", by).unwrap());
    let each = ["10.0.0.7/32 [10.0.0.7/32] [] None", "10.3.0.0/24 [10.3.0.0/24] [] None"];
    assert_eq!(of(RoutesBy::Route), each);
    assert_eq!(of(RoutesBy::NextHop), ["10.0.0.2 [10.3.0.0/24 10.0.0.7/32] [] None"]);
    // Babel's next hop may be another home's router.
    assert_eq!(
        of(RoutesBy::Origin),
        ["10.0.0.2 [10.0.0.7/32] [] None", "10.3.0.0/24 [10.3.0.0/24] [] None"]
    );
    assert!(kernel::routes(&["", ""], "", RoutesBy::Origin).unwrap().homes.is_empty());
}

/// The routes to one home have one share, IPv4 and IPv6, however they name its router.
#[test]
fn routes_of_one_home_are_found_by_its_next_hop() {
    let four = r#"[{"dst":"10.1.1.0/24","gateway":"10.0.0.2","flags":[]},
      {"dst":"10.1.2.0/24","via":{"family":"inet","host":"10.0.0.2"},"flags":[]},
      {"dst":"10.1.3.0/24","nexthops":[{"gateway":"10.0.0.3","dev":"mesh0"}],"flags":[]},
      {"dst":"10.0.0.9","scope":"link","flags":[]}]"#;
    let six = r#"[{"dst":"fd00:1::/64","gateway":"fe80::fc:ff:fe00:2","flags":[]},
      {"dst":"fd00:3::/64","gateway":"fe80::3","flags":[]},
      {"dst":"fd00:4::/64","gateway":"fe80::4","flags":[]}]"#;
    let neighbours = r#"[{"dst":"10.0.0.2","lladdr":"02:fc:00:00:00:02","state":["REACHABLE"]},
      {"dst":"10.0.0.3","lladdr":"02:fc:00:00:00:03","state":["STALE"]},
      {"dst":"fe80::3","lladdr":"02:fc:00:00:00:03","state":["STALE"]},
      {"dst":"10.0.0.4","lladdr":"02:fc:00:00:00:04","state":["FAILED"]}]"#;
    assert_eq!(
        show(&kernel::routes(&[four, six], neighbours, RoutesBy::Origin).unwrap()),
        [
            // The second one's router is known only by its link-local address, which contains its Ethernet address.
            "10.0.0.2 [10.1.1.0/24 10.1.2.0/24 fd00:1::/64] [] None",
            "10.0.0.3 [10.1.3.0/24 fd00:3::/64] [] None",
            "10.0.0.9/32 [10.0.0.9/32] [] None",
            "fe80::4 [fd00:4::/64] [] None",
        ]
    );
}

/// A dump is read to its own end, for any cut: each query is complete or fails as a whole.
#[test]
fn a_dump_is_complete_wherever_reads_cut_it() {
    for cut in 0..BABEL.len() {
        let mut progress = babel::Progress::default();
        assert!(!progress.complete(&BABEL.as_bytes()[..cut]), "{:?}", &BABEL[..cut]);
        assert!(babel::read(&BABEL[..cut]).is_err());
        assert!(progress.complete(BABEL.as_bytes()));
    }
    // Whole lines that refuse end it; lines that contain such words do not.
    for refusal in ["no\n", "no such command\n", "bad\n"] {
        let text = BABEL.replacen("add interface", &format!("{refusal}add interface"), 1);
        assert!(babel::Progress::default().complete(text.as_bytes()));
        assert!(babel::read(&text).unwrap_err().to_string().starts_with("refused: "), "{refusal}");
    }
    let name = BABEL.replace("if wlan0", "if no bad nobody");
    assert!(!babel::Progress::default().complete(&name.as_bytes()[..name.len() - 3]));
    assert_eq!(babel::read(&name).unwrap().homes.len(), 1);
    // A retracted route, which babeld keeps for a while, leads to no home.
    let retracted = BABEL.replace("metric 96 refmetric 0", "metric 65535 refmetric 65535");
    assert_eq!(babel::read(&retracted).unwrap().homes, []);
}

/// `babel` may be a Unix socket; a truncated response is a failure, not a shorter list.
#[test]
fn babel_by_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("babel.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        for answer in [BABEL, &BABEL[..BABEL.len() - 9]] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 5];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut discover = nothing();
    discover.babel = Some(Endpoint::Unix(path.clone()));
    let whole = fetch(&discover, "lo");
    assert_eq!((whole.found.len(), whole.failed.len()), (1, 0), "{:?}", whole.failed);
    assert_eq!(whole.sources[0].subscribers, 1);
    let cut = fetch(&discover, "lo");
    assert!(cut.found.is_empty());
    let expected = format!("babel {}: truncated response", path.display());
    assert!(cut.failed[0].to_string().starts_with(&expected), "{:?}", cut.failed);
    server.join().unwrap();
    std::fs::remove_file(&path).unwrap();
    let gone = fetch(&discover, "lo");
    assert!(gone.sources[0].failed.is_some() && gone.failed.len() == 1);
}

/// A router with several interfaces is one subscriber, in both notations of olsrd.
#[test]
fn olsr_routers_with_several_interfaces() {
    let route = |d: &str, l: u8, m: u8| {
        format!(
            "{{\"destination\": \"{d}\", \"genmask\": {l}, \"gateway\": \"10.9.1.2\", \"metric\": {m}}}"
        )
    };
    let routes = [
        route("10.9.0.2", 32, 1),
        route("10.9.1.2", 32, 1),
        route("10.9.2.2", 32, 2),
        route("10.9.2.3", 32, 2),
        route("10.50.2.0", 24, 1),
    ];
    let routes = format!("{{\"routes\": [{}]}}", routes.join(","));
    let hna = r#"{"hna": [{"gateway": "10.9.0.2", "destination": "10.50.2.0", "genmask": 24},
      {"gateway": "10.9.2.3", "destination": "10.50.3.0", "genmask": 24},
      {"gateway": "10.9.0.3", "destination": "0.0.0.0", "genmask": 0}]}"#;
    let expected = [
        "10.9.0.2 [10.9.0.2/32 10.9.1.2/32 10.9.2.2/32 10.50.2.0/24] [] Some(1)",
        "10.9.0.3 [10.9.2.3/32 10.50.3.0/24] [] Some(2)",
    ];
    for mid in [
        r#"{"mid": [{"main": {"ipAddress": "10.9.0.2", "validityTime": 1}, "aliases": [
           {"ipAddress": "10.9.1.2", "validityTime": 1}, {"ipAddress": "10.9.2.2"}]},
           {"main": {"ipAddress": "10.9.0.3"}, "aliases": [{"ipAddress": "10.9.2.3"}]}]}"#,
        r#"{"mid": [{"ipAddress": "10.9.0.2", "aliases": [{"ipAddress": "10.9.1.2"}, "10.9.2.2"]},
           {"ipAddress": "10.9.0.3", "aliases": [{"ipAddress": "10.9.2.3"}]}]}"#,
    ] {
        assert_eq!(show(&olsr::read(&routes, hna, mid).unwrap()), expected);
    }
    let cut = &hna[..hna.len() - 5];
    assert!(olsr::read(&routes, cut, "").unwrap_err().to_string().starts_with("/hna: not JSON"));
}

/// OLSRv2 lists prefixes behind routers as nodes.
///
/// Routers have addresses as label, as `router_addr` or in their id.
#[test]
fn olsrv2_prefixes_belong_to_their_router() {
    let router = |n: u8, kind: &str, more: &str| {
        format!(
            r#"{{"id": "id_10.8.0.{n}", "label": "10.8.0.{n}", "properties": {{"router_id": "id_10.8.0.{n}", "type": "{kind}"{more}}}}}"#
        )
    };
    let behind = |n: u8, net: &str, owner: &str| {
        format!(
            r#"{{"id": "id_10.8.0.{n}_{net}", "label": "{net}", "properties": {{{owner}"type": "attached"}}}}"#
        )
    };
    let nodes = [
        router(1, "local", ""),
        behind(1, "0.0.0.0/0", ""),
        router(2, "node", ", \"router_addr\": \"10.8.0.2\""),
        behind(2, "10.8.2.0/24", "\"router_id\": \"id_10.8.0.2\", "),
        router(3, "node", ""),
        behind(3, "10.8.3.0/24", ""),
        behind(3, "10.8.4.4/32", ""),
        behind(1, "10.8.1.0/24", "\"router_id\": \"id_10.8.0.1\", "),
    ];
    let link = |net: &str| format!(r#"{{"source": "id_10.8.0.3", "target": "id_10.8.0.3_{net}"}}"#);
    let links = [link("10.8.3.0/24"), link("10.8.4.4/32")].join(",");
    let graph = |nodes: &[String]| {
        format!(
            r#"{{"type": "NetworkGraph", "protocol": "olsrv2", "nodes": [{}], "links": [{links}]}}"#,
            nodes.join(",")
        )
    };
    let expected = [
        "10.8.0.2 [10.8.0.2/32 10.8.2.0/24] [] None",
        "10.8.0.3 [10.8.0.3/32 10.8.3.0/24 10.8.4.4/32] [] None",
    ];
    let text = graph(&nodes);
    assert_eq!(show(&netjson::read(&text).unwrap()), expected);
    // OONF's response is a collection; a byte-order mark is harmless.
    let all = format!("\u{feff}{{\"type\": \"NetworkCollection\", \"collection\": [{text}]}}");
    assert_eq!(show(&netjson::read(&all).unwrap()), expected);
    // Nodes without an address are a message, not an empty list.
    let none = r#"{"type": "NetworkGraph", "nodes": [{"id": "a"}, {"id": "b"}], "links": []}"#;
    let error = netjson::read(none).unwrap_err().to_string();
    assert!(error.starts_with("2 nodes, none with an address; expected addresses"), "{error}");
    assert!(netjson::read(" \n").unwrap_err().to_string().contains("empty"));
}

/// Every reading counts nodes, addresses and homes, and why entries became none.
#[test]
fn readings_count_omitted_entries_by_cause() {
    let map = r#"{"type": "NetworkGraph", "nodes": [{"id": "10.0.0.2", "local_addresses": ["10.1.0.1", "x"]},
        {"id": "roof"}, {"id": "a\nb", "label": "c\u0007d"}, {"label": "no id"},
        {"id": "me", "properties": {"type": "local"}}, {"id": "10.7.0.0/24"}]}"#;
    assert_eq!(
        counts(&netjson::read(map).unwrap()),
        "3 nodes, 2 addresses, 1 home; left out: 2 that cannot be read, 1 with an unusable name, \
         1 without an address, 1 of this gateway, 1 of an unknown router"
    );
    assert_eq!(
        counts(&babel::read(BABEL).unwrap()),
        "2 nodes, 2 addresses, 1 home; left out: 1 without an address, 1 with a link-local, group or default address, \
         1 of this gateway, 1 with a better path in use"
    );
    let batman = batman::read(ORIGINATORS, CLIENTS).unwrap();
    assert_eq!((batman.nodes, batman.homes.len()), (2, 2));
    let neigh = r#"[{"dst":"10.0.0.2","lladdr":"02:fc:00:00:00:02","state":["REACHABLE"]},
        {"dst":"10.0.0.9","state":["FAILED"]}, {"dst":"10.0.0.8"}]"#;
    assert_eq!(
        counts(&kernel::neighbours(neigh, None).unwrap()),
        "1 node, 2 addresses, 1 home; left out: 1 that cannot be read, 1 that cannot be reached"
    );
    let routes = r#"[{"dst":"default","gateway":"10.0.0.9"}, {"dst":"10.0.0.0/24","protocol":"kernel"},
        {"dst":"10.3.0.0/24","gateway":"10.0.0.2"}, {"type":"blackhole","dst":"10.9.0.0/16"}]"#;
    let routes = kernel::routes(&[routes], "", RoutesBy::Origin).unwrap();
    assert_eq!(
        counts(&routes),
        "1 node, 1 address, 1 home; left out: 1 with a link-local, group or default address, 1 of this gateway, \
         1 that are not unicast routes"
    );
    let olsr = r#"{"routes": [{"destination": "10.0.0.2", "genmask": 32, "metric": 1}, {},
        {"destination": "10.0.0.3", "genmask": 32, "rtpMetricCost": 4294967295}]}"#;
    assert_eq!(
        counts(&olsr::read(olsr, "", "").unwrap()),
        "1 node, 1 address, 1 home; left out: 1 that cannot be read, 1 that cannot be reached"
    );
}

fn nothing() -> Discover {
    Discover { most: 10, ..Discover::default() }
}

/// Daemons are queried and understood over a real socket.
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
        babel: Some(Endpoint::Tcp(address)),
        ..nothing()
    };
    let discovery = fetch(&discover, "lo");
    server.join().unwrap();
    assert_eq!(discovery.found.len(), 1);
    assert_eq!(discovery.failed.len(), 1, "{:?}", discovery.failed);
    assert!(run("sh", &["-c", "exit 3"]).unwrap_err().to_string().contains("failed"));
    assert!(run("no-such-program", &[]).is_err());
}

proptest! {
    /// No text makes a reader panic, whole or truncated.
    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,200}", cut in 0..2000_usize) {
        let part = |t: &str| t.chars().take(cut).collect::<String>();
        for t in [text.clone(), part(BABEL), format!("[{text}]"), format!("{{\"routes\":[{text}]}}")] {
            let _ = netjson::read(&t);
            let _ = batman::read(&t, &t);
            let _ = olsr::read(&t, &t, &t);
            let _ = babel::read(&t);
            let _ = kernel::neighbours(&t, None);
            let _ = kernel::routes(&[&t], &t, RoutesBy::Origin);
        }
    }
}

fn paths(reading: &Reading) -> Vec<String> {
    let one = |(name, via): (&String, &NextNode)| {
        let exact = if via.exact { "" } else { "…" };
        format!("{name} > {}{exact}", via.node.as_deref().unwrap_or("gateway"))
    };
    reading.paths.iter().map(one).collect()
}

/// Sources show whole paths, first hops, or none; a path is never more than the source shows.
#[test]
fn sources_show_paths_as_far_as_they_know_them() {
    let batman = batman::read(ORIGINATORS, CLIENTS).unwrap();
    let expected = ["0a:dd:24:71:ec:57 > 76:3d:94:90:85:7a…", "76:3d:94:90:85:7a > gateway"];
    assert_eq!((paths(&batman), batman.whole), (expected.map(str::to_owned).to_vec(), false));
    let far = BABEL.replace("installed no id", "installed yes id");
    assert_eq!(
        paths(&babel::read(&far).unwrap()),
        ["02:fc:00:ff:fe:00:00:02 > gateway", "02:fc:00:ff:fe:00:00:03 > 02:fc:00:ff:fe:00:00:02…"]
    );
    // The router of this dump announces its network at a cost of 0.
    let text = include_str!("fixtures/babeld-1.12.1-dump.txt");
    assert_eq!(paths(&babel::read(text).unwrap()), ["a4:d5:e7:8b:17:8b:da:90 > gateway"]);
    // Redistributed at a cost, nothing shows which router the next hop is.
    let cost = text.replace("metric 96 refmetric 0", "metric 192 refmetric 96");
    assert_eq!(
        paths(&babel::read(&cost).unwrap()),
        ["a4:d5:e7:8b:17:8b:da:90 > fe80::cc:95ff:fe5a:2a8b…"]
    );
    let routes = r#"{"routes": [
      {"destination": "10.0.0.2", "genmask": 32, "gateway": "10.0.0.2", "metric": 1},
      {"destination": "10.0.0.3", "genmask": 32, "gateway": "10.1.0.2", "metric": 2},
      {"destination": "10.0.0.4", "genmask": 32, "gateway": "10.0.0.2", "metric": 3}]}"#;
    let mid = r#"{"mid": [{"main": "10.0.0.2", "aliases": ["10.1.0.2"]}]}"#;
    assert_eq!(
        paths(&olsr::read(routes, "", mid).unwrap()),
        ["10.0.0.2 > gateway", "10.0.0.3 > 10.0.0.2", "10.0.0.4 > 10.0.0.2…"]
    );
    let by_olsr = r#"[{"dst":"10.0.0.2","scope":"link","protocol":"olsr","flags":[]},
      {"dst":"10.0.0.3","gateway":"10.0.0.2","protocol":"olsr","flags":[]},
      {"dst":"10.0.0.7","gateway":"10.0.0.9","flags":[]}]"#;
    let routes = kernel::routes(&[by_olsr], "", RoutesBy::Origin).unwrap();
    // The last one is of no daemon: on layer 2 its router may be any number of hops away.
    assert_eq!(paths(&routes), ["10.0.0.2/32 > gateway", "10.0.0.3/32 > 10.0.0.2/32…"]);
    let neigh = r#"[{"dst":"10.0.0.2","lladdr":"02:fc:00:00:00:02","state":["REACHABLE"]}]"#;
    assert!(kernel::neighbours(neigh, None).unwrap().paths.is_empty());
    let path = |last: u8, hops: u8| MeshPath {
        destination: MacAddr([2, 0xfc, 0, 0, 0, last]),
        next_hop: MacAddr([2, 0xfc, 0, 0, 0, 2]),
        active: true,
        hops: Some(hops),
    };
    assert_eq!(
        paths(&kernel::paths(&[path(2, 1), path(3, 2)], &[])),
        ["02:fc:00:00:00:02 > gateway", "02:fc:00:00:00:03 > 02:fc:00:00:00:02"]
    );
}

/// The map's own router is the root; a relay without an address is part of the paths.
#[test]
fn a_map_with_its_router_shows_whole_paths() {
    let map = |root: &str, links: &str| {
        format!(
            r#"{{"type": "NetworkGraph", {root} "nodes": [
        {{"id": "10.0.0.1", "properties": {{"type": "ROOT"}}}},
        {{"id": "relay"}}, {{"id": "10.0.0.3", "label": "farm"}}, {{"id": "10.0.0.4"}}],
        "links": [{links}]}}"#
        )
    };
    let links = r#"{"source": "10.0.0.1", "target": "relay", "cost": 1.5},
        {"source": "10.0.0.3", "target": "relay", "cost": 1}, {"source": 7},
        {"source": "10.0.0.1", "target": "10.0.0.3", "cost": 4}, {"source": "10.0.0.3",
        "target": "10.0.0.4", "cost": "x"}, {"source": "10.0.0.4", "target": "nowhere"}"#;
    let of = |text: &str| netjson::read(text).unwrap();
    let local = of(&map("", links).replace("ROOT", "local"));
    assert_eq!(
        (paths(&local), local.whole),
        (vec!["farm > relay".into(), "relay > gateway".into()], true)
    );
    let author = of(&map(r#""router_id": "10.0.0.1","#, links));
    assert_eq!(paths(&author), ["farm > relay", "relay > gateway"]);
    assert!(of(&map("", links)).paths.is_empty(), "no node is the gateway");
}
