// Limits that the program reaches while it runs: address space, data size, mappings. malloc fails
// cleanly; freed memory can be had again; threads can still be created.
#include "check.h"
#include "doors.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void lower(int resource, const char *field) {
    struct rlimit limit;
    getrlimit(resource, &limit);
    limit.rlim_cur = (rlim_t)status_field(field) * 1024 + (64 << 20);
    CHECK(setrlimit(resource, &limit) == 0, "setrlimit: %s", strerror(errno));
}

// Allocates blocks of a size until there are no more (or `most` are reached).
enum { most = 1 << 20 };
static char *blocks[most];
static size_t exhaust(size_t size, size_t enough) {
    size_t count = 0;
    while (count < most && count * size < enough) {
        errno = 0;
        blocks[count] = malloc(size);
        if (blocks[count] == NULL) {
            CHECK(errno == ENOMEM, "malloc(%zu): errno %d", size, errno);
            break;
        }
        blocks[count][0] = blocks[count][size - 1] = (char)count;
        count++;
    }
    return count;
}
static void release(size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        CHECK(blocks[i][0] == (char)i && blocks[i][size - 1] == (char)i, "block %zu changed", i);
        free(blocks[i]);
    }
}

static void *work_in_thread(void *unused) {
    (void)unused;
    for (size_t size = 1; size < 200000; size = size * 2 + 1) {
        char *block = malloc(size);
        CHECK(block != NULL, "malloc(%zu) in a thread", size);
        fill(block, size, size);
        CHECK(first_difference(block, size, size) == size, "%zu bytes", size);
        free(block);
    }
    return NULL;
}

static void make_threads(int count, size_t stack) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    pthread_t threads[16];
    for (int i = 0; i < count; i++) {
        int code = pthread_create(&threads[i], &attributes, work_in_thread, NULL);
        CHECK(code == 0, "thread %d of %d: %s", i, count, strerror(code));
    }
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attributes);
}

// Exhausts every size in turn, twice; the second time at least as much must be available.
static void exhaust_again_and_again(void) {
    static const size_t sizes[] = {64, 1000, 8192, 30000, 200000, 1 << 20, 5 << 20};
    for (int i = 0; i < 7; i++) {
        size_t first = exhaust(sizes[i], 512 << 20);
        release(first, sizes[i]);
        malloc_trim(0);
        size_t second = exhaust(sizes[i], 512 << 20);
        release(second, sizes[i]);
        malloc_trim(0);
        CHECK(first * sizes[i] >= 32 << 20, "only %zu blocks of %zu", first, sizes[i]);
        CHECK(second >= first - first / 10, "%zu blocks of %zu, then %zu", first, sizes[i], second);
    }
}

static void live_under_a_limit(void) {
    make_threads(4, 1 << 20);
    size_t count = exhaust(100000, (size_t)1 << 30);
    CHECK(count * 100000 >= 20 << 20, "only %zu blocks", count);
    // Nothing is left: every function says so, and changes nothing.
    char *kept = blocks[0];
    fill(kept, 100000, 1);
    char *huge = NULL;
    errno = 0;
    CHECK(realloc(kept, (size_t)2 << 30) == NULL && errno == ENOMEM, "realloc: errno %d", errno);
    CHECK(calloc(1, (size_t)2 << 30) == NULL, "calloc");
    CHECK(memalign(1 << 20, (size_t)2 << 30) == NULL, "memalign");
    CHECK(posix_memalign((void **)&huge, 4096, (size_t)2 << 30) == ENOMEM, "posix_memalign");
    CHECK(first_difference(kept, 100000, 1) == 100000, "the block changed");
    kept[0] = kept[99999] = 0;
    release(count, 100000);
    malloc_trim(0);
    make_threads(8, 65536);
    exhaust_again_and_again();
    make_threads(8, 65536);
}

CASE(address_space_lowered_after_start) {
    free(malloc(100));
    lower(RLIMIT_AS, "VmSize:");
    live_under_a_limit();
}

