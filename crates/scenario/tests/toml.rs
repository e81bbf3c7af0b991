//! Worlds from TOML.

use fairmesh_scenario::{ImportOptions, Scenario, parse};

fn read(text: &str) -> Scenario {
    match parse("test.toml", text.as_bytes(), &ImportOptions::default()) {
        Ok(s) => s,
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn smoke() {
    let s = read(
        r#"
        name = "stack"
        duration = "200 s"
        [radio]
        phy = "802.11b"
        rate = "11 Mbit/s"
        rts = true
        queue = 64
        [topology]
        links = [[1,2],[2,3],[4,5],[5,6],[7,8],[8,9],[2,5],[5,8]]
        [[flow]]
        from = 4
        to = 6
        traffic = "bulk"
        transport = { tcp = "newreno", mss = "512 B", sack = true, ecn = true }
        [control]
        use = "fifo"
        "#,
    );
    eprintln!("{s:#?}");
}
