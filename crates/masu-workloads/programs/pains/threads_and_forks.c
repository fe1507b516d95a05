/* Threads that are many, short or idle, and processes that fork. */
#include "pains.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t ready;

static pthread_t start(void *(*work)(void *), uintptr_t number) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    if (pthread_create(&thread, &attributes, work, (void *)number)) failed("no thread");
    return thread;
}

static void *little_and_wait(void *number) {
    uint32_t seed = (uint32_t)(uintptr_t)number;
    for (int i = 0; i < 60; i++) block(16 + next(&seed) % 400);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&ready);
    return NULL;
}

static double idle_threads(void) {
    enum { THREADS = 100 };
    double before = anonymous_mib();
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) start(little_and_wait, i);
    pthread_barrier_wait(&ready);
    return (anonymous_mib() - before) * 1024 / THREADS;
}

/* Keeps two hundred blocks and replaces them again and again. */
static _Atomic size_t live_bytes;

static void *churn_and_wait(void *number) {
    enum { KEPT = 200 };
    void *kept[KEPT] = {0};
    size_t sizes[KEPT] = {0};
    uint32_t seed = 3 + (uint32_t)(uintptr_t)number;
    for (int step = 0; step < 6000; step++) {
        uint32_t at = next(&seed) % KEPT;
        free(kept[at]);
        sizes[at] = 16 + next(&seed) % 4000;
        kept[at] = block(sizes[at]);
    }
    for (int i = 0; i < KEPT; i++) live_bytes += sizes[i];
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&ready);
    return NULL;
}

static double one_processor(void) {
    enum { THREADS = 64 };
    cpu_set_t one;
    sched_getaffinity(0, sizeof one, &one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &one) && seen++) CPU_CLR(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) start(churn_and_wait, i);
    pthread_barrier_wait(&ready);
    return anonymous_mib() / (live_bytes / 1048576.0);
}

static void *little(void *number) {
    enum { BLOCKS = 40 };
    uint32_t seed = (uint32_t)(uintptr_t)number;
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = block(16 + next(&seed) % 2000);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return NULL;
}

static double threads_that_were(void) {
    double first = 0;
    for (int i = 0; i < 20000; i += 8) {
        pthread_t some[8];
        for (int j = 0; j < 8; j++) some[j] = start(little, i + j);
        for (int j = 0; j < 8; j++) pthread_join(some[j], NULL);
        if (i == 2000) first = anonymous_mib();
    }
    return anonymous_mib() - first;
}

/* A thread makes 4 MiB and ends; another one frees them later, when two more have come. */
enum { HEAP = 2600 };
struct heap {
    void *blocks[HEAP];
};

static void *fill(void *heap) {
    struct heap *mine = heap;
    uint32_t seed = 5;
    for (int i = 0; i < HEAP; i++) mine->blocks[i] = block(64 + next(&seed) % 3000);
    return NULL;
}

static void *empty(void *heap) {
    struct heap *theirs = heap;
    for (int i = 0; i < HEAP; i++) free(theirs->blocks[i]);
    return NULL;
}

static double owners_that_were(void) {
    enum { WINDOW = 4, ROUNDS = 200 };
    static struct heap heaps[WINDOW];
    double most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct heap *heap = &heaps[round % WINDOW];
        if (round >= WINDOW) pthread_join(start(empty, (uintptr_t)heap), NULL);
        pthread_join(start(fill, (uintptr_t)heap), NULL);
        double now = round % 8 == 7 ? anonymous_mib() : 0;
        if (now > most) most = now;
    }
    return most / (WINDOW * HEAP * 1564 / 1048576.0);
}

static __attribute__((noreturn)) void *churn_for_ever(void *number) {
    uint32_t seed = (uint32_t)(uintptr_t)number;
    void *kept[50] = {0};
    for (;;) {
        uint32_t at = next(&seed) % 50;
        free(kept[at]);
        kept[at] = block(some_size(&seed));
    }
}

/* Children that are forked while eight threads are anywhere in malloc, and must not hang in it. */
static double forks_in_threads(void) {
    enum { CHILDREN = 40 };
    int wrong = 0;
    for (int i = 0; i < 8; i++) start(churn_for_ever, i);
    for (int i = 0; i < CHILDREN && !wrong; i++) {
        pid_t child = fork();
        if (child < 0) failed("no fork");
        if (child == 0) {
            alarm(10);
            uint32_t seed = i;
            for (int j = 0; j < 3000; j++) free(block(some_size(&seed)));
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    return wrong;
}

/* What a worker that is forked from a server of some size makes its own by working a little. */
static double forked_workers(void) {
    enum { WORKERS = 64, BLOCKS = 12000 };
    static void *blocks[BLOCKS];
    uint32_t seed = 1;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = block(some_size(&seed));
    for (int i = 0; i < BLOCKS; i += 3) free(blocks[i]);
    int done[2];
    pid_t workers[WORKERS];
    if (pipe(done)) failed("no pipe");
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        if (workers[i] < 0) failed("no fork");
        if (workers[i]) continue;
        uint32_t mine = i;
        void *kept[40] = {0};
        for (int j = 0; j < 400; j++) {
            uint32_t at = next(&mine) % 40;
            free(kept[at]);
            kept[at] = block(16 + next(&mine) % 2000);
        }
        if (write(done[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    double sum = 0;
    char byte;
    for (int i = 0; i < WORKERS; i++)
        if (read(done[0], &byte, 1) != 1) failed("a worker is gone");
    for (int i = 0; i < WORKERS; i++) {
        char file[64];
        snprintf(file, sizeof file, "/proc/%d/smaps_rollup", (int)workers[i]);
        sum += kib_of(file, "\nPrivate_Dirty:");
    }
    for (int i = 0; i < WORKERS; i++) kill(workers[i], SIGKILL);
    return sum / WORKERS;
}

const struct pain threads_and_forks[] = {
    {"issue_jemalloc_1674_idle_threads", "a hundred idle threads of an interpreter cost 181 to 283 MB",
     "KiB/thread", 160, idle_threads},
    {"issue_flink_266_one_processor", "caches and arenas by the host's processors, not by those allowed",
     "x live", 2.5, one_processor},
    {"issue_mimalloc_809_threads_that_were", "every thread that ends leaves something behind", "MiB", 2,
     threads_that_were},
    {"issue_mimalloc_1372_owners_that_were", "blocks whose threads ended pile up until nobody finds them",
     "x live", 2, owners_that_were},
    {"issue_redisearch_2402_forks_in_threads", "a child of a threaded process hangs in its first malloc",
     "children", 0, forks_in_threads},
    {"issue_cwist_34_forked_workers", "forked workers take twice the memory that they did", "KiB/worker", 700,
     forked_workers},
    {0},
};
