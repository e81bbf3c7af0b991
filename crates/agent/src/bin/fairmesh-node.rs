//! The daemon of a mesh router and its commands.
//!
//! In packages it is a link to `fairmesh-gateway`, which has both daemons.

use std::process::ExitCode;

fn main() -> ExitCode {
    fairmesh_agent::node::commands::main()
}
