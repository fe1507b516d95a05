// Blocks and alignments up to 1 GiB. Not in the core, which must also pass where address space is
// scarce.
#include "check.h"
#include "doors.h"

CASE(sizes_up_to_1_gib_are_usable_at_both_ends) {
    for (size_t size = 16 << 20; size <= (size_t)1 << 30; size += size / 3) {
        for (int delta = -1; delta <= 1; delta++) {
            size_t exact = size + delta;
            char *block = malloc(exact);
            CHECK(block != NULL, "malloc(%zu)", exact);
            CHECK((uintptr_t)block % 16 == 0, "malloc(%zu) = %p", exact, (void *)block);
            CHECK(malloc_usable_size(block) >= exact, "usable size of %zu", exact);
            block[0] = block[exact / 2] = block[exact - 1] = 1;
            free(block);
        }
        char *zeroes = calloc(size, 1);
        CHECK(zeroes != NULL, "calloc(%zu)", size);
        for (size_t at = 0; at < size; at += size / 50)
            CHECK(zeroes[at] == 0, "calloc(%zu): byte %zu", size, at);
        free(zeroes);
    }
}

CASE(alignments_up_to_1_gib) {
    static const size_t sizes[] = {1, 4096, 100000, 3 << 20, 64 << 20};
    for (size_t alignment = 4 << 20; alignment <= (size_t)1 << 30; alignment *= 2)
        for (int i = 0; i < 5; i++) {
            char *block = NULL;
            int code = posix_memalign((void **)&block, alignment, sizes[i]);
            CHECK(code == 0, "alignment %zu, size %zu: %d", alignment, sizes[i], code);
            CHECK((uintptr_t)block % alignment == 0, "alignment %zu: %p", alignment, (void *)block);
            block[0] = block[sizes[i] - 1] = 1;
            free(block);
            block = aligned_alloc(alignment, alignment);
            CHECK(block != NULL && (uintptr_t)block % alignment == 0, "aligned_alloc: %p", (void *)block);
            block[0] = block[alignment - 1] = 1;
            free(block);
        }
}

CASE(a_block_of_1_gib_grows_and_shrinks) {
    size_t size = (size_t)1 << 30;
    char *block = malloc(size);
    fill(block, 4096, 1);
    fill(block + size - 4096, 4096, 2);
    block = realloc(block, size + size / 2);
    CHECK(block != NULL, "realloc");
    CHECK(first_difference(block, 4096, 1) == 4096, "head");
    CHECK(first_difference(block + size - 4096, 4096, 2) == 4096, "tail");
    block = realloc(block, 4096);
    CHECK(first_difference(block, 4096, 1) == 4096, "head");
    free(block);
}

CASE(many_blocks_of_64_mib_live_at_once) {
    enum { many = 100 };
    static char *blocks[many];
    for (int i = 0; i < many; i++) {
        blocks[i] = malloc(64 << 20);
        CHECK(blocks[i] != NULL, "block %d", i);
        blocks[i][0] = blocks[i][(64 << 20) - 1] = i;
    }
    for (int i = 0; i < many; i++) {
        CHECK(blocks[i][0] == i && blocks[i][(64 << 20) - 1] == i, "block %d", i);
        free(blocks[i]);
    }
}
