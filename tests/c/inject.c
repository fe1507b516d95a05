// A workload for fault injection: any system call of the allocator may fail, at any time.
//
// malloc answers NULL with ENOMEM or a whole block; it never crashes, and no block ever changes. After the fault, more
// rounds of the same work need no more memory than before, and everything was given back. The tracer counts system
// calls from getppid() on: earlier ones are the loader's.
#include "check.h"
#include "doors.h"

#include <pthread.h>
#include <sys/syscall.h>

static int refused; // how often malloc failed

static void *accept(void *block, const char *call, size_t size) {
    if (block == NULL) {
        CHECK(errno == ENOMEM, "%s(%zu): errno %d", call, size, errno);
        refused++;
    }
    errno = 0;
    return block;
}

static void expect(void *block, size_t size, uint64_t seed) {
    size_t bad = first_difference(block, size, seed);
    CHECK(bad == size, "byte %zu of %zu changed", bad, size);
}

// Many small blocks: enough that the allocator must ask the kernel for more.
static void small_blocks(void) {
    enum { many = 4000 };
    static struct { void *block; size_t size; } live[many];
    uint64_t random = 1;
    for (int i = 0; i < many; i++) {
        live[i].size = random_next(&random) % 1500;
        live[i].block = accept(i % 3 ? malloc(live[i].size) : calloc(1, live[i].size), "malloc", live[i].size);
        if (live[i].block == NULL) continue;
        if (i % 3 == 0) CHECK(first_nonzero(live[i].block, live[i].size) == live[i].size, "not zero");
        fill(live[i].block, live[i].size, i);
    }
    for (int i = 0; i < many; i += 2) {
        if (live[i].block == NULL) continue;
        void *moved = accept(realloc(live[i].block, live[i].size * 2 + 1), "realloc", live[i].size * 2);
        if (moved != NULL) live[i].block = moved;
        expect(live[i].block, live[i].size, i);
    }
    for (int i = 0; i < many; i++) {
        if (live[i].block != NULL) expect(live[i].block, live[i].size, i);
        free(live[i].block);
    }
}

static void medium_blocks(void) {
    enum { many = 60 };
    static struct { void *block; size_t size; } live[many];
    for (int i = 0; i < many; i++) {
        live[i].size = 9000 + (size_t)i * i * 70;
        live[i].block = accept(i % 2 ? malloc(live[i].size) : calloc(live[i].size, 1), "malloc", live[i].size);
        if (live[i].block == NULL) continue;
        if (i % 2 == 0) CHECK(first_nonzero(live[i].block, live[i].size) == live[i].size, "not zero");
        fill(live[i].block, live[i].size, i);
    }
    for (int i = 0; i < many; i++) {
        if (live[i].block == NULL) continue;
        expect(live[i].block, live[i].size, i);
        size_t next = i % 2 ? live[i].size * 2 : live[i].size / 2;
        void *moved = accept(realloc(live[i].block, next), "realloc", next);
        if (moved != NULL) live[i].block = moved;
        expect(live[i].block, moved != NULL && next < live[i].size ? next : live[i].size, i);
        free(live[i].block);
    }
}

// Both ends of each page of a huge block, which moves by whole pages.
static void fill_pages(char *block, size_t size, uint64_t seed) {
    for (size_t at = 0; at < size; at += 4096) {
        fill(block + at, 64, seed + at);
        fill(block + at + 4096 - 64, 64, seed + at + 1);
    }
}

static void expect_pages(char *block, size_t size, uint64_t seed) {
    for (size_t at = 0; at < size; at += 4096) {
        expect(block + at, 64, seed + at);
        expect(block + at + 4096 - 64, 64, seed + at + 1);
    }
}

