//! The bodies of the fuzz targets, so that stable Rust can run them too (tests/smoke.rs).
//!
//! `cargo +nightly fuzz run TARGET --features libfuzzer` fuzzes with coverage; see README.md.

mod store;
mod uci;
mod untrusted;

pub use store::store;
pub use uci::uci;

use std::net::SocketAddr;

use fairmesh_agent::daemon::http;
use fairmesh_agent::gateway::config::Config;
use fairmesh_agent::gateway::governor::Override;
use fairmesh_agent::gateway::kept::SavedState;
use fairmesh_agent::gateway::peers::{Exchange, MAX_DATAGRAM};
use fairmesh_agent::gateway::request::Request;
use fairmesh_agent::gateway::signs::{self, Reader};
use fairmesh_agent::gateway::sources::{self, Form};
use fairmesh_agent::key::Key;
use fairmesh_control::{
    Action, Actions, Class, Event, FlowCounters, FlowHere, Message, Neighbour, Offers, Place,
    Registry, Setting, Site,
};
use fairmesh_linux::capture::{FirstHeader, Header, Packet};
use fairmesh_linux::echo::EchoReply;
use fairmesh_linux::link::{Link, route};
use fairmesh_linux::nft::{counters, foreign, run};
use fairmesh_linux::tc::htb;
use fairmesh_linux::tc::stats::{Dumped, Stats};
use fairmesh_linux::{Direction, Interface, Layout, netlink, nl80211};
use fairmesh_scenario::{
    Draft, Format, ImportOptions, Metric, PhyName, Scenario, ScenarioError, draft_from_toml,
    format_of, parse,
};
use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

/// Parses any bytes as a scenario file: as TOML unless they look like JSON.
pub fn toml(bytes: &[u8]) {
    let result = parse("fuzz.toml", bytes, &ImportOptions::default());
    check(result);
    if let Ok((Format::Toml, text)) = format_of(bytes)
        && let Ok(draft) = draft_from_toml("fuzz.toml", text)
    {
        rebuild(&draft);
    }
}

/// Parses any bytes as a map; the first byte selects the options.
pub fn map(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let options = ImportOptions {
        metric: [None, Some(Metric::Etx), Some(Metric::Tq255), Some(Metric::Babel)]
            [usize::from(choice & 3)],
        graph: (choice & 64 != 0).then(|| "1".to_owned()),
        sense_hops: 1 + u32::from(choice >> 2 & 1),
        flows: (choice & 8 != 0).then_some(usize::from(choice >> 4)),
        phy: [None, Some(PhyName::G), Some(PhyName::Ac), Some(PhyName::Ax)]
            [usize::from(choice >> 4 & 3)],
        ..ImportOptions::default()
    };
    check(parse("fuzz.json", bytes, &options));
}

/// Parses input of a gateway from outside; the first byte selects the parser.
pub fn gateway(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let form = match which {
        b'c' => return configuration(&text),
        b'w' => {
            let _ = (nl80211::read_family(bytes), nl80211::read_survey(bytes));
            let _ = (nl80211::read_station(bytes), Stats::read(bytes), Dumped::read(bytes));
            let _ = (Link::read(bytes), htb::Class::read(bytes), htb::Qdisc::read(bytes));
            let _ = (counters::read(bytes, "fairmesh"), netlink::count(bytes));
            let _ = (foreign::read(bytes), route::answer(bytes));
            return;
        }
        b'p' => return peer(bytes),
        b'd' => return datagram(bytes),
        b't' => return headers(bytes),
        b's' => return state(&text),
        b'q' => return request(&text),
        b'l' => return untrusted::libreqos(&text),
        b'm' => return untrusted::router(bytes),
        b'y' => return untrusted::history(bytes),
        b'h' => {
            if let http::Parsed::Complete(request) = http::Request::parse(bytes) {
                assert!(request.body.len() <= bytes.len());
            }
            return;
        }
        b'f' => {
            let entries = run::listed(bytes).unwrap_or_default();
            let _ = entries.iter().filter_map(run::flowtable).count();
            return;
        }
        b'n' => Form::NetJson,
        b'b' => Form::Batman,
        b'o' => Form::Olsr,
        b'r' => Form::Routes,
        b'k' => Form::Neighbours,
        _ => Form::Babel,
    };
    // Several texts of a form are separated by form feeds.
    let mut texts = text.split('\x0c');
    let text = texts.next().unwrap_or_default();
    let more: Vec<&str> = texts.collect();
    for node in sources::read(form, text, &more).unwrap_or_default().homes {
        assert!(!node.name.trim().is_empty() && !node.name.chars().any(char::is_control));
        assert!(!node.prefixes.is_empty() || !node.macs.is_empty());
        assert!(node.prefixes.iter().all(|p| p.prefix_len() > 0 && !p.addr().is_loopback()));
        assert!(node.macs.iter().all(|m| m.is_unicast()));
    }
}

