//! How much the pipelines allocate, which is what they differ by.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use xquo::{Arguments, pipeline};

/// The system's allocator, counting its blocks.
struct Counting;

static BLOCKS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static GLOBAL: Counting = Counting;

// SAFETY: forwards everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BLOCKS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
    // A block that grows counts as one.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

const RECORDS: usize = 20_000;

fn blocks_per_record(pipeline: &str) -> f64 {
    let input: String = (0..RECORDS).map(|n| format!("test'{n}\u{8}''{n}\0")).collect();
    let arguments = Arguments::parse_from(["xquo", "-w", "2", "--pipeline", pipeline]);
    let before = BLOCKS.load(Ordering::Relaxed);
    pipeline::run(&arguments, Cursor::new(input), std::io::sink()).unwrap();
    (BLOCKS.load(Ordering::Relaxed) - before) as f64 / RECORDS as f64
}

/// In one test, as the counter counts all threads.
#[test]
fn bulks_allocate_for_every_record_and_chunks_do_not() {
    for pipeline in ["bulks", "unordered"] {
        let count = blocks_per_record(pipeline);
        assert!((7.0..8.0).contains(&count), "{pipeline}: {count}");
    }
    let count = blocks_per_record("chunks");
    assert!(count < 0.01, "chunks: {count}");
}
