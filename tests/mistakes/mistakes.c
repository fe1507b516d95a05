// Programs with one mistake each, which show what an allocator stops.
//
//   mistakes --list              every case: name, size, thread, whether masu promises to stop it by default, and hardened
//   mistakes --all               every case in a child of its own, and how that ended: "on", an exit status that
//                                is not 0, or the signal
//   mistakes NAME SIZE THREAD    one case; THREAD is 0 for this thread and 1 for another one
//
// A program that is not stopped says "went on" and exits with 0. Each mistake happens in a heap that is in
// use: blocks of the same size lie around it, some freed, and more of them follow.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// Hides a value from the compiler.
static void *hide(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

enum { AROUND = 64 };
static char *around[AROUND];
static size_t size;
static int elsewhere;

static char *block_of(size_t n) {
    char *p = hide(malloc(n));
    if (!p) _exit(3);
    if (n) memset(p, 'x', n);
    return p;
}

static void use_heap(void) {
    for (int i = 0; i < AROUND; i++) around[i] = block_of(size);
    for (int i = 1; i < AROUND; i += 4) {
        free(around[i]);
        around[i] = NULL;
    }
}

// Enough pairs of calls that an allocator which looks finds a damaged list.
static void go_on(void) {
    int rounds = size > 100000 ? 16 : 1024;
    for (int i = 0; i < rounds; i++) {
        char *p = block_of(size), *q = block_of(size);
        free(p);
        free(q);
    }
}

// Frees on this thread, or on another one, which then exits.
static void *free_it(void *p) {
    free(p);
    return NULL;
}

static void release(void *p) {
    pthread_t thread;
    if (!elsewhere) {
        free(hide(p));
        return;
    }
    if (pthread_create(&thread, NULL, free_it, hide(p)) != 0) _exit(3);
    pthread_join(thread, NULL);
}

// Rows of blocks of one length: at the start of the list, after one other, after many.
static void double_free_at_once(void) {
    char *p = block_of(size);
    release(p);
    release(p);
}

static void double_free_after_one(void) {
    char *p = block_of(size), *q = block_of(size);
    release(p);
    release(q);
    release(p);
}

static void double_free_after_many(void) {
    char *p = block_of(size);
    release(p);
    for (int i = 0; i < AROUND; i += 4) {
        release(around[i]);
        around[i] = NULL;
    }
    release(p);
}

// The block was freed and other blocks have been allocated since, but not this one.
static void double_free_delayed(void) {
    char *p = block_of(size), *taken[4];
    free(p);
    for (int i = 0; i < 1024; i++) free(block_of(size == 24 ? 48 : 24));
    for (int i = 0; i < 4; i++) taken[i] = block_of(size / 2 + 1);
    for (int i = 0; i < 4; i++)
        if (taken[i] == p) _exit(2);
    release(p);
}

// The block waits among those that are ready to be handed out.
static void double_free_while_ready(void) {
    char *blocks[AROUND];
    for (int i = 0; i < AROUND; i++) blocks[i] = block_of(size);
    for (int i = 0; i < AROUND; i++) free(blocks[i]);
    char *first = block_of(size);
    for (int i = 0; i < AROUND; i++)
        if (blocks[i] != first) {
            release(blocks[i]);
            return;
        }
}

static void double_free_by_two(void) {
    char *p = block_of(size);
    elsewhere = !elsewhere;
    release(p);
    elsewhere = !elsewhere;
    release(p);
}

// Two threads free the same blocks at the same time; now and then both look before either has freed.
static void *racing[1024];
static pthread_barrier_t line;
static void *race(void *unused) {
    for (int i = 0; i < 1024; i++) {
        if (i % 64 == 0) pthread_barrier_wait(&line);
        free(racing[i]);
    }
    return unused;
}
static void double_free_in_a_race(void) {
    pthread_t threads[2];
    int n = size > 100000 ? 64 : 1024;
    for (int i = 0; i < n; i++) racing[i] = block_of(size);
    pthread_barrier_init(&line, NULL, 2);
    for (int i = 0; i < 2; i++) if (pthread_create(&threads[i], NULL, race, NULL) != 0) _exit(3);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    go_on();
}

static void double_free_by_realloc(void) {
    char *p = block_of(size);
    release(p);
    realloc(hide(p), 0);
}

static void free_by_1(void) { release(block_of(size) + 1); }
static void free_by_8(void) { release(block_of(size) + 8); }
static void free_by_16(void) { release(block_of(size) + 16); }
static void free_in_middle(void) { release(block_of(size) + size / 32 * 16); }
static void free_close(void) { release(block_of(size) + 4096); }
static void free_far(void) { release(block_of(size) + (1 << 30)); }
static void free_one(void) { release((void *)1); }
static void free_wild(void) { release((void *)(uintptr_t)0xdeadbeefdeadbee0); }
static void free_on_stack(void) {
    char local[256];
    free(hide((char *)(((uintptr_t)local + 15) & ~(uintptr_t)15)));
}
static void free_by_alloca(void) { free(hide(__builtin_alloca(size > 100000 ? 100000 : size + 16))); }
static void free_global(void) {
    static char global[256] __attribute__((aligned(16)));
    release(global);
}
static void free_text(void) { release((void *)(uintptr_t)"a constant"); }
static void free_unmapped(void) {
    char *p = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, 1 << 20);
    release(p + 4096);
}

