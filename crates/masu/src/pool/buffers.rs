//! [`BufferPool`]: buffers of one size in one contiguous region.
//!
//! Invariants:
//!
//! 1. The region has `count` times `stride` bytes, all of them initialised, and is freed with the pool.
//! 2. An index is on the stack, or is that of one [`Buffer`], or was given away by
//!    [`Buffer::into_index`]; and a buffer's bytes are accessed only through it.
//! 3. A buffer's handle leads to the pool that its index is from, for as long as the buffer lives: it is
//!    a reference or an `Arc`.

use crate::slab::memory;
use crate::slab::stack::IndexStack;
use crate::slab::sync::AtomicU32;
use alloc::alloc::Layout;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

/// A fixed number of byte buffers of one size, in one contiguous region, leased by any number of
/// threads.
///
/// The region begins at a multiple of the page size, and each buffer at a multiple of its
/// alignment, as `O_DIRECT` requires. The region never moves, so it can be registered with the
/// kernel once (`io_uring_register_buffers`, as one buffer or, by [`BufferPool::address`], as
/// many), and a buffer is then named by its index; the crate's example `registered_buffers` does
/// so.
///
/// All bytes are 0 at first; a returned buffer keeps its contents. Leasing and giving back are two
/// atomic operations each.
///
/// ```
/// use masu::BufferPool;
///
/// let pool = BufferPool::new(16, 4096);
/// let mut buffer = pool.lease().unwrap();
/// buffer[..5].copy_from_slice(b"hello");
/// assert!(buffer.as_ptr().addr().is_multiple_of(4096));
/// assert_eq!(buffer.as_ptr(), pool.address(buffer.index()));
/// ```
///
/// A buffer cannot outlive its pool (use [`BufferPool::lease_owned`] for that):
///
/// ```compile_fail,E0716
/// # use masu::BufferPool;
/// let buffer = BufferPool::new(1, 4096).lease();
/// assert!(buffer.is_some());
/// ```
pub struct BufferPool {
    region: NonNull<u8>,
    layout: Layout,
    /// Usable bytes of a buffer, and the distance from one buffer to the next.
    size: usize,
    stride: usize,
    links: Vec<AtomicU32>,
    free: IndexStack,
}

// SAFETY: invariant 1: the region is plain memory that the pool owns; invariant 2: only one thread at a time has a
// buffer.
unsafe impl Send for BufferPool {}
// SAFETY: invariant 2: threads share only the stack and the links, which are atomic; only one at a time has a buffer.
unsafe impl Sync for BufferPool {}

/// The alignment that suits direct I/O everywhere.
const DIRECT: usize = 4096;

impl BufferPool {
    /// Makes `count` buffers of `size` bytes, each at a multiple of 4096 bytes if `size` is one,
    /// else of 512 if `size` is one, else of 64. The region, including the padding between buffers
    /// of odd sizes, takes no memory before it is written.
    ///
    /// # Panics
    /// With `capacity overflow` if the buffers need more than `isize::MAX` bytes or number 2³² - 1
    /// or more. Also if `size` or `count` is 0.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::new(4, 4096);
    /// let mut buffer = pool.lease().unwrap();
    /// buffer[..5].copy_from_slice(b"hello");
    /// assert!(buffer.as_ptr().addr().is_multiple_of(4096));
    /// ```
    pub fn new(count: usize, size: usize) -> Self {
        let align =
            [DIRECT, 512].into_iter().find(|align| size.is_multiple_of(*align)).unwrap_or(64);
        Self::with_align(count, size, align)
    }

