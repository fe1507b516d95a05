/* Threads with names, of which number N allocates N MiB and keeps every eighth block. They wait for the program's end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 6, BLOCKS = 1024 };

static _Atomic int ready;

static void *work(void *number) {
    long n = (long)number;
    char name[16];
    snprintf(name, sizeof name, "worker-%ld", n);
    pthread_setname_np(pthread_self(), name);
    static _Thread_local char *blocks[BLOCKS];
    for (long round = 0; round < n; round++) {
        for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(1024), 1, 1024);
        for (int i = 0; i < BLOCKS; i++) {
            if (i % 8 != 0) free(blocks[i]);
        }
    }
    ready++;
    for (;;) pause();
}

int main(void) {
    for (long n = 1; n <= THREADS; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)n) != 0) return 1;
    }
    while (ready < THREADS) usleep(1000);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
