//! The calls under test, with checks of each result.

use std::ptr;

use libc::c_void;

use crate::block::Block;
use crate::pattern;
use crate::worker::Shared;

/// How to allocate.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Malloc,
    /// With this many members.
    Calloc(usize),
    ReallocNull,
    PosixMemalign(usize),
    AlignedAlloc(usize),
    Memalign(usize),
}

/// A description of what is wrong.
pub type Fault = String;

impl Shared {
    /// Allocate, check, enter in the model, fill.
    pub fn allocate(
        &self,
        how: How,
        mut size: usize,
        id: u64,
        sampled: bool,
    ) -> Result<Block, Fault> {
        let mut alignment = 1;
        let pointer = match how {
            // SAFETY: malloc takes any size.
            How::Malloc => unsafe { libc::malloc(size) },
            How::Calloc(members) => {
                let each = size / members;
                size = each * members;
                // SAFETY: calloc takes any sizes.
                unsafe { libc::calloc(members, each) }
            }
            // SAFETY: realloc takes NULL and any size.
            How::ReallocNull => unsafe { libc::realloc(ptr::null_mut(), size) },
            How::PosixMemalign(align) => {
                alignment = align;
                let mut pointer = ptr::null_mut();
                // SAFETY: room for a pointer; the alignment is a power of two, at least a pointer's.
                let error = unsafe { libc::posix_memalign(&mut pointer, align, size) };
                if error == 0 { pointer } else { ptr::null_mut() }
            }
            How::AlignedAlloc(align) => {
                alignment = align;
                // SAFETY: the alignment is a power of two.
                unsafe { libc::aligned_alloc(align, size) }
            }
            How::Memalign(align) => {
                alignment = align;
                // SAFETY: the alignment is a power of two.
                unsafe { libc::memalign(align, size) }
            }
        };
        let block = self.admit(pointer, size, alignment, id, sampled)?;
        if let How::Calloc(_) = how {
            // SAFETY: the block is live and used only here.
            unsafe { pattern::check_zero(&block) }
                .map_err(|fault| format!("calloc did not zero: {fault}"))?;
        }
        // SAFETY: as above.
        unsafe { pattern::fill(&block) };
        Ok(block)
    }

    /// Check a pointer just returned and enter it in the model.
    fn admit(
        &self,
        pointer: *mut c_void,
        len: usize,
        alignment: usize,
        id: u64,
        sampled: bool,
    ) -> Result<Block, Fault> {
        if pointer.is_null() {
            return Err(format!("NULL for {len} bytes aligned to {alignment}"));
        }
        let address = pointer.expose_provenance();
        let natural = match self.options.natural_alignment {
            0 => 16,
            least if len < least => 1 << len.max(1).ilog2(),
            least => least,
        };
        let block = Block { address, len, id, sampled };
        let alignment = alignment.max(natural);
        if !address.is_multiple_of(alignment) {
            return Err(format!("misaligned: {block:x?} should be aligned to {alignment}"));
        }
        self.model.insert(&block)?;
        Ok(block)
    }

    /// Check the contents of a block.
    pub fn check(&self, block: &Block) -> Result<(), Fault> {
        // SAFETY: the caller has the block, so it is live and used only here.
        unsafe { pattern::check(block, block.len) }.map_err(|fault| format!("contents: {fault}"))
    }

    /// Check and free.
    pub fn retire(&self, block: Block) -> Result<(), Fault> {
        self.check(&block)?;
        self.model.remove(&block);
        // SAFETY: the block is live, and given up here.
        unsafe { libc::free(block.pointer()) };
        Ok(())
    }

    /// `realloc`, or `reallocarray` with this many members. `None` if the block was freed by a size
    /// of zero, as an allocator may do.
    pub fn reallocate(
        &self,
        old: Block,
        mut size: usize,
        members: Option<usize>,
        id: u64,
    ) -> Result<Option<Block>, Fault> {
        self.check(&old)?;
        self.model.remove(&old);
        let pointer = match members {
            // SAFETY: the old block is live, and given up here.
            None => unsafe { libc::realloc(old.pointer(), size) },
            Some(members) => {
                let each = size / members;
                size = each * members;
                // SAFETY: as above.
                unsafe { libc::reallocarray(old.pointer(), members, each) }
            }
        };
        if pointer.is_null() && size == 0 {
            return Ok(None);
        }
        let mut block = self.admit(pointer, size, 1, id, old.sampled)?;
        let moved = Block { address: block.address, ..old };
        // SAFETY: the new block is live and used only here; no more than its bytes are read.
        unsafe { pattern::check(&moved, size.min(moved.len)) }
            .map_err(|fault| format!("realloc to {size} lost contents: {fault}"))?;
        block.sampled |= size > 1 << 20;
        // SAFETY: as above.
        unsafe { pattern::fill(&block) };
        Ok(Some(block))
    }

    /// A `reallocarray` whose size overflows must fail and leave the block alone.
    pub fn overflow(&self, block: &Block) -> Result<(), Fault> {
        // SAFETY: the block is live; the call must not touch it.
        let pointer = unsafe { libc::reallocarray(block.pointer(), usize::MAX / 2, 3) };
        if !pointer.is_null() {
            return Err("reallocarray accepted a size that overflows".into());
        }
        self.check(block)
    }

    /// `malloc_usable_size` must grant what was asked for, and everything it grants may be used.
    pub fn extend(&self, block: Block) -> Result<Block, Fault> {
        // SAFETY: the block is live.
        let usable = unsafe { libc::malloc_usable_size(block.pointer()) };
        if usable < block.len {
            return Err(format!("usable size: {usable} granted to {block:x?}"));
        }
        self.check(&block)?;
        self.model.remove(&block);
        let block = Block { len: usable, ..block };
        self.model.insert(&block).map_err(|fault| format!("usable size: {fault}"))?;
        // SAFETY: the block is live, and the allocator says that it is this long.
        unsafe { pattern::fill(&block) };
        Ok(block)
    }
}
