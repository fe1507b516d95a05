// A small shared library that allocates on loading, when called, and on unloading.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void fill(void *block, size_t size, uint64_t seed); // from the program that loads it

static void *held;
static __thread void *last; // small thread-local storage, as real plug-ins have

__attribute__((constructor)) static void load(void) {
    held = malloc(3000);
    memset(held, 1, 3000);
}

__attribute__((destructor)) static void unload(void) {
    free(held);
    free(last);
}

void *plugin_make(size_t size) {
    free(last);
    last = strdup("a word that this thread remembers");
    free(last);
    last = NULL;
    void *block = malloc(size);
    fill(block, size, size);
    return block;
}
