// mallctl and its kin: every name, what it answers, and every error of the manual.
#include "door.h"

#include <pthread.h>
#include <unistd.h>

CASE(names_that_may_only_be_read_refuse_to_be_written) {
    const char *names[] = {"version",       "config.stats",   "opt.narenas",     "opt.abort",
                           "arenas.quantum", "arenas.nbins",   "thread.allocated", "stats.allocated",
                           "arenas.bin.0.size", "arena.0.initialized", "thread.allocatedp"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        uint64_t value = 0;
        int error = mallctl(names[n], NULL, NULL, &value, sizeof value);
        CHECK(error == EPERM, "%s: %d", names[n], error);
    }
}

CASE(names_that_do_something_take_no_value) {
    const char *names[] = {"arena.0.purge", "arena.0.decay", "thread.tcache.flush", "thread.idle"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        CHECK(act(names[n]) == 0, "%s", names[n]);
        uint64_t value = 0;
        size_t length = sizeof value;
        int error = mallctl(names[n], &value, &length, NULL, 0);
        CHECK(error == EPERM, "%s read: %d", names[n], error);
        error = mallctl(names[n], NULL, NULL, &value, length);
        CHECK(error == EPERM, "%s written: %d", names[n], error);
    }
}

CASE(names_that_do_not_exist_are_enoent) {
    const char *names[] = {"",       ".",        "no",          "epoch.more",      "arenas",
                           "stats.", "arena..x", "arenas.bin.0", "arenas.bin.x.size", "versio",
                           "stats.allocated.", "arena.0.", "opt"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        int error = mallctl(names[n], NULL, NULL, NULL, 0);
        CHECK(error == ENOENT, "\"%s\": %d", names[n], error);
    }
    char name[64];
    unsigned bins;
    READ("arenas.nbins", &bins);
    size_t size, length = sizeof size;
    int error = mallctl(with_number(name, "arenas.bin.", bins, ".size"), &size, &length, NULL, 0);
    CHECK(error == ENOENT, "%d", error);
}

CASE(a_wrong_length_is_einval_and_copies_what_fits) {
    uint64_t wide = UINT64_MAX;
    size_t length = sizeof wide;
    bool flag;
    READ("config.stats", &flag);
    CHECK(mallctl("config.stats", &wide, &length, NULL, 0) == EINVAL, "length 8 for a bool");
    CHECK(length == 1, "%zu", length);
    CHECK((wide & 0xff) == flag, "%lx", (long)wide);
    unsigned char narrow = 0xff;
    length = sizeof narrow;
    CHECK(mallctl("arenas.quantum", &narrow, &length, NULL, 0) == EINVAL, "length 1 for a size_t");
    CHECK(narrow == 16, "%d", narrow);
    CHECK(mallctl("epoch", NULL, NULL, &narrow, sizeof narrow) == EINVAL, "a short epoch");
    CHECK(mallctl("background_thread", NULL, NULL, &wide, sizeof wide) == EINVAL, "a wide flag");
    CHECK(mallctl("arenas.dirty_decay_ms", NULL, NULL, &narrow, 1) == EINVAL, "a short time");
}

