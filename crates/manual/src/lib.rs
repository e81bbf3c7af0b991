//! Man pages and shell completions, generated from a program's arguments.
//!
//! A build tool: no program links it. `cargo run -p fairmesh-agent --example gateway-manual`, `--example node-manual`
//! and `cargo run -p fairmesh --example manual` write those of each program; the packages contain them.

#![allow(clippy::disallowed_methods)]

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

/// Shells for which completions are written.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes a program's man pages, one per command, and its completions.
///
/// They are in `folder`/man1 and `folder`/completions.
///
/// # Errors
/// If a file cannot be written.
pub fn write(program: &Command, folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man1"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    // Each command has its own page; a page of `help` adds nothing.
    let program = program.clone().disable_help_subcommand(true);
    clap_mangen::generate_to(program.clone(), man)?;
    for shell in SHELLS {
        let name = program.get_name().to_owned();
        clap_complete::generate_to(shell, &mut program.clone(), name, &completions)?;
    }
    Ok(())
}

/// Main function of a program that writes them, with the folder as its only argument.
///
/// # Errors
/// Without an argument, or if a file cannot be written.
pub fn main(program: &Command) -> io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "no folder given; expected: manual FOLDER")
    })?;
    write(program, Path::new(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completions() {
        let folder = tempfile::tempdir().unwrap();
        let run = Command::new("run").about("Run it").arg(Arg::new("seed").long("seed"));
        let hidden = Command::new("guard").hide(true);
        let program = Command::new("mesh").about("A mesh").subcommand(run).subcommand(hidden);
        write(&program, folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("man1/mesh.1").contains("run"));
        assert!(read("man1/mesh-run.1").contains("seed"));
        assert!(!folder.path().join("man1/mesh-guard.1").exists());
        for name in ["mesh.bash", "_mesh", "mesh.fish"] {
            assert!(read(&format!("completions/{name}")).contains("seed"), "{name}");
        }
    }
}
