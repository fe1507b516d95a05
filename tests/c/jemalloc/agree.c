// What the interface says about one thing in several places must agree: sizes, accounts, settings.
#include "door.h"

#include <pthread.h>

static size_t listed(const char *before, unsigned i) {
    char name[64];
    size_t size;
    READ(with_number(name, before, i, ".size"), &size);
    return size;
}

// Grows a block class by class and shrinks it the same way: each request gives one size.
static void up_and_down(int flags) {
    static size_t sizes[1024];
    void *block = mallocx(1, flags);
    sizes[0] = sallocx(block, flags);
    unsigned n = 1;
    for (; n < 1024 && sizes[n - 1] < 12 << 20; n++) {
        block = rallocx(block, sizes[n - 1] + 1, flags);
        CHECK(block, "%zu", sizes[n - 1] + 1);
        sizes[n] = sallocx(block, flags);
        CHECK(sizes[n] == nallocx(sizes[n - 1] + 1, flags), "%zu, said %zu", sizes[n],
              nallocx(sizes[n - 1] + 1, flags));
        CHECK(nallocx(sizes[n], flags) == sizes[n], "%zu asks for %zu", sizes[n], nallocx(sizes[n],
              flags));
    }
    while (n-- > 1) {
        block = rallocx(block, sizes[n - 1], flags);
        CHECK(sallocx(block, flags) == sizes[n - 1], "%zu for %zu", sallocx(block, flags),
              sizes[n - 1]);
        void *fresh = mallocx(sizes[n - 1], flags);
        CHECK(sallocx(fresh, flags) == sizes[n - 1], "%zu for %zu", sallocx(fresh, flags),
              sizes[n - 1]);
        dallocx(fresh, flags);
    }
    dallocx(block, flags);
}

CASE(a_size_is_the_same_grown_into_shrunk_to_and_asked_for) {
    unsigned arena;
    READ("arenas.create", &arena);
    for (int round = 0; round < 3; round++) {
        up_and_down(0);
        up_and_down(MALLOCX_ALIGN(64));
        up_and_down(MALLOCX_ALIGN(8192));
        up_and_down(MALLOCX_ARENA(arena));
    }
}

CASE(the_size_classes_are_those_that_blocks_have) {
    unsigned bins, extents;
    READ("arenas.nbins", &bins);
    READ("arenas.nlextents", &extents);
    for (unsigned i = 0; i < bins; i++)
        CHECK(nallocx(listed("arenas.bin.", i), 0) == listed("arenas.bin.", i), "bin %u", i);
    CHECK(nallocx(listed("arenas.bin.", bins - 1) + 1, 0) == listed("arenas.lextent.", 0), "a gap");
    size_t largest = listed("arenas.lextent.", extents - 1);
    void *block = mallocx(1, 0);
    CHECK(!rallocx(block, hidden(largest + 1), 0) && !mallocx(hidden(largest + 1), 0), "%zu",
          largest);
    dallocx(block, 0);
}

CASE(xallocx_keeps_small_and_large_apart) {
    unsigned arena, bins;
    READ("arenas.create", &arena);
    READ("arenas.nbins", &bins);
    size_t small = listed("arenas.bin.", bins - 1);
    size_t large[4];
    for (unsigned i = 0; i < 4; i++) large[i] = listed("arenas.lextent.", i);
    for (int own = 0; own < 2; own++) {
        int flags = own ? MALLOCX_ARENA(arena) : 0;
        void *block = mallocx(large[3], flags);
        CHECK(xallocx(block, large[1], 0, flags) == large[1], "%zu", sallocx(block, 0));
        // It stays large, and keeps its size.
        for (size_t size = 1; size <= small; size += size / 2 + 1)
            CHECK(xallocx(block, size, 0, flags) == large[1], "%zu for %zu", sallocx(block, 0),
                  size);
        CHECK(xallocx(block, small, large[1] - small, flags) >= large[1], "%zu", sallocx(block, 0));
        CHECK(xallocx(block, large[1], large[3] - large[1], flags) <= large[3], "%zu",
              sallocx(block, 0));
        CHECK(xallocx(block, large[1], SIZE_MAX - large[1], flags) >= large[1], "%zu",
              sallocx(block, 0));
        dallocx(block, flags);
        block = mallocx(3 << 20, flags);
        CHECK(xallocx(block, 1, 0, flags) >= large[0], "%zu", sallocx(block, 0));
        CHECK(xallocx(block, 64 << 10, 0, flags) >= 64 << 10, "%zu", sallocx(block, 0));
        dallocx(block, flags);
        block = mallocx(small, flags);
        CHECK(xallocx(block, large[0], large[3], flags) == small, "%zu", sallocx(block, 0));
        CHECK(xallocx(block, 1, 0, flags) == small, "%zu", sallocx(block, 0));
        dallocx(block, flags);
    }
}

