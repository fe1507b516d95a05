//! Scopes: code that is unaware of heaps allocates from one.
//!
//! With [`Masu`](crate::Masu) as the global allocator, everything a thread allocates while a scope
//! is open comes from the scope's heap: boxes, strings, collections, and what libraries allocate.
//! Programs that open no scope pay nothing: opening one empties the thread's bins, so that
//! allocations take the slow path, which looks the scope up.
//!
//! Invariants:
//!
//! 1. A scope ends on the thread and in the function that opened it, before what it borrows.

use super::Heap;
use masu_core::Scope;

/// Runs `f` with `heap` as the calling thread's memory: everything that the thread allocates from
/// the global allocator [`Masu`](crate::Masu) comes from `heap` and counts towards its limits. A
/// scope costs about 100 ns.
///
/// Blocks allocated in the scope may be kept, moved and freed anywhere, even after the heap is
/// gone: a dropped heap lives on, unlisted, until no block is left in it. A value that was leaked
/// in it, however it was allocated, keeps its memory and its number for ever.
///
/// A block belongs to its heap until it is freed, even if it is resized: a `Vec` or a `String` that
/// grows after the scope grows in the heap, within its limits, or without limits once the heap is
/// gone. A hash map that grows takes a new block instead, from wherever the thread allocates at
/// that time. Blocks allocated before the scope stay where they are unless they must move.
///
/// Scopes nest; the innermost counts. Other threads are not affected, and a scope does not carry
/// over an `await`. Beyond the heap's hard limit the global allocator fails, which ends the process
/// unless the code handles it (`try_reserve`): to detect tenants that take too much, use a soft
/// limit.
///
/// Without [`Masu`](crate::Masu) as the global allocator a scope has no effect.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: masu::Masu = masu::Masu;
///
/// # fn main() -> Result<(), masu::heap::HeapError> {
/// let heap = masu::Heap::builder().name("parser").build()?;
/// let before = String::from("not the parser's");
/// let words: Vec<String> = masu::scope(&heap, || "a b c".split(' ').map(String::from).collect());
/// assert_eq!(heap.stats().blocks, 4);
/// assert!(heap.owns(words.as_ptr()) && !heap.owns(before.as_ptr()));
/// drop(heap);
/// assert_eq!(words.concat(), "abc");
/// # Ok(())
/// # }
/// ```
pub fn scope<R>(heap: &Heap, f: impl FnOnce() -> R) -> R {
    /// Calls the callback once the scope is closed, also if `f` unwinds.
    struct Closed<'a>(&'a Heap);
    impl Drop for Closed<'_> {
        fn drop(&mut self) {
            self.0.after_allocation();
        }
    }
    let _closed = Closed(heap);
    // SAFETY: invariant 1 of `heap`: the heap is borrowed until the scope is dropped, at the end of this function or
    // when `f` unwinds; scopes inside `f` end inside it. By invariant 2 of `heap`, one from which a scope has
    // allocated outlives the blocks.
    let _open = unsafe { Scope::open(Some(heap.raw)) };
    f()
}

/// Runs `f` outside all scopes that are open on the calling thread, for allocations that outlive
/// them, such as entries of a cache.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: masu::Masu = masu::Masu;
///
/// # fn main() -> Result<(), masu::heap::HeapError> {
/// let heap = masu::Heap::new()?;
/// masu::scope(&heap, || {
///     let cached = masu::unscoped(|| Box::new(1));
///     assert!(!heap.owns(&raw const *cached));
/// });
/// # Ok(())
/// # }
/// ```
pub fn unscoped<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: invariant 1 of `heap::scope`: no heap is given, and scopes inside `f` end inside it.
    let _open = unsafe { Scope::open(None) };
    f()
}
