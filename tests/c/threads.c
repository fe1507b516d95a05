// Blocks that cross threads: freed by others, after their thread has ended, in bulk.
#include "check.h"
#include "doors.h"

#include <pthread.h>
#include <semaphore.h>

static pthread_t start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    int code = pthread_create(&thread, NULL, body, argument);
    CHECK(code == 0, "pthread_create: %s", strerror(code));
    return thread;
}

// One block of each kind: small, medium and huge, plain and aligned.
enum { kinds = 28 };
static size_t size_of_kind(int kind) {
    static const size_t sizes[] = {1,    16,    40,    100,   200,     500,     1024,
                                   3000, 8192,  9000,  40000, 200000,  1 << 20, 3 << 20};
    return sizes[kind % 14];
}
static void *block_of_kind(int kind, uint64_t seed) {
    size_t size = size_of_kind(kind);
    void *block = kind < 14 ? malloc(size) : memalign(256, size);
    CHECK(block != NULL, "%zu bytes", size);
    fill(block, size, seed);
    return block;
}
static void check_and_free(void *block, int kind, uint64_t seed) {
    size_t size = size_of_kind(kind), bad = first_difference(block, size, seed);
    CHECK(bad == size, "byte %zu of %zu changed", bad, size);
    CHECK(malloc_usable_size(block) >= size, "usable size of %zu", size);
    free(block);
}

static void *allocate_all_kinds(void *slots) {
    void **blocks = slots;
    for (int kind = 0; kind < kinds; kind++) blocks[kind] = block_of_kind(kind, kind);
    return NULL;
}

CASE(blocks_outlive_their_thread) {
    enum { threads = 40 };
    static void *blocks[threads][kinds];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < threads; i++)
            pthread_join(start(allocate_all_kinds, blocks[i]), NULL);
        for (int kind = 0; kind < kinds; kind++)
            for (int i = 0; i < threads; i++) check_and_free(blocks[i][kind], kind, kind);
    }
}

static void *grow_all_kinds(void *slots) {
    void **blocks = slots;
    for (int kind = 0; kind < kinds; kind++) {
        size_t size = size_of_kind(kind);
        blocks[kind] = realloc(blocks[kind], size * 3);
        CHECK(blocks[kind] != NULL, "realloc to %zu", size * 3);
        CHECK(first_difference(blocks[kind], size, kind) == size, "content of %zu", size);
        blocks[kind] = realloc(blocks[kind], size);
        CHECK(first_difference(blocks[kind], size, kind) == size, "content of %zu", size);
    }
    return NULL;
}

CASE(blocks_of_a_dead_thread_can_be_reallocated_by_others) {
    static void *blocks[kinds];
    for (int round = 0; round < 20; round++) {
        pthread_join(start(allocate_all_kinds, blocks), NULL);
        pthread_join(start(grow_all_kinds, blocks), NULL);
        for (int kind = 0; kind < kinds; kind++) check_and_free(blocks[kind], kind, kind);
    }
}

// A table whose slots all threads exchange at random: which thread allocated a block has no
// influence on which thread frees it.
enum { slots = 2000, seconds = 1 };
struct cell {
    void *block;
    uint64_t seed;
    int kind;
};
static struct cell *_Atomic exchange[slots];
static _Atomic int stop;

// Puts a block of one of the first kinds into a slot, and checks and frees what was there.
static void exchange_one(uint64_t *random, int first_kinds) {
    struct cell *mine = malloc(sizeof *mine);
    mine->kind = random_next(random) % first_kinds;
    mine->seed = random_next(random);
    mine->block = block_of_kind(mine->kind, mine->seed);
    struct cell *theirs =
        __atomic_exchange_n(&exchange[random_next(random) % slots], mine, __ATOMIC_ACQ_REL);
    if (theirs == NULL) return;
    check_and_free(theirs->block, theirs->kind, theirs->seed);
    free(theirs);
}

static void *exchange_blocks(void *seed) {
    uint64_t random = (uintptr_t)seed;
    while (!stop) exchange_one(&random, random_next(&random) % 64 ? 9 : kinds);
    return NULL;
}

static void empty_the_exchange(void) {
    for (int i = 0; i < slots; i++) {
        struct cell *cell = exchange[i];
        if (cell != NULL) {
            check_and_free(cell->block, cell->kind, cell->seed);
            free(cell);
        }
        exchange[i] = NULL;
    }
}

CASE(threads_free_each_others_blocks) {
    enum { threads = 8 };
    pthread_t ids[threads];
    stop = 0;
    for (uintptr_t i = 0; i < threads; i++) ids[i] = start(exchange_blocks, (void *)(i + 1));
    sleep_ms(seconds * 1000);
    stop = 1;
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    empty_the_exchange();
}

