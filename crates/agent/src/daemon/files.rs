//! Reading of files that other programs may have replaced: only regular ones, up to a size.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

/// Treatment of a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// Files that an operator may link to, such as the configuration.
    Follow,
    /// Files that only the daemon writes.
    Refuse,
}

/// Reads a regular file of at most `limit` bytes as UTF-8.
///
/// A FIFO, device, socket or directory is refused at once instead of being waited for.
///
/// # Errors
/// The system's, or `InvalidInput` with the kind of file that was found and the one expected.
pub fn read_text(path: &Path, limit: u64, links: Links) -> io::Result<String> {
    let mut text = String::new();
    let mut file = open(path, limit, links)?;
    // The file may grow while it is read.
    file.by_ref().take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(text)
}

fn open(path: &Path, limit: u64, links: Links) -> io::Result<File> {
    let follow = if links == Links::Refuse { O_NOFOLLOW } else { 0 };
    let opened = File::options().read(true).custom_flags(O_NONBLOCK | follow).open(path);
    let file = opened.map_err(|e| match e.raw_os_error() {
        Some(nix::libc::ELOOP) if links == Links::Refuse => refused("a symbolic link"),
        // A socket cannot be opened.
        Some(nix::libc::ENXIO) => refused("a socket or a device without driver"),
        _ => e,
    })?;
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if !kind.is_file() {
        return Err(refused(match kind {
            k if k.is_dir() => "a directory",
            k if k.is_fifo() => "a FIFO",
            k if k.is_char_device() || k.is_block_device() => "a device",
            _ => "a special file",
        }));
    }
    if metadata.len() > limit {
        return Err(too_large(limit));
    }
    Ok(file)
}

fn refused(kind: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("is {kind}; expected a regular file"))
}

fn too_large(limit: u64) -> io::Error {
    let mib = limit.div_ceil(1 << 20);
    io::Error::new(io::ErrorKind::InvalidInput, format!("is larger than {mib} MiB"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;

    use super::*;

    /// Each kind is refused at once, even if reading it would block.
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let read = |name: &str, links| read_text(&at(name), 1 << 20, links);
        std::fs::write(at("file"), "text").unwrap();
        assert_eq!(read("file", Links::Refuse).unwrap(), "text");
        nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (name, expected) in [
            ("fifo", "is a FIFO; expected a regular file"),
            ("folder", "is a directory; expected a regular file"),
            ("device", "is a device; expected a regular file"),
            ("socket", "is a socket or a device without driver; expected a regular file"),
        ] {
            assert_eq!(read(name, Links::Follow).unwrap_err().to_string(), expected, "{name}");
        }
        assert_eq!(read("link", Links::Follow).unwrap(), "text");
        let refused = read("link", Links::Refuse).unwrap_err().to_string();
        assert_eq!(refused, "is a symbolic link; expected a regular file");
        let huge = File::create(at("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        assert_eq!(read("huge", Links::Refuse).unwrap_err().to_string(), "is larger than 1 MiB");
        assert_eq!(read("none", Links::Refuse).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
