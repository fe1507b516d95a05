//! [`SharedPool`]: a [`Pool`](super::Pool) that many threads use at once.
//!
//! Every object has an index. It is *live* (it exists) or *vacant*. A live index is either idle,
//! and on the stack `idle`, or leased, and on no stack; a vacant one is on the stack `vacant`.
//!
//! Invariants:
//!
//! 1. Every index on a stack was handed out by `slots`, and is on one stack, once.
//! 2. What has popped or claimed an index, a lease or a call, has exclusive access to its slot until it
//!    pushes the index.
//! 3. `live` is 1 if and only if the slot holds an object; only what has exclusive access changes it.

use super::lease::{Manage, exhausted};
use crate::slab::shared_pages::{self, SharedPages};
use crate::slab::stack::IndexStack;
use crate::slab::sync::{AtomicU32, AtomicUsize, Ordering, Shared};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

struct Slot<T> {
    link: AtomicU32,
    /// 1 if there is an object. Only the thread with exclusive access to the slot writes it.
    live: AtomicU32,
    value: Shared<T>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot { link: AtomicU32::new(0), live: AtomicU32::new(0), value: Shared::uninit() }
    }
}

// SAFETY: invariants 1 and 3: zero is vacant, so the value is not read, and the slot is on no stack, so its link is
// not either.
unsafe impl<T> shared_pages::Slot for Slot<T> {}

/// A pool from which any number of threads lease objects at once. A lease may end on another
/// thread.
///
/// Leasing and giving back are two atomic operations each; threads wait for each other only while a
/// page of slots is allocated. The object returned last is leased first.
///
/// ```
/// use masu::SharedPool;
///
/// let pool = SharedPool::bounded((|| Vec::with_capacity(4096), Vec::clear), 8);
/// std::thread::scope(|s| {
///     for n in 0..4u8 {
///         let pool = &pool;
///         s.spawn(move || {
///             let mut lease = pool.lease();
///             assert!(lease.is_empty());
///             lease.push(n);
///         });
///     }
/// });
/// assert!(pool.len() <= 4);
/// ```
///
/// A lease cannot outlive its pool:
///
/// ```compile_fail,E0597
/// # use masu::SharedPool;
/// let lease = {
///     let pool = SharedPool::new(|| 1);
///     pool.lease()
/// };
/// assert_eq!(*lease, 1);
/// ```
pub struct SharedPool<M: Manage> {
    slots: SharedPages<Slot<M::Item>>,
    idle: IndexStack,
    vacant: IndexStack,
    objects: AtomicUsize,
    limit: usize,
    manager: M,
}

// SAFETY: invariant 3: the pool owns its objects, which may be dropped on any thread that has the pool.
unsafe impl<M: Manage + Send> Send for SharedPool<M> where M::Item: Send {}
// SAFETY: invariant 2: only one thread at a time has an object, so it need not be `Sync`.
unsafe impl<M: Manage + Sync> Sync for SharedPool<M> where M::Item: Send {}

impl<M: Manage> SharedPool<M> {
    /// Makes a pool that grows as needed.
    ///
    /// ```
    /// # use masu::SharedPool;
    /// let pool = SharedPool::new(|| String::with_capacity(100));
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| pool.lease().push('x'));
    ///     }
    /// });
    /// assert!((1..=4).contains(&pool.len()));
    /// ```
    pub fn new(manager: M) -> Self {
        SharedPool::bounded(manager, usize::MAX)
    }

    /// Makes a pool of at most `limit` objects.
    ///
    /// ```
    /// # use masu::SharedPool;
    /// let pool = SharedPool::bounded(|| 1, 1);
    /// let lease = pool.lease();
    /// assert!(pool.try_lease().is_none());
    /// drop(lease);
    /// assert!(pool.try_lease().is_some());
    /// ```
    pub fn bounded(manager: M, limit: usize) -> Self {
        SharedPool {
            slots: SharedPages::new(),
            idle: IndexStack::new(),
            vacant: IndexStack::new(),
            objects: AtomicUsize::new(0),
            limit,
            manager,
        }
    }

    /// Returns the number of objects a moment ago, idle and leased.
    ///
    /// ```
    /// # use masu::SharedPool;
    /// let pool = SharedPool::new(|| 1);
    /// drop(pool.lease());
    /// assert_eq!(pool.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    /// Whether there were no objects a moment ago.
    ///
    /// ```
    /// # use masu::SharedPool;
    /// assert!(SharedPool::new(|| 1).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leases an idle object, or makes one. O(1), plus the cost of [`Manage::create`].
    ///
    /// # Panics
    /// With `pool exhausted` if the pool is bounded and all its objects are leased.
    ///
    /// ```
    /// # use masu::SharedPool;
    /// let pool = SharedPool::new(|| 1);
    /// *pool.lease() += 1;
    /// assert_eq!(*pool.lease(), 2);
    /// ```
    #[track_caller]
    pub fn lease(&self) -> SharedLease<'_, M> {
        match self.try_lease() {
            Some(lease) => lease,
            None => exhausted(),
        }
    }

    /// Leases an idle object, or makes one; `None` if the pool is bounded and all its objects are
    /// leased.
    ///
    /// ```
    /// # use masu::SharedPool;
    /// let pool = SharedPool::bounded(|| 1, 1);
    /// let lease = pool.try_lease();
    /// assert!(lease.is_some() && pool.try_lease().is_none());
    /// ```
    pub fn try_lease(&self) -> Option<SharedLease<'_, M>> {
        let lease = |index, slot| SharedLease { pool: self, index, slot };
        match self.pop(&self.idle) {
            Some((index, slot)) => Some(lease(index, slot)),
            None => self.create().map(|(index, slot)| lease(index, slot)),
        }
    }

    fn pop(&self, stack: &IndexStack) -> Option<(u32, &Slot<M::Item>)> {
        // SAFETY: invariant 1: every index on a stack was claimed.
        let slot = |index| unsafe { self.slots.get_unchecked(index) };
        let index = stack.pop(|index| &slot(index).link)?;
        Some((index, slot(index)))
    }

    fn create(&self) -> Option<(u32, &Slot<M::Item>)> {
        /// Undoes the count if `create` panics.
        struct Count<'a>(&'a AtomicUsize);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let more = |objects| (objects < self.limit).then(|| objects + 1);
        self.objects.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let count = Count(&self.objects);
        let item = self.manager.create();
        let (index, slot) = self.pop(&self.vacant).unwrap_or_else(|| self.slots.claim());
        core::mem::forget(count);
        // SAFETY: invariant 2: popped or claimed, so no other thread accesses the slot.
        unsafe { slot.value.write().write(item) };
        slot.live.store(1, Ordering::Relaxed);
        Some((index, slot))
    }
}

