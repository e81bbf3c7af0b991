//! Radios: 802.11n, ac and ax, access categories, noise.

use super::Case;

pub const CASES: &[Case] = &[
    // The rules of ns-2.
    (
        "rate = \"11 Mbit/s\"",
        "phy = \"802.11n\"\nrules = \"ns2\"",
        "test.toml:5: radio.rules: ns-2 has no such radio; expected `radio.phy` of \"802.11b\", \"802.11a\" or \"802.11g\"",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "rules = \"ns2\"\nreception = \"sinr\"",
        "test.toml:5: radio.reception: the rules of ns-2 have no such reception; expected \"ns2\" or \"nocap\"",
    ),
    (
        "rate = \"11 Mbit/s\"",
        "rules_without = [\"deferral\"]",
        "test.toml:4: radio.rules_without: rules of ns-2 left out; expected `radio.rules = \"ns2\"`",
    ),
    // Radios of 802.11n, ac and ax.
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
        "test.toml:5: radio.amsdu: only radios of 802.11n, ac and ax have this; expected `radio.phy` of \"802.11n\", \"802.11ac\" or \"802.11ax\"",
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
        "test.toml:5: radio.rate: 11 Mbit/s does not determine 802.11n; expected `mcs`",
    ),
    (
        "[radio]",
        "[radio]\nmcs = 7",
        "test.toml:4: radio.mcs: only radios of 802.11n, ac and ax have this; expected `radio.phy` of \"802.11n\"",
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
        "test.toml:13: link[0].mcs: only radios of 802.11n, ac and ax have this",
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
        "test.toml:5: radio.errors.snr: the signal strength of 1 at 2 is not given; expected `signal` of each link",
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
];
