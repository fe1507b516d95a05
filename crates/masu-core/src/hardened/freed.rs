//! What a free has done, for the code that counts blocks.

/// What a free has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    /// The bytes of the block.
    pub bytes: usize,
    /// Whether there are more pages that could go back.
    pub emptied: bool,
    /// The first-class heap that it belonged to; 0 if none.
    pub owner: u32,
    /// Whether a fork stands still, and the owner is to free the block once that is over. No thread uses it any more.
    pub left: bool,
}
