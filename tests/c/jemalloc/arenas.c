// Arenas that a program creates: separate blocks, reset, destroyed.
#include "door.h"

#include <pthread.h>
#include <sys/wait.h>

static unsigned create(void) {
    unsigned arena;
    READ("arenas.create", &arena);
    return arena;
}

static unsigned arena_of(void *block) {
    unsigned arena;
    size_t length = sizeof arena;
    int error = mallctl("arenas.lookup", &arena, &length, &block, sizeof block);
    CHECK(error == 0, "%d", error);
    return arena;
}

CASE(blocks_lie_in_the_arena_that_was_named) {
    unsigned arena = create(), other = create(), count;
    CHECK(arena != other, "%u twice", arena);
    READ("arenas.narenas", &count);
    CHECK(arena < count && other < count, "%u of %u", arena, count);
    size_t sizes[] = {1, 100, 4096, 9000, 100000, 3 << 20};
    for (int s = 0; s < 6; s++) {
        for (int align = 0; align <= 12; align += 6) {
            int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE | MALLOCX_LG_ALIGN(align);
            void *block = mallocx(sizes[s], flags);
            CHECK(block, "%zu", sizes[s]);
            CHECK(arena_of(block) == arena, "%u, not %u", arena_of(block), arena);
            CHECK(sallocx(block, 0) >= sizes[s], "%zu", sizes[s]);
            CHECK((uintptr_t)block % ((size_t)1 << align) == 0, "%p", block);
            fill(block, sizes[s], s);
            block = rallocx(block, sizes[s] * 3, flags);
            CHECK(arena_of(block) == arena, "moved to %u", arena_of(block));
            CHECK(first_difference(block, sizes[s], s) == sizes[s], "%zu", sizes[s]);
            // Freed by plain free as well as by dallocx.
            if (s % 2) free(block);
            else dallocx(block, flags);
        }
    }
    void *plain = malloc(100);
    CHECK(arena_of(plain) != arena && arena_of(plain) != other, "%u", arena_of(plain));
    free(plain);
}

CASE(zeroed_blocks_of_an_arena_are_zero) {
    unsigned arena = create();
    for (int round = 0; round < 3; round++) {
        for (size_t size = 1; size < 5 << 20; size = size * 5 + 3) {
            int flags = MALLOCX_ARENA(arena) | MALLOCX_ZERO | MALLOCX_TCACHE_NONE;
            unsigned char *block = mallocx(size, flags);
            size_t real = sallocx(block, 0);
            CHECK(first_nonzero(block, real) == real, "%zu", size);
            memset(block, 1, real);
            block = rallocx(block, size * 2, flags);
            size_t now = sallocx(block, 0);
            if (now > real)
                CHECK(first_nonzero(block + real, now - real) == now - real, "%zu to %zu", real,
                      now);
            dallocx(block, flags);
        }
    }
}

CASE(a_reset_arena_can_be_used_again) {
    unsigned arena = create();
    char name[64];
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 500; i++) {
            unsigned char *block = mallocx(1 + (size_t)i * 37 % 30000, flags);
            CHECK(block, "%d", i);
            memset(block, 1, 1 + (size_t)i * 37 % 30000);
        }
        CHECK(act(with_number(name, "arena.", arena, ".reset")) == 0, "%u", arena);
    }
    CHECK(resident_kib() < 200 << 10, "%ld KiB", resident_kib());
}

CASE(a_pointer_to_no_block_lies_in_no_arena) {
    unsigned arena = 77, made;
    READ("arenas.create", &made);
    int own = MALLOCX_ARENA(made) | MALLOCX_TCACHE_NONE;
    char *blocks[] = {malloc(1000),       malloc(100000),       malloc(3 << 20),
                      mallocx(1000, own), mallocx(100000, own), mallocx(3 << 20, own)};
    char *pointers[9] = {(char *)&arena, (char *)8, NULL};
    for (int i = 0; i < 6; i++) pointers[3 + i] = blocks[i] + 8;
    for (int i = 0; i < 9; i++) {
        size_t length = sizeof arena;
        int error = mallctl("arenas.lookup", &arena, &length, &pointers[i], sizeof *pointers);
        // jemalloc looks up only the pages of small blocks.
        bool is_looked_up = error == 0 && arena != 77 && !is_masu();
        CHECK(error == EINVAL || is_looked_up, "pointer %d: %d, %u", i, error, arena);
    }
    for (int i = 0; i < 6; i++) {
        size_t length = sizeof arena;
        int error = mallctl("arenas.lookup", &arena, &length, &blocks[i], sizeof *blocks);
        CHECK(error == 0 && (arena == made) == (i >= 3), "block %d: %d, %u", i, error, arena);
        dallocx(blocks[i], 0);
    }
}

