//! Parts of a production heap that no protocol here needs.

use crate::run::Home;
use core::cell::Cell;

/// A counter that is never read.
pub struct Counter;

impl Counter {
    pub const fn new() -> Self {
        Counter
    }

    /// Counts nothing.
    pub fn add(&self, _: u64) {}
}

/// The production code's counters.
pub struct Counters {
    pub refills: Counter,
    pub refilled_bytes: Counter,
    pub fresh_spans: Counter,
    pub adopted: Counter,
    pub claimed: Counter,
    pub remote_frees: Counter,
}

impl Counters {
    /// They stay as they are.
    pub const fn new() -> Self {
        Counters {
            refills: Counter,
            refilled_bytes: Counter,
            fresh_spans: Counter,
            adopted: Counter,
            claimed: Counter,
            remote_frees: Counter,
        }
    }
}

/// Bytes that are not counted.
pub mod thread_bytes {
    /// Counts nothing.
    pub fn freed(_: usize) {}

    /// An account without an owner.
    pub struct ThreadBytes;

    impl ThreadBytes {
        /// A thread begins.
        pub fn begin(&self) {}
        /// Counts nothing.
        pub fn add(&self, _: u64) {}
        /// Counts nothing.
        pub fn sub(&self, _: u64) {}
        /// Counts nothing.
        pub fn freed_own(&self, _: u64) {}
        /// Counts nothing.
        pub fn reuse(&self, _: u64) {}
        /// Counts nothing.
        pub fn unbinned(&self, _: u64) {}
        /// Counts nothing.
        pub fn undo(&self, _: u64) {}
        /// Too few for separate chunks.
        pub fn held(&self) -> u64 {
            0
        }
    }
}

/// A cache of medium blocks, of which there are none.
pub struct RunCache {
    pub seat: Seat,
}

/// A home, on the only node.
pub struct Seat(Cell<usize>);

impl Seat {
    pub fn home(&self) -> Home {
        Home::of(self.0.get())
    }

    pub fn begin(&self, home: usize) {
        self.0.set(home);
    }

    /// It stays there.
    pub fn settle(&self) {}
}

impl RunCache {
    pub fn new() -> Self {
        RunCache { seat: Seat(Cell::new(0)) }
    }

    /// Gives nothing back.
    pub fn drain(&self) {}
    /// Holds nothing.
    pub fn after_fork_in_child(&self) {}
}

pub mod scope {
    use super::super::record::Heap;

    pub fn close_all(_: &Heap) {}
}

/// Heaps that programs make: there are none.
pub mod arena {
    use crate::lock::Lock;

    pub enum Arena {}

    pub mod services {
        use super::Arena;
        use crate::span::Block;

        /// # Safety
        /// None is needed.
        pub unsafe fn free(heap: &Arena, _: *mut Block) -> usize {
            match *heap {}
        }
    }

    pub fn by_id(_: u32) -> Option<&'static Arena> {
        None
    }

    pub fn purge_spans(_: bool) -> usize {
        0
    }

    loom::lazy_static! {
        static ref LOCK: Lock = Lock::new();
    }

    /// The lock of the arenas' table, for fork.
    pub fn lock_for_fork() -> &'static Lock {
        &LOCK
    }

    /// The heaps' locks.
    pub fn heap_locks_for_fork() -> impl Iterator<Item = &'static Lock> {
        core::iter::empty()
    }

    /// Nothing was in progress.
    pub fn after_fork_in_child() {}

    /// Memory of hooks: there is none.
    pub mod hooked {
        use crate::lock::Lock;

        loom::lazy_static! {
            static ref LOCK: Lock = Lock::new();
        }

        /// The lock of their records.
        pub fn lock_for_fork() -> &'static Lock {
            &LOCK
        }
    }
}

/// No program here makes a mistake.
pub mod bound {
    /// # Safety
    /// None is needed.
    pub unsafe fn look_closer(_: u32, _: *mut u8) {}
}

/// No program here makes a mistake.
pub mod suspect {
    use crate::span::Block;

    /// # Safety
    /// None is needed.
    pub unsafe fn is_live(_: u32, block: *mut Block) -> bool {
        panic!("{block:?} is free and freed again")
    }
}

/// There is no profile.
pub mod sampling {
    use crate::lock::Lock;

    pub mod bins {
        use super::super::super::record::Heap;
        use crate::span::{Block, Span};

        pub fn is_on() -> bool {
            false
        }

        pub fn are_thrown() -> bool {
            false
        }

        pub fn needs_heaps() -> bool {
            false
        }

        pub fn has_samples(_: &Heap) -> bool {
            false
        }

        pub fn unmark(_: &Heap, _: usize) {}

        pub fn begin(_: &Heap) {}

        pub fn end(_: &Heap) {}

        pub fn on_tick(_: &Heap) {}

        pub fn passes(_: &Heap, _: u64) -> bool {
            false
        }

        /// # Safety
        /// None is needed.
        pub unsafe fn cut(_: &Heap, _: &mut Span, _: usize, _: *mut Block, n: u32) -> u32 {
            n
        }

        /// # Safety
        /// None is needed.
        pub unsafe fn cut_borrowed(
            _: &Heap,
            _: usize,
            _: *mut Block,
            rest: *mut Block,
            _: u32,
        ) -> (*mut Block, *mut Block) {
            (rest, core::ptr::null_mut())
        }
    }

    pub mod state {
        pub struct Sampling;

        impl Sampling {
            pub const fn new() -> Self {
                Sampling
            }

            pub fn on_tick(&self) {}

            pub fn draw(&self, _: usize) -> usize {
                0
            }
        }
    }

    loom::lazy_static! {
        static ref LOCK: Lock = Lock::new();
    }

    /// The lock of its samples, for fork.
    pub fn lock_for_fork() -> &'static Lock {
        &LOCK
    }
}
