//! The operator's token, and the lock after wrong ones.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::daemon::files::{self, Links};

/// Largest token file, in bytes.
const MAX_FILE_BYTES: u64 = 4096;
/// Least characters of a token.
const MIN_TOKEN_LENGTH: usize = 16;
/// Wrong tokens after which all are refused for a time.
const MAX_WRONG_TOKENS: u32 = 5;
/// Time for which all tokens are then refused.
const LOCK_TIME: Duration = Duration::from_secs(60);

/// Reason why a token is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The configuration has no token.
    #[error("this page only shows; set page.token_file to allow overrides")]
    None,
    /// The file cannot be used.
    #[error("page.token_file: {}: {problem}; expected a file that the daemon can read", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// Other users can read the file.
    #[error(
        "page.token_file: {}: is readable by other users (mode {mode:04o}); run `chmod 0600 {}`",
        path.display(),
        path.display()
    )]
    Mode {
        /// Path of the file.
        path: PathBuf,
        /// File mode.
        mode: u32,
    },
    /// The file has no token.
    #[error("page.token_file: {}: no token; expected one line of at least {MIN_TOKEN_LENGTH} characters", .0.display())]
    Empty(PathBuf),
    /// The token is wrong.
    #[error("not the token of this gateway")]
    Wrong,
    /// There were too many wrong tokens.
    #[error("too many wrong tokens; try again in a minute")]
    Locked,
}

/// Reads a token.
///
/// # Errors
/// Returns the problem of the file.
pub fn read(configured: &Path) -> Result<String, TokenError> {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let path = located(configured, credentials);
    let file = |problem| TokenError::File { path: path.clone(), problem };
    let text = files::read_text(&path, MAX_FILE_BYTES, Links::Follow).map_err(file)?;
    let meta = std::fs::metadata(&path).map_err(file)?;
    // A service manager's credential is readable for its user by an access list, which appears as its group's
    // permission.
    let (mode, group) = (meta.mode() & 0o777, meta.gid());
    if mode & 0o037 != 0 || mode & 0o040 != 0 && group != 0 {
        return Err(TokenError::Mode { path, mode });
    }
    let token = text.trim();
    if token.chars().count() < MIN_TOKEN_LENGTH || token.contains('\n') {
        return Err(TokenError::Empty(path));
    }
    Ok(token.to_owned())
}

/// Returns the path of the token, which a service manager may provide in a folder of its own.
fn located(configured: &Path, credentials: Option<PathBuf>) -> PathBuf {
    let credential = credentials.map(|folder| folder.join("page.token")).filter(|f| f.exists());
    credential.unwrap_or_else(|| configured.to_owned())
}

/// The check of tokens.
#[derive(Debug)]
pub struct Tokens {
    file: Option<PathBuf>,
    wrong: u32,
    since: Option<Instant>,
}

impl Tokens {
    /// Returns the check against a file; `None`: no token is right.
    pub fn new(file: Option<PathBuf>) -> Tokens {
        Tokens { file, wrong: 0, since: None }
    }

    /// True if there may be a right token.
    pub fn exist(&self) -> bool {
        self.file.is_some()
    }

    /// Checks a token against the file, which may have changed.
    ///
    /// # Errors
    /// Returns an error if the token is wrong, or none is right.
    pub fn check(&mut self, now: Instant, given: &str) -> Result<(), TokenError> {
        let file = self.file.as_ref().ok_or(TokenError::None)?;
        if self.since.is_some_and(|since| now.duration_since(since) >= LOCK_TIME) {
            (self.wrong, self.since) = (0, None);
        }
        if self.wrong >= MAX_WRONG_TOKENS {
            return Err(TokenError::Locked);
        }
        let right = read(file)?;
        // Equal times for all wrong tokens, since their hashes are compared.
        if Sha256::digest(given) == Sha256::digest(&right) {
            (self.wrong, self.since) = (0, None);
            return Ok(());
        }
        self.wrong += 1;
        self.since = Some(now);
        Err(TokenError::Wrong)
    }

    /// True if the last wrong token has locked the check.
    pub fn just_locked(&self) -> bool {
        self.wrong == MAX_WRONG_TOKENS
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_private_and_wrong_ones_lock_for_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let now = Instant::now();
        let mut tokens = Tokens::new(Some(file.clone()));
        let text = |e: Result<(), TokenError>| e.unwrap_err().to_string();
        assert!(text(tokens.check(now, "x")).contains("No such file"));
        std::fs::write(&file, "short\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(text(tokens.check(now, "short")).contains("at least 16 characters"));
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        assert!(tokens.check(now, "0123456789abcdef").is_ok());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(text(tokens.check(now, "0123456789abcdef")).contains("run `chmod 0600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        for _ in 0..MAX_WRONG_TOKENS {
            assert!(matches!(tokens.check(now, "0123456789abcdeX"), Err(TokenError::Wrong)));
        }
        assert!(tokens.just_locked());
        assert!(matches!(tokens.check(now, "0123456789abcdef"), Err(TokenError::Locked)));
        assert!(tokens.check(now + LOCK_TIME, "0123456789abcdef").is_ok());
        assert!(matches!(Tokens::new(None).check(now, ""), Err(TokenError::None)));
    }
}