CASE(a_destroyed_arena_is_gone_and_its_number_free) {
    char name[64];
    unsigned arena = create(), again;
    CHECK(mallocx(100, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE), "%u", arena);
    CHECK(act(with_number(name, "arena.", arena, ".destroy")) == 0, "%u", arena);
    bool initialized = true;
    READ(with_number(name, "arena.", arena, ".initialized"), &initialized);
    CHECK(!initialized, "%u", arena);
    again = create();
    CHECK(again == arena, "%u, not %u", again, arena);
}

CASE(a_hundred_arenas_and_back) {
    unsigned arenas[100];
    char name[64];
    for (int i = 0; i < 100; i++) {
        arenas[i] = create();
        for (int j = 0; j < 50; j++)
            CHECK(mallocx(64 << (j % 5), MALLOCX_ARENA(arenas[i]) | MALLOCX_TCACHE_NONE), "%d", i);
    }
    for (int i = 0; i < 100; i++)
        CHECK(act(with_number(name, "arena.", arenas[i], ".destroy")) == 0, "%u", arenas[i]);
}

CASE(there_are_1023_arenas_at_most) {
    static unsigned made[2000];
    unsigned count = 0, largest = 0, again;
    size_t length = sizeof *made;
    int error = 0;
    while (count < 2000 && (error = mallctl("arenas.create", &made[count], &length, NULL, 0)) == 0) {
        if (made[count] > largest) largest = made[count];
        count++;
    }
    // Other cases may have left some.
    CHECK(largest == 1023 && error == EAGAIN, "%u arenas up to %u, then %d", count, largest, error);
    char name[64];
    CHECK(act(with_number(name, "arena.", made[7], ".destroy")) == 0, "%u", made[7]);
    CHECK(create() == made[7], "not the number that is free");
    CHECK(mallctl("arenas.create", &again, &length, NULL, 0) == EAGAIN, "one more");
    for (unsigned i = 0; i < count; i++)
        CHECK(act(with_number(name, "arena.", made[i], ".destroy")) == 0, "%u", made[i]);
}

CASE(the_common_memory_cannot_be_reset_or_destroyed) {
    CHECK(act("arena.0.reset") == EFAULT, "reset");
    CHECK(act("arena.0.destroy") == EFAULT, "destroyed");
    CHECK(act("arena.4096.reset") != 0, "all reset");
    CHECK(act("arena.999.reset") != 0, "reset what is not there");
    unsigned mine;
    READ("thread.arena", &mine);
    CHECK(WRITE("thread.arena", mine) == 0, "%u", mine);
    CHECK(mallocx(1, MALLOCX_ARENA(1000)) == NULL, "a block of no arena");
    char *block = mallocx(10, 0);
    block[9] = 7;
    CHECK(rallocx(block, 10000, MALLOCX_ARENA(1000)) == NULL, "moved to no arena");
    CHECK(rallocx(block, 11, MALLOCX_ARENA(1000)) == NULL, "resized in no arena");
    CHECK(block[9] == 7, "the block changed");
    dallocx(block, 0);
}

CASE(a_threads_blocks_come_from_the_arena_it_chose) {
    unsigned arena = create(), old, now, zero = 0;
    size_t length = sizeof old;
    void *before = malloc(200);
    CHECK(mallctl("thread.arena", &old, &length, &arena, sizeof arena) == 0, "%u", arena);
    READ("thread.arena", &now);
    CHECK(now == arena, "%u, not %u", now, arena);
    void *block = malloc(200), *zeroed = calloc(1, 70000), *large = mallocx(3 << 20, 0);
    CHECK(arena_of(block) == arena && arena_of(zeroed) == arena && arena_of(large) == arena,
          "%u, %u, %u", arena_of(block), arena_of(zeroed), arena_of(large));
    CHECK(arena_of(before) == old, "%u", arena_of(before));
    // A call that names arena 0 means the common memory, not the thread's arena.
    static const size_t sizes[] = {200, 70000, 3 << 20};
    for (int s = 0; s < 3; s++) {
        void *named = mallocx(sizes[s], MALLOCX_ARENA(0)), *own = malloc(sizes[s]);
        CHECK(arena_of(named) == 0 && arena_of(own) == arena, "%zu", sizes[s]);
        named = rallocx(named, sizes[s] * 3, MALLOCX_ARENA(0));
        own = rallocx(own, sizes[s] * 3, MALLOCX_ARENA(0));
        CHECK(arena_of(named) == 0 && arena_of(own) == 0, "%zu, resized", sizes[s]);
        free(named);
        free(own);
    }
    CHECK(mallctl("thread.arena", NULL, NULL, &old, sizeof old) == 0, "back to %u", old);
    void *after = malloc(200);
    CHECK(arena_of(after) == old, "%u", arena_of(after));
    free(before);
    free(block);
    free(zeroed);
    dallocx(large, 0);
    free(after);
    unsigned none = 999;
    CHECK(mallctl("thread.arena", NULL, NULL, &none, sizeof none) != 0, "an arena that is not");
    CHECK(mallctl("thread.arena", NULL, NULL, &zero, sizeof zero) == 0, "arena 0");
}

