use std::fs;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::layout::GENERATOR;

/// A small record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    text: String,
    rate: f64,
}

impl Stored for Note {
    const KIND: &'static str = "note";
}

/// Another kind of record.
#[derive(Debug, Serialize, Deserialize)]
struct Other(u8);

impl Stored for Other {
    const KIND: &'static str = "other";
}

fn revision() -> Revision {
    Revision::named("7.1")
}

fn key(n: usize) -> JobKey {
    format!("{n:064x}").parse().unwrap()
}

fn note(n: usize) -> Note {
    Note { text: format!("line\n{n} \"ä\""), rate: n as f64 / 3.0 }
}

fn open(folder: &Path) -> Store {
    Store::open_at(folder, revision(), OtherRevisions::Refuse).unwrap()
}

fn shards(folder: &Path) -> Vec<PathBuf> {
    shard::shards_of(folder).unwrap()
}

/// Returns a store with one shard of `n` records.
fn filled(n: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    (0..n).for_each(|i| store.put(key(i), &note(i)).unwrap());
    dir
}

fn held(store: &Store, most: usize) -> Vec<usize> {
    let there = |i: &usize| match store.get::<Note>(&key(*i)).unwrap() {
        Some(found) => {
            assert_eq!(found, note(*i));
            true
        }
        None => false,
    };
    (0..most).filter(there).collect()
}

#[test]
fn a_record_is_found_by_the_store_that_wrote_it_and_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("a/b"));
    assert!(store.is_empty() && store.get::<Note>(&key(0)).unwrap().is_none());
    store.put(key(0), &note(0)).unwrap();
    store.put(key(1), &Other(1)).unwrap();
    for store in [&store, &open(&dir.path().join("a/b"))] {
        assert_eq!((store.len(), held(store, 3)), (2, vec![0]));
        assert!(store.get::<Other>(&key(0)).unwrap().is_none(), "a note is no other");
        assert_eq!(store.get::<Other>(&key(1)).unwrap().unwrap().0, 1);
        assert_eq!(store.place(&key(1)).unwrap().line, 3);
        assert!(store.notices().is_empty());
    }
    // Stores that only read have written nothing, and an equal record is not written again.
    store.put(key(0), &note(0)).unwrap();
    let shard = fs::read_to_string(&shards(&dir.path().join("a/b"))[0]).unwrap();
    assert_eq!((shards(&dir.path().join("a/b")).len(), shard.lines().count()), (1, 3));
    assert!(shard.starts_with("{\"store\":1,\"revision\":\"7.1\""), "{shard}");
}

#[test]
fn a_different_record_of_one_key_is_refused() {
    let dir = filled(1);
    let store = open(dir.path());
    let e = store.put(key(0), &note(1)).unwrap_err().to_string();
    assert!(e.contains(".jsonl:2: key ") && e.contains("differs from the record to add"), "{e}");
    // Differences are also found between two shards.
    let (a, b) = (tempfile::tempdir().unwrap(), filled(1));
    open(a.path()).put(key(0), &note(1)).unwrap();
    let copy = b.path().join("shard-copy.jsonl");
    fs::copy(&shards(a.path())[0], &copy).unwrap();
    let e = Store::open_at(b.path(), revision(), OtherRevisions::Refuse).unwrap_err().to_string();
    assert!(e.contains("shard-copy.jsonl:2; expected equal records"), "{e}");
}

#[test]
fn a_shard_cut_anywhere_loses_its_last_record_only_and_is_reported() {
    let dir = filled(3);
    let path = shards(dir.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let store = open(dir.path());
        let lines = ends.iter().filter(|e| **e <= cut).count();
        assert_eq!(held(&store, 3), (0..lines.saturating_sub(1)).collect::<Vec<_>>(), "{cut}");
        let complete = cut == 0 || ends.contains(&cut);
        assert_eq!(store.notices().len(), usize::from(!complete), "{cut}");
        if let [notice] = &store.notices()[..] {
            let text = notice.to_string();
            let place = format!("{}:{}: incomplete last line", path.display(), lines + 1);
            assert!(text.starts_with(&place), "{text}");
        }
    }
    // New records go to a new shard; the damaged one stays as it is.
    fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    open(dir.path()).put(key(2), &note(2)).unwrap();
    assert_eq!(held(&open(dir.path()), 3), [0, 1, 2]);
    assert_eq!(fs::read(&path).unwrap(), &whole[..whole.len() - 3]);
}

