//! Memory tagging (AArch64's MTE): each 16 bytes of memory have a tag of four bits, and so has a pointer, in its bits
//! 56 to 59. If a thread has asked the kernel for it, every access is checked: where the two tags differ, it ends in
//! `SIGSEGV`.
//!
//! Pages have tags if they were mapped for them. Tags are 0 at first, and again after the pages went back. The kernel
//! copies them in a fork, and accepts tagged pointers in system calls from threads that asked for that. Threads
//! inherit both from the thread that starts them.
//!
//! Invariants:
//! 1. `ON` is set before the first page with tags is opened, and only if the processor has these instructions.

use super::raw::{nr, syscall};
use super::{host, result};
use crate::sync::{AtomicBool, Ordering};
use core::arch::asm;

/// Whether there can be tags at all.
pub const CAN_BE: bool = true;

/// Bytes that have one tag.
pub const GRANULE: usize = 16;

const SHIFT: u32 = 56;
const MASK: usize = 0xf << SHIFT;

const AT_HWCAP2: usize = 26;
const HWCAP2_MTE: usize = 1 << 18;

const PR_SET_TAGGED_ADDR_CTRL: usize = 55;
/// Tagged pointers in system calls, checks that stop the access itself, and every tag except 0.
const CONTROL: usize = 1 | 1 << 1 | 0xfffe << 3;

const PROT_MTE: usize = 0x20;
const PROT_READ_WRITE: usize = 1 | 2;

/// Whether memory is tagged.
static ON: AtomicBool = AtomicBool::new(false);

/// A tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(u8);

impl Tag {
    /// The tag of free memory, and of memory without tags.
    pub const NONE: Tag = Tag(0);

    /// Whether its number is this one.
    #[inline]
    pub fn is(self, number: u8) -> bool {
        self.0 == number
    }

    /// Its number, below 16.
    #[inline]
    pub fn number(self) -> u8 {
        self.0
    }

    /// The tag with a number below 16.
    #[inline]
    pub fn of(number: u8) -> Tag {
        Tag(number & 15)
    }

    /// An address without a tag, given this one.
    #[inline]
    pub fn on(self, address: usize) -> usize {
        address | (self.0 as usize) << SHIFT
    }
}

/// An address without its tag, and the tag.
#[inline]
pub fn split(address: usize) -> (usize, Tag) {
    (untagged(address), Tag::of((address >> SHIFT) as u8))
}

/// An address without its tag.
#[inline]
pub fn untagged(address: usize) -> usize {
    address & !MASK
}

/// Whether memory is tagged.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Whether the processor supports them, and the kernel too.
pub fn are_there() -> bool {
    host::getauxval(AT_HWCAP2) & HWCAP2_MTE != 0
}

/// Whether qemu emulates the processor for a single process: at least up to 7.2, qemu ends programs with checked
/// accesses at the instruction by which `memset` zeroes. That instruction zeroes 512 bytes at once there, and 64 on
/// real processors.
pub fn is_emulated() -> bool {
    let zeroes: usize;
    // SAFETY: every processor has this register.
    unsafe {
        asm!("mrs {zeroes}, dczid_el0", zeroes = out(reg) zeroes, options(nomem, nostack, preserves_flags));
    }
    zeroes & 15 >= 7
}

/// Turns on checks for the calling thread's accesses, and for those of threads that it starts later. Returns `false` if
/// the processor or the kernel cannot check.
#[cold]
pub fn start() -> bool {
    if !are_there() {
        return false;
    }
    // SAFETY: sets an attribute of the thread; accesses without tags to pages without them go on as before.
    let asked =
        result(unsafe { syscall(nr::PRCTL, [PR_SET_TAGGED_ADDR_CTRL, CONTROL, 0, 0, 0, 0]) });
    ON.store(asked.is_ok(), Ordering::Relaxed);
    asked.is_ok()
}

