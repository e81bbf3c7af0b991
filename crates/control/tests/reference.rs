//! The page of variants and parameters matches the declarations.

#[test]
fn the_page_of_parameters_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/controls/parameters.md");
    let page = std::fs::read_to_string(path).unwrap();
    let current = fairmesh_control::reference(&fairmesh_control::Registry::standard());
    let line = page.lines().zip(current.lines()).find(|(old, new)| old != new);
    let how = "cargo run -p fairmesh-control --example parameters > docs/controls/parameters.md";
    assert!(page == current, "{how} would change it, first here: {line:?}");
}
