//! A gateway of invented homes on a virtual clock, for `ui/test/gateway.test.mjs`.
//!
//! Everything is the daemon's own but the data plane and the packets: the loop's messages, the sampling, the control,
//! the reader of TCP headers, the page and its server.

use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use fairmesh_linux::Direction;
use fairmesh_linux::capture::{Flags, Header};
use fairmesh_units::{Span, Time};

use super::tests::Bench;
use crate::daemon::endpoint::Endpoint;
use crate::daemon::http::Limits;
use crate::daemon::runtime::Caller;
use crate::gateway::page::Page;

/// Names that a page must show as text.
const HOSTILE: &str = r#"<b onmouseover=alert(1)>"' & ünïcode مرحبا"#;

fn map(folder: &std::path::Path) -> std::path::PathBuf {
    folder.join("map.json")
}

/// Writes a NetJSON map of this gateway: a tree of homes, with a relay between.
fn draw_map(folder: &std::path::Path, homes: usize) {
    let net = |i: usize| format!("10.{}.{}", i / 200, i % 200);
    let mut nodes = vec![
        serde_json::json!({ "id": "10.254.0.1", "properties": { "type": "local" } }),
        serde_json::json!({ "id": "tower" }),
    ];
    let mut links = vec![("10.254.0.1".to_owned(), "tower".to_owned())];
    for i in 0..homes {
        let id = format!("{}.1", net(i));
        let local = [format!("{}.0/24", net(i))];
        nodes.push(serde_json::json!({ "id": id, "local_addresses": local }));
        let next = match i {
            0..4 => "10.254.0.1".to_owned(),
            4 | 5 => "tower".to_owned(),
            _ => format!("{}.1", net((i - 6) / 2)),
        };
        links.push((next, id));
    }
    let link =
        |(a, b): &(String, String)| serde_json::json!({ "source": a, "target": b, "cost": 1.0 });
    let links: Vec<_> = links.iter().map(link).collect();
    let graph = serde_json::json!({ "type": "NetworkGraph", "nodes": nodes, "links": links });
    std::fs::write(map(folder), graph.to_string()).unwrap();
}

fn config(folder: &std::path::Path, homes: usize, mode: &str, token: Option<&str>) -> String {
    // The picture of docs/gateway-page.md has ordinary names.
    let hostile = std::env::var_os("FAIRMESH_PAGE_PLAIN").is_none();
    let at = folder.display();
    let discover = if map(folder).exists() {
        format!("[discover]\nnetjson = \"{}\"\n", map(folder).display())
    } else {
        String::new()
    };
    let token = token.map_or(String::new(), |t| format!("token_file = \"{t}\"\n"));
    let mut text = format!(
        "mode = \"{mode}\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"eth0\"\n\
         [control]\nuse = \"pfrc+bursts\"\n[[neighbour]]\nname = \"roof\"\ncapacity = \"24 Mbit/s\"\n\
         [signs]\nread = true\nprobe = false\n[page]\n{token}\
         {discover}[history]\nfolder = \"{at}/history\"\n[paths]\nstate = \"{at}/state\"\nsocket = \"{at}/socket\"\n[plan.basic]\ndown = \"2 Mbit/s\"\nup = \"1 Mbit/s\"\n"
    );
    for i in 0..homes {
        let name = match i {
            3 if hostile => toml_text(HOSTILE),
            _ => format!(
                "\"{} {}\"",
                ["Hill", "Mill", "Barn", "Brook", "Yard", "Farm"][i % 6],
                1 + i / 6
            ),
        };
        let plan = if i % 7 == 4 { "plan = \"basic\"\n" } else { "" };
        text += &format!(
            "[[subscriber]]\nname = {name}\nprefixes = [\"10.{}.{}.0/24\"]\n{plan}",
            i / 200,
            i % 200
        );
    }
    text
}

fn toml_text(text: &str) -> String {
    format!("'''{text}'''")
}

/// One connection of a home.
struct Connection {
    home: usize,
    seq: u32,
    opened: bool,
}

impl Connection {
    fn header(
        i: usize,
        direction: Direction,
        flags: Flags,
        seq: u32,
        len: u32,
        ack: u32,
    ) -> Header {
        Header {
            direction,
            near: ([10, (i / 200) as u8, (i % 200) as u8, 5].into(), 5000),
            far: ([192, 0, 2, 1].into(), 443),
            mac: None,
            seq,
            ack,
            len,
            flags,
            stamps: None,
            selective: None,
            bytes: 40 + len,
        }
    }

