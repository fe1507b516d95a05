// The programs in mimalloc-bench's folder bench/security, rewritten from their behaviour: those in C with blocks of three
// sizes, those in C++ as they are. A program is not stopped if it gets to its end, or finds what it should not find.
//
//   security --all         every program in a process of its own, and how it ended: "stopped" or "on"
//   security NAME SIZE     one program
//
// Built once as C and once as C++, without optimization: the one has the programs in C, the other those in C++.
#define _GNU_SOURCE
#include "patience.h"
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __cplusplus
#include <string>
#endif

enum { ON = 7, MANY = 1024, VERY_MANY = 256 << 10, MIB = 1 << 20 };

// Whether it went on.
typedef int Program(size_t size);

#ifndef __cplusplus
static void write_at(char *p, long at) { p[at] ^= 'A'; }

static int write_and_free(size_t size, long at) {
    char *p = malloc(size);
    write_at(p, at);
    free(p);
    return 1;
}

static int one_byte_overflow(size_t size) { return write_and_free(size, (long)size); }
static int one_byte_underflow(size_t size) { return write_and_free(size, -1); }
static int some_bytes_overflow(size_t size) { return write_and_free(size, (long)size - 1 + 32); }
static int some_bytes_underflow(size_t size) { return write_and_free(size, -32); }
static int one_mbyte_overflow(size_t size) { return write_and_free(size, (long)size - 1 + MIB); }
static int one_mbyte_underflow(size_t size) { return write_and_free(size, -MIB); }

static int copy(size_t size, long at, size_t length) {
    char *zeroes = memset(alloca(length), 0, length);
    char *p = malloc(size);
    memcpy(p + at, zeroes, length);
    return 1;
}

static int one_byte_memcpy_overflow(size_t size) { return copy(size, 0, size + 1); }
static int one_byte_memcpy_underflow(size_t size) { return copy(size, -1, size); }
static int some_bytes_memcpy_overflow(size_t size) { return copy(size, 0, size + 32); }
static int some_bytes_memcpy_underflow(size_t size) { return copy(size, -32, size); }
static int one_mbyte_memcpy_overflow(size_t size) { return copy(size, 0, size + MIB); }
static int one_mbyte_memcpy_underflow(size_t size) { return copy(size, -MIB, size); }

static int double_free(size_t size) {
    void *p = malloc(size);
    free(p);
    free(p);
    return 1;
}

static int double_free_delayed(size_t size) {
    void *p = malloc(size);
    free(p);
    for (int i = 0; i < MANY; i++) free(malloc(size));
    free(p);
    return 1;
}

static int double_free_interleaved(size_t size) {
    void *p = malloc(size), *q = malloc(size);
    free(p);
    free(q);
    free(p);
    return 1;
}

static int double_free_single_reuse(size_t size) {
    void *p = malloc(size);
    free(p);
    void *q = malloc(size);
    free(p);
    free(q);
    return 1;
}

static int double_free_reuse(size_t size) {
    void *p = malloc(size);
    printf("%p", p);
    free(p);
    free(p);
    for (int i = 0; i < VERY_MANY; i++) {
        void *q = malloc(size);
        printf("%p", q);
        free(q);
    }
    return 1;
}

static int executable_heap(size_t size) {
    char *p = malloc(size);
    memcpy(p, "\x90\x90\x90\x90\xc3", 6);
    ((void (*)(void))p)();
    return 1;
}

static int impossibly_large_malloc(size_t size) {
    char *p = malloc((size_t)-2);
    return p != NULL;
}

static int free_at(char *p) {
    free(p);
    return 1;
}

static int invalid_free(size_t size) { return free_at((char *)1); }
static int invalid_free_alloca(size_t size) { return free_at(alloca(size)); }
static int invalid_free_stack(size_t size) { char p[size]; return free_at(p); }
static int invalid_free_close(size_t size) { return free_at((char *)malloc(size) + 4096); }
static int invalid_free_far(size_t size) { return free_at((char *)malloc(size) + 1024 * MIB); }
static int invalid_free_unaligned(size_t size) { return free_at((char *)malloc(size) + 1); }
static int invalid_free_unaligned_multiple(size_t size) { return free_at((char *)malloc(size) + 8); }

static int reuse(size_t size, size_t then) {
    void *p = malloc(size);
    free(p);
    return malloc(then) == p;
}

static int malloc_reuse(size_t size) { return reuse(size, size); }
static int malloc_reuse_downsize(size_t size) { return reuse(size, size / 2); }

// It compares the old pointer with itself.
static int realloc_reuse(size_t size) {
    char *p = malloc(8), *q = p;
    if (realloc(p, 1024) == NULL) return 0;
    return p == q;
}

static int empty(int writes, int frees) {
    char *p = malloc(0);
    if (p == NULL) return 0;
    if (writes) *p = 'A';
    else putchar(*p);
    if (frees) free(p);
    return 1;
}

