//! Flat tables for pandas, polars, DuckDB and similar tools.

use std::sync::Arc;

use fairmesh_engine::record::RunRecord;
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

/// One column: its name and values. Every column of a table has the same length.
pub enum Column<'a> {
    /// Text.
    Text(&'a str, Vec<ByteArray>),
    /// Counts and identifiers.
    Int(&'a str, Vec<i64>),
    /// Quantities.
    Float(&'a str, Vec<f64>),
    /// Quantities that may be absent.
    Maybe(&'a str, Vec<Option<f64>>),
}

impl Column<'_> {
    fn field(&self) -> Result<Arc<Type>> {
        let (name, physical, converted, repetition) = match self {
            Column::Text(n, _) => {
                (n, Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED)
            }
            Column::Int(n, _) => (n, Physical::INT64, ConvertedType::NONE, Repetition::REQUIRED),
            Column::Float(n, _) => (n, Physical::DOUBLE, ConvertedType::NONE, Repetition::REQUIRED),
            Column::Maybe(n, _) => (n, Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_converted_type(converted);
        Ok(Arc::new(field.build()?))
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<usize> {
        match self {
            Column::Text(_, v) => writer.typed::<ByteArrayType>().write_batch(v, None, None),
            Column::Int(_, v) => writer.typed::<Int64Type>().write_batch(v, None, None),
            Column::Float(_, v) => writer.typed::<DoubleType>().write_batch(v, None, None),
            Column::Maybe(_, v) => {
                let values: Vec<f64> = v.iter().flatten().copied().collect();
                let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)
            }
        }
    }
}

/// Encodes a table as one Parquet file with one row group.
///
/// # Errors
/// If the columns differ in length.
pub fn encode(columns: &[Column<'_>]) -> Result<Vec<u8>> {
    let fields = columns.iter().map(Column::field).collect::<Result<_>>()?;
    let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        // The writer returns the columns in the order of the schema, which is ours.
        let Some(mut w) = group.next_column()? else { break };
        column.write(&mut w)?;
        w.close()?;
    }
    group.close()?;
    writer.into_inner()
}

/// Returns text cells.
pub fn text<'a>(values: impl Iterator<Item = &'a str>) -> Vec<ByteArray> {
    values.map(ByteArray::from).collect()
}

/// Returns the columns of `flows.parquet`: one row per control, seed and flow.
pub fn flows(records: &[Vec<RunRecord>]) -> Vec<Column<'static>> {
    let rows: Vec<_> =
        records.iter().flatten().flat_map(|r| r.flows.iter().map(move |f| (r, f))).collect();
    let float = |name, f: &dyn Fn(&fairmesh_engine::record::FlowRecord) -> f64| {
        Column::Float(name, rows.iter().map(|(_, x)| f(x)).collect())
    };
    let maybe = |name, f: &dyn Fn(&fairmesh_engine::record::FlowRecord) -> Option<f64>| {
        Column::Maybe(name, rows.iter().map(|(_, x)| f(x)).collect())
    };
    let int = |name, f: &dyn Fn(&fairmesh_engine::record::FlowRecord) -> u64| {
        Column::Int(name, rows.iter().map(|(_, x)| f(x) as i64).collect())
    };
    vec![
        Column::Text("control", text(rows.iter().map(|(r, _)| r.control.as_str()))),
        Column::Int("seed", rows.iter().map(|(r, _)| r.seed as i64).collect()),
        Column::Text("flow", text(rows.iter().map(|(_, f)| f.name.as_str()))),
        Column::Text("from", text(rows.iter().map(|(_, f)| f.from.as_str()))),
        Column::Text("to", text(rows.iter().map(|(_, f)| f.to.as_str()))),
        int("hops", &|f| f.hops.into()),
        float("weight", &|f| f.weight),
        float("goodput_bps", &|f| f.goodput_bps),
        maybe("fair_bps", &|f| f.fair_bps),
        maybe("delay_mean_s", &|f| (f.packets_delivered > 0).then_some(f.delay_s.mean)),
        maybe("delay_std_s", &|f| (f.packets_delivered > 0).then_some(f.delay_s.std)),
        maybe("delay_p50_s", &|f| (f.packets_delivered > 0).then_some(f.delay_s.p50)),
        maybe("delay_p95_s", &|f| (f.packets_delivered > 0).then_some(f.delay_s.p95)),
        maybe("delay_p99_s", &|f| (f.packets_delivered > 0).then_some(f.delay_s.p99)),
        int("packets_sent", &|f| f.packets_sent),
        int("packets_delivered", &|f| f.packets_delivered),
        int("drops_queue", &|f| f.drops.queue),
        int("drops_wire", &|f| f.drops.wire),
        int("drops_retry_limit", &|f| f.drops.retry_limit),
        int("drops_limiter", &|f| f.drops.limiter),
        maybe("tcp_segments", &|f| f.tcp.map(|t| t.segments as f64)),
        maybe("tcp_retransmits", &|f| f.tcp.map(|t| t.retransmits as f64)),
        maybe("tcp_timeouts", &|f| f.tcp.map(|t| t.timeouts as f64)),
        maybe("tcp_mean_cwnd_bytes", &|f| f.tcp.map(|t| t.mean_cwnd_bytes)),
        maybe("quic_packets", &|f| f.quic.map(|q| q.packets as f64)),
        maybe("quic_retransmits", &|f| f.quic.map(|q| q.retransmits as f64)),
        maybe("quic_lost", &|f| f.quic.map(|q| q.lost as f64)),
        maybe("quic_probe_timeouts", &|f| f.quic.map(|q| q.probe_timeouts as f64)),
        maybe("quic_congestion_events", &|f| f.quic.map(|q| q.congestion_events as f64)),
        maybe("quic_marks", &|f| f.quic.map(|q| q.marks as f64)),
        maybe("quic_mean_cwnd_bytes", &|f| f.quic.map(|q| q.mean_cwnd_bytes)),
        maybe("transfers", &|f| f.transfers.map(|t| t.completed as f64)),
        maybe("transfer_mean_s", &|f| f.transfers.map(|t| t.mean_s)),
        maybe("transfer_p95_s", &|f| f.transfers.map(|t| t.p95_s)),
    ]
}

/// Returns the columns of `series.parquet`: one row per control, seed, quantity, subject and instant.
///
/// `quantity` is `goodput_bps`, `cwnd_bytes` or `limit_bps` (subject: a flow) or `queue_packets`
/// (subject: a node).
pub fn series(records: &[Vec<RunRecord>]) -> Vec<Column<'static>> {
    let mut rows = (vec![], vec![], vec![], vec![], vec![], vec![]);
    for r in records.iter().flatten() {
        let s = &r.series;
        let flow = |i: usize| r.flows[i].name.as_str();
        let node = |i: usize| r.nodes[i].name.as_str();
        let mut add = |quantity: &str, name: &str, values: &[f64]| {
            for (t, v) in s.time_s.iter().zip(values) {
                rows.0.push(ByteArray::from(r.control.as_str()));
                rows.1.push(r.seed as i64);
                rows.2.push(ByteArray::from(quantity));
                rows.3.push(ByteArray::from(name));
                rows.4.push(*t);
                rows.5.push(*v);
            }
        };
        for (quantity, curves) in [
            ("goodput_bps", &s.goodput_bps),
            ("cwnd_bytes", &s.cwnd_bytes),
            ("limit_bps", &s.limit_bps),
        ] {
            curves.iter().enumerate().for_each(|(i, v)| add(quantity, flow(i), v));
        }
        s.queue_packets.iter().enumerate().for_each(|(i, v)| add("queue_packets", node(i), v));
    }
    vec![
        Column::Text("control", rows.0),
        Column::Int("seed", rows.1),
        Column::Text("quantity", rows.2),
        Column::Text("subject", rows.3),
        Column::Float("time_s", rows.4),
        Column::Float("value", rows.5),
    ]
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, RowAccessor};

    use super::*;
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
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|r| r.unwrap()).collect();
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
