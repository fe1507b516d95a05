// Arenas whose memory the program provides. The hooks here are strict: they know every extent and what its pages may
// contain, and end the program over anything that the manual does not allow.
#include "door.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, MOST = 4096 };
#define UNIT ((size_t)2 << 20)

// What the hooks can refuse, and count.
enum what { ALLOC, DALLOC, DESTROY, COMMIT, DECOMMIT, LAZY, FORCED, SPLIT, MERGE, KINDS };
static atomic_uint calls[KINDS], refusals[KINDS];
// The kinds that always refuse; of the other calls, one in `one_in` is refused (0: none).
static unsigned refused;
static unsigned one_in;

static struct extent {
    uintptr_t at;
    size_t size;
    extent_hooks_t *owner;
} extents[MOST];
static size_t extent_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned expected_arena;
static bool fresh_is_dirty, fresh_is_decommitted;

static bool refuses(enum what kind) {
    unsigned n = atomic_fetch_add(&calls[kind], 1) + 1;
    bool no = refused >> kind & 1 || (one_in && (n * 2654435761u >> 16) % one_in == 0);
    if (no) atomic_fetch_add(&refusals[kind], 1);
    return no;
}

// A hook may allocate: the common memory serves it, whichever arena the thread is bound to.
static void use_malloc(void) {
    void *block = malloc(100);
    unsigned arena = 99;
    CHECK(block, "no memory in a hook");
    size_t length = sizeof arena;
    CHECK(mallctl("arenas.lookup", &arena, &length, &block, sizeof block) == 0, "lookup");
    CHECK(arena == 0, "a hook allocates from arena %u", arena);
    free(block);
}

static struct extent *find(void *addr, size_t size) {
    for (size_t i = 0; i < extent_count; i++)
        if (extents[i].at == (uintptr_t)addr) {
            CHECK(extents[i].size == size, "%p has %zu bytes, not %zu", addr, extents[i].size,
                  size);
            return &extents[i];
        }
    CHECK(false, "no extent at %p", addr);
    return NULL;
}

static void forget(void *addr, size_t size) {
    struct extent *extent = find(addr, size);
    *extent = extents[--extent_count];
}

static void add(uintptr_t at, size_t size, extent_hooks_t *owner) {
    CHECK(extent_count < MOST, "too many extents");
    extents[extent_count++] = (struct extent){at, size, owner};
}

static void *alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t align, bool *zero,
                   bool *commit, unsigned arena) {
    CHECK(size % UNIT == 0 && align % UNIT == 0 && (align & (align - 1)) == 0, "%zu at %zu", size,
          align);
    CHECK(*commit, "not to be committed");
    CHECK(!expected_arena || arena == expected_arena, "arena %u", arena);
    use_malloc();
    if (refuses(ALLOC)) return NULL;
    char *at;
    if (new_addr) {
        at = mmap(new_addr, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == MAP_FAILED) return NULL;
        if (at != new_addr) {
            munmap(at, size);
            return NULL;
        }
    } else {
        char *all = mmap(NULL, size + align, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(all != MAP_FAILED, "no memory");
        at = (char *)(((uintptr_t)all + align - 1) & -align);
        if (at > all) munmap(all, (size_t)(at - all));
        munmap(at + size, (size_t)(all + align - at));
    }
    pthread_mutex_lock(&lock);
    add((uintptr_t)at, size, hooks);
    pthread_mutex_unlock(&lock);
    if (fresh_is_dirty && !*zero) {
        memset(at, 0x99, size);
        *zero = false;
    } else {
        *zero = true;
    }
    if (fresh_is_decommitted) {
        mprotect(at, size, PROT_NONE);
        *commit = false;
    }
    return at;
}

static void drop(void *addr, size_t size) {
    pthread_mutex_lock(&lock);
    forget(addr, size);
    pthread_mutex_unlock(&lock);
    CHECK(munmap(addr, size) == 0, "unmapping %p", addr);
}

static bool dalloc(extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned arena) {
    (void)hooks, (void)committed, (void)arena;
    use_malloc();
    if (refuses(DALLOC)) return true;
    drop(addr, size);
    return false;
}

static void destroy(extent_hooks_t *hooks, void *addr, size_t size, bool committed,
    unsigned arena) {
    (void)hooks, (void)committed, (void)arena;
    atomic_fetch_add(&calls[DESTROY], 1);
    drop(addr, size);
}

static char *part(void *addr, size_t size, size_t offset, size_t length) {
    // The kernel's pages, which may be larger than the allocator's: it gives none back in part.
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(offset % page == 0 && length % page == 0 && length != 0, "%zu, %zu", offset, length);
    CHECK(offset + length <= size, "%zu and %zu of %zu", offset, length, size);
    pthread_mutex_lock(&lock);
    find(addr, size);
    pthread_mutex_unlock(&lock);
    return (char *)addr + offset;
}

// A hook of one kind stops, once, until the test lets it go on.
static atomic_int stops = KINDS, stands = KINDS;

static void may_stop(enum what kind) {
    int expected = (int)kind;
    if (!atomic_compare_exchange_strong(&stops, &expected, KINDS)) return;
    stands = (int)kind;
    while (stands == (int)kind) usleep(100);
}

static bool commit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
                   unsigned arena) {
    (void)hooks, (void)arena;
    may_stop(COMMIT);
    char *at = part(addr, size, offset, length);
    if (refuses(COMMIT)) return true;
    // Zeroes committed pages too: committing them again would be a mistake.
    madvise(at, length, MADV_DONTNEED);
    mprotect(at, length, PROT_READ | PROT_WRITE);
    return false;
}

