//! Blocks of glibc's own allocator that are passed to this library.
//!
//! A program may reach glibc's `malloc` in spite of masu, by `dlsym` from glibc's handle or in a namespace of
//! `dlmopen`, and free its blocks like any other. If a block is clearly glibc's, glibc gets it back: each of its blocks
//! has a header before it and lies in one of three kinds of place.
//!
//! ```text
//!  kind     where                                        what else must be so
//!  main     below the program break                      the next block's header says that this one is in use
//!  arena    in a heap of 64 MiB, at a multiple of that   the heap's header names an arena, whose heap names it too
//!  mapped   at the start of its own pages                its size is that of whole pages, all of them mapped
//! ```
//!
//! Nothing unreadable is read: the kernel is asked first. A block that matches none of these is left alone, such as one
//! of the main arena of a second copy of glibc, which has no break.
//!
//! Invariants:
//!
//! 1. A word is read only if the kernel could read it just before. A program that unmaps the block
//!    which it is freeing would crash in any allocator.

use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use masu_core::Act;
use masu_core::weak;

use masu_unwind::can_be_read;

/// Performs in glibc the program's operation on one of glibc's blocks; `None` if the block is not
/// recognised as one.
pub fn serve(act: Act, p: *mut u8) -> Option<usize> {
    if !is_its_own(p.addr()) {
        return None;
    }
    let p = p.cast::<c_void>();
    // SAFETY: invariant 1 of `libmasu`: the functions are glibc's, and the block is its own. If the block is damaged,
    // glibc detects it.
    unsafe {
        match act {
            Act::Free => {
                let free: extern "C" fn(*mut c_void) = transmute(function(c"free")?);
                free(p);
                Some(0)
            }
            Act::Realloc(size) => {
                let realloc: extern "C" fn(*mut c_void, usize) -> *mut c_void =
                    transmute(function(c"realloc")?);
                Some(realloc(p, size?).expose_provenance())
            }
            Act::Measure => {
                let usable_size: extern "C" fn(*mut c_void) -> usize =
                    transmute(function(c"malloc_usable_size")?);
                Some(usable_size(p))
            }
        }
    }
}

/// A function of glibc's that one of this library's shadows.
fn function(name: &CStr) -> Option<*const c_void> {
    const RTLD_NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);
    let dlsym = weak!("dlsym");
    if dlsym.is_null() {
        return None;
    }
    // SAFETY: invariant 1 of `libmasu`: `dlsym` has this type.
    let dlsym = unsafe {
        transmute::<*const c_void, extern "C" fn(*mut c_void, *const c_char) -> *const c_void>(
            dlsym,
        )
    };
    let function = dlsym(RTLD_NEXT, name.as_ptr());
    // Another allocator may come before it.
    let (file, _) = masu_core::loaded_from(function.cast())?;
    file.to_bytes().ends_with(b"/libc.so.6").then_some(function)
}

/// A block's header: the size of the previous block, if that is free, and its own size with flags.
const HEADER: usize = 16;
/// The flag that says that the previous block is in use.
const BEFORE_IN_USE: usize = 1;
/// The flags of a block with its own pages, and of one in an arena other than the main one.
const IS_MAPPED: usize = 2;
const IN_ARENA: usize = 4;
const FLAGS: usize = 7;
/// A heap of such an arena begins at a multiple of this and is at most this long.
const ARENA_HEAP: usize = 64 << 20;

/// Reads a word of the program's memory. A sanitizer might report the read as invalid, but it does not watch assembly.
fn word(address: usize) -> Option<usize> {
    if !address.is_multiple_of(8) || !can_be_read(address) {
        return None;
    }
    let word;
    // SAFETY: invariant 1: the kernel has just read it.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {}, qword ptr [{}]", out(reg) word, in(reg) address,
            options(readonly, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("ldr {}, [{}]", out(reg) word, in(reg) address,
            options(readonly, nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!("ld {}, 0({})", out(reg) word, in(reg) address,
            options(readonly, nostack, preserves_flags));
    }
    Some(word)
}

/// Whether a block of glibc's starts at an address.
fn is_its_own(at: usize) -> bool {
    look(at).unwrap_or(false)
}

fn look(at: usize) -> Option<bool> {
    if !at.is_multiple_of(16) {
        return Some(false);
    }
    let start = at - HEADER;
    let (before, field) = (word(start)?, word(start + 8)?);
    let (size, flags) = (field & !FLAGS, field & FLAGS);
    if size < 2 * HEADER || !size.is_multiple_of(16) {
        return Some(false);
    }
    Some(match flags & !BEFORE_IN_USE {
        0 => end(start, size).is_some_and(|end| end < program_break()) && in_use(start, size)?,
        IN_ARENA => {
            let heap = at & !(ARENA_HEAP - 1);
            let arena = word(heap)?;
            let length = word(heap + 16)?;
            length <= ARENA_HEAP
                && end(start, size).is_some_and(|end| end < heap + length)
                && arena.is_multiple_of(16)
                && word(arena & !(ARENA_HEAP - 1))? == arena
                && in_use(start, size)?
        }
        IS_MAPPED if flags == IS_MAPPED => {
            let page = masu_core::page_size();
            let (first, end) = (start.checked_sub(before)?, end(start, size)?);
            first.is_multiple_of(page)
                && end.is_multiple_of(page)
                && before < page
                && can_be_read(end - page)
        }
        _ => false,
    })
}

fn end(start: usize, size: usize) -> Option<usize> {
    start.checked_add(size)
}

/// Whether the block after one of a size says that the latter is in use.
fn in_use(start: usize, size: usize) -> Option<bool> {
    Some(word(start + size + 8)? & BEFORE_IN_USE != 0)
}

/// Where the memory that glibc's main arena gets from the kernel ends; 0 if glibc does not say.
fn program_break() -> usize {
    let sbrk = weak!("sbrk");
    if sbrk.is_null() {
        return 0;
    }
    // SAFETY: invariant 1 of `libmasu`: `sbrk` has this type; an argument of 0 changes nothing.
    let sbrk = unsafe { transmute::<*const c_void, extern "C" fn(isize) -> usize>(sbrk) };
    sbrk(0)
}
