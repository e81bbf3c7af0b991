//! Tests that need root, one at a time.

use std::io::Write;
use std::sync::{Mutex, MutexGuard};

use super::namespace::run;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Locks the machine for one test, or prints why the test is skipped.
///
/// With `FAIRMESH_NO_SKIP` set a skipped test fails.
pub fn root(test: &str) -> Option<MutexGuard<'static, ()>> {
    let able = nix::unistd::geteuid().is_root()
        && run("ip", &["netns", "list"]).is_some_and(|o| o.status.success())
        && run("nft", &["--version"]).is_some_and(|o| o.status.success());
    if !able {
        // Past the capture of the test harness: a skipped test should not look like a passed one.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: needs root, iproute2 and nftables");
        assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner()))
}
