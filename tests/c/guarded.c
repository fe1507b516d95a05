// Programs with one mistake each, and programs without, for blocks between guards.
#include "check.h"
#include "doors.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

static char *volatile block;

CASE(writes_beyond) { block = malloc(100); for (int i = 0; i < 9000; i++) block[100 + i] = 1; }
CASE(writes_before) { block = malloc(100); for (int i = 1; i < 9000; i++) block[-i] = 1; }
CASE(writes_one_beyond_and_frees) { block = malloc(100); block[100] = 0; free(block); puts("alive"); }
CASE(reads_freed) { block = malloc(100); free(block); CHECK(block[50] == 0, "never"); }
CASE(writes_freed) { block = malloc(100); free(block); block[50] = 1; }
CASE(frees_twice) { block = malloc(100); free(block); free(block); puts("alive"); }
CASE(frees_inside) { block = malloc(100); free(block + 32); puts("alive"); }
CASE(resizes_freed) { block = malloc(100); free(block); free(realloc(block, 200)); puts("alive"); }
// Standard error has been closed, and a file of the program's data has its number.
CASE(makes_mistakes_beside_a_file_of_data) {
    char path[] = "/tmp/masu-guarded-XXXXXX", found[64];
    close(2);
    CHECK(mkstemp(path) == 2, "it has not the number");
    unlink(path);
    block = malloc(100);
    block[100] = 0;
    free(block);
    free(block);
    printf("%zd bytes of data\n", pread(2, found, sizeof found, 0));
}
CASE(reads_freed_in_a_thread) {
    block = malloc(3000);
    pthread_t thread;
    pthread_create(&thread, NULL, (void *(*)(void *))free, block);
    pthread_join(thread, NULL);
    CHECK(block[50] == 0, "never");
}

// What the program's own handler saw.
static void *volatile seen;

static void ends_well(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    seen = info->si_addr;
    static const char word[] = "handled\n";
    if (write(1, word, sizeof word - 1) < 0) _exit(2);
    _exit(info->si_addr == block + 50 ? 0 : 1);
}

static void install(int flags) {
    static char stack[16384];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0, "sigaltstack");
    struct sigaction action = {.sa_sigaction = ends_well, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
}

// Before the library is started, if it is linked in and EARLY_HANDLER is set.
static void early(int count, char **arguments, char **environment) {
    (void)count, (void)arguments;
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, "EARLY_HANDLER=", 14) == 0) install(SA_ONSTACK);
    }
}

__attribute__((section(".preinit_array"), used)) static void (*before_all)(int, char **, char **) = early;

CASE(handles_faults_itself) { install(SA_ONSTACK); block = malloc(100); free(block); CHECK(block[50] == 0, "never"); }

static struct sigaction before;

static void passes_on(int number, siginfo_t *info, void *context) {
    static const char word[] = "passed on\n";
    if (write(1, word, sizeof word - 1) < 0) _exit(2);
    CHECK(before.sa_flags & SA_SIGINFO, "the library's handler takes three arguments");
    before.sa_sigaction(number, info, context);
}

CASE(passes_faults_on) {
    struct sigaction action = {.sa_sigaction = passes_on, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    CHECK(sigaction(SIGSEGV, &action, &before) == 0, "sigaction");
    block = malloc(100);
    free(block);
    CHECK(block[50] == 0, "never");
}

CASE(faults_elsewhere) { block = (char *)64; CHECK(block[50] == 0, "never"); }

// A fault in a block without guards: its bytes are not code.
static void jump(size_t size) {
    block = malloc(size);
    memset(block, 0, size);
    ((void (*)(void))(uintptr_t)(block + 48))();
}
CASE(jumps_into_a_block) { jump(200); }
CASE(jumps_into_a_medium_block) { jump(40000); }
CASE(jumps_into_a_huge_block) { jump(3 << 20); }
CASE(is_told_to_end) { raise(SIGSEGV); }

// Guarded blocks have exactly the requested bytes; others have a class's.
CASE(counts_what_is_guarded) {
    long n = 0, all = 200000;
    for (long i = 0; i < all; i++) {
        char *p = malloc(100);
        n += malloc_usable_size(p) == 100;
        free(p);
    }
    printf("%ld of %ld\n", n, all);
}

static long resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%*d %ld", &pages) == 1, "statm");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static long mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    long n = 0;
    for (int c; (c = getc(file)) != EOF;) n += c == '\n';
    fclose(file);
    return n;
}

// As many as half of the slots.
CASE(has_a_thousand) {
    static char *blocks[1000];
    long memory = resident(), maps = mappings(), guarded = 0;
    for (int i = 0; i < 1000; i++) {
        blocks[i] = malloc(100);
        blocks[i][0] = 1;
        guarded += malloc_usable_size(blocks[i]) == 100;
    }
    printf("%ld guarded, %ld KiB, %ld mappings\n", guarded, (resident() - memory) >> 10, mappings() - maps);
    for (int i = 0; i < 1000; i++) free(blocks[i]);
}

// The kernel's memory for inaccessible pages.
CASE(has_page_tables) {
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL, "status");
    while (fgets(line, sizeof line, file)) if (!strncmp(line, "VmPTE:", 6)) fputs(line, stdout);
    fclose(file);
}

static void *works(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed;
    static char *volatile shared[64];
    for (int i = 0; i < 20000; i++) {
        size_t size = random_next(&random) % 9000;
        char *p = i % 3 == 0 ? calloc(1, size) : i % 3 == 1 ? malloc(size) : aligned_alloc(64, (size + 63) & ~(size_t)63);
        CHECK(p != NULL, "memory");
        if (i % 3 == 0) CHECK(first_nonzero(p, size) == size, "not zero");
        memset(p, 1, malloc_usable_size(p));
        if (i % 5 == 0) {
            p = realloc(p, size / 2 + 1);
            memset(p, 2, size / 2 + 1);
        }
        free(__atomic_exchange_n(&shared[random_next(&random) % 64], p, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

// More blocks than slots, so that each slot serves again, in pages that the program has locked.
static void works_on_locked_pages(bool all) {
    for (int i = 0; i < 3000; i++) {
        size_t bytes = all ? 1 + i * 37 % 5000 : 100;
        block = malloc(bytes);
        CHECK(all || mlock(block, bytes) == 0, "mlock: %s", strerror(errno));
        memset(block, i, bytes);
        CHECK(block[bytes - 1] == (char)i, "lost");
        free(block);
    }
}

CASE(locks_blocks) { works_on_locked_pages(false); }
CASE(locks_all) {
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall: %s", strerror(errno));
    works_on_locked_pages(true);
}
CASE(reads_freed_after_it_was_locked) {
    block = malloc(100);
    CHECK(mlock(block, 100) == 0, "mlock: %s", strerror(errno));
    free(block);
    CHECK(block[50] == 0, "never");
}

CASE(works_without_mistakes) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, works, (void *)(i + 1));
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            works((void *)77);
            _exit(0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "a child ends with %d", status);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    puts("done");
}
