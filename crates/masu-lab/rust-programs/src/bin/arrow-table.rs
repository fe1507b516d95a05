//! A table of arrow-rs, with the columns that the experiment on Arrow's Python package has: read from
//! CSV, computed on, filtered, sorted, gathered and put together.

use std::io::Cursor;
use std::sync::Arc;

use arrow_arith::numeric::{add, mul};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_csv::{ReaderBuilder, Writer};
use arrow_ord::cmp::gt;
use arrow_ord::sort::sort_to_indices;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use rust_programs::{Random, finish, mix, scaled, total};

fn main() {
    let rows = scaled(1_000_000) as usize;
    let data = table(rows);
    let mut csv = Vec::new();
    Writer::new(&mut csv).write(&data.slice(0, rows / 4)).expect("CSV is written");
    let mut sum = 0u64;
    for _ in 0..3 {
        sum = sum.wrapping_add(mix(read(&csv, &data)));
        sum = sum.wrapping_add(mix(compute(&data)));
        sum = sum.wrapping_add(mix(together(&data)));
    }
    finish(sum);
}

fn table(rows: usize) -> RecordBatch {
    let mut random = Random(1);
    let keys: Vec<u32> = (0..rows).map(|_| random.below(1000) as u32).collect();
    let values: Vec<f64> =
        (0..rows).map(|_| random.below(1 << 53) as f64 / 2f64.powi(53)).collect();
    let counts: Vec<i64> = (0..rows).map(|_| random.below(1 << 40) as i64).collect();
    let names: StringArray = (0..1000).map(|n| Some(format!("name-{n}"))).collect();
    let names = take(&names, &UInt32Array::from(keys.clone()), None).expect("keys are in range");
    let keys = Int64Array::from_iter_values(keys.iter().map(|key| i64::from(*key)));
    let columns: [(&str, ArrayRef); 4] = [
        ("key", Arc::new(keys)),
        ("value", Arc::new(Float64Array::from(values))),
        ("count", Arc::new(Int64Array::from(counts))),
        ("name", names),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// The letters of the names that were read.
fn read(csv: &[u8], data: &RecordBatch) -> u64 {
    let reader = ReaderBuilder::new(data.schema()).with_header(true).build(Cursor::new(csv));
    let batches: Vec<RecordBatch> =
        reader.expect("a reader").collect::<Result<_, _>>().expect("what was written");
    let whole = concat_batches(&data.schema(), &batches).expect("one schema");
    assert_eq!(whole.num_rows(), data.num_rows() / 4);
    total(whole.column(3).as_string::<i32>().value_data())
}

/// Of three times the values those above 1.5, sorted.
fn compute(data: &RecordBatch) -> u64 {
    let value = data.column(1).as_primitive::<Float64Type>();
    let double = mul(value, &Float64Array::new_scalar(2.0)).expect("numbers");
    let total = add(value, &double).expect("numbers");
    let many = gt(&total, &Float64Array::new_scalar(1.5)).expect("numbers");
    let kept = filter_record_batch(data, &many).expect("a flag for each row");
    let order = sort_to_indices(kept.column(2), None, None).expect("numbers");
    let sorted = take(kept.column(2), &order, None).expect("in range");
    let sorted = sorted.as_primitive::<Int64Type>();
    assert!(sorted.values().is_sorted());
    sorted.values().iter().fold(0u64, |sum, count| sum.wrapping_add(*count as u64))
}

/// Four tables in one.
fn together(data: &RecordBatch) -> u64 {
    let whole = concat_batches(&data.schema(), [data; 4]).expect("one schema");
    assert_eq!(whole.num_rows(), 4 * data.num_rows());
    total(whole.column(3).as_string::<i32>().value_data())
}
