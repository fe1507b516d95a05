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
//! If nothing else in the process defines an allocator, a pointer that has not even the header is a mistake. Without
//! masu it would have reached glibc, which would have ended the process too.
//!
//! Invariants:
//!
//! 1. A word is read only if the kernel could read it just before. A program that unmaps the block
//!    which it is freeing would crash in any allocator.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use masu_core::weak;
use masu_core::{Act, Answer};

use masu_unwind::can_be_read;

/// Performs in glibc the program's operation on one of glibc's blocks, or says whether a block that is not recognised
/// as one may be another allocator's.
pub fn serve(act: Act, p: *mut u8) -> Answer {
    match look(p.addr()) {
        Looks::Own => served(act, p.cast()).map_or(Answer::Maybe, Answer::Done),
        Looks::Foreign if is_alone() => Answer::Nobodys,
        _ => Answer::Maybe,
    }
}

#[inline(always)]
fn served(act: Act, p: *mut c_void) -> Option<usize> {
    let function = function(match act {
        Act::Free => c"free",
        Act::Realloc(_) => c"realloc",
        Act::Measure => c"malloc_usable_size",
    })?;
    // SAFETY: invariant 1 of `libmasu`: the functions are glibc's, and the block is its own. If the block is damaged,
    // glibc detects it.
    unsafe {
        Some(match act {
            Act::Free => {
                transmute::<*const c_void, extern "C" fn(*mut c_void)>(function)(p);
                0
            }
            Act::Realloc(size) => transmute::<
                *const c_void,
                extern "C" fn(*mut c_void, usize) -> usize,
            >(function)(p, size?),
            Act::Measure => {
                transmute::<*const c_void, extern "C" fn(*mut c_void) -> usize>(function)(p)
            }
        })
    }
}

/// A function of glibc's that one of this library's shadows.
fn function(name: &CStr) -> Option<*const c_void> {
    let function = symbol(NEXT, name);
    // Another allocator may come before it.
    let (file, _) = masu_core::loaded_from(function.cast())?;
    file.to_bytes().ends_with(b"/libc.so.6").then_some(function)
}

/// `RTLD_DEFAULT` and `RTLD_NEXT`: where the loader begins to look.
const FIRST: usize = 0;
const NEXT: usize = usize::MAX;

/// What the loader finds under a name, from there on; null if nothing.
#[inline(never)]
fn symbol(from: usize, name: &CStr) -> *const c_void {
    let dlsym = weak!("dlsym");
    if dlsym.is_null() {
        return dlsym;
    }
    // SAFETY: invariant 1 of `libmasu`: `dlsym` has this type.
    let dlsym =
        unsafe { transmute::<*const c_void, extern "C" fn(usize, *const c_char) -> _>(dlsym) };
    dlsym(from, name.as_ptr())
}

/// Whether no other allocator serves a part of the process: of the files that see each other's functions, only this
/// library, glibc behind it, and the C++ runtime, which calls `malloc`, define any, and there is one namespace. Other
/// files' allocators serve only these files, with masu as without it.
#[inline(always)]
fn is_alone() -> bool {
    // SAFETY: invariant 1 of `libmasu`: null, or the loader's variable, which begins with a version: 2 if there was ever
    // a second namespace.
    let debug = unsafe { symbol(FIRST, c"_r_debug").cast::<c_int>().as_ref() };
    let file = |from, name| masu_core::loaded_from(symbol(from, name).cast()).map(|(_, base)| base);
    let own = file(FIRST, c"malloc");
    let new = file(NEXT, c"_Znwm");
    debug.is_some_and(|&version| version < 2)
        && function(c"malloc").is_some()
        && own == masu_core::loaded_from(serve as *const u8).map(|(_, base)| base)
        && own == file(FIRST, c"_Znwm")
        && (new.is_none() || new == file(FIRST, c"__cxa_throw"))
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

/// Reads a word of the program's memory; 0 if it cannot be read. A sanitizer might report the read as invalid, but it
/// does not watch assembly.
fn word(address: usize) -> usize {
    if !address.is_multiple_of(8) || !can_be_read(address) {
        return 0;
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
    word
}

/// What an address looks like.
enum Looks {
    /// The start of a block of glibc's.
    Own,
    /// That of one in a place where glibc has no blocks, as far as is known: it gets memory elsewhere if the program
    /// break cannot move.
    Similar,
    /// Neither.
    Foreign,
}

#[inline(always)]
fn look(at: usize) -> Looks {
    let start = at.wrapping_sub(HEADER);
    let (before, field) = (word(start), word(start.wrapping_add(8)));
    let (size, flags) = (field & !FLAGS, field & FLAGS);
    let Some(end) = start.checked_add(size) else { return Looks::Foreign };
    if !at.is_multiple_of(16) || size < 2 * HEADER || !size.is_multiple_of(16) {
        return Looks::Foreign;
    }
    // Of a block without pages of its own, the next one says whether it is in use.
    let in_use = word(end.wrapping_add(8)) & BEFORE_IN_USE != 0;
    let own = match flags & !BEFORE_IN_USE {
        0 => end < program_break() && in_use,
        IN_ARENA => {
            let heap = at & !(ARENA_HEAP - 1);
            let (arena, length) = (word(heap), word(heap + 16));
            arena != 0
                && arena.is_multiple_of(16)
                && length <= ARENA_HEAP
                && end < heap + length
                && word(arena & !(ARENA_HEAP - 1)) == arena
                && in_use
        }
        IS_MAPPED if flags == IS_MAPPED => {
            let page = masu_core::page_size();
            let first = start.wrapping_sub(before);
            first.is_multiple_of(page)
                && end.is_multiple_of(page)
                && before < page
                && can_be_read(end - page)
        }
        _ => false,
    };
    match in_use {
        _ if own => Looks::Own,
        true => Looks::Similar,
        false => Looks::Foreign,
    }
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
