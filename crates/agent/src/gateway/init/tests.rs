use fairmesh_units::BitRate;
use proptest::prelude::*;

use super::*;
use crate::gateway::config::Mode;
use crate::gateway::sources::SourceReport;

fn chosen(name: &str) -> Option<InterfaceChoice> {
    Some(InterfaceChoice { interface: Interface::new(name).unwrap(), reason: "a test".into() })
}

fn whole() -> Survey {
    let discover = Discover { babel: Some("[::1]:33123".parse().unwrap()), ..Discover::default() };
    let report = SourceReport { name: "babel".into(), subscribers: 1, ..SourceReport::default() };
    Survey {
        mesh: chosen("mesh0"),
        wired: chosen("eth0"),
        source: Some(SourceKind::Babel),
        sources: vec![QueriedSource { kind: SourceKind::Babel, absent: false, report }],
        homes: Vec::new(),
        neighbours: Vec::new(),
        to_do: Vec::new(),
        discover,
    }
}

fn station(last: u8, rate: Option<u64>, expected: Option<u64>) -> Station {
    let mac = MacAddr([2, 0xfc, 0, 0, 0, last]);
    Station {
        name: mac.to_string(),
        interface: "wlan0".into(),
        mac,
        rate: rate.map(BitRate),
        expected: expected.map(BitRate),
        signal: Some(-60),
    }
}

#[test]
fn a_survey_becomes_a_configuration_that_observes() {
    let config = Config::parse("x", &proven(&whole()).unwrap()).unwrap();
    assert_eq!((config.mode, config.mechanism.to_string().as_str()), (Mode::Observe, "fifo"));
    assert_eq!((config.layout.mesh.name(), config.layout.wired.name()), ("mesh0", "eth0"));
    assert_eq!(config.discover.unwrap().babel, whole().discover.babel);
    // Rates of the radio choose a control that needs them; impossible ones are left out.
    let mut survey = whole();
    survey.neighbours = vec![
        station(1, Some(54_000_000), Some(22_500_500)),
        station(2, Some(6_500_000), Some(99_000_000)),
        station(3, None, Some(1_000_000)),
        station(4, Some(1), None),
    ];
    let config = Config::parse("x", &proven(&survey).unwrap()).unwrap();
    assert_eq!(config.mechanism.to_string(), "pfrc+bursts");
    let rates: Vec<_> = config.neighbours.iter().map(|n| n.rate.0).collect();
    assert_eq!(rates, [54_000_000, 6_500_000]);
    assert!(proven(&survey).unwrap().contains("#capacity = \"22500 kbit/s\" # expected"));
    assert!(config.neighbours.iter().all(|n| n.capacity < n.rate), "as computed");
}

/// Links that `init` writes follow the driver's rates in the daemon.
#[test]
fn rates_of_found_neighbours_follow_the_station_dump() {
    use fairmesh_linux::nl80211;
    use fairmesh_units::{Span, Time};

    use crate::gateway::governor::ClassIds;
    use crate::gateway::link_rates::LinkRates;

    /// A radio with one station, which is sent 100 packets between two dumps.
    struct Fake(u32);
    impl nl80211::Radio for Fake {
        fn survey(&mut self) -> Result<Vec<nl80211::Survey>, fairmesh_linux::Error> {
            Ok(Vec::new())
        }
        fn stations(&mut self) -> Result<Vec<nl80211::Station>, fairmesh_linux::Error> {
            self.0 += 100;
            Ok(vec![nl80211::Station {
                tx_packets: Some(self.0),
                tx_rate: Some(BitRate(6_000_000)),
                ..nl80211::Station::new(MacAddr([2, 0xfc, 0, 0, 0, 1]))
            }])
        }
    }

    let mut survey = whole();
    survey.neighbours =
        vec![station(1, Some(54_000_000), Some(22_500_000)), station(2, Some(24_000_000), None)];
    let config = Config::parse("x", &proven(&survey).unwrap()).unwrap();
    let macs: Vec<_> = config.neighbours.iter().map(|n| n.mac.unwrap().0[5]).collect();
    assert_eq!(macs, [1, 2]);
    let mut governor = Governor::new(&config, ClassIds::default(), Time::ZERO).unwrap();
    let before = governor.bound().unwrap();
    let mut rates = LinkRates::new(Box::new(|_| Ok(std::boxed::Box::new(Fake(0)) as _)));
    for second in (0..200).step_by(10) {
        let now = Time::ZERO + Span::from_secs(second);
        if let Some(rates) = rates.look(now, "mesh0", &config.neighbours) {
            governor.measure(now, &rates).unwrap();
        }
    }
    let rates: Vec<_> = governor.links().iter().map(|n| n.rate.0).collect();
    assert_eq!(rates, [6_000_000, 24_000_000], "the second is not in the dump");
    assert!(governor.bound().unwrap().0 * 2 < before.0);
}

