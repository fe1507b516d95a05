//! Slabs: storage for values of one type under small integer keys, whose addresses never change.
//!
//! | type | keys | for |
//! |---|---|---|
//! | [`Slab`] | `usize`, reused | what the `slab` crate is used for |
//! | [`PinSlab`] | `usize`, reused | values that must not move while they live: futures, intrusive nodes |
//! | [`GenSlab`] | [`Key`]: index and generation | keys that outlive their values and must then miss |
//! | [`SharedSlab`] | [`Key`] | threads that insert, read and remove without a lock around it |
//!
//! # How values are stored
//!
//! In pages. The first has the capacity that was asked for; else what slabs of such values have needed
//! lately, up to 512 KiB, or about a kibibyte if there were none. So slabs that are made again and again
//! have one page each. Each further page is
//! as large as all before it together, so that a slab of `n` values has at most `log2 n` of them. Where
//! no capacity was asked for, the second is larger if that brings both to 8 KiB: of a page's memory
//! only that is touched which holds values.
//! Growing adds a page: nothing is copied, no address changes and no insertion waits for a copy of
//! everything. A slot is as large as the value; four bytes beside it say that it is occupied, or which vacant
//! key comes next, and iteration looks at eight of these at once. So there can be 2³² − 2 values.
//!
//! Memory of a page is not written before it is needed. It comes from masu's engine, whether or not
//! masu is the global allocator, and goes back there with the slab, by [`Slab::shrink_to_fit`], by
//! [`Slab::release_empty_pages`], or, after [`Slab::set_automatic_release`], by itself.
//!
//! # Addresses
//!
//! A value stays where it is from its insertion until it is removed, whatever else happens to the
//! slab, the slab's own move included; only [`Slab::compact`] moves values, and says which.
//! [`Slab::as_ptr`] hands an address out that may be used as long as the value lives. No method
//! makes a reference to anything but the value it is asked for, so the use of one value never
//! invalidates a pointer to another.
//!
//! # Complexity
//!
//! Insertion, access and removal are O(1); an insertion that grows allocates one page and touches
//! one slot of it. Iteration is O(n + capacity / 8).
//!
//! The interface is that of the `slab` crate 0.4, so that its users change an import. Keys are given
//! out in the same order: the key freed last is reused first, then the keys ascend.

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
