//! The functions that a program gives an arena for its memory, laid out as jemalloc's manual has them, and
//! how they are called.
//!
//! A function may be null except for `alloc`, and may refuse (`true`): then it has not done what it was
//! asked. While one runs, the calling thread's allocations come from its own heap whatever `thread.arena`
//! says, so it may allocate and free. No lock of the engine is held. Several threads may be in hooks at once.

use crate::heap::scope::Scope;
use core::ffi::{c_uint, c_void};

/// Maps `size` bytes at a multiple of an alignment, at `new_addr` if that is not null; null if it cannot.
/// The flags say what is wanted (zeroes, committed), and the function sets them to what it provides.
pub type Alloc = unsafe extern "C" fn(
    hooks: *const Hooks,
    new_addr: *mut c_void,
    size: usize,
    align: usize,
    zero: *mut bool,
    commit: *mut bool,
    arena: c_uint,
) -> *mut c_void;

/// Unmaps an extent.
pub type Dalloc = unsafe extern "C" fn(
    hooks: *const Hooks,
    addr: *mut c_void,
    size: usize,
    committed: bool,
    arena: c_uint,
) -> bool;

/// Unmaps an extent, and cannot refuse.
pub type Destroy = unsafe extern "C" fn(
    hooks: *const Hooks,
    addr: *mut c_void,
    size: usize,
    committed: bool,
    arena: c_uint,
);

/// Does something to a part of an extent: commits, decommits or purges it.
pub type Part = unsafe extern "C" fn(
    hooks: *const Hooks,
    addr: *mut c_void,
    size: usize,
    offset: usize,
    length: usize,
    arena: c_uint,
) -> bool;

/// Makes two extents of one.
pub type Split = unsafe extern "C" fn(
    hooks: *const Hooks,
    addr: *mut c_void,
    size: usize,
    size_a: usize,
    size_b: usize,
    committed: bool,
    arena: c_uint,
) -> bool;

/// Makes one extent of two neighbours.
pub type Merge = unsafe extern "C" fn(
    hooks: *const Hooks,
    addr_a: *mut c_void,
    size_a: usize,
    addr_b: *mut c_void,
    size_b: usize,
    committed: bool,
    arena: c_uint,
) -> bool;

/// The table of functions, `extent_hooks_t` of jemalloc.
#[repr(C)]
pub struct Hooks {
    /// Gives memory.
    pub alloc: Option<Alloc>,
    /// Takes it back.
    pub dalloc: Option<Dalloc>,
    /// Takes it back when its arena is destroyed.
    pub destroy: Option<Destroy>,
    /// Backs pages that were decommitted by zeroed memory.
    pub commit: Option<Part>,
    /// Takes the memory behind pages away; they are committed before they are used again.
    pub decommit: Option<Part>,
    /// Lets the memory behind pages go at some time; until then their contents are undefined.
    pub purge_lazy: Option<Part>,
    /// Takes the memory behind pages away now; they read as zeroes.
    pub purge_forced: Option<Part>,
    /// Splits an extent.
    pub split: Option<Split>,
    /// Joins two extents.
    pub merge: Option<Merge>,
}

/// An extent: what one call of `alloc` returned, or what splitting and merging made of such
/// results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Its first byte's address.
    pub at: usize,
    /// Bytes.
    pub size: usize,
}

impl Extent {
    /// No extent.
    pub const NONE: Extent = Extent { at: 0, size: 0 };

    /// Whether an address lies in it.
    pub fn holds(&self, at: usize) -> bool {
        at.wrapping_sub(self.at) < self.size
    }
}

fn pointer(at: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(at)
}

/// An arena's hooks, and its number, which they are told.
#[derive(Clone, Copy)]
pub struct Caller {
    hooks: *const Hooks,
    arena: u32,
}

