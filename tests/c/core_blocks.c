// malloc, calloc and free: sizes, alignment, overlap, zeroes, errno.
#include "check.h"
#include "doors.h"

// Sizes around every place where size classes usually begin: up to `limit`, all of
// 0..4096, then one below, at and above each sixteenth of a doubling.
static size_t next_size(size_t size) {
    if (size < 4096) return size + 1;
    size_t step = ((size_t)1 << (63 - __builtin_clzl(size))) / 16;
    size_t place = size % step;
    return place == step - 1 || place == 0 ? size + 1 : size - place + step - 1;
}

CASE(malloc_aligns_every_size_to_16) {
    for (size_t size = 0; size <= 40 << 20; size = next_size(size)) {
        unsigned char *block = malloc(size);
        CHECK(block != NULL, "malloc(%zu)", size);
        CHECK((uintptr_t)block % 16 == 0, "malloc(%zu) = %p", size, (void *)block);
        if (size > 0) block[0] = block[size - 1] = 1;
        free(block);
    }
}

CASE(calloc_aligns_every_size_to_16) {
    for (size_t size = 0; size <= 40 << 20; size = next_size(size)) {
        unsigned char *block = calloc(size, 1);
        CHECK(block != NULL && (uintptr_t)block % 16 == 0, "calloc(%zu) = %p", size, (void *)block);
        if (size > 0) CHECK(block[0] == 0 && block[size - 1] == 0, "calloc(%zu)", size);
        free(block);
    }
}

CASE(small_sizes_keep_their_alignment_in_bulk) {
    enum { many = 300 };
    static void *blocks[many];
    for (size_t size = 0; size <= 512; size++) {
        for (int i = 0; i < many; i++) {
            blocks[i] = malloc(size);
            CHECK((uintptr_t)blocks[i] % 16 == 0, "malloc(%zu) = %p", size, blocks[i]);
        }
        for (int i = 0; i < many; i++) free(blocks[i]);
    }
}

CASE(malloc_zero_gives_distinct_blocks) {
    enum { many = 1000 };
    static char *blocks[many];
    for (int i = 0; i < many; i++) {
        blocks[i] = i % 3 == 0 ? malloc(0) : i % 3 == 1 ? calloc(0, 8) : calloc(8, 0);
        CHECK(blocks[i] != NULL, "block %d", i);
        size_t usable = malloc_usable_size(blocks[i]);
        memset(blocks[i], 0x5a, usable);
    }
    // Sorted neighbours differ, so all are distinct.
    for (int gap = many / 2; gap > 0; gap /= 2)
        for (int i = gap; i < many; i++)
            for (int j = i; j >= gap && blocks[j - gap] > blocks[j]; j -= gap) {
                char *swap = blocks[j];
                blocks[j] = blocks[j - gap];
                blocks[j - gap] = swap;
            }
    for (int i = 1; i < many; i++) CHECK(blocks[i] != blocks[i - 1], "%p", (void *)blocks[i]);
    for (int i = 0; i < many; i++) free(blocks[i]);
}

// A random mixture of all kinds of sizes; small ones are frequent, as in life.
static size_t some_size(uint64_t *random) {
    uint64_t dice = random_next(random);
    size_t limit = dice % 100 < 70 ? 300 : dice % 100 < 90 ? 9000 : dice % 1000 < 995 ? 200000 : 3 << 20;
    return random_next(random) % limit;
}

CASE(live_blocks_never_overlap) {
    enum { many = 3000, turns = 60000 };
    static struct { unsigned char *block; size_t size; uint64_t seed; } live[many];
    uint64_t random = 1;
    for (int turn = 0; turn < turns; turn++) {
        int i = random_next(&random) % many;
        if (live[i].block != NULL) {
            size_t bad = first_difference(live[i].block, live[i].size, live[i].seed);
            CHECK(bad == live[i].size, "byte %zu of %zu changed", bad, live[i].size);
            free(live[i].block);
        }
        live[i].size = some_size(&random);
        live[i].seed = turn;
        live[i].block = malloc(live[i].size);
        CHECK(live[i].block != NULL, "malloc(%zu)", live[i].size);
        fill(live[i].block, live[i].size, live[i].seed);
    }
    for (int i = 0; i < many; i++) {
        size_t bad = first_difference(live[i].block, live[i].size, live[i].seed);
        CHECK(live[i].block == NULL || bad == live[i].size, "byte %zu changed", bad);
        free(live[i].block);
        live[i].block = NULL;
    }
}

