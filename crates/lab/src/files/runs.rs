//! One Parquet file with all runs of a comparison.
//!
//! It has the table of flows, and the record of each run.
//! A program that knows Parquet reads the columns of [`frame::flows`]. The column `record` has the whole record
//! of a run as JSON in the run's first row, and is empty in the others.

use std::fs::File;
use std::path::Path;

use fairmesh_engine::record::RunRecord;
use parquet::basic::Type as Physical;
use parquet::column::reader::ColumnReader;
use parquet::errors::{ParquetError, Result as Encoded};
use parquet::file::metadata::KeyValue;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde::{Deserialize, Serialize};

use super::parquet::Writer;
use crate::frame::{self, Frame, Values};
use crate::job::Revision;
use crate::layout::{GENERATOR, SCHEMA};
use crate::optimum::Optimum;
use crate::{FileProblem, LabError};

/// Name of the column with the records.
const RECORD_COLUMN: &str = "record";
/// Key of the file's metadata with the [`Head`].
const METADATA_KEY: &str = "fairmesh";
const EXPECTED_FILE: &str = "a file of `Results.to_parquet`";

/// Runs with their notes.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// One list per control, one record per seed each; no list is empty.
    pub records: Vec<Vec<RunRecord>>,
    /// Assumptions and warnings, a sentence each.
    pub notes: Vec<String>,
    /// Optimum of the scenario, if it was searched.
    pub optimum: Option<Optimum>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: u32,
    generator: String,
    revision: String,
    notes: Vec<String>,
    optimum: Option<Optimum>,
}

fn table(records: &[Vec<RunRecord>]) -> Result<Frame, serde_json::Error> {
    let mut texts = Vec::new();
    for record in records.iter().flatten() {
        texts.push(serde_json::to_string(record)?);
        texts.extend(std::iter::repeat_n(String::new(), record.flows.len().saturating_sub(1)));
    }
    let mut frame = frame::flows(records);
    frame
        .columns
        .push(frame::Column { name: RECORD_COLUMN.to_owned(), values: Values::Text(texts) });
    Ok(frame)
}

/// Encodes runs as one Parquet file. Each run has a flow or more.
///
/// # Errors
/// Returns an error if a value cannot be encoded.
pub fn encode(runs: &Runs) -> Encoded<Vec<u8>> {
    let json = |e: serde_json::Error| ParquetError::External(e.into());
    let head = Head {
        schema: SCHEMA,
        generator: GENERATOR.to_owned(),
        revision: Revision::current().as_str().to_owned(),
        notes: runs.notes.clone(),
        optimum: runs.optimum.clone(),
    };
    let frame = table(&runs.records).map_err(json)?;
    let head = KeyValue::new(METADATA_KEY.to_owned(), serde_json::to_string(&head).map_err(json)?);
    let mut writer = Writer::with_metadata(Vec::new(), &frame, vec![head])?;
    writer.write(&frame)?;
    writer.finish()
}

/// Reads a file of [`encode`].
///
/// Runs of another revision of fairmesh are read, and a note names the revision.
///
/// # Errors
/// Returns an error if the file cannot be read, or has other columns.
pub fn read(path: &Path) -> Result<Runs, LabError> {
    let at = |problem| LabError::at(path, problem);
    let file = File::open(path).map_err(|error| {
        at(match error.kind() {
            std::io::ErrorKind::NotFound => FileProblem::Missing { expected: EXPECTED_FILE },
            _ => FileProblem::Unreadable { error, expected: EXPECTED_FILE },
        })
    })?;
    let damaged = |e: ParquetError| LabError::file(path, format!("{e}; expected {EXPECTED_FILE}"));
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let meta = reader.metadata().file_metadata();
    check_columns(&reader).map_err(at)?;
    let head = meta.key_value_metadata().into_iter().flatten().find(|k| k.key == METADATA_KEY);
    let head: Head = match head.and_then(|k| k.value.as_deref()) {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| at(FileProblem::Value { key: METADATA_KEY.to_owned(), error }))?,
        None => {
            return Err(LabError::file(
                path,
                format!("has no metadata `{METADATA_KEY}`; expected {EXPECTED_FILE}"),
            ));
        }
    };
    if head.schema != SCHEMA {
        let (key, found) = ("schema".to_owned(), head.schema.to_string());
        return Err(at(FileProblem::Key { key, found, expected: SCHEMA.to_string() }));
    }
    let mut records: Vec<Vec<RunRecord>> = Vec::new();
    for text in texts(&reader).map_err(damaged)?.iter().filter(|t| !t.is_empty()) {
        let record: RunRecord = serde_json::from_str(text)
            .map_err(|error| at(FileProblem::Value { key: RECORD_COLUMN.to_owned(), error }))?;
        match records.last_mut() {
            Some(same) if same[0].control == record.control => same.push(record),
            _ => records.push(vec![record]),
        }
    }
    if records.is_empty() {
        return Err(LabError::file(path, format!("has no runs; expected {EXPECTED_FILE}")));
    }
    let mut notes = head.notes;
    if head.revision != Revision::current().as_str() {
        notes.push(format!("the runs are those of revision {} of fairmesh", head.revision));
    }
    Ok(Runs { records, notes, optimum: head.optimum })
}

