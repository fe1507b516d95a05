//! What each name does.
//!
//! A row is a name, `#` standing for a number, and what a call of it answers. The rows become a
//! table of names ([`super::names`]) and one dispatch by row; a name that is not here is `ENOENT`, as it
//! is in a jemalloc built without that feature (mutex counters).

use super::call::{Answer, Call, EINVAL, ENOENT, Error};
use super::figures::Bin;
use super::{arenas, caches, figures, prof, thread};
use crate::aligned::NATURAL;
use core::sync::atomic::{AtomicI64, Ordering};
use masu_core::config::{BackgroundThread, Delay};
use masu_core::control;
use masu_core::size_class::{
    LAST_CLASS, MEDIUM_CLASSES, SMALL_MAX, UNIT, size_of_class, units_of_medium_class,
};

/// jemalloc's version, as programs parse it: the one whose manual this follows.
pub const VERSION: &core::ffi::CStr = c"5.3.1-0-gmasu";

/// Bytes of a span.
pub const SPAN: usize = 64 << 10;

/// Declares the rows.
macro_rules! tree {
    (|$call:ident| $($name:literal => $answer:expr;)+) => {
        /// All names, in the order of their rows.
        pub const NAMES: &[&str] = &[$($name),+];
        /// Their number.
        pub const ROWS: usize = NAMES.len();
        const ALL: &str = concat!($($name),+);
        /// All names, one after the other. A static, so that it has a name that says where it belongs.
        pub static TEXT: [u8; ALL.len()] = *ALL.as_bytes().first_chunk().unwrap();

        /// Performs a call of the name in row `row`.
        #[unsafe(link_section = "masu_door")]
        pub fn perform(row: usize, $call: &Call) -> Answer {
            $(if row == const { row_of($name) } {
                return $answer;
            })+
            Err(ENOENT)
        }
    };
}

const fn row_of(name: &str) -> usize {
    let mut r = 0;
    while r < ROWS {
        let (a, b) = (NAMES[r].as_bytes(), name.as_bytes());
        let mut i = 0;
        while i < a.len() && i < b.len() && a[i] == b[i] {
            i += 1;
        }
        if i == a.len() && i == b.len() {
            return r;
        }
        r += 1;
    }
    ROWS
}

