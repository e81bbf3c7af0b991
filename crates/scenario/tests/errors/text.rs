//! Keys, types, units, times and TOML itself.

use super::Case;

pub const CASES: &[Case] = &[
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
    // TOML itself.
    ("to = 3", "to = ", "test.toml:9: "),
    ("to = 3", "to = 3\nto = 4", "test.toml:10: duplicate key"),
    (
        "to = 3",
        "to = 99999999999999999999",
        "test.toml:9: flow[0].to: 99999999999999999999 is out of range",
    ),
];