// The same among hundreds of threads that sleep, each with a block of its own, and take part now and then.
enum { sleepers = 300 };
static sem_t turns[sleepers];
static void *take_turns(void *number) {
    uintptr_t me = (uintptr_t)number;
    uint64_t random = me + 1;
    void *kept = block_of_kind(me % 10, me);
    for (;;) {
        sem_wait(&turns[me]);
        if (stop) break;
        for (int i = 0; i < 40; i++) exchange_one(&random, 10);
        char *zeroed = calloc(1, 300);
        for (int i = 0; i < 300; i++) CHECK(zeroed[i] == 0, "byte %d of calloc", i);
        memset(zeroed, 1, 300);
        zeroed = realloc(zeroed, 700);
        for (int i = 0; i < 300; i++) CHECK(zeroed[i] == 1, "byte %d after realloc", i);
        free(zeroed);
        sem_post(&turns[random_next(&random) % sleepers]);
    }
    check_and_free(kept, me % 10, me);
    return NULL;
}

CASE(threads_that_work_in_turns_free_each_others_blocks) {
    pthread_t ids[sleepers];
    stop = 0;
    for (int i = 0; i < sleepers; i++) sem_init(&turns[i], 0, 0);
    for (uintptr_t i = 0; i < sleepers; i++) ids[i] = start(take_turns, (void *)i);
    for (int i = 0; i < 8; i++) sem_post(&turns[i * 31]);
    sleep_ms(seconds * 1000);
    stop = 1;
    for (int i = 0; i < sleepers; i++) sem_post(&turns[i]);
    for (int i = 0; i < sleepers; i++) pthread_join(ids[i], NULL);
    empty_the_exchange();
}

// The same, with threads that end and start all the time.
static void *exchange_briefly(void *seed) {
    uint64_t random = (uintptr_t)seed;
    for (int i = 0; i < 200; i++) exchange_one(&random, 10);
    return NULL;
}

CASE(short_lived_threads_free_each_others_blocks) {
    enum { threads = 8 };
    long end = now_ms() + seconds * 1000;
    uintptr_t seed = 100;
    while (now_ms() < end) {
        pthread_t ids[threads];
        for (int i = 0; i < threads; i++) ids[i] = start(exchange_briefly, (void *)seed++);
        for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    }
    empty_the_exchange();
}

// 32 kinds per thread on a stack of 16 KiB, with the libc's share of it: no function may need much
// stack.
static void *live_on_a_small_stack(void *unused) {
    (void)unused;
    void *blocks[kinds];
    for (int kind = 0; kind < kinds; kind++) blocks[kind] = block_of_kind(kind, 3);
    for (int kind = 0; kind < kinds; kind++) {
        blocks[kind] = realloc(blocks[kind], size_of_kind(kind) * 2);
        free(blocks[kind]);
        free(calloc(1, size_of_kind(kind)));
    }
    if (malloc_trim != NULL) malloc_trim(0);
    return NULL;
}

CASE(a_stack_of_16_kib_is_enough) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    // If that is too little for the C library, the smallest that it allows: 128 KiB on AArch64.
    size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN), size = least > 16384 ? least : 16384;
    CHECK(pthread_attr_setstacksize(&attributes, size) == 0, "%zu bytes are refused", size);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, live_on_a_small_stack, NULL) == 0, "thread");
        pthread_join(thread, NULL);
    }
    pthread_attr_destroy(&attributes);
}

static void *wait_for_cancellation(void *slot) {
    void *block = malloc(100);
    pthread_cleanup_push(free, block);
    void *left = malloc(5000);
    fill(left, 5000, 5);
    __atomic_store_n((void **)slot, left, __ATOMIC_RELEASE);
    for (;;) pause();
    pthread_cleanup_pop(1);
    return NULL;
}

CASE(cancelled_threads_clean_up) {
    for (int i = 0; i < 100; i++) {
        void *_Atomic left = NULL;
        pthread_t thread = start(wait_for_cancellation, (void *)&left);
        while (left == NULL) sched_yield();
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        CHECK(first_difference(left, 5000, 5) == 5000, "what it left behind changed");
        free(left);
    }
}

static void *count_down(void *counter) {
    free(malloc(3000));
    __atomic_sub_fetch((int *)counter, 1, __ATOMIC_RELEASE);
    return NULL;
}

CASE(thousands_of_detached_threads) {
    enum { threads = 3000 };
    static int left = threads;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        while (pthread_create(&thread, &attributes, count_down, &left) != 0) sleep_ms(1);
    }
    long deadline = now_ms() + 20000;
    while (__atomic_load_n(&left, __ATOMIC_ACQUIRE) > 0) {
        CHECK(now_ms() < deadline, "%d threads never ran", left);
        sleep_ms(1);
    }
    pthread_attr_destroy(&attributes);
}
