/* A program whose memory is known in each step: after each it says "ready" and waits for a line. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

enum { MANY = 300 };
static _Atomic int begun;

/* A thread of many: the last ones have no heap. */
static void *one_of_many(void *number) {
    static char *some[MANY];
    free(malloc(1));
    if (number != NULL) {
        for (int i = 0; i < MANY; i++) some[i] = memset(malloc(700), 1, 700);
        for (int i = 0; i < MANY; i++) {
            if (i % 3 != 0) free(some[i]);
        }
    }
    begun++;
    for (;;) pause();
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
    pthread_attr_t small_stack;
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, 64 << 10);
    int many = 8 * (int)sysconf(_SC_NPROCESSORS_ONLN) + 4;
    for (int i = 0; i < many; i++) {
        pthread_create(&thread, &small_stack, one_of_many, i == many - 1 ? &many : NULL);
        while (begun != i + 1) usleep(100);
    }
    step(); /* 100 blocks of 768 bytes, and some that processors keep */
    return 0;
}
