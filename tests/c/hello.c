// The smallest program that proves which malloc it got: prints the file that defines it, and exits
// with the code that it was given.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    Dl_info where = {0};
    dladdr((void *)malloc, &where);
    printf("malloc of %s\n", where.dli_fname ? where.dli_fname : "nowhere");
    return argc > 1 ? atoi(argv[1]) : 0;
}
