//! Slots for objects: the storage of the single-threaded pools.
//!
//! Invariants:
//!
//! 1. A slot below `fresh` of the newest chunk, or in an older chunk, has been used: it is *live*
//!    and holds an object, or *vacant* and holds none. A vacant slot's link has its lowest bit set;
//!    without that bit it points to the next vacant slot. A live slot's link has that bit clear and
//!    belongs to the slot's user.
//! 2. `vacant` is the head of the list of vacant slots.
//! 3. No method of the store runs code of `T` or of a caller while 1 and 2 do not hold. So objects may use the
//!    pool they are in, even while they are dropped; so may what is called when an allocation crosses
//!    the soft limit.
//! 4. What is linked from `newest` are chunks from [`Store::add_chunk`], each as large as the layout
//!    of its number of slots. They are freed only when the store is dropped.

use crate::slab::{history, memory};
use alloc::alloc::Layout;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull, null_mut};

/// A slot. `value` is initialised if it is live.
#[repr(C)]
pub(super) struct Slot<T> {
    pub link: Cell<*mut Slot<T>>,
    pub value: MaybeUninit<T>,
}

/// The head of a chunk; the slots follow.
struct Chunk<T> {
    older: *mut Chunk<T>,
    slots: usize,
}

pub(super) struct Store<T> {
    vacant: Cell<*mut Slot<T>>,
    /// The next never-used slot, and the end of them.
    fresh: Cell<*mut Slot<T>>,
    end: Cell<*mut Slot<T>>,
    newest: Cell<*mut Chunk<T>>,
    owns: PhantomData<T>,
}

// SAFETY: invariant 4: the raw pointers lead to memory that the store owns, with its objects.
unsafe impl<T: Send> Send for Store<T> {}

/// Marks a link as that of a vacant slot.
fn tag<T>(slot: *mut Slot<T>) -> *mut Slot<T> {
    slot.map_addr(|addr| addr | 1)
}

fn untag<T>(slot: *mut Slot<T>) -> *mut Slot<T> {
    slot.map_addr(|addr| addr & !1)
}

impl<T> Store<T> {
    /// The offset of the slots in a chunk.
    const OFFSET: usize = size_of::<Chunk<T>>().next_multiple_of(if align_of::<Slot<T>>() > 8 {
        align_of::<Slot<T>>()
    } else {
        8
    });
    const ALIGN: usize = if align_of::<Slot<T>>() > 8 { align_of::<Slot<T>>() } else { 8 };

    /// Slots of the first chunk if no capacity is given and no earlier pool is known.
    const LEAST: usize = {
        let slots = 1024 / size_of::<Slot<T>>();
        if slots < 4 {
            4
        } else if slots > 64 {
            64
        } else {
            slots
        }
    };

    pub const fn new() -> Self {
        Store {
            vacant: Cell::new(null_mut()),
            fresh: Cell::new(null_mut()),
            end: Cell::new(null_mut()),
            newest: Cell::new(null_mut()),
            owns: PhantomData,
        }
    }

    /// A store whose first chunk has room for `slots` objects.
    pub fn with_capacity(slots: usize) -> Self {
        let store = Store::new();
        if slots != 0 {
            store.add_chunk(slots);
        }
        store
    }

    /// Room for objects in all chunks.
    pub fn capacity(&self) -> usize {
        self.chunks().map(|(_, slots)| slots).sum()
    }

    /// Puts an object into a slot.
    #[inline(always)]
    pub fn put(&self, value: T) -> NonNull<Slot<T>> {
        let vacant = self.vacant.get();
        let slot = if !vacant.is_null() {
            // SAFETY: invariants 1 and 2: the head of the list is a vacant slot.
            self.vacant.set(untag(unsafe { (*vacant).link.get() }));
            vacant
        } else {
            if self.fresh.get() == self.end.get() {
                self.grow();
            }
            let slot = self.fresh.get();
            self.fresh.set(slot.wrapping_add(1));
            slot
        };
        // SAFETY: invariants 1, 3 and 4: the slot was vacant or never used, and is on no list now, so it is this
        // call's alone.
        unsafe {
            (&raw mut (*slot).link).write(Cell::new(null_mut()));
            (&raw mut (*slot).value).write(MaybeUninit::new(value));
            NonNull::new_unchecked(slot)
        }
    }

    /// Makes a slot vacant.
    ///
    /// # Safety
    /// The slot must be a live one of this store, and its object must be gone or never be accessed
    /// again.
    #[inline(always)]
    pub unsafe fn vacate(&self, slot: NonNull<Slot<T>>) {
        // SAFETY: as the caller says, a live slot of this store.
        unsafe { slot.as_ref().link.set(tag(self.vacant.get())) }
        self.vacant.set(slot.as_ptr());
    }

