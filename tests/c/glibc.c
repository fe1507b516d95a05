// What glibc's own tests of its malloc require and the conformance core does not yet test. All of it holds on glibc
// too. tests/conformance_glibc.rs says which case covers each of those tests.
#include "check.h"
#include "doors.h"

#include <fcntl.h>
#include <obstack.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

// The compiler assumes that posix_memalign leaves errno alone.
static int (*volatile hidden_posix_memalign)(void **, size_t, size_t) = posix_memalign;

// Sizes up and down from SIZE_MAX and from PTRDIFF_MAX: an overflow to one function is a plain impossible size to
// another.
CASE(no_door_gives_more_than_half_the_address_space) {
    char *block = malloc(16);
    fill(block, 16, 7);
    for (size_t less = 0; less <= 1 << 16; less = less * 2 + 1) {
        size_t sizes[] = {SIZE_MAX - less, (size_t)PTRDIFF_MAX + 1 + less};
        for (int i = 0; i < 2; i++) {
            size_t size = hidden(sizes[i]);
#define REFUSED(call)                                                                          \
    do {                                                                                       \
        errno = 0;                                                                             \
        void *answer = call;                                                                   \
        CHECK(answer == NULL && errno == ENOMEM, #call " of %zu: %p, errno %d", size, answer, errno); \
    } while (0)
            REFUSED(malloc(size));
            REFUSED(realloc(block, size));
            REFUSED(calloc(size, 1));
            REFUSED(calloc(1, size));
            REFUSED(calloc(size / 3 + 1, 3));
            REFUSED(reallocarray(block, size, 1));
            REFUSED(reallocarray(block, size / 5 + 1, 5));
            REFUSED(memalign(64, size));
            REFUSED(aligned_alloc(4096, size));
            REFUSED(valloc(size));
            if (pvalloc != NULL) REFUSED(pvalloc(size));
        }
    }
    CHECK(first_difference(block, 16, 7) == 16, "the block changed");
    free(block);
}

CASE(posix_memalign_says_enomem_in_errno_too) {
    for (size_t alignment = 16; alignment <= 1 << 20; alignment *= 16) {
        void *block = NULL;
        errno = 0;
        int code = hidden_posix_memalign(&block, alignment, hidden(SIZE_MAX - 2 * alignment));
        CHECK(code == ENOMEM && errno == ENOMEM, "%zu: %d, errno %d", alignment, code, errno);
    }
}

CASE(realloc_aligns_every_size_to_16) {
    char *block = NULL;
    for (size_t size = 1; size < 3 << 20; size += size / 7 + 1) {
        block = realloc(block, size);
        CHECK((uintptr_t)block % 16 == 0, "%zu bytes at %p", size, (void *)block);
    }
    free(block);
}

CASE(mallopt_takes_what_programs_set) {
    if (mallopt == NULL) not_offered("mallopt");
    static const int parameters[] = {M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX};
    for (int i = 0; i < 5; i++)
        CHECK(mallopt(parameters[i], 1 << 16) == 1, "mallopt(%d)", parameters[i]);
    static const int unknown[] = {-100, -9, 0, 5, 100};
    for (int i = 0; i < 5; i++)
        CHECK(mallopt(unknown[i], 1) == 1, "mallopt(%d)", unknown[i]);
    CHECK(mallopt(M_MXFAST, 0) == 1 && mallopt(M_MXFAST, 160) == 1, "fast bins up to 160 bytes");
    CHECK(mallopt(M_MXFAST, 161) == 0 && mallopt(M_MXFAST, -1) == 0, "fast bins beyond");
    free(malloc(1 << 20));
}

// Runs malloc_stats in a thread that is about to be cancelled; returns its text.
static void *print_and_be_cancelled(void *gate) {
    pthread_barrier_wait(gate);
    malloc_stats();
    char byte;
    if (write(2, "never\n", 6) == 6) (void)!read(-1, &byte, 1);
    return NULL;
}

CASE(malloc_stats_prints_the_lines_that_programs_parse_and_is_no_cancellation_point) {
    if (malloc_stats == NULL) not_offered("malloc_stats");
    void *held = malloc(100000);
    int ends[2], saved = dup(2);
    CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    dup2(ends[1], 2);
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, NULL, 2);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, print_and_be_cancelled, &gate) == 0, "a thread");
    pthread_cancel(thread);
    pthread_barrier_wait(&gate);
    void *result;
    pthread_join(thread, &result);
    dup2(saved, 2);
    static char text[65536];
    ssize_t length = read(ends[0], text, sizeof text - 1);
    CHECK(result == PTHREAD_CANCELED, "the thread was not cancelled");
    CHECK(length > 0, "%zd bytes", length);
    static const char *const lines[] = {"Arena 0:\n",          "system bytes     = ",
                                        "in use bytes     = ", "Total (incl. mmap):\n",
                                        "system bytes     = ", "in use bytes     = ",
                                        "max mmap regions = ", "max mmap bytes   = "};
    const char *at = text;
    for (int i = 0; i < 8; i++) {
        at = strstr(at, lines[i]);
        CHECK(at != NULL, "no \"%s\" in its place:\n%s", lines[i], text);
        at += strlen(lines[i]);
        if (at[-1] == '\n') continue;
        char *end;
        unsigned long value = strtoul(at, &end, 10);
        CHECK(end - at >= 10 && *end == '\n', "line %d is no number in ten columns: %.30s", i, at);
        if (i == 4) CHECK(value >= 100000, "%lu system bytes in all", value);
    }
    CHECK(strstr(text, "never") == NULL, "a call behind it printed");
    close(ends[0]);
    close(ends[1]);
    close(saved);
    free(held);
}

