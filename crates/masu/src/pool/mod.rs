//! Pools: objects of one type that come and go quickly, at addresses that never change.
//!
//! | type | what a handle gives back | threads |
//! |---|---|---|
//! | [`ObjectPool`] | the memory: the object is dropped | one |
//! | [`Pool`] | the object itself, to be leased again | one |
//! | [`SharedPool`] | the object itself | many |
//! | [`BufferPool`] | a buffer of a contiguous region | many |
//!
//! # Addresses and lifetimes
//!
//! Objects lie in chunks, the first as large as what pools of such objects have needed lately, each further one at
//! least as large as all before it together, and are never moved: growing
//! copies nothing, and what a handle refers to stays where it is. A handle borrows its pool, so the
//! pool cannot go first. A handle that is forgotten (`mem::forget`) leaks nothing for good: its
//! object stays where it is until the pool is dropped, which drops every object there is.
//!
//! # Order of drops
//!
//! A dropped handle first does what the pool is for (drops the object, or resets it), then gives
//! the slot back. A dropped pool drops all objects in the order in which their slots were first
//! used, then frees the memory. If the drop of one panics, the others are still dropped and the
//! panic goes on.
//!
//! # Complexity
//!
//! Taking and giving back are O(1); taking may add a chunk, of which it writes one slot. An object
//! costs its size and one word, a pool without objects no memory.

mod buffers;
mod lease;
mod object;
mod shared;
mod store;

pub use buffers::{Buffer, BufferPool};
pub use lease::{Lease, Manage, Pool};
pub use object::{ObjectPool, PoolBox};
pub use shared::{SharedLease, SharedPool};
