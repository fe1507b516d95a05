// The frame of every test program: cases that register themselves, checks that print the values
// they compared, and a few helpers that do not allocate.
//
// A program is check_main.c plus any number of files of CASE(name) { ... }.
// It runs the cases named on its command line, or all of them; --list names them.
#ifndef MASU_TESTS_CHECK_H
#define MASU_TESTS_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

struct test_case {
    const char *name;
    void (*run)(void);
};

// A pointer in a separate section: the linker gathers the cases of all files.
#define CASE(title)                                                                       \
    static void title(void);                                                              \
    static const struct test_case case_##title = {#title, title};                         \
    __attribute__((section("cases"), used)) static const struct test_case *entry_##title = \
        &case_##title;                                                                    \
    static void title(void)

// Ends the program with a line that names the place and shows what was seen.
#define CHECK(condition, ...)                                                   \
    do {                                                                        \
        if (!(condition)) check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    } while (0)

__attribute__((noreturn, format(printf, 4, 5))) void check_failed(const char *file, int line,
                                                                  const char *condition,
                                                                  const char *format, ...);

// Ends the case, and later the program with 77: "this allocator does not have that".
__attribute__((noreturn)) void not_offered(const char *what);

// Hides the origin of a pointer or a number from the compiler. Without it the compiler removes
// allocations and folds comparisons that the tests are about.
static inline void *hide(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}
static inline size_t hidden(size_t value) {
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}

// A cheap generator with repeatable results.
uint64_t random_next(uint64_t *state);

// Fills a block with a pattern made from the seed, and compares. Both touch every byte.
void fill(void *block, size_t size, uint64_t seed);
// The index of the first byte that differs from the pattern, or size.
size_t first_difference(const void *block, size_t size, uint64_t seed);
// The index of the first byte that is not zero, or size.
size_t first_nonzero(const void *block, size_t size);

// A field of /proc/self/status in KiB, such as "VmRSS:"; the number of threads with
// "Threads:". Reads without the allocator and without stdio.
long status_field(const char *name);
// The resident set in KiB, exact where VmRSS is approximate.
long resident_kib(void);
// The part of it that this process does not share with its parent, in KiB.
long private_kib(void);

// The seconds after which a case counts as hung: the argument times MASU_TEST_PATIENCE.
static inline unsigned patience(unsigned seconds) {
    const char *times = getenv("MASU_TEST_PATIENCE");
    return seconds * (times != NULL ? (unsigned)atoi(times) : 1);
}

// Milliseconds of a clock that only goes forward.
long now_ms(void);
void sleep_ms(long milliseconds);

#ifdef __cplusplus
}
#endif
#endif
