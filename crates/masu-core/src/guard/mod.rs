//! Sampled guards: a few small blocks lie between inaccessible pages, so that a write or read beyond them, or after
//! they were freed, stops the program where it happens.
//!
//! As in GWP-ASan (Serebryany et al., ICSE 2024). `heap/sampling` decides which blocks; a guarded block lies in no
//! span, so its free takes the slow path by itself, and the hot paths know nothing of it.
//!
//! A block lies at its slot's upper or lower end, by the toss of a coin: at the upper end, accesses beyond the block
//! are found; at the lower end, accesses before it. Up to 15 bytes for the alignment may lie between its end and the
//! guard; these, and whatever else is accessible next to it, hold a pattern that is compared when the block is freed.
//!
//! At most half of the slots are live; the others keep freed blocks inaccessible until all slots have had their turn.
//! A program that has more blocks than that is served as usual.

#[cfg(not(loom))]
mod fault;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
pub mod slots;
pub mod state;

#[cfg(not(loom))]
pub use pool::*;
#[cfg(not(loom))]
pub use {
    fault::catch, fault::watch, report::FILE, report::say_frames, report::tell, report::with_text,
};

#[cfg(not(loom))]
mod pool;
#[cfg(all(test, not(loom)))]
mod tests;
