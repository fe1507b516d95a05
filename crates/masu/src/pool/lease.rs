//! [`Pool`]: reused objects.
//!
//! Invariants:
//!
//! 1. The slot of a [`Lease`] is a live one of its pool, which is not on the list of idle ones, and no
//!    other lease has it.
//! 2. What is linked from `idle` are live slots of this pool, each linked once.

use super::store::{Slot, Store};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::{NonNull, null_mut};

/// How a pool makes its objects and what it does with returned ones.
///
/// A closure makes objects, and leaves returned ones as they are. A pair of closures makes objects
/// with the first and resets returned ones with the second.
///
/// ```
/// use masu::pool::{Manage, Pool};
///
/// struct Buffers;
/// impl Manage for Buffers {
///     type Item = Vec<u8>;
///     fn create(&self) -> Vec<u8> {
///         Vec::with_capacity(4096)
///     }
///     fn recycle(&self, buffer: &mut Vec<u8>) -> bool {
///         buffer.clear();
///         buffer.capacity() <= 65536 // larger buffers are not kept
///     }
/// }
/// let pool = Pool::new(Buffers);
/// assert!(pool.lease().is_empty());
/// ```
pub trait Manage {
    /// The type of the pooled objects.
    type Item;

    /// Makes an object.
    fn create(&self) -> Self::Item;

    /// Called with a returned object. On `false` the pool drops it instead of keeping it.
    fn recycle(&self, item: &mut Self::Item) -> bool {
        let _ = item;
        true
    }
}

impl<T, F: Fn() -> T> Manage for F {
    type Item = T;

    #[inline]
    fn create(&self) -> T {
        self()
    }
}

impl<T, F: Fn() -> T, R: Fn(&mut T)> Manage for (F, R) {
    type Item = T;

    #[inline]
    fn create(&self) -> T {
        self.0()
    }

    #[inline]
    fn recycle(&self, item: &mut T) -> bool {
        self.1(item);
        true
    }
}

/// A pool whose objects are leased and come back, so that expensive setup is done once.
///
/// The object returned last is leased first. All live until the pool is dropped.
///
/// ```
/// use masu::Pool;
///
/// let pool = Pool::new((|| Vec::with_capacity(4096), Vec::clear));
/// let mut lease = pool.lease();
/// lease.extend_from_slice(b"hello");
/// let address = lease.as_ptr();
/// drop(lease);
///
/// let again = pool.lease();
/// assert_eq!((again.len(), again.as_ptr()), (0, address));
/// ```
///
/// A lease cannot outlive its pool:
///
/// ```compile_fail,E0597
/// # use masu::Pool;
/// let lease = {
///     let pool = Pool::new(|| 1);
///     pool.lease()
/// };
/// assert_eq!(*lease, 1);
/// ```
pub struct Pool<M: Manage> {
    /// All objects, idle and leased. A live slot's link is the next idle one.
    store: Store<M::Item>,
    idle: Cell<*mut Slot<M::Item>>,
    objects: Cell<usize>,
    limit: usize,
    manager: M,
}

// SAFETY: invariant 2: a pool owns its objects; the raw pointers lead to slots of its own store.
unsafe impl<M: Manage + Send> Send for Pool<M> where M::Item: Send {}

impl<M: Manage> Pool<M> {
    /// Makes a pool that grows as needed. Allocates nothing yet.
    ///
    /// ```
    /// # use masu::Pool;
    /// let pool = Pool::new(|| vec![0; 100]);
    /// assert_eq!(pool.lease().len(), 100);
    /// ```
    pub const fn new(manager: M) -> Self {
        Pool::bounded(manager, usize::MAX)
    }

