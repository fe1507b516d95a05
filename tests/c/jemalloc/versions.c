/* Uses every kind of name that a program takes from an allocator: the C library's, jemalloc's, and a
 * variable of jemalloc's that programs set. Prints whose they are. */
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <string.h>

static int messages;

static void count(void *data, const char *text) {
    (void)data;
    (void)text;
    messages++;
}

int main(void) {
    const char *version = "";
    size_t length = sizeof version;
    /* Both come from one allocator: each accepts the other's blocks. */
    void *block = malloc(100);
    if (!block || sallocx(block, 0) < 100) return 1;
    dallocx(block, 0);
    block = mallocx(100, MALLOCX_ZERO);
    if (!block) return 2;
    free(block);
    if (mallctl("version", &version, &length, NULL, 0) != 0) return 3;
    /* The library uses the program's copy of the variable. */
    malloc_message = count;
    malloc_stats_print(NULL, NULL, NULL);
    if (!messages) return 4;
    puts(version);
    return 0;
}
