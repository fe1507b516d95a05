/* Memory that is free and stays, and memory that is full of holes. */
#include "pains.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Threads that work, then sleep in the kernel, where no decay can reach them. */
enum { SLEEPERS = 16 };
static pthread_barrier_t worked;
static size_t to_fill;
static int of_one_size;

static void *fill_free_sleep(void *number) {
    uint32_t seed = (uint32_t)(uintptr_t)number;
    size_t many = to_fill / (of_one_size ? 4096 : 1500) + 1, held = 0, count = 0;
    void **blocks = block(many * sizeof *blocks);
    while (held < to_fill && count < many) {
        size_t size = of_one_size ? 4096 : some_size(&seed);
        blocks[count++] = block(size);
        held += size;
    }
    while (count) free(blocks[--count]);
    free(blocks);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&worked);
    return NULL;
}

static double sleepers(size_t bytes, int fixed, double limit) {
    to_fill = bytes / SLEEPERS;
    of_one_size = fixed;
    pthread_barrier_init(&worked, NULL, SLEEPERS + 1);
    for (uintptr_t i = 0; i < SLEEPERS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill_free_sleep, (void *)i)) failed("no thread");
    }
    pthread_barrier_wait(&worked);
    return anonymous_after_rest(limit);
}

static double idle_decay(void) { return sleepers(512 << 20, 0, 32); }

static double pool_threads(void) { return sleepers(256 << 20, 1, 40); }

static double lazy_free(void) {
    sleepers(512 << 20, 0, 32);
    return kib_of("/proc/self/smaps_rollup", "\nLazyFree:") / 1024.0;
}

/* One thread, which frees what it had and waits. */
static double idle_process(void) {
    enum { BLOCKS = 120000 };
    static void *blocks[BLOCKS];
    uint32_t seed = 7;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = block(some_size(&seed));
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return anonymous_after_rest(16);
}

/* What a service does on a timer, from Python by ctypes. */
static double trim(void) {
    enum { BLOCKS = 60000 };
    static void *blocks[BLOCKS];
    uint32_t seed = 7;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = block(some_size(&seed));
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    malloc_trim(0);
    return anonymous_mib();
}

/* Ten threads of an interpreter: one runs at a time, for ten strings. What they drop is garbage, which is
 * freed by whoever runs when there is enough of it. Every tenth string stays. */
enum { INTERPRETED = 10, STRINGS = 100, REQUESTS = 100, GARBAGE = 16 << 20 };
static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turns = PTHREAD_COND_INITIALIZER;
static unsigned turn;
static size_t kept_bytes, garbage_bytes, garbage_count;
static void *garbage[INTERPRETED * STRINGS * REQUESTS];

static void collect(void) {
    while (garbage_count) free(garbage[--garbage_count]);
    garbage_bytes = 0;
}

static void *requests(void *number) {
    unsigned mine = (unsigned)(uintptr_t)number;
    uint32_t seed = 11 + mine;
    pthread_mutex_lock(&interpreter);
    for (int i = 0; i < REQUESTS * STRINGS; i++) {
        if (i % 10 == 0) {
            while (turn % INTERPRETED != mine) pthread_cond_wait(&turns, &interpreter);
        }
        size_t size = 97 + 10 * (next(&seed) % 4000);
        void *string = block(size);
        if (next(&seed) % 10 == 0) {
            kept_bytes += size;
        } else {
            garbage[garbage_count++] = string;
            garbage_bytes += size;
        }
        if (garbage_bytes > GARBAGE) collect();
        if (i % 10 == 9) {
            turn++;
            pthread_cond_broadcast(&turns);
        }
    }
    pthread_mutex_unlock(&interpreter);
    return NULL;
}

static double fragmentation(void) {
    pthread_t threads[INTERPRETED];
    double before = anonymous_mib();
    for (uintptr_t i = 0; i < INTERPRETED; i++)
        if (pthread_create(&threads[i], NULL, requests, (void *)i)) failed("no thread");
    for (int i = 0; i < INTERPRETED; i++) pthread_join(threads[i], NULL);
    collect();
    double live = kept_bytes / 1048576.0;
    return (anonymous_after_rest(before + live * 1.3) - before) / live;
}

/* A batch of 4 KiB blocks, freed in turn: at its end nothing should go back only to be fetched again. */
static double page_faults(void) {
    enum { BATCH = 100, BATCHES = 2000 };
    void *blocks[BATCH];
    struct rusage before, after;
    for (int batch = 0; batch < BATCHES + 200; batch++) {
        if (batch == 200) getrusage(RUSAGE_SELF, &before);
        for (int i = 0; i < BATCH; i++) blocks[i] = block(4096);
        for (int i = BATCH; i--;) free(blocks[i]);
    }
    getrusage(RUSAGE_SELF, &after);
    return (double)(after.ru_minflt - before.ru_minflt) / BATCHES;
}

/* A buffer that grows needs its old pages and its new ones, not both twice. */
static double growing_buffer(void) {
    size_t size = 64 << 20, most = 512 << 20;
    char *buffer = block(size);
    while (size < most) {
        size_t larger = size + size / 2 < most ? size + size / 2 : most;
        buffer = realloc(buffer, larger);
        if (!buffer) failed("no memory");
        for (; size < larger; size += 4096) buffer[size < larger ? size : larger - 1] = 1;
        size = larger;
    }
    double peak = kib_of("/proc/self/status", "\nVmHWM:") / 1024.0;
    free(buffer);
    return peak / (most >> 20);
}

const struct pain going_back[] = {
    {"issue_jemalloc_2688_idle_decay",
     "decay only advances on later calls: a process that waits keeps its peak", "MiB", 32, idle_decay},
    {"issue_mimalloc_333_idle_process", "a process that freed its memory still has it a day later", "MiB", 16,
     idle_process},
    {"issue_mimalloc_351_pool_threads",
     "each thread of a pool keeps what it freed, for good", "MiB", 40, pool_threads},
    {"issue_snmalloc_846_lazy_free",
     "freed memory still counts as resident, as it was only offered to the kernel", "MiB", 1, lazy_free},
    {"issue_hypha_976_trim",
     "malloc_trim(0), called on timers, gives nothing back under a replaced malloc", "MiB", 16, trim},
    {"bug_ruby_14718_fragmentation",
     "threads of an interpreter keep every tenth string: memory is a multiple of what lives", "x live", 1.5,
     fragmentation},
    {"issue_rust_31885_page_faults",
     "memory goes back at the end of every batch and is fetched again", "faults/batch", 1, page_faults},
    {"issue_mimalloc_693_growing_buffer",
     "a large realloc copies, so that old and new are resident at once", "x size", 1.1, growing_buffer},
    {0},
};