// A call with a wrong place for the old value creates nothing and sets nothing.
CASE(a_wrong_length_changes_nothing) {
    const char *makers[] = {"arenas.create", "tcache.create", "experimental.arenas_create_ext"};
    unsigned before, after, made;
    READ("arenas.narenas", &before);
    for (int n = 0; n < 3; n++) {
        // More often than there are numbers.
        for (int i = 0; i < 1500; i++) {
            uint64_t wide = 7;
            size_t length = sizeof wide;
            int error = mallctl(makers[n], &wide, &length, NULL, 0);
            CHECK(error == EINVAL && length == 0 && wide == 7, "%s: %d, %zu", makers[n], error, length);
            CHECK(mallctl(makers[n], NULL, NULL, NULL, 0) == EINVAL, "%s without a place", makers[n]);
            length = sizeof made;
            CHECK(mallctl(makers[n], NULL, &length, NULL, 0) == EINVAL, "%s to null", makers[n]);
        }
    }
    READ("arenas.narenas", &after);
    CHECK(after == before, "%u arenas, then %u", before, after);
    READ("arenas.create", &made);
    READ("tcache.create", &after);
    CHECK(WRITE("tcache.destroy", after) == 0, "%u", after);
    struct {
        const char *name;
        size_t size;
        uint64_t new;
    } settings[] = {{"thread.arena", 4, made},
                    {"arenas.dirty_decay_ms", 8, 1234},
                    {"arena.0.dirty_decay_ms", 8, 1234},
                    {"arenas.muzzy_decay_ms", 8, 1234},
                    {"background_thread", 1, 0}};
    bool on = true;
    CHECK(WRITE("background_thread", on) == 0, "on");
    for (size_t n = 0; n < sizeof settings / sizeof *settings; n++) {
        uint64_t old = 0, now = 0;
        size_t size = settings[n].size, length = size;
        CHECK(mallctl(settings[n].name, &old, &length, NULL, 0) == 0, "%s", settings[n].name);
        length = 3;
        int error = mallctl(settings[n].name, &now, &length, &settings[n].new, size);
        CHECK(error == EINVAL, "%s: %d", settings[n].name, error);
        now = 0;
        length = size;
        CHECK(mallctl(settings[n].name, &now, &length, NULL, 0) == 0, "%s", settings[n].name);
        CHECK(now == old, "%s: %ld, then %ld", settings[n].name, (long)old, (long)now);
    }
    char *name = NULL;
    for (size_t length = 0; length < 8; length++) {
        size_t given = length;
        CHECK(mallctl("arena.0.name", &name, &given, NULL, 0) == EINVAL, "a name into %zu", length);
    }
}

CASE(numbers_do_what_names_do) {
    const char *names[] = {"version", "epoch", "stats.allocated", "arenas.quantum",
                           "thread.tcache.enabled"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t mib[8], depth = 8;
        CHECK(mallctlnametomib(names[n], mib, &depth) == 0, "%s", names[n]);
        size_t dots = 1;
        for (const char *c = names[n]; *c; c++) dots += *c == '.';
        CHECK(depth == dots, "%s: %zu", names[n], depth);
        uint64_t by_name = 0, by_number = 0;
        size_t length = 8, other = 8;
        int error = mallctl(names[n], &by_name, &length, NULL, 0);
        CHECK(mallctlbymib(mib, depth, &by_number, &other, NULL, 0) == error, "%s", names[n]);
        CHECK(by_name == by_number, "%s: %ld and %ld", names[n], (long)by_name, (long)by_number);
    }
    size_t mib[8], depth = 8;
    const char *nothings[] = {"no.such.name", "arena.3999.purge", "stats.arenas.3999.pactive",
                              "stats.arenas.0.bins.500.curregs", "arenas.bin.500.size",
                              "arenas.lextent.5000.size"};
    for (size_t n = 0; n < sizeof nothings / sizeof *nothings; n++)
        CHECK(mallctlnametomib(nothings[n], mib, &depth) == ENOENT, "%s", nothings[n]);
    size_t none[] = {9999, 1, 2}, value, length = sizeof value;
    CHECK(mallctlbymib(none, 3, &value, &length, NULL, 0) == ENOENT, "numbers of nothing");
    CHECK(mallctlbymib(none, 0, &value, &length, NULL, 0) == ENOENT, "no numbers");
    depth = 8;
    CHECK(mallctlnametomib("arenas.bin.0.size", mib, &depth) == 0, "%zu", depth);
    CHECK(mallctlbymib(mib, depth - 1, &value, &length, NULL, 0) == ENOENT, "half a name");
}

CASE(a_short_array_gets_the_first_numbers) {
    size_t mib[4] = {77, 77, 77, 77}, whole[4], depth = 2, all = 4;
    CHECK(mallctlnametomib("arenas.bin.0.size", mib, &depth) == 0, "%zu", depth);
    CHECK(mallctlnametomib("arenas.bin.0.size", whole, &all) == 0, "%zu", all);
    CHECK(depth == 2 && all == 4, "%zu and %zu", depth, all);
    CHECK(mib[0] == whole[0] && mib[1] == whole[1] && mib[2] == 77, "%zu", mib[2]);
}