tree! { |call|
    "version" => reads(call, |c| c.string(VERSION));
    "epoch" => figures::epoch(call);
    "background_thread" => background_thread(call);
    "max_background_threads" => max_background_threads(call);
    "thread.arena" => thread::arena(call);
    "thread.allocated" => thread::allocated(call);
    "thread.allocatedp" => thread::allocatedp(call);
    "thread.deallocated" => thread::deallocated(call);
    "thread.deallocatedp" => thread::deallocatedp(call);
    "thread.peak.read" => thread::peak(call);
    "thread.peak.reset" => thread::reset_peak(call);
    "thread.tcache.enabled" => thread::cache_enabled(call);
    "thread.tcache.max" => thread::cache_max(call);
    "thread.tcache.flush" => thread::flush(call);
    "thread.idle" => thread::idle(call);
    "tcache.create" => caches::create(call);
    "tcache.flush" => caches::flush(call);
    "tcache.destroy" => caches::destroy(call);
    "config.cache_oblivious" => reads(call, |c| c.flag(false));
    "config.debug" => reads(call, |c| c.flag(false));
    "config.fill" => reads(call, |c| c.flag(false));
    "config.infallible_new" => reads(call, |c| c.flag(false));
    "config.lazy_lock" => reads(call, |c| c.flag(false));
    "config.malloc_conf" => reads(call, |c| c.string(c""));
    "config.opt_safety_checks" => reads(call, |c| c.flag(false));
    "config.prof" => reads(call, |c| c.flag(true));
    "config.prof_frameptr" => reads(call, |c| c.flag(false));
    "config.prof_libgcc" => reads(call, |c| c.flag(false));
    "config.prof_libunwind" => reads(call, |c| c.flag(false));
    "config.stats" => reads(call, |c| c.flag(true));
    "config.utrace" => reads(call, |c| c.flag(false));
    "config.xmalloc" => reads(call, |c| c.flag(false));
    "opt.abort" => reads(call, |c| c.flag(false));
    "opt.abort_conf" => reads(call, |c| c.flag(false));
    "opt.cache_oblivious" => reads(call, |c| c.flag(false));
    "opt.confirm_conf" => reads(call, |c| c.flag(false));
    "opt.metadata_thp" => reads(call, |c| c.string(c"disabled"));
    "opt.trust_madvise" => reads(call, |c| c.flag(true));
    "opt.retain" => reads(call, |c| c.flag(true));
    "opt.dss" => reads(call, |c| c.string(c"disabled"));
    "opt.narenas" => reads(call, |c| c.unsigned(1));
    "opt.percpu_arena" => reads(call, |c| c.string(c"disabled"));
    "opt.oversize_threshold" => reads(call, |c| c.size(0));
    "opt.background_thread" => reads(call, |c| c.flag(may_tick()));
    "opt.max_background_threads" => reads(call, |c| c.size(1));
    "opt.dirty_decay_ms" => reads(call, |c| c.signed(decay()));
    "opt.muzzy_decay_ms" => reads(call, |c| c.word(0));
    "opt.lg_extent_max_active_fit" => reads(call, |c| c.size(0));
    "opt.stats_print" => reads(call, |c| c.flag(control::show_stats()));
    "opt.stats_print_opts" => reads(call, |c| c.string(c""));
    "opt.stats_interval" => reads(call, |c| c.signed(-1));
    "opt.stats_interval_opts" => reads(call, |c| c.string(c""));
    "opt.junk" => reads(call, |c| c.string(c"false"));
    "opt.zero" => reads(call, |c| c.flag(false));
    "opt.utrace" => reads(call, |c| c.flag(false));
    "opt.experimental_infallible_new" => reads(call, |c| c.flag(crate::infallible::is_on()));
    "opt.xmalloc" => reads(call, |c| c.flag(false));
    "opt.tcache" => reads(call, |c| c.flag(true));
    "opt.tcache_max" => reads(call, |c| c.size(SMALL_MAX));
    "opt.thp" => reads(call, |c| c.string(c"default"));
    "opt.zero_realloc" => reads(call, |c| c.string(c"free"));
    "opt.disable_large_size_classes" => reads(call, |c| c.flag(false));
    "opt.hpa" => reads(call, |c| c.flag(false));
    "opt.process_madvise_max_batch" => reads(call, |c| c.size(0));
    "opt.prof" => reads(call, |c| c.flag(prof::is_wanted()));
    "opt.prof_active" => reads(call, |c| c.flag(prof::begins_active()));
    "opt.prof_thread_active_init" => reads(call, |c| c.flag(true));
    "opt.prof_prefix" => reads(call, |c| c.string(prof::first_prefix()));
    "opt.prof_bt_max" => reads(call, |c| c.unsigned(127));
    "opt.lg_prof_sample" => reads(call, |c| c.size(prof::lg_rate()));
    "opt.lg_prof_interval" => reads(call, |c| c.signed(-1));
    "opt.prof_gdump" => reads(call, |c| c.flag(false));
    "opt.prof_final" => reads(call, |c| c.flag(prof::dumps_at_exit()));
    "opt.prof_leak" => reads(call, |c| c.flag(false));
    "opt.prof_leak_error" => reads(call, |c| c.flag(false));
    "opt.prof_accum" => reads(call, |c| c.flag(true));
    "opt.prof_pid_namespace" => reads(call, |c| c.flag(false));
    "opt.prof_stats" => reads(call, |c| c.flag(false));
    "opt.prof_sys_thread_name" => reads(call, |c| c.flag(false));
    "opt.prof_recent_alloc_max" => reads(call, |c| c.signed(0));
    "opt.prof_time_resolution" => reads(call, |c| c.string(c"default"));
    "prof.active" => prof::active(call);
    "prof.dump" => prof::dump(call);
    "prof.gdump" => prof::gdump(call);
    "prof.interval" => reads(call, |c| c.word(0));
    "prof.lg_sample" => reads(call, |c| c.size(prof::lg_rate()));
    "prof.prefix" => prof::prefix(call);
    "prof.reset" => prof::reset(call);
    "prof.thread_active_init" => prof::thread_active_init(call);
    "thread.prof.active" => prof::thread_active(call);
    "masu.prof.dump" => prof::dump_own(call);
    "arena.#.initialized" => arenas::initialized(call);
    "arena.#.decay" => arenas::decay(call);
    "arena.#.purge" => arenas::purge(call);
    "arena.#.reset" => arenas::reset(call);
    "arena.#.destroy" => arenas::destroy(call);
    "arena.#.name" => arenas::name(call);
    "arena.#.dss" => arenas::dss(call);
    "arena.#.dirty_decay_ms" => arenas::known(call).and_then(|()| dirty_decay(call));
    "arena.#.muzzy_decay_ms" => arenas::known(call).and_then(|()| muzzy_decay(call));
    "arena.#.oversize_threshold" => arenas::known(call).and_then(|()| reads(call, |c| c.size(0)));
    "arena.#.retain_grow_limit" => arenas::known(call).and_then(|()| reads(call, |c| c.size(usize::MAX)));
    "arena.#.limit" => arenas::limit(call);
    "arena.#.allocated" => arenas::allocated(call);
    "arena.#.extent_hooks" => arenas::extent_hooks(call);
    "arenas.narenas" => reads(call, |c| c.unsigned(arenas::count()));
    "arenas.dirty_decay_ms" => dirty_decay(call);
    "arenas.muzzy_decay_ms" => muzzy_decay(call);
    "arenas.quantum" => reads(call, |c| c.size(NATURAL));
    "arenas.page" => reads(call, |c| c.size(UNIT));
    "arenas.hugepage" => reads(call, |c| c.size(2 << 20));
    "arenas.tcache_max" => reads(call, |c| c.size(SMALL_MAX));
    "arenas.nbins" => reads(call, |c| c.unsigned(LAST_CLASS as u32));
    "arenas.nhbins" => reads(call, |c| c.unsigned(LAST_CLASS as u32));
    "arenas.bin.#.size" => bin(call, |c, size| c.size(size));
    "arenas.bin.#.nregs" => bin(call, |c, size| c.unsigned(SPAN.checked_div(size).unwrap_or(0) as u32));
    "arenas.bin.#.slab_size" => bin(call, |c, _| c.size(SPAN));
    "arenas.bin.#.nshards" => bin(call, |c, _| c.unsigned(1));
    "arenas.nlextents" => reads(call, |c| c.unsigned(EXTENTS as u32));
    "arenas.lextent.#.size" => extent(call);
    "arenas.create" => arenas::create(call);
    "experimental.arenas_create_ext" => arenas::create_with(call);
    "experimental.hooks.safety_check_abort" => abort_hook(call);
    "arenas.lookup" => arenas::lookup(call);
    "approximate_stats.active" => reads(call, |c| c.size(masu_core::stats().active));
    "stats.allocated" => figures::give(call, |f| f.allocated);
    "stats.active" => figures::give(call, |f| f.active);
    "stats.metadata" => figures::give(call, |f| f.metadata);
    "stats.metadata_edata" => figures::give(call, |f| f.metadata);
    "stats.metadata_rtree" => reads(call, |c| c.size(0));
    "stats.metadata_thp" => reads(call, |c| c.size(0));
    "stats.resident" => figures::give(call, |f| f.resident);
    "stats.mapped" => figures::give(call, |f| f.mapped);
    "stats.retained" => figures::give(call, |f| f.retained);
    "stats.background_thread.num_threads" => reads(call, |c| c.size(usize::from(may_tick())));
    "stats.background_thread.num_runs" => figures::give(call, |f| f.purge_ticks as usize);
    "stats.background_thread.run_interval" => reads(call, |c| c.word(interval()));
    "stats.mutexes.reset" => call.neither();
    "stats.arenas.#.dss" => figures::of_arena(call).and_then(|()| arenas::dss_in_force(call));
    "stats.arenas.#.dirty_decay_ms" => figures::of_arena(call).and_then(|()| reads(call, |c| c.signed(decay())));
    "stats.arenas.#.muzzy_decay_ms" => figures::of_arena(call).and_then(|()| reads(call, |c| c.word(0)));
    "stats.arenas.#.nthreads" => figures::arena_threads(call);
    "stats.arenas.#.pactive" => figures::arena(call, |f| f.active / UNIT);
    "stats.arenas.#.pdirty" => figures::arena(call, |f| f.dirty / UNIT);
    "stats.arenas.#.pmuzzy" => figures::arena(call, |_| 0);
    "stats.arenas.#.mapped" => figures::arena(call, |f| f.mapped);
    "stats.arenas.#.retained" => figures::arena(call, |f| f.retained);
    "stats.arenas.#.base" => figures::arena(call, |f| f.metadata);
    "stats.arenas.#.internal" => figures::arena(call, |_| 0);
    "stats.arenas.#.metadata_thp" => figures::arena(call, |_| 0);
    "stats.arenas.#.metadata_edata" => figures::arena(call, |f| f.metadata);
    "stats.arenas.#.metadata_rtree" => figures::arena(call, |_| 0);
    "stats.arenas.#.abandoned_vm" => figures::arena(call, |_| 0);
    "stats.arenas.#.extent_avail" => figures::arena(call, |_| 0);
    "stats.arenas.#.tcache_stashed_bytes" => figures::arena(call, |_| 0);
    "stats.arenas.#.resident" => figures::arena(call, |f| f.resident);
    "stats.arenas.#.tcache_bytes" => figures::arena(call, |f| f.thread_cached);
    "stats.arenas.#.dirty_npurge" => figures::arena(call, |f| f.purge_ticks as usize);
    "stats.arenas.#.dirty_purged" => figures::arena(call, |f| f.purged_bytes as usize / UNIT);
    "stats.arenas.#.muzzy_npurge" => figures::arena(call, |_| 0);
    "stats.arenas.#.muzzy_nmadvise" => figures::arena(call, |_| 0);
    "stats.arenas.#.muzzy_purged" => figures::arena(call, |_| 0);
    "stats.arenas.#.small.allocated" => figures::small(call, Bin::bytes);
    "stats.arenas.#.small.nmalloc" => figures::small(call, Bin::allocated);
    "stats.arenas.#.small.ndalloc" => figures::small(call, |bin| bin.freed);
    "stats.arenas.#.small.nfills" => figures::arena(call, |f| f.refills as usize);
    "stats.arenas.#.large.allocated" => figures::large_bytes(call);
    "stats.arenas.#.large.nmalloc" => figures::arena(call, |f| (f.medium_allocs + f.huge_allocs) as usize);
    "stats.arenas.#.large.nrequests" => figures::arena(call, |f| (f.medium_allocs + f.huge_allocs) as usize);
    "stats.arenas.#.bins.#.nmalloc" => figures::bin(call, Bin::allocated);
    "stats.arenas.#.bins.#.ndalloc" => figures::bin(call, |bin| bin.freed);
    "stats.arenas.#.bins.#.curregs" => figures::bin(call, |bin| bin.blocks);
    "stats.arenas.#.bins.#.curslabs" => figures::bin(call, |bin| bin.spans);
}

