//! Prints the page of the gateway's events, which `make site` builds into the site.

fn main() {
    print!("{}", fairmesh_agent::events::page());
}
