// main() and the helpers of check.h. Makes no allocations itself.
#include "check.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

extern const struct test_case *const __start_cases[], *const __stop_cases[];

static const char *running = "start";

// dprintf and stdio examine the file first, which a seccomp filter may forbid.
__attribute__((format(printf, 2, 3))) static void say(int file, const char *format, ...) {
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text) length = sizeof text - 1;
    if (write(file, text, length) != length) _exit(3);
}

void check_failed(const char *file, int line, const char *condition, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    say(2, "FAILED %s at %s:%d: %s: %s\n", running, file, line, condition, text);
    _exit(1);
}

static jmp_buf next_case;
static int lacking;

void not_offered(const char *what) {
    say(2, "not offered: %s\n", what);
    lacking = 1;
    longjmp(next_case, 1);
}

uint64_t random_next(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t pattern(uint64_t seed, size_t word) {
    return (seed * 0xd6e8feb86659fd93u + word) * 0x9e3779b97f4a7c15u;
}

// Most of the tests' computing is in these two: -fno-builtin would make a call for each eight bytes.
void fill(void *block, size_t size, uint64_t seed) {
    unsigned char *bytes = block;
    size_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word = pattern(seed, at / 8);
        __builtin_memcpy(bytes + at, &word, 8);
    }
    uint64_t word = pattern(seed, at / 8);
    memcpy(bytes + at, &word, size - at);
}

size_t first_difference(const void *block, size_t size, uint64_t seed) {
    const unsigned char *bytes = block;
    size_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        __builtin_memcpy(&word, bytes + at, 8);
        if (word != pattern(seed, at / 8)) break;
    }
    for (; at < size; at++) {
        uint64_t word = pattern(seed, at / 8);
        if (bytes[at] != ((unsigned char *)&word)[at % 8]) return at;
    }
    return size;
}

size_t first_nonzero(const void *block, size_t size) {
    const unsigned char *bytes = block;
    if (size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0)) return size;
    size_t at = 0;
    while (bytes[at] == 0) at++;
    return at;
}

// The number after `name` in a small text file.
static long field_of(const char *path, const char *name) {
    char text[8192];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, "%s: %s", path, strerror(errno));
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    CHECK(length > 0, "%s is empty", path);
    text[length] = 0;
    const char *found = strstr(text, name);
    CHECK(found != NULL, "no %s in %s", name, path);
    return strtol(found + strlen(name), NULL, 10);
}

long status_field(const char *name) { return field_of("/proc/self/status", name); }

// The figure in status is approximate, but all that gVisor has.
long resident_kib(void) {
    if (access("/proc/self/smaps_rollup", F_OK) != 0) return status_field("VmRSS:");
    return field_of("/proc/self/smaps_rollup", "Rss:");
}

long private_kib(void) { return field_of("/proc/self/smaps_rollup", "Private_Dirty:"); }

long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sleep_ms(long milliseconds) {
    struct timespec rest = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

static int wanted(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return 1;
    return argc == 1;
}

// From ground.c, if it is linked: makes the environment hostile first.
__attribute__((weak)) void prepare_ground(void);

int main(int argc, char **argv) {
    if (prepare_ground != NULL) prepare_ground();
    volatile int ran = 0;
    for (const struct test_case *const *volatile entry = __start_cases; entry < __stop_cases; entry++) {
        const struct test_case *test = *entry;
        if (argc == 2 && strcmp(argv[1], "--list") == 0) {
            say(1, "%s\n", test->name);
            ran++;
        } else if (wanted(test->name, argc, argv)) {
            running = test->name;
            ran++;
            if (setjmp(next_case) != 0) continue;
            test->run();
            say(1, "ok %s\n", test->name);
        }
    }
    CHECK(ran > 0, "no such case");
    CHECK(argc == 2 || ran >= argc - 1, "only %d of the %d cases exist", ran, argc - 1);
    return lacking ? 77 : 0;
}
