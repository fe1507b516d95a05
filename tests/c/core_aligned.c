// posix_memalign, aligned_alloc, memalign, valloc, pvalloc.
#include "check.h"
#include "doors.h"

static const size_t sizes[] = {0,    1,    8,     24,    63,     100,    511,    1000,
                               4095, 4096, 4097,  8192,  10000,  32768,  65535,  65536,
                               100000, 262145, 1 << 20, (1 << 20) + 1, 5 << 20};
enum { size_count = sizeof sizes / sizeof *sizes };

static int is_aligned(const void *block, size_t alignment) {
    return block != NULL && (uintptr_t)block % alignment == 0;
}

static void use(void *block, size_t size) {
    fill(block, size, size + 1);
    CHECK(first_difference(block, size, size + 1) == size, "%zu bytes at %p", size, block);
}

CASE(posix_memalign_gives_every_alignment_to_2_mib) {
    for (size_t alignment = sizeof(void *); alignment <= 2 << 20; alignment *= 2)
        for (int i = 0; i < size_count; i++) {
            void *block = NULL;
            int code = posix_memalign(&block, alignment, sizes[i]);
            CHECK(code == 0, "alignment %zu, size %zu: %d", alignment, sizes[i], code);
            CHECK(is_aligned(block, alignment), "alignment %zu: %p", alignment, block);
            use(block, sizes[i]);
            free(block);
        }
}

CASE(posix_memalign_keeps_alignment_among_many_live_blocks) {
    enum { many = 400 };
    static void *blocks[many];
    for (size_t alignment = 16; alignment <= 65536; alignment *= 2)
        for (size_t size = 1; size <= 3 * alignment; size += size / 2 + 1) {
            int count = alignment * 2 + size > 50000 ? 20 : many;
            for (int i = 0; i < count; i++) {
                CHECK(posix_memalign(&blocks[i], alignment, size) == 0, "size %zu", size);
                CHECK(is_aligned(blocks[i], alignment), "%p at %zu", blocks[i], alignment);
                memset(blocks[i], i, size);
            }
            for (int i = 0; i < count; i++) {
                unsigned char *bytes = blocks[i];
                CHECK(bytes[0] == (i & 255) && bytes[size - 1] == (i & 255), "block %d", i);
                free(blocks[i]);
            }
        }
}

CASE(posix_memalign_refuses_bad_alignments_and_leaves_the_pointer) {
    static const size_t bad[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 17, 24, 48, 100, 4095, 4097, 12288};
    char mark;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int j = 0; j < size_count; j++) {
            void *block = &mark;
            int code = posix_memalign(&block, hidden(bad[i]), sizes[j]);
            CHECK(code == EINVAL, "alignment %zu: %d", bad[i], code);
            CHECK(block == &mark, "alignment %zu wrote %p", bad[i], block);
        }
    // Not a power of two, and as large as possible.
    void *block = &mark;
    CHECK(posix_memalign(&block, hidden(SIZE_MAX), 16) == EINVAL, "SIZE_MAX");
    CHECK(block == &mark, "wrote %p", block);
}

CASE(posix_memalign_reports_enomem_and_leaves_the_pointer) {
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX};
    char mark;
    for (size_t alignment = sizeof(void *); alignment <= (size_t)1 << 30; alignment *= 8)
        for (int i = 0; i < 4; i++) {
            void *block = &mark;
            int code = posix_memalign(&block, alignment, hidden(huge[i]));
            CHECK(code == ENOMEM, "alignment %zu, size %zu: %d", alignment, huge[i], code);
            CHECK(block == &mark, "wrote %p", block);
        }
    void *block = &mark;
    size_t alignment = hidden((size_t)1 << 62);
    CHECK(posix_memalign(&block, alignment, 16) == ENOMEM && block == &mark, "alignment 2^62");
    alignment = hidden((size_t)1 << 63);
    CHECK(posix_memalign(&block, alignment, SIZE_MAX) == ENOMEM && block == &mark, "2^63");
}

