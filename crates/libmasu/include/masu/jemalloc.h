/* jemalloc's interface, served by masu.
 *
 * Declares everything that <jemalloc/jemalloc.h> of jemalloc 5.3 declares, with the same values and
 * types, so a program written for jemalloc builds and links against libmasu. The directory
 * masu/compat holds this header under jemalloc's own path.
 *
 * Names. The shared library exports plain names (mallocx, mallctl). As with jemalloc, je_mallocx
 * and so on are macros for them unless JEMALLOC_NO_RENAME is defined. For a private copy of the
 * library with its own prefix (see the script private-archive), define
 *
 *     -D'MASU_JEMALLOC_NAME(name)=je_##name'
 *
 * or use the header that the script writes; JEMALLOC_MANGLE then makes the plain names macros for
 * the prefixed ones, malloc and free among them.
 *
 * docs/jemalloc.md and the comments below describe the differences from jemalloc.
 */
#ifndef MASU_JEMALLOC_H
#define MASU_JEMALLOC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#define JEMALLOC_VERSION "5.3.1-0-gmasu"
#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 3
#define JEMALLOC_VERSION_BUGFIX 1
#define JEMALLOC_VERSION_NREV 0
#define JEMALLOC_VERSION_GID "masu"
#define JEMALLOC_VERSION_GID_IDENT masu

/* The library is masu. */
#define JEMALLOC_IS_MASU 1

#define JEMALLOC_ATTR(attribute) __attribute__((attribute))
#define JEMALLOC_EXPORT JEMALLOC_ATTR(visibility("default"))
#define JEMALLOC_NOTHROW JEMALLOC_ATTR(nothrow)
#define JEMALLOC_ALLOC_SIZE(argument) JEMALLOC_ATTR(alloc_size(argument))
#ifdef __cplusplus
#define JEMALLOC_CXX_THROW noexcept
#else
#define JEMALLOC_CXX_THROW
#endif

/* Flags of the *allocx functions, combined with |. */
/* Align to 2^la bytes, la up to 30. */
#define MALLOCX_LG_ALIGN(la) ((int)(la))
/* Align to a bytes, a power of two up to 1 GiB. */
#define MALLOCX_ALIGN(a)                                                                           \
    ((int)((size_t)(a) < (size_t)INT_MAX ? ffs((int)(a)) - 1                                       \
                                         : ffs((int)((size_t)(a) >> 32)) + 31))
/* Zero the memory; in rallocx and xallocx, the part beyond the previous usable size. */
#define MALLOCX_ZERO ((int)0x40)
/* Explicit thread caches are accepted, but hold nothing. */
#define MALLOCX_TCACHE(tc) ((int)(((tc) + 2) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
/* Allocate from the arena that "arenas.create" made; 0 is the memory shared by the whole process. */
#define MALLOCX_ARENA(a) ((int)(((unsigned)(a) + 1) << 20))

/* In place of an arena's number: all arenas, or the destroyed ones, for which there are no names here (ENOENT). */
#define MALLCTL_ARENAS_ALL 4096
#define MALLCTL_ARENAS_DESTROYED 4097

/* The name of a function in the library. */
#ifndef MASU_JEMALLOC_NAME
#define MASU_JEMALLOC_NAME(name) name
#define MASU_JEMALLOC_PLAIN 1
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a block of at least size bytes; null if memory is out. */
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(mallocx)(size_t size, int flags)
    JEMALLOC_ATTR(malloc) JEMALLOC_ALLOC_SIZE(1) JEMALLOC_NOTHROW;
/* Resizes a block, moving it if necessary. Returns null if memory is out; the block is unchanged. */
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(rallocx)(void *ptr, size_t size, int flags)
    JEMALLOC_ALLOC_SIZE(2) JEMALLOC_NOTHROW;
/* Resizes a block in place, to size + extra if there is room, otherwise to size; returns its actual
 * size afterwards. */
JEMALLOC_EXPORT size_t MASU_JEMALLOC_NAME(xallocx)(void *ptr, size_t size, size_t extra, int flags)
    JEMALLOC_NOTHROW;
/* Returns the actual size of a block. */
JEMALLOC_EXPORT size_t MASU_JEMALLOC_NAME(sallocx)(const void *ptr, int flags)
    JEMALLOC_NOTHROW JEMALLOC_ATTR(pure);