/// Compares the columns with those of this version, in name, type and order.
fn check_columns(reader: &SerializedFileReader<File>) -> Result<(), FileProblem> {
    let wanted = table(&[]).map_err(|e| FileProblem::Encode(e.into()))?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let found: Vec<(&str, Physical)> =
        schema.columns().iter().map(|c| (c.name(), c.physical_type())).collect();
    let problem = |name: &str, found: String, expected: String| FileProblem::Key {
        key: format!("column {name}"),
        found,
        expected,
    };
    for (i, column) in wanted.columns.iter().enumerate() {
        let kind = match column.values {
            Values::Text(_) => Physical::BYTE_ARRAY,
            Values::Int(_) => Physical::INT64,
            Values::Float(_) | Values::Maybe(_) => Physical::DOUBLE,
        };
        let expected = format!("{kind}, as in {EXPECTED_FILE}");
        match found.iter().position(|c| c.0 == column.name) {
            None => return Err(problem(&column.name, "no such column".into(), expected)),
            Some(at) if found[at].1 != kind => {
                return Err(problem(&column.name, found[at].1.to_string(), expected));
            }
            Some(at) if at != i => {
                let place = |at: usize| format!("place {at}");
                return Err(problem(&column.name, place(at), place(i)));
            }
            Some(_) => {}
        }
    }
    match found.get(wanted.columns.len()) {
        Some((name, kind)) => {
            Err(problem(name, kind.to_string(), format!("no such column in {EXPECTED_FILE}")))
        }
        None => Ok(()),
    }
}

/// Returns the values of the last column.
fn texts(reader: &SerializedFileReader<File>) -> Encoded<Vec<String>> {
    let mut out = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let ColumnReader::ByteArrayColumnReader(mut column) =
            group.get_column_reader(group.num_columns() - 1)?
        else {
            return Err(ParquetError::General(format!("{RECORD_COLUMN} is not text")));
        };
        let mut values = Vec::new();
        let rows = group.metadata().num_rows().max(0) as usize;
        column.read_records(rows, None, None, &mut values)?;
        for value in values {
            out.push(value.as_utf8()?.to_owned());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::parquet;
    use crate::testing::record;

    fn runs() -> Runs {
        let flows = [(1e5, 2e5, 1), (1.0 / 3.0, 2e5, 2)];
        let of = |c: &str| vec![record(c, 1, &flows), record(c, 2, &flows)];
        Runs {
            records: vec![of("fifo"), of("source")],
            notes: vec!["a note".into()],
            optimum: None,
        }
    }

    #[test]
    fn runs_come_back_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.parquet");
        std::fs::write(&path, encode(&runs()).unwrap()).unwrap();
        let back = read(&path).unwrap();
        let plain = |r: &[Vec<RunRecord>]| serde_json::to_value(r).unwrap();
        assert_eq!(plain(&back.records), plain(&runs().records));
        assert_eq!(back.notes, runs().notes);
    }

    #[test]
    fn a_table_of_another_schema_is_refused_by_column() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.parquet");
        let refused = |frame: &Frame| {
            std::fs::write(&path, parquet::encode(frame).unwrap()).unwrap();
            let e = read(&path).unwrap_err();
            e.to_string().split_once("runs.parquet: ").unwrap().1.to_owned()
        };
        let e = refused(&frame::series(&runs().records));
        assert_eq!(
            e,
            "column flow: found no such column; expected BYTE_ARRAY, as in a file of `Results.to_parquet`"
        );
        let e = refused(&frame::flows(&runs().records));
        assert!(e.starts_with("column record: found no such column"), "{e}");
        let mut table = table(&runs().records).unwrap();
        let e = refused(&table);
        assert!(e.starts_with("has no metadata `fairmesh`"), "{e}");
        table.columns[1].values = Values::Float(vec![1.0; 8]);
        assert!(refused(&table).starts_with("column seed: found DOUBLE; expected INT64"));
        table.columns.swap(1, 2);
        assert!(refused(&table).starts_with("column seed: found DOUBLE"));
        std::fs::write(&path, "text").unwrap();
        let e = read(&path).unwrap_err().to_string();
        assert!(e.ends_with("expected a file of `Results.to_parquet`"), "{e}");
        let e = read(&dir.path().join("none")).unwrap_err().to_string();
        assert!(e.contains("there is no such file; expected a file of"), "{e}");
    }
}
