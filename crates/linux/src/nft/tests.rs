use super::*;
use crate::shaper::{ClassId, Interface, Subscriber};

fn layout(subscribers: Vec<Subscriber>) -> Layout {
    let name = |n: &str| Interface::new(n).unwrap();
    Layout { subscribers, ..Layout::new(name("mesh0"), name("wan0")) }
}

fn rules<'a>(layout: &'a Layout, maps: &'a Maps) -> Rules<'a> {
    Rules {
        layout,
        maps,
        classifier: [Classifier::Priority, Classifier::MarkBpf],
        egress_hook: true,
        bypass: Handle::new(layout.handle, 0xfff1),
        place: Place { root: Handle::new(layout.handle, 0), grouped: false },
        indexes: [7, 8],
    }
}

fn subscriber(class: u16, prefixes: &[&str]) -> Subscriber {
    Subscriber::new(class, prefixes.iter().map(|p| p.parse().unwrap()))
}

#[test]
fn lengths_are_looked_up_longest_first() {
    let layout = layout(vec![
        subscriber(1, &["10.0.0.0/8", "10.1.0.0/16"]),
        subscriber(0x1f, &["10.1.2.3/32"]),
    ]);
    let maps = Maps::of(&layout.subscribers);
    let text = rules(&layout, &maps).install();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in\n{text}"));
    let whole = at("meta priority set ip daddr map @p4_32");
    let half = at("meta priority set ip daddr & 255.255.0.0 map @p4_16");
    let quarter = at("meta priority set ip daddr & 255.0.0.0 map @p4_8");
    assert!(whole < half && half < quarter);
    at("elements = { 10.1.2.3 : fa1:1f, }");
    // Upstream classes are carried in marks here.
    at("meta mark set ip saddr & 255.255.0.0 map @m4_16");
    at("elements = { 10.1.2.3 : 0xfa1001f, }");
}

/// An interface name may move to another interface, and limits end when the renewals stop.
#[test]
fn interfaces_are_numbers_that_run_out() {
    let mut subscriber = subscriber(1, &["10.0.0.1/32"]);
    subscriber.macs.push("02:00:00:00:00:01".parse().unwrap());
    let layout = layout(vec![subscriber]);
    let maps = Maps::of(&layout.subscribers);
    let text = rules(&layout, &maps).install();
    assert!(text.contains("oif != @alive accept\n  oif 7 goto down\n  oif 8 goto up"), "{text}");
    assert!(!text.contains("oifname"), "{text}");
    assert_eq!(text.matches("elements = { 7 timeout 10s, 8 timeout 10s }").count(), 2, "{text}");
    assert_eq!(text.matches("oif != @alive accept").count(), 2, "both tables");
}

/// Unclaimed packets belong to the subscriber `unmapped`.
///
/// Packets of the gateway itself belong to none.
#[test]
fn unclaimed_packets_have_the_configured_class() {
    let mut layout = layout(vec![subscriber(1, &["10.0.0.1/32"]), Subscriber::new(9, [])]);
    layout.subscribers[0].macs.push("02:00:00:00:00:01".parse().unwrap());
    let maps = Maps::of(&layout.subscribers);
    let text = rules(&layout, &maps).install();
    assert!(!text.contains("hook forward"), "{text}");
    assert!(text.contains("meta priority fa1:0-fa1:ffff accept"), "{text}");
    layout.unmapped = Some(ClassId(9));
    layout.check().unwrap();
    let text = rules(&layout, &maps).install();
    for want in [
        "hook forward priority mangle; policy accept;\n  oif != @alive accept\n",
        "  oif 7 meta priority set fa1:9\n  oif 8 meta mark set 0xfa10009\n",
        "meta priority { fa1:0-fa1:8, fa1:a-fa1:ffff } accept",
    ] {
        assert!(text.contains(want), "{want} in\n{text}");
    }
    layout.unmapped = Some(ClassId(8));
    assert!(layout.check().is_err());
}

#[test]
fn a_host_part_is_cut_off() {
    let maps = Maps::of(&[subscriber(1, &["10.1.2.3/16", "fd00::5/64"])]);
    let keys: Vec<String> = maps
        .each()
        .flat_map(|(m, e)| e.into_iter().map(move |(k, _)| format!("{m} {k}")))
        .collect();
    assert_eq!(keys, ["4_16 10.1.0.0", "6_64 fd00::"]);
    assert_eq!(MapName::V6(64).mask(), " & ffff:ffff:ffff:ffff::");
    assert_eq!(MapName::V4(0).mask(), " & 0.0.0.0");
}

#[test]
fn a_change_contains_only_the_differences() {
    let before = layout(vec![subscriber(1, &["10.0.0.1/32"]), subscriber(2, &["10.0.0.2/32"])]);
    let old = Maps::of(&before.subscribers);
    assert_eq!(rules(&before, &old).change(&old), "");
    // Subscriber 2 takes over an address of subscriber 1; subscriber 3 adds a new prefix length.
    let after = layout(vec![subscriber(2, &["10.0.0.1/32"]), subscriber(3, &["10.3.0.0/24"])]);
    let mut maps = Maps::of(&after.subscribers);
    maps.keep(&old);
    let text = rules(&after, &maps).change(&old);
    for want in [
        "add map inet fairmesh p4_24 { type ipv4_addr : classid; }",
        "add map inet fairmesh m4_24 { type ipv4_addr : mark; }",
        "delete element inet fairmesh p4_32 { 10.0.0.1, 10.0.0.2, }",
        "add element inet fairmesh p4_32 { 10.0.0.1 : fa1:2, }",
        "add element inet fairmesh p4_24 { 10.3.0.0 : fa1:3, }",
        "flush chain inet fairmesh down\n",
    ] {
        assert!(text.contains(want), "{want} in\n{text}");
    }
    // If no subscriber of a length is left, the empty map stays for the rule that uses it.
    let empty = layout(vec![]);
    let mut none = Maps::default();
    none.keep(&maps);
    let text = rules(&empty, &none).change(&maps);
    assert!(text.contains("delete element inet fairmesh p4_24 { 10.3.0.0, }"), "{text}");
    assert!(!text.contains("flush"), "{text}");
}

/// A program that classifies packets itself finds the same class as the rules.
#[test]
fn an_address_has_the_class_of_its_longest_prefix() {
    let mut all = vec![
        subscriber(1, &["10.0.0.0/8", "0.0.0.0/0", "fd00::/8"]),
        subscriber(2, &["10.1.0.0/16", "fd00:1::/32"]),
        subscriber(3, &["10.1.2.3/32", "fd00:1::7/128"]),
        Subscriber::new(4, []),
    ];
    let mac = "02:00:00:00:00:04".parse().unwrap();
    all[3].macs.push(mac);
    let maps = Maps::of(&all);
    for (address, class) in [
        ("10.1.2.3", Some(3)),
        ("10.1.2.4", Some(2)),
        ("10.2.0.0", Some(1)),
        ("192.0.2.1", Some(1)),
        ("fd00:1::7", Some(3)),
        ("fd00:1:0:1::7", Some(2)),
        ("fdff::", Some(1)),
        ("2001:db8::1", None),
    ] {
        assert_eq!(maps.class_of(address.parse().unwrap(), None), class, "{address}");
    }
    assert_eq!(maps.class_of("2001:db8::1".parse().unwrap(), Some(mac)), Some(4));
    assert_eq!(
        maps.class_of("10.1.2.4".parse().unwrap(), Some(mac)),
        Some(2),
        "addresses go first"
    );
}