static void realloc_after_free(void) {
    char *p = block_of(size);
    release(p);
    hide(realloc(hide(p), size));
}
static void realloc_longer_after_free(void) {
    char *p = block_of(size);
    release(p);
    hide(realloc(hide(p), size * 3));
}
static void realloc_inside(void) { hide(realloc(block_of(size) + 16, size)); }
static void realloc_global(void) {
    static char global[256] __attribute__((aligned(16)));
    hide(realloc(hide(global), 300));
}
static void size_after_free(void) {
    char *p = block_of(size);
    release(p);
    hide((void *)malloc_usable_size(hide(p)));
}
static void size_inside(void) { hide((void *)malloc_usable_size(block_of(size) + 16)); }

extern void sized_delete(void *, size_t) __asm__("_ZdlPvm");
extern void *cxx_new(size_t) __asm__("_Znwm");
static void delete_too_large(void) {
    void *p = hide(cxx_new(size));
    sized_delete(p, size * 3 + 4096);
}
static void delete_too_small(void) { sized_delete(hide(cxx_new(size)), size / 4); }

// Writes by pointers that are no longer valid, or beyond a block.
static void write_after_free(void) {
    char *p = block_of(size);
    free(p);
    ((char *)hide(p))[0] ^= 1;
}
static void write_after_free_all(void) {
    char *p = block_of(size);
    free(p);
    memset(hide(p), 'y', size);
    go_on();
}
static void write_after_free_zero(void) {
    char *p = block_of(size);
    free(p);
    memset(hide(p), 0, size < 64 ? size : 64);
    go_on();
}
static void read_after_free(void) {
    char *p = block_of(size);
    free(p);
    hide((void *)(uintptr_t) * (volatile char *)hide(p));
}
static void overflow_by(size_t n) {
    char *p = block_of(size);
    size_t usable = malloc_usable_size(p);
    memset(hide(p) + usable, 'z', n);
    free(p);
    go_on();
}
static void overflow_1(void) { overflow_by(1); }
static void overflow_8(void) { overflow_by(8); }
static void overflow_32(void) { overflow_by(32); }
static void overflow_1_mib(void) { overflow_by(1 << 20); }
static void overflow_in_slack(void) {
    char *p = block_of(size);
    ((char *)hide(p))[size] ^= 1;
    free(p);
}
static void overflow_into_free(void) {
    // Free neighbours, as far as there are any.
    for (int i = 0; i < AROUND; i++) free(around[i]), around[i] = NULL;
    char *p = block_of(size);
    memset(hide(p) + malloc_usable_size(p), 'z', 16);
    go_on();
}
static void underflow(void) {
    char *p = block_of(size);
    ((char *)hide(p))[-1] ^= 1;
    free(p);
    go_on();
}
static void underflow_by(size_t n) {
    char *p = block_of(size);
    memset(hide(p) - n, 'z', n);
    free(p);
    go_on();
}
static void underflow_8(void) { underflow_by(8); }
static void underflow_32(void) { underflow_by(32); }
static void harm(void) { }
static void call_after_free(void) {
    void (**p)(void) = (void *)block_of(size);
    p[0] = harm;
    free(hide(p));
    (*(void (*volatile *)(void))hide(p))();
}
static void realloc_twice(void) {
    char *p = block_of(size);
    hide(realloc(hide(p), size * 3));
    hide(realloc(hide(p), size * 5));
}
static void *lend_stack(void *place) {
    char local[256] __attribute__((aligned(16)));
    *(void *volatile *)place = local;
    for (;;) pause();
}
static void free_on_another_stack(void) {
    pthread_t thread;
    void *volatile place = NULL;
    if (pthread_create(&thread, NULL, lend_stack, (void *)&place) != 0) _exit(3);
    while (!place) usleep(100);
    free(hide(place));
}
static void read_empty(void) {
    char *p = hide(malloc(0));
    hide((void *)(uintptr_t) * (volatile char *)p);
}
static void write_empty(void) {
    char *p = hide(malloc(0));
    *(volatile char *)p = 1;
    free(p);
}
static void same_again(void) {
    char *p = block_of(size);
    free(p);
    if (malloc(size) != p) _exit(4);
}
static void not_zeroed(void) {
    char *p = block_of(size);
    free(p);
    p = hide(malloc(size));
    for (size_t i = 0; i < size; i++)
        if (p[i] == 'x') return;
    _exit(4);
}
static void run_heap(void) {
    char *p = block_of(size);
    p[0] = (char)0xc3;
    ((void (*)(void))hide(p))();
}
static void too_large(void) {
    if (!hide(malloc((size_t)-2))) _exit(4);
}

