//! Queues.

use super::Case;

pub const CASES: &[Case] = &[
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
        "test.toml:4: radio.queue.ecn: unknown key; expected one of packets, bytes, total, quantum, device",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = \"mark\", min = 2 }",
        "test.toml:4: radio.queue.min: unknown key; expected one of packets, bytes, threshold, weight, device",
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
        "test.toml:4: radio.queue.target: unknown key; expected one of packets, bytes, min, max, max_p, ",
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
        "test.toml:4: radio.queue.bytes: unknown key; expected one of packets, memory, flows, ",
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
        "test.toml:4: radio.queue.packets: unknown key; expected one of rate, memory, flows, ",
    ),
    ("[radio]", "[radio]\nqueue = { packets = 9 }", "test.toml:4: radio.queue: `kind` is missing"),
    // An invalid key is reported at its own line, regardless of the position of `kind`.
    (
        "[radio]",
        "[radio.queue]\nmin = 3\nkind = \"fq\"\n[radio]",
        "test.toml:4: radio.queue.min: unknown key; expected one of packets, bytes, total, ",
    ),
    (
        "[radio]",
        "[radio]\nqueue = { kind = 3 }",
        "test.toml:4: radio.queue.kind: found integer; expected one of drop-tail, fq, ",
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
];
