//! Slabs: storage for values of one type under small integer keys, whose addresses never change.
//!
//! | type | keys | for |
//! |---|---|---|
//! | [`Slab`] | `usize`, reused | a replacement for the `slab` crate |
//! | [`PinSlab`] | `usize`, reused | values that must not move while they live: futures, intrusive nodes |
//! | [`GenSlab`] | [`Key`]: index and generation | keys that outlive their values and must then miss |
//! | [`SharedSlab`] | [`Key`] | many threads that insert, read and remove, without a lock around it |
//!
//! # How values are stored
//!
//! Values lie in pages. The first page has the requested capacity. If none was requested, it has the capacity that
//! recent slabs of the same kind of value needed, up to 512 KiB, or about a kibibyte if there were none: slabs that are
//! made again and again have one page each. Each further page is as large as all before it together, so a slab of `n`
//! values has at most `log2 n` pages. If no capacity was requested, the second page is larger if that brings both to 8
//! KiB: only the parts of a page that hold values are touched. Growing adds a page: nothing is copied, no address
//! changes, and no insertion waits for a copy of everything.
//!
//! A slot is as large as the value. Four bytes beside it say that it is occupied, or which vacant key comes next;
//! iteration examines eight of these at once. They limit a slab to 2³² − 2 values; a slab that grows stops at the last
//! doubling within that limit.
//!
//! A page's memory is not written before it is needed. It comes from masu's engine, whether or not
//! masu is the global allocator. It goes back there with the slab, by [`Slab::shrink_to_fit`], by
//! [`Slab::release_empty_pages`], or automatically after [`Slab::set_automatic_release`].
//!
//! # Addresses
//!
//! A value stays in place from its insertion until its removal, whatever else happens to the slab,
//! even if the slab itself moves; only [`Slab::compact`] moves values, and it reports each move.
//! [`Slab::as_ptr`] returns an address that may be used as long as the value lives. No method makes
//! a reference to any value except the requested one, so the use of one value never invalidates a
//! pointer to another.
//!
//! # Complexity
//!
//! Insertion, access and removal are O(1); an insertion that grows allocates one page and touches
//! one slot of it. Iteration is O(n + capacity / 8).
//!
//! The interface is that of version 0.4 of the `slab` crate: to switch, change the import. Keys are
//! given out in the same order: the key freed last is reused first, then the keys ascend.

mod build;
mod cursor;
mod growth;
pub(crate) mod history;
pub(crate) mod memory;
#[cfg(all(test, loom))]
mod models;
mod page;
mod release;
pub(crate) mod shared_pages;
mod slots;
pub(crate) mod stack;
pub(crate) mod sync;
mod table;
mod upkeep;

mod access;
mod change;
mod collect;
mod entry;
mod generation;
mod iter;
mod key;
mod pin;
mod room;
#[cfg(feature = "serde")]
mod serde;
mod shared;
mod traits;

pub use access::GetDisjointMutError;
pub use change::Slab;
pub use entry::VacantEntry;
pub use generation::GenSlab;
pub use iter::{Drain, IntoIter, Iter, IterMut};
pub use key::Key;
pub use pin::PinSlab;
pub use shared::{Guard, SharedSlab, TakeError};