CASE(size_classes_can_be_counted_through) {
    unsigned bins, extents;
    READ("arenas.nbins", &bins);
    READ("arenas.nlextents", &extents);
    CHECK(bins > 10 && extents > 10, "%u and %u", bins, extents);
    size_t mib[4], depth = 4, last = 0;
    CHECK(mallctlnametomib("arenas.bin.0.size", mib, &depth) == 0, "bin");
    for (mib[2] = 0; mib[2] < bins; mib[2]++) {
        size_t size, length = sizeof size;
        CHECK(mallctlbymib(mib, depth, &size, &length, NULL, 0) == 0, "%zu", mib[2]);
        CHECK(size > last, "%zu after %zu", size, last);
        // An exact page is for aligned requests.
        CHECK(nallocx(size, MALLOCX_ALIGN(size & -size)) == size, "%zu", size);
        CHECK(nallocx(last + 1, 0) == size, "%zu", last + 1);
        char name[64];
        uint32_t regions;
        READ(with_number(name, "arenas.bin.", (unsigned)mib[2], ".nregs"), &regions);
        size_t slab;
        READ(with_number(name, "arenas.bin.", (unsigned)mib[2], ".slab_size"), &slab);
        CHECK(regions * size <= slab && regions, "%u of %zu in %zu", regions, size, slab);
        last = size;
    }
    CHECK(mallctlnametomib("arenas.lextent.0.size", mib, &depth) == 0, "lextent");
    for (mib[2] = 0; mib[2] < extents; mib[2]++) {
        size_t size, length = sizeof size;
        CHECK(mallctlbymib(mib, depth, &size, &length, NULL, 0) == 0, "%zu", mib[2]);
        CHECK(size > last, "%zu after %zu", size, last);
        CHECK(nallocx(size, 0) == size, "%zu gives %zu", size, nallocx(size, 0));
        last = size;
    }
    size_t size, length = sizeof size;
    CHECK(mallctlbymib(mib, depth, &size, &length, NULL, 0) == ENOENT, "one too many");
}

CASE(build_and_options_can_be_read) {
    const char *flags[] = {"config.cache_oblivious", "config.debug", "config.fill",
                           "config.lazy_lock", "config.prof", "config.prof_libgcc",
                           "config.prof_libunwind", "config.stats", "config.utrace",
                           "config.xmalloc", "opt.abort", "opt.abort_conf", "opt.confirm_conf",
                           "opt.cache_oblivious", "opt.trust_madvise", "opt.retain",
                           "opt.background_thread", "opt.stats_print", "opt.tcache"};
    for (size_t n = 0; n < sizeof flags / sizeof *flags; n++) {
        unsigned char value = 2;
        size_t length = 1;
        int error = mallctl(flags[n], &value, &length, NULL, 0);
        CHECK(error == 0 && value < 2, "%s: %d, %d", flags[n], error, value);
    }
    const char *strings[] = {"version", "config.malloc_conf", "opt.dss", "opt.percpu_arena",
                             "opt.metadata_thp", "opt.stats_print_opts", "opt.stats_interval_opts",
                             "opt.thp", "opt.zero_realloc"};
    for (size_t n = 0; n < sizeof strings / sizeof *strings; n++) {
        const char *value = NULL;
        READ(strings[n], &value);
        CHECK(value && strlen(value) < 200, "%s", strings[n]);
    }
    const char *words[] = {"opt.oversize_threshold", "opt.max_background_threads",
                           "opt.dirty_decay_ms", "opt.muzzy_decay_ms",
                           "opt.lg_extent_max_active_fit", "opt.stats_interval", "opt.tcache_max",
                           "arenas.page", "arenas.hugepage", "arenas.tcache_max"};
    for (size_t n = 0; n < sizeof words / sizeof *words; n++) {
        size_t value;
        READ(words[n], &value);
    }
    unsigned arenas;
    READ("opt.narenas", &arenas);
    READ("arenas.nhbins", &arenas);
    const char *version;
    READ("version", &version);
    unsigned major, minor, bugfix, revision;
    char id[100];
    int fields = sscanf(version, "%u.%u.%u-%u-g%99s", &major, &minor, &bugfix, &revision, id);
    CHECK(fields == 5 && major == 5, "%s", version);
}

