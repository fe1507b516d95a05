//! [`SharedSlab`]: a slab that many threads use at once.
//!
//! The state of a slot is one word. Its upper part is the generation; its lower part says whether
//! the slot is occupied, whether its removal has begun (*marked*), and how many guards exist.
//!
//! | from | to | by |
//! |---|---|---|
//! | vacant | occupied | `insert`, which popped the slot and so has exclusive access |
//! | occupied, `n` | occupied, `n + 1` | `get`, if the generation is the key's and it is not marked |
//! | occupied, `n > 0` | occupied, `n - 1` | a guard's drop |
//! | occupied, `n` | marked, `n` | `remove`, if it is not marked; `take`, if `n` is also 0 |
//! | marked, `n > 0` | marked, `n - 1` | a guard's drop |
//! | marked, 0 | vacant, next generation | the thread that brought it there: `remove`, `take` or the last guard |
//!
//! Exactly one thread brings a slot to *marked, 0*: the `remove` or `take` that finds no guard,
//! otherwise the guard that is dropped last.
//!
//! Orderings: `insert` releases the value with the word, `get` acquires it; a guard's drop releases
//! its reads, and the thread that drops the value acquires them.
//!
//! Invariants:
//!
//! 1. Every index on a shard's stack was handed out by its pages.
//! 2. From the moment when a thread has popped or claimed a slot until it stores *occupied*, only that
//!    thread accesses the value.
//! 3. While the word says *occupied* or *marked*, the slot holds a value. While it counts guards, the
//!    value is only read; a guard's count goes with the guard.
//! 4. Exactly one thread brings a slot to *marked, 0*, as above. Only that thread takes or drops the
//!    value, makes the slot vacant, and pushes it.

use super::key::Key;
use super::shared_pages::{self, SharedPages};
use super::stack::IndexStack;
use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, Shared};
use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;

const OCCUPIED: u64 = 1 << 31;
const MARKED: u64 = 1 << 30;
const GUARDS: u64 = MARKED - 1;
/// A slot that has reached this generation is not used again.
const LAST_GENERATION: u64 = u32::MAX as u64 - 1;

const SHARDS: usize = if cfg!(loom) { 1 } else { 8 };

struct Slot<T> {
    state: AtomicU64,
    link: AtomicU32,
    value: Shared<T>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot { state: AtomicU64::new(0), link: AtomicU32::new(0), value: Shared::uninit() }
    }
}

// SAFETY: invariant 3: zero is vacant, of generation 0, so the value is not read, and the slot is on no stack, so its
// link is not either.
unsafe impl<T> shared_pages::Slot for Slot<T> {}

/// State that threads on different processors should not contend for.
#[repr(align(128))]
struct Shard<T> {
    pages: SharedPages<Slot<T>>,
    free: IndexStack,
    live: AtomicUsize,
}

/// A slab in which any number of threads insert, read and remove values at once, at addresses that
/// never change.
///
/// Reading is an atomic addition and subtraction, insertion and removal a few atomic operations
/// more; threads wait for each other only while a page is allocated. Slots are spread over eight
/// shards, and a thread inserts into one of them. Memory is kept until the slab is dropped.
///
/// If a value is removed while guards to it exist, the last guard drops it. A key finds only its
/// own value: generations tell the values of a slot apart, up to 2³² - 1 of them, after which the
/// slot is retired.
///
/// ```
/// use masu::SharedSlab;
///
/// let slab = SharedSlab::new();
/// let key = slab.insert(String::from("hello"));
/// std::thread::scope(|s| {
///     s.spawn(|| assert_eq!(*slab.get(key).unwrap(), "hello"));
///     s.spawn(|| slab.insert(String::from("world")));
/// });
/// let guard = slab.get(key).unwrap();
/// assert!(slab.remove(key));
/// assert!(slab.get(key).is_none());
/// assert_eq!(*guard, "hello"); // dropped with the guard
/// ```
///
/// A guard cannot outlive the slab:
///
/// ```compile_fail,E0597
/// # use masu::SharedSlab;
/// let guard = {
///     let slab = SharedSlab::new();
///     let key = slab.insert(1);
///     slab.get(key).unwrap()
/// };
/// assert_eq!(*guard, 1);
/// ```
///
/// And values that must stay on their thread cannot be shared:
///
/// ```compile_fail,E0277
/// # use masu::SharedSlab;
/// let slab = SharedSlab::new();
/// slab.insert(std::rc::Rc::new(1));
/// std::thread::scope(|s| {
///     s.spawn(|| slab.len());
/// });
/// ```
pub struct SharedSlab<T> {
    shards: Box<[Shard<T>]>,
}

