//! Pools: short-lived objects of one type, at addresses that never change.
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
//! Objects lie in chunks and never move. The first chunk is as large as pools of such objects have needed lately; each
//! further one is at least as large as all before it together. Growing copies nothing, and an object stays where it is
//! as long as its handle lives. A handle borrows its pool, so the pool cannot be dropped first. A forgotten handle
//! (`mem::forget`) leaks nothing permanently: its object stays where it is until the pool is dropped, which drops every
//! remaining object.
//!
//! # Order of drops
//!
//! Dropping a handle first drops or resets the object, as the pool requires, then gives the slot
//! back. Dropping a pool drops all objects in the order in which their slots were first used, then
//! frees the memory. If the drop of one panics, the others are still dropped and the panic
//! continues.
//!
//! # Complexity
//!
//! Taking and giving back are O(1); taking may add a chunk, of which it writes one slot. An object
//! costs its size and one word; a pool without objects takes no memory.

mod buffers;
mod lease;
mod object;
mod shared;
mod store;

pub use buffers::{Buffer, BufferPool};
pub use lease::{Lease, Manage, Pool};
pub use object::{ObjectPool, PoolBox};
pub use shared::{SharedLease, SharedPool};
