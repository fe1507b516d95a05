//! Memory mappings: the few forms of `mmap`, `munmap`, `mremap` and `madvise` that the engine uses.
//!
//! Invariants:
//! 1. every range that is unmapped, mapped over or advised on here is the engine's own mapping, or a program's that it
//!    gave a hook; a range that loses its contents holds nothing that is in use.

use super::raw::{nr, syscall};
use super::thread::SIGSET_BYTES;
use super::{Errno, auxv, result, rlimit};
use core::ops::Range;

#[cfg(test)]
pub mod refusals;

const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 1 | 2;
const MAP_PRIVATE: usize = 0x02;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;

const MREMAP_MAYMOVE: usize = 1;
const MREMAP_FIXED: usize = 2;
const MREMAP_DONTUNMAP: usize = 4;

const MADV_DONTNEED: usize = 4;
const MADV_FREE: usize = 8;
const MADV_HUGEPAGE: usize = 14;
const MADV_NOHUGEPAGE: usize = 15;
const MADV_WIPEONFORK: usize = 18;
const MADV_POPULATE_WRITE: usize = 23;
const MADV_COLLAPSE: usize = 25;
const MADV_DONTNEED_LOCKED: usize = 24;
const MADV_GUARD_INSTALL: usize = 102;
const MADV_GUARD_REMOVE: usize = 103;
/// No kernel has it.
const MADV_UNKNOWN: usize = 0x7fff_ffff;

/// Pages that [`is_filled`] looks at.
const LOOKS: usize = 8;

/// A system call, which a test can have refused.
///
/// # Safety
/// As the kernel demands for that call.
unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    #[cfg(test)]
    if refusals::next() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: passed on.
    result(unsafe { syscall(number, arguments) })
}

fn mmap(addr: usize, len: usize, flags: usize) -> Result<usize, Errno> {
    mmap_as(addr, len, PROT_READ_WRITE, flags)
}

fn mmap_as(addr: usize, len: usize, protection: usize, flags: usize) -> Result<usize, Errno> {
    let flags = flags | MAP_PRIVATE | MAP_ANONYMOUS;
    // SAFETY: without MAP_FIXED the kernel never replaces a mapping. With it the range is the engine's (invariant 1).
    unsafe { call(nr::MMAP, [addr, len, protection, flags, usize::MAX, 0]) }
}

/// Maps `len` fresh zero bytes, readable and writable, exactly at `addr`, which must be free.
///
/// # Errors
/// `EEXIST` if something is mapped there, or the kernel's reason.
pub fn map_at(addr: usize, len: usize) -> Result<(), Errno> {
    map_free(addr, len, MAP_NORESERVE)
}

/// Like [`map_at`], if the kernel's setting for overcommitment lets the process have that much at once, as for what
/// the C library's `malloc` maps. The range then counts like any other: no later fork is refused because of it.
///
/// # Errors
/// As for that; the range is not mapped then.
pub fn map_judged_at(addr: usize, len: usize) -> Result<(), Errno> {
    map_free(addr, len, 0)?;
    // SAFETY: just mapped.
    unsafe { map_over(addr, len) }.inspect_err(|_| unmap(addr, len))
}

/// Whether the kernel would let the process have that much at once, as for [`map_judged_at`].
pub fn judge(len: usize) -> bool {
    mmap(0, len, 0).inspect(|&at| unmap(at, len)).is_ok()
}

/// Whether nothing is mapped in a range.
///
/// # Errors
/// The kernel's reason why that cannot be known: usually the process may not have that many addresses.
pub fn is_free(addr: usize, len: usize) -> Result<bool, Errno> {
    match mmap_as(addr, len, PROT_NONE, MAP_FIXED_NOREPLACE | MAP_NORESERVE) {
        // A kernel before 4.17 takes the address only as a hint.
        Ok(got) => {
            unmap(got, len);
            Ok(got == addr)
        }
        Err(Errno::EEXIST) => Ok(false),
        Err(e) => Err(e),
    }
}

fn map_free(addr: usize, len: usize, flags: usize) -> Result<(), Errno> {
    let got = mmap(addr, len, MAP_FIXED_NOREPLACE | flags)?;
    if got == addr {
        return Ok(());
    }
    // A kernel before 4.17 takes the address only as a hint.
    unmap(got, len);
    Err(Errno::EEXIST)
}

/// Maps `len` fresh zero bytes, readable and writable, wherever there is room.
///
/// # Errors
/// The kernel's reason.
pub fn map(len: usize) -> Result<usize, Errno> {
    mmap(0, len, 0)
}

