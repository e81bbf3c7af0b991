//! Progress and notes of an emulation.

use std::io::{self, Write};

use fairmesh_emulator::{Network, Progress};
use fairmesh_scenario::Scenario;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Prints the nodes of an emulation, unless `quiet`, and the network's notes.
///
/// Nodes have names, addresses and namespaces.
pub fn announce(scenario: &Scenario, network: &Network, quiet: bool) {
    let mut text = String::new();
    if !quiet {
        for (node, plan) in scenario.nodes().iter().zip(&network.plan.nodes) {
            text += &format!(
                "fairmesh: node {}: {}, ip netns exec {} …\n",
                node.name, plan.address, plan.namespace
            );
        }
    }
    for note in &network.notes {
        text += &format!("fairmesh: note: {note}\n");
    }
    // A closed standard error does not end the emulation.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Returns a bar over a scenario's time; it is hidden if a shell uses the terminal.
pub fn bar(scenario: &Scenario, shown: bool) -> ProgressBar {
    let target = match shown {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let length = scenario.duration().as_nanos() / 1_000_000;
    let bar = ProgressBar::with_draw_target(Some(length), target);
    // The template is a constant; the default style is sufficient too.
    if let Ok(style) = ProgressStyle::with_template("emulating [{bar:30}] {percent} %, {eta} to go")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Moves a bar of [`bar`] to the run's time.
pub fn show(bar: &ProgressBar, p: &Progress) {
    bar.set_position(p.now.as_nanos() / 1_000_000);
}
