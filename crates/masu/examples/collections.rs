//! Collections in a heap: vectors and boxes of allocator-api2, and hashbrown's map, all freed at once.
//!
//! `cargo run --example collections`

use hashbrown::{DefaultHashBuilder, HashMap};
use masu::Heap;
use masu::allocator_api2::boxed::Box;
use masu::allocator_api2::vec::Vec;
use masu::heap::HeapError;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

/// How often each word is there, counted in a heap of its own; what the heap held at the end.
fn count(text: &str) -> Result<(std::vec::Vec<(String, u32)>, usize), HeapError> {
    let heap = Heap::builder().name("words").hard_limit(64 << 20).build()?;
    let mut counts = HashMap::with_hasher_in(DefaultHashBuilder::default(), &heap);
    for word in text.split_whitespace() {
        *counts.entry(word).or_insert(0) += 1;
    }
    let mut sorted = Vec::new_in(&heap);
    sorted.extend(counts.iter().map(|(word, count)| Box::new_in((*word, *count), &heap)));
    sorted.sort_by_key(|entry| (std::cmp::Reverse(entry.1), entry.0));
    let best = sorted.iter().take(3).map(|entry| (entry.0.to_owned(), entry.1)).collect();
    Ok((best, heap.allocated()))
}

fn main() -> Result<(), HeapError> {
    let (best, held) = count(&"the quick fox and the slow fox and the dog ".repeat(1000))?;
    println!("{best:?}, counted in {held} bytes, which are free again");
    Ok(())
}

#[test]
fn words_are_counted_and_the_heap_is_gone() {
    let before = masu::heap::all().len();
    let (best, held) = count("b a b c b a").unwrap();
    assert_eq!(best, [("b".into(), 3), ("a".into(), 2), ("c".into(), 1)]);
    assert!(held > 0 && masu::heap::all().len() == before);
}