/// [`map`] of more than will be used: the kernel does not count pages that are never written.
///
/// # Errors
/// The kernel's reason.
pub fn reserve(len: usize) -> Result<usize, Errno> {
    mmap(0, len, MAP_NORESERVE)
}

/// Takes `len` bytes of addresses wherever there is room, inaccessible until [`protect`] opens them.
///
/// # Errors
/// The kernel's reason.
pub fn reserve_closed(len: usize) -> Result<usize, Errno> {
    mmap_as(0, len, PROT_NONE, MAP_NORESERVE)
}

/// Replaces the engine's own mapping by inaccessible addresses; its pages go back. Returns `false` if the kernel
/// refused.
///
/// # Safety
/// As for [`map_over`].
pub unsafe fn close_over(addr: usize, len: usize) -> bool {
    mmap_as(addr, len, PROT_NONE, MAP_FIXED | MAP_NORESERVE).is_ok()
}

/// Maps `len` fresh zero bytes wherever there is room, at a multiple of `align`, a power of two.
///
/// # Errors
/// The kernel's reason.
pub fn map_aligned(len: usize, align: usize) -> Result<usize, Errno> {
    let more = len.checked_add(align).ok_or(Errno::ENOMEM)?;
    let got = map(more)?;
    // An alignment is never 0: knowing that, the compiler adds no panic.
    let at = got.next_multiple_of(align.max(1));
    let (before, behind) = (at - got, got + more - (at + len));
    if before != 0 {
        unmap(got, before);
    }
    if behind != 0 {
        unmap(at + len, behind);
    }
    Ok(at)
}

/// Replaces the engine's own mapping at `addr` by fresh zero bytes, which also merges it with its
/// neighbours again.
///
/// # Safety
/// The range must belong to the engine and hold nothing that is still in use.
pub unsafe fn map_over(addr: usize, len: usize) -> Result<(), Errno> {
    mmap(addr, len, MAP_FIXED | MAP_NORESERVE).map(drop)
}

/// Unmaps a range that the engine mapped. Failure leaves it mapped, which is harmless.
#[inline(never)]
pub fn unmap(addr: usize, len: usize) {
    try_unmap(addr, len);
}

/// Unmaps a range that the engine mapped. Returns `false` if the kernel refused and it stays mapped: a hole makes two
/// mappings of one, and their number is limited (`vm.max_map_count`).
pub fn try_unmap(addr: usize, len: usize) -> bool {
    #[cfg(test)]
    if refusals::unmapping() {
        return false;
    }
    // SAFETY: invariant 1.
    result(unsafe { syscall(nr::MUNMAP, [addr, len, 0, 0, 0, 0]) }).is_ok()
}

/// Moves the pages of `from` to `to`; `from` stays mapped and reads as zeroes.
///
/// # Safety
/// Both ranges must belong to the engine; whatever `to` holds is lost.
pub unsafe fn move_pages(from: usize, to: usize, len: usize) -> Result<(), Errno> {
    // Beyond a limit that the program has lowered the kernel unmaps `to`, then refuses to move, and refuses to map it
    // again.
    if rlimit::least().is_some() {
        unmap(map(auxv::page_size())?, auxv::page_size());
    }
    #[cfg(test)]
    if refusals::moving(from..from + len) {
        unmap(to, len);
        return Err(Errno::EFAULT);
    }
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    // SAFETY: passed on.
    unsafe { call(nr::MREMAP, [from, len, len, flags, to, 0]) }?;
    if !cfg!(target_arch = "x86_64") {
        // Images for other machines often run under qemu, which (at least up to 10.0) now takes the source for
        // unmapped, and ends a program that touches it. A refusal leaves the source as the kernel left it.
        // SAFETY: the source is the engine's and holds nothing any more.
        let _ = unsafe { map_over(from, len) };
    }
    Ok(())
}

#[inline(never)]
fn madvise(addr: usize, len: usize, advice: usize) -> Result<(), Errno> {
    #[cfg(test)]
    if let Some(before) = refusals::before_locked(addr..addr + len)
        && matches!(advice, MADV_DONTNEED | MADV_DONTNEED_LOCKED)
    {
        if advice == MADV_DONTNEED && before != 0 {
            madvise(addr, before, advice)?;
        }
        return Err(Errno::EINVAL);
    }
    // SAFETY: the kernel checks the range. Only some advice changes contents, and that is given only for the engine's
    // memory that holds nothing (invariant 1).
    unsafe { call(nr::MADVISE, [addr, len, advice, 0, 0, 0]) }.map(drop)
}