CASE(figures_stand_still_between_epochs) {
    uint64_t epoch, next;
    READ("epoch", &epoch);
    CHECK(WRITE("epoch", epoch) == 0, "a new epoch");
    size_t before, after;
    READ("stats.allocated", &before);
    void *block = mallocx(64 << 20, 0);
    READ("stats.allocated", &after);
    CHECK(before == after, "%zu and %zu", before, after);
    size_t length = sizeof next;
    CHECK(mallctl("epoch", &next, &length, &epoch, sizeof epoch) == 0, "read and write");
    READ("epoch", &next);
    CHECK(next > epoch, "%lu after %lu", (long)next, (long)epoch);
    READ("stats.allocated", &after);
    CHECK(after >= before + (64 << 20), "%zu and %zu", before, after);
    size_t active, resident, mapped, retained, metadata;
    READ("stats.active", &active);
    READ("stats.resident", &resident);
    READ("stats.mapped", &mapped);
    READ("stats.retained", &retained);
    READ("stats.metadata", &metadata);
    CHECK(after <= active && active <= resident && resident <= mapped + retained,
          "%zu, %zu, %zu, %zu", after, active, resident, mapped);
    CHECK(metadata > 0, "%zu", metadata);
    dallocx(block, 0);
}

CASE(figures_of_all_arenas_can_be_read) {
    uint64_t epoch = 1;
    enum { COUNT = 5000 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = mallocx(384, 0);
    CHECK(WRITE("epoch", epoch) == 0, "a new epoch");
    const char *sizes[] = {"stats.arenas.4096.pactive", "stats.arenas.4096.pdirty",
                           "stats.arenas.4096.pmuzzy",  "stats.arenas.4096.mapped",
                           "stats.arenas.4096.retained", "stats.arenas.4096.base",
                           "stats.arenas.4096.internal", "stats.arenas.4096.resident",
                           "stats.arenas.4096.dirty_purged", "stats.arenas.4096.muzzy_purged",
                           "stats.arenas.4096.small.allocated",
                           "stats.arenas.4096.large.allocated", "stats.metadata_thp",
                           "stats.arenas.4096.abandoned_vm", "stats.arenas.4096.extent_avail",
                           "stats.arenas.4096.tcache_stashed_bytes",
                           "stats.background_thread.num_threads",
                           "stats.background_thread.num_runs",
                           "stats.background_thread.run_interval"};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        size_t value;
        READ(sizes[n], &value);
    }
    unsigned threads;
    READ("stats.arenas.0.nthreads", &threads);
    size_t active;
    READ("stats.arenas.4096.pactive", &active);
    CHECK(active >= COUNT * 384 / 4096, "%zu pages", active);
    // The class of 384 bytes, found by iterating as Redis does.
    size_t mib[6], depth = 6, size_mib[4], size_depth = 4, size, held = 0, slabs = 0;
    CHECK(mallctlnametomib("stats.arenas.4096.bins.0.curregs", mib, &depth) == 0, "curregs");
    CHECK(mallctlnametomib("arenas.bin.0.size", size_mib, &size_depth) == 0, "size");
    for (size_t bin = 0;; bin++) {
        size_t length = sizeof size;
        mib[4] = size_mib[2] = bin;
        CHECK(mallctlbymib(size_mib, size_depth, &size, &length, NULL, 0) == 0, "%zu", bin);
        if (size < 384) continue;
        CHECK(mallctlbymib(mib, depth, &held, &length, NULL, 0) == 0, "%zu", bin);
        char name[64];
        READ(with_number(name, "stats.arenas.4096.bins.", (unsigned)bin, ".curslabs"), &slabs);
        break;
    }
    CHECK(held >= COUNT && held < COUNT + 2000 && slabs, "%zu blocks in %zu slabs", held, slabs);
    CHECK(mallctl("stats.arenas.999.pactive", &active, &(size_t){8}, NULL, 0) == ENOENT, "999");
    for (int i = 0; i < COUNT; i++) dallocx(blocks[i], 0);
}

