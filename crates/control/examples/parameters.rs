//! Prints docs/controls/parameters.md.

fn main() {
    print!("{}", fairmesh_control::reference(&fairmesh_control::Registry::standard()));
}