/// Gives the pages of a range back to the kernel; they read as zeroes afterwards. Returns `false` if the kernel
/// refused; some of the contents may be gone then: before 5.18, the kernel takes the pages before one that the
/// program has locked, and then refuses.
///
/// # Safety
/// The range must belong to the engine and hold nothing that is still in use.
pub unsafe fn discard(addr: usize, len: usize) -> bool {
    match madvise(addr, len, MADV_DONTNEED) {
        Ok(()) => true,
        // Under mlockall the plain form is refused; 5.18 and later have one for locked pages.
        // qemu-user reports success for advice that it does not know, and for what does not exist.
        Err(Errno::EINVAL) => {
            madvise(addr, len, MADV_DONTNEED_LOCKED).is_ok()
                && madvise(addr, len, MADV_UNKNOWN).is_err()
        }
        Err(_) => false,
    }
}

/// A range of pages, as the kernel takes it in a list.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Pages {
    pub at: usize,
    pub len: usize,
}

#[cfg(test)]
impl Pages {
    fn is_locked(&self) -> bool {
        refusals::before_locked(self.at..self.at + self.len).is_some()
    }
}

/// [`discard`]s ranges one after the other, in one call, and returns the bytes of those before the first that the
/// kernel refused.
///
/// # Errors
/// The kernel's reason if it refused the first one. Before Linux 6.15 it has no such call for a process of its own.
///
/// # Safety
/// As for [`discard`].
pub unsafe fn discard_together(ranges: &[Pages]) -> Result<usize, Errno> {
    /// `PIDFD_SELF`: stands for a descriptor of the calling process.
    const OWN: usize = -10_000isize as usize;
    #[cfg(test)]
    let ranges = match ranges.iter().position(Pages::is_locked) {
        Some(0) => return Err(Errno::EINVAL),
        Some(n) => &ranges[..n],
        None => ranges,
    };
    let at = ranges.as_ptr().expose_provenance();
    // SAFETY: passed on; the kernel reads the list.
    unsafe { call(nr::PROCESS_MADVISE, [OWN, at, ranges.len(), MADV_DONTNEED, 0, 0]) }
}

/// Makes a range of whole pages read as zeroes: [`discard`]s it, and zeroes the pages that the kernel refuses. Returns
/// the bytes given back.
///
/// # Safety
/// As for [`discard`].
pub unsafe fn empty(addr: usize, len: usize) -> usize {
    // SAFETY: passed on.
    if unsafe { discard(addr, len) } {
        return len;
    }
    let page = auxv::page_size().min(len);
    let given = |at: &usize| {
        // SAFETY: passed on.
        unsafe {
            discard(*at, page) || {
                (*at as *mut u8).write_bytes(0, page);
                false
            }
        }
    };
    (addr..addr + len).step_by(page.max(1)).filter(given).count() * page
}

/// Lets the kernel take the pages of a range when it needs some; they keep their contents or read as zeroes until they
/// are written again. Returns `false` if the kernel refused.
///
/// # Safety
/// As for [`discard`].
pub unsafe fn discard_lazily(addr: usize, len: usize) -> bool {
    madvise(addr, len, MADV_FREE).is_ok()
}

/// Whether the page at `addr`, which must be a page's start, has memory of its own. Returns `false` too if the kernel
/// does not say.
pub fn is_resident(addr: usize) -> bool {
    let mut pages = 0u8;
    // SAFETY: the kernel writes one byte for the one page.
    let asked =
        unsafe { call(nr::MINCORE, [addr, 1, (&raw mut pages).expose_provenance(), 0, 0, 0]) };
    asked.is_ok() && pages & 1 != 0
}

/// Whether some pages spread over a range, the last one among them, have memory of their own.
pub fn is_filled(range: Range<usize>) -> bool {
    let page = auxv::page_size();
    let pages = range.len().div_ceil(page);
    (1..=LOOKS).all(|n| is_resident(range.start + (n * pages).div_ceil(LOOKS).max(1) * page - page))
}

/// Finds out which pages from `addr` on have memory of their own: the lowest bit of each byte says so. Returns `false`
/// if the kernel does not say.
pub fn which_are_resident(addr: usize, pages: &mut [u8]) -> bool {
    let (at, len) = (pages.as_mut_ptr().expose_provenance(), pages.len() * auxv::page_size());
    // SAFETY: the kernel writes a byte for each page.
    let answer = unsafe { call(nr::MINCORE, [addr, len, at, 0, 0, 0]) };
    #[cfg(test)]
    refusals::hide_swapped(addr, pages);
    answer.is_ok()
}

/// Whether nothing is mapped in the page that holds `addr`. Returns `false` too if the kernel does not say.
pub fn is_unmapped(addr: usize) -> bool {
    let page = addr & !(auxv::page_size() - 1);
    let mut pages = 0u8;
    // SAFETY: the kernel writes one byte for the one page.
    let asked =
        unsafe { call(nr::MINCORE, [page, 1, (&raw mut pages).expose_provenance(), 0, 0, 0]) };
    asked == Err(Errno::ENOMEM)
}

