// fork in threaded programs: the child finds a heap that works, whatever the other threads were doing, and may do
// everything that its parent could.
#include "check.h"
#include "doors.h"

#include <pthread.h>
#include <sys/wait.h>

static _Atomic int stop;
static _Atomic long forks;

// A pool of blocks that all threads exchange; a child frees all blocks in it.
struct cell {
    size_t size;
    uint64_t seed;
    char bytes[];
};
enum { places = 512 };
static struct cell *_Atomic pool[places];

static size_t some_size(uint64_t *random) {
    uint64_t dice = random_next(random) % 1000;
    size_t limit = dice < 800 ? 400 : dice < 970 ? 8000 : dice < 997 ? 200000 : 2 << 20;
    return random_next(random) % limit;
}

static struct cell *make_cell(uint64_t *random) {
    size_t size = some_size(random);
    struct cell *cell = malloc(sizeof *cell + size);
    CHECK(cell != NULL, "malloc(%zu)", size);
    cell->size = size;
    cell->seed = random_next(random);
    fill(cell->bytes, size, cell->seed);
    return cell;
}

static void check_cell(struct cell *cell) {
    size_t bad = first_difference(cell->bytes, cell->size, cell->seed);
    CHECK(bad == cell->size, "byte %zu of %zu changed", bad, cell->size);
}

static void exchange_one(uint64_t *random) {
    struct cell *mine = make_cell(random);
    struct cell *theirs = __atomic_exchange_n(&pool[random_next(random) % places], mine, __ATOMIC_ACQ_REL);
    if (theirs != NULL) {
        check_cell(theirs);
        if (random_next(random) % 8 == 0) {
            size_t size = sizeof *theirs + theirs->size * 2 + 1;
            theirs = realloc(theirs, size);
            CHECK(theirs != NULL, "realloc to %zu", size);
            check_cell(theirs);
        }
        free(theirs);
    }
}

static void *work(void *seed) {
    uint64_t random = (uintptr_t)seed;
    while (!stop) exchange_one(&random);
    return NULL;
}

static void *work_briefly(void *seed) {
    uint64_t random = (uintptr_t)seed;
    for (int i = 0; i < 300; i++) exchange_one(&random);
    return NULL;
}

static void start_all(pthread_t *threads, int count, void *(*body)(void *), uintptr_t seed) {
    for (int i = 0; i < count; i++) {
        int code = pthread_create(&threads[i], NULL, body, (void *)(seed + i));
        CHECK(code == 0, "pthread_create: %s", strerror(code));
    }
}
static void join_all(pthread_t *threads, int count) {
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void expect_exit_0(pid_t child) {
    int status;
    CHECK(child > 0, "fork: %s", strerror(errno));
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    CHECK(status == 0, "the child ended with status %#x", status);
}

static void all_classes(void) {
    static const size_t large[] = {9000, 20000, 40000, 100000, 300000, 1 << 20, 3 << 20};
    for (size_t size = 0; size < 8300; size += 8 + size / 16) {
        char *block = calloc(1, size);
        CHECK(block != NULL, "calloc(%zu)", size);
        CHECK(first_nonzero(block, size) == size, "calloc(%zu) is not zero", size);
        fill(block, size, size);
        block = realloc(block, size + size / 2);
        CHECK(block != NULL || size == 0, "realloc of %zu", size);
        CHECK(first_difference(block, size, size) == size, "realloc of %zu", size);
        free(block);
    }
    for (int i = 0; i < 7; i++) {
        char *block = malloc(large[i]);
        CHECK(block != NULL, "malloc(%zu)", large[i]);
        memset(block, 1, large[i]);
        block = realloc(block, large[i] * 2);
        CHECK(block != NULL && block[large[i] - 1] == 1, "realloc of %zu", large[i]);
        free(block);
        free(memalign(4096, large[i]));
    }
}

// Everything that a child is promised.
static void be_a_child(void **of_parent, int count, uint64_t seed) {
    alarm(patience(30)); // a deadlock ends here, by a signal
    for (int i = 0; i < count; i += 2) free(of_parent[i]);
    all_classes();
    for (int i = 0; i < places; i++) {
        // The other threads do not exist here, so this is not a race; and a cell was
        // complete before it was published.
        struct cell *cell = pool[i];
        if (cell == NULL) continue;
        check_cell(cell);
        free(cell);
        pool[i] = NULL;
    }
    pthread_t threads[16];
    start_all(threads, 16, work_briefly, seed);
    pid_t grandchild = fork(); // while the new threads work
    if (grandchild == 0) {
        alarm(patience(30));
        all_classes();
        for (int i = 1; i < count; i += 2) free(of_parent[i]);
        _exit(0);
    }
    join_all(threads, 16);
    expect_exit_0(grandchild);
    for (int i = 1; i < count; i += 2) free(of_parent[i]);
    if (malloc_trim != NULL) malloc_trim(0);
    exit(0); // handlers and destructors run
}

static void *fork_repeatedly(void *seed) {
    enum { own = 200 };
    uint64_t random = (uintptr_t)seed;
    void *blocks[own];
    while (!stop) {
        for (int i = 0; i < own; i++) blocks[i] = malloc(some_size(&random));
        pid_t child = fork();
        if (child == 0) be_a_child(blocks, own, random_next(&random));
        for (int i = 0; i < own; i++) free(blocks[i]);
        expect_exit_0(child);
        forks++;
    }
    return NULL;
}

CASE(sixteen_threads_allocate_while_eight_fork) {
    const char *text = getenv("MASU_TEST_SECONDS");
    long seconds = text != NULL ? atol(text) : 5;
    pthread_t workers[16], forkers[8];
    start_all(workers, 16, work, 1000);
    start_all(forkers, 8, fork_repeatedly, 2000);
    sleep_ms(seconds * 1000);
    // On a busy machine a thread may begin seconds later.
    for (int i = 0; forks < 8 && i < patience(40) * 10; i++) sleep_ms(100);
    stop = 1;
    join_all(forkers, 8);
    join_all(workers, 16);
    for (int i = 0; i < places; i++) free(pool[i]);
    CHECK(forks >= 8, "only %ld forks", forks);
    dprintf(1, "%ld forks\n", forks);
}

// A chain: each child forks the next one and goes on allocating.
CASE(fork_in_the_child_of_a_fork_and_so_on) {
    void *block = malloc(100);
    fill(block, 100, 1);
    pid_t top = getpid();
    for (int depth = 0; depth < 12; depth++) {
        free(malloc(depth * 1000));
        pid_t child = fork();
        if (child > 0) {
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0, "depth %d: %#x", depth, status);
            break;
        }
        CHECK(first_difference(block, 100, 1) == 100, "depth %d", depth);
        free(block);
        all_classes();
        block = malloc(100);
        fill(block, 100, 1);
    }
    free(block);
    if (getpid() != top) _exit(0);
}