// The number in the attribute after `tag`, and where it ends; NULL if there is no more.
static const char *number_after(const char *at, const char *tag, size_t *value) {
    at = strstr(at, tag);
    if (at == NULL) return NULL;
    at = strstr(at, "size=\"");
    CHECK(at != NULL, "%s without a size", tag);
    char *end;
    *value = strtoul(at + 6, &end, 10);
    CHECK(*end == '"', "no number: %.20s", at);
    return end;
}

static void *hold_until(void *gate) {
    void *blocks[200];
    for (int i = 0; i < 200; i++) blocks[i] = malloc(1000 + i * 100);
    pthread_barrier_wait(gate);
    pthread_barrier_wait(gate);
    for (int i = 0; i < 200; i++) free(blocks[i]);
    return NULL;
}

CASE(malloc_info_of_many_threads_adds_up) {
    if (malloc_info == NULL) not_offered("malloc_info");
    enum { threads = 8 };
    pthread_t ids[threads];
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, NULL, threads + 1);
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, hold_until, &gate);
    pthread_barrier_wait(&gate);
    static char text[1 << 20];
    FILE *stream = fmemopen(text, sizeof text, "w");
    CHECK(malloc_info(0, stream) == 0, "malloc_info");
    fclose(stream);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    const char *totals = strstr(text, "</heap>"), *heaps = text, *next;
    CHECK(totals != NULL, "no heap: %.200s", text);
    while ((next = strstr(totals + 1, "</heap>")) != NULL) totals = next;
    size_t sum = 0, one, all;
    while ((next = number_after(heaps, "<system type=\"current\"", &one)) != NULL && next < totals) {
        sum += one;
        heaps = next;
    }
    CHECK(number_after(totals, "<system type=\"current\"", &all) != NULL, "no total");
    CHECK(sum == all, "the heaps have %zu bytes, all together %zu", sum, all);
    CHECK(all >= threads * 200 * 1000, "%zu bytes", all);
}

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free
CASE(an_obstack_grows_and_is_cut_back) {
    for (int mask = 0; mask < 1024; mask = mask * 2 + 1) {
        struct obstack stack;
        obstack_init(&stack);
        obstack_alignment_mask(&stack) = mask;
        char *objects[300];
        for (int i = 0; i < 300; i++) {
            for (int j = 0; j < i; j++) obstack_1grow(&stack, (char)i);
            objects[i] = obstack_finish(&stack);
            CHECK(i == 0 || ((uintptr_t)objects[i] & mask) == 0, "object %d at %p", i, (void *)objects[i]);
        }
        for (int i = 299; i >= 0; i--) {
            for (int j = 0; j < i; j++) CHECK(objects[i][j] == (char)i, "byte %d of object %d", j, i);
            obstack_free(&stack, objects[i]);
        }
        obstack_free(&stack, NULL);
    }
}

