// The names that programs and libraries use, listed by program: whatever becomes of the library's own table, these
// exist.
#include "door.h"

static void all_are_there(const char *program, const char *const *names) {
    for (; *names; names++) {
        size_t mib[8], depth = 8, dots = 1;
        for (const char *c = *names; *c; c++) dots += *c == '.';
        CHECK(mallctlnametomib(*names, mib, &depth) == 0, "%s: %s", program, *names);
        CHECK(depth == dots, "%s: %s has %zu components", program, *names, depth);
        // Names of actions cannot be read, and some values are shorter; but all names are known.
        uint64_t value = 0;
        size_t length = sizeof value;
        int error = mallctl(*names, &value, &length, NULL, 0);
        CHECK(error == 0 || error == EPERM || (error == EINVAL && length < sizeof value),
              "%s: %s: %d", program, *names, error);
    }
}

#define ARE_THERE(program, ...) \
    all_are_there(program, (const char *const[]){__VA_ARGS__, NULL})

CASE(names_that_programs_use_are_there) {
    ARE_THERE("Arrow", "arena.4096.purge", "arenas.dirty_decay_ms", "arenas.muzzy_decay_ms", "epoch",
              "stats.active", "stats.allocated", "stats.mapped", "stats.metadata", "stats.resident",
              "stats.retained", "thread.allocated", "thread.deallocated", "thread.peak.read",
              "thread.peak.reset");
    ARE_THERE("Rust's tikv-jemalloc-ctl", "arenas.narenas", "background_thread",
              "config.malloc_conf", "epoch", "max_background_threads", "opt.abort",
              "opt.background_thread", "opt.dss", "opt.junk", "opt.narenas", "opt.tcache",
              "opt.tcache_max", "opt.zero", "stats.active", "stats.allocated", "stats.mapped",
              "stats.metadata", "stats.resident", "stats.retained", "thread.allocatedp",
              "thread.deallocatedp", "version");
    ARE_THERE("folly", "arena.0.decay", "arena.0.extent_hooks", "arena.0.purge", "arenas.create",
              "arenas.dirty_decay_ms", "arenas.narenas", "thread.allocatedp",
              "thread.arena", "thread.deallocatedp", "thread.idle", "thread.tcache.flush");
    ARE_THERE("Redis", "arena.4096.purge", "arenas.bin.0.nregs", "arenas.bin.0.size", "arenas.create",
              "arenas.nbins", "arenas.page", "background_thread", "epoch", "stats.active",
              "stats.allocated", "stats.arenas.0.bins.0.curregs", "stats.arenas.0.bins.0.curslabs",
              "stats.arenas.0.large.allocated", "stats.arenas.0.pactive", "stats.arenas.0.resident",
              "stats.arenas.0.small.allocated", "stats.arenas.4096.pmuzzy", "stats.resident",
              "stats.retained", "tcache.create", "tcache.destroy");
    ARE_THERE("RocksDB", "arena.0.destroy", "arena.0.extent_hooks", "arenas.create", "tcache.create",
              "tcache.destroy");
    ARE_THERE("ClickHouse", "arena.4096.purge", "arenas.bin.0.size", "arenas.dirty_decay_ms",
              "arenas.lextent.0.size", "arenas.nbins", "arenas.nlextents", "arenas.page",
              "background_thread", "epoch", "max_background_threads", "stats.active",
              "stats.allocated", "stats.arenas.4096.bins.0.ndalloc",
              "stats.arenas.4096.bins.0.nmalloc", "stats.arenas.4096.dirty_purged",
              "stats.arenas.4096.muzzy_purged", "stats.arenas.4096.pactive",
              "stats.arenas.4096.pdirty", "stats.arenas.4096.pmuzzy",
              "stats.background_thread.num_runs", "stats.background_thread.num_threads",
              "stats.mapped", "stats.metadata", "stats.metadata_thp", "stats.resident",
              "stats.retained");
    ARE_THERE("jemalloc's own tests", "arena.0.dss", "arena.0.extent_hooks", "arena.0.initialized",
              "arena.0.purge", "arena.0.reset", "arenas.bin.0.nshards", "arenas.bin.0.slab_size",
              "arenas.create", "arenas.lextent.0.size", "arenas.nbins", "arenas.nlextents",
              "arenas.page", "arenas.quantum", "config.cache_oblivious", "config.debug",
              "config.fill", "config.prof", "config.stats", "opt.background_thread",
              "opt.cache_oblivious", "opt.percpu_arena", "opt.retain",
              "stats.arenas.4096.tcache_bytes", "stats.arenas.4096.tcache_stashed_bytes",
              "thread.allocated", "thread.allocatedp", "thread.arena", "thread.deallocated",
              "thread.deallocatedp", "thread.tcache.enabled");
}

