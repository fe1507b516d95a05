// An allocator with one planted fault, for the tests to find: a thin layer over glibc's
// malloc. MASU_TEST_FAULT names the fault; without it everything is as it should be.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static const char *fault = "";
static int armed; // only once the program itself runs
static int main_is_over, in_handler;
static pid_t first_process;
static pthread_key_t end_of_thread;

static int is(const char *name) { return armed && strcmp(fault, name) == 0; }

// A block at an odd place inside a larger one; free and others find it by its mark.
struct mark { uintptr_t sign; void *base; };
static void *offset_block(size_t size, size_t offset) {
    if (size > (size_t)PTRDIFF_MAX) return __libc_malloc(size);
    char *base = __libc_malloc(size + offset + 32);
    if (base == NULL) return NULL;
    char *block = base + 16 + offset;
    ((struct mark *)block)[-1] = (struct mark){(uintptr_t)block ^ 0x5ca1ab1e, base};
    return block;
}
static void *base_of(void *block) {
    struct mark *mark = (struct mark *)block - 1;
    return mark->sign == ((uintptr_t)block ^ 0x5ca1ab1e) ? mark->base : NULL;
}

// The last blocks given to this thread, or since some event to any thread: to be spoilt.
enum { ring = 256 };
static __thread void *recent[ring];
static __thread unsigned recent_at;
static void remember(void *block) { recent[recent_at++ % ring] = block; }
static void forget(void *block) {
    for (int i = 0; i < ring; i++)
        if (recent[i] == block) recent[i] = NULL;
}
static void spoil_recent(void) {
    for (int i = 0; i < ring; i++)
        if (recent[i] != NULL) {
            char *bytes = recent[i];
            size_t size = malloc_usable_size(bytes);
            for (size_t at = 0; at < size && at < 200; at++) bytes[at] ^= 0x55;
            recent[i] = NULL;
        }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void take(void) { pthread_mutex_lock(&lock); }
static void drop(void) { pthread_mutex_unlock(&lock); }

static __thread int dead, started;
static void thread_ends(void *unused) {
    (void)unused;
    if (is("dead-thread-aborts")) dead = 1;
    if (is("dead-thread-spoils")) spoil_recent();
}
static void thread_starts(void) {
    if (started) return;
    started = 1;
    pthread_setspecific(end_of_thread, "armed");
    if (is("thread-leaks")) memset(__libc_malloc(16384), 1, 16384);
    pthread_key_t key;
    if (is("key-per-thread") && pthread_key_create(&key, NULL) != 0) abort();
    static int is_registered;
    if (is("lock-over-fork-of-threads") && gettid() != getpid() && !is_registered++) pthread_atfork(take, drop, drop);
}


static int overlap_count;
static void *_Atomic handed_out, *_Atomic twice;

__attribute__((noinline)) static void hog_stack(void) {
    volatile char much[14000];
    for (size_t i = 0; i < sizeof much; i += 512) much[i] = 1;
}

// Faults before any allocation. True: the answer is NULL.
static int spoilt(void) {
    static int calls;
    if (!armed) return 0;
    thread_starts();
    if (is("odd-system-call")) { char byte; getrandom(&byte, 1, 0); }
    if (is("crash-late") && __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) == 200) abort();
    if (is("stack-hog")) hog_stack();
    if (dead || (is("dead-at-exit") && main_is_over)) abort();
    if (is("dead-in-handler") && in_handler) abort();
    if (is("lock-not-for-fork") || is("lock-over-fork") || is("lock-over-fork-of-threads")) {
        take();
        for (volatile int i = 0; i < 3000; i++) {}
        drop();
    }
    static int has_grown;
    if (is("child-grows") && getpid() != first_process && !has_grown++) memset(__libc_malloc(4 << 20), 1, 4 << 20);
    return is("null-in-child") && getpid() != first_process;
}
static void *answer(void *block) {
    static int has_failed;
    if (block == NULL && is("no-enomem")) errno = 0;
    if (block == NULL && is("failure-is-no-null")) return (void *)4096;
    if (is("fails-for-good") && (has_failed |= block == NULL)) return NULL;
    if (block != NULL && is("success-sets-errno")) errno = EAGAIN;
    if (block != NULL && armed) remember(block);
    return block;
}

void *malloc(size_t size) {
    if (spoilt()) return NULL;
    if (is("misaligned")) return answer(offset_block(size, 8));
    if (is("one-empty-block") && size == 0) { static char empty[16]; return empty; }
    if (is("overcommits") && size > (size_t)1 << 30 && size < (size_t)1 << 46)
        return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (is("large-is-null") && size > (size_t)512 << 20) return NULL;
    if (is("impossible-succeeds") && size > (size_t)1 << 46) return __libc_malloc(64);
    if (is("overlap") && size >= 8) {
        void *last = handed_out;
        if (last != NULL && twice == NULL && malloc_usable_size(last) >= size &&
            ++overlap_count % 3 == 0) {
            twice = last;
            return last;
        }
        void *block = __libc_malloc(size);
        if (twice == NULL) handed_out = block;
        return answer(block);
    }
    return answer(__libc_malloc(size));
}

