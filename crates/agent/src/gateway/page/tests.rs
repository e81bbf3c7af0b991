//! The page with a daemon of invented answers.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::*;
use crate::daemon::http::Parsed;
use crate::gateway::report::{DirectionReport, Status as Report};
use crate::gateway::signs::DirectionSignsReport;

fn direction(name: &str, rate: u64) -> DirectionReport {
    let json = json!({
        "direction": name, "rate_bits_per_second": rate, "limit_bits_per_second": null,
        "meant_bits_per_second": null, "limited_by": "nothing", "ceiling_bits_per_second": null,
        "guarantee_bits_per_second": null, "bytes": 0, "drops": 0, "backlog_bytes": 0,
    });
    let mut report: DirectionReport = serde_json::from_value(json).unwrap();
    report.signs = Some(DirectionSignsReport {
        awaited_bytes: Some(0),
        repeated: 0,
        tcp_ratio: Some(1.0),
        round_trip_seconds: Some(0.025),
        round_trip_source: Some("tcp".into()),
        base_round_trip_seconds: Some(0.01),
        round_trip_age_seconds: Some(0.0),
        oldest_unanswered_seconds: None,
    });
    report
}

/// Returns a home with this rate downstream and no traffic upstream.
pub(super) fn home(name: &str, rate: u64) -> SubscriberReport {
    let json = json!({
        "name": name, "class": 1, "discovered": false, "weight": 1.0, "addresses": ["10.0.0.1/32"],
        "ways": [direction("down", rate), direction("up", 0)],
    });
    serde_json::from_value(json).unwrap()
}

/// Returns the state of a daemon in mode `apply` with these homes.
pub(super) fn status(homes: Vec<SubscriberReport>) -> Report {
    let json = json!({
        "schema": 1, "version": "0", "mode": "apply", "control": "pfrc", "phase": "running",
        "uptime_seconds": 100.0, "aggregate_down_ratio": 0.5, "fairness_ratio": [null, null],
        "signs": { "state": "reading", "packets": 0, "lost": 0, "connections": 0 },
        "subscribers": homes, "events": [], "recent": [],
    });
    serde_json::from_value(json).unwrap()
}

/// The calendar of the daemon, seconds since 1970.
const WALL: u64 = 1_800_000_000;

fn no_history() -> HistorySettings {
    HistorySettings { folder: "/nowhere".into(), size: 0, period: HistorySettings::PERIOD }
}

/// A daemon that answers `page` with a state, and records everything else.
#[derive(Clone, Default)]
struct Daemon {
    answer: Arc<Mutex<Value>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    fn publish(&self, status: &Report, sampled: f64, events: Value) {
        *self.answer.lock().unwrap() =
            json!({ "status": status, "events": events, "sampled": sampled, "wall": WALL });
    }

    fn caller(&self) -> Caller {
        let daemon = self.clone();
        Caller::of(move |message| match message {
            Ok((line, reply)) if line.contains("\"page\"") => {
                let answer = daemon.answer.lock().unwrap().clone();
                reply.try_send(Reply::Ok(answer)).unwrap();
            }
            Ok((line, reply)) => {
                let unknown = line.contains("nowhere");
                daemon.requests.lock().unwrap().push(line);
                let why = crate::daemon::socket::Refusal {
                    code: "unknown".into(),
                    message: "there is no subscriber \"nowhere\"".into(),
                };
                let value = serde_json::to_value(home("a", 1)).unwrap();
                let answer = if unknown { Reply::Refused(why) } else { Reply::Ok(value) };
                reply.try_send(answer).unwrap();
            }
            Err((code, _)) => daemon.requests.lock().unwrap().push(code.to_owned()),
        })
    }
}

fn settings(token: Option<&std::path::Path>) -> PageSettings {
    PageSettings {
        listen: Endpoint::Tcp("127.0.0.1:0".parse().unwrap()),
        hosts: vec!["mesh.example".into()],
        token_file: token.map(Into::into),
    }
}

fn request(text: &str) -> Request {
    match Request::parse(text.as_bytes()) {
        Parsed::Complete(request) => request,
        other => panic!("{other:?}"),
    }
}

