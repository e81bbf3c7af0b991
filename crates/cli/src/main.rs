//! The fairmesh command line.
fn main() {}