/// A value that may only be read.
fn reads(call: &Call, give: impl FnOnce(&Call) -> Answer) -> Answer {
    call.read_only()?;
    give(call)
}

/// `experimental.hooks.safety_check_abort`: may be written only.
fn abort_hook(call: &Call) -> Answer {
    call.write_only()?;
    if let Some(hook) = call.new_pointer()? {
        crate::infallible::set_hook(hook);
    }
    Ok(())
}

/// The decay time in milliseconds, -1 for never.
pub fn decay() -> i64 {
    match control::decay() {
        Delay::Millis(n) => n as i64,
        Delay::Never => -1,
    }
}

/// Whether a background thread may give memory back.
fn may_tick() -> bool {
    control::background_thread() != BackgroundThread::Off
}

/// Nanoseconds between two rounds of the background thread.
fn interval() -> u64 {
    decay().max(0) as u64 / 2 * 1_000_000
}

/// `background_thread`.
fn background_thread(call: &Call) -> Answer {
    let (old, new) = (may_tick(), call.new_flag()?);
    if let Some(on) = new {
        control::set_background_thread(if on {
            BackgroundThread::On
        } else {
            BackgroundThread::Off
        });
    }
    call.flag(old)
}

/// `max_background_threads`: there is one at most, and room for one must be left.
fn max_background_threads(call: &Call) -> Answer {
    if call.new_size()? == Some(0) {
        return Err(EINVAL);
    }
    call.size(1)
}