/// Returns the response to a request, after as many looks as it takes.
fn ask(page: &mut Page, now: Instant, text: &str) -> String {
    let request = request(text);
    let mut pending = None;
    for _ in 0..10_000 {
        if page.wants(now, Demand { requests: 1, streams: 0 }) {
            page.fetch(now);
        }
        page.poll(now);
        match page.respond(now, &request, &mut pending) {
            // The history is read on a thread of its own.
            Answer::Wait => std::thread::sleep(Duration::from_millis(1)),
            Answer::Response(response) => return String::from_utf8(response.bytes()).unwrap(),
            Answer::Events(_) => return "events".into(),
        }
    }
    panic!("no response to {text}");
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:9743\r\n\r\n")
}

fn content(response: &str) -> Value {
    serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn started(homes: Vec<SubscriberReport>) -> (Daemon, Page, Instant) {
    let daemon = Daemon::default();
    daemon.publish(&status(homes), 10.0, json!([]));
    let page = Page::new(settings(None), no_history(), daemon.caller());
    (daemon, page, Instant::now())
}

#[test]
fn names_of_every_kind_are_data() {
    let name = "\"><script>alert(1)</script>\u{202e}\u{1}'\n";
    let (_, mut page, now) = started(vec![home(name, 5_000)]);
    let response = ask(&mut page, now, &get("/api/state"));
    assert!(response.contains("nosniff") && response.contains("application/json"), "{response}");
    assert_eq!(content(&response)["homes"][0]["name"], name);
    let why = format!("/api/why?home={}", "%3Cb%3E+%22");
    assert!(ask(&mut page, now, &get(&why)).contains("text/plain"));
}

/// DNS rebinding: a name of an attacker that leads to 127.0.0.1.
#[test]
fn another_host_is_refused() {
    let (_, mut page, now) = started(vec![home("a", 1)]);
    let with = |host: &str| format!("GET /api/state HTTP/1.1\r\n{host}\r\n");
    for host in [
        "Host: attacker.example\r\n",
        "Host: 127.0.0.1.attacker.example\r\n",
        "",
        "Host: a\r\nHost: localhost\r\n",
    ] {
        assert!(ask(&mut page, now, &with(host)).contains(" 421 "), "{host}");
    }
    for host in [
        "Host: localhost:1\r\n",
        "Host: [::1]:8080\r\n",
        "Host: 127.0.0.2\r\n",
        "Host: Mesh.example\r\n",
    ] {
        assert!(ask(&mut page, now, &with(host)).contains(" 200 "), "{host}");
    }
}

#[test]
fn streams_send_the_whole_once_and_then_the_changes() {
    let (daemon, mut page, now) = started(vec![home("a", 5_000), home("b", 6_000)]);
    assert_eq!(ask(&mut page, now, &get("/api/events")), "events");
    ask(&mut page, now, &get("/api/state"));
    let text = |event: Option<(u64, Body)>| {
        event.map(|(_, body)| String::from_utf8(body.bytes().to_vec()).unwrap())
    };
    let whole = text(page.event(None)).unwrap();
    assert!(
        whole.starts_with("id: 1\nevent: whole\ndata: {") && whole.ends_with("}\n\n"),
        "{whole}"
    );
    assert!(page.event(Some(1)).is_none());
    // One home changes, one goes, and there is an event.
    let events = json!([{ "at": 3.0, "code": "override.set", "level": "info", "text": "x" }]);
    daemon.publish(&status(vec![home("a", 7_000)]), 20.0, events);
    ask(&mut page, now + LIVE_INTERVAL, &get("/api/state"));
    let change = text(page.event(Some(1))).unwrap();
    let data: Value = serde_json::from_str(change.lines().last().unwrap_or_default().trim())
        .unwrap_or_else(|_| {
            let line = change.lines().find_map(|l| l.strip_prefix("data: ")).unwrap();
            serde_json::from_str(line).unwrap()
        });
    assert_eq!((&data["gone"], data["homes"].as_array().unwrap().len()), (&json!(["b"]), 1));
    assert_eq!(data["homes"][0]["ways"][0]["rate"], 7_000);
    assert_eq!(data["events"][0]["code"], "override.set");
    assert!(text(page.event(None)).unwrap().contains("event: whole"));
    // Nothing changes: no event, until the heartbeat.
    ask(&mut page, now + 2 * LIVE_INTERVAL, &get("/api/state"));
    assert!(page.event(Some(2)).is_none());
    ask(&mut page, now + LIVE_INTERVAL + HEARTBEAT, &get("/api/state"));
    assert!(page.event(Some(2)).is_some());
    // A reader that missed one gets the whole.
    assert!(text(page.event(Some(1))).unwrap().contains("event: whole"));
}

/// The daemon is asked less often without readers, and if a response takes long.
#[test]
fn looks_cost_the_loop_little() {
    let (_, mut page, now) = started(vec![home("a", 1)]);
    ask(&mut page, now, &get("/api/state"));
    let idle = Demand::default();
    let live = Demand { requests: 0, streams: 1 };
    assert!(!page.wants(now + LIVE_INTERVAL, idle) && page.wants(now + LIVE_INTERVAL, live));
    assert!(page.wants(now + IDLE_INTERVAL, idle));
    page.fetched = Some((now, Duration::from_secs(1)));
    assert!(!page.wants(now + Duration::from_secs(19), live));
    assert!(page.wants(now + Duration::from_secs(20), live));
}

fn post(token: &str, more: &str, body: &str) -> String {
    format!(
        "POST /api/override HTTP/1.1\r\nHost: localhost:9743\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn overrides_need_the_token_of_the_file() {
    use std::os::unix::fs::PermissionsExt;
    const TOKEN: &str = "correct horse battery";
    const BODY: &str = r#"{"home":"a","action":"pause","seconds":3600}"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.token");
    std::fs::write(&file, TOKEN).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = Daemon::default();
    daemon.publish(&status(vec![home("a", 1)]), 10.0, json!([]));
    let now = Instant::now();
    let mut shows = Page::new(settings(None), no_history(), daemon.caller());
    assert!(ask(&mut shows, now, &post(TOKEN, "", BODY)).contains(" 403 "));
    let mut page = Page::new(settings(Some(&file)), no_history(), daemon.caller());
    assert_eq!(content(&ask(&mut page, now, &get("/api/state")))["head"]["actions"], true);
    for (more, code) in [
        ("Origin: http://attacker.example\r\n", " 403 "),
        ("Origin: null\r\n", " 403 "),
        ("Sec-Fetch-Site: cross-site\r\n", " 403 "),
    ] {
        assert!(ask(&mut page, now, &post(TOKEN, more, BODY)).contains(code), "{more}");
    }
    let form = post(TOKEN, "", BODY).replace("application/json", "text/plain");
    assert!(ask(&mut page, now, &form).contains(" 415 "));
    assert!(daemon.requests.lock().unwrap().is_empty());
    let own = "Origin: http://localhost:9743\r\nSec-Fetch-Site: same-origin\r\n";
    assert!(ask(&mut page, now, &post(TOKEN, own, BODY)).contains(" 200 "));
    let boost = r#"{"home":"a","directions":["down"],"action":"boost","seconds":60}"#;
    assert!(ask(&mut page, now, &post(TOKEN, "", boost)).contains(" 200 "));
    let seen: Vec<Ask> = {
        let requests = daemon.requests.lock().unwrap();
        requests.iter().map(|line| Ask::read(line).unwrap()).collect()
    };
    let expected = |rate, directions: &[&str], seconds| Ask::Override {
        subscriber: "a".into(),
        directions: directions.iter().map(|d| (*d).to_owned()).collect(),
        rate,
        seconds,
    };
    let first = expected(OverrideRate::Limit(PAUSE_RATE), &[], 3600.0);
    assert_eq!(seen, [first, expected(OverrideRate::Unlimited, &["down"], 60.0)]);
    let nowhere = BODY.replace("\"a\"", "\"nowhere\"");
    assert!(ask(&mut page, now, &post(TOKEN, "", &nowhere)).contains("no subscriber"));
    for bad in ["{}", r#"{"home":"a","action":"limit"}"#, r#"{"home":"a","action":"pause","x":1}"#]
    {
        assert!(ask(&mut page, now, &post(TOKEN, "", bad)).contains(" 400 "), "{bad}");
    }
    for _ in 0..5 {
        assert!(ask(&mut page, now, &post("wrong", "", BODY)).contains(" 401 "));
    }
    assert!(ask(&mut page, now, &post(TOKEN, "", BODY)).contains(" 429 "));
    assert!(daemon.requests.lock().unwrap().contains(&"page.locked".to_owned()));
}

fn headline(homes: Vec<SubscriberReport>, change: impl Fn(&mut Report)) -> String {
    let mut status = status(homes);
    change(&mut status);
    let mut tracker = Tracker::default();
    (1..=6).for_each(|i| tracker.sample(&status, Some(f64::from(i))));
    let paths = Default::default();
    let report = PageReport { status, events: vec![], sampled: Some(6.0), wall: WALL, paths };
    let model = model::model(report, &tracker, false);
    model.head.headline.iter().map(|p| p.text.as_str()).collect()
}

fn asking(name: &str, rate: u64) -> SubscriberReport {
    let mut home = home(name, rate);
    home.directions[0].signs.as_mut().unwrap().awaited_bytes = Some(9_000);
    home
}

#[test]
fn the_answer_names_the_homes_that_starve() {
    let none = headline(vec![home("a", 9_000)], |_| {});
    assert_eq!(none, "No home starves. Limits are in force.");
    let one = headline(vec![asking("near", 9_000_000), asking("far", 90_000)], |s| {
        s.released_because = Some("observe".into());
    });
    assert_eq!(one, "1 of 2 homes starves: far. Limits are computed and not set (observe).");
    let mut homes: Vec<_> = (0..6).map(|i| asking(&format!("far {i}"), 9_000)).collect();
    homes.push(asking("near", 40_000_000));
    homes.push(asking("middle", 2_000_000));
    let many = headline(homes, |s| s.released_because = Some("interface.lost".into()));
    assert_eq!(
        many,
        "6 of 8 homes starve: far 0, far 1, far 2 and 3 more. 1 home receives less than half of its share. \
         No limits are set (interface.lost)."
    );
    assert_eq!(headline(vec![], |_| {}), "No home is known.");
}

#[test]
fn the_reason_names_the_bottleneck() {
    let mut held = asking("held", 600_000);
    let mut weak = asking("weak", 50_000);
    for (home, limit) in [(&mut held, 600_000), (&mut weak, 600_000)] {
        let w = &mut home.directions[0];
        (w.limited_by, w.meant_bits_per_second) = ("control".into(), Some(limit));
        w.limit_bits_per_second = Some(limit);
    }
    let status = status(vec![held, weak, home("light", 20_000), asking("free", 20_000)]);
    let mut tracker = Tracker::default();
    (1..=6).for_each(|i| tracker.sample(&status, Some(f64::from(i))));
    let paths = Default::default();
    let report = PageReport { status, events: vec![], sampled: Some(6.0), wall: WALL, paths };
    let model = model::model(report, &tracker, false);
    let of = |i: usize| (model.homes[i].bound, model.homes[i].reason.as_str());
    assert_eq!(
        of(0),
        (
            "control",
            "Uses its full share (600 kbit/s); a higher limit would take from other homes."
        )
    );
    assert_eq!(of(1).0, "radio");
    assert!(of(1).1.contains("is not the cause"), "{}", of(1).1);
    assert_eq!(of(2), ("none", "Carries what it asks for."));
    assert_eq!(of(3).0, "mesh");
    assert!(of(3).1.contains("No limit is in force"), "{}", of(3).1);
    let facts: Vec<&str> = model.head.facts.iter().map(|f| f.title).collect();
    assert_eq!(facts, ["Now", "Attention", "Delay", "Bound"]);
}

/// The page is one small file that requests nothing but the data of this gateway.
#[test]
fn the_page_is_one_file_under_a_policy() {
    let (_, mut page, now) = started(vec![home("a", 1)]);
    let response = ask(&mut page, now, &get("/"));
    assert!(response.contains("frame-ancestors 'none'") && response.contains("text/html"));
    assert!(PAGE.contains("content=\"default-src 'none'; script-src 'sha256-"));
    assert!(PAGE.contains("connect-src 'self'") && !PAGE.contains("unsafe"));
    // Namespaces are names, not addresses.
    let (program, _) = PAGE.split_once("<!-- This page contains:").unwrap();
    let elsewhere = program.replace("http://www.w3.org/", "");
    assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
    assert!(PAGE.len() <= 200_000, "{} bytes", PAGE.len());
    assert!(ask(&mut page, now, &get("/nothing")).contains(" 404 "));
}

/// Writes a ring of an earlier run: `minutes` records, of which the last one ends at `WALL`.
fn recorded(folder: &std::path::Path, minutes: u64, homes: &[&str]) -> HistorySettings {
    use crate::gateway::history::{
        DirectionUse, HistoryWriter, HomeUse, MeshUse, Period, Stamp, Usage,
    };
    let settings = HistorySettings {
        folder: folder.join("history"),
        size: 8 << 20,
        period: HistorySettings::PERIOD,
    };
    let mut writer = HistoryWriter::direct(&settings);
    for i in 1..=minutes {
        let usage = Usage {
            bytes: 750_000,
            limit: Some(200_000),
            limited: 60,
            starved: if i > minutes - 10 { 60 } else { 0 },
            ..Usage::default()
        };
        let directions = [DirectionUse { usage, reason: String::new() }, DirectionUse::default()];
        let home =
            |name: &&str| HomeUse { name: (*name).to_owned(), directions: directions.clone() };
        let wall = WALL - 60 * (minutes - i);
        writer.store(Period {
            stamp: Stamp { run: 1, up: 60 * i, wall, first: 0, last: 0 },
            end: wall,
            mesh: MeshUse { seconds: 60, ..MeshUse::default() },
            homes: homes.iter().map(home).collect(),
        });
    }
    assert_eq!(writer.report().written, minutes);
    settings
}

/// A page of a daemon that has just started shows the hour and the week before it.
#[test]
fn the_last_hour_and_week_come_from_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = "\"><b>\n\u{1}/..'";
    let history = recorded(folder.path(), 180, &["a", hostile]);
    let daemon = Daemon::default();
    daemon.publish(&status(vec![home("a", 1)]), 10.0, json!([]));
    let mut page = Page::new(settings(None), history, daemon.caller());
    let now = Instant::now();
    let all = content(&ask(&mut page, now, &get("/api/history")));
    assert_eq!((&all["step"], &all["more"]), (&json!(60), &json!(false)));
    let sum = |v: &Value| v.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    for name in ["a", hostile] {
        let curve = &all["homes"][name];
        assert_eq!(curve["rate"].as_array().unwrap().len(), 61);
        assert_eq!((&curve["rate"][0], &curve["rate"][60]), (&json!(100), &Value::Null));
        assert_eq!(sum(&curve["starved"]), 600);
    }
    assert_eq!(all["idle"][0], 0);
    let one = content(&ask(&mut page, now, &get("/api/history?home=%22%3E%3Cb%3E%0A%01/..'")));
    let (down, up) = (&one["hour"]["ways"][0], &one["hour"]["ways"][1]);
    assert_eq!((&down["limit"][7], &up["rate"][7]), (&json!(200), &json!(0)));
    assert_eq!(one["hour"]["end"], WALL / 60 * 60 + 60);
    let week = &one["week"]["ways"][0];
    assert_eq!((one["week"]["step"].as_u64(), sum(&week["starved"])), (Some(3600), 600));
    let rates = week["rate"].as_array().unwrap();
    assert_eq!(rates.len(), 169);
    assert!(rates[..165].iter().all(Value::is_null) && rates[166] == json!(100));
    let idle = content(&ask(&mut page, now, &get("/api/history?home=idle")));
    assert_eq!(idle["hour"]["ways"][0]["rate"][0], 0);
    assert!(ask(&mut page, now, &get("/api/history?x=1")).contains(" 400 "));
    assert!(ask(&mut page, now, &get("/api/history?home=%ff")).contains(" 400 "));
    // The same text for all readers, until the next reading; names of 10 kB are no more than names.
    let long = ask(&mut page, now, &get(&format!("/api/history?home={}", "x%0A".repeat(1_500))));
    assert!(long.contains(" 200 "), "{}", &long[..60]);
    let request = request(&get("/api/history"));
    let mut body = || match page.respond(now, &request, &mut None) {
        Answer::Response(response) => response.body().shared().unwrap().clone(),
        other => panic!("{other:?}"),
    };
    let first = body();
    assert!((0..1_000).all(|_| std::sync::Arc::ptr_eq(&first, &body())), "a thousand browsers");
}

#[test]
fn a_history_that_is_absent_or_unreadable_is_reported() {
    let (_, mut page, now) = started(vec![home("a", 1)]);
    let none = ask(&mut page, now, &get("/api/history"));
    assert!(none.contains(" 404 ") && none.contains("history.size"), "{none}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let daemon = Daemon::default();
    daemon.publish(&status(vec![]), 10.0, json!([]));
    let with = |name: &str| HistorySettings {
        folder: folder.path().join(name),
        size: 1 << 20,
        period: HistorySettings::PERIOD,
    };
    let mut unreadable = Page::new(settings(None), with("file"), daemon.caller());
    let response = ask(&mut unreadable, now, &get("/api/history"));
    assert!(response.contains(" 503 ") && response.contains("/file: "), "{response}");
    // Before the first record there is no folder.
    let mut new = Page::new(settings(None), with("later"), daemon.caller());
    assert_eq!(content(&ask(&mut new, now, &get("/api/history")))["homes"], json!({}));
}

/// Homes and relays have their next nodes, and a sentence states the extent.
#[test]
fn paths_are_shown_as_far_as_they_are_known() {
    use crate::gateway::sources::{NextNode, Paths};
    let show = |paths: Paths| {
        let status = status(vec![home("far", 1), home("roof", 1), home("alone", 1)]);
        let report = PageReport { status, events: vec![], sampled: None, wall: WALL, paths };
        let model = model::model(report, &Tracker::default(), false);
        let vias: Vec<Value> = model.homes.iter().map(|h| json!(h)["via"].clone()).collect();
        (vias, json!(model.head.relays), model.head.paths)
    };
    let (vias, relays, text) = show(Paths::default());
    assert_eq!((vias, relays), (vec![Value::Null; 3], json!([])));
    assert_eq!(
        text,
        "distance is the round trip; no source shows next hops, so paths are not known"
    );
    let via = |node: &str, exact| NextNode { node: Some(node.to_owned()), exact };
    let nodes = [
        ("far", via("tower", true)),
        ("tower", via("roof", true)),
        ("roof", NextNode::DIRECT),
        ("unused", via("roof", true)),
    ];
    let nodes: std::collections::BTreeMap<String, NextNode> =
        nodes.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
    let whole = Paths { nodes: nodes.clone(), sources: [vec!["map.json".into()], vec![]] };
    let (vias, relays, text) = show(whole);
    assert_eq!(vias, [json!(["tower", true]), json!([null, true]), Value::Null]);
    assert_eq!(relays, json!([["tower", "roof", true]]), "only those that lead to a home");
    assert_eq!(
        text,
        "distance is the round trip; lines are paths of 2 of 3 homes: the cheapest by map.json"
    );
    let hops = Paths { nodes, sources: [vec![], vec!["batctl".into(), "babel [::1]:1".into()]] };
    let (_, _, text) = show(hops);
    assert_eq!(
        text,
        "distance is the round trip; lines are paths of 2 of 3 homes: the first router by batctl, \
         babel [::1]:1 (dashed: others may be between)"
    );
}
