/* What users of allocators complained of, as programs that measure it on whatever malloc they get.
 *
 * Each pain is named after the thread in which it was reported. It measures one number, which must not
 * exceed its limit. The frame reads the kernel's files without allocating.
 */
#ifndef PAINS_H
#define PAINS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>

struct pain {
    const char *name;
    /* What was reported, in a line. */
    const char *report;
    /* Of the number. */
    const char *unit;
    double limit;
    double (*measure)(void);
};

extern const struct pain going_back[], threads_and_forks[], address_space[];

/* The value of `key` ("Pss_Anon:") in KiB, in a file of /proc in that format. */
size_t kib_of(const char *file, const char *key);

/* Anonymous memory of this process in MiB. */
double anonymous_mib(void);

/* Sleeps without a call to the allocator until anonymous memory is below `mib`, five seconds at most.
 * Returns what it is then. */
double anonymous_after_rest(double mib);

/* A number from a seed that it moves on. */
static inline uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Memory of `size` bytes that is written to; ends the program if there is none. */
void *block(size_t size);

/* As a program has them: mostly small, some medium, few large. */
size_t some_size(uint32_t *seed);

/* Ends the program with a word. */
void failed(const char *what) __attribute__((noreturn));

#endif