// Both words, read as programs do: by value, and at their addresses.
static void account(uint64_t *allocated, uint64_t *deallocated) {
    READ("thread.allocated", allocated);
    READ("thread.deallocated", deallocated);
}

static _Atomic(void *) handed[256];

static void *stranger(void *p) {
    (void)p;
    uint64_t a0, a1, d0, d1, freed = 0;
    account(&a0, &d0);
    for (int i = 0; i < 256; i++) {
        freed += malloc_usable_size(handed[i]);
        free(handed[i]);
        if (i % 50 == 0) {
            account(&a1, &d1);
            CHECK(a1 == a0 && d1 - d0 == freed, "%lu allocated, %lu of %lu freed", (long)(a1 - a0),
                  (long)(d1 - d0), (long)freed);
        }
    }
    account(&a1, &d1);
    CHECK(a1 == a0 && d1 - d0 == freed, "%lu of %lu", (long)(d1 - d0), (long)freed);
    return NULL;
}

static void *at_work(void *p) {
    unsigned seed = (unsigned)(uintptr_t)p * 77 + 1, arena = 0;
    static _Thread_local void *blocks[400];
    uint64_t a0, d0, a1, d1, *ap, *dp, *other, allocated = 0, deallocated = 0;
    memset(blocks, 0, sizeof blocks);
    free(hide(malloc(1)));
    READ("thread.allocatedp", &ap);
    READ("thread.deallocatedp", &dp);
    account(&a0, &d0);
    for (int round = 0; round < 30000; round++) {
        seed = seed * 1103515245 + 12345;
        void **place = &blocks[(seed >> 8) % 400];
        if (*place) {
            deallocated += malloc_usable_size(*place);
            free(*place);
            *place = NULL;
        } else {
            size_t size = (seed >> 16) % (round % 31 == 0 ? 3000000 : round % 7 == 0 ? 40000 : 3000);
            *place = round % 3 ? malloc(size) : mallocx(size + 1,
                round % 2 ? MALLOCX_ALIGN(256) : MALLOCX_ZERO);
            allocated += malloc_usable_size(*place);
        }
        if (round % 611 == 0 || round % 3001 < 3) {
            account(&a1, &d1);
            CHECK(a1 - a0 == allocated, "round %d: %lu of %lu allocated", round, (long)(a1 - a0),
                  (long)allocated);
            CHECK(d1 - d0 == deallocated, "round %d: %lu of %lu freed", round, (long)(d1 - d0),
                  (long)deallocated);
            CHECK(*ap == a1 && *dp == d1, "the words say %lu and %lu", (long)*ap, (long)*dp);
        }
        if (round % 2503 == 0) {
            READ("thread.allocatedp", &other);
            CHECK(other == ap && *ap == a0 + allocated, "%p and %p", (void *)other, (void *)ap);
            CHECK(act("thread.tcache.flush") == 0, "flush");
        }
        if (round == 9000) READ("arenas.create", &arena);
        if (arena && round % 4000 == 0) {
            unsigned to = round % 8000 ? arena : 0;
            CHECK(WRITE("thread.arena", to) == 0, "arena %u", to);
        }
    }
    unsigned none = 0;
    CHECK(WRITE("thread.arena", none) == 0, "arena 0");
    for (int i = 0; i < 400; i++) {
        if (blocks[i]) deallocated += malloc_usable_size(blocks[i]);
        free(blocks[i]);
    }
    account(&a1, &d1);
    CHECK(a1 - a0 == allocated && d1 - d0 == deallocated, "%lu of %lu, %lu of %lu", (long)(a1 - a0),
          (long)allocated, (long)(d1 - d0), (long)deallocated);
    CHECK(a1 - a0 == d1 - d0, "%lu and %lu", (long)(a1 - a0), (long)(d1 - d0));
    return NULL;
}

