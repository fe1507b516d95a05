//! The standard library's own `Vec`, `Box` and `BTreeMap` in a heap, by its `Allocator` trait, which nightly compilers
//! have.
//!
//! `cargo +nightly run --example std_collections --features nightly`
#![feature(allocator_api, btreemap_alloc)]

use masu::{ArcHeap, Heap};
use std::collections::BTreeMap;

fn main() {
    let heap = Heap::builder().name("index").build().expect("memory for a heap");
    let mut squares = Vec::new_in(&heap);
    squares.extend((0..1000u64).map(|n| n * n));
    let mut index = BTreeMap::new_in(&heap);
    for square in &squares {
        index.insert(square % 1009, Box::new_in(*square, &heap));
    }
    assert!(heap.owns(squares.as_ptr()) && heap.owns(&raw const *index[&0]));
    println!("{} of {} are different, in {} bytes", index.len(), squares.len(), heap.allocated());

    // A collection that keeps its heap alive, on another thread.
    let numbers = {
        let heap = ArcHeap::from(Heap::new().expect("memory for a heap"));
        let mut numbers = Vec::new_in(heap);
        numbers.push(7);
        numbers
    };
    std::thread::spawn(move || assert_eq!(numbers, [7])).join().expect("no panic");
}