static void huge_blocks(void) {
    size_t size = 1 << 20;
    char *block = accept(malloc(size), "malloc", size);
    char *other = accept(calloc(3 << 20, 1), "calloc", 3 << 20);
    char *wide = accept(memalign(2 << 20, 3 << 20), "memalign", 3 << 20);
    if (wide != NULL) {
        CHECK((uintptr_t)wide % (2 << 20) == 0, "%p", (void *)wide);
        fill_pages(wide, 3 << 20, 3);
    }
    if (other != NULL) CHECK(first_nonzero(other, 3 << 20) == 3 << 20, "not zero");
    if (other != NULL) fill_pages(other, 3 << 20, 2);
    if (block != NULL) fill_pages(block, size, 1);
    void *behind[5] = {0}; // these obstruct it, so that growing must move
    for (int i = 0; i < 5 && block != NULL; i++) {
        behind[i] = accept(malloc(1500000), "malloc", 1500000);
        char *moved = accept(realloc(block, size * 2), "realloc", size * 2);
        if (moved == NULL) break;
        block = moved;
        expect_pages(block, size, 1);
        size *= 2;
        fill_pages(block, size, 1);
        if (i == 2) {
            if (other != NULL) expect_pages(other, 3 << 20, 2);
            free(other);
            other = NULL;
        }
    }
    if (block != NULL && size > 1 << 20) {
        char *moved = accept(realloc(block, 1 << 20), "realloc", 1 << 20);
        if (moved != NULL) block = moved, size = 1 << 20;
        expect_pages(block, size, 1);
    }
    for (int i = 0; i < 5; i++) free(behind[i]);
    if (wide != NULL) expect_pages(wide, 3 << 20, 3);
    free(wide);
    free(block);
    free(other);
}

static void *in_thread(void *slot) {
    void **blocks = slot;
    for (int i = 0; i < 100; i++) {
        blocks[i] = accept(malloc(i * 200), "malloc", i * 200);
        free(accept(malloc(i * 100), "malloc", i * 100));
    }
    return NULL;
}

static void blocks_of_a_thread(void) {
    static void *blocks[100];
    pthread_t thread;
    memset(blocks, 0, sizeof blocks);
    int code = pthread_create(&thread, NULL, in_thread, blocks);
    CHECK(code == 0 || code == EAGAIN || code == ENOMEM, "pthread_create: %s", strerror(code));
    if (code == 0) pthread_join(thread, NULL);
    else refused++;
    for (int i = 0; i < 100; i++) free(blocks[i]);
}

static void work(void) {
    small_blocks();
    medium_blocks();
    huge_blocks();
    blocks_of_a_thread();
    // Twice: the second makes up for what a fault prevented in the first.
    for (int i = 0; i < 2 && malloc_trim != NULL; i++) malloc_trim(0);
}

static size_t in_use(void) {
    if (door_mallinfo2 == NULL) return 0;
    struct door_mallinfo2 info = door_mallinfo2();
    return info.uordblks + info.hblkhd;
}

CASE(work_through_failures) {
    syscall(SYS_getppid); // the tracer counts from here
    int quiet_rounds = 0, last = 0;
    size_t used[3] = {0};
    long resident[3] = {0}, mapped[3] = {0};
    // Until four rounds in a row had no refusal, of which the last three are compared: the first still makes up for
    // what the fault prevented. A lasting fault ends by count.
    for (int round = 0; round < 9 && quiet_rounds < 4; round++) {
        work();
        quiet_rounds = refused == last ? quiet_rounds + 1 : 0;
        last = refused;
        used[round % 3] = in_use();
        resident[round % 3] = resident_kib();
        mapped[round % 3] = status_field("VmSize:");
    }
    int lasting = getenv("MASU_TEST_LASTING") != NULL; // memory that cannot be given back piles up
    for (int i = 0; i < 3 && quiet_rounds == 4 && !lasting; i++) {
        int next = (i + 1) % 3;
        // Caches may hold a little more or less; a lost block of the larger kinds would show.
        CHECK(used[i] <= used[next] + 400000, "%zu, %zu bytes in use", used[next], used[i]);
        CHECK(resident[i] <= resident[next] + 4096, "%ld, %ld KiB resident", resident[next], resident[i]);
        // Address space made unusable for a while may be replaced, once, by a step of 64 MiB.
        CHECK(mapped[i] <= mapped[next] + 98304, "%ld, %ld KiB mapped", mapped[next], mapped[i]);
    }
    char line[200];
    int length = snprintf(line, sizeof line, "refused %d, quiet %d, in use %zu, resident %ld, mapped %ld\n",
                          refused, quiet_rounds, used[0], resident[0], mapped[0]);
    CHECK(write(1, line, length) == length, "write");
}
