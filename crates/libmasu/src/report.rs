//! glibc's functions that report on the allocator and tune it.
//!
//! Programs call them routinely, and services call `malloc_trim(0)` on a timer. They must not reach
//! glibc, which would start a heap of its own to answer. Sizes are the engine's totals over all
//! threads: there are no arenas to report individually.

use crate::errno::EINVAL;
use core::ffi::{c_int, c_void};
use masu_core::Stats;
use masu_core::text::Text;

unsafe extern "C" {
    fn fwrite(bytes: *const c_void, size: usize, count: usize, stream: *mut c_void) -> usize;
}

/// glibc's `struct mallinfo2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MallInfo2 {
    /// Bytes from the system: in use or free, not counting what `hblkhd` counts.
    pub arena: usize,
    /// Free chunks. Not counted here: 0.
    pub ordblks: usize,
    /// Free chunks in fast bins: none.
    pub smblks: usize,
    /// Mapped regions. Not counted here: 0.
    pub hblks: usize,
    /// Bytes in mapped regions: all memory comes from one place, so 0.
    pub hblkhd: usize,
    /// Always 0, in glibc too.
    pub usmblks: usize,
    /// Bytes in fast bins: none.
    pub fsmblks: usize,
    /// Bytes in use.
    pub uordblks: usize,
    /// Bytes from the system that are not in use.
    pub fordblks: usize,
    /// Bytes that `malloc_trim` could give back.
    pub keepcost: usize,
}

/// glibc's `struct mallinfo`: the same in `int`, where larger values saturate.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MallInfo([c_int; 10]);

impl From<&Stats> for MallInfo2 {
    fn from(stats: &Stats) -> Self {
        let in_use = stats.allocated;
        let from_system = stats.resident.max(in_use);
        MallInfo2 {
            arena: from_system,
            ordblks: 0,
            smblks: 0,
            hblks: 0,
            hblkhd: 0,
            usmblks: 0,
            fsmblks: 0,
            uordblks: in_use,
            fordblks: from_system - in_use,
            keepcost: stats.dirty,
        }
    }
}

impl From<MallInfo2> for MallInfo {
    fn from(info: MallInfo2) -> Self {
        MallInfo(
            [
                info.arena,
                info.ordblks,
                info.smblks,
                info.hblks,
                info.hblkhd,
                info.usmblks,
                info.fsmblks,
                info.uordblks,
                info.fordblks,
                info.keepcost,
            ]
            .map(|n| c_int::try_from(n).unwrap_or(c_int::MAX)),
        )
    }
}

/// `mallinfo2` of glibc.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallInfo2 {
    MallInfo2::from(&masu_core::stats())
}

/// `mallinfo` of glibc.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> MallInfo {
    mallinfo2().into()
}

/// `malloc_trim` of glibc: gives back all free memory now. Returns 1 if there was any. There is no
/// heap top to leave `pad` bytes at.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    masu_core::purge().into()
}

/// `mallopt` of glibc. Its parameters tune a heap that does not exist, so they do nothing; glibc, too, accepts
/// unknown ones, and refuses only the size of a fast bin that is too large.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    const M_MXFAST: c_int = 1;
    (parameter != M_MXFAST || matches!(value, 0..=160)).into()
}

/// `malloc_stats` of glibc, on stderr: its lines first, which programs parse, then masu's
/// additional figures. Not a cancellation point, as in glibc.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    let stats = masu_core::stats();
    let info = MallInfo2::from(&stats);
    let mut sink = |bytes: &[u8]| masu_core::write_stderr(bytes);
    let mut text = Text::new(&mut sink);
    let heap = [("system bytes", info.arena), ("in use bytes", info.uordblks)];
    // There are never mapped regions outside the heap.
    let regions = [("max mmap regions", info.hblks), ("max mmap bytes", info.hblkhd)];
    let beyond = [
        ("dirty bytes", stats.dirty),
        ("metadata bytes", stats.metadata),
        ("mapped bytes", stats.mapped),
    ];
    text.str("Arena 0:").line();
    lines(&mut text, &heap);
    text.str("Total (incl. mmap):").line();
    lines(&mut text, &heap);
    lines(&mut text, &regions);
    lines(&mut text, &beyond);
}

/// Writes a line for each figure, in the columns of `malloc_stats`.
fn lines(text: &mut Text, figures: &[(&str, usize)]) {
    for (name, value) in figures {
        let number = masu_core::text::decimal(*value as u64);
        text.left(name, 16).str(" = ").right(number.as_str(), 10).line();
    }
}

/// `malloc_info` of glibc: the totals as XML in its shape, with a single heap.
///
/// # Safety
/// `stream` must be a stream open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut c_void) -> c_int {
    if options != 0 {
        return EINVAL;
    }
    let info = mallinfo2();
    let mut sink = |bytes: &[u8]| {
        // SAFETY: as the caller says, a stream open for writing; the buffer is alive.
        unsafe { fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) };
    };
    let mut text = Text::new(&mut sink);
    text.str("<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n");
    totals(&mut text, &info);
    text.str("</heap>\n");
    totals(&mut text, &info);
    text.str("</malloc>\n");
    0
}

/// The elements that `malloc_info` prints once per heap and once for the process.
fn totals(text: &mut Text, info: &MallInfo2) {
    for (element, value) in [
        ("<total type=\"fast\" count=\"0\" size=\"", 0),
        ("<total type=\"rest\" count=\"0\" size=\"", info.fordblks),
        ("<total type=\"mmap\" count=\"0\" size=\"", info.hblkhd),
        ("<system type=\"current\" size=\"", info.arena),
        ("<system type=\"max\" size=\"", info.arena),
        ("<aspace type=\"total\" size=\"", info.arena),
        ("<aspace type=\"mprotect\" size=\"", info.arena),
    ] {
        text.str(element).decimal(value as u64).str("\"/>\n");
    }
}
