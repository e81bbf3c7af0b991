//! What is compiled in are whole folders: a file that comes or goes there makes this crate be built anew.

fn main() {
    for folder in ["reproductions", "scenarios"] {
        println!("cargo:rerun-if-changed=../../{folder}");
    }
}