static unsigned threads_of(unsigned arena) {
    char name[64];
    unsigned threads;
    READ(with_number(name, "stats.arenas.", arena, ".nthreads"), &threads);
    return threads;
}

static void *choose(void *arena) {
    CHECK(WRITE("thread.arena", *(unsigned *)arena) == 0, "chosen");
    free(hide(malloc(100)));
    return NULL;
}

CASE(an_arena_that_a_thread_has_is_not_destroyed) {
    unsigned arena = create(), zero = 0;
    char name[64];
    with_number(name, "arena.", arena, ".destroy");
    CHECK(threads_of(arena) == 0, "%u threads", threads_of(arena));
    CHECK(WRITE("thread.arena", arena) == 0, "%u", arena);
    CHECK(threads_of(arena) == 1, "%u threads", threads_of(arena));
    CHECK(act(name) == EFAULT, "destroyed");
    free(hide(malloc(100)));
    CHECK(WRITE("thread.arena", zero) == 0, "back");
    // A thread that has ended has none.
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, choose, &arena) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(threads_of(arena) == 0, "%u threads", threads_of(arena));
    CHECK(act(name) == 0, "%u is not destroyed", arena);
}

static size_t of_arena(unsigned arena, const char *what) {
    char name[64];
    size_t value;
    sprintf(name, "stats.arenas.%u.%s", arena, what);
    READ(name, &value);
    return value;
}

// Redis does so for the arena of its scripts, and exits if a name is missing.
CASE(blocks_resized_beside_the_threads_arena_have_the_size_that_was_said) {
    unsigned arena = create(), zero = 0;
    enum { COUNT = 200 };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = mallocx(100, 0);
    CHECK(WRITE("thread.arena", arena) == 0, "%u", arena);
    // Blocks larger than those for 4000 bytes are cached.
    for (int i = 0; i < 20; i++) free(hide(malloc(4200)));
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = rallocx(blocks[i], 4000, MALLOCX_ZERO);
        size_t size = sallocx(blocks[i], 0);
        CHECK(size == nallocx(4000, 0), "%zu bytes, not %zu", size, nallocx(4000, 0));
        dallocx(blocks[i], 0);
    }
    CHECK(WRITE("thread.arena", zero) == 0, "back");
}

CASE(figures_of_an_arena_can_be_counted_through) {
    enum { COUNT = 3000, SIZE = 640 };
    unsigned arena = create(), bins;
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    uint64_t epoch = 1;
    for (int i = 0; i < COUNT; i++) CHECK(mallocx(SIZE, flags), "%d", i);
    CHECK(mallocx(3 << 20, flags), "no large block");
    CHECK(WRITE("epoch", epoch) == 0, "a new epoch");
    CHECK(of_arena(arena, "small.allocated") == COUNT * nallocx(SIZE, 0), "%zu bytes",
          of_arena(arena, "small.allocated"));
    CHECK(of_arena(arena, "large.allocated") == nallocx(3 << 20, 0), "%zu bytes",
          of_arena(arena, "large.allocated"));
    CHECK(of_arena(arena, "pactive") * 4096 >= COUNT * SIZE + (3 << 20), "%zu pages",
          of_arena(arena, "pactive"));
    size_t blocks = 0, wasted = 0;
    READ("arenas.nbins", &bins);
    for (unsigned bin = 0; bin < bins; bin++) {
        char name[64];
        uint32_t regions;
        size_t size, live, slabs;
        READ(with_number(name, "arenas.bin.", bin, ".nregs"), &regions);
        READ(with_number(name, "arenas.bin.", bin, ".size"), &size);
        sprintf(name, "bins.%u.curregs", bin);
        live = of_arena(arena, name);
        sprintf(name, "bins.%u.curslabs", bin);
        slabs = of_arena(arena, name);
        CHECK(live <= slabs * regions, "%zu of %zu in %zu slabs", live, size, slabs);
        CHECK(live == (size == nallocx(SIZE, 0) ? COUNT : 0), "%zu of %zu", live, size);
        blocks += live;
        wasted += (slabs * regions - live) * size;
    }
    CHECK(blocks == COUNT && wasted < 1 << 20, "%zu blocks, %zu wasted", blocks, wasted);
}

