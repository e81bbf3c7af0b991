//! Present subscribers: numbers, addresses, unmapped traffic.

use super::*;

fn found(name: &str, prefixes: &[&str], macs: &[u8]) -> Subscriber {
    Subscriber {
        name: name.into(),
        prefixes: prefixes.iter().map(|p| p.parse().unwrap()).collect(),
        macs: macs.iter().map(|m| fairmesh_linux::MacAddr([2, 0, 0, 0, 0, *m])).collect(),
        plan: Plan::default(),
        hops: None,
    }
}

const DISCOVER: &str = "[discover]\nroutes = true\nmost = 3\nlinger = \"10 s\"";

#[test]
fn a_returning_subscriber_keeps_its_number() {
    let mut g = governor(&config(1, "fifo", DISCOVER));
    let class = |g: &Governor, name: &str| g.member(name).unwrap().class;
    g.discovered(at(1), vec![found("a", &["172.16.0.1/32"], &[])]);
    assert_eq!(class(&g, "a"), ClassId(2));
    assert!(g.layout_changed());
    g.laid_out();
    // Seen at 1, it stays for 10 s and no longer.
    g.discovered(at(11), vec![found("b", &["172.16.0.2/32"], &[])]);
    assert_eq!((class(&g, "a"), class(&g, "b")), (ClassId(2), ClassId(3)));
    g.discovered(at(12), vec![found("b", &["172.16.0.2/32"], &[])]);
    assert!(g.member("a").is_err());
    assert_eq!(g.journal.total("subscriber.gone"), 1);
    g.discovered(at(13), vec![found("c", &["172.16.0.3/32"], &[])]);
    g.discovered(at(14), vec![found("a", &["172.16.0.1/32"], &[])]);
    assert_eq!((class(&g, "c"), class(&g, "a")), (ClassId(4), ClassId(2)), "its old number");
    assert_eq!(g.members().iter().map(|m| m.class.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // Full: present subscribers stay.
    g.discovered(at(15), vec![found("d", &["172.16.0.4/32"], &[])]);
    assert!(g.member("d").is_err());
    assert_eq!(g.journal.total("discover.full"), 1);
    assert_eq!(g.journal.total("subscriber.new"), 4);
}

#[test]
fn a_reload_removes_unlisted_and_keeps_discovered_subscribers() {
    let mut g = governor(&config(2, "fifo", DISCOVER));
    g.discovered(at(1), vec![found("a", &["172.16.0.1/32"], &[])]);
    g.reload(&config(1, "fifo", DISCOVER), at(2)).unwrap();
    assert!(g.member("s0").is_ok() && g.member("a").is_ok());
    assert!(g.member("s1").is_err(), "no source has found it");
    // No subscriber is found any more.
    g.reload(&config(1, "fifo", ""), at(3)).unwrap();
    assert!(g.member("s0").is_ok() && g.member("a").is_err());
}

#[test]
fn the_control_is_notified_of_subscribers_and_fair_rates() {
    let with = |rate: &str, n| {
        let rates = format!("fair_down = \"{rate}\"\nfair_up = \"{rate}\"\n");
        let text = text(n, "static-flow", "")
            .replace("[[subscriber]]\n", &format!("[[subscriber]]\n{rates}"));
        Config::parse("test.toml", &text).unwrap()
    };
    let mut g = governor(&with("500 kbit/s", 1));
    g.reload(&with("400 kbit/s", 2), at(1)).unwrap();
    // Limits are sent with the bytes of headers.
    let meant = |g: &Governor| g.meant(g.member("s1").unwrap(), 0).0.unwrap().0;
    assert!((400_000..430_000).contains(&meant(&g)), "one that comes: {}", meant(&g));
    g.reload(&with("300 kbit/s", 2), at(2)).unwrap();
    assert!((300_000..325_000).contains(&meant(&g)), "one whose rates change: {}", meant(&g));
}

#[test]
fn prefixes_and_ethernet_addresses_have_one_owner() {
    let mut g = governor(&config(1, "fifo", DISCOVER));
    let addresses = |g: &Governor, name: &str| {
        let s = &g.member(name).unwrap().subscriber;
        (s.prefixes.len(), s.macs.len())
    };
    g.discovered(at(1), vec![found("a", &["172.16.0.1/32"], &[1, 2]), found("b", &[], &[3])]);
    assert_eq!((addresses(&g, "a"), addresses(&g, "b")), ((1, 2), (0, 1)));
    assert_eq!(g.journal.total("discover.taken"), 0);
    // An address of each kind belongs to another subscriber already.
    let thief = found("c", &["172.16.0.1/32", "172.16.0.9/32"], &[3, 4, 5]);
    g.discovered(at(2), vec![thief]);
    assert_eq!(addresses(&g, "c"), (1, 2));
    assert_eq!(g.journal.total("discover.taken"), 1);
    g.discovered(at(3), vec![found("c", &[], &[1])]);
    assert_eq!(addresses(&g, "c"), (1, 2), "nothing of its own is no news of it");
    // The layout has all of them, and a change of addresses changes the layout.
    g.laid_out();
    let layout = g.layout();
    assert_eq!(layout.subscribers.len(), 4);
    layout.check().unwrap();
    assert_eq!(layout.unmapped, None);
    g.discovered(at(4), vec![found("b", &[], &[3])]);
    assert!(!g.layout_changed());
    g.discovered(at(5), vec![found("b", &[], &[3, 6])]);
    assert!(g.layout_changed());
    assert_eq!(addresses(&g, "b"), (0, 2));
}

/// One subscriber shows 40,000 addresses, of which 1,024 are accepted.
///
/// 65,536 are accepted in total.
#[test]
fn addresses_are_taken_within_bounds() {
    let mut g = governor(&config(1, "fifo", "[discover]\nroutes = true\nmost = 1000"));
    let many = |i: u32| {
        let mut s = found(&format!("m{i:03}"), &[], &[]);
        let one = |n: u32| {
            IpNet::from(std::net::IpAddr::from((0xac10_0000 + i * 2000 + n).to_be_bytes()))
        };
        s.prefixes = (0..1000).map(one).collect();
        s.macs = (0..100_u8).map(|n| fairmesh_linux::MacAddr([2, 1, 0, 0, i as u8, n])).collect();
        s
    };
    g.discovered(at(1), (0..70).map(many).collect());
    let counts: Vec<usize> = g
        .members()
        .iter()
        .skip(1)
        .map(|m| m.subscriber.prefixes.len() + m.subscriber.macs.len())
        .collect();
    assert_eq!(counts, [1024; 64], "one after the other until all are taken");
    let first = &g.members()[1].subscriber;
    assert_eq!((first.prefixes.len(), first.macs.len()), (1000, 24));
    assert_eq!(g.journal.total("discover.addresses"), 70);
}

#[test]
fn unmapped_traffic_has_the_class_of_the_layout() {
    let text = text(2, "pfrc", "").replace("unmapped = \"pass\"", "unmapped = \"share\"");
    let config = Config::parse("t", &text).unwrap();
    let g = governor(&config);
    let layout = g.layout();
    layout.check().unwrap();
    assert_eq!(layout.unmapped, Some(ClassId(3)));
    assert_eq!(g.base_layout().unmapped, None);
    // Its share equals any other's.
    let of = |name: &str| g.meant(g.member(name).unwrap(), 0);
    assert_eq!(of("(unmapped)"), of("s0"));
    assert!(of("s0").0.is_some());
}

/// A router that returns with a new id, as babeld's random ones, keeps its history.
///
/// The history is its class, its bytes and its override.
#[test]
fn a_router_with_a_new_id_keeps_its_history() {
    let mut g = governor(&config(1, "fifo", DISCOVER));
    let nets = ["10.20.1.0/24", "fd00:1::/64"];
    g.discovered(at(1), vec![found("02:aa", &nets, &[]), found("b", &["10.20.2.0/24"], &[])]);
    let class = g.member("02:aa").unwrap().class;
    let value = Override { rate: Some(BitRate(1_000_000)), until: at(100) };
    g.set_override(at(2), "02:aa", &[Direction::Down], Some(value)).unwrap();
    g.laid_out();
    // IPv4 is announced first.
    for (second, shown) in [(3, &nets[..1]), (4, &nets[..])] {
        g.discovered(
            at(second),
            vec![found("02:bb", shown, &[]), found("b", &["10.20.2.0/24"], &[])],
        );
        let m = g.member("02:bb").unwrap();
        assert_eq!((m.class, m.directions[0].overridden), (class, Some(value)));
        assert!(g.member("02:aa").is_err());
    }
    assert_eq!(g.members().len(), 3);
    assert_eq!(g.journal.total("subscriber.renamed"), 1);
    assert_eq!((g.journal.total("subscriber.new"), g.journal.total("discover.taken")), (2, 0));
    // A router with an address of its own in addition is another one.
    g.discovered(at(5), vec![found("c", &["10.20.2.0/24", "10.20.9.0/24"], &[])]);
    assert!(g.member("b").is_ok() && g.member("c").is_ok());
    assert_eq!(g.journal.total("subscriber.renamed"), 1);
}

/// Two next hops that turn out to be one router are one home at once.
#[test]
fn two_names_of_one_home_become_one() {
    let mut g = governor(&config(1, "fifo", DISCOVER));
    g.discovered(
        at(1),
        vec![found("10.0.0.2", &["10.1.0.0/24"], &[]), found("fe80::2", &["fd00:1::/64"], &[])],
    );
    assert_eq!(g.members().len(), 3);
    g.discovered(at(2), vec![found("10.0.0.2", &["10.1.0.0/24", "fd00:1::/64"], &[])]);
    assert!(g.member("fe80::2").is_err());
    assert_eq!(g.member("fd00:1::9").unwrap().subscriber.name, "10.0.0.2");
    assert_eq!(g.journal.total("subscriber.merged"), 1);
    assert_eq!(g.journal.total("discover.taken"), 0);
}

/// Addresses of other subscribers are one event per change, not one per query and subscriber.
#[test]
fn taken_addresses_are_reported_once() {
    let mut g = governor(&config(1, "fifo", "[discover]\nroutes = true\nmost = 100"));
    let looks = |g: &mut Governor, n: u64, seconds: std::ops::Range<u64>| {
        for second in seconds {
            let all = (0..n).map(|i| found(&format!("r{i:02}"), &["172.16.0.1/32"], &[i as u8]));
            g.discovered(at(second), all.collect());
        }
    };
    looks(&mut g, 40, 1..60);
    assert_eq!(g.journal.total("discover.taken"), 1);
    assert_eq!(g.left_out.to_string(), "39 with addresses of other subscribers");
    let text = g.journal.recent().find(|n| n.code == "discover.taken").unwrap().text.clone();
    assert_eq!(text, "addresses of \"r01\" and 38 others already belong to other subscribers");
    looks(&mut g, 41, 60..70);
    assert_eq!(g.journal.total("discover.taken"), 2);
}

#[test]
fn a_subscriber_is_found_by_its_addresses() {
    let mut g = governor(&config(1, "fifo", DISCOVER));
    g.discovered(
        at(1),
        vec![
            found("02:00:00:ff:fe:00:00:07", &["10.20.0.0/16", "fd00:7::/64"], &[7]),
            found("inner", &["10.20.3.0/24"], &[]),
        ],
    );
    for (address, name) in [
        ("10.20.9.1", "02:00:00:ff:fe:00:00:07"),
        (" 10.20.3.1 ", "inner"),
        ("10.20.3.0/24", "inner"),
        ("fd00:7::99", "02:00:00:ff:fe:00:00:07"),
        ("02:00:00:00:00:07", "02:00:00:ff:fe:00:00:07"),
        ("inner", "inner"),
    ] {
        assert_eq!(g.member(address).unwrap().subscriber.name, name, "{address}");
    }
    let take_changes = g.member("192.0.2.1").unwrap_err().to_string();
    assert!(
        take_changes.ends_with("expected a name that `status` lists, or an address of one"),
        "{take_changes}"
    );
}

/// Rates of 1 and 2 Mbit/s at weights 1 and 2 are perfectly fair.
#[test]
fn jains_index_goes_by_weight() {
    let text = text(2, "fifo", "").replace(
        "[[subscriber]]\nname = \"s1\"",
        "[plan.double]\nweight = 2.0\n[[subscriber]]\nplan = \"double\"\nname = \"s1\"",
    );
    let mut g = governor(&Config::parse("t", &text).unwrap());
    for second in 1..4_u64 {
        let bytes = |rate: u64| second * rate / 8;
        let all = [
            counted(down(1), bytes(1_000_000), second * 100),
            counted(down(2), bytes(2_000_000), second * 200),
        ];
        let whole = bytes(3_000_000);
        g.sample(at(second), &all, [sent(whole, 0, 0), sent(whole, 0, 0)]);
    }
    let jain = crate::gateway::report::fairness(&g, 0).unwrap();
    assert!(jain > 0.999, "{jain}");
}

/// A bound far above the traffic under limits is reported once, and reset when more passes.
#[test]
fn a_bound_that_the_links_do_not_carry_is_contradicted_by_the_traffic() {
    let bound = BitRate(10_000_000);
    let mut carried = Carried::default();
    let mut looks = |rate: u64, n: u32| (0..n).filter(|_| carried.look(rate, bound)).count();
    assert_eq!(looks(3_000_000, COMPARED_SAMPLES - 1), 0, "too few looks");
    assert!(
        !carried.confirmed && carried.looks == COMPARED_SAMPLES - 1,
        "open from the first look on"
    );
    let mut looks = |rate: u64, n: u32| (0..n).filter(|_| carried.look(rate, bound)).count();
    assert_eq!(looks(4_000_000, 1), 1);
    assert_eq!(looks(4_000_000, 2 * COMPARED_SAMPLES), 0, "named once");
    assert_eq!(carried.contradicts, rate(4_000_000));
    let mut looks = |rate: u64, n: u32| (0..n).filter(|_| carried.look(rate, bound)).count();
    assert_eq!(looks(9_000_000, COMPARED_SAMPLES), 0);
    assert!(carried.contradicts.is_none() && carried.confirmed);
}

/// Traffic at the bound of `[[neighbour]]` is reported once, after several samples.
#[test]
fn the_bound_of_the_neighbours_is_named_when_it_binds() {
    let mut g = governor(&config(1, "fifo", ""));
    assert_eq!(g.bound(), rate(10_000_000));
    let look = |g: &mut Governor, second: u64, rate: u64| {
        let bytes = second * rate / 8;
        let all = [counted(down(1), bytes, second * 900)];
        g.sample(at(second), &all, [sent(bytes, 0, 0), sent(bytes, 0, 0)]);
    };
    for second in 1..20 {
        look(&mut g, second, 5_000_000);
    }
    assert_eq!(g.journal.total("neighbour.binds"), 0);
    assert!((0.4..0.6).contains(&g.bound_used().unwrap()));
    let mut g = governor(&config(1, "fifo", ""));
    for second in 1..20 {
        look(&mut g, second, 9_800_000);
        assert_eq!(g.journal.total("neighbour.binds"), u64::from(second > 5), "{second}");
    }
    let text = g.journal.recent().find(|n| n.code == "neighbour.binds").unwrap().text.clone();
    assert!(text.starts_with("traffic has reached 10 Mbit/s"), "{text}");
}
