// realloc and reallocarray: content, failure, the corner cases.
#include "check.h"
#include "doors.h"

// Reallocates from one size to the next and compares the bytes that both have. Large blocks are
// compared at both ends and in every page, where moves go wrong.
static char *step(char *block, size_t from, size_t to, uint64_t seed) {
    char *moved = realloc(block, to);
    CHECK(moved != NULL, "realloc from %zu to %zu", from, to);
    CHECK((uintptr_t)moved % 16 == 0, "realloc to %zu = %p", to, (void *)moved);
    size_t kept = from < to ? from : to;
    if (kept <= 1 << 20) {
        size_t bad = first_difference(moved, kept, seed);
        CHECK(bad == kept, "from %zu to %zu: byte %zu", from, to, bad);
        return moved;
    }
    // fill() writes the 64-bit words in order, so any aligned part of it can be compared.
    char expected[64];
    for (size_t at = 0; at + 64 <= kept; at += at < 4096 || at + 8192 > kept ? 64 : 4096 - 64) {
        uint64_t word;
        for (int i = 0; i < 8; i++) {
            word = (seed * 0xd6e8feb86659fd93u + at / 8 + i) * 0x9e3779b97f4a7c15u;
            memcpy(expected + i * 8, &word, 8);
        }
        CHECK(memcmp(moved + at, expected, 64) == 0, "from %zu to %zu: near byte %zu", from, to, at);
    }
    return moved;
}

CASE(realloc_keeps_content_at_every_small_step) {
    for (size_t stride = 1; stride <= 17; stride += 4) {
        char *block = malloc(1);
        fill(block, 1, 1);
        for (size_t size = 1; size < 9000; size += stride) {
            block = step(block, size, size + stride, size);
            fill(block, size + stride, size + stride);
        }
        size_t top = malloc_usable_size(block);
        fill(block, top, 2);
        for (size_t size = top; size > stride; size -= stride) block = step(block, size, size - stride, 2);
        free(block);
    }
}

static void grow_and_shrink(double factor, size_t limit) {
    size_t sizes[200] = {1}, count = 0;
    for (double size = 1; size <= limit && count < 200; size = size * factor + 1) sizes[count++] = size;
    char *block = malloc(sizes[0]);
    fill(block, sizes[0], 0);
    for (size_t i = 1; i < count; i++) {
        block = step(block, sizes[i - 1], sizes[i], i - 1);
        fill(block, sizes[i], i);
    }
    for (size_t i = count - 1; i > 0; i--) block = step(block, sizes[i], sizes[i - 1], count - 1);
    free(block);
}

CASE(realloc_keeps_content_from_1_byte_to_64_mib_and_back) {
    grow_and_shrink(1.25, 64 << 20);
    grow_and_shrink(2, 64 << 20);
}

CASE(realloc_keeps_content_by_1_percent_steps) {
    char *block = malloc(8000);
    size_t size = 8000;
    fill(block, size, 1);
    while (size < 6 << 20) {
        size_t next = size + size / 100;
        block = step(block, size, next, size == 8000 ? 1 : size);
        size = next;
        fill(block, size, size);
    }
    fill(block, size, 3);
    while (size > 8000) {
        block = step(block, size, size - size / 100, 3);
        size -= size / 100;
    }
    free(block);
}

CASE(realloc_keeps_content_in_random_jumps_among_neighbours) {
    enum { many = 60 };
    static struct { char *block; size_t size; } live[many];
    uint64_t random = 11;
    for (int turn = 0; turn < 6000; turn++) {
        int i = random_next(&random) % many;
        size_t to = random_next(&random) % ((size_t)1 << (1 + random_next(&random) % 20)) + 1;
        if (live[i].block == NULL) {
            live[i].block = malloc(to);
            CHECK(live[i].block != NULL, "malloc(%zu)", to);
        } else {
            live[i].block = step(live[i].block, live[i].size, to, i);
        }
        live[i].size = to;
        fill(live[i].block, to, i);
    }
    for (int i = 0; i < many; i++) {
        size_t bad = first_difference(live[i].block, live[i].size, i);
        CHECK(bad == live[i].size, "block %d: byte %zu", i, bad);
        free(live[i].block);
        live[i].block = NULL;
    }
}