// No mistake: must go on.
static void none(void) {
    char *p = block_of(size), *q = block_of(size);
    release(p);
    q = hide(realloc(q, size * 2));
    release(q);
    sized_delete(hide(cxx_new(size)), size);
    go_on();
}

// Noticed by default; for some sizes; on any thread; in a hardened process; in one above 128 KiB.
enum { SEEN = 1, SOME = 2, THREADS = 4, HARD = 8, HARD_LARGE = 16 };
static const struct {
    const char *name;
    void (*run)(void);
    int flags;
} cases[] = {
#define CASE(name, flags) {#name, name, flags}
    CASE(none, THREADS),
    CASE(double_free_at_once, SEEN | THREADS),
    CASE(double_free_after_one, SEEN | THREADS),
    CASE(double_free_after_many, SEEN | THREADS),
    CASE(double_free_delayed, SOME | THREADS),
    CASE(double_free_while_ready, SEEN | THREADS),
    CASE(double_free_by_two, SEEN | THREADS),
    CASE(double_free_in_a_race, 0),
    CASE(double_free_by_realloc, SEEN | THREADS),
    CASE(free_by_1, SEEN | THREADS),
    CASE(free_by_8, SEEN | THREADS),
    CASE(free_by_16, SOME | THREADS),
    CASE(free_in_middle, SOME | THREADS),
    CASE(free_close, 0),
    CASE(free_far, SEEN | THREADS),
    CASE(free_one, SEEN | THREADS),
    CASE(free_wild, SEEN | THREADS),
    CASE(free_on_stack, SEEN),
    CASE(free_by_alloca, SEEN),
    CASE(free_global, SEEN | THREADS),
    CASE(free_text, SEEN | THREADS),
    CASE(free_unmapped, SEEN),
    CASE(realloc_after_free, SEEN | THREADS),
    CASE(realloc_longer_after_free, SEEN | THREADS),
    CASE(realloc_inside, SOME),
    CASE(realloc_global, SEEN),
    CASE(size_after_free, SEEN | THREADS),
    CASE(size_inside, SOME),
    CASE(delete_too_large, SEEN),
    CASE(delete_too_small, SOME),
    CASE(write_after_free, HARD_LARGE),
    CASE(write_after_free_all, HARD_LARGE),
    CASE(write_after_free_zero, HARD_LARGE),
    CASE(read_after_free, HARD_LARGE),
    CASE(overflow_in_slack, HARD),
    CASE(overflow_1, HARD),
    CASE(overflow_8, HARD),
    CASE(overflow_32, HARD),
    CASE(overflow_1_mib, HARD),
    CASE(overflow_into_free, 0),
    CASE(underflow, HARD),
    CASE(underflow_8, HARD),
    CASE(underflow_32, HARD),
    CASE(call_after_free, HARD),
    CASE(realloc_twice, HARD),
    CASE(free_on_another_stack, HARD),
    CASE(read_empty, HARD),
    CASE(write_empty, HARD),
    CASE(same_again, HARD),
    CASE(not_zeroed, HARD),
    CASE(run_heap, HARD),
    CASE(too_large, HARD),
};
enum { CASES = sizeof cases / sizeof cases[0] };

