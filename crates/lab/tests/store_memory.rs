//! Memory of a store with 100,000 records.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};

use fairmesh_lab::store::Stored;
use fairmesh_lab::{JobKey, OtherRevisions, Revision, Store};
use serde::{Deserialize, Serialize};

const RECORDS: usize = 100_000;

#[derive(Serialize, Deserialize)]
struct Record {
    number: usize,
    text: String,
}

impl Stored for Record {
    const KIND: &'static str = "test";
}

fn key(number: usize) -> JobKey {
    format!("{number:064x}").parse().unwrap()
}

/// Memory of this process that is in use, bytes.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_store_of_100_000_records_needs_memory_for_their_keys_only() {
    let dir = tempfile::tempdir().unwrap();
    let revision = Revision::named("1");
    // Written as by a writer, without waiting for the disk a hundred thousand times.
    let mut shard = BufWriter::new(File::create(dir.path().join("shard-1-0.jsonl")).unwrap());
    shard.write_all(b"{\"store\":1,\"revision\":\"1\",\"generator\":\"test\"}\n").unwrap();
    let text = "x".repeat(1000);
    for number in 0..RECORDS {
        let value = serde_json::to_string(&Record { number, text: text.clone() }).unwrap();
        let sum = crc32fast::hash(format!("{}\ntest\n{value}", key(number)).as_bytes());
        let key = key(number);
        writeln!(shard, r#"{{"key":"{key}","kind":"test","crc32":{sum},"value":{value}}}"#)
            .unwrap();
    }
    shard.flush().unwrap();
    let size = fs::metadata(dir.path().join("shard-1-0.jsonl")).unwrap().len();
    assert!(size > 100_000_000);

    let before = resident();
    let store = Store::open_at(dir.path(), revision, OtherRevisions::Refuse).unwrap();
    assert_eq!(store.len(), RECORDS);
    for number in (0..RECORDS).step_by(97) {
        assert_eq!(store.get::<Record>(&key(number)).unwrap().unwrap().number, number);
    }
    let grown = resident() - before;
    assert!(grown < 32 << 20, "{grown} bytes for {RECORDS} records in {size} bytes");
}
