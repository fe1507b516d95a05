//! Small blocks: spans of 64 KiB, each with blocks of one size class.
//!
//! A span's memory holds only blocks. Its metadata lies in three places that never share a cache
//! line: the region's page map entry (owner and class, read by every free), the owner's line
//! ([`Span`]) and the remote line ([`remote::RemoteWord`]).
//!
//! ```text
//!             fresh / recycled                 exhausted               enough freed by others
//!  pool ───────────────▶ owned: active ───────────────▶ owned: full ─────────┐
//!   ▲  ▲                     ▲   │                      │       │            ▼
//!   │  │ last block freed    │   └──────── partial ◀────┘       └──▶ unowned: full
//!   │  └─────────────────────┼──────────────┬─▲ local frees            │ a freer claims it
//!   │                        │ adopted      ▼ │ claimed                ▼
//!   └──────────────── unowned: abandoned ◀────┴───── (published, beyond what a heap keeps)
//! ```

pub mod abandoned;
mod block;
mod bound;
mod emptied;
mod list;
#[cfg_attr(loom, path = "../models/world/pool.rs")]
pub mod pool;
mod purge;
mod record;
pub mod remote;
mod sleepers;

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
pub use block::MARK;
pub use block::{Block, block_at, sixteenths};
pub use bound::may_start;
pub use emptied::{emptied, emptied_bytes};
pub use list::List;
pub use purge::blocks_on;
pub use record::*;
pub use sleepers::empty_for_sleepers;
