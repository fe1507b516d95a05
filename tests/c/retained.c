/* Three places with blocks in use. Those of `past` are 1 MiB less 4 KiB shorter than the ones whose pages they take over.
   Those of `whole` fill theirs. Those of `medium` lie among seven times as many freed ones. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP __attribute__((noinline, noclone))

enum { MIB = 1 << 20, PAST = 10, WHOLE = 10, MEDIUM = 4096 };

static void *filled(size_t size) { return memset(malloc(size), 1, size); }
KEEP void *past(void) { void *p = filled(3 * MIB + 4096); __asm__ volatile("" ::: "memory"); return p; }
KEEP void *whole(void) { void *p = filled(4 * MIB); __asm__ volatile("" ::: "memory"); return p; }
KEEP void *medium(void) { void *p = filled(20 << 10); __asm__ volatile("" ::: "memory"); return p; }

static void *kept[PAST], *others[WHOLE], *runs[MEDIUM];

int main(void) {
    for (int i = 0; i < MEDIUM; i++) runs[i] = medium();
    for (int i = 0; i < MEDIUM; i++) {
        if (i % 8 != 0) free(runs[i]);
    }
    malloc_trim(0);
    for (int i = 0; i < PAST; i++) kept[i] = filled(4 * MIB);
    for (int i = 0; i < WHOLE; i++) others[i] = whole();
    for (int i = 0; i < PAST; i++) {
        free(kept[i]);
        kept[i] = past();
    }
    puts("ready");
    fflush(stdout);
    return getchar() == EOF;
}