CASE(aligned_alloc_takes_any_size) {
    for (size_t alignment = 1; alignment <= 2 << 20; alignment *= 2)
        for (int i = 0; i < size_count; i++) {
            void *block = aligned_alloc(alignment, sizes[i]);
            CHECK(is_aligned(block, alignment), "%zu, %zu: %p", alignment, sizes[i], block);
            use(block, sizes[i]);
            free(block);
        }
}

// C17 (7.22.3.1): "If the value of alignment is not a valid alignment ... the function shall fail".
CASE(aligned_alloc_refuses_what_is_not_a_power_of_two) {
    static const size_t bad[] = {0, 3, 5, 24, 48, 100, 4095, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        void *block = aligned_alloc(hidden(bad[i]), 100);
        CHECK(block == NULL && errno == EINVAL, "%zu: %p, errno %d", bad[i], block, errno);
    }
}

// memalign's alignment is a power of two by its manual; others are rounded up (glibc)
// or refused, but never give a block that is less aligned.
CASE(memalign_gives_every_alignment) {
    for (size_t alignment = 1; alignment <= 2 << 20; alignment *= 2)
        for (int i = 0; i < size_count; i++) {
            void *block = memalign(alignment, sizes[i]);
            CHECK(is_aligned(block, alignment), "%zu, %zu: %p", alignment, sizes[i], block);
            use(block, sizes[i]);
            free(block);
        }
    for (size_t alignment = 3; alignment < 5000; alignment = alignment * 2 + 1) {
        errno = 0;
        void *block = memalign(hidden(alignment), 100);
        size_t next = (size_t)1 << (64 - __builtin_clzl(alignment));
        if (block == NULL) CHECK(errno == EINVAL, "memalign(%zu): errno %d", alignment, errno);
        else CHECK(is_aligned(block, next), "memalign(%zu) = %p", alignment, block);
        free(block);
    }
}

CASE(valloc_and_pvalloc_give_whole_pages) {
    size_t page = sysconf(_SC_PAGESIZE);
    for (int i = 0; i < size_count; i++) {
        void *block = valloc(sizes[i]);
        CHECK(is_aligned(block, page), "valloc(%zu) = %p", sizes[i], block);
        use(block, sizes[i]);
        free(block);
        if (pvalloc == NULL) continue;
        block = pvalloc(sizes[i]);
        size_t rounded = (sizes[i] + page - 1) / page * page;
        CHECK(is_aligned(block, page), "pvalloc(%zu) = %p", sizes[i], block);
        CHECK(malloc_usable_size(block) >= rounded, "pvalloc(%zu): %zu bytes", sizes[i],
              malloc_usable_size(block));
        use(block, rounded);
        free(block);
    }
}

CASE(aligned_blocks_grow_and_shrink_like_others) {
    for (size_t alignment = 16; alignment <= 1 << 20; alignment *= 4)
        for (int i = 1; i < size_count; i++) {
            char *block = memalign(alignment, sizes[i]);
            fill(block, sizes[i], i);
            block = realloc(block, sizes[i] * 2);
            CHECK(first_difference(block, sizes[i], i) == sizes[i], "grown %zu", sizes[i]);
            block = realloc(block, sizes[i] / 2 + 1);
            size_t left = sizes[i] / 2 + 1 < sizes[i] ? sizes[i] / 2 + 1 : sizes[i];
            CHECK(first_difference(block, left, i) == left, "shrunk %zu", sizes[i]);
            free(block);
        }
}

// A recycled aligned block must not keep its special properties.
CASE(aligned_and_plain_blocks_mix) {
    enum { many = 500 };
    static void *blocks[many];
    uint64_t random = 3;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < many; i++) {
            size_t size = random_next(&random) % 6000;
            size_t alignment = (size_t)8 << random_next(&random) % 10;
            free(blocks[i]);
            blocks[i] = i % 2 ? malloc(size) : memalign(alignment, size);
            CHECK(is_aligned(blocks[i], i % 2 ? 16 : alignment), "%p", blocks[i]);
            memset(blocks[i], round, malloc_usable_size(blocks[i]));
        }
    }
    for (int i = 0; i < many; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}
