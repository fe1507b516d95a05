// Mistakes of the program: what masu says, and whether the program goes on.
#include "check.h"
#include "doors.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

// free(p); free(p); with nothing in between, for one size. Ends by SIGABRT after one line.
static void free_twice(size_t size) {
    for (int i = 0; i < 100; i++) free(malloc(size));
    void *volatile keep = malloc(size);
    void *block = malloc(size);
    void *again = hide(block);
    free(block);
    free(again);
    dprintf(1, "went on\n");
    free(keep);
}

CASE(double_free_of_16_bytes) { free_twice(16); }
CASE(double_free_of_100_bytes) { free_twice(100); }
CASE(double_free_where_sigabrt_is_blocked) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    free_twice(100);
}
CASE(double_free_where_sigabrt_is_ignored) {
    signal(SIGABRT, SIG_IGN);
    free_twice(100);
}
static void return_from(int number) { (void)number; }
CASE(double_free_where_a_handler_of_sigabrt_returns) {
    signal(SIGABRT, return_from);
    free_twice(100);
}
CASE(double_free_of_1000_bytes) { free_twice(1000); }
CASE(double_free_of_8000_bytes) { free_twice(8000); }
CASE(double_free_of_40000_bytes) { free_twice(40000); }
CASE(double_free_of_3_mib) { free_twice(3 << 20); }

// Resizes a block that has gone back to the pool of all threads.
static void resize_freed(size_t size) {
    char *block = malloc(size), *other = malloc(size);
    free(block);
    void *moved = realloc(hide(block), 2 * size);
    dprintf(1, "went on with %p, %p\n", moved, (void *)other);
}
CASE(realloc_of_freed_300000_bytes) { resize_freed(300000); }
CASE(realloc_of_freed_3_mib) { resize_freed(3 << 20); }

static void *free_there(void *block) {
    free(block);
    return NULL;
}

struct there {
    void *(*malloc)(size_t);
    size_t size;
};

static void *malloc_there(void *there) {
    struct there *it = there;
    return it->malloc(it->size);
}

static void *in_a_thread(void *(*its_malloc)(size_t), size_t size) {
    struct there there = {its_malloc, size};
    pthread_t thread;
    void *block;
    CHECK(pthread_create(&thread, NULL, malloc_there, &there) == 0, "thread");
    pthread_join(thread, &block);
    return block;
}

// The second free comes from a thread that did not allocate the block.
CASE(double_free_by_another_thread) {
    void *block = malloc(64), *again = hide(block);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_there, block) == 0, "thread");
    pthread_join(thread, NULL);
    CHECK(pthread_create(&thread, NULL, free_there, again) == 0, "thread");
    pthread_join(thread, NULL);
    // This may go unnoticed; whatever happens, the heap stays usable.
    for (int i = 0; i < 1000; i++) free(malloc(64));
}

// Two threads free a block at the same moment, and neither sees the other's mark. Removing the mark here imitates a
// second thread that looked before the first one set it.
CASE(double_free_by_two_threads_at_once) {
    void *blocks[64];
    pthread_t thread;
    for (int i = 0; i < 64; i++) blocks[i] = malloc(64);
    for (int round = 0; round < 2; round++) {
        CHECK(pthread_create(&thread, NULL, free_there, blocks[32]) == 0, "thread");
        pthread_join(thread, NULL);
        ((void **)hide(blocks[32]))[1] = NULL;
    }
    for (int i = 0; i < 100000; i++) hide(malloc(64));
    dprintf(1, "went on\n");
}

// Blocks that a thread has freed for their owner hold links to one another, until the program writes there.
enum { FREED = 32, LIVE = 8 };
static char *linked[FREED], *live[LIVE];

struct overwrite {
    void *link;
    size_t bytes, at;
};

static void *free_and_overwrite(void *with) {
    struct overwrite *it = with;
    for (int i = 0; i < FREED; i++) free(linked[i]);
    memcpy(hide(linked[FREED / 2] + it->at), &it->link, it->bytes);
    return NULL;
}

static void overwrite_a_link(void *link, size_t bytes, size_t at) {
    struct overwrite with = {link, bytes, at};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_and_overwrite, &with) == 0, "thread");
    pthread_join(thread, NULL);
    for (int i = 0; i < 100000; i++) {
        char *block = malloc(64);
        for (int j = 0; j < LIVE; j++) CHECK(block != live[j], "it has another owner");
    }
    dprintf(1, "went on\n");
}

