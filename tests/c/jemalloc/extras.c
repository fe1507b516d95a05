// masu/masu.h: batches, heaps, the footprint.
#include "door.h"

#include <../masu.h>

CASE(batches_come_whole_and_go_whole) {
    void *blocks[100];
    CHECK(masu_independent_calloc(100, 1000, blocks) == blocks, "no blocks");
    for (int i = 0; i < 100; i++) {
        CHECK(first_nonzero(blocks[i], 1000) == 1000, "block %d", i);
        memset(blocks[i], 1, 1000);
    }
    CHECK(masu_bulk_free(blocks, 100) == 0, "some are left");
    for (int i = 0; i < 100; i++) CHECK(!blocks[i], "%p", blocks[i]);
    size_t sizes[] = {1, 100, 10000, 1000000};
    void **array = masu_independent_comalloc(4, sizes, NULL);
    CHECK(array, "no array");
    for (int i = 0; i < 4; i++) {
        CHECK(malloc_usable_size(array[i]) >= sizes[i], "%zu", sizes[i]);
        free(array[i]);
    }
    free(array);
    size_t impossible[] = {100, PTRDIFF_MAX};
    CHECK(!masu_independent_comalloc(2, impossible, blocks) && !blocks[0], "%p", blocks[0]);
}

CASE(a_heap_is_limited_counted_and_destroyed) {
    masu_heap heap;
    CHECK(masu_heap_create(&heap) == 0, "no heap");
    CHECK(masu_heap_limit(heap) == SIZE_MAX, "%zu", masu_heap_limit(heap));
    CHECK(masu_heap_set_limit(heap, 10 << 20) == 0, "no limit");
    CHECK(masu_heap_limit(heap) == 10 << 20, "%zu", masu_heap_limit(heap));
    size_t got = 0;
    for (void *block; (block = masu_heap_malloc(heap, 100000)); got++) memset(block, 1, 100000);
    CHECK(got > 80 && got < 105, "%zu blocks of 100 kB in 10 MiB", got);
    CHECK(errno == ENOMEM, "%d", errno);
    CHECK(masu_heap_allocated(heap) <= 10 << 20 && masu_heap_allocated(heap) > 9 << 20, "%zu",
          masu_heap_allocated(heap));
    CHECK(masu_heap_reset(heap) == 0, "reset");
    CHECK(masu_heap_allocated(heap) == 0, "%zu", masu_heap_allocated(heap));
    unsigned char *zero = masu_heap_calloc(heap, 1000, 10);
    CHECK(zero && first_nonzero(zero, 10000) == 10000, "calloc");
    CHECK(!masu_heap_calloc(heap, SIZE_MAX / 2, 3), "an overflow");
    void *aligned = masu_heap_memalign(heap, 4096, 10);
    CHECK(aligned && (uintptr_t)aligned % 4096 == 0, "%p", aligned);
    CHECK(masu_heap_destroy(heap) == 0, "destroy");
}

CASE(blocks_move_into_a_heap) {
    masu_heap heap;
    CHECK(masu_heap_create(&heap) == 0, "no heap");
    unsigned char *block = malloc(5000);
    fill(block, 5000, 1);
    block = masu_heap_realloc(heap, block, 9000);
    CHECK(block && first_difference(block, 5000, 1) == 5000, "%p", (void *)block);
    CHECK(masu_heap_allocated(heap) >= 9000, "%zu", masu_heap_allocated(heap));
    free(block);
    CHECK(masu_heap_allocated(heap) == 0, "%zu", masu_heap_allocated(heap));
    CHECK(masu_heap_destroy(heap) == 0, "destroy");
}

CASE(the_footprint_follows_what_is_in_use) {
    size_t before = masu_footprint();
    void *block = malloc(100 << 20);
    memset(block, 1, 100 << 20);
    size_t during = masu_footprint();
    CHECK(during >= before + (100 << 20), "%zu to %zu", before, during);
    free(block);
    malloc_trim(0);
    CHECK(masu_footprint() < before + (10 << 20), "%zu to %zu", before, masu_footprint());
}

