//! A thread-local word: the address of the thread's heap, whose lower half is its id, so that `free`
//! need not load the heap first.
//!
//! Eight bytes of initial-exec TLS, declared in assembly since stable Rust has no other way to ask for
//! that model. A thread starts with the address of [`EMPTY`], an immutable heap without blocks, whose
//! address matches no id ([`Apart`]), so the hot paths need no test for "not initialised yet".
//! Executables relax the access to an immediate offset. Eight bytes always fit the surplus that glibc
//! keeps for `dlopen`.
//!
//! Invariants:
//! 1. the word is its thread's alone, and always holds the address of a heap: a static one, or one of the table
//!    (invariant 4 of `heap`).
//! 2. a static heap never changes once it is made.
//!
//! musl keeps none: there, a library that is to be loaded by `dlopen` asks for descriptors instead
//! (the feature `tls-descriptors`), a call through a pointer that the loader chooses.

use super::record::{Heap, NO_ID, Role};
use crate::region::HEAP_STRIDE;
use crate::sync::{AtomicU32, Ordering, spin_hint};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// Where a heap of the table begins in its slot, which is a page: so the lower half of its address is even,
/// not 0, and not that of a static heap.
pub const HEAP_AT: usize = 64;
/// Where a static heap begins, in 256 bytes.
const APART_AT: usize = 128;

/// Gives its content an address whose lower half differs from every id.
#[repr(C, align(256))]
pub struct Apart<T> {
    before: [u64; APART_AT / 8],
    heap: T,
}

const _: () = assert!(HEAP_AT + size_of::<Heap>() <= HEAP_STRIDE);
const _: () = assert!(HEAP_AT % 256 != APART_AT && HEAP_STRIDE.is_multiple_of(256));
const _: () = assert!(core::mem::offset_of!(Apart<Heap>, heap) == APART_AT);

impl<T> Apart<T> {
    const fn new(heap: T) -> Self {
        Apart { before: [0; APART_AT / 8], heap }
    }
}

/// The heap of a thread that has not allocated yet.
pub static EMPTY: Apart<Heap> = Apart::new(Heap::new(Role::Empty));

/// Zero until it is made, and so not part of the library's file.
static GONE: Apart<Late> = Apart::new(Late(UnsafeCell::new(MaybeUninit::zeroed())));
static MADE: AtomicU32 = AtomicU32::new(NOT_MADE);

const NOT_MADE: u32 = 0;
const BEING_MADE: u32 = 1;
const IS_MADE: u32 = 2;

struct Late(UnsafeCell<MaybeUninit<Heap>>);

// SAFETY: invariant 2: written once, by the thread that set `BEING_MADE`, before any reference exists.
unsafe impl Sync for Late {}

/// The heap of a thread whose destructors have run. Made when the first thread exits, under no lock that a
/// fork may hold.
pub fn gone() -> &'static Heap {
    let heap = GONE.heap.0.get().cast::<Heap>();
    loop {
        match MADE.compare_exchange(NOT_MADE, BEING_MADE, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: invariant 2: this thread alone makes it, and no reference to it exists before it is
                // made.
                let gone = unsafe { make(heap, Role::Gone, NO_ID) };
                MADE.store(IS_MADE, Ordering::Release);
                return gone;
            }
            // SAFETY: invariant 2: made, and never changed again.
            Err(IS_MADE) => return unsafe { &*heap },
            Err(_) => spin_hint(),
        }
    }
}

/// In a fork's child, whose other threads do not exist: a thread that was making it will not
/// finish.
pub fn after_fork_in_child() {
    let _ = MADE.compare_exchange(BEING_MADE, NOT_MADE, Ordering::Relaxed, Ordering::Relaxed);
}

/// The id of a heap of the table: the lower half of its address, since the table is shorter than 4 GiB.
pub fn id_of(heap: *const Heap) -> u32 {
    heap.addr() as u32
}

/// Makes a heap with nothing in it.
///
/// # Safety
/// `at` must be writable for ever and no other thread's.
pub unsafe fn make(at: *mut Heap, role: Role, id: u32) -> &'static Heap {
    // SAFETY: as the caller says. A copy of one that exists, which never changes: if it were made
    // here, it would first take a page of the thread's stack.
    let heap = unsafe {
        core::ptr::copy_nonoverlapping(&raw const EMPTY.heap, at, 1);
        &*at
    };
    heap.role.set(role);
    heap.id.set(id);
    heap.runs.seat.begin(at.addr() / HEAP_STRIDE);
    heap
}

#[cfg(not(miri))]
core::arch::global_asm!(
    ".pushsection .tdata.masu_heap_v0_1,\"awT\",@progbits",
    ".globl masu_heap_v0_1",
    ".hidden masu_heap_v0_1",
    ".type masu_heap_v0_1, @object",
    ".size masu_heap_v0_1, 8",
    ".balign 8",
    "masu_heap_v0_1:",
    ".quad {empty} + {at}",
    ".popsection",
    empty = sym EMPTY,
    at = const APART_AT,
);

