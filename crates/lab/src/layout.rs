//! Identity of the layout of results, shared by all code that writes them.

/// Version of the layout. Keys may be added within a version, never removed or redefined.
pub const SCHEMA: u32 = 1;

/// Program that wrote a result, in the `generator` key of the result.
///
/// The key also marks a folder as a result of fairmesh.
pub const GENERATOR: &str = concat!("fairmesh ", env!("CARGO_PKG_VERSION"));
