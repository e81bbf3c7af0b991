//! Directory of the nodes behind a mesh: the contract of a host, and the sources of this one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::config::Discover;
use super::sources::{self, Discovery, FailedSource, SourceError};

/// Source of a mesh's nodes with their addresses.
pub trait NodeDirectory {
    /// Returns the present nodes.
    ///
    /// It may take seconds, so it is called on a separate thread. A source that fails is in [`Discovery::failed`] and
    /// does not block the others.
    fn nodes(&mut self) -> Discovery;
}

/// Sources that a configuration names: routing daemons, files, the kernel's tables.
#[derive(Clone, PartialEq, Debug)]
pub struct Sources {
    /// Configured sources.
    pub discover: Discover,
    /// Name of the mesh interface.
    pub mesh: String,
}

impl NodeDirectory for Sources {
    fn nodes(&mut self) -> Discovery {
        sources::fetch(&self.discover, &self.mesh)
    }
}

/// Queries a directory; a panic in it is reported as a failure.
pub fn ask(directory: &mut impl NodeDirectory) -> Discovery {
    let asked = catch_unwind(AssertUnwindSafe(|| directory.nodes()));
    asked.unwrap_or_else(|_| Discovery {
        found: Vec::new(),
        failed: vec![FailedSource { name: String::new(), problem: SourceError::Panic }],
        ..Discovery::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that fails at its second call.
    struct Fragile(u32);

    impl NodeDirectory for Fragile {
        fn nodes(&mut self) -> Discovery {
            self.0 += 1;
            assert_ne!(self.0, 2, "a test's own failure");
            Discovery::default()
        }
    }

    #[test]
    fn a_directory_that_fails_is_asked_again() {
        let mut directory = Fragile(0);
        let failures: Vec<usize> = (0..3).map(|_| ask(&mut directory).failed.len()).collect();
        assert_eq!(failures, [0, 1, 0]);
    }
}