impl Caller {
    /// # Safety
    /// The table must be a valid one for as long as the arena lives, as the code that sets it promises, and
    /// its functions must do what jemalloc's manual says of them.
    pub unsafe fn new(hooks: *const Hooks, arena: u32) -> Self {
        Caller { hooks, arena }
    }

    /// Calls a hook with the thread's own heap to allocate from; `None` if it is null.
    fn call<F: Copy, R>(
        &self,
        which: impl Fn(&Hooks) -> Option<F>,
        call: impl FnOnce(F) -> R,
    ) -> Option<R> {
        // SAFETY: `new`'s contract.
        let function = which(unsafe { &*self.hooks })?;
        // SAFETY: no heap is named.
        let _own = unsafe { Scope::open(None) };
        Some(call(function))
    }

    /// An extent, whether it reads as zeroes, which it must if `zero`, and whether it is committed.
    #[cold]
    #[inline(never)]
    pub fn alloc(
        &self,
        at: usize,
        size: usize,
        align: usize,
        zero: bool,
    ) -> Option<(usize, bool, bool)> {
        let (mut zero, mut commit) = (zero, true);
        // SAFETY: `new`'s contract.
        let got = self.call(
            |h| h.alloc,
            |f| unsafe {
                f(self.hooks, pointer(at), size, align, &raw mut zero, &raw mut commit, self.arena)
            },
        )?;
        (!got.is_null()).then(|| (got.expose_provenance(), zero, commit))
    }

    /// Whether there is a dalloc hook at all.
    pub fn gives_back(&self) -> bool {
        // SAFETY: `new`'s contract.
        unsafe { (*self.hooks).dalloc.is_some() }
    }

    /// Gives an extent back. Returns whether it is gone.
    #[cold]
    #[inline(never)]
    pub fn dalloc(&self, extent: Extent, committed: bool) -> bool {
        // SAFETY: `new`'s contract.
        let refused = self.call(
            |h| h.dalloc,
            |f| unsafe { f(self.hooks, pointer(extent.at), extent.size, committed, self.arena) },
        );
        refused == Some(false)
    }

    /// Gives an extent back for good: it is gone for the arena in any case.
    #[cold]
    #[inline(never)]
    pub fn destroy(&self, extent: Extent, committed: bool) {
        // SAFETY: `new`'s contract.
        self.call(
            |h| h.destroy,
            |f| unsafe {
                f(self.hooks, pointer(extent.at), extent.size, committed, self.arena);
            },
        );
    }

    /// Applies `which` to `offset..offset + length` of an extent. Returns whether it was done.
    #[cold]
    #[inline(never)]
    pub fn part(
        &self,
        which: fn(&Hooks) -> Option<Part>,
        extent: Extent,
        offset: usize,
        length: usize,
    ) -> bool {
        // SAFETY: `new`'s contract.
        let refused = self.call(which, |f| unsafe {
            f(self.hooks, pointer(extent.at), extent.size, offset, length, self.arena)
        });
        refused == Some(false)
    }

    /// Splits an extent. Returns whether it is two now, the first of `first` bytes.
    #[cold]
    #[inline(never)]
    pub fn split(&self, extent: Extent, first: usize, committed: bool) -> bool {
        // SAFETY: `new`'s contract.
        let refused = self.call(
            |h| h.split,
            |f| unsafe {
                let rest = extent.size - first;
                f(self.hooks, pointer(extent.at), extent.size, first, rest, committed, self.arena)
            },
        );
        refused == Some(false)
    }

    /// Joins two neighbours. Returns whether they are one now.
    #[cold]
    #[inline(never)]
    pub fn merge(&self, a: Extent, b: Extent, committed: bool) -> bool {
        // SAFETY: `new`'s contract.
        let refused = self.call(
            |h| h.merge,
            |f| unsafe {
                f(self.hooks, pointer(a.at), a.size, pointer(b.at), b.size, committed, self.arena)
            },
        );
        refused == Some(false)
    }
}
