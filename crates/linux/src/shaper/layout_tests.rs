use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn layout() -> Layout {
    let name = |n: &str| Interface::new(n).unwrap();
    let mut layout = Layout::new(name("mesh0"), name("wan0"));
    layout.subscribers = vec![
        Subscriber::new(1, [net("10.0.1.0/24"), net("fd00:1::/64")]),
        Subscriber::new(2, [net("10.0.2.0/24")]),
    ];
    layout.subscribers[1].macs = vec!["02:00:00:00:00:02".parse().unwrap()];
    layout
}

fn refused(change: impl FnOnce(&mut Layout)) -> String {
    let mut layout = layout();
    assert_eq!(layout.check(), Ok(()));
    change(&mut layout);
    layout.check().unwrap_err().to_string()
}

/// A packet of 1514 bytes takes 12 ms at 1 Mbit/s.
#[test]
fn a_fifo_is_as_long_as_its_limit_allows() {
    let name = |n: &str| Interface::new(n).unwrap();
    let layout = Layout { delay_ms: 100, ..Layout::new(name("m"), name("w")) };
    let (packets, bytes) = (LeafKind::Pfifo, LeafKind::Bfifo);
    let at = |kind, kbit: u64| layout.queue_at(kind, Some(BitRate(kbit * 1000)));
    assert_eq!([8, 300, 600, 1_000, 5_000].map(|k| at(packets, k)), [5, 5, 5, 8, 41]);
    assert_eq!([8, 300, 600, 1_000].map(|k| at(bytes, k)), [7570, 7570, 7570, 12_500]);
    let most = [packets, bytes].map(|kind| (at(kind, 100_000), layout.queue_at(kind, None)));
    assert_eq!(most, [(100, 100), (151_400, 151_400)], "never above the configured length");
    let short = Layout { queue: 2, ..layout.clone() };
    let low = Some(BitRate(300_000));
    assert_eq!([packets, bytes].map(|kind| short.queue_at(kind, low)), [2, 3028]);
    let fixed = Layout { delay_ms: 0, ..layout };
    assert_eq!([packets, bytes].map(|kind| fixed.queue_at(kind, low)), [100, 151_400]);
}

#[test]
fn every_wrong_field_is_named() {
    type Change = Box<dyn FnOnce(&mut Layout)>;
    let cases: [(&str, Change); 12] = [
        ("both `mesh0`", Box::new(|l| l.wired = l.mesh.clone())),
        ("`fair mesh` is not a table name", Box::new(|l| l.table = "fair mesh".into())),
        ("`` is not a table name", Box::new(|l| l.table = String::new())),
        ("handle 0x8001", Box::new(|l| l.handle = 0x8001)),
        ("handle 0x0", Box::new(|l| l.handle = 0)),
        ("a queue of 1 packets", Box::new(|l| l.queue = 1)),
        ("class 0; expected 1 to 64000", Box::new(|l| l.subscribers[0].class = ClassId(0))),
        ("class 65001", Box::new(|l| l.subscribers[0].class = ClassId(65_001))),
        ("class 1 is used by two", Box::new(|l| l.subscribers[1].class = ClassId(1))),
        ("a turn of 0 bytes of class 2", Box::new(|l| l.subscribers[1].turn = 0)),
        (
            "10.0.1.0/24 belongs to classes 1 and 2",
            Box::new(|l| l.subscribers[1].prefixes.push(net("10.0.1.7/24"))),
        ),
        (
            "02:00:00:00:00:02 belongs to classes 1 and 2",
            Box::new(|l| l.subscribers[0].macs = l.subscribers[1].macs.clone()),
        ),
    ];
    for (want, change) in cases {
        let got = refused(change);
        assert!(got.contains(want), "{got} should contain {want}");
    }
    let got = refused(|l| l.subscribers[0].macs.push(MacAddr([0xff; 6])));
    assert!(got.contains("ff:ff:ff:ff:ff:ff of class 1 is a group address"), "{got}");
}

#[test]
fn a_longer_prefix_inside_a_shorter_one_is_no_duplicate() {
    let mut layout = layout();
    layout.subscribers[1].prefixes.push(net("10.0.1.7/32"));
    assert_eq!(layout.check(), Ok(()));
}

#[test]
fn interface_names() {
    for good in ["eth0", "bat0", "wlan0.1", "br-lan", "enp3s0f1np1"] {
        assert!(Interface::new(good).is_ok(), "{good}");
    }
    for bad in ["", ".", "..", "sixteen-letters-", "a b", "a/b", "a\"", "a;b", "ü"] {
        assert!(Interface::new(bad).is_err(), "{bad}");
    }
}