/// The calling thread's word, through a descriptor. By the convention of such calls only the result
/// register changes, but C libraries have broken it for others: no register is trusted.
#[cfg(all(feature = "tls-descriptors", not(miri)))]
#[inline]
fn word() -> *mut *const Heap {
    let word: *mut *const Heap;
    // SAFETY: calls the resolver that the loader put into the descriptor, on an aligned stack.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            "lea rax, [rip + masu_heap_v0_1@TLSDESC]",
            "call qword ptr [rax + masu_heap_v0_1@TLSCALL]",
            "add rax, qword ptr fs:[0]",
            out("rax") word, clobber_abi("C"));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "adrp x0, :tlsdesc:masu_heap_v0_1",
            "ldr x1, [x0, :tlsdesc_lo12:masu_heap_v0_1]",
            "add x0, x0, :tlsdesc_lo12:masu_heap_v0_1",
            ".tlsdesccall masu_heap_v0_1",
            "blr x1",
            "mrs x1, tpidr_el0",
            "add x0, x0, x1",
            out("x0") word, clobber_abi("C"));
        // Few linkers and C libraries know descriptors here yet: the older call, which they replace.
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!(
            "la.tls.gd a0, masu_heap_v0_1",
            "call __tls_get_addr@plt",
            lateout("a0") word, clobber_abi("C"));
    }
    word
}

/// The calling thread's word under Miri, which knows no machine code.
#[cfg(miri)]
fn word() -> *mut *const Heap {
    use core::cell::Cell;
    std::thread_local!(static WORD: Cell<*const Heap> = const { Cell::new(&raw const EMPTY.heap) });
    WORD.with(Cell::as_ptr)
}

/// The calling thread's heap.
#[cfg(any(feature = "tls-descriptors", miri))]
#[inline]
pub fn current() -> &'static Heap {
    // SAFETY: invariant 1.
    unsafe { &**word() }
}

/// Whether `owner` is the id of the calling thread's heap.
#[cfg(any(feature = "tls-descriptors", miri))]
#[inline]
pub fn is_mine(owner: u32) -> bool {
    // SAFETY: invariant 1.
    owner == id_of(unsafe { *word() })
}

/// Sets the calling thread's heap.
#[cfg(any(feature = "tls-descriptors", miri))]
pub fn set_current(heap: &'static Heap) {
    // SAFETY: invariant 1.
    unsafe { word().write(heap) }
}

/// How far the word lies from the thread's pointer. A function that asks twice loads it once.
#[cfg(all(target_arch = "x86_64", not(any(feature = "tls-descriptors", miri))))]
#[inline(always)]
fn distance() -> usize {
    let distance;
    // SAFETY: loads what the loader has put there before any code of ours ran.
    unsafe {
        core::arch::asm!(
            "mov {d}, qword ptr [rip + masu_heap_v0_1@GOTTPOFF]",
            d = out(reg) distance, options(pure, nomem, nostack, preserves_flags));
    }
    distance
}

/// The calling thread's heap.
#[cfg(not(any(feature = "tls-descriptors", miri)))]
#[inline(always)]
pub fn current() -> &'static Heap {
    let heap: *const Heap;
    // SAFETY: invariant 1.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            "mov {h}, qword ptr fs:[{d}]",
            d = in(reg) distance(), h = lateout(reg) heap,
            options(readonly, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "mrs {h}, tpidr_el0",
            "adrp {t}, :gottprel:masu_heap_v0_1",
            "ldr {t}, [{t}, :gottprel_lo12:masu_heap_v0_1]",
            "ldr {h}, [{h}, {t}]",
            h = out(reg) heap, t = out(reg) _, options(readonly, nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!(
            "la.tls.ie {h}, masu_heap_v0_1",
            "add {h}, {h}, tp",
            "ld {h}, 0({h})",
            h = out(reg) heap, options(readonly, nostack, preserves_flags));
        &*heap
    }
}

/// Whether `owner` is the id of the calling thread's heap.
#[cfg(not(any(feature = "tls-descriptors", miri)))]
#[inline(always)]
pub fn is_mine(owner: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: invariant 1: compares with the thread's own word.
    unsafe {
        core::arch::asm!(
            "cmp {owner:e}, dword ptr fs:[{d}]",
            "jne {other}",
            owner = in(reg) owner, d = in(reg) distance(), other = label { return false },
            options(readonly, nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    if owner != id_of(current()) {
        return false;
    }
    true
}

/// Sets the calling thread's heap.
#[cfg(not(any(feature = "tls-descriptors", miri)))]
pub fn set_current(heap: &'static Heap) {
    // SAFETY: invariant 1: writes the thread's own word, and the address of a heap.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            "mov {t}, qword ptr [rip + masu_heap_v0_1@GOTTPOFF]",
            "mov qword ptr fs:[{t}], {h}",
            h = in(reg) heap as *const Heap, t = out(reg) _,
            options(nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "mrs {p}, tpidr_el0",
            "adrp {t}, :gottprel:masu_heap_v0_1",
            "ldr {t}, [{t}, :gottprel_lo12:masu_heap_v0_1]",
            "str {h}, [{p}, {t}]",
            h = in(reg) heap as *const Heap, p = out(reg) _, t = out(reg) _,
            options(nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!(
            "la.tls.ie {t}, masu_heap_v0_1",
            "add {t}, {t}, tp",
            "sd {h}, 0({t})",
            h = in(reg) heap as *const Heap, t = out(reg) _,
            options(nostack, preserves_flags));
    }
}
