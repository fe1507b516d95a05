//! A Rust program whose small blocks lie between inaccessible pages.

use masu::{Config, Configured, Masu};

#[global_allocator]
static GLOBAL: Configured = Masu::with_config(Config::new().guard(1).guard_slots(20_000));

/// Resizing within a size class leaves a block where it is, guarded or not.
#[test]
fn a_block_has_its_size_class_to_its_end() {
    for size in 1..8192 {
        let mut bytes = vec![1u8; size];
        for more in [1, 2, 5, 7, 15, 16] {
            bytes.reserve_exact(size + more - bytes.len());
            bytes.resize(size + more, 1);
        }
        bytes.truncate(size / 2);
        bytes.shrink_to_fit();
        bytes.resize(size, 1);
        assert!(bytes.iter().all(|&byte| byte == 1), "{size}");
    }
}

/// A block that could not be guarded would pass the tests here.
#[test]
fn blocks_are_guarded() {
    let block = Box::new([1u8; 100]);
    assert!(masu::ctl::snapshot().guarded >= block.len());
}
