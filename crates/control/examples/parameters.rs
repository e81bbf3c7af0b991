//! Prints docs/controls/parameters.md.

fn main() {
    print!("{}", fairmesh_control::reference());
}
