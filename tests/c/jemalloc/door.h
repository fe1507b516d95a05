// Helpers that the tests of the jemalloc door share.
#ifndef MASU_TESTS_JEMALLOC_DOOR_H
#define MASU_TESTS_JEMALLOC_DOOR_H

#include "../check.h"

#include <jemalloc/jemalloc.h>

// Reads a value of the same type as the variable that receives it.
#define READ(name, place)                                                               \
    do {                                                                                \
        size_t length_ = sizeof *(place);                                               \
        int error_ = mallctl(name, place, &length_, NULL, 0);                           \
        CHECK(error_ == 0, "%s: %d", name, error_);                                     \
        CHECK(length_ == sizeof *(place), "%s: %zu bytes", name, length_);              \
    } while (0)

// Writes a value.
#define WRITE(name, value) mallctl(name, NULL, NULL, &(value), sizeof(value))

// A call without any value, as "arena.0.purge" takes it.
static inline int act(const char *name) { return mallctl(name, NULL, NULL, NULL, 0); }

// Whether masu answers, which has a name of its own.
static inline bool is_masu(void) {
    size_t mib[4], depth = 4;
    return mallctlnametomib("masu.prof.dump", mib, &depth) == 0;
}

// A number in the middle of a name.
static inline const char *with_number(char *to, const char *before, unsigned number,
                                      const char *after) {
    sprintf(to, "%s%u%s", before, number, after);
    return to;
}

#endif