static bool decommit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
                     unsigned arena) {
    (void)hooks, (void)arena;
    may_stop(DECOMMIT);
    char *at = part(addr, size, offset, length);
    use_malloc();
    if (refuses(DECOMMIT)) return true;
    madvise(at, length, MADV_DONTNEED);
    // Touching it before it is committed again is fatal.
    mprotect(at, length, PROT_NONE);
    return false;
}

static bool purge_lazy(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
                       unsigned arena) {
    (void)hooks, (void)arena;
    char *at = part(addr, size, offset, length);
    if (refuses(LAZY)) return true;
    // Its contents are now undefined.
    memset(at, 0xc7, length);
    return false;
}

static bool purge_forced(extent_hooks_t *hooks, void *addr, size_t size, size_t offset,
    size_t length,
                         unsigned arena) {
    (void)hooks, (void)arena;
    char *at = part(addr, size, offset, length);
    if (refuses(FORCED)) return true;
    madvise(at, length, MADV_DONTNEED);
    return false;
}

static bool split(extent_hooks_t *hooks, void *addr, size_t size, size_t size_a, size_t size_b,
                  bool committed, unsigned arena) {
    (void)committed, (void)arena;
    CHECK(size_a + size_b == size && size_a && size_b, "%zu and %zu of %zu", size_a, size_b, size);
    if (refuses(SPLIT)) return true;
    pthread_mutex_lock(&lock);
    find(addr, size)->size = size_a;
    add((uintptr_t)addr + size_a, size_b, hooks);
    pthread_mutex_unlock(&lock);
    may_stop(SPLIT);
    return false;
}

static bool merge(extent_hooks_t *hooks, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
                  bool committed, unsigned arena) {
    (void)hooks, (void)committed, (void)arena;
    CHECK((char *)addr_a + size_a == addr_b, "%p and %zu, %p", addr_a, size_a, addr_b);
    if (refuses(MERGE)) return true;
    pthread_mutex_lock(&lock);
    forget(addr_b, size_b);
    find(addr_a, size_a)->size += size_b;
    pthread_mutex_unlock(&lock);
    return false;
}

static extent_hooks_t hooks = {alloc,      dalloc,       destroy, commit, decommit,
                               purge_lazy, purge_forced, split,   merge};

static void calm(void) {
    refused = one_in = 0;
    expected_arena = 0;
    fresh_is_dirty = fresh_is_decommitted = false;
    for (int kind = 0; kind < KINDS; kind++) calls[kind] = refusals[kind] = 0;
}

static unsigned create(void) {
    calm();
    unsigned arena = 0;
    size_t length = sizeof arena;
    extent_hooks_t *table = &hooks;
    CHECK(mallctl("arenas.create", &arena, &length, &table, sizeof table) == 0, "no arena");
    return arena;
}

static int to(unsigned arena, const char *what) {
    char name[64];
    return act(with_number(name, "arena.", arena, what));
}

static void end(unsigned arena) {
    CHECK(to(arena, ".destroy") == 0, "arena %u stays", arena);
    CHECK(extent_count == 0, "%zu extents are left", extent_count);
}

static bool is_hooked(const void *block) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < extent_count; i++)
        found |= (uintptr_t)block - extents[i].at < extents[i].size;
    pthread_mutex_unlock(&lock);
    return found;
}

static unsigned arena_of(void *block) {
    unsigned arena = 9999;
    size_t length = sizeof arena;
    CHECK(mallctl("arenas.lookup", &arena, &length, &block, sizeof block) == 0, "%p", block);
    return arena;
}

CASE(every_block_of_such_an_arena_lies_in_hook_memory) {
    unsigned arena = create();
    expected_arena = arena;
    static const size_t sizes[] = {1, 16, 100, 1000, 2048, 4096, 8192, 8193, 40000, 1 << 20,
        (1 << 20) + 1,
                                   2 << 20, 5 << 20, 33 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int lg = 0; lg <= 23; lg++) {
            int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE | MALLOCX_LG_ALIGN(lg);
            char *block = mallocx(sizes[s], flags);
            CHECK(block && is_hooked(block), "%zu at 1 << %d: %p", sizes[s], lg, (void *)block);
            CHECK(((uintptr_t)block & (((uintptr_t)1 << lg) - 1)) == 0, "%p at 1 << %d",
                  (void *)block, lg);
            CHECK(arena_of(block) == arena, "%u", arena_of(block));
            size_t real = sallocx(block, 0);
            CHECK(real == nallocx(sizes[s], flags), "%zu, said %zu", real, nallocx(sizes[s],
                  flags));
            CHECK(malloc_usable_size(block) == real, "%zu", malloc_usable_size(block));
            memset(block, 0x5a, real);
            // In every possible way.
            if (lg % 3 == 0) dallocx(block, flags);
            else if (lg % 3 == 1) free(block);
            else sdallocx(block, sizes[s], flags);
        }
    end(arena);
}