CASE(address_space_lowered_after_a_burst) {
    size_t count = exhaust(5000, 100 << 20);
    release(count, 5000);
    lower(RLIMIT_AS, "VmSize:");
    live_under_a_limit();
}

CASE(data_size_lowered_after_start) {
    free(malloc(100));
    lower(RLIMIT_DATA, "VmData:");
    live_under_a_limit();
}

// Many threads run into the limit at once.
static _Atomic int failures;
static void *exhaust_in_thread(void *unused) {
    (void)unused;
    enum { many = 3000 };
    char **mine = malloc(many * sizeof *mine);
    if (mine == NULL) return NULL;
    for (int round = 0; round < 5; round++) {
        int count = 0;
        while (count < many) {
            size_t size = 10000 + count * 37 % 90000;
            errno = 0;
            mine[count] = malloc(size);
            if (mine[count] == NULL) {
                CHECK(errno == ENOMEM, "errno %d", errno);
                failures++;
                break;
            }
            memset(mine[count], count, size);
            count++;
        }
        for (int i = 0; i < count; i++) {
            CHECK(mine[i][0] == (char)i && mine[i][9999] == (char)i, "block %d changed", i);
            free(mine[i]);
        }
    }
    free(mine);
    return NULL;
}

CASE(threads_meet_the_limit_together) {
    enum { threads = 6 };
    pthread_t ids[threads];
    lower(RLIMIT_AS, "VmSize:");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&ids[i], &attributes, exhaust_in_thread, NULL) == 0, "thread");
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    // A round of one thread alone would take more than twice what there is.
    if (failures == 0) not_offered("a refusal at the limit");
    malloc_trim(0);
    // Go on as if nothing had happened.
    for (int i = 0; i < 1000; i++) {
        char *block = malloc(i * 30 + 1);
        CHECK(block != NULL, "malloc(%d)", i * 30 + 1);
        free(block);
    }
}

// ---- a limit below what the process has, while the allocator keeps what was freed

static void lower_below_what_is_kept(int resource) {
    char *kept = malloc((size_t)40 << 20);
    memset(kept, 1, (size_t)40 << 20);
    for (int i = 0; i < 300; i++) memset(malloc(4000), 1, 4000);
    free(kept);
    struct rlimit limit = {20 << 20, 20 << 20};
    CHECK(setrlimit(resource, &limit) == 0, "setrlimit: %s", strerror(errno));
    // Every block can be written to.
    for (int i = 0; i < 3000; i++) {
        char *block = malloc(4000);
        if (block == NULL) break;
        memset(block, 2, 4000);
    }
    char *large = malloc((size_t)50 << 20);
    if (large != NULL) memset(large, 3, (size_t)50 << 20);
}

CASE(address_space_lowered_below_what_is_kept) { lower_below_what_is_kept(RLIMIT_AS); }
CASE(data_size_lowered_below_what_is_kept) { lower_below_what_is_kept(RLIMIT_DATA); }

// ---- for a while, no further mappings can be made

CASE(requests_succeed_again_once_there_are_mappings) {
    static char *large[100];
    for (int i = 0; i < 100; i++) {
        large[i] = malloc((size_t)5 << 20);
        large[i][0] = 1;
    }
    for (int i = 10; i < 90; i += 8) free(large[i]);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 200000;
    char *many = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(many != MAP_FAILED, "mmap");
    for (size_t i = 1; i < pages && mprotect(many + i * page, page, PROT_READ) == 0; i += 2) {
    }
    for (int i = 0; i < 10; i++) {
        if (mmap(NULL, page, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
    }
    free(malloc((size_t)16 << 30));
    free(malloc((size_t)3000 << 20));
    munmap(many, pages * page);
    for (int i = 0; i < 60; i++) {
        char *block = malloc((size_t)(3 + i % 3) << 20);
        CHECK(block != NULL, "request %d fails", i);
        block[0] = 1;
    }
    for (int i = 0; i < 20000; i++) CHECK(malloc(4000) != NULL, "small request %d fails", i);
}
