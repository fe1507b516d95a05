/* Small programs, each of which brings one situation about and stops there to be looked at.
 *
 * behaviour prefork | burst | batch | short-threads | huge-pages
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void answer(const char *verb, const char *name, size_t live) {
    char line[64];
    printf("%s %s %zu\n", verb, name, live);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(3);
}

static double clock_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Mostly small, some medium, few large. */
static size_t some_size(uint32_t *seed) {
    uint32_t kind = next(seed) % 100;
    if (kind < 80) return 16 + next(seed) % 500;
    if (kind < 99) return 512 + next(seed) % 15000;
    return 16384 + next(seed) % 300000;
}

static void *block(size_t size) {
    void *made = malloc(size);
    if (!made) abort();
    return memset(made, 0x5a, size);
}

/* A heap of `count` blocks in random sizes; returns the bytes asked for. */
static size_t fill(void **blocks, size_t count, uint32_t seed) {
    size_t live = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = some_size(&seed);
        blocks[i] = block(size);
        live += size;
    }
    return live;
}

/* ---- prefork: a server with 44 MiB of its own forks 64 workers, each of which works a little */

static void work(int number) {
    enum { KEPT = 200 };
    static void *kept[KEPT];
    uint32_t seed = 77 + number;
    for (int step = 0; step < 4000; step++) {
        uint32_t at = next(&seed) % KEPT;
        free(kept[at]);
        kept[at] = block(16 + next(&seed) % 2000);
    }
}

static void prefork(void) {
    enum { BLOCKS = 30000, WORKERS = 64 };
    static void *blocks[BLOCKS];
    static pid_t workers[WORKERS];
    size_t live = fill(blocks, BLOCKS, 1);
    for (size_t i = 0; i < BLOCKS; i += 3) free(blocks[i]);
    int ready[2];
    if (pipe(ready)) abort();
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        if (workers[i] < 0) abort();
        if (workers[i] == 0) {
            work(i);
            if (write(ready[1], "x", 1) != 1) abort();
            for (;;) pause();
        }
    }
    char byte;
    for (int i = 0; i < WORKERS; i++)
        if (read(ready[0], &byte, 1) != 1) abort();
    answer("mark", "working", live * 2 / 3);
    answer("rest", "idle", live * 2 / 3);
    for (int i = 0; i < WORKERS; i++) kill(workers[i], SIGKILL);
    for (int i = 0; i < WORKERS; i++) waitpid(workers[i], NULL, 0);
}

/* ---- burst: eight threads fill 64 MiB each, free all of it, and go to sleep */

static pthread_barrier_t filled, emptied;
static pthread_mutex_t sleepers = PTHREAD_MUTEX_INITIALIZER;
static _Atomic size_t held;

static void *one_burst(void *number) {
    enum { BLOCKS = 27000 };
    void **blocks = block(BLOCKS * sizeof *blocks);
    held += fill(blocks, BLOCKS, 100 + (uint32_t)(uintptr_t)number);
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&filled);
    for (size_t i = 0; i < BLOCKS; i++) free(blocks[i]);
    free(blocks);
    pthread_barrier_wait(&emptied);
    pthread_mutex_lock(&sleepers);
    pthread_mutex_unlock(&sleepers);
    return NULL;
}

static void burst(void) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&emptied, NULL, THREADS + 1);
    pthread_mutex_lock(&sleepers);
    double begun = clock_of(CLOCK_MONOTONIC), used = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, one_burst, (void *)i);
    pthread_barrier_wait(&filled);
    answer("mark", "peak", held);
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&emptied);
    printf("figure seconds %f\nfigure processor %f\n", clock_of(CLOCK_MONOTONIC) - begun,
           clock_of(CLOCK_PROCESS_CPUTIME_ID) - used);
    answer("mark", "freed", 0);
    answer("rest", "idle", 0);
    pthread_mutex_unlock(&sleepers);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* ---- batch: two threads, six phases; each fills some 90 MiB and frees it, then waits for its next input */

