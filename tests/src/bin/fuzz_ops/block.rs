//! A block that is live, as far as the model knows.

/// A live block.
#[derive(Debug)]
pub struct Block {
    /// Where it starts.
    pub address: usize,
    /// The bytes that may be used: what was asked for, or what `malloc_usable_size` granted.
    pub len: usize,
    /// Determines its contents; never reused.
    pub id: u64,
    /// Only the ends and the start of every page carry the pattern; else every byte does.
    pub sampled: bool,
}

impl Block {
    /// The pointer to give to the allocator.
    pub fn pointer(&self) -> *mut libc::c_void {
        std::ptr::with_exposed_provenance_mut(self.address)
    }
}
