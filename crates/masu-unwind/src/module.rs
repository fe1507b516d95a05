//! Which file's code contains an address, and where that file's unwinding tables are.
//!
//! glibc from 2.35 on answers with `_dl_find_object`, which never waits. Otherwise the kernel supplies the mappings
//! ([`maps`](crate::maps)). Both give the start of the file in memory; its program headers give the rest.

use crate::tables::Cursor;
use crate::{build, maps};
use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ops::Range;

/// A loaded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its first byte in memory.
    pub start: usize,
    /// Code that is known to belong to it: from here,
    pub from: usize,
    /// to here.
    pub end: usize,
    /// The end of the last segment that is mapped from the file.
    pub last: usize,
    /// The address of `.eh_frame_hdr`; 0 if it has none.
    pub header: usize,
    /// Distinguishes it from a file mapped here at another time.
    pub tag: u64,
}

/// The struct that `_dl_find_object` fills in, on 64-bit machines.
#[repr(C)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    link_map: usize,
    header: usize,
    reserved: [u64; 7],
}

/// The bytes of a file's first page, which is mapped at its start in memory.
pub const FIRST: usize = 4096;
/// A header's kind: a segment that is loaded.
const PT_LOAD: u32 = 1;
/// The first bytes of a file.
const MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");

impl Module {
    /// Returns the module of an address on the calling thread's stack. `may_read` is about [`maps::find`].
    pub fn of(pc: usize, may_read: &mut bool) -> Option<Module> {
        let find = weak!("_dl_find_object");
        if find.is_null() {
            return maps::find(pc, may_read);
        }
        let mut found = MaybeUninit::<Found>::zeroed();
        // SAFETY: this is the signature of the C library's function; it writes a `Found` or
        // nothing.
        let found = unsafe {
            let find = transmute::<
                *const c_void,
                unsafe extern "C" fn(*const c_void, *mut Found) -> c_int,
            >(find);
            if find(pc as *const c_void, found.as_mut_ptr()) != 0 {
                return None;
            }
            found.assume_init()
        };
        let (start, end) = (found.start, found.end);
        // For a file whose segments are not adjacent it gives one segment, not the start of the file.
        // SAFETY: these are the first bytes of a readable code segment.
        if unsafe { (start as *const u32).read_unaligned() } != MAGIC {
            return maps::find(pc, may_read);
        }
        let mut module =
            Module { start, from: start, end, last: end, header: found.header, tag: 0 };
        module.tag = module.identity() ^ (found.link_map as u64).rotate_left(32);
        Some(module)
    }

    /// Whether an address lies in it.
    pub fn has(&self, pc: usize) -> bool {
        (self.from..self.end).contains(&pc)
    }

    /// Returns what differs between files, and between builds of a file: where the tables are, how they begin, their
    /// length, and the build.
    pub fn identity(&self) -> u64 {
        if self.header == 0 {
            return 0;
        }
        // SAFETY: a header has at least twelve bytes, and the loader found it in a loaded module.
        let [a, b, c] = unsafe { (self.header as *const [u32; 3]).read_unaligned() };
        let words = u64::from(a ^ c) << 32 | u64::from(b);
        (self.header as u64).rotate_left(23) ^ words ^ build::of(self, b)
    }

    /// Returns a cursor from an address in one of its segments to that segment's end. `last` is the segment that the
    /// last one was in, or an empty range: most are in the same.
    #[inline(never)]
    pub fn segment(&self, address: usize, last: &mut Range<usize>) -> Option<Cursor> {
        if !last.contains(&address) {
            *last = self.header(PT_LOAD, address, 0)?;
        }
        // SAFETY: a readable segment of a module that has a frame on this thread's stack, so it stays loaded for the
        // walk.
        Some(unsafe { Cursor::new(address, last.end) })
    }

    /// Returns the address of `.eh_frame_hdr` from the program headers; 0 if there is none.
    pub fn find_header(&self) -> usize {
        const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
        self.header(PT_GNU_EH_FRAME, 0, 0).map_or(0, |range| range.start)
    }

    /// Whether it is a library: it has no entry point.
    pub fn is_library(&self) -> bool {
        self.word(24) == Some(0)
    }

    /// Returns a cursor over its first page, where the file's headers lie.
    #[inline(always)]
    pub fn first_page(&self) -> Cursor {
        // SAFETY: the first page of a module is mapped, because the loader reads its headers there.
        unsafe { Cursor::new(self.start, self.start + FIRST) }
    }

    /// Returns what a program header of some kind describes, as mapped in memory, after leaving out the first `skip` of
    /// that kind. Only those segments count that can be read and contain the address.
    #[inline(never)]
    pub fn header(&self, kind: u32, address: usize, mut skip: usize) -> Option<Range<usize>> {
        const PF_R: u64 = 4;
        if self.word(0)? as u32 != MAGIC {
            return None;
        }
        let (mut at, size) = (self.word(32)? as usize, (self.word(48)? >> 48) as usize);
        let mut count = self.word(56)? as u16;
        let mut bias = None;
        while count != 0 {
            let (kind_and_flags, from) = (self.word(at)?, self.word(at + 16)? as usize);
            let length = self.word(at + 40)? as usize;
            (at, count) = (at + size, count - 1);
            let (this, flags) = (kind_and_flags as u32, kind_and_flags >> 32);
            if this == PT_LOAD && bias.is_none() {
                bias = Some(self.start.wrapping_sub(from & !(FIRST - 1)));
            }
            // The header of the tables could precede those of loaded segments, but never does in files that linkers
            // write.
            let Some(bias) = bias else { continue };
            let start = from.wrapping_add(bias);
            let range = start..start.wrapping_add(length);
            let counts = this != PT_LOAD
                || range.end <= self.last && flags & PF_R != 0 && range.contains(&address);
            if this != kind || range.start > range.end || !counts {
                continue;
            }
            if skip == 0 {
                return Some(range);
            }
            skip -= 1;
        }
        None
    }

    /// Returns the eight bytes at an offset in its first page, if they are on it.
    #[inline(always)]
    fn word(&self, offset: usize) -> Option<u64> {
        // SAFETY: as in `first_page`.
        (offset <= FIRST - 8)
            .then(|| unsafe { ((self.start + offset) as *const u64).read_unaligned() })
    }
}
