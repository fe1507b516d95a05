// Mistakes of the program: what masu says, and whether the program goes on.
#include "check.h"
#include "doors.h"

#include <pthread.h>
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
CASE(double_free_of_1000_bytes) { free_twice(1000); }
CASE(double_free_of_8000_bytes) { free_twice(8000); }
CASE(double_free_of_40000_bytes) { free_twice(40000); }
CASE(double_free_of_3_mib) { free_twice(3 << 20); }

// A block that has gone back to the pool of all threads.
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

// The second free comes from the thread that did not allocate the block.
CASE(double_free_by_another_thread) {
    void *block = malloc(64), *again = hide(block);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_there, block) == 0, "thread");
    pthread_join(thread, NULL);
    CHECK(pthread_create(&thread, NULL, free_there, again) == 0, "thread");
    pthread_join(thread, NULL);
    // Not promised to be found; whatever happens, the heap stays usable.
    for (int i = 0; i < 1000; i++) free(malloc(64));
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

CASE(freeing_one_foreign_pointer_is_reported) {
    free(malloc(10));
    free(hide(in_data + 16));
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
        // Its size is unknown, so there is nothing to copy: no answer but failure is right.
        void *block = realloc(hide(pointers[i]), 100);
        CHECK(block == NULL, "realloc(%p) = %p", pointers[i], block);
    }
    CHECK(in_data[0] == 1 && in_text[0] == 'c', "a foreign block was written");
    dprintf(1, "went on\n");
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
