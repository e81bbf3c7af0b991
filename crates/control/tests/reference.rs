//! The page of variants and parameters has a row for each declaration.

use fairmesh_control::{Registry, reference};

#[test]
fn every_variant_and_parameter_has_a_row_below_its_mechanism() {
    let registry = Registry::standard();
    let page = reference(&registry);
    let mut sections = page.split("\n## ").skip(1);
    for definition in registry.all() {
        let section = sections.next().unwrap();
        assert_eq!(section.lines().next(), Some(&*definition.name));
        let rows: Vec<&str> = section.lines().filter(|l| l.starts_with("| `")).collect();
        assert_eq!(rows.len(), definition.variants.len() + definition.parameters.len());
        for row in &rows {
            assert_eq!(
                row.replace("\\|", "").matches('|').count(),
                if row.starts_with("| `+") { 4 } else { 6 },
                "{row}"
            );
        }
        for name in definition.variants.iter().map(|v| format!("| `+{}` |", v.name)) {
            assert!(rows.iter().any(|r| r.starts_with(&name)), "{name}");
        }
        for name in definition.parameters.iter().map(|p| format!("| `{}` |", p.name)) {
            assert!(rows.iter().any(|r| r.starts_with(&name)), "{name}");
        }
    }
    assert_eq!(sections.next(), None);
}
