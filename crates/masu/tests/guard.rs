//! A Rust program whose small blocks lie between inaccessible pages.

use masu::{Config, Configured, Masu};
use std::os::unix::process::ExitStatusExt;

mod common;

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

/// If blocks could not be guarded, the tests here would pass nevertheless.
#[test]
fn blocks_are_guarded() {
    let block = Box::new([1u8; 100]);
    assert!(masu::ctl::snapshot().guarded >= block.len());
}

/// std installs its fault handler after masu's, during the program's first allocations.
#[test]
fn a_use_after_free_is_told_with_its_stacks() {
    if !common::is_child() {
        let output = common::again("a_use_after_free_is_told_with_its_stacks", |_| ());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{errors}");
        assert!(errors.contains(": 50 bytes into the block of 112 bytes at 0x"), "{errors}");
        assert!(errors.contains(", which was freed\n"), "{errors}");
        for what in ["accessed", "allocated", "freed"] {
            assert!(errors.contains(&format!("\nmasu:   {what} by thread ")), "{errors}");
        }
        // Without the feature nothing walks stacks; on some machines none leads out of a handler of signals.
        let stacks = errors.matches("\nmasu:     #0 ").count();
        assert!(stacks >= 2 || !cfg!(feature = "prof"), "{errors}");
        return;
    }
    let block = Box::into_raw(Box::new([7u8; 100])).cast::<u8>();
    // SAFETY: there is none: this is the mistake.
    unsafe {
        drop(Box::from_raw(block.cast::<[u8; 100]>()));
        std::hint::black_box(block.add(50).read_volatile());
    }
}

/// A fault that is no mistake with a block is std's: masu's handler comes before std's, and passes it on.
#[test]
fn a_stack_that_overflows_is_told_by_std() {
    #[expect(unconditional_recursion)]
    fn forever(n: &mut u64) {
        *n += 1;
        forever(std::hint::black_box(n));
        *n += 1;
    }
    if common::is_child() {
        return forever(&mut 0);
    }
    let output = common::again("a_stack_that_overflows_is_told_by_std", |_| ());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{errors}");
    assert!(errors.contains("has overflowed its stack"), "{errors}");
}

#[test]
fn pages_of_guarded_blocks_count_towards_the_limit() {
    common::alone("pages_of_guarded_blocks_count_towards_the_limit", || {
        let resident = || masu::ctl::snapshot().resident;
        let before = resident();
        let mut kept: Vec<Vec<u8>> = Vec::with_capacity(10_000);
        masu::limit::set_hard(Some(masu::limit::used() + (16 << 20)));
        while kept.len() < kept.capacity() {
            let mut block = Vec::new();
            if block.try_reserve_exact(200).is_err() {
                break;
            }
            block.push(1);
            kept.push(block);
        }
        masu::limit::set_hard(None);
        let (count, more) = (kept.len(), resident() - before);
        assert!(count > 3000 && more < 17 << 20, "{count} blocks take {more} bytes");
    });
}
