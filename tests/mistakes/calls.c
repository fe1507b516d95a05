// Mistakes in a call: of `free`, `realloc`, `malloc_usable_size` or `delete`.
#include "mistakes.h"

static void resize(void *p, size_t n) { hide(realloc(p, n)); }
static void measure(void *p, size_t unused) { hide((void *)malloc_usable_size(p)); }

// Rows of blocks of one length: at the start of the list, after one other, after many.
static void double_free_at_once(void) {
    char *p = block_of(size);
    release(p);
    release(p);
}

static void double_free_after_one(void) {
    char *p = block_of(size), *q = block_of(size);
    release(p);
    release(q);
    release(p);
}

static void double_free_after_many(void) {
    char *p = block_of(size);
    release(p);
    for (int i = 0; i < AROUND; i += 4) {
        release(around[i]);
        around[i] = NULL;
    }
    release(p);
}

// The block was freed and other blocks have been allocated since, but not this one.
static void double_free_delayed(void) {
    char *p = block_of(size), *taken[4];
    free(p);
    for (int i = 0; i < 1024; i++) free(block_of(size == 24 ? 48 : 24));
    for (int i = 0; i < 4; i++) taken[i] = block_of(size / 2 + 1);
    for (int i = 0; i < 4; i++)
        if (taken[i] == p) _exit(2);
    release(p);
}

// The block waits among those that are ready to be handed out.
static void double_free_while_ready(void) {
    char *blocks[AROUND];
    for (int i = 0; i < AROUND; i++) blocks[i] = block_of(size);
    for (int i = 0; i < AROUND; i++) free(blocks[i]);
    char *first = block_of(size);
    for (int i = 0; i < AROUND; i++)
        if (blocks[i] != first) {
            release(blocks[i]);
            return;
        }
}

static void double_free_by_two(void) {
    char *p = block_of(size);
    elsewhere = !elsewhere;
    release(p);
    elsewhere = !elsewhere;
    release(p);
}

// Two threads free the same blocks at the same time; now and then both look before either has freed.
static void *racing[1024];
static pthread_barrier_t line;
static void *race(void *unused) {
    for (int i = 0; i < 1024; i++) {
        if (i % 64 == 0) pthread_barrier_wait(&line);
        free(racing[i]);
    }
    return unused;
}
static void double_free_in_a_race(void) {
    pthread_t threads[2];
    int n = size > 100000 ? 64 : 1024;
    for (int i = 0; i < n; i++) racing[i] = block_of(size);
    pthread_barrier_init(&line, NULL, 2);
    for (int i = 0; i < 2; i++) if (pthread_create(&threads[i], NULL, race, NULL) != 0) _exit(3);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    go_on();
}

static void double_free_by_realloc(void) {
    char *p = block_of(size);
    release(p);
    use(resize, p, 0);
}

static void free_by_1(void) { release(block_of(size) + 1); }
static void free_by_8(void) { release(block_of(size) + 8); }
static void free_by_16(void) { release(block_of(size) + 16); }
static void free_in_middle(void) { release(block_of(size) + size / 32 * 16); }
static void free_close(void) { release(block_of(size) + 4096); }
static void free_far(void) { release(block_of(size) + (1 << 30)); }
static void free_one(void) { release((void *)1); }
static void free_wild(void) { release((void *)(uintptr_t)0xdeadbeefdeadbee0); }
static void free_on_stack(void) {
    char local[256];
    release((char *)(((uintptr_t)local + 15) & ~(uintptr_t)15));
}
static void free_by_alloca(void) { release(__builtin_alloca(size > 100000 ? 100000 : size + 16)); }
static void *lend_stack(void *place) {
    char local[256] __attribute__((aligned(16)));
    *(void *volatile *)place = local;
    for (;;) pause();
}
static void free_on_another_stack(void) {
    pthread_t thread;
    void *volatile place = NULL;
    if (pthread_create(&thread, NULL, lend_stack, (void *)&place) != 0) _exit(3);
    while (!place) usleep(100);
    free(hide(place));
}
static void free_global(void) {
    static char global[256] __attribute__((aligned(16)));
    release(global);
}
static void free_text(void) { release((void *)(uintptr_t)"a constant"); }
static void free_mapped(void) {
    release((char *)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096);
}
// A hole that is too short for another thread's stack.
static void free_unmapped(void) {
    char *p = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p + 4096, 8192);
    release(p + 8192);
}

static void realloc_after_free(void) {
    char *p = block_of(size);
    release(p);
    use(resize, p, size);
}
static void realloc_longer_after_free(void) {
    char *p = block_of(size);
    release(p);
    use(resize, p, size * 3);
}
static void realloc_inside(void) { use(resize, block_of(size) + 16, size); }
static void realloc_global(void) {
    static char global[256] __attribute__((aligned(16)));
    use(resize, global, 300);
}
static void size_after_free(void) {
    char *p = block_of(size);
    release(p);
    use(measure, p, 0);
}
static void size_inside(void) { use(measure, block_of(size) + 16, 0); }

static void realloc_twice(void) {
    char *p = block_of(size);
    release_by(resize, p, size * 3);
    use(resize, p, size * 5);
}

static void delete_too_large(void) { release_by(sized_delete, cxx_new(size), size * 3 + 4096); }
static void delete_too_small(void) { release_by(sized_delete, cxx_new(size), size / 4); }

const struct mistake calls[] = {
    CASE(double_free_at_once, SEEN | FREED),
    CASE(double_free_after_one, SEEN | FREED),
    CASE(double_free_after_many, SEEN | FREED),
    CASE(double_free_delayed, SOME | FREED),
    CASE(double_free_while_ready, SEEN | FREED),
    CASE(double_free_by_two, SEEN | FREED),
    CASE(double_free_in_a_race, 0),
    CASE(double_free_by_realloc, SEEN | FREED | USED),
    CASE(free_by_1, SEEN | FREED),
    CASE(free_by_8, SEEN | FREED),
    CASE(free_by_16, SOME | FREED),
    CASE(free_in_middle, SOME | FREED),
    CASE(free_close, FREED),
    CASE(free_far, SEEN | FREED),
    CASE(free_one, SEEN | FREED),
    CASE(free_wild, SEEN | FREED),
    CASE(free_on_stack, SEEN | FREED),
    CASE(free_by_alloca, SEEN | FREED),
    CASE(free_on_another_stack, SEEN),
    CASE(free_global, SEEN | FREED),
    CASE(free_text, SEEN | FREED),
    CASE(free_mapped, SEEN | FREED),
    CASE(free_unmapped, SEEN | FREED),
    CASE(realloc_after_free, SEEN | FREED | USED),
    CASE(realloc_longer_after_free, SEEN | FREED | USED),
    CASE(realloc_inside, SOME | USED),
    CASE(realloc_global, SEEN | USED),
    CASE(realloc_twice, HARD | FREED | USED),
    CASE(size_after_free, SEEN | FREED | USED),
    CASE(size_inside, SOME | USED),
    CASE(delete_too_large, SEEN | FREED),
    CASE(delete_too_small, SOME | FREED),
    {0},
};