    /// Makes a pool of at most `limit` objects.
    ///
    /// ```
    /// # use masu::Pool;
    /// let pool = Pool::bounded(|| 0, 1);
    /// let lease = pool.lease();
    /// assert!(pool.try_lease().is_none());
    /// drop(lease);
    /// assert!(pool.try_lease().is_some());
    /// ```
    pub const fn bounded(manager: M, limit: usize) -> Self {
        Pool {
            store: Store::new(),
            idle: Cell::new(null_mut()),
            objects: Cell::new(0),
            limit,
            manager,
        }
    }

    /// Makes idle objects until the pool has `objects` in all or reaches its limit.
    ///
    /// ```
    /// # use masu::Pool;
    /// let pool = Pool::new(|| String::with_capacity(100));
    /// pool.fill(10);
    /// assert_eq!(pool.len(), 10);
    /// ```
    pub fn fill(&self, objects: usize) {
        while self.objects.get() < objects.min(self.limit) {
            if let Some(slot) = self.create() {
                // SAFETY: invariant 1: made just now, for nobody.
                unsafe { self.push_idle(slot) }
            }
        }
    }

    /// Returns the number of objects, idle and leased.
    ///
    /// ```
    /// # use masu::Pool;
    /// let pool = Pool::new(|| 1);
    /// drop(pool.lease());
    /// assert_eq!(pool.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.objects.get()
    }

    /// Whether there are no objects yet.
    ///
    /// ```
    /// # use masu::Pool;
    /// assert!(Pool::new(|| 1).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many objects the allocated chunks have room for. O(chunks).
    ///
    /// ```
    /// # use masu::Pool;
    /// let pool = Pool::new(|| 1);
    /// drop(pool.lease());
    /// assert!(pool.capacity() >= 1);
    /// ```
    pub fn capacity(&self) -> usize {
        self.store.capacity()
    }

    /// Leases an idle object, or makes one. O(1), plus the cost of [`Manage::create`].
    ///
    /// # Panics
    /// With `pool exhausted` if the pool is bounded and all its objects are leased.
    ///
    /// ```
    /// # use masu::Pool;
    /// let pool = Pool::new(|| 1);
    /// *pool.lease() += 1;
    /// assert_eq!(*pool.lease(), 2);
    /// ```
    #[inline]
    #[track_caller]
    pub fn lease(&self) -> Lease<'_, M> {
        match self.try_lease() {
            Some(lease) => lease,
            None => exhausted(),
        }
    }

    /// Leases an idle object, or makes one; `None` if the pool is bounded and all its objects are
    /// leased.
    ///
    /// ```
    /// # use masu::Pool;
    /// let pool = Pool::bounded(|| 1, 2);
    /// let leases = [pool.try_lease(), pool.try_lease(), pool.try_lease()];
    /// assert!(leases[1].is_some() && leases[2].is_none());
    /// ```
    #[inline]
    pub fn try_lease(&self) -> Option<Lease<'_, M>> {
        let slot = match NonNull::new(self.idle.get()) {
            Some(slot) => {
                // SAFETY: invariant 2: the slot of an idle object is live.
                self.idle.set(unsafe { slot.as_ref() }.link.get());
                slot
            }
            None => self.create()?,
        };
        Some(Lease { pool: self, slot, owns: PhantomData })
    }

    /// Makes an object, which is not idle. `None` at the limit.
    #[inline]
    fn create(&self) -> Option<NonNull<Slot<M::Item>>> {
        /// Undoes the count if `create` panics.
        struct Count<'a>(&'a Cell<usize>);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() - 1);
            }
        }
        if self.objects.get() >= self.limit {
            return None;
        }
        // Counted first: the manager may itself use this pool.
        self.objects.set(self.objects.get() + 1);
        let count = Count(&self.objects);
        let slot = self.store.put(self.manager.create());
        core::mem::forget(count);
        Some(slot)
    }

    /// Makes an object idle.
    ///
    /// # Safety
    /// The slot must be a live one of this pool, neither idle nor used by a lease any more.
    #[inline]
    unsafe fn push_idle(&self, slot: NonNull<Slot<M::Item>>) {
        // SAFETY: as the caller says, a live slot of this pool.
        unsafe { slot.as_ref() }.link.set(self.idle.get());
        self.idle.set(slot.as_ptr());
    }
}