static void take_blocks(void) {
    for (int i = 0; i < FREED; i++) {
        linked[i] = malloc(64);
        if (i % (FREED / LIVE) == 0) live[i / (FREED / LIVE)] = malloc(64);
    }
}

CASE(a_link_becomes_garbage) { take_blocks(); overwrite_a_link((void *)0x7961207473756a20, 8, 0); }
CASE(a_link_becomes_nothing) { take_blocks(); overwrite_a_link(NULL, 8, 0); }
CASE(a_link_leads_to_a_live_block) { take_blocks(); overwrite_a_link(live[3], 8, 0); }
CASE(a_link_leads_to_another_span) { take_blocks(); overwrite_a_link(malloc(1000), 8, 0); }
CASE(half_a_link_is_overwritten) { take_blocks(); overwrite_a_link((void *)1, 4, 4); }

// The same in a block that the thread itself has freed, which links to its next block.
static void overwrite_an_own_link(void *link) {
    for (int i = 0; i < FREED; i++) free(linked[i]);
    memcpy(hide(linked[FREED / 2]), &link, sizeof link);
    for (int i = 0; i < 100000; i++) {
        char *block = malloc(64);
        CHECK(block != link, "it has another owner");
        for (int j = 0; j < LIVE; j++) CHECK(block != live[j], "it has another owner");
    }
    dprintf(1, "went on\n");
}

CASE(an_own_link_leads_to_a_live_block) { take_blocks(); overwrite_an_own_link(live[3]); }
CASE(an_own_link_leads_to_another_span) { take_blocks(); overwrite_an_own_link(malloc(1000)); }
CASE(an_own_link_leads_into_a_live_block) { take_blocks(); overwrite_an_own_link(live[3] + 16); }
CASE(an_own_link_leads_to_the_stack) { char local[64] = {0}; take_blocks(); overwrite_an_own_link(hide(local)); }
CASE(an_own_mark_is_overwritten) {
    take_blocks();
    for (int i = 0; i < FREED; i++) free(linked[i]);
    memset(hide(linked[FREED / 2] + 8), 0, 8);
    for (int i = 0; i < 100000; i++) CHECK(malloc(64) != NULL, "no memory");
    dprintf(1, "went on\n");
}

// Blocks from glibc's own functions go back to it, from each kind of its memory.
CASE(blocks_of_the_c_library_go_back_to_it) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    void *(*its_malloc)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    CHECK(its_malloc && its_malloc != malloc, "glibc's malloc");
    static const size_t sizes[] = {100, 5000, 300000};
    for (int i = 0; i < 6; i++) {
        char *block = i < 3 ? its_malloc(sizes[i]) : in_a_thread(its_malloc, sizes[i - 3]);
        size_t size = malloc_usable_size(block);
        CHECK(size >= sizes[i % 3] && size < 2 * sizes[i % 3], "%zu bytes of %zu", size, sizes[i % 3]);
        fill(block, size, i);
        block = realloc(hide(block), 3 * size);
        CHECK(block && first_difference(block, size, i) == size, "realloc of %zu bytes", size);
        errno = 4000;
        free(block);
        CHECK(errno == 4000, "errno became %d", errno);
        if (i < 2) CHECK(its_malloc(3 * size) == block, "%zu bytes were not freed", size);
    }
    dprintf(1, "went on\n");
}

static char in_data[4096] __attribute__((aligned(4096))) = {1};
static const char in_text[64] = "constant";

// Pointers that no allocator gave out.
static int foreign(void **pointers) {
    static char on_bss[4096];
    char *mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *closed = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *gone = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, 1 << 20);
    int count = 0;
    pointers[count++] = in_data;
    pointers[count++] = in_data + 16;
    pointers[count++] = (void *)in_text;
    pointers[count++] = on_bss + 64;
    pointers[count++] = (void *)foreign;
    pointers[count++] = &count;
    pointers[count++] = mapping;
    pointers[count++] = mapping + 65536;
    pointers[count++] = closed + 4096;
    pointers[count++] = gone + 16;
    pointers[count++] = (void *)16;
    pointers[count++] = (void *)1;
    pointers[count++] = (void *)4096;
    pointers[count++] = (void *)0x00007ffffffff000;
    pointers[count++] = (void *)0x0000800000000000;
    pointers[count++] = (void *)0xdeadbeefdeadbeef;
    pointers[count++] = (void *)(uintptr_t)-16;
    pointers[count++] = (void *)(uintptr_t)-4096;
    return count;
}