// As far as the program can tell, the first allocation of all happens in the child.
CASE(the_child_allocates_first) {
    pid_t child = fork();
    if (child == 0) {
        all_classes();
        _exit(0);
    }
    expect_exit_0(child);
    all_classes();
}

static void *fork_once(void *unused) {
    (void)unused;
    void *block = malloc(5000);
    pid_t child = fork();
    if (child == 0) {
        free(block);
        all_classes();
        pthread_exit(NULL); // the only thread of the child: the process exits with code 0
    }
    free(block);
    expect_exit_0(child);
    return NULL;
}

CASE(a_forked_thread_may_end_by_pthread_exit) {
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        start_all(&thread, 1, fork_once, 0);
        join_all(&thread, 1);
    }
}

// The thread that forks has never allocated, and may find the first one anywhere in the engine.
static void *fork_without_a_block(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(patience(10));
            for (size_t size = 1; size < 10 << 20; size *= 5) free(malloc(size));
            _exit(0);
        }
        expect_exit_0(child);
    }
    stop = 1;
    return NULL;
}
CASE(a_thread_that_has_never_allocated_forks) {
    pthread_t forker;
    start_all(&forker, 1, fork_without_a_block, 0);
    while (!stop) {
        for (size_t size = 100; size < 10 << 20; size *= 3) {
            void *volatile block = malloc(size);
            free(block);
        }
    }
    join_all(&forker, 1);
}

// A child's new threads often get the stacks of the parent's threads. They must not be mistaken for those.
static void *hold(void *slot) {
    for (int i = 0; i < 200; i++) ((void **)slot)[i] = malloc(i * 7);
    while (!stop) sleep_ms(1);
    return NULL;
}
CASE(new_threads_of_the_child_are_not_the_dead_ones) {
    static void *held[16][200];
    pthread_t threads[16];
    start_all(threads, 16, work, 1); // noise
    stop = 1;
    join_all(threads, 16);
    stop = 0;
    for (int i = 0; i < 16; i++)
        CHECK(pthread_create(&threads[i], NULL, hold, held[i]) == 0, "thread");
    sleep_ms(50);
    pid_t child = fork();
    if (child == 0) {
        alarm(patience(30));
        for (int round = 0; round < 5; round++) {
            pthread_t fresh[16];
            start_all(fresh, 16, work_briefly, round * 16);
            for (int i = round; i < 16; i += 5)
                for (int j = 0; j < 200; j++) free(held[i][j]);
            join_all(fresh, 16);
        }
        exit(0);
    }
    expect_exit_0(child);
    stop = 1;
    join_all(threads, 16);
}

// A server that holds tens of megabytes grows by huge pages. The workers that it forks do not, however much of its last
// huge page is left.
CASE(a_forked_worker_takes_what_it_needs) {
    static char *held[52 << 10];
    int count = 0;
    for (int part = 0; part < 9; part++) {
        for (int end = part == 0 ? 48 << 10 : count + 256; count < end; count++)
            held[count] = memset(malloc(1000), 1, 1000);
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 300; i++) CHECK(memset(malloc(1000), 2, 1000) != NULL, "malloc");
            long kib = private_kib();
            CHECK(0 < kib && kib < 1024, "300 KiB of blocks take %ld KiB in a worker", kib);
            exit(0);
        }
        expect_exit_0(child);
    }
    while (count > 0) free(held[--count]);
}
