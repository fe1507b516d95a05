//! The pool of pages and the caches of medium blocks, in production code, and the functions that the
//! checks call.
//!
//! Each unit of a run in use is a live block to [`region`], so that none is handed out twice or
//! discarded; units that are said to read as zeroes are checked.

#[path = "../../run/buckets.rs"]
mod buckets;
#[path = "../../run/cache.rs"]
pub mod cache;
#[path = "../../run/chunk.rs"]
mod chunk;
#[path = "../../run/chunk_set.rs"]
mod chunk_set;
#[path = "../../run/home.rs"]
mod home;
#[path = "../../run/pages.rs"]
mod pages;
#[path = "../../run/pool.rs"]
pub mod pool;
#[path = "../../run/purge.rs"]
mod purge;
#[path = "../../run/scarce.rs"]
mod scarce;
#[path = "../../run/shard.rs"]
mod shard;
#[path = "../../run/steal.rs"]
mod steal;

pub use chunk_set::Affinity;
pub use home::{Home, processor};

#[cfg(test)]
pub use face::*;

#[cfg(test)]
mod face {
    use super::cache::RunCache;
    use super::chunk;
    pub use super::chunk::UNITS;
    use super::chunk_set::{Affinity, Has};
    use super::home::Home;
    use super::pool;
    use super::shard::{self, Locked};
    use crate::ledger;
    use crate::lock::fork;
    use crate::models::world::sys::cpu;
    use crate::models::world::{process, region};
    use crate::region::{GRANULES_PER_CHUNK, Kind, UNITS_PER_GRANULE};
    use crate::sharding::SHARDS;
    use crate::size_class::UNIT;
    use crate::sync::{Ordering, spin_hint};
    use crate::tuning::SHARDED_FROM;
    use std::ops::Range;
    use std::sync::Arc;

    /// The first call of a model. There is one processor, and so one shard.
    pub fn reset() {
        region::reset();
        region::reset_chunks();
        cpu::set_count(1);
    }

    /// The same with room for more shards.
    pub fn reset_for_shards() {
        reset();
        cpu::set_count(SHARDED_FROM as u32);
    }

    /// Adds shards, unless another thread does so or forks.
    pub fn grow_shards() {
        shard::grow(0);
    }

    /// The home of the thread with this number.
    pub fn home(number: usize) -> Home {
        Home::of(number)
    }

    /// Marks units as in use. Those of the range `zero` read as zeroes.
    fn occupy(at: usize, units: usize, zero: Range<usize>) {
        for unit in 0..units {
            let at = at + unit * UNIT;
            if zero.contains(&unit) {
                // SAFETY: the caller's unit.
                assert_eq!(unsafe { *(at as *const [usize; 2]) }, [0; 2], "not zero");
            }
            region::handed_out(at);
        }
    }

    /// Marks units as unused.
    fn vacate(at: usize, units: usize) {
        (0..units).for_each(|unit| region::freed(at + unit * UNIT));
    }

    /// A run, by its address.
    pub fn take(units: usize) -> usize {
        take_from(Home::ANY, units)
    }

    /// The same for a thread.
    pub fn take_from(home: Home, units: usize) -> usize {
        loop {
            if let Some(at) = try_take_from(home, units) {
                return at;
            }
            // A fork is in progress. Meanwhile the engine serves the caller from another source.
            assert!(fork::has_been(), "the world is out of chunks");
            spin_hint();
        }
    }

    /// The same if there is room for it and no fork is in progress.
    pub fn try_take_from(home: Home, units: usize) -> Option<usize> {
        process::call(|| {
            let (at, zero) = pool::take(units, 1, home)?;
            occupy(at, units, 0..if zero { units } else { 0 });
            Some(at)
        })
    }

    /// Gives a run back.
    pub fn give(at: usize, units: usize) {
        process::call(|| {
            vacate(at, units);
            pool::give(&[at]);
        });
    }

    /// Makes a run longer in place, if the units behind it are free.
    pub fn grow(at: usize, old: usize, new: usize) -> bool {
        process::call(|| {
            let Some(zero) = pool::resize(at, old, new) else { return false };
            occupy(at + old * UNIT, new - old, 0..if zero { new - old } else { 0 });
            true
        })
    }

    /// Makes a run shorter.
    pub fn shrink(at: usize, old: usize, new: usize) {
        process::call(|| {
            vacate(at + new * UNIT, old - new);
            assert!(pool::resize(at, old, new).is_some());
        });
    }

    /// A granule for a span, with the affinity of the thread with this number, if any.
    pub fn take_granule(own: Option<u32>) -> usize {
        take_granule_from(Home::ANY, own)
    }

    /// The same for a thread.
    pub fn take_granule_from(home: Home, own: Option<u32>) -> usize {
        process::call(|| {
            let (granule, touched) = pool::take_granule(true, own.map(Affinity::of), home)
                .expect("the world is out of chunks");
            // SAFETY: a granule of the world.
            assert_eq!(unsafe { region::page_map(granule) }.kind(), Kind::Span);
            let at = region::granule_address(granule);
            occupy(at, UNITS_PER_GRANULE, touched / UNIT..UNITS_PER_GRANULE);
            granule
        })
    }