    /// Like [`BufferPool::new`], with buffers at multiples of `align`, a power of two.
    ///
    /// # Panics
    /// As [`BufferPool::new`], and if `align` is not a power of two. (An alignment above 1 GiB is
    /// handled like running out of memory.)
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::with_align(4, 100, 1 << 16);
    /// assert!(pool.address(3).addr().is_multiple_of(1 << 16));
    /// ```
    pub fn with_align(count: usize, size: usize, align: usize) -> Self {
        assert!(align.is_power_of_two() && size != 0 && count != 0, "no such buffers");
        let stride = size.checked_next_multiple_of(align);
        let bytes = stride.and_then(|stride| stride.checked_mul(count));
        let layout =
            bytes.map(|bytes| Layout::from_size_align(bytes, align.max(memory::page_size())));
        let (Some(stride), Some(Ok(layout)), Ok(indices)) = (stride, layout, u32::try_from(count))
        else {
            panic!("capacity overflow")
        };
        assert!(indices != u32::MAX, "capacity overflow");
        let pool = BufferPool {
            region: memory::allocate_zeroed(layout),
            layout,
            size,
            stride,
            links: (0..count).map(|_| AtomicU32::new(0)).collect(),
            free: IndexStack::new(),
        };
        for index in (0..indices).rev() {
            // SAFETY: invariant 2: there is such a buffer, which nobody has had so far.
            unsafe { pool.give_back(index) }
        }
        pool
    }

    /// Returns the size of a buffer in bytes.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// assert_eq!(BufferPool::new(4, 512).buffer_size(), 512);
    /// ```
    pub fn buffer_size(&self) -> usize {
        self.size
    }

    /// Returns the number of buffers, leased and free.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// assert_eq!(BufferPool::new(4, 512).count(), 4);
    /// ```
    pub fn count(&self) -> usize {
        self.links.len()
    }

    /// Returns the region's address and its size in bytes, for registration.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::new(16, 4096);
    /// let (start, bytes) = pool.region();
    /// assert!(start.addr().get().is_multiple_of(4096) && bytes == 16 * 4096);
    /// ```
    pub fn region(&self) -> (NonNull<u8>, usize) {
        (self.region, self.layout.size())
    }

    /// Returns the address of a buffer.
    ///
    /// # Panics
    /// If no buffer has this index.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::new(4, 4096);
    /// assert_eq!(pool.address(1).addr() - pool.address(0).addr(), 4096);
    /// ```
    pub fn address(&self, index: usize) -> *mut u8 {
        assert!(index < self.count(), "no such buffer");
        self.region.as_ptr().wrapping_add(index * self.stride)
    }

    /// Returns the index of the buffer that contains an address; `None` also for the padding between buffers.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::new(4, 4096);
    /// assert_eq!(pool.index_of(pool.address(2).wrapping_add(100)), Some(2));
    /// assert_eq!(pool.index_of(std::ptr::null()), None);
    /// ```
    pub fn index_of(&self, address: *const u8) -> Option<usize> {
        let offset = address.addr().wrapping_sub(self.region.as_ptr().addr());
        let inside = offset < self.layout.size() && offset % self.stride < self.size;
        inside.then(|| offset / self.stride)
    }

    fn pop(&self) -> Option<u32> {
        self.free.pop(|index| &self.links[index as usize])
    }

    /// Makes a buffer free.
    ///
    /// # Safety
    /// The index must be a buffer's that is neither free nor leased, nor given away any more.
    unsafe fn give_back(&self, index: u32) {
        self.free.push(index, &self.links[index as usize]);
    }

    /// Leases a free buffer, the one returned last; `None` if all are leased. O(1).
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::new(1, 4096);
    /// let buffer = pool.lease();
    /// assert!(buffer.is_some() && pool.lease().is_none());
    /// drop(buffer);
    /// assert!(pool.lease().is_some());
    /// ```
    pub fn lease(&self) -> Option<Buffer<&Self>> {
        Some(Buffer { index: self.pop()?, pool: self })
    }

    /// Like [`BufferPool::lease`], for a buffer that keeps its pool alive: for I/O in flight that
    /// may end at any time.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// use std::sync::Arc;
    ///
    /// let pool = Arc::new(BufferPool::new(16, 4096));
    /// let buffer = BufferPool::lease_owned(&pool).unwrap();
    /// drop(pool);
    /// std::thread::spawn(move || assert_eq!(buffer[0], 0)).join().unwrap();
    /// ```
    pub fn lease_owned(self: &Arc<Self>) -> Option<Buffer<Arc<Self>>> {
        Some(Buffer { index: self.pop()?, pool: self.clone() })
    }

