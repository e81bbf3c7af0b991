//! The product does not contain the experiments.

use std::process::Command;

#[test]
fn no_experiment_is_part_of_the_product() {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "fairmesh", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let tree = String::from_utf8(out.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|l| l.split(' ').next()).collect();
    assert!(names.contains(&"fairmesh-lab") && names.len() > 50, "{tree}");
    for none in ["fairmesh-experiments", "include_dir"] {
        assert!(!names.contains(&none), "the product depends on {none}");
    }
}