static int read_zero_size(size_t size) { return empty(0, 0); }
static int read_zero_size_free(size_t size) { return empty(0, 1); }
static int write_zero_size(size_t size) { return empty(1, 0); }
static int write_zero_size_free(size_t size) { return empty(1, 1); }

static int write_after_free(size_t size) {
    char *p = malloc(size);
    free(p);
    memset(p, 'A', size);
    return 1;
}

static int write_after_free_reuse(size_t size) {
    write_after_free(size);
    for (int i = 0; i < VERY_MANY; i++) free(malloc(size));
    return 1;
}

static int is_not_zero(const char *p, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (p[i] != 0) return 1;
    return 0;
}

static int zero_after_free(size_t size) {
    char *p = memset(malloc(size), 'A', size);
    free(p);
    return is_not_zero(p, size);
}

static int zero_on_malloc(size_t size) {
    enum { BLOCKS = 4096 };
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(size), 'A', size);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return is_not_zero(malloc(size), size);
}

static const size_t sizes[] = {8, 4096, 256 << 10};
#else
// The two kinds of new and delete, mixed up; and a delete of a longer type.
static int invalid_array_delete_char(size_t) { delete[] new char; return 1; }
static int invalid_array_delete_string(size_t) { delete[] new std::string; return 1; }
static int invalid_delete_array_char(size_t size) { delete new char[size]; return 1; }
static int invalid_delete_array_string(size_t size) { delete new std::string[size]; return 1; }

struct Longer { size_t words[9]; };
static int delete_type_size_mismatch(size_t) { delete (Longer *)(void *)new char; return 1; }

static const size_t sizes[] = {4096};
#endif

#define PROGRAM(name) {#name, name}
static const struct { const char *name; Program *run; } programs[] = {
#ifndef __cplusplus
    PROGRAM(one_byte_overflow), PROGRAM(one_byte_underflow), PROGRAM(some_bytes_overflow), PROGRAM(some_bytes_underflow),
    PROGRAM(one_mbyte_overflow), PROGRAM(one_mbyte_underflow), PROGRAM(one_byte_memcpy_overflow),
    PROGRAM(one_byte_memcpy_underflow), PROGRAM(some_bytes_memcpy_overflow), PROGRAM(some_bytes_memcpy_underflow),
    PROGRAM(one_mbyte_memcpy_overflow), PROGRAM(one_mbyte_memcpy_underflow), PROGRAM(double_free),
    PROGRAM(double_free_delayed), PROGRAM(double_free_interleaved), PROGRAM(double_free_single_reuse),
    PROGRAM(double_free_reuse), PROGRAM(executable_heap), PROGRAM(impossibly_large_malloc), PROGRAM(invalid_free),
    PROGRAM(invalid_free_alloca), PROGRAM(invalid_free_stack), PROGRAM(invalid_free_close), PROGRAM(invalid_free_far),
    PROGRAM(invalid_free_unaligned), PROGRAM(invalid_free_unaligned_multiple), PROGRAM(malloc_reuse),
    PROGRAM(malloc_reuse_downsize), PROGRAM(realloc_reuse), PROGRAM(read_zero_size), PROGRAM(read_zero_size_free),
    PROGRAM(write_zero_size), PROGRAM(write_zero_size_free), PROGRAM(write_after_free), PROGRAM(write_after_free_reuse),
    PROGRAM(zero_after_free), PROGRAM(zero_on_malloc),
#else
    PROGRAM(invalid_array_delete_char), PROGRAM(invalid_array_delete_string), PROGRAM(invalid_delete_array_char),
    PROGRAM(invalid_delete_array_string), PROGRAM(delete_type_size_mismatch),
#endif
};
enum { PROGRAMS = sizeof programs / sizeof programs[0], SIZES = sizeof sizes / sizeof sizes[0] };

// Its own output goes nowhere.
static int goes_on(const char *name, size_t size) {
    char words[24];
    snprintf(words, sizeof words, "%zu", size);
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) exit(3);
    if (child == 0) {
        end_after(20);
        if (freopen("/dev/null", "w", stdout) == NULL) _exit(3);
        execl("/proc/self/exe", "security", name, words, (char *)NULL);
        _exit(3);
    }
    int status;
    if (waitpid(child, &status, 0) != child || (WIFEXITED(status) && WEXITSTATUS(status) == 3)) exit(3);
    // One that stands still is not stopped.
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM : WEXITSTATUS(status) == ON;
}

int main(int count, char **words) {
    int all = count == 2 && strcmp(words[1], "--all") == 0;
    for (int i = 0; i < PROGRAMS; i++) {
        for (int j = 0; all && j < SIZES; j++)
            printf("%s %zu %s\n", programs[i].name, sizes[j], goes_on(programs[i].name, sizes[j]) ? "on" : "stopped");
        if (count == 3 && strcmp(words[1], programs[i].name) == 0)
            _exit(programs[i].run(strtoul(words[2], NULL, 10)) ? ON : 0);
    }
    return all ? 0 : 3;
}
