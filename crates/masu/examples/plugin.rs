//! A shared library that is loaded at run time, such as a Python extension, with masu as its own
//! allocator: `python3 -c 'import ctypes; print(ctypes.CDLL("target/debug/examples/libplugin.so").work(7))'`

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

/// Blocks that one call leaves to a later one, perhaps of another thread.
static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Builds a table of strings, some of which it leaves to the next call, and returns its size: 500.
#[unsafe(no_mangle)]
pub extern "C" fn work(seed: u32) -> usize {
    let table: HashMap<u32, String> =
        (0..500).map(|n| (n, format!("{seed} {n}").repeat(1 + n as usize % 40))).collect();
    assert!(table.iter().all(|(n, text)| text.starts_with(&format!("{seed} {n}"))));
    // In a forked child, a thread that is not there may have the lock for ever.
    if let Ok(mut kept) = KEPT.try_lock() {
        if kept.len() > 1000 {
            kept.clear();
        }
        kept.extend(table.values().take(100).cloned());
    }
    table.len()
}

/// The same on two threads of its own.
#[unsafe(no_mangle)]
pub extern "C" fn work_on_threads(seed: u32) -> usize {
    let threads = [seed, seed + 1].map(|seed| thread::spawn(move || work(seed)));
    threads.into_iter().map(|thread| thread.join().expect("no block was damaged")).sum()
}

/// Bytes that the library's allocator holds for the program.
#[unsafe(no_mangle)]
pub extern "C" fn allocated() -> usize {
    masu::ctl::snapshot().allocated
}
