/* Allocates this many bytes in blocks of one size, frees every other block and allocates them
   again. Prints the most mappings that were counted at these points. The blocks are not touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char buffer[1 << 16];

static int mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    int lines = 0;
    size_t n;
    if (!file) exit(3);
    setvbuf(file, NULL, _IONBF, 0);
    while ((n = fread(buffer, 1, sizeof buffer, file)) > 0)
        for (size_t i = 0; i < n; i++) lines += buffer[i] == '\n';
    fclose(file);
    return lines;
}

static int most;

static void look(void) {
    int now = mappings();
    if (now > most) most = now;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    size_t size = strtoull(words[1], NULL, 10), n = strtoull(words[2], NULL, 10) / size;
    char **blocks = malloc(n * sizeof *blocks);
    if (!blocks) return 3;
    for (size_t i = 0; i < n; i++) {
        blocks[i] = malloc(size);
        if (!blocks[i]) return 4;
    }
    look();
    for (size_t i = 0; i < n; i += 2) free(blocks[i]);
    look();
    for (size_t i = 0; i < n; i += 2) {
        blocks[i] = malloc(size);
        if (!blocks[i]) return 4;
        memset(blocks[i], 1, 64);
    }
    look();
    for (size_t i = 0; i < n; i++) free(blocks[i]);
    look();
    printf("%d\n", most);
    return 0;
}