/// Makes a range accessible whose bytes have tags, 0 at first. Returns `false` if the kernel refused.
///
/// # Safety
/// The range must belong to the engine and be anonymous memory, and memory must be tagged.
pub unsafe fn open(addr: usize, len: usize) -> bool {
    let protection = PROT_READ_WRITE | PROT_MTE;
    // SAFETY: passed on.
    result(unsafe { syscall(nr::MPROTECT, [addr, len, protection, 0, 0, 0]) }).is_ok()
}

/// A random tag that is not in a set, which has at most 14 besides 0.
///
/// # Safety
/// Memory must be tagged.
#[inline]
pub unsafe fn random(not: u16) -> Tag {
    let drawn: usize;
    // SAFETY: invariant 1: the processor has the instruction.
    unsafe {
        asm!(".arch_extension memtag", "irg {drawn}, {none}, {not}", drawn = out(reg) drawn, none = in(reg) 0usize,
            not = in(reg) usize::from(not), options(nomem, nostack, preserves_flags));
    }
    split(drawn).1
}

/// The tag of the memory at an address.
///
/// # Safety
/// It must be accessible, and memory must be tagged.
#[cfg(test)]
pub unsafe fn of_memory(at: usize) -> Tag {
    let mut tagged = 0usize;
    // SAFETY: invariant 1: the processor has the instruction.
    unsafe {
        asm!(".arch_extension memtag", "ldg {tagged}, [{at}]", tagged = inout(reg) tagged, at = in(reg) at,
            options(nostack, preserves_flags));
    }
    split(tagged).1
}

/// Gives a range a tag.
///
/// # Safety
/// The range must be whole accessible granules of the engine that are not in use by another tag; memory must be tagged.
#[inline]
pub unsafe fn set(at: usize, len: usize, tag: Tag) {
    let (mut at, end) = (at, at + len);
    let tag = tag.on(at);
    // SAFETY: passed on, and invariant 1. Stores of tags are not checked.
    unsafe {
        if len & GRANULE != 0 {
            asm!(".arch_extension memtag", "stg {tag}, [{at}], #16", at = inout(reg) at, tag = in(reg) tag,
                options(nostack, preserves_flags));
        }
        while at < end {
            asm!(".arch_extension memtag", "st2g {tag}, [{at}], #32", at = inout(reg) at, tag = in(reg) tag,
                options(nostack, preserves_flags));
        }
    }
}

/// Zeroes a range, and takes its tag.
///
/// # Safety
/// As for [`set`], and the contents must not be needed.
#[inline]
pub unsafe fn wipe(at: usize, len: usize) {
    let (mut at, end, none) = (at, at + len, 0usize);
    // SAFETY: passed on, and invariant 1. Stores of tags are not checked, nor the zeroes with them.
    unsafe {
        if len & GRANULE != 0 {
            asm!(".arch_extension memtag", "stzg {none}, [{at}], #16", at = inout(reg) at, none = in(reg) none,
                options(nostack, preserves_flags));
        }
        while at < end {
            asm!(".arch_extension memtag", "stz2g {none}, [{at}], #32", at = inout(reg) at, none = in(reg) none,
                options(nostack, preserves_flags));
        }
    }
}

/// Keeps the calling thread's accesses unchecked until it is dropped. (Those of a signal handler are checked.)
pub struct Unchecked(usize);

/// Stops the checks until the result is dropped, if memory is tagged.
#[inline]
pub fn unchecked() -> Unchecked {
    let mut before = 0usize;
    if is_on() {
        // SAFETY: invariant 1. Which accesses are checked changes nothing that these do.
        unsafe {
            asm!(".arch_extension memtag", "mrs {before}, tco", "msr tco, #1", before = out(reg) before,
                options(nostack, preserves_flags));
        }
    }
    Unchecked(before)
}

impl Drop for Unchecked {
    #[inline]
    fn drop(&mut self) {
        if is_on() {
            // SAFETY: as above.
            unsafe {
                asm!(".arch_extension memtag", "msr tco, {before}", before = in(reg) self.0,
                    options(nostack, preserves_flags));
            }
        }
    }
}
