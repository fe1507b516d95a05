//! Columns that grow value by value in buffers of arrow-rs, which are aligned to 128 bytes.

use arrow_array::builder::{Int32Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use rust_programs::{Random, finish, mix, scaled, total};

fn main() {
    let mut random = Random(1);
    let mut sum = 0u64;
    for batch in 0..scaled(300) {
        let (mut numbers, mut texts) = (Int64Builder::with_capacity(0), StringBuilder::new());
        let mut lists = ListBuilder::new(Int32Builder::new());
        let rows = 200_000 + random.below(400_000);
        for row in 0..rows {
            numbers.append_value((row * batch) as i64);
            if row % 4 == 0 {
                texts.append_value(&"a text of some length"[..random.below(21) as usize]);
            }
            if row % 16 == 0 {
                (0..random.below(8)).for_each(|n| lists.values().append_value(n as i32));
                lists.append(true);
            }
        }
        let (numbers, texts, lists) = (numbers.finish(), texts.finish(), lists.finish());
        assert_eq!(numbers.len() as u64, rows);
        sum = sum.wrapping_add(mix(numbers.values().iter().fold(0, |sum, n| sum ^ *n as u64)));
        sum = sum.wrapping_add(mix(total(texts.value_data())));
        let lists = lists.values().as_primitive::<Int32Type>();
        sum = sum.wrapping_add(mix(lists.values().iter().map(|n| *n as u64 + 1).sum()));
    }
    finish(sum);
}
