//! [`ObjectPool`]: makes objects, drops them one by one, and drops the remaining ones at the end.
//!
//! Invariants:
//!
//! 1. The slot of a [`PoolBox`] is a live one of its pool, and no other handle has it. What
//!    [`PoolBox::into_raw`] returns is the object in such a slot, without a handle.
//! 2. An object stays in its slot until it is taken out or dropped, and the pool drops what is left
//!    before it frees their memory.

use super::store::{Slot, Store};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr::NonNull;

/// A pool whose objects are dropped one by one, or all at once with the pool.
///
/// Similar to Boost's `object_pool`, except that `destroy`, which walks the free list in Boost, is
/// O(1).
///
/// ```
/// use masu::ObjectPool;
///
/// let pool = ObjectPool::new();
/// let mut a = pool.alloc(String::from("a"));
/// let b = pool.alloc(String::from("b"));
/// a.push_str(&b);
/// assert_eq!(*a, "ab");
/// drop(a); // dropped, its slot is free again
/// assert_eq!(pool.len(), 1);
/// // Drops b, then the pool, which would also drop any objects left in it.
/// ```
///
/// An object cannot outlive its pool:
///
/// ```compile_fail,E0597
/// # use masu::ObjectPool;
/// let object = {
///     let pool = ObjectPool::new();
///     pool.alloc(1)
/// };
/// assert_eq!(*object, 1);
/// ```
///
/// And a pool belongs to one thread at a time; [`SharedSlab`](crate::SharedSlab) serves several:
///
/// ```compile_fail,E0277
/// # use masu::ObjectPool;
/// let pool = ObjectPool::new();
/// std::thread::scope(|s| {
///     s.spawn(|| pool.alloc(1));
/// });
/// ```
pub struct ObjectPool<T> {
    store: Store<T>,
    len: Cell<usize>,
}

impl<T> ObjectPool<T> {
    /// Makes an empty pool. Allocates nothing.
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// let pool: ObjectPool<String> = ObjectPool::new();
    /// assert_eq!(pool.capacity(), 0);
    /// ```
    pub const fn new() -> Self {
        ObjectPool { store: Store::new(), len: Cell::new(0) }
    }

    /// Makes a pool with room for `capacity` objects.
    ///
    /// # Panics
    /// With `capacity overflow` if that is more than `isize::MAX` bytes.
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// assert!(ObjectPool::<u64>::with_capacity(100).capacity() >= 100);
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        ObjectPool { store: Store::with_capacity(capacity), len: Cell::new(0) }
    }

    /// Returns how many objects the chunks have room for, used and free. O(chunks).
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// let pool = ObjectPool::with_capacity(10);
    /// let _object = pool.alloc(1);
    /// assert_eq!((pool.len(), pool.capacity()), (1, 10));
    /// ```
    pub fn capacity(&self) -> usize {
        self.store.capacity()
    }

    /// Returns the number of objects.
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// let pool = ObjectPool::new();
    /// let boxed = pool.alloc(1);
    /// assert_eq!(pool.len(), 1);
    /// drop(boxed);
    /// assert!(pool.is_empty());
    /// ```
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Whether there are no objects.
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// assert!(ObjectPool::<i32>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes an object. Its handle drops it. O(1).
    ///
    /// # Panics
    /// With `capacity overflow` if the pool would grow beyond `isize::MAX` bytes.
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// let pool = ObjectPool::new();
    /// let object = pool.alloc(7);
    /// assert_eq!((*object, pool.len()), (7, 1));
    /// ```
    #[inline]
    pub fn alloc(&self, value: T) -> PoolBox<'_, T> {
        let slot = self.store.put(value);
        self.len.set(self.len.get() + 1);
        PoolBox { pool: self, slot, owns: PhantomData }
    }

    /// Makes an object without a handle: it lives until [`ObjectPool::destroy`], or as long as the
    /// pool. O(1).
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// let pool = ObjectPool::new();
    /// let p = pool.construct(7);
    /// // SAFETY: of this pool, and alive.
    /// unsafe {
    ///     assert_eq!(*p.as_ref(), 7);
    ///     pool.destroy(p);
    /// }
    /// ```
    #[inline]
    pub fn construct(&self, value: T) -> NonNull<T> {
        PoolBox::into_raw(self.alloc(value))
    }

    /// Drops an object made by [`ObjectPool::construct`]. O(1).
    ///
    /// # Safety
    /// `object` must come from this pool's `construct` or from [`PoolBox::into_raw`], must be
    /// alive, and must not be in use.
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// let pool = ObjectPool::new();
    /// let object = pool.construct(String::from("hello"));
    /// // SAFETY: made just now, and not used any more.
    /// unsafe { pool.destroy(object) };
    /// assert!(pool.is_empty());
    /// ```
    #[inline]
    pub unsafe fn destroy(&self, object: NonNull<T>) {
        // SAFETY: passed on.
        drop(unsafe { PoolBox::from_raw(self, object) });
    }

    /// Whether an address belongs to one of this pool's object slots, occupied or not. O(chunks).
    ///
    /// ```
    /// # use masu::ObjectPool;
    /// let pool = ObjectPool::new();
    /// let object = pool.alloc(1);
    /// assert!(pool.is_from(&*object));
    /// assert!(!pool.is_from(&1));
    /// ```
    pub fn is_from(&self, object: *const T) -> bool {
        self.store.owns(object)
    }
}

impl<T> Default for ObjectPool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for ObjectPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectPool")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish()
    }
}