CASE(limits_are_read_as_they_were_set) {
    size_t soft = 1, hard = 1;
    masu_set_limits(3 << 20, (size_t)1 << 40);
    masu_get_limits(&soft, &hard);
    CHECK(soft == 3 << 20 && hard == (size_t)1 << 40, "%zu and %zu", soft, hard);
    masu_set_limits(0, 0);
    masu_get_limits(NULL, &hard);
    CHECK(hard == 0 && soft == 3 << 20, "%zu and %zu", soft, hard);
    masu_get_limits(&soft, NULL);
    CHECK(soft == 0, "%zu", soft);
}

CASE(a_block_is_resized_where_it_is_or_not_at_all) {
    unsigned char *block = malloc(1000);
    fill(block, 1000, 1);
    CHECK(masu_realloc_in_place(block, malloc_usable_size(block)) == block, "not even what it has");
    CHECK(!masu_realloc_in_place(block, 1 << 20), "a megabyte");
    CHECK(!masu_realloc_in_place(block, SIZE_MAX), "all there is");
    CHECK(!masu_realloc_in_place(NULL, 1), "of nothing");
    CHECK(first_difference(block, 1000, 1) == 1000, "contents");
    free(block);
}

CASE(a_heap_gives_back_what_is_free) {
    masu_heap heap;
    CHECK(masu_heap_create(&heap) == 0, "no heap");
    void *block = masu_heap_malloc(heap, 50 << 20);
    memset(block, 1, 50 << 20);
    size_t during = masu_footprint();
    free(block);
    CHECK(masu_heap_trim(heap) == 0, "trim");
    CHECK(masu_footprint() + (45 << 20) < during, "%zu to %zu", during, masu_footprint());
    CHECK(masu_heap_destroy(heap) == 0, "destroy");
}

struct seen {
    size_t last, blocks, bytes, large;
};

static void look(size_t size, size_t count, size_t held, void *data) {
    struct seen *seen = data;
    if (size == 0) {
        seen->large = count;
    } else {
        CHECK(size > seen->last && size * count <= held, "%zu of %zu in %zu", count, size, held);
        if (size >= 3000 && seen->last < 3000) seen->blocks = count;
        seen->last = size;
    }
    seen->bytes += size ? size * count : count;
    free(malloc(24));
}

CASE(every_class_in_use_is_inspected) {
    enum { BLOCKS = 5000 };
    static void *blocks[BLOCKS];
    struct seen before = {0}, after = {0};
    CHECK(masu_inspect_all(look, &before) == before.bytes, "%zu", before.bytes);
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(3000);
    void *large = malloc(3 << 20);
    CHECK(masu_inspect_all(look, &after) == after.bytes, "%zu", after.bytes);
    CHECK(after.blocks >= before.blocks + BLOCKS && after.blocks < before.blocks + 2 * BLOCKS,
          "%zu to %zu blocks", before.blocks, after.blocks);
    CHECK(after.large >= before.large + (3 << 20), "%zu to %zu", before.large, after.large);
    free(large);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

// jemalloc sets the new value before it refuses the old one's length.
CASE(a_wrong_length_changes_no_setting) {
    char limit[40];
    unsigned arena;
    READ("arenas.create", &arena);
    struct {
        const char *name;
        size_t size;
        uint64_t new;
    } settings[] = {{with_number(limit, "arena.", arena, ".limit"), 8, 12345},
                    {"arena.0.dss", 8, (uintptr_t)"secondary"},
                    {"prof.active", 1, 1},
                    {"thread.prof.active", 1, 0},
                    {"thread.tcache.enabled", 1, 0}};
    for (size_t n = 0; n < sizeof settings / sizeof *settings; n++) {
        const char *name = settings[n].name;
        uint64_t old = 0, now = 0;
        size_t size = settings[n].size, length = size;
        CHECK(mallctl(name, &old, &length, NULL, 0) == 0, "%s", name);
        length = 3;
        int error = mallctl(name, &now, &length, &settings[n].new, size);
        CHECK(error == EINVAL, "%s: %d", name, error);
        now = 0;
        length = size;
        CHECK(mallctl(name, &now, &length, NULL, 0) == 0, "%s", name);
        CHECK(now == old, "%s: %ld, then %ld", name, (long)old, (long)now);
        // With the right one the new value is set, and the former one is returned.
        length = size;
        error = mallctl(name, &now, &length, &settings[n].new, size);
        CHECK(error == 0 && now == old, "%s: %d, %ld", name, error, (long)now);
        CHECK(mallctl(name, &now, &length, NULL, 0) == 0 && now != old, "%s: %ld", name, (long)now);
    }
}
