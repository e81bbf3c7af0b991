//! Flows.

use super::Case;

pub const CASES: &[Case] = &[
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
        "test.toml:10: flow[0].traffic.rate: unknown key; expected no key here",
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
        "test.toml:10: flow[0].traffic.every: unknown key; expected one of size, shape, deviation, count, ",
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
        "test.toml:10: flow[0].transport.sack: unknown key; expected one of quic, datagram, ecn, initial_window, max_ack_delay, burst, hystart",
    ),
    (
        "to = 3",
        "to = 3\ntransport = { tcp = \"cubic\", datagram = \"1200 B\" }",
        "test.toml:10: flow[0].transport.datagram: unknown key; expected one of tcp, preset, mss, ",
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
];