CASE(blocks_move_in_and_out_and_stay_in_when_they_are_resized) {
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena);
    static const size_t sizes[] = {24, 3000, 50000, 900000, 3 << 20, 11 << 20, 700000, 9000, 64,
        20 << 20, 1};
    unsigned char *block = malloc(10);
    size_t had = 10;
    fill(block, 10, 1);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        // The first call moves it in; the others may or may not name the arena.
        block = s % 2 ? realloc(block, sizes[s]) : rallocx(block, sizes[s], flags);
        CHECK(block && is_hooked(block) && arena_of(block) == arena, "%zu: %p", sizes[s],
              (void *)block);
        size_t kept = had < sizes[s] ? had : sizes[s];
        CHECK(first_difference(block, kept, 1) == kept, "%zu to %zu", had, sizes[s]);
        had = sizes[s];
        fill(block, had, 1);
    }
    block = rallocx(block, 100, MALLOCX_ARENA(0));
    CHECK(block && !is_hooked(block) && arena_of(block) == 0, "%p", (void *)block);
    free(block);
    end(arena);
}

CASE(zeroed_blocks_are_zero_whatever_the_hooks_leave) {
    // What fresh pages contain, and which way they are purged.
    for (int dirty = 0; dirty < 2; dirty++)
        for (int decommitted = 0; decommitted < 2; decommitted++)
            for (unsigned way = 0; way < 4; way++) {
                unsigned arena = create();
                fresh_is_dirty = dirty;
                fresh_is_decommitted = decommitted;
                static const unsigned ways[] = {1 << DALLOC, 1 << DALLOC | 1 << DECOMMIT,
                                                1 << DALLOC | 1 << DECOMMIT | 1 << FORCED,
                                                    ~0u & ~1u & ~(1u << COMMIT)};
                refused = ways[way];
                int flags = MALLOCX_ARENA(arena) | MALLOCX_ZERO;
                for (int round = 0; round < 4; round++) {
                    static const size_t sizes[] = {100, 5000, 70000, 1 << 20, 5 << 20,
                        (4 << 20) - 4096};
                    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                        unsigned char *block = mallocx(sizes[s], flags);
                        size_t real = sallocx(block, 0);
                        CHECK(first_nonzero(block, real) == real, "%zu, round %d, way %u",
                              sizes[s], round, way);
                        memset(block, 0xff, real);
                        block = rallocx(block, real + real / 2, flags);
                        size_t now = sallocx(block, 0);
                        CHECK(first_nonzero(block + real, now - real) == now - real, "%zu",
                              sizes[s]);
                        memset(block, 0xee, now);
                        dallocx(block, flags);
                    }
                    CHECK(to(arena, ".purge") == 0, "purge");
                }
                end(arena);
            }
}

CASE(what_is_free_goes_from_the_most_permanent_way_to_the_least) {
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    char *block = mallocx(8 << 20, flags);
    memset(block, 1, 8 << 20);
    CHECK(calls[ALLOC] == 1 && extent_count == 1, "%u calls", (unsigned)calls[ALLOC]);
    // Its second half is split off, and comes back.
    CHECK(xallocx(block, 4 << 20, 0, flags) == 4 << 20, "%zu", sallocx(block, 0));
    CHECK(to(arena, ".purge") == 0 && calls[SPLIT] == 1 && calls[DALLOC] == 1 && extent_count == 1,
          "%u, %u",
          (unsigned)calls[SPLIT], (unsigned)calls[DALLOC]);
    // It grows back over the missing half.
    CHECK(xallocx(block, 8 << 20, 0, flags) == 8 << 20, "%zu", sallocx(block, 0));
    CHECK(calls[ALLOC] == 2 && calls[MERGE] == 1 && extent_count == 1, "%u",
          (unsigned)calls[MERGE]);
    memset(block, 2, 8 << 20);
    // One way after another is refused.
    static const enum what ways[] = {SPLIT, DALLOC, DECOMMIT, FORCED, LAZY};
    for (int way = 0; way < 5; way++) {
        CHECK(xallocx(block, 4 << 20, 0, flags) == 4 << 20, "%zu", sallocx(block, 0));
        for (int kind = 0; kind < KINDS; kind++) calls[kind] = 0;
        CHECK(to(arena, ".purge") == 0, "purge");
        for (int other = 0; other < way; other++) {
            bool unreached = refused & 1 << SPLIT && ways[other] == DALLOC;
            CHECK(unreached ? calls[ways[other]] == 0 : calls[ways[other]] != 0, "%d: %d", way,
                  other);
        }
        CHECK(way == 1 || calls[ways[way]] != 0, "%d was not asked", ways[way]);
        for (int later = way + 1; later < 5; later++)
            CHECK(way == 0 || way == 1 || calls[ways[later]] == 0, "%d before %d", ways[later],
                  ways[way]);
        CHECK(xallocx(block, 8 << 20, 0, flags) == 8 << 20, "%zu, way %d", sallocx(block, 0), way);
        memset(block, 3, 8 << 20);
        refused |= 1u << ways[way];
    }
    refused = 0;
    dallocx(block, flags);
    CHECK(to(arena, ".purge") == 0 && extent_count == 0, "%zu extents", extent_count);
    end(arena);
}

