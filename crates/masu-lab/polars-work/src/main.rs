//! Work on polars tables: prints a line `metric NAME VALUE` for each kind, times in milliseconds.
//!
//! Columns, amounts and kinds of work are those of the experiment on Arrow's Python package; the
//! argument scales them, and 1 is more than a gigabyte in all. Buffers of polars are `Vec`s, so they grow
//! by `realloc` of whatever allocator the process has.

use std::hint::black_box;
use std::io::Cursor;
use std::time::Instant;

use polars::prelude::*;

#[cfg(feature = "masu")]
#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

/// How often each kind of work is done.
const REPETITIONS: usize = 3;
/// Different keys.
const KEYS: usize = 1000;

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn table(rows: usize) -> PolarsResult<DataFrame> {
    let mut random = Random(88_172_645_463_325_252);
    let words: Vec<String> = (0..KEYS).map(|key| format!("name-{key}")).collect();
    let keys: Vec<usize> = (0..rows).map(|_| random.below(KEYS as u64) as usize).collect();
    let values: Vec<f64> =
        (0..rows).map(|_| random.below(1 << 53) as f64 / 2f64.powi(53)).collect();
    let counts: Vec<i64> = (0..rows).map(|_| random.below(1 << 40) as i64).collect();
    let names: Vec<&str> = keys.iter().map(|key| words[*key].as_str()).collect();
    let keys: Vec<i64> = keys.iter().map(|key| *key as i64).collect();
    df!("key" => keys, "value" => values, "count" => counts, "name" => names)
}

/// A label for each key.
fn labels() -> PolarsResult<DataFrame> {
    let keys: Vec<i64> = (0..KEYS as i64).collect();
    let labels: Vec<String> = keys.iter().map(|key| format!("label {key}")).collect();
    df!("key" => keys, "label" => labels)
}

/// A column of numbers and one of strings, value by value.
fn builders(rows: usize) -> PolarsResult<()> {
    let mut numbers = PrimitiveChunkedBuilder::<Int64Type>::new("n".into(), 0);
    let mut words = StringChunkedBuilder::new("w".into(), 0);
    for row in 0..rows {
        numbers.append_value(row as i64);
        if row % 8 == 0 {
            words.append_value("a word that is too long for a view");
        }
    }
    assert_eq!((numbers.finish().len(), words.finish().len()), (rows, rows.div_ceil(8)));
    Ok(())
}

fn read_csv(text: &[u8], rows: usize) -> PolarsResult<()> {
    assert_eq!(CsvReader::new(Cursor::new(text)).finish()?.height(), rows);
    Ok(())
}

fn read_parquet(file: &[u8], rows: usize) -> PolarsResult<()> {
    assert_eq!(ParquetReader::new(Cursor::new(file)).finish()?.height(), rows);
    Ok(())
}

/// Sums and products, rows chosen by them, a quarter sorted.
fn compute(data: &DataFrame) -> PolarsResult<()> {
    let value = data.column("value")?.as_materialized_series().f64()?.clone();
    let total = &value + &(&value * 2.0);
    black_box(data.filter(&total.gt(1.5))?);
    black_box(data.slice(0, data.height() / 4).sort(["value"], Default::default())?);
    Ok(())
}

/// Four times the table, in one piece.
fn concat(data: &DataFrame) -> PolarsResult<()> {
    let mut whole = data.clone();
    for _ in 0..3 {
        whole.vstack_mut(data)?;
    }
    whole.rechunk_mut();
    assert_eq!(whole.height(), 4 * data.height());
    Ok(())
}

#[expect(
    deprecated,
    reason = "the other way needs the crates for queries, which take minutes to build"
)]
fn group_by(data: &DataFrame) -> PolarsResult<()> {
    let groups = data.group_by(["name"])?.select(["value", "count"]).mean()?;
    assert_eq!(groups.height(), KEYS.min(data.height()));
    Ok(())
}

fn join(data: &DataFrame, labels: &DataFrame) -> PolarsResult<()> {
    let joined = data.join(labels, ["key"], ["key"], JoinArgs::new(JoinType::Inner), None)?;
    assert_eq!(joined.shape(), (data.height(), 5));
    Ok(())
}

fn main() -> PolarsResult<()> {
    let scale = std::env::args().nth(1).and_then(|scale| scale.parse().ok()).unwrap_or(1.0f64);
    let rows = (4_000_000.0 * scale) as usize;
    let (mut data, labels) = (table(rows)?, labels()?);
    let (mut text, mut file) = (Vec::new(), Vec::new());
    CsvWriter::new(&mut text).finish(&mut data.slice(0, rows / 4))?;
    // Arrow's package compresses so too.
    let writer = ParquetWriter::new(&mut file).with_compression(ParquetCompression::Snappy);
    writer.finish(&mut data)?;

    let works: [(&str, &dyn Fn() -> PolarsResult<()>); 7] = [
        ("builders", &|| builders(rows * 4)),
        ("read_csv", &|| read_csv(&text, rows / 4)),
        ("read_parquet", &|| read_parquet(&file, rows)),
        ("compute", &|| compute(&data)),
        ("concat", &|| concat(&data)),
        ("groupby", &|| group_by(&data)),
        ("join", &|| join(&data, &labels)),
    ];
    let mut total = 0.0;
    for (name, work) in works {
        let mut times = [0.0; REPETITIONS];
        for time in &mut times {
            let start = Instant::now();
            work()?;
            *time = start.elapsed().as_secs_f64() * 1000.0;
        }
        total += times.iter().sum::<f64>();
        times.sort_by(f64::total_cmp);
        println!("metric {name} ms {:.3}", times[REPETITIONS / 2]);
    }
    println!("metric total ms {total:.3}");
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    let peak: f64 = peak.and_then(|kib| kib.parse().ok()).expect("the kernel says it");
    println!("metric peak MiB {:.1}", peak / 1024.0);
    Ok(())
}
