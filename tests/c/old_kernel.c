// A program that gives the allocator every reason to ask the kernel for more than mmap: blocks that outgrow their
// place, blocks that are filled, threads that sleep on freed memory, memory to give back, a fork.
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 4, BLOCKS = 100 };

static pthread_barrier_t freed, trimmed;

// Medium blocks, which a thread keeps for its next requests.
static void *sleeper(void *number) {
    static char *blocks[THREADS][BLOCKS];
    char **mine = blocks[(intptr_t)number];
    for (int i = 0; i < BLOCKS; i++) {
        mine[i] = malloc(32 << 10);
        CHECK(mine[i] != NULL, "block %d", i);
        fill(mine[i], 32 << 10, i);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(first_difference(mine[i], 32 << 10, i) == 32 << 10, "block %d", i);
        free(mine[i]);
    }
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&trimmed);
    return NULL;
}

// One block grows while others take the space after it.
static void grow(void) {
    char *block = NULL, *others[7];
    size_t size = 2 << 20;
    for (int i = 0; i < 7; i++, size *= 2) {
        block = realloc(block, size);
        CHECK(block != NULL, "%zu bytes", size);
        if (i > 0) CHECK(first_difference(block, size / 2, i - 1) == size / 2, "lost what was in %zu bytes", size / 2);
        fill(block, size, i);
        others[i] = calloc(1, 2 << 20);
        CHECK(others[i] != NULL && first_nonzero(others[i], 2 << 20) == 2 << 20, "a zeroed block at %d", i);
        others[i][0] = 1;
    }
    free(block);
    for (int i = 0; i < 7; i++) free(others[i]);
}

static void small(void) {
    enum { count = 100000 };
    void **all = malloc(count * sizeof *all);
    for (int i = 0; i < count; i++) {
        all[i] = malloc(16 + i % 500);
        CHECK(all[i] != NULL, "block %d", i);
        memset(all[i], i, 16 + i % 500);
    }
    for (int i = 0; i < count; i++) free(all[i]);
    free(all);
}

CASE(masu_goes_on) {
    CHECK(pthread_barrier_init(&freed, NULL, THREADS + 1) == 0 && pthread_barrier_init(&trimmed, NULL, THREADS + 1) == 0,
          "barriers");
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, sleeper, (void *)i) == 0, "thread %d", (int)i);
    small();
    // Once blocks are filled, the next one is worth huge pages.
    grow();
    grow();
    pthread_barrier_wait(&freed);
    extern int malloc_trim(size_t);
    malloc_trim(0);
    pthread_barrier_wait(&trimmed);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        small();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %d", status);
    malloc_trim(0);
    long resident = resident_kib();
    CHECK(resident < 64 << 10, "%ld KiB stay", resident);
}
