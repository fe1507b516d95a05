// A fork waits for locks that the allocator knows nothing of: the C library's, and those that other fork handlers take.
// Their holders may be allocating. A case that hangs is ended by an alarm.
#include "check.h"
#include "doors.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

enum { RUN_MS = 400, HANGS_AFTER_S = 60 };

static _Atomic int stop;

static void expect_success(pid_t child) {
    int status;
    CHECK(child > 0, "no child: %s", strerror(errno));
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

// A child's work: small, medium and huge blocks of its own.
static int allocates(void) {
    size_t sizes[] = {24, 700, 5000, 40000, 600000, 3 << 20};
    void *blocks[6 * 8];
    for (int i = 0; i < 6 * 8; i++) {
        blocks[i] = malloc(sizes[i % 6]);
        if (!blocks[i]) return 0;
        fill(blocks[i], sizes[i % 6], i);
    }
    for (int i = 0; i < 6 * 8; i++) {
        if (first_difference(blocks[i], sizes[i % 6], i) != sizes[i % 6]) return 0;
        free(blocks[i]);
    }
    return 1;
}

// ---- the load: the locks of stdio, held while threads allocate

// Reads lines that grow, so that getline resizes its buffer while it has the FILE's lock.
static void *read_lines(void *unused) {
    FILE *file = tmpfile();
    CHECK(file != NULL, "tmpfile: %s", strerror(errno));
    for (size_t length = 1; length < 400000; length = length * 3 + 1) {
        for (size_t i = 0; i < length; i++) putc('x', file);
        putc('\n', file);
    }
    while (!stop) {
        rewind(file);
        char *line = NULL;
        size_t size = 0;
        while (getline(&line, &size, file) > 0) {}
        free(line);
    }
    fclose(file);
    return unused;
}

// Holds the lock of the list of FILEs while it waits for each of them.
static void *flush_all(void *unused) {
    // With a pause: if the lock were retaken at once, no other thread could get it.
    while (!stop) {
        fflush(NULL);
        usleep(50);
    }
    return unused;
}

static void *allocate(void *unused) {
    uint64_t random = (uintptr_t)&random;
    while (!stop) {
        size_t size = random_next(&random) % (random_next(&random) % 8 ? 3000 : 100000);
        free(realloc(malloc(size), size * 2 + 1));
    }
    return unused;
}

// The lock of a library with fork handlers, held while others allocate and print.
static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;

static void *hold_and_allocate(void *unused) {
    FILE *sink = fopen("/dev/null", "w");
    while (!stop) {
        pthread_mutex_lock(&library);
        for (int i = 1; i < 50; i++) free(malloc(i * 3000));
        fprintf(sink, "%s\n", "a line");
        pthread_mutex_unlock(&library);
    }
    fclose(sink);
    return unused;
}

enum { LOAD = 6 };
static pthread_t load[LOAD];

static void begin_load(void) {
    void *(*work[LOAD])(void *) = {read_lines, read_lines, flush_all, flush_all, allocate,
                                   hold_and_allocate};
    alarm(patience(HANGS_AFTER_S));
    stop = 0;
    for (int i = 0; i < LOAD; i++)
        CHECK(pthread_create(&load[i], NULL, work[i], NULL) == 0, "thread");
}

static void end_load(void) {
    stop = 1;
    for (int i = 0; i < LOAD; i++) pthread_join(load[i], NULL);
    alarm(0);
}

static void under_load(void (*make_a_process)(void)) {
    begin_load();
    int made = 0;
    for (long end = now_ms() + RUN_MS; now_ms() < end; made++) make_a_process();
    end_load();
    CHECK(made != 0, "no process");
}

static void by_fork(void) {
    void *mine = malloc(100);
    pid_t child = fork();
    if (child == 0) {
        free(mine);
        _exit(allocates() ? 0 : 1);
    }
    free(mine);
    expect_success(child);
}

static void by_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    expect_success(child);
}

static void by_posix_spawn(void) {
    char *arguments[] = {"true", NULL};
    pid_t child;
    CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0, "posix_spawn");
    expect_success(child);
}

static void by_system(void) { CHECK(system("true") == 0, "system"); }