/* Frees a block. */
JEMALLOC_EXPORT void MASU_JEMALLOC_NAME(dallocx)(void *ptr, int flags) JEMALLOC_NOTHROW;
/* Frees a block that was requested with size bytes. */
JEMALLOC_EXPORT void MASU_JEMALLOC_NAME(sdallocx)(void *ptr, size_t size, int flags)
    JEMALLOC_NOTHROW;
/* Returns the actual size that mallocx would give; 0 if it would fail. */
JEMALLOC_EXPORT size_t MASU_JEMALLOC_NAME(nallocx)(size_t size, int flags)
    JEMALLOC_NOTHROW JEMALLOC_ATTR(pure);

/* Read and write values by name; return 0 or an error number. */
JEMALLOC_EXPORT int MASU_JEMALLOC_NAME(mallctl)(const char *name, void *oldp, size_t *oldlenp,
                                                void *newp, size_t newlen) JEMALLOC_NOTHROW;
JEMALLOC_EXPORT int MASU_JEMALLOC_NAME(mallctlnametomib)(const char *name, size_t *mibp,
                                                         size_t *miblenp) JEMALLOC_NOTHROW;
JEMALLOC_EXPORT int MASU_JEMALLOC_NAME(mallctlbymib)(const size_t *mib, size_t miblen, void *oldp,
                                                     size_t *oldlenp, void *newp, size_t newlen)
    JEMALLOC_NOTHROW;
/* Prints statistics through write_cb, or through malloc_message if that is null. */
JEMALLOC_EXPORT void MASU_JEMALLOC_NAME(malloc_stats_print)(void (*write_cb)(void *, const char *),
                                                            void *cbopaque, const char *opts)
    JEMALLOC_NOTHROW;

/* Where messages go. The program may set it; null means standard error. */
extern JEMALLOC_EXPORT void (*MASU_JEMALLOC_NAME(malloc_message))(void *cbopaque, const char *s);
/* Options, as in MALLOC_CONF. The program may define it; the library does not. */
extern JEMALLOC_EXPORT const char *MASU_JEMALLOC_NAME(malloc_conf);