CASE(freeing_foreign_pointers_is_survived) {
    void *pointers[32];
    int count = foreign(pointers);
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < count; i++) {
            errno = 4000;
            free(hide(pointers[i]));
            CHECK(errno == 4000, "errno became %d", errno);
        }
    CHECK(in_data[0] == 1 && in_text[0] == 'c', "a foreign block was written");
    for (int i = 0; i < 1000; i++) {
        char *block = malloc(i * 20);
        fill(block, i * 20, i);
        CHECK(first_difference(block, i * 20, i) == (size_t)i * 20, "the heap is damaged");
        free(block);
    }
    dprintf(1, "went on\n");
}

CASE(usable_size_of_foreign_pointers_is_zero) {
    void *pointers[32];
    int count = foreign(pointers);
    for (int i = 0; i < count; i++) {
        size_t usable = malloc_usable_size(hide(pointers[i]));
        CHECK(usable == 0, "%zu at %p", usable, pointers[i]);
    }
}

CASE(reallocating_foreign_pointers_is_survived) {
    void *pointers[32];
    int count = foreign(pointers);
    for (int i = 0; i < count; i++) {
        // Its size is unknown, so there is nothing to copy: the only right answer is failure.
        void *block = realloc(hide(pointers[i]), 100);
        CHECK(block == NULL, "realloc(%p) = %p", pointers[i], block);
    }
    CHECK(in_data[0] == 1 && in_text[0] == 'c', "a foreign block was written");
    dprintf(1, "went on\n");
}

// A mistake that masu reports in a sentence: "went on" only if told to go on.
#define MISTAKE(name, deed)                                 \
    CASE(name) {                                            \
        char *block = malloc(20000), *other = malloc(20000);\
        char *large = malloc(3 << 20), *small = malloc(100);\
        (void)block, (void)other, (void)large, (void)small; \
        deed;                                               \
        for (int i = 0; i < 1000; i++) free(malloc(i * 30));\
        dprintf(1, "went on\n");                            \
    }

// C++'s, which a C library lacks.
DOOR void door_sized(void *, size_t) __asm__("_ZdlPvm");
DOOR void door_aligned(void *, size_t) __asm__("_ZdlPvSt11align_val_t");
DOOR void door_both(void *, size_t, size_t) __asm__("_ZdlPvmSt11align_val_t");

static void sized_delete(void *block, size_t size) {
    if (door_sized) door_sized(block, size);
    else free(block);
}
static void aligned_delete(void *block, size_t align) {
    if (door_aligned) door_aligned(block, align);
    else free(block);
}
static void sized_aligned_delete(void *block, size_t size, size_t align) {
    if (door_both) door_both(block, size, align);
    else free(block);
}

static char *unmapped(void) {
    char *gone = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, 1 << 20);
    return gone + 4096;
}

static char *mapped(void) {
    char *mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapping + 4096;
}