CASE(pages_of_a_unit_in_use_are_purged_by_themselves) {
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena);
    void *stays = mallocx(100, flags);
    char *goes = mallocx(500000, flags);
    memset(goes, 1, 500000);
    dallocx(goes, 0);
    CHECK(to(arena, ".purge") == 0, "purge");
    CHECK(calls[DECOMMIT] == 1 && calls[DALLOC] == 0 && calls[SPLIT] == 0, "%u",
          (unsigned)calls[DECOMMIT]);
    refused = 1 << COMMIT;
    // Requests fail while memory cannot be committed, and nothing is lost; afterwards the hooks give other memory.
    CHECK(mallocx(600000, flags) == NULL, "memory that is not there");
    refused = 0;
    CHECK((goes = mallocx(600000, flags)), "nothing to be had");
    memset(goes, 1, 600000);
    CHECK(calls[COMMIT] == refusals[COMMIT] + 1, "%u", (unsigned)calls[COMMIT]);
    dallocx(goes, 0);
    dallocx(stays, 0);
    end(arena);
}

// Blocks keep their bytes while their neighbours' pages go back in each way, and come into use again.
CASE(pages_that_go_back_are_no_block_in_use) {
    enum { COUNT = 60 };
    static const unsigned ways[] = {0, 1 << DECOMMIT, 1 << DECOMMIT | 1 << FORCED};
    for (int way = 0; way < 3; way++) {
        unsigned arena = create();
        refused = ways[way];
        int flags = MALLOCX_ARENA(arena);
        unsigned char *blocks[COUNT];
        for (int round = 0; round < 3; round++) {
            for (int i = round != 0; i < COUNT; i += 1 + (round != 0)) {
                size_t size = 17000 + (size_t)i * 500;
                CHECK((blocks[i] = mallocx(size, flags)), "block %d", i);
                fill(blocks[i], size, (unsigned)i);
            }
            for (int i = 1; i < COUNT; i += 2) dallocx(blocks[i], 0);
            CHECK(to(arena, ".purge") == 0, "purge");
            for (int i = 0; i < COUNT; i += 2) {
                size_t size = 17000 + (size_t)i * 500, same = first_difference(blocks[i], size, (unsigned)i);
                CHECK(same == size, "byte %zu of block %d, way %d, round %d", same, i, way, round);
            }
        }
        for (int i = 0; i < COUNT; i += 2) dallocx(blocks[i], 0);
        end(arena);
    }
}

CASE(without_memory_of_the_hooks_there_is_none) {
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena);
    refused = 1 << ALLOC;
    static const size_t sizes[] = {1, 10000, 3 << 20};
    for (int s = 0; s < 3; s++) {
        CHECK(mallocx(sizes[s], flags) == NULL, "%zu", sizes[s]);
        CHECK(mallocx(sizes[s], flags | MALLOCX_ZERO) == NULL, "%zu", sizes[s]);
    }
    refused = 0;
    unsigned char *block = mallocx(3 << 20, flags);
    fill(block, 3 << 20, 4);
    refused = 1 << ALLOC;
    CHECK(rallocx(block, 30 << 20, flags) == NULL, "it grew");
    CHECK(first_difference(block, 3 << 20, 4) == 3 << 20, "the block changed");
    CHECK(xallocx(block, 30 << 20, 0, flags) == 3 << 20, "%zu", sallocx(block, 0));
    size_t allocated;
    char name[64];
    READ(with_number(name, "arena.", arena, ".allocated"), &allocated);
    CHECK(allocated == 3 << 20, "%zu", allocated);
    dallocx(block, flags);
    end(arena);
}

CASE(hooks_may_be_few) {
    static extent_hooks_t few;
    few = (extent_hooks_t){.alloc = alloc};
    calm();
    unsigned arena;
    size_t length = sizeof arena;
    extent_hooks_t *table = &few;
    CHECK(mallctl("arenas.create", &arena, &length, &table, sizeof table) == 0, "no arena");
    int flags = MALLOCX_ARENA(arena);
    for (int round = 0; round < 20; round++) {
        char *a = mallocx(3 << 20, flags), *b = mallocx(100, flags), *c = mallocx(30000, flags);
        CHECK(a && b && c, "round %d", round);
        memset(a, 1, 3 << 20);
        dallocx(a, 0), dallocx(b, 0), dallocx(c, 0);
        CHECK(to(arena, ".purge") == 0, "purge");
    }
    CHECK(extent_count == 2, "what was kept is not used again: %zu extents", extent_count);
    CHECK(to(arena, ".destroy") == 0, "destroy");
    // No hook took them back.
    while (extent_count) drop((void *)extents[0].at, extents[0].size);
}

