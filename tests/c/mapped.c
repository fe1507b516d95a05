// Which pages of a library are in memory: prints the rights and the resident kilobytes of every
// mapping of the named file, in the order of their addresses. First it allocates and frees blocks
// of many sizes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments) {
    if (count != 2) return 2;
    for (int round = 0; round < 2000; round++) {
        size_t size = round * 97 % 20000 + 1;
        char *blocks[2] = {malloc(size), calloc(1, size)};
        if (blocks[0] == NULL || blocks[1] == NULL) return 1;
        blocks[0] = realloc(blocks[0], size * 2);
        if (blocks[0] == NULL) return 1;
        blocks[0][size] = 1;
        free(blocks[round % 2]);
        if (round % 3 == 0) free(blocks[(round + 1) % 2]);
    }
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (maps == NULL) return 1;
    static char line[4096], rights[8];
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to, resident;
        char found[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, found) == 3) {
            strcpy(rights, strstr(line, arguments[1]) != NULL ? found : "");
        } else if (*rights && sscanf(line, "Rss: %lu kB", &resident) == 1) {
            printf("%s %lu\n", rights, resident);
        }
    }
    return 0;
}
