/* Locks its memory, allocates blocks of all kinds, frees half of them, and waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *blocks[3000];

int main(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        puts("refused");
        return 0;
    }
    for (int i = 0; i < 3000; i++) {
        size_t size = i % 1000 ? i % 20 ? 1000 : 100000 : 3000001;
        blocks[i] = malloc(size);
        if (blocks[i]) memset(blocks[i], 1, size);
    }
    for (int i = 0; i < 3000; i += 2) free(blocks[i]);
    puts("ready");
    fflush(stdout);
    pause();
}
