//! Prints the page of parameters, which `make site` builds into the site.

fn main() {
    print!("{}", fairmesh_control::reference(&fairmesh_control::Registry::standard()));
}