#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn exhausted() -> ! {
    panic!("pool exhausted")
}

impl<M: Manage> fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("len", &self.len()).field("limit", &self.limit).finish()
    }
}

/// A leased object of a [`Pool`], which it returns when dropped.
///
/// Forgetting it is safe: the object is never leased again, and is dropped with the pool. The same
/// happens if [`Manage::recycle`] panics.
///
/// ```
/// use masu::pool::{Lease, Pool};
///
/// let pool = Pool::new(Vec::<u8>::new);
/// let mut lease: Lease<'_, _> = pool.lease();
/// lease.push(1);
/// drop(lease);
/// assert_eq!(*pool.lease(), [1]);
/// ```
pub struct Lease<'a, M: Manage> {
    pool: &'a Pool<M>,
    slot: NonNull<Slot<M::Item>>,
    owns: PhantomData<M::Item>,
}

impl<M: Manage> Lease<'_, M> {
    #[inline]
    fn value(&self) -> *mut M::Item {
        // SAFETY: invariant 1: the lease's slot is live, so it is in the pool's memory.
        unsafe { (&raw mut (*self.slot.as_ptr()).value).cast() }
    }

    /// Takes the object out of the pool permanently.
    ///
    /// ```
    /// # use masu::pool::{Lease, Pool};
    /// let pool = Pool::new(|| String::from("hello"));
    /// assert_eq!(Lease::into_inner(pool.lease()), "hello");
    /// assert_eq!(pool.len(), 0);
    /// ```
    pub fn into_inner(this: Self) -> M::Item {
        let this = ManuallyDrop::new(this);
        // SAFETY: invariant 1: the object is this lease's, which is not dropped; it is read once, because its slot is
        // vacant afterwards.
        unsafe {
            let value = this.value().read();
            this.forget_object();
            value
        }
    }

    /// Gives the slot back without its object.
    ///
    /// # Safety
    /// Neither the object nor this lease may be used again.
    unsafe fn forget_object(&self) {
        self.pool.objects.set(self.pool.objects.get() - 1);
        // SAFETY: as the caller says, neither is used again; invariant 1: the slot is live, and of this pool.
        unsafe { self.pool.store.vacate(self.slot) }
    }
}

impl<M: Manage> Deref for Lease<'_, M> {
    type Target = M::Item;

    #[inline]
    fn deref(&self) -> &M::Item {
        // SAFETY: invariant 1: the object is alive, and borrowed with its lease.
        unsafe { &*self.value() }
    }
}

impl<M: Manage> DerefMut for Lease<'_, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut M::Item {
        // SAFETY: invariant 1: the object is alive, has no other lease, and is borrowed exclusively with this one.
        unsafe { &mut *self.value() }
    }
}

impl<M: Manage> Drop for Lease<'_, M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: invariant 1: the object is alive and this lease's, which ends here.
        unsafe {
            if self.pool.manager.recycle(&mut *self.value()) {
                return self.pool.push_idle(self.slot);
            }
        }
        struct Forget<'a, 'b, M: Manage>(&'a Lease<'b, M>);
        impl<M: Manage> Drop for Forget<'_, '_, M> {
            fn drop(&mut self) {
                // SAFETY: invariant 1: the object's drop has ended, or panicked, and its lease ends with it.
                unsafe { self.0.forget_object() }
            }
        }
        let forget = Forget(self);
        // SAFETY: invariant 1: the object is this lease's, and is dropped once; its slot stays live until it is
        // vacated, so no other value is put there.
        unsafe { forget.0.value().drop_in_place() }
    }
}

impl<M: Manage> fmt::Debug for Lease<'_, M>
where
    M::Item: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