// Several huge blocks that grow in turn obstruct each other.
CASE(realloc_keeps_content_when_huge_neighbours_grow_in_turn) {
    enum { many = 4 };
    char *blocks[many];
    size_t size = 1 << 20;
    for (int i = 0; i < many; i++) {
        blocks[i] = malloc(size);
        fill(blocks[i], size, i);
    }
    for (; size < 20 << 20; size += size / 2)
        for (int i = 0; i < many; i++) {
            blocks[i] = step(blocks[i], size, size + size / 2, i);
            fill(blocks[i], size + size / 2, i);
        }
    for (int i = 0; i < many; i++) free(step(blocks[i], size, 100, i));
}

CASE(realloc_of_null_is_malloc) {
    for (size_t size = 0; size < 300000; size = size * 2 + 1) {
        char *block = realloc(hide(NULL), size);
        CHECK(block != NULL && (uintptr_t)block % 16 == 0, "realloc(NULL, %zu)", size);
        fill(block, size, 1);
        free(block);
    }
}

// Both answers are in use: NULL with the block freed (glibc), or a new block of size 0.
// Neither may leak, and errno stays as it was.
CASE(realloc_to_zero_frees_or_gives_an_empty_block) {
    static const size_t sizes[] = {1, 100, 5000, 70000, 2 << 20};
    long before = 0;
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < 5; i++) {
            char *block = malloc(sizes[i]);
            memset(block, 1, sizes[i]);
            errno = 4000;
            char *empty = realloc(block, hidden(0));
            CHECK(errno == 4000, "errno became %d", errno);
            if (empty != NULL) {
                char *other = malloc(0);
                CHECK(other != empty, "not its own block");
                free(other);
            }
            free(empty);
        }
        if (round == 20) before = resident_kib();
    }
    CHECK(resident_kib() < before + 16 * 1024, "%ld -> %ld KiB", before, resident_kib());
}

CASE(realloc_failure_leaves_the_block) {
    static const size_t sizes[] = {1, 100, 5000, 70000, 2 << 20};
    for (int i = 0; i < 5; i++) {
        char *block = malloc(sizes[i]);
        fill(block, sizes[i], i);
        size_t impossible[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 4096, (size_t)1 << 60};
        for (int j = 0; j < 4; j++) {
            errno = 0;
            void *moved = realloc(block, hidden(impossible[j]));
            CHECK(moved == NULL && errno == ENOMEM, "%zu: %p, errno %d", impossible[j], moved, errno);
            CHECK(first_difference(block, sizes[i], i) == sizes[i], "block of %zu changed", sizes[i]);
        }
        free(block);
    }
}

CASE(reallocarray_multiplies) {
    if (reallocarray == NULL) not_offered("reallocarray");
    char *block = reallocarray(NULL, 10, 100);
    CHECK(block != NULL && malloc_usable_size(block) >= 1000, "10 x 100");
    fill(block, 1000, 1);
    block = reallocarray(block, 1000, 100);
    CHECK(malloc_usable_size(block) >= 100000, "1000 x 100");
    CHECK(first_difference(block, 1000, 1) == 1000, "content");
    free(block);
    // Exactly at the edge of what fits in a size_t, on both sides.
    errno = 0;
    block = reallocarray(NULL, hidden(SIZE_MAX / 8 + 1), hidden(8));
    CHECK(block == NULL && errno == ENOMEM, "overflow: %p, errno %d", (void *)block, errno);
    errno = 0;
    block = reallocarray(NULL, hidden(8), hidden(SIZE_MAX / 8 + 1));
    CHECK(block == NULL && errno == ENOMEM, "overflow: %p, errno %d", (void *)block, errno);
    block = reallocarray(NULL, 0, 8);
    free(block);
}

// As a vector grows. 80 moves must take less time than 80 copies of half the block.
CASE(realloc_of_huge_blocks_moves_no_bytes) {
    size_t size = 4 << 20;
    char *block = malloc(size);
    fill(block, size, 1);
    while (size < 64 << 20) {
        block = step(block, size, size * 2, 1);
        size *= 2;
        fill(block, size, 1);
    }
    long start = now_ms();
    memcpy(block + size / 2, block, size / 2);
    long copying = now_ms() - start + 1; // half a block, into resident memory
    start = now_ms();
    for (int i = 0; i < 40; i++) {
        block = realloc(block, size + (1 << 20));
        block = realloc(block, size);
    }
    long moving = now_ms() - start;
    CHECK(moving < 80 * copying, "%ld ms for 80 moves, %ld ms for half a copy", moving, copying);
    free(block);
}
