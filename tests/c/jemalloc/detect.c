// How libraries find out at run time whether the allocator is jemalloc: weak references to ten
// functions, and a counter that moves. If all hold, they call them from then on.
#include "../check.h"

#include <stdbool.h>

#define WEAK __attribute__((weak)) extern
WEAK void *mallocx(size_t, int);
WEAK void *rallocx(void *, size_t, int);
WEAK size_t xallocx(void *, size_t, size_t, int);
WEAK size_t sallocx(const void *, int);
WEAK void dallocx(void *, int);
WEAK void sdallocx(void *, size_t, int);
WEAK size_t nallocx(size_t, int);
WEAK int mallctl(const char *, void *, size_t *, void *, size_t);
WEAK int mallctlnametomib(const char *, size_t *, size_t *);
WEAK int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t);

static bool is_jemalloc(void) {
    void *found[] = {mallocx,  rallocx, xallocx, sallocx,          dallocx,
                     sdallocx, nallocx, mallctl, mallctlnametomib, mallctlbymib};
    for (int i = 0; i < 10; i++)
        if (!found[i]) return false;
    volatile uint64_t *counter;
    size_t length = sizeof counter;
    if (mallctl("thread.allocatedp", &counter, &length, NULL, 0) != 0) return false;
    if (length != sizeof counter) return false;
    uint64_t before = *counter;
    volatile void *block = malloc(1);
    if (!block) return false;
    free((void *)block);
    return before != *counter;
}

CASE(all_ten_functions_are_found_and_the_word_moves) {
    CHECK(is_jemalloc(), "not detected");
}

CASE(the_word_moves_however_busy_the_thread_was) {
    for (int i = 0; i < 1000; i++) {
        void *blocks[40];
        for (int j = 0; j < 40; j++) blocks[j] = malloc(1 + (size_t)(i * 7 + j) % 500);
        for (int j = 0; j < 40; j++) free(blocks[j]);
        CHECK(is_jemalloc(), "round %d", i);
    }
}