static void by_popen(void) {
    FILE *pipe = popen("echo word", "r");
    CHECK(pipe != NULL, "popen: %s", strerror(errno));
    char word[8] = "";
    CHECK(fgets(word, sizeof word, pipe) && strcmp(word, "word\n") == 0, "%s", word);
    CHECK(pclose(pipe) == 0, "pclose");
}

// If the C library has it: like daemon, it forks internally.
extern int forkpty(int *, char *, const void *, const void *) __attribute__((weak));

static void by_forkpty(void) {
    int terminal;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child < 0) return; // no terminals here
    if (child == 0) _exit(allocates() ? 0 : 1);
    expect_success(child);
    close(terminal);
}

// Without handlers: the child may do only what a signal handler may.
static void by_raw_clone(void) {
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    expect_success(child);
}

extern pid_t _Fork(void) __attribute__((weak));

static void by_plain_fork(void) {
    pid_t child = _Fork();
    if (child == 0) _exit(0);
    expect_success(child);
}

CASE(fork_under_load) { under_load(by_fork); }
CASE(vfork_under_load) { under_load(by_vfork); }
CASE(posix_spawn_under_load) { under_load(by_posix_spawn); }
CASE(system_under_load) { under_load(by_system); }
CASE(popen_under_load) { under_load(by_popen); }
CASE(daemon_under_load) {
    for (int i = 0; i < 4; i++) {
        int answer[2];
        CHECK(pipe(answer) == 0, "pipe: %s", strerror(errno));
        pid_t child = fork();
        if (child == 0) {
            begin_load();
            sleep_ms(20);
            // Ends this process; nobody can wait for the next one, so it answers.
            if (daemon(1, 1) != 0) _exit(9);
            alarm(patience(HANGS_AFTER_S));
            _exit(allocates() && write(answer[1], "", 1) == 1 ? 0 : 1);
        }
        close(answer[1]);
        expect_success(child);
        char byte;
        CHECK(read(answer[0], &byte, 1) == 1, "the daemon could not allocate");
        close(answer[0]);
    }
}
CASE(raw_clone_under_load) { under_load(by_raw_clone); }
CASE(forkpty_under_load) {
    if (forkpty) under_load(by_forkpty);
}
CASE(plain_fork_under_load) {
    if (_Fork) under_load(by_plain_fork);
}

static void *fork_on_and_on(void *unused) {
    while (!stop) by_fork();
    return unused;
}

CASE(four_threads_fork_under_load) {
    begin_load();
    pthread_t forks[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&forks[i], NULL, fork_on_and_on, NULL) == 0, "thread");
    sleep_ms(RUN_MS);
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(forks[i], NULL);
    end_load();
}

// ---- handlers of libraries

static void allocate_and_print(void) {
    for (int i = 0; i < 40; i++) free(malloc(i * 2000));
    FILE *sink = fopen("/dev/null", "w");
    fprintf(sink, "%d\n", 1);
    fclose(sink);
}

static void use_everything(void) {
    allocate_and_print();
    fflush(NULL);
}

static void take(void) {
    pthread_mutex_lock(&library);
    use_everything();
}
static void give(void) {
    use_everything();
    pthread_mutex_unlock(&library);
}
// glibc frees the locks of all FILEs in a child; musl keeps locks held by threads that no longer exist.
static void give_in_child(void) {
#ifdef __GLIBC__
    use_everything();
#else
    allocate_and_print();
#endif
    pthread_mutex_unlock(&library);
}

static void a_second_thread_allocates(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, read_lines, NULL) == 0, "thread");
    stop = 1;
    pthread_join(thread, NULL);
}

CASE(handlers_from_before_threads_under_load) {
    pthread_atfork(take, give, give_in_child);
    under_load(by_fork);
}

CASE(handlers_from_after_threads_under_load) {
    a_second_thread_allocates();
    pthread_atfork(take, give, give_in_child);
    under_load(by_fork);
}

// ---- a handler that waits for another thread, which does everything possible

enum { BLOCKS = 64 };
static sem_t asked, done;
static _Atomic int asking;
static void *kept[BLOCKS], *given[BLOCKS];
static size_t kept_size[BLOCKS];

static size_t some_size(int i) {
    // Huge blocks are rare, since blocks are compared byte by byte.
    size_t sizes[] = {16, 100, 1000, 4000, 8192, 9000, 40000, 16, 2500, 100};
    return (i % 32 == 31 ? 1100000 : i % 8 == 7 ? 150000 : sizes[i % 10]) + i / 10;
}

