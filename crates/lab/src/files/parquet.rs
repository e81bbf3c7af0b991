//! Flat tables for pandas, polars, DuckDB and similar tools.

use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::frame::{Column, Frame, Values};

fn field(column: &Column) -> Result<Arc<Type>> {
    let (physical, converted, repetition) = match column.values {
        Values::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED),
        Values::Int(_) => (Physical::INT64, ConvertedType::NONE, Repetition::REQUIRED),
        Values::Float(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::REQUIRED),
        Values::Maybe(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
    };
    let field = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(repetition)
        .with_converted_type(converted);
    Ok(Arc::new(field.build()?))
}

fn write(values: &Values, writer: &mut SerializedColumnWriter<'_>) -> Result<usize> {
    match values {
        Values::Text(v) => {
            let v: Vec<ByteArray> = v.iter().map(|text| ByteArray::from(text.as_str())).collect();
            writer.typed::<ByteArrayType>().write_batch(&v, None, None)
        }
        Values::Int(v) => writer.typed::<Int64Type>().write_batch(v, None, None),
        Values::Float(v) => writer.typed::<DoubleType>().write_batch(v, None, None),
        Values::Maybe(v) => {
            let values: Vec<f64> = v.iter().flatten().copied().collect();
            let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
            writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)
        }
    }
}

/// A Parquet file that is written table by table, each a row group.
pub struct Writer<W: std::io::Write + Send>(SerializedFileWriter<W>);

impl<W: std::io::Write + Send> Writer<W> {
    /// Begins a file of tables with the columns of `first`, without its rows.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn new(out: W, first: &Frame) -> Result<Self> {
        Self::with_metadata(out, first, Vec::new())
    }

    /// Begins a file with metadata of its own.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn with_metadata(out: W, first: &Frame, metadata: Vec<KeyValue>) -> Result<Self> {
        let fields = first.columns.iter().map(field).collect::<Result<_>>()?;
        let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let metadata = Some(metadata).filter(|m| !m.is_empty());
        let properties = properties.set_key_value_metadata(metadata).build();
        Ok(Writer(SerializedFileWriter::new(out, schema, Arc::new(properties))?))
    }

    /// Writes the rows of a table.
    ///
    /// # Errors
    /// If the columns differ in length or from those of the file, or the file cannot be written.
    pub fn write(&mut self, frame: &Frame) -> Result<()> {
        let mut group = self.0.next_row_group()?;
        for column in &frame.columns {
            // The writer returns the columns in the order of the schema, which is ours.
            let Some(mut w) = group.next_column()? else { break };
            write(&column.values, &mut w)?;
            w.close()?;
        }
        group.close().map(|_| ())
    }

    /// Writes the end of the file and returns the writer below.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn finish(self) -> Result<W> {
        self.0.into_inner()
    }
}

/// Encodes a table as one Parquet file with one row group.
///
/// # Errors
/// Returns an error if the columns differ in length.
pub fn encode(frame: &Frame) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), frame)?;
    writer.write(frame)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row, RowAccessor};

    use super::*;
    use crate::frame::{flows, series};
    use crate::testing::record;

    fn read(bytes: Vec<u8>) -> SerializedFileReader<bytes::Bytes> {
        SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap()
    }

    #[test]
    fn flows_come_back_as_written() {
        let mut r = record("fifo", 3, &[(1e5, 2e5, 1), (0.0, 2e5, 2)]);
        r.flows[1].packets_delivered = 0;
        r.flows[1].tcp = None;
        let reader = read(encode(&flows(&[vec![r]])).unwrap());
        let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(|r| r.unwrap()).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get_string(0).unwrap(), "fifo");
        assert_eq!(rows[0].get_long(1).unwrap(), 3);
        assert_eq!(rows[0].get_double(7).unwrap(), 1e5);
        let delay = |i: usize| {
            rows[i].get_column_iter().find(|(n, _)| *n == "delay_mean_s").unwrap().1.clone()
        };
        assert_eq!(delay(0), Field::Double(0.05));
        assert_eq!(delay(1), Field::Null);
    }

    #[test]
    fn series_are_long_and_named() {
        let r = record("fifo", 1, &[(1e5, 2e5, 1)]);
        let reader = read(encode(&series(&[vec![r]])).unwrap());
        // Four instants: goodput and window of one flow, queue of two nodes.
        assert_eq!(reader.metadata().file_metadata().num_rows(), 16);
        let queues = reader
            .get_row_iter(None)
            .unwrap()
            .map(|r| r.unwrap())
            .filter(|r| r.get_string(2).unwrap() == "queue_packets")
            .count();
        assert_eq!(queues, 8);
    }

    #[test]
    fn an_empty_table_is_a_valid_file() {
        let reader = read(encode(&series(&[])).unwrap());
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }
}