    /// Passes a segment and its acknowledgement; leaves data under way if the home asks for more.
    fn pass(&mut self, b: &mut Bench, now: Time, asks: bool) {
        let carried = b.carried(self.home);
        let home = self.home;
        let flags = |syn, ack| Flags { syn, ack, fin: false, rst: false };
        let reader = b.reader();
        let mut reader = reader.lock().unwrap();
        let trip = Span::from_millis(4 + (self.home as u64 * 37) % 90);
        if !self.opened {
            reader.see(now, &Connection::header(home, Direction::Up, flags(true, false), 99, 0, 0));
            reader.see(
                now,
                &Connection::header(home, Direction::Down, flags(true, true), 999, 0, 100),
            );
            reader.see(
                now + trip,
                &Connection::header(home, Direction::Up, flags(false, true), 100, 0, 1000),
            );
            (self.opened, self.seq) = (true, 1000);
        }
        // One segment stands for all that the class has carried.
        let down = |seq| Header {
            bytes: carried.max(1440),
            ..Connection::header(home, Direction::Down, flags(false, true), seq, 1400, 100)
        };
        reader.see(now, &down(self.seq));
        self.seq = self.seq.wrapping_add(1400);
        let up = Connection::header(home, Direction::Up, flags(false, true), 100, 0, self.seq);
        reader.see(now + trip, &up);
        if asks {
            reader.see(now + trip, &down(self.seq));
            self.seq = self.seq.wrapping_add(1400);
        }
    }
}

/// Serves the page until standard input ends.
#[test]
#[ignore = "a server for the tests of the page in a browser"]
fn serve_for_a_browser() {
    let of = |name: &str| std::env::var(format!("FAIRMESH_PAGE_{name}")).ok();
    let homes: usize = of("HOMES").map_or(30, |n| n.parse().unwrap());
    let mode = of("MODE").unwrap_or("apply".into());
    let folder = tempfile::tempdir().unwrap();
    if of("MAP").is_some() {
        draw_map(folder.path(), homes);
    }
    let text = config(folder.path(), homes, &mode, of("TOKEN").as_deref());
    let mut b = Bench::on(folder.path(), &text, Default::default());
    b.discover();
    let (settings, history) = b.page();
    let (give, take) = mpsc::channel();
    let site = Page::new(settings.unwrap(), history, Caller::to(give));
    let limits =
        Limits { connections: 128, streams: 64, bodies: 5, patience: Duration::from_secs(10) };
    let any = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let address = crate::daemon::http::serve("page", &any, site, limits).unwrap();
    // In mode `observe` the first homes take all that the mesh carries.
    b.carries(if mode == "apply" { 30e6 } else { 12e6 });
    let mut connections: Vec<Connection> =
        (0..homes).map(|home| Connection { home, seq: 0, opened: false }).collect();
    let asks = |i: usize| i.is_multiple_of(3);
    let loads = |i: usize, round: u64| match i % 3 {
        0 => 9e6,
        1 => 20_000.0 * (1.0 + ((i as u64 + round) % 5) as f64),
        _ => 0.0,
    };
    let pass = |b: &mut Bench, connections: &mut Vec<Connection>, round: u64| {
        let now = b.time();
        if round == 0 {
            b.reader().lock().unwrap().opened(now, true);
        }
        for connection in connections.iter_mut().filter(|t| loads(t.home, round) > 0.0) {
            connection.pass(b, now, asks(connection.home));
        }
        (0..homes).for_each(|i| b.demand(i, loads(i, round)));
        b.pass(Span::from_secs(1));
    };
    let before = of("SECONDS").map_or(200, |n| n.parse().unwrap());
    (0..before).for_each(|round| pass(&mut b, &mut connections, round));
    println!("page at http://{address}/");
    std::io::stdout().flush().unwrap();
    let end = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let mut round = before;
    while !end.is_finished() {
        let until = std::time::Instant::now() + Duration::from_millis(500);
        while let Some(left) = until.checked_duration_since(std::time::Instant::now()) {
            if let Ok(message) = take.recv_timeout(left) {
                b.send(message);
            }
        }
        pass(&mut b, &mut connections, round);
        round += 1;
    }
}