// The rows of the table in docs/jemalloc.md that are about names alone.
CASE(names_that_masu_treats_differently_do_as_documented) {
    if (!is_masu()) not_offered("masu's treatment of names");
    static const char *const fixed[] = {"arena.0.name", "arena.0.oversize_threshold",
                                        "arena.0.retain_grow_limit", "thread.tcache.max"};
    for (size_t n = 0; n < sizeof fixed / sizeof *fixed; n++) {
        size_t value = 1;
        int error = WRITE(fixed[n], value);
        CHECK(error == EPERM, "%s: %d", fixed[n], error);
    }
    static const char *const absent[] = {
        "prof.log_start", "prof.log_stop", "prof.stats.bins.0.live",
        "experimental.utilization.query", "experimental.thread.activity_callback",
        "thread.tcache.ncached_max.write", "stats.mutexes.prof.num_ops", "stats.zero_reallocs",
        "stats.arenas.0.uptime", "stats.arenas.0.lextents.0.nmalloc",
        "stats.arenas.0.extents.0.ndirty", "stats.arenas.0.small.nrequests",
        "stats.arenas.0.small.nflushes", "stats.arenas.0.large.ndalloc",
        "stats.arenas.0.large.nfills", "stats.arenas.0.bins.0.nrequests",
        "stats.arenas.0.bins.0.nfills", "stats.arenas.0.bins.0.nreslabs",
        "stats.arenas.0.hpa_shard.npageslabs", "opt.hpa_slab_max_alloc",
        "opt.tcache_nslots_small_min", "opt.mutex_max_spin"};
    for (size_t n = 0; n < sizeof absent / sizeof *absent; n++) {
        int error = mallctl(absent[n], NULL, NULL, NULL, 0);
        CHECK(error == ENOENT, "%s: %d", absent[n], error);
    }
    size_t mib[8], depth = 8;
    CHECK(mallctlnametomib("arenas.bin", mib, &depth) == ENOENT, "the beginning of a name");
    bool on;
    READ("opt.prof_accum", &on);
    CHECK(on, "opt.prof_accum");
}

static uint64_t of_bin(unsigned bin, const char *what) {
    char name[64];
    uint64_t value;
    sprintf(name, "stats.arenas.4096.bins.%u.%s", bin, what);
    READ(name, &value);
    return value;
}

// The bin of blocks of a size.
static unsigned bin_of(size_t size) {
    char name[64];
    for (unsigned bin = 0;; bin++) {
        size_t most;
        READ(with_number(name, "arenas.bin.", bin, ".size"), &most);
        if (size <= most) return bin;
    }
}

CASE(blocks_made_and_freed_from_epoch_to_epoch_are_counted) {
    enum { COUNT = 5000, SIZE = 640 };
    static void *blocks[COUNT];
    unsigned bin = bin_of(SIZE);
    uint64_t epoch = 1, made[3], freed[3];
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < COUNT; i++) {
            if (step == 1) blocks[i] = mallocx(SIZE, 0);
            if (step == 2) dallocx(blocks[i], 0);
        }
        CHECK(act("thread.tcache.flush") == 0, "flush");
        CHECK(WRITE("epoch", epoch) == 0, "a new epoch");
        made[step] = of_bin(bin, "nmalloc");
        freed[step] = of_bin(bin, "ndalloc");
        size_t live, small;
        char name[64];
        READ(with_number(name, "stats.arenas.4096.bins.", bin, ".curregs"), &live);
        CHECK(made[step] - freed[step] == live, "%zu live in step %d", live, step);
        READ("stats.arenas.4096.small.nmalloc", &small);
        CHECK(small >= made[step], "%zu in step %d", small, step);
        READ("stats.arenas.4096.small.ndalloc", &small);
        CHECK(small >= freed[step], "%zu in step %d", small, step);
    }
    CHECK(made[1] - made[0] >= COUNT - 200, "%lu made", (long)(made[1] - made[0]));
    CHECK(freed[2] - freed[1] >= COUNT - 200, "%lu freed", (long)(freed[2] - freed[1]));
}