    /// Whether an address is that of an object's slot in this store. O(chunks).
    pub fn owns(&self, value: *const T) -> bool {
        self.chunks().any(|(first, slots)| {
            let value_offset = core::mem::offset_of!(Slot<T>, value);
            let offset = value.addr().wrapping_sub(first.addr() + value_offset);
            offset < slots * size_of::<Slot<T>>() && offset.is_multiple_of(size_of::<Slot<T>>())
        })
    }

    /// Yields the first slot and the number of slots of each chunk, newest first.
    fn chunks(&self) -> impl Iterator<Item = (*mut Slot<T>, usize)> + '_ {
        let mut next = self.newest.get();
        core::iter::from_fn(move || {
            let chunk = NonNull::new(next)?;
            // SAFETY: invariant 4: chunks on the list are alive.
            let Chunk { older, slots } = unsafe { chunk.read() };
            next = older;
            Some((Self::first(chunk.as_ptr()), slots))
        })
    }

    fn first(chunk: *mut Chunk<T>) -> *mut Slot<T> {
        chunk.wrapping_byte_add(Self::OFFSET).cast()
    }

    #[cold]
    #[inline(never)]
    fn grow(&self) {
        // First as many as earlier stores needed, or about a kibibyte, but at least four; then up
        // to 8 KiB in all, of which only used parts are touched; then as many as exist already.
        let slots = match self.capacity() {
            0 => history::needed(size_of::<Slot<T>>(), Self::LEAST),
            capacity => capacity.max((8192 / size_of::<Slot<T>>()).saturating_sub(capacity)),
        };
        self.add_chunk(slots);
    }

    fn layout(slots: usize) -> Layout {
        let size =
            slots.checked_mul(size_of::<Slot<T>>()).and_then(|s| s.checked_add(Self::OFFSET));
        match size.map(|size| Layout::from_size_align(size, Self::ALIGN)) {
            Some(Ok(layout)) => layout,
            _ => panic!("capacity overflow"),
        }
    }

    fn add_chunk(&self, slots: usize) {
        let layout = Self::layout(slots);
        let chunk = memory::allocate(layout);
        if self.fresh.get() != self.end.get() {
            // A soft limit was crossed, and the program's callback has used this store.
            // SAFETY: invariant 4: just allocated with that layout, and not on the list.
            return unsafe { memory::release(chunk.cast(), || layout) };
        }
        let chunk = chunk.cast::<Chunk<T>>().as_ptr();
        // SAFETY: invariant 4: just allocated, as large as its layout says.
        unsafe { chunk.write(Chunk { older: self.newest.get(), slots }) }
        self.newest.set(chunk);
        self.fresh.set(Self::first(chunk));
        self.end.set(Self::first(chunk).wrapping_add(slots));
    }

    /// Records how many slots were used.
    fn learn(&self) {
        let unused = self.end.get().addr() - self.fresh.get().addr();
        let slot = size_of::<Slot<T>>();
        let used = self.capacity() - unused / slot;
        if used != 0 {
            history::learn(slot, Self::LEAST, used);
        }
    }

    /// Drops every live object, in the order in which their slots were first used.
    fn drop_values(&mut self) {
        struct Rest<'a, T> {
            store: &'a Store<T>,
            slot: *mut Slot<T>,
            end: *mut Slot<T>,
            newer: usize,
        }
        impl<T> Rest<'_, T> {
            fn run(&mut self) {
                loop {
                    while self.slot != self.end {
                        let slot = self.slot;
                        self.slot = slot.wrapping_add(1);
                        // SAFETY: invariants 1 and 3: below `fresh`, so the link says whether the slot holds an
                        // object, which is visited only once.
                        unsafe {
                            if (*slot).link.get().addr() & 1 == 0 {
                                (*slot).value.assume_init_drop();
                            }
                        }
                    }
                    let Some(newer) = self.newer.checked_sub(1) else {
                        return;
                    };
                    self.newer = newer;
                    let Some((first, slots)) = self.store.chunks().nth(newer) else {
                        return;
                    };
                    self.slot = first;
                    self.end =
                        if newer == 0 { self.store.fresh.get() } else { first.wrapping_add(slots) };
                }
            }
        }
        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                self.run();
            }
        }
        if core::mem::needs_drop::<T>() {
            let newer = self.chunks().count();
            Rest { store: self, slot: null_mut(), end: null_mut(), newer }.run();
        }
    }
}

impl<T> Drop for Store<T> {
    fn drop(&mut self) {
        struct Free<'a, T>(&'a mut Store<T>);
        impl<T> Drop for Free<'_, T> {
            fn drop(&mut self) {
                let mut next = self.0.newest.get();
                while let Some(chunk) = NonNull::new(next) {
                    // SAFETY: invariant 4: chunks on the list are alive until they are freed here, with their layout.
                    unsafe {
                        let Chunk { older, slots } = ptr::read(chunk.as_ptr());
                        memory::release(chunk.cast(), || Store::<T>::layout(slots));
                        next = older;
                    }
                }
            }
        }
        self.learn();
        let free = Free(self);
        free.0.drop_values();
    }
}