    /// Gives a granule back, with its first `dirty` units written to.
    pub fn give_granule(granule: usize, dirty: usize) {
        process::call(|| {
            let at = region::granule_address(granule);
            vacate(at, UNITS_PER_GRANULE);
            for unit in dirty..UNITS_PER_GRANULE {
                // SAFETY: the caller's unit, which it has not written to as far as the pool knows.
                unsafe { *((at + unit * UNIT) as *mut [usize; 2]) = [0; 2] };
            }
            pool::give_granule(granule, ((1u32 << dirty) - 1) as u16);
        });
    }

    /// Gives everything free back to the kernel. Returns the bytes.
    pub fn purge() -> usize {
        process::call(pool::purge)
    }

    /// Checks the pool's invariants while no call of it is in progress. Returns the units in use.
    pub fn inspect() -> usize {
        let (mut used, mut dirty) = (0, [0; SHARDS]);
        for number in region::chunks() {
            // SAFETY: a chunk that is taken has a record.
            let c = unsafe { chunk::record(number) };
            let pool = Locked::lock_of(number);
            let mut runs = [false; UNITS];
            for start in 0..UNITS {
                let end = start + c.units(start);
                assert!(runs[start..end].iter().all(|taken| !taken), "runs overlap at {start}");
                runs[start..end].fill(true);
            }
            for (unit, taken) in runs.into_iter().enumerate() {
                assert_eq!(!c.used.none(unit, 1), taken, "unit {unit} of no run is in use");
                assert!(c.dirty.none(unit, 1) || !taken, "unit {unit} is dirty and in use");
                assert!(c.old.none(unit, 1) || !c.dirty.none(unit, 1), "unit {unit} is old");
                dirty[pool.number()] += usize::from(!c.dirty.none(unit, 1));
                used += usize::from(taken);
            }
            assert_eq!(c.measure(), c.longest.get() as usize, "the longest range");
            let any = c.dirty.next(0, true) != UNITS;
            assert!(pool.contains(Has::Dirty, number) || !any, "nobody looks for dirty units");
            let mut listed = 0;
            pool.each_with_room(1, &mut |chunk, _| listed += usize::from(chunk == number));
            assert_eq!(listed, usize::from(c.longest.get() != 0), "places in the shard's buckets");
            for granule in 0..GRANULES_PER_CHUNK {
                let number = number as usize * GRANULES_PER_CHUNK + granule;
                // SAFETY: a granule of the world.
                let kind = unsafe { region::page_map(number) }.kind();
                assert!(
                    kind == Kind::Run || c.units(granule * UNITS_PER_GRANULE) == UNITS_PER_GRANULE
                );
            }
        }
        for (shard, dirty) in dirty.into_iter().enumerate() {
            let counted = ledger::shard(shard).account.dirty.load(Ordering::Relaxed);
            assert_eq!(counted, dirty, "dirty units of shard {shard} are miscounted");
        }
        assert_eq!(pool::dirty_bytes(), dirty.iter().sum::<usize>() * UNIT);
        assert_eq!(ledger::pages() / UNIT, used, "units in use are miscounted");
        used
    }

    /// Checks that everything was given back: after a purge nothing is left.
    pub fn settled() {
        assert_eq!(inspect(), 0, "units are lost");
        purge();
        assert_eq!(inspect(), 0);
        assert_eq!(pool::dirty_bytes(), 0, "the purge leaves dirty units");
        assert_eq!(region::chunks(), [], "the purge leaves a chunk");
    }

    /// The shard that a chunk is in, by an address in it.
    pub fn shard_at(at: usize) -> usize {
        Locked::lock_of((region::offset(at as *const u8) / region::CHUNK) as u32).number()
    }

    /// A thread's cache, which the purge can visit.
    #[derive(Clone)]
    pub struct Cache(Arc<RunCache>);

    // SAFETY: its own promises are under check.
    unsafe impl Send for Cache {}

    impl Cache {
        pub fn new() -> Self {
            #[allow(clippy::arc_with_non_send_sync, reason = "as above")]
            Cache(Arc::new(RunCache::new()))
        }

        /// A medium block.
        pub fn alloc(&self, units: usize) -> usize {
            process::call(|| match self.0.take(units) {
                Some(p) => {
                    occupy(p as usize, units, 0..0);
                    p as usize
                }
                None => take(units),
            })
        }

        /// Frees a block.
        pub fn free(&self, at: usize, units: usize) {
            process::call(|| {
                vacate(at, units);
                // SAFETY: it was a live run.
                unsafe { self.0.put(at as *mut u8, units) };
            });
        }

        /// The owner exits.
        pub fn drain(&self) {
            process::call(|| self.0.drain());
        }

        /// The purge looks in. Returns whether anything is left.
        pub fn visit(&self) -> bool {
            process::call(|| self.0.visit(true))
        }

        /// Bytes in the cache.
        pub fn bytes(&self) -> usize {
            self.0.bytes()
        }

        /// For a fork's child, before anything else.
        pub fn after_fork_in_child(&self) {
            super::cache::total().after_fork_in_child();
            self.0.after_fork_in_child();
        }
    }
}
