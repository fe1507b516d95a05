// Frees all blocks, has the pages go back, and writes to one of the blocks whose pages have gone. Then it allocates as
// many again.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { COUNT = 2000 };
static char *volatile blocks[COUNT];

static void allocate(size_t bytes) {
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = malloc(bytes);
        if (blocks[i] == NULL) exit(3);
    }
}

int main(int count, char **words) {
    if (count != 2) return 2;
    size_t bytes = strtoull(words[1], NULL, 10);
    allocate(bytes);
    for (int i = 0; i < COUNT; i++) memset(blocks[i], 'x', bytes);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    malloc_trim(0);
    for (int i = 0; i < COUNT; i++) {
        // The first page that begins in the block, which has more bytes than a page.
        char *page = (char *)(((uintptr_t)blocks[i] + 4095) & ~(uintptr_t)4095);
        unsigned char resident;
        if (mincore(page, 1, &resident) != 0 || (resident & 1) != 0) continue;
        *(volatile char *)page = 1;
        allocate(bytes);
        puts("not seen");
        return 0;
    }
    puts("no pages have gone back");
    return 0;
}
