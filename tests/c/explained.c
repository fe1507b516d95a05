/* A program whose memory is known in each step: after each it says "ready" and waits for a line. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 10000, MEDIUM = 100, LENT = 64 };

static char *lent[LENT];

static void *lend(void *unused) {
    for (int i = 0; i < LENT; i++) lent[i] = malloc(40);
    return unused;
}

static void *wait_for_ever(void *unused) {
    lend(unused);
    static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&never);
    pthread_mutex_lock(&never);
    return unused;
}

static void step(void) {
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) exit(0);
}

int main(void) {
    static char *small[SMALL], *medium[MEDIUM];
    for (int i = 0; i < SMALL; i++) small[i] = memset(malloc(1000), 1, 1000);
    step(); /* 10,000 blocks of 1,024 bytes */
    for (int i = 0; i < SMALL; i += 2) free(small[i]);
    step(); /* half of them */
    for (int i = 0; i < MEDIUM; i++) medium[i] = memset(malloc(20 << 10), 1, 20 << 10);
    step(); /* 100 blocks of 20 KiB */
    for (int i = 0; i < MEDIUM; i++) free(medium[i]);
    step(); /* none of them */
    char *huge = memset(malloc(64 << 20), 1, 64 << 20);
    step(); /* 64 MiB */
    free(huge);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    while (!*(char *volatile *)&lent[LENT - 1]) {}
    for (int i = 0; i < 10; i++) free(lent[i]);
    step(); /* 10 blocks of 48 bytes on their way */
    return 0;
}
