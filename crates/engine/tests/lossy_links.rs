//! Capacity of a link that loses MPDUs, compared with the goodput of a lone saturated sender.

use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{ImportOptions, parse};

/// Goodput relative to the model's, of a saturated sender.
fn of_model(radio: &str, delivery: f64, back: f64) -> f64 {
    let text = format!(
        "duration = \"6 s\"\nwarmup = \"1 s\"\n[radio]\n{radio}\nreception = \"nocap\"\nqueue = 1000\n\
         [topology]\nlinks = [{{ from = 0, to = 1, delivery = {delivery}, delivery_back = {back} }}]\n\
         [[flow]]\nfrom = 0\nto = 1\ntraffic = {{ kind = \"cbr\", rate = \"700 Mbit/s\", packet = \"1472 B\" }}\n"
    );
    let scenario = parse("lone.toml", text.as_bytes(), &ImportOptions::default()).unwrap();
    let flow = &run(&scenario, &RunOptions::default()).unwrap().flows[0];
    flow.goodput_bps / flow.fair_bps.unwrap()
}

/// The model includes windows, lost BlockAcks and shorter frames.
///
/// The error is within a tenth from 2 to 50 % of loss.
#[test]
fn the_model_of_a_lossy_link_is_within_a_tenth() {
    let ac = "phy = \"802.11ac\"\nwidth = \"80 MHz\"\nmcs = 4\nstreams = 2";
    let radios = [
        "phy = \"802.11n\"\nmcs = 4\nstreams = 2",
        "phy = \"802.11n\"\nmcs = 0",
        ac,
        "phy = \"802.11ax\"\nwidth = \"80 MHz\"\nmcs = 7\nstreams = 2",
    ];
    for radio in radios {
        for both in [0.98, 0.9, 0.8, 0.65, 0.5] {
            let ratio = of_model(radio, both, both);
            assert!((ratio - 1.0).abs() < 0.1, "{radio}\n{both} each way: {ratio:.3} of the model");
        }
    }
    for (there, back) in [(0.9, 1.0), (1.0, 0.8), (0.6, 0.95), (0.95, 0.6)] {
        let ratio = of_model(ac, there, back);
        assert!((ratio - 1.0).abs() < 0.1, "{there} and back {back}: {ratio:.3} of the model");
    }
}
