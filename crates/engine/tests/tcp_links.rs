//! The fair rate of TCP over links with many packets per frame, compared with TCP's goodput.

use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{ImportOptions, parse};

/// Goodput over the fair rate, of the sum of all flows.
fn of_model(radio: &str, topology: &str, traffic: &str) -> f64 {
    let text = format!(
        "duration = \"12 s\"\nwarmup = \"2 s\"\n[radio]\n{radio}\nreception = \"nocap\"\nqueue = 400\n\
         [topology]\n{topology}\ngateway = 0\n[traffic]\n{traffic}\n"
    );
    let scenario = parse("links.toml", text.as_bytes(), &ImportOptions::default()).unwrap();
    let flows = run(&scenario, &RunOptions::default()).unwrap().flows;
    let sum =
        |of: fn(&fairmesh_engine::record::FlowRecord) -> f64| flows.iter().map(of).sum::<f64>();
    sum(|f| f.goodput_bps) / sum(|f| f.fair_bps.unwrap())
}

const RADIOS: [&str; 6] = [
    "phy = \"802.11n\"\nmcs = 7",
    "phy = \"802.11n\"\nmcs = 15\nwidth = \"40 MHz\"",
    "phy = \"802.11ac\"\nwidth = \"80 MHz\"\nmcs = 7\nstreams = 2",
    "phy = \"802.11ac\"\nwidth = \"40 MHz\"\nmcs = 2",
    "phy = \"802.11ax\"\nwidth = \"80 MHz\"\nmcs = 4\nstreams = 2",
    "phy = \"802.11ax\"\nwidth = \"20 MHz\"\nmcs = 11",
];
const AGGREGATION: [&str; 4] = [
    "ampdu = \"0 B\"\namsdu = \"3839 B\"",
    "ampdu = \"0 B\"\namsdu = \"7935 B\"",
    "",
    "amsdu = \"3839 B\"",
];

/// A frame of acknowledgements holds those of the data before it.
///
/// The fair rate of one flow over one link is within a twentieth of TCP's goodput, which is reduced by its
/// own losses.
#[test]
fn acknowledgements_ride_as_they_come() {
    let link = "chain = { hops = 1, spacing = \"200 m\" }";
    let mut all = Vec::new();
    for radio in RADIOS {
        for aggregation in AGGREGATION {
            for rts in ["", "rts = true"] {
                for flows in ["flows = \"up\"", "flows = \"down\""] {
                    let radio = format!("{radio}\n{aggregation}\n{rts}");
                    let ratio = of_model(&radio, link, flows);
                    let close = (0.93..1.03).contains(&ratio);
                    assert!(close, "{radio}\n{flows}: {ratio:.3} of the model");
                    all.push(ratio);
                }
            }
        }
    }
    all.sort_by(f64::total_cmp);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    println!("{} links: {:.3} to {:.3}, mean {mean:.3}", all.len(), all[0], all[all.len() - 1]);
    assert!((0.97..1.01).contains(&mean), "mean {mean:.3}");
}