#[test]
fn the_unfinished_line_of_a_running_writer_is_not_reported() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.put(key(0), &note(0)).unwrap();
    let path = shards(dir.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let reader = open(dir.path());
    assert!(reader.is_empty() && reader.notices().is_empty());
    fs::write(&path, &whole).unwrap();
    reader.refresh().unwrap();
    assert_eq!(held(&reader, 1), [0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A changed byte of a record is an error that names file and line.
    ///
    /// The last line end is exempt: without it the last line is incomplete.
    #[test]
    fn a_damaged_record_is_named(changes in prop::collection::vec(
        (any::<prop::sample::Index>(), any::<u8>()), 20,
    )) {
        let dir = filled(3);
        let path = shards(dir.path()).remove(0);
        let whole = fs::read(&path).unwrap();
        for (at, byte) in changes {
        let mut bytes = whole.clone();
        let first = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
        let at = first + at.index(bytes.len() - 1 - first);
        if bytes[at] == byte {
            continue;
        }
        let line = bytes[..at].iter().filter(|b| **b == b'\n').count() + 1;
        bytes[at] = byte;
        fs::write(&path, &bytes).unwrap();
        let e = Store::open_at(dir.path(), revision(), OtherRevisions::Refuse).unwrap_err();
        let text = e.to_string();
        let place = format!("{}:{line}: ", path.display());
        prop_assert!(text.starts_with(&place) && matches!(e, StoreError::Damaged { .. }), "{}", text);
        }
    }

    /// The result of a merge has all records.
    ///
    /// This holds for any distribution of records over writers and any order of merging stores.
    #[test]
    fn merged_stores_have_the_records_of_both(
        writers in prop::collection::vec(prop::collection::vec(0..20_usize, 0..8), 1..5),
        split in 0..5_usize,
    ) {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for (w, records) in writers.iter().enumerate() {
            let store = open(dirs[usize::from(w < split)].path());
            for &i in records {
                store.put(key(i), &note(i)).unwrap();
            }
        }
        let mut all: Vec<usize> = writers.concat();
        all.sort_unstable();
        all.dedup();
        let merged = open(dirs[0].path());
        let (before, other) = (merged.len(), open(dirs[1].path()));
        let copied = merged.merge(&other).unwrap();
        prop_assert_eq!(copied, all.len() - before);
        prop_assert_eq!(merged.merge(&other).unwrap(), 0);
        prop_assert_eq!(held(&merged, 20), all.clone());
        prop_assert_eq!(held(&open(dirs[0].path()), 20), all);
    }
}

#[test]
fn two_open_stores_write_at_once_and_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let stores = [open(dir.path()), open(dir.path())];
    std::thread::scope(|scope| {
        for (w, store) in stores.iter().enumerate() {
            scope.spawn(move || {
                // Half of the keys are written by both.
                for i in (w * 50)..(w * 50 + 100) {
                    store.put(key(i), &note(i)).unwrap();
                    store.refresh().unwrap();
                }
            });
        }
    });
    for store in &stores {
        store.refresh().unwrap();
        assert_eq!(store.len(), 150);
    }
    assert_eq!(held(&open(dir.path()), 200), (0..150).collect::<Vec<_>>());
    assert_eq!(shards(dir.path()).len(), 2);
}

#[test]
fn another_revision_is_refused_kept_aside_or_removed() {
    let dir = filled(2);
    let at = |others| Store::open_at(dir.path(), Revision::named("8.1"), others);
    let e = at(OtherRevisions::Refuse).unwrap_err();
    assert!(matches!(&e, StoreError::OtherRevision { found, .. } if found == &["7.1"]), "{e}");
    assert!(e.to_string().contains("has records of revision 7.1; expected 8.1"), "{e}");

    let kept = at(OtherRevisions::Keep).unwrap();
    assert!(kept.is_empty());
    assert!(kept.notices()[0].to_string().ends_with("1 file of revision 7.1, not used"));
    kept.put(key(0), &note(5)).unwrap();
    assert_eq!(kept.get::<Note>(&key(0)).unwrap(), Some(note(5)), "not the old record");
    // The old program still has its own records.
    let old = Store::open_at(dir.path(), revision(), OtherRevisions::Keep).unwrap();
    assert_eq!(held(&old, 3), [0, 1]);
    let e = old.merge(&kept).unwrap_err();
    assert!(matches!(e, StoreError::OtherRevision { .. }));

    let e = at(OtherRevisions::Fresh).unwrap_err();
    assert!(matches!(e, StoreError::InUse(_)), "its writer is running: {e}");
    drop(kept);
    assert!(at(OtherRevisions::Fresh).unwrap().is_empty());
    assert!(shards(dir.path()).is_empty());
}

#[test]
fn the_program_version_of_a_shard_does_not_select_records() {
    let dir = filled(2);
    let shard = &shards(dir.path())[0];
    let text = fs::read_to_string(shard).unwrap();
    let (header, records) = text.split_once('\n').unwrap();
    let other = header.replace(GENERATOR, "fairmesh 0.0.1");
    assert_ne!(other, header);
    fs::write(shard, format!("{other}\n{records}")).unwrap();
    assert_eq!(held(&open(dir.path()), 3), [0, 1]);
}

#[test]
fn foreign_files_are_left_alone_and_a_file_is_no_store() {
    let dir = filled(1);
    fs::write(dir.path().join("notes.txt"), "hello").unwrap();
    fs::write(dir.path().join("shard-x.jsonl"), "hello\n").unwrap();
    let open_at = |path: &Path| Store::open_at(path, revision(), OtherRevisions::Refuse);
    let e = open_at(dir.path()).unwrap_err().to_string();
    assert!(e.contains("shard-x.jsonl:1: ") && e.contains("expected the header of a"), "{e}");
    fs::write(
        dir.path().join("shard-x.jsonl"),
        "{\"store\":9,\"revision\":\"\",\"generator\":\"\"}\n",
    )
    .unwrap();
    let e = open_at(dir.path()).unwrap_err().to_string();
    assert!(e.ends_with("shard-x.jsonl:1: store: found layout 9; expected 1"), "{e}");
    drop(Store::open_at(dir.path(), revision(), OtherRevisions::Fresh).unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let e = open_at(&dir.path().join("notes.txt")).unwrap_err().to_string();
    assert!(e.ends_with("notes.txt: is a file; expected a folder for a store"), "{e}");
}