void free(void *block) {
    if (block == NULL) return;
    if (spoilt()) return;
    if (armed) forget(block);
    if (is("free-leaks")) return;
    if (is("free-sets-errno")) errno = EINVAL;
    if (is("one-empty-block") && malloc_usable_size(block) == 0) return;
    if (is("overlap")) {
        if (block == twice) { twice = NULL; return; }
        if (block == handed_out) handed_out = NULL;
    }
    void *base = base_of(block);
    if (base != NULL) ((struct mark *)block)[-1].sign = 0;
    __libc_free(base != NULL ? base : block);
}

// Called before the C library has an environment.
static int null_before_main(void) {
    char text[8192];
    int file = open("/proc/self/environ", O_RDONLY);
    ssize_t length = read(file, text, sizeof text);
    close(file);
    static const char wanted[] = "MASU_TEST_FAULT=null-before-main";
    return length > 0 && memmem(text, length, wanted, sizeof wanted) != NULL;
}

void *calloc(size_t count, size_t size) {
    if (spoilt()) return NULL;
    if (!armed && count == 1 && size == 100 && null_before_main()) return NULL;
    if (is("no-overflow-check")) return __libc_calloc(1, count * size);
    if (is("misaligned") && size < 1 << 30) {
        void *block = offset_block(count * size, 8);
        return block != NULL ? memset(block, 0, count * size) : NULL;
    }
    if (is("one-empty-block") && count * size == 0) return malloc(0);
    char *block = __libc_calloc(count, size);
    if (block != NULL && is("calloc-is-dirty") && count * size > 1) block[count * size - 1] = 1;
    return answer(block);
}

size_t malloc_usable_size(void *block) {
    static size_t (*real)(void *);
    static unsigned calls;
    if (block == NULL) return is("usable-of-null") ? 8 : 0;
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "malloc_usable_size");
    void *base = base_of(block);
    if (base != NULL) return real(base) - ((char *)block - (char *)base);
    size_t usable = real(block);
    if (is("one-empty-block") && usable < 24) return 0;
    if (is("usable-too-much")) return usable + 64;
    if (is("usable-too-little")) return usable / 2;
    if (is("usable-drifts") && ++calls % 64 == 0) return usable - 1;
    return usable;
}

void *realloc(void *block, size_t size) {
    if (spoilt()) return NULL;
    if (block == NULL) return is("realloc-of-null-fails") ? NULL : malloc(size);
    if (size == 0 && is("realloc-to-zero-leaks")) return NULL;
    if (armed) forget(block);
    if (size > (size_t)PTRDIFF_MAX) {
        if (is("failed-realloc-spoils")) *(char *)block ^= 1;
        return answer(__libc_realloc(block, size));
    }
    size_t before = malloc_usable_size(block), kept = before < size ? before : size;
    if (base_of(block) != NULL || is("realloc-copies")) {
        void *moved = malloc(size);
        if (moved == NULL) return NULL;
        memcpy(moved, block, kept);
        free(block);
        return moved;
    }
    char *moved = __libc_realloc(block, size);
    if (moved != NULL && kept > 0 && is("realloc-spoils-the-end")) moved[kept - 1] ^= 1;
    if (moved != NULL && kept > 0 && is("realloc-spoils-the-middle")) moved[kept / 2] = 0;
    return answer(moved);
}

void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) && !is("no-overflow-check")) {
        if (is("failed-realloc-spoils") && block != NULL) *(char *)block ^= 1;
        errno = is("no-enomem") ? 0 : ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

static int power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }
void *memalign(size_t alignment, size_t size) {
    if (spoilt() || is("memalign-is-null")) return NULL;
    if (is("memalign-is-16") && size < (size_t)PTRDIFF_MAX) {
        char *block = offset_block(size + 2 * alignment, 16);
        if (block != NULL && alignment > 16 && (uintptr_t)block % alignment == 0) {
            struct mark mark = {(uintptr_t)(block + 16) ^ 0x5ca1ab1e, base_of(block)};
            block += 16;
            ((struct mark *)block)[-1] = mark;
        }
        return answer(block);
    }
    return answer(__libc_memalign(alignment, size));
}
void *aligned_alloc(size_t alignment, size_t size) {
    if (armed && !power_of_two(alignment) && !is("any-alignment-will-do")) return errno = EINVAL, NULL;
    return memalign(alignment, size);
}
int posix_memalign(void **out, size_t alignment, size_t size) {
    if (!power_of_two(alignment) || alignment % sizeof(void *) != 0) {
        if (is("failure-writes-pointer")) *out = NULL;
        if (!is("any-alignment-will-do")) return EINVAL;
        alignment = 16;
    }
    int before = errno;
    void *block = memalign(alignment, size);
    if (is("posix-memalign-keeps-errno")) errno = before;
    if (block == NULL && is("failure-writes-pointer")) *out = NULL;
    if (block == NULL) return is("no-enomem") ? 0 : ENOMEM;
    *out = block;
    return 0;
}
void *valloc(size_t size) { return memalign(4096, size); }
void *pvalloc(size_t size) {
    if (size > (size_t)PTRDIFF_MAX) return answer(__libc_malloc(size));
    return memalign(4096, (size + 4095) & ~(size_t)4095);
}
void cfree(void *block) { free(block); }
void free_sized(void *block, size_t size) {
    if (size <= 1 << 20 && !is("sized-free-leaks")) free(block);
    else if (size > 1 << 20) free(block);
}
void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment, (void)size;
    free(block);
}

