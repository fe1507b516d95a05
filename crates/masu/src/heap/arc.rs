//! A heap that lives as long as anything in it.

use super::Heap;
use alloc::sync::Arc;
use core::ops::Deref;

/// A counted reference to a [`Heap`], and an allocator. Every collection in the heap holds one; the
/// heap is destroyed with the last reference.
///
/// ```
/// use masu::allocator_api2::vec::Vec;
/// use masu::{ArcHeap, Heap};
///
/// let heap = ArcHeap::from(Heap::new()?);
/// let mut numbers = Vec::new_in(heap.clone());
/// numbers.push(1);
/// let thread = std::thread::spawn(move || {
///     numbers.push(2);
///     numbers
/// });
/// drop(heap);
/// assert_eq!(thread.join().unwrap(), [1, 2]);
/// # Ok::<(), masu::heap::HeapError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArcHeap(Arc<Heap>);

impl From<Heap> for ArcHeap {
    fn from(heap: Heap) -> Self {
        ArcHeap(Arc::new(heap))
    }
}

impl From<Arc<Heap>> for ArcHeap {
    fn from(heap: Arc<Heap>) -> Self {
        ArcHeap(heap)
    }
}

impl Deref for ArcHeap {
    type Target = Heap;

    fn deref(&self) -> &Heap {
        &self.0
    }
}
