//! A Rust program that is hardened from its first block on.

use masu::{Configured, Masu};

#[global_allocator]
static GLOBAL: Configured = Masu::hardened();

/// The address of a value.
fn address<T>(value: &T) -> usize {
    std::ptr::from_ref(value).addr()
}

#[test]
fn blocks_come_back_late() {
    for _ in 0..100 {
        let first = address(&*Box::new([1u64; 5]));
        assert_ne!(first, address(&*Box::new([2u64; 5])));
    }
}

/// Within a size class the crate itself resizes a block; beyond it the engine does.
#[test]
fn vectors_grow_and_shrink_byte_by_byte() {
    let mut bytes = Vec::new();
    for n in 0..200_000 {
        bytes.push(n as u8);
    }
    for n in (0..bytes.len()).rev().step_by(997) {
        bytes.truncate(n);
        bytes.shrink_to_fit();
        assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == i as u8));
    }
    for size in 1..3000 {
        let mut text = String::with_capacity(size);
        text.extend(std::iter::repeat_n('x', size));
        text.reserve_exact(size / 7);
        text.extend(std::iter::repeat_n('y', size / 7));
        assert_eq!(text.len(), size + size / 7);
    }
}

/// From one size class into the next, whose first bytes still fit into the slot, and then to that class's end.
#[test]
fn a_block_that_grows_a_little_has_its_class_to_its_end() {
    for size in (16..8192).step_by(16) {
        let mut bytes = Vec::<u8>::with_capacity(size);
        bytes.resize(size, 1);
        for more in [1, 2, 5, 7, 15, 16] {
            bytes.reserve_exact(size + more - bytes.len());
            bytes.resize(size + more, 1);
        }
        assert!(bytes.iter().all(|&byte| byte == 1));
    }
}

/// In a hardened process first-class heaps are hardened, too.
#[test]
fn heaps_are_hardened() {
    let heap = masu::Heap::new().expect("memory for a heap");
    assert!(heap.is_hardened());
    let bytes = allocator_api2::vec::Vec::<u8, _>::with_capacity_in(99, &heap);
    assert!(heap.owns(bytes.as_ptr()) && heap.allocated() == 99);
    let text = masu::scope(&heap, || "x".repeat(99));
    assert!(heap.owns(text.as_ptr()));
    drop(bytes);
    drop(heap);
    assert_eq!(text.len(), 99);
}

#[test]
fn threads_free_each_others_blocks() {
    let threads: Vec<_> =
        (0..4).map(|n| std::thread::spawn(move || vec![vec![n as u8; 100]; 1000])).collect();
    for (n, thread) in threads.into_iter().enumerate() {
        let blocks = thread.join().expect("it ends");
        assert!(blocks.iter().all(|block| block.iter().all(|&byte| byte == n as u8)));
    }
}

#[test]
fn zeroed_and_aligned_blocks_are_so() {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    for align in [1, 16, 64, 4096, 1 << 16] {
        for size in [1, 24, 5000, 200_000] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            // SAFETY: the size is not 0, and the block is freed with its layout.
            unsafe {
                let block = alloc_zeroed(layout);
                assert!(block.addr().is_multiple_of(align));
                assert!(std::slice::from_raw_parts(block, size).iter().all(|&byte| byte == 0));
                block.write_bytes(1, size);
                dealloc(block, layout);
            }
        }
    }
}
