// Allocates as many blocks of 1,000 bytes as its argument says, and holds them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int blocks = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < blocks; i++) {
        char *block = malloc(1000);
        if (!block) return 1;
        memset(block, 1, 1000);
    }
    puts("ready");
    fflush(stdout);
    pause();
}