// So that a program may add up the arenas' figures.
CASE(arena_0_has_what_the_other_arenas_do_not) {
    enum { COUNT = 3000, SIZE = 640, LARGE = 20 << 20 };
    const char *names[] = {"small.allocated", "large.allocated", "pactive", "mapped", "resident"};
    enum { NAMES = sizeof names / sizeof *names };
    size_t before[NAMES];
    uint64_t epoch = 1;
    CHECK(WRITE("epoch", epoch) == 0, "a new epoch");
    for (int n = 0; n < NAMES; n++) before[n] = of_arena(0, names[n]);
    unsigned arenas[] = {create(), create()};
    for (int a = 0; a < 2; a++) {
        int flags = MALLOCX_ARENA(arenas[a]) | MALLOCX_TCACHE_NONE;
        for (int i = 0; i < COUNT; i++) CHECK(mallocx(SIZE, flags), "%d", i);
        void *large = mallocx(LARGE, flags);
        CHECK(large, "no large block");
        memset(large, 1, LARGE);
    }
    CHECK(WRITE("epoch", epoch) == 0, "a new epoch");
    for (int n = 0; n < NAMES; n++) {
        size_t unit = strcmp(names[n], "pactive") == 0 ? 4096 : 1;
        size_t all = of_arena(MALLCTL_ARENAS_ALL, names[n]), first = of_arena(0, names[n]);
        size_t made = of_arena(arenas[0], names[n]) + of_arena(arenas[1], names[n]);
        CHECK(made != 0 && all >= made && all - made == first, "%s: %zu, %zu and %zu", names[n],
              all, made, first);
        // Whole pages and units that the arenas' blocks take.
        CHECK(first * unit < before[n] * unit + (8 << 20), "%s: %zu, then %zu", names[n], before[n],
              first);
    }
    unsigned bin = 0, bins;
    READ("arenas.nbins", &bins);
    for (; bin < bins; bin++) {
        char name[64];
        sprintf(name, "bins.%u.curregs", bin);
        size_t all = of_arena(MALLCTL_ARENAS_ALL, name), first = of_arena(0, name);
        size_t made = of_arena(arenas[0], name) + of_arena(arenas[1], name);
        CHECK(all - made == first, "bin %u: %zu, %zu and %zu", bin, all, made, first);
    }
}

// Forks beside a working thread that has no memory of its own. The child needs arenas too.
static _Atomic int stop;
static void *with_arenas(void *unused) {
    while (!stop) {
        char name[64];
        act(with_number(name, "arena.", create(), ".destroy"));
    }
    return unused;
}

// Dumps get this name.
static int set_prefix(void) {
    const char *prefix = "/tmp/masu-prefix";
    return WRITE("prof.prefix", prefix);
}

static void *with_prefixes(void *unused) {
    while (!stop) set_prefix();
    return unused;
}

static unsigned common;
enum { BLOCKS = 2000000 };
static void **blocks;
static void *with_blocks_of_one(void *unused) {
    for (size_t i = 0; i < BLOCKS && !stop; i++) dallocx(blocks[i], 0);
    stop = 1;
    return unused;
}

static void fork_beside(void *(*work)(void *)) {
    stop = 0;
    pthread_t thread;
    int flags = MALLOCX_ARENA(common) | MALLOCX_TCACHE_NONE;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0, "thread");
    for (int n = 0; n < 200 && !stop; n++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(patience(20));
            create();
            _exit(mallocx(16, flags) == NULL || set_prefix() != 0);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork %d", n);
        CHECK(status == 0, "fork %d: status %x", n, status);
    }
    stop = 1;
    pthread_join(thread, NULL);
    // Where forks are fast and frees slow, it has blocks left, which are in no account of a case after this one.
    char name[64];
    act(with_number(name, "arena.", common, ".destroy"));
}

CASE(forks_beside_a_thread_that_only_makes_arenas) {
    common = create();
    fork_beside(with_arenas);
}

CASE(forks_beside_a_thread_that_only_names_its_profiles) {
    common = create();
    fork_beside(with_prefixes);
}

CASE(forks_beside_a_thread_that_only_frees_an_arenas_blocks) {
    common = create();
    int flags = MALLOCX_ARENA(common) | MALLOCX_TCACHE_NONE;
    blocks = malloc(BLOCKS * sizeof *blocks);
    for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mallocx(16, flags);
    fork_beside(with_blocks_of_one);
}
