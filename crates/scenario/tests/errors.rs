//! Wrong scenarios are refused with file, line, key and expectation.

mod common;

use common::refuse;
use fairmesh_scenario::{MAX_NODES, Problem};

/// A right file; the cases below change one thing.
const RIGHT: &str = r#"name = "x"
duration = "60 s"
[radio]
rate = "11 Mbit/s"
[topology]
links = [[1, 2], [2, 3], [4, 5]]
[[flow]]
from = 1
to = 3
"#;

/// Replaces text that must be there.
fn with(old: &str, new: &str) -> String {
    assert!(RIGHT.contains(old), "{old}");
    RIGHT.replacen(old, new, 1)
}

#[test]
fn the_unchanged_file_is_right() {
    common::read(RIGHT);
}

/// Each case: what is changed, into what, and how the error begins.
const CASES: &[(&str, &str, &str)] = &[
    // Rates that change.
    (
        "to = 3\n",
        "to = 3\n[[rate_change]]\nat = \"5 s\"\nfrom = 1\nto = 3\nrate = \"2 Mbit/s\"\n",
        "test.toml:10: rate_change[0]: 3 does not decode 1; expected two ends of a link",
    ),
    (
        "to = 3\n",
        "to = 3\n[[rate_change]]\nat = \"5 s\"\nfrom = 1\nto = 2\nrate = \"3 Mbit/s\"\n",
        "test.toml:14: rate_change[0].rate: ",
    ),
    (
        "to = 3\n",
        "to = 3\n[[rate_change]]\nfrom = 1\nto = 2\nrate = \"2 Mbit/s\"\n",
        "test.toml:10: rate_change[0]: `at` is missing; expected it to be given",
    ),
    // Routes that change, and interferers that end.
    (
        "to = 3\n",
        "to = 3\n[[route_change]]\nat = \"5 s\"\nflow = \"1->4\"\npath = [1, 2, 3]\n",
        "test.toml:12: route_change[0].flow: no flow is called \"1->4\"; expected the name of a flow",
    ),
    (
        "to = 3\n",
        "to = 3\n[[route_change]]\nat = \"5 s\"\nflow = \"1->3\"\npath = [1, 3]\n",
        "test.toml:13: route_change[0].path[1]: ",
    ),
    (
        "to = 3\n",
        "to = 3\n[[route_change]]\nat = \"5 s\"\nflow = \"1->3\"\npath = [1, 2]\n",
        "test.toml:13: route_change[0].path: the path does not join the flow's ends",
    ),
    (
        "to = 3\n",
        "to = 3\n[[route_change]]\nat = \"60 s\"\nflow = \"1->3\"\npath = [1, 2, 3]\n",
        "test.toml:11: route_change[0].at: 60 s is out of range; expected a time before the end of the run",
    ),
    (
        "to = 3\n",
        "to = 3\n[[interferer]]\nnodes = [1]\nduty = 0.3\nstart = \"9 s\"\nstop = \"9 s\"\n",
        "test.toml:14: interferer[0].stop: ",
    ),
    // Radios of today.
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ac\"\nmcs = 10",
        "test.toml:5: radio.mcs: 802.11ac has no MCS 10; expected an MCS from 0 to 9",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ac\"\nmcs = 9",
        "test.toml:5: radio.mcs: 802.11ac has no MCS 9 with 1 streams at 20 MHz; expected a lower MCS",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nmcs = 9\nstreams = 1",
        "test.toml:6: radio.streams: MCS 9 has two streams; expected `streams = 2`",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nwidth = \"80 MHz\"",
        "test.toml:5: radio.width: 802.11n has no channels of 80 MHz; expected \"20 MHz\", \"40 MHz\"",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ax\"\nwidth = \"80 MHz\"\nchannel = 6",
        "test.toml:6: radio.channel: 80 MHz around channel 6; expected at most 40 MHz there",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ac\"\nchannel = 6",
        "test.toml:5: radio.channel: 802.11ac has no channels at 2.4 GHz; expected 36 to 177",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\namsdu = \"7936 B\"",
        "test.toml:5: radio.amsdu: 7936 B is out of range; expected at most 7935 B",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ac\"\namsdu = \"11425 B\"",
        "test.toml:5: radio.amsdu: 11425 B is out of range; expected at most 11424 B",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ax\"\nchannel = 1\namsdu = \"11424 B\"",
        "test.toml:6: radio.amsdu: 11424 B is out of range; expected at most 7935 B",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11g\"\namsdu = \"3839 B\"",
        "test.toml:5: radio.amsdu: only radios of today have this; expected `radio.phy` of \"802.11n\", \"802.11ac\" or \"802.11ax\"",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nampdu = \"65536 B\"",
        "test.toml:5: radio.ampdu: 65536 B is out of range; expected at most 65535 B",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ac\"\nmpdus = 65",
        "test.toml:5: radio.mpdus: 65 is out of range; expected 1 to 64",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nguard = \"1600 ns\"",
        "test.toml:5: radio.guard: 802.11n has no guard interval of 1600 ns; expected \"400 ns\"",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nadaptation = \"arf\"",
        "test.toml:5: radio.adaptation: 802.11n adapts by MCS; expected \"fixed\" or \"minstrel-ht\"",
    ),
    (
        "[radio]",
        "[radio]\nphy = \"802.11n\"",
        "test.toml:5: radio.rate: 11 Mbit/s says too little of 802.11n; expected `mcs`",
    ),
    (
        "[radio]",
        "[radio]\nmcs = 7",
        "test.toml:4: radio.mcs: only radios of today have this; expected `radio.phy` of \"802.11n\"",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ax\"\nofdma = true",
        "test.toml:5: radio.ofdma: OFDMA is not modelled; expected `false`",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11ax\"\nmu_mimo = true",
        "test.toml:5: radio.mu_mimo: multi-user MIMO is not modelled",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\ntxop = \"1 s\"",
        "test.toml:5: radio.txop: 1 s is out of range; expected at most 32 ms",
    ),
    // Access categories.
    (
        "to = 3",
        "to = 3\naccess = \"voice\"",
        "test.toml:10: flow[0].access: 802.11b has no access categories here; expected `radio.phy` of \"802.11n\"",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "edca = {}",
        "test.toml:4: radio.edca: 802.11b has no access categories here; expected `radio.phy` of",
    ),
    (
        "to = 3",
        "to = 3\naccess = \"voices\"",
        "test.toml:10: flow[0].access: found \"voices\"; expected one of background, best-effort, video, voice",
    ),
    (
        "to = 3",
        "to = 3\ndscp = \"AF44\"",
        "test.toml:10: flow[0].dscp: found \"AF44\"; expected one of DF, LE, CS1",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nedca = { voice = { aifsn = 1 } }",
        "test.toml:5: radio.edca.voice.aifsn: 1 is out of range; expected 2 to 15 slots",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nedca = { voice = { cw_min = 15 } }",
        "test.toml:5: radio.edca.voice.cw_min: a contention window of 15 to 7; expected windows of 2^k - 1",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nedca = { video = { txop = \"33 ms\" } }",
        "test.toml:5: radio.edca.video.txop: 33 ms is out of range; expected at most 32 ms",
    ),
    (
        "to = 3\n",
        "to = 3\n[[link]]\nfrom = 1\nto = 2\nmcs = 3\n",
        "test.toml:13: link[0].mcs: only radios of today have this",
    ),
    // Keys and types.
    ("rate =", "raet =", "test.toml:4: radio.raet: unknown key; expected one of phy, rate, "),
    ("name = \"x\"", "nam = 1", "test.toml:1: nam: unknown key; expected one of name, "),
    ("from = 1", "form = 1", "test.toml:8: flow[0].form: unknown key; expected one of name, from"),
    ("duration = \"60 s\"", "", "test.toml: `duration` is missing; expected it to be given"),
    ("\nto = 3", "", "test.toml:7: flow[0]: `to` is missing; expected it to be given"),
    ("name = \"x\"", "name = 5", "test.toml:1: name: found integer `5`; expected a string"),
    (
        "[radio]",
        "[radio]\nphy = \"802.11z\"",
        "test.toml:4: radio.phy: found \"802.11z\"; expected one of 802.11b",
    ),
    (
        "[radio]",
        "[radio]\nphy = 1",
        "test.toml:4: radio.phy: found integer; expected one of 802.11b",
    ),
    (
        "[radio]",
        "[radio]\nrts = 3",
        "test.toml:4: radio.rts: found integer `3`; expected true, false, or a size",
    ),
    (
        "[radio]",
        "[radio]\nerrors = { frame = 2 }",
        "test.toml:4: radio.errors: 2 is not a probability",
    ),
    // Noise.
    (
        "[radio]",
        "[radio]\nerrors = { snr = {} }",
        "test.toml:4: radio.errors: there is no error table for DSSS rates; expected `radio.phy` of OFDM",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nerrors = { snr = {}, frame = 0.1 }",
        "test.toml:5: radio.errors: several error models; expected one of `frame`, `bit`, `bursts`, `chain`, `snr`",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nerrors = { snr = { noise_figure = \"-1 dB\" } }",
        "test.toml:5: radio.errors: -1 dB is out of range; expected 0 dB to 40 dB",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nerrors = { snr = { fading = \"rician\" } }",
        "test.toml:5: radio.errors.snr.fading: ",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nerrors = { snr = {} }",
        "test.toml:5: radio.errors.snr: nothing says how strong 1 is at 2; expected `signal` of each link",
    ),
    (
        "to = 3\n",
        "to = 3\n[[link]]\nfrom = 1\nto = 2\nsignal = -200\n",
        "test.toml:13: link[0].signal: -200 is out of range; expected -120 to 30 dBm",
    ),
    (
        "[radio]",
        "[radio]\nexponent = 2",
        "test.toml:4: radio.exponent: only path loss by distance has this; expected `profile = \"log-distance\"`",
    ),
    (
        "[radio]",
        "[radio]\nprofile = \"log-distance\"",
        "test.toml:4: radio.profile: explicit links have no distances",
    ),
    ("[1, 2],", "[1, 2, 3],", "test.toml:6: topology.links[0]: found 3 elements; expected"),
    ("[1, 2],", "[1],", "test.toml:6: topology.links[0]: found 1 elements; expected"),
    (
        "[1, 2],",
        "7,",
        "test.toml:6: topology.links[0]: found integer `7`; expected a pair of node names",
    ),
    (
        "duration = \"60 s\"",
        "duration = 2020-01-01",
        "test.toml:2: duration: found date; expected a time",
    ),
    // Units.
    (
        "\"60 s\"",
        "\"60\"",
        "test.toml:2: duration: \"60\" has no unit; expected a time such as \"200 s\"",
    ),
    (
        "\"60 s\"",
        "60",
        "test.toml:2: duration: found integer `60`; expected a time such as \"200 s\"",
    ),
    ("\"60 s\"", "\"60 m\"", "test.toml:2: duration: \"60 m\" has a wrong unit; expected a time"),
    (
        "11 Mbit/s",
        "-11 Mbit/s",
        "test.toml:4: radio.rate: \"-11 Mbit/s\" is negative; expected a rate",
    ),
    ("11 Mbit/s", "fast", "test.toml:4: radio.rate: \"fast\" has no number; expected a rate"),
    (
        "11 Mbit/s",
        "12 Mbit/s",
        "test.toml:4: radio.rate: the PHY has no rate of 12 Mbit/s; expected one of 1 Mbit/s, 2 Mbit/s, 5.5 Mbit/s, 11 Mbit/s",
    ),
    // Times.
    ("\"60 s\"", "\"0 s\"", "test.toml:2: duration: 0 s is out of range"),
    (
        "[radio]",
        "warmup = \"60 s\"\n[radio]",
        "test.toml:3: warmup: 60 s is out of range; expected less than `duration`, 60 s",
    ),
    (
        "to = 3",
        "to = 3\nstart = \"60 s\"",
        "test.toml:10: flow[0].start: 60 s is out of range; expected a start before the end",
    ),
    (
        "to = 3",
        "to = 3\nstart = \"9 s\"\nstop = \"8 s\"",
        "test.toml:11: flow[0].stop: the flow stops before it starts; expected `stop` after `start`",
    ),
    (
        "[[flow]]",
        "[traffic]\nstop = \"0 s\"\n[[flow]]",
        "test.toml:8: traffic.stop: the flow stops before it starts",
    ),
    // Nodes and links.
    (
        "[4, 5]",
        "[4, 4]",
        "test.toml:6: topology.links[2]: node \"4\" is linked to itself; expected two different nodes",
    ),
    (
        "[4, 5]",
        "[2, 1]",
        "test.toml:6: topology.links[2]: the link 2 to 1 is given twice; expected each link once",
    ),
    (
        "[4, 5]",
        "[-4, 5]",
        "test.toml:6: topology.links[2][0]: found integer `-4`; expected a node's name",
    ),
    (
        "[4, 5]",
        "[1.5, 5]",
        "test.toml:6: topology.links[2][0]: found floating point `1.5`; expected a node's name",
    ),
    (
        "[4, 5]",
        "{ from = 4, to = 5, delivery = 0 }",
        "test.toml:6: topology.links[2].delivery: 0 is out of range; expected a probability above 0",
    ),
    (
        "[4, 5]",
        "{ from = 4, to = 5, delivery = nan }",
        "test.toml:6: topology.links[2].delivery: NaN is out of range",
    ),
    (
        "[4, 5]",
        "{ from = 4, to = 5, rate = \"54 Mbit/s\" }",
        "test.toml:6: topology.links[2].rate: the PHY has no rate of 54 Mbit/s",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\n[[node]]\nid = \"1\"\n[[flow]]",
        "test.toml:10: node[1].id: node \"1\" is declared twice; expected each name once",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\nposition = [nan, 0]\n[[flow]]",
        "test.toml:9: node[0].position: NaN is out of range; expected coordinates",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\nposition = [inf, 0]\n[[flow]]",
        "test.toml:9: node[0].position: inf is out of range",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\nkind = \"wired\"\n[[flow]]",
        "test.toml:9: node[0].kind: \"1\" is a wireless node of the topology",
    ),
    (
        "[[flow]]",
        "[[link]]\nfrom = 1\nto = 3\n[[flow]]",
        "test.toml:7: link[0]: there is no link 1 to 3; expected two nodes that decode each other",
    ),
    (
        "[4, 5]]",
        "[4, 5]]\ngateway = 9",
        "test.toml:7: topology.gateway: there is no node \"9\"; expected a node of the topology",
    ),
    (
        "[4, 5]]",
        "[4, 5]]\nsenses = [[1, 9]]",
        "test.toml:7: topology.senses[0]: there is no node \"9\"",
    ),
    (
        "[4, 5]]",
        "[4, 5]]\nsense_hops = 3",
        "test.toml:7: topology.sense_hops: 3 is out of range; expected 1 or 2",
    ),
    (
        "[4, 5]]",
        "[4, 5]]\nchain = { hops = 2 }",
        "test.toml:6: topology.links: `chain` and `links` together; expected one layout",
    ),
    (
        "[radio]",
        "[radio]\nprofile = \"ns2\"",
        "test.toml:4: radio.profile: explicit links have no distances; expected `profile = \"graph\"`",
    ),
    (
        "[radio]",
        "[radio]\ndecode = \"90 m\"",
        "test.toml:4: radio.decode: explicit links have no range",
    ),
    // Flows.
    ("to = 3", "to = 9", "test.toml:9: flow[0].to: there is no node \"9\""),
    (
        "to = 3",
        "to = 1",
        "test.toml:9: flow[0].to: the flow starts and ends at \"1\"; expected two different nodes",
    ),
    (
        "to = 3",
        "to = 4",
        "test.toml:9: flow[0].to: \"4\" cannot be reached from \"1\"; expected a path of links that decode in both directions",
    ),
    (
        "to = 3",
        "to = 3\nweight = 0",
        "test.toml:10: flow[0].weight: 0 is out of range; expected a number above 0",
    ),
    (
        "to = 3",
        "to = 3\nplan = \"0 bit/s\"",
        "test.toml:10: flow[0].plan: 0 bit/s is out of range; expected a rate above 0",
    ),
    (
        "to = 3",
        "to = 3\nplan = \"50 kbit/s\"\nguarantee = \"64 kbit/s\"",
        "test.toml:11: flow[0].guarantee: 64 kbit/s is out of range; expected at most the flow's plan of 50 kbit/s",
    ),
    ("to = 3", "to = 3\nplan = 1", "test.toml:10: flow[0].plan"),
    ("to = 3", "to = 3\nweight = -1.5", "test.toml:10: flow[0].weight: -1.5 is out of range"),
    ("to = 3", "to = 3\nweight = inf", "test.toml:10: flow[0].weight: inf is out of range"),
    ("to = 3", "to = 3\npath = [1, 3]", "test.toml:10: flow[0].path[1]: there is no link 1 to 3"),
    (
        "to = 3",
        "to = 3\npath = [1, 2]",
        "test.toml:10: flow[0].path: the path does not join the flow's ends",
    ),
    (
        "to = 3",
        "to = 3\npath = [1, 2, 1, 2, 3]",
        "test.toml:10: flow[0].path[2]: the path visits \"1\" twice",
    ),
    (
        "to = 3",
        "to = 3\ntraffic = \"flood\"",
        "test.toml:10: flow[0].traffic: found string \"flood\"; expected \"bulk\", \"file\"",
    ),
    ("to = 3", "to = 3\ntraffic = \"cbr\"", "test.toml:10: flow[0].traffic: `rate` is missing"),
    (
        "to = 3",
        "to = 3\ntraffic = { kind = \"bulk\", rate = \"1 kbit/s\" }",
        "test.toml:10: flow[0].traffic: `rate` is no setting of this kind of traffic",
    ),
    (
        "to = 3",
        "to = 3\ntraffic = { kind = \"http\", every = \"1 s\", pause = \"1 s\" }",
        "test.toml:10: flow[0].traffic: `every` and `pause` exclude each other; expected one of them",
    ),
    (
        "to = 3",
        "to = 3\ntraffic = { kind = \"http\", every = \"0 s\" }",
        "test.toml:10: flow[0].traffic: time between requests must not be zero",
    ),
    (
        "to = 3",
        "to = 3\ntraffic = { kind = \"file\", every = \"1 s\" }",
        "test.toml:10: flow[0].traffic: `every` is no setting of this kind of traffic",
    ),
    (
        "to = 3",
        "to = 3\ntraffic = { kind = \"http\", request = \"1 kB\", request_max = \"200 B\" }",
        "test.toml:10: flow[0].traffic: sizes from 1000 B to 200 B; the least must not be above the most",
    ),
    (
        "to = 3",
        "to = 3\ntraffic = { kind = \"http\", deviation = \"10 kB\", shape = 1.5 }",
        "test.toml:10: flow[0].traffic: `deviation` and `shape` exclude each other; expected one of them",
    ),
    (
        "to = 3",
        "to = 3\ntransport = \"udp\"",
        "test.toml:10: flow[0].transport: this traffic needs a stream; expected TCP",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { tcp = \"vegas\" }",
        "test.toml:10: flow[0].transport.tcp: found \"vegas\"; expected one of newreno, cubic, bbr, bbr3, prague",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { tcp = \"prague\", ecn = true }",
        "test.toml:10: flow[0].transport: prague needs ecn = \"ect1\"; expected settings an endpoint can work with",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { quic = \"vegas\" }",
        "test.toml:10: flow[0].transport.quic: found \"vegas\"; expected one of newreno, cubic, bbr, bbr3, prague",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { quic = \"cubic\", tcp = \"cubic\" }",
        "test.toml:10: flow[0].transport: both `tcp` and `quic`; expected one of them",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { quic = \"cubic\", sack = true }",
        "test.toml:10: flow[0].transport: `sack` is no setting of QUIC; expected datagram, ecn, initial_window, max_ack_delay, burst or hystart",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { tcp = \"cubic\", datagram = \"1200 B\" }",
        "test.toml:10: flow[0].transport: `datagram` is no setting of TCP; expected `quic` beside it",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { quic = \"cubic\", datagram = \"1000 B\" }",
        "test.toml:10: flow[0].transport: datagram is 1000 B; QUIC needs 1200 B, and IPv4 carries at most 65507 B; expected settings an endpoint can work with",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { quic = \"prague\", ecn = true }",
        "test.toml:10: flow[0].transport: prague needs ecn = \"ect1\"; expected settings an endpoint can work with",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { quick = \"cubic\" }",
        "test.toml:10: flow[0].transport.quick: ",
    ),
    (
        "to = 3",
        "to = 3\ntraffic = { kind = \"cbr\", rate = \"1 kbit/s\" }\ntransport = \"quic\"",
        "test.toml:11: flow[0].transport: `cbr` traffic over a stream; expected `transport = \"udp\"`, or `limited` traffic",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { ecn = \"ect2\" }",
        "test.toml:10: flow[0].transport.ecn: found string \"ect2\"; expected true, false, \"ect0\" or \"ect1\"",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { rack = true }",
        "test.toml:10: flow[0].transport: rack needs sack; expected settings an endpoint can work with",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { burst = 0 }",
        "test.toml:10: flow[0].transport: burst must not be zero",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = 1\nairtime_weight = 0.0\n[[flow]]",
        "test.toml:9: node[0].airtime_weight: ",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { mss = \"0 B\" }",
        "test.toml:10: flow[0].transport: mss must not be zero",
    ),
    (
        "[[flow]]",
        "[[flow]]\nname = \"a\"\nfrom = 1\nto = 2\n[[flow]]\nname = \"a\"",
        "test.toml:12: flow[1].name: the name \"a\" is used twice",
    ),
    (
        "[[flow]]\nfrom = 1\nto = 3",
        "",
        "test.toml: flow: the scenario has no flow; expected at least one flow",
    ),
    (
        "[[flow]]",
        "[traffic]\nflows = \"up\"\n[[flow]]",
        "test.toml:8: traffic.flows: the flows have no other end; expected `host`",
    ),
    (
        "[[flow]]",
        "[traffic]\nhost = 1\n[[flow]]",
        "test.toml:8: traffic.host: it serves `traffic.flows` only",
    ),
    // Wires, interferers, control.
    (
        "[[flow]]",
        "[[wire]]\nfrom = 1\nto = \"srv\"\n[[flow]]",
        "test.toml:9: wire[0].to: there is no node \"srv\"",
    ),
    (
        "[[flow]]",
        "[wired]\nhosts = [\"a\"]\n[[flow]]",
        "test.toml:7: wired: the hosts are joined to nothing; expected `at`, or `topology.gateway`",
    ),
    (
        "[[flow]]",
        "[wired]\nhosts = [\"a\", 1]\nat = 2\n[[flow]]",
        "test.toml:8: wired.hosts[1]: node \"1\" is declared twice",
    ),
    (
        "[[flow]]",
        "[[interferer]]\nduty = 0.5\n[[flow]]",
        "test.toml:7: interferer[0]: it is not clear who hears it; expected either `nodes` or `position`",
    ),
    (
        "[[flow]]",
        "[[interferer]]\nduty = 1.5\nnodes = [1]\n[[flow]]",
        "test.toml:8: interferer[0].duty: 1.5 is out of range",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"magic\"\n[[flow]]",
        "test.toml:8: control.use: there is no control \"magic\"; expected one of fifo, ",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nepoch = 3\n[[flow]]",
        "test.toml:9: control.epoch: unknown key; expected one of use",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nepoch = \"x\"\n[[flow]]",
        "test.toml:9: control.epoch: found string \"x\"; expected a number without a unit",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nagents = [1, 9]\n[[flow]]",
        "test.toml:9: control.agents[1]: there is no node \"9\"",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nnodes = [1, 9]\n[[flow]]",
        "test.toml:9: control.nodes[1]: there is no node \"9\"",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nagents = [1, 1]\n[[flow]]",
        "test.toml:9: control.agents[1]: 1 twice; expected every node once",
    ),
    (
        "[[flow]]",
        "[control]\nuse = \"fifo\"\nagents = 5\n[[flow]]",
        "test.toml:9: control.agents: found integer `5`",
    ),
    // Queues.
    ("[radio]", "[radio]\nqueue = 0", "test.toml:4: radio.queue: buffer must not be zero"),
    (
        "[radio]",
        "[radio]\nqueue = \"50\"",
        "test.toml:4: radio.queue: found string \"50\"; expected a number of packets",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"red\", min = 9, max = 3 }",
        "test.toml:4: radio.queue: thresholds must satisfy",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"fq\", ecn = true }",
        "test.toml:4: radio.queue: `ecn` is no setting of this kind of queue",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"mark\", min = 2 }",
        "test.toml:4: radio.queue: `min` is no setting of this kind of queue",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"mark\", threshold = 0 }",
        "test.toml:4: radio.queue: the threshold must be above 0, but is 0",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"mark\", bytes = \"9 kB\" }",
        "test.toml:4: radio.queue: `bytes` without `threshold`",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"red\", target = \"5 ms\" }",
        "test.toml:4: radio.queue: `target` is no setting of this kind of queue",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"codel\", target = \"200 ms\" }",
        "test.toml:4: radio.queue: target must be below interval, but is 200 ms of 100 ms",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"fq_codel\", flows = 0 }",
        "test.toml:4: radio.queue: flows must not be zero",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"fq_codel\", bytes = \"9 kB\" }",
        "test.toml:4: radio.queue: `bytes` is no setting of this kind of queue",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"fq_codel\", ce_ect1 = true }",
        "test.toml:4: radio.queue: `ce_ect1` without `ce_threshold`; expected a step to mark at",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"mac80211\", aql = true }",
        "test.toml:4: radio.queue: `aql` without `device`; expected a card with a queue to limit",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"mac80211\", device = 9, aql_low = \"20 ms\" }",
        "test.toml:4: radio.queue: aql_low must not be above aql_high, but is 20 ms to 12 ms",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"pie\" }",
        "test.toml:4: radio.queue.kind: found \"pie\"; expected one of drop-tail",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"cake\", packets = 9 }",
        "test.toml:4: radio.queue: `packets` is no setting of this kind of queue",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"cake\", rate = \"0 bit/s\" }",
        "test.toml:4: radio.queue: rate must not be zero",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"fq\", device = 1000000 }",
        "test.toml:4: radio.queue: ",
    ),
    // TOML itself.
    ("to = 3", "to = ", "test.toml:9: "),
    ("to = 3", "to = 3\nto = 4", "test.toml:10: duplicate key"),
    (
        "to = 3",
        "to = 99999999999999999999",
        "test.toml:9: flow[0].to: 99999999999999999999 is out of range",
    ),
];

#[test]
fn each_mistake_is_named_with_its_line_and_key() {
    for (old, new, expected) in CASES {
        let line = refuse(&with(old, new)).to_string();
        assert!(line.starts_with(expected), "\n got: {line}\nwant: {expected}…");
    }
}

#[test]
fn layouts_check_their_numbers() {
    let flow = "duration = \"9 s\"\nflow = [{ from = 0, to = 1 }]\n";
    for (text, expected) in [
        ("topology.chain = { hops = 0 }", "topology.chain.hops: 0 is out of range"),
        (
            "topology.chain = { hops = 4000000000 }",
            "topology.chain.hops: 4000000001 nodes; expected at most 50000",
        ),
        (
            "topology.chain = { hops = 2, spacing = \"0 m\" }",
            "topology.chain.spacing: 0 m is out of range",
        ),
        (
            "topology.grid = { rows = 4000000000, columns = 4000000000 }",
            "topology.grid: 16000000000000000000 nodes",
        ),
        (
            "topology.chain = { hops = 40000, spacing = \"1 cm\" }",
            "topology.chain.spacing: \"1 cm\" has a wrong unit",
        ),
        (
            "topology.chain = { hops = 40000, spacing = \"0.01 m\" }",
            "topology: too many nodes hear each other",
        ),
        (
            "topology.random = { nodes = 50, width = \"100 km\" }",
            "topology.random: none of 1000 random placements is connected",
        ),
        (
            "topology.random = { nodes = 50000, width = \"1 m\" }",
            "topology: too many nodes hear each other",
        ),
        ("topology.cell = { stations = 3000 }", "topology.cell.stations: 9000000 nodes"),
        ("topology.positions = []", "topology: the scenario has no wireless node"),
        ("topology.positions = [[0, 1e300]]", "topology.positions[0]: 1"),
        ("node = [{ id = 0 }]", "node[0]: `position` is missing"),
        (
            "topology.chain = { hops = 2 }\nnode = [{ id = 7 }]",
            "node[0].id: there is no node \"7\"",
        ),
        (
            "topology.chain = { hops = 2 }\nradio = { sense = \"100 m\" }",
            "radio.sense: 100 m is out of range; expected at least the decode range",
        ),
        (
            "topology.chain = { hops = 2 }\nradio = { decode = \"0 m\" }",
            "radio.decode: 0 m is out of range",
        ),
        (
            "topology.chain = { hops = 2 }\nradio = { sense = \"20 km\" }",
            "radio.sense: 20000 m is out of range",
        ),
        (
            "topology = { chain = { hops = 2 }, senses = [[0, 2]] }",
            "topology.senses: positions say who senses whom",
        ),
        (
            "topology.links = [[0, 1]]\ninterferer = [{ duty = 0.1, position = [0, 0] }]",
            "interferer[0].position: explicit links have no propagation",
        ),
    ] {
        let line = refuse(&format!("{flow}{text}")).to_string();
        let (_, rest) = line.split_once(": ").unwrap();
        assert!(rest.starts_with(expected), "\n got: {rest}\nwant: {expected}…");
    }
    assert_eq!(MAX_NODES, 50_000);
}

#[test]
fn errors_carry_their_parts() {
    let e = refuse(&with("to = 3", "to = 4"));
    assert_eq!((e.file.as_deref(), e.line), (Some("test.toml"), Some(9)));
    assert_eq!(e.key.to_string(), "flow[0].to");
    assert_eq!(e.problem, Problem::Unreachable { from: "1".into(), to: "4".into() });
    assert_eq!(e.problem.what(), "\"4\" cannot be reached from \"1\"");
}
