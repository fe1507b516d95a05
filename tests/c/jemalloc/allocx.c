// The seven functions of the *allocx family, flag by flag.
#include "door.h"

static const size_t ALIGNS[] = {1, 2, 4, 8, 16, 32, 64, 128, 512, 4096, 65536, 2 << 20};
#define ALIGN_COUNT (sizeof ALIGNS / sizeof *ALIGNS)

static const size_t SIZES[] = {1,     8,      16,      17,      100,     1024,          1025,
                               8192,  8193,   40000,   1 << 17, 1 << 20, (1 << 20) + 1, 3 << 20,
                               12345, 999999, 5 << 20, 16 << 20};
#define SIZE_COUNT (sizeof SIZES / sizeof *SIZES)

CASE(flags_have_the_values_of_jemalloc) {
    CHECK(MALLOCX_LG_ALIGN(6) == 6, "%d", MALLOCX_LG_ALIGN(6));
    CHECK(MALLOCX_ALIGN(64) == 6, "%d", MALLOCX_ALIGN(64));
    CHECK(MALLOCX_ALIGN((size_t)1 << 35) == 35, "%d", MALLOCX_ALIGN((size_t)1 << 35));
    CHECK(MALLOCX_ZERO == 0x40, "%d", MALLOCX_ZERO);
    CHECK(MALLOCX_TCACHE(3) == 0x500, "%d", MALLOCX_TCACHE(3));
    CHECK(MALLOCX_TCACHE_NONE == 0x100, "%d", MALLOCX_TCACHE_NONE);
    CHECK(MALLOCX_ARENA(0) == 0x100000, "%d", MALLOCX_ARENA(0));
    CHECK(MALLCTL_ARENAS_ALL == 4096, "%d", MALLCTL_ARENAS_ALL);
}

CASE(mallocx_gives_what_nallocx_says_at_every_alignment) {
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        for (size_t a = 0; a < ALIGN_COUNT; a++) {
            size_t size = hidden(SIZES[s]), align = ALIGNS[a];
            int flags = MALLOCX_ALIGN(align);
            void *block = mallocx(size, flags);
            CHECK(block, "%zu at %zu", size, align);
            CHECK((uintptr_t)block % align == 0, "%p for %zu at %zu", block, size, align);
            size_t real = sallocx(block, 0);
            CHECK(real >= size, "%zu of %zu", real, size);
            CHECK(real == nallocx(size, flags), "%zu, said %zu for %zu at %zu", real,
                  nallocx(size, flags), size, align);
            CHECK(real == malloc_usable_size(block), "%zu", real);
            fill(block, real, s);
            CHECK(first_difference(block, real, s) == real, "%zu", size);
            dallocx(block, flags);
        }
    }
}

CASE(mallocx_gives_what_nallocx_says_in_bulk) {
    enum { COUNT = 300 };
    static void *blocks[COUNT];
    for (size_t size = 1; size <= 9000; size += 61) {
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = mallocx(size, 0);
            CHECK(sallocx(blocks[i], 0) == nallocx(size, 0), "%zu: %zu, said %zu", size,
                  sallocx(blocks[i], 0), nallocx(size, 0));
        }
        for (int i = 0; i < COUNT; i++) sdallocx(blocks[i], size, 0);
    }
}

CASE(zeroed_blocks_are_zero_to_their_last_usable_byte) {
    for (int round = 0; round < 3; round++) {
        for (size_t s = 0; s < SIZE_COUNT; s++) {
            for (size_t a = 0; a < ALIGN_COUNT; a++) {
                int flags = MALLOCX_ALIGN(ALIGNS[a]) | MALLOCX_ZERO;
                unsigned char *block = mallocx(SIZES[s], flags);
                size_t real = sallocx(block, 0);
                CHECK(first_nonzero(block, real) == real, "byte %zu of %zu",
                      first_nonzero(block, real), SIZES[s]);
                memset(block, 0xff, real);
                sdallocx(block, SIZES[s], flags);
            }
        }
    }
}

