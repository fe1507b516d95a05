//! The standard library's own collections in a heap, on a nightly compiler: its `Allocator` trait is not stable yet.
//!
//! `cargo +nightly run --features nightly --example std_collections`

#![feature(allocator_api)]

use std::collections::VecDeque;
use std::sync::Arc;

use masu::Heap;
use masu::heap::HeapError;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

/// The sums of each `width` numbers in a row, computed in a heap of its own; what the heap held at the end.
fn moving_sums(numbers: &[u64], width: usize) -> Result<(Vec<u64>, usize), HeapError> {
    let heap = Heap::builder().name("sums").hard_limit(64 << 20).build()?;
    let mut window = VecDeque::with_capacity_in(width, &heap);
    let mut sums = Vec::new_in(&heap);
    for &number in numbers {
        if window.len() == width {
            window.pop_front();
        }
        window.push_back(number);
        if window.len() == width {
            sums.push(Box::new_in(window.iter().sum::<u64>(), &heap));
        }
    }
    let shared = Arc::new_in(sums, &heap);
    Ok((shared.iter().map(|sum| **sum).collect(), heap.allocated()))
}

fn main() -> Result<(), HeapError> {
    let numbers: Vec<u64> = (0..10_000).collect();
    let (sums, held) = moving_sums(&numbers, 100)?;
    println!("{} sums, computed in {held} bytes, which are free again", sums.len());
    Ok(())
}

#[test]
fn sums_are_computed_and_the_heap_is_gone() {
    let before = masu::heap::all().len();
    let (sums, held) = moving_sums(&[1, 2, 3, 4, 5], 2).unwrap();
    assert_eq!(sums, [3, 5, 7, 9]);
    assert!(held > 0 && masu::heap::all().len() == before);
}
