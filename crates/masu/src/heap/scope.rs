//! Scopes: code that knows nothing of heaps allocates from one.
//!
//! With [`Masu`](crate::Masu) as the global allocator, what a thread allocates while a scope is open
//! comes from the scope's heap: boxes, strings, collections, whatever libraries make. Programs that open
//! no scope pay nothing for it: opening one empties the thread's bins, so that allocations take the slow
//! path, where the scope is looked up.

use super::Heap;
use core::sync::atomic::Ordering;
use masu_core::Scope;

/// Runs `f`; what the calling thread allocates from the global allocator [`Masu`](crate::Masu) meanwhile
/// comes from `heap` and counts as its own. About 100 ns.
///
/// What was allocated may be kept, moved and freed anywhere, also when the heap is gone: a heap dropped
/// lives on, unseen, until the last such block is freed. A block belongs to its heap until it is freed;
/// one that a collection replaces when it grows, after the scope, comes from where the thread
/// allocates then. What was allocated before the scope stays where it was unless it must move.
///
/// Scopes nest; the innermost counts. Other threads are not affected, nor is the scope carried over
/// an `await`. Beyond the heap's hard limit the global allocator fails, which ends the process unless the
/// code can tell (`try_reserve`): to be told of tenants that take too much, a soft limit is the better
/// one.
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
    if !heap.scoped.load(Ordering::Relaxed) {
        heap.scoped.store(true, Ordering::Relaxed);
    }
    let result = {
        // SAFETY: the heap is borrowed until the scope is dropped, at the end of this block or when `f`
        // unwinds, and scopes inside `f` end inside it. `scoped` keeps the heap from being destroyed
        // while blocks of the scope live.
        let _open = unsafe { Scope::open(Some(heap.raw)) };
        f()
    };
    heap.after_allocation();
    result
}

/// Runs `f` outside of all scopes that are open on the calling thread: for what outlives them, such as a
/// cache that is filled on the way.
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
    // SAFETY: no heap is named, and scopes inside `f` end inside it.
    let _open = unsafe { Scope::open(None) };
    f()
}