CASE(a_threads_account_is_exact_when_it_reads_it) {
    at_work(NULL);
    // Threads beyond the first eight borrow their first blocks, and a later one takes an earlier
    // one's heap.
    pthread_t threads[12];
    for (int round = 0; round < 3; round++) {
        for (uintptr_t t = 0; t < 12; t++)
            CHECK(pthread_create(&threads[t], NULL, at_work, (void *)(t + 1)) == 0, "no thread");
        for (int t = 0; t < 12; t++) pthread_join(threads[t], NULL);
    }
    for (int i = 0; i < 256; i++) handed[i] = malloc((size_t)i * 100);
    for (int t = 0; t < 1; t++) CHECK(pthread_create(&threads[t], NULL, stranger, NULL) == 0,
        "no thread");
    pthread_join(threads[0], NULL);
    // What others freed of its blocks is not in its account.
    at_work(NULL);
}

CASE(one_query_is_accounted_to_the_byte) {
    enum { ROWS = 10000 };
    static char *rows[ROWS];
    for (int query = 0; query < 20; query++) {
        uint64_t a0, d0, a1, d1;
        size_t size = 16 + (size_t)query * 333, real = nallocx(size, 0);
        account(&a0, &d0);
        for (int i = 0; i < ROWS; i++) rows[i] = mallocx(size, 0);
        account(&a1, &d1);
        CHECK(a1 - a0 == ROWS * real && d1 == d0, "%lu of %zu", (long)(a1 - a0), ROWS * real);
        for (int i = ROWS; i-- > 1;) dallocx(rows[i], 0);
        account(&a0, &d0);
        CHECK(a0 == a1 && d0 - d1 == (ROWS - 1) * real, "%lu of %zu", (long)(d0 - d1),
              (ROWS - 1) * real);
        dallocx(rows[0], 0);
    }
}

CASE(where_memory_would_come_from_is_kept_and_read_back) {
    static const char *const words[] = {"disabled", "primary", "secondary"};
    unsigned arena;
    READ("arenas.create", &arena);
    char name[64], stats[64];
    const char *dss;
    with_number(name, "arena.", arena, ".dss");
    with_number(stats, "stats.arenas.", arena, ".dss");
    READ(name, &dss);
    CHECK(strcmp(dss, "disabled") == 0, "%s", dss);
    for (int i = 0; i < 9; i++) {
        const char *wanted = words[i * 2 % 3], *was = dss;
        size_t length = sizeof dss;
        CHECK(mallctl(name, &dss, &length, &wanted, sizeof wanted) == 0, "%s", wanted);
        CHECK(strcmp(dss, was) == 0, "%s, not %s", dss, was);
        READ(name, &dss);
        CHECK(strcmp(dss, wanted) == 0, "%s, not %s", dss, wanted);
        READ(stats, &dss);
        CHECK(strcmp(dss, wanted) == 0, "%s, not %s", dss, wanted);
        void *block = mallocx(1, MALLOCX_ARENA(arena)), *end = sbrk(0);
        CHECK(block, "no block");
        dallocx(mallocx(64 << 20, MALLOCX_ARENA(arena)), 0);
        CHECK(sbrk(0) == end, "memory from sbrk");
        dallocx(block, 0);
    }
    const char *nonsense = "tertiary";
    CHECK(WRITE(name, nonsense) == EINVAL, "%s", nonsense);
    CHECK(WRITE("arena.999.dss", nonsense) == ENOENT, "no arena");
    READ("arena.0.dss", &dss);
    CHECK(strcmp(dss, "disabled") == 0, "%s", dss);
    CHECK(act(with_number(name, "arena.", arena, ".destroy")) == 0, "destroy");
}

// With MALLOC_CONF naming other sizes of slabs: accepted, and without effect.
CASE(slab_sizes_stay_as_they_are) {
    unsigned bins;
    READ("arenas.nbins", &bins);
    for (unsigned i = 0; i < bins; i++) {
        char name[64];
        size_t slab;
        READ(with_number(name, "arenas.bin.", i, ".slab_size"), &slab);
        CHECK(slab == 64 << 10, "%zu", slab);
    }
    free(malloc(100));
}
