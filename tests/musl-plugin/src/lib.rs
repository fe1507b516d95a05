//! A library that musl loads by `dlopen`, with masu as its allocator. Without std, whose musl library is for static
//! programs only.

#![no_std]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe extern "C" {
        fn abort() -> !;
    }
    // SAFETY: C's `abort` may be called anywhere.
    unsafe { abort() }
}

// The prebuilt parts of Rust were compiled to unwind and refer to these, but nothing unwinds here.
core::arch::global_asm!(
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality:",
    ".weak _Unwind_Resume",
    ".hidden _Unwind_Resume",
    "_Unwind_Resume:",
    "ud2",
);

/// Builds a table of strings and returns its size: 500.
#[unsafe(no_mangle)]
pub extern "C" fn work(seed: u32) -> usize {
    let table: BTreeMap<u32, String> =
        (0..500).map(|n| (n, alloc::format!("{seed} {n}").repeat(1 + n as usize % 40))).collect();
    assert!(table.iter().all(|(n, text)| text.starts_with(&alloc::format!("{seed} {n}"))));
    let large: Vec<u8> = alloc::vec![1; 3 << 20];
    assert!(masu::ctl::snapshot().allocated > large.len());
    table.len()
}