// The parts that jemalloc names are no more than the whole, process and arena alike; masu's are all of it.
CASE(metadata_is_the_sum_of_its_parts) {
    const char *prefixes[] = {"stats.metadata", "stats.arenas.0.metadata"};
    size_t whole, edata, rtree;
    void *block = mallocx((size_t)64 << 20, 0);
    READ("stats.metadata", &whole);
    for (size_t n = 0; n < sizeof prefixes / sizeof *prefixes; n++) {
        char name[64];
        sprintf(name, "%s_edata", prefixes[n]);
        READ(name, &edata);
        sprintf(name, "%s_rtree", prefixes[n]);
        READ(name, &rtree);
        CHECK(edata != 0 && edata + rtree <= whole, "%s: %zu + %zu", prefixes[n], edata, rtree);
        CHECK(edata + rtree == whole || !is_masu(), "%s: %zu + %zu", prefixes[n], edata, rtree);
    }
    dallocx(block, 0);
}

CASE(no_block_is_too_large_for_its_arena) {
    size_t threshold = 1, wanted = 0;
    READ("arena.0.oversize_threshold", &threshold);
    CHECK(threshold == 0, "%zu", threshold);
    CHECK(WRITE("arena.0.oversize_threshold", wanted) == EPERM, "written");
    CHECK(mallctl("arena.999.oversize_threshold", &threshold, &(size_t){8}, NULL, 0) == ENOENT, "999");
    bool huge_pages = true;
    READ("opt.hpa", &huge_pages);
    CHECK(!huge_pages, "an allocator of huge pages of its own");
}

static void *churn(void *p) {
    uint64_t *allocated = p;
    uint64_t before, after, *word;
    READ("thread.allocated", &before);
    READ("thread.allocatedp", &word);
    void *block = mallocx(3 << 20, 0);
    READ("thread.allocated", &after);
    CHECK(after >= before + (3 << 20), "%lu to %lu", (long)before, (long)after);
    CHECK(*word == after, "%lu, the word says %lu", (long)after, (long)*word);
    READ("thread.deallocated", &before);
    dallocx(block, 0);
    READ("thread.deallocated", &after);
    CHECK(after >= before + (3 << 20), "%lu to %lu", (long)before, (long)after);
    READ("thread.allocated", allocated);
    return NULL;
}

CASE(threads_have_accounts_of_their_own) {
    uint64_t first, second;
    churn(&first);
    for (int i = 0; i < 10; i++) churn(&first);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, churn, &second) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(second < first && second >= 3 << 20, "%lu and %lu", (long)first, (long)second);
}

CASE(the_word_of_allocated_bytes_moves_after_one_malloc) {
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < round; i++) free(hide(malloc(1)));
        uint64_t *word;
        READ("thread.allocatedp", &word);
        uint64_t before = *(volatile uint64_t *)word;
        free(hide(malloc(1)));
        CHECK(*(volatile uint64_t *)word != before, "round %d: %lu", round, (long)before);
    }
}

CASE(peaks_can_be_read_and_begun_anew) {
    uint64_t peak;
    CHECK(act("thread.peak.reset") == 0, "reset");
    void *block = mallocx(20 << 20, 0);
    dallocx(block, 0);
    READ("thread.peak.read", &peak);
    CHECK(peak >= 20 << 20 && peak < 64 << 20, "%lu", (long)peak);
    CHECK(act("thread.peak.reset") == 0, "reset");
    READ("thread.peak.read", &peak);
    CHECK(peak < 20 << 20, "%lu", (long)peak);
}

