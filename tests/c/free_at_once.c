/* Two threads free one block at the same moment, many times, each time in a separate process. Prints how many did not
   notice. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile block;
static int ready;

static void *free_it(void *of_main) {
    void *p = block;
    __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    // At the same moment if two processors are free; on a busy machine the other thread must get one first.
    for (int i = 0; __atomic_load_n(&ready, __ATOMIC_ACQUIRE) != 2; i++)
        if (i >= 100000) sched_yield();
    free(p);
    return of_main;
}

static void race(size_t size, int owned) {
    pthread_t threads[2];
    char *around[8];
    for (int i = 0; i < 8; i++) around[i] = malloc(size);
    memset(around[3], 1, size);
    free(around[1]);
    block = around[3];
    if (pthread_create(&threads[0], NULL, free_it, NULL)) _exit(3);
    if (owned) free_it(NULL);
    else {
        if (pthread_create(&threads[1], NULL, free_it, NULL)) _exit(3);
        pthread_join(threads[1], NULL);
    }
    pthread_join(threads[0], NULL);
    _exit(0);
}

int main(int count, char **words) {
    if (count != 4) return 2;
    size_t size = strtoull(words[1], NULL, 10);
    int rounds = atoi(words[2]), owned = atoi(words[3]), unseen = 0;
    for (int i = 0; i < rounds; i++) {
        int status;
        pid_t child = fork();
        if (child < 0) return 3;
        if (child == 0) race(size, owned);
        if (waitpid(child, &status, 0) != child) return 3;
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return 3;
        unseen += WIFEXITED(status);
    }
    printf("%d\n", unseen);
    return 0;
}
