// Writes a byte beyond the end of a block, which then grows: from so many bytes to so many.
#include <stdio.h>
#include <stdlib.h>

static char *volatile block;

int main(int count, char **words) {
    if (count != 3) return 2;
    size_t bytes = strtoull(words[1], NULL, 10), more = strtoull(words[2], NULL, 10);
    block = malloc(bytes);
    if (block == NULL) return 3;
    block[bytes] = 1;
    block = realloc(block, more);
    if (block == NULL) return 4;
    printf("%d\n", block[bytes]);
    free(block);
}
