//! Blocks from the C allocator, and lists of them that need no extra memory.

use std::ptr;

/// Room for the link that every block in a [`Chain`] carries in its first word.
const LEAST: usize = size_of::<*mut u8>();

/// Allocate and write every byte; the kernel backs only what was written.
pub fn allocate(size: usize) -> *mut u8 {
    // SAFETY: malloc may be called with any size.
    let block = unsafe { libc::malloc(size) }.cast::<u8>();
    assert!(!block.is_null(), "malloc({size}) failed");
    // SAFETY: the block was just allocated with this size.
    unsafe { ptr::write_bytes(block, 0xa5, size) };
    block
}

/// Give back a block from [`allocate`].
///
/// # Safety
/// The block came from [`allocate`] and was not released before.
pub unsafe fn release(block: *mut u8) {
    // SAFETY: the caller's promise is exactly that of `free`.
    unsafe { libc::free(block.cast()) };
}

/// A stack of blocks, each pointing to the next. Whoever owns the chain owns its blocks.
#[derive(Default)]
pub struct Chain {
    head: Option<ptr::NonNull<u8>>,
    bytes: usize,
}

// SAFETY: a chain owns its blocks, and malloc's blocks may be used by any thread.
unsafe impl Send for Chain {}

impl Chain {
    /// Allocate a block and put it on the chain.
    pub fn push(&mut self, size: usize) {
        let block = allocate(size.max(LEAST));
        let next = self.head.map_or(ptr::null_mut(), ptr::NonNull::as_ptr);
        // SAFETY: the block has room for a pointer, and malloc aligns for one.
        unsafe { block.cast::<*mut u8>().write(next) };
        self.head = ptr::NonNull::new(block);
        self.bytes += size;
    }

    /// Allocate until the chain holds this many bytes, of sizes drawn from `draw`.
    pub fn fill(&mut self, bytes: usize, mut draw: impl FnMut() -> usize) {
        while self.bytes < bytes {
            self.push(draw());
        }
    }

    /// Free the blocks, last in first out.
    pub fn free_all(&mut self) {
        while let Some(block) = self.head {
            // SAFETY: every block of the chain carries the next one in its first word.
            self.head = ptr::NonNull::new(unsafe { block.cast::<*mut u8>().read() });
            // SAFETY: the block was on the chain, so it is ours, and is now off it.
            unsafe { release(block.as_ptr()) };
        }
        self.bytes = 0;
    }

    /// Read something of every block; returns how many there are.
    pub fn count(&self) -> usize {
        let (mut blocks, mut at) = (0, self.head);
        while let Some(block) = at {
            blocks += 1;
            // SAFETY: as in `free_all`, without taking the block off the chain.
            at = ptr::NonNull::new(unsafe { block.cast::<*mut u8>().read() });
        }
        blocks
    }

    /// The bytes asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.free_all();
    }
}

/// A size between `low` and `high` such that every doubling gets about the same number of bytes:
/// many small blocks, few large ones.
pub fn by_bytes(random: &mut fastrand::Rng, low: usize, high: usize) -> usize {
    let (low, high) = (low as f64, high as f64);
    // The density 1/size² integrates to this inverse.
    let u = random.f64();
    (1.0 / (1.0 / low - u * (1.0 / low - 1.0 / high))) as usize
}

/// A size between `low` and `high` such that every doubling gets the same number of blocks.
pub fn by_count(random: &mut fastrand::Rng, low: usize, high: usize) -> usize {
    let (low, high) = ((low as f64).ln(), (high as f64).ln());
    (low + random.f64() * (high - low)).exp() as usize
}
