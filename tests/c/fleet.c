/* A process of a fleet, with one problem that has an alert; it says "ready" and waits until it is killed. With the second
   argument "works" it works a little ten times a second; with "forks" a child waits as well. */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * KIB };

static void *filled(size_t bytes) {
    void *block = malloc(bytes);
    if (block == NULL) abort();
    return memset(block, 1, bytes);
}

/* One small block stays on each page. */
static void fragmented(void) {
    enum { BLOCKS = 200 * MIB / KIB };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = filled(KIB);
    for (int i = 0; i < BLOCKS; i++)
        if ((uintptr_t)blocks[i] % 4096 >= KIB) free(blocks[i]);
}

/* Much memory is free and does not go back: run it with a long decay time. */
static void dirty(void) {
    enum { BLOCKS = 12 };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = filled(16 * MIB);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

/* Nearly all that a limit of 64 MiB allows. */
static void full(void) {
    for (int i = 0; i < 60 * 4; i++) filled(256 * KIB);
}

/* This many MiB in blocks of 64 KiB. */
static void holds(int mib) {
    for (int i = 0; i < mib * 16; i++) filled(64 * KIB);
}

/* Blocks that live for a moment. */
static void works(void) {
    enum { BLOCKS = 64 };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = filled(KIB);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

int main(int argc, char **argv) {
    const char *trouble = argc > 1 ? argv[1] : "";
    if (strcmp(trouble, "fragmented") == 0) fragmented();
    else if (strcmp(trouble, "dirty") == 0) dirty();
    else if (strcmp(trouble, "full") == 0) full();
    else holds(atoi(trouble));
    const char *then = argc > 2 ? argv[2] : "";
    if (strcmp(then, "forks") == 0 && fork() == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    else puts("ready");
    fflush(stdout);
    /* Not `getchar`: its buffer would be allocated after "ready". */
    char byte;
    struct pollfd input = {0, POLLIN, 0};
    for (;;) {
        if (poll(&input, 1, strcmp(then, "works") == 0 ? 100 : -1) == 0) works();
        else if (read(0, &byte, 1) <= 0) break;
    }
    return 0;
}