#ifdef MASU_JEMALLOC_PLAIN
/* The C library's headers declare the standard names. */
#include <malloc.h>
void free_sized(void *ptr, size_t size) JEMALLOC_CXX_THROW;
void free_aligned_sized(void *ptr, size_t alignment, size_t size) JEMALLOC_CXX_THROW;
#else
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(malloc)(size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(calloc)(size_t num, size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(realloc)(void *ptr, size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void MASU_JEMALLOC_NAME(free)(void *ptr) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void MASU_JEMALLOC_NAME(free_sized)(void *ptr, size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void MASU_JEMALLOC_NAME(free_aligned_sized)(void *ptr, size_t alignment,
                                                            size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT int MASU_JEMALLOC_NAME(posix_memalign)(void **memptr, size_t alignment,
                                                       size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(aligned_alloc)(size_t alignment, size_t size)
    JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(memalign)(size_t alignment, size_t size)
    JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(valloc)(size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT void *MASU_JEMALLOC_NAME(pvalloc)(size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_EXPORT size_t MASU_JEMALLOC_NAME(malloc_usable_size)(void *ptr) JEMALLOC_CXX_THROW;
#endif

/* Extent hooks: functions of the program that supply an arena with memory. Set them through "arenas.create" or
 * "arena.<i>.extent_hooks". Extents are multiples of 2 MiB, parts of them multiples of 4 KiB. A hook that returns
 * true refuses. All except alloc may be null. The table must stay valid for as long as its arena exists. Arena 0
 * accepts only the default hooks and otherwise returns EPERM. */
typedef struct extent_hooks_s extent_hooks_t;
typedef void *(extent_alloc_t)(extent_hooks_t *hooks, void *new_addr, size_t size, size_t alignment,
                               bool *zero, bool *commit, unsigned arena_ind);
typedef bool(extent_dalloc_t)(extent_hooks_t *hooks, void *addr, size_t size, bool committed,
                              unsigned arena_ind);
typedef void(extent_destroy_t)(extent_hooks_t *hooks, void *addr, size_t size, bool committed,
                               unsigned arena_ind);
typedef bool(extent_commit_t)(extent_hooks_t *hooks, void *addr, size_t size, size_t offset,
                              size_t length, unsigned arena_ind);
typedef bool(extent_decommit_t)(extent_hooks_t *hooks, void *addr, size_t size, size_t offset,
                                size_t length, unsigned arena_ind);
typedef bool(extent_purge_t)(extent_hooks_t *hooks, void *addr, size_t size, size_t offset,
                             size_t length, unsigned arena_ind);
typedef bool(extent_split_t)(extent_hooks_t *hooks, void *addr, size_t size, size_t size_a,
                             size_t size_b, bool committed, unsigned arena_ind);
typedef bool(extent_merge_t)(extent_hooks_t *hooks, void *addr_a, size_t size_a, void *addr_b,
                             size_t size_b, bool committed, unsigned arena_ind);
struct extent_hooks_s {
    extent_alloc_t *alloc;
    extent_dalloc_t *dalloc;
    extent_destroy_t *destroy;
    extent_commit_t *commit;
    extent_decommit_t *decommit;
    extent_purge_t *purge_lazy;
    extent_purge_t *purge_forced;
    extent_split_t *split;
    extent_merge_t *merge;
};

#ifdef __cplusplus
}
#endif

/* After the declarations, because the prefix may be je_ itself. */
#ifndef JEMALLOC_NO_RENAME
#define je_aligned_alloc MASU_JEMALLOC_NAME(aligned_alloc)
#define je_calloc MASU_JEMALLOC_NAME(calloc)
#define je_dallocx MASU_JEMALLOC_NAME(dallocx)
#define je_free MASU_JEMALLOC_NAME(free)
#define je_free_aligned_sized MASU_JEMALLOC_NAME(free_aligned_sized)
#define je_free_sized MASU_JEMALLOC_NAME(free_sized)
#define je_mallctl MASU_JEMALLOC_NAME(mallctl)
#define je_mallctlbymib MASU_JEMALLOC_NAME(mallctlbymib)
#define je_mallctlnametomib MASU_JEMALLOC_NAME(mallctlnametomib)
#define je_malloc MASU_JEMALLOC_NAME(malloc)
#define je_malloc_conf MASU_JEMALLOC_NAME(malloc_conf)
#define je_malloc_message MASU_JEMALLOC_NAME(malloc_message)
#define je_malloc_stats_print MASU_JEMALLOC_NAME(malloc_stats_print)
#define je_malloc_usable_size MASU_JEMALLOC_NAME(malloc_usable_size)
#define je_mallocx MASU_JEMALLOC_NAME(mallocx)
#define je_memalign MASU_JEMALLOC_NAME(memalign)
#define je_nallocx MASU_JEMALLOC_NAME(nallocx)
#define je_posix_memalign MASU_JEMALLOC_NAME(posix_memalign)
#define je_pvalloc MASU_JEMALLOC_NAME(pvalloc)
#define je_rallocx MASU_JEMALLOC_NAME(rallocx)
#define je_realloc MASU_JEMALLOC_NAME(realloc)
#define je_sallocx MASU_JEMALLOC_NAME(sallocx)
#define je_sdallocx MASU_JEMALLOC_NAME(sdallocx)
#define je_valloc MASU_JEMALLOC_NAME(valloc)
#define je_xallocx MASU_JEMALLOC_NAME(xallocx)
#endif

#if defined(JEMALLOC_MANGLE) && !defined(MASU_JEMALLOC_PLAIN)
#define aligned_alloc je_aligned_alloc
#define calloc je_calloc
#define dallocx je_dallocx
#define free je_free
#define free_aligned_sized je_free_aligned_sized
#define free_sized je_free_sized
#define mallctl je_mallctl
#define mallctlbymib je_mallctlbymib
#define mallctlnametomib je_mallctlnametomib
#define malloc je_malloc
#define malloc_conf je_malloc_conf
#define malloc_message je_malloc_message
#define malloc_stats_print je_malloc_stats_print
#define malloc_usable_size je_malloc_usable_size
#define mallocx je_mallocx
#define memalign je_memalign
#define nallocx je_nallocx
#define posix_memalign je_posix_memalign
#define pvalloc je_pvalloc
#define rallocx je_rallocx
#define realloc je_realloc
#define sallocx je_sallocx
#define sdallocx je_sdallocx
#define valloc je_valloc
#define xallocx je_xallocx
#endif

#endif
