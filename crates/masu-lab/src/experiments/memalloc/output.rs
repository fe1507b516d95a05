//! The figures in files: statistics of each cell, and every measurement as Parquet or CSV, with the
//! columns of the original and the page faults.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::Serialize;

use super::{COLUMNS, Record, Results};
use crate::stats::quantile;

/// What a cell's measurements look like.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub std: f64,
    /// The median.
    pub median: f64,
    /// A quarter is below.
    pub p25: f64,
    /// A quarter is above.
    pub p75: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let quantile = |share| quantile(&values, share).unwrap_or(f64::NAN);
        Spread {
            mean,
            std: (squares / (count - 1.0).max(1.0)).sqrt(),
            median: quantile(0.5),
            p25: quantile(0.25),
            p75: quantile(0.75),
            min: values[0],
            max: values[values.len() - 1],
        }
    }
}

/// The statistics of one cell.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The column's name.
    pub allocator: &'static str,
    /// The pattern.
    pub pattern: &'static str,
    /// The objects' size.
    pub size_bytes: usize,
    /// A thousand batches, in milliseconds.
    pub total_ms: Spread,
    /// The first batch of each thousand, in microseconds.
    pub latency_us: Spread,
    /// The most page faults in a thousand batches, except for the first thousand of a process.
    pub faults_max: Option<u64>,
    /// The median of the same.
    pub faults_median: Option<f64>,
}

/// The statistics of all cells.
pub fn statistics(results: &Results) -> Vec<Cell> {
    let places = results.places();
    let cells = places.into_iter().map(|((column, pattern, size_bytes), records)| {
        let faults: Vec<u64> =
            records.iter().filter(|record| !record.first).map(|record| record.faults).collect();
        let spread = |of: fn(&Record) -> f64| Spread::of(records.iter().map(|record| of(record)));
        Cell {
            allocator: COLUMNS[column].name,
            pattern,
            size_bytes,
            total_ms: spread(|record| record.total_ns as f64 / 1e6),
            latency_us: spread(|record| record.latency_ns as f64 / 1e3),
            faults_max: faults.iter().copied().max(),
            faults_median: (!faults.is_empty())
                .then(|| Spread::of(faults.iter().map(|&count| count as f64)).median),
        }
    });
    cells.collect()
}

/// One line for each cell.
pub fn csv(cells: &[Cell]) -> String {
    let spread = |unit: &str, name: &str| {
        let names = ["mean", "std", "median", "p25", "p75", "min", "max"];
        names.map(|what| format!("{name}_{what}_{unit}")).join(",")
    };
    let (total, latency) = (spread("ms", "total"), spread("us", "latency"));
    let mut text =
        format!("allocator,pattern,size_bytes,{total},{latency},faults_median,faults_max\n");
    for cell in cells {
        let values = |s: Spread| {
            [s.mean, s.std, s.median, s.p25, s.p75, s.min, s.max]
                .map(|value| format!("{value:.6}"))
                .join(",")
        };
        text += &format!(
            "{},{},{},{},{},{},{}\n",
            cell.allocator,
            cell.pattern,
            cell.size_bytes,
            values(cell.total_ms),
            values(cell.latency_us),
            cell.faults_median.map_or(String::new(), |value| value.to_string()),
            cell.faults_max.map_or(String::new(), |value| value.to_string()),
        );
    }
    text
}

/// One line for each measurement.
pub fn raw_csv(results: &Results) -> String {
    let mut text = String::from(
        "platform,allocator,pattern,size_bytes,iteration,total_ns,latency_ns,minor_faults\n",
    );
    for record in &results.records {
        text += &format!(
            "{},{},{},{},{},{},{},{}\n",
            results.platform,
            COLUMNS[record.column].name,
            record.pattern.name(),
            record.size,
            record.iteration,
            record.total_ns,
            record.latency_ns,
            record.faults,
        );
    }
    text
}

const SCHEMA: &str = "message benchmark {
    required binary platform (utf8);
    required binary allocator (utf8);
    required binary pattern (utf8);
    required int32 size_bytes (uint_32);
    required int32 iteration (uint_32);
    required int64 total_ns (uint_64);
    required int64 latency_ns (uint_64);
    required int64 minor_faults (uint_64);
}";

/// Every measurement in one row group.
pub fn parquet(results: &Results, path: &Path) -> Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
    let mut group = writer.next_row_group()?;
    let texts: [fn(&Results, &Record) -> String; 3] = [
        |results, _| results.platform.clone(),
        |_, record| COLUMNS[record.column].name.into(),
        |_, record| record.pattern.name().into(),
    ];
    for of in texts {
        let values: Vec<ByteArray> = results
            .records
            .iter()
            .map(|record| ByteArray::from(of(results, record).as_str()))
            .collect();
        let mut column = group.next_column()?.expect("the schema has this column");
        column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    for of in [|record: &Record| record.size as i32, |record: &Record| record.iteration as i32] {
        let values: Vec<i32> = results.records.iter().map(of).collect();
        let mut column = group.next_column()?.expect("the schema has this column");
        column.typed::<Int32Type>().write_batch(&values, None, None)?;
        column.close()?;
    }
    let numbers: [fn(&Record) -> u64; 3] =
        [|record| record.total_ns, |record| record.latency_ns, |record| record.faults];
    for of in numbers {
        let values: Vec<i64> = results.records.iter().map(|record| of(record) as i64).collect();
        let mut column = group.next_column()?.expect("the schema has this column");
        column.typed::<Int64Type>().write_batch(&values, None, None)?;
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::experiments::memalloc::patterns::Pattern;
    use crate::race::machine::Machine;

    fn results() -> Results {
        let record = |iteration: u32| Record {
            column: 8,
            pattern: Pattern::Fifo,
            size: 64,
            iteration,
            first: iteration == 0,
            total_ns: 1_000_000 * (u64::from(iteration) + 1),
            latency_ns: 2000,
            faults: 100 - 10 * u64::from(iteration),
        };
        Results {
            date: String::new(),
            machine: Machine::here(),
            platform: "here".into(),
            iterations: 5,
            rounds: 1,
            records: (0..5).map(record).collect(),
        }
    }

    #[test]
    fn a_cell_is_summed_up() {
        let cells = statistics(&results());
        let [cell] = &cells[..] else { panic!("one cell") };
        assert_eq!((cell.total_ms.median, cell.total_ms.p25, cell.total_ms.max), (3.0, 2.0, 5.0));
        assert!((cell.total_ms.std - 2.5f64.sqrt()).abs() < 1e-12);
        // The first iteration of a process is its warm-up.
        assert_eq!((cell.faults_max, cell.faults_median), (Some(90), Some(75.0)));
        let line = csv(&cells).lines().nth(1).unwrap().to_string();
        assert!(line.starts_with("masu_slab_warm,fifo,64,3.000000,"), "{line}");
    }

    #[test]
    fn parquet_holds_what_was_measured() {
        let place = tempfile::NamedTempFile::new().unwrap();
        parquet(&results(), place.path()).unwrap();
        let reader = SerializedFileReader::new(place.reopen().unwrap()).unwrap();
        let row = reader.get_row_iter(None).unwrap().nth(3).unwrap().unwrap();
        assert_eq!(row.get_string(1).unwrap(), "masu_slab_warm");
        assert_eq!(row.get_string(2).unwrap(), "fifo");
        assert_eq!((row.get_uint(3).unwrap(), row.get_uint(4).unwrap()), (64, 3));
        assert_eq!((row.get_ulong(5).unwrap(), row.get_ulong(7).unwrap()), (4_000_000, 70));
    }
}