CASE(default_hooks_can_be_read_called_and_wrapped) {
    extent_hooks_t *before, *common;
    unsigned arena;
    char name[64];
    READ("arenas.create", &arena);
    with_number(name, "arena.", arena, ".extent_hooks");
    READ(name, &before);
    READ("arena.0.extent_hooks", &common);
    CHECK(before == common && before->alloc && before->dalloc && before->destroy && before->commit,
          "null");
    CHECK(before->decommit && before->purge_lazy && before->purge_forced && before->split && before->merge, "null");
    bool zero = true, committed = true;
    char *at = before->alloc(before, NULL, 4 * UNIT, 8 * UNIT, &zero, &committed, arena);
    CHECK(at && (uintptr_t)at % (8 * UNIT) == 0 && zero && committed, "%p", (void *)at);
    CHECK(first_nonzero((unsigned char *)at, 4 * UNIT) == 4 * UNIT, "not zero");
    memset(at, 1, 4 * UNIT);
    CHECK(before->alloc(before, at, UNIT, UNIT, &zero, &committed, arena) == NULL, "twice");
    CHECK(before->decommit(before, at, 4 * UNIT, 0, UNIT, arena), "memory is always committed");
    CHECK(!before->commit(before, at, 4 * UNIT, 0, UNIT, arena), "memory is always committed");
    CHECK(!before->purge_forced(before, at, 4 * UNIT, UNIT, UNIT, arena), "refused");
    CHECK(at[UNIT] == 0 && at[2 * UNIT] == 1 && at[UNIT - 1] == 1, "the wrong bytes");
    CHECK(!before->purge_lazy(before, at, 4 * UNIT, 2 * UNIT, UNIT, arena), "refused");
    CHECK(!before->split(before, at, 4 * UNIT, UNIT, 3 * UNIT, true, arena), "refused");
    CHECK(!before->merge(before, at, UNIT, at + UNIT, 3 * UNIT, true, arena), "refused");
    CHECK(!before->dalloc(before, at, 4 * UNIT, true, arena), "refused");

    // An arena with blocks gets hooks: its blocks stay, new ones are the hooks'. Then back.
    int flags = MALLOCX_ARENA(arena);
    char *old = mallocx(100, flags), *large = mallocx(3 << 20, flags);
    calm();
    extent_hooks_t *table = &hooks, *was;
    size_t length = sizeof was;
    CHECK(mallctl(name, &was, &length, &table, sizeof table) == 0 && was == before, "%p",
          (void *)was);
    READ(name, &was);
    CHECK(was == &hooks, "%p", (void *)was);
    char *new = mallocx(100, flags);
    CHECK(is_hooked(new) && !is_hooked(old) && arena_of(new) == arena && arena_of(old) == arena,
          "%p", (void *)new);
    dallocx(old, 0);
    dallocx(new, 0);
    CHECK(to(arena, ".purge") == 0 && extent_count == 0, "%zu extents", extent_count);
    CHECK(mallctl(name, NULL, NULL, &before, sizeof before) == 0, "back");
    READ(name, &was);
    CHECK(was == before, "%p", (void *)was);
    new = mallocx(5 << 20, flags);
    CHECK(new && !is_hooked(new), "%p", (void *)new);
    dallocx(new, 0);
    dallocx(large, 0);
    CHECK(to(arena, ".destroy") == 0, "destroy");
    // Not for the common memory, and not null.
    CHECK(mallctl("arena.0.extent_hooks", NULL, NULL, &table, sizeof table) == EPERM, "arena 0");
    table = NULL;
    arena = create();
    CHECK(mallctl(with_number(name, "arena.", arena, ".extent_hooks"), NULL, NULL, &table,
          sizeof table) == EINVAL,
          "null");
    end(arena);
}

struct task {
    unsigned arena, seed, rounds;
    bool bound;
};

static unsigned next(unsigned *seed) {
    *seed ^= *seed << 13, *seed ^= *seed >> 17, *seed ^= *seed << 5;
    return *seed;
}

// Blocks that threads pass to each other.
enum { SHELF = 64 };
static _Atomic(unsigned char *) shelf[SHELF];

// A block's first eight bytes hold its length, from which the rest follows.
static void check_block(unsigned char *block) {
    size_t size = *(size_t *)block;
    CHECK(size >= 8 && size <= sallocx(block, 0), "%zu of %zu", size, sallocx(block, 0));
    for (size_t i = 8; i < size; i += size > 9000 ? 509 : 1)
        CHECK(block[i] == (unsigned char)(size + i), "byte %zu of %zu", i, size);
}

static void write_block(unsigned char *block, size_t size) {
    *(size_t *)block = size;
    for (size_t i = 8; i < size; i += size > 9000 ? 509 : 1) block[i] = (unsigned char)(size + i);
}

static void *work(void *argument) {
    struct task *task = argument;
    unsigned seed = task->seed * 7919 + 1;
    if (task->bound) CHECK(WRITE("thread.arena", task->arena) == 0, "bound");
    int flags = task->bound ? 0 : MALLOCX_ARENA(task->arena) | MALLOCX_TCACHE_NONE;
    for (unsigned round = 0; round < task->rounds; round++) {
        unsigned char *block = atomic_exchange(&shelf[next(&seed) % SHELF], NULL);
        static const unsigned limits[] = {200, 9000, 100000, 1 << 20, 6 << 20};
        size_t size = 8 + next(&seed) % limits[next(&seed) % 100 < 60 ? 0 : next(&seed) % 5];
        if (block) {
            check_block(block);
            switch (next(&seed) % 4) {
            case 0: dallocx(block, flags), block = NULL; break;
            case 1: free(block), block = NULL; break;
            case 2: {
                size_t had = *(size_t *)block;
                size_t now = xallocx(block, size, 0, 0);
                CHECK(now == sallocx(block, 0), "%zu", now);
                write_block(block, now < had ? now : had);
                break;
            }
            default: {
                size_t had = *(size_t *)block;
                unsigned char *moved = rallocx(block, size, flags);
                if (!moved) break;
                block = moved;
                if (size >= had) check_block(block);
                write_block(block, size);
            }
            }
        } else {
            bool zeroed = next(&seed) % 4 == 0;
            block = mallocx(size,
                flags | (zeroed ? MALLOCX_ZERO : 0) | MALLOCX_LG_ALIGN(next(&seed) % 14));
            if (block && zeroed)
                CHECK(first_nonzero(block, sallocx(block, 0)) == sallocx(block, 0), "%zu", size);
            if (block) write_block(block, size);
        }
        if (block) block = atomic_exchange(&shelf[next(&seed) % SHELF], block);
        if (block) check_block(block), dallocx(block, 0);
        if (round % 200 == 0) to(task->arena, round % 400 ? ".purge" : ".decay");
    }
    unsigned none = 0;
    CHECK(WRITE("thread.arena", none) == 0, "unbound");
    return NULL;
}

