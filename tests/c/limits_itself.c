// Takes away its own addresses before it allocates, and then allocates and frees for ever.
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void) {
    struct rlimit none = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_AS, &none) != 0) return 1;
    for (int i = 0;; i++) {
        char *block = malloc(1000);
        if (block) block[0] = 1;
        free(block);
        if (i == 1000 && write(1, "ready\n", 6) != 6) return 1;
        if (i % 1000 == 0) usleep(1000);
    }
}
