//! The measured programs of the memalloc experiment.
//!
//! ```text
//! cells     the program: all sizes of one pattern in one kind of store
//! patterns  what is timed: batches of a hundred objects
//! stores    what objects are put into: boxes, slabs, pools
//! bufpool   the buffer pool of the published measurement
//! ```
//!
//! Only with the feature `memalloc`, so that `masu-work` links no allocator. `masu-lab memalloc-bench` builds and runs them.

pub mod bufpool;
pub mod cells;
pub mod patterns;
pub mod stores;
