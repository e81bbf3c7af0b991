//! Rebuilds this crate when a file is added to or removed from an embedded folder.

fn main() {
    for folder in ["reproductions", "scenarios"] {
        println!("cargo:rerun-if-changed=../../{folder}");
    }
}
