/* A thread fills spans of 64 blocks of 1,000 bytes, in 1 KiB each. Of each 64 it frees 48 neighbours, which are twelve pages
   of the span's sixteen, and ends. Then the program gives back what it can, and waits. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 64 * 512 };

static char *blocks[BLOCKS];

static void *fill(void *unused) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(1000), 1, 1000);
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 64 >= 16) free(blocks[i]);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, fill, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    malloc_trim(0);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
