//! The loop whose instructions are counted: batches of malloc and free of one size.
//!
//! It runs inside `masu-work` and allocates nothing itself. The functions are called
//! through pointers that the optimiser cannot see through, exactly as often and in the
//! same way for every allocator; the null pair below has a cost known to the
//! instruction, so that the loop around the calls can be subtracted exactly.

use std::ffi::c_void;
use std::hint::black_box;

use super::Order;

/// Blocks alive at once in the batched orders.
pub const BATCH: usize = 100;

/// Instructions of one null malloc and one null free together.
#[cfg(target_arch = "x86_64")]
pub const NULL_PAIR: u64 = 3;
/// Instructions of one null malloc and one null free together.
#[cfg(target_arch = "aarch64")]
pub const NULL_PAIR: u64 = 4;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// Which pair of functions is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// What the dynamic linker binds to `malloc` and `free`.
    Process,
    /// Two functions that return at once.
    Null,
}

/// Runs `batches` batches of one hundred pairs.
pub fn run(subject: Subject, order: Order, size: usize, batches: usize) {
    let (malloc, free): (Malloc, Free) = match subject {
        Subject::Process => (libc::malloc, libc::free),
        Subject::Null => (null_malloc, null_free),
    };
    let (malloc, free) = black_box((malloc, free));
    assert!(size <= SINK, "the null block is smaller than {size} bytes");
    let free_order = order.indices();
    let mut blocks = [std::ptr::null_mut::<c_void>(); BATCH];
    for batch in 0..batches {
        let indices = &free_order[batch % free_order.len()];
        // SAFETY: every block is written within its first byte and freed exactly once,
        // since `indices` is a permutation of the batch.
        unsafe {
            if order == Order::Pair {
                for _ in 0..BATCH {
                    let block = malloc(size);
                    block.cast::<u8>().write_volatile(1);
                    free(block);
                }
                continue;
            }
            for place in &mut blocks {
                *place = malloc(size);
                place.cast::<u8>().write_volatile(1);
            }
            for &index in indices {
                free(blocks[usize::from(index)]);
            }
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

/// Returns at once.
#[unsafe(naked)]
unsafe extern "C" fn null_free(block: *mut c_void) {
    std::arch::naked_asm!("ret")
}
