// Forks beside threads that the allocator hardly knows: one without a heap yet, and one that begins in the child.
#include "check.h"
#include "doors.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int stop;

// ---- a second thread that only frees large blocks

static _Atomic(void *) large[8];
static void *free_large(void *unused) {
    while (!stop) {
        for (int i = 0; i < 8; i++) free(__atomic_exchange_n(&large[i], NULL, __ATOMIC_ACQ_REL));
    }
    return unused;
}

CASE(forks_beside_a_thread_that_only_frees_large_blocks) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_large, NULL) == 0, "thread");
    for (int n = 0; n < 60; n++) {
        for (int i = 0; i < 8; i++) {
            if (large[i] == NULL) large[i] = memset(malloc((size_t)4 << 20), 1, (size_t)4 << 20);
        }
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            free(malloc((size_t)2 << 20));
            _exit(0);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork %d: status %x", n, status);
    }
    stop = 1;
    pthread_join(thread, NULL);
}

// ---- hundreds of threads, most of which sleep

enum { many = 200, at_work = 4 };
static sem_t sleep_until;
static _Atomic(char *) passed_on[64];
static void *sleep_on_a_block(void *unused) {
    char *block = malloc(100);
    block[0] = 1;
    sem_wait(&sleep_until);
    free(block);
    return unused;
}

static void pass_on(uint64_t *random, int times) {
    for (int i = 0; i < times; i++) {
        size_t size = 16 + random_next(random) % 3000;
        char *block = malloc(size);
        memcpy(block, &size, sizeof size);
        fill(block + sizeof size, size - sizeof size, size);
        block = __atomic_exchange_n(&passed_on[random_next(random) % 64], block, __ATOMIC_ACQ_REL);
        if (block == NULL) continue;
        memcpy(&size, block, sizeof size);
        size_t rest = size - sizeof size, bad = first_difference(block + sizeof size, rest, size);
        CHECK(bad == rest, "byte %zu of %zu changed", sizeof size + bad, size);
        free(block);
    }
}

static void *work(void *seed) {
    uint64_t random = (uintptr_t)seed;
    while (!stop) pass_on(&random, 20);
    return NULL;
}

CASE(forks_among_threads_that_work_in_turns) {
    pthread_t threads[many + at_work];
    sem_init(&sleep_until, 0, 0);
    for (uintptr_t i = 0; i < many + at_work; i++) {
        void *(*run)(void *) = i < many ? sleep_on_a_block : work;
        CHECK(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0, "thread %zu", (size_t)i);
    }
    for (int n = 0; n < 200; n++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            uint64_t random = n;
            // What the parent's threads were writing in that moment is theirs.
            for (int i = 0; i < 64; i++) passed_on[i] = NULL;
            pass_on(&random, 2000);
            _exit(0);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork %d: status %x", n, status);
    }
    stop = 1;
    for (int i = 0; i < many; i++) sem_post(&sleep_until);
    for (int i = 0; i < many + at_work; i++) pthread_join(threads[i], NULL);
}

// ---- a handler that starts a thread in the child, before the allocator's own handler runs there

// On different processors both run at once.
static void pin(pthread_t thread, int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    pthread_setaffinity_np(thread, sizeof set, &set);
}

static pthread_t restarted;
static _Atomic int restarted_runs, go_on, after;
static void *allocate_much(void *unused) {
    static __thread size_t *kept[2000];
    restarted_runs = 1;
    while (!go_on) {
    }
    for (volatile int i = 0; i < after; i++) {
    }
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < 2000; i++) {
            if (kept[i] != NULL) CHECK(*kept[i] == i, "block %zu changed", i);
            free(kept[i]);
            kept[i] = malloc(48 + (i * 7 + round) % 200);
            *kept[i] = i;
        }
    }
    return unused;
}
static void restart(void) {
    restarted_runs = go_on = 0;
    CHECK(pthread_create(&restarted, NULL, allocate_much, NULL) == 0, "thread in the child");
    pin(restarted, 1);
    while (!restarted_runs) {
    }
    go_on = 1;
}
static void *hold_a_heap(void *unused) {
    free(malloc(100));
    pause();
    return unused;
}

static pthread_barrier_t all_have_heaps;
static void *leave_a_heap(void *unused) {
    free(malloc(100));
    pthread_barrier_wait(&all_have_heaps);
    return unused;
}

CASE(a_thread_that_a_handler_starts_in_the_child_keeps_its_heap) {
    pthread_atfork(NULL, NULL, restart);
    for (int i = 0; i < 60; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, hold_a_heap, NULL) == 0, "thread");
    }
    // Heaps without a thread; the new thread gets the last of them.
    pthread_t short_lived[20];
    pthread_barrier_init(&all_have_heaps, NULL, 20);
    for (int i = 0; i < 20; i++) CHECK(pthread_create(&short_lived[i], NULL, leave_a_heap, NULL) == 0, "thread");
    for (int i = 0; i < 20; i++) pthread_join(short_lived[i], NULL);
    sleep_ms(100);
    pin(pthread_self(), 0);
    for (int n = 0; n < 100; n++) {
        after = n * 37 % 2000;
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            for (int i = 0; i < 3000; i++) *(char *)malloc(1000) = 1;
            pthread_join(restarted, NULL);
            _exit(0);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork %d: status %x", n, status);
    }
}

// ---- a handler that frees much in the child, before the allocator's own handler runs there

enum { held_size = 100000, held_count = 400 };
static char *held[held_count];
static void take_much(void) {
    for (int i = 0; i < held_count; i++) held[i] = memset(malloc(held_size), 1, held_size);
}
static void free_much(void) {
    for (int i = 0; i < held_count; i++) {
        free(held[i]);
        held[i] = NULL;
    }
}

// So much that the allocator wants a thread to give it back, which would sleep by the end of the handler.
static void free_much_and_wait(void) {
    free_much();
    sleep_ms(30);
}

CASE(a_handler_frees_much_in_the_child) {
    pthread_atfork(NULL, NULL, free_much_and_wait);
    take_much();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold_a_heap, NULL) == 0, "thread");
    sleep_ms(50);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        for (int round = 0; round < 10; round++) {
            take_much();
            free_much();
            sleep_ms(50);
            long threads = status_field("Threads:");
            CHECK(threads <= 2, "%ld threads", threads);
        }
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %x", status);
}
