// What memory tags do for a hardened process on a processor that has them ("on"); that nothing differs without them
// ("off"); or one mistake ("mistake"). Mistakes are made in children: each must end at the access, or with masu's line.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG_FAULT 9 // SEGV_MTESERR
#define FAULTED 77

// An arena under jemalloc's names, whose blocks are a first-class heap's.
__attribute__((weak)) int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);
__attribute__((weak)) void *mallocx(size_t size, int flags);

static int failures;

#define CHECK(what)                                                  \
    do {                                                             \
        if (!(what)) {                                               \
            fprintf(stderr, "tags.c:%d: %s\n", __LINE__, #what);     \
            failures++;                                              \
        }                                                            \
    } while (0)

static unsigned tag(const void *p) { return (uintptr_t)p >> 56; }
static uintptr_t plain(const void *p) { return (uintptr_t)p & ((uintptr_t)-1 >> 8); }

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    _exit(info->si_code == TAG_FAULT ? FAULTED : 1);
}

// How a child with a mistake ends: FAULTED, SIGABRT, or 0 if the mistake is not noticed.
static int end_of(void (*mistake)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, NULL);
        mistake();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
}

static volatile char sink;
static char *block;

static void read_after_free(void) { free(block); sink = block[3]; }
static void write_after_free(void) { free(block); block[3] = 1; }
static void read_what_is_the_parents(void) { sink = block[3]; }
static void overflow(void) { block[112] = 1; }
static void overflow_within_the_slot(void) { sink = block[96]; }
static void underflow(void) { sink = block[-1]; }
static void free_twice(void) { free(block); free(block); }
static void resize_after_free(void) { free(block); block = realloc(block, 200); }
static void measure_after_free(void) { free(block); sink = (char)malloc_usable_size(block); }
static void shrink_and_read(void) {
    block = realloc(block, 97);
    sink = block[96];
    block = realloc(block, 96);
    sink = block[96];
}
static void no_tag(void) { sink = ((char *)plain(block))[3]; }
static void free_without_tag(void) { free((void *)plain(block)); }

// The next block in the slot of one that was freed.
static char *next_in_slot(char *freed) {
    for (int i = 0; i < 1000000; i++) {
        char *p = malloc(90);
        if (plain(p) == plain(freed))
            return p;
        free(p);
    }
    return NULL;
}

static void use_a_block_that_follows(void) { free(block); if (next_in_slot(block)) sink = block[3]; }
static void free_a_block_that_follows(void) { free(block); if (next_in_slot(block)) free(block); }

static void *read_there(void *argument) {
    (void)argument;
    sink = block[3];
    return NULL;
}

static void read_in_a_thread(void) {
    pthread_t id;
    free(block);
    pthread_create(&id, NULL, read_there, NULL);
    pthread_join(id, NULL);
}

static int by_address(const void *a, const void *b) {
    uintptr_t left = plain(*(char **)a), right = plain(*(char **)b);
    return (left > right) - (left < right);
}

enum { MANY = 3000 };

// Adjacent blocks of a size have different tags, all of which are used.
static void neighbours(char **blocks, size_t count, size_t stride) {
    unsigned seen = 0, pairs = 0;
    qsort(blocks, count, sizeof *blocks, by_address);
    for (size_t i = 0; i < count; i++) {
        seen |= 1u << tag(blocks[i]);
        if (i != 0 && plain(blocks[i]) - plain(blocks[i - 1]) == stride) {
            pairs++;
            CHECK(tag(blocks[i]) != tag(blocks[i - 1]));
        }
    }
    CHECK(seen == 0xfffe);
    CHECK(pairs > count / 4);
}

static char *of_threads[4][MANY];

static void *thread(void *argument) {
    char **own = argument;
    for (int round = 0; round < 4; round++)
        for (int i = round % 2; i < MANY; i += 1 + (round + 1) % 2) {
            free(own[i]);
            own[i] = malloc(24);
            memset(own[i], i, 24);
        }
    return NULL;
}