static void work_together(unsigned arena, unsigned seed, unsigned rounds) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct task tasks[THREADS];
    for (unsigned t = 0; t < THREADS; t++) {
        tasks[t] = (struct task){arena, seed * THREADS + t, rounds, t % 2 == 1};
        CHECK(pthread_create(&threads[t], NULL, work, &tasks[t]) == 0, "no thread");
    }
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
}

static void clear_shelf(void) {
    for (int i = 0; i < SHELF; i++) {
        unsigned char *block = atomic_exchange(&shelf[i], NULL);
        if (block) check_block(block), dallocx(block, 0);
    }
}

CASE(threads_share_an_arena_whatever_its_hooks_refuse) {
    for (unsigned seed = 0; seed < 8; seed++) {
        unsigned arena = create();
        one_in = seed % 4 * 2;
        refused = seed == 5 ? 1 << DALLOC : seed == 6 ? 1 << DALLOC | 1 << DECOMMIT : seed == 7 ? 1 << SPLIT : 0;
        fresh_is_dirty = seed % 2, fresh_is_decommitted = seed % 3 == 1;
        work_together(arena, seed, 1500);
        clear_shelf();
        size_t allocated;
        char name[64];
        READ(with_number(name, "arena.", arena, ".allocated"), &allocated);
        CHECK(allocated == 0, "%zu bytes are left, seed %u", allocated, seed);
        refused = one_in = 0;
        CHECK(calls[ALLOC] && calls[DALLOC], "nothing happened");
        end(arena);
    }
}

// Three blocks of a unit each in one extent, which begins at the first. Nothing decays.
static unsigned create_three(char *parts[3]) {
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    ssize_t never = -1;
    CHECK(WRITE("arenas.dirty_decay_ms", never) == 0, "decay");
    refused = 1 << DALLOC;
    dallocx(mallocx(3 * UNIT, flags), flags);
    for (size_t i = 0; i < 3; i++) {
        CHECK(mallocx(UNIT, flags), "block %zu", i);
        parts[i] = (char *)extents[0].at + i * UNIT;
    }
    CHECK(extent_count == 1 && extents[0].size == 3 * UNIT, "%zu extents", extent_count);
    return arena;
}

// Frees a block; its pages are then decommitted, and stay in the extent.
static void decommit_block(unsigned arena, char *block) {
    refused = 1 << DALLOC | 1 << SPLIT;
    unsigned before = calls[DECOMMIT];
    dallocx(block, 0);
    CHECK(to(arena, ".purge") == 0 && calls[DECOMMIT] > before, "not decommitted");
    refused = 0;
}

static void *grow_to_two(void *block) {
    CHECK(xallocx(block, 2 * UNIT, 0, 0) == 2 * UNIT, "does not grow");
    return NULL;
}

static void *take_one(void *arena) {
    CHECK(mallocx(UNIT, MALLOCX_ARENA((unsigned)(uintptr_t)arena) | MALLOCX_TCACHE_NONE), "none");
    return NULL;
}

static void *purge_it(void *arena) {
    CHECK(to((unsigned)(uintptr_t)arena, ".purge") == 0, "purge");
    return NULL;
}

static pthread_t until_it_stands(enum what kind, void *(*act)(void *), void *argument) {
    pthread_t thread;
    stops = (int)kind;
    CHECK(pthread_create(&thread, NULL, act, argument) == 0, "no thread");
    while (stands != (int)kind) usleep(100);
    return thread;
}

static void go_on(pthread_t thread) {
    stands = KINDS;
    pthread_join(thread, NULL);
}

CASE(an_extent_is_not_split_while_pages_in_it_are_committed) {
    char *parts[3];
    unsigned arena = create_three(parts);
    decommit_block(arena, parts[1]);
    dallocx(parts[2], 0);
    pthread_t thread = until_it_stands(COMMIT, grow_to_two, parts[0]);
    unsigned splits = calls[SPLIT];
    CHECK(to(arena, ".purge") == 0 && calls[SPLIT] == splits, "split beside a commit");
    go_on(thread);
    // It was not forgotten.
    CHECK(to(arena, ".purge") == 0, "purge");
    CHECK(extent_count == 1 && extents[0].size == 2 * UNIT, "%zu bytes", extents[0].size);
    end(arena);
}

