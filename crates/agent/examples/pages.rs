//! Writes the pages of events and metrics into a folder, for `make site`.

use std::path::PathBuf;

use fairmesh_agent::{events, gateway, node};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.expect("one argument, the folder of the pages");
    std::fs::write(folder.join("events.md"), events::page())?;
    let metrics = gateway::metrics::reference() + "\n" + &node::metrics::reference();
    std::fs::write(folder.join("metrics.md"), metrics)
}