    /// Takes back the buffer that [`Buffer::into_index`] gave away.
    ///
    /// # Safety
    /// `index` must come from `into_index` of a buffer of this pool and must not have been taken
    /// back yet, and the buffer must no longer be written to.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::new(1, 4096);
    /// let index = pool.lease().unwrap().into_index(); // as an I/O request's tag
    /// assert!(pool.lease().is_none());
    /// // SAFETY: given away above, and nobody writes to it.
    /// drop(unsafe { pool.from_index(index) });
    /// assert!(pool.lease().is_some());
    /// ```
    pub unsafe fn from_index(&self, index: usize) -> Buffer<&Self> {
        Buffer { index: index as u32, pool: self }
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        // SAFETY: invariant 1: allocated with this layout; leases borrow or share the pool, so there are none.
        unsafe { memory::release(self.region, || self.layout) }
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("count", &self.count())
            .field("buffer_size", &self.size)
            .finish()
    }
}

/// A leased buffer of a [`BufferPool`], which goes back when dropped. It may be sent to another
/// thread.
///
/// Forgetting it is safe: the buffer is never leased again.
///
/// ```
/// use masu::BufferPool;
///
/// let pool = BufferPool::new(1, 512);
/// let mut buffer = pool.lease().unwrap();
/// buffer.fill(7);
/// drop(buffer);
/// assert_eq!(pool.lease().unwrap()[511], 7);
/// ```
pub struct Buffer<P: Deref<Target = BufferPool>> {
    pool: P,
    index: u32,
}

impl<P: Deref<Target = BufferPool>> Buffer<P> {
    /// Returns the buffer's index, which names it among registered memory.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::new(4, 4096);
    /// let buffer = pool.lease().unwrap();
    /// assert_eq!(pool.index_of(buffer.as_ptr()), Some(buffer.index()));
    /// ```
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Gives the buffer away, for instance to the kernel, without returning it to the pool.
    /// [`BufferPool::from_index`] takes it back. From then on only the program's own handle keeps
    /// the pool alive, so all writes to the buffer must be done before the pool is dropped.
    ///
    /// ```
    /// # use masu::BufferPool;
    /// let pool = BufferPool::new(1, 4096);
    /// let index = pool.lease().unwrap().into_index();
    /// assert!(pool.lease().is_none());
    /// // SAFETY: given away above.
    /// drop(unsafe { pool.from_index(index) });
    /// assert!(pool.lease().is_some());
    /// ```
    pub fn into_index(self) -> usize {
        let this = ManuallyDrop::new(self);
        let index = this.index();
        // SAFETY: invariant 3: the pool's handle is dropped once, because the buffer is not dropped.
        drop(unsafe { core::ptr::read(&this.pool) });
        index
    }

    fn start(&self) -> *mut u8 {
        self.pool.address(self.index())
    }
}

impl<P: Deref<Target = BufferPool>> Deref for Buffer<P> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: invariants 1, 2 and 3: initialised memory of the region, leased to this handle alone, and borrowed
        // with it.
        unsafe { slice::from_raw_parts(self.start(), self.pool.size) }
    }
}

impl<P: Deref<Target = BufferPool>> DerefMut for Buffer<P> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: invariants 1, 2 and 3: initialised memory of the region, leased to this handle alone, and borrowed
        // exclusively with it.
        unsafe { slice::from_raw_parts_mut(self.start(), self.pool.size) }
    }
}

impl<P: Deref<Target = BufferPool>> AsRef<[u8]> for Buffer<P> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<P: Deref<Target = BufferPool>> AsMut<[u8]> for Buffer<P> {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl<P: Deref<Target = BufferPool>> Drop for Buffer<P> {
    fn drop(&mut self) {
        // SAFETY: invariants 2 and 3: this lease's, which ends here.
        unsafe { self.pool.give_back(self.index) }
    }
}

impl<P: Deref<Target = BufferPool>> fmt::Debug for Buffer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("index", &self.index).finish()
    }
}
