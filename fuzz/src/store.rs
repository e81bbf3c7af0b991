//! Shards of a store, as left by another program, a full disk or a stopped writer.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use fairmesh_lab::store::Stored;
use fairmesh_lab::{JobKey, OtherRevisions, Revision, Store, StoreError};
use serde::{Deserialize, Serialize};

/// Revision of the store under test.
const REVISION: &str = "fuzz";

/// A record of any form.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Any(serde_json::Value);

impl Stored for Any {
    const KIND: &'static str = "fuzz";
}

/// A folder that is removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fairmesh-fuzz-store-{}-{n}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens a store with shards from bytes, separated by form feeds.
///
/// A line `@h` stands for the header, and `@N TEXT` for a record with the key N and the value TEXT,
/// because checksums are rarely guessed.
///
/// An error is one line that names the folder. A store that opens returns each of its records or
/// names its line, accepts another record, and has all of them when it is opened again.
pub fn store(bytes: &[u8]) {
    let folder = Folder::new();
    for (n, shard) in bytes.split(|b| *b == 0x0c).take(4).enumerate() {
        let lines: Vec<Vec<u8>> = shard.split(|b| *b == b'\n').map(expanded).collect();
        fs::write(folder.0.join(format!("shard-1-{n}.jsonl")), lines.join(&b'\n'))
            .expect("a shard");
    }
    let open = || Store::open_at(&folder.0, Revision::named(REVISION), OtherRevisions::Keep);
    let store = match open() {
        Ok(store) => store,
        Err(e) => return refused(&folder, &e),
    };
    for notice in store.notices() {
        one_line(&notice.to_string());
    }
    let keys = store.keys();
    for key in &keys {
        assert!(store.place(key).is_some(), "{key} has no place");
        if let Err(e) = store.get::<Any>(key) {
            refused(&folder, &e);
        }
    }
    let key = key(255);
    match store.put(key, &Any("new".into())) {
        Ok(()) => assert!(store.contains(&key)),
        Err(e @ StoreError::Conflict { .. }) => one_line(&e.to_string()),
        Err(e) => panic!("a new record: {e}"),
    }
    drop(store);
    let again = open().expect("the store opened before");
    assert!(again.contains(&key) && keys.iter().all(|key| again.contains(key)));
}

fn refused(folder: &Folder, e: &StoreError) {
    let line = e.to_string();
    one_line(&line);
    assert!(line.contains(folder.0.to_str().expect("a plain name")), "no file name: {line}");
}

fn one_line(text: &str) {
    assert!(!text.chars().any(char::is_control), "more than one line: {text:?}");
}

fn key(n: u8) -> JobKey {
    format!("{n:064x}").parse().expect("64 digits")
}

/// Expands the short forms of a line of a shard.
fn expanded(line: &[u8]) -> Vec<u8> {
    let Some(short) = line.strip_prefix(b"@") else { return line.to_vec() };
    if short == b"h" {
        return format!("{{\"store\":1,\"revision\":\"{REVISION}\",\"generator\":\"fuzz\"}}")
            .into_bytes();
    }
    let Some((&n, text)) = short.split_first() else { return line.to_vec() };
    let value = serde_json::Value::from(String::from_utf8_lossy(text)).to_string();
    let (key, kind) = (key(n).to_string(), Any::KIND);
    let mut sum = crc32fast::Hasher::new();
    for part in [&key, "\n", kind, "\n", &value] {
        sum.update(part.as_bytes());
    }
    let sum = sum.finalize();
    format!("{{\"key\":\"{key}\",\"kind\":\"{kind}\",\"crc32\":{sum},\"value\":{value}}}")
        .into_bytes()
}
