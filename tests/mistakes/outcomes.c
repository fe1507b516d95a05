// Programs with one mistake each, or with none, and how each should end in a hardened heap: stopped by a signal of its
// own, by a fault, or going on with the right result. They require what hardened_malloc promises and tests; programs
// for functions that only it has are left out.
//
//   outcomes --list     every case, and how it should end: "abort", "fault" or "ok", or "ok+" for one with a mistake that
//                       may end by a fault as well
//   outcomes --all      every case in a child of its own, and how that ended: one of these, "wrong" for a program that
//                       went on without what it should have found, "time" for one that did not end
//   outcomes NAME       one case
#define _GNU_SOURCE
#include "patience.h"
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// C++'s operators, by their names.
extern void *op_new(size_t) __asm__("_Znwm");
extern void *op_new_aligned(size_t, size_t) __asm__("_ZnwmSt11align_val_t");
extern void op_delete_sized(void *, size_t) __asm__("_ZdlPvm");
extern void op_delete_sized_aligned(void *, size_t, size_t) __asm__("_ZdlPvmSt11align_val_t");
// C23's functions; if neither the C library nor the allocator has them, a plain free is called.
extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

enum { SMALL = 16, PAGES = 64 << 10, LARGE = 256 << 10 };

// Hides a value from the compiler.
static void *hide(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static void must(int so) {
    if (!so) _exit(1);
}

static volatile char *get(size_t n) {
    volatile char *p = hide(malloc(n));
    must(p != NULL);
    return p;
}

static void give(volatile void *p) { free(hide((void *)p)); }

static size_t measure(volatile void *p) { return malloc_usable_size(hide((void *)p)); }

static int is_zero(volatile char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0) return 0;
    return 1;
}

// This many blocks are freed meanwhile.
static void delay(size_t n, int rounds) {
    for (int i = 0; i < rounds; i++) give(get(n));
}

static void twice(size_t n) {
    volatile char *p = get(n);
    give(p);
    give(p);
}

static void twice_delayed(size_t n, int rounds) {
    volatile char *p = get(n), *q = get(n);
    give(p);
    give(q);
    delay(n, rounds);
    give(p);
}

static void double_free_small(void) { twice(SMALL); }
static void double_free_pages(void) { twice(PAGES); }
static void double_free_large(void) { twice(LARGE); }
static void double_free_small_delayed(void) { twice_delayed(SMALL, 0); }
static void double_free_pages_delayed(void) { twice_delayed(PAGES, 100); }
static void double_free_large_delayed(void) { twice_delayed(LARGE, 0); }

static void free_inside_small(void) { give(get(SMALL) + 1); }
static void free_inside_large(void) { give(get(LARGE) + 1); }
static void free_close_by(void) { give(get(SMALL) + (16 << 10)); }
static void free_far_away(void) { give(get(SMALL) + (1 << 30)); }
static void free_of_one(void) { give((void *)1); }