/// Every source's keys can be read again.
#[test]
fn every_source_is_written_as_it_is_read() {
    let of = |discover: Discover| {
        let mut survey = whole();
        survey.discover = discover;
        Config::parse("x", &proven(&survey).unwrap()).unwrap().discover.unwrap()
    };
    let base = Discover::default;
    for discover in [
        Discover { netjson: Some("/tmp/a \"b\" \\ c\n.json".into()), ..base() },
        Discover { batman: Some("bat0".into()), ..base() },
        Discover { babel: Some("/run/b\"\\\u{7f}\u{1}d.sock".parse().unwrap()), ..base() },
        Discover { olsr: Some("127.0.0.1:9090".parse().unwrap()), ..base() },
        Discover { mesh_paths: true, neighbours: true, ..base() },
        Discover { routes: true, ..base() },
    ] {
        assert_eq!(of(discover.clone()), discover);
    }
}

/// A file that exists stays, unless it may be replaced; other objects stay in any case.
#[test]
fn files_are_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("new"), "a", false).unwrap();
    let error = write(&at("new"), "b", false).unwrap_err().to_string();
    assert!(
        error.ends_with("new: exists; expected a free path, or --force to replace it"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(at("new")).unwrap(), "a");
    write(&at("new"), "b", true).unwrap();
    assert_eq!(std::fs::read_to_string(at("new")).unwrap(), "b");
    std::fs::create_dir(at("folder")).unwrap();
    std::os::unix::fs::symlink(at("new"), at("link")).unwrap();
    for name in ["folder", "link"] {
        let error = write(&at(name), "c", true).unwrap_err().to_string();
        assert!(error.contains("is not a regular file"), "{error}");
    }
    assert!(write(&at("none/new"), "c", true).is_err());
    assert_eq!(std::fs::read_to_string(at("new")).unwrap(), "b");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left behind");
}

#[test]
fn long_lists_are_cut() {
    let mut survey = whole();
    let home = |i: usize| Home {
        name: format!("home {i}"),
        prefixes: (0..100).map(|j| format!("10.{}.{j}.0/24", i % 250)).collect(),
        macs: Vec::new(),
        hops: Some(2),
    };
    survey.homes = (0..5000).map(home).collect();
    let text = proven(&survey).unwrap();
    assert!(text.contains("# 4800 more homes") && text.len() < 200_000, "{}", text.len());
}

proptest! {
    /// No text from a source leaves its string or comment.
    ///
    /// Every line is a comment or one of the known keys, and the configuration is accepted.
    #[test]
    fn no_text_leaves_its_place(text in "(?s).{0,300}", long in 0..2_usize) {
        let text = text.repeat(1 + 400 * long);
        let mut survey = whole();
        survey.mesh.as_mut().unwrap().reason.clone_from(&text);
        survey.sources[0].report.name.clone_from(&text);
        survey.sources[0].report.failed = Some(text.clone());
        survey.to_do.push(ToDo { code: "source", text: text.clone() });
        survey.homes = vec![Home {
            name: text.clone(), prefixes: vec![text.clone()], macs: Vec::new(), hops: None,
        }];
        let mut station = station(1, Some(54_000_000), None);
        station.interface.clone_from(&text);
        survey.neighbours = vec![station];
        survey.discover.netjson = Some(format!("/{}", text.replace('\0', "")).into());
        let written = configuration(&survey);
        let config = Config::parse("x", &written);
        prop_assert!(config.is_ok(), "{:?}\n{written}", config.err());
        prop_assert_eq!(config.unwrap().discover, Some(survey.discover.clone()));
        for line in written.split('\n').filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let known = ["[", "mode ", "unmapped ", "interface ", "use ", "name ", "rate ", "weight ",
                "netjson ", "babel ", "plan ", "mac "];
            prop_assert!(known.iter().any(|k| line.starts_with(k)), "{line:?}");
        }
        let shown = summary(&survey, None);
        prop_assert!(shown.split('\n').all(|l| l.chars().all(crate::gateway::config::is_shown)));
    }
}
