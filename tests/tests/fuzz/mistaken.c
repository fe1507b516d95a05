/* Random programs with one mistake each, every one in a process of its own: a block is freed twice, freed where it does
 * not start, or used after its free. None may go on and be given a byte that another block has.
 *
 *   mistaken [--hardened] SECONDS [SEED]
 *
 * --hardened adds mistakes that only a hardened heap is sure to stop: writes beyond a block, before it and after its
 * free, and frees with too large a size. Prints how many were stopped, and how many went on unharmed; exits with 1 if any
 * was harmed. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 6000, HARMED = 9, HARMLESS = 10, VOID = 11 };

static uint64_t state;
static uint64_t draw(uint64_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state * 0x9e3779b97f4a7c15u >> 20) % n;
}

static void *hide(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

/* The live blocks, each filled with its number. */
static struct {
    char *p;
    size_t size;
} live[MOST];
static size_t lives;
static char *freed;
static int again;

static void check(size_t i) {
    for (size_t at = 0; at + 8 <= live[i].size; at += 8) {
        uint64_t word;
        memcpy(&word, live[i].p + at, 8);
        if (word != (uint64_t)(uintptr_t)live[i].p) _exit(HARMED);
    }
}

static void take(size_t size) {
    if (lives == MOST) return;
    char *p = hide(malloc(size));
    if (!p) _exit(VOID);
    if (p == freed) again = 1;
    for (size_t at = 0; at + 8 <= size; at += 8) {
        uint64_t word = (uint64_t)(uintptr_t)p;
        memcpy(p + at, &word, 8);
    }
    live[lives].p = p;
    live[lives++].size = size;
}

/* Two threads that free blocks on request. They exist from the start, since creating a thread allocates. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *p;
} helpers[2] = {{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL},
    {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL}};

static void *help(void *number) {
    size_t i = (size_t)number;
    pthread_mutex_lock(&helpers[i].lock);
    for (;;) {
        while (!helpers[i].p) pthread_cond_wait(&helpers[i].changed, &helpers[i].lock);
        free(hide(helpers[i].p));
        helpers[i].p = NULL;
        pthread_cond_signal(&helpers[i].changed);
    }
    return NULL;
}

static void begin_helpers(void) {
    pthread_t thread;
    for (size_t i = 0; i < 2; i++)
        if (pthread_create(&thread, NULL, help, (void *)i) != 0) _exit(VOID);
}

/* Frees here, or in another thread. */
static void release(void *p, int elsewhere) {
    if (!elsewhere) {
        free(hide(p));
        return;
    }
    size_t i = draw(2);
    pthread_mutex_lock(&helpers[i].lock);
    helpers[i].p = p;
    pthread_cond_signal(&helpers[i].changed);
    while (helpers[i].p) pthread_cond_wait(&helpers[i].changed, &helpers[i].lock);
    pthread_mutex_unlock(&helpers[i].lock);
}

static void drop(size_t i, int elsewhere) {
    check(i);
    release(live[i].p, elsewhere);
    live[i] = live[--lives];
}

static size_t size_near(size_t size) {
    return draw(8) ? size : 1 + draw(8192);
}

static void *take_some(void *size) {
    for (int i = 0; i < 40; i++) take(size_near((size_t)(uintptr_t)size));
    return NULL;
}

/* This many operations on blocks of about this size. */
static void go_on(size_t size, unsigned n, unsigned elsewhere) {
    while (n--) {
        if (lives == 0 || draw(100) < 55) {
            take(size_near(size));
        } else {
            drop(draw(lives), elsewhere && draw(elsewhere) == 0);
        }
    }
}

static const char *const kinds[] = {"again", "again elsewhere", "elsewhere, then here", "elsewhere twice",
    "inside", "inside, elsewhere", "of a thread that ended", "moved by realloc", "never allocated", "realloc of freed",
    "size of freed", "beyond its end", "before its start", "after its free", "too large a size"};
enum { KINDS = sizeof kinds / sizeof kinds[0], REALLOC = 9, MEASURE, BEYOND, BEFORE, AFTER, SIZED, BY_DEFAULT = BEYOND };

extern void sized_delete(void *, size_t) __asm__("_ZdlPvm");

/* Changes a byte. */
static void change(char *at) { *(volatile char *)at ^= (char)(1 + draw(255)); }

