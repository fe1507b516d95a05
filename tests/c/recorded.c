// Programs for a process in which every block is recorded: mistakes with blocks of every length, and blocks still in
// use at the end.
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static char *volatile block;

__attribute__((noinline)) static char *takes(size_t size) {
    char *taken = malloc(hidden(size));
    CHECK(taken != NULL, "%zu bytes", size);
    __asm__ volatile("" ::: "memory");
    return taken;
}

__attribute__((noinline)) static void gives(char *given) {
    free(given);
    __asm__ volatile("" ::: "memory");
}

// Sizes of blocks that share slabs, have their own pages, or have mappings.
static size_t size(void) { return strtoul(getenv("BYTES"), NULL, 10); }

CASE(frees_twice) { block = takes(size()); gives(block); gives(block); }
CASE(frees_inside) { block = takes(size()); gives(block + 32); }
CASE(resizes_freed) { block = takes(size()); gives(block); gives(realloc(block, 2 * size())); }
CASE(writes_beyond) { block = takes(size()); block[size()] = 1; gives(block); }
CASE(writes_freed) {
    block = takes(size());
    gives(block);
    block[40] = 1;
    for (int i = 0; i < 100000; i++) gives(takes(size()));
}
CASE(reads_freed) { block = takes(size()); gives(block); CHECK(block[50] == 0, "never"); }
CASE(frees_the_stack) { char local[64]; block = hide(local); gives(block); }
CASE(frees_after_many) {
    block = takes(size());
    gives(block);
    for (int i = 0; i < 200; i++) gives(takes(3000));
    gives(block);
}
CASE(frees_what_moved) {
    block = takes(size());
    char *moved = realloc(block, 3 * size());
    CHECK(moved != NULL && moved != block, "it stays");
    gives(block);
}

static void *frees(void *given) { gives(given); return NULL; }
CASE(frees_in_two_threads) {
    block = takes(size());
    pthread_t thread;
    pthread_create(&thread, NULL, frees, block);
    pthread_join(thread, NULL);
    gives(block);
}

// Pointers to kept blocks, which nothing here reads.
static void *volatile kept[16];

CASE(keeps_some) {
    for (int i = 0; i < 3; i++) kept[i] = takes(1000);
    kept[3] = takes(300000);
    kept[4] = realloc(takes(20), 24);
    kept[5] = realloc(takes(20000), 70000);
    kept[6] = realloc(takes(200000), 900000);
    for (int i = 0; i < 1000; i++) gives(takes(i));
}
// The requests that fail come from another place.
CASE(keeps_one_after_a_failure) {
    void (*set_limits)(size_t, size_t) = (void (*)(size_t, size_t))dlsym(RTLD_DEFAULT, "masu_set_limits");
    CHECK(set_limits != NULL, "%s", dlerror());
    set_limits(0, 1);
    void **last = NULL, **next;
    while ((next = malloc(hidden(5000))) != NULL) {
        *next = last;
        last = next;
    }
    set_limits(0, 0);
    kept[0] = takes(100000);
    for (; last != NULL; last = next) {
        next = *last;
        free(last);
    }
}
CASE(keeps_one) { kept[0] = takes(100000); }
CASE(keeps_nothing) {
    for (int i = 0; i < 1000; i++) gives(takes(i * 300));
}
CASE(keeps_some_and_closes_all) {
    kept[0] = takes(5000);
    close(2);
    close(1);
    exit(0);
}
CASE(keeps_some_in_a_child) {
    pid_t child = fork();
    if (child == 0) {
        kept[0] = takes(1000);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "%d", status);
}
CASE(keeps_some_of_many_places) {
    // More places than are listed: one for each power of two.
    for (size_t i = 1; i <= 14; i++) kept[i] = takes(100 * i * i);
    for (size_t i = 0; i < 30; i++) hide(malloc(hidden(8 << (i % 20))));
}
