/* The `program` of the documentation: threads that allocate and free. With an argument, it then keeps 32 MiB, has freed
 * as much, says "ready", and waits until its input ends. With the argument `works` it allocates and frees for a
 * minute. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *churn(void *unused) {
    void *kept[256] = {0};
    for (unsigned i = 0, random = 1; i < 100000; i++) {
        random = random * 1103515245 + 12345;
        unsigned at = random >> 24, size = 16 + (random >> 8) % 2000;
        free(kept[at]);
        kept[at] = malloc(size);
        memset(kept[at], 1, size);
    }
    for (int i = 0; i < 256; i++) free(kept[i]);
    return unused;
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "works") == 0) {
        for (time_t end = time(NULL) + 60; time(NULL) < end;) churn(NULL);
        return 0;
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, churn, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    if (count > 1) {
        enum { BLOCKS = 65536, SIZE = 1024 };
        char **blocks = malloc(BLOCKS * sizeof *blocks);
        for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(SIZE), 1, SIZE);
        for (int i = BLOCKS / 2; i < BLOCKS; i++) free(blocks[i]);
        puts("ready");
        fflush(stdout);
        getchar();
        for (int i = 0; i < BLOCKS / 2; i++) free(blocks[i]);
        free(blocks);
    }
    return 0;
}