impl<M: Manage> Drop for SharedPool<M> {
    /// Drops all objects, including those of forgotten leases. If a drop panics, the rest is
    /// leaked.
    fn drop(&mut self) {
        for index in 0..self.slots.claimed() {
            if let Some(slot) = self.slots.get(index)
                && slot.live.load(Ordering::Relaxed) == 1
            {
                // SAFETY: invariant 3: there is an object, and no other reference to the pool exists.
                unsafe { slot.value.write().drop_in_place() }
            }
        }
    }
}

impl<M: Manage> fmt::Debug for SharedPool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPool").field("len", &self.len()).field("limit", &self.limit).finish()
    }
}

/// A leased object of a [`SharedPool`], which it returns when dropped. It may be sent to another
/// thread.
///
/// Forgetting it is safe: the object is never leased again, and is dropped with the pool. The same
/// happens if [`Manage::recycle`] panics.
///
/// ```
/// use masu::SharedPool;
///
/// let pool = SharedPool::new(Vec::<u8>::new);
/// let mut lease = pool.lease();
/// std::thread::scope(|s| s.spawn(move || lease.push(1)).join().unwrap()); // comes back over there
/// assert_eq!(*pool.lease(), [1]);
/// ```
pub struct SharedLease<'a, M: Manage> {
    pool: &'a SharedPool<M>,
    index: u32,
    slot: &'a Slot<M::Item>,
}

// SAFETY: invariant 2: a lease is the only way to its object.
unsafe impl<M: Manage + Sync> Send for SharedLease<'_, M> where M::Item: Send {}
// SAFETY: invariant 2: `&SharedLease` gives access only to `&M::Item`.
unsafe impl<M: Manage + Sync> Sync for SharedLease<'_, M> where M::Item: Send + Sync {}

impl<M: Manage> SharedLease<'_, M> {
    /// Takes the object out of the pool permanently.
    ///
    /// ```
    /// # use masu::pool::{SharedLease, SharedPool};
    /// let pool = SharedPool::new(|| String::from("hello"));
    /// assert_eq!(SharedLease::into_inner(pool.lease()), "hello");
    /// assert!(pool.is_empty());
    /// ```
    pub fn into_inner(this: Self) -> M::Item {
        let this = ManuallyDrop::new(this);
        // SAFETY: invariants 2 and 3: the object is this lease's; it is read once, because its slot is vacant
        // afterwards.
        unsafe {
            let value = this.slot.value.write().read();
            this.vacate();
            value
        }
    }

    /// Gives the slot back without its object.
    ///
    /// # Safety
    /// Neither the object nor this lease may be used again.
    unsafe fn vacate(&self) {
        self.slot.live.store(0, Ordering::Relaxed);
        self.pool.objects.fetch_sub(1, Ordering::Relaxed);
        self.pool.vacant.push(self.index, &self.slot.link);
    }
}

impl<M: Manage> Deref for SharedLease<'_, M> {
    type Target = M::Item;

    #[inline]
    fn deref(&self) -> &M::Item {
        // SAFETY: invariants 2 and 3: the object is this lease's, and borrowed with it.
        unsafe { &*self.slot.value.read() }
    }
}

impl<M: Manage> DerefMut for SharedLease<'_, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut M::Item {
        // SAFETY: invariants 2 and 3: the object is this lease's, and borrowed exclusively with it.
        unsafe { &mut *self.slot.value.write() }
    }
}

impl<M: Manage> Drop for SharedLease<'_, M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: invariants 2 and 3: the object is this lease's, which ends here.
        if self.pool.manager.recycle(unsafe { &mut *self.slot.value.write() }) {
            self.pool.idle.push(self.index, &self.slot.link);
            return;
        }
        struct Vacate<'a, 'b, M: Manage>(&'a SharedLease<'b, M>);
        impl<M: Manage> Drop for Vacate<'_, '_, M> {
            fn drop(&mut self) {
                // SAFETY: invariant 2: the object's drop has ended, or panicked, and its lease ends with it.
                unsafe { self.0.vacate() }
            }
        }
        let vacate = Vacate(self);
        // SAFETY: invariants 2 and 3: the object is this lease's, and is dropped once; no value is put there before
        // the slot is vacated.
        unsafe { vacate.0.slot.value.write().drop_in_place() }
    }
}

impl<M: Manage> fmt::Debug for SharedLease<'_, M>
where
    M::Item: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