static const size_t kinds[] = {1,    8,     16,     24,     48,      100,         512,      1000,
                               1024, 4000,  8191,   8192,   8193,    20000,       32768,    65536,
                               65537, 200000, 262144, 524288, 1048576, 1048577, 3 << 20, 9 << 20};
enum { kind_count = sizeof kinds / sizeof *kinds };

// Dirties memory of a size and frees it, in enough blocks to reach every cache.
static void dirty(size_t size) {
    enum { most = 64 };
    void *blocks[most];
    int count = size > 1 << 20 ? 3 : size > 60000 ? 8 : most;
    for (int i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL, "malloc(%zu)", size);
        memset(blocks[i], 0xa5, malloc_usable_size(blocks[i]));
    }
    for (int i = 0; i < count; i++) free(blocks[i]);
}

static void expect_zeroes(size_t size) {
    enum { most = 80 };
    void *blocks[most];
    int count = size > 1 << 20 ? 4 : size > 60000 ? 10 : most;
    for (int i = 0; i < count; i++) {
        blocks[i] = i % 2 ? calloc(1, size) : calloc(size, 1);
        CHECK(blocks[i] != NULL, "calloc(%zu)", size);
        size_t bad = first_nonzero(blocks[i], size);
        CHECK(bad == size, "calloc(%zu): byte %zu is not zero", size, bad);
        memset(blocks[i], 0xa5, size);
    }
    for (int i = 0; i < count; i++) free(blocks[i]);
}

CASE(calloc_zeroes_recycled_memory) {
    for (int round = 0; round < 2; round++)
        for (int kind = 0; kind < kind_count; kind++) {
            dirty(kinds[kind]);
            expect_zeroes(kinds[kind]);
        }
}

CASE(calloc_zeroes_memory_recycled_from_other_sizes) {
    for (int kind = 0; kind < kind_count; kind++) dirty(kinds[kind]);
    for (int kind = kind_count - 1; kind >= 0; kind--) expect_zeroes(kinds[kind]);
    for (int kind = 0; kind < kind_count; kind++) expect_zeroes(kinds[kind]);
}

CASE(calloc_zeroes_memory_that_was_purged) {
    if (malloc_trim == NULL) not_offered("malloc_trim");
    for (int kind = 0; kind < kind_count; kind++) dirty(kinds[kind]);
    malloc_trim(0);
    for (int kind = 0; kind < kind_count; kind++) expect_zeroes(kinds[kind]);
}

CASE(calloc_zeroes_memory_after_a_pause) {
    for (int kind = 0; kind < kind_count; kind++) dirty(kinds[kind]);
    sleep_ms(700);
    for (int kind = 0; kind < kind_count; kind++) dirty(kinds[kind]);
    for (int kind = 0; kind < kind_count; kind++) expect_zeroes(kinds[kind]);
}

static void expect_enomem(void *block, const char *call, size_t size) {
    CHECK(block == NULL, "%s(%zu) = %p", call, size, block);
    CHECK(errno == ENOMEM, "%s(%zu): errno %d", call, size, errno);
    errno = 0;
}

CASE(impossible_sizes_fail_with_enomem) {
    size_t half = (size_t)PTRDIFF_MAX;
    size_t sizes[] = {half, half + 1, half + 4096, SIZE_MAX - 4096, SIZE_MAX - 4095, SIZE_MAX - 64,
                      SIZE_MAX - 16, SIZE_MAX - 15, SIZE_MAX - 8, SIZE_MAX - 1, SIZE_MAX};
    errno = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = hidden(sizes[i]);
        expect_enomem(malloc(size), "malloc", size);
        expect_enomem(calloc(1, size), "calloc", size);
        expect_enomem(calloc(size, 1), "calloc", size);
        expect_enomem(realloc(NULL, size), "realloc", size);
        expect_enomem(memalign(64, size), "memalign", size);
        expect_enomem(aligned_alloc(4096, size), "aligned_alloc", size);
        expect_enomem(valloc(size), "valloc", size);
        if (pvalloc != NULL) expect_enomem(pvalloc(size), "pvalloc", size);
    }
}

