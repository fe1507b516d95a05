//! The program's allocator, chosen when it is built.

#[cfg(any(
    all(
        feature = "masu",
        any(feature = "jemalloc", feature = "mimalloc", feature = "rusty_alloc")
    ),
    all(feature = "jemalloc", any(feature = "mimalloc", feature = "rusty_alloc")),
    all(feature = "mimalloc", feature = "rusty_alloc"),
))]
compile_error!("a program has one allocator: choose another one with --no-default-features");

#[cfg(feature = "masu")]
mod chosen {
    #[global_allocator]
    static GLOBAL: masu::Masu = masu::Masu;
    pub const NAME: &str = "masu";
}

#[cfg(feature = "jemalloc")]
mod chosen {
    #[global_allocator]
    static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
    pub const NAME: &str = "jemalloc";
}

#[cfg(feature = "mimalloc")]
mod chosen {
    #[global_allocator]
    static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
    pub const NAME: &str = "mimalloc";
}

#[cfg(feature = "rusty_alloc")]
mod chosen {
    use std::alloc::{GlobalAlloc, Layout};

    use rusty_alloc::alloc;

    pub const NAME: &str = "rusty_alloc";

    /// The package with its own `GlobalAlloc` is not published; this forwards in the same way.
    struct RustyAlloc;

    #[global_allocator]
    static GLOBAL: RustyAlloc = RustyAlloc;

    /// True if every block of this size is aligned enough.
    const fn plain(layout: Layout) -> bool {
        layout.align() <= 16 && layout.align() <= layout.size()
    }

    // SAFETY: each function forwards to the one with the same contract. Alignments of a `Layout`
    // are powers of two.
    unsafe impl GlobalAlloc for RustyAlloc {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            match plain(layout) {
                true => alloc::malloc(layout.size()),
                // SAFETY: a power of two.
                false => unsafe { alloc::malloc_aligned_pow2(layout.size(), layout.align()) },
            }
        }

        #[inline]
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            match plain(layout) {
                true => alloc::zalloc(layout.size()),
                false => alloc::zalloc_aligned(layout.size(), layout.align()),
            }
        }

        #[inline]
        unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
            // SAFETY: the caller's block, which came from here.
            unsafe { alloc::free_inline_flags_first(block) }
        }

        #[inline]
        unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            match layout.align() <= 16 && layout.align() <= size {
                // SAFETY: the caller's block, which came from here.
                true => unsafe { alloc::realloc(block, size) },
                // SAFETY: as above.
                false => unsafe { alloc::realloc_aligned(block, size, layout.align()) },
            }
        }
    }
}

#[cfg(not(any(
    feature = "masu",
    feature = "jemalloc",
    feature = "mimalloc",
    feature = "rusty_alloc"
)))]
mod chosen {
    pub const NAME: &str = "system";
}

pub use chosen::NAME;
