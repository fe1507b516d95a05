/* An allocator on top of glibc's that makes one mistake now and then, chosen by -DFAULT_…. The
 * fuzzer must find each. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

/* True for every nth call in each thread, counted for each place of use. */
#define NOW_AND_THEN(n) __extension__({ static __thread unsigned calls; ++calls % (n) == 0; })

#ifdef FAULT_FORK
/* A lock that no fork handler takes: a child forked while another thread holds it waits for ever. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define LOCK() pthread_mutex_lock(&lock)
#define UNLOCK() pthread_mutex_unlock(&lock)
#else
#define LOCK()
#define UNLOCK()
#endif

#ifdef FAULT_OVERLAP
static __thread char *last;
static __thread size_t last_size;
#endif

#ifdef FAULT_SCRIBBLE
static __thread char *victim;
#endif

void *malloc(size_t size) {
#ifdef FAULT_OVERLAP
    /* The tail of the last block given out, which is still in use. */
    if (last && size <= 64 && last_size >= 256 && NOW_AND_THEN(10)) return last + 128;
#endif
    LOCK();
    void *block = __libc_malloc(size);
    UNLOCK();
#ifdef FAULT_OVERLAP
    last = block;
    last_size = size;
#endif
#ifdef FAULT_SCRIBBLE
    /* One bit of a block that is in use. */
    if (victim && NOW_AND_THEN(50)) victim[5] ^= 1;
    victim = size >= 16 ? block : NULL;
#endif
    return block;
}

void free(void *block) {
#ifdef FAULT_OVERLAP
    if (block == last) last = NULL;
#endif
#ifdef FAULT_SCRIBBLE
    if (block == victim) victim = NULL;
#endif
    __libc_free(block);
}

void *calloc(size_t members, size_t size) {
#ifdef FAULT_DIRTY
    /* Recycled memory, not cleared. */
    size_t bytes;
    if (!__builtin_mul_overflow(members, size, &bytes) && NOW_AND_THEN(10))
        return __libc_malloc(bytes);
#endif
    return __libc_calloc(members, size);
}

void *realloc(void *old, size_t size) {
#ifdef FAULT_OVERLAP
    if (old == last) last = NULL;
#endif
#ifdef FAULT_SCRIBBLE
    if (old == victim) victim = NULL;
#endif
    void *block = __libc_realloc(old, size);
#ifdef FAULT_TAIL
    /* A move that lost an eighth of the content. */
    if (block && block != old && size >= 256 && NOW_AND_THEN(10)) memset((char *)block + size / 4, 0, size / 8);
#endif
    return block;
}

static void *aligned(size_t alignment, size_t size) {
#ifdef FAULT_ALIGNMENT
    if (alignment > 64 && NOW_AND_THEN(10)) return (char *)__libc_memalign(alignment, size + alignment) + alignment / 2;
#endif
    return __libc_memalign(alignment, size);
}

void *memalign(size_t alignment, size_t size) { return aligned(alignment, size); }

void *aligned_alloc(size_t alignment, size_t size) { return aligned(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *block = aligned(alignment, size);
    if (!block) return ENOMEM;
    *out = block;
    return 0;
}

#ifdef FAULT_USABLE
/* Half of what it is: less than what was asked for. */
size_t malloc_usable_size(void *block) { return block ? (((size_t *)block)[-1] & ~7ul) / 2 : 0; }
#endif