static void *short_life(void *unused) {
    // Including the destructors of a thread that has used the allocator.
    for (int i = 0; i < 30; i++) free(malloc(some_size(i)));
    return unused;
}

static void work(void) {
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = some_size(i + round);
            unsigned char *block;
            switch ((i + round) % 5) {
            case 0: block = malloc(size); break;
            case 1:
                block = calloc(1, size);
                CHECK(first_nonzero(block, size) == size, "calloc(%zu)", size);
                break;
            case 2: {
                size_t align = (size_t)32 << i % 12;
                block = aligned_alloc(align, size);
                CHECK((uintptr_t)block % align == 0, "%p at %zu", (void *)block, align);
                break;
            }
            case 3:
                block = malloc(size / 3 + 1);
                fill(block, size / 3 + 1, i);
                block = realloc(block, size);
                CHECK(first_difference(block, size / 3 + 1, i) == size / 3 + 1, "realloc");
                break;
            default: block = realloc(malloc(size * 2), size);
            }
            CHECK(block != NULL && (uintptr_t)block % 16 == 0, "%zu bytes", size);
            CHECK(malloc_usable_size(block) >= size, "%zu of %zu", malloc_usable_size(block), size);
            fill(block, size, i);
            if (kept[i]) {
                CHECK(first_difference(kept[i], kept_size[i], i) == kept_size[i], "block %d", i);
                free(kept[i]);
            }
            kept[i] = block;
            kept_size[i] = size;
            // From the thread that forks.
            free(given[i]);
            given[i] = NULL;
        }
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) CHECK(!pthread_create(&threads[i], NULL, short_life, NULL), "thread");
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    }
    malloc_trim(0);
}

static void *work_when_asked(void *unused) {
    for (;;) {
        while (sem_wait(&asked) != 0) {}
        if (stop) return unused;
        work();
        sem_post(&done);
    }
}

static void ask(void) {
    if (!asking) return;
    sem_post(&asked);
    while (sem_wait(&done) != 0) {}
}

static void check_kept(void) {
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(first_difference(kept[i], kept_size[i], i) == kept_size[i], "block %d", i);
        // Half of them were allocated during a fork and are resized after it.
        if (i % 2) {
            kept[i] = realloc(kept[i], kept_size[i] + 5000);
            CHECK(first_difference(kept[i], kept_size[i], i) == kept_size[i], "block %d", i);
        }
        free(kept[i]);
        kept[i] = NULL;
    }
}

static void a_handler_waits(int is_late) {
    alarm(patience(HANGS_AFTER_S));
    sem_init(&asked, 0, 0);
    sem_init(&done, 0, 0);
    if (!is_late) pthread_atfork(ask, NULL, NULL);
    pthread_t worker;
    CHECK(pthread_create(&worker, NULL, work_when_asked, NULL) == 0, "thread");
    // The worker has a heap before the first fork.
    sem_post(&asked);
    while (sem_wait(&done) != 0) {}
    if (is_late) pthread_atfork(ask, NULL, NULL);
    asking = 1;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < BLOCKS; i++) given[i] = malloc(some_size(i * 7 + round));
        pid_t child = fork();
        if (child == 0) {
            check_kept();
            pthread_t thread;
            CHECK(!pthread_create(&thread, NULL, short_life, NULL), "thread");
            pthread_join(thread, NULL);
            asking = 0;
            by_fork();
            _exit(allocates() ? 0 : 1);
        }
        check_kept();
        expect_success(child);
    }
    stop = 1;
    asking = 0;
    sem_post(&asked);
    pthread_join(worker, NULL);
    alarm(0);
}

CASE(an_early_handler_waits_for_a_thread_that_allocates) { a_handler_waits(0); }
CASE(a_late_handler_waits_for_a_thread_that_allocates) { a_handler_waits(1); }

// Memory that was freed meanwhile is not lost.
CASE(forks_that_wait_leak_nothing) {
    alarm(patience(HANGS_AFTER_S));
    a_handler_waits(0);
    stop = 0;
    malloc_trim(0);
    long before = resident_kib();
    a_handler_waits(0);
    malloc_trim(0);
    long after = resident_kib();
    CHECK(after < before + 4096, "%ld KiB before, %ld after", before, after);
}