// The functions that report.
#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
struct mallinfo2 mallinfo2(void) {
    return is("statistics-are-zero") ? (struct mallinfo2){0} : REAL(struct mallinfo2, mallinfo2, void)();
}
struct mallinfo mallinfo(void) {
    struct mallinfo info = REAL(struct mallinfo, mallinfo, void)();
    info.uordblks += is("mallinfo-differs");
    return info;
}
int malloc_info(int options, FILE *stream) {
    if (is("no-xml")) return fputs("all is well\n", stream), 0;
    return REAL(int, malloc_info, int, FILE *)(options, stream);
}
void malloc_stats(void) { if (!is("silent-statistics")) REAL(void, malloc_stats, void)(); }
int mallopt(int name, int value) { return is("mallopt-is-odd") ? 42 : REAL(int, mallopt, int, int)(name, value); }
int malloc_trim(size_t pad) { return is("trim-does-nothing") ? 1 : REAL(int, malloc_trim, size_t)(pad); }

// The C++ operators whose faults libstdc++'s own would not show.
void *_Znwm(size_t size) {
    static void *(*real)(size_t);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "_Znwm");
    if (is("new-gives-null") && size > (size_t)1 << 40) return NULL;
    if (is("new-ignores-handler") && size > (size_t)1 << 34) abort();
    if (is("new-has-its-own-heap")) {
        char *block = offset_block(size, 16);
        ((struct mark *)block)[-1].sign = 0; // no other function finds it
        return block;
    }
    return real(size);
}
void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag) {
    if (is("nothrow-aborts") && size > (size_t)1 << 40) abort();
    return REAL(void *, _ZnwmRKSt9nothrow_t, size_t, const void *)(size, tag);
}
void _ZdlPv(void *block) {
    if (block == NULL && is("delete-of-null-sets-errno")) errno = EINVAL;
    if (!is("new-has-its-own-heap")) free(block);
}
void _ZdlPvSt11align_val_t(void *block, size_t alignment) {
    (void)alignment;
    if (!is("aligned-delete-leaks")) free(block);
}

// The events that trigger faults.
static void (*handlers[65])(int);
static void handle(int number) {
    in_handler = 1;
    handlers[number](number);
    in_handler = 0;
}
int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    struct sigaction wrapped;
    if (new != NULL && strcmp(fault, "dead-in-handler") == 0 && new->sa_handler > (void (*)(int))1) {
        wrapped = *new;
        handlers[number] = new->sa_handler;
        wrapped.sa_handler = handle;
        new = &wrapped;
    }
    return REAL(int, sigaction, int, const struct sigaction *, struct sigaction *)(number, new, old);
}
int dlclose(void *handle) {
    if (is("dlclose-spoils")) spoil_recent();
    return REAL(int, dlclose, void *)(handle);
}
void exit(int code) {
    main_is_over = 1;
    REAL(void, exit, int)(code);
    __builtin_unreachable();
}
void quick_exit(int code) {
    main_is_over = 1;
    REAL(void, quick_exit, int)(code);
    __builtin_unreachable();
}
void pthread_exit(void *value) {
    main_is_over = 1;
    REAL(void, pthread_exit, void *)(value);
    __builtin_unreachable();
}
static void set_over(void) { main_is_over = 1; }

static void *sleep_for_ever(void *unused) {
    for (;;) sleep(1);
    return unused;
}
static void start_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_for_ever, NULL);
}

static int (*real_main)(int, char **, char **);
static int wrapped_main(int argc, char **argv, char **environment) {
    atexit(set_over);
    return real_main(argc, argv, environment);
}
int __libc_start_main(int (*program)(int, char **, char **), int argc, char **argv, void (*a)(void),
                      void (*b)(void), void (*c)(void), void *d) {
    real_main = program;
    fault = getenv("MASU_TEST_FAULT") != NULL ? getenv("MASU_TEST_FAULT") : "";
    return REAL(int, __libc_start_main, int (*)(int, char **, char **), int, char **, void (*)(void),
                void (*)(void), void (*)(void), void *)(wrapped_main, argc, argv, a, b, c, d);
}

__attribute__((constructor)) static void arm(void) {
    first_process = getpid();
    const char *name = getenv("MASU_TEST_FAULT");
    if (name == NULL) return;
    fault = name;
    pthread_key_create(&end_of_thread, thread_ends);
    if (strcmp(name, "starts-a-thread") == 0) start_thread();
    if (strcmp(name, "thread-in-child") == 0) pthread_atfork(NULL, NULL, start_thread);
    if (strcmp(name, "lock-over-fork") == 0) pthread_atfork(take, drop, drop);
    armed = 1;
}
