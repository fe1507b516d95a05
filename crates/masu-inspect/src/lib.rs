//! Reads masu's state in another process without stopping it or needing its cooperation, and accounts for the
//! process's memory.
//!
//! ```text
//! process ── find      the copies of masu in it, by their notes
//!   ├─ memory          its bytes (process_vm_readv), and which of its pages are resident (pagemap)
//!   │    ├─ ranges     ranges of its addresses
//!   │    └─ core_file  the same of one that has left a core file
//!   │         └─ core_stack   the stacks of its threads
//!   ├─ engine          a copy's variables and layout, which masu_core::outside describes
//!   │    └─ layout     whether masu can have that layout
//!   ├─ account         where every resident byte is; adds up to the RSS
//!   │    ├─ kind       what a part of it is
//!   │    ├─ owned      which addresses are masu's
//!   │    ├─ inside     what is masu's
//!   │    ├─ fill       how full spans are
//!   │    ├─ locked     which pages are resident although nothing has used them
//!   │    ├─ tables     spans, runs and huge blocks, as the engine's tables have them
//!   │    ├─ hardened   the hardened heap's blocks, free memory and records
//!   │    ├─ hooked     what is in memory of extent hooks
//!   │    ├─ heaps      what threads hold in bins, caches and outboxes
//!   │    ├─ threads    which threads these are to the kernel
//!   │    └─ elsewhere  what is not masu's
//!   ├─ profile         samples of the heap, switched on and off
//!   │    └─ retained   whose blocks keep what is free in spans
//!   ├─ guarded         guarded blocks, and who allocated and freed them
//!   ├─ statistics      what the process would report itself
//!   │    └─ flow       what it has allocated since an earlier look
//!   └─ error           why nothing can be read, and the way out
//! ```
//!
//! The process keeps running meanwhile. So figures are of slightly different moments, memory that moved in between is
//! counted separately, and every number is checked before it is used as an address. A page without contents
//! is never touched, so reading gives the process no memory; a page of masu's tables that is swapped out is read back in.

pub mod account;
pub mod core_file;
mod core_stack;
pub mod elsewhere;
pub mod engine;
pub mod error;
pub mod fill;
pub mod find;
pub mod flow;
#[cfg(test)]
mod forged;
pub mod guarded;
pub mod hardened;
pub mod heaps;
mod hooked;
mod inside;
mod kind;
mod layout;
mod locked;
pub mod memory;
mod owned;
pub mod profile;
pub mod ranges;
pub mod retained;
pub mod statistics;
pub mod tables;
mod threads;

pub use account::{Account, explain};
pub use engine::Engine;
pub use error::Error;
pub use find::engines;
