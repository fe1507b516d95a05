/* Blocks in memory that the program provides itself: 100 of 100 bytes, 10 of 100,000, one of 5 MiB. With FREES the last
   one is free again. */
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <string.h>

static extent_hooks_t hooks;

static void *fill(unsigned arena, int blocks, size_t size) {
    void *block = NULL;
    for (int i = 0; i < blocks; i++) {
        block = mallocx(size, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
        if (block) memset(block, 1, size);
    }
    return block;
}

int main(void) {
    extent_hooks_t *defaults, *own = &hooks;
    unsigned arena;
    size_t pointer = sizeof defaults, number = sizeof arena;
    if (mallctl("arena.0.extent_hooks", &defaults, &pointer, NULL, 0)) return 1;
    hooks = *defaults;
    if (mallctl("arenas.create", &arena, &number, &own, sizeof own)) return 2;
    fill(arena, 100, 100);
    fill(arena, 10, 100000);
    void *last = fill(arena, 1, 5 << 20);
#ifdef FREES
    dallocx(last, 0);
#endif
    (void)last;
    puts("ready");
    fflush(stdout);
    return getchar() == 0;
}
