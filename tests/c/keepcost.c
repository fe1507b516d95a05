/* What is free and not given back, as the C library's call says: after much was freed, and after that went back. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without a stream, which would take a block. */
static int tell(void) {
    char text[32], byte;
    int length = snprintf(text, sizeof text, "%zu\n", mallinfo2().keepcost);
    return write(1, text, length) == length && read(0, &byte, 1) == 1;
}

int main(void) {
    static char *volatile blocks[40];
    for (int i = 0; i < 40; i++) blocks[i] = memset(malloc(500000), 1, 500000);
    for (int i = 0; i < 40; i++) free(blocks[i]);
    if (!tell()) return 1;
    malloc_trim(0);
    return !tell();
}