CASE(every_flag_of_caches_and_arenas_is_taken) {
    int flags[] = {MALLOCX_TCACHE_NONE, MALLOCX_ARENA(0), MALLOCX_ARENA(0) | MALLOCX_TCACHE_NONE,
                   MALLOCX_ARENA(0) | MALLOCX_ZERO | MALLOCX_LG_ALIGN(7)};
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
        for (size_t s = 0; s < SIZE_COUNT; s++) {
            void *block = mallocx(SIZES[s], flags[f]);
            CHECK(block, "%zu with %x", SIZES[s], flags[f]);
            block = rallocx(block, SIZES[s] * 2, flags[f]);
            CHECK(block && sallocx(block, flags[f]) >= SIZES[s] * 2, "%zu with %x", SIZES[s],
                  flags[f]);
            dallocx(block, flags[f]);
        }
    }
}

CASE(rallocx_keeps_contents_and_alignment_through_growth_and_shrinking) {
    for (size_t a = 0; a < ALIGN_COUNT; a++) {
        int flags = MALLOCX_ALIGN(ALIGNS[a]);
        unsigned char *block = mallocx(1, flags);
        fill(block, 1, 3);
        size_t had = 1;
        for (int turn = 0; turn < 2; turn++) {
            for (size_t i = 0; i < 40; i++) {
                size_t step = turn ? 39 - i : i;
                size_t size = (size_t)1 << (step / 2 + 4);
                size += step % 2 * size / 2;
                block = rallocx(block, size, flags);
                CHECK(block, "%zu", size);
                CHECK((uintptr_t)block % ALIGNS[a] == 0, "%p at %zu", (void *)block, ALIGNS[a]);
                size_t kept = had < size ? had : size, same = first_difference(block, kept, 3);
                CHECK(same == kept, "byte %zu of %zu", same, kept);
                fill(block, size, 3);
                had = size;
            }
        }
        dallocx(block, flags);
    }
}

CASE(rallocx_zeroes_beyond_the_former_usable_size_only) {
    for (size_t a = 0; a < ALIGN_COUNT; a++) {
        int flags = MALLOCX_ALIGN(ALIGNS[a]) | MALLOCX_ZERO;
        unsigned char *block = mallocx(1, flags);
        for (size_t size = 1; size < 24 << 20; size = size * 3 / 2 + 1) {
            size_t old = sallocx(block, 0);
            memset(block, 0x5a, old);
            block = rallocx(block, size, flags);
            size_t real = sallocx(block, 0);
            for (size_t i = 0; i < old && i < real; i += 97)
                CHECK(block[i] == 0x5a, "byte %zu of %zu lost", i, old);
            if (real > old)
                CHECK(first_nonzero(block + old, real - old) == real - old, "%zu to %zu", old,
                      real);
        }
        // Down and up again: what a shrunk block left behind is not zero by itself.
        memset(block, 0x5a, sallocx(block, 0));
        block = rallocx(block, 2 << 20, flags);
        size_t old = sallocx(block, 0);
        block = rallocx(block, 20 << 20, flags);
        CHECK(first_nonzero(block + old, (20 << 20) - old) == (20 << 20) - old, "%zu", ALIGNS[a]);
        dallocx(block, 0);
    }
}

CASE(rallocx_gains_an_alignment_it_did_not_have) {
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        for (size_t a = 0; a < ALIGN_COUNT; a++) {
            unsigned char *block = mallocx(SIZES[s], 0);
            fill(block, SIZES[s], 1);
            block = rallocx(block, SIZES[s], MALLOCX_ALIGN(ALIGNS[a]));
            CHECK((uintptr_t)block % ALIGNS[a] == 0, "%p", (void *)block);
            CHECK(first_difference(block, SIZES[s], 1) == SIZES[s], "%zu", SIZES[s]);
            dallocx(block, 0);
        }
    }
}

CASE(xallocx_never_moves_and_returns_the_real_size) {
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        unsigned char *block = mallocx(SIZES[s], 0);
        size_t old = sallocx(block, 0);
        fill(block, old, 2);
        size_t tries[][2] = {{SIZES[s], 0},         {old, 0},        {old + 1, 0},
                             {old * 2, 0},          {old, old},      {old, (size_t)1 << 40},
                             {old, SIZE_MAX - old}, {SIZES[s] / 2 + 1, 0}};
        for (size_t t = 0; t < sizeof tries / sizeof *tries; t++) {
            size_t before = sallocx(block, 0);
            size_t got = xallocx(block, tries[t][0], tries[t][1], 0);
            CHECK(got == sallocx(block, 0), "%zu, is %zu", got, sallocx(block, 0));
            CHECK(got >= before || got >= tries[t][0], "%zu from %zu, wanted %zu", got, before,
                  tries[t][0]);
            size_t kept = old < got ? old : got;
            CHECK(first_difference(block, kept, 2) == kept, "%zu", kept);
            old = kept;
        }
        dallocx(block, 0);
    }
}