// Aligned blocks come and go: freed memory serves again, rather than fresh memory.
CASE(freed_aligned_blocks_serve_again) {
    enum { many = 64 };
    static void *blocks[many];
    for (size_t alignment = 64; alignment <= 16384; alignment *= 4) {
        long after_first = 0;
        for (int round = 0; round < 200; round++) {
            for (int i = 0; i < many; i++) {
                blocks[i] = memalign(alignment, 24 + i * 40);
                CHECK((uintptr_t)blocks[i] % alignment == 0, "%p", blocks[i]);
                memset(blocks[i], 1, 24 + i * 40);
            }
            for (int i = 0; i < many; i++) free(blocks[(i * 37) % many]);
            if (round == 9) after_first = resident_kib();
        }
        long after_all = resident_kib();
        CHECK(after_all < after_first + 2048, "%ld -> %ld KiB", after_first, after_all);
    }
}

// A signal handler that interrupts malloc forks. The child may do no more than such a handler.
static volatile sig_atomic_t forks;
static void fork_and_wait(int signal) {
    (void)signal;
    int error = errno;
    pid_t child = fork();
    if (child == 0) _exit(0);
    int status = -1;
    if (child > 0) waitpid(child, &status, 0);
    if (status == 0) forks = forks + 1;
    errno = error;
}

CASE(signal_handlers_fork_while_malloc_runs) {
    struct sigaction action = {.sa_handler = fork_and_wait, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &often, NULL);
    static void *blocks[512];
    uint64_t random = 5;
    // On a busy machine a fork takes long.
    long end = now_ms() + 700, last = end + 20000;
    while (now_ms() < end || (forks < 5 && now_ms() < last))
        for (int i = 0; i < 512; i++) {
            free(blocks[i]);
            blocks[i] = malloc(random_next(&random) % 3000);
            CHECK(blocks[i] != NULL, "malloc");
        }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 512; i++) free(blocks[i]);
    CHECK(forks >= 5, "%d forks", (int)forks);
}

// Limits address space to this much above what is mapped now.
static void leave_only(size_t bytes) {
    struct rlimit limit = {.rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = (rlim_t)status_field("VmSize:") * 1024 + bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit: %s", strerror(errno));
}

struct filler {
    struct filler *next;
};

// Takes all memory, down to what a block of eight bytes needs.
static struct filler *fill_heap(void) {
    struct filler *head = NULL;
    for (size_t size = 4096 + sizeof *head; size != 0;) {
        struct filler *more = malloc(size);
        if (more != NULL) {
            more->next = head;
            head = more;
        } else {
            CHECK(errno == ENOMEM, "errno %d", errno);
            size = size > sizeof *head ? sizeof *head : 0;
        }
    }
    return head;
}

static void empty_heap(struct filler *head) {
    while (head != NULL) {
        struct filler *next = head->next;
        free(head);
        head = next;
    }
}

// An array of ints that doubles as long as possible; NULL if that is not far enough.
static int *grow_array(size_t wanted) {
    size_t room = 16;
    int *array = malloc(room * sizeof *array);
    for (size_t i = 0; array != NULL && i < wanted; i++) {
        if (i == room) {
            int *longer = realloc(array, 2 * room * sizeof *array);
            if (longer == NULL) {
                free(array);
                return NULL;
            }
            array = longer;
            room *= 2;
        }
        array[i] = (int)i;
    }
    return array;
}

CASE(a_full_heap_refuses_and_an_emptied_one_grows) {
    if (!mallopt || !malloc_trim) not_offered("a heap that gives addresses back");
    free(malloc(1));
    leave_only(2 << 20);
    for (int round = 0; round < 4; round++) {
        int *array = grow_array(10000);
        CHECK(array != NULL, "round %d: no 10,000 ints in an empty heap", round);
        struct filler *head = fill_heap();
        CHECK(head != NULL, "round %d: nothing could be had", round);
        errno = 0;
        void *more = malloc(10000 * sizeof *array);
        CHECK(more == NULL && errno == ENOMEM, "round %d: 40,000 bytes of a full heap", round);
        more = realloc(array, 20000 * sizeof *array);
        CHECK(more == NULL, "round %d: 80,000 bytes of a full heap", round);
        for (int i = 0; i < 10000; i++) CHECK(array[i] == i, "%d is %d", i, array[i]);
        empty_heap(head);
        free(array);
        head = fill_heap();
        CHECK(malloc(1000 * sizeof *array) == NULL, "round %d: 4,000 bytes of a full heap", round);
        empty_heap(head);
    }
    // Then one that grows until it fails.
    CHECK(grow_array(SIZE_MAX / 2) == NULL, "an array without end");
    free(grow_array(10000));
}

// All functions, in threads that all meet the limit: each alone would take twice what there is.
static _Atomic int refusals;
static void *meet_the_limit(void *unused) {
    (void)unused;
    enum { many = 4000 };
    void **blocks = malloc(many * sizeof *blocks);
    if (blocks == NULL) return NULL;
    for (int door = 0; door < 7; door++) {
        int count = 0, failed = 0;
        while (count < many && !failed) {
            size_t size = 20000 + count % 7 * 9000;
            void *block = NULL;
            errno = 0;
            switch (door) {
            case 0: block = malloc(size); break;
            case 1: block = calloc(size / 8, 8); break;
            case 2: block = realloc(malloc(8), size); break;
            case 3: block = aligned_alloc(8192, size); break;
            case 4: block = memalign(256, size); break;
            case 5: block = valloc(size); break;
            case 6: if (hidden_posix_memalign(&block, 64, size) != 0) block = NULL; break;
            }
            failed = block == NULL;
            refusals += failed;
            if (failed) CHECK(errno == ENOMEM, "door %d, %zu bytes: errno %d", door, size, errno);
            else memset(blocks[count++] = block, door, 100);
        }
        while (count > 0) free(blocks[--count]);
    }
    free(blocks);
    return NULL;
}

CASE(every_door_says_enomem_to_threads_that_meet_the_limit) {
    enum { threads = 4 };
    pthread_t ids[threads];
    free(malloc(1));
    leave_only(96 << 20);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&ids[i], &small, meet_the_limit, NULL) == 0, "thread %d", i);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    if (refusals == 0) not_offered("a refusal at the limit");
    free(malloc(1 << 20));
}