// SAFETY: invariant 3: the slab owns its values, which may be dropped on any thread that has the slab.
unsafe impl<T: Send> Send for SharedSlab<T> {}
// SAFETY: invariants 2 and 3: a shared slab passes `&T` and, by `insert` and `take`, `T` from thread to thread.
unsafe impl<T: Send + Sync> Sync for SharedSlab<T> {}

/// Why [`SharedSlab::take`] failed.
///
/// ```
/// use masu::SharedSlab;
/// use masu::slab::TakeError;
///
/// let slab = SharedSlab::new();
/// let key = slab.insert('a');
/// let looking = slab.get(key);
/// assert_eq!(slab.take(key), Err(TakeError::Busy));
/// drop(looking);
/// assert_eq!(slab.take(key), Ok('a'));
/// assert_eq!(slab.take(key), Err(TakeError::Vacant));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakeError {
    /// The key has no value, or no longer has one.
    Vacant,
    /// A guard to the value exists. The value stays where it is.
    Busy,
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TakeError::Vacant => "the key has no value",
            TakeError::Busy => "the value is in use",
        })
    }
}

impl core::error::Error for TakeError {}

impl<T> SharedSlab<T> {
    /// Makes an empty slab, of about 3 KiB and no pages so far.
    ///
    /// ```
    /// # use masu::SharedSlab;
    /// let slab = SharedSlab::new();
    /// let key = slab.insert('a');
    /// assert_eq!(*slab.get(key).unwrap(), 'a');
    /// ```
    pub fn new() -> Self {
        let shard = |_| Shard {
            pages: SharedPages::new(),
            free: IndexStack::new(),
            live: AtomicUsize::new(0),
        };
        SharedSlab { shards: (0..SHARDS).map(shard).collect() }
    }

