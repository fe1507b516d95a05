// A program with a separate allocator beside the C library's: blocks of one are unknown to the
// other, and both work. Built twice, with two prefixes, it has three allocators.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include PRIVATE_HEADER

const char *je_malloc_conf = "dirty_decay_ms:333";

#ifdef SECOND
int second(void);
#endif

int ENTRY(void) {
    void *blocks[2000];
    for (int i = 0; i < 2000; i++) {
        size_t size = 1 + (size_t)i * 97 % 50000;
        blocks[i] = i % 2 ? je_mallocx(size, MALLOCX_ALIGN(64)) : je_malloc(size);
        if (!blocks[i] || (i % 2 && (uintptr_t)blocks[i] % 64)) return 1;
        memset(blocks[i], i, size);
        void *other = malloc(size);
        // The other allocator's block does not belong to this one: glibc itself is asked.
        if (!other || je_malloc_usable_size(other) != malloc_usable_size(other)) return 2;
        free(other);
    }
    for (int i = 0; i < 2000; i++) {
        size_t size = 1 + (size_t)i * 97 % 50000;
        unsigned char *bytes = blocks[i];
        if (bytes[0] != (unsigned char)i || bytes[size - 1] != (unsigned char)i) return 3;
        blocks[i] = je_rallocx(bytes, size * 2, MALLOCX_ALIGN(64));
        if (!blocks[i]) return 4;
        if (i % 3) je_dallocx(blocks[i], 0);
        else je_free(blocks[i]);
    }
    size_t allocated = 0, length = sizeof allocated;
    if (je_mallctl("stats.allocated", &allocated, &length, NULL, 0)) return 5;
    ssize_t decay = 0;
    length = sizeof decay;
    if (je_mallctl("opt.dirty_decay_ms", &decay, &length, NULL, 0) || decay != 333) return 6;
#ifdef SECOND
    return second();
#else
    puts("ok");
    return 0;
#endif
}
