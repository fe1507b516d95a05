// Starts a program many times in turns, with one library preloaded and with another, and prints what a start of each kind
// takes in nanoseconds: the fifth percentile, which other work on the machine hardly moves.
//
// usage: spawner COUNT LIBRARY LIBRARY PROGRAM
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 1000

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

static int by_length(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int count = argc == 5 ? atoi(argv[1]) : 0;
    if (count < 1 || count > MOST) return 1;
    static char preload[2][4096];
    static long times[2][MOST];
    for (int kind = 0; kind < 2; kind++)
        snprintf(preload[kind], sizeof preload[kind], "LD_PRELOAD=%s", argv[2 + kind]);
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < 2; kind++)
            times[kind][i] = once(argv[4], (char *[]){preload[kind], NULL});
    for (int kind = 0; kind < 2; kind++) {
        qsort(times[kind], count, sizeof times[kind][0], by_length);
        printf("%ld\n", times[kind][count / 20]);
    }
    return 0;
}
