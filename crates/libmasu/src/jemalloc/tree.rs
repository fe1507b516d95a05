//! What each name does.
//!
//! A row is a name, with `#` for each number, and the action of a call to it. The rows become a
//! table of names ([`super::names`]) and one dispatch by row; a name that is not here is `ENOENT`,
//! as it is in a jemalloc built without that feature (mutex counters).

use super::call::{Answer, Call, EFAULT, EINVAL, ENOENT, Error, INDICES};
use super::figures::Bin;
use super::{arenas, caches, figures, prof, thread};
use crate::aligned::NATURAL;
use core::mem::offset_of;
use core::sync::atomic::{AtomicI64, Ordering};
use masu_core::Stats;
use masu_core::config::{BackgroundThread, Delay};
use masu_core::control;
use masu_core::size_class::{
    LAST_CLASS, MEDIUM_CLASSES, SMALL_MAX, UNIT, size_of_class, units_of_medium_class,
};

/// jemalloc's version, in the format that programs parse: the one whose manual this follows.
pub const VERSION: &core::ffi::CStr = c"5.3.1-0-gmasu";

/// Bytes of a span.
pub const SPAN: usize = 64 << 10;

/// Declares the rows: `=>` handles a call, and `=` returns a read-only value.
macro_rules! tree {
    (|$call:ident| $($name:literal $how:tt $answer:expr;)+) => {
        /// All names, in the order of their rows.
        pub const NAMES: &[&str] = &[$($name),+];
        /// Their number.
        pub const ROWS: usize = NAMES.len();
        const ALL: &str = concat!($($name),+);
        /// All names, one after the other. A static, so that it has a symbol name that says where
        /// it belongs.
        pub static TEXT: [u8; ALL.len()] = *ALL.as_bytes().first_chunk().unwrap();

        /// Performs a call to the name in row `row`.
        #[unsafe(link_section = "masu_door")]
        pub fn perform(row: usize, $call: &Call) -> Answer {
            if false $(|| is_value!($how) && row == const { row_of($name) })+ {
                $call.read_only()?;
            }
            $(if row == const { row_of($name) } {
                return $answer;
            })+
            Err(ENOENT)
        }
    };
}