CASE(an_extent_is_not_joined_while_pages_in_it_are_committed) {
    char *parts[3];
    unsigned arena = create_three(parts);
    dallocx(parts[2], 0);
    refused = 1 << DALLOC;
    CHECK(to(arena, ".purge") == 0 && extent_count == 2, "%zu extents", extent_count);
    decommit_block(arena, parts[0]);
    pthread_t thread = until_it_stands(COMMIT, take_one, (void *)(uintptr_t)arena);
    size_t real = xallocx(parts[1], 2 * UNIT, 0, 0);
    CHECK(real == UNIT && calls[MERGE] == 0, "joined beside a commit");
    go_on(thread);
    grow_to_two(parts[1]);
    CHECK(extent_count == 1 && extents[0].size == 3 * UNIT, "%zu extents", extent_count);
    end(arena);
}

CASE(no_pages_are_committed_in_an_extent_that_is_being_split) {
    for (size_t size = 100000; size <= UNIT; size += UNIT - 100000) {
        char *parts[3];
        unsigned arena = create_three(parts);
        decommit_block(arena, parts[0]);
        dallocx(parts[2], 0);
        pthread_t thread = until_it_stands(SPLIT, purge_it, (void *)(uintptr_t)arena);
        int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
        unsigned commits = calls[COMMIT];
        CHECK(mallocx(size, flags) && extent_count == 3, "%zu extents", extent_count);
        go_on(thread);
        CHECK(calls[COMMIT] == commits, "committed");
        // Now they are.
        CHECK(mallocx(UNIT, flags) && calls[COMMIT] == commits + 1, "not committed");
        end(arena);
    }
}

CASE(a_reset_arena_serves_again_and_a_destroyed_one_gives_all_back) {
    unsigned arena = create();
    for (unsigned round = 0; round < 5; round++) {
        work_together(arena, 100 + round, 300);
        memset((void *)shelf, 0, sizeof shelf);
        CHECK(to(arena, ".reset") == 0, "reset");
        size_t allocated;
        char name[64];
        READ(with_number(name, "arena.", arena, ".allocated"), &allocated);
        CHECK(allocated == 0, "%zu bytes are left", allocated);
    }
    work_together(arena, 200, 300);
    memset((void *)shelf, 0, sizeof shelf);
    // What dalloc refuses, destroy must take.
    refused = 1 << DALLOC;
    end(arena);
    CHECK(calls[DESTROY] != 0, "not destroyed");
}

CASE(pages_that_are_being_purged_are_not_used_after_a_reset) {
    enum { COUNT = 12, SIZE = 100000 };
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    void *kept = mallocx(SIZE, flags), *gone = mallocx(SIZE, flags);
    CHECK(kept && gone, "%p, %p", kept, gone);
    uintptr_t hole = (uintptr_t)gone;
    dallocx(gone, 0);
    pthread_t thread = until_it_stands(DECOMMIT, purge_it, (void *)(uintptr_t)arena);
    CHECK(to(arena, ".reset") == 0, "reset");
    unsigned char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = mallocx(SIZE, flags);
        CHECK(blocks[i] && (uintptr_t)blocks[i] != hole, "%p", (void *)blocks[i]);
        fill(blocks[i], SIZE, i);
    }
    go_on(thread);
    for (int i = 0; i < COUNT; i++)
        CHECK(first_difference(blocks[i], SIZE, i) == SIZE, "block %d", i);
    // They are available again.
    CHECK(to(arena, ".reset") == 0, "reset");
    // As many as fit, in whole pages of the kernel's.
    size_t page = (size_t)sysconf(_SC_PAGESIZE), each = (nallocx(SIZE, flags) + page - 1) / page * page;
    for (size_t i = 0; i < UNIT / each; i++) CHECK(mallocx(SIZE, flags), "%zu", i);
    CHECK(extent_count == 1, "%zu extents", extent_count);
    end(arena);
}

CASE(a_childs_arena_is_its_own) {
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena);
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    struct task tasks[THREADS];
    for (unsigned t = 0; t < THREADS; t++) {
        tasks[t] = (struct task){arena, t + 1, 3000, false};
        CHECK(pthread_create(&threads[t], NULL, work, &tasks[t]) == 0, "no thread");
    }
    for (int round = 0; round < 20; round++) {
        // The test's own lock is taken, as a program's fork handlers would.
        pthread_mutex_lock(&lock);
        pid_t child = fork();
        pthread_mutex_unlock(&lock);
        if (child == 0) {
            for (int i = 0; i < 50; i++) {
                unsigned char *block = mallocx(100 + (size_t)i * 5000, flags);
                if (!block) _exit(1);
                memset(block, i, 100);
                dallocx(block, 0);
            }
            _exit(to(arena, ".purge") == 0 ? 0 : 2);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "round %d: %x", round, status);
    }
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    clear_shelf();
    end(arena);
}