/// An object in an [`ObjectPool`]. Dropping it drops the object and frees its slot.
///
/// Forgetting it is safe: the object then lives until the pool is dropped.
///
/// ```
/// use masu::{ObjectPool, PoolBox};
///
/// let pool = ObjectPool::new();
/// let object: PoolBox<'_, String> = pool.alloc(String::from("hello"));
/// assert_eq!((object.len(), pool.len()), (5, 1));
/// drop(object);
/// assert!(pool.is_empty());
/// ```
pub struct PoolBox<'a, T> {
    pool: &'a ObjectPool<T>,
    slot: NonNull<Slot<T>>,
    owns: PhantomData<T>,
}

impl<'a, T> PoolBox<'a, T> {
    fn value(&self) -> *mut T {
        // SAFETY: invariant 1: the handle's slot is live, so it is in the pool's memory.
        unsafe { (&raw mut (*self.slot.as_ptr()).value).cast() }
    }

    /// Gives the slot back without dropping the object.
    ///
    /// # Safety
    /// Neither the object nor this handle may be used again.
    unsafe fn vacate(&self) {
        self.pool.len.set(self.pool.len.get() - 1);
        // SAFETY: as the caller says, neither is used again; invariant 1: the slot is live, and of this pool.
        unsafe { self.pool.store.vacate(self.slot) }
    }

    /// Takes the object out of the pool.
    ///
    /// ```
    /// # use masu::{ObjectPool, PoolBox};
    /// let pool = ObjectPool::new();
    /// let object = pool.alloc(String::from("hello"));
    /// assert_eq!(PoolBox::into_inner(object), "hello");
    /// ```
    pub fn into_inner(this: Self) -> T {
        let this = ManuallyDrop::new(this);
        // SAFETY: invariant 1: the object is this handle's, which is not dropped; it is read once, because its slot
        // is vacant afterwards.
        unsafe {
            let value = this.value().read();
            this.vacate();
            value
        }
    }

    /// Gives up the handle; the object then lives as long as the pool.
    ///
    /// ```
    /// # use masu::{ObjectPool, PoolBox};
    /// let pool = ObjectPool::new();
    /// let object: &mut i32 = PoolBox::leak(pool.alloc(1));
    /// *object += 1;
    /// ```
    pub fn leak(this: Self) -> &'a mut T {
        // SAFETY: invariant 1: the object was this handle's alone; invariant 2: it lives as long as the pool, which
        // is borrowed for `'a`.
        unsafe { &mut *Self::into_raw(this).as_ptr() }
    }

    /// Gives up the handle and returns the object's address, which never changes.
    ///
    /// ```
    /// # use masu::{ObjectPool, PoolBox};
    /// let pool = ObjectPool::new();
    /// let object = PoolBox::into_raw(pool.alloc(7));
    /// // SAFETY: alive as long as the pool, and nobody else uses it.
    /// assert_eq!(*unsafe { object.as_ref() }, 7);
    /// ```
    pub fn into_raw(this: Self) -> NonNull<T> {
        let this = ManuallyDrop::new(this);
        // SAFETY: invariant 1: the address of a live slot is not null.
        unsafe { NonNull::new_unchecked(this.value()) }
    }

    /// Makes a handle for an object.
    ///
    /// # Safety
    /// `object` must come from [`PoolBox::into_raw`] or [`ObjectPool::construct`] of this pool,
    /// must be alive, and must have no other handle.
    ///
    /// ```
    /// # use masu::{ObjectPool, PoolBox};
    /// let pool = ObjectPool::new();
    /// let raw = PoolBox::into_raw(pool.alloc(7));
    /// // SAFETY: its handle was given up just now.
    /// assert_eq!(*unsafe { PoolBox::from_raw(&pool, raw) }, 7);
    /// assert!(pool.is_empty());
    /// ```
    pub unsafe fn from_raw(pool: &'a ObjectPool<T>, object: NonNull<T>) -> Self {
        // SAFETY: as the caller says, an object of the pool's, so by invariant 1 it lies in a slot.
        let slot = unsafe { object.byte_sub(core::mem::offset_of!(Slot<T>, value)) }.cast();
        PoolBox { pool, slot, owns: PhantomData }
    }

    /// Pins the object: it does not move while it lives, and the pool drops it before freeing its
    /// memory.
    ///
    /// ```
    /// # use masu::{ObjectPool, PoolBox};
    /// let pool = ObjectPool::new();
    /// let mut future = PoolBox::into_pin(pool.alloc(async { 7 }));
    /// let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// assert!(future.as_mut().poll(&mut context).is_ready());
    /// # use std::future::Future;
    /// ```
    pub fn into_pin(this: Self) -> Pin<Self> {
        // SAFETY: invariant 2: the object stays where it is until it is dropped, by this handle or by the pool; only
        // `into_inner` takes it out, and that does not accept a pinned handle.
        unsafe { Pin::new_unchecked(this) }
    }
}

impl<T> Deref for PoolBox<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: invariant 1: the object is alive, and borrowed with its handle.
        unsafe { &*self.value() }
    }
}

impl<T> DerefMut for PoolBox<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: invariant 1: the object is alive, has no other handle, and is borrowed exclusively with this one.
        unsafe { &mut *self.value() }
    }
}

impl<T> Drop for PoolBox<'_, T> {
    #[inline]
    fn drop(&mut self) {
        /// Vacates the slot, even if the object's drop panics.
        struct Vacate<'a, 'b, T>(&'a PoolBox<'b, T>);
        impl<T> Drop for Vacate<'_, '_, T> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: invariant 1: the object's drop has ended, or panicked, and its handle ends with it.
                unsafe { self.0.vacate() }
            }
        }
        let vacate = Vacate(self);
        // SAFETY: invariant 1: the object is this handle's, and is dropped once; its slot stays live until it is
        // vacated, so no other value is put there.
        unsafe { vacate.0.value().drop_in_place() }
    }
}

impl<T: fmt::Debug> fmt::Debug for PoolBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for PoolBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