macro_rules! is_value {
    (=) => {
        true
    };
    (=>) => {
        false
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
    "version" = call.string(VERSION);
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
    "config.cache_oblivious" = call.flag(false);
    "config.debug" = call.flag(false);
    "config.fill" = call.flag(false);
    "config.infallible_new" = call.flag(false);
    "config.lazy_lock" = call.flag(false);
    "config.malloc_conf" = call.string(c"");
    "config.opt_safety_checks" = call.flag(false);
    "config.prof" = call.flag(true);
    "config.prof_frameptr" = call.flag(false);
    "config.prof_libgcc" = call.flag(false);
    "config.prof_libunwind" = call.flag(false);
    "config.stats" = call.flag(true);
    "config.utrace" = call.flag(false);
    "config.xmalloc" = call.flag(false);
    "opt.abort" = call.flag(false);
    "opt.abort_conf" = call.flag(false);
    "opt.cache_oblivious" = call.flag(false);
    "opt.confirm_conf" = call.flag(false);
    "opt.metadata_thp" = call.string(c"disabled");
    "opt.trust_madvise" = call.flag(true);
    "opt.retain" = call.flag(true);
    "opt.dss" = call.string(c"disabled");
    "opt.narenas" = call.unsigned(1);
    "opt.percpu_arena" = call.string(c"disabled");
    "opt.oversize_threshold" = call.size(0);
    "opt.background_thread" = call.flag(may_tick());
    "opt.max_background_threads" = call.size(1);
    "opt.dirty_decay_ms" = call.signed(decay());
    "opt.muzzy_decay_ms" = call.word(0);
    "opt.lg_extent_max_active_fit" = call.size(0);
    "opt.stats_print" = call.flag(control::show_stats());
    "opt.stats_print_opts" = call.string(c"");
    "opt.stats_interval" = call.signed(-1);
    "opt.stats_interval_opts" = call.string(c"");
    "opt.junk" = call.string(c"false");
    "opt.zero" = call.flag(false);
    "opt.utrace" = call.flag(false);
    "opt.experimental_infallible_new" = call.flag(crate::infallible::is_on());
    "opt.xmalloc" = call.flag(false);
    "opt.tcache" = call.flag(true);
    "opt.tcache_max" = call.size(SMALL_MAX);
    "opt.thp" = call.string(c"default");
    "opt.zero_realloc" = call.string(c"free");
    "opt.disable_large_size_classes" = call.flag(false);
    "opt.hpa" = call.flag(false);
    "opt.process_madvise_max_batch" = call.size(0);
    "opt.prof" = call.flag(prof::is_wanted());
    "opt.prof_active" = call.flag(prof::begins_active());
    "opt.prof_thread_active_init" = call.flag(!prof::is(prof::MUTED));
    "opt.prof_prefix" = call.string(prof::first_prefix());
    "opt.prof_bt_max" = call.unsigned(127);
    "opt.lg_prof_sample" = call.size(prof::lg_rate());
    "opt.lg_prof_interval" = call.signed(prof::lg_interval());
    "opt.prof_gdump" = call.flag(prof::is(prof::GDUMP));
    "opt.prof_final" = call.flag(prof::dumps_at_exit());
    "opt.prof_leak" = call.flag(prof::is(prof::LEAK | prof::LEAK_ERROR));
    "opt.prof_leak_error" = call.flag(prof::is(prof::LEAK_ERROR));
    "opt.prof_accum" = call.flag(true);
    "opt.prof_pid_namespace" = call.flag(false);
    "opt.prof_stats" = call.flag(false);
    "opt.prof_sys_thread_name" = call.flag(false);
    "opt.prof_recent_alloc_max" = call.signed(0);
    "opt.prof_time_resolution" = call.string(c"default");
    "prof.active" => prof::active(call);
    "prof.dump" => prof::dump(call);
    "prof.gdump" => prof::gdump(call);
    "prof.interval" = call.word(prof::interval());
    "prof.lg_sample" = call.size(prof::lg_rate());
    "prof.prefix" => prof::prefix(call);
    "prof.reset" => prof::reset(call);
    "prof.thread_active_init" => prof::thread_active_init(call);
    "thread.prof.active" => prof::thread_active(call);
    "thread.prof.name" => prof::thread_name(call);
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
    "arenas.narenas" = call.unsigned(arenas::count());
    "arenas.dirty_decay_ms" => dirty_decay(call);
    "arenas.muzzy_decay_ms" => muzzy_decay(call);
    "arenas.quantum" = call.size(NATURAL);
    "arenas.page" = call.size(UNIT);
    "arenas.hugepage" = call.size(2 << 20);
    "arenas.tcache_max" = call.size(SMALL_MAX);
    "arenas.nbins" = call.unsigned(LAST_CLASS as u32);
    "arenas.nhbins" = call.unsigned(LAST_CLASS as u32);
    "arenas.bin.#.size" => bin(call, |c, size| c.size(size));
    "arenas.bin.#.nregs" => bin(call, |c, size| c.unsigned(SPAN.checked_div(size).unwrap_or(0) as u32));
    "arenas.bin.#.slab_size" => bin(call, |c, _| c.size(SPAN));
    "arenas.bin.#.nshards" => bin(call, |c, _| c.unsigned(1));
    "arenas.nlextents" = call.unsigned(EXTENTS as u32);
    "arenas.lextent.#.size" => extent(call);
    "arenas.create" => arenas::create(call);
    "experimental.arenas_create_ext" => arenas::create_with(call);
    "experimental.hooks.safety_check_abort" => abort_hook(call);
    "arenas.lookup" => arenas::lookup(call);
    "approximate_stats.active" = call.size(masu_core::stats().active);
    "stats.allocated" => figures::give(call, offset_of!(Stats, allocated));
    "stats.active" => figures::give(call, offset_of!(Stats, active));
    "stats.metadata" => figures::give(call, offset_of!(Stats, metadata));
    "stats.metadata_edata" => figures::give(call, offset_of!(Stats, metadata));
    "stats.metadata_rtree" = call.size(0);
    "stats.metadata_thp" = call.size(0);
    "stats.resident" => figures::give(call, offset_of!(Stats, resident));
    "stats.mapped" => figures::give(call, offset_of!(Stats, mapped));
    "stats.retained" => figures::give(call, offset_of!(Stats, retained));
    "stats.background_thread.num_threads" = call.size(usize::from(may_tick()));
    "stats.background_thread.num_runs" => figures::give(call, offset_of!(Stats, purge_ticks));
    "stats.background_thread.run_interval" = call.word(interval());
    "stats.mutexes.reset" => call.neither();
    "stats.arenas.#.dss" => figures::of_arena(call).and_then(|()| arenas::dss_in_force(call));
    "stats.arenas.#.dirty_decay_ms" => figures::of_arena(call).and_then(|()| reads(call, |c| c.signed(decay())));
    "stats.arenas.#.muzzy_decay_ms" => figures::of_arena(call).and_then(|()| reads(call, |c| c.word(0)));
    "stats.arenas.#.nthreads" => figures::counts(call, true);
    "stats.arenas.#.pactive" => figures::arena(call, offset_of!(Stats, active), UNIT);
    "stats.arenas.#.pdirty" => figures::arena(call, offset_of!(Stats, dirty), UNIT);
    "stats.arenas.#.pmuzzy" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.mapped" => figures::arena(call, offset_of!(Stats, mapped), 1);
    "stats.arenas.#.retained" => figures::arena(call, offset_of!(Stats, retained), 1);
    "stats.arenas.#.base" => figures::arena(call, offset_of!(Stats, metadata), 1);
    "stats.arenas.#.internal" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.metadata_thp" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.metadata_edata" => figures::arena(call, offset_of!(Stats, metadata), 1);
    "stats.arenas.#.metadata_rtree" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.abandoned_vm" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.extent_avail" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.tcache_stashed_bytes" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.resident" => figures::arena(call, offset_of!(Stats, resident), 1);
    "stats.arenas.#.tcache_bytes" => figures::arena(call, offset_of!(Stats, thread_cached), 1);
    "stats.arenas.#.dirty_npurge" => figures::arena(call, offset_of!(Stats, purge_ticks), 1);
    "stats.arenas.#.dirty_purged" => figures::arena(call, offset_of!(Stats, purged_bytes), UNIT);
    "stats.arenas.#.muzzy_npurge" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.muzzy_nmadvise" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.muzzy_purged" => figures::arena(call, figures::NONE, 1);
    "stats.arenas.#.small.allocated" => figures::small(call, Bin::bytes);
    "stats.arenas.#.small.nmalloc" => figures::small(call, Bin::allocated);
    "stats.arenas.#.small.ndalloc" => figures::small(call, |bin| bin.freed);
    "stats.arenas.#.small.nfills" => figures::arena(call, offset_of!(Stats, refills), 1);
    "stats.arenas.#.large.allocated" => figures::large_bytes(call);
    "stats.arenas.#.large.nmalloc" => figures::counts(call, false);
    "stats.arenas.#.large.nrequests" => figures::counts(call, false);
    "stats.arenas.#.bins.#.nmalloc" => figures::bin(call, Bin::allocated);
    "stats.arenas.#.bins.#.ndalloc" => figures::bin(call, |bin| bin.freed);
    "stats.arenas.#.bins.#.curregs" => figures::bin(call, |bin| bin.blocks);
    "stats.arenas.#.bins.#.curslabs" => figures::bin(call, |bin| bin.spans);
}

/// Whether the arena, the bin or the size that a name's numbers stand for has been there. Other names have no numbers, as
/// if they were those of the first.
pub fn is_there(row: usize, [first, second]: [usize; INDICES]) -> bool {
    const BINS: core::ops::RangeInclusive<usize> =
        row_of("arenas.bin.#.size")..=row_of("arenas.bin.#.nshards");
    match row {
        _ if BINS.contains(&row) => first < LAST_CLASS,
        _ if row == const { row_of("arenas.lextent.#.size") } => first < EXTENTS,
        _ => (first <= arenas::count() as usize || first == arenas::ALL) && second < LAST_CLASS,
    }
}

/// Returns a read-only value.
fn reads(call: &Call, give: impl FnOnce(&Call) -> Answer) -> Answer {
    call.read_only()?;
    give(call)
}

/// `experimental.hooks.safety_check_abort`: write-only.
fn abort_hook(call: &Call) -> Answer {
    call.write_only()?;
    if let Some(hook) = call.new_pointer()? {
        // SAFETY: invariant 2 of `jemalloc::call`: the new value is such a function.
        unsafe { crate::infallible::set_hook(hook) }
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
    let new = call.new_flag()?;
    call.flag(may_tick())?;
    if let Some(on) = new {
        control::set_background_thread(if on {
            BackgroundThread::On
        } else {
            BackgroundThread::Off
        });
    }
    Ok(())
}

/// `max_background_threads`: at most one exists, and a limit below 1 is refused.
fn max_background_threads(call: &Call) -> Answer {
    if call.new_size()? == Some(0) {
        return Err(EINVAL);
    }
    call.size(1)
}

/// The decay time of dirty pages: one for all arenas.
fn dirty_decay(call: &Call) -> Answer {
    let new = call.new_signed()?.map(milliseconds).transpose()?;
    call.signed(decay())?;
    if let Some(new) = new {
        control::set_decay(new);
    }
    Ok(())
}

/// The decay time of muzzy pages, which do not exist: any time is accepted.
fn muzzy_decay(call: &Call) -> Answer {
    static MUZZY: AtomicI64 = AtomicI64::new(0);
    let new = call.new_signed()?;
    new.map(milliseconds).transpose()?;
    call.signed(MUZZY.load(Ordering::Relaxed))?;
    if let Some(new) = new {
        MUZZY.store(new, Ordering::Relaxed);
    }
    Ok(())
}

/// jemalloc's longest decay time in milliseconds: 584 years.
const LONGEST: i64 = 18_446_744_072_000;

/// Converts a decay time from jemalloc's form: -1 means never.
pub fn milliseconds(time: i64) -> Result<Delay, Error> {
    match time {
        -1 => Ok(Delay::Never),
        0..=LONGEST => Ok(Delay::Millis(time as u64)),
        _ => Err(EFAULT),
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
/// Sizes listed per doubling above the medium classes, although every multiple of a unit is a class
/// of its own.
const STEPS: usize = 4;
/// The exponents of those sizes' steps: `5 << 18` to `7 << 60`.
const FIRST_SHIFT: usize = 18;
const LAST_SHIFT: usize = 60;
/// Number of sizes listed for large blocks.
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
