//! What the calling thread has allocated and freed.

use super::key::keys;
use core::marker::PhantomData;

keys! {
    "masu::ctl::thread";

    /// `thread.allocatedp`: bytes that the calling thread has allocated so far, by size class.
    /// Exact: free blocks in the thread's bins do not count.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// let allocated = masu::ctl::thread::allocatedp::read()?;
    /// let before = allocated.get();
    /// let block = Box::new([0u8; 1000]);
    /// assert_eq!(allocated.get() - before, 1024);
    /// # drop(block);
    /// # Ok::<(), masu::ctl::Error>(())
    /// ```
    allocatedp, allocatedp_mib: "thread.allocatedp" => ThreadLocal<u64> {
        read: || ThreadLocal { read: allocated, thread: PhantomData },
    }

    /// `thread.deallocatedp`: bytes that the calling thread has freed so far, by size class, whichever thread allocated
    /// them. Exact, like [`allocatedp`]; a read looks at each of the thread's spans.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// let freed = masu::ctl::thread::deallocatedp::read()?;
    /// let before = freed.get();
    /// drop(vec![1u8; 100_000]);
    /// assert!(freed.get() - before >= 100_000);
    /// # Ok::<(), masu::ctl::Error>(())
    /// ```
    deallocatedp, deallocatedp_mib: "thread.deallocatedp" => ThreadLocal<u64> {
        read: || ThreadLocal { read: deallocated, thread: PhantomData },
    }
}

/// A figure that belongs to the thread that asked for it.
///
/// ```compile_fail,E0277
/// // Each thread has its own figure.
/// let allocated = masu::ctl::thread::allocatedp::read().unwrap();
/// std::thread::spawn(move || allocated.get());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThreadLocal<T> {
    read: fn() -> T,
    /// Not `Send`: each thread has its own figure.
    thread: PhantomData<*const T>,
}

impl<T> ThreadLocal<T> {
    /// The current figure.
    ///
    /// ```
    /// let freed = masu::ctl::thread::deallocatedp::read()?;
    /// assert!(freed.get() <= freed.get());
    /// # Ok::<(), masu::ctl::Error>(())
    /// ```
    #[must_use]
    pub fn get(self) -> T {
        (self.read)()
    }
}

fn allocated() -> u64 {
    masu_core::control::thread_allocated()
}

fn deallocated() -> u64 {
    masu_core::control::thread_deallocated()
}