CASE(caches_can_be_switched_and_flushed) {
    bool old = false, off = false, on = true;
    size_t length = sizeof old;
    CHECK(mallctl("thread.tcache.enabled", &old, &length, &off, sizeof off) == 0 && old, "%d", old);
    CHECK(mallctl("thread.tcache.enabled", &old, &length, &on, sizeof on) == 0 && !old, "%d", old);
    READ("thread.tcache.enabled", &old);
    CHECK(old, "still off");
    void *block = malloc(100);
    CHECK(act("thread.tcache.flush") == 0, "flush");
    CHECK(act("thread.idle") == 0, "idle");
    free(block);
    unsigned caches[8];
    for (int i = 0; i < 8; i++) {
        READ("tcache.create", &caches[i]);
        for (int j = 0; j < i; j++) CHECK(caches[i] != caches[j], "%u twice", caches[i]);
        block = mallocx(42, MALLOCX_TCACHE(caches[i]));
        CHECK(block, "%u", caches[i]);
        dallocx(block, MALLOCX_TCACHE(caches[i]));
    }
    for (int i = 0; i < 8; i++) {
        CHECK(WRITE("tcache.flush", caches[i]) == 0, "%u", caches[i]);
        CHECK(WRITE("tcache.destroy", caches[i]) == 0, "%u", caches[i]);
    }
}

CASE(decay_times_can_be_set) {
    const char *names[] = {"arenas.dirty_decay_ms", "arenas.muzzy_decay_ms",
                           "arena.0.dirty_decay_ms", "arena.0.muzzy_decay_ms"};
    for (size_t n = 0; n < 4; n++) {
        ssize_t first, now, values[] = {1000, 0, -1}, bad = -2;
        READ(names[n], &first);
        for (int v = 0; v < 3; v++) {
            CHECK(WRITE(names[n], values[v]) == 0, "%s to %zd", names[n], values[v]);
            READ(names[n], &now);
            CHECK(now == values[v], "%s: %zd instead of %zd", names[n], now, values[v]);
        }
        CHECK(WRITE(names[n], bad) == EFAULT, "%s took %zd", names[n], bad);
        bad = INT64_MAX;
        CHECK(WRITE(names[n], bad) == EFAULT, "%s took %zd", names[n], bad);
        CHECK(WRITE(names[n], first) == 0, "%s", names[n]);
    }
}

CASE(a_purge_gives_back_what_is_free) {
    ssize_t never = -1;
    CHECK(WRITE("arenas.dirty_decay_ms", never) == 0, "never");
    CHECK(WRITE("arenas.muzzy_decay_ms", never) == 0, "never");
    enum { COUNT = 64 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) memset(blocks[i] = malloc(512 << 10), 1, 512 << 10);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    long before = resident_kib();
    CHECK(act("thread.tcache.flush") == 0, "flush");
    CHECK(act("arena.4096.purge") == 0, "purge");
    long after = resident_kib();
    CHECK(after < before - 24 * 1024, "%ld KiB to %ld KiB", before, after);
    CHECK(act("arena.4096.decay") == 0, "decay");
    CHECK(act("arena.777.purge") != 0, "an arena that is not there");
    // The old way to name all arenas.
    unsigned arenas;
    char name[64];
    READ("arenas.narenas", &arenas);
    CHECK(act(with_number(name, "arena.", arenas, ".purge")) == 0, "%u", arenas);
}

CASE(the_background_thread_can_be_switched) {
    bool old, on = true, off = false;
    READ("background_thread", &old);
    CHECK(WRITE("background_thread", on) == 0, "on");
    READ("background_thread", &old);
    CHECK(old, "off");
    CHECK(WRITE("background_thread", off) == 0, "off");
    READ("background_thread", &old);
    CHECK(!old, "on");
    size_t most;
    READ("max_background_threads", &most);
    CHECK(most > 0, "%zu", most);
    CHECK(WRITE("max_background_threads", most) == 0, "%zu", most);
}

