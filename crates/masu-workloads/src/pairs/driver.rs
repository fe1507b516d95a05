//! The loop whose instructions are counted: batches of malloc and free of one size.
//!
//! It runs inside `masu-work` and allocates nothing itself. The functions are called
//! through pointers that the optimiser cannot see through, exactly as often and in the
//! same way for every allocator; the null pair below has a cost known to the
//! instruction, so that the loop around the calls can be subtracted exactly.

use std::ffi::c_void;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Shape;

/// Blocks alive at once in the batched orders.
pub const BATCH: usize = 100;

/// Instructions of one null malloc and one null free together.
#[cfg(target_arch = "x86_64")]
pub const NULL_PAIR: u64 = 3;
/// Instructions of one null malloc and one null free together.
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
pub const NULL_PAIR: u64 = 4;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// The functions that are called.
#[derive(Clone, Copy)]
struct Functions {
    malloc: Malloc,
    calloc: Calloc,
    free: Free,
}

/// Which functions are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// What the dynamic linker binds to `malloc`, `calloc` and `free`.
    Process,
    /// Functions that return at once.
    Null,
}

/// Runs `batches` batches of one hundred pairs.
pub fn run(subject: Subject, shape: Shape, size: usize, batches: usize) {
    let functions = match subject {
        Subject::Process => {
            Functions { malloc: libc::malloc, calloc: libc::calloc, free: libc::free }
        }
        Subject::Null => Functions { malloc: null_malloc, calloc: null_calloc, free: null_free },
    };
    let functions = black_box(functions);
    assert!(0 < size && size <= SINK, "no null block of {size} bytes");
    match shape {
        Shape::Pair => one_at_a_time(batches, functions.free, || {
            // SAFETY: malloc takes any size.
            unsafe { (functions.malloc)(size) }
        }),
        Shape::Calloc => one_at_a_time(batches, functions.free, || {
            // SAFETY: calloc takes any size.
            unsafe { (functions.calloc)(1, size) }
        }),
        Shape::Remote => remote(size, batches, functions),
        Shape::Lifo | Shape::Fifo | Shape::Random => batched(shape, size, batches, functions),
    }
}

#[inline(always)]
fn one_at_a_time(batches: usize, free: Free, new: impl Fn() -> *mut c_void) {
    for _ in 0..batches * BATCH {
        let block = new();
        // SAFETY: the block is at least one byte long and freed exactly once.
        unsafe {
            block.cast::<u8>().write_volatile(1);
            free(block);
        }
    }
}

fn batched(shape: Shape, size: usize, batches: usize, functions: Functions) {
    let orders = shape.indices();
    let mut blocks = [std::ptr::null_mut::<c_void>(); BATCH];
    for batch in 0..batches {
        fill(&mut blocks, size, functions.malloc);
        for &index in &orders[batch % orders.len()] {
            // SAFETY: `orders` holds permutations, so every block is freed exactly once.
            unsafe { (functions.free)(blocks[usize::from(index)]) }
        }
    }
}

/// The two threads take turns, and sleep in between, without a look more or less: so waiting costs the same for every
/// allocator.
fn remote(size: usize, batches: usize, functions: Functions) {
    /// The batch, on its way from the thread that fills to the thread that frees.
    struct Handed([*mut c_void; BATCH]);
    // SAFETY: the blocks have one owner at a time, and free works from any thread.
    unsafe impl Send for Handed {}

    let handed = Mutex::new(Handed([std::ptr::null_mut(); BATCH]));
    let is_filled = AtomicBool::new(false);
    let wait_until = |filled| {
        while is_filled.load(Ordering::Acquire) != filled {
            thread::park();
        }
    };
    let filler = thread::current();
    thread::scope(|scope| {
        let freer = scope.spawn(|| {
            for _ in 0..batches {
                wait_until(true);
                for &block in &handed.lock().unwrap().0 {
                    // SAFETY: the other thread filled the batch anew before this turn.
                    unsafe { (functions.free)(block) }
                }
                is_filled.store(false, Ordering::Release);
                filler.unpark();
            }
        });
        for _ in 0..batches {
            fill(&mut handed.lock().unwrap().0, size, functions.malloc);
            is_filled.store(true, Ordering::Release);
            freer.thread().unpark();
            wait_until(false);
        }
    });
}

fn fill(blocks: &mut [*mut c_void; BATCH], size: usize, malloc: Malloc) {
    for place in blocks {
        // SAFETY: malloc takes any size, and the block is at least one byte long.
        unsafe {
            *place = malloc(size);
            place.cast::<u8>().write_volatile(1);
        }
    }
}

/// The largest size that may be asked for.
const SINK: usize = 4096;

#[repr(align(64))]
struct Sink(#[allow(dead_code, reason = "only its address is used")] [u8; SINK]);
static mut NULL_BLOCK: Sink = Sink([0; SINK]);

/// Returns the same writable block every time.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn null_malloc(size: usize) -> *mut c_void {
    std::arch::naked_asm!("lea rax, [rip + {block}]", "ret", block = sym NULL_BLOCK)
}

/// Returns the same writable block every time.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn null_malloc(size: usize) -> *mut c_void {
    std::arch::naked_asm!(
        "adrp x0, {block}",
        "add x0, x0, :lo12:{block}",
        "ret",
        block = sym NULL_BLOCK
    )
}

/// Returns the same writable block every time.
#[cfg(target_arch = "riscv64")]
#[unsafe(naked)]
unsafe extern "C" fn null_malloc(size: usize) -> *mut c_void {
    std::arch::naked_asm!("lla a0, {block}", "ret", block = sym NULL_BLOCK)
}

/// Returns the same writable block every time.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn null_calloc(count: usize, size: usize) -> *mut c_void {
    std::arch::naked_asm!("lea rax, [rip + {block}]", "ret", block = sym NULL_BLOCK)
}

/// Returns the same writable block every time.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn null_calloc(count: usize, size: usize) -> *mut c_void {
    std::arch::naked_asm!(
        "adrp x0, {block}",
        "add x0, x0, :lo12:{block}",
        "ret",
        block = sym NULL_BLOCK
    )
}

/// Returns the same writable block every time.
#[cfg(target_arch = "riscv64")]
#[unsafe(naked)]
unsafe extern "C" fn null_calloc(count: usize, size: usize) -> *mut c_void {
    std::arch::naked_asm!("lla a0, {block}", "ret", block = sym NULL_BLOCK)
}

/// Returns at once.
#[unsafe(naked)]
unsafe extern "C" fn null_free(block: *mut c_void) {
    std::arch::naked_asm!("ret")
}
