//! Arrow arrays over a pool's buffers, without a copy: a buffer is filled, becomes an Arrow buffer, and goes back to the
//! pool when the last array that refers to it is dropped.
//!
//! `cargo run --example arrow_buffers`

use arrow_buffer::{Buffer, ScalarBuffer};
use masu::BufferPool;
use masu::pool::Buffer as Leased;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

/// Keeps the lease as long as Arrow needs the bytes.
struct Owner(#[allow(dead_code, reason = "held until dropped")] Leased<Arc<BufferPool>>);

// Nothing in it can be seen half changed: a panic leaves plain bytes.
impl UnwindSafe for Owner {}
impl RefUnwindSafe for Owner {}

/// Fills a buffer of the pool with a column; `None` when all are leased.
fn column(pool: &Arc<BufferPool>, values: impl Iterator<Item = u64>) -> Option<ScalarBuffer<u64>> {
    let mut leased = BufferPool::lease_owned(pool)?;
    let mut len = 0;
    for (value, place) in values.zip(leased.as_chunks_mut::<8>().0) {
        *place = value.to_ne_bytes();
        len += 1;
    }
    let start = NonNull::from(&mut leased[..]).cast::<u8>();
    // SAFETY: `8 * len` bytes of the lease, which the owner keeps, and writes no more.
    let buffer = unsafe { Buffer::from_custom_allocation(start, 8 * len, Arc::new(Owner(leased))) };
    Some(ScalarBuffer::new(buffer, 0, len))
}

fn main() {
    let pool = Arc::new(BufferPool::new(2, 64 << 10));
    let squares = column(&pool, (0..1000).map(|n| n * n)).expect("a free buffer");
    println!("sum {}, at {:p}", squares.iter().sum::<u64>(), squares.as_ptr());
}

#[test]
fn a_column_is_the_pools_bytes_and_gives_them_back() {
    let pool = Arc::new(BufferPool::new(1, 4096));
    let numbers = column(&pool, 0..100).unwrap();
    assert_eq!(pool.index_of(numbers.as_ptr().cast()), Some(0));
    let part = numbers.slice(10, 5);
    drop(numbers);
    assert_eq!(part.to_vec(), [10, 11, 12, 13, 14]);
    assert!(column(&pool, 0..1).is_none());
    drop(part);
    assert!(column(&pool, 0..1).is_some());
}
