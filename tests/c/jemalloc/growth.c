// A buffer that doubles: what it costs in page faults and memory. Counts, not times.
#include "door.h"

#include <sys/resource.h>

enum { STEP = 2 << 20 };
#define FINAL ((size_t)256 << 20)

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

// Appends pieces until the buffer is full, as a builder of columns does, with a bitmap beside it.
static void build(void) {
    static unsigned char piece[STEP];
    size_t capacity = STEP, bits = STEP / 64;
    unsigned char *data = mallocx(capacity, MALLOCX_ALIGN(64));
    unsigned char *bitmap = mallocx(bits, MALLOCX_ALIGN(64));
    for (size_t at = 0; at < FINAL; at += STEP) {
        if (at + STEP > capacity) {
            capacity *= 2;
            data = rallocx(data, capacity, MALLOCX_ALIGN(64));
            bitmap = rallocx(bitmap, capacity / 64, MALLOCX_ALIGN(64));
            CHECK(data && bitmap, "%zu", capacity);
            CHECK((uintptr_t)data % 64 == 0, "%p", (void *)data);
        }
        memset(piece, (int)(at / STEP + 1), STEP);
        memcpy(data + at, piece, STEP);
        memset(bitmap + at / 64, 0xff, STEP / 64);
    }
    for (size_t at = 0; at < FINAL; at += 4096)
        CHECK(data[at] == (unsigned char)(at / STEP + 1), "byte %zu", at);
    dallocx(data, 0);
    dallocx(bitmap, 0);
}

// Each page is faulted in at most once, since pages move instead of being copied, and less often
// where the kernel gives huge pages.
CASE(growing_touches_every_page_once) {
    long before = faults();
    build();
    long pages = (long)(FINAL / 4096);
    CHECK(faults() - before < pages + pages / 16, "%ld faults", faults() - before);
}

// Run with an endless decay time.
CASE(growing_again_finds_the_pages_of_the_last_time) {
    build();
    build();
    for (int round = 0; round < 3; round++) {
        long before = faults();
        build();
        long pages = (long)(FINAL / 4096);
        CHECK(faults() - before < pages / 16, "%ld faults in round %d", faults() - before, round);
    }
}

CASE(growing_never_holds_the_old_and_the_new) {
    for (int round = 0; round < 4; round++) build();
    long peak = status_field("VmHWM:");
    CHECK(peak < (long)(FINAL >> 10) * 5 / 4, "%ld KiB", peak);
}

CASE(memory_is_back_two_seconds_after_the_last_free) {
    long before = resident_kib();
    for (int round = 0; round < 3; round++) build();
    sleep_ms(2000);
    long after = resident_kib();
    CHECK(after < before + (64 << 10), "%ld KiB to %ld KiB", before, after);
}

// Run with a decay time of an hour and a background thread.
CASE(memory_is_back_soon_after_the_decay_time_is_shortened) {
    enum { COUNT = 1000, SIZE = 100000 };
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) memset(blocks[i] = malloc(SIZE), 1, SIZE);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    long before = resident_kib(), after = before;
    // The background thread has begun to wait.
    sleep_ms(100);
    ssize_t decay = 200;
    CHECK(WRITE("arenas.dirty_decay_ms", decay) == 0, "%zd", decay);
    for (int i = 0; i < 300 && after > before - (64 << 10); i++) {
        sleep_ms(100);
        after = resident_kib();
    }
    CHECK(after <= before - (64 << 10), "%ld KiB to %ld KiB", before, after);
}

// Like build(), by allocating, copying and freeing.
static void build_by_copying(void) {
    size_t capacity = STEP;
    unsigned char *data = mallocx(capacity, MALLOCX_ALIGN(64));
    for (size_t at = 0; at < FINAL; at += STEP) {
        if (at + STEP > capacity) {
            unsigned char *longer = mallocx(capacity * 2, MALLOCX_ALIGN(64));
            CHECK(longer, "%zu", capacity * 2);
            memcpy(longer, data, capacity);
            dallocx(data, 0);
            data = longer;
            capacity *= 2;
        }
        memset(data + at, (int)(at / STEP + 1), STEP);
    }
    for (size_t at = 0; at < FINAL; at += 4096)
        CHECK(data[at] == (unsigned char)(at / STEP + 1), "byte %zu", at);
    dallocx(data, 0);
}

// Run with an endless decay time. No kept block is as long as the next one requested: their pages
// move to the new place. The last block's second half is faulted in each time.
CASE(copying_again_finds_the_pages_of_the_last_time) {
    build_by_copying();
    build_by_copying();
    for (int round = 0; round < 3; round++) {
        long before = faults();
        build_by_copying();
        long pages = (long)(FINAL / 4096);
        CHECK(faults() - before < pages * 5 / 8, "%ld faults in round %d", faults() - before, round);
    }
}

// Run with an endless decay time. Outgrown blocks are not resident beside their successor.
CASE(copying_holds_no_more_than_the_block_at_its_end) {
    for (int round = 0; round < 4; round++) build_by_copying();
    long peak = status_field("VmHWM:");
    CHECK(peak < (long)(FINAL >> 10) * 9 / 8, "%ld KiB", peak);
}

// Buffers of many sizes that replace each other take over their predecessors' pages, and need little
// more than the live bytes.
CASE(buffers_that_replace_each_other_need_few_fresh_pages) {
    enum { BUFFERS = 12, ROUNDS = 200 };
    static unsigned char *buffers[BUFFERS];
    uint64_t state = 7;
    size_t written = 0;
    long before = faults();
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char **at = &buffers[random_next(&state) % BUFFERS];
        size_t size = ((size_t)5 << 20) + random_next(&state) % ((size_t)15 << 20);
        if (*at) dallocx(*at, 0);
        *at = mallocx(size, 0);
        CHECK(*at, "%zu", size);
        for (size_t byte = 0; byte < size; byte += 4096) (*at)[byte] = 1;
        written += size / 4096;
    }
    CHECK(faults() - before < (long)written / 4, "%ld faults for %zu pages", faults() - before, written);
    CHECK(status_field("VmHWM:") < 280 << 10, "%ld KiB", status_field("VmHWM:"));
    for (int i = 0; i < BUFFERS; i++) dallocx(buffers[i], 0);
}