static void *one_batch(void *number) {
    enum { BLOCKS = 13000, PHASES = 6 };
    uint32_t seed = 300 + (uint32_t)(uintptr_t)number;
    for (int phase = 0; phase < PHASES; phase++) {
        void **blocks = block(BLOCKS * sizeof *blocks);
        fill(blocks, BLOCKS, seed + phase);
        void *buffers[4];
        for (int i = 0; i < 4; i++) buffers[i] = block((size_t)(1 + next(&seed) % 3) << 20);
        for (int i = 0; i < 4; i++) free(buffers[i]);
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
        free(blocks);
        nanosleep(&(struct timespec){0, 700000000}, NULL);
        pthread_barrier_wait(&filled);
        if (phase == 0) pthread_barrier_wait(&emptied);
    }
    return NULL;
}

static void batch(void) {
    enum { THREADS = 2, PHASES = 6 };
    pthread_t threads[THREADS];
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&emptied, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, one_batch, (void *)i);
    pthread_barrier_wait(&filled);
    answer("mark", "warm", 0);
    pthread_barrier_wait(&emptied);
    for (int phase = 1; phase < PHASES; phase++) pthread_barrier_wait(&filled);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    answer("mark", "done", 0);
    answer("rest", "idle", 0);
}

/* ---- short-threads: ten thousand, up to sixteen at a time; each leaves a block behind */

static void *survivors[10000];

static void *short_thread(void *number) {
    enum { BLOCKS = 60 };
    uintptr_t me = (uintptr_t)number;
    uint32_t seed = 9000 + me;
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = block(16 + next(&seed) % 3000);
    survivors[me] = block(64 + next(&seed) % 400);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return NULL;
}

static void short_threads(void) {
    enum { THREADS = 10000, TOGETHER = 16 };
    double begun = clock_of(CLOCK_MONOTONIC), used = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    for (uintptr_t first = 0; first < THREADS; first += TOGETHER) {
        pthread_t threads[TOGETHER];
        for (uintptr_t i = 0; i < TOGETHER; i++)
            if (pthread_create(&threads[i], NULL, short_thread, (void *)(first + i))) abort();
        for (int i = 0; i < TOGETHER; i++) pthread_join(threads[i], NULL);
    }
    printf("figure seconds %f\nfigure processor %f\n", clock_of(CLOCK_MONOTONIC) - begun,
           clock_of(CLOCK_PROCESS_CPUTIME_ID) - used);
    answer("mark", "joined", (size_t)THREADS * 264);
    for (int i = 0; i < THREADS; i += 2) free(survivors[i]);
    answer("rest", "idle", (size_t)THREADS * 132);
}

/* ---- huge-pages: a hundred threads with little each; then a dense heap, and half of it */

static pthread_barrier_t started;

static void *little(void *number) {
    uint32_t seed = (uint32_t)(uintptr_t)number;
    for (int i = 0; i < 60; i++) block(16 + next(&seed) % 400);
    pthread_barrier_wait(&started);
    pthread_mutex_lock(&sleepers);
    pthread_mutex_unlock(&sleepers);
    return NULL;
}

static void huge_pages(void) {
    enum { THREADS = 100, BLOCKS = 400000 };
    static void *blocks[BLOCKS];
    pthread_attr_t attributes;
    pthread_t threads[THREADS];
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_barrier_init(&started, NULL, THREADS + 1);
    pthread_mutex_lock(&sleepers);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], &attributes, little, (void *)i)) abort();
    pthread_barrier_wait(&started);
    answer("mark", "threads", (size_t)THREADS * 60 * 216);
    uint32_t seed = 5;
    size_t live = 0;
    double used = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = 16 + next(&seed) % 1000;
        blocks[i] = block(size);
        live += size;
    }
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < BLOCKS; i++) ((volatile char *)blocks[next(&seed) % BLOCKS])[0]++;
    printf("figure processor %f\n", clock_of(CLOCK_PROCESS_CPUTIME_ID) - used);
    answer("mark", "dense", live);
    for (int i = BLOCKS / 2; i < BLOCKS; i++) free(blocks[i]);
    answer("rest", "half", live / 2);
    _exit(0);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "prefork")) prefork();
    else if (!strcmp(what, "burst")) burst();
    else if (!strcmp(what, "batch")) batch();
    else if (!strcmp(what, "short-threads")) short_threads();
    else if (!strcmp(what, "huge-pages")) huge_pages();
    else {
        fprintf(stderr, "behaviour: no situation `%s`\n", what);
        return 2;
    }
    return 0;
}
