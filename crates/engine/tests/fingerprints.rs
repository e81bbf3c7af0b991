//! Three small worlds whose every transmission is pinned: on any machine, in any build profile.
//!
//! A change of the fingerprints changes every published number. It must be meant: then the new
//! lines, which the failing test prints, go into `fingerprints.txt`.

use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::draft_from_toml;

const KEPT: &str = include_str!("fingerprints.txt");

/// Everything that has randomness or arithmetic of its own takes part.
const WORLDS: [(&str, &str); 3] = [
    (
        "chain",
        r#"
        duration = "5 s"
        [radio]
        rate = "1 Mbit/s"
        [topology]
        chain = { hops = 4, spacing = "200 m" }
        gateway = 0
        [traffic]
        flows = "both"
        nodes = [2, 4]
        "#,
    ),
    (
        "graph",
        r#"
        duration = "5 s"
        [radio]
        phy = "802.11g"
        adaptation = "samplerate"
        rts = "500 B"
        queue = { kind = "red", packets = 40 }
        errors = { bursts = 0.05 }
        [topology]
        links = [[1, 2], [2, 3], { from = 3, to = 4, delivery = 0.8 }, [4, 5], [2, 5]]
        [traffic]
        transport = { tcp = "cubic", sack = true }
        [[flow]]
        from = 1
        to = 4
        [[flow]]
        from = 5
        to = 1
        traffic = { kind = "file", size = "100 kB", pause = "50 ms", random_pause = true }
        [[flow]]
        from = 3
        to = 5
        traffic = { kind = "cbr", rate = "1 Mbit/s", packet = "700 B" }
        [[interferer]]
        nodes = [2, 3]
        period = "30 ms"
        duty = 0.1
        jitter = 0.4
        "#,
    ),
    (
        "wired",
        r#"
        duration = "5 s"
        [radio]
        reception = "sinr"
        adaptation = "arf"
        errors = { bit = [1e-6, 2e-6, 1e-5, 4e-5] }
        [topology]
        random = { nodes = 12, width = "600 m", seed = 3 }
        gateway = 0
        [wired]
        hosts = ["server"]
        [traffic]
        flows = "down"
        host = "server"
        traffic = "http"
        "#,
    ),
];

#[test]
fn nothing_has_changed() {
    let mut now = String::new();
    for (name, text) in WORLDS {
        let scenario = draft_from_toml(name, text).unwrap().build().unwrap();
        for seed in [1, 2] {
            let r = run(&scenario, &RunOptions { seed, ..RunOptions::default() }).unwrap();
            assert!(r.totals.transmissions > 1000, "{name} is too quiet to tell");
            now += &format!("{name} {seed} {} {}\n", r.totals.transmissions, r.fingerprint);
        }
    }
    assert!(now == KEPT, "kept:\n{KEPT}\nnow:\n{now}");
}
