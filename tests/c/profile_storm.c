/* The storm of cxx/profile_storm.cc for a C library without C++: threads that load and unload a library, fork, exit and
   take signals, while nearly all allocations are sampled. It ends, or it hangs or crashes. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool stop;
static atomic_uint signals;
static const char *library;

/* The library calls this. */
void fill(void *block, size_t size, uint64_t seed) { memset(block, (int)seed, size); }

static void handler(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* Deep stacks, which signals interrupt. */
__attribute__((noinline)) static size_t deep(int depth) {
    char *volatile text = malloc(100 + (size_t)depth);
    size_t n = depth == 0 ? 1 : 1 + deep(depth - 1);
    free(text);
    return n;
}

static void *recurses(void *unused) {
    while (!stop) {
        if (deep(40) != 41) abort();
    }
    return unused;
}

static void *loads(void *unused) {
    while (!stop) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL) abort();
        free(malloc(700));
        dlclose(handle);
    }
    return unused;
}

static void *forks(void *unused) {
    while (!stop) {
        pid_t child = fork();
        if (child == 0) {
            for (size_t i = 0; i < 50; i++) free(calloc(1, i * 40));
            _exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
    }
    return unused;
}

static void *leaves(void *unused) {
    for (size_t i = 0; i < 30; i++) free(malloc(i * 300));
    return unused;
}

static void *ends(void *unused) {
    while (!stop) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, leaves, NULL) != 0) abort();
        pthread_join(thread, NULL);
    }
    return unused;
}

static void *works(void *unused) {
    static _Thread_local char *blocks[500];
    for (unsigned i = 1; !stop; i++) {
        unsigned at = i * 2654435761u % 500;
        blocks[at] = realloc(blocks[at], 1 + i * 40503u % 20000);
        if (i % 3 == 0) {
            free(blocks[at / 2]);
            blocks[at / 2] = NULL;
        }
    }
    for (int i = 0; i < 500; i++) free(blocks[i]);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int milliseconds = atoi(argv[1]);
    library = argv[2];
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    void *(*const bodies[])(void *) = {recurses, recurses, loads, forks, ends, works, works};
    enum { THREADS = sizeof bodies / sizeof *bodies };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, bodies[i], NULL) != 0) abort();
    }
    for (int i = 0; i < milliseconds; i++) {
        usleep(1000);
        for (int t = 0; t < THREADS; t++) pthread_kill(threads[t], SIGUSR1);
    }
    stop = 1;
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    puts(signals > 0 ? "ended" : "no signals");
    return signals == 0;
}
