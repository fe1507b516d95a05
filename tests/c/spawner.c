// Starts a program many times, alternately without and with a preloaded library, and prints the
// shortest time of each kind in nanoseconds: what a start costs when nothing disturbs it.
//
// usage: spawner COUNT LIBRARY PROGRAM
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long once(char *program, char **environment) {
    struct timespec start, end;
    char *arguments[] = {program, NULL};
    pid_t child;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (posix_spawn(&child, program, NULL, NULL, arguments, environment) != 0) _exit(2);
    if (waitpid(child, &status, 0) != child || status != 0) _exit(3);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 4) return 1;
    char preload[4096];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[2]);
    char *plain[] = {NULL}, *preloaded[] = {preload, NULL};
    long best[2] = {-1, -1};
    for (int i = 0; i < 2 * atoi(argv[1]); i++) {
        long time = once(argv[3], i % 2 ? preloaded : plain);
        if (best[i % 2] < 0 || time < best[i % 2]) best[i % 2] = time;
    }
    printf("%ld %ld\n", best[0], best[1]);
    return 0;
}