CASE(xallocx_refuses_the_impossible_and_changes_nothing) {
    unsigned char *block = mallocx(4 << 20, 0);
    size_t real = sallocx(block, 0);
    CHECK(xallocx(block, PTRDIFF_MAX, 0, 0) == real, "%zu", real);
    CHECK(xallocx(block, (size_t)1 << 60, 0, 0) == real, "%zu", real);
    // It has what is asked for, though not more.
    CHECK(xallocx(block, 2 << 20, (size_t)1 << 60, 0) == real, "%zu", sallocx(block, 0));
    // Not as aligned as requested: nothing can be done without moving.
    unsigned char *small = mallocx(64, 0);
    while ((uintptr_t)small % 4096 == 0) small = mallocx(64, 0);
    CHECK(xallocx(small, 64, 0, MALLOCX_ALIGN(4096)) == sallocx(small, 0), "%p", (void *)small);
    dallocx(block, 0);
}

CASE(xallocx_zeroes_what_a_block_gains) {
    for (size_t start = 16 << 10; start <= 8 << 20; start *= 2) {
        unsigned char *block = mallocx(start * 2, 0);
        memset(block, 0xff, sallocx(block, 0));
        size_t small = xallocx(block, start, 0, 0);
        memset(block, 0xee, small);
        size_t large = xallocx(block, start * 2, 0, MALLOCX_ZERO);
        if (large > small)
            CHECK(first_nonzero(block + small, large - small) == large - small, "%zu to %zu", small,
                  large);
        dallocx(block, 0);
    }
}

CASE(what_is_too_big_is_refused) {
    size_t sizes[] = {(size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4095, SIZE_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        CHECK(nallocx(hidden(sizes[s]), 0) == 0, "%zu", nallocx(sizes[s], 0));
        CHECK(nallocx(hidden(sizes[s]), MALLOCX_ALIGN(64)) == 0, "%zu", sizes[s]);
        CHECK(mallocx(hidden(sizes[s]), 0) == NULL, "%zu", sizes[s]);
        CHECK(mallocx(hidden(sizes[s]), MALLOCX_ZERO | MALLOCX_ALIGN(64)) == NULL, "%zu", sizes[s]);
        unsigned char *block = mallocx(100, 0);
        fill(block, 100, 9);
        CHECK(rallocx(block, hidden(sizes[s]), 0) == NULL, "%zu", sizes[s]);
        CHECK(first_difference(block, 100, 9) == 100, "the block changed");
        dallocx(block, 0);
    }
    CHECK(nallocx(1, MALLOCX_LG_ALIGN(63)) == 0, "%zu", nallocx(1, MALLOCX_LG_ALIGN(63)));
    CHECK(mallocx(1, MALLOCX_LG_ALIGN(63)) == NULL, "a block aligned to half of all");
}

CASE(sdallocx_takes_every_size_from_asked_to_usable) {
    for (int round = 0; round < 200; round++) {
        for (size_t s = 0; s < 12; s++) {
            int flags = MALLOCX_ALIGN(ALIGNS[round % 8]);
            size_t real = nallocx(SIZES[s], flags);
            void *a = mallocx(SIZES[s], flags), *b = mallocx(SIZES[s], flags);
            sdallocx(a, SIZES[s], flags);
            sdallocx(b, real, flags);
        }
    }
}

CASE(blocks_of_either_family_are_one_kind) {
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        void *a = malloc(SIZES[s]), *b = mallocx(SIZES[s], 0);
        a = rallocx(a, SIZES[s] + 10, 0);
        b = realloc(b, SIZES[s] + 10);
        CHECK(a && b, "%zu", SIZES[s]);
        dallocx(a, 0);
        free(b);
        void *c = NULL;
        CHECK(posix_memalign(&c, 64, SIZES[s]) == 0, "%zu", SIZES[s]);
        sdallocx(c, SIZES[s], MALLOCX_ALIGN(64));
    }
}