CASE(hook_memory_counts_in_the_figures) {
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    char name[64];
    size_t before, after, value;
    uint64_t epoch = 1;
    CHECK(WRITE("epoch", epoch) == 0, "epoch");
    READ("stats.allocated", &before);
    char *large = mallocx(20 << 20, flags), *blocks[1000];
    for (int i = 0; i < 1000; i++) blocks[i] = mallocx(640, flags);
    memset(large, 1, 20 << 20);
    CHECK(WRITE("epoch", epoch) == 0, "epoch");
    READ("stats.allocated", &after);
    CHECK(after - before >= (20 << 20) + 640000 && after - before < 21 << 20, "%zu",
          after - before);
    READ(with_number(name, "stats.arenas.", arena, ".small.allocated"), &value);
    CHECK(value == 1000 * nallocx(640, 0), "%zu", value);
    READ(with_number(name, "stats.arenas.", arena, ".large.allocated"), &value);
    CHECK(value == 20 << 20, "%zu", value);
    // The process has them too, the common memory has not.
    READ("stats.arenas.4096.small.allocated", &value);
    CHECK(value >= 1000 * nallocx(640, 0), "%zu", value);
    READ("stats.arenas.4096.large.allocated", &value);
    CHECK(value >= 20 << 20 && value < (20 << 20) + 640000, "%zu", value);
    READ("stats.arenas.0.small.allocated", &value);
    CHECK(value < 640000, "%zu", value);
    READ("stats.arenas.0.large.allocated", &value);
    CHECK(value < 640000, "%zu", value);
    READ(with_number(name, "stats.arenas.", arena, ".mapped"), &value);
    CHECK(value == 22 << 20, "%zu", value);
    dallocx(large, flags);
    CHECK(WRITE("epoch", epoch) == 0, "epoch");
    READ(with_number(name, "stats.arenas.", arena, ".pdirty"), &value);
    CHECK(value == (20 << 20) / PAGE, "%zu", value);
    READ("stats.arenas.4096.pdirty", &value);
    CHECK(value >= (20 << 20) / PAGE, "%zu", value);
    size_t active, resident, mapped;
    READ("stats.active", &active);
    READ("stats.resident", &resident);
    CHECK(resident >= active + (20 << 20), "%zu, %zu", active, resident);
    READ("stats.mapped", &mapped);
    CHECK(active <= resident && resident <= mapped, "%zu, %zu, %zu", active, resident, mapped);
    // Limits apply to memory from hooks too.
    size_t limit = 1 << 20;
    CHECK(WRITE(with_number(name, "arena.", arena, ".limit"), limit) == 0, "limit");
    CHECK(mallocx(600000, flags) == NULL, "beyond the limit");
    for (int i = 0; i < 1000; i++) dallocx(blocks[i], 0);
    void *block = mallocx(600000, flags);
    CHECK(block, "below the limit");
    end(arena);
}

CASE(free_pages_decay) {
    unsigned arena = create();
    int flags = MALLOCX_ARENA(arena);
    ssize_t decay = 50;
    CHECK(WRITE("arenas.dirty_decay_ms", decay) == 0, "decay");
    char *stays = mallocx(3 << 20, flags), *goes = mallocx(3 << 20, flags);
    memset(goes, 1, 3 << 20);
    dallocx(goes, 0);
    CHECK(extent_count == 2, "%zu extents", extent_count);
    for (int i = 0; i < 100 && extent_count > 1; i++) {
        usleep(10000);
        // The next free sees to it.
        dallocx(mallocx(20000, flags), 0);
    }
    CHECK(calls[DALLOC] != 0, "nothing went back");
    dallocx(stays, 0);
    decay = 0;
    CHECK(WRITE("arenas.dirty_decay_ms", decay) == 0, "decay");
    dallocx(mallocx(20000, flags), 0);
    CHECK(extent_count == 0, "%zu extents are left", extent_count);
    end(arena);
}

CASE(a_decay_of_all_arenas_reaches_those_with_hooks) {
    ssize_t decay = 50;
    CHECK(WRITE("arenas.dirty_decay_ms", decay) == 0, "decay");
    unsigned first = create(), last = create(), count;
    READ("arenas.narenas", &count);
    char one_past[64];
    const char *names[] = {"arena.4096.decay", with_number(one_past, "arena.", count, ".decay")};
    for (int n = 0; n < 2; n++) {
        for (unsigned arena = first; arena <= last; arena++) {
            char *block = mallocx(3 << 20, MALLOCX_ARENA(arena));
            memset(block, 1, 3 << 20);
            dallocx(block, 0);
        }
        CHECK(extent_count == 2, "%zu extents", extent_count);
        for (int i = 0; i < 100 && extent_count != 0; i++) {
            usleep(10000);
            CHECK(act(names[n]) == 0, "%s", names[n]);
        }
        CHECK(extent_count == 0, "%s leaves %zu extents", names[n], extent_count);
    }
    end(first);
    end(last);
}

CASE(records_lie_in_hook_memory_if_that_is_wanted) {
    for (int inside = 0; inside < 2; inside++) {
        calm();
        struct {
            extent_hooks_t *hooks;
            bool metadata_use_hooks;
        } settings = {&hooks, inside};
        unsigned arena;
        size_t length = sizeof arena;
        CHECK(mallctl("experimental.arenas_create_ext", &arena, &length, &settings,
              sizeof settings) == 0, "none");
        CHECK(extent_count == (size_t)inside, "%zu", extent_count);
        work_together(arena, 3, 500);
        clear_shelf();
        end(arena);
    }
    refused = 1 << ALLOC;
    struct {
        extent_hooks_t *hooks;
        bool metadata_use_hooks;
    } settings = {&hooks, true};
    unsigned arena;
    size_t length = sizeof arena;
    CHECK(mallctl("experimental.arenas_create_ext", &arena, &length, &settings,
          sizeof settings) == EAGAIN, "made");
    calm();
}
