//! Both daemons and their commands, without the simulator.
//!
//! Called as `fairmesh-node`, it is the daemon of mesh routers.

use std::process::ExitCode;

use fairmesh_agent::{commands, node};

fn main() -> ExitCode {
    match node::commands::is_called() {
        true => node::commands::main(),
        false => commands::main(),
    }
}
