/* Allocates some 200 MiB a second, up to 1 GiB, in blocks of all small sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    puts("ready");
    fflush(stdout);
    for (size_t sum = 0, size = 500; sum < (size_t)1 << 30; sum += size) {
        size = size > 12000 ? 500 : size + 16;
        char *block = malloc(size);
        if (block) memset(block, 1, size);
        if (sum / (1 << 20) != (sum + size) / (1 << 20)) usleep(4000);
    }
    pause();
}
