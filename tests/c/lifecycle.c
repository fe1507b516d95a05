// Before main, after main, and between: constructors, exit handlers, signal handlers.
#include "check.h"
#include "doors.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

// Runs before every constructor, those of preloaded libraries included.
static char *from_preinit, *from_constructor, *from_late_constructor;
static void preinit(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    char *first = calloc(1, 100);
    if (first == NULL) return; // noticed in the case
    from_preinit = realloc(first, 3000);
    fill(from_preinit, 3000, 1);
    free(malloc(2 << 20));
}
__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(int, char **, char **) = preinit;

__attribute__((constructor(101))) static void construct(void) {
    from_constructor = malloc(5000);
    fill(from_constructor, 5000, 2);
}
__attribute__((constructor)) static void construct_late(void) {
    from_late_constructor = memalign(512, 2 << 20);
    fill(from_late_constructor, 2 << 20, 3);
}

CASE(blocks_made_before_main_are_whole) {
    CHECK(from_preinit != NULL, "no memory in .preinit_array");
    CHECK(first_difference(from_preinit, 3000, 1) == 3000, "from .preinit_array");
    CHECK(first_difference(from_constructor, 5000, 2) == 5000, "from a constructor");
    CHECK(first_difference(from_late_constructor, 2 << 20, 3) == 2 << 20, "from a constructor");
    from_preinit = realloc(from_preinit, 100000);
    CHECK(first_difference(from_preinit, 3000, 1) == 3000, "grown");
    free(from_preinit);
    free(from_constructor);
    free(from_late_constructor);
}

// The order at exit: handlers in reverse, then destructors. Each allocates and frees blocks that
// another left. The last one prints a line, which the test looks for.
static char *carried;
static int exiting;
static void carry(size_t size) {
    if (carried != NULL) CHECK(first_difference(carried, 1000, 4) == 1000, "what was carried changed");
    free(carried);
    carried = malloc(size);
    fill(carried, 1000, 4);
}
static void first_handler(void) { carry(100000); }
static void second_handler(void) {
    carry(3 << 20);
    atexit(first_handler); // registered while exiting
}
static void status_handler(int status, void *argument) {
    (void)status, (void)argument;
    carry(2000);
}
__attribute__((destructor)) static void destruct(void) {
    if (!exiting) return;
    carry(1500);
    free(carried);
    if (malloc_trim != NULL) malloc_trim(0);
    dprintf(1, "destructor done\n");
}

CASE(exit_handlers_and_destructors_allocate) {
    exiting = 1;
    for (int i = 0; i < 100; i++) atexit(first_handler); // glibc allocates beyond 32
    atexit(second_handler);
    on_exit(status_handler, NULL);
    exit(0);
}

static void *allocate_for_ever(void *unused) {
    uint64_t random = (uintptr_t)&random;
    for (;;) {
        void *block = malloc(random_next(&random) % 20000);
        free(malloc(random_next(&random) % 300));
        free(block);
    }
    return unused;
}

static void make_noise(int threads) {
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0, "thread");
    }
    sleep_ms(20);
}

CASE(exit_while_other_threads_allocate) {
    exiting = 1;
    make_noise(6);
    atexit(first_handler);
    exit(0);
}

static void quick(void) {
    carry(1000);
    dprintf(1, "destructor done\n");
}
CASE(quick_exit_while_other_threads_allocate) {
    make_noise(6);
    at_quick_exit(quick);
    quick_exit(0);
}

// main ends first; the process goes on until the last thread has.
static void *outlive_main(void *unused) {
    sleep_ms(50);
    for (int i = 0; i < 1000; i++) free(malloc(i * 10));
    dprintf(1, "destructor done\n");
    return unused;
}
CASE(threads_outlive_main) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, outlive_main, NULL) == 0, "thread");
    free(malloc(100));
    pthread_exit(NULL);
}

// Signal handlers that allocate while the thread is outside the allocator. That is more than POSIX
// allows, and real programs do it.
static _Atomic int signals;
static void *_Atomic kept[64];
static void allocate_in_handler(int number) {
    (void)number;
    int saved = errno;
    int turn = signals++;
    char *block = malloc(turn % 7 * 900 + 1);
    memset(block, 1, turn % 7 * 900 + 1);
    block = realloc(block, turn % 5 * 3000 + 10);
    free(__atomic_exchange_n(&kept[turn % 64], block, __ATOMIC_ACQ_REL));
    errno = saved;
}

static void interrupt_for(long milliseconds, int flags) {
    struct sigaction action = {.sa_handler = allocate_in_handler, .sa_flags = flags};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &timer, NULL);
    // On a busy machine the thread may get so little of this time that hardly a signal comes.
    long end = now_ms() + milliseconds, last = end + 20000;
    volatile unsigned sum = 0;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    while (now_ms() < end || (signals <= 50 && now_ms() < last)) {
        for (int i = 0; i < 1000; i++) sum += i; // outside the allocator: interruptible
        sigprocmask(SIG_BLOCK, &alarm, NULL);
        free(malloc(sum % 10000)); // inside: not
        sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    }
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 64; i++) {
        free(kept[i]);
        kept[i] = NULL;
    }
}

CASE(signal_handlers_allocate) {
    interrupt_for(500, 0);
    CHECK(signals > 50, "only %d signals came", signals);
}

CASE(signal_handlers_allocate_on_a_small_alternate_stack) {
    static char stack[16384];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0, "sigaltstack");
    interrupt_for(500, SA_ONSTACK);
    CHECK(signals > 50, "only %d signals came", signals);
}

static void *be_interrupted(void *unused) {
    volatile unsigned sum = 0;
    while (signals < 200) sum++;
    return unused;
}

// The handler is the first thing in its thread that allocates.
CASE(signal_handlers_allocate_in_threads_that_never_did) {
    struct sigaction action = {.sa_handler = allocate_in_handler};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, be_interrupted, NULL) == 0, "thread");
    while (signals < 200) {
        int before = signals;
        pthread_kill(thread, SIGUSR1);
        while (signals == before) sched_yield();
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < 64; i++) free(kept[i]);
}