MISTAKE(free_of_a_small_number, free(hide((void *)48)))
MISTAKE(free_of_a_wild_number, free(hide((void *)0xdeadbeefdeadbee0)))
MISTAKE(free_of_an_uneven_address, free(hide(in_data + 1)))
MISTAKE(free_of_a_local, char local[64]; free(hide((void *)(((uintptr_t)local + 15) & ~15ul))))
MISTAKE(free_of_a_variable, free(hide(in_data + 16)))
MISTAKE(free_of_a_constant, free(hide((void *)in_text)))
MISTAKE(free_of_the_c_library, free(hide((void *)((uintptr_t)getenv & ~15ul))))
MISTAKE(free_of_unmapped_memory, free(hide(unmapped())))
MISTAKE(free_of_a_mapping, free(hide(mapped())))
MISTAKE(realloc_of_a_mapping, CHECK(!realloc(hide(mapped()), 100), "it grew"))
MISTAKE(free_inside_a_medium_block, free(hide(block + 16)))
MISTAKE(free_inside_a_huge_block, free(hide(large + (2 << 20))))
MISTAKE(free_inside_a_small_block, free(hide(small + 16)))
MISTAKE(double_free_of_a_small_block, hide(malloc(100)); free(small); free(hide(small)))
MISTAKE(realloc_of_a_freed_small_block, hide(malloc(100)); free(small); CHECK(!realloc(hide(small), 300), "it grew"))
MISTAKE(double_free_of_a_medium_block, free(block); free(other); free(hide(block)))
MISTAKE(double_free_of_a_huge_block, free(large); free(hide(large)))
MISTAKE(realloc_of_a_freed_medium_block, free(block); CHECK(!realloc(hide(block), 30000), "it grew"))
MISTAKE(realloc_inside_a_medium_block, CHECK(!realloc(hide(block + 16), 30000), "it grew"))
MISTAKE(realloc_of_a_variable, CHECK(!realloc(hide(in_data + 16), 100), "it grew"))
MISTAKE(size_of_a_freed_medium_block, free(block); CHECK(!malloc_usable_size(hide(block)), "a size"))
MISTAKE(size_of_a_freed_small_block, hide(malloc(100)); free(small); CHECK(!malloc_usable_size(hide(small)), "a size"))
MISTAKE(size_inside_a_small_block, CHECK(!malloc_usable_size(hide(small + 16)), "a size"))
MISTAKE(size_inside_a_huge_block, CHECK(!malloc_usable_size(hide(large + 4096)), "a size"))
MISTAKE(delete_with_too_large_a_size, sized_delete(small, 200))
MISTAKE(delete_with_too_small_a_size, sized_delete(block, 5000))
MISTAKE(delete_of_a_huge_block_with_a_small_size, sized_delete(large, 100))
MISTAKE(delete_with_an_alignment_it_lacks, aligned_delete(hide(large + 16), 64))
MISTAKE(delete_with_too_large_a_size_and_alignment, sized_aligned_delete(block, 30000, 64))

// None of these is a mistake.
CASE(sizes_and_alignments_that_are_right) {
    for (size_t size = 0; size < 3 << 20; size = size * 5 / 4 + 1) {
        sized_delete(malloc(size), size);
        for (size_t align = 8; align <= 1 << 20; align *= 2) {
            sized_aligned_delete(memalign(align, size), size, align);
            aligned_delete(memalign(align, size), align);
        }
        // A resized block may be larger than its last request.
        sized_delete(realloc(malloc(size * 2 + 1), size + 1), size + 1);
        sized_delete(realloc(malloc(size / 2 + 1), size + 1), size + 1);
    }
    sized_delete(NULL, 0);
    sized_delete(NULL, 100);
    aligned_delete(NULL, 64);
}

#ifdef OWN_NEW
// Makes the program one with an allocator of its own.
__attribute__((visibility("default"))) void *own_new(size_t size) __asm__("_Znwm");
void *own_new(size_t size) { return malloc(size); }
#endif

static void free_mappings(void) {
    char *mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(hide(mapping + 16));
    free(hide(mapping + 4096));
    CHECK(!realloc(hide(mapping + 64), 100), "it grew");
    dprintf(1, "went on\n");
}

CASE(a_mapping_may_be_another_allocators) { free_mappings(); }

CASE(a_mapping_beside_a_second_namespace) {
#ifdef __GLIBC__
    CHECK(dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW), "dlmopen: %s", dlerror());
#endif
    free_mappings();
}

// A pointer into the middle of a live block is a mistake that must not harm its neighbours.
CASE(pointers_into_blocks_do_no_harm_to_others) {
    static const size_t sizes[] = {64, 1024, 20000, 3 << 20};
    for (int i = 0; i < 4; i++) {
        char *before = malloc(sizes[i]), *victim = malloc(sizes[i]), *after = malloc(sizes[i]);
        fill(before, sizes[i], 1);
        fill(after, sizes[i], 2);
        malloc_usable_size(hide(victim + sizes[i] / 2));
        CHECK(first_difference(before, sizes[i], 1) == sizes[i], "before");
        CHECK(first_difference(after, sizes[i], 2) == sizes[i], "after");
        free(before);
        free(victim);
        free(after);
    }
}
