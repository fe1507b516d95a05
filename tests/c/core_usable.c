// malloc_usable_size: enough, writable, the same throughout a block's life.
#include "check.h"
#include "doors.h"

CASE(usable_size_of_null_is_zero) { CHECK(malloc_usable_size(hide(NULL)) == 0, "of NULL"); }

CASE(usable_size_covers_the_request_and_is_writable) {
    for (size_t size = 0; size <= 8 << 20; size = size < 3000 ? size + 1 : size + size / 9) {
        char *block = malloc(size);
        size_t usable = malloc_usable_size(block);
        CHECK(usable >= size, "%zu of malloc(%zu)", usable, size);
        fill(block, usable, size);
        size_t bad = first_difference(block, usable, size);
        CHECK(bad == usable, "byte %zu of malloc(%zu)", bad, size);
        free(block);
    }
}

// Every block is filled to its usable size; if two usable ranges overlapped, one
// would find the other's bytes.
CASE(usable_ranges_never_overlap) {
    enum { many = 4000 };
    static struct { char *block; size_t usable; } live[many];
    uint64_t random = 5;
    for (int i = 0; i < many; i++) {
        size_t size = random_next(&random) % (i % 50 == 0 ? 100000 : 2000);
        live[i].block = i % 4 ? malloc(size) : memalign((size_t)16 << (i % 9), size);
        live[i].usable = malloc_usable_size(live[i].block);
        fill(live[i].block, live[i].usable, i);
    }
    for (int i = 0; i < many; i++) {
        size_t bad = first_difference(live[i].block, live[i].usable, i);
        CHECK(bad == live[i].usable, "byte %zu of %zu", bad, live[i].usable);
        CHECK(malloc_usable_size(live[i].block) == live[i].usable, "block %d changed", i);
    }
    for (int i = 0; i < many; i++) free(live[i].block);
}

// The compiler's fortified string functions trust this (_FORTIFY_SOURCE=3).
CASE(usable_size_stays_the_same_while_others_come_and_go) {
    enum { many = 2000 };
    static struct { char *block; size_t usable; } live[many];
    uint64_t random = 9;
    for (int i = 0; i < many; i++) {
        live[i].block = malloc(random_next(&random) % 20000);
        live[i].usable = malloc_usable_size(live[i].block);
    }
    for (int turn = 0; turn < 20000; turn++) {
        int i = random_next(&random) % many;
        size_t usable = malloc_usable_size(live[i].block);
        CHECK(usable == live[i].usable, "%zu became %zu", live[i].usable, usable);
        if (turn % 3 == 0) {
            free(live[i].block);
            live[i].block = malloc(random_next(&random) % 20000);
            live[i].usable = malloc_usable_size(live[i].block);
        }
    }
    for (int i = 0; i < many; i++) free(live[i].block);
}

CASE(usable_size_holds_for_every_way_to_allocate) {
    for (size_t size = 1; size <= 4 << 20; size += size / 3 + 1) {
        void *blocks[8] = {0};
        blocks[0] = calloc(1, size);
        blocks[1] = realloc(NULL, size);
        blocks[2] = memalign(256, size);
        blocks[3] = aligned_alloc(64, (size + 63) / 64 * 64);
        CHECK(posix_memalign(&blocks[4], 4096, size) == 0, "posix_memalign(%zu)", size);
        blocks[5] = valloc(size);
        if (pvalloc != NULL) blocks[6] = pvalloc(size);
        blocks[7] = realloc(malloc(size / 2 + 1), size);
        for (int i = 0; i < 8; i++) {
            if (blocks[i] == NULL && i == 6) continue;
            size_t usable = malloc_usable_size(blocks[i]);
            CHECK(usable >= size, "way %d: %zu of %zu", i, usable, size);
            memset(blocks[i], i, usable);
            CHECK(malloc_usable_size(blocks[i]) == usable, "way %d changed", i);
        }
        for (int i = 0; i < 8; i++) free(blocks[i]);
    }
}

// A realloc inside the usable range keeps every byte of it, not only those asked for.
CASE(realloc_to_the_usable_size_keeps_all_of_it) {
    for (size_t size = 1; size <= 4 << 20; size += size / 5 + 1) {
        char *block = malloc(size);
        size_t usable = malloc_usable_size(block);
        fill(block, usable, size);
        block = realloc(block, usable);
        size_t bad = first_difference(block, usable, size);
        CHECK(bad == usable, "byte %zu of %zu (asked for %zu)", bad, usable, size);
        free(block);
    }
}