// In the middle of the program's own mapping.
static void free_of_mapping(int protection) {
    give(get(SMALL));
    char *p = mmap(NULL, PAGES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(p != MAP_FAILED);
    give(p + PAGES / 2);
}

static void free_of_readable_mapping(void) { free_of_mapping(PROT_READ | PROT_WRITE); }
static void free_of_closed_mapping(void) { free_of_mapping(PROT_NONE); }

static void size_of_freed(void) {
    volatile char *p = get(SMALL);
    give(p);
    measure(p);
}

static void size_of_freed_pages(void) {
    volatile char *p = get(PAGES);
    give(p);
    measure(p);
}

static void size_close_by(void) { measure(get(SMALL) + (16 << 10)); }
static void size_inside(void) { measure(get(SMALL) + 1); }
static void size_of_one(void) { measure((void *)1); }
static void realloc_of_one(void) { must(hide(realloc(hide((void *)1), SMALL)) != NULL); }

static void realloc_to_nothing_then_free(void) {
    volatile char *p = get(SMALL);
    char *q = hide(realloc((void *)p, 0));
    give(q);
    give(p);
}

static void delete_of_another_size(void) { op_delete_sized(hide(op_new(32)), 2048); }
static void delete_aligned_of_another_size(void) {
    op_delete_sized_aligned(hide(op_new_aligned(65536 / 4, 64)), 65536 / 4 * 2, 64);
}
static void delete_large_of_another_size(void) {
    op_delete_sized_aligned(hide(op_new_aligned(LARGE, 64)), LARGE + 4096, 64);
}
static void free_sized_of_another_size(void) {
    must(free_aligned_sized != NULL);
    free_aligned_sized(hide(aligned_alloc(64, 128)), 64, 1024);
}

static void past(size_t n, size_t by) {
    volatile char *p = get(n);
    p[measure(p) + by - 1] = 1;
    give(p);
}

static void overflow_small_1(void) { past(8, 1); }
static void overflow_small_8(void) { past(8, 8); }
static void overflow_large_1(void) { past(LARGE, 1); }
static void overflow_large_8(void) { past(LARGE, 8); }

static void overflow_large_aligned(void) {
    volatile char *p = NULL;
    must(posix_memalign((void **)&p, 1 << 20, LARGE) == 0);
    p[measure(p)] = 1;
    give(p);
}

static volatile char *shrunk(void) {
    volatile char *p = hide(realloc((void *)get(4 * LARGE), LARGE));
    must(p != NULL);
    return p;
}

static void overflow_large_shrunk(void) { shrunk()[LARGE] = 1; }
static void read_large_shrunk(void) { (void)shrunk()[2 * LARGE]; }

static void write_freed(size_t n, int others, int rounds) {
    volatile char *p = get(n), *q = NULL;
    give(p);
    if (others) q = get(n);
    p[n / 2 + 1] = 'a';
    (void)q;
    delay(n, rounds);
}

static void write_after_free_small(void) { write_freed(128, 0, 100000); }
static void write_after_free_small_reused(void) { write_freed(128, 1, 100000); }
static void write_after_free_pages(void) { write_freed(PAGES, 0, 1000); }
static void write_after_free_large(void) { write_freed(LARGE, 0, 0); }
static void write_after_free_large_reused(void) { write_freed(LARGE, 1, 0); }

static void read_after_free_large(void) {
    volatile char *p = get(LARGE);
    give(p);
    (void)p[100];
}

static void read_after_free_small(void) {
    volatile char *p = get(SMALL);
    memset((void *)p, 'x', SMALL);
    give(p);
    must(is_zero(p, SMALL));
}

static void read_empty(void) { (void)*get(0); }
static void write_empty(void) { *get(0) = 1; }

// Fresh memory is zero, and again after it was used.
static void fresh(size_t n, int rounds) {
    for (int i = 0; i < rounds; i++) {
        volatile char *p = get(n);
        must(is_zero(p, n));
        memset((void *)p, 'x', n);
        give(p);
    }
}

static void unset_small_is_zero(void) { fresh(SMALL, 2000); }
static void unset_large_is_zero(void) { fresh(LARGE, 20); }

// A read of a text without an end stops at the block's end.
static void text_without_end(void) {
    volatile char *p = get(SMALL);
    size_t n = measure(p);
    memset((void *)p, 'a', n);
    must(strlen((char *)hide((void *)p)) == n);
}

static void calloc_is_zero(void) {
    for (int i = 0; i < 1000; i++) {
        volatile char *p = hide(calloc(16, 16));
        must(p != NULL && is_zero(p, 256));
        memset((void *)p, 'x', 256);
        give(p);
    }
}

static volatile size_t half = SIZE_MAX / 2 + 2;

static void calloc_too_large(void) { must(calloc(half, 2) == NULL && calloc(2, half) == NULL && errno == ENOMEM); }
static void reallocarray_too_large(void) { must(reallocarray(NULL, half, 2) == NULL && errno == ENOMEM); }
static void malloc_too_large(void) { must(malloc(half * 2 - 4 + half) == NULL && malloc(half) == NULL); }

static void realloc_too_large(void) {
    volatile char *p = get(SMALL);
    p[0] = 7;
    must(realloc((void *)p, half) == NULL && p[0] == 7);
    give(p);
}

static void bad_alignments(void) {
    void *p = NULL;
    must(posix_memalign(&p, 24, SMALL) == EINVAL && posix_memalign(&p, 4, SMALL) == EINVAL && p == NULL);
    must(posix_memalign(&p, half, SMALL) == ENOMEM || p == NULL);
}

static void delete_small(void) { op_delete_sized(hide(op_new(100)), 100); }
static void delete_small_aligned(void) { op_delete_sized_aligned(hide(op_new_aligned(128, 64)), 128, 64); }
static void delete_small_aligned_least(void) { op_delete_sized_aligned(hide(op_new_aligned(8, 8)), 8, 8); }
static void delete_large_aligned(void) { op_delete_sized_aligned(hide(op_new_aligned(LARGE, 64)), LARGE, 64); }

static void end_sized(size_t n) {
    void *p = (void *)get(n);
    if (free_sized) free_sized(p, n);
    else free(p);
}

static void free_sized_small(void) { end_sized(SMALL); }
static void free_sized_large(void) { end_sized(LARGE); }

static void realloc_from_nothing(void) {
    char *p = hide(realloc(NULL, SMALL));
    must(p != NULL);
    p = hide(realloc(p, 2 * LARGE));
    must(p != NULL);
    free(p);
}

static void array_grows(void) {
    char *p = NULL;
    size_t had = 0;
    for (size_t n = 4096; n < (32u << 20); n = n * 3 / 2) {
        p = hide(realloc(p, n));
        must(p != NULL && (had == 0 || (p[0] == 'x' && p[had - 1] == 'x')));
        memset(p, 'x', n);
        had = n;
    }
    free(p);
}

// A mapping that the kernel has split in two moves whole.
static void split_block_grows(void) {
    char *p = (char *)get(4 * LARGE);
    memset(p, 'x', 4 * LARGE);
    char *middle = (char *)(((uintptr_t)p + 2 * LARGE) & ~(uintptr_t)4095);
    must(mprotect(middle, 4096, PROT_READ) == 0);
    p = hide(realloc(p, 64 * LARGE));
    must(p != NULL && p[0] == 'x' && p[4 * LARGE - 1] == 'x' && p[2 * LARGE] == 'x');
}

static void empty_blocks_differ(void) { must(get(0) != get(0)); }

static void nothing_comes_back_at_once(void) {
    for (int i = 0; i < 512; i++) {
        volatile char *p = get(64);
        give(p);
        volatile char *q = get(64);
        must(p != q);
        give(q);
    }
}

static void pages_are_whole(void) {
    char *p = hide(pvalloc(1));
    must(p != NULL && ((uintptr_t)p & 4095) == 0 && measure(p) >= 4096);
    memset(p, 'x', 4096);
    free(p);
}

enum { ABORT, FAULT, OK, ZERO };
static const char *const ends[] = {"abort", "fault", "ok", "ok+"};
static const struct {
    const char *name;
    void (*run)(void);
    int end;
} cases[] = {
#define CASE(name, end) {#name, name, end}
    CASE(double_free_small, ABORT),
    CASE(double_free_pages, ABORT),
    CASE(double_free_large, ABORT),
    CASE(double_free_small_delayed, ABORT),
    CASE(double_free_pages_delayed, ABORT),
    CASE(double_free_large_delayed, ABORT),
    CASE(free_inside_small, ABORT),
    CASE(free_inside_large, ABORT),
    CASE(free_close_by, ABORT),
    CASE(free_far_away, ABORT),
    CASE(free_of_one, ABORT),
    CASE(free_of_readable_mapping, ABORT),
    CASE(free_of_closed_mapping, ABORT),
    CASE(size_of_freed, ABORT),
    CASE(size_of_freed_pages, ABORT),
    CASE(size_close_by, ABORT),
    CASE(size_inside, ABORT),
    CASE(size_of_one, ABORT),
    CASE(realloc_of_one, ABORT),
    CASE(realloc_to_nothing_then_free, ABORT),
    CASE(delete_of_another_size, ABORT),
    CASE(delete_aligned_of_another_size, ABORT),
    CASE(delete_large_of_another_size, ABORT),
    CASE(free_sized_of_another_size, ABORT),
    CASE(overflow_small_1, ABORT),
    CASE(overflow_small_8, ABORT),
    CASE(overflow_large_1, FAULT),
    CASE(overflow_large_8, FAULT),
    CASE(overflow_large_aligned, FAULT),
    CASE(overflow_large_shrunk, FAULT),
    CASE(read_large_shrunk, FAULT),
    CASE(write_after_free_small, ABORT),
    CASE(write_after_free_small_reused, ABORT),
    CASE(write_after_free_pages, ABORT),
    CASE(write_after_free_large, FAULT),
    CASE(write_after_free_large_reused, FAULT),
    CASE(read_after_free_large, FAULT),
    CASE(read_after_free_small, ZERO),
    CASE(read_empty, FAULT),
    CASE(write_empty, FAULT),
    CASE(unset_small_is_zero, OK),
    CASE(unset_large_is_zero, OK),
    CASE(text_without_end, ZERO),
    CASE(calloc_is_zero, OK),
    CASE(calloc_too_large, OK),
    CASE(reallocarray_too_large, OK),
    CASE(malloc_too_large, OK),
    CASE(realloc_too_large, OK),
    CASE(bad_alignments, OK),
    CASE(delete_small, OK),
    CASE(delete_small_aligned, OK),
    CASE(delete_small_aligned_least, OK),
    CASE(delete_large_aligned, OK),
    CASE(free_sized_small, OK),
    CASE(free_sized_large, OK),
    CASE(realloc_from_nothing, OK),
    CASE(array_grows, OK),
    CASE(split_block_grows, OK),
    CASE(empty_blocks_differ, OK),
    CASE(nothing_comes_back_at_once, OK),
    CASE(pages_are_whole, OK),
};
enum { CASES = sizeof cases / sizeof cases[0] };

static const char *end_of(int status) {
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status) == 0 ? "ok" : "wrong";
    switch (WTERMSIG(status)) {
    case SIGSEGV:
    case SIGBUS: return "fault";
    case SIGALRM: return "time";
    default: return "abort";
    }
}

static void run_alone(const char *program, int i) {
    int status;
    fflush(stdout);
    // A separate process, so that its heap is new.
    pid_t child = fork();
    if (child < 0) exit(3);
    if (child == 0) {
        end_after(10);
        execl("/proc/self/exe", program, cases[i].name, (char *)NULL);
        _exit(3);
    }
    if (waitpid(child, &status, 0) != child) exit(3);
    printf("%s %s\n", cases[i].name, end_of(status));
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        for (int i = 0; i < CASES; i++) printf("%s %s\n", cases[i].name, ends[cases[i].end]);
        return 0;
    }
    if (count == 2 && strcmp(words[1], "--all") == 0) {
        for (int i = 0; i < CASES; i++) run_alone(words[0], i);
        return 0;
    }
    for (int i = 0; count == 2 && i < CASES; i++)
        if (strcmp(words[1], cases[i].name) == 0) {
            cases[i].run();
            _exit(0);
        }
    fprintf(stderr, "usage: outcomes --list | outcomes --all | outcomes NAME\n");
    return 2;
}
