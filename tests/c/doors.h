// The parts of the libc interface that some libcs lack or no longer declare. They are weak: a case
// asks whether the allocator has them.
#ifndef MASU_TESTS_DOORS_H
#define MASU_TESTS_DOORS_H

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// glibc's parameters of mallopt; musl has none.
#ifndef M_MXFAST
#define M_MXFAST 1
#define M_TRIM_THRESHOLD -1
#define M_TOP_PAD -2
#define M_MMAP_THRESHOLD -3
#define M_MMAP_MAX -4
#define M_CHECK_ACTION -5
#define M_ARENA_TEST -7
#define M_ARENA_MAX -8
#endif

#define DOOR __attribute__((weak))

DOOR void cfree(void *block);
DOOR void free_sized(void *block, size_t size);
DOOR void free_aligned_sized(void *block, size_t alignment, size_t size);
DOOR void *pvalloc(size_t size);
DOOR void *reallocarray(void *block, size_t count, size_t size);
DOOR int malloc_trim(size_t pad);
DOOR int mallopt(int parameter, int value);
DOOR void malloc_stats(void);
DOOR int malloc_info(int options, FILE *stream);

// Laid out as in glibc; musl has no such types.
struct door_mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct door_mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
DOOR struct door_mallinfo door_mallinfo(void) __asm__("mallinfo");
DOOR struct door_mallinfo2 door_mallinfo2(void) __asm__("mallinfo2");

#ifdef __cplusplus
}
#endif
#endif