static void threads(int on) {
    static char *all[4 * MANY];
    pthread_t ids[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&ids[i], NULL, thread, of_threads[i]) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(ids[i], NULL);
        memcpy(all + i * MANY, of_threads[i], sizeof of_threads[i]);
    }
    if (on)
        neighbours(all, 4 * MANY, 32);
    for (int i = 0; i < 4 * MANY; i++)
        free(all[i]);
}

// What correct programs do.
static void correct(int on) {
    static char *blocks[MANY];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            size_t size = 1 + i % 600 * 13;
            switch (i % 3) {
            case 0: blocks[i] = malloc(size); break;
            case 1: blocks[i] = calloc(1, size); break;
            default: blocks[i] = memalign(1u << (4 + i % 7), size);
            }
            CHECK((tag(blocks[i]) != 0) == (on && size <= 8184));
            CHECK(malloc_usable_size(blocks[i]) == size && blocks[i][size - 1] == 0);
            memset(blocks[i], 7, size);
        }
        for (int i = 0; i < MANY; i += 2) {
            size_t size = 1 + i % 600 * 13, more = size + i % 40;
            blocks[i] = realloc(blocks[i], more);
            CHECK(blocks[i][0] == 7 && blocks[i][size - 1] == 7);
            memset(blocks[i], 7, more);
        }
        for (int i = 0; i < MANY; i++)
            free(blocks[i]);
        // Their pages go back, and the tags with them.
        malloc_trim(0);
    }
    for (int i = 0; i < MANY; i++)
        memset(blocks[i] = malloc(24), 1, 24);
    if (on)
        neighbours(blocks, MANY, 32);
    // The kernel accepts tagged pointers.
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], blocks[0], 24) == 24 && read(ends[0], blocks[1], 24) == 24);
    for (int i = 0; i < MANY; i++)
        free(blocks[i]);
    unsigned arena;
    CHECK(mallctl("arenas.create", &arena, &(size_t){sizeof arena}, NULL, 0) == 0);
    char *of_heap = mallocx(100, (int)((arena + 1) << 20));
    CHECK((tag(of_heap) != 0) == on && malloc_usable_size(of_heap) >= 100);
    memset(of_heap, 1, 100);
    free(realloc(of_heap, 200));
    void *large = malloc(100000), *larger = malloc(1 << 20);
    CHECK(tag(large) == 0 && tag(larger) == 0);
    free(large);
    free(larger);
}

static void child_goes_on(void) {
    block[0] = 1;
    free(block);
    correct(tag(block) != 0);
    _exit(failures == 0 ? 0 : 1);
}

int main(int argc, char **argv) {
    int on = argc > 1 && strcmp(argv[1], "on") == 0;
    block = malloc(90);
    memset(block, 1, 90);
    if (argc > 1 && strcmp(argv[1], "mistake") == 0)
        read_after_free();
    correct(on);
    CHECK((tag(block) != 0) == on);
    CHECK(end_of(child_goes_on) == 0);
    CHECK(end_of(free_twice) == SIGABRT);
    CHECK(end_of(resize_after_free) == SIGABRT);
    CHECK(end_of(measure_after_free) == SIGABRT);
    if (on) {
        CHECK(end_of(read_after_free) == FAULTED);
        CHECK(end_of(write_after_free) == FAULTED);
        CHECK(end_of(read_what_is_the_parents) == 0);
        CHECK(end_of(read_in_a_thread) == FAULTED);
        CHECK(end_of(overflow) == FAULTED);
        CHECK(end_of(overflow_within_the_slot) == FAULTED);
        CHECK(end_of(underflow) == FAULTED);
        CHECK(end_of(shrink_and_read) == FAULTED);
        CHECK(end_of(no_tag) == FAULTED);
        CHECK(end_of(free_without_tag) == SIGABRT);
        CHECK(end_of(use_a_block_that_follows) == FAULTED);
        CHECK(end_of(free_a_block_that_follows) == SIGABRT);
    }
    threads(on);
    if (failures == 0)
        puts("as it should be");
    return failures != 0;
}