/// Loads the state that is kept over a restart.
///
/// No value of a file leads to a state that could not have been set.
fn state(text: &str) {
    let Ok(kept) = SavedState::read(text) else { return };
    assert!(kept.layout.is_none_or(|l| l.check().is_ok()));
    for (now, wall) in [(0, 0), (1, 1_800_000_000), (u64::MAX / 4, u64::MAX)] {
        let now = Time::from_nanos(now);
        for (_, value) in kept.overrides.iter().filter_map(|o| o.read(now, wall)) {
            assert!(value.until.since(now) <= Override::LONGEST);
            assert!(value.rate.is_none_or(|r| Override::RATES.contains(&r.0)));
        }
    }
}

/// Handles a message of another gateway.
///
/// The first byte is the sender's number. With 64 added, the message goes to gateway 0, which
/// leads, otherwise to gateway 1. The message is handled twice, each time with a check: only own
/// flows are limited, and none to zero.
fn peer(bytes: &[u8]) {
    let Some((&from, body)) = bytes.split_first() else { return };
    let site = Site::new().with_gateway(true).with_hops(Some(0));
    let flow = |f| FlowHere::new(FlowId(f), Place::Forwarder, 1460, 1500);
    let link = Neighbour::new(NodeId(9), BitRate(1_000_000), BitRate(900_000));
    let (own, from) = (u32::from(from & 64 == 0), u32::from(from & 63));
    let setting = Setting::new(NodeId(own), site, Stream::new(1, "fuzz"))
        .with_flows([0, 1].map(flow))
        .with_neighbours([link]);
    let mechanism = Registry::standard().lookup("rtt+peers").expect("it is registered");
    let started = mechanism.start(setting, &Offers::everything("fuzz"));
    let mut control = started.expect("a right setting").expect("it runs at gateways").control;
    let mut actions = Actions::new();
    for second in 0..8 {
        let now = Time::ZERO + Span::from_secs(second);
        if second % 4 == 1 {
            let message = Message { from: NodeId(from), body };
            control.on(now, &Event::Message(message), &mut actions);
        }
        for flow in [0, 1].map(FlowId) {
            let counters = FlowCounters { flow, bytes: second * 9000, packets: second * 6 };
            control.on(now, &Event::FlowCounters(counters), &mut actions);
        }
        control.on(now, &Event::Deadline, &mut actions);
    }
    for action in actions.iter() {
        if let Action::SetRate { class, rate } = action {
            assert!(matches!(class, Class::Flow(FlowId(0 | 1))), "{class}");
            assert!(rate.is_none_or(|r| r.0 > 0));
        }
    }
}

/// Handles datagrams to a gateway with peers.
///
/// None is accepted without the key, or without a valid challenge.
///
/// The first byte selects if the datagram has a correct tag.
fn datagram(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let address = |n| SocketAddr::from(([192, 0, 2, n], 5247));
    let mut n = 1 << 40;
    let random = move || {
        n += 1;
        n
    };
    let mut exchange =
        Exchange::new(2, Key::new([7; 32]), &[address(1), address(3)], Box::new(random));
    let mut tagged = bytes.to_vec();
    if choice & 1 != 0 {
        tagged.truncate(MAX_DATAGRAM - 32);
        let tag = Key::new([7; 32]).tag(&tagged);
        tagged.extend_from_slice(&tag);
    }
    let mut out = Vec::new();
    for second in 0..4 {
        let now = Time::ZERO + Span::from_secs(second);
        let from = address(choice >> 1 & 3);
        assert!(exchange.receive(now, from, &tagged).is_err(), "accepted");
        exchange.send_message(now, b"news", &mut out);
        exchange.keep_alive(now, &mut out);
        let _ = exchange.changes(now);
    }
    assert!(out.iter().all(|d| d.2.len() <= MAX_DATAGRAM) && out.len() <= 20);
    assert_eq!(exchange.rejected().map(|r| r.1).sum::<u64>(), 4);
}

