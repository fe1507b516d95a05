/* What masu offers beyond the C library: separate heaps, blocks in batches, statistics.
 *
 * These are dlmalloc's functions beyond malloc, under names that begin with masu_. Most are inline and call
 * malloc and jemalloc's interface, both of which libmasu exports.
 *
 *   dlmalloc                               here
 *   malloc_footprint                       masu_footprint
 *   malloc_footprint_limit, set_           masu_get_limits, masu_set_limits
 *   realloc_in_place                       masu_realloc_in_place
 *   independent_calloc, _comalloc          masu_independent_calloc, masu_independent_comalloc
 *   bulk_free                              masu_bulk_free
 *   malloc_inspect_all                     masu_inspect_all, by size classes instead of addresses
 *   malloc_trim                            malloc_trim, of <malloc.h>
 *   create_mspace, destroy_mspace          masu_heap_create, masu_heap_destroy
 *   mspace_trim                            masu_heap_trim
 *   mspace_malloc, _calloc, _realloc, ...  masu_heap_malloc, masu_heap_calloc, masu_heap_realloc, ...
 *   mspace_footprint, _footprint_limit     masu_heap_allocated, masu_heap_limit
 *
 * Sizes are in bytes. When memory is out, functions that return a pointer return null and set errno to
 * ENOMEM. Free any block, of a heap or not, with free, from any thread.
 */
#ifndef MASU_MASU_H
#define MASU_MASU_H

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "jemalloc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the value of a name; 0 if there is none. */
static inline size_t masu_figure_(const char *name) {
    size_t value = 0, length = sizeof value;
    return mallctl(name, &value, &length, NULL, 0) == 0 ? value : 0;
}

/* Returns the bytes of memory that the allocator may have resident: blocks, free memory not yet given
 * back, and its own tables. O(spans): about a millisecond for each ten gigabytes of small blocks. */
static inline size_t masu_footprint(void) {
    uint64_t epoch = 1;
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    return masu_figure_("stats.resident");
}

/* Receives the number count of live blocks of up to size bytes each, which occupy held bytes. */
typedef void masu_inspector(size_t size, size_t count, size_t held, void *data);

/* Calls inspector for each non-empty size class of small blocks, smallest first, then with size 0 for
 * all larger blocks together, with their total bytes as count. Free blocks that threads keep for reuse
 * count as live. Figures are of the moment of the call; the inspector may allocate and free. Returns
 * the bytes of all blocks. O(spans), like masu_footprint. */
static inline size_t masu_inspect_all(masu_inspector *inspector, void *data) {
    uint64_t epoch = 1;
    unsigned classes = 0;
    size_t length = sizeof classes, all = 0;
    char name[64];
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    mallctl("arenas.nbins", &classes, &length, NULL, 0);
    for (unsigned class_ = 0; class_ < classes; class_++) {
        snprintf(name, sizeof name, "arenas.bin.%u.size", class_);
        size_t size = masu_figure_(name);
        snprintf(name, sizeof name, "arenas.bin.%u.slab_size", class_);
        size_t span = masu_figure_(name);
        snprintf(name, sizeof name, "stats.arenas.4096.bins.%u.curregs", class_);
        size_t count = masu_figure_(name);
        snprintf(name, sizeof name, "stats.arenas.4096.bins.%u.curslabs", class_);
        size_t spans = masu_figure_(name);
        if (spans) inspector(size, count, spans * span, data);
        all += size * count;
    }
    size_t large = masu_figure_("stats.arenas.4096.large.allocated");
    if (large) inspector(0, large, large, data);
    return all + large;
}

/* Frees count blocks and sets their entries to null; skips null entries. Returns how many could not be
 * freed: 0. */
static inline size_t masu_bulk_free(void **blocks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    return 0;
}

/* The type of a callback for the soft limit. It receives the bytes in use, the limit, and the pointer with
 * which it was registered. */
typedef void masu_limit_callback(size_t in_use, size_t limit, void *data);

/* Sets the callback for the soft limit; NULL removes it. It is called when the memory in use is above the
 * limit even after everything free has gone back to the system: once for each crossing, and again only
 * after use fell below seven eighths of the limit.
 *
 * The callback runs inside the allocation that passed the limit, on that thread. masu holds no lock then,
 * so the callback may allocate and free. It should be short, and must not wait for other threads, because
 * the thread may hold the program's locks. Typically it empties caches, writes a line, or signals another
 * thread to do so. */
void masu_set_limit_callback(masu_limit_callback *callback, void *data);

/* Sets both limits while the program runs, in bytes in use as masu_footprint counts them; 0 means none.
 * soft: above it, all free memory goes back at once. SIZE_MAX means the default: nine tenths of the control
 * group's limit, if it has one.
 * hard: allocations that would exceed it fail with ENOMEM. A sixty-fourth of it (1 to 8 MiB, at most an
 * eighth) is held in reserve until the first failure, so that the program can respond to it. */
void masu_set_limits(size_t soft, size_t hard);

/* Stores the current limits, each unless its pointer is NULL; 0 means none. A soft limit of SIZE_MAX is the
 * default of masu_set_limits. */
