/* The first thread ends, and another one goes on: it says "ready" once it is alone, and waits for a line. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 20 << 20 };

static pthread_t first;

static void *goes_on(void *unused) {
    char *block = memset(malloc(BYTES), 1, BYTES);
    pthread_join(first, NULL);
    puts("ready");
    fflush(stdout);
    for (int i = 0; getchar() == '\n'; i++) {
        char *more = memset(malloc(BYTES), 1, BYTES);
        block[i] = more[i];
        free(more);
    }
    free(block);
    return unused;
}

int main(void) {
    pthread_t other;
    first = pthread_self();
    pthread_create(&other, NULL, goes_on, NULL);
    pthread_exit(NULL);
}