    /// Returns the number of values a moment ago.
    ///
    /// ```
    /// # use masu::SharedSlab;
    /// let slab = SharedSlab::new();
    /// slab.insert(1);
    /// assert_eq!(slab.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.live.load(Ordering::Relaxed)).sum()
    }

    /// Whether there were no values a moment ago.
    ///
    /// ```
    /// # use masu::SharedSlab;
    /// assert!(SharedSlab::<u8>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts a value. O(1), plus the allocation of one page when the slab grows.
    ///
    /// # Panics
    /// With `capacity overflow` if a shard has given out about 5 · 10⁸ slots.
    ///
    /// ```
    /// # use masu::SharedSlab;
    /// let slab = SharedSlab::new();
    /// let key = slab.insert(1);
    /// assert_eq!(*slab.get(key).unwrap(), 1);
    /// ```
    pub fn insert(&self, value: T) -> Key {
        let number = shard_of_thread();
        let shard = &self.shards[number];
        // SAFETY: invariant 1: every index on the stack was claimed.
        let link = |index| unsafe { &shard.pages.get_unchecked(index).link };
        let (index, slot) = match shard.free.pop(link) {
            // SAFETY: invariant 1: every index on the stack was claimed.
            Some(index) => (index, unsafe { shard.pages.get_unchecked(index) }),
            None => shard.pages.claim(),
        };
        let generation = slot.state.load(Ordering::Relaxed) >> 32;
        // SAFETY: invariant 2: popped or claimed, so no other thread accesses the value until the word says that
        // there is one.
        unsafe { slot.value.write().write(value) };
        shard.live.fetch_add(1, Ordering::Relaxed);
        slot.state.store(generation << 32 | OCCUPIED, Ordering::Release);
        Key::new(index * SHARDS as u32 + number as u32, generation as u32 + 1)
    }

    fn slot(&self, key: Key) -> Option<(&Shard<T>, u32, &Slot<T>)> {
        let shard = &self.shards[key.index() as usize % SHARDS];
        let index = key.index() / SHARDS as u32;
        Some((shard, index, shard.pages.get(index)?))
    }

    /// Changes the word of a key's slot if the value exists and is not marked.
    fn update(
        key: Key,
        slot: &Slot<T>,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Result<u64, TakeError> {
        let mut state = slot.state.load(Ordering::Acquire);
        loop {
            let here = state >> 32 == u64::from(key.generation() - 1)
                && state & (OCCUPIED | MARKED) == OCCUPIED;
            if !here {
                return Err(TakeError::Vacant);
            }
            let new = change(state).ok_or(TakeError::Busy)?;
            match slot.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(state),
                Err(now) => state = now,
            }
        }
    }

    /// Returns a key's value, if it exists. The value stays until the guard is dropped. O(1).
    ///
    /// ```
    /// # use masu::SharedSlab;
    /// let slab = SharedSlab::new();
    /// let key = slab.insert(vec![1, 2]);
    /// assert_eq!(slab.get(key).unwrap().len(), 2);
    /// slab.remove(key);
    /// assert!(slab.get(key).is_none());
    /// ```
    pub fn get(&self, key: Key) -> Option<Guard<'_, T>> {
        let (shard, index, slot) = self.slot(key)?;
        // The count can only get this high if guards are forgotten; the value is then out of reach.
        let one_more = |state: u64| (state & GUARDS < GUARDS).then(|| state + 1);
        Self::update(key, slot, one_more).ok()?;
        Some(Guard { shard, index, slot })
    }

    /// Whether a key's value existed a moment ago.
    ///
    /// ```
    /// # use masu::SharedSlab;
    /// let slab = SharedSlab::new();
    /// let key = slab.insert(1);
    /// assert!(slab.contains(key));
    /// ```
    pub fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// Removes a key's value: it is dropped now, or by its last guard. Returns `false` if there is
    /// none. O(1).
    ///
    /// ```
    /// # use masu::SharedSlab;
    /// let slab = SharedSlab::new();
    /// let key = slab.insert(1);
    /// assert!(slab.remove(key) && !slab.remove(key));
    /// ```
    pub fn remove(&self, key: Key) -> bool {
        let Some((shard, index, slot)) = self.slot(key) else { return false };
        match Self::update(key, slot, |state| Some(state | MARKED)) {
            Ok(state) => {
                if state & GUARDS == 0 {
                    // SAFETY: invariant 4: this thread has marked the slot, which has no guards.
                    unsafe { shard.drop_value(index, slot) }
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Removes a key's value and returns it. O(1).
    ///
    /// # Errors
    /// If the value does not exist, or if a guard to it exists.
    ///
    /// ```
    /// # use masu::slab::{SharedSlab, TakeError};
    /// let slab = SharedSlab::new();
    /// let key = slab.insert(1);
    /// let guard = slab.get(key);
    /// assert_eq!(slab.take(key), Err(TakeError::Busy));
    /// drop(guard);
    /// assert_eq!(slab.take(key), Ok(1));
    /// assert_eq!(slab.take(key), Err(TakeError::Vacant));
    /// ```
    pub fn take(&self, key: Key) -> Result<T, TakeError> {
        let (shard, index, slot) = self.slot(key).ok_or(TakeError::Vacant)?;
        Self::update(key, slot, |state| (state & GUARDS == 0).then_some(state | MARKED))?;
        // SAFETY: invariant 4: this thread has marked the slot, which has no guards; the value is read once, because
        // it is vacant then.
        unsafe {
            let value = slot.value.write().read();
            shard.recycle(index, slot);
            Ok(value)
        }
    }

    /// Calls `f` with every value, in no particular order.
    ///
    /// ```
    /// # use masu::SharedSlab;
    /// let mut slab = SharedSlab::new();
    /// let key = slab.insert(1);
    /// slab.for_each_mut(|n| *n += 1);
    /// assert_eq!(*slab.get(key).unwrap(), 2);
    /// ```
    pub fn for_each_mut(&mut self, mut f: impl FnMut(&mut T)) {
        for shard in &self.shards {
            for index in 0..shard.pages.claimed() {
                let Some(slot) = shard.pages.get(index) else { continue };
                let state = slot.state.load(Ordering::Relaxed);
                if state & (OCCUPIED | MARKED) == OCCUPIED && state & GUARDS == 0 {
                    // SAFETY: invariant 3: the slot is occupied, and no guard can exist while the slab is borrowed
                    // exclusively. (A value whose guard was forgotten is skipped.)
                    f(unsafe { &mut *slot.value.write() });
                }
            }
        }
    }
}

impl<T> Shard<T> {
    /// Drops a removed value and makes its slot vacant, even if the drop panics.
    ///
    /// # Safety
    /// The slot must be marked and have no guards, and the caller must have brought it to that
    /// state.
    unsafe fn drop_value(&self, index: u32, slot: &Slot<T>) {
        struct Recycle<'a, T>(&'a Shard<T>, u32, &'a Slot<T>);
        impl<T> Drop for Recycle<'_, T> {
            fn drop(&mut self) {
                // SAFETY: invariant 4: this thread drops the value, so it makes the slot vacant; that drop has ended,
                // or panicked.
                unsafe { self.0.recycle(self.1, self.2) }
            }
        }
        let recycle = Recycle(self, index, slot);
        // SAFETY: as the caller says, access is exclusive; invariant 4: the value is dropped once, because the slot
        // is vacant then.
        unsafe { recycle.2.value.write().drop_in_place() }
    }

    /// Makes a slot vacant, for its next generation.
    ///
    /// # Safety
    /// The slot must be this shard's of that index, marked and without guards; the caller must have brought it to that
    /// state, and its value must be gone.
    unsafe fn recycle(&self, index: u32, slot: &Slot<T>) {
        let generation = (slot.state.load(Ordering::Relaxed) >> 32) + 1;
        self.live.fetch_sub(1, Ordering::Relaxed);
        slot.state.store(generation << 32, Ordering::Release);
        if generation <= LAST_GENERATION {
            self.free.push(index, &slot.link);
        }
    }
}

impl<T> Default for SharedSlab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for SharedSlab<T> {
    /// Drops all values, including those that forgotten guards hold. If a drop panics, the rest is
    /// leaked.
    fn drop(&mut self) {
        for shard in &self.shards {
            for index in 0..shard.pages.claimed() {
                if let Some(slot) = shard.pages.get(index)
                    && slot.state.load(Ordering::Relaxed) & OCCUPIED != 0
                {
                    // SAFETY: invariant 3: occupied, and no other reference to the slab exists.
                    unsafe { slot.value.write().drop_in_place() }
                }
            }
        }
    }
}

impl<T> fmt::Debug for SharedSlab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSlab").field("len", &self.len()).finish()
    }
}