/// The decay time of dirty pages: one for all arenas.
fn dirty_decay(call: &Call) -> Answer {
    let old = decay();
    if let Some(new) = call.new_signed()? {
        control::set_decay(milliseconds(new)?);
    }
    call.signed(old)
}

/// The decay time of muzzy pages, which do not exist: any time will do.
fn muzzy_decay(call: &Call) -> Answer {
    static MUZZY: AtomicI64 = AtomicI64::new(0);
    let old = MUZZY.load(Ordering::Relaxed);
    if let Some(new) = call.new_signed()? {
        milliseconds(new)?;
        MUZZY.store(new, Ordering::Relaxed);
    }
    call.signed(old)
}

/// A decay time as jemalloc takes it: -1 is never.
pub fn milliseconds(time: i64) -> Result<Delay, Error> {
    match time {
        -1 => Ok(Delay::Never),
        0.. => Ok(Delay::Millis(time as u64)),
        _ => Err(EINVAL),
    }
}

/// A figure of a size class of small blocks.
fn bin(call: &Call, give: impl FnOnce(&Call, usize) -> Answer) -> Answer {
    call.read_only()?;
    match call.index[0] {
        class if class < LAST_CLASS => give(call, size_of_class(class + 1)),
        _ => Err(ENOENT),
    }
}

/// Medium classes that small blocks do not reach.
const MEDIUM: usize = MEDIUM_CLASSES - SMALL_MAX / UNIT;
/// Sizes to a doubling that are listed above the medium classes, though every multiple of a unit is
/// one of its own.
const STEPS: usize = 4;
/// The exponents of those sizes' steps: `5 << 18` to `7 << 60`.
const FIRST_SHIFT: usize = 18;
const LAST_SHIFT: usize = 60;
/// Sizes listed for large blocks.
const EXTENTS: usize = MEDIUM + (LAST_SHIFT - FIRST_SHIFT + 1) * STEPS - 1;

/// `arenas.lextent.<i>.size`.
fn extent(call: &Call) -> Answer {
    call.read_only()?;
    let i = call.index[0];
    if i >= EXTENTS {
        return Err(ENOENT);
    }
    call.size(match i.checked_sub(MEDIUM) {
        None => units_of_medium_class(i + SMALL_MAX / UNIT) * UNIT,
        Some(huge) => (huge % STEPS + STEPS + 1) << (FIRST_SHIFT + huge / STEPS),
    })
}