CASE(a_profile_can_be_taken_at_run_time) {
    bool flag = false, on = true, off = false;
    READ("config.prof", &flag);
    CHECK(flag, "config.prof");
    READ("opt.prof", &flag);
    CHECK(!flag, "opt.prof");
    READ("prof.active", &flag);
    CHECK(!flag, "prof.active");
    const char *none = NULL;
    CHECK(WRITE("prof.dump", none) == ENOENT, "before it began");
    CHECK(WRITE("prof.active", on) == 0, "on");
    READ("prof.active", &flag);
    CHECK(flag, "off");
    size_t lg;
    READ("prof.lg_sample", &lg);
    CHECK(lg == 19, "%zu", lg);
    lg = 10;
    CHECK(WRITE("prof.reset", lg) == 0, "reset");
    READ("prof.lg_sample", &lg);
    CHECK(lg == 10, "%zu", lg);
    static void *volatile kept[5000];
    for (int i = 0; i < 5000; i++) kept[i] = malloc(200);
    CHECK(WRITE("thread.prof.active", off) == 0, "thread");
    READ("thread.prof.active", &flag);
    CHECK(!flag, "thread");
    const char *bad = "/no/such/place";
    CHECK(WRITE("prof.dump", bad) == EFAULT, "a bad place");
    char directory[] = "/tmp/masu-profile-XXXXXX", prefix[64], file[96];
    CHECK(mkdtemp(directory), "mkdtemp");
    snprintf(prefix, sizeof prefix, "%s/own", directory);
    const char *name = prefix;
    CHECK(WRITE("prof.prefix", name) == 0, "prefix");
    CHECK(WRITE("prof.dump", none) == 0, "dump");
    snprintf(file, sizeof file, "%s.%d.0.m0.heap", prefix, (int)getpid());
    FILE *dump = fopen(file, "r");
    CHECK(dump, "%s", file);
    unsigned long rate = 0, objects = 0, bytes = 0;
    CHECK(fscanf(dump, "heap_v2/%lu t*: %lu: %lu", &rate, &objects, &bytes) == 3, "form");
    CHECK(rate == 1024 && objects > 500 && bytes > 100000, "%lu %lu %lu", rate, objects, bytes);
    fclose(dump);
    unlink(file);
    const char *empty = "";
    CHECK(WRITE("prof.prefix", empty) == 0, "empty prefix");
    CHECK(WRITE("prof.dump", none) == EFAULT && act("prof.dump") == EFAULT, "no prefix");
    CHECK(WRITE("prof.prefix", name) == 0 && act("prof.dump") == 0, "prefix again");
    snprintf(file, sizeof file, "%s.%d.1.m1.heap", prefix, (int)getpid());
    CHECK(unlink(file) == 0, "%s", file);
    CHECK(rmdir(directory) == 0, "more files");
    CHECK(WRITE("prof.active", off) == 0, "off");
    // The rate of the next profile, which stays when it is switched off and on.
    lg = 12;
    CHECK(WRITE("prof.reset", lg) == 0, "reset");
    READ("prof.active", &flag);
    CHECK(!flag, "on");
    for (int i = 0; i < 2; i++) {
        READ("prof.lg_sample", &lg);
        CHECK(lg == 12, "%zu", lg);
        CHECK(WRITE("prof.active", on) == 0, "on");
    }
    CHECK(WRITE("prof.active", off) == 0, "off");
}

// The names come from the environment, one per line: reading one gives a value of exactly one
// length, and writing nothing, or with an impossible length, changes nothing.
CASE(every_name_answers) {
    char *names = strdup(getenv("NAMES"));
    int count = 0;
    for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n"), count++) {
        size_t mib[8], depth = 8;
        CHECK(mallctlnametomib(name, mib, &depth) == 0, "%s", name);
        int lengths = 0, error = 0;
        for (size_t length = 1; length <= 8; length *= 2) {
            unsigned char value[8] = {0};
            size_t given = length;
            error = mallctlbymib(mib, depth, value, &given, NULL, 0);
            CHECK(error == 0 || error == EINVAL, "%s: %d", name, error);
            lengths += error == 0;
        }
        CHECK(lengths == 1, "%s has %d lengths", name, lengths);
        CHECK(mallctl(name, NULL, NULL, NULL, 0) == 0, "%s", name);
    }
    CHECK(count > 100, "%d names", count);
    free(names);
}