/// Has the process's children find zeroes in a range of whole pages (Linux 4.14). A refusal has no consequence here.
pub fn wipe_in_children(addr: usize, len: usize) {
    let _ = madvise(addr, len, MADV_WIPEONFORK);
}

/// Waits until no other thread changes or copies the process's mappings, as a fork does.
pub fn wait_for_mappings() {
    // Asking for no page at all would return at once. The answer does not matter.
    let word = 0usize;
    is_resident((&raw const word).addr() / super::auxv::page_size() * super::auxv::page_size());
}

/// Allows transparent huge pages in a range: pages are faulted in 2 MiB at a time, if the kernel has them at hand.
/// Returns `false` if it refused.
pub fn allow_huge(addr: usize, len: usize) -> bool {
    madvise(addr, len, MADV_HUGEPAGE).is_ok()
}

/// Forbids transparent huge pages in a range. A refusal has no consequence.
pub fn forbid_huge(addr: usize, len: usize) {
    let _ = madvise(addr, len, MADV_NOHUGEPAGE);
}

/// Faults in one aligned huge page of untouched memory, if the kernel has one at hand, and forbids huge pages there
/// again, so that the mapping stays whole and the kernel makes no huge pages there after they were given back. The
/// memory still reads as zeroes.
///
/// # Safety
/// `addr..addr + len` must be one huge page of the engine's own memory that is not in use.
pub unsafe fn fault_huge(addr: usize, len: usize) {
    if madvise(addr, len, MADV_HUGEPAGE).is_ok() {
        // SAFETY: the engine's own memory; a zero byte in zero memory changes nothing.
        unsafe { (addr as *mut u8).write_volatile(0) };
        forbid_huge(addr, len);
    }
}

/// Whether the kernel knows [`collapse_huge`] (Linux 6.1): it looks at the advice before it sees that the range is empty.
pub fn knows_collapse() -> bool {
    madvise(0, 0, MADV_COLLAPSE).is_ok()
}

/// Has the kernel put the pages of one aligned huge page into one (Linux 6.1), and forbids huge pages there again. Contents
/// do not change.
///
/// # Errors
/// The kernel's reason.
pub fn collapse_huge(addr: usize, len: usize) -> Result<(), Errno> {
    let done = madvise(addr, len, MADV_HUGEPAGE).and_then(|()| madvise(addr, len, MADV_COLLAPSE));
    forbid_huge(addr, len);
    done
}

/// Faults in a range at once, writable. A refusal has no consequence: each page is then faulted in when it is used.
pub fn populate(addr: usize, len: usize) {
    let _ = madvise(addr, len, MADV_POPULATE_WRITE);
}

/// Makes a range inaccessible without a mapping of its own (Linux 6.13), and gives its pages back. Returns `false` if
/// the kernel does not support that, or the range is locked.
///
/// # Safety
/// As for [`discard`], and no access may follow until [`guard_remove`].
pub unsafe fn guard_install(addr: usize, len: usize) -> bool {
    #[cfg(test)]
    if refusals::marking() {
        return false;
    }
    madvise(addr, len, MADV_GUARD_INSTALL).is_ok()
}

/// Makes a range accessible again. It reads as zeroes.
pub fn guard_remove(addr: usize, len: usize) -> bool {
    madvise(addr, len, MADV_GUARD_REMOVE).is_ok()
}

/// Makes a range accessible, or inaccessible, for which the kernel may split its mapping. Returns `false` if it
/// refused.
///
/// # Safety
/// The range must belong to the engine. No access to what is inaccessible may follow.
#[inline(never)]
pub unsafe fn protect(addr: usize, len: usize, accessible: bool) -> bool {
    let protection = if accessible { PROT_READ_WRITE } else { PROT_NONE };
    // SAFETY: passed on.
    unsafe { call(nr::MPROTECT, [addr, len, protection, 0, 0, 0]) }.is_ok()
}

/// Whether the word at an address, a multiple of 8, can be read. Asks the kernel to use it as a mask of signals, in a
/// call that it refuses for another reason if the word can be read.
pub fn can_be_read(address: usize) -> bool {
    const NO_SUCH_WAY: usize = usize::MAX >> 1;
    // SAFETY: an unknown way of changing the mask is refused; nothing changes.
    let asked = unsafe { call(nr::RT_SIGPROCMASK, [NO_SUCH_WAY, address, 0, SIGSET_BYTES, 0, 0]) };
    asked != Err(Errno::EFAULT)
}