/// Handles packets on the mesh interface.
///
/// A header never exceeds its packet, and memory is bounded.
///
/// The first byte selects the first header and the direction; a length precedes each packet.
fn headers(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let begins = if choice & 1 == 0 { FirstHeader::Ethernet } else { FirstHeader::Ip };
    let mut layout = Layout::new(interface("mesh0"), interface("wan0"));
    let all = ["0.0.0.0/0", "::/0"].map(|p| p.parse().expect("a prefix"));
    layout.subscribers.push(fairmesh_linux::Subscriber::new(1, all));
    let mut reader = Reader::default();
    reader.settle(&layout);
    reader.opened(Time::ZERO, true);
    let mut n = 0;
    while let Some((&length, more)) = rest.split_first() {
        let (packet, more) = more.split_at(usize::from(length).min(more.len()));
        (rest, n) = (more, n + 1);
        let direction = Direction::BOTH[usize::from(choice >> 1 & 1) ^ (n & 1)];
        let wire = u32::from(length) * (1 + u32::from(choice >> 2));
        let now = Time::ZERO + Span::from_millis(n as u64 * 100);
        let read = Packet::read(packet, begins, direction, wire);
        let header = Header::read(packet, begins, direction, wire);
        match read {
            Some(Packet::Tcp(read)) => {
                assert!(header == Some(read) && read.len <= read.bytes && read.bytes <= wire);
                reader.see(now, &read);
            }
            Some(Packet::Udp(datagram)) => reader.see_datagram(now, &datagram),
            None => assert_eq!(header, None),
        }
        if let Some(answer) = EchoReply::read([10, 0, 0, 1].into(), packet, 7) {
            reader.probe_answered(now, answer.sequence);
        }
        reader.want_probe(now, 1, [u64::from(length), 0]);
        let _ = reader.poll_probe(now);
        let oldest = reader.read(now, 1).map_or([None; 2], |r| r.map(|r| r.oldest));
        let _ = reader.stalled(now, 1, oldest);
        reader.tidy(now);
        let kept = reader.report().connections;
        assert!(kept <= signs::MAX_PER_HOME, "{kept} connections");
        let _ = reader.read(now, 1);
    }
}

fn interface(name: &str) -> Interface {
    Interface::new(name).expect("a name")
}

fn request(text: &str) {
    if let Err(e) = Request::read(text) {
        assert!(e.to_string().starts_with("not a request"), "{e}");
    }
}

fn configuration(text: &str) {
    match Config::parse("fuzz.toml", text) {
        Ok(c) => assert!(c.subscribers.iter().all(|s| s.plan.weight > 0.0)),
        Err(e) => {
            let line = e.to_string();
            assert!(line.starts_with("fuzz.toml"), "no file name: {line}");
            assert!(!line.chars().any(char::is_control), "more than one line: {line:?}");
        }
    }
}

/// Checks the properties of every result.
fn check(result: Result<Scenario, ScenarioError>) {
    match result {
        Err(e) => {
            let line = e.to_string();
            assert!(line.starts_with("fuzz."), "no file name: {line}");
            assert!(!line.chars().any(char::is_control), "more than one line: {line:?}");
            assert!(line.contains("; expected "), "no expectation: {line}");
        }
        Ok(s) => {
            let nodes = s.nodes().len() as u32;
            assert!(s.warmup() < s.duration() && !s.flows().is_empty());
            assert!(s.sensed_pairs().is_sorted_by_key(|h| (h.from, h.to)));
            assert!(s.links().is_sorted_by_key(|l| (l.from, l.to)));
            assert!(
                s.sensed_pairs().iter().all(|h| h.from < nodes && h.to < nodes && h.from != h.to)
            );
            assert!(s.links().iter().all(|l| l.delivery.0 > 0.0 && l.delivery.0 <= 1.0));
            assert!(s.queue().discipline.build().is_ok());
            for f in s.flows() {
                assert_eq!((f.path.first(), f.path.last()), (Some(&f.from), Some(&f.to)));
                assert!(f.weight > 0.0 && f.weight.is_finite() && f.from != f.to);
                assert!(f.traffic.validate().is_ok());
                for hop in f.path.windows(2) {
                    let wire = |a, b| s.wires().iter().any(|w| (w.a, w.b) == (a, b));
                    let wired = wire(hop[0], hop[1]) || wire(hop[1], hop[0]);
                    let both = s.link(hop[0], hop[1]).and(s.link(hop[1], hop[0]));
                    assert!(wired || both.is_some(), "{hop:?} is neither wire nor link");
                }
            }
        }
    }
}

/// Checks that two builds give equal worlds.
fn rebuild(draft: &Draft) {
    match (draft.build(), draft.build()) {
        (Ok(a), Ok(b)) => {
            assert_eq!(
                (a.nodes(), a.links(), a.wires(), a.flows()),
                (b.nodes(), b.links(), b.wires(), b.flows())
            );
        }
        (a, b) => assert_eq!(a.err(), b.err()),
    }
}