CASE(more_than_the_address_space_fails_with_enomem) {
    errno = 0;
    for (int shift = 47; shift < 63; shift++) {
        size_t size = hidden((size_t)1 << shift);
        expect_enomem(malloc(size), "malloc", size);
        expect_enomem(calloc(1, size), "calloc", size);
    }
}

CASE(calloc_overflow_fails_with_enomem) {
    size_t pairs[][2] = {{SIZE_MAX / 2, 3},          {3, SIZE_MAX / 2 + 1}, {SIZE_MAX, SIZE_MAX},
                         {(size_t)1 << 32, (size_t)1 << 32}, {SIZE_MAX / 16 + 1, 16},
                         {(size_t)1 << 63, 2},       {SIZE_MAX / 24 + 1, 24}};
    errno = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t count = hidden(pairs[i][0]), size = hidden(pairs[i][1]);
        expect_enomem(calloc(count, size), "calloc", count);
        if (reallocarray == NULL) continue;
        expect_enomem(reallocarray(NULL, count, size), "reallocarray", count);
        char *block = malloc(100);
        fill(block, 100, 7);
        expect_enomem(reallocarray(block, count, size), "reallocarray", count);
        CHECK(first_difference(block, 100, 7) == 100, "the block changed");
        free(block);
    }
}

CASE(free_preserves_errno) {
    static const int codes[] = {0, EPERM, EINTR, 4000};
    for (int kind = 0; kind < kind_count; kind++)
        for (int i = 0; i < 4; i++) {
            void *block = malloc(kinds[kind]);
            memset(block, 1, kinds[kind]);
            errno = codes[i];
            free(block);
            CHECK(errno == codes[i], "errno %d became %d at %zu", codes[i], errno, kinds[kind]);
            free(NULL);
            CHECK(errno == codes[i], "free(NULL) changed errno to %d", errno);
        }
}

CASE(success_leaves_errno_alone) {
    for (int kind = 0; kind < kind_count; kind++) {
        errno = 4000;
        void *block = malloc(kinds[kind]);
        CHECK(errno == 4000, "malloc(%zu) changed errno to %d", kinds[kind], errno);
        block = realloc(block, kinds[kind] * 2);
        CHECK(errno == 4000, "realloc to %zu changed errno to %d", kinds[kind] * 2, errno);
        void *other = calloc(1, kinds[kind]);
        CHECK(errno == 4000, "calloc(%zu) changed errno to %d", kinds[kind], errno);
        malloc_usable_size(block);
        CHECK(errno == 4000, "malloc_usable_size changed errno to %d", errno);
        free(block);
        free(other);
    }
}

CASE(every_way_to_free_takes_every_block) {
    if (free_sized == NULL || free_aligned_sized == NULL || cfree == NULL)
        not_offered("free_sized, free_aligned_sized, cfree");
    for (int round = 0; round < 100; round++)
        for (int kind = 0; kind < kind_count; kind++) {
            size_t size = kinds[kind];
            if (round > 3 && size > 100000) continue;
            errno = 4000;
            free_sized(malloc(size), size);
            free_sized(calloc(1, size), size);
            free_sized(realloc(malloc(1), size), size);
            cfree(malloc(size));
            for (size_t alignment = 16; alignment <= 8192; alignment *= 2) {
                size_t whole = (size + alignment - 1) / alignment * alignment;
                free_aligned_sized(aligned_alloc(alignment, whole), alignment, whole);
            }
            CHECK(errno == 4000, "errno became %d", errno);
        }
    free_sized(NULL, 0);
    free_sized(NULL, 100);
    free_aligned_sized(NULL, 64, 128);
    cfree(NULL);
    // Freed memory is reused: a no-op would pass all of the above.
    long before = resident_kib();
    for (int i = 0; i < 200; i++) {
        char *block = malloc(1 << 20);
        memset(block, 1, 1 << 20);
        free_sized(block, 1 << 20);
        block = aligned_alloc(65536, 1 << 20);
        memset(block, 1, 1 << 20);
        free_aligned_sized(block, 65536, 1 << 20);
        block = malloc(1 << 20);
        memset(block, 1, 1 << 20);
        cfree(block);
    }
    CHECK(resident_kib() < before + 64 * 1024, "%ld -> %ld KiB", before, resident_kib());
}