void masu_get_limits(size_t *soft, size_t *hard);

/* Resizes a block in place and returns it. Returns NULL, with the block unchanged, if there is no room. */
static inline void *masu_realloc_in_place(void *block, size_t size) {
    return block && size <= PTRDIFF_MAX && xallocx(block, size ? size : 1, 0, 0) >= size ? block : NULL;
}

/* Serves the two functions below: allocates all blocks or none, of sizes[i] bytes, or sizes[0] if same. */
static inline void **masu_independent_(size_t count, const size_t *sizes, int same, int zeroed,
                                       void **blocks) {
    void **to = blocks;
    if (!to) to = (void **)calloc(count ? count : 1, sizeof *to);
    if (!to) return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t size = same ? sizes[0] : sizes[i];
        to[i] = zeroed ? calloc(1, size) : malloc(size);
        if (!to[i]) {
            masu_bulk_free(to, i);
            if (!blocks) free(to);
            return NULL;
        }
    }
    return to;
}

/* Allocates count zeroed blocks of size bytes and stores them in blocks, which it returns; if blocks is
 * null, it returns a new array, which must be freed too. The blocks are freed one by one. Returns null if
 * there is not enough memory for all of them. */
static inline void **masu_independent_calloc(size_t count, size_t size, void **blocks) {
    return masu_independent_(count, &size, 1, 1, blocks);
}

/* Like masu_independent_calloc, with a size for each block and without zeroing. */
static inline void **masu_independent_comalloc(size_t count, const size_t *sizes, void **blocks) {
    return masu_independent_(count, sizes, 0, 0, blocks);
}

/* A heap: blocks that can be limited, counted and freed all at once. Any thread may use it. */
typedef struct masu_heap {
    unsigned arena;
} masu_heap;

/* Returns the flags that name a heap, for mallocx and rallocx. */
static inline int masu_heap_flags(masu_heap heap) {
    return MALLOCX_ARENA(heap.arena) | MALLOCX_TCACHE_NONE;
}

/* Calls mallctl for a heap; returns 0 or an error number. */
static inline int masu_heap_call_(masu_heap heap, const char *what, size_t *old, const size_t *value) {
    char name[48];
    size_t length = sizeof *old;
    snprintf(name, sizeof name, "arena.%u.%s", heap.arena, what);
    return mallctl(name, old, old ? &length : NULL, (void *)value, value ? sizeof *value : 0);
}

/* Makes a heap. Returns 0, or EAGAIN if memory is out or a thousand heaps are alive. */
static inline int masu_heap_create(masu_heap *heap) {
    size_t length = sizeof heap->arena;
    return mallctl("arenas.create", &heap->arena, &length, NULL, 0);
}

/* Frees the heap and all its blocks. No thread may be using it. Returns 0 or an error number. */
static inline int masu_heap_destroy(masu_heap heap) {
    return masu_heap_call_(heap, "destroy", NULL, NULL);
}

/* Frees all blocks of the heap, which can then be used again. No thread may be using it meanwhile.
 * Returns 0 or an error number. */
static inline int masu_heap_reset(masu_heap heap) {
    return masu_heap_call_(heap, "reset", NULL, NULL);
}

/* Gives the heap's free memory back to the system. Returns 0 or an error number. */
static inline int masu_heap_trim(masu_heap heap) {
    return masu_heap_call_(heap, "purge", NULL, NULL);
}

static inline void *masu_heap_memalign(masu_heap heap, size_t align, size_t size) {
    return mallocx(size ? size : 1, masu_heap_flags(heap) | MALLOCX_ALIGN(align));
}

static inline void *masu_heap_malloc(masu_heap heap, size_t size) {
    return mallocx(size ? size : 1, masu_heap_flags(heap));
}

static inline void *masu_heap_calloc(masu_heap heap, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return mallocx(PTRDIFF_MAX, 0);
    return mallocx(bytes ? bytes : 1, masu_heap_flags(heap) | MALLOCX_ZERO);
}

/* Resizes a block of the heap, or moves a block from elsewhere into it. */
static inline void *masu_heap_realloc(masu_heap heap, void *block, size_t size) {
    if (!block) return masu_heap_malloc(heap, size);
    return rallocx(block, size ? size : 1, masu_heap_flags(heap));
}

/* Returns the bytes in the heap's live blocks, counted by usable size; 0 for a heap that does not exist. */
static inline size_t masu_heap_allocated(masu_heap heap) {
    size_t bytes = 0;
    return masu_heap_call_(heap, "allocated", &bytes, NULL) == 0 ? bytes : 0;
}

/* Returns the limit on the bytes in the heap's live blocks; SIZE_MAX means no limit. */
static inline size_t masu_heap_limit(masu_heap heap) {
    size_t bytes = 0;
    return masu_heap_call_(heap, "limit", &bytes, NULL) == 0 ? bytes : 0;
}

/* Sets that limit. Allocations beyond it fail; existing blocks stay. Returns 0 or an error number. */
static inline int masu_heap_set_limit(masu_heap heap, size_t bytes) {
    return masu_heap_call_(heap, "limit", NULL, &bytes);
}

#ifdef __cplusplus
}
#endif

#endif
