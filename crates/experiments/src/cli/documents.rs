//! Documents that are made from a record.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use fairmesh_lab::files::folder::write_file;

use fairmesh_front::error::CliError;
/// Documents and their places.
pub(super) type Documents = [(PathBuf, String); 2];

pub(super) fn write_all(documents: &Documents, out: &mut dyn Write) -> Result<(), CliError> {
    for (path, text) in documents {
        write_file(path, text.as_bytes())?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(())
}

/// Whether documents are what a record gives.
pub(super) fn check_all(
    documents: &Documents,
    maker: &str,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    for (path, made) in documents {
        let found = fs::read_to_string(path).map_err(|e| {
            CliError::file(path, format!("cannot be read ({e}); expected what the record gives"))
        })?;
        if found != *made {
            let same = found.lines().zip(made.lines()).take_while(|(a, b)| a == b).count();
            return Err(CliError::Verdict(format!(
                "{}:{}: is not what the record gives; expected what {maker} makes",
                path.display(),
                same + 1
            )));
        }
        writeln!(out, "{} is what the record gives", path.display())?;
    }
    Ok(())
}