/// A reference to a value of a [`SharedSlab`], which keeps the value alive.
///
/// ```
/// let slab = masu::SharedSlab::new();
/// let key = slab.insert(String::from("hello"));
/// let guard = slab.get(key).unwrap();
/// slab.remove(key); // its key finds it no more, but the guard keeps it
/// assert_eq!(*guard, "hello");
/// ```
///
/// Forgetting it is safe; the value then stays until the slab is dropped.
pub struct Guard<'a, T> {
    shard: &'a Shard<T>,
    index: u32,
    slot: &'a Slot<T>,
}

// SAFETY: invariants 3 and 4: a guard is a `&T` that may drop the value.
unsafe impl<T: Send + Sync> Send for Guard<'_, T> {}
// SAFETY: invariant 3: `&Guard` gives access only to `&T`.
unsafe impl<T: Send + Sync> Sync for Guard<'_, T> {}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: invariant 3: the word counts this guard.
        unsafe { &*self.slot.value.read() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let before = self.slot.state.fetch_sub(1, Ordering::AcqRel);
        if before & (MARKED | GUARDS) == MARKED | 1 {
            // SAFETY: invariant 4: marked, and this was the last guard.
            unsafe { self.shard.drop_value(self.index, self.slot) }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Returns the shard that a thread inserts into, from the address of its stack, which costs nothing
/// to obtain and tells threads apart well enough.
#[inline]
fn shard_of_thread() -> usize {
    if cfg!(loom) {
        return 0;
    }
    let local = 0u8;
    let stack = (&raw const local).addr() >> 16;
    ((stack as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61) as usize % SHARDS
}