// Whether the kernel lets a program have this much memory at once, as any program may ask.
static int kernel_allows(size_t size) {
    void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place != MAP_FAILED) munmap(place, size);
    return place != MAP_FAILED;
}

static void agrees(const char *door, size_t size, void *block) {
    int allowed = kernel_allows(size);
    CHECK((block != NULL) == allowed, "%s(%zu) = %p, the kernel says %s", door, size, block,
          allowed ? "yes" : "no");
    free(block);
}

CASE(the_kernel_decides_on_overcommitment) {
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    size_t sizes[] = {(size_t)1 << 40, (size_t)100 << 30, ram / 2, ram / 4 * 5 + ((size_t)1 << 40), 65 << 20};
    for (int i = 0; i < 5; i++) {
        size_t size = hidden(sizes[i]);
        agrees("malloc", size, hide(malloc(size)));
        agrees("calloc", size, hide(calloc(1, size)));
        agrees("memalign", size, hide(memalign(4 << 20, size)));
        // Freed memory promises no more: long blocks side by side, then one in place of all.
        void *kept[4];
        for (int j = 0; j < 4; j++) kept[j] = hide(malloc(ram / 2));
        for (int j = 0; j < 4; j++) free(kept[j]);
        agrees("malloc after others", size, hide(malloc(size)));
        char *block = malloc(1 << 20);
        strcpy(block, "kept");
        char *grown = realloc(block, size);
        CHECK((grown != NULL) == kernel_allows(size), "realloc to %zu: %p", size, (void *)grown);
        block = grown != NULL ? grown : block;
        CHECK(strcmp(block, "kept") == 0, "contents lost at %zu", size);
        free(block);
    }
    // A refusal costs nothing: no addresses stay reserved.
    long before = status_field("VmSize:");
    for (int i = 0; i < 10; i++) free(hide(malloc(hidden((size_t)1 << 45))));
    CHECK(status_field("VmSize:") < before + (64 << 10), "%ld -> %ld KiB", before, status_field("VmSize:"));
}

// Nor is a fork refused because of memory that is free again.
CASE(a_fork_needs_no_room_for_what_was_freed) {
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    void *blocks[4];
    for (int i = 0; i < 4; i++) blocks[i] = hide(malloc(ram / 2));
    for (int i = 0; i < 4; i++) free(blocks[i]);
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(child > 0, "fork: %s", strerror(errno));
    waitpid(child, NULL, 0);
}
