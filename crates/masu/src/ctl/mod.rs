//! Statistics and control while the program runs.
//!
//! The keys have the same names and shape as in the crate `tikv-jemalloc-ctl`, so a program that
//! polls jemalloc is ported by changing its import:
//!
//! ```
//! # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
//! use masu::ctl::{epoch, stats};
//!
//! # fn main() -> masu::ctl::Result<()> {
//! let e = epoch::mib()?;
//! let allocated = stats::allocated::mib()?;
//! let resident = stats::resident::mib()?;
//! e.advance()?;
//! println!("{} bytes allocated, {} resident", allocated.read()?, resident.read()?);
//! # Ok(())
//! # }
//! ```
//!
//! Each key is a type with `read`, with `write` and `update` where they make sense, and with `mib`,
//! which returns a handle that can be kept. (In jemalloc a handle saves looking up the name; here
//! both cost the same.) jemalloc's keys that have no counterpart in masu are absent: programs that
//! use them fail to compile rather than read an invented figure.
//!
//! Beyond that, [`snapshot`] reads everything at once; [`classes`], [`heaps`] (those of threads)
//! and [`heap::all`](crate::heap::all) (first-class heaps) return tables; [`purge`] and
//! [`thread_flush`] give memory back; and the options [`decay`], [`budget`], [`run_cache`],
//! [`huge_cache`] and [`retain_full`] can be read and set. The process's limits are in
//! [`limit`](crate::limit).
//!
//! Reading the keys of [`stats`] is cheap. Advancing the [`epoch`] and taking a snapshot look at
//! every span in use: about a microsecond for each MiB of small blocks. No function here stops
//! another thread.

mod figures;
mod key;
pub mod opt;
mod options;
pub mod stats;
pub mod thread;

pub use key::{Error, Result};
pub use options::{
    background_thread, background_thread_mib, budget, budget_mib, decay, decay_mib, huge_cache,
    huge_cache_mib, max_background_threads, max_background_threads_mib, retain_full,
    retain_full_mib, run_cache, run_cache_mib,
};

use key::keys;
pub use masu_core::{ClassStats, HeapStats, Stats};

keys! {
    "masu::ctl";

    /// `version`: the version of this crate.
    version, version_mib: "version" => &'static str {
        read: || env!("CARGO_PKG_VERSION"),
    }

    /// `epoch`: the figures of [`stats`] date from the last time it was advanced.
    epoch, epoch_mib: "epoch" => u64 {
        read: figures::epoch,
    }
}

impl epoch {
    /// Updates the figures of [`stats`], and returns how often this has been done. O(spans in use).
    ///
    /// ```
    /// # use masu::ctl::epoch;
    /// assert_eq!(epoch::advance()? + 1, epoch::advance()?);
    /// # Ok::<(), masu::ctl::Error>(())
    /// ```
    ///
    /// # Errors
    /// None at present.
    pub fn advance() -> Result<u64> {
        Ok(figures::advance())
    }
}

impl epoch_mib {
    /// Does the same as [`epoch::advance`].
    ///
    /// # Errors
    /// None at present.
    ///
    /// ```
    /// let epoch = masu::ctl::epoch::mib()?;
    /// assert_eq!(epoch.advance()? + 1, epoch.advance()?);
    /// # Ok::<(), masu::ctl::Error>(())
    /// ```
    pub fn advance(&self) -> Result<u64> {
        epoch::advance()
    }
}

/// Returns all current figures, in bytes and counts. O(spans in use + threads).
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// let before = masu::ctl::snapshot().allocated;
/// let block = vec![1u8; 10 << 20];
/// assert!(masu::ctl::snapshot().allocated >= before + block.len());
/// ```
#[must_use]
pub fn snapshot() -> Stats {
    masu_core::stats()
}

/// Returns the table of the size classes of small blocks, in ascending order. O(spans in use).
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// let boxes: Vec<_> = (0..1000).map(|n| Box::new([n; 12])).collect();
/// let class = masu::ctl::classes().into_iter().find(|class| class.size == 48).unwrap();
/// assert!(class.blocks >= boxes.len() && class.blocks <= class.capacity);
/// ```
pub fn classes() -> impl IntoIterator<Item = ClassStats> {
    masu_core::class_stats()
}

/// Fills `table` with the threads' heaps (first-class ones are in [`heap::all`](crate::heap::all)), oldest first, and
/// returns how many exist. If they do not all fit, call it again with more room. O(spans in use + heaps).
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// let block = Box::new([0u64; 100]);
/// let mut table = [masu::ctl::HeapStats::default(); 64];
/// let heaps = masu::ctl::heaps(&mut table).min(table.len());
/// assert!(table[..heaps].iter().any(|heap| heap.in_use && heap.allocated >= size_of_val(&*block)));
/// ```
pub fn heaps(table: &mut [HeapStats]) -> usize {
    masu_core::heap_stats(table)
}

/// Gives all free memory back to the system now: freed spans, runs and huge blocks, the caches of
/// threads that are not using them at this moment, and free pages inside spans. Returns whether
/// there was any.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// drop(vec![1u8; 10 << 20]);
/// assert!(masu::ctl::purge());
/// assert!(masu::ctl::snapshot().dirty < 1 << 20);
/// ```
pub fn purge() -> bool {
    masu_core::purge()
}

/// Gives back what the calling thread keeps for its next requests, as a pool thread may do before
/// it sleeps: jemalloc's `thread.tcache.flush`. O(blocks kept). The memory stays with the process
/// until it decays, or until [`purge`].
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// drop(vec![0u8; 100_000]);
/// masu::ctl::thread_flush();
/// # let mut table = [masu::ctl::HeapStats::default(); 1];
/// # masu::ctl::heaps(&mut table);
/// # assert_eq!(table[0].cached, 0);
/// ```
pub fn thread_flush() {
    masu_core::control::flush_thread();
}

/// Writes the statistics as text, one `name value` line each, in one or more calls of `sink`.
/// Allocates nothing.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// let mut text = [0u8; 4096];
/// let mut len = 0;
/// masu::ctl::stats_print(&mut |part| {
///     text[len..len + part.len()].copy_from_slice(part);
///     len += part.len();
/// });
/// assert!(str::from_utf8(&text[..len]).unwrap().contains("allocated"));
/// ```
pub fn stats_print(sink: &mut dyn FnMut(&[u8])) {
    masu_core::print_stats(&mut masu_core::text::Text::new(sink));
}