static void program(unsigned kind, size_t size) {
    unsigned frees_elsewhere = draw(3) ? 0 : 60;
    begin_helpers();
    if (kind == 6) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, take_some, (void *)size) != 0) _exit(VOID);
        pthread_join(thread, NULL);
    }
    go_on(size, draw(600), frees_elsewhere);
    take(size);
    size_t chosen = kind == 6 ? draw(lives) : lives - 1;
    char *p = live[chosen].p;
    size = live[chosen].size;
    int before = kind == 2 || kind == 3, after = kind == 1 || kind == 3 || kind == 5;
    if (kind == 4 || kind == 5) {
        if (size < 40) _exit(VOID);
        size_t inside = draw(2) ? 16 * (1 + draw(size / 16 - 1)) : 1 + draw(size - 24);
        if (inside >= size - 16) _exit(VOID);
        release(p + inside, after);
    } else if (kind == 8) {
        /* Beyond the last block that was ever handed out. */
        char *last = p;
        for (size_t i = 0; i < lives; i++)
            if ((uintptr_t)live[i].p >> 16 == (uintptr_t)p >> 16 && live[i].p > last) last = live[i].p;
        last += 16 * (1 + draw(64));
        if ((uintptr_t)last >> 16 != (uintptr_t)p >> 16) _exit(VOID);
        for (size_t i = 0; i < lives; i++)
            if (live[i].p <= last && last < live[i].p + live[i].size) _exit(VOID);
        release(last, 0);
    } else if (kind == BEYOND || kind == BEFORE) {
        /* Longer ones are whole pages, behind which none may be accessible. */
        if (size > 8000) _exit(VOID);
        for (size_t n = 1 + draw(32), i = 0; i < n; i++) change(kind == BEYOND ? p + size + i : p - 1 - i);
        drop(chosen, draw(2) != 0);
    } else if (kind == SIZED) {
        sized_delete(hide(p), size + 1 + draw(1000));
    } else if (kind == AFTER) {
        drop(chosen, 0);
        freed = p;
        go_on(size, draw(40), frees_elsewhere);
        if (again) _exit(VOID);
        change(p + draw(size));
        go_on(size, 1000, frees_elsewhere);
        while (lives < MOST) take(size);
        /* It may still wait, but must not have been handed out. */
        _exit(again ? HARMED : VOID);
    } else {
        if (kind == 7) {
            char *moved = realloc(p, size * 2 + 64);
            if (moved == p) _exit(VOID);
            live[chosen].p = moved;
            live[chosen].size = 0;
        } else {
            drop(chosen, before);
        }
        freed = p;
        go_on(size, draw(4) ? draw(40) : draw(2000), frees_elsewhere);
        if (again) _exit(VOID);
        if (kind == REALLOC) {
            hide(realloc(hide(p), size_near(size)));
        } else if (kind == MEASURE) {
            hide((void *)malloc_usable_size(hide(p)));
        } else {
            release(p, after);
        }
    }
    /* It was not noticed: is a block harmed? */
    freed = NULL;
    go_on(size, 1000, frees_elsewhere);
    while (lives < MOST) take(size);
    for (size_t i = 0; i < lives; i++) check(i);
    _exit(HARMLESS);
}

int main(int argc, char **argv) {
    unsigned of = BY_DEFAULT;
    if (argc > 1 && strcmp(argv[1], "--hardened") == 0) {
        of = KINDS;
        argc--;
        argv++;
    }
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 1000003;
    int one = argc > 2;
    static unsigned stopped[KINDS], harmless[KINDS];
    unsigned wrong = 0;
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        state = ++seed * 0x9e3779b97f4a7c15u | 1;
        for (int i = 0; i < 8; i++) draw(1);
        unsigned kind = draw(of);
        /* Small classes are dense. */
        size_t size = draw(2) ? 1 + draw(256) : 1 + draw(8192);
        fflush(stdout);
        pid_t child = fork();
        if (child < 0) return 3;
        if (child == 0) {
            alarm(20);
            program(kind, size);
        }
        int status;
        waitpid(child, &status, 0);
        /* What lies before a block or beyond it may be inaccessible. */
        int faulted = kind >= BY_DEFAULT && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
        if (faulted || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)) {
            stopped[kind]++;
        } else if (WIFEXITED(status) && WEXITSTATUS(status) == HARMLESS) {
            harmless[kind]++;
            printf("not seen: %s, %zu bytes, seed %llu\n", kinds[kind], size, (unsigned long long)seed - 1);
        } else if (!WIFEXITED(status) || WEXITSTATUS(status) != VOID) {
            printf("harm: %s, %zu bytes, seed %llu, status %x\n", kinds[kind], size,
                (unsigned long long)seed - 1, status);
            wrong++;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!one && wrong < 20 && (double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec) < seconds);
    for (unsigned i = 0; i < of; i++) printf("%s: %u stopped, %u not seen\n", kinds[i], stopped[i], harmless[i]);
    return wrong != 0;
}