static const size_t sizes[] = {8, 24, 100, 1000, 4096, 5000, 20000, 262144, 3 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

// Whether masu promises to stop a case of this size.
static int promised(int i, size_t n) {
    if (!(cases[i].flags & SOME)) return cases[i].flags & SEEN;
    // A large block may have been given out again in part.
    if (strcmp(cases[i].name, "double_free_delayed") == 0) return n <= 20000;
    // 16 bytes past the start of a block of 8 bytes is the next block.
    return n > 32 && !(strcmp(cases[i].name, "delete_too_small") == 0 && n < 4096);
}

// Whether a hardened heap promises it.
static int promised_hardened(int i, size_t n) {
    // In the middle of 24 bytes there is no multiple of 16.
    if (strcmp(cases[i].name, "free_in_middle") == 0) return n > 32;
    // 16 bytes past the start of a block of 8 is the next block, if there is one.
    static const char *const by_16[] = {"free_by_16", "realloc_inside", "size_inside"};
    for (int k = 0; k < 3; k++)
        if (strcmp(cases[i].name, by_16[k]) == 0) return n > 16;
    if (cases[i].flags & HARD_LARGE) return n > 128 << 10;
    return (cases[i].flags & (SEEN | SOME | HARD)) != 0;
}

static void run_all_of(int i, size_t n, int thread) {
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) exit(3);
    if (child == 0) {
        alarm(4);
        size = n;
        elsewhere = thread;
        use_heap();
        cases[i].run();
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child) exit(3);
    printf("%s %zu %d ", cases[i].name, n, thread);
    if (WIFSIGNALED(status)) printf("%s\n", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status)) printf("%d\n", WEXITSTATUS(status));
    else printf("on\n");
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        for (int i = 0; i < CASES; i++)
            for (int s = 0; s < SIZES; s++)
                for (int t = 0; t <= ((cases[i].flags & THREADS) != 0); t++)
                    printf("%s %zu %d %s %s\n", cases[i].name, sizes[s], t,
                           i == 0 ? "none" : promised(i, sizes[s]) ? "promised" : "not",
                           i == 0 ? "none" : promised_hardened(i, sizes[s]) ? "promised" : "not");
        return 0;
    }
    if (count == 2 && strcmp(words[1], "--all") == 0) {
        for (int i = 0; i < CASES; i++)
            for (int s = 0; s < SIZES; s++)
                for (int t = 0; t <= ((cases[i].flags & THREADS) != 0); t++) run_all_of(i, sizes[s], t);
        return 0;
    }
    if (count != 4) {
        fprintf(stderr, "usage: mistakes --list | mistakes --all | mistakes NAME SIZE THREAD\n");
        return 2;
    }
    size = strtoull(words[2], NULL, 10);
    elsewhere = words[3][0] == '1';
    for (int i = 0; i < CASES; i++)
        if (strcmp(words[1], cases[i].name) == 0) {
            use_heap();
            cases[i].run();
            if (write(1, "went on\n", 8) != 8) return 3;
            _exit(0);
        }
    fprintf(stderr, "mistakes: no case %s\n", words[1]);
    return 2;
}
