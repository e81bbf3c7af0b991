//! Files that are not scenarios, and malicious files, are refused like other invalid input.

mod common;

use common::refuse;
use fairmesh_scenario::{ImportOptions, Problem, parse};

#[test]
fn files_that_are_no_scenario() {
    let problem = |bytes: &[u8]| {
        let e = parse("f", bytes, &ImportOptions::default()).unwrap_err();
        assert_eq!(e.file.as_deref(), Some("f"));
        assert!(!e.to_string().contains('\n'));
        e.problem
    };
    assert_eq!(problem(b""), Problem::Empty);
    assert_eq!(problem(b" \n\t "), Problem::Empty);
    assert_eq!(problem("\u{feff}".as_bytes()), Problem::Empty);
    assert_eq!(problem(b"name = \"\xff\""), Problem::NotUtf8 { offset: 8 });
    assert!(matches!(problem(b"\0\0\0\0"), Problem::Syntax(_) | Problem::Refused { .. }));
    assert_eq!(problem(b"{}"), Problem::UnknownFormat);
    assert_eq!(problem(b"{\"type\": \"NetworkRoutes\"}"), Problem::UnknownFormat);
    assert!(matches!(problem(b"{\"type\": "), Problem::Syntax(_)));
    let huge = vec![b'a'; fairmesh_scenario::MAX_TOML_BYTES + 1];
    assert!(matches!(problem(&huge), Problem::FileTooLarge { .. }));
    let huge = vec![b'{'; fairmesh_scenario::MAX_FILE_BYTES + 1];
    assert!(matches!(problem(&huge), Problem::FileTooLarge { .. }));
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let text = format!("x = {}1{}", open.repeat(100_000), close.repeat(100_000));
        refuse(&text);
    }
    let json = format!("{{\"nodes\": {}", "[".repeat(100_000));
    refuse(&json);
    refuse(&"{\"a\":".repeat(100_000));
    refuse(&"[a.".repeat(100_000));
}

#[test]
fn large_invalid_files_fail_fast() {
    // Ten megabytes of TOML are refused by size; this is the largest size that is parsed.
    let size = fairmesh_scenario::MAX_TOML_BYTES;
    let mut noise = fairmesh_units::Stream::new(1, "garbage");
    let printable: String = (0..size).map(|_| char::from(32 + noise.below(95) as u8)).collect();
    for text in [
        "\0".repeat(size),
        "=".repeat(size),
        "a".repeat(size),
        "[".repeat(size),
        "\"".repeat(size),
        "a = [\n".repeat(size / 6),
        "a\n".repeat(size / 2),
        "a.".repeat(size / 2),
        "{".repeat(size),
        format!("{{\"type\":\"NetworkGraph\",\"nodes\":[{}", "{\"id\":\"a\"},".repeat(size / 11)),
        format!("{{{}", "9".repeat((10 << 20) - 1)),
        format!("{{\"nodes\":[{}]}}", "0,".repeat(5 << 20)),
        "x".repeat(10 << 20),
        printable,
    ] {
        refuse(&text);
    }
}

#[test]
fn hostile_text_in_messages_is_tamed() {
    let e = refuse(&format!("\"k\\n\\u001b[31m{}\" = 1", "y".repeat(5000)));
    let line = e.to_string();
    assert!(line.chars().all(|c| !c.is_control()), "{line}");
    assert!(line.len() < 1500, "{}", line.len());
}
